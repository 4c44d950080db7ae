#include "checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "handed.h"
#include "message.h"
#include "stats.h"

/* Most fields of what is saved: the strips of a 3-D grid. */
enum { MOST_FIELDS = 6 };

/* The library never exits or prints: a call returns a status, and gpuzip_last_error the reason. */
int checkpoint_failed(gpuzip_status_t status)
{
    if (status > 0)
        warn("%s", gpuzip_status_string(status));
    if (status < 0)
        complain("%s: %s", gpuzip_status_string(status), gpuzip_last_error());
    return status < 0;
}

/*
 * The state of a second-order equation is two time levels, and field 1 is declared as the
 * previous level of field 0. A lossy codec then also bounds the error of their difference,
 * which acts as a velocity.
 */
void checkpoint_fields(const grid_t *g, const wavefield_t *u, gpuzip_field_t fields[2])
{
    memset(fields, 0, 2 * sizeof *fields);
    for (int i = 0; i < 2; i++) {
        fields[i].data = u == NULL ? NULL : i == 0 ? u->curr : u->prev;
        fields[i].n1 = g->e1;
        fields[i].n2 = g->e2;
        fields[i].n3 = g->e3;
        fields[i].type = sizeof(real) == sizeof(double);  /* 0 FP32, 1 FP64 */
        fields[i].role = i;                               /* 1: previous time level of field 0 */
    }
}

/* The strips of u->curr, in place: gpuzip copies them from the larger array and into it. */
static uint32_t strips(const grid_t *g, const wavefield_t *u, gpuzip_field_t fields[MOST_FIELDS])
{
    const uint32_t faces = 2 * (uint32_t)grid_dims(g);

    for (uint32_t face = 0; face < faces; face++) {
        size_t n[3];
        const size_t at = grid_strip(g, face, n);
        fields[face] = (gpuzip_field_t){.data = u == NULL ? NULL : u->curr + at, .n1 = n[0], .n2 = n[1], .n3 = n[2],
                                        .type = sizeof(real) == sizeof(double), .pitch2 = g->e1, .pitch3 = g->e1 * g->e2};
    }
    return faces;
}

/* What is saved of a state. Returns the number of fields. */
static uint32_t state(const checkpoint_t *c, const grid_t *g, const wavefield_t *u, gpuzip_field_t fields[MOST_FIELDS])
{
    if (c->reconstruct)
        return strips(g, u, fields);
    checkpoint_fields(g, u, fields);
    return 2;
}

size_t checkpoint_state(const checkpoint_t *c, const grid_t *g, unsigned *fields)
{
    gpuzip_field_t field[MOST_FIELDS];
    size_t values = 0;

    *fields = state(c, g, NULL, field);
    for (unsigned i = 0; i < *fields; i++)
        values += field[i].n1 * field[i].n2 * field[i].n3;
    return values * sizeof(real);
}

/* Every state has strips, which come back in reverse order, once each. */
static void keep_all(gpuzip_config_t *cfg)
{
    const int32_t algorithm = cfg->checkpointing_algorithm;

    if (algorithm != GPUZIP_ALGORITHM_AUTO && algorithm != GPUZIP_ALGORITHM_STORE_ALL)
        warn("--reconstruct: keeps strips of every state, so that checkpointing_algorithm = %s does not count", gpuzip_algorithm_name(algorithm));
    if (cfg->zero_copy)
        warn("--reconstruct: strips are parts of a field, so that zero_copy = 1 does not count");
    cfg->checkpointing_algorithm = GPUZIP_ALGORITHM_STORE_ALL;
    cfg->checkpointing_snaps = 0;
    cfg->zero_copy = 0;
}

static void apply(const setting_t *s, gpuzip_config_t *cfg, gpuzip_field_t *fields)
{
    cfg->compressor = s->compressor;
    if (s->has_rate)
        cfg->zfp_bit_rate = s->zfp_bit_rate;
    if (s->has_bound) {
        cfg->error_bound_mode = s->error_bound_mode;
        cfg->error_bound = s->error_bound;
    }
    if (s->unpaired)
        fields[1].role = 0;  /* a session uses the roles given at init */
}

void checkpoint_remember(checkpoint_t *c, const gpuzip_config_t *cfg)
{
    c->zero_copy = cfg->zero_copy;
    c->policy = cfg->policy;
    c->shared_levels = cfg->shared_levels;
    c->zfp_bit_rate = cfg->zfp_bit_rate;
    c->error_bound_mode = cfg->error_bound_mode;
    c->error_bound = cfg->error_bound;
}

gpuzip_status_t checkpoint_configure(checkpoint_t *c, const gpuzip_config_t *config, int reconstruct,
                                     const setting_t *setting, const grid_t *g, size_t steps, size_t every, const wavefield_t *u)
{
    gpuzip_config_t cfg = *config;
    gpuzip_field_t fields[MOST_FIELDS];
    gpuzip_status_t status;
    uint32_t count;

    memset(c, 0, sizeof *c);
    c->reconstruct = reconstruct;
    if (reconstruct) {
        keep_all(&cfg);
        c->more_steps = (double)steps - 2.0;
    }
    cfg.range_actions = cfg.zero_copy;  /* sweep() takes one step per action, sweep_in_slots() a range */
    if (cfg.zero_copy && u == NULL && cfg.backend == 0)
        cfg.backend = 1;  /* the host: memory is handed out before the program shows any of its own */
    cfg.adjoint_every = (int32_t)every;  /* the rest of the program counts on this number */
    count = state(c, g, u, fields);
    if (setting != NULL)
        apply(setting, &cfg, fields);
    checkpoint_remember(c, &cfg);
    if ((status = gpuzip_init(&cfg, (int32_t)steps, fields, count, &c->session)) < 0)
        return status;
    c->plan.struct_size = sizeof c->plan;
    return gpuzip_summary(c->session, &c->plan);
}

gpuzip_status_t checkpoint_start(checkpoint_t *c, const char *config, int zero_copy, int reconstruct, const setting_t *setting,
                                 const grid_t *g, size_t steps, size_t every, const wavefield_t *u)
{
    gpuzip_config_t cfg;
    gpuzip_status_t status;

    memset(c, 0, sizeof *c);
    if ((status = gpuzip_config_init(&cfg)) < 0 || (status = gpuzip_config_load(config, &cfg)) < 0)
        return status;
    cfg.zero_copy |= zero_copy;
    status = checkpoint_configure(c, &cfg, reconstruct, setting, g, steps, every, u);
    gpuzip_config_free(&cfg);
    return status;
}

int checkpoint_open(checkpoint_t *c, const char *config, int zero_copy, const grid_t *g, size_t steps, size_t every,
                    const wavefield_t *u)
{
    return checkpoint_failed(checkpoint_start(c, config, zero_copy, 0, NULL, g, steps, every, u)) ? -1 : 0;
}

/* A BACKWARD action: the adjoint of its steps, and the image at the first of them. */
static void backward(shot_t *shot, const gpuzip_action_t *action, image_t *image)
{
    if (action->flags & GPUZIP_FLAG_FIRST_BACKWARD)
        shot_record_rest(shot, (size_t)action->ts);
    shot_backward(shot, (size_t)action->ts, (size_t)action->ts_end, shot->u.curr, image);
}

/* What a run that can be stopped does between two actions. Returns RESTART_*. */
static int after_action(const checkpoint_t *c)
{
    if (c->is_stopped != NULL && c->is_stopped())
        return RESTART_STOPPED;
    return c->restart != NULL ? restart_within(c->restart) : RESTART_GO_ON;
}

/* The checkpointing loop: does what each action says, until TERMINATE. */
static int sweep(const checkpoint_t *c, shot_t *shot, image_t *image)
{
    gpuzip_t *const session = c->session;
    const grid_t *g = &shot->medium->grid;
    gpuzip_field_t fields[MOST_FIELDS];
    gpuzip_action_t action;
    uint32_t count;
    int status;

    for (;;) {
        if (checkpoint_failed(gpuzip_get_action(session, &action)))
            return -1;
        if (c->reconstruct && action.type == GPUZIP_ACTION_RESTORE)
            shot_reverse(shot, (size_t)action.ts);  /* u(ts) but for its strips, which are then retrieved */
        count = state(c, g, &shot->u, fields);  /* curr and prev change places at every step */
        switch (action.type) {
        case GPUZIP_ACTION_FORWARD:
            if (c->reconstruct && (action.flags & GPUZIP_FLAG_RECOMPUTE))
                return complain("--reconstruct: no step can start from strips, as the key check needs it; leave the key out");
            shot_forward(shot, (size_t)action.ts, !(action.flags & GPUZIP_FLAG_RECOMPUTE));
            break;
        case GPUZIP_ACTION_SAVE:
            if (checkpoint_failed(gpuzip_save(session, action.ts, fields, count, NULL)))
                return -1;
            break;
        case GPUZIP_ACTION_RESTORE:
            if (checkpoint_failed(gpuzip_retrieve(session, action.ts, fields, count, NULL)))
                return -1;
            if (!c->reconstruct)
                wavefield_clear_halo(&shot->u, g);  /* a lossy snapshot may not have zeros there */
            break;
        case GPUZIP_ACTION_BACKWARD:
            backward(shot, &action, image);
            break;
        case GPUZIP_ACTION_TERMINATE:
            return 0;
        default:
            return complain("gpuzip_get_action: %s", gpuzip_last_error());
        }
        if ((status = after_action(c)) != RESTART_GO_ON)
            return status;
    }
}

/* The steps of a FORWARD action with zero copy. */
static int forward_in_slots(handed_t *h, shot_t *shot, const gpuzip_action_t *action)
{
    const grid_t *g = &shot->medium->grid;

    for (int32_t ts = action->ts; ts <= action->ts_end; ts++) {
        if (handed_is_due(action, ts)) {
            if (checkpoint_failed(handed_slot(h, action->ts_end)))
                return -1;
            /* The halo of a shared level is that of the state before. */
            wavefield_t own = h->slot;
            if (action->flags & GPUZIP_FLAG_SHARED_LEVEL)
                own.prev = own.curr;
            wavefield_clear_halo(&own, g);
        }
        shot_forward_to(shot, (size_t)ts, !(action->flags & GPUZIP_FLAG_RECOMPUTE), handed_target(h, action, ts, &shot->u));
        if (handed_is_half(action, ts)) {
            if (!(action->flags & GPUZIP_FLAG_SHARED_LEVEL))
                field_copy(g, h->slot.prev, shot->u.prev);
            shot->u.prev = h->slot.prev;
        }
        if (checkpoint_failed(handed_give_back(h, &shot->u)))
            return -1;
    }
    return 0;
}

/* Saves the live state. A state that no step has computed in the slot is copied: u(0). */
static int save_in_slot(handed_t *h, shot_t *shot, int32_t ts)
{
    const grid_t *g = &shot->medium->grid;

    if (h->slot.curr == NULL) {
        if (checkpoint_failed(handed_slot(h, ts)))
            return -1;
        field_copy(g, h->slot.curr, shot->u.curr);
        field_copy(g, h->slot.prev, shot->u.prev);
        shot->u = h->slot;
    }
    return checkpoint_failed(handed_commit(h, ts)) ? -1 : 0;
}

/* The checkpointing loop with zero copy. */
static int sweep_in_slots(const checkpoint_t *c, handed_t *h, shot_t *shot, image_t *image)
{
    const int is_lossy = checkpoint_is_lossy(c);
    gpuzip_action_t action;
    int status;

    for (;;) {
        if (checkpoint_failed(gpuzip_get_action(h->session, &action)))
            return -1;
        switch (action.type) {
        case GPUZIP_ACTION_FORWARD:
            if (forward_in_slots(h, shot, &action) != 0)
                return -1;
            break;
        case GPUZIP_ACTION_SAVE:
            if (save_in_slot(h, shot, action.ts) != 0)
                return -1;
            break;
        case GPUZIP_ACTION_RESTORE:
            if (checkpoint_failed(handed_acquire(h, action.ts, &shot->u)))
                return -1;
            if (is_lossy)  /* a decoded copy, to which the program may write */
                wavefield_clear_halo(&shot->u, &shot->medium->grid);
            break;
        case GPUZIP_ACTION_BACKWARD:
            backward(shot, &action, image);
            if (checkpoint_failed(handed_give_back(h, NULL)))
                return -1;
            break;
        case GPUZIP_ACTION_TERMINATE:
            return 0;
        default:
            return complain("gpuzip_get_action: %s", gpuzip_last_error());
        }
        if ((status = after_action(c)) != RESTART_GO_ON)
            return status;
    }
}

/* Migrates a shot with zero copy; the wavefield is in the program's own buffers again afterwards. */
static int migrate_in_slots(checkpoint_t *c, shot_t *shot, image_t *image)
{
    handed_t handed;
    int status;

    if (shot->exchange != NULL)
        return complain("zero_copy = 1 with --decompose: neighbours write into the wavefield, which may be a snapshot; use 0");
    handed_begin(&handed, c->session, &shot->u, NULL);
    status = sweep_in_slots(c, &handed, shot, image);
    shot->u = handed.own;
    return status;
}

int checkpoint_migrate(checkpoint_t *c, shot_t *shot, image_t *image)
{
    gpuzip_stats_t stats = {.struct_size = sizeof stats};  /* the statistics of this shot */
    int status;

    if (c->restart != NULL && c->restart->within)
        c->restart->within = 0;
    else if (checkpoint_failed(gpuzip_setup(c->session)))
        return -1;
    else
        shot_begin(shot);
    status = c->zero_copy ? migrate_in_slots(c, shot, image) : sweep(c, shot, image);
    if (status == 0 && checkpoint_failed(gpuzip_stats(c->session, &stats)))
        status = -1;
    if (status == 0)
        stats_add(&c->total, &stats);
    return status;
}

void checkpoint_close(checkpoint_t *c)
{
    if (c->session != NULL)
        gpuzip_finalize(c->session);
    c->session = NULL;
}

int checkpoint_is_lossy(const checkpoint_t *c)
{
    return c->plan.compressor != GPUZIP_COMPRESSOR_NONE;
}

/* With lossy snapshots, the image depends on the codec, on the schedule, and with mixed storage on the
 * number of slots for raw snapshots, which decides which snapshots are compressed. */
int checkpoint_describe(const checkpoint_t *c, description_t *d)
{
    const gpuzip_summary_t *p = &c->plan;
    uint64_t schedule = 0;

    description_add(d, "codec %s\n", setting_codec(p->compressor));
    if (c->reconstruct)
        description_add(d, "--reconstruct\n");
    if (!checkpoint_is_lossy(c))
        return 0;
    if (checkpoint_failed(gpuzip_fingerprint(c->session, &schedule)))
        return -1;
    description_add(d, "error_bound_mode %d\nerror_bound %.17g\nzfp_bit_rate %d\n", (int)c->error_bound_mode, c->error_bound, (int)c->zfp_bit_rate);
    description_add(d, "raw_slots %d (mixed_storage, device_budget)\n", (int)p->raw_slots);
    description_add(d, "algorithm %s\nsnapshots %d\ncache %d\nchunk %d\n", gpuzip_algorithm_name(p->algorithm), (int)p->snapshots, (int)p->cache, (int)p->chunk);
    description_add(d, "schedule %016" PRIx64 "\n", schedule);
    description_add(d, "libgpuzip %s\n", gpuzip_version());
    return 0;
}

void checkpoint_codec(const checkpoint_t *c, char *text, size_t size)
{
    const char *const name = setting_codec(c->plan.compressor);
    const double bound = c->error_bound;
    const double relative = bound > 0.0 ? bound : 1e-3;  /* the library's default */

    if (c->plan.compressor == GPUZIP_COMPRESSOR_ZFP)
        snprintf(text, size, "%s, %d bits per value", name, (int)(c->zfp_bit_rate > 0 ? c->zfp_bit_rate : 8));
    else if (c->plan.compressor == GPUZIP_COMPRESSOR_FP16 || c->plan.compressor == GPUZIP_COMPRESSOR_BFP)
        snprintf(text, size, "%s, of fixed size and without a bound", name);
    else if (c->plan.compressor == GPUZIP_COMPRESSOR_LOSSLESS)
        snprintf(text, size, "%s, every bit", name);
    else if (bound <= 0.0 && (c->plan.compressor == GPUZIP_COMPRESSOR_CUSZP || c->plan.compressor == GPUZIP_COMPRESSOR_BITCOMP))
        snprintf(text, size, "%s, with its own settings", name);
    else if (c->error_bound_mode == 3)
        snprintf(text, size, "%s, each snapshot's field at a PSNR of %g dB", name, bound);
    else if (c->error_bound_mode == 1)
        snprintf(text, size, "%s, each value of a snapshot within %g", name, bound);
    else
        snprintf(text, size, "%s, each value of a snapshot within %g of its field's %s", name, relative,
                 c->error_bound_mode == 2 ? "range" : "maximum");
}
