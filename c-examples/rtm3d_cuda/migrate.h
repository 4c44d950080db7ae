/* Migration of a shot on a GPU: with gpuzip, or with every state kept. */
#ifndef RTM_CUDA_MIGRATE_H
#define RTM_CUDA_MIGRATE_H

#include "gpu_shot.h"

/* Every state of a shot, in device memory as far as it suffices, the others in page-locked host
 * memory. */
typedef struct gpu_reference_t {
    size_t steps, on_device;  /* numbers of states; the first ones are on the device */
    float **states;
} gpu_reference_t;

/* Migrates one shot, whose data were observed, into `image`. Waits for the GPU only at its end.
 * Returns 0 or -1. */
int gpu_migrate(checkpoint_t *c, gpu_shot_t *shot, image_t *image);

/* Allocates memory for the states; ends the program if they do not fit. */
void gpu_reference_open(gpu_reference_t *r, const grid_t *g, size_t steps);
void gpu_reference_close(gpu_reference_t *r);
void gpu_reference_migrate(gpu_reference_t *r, gpu_shot_t *shot, image_t *image);

#endif
