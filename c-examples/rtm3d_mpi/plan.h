/* A session per rank. */
#ifndef RTM_MPI_PLAN_H
#define RTM_MPI_PLAN_H

#include "checkpoint.h"
#include "node.h"
#include "tune.h"

/* A session of this rank's share of the configuration that `config` and the environment give, planned by a profile unless that is NULL.
 * 0, or -1 with the reason on stderr. */
int plan_open(checkpoint_t *c, const char *config, const node_t *node, const grid_t *g, size_t steps, tuned_t *tuned);
/*
 * The same where ranks step together, as a decomposed grid's do. A plan is a pure function of the configuration and of the size
 * of states, and slabs differ in size: where that gives ranks different schedules, gpuzip_agree gives all of them that with the fewest
 * snapshots.
 * Collective over `world`, and so is the result.
 */
int plan_open_together(checkpoint_t *c, const char *config, const node_t *node, const grid_t *g, size_t steps, tuned_t *tuned,
                       MPI_Comm world);

/* The profile of rank 0, which has measured it, for all ranks: a plan is a function of configuration and profile alone. Collective; 0, or
 * -1 on all ranks with the reason on stderr. */
int plan_share(tuned_t *tuned, checkpoint_t *c, MPI_Comm world);

#endif
