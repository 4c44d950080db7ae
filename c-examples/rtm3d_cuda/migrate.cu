#include "migrate.h"

#include "stats.h"

/* Device memory in bytes that is left to the driver and to other programs. */
#define SPARE ((size_t)512 << 20)

/* The adjoint steps of a BACKWARD action. */
static void backward(gpu_shot_t *shot, const gpuzip_action_t *action, image_t *image)
{
    if (action->flags & GPUZIP_FLAG_FIRST_BACKWARD)
        gpu_shot_record_rest(shot, (size_t)action->ts);
    gpu_shot_backward(shot, (size_t)action->ts, (size_t)action->ts_end, shot->u.curr, image);
}

/*
 * The checkpointing loop: does what each action says, until TERMINATE. Kernels, saves and
 * retrieves are enqueued on one stream, which alone orders them: the host runs ahead.
 */
static int sweep(gpuzip_t *session, gpu_shot_t *shot, image_t *image)
{
    const grid_t *g = &shot->smooth.grid;
    gpuzip_field_t fields[2];
    gpuzip_action_t action;

    gpu_shot_begin(shot);
    for (;;) {
        if (checkpoint_failed(gpuzip_get_action(session, &action)))
            return -1;
        checkpoint_fields(g, &shot->u, fields);  /* curr and prev change places at every step */
        switch (action.type) {
        case GPUZIP_ACTION_FORWARD:
            gpu_shot_forward(shot, (size_t)action.ts, !(action.flags & GPUZIP_FLAG_RECOMPUTE));
            break;
        case GPUZIP_ACTION_SAVE:
            if (checkpoint_failed(gpuzip_save(session, action.ts, fields, 2, shot->stream)))
                return -1;
            break;
        case GPUZIP_ACTION_RESTORE:
            if (checkpoint_failed(gpuzip_retrieve(session, action.ts, fields, 2, shot->stream)))
                return -1;
            /* A lossy snapshot may not have zeros in the halo. */
            gpu_clear_halo(g, &shot->u, shot->stream);
            break;
        case GPUZIP_ACTION_BACKWARD:
            backward(shot, &action, image);
            break;
        case GPUZIP_ACTION_TERMINATE:
            return 0;
        default:
            return complain("gpuzip_get_action: %s", gpuzip_last_error());
        }
    }
}

/* Copies a time level on the shot's stream. */
static void copy(gpu_shot_t *shot, float *to, const float *from)
{
    const size_t bytes = shot->smooth.grid.points * sizeof(float);
    CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, shot->stream));
}

/* The steps of a FORWARD action with zero copy. */
static int forward_in_slots(handed_t *h, gpu_shot_t *shot, const gpuzip_action_t *action)
{
    for (int32_t ts = action->ts; ts <= action->ts_end; ts++) {
        if (handed_is_due(action, ts)) {
            if (checkpoint_failed(handed_slot(h, action->ts_end)))
                return -1;
            gpu_clear_halo(&shot->smooth.grid, &h->slot, shot->stream);
        }
        float *const next = handed_target(h, action, ts, &shot->u);
        gpu_shot_forward_to(shot, (size_t)ts, !(action->flags & GPUZIP_FLAG_RECOMPUTE), next);
        if (handed_is_half(action, ts)) {
            copy(shot, h->slot.prev, shot->u.prev);
            shot->u.prev = h->slot.prev;
        }
        if (checkpoint_failed(handed_give_back(h, &shot->u)))
            return -1;
    }
    return 0;
}

/* Saves the live state. A state that no step has computed in the slot is copied: u(0). */
static int save_in_slot(handed_t *h, gpu_shot_t *shot, int32_t ts)
{
    if (h->slot.curr == NULL) {
        if (checkpoint_failed(handed_slot(h, ts)))
            return -1;
        copy(shot, h->slot.curr, shot->u.curr);
        copy(shot, h->slot.prev, shot->u.prev);
        shot->u = h->slot;
    }
    return checkpoint_failed(handed_commit(h, ts)) ? -1 : 0;
}

/* The checkpointing loop with zero copy. */
static int sweep_in_slots(handed_t *h, gpu_shot_t *shot, image_t *image, int is_lossy)
{
    gpuzip_action_t action;

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
                gpu_clear_halo(&shot->smooth.grid, &shot->u, shot->stream);
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
    }
}

/* Migrates a shot with zero copy; the wavefield is in the program's own buffers again afterwards. */
static int migrate_in_slots(checkpoint_t *c, gpu_shot_t *shot, image_t *image)
{
    handed_t handed;

    gpu_shot_begin(shot);
    handed_begin(&handed, c->session, &shot->u, shot->stream);
    const int status = sweep_in_slots(&handed, shot, image, checkpoint_is_lossy(c));
    shot->u = handed.own;
    return status;
}

int gpu_migrate(checkpoint_t *c, gpu_shot_t *shot, image_t *image)
{
    gpuzip_stats_t stats = {};

    stats.struct_size = sizeof stats;
    if (checkpoint_failed(gpuzip_setup(c->session)) ||
        (c->zero_copy ? migrate_in_slots(c, shot, image) : sweep(c->session, shot, image)) != 0)
        return -1;
    CUDA(cudaStreamSynchronize(shot->stream));
    if (checkpoint_failed(gpuzip_stats(c->session, &stats)))
        return -1;
    stats_add(&c->total, &stats);
    return 0;
}

void gpu_reference_open(gpu_reference_t *r, const grid_t *g, size_t steps)
{
    const size_t bytes = g->points * sizeof(float);
    size_t available, all;

    CUDA(cudaMemGetInfo(&available, &all));
    r->steps = steps;
    r->on_device = std::min(steps, available > SPARE ? (available - SPARE) / bytes : 0);
    r->states = new float *[steps];
    for (size_t ts = 0; ts < r->on_device; ts++)
        CUDA(cudaMalloc(&r->states[ts], bytes));
    for (size_t ts = r->on_device; ts < steps; ts++)
        CUDA(cudaMallocHost(&r->states[ts], bytes));
}

void gpu_reference_close(gpu_reference_t *r)
{
    for (size_t ts = 0; r->states != NULL && ts < r->steps; ts++)
        CUDA(ts < r->on_device ? cudaFree(r->states[ts]) : cudaFreeHost(r->states[ts]));
    delete[] r->states;
    r->states = NULL;
}

/* A kernel reads page-locked host memory by its address like device memory, only slower. */
void gpu_reference_migrate(gpu_reference_t *r, gpu_shot_t *shot, image_t *image)
{
    const size_t bytes = shot->smooth.grid.points * sizeof(float);
    const auto keep = [&](size_t ts) {
        CUDA(cudaMemcpyAsync(r->states[ts], shot->u.curr, bytes, cudaMemcpyDefault, shot->stream));
    };

    gpu_shot_begin(shot);
    keep(0);
    for (size_t ts = 1; ts < r->steps; ts++) {
        gpu_shot_forward(shot, ts, 1);
        keep(ts);
    }
    for (size_t end = r->steps; end > 0;) {  /* the steps of one BACKWARD are ts to end - 1 */
        const size_t every = shot->survey->every, ts = (end - 1) / every * every;
        gpu_shot_backward(shot, ts, end - 1, r->states[ts], image);
        end = ts;
    }
    CUDA(cudaStreamSynchronize(shot->stream));
}
