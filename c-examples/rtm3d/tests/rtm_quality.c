/*
 * Tests the image quality figures of c-examples/rtm3d/quality.c (PSNR, SSIM, relative L2) against
 * closed forms. The reference image is periodic along n1 with the length of an SSIM window, so all
 * windows have the same mean 0 and the same known variance. Each line of output has a figure and
 * the expected value.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "quality.h"

#define W SSIM_WINDOW

static int failures;

/* Checks that `figure` equals `expected` up to rounding in FP32. Equal infinities pass. */
static void check(const char *what, double figure, double expected)
{
    const double error = figure == expected ? 0.0 : fabs(figure - expected) / fmax(1.0, fabs(expected));
    const int ok = error <= 2e-6;  /* false for NaN */
    printf("%-62s %12.7g  expected %12.7g  %s\n", what, figure, expected, ok ? "ok" : "FAILED");
    failures += !ok;
}

static const grid_t *shape(size_t n1, size_t n2, size_t n3)
{
    static grid_t g;
    if (grid_init(&g, n1, n2, n3, 4, 10.0) != 0)
        exit(2);
    return &g;
}

static float *cells(const grid_t *g)
{
    float *v = calloc(g->n1 * g->n2 * g->n3, sizeof *v);
    if (v == NULL)
        exit(2);
    return v;
}

/* Fills v with a plane wave of the values -3 .. 3: range 6; every window has mean 0, mean square
 * 4. */
static void wave(const grid_t *g, float *v)
{
    for (size_t i = 0; i < g->n1 * g->n2 * g->n3; i++) {
        const size_t i1 = i % g->n1, i2 = i / g->n1 % g->n2, i3 = i / (g->n1 * g->n2);
        v[i] = (float)((i1 + 2 * i2 + 3 * i3) % W) - 3.0f;
    }
}

/* Fills v with the squares 0 .. 9 of that wave minus their mean 4: every window has mean square 12
 * and no correlation with the wave. */
static void even(const grid_t *g, float *v)
{
    wave(g, v);
    for (size_t i = 0; i < g->n1 * g->n2 * g->n3; i++)
        v[i] = v[i] * v[i] - 4.0f;
}

/* windows(n) returns the number of windows along an axis of n cells, holding(i, n) the number of
 * these windows that contain cell i. */
static double windows(size_t n)
{
    return (double)(n < W ? 1 : n - W + 1);
}

static double holding(size_t i, size_t n)
{
    const size_t first = i + 1 > W ? i + 1 - W : 0, last = (size_t)windows(n) - 1;
    return (double)((i < last ? i : last) - first + 1);
}

/* Returns the mean SSIM of the wave and the wave with d added to the cell `i`, whose value is x.
 * n: cells of a window; c1, c2: the constants of SSIM. */
static double spiked(const grid_t *g, const size_t i[3], double x, double d, double n, double c1, double c2)
{
    const double share = holding(i[0], g->n1) / windows(g->n1) * holding(i[1], g->n2) / windows(g->n2) *
                         holding(i[2], g->n3) / windows(g->n3);
    const double mean = d / n, unbiased = n / (n - 1.0), va = unbiased * 4.0;
    const double vb = unbiased * (4.0 + (2.0 * x * d + d * d) / n - mean * mean);
    const double cov = unbiased * (4.0 + x * d / n);

    return 1.0 - share * (1.0 - c1 / (mean * mean + c1) * (2.0 * cov + c2) / (va + vb + c2));
}

static quality_t measure(const grid_t *g, const float *reference, const float *image)
{
    quality_t q;
    if (quality_measure(&q, g, reference, image) != 0)
        exit(2);
    return q;
}

static void closed_forms(const char *name, const grid_t *g)
{
    const size_t count = g->n1 * g->n2 * g->n3;
    const double range = 6.0, c1 = 1e-4 * range * range, c2 = 9e-4 * range * range;
    const double window = (double)(W * (g->n2 < W ? g->n2 : W) * (g->n3 < W ? g->n3 : W));
    const double v = 4.0 * window / (window - 1.0);  /* unbiased variance in a window of n cells */
    const size_t at[3] = {8, 4, g->n3 / 3}, spike = at[0] + g->n1 * (at[1] + g->n2 * at[2]);
    float *a = cells(g), *b = cells(g);
    quality_t q;

    printf("%s\n", name);
    wave(g, a);
    q = measure(g, a, a);
    check("identical: PSNR", q.psnr, INFINITY);
    check("identical: SSIM", q.ssim, 1.0);
    check("identical: relative L2", q.relative_l2, 0.0);

    for (size_t i = 0; i < count; i++)
        b[i] = a[i] + 0.25f;
    q = measure(g, a, b);
    check("offset by d: PSNR = 20 log10(R / d)", q.psnr, 20.0 * log10(range / 0.25));
    check("offset by d: SSIM = C1 / (d^2 + C1)", q.ssim, c1 / (0.0625 + c1));
    check("offset by d: relative L2 = d / 2", q.relative_l2, 0.125);

    for (size_t i = 0; i < count; i++)
        b[i] = 1.5f * a[i];
    q = measure(g, a, b);
    check("scaled by s: PSNR = 10 log10(R^2 / 4 (s-1)^2)", q.psnr, 10.0 * log10(36.0));
    check("scaled by s: SSIM = (2 s v + C2) / ((1 + s^2) v + C2)", q.ssim, (3.0 * v + c2) / (3.25 * v + c2));
    check("scaled by s: relative L2 = s - 1", q.relative_l2, 0.5);

    for (size_t i = 0; i < count; i++)
        b[i] = -a[i];
    q = measure(g, a, b);
    check("negative: SSIM = (C2 - 2 v) / (C2 + 2 v)", q.ssim, (c2 - 2.0 * v) / (c2 + 2.0 * v));
    check("negative: relative L2", q.relative_l2, 2.0);

    even(g, b);
    q = measure(g, a, b);
    check("uncorrelated: SSIM = C2 / (3 v + v + C2)", q.ssim, c2 / (4.0 * v + c2));
    check("uncorrelated: relative L2 = sqrt(4 + 12) / 2", q.relative_l2, 2.0);

    for (size_t i = 0; i < count; i++)
        b[i] = a[i];
    b[spike] += 4.0f;
    q = measure(g, a, b);
    check("one cell off by d: PSNR = 10 log10(R^2 N / d^2)", q.psnr, 10.0 * log10(2.25 * (double)count));
    check("one cell off by d: SSIM", q.ssim, spiked(g, at, a[spike], 4.0, window, c1, c2));
    free(a);
    free(b);
}

/* Checks images that are zero everywhere or contain NaN. */
static void edges(void)
{
    const grid_t *g = shape(8, 8, 1);
    float *a = cells(g), *b = cells(g);
    quality_t q;

    puts("edges");
    q = measure(g, a, b);
    check("zero against zero: PSNR", q.psnr, INFINITY);
    check("zero against zero: SSIM", q.ssim, 1.0);
    check("zero against zero: relative L2", q.relative_l2, 0.0);
    b[9] = 1.0f;
    q = measure(g, a, b);
    check("something against zero: PSNR", q.psnr, -INFINITY);
    check("something against zero: relative L2", q.relative_l2, INFINITY);
    b[9] = NAN;
    q = measure(g, a, b);
    check("not a number: all figures are none", isnan(q.psnr) && isnan(q.ssim) && isnan(q.relative_l2), 1.0);
    free(a);
    free(b);
}

int main(void)
{
    closed_forms("2-D, 3 x 4 windows", shape(3 * W, 4 * W, 1));
    closed_forms("2-D, windows that do not divide it", shape(2 * W, 19, 1));
    closed_forms("3-D", shape(3 * W, 12, 9));
    closed_forms("3-D, thinner than a window", shape(2 * W, 10, 3));
    edges();
    return failures == 0 ? 0 : 1;
}
