/*
 * Enough of the CUDA runtime to run the examples on the CPU. "Device" memory is host memory; every
 * stream is NULL, and its work runs at once; a kernel runs block after block with one fibre per
 * thread, and __syncthreads switches the fibre. The tests that use this header check the results of
 * kernels and host code, not their ordering, which tests with tests/cuda-emu check.
 * tests/cuda/example.rs rewrites `f<<<...>>>(...)` to CUDA_LAUNCH.
 */
#ifndef CUDA_HOST_RUNTIME_H
#define CUDA_HOST_RUNTIME_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)

using std::max;
using std::min;

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
static dim3 gridDim, blockDim, blockIdx, threadIdx;

/* A thread of the running block. A fibre begins with setcontext and switches with longjmp, which,
 * unlike swapcontext, makes no system call. */
struct cuda_host_fibre {
    jmp_buf here;
    std::unique_ptr<char[]> stack;
    bool begun, done;
};
static std::vector<cuda_host_fibre> cuda_host_fibres;
static std::function<void()> cuda_host_work;
static jmp_buf cuda_host_block;
static size_t cuda_host_current;

static void cuda_host_thread()
{
    cuda_host_work();
    cuda_host_fibres[cuda_host_current].done = true;
    _longjmp(cuda_host_block, 1);
}

static inline void __syncthreads()
{
    const dim3 index = threadIdx;
    if (_setjmp(cuda_host_fibres[cuda_host_current].here) == 0)
        _longjmp(cuda_host_block, 1);
    threadIdx = index;
}

/* Runs a thread to its next barrier or its end. */
static void cuda_host_resume(cuda_host_fibre *f)
{
    const size_t stack = 32 << 10;
    ucontext_t context;

    if (_setjmp(cuda_host_block) != 0)
        return;
    if (f->begun)
        _longjmp(f->here, 1);
    if (!f->stack)
        f->stack.reset(new char[stack]);
    getcontext(&context);
    context.uc_stack.ss_sp = f->stack.get();
    context.uc_stack.ss_size = stack;
    context.uc_link = NULL;
    makecontext(&context, cuda_host_thread, 0);
    f->begun = true;
    setcontext(&context);
}

/* The order in which the threads of a block run changes from barrier to barrier. */
static void cuda_host_run_block(size_t threads)
{
    size_t left = threads;

    cuda_host_fibres.resize(std::max(threads, cuda_host_fibres.size()));
    for (cuda_host_fibre &f : cuda_host_fibres)
        f.begun = f.done = false;
    for (size_t round = 0; left > 0; round++)
        for (size_t k = 0; k < threads; k++) {
            const size_t i = round % 2 == 0 ? k : threads - 1 - k;
            if (cuda_host_fibres[i].done)
                continue;
            cuda_host_current = i;
            threadIdx = dim3(i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y);
            cuda_host_resume(&cuda_host_fibres[i]);
            left -= cuda_host_fibres[i].done;
        }
}

typedef struct cuda_host_stream *cudaStream_t;

static inline void cuda_host_launch(dim3 grid, dim3 block, size_t, cudaStream_t, std::function<void()> work)
{
    gridDim = grid, blockDim = block;
    cuda_host_work = work;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = dim3(x, y, z);
                cuda_host_run_block((size_t)block.x * block.y * block.z);
            }
}

#define CUDA_UNPACK(...) __VA_ARGS__
#define CUDA_LAUNCH(kernel, place, arguments) cuda_host_launch(CUDA_UNPACK place, [=] { kernel##_kernel arguments; })

enum cudaError_t { cudaSuccess, cudaErrorMemoryAllocation };
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaDevAttrMultiProcessorCount = 16 };
typedef struct cuda_host_event *cudaEvent_t;
struct cudaDeviceProp {
    char name[256];
};

static inline const char *cudaGetErrorString(cudaError_t e) { return e == cudaSuccess ? "no error" : "out of memory"; }
static inline cudaError_t cudaGetLastError() { return cudaSuccess; }
static inline cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
static inline cudaError_t cudaDeviceGetAttribute(int *value, int, int) { return *value = 4, cudaSuccess; }
static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int) { return strcpy(p->name, "CPU"), cudaSuccess; }
static inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

/* Fills new memory with a pattern, so that no kernel can rely on zeros. */
template <typename T> cudaError_t cudaMalloc(T **memory, size_t bytes)
{
    *memory = (T *)malloc(bytes);
    return *memory == NULL ? cudaErrorMemoryAllocation : (memset(*memory, 0xee, bytes), cudaSuccess);
}
template <typename T> cudaError_t cudaMallocHost(T **memory, size_t bytes) { return cudaMalloc(memory, bytes); }
static inline cudaError_t cudaFree(void *memory) { return free(memory), cudaSuccess; }
static inline cudaError_t cudaFreeHost(void *memory) { return free(memory), cudaSuccess; }
/* Reports so little free memory that a reference keeps some states on the "device" and the others
 * in "host" memory. */
static inline cudaError_t cudaMemGetInfo(size_t *available, size_t *all) { return *available = *all = (size_t)514 << 20, cudaSuccess; }
static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) { return memcpy(to, from, bytes), cudaSuccess; }
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t) { return memcpy(to, from, bytes), cudaSuccess; }
static inline cudaError_t cudaMemset(void *to, int value, size_t bytes) { return memset(to, value, bytes), cudaSuccess; }
static inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t) { return memset(to, value, bytes), cudaSuccess; }
static inline cudaError_t cudaStreamCreate(cudaStream_t *s) { return *s = NULL, cudaSuccess; }
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, int) { return *s = NULL, cudaSuccess; }
static inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
static inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, int) { return cudaSuccess; }
static inline cudaError_t cudaEventCreate(cudaEvent_t *e) { return *e = NULL, cudaSuccess; }
static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, int) { return *e = NULL, cudaSuccess; }
static inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
static inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
static inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
static inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t, cudaEvent_t) { return *ms = 1, cudaSuccess; }

#endif
