/* One shot on a GPU: shot.h's physics, step by step, enqueued on one stream. */
#ifndef RTM_CUDA_GPU_SHOT_H
#define RTM_CUDA_GPU_SHOT_H

#include "kernels.h"

/* All arrays but those of `survey` are device memory. */
typedef struct gpu_shot_t {
    const survey_t *survey;
    medium_t truth, smooth;
    size_t *receiver;             /* [receivers], as in the survey */
    size_t source;                /* of this shot */
    wavefield_t u, lambda;
    float *observed, *synthetic;  /* [steps][receivers] */
    cudaStream_t stream;          /* of all its work */
    void (*stepped)(void);        /* called after each time step is enqueued; NULL: nobody counts them */
} gpu_shot_t;

/* Copies of a model's coefficients, of wavefields at rest, of sums at zero; ends the program where there is no memory. */
medium_t gpu_medium_open(const medium_t *host);
void gpu_medium_close(medium_t *m);
wavefield_t gpu_wavefield_open(const grid_t *g);
void gpu_wavefield_close(wavefield_t *w);
image_t gpu_image_open(const grid_t *g);
void gpu_image_close(image_t *image);
/* Sets the sums to zero, in the stream's order. */
void gpu_image_clear(const image_t *image, cudaStream_t stream);
/* Waits for the stream and copies the sums to the host's `to`. */
void gpu_image_fetch(const image_t *image, image_t *to, cudaStream_t stream);

void gpu_shot_open(gpu_shot_t *shot, const medium_t *truth, const medium_t *smooth, const survey_t *survey);
/* Of a zeroed one, nothing. */
void gpu_shot_close(gpu_shot_t *shot);

/* The functions of shot.h. They only enqueue. */
void gpu_shot_observe(gpu_shot_t *shot, size_t number);
void gpu_shot_begin(gpu_shot_t *shot);
void gpu_shot_forward(gpu_shot_t *shot, size_t ts, int record);
void gpu_shot_backward(gpu_shot_t *shot, size_t ts, const float *u, image_t *image);

#endif
