/* How far an image is from another one: the figures by which lossy snapshots are judged. */
#ifndef RTM_QUALITY_H
#define RTM_QUALITY_H

#include "grid.h"

/* Cells per side of the window of SSIM, or as many as an axis has. */
#define SSIM_WINDOW 7

typedef struct quality_t {
    /* 10 log10(R^2 / mean squared error), R the range of the values of the reference; infinite where nothing differs. */
    double psnr;
    /*
     * Mean of the structural similarity (Wang et al. 2004) over all windows inside the image, in 3-D cubes:
     * uniform weights, variances over n - 1, C1 = (0.01 R)^2, C2 = (0.03 R)^2.
     */
    double ssim;
    double relative_l2;  /* |image - reference| / |reference| */
} quality_t;

/* `image` against `reference`, both on the model cells of `g`, n1 fastest. 0, or -1: no memory. */
int quality_measure(quality_t *q, const grid_t *g, const float *reference, const float *image);

#endif
