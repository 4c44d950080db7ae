/* The kernels that kernels.rs compiles and runs. */
extern "C" __global__ void add(float *c, const float *a, const float *b, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}
extern "C" __global__ void __launch_bounds__(256) reduce(unsigned *sums, const unsigned *v)
{
    extern __shared__ unsigned s[];
    __shared__ unsigned extra;
    const unsigned t = threadIdx.x;
    s[t] = v[blockIdx.x * blockDim.x + t];
    if (t == 0)
        extra = 1;
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half)
            s[t] += s[t + half];
    }
    if (t == 0)
        sums[blockIdx.x] = s[0] + extra;
}
extern "C" __global__ void warp(unsigned *out)
{
    const unsigned t = threadIdx.x;
    unsigned sum = t;
    for (int by = 16; by > 0; by /= 2)
        sum += __shfl_xor_sync(~0u, sum, by);
    out[5 * t] = __ballot_sync(~0u, t % 3 == 0);
    out[5 * t + 1] = sum;
    out[5 * t + 2] = __shfl_up_sync(~0u, t, 1);
    out[5 * t + 3] = __reduce_max_sync(~0u, t) + 100 * __any_sync(~0u, t == 33) + 1000 * __all_sync(~0u, t < 40);
    out[5 * t + 4] = __float_as_uint(__shfl_sync(~0u, (float)t, 4, 8));
}
extern "C" __global__ void ticket(unsigned *order, unsigned *next, unsigned long long *sum)
{
    order[atomicAdd(next, 1)] = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(sum, 1ull << 33);
    atomicMax(sum + 1, blockIdx.x);
}
extern "C" __global__ void index(uint3_or_dim3 *out, float4 v)
{
    const unsigned b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    out[b] = make_uint4(blockIdx.x, blockIdx.y, blockIdx.z, (unsigned)(v.x + v.y + v.z + v.w));
}
extern "C" __global__ void diverge(int *out)
{
    if (threadIdx.x < 16)
        __syncthreads();
    else
        __syncwarp(0xffff0000u), __syncthreads();
}
extern "C" __global__ void trap(int *out) { if (blockIdx.x == 1) __trap(); }
extern "C" __global__ void lost(int *out) { if (threadIdx.x) __syncwarp(); else __syncthreads(); }
extern "C" __global__ void shift(int *out, int wait)
{
    __shared__ int s[32];
    s[threadIdx.x] = threadIdx.x + 1;
    if (wait)
        __syncwarp();
    out[threadIdx.x] = threadIdx.x ? s[threadIdx.x - 1] : 0;
}
extern "C" __global__ void fresh(unsigned *out, unsigned put)
{
    extern __shared__ unsigned d[];
    __shared__ unsigned s[9];
    out[2 * blockIdx.x] = s[put % 9];
    out[2 * blockIdx.x + 1] = d[3];
    d[3] = s[put % 9] = put;
}
extern "C" __global__ void spin(int *turn)
{
    while (atomicCAS(turn, threadIdx.x, threadIdx.x + 1) != threadIdx.x) {}
}
