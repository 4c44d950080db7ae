/* Writes the files of a run. */
#ifndef RTM_OUTPUT_H
#define RTM_OUTPUT_H

#include "job.h"
#include "report.h"
#include "shot.h"

/* Creates the folder `out` if it does not exist. Returns 0, or -1 with the reason on stderr. */
int output_folder(const char *out);
/* As output_folder, and names the files in the folder. */
int output_open(outputs_t *files, const char *out);
/* Writes the gradient on the model's cells (raw FP32, units of gradient.h) and its picture.
 * Returns 0 or -1. */
int output_gradient(const outputs_t *files, const job_t *job, const double *gradient);
/* Writes image and filtered image (raw FP32, model cells, n1 fastest) and all pictures. Returns
 * 0 or -1. */
int output_write(const outputs_t *files, const job_t *job, const image_t *image);

#endif
