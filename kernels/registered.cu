/*
 * Codecs of the application: the work before and after the functions that a registered codec has for
 * device memory. The application enqueues them regardless of what the kernels here decide, and with
 * addresses that the host knows: a call is in device memory, the payload is in a buffer outside the
 * snapshot, and differences are in an array of their own.
 */

/* What library and application tell one another: gpuzip_codec_job_t of src/capi/types.rs. */
struct Call {
    double bound;
    u64 bytes;
    i32 go;
    i32 status; /* as the functions for host memory return it */
    u64 reserved;
};

/* Copies `bytes` bytes between multiples of 8. */
static __device__ __forceinline__ void copy(u64 *to, const u64 *from, u64 bytes)
{
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, whole = bytes / 8 * 8;
    for (u64 w = thread; w < bytes / 8; w += (u64)gridDim.x * blockDim.x)
        to[w] = from[w];
    /* The bytes behind the last one may be unwritten. */
    if (thread < bytes - whole)
        ((u8 *)to)[whole + thread] = ((const u8 *)from)[whole + thread];
}

static __device__ __forceinline__ int is_first_thread() { return blockIdx.x == 0 && threadIdx.x == 0; }

/* ---- Compressing ---- */

/* Prepares the call, and the array if the difference to `later` is coded. */
extern "C" __global__ void registered_pose(const real *x, const real *later, u64 n, real *array, const Job *job, Call *call)
{
    if (is_first_thread())
        *call = Call{job->bound, NONE, (i32)job->go, 0, 0};
    if (!job->go || !later)
        return;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x)
        array[i] = load(x, later, i);
}

/* Takes what the application wrote to `from`, where it has room for `most` bytes. */
extern "C" __global__ void registered_take(Job *job, const Call *call, const u64 *from, u64 most)
{
    if (!job->go)
        return;
    const int status = call->status, failed = status < 0 || (status == 0 && call->bytes > most);
    if (is_first_thread()) {
        job->damaged = (u32)failed;
        job->bytes = failed || status > 0 ? NONE : call->bytes;
    }
    if (!failed && status == 0)
        copy((u64 *)job->payload, from, call->bytes);
}

/* ---- Decompressing ---- */

/* Prepares the call, and copies the payload to `to`, where there is room for `most` bytes. */
extern "C" __global__ void registered_give(Job *job, Call *call, u64 *to, u64 most)
{
    const int fits = job->bytes <= most, go = job->go && fits;
    if (is_first_thread()) {
        *call = Call{0, go ? job->bytes : 0, go, go ? 0 : -1, 0};
        if (job->go && !fits)
            job->damaged = 1;
    }
    if (go)
        copy(to, (const u64 *)job->payload, job->bytes);
}

/*
 * Looks at the application's status. If `later` is not null, the values are in `array`, and go to x as
 * the job says.
 */
extern "C" __global__ void registered_store(real *x, const real *later, u64 n, const real *array, Job *job, const Call *call)
{
    if (!job->go)
        return;
    if (is_first_thread() && call->status != 0)
        job->damaged = 1;
    if (!later || call->status != 0)
        return;
    const real *whole = job->reference ? later : 0;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x)
        store(x, whole, i, array[i]);
}
