/* The codec bfp (block floating point); src/codec/bfp/mod.rs describes the format. */
#if FP64
#define BIAS 1023u
#define DIGITS 52
typedef u64 Exponents; /* the exponents of four blocks */
#else
#define BIAS 127u
#define DIGITS 23
typedef u32 Exponents;
#endif
#define LEAST 8u
#define INFINITE (2 * BIAS + 1)
/* Position of the exponent in the high 32 bits of a value. The lower bits do not affect E. */
#define PLACE (DIGITS % 32)
/* Bits of an exponent in the stream. */
#define WIDTH (2 * sizeof(real))
/*
 * Number of groups that a warp loads at once. A group is four blocks of values; a lane has four
 * values of each group.
 */
#define GROUPS 2

struct __align__(16) Four {
    real v[4];
};

static __device__ __forceinline__ int is_aligned(const real *x) { return (u64)x % 16 == 0; }

/*
 * Returns where the integers begin in the payload: behind the exponents, at the next multiple of 16
 * bytes.
 */
static __device__ __forceinline__ u64 integers_at(u64 n) { return ((n + 31) / 32 * (WIDTH / 8) + 15) / 16 * 16; }

/* Loads values i to i + 3; values beyond the array are 0. */
static __device__ __forceinline__ Four load_four(const real *x, u64 i, u64 n, int aligned)
{
    if (aligned && i + 4 <= n)
        return *(const Four *)(x + i);
    Four f;
    for (u32 k = 0; k < 4; k++)
        f.v[k] = i + k < n ? x[i + k] : 0;
    return f;
}

static __device__ __forceinline__ void store_four(real *x, u64 i, u64 n, int aligned, const Four &f)
{
    if (aligned && i + 4 <= n) {
        *(Four *)(x + i) = f;
        return;
    }
    for (u32 k = 0; k < 4; k++)
        if (i + k < n)
            x[i + k] = f.v[k];
}

static __device__ __forceinline__ u32 high_of(real x) { return (u32)(bits_of(x) >> (8 * sizeof(real) - 32)); }

/* Returns the exponent E of a block of 32 values, which eight lanes hold. */
static __device__ __forceinline__ u32 exponent_of(const Four &f)
{
    u32 peak = LEAST << PLACE;
    for (u32 k = 0; k < 4; k++)
        peak = max(peak, high_of(f.v[k]) & ~0u >> 1);
    for (u32 by = 4; by > 0; by /= 2)
        peak = max(peak, __shfl_xor_sync(~0u, peak, by));
    return (peak + (1u << (PLACE - 7))) >> PLACE;
}

/*
 * Returns the integers q of four values, one per byte. In the sum with 1.5 2^DIGITS the last bit
 * has weight 1: the addition rounds once, to nearest even, and the low byte of the sum is q.
 */
static __device__ __forceinline__ u32 integers_of(const Four &f, u32 exponent)
{
    const real scale = real_of((bits)(2 * BIAS + 6 - exponent) << DIGITS), magic = (real)(3ull << (DIGITS - 1));
    u32 q = 0;
    for (u32 k = 0; k < 4; k++)
        q |= ((u32)bits_of(f.v[k] * scale + magic) & 0xff) << 8 * k;
    return q;
}

extern "C" __global__ void bfp_encode(const real *x, const real *later, u64 n, Job *job)
{
    if (!job->go)
        return;
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, warps = (u64)gridDim.x * blockDim.x / 32;
    const u64 blocks = (n + 31) / 32, integers = integers_at(n), groups = integers / sizeof(Exponents);
    const int coded = job->nonfinite == 0, aligned = is_aligned(x) && is_aligned(later);
    u8 *to = (u8 *)job->payload;
    if (thread == 0)
        job->bytes = coded ? integers + n : NONE;
    /* The last groups may consist of the zeros before the integers only. */
    for (u64 g = GROUPS * (thread / 32); coded && g < groups; g += GROUPS * warps) {
        Four f[GROUPS];
        for (u32 i = 0; i < GROUPS; i++) {
            const u64 at = 128 * (g + i) + 4 * lane_id();
            f[i] = load_four(x, at, n, aligned);
            if (later) {
                const Four l = load_four(later, at, n, aligned);
                for (u32 k = 0; k < 4; k++)
                    f[i].v[k] = l.v[k] - f[i].v[k];
            }
        }
        for (u32 i = 0; i < GROUPS; i++) {
            const u64 at = 128 * (g + i) + 4 * lane_id();
            const u32 exponent = exponent_of(f[i]), there = at / 32 < blocks ? exponent : 0;
            Exponents four = 0;
            for (u32 k = 0; k < 4; k++)
                four |= (Exponents)__shfl_sync(~0u, there, 8 * k) << WIDTH * k;
            if (lane_id() == 0 && g + i < groups)
                ((Exponents *)to)[g + i] = four;
            if (at < n)
                *(u32 *)(to + integers + at) = integers_of(f[i], exponent);
        }
    }
}

extern "C" __global__ void bfp_decode(real *x, const real *later, u64 n, Job *job)
{
    if (!job->go)
        return;
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, warps = (u64)gridDim.x * blockDim.x / 32;
    const u64 blocks = (n + 31) / 32, integers = integers_at(n), groups = integers / sizeof(Exponents);
    const real *whole = job->reference ? later : 0;
    const int aligned = is_aligned(x) && is_aligned(whole);
    const u8 *from = (const u8 *)job->payload;
    if (job->bytes != integers + n) {
        job->damaged = 1;
        return;
    }
    for (u64 g = GROUPS * (thread / 32); g < groups; g += GROUPS * warps) {
        Exponents four[GROUPS];
        u32 q[GROUPS];
        for (u32 i = 0; i < GROUPS; i++) {
            const u64 at = 128 * (g + i) + 4 * lane_id();
            four[i] = g + i < groups ? ((const Exponents *)from)[g + i] : 0;
            q[i] = at < n ? *(const u32 *)(from + integers + at) : 0;
        }
        for (u32 i = 0; i < GROUPS; i++) {
            const u64 at = 128 * (g + i) + 4 * lane_id();
            const u32 exponent = (u32)(four[i] >> WIDTH * (lane_id() / 8)) & ((1u << WIDTH) - 1);
            if (at / 32 < blocks ? exponent < LEAST || exponent >= INFINITE : exponent != 0)
                job->damaged = 1;
            const real step = real_of((bits)(max(min(exponent, INFINITE - 1), LEAST) - 6) << DIGITS);
            Four f = {};
            if (whole)
                f = load_four(whole, at, n, aligned);
            for (u32 k = 0; k < 4; k++) {
                const real v = (real)(i32)(signed char)(q[i] >> 8 * k) * step;
                f.v[k] = whole ? f.v[k] - v : v;
            }
            store_four(x, at, n, aligned, f);
        }
    }
}
