/* The files of a run. */
#ifndef RTM_OUTPUT_H
#define RTM_OUTPUT_H

#include "job.h"
#include "report.h"
#include "shot.h"

/* Creates the folder `out` if need be; 0, or -1 with the reason on stderr. */
int output_folder(const char *out);
/* The same, and names the files in it; 0, or -1 with the reason on stderr. */
int output_open(outputs_t *files, const char *out);
/* Writes the gradient of the same cells (raw FP32, units of gradient.h) and its picture; 0 or -1. */
int output_gradient(const outputs_t *files, const job_t *job, const double *gradient);
/* Writes image and filtered image (raw FP32, model cells, n1 fastest) and all pictures; 0 or -1. */
int output_write(const outputs_t *files, const job_t *job, const image_t *image);

#endif
