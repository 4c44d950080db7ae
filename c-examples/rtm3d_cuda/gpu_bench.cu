#include "gpu_bench.h"

#include <stdio.h>
#include <stdlib.h>

#include "gpu_shot.h"

#define REPEATS 21
#define STEPS 10                        /* per repeat */
#define COPY_BYTES ((size_t)1 << 30)    /* far larger than any cache */
#define BYTES_PER_POINT (4.0 * sizeof(float))

medium_t gpu_plain_medium(const grid_t *g)
{
    const std::vector<float> v(g->n1 * g->n2 * g->n3, 2000.0f);
    medium_t host, m;

    if (medium_init(&host, g, 0.8 * stable_dt(grid_dims(g), g->dx, 2000.0), v.data()) != 0) {
        complain("no memory for %zu points", g->points);
        exit(1);
    }
    m = gpu_medium_open(&host);
    medium_free(&host);
    return m;
}

void gpu_noise(const grid_t *g, wavefield_t *w)
{
    std::vector<float> noise(g->points);
    unsigned state = 1;

    for (float &value : noise) {
        state = state * 1664525u + 1013904223u;
        value = (float)(state >> 8) / (float)(1 << 24) - 0.5f;
    }
    /* The halo is then not zero; the amount of work is the same. */
    for (float *field : {w->curr, w->prev})
        CUDA(cudaMemcpy(field, noise.data(), g->points * sizeof(float), cudaMemcpyHostToDevice));
}

/* Bytes per second of copies of COPY_BYTES: in both directions at a time, in one direction, and
 * within the device (read plus written bytes). */
typedef struct copies_t {
    double within, up, down, both;
} copies_t;

static copies_t time_copies()
{
    char *device[2], *host[2];
    cudaStream_t stream, other;
    cudaEvent_t fork, join;
    copies_t speed;

    for (int i = 0; i < 2; i++) {
        CUDA(cudaMalloc(&device[i], COPY_BYTES));
        CUDA(cudaMallocHost(&host[i], COPY_BYTES));
        for (size_t k = 0; k < COPY_BYTES; k += sizeof(unsigned))
            *(unsigned *)(host[i] + k) = (unsigned)k * 2654435761u;
        CUDA(cudaMemcpy(device[i], host[i], COPY_BYTES, cudaMemcpyHostToDevice));
    }
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CUDA(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CUDA(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    const auto up = [&](cudaStream_t s) {
        CUDA(cudaMemcpyAsync(device[0], host[0], COPY_BYTES, cudaMemcpyHostToDevice, s));
    };
    const auto down = [&](cudaStream_t s) {
        CUDA(cudaMemcpyAsync(host[1], device[1], COPY_BYTES, cudaMemcpyDeviceToHost, s));
    };
    speed.within = 2.0 * COPY_BYTES / cuda_seconds(stream, REPEATS, [&](cudaStream_t s) {
        CUDA(cudaMemcpyAsync(device[0], device[1], COPY_BYTES, cudaMemcpyDeviceToDevice, s));
    });
    speed.up = COPY_BYTES / cuda_seconds(stream, REPEATS, up);
    speed.down = COPY_BYTES / cuda_seconds(stream, REPEATS, down);
    speed.both = 2.0 * COPY_BYTES / cuda_seconds(stream, REPEATS, [&](cudaStream_t s) {
        CUDA(cudaEventRecord(fork, s));
        CUDA(cudaStreamWaitEvent(other, fork, 0));
        up(s);
        down(other);
        CUDA(cudaEventRecord(join, other));
        CUDA(cudaStreamWaitEvent(s, join, 0));
    });
    CUDA(cudaEventDestroy(join));
    CUDA(cudaEventDestroy(fork));
    CUDA(cudaStreamDestroy(other));
    CUDA(cudaStreamDestroy(stream));
    for (int i = 0; i < 2; i++) {
        CUDA(cudaFree(device[i]));
        CUDA(cudaFreeHost(host[i]));
    }
    return speed;
}

/* Measures the points per second of the propagator. */
static double time_points(const grid_t *g)
{
    medium_t m = gpu_plain_medium(g);
    wavefield_t w = gpu_wavefield_open(g);
    const double points = (double)(g->e1 - 2 * HALO) * (double)(g->e2 - 2 * HALO) *
                          (double)(grid_dims(g) == 3 ? g->e3 - 2 * HALO : 1);
    cudaStream_t stream;
    double time;

    gpu_noise(g, &w);
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    time = cuda_seconds(stream, REPEATS, [&](cudaStream_t s) {
        for (int i = 0; i < STEPS; i++)
            gpu_propagate(&m, &w, s);
    }) / STEPS;
    CUDA(cudaStreamDestroy(stream));
    gpu_wavefield_close(&w);
    gpu_medium_close(&m);
    return points / time;
}

int gpu_bench(const options_t *o)
{
    const size_t border = o->border != 0 ? o->border : 16, cells = 512 - 2 * (16 + HALO);
    const char *device = cuda_device_name();
    grid_t g;

    if (grid_init(&g, o->n1 != 0 ? o->n1 : cells, o->n2 != 0 ? o->n2 : cells, o->n3 != 0 ? o->n3 : cells, border,
                  10.0) != 0)
        return complain("--bench: no memory for %zu x %zu x %zu points", g.e1, g.e2, g.e3);
    const double points = time_points(&g);
    const copies_t copies = time_copies();
    const double fraction = points * BYTES_PER_POINT / copies.within;
    if (o->json)
        printf("{\"device\": \"%s\", \"e1\": %zu, \"e2\": %zu, \"e3\": %zu, \"bytes_per_point\": %g, "
               "\"gpoints_per_second\": %.3f, \"gb_per_second\": %.1f, \"copy_gb_per_second\": %.1f, "
               "\"of_copy\": %.4f, \"h2d_gb_per_second\": %.2f, \"d2h_gb_per_second\": %.2f, "
               "\"both_ways_gb_per_second\": %.2f}\n", device, g.e1, g.e2, g.e3, BYTES_PER_POINT, points / 1e9,
               points * BYTES_PER_POINT / 1e9, copies.within / 1e9, fraction, copies.up / 1e9, copies.down / 1e9,
               copies.both / 1e9);
    else
        printf("%s, %zu x %zu x %zu points\npropagator %8.2f Gpoint/s, %.1f GB/s, %.0f %% of a copy on the device\n"
               "copies     %8.1f GB/s on the device, %.1f up, %.1f down, %.1f both ways at once\n", device, g.e1, g.e2,
               g.e3, points / 1e9, points * BYTES_PER_POINT / 1e9, 100.0 * fraction, copies.within / 1e9,
               copies.up / 1e9, copies.down / 1e9, copies.both / 1e9);
    return 0;
}
