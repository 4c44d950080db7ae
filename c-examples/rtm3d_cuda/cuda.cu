#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>

#include "rtm3d.h"

void cuda_check(cudaError_t status, const char *call, const char *file, int line)
{
    if (status == cudaSuccess)
        return;
    complain("%s:%d: %s: %s", file, line, call, cudaGetErrorString(status));
    exit(1);
}

float *cuda_alloc(size_t count)
{
    float *memory;
    CUDA(cudaMalloc(&memory, count * sizeof *memory));
    CUDA(cudaMemset(memory, 0, count * sizeof *memory));
    return memory;
}

const char *cuda_device_name()
{
    static char name[256];
    cudaDeviceProp properties;
    int device;

    CUDA(cudaGetDevice(&device));
    CUDA(cudaGetDeviceProperties(&properties, device));
    snprintf(name, sizeof name, "%s", properties.name);
    return name;
}
