/*
 * Enough of the CUDA runtime to run the examples on a CUDA driver, mostly the software driver of
 * tests/cuda-emu: every call becomes the driver's call that NVIDIA's runtime would make. The kernels
 * are compiled by NVRTC from the file that KERNELS names. tests/cuda/example.rs rewrites
 * `f<<<...>>>(...)` to CUDA_LAUNCH.
 */
#ifndef CUDA_DRIVER_RUNTIME_H
#define CUDA_DRIVER_RUNTIME_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

using std::max;
using std::min;

/* The host's compiler also sees the bodies of the kernels, which are never called. */
#define __global__ __attribute__((unused))
#define __device__ __attribute__((unused))
#define __shared__ static
#define __launch_bounds__(...)
#define __forceinline__ inline
static inline void __syncthreads() {}
static inline int __syncthreads_or(int value) { return value; }

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
static dim3 gridDim, blockDim, blockIdx, threadIdx;

typedef struct cuda_stream *cudaStream_t;
typedef struct cuda_event *cudaEvent_t;
typedef int cudaError_t;
typedef uint64_t cuda_address;
enum { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorNotReady = 600 };
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaDevAttrMultiProcessorCount = 16 };
struct cudaDeviceProp {
    char name[256];
};

extern "C" {
int cuInit(unsigned flags);
int cuGetErrorName(int code, const char **name);
int cuDeviceGetName(char *name, int bytes, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuCtxSynchronize(void);
int cuMemGetInfo_v2(size_t *available, size_t *all);
int cuMemAlloc_v2(cuda_address *address, size_t bytes);
int cuMemFree_v2(cuda_address address);
int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags);
int cuMemFreeHost(void *memory);
int cuMemcpyAsync(cuda_address to, cuda_address from, size_t bytes, cudaStream_t stream);
int cuMemsetD8Async(cuda_address to, unsigned char value, size_t bytes, cudaStream_t stream);
int cuStreamCreate(cudaStream_t *stream, unsigned flags);
int cuStreamDestroy_v2(cudaStream_t stream);
int cuStreamSynchronize(cudaStream_t stream);
int cuStreamQuery(cudaStream_t stream);
int cuStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
int cuEventCreate(cudaEvent_t *event, unsigned flags);
int cuEventDestroy_v2(cudaEvent_t event);
int cuEventRecord(cudaEvent_t event, cudaStream_t stream);
int cuEventSynchronize(cudaEvent_t event);
int cuEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end);
int cuModuleLoadData(void **module, const void *image);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                   unsigned shared, cudaStream_t stream, void **arguments, void **extra);
int nvrtcCreateProgram(void **program, const char *source, const char *name, int headers, const char *const *texts, const char *const *names);
int nvrtcCompileProgram(void *program, int count, const char *const *options);
int nvrtcGetPTXSize(void *program, size_t *bytes);
int nvrtcGetPTX(void *program, char *text);
int nvrtcDestroyProgram(void **program);
}

/* Begins CUDA at the first call, as the runtime does. One thread of the program uses CUDA. */
static inline int cuda_begun()
{
    static void *context = NULL;
    if (context != NULL)
        return cudaSuccess;
    const int status = cuInit(0);
    if (status != cudaSuccess)
        return status;
    const int retained = cuDevicePrimaryCtxRetain(&context, 0);
    return retained != cudaSuccess ? retained : cuCtxSetCurrent(context);
}

#define CUDA_CALL(call) (cuda_begun() != cudaSuccess ? cuda_begun() : (call))

static inline cuda_address cuda_at(const void *memory) { return (cuda_address)(uintptr_t)memory; }

/* Ends the program after an error of a launch, which has no result that the examples could check. */
static inline void cuda_must(int status, const char *what)
{
    if (status == cudaSuccess)
        return;
    fprintf(stderr, "%s: error %d\n", what, status);
    exit(1);
}

/* Returns the function of the kernel `name` on the device. */
static inline void *cuda_kernel(const char *name)
{
    static void *module = NULL;
    static std::map<std::string, void *> known;
    if (module == NULL) {
        const char *options[] = {"--fmad=false", "--gpu-architecture=compute_80"};
        std::stringstream source;
        source << std::ifstream(KERNELS).rdbuf();
        void *program = NULL;
        size_t bytes = 0;
        cuda_must(cuda_begun(), "cuInit");
        cuda_must(nvrtcCreateProgram(&program, source.str().c_str(), "kernels.cu", 0, NULL, NULL), "nvrtcCreateProgram");
        cuda_must(nvrtcCompileProgram(program, 2, options), "nvrtcCompileProgram");
        cuda_must(nvrtcGetPTXSize(program, &bytes), "nvrtcGetPTXSize");
        std::string text(bytes, 0);
        cuda_must(nvrtcGetPTX(program, &text[0]), "nvrtcGetPTX");
        cuda_must(nvrtcDestroyProgram(&program), "nvrtcDestroyProgram");
        cuda_must(cuModuleLoadData(&module, text.c_str()), "cuModuleLoadData");
    }
    void *&function = known[name];
    if (function == NULL)
        cuda_must(cuModuleGetFunction(&function, module, name), name);
    return function;
}

/* Launches of a kernel with these types of parameters. The last element of the array of arguments is
 * NULL, by which the software driver finds missing arguments. */
template <typename... Parameters> struct cuda_launcher {
    void operator()(const char *name, dim3 grid, dim3 block, size_t shared, cudaStream_t stream, Parameters... values)
    {
        void *arguments[] = {(void *)&values..., NULL};
        cuda_must(cuLaunchKernel(cuda_kernel(name), grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream, arguments, NULL), name);
    }
};
template <typename... Parameters> cuda_launcher<Parameters...> cuda_launcher_of(void (*)(Parameters...)) { return {}; }
#define CUDA_UNPACK(...) __VA_ARGS__
#define CUDA_LAUNCH(kernel, place, arguments) cuda_launcher_of(kernel##_kernel)(#kernel, CUDA_UNPACK place, CUDA_UNPACK arguments)

/* `kernel` is a function that the program exports under the kernel's name (-rdynamic). */
static inline cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)
{
    Dl_info found = {};
    cuda_must(dladdr(kernel, &found) == 0 || found.dli_sname == NULL, "cudaLaunchKernel: no name of a kernel");
    return cuLaunchKernel(cuda_kernel(found.dli_sname), grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream, arguments, NULL);
}

static inline const char *cudaGetErrorString(cudaError_t code)
{
    const char *name = NULL;
    return cuGetErrorName(code, &name) == cudaSuccess ? name : "an unknown error";
}
static inline cudaError_t cudaGetLastError() { return cudaSuccess; }
static inline cudaError_t cudaGetDevice(int *device) { return *device = 0, cuda_begun(); }
static inline cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device) { return CUDA_CALL(cuDeviceGetAttribute(value, attribute, device)); }
static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device) { return CUDA_CALL(cuDeviceGetName(p->name, (int)sizeof p->name, device)); }
static inline cudaError_t cudaDeviceSynchronize() { return CUDA_CALL(cuCtxSynchronize()); }
template <typename T> cudaError_t cudaMalloc(T **memory, size_t bytes) { return CUDA_CALL(cuMemAlloc_v2((cuda_address *)memory, bytes)); }
template <typename T> cudaError_t cudaMallocHost(T **memory, size_t bytes) { return CUDA_CALL(cuMemHostAlloc((void **)memory, bytes, 0)); }
static inline cudaError_t cudaFree(void *memory) { return memory == NULL ? cudaSuccess : CUDA_CALL(cuMemFree_v2(cuda_at(memory))); }
static inline cudaError_t cudaFreeHost(void *memory) { return memory == NULL ? cudaSuccess : CUDA_CALL(cuMemFreeHost(memory)); }
/* A reference leaves 512 MB of the device's memory to other programs: of this much memory, it keeps
 * some states on the device and the others in host memory. */
static inline cudaError_t cudaMemGetInfo(size_t *available, size_t *all) { return *available = *all = (size_t)514 << 20, cuda_begun(); }
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t stream)
{
    return CUDA_CALL(cuMemcpyAsync(cuda_at(to), cuda_at(from), bytes, stream));
}
static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    const cudaError_t status = cudaMemcpyAsync(to, from, bytes, kind, NULL);
    return status != cudaSuccess ? status : cuStreamSynchronize(NULL);
}
static inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    return CUDA_CALL(cuMemsetD8Async(cuda_at(to), (unsigned char)value, bytes, stream));
}
static inline cudaError_t cudaMemset(void *to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, NULL); }
static inline cudaError_t cudaStreamCreate(cudaStream_t *s) { return CUDA_CALL(cuStreamCreate(s, 0)); }
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, int flags) { return CUDA_CALL(cuStreamCreate(s, (unsigned)flags)); }
static inline cudaError_t cudaStreamDestroy(cudaStream_t s) { return CUDA_CALL(cuStreamDestroy_v2(s)); }
static inline cudaError_t cudaStreamQuery(cudaStream_t s) { return CUDA_CALL(cuStreamQuery(s)); }
static inline cudaError_t cudaStreamSynchronize(cudaStream_t s) { return CUDA_CALL(cuStreamSynchronize(s)); }
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, int flags) { return CUDA_CALL(cuStreamWaitEvent(s, e, (unsigned)flags)); }
static inline cudaError_t cudaEventCreate(cudaEvent_t *e) { return CUDA_CALL(cuEventCreate(e, 0)); }
static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, int flags) { return CUDA_CALL(cuEventCreate(e, (unsigned)flags)); }
static inline cudaError_t cudaEventDestroy(cudaEvent_t e) { return CUDA_CALL(cuEventDestroy_v2(e)); }
static inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) { return CUDA_CALL(cuEventRecord(e, s)); }
static inline cudaError_t cudaEventSynchronize(cudaEvent_t e) { return CUDA_CALL(cuEventSynchronize(e)); }
static inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end) { return CUDA_CALL(cuEventElapsedTime(ms, begin, end)); }

#endif
