#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "message.h"
#include "propagator.h"

#define REPEATS 7                       /* the fastest repeat counts */
#define STEPS 10                        /* per repeat */
#define COPY_BYTES ((size_t)256 << 20)  /* far larger than any cache */

/* Bytes of memory traffic per point and step: u and K are read, u- is read and overwritten; see
 * propagator.c. */
#define BYTES_PER_POINT (4.0 * sizeof(real))

typedef struct speed_t {
    int threads;
    double points;  /* points per second of the propagator */
    double copy;    /* bytes per second of memcpy, read plus written bytes */
} speed_t;

static double best_step(const medium_t *m, wavefield_t *w)
{
    double best = 1e30;
    for (int r = 0; r < REPEATS; r++) {
        const double start = seconds();
        for (int i = 0; i < STEPS; i++)
            propagate(m, w);
        const double time = (seconds() - start) / STEPS;
        best = time < best ? time : best;
    }
    return best;
}

static double best_copy(char *to, const char *from)
{
    double best = 1e30;
    for (int r = 0; r < REPEATS; r++) {
        const double start = seconds();
#pragma omp parallel
        {
            const size_t threads = (size_t)omp_get_num_threads();
            const size_t part = COPY_BYTES / threads, at = part * (size_t)omp_get_thread_num();
            memcpy(to + at, from + at, part);
        }
        const double time = seconds() - start;
        best = time < best ? time : best;
    }
    return best;
}

static speed_t measure(int threads, const medium_t *m, wavefield_t *w, char *to, const char *from)
{
    const grid_t *g = &m->grid;
    const size_t halo3 = grid_dims(g) == 3 ? 2 * HALO : 0;
    const double points = (double)(g->e1 - 2 * HALO) * (double)(g->e2 - 2 * HALO) *
                          (double)(g->e3 - halo3);
    omp_set_num_threads(threads);
    return (speed_t){.threads = threads, .points = points / best_step(m, w),
                     .copy = 2.0 * COPY_BYTES / best_copy(to, from)};
}

static void print_table(const speed_t *s, int count)
{
    puts("threads  Gpoint/s  per thread  copy GB/s  bound Gpoint/s  of the bound");
    for (int i = 0; i < count; i++) {
        const double bound = s[i].copy / BYTES_PER_POINT;
        printf("%7d  %8.3f  %10.3f  %9.1f  %14.2f  %10.0f %%\n", s[i].threads, s[i].points / 1e9,
               s[i].points / 1e9 / s[i].threads, s[i].copy / 1e9, bound / 1e9,
               100.0 * s[i].points / bound);
    }
}

static void print_json(const grid_t *g, const speed_t *s, int count)
{
    printf("{\"n1\": %zu, \"n2\": %zu, \"n3\": %zu, \"border\": %zu, \"bytes_per_point\": %g, "
           "\"runs\": [", g->n1, g->n2, g->n3, g->border, BYTES_PER_POINT);
    for (int i = 0; i < count; i++)
        printf("%s{\"threads\": %d, \"gpoints_per_second\": %.4f, \"copy_gb_per_second\": %.2f, "
               "\"bound_gpoints_per_second\": %.3f}", i > 0 ? ", " : "", s[i].threads,
               s[i].points / 1e9, s[i].copy / 1e9, s[i].copy / BYTES_PER_POINT / 1e9);
    puts("]}");
}

/* Makes a plane of constant velocity with a pulse: the amount of work does not depend on the
 * model. */
static int prepare(grid_t *g, medium_t *m, wavefield_t *w)
{
    const size_t cells = g->n1 * g->n2 * g->n3;
    float *v = malloc(cells * sizeof *v);
    int status = -1;

    for (size_t i = 0; v != NULL && i < cells; i++)
        v[i] = 2000.0f;
    if (v != NULL && medium_init(m, g, 0.8 * stable_dt(grid_dims(g), g->dx, 2000.0), v) == 0 &&
        wavefield_init(w, g) == 0) {
        inject(m, w, grid_index(g, g->n1 / 2, g->n2 / 2, g->n3 / 2), 1);
        status = 0;
    }
    free(v);
    return status;
}

int bench(const options_t *o)
{
    const int all = omp_get_max_threads(), count = all > 1 ? 2 : 1;
    const size_t border = o->border != 0 ? o->border : 16, cells = 148 - 2 * 16;
    char *to = malloc(COPY_BYTES), *from = malloc(COPY_BYTES);
    grid_t g;
    medium_t m = {.scale = NULL};
    wavefield_t w = {.curr = NULL};
    speed_t speed[2];
    int status = grid_init(&g, o->n1 != 0 ? o->n1 : cells, o->n2 != 0 ? o->n2 : cells,
                           o->n3 != 0 ? o->n3 : cells, border, 10.0);

    if (status == 0 && to != NULL && from != NULL && prepare(&g, &m, &w) == 0) {
        memset(from, 1, COPY_BYTES);  /* allocates the pages before the timing */
        memset(to, 2, COPY_BYTES);
        for (int i = 0; i < count; i++)
            speed[i] = measure(i == 0 ? 1 : all, &m, &w, to, from);
        if (o->json)
            print_json(&g, speed, count);
        else
            print_table(speed, count);
    } else {
        status = complain("--bench: no memory for %zu x %zu x %zu points", g.e1, g.e2, g.e3);
    }
    medium_free(&m);
    wavefield_free(&w);
    free(to);
    free(from);
    return status;
}
