/*
 * The work of a time step on a GPU: the expressions of propagator.c and shot.c in their order,
 * compiled without fused multiply-adds, as the C files are. The images therefore equal those of
 * the CPU bit for bit.
 *
 * Structures are those of rtm3d with their arrays in device memory. Every function enqueues
 * work on the stream and returns. No result depends on atomic operations or on the order of
 * threads.
 */
#ifndef RTM_CUDA_KERNELS_H
#define RTM_CUDA_KERNELS_H

#include "cuda.h"
#include "rtm3d.h"

/* One time step without sources: (u(t), u(t-1)) becomes (u(t+1), u(t)). */
void gpu_propagate(const medium_t *m, wavefield_t *w, cudaStream_t stream);
/* The same step with u(t+1) in `next`, as propagate_to. */
void gpu_propagate_to(const medium_t *m, wavefield_t *w, float *next, cudaStream_t stream);
/* Sets the halo of both time levels to zero, after a lossy snapshot was retrieved, or in memory that
 * was handed out. */
void gpu_clear_halo(const grid_t *g, const wavefield_t *w, cudaStream_t stream);
/* field[index] += K s: adds the source to `field`, which a step has just computed. */
void gpu_inject(const medium_t *m, float *field, size_t index, float s, cudaStream_t stream);
/* data[r] = field[receiver[r]], r < count. */
void gpu_record(const float *field, const size_t *receiver, size_t count, float *data,
                cudaStream_t stream);
/* Adds the residual as a source: field[receiver[r]] += K (observed[r] - synthetic[r]). All
 * receivers differ. */
void gpu_inject_residual(const medium_t *m, float *field, const size_t *receiver, size_t count,
                         const float *observed, const float *synthetic, cudaStream_t stream);
/* I += u lambda and S += u^2 on the cells of the model. */
void gpu_correlate(const grid_t *g, const float *u, const float *lambda, const image_t *image,
                   cudaStream_t stream);

#endif
