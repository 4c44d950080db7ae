#include "gradient.h"

double gradient_misfit(const shot_t *shot)
{
    const size_t receivers = shot->survey->receivers;
    double sum = 0.0;

    /* There are no data at step 0. */
    for (size_t i = receivers; i < shot->survey->steps * receivers; i++) {
        const double r = (double)shot->synthetic[i] - (double)shot->observed[i];
        sum += r * r;
    }
    return 0.5 * sum;
}

void gradient_collect(const grid_t *g, const float *v, const real *sum, double *out)
{
    const size_t cells = g->n1 * g->n2 * g->n3;

    for (size_t cell = 0; cell < cells; cell++)
        out[cell] = 0.0;
    for (size_t line = 0; line < g->e2 * g->e3; line++) {
        const size_t i2 = grid_nearest(line % g->e2, g->o2, g->n2), i3 = grid_nearest(line / g->e2, g->o3, g->n3);
        double *column = out + g->n1 * (i2 + g->n2 * i3);
        for (size_t i1 = 0; i1 < g->e1; i1++)
            column[grid_nearest(i1, g->o1, g->n1)] += sum[line * g->e1 + i1];
    }
    for (size_t cell = 0; cell < cells; cell++)
        out[cell] *= (double)v[cell] * v[cell];
}
