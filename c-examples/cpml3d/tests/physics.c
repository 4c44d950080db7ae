/*
 * Tests properties of the propagator of c-examples/cpml3d: the adjoint is the transpose of the
 * forward step, the gradient predicts the misfit (Taylor test), the layers absorb, long runs are
 * stable, and the number of threads changes no bit. The file is compiled once as it is (FP32) and
 * once with -DRTM_REAL=double. Each line of output has a figure and its gate, the largest figure
 * that passes; the exit code is 0 if all figures pass.
 */
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuzip_gradient.h>

#include "gradient.h"
#include "inversion.h"

static int failures;

static int is_double(void)
{
    return sizeof(real) == sizeof(double);
}

static void check(const char *what, double figure, double gate)
{
    const int ok = figure <= gate;  /* false for NaN */
    printf("%-62s %9.2e  gate %7.0e  %s\n", what, figure, gate, ok ? "ok" : "FAILED");
    failures += !ok;
}

static void *must(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "cpml_physics: no memory\n");
        exit(2);
    }
    return memory;
}

static void must_be(int status)
{
    if (status != 0)
        must(NULL);
}

/* Returns a number uniform in -1..1; the sequence is the same on every machine (xorshift64,
 * Marsaglia 2003). */
static double noise(void)
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (double)(x >> 11) / 4503599627370496.0 - 1.0;
}

/* Initialises a medium of random velocities from 1500 to 4500 m/s, which has no symmetry. */
static void rough_medium(cpml_t *m, const grid_t *g)
{
    const size_t cells = g->n1 * g->n2 * g->n3;
    float *v = must(malloc(cells * sizeof *v));
    for (size_t i = 0; i < cells; i++)
        v[i] = (float)(3000.0 + 1500.0 * noise());
    must_be(cpml_init(m, g, 0.9 * cpml_stable_dt(grid_dims(g), g->dx, 4500.0), 20.0, v));
    free(v);
}

/* Sets every value of a state at random: both time levels inside the halos, and all memory
 * variables (psi and zeta) of the layers. */
static void random_state(state_t *x, const cpml_t *m)
{
    const grid_t *g = &m->grid;
    const size_t halo3 = m->dims == 3 ? HALO : 0;

    for (size_t i3 = halo3; i3 < g->e3 - halo3; i3++)
        for (size_t i2 = HALO; i2 < g->e2 - HALO; i2++)
            for (size_t i1 = HALO; i1 < g->e1 - HALO; i1++) {
                x->curr[i1 + g->e1 * (i2 + g->e2 * i3)] = (real)noise();
                x->prev[i1 + g->e1 * (i2 + g->e2 * i3)] = (real)noise();
            }
    for (int axis = 0; axis < m->dims; axis++) {
        for (size_t k = 0; k < m->psi[axis].count; k++)
            x->psi[axis][k] = (real)noise();
        for (size_t k = 0; k < m->zeta[axis].count; k++)
            x->zeta[axis][k] = (real)noise();
    }
}

static double sum_of(const real *a, const real *b, size_t count)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

static double product(const cpml_t *m, const state_t *x, const state_t *y)
{
    double sum = sum_of(x->curr, y->curr, m->grid.points) + sum_of(x->prev, y->prev, m->grid.points);
    for (int axis = 0; axis < m->dims; axis++)
        sum += sum_of(x->psi[axis], y->psi[axis], m->psi[axis].count) +
               sum_of(x->zeta[axis], y->zeta[axis], m->zeta[axis].count);
    return sum;
}

/* Checks <M x, y> = <x, M' y>, where M is three forward steps, M' is three adjoint steps, and the
 * states x and y are random in every field. */
static void transpose(const char *what, size_t n1, size_t n2, size_t n3)
{
    grid_t g;
    cpml_t m;
    state_t x, y, from;
    work_t w;
    double left, right, scale;

    must_be(grid_init(&g, n1, n2, n3, 5, 10.0));
    rough_medium(&m, &g);
    must_be(state_init(&x, &m) | state_init(&y, &m) | state_init(&from, &m) | work_init(&w, &g));
    random_state(&x, &m);
    random_state(&y, &m);
    state_copy(&m, &from, &x);
    for (int i = 0; i < 3; i++)
        cpml_step(&m, &x, &w, 0, 0);
    left = product(&m, &x, &y);
    scale = sqrt(product(&m, &x, &x) * product(&m, &y, &y));
    for (int i = 0; i < 3; i++)
        cpml_adjoint_step(&m, &y, &w);
    right = product(&m, &from, &y);
    check(what, fabs(left - right) / scale, is_double() ? 1e-14 : 1e-6);
    state_free(&x);
    state_free(&y);
    state_free(&from);
    work_free(&w);
    cpml_free(&m);
}

/* Checks <R u(q), r> = <q, u'(r)> with the functions of the inversion: R u(q) are the receivers'
 * traces for a random source signal q, and u'(r) is the adjoint wave at the source for random
 * residuals r. */
static void adjoint(const char *what, size_t n1, size_t n2, size_t n3)
{
    enum { STEPS = 250 };
    grid_t g;
    cpml_t m;
    survey_t s;
    inversion_t inv;
    double left = 0.0, right = 0.0;

    must_be(grid_init(&g, n1, n2, n3, 8, 10.0));
    rough_medium(&m, &g);
    must_be(survey_init(&s, &g, STEPS, 1, 1e-3, 10.0));
    must_be(inversion_open(&inv, &m, &s));
    for (size_t k = 0; k < STEPS; k++)
        s.wavelet[k] = (real)noise();
    inv.source = s.source[0];
    inversion_begin(&inv);
    for (size_t ts = 1; ts < STEPS; ts++)
        inversion_forward(&inv, ts, 1);
    for (size_t i = s.receivers; i < STEPS * s.receivers; i++) {
        const real r = (real)noise();
        left += (double)inv.synthetic[i] * r;
        inv.observed[i] = 0;
        inv.synthetic[i] = r;  /* the residual, synthetic - observed, becomes the random r */
    }
    for (size_t ts = STEPS - 1; ts-- > 0;) {
        /* The source of the step to ts+1 is multiplied by c y(ts+1), residuals included. The field
         * inv.y.prev, after the step to y(ts), holds -y(ts+1). */
        inversion_backward(&inv, ts);
        right -= (double)s.wavelet[ts] * inv.y.prev[inv.source] * m.scale[inv.source];
    }
    check(what, fabs(left - right) / fabs(left), is_double() ? 1e-12 : 1e-3);
    inversion_close(&inv);
    survey_free(&s);
    cpml_free(&m);
}

static double misfit(inversion_t *inv, const cpml_t *m)
{
    inv->medium = m;
    inversion_begin(inv);
    for (size_t ts = 1; ts < inv->survey->steps; ts++)
        inversion_forward(inv, ts, 1);
    return inversion_misfit(inv);
}

/* Computes inv->gradient from a run that keeps every state. */
static void whole_gradient(inversion_t *inv)
{
    const size_t steps = inv->survey->steps;
    state_t *states = must(malloc(steps * sizeof *states));

    inversion_begin(inv);
    for (size_t ts = 0; ts < steps; ts++) {
        if (ts > 0)
            inversion_forward(inv, ts, 1);
        must_be(state_init(&states[ts], inv->medium));
        state_copy(inv->medium, &states[ts], &inv->u);
    }
    for (size_t ts = steps; ts-- > 0; state_free(&states[ts])) {
        state_copy(inv->medium, &inv->u, &states[ts]);
        inversion_backward(inv, ts);
    }
    free(states);
}

/* The line m + h p of a Taylor test; `known` is the scale of m. */
typedef struct line_t {
    inversion_t *inv;
    cpml_t *m;
    const real *known;
    const double *change;
} line_t;

static double changed_misfit(void *user, double h)
{
    const line_t *line = user;
    const grid_t *g = &line->m->grid;

    for (size_t k = 0; k < g->points; k++) {
        const size_t i1 = grid_nearest(k % g->e1, g->o1, g->n1), i2 = grid_nearest(k / g->e1 % g->e2, g->o2, g->n2);
        const size_t i3 = grid_nearest(k / g->e1 / g->e2, g->o3, g->n3);
        line->m->scale[k] = (real)(line->known[k] / (1.0 + h * line->change[i1 + g->n1 * (i2 + g->n2 * i3)]));
    }
    return misfit(line->inv, line->m);
}

/* Taylor test: checks J(m + h p) = J(m) + h <g, p> + O(h^2) for a random direction p. The direction
 * p also changes the cells at the edges of the model, whose velocity the layers continue. */
static void taylor(const char *what, size_t n1, size_t n2, size_t n3)
{
    enum { STEPS = 160 };
    const double largest = is_double() ? 1e-3 : 1e-2;
    const size_t cells = n1 * n2 * n3;
    double *change = must(malloc(cells * sizeof *change)), *gradient = must(malloc(cells * sizeof *gradient));
    float *unit = must(malloc(cells * sizeof *unit));
    double slope = 0.0, at;
    gpuzip_taylor_t test = {0};
    grid_t g;
    cpml_t m;
    survey_t s;
    inversion_t inv;
    real *known;
    line_t line;

    must_be(grid_init(&g, n1, n2, n3, 6, 10.0));
    rough_medium(&m, &g);
    must_be(survey_init(&s, &g, STEPS, 1, 1e-3, 25.0));
    must_be(inversion_open(&inv, &m, &s));
    known = must(malloc(g.points * sizeof *known));
    memcpy(known, m.scale, g.points * sizeof *known);
    inv.source = s.source[0];
    /* The observed data come from a medium whose velocity is 0.89 times this one's (0.8 =
     * 0.89^2). */
    for (size_t i = 0; i < g.points; i++)
        m.scale[i] = (real)(0.8 * known[i]);
    misfit(&inv, &m);
    memcpy(inv.observed, inv.synthetic, STEPS * s.receivers * sizeof(real));
    memcpy(m.scale, known, g.points * sizeof *known);
    at = misfit(&inv, &m);
    whole_gradient(&inv);
    for (size_t i = 0; i < cells; i++) {
        change[i] = noise();
        unit[i] = 1.0f;  /* the gradient is relative to m = 1 / v^2: v^2 m = 1 */
    }
    gradient_collect(&g, unit, inv.gradient, gradient);
    for (size_t i = 0; i < cells; i++)
        slope += gradient[i] * change[i];
    line = (line_t){&inv, &m, known, change};
    gpuzip_taylor(&test, changed_misfit, &line, at, slope, largest);
    printf("%s\n", what);
    if (is_double())
        check("  Taylor test: |order - 2| of five halvings, the largest",
              test.judged == 5 ? fmax(2.0 - test.least, test.most - 2.0) : NAN, 0.1);
    check("  slope against a central difference",
          fabs((test.changed[0] - changed_misfit(&line, -largest)) / (2.0 * largest) / slope - 1.0), is_double() ? 1e-4 : 1e-2);
    inversion_close(&inv);
    survey_free(&s);
    cpml_free(&m);
    free(known);
    free(unit);
    free(gradient);
    free(change);
}

/* Returns u at all cells of a square (n3 = 1) or a cube of n cells per axis as traces[step][cell],
 * in memory that the caller frees. The model extends `pad` cells beyond the square or cube on each
 * side; the source is near a corner. `sponge` selects rtm3d's propagator instead of cpml3d's. */
static real *record(size_t n, size_t n3, size_t pad, size_t border, size_t steps, double freq, int sponge)
{
    const double v = 2000.0, dx = 10.0;
    const size_t wide = n + 2 * pad, wide3 = n3 > 1 ? wide : 1, cells = wide * wide * wide3, pad3 = n3 > 1 ? pad : 0;
    const double dt = 0.8 * cpml_stable_dt(n3 > 1 ? 3 : 2, dx, v);
    float *model = must(malloc(cells * sizeof *model));
    real *traces = must(malloc(steps * n * n * n3 * sizeof *traces)), *out = traces;
    grid_t g;
    cpml_t m;
    medium_t damped;
    state_t x;
    wavefield_t u;
    work_t w;

    for (size_t i = 0; i < cells; i++)
        model[i] = (float)v;
    must_be(grid_init(&g, wide, wide, wide3, border, dx));
    must_be(cpml_init(&m, &g, dt, freq, model) | state_init(&x, &m) | work_init(&w, &g));
    must_be(medium_init(&damped, &g, dt, model) | wavefield_init(&u, &g));
    for (size_t k = 0; k < steps; k++) {
        const real s = (real)ricker((double)k * dt, freq);
        const size_t source = grid_index(&g, pad + 4, pad + n / 3, pad3 + (n3 > 1 ? n3 / 2 : 0));
        if (sponge) {
            propagate(&damped, &u);
            inject(&damped, &u, source, s);
        } else {
            cpml_step(&m, &x, &w, source, s);
        }
        for (size_t line = 0; line < n * n3; line++, out += n)
            memcpy(out, (sponge ? u.curr : x.curr) + grid_index(&g, pad, pad + line % n, pad3 + line / n), n * sizeof *out);
    }
    wavefield_free(&u);
    medium_free(&damped);
    work_free(&w);
    state_free(&x);
    cpml_free(&m);
    free(model);
    return traces;
}

/* Returns the reflection of the worst cell in dB: the largest difference, over all times, between
 * the traces of this cell in the small and the big domain, relative to its largest value in the big
 * one. */
static double reflection(const real *small, const real *big, size_t cells, size_t steps)
{
    double worst = 0.0;
    for (size_t cell = 0; cell < cells; cell++) {
        double difference = 0.0, largest = 0.0;
        for (size_t i = cell; i < cells * steps; i += cells) {
            difference = fmax(difference, fabs((double)small[i] - (double)big[i]));
            largest = fmax(largest, fabs((double)big[i]));
        }
        worst = fmax(worst, difference / largest);
    }
    return 20.0 * log10(worst);
}

/* Compares the layers, and rtm3d's sponge, with a domain so wide that no wave returns from its
 * edges within the steps that are compared. */
static void absorption(const char *what, size_t n, size_t n3, size_t border, size_t steps, double gate)
{
    /* A wave travels at most 0.44 cells per step in 2-D, 0.36 in 3-D: after `steps` steps it has
     * not travelled the 2 pad cells to the edge and back. */
    const size_t cells = n * n * n3, pad = steps / 4;
    real *big = record(n, n3, pad, border, steps, 20.0, 0), *small = record(n, n3, 0, border, steps, 20.0, 0);
    real *sponge = record(n, n3, 0, border, steps, 20.0, 1), *plain = record(n, n3, pad, border, steps, 20.0, 1);
    const double layers = reflection(small, big, cells, steps), damped = reflection(sponge, plain, cells, steps);

    printf("%s: %.1f dB; rtm3d's sponge of the same %zu cells %.1f dB\n", what, layers, border, damped);
    check("  reflection, dB", layers, gate);
    check("  and relative to the sponge's, dB", layers - damped, -30.0);
    free(big);
    free(small);
    free(sponge);
    free(plain);
}

/* Checks that no value grows long after the wave has left: the largest value after 4000 steps,
 * relative to the largest value at any step. */
static void stability(void)
{
    enum { N = 40, STEPS = 4000 };
    grid_t g;
    cpml_t m;
    state_t x;
    work_t w;
    double largest = 0.0, last = 0.0;

    must_be(grid_init(&g, N, N, 1, 10, 10.0));
    rough_medium(&m, &g);
    must_be(state_init(&x, &m) | work_init(&w, &g));
    for (size_t k = 0; k < STEPS; k++) {
        cpml_step(&m, &x, &w, grid_index(&g, 9, 11, 0), (real)ricker((double)k * 5e-4, 30.0));
        last = 0.0;
        for (size_t i = 0; i < g.points; i++)
            last = fmax(last, fabs((double)x.curr[i]));
        largest = fmax(largest, last);
    }
    check("what is left after 4000 steps in a rough medium", last / largest, 1e-3);
    state_free(&x);
    work_free(&w);
    cpml_free(&m);
}

/* Checks that 1 thread and 3 threads give the same bits in forward and adjoint steps. */
static void threads(void)
{
    const int all = omp_get_max_threads();
    grid_t g;
    cpml_t m;
    state_t x[2], from;
    work_t w;
    size_t differ = 0;

    must_be(grid_init(&g, 17, 19, 15, 6, 10.0));
    rough_medium(&m, &g);
    must_be(work_init(&w, &g) | state_init(&from, &m));
    random_state(&from, &m);
    for (int i = 0; i < 2; i++) {
        omp_set_num_threads(i == 0 ? 1 : 3);
        must_be(state_init(&x[i], &m));
        state_copy(&m, &x[i], &from);
        for (int k = 0; k < 20; k++)
            (k % 2 == 0 ? (void)cpml_step(&m, &x[i], &w, 0, 0) : cpml_adjoint_step(&m, &x[i], &w));
    }
    omp_set_num_threads(all);
    differ += memcmp(x[0].curr, x[1].curr, g.points * sizeof(real)) != 0;
    for (int axis = 0; axis < m.dims; axis++)
        differ += memcmp(x[0].psi[axis], x[1].psi[axis], m.psi[axis].count * sizeof(real)) != 0;
    check("1 thread and 3 threads: fields that differ, 3-D", (double)differ, 0.0);
    state_free(&x[0]);
    state_free(&x[1]);
    state_free(&from);
    work_free(&w);
    cpml_free(&m);
}

int main(void)
{
    printf("CPML in %s\n", is_double() ? "FP64" : "FP32");
    transpose("transposed steps, 2-D", 30, 23, 1);
    transpose("transposed steps, 3-D", 14, 9, 11);
    adjoint("adjoint dot product, 2-D", 40, 50, 1);
    adjoint("adjoint dot product, 3-D", 14, 12, 18);
    taylor("gradient, 2-D", 24, 30, 1);
    taylor("gradient, 3-D", 14, 12, 16);
    absorption("2-D, 60 x 60 cells", 60, 1, 16, 400, -60.0);
    absorption("3-D, 20 x 20 x 20 cells", 20, 20, 12, 120, -60.0);
    stability();
    threads();
    return failures == 0 ? 0 : 1;
}
