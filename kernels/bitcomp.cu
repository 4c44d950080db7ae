/*
 * Bitcomp: what goes before and after NVIDIA's own kernels, which libnvcomp enqueues, whatever is decided here. The host knows delta only
 * where it codes itself. Here delta is 1, and values are made so much smaller that this is the same: by a power of two, so that nothing is
 * rounded. That power is the first word of the payload. The rules are those of src/codec/bitcomp.
 *
 * libnvcomp's kernels read and write an array of values and a stream beside the snapshot. The stream always is one that can be decoded:
 * the one of another array, where there is nothing to do or a payload is damaged.
 */

/* Of job->work. */
#define CLOSER 0 /* the first delta does not keep a bound on the mean square */
#define BROKEN 1 /* a value does not come back within its bound */

/* Bytes of a payload before Bitcomp's own. */
#define PREFIX 8

#if FP64
#define BIAS 1023
static __device__ __forceinline__ real power(i64 n) { return real_of((bits)(BIAS + n) << 52); }
#else
#define BIAS 127
static __device__ __forceinline__ real power(i64 n) { return real_of((bits)(BIAS + n) << 23); }
#endif

/* Whether 2^n is a normal number. */
static __device__ __forceinline__ int is_normal(i64 n) { return n > -BIAS && n <= BIAS; }

static __device__ __forceinline__ int is_finite(real x) { return x - x == 0; }

/* NaNs and infinities keep their bits. */
static __device__ __forceinline__ real scaled(real x, real unit) { return is_finite(x) ? x * unit : x; }

/* Delta, a power of two: its exponent. The error is uniform in +-delta/2 as a rule, and then its rms is delta / sqrt(12). */
static __device__ __forceinline__ i64 unit_of(const Job *job)
{
    const double delta = (job->rms && !job->work[CLOSER] ? sqrt(12.0) : 2.0) * job->bound;
    return (i64)(bits_of_double(delta) >> 52 & 0x7FF) - 1023;
}

/* ---- Compressing ---- */

/* How far values come back from the array, y, that was decoded; without one, from having been rounded. */
extern "C" __global__ void bitcomp_errors(const real *x, const real *later, u64 n, const real *y, Job *job, double *sums)
{
    __shared__ double room[32];
    if (!job->go)
        return;
    const i64 unit = unit_of(job);
    const real up = power(unit), down = power(-unit);
    double sum = 0;
    u32 broken = 0;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
        const real v = load(x, later, i), w = scaled(y ? y[i] : is_finite(v) ? rint(v * down) : v, up);
        const double error = is_finite(v) ? fabs((double)v - (double)w) : bits_of(v) == bits_of(w) ? 0 : v - v;
        const double part = error / job->bound;
        broken |= !(error <= job->bound);
        sum += part * part;
    }
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
    if (broken)
        job->work[BROKEN] = 1;
}

/* Whether the bound is kept; first by rounding, to choose delta, and then, where `bytes` of Bitcomp's stream are told, by what came back. */
extern "C" __global__ void bitcomp_judge(Job *job, u64 n, const double *sums, u32 blocks, const u64 *bytes)
{
    __shared__ double room[32];
    if (!job->go)
        return;
    const double sum = sum_of(sums, blocks, room);
    if (threadIdx.x != 0)
        return;
    const u64 raw = n * sizeof(real);
    const int kept = job->rms ? sqrt(sum / (double)n) <= 1 : !job->work[BROKEN];
    if (!bytes)
        job->work[CLOSER] = !kept;
    else if (kept && is_normal(unit_of(job)) && *bytes < raw && PREFIX + *bytes < raw)
        job->bytes = PREFIX + *bytes;
}

extern "C" __global__ void bitcomp_scale(const real *x, const real *later, u64 n, real *y, const Job *job)
{
    if (!job->go)
        return;
    const real down = power(-unit_of(job));
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x)
        y[i] = scaled(load(x, later, i), down);
}

/* The payload, from Bitcomp's stream. */
extern "C" __global__ void bitcomp_take(const Job *job, const u64 *stream)
{
    if (!job->go || job->bytes == NONE)
        return;
    const u64 words = (job->bytes - PREFIX + 7) / 8, thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u64 *to = (u64 *)job->payload;
    if (thread == 0)
        to[0] = (u64)unit_of(job);
    for (u64 w = thread; w < words; w += (u64)gridDim.x * blockDim.x)
        to[1 + w] = stream[w];
}

/* ---- Decompressing ---- */

/* Bitcomp's stream, of at most so many bytes, from the payload. */
extern "C" __global__ void bitcomp_give(Job *job, u64 *stream, u64 most)
{
    if (!job->go)
        return;
    const u64 *from = (const u64 *)job->payload, thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (job->bytes <= PREFIX || job->bytes - PREFIX > most || !is_normal((i64)from[0])) {
        if (thread == 0)
            job->damaged = 1;
        return;
    }
    const u64 words = (job->bytes - PREFIX + 7) / 8;
    for (u64 w = thread; w < words; w += (u64)gridDim.x * blockDim.x)
        stream[w] = from[1 + w];
}

extern "C" __global__ void bitcomp_store(real *x, const real *later, u64 n, const real *y, const Job *job)
{
    if (!job->go || job->damaged)
        return;
    const real up = power((i64) * (const u64 *)job->payload), *whole = job->reference ? later : 0;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x)
        store(x, whole, i, scaled(y[i], up));
}
