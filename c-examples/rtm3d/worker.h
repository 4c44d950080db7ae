/* A worker of --claim: takes shots from a folder until the survey is done, whose image is the sum of
 * the committed shots in the order of their numbers. */
#ifndef RTM_WORKER_H
#define RTM_WORKER_H

#include "checkpoint.h"
#include "claim.h"
#include "job.h"
#include "report.h"

typedef struct worker_t {
    const job_t *job;
    /* The session; NULL for a worker that only adds up (--sum). */
    const checkpoint_t *checkpoint;
    const shot_t *shot;       /* whose media and survey enter the description */
    const medium_t *truth;
    image_t *one, *sum;       /* sums of one shot, and of all shots */
    void *run;                /* first argument of the functions below */
    /* Computes a shot into `one`, whose sums are 0, and its misfit. Returns 0 or -1. */
    int (*migrate)(void *run, size_t shot, double *misfit);
    /* Writes the files of the image in `sum`. Returns 0 or -1. */
    int (*write)(void *run);

    claims_t claims;
    size_t computed;          /* shots that this worker has computed */
    size_t held;              /* shots that other workers had when this worker last looked */
    int is_done;              /* whether `sum` and `misfit` are those of all shots */
    int is_writer;            /* whether this worker has written the files of the image */
    double misfit;
} worker_t;

/* Works until the survey is done, or with --no-wait until other workers have all shots that are
 * left; with --only, until that shot is committed; with --sum, adds up committed shots and computes
 * none. The caller has set the members above `claims`, and closes w->claims. Returns 0, or -1 with the reason on stderr. */
int worker_run(worker_t *w);
/* Gives a sign of life between two time steps. */
void worker_beat(void);
/* Prints what became of the survey, as text or as JSON. `files`: where w->write writes. */
void worker_report(const worker_t *w, const outputs_t *files);

#endif
