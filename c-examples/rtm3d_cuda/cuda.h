/* Calls of the CUDA runtime with a check: after an error the program ends and says where. */
#ifndef RTM_CUDA_CUDA_H
#define RTM_CUDA_CUDA_H

#include <cuda_runtime.h>
#include <stddef.h>

#include <algorithm>
#include <vector>

/* Used as CUDA(cudaMalloc(...)), and after a launch as CUDA(cudaGetLastError()). */
#define CUDA(call) cuda_check((call), #call, __FILE__, __LINE__)

/* Prints the error and exits with 1 unless `status` is success. */
void cuda_check(cudaError_t status, const char *call, const char *file, int line);

/* Allocates device memory for `count` values, set to zero; to be freed with cudaFree. */
float *cuda_alloc(size_t count);

/* Name of the current device; ends the program if there is no device. The text is valid until
 * the next call. */
const char *cuda_device_name();

/* Median seconds of `repeats` runs of work(stream), measured with events, after one run that is
 * not counted. */
template <typename Work> double cuda_seconds(cudaStream_t stream, int repeats, Work work)
{
    cudaEvent_t begin, end;
    std::vector<double> seconds;

    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    for (int i = 0; i <= repeats; i++) {
        float milliseconds;
        CUDA(cudaEventRecord(begin, stream));
        work(stream);
        CUDA(cudaEventRecord(end, stream));
        CUDA(cudaEventSynchronize(end));
        CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
        if (i > 0)
            seconds.push_back(1e-3 * milliseconds);
    }
    CUDA(cudaEventDestroy(begin));
    CUDA(cudaEventDestroy(end));
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
}

#endif
