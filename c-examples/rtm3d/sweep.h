/* One migration per codec setting: what lossy snapshots save, cost and do to the image. */
#ifndef RTM_SWEEP_H
#define RTM_SWEEP_H

#include "checkpoint.h"
#include "job.h"

/* Who migrates: the CPU, or rtm3d_cuda. */
typedef struct migrator_t {
    void *run;
    const wavefield_t *u;  /* as checkpoint_open wants it */
    /* Adds up all shots of the job in `image`, whose sums are 0, and their seconds in `seconds`. 0 or -1. */
    int (*migrate)(void *run, const job_t *job, checkpoint_t *c, image_t *image, double *seconds);
} migrator_t;

/* Migrates with raw snapshots, and then with each of job->settings; prints a table, or JSON. A setting that the
 * library refuses is a row that says why. 0, or -1 with the reason on stderr. */
int sweep(const job_t *job, const migrator_t *migrator);

#endif
