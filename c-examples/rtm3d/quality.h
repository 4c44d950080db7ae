/* Measures of the difference of two images, for judging lossy snapshots. */
#ifndef RTM_QUALITY_H
#define RTM_QUALITY_H

#include "grid.h"

/* Cells of a window of SSIM along each axis, or the extent of the axis if that is less. */
#define SSIM_WINDOW 7

typedef struct quality_t {
    /* 10 log10(R^2 / mean squared error), where R is the range of the reference's values;
     * infinite for equal images. */
    double psnr;
    /*
     * Mean structural similarity (Wang et al. 2004) over all windows inside the image, cubes in
     * 3-D: uniform weights, variances over n - 1, C1 = (0.01 R)^2, C2 = (0.03 R)^2.
     */
    double ssim;
    double relative_l2;  /* |image - reference| / |reference| */
} quality_t;

/* Compares `image` with `reference`, both on the model cells of `g`, n1 fastest. Returns 0, or
 * -1: no memory. */
int quality_measure(quality_t *q, const grid_t *g, const float *reference, const float *image);

#endif
