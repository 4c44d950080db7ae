#include "quality.h"

#include <math.h>
#include <stdlib.h>

/* Sums over a window: both images, their squares and their product. */
enum { A, B, AA, BB, AB, SUMS };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static double similarity(const double *sum, double n, double range)
{
    const double c1 = 1e-4 * range * range, c2 = 9e-4 * range * range;
    const double a = sum[A] / n, b = sum[B] / n, unbiased = n > 1.0 ? n / (n - 1.0) : 1.0;
    const double va = unbiased * (sum[AA] / n - a * a), vb = unbiased * (sum[BB] / n - b * b);
    const double cov = unbiased * (sum[AB] / n - a * b);
    const double denominator = (a * a + b * b + c1) * (va + vb + c2);

    /* If the denominator is zero, both windows are zero, and equal. */
    return denominator == 0.0 ? 1.0 : (2.0 * a * b + c1) * (2.0 * cov + c2) / denominator;
}

/* Sums the w2 x w3 columns from (i2, i3) on: sums[s][i1] for each depth. */
static void add_columns(const grid_t *g, const float *reference, const float *image, size_t i2,
                        size_t i3, size_t w2, size_t w3, double *sums)
{
    for (size_t i = 0; i < SUMS * g->n1; i++)
        sums[i] = 0.0;
    for (size_t column = 0; column < w2 * w3; column++) {
        const size_t at = g->n1 * (i2 + column % w2 + g->n2 * (i3 + column / w2));
        for (size_t i1 = 0; i1 < g->n1; i1++) {
            const double a = reference[at + i1], b = image[at + i1];
            sums[A * g->n1 + i1] += a;
            sums[B * g->n1 + i1] += b;
            sums[AA * g->n1 + i1] += a * a;
            sums[BB * g->n1 + i1] += b * b;
            sums[AB * g->n1 + i1] += a * b;
        }
    }
}

/* Sums the similarities of the windows in one column of windows. */
static double column_similarity(const grid_t *g, const double *sums, size_t w1, double n, double range)
{
    double total = 0.0;
    for (size_t i1 = 0; i1 + w1 <= g->n1; i1++) {
        double sum[SUMS] = {0.0};
        for (size_t s = 0; s < SUMS; s++)
            for (size_t k = 0; k < w1; k++)
                sum[s] += sums[s * g->n1 + i1 + k];
        total += similarity(sum, n, range);
    }
    return total;
}

static int structural_similarity(const grid_t *g, const float *reference, const float *image,
                                 double range, double *ssim)
{
    const size_t w1 = least(SSIM_WINDOW, g->n1), w2 = least(SSIM_WINDOW, g->n2);
    const size_t w3 = least(SSIM_WINDOW, g->n3);
    const size_t m2 = g->n2 - w2 + 1, columns = m2 * (g->n3 - w3 + 1);
    const double windows = (double)columns * (double)(g->n1 - w1 + 1);
    double *sums = malloc(SUMS * g->n1 * sizeof *sums), total = 0.0;

    for (size_t c = 0; sums != NULL && c < columns; c++) {
        add_columns(g, reference, image, c % m2, c / m2, w2, w3, sums);
        total += column_similarity(g, sums, w1, (double)(w1 * w2 * w3), range);
    }
    free(sums);
    *ssim = total / windows;
    return sums != NULL ? 0 : -1;
}

int quality_measure(quality_t *q, const grid_t *g, const float *reference, const float *image)
{
    const size_t cells = g->n1 * g->n2 * g->n3;
    double error = 0.0, norm = 0.0, lo = reference[0], hi = reference[0];

    for (size_t i = 0; i < cells; i++) {
        const double a = reference[i], b = image[i];
        error += (b - a) * (b - a);
        norm += a * a;
        lo = fmin(lo, a);
        hi = fmax(hi, a);
    }
    /* An error of zero relative to a reference of zero counts as zero. */
    q->relative_l2 = error == 0.0 ? 0.0 : sqrt(error / norm);
    q->psnr = error == 0.0 ? INFINITY : 10.0 * log10((hi - lo) * (hi - lo) * (double)cells / error);
    return structural_similarity(g, reference, image, hi - lo, &q->ssim);
}
