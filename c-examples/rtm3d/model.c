#include "model.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"

static float *allocate(size_t cells)
{
    float *v = malloc(cells * sizeof *v);
    if (v == NULL)
        complain("no memory for a model of %zu cells", cells);
    return v;
}

/* Size in bytes of an open file, whose position becomes 0; -1 if the file has no size. */
static long long file_size(FILE *file)
{
    long end = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    rewind(file);
    return end;
}

/* Converts values of a little-endian file to this machine's byte order. */
static void from_little_endian(float *v, size_t cells)
{
    for (size_t i = 0; i < cells; i++) {
        unsigned char b[4];
        uint32_t bits;
        memcpy(b, &v[i], 4);
        bits = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        memcpy(&v[i], &bits, 4);
    }
}

float *model_load(const char *path, size_t n1, size_t n2, size_t n3)
{
    const size_t cells = n1 * n2 * n3;
    FILE *file = fopen(path, "rb");
    float *v = NULL;

    if (file == NULL) {
        complain("%s: cannot be opened", path);
        return NULL;
    }
    if (file_size(file) != (long long)(cells * sizeof *v)) {
        complain("%s: %lld bytes, but n1 x n2 x n3 = %zu x %zu x %zu FP32 values are %zu bytes; "
                 "check --n1 (depth, the fastest), --n2 and --n3",
                 path, file_size(file), n1, n2, n3, cells * sizeof *v);
    } else if ((v = allocate(cells)) != NULL && fread(v, sizeof *v, cells, file) != cells) {
        complain("%s: cannot be read", path);
        free(v);
        v = NULL;
    }
    fclose(file);
    if (v != NULL)
        from_little_endian(v, cells);
    return v;
}

/* Velocity at depth z of 0..1 and position x, y of -1..1. */
static float salt(double z, double x, double y)
{
    static const double top[] = {0.0, 0.14, 0.26, 0.37, 0.50, 0.63, 0.76, 0.88};
    static const float speed[] = {1700, 1900, 2200, 2050, 2450, 2750, 2550, 3200};
    const double r2 = x * x + y * y;
    const double dome = 0.36 + 1.1 * r2, base = 0.80;
    /* The dome has dragged the layers around it upwards; folds bend the layers elsewhere. */
    const double layer = z + z * (0.22 * exp(-r2 / 0.15) + 0.03 * sin(5.0 * x + 2.0 * y));
    size_t k = sizeof top / sizeof *top - 1;

    if (z > dome && z < base)
        return 4480;
    while (layer < top[k])
        k--;
    return speed[k];
}

float *model_salt(size_t n1, size_t n2, size_t n3)
{
    float *v = allocate(n1 * n2 * n3);
    const size_t line = n3 >= n2 ? n3 : n2;

    if (v == NULL)
        return NULL;
    for (size_t i3 = 0; i3 < n3; i3++)
        for (size_t i2 = 0; i2 < n2; i2++)
            for (size_t i1 = 0; i1 < n1; i1++) {
                const double x2 = (2.0 * (double)i2 - (double)n2 + 1.0) / (double)line;
                const double x3 = (2.0 * (double)i3 - (double)n3 + 1.0) / (double)line;
                const double z = (double)i1 / (double)n1;
                v[i1 + n1 * (i2 + n2 * i3)] = n3 >= n2 ? salt(z, x3, x2) : salt(z, x2, x3);
            }
    return v;
}

/* Smooths along one axis: `count` values `stride` apart, with edge values continued; `line` is
 * scratch memory. */
static void smooth_line(double *s, size_t count, size_t stride, const double *weight,
                        ptrdiff_t reach, double *line)
{
    const ptrdiff_t n = (ptrdiff_t)count;
    for (ptrdiff_t i = 0; i < n; i++)
        line[i] = s[(size_t)i * stride];
    for (ptrdiff_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (ptrdiff_t k = -reach; k <= reach; k++) {
            const ptrdiff_t j = i + k < 0 ? 0 : (i + k >= n ? n - 1 : i + k);
            sum += weight[k < 0 ? -k : k] * line[j];
        }
        s[(size_t)i * stride] = sum;
    }
}

/* weight[0..reach] of a Gaussian, normalised over -reach..reach. */
static void gaussian(double *weight, ptrdiff_t reach, double sigma)
{
    double sum = 0.0;
    for (ptrdiff_t k = 0; k <= reach; k++) {
        weight[k] = exp(-0.5 * (double)(k * k) / (sigma * sigma));
        sum += (k == 0 ? 1.0 : 2.0) * weight[k];
    }
    for (ptrdiff_t k = 0; k <= reach; k++)
        weight[k] /= sum;
}

float *model_smooth(const float *v, size_t n1, size_t n2, size_t n3, double cells)
{
    const size_t n[3] = {n1, n2, n3}, stride[3] = {1, n1, n1 * n2}, total = n1 * n2 * n3;
    const size_t longest = n1 > n2 ? (n1 > n3 ? n1 : n3) : (n2 > n3 ? n2 : n3);
    const ptrdiff_t reach = (ptrdiff_t)ceil(3.0 * cells);
    double *slowness = malloc(total * sizeof *slowness), *line = malloc(longest * sizeof *line);
    double *weight = malloc((size_t)(reach + 1) * sizeof *weight);
    float *smooth = allocate(total);

    if (slowness == NULL || line == NULL || weight == NULL || smooth == NULL) {
        complain("no memory to smooth a model of %zu cells", total);
        free(smooth);
        smooth = NULL;
    } else {
        gaussian(weight, reach, cells);
        for (size_t i = 0; i < total; i++)
            slowness[i] = 1.0 / v[i];
        for (int axis = 0; axis < 3; axis++)
            for (size_t i = 0; i < total && n[axis] > 1; i++)
                if (i / stride[axis] % n[axis] == 0)
                    smooth_line(slowness + i, n[axis], stride[axis], weight, reach, line);
        for (size_t i = 0; i < total; i++)
            smooth[i] = (float)(1.0 / slowness[i]);
    }
    free(slowness);
    free(line);
    free(weight);
    return smooth;
}

float *model_extrude(const float *v, size_t n1, size_t n2, size_t n3)
{
    float *out = allocate(n1 * n2 * n3);
    for (size_t i3 = 0; out != NULL && i3 < n3; i3++)
        memcpy(out + i3 * n1 * n2, v, n1 * n2 * sizeof *v);
    return out;
}

int model_range(const float *v, size_t cells, const char *name, double *vmin, double *vmax)
{
    *vmin = *vmax = v[0];
    for (size_t i = 0; i < cells; i++) {
        if (!isfinite(v[i]) || v[i] <= 0.0f)
            return complain("%s: the velocity of cell %zu is %g; velocities are in m/s, finite and "
                            "positive (is the file little-endian FP32?)",
                            name, i, (double)v[i]);
        *vmin = fmin(*vmin, v[i]);
        *vmax = fmax(*vmax, v[i]);
    }
    return 0;
}

double model_mean(const float *v, size_t cells)
{
    double slowness = 0.0;
    for (size_t i = 0; i < cells; i++)
        slowness += 1.0 / v[i];
    return (double)cells / slowness;
}
