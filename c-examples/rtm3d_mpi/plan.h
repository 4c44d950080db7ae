/* Makes one session for each rank. */
#ifndef RTM_MPI_PLAN_H
#define RTM_MPI_PLAN_H

#include "checkpoint.h"
#include "node.h"
#include "tune.h"

/* Makes the session of this rank, with its share of the configuration from the file `config`
 * and the environment, planned with a profile unless `tuned` is NULL; `zero_copy` and `every`
 * as for checkpoint_open. Returns 0, or -1 with the reason on stderr. */
int plan_open(checkpoint_t *c, const char *config, int zero_copy, const node_t *node, const grid_t *g, size_t steps,
              size_t every, tuned_t *tuned);
/*
 * As plan_open, for ranks that step together on a decomposed grid. A plan depends on the
 * configuration and on the size of states only, but slabs differ in size. If ranks would get
 * different schedules, gpuzip_agree gives all of them the schedule with the fewest snapshots.
 * Collective over `world`; all ranks return the same result.
 */
int plan_open_together(checkpoint_t *c, const char *config, const node_t *node, const grid_t *g, size_t steps,
                       size_t every, tuned_t *tuned, MPI_Comm world);

/* Compares the slots for raw snapshots of mixed storage, which fewer bytes of free memory may have made
 * fewer: with lossy snapshots they decide the bits. Collective. Returns 0, or -1 on all ranks with the
 * reason on stderr, if ranks differ. */
int plan_compare(const checkpoint_t *c, MPI_Comm world);

/* Gives the profile that rank 0 has measured to all ranks: ranks with equal configurations and
 * profiles make equal plans. Collective. Returns 0, or -1 on all ranks with the reason on
 * stderr. */
int plan_share(tuned_t *tuned, checkpoint_t *c, MPI_Comm world);

#endif
