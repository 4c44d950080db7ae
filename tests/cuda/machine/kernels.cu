/* The kernels of an application that tests a machine: they write the states of a shot, as slowly as
 * they are told, check them, and keep the memory of a device busy. */

/* Value `i` of field and time level `state`: multiples of 1 below 1024, alike for 64 values. */
static __device__ float value(unsigned long long i, unsigned state)
{
    return (float)(((i >> 6) + 137ull * state) & 1023);
}

/* Writes a state. Each value costs `rounds` rounds of work. */
extern "C" __global__ void fill(float *at, unsigned long long count, unsigned state, unsigned rounds)
{
    const unsigned long long first = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    for (unsigned long long i = first; i < count; i += (unsigned long long)gridDim.x * blockDim.x) {
        unsigned x = (unsigned)i | 1;
        for (unsigned round = 0; round < rounds; round++) {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
        }
        /* x is never 0, which the compiler does not know. */
        at[i] = value(i, state) + (x == 0 ? 1.0f : 0.0f);
    }
}

/* Counts in *wrong the values of a state that are off by more than `tolerance`/1024. */
extern "C" __global__ void check(const float *at, unsigned long long count, unsigned state,
                                 unsigned tolerance, unsigned *wrong)
{
    const unsigned long long first = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    for (unsigned long long i = first; i < count; i += (unsigned long long)gridDim.x * blockDim.x) {
        const float off = at[i] - value(i, state), most = (float)tolerance / 1024.0f;
        if (!(off <= most && -off <= most))
            atomicAdd(wrong, 1u);
    }
}

/* Reads and writes `count` values `rounds` times. */
extern "C" __global__ void through(float *at, unsigned long long count, unsigned rounds)
{
    const unsigned long long first = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    for (unsigned round = 0; round < rounds; round++)
        for (unsigned long long i = first; i < count; i += (unsigned long long)gridDim.x * blockDim.x)
            at[i] = at[i] + 1.0f;
}

/* Stores 32 bytes where the host reads them, as kernels of codecs store a report. */
extern "C" __global__ void report(unsigned long long *to, unsigned long long word)
{
    if (threadIdx.x < 4)
        ((volatile unsigned long long *)to)[threadIdx.x] = word;
}

/* Fails, so that the error sticks to the context. */
extern "C" __global__ void fault(unsigned *at)
{
    if (at[0] == 0)
        __trap();
}
