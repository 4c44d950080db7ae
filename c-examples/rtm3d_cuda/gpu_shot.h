/* One shot on a GPU: the physics of shot.h, enqueued step by step on one stream. */
#ifndef RTM_CUDA_GPU_SHOT_H
#define RTM_CUDA_GPU_SHOT_H

#include "kernels.h"

/* All arrays except those of `survey` are in device memory. */
typedef struct gpu_shot_t {
    const survey_t *survey;
    medium_t truth, smooth;
    size_t *receiver;             /* [receivers], a copy of the survey's */
    size_t source;                /* position of this shot */
    wavefield_t u, lambda;
    wavefield_t ahead;            /* of gpu_shot_record_rest; NULL if every state enters the image */
    float *observed, *synthetic;  /* [steps][receivers] */
    cudaStream_t stream;          /* stream of all work of the shot */
    void (*stepped)(void);        /* called after each time step is enqueued, or NULL */
} gpu_shot_t;

/* Make copies of a model's coefficients, wavefields at rest, and sums of zero; end the program
 * if there is no memory. */
medium_t gpu_medium_open(const medium_t *host);
void gpu_medium_close(medium_t *m);
wavefield_t gpu_wavefield_open(const grid_t *g);
void gpu_wavefield_close(wavefield_t *w);
image_t gpu_image_open(const grid_t *g);
void gpu_image_close(image_t *image);
/* Sets the sums to zero in the order of the stream. */
void gpu_image_clear(const image_t *image, cudaStream_t stream);
/* Waits for the stream and copies the sums to the host memory of `to`. */
void gpu_image_fetch(const image_t *image, image_t *to, cudaStream_t stream);

void gpu_shot_open(gpu_shot_t *shot, const medium_t *truth, const medium_t *smooth, const survey_t *survey);
/* Frees the shot's memory; does nothing for a shot whose members are all zero. */
void gpu_shot_close(gpu_shot_t *shot);

/* The functions of shot.h; they only enqueue work. */
void gpu_shot_observe(gpu_shot_t *shot, size_t number);
void gpu_shot_begin(gpu_shot_t *shot);
void gpu_shot_forward(gpu_shot_t *shot, size_t ts, int record);
void gpu_shot_forward_to(gpu_shot_t *shot, size_t ts, int record, float *next);
void gpu_shot_record_rest(gpu_shot_t *shot, size_t ts);
void gpu_shot_backward(gpu_shot_t *shot, size_t ts, size_t ts_end, const float *u, image_t *image);

#endif
