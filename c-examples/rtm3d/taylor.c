#include "taylor.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "gradient.h"
#include "message.h"

/* The largest h: terms of third order are small beside those of second order, and at least some
 * remainders are above rounding. */
#define LARGEST (sizeof(real) == sizeof(double) ? 1e-3 : 4e-2)
/*
 * J = |r|^2/2 for the residual r = R u - d, a difference of rounded data: J has an error of a
 * few units of |d| |r|. With this number of units, remainders three times as large have orders
 * that pass.
 */
#define ROUNDING (8.0 * (sizeof(real) == sizeof(double) ? DBL_EPSILON : FLT_EPSILON))

/* p/m = (v/v_true)^2 - 1, divided by its largest absolute value; job.c has checked that the
 * models differ. */
static void make_direction(taylor_t *t, const job_t *job, size_t cells)
{
    double largest = 0.0;

    for (size_t i = 0; i < cells; i++) {
        const double ratio = (double)job->smooth[i] / job->model[i];
        t->change[i] = ratio * ratio - 1.0;
        largest = fmax(largest, fabs(t->change[i]));
    }
    for (size_t i = 0; i < cells; i++)
        t->change[i] /= largest;
}

int taylor_open(taylor_t *t, const job_t *job)
{
    const grid_t *g = &job->grid;
    const size_t cells = g->n1 * g->n2 * g->n3;

    *t = (taylor_t){.change = malloc(cells * sizeof *t->change), .test = {.sizes = TAYLOR_SIZES, .high = TAYLOR_HIGH}};
    gpuzip_taylor_steps(&t->test, LARGEST);
    if (t->change == NULL || medium_init(&t->medium, g, job->dt, job->smooth) != 0)
        return complain("--taylor: no memory for %zu points", g->points);
    make_direction(t, job, cells);
    return 0;
}

void taylor_close(taylor_t *t)
{
    medium_free(&t->medium);
    free(t->change);
    t->change = NULL;
}

void taylor_shot(taylor_t *t, shot_t *shot)
{
    const medium_t *smooth = shot->medium;
    const size_t samples = shot->survey->steps * shot->survey->receivers;

    for (size_t i = 0; i < samples; i++)
        t->energy += 0.5 * shot->observed[i] * (double)shot->observed[i];
    for (int i = 0; i < TAYLOR_SIZES; i++) {
        medium_change(&t->medium, smooth, t->test.h[i], t->change);
        shot->medium = &t->medium;
        shot_begin(shot);
        for (size_t ts = 1; ts < shot->survey->steps; ts++)
            shot_forward(shot, ts, 1);
        shot->medium = smooth;
        t->test.changed[i] += gradient_misfit(shot);
    }
}

int taylor_judge(taylor_t *t, const job_t *job, double misfit, const double *gradient)
{
    const grid_t *g = &job->grid;

    t->test.rounding = ROUNDING * sqrt(t->energy * misfit);
    t->test.value = misfit;
    t->test.slope = 0.0;
    for (size_t i = 0; i < g->n1 * g->n2 * g->n3; i++)
        t->test.slope += gradient[i] * t->change[i] / ((double)job->smooth[i] * job->smooth[i]);
    return gpuzip_taylor_judge(&t->test);
}
