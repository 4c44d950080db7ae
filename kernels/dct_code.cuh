/* `dct`: from the values of a piece's tiles to their bits. batch.rs and rows.rs do the same, one value of many tiles at a time. */

/* Shared memory of a block. The values, the coefficients and the bits of the tiles are in the same place, one after the other. */
struct Shared {
    union {
        real room[ROOM];
        u32 words[PIECE * sizeof(real) / 4];
    };
    u32 list[PIECE / 4]; /* corrections: place, whether they are negative (bit 12), magnitude less 1 */
    Place places[MOST_TILES];
    u32 raw[MOST_TILES]; /* the tile is to be stored as it is */
    u32 bytes[MOST_TILES];
    u32 offsets[MOST_TILES];
    u64 energies[MOST_TILES];
    u64 scan[THREADS / 32];
    u32 block[33];
    u8 modes[THREADS];
    Quantiser q;
    u64 before, coded_before;
    u32 piece, flag;
};

/* An array, its tiles, and where the coefficients of these are. */
struct Source {
    const real *x, *later;
    const Grid *grid;
    const u16 *order;
};

/* The bits of this thread's tile, as far as this thread has to do with them. */
template <int S> struct Coded {
    i32 values[EACH]; /* coefficients of its rows */
    u8 modes[Tile<S>::own_rows];
    u32 mode_before;  /* of the row before these */
    u32 rows;         /* of the tile, that are stored */
    u32 count;        /* corrections of the tile */
    u64 before, all;  /* bits of its four strings: of the rows before this thread's, and of all: see `pack` */
    u64 rest_before, rest_all; /* bits of the unary strings of corrections: of places, and 32 bits above of magnitudes */
};

/* ---- Values ---- */

/* The tile of the rows that are this thread's; also that of the values whose misses are. */
template <int S> static __device__ __forceinline__ u32 own_tile() { return threadIdx.x / Tile<S>::threads; }

/* Values of a thread that are loaded at a time. */
#define BATCH 8

/* The place of the tile of this thread's i-th value. */
template <int S> static __device__ __forceinline__ const Place *own_place(const Shared *s, u32 i) { return &s->places[own(i) / Tile<S>::values]; }

/* Are all tiles of this warp in the array, with all of their values? */
template <int S> static __device__ __forceinline__ int all_whole(const Shared *s)
{
    const u32 tiles = OF_WARP / Tile<S>::values;
    return __all_sync(~0u, s->places[own(0) / Tile<S>::values + (tiles > 1 ? lane_id() % tiles : 0)].whole);
}

/* Is this thread's i-th value in the array? */
template <int S> static __device__ __forceinline__ int counts(const Shared *s, u32 i)
{
    const Place *place = own_place<S>(s, i);
    return place->there && within<S>(place, own(i) % Tile<S>::values);
}

/* Its value, if it is. */
template <int S> static __device__ __forceinline__ real inside_value(const Shared *s, const Source *from, u32 i)
{
    return load(from->x, from->later, index_of<S>(from->grid, own_place<S>(s, i), offset_of<S>(from->grid, own_first<S>()), i));
}

/* Which of this thread's values from the i-th on are in the array: bit j, the (i + j)-th. */
template <int S> static __device__ __forceinline__ u32 batch_mask(const Shared *s, int whole, u32 i)
{
    if (whole)
        return ~0u;
    u32 mask = 0;
#pragma unroll 1
    for (u32 j = 0; j < BATCH; j++)
        mask |= (u32)counts<S>(s, i + j) << j;
    return mask;
}

/* These values; zeros instead of those that are not in the array. i is a multiple of 8. */
template <int S> static __device__ __forceinline__ void load_batch(const Shared *s, const Source *from, u32 mask, u32 i, real *v)
{
    const u32 values = Tile<S>::values;
    const u64 offset = offset_of<S>(from->grid, own_first<S>()) + offset_of<S>(from->grid, 32 * i % values);
    u64 index[values == 32 ? BATCH : 1];
#pragma unroll
    for (u32 j = 0; j < (values == 32 ? BATCH : 1); j++)
        index[j] = own_place<S>(s, i + j)->first + offset;
#pragma unroll
    for (u32 j = 0; j < BATCH; j++)
        v[j] = mask >> j & 1 ? from->x[index[values == 32 ? j : 0] + offset_of<S>(from->grid, 32 * j % values)] : 0;
    if (!from->later)
        return;
#pragma unroll
    for (u32 j = 0; j < BATCH; j++)
        v[j] = mask >> j & 1 ? from->later[index[values == 32 ? j : 0] + offset_of<S>(from->grid, 32 * j % values)] - v[j] : 0;
}

/* Puts the mirror image of the array where it does not reach. */
template <int S> static __device__ __forceinline__ int fill_up(Shared *s, const Source *from, real small)
{
    int large = 0;
#pragma unroll 1
    for (u32 i = 0; i < EACH; i++) {
        const Place *place = own_place<S>(s, i);
        if (!place->there || counts<S>(s, i))
            continue;
        const real v = load(from->x, from->later, mirrored<S>(from->grid, place, own(i) % Tile<S>::values));
        s->room[at<S>(own(i))] = v;
        large |= !(magnitude_of(v) <= small);
    }
    return large;
}

/* Loads the piece. 0: all coefficients of this thread's tiles would be zeros, and so may the values. */
template <int S> static __device__ __forceinline__ int gather(Shared *s, const Source *from)
{
    real small = s->q.step * (real)0.5 / (real)(i32)Tile<S>::values;
    if (!s->q.rms && s->q.most < small)
        small = 0;
    const int whole = all_whole<S>(s);
    int large = 0;
#pragma unroll 1
    for (u32 i = 0; i < EACH; i += BATCH) {
        real v[BATCH];
        load_batch<S>(s, from, batch_mask<S>(s, whole, i), i, v);
#pragma unroll
        for (u32 j = 0; j < BATCH; j++) {
            s->room[at<S>(own(i + j))] = v[j];
            large |= !(magnitude_of(v[j]) <= small);
        }
    }
    if (!whole)
        large |= fill_up<S>(s, from, small);
    sync<S>();
    return any<S>(large);
}

/* Makes an integer of a scaled coefficient; `wild`: it has none. */
static __device__ __forceinline__ i32 coefficient_of(real y, real inverse, int *wild)
{
    const real scaled = magnitude_of(y) * inverse;
    const int fits = scaled < (real)(LIMIT - 1);
    const i32 magnitude = (i32)((fits ? scaled : 0) + (real)0.45);
    *wild |= !fits;
    return y < 0 ? -magnitude : magnitude;
}

/* Transforms the tiles, puts the coefficients into q, line by line along the last axis, and what they decode to into the room. */
template <int S> static __device__ __forceinline__ void quantise(Shared *s, i32 *q)
{
    const u32 axis = DIMS - 1;
#pragma unroll
    for (u32 a = 0; a < axis; a++) {
        forward_axis<S>(s->room, a);
        if (a + 2 == DIMS)
            sync<S>();
        else
            __syncwarp();
    }
    const real inverse = s->q.inverse, step = s->q.step;
#pragma unroll
    for (u32 h = 0; h < Tile<S>::lines; h++) {
        const u32 first = line_of<S>(h, axis);
        real line[S];
        int wild = 0, some = 0;
        load_line<S>(s->room, first, axis, line);
        forward<S>(line);
#pragma unroll
        for (u32 i = 0; i < S; i++) {
            const i32 c = coefficient_of(line[i], inverse, &wild);
            q[h * S + i] = c;
            some |= c;
            line[i] = (real)c * step;
        }
        if (wild)
            s->raw[first / Tile<S>::values] = 1;
        if (__any_sync(~0u, some != 0))
            backward<S>(line);
        store_line<S>(s->room, first, axis, line);
    }
#pragma unroll
    for (u32 a = 0; a < axis; a++) {
        if (a == 0)
            sync<S>();
        else
            __syncwarp();
        backward_axis<S>(s->room, axis - 1 - a);
    }
    sync<S>();
}

/* ---- Errors ---- */

/* Sums up the squared errors of the tiles, in units of 2^-14 step^2. */
template <int S> static __device__ __forceinline__ void measure(Shared *s, const Source *from)
{
    const real per_step = s->q.per_step;
    const int whole = all_whole<S>(s);
    u64 sum = 0;
#pragma unroll 1
    for (u32 first = 0; first < EACH; first += BATCH) {
        real v[BATCH];
        const u32 inside = batch_mask<S>(s, whole, first);
        load_batch<S>(s, from, inside, first, v);
#pragma unroll
        for (u32 j = 0; j < BATCH; j++) {
            const u32 i = first + j, tile = own(i) / Tile<S>::values;
            const real u = (v[j] - s->room[at<S>(own(i))]) * per_step, square = u * u;
            const int fits = square < (real)1024;
            if (inside >> j & 1) {
                sum += (u32)(i32)((fits ? square : 0) * (real)16384) + 1;
                if (!fits)
                    s->raw[tile] = 1;
            }
            if ((32 * i + 32) % Tile<S>::values == 0 || i + 1 == EACH) {
                sum = warp_sum(sum);
                if (lane_id() == 0)
                    atomicAdd(&s->energies[tile], sum);
                sum = 0;
            }
        }
    }
}

/* Which values of the piece miss the bound: lane i has those that the lanes of its warp have as their i-th. With a bound on the mean
 * square none does, but where one is far off its tile is to be stored as it is. */
template <int S> static __device__ __forceinline__ u32 misses(Shared *s, const Source *from)
{
    const real most = s->q.most, per_step = s->q.per_step;
    const u32 rms = s->q.rms;
    const int whole = all_whole<S>(s);
    u32 mask = 0;
#pragma unroll 1
    for (u32 first = 0; first < EACH; first += BATCH) {
        real v[BATCH];
        const u32 inside = batch_mask<S>(s, whole, first);
        load_batch<S>(s, from, inside, first, v);
#pragma unroll
        for (u32 j = 0; j < BATCH; j++) {
            const u32 i = first + j;
            const real error = v[j] - s->room[at<S>(own(i))], u = error * per_step;
            const int miss = (rms ? !(u * u < (real)1024) : !(magnitude_of(error) <= most)) && (inside >> j & 1);
            const u32 word = __ballot_sync(~0u, miss);
            if (lane_id() == i)
                mask = word;
        }
    }
    if (rms && mask != 0)
        s->raw[own_tile<S>()] = 1;
    sync<S>();
    return rms ? 0 : mask;
}

/* What has to be added to the decoded value d, as an item of the list; `fits`: that does. */
static __device__ __forceinline__ u32 correction(const Quantiser *q, real o, real d, u32 p, int *fits)
{
    const real units = magnitude_of(o - d) * q->per_unit;
    const int few = units < (real)(1 << 20);
    const i32 magnitude = (i32)((few ? units : 0) + (real)0.5), level = o < d ? -magnitude : magnitude;
    const real corrected = d + (real)level * q->unit;
    /* The unary number of one that is larger is longer than any tile. */
    *fits = few && magnitude != 0 && magnitude <= 1 << 19 && magnitude_of(o - corrected) <= q->most;
    return p | (u32)(level < 0) << 12 | (u32)(magnitude - 1) << 13;
}

/* Makes the lists of corrections. Returns how many this thread's tile has. */
template <int S> static __device__ __forceinline__ u32 correct(Shared *s, const Source *from, u32 mask)
{
    const u32 mine = own_tile<S>();
    if (s->raw[mine])
        mask = 0;
    u32 count;
    const u32 before = tile_scan<S>((u32)__popc(mask), &count, s->scan);
    if (count > Tile<S>::most) {
        s->raw[mine] = 1;
        mask = count = 0;
    }
    for (u32 left = __ballot_sync(~0u, mask != 0); left != 0; left &= left - 1) {
        const u32 i = __ffs(left) - 1, word = __shfl_sync(~0u, mask, i), rank = __shfl_sync(~0u, before, i);
        if (word >> lane_id() & 1) {
            const u32 b = own(i), tile = b / Tile<S>::values, p = b % Tile<S>::values;
            int fits;
            const u32 item = correction(&s->q, inside_value<S>(s, from, i), s->room[at<S>(b)], p, &fits);
            s->list[tile * Tile<S>::most + rank + __popc(word & ((1u << lane_id()) - 1))] = item;
            if (!fits)
                s->raw[tile] = 1;
        }
    }
    sync<S>();
    return count;
}

/* log2 of the divisor for the distances of corrections. */
template <int S> static __device__ __forceinline__ u32 distance_bits(u32 count)
{
    const u32 mean = Tile<S>::values * 11 / 16 / (count > 1 ? count : 1);
    return 31 - __clz(mean > 1 ? mean : 1);
}

/* The number of values between correction i and the one before. */
static __device__ __forceinline__ u32 distance(const u32 *list, u32 i)
{
    return (list[i] & 0xFFF) - (i > 0 ? (list[i - 1] & 0xFFF) + 1 : 0);
}

/* This thread's part of the corrections of its tile. */
template <int S> static __device__ __forceinline__ void share(u32 count, u32 *begin, u32 *end)
{
    const u32 threads = Tile<S>::threads, each = (count + threads - 1) / threads;
    *begin = threadIdx.x % threads * each;
    *begin = *begin < count ? *begin : count;
    *end = *begin + each < count ? *begin + each : count;
}

/* ---- Rows ---- */

/* The number whose unary code says how the mode changes. */
static __device__ __forceinline__ u32 change(u32 from, u32 to)
{
    const i32 up = (i32)(to - from);
    return (u32)(2 * up ^ up >> 31);
}

/*
 * `choose` of rows.rs. Zeros become mode 0, or stay groups where naming none takes less than the change does, if a row has 8 coefficients;
 * a sum of one always becomes that mode: the others cost more than the changes could make up for.
 */
template <int R> static __device__ __forceinline__ u32 choose(u32 sum, u32 named, u32 before, int first)
{
    if (sum < 2)
        return sum == 1 ? ONE : R == 8 && !first && before >= GROUPS ? GROUPS : 0;
    const u32 guess = 31 - __clz(sum / R | 1);
    u32 least = ~0u;
    if (sum <= R)
        least = (R / 4 + 4 * __popc(named) + sum + (first ? 0 : change(before, GROUPS))) << 5 | GROUPS;
#pragma unroll
    for (u32 i = 0; i < 3; i++) {
        const u32 k = guess + i > 1 ? guess + i - 1 : 0, high = sum >> k;
        const u32 unary = k == 0 ? sum : high > 3 * R / 8 ? high - 3 * R / 8 : 0;
        const u32 offer = (R * (k + 1) + unary + (first ? 0 : change(before, RICE + k))) << 5 | (RICE + k);
        least = offer < least ? offer : least;
    }
    return least & 31;
}

/* Bits of four strings in one word: modes, fixed bits, unary numbers, signs. No tile has more of any than fits. */
static __device__ __forceinline__ u64 pack(u32 modes, u32 fixed, u32 unary, u32 signs)
{
    return modes | (u64)fixed << 16 | (u64)unary << 34 | (u64)signs << 50;
}
static __device__ __forceinline__ u32 mode_bits(u64 v) { return (u32)v & 0xFFFF; }
static __device__ __forceinline__ u32 fixed_bits(u64 v) { return (u32)(v >> 16) & 0x3FFFF; }
static __device__ __forceinline__ u32 unary_bits(u64 v) { return (u32)(v >> 34) & 0xFFFF; }
static __device__ __forceinline__ u32 sign_bits(u64 v) { return (u32)(v >> 50); }

template <int R> static __device__ __forceinline__ u32 fixed_of(u32 mode)
{
    return mode >= RICE ? R * (mode - RICE) : mode == GROUPS ? R / 4 : mode == ONE ? (R == 16 ? 4 : 3) : 0;
}

/* The mode of the row before this thread's first one, `out` being that of every thread's last; `some`: it has a row that is not zero. */
template <int S> static __device__ __forceinline__ u32 mode_before(Shared *s, u32 out, int some)
{
    const u32 threads = Tile<S>::threads, lane = lane_id();
    if (threads > 32) {
        s->modes[threadIdx.x] = (u8)out;
        __syncthreads();
        return threadIdx.x > 0 ? s->modes[threadIdx.x - 1] : 0;
    }
    /* Rows of zeros in between pass on whether they have groups, so that one step is enough for all of them. */
    const u32 first = lane & ~(threads - 1), before = ((1u << lane) - 1) & ~((1u << first) - 1);
    const u32 nonzero = __ballot_sync(~0u, some) & before, last = nonzero != 0 ? 31 - __clz(nonzero) : lane;
    const u32 mode = __shfl_sync(~0u, out, last);
    return nonzero == 0 ? 0 : last + 1 == lane ? mode : choose<Tile<S>::of_row>(0, 0, mode, 0);
}

/*
 * The modes of all rows. Each depends on the one before, so that a thread begins with a guess and chooses again until none changes: a row
 * that is right makes the next one right, and most do not depend on the one before anyway. Returns the mode before this thread's rows.
 */
template <int S> static __device__ __forceinline__ u32 choose_modes(Shared *s, const u32 *sums, const u32 *named, Coded<S> *c)
{
    const u32 rows = Tile<S>::own_rows, first = threadIdx.x % Tile<S>::threads * rows;
    u32 before;
    int some = 0, changed;
#pragma unroll
    for (u32 k = 0; k < rows; k++)
        some |= sums[k] != 0;
    u32 out = choose<Tile<S>::of_row>(sums[rows - 1], named[rows - 1], 0, 1);
    do {
        before = mode_before<S>(s, out, some);
        u32 mode = before;
#pragma unroll
        for (u32 k = 0; k < rows; k++) {
            mode = choose<Tile<S>::of_row>(sums[k], named[k], mode, first + k == 0);
            c->modes[k] = (u8)mode;
        }
        changed = mode != out;
        out = mode;
    } while (Tile<S>::threads > 1 && any<S>(changed));
    return before;
}

/* Takes this thread's rows from the coefficients q of its lines, chooses the modes, and counts bits. */
template <int S> static __device__ __forceinline__ void code_rows(Shared *s, const Source *from, const i32 *q, Coded<S> *c)
{
    constexpr u32 R = Tile<S>::of_row, rows = Tile<S>::own_rows;
    const u32 first = threadIdx.x % Tile<S>::threads * rows, origin = at<S>(own_tile<S>() * Tile<S>::values);
#pragma unroll
    for (u32 h = 0; h < Tile<S>::lines; h++)
#pragma unroll
        for (u32 i = 0; i < S; i++)
            s->room[at<S>(line_of<S>(h, DIMS - 1)) + at<S>(i << (DIMS - 1) * Tile<S>::log)] = real_of((bits)(u32)q[h * S + i]);
    sync<S>();
    u32 sums[rows], named[rows], end = 0;
    const uint4 *order = (const uint4 *)(from->order + first * R);
#pragma unroll
    for (u32 j = 0; j < EACH; j += 8) {
        const uint4 eight = order[j / 8];
        const u32 two[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
        for (u32 i = 0; i < 8; i++)
            c->values[j + i] = (i32)bits_of(s->room[origin + (two[i / 2] >> 16 * (i % 2) & 0xFFFF)]);
    }
#pragma unroll
    for (u32 k = 0; k < rows; k++) {
        sums[k] = named[k] = 0;
#pragma unroll
        for (u32 i = 0; i < R; i += 4) {
            const i32 *v = c->values + k * R + i;
            sums[k] += (u32)abs(v[0]) + (u32)abs(v[1]) + (u32)abs(v[2]) + (u32)abs(v[3]);
            named[k] |= (u32)((v[0] | v[1] | v[2] | v[3]) != 0) << i / 4;
        }
        end = sums[k] != 0 ? first + k + 1 : end;
    }
    c->rows = tile_max<S>(end, s->scan);
    u32 before = c->mode_before = choose_modes<S>(s, sums, named, c);
    u64 size = 0;
#pragma unroll
    for (u32 k = 0; k < rows; k++) {
        const u32 mode = c->modes[k];
        u32 unary = mode == GROUPS ? sums[k] + 4 * __popc(named[k]) : mode >= RICE ? R : 0, signs = 0;
#pragma unroll
        for (u32 i = 0; i < R; i++) {
            signs += c->values[k * R + i] != 0;
            unary += mode >= RICE ? (u32)abs(c->values[k * R + i]) >> (mode - RICE) : 0;
        }
        if (first + k < c->rows)
            size += pack(first + k == 0 ? 5 : change(before, mode) + 1, fixed_of<R>(mode), unary, signs);
        before = mode;
    }
    c->before = tile_scan<S>(size, &c->all, s->scan);
}

/* Bits before the strings: rows, and the number of corrections. */
template <int S> static __device__ __forceinline__ u32 head_bits(u32 count) { return Tile<S>::row_bits + 2 * (31 - __clz(count + 4)) - 1; }

template <int S> static __device__ __forceinline__ u32 corrections_at(const Coded<S> *c)
{
    return head_bits<S>(c->count) + mode_bits(c->all) + fixed_bits(c->all) + unary_bits(c->all) + sign_bits(c->all);
}

/* Codes the piece as far as its sizes: s->bytes of the tiles, and s->raw. */
template <int S> static __device__ __forceinline__ void code(Shared *s, const Source *from, Coded<S> *c)
{
    const u32 mine = own_tile<S>();
    if (!gather<S>(s, from)) {
        if (threadIdx.x % Tile<S>::threads == 0)
            s->bytes[mine] = 0;
        c->rows = c->count = 0;
        return;
    }
    i32 q[EACH];
    quantise<S>(s, q);
    c->count = correct<S>(s, from, misses<S>(s, from));
    code_rows<S>(s, from, q, c);
    const u32 *list = s->list + mine * Tile<S>::most, k = distance_bits<S>(c->count);
    u64 rest = 0;
    c->rest_before = c->rest_all = 0;
    if (any<S>(c->count > 0)) {
        u32 i, end;
        for (share<S>(c->count, &i, &end); i < end; i++)
            rest += (distance(list, i) >> k) + 1 + ((u64)((list[i] >> 13) + 1) << 32);
        c->rest_before = tile_scan<S>(rest, &c->rest_all, s->scan);
    }
    const u64 size = (u64)corrections_at<S>(c) + (u64)c->count * (k + 1) + (u32)c->rest_all + (c->rest_all >> 32), bytes = (size + 7) / 8;
    const u32 most = values_inside(&s->places[mine]) * (u32)sizeof(real);
    if (threadIdx.x % Tile<S>::threads == 0) {
        if (bytes >= most && s->places[mine].there)
            s->raw[mine] = 1;
        s->bytes[mine] = s->raw[mine] ? most : c->rows == 0 && c->count == 0 ? 0 : (u32)bytes;
    }
}

/* ---- Bits ---- */

/* Appends bits to a string whose words other threads write, too. */
struct Pen {
    u32 *words;
    u32 used, word;
};

static __device__ __forceinline__ Pen pen_at(u32 *words, u32 at) { return Pen{words + at / 32, at % 32, 0}; }

static __device__ __forceinline__ void flush(Pen *pen)
{
    if (pen->word != 0)
        atomicOr(pen->words, pen->word);
}

/* Appends the lowest `count` < 32 bits, of which there are no others. */
static __device__ __forceinline__ void put(Pen *pen, u32 value, u32 count)
{
    const u64 both = (u64)value << pen->used;
    pen->word |= (u32)both;
    pen->used += count;
    if (pen->used >= 32) {
        flush(pen);
        pen->words++;
        pen->used -= 32;
        pen->word = (u32)(both >> 32);
    }
}

/* Appends so many zeros and a one. A word that is full then waits for the next. */
static __device__ __forceinline__ void unary(Pen *pen, u32 zeros)
{
    pen->used += zeros;
    if (pen->used >= 32) {
        flush(pen);
        pen->words += pen->used / 32;
        pen->used %= 32;
        pen->word = 0;
    }
    pen->word |= 1u << pen->used++;
}

/* The lowest bits of four magnitudes. */
static __device__ __forceinline__ void put_four(Pen *pen, const u32 *a, u32 count)
{
    const u32 mask = (1u << count) - 1;
    if (count < 8)
        return put(pen, (a[0] & mask) | (a[1] & mask) << count | (a[2] & mask) << 2 * count | (a[3] & mask) << 3 * count, 4 * count);
#pragma unroll
    for (u32 j = 0; j < 4; j++)
        put(pen, a[j] & mask, count);
}

/* This thread's rows. `begin`: the first bit of the tile. */
template <int S> static __device__ __forceinline__ void write_rows(Shared *s, const Coded<S> *c, u32 begin)
{
    constexpr u32 R = Tile<S>::of_row;
    const u32 first = threadIdx.x % Tile<S>::threads * Tile<S>::own_rows;
    u32 from = begin + head_bits<S>(c->count), before = c->mode_before;
    Pen modes = pen_at(s->words, from + mode_bits(c->before));
    Pen fixed = pen_at(s->words, (from += mode_bits(c->all)) + fixed_bits(c->before));
    Pen numbers = pen_at(s->words, (from += fixed_bits(c->all)) + unary_bits(c->before));
    Pen signs = pen_at(s->words, (from += unary_bits(c->all)) + sign_bits(c->before));
#pragma unroll
    for (u32 k = 0; k < Tile<S>::own_rows; k++) {
        if (first + k >= c->rows)
            break;
        const u32 mode = c->modes[k];
        if (first + k == 0)
            put(&modes, mode, 5);
        else
            unary(&modes, change(before, mode));
        before = mode;
        u32 named = 0, place = 0, negative = 0, nonzero = 0;
#pragma unroll
        for (u32 i = 0; i < R; i++) {
            const i32 v = c->values[k * R + i];
            named |= (u32)(v != 0) << i / 4;
            place += v != 0 ? i : 0;
            negative |= (u32)(v < 0) << nonzero;
            nonzero += v != 0;
        }
        if (mode == ONE || mode == GROUPS)
            put(&fixed, mode == ONE ? place : named, fixed_of<R>(mode));
        const u32 low = mode >= RICE ? mode - RICE : 0, used = mode >= RICE ? 15 : mode == GROUPS ? named : 0;
#pragma unroll
        for (u32 i = 0; i < R; i += 4) {
            u32 a[4];
#pragma unroll
            for (u32 j = 0; j < 4; j++)
                a[j] = (u32)abs(c->values[k * R + i + j]);
            if (low > 0)
                put_four(&fixed, a, low);
            if (used >> i / 4 & 1) {
#pragma unroll
                for (u32 j = 0; j < 4; j++)
                    unary(&numbers, a[j] >> low);
            }
        }
        put(&signs, negative, nonzero);
    }
    flush(&modes);
    flush(&fixed);
    flush(&numbers);
    flush(&signs);
}

/* This thread's part of the corrections, which begin at bit `begin`. */
template <int S> static __device__ __forceinline__ void write_corrections(Shared *s, const Coded<S> *c, u32 begin)
{
    const u32 *list = s->list + own_tile<S>() * Tile<S>::most, k = distance_bits<S>(c->count);
    u32 i, end, from = begin;
    share<S>(c->count, &i, &end);
    Pen low = pen_at(s->words, from + i * k);
    Pen rest = pen_at(s->words, (from += c->count * k) + (u32)c->rest_before);
    Pen magnitudes = pen_at(s->words, (from += (u32)c->rest_all) + (u32)(c->rest_before >> 32));
    Pen signs = pen_at(s->words, (from += (u32)(c->rest_all >> 32)) + i);
    for (; i < end; i++) {
        const u32 by = distance(list, i);
        put(&low, by & ((1u << k) - 1), k);
        unary(&rest, by >> k);
        unary(&magnitudes, list[i] >> 13);
        put(&signs, list[i] >> 12 & 1, 1);
    }
    flush(&low);
    flush(&rest);
    flush(&magnitudes);
    flush(&signs);
}

/* The tiles of the piece that are to be stored as they are. */
template <int S> static __device__ __forceinline__ void write_raw(Shared *s, const Source *from)
{
    for (u32 i = 0; i < EACH; i++) {
        const u32 b = own(i), tile = b / Tile<S>::values, p = b % Tile<S>::values;
        const Place *place = &s->places[tile];
        if (!s->raw[tile] || !within<S>(place, p))
            continue;
        const bits value = bits_of(inside_value<S>(s, from, i));
        Pen pen = pen_at(s->words, 8 * (s->offsets[tile] + rank_inside<S>(place, p) * (u32)sizeof(real)));
        for (u32 part = 0; part < 2 * sizeof(real); part += 4)
            put(&pen, (u32)(value >> 4 * part) & 0xFFFF, 16);
        flush(&pen);
    }
}

/* Writes the bits of the piece's tiles into the room, all of which is zero. */
template <int S> static __device__ __forceinline__ void write(Shared *s, const Source *from, const Coded<S> *c)
{
    const u32 mine = own_tile<S>(), begin = 8 * s->offsets[mine];
    if (!s->raw[mine] && s->bytes[mine] != 0) {
        if (threadIdx.x % Tile<S>::threads == 0) {
            const u32 count = c->count + 4, size = 31 - __clz(count);
            Pen pen = pen_at(s->words, begin);
            put(&pen, c->rows, Tile<S>::row_bits);
            unary(&pen, size - 2);
            put(&pen, count & ((1u << size) - 1), size);
            flush(&pen);
        }
        write_rows<S>(s, c, begin);
        if (c->count > 0)
            write_corrections<S>(s, c, begin + corrections_at<S>(c));
    }
    write_raw<S>(s, from);
}
