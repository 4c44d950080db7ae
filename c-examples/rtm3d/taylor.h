/*
 * The Taylor test of a gradient g, with the direction p, in which 1/v^2 goes from the smooth
 * model to the true one:
 *
 *     |J(m + h p) - J(m)|            = O(h)
 *     |J(m + h p) - J(m) - h <g, p>| = O(h^2)   if g is the gradient.
 *
 * With a wrong g the second remainder is O(h), so its rate falls from 2 to 1 as h is halved.
 * Remainders within the rounding of J are not judged: none of the five rates of FP64, the last
 * rates of FP32.
 */
#ifndef RTM_TAYLOR_H
#define RTM_TAYLOR_H

#include "job.h"
#include "shot.h"

#define TAYLOR_SIZES 6                     /* number of h, each half of the one before */
#define TAYLOR_RATES (TAYLOR_SIZES - 1)
#define TAYLOR_LOW 1.9                     /* least rate of the second remainder */
#define TAYLOR_HIGH 2.1
#define TAYLOR_LEAST 2                     /* least number of judged rates */

typedef struct taylor_t {
    medium_t medium;                       /* m + h p */
    double *change;                        /* p/m on the cells of the model, at most 1 in size */
    double size[TAYLOR_SIZES];             /* h: the largest relative change of 1/v^2 */
    double misfit[TAYLOR_SIZES];           /* J(m + h p), summed over shots */
    double energy;                         /* 1/2 sum d^2 of the observed data */
    double slope;                          /* <g, p> */
    /* The remainders without and with the slope. */
    double first[TAYLOR_SIZES], second[TAYLOR_SIZES];
    /* The rates: log2 of the quotients of neighbouring remainders; NaN: not judged. */
    double first_rate[TAYLOR_RATES], second_rate[TAYLOR_RATES];
    int judged;                            /* number of judged rates of the second remainder */
} taylor_t;

/* Prepares the test. Returns 0, or -1 with the reason on stderr. */
int taylor_open(taylor_t *t, const job_t *job);
void taylor_close(taylor_t *t);
/* Adds the misfits of a shot whose data were observed; overwrites its synthetic data. */
void taylor_shot(taylor_t *t, shot_t *shot);
/* Computes slope, remainders and rates from the misfit J(m) and its `gradient` on the cells of
 * the model. Returns whether the rates pass. */
int taylor_judge(taylor_t *t, const job_t *job, double misfit, const double *gradient);

#endif
