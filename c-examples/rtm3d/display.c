#include "display.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plot.h"

#define MUTE 12        /* depth in cells from which on an image is not muted */

/* Cells of the slice along the shot line; in depth the slice has g->n1 cells. */
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

/* Draws the values lo..hi as grey. In 3-D the title says where the slice lies. */
static int write_slice(const char *path, const grid_t *g, const float *cells, const char *title, const char *note, axis_t grey)
{
    const size_t n = line_length(g), across = g->n3 >= g->n2 ? g->n2 : g->n3;
    plot_t slice = {.title = title, .width = n, .height = g->n1, .cells = cells,
                    .x = {"distance", "m", 0.0, (double)n * g->dx}, .y = {"depth", "m", 0.0, (double)g->n1 * g->dx}, .grey = grey, .note = note};
    char text[256];

    if (across > 1) {
        snprintf(text, sizeof text, "%s, slice at %g m across", title, (double)(across / 2) * g->dx);
        slice.title = text;
    }
    return plot_write(&slice, path);
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

int display_model(const char *path, const grid_t *g, const float *v, const char *name)
{
    const size_t n = line_length(g) * g->n1;
    const char *const slash = strrchr(name, '/');
    float *cells = slice(g, v);
    char title[128];
    double lo, hi;
    int status;

    if (cells == NULL)
        return -1;
    lo = hi = cells[0];
    for (size_t i = 0; i < n; i++) {
        lo = fmin(lo, cells[i]);
        hi = fmax(hi, cells[i]);
    }
    snprintf(title, sizeof title, "velocity, %s", slash != NULL ? slash + 1 : name);
    status = write_slice(path, g, cells, title, NULL, (axis_t){"velocity", "m/s", lo, hi});
    free(cells);
    return status;
}

double display_gain(const grid_t *g, size_t z)
{
    const double mute = fmin(1.0, (double)z / MUTE);
    return mute * mute * (g->n3 > 1 ? pow((double)z, 1.5) : 1.0);
}

int display_image(const char *path, const grid_t *g, const float *image, const char *title, const char *what)
{
    const size_t n = line_length(g);
    float *cells = slice(g, image);
    char note[512];
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
    for (size_t i = 0; clip > 0.0 && i < n * g->n1; i++)
        cells[i] /= (float)clip;
    snprintf(note, sizeof note, "%s; scale: 1 = %.2e, the 99th percentile of |value|; larger values are clipped; faded in down to %g m%s",
             what, clip, MUTE * g->dx, g->n3 > 1 ? ", times (depth in cells)^1.5" : "");
    if (clip >= 0.0)
        status = write_slice(path, g, cells, title, note, (axis_t){"scaled", "", -1.0, 1.0});
    free(cells);
    return status;
}
