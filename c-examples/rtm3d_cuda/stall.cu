/*
 * stall: measures the cost of checkpointing on a GPU for a list of configurations. The time
 * loop is that of rtm3d_cuda on a model of constant velocity with a wavelet at regular
 * intervals, so that there is a wave at any time and nothing needs to be prepared:
 *
 *     stall EXTENT STEPS SNAPSHOTS ALGORITHM LIMIT CACHE:POLICY[:CODEC]...
 *
 * The program prints one JSON object on a line for each configuration. EXTENT: cells of the
 * padded cube along each axis. ALGORITHM: a number, GPUZIP_ALGORITHM_*. CACHE: slots of the
 * device cache, 0 for copies that the compute stream waits for; or, with a G behind it, the GB
 * of device memory that all slots and the codec take together. POLICY: clairvoyant or lru.
 * CODEC: as for rtm3d --sweep, dct:1e-3 or zfp:8. Images are compared with that of the first
 * configuration. No configuration begins after LIMIT seconds.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_bench.h"
#include "checkpoint.h"
#include "gpu_shot.h"
#include "image.h"
#include "quality.h"
#include "stats.h"

/* PERIOD: time steps in a period of the wavelet, which is ten cells long at the velocity of
 * gpu_plain_medium. PAUSE: time steps from one wavelet to the next. */
#define PERIOD 28
#define PAUSE 400

/* The time loop's arrays, all in device memory. */
typedef struct loop_t {
    medium_t m;
    wavefield_t u, lambda;
    image_t sums, image;  /* `image` is on the host */
    cudaStream_t stream;
    size_t source, receiver;
    /* On the cells of the model: images of the first configuration and of this one. */
    float *reference, *picture, *raw;
    int has_reference;
} loop_t;

typedef struct step_times_t {
    double forward, backward;
} step_times_t;

static float wavelet(int ts)
{
    return (float)ricker(ts % PAUSE, 1.0 / PERIOD);
}

static void forward(loop_t *l, int ts)
{
    gpu_propagate(&l->m, &l->u, l->stream);
    gpu_inject(&l->m, l->u.curr, l->source, wavelet(ts), l->stream);
}

static void backward(loop_t *l, int ts)
{
    gpu_propagate(&l->m, &l->lambda, l->stream);
    gpu_inject(&l->m, l->lambda.curr, l->receiver, wavelet(ts), l->stream);
    gpu_correlate(&l->m.grid, l->u.curr, l->lambda.curr, &l->sums, l->stream);
}

static void loop_open(loop_t *l, const grid_t *g)
{
    l->m = gpu_plain_medium(g);
    l->u = gpu_wavefield_open(g);
    l->lambda = gpu_wavefield_open(g);
    l->sums = gpu_image_open(g);
    l->source = grid_index(g, g->n1 / 4, g->n2 / 2, g->n3 / 2);
    l->receiver = grid_index(g, g->n1 / 4, g->n2 / 4, g->n3 / 2);
    const size_t cells = g->n1 * g->n2 * g->n3;
    l->reference = l->picture = l->raw = NULL;
    l->has_reference = 0;
    for (float **array : {&l->reference, &l->picture, &l->raw})
        *array = (float *)malloc(cells * sizeof **array);
    if (image_init(&l->image, g) != 0 || !l->reference || !l->picture || !l->raw) {
        complain("no memory for an image");
        exit(1);
    }
    CUDA(cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking));
}

static void loop_close(loop_t *l)
{
    CUDA(cudaStreamDestroy(l->stream));
    image_free(&l->image);
    free(l->reference);
    free(l->picture);
    free(l->raw);
    gpu_image_close(&l->sums);
    gpu_wavefield_close(&l->lambda);
    gpu_wavefield_close(&l->u);
    gpu_medium_close(&l->m);
}

/* Sets all fields to zero before a sweep. */
static void loop_begin(loop_t *l)
{
    for (float *field : {l->u.curr, l->u.prev, l->lambda.curr, l->lambda.prev})
        CUDA(cudaMemset(field, 0, l->m.grid.points * sizeof *field));
    gpu_image_clear(&l->sums, l->stream);
    CUDA(cudaDeviceSynchronize());
}

static step_times_t time_steps(loop_t *l)
{
    const int steps = 10, repeats = 11;
    step_times_t t;

    /* Noise, since zeros can be faster than data. */
    gpu_noise(&l->m.grid, &l->u);
    gpu_noise(&l->m.grid, &l->lambda);
    CUDA(cudaDeviceSynchronize());
    t.forward = cuda_seconds(l->stream, repeats, [&](cudaStream_t) {
        for (int i = 0; i < steps; i++)
            forward(l, i);
    }) / steps;
    t.backward = cuda_seconds(l->stream, repeats, [&](cudaStream_t) {
        for (int i = 0; i < steps; i++)
            backward(l, i);
    }) / steps;
    return t;
}

static int sweep(gpuzip_t *session, loop_t *l, int lossy)
{
    gpuzip_field_t fields[2];
    gpuzip_action_t action;

    do {
        if (checkpoint_failed(gpuzip_get_action(session, &action)))
            return -1;
        checkpoint_fields(&l->m.grid, &l->u, fields);
        if (action.type == GPUZIP_ACTION_FORWARD)
            forward(l, action.ts);
        else if (action.type == GPUZIP_ACTION_BACKWARD)
            backward(l, action.ts);
        else if (action.type == GPUZIP_ACTION_SAVE &&
                 checkpoint_failed(gpuzip_save(session, action.ts, fields, 2, l->stream)))
            return -1;
        else if (action.type == GPUZIP_ACTION_RESTORE &&
                 checkpoint_failed(gpuzip_retrieve(session, action.ts, fields, 2, l->stream)))
            return -1;
        else if (action.type == GPUZIP_ACTION_ERROR)
            return complain("gpuzip_get_action: %s", gpuzip_last_error());
        if (action.type == GPUZIP_ACTION_RESTORE && lossy)
            gpu_clear_halo(&l->m.grid, &l->u, l->stream);
    } while (action.type != GPUZIP_ACTION_TERMINATE);
    return 0;
}

/* Computes the image and its difference from the image of the first configuration. */
static int compare(loop_t *l, quality_t *q)
{
    const grid_t *g = &l->m.grid;

    image_normalise(&l->image, l->raw);
    image_filter(g, l->raw, l->picture);
    if (!l->has_reference)
        memcpy(l->reference, l->picture, g->n1 * g->n2 * g->n3 * sizeof *l->reference);
    l->has_reference = 1;
    return quality_measure(q, g, l->reference, l->picture);
}

static void print(const loop_t *l, const char *text, const gpuzip_summary_t *plan, const gpuzip_stats_t *s, const quality_t *q,
                  step_times_t t, double took, double enqueued)
{
    const double ideal = (double)s->forward_steps * t.forward + (double)s->backward_steps * t.backward;

    printf("{\"device\": \"%s\", \"extent\": %zu, \"steps\": %d, \"algorithm\": \"%s\", \"snapshots\": %d, "
           "\"cache\": %d, \"policy\": \"%s\", \"slot_bytes\": %llu", cuda_device_name(), l->m.grid.e1, (int)plan->steps,
           gpuzip_algorithm_name(plan->algorithm), (int)plan->snapshots, (int)plan->cache,
           plan->policy == GPUZIP_POLICY_LRU ? "lru" : "clairvoyant", (unsigned long long)plan->slot_bytes);
    printf(", \"configuration\": \"%s\", \"ratio\": %.4f", text, s->stored_bytes ? (double)s->raw_bytes / (double)s->stored_bytes : 1.0);
    if (isfinite(q->psnr))
        printf(", \"filtered_psnr\": %.3f", q->psnr);
    printf(", \"filtered_relative_l2\": %.3g", q->relative_l2);
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

/* Measures one configuration, such as "4:lru" or "20G:clairvoyant:dct:1e-3". */
static int measure(loop_t *l, gpuzip_config_t config, int steps, const char *text, step_times_t t)
{
    const char *policy = strchr(text, ':'), *codec = policy != NULL ? strchr(policy + 1, ':') : NULL;
    gpuzip_stats_t stats = {};
    checkpoint_t c;
    quality_t quality;
    setting_t *setting = NULL;
    size_t count = 0;
    char *end;
    const double cache = strtod(text, &end);
    int status = -1;

    if (policy == NULL || (end != policy && (*end != 'G' || end + 1 != policy)) ||
        (codec != NULL && (setting = setting_list(codec + 1, &count)) == NULL))
        return complain("%s: CACHE:POLICY[:CODEC]", text);
    stats.struct_size = sizeof stats;
    config.cache_capacity = *end == 'G' ? 0 : (int32_t)cache;
    config.device_budget = *end == 'G' ? (uint64_t)(cache * 1e9) : 0;
    config.policy = strncmp(policy, ":lru", 4) == 0 ? GPUZIP_POLICY_LRU : GPUZIP_POLICY_CLAIRVOYANT;
    if (!checkpoint_failed(checkpoint_configure(&c, &config, 0, setting, &l->m.grid, (size_t)steps, 1, &l->u))) {
        loop_begin(l);
        const double start = seconds();
        if (sweep(c.session, l, codec != NULL) == 0) {
            const double enqueued = seconds() - start;
            CUDA(cudaStreamSynchronize(l->stream));
            const double took = seconds() - start;
            gpu_image_fetch(&l->sums, &l->image, l->stream);
            if (compare(l, &quality) == 0 && !checkpoint_failed(gpuzip_stats(c.session, &stats))) {
                print(l, text, &c.plan, &stats, &quality, t, took, enqueued);
                status = 0;
            }
        }
        checkpoint_close(&c);
    }
    free(setting);
    return status;
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
        return complain("usage: stall EXTENT STEPS SNAPSHOTS ALGORITHM LIMIT CACHE:POLICY[:CODEC]..., EXTENT from %zu", halo + 8), 2;
    const size_t cells = (size_t)atoi(argv[1]) - halo;
    if (checkpoint_failed(gpuzip_config_init(&config)) || grid_init(&g, cells, cells, cells, border, 10.0) != 0)
        return complain("EXTENT %s: more points than memory can address", argv[1]), 2;
    config.checkpointing_snaps = atoi(argv[3]);
    config.checkpointing_algorithm = atoi(argv[4]);
    loop_open(&l, &g);
    const step_times_t t = time_steps(&l);
    for (int i = 6; i < argc && seconds() - start < atof(argv[5]); i++)
        status |= measure(&l, config, atoi(argv[2]), argv[i], t);
    loop_close(&l);
    return status == 0 ? 0 : 1;
}
