/*
 * stall: what checkpointing costs a GPU, for a list of configurations. The time loop is that of
 * rtm3d_cuda on a model of constant velocity, so that nothing has to be prepared:
 *
 *     stall EXTENT STEPS SNAPSHOTS ALGORITHM LIMIT CACHE:POLICY...
 *
 * One JSON object per configuration and line. EXTENT: cells of the padded cube along each axis; ALGORITHM:
 * a number, GPUZIP_ALGORITHM_*; CACHE: device slots, 0 being copies that the compute stream waits
 * for; POLICY: clairvoyant or lru. No configuration is begun after LIMIT seconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_bench.h"
#include "gpu_shot.h"
#include "stats.h"

/* The time loop's arrays, all in device memory. */
typedef struct loop_t {
    medium_t m;
    wavefield_t u, lambda;
    image_t sums, image;  /* the latter on the host */
    cudaStream_t stream;
    size_t source;
} loop_t;

typedef struct step_times_t {
    double forward, backward;
} step_times_t;

static void forward(loop_t *l)
{
    gpu_propagate(&l->m, &l->u, l->stream);
    gpu_inject(&l->m, l->u.curr, l->source, 1.0f, l->stream);
}

static void backward(loop_t *l)
{
    gpu_propagate(&l->m, &l->lambda, l->stream);
    gpu_inject(&l->m, l->lambda.curr, l->source, 1.0f, l->stream);
    gpu_correlate(&l->m.grid, l->u.curr, l->lambda.curr, &l->sums, l->stream);
}

static void loop_open(loop_t *l, const grid_t *g)
{
    l->m = gpu_plain_medium(g);
    l->u = gpu_wavefield_open(g);
    l->lambda = gpu_wavefield_open(g);
    l->sums = gpu_image_open(g);
    l->source = grid_index(g, g->n1 / 2, g->n2 / 2, g->n3 / 2);
    if (image_init(&l->image, g) != 0) {
        complain("no memory for an image");
        exit(1);
    }
    CUDA(cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking));
}

static void loop_close(loop_t *l)
{
    CUDA(cudaStreamDestroy(l->stream));
    image_free(&l->image);
    gpu_image_close(&l->sums);
    gpu_wavefield_close(&l->lambda);
    gpu_wavefield_close(&l->u);
    gpu_medium_close(&l->m);
}

/* Every sweep begins from the same noise. */
static void loop_begin(loop_t *l)
{
    gpu_noise(&l->m.grid, &l->u);
    gpu_noise(&l->m.grid, &l->lambda);
    gpu_image_clear(&l->sums, l->stream);
    CUDA(cudaDeviceSynchronize());
}

static step_times_t time_steps(loop_t *l)
{
    const int steps = 10, repeats = 11;
    step_times_t t;

    loop_begin(l);
    t.forward = cuda_seconds(l->stream, repeats, [&](cudaStream_t) {
        for (int i = 0; i < steps; i++)
            forward(l);
    }) / steps;
    t.backward = cuda_seconds(l->stream, repeats, [&](cudaStream_t) {
        for (int i = 0; i < steps; i++)
            backward(l);
    }) / steps;
    return t;
}

static int sweep(gpuzip_t *session, loop_t *l)
{
    gpuzip_field_t fields[2];
    gpuzip_action_t action;

    do {
        if (checkpoint_failed(gpuzip_get_action(session, &action)))
            return -1;
        checkpoint_fields(&l->m.grid, &l->u, fields);
        if (action.type == GPUZIP_ACTION_FORWARD)
            forward(l);
        else if (action.type == GPUZIP_ACTION_BACKWARD)
            backward(l);
        else if (action.type == GPUZIP_ACTION_SAVE &&
                 checkpoint_failed(gpuzip_save(session, action.ts, fields, 2, l->stream)))
            return -1;
        else if (action.type == GPUZIP_ACTION_RESTORE &&
                 checkpoint_failed(gpuzip_retrieve(session, action.ts, fields, 2, l->stream)))
            return -1;
        else if (action.type == GPUZIP_ACTION_ERROR)
            return complain("gpuzip_get_action: %s", gpuzip_last_error());
    } while (action.type != GPUZIP_ACTION_TERMINATE);
    return 0;
}

static void print(const loop_t *l, const gpuzip_summary_t *plan, const gpuzip_stats_t *s, step_times_t t, double took,
                  double enqueued)
{
    const double ideal = (double)s->forward_steps * t.forward + (double)s->backward_steps * t.backward;

    printf("{\"device\": \"%s\", \"extent\": %zu, \"steps\": %d, \"algorithm\": \"%s\", \"snapshots\": %d, "
           "\"cache\": %d, \"policy\": \"%s\", \"slot_bytes\": %llu", cuda_device_name(), l->m.grid.e1, (int)plan->steps,
           gpuzip_algorithm_name(plan->algorithm), (int)plan->snapshots, (int)plan->cache,
           plan->policy == GPUZIP_POLICY_LRU ? "lru" : "clairvoyant", (unsigned long long)plan->slot_bytes);
    printf(", \"seconds\": %.6f, \"enqueue_seconds\": %.6f, \"forward_step_seconds\": %.9f, "
           "\"backward_step_seconds\": %.9f, \"ideal_of_plan\": %.6f, \"ideal_of_problem\": %.6f", took, enqueued,
           t.forward, t.backward, ideal, plan->steps * (t.forward + t.backward));
#define COUNT(name) printf(", \"" #name "\": %llu", (unsigned long long)s->name);
#define SECONDS(name) printf(", \"" #name "\": %.6f", s->name);
    STATS_COUNTS(COUNT)
    STATS_PEAKS(COUNT)
    STATS_SECONDS(SECONDS)
    printf(", \"image_hash\": \"%016llx\"}\n",
           (unsigned long long)image_hash(l->image.correlation, l->image.cells));
    fflush(stdout);
}

/* One configuration: "4:lru". */
static int measure(loop_t *l, gpuzip_config_t *config, int steps, const char *cache, step_times_t t)
{
    gpuzip_field_t fields[2];
    gpuzip_summary_t plan = {};
    gpuzip_stats_t stats = {};
    gpuzip_t *session;
    double start, enqueued, took;
    int status = -1;

    plan.struct_size = sizeof plan;
    stats.struct_size = sizeof stats;
    config->cache_capacity = atoi(cache);
    config->policy = strstr(cache, ":lru") != NULL ? GPUZIP_POLICY_LRU : GPUZIP_POLICY_CLAIRVOYANT;
    checkpoint_fields(&l->m.grid, &l->u, fields);
    if (checkpoint_failed(gpuzip_init(config, steps, fields, 2, &session)))
        return -1;
    loop_begin(l);
    start = seconds();
    if (sweep(session, l) == 0) {
        enqueued = seconds() - start;
        CUDA(cudaStreamSynchronize(l->stream));
        took = seconds() - start;
        gpu_image_fetch(&l->sums, &l->image, l->stream);
        if (!checkpoint_failed(gpuzip_summary(session, &plan)) && !checkpoint_failed(gpuzip_stats(session, &stats))) {
            print(l, &plan, &stats, t, took, enqueued);
            status = 0;
        }
    }
    return checkpoint_failed(gpuzip_finalize(session)) ? -1 : status;
}

int main(int argc, char **argv)
{
    const size_t border = 16, halo = 2 * (border + HALO);
    const double start = seconds();
    gpuzip_config_t config;
    grid_t g;
    loop_t l;
    int status = 0;

    if (argc < 7 || atoi(argv[1]) < (int)halo + 8 || atoi(argv[2]) < 2)
        return complain("usage: stall EXTENT STEPS SNAPSHOTS ALGORITHM LIMIT CACHE:POLICY..., EXTENT from %zu", halo + 8), 2;
    const size_t cells = (size_t)atoi(argv[1]) - halo;
    if (checkpoint_failed(gpuzip_config_init(&config)) || grid_init(&g, cells, cells, cells, border, 10.0) != 0)
        return complain("EXTENT %s: more points than memory can address", argv[1]), 2;
    config.checkpointing_snaps = atoi(argv[3]);
    config.checkpointing_algorithm = atoi(argv[4]);
    loop_open(&l, &g);
    const step_times_t t = time_steps(&l);
    for (int i = 6; i < argc && seconds() - start < atof(argv[5]); i++)
        status |= measure(&l, &config, atoi(argv[2]), argv[i], t);
    loop_close(&l);
    return status == 0 ? 0 : 1;
}
