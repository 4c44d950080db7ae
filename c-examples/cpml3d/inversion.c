#include "inversion.h"

#include <stdlib.h>
#include <string.h>

int inversion_open(inversion_t *inv, const cpml_t *medium, const survey_t *survey)
{
    int status = 0;

    *inv = (inversion_t){.medium = medium, .survey = survey};
    status |= state_init(&inv->u, medium);
    status |= state_init(&inv->y, medium);
    status |= work_init(&inv->work, &medium->grid);
    inv->observed = calloc(survey->steps, survey->receivers * sizeof *inv->observed);
    inv->synthetic = calloc(survey->steps, survey->receivers * sizeof *inv->synthetic);
    inv->gradient = field_alloc(&medium->grid);
    if (status == 0 && inv->observed != NULL && inv->synthetic != NULL && inv->gradient != NULL)
        return 0;
    inversion_close(inv);
    return -1;
}

void inversion_close(inversion_t *inv)
{
    state_free(&inv->u);
    state_free(&inv->y);
    work_free(&inv->work);
    free(inv->observed);
    free(inv->synthetic);
    free(inv->gradient);
    *inv = (inversion_t){.medium = NULL};
}

size_t inversion_sweeps(const inversion_t *inv)
{
    return inv->tangents + 1 - inv->first;
}

void inversion_clear(inversion_t *inv)
{
    const size_t bytes = inv->medium->grid.points * sizeof(real);

    memset(inv->gradient, 0, bytes);
    for (size_t i = 0; i < inv->tangents; i++)
        memset(inv->tangent[i].product, 0, bytes);
}

void inversion_begin(inversion_t *inv)
{
    state_rest(&inv->u, inv->medium);
    for (size_t i = 0; i < inv->tangents; i++)
        state_rest(&inv->tangent[i].dx, inv->medium);
    state_rest(&inv->y, inv->medium);
    inv->sweep = inv->first;
}

void inversion_rewind(inversion_t *inv)
{
    state_rest(&inv->y, inv->medium);
    inv->sweep++;
}

static void count(const inversion_t *inv)
{
    if (inv->stepped != NULL)
        inv->stepped();
}

/* Records the data of the state `x` at ts in `data`. */
static void record_at(const survey_t *s, const state_t *x, size_t ts, real *data)
{
    for (size_t r = 0; r < s->receivers; r++)
        data[ts * s->receivers + r] = x->curr[s->receiver[r]];
}

/* Computes u(ts) with its source. */
static void step(inversion_t *inv, const cpml_t *medium, size_t ts)
{
    cpml_step(medium, &inv->u, &inv->work, inv->source, inv->survey->wavelet[ts - 1]);
    count(inv);
}

void inversion_observe(inversion_t *inv, const cpml_t *truth, size_t number)
{
    inv->source = inv->survey->source[number];
    inversion_begin(inv);
    for (size_t ts = 1; ts < inv->survey->steps; ts++) {
        step(inv, truth, ts);
        record_at(inv->survey, &inv->u, ts, inv->observed);
    }
}

/* dx += -c v rate, the source of a tangent's step; inv->work.rate is that of the step of u. */
static void add_change(const inversion_t *inv, const tangent_t *t)
{
    const real *scale = inv->medium->scale, *rate = inv->work.rate;

#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < inv->medium->grid.points; i++)
        t->dx.curr[i] -= scale[i] * t->change[i] * rate[i];
}

void inversion_forward(inversion_t *inv, size_t ts, int record)
{
    const size_t tangents = record ? inv->tangents : 0;

    /* Tangents go first: the step of u leaves its rate in inv->work for them. */
    for (size_t i = 0; i < tangents; i++) {
        cpml_step(inv->medium, &inv->tangent[i].dx, &inv->work, inv->source, 0);
        count(inv);
    }
    step(inv, inv->medium, ts);
    for (size_t i = 0; i < tangents; i++) {
        add_change(inv, &inv->tangent[i]);
        record_at(inv->survey, &inv->tangent[i].dx, ts, inv->tangent[i].data);
    }
    if (record)
        record_at(inv->survey, &inv->u, ts, inv->synthetic);
}

/* What the current sweep propagates back: value number i of [steps][receivers]. */
static real right_side(const inversion_t *inv, size_t i)
{
    return inv->sweep == 0 ? inv->synthetic[i] - inv->observed[i] : inv->tangent[inv->sweep - 1].data[i];
}

void inversion_backward(inversion_t *inv, size_t ts)
{
    const survey_t *s = inv->survey;
    const size_t at = (ts + 1) * s->receivers;
    const real *scale = inv->medium->scale;
    real *y = inv->y.curr, *sum = inv->sweep == 0 ? inv->gradient : inv->tangent[inv->sweep - 1].product;

    count(inv);
    if (ts + 1 == s->steps)
        return;  /* y(n) is zero, and y(n-1) is zero before its data are added */
    cpml_step(inv->medium, &inv->u, &inv->work, inv->source, s->wavelet[ts]);
    for (size_t r = 0; r < s->receivers; r++)
        y[s->receiver[r]] += right_side(inv, at + r);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < inv->medium->grid.points; i++)
        sum[i] -= scale[i] * y[i] * inv->work.rate[i];
    cpml_adjoint_step(inv->medium, &inv->y, &inv->work);
}

double inversion_misfit(const inversion_t *inv)
{
    const size_t receivers = inv->survey->receivers;
    double sum = 0.0;

    for (size_t i = receivers; i < inv->survey->steps * receivers; i++) {
        const double r = (double)inv->synthetic[i] - (double)inv->observed[i];
        sum += r * r;
    }
    return 0.5 * sum;
}
