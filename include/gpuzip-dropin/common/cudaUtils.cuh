// GPUZIP_CUDA_CHECK, and ranges in a profiler's timeline: NvtxPush and NvtxPop, which do nothing
// unless USE_NVTX is defined.
#ifndef GPUZIP_DROPIN_COMMON_CUDAUTILS_CUH
#define GPUZIP_DROPIN_COMMON_CUDAUTILS_CUH

#include "GPUZIPError.h"

#include <string>

// GPUZIP 2.x's headers include the CUDA runtime. This header includes it if the compiler finds it;
// no other drop-in header needs it.
#if defined(__has_include)
#if __has_include(<cuda_runtime.h>)
#include <cuda_runtime.h>
#endif
#endif

#ifdef USE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

/// Throws GPUZIPError with GPUZIP_ERR_DEVICE if a call of the CUDA runtime failed. GPUZIP 2.x ended
/// the process instead.
#define GPUZIP_CUDA_CHECK(call)                                                                                       \
  do {                                                                                                                \
    const cudaError_t gpuzip_cuda_status = (call);                                                                    \
    if (gpuzip_cuda_status != cudaSuccess)                                                                            \
      throw GPUZIPError(GPUZIP_ERR_DEVICE, std::string(__FILE__) + ":" + std::to_string(__LINE__) + ": " #call ": " + \
                                               cudaGetErrorString(gpuzip_cuda_status));                               \
  } while (0)

/// Opens a range named `title` in the profiler's timeline.
inline void NvtxPush(const char *title) {
#ifdef USE_NVTX
  nvtxRangePushA(title);
#else
  static_cast<void>(title);
#endif
}

/// Closes the range that this thread's last NvtxPush opened.
inline void NvtxPop() {
#ifdef USE_NVTX
  nvtxRangePop();
#endif
}

#endif
