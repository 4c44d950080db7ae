/* States of a migration as files: what its checkpoints hold, for trying codecs on them. */
#ifndef RTM_SNAPSHOTS_H
#define RTM_SNAPSHOTS_H

#include <stddef.h>

#include "job.h"

/* A list of time steps such as "800,1500", ascending and each once, in memory to free(); NULL with
 * the reason on stderr, also where one is not in 0..steps. */
size_t *snapshots_list(const char *text, size_t steps, size_t *count);
/*
 * The forward sweep of the first shot, as far as the last of job->dumps: of each state both time
 * levels are written whole, as they are checkpointed, with sponge and halo. Then it prints what
 * they are, as text or as JSON. 0, or -1 with the reason on stderr.
 */
int snapshots_dump(const job_t *job);

#endif
