#include "kept.h"

#include <math.h>
#include <stdlib.h>

#include "message.h"

int kept_open(kept_t *k, const cpml_t *m, size_t steps)
{
    int status = 0;

    *k = (kept_t){.steps = steps, .states = calloc(steps, sizeof *k->states)};
    for (size_t ts = 0; k->states != NULL && ts < steps && status == 0; ts++)
        status = state_init(&k->states[ts], m);
    if (k->states != NULL && status == 0)
        return 0;
    return complain("--verify: no memory to keep %zu states of %.1f MB; use fewer --steps or a smaller model, or leave it out", steps,
                    (double)state_bytes(m) / 1e6);
}

void kept_close(kept_t *k)
{
    for (size_t ts = 0; k->states != NULL && ts < k->steps; ts++)
        state_free(&k->states[ts]);
    free(k->states);
    k->states = NULL;
}

void kept_gradient(kept_t *k, inversion_t *inv)
{
    inversion_begin(inv);
    kept_save(k, inv->medium, 0, &inv->u);
    for (size_t ts = 1; ts < k->steps; ts++) {
        inversion_forward(inv, ts, 1);
        kept_save(k, inv->medium, ts, &inv->u);
    }
    for (size_t ts = k->steps; ts-- > 0;) {
        state_copy(inv->medium, &inv->u, &k->states[ts]);
        inversion_backward(inv, ts);
    }
}

void kept_save(kept_t *k, const cpml_t *m, size_t ts, const state_t *x)
{
    state_copy(m, &k->states[ts], x);
}

/* Returns the relative error of a field; if `got_past` and `exact_past` hold the previous time
 * level, the relative error of the difference field - previous time level, which a codec codes in
 * place of the previous time level. */
static double error(const real *got, const real *got_past, const real *exact, const real *exact_past, size_t count)
{
    double worst = 0.0, largest = 0.0;

    for (size_t i = 0; i < count; i++) {
        const double a = (double)exact[i] - (exact_past != NULL ? (double)exact_past[i] : 0.0);
        const double b = (double)got[i] - (got_past != NULL ? (double)got_past[i] : 0.0);
        worst = fmax(worst, fabs(b - a));
        largest = fmax(largest, fabs(a));
    }
    return worst == 0.0 ? 0.0 : worst / largest;
}

void kept_compare(kept_t *k, const cpml_t *m, size_t ts, const state_t *x)
{
    const state_t *exact = &k->states[ts];
    const size_t points = m->grid.points;

    k->error = fmax(k->error, error(x->curr, NULL, exact->curr, NULL, points));
    k->error = fmax(k->error, error(x->curr, x->prev, exact->curr, exact->prev, points));
    for (int axis = 0; axis < m->dims; axis++) {
        k->error = fmax(k->error, error(x->psi[axis], NULL, exact->psi[axis], NULL, m->psi[axis].count));
        k->error = fmax(k->error, error(x->zeta[axis], NULL, exact->zeta[axis], NULL, m->zeta[axis].count));
    }
}
