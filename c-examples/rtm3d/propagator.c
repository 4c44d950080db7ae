/*
 * The discrete equation. With c = v^2 dt^2, d = eta v^2 dt / 2 and the symmetric Laplacian L,
 *
 *     u+ = [2u - (1-d) u- + c (Lu + s)] / (1 + d)
 *        = u + w (u - u-) + K (dx^2 Lu + dx^2 s),    w = (1-d)/(1+d),  K = (c/dx^2) (1+w)/2,
 *
 * so a step has no division. w is a product of one profile for each axis, which costs no memory
 * traffic: a point needs 16 bytes in FP32 (u and K are read, u- is read and overwritten by u+).
 * Divided by K the operator has symmetric coefficients, however K and w were rounded, and its
 * transpose is the same recursion in reverse time. This makes the adjoint exact: see shot.h.
 */
#include "propagator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Second derivative, 8th order, times dx^2: weights of distance 0..4 along one axis. */
#define W0 ((real)(-205.0 / 72.0))
#define W1 ((real)(8.0 / 5.0))
#define W2 ((real)(-1.0 / 5.0))
#define W3 ((real)(8.0 / 315.0))
#define W4 ((real)(-1.0 / 560.0))

/* Lines of a tile: nine planes of a tile, which the stencil needs, fit the L2 cache. */
#define TILE2 64

static const double PI = 3.14159265358979323846;

/* Von Neumann: dt v/dx <= 2/sqrt(dims * sum|W|) with sum|W| = 6.50 of the weights above. */
double stable_dt(int dims, double dx, double vmax)
{
    const double sum = 205.0 / 72.0 + 2.0 * (8.0 / 5.0 + 1.0 / 5.0 + 8.0 / 315.0 + 1.0 / 560.0);
    return 2.0 / sqrt(sum * dims) * dx / vmax;
}

double ricker(double t, double freq)
{
    const double a = PI * freq * (t - 1.2 / freq);
    return (1.0 - 2.0 * a * a) * exp(-a * a);
}

/* The damping profile r - sin(2 pi r)/(2 pi): smooth where it leaves 0 (the model, r <= 0) and
 * where it reaches 1 (the outer edge). */
static double ramp(double r)
{
    r = fmax(0.0, fmin(1.0, r));
    return r - sin(2.0 * PI * r) / (2.0 * PI);
}

/* Mean velocity of the cells with index `i` along the axis of `n` cells that are `stride` apart. */
static double face_speed(const float *v, size_t cells, size_t i, size_t n, size_t stride)
{
    double sum = 0.0;
    for (size_t cell = 0; cell < cells; cell++)
        if (cell / stride % n == i)
            sum += v[cell];
    return sum * (double)n / (double)cells;
}

/*
 * w along one axis, with d = (eta/m) dt/2 and eta/m = 1.5 ln(1000) / (border dx) v ramp. v is
 * the mean velocity along the face of the model, so the time loop reads only one profile for
 * each axis.
 */
static real *damping(const grid_t *g, size_t extent, size_t n, size_t stride, double dt, const float *v)
{
    const size_t cells = g->n1 * g->n2 * g->n3, origin = (extent - n) / 2;
    const double unit = 1.5 * log(1000.0) / ((double)g->border * g->dx) * dt / 2.0;
    const double low = unit * face_speed(v, cells, 0, n, stride);
    const double high = unit * face_speed(v, cells, n - 1, n, stride);
    real *w = malloc(extent * sizeof *w);

    for (size_t i = 0; w != NULL && i < extent; i++) {
        /* Cells outside the model, on either side. */
        const double below = (double)origin - (double)i;
        const double above = (double)i - (double)(origin + n - 1);
        const double d = low * ramp(below / (double)g->border) + high * ramp(above / (double)g->border);
        w[i] = (real)((1.0 - d) / (1.0 + d));
    }
    return w;
}

int medium_init(medium_t *m, const grid_t *g, double dt, const float *v)
{
    *m = (medium_t){.grid = *g, .scale = field_alloc(g),
                    .damp1 = damping(g, g->e1, g->n1, 1, dt, v),
                    .damp2 = damping(g, g->e2, g->n2, g->n1, dt, v),
                    .damp3 = damping(g, g->e3, g->n3, g->n1 * g->n2, dt, v)};
    if (m->scale == NULL || m->damp1 == NULL || m->damp2 == NULL || m->damp3 == NULL) {
        medium_free(m);
        return -1;
    }
#pragma omp parallel for schedule(static)
    for (size_t line = 0; line < g->e2 * g->e3; line++) {
        const size_t i2 = line % g->e2, i3 = line / g->e2;
        const float *column =
            v + g->n1 * (grid_nearest(i2, g->o2, g->n2) + g->n2 * grid_nearest(i3, g->o3, g->n3));
        for (size_t i1 = 0; i1 < g->e1; i1++) {
            const double courant = column[grid_nearest(i1, g->o1, g->n1)] * dt / g->dx;
            const double w = (double)m->damp1[i1] * m->damp2[i2] * m->damp3[i3];
            m->scale[line * g->e1 + i1] = (real)(courant * courant * (1.0 + w) / 2.0);
        }
    }
    return 0;
}

void medium_free(medium_t *m)
{
    free(m->scale);
    free(m->damp1);
    free(m->damp2);
    free(m->damp3);
    *m = (medium_t){.scale = NULL};
}

/* K is proportional to v^2 and w does not change. */
void medium_change(medium_t *to, const medium_t *m, double h, const double *change)
{
    const grid_t *g = &m->grid;
#pragma omp parallel for schedule(static)
    for (size_t line = 0; line < g->e2 * g->e3; line++) {
        const size_t i2 = line % g->e2, i3 = line / g->e2;
        const double *column =
            change + g->n1 * (grid_nearest(i2, g->o2, g->n2) + g->n2 * grid_nearest(i3, g->o3, g->n3));
        for (size_t i1 = 0; i1 < g->e1; i1++) {
            const size_t i = line * g->e1 + i1;
            to->scale[i] = (real)(m->scale[i] / (1.0 + h * column[grid_nearest(i1, g->o1, g->n1)]));
        }
    }
}

int wavefield_init(wavefield_t *w, const grid_t *g)
{
    *w = (wavefield_t){.curr = field_alloc(g), .prev = field_alloc(g)};
    if (w->curr != NULL && w->prev != NULL)
        return 0;
    wavefield_free(w);
    return -1;
}

void wavefield_rest(wavefield_t *w, const grid_t *g)
{
    memset(w->curr, 0, g->points * sizeof *w->curr);
    memset(w->prev, 0, g->points * sizeof *w->prev);
}

void wavefield_free(wavefield_t *w)
{
    free(w->curr);
    free(w->prev);
    *w = (wavefield_t){.curr = NULL};
}

static void clear_halo(real *field, const grid_t *g)
{
    const size_t halo3 = grid_dims(g) == 3 ? HALO : 0;
#pragma omp parallel for schedule(static)
    for (size_t line = 0; line < g->e2 * g->e3; line++) {
        const size_t i2 = line % g->e2, i3 = line / g->e2;
        real *u = field + line * g->e1;
        if (i2 < HALO || i2 >= g->e2 - HALO || i3 < halo3 || i3 >= g->e3 - halo3) {
            memset(u, 0, g->e1 * sizeof *u);
        } else {
            memset(u, 0, HALO * sizeof *u);
            memset(u + g->e1 - HALO, 0, HALO * sizeof *u);
        }
    }
}

void wavefield_clear_halo(wavefield_t *w, const grid_t *g)
{
    clear_halo(w->curr, g);
    clear_halo(w->prev, g);
}

/*
 * Computes one line of n points. p holds u(t-1) and q receives u(t+1); both may be one line. Every point is computed by
 * one expression at a fixed place of its line, whatever the thread or tile, so the results do
 * not depend on the number of threads.
 */
#define PAIR2(k) ((u[i - (k)] + u[i + (k)]) + (u[i - (k) * s2] + u[i + (k) * s2]))
#define PAIR3(k) (PAIR2(k) + (u[i - (k) * s3] + u[i + (k) * s3]))
#define LAP2 (2 * W0 * u[i] + W1 * PAIR2(1) + W2 * PAIR2(2) + W3 * PAIR2(3) + W4 * PAIR2(4))
#define LAP3 (3 * W0 * u[i] + W1 * PAIR3(1) + W2 * PAIR3(2) + W3 * PAIR3(3) + W4 * PAIR3(4))

static void line2(ptrdiff_t n, ptrdiff_t s2, const real *restrict u, const real *p, real *q,
                  const real *restrict scale, const real *restrict damp1, real damp23)
{
#pragma omp simd
    for (ptrdiff_t i = 0; i < n; i++) {
        const real lap = LAP2;
        q[i] = u[i] + damp23 * damp1[i] * (u[i] - p[i]) + scale[i] * lap;
    }
}

static void line3(ptrdiff_t n, ptrdiff_t s2, ptrdiff_t s3, const real *restrict u, const real *p, real *q,
                  const real *restrict scale, const real *restrict damp1, real damp23)
{
#pragma omp simd
    for (ptrdiff_t i = 0; i < n; i++) {
        const real lap = LAP3;
        q[i] = u[i] + damp23 * damp1[i] * (u[i] - p[i]) + scale[i] * lap;
    }
}

/* Lines are too short for hardware prefetching of three streams, so a later line is prefetched
 * here. */
static void prefetch(ptrdiff_t n, const real *ahead, const real *p, const real *scale)
{
#ifdef __GNUC__
    for (ptrdiff_t i = 0; i < n; i += 64 / (ptrdiff_t)sizeof(real)) {
        __builtin_prefetch(ahead + i);
        __builtin_prefetch(p + i, 1);
        __builtin_prefetch(scale + i);
    }
#else
    (void)n, (void)ahead, (void)p, (void)scale;
#endif
}

/* A step leaves out `edge` cells on every side. */
static void step2(const medium_t *m, const real *curr, const real *prev, real *next, size_t edge)
{
    const grid_t *g = &m->grid;
    const ptrdiff_t n = (ptrdiff_t)(g->e1 - 2 * edge), s2 = (ptrdiff_t)g->e1;
#pragma omp parallel for schedule(static)
    for (size_t i2 = edge; i2 < g->e2 - edge; i2++) {
        const size_t at = edge + g->e1 * i2;
        line2(n, s2, curr + at, prev + at, next + at, m->scale + at, m->damp1 + edge, m->damp2[i2]);
    }
}

static void step3(const medium_t *m, const real *curr, const real *prev, real *next, size_t edge)
{
    const grid_t *g = &m->grid;
    const ptrdiff_t n = (ptrdiff_t)(g->e1 - 2 * edge);
    const ptrdiff_t s2 = (ptrdiff_t)g->e1, s3 = (ptrdiff_t)(g->e1 * g->e2);
    const size_t end2 = g->e2 - edge, end3 = g->e3 - edge;
    /* Each thread computes one slab of planes, tile by tile; no two threads write one line. */
#pragma omp parallel
    for (size_t t2 = edge; t2 < end2; t2 += TILE2)
#pragma omp for schedule(static) nowait
        for (size_t i3 = edge; i3 < end3; i3++)
            for (size_t i2 = t2; i2 < t2 + TILE2 && i2 < end2; i2++) {
                const size_t at = edge + g->e1 * (i2 + g->e2 * i3);
                const size_t later = at + 2 * g->e1;
                prefetch(n, curr + later + 4 * s3, prev + later, m->scale + later);
                line3(n, s2, s3, curr + at, prev + at, next + at, m->scale + at, m->damp1 + edge,
                      m->damp2[i2] * m->damp3[i3]);
            }
}

static void step(const medium_t *m, wavefield_t *w, real *next, size_t edge)
{
    (grid_dims(&m->grid) == 3 ? step3 : step2)(m, w->curr, w->prev, next, edge);
    w->prev = w->curr;
    w->curr = next;
}

void propagate_to(const medium_t *m, wavefield_t *w, real *next)
{
    step(m, w, next, HALO);
}

void propagate(const medium_t *m, wavefield_t *w)
{
    propagate_to(m, w, w->prev);
}

/* In the model w = 1, and the equation is the same in both directions of time. */
void propagate_back(const medium_t *m, wavefield_t *w)
{
    step(m, w, w->prev, m->grid.o1);
}

void inject(const medium_t *m, wavefield_t *w, size_t index, real s)
{
    w->curr[index] += m->scale[index] * s;
}

static void correlate2(ptrdiff_t n, ptrdiff_t s2, const real *restrict u, const real *restrict lambda, real *restrict sum)
{
#pragma omp simd
    for (ptrdiff_t i = 0; i < n; i++)
        sum[i] += lambda[i] * LAP2;
}

static void correlate3(ptrdiff_t n, ptrdiff_t s2, ptrdiff_t s3, const real *restrict u, const real *restrict lambda,
                       real *restrict sum)
{
#pragma omp simd
    for (ptrdiff_t i = 0; i < n; i++)
        sum[i] += lambda[i] * LAP3;
}

void correlate_laplacian(const medium_t *m, const real *u, const real *lambda, real *sum)
{
    const grid_t *g = &m->grid;
    const size_t halo3 = grid_dims(g) == 3 ? HALO : 0, lines = g->e2 - 2 * HALO;
    const ptrdiff_t n = (ptrdiff_t)(g->e1 - 2 * HALO), s2 = (ptrdiff_t)g->e1, s3 = (ptrdiff_t)(g->e1 * g->e2);
#pragma omp parallel for schedule(static)
    for (size_t line = 0; line < lines * (g->e3 - 2 * halo3); line++) {
        const size_t at = HALO + g->e1 * (HALO + line % lines + g->e2 * (halo3 + line / lines));
        if (halo3 > 0)
            correlate3(n, s2, s3, u + at, lambda + at, sum + at);
        else
            correlate2(n, s2, u + at, lambda + at, sum + at);
    }
}
