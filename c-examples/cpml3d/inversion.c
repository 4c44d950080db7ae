#include "inversion.h"

#include <stdlib.h>

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

void inversion_begin(inversion_t *inv)
{
    state_rest(&inv->u, inv->medium);
    state_rest(&inv->y, inv->medium);
}

static void count(const inversion_t *inv)
{
    if (inv->stepped != NULL)
        inv->stepped();
}

/* Computes u(ts) with its source and records the data at ts in `data`, unless `data` is NULL. */
static void step(inversion_t *inv, const cpml_t *medium, size_t ts, real *data)
{
    const survey_t *s = inv->survey;

    cpml_step(medium, &inv->u, &inv->work, inv->source, s->wavelet[ts - 1]);
    count(inv);
    if (data != NULL)
        for (size_t r = 0; r < s->receivers; r++)
            data[ts * s->receivers + r] = inv->u.curr[s->receiver[r]];
}

void inversion_observe(inversion_t *inv, const cpml_t *truth, size_t number)
{
    inv->source = inv->survey->source[number];
    inversion_begin(inv);
    for (size_t ts = 1; ts < inv->survey->steps; ts++)
        step(inv, truth, ts, inv->observed);
}

void inversion_forward(inversion_t *inv, size_t ts, int record)
{
    step(inv, inv->medium, ts, record ? inv->synthetic : NULL);
}

void inversion_backward(inversion_t *inv, size_t ts)
{
    const survey_t *s = inv->survey;
    const size_t at = (ts + 1) * s->receivers;
    const real *scale = inv->medium->scale;
    real *y = inv->y.curr;

    count(inv);
    if (ts + 1 == s->steps)
        return;  /* y(n) is zero, and y(n-1) is zero before its data are added */
    cpml_step(inv->medium, &inv->u, &inv->work, inv->source, s->wavelet[ts]);
    for (size_t r = 0; r < s->receivers; r++)
        y[s->receiver[r]] += inv->synthetic[at + r] - inv->observed[at + r];
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < inv->medium->grid.points; i++)
        inv->gradient[i] -= scale[i] * y[i] * inv->work.rate[i];
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
