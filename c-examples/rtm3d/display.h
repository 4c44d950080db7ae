/* Writes a vertical slice of a volume as a PNG: depth downwards, the shot line to the right, axes
 * in metres or kilometres, and a grey scale. */
#ifndef RTM_DISPLAY_H
#define RTM_DISPLAY_H

#include "propagator.h"

/* The slice runs along the longer horizontal axis through the middle of the other axis. `title`
 * is written above it. Both functions return 0 or -1. */

/* Draws velocities: black is the slowest, white the fastest. The title is the last part of the
 * path `name`. */
int display_model(const char *path, const grid_t *g, const float *v, const char *name);
/* Draws reflectivity: zero is mid-grey, the 99th percentile of |value| is black or white. For
 * the picture only, values are multiplied by display_gain; the grey scale is in units of that
 * percentile. The note below the picture says so, after `what` the values are. */
int display_image(const char *path, const grid_t *g, const float *image, const char *title, const char *what);
/* The factor at depth `z` in cells: mutes the imprint of sources and receivers at the top; in
 * 3-D grows as depth^1.5. */
double display_gain(const grid_t *g, size_t z);

#endif
