#define _POSIX_C_SOURCE 200809L
#include "slab.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "message.h"
#include "node.h"
#include "transfer.h"

#define PATIENCE 50e-6  /* seconds, several times the time of a halo exchange */

enum { TAG_UP = 4, TAG_DOWN };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Extent, model cells and origin along the slowest axis. */
static void slowest(grid_t *g, size_t **extent, size_t **cells, size_t **origin)
{
    const int dims = grid_dims(g);
    *extent = dims == 3 ? &g->e3 : &g->e2;
    *cells = dims == 3 ? &g->n3 : &g->n2;
    *origin = dims == 3 ? &g->o3 : &g->o2;
}

/* Planes [begin, end) of the whole grid that a rank computes: equal shares of all planes
 * between the halos. */
static size_t share(size_t extent, size_t rank, size_t ranks)
{
    return HALO + (extent - 2 * HALO) * rank / ranks;
}

int slab_init(slab_t *slab, const grid_t *whole, MPI_Comm comm)
{
    size_t *extent, *cells, *origin, begin, end, model_begin, model_end, e, n, o;
    int rank, ranks, thin, any;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    *slab = (slab_t){.comm = comm, .below = rank > 0 ? rank - 1 : MPI_PROC_NULL,
                     .above = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL, .whole = *whole, .grid = *whole};
    slowest(&slab->grid, &extent, &cells, &origin);
    e = *extent, n = *cells, o = *origin;
    begin = share(e, (size_t)rank, (size_t)ranks);
    end = share(e, (size_t)rank + 1, (size_t)ranks);
    model_begin = larger(begin, o);
    model_end = smaller(end, o + n);
    /* A slab must have a whole halo for its neighbours and at least two planes of the model, so
     * that its grid keeps its number of dimensions. */
    thin = end - begin < HALO || model_end < model_begin + 2;
    MPI_Allreduce(&thin, &any, 1, MPI_INT, MPI_MAX, comm);
    if (any)
        return rank > 0 ? -1 : complain("--decompose: %zu cells with sponge on %d ranks: each needs %d of them, 2 inside the "
                                        "model; run fewer ranks, or use a smaller --border", e - 2 * HALO, ranks, HALO);
    slab->plane = whole->points / e;
    slab->first = begin - HALO;
    slab->skipped = model_begin - o;
    *extent = end - begin + 2 * HALO;
    *cells = model_end - model_begin;
    *origin = model_begin - slab->first;
    slab->grid.points = slab->plane * *extent;
    return 0;
}

int slab_medium(const slab_t *slab, medium_t *m, double dt, const float *v)
{
    const grid_t *g = &slab->grid, *all = &slab->whole;
    const size_t first2 = grid_dims(g) == 3 ? 0 : slab->first, first3 = grid_dims(g) == 3 ? slab->first : 0;
    medium_t whole;

    if (medium_init(&whole, all, dt, v) != 0)
        return -1;
    *m = (medium_t){.grid = *g, .scale = field_alloc(g), .damp1 = malloc(g->e1 * sizeof(real)),
                    .damp2 = malloc(g->e2 * sizeof(real)), .damp3 = malloc(g->e3 * sizeof(real))};
    if (m->scale == NULL || m->damp1 == NULL || m->damp2 == NULL || m->damp3 == NULL) {
        medium_free(m);
        medium_free(&whole);
        return -1;
    }
    memcpy(m->scale, whole.scale + slab->first * slab->plane, g->points * sizeof(real));
    memcpy(m->damp1, whole.damp1, g->e1 * sizeof(real));
    memcpy(m->damp2, whole.damp2 + first2, g->e2 * sizeof(real));
    memcpy(m->damp3, whole.damp3 + first3, g->e3 * sizeof(real));
    medium_free(&whole);
    return 0;
}

int slab_survey(const slab_t *slab, survey_t *s, size_t steps, size_t shots, double dt, double freq)
{
    const size_t below = (slab->first + HALO) * slab->plane;
    const size_t above = below + slab->grid.points - 2 * HALO * slab->plane;
    survey_t whole;

    if (survey_init(&whole, &slab->whole, steps, shots, dt, freq) != 0)
        return -1;
    if (survey_init(s, &slab->grid, steps, shots, dt, freq) != 0) {
        survey_free(&whole);
        return -1;
    }
    for (size_t i = 0; i < shots; i++) {
        const size_t at = whole.source[i];
        s->source[i] = at >= below && at < above ? at - slab->first * slab->plane : NOWHERE;
    }
    survey_free(&whole);
    return 0;
}

/* Neighbours in step answer at once. Otherwise this rank sleeps: if there are more ranks than
 * cores, its neighbour may need this core. */
static void wait_for(MPI_Request request[4])
{
    const struct timespec nap = {.tv_nsec = 20 * 1000};
    const double start = MPI_Wtime();
    MPI_Status status[4];
    int done = 0;

    while (!done) {
        if (MPI_Wtime() - start > PATIENCE)
            nanosleep(&nap, NULL);
        MPI_Testall(4, request, &done, status);
    }
}

void slab_exchange(void *data, real *field)
{
    const slab_t *s = data;
    MPI_Datatype plane = transfer_plane(s->grid.e1, s->plane / s->grid.e1);
    MPI_Request request[4];
    const size_t end = s->grid.points / s->plane;  /* planes, halos included */

    MPI_Irecv(field, HALO, plane, s->below, TAG_UP, s->comm, &request[0]);
    MPI_Irecv(field + (end - HALO) * s->plane, HALO, plane, s->above, TAG_DOWN, s->comm, &request[1]);
    MPI_Isend(field + (end - 2 * HALO) * s->plane, HALO, plane, s->above, TAG_UP, s->comm, &request[2]);
    MPI_Isend(field + HALO * s->plane, HALO, plane, s->below, TAG_DOWN, s->comm, &request[3]);
    wait_for(request);
    MPI_Type_free(&plane);
}

void slab_gather(const slab_t *slab, const image_t *part, image_t *whole)
{
    const grid_t *g = &slab->grid, *all = &slab->whole;
    const size_t plane = grid_dims(g) == 3 ? g->n1 * g->n2 : g->n1;  /* of the model, in cells */
    const int cells = (int)(part->cells / plane), skipped = (int)slab->skipped;
    int rank, ranks, *count = NULL, *place = NULL;
    MPI_Datatype type;

    MPI_Comm_rank(slab->comm, &rank);
    MPI_Comm_size(slab->comm, &ranks);
    if (rank == 0) {
        count = malloc(2 * (size_t)ranks * sizeof *count);
        if (count == NULL || whole->cells != all->n1 * all->n2 * all->n3) {
            complain("no memory to gather the images of %d ranks", ranks);
            node_end_all(slab->comm);
        }
        place = count + ranks;
    }
    MPI_Gather(&cells, 1, MPI_INT, count, 1, MPI_INT, 0, slab->comm);
    MPI_Gather(&skipped, 1, MPI_INT, place, 1, MPI_INT, 0, slab->comm);
    type = transfer_plane(g->n1, plane / g->n1);
    MPI_Gatherv(part->correlation, cells, type, rank == 0 ? whole->correlation : NULL, count, place, type, 0, slab->comm);
    MPI_Gatherv(part->illumination, cells, type, rank == 0 ? whole->illumination : NULL, count, place, type, 0, slab->comm);
    MPI_Type_free(&type);
    free(count);
}
