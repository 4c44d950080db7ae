#include "session.h"

#include <string.h>

#include "message.h"
#include "stats.h"

/*
 * Each field has its own shape. Only u has a previous time level: prev is declared as the
 * previous level of curr, so a lossy codec also bounds the error of their difference. Memory
 * variables are independent fields.
 */
uint32_t session_fields(const cpml_t *m, const state_t *x, gpuzip_field_t fields[MAX_FIELDS])
{
    const size_t extents[AXES] = {m->grid.e1, m->grid.e2, m->grid.e3};
    uint32_t count = 0;

    memset(fields, 0, MAX_FIELDS * sizeof *fields);
#define ADD(array, shape, role_)                                            \
    fields[count++] = (gpuzip_field_t){.data = x == NULL ? NULL : (array),  \
                                       .n1 = (shape)[0], .n2 = (shape)[1], .n3 = (shape)[2], \
                                       .type = sizeof(real) == sizeof(double), .role = (role_)}
    ADD(x->curr, extents, 0);
    ADD(x->prev, extents, 1);  /* previous level of field 0 */
    for (int axis = 0; axis < m->dims; axis++) {
        ADD(x->psi[axis], m->psi[axis].n, 0);
        ADD(x->zeta[axis], m->zeta[axis].n, 0);
    }
#undef ADD
    return count;
}

/* Makes a session for runs of `sweeps` reverse sweeps over the states of a shot. */
static gpuzip_status_t start(checkpoint_t *c, gpuzip_config_t *cfg, const inversion_t *inv, size_t sweeps)
{
    gpuzip_field_t fields[MAX_FIELDS];
    const uint32_t count = session_fields(inv->medium, NULL, fields);
    gpuzip_status_t status;

    cfg->range_actions = 0;  /* the loop below takes one step per action */
    cfg->adjoint_every = 0;  /* and the gradient needs every state */
    cfg->sweeps = (int32_t)sweeps;
    if (cfg->backend == 0)
        cfg->backend = 1;  /* this code computes on the host; its fields are not allocated yet */
    checkpoint_remember(c, cfg);
    c->plan.struct_size = sizeof c->plan;
    if ((status = gpuzip_init(cfg, (int32_t)inv->survey->steps, fields, count, &c->session)) < 0)
        return status;
    return gpuzip_summary(c->session, &c->plan);
}

/* A shot with a session of its own, for the key quality. */
typedef struct measured_t {
    inversion_t *inv;
    const cpml_t *truth;
    size_t observed;  /* 1 + number of the shot whose data are there */
} measured_t;

static int gradient_measured(void *all, const gpuzip_config_t *cfg, size_t shot, gpuzip_field_t *result)
{
    measured_t *m = all;
    inversion_t *inv = m->inv;
    const grid_t *g = &inv->medium->grid;
    gpuzip_config_t own = *cfg;
    checkpoint_t c = {.session = NULL};
    int status = -1;

    if (m->observed != shot + 1)
        inversion_observe(inv, m->truth, shot);
    m->observed = shot + 1;
    inversion_clear(inv);
    if (!checkpoint_failed(start(&c, &own, inv, inversion_sweeps(inv))))
        status = session_gradient(&c, inv, NULL);
    checkpoint_close(&c);
    *result = (gpuzip_field_t){.data = inv->gradient, .n1 = g->points, .n2 = 1, .n3 = 1, .type = sizeof(real) == sizeof(double)};
    return status;
}

int session_open(checkpoint_t *c, checkpoint_t *single, asked_t *asked, const char *config, inversion_t *inv, const cpml_t *truth)
{
    measured_t measured = {.inv = inv, .truth = truth};
    gpuzip_config_t loaded, cfg;
    int failed;

    memset(c, 0, sizeof *c);
    if (checkpoint_failed(gpuzip_config_init(&loaded)) || checkpoint_failed(gpuzip_config_load(config, &loaded)))
        return -1;
    cfg = loaded;
    failed = asked_choose(asked, &cfg, inv->survey->shots, gradient_measured, &measured) != 0 ||
             checkpoint_failed(start(c, &cfg, inv, inversion_sweeps(inv))) ||
             (single != NULL && checkpoint_failed(start(single, &cfg, inv, 1)));
    inversion_clear(inv);
    gpuzip_config_free(&loaded);
    return failed ? -1 : 0;
}

/* Retrieves a snapshot. A lossy snapshot may have other values than zero in the halo. */
static int restore(gpuzip_t *session, inversion_t *inv, size_t ts, kept_t *k)
{
    wavefield_t u = {.curr = inv->u.curr, .prev = inv->u.prev};
    gpuzip_field_t fields[MAX_FIELDS];
    const uint32_t count = session_fields(inv->medium, &inv->u, fields);

    if (checkpoint_failed(gpuzip_retrieve(session, (int32_t)ts, fields, count, NULL)))
        return -1;
    wavefield_clear_halo(&u, &inv->medium->grid);
    if (k != NULL)
        kept_compare(k, inv->medium, ts, &inv->u);
    return 0;
}

static int save(gpuzip_t *session, const inversion_t *inv, size_t ts, kept_t *k)
{
    gpuzip_field_t fields[MAX_FIELDS];
    /* curr and prev change places at every step. */
    const uint32_t count = session_fields(inv->medium, &inv->u, fields);

    if (checkpoint_failed(gpuzip_save(session, (int32_t)ts, fields, count, NULL)))
        return -1;
    if (k != NULL)
        kept_save(k, inv->medium, ts, &inv->u);
    return 0;
}

/* The checkpointing loop: does what each action says, until TERMINATE. */
static int sweep(gpuzip_t *session, inversion_t *inv, kept_t *k)
{
    gpuzip_action_t action;

    for (;;) {
        if (checkpoint_failed(gpuzip_get_action(session, &action)))
            return -1;
        switch (action.type) {
        case GPUZIP_ACTION_FORWARD:
            inversion_forward(inv, (size_t)action.ts, !(action.flags & GPUZIP_FLAG_RECOMPUTE));
            break;
        case GPUZIP_ACTION_SAVE:
            if (save(session, inv, (size_t)action.ts, k) != 0)
                return -1;
            break;
        case GPUZIP_ACTION_RESTORE:
            if (restore(session, inv, (size_t)action.ts, k) != 0)
                return -1;
            break;
        case GPUZIP_ACTION_BACKWARD:
            inversion_backward(inv, (size_t)action.ts);
            break;
        case GPUZIP_ACTION_TERMINATE:
            return 0;
        default:
            return complain("gpuzip_get_action: %s", gpuzip_last_error());
        }
    }
}

/* Plays a run: the forward sweep, and all reverse sweeps over its states. A further sweep begins
 * with a RESTORE, so it needs nothing of the sweep before. */
static int sweeps(gpuzip_t *session, inversion_t *inv, kept_t *k)
{
    for (inversion_begin(inv);; inversion_rewind(inv)) {
        if (sweep(session, inv, k) != 0)
            return -1;
        if (inv->sweep == inv->tangents)
            return 0;
        if (checkpoint_failed(gpuzip_rewind(session)))
            return -1;
    }
}

int session_gradient(checkpoint_t *c, inversion_t *inv, kept_t *k)
{
    gpuzip_stats_t stats = {.struct_size = sizeof stats};  /* of this shot */

    if (checkpoint_failed(gpuzip_setup(c->session)) || sweeps(c->session, inv, k) != 0 ||
        checkpoint_failed(gpuzip_stats(c->session, &stats)))
        return -1;
    stats_add(&c->total, &stats);
    return 0;
}
