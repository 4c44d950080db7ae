/* Distributes shots over ranks during the run: a rank that is done gets the next shot. */
#ifndef RTM_MPI_SHOTS_H
#define RTM_MPI_SHOTS_H

#include <mpi.h>

#include "kept.h"
#include "shot.h"

/* Migrates shot `number` into `image`, whose sums are 0. Returns 0, -1 with the reason on stderr, or
 * RESTART_STOPPED if shots_is_stopped told so. */
typedef int (*shot_worker_t)(void *run, size_t number, image_t *image);

/*
 * Migrates `shots` shots on all ranks of `comm`; collective, MPI_THREAD_FUNNELED suffices. Rank
 * 0 gives out the shots and adds the images to `sum` (whose sums are 0; NULL on other ranks) in
 * the order of the shots, while a second thread of rank 0 works like the other ranks. `one` is
 * each rank's memory for the image of a shot. With `kept`, which is open or NULL, each rank keeps
 * the shots that it computes, and those that are kept already are read. A failed shot or a lack of
 * memory ends the whole MPI job, so the function returns only when all shots are done, or, with
 * `kept`, when a rank was requested to stop. Rank 0 returns RESTART_STOPPED if shots are missing,
 * and kept->count is then their number on the disk; otherwise the result is 0.
 */
int shots_migrate(MPI_Comm comm, size_t shots, kept_t *kept, shot_worker_t worker, void *run, image_t *one, image_t *sum);
/* Whether this rank or another one was requested to stop; for the worker, between two actions. */
int shots_is_stopped(void);

#endif
