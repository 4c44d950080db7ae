/*
 * The grid decomposed into slabs along its slowest axis, one per rank. A slab is a grid of its own, with HALO planes of its
 * neighbours on either side; all else of rtm3d works on it as on a whole one.
 */
#ifndef RTM_MPI_SLAB_H
#define RTM_MPI_SLAB_H

#include <mpi.h>

#include "shot.h"

typedef struct slab_t {
    MPI_Comm comm;
    int below, above;   /* neighbours, or MPI_PROC_NULL */
    grid_t whole, grid; /* of all ranks, and of this one */
    size_t plane;       /* values of a plane across the slowest axis */
    size_t first;       /* plane of the whole grid that is plane 0 of this one */
    size_t skipped;     /* model planes that lie in slabs below */
} slab_t;

/* Collective over `comm`, which stays the caller's. 0, or -1 on all ranks with the reason on stderr, once. */
int slab_init(slab_t *slab, const grid_t *whole, MPI_Comm comm);
/* The slab's part of the medium of the whole model `v`. 0, or -1: no memory (while it is made, for the whole). */
int slab_medium(const slab_t *slab, medium_t *m, double dt, const float *v);
/* The receivers of this slab, and the sources: NOWHERE where they lie in another. 0, or -1: no memory. */
int slab_survey(const slab_t *slab, survey_t *s, size_t steps, size_t shots, double dt, double freq);
/* shot_t.exchange: fills the HALO planes on either side of `field` from the neighbours. `slab` is a slab_t. Collective. */
void slab_exchange(void *slab, real *field);
/* Puts the slabs' images together in `whole` (on rank 0; ignored elsewhere). Collective. */
void slab_gather(const slab_t *slab, const image_t *part, image_t *whole);

#endif
