/*
 * The differences are staggered: D u lies half a cell above u, and the divergence that maps it
 * back to the points is -D'. With zeros outside of the grid, in the halo, this holds for every
 * coefficient, so the transpose of a step is written line by line, from the end of the step to
 * its beginning.
 */
#include "cpml.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* First difference between points, of 8th order, times dx. */
#define C1 ((real)(1225.0 / 1024.0))
#define C2 ((real)(-245.0 / 3072.0))
#define C3 ((real)(49.0 / 5120.0))
#define C4 ((real)(-5.0 / 7168.0))

/* Reflection coefficient of a layer at normal incidence, before discretisation (Collino and
 * Tsogka 2001). */
#define REFLECTION 1e-6

static const double PI = 3.14159265358979323846;

/* D of the field at f, whose neighbours are s values apart: the value half a cell above the
 * point of f. The value half a cell below that point is D at f - s. */
static inline real difference(const real *f, ptrdiff_t s)
{
    return C1 * (f[s] - f[0]) + C2 * (f[2 * s] - f[-s]) + C3 * (f[3 * s] - f[-2 * s]) + C4 * (f[4 * s] - f[-3 * s]);
}

static size_t extent(const grid_t *g, int axis)
{
    return axis == 0 ? g->e1 : axis == 1 ? g->e2 : g->e3;
}

static size_t halo(const grid_t *g, int axis)
{
    return axis < grid_dims(g) ? HALO : 0;
}

static size_t inner(const grid_t *g, int axis)
{
    return extent(g, axis) - 2 * halo(g, axis);
}

static ptrdiff_t stride(const grid_t *g, int axis)
{
    return (ptrdiff_t)(axis == 0 ? 1 : axis == 1 ? g->e1 : g->e1 * g->e2);
}

double cpml_stable_dt(int dims, double dx, double vmax)
{
    return dx / (vmax * sqrt(dims) * (1225.0 / 1024.0 + 245.0 / 3072.0 + 49.0 / 5120.0 + 5.0 / 7168.0));
}

/* Coefficients of the recursion at the relative depth r in a layer: 0 at the model, 1 at the
 * outer edge. */
static void recursion(double r, double d0, double dt, double freq, real *a, real *b)
{
    const double d = d0 * r * r, alpha = PI * freq * (1.0 - r);

    *b = (real)exp(-(d + alpha) * dt);
    *a = (real)(d / (d + alpha) * (exp(-(d + alpha) * dt) - 1.0));
}

/* Allocates a slab and computes its coefficients. `half` is 1/2 for the slab between points, whose
 * high layer begins half a cell from the last cell of the model, and 0 for the slab on points. */
static int slab_init(slab_t *s, const grid_t *g, int axis, double half, double dt, double freq, double vmax)
{
    const double width = (double)g->border, d0 = -1.5 * vmax * log(REFLECTION) / (width * g->dx);
    const size_t low = HALO, high = extent(g, axis) - HALO - g->border - (half > 0.0);

    *s = (slab_t){.count = 1};
    for (int i = 0; i < AXES; i++) {
        s->n[i] = i == axis ? 2 * g->border : inner(g, i);
        s->count *= s->n[i];
    }
    s->point = malloc(s->count * sizeof *s->point);
    s->a = malloc(s->count * sizeof *s->a);
    s->b = malloc(s->count * sizeof *s->b);
    if (s->point == NULL || s->a == NULL || s->b == NULL)
        return -1;
    for (size_t k = 0; k < s->count; k++) {
        size_t i[AXES] = {k % s->n[0], k / s->n[0] % s->n[1], k / s->n[0] / s->n[1]};
        const size_t t = i[axis];
        const double outwards = t < g->border ? width - half - (double)t : (double)t - width + 1.0 - half;

        recursion(outwards / width, d0, dt, freq, &s->a[k], &s->b[k]);
        for (int other = 0; other < AXES; other++)
            i[other] += halo(g, other);
        i[axis] = t < g->border ? low + t : high + t - g->border;
        s->point[k] = i[0] + g->e1 * (i[1] + g->e2 * i[2]);
    }
    return 0;
}

static void slab_free(slab_t *s)
{
    free(s->point);
    free(s->a);
    free(s->b);
}

int cpml_init(cpml_t *m, const grid_t *g, double dt, double freq, const float *v)
{
    double vmax = 0.0;
    int status = 0;

    *m = (cpml_t){.grid = *g, .dims = grid_dims(g), .scale = field_alloc(g)};
    for (size_t i = 0; i < g->n1 * g->n2 * g->n3; i++)
        vmax = fmax(vmax, v[i]);
    for (int axis = 0; axis < m->dims; axis++) {
        status |= slab_init(&m->psi[axis], g, axis, 0.5, dt, freq, vmax);
        status |= slab_init(&m->zeta[axis], g, axis, 0.0, dt, freq, vmax);
    }
    if (m->scale == NULL || status != 0) {
        cpml_free(m);
        return -1;
    }
    for (size_t line = 0; line < g->e2 * g->e3; line++) {
        const float *column = v + g->n1 * (grid_nearest(line % g->e2, g->o2, g->n2) +
                                           g->n2 * grid_nearest(line / g->e2, g->o3, g->n3));
        for (size_t i1 = 0; i1 < g->e1; i1++) {
            const double courant = column[grid_nearest(i1, g->o1, g->n1)] * dt / g->dx;
            m->scale[line * g->e1 + i1] = (real)(courant * courant);
        }
    }
    return 0;
}

void cpml_free(cpml_t *m)
{
    for (int axis = 0; axis < AXES; axis++) {
        slab_free(&m->psi[axis]);
        slab_free(&m->zeta[axis]);
    }
    free(m->scale);
    *m = (cpml_t){.scale = NULL};
}

int state_init(state_t *x, const cpml_t *m)
{
    int status = 0;

    *x = (state_t){.curr = field_alloc(&m->grid), .prev = field_alloc(&m->grid)};
    for (int axis = 0; axis < m->dims; axis++) {
        x->psi[axis] = calloc(m->psi[axis].count, sizeof(real));
        x->zeta[axis] = calloc(m->zeta[axis].count, sizeof(real));
        status |= x->psi[axis] == NULL || x->zeta[axis] == NULL;
    }
    if (x->curr != NULL && x->prev != NULL && status == 0)
        return 0;
    state_free(x);
    return -1;
}

void state_rest(state_t *x, const cpml_t *m)
{
    memset(x->curr, 0, m->grid.points * sizeof(real));
    memset(x->prev, 0, m->grid.points * sizeof(real));
    for (int axis = 0; axis < m->dims; axis++) {
        memset(x->psi[axis], 0, m->psi[axis].count * sizeof(real));
        memset(x->zeta[axis], 0, m->zeta[axis].count * sizeof(real));
    }
}

void state_copy(const cpml_t *m, state_t *to, const state_t *from)
{
    field_copy(&m->grid, to->curr, from->curr);
    field_copy(&m->grid, to->prev, from->prev);
    for (int axis = 0; axis < m->dims; axis++) {
        memcpy(to->psi[axis], from->psi[axis], m->psi[axis].count * sizeof(real));
        memcpy(to->zeta[axis], from->zeta[axis], m->zeta[axis].count * sizeof(real));
    }
}

void state_free(state_t *x)
{
    for (int axis = 0; axis < AXES; axis++) {
        free(x->psi[axis]);
        free(x->zeta[axis]);
    }
    free(x->curr);
    free(x->prev);
    *x = (state_t){.curr = NULL};
}

size_t state_bytes(const cpml_t *m)
{
    size_t values = 2 * m->grid.points;
    for (int axis = 0; axis < m->dims; axis++)
        values += m->psi[axis].count + m->zeta[axis].count;
    return values * sizeof(real);
}

int work_init(work_t *w, const grid_t *g)
{
    *w = (work_t){.rate = field_alloc(g), .p = field_alloc(g), .q = field_alloc(g)};
    if (w->rate != NULL && w->p != NULL && w->q != NULL)
        return 0;
    work_free(w);
    return -1;
}

void work_free(work_t *w)
{
    free(w->rate);
    free(w->p);
    free(w->q);
    *w = (work_t){.rate = NULL};
}

/* Number of lines between the halos, and the beginning of the k-th line. */
static size_t lines(const grid_t *g)
{
    return inner(g, 1) * inner(g, 2);
}

static size_t line_start(const grid_t *g, size_t k)
{
    return HALO + g->e1 * (HALO + k % inner(g, 1) + g->e2 * (halo(g, 2) + k / inner(g, 1)));
}

/* out = D f; the halo of `out` stays zero. */
static void gradient(const grid_t *g, int axis, const real *f, real *out)
{
    const ptrdiff_t s = stride(g, axis), n = (ptrdiff_t)inner(g, 0);
#pragma omp parallel for schedule(static)
    for (size_t k = 0; k < lines(g); k++) {
        const size_t at = line_start(g, k);
#pragma omp simd
        for (ptrdiff_t i = 0; i < n; i++)
            out[at + i] = difference(f + at + i, s);
    }
}

/* sum += -D' f */
static void add_divergence(const grid_t *g, int axis, const real *f, real *sum)
{
    const ptrdiff_t s = stride(g, axis), n = (ptrdiff_t)inner(g, 0);
#pragma omp parallel for schedule(static)
    for (size_t k = 0; k < lines(g); k++) {
        const size_t at = line_start(g, k);
#pragma omp simd
        for (ptrdiff_t i = 0; i < n; i++)
            sum[at + i] += difference(f + at + i - s, s);
    }
}

/* rate += d_a (d_a u + psi) + zeta; advances psi and zeta by a step. */
static void add_axis(const cpml_t *m, int axis, state_t *x, work_t *w)
{
    const slab_t *psi = &m->psi[axis], *zeta = &m->zeta[axis];
    const ptrdiff_t s = stride(&m->grid, axis);
    real *memory = x->psi[axis];

    gradient(&m->grid, axis, x->curr, w->p);
#pragma omp parallel for schedule(static)
    for (size_t k = 0; k < psi->count; k++) {
        memory[k] = psi->b[k] * memory[k] + psi->a[k] * w->p[psi->point[k]];
        w->p[psi->point[k]] += memory[k];
    }
    add_divergence(&m->grid, axis, w->p, w->rate);
    memory = x->zeta[axis];
#pragma omp parallel for schedule(static)
    for (size_t k = 0; k < zeta->count; k++) {
        memory[k] = zeta->b[k] * memory[k] + zeta->a[k] * difference(w->p + zeta->point[k] - s, s);
        w->rate[zeta->point[k]] += memory[k];
    }
}

void cpml_step(const cpml_t *m, state_t *x, work_t *w, size_t index, real s)
{
    const grid_t *g = &m->grid;
    real *next = x->prev;

    memset(w->rate, 0, g->points * sizeof *w->rate);
    for (int axis = 0; axis < m->dims; axis++)
        add_axis(m, axis, x, w);
    w->rate[index] += s;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < g->points; i++)
        next[i] = 2 * x->curr[i] - next[i] + m->scale[i] * w->rate[i];
    x->prev = x->curr;
    x->curr = next;
}

/* sum += the transpose of add_axis, applied to w->q. D is minus the transpose of the
 * divergence. */
static void add_axis_transposed(const cpml_t *m, int axis, state_t *y, work_t *w, real *sum)
{
    const slab_t *psi = &m->psi[axis], *zeta = &m->zeta[axis];
    real *memory = y->zeta[axis];

    field_copy(&m->grid, w->rate, w->q);
#pragma omp parallel for schedule(static)
    for (size_t k = 0; k < zeta->count; k++) {
        memory[k] += w->q[zeta->point[k]];
        w->rate[zeta->point[k]] += zeta->a[k] * memory[k];
        memory[k] *= zeta->b[k];
    }
    gradient(&m->grid, axis, w->rate, w->p);
    memory = y->psi[axis];
#pragma omp parallel for schedule(static)
    for (size_t k = 0; k < psi->count; k++) {
        memory[k] -= w->p[psi->point[k]];
        w->p[psi->point[k]] -= psi->a[k] * memory[k];
        memory[k] *= psi->b[k];
    }
    add_divergence(&m->grid, axis, w->p, sum);
}

void cpml_adjoint_step(const cpml_t *m, state_t *y, work_t *w)
{
    const grid_t *g = &m->grid;
    real *next = y->prev;

#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < g->points; i++) {
        w->q[i] = m->scale[i] * y->curr[i];
        next[i] += 2 * y->curr[i];
        y->curr[i] = -y->curr[i];
    }
    for (int axis = 0; axis < m->dims; axis++)
        add_axis_transposed(m, axis, y, w, next);
    y->prev = y->curr;
    y->curr = next;
}
