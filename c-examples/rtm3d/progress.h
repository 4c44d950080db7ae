/*
 * Prints the size of a run and its progress on stderr: on a terminal as a bar that moves with
 * every time step, elsewhere as a line after each tenth of the run, but not within the first
 * seconds and at most every two seconds.
 */
#ifndef RTM_PROGRESS_H
#define RTM_PROGRESS_H

#include <stddef.h>

#include "checkpoint.h"
#include "job.h"

/* Time steps of one shot: modelling, the migration as planned, and the steps of --verify and
 * --taylor. */
double progress_steps_of_shot(const job_t *job, const checkpoint_t *c);
/* Prints the size of the job: grid, steps, shots, and the memory of all states, with
 * `state_bytes` bytes and `fields` fields each. */
void progress_size(const job_t *job, const checkpoint_t *c, size_t state_bytes, unsigned fields);

/* Begins to count `steps` time steps. */
void progress_begin(double steps);
/* Sets the number of time steps to `steps` after a new plan. */
void progress_replan(double steps);
/* Sets the current activity, `what`, on shot number `shot`, from 0, of `shots`. */
void progress_shot(size_t shot, size_t shots, const char *what);
/* Counts one time step; used as `stepped` of shot_t. */
void progress_step(void);
void progress_end(void);

#endif
