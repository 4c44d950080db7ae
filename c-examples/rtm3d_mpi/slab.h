/*
 * The grid decomposed into slabs along its slowest axis, one slab for each rank. A slab is a
 * grid of its own, with HALO planes of its neighbours on either side; the functions of rtm3d
 * work on it as on a whole grid.
 */
#ifndef RTM_MPI_SLAB_H
#define RTM_MPI_SLAB_H

#include <mpi.h>

#include "shot.h"

typedef struct slab_t {
    MPI_Comm comm;
    int below, above;   /* ranks of the neighbours, or MPI_PROC_NULL */
    grid_t whole, grid; /* the grid of all ranks, and of this rank */
    size_t plane;       /* values of a plane across the slowest axis */
    size_t first;       /* number of plane 0 of this slab in the whole grid */
    size_t skipped;     /* number of model planes in the slabs below */
} slab_t;

/* Decomposes the grid. Collective over `comm`, which the caller keeps. Returns 0, or -1 on all
 * ranks with the reason on stderr, printed once. */
int slab_init(slab_t *slab, const grid_t *whole, MPI_Comm comm);
/* Computes the slab's part of the medium of the whole model `v`; needs memory for the whole
 * medium meanwhile. Returns 0, or -1: no memory. */
int slab_medium(const slab_t *slab, medium_t *m, double dt, const float *v);
/* Finds the receivers in this slab, and the sources: NOWHERE for a source in another slab.
 * Returns 0, or -1: no memory. */
int slab_survey(const slab_t *slab, survey_t *s, size_t steps, size_t shots, double dt, double freq);
/* A function for `exchange` of shot_t: fills the HALO planes on either side of `field` from the
 * neighbours. `slab` is a slab_t. Collective. */
void slab_exchange(void *slab, real *field);
/* Joins the images of the slabs in `whole`, on rank 0; ignored on other ranks. Collective. */
void slab_gather(const slab_t *slab, const image_t *part, image_t *whole);

#endif
