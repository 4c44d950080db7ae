#include "hessian.h"

#include <gpuzip_gradient.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "image.h"
#include "session.h"

#define IS_DOUBLE (sizeof(real) == sizeof(double))
/* The largest h: terms of third order are small beside those of second order, the remainders are above
 * rounding, and velocities grow by at most h/2, which the default time step has room for. */
#define LARGEST (IS_DOUBLE ? 1e-3 : 4e-2)
/* Gates: the largest relative error, and the largest order of the Taylor test. */
#define ERROR (IS_DOUBLE ? 1e-10 : 1e-3)
#define HIGH 2.1

#define WAVES 4  /* plane waves of a direction */

static const double PI = 3.14159265358979323846;

/* Returns a number uniform in -1..1 (xorshift64, Marsaglia 2003). */
static double noise(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return (double)(*x >> 11) / 4503599627370496.0 - 1.0;
}

/* Fills v with the mean of plane waves, of at most two wavelengths across the model along each axis;
 * outside of the model the values of its edge continue, as the velocity does. */
static void make_direction(const grid_t *g, uint64_t *state, real *v)
{
    double k[WAVES][AXES], phase[WAVES];

    for (int w = 0; w < WAVES; w++) {
        phase[w] = PI * noise(state);
        for (int axis = 0; axis < AXES; axis++)
            k[w][axis] = 4.0 * PI * noise(state);
    }
    for (size_t i = 0; i < g->points; i++) {
        const double x1 = (double)grid_nearest(i % g->e1, g->o1, g->n1) / (double)g->n1;
        const double x2 = (double)grid_nearest(i / g->e1 % g->e2, g->o2, g->n2) / (double)g->n2;
        const double x3 = (double)grid_nearest(i / g->e1 / g->e2, g->o3, g->n3) / (double)g->n3;
        double sum = 0.0;

        for (int w = 0; w < WAVES; w++)
            sum += cos(k[w][0] * x1 + k[w][1] * x2 + k[w][2] * x3 + phase[w]);
        v[i] = (real)(sum / WAVES);
    }
}

int hessian_open(hessian_t *h, inversion_t *inv, size_t count)
{
    const cpml_t *m = inv->medium;
    const size_t samples = inv->survey->steps * inv->survey->receivers;
    uint64_t state = 88172645463325252u;
    int status = 0;

    h->count = count;
    if (count == 0)
        return 0;
    h->changed = *m;
    h->changed.scale = field_alloc(&m->grid);
    h->data = calloc(samples, sizeof *h->data);
    status |= h->changed.scale == NULL || h->data == NULL;
    for (size_t i = 0; i <= count; i++)
        status |= (h->alone[i] = field_alloc(&m->grid)) == NULL;
    for (size_t i = 0; i < count; i++) {
        tangent_t *t = &h->tangent[i];

        *t = (tangent_t){.change = field_alloc(&m->grid), .product = field_alloc(&m->grid), .data = calloc(samples, sizeof *t->data)};
        status |= state_init(&t->dx, m) != 0 || t->change == NULL || t->product == NULL || t->data == NULL;
        if (status == 0)
            make_direction(&m->grid, &state, t->change);
    }
    inv->tangent = h->tangent;
    inv->tangents = count;
    return status == 0 ? 0 : -1;
}

void hessian_close(hessian_t *h)
{
    checkpoint_close(&h->single);
    for (size_t i = 0; i < HESSIAN_MOST; i++) {
        state_free(&h->tangent[i].dx);
        free(h->tangent[i].data);
        free(h->tangent[i].product);
        free(h->tangent[i].change);
    }
    for (size_t i = 0; i <= HESSIAN_MOST; i++)
        free(h->alone[i]);
    free(h->changed.scale);
    free(h->data);
}

double hessian_steps_of_shot(const hessian_t *h, const inversion_t *inv, int verify)
{
    const double once = (double)(inv->survey->steps - 1), count = (double)h->count;

    if (h->count == 0)
        return 0.0;
    /* The tangents: once with all sweeps, once in the runs of one sweep, and with --verify. */
    return (2.0 + (verify != 0) + HESSIAN_SIZES) * count * once +
           (1.0 + count) * (double)(h->single.plan.forward_steps + h->single.plan.backward_steps);
}

/* Computes the gradient (sweep 0) or product number `sweep` of the shot in a run of one sweep, which
 * advances no other tangent. */
static int run_alone(hessian_t *h, const inversion_t *inv, size_t sweep)
{
    inversion_t own = *inv;
    tangent_t tangent = h->tangent[sweep > 0 ? sweep - 1 : 0];

    tangent.data = h->data;
    tangent.product = h->alone[sweep];
    own.tangent = &tangent;
    own.gradient = h->alone[0];
    own.first = own.tangents = sweep > 0;
    return session_gradient(&h->single, &own, NULL);
}

static double dot(const real *a, const real *b, size_t count)
{
    double sum = 0.0;

    for (size_t i = 0; i < count; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

/* Adds the remainder of the shot's data in the medium of m + h v, v = v_i. */
static void add_remainder(hessian_t *h, const inversion_t *inv, size_t i, size_t size)
{
    const tangent_t *t = &h->tangent[i];
    const double step = ldexp(LARGEST, -(int)size);
    inversion_t own = *inv;

    for (size_t k = 0; k < inv->medium->grid.points; k++)
        h->changed.scale[k] = (real)(inv->medium->scale[k] / (1.0 + step * t->change[k]));
    own.medium = &h->changed;
    own.synthetic = h->data;
    own.tangents = 0;
    inversion_begin(&own);
    for (size_t ts = 1; ts < inv->survey->steps; ts++)
        inversion_forward(&own, ts, 1);
    for (size_t k = 0; k < inv->survey->steps * inv->survey->receivers; k++) {
        const double r = (double)h->data[k] - inv->synthetic[k] - step * t->data[k];
        h->remainder[i][size] += r * r;
    }
}

int hessian_shot(hessian_t *h, inversion_t *inv)
{
    const size_t samples = inv->survey->steps * inv->survey->receivers;
    double start;

    for (size_t i = 0; i < h->count; i++)
        for (size_t j = 0; j < h->count; j++)
            h->born[i][j] += dot(h->tangent[i].data, h->tangent[j].data, samples);
    start = seconds();
    for (size_t sweep = 0; h->count > 0 && sweep <= h->count; sweep++)
        if (run_alone(h, inv, sweep) != 0)
            return -1;
    h->seconds += seconds() - start;
    for (size_t i = 0; i < h->count; i++)
        for (size_t size = 0; size < HESSIAN_SIZES; size++)
            add_remainder(h, inv, i, size);
    return 0;
}

/* Returns the larger number; NAN if one of them is. */
static double larger(double a, double b)
{
    return isnan(a) || a >= b ? a : b;
}

int hessian_judge(hessian_t *h, const inversion_t *inv)
{
    const size_t points = inv->medium->grid.points, bytes = points * sizeof(real);
    gpuzip_taylor_t test = {.sizes = HESSIAN_SIZES, .high = HIGH};
    int right = 1;

    h->same = memcmp(h->alone[0], inv->gradient, bytes) == 0;
    h->asymmetry = h->error = 0.0;
    h->largest = -INFINITY;
    h->least = INFINITY;
    for (size_t i = 0; i < h->count; i++) {
        for (size_t j = 0; j < h->count; j++) {
            const double ji = dot(h->tangent[j].change, h->tangent[i].product, points);
            const double ij = dot(h->tangent[i].change, h->tangent[j].product, points);
            const double norms = sqrt(h->born[i][i] * h->born[j][j]);
            h->asymmetry = larger(h->asymmetry, fabs(ji - ij) / norms);
            h->error = larger(h->error, fabs(ji - h->born[j][i]) / norms);
        }
        gpuzip_taylor_steps(&test, LARGEST);
        for (size_t size = 0; size < HESSIAN_SIZES; size++)
            test.first[size] = test.second[size] = sqrt(h->remainder[i][size]);
        right &= gpuzip_taylor_orders(&test) && test.judged == HESSIAN_SIZES - 1;
        h->largest = larger(h->largest, test.most);
        h->least = -larger(-h->least, -test.least);
        h->same &= memcmp(h->alone[i + 1], h->tangent[i].product, bytes) == 0;
    }
    return right && h->same && h->asymmetry <= ERROR && h->error <= ERROR;
}

void hessian_text(const hessian_t *h, const inversion_t *inv, const checkpoint_t *together)
{
    if (h->count == 0)
        return;
    printf("Hessian           %zu Gauss-Newton products in %zu reverse sweeps: %" PRIu64 " forward steps of the state, %" PRIu64 " in runs of one\n"
           "                  sweep each, which took %.2f s\n", h->count, inversion_sweeps(inv), together->total.forward_steps,
           h->single.total.forward_steps, h->seconds);
    printf("                  gradient and products have %s bits as those of runs of one sweep%s\n", h->same ? "the same" : "OTHER",
           checkpoint_is_lossy(together) ? "; the codec is lossy" : "");
    printf("                  asymmetry %.2e, <v, H v> - <B v, B v> %.2e, both relative; Taylor orders %.4f to %.4f\n", h->asymmetry, h->error,
           h->least, h->largest);
}

/* JSON has neither infinities nor NaN. */
static void json_number(const char *key, double value)
{
    printf(isfinite(value) ? ", \"%s\": %.9g" : ", \"%s\": null", key, value);
}

void hessian_json(const hessian_t *h, const inversion_t *inv, const checkpoint_t *together)
{
    uint64_t hash = 0;

    if (h->count == 0)
        return;
    for (size_t i = 0; i < h->count; i++)
        hash = 31 * hash + image_hash(h->tangent[i].product, inv->medium->grid.points);
    printf(", \"directions\": %zu, \"sweeps\": %zu, \"forward_steps\": %" PRIu64 ", \"forward_steps_alone\": %" PRIu64 ", \"same_bits\": %s, \"seconds_alone\": %.6f",
           h->count, inversion_sweeps(inv), together->total.forward_steps, h->single.total.forward_steps, h->same ? "true" : "false", h->seconds);
    json_number("asymmetry", h->asymmetry);
    json_number("product_error", h->error);
    json_number("least_order", h->least);
    json_number("largest_order", h->largest);
    printf(", \"products_hash\": \"%016" PRIx64 "\"", hash);
}
