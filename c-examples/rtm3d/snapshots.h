/* Writes states of a migration, which its checkpoints hold, to files, for trying codecs on
 * them. */
#ifndef RTM_SNAPSHOTS_H
#define RTM_SNAPSHOTS_H

#include <stddef.h>

#include "job.h"

/* Parses a list of time steps such as "800,1500". Returns them in ascending order, each once,
 * in memory to free(); NULL with the reason on stderr, also if a time step is not in 0..steps. */
size_t *snapshots_list(const char *text, size_t steps, size_t *count);
/*
 * Runs the forward sweep of the first shot up to the last of job->dumps and writes both time
 * levels of each of these states with sponge and halo, as they are checkpointed. Then prints a
 * description of the states, as text or as JSON. Returns 0, or -1 with the reason on stderr.
 */
int snapshots_dump(const job_t *job);

#endif
