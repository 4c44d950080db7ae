/* A vertical slice of a volume as a PNG: depth downwards, the shot line to the right, axes in metres or kilometres, a grey scale. */
#ifndef RTM_DISPLAY_H
#define RTM_DISPLAY_H

#include "propagator.h"

/* The slice runs along the longer horizontal axis through the middle of the other. `title` is written above it. 0 or -1. */

/* Velocities: black is the slowest, white the fastest. The title is the last part of `name`. */
int display_model(const char *path, const grid_t *g, const float *v, const char *name);
/* Reflectivity: zero is mid-grey, the 99th percentile of |value| is black or white. For the eye
 * only, values are multiplied by display_gain; the scale tells shares of that percentile. */
int display_image(const char *path, const grid_t *g, const float *image, const char *title);
/* The imprint of sources and receivers is muted at the top, and 3-D gains depth^1.5; `z` in cells. */
double display_gain(const grid_t *g, size_t z);

#endif
