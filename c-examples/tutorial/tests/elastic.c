/*
 * The gradient of c-examples/elastic2d is the derivative of the misfit: in FP64 it equals the central
 * difference along a smooth direction, for lambda and for mu.
 */
#define REAL double
#include "../../elastic2d/elastic.h"

/* Adds `scale` times the direction to `medium`: 0 is lambda, 1 is mu. */
static void move(int medium, double scale)
{
    real *array = medium ? mu : lambda;
    for (int i = 1; i <= nx; i++)
        for (int j = 1; j < NZ - 1; j++) array[i * NZ + j] += scale * 3e-6 * sin(0.05 * i) * cos(0.08 * j) * mu[NZ + 1];
}

static double run(int with_gradient)
{
    state_t u = new_state(), adjoint = new_state();
    state_t *all = malloc(STEPS * sizeof(state_t));
    double half = 0;
    recorded = 0;
    misfit = 0;
    for (int ts = 0; ts < STEPS; ts++) {
        all[ts] = with_gradient ? new_state() : u;
        for (int k = 0; k < FIELDS && with_gradient; k++) memcpy(all[ts].f[k], u.f[k], values() * sizeof(real));
        step(&u, &u, ts);
    }
    for (int ts = STEPS - 1; ts >= 0 && with_gradient; ts--) {
        adjoint_step(&all[ts], &adjoint, ts);
        for (int k = 0; k < FIELDS; k++) free(all[ts].f[k]);
    }
    for (int ts = 0; ts < STEPS; ts++)
        for (int i = 1; i <= nx; i++) {
            double residual = computed[ts * (nx + 2) + i] - observed[ts * (nx + 2) + i];
            half += 0.5 * residual * residual;
        }
    for (int k = 0; k < FIELDS; k++) free(u.f[k]), free(adjoint.f[k]);
    free(all);
    if (with_gradient && fabs(misfit / half - 1) > 1e-12) exit((printf("misfit %g is not %g\n", misfit, half), 1));
    return half;
}

int main(void)
{
    begin();
    run(1);
    for (int medium = 0; medium < 2; medium++) {
        double slope = 0, difference;
        real *at = zeros(values()), *array = medium ? mu : lambda;
        memcpy(at, array, values() * sizeof(real));
        move(medium, 1);
        for (size_t c = 0; c < values(); c++) slope += gradient[medium][c] * (array[c] - at[c]);
        difference = run(0);
        memcpy(array, at, values() * sizeof(real));
        move(medium, -1);
        difference = (difference - run(0)) / 2;
        memcpy(array, at, values() * sizeof(real));
        if (fabs(difference / slope - 1) > 1e-6) return printf("medium %d: %.12g is not %.12g\n", medium, difference, slope), 1;
        free(at);
    }
    puts("ok");
    return 0;
}
