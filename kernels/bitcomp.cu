/*
 * Bitcomp: the work before and after NVIDIA's kernels. libnvcomp enqueues its kernels regardless of
 * what the kernels here decide. libnvcomp takes delta from the host, which on a GPU does not know
 * delta. Here delta is therefore 1, and the values are divided by the true delta first; it is a
 * power of two, so that nothing is rounded. The exponent of this power is the first word of the
 * payload. The rules are those of src/codec/bitcomp.
 *
 * libnvcomp's kernels read and write an array of values and a stream outside the snapshot. This
 * stream can always be decoded: if there is nothing to do, or if a payload is damaged, it is the
 * stream of another array.
 */

/* Indices in job->work. */
#define CLOSER 0 /* 1: the first delta does not keep a bound on the mean square */
#define BROKEN 1 /* 1: the decoded value of an element is outside its bound */

/* Bytes of a payload before Bitcomp's own bytes. */
#define PREFIX 8

#if FP64
#define BIAS 1023
static __device__ __forceinline__ real power(i64 n) { return real_of((bits)(BIAS + n) << 52); }
#else
#define BIAS 127
static __device__ __forceinline__ real power(i64 n) { return real_of((bits)(BIAS + n) << 23); }
#endif

/* Returns true if 2^n is a normal number. */
static __device__ __forceinline__ int is_normal(i64 n) { return n > -BIAS && n <= BIAS; }

static __device__ __forceinline__ int is_finite(real x) { return x - x == 0; }

/* Returns x * unit; NaNs and infinities keep their bits. */
static __device__ __forceinline__ real scaled(real x, real unit) { return is_finite(x) ? x * unit : x; }

/*
 * Returns the exponent of delta, which is a power of two. The error is usually uniform in
 * +-delta/2; its root mean square is then delta / sqrt(12).
 */
static __device__ __forceinline__ i64 unit_of(const Job *job)
{
    const double delta = (job->rms && !job->work[CLOSER] ? sqrt(12.0) : 2.0) * job->bound;
    return (i64)(bits_of_double(delta) >> 52 & 0x7FF) - 1023;
}

/* ---- Compressing ---- */

/* Measures the errors of the decoded array y, or, if y is null, of rounding alone. */
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

/*
 * Decides whether the bound is kept. The first call, with `bytes` null, judges rounding alone and
 * chooses delta. The second call judges the decoded array; *bytes is the length of Bitcomp's
 * stream.
 */
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

/* Copies Bitcomp's stream into the payload. */
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

/* Copies the payload to Bitcomp's stream, which has room for `most` bytes. */
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
