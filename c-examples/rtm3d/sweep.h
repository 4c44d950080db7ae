/* Migrates once for each codec setting: what lossy snapshots save and cost, and how they change
 * the image. */
#ifndef RTM_SWEEP_H
#define RTM_SWEEP_H

#include "checkpoint.h"
#include "job.h"

/* The program that migrates: rtm3d or rtm3d_cuda. */
typedef struct migrator_t {
    void *run;
    const wavefield_t *u;  /* as for checkpoint_open */
    /* Adds all shots of the job to `image`, whose sums are 0, and their seconds to `seconds`.
     * Returns 0 or -1. */
    int (*migrate)(void *run, const job_t *job, checkpoint_t *c, image_t *image, double *seconds);
} migrator_t;

/* Migrates with raw snapshots and then with each of job->settings; prints a table, or JSON. The
 * row of a setting that the library refuses says why. Returns 0, or -1 with the reason on
 * stderr. */
int sweep(const job_t *job, const migrator_t *migrator);

#endif
