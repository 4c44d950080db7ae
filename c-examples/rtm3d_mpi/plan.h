/* A session per rank. */
#ifndef RTM_MPI_PLAN_H
#define RTM_MPI_PLAN_H

#include "checkpoint.h"
#include "node.h"

/* A session of this rank's share of the configuration that `config` and the environment give. 0, or -1 with the reason on stderr. */
int plan_open(checkpoint_t *c, const char *config, const node_t *node, const grid_t *g, size_t steps);
/*
 * The same where ranks step together, as a decomposed grid's do. A plan is a pure function of the configuration and of the size
 * of states, and slabs differ in size: where that gives ranks different schedules, all take the fewest snapshots, and if need be
 * (two-level works inside the cache) the smallest cache.
 * Collective over `world`, and so is the result.
 */
int plan_open_together(checkpoint_t *c, const char *config, const node_t *node, const grid_t *g, size_t steps, MPI_Comm world);

#endif
