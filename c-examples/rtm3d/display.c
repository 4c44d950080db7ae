#include "display.h"

#include <math.h>
#include <stdlib.h>

#include "png.h"

#define MIN_WIDTH 800  /* small slices are enlarged by a whole factor to about this many pixels */
#define MUTE 12        /* depth in cells at which an image is shown in full */

/* Cells of the slice along the line; depth has g->n1. */
static size_t line_length(const grid_t *g)
{
    return g->n3 >= g->n2 ? g->n3 : g->n2;
}

static float *slice(const grid_t *g, const float *volume)
{
    const size_t n = line_length(g);
    float *out = malloc(n * g->n1 * sizeof *out);
    for (size_t x = 0; out != NULL && x < n; x++) {
        const size_t i2 = g->n3 >= g->n2 ? g->n2 / 2 : x, i3 = g->n3 >= g->n2 ? x : g->n3 / 2;
        for (size_t z = 0; z < g->n1; z++)
            out[z * n + x] = volume[z + g->n1 * (i2 + g->n2 * i3)];
    }
    return out;
}

/* Value at (z, x), between cells: images are smooth at the scale of a cell, so this adds nothing. */
static double between(const float *cells, size_t n1, size_t n, double z, double x)
{
    const double zc = fmax(0.0, fmin((double)(n1 - 1), z)), xc = fmax(0.0, fmin((double)(n - 1), x));
    const size_t z0 = (size_t)zc, x0 = (size_t)xc;
    const size_t z1 = z0 + 1 < n1 ? z0 + 1 : z0, x1 = x0 + 1 < n ? x0 + 1 : x0;
    const double fz = zc - (double)z0, fx = xc - (double)x0;

    return (1.0 - fz) * ((1.0 - fx) * cells[z0 * n + x0] + fx * cells[z0 * n + x1]) +
           fz * ((1.0 - fx) * cells[z1 * n + x0] + fx * cells[z1 * n + x1]);
}

/* Values lo..hi as grey 0..255, each cell enlarged to factor x factor pixels. */
static int write_grey(const char *path, const grid_t *g, const float *cells, double lo, double hi)
{
    const size_t n = line_length(g), factor = n < MIN_WIDTH ? (MIN_WIDTH + n - 1) / n : 1;
    const size_t width = n * factor, height = g->n1 * factor;
    const double scale = hi > lo ? 255.0 / (hi - lo) : 0.0, size = (double)factor;
    unsigned char *pixels = malloc(width * height);
    int status = -1;

    for (size_t p = 0; pixels != NULL && p < width * height; p++) {
        const double z = ((double)(p / width) + 0.5) / size - 0.5;
        const double x = ((double)(p % width) + 0.5) / size - 0.5;
        const double grey = (between(cells, g->n1, n, z, x) - lo) * scale;
        pixels[p] = (unsigned char)(fmax(0.0, fmin(255.0, grey)) + 0.5);
    }
    if (pixels != NULL)
        status = png_write(path, pixels, width, height);
    free(pixels);
    return status;
}

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The 99th percentile of |value|; -1: no memory. */
static double clip_level(const float *cells, size_t n)
{
    float *sorted = malloc(n * sizeof *sorted);
    double level = -1.0;
    if (sorted == NULL)
        return level;
    for (size_t i = 0; i < n; i++)
        sorted[i] = fabsf(cells[i]);
    qsort(sorted, n, sizeof *sorted, ascending);
    level = sorted[(size_t)(0.99 * (double)(n - 1))];
    free(sorted);
    return level;
}

int display_model(const char *path, const grid_t *g, const float *v)
{
    const size_t n = line_length(g) * g->n1;
    float *cells = slice(g, v);
    double lo, hi;
    int status;

    if (cells == NULL)
        return -1;
    lo = hi = cells[0];
    for (size_t i = 0; i < n; i++) {
        lo = fmin(lo, cells[i]);
        hi = fmax(hi, cells[i]);
    }
    status = write_grey(path, g, cells, lo, hi);
    free(cells);
    return status;
}

double display_gain(const grid_t *g, size_t z)
{
    const double mute = fmin(1.0, (double)z / MUTE);
    return mute * mute * (g->n3 > 1 ? pow((double)z, 1.5) : 1.0);
}

int display_image(const char *path, const grid_t *g, const float *image)
{
    const size_t n = line_length(g);
    float *cells = slice(g, image);
    double clip;
    int status = -1;

    if (cells == NULL)
        return -1;
    for (size_t z = 0; z < g->n1; z++) {
        const float gain = (float)display_gain(g, z);
        for (size_t x = 0; x < n; x++)
            cells[z * n + x] *= gain;
    }
    clip = clip_level(cells, n * g->n1);
    if (clip >= 0.0)
        status = write_grey(path, g, cells, -clip, clip);
    free(cells);
    return status;
}
