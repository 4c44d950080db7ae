// The file in which GPUZIP 2.x has CheckpointOnly.
#ifndef GPUZIP_DROPIN_PREFETCH_CHECKPOINTONLY_CUH
#define GPUZIP_DROPIN_PREFETCH_CHECKPOINTONLY_CUH

#include "Prefetch.cuh"

#endif
