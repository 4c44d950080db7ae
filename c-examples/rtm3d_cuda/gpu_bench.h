/* Compares the speed of the propagator and of the link with the speed of the machine. */
#ifndef RTM_CUDA_GPU_BENCH_H
#define RTM_CUDA_GPU_BENCH_H

#include "kernels.h"

/* A medium of constant velocity: the amount of work does not depend on the model. */
medium_t gpu_plain_medium(const grid_t *g);
/* Fills a wavefield with noise, since kernels and copies can be faster on zeros. */
void gpu_noise(const grid_t *g, wavefield_t *w);

/* Prints a table, or JSON with --json. Returns 0, or -1 with the reason on stderr. */
int gpu_bench(const options_t *o);

#endif
