/* Speed of the propagator and of the link against what the machine allows. */
#ifndef RTM_CUDA_GPU_BENCH_H
#define RTM_CUDA_GPU_BENCH_H

#include "kernels.h"

/* A medium of constant velocity, and nothing else: the work is the same for any model. */
medium_t gpu_plain_medium(const grid_t *g);
/* Fills a wavefield with noise: zeros can be faster than data. */
void gpu_noise(const grid_t *g, wavefield_t *w);

/* Prints a table, or JSON with --json; 0, or -1 with the reason on stderr. */
int gpu_bench(const options_t *o);

#endif
