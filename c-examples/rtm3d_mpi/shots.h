/* Shots distributed over ranks while they run: who is done gets the next one. */
#ifndef RTM_MPI_SHOTS_H
#define RTM_MPI_SHOTS_H

#include <mpi.h>

#include "shot.h"

/* Migrates shot `number` into `image`, whose sums are 0. 0, or -1 with the reason on stderr. */
typedef int (*shot_worker_t)(void *run, size_t number, image_t *image);

/*
 * Migrates `shots` shots on all ranks of `comm`; collective, MPI_THREAD_FUNNELED suffices. Rank 0 hands out the numbers and stacks
 * the images in `sum` (its sums are 0; NULL elsewhere) in the order of shots, while a second thread of it works like the other
 * ranks. `one` is each rank's room for the image of a shot. A shot that fails, or no memory, ends the whole MPI job: returns only
 * when all is done.
 */
void shots_migrate(MPI_Comm comm, size_t shots, shot_worker_t worker, void *run, image_t *one, image_t *sum);

#endif
