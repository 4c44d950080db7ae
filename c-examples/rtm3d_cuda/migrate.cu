#include "migrate.h"

#include "stats.h"

/* Device memory in bytes that is left to the driver and to other programs. */
#define SPARE ((size_t)512 << 20)

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
            gpu_shot_backward(shot, (size_t)action.ts, shot->u.curr, image);
            break;
        case GPUZIP_ACTION_TERMINATE:
            return 0;
        default:
            return complain("gpuzip_get_action: %s", gpuzip_last_error());
        }
    }
}

int gpu_migrate(checkpoint_t *c, gpu_shot_t *shot, image_t *image)
{
    gpuzip_stats_t stats = {};

    stats.struct_size = sizeof stats;
    if (checkpoint_failed(gpuzip_setup(c->session)) || sweep(c->session, shot, image) != 0)
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
    for (size_t ts = r->steps; ts-- > 0;)
        gpu_shot_backward(shot, ts, r->states[ts], image);
    CUDA(cudaStreamSynchronize(shot->stream));
}
