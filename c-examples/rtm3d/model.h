/* Velocity models: m/s, FP32, n1 (depth) fastest, then n2, then n3. */
#ifndef RTM_MODEL_H
#define RTM_MODEL_H

#include <stddef.h>

/* Every function that returns a pointer returns memory to free(), or NULL with the reason on
 * stderr. */

/* Reads raw little-endian FP32; the file must have the size of the dimensions. */
float *model_load(const char *path, size_t n1, size_t n2, size_t n3);
/* Makes layers pierced by a salt dome, for any size; 2-D if n3 is 1. */
float *model_salt(size_t n1, size_t n2, size_t n3);
/* Smooths slowness, which keeps travel times, with a Gaussian of standard deviation `cells`. */
float *model_smooth(const float *v, size_t n1, size_t n2, size_t n3, double cells);
/* Repeats the 2-D model `v` n3 times. */
float *model_extrude(const float *v, size_t n1, size_t n2, size_t n3);

/* Finds the range of the velocities. Returns 0, or -1 with the reason on stderr if a velocity
 * is not finite or not positive. */
int model_range(const float *v, size_t cells, const char *name, double *vmin, double *vmax);
/* Harmonic mean of the velocities: distance over this mean is the travel time. */
double model_mean(const float *v, size_t cells);

#endif
