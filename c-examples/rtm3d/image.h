/* From the sums of the migration to an image: scaling, filtering, fingerprints. */
#ifndef RTM_IMAGE_H
#define RTM_IMAGE_H

#include <stdint.h>

#include "shot.h"

/* out = I / (S + 1e-3 max S): evens out the illumination, above all near the sources. */
void image_normalise(const image_t *image, float *out);
/* out = -laplacian(in), in units of 1/dx^2: removes the smooth backscatter of turning waves. */
void image_filter(const grid_t *g, const float *in, float *out);
/* 64-bit FNV-1a of the bytes of an array: equal bits, equal hash. */
uint64_t image_hash(const real *data, size_t count);

#endif
