/* Distributes shots over ranks during the run: a rank that is done gets the next shot. */
#ifndef RTM_MPI_SHOTS_H
#define RTM_MPI_SHOTS_H

#include <mpi.h>

#include "shot.h"

/* Migrates shot `number` into `image`, whose sums are 0. Returns 0, or -1 with the reason on
 * stderr. */
typedef int (*shot_worker_t)(void *run, size_t number, image_t *image);

/*
 * Migrates `shots` shots on all ranks of `comm`; collective, MPI_THREAD_FUNNELED suffices. Rank
 * 0 gives out the shots and adds the images to `sum` (whose sums are 0; NULL on other ranks) in
 * the order of the shots, while a second thread of rank 0 works like the other ranks. `one` is
 * each rank's memory for the image of a shot. A failed shot or a lack of memory ends the whole
 * MPI job, so the function returns only when all shots are done.
 */
void shots_migrate(MPI_Comm comm, size_t shots, shot_worker_t worker, void *run, image_t *one, image_t *sum);

#endif
