/*
 * The codec dct: what its kernels share. src/codec/dct describes the format and defines the terms.
 *
 * A block works on a piece of 4096 values: one tile of 16^3 values, or several smaller tiles, one
 * after the other. A warp works on an equal part of the piece; if tiles are not larger than this
 * part, warps do not wait for each other. The number of a value in the piece counts the tiles one
 * behind the other; its place in shared memory is `at` of this number.
 */
#ifndef DIMS
#define DIMS 3
#endif
#if DIMS == 3
#define LARGE 16
#define SMALL 8
#define THREADS 256
#elif DIMS == 2
#define LARGE 32
#define SMALL 16
#define THREADS 128
#else
#define LARGE 32
#define SMALL 32
#define THREADS 128
#endif
/*
 * The registers of a multiprocessor must suffice for at least this number of blocks: BLOCKS that
 * decode, ENCODERS that compress, which need more registers.
 */
#define BLOCKS (FP64 ? 2 : 4)
#define ENCODERS ((FP64 ? 2 : 3) - (DIMS == 3))

/* Values of a piece, of a thread and of a warp. */
#define PIECE 4096
#define EACH (PIECE / THREADS)
#define OF_WARP (32 * EACH)
#define MOST_TILES (PIECE / (DIMS == 3 ? 512 : DIMS == 2 ? 256 : 32))

/* Elements of shared memory for the values of a piece, padding included. */
#define ROOM (PIECE + PIECE / (DIMS == 3 ? 8 : DIMS == 2 ? 16 : 32))

/* Bytes of the header, which precedes the directory. */
#define HEAD 24
/* The magnitudes of all coefficients are below this limit. */
#define LIMIT (1 << 28)
/* Unary numbers are less than this limit. */
#define LONGEST (1 << 15)
/* Stands for a raw tile in the array of lengths. */
#define RAW (~0u)
/* Modes of rows; mode RICE + k has k fixed bits per coefficient. */
#define ONE 1
#define GROUPS 2
#define RICE 3

/* Constants of a tile of side S. */
template <int S> struct Tile {
    static constexpr u32 log = S == 8 ? 3 : S == 16 ? 4 : 5;
    static constexpr u32 values = DIMS == 3 ? S * S * S : DIMS == 2 ? S * S : S;
    static constexpr u32 of_row = values == 4096 ? 16 : 8;
    static constexpr u32 rows = values / of_row;
    static constexpr u32 row_bits = values == 4096 ? 9 : DIMS == 3 ? 7 : S == 16 ? 6 : DIMS == 2 ? 8 : 3;
    static constexpr u32 most = values / 4; /* largest number of corrections */
    static constexpr u32 count = PIECE / values;     /* tiles of a piece */
    /* threads of a tile: all of the block, or at most a warp */
    static constexpr u32 threads = THREADS / count;
    static constexpr u32 own_rows = EACH / of_row;   /* rows of a thread */
    static constexpr u32 lines = EACH / S;
};

/* The tiling of an array with tiles of one side. The host fills this in: src/codec/dct/gpu.rs. */
struct Grid {
    u64 tiles;     /* number of tiles, below 2^32 */
    u64 m[3];      /* number of tiles along the axes of the array */
    u64 step[3];   /* distance between neighbouring tiles, in values */
    u64 axis[3];   /* the axes of the array that are the axes of a tile */
    u64 n[3];      /* extents of the array along these axes */
    u64 stride[3]; /* distance between neighbouring values along them */
    u64 longest;   /* bytes of the longest directory */
};

struct Tables {
    Grid grids[2]; /* tilings with the larger and with the smaller side */
    /* number of smaller tiles in a larger one along the axes of the array */
    u64 parts[3];
    u64 sample;    /* number of larger tiles in the sample */
    u64 values;
    u64 spare;
    /* places in shared memory of the coefficients of a tile, by increasing frequency */
    u16 order[2][PIECE];
};

/* Where a tile of the piece is in the array. */
struct Place {
    u64 first;     /* index of its first value */
    u32 inside[3]; /* extents of the part inside the array */
    u32 front;     /* bit a is set: the tile is the first along axis a */
    u32 there;     /* 1: the tile exists */
    u32 whole;     /* 1: all of the tile is inside the array */
};

/* ---- Shared memory ---- */

/*
 * Returns the place in shared memory of value b of a piece. Lines are padded by one element;
 * without padding, the lines along one of the axes would all begin in the same bank. If a and b
 * have no common bit, at(a + b) = at(a) + at(b): the places of a line's values have constant
 * distances from the place of its first value.
 */
template <int S> static __device__ __forceinline__ u32 at(u32 b) { return b + (b >> Tile<S>::log); }

static __device__ __forceinline__ u32 warp_id() { return threadIdx.x / 32; }

/*
 * Returns the number in the piece of this thread's i-th value; neighbouring lanes have neighbouring
 * values.
 */
static __device__ __forceinline__ u32 own(u32 i) { return warp_id() * OF_WARP + 32 * i + lane_id(); }

/*
 * Returns the number in its tile of this thread's value 0. The number of value i is larger by 32 i
 * (in this tile or a later one); the two numbers have no common bit.
 */
template <int S> static __device__ __forceinline__ u32 own_first() { return own(0) % Tile<S>::values; }

/* Returns the number of value 0 of this thread's h-th line along an axis of the tiles. */
template <int S> static __device__ __forceinline__ u32 line_of(u32 h, u32 axis)
{
    const u32 line = warp_id() * (OF_WARP / S) + 32 * h + lane_id(), log = axis * Tile<S>::log;
    return (line >> log) << (log + Tile<S>::log) | (line & ((1u << log) - 1));
}

/* Waits for the threads that work on the same tile. */
template <int S> static __device__ __forceinline__ void sync()
{
    if (Tile<S>::threads > 32)
        __syncthreads();
    else
        __syncwarp();
}

/*
 * Returns true if `yes` is true in one of the threads of the tile (or in another thread of the
 * warp).
 */
template <int S> static __device__ __forceinline__ int any(int yes)
{
    return Tile<S>::threads > 32 ? __syncthreads_or(yes) : __any_sync(~0u, yes);
}

/*
 * Returns the sum of v over the threads of the tile before this one; *all: the sum over all its
 * threads. `room`: one word per warp.
 */
template <int S, class T> static __device__ __forceinline__ T tile_scan(T v, T *all, u64 *room)
{
    const u32 threads = Tile<S>::threads, width = threads < 32 ? threads : 32;
    T sum = v;
#pragma unroll
    for (u32 by = 1; by < width; by *= 2) {
        const T other = __shfl_up_sync(~0u, sum, by, width);
        if ((lane_id() & (width - 1)) >= by)
            sum += other;
    }
    T total = __shfl_sync(~0u, sum, width - 1, width), before = sum - v;
    if (threads > 32) {
        __syncthreads();
        if (lane_id() == 0)
            room[warp_id()] = (u64)total;
        __syncthreads();
        total = 0;
#pragma unroll
        for (u32 w = 0; w < THREADS / 32; w++) {
            const T of_warp = (T)room[w];
            before += w < warp_id() ? of_warp : 0;
            total += of_warp;
        }
    }
    *all = total;
    return before;
}

template <int S> static __device__ __forceinline__ u32 tile_max(u32 v, u64 *room)
{
    const u32 threads = Tile<S>::threads, width = threads < 32 ? threads : 32;
#pragma unroll
    for (u32 by = 1; by < width; by *= 2) {
        const u32 other = __shfl_xor_sync(~0u, v, by);
        v = other > v ? other : v;
    }
    if (threads > 32) {
        __syncthreads();
        if (lane_id() == 0)
            room[warp_id()] = v;
        __syncthreads();
#pragma unroll
        for (u32 w = 0; w < THREADS / 32; w++)
            v = (u32)room[w] > v ? (u32)room[w] : v;
    }
    return v;
}

/* ---- Tiles ---- */

template <int S> static __device__ __forceinline__ Place place_of(const Grid *grid, u32 tile)
{
    Place place = {0, {1, 1, 1}, 0, 0, 0};
    if (tile >= grid->tiles)
        return place;
    const u32 m0 = (u32)grid->m[0], m1 = (u32)grid->m[1], row = tile / m0, of[3] = {tile % m0, row % m1, row / m1};
    place.first = of[0] * grid->step[0] + of[1] * grid->step[1] + of[2] * grid->step[2];
    place.there = place.whole = 1;
#pragma unroll
    for (u32 a = 0; a < DIMS; a++) {
        const u32 axis = (u32)grid->axis[a], number = axis == 0 ? of[0] : axis == 1 ? of[1] : of[2];
        const u64 rest = grid->n[a] - (u64)number * S;
        place.inside[a] = rest < S ? (u32)rest : S;
        place.front |= (u32)(number == 0) << a;
        place.whole &= place.inside[a] == S;
    }
    return place;
}

static __device__ __forceinline__ u32 values_inside(const Place *place) { return place->inside[0] * place->inside[1] * place->inside[2]; }

template <int S> static __device__ __forceinline__ u32 coordinate(u32 p, u32 a) { return p >> a * Tile<S>::log & (S - 1); }

/* Returns true if value p of a tile is inside the array. */
template <int S> static __device__ __forceinline__ int within(const Place *place, u32 p)
{
    int yes = 1;
#pragma unroll
    for (u32 a = 0; a < DIMS; a++)
        yes &= coordinate<S>(p, a) < place->inside[a];
    return yes;
}

/* Returns the number of value p among the values of its tile that are inside the array. */
template <int S> static __device__ __forceinline__ u32 rank_inside(const Place *place, u32 p)
{
    u32 rank = 0;
#pragma unroll
    for (int a = DIMS - 1; a >= 0; a--)
        rank = rank * place->inside[a] + coordinate<S>(p, a);
    return rank;
}

/* Returns the distance in the array between value p of a tile and the tile's first value. */
template <int S> static __device__ __forceinline__ u64 offset_of(const Grid *grid, u32 p)
{
    u64 offset = 0;
#pragma unroll
    for (u32 a = 0; a < DIMS; a++)
        offset += coordinate<S>(p, a) * grid->stride[a];
    return offset;
}

/*
 * Returns the index of this thread's i-th value, which is inside the array. `offset` is `offset_of`
 * of the thread's value 0.
 */
template <int S> static __device__ __forceinline__ u64 index_of(const Grid *grid, const Place *place, u64 offset, u32 i)
{
    return place->first + offset + offset_of<S>(grid, 32 * i % Tile<S>::values);
}

/*
 * Returns the index of the value that stands for value p of a tile when the array is continued by
 * its mirror image.
 */
template <int S> static __device__ __forceinline__ u64 mirrored(const Grid *grid, const Place *place, u32 p)
{
    u64 index = place->first;
#pragma unroll
    for (u32 a = 0; a < DIMS; a++) {
        const u32 n = place->inside[a];
        u32 i = coordinate<S>(p, a);
        if (i >= n && place->front >> a & 1)
            i %= 2 * n;
        index += (u64)(i < n ? (i64)i : 2 * (i64)n - 1 - (i64)i) * grid->stride[a];
    }
    return index;
}

static __device__ __forceinline__ real magnitude_of(real x) { return real_of(bits_of(x) & ~((bits)1 << (8 * sizeof(real) - 1))); }

/* ---- Strings of bits ---- */

/* Returns the number of fixed bits of a row of R coefficients in a mode. */
template <int R> static __device__ __forceinline__ u32 fixed_of(u32 mode)
{
    return mode >= RICE ? R * (mode - RICE) : mode == GROUPS ? R / 4 : mode == ONE ? (R == 16 ? 4 : 3) : 0;
}

/* Returns log2 of the divisor of the distances between corrections. */
template <int S> static __device__ __forceinline__ u32 distance_bits(u32 count)
{
    const u32 mean = Tile<S>::values * 11 / 16 / (count > 1 ? count : 1);
    return 31 - __clz(mean > 1 ? mean : 1);
}

/* ---- Quantiser ---- */

/* Quantiser of src/codec/dct/quantiser.rs. */
struct Quantiser {
    real step, inverse, unit, per_unit, most, per_step;
    u32 fits; /* 1: all factors are normal numbers of the type */
    u32 rms;  /* 1: squared errors are summed up, and there are no corrections */
};

static __device__ __forceinline__ int is_normal(real x)
{
#if FP64
    const double least = 2.2250738585072014e-308, top = 1.7976931348623157e308;
#else
    const double least = 1.1754943508222875e-38, top = 3.4028234663852886e38;
#endif
    const double a = magnitude_of(x);
    return a > least && a <= top;
}

template <int S> static __device__ __forceinline__ Quantiser quantiser_of(double step, double unit, double most, u32 rms)
{
    const double axis = S == 8 ? 0.5 : S == 16 ? 0.7071067811865476 / 2.0 : 0.25;
    const double scale = DIMS == 3 ? axis * axis * axis : DIMS == 2 ? axis * axis : axis;
    const double rest = FP64 ? 1.0 / 1125899906842624.0 : 1.0 / 4194304.0;
    Quantiser q;
    q.step = (real)(step * scale);
    q.inverse = (real)(scale / step);
    q.unit = (real)unit;
    q.per_unit = (real)(1.0 / unit);
    q.most = (real)(most * (1.0 - rest));
    q.per_step = (real)(1.0 / step);
    q.fits = is_normal(q.step) && is_normal(q.inverse) && is_normal(q.per_step) && (rms || (is_normal(q.unit) && is_normal(q.per_unit)));
    q.rms = rms;
    return q;
}

/* ---- Transform, as in src/codec/dct/transform.rs ---- */

/* Returns cos(pi j / 64). */
static __device__ __forceinline__ real cosine(int j)
{
    constexpr double table[33] = {
        1.0, 0.9987954562051724, 0.9951847266721969, 0.989176509964781, 0.9807852804032304, 0.970031253194544, 0.9569403357322088,
        0.9415440651830208, 0.9238795325112867, 0.9039892931234433, 0.881921264348355, 0.8577286100002721, 0.8314696123025452,
        0.8032075314806449, 0.773010453362737, 0.7409511253549591, 0.7071067811865476, 0.6715589548470184, 0.6343932841636455,
        0.5956993044924334, 0.5555702330196022, 0.5141027441932218, 0.47139673682599764, 0.4275550934302821, 0.3826834323650898,
        0.33688985339222005, 0.2902846772544624, 0.2429801799032639, 0.19509032201612828, 0.14673047445536175, 0.0980171403295606,
        0.049067674327418015, 0.0};
    return (real)table[j];
}

/* DCT-II (`second`), its transpose (`third`) and DCT-IV (`fourth`) of N values. */
template <int N> struct Dct {
    static __device__ __forceinline__ void second(const real *x, real *y)
    {
        real sums[N / 2], differences[N / 2], even[N / 2], odd[N / 2];
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            sums[i] = x[i] + x[N - 1 - i];
            differences[i] = x[i] - x[N - 1 - i];
        }
        Dct<N / 2>::second(sums, even);
        Dct<N / 2>::fourth(differences, odd);
#pragma unroll
        for (int k = 0; k < N / 2; k++) {
            y[2 * k] = even[k];
            y[2 * k + 1] = odd[k];
        }
    }

    static __device__ __forceinline__ void third(const real *x, real *y)
    {
        real a[N / 2], b[N / 2], even[N / 2], odd[N / 2];
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            a[i] = x[2 * i];
            b[i] = x[2 * i + 1];
        }
        Dct<N / 2>::third(a, even);
        Dct<N / 2>::fourth(b, odd);
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            y[i] = even[i] + odd[i];
            y[N - 1 - i] = even[i] - odd[i];
        }
    }

    static __device__ __forceinline__ void fourth(const real *x, real *y)
    {
        real a[N / 2], b[N / 2], p[N / 2], q[N / 2];
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            const int angle = (2 * i + 1) * (16 / N);
            a[i] = x[i] * cosine(angle) + x[N - 1 - i] * cosine(32 - angle);
            const real c = x[i] * cosine(32 - angle), d = x[N - 1 - i] * cosine(angle);
            b[i] = i % 2 == 0 ? c - d : d - c;
        }
        Dct<N / 2>::second(a, p);
        Dct<N / 2>::second(b, q);
        y[0] = p[0];
        y[N - 1] = q[0];
#pragma unroll
        for (int k = 1; k < N - 1; k++)
            y[k] = k % 2 == 0 ? p[k / 2] - q[N / 2 - k / 2] : p[k / 2 + 1] + q[N / 2 - 1 - k / 2];
    }
};

template <> struct Dct<2> {
    static __device__ __forceinline__ void second(const real *x, real *y)
    {
        y[0] = x[0] + x[1];
        y[1] = (x[0] - x[1]) * cosine(16);
    }

    static __device__ __forceinline__ void third(const real *x, real *y)
    {
        const real odd = x[1] * cosine(16);
        y[0] = x[0] + odd;
        y[1] = x[0] - odd;
    }

    static __device__ __forceinline__ void fourth(const real *x, real *y)
    {
        y[0] = x[0] * cosine(8) + x[1] * cosine(24);
        y[1] = x[0] * cosine(24) - x[1] * cosine(8);
    }
};

/* Transforms one line in place. */
template <int S> static __device__ __forceinline__ void forward(real *line)
{
    real y[S];
    Dct<S>::second(line, y);
    y[0] = y[0] * cosine(16);
#pragma unroll
    for (int i = 0; i < S; i++)
        line[i] = y[i];
}

template <int S> static __device__ __forceinline__ void backward(real *line)
{
    real y[S];
    line[0] = line[0] * cosine(16);
    Dct<S>::third(line, y);
#pragma unroll
    for (int i = 0; i < S; i++)
        line[i] = y[i];
}

template <int S> static __device__ __forceinline__ void load_line(const real *room, u32 first, u32 axis, real *line)
{
#pragma unroll
    for (u32 i = 0; i < S; i++)
        line[i] = room[at<S>(first) + at<S>(i << axis * Tile<S>::log)];
}

template <int S> static __device__ __forceinline__ void store_line(real *room, u32 first, u32 axis, const real *line)
{
#pragma unroll
    for (u32 i = 0; i < S; i++)
        room[at<S>(first) + at<S>(i << axis * Tile<S>::log)] = line[i];
}

/* Transforms all lines along one axis. */
template <int S> static __device__ __forceinline__ void forward_axis(real *room, u32 axis)
{
#pragma unroll 1
    for (u32 h = 0; h < Tile<S>::lines; h++) {
        real line[S];
        load_line<S>(room, line_of<S>(h, axis), axis, line);
        forward<S>(line);
        store_line<S>(room, line_of<S>(h, axis), axis, line);
    }
}

/* Transforms all lines back along one axis. Lines of zeros stay zero and are skipped. */
template <int S> static __device__ __forceinline__ void backward_axis(real *room, u32 axis)
{
#pragma unroll 1
    for (u32 h = 0; h < Tile<S>::lines; h++) {
        real line[S];
        bits some = 0;
        load_line<S>(room, line_of<S>(h, axis), axis, line);
#pragma unroll
        for (u32 i = 0; i < S; i++)
            some |= bits_of(line[i]);
        if (__any_sync(~0u, some != 0)) {
            backward<S>(line);
            store_line<S>(room, line_of<S>(h, axis), axis, line);
        }
    }
}
