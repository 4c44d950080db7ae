/*
 * The codec zfp; src/codec/zfp describes the format and defines the terms. A thread codes one block
 * of 4^D values, which are in registers for the transform. Neighbouring lanes of a warp have
 * neighbouring blocks in x, so that the same row of 4 of all of them is one access to consecutive
 * addresses. The bit planes are in shared memory, one row of it per thread: which plane comes next
 * depends on the values, and registers cannot be indexed. The rows have an odd number of words, so
 * that the lanes of a warp use different banks.
 */
#if FP64
typedef i64 Int;
#define EXPONENT 11
#define DIGITS 53
#else
typedef i32 Int;
#define EXPONENT 8
#define DIGITS 24
#endif
#define WIDTH (8 * (u32)sizeof(real))
#define BIAS ((1u << (EXPONENT - 1)) - 1)
/* The smallest biased exponent whose factor to fixed point is finite. */
#define LEAST (WIDTH - 2)

/*
 * Threads of a block for D dimensions. The rows of shared memory of all threads must take less than
 * 48 KB. Multiples of 64, so that the blocks of values of a block of threads fill whole words of
 * the stream.
 */
#define THREADS 128
#if FP64
#define THREADS_3 64
#else
#define THREADS_3 128
#endif
/*
 * For 3-D, the number of blocks of threads for which a multiprocessor has shared memory; registers
 * are limited to allow as many blocks. The decoder of FP32 uses one block less: this leaves memory
 * to the L1 cache, through which the decoder reads the stream.
 */
#if __CUDA_ARCH__ >= 900
#define BLOCKS_3 6
#else
#define BLOCKS_3 4
#endif

template <int D> struct Spec {
    static const u32 SIZE = 1u << 2 * D;
    /* A block with the biased exponent e has min(WIDTH, e + PLANES) bit planes. */
    static const u32 PLANES = 1074 + 2 * (D + 1) - BIAS;
    /*
     * Word of a row at which the planes begin. In 3-D the code of a block overwrites planes that
     * have been read: a plane takes at most 64 bits and one bit for every coefficient that becomes
     * significant, so that all planes so far and the head take at most two words more than the
     * planes themselves. In 1-D and 2-D all of the code fits in front of the planes.
     */
    static const u32 FIRST = D == 3 ? 2 : SIZE * WIDTH / 32 + 3;
    static const u32 WORDS = D == 2 ? 32 : SIZE * WIDTH / 32;
    static const u32 ROW = (FIRST + WORDS) | 1;
    /* Words of a row that has only planes. */
    static const u32 PLANE_ROW = WORDS | 1;
};

/* The type of a plane: 64 coefficients in 3-D, fewer otherwise. */
template <int D> struct PlaneOf { typedef u32 type; };
template <> struct PlaneOf<3> { typedef u64 type; };

/*
 * Returns the place of the i-th coefficient by total sequency: `ORDER_1` to `ORDER_3` of
 * src/codec/zfp/lanes.rs.
 */
template <int D> static __device__ __forceinline__ u32 order(u32 i)
{
    constexpr u8 plane[16] = {0, 1, 4, 5, 2, 8, 6, 9, 3, 12, 10, 7, 13, 11, 14, 15};
    constexpr u8 cube[64] = {
        0, 1, 4, 16, 20, 17, 5, 2, 8, 32, 21, 6, 18, 24, 9, 33, 36, 3, 12, 48, 22, 25, 37, 40, 34, 10, 7, 19, 28, 13, 49, 52,
        41, 38, 26, 23, 29, 53, 11, 35, 44, 14, 50, 56, 42, 27, 39, 45, 30, 54, 57, 60, 51, 15, 43, 46, 58, 61, 55, 31, 62, 59, 47, 63,
    };
    return D == 1 ? i : D == 2 ? plane[i % 16] : cube[i];
}

static __device__ __forceinline__ u32 low(u32 n) { return n >= 32 ? ~0u : (1u << n) - 1; }
static __device__ __forceinline__ u64 low_of_64(u32 n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }

/* ---- Blocks of an array ---- */

struct __align__(16) Four {
    real v[4];
};

struct Block {
    u64 first;  /* index of the block's first value */
    u32 n[3];   /* extents of the block inside the array */
};

template <int D> static __device__ __forceinline__ u64 blocks_of(Extents n)
{
    u64 blocks = 1;
    for (u32 a = 0; a < D; a++)
        blocks *= (n.n[a] + 3) / 4;
    return blocks;
}

template <int D> static __device__ __forceinline__ Block block_at(Extents n, u64 number)
{
    Block b = {0, {1, 1, 1}};
    u64 stride = 1;
    for (u32 a = 0; a < D; a++) {
        const u64 blocks = (n.n[a] + 3) / 4, at = a + 1 < D ? number % blocks : number;
        b.n[a] = n.n[a] - 4 * at < 4 ? (u32)(n.n[a] - 4 * at) : 4;
        b.first += 4 * at * stride;
        stride *= n.n[a];
        number /= blocks;
    }
    return b;
}

/*
 * Returns the index of the value that stands for value i of a row of 4, where n values are inside
 * the array.
 */
static __device__ __forceinline__ u32 padded(u32 i, u32 n) { return i < n ? i : i == 3 ? 0 : n - 1; }

/* Returns true if rows of 4 values can be loaded and stored at once. */
static __device__ __forceinline__ int is_aligned(const real *x, Extents n) { return (u64)x % 16 == 0 && n.n[0] % 4 == 0; }

/* Loads row r of a block; values outside the array are padded. */
static __device__ __forceinline__ Four load_row(const real *x, Extents n, const Block &b, u32 r, int aligned)
{
    const real *from = x + b.first + n.n[0] * (padded(r % 4, b.n[1]) + n.n[1] * padded(r / 4, b.n[2]));
    if (aligned)
        return *(const Four *)from;
    Four f;
#pragma unroll
    for (u32 i = 0; i < 4; i++)
        f.v[i] = from[padded(i, b.n[0])];
    return f;
}

/* Returns value i of a block from the words of its thread. */
static __device__ __forceinline__ real staged(const u32 *words, u32 i)
{
#if FP64
    return real_of(words[2 * i] | (u64)words[2 * i + 1] << 32);
#else
    return real_of(words[i]);
#endif
}

static __device__ __forceinline__ void stage(u32 *words, u32 i, real v)
{
#if FP64
    words[2 * i] = (u32)bits_of(v);
    words[2 * i + 1] = (u32)(bits_of(v) >> 32);
#else
    words[i] = bits_of(v);
#endif
}

/*
 * Loads a block into the words of its thread in shared memory. Through shared memory only a few
 * rows at a time need registers for values and addresses; the transform, which needs no addresses,
 * needs most of the registers that a thread can have.
 */
template <int D> static __device__ __forceinline__ void gather(const real *x, const real *later, Extents n, const Block &b, u32 *words)
{
    const int aligned = is_aligned(x, n) && is_aligned(later, n);
#pragma unroll 4
    for (u32 r = 0; r < Spec<D>::SIZE / 4; r++) {
        Four f = load_row(x, n, b, r, aligned), l = {};
        if (later)
            l = load_row(later, n, b, r, aligned);
#pragma unroll
        for (u32 i = 0; i < 4; i++)
            stage(words, 4 * r + i, later ? l.v[i] - f.v[i] : f.v[i]);
    }
}

template <int D> static __device__ __forceinline__ void scatter(real *x, const real *later, Extents n, const Block &b, const u32 *words)
{
    const int aligned = is_aligned(x, n) && is_aligned(later, n);
#pragma unroll 4
    for (u32 r = 0; r < Spec<D>::SIZE / 4; r++) {
        if (r % 4 >= b.n[1] || r / 4 >= b.n[2])
            continue;
        const u64 at = b.first + n.n[0] * (r % 4 + n.n[1] * (r / 4));
        if (aligned) {
            Four f = {};
            if (later)
                f = *(const Four *)(later + at);
#pragma unroll
            for (u32 i = 0; i < 4; i++)
                f.v[i] = later ? f.v[i] - staged(words, 4 * r + i) : staged(words, 4 * r + i);
            *(Four *)(x + at) = f;
        } else {
            for (u32 i = 0; i < b.n[0]; i++)
                store(x, later, at + i, staged(words, 4 * r + i));
        }
    }
}

/* ---- The transform, as in src/codec/zfp/lanes.rs ---- */

/*
 * Returns 2^(WIDTH - 2 - e), where e is the exponent without its bias; 0 where this factor
 * overflows.
 */
static __device__ __forceinline__ real to_fixed(u32 exponent)
{
    return real_of((bits)(exponent < LEAST ? 0 : LEAST + 2 * BIAS - exponent) << (DIGITS - 1));
}

/* Returns 2^(e - WIDTH + 2); a denormal number or 0 where the type requires it. */
static __device__ __forceinline__ real from_fixed(u32 exponent)
{
    if (exponent > LEAST)
        return real_of((bits)(exponent - LEAST) << (DIGITS - 1));
    return real_of(exponent + DIGITS > LEAST + 1 ? (bits)1 << (exponent + DIGITS - 2 - LEAST) : 0);
}

/* Turns values into fixed-point numbers c. Returns the biased exponent; 0 for a block of zeros. */
template <int D> static __device__ __forceinline__ u32 quantize(const u32 *words, bits *c)
{
    bits largest = 0;
#pragma unroll
    for (u32 i = 0; i < Spec<D>::SIZE; i++) {
        c[i] = bits_of(staged(words, i));
        const bits magnitude = c[i] & ~(bits)0 >> 1;
        largest = magnitude > largest ? magnitude : largest;
    }
    const u32 exponent = largest == 0 ? 0 : (u32)(largest >> (DIGITS - 1)) + 1;
    const real scale = to_fixed(exponent);
#pragma unroll
    for (u32 i = 0; i < Spec<D>::SIZE; i++)
        c[i] = exponent < LEAST ? (bits)1 << (WIDTH - 1) : (bits)(Int)(real_of(c[i]) * scale);
    return exponent;
}

static __device__ __forceinline__ bits half(bits x) { return (bits)((Int)x >> 1); }

/* Transforms 4 values by lifting; the matrix is 1/16 (4 4 4 4; 5 1 -1 -5; -4 4 4 -4; -2 6 -6 2). */
static __device__ __forceinline__ void lift(bits &x, bits &y, bits &z, bits &w)
{
    x = half(x + w), w -= x;
    z = half(z + y), y -= z;
    x = half(x + z), z -= x;
    w = half(w + y), y -= w;
    w += half(y), y -= half(w);
}

/* Transforms back by lifting; the matrix is 1/4 (4 6 -4 -1; 4 2 4 5; 4 -2 4 -5; 4 -6 -4 1). */
static __device__ __forceinline__ void unlift(bits &x, bits &y, bits &z, bits &w)
{
    y += half(w), w -= half(y);
    y += w, w = 2 * w - y;
    z += x, x = 2 * x - z;
    y += z, z = 2 * z - y;
    w += x, x = 2 * x - w;
}

template <int D> static __device__ __forceinline__ void decorrelate(bits *c)
{
#pragma unroll
    for (u32 a = 0; a < D; a++) {
        const u32 step = 1u << 2 * a;
#pragma unroll
        for (u32 i = 0; i < Spec<D>::SIZE / 4; i++) {
            const u32 at = i % step + i / step * 4 * step;
            lift(c[at], c[at + step], c[at + 2 * step], c[at + 3 * step]);
        }
    }
}

template <int D> static __device__ __forceinline__ void correlate(bits *c)
{
#pragma unroll
    for (u32 a = D; a-- > 0;) {
        const u32 step = 1u << 2 * a;
#pragma unroll
        for (u32 i = 0; i < Spec<D>::SIZE / 4; i++) {
            const u32 at = i % step + i / step * 4 * step;
            unlift(c[at], c[at + step], c[at + 2 * step], c[at + 3 * step]);
        }
    }
}

#define TWOS (~(bits)0 / 3 * 2)

/* ---- Bit planes ---- */

/*
 * One step of the transposition: in every group of 2 BY bits the upper BY bits of row i and the
 * lower BY bits of row i + BY change places.
 */
template <u32 BY> static __device__ __forceinline__ void exchange(u32 *a, u32 mask)
{
#pragma unroll
    for (u32 i = 0; i < 32; i++)
        if ((i & BY) == 0) {
            const u32 p = a[i], q = a[i + BY];
            a[i] = BY == 16 ? __byte_perm(p, q, 0x5410) : BY == 8 ? __byte_perm(p, q, 0x6240) : (p & mask) | (q << BY & ~mask);
            a[i + BY] = BY == 16 ? __byte_perm(p, q, 0x7632) : BY == 8 ? __byte_perm(p, q, 0x7351) : (p >> BY & mask) | (q & ~mask);
        }
}

/* Transposes 32 x 32 bits. */
static __device__ __forceinline__ void transpose(u32 *a)
{
    exchange<16>(a, 0);
    exchange<8>(a, 0);
    exchange<4>(a, 0x0f0f0f0f);
    exchange<2>(a, 0x33333333);
    exchange<1>(a, 0x55555555);
}

/*
 * Where the planes of a block are in its words. In 3-D a plane has two words; the top plane comes
 * first. In 2-D plane p of FP32 is the low half of word p; of FP64, plane p + 32 is the low half of
 * word p and plane p its high half. In 1-D the planes stay in the coefficients.
 *
 * The planes come from transposed matrices of 32 x 32 bits. Row i of matrix m is a part of this
 * coefficient:
 */
template <int D> static __device__ __forceinline__ u32 matrices() { return D == 1 ? 0 : D == 2 ? 1 : WIDTH / 16; }
template <int D> static __device__ __forceinline__ u32 coefficient(u32 m, u32 i) { return D == 2 ? i % 16 : i + m % 2 * 32; }
/* ... shifted right by this number of bits; WIDTH means a row of zeros ... */
template <int D> static __device__ __forceinline__ u32 shift(u32 m, u32 i)
{
    return D == 2 ? (i < 16 ? WIDTH - 32 : FP64 ? 0 : WIDTH) : WIDTH - 32 - m / 2 * 32;
}
/* ... and row i of the transposed matrix m becomes this word of the planes. */
template <int D> static __device__ __forceinline__ u32 place(u32 m, u32 i)
{
    return D == 2 ? i : 2 * (m / 2 * 32 + 31 - i) + m % 2;
}

/* Turns coefficients into bit planes. */
template <int D> static __device__ __forceinline__ void split(const bits *c, u32 *planes)
{
#pragma unroll
    for (u32 m = 0; m < matrices<D>(); m++) {
        u32 a[32];
#pragma unroll
        for (u32 i = 0; i < 32; i++) {
            const bits negabinary = (c[order<D>(coefficient<D>(m, i))] + TWOS) ^ TWOS;
            a[i] = shift<D>(m, i) == WIDTH ? 0 : (u32)(negabinary >> shift<D>(m, i) % WIDTH);
        }
        transpose(a);
#pragma unroll
        for (u32 i = 0; i < 32; i++)
            planes[place<D>(m, i)] = a[i];
    }
}

/* Turns bit planes into coefficients. */
template <int D> static __device__ __forceinline__ void join(const u32 *planes, bits *c)
{
#pragma unroll
    for (u32 m = 0; m < matrices<D>(); m++) {
        u32 a[32];
#pragma unroll
        for (u32 i = 0; i < 32; i++)
            a[i] = planes[place<D>(m, i)];
        transpose(a);
#pragma unroll
        for (u32 i = 0; i < 32; i++)
            if (shift<D>(m, i) != WIDTH)
                c[order<D>(coefficient<D>(m, i))] |= (bits)a[i] << shift<D>(m, i) % WIDTH;
    }
}

template <int D> static __device__ __forceinline__ typename PlaneOf<D>::type plane_at(const bits *c, const u32 *planes, u32 plane)
{
    if (D == 3)
        return planes[2 * (WIDTH - 1 - plane)] | (u64)planes[2 * (WIDTH - 1 - plane) + 1] << 32;
    if (D == 2)
        return FP64 && plane < 32 ? planes[plane] >> 16 : planes[plane % 32] & 0xffff;
    u32 x = 0;
#pragma unroll
    for (u32 i = 0; i < 4; i++)
        x |= (u32)(((c[i] + TWOS) ^ TWOS) >> plane & 1) << i;
    return x;
}

template <int D> static __device__ __forceinline__ void put_plane(bits *c, u32 *planes, u32 plane, typename PlaneOf<D>::type x)
{
    if (D == 3) {
        planes[2 * (WIDTH - 1 - plane)] = (u32)x;
        planes[2 * (WIDTH - 1 - plane) + 1] = (u32)((u64)x >> 32);
    } else if (D == 2) {
        planes[plane % 32] = FP64 && plane < 32 ? planes[plane] | (u32)x << 16 : (u32)x;
    } else {
#pragma unroll
        for (u32 i = 0; i < 4; i++)
            c[i] |= (bits)(x >> i & 1) << plane;
    }
}

template <int D> static __device__ __forceinline__ u32 lowest(u32 exponent)
{
    return WIDTH > exponent + Spec<D>::PLANES ? WIDTH - exponent - Spec<D>::PLANES : 0;
}

/* ---- Encoding, as in src/codec/zfp/embed.rs ---- */

struct Writer {
    u32 *row;
    u32 at, fill;
    u64 open;
};

/* Appends the lowest `count` <= 32 bits of x. All higher bits of x must be zero. */
static __device__ __forceinline__ void put(Writer &out, u32 x, u32 count)
{
    out.open |= (u64)x << out.fill;
    out.fill += count;
    if (out.fill >= 32) {
        out.row[out.at++] = (u32)out.open;
        out.open >>= 32;
        out.fill -= 32;
    }
}

/* For every byte its bits, with each 1 written twice. */
struct Doubled {
    u16 of[256];

    __device__ constexpr Doubled() : of()
    {
        for (u32 byte = 0; byte < 256; byte++)
            for (u32 i = 0, to = 0; i < 8; to += 1 + (byte >> i++ & 1))
                of[byte] |= (byte >> i & 1 ? 3 : 0) << to;
    }
};
static __device__ const Doubled DOUBLED;

/*
 * Writes the group tests of the bits `rest`, not all 0, of coefficients n and up, without the first
 * test's 1. The loop handles 16 coefficients at a time. Returns the number of the first coefficient
 * not tested.
 */
template <int D> static __device__ __forceinline__ u32 put_tests(Writer &out, typename PlaneOf<D>::type rest, u32 n, const u16 *doubled)
{
    for (;;) {
        const u32 part = (u32)rest & 0xffff, ones = __popc(part);
        u32 x = doubled[part & 0xff] | (u32)doubled[part >> 8] << (8 + __popc(part & 0xff));
        rest >>= 16;
        if (rest != 0) {
            put(out, x, 16 + ones);
            n += 16;
            continue;
        }
        /*
         * A 0 follows the last 1. If the last 1 belongs to the block's last coefficient, neither
         * this 1 nor the 0 is written.
         */
        const u32 known = 32 - __clz((i32)part), count = known + ones - (n + known == Spec<D>::SIZE ? 2 : 0);
        put(out, x & low(known + ones - 1) & low(count), count);
        return n + known;
    }
}

/* Writes a block with this exponent, `end` bits, into its row. */
template <int D> static __device__ __forceinline__ void encode_block(const bits *c, u32 *row, u32 exponent, u32 end, const u16 *doubled)
{
    typedef typename PlaneOf<D>::type Plane;
    Writer out = {row, 0, 0, 0};
    u32 n = 0;
    put(out, exponent != 0 ? 1 | exponent << 1 : 0, 1 + EXPONENT);
    const u32 last = exponent != 0 ? lowest<D>(exponent) : WIDTH;
    for (u32 plane = WIDTH; plane-- > last && 32 * out.at + out.fill < end;) {
        const Plane x = plane_at<D>(c, row + Spec<D>::FIRST, plane);
        if (D == 3) {
            put(out, (u32)x & low(n), n < 32 ? n : 32);
            if (n > 32)
                put(out, (u32)((u64)x >> 32) & low(n - 32), n - 32);
        }
        if (D == 3 && n == Spec<D>::SIZE)
            continue;
        const Plane rest = n == Spec<D>::SIZE ? 0 : x >> n;
        if (D == 3)
            put(out, rest != 0, 1);
        else
            put(out, (u32)x & low(n) | (u32)(rest != 0) << n, n == Spec<D>::SIZE ? n : n + 1);
        if (rest != 0)
            n = put_tests<D>(out, rest, n, doubled);
    }
    row[out.at] = (u32)out.open;
    while (32 * ++out.at < end)
        row[out.at] = 0;
}

/* Returns word i of the stream that `count` blocks of `size` bits in their rows make. */
template <int D> static __device__ __forceinline__ u64 word_at(const u32 *rows, u32 i, u32 size, u32 count)
{
    u32 block = 64 * i / size, at = 64 * i % size, have = 0;
    if (D == 3) {
        const u32 *from = rows + block * Spec<D>::ROW + at / 32;
        return from[0] | (u64)from[1] << 32;
    }
    u64 word = 0;
    while (have < 64 && block < count) {
        const u32 take = min(min(size - at, 64 - have), 32 - at % 32);
        word |= (u64)(rows[block * Spec<D>::ROW + at / 32] >> at % 32 & low(take)) << have;
        have += take;
        at += take;
        if (at == size)
            at = 0, block++;
    }
    return word;
}

template <int D>
static __device__ __forceinline__ void encode(const real *x, const real *later, Extents n, u32 size, Job *job, u32 *rows, u16 *doubled)
{
    const u64 blocks = blocks_of<D>(n), bytes = (blocks * size + 63) / 64 * 8;
    const int coded = job->nonfinite == 0 && bytes <= n.n[0] * n.n[1] * n.n[2] * sizeof(real);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        job->bytes = coded ? bytes : NONE;
    if (!coded)
        return;
    for (u32 i = threadIdx.x; i < 256; i += blockDim.x)
        doubled[i] = DOUBLED.of[i];
    __syncthreads();
    for (u64 first = (u64)blockIdx.x * blockDim.x; first < blocks; first += (u64)gridDim.x * blockDim.x) {
        u32 *row = rows + threadIdx.x * Spec<D>::ROW;
        if (first + threadIdx.x < blocks) {
            bits c[Spec<D>::SIZE];
            gather<D>(x, later, n, block_at<D>(n, first + threadIdx.x), row + Spec<D>::FIRST);
            const u32 exponent = quantize<D>(row + Spec<D>::FIRST, c);
            decorrelate<D>(c);
            split<D>(c, row + Spec<D>::FIRST);
            encode_block<D>(c, row, exponent, size, doubled);
        }
        __syncthreads();
        const u32 count = blocks - first < blockDim.x ? (u32)(blocks - first) : blockDim.x;
        u64 *to = (u64 *)job->payload + first / 64 * size + first % 64 * size / 64;
        for (u32 i = threadIdx.x; 64 * i < count * size; i += blockDim.x)
            to[i] = word_at<D>(rows, i, size, count);
        __syncthreads();
    }
}

/* ---- Decoding ---- */

/* Reads bits: 64 bits are available at any time, and the word behind them is being loaded. */
struct Reader {
    const u64 *from;
    u64 next, bytes;
    u64 word[3];
    u32 shift;
};

/* Returns word i of the payload; words behind the payload are 0. */
static __device__ __forceinline__ u64 word_of(const Reader &in, u64 i)
{
    if (8 * i >= in.bytes)
        return 0;
    const u64 left = in.bytes - 8 * i;
    return in.from[i] & low_of_64(left < 8 ? 8 * (u32)left : 64);
}

static __device__ __forceinline__ Reader reader_at(const Job *job, u64 at)
{
    Reader in = {(const u64 *)job->payload, at / 64 + 3, job->bytes, {}, (u32)(at % 64)};
    for (u32 k = 0; k < 3; k++)
        in.word[k] = word_of(in, at / 64 + k);
    return in;
}

static __device__ __forceinline__ u64 peek(const Reader &in) { return in.word[0] >> in.shift | in.word[1] << 1 << (63 - in.shift); }

/* Skips `count` <= 64 bits. */
static __device__ __forceinline__ void skip(Reader &in, u32 count)
{
    in.shift += count;
    if (in.shift >= 64) {
        in.shift -= 64;
        in.word[0] = in.word[1];
        in.word[1] = in.word[2];
        in.word[2] = word_of(in, in.next++);
    }
}

/*
 * A table for group tests, 8 bits at a time. Index: bit 8 is set if the bits continue a run (a test
 * said 1, and its 1 is still to come); bits 0 to 7 are the next bits of the stream. Entry:
 *
 * bits  0 ...  7: the bits of the coefficients
 * bits  8 ... 11: number of coefficients
 * bits 12 ... 15: number of bits read
 * bit  16: a run is open; its 1 is still to come
 * bit  17: the group tests have ended
 */
struct Tests {
    u32 of[512];

    __device__ constexpr Tests() : of()
    {
        for (u32 i = 0; i < 512; i++) {
            u32 x = 0, n = 0, at = 0, open = i >> 8, end = 0;
            while (at < 8 && !end) {
                const u32 one = i >> at++ & 1;
                if (open)
                    x |= one << n++, open = !one;
                else
                    open = one, end = !one;
            }
            of[i] = x | n << 8 | at << 12 | open << 16 | end << 17;
        }
    }
};
static __device__ const Tests TESTS;

/* Reads the planes of a block of `end` bits; in 1-D they go into c. Returns its biased exponent. */
template <int D> static __device__ __forceinline__ u32 decode_block(Reader &in, bits *c, u32 *planes, u32 end, const u32 *tests)
{
    typedef typename PlaneOf<D>::type Plane;
    const u64 head = peek(in);
    const u32 exponent = head & 1 ? (u32)(head >> 1) & low(EXPONENT) : 0;
    u32 at = 1 + EXPONENT, n = 0, plane = WIDTH;
    const u32 last = head & 1 ? lowest<D>(exponent) : WIDTH;
    skip(in, at);
    while (plane > last && at < end) {
        const u32 known = min(n, end - at);
        Plane x = (Plane)(peek(in) & low_of_64(known));
        skip(in, known);
        at += known;
        /*
         * `open` is 1 if a run's 1 is still to come. If the block ends in the run, or only one
         * coefficient is left, this 1 is not in the stream.
         */
        u32 open = 0;
        while (at < end && n + open < Spec<D>::SIZE) {
            const u64 next = peek(in);
            u32 used = 1;
            if (n + 8 < Spec<D>::SIZE && at + 8 <= end) {
                const u32 step = tests[open << 8 | ((u32)next & 0xff)];
                x |= (Plane)(step & 0xff) << n;
                n += step >> 8 & 15;
                used = step >> 12 & 15;
                open = step >> 16;
            } else if (!open) {
                open = next & 1 ? 1 : 2;
            } else {
                const u32 most = min(Spec<D>::SIZE - 1 - n, end - at), zeros = min((u32)__ffsll((i64)next) - 1, most);
                n += zeros;
                open = zeros == most;
                used = zeros + !open;
                x |= (Plane)!open << n;
                n += !open;
            }
            skip(in, used);
            at += used;
            if (open == 2)
                break;
        }
        if (open == 1)
            x |= (Plane)1 << n++;
        put_plane<D>(c, planes, --plane, x);
    }
    /* Planes that were cut off are 0. */
    while (D == 3 && plane > 0)
        put_plane<D>(c, planes, --plane, 0);
    return exponent;
}

template <int D> static __device__ __forceinline__ void decode(real *x, const real *later, Extents n, u32 size, Job *job, u32 *rows, u32 *tests)
{
    const u64 blocks = blocks_of<D>(n), used = (blocks * size + 7) / 8, stride = (u64)gridDim.x * blockDim.x;
    const real *whole = job->reference ? later : 0;
    if (job->bytes < used || job->bytes > (used + 7) / 8 * 8) {
        job->damaged = 1;
        return;
    }
    for (u32 i = threadIdx.x; D > 1 && i < 512; i += blockDim.x)
        tests[i] = TESTS.of[i];
    __syncthreads();
    u32 *planes = rows + threadIdx.x * Spec<D>::PLANE_ROW;
    for (u64 number = (u64)blockIdx.x * blockDim.x + threadIdx.x; number < blocks; number += stride) {
        bits c[Spec<D>::SIZE] = {};
        for (u32 i = 0; D == 2 && i < 32; i++)
            planes[i] = 0;
        Reader in = reader_at(job, number * size);
        const real scale = from_fixed(decode_block<D>(in, c, planes, size, tests));
        join<D>(planes, c);
#pragma unroll
        for (u32 i = 0; i < Spec<D>::SIZE; i++)
            c[i] = (c[i] ^ TWOS) - TWOS;
        correlate<D>(c);
#pragma unroll
        for (u32 i = 0; i < Spec<D>::SIZE; i++)
            stage(planes, i, (real)(Int)c[i] * scale);
        scatter<D>(x, whole, n, block_at<D>(n, number), planes);
    }
}

/* ---- Kernels. `n`: the extents other than 1; `size`: the bits of a block in the stream ---- */

extern "C" __global__ void __launch_bounds__(THREADS, 8) zfp_encode_1(const real *x, const real *later, Extents n, u32 size, Job *job)
{
    __shared__ u32 rows[THREADS * Spec<1>::ROW];
    __shared__ u16 doubled[256];
    if (job->go)
        encode<1>(x, later, n, size, job, rows, doubled);
}

extern "C" __global__ void __launch_bounds__(THREADS, FP64 ? 6 : 8) zfp_encode_2(const real *x, const real *later, Extents n, u32 size, Job *job)
{
    __shared__ u32 rows[THREADS * Spec<2>::ROW];
    __shared__ u16 doubled[256];
    if (job->go)
        encode<2>(x, later, n, size, job, rows, doubled);
}

extern "C" __global__ void __launch_bounds__(THREADS_3, BLOCKS_3) zfp_encode_3(const real *x, const real *later, Extents n, u32 size, Job *job)
{
    __shared__ u32 rows[THREADS_3 * Spec<3>::ROW];
    __shared__ u16 doubled[256];
    if (job->go)
        encode<3>(x, later, n, size, job, rows, doubled);
}

extern "C" __global__ void __launch_bounds__(THREADS, 8) zfp_decode_1(real *x, const real *later, Extents n, u32 size, Job *job)
{
    __shared__ u32 rows[THREADS * Spec<1>::PLANE_ROW];
    if (job->go)
        decode<1>(x, later, n, size, job, rows, 0);
}

extern "C" __global__ void __launch_bounds__(THREADS, 8) zfp_decode_2(real *x, const real *later, Extents n, u32 size, Job *job)
{
    __shared__ u32 rows[THREADS * Spec<2>::PLANE_ROW], tests[512];
    if (job->go)
        decode<2>(x, later, n, size, job, rows, tests);
}

extern "C" __global__ void __launch_bounds__(THREADS_3, FP64 || BLOCKS_3 == 4 ? BLOCKS_3 : BLOCKS_3 - 1) zfp_decode_3(real *x, const real *later, Extents n, u32 size, Job *job)
{
    __shared__ u32 rows[THREADS_3 * Spec<3>::PLANE_ROW], tests[512];
    if (job->go)
        decode<3>(x, later, n, size, job, rows, tests);
}
