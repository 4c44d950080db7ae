#include "image.h"

void image_normalise(const image_t *image, float *out)
{
    double max = 0.0;
    for (size_t i = 0; i < image->cells; i++)
        max = image->illumination[i] > max ? image->illumination[i] : max;
    for (size_t i = 0; i < image->cells; i++) {
        const double light = image->illumination[i] + 1e-3 * max;
        out[i] = (float)(light > 0.0 ? image->correlation[i] / light : 0.0);
    }
}

/* Second difference along one axis at position i of n; beyond the edges the edge values
 * continue. */
static double second_difference(const float *f, size_t i, size_t n, size_t stride)
{
    const double below = i > 0 ? *(f - stride) : *f;
    const double above = i + 1 < n ? f[stride] : *f;
    return below - 2.0 * *f + above;
}

void image_filter(const grid_t *g, const float *in, float *out)
{
    const size_t plane = g->n1 * g->n2;
    for (size_t i = 0; i < plane * g->n3; i++) {
        const double laplacian = second_difference(in + i, i % g->n1, g->n1, 1) +
                                 second_difference(in + i, i / g->n1 % g->n2, g->n2, g->n1) +
                                 second_difference(in + i, i / plane, g->n3, plane);
        out[i] = (float)-laplacian;
    }
}

uint64_t image_hash(const real *data, size_t count)
{
    const unsigned char *byte = (const unsigned char *)data;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < count * sizeof *data; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash;
}
