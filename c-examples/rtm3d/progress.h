/*
 * How large a run is, and how far it is: on stderr, before and while somebody waits. On a terminal a bar that moves with every time step;
 * elsewhere a line after each tenth of the run, but none within the first seconds and no more than one in two seconds.
 */
#ifndef RTM_PROGRESS_H
#define RTM_PROGRESS_H

#include <stddef.h>

#include "checkpoint.h"
#include "job.h"

/* Time steps of one shot: modelling, the migration as planned, and what --verify and --taylor add. */
double progress_steps_of_shot(const job_t *job, const checkpoint_t *c);
/* Tells the size of the job: grid, steps, shots, and what `state_bytes` per state, of so many fields, come to. */
void progress_size(const job_t *job, const checkpoint_t *c, size_t state_bytes, unsigned fields);

/* Begins to count: `steps` time steps in all. */
void progress_begin(double steps);
/* The plan has changed: `steps` in all. */
void progress_replan(double steps);
/* What is being done, to shot number `shot`, from 0, of `shots`. */
void progress_shot(size_t shot, size_t shots, const char *what);
/* One time step more; a shot_t's `stepped`. */
void progress_step(void);
void progress_end(void);

#endif
