/* The codec fp16; src/codec/fp16/mod.rs describes the format. */
#if FP64
#define BIAS 1023
#define DIGITS 52
#define LEAST (-1008)
#define MOST 997
#else
#define BIAS 127
#define DIGITS 23
#define LEAST (-112)
#define MOST 101
#endif

/* Bytes before the halves. */
#define HEAD 16

static __device__ __forceinline__ real power_of_two(i32 k) { return real_of((bits)(k + BIAS) << DIGITS); }

/*
 * Computes the exponent s of an array with the maximum job->max. Returns false if the array cannot
 * be coded.
 */
static __device__ int exponent_of(const Job *job, i32 *s)
{
    const bits peak = bits_of((real)job->max);
    const i32 binade = (i32)((peak + ((bits)1 << (DIGITS - 11))) >> DIGITS) - BIAS;
    *s = peak == 0 ? 0 : MOST < 15 - binade ? MOST : 15 - binade;
    return job->nonfinite == 0 && (peak == 0 || (binade <= BIAS && peak >= bits_of(power_of_two(-14 - MOST))));
}

/*
 * Returns the half (IEEE 754 binary16) nearest to x 2^s. In the sum with 2^(e + DIGITS - 10) the
 * last bit has weight 2^(e - 10), as in the half; e is the exponent of x 2^s.
 */
static __device__ __forceinline__ u16 half_of(real x, real scale)
{
    const bits mask = ((((bits)1 << (sizeof(real) * 8 - 1 - DIGITS)) - 1) << DIGITS);
    const real scaled = x * scale, least = power_of_two(-14), binade = real_of(bits_of(scaled) & mask);
    const u16 sign = (u16)(bits_of(scaled) >> (sizeof(real) * 8 - 16)) & 0x8000;
    const bits from = bits_of(binade > least ? binade : least), magic = from + ((bits)(DIGITS - 10) << DIGITS);
    const real magnitude = scaled < 0 ? -scaled : scaled;
    const bits sum = bits_of(magnitude + real_of(magic));
    return (u16)((u16)sum - (u16)magic + (u16)(from >> (DIGITS - 10)) - (u16)((BIAS - 14) << 10)) | sign;
}

static __device__ __forceinline__ real of_half(u16 half, real step)
{
    const bits shifted = (bits)(half & 0x7fff) << (DIGITS - 10);
    const real normal = real_of(shifted + ((bits)(BIAS - 15) << DIGITS));
    const real subnormal = real_of(shifted + ((bits)(BIAS - 14) << DIGITS)) - power_of_two(-14);
    const real value = (half & 0x7c00) == 0 ? subnormal : normal;
    return real_of(bits_of(value) | (bits)(half & 0x8000) << (sizeof(real) * 8 - 16)) * step;
}

/* Codes an array. A thread makes four halves at a time, one word. */
extern "C" __global__ void half_encode(const real *x, const real *later, u64 n, Job *job)
{
    if (!job->go)
        return;
    i32 s;
    const int coded = exponent_of(job, &s);
    u64 *to = (u64 *)job->payload;
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, stride = (u64)gridDim.x * blockDim.x;
    if (thread == 0) {
        job->bytes = coded ? HEAD + 2 * n : NONE;
        to[0] = (u32)s;
        to[1] = 0;
    }
    if (!coded)
        return;
    const real scale = power_of_two(s);
    for (u64 w = thread; 4 * w < n; w += stride) {
        u64 word = 0;
        for (u32 i = 0; i < 4 && 4 * w + i < n; i++)
            word |= (u64)half_of(load(x, later, 4 * w + i), scale) << 16 * i;
        to[HEAD / 8 + w] = word;
    }
}

extern "C" __global__ void half_decode(real *x, const real *later, u64 n, Job *job)
{
    if (!job->go)
        return;
    const u64 *from = (const u64 *)job->payload;
    const real *whole = job->reference ? later : 0;
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, stride = (u64)gridDim.x * blockDim.x;
    if (job->bytes != HEAD + 2 * n) {
        job->damaged = 1;
        return;
    }
    const i32 s = (i32)from[0];
    if (from[0] >> 32 != 0 || from[1] != 0 || s < LEAST || s > MOST) {
        job->damaged = 1;
        return;
    }
    const real step = power_of_two(-s);
    for (u64 w = thread; 4 * w < n; w += stride) {
        const u64 word = from[HEAD / 8 + w];
        for (u32 i = 0; i < 4 && 4 * w + i < n; i++)
            store(x, whole, 4 * w + i, of_half((u16)(word >> 16 * i), step));
    }
}
