/*
 * The Taylor test of a gradient (gpuzip_gradient.h), with the direction p in which 1/v^2 goes from the
 * smooth model to the true one. Of the five orders, FP64 judges all, FP32 the first ones.
 */
#ifndef RTM_TAYLOR_H
#define RTM_TAYLOR_H

#include <gpuzip_gradient.h>

#include "job.h"
#include "shot.h"

#define TAYLOR_SIZES 6    /* number of h, each half of the one before */
#define TAYLOR_HIGH 2.1   /* largest order of the second remainder that passes */

typedef struct taylor_t {
    medium_t medium;      /* m + h p */
    double *change;       /* p/m on the cells of the model, at most 1 in size */
    double energy;        /* 1/2 sum d^2 of the observed data */
    gpuzip_taylor_t test; /* h: the largest relative change of 1/v^2; J: the misfit, summed over shots */
} taylor_t;

/* Prepares the test. Returns 0, or -1 with the reason on stderr. */
int taylor_open(taylor_t *t, const job_t *job);
void taylor_close(taylor_t *t);
/* Adds the misfits of a shot whose data were observed; overwrites its synthetic data. */
void taylor_shot(taylor_t *t, shot_t *shot);
/* Judges the test by the misfit J(m) and its `gradient` on the cells of the model. Returns whether the
 * gradient passes. */
int taylor_judge(taylor_t *t, const job_t *job, double misfit, const double *gradient);

#endif
