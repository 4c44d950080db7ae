/*
 * Tests the propagator of c-examples/rtm3d against properties of the wave equation: the adjoint dot
 * product, reciprocity, the exact solution in a homogeneous medium, the gradient (Taylor test), and steps in
 * reverse time; and that the number of threads changes no bit. The file is compiled once as it is (FP32) and once
 * with -DRTM_REAL=double. Each line of output has a figure and its gate, the largest figure that
 * passes; the exit code is 0 if all figures pass.
 */
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuzip_gradient.h>

#include "gradient.h"
#include "propagator.h"
#include "shot.h"

static const double PI = 3.14159265358979323846;
static int failures;

static int is_double(void)
{
    return sizeof(real) == sizeof(double);
}

static void check(const char *what, double figure, double gate)
{
    const int ok = figure <= gate;  /* false for NaN */
    printf("%-58s %9.2e  gate %7.0e  %s\n", what, figure, gate, ok ? "ok" : "FAILED");
    failures += !ok;
}

static void *must(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "rtm_physics: no memory\n");
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

/* Initialises a medium of random velocities from 1500 to 4500 m/s: no symmetry, and contrasts of up
 * to 3 to 1 from one cell to the next. */
static void rough_medium(medium_t *m, const grid_t *g)
{
    const size_t cells = g->n1 * g->n2 * g->n3;
    float *v = must(malloc(cells * sizeof *v));
    for (size_t i = 0; i < cells; i++)
        v[i] = (float)(3000.0 + 1500.0 * noise());
    must_be(medium_init(m, g, 0.9 * stable_dt(grid_dims(g), g->dx, 4500.0), v));
    free(v);
}

/* Checks <R u(q), r> = <q, lambda(r)> with the functions of the migration: R u(q) are the
 * receivers' traces for a random source signal q, and lambda(r) is the adjoint wave at the source
 * for random residuals r. */
static void adjoint(const char *what, size_t n1, size_t n2, size_t n3)
{
    const size_t steps = 300;
    grid_t g;
    medium_t m;
    survey_t s;
    shot_t shot;
    image_t image;
    double left = 0.0, right = 0.0;

    must_be(grid_init(&g, n1, n2, n3, 8, 10.0));
    rough_medium(&m, &g);
    must_be(survey_init(&s, &g, steps, 1, 1e-3, 10.0));
    for (size_t k = 0; k < steps; k++)
        s.wavelet[k] = (real)noise();
    must_be(shot_init(&shot, &m, &s));
    must_be(image_init(&image, &g));

    shot.source = s.source[0];
    shot_begin(&shot);
    for (size_t ts = 1; ts < steps; ts++)
        shot_forward(&shot, ts, 1);
    for (size_t i = 0; i < steps * s.receivers; i++) {
        shot.observed[i] = (real)noise();
        left += (double)shot.synthetic[i] * shot.observed[i];
        shot.synthetic[i] = 0;  /* the residual, observed - synthetic, becomes the random r */
    }
    for (size_t ts = steps; ts-- > 0;) {
        shot_backward(&shot, ts, ts, shot.u.curr, &image);
        right += (double)s.wavelet[ts] * shot.lambda.curr[shot.source];
    }
    check(what, fabs(left - right) / fabs(left), is_double() ? 1e-12 : 1e-3);
    image_free(&image);
    shot_free(&shot);
    survey_free(&s);
    medium_free(&m);
}

/* Sets trace[k] to u(k) at the grid point `to` for a Ricker wavelet at the grid point `from`. */
static void record(const medium_t *m, size_t from, size_t to, double dt, double freq, size_t steps,
                   real *trace)
{
    wavefield_t u;
    must_be(wavefield_init(&u, &m->grid));
    trace[0] = 0;
    for (size_t k = 1; k < steps; k++) {
        propagate(m, &u);
        inject(m, &u, from, (real)ricker((double)(k - 1) * dt, freq));
        trace[k] = u.curr[to];
    }
    wavefield_free(&u);
}

/* Exchanging source and receiver changes nothing, in any medium. */
static void reciprocity(void)
{
    enum { STEPS = 400 };
    static real ab[STEPS], ba[STEPS];
    grid_t g;
    medium_t m;
    double difference = 0.0, largest = 0.0;

    must_be(grid_init(&g, 40, 32, 36, 8, 10.0));
    rough_medium(&m, &g);
    const size_t a = grid_index(&g, 2, 5, 7), b = grid_index(&g, 30, 22, 29);
    record(&m, a, b, 8e-4, 20.0, STEPS, ab);
    record(&m, b, a, 8e-4, 20.0, STEPS, ba);
    for (int k = 0; k < STEPS; k++) {
        difference = fmax(difference, fabs((double)ab[k] - (double)ba[k]));
        largest = fmax(largest, fabs((double)ab[k]));
    }
    check("reciprocity, 3-D", difference / largest, is_double() ? 1e-12 : 1e-5);
    medium_free(&m);
}

/* Sets `out` to the cosine and sine sums of x at the frequency `freq` (Hz), without the factor
 * dt. */
static void spectrum(const double *x, size_t steps, double dt, double freq, double out[2])
{
    out[0] = out[1] = 0.0;
    for (size_t k = 0; k < steps; k++) {
        out[0] += x[k] * cos(2.0 * PI * freq * (double)k * dt);
        out[1] += x[k] * sin(2.0 * PI * freq * (double)k * dt);
    }
}

/* Returns the largest relative error of the spectrum of x at 21 frequencies from `low` to `high`
 * Hz. */
static double spectral_error(const double *x, const double *exact, size_t steps, double dt,
                             double low, double high)
{
    double worst = 0.0;
    for (double freq = low; freq <= high; freq += (high - low) / 20.0) {
        double a[2], b[2];
        spectrum(x, steps, dt, freq, a);
        spectrum(exact, steps, dt, freq, b);
        worst = fmax(worst, hypot(a[0] - b[0], a[1] - b[1]) / hypot(b[0], b[1]));
    }
    return worst;
}

static double relative_l2(const double *x, const double *exact, size_t steps)
{
    double error = 0.0, norm = 0.0;
    for (size_t k = 0; k < steps; k++) {
        error += (x[k] - exact[k]) * (x[k] - exact[k]);
        norm += exact[k] * exact[k];
    }
    return sqrt(error / norm);
}

/*
 * A point source s(t) delta(x) in a homogeneous medium gives
 *
 *     u = s(t - r/v) / (4 pi r).
 *
 * The wavelet W of the propagator is in units of 1/dx^2 and fills a cell of dx^3: s = W dx. 10 grid
 * points sample the wavelength of the peak frequency, and the time window ends before a reflection
 * from the sponge can arrive. The time step is small (Courant number 0.06), so that the figures
 * show the error of the space derivatives: at a Courant number of 0.35 the error of the time
 * derivative alone changes the waveform by 6.7 %. The gate for the spectrum holds at each frequency
 * whose wavelength has at least 7 grid points. With 7 points at the peak frequency, and so 3 at the
 * top of the wavelet's band, the waveform would be off by 4.5 %.
 */
static void green(void)
{
    const double v = 2000.0, freq = 10.0, distance = 500.0, dx = 20.0, dt = 0.06 * dx / v;
    const size_t offset = (size_t)(distance / dx);
    const size_t steps = (size_t)ceil((distance / v + 2.4 / freq) / dt);
    /* A reflection from an edge that is `margin` cells away travels more than 2 margin cells. */
    const size_t margin = (size_t)ceil(0.5 * v * (double)steps * dt / dx), n = 2 * margin;
    const size_t cells = n * n * (n + offset);
    float *model = must(malloc(cells * sizeof *model));
    real *trace = must(malloc(steps * sizeof *trace));
    double *u = must(malloc(2 * steps * sizeof *u)), *exact = u + steps;
    grid_t g;
    medium_t m;

    for (size_t i = 0; i < cells; i++)
        model[i] = (float)v;
    must_be(grid_init(&g, n, n, n + offset, 8, dx));
    must_be(medium_init(&m, &g, dt, model));
    record(&m, grid_index(&g, margin, margin, margin),
           grid_index(&g, margin, margin, margin + offset), dt, freq, steps, trace);
    for (size_t k = 0; k < steps; k++) {
        const double t = (double)k * dt - distance / v;
        u[k] = trace[k];
        exact[k] = t < 0.0 ? 0.0 : ricker(t, freq) * dx / (4.0 * PI * distance);
    }
    check("Green's function at 500 m: waveform, 10 points at the peak", relative_l2(u, exact, steps),
          1e-2);
    check("Green's function at 500 m: spectrum, 7 points and more",
          spectral_error(u, exact, steps, dt, 0.3 * freq, v / (7.0 * dx)), 1e-2);
    medium_free(&m);
    free(u);
    free(trace);
    free(model);
}

/* Returns the misfit J between shot->observed and the data that the medium `m` gives. */
static double misfit(shot_t *shot, const medium_t *m)
{
    shot->medium = m;
    shot_begin(shot);
    for (size_t ts = 1; ts < shot->survey->steps; ts++)
        shot_forward(shot, ts, 1);
    return gradient_misfit(shot);
}

/* Returns the derivative of J in the direction `change` by the adjoint. The direction also changes
 * the cells at the edges of the model, whose velocity the sponge continues. */
static double slope(shot_t *shot, const medium_t *m, const double *change)
{
    const grid_t *g = &m->grid;
    const size_t steps = shot->survey->steps, cells = g->n1 * g->n2 * g->n3;
    real **states = must(malloc(steps * sizeof *states));
    double *gradient = must(malloc(cells * sizeof *gradient)), sum = 0.0;
    float *unit = must(malloc(cells * sizeof *unit));
    image_t image;

    must_be(image_init(&image, g));
    must_be(image_add_gradient(&image, g));
    shot->medium = m;
    shot_begin(shot);
    for (size_t ts = 0; ts < steps; ts++) {
        if (ts > 0)
            shot_forward(shot, ts, 1);
        states[ts] = must(field_alloc(g));
        field_copy(g, states[ts], shot->u.curr);
    }
    for (size_t ts = steps; ts-- > 0; free(states[ts]))
        shot_backward(shot, ts, ts, states[ts], &image);
    for (size_t i = 0; i < cells; i++)
        unit[i] = 1.0f;  /* the gradient is relative to m = 1 / v^2: v^2 m = 1 */
    gradient_collect(g, unit, image.gradient, gradient);
    for (size_t i = 0; i < cells; i++)
        sum += gradient[i] * change[i];
    image_free(&image);
    free(unit);
    free(gradient);
    free(states);
    return sum;
}

/* The line m + h p of a Taylor test. */
typedef struct line_t {
    shot_t *shot;
    const medium_t *m;
    medium_t *changed;
    const double *change;
} line_t;

static double changed_misfit(void *user, double h)
{
    const line_t *line = user;
    medium_change(line->changed, line->m, h, line->change);
    return misfit(line->shot, line->changed);
}

/* Taylor test in a rough medium, with the data of another rough medium: checks
 *
 *     J(m + h p) = J(m) + h <g, p> + O(h^2)
 *
 * and compares <g, p> with the central difference (J(m + h p) - J(m - h p)) / (2 h). */
static void taylor(const char *what, size_t n1, size_t n2, size_t n3)
{
    enum { STEPS = 200 };
    const double largest = is_double() ? 1e-3 : 1e-2;
    const size_t cells = n1 * n2 * n3;
    double *change = must(malloc(cells * sizeof *change)), at;
    gpuzip_taylor_t test = {0};
    grid_t g;
    medium_t m, changed;
    survey_t s;
    shot_t shot;

    printf("%s\n", what);
    must_be(grid_init(&g, n1, n2, n3, 8, 10.0));
    rough_medium(&m, &g);
    rough_medium(&changed, &g);
    memcpy(changed.damp1, m.damp1, g.e1 * sizeof(real));
    memcpy(changed.damp2, m.damp2, g.e2 * sizeof(real));
    memcpy(changed.damp3, m.damp3, g.e3 * sizeof(real));
    must_be(survey_init(&s, &g, STEPS, 1, 1e-3, 25.0));
    must_be(shot_init(&shot, &m, &s));
    shot.source = s.source[0];
    misfit(&shot, &changed);  /* computes the data of another model */
    memcpy(shot.observed, shot.synthetic, STEPS * s.receivers * sizeof(real));
    for (size_t i = 0; i < cells; i++)
        change[i] = noise();
    at = misfit(&shot, &m);
    gpuzip_taylor(&test, changed_misfit, &(line_t){&shot, &m, &changed, change}, at, slope(&shot, &m, change), largest);
    if (is_double())
        check("  Taylor test: |order - 2| of five halvings, the largest",
              test.judged == 5 ? fmax(2.0 - test.least, test.most - 2.0) : NAN, 0.1);
    medium_change(&changed, &m, -largest, change);
    check("  slope against a central difference",
          fabs((test.changed[0] - misfit(&shot, &changed)) / (2.0 * largest) / test.slope - 1.0), is_double() ? 1e-4 : 1e-2);
    shot_free(&shot);
    survey_free(&s);
    medium_free(&changed);
    medium_free(&m);
    free(change);
}

/* Copies the strips of a field, or all but their outermost cells. */
static void copy_strips(const grid_t *g, real *to, const real *from, int narrow)
{
    for (unsigned face = 0; face < 2u * (unsigned)grid_dims(g); face++) {
        size_t n[3], i[3];
        const size_t at = grid_strip(g, face, n), outermost = face % 2 == 0 ? 0 : HALO - 1;
        for (i[2] = 0; i[2] < n[2]; i[2]++)
            for (i[1] = 0; i[1] < n[1]; i[1]++)
                for (i[0] = 0; i[0] < n[0]; i[0]++) {
                    const size_t cell = at + i[0] + g->e1 * (i[1] + g->e2 * i[2]);
                    if (!narrow || i[face / 2] != outermost)
                        to[cell] = from[cell];
                }
    }
}

/* Computes all states backward from the last one and the strips of the others. Returns the root mean square of their
 * error on the cells of the model, relative to that of the states. */
static double error_of_reversal(shot_t *shot, real **states, int narrow)
{
    const grid_t *g = &shot->medium->grid;
    const size_t steps = shot->survey->steps;
    double error = 0.0, norm = 0.0;

    shot_begin(shot);
    for (size_t ts = 1; ts < steps; ts++) {
        shot_forward(shot, ts, 0);
        field_copy(g, states[ts], shot->u.curr);
    }
    for (size_t ts = steps - 1; ts-- > 0;) {
        shot_reverse(shot, ts);
        copy_strips(g, shot->u.curr, states[ts], narrow);
        for (size_t i = 0; i < g->n1 * g->n2 * g->n3; i++) {
            const size_t at = grid_index(g, i % g->n1, i / g->n1 % g->n2, i / (g->n1 * g->n2));
            const double exact = states[ts][at];
            error += (shot->u.curr[at] - exact) * (shot->u.curr[at] - exact);
            norm += exact * exact;
        }
    }
    return sqrt(error / norm);
}

/*
 * A step and the same step in reverse time err by their roundings alone. With r the unit roundoff and root mean
 * squares over the cells:
 *
 * - Of the sums and products of a point in 3-D, times K, none is larger than 3.3 times the field, and the squares
 *   of all 35 add up to less than 80. A rounding errs by at most r, and by r / sqrt(3) as a root mean square, so that the two
 *   steps err by sqrt(2 * 80 / 3) r < 8 r of the field.
 * - A step error acts like a source. A mode that turns by the angle a per step answers j steps later by
 *   sin(j a) / sin(a). The mean of its square over all steps and modes, 1 / (2 sin(a)^2), is below 4 on these grids
 *   in a medium of the mean velocity, as errors in all cells excite all modes alike.
 * - Errors of different steps add up as squares: after n steps there are 8 r sqrt(4 n) = 16 r sqrt(n).
 *
 * A strip that is a cell too narrow gives the outermost of the nine weights wrong values: far more than that.
 */
static void reversal(const char *what, size_t n1, size_t n2, size_t n3)
{
    const size_t steps = 300;
    const double roundoff = is_double() ? ldexp(1.0, -53) : ldexp(1.0, -24);
    const double gate = 16.0 * roundoff * sqrt((double)steps);
    real **states = must(malloc(steps * sizeof *states));
    char text[80];
    grid_t g;
    medium_t m;
    survey_t s;
    shot_t shot;

    must_be(grid_init(&g, n1, n2, n3, 8, 10.0));
    rough_medium(&m, &g);
    must_be(survey_init(&s, &g, steps, 1, 1e-3, 10.0));
    for (size_t k = 0; k < steps; k++)
        s.wavelet[k] = (real)noise();
    must_be(shot_init(&shot, &m, &s));
    shot.source = s.source[0];
    for (size_t ts = 0; ts < steps; ts++)
        states[ts] = must(field_alloc(&g));
    snprintf(text, sizeof text, "states computed backward, %s", what);
    check(text, error_of_reversal(&shot, states, 0), gate);
    snprintf(text, sizeof text, "  gate over the error with too narrow strips, %s", what);
    check(text, gate / error_of_reversal(&shot, states, 1), 0.1);
    for (size_t ts = 0; ts < steps; ts++)
        free(states[ts]);
    free(states);
    shot_free(&shot);
    survey_free(&s);
    medium_free(&m);
}

/* Checks that 1 thread and 3 threads give the same bits, inside the model and in the sponge. */
static void threads(void)
{
    const int all = omp_get_max_threads();
    grid_t g;
    medium_t m;
    wavefield_t u[2];

    must_be(grid_init(&g, 37, 29, 41, 8, 10.0));
    rough_medium(&m, &g);
    for (int i = 0; i < 2; i++) {
        omp_set_num_threads(i == 0 ? 1 : 3);
        must_be(wavefield_init(&u[i], &g));
        inject(&m, &u[i], grid_index(&g, 10, 11, 12), 1);
        for (int k = 0; k < 100; k++)
            propagate(&m, &u[i]);
    }
    omp_set_num_threads(all);
    check("1 thread and 3 threads: bytes that differ, 3-D",
          memcmp(u[0].curr, u[1].curr, g.points * sizeof(real)) != 0, 0.0);
    wavefield_free(&u[0]);
    wavefield_free(&u[1]);
    medium_free(&m);
}

int main(void)
{
    printf("propagator in %s\n", is_double() ? "FP64" : "FP32");
    adjoint("adjoint dot product, 2-D", 60, 90, 1);
    adjoint("adjoint dot product, 3-D", 30, 26, 34);
    reciprocity();
    green();
    taylor("gradient, 2-D", 30, 50, 1);
    taylor("gradient, 3-D", 20, 16, 24);
    reversal("2-D", 60, 90, 1);
    reversal("3-D", 30, 26, 34);
    threads();
    return failures == 0 ? 0 : 1;
}
