/* Velocity models: m/s, FP32, n1 (depth) fastest, then n2, then n3. */
#ifndef RTM_MODEL_H
#define RTM_MODEL_H

#include <stddef.h>

/* Every function returns memory to free(), or NULL with the reason on stderr. */

/* Reads raw little-endian FP32; the size of the file must be that of the dimensions. */
float *model_load(const char *path, size_t n1, size_t n2, size_t n3);
/* Layers pierced by a salt dome, in any size; 2-D where n3 is 1. */
float *model_salt(size_t n1, size_t n2, size_t n3);
/* Smooths slowness (so that travel times are kept) with a Gaussian of `cells` standard deviation. */
float *model_smooth(const float *v, size_t n1, size_t n2, size_t n3, double cells);
/* The 2-D model `v` repeated n3 times. */
float *model_extrude(const float *v, size_t n1, size_t n2, size_t n3);

/* Range of the velocities; 0, or -1 with the reason on stderr where one is not finite or positive. */
int model_range(const float *v, size_t cells, const char *name, double *vmin, double *vmax);
/* Harmonic mean: distance over it is travel time. */
double model_mean(const float *v, size_t cells);

#endif
