/*
 * The physics of one shot, which knows nothing of checkpointing: checkpoint.c and reference.c
 * both call these steps, so their results can be compared bit by bit.
 *
 * Forward, n = steps, u(0) = u(-1) = 0. Sample k of the wavelet drives the step k -> k+1:
 *
 *     u(k+1) = u(k) + w (u(k) - u(k-1)) + K (dx^2 L u(k) + dx^2 s(k)),       k = 0 .. n-2,
 *
 * and d(k) = R u(k) is recorded for k = 1 .. n-1. In the notation of propagator.c, with E =
 * diag(1/K), these equations are A u = dx^2 s for a block-triangular A whose blocks are
 * symmetric:
 *
 *     E u(k+1) - (2a E + dx^2 L) u(k) + (E w) u(k-1) = dx^2 s(k),            2a = 1 + w.
 *
 * Adjoint: A' lambda = R' r, with r in the units of dx^2 s. Row j of A' holds the coefficients
 * of u(j):
 *
 *     E lambda(j-1) - (2a E + dx^2 L) lambda(j) + (E w) lambda(j+1) = R' r(j),  j = n-1 .. 1,
 *
 * the recursion of the forward run in reverse time, with the residual injected in place of the
 * source. Hence <R u, r> = <s, lambda> up to rounding. lambda(k) belongs to the equation that
 * holds s(k) and L u(k), so the image correlates lambda(ts) with u(ts), and BACKWARD ts is
 *
 *     lambda(ts+1), lambda(ts+2), r(ts+1)  ->  lambda(ts)
 *     I += u(ts) lambda(ts),    S += u(ts)^2.
 *
 * There are no data at n (no schedule produces u(n)), so lambda(n-1) = 0.
 *
 * With survey_t.every = k > 1, only u(0), u(k), u(2k), ... enter the image: BACKWARD ts..ts_end
 * computes lambda(ts_end), ..., lambda(ts), and then correlates lambda(ts) with u(ts). The last
 * state that a schedule produces is then the last multiple of k below n. The data of the steps
 * after it are still needed: shot_record_rest computes them.
 */
#ifndef RTM_SHOT_H
#define RTM_SHOT_H

#include <stdint.h>

#include "propagator.h"

/* The position of a source outside this rank's part of a decomposed grid. */
#define NOWHERE SIZE_MAX

/* Sources and receivers; positions are indices into a field. */
typedef struct survey_t {
    size_t steps;      /* n: states 0 .. n-1 are computed */
    size_t every;      /* k: u(0), u(k), u(2k), ... enter the image */
    size_t shots;      /* number of sources */
    size_t receivers;  /* one on every cell of the surface */
    size_t *source;    /* [shots] */
    size_t *receiver;  /* [receivers] */
    real *wavelet;     /* [steps], in units of 1/dx^2 */
} survey_t;

/* Sums over time, for one shot or all shots, on the cells of the model, n1 fastest. */
typedef struct image_t {
    size_t cells;
    real *correlation;   /* I = sum of u lambda */
    real *illumination;  /* S = sum of u^2 */
    size_t points;
    /* Sum of lambda (dx^2 L u + dx^2 s) at all points of the grid, see gradient.h; or NULL. */
    real *gradient;
} image_t;

typedef struct shot_t {
    const medium_t *medium;  /* the smooth model, in which waves are migrated */
    const survey_t *survey;
    size_t source;           /* position of this shot */
    wavefield_t u, lambda;
    wavefield_t ahead;       /* for shot_record_rest if survey->every > 1; otherwise NULL */
    real *observed;          /* [steps][receivers]: data of the true model */
    real *synthetic;         /* [steps][receivers]: data of the smooth model */
    /* Fetches the planes beside a part of a decomposed grid, before a step reads them. NULL:
     * the grid is not decomposed. */
    void (*exchange)(void *part, real *field);
    void *part;              /* first argument of `exchange` */
    void (*stepped)(void);   /* called after each forward or backward step, or NULL */
} shot_t;

/* Places shots along the longer horizontal axis, on alternating sides of its centre line. Every
 * state enters the image: the caller may change `every` before shot_init. Returns 0, or -1: no memory. */
int survey_init(survey_t *s, const grid_t *g, size_t steps, size_t shots, double dt, double freq);
void survey_free(survey_t *s);

int image_init(image_t *image, const grid_t *g);
/* Allocates a gradient in addition to the other sums. Returns 0, or -1: no memory. */
int image_add_gradient(image_t *image, const grid_t *g);
void image_free(image_t *image);
void image_clear(image_t *image);
/* sum += shot. Each shot has its own sums, which are added in the order of the shots: the bits
 * do not depend on which rank migrated a shot. */
void image_stack(image_t *sum, const image_t *shot);

/* Allocates the arrays for any shot of the survey. Returns 0, or -1: no memory. */
int shot_init(shot_t *shot, const medium_t *medium, const survey_t *survey);
void shot_free(shot_t *shot);
/* Models the observed data of shot `number` in the medium `truth`. */
void shot_observe(shot_t *shot, const medium_t *truth, size_t number);
/* Sets all fields to zero: u is state 0. */
void shot_begin(shot_t *shot);
/* Computes u(ts-1) -> u(ts); records the synthetic data at ts if `record` is not 0. */
void shot_forward(shot_t *shot, size_t ts, int record);
/* As shot_forward, with u(ts) in `next`; see propagate_to. */
void shot_forward_to(shot_t *shot, size_t ts, int record, real *next);
/* Computes u(ts+1), ..., u(n-1) on a copy of u(ts), which is live, and records their synthetic
 * data. Does nothing if ts is n-1, as it always is with survey->every = 1. */
void shot_record_rest(shot_t *shot, size_t ts);
/* Computes u(ts+1) -> u(ts) on the cells of the model, where the equation is lossless, with the levels in
 * reverse: u(ts+1) and u(ts+2) become u(ts) and u(ts+1), in curr and prev. For ts = n-2 the two levels of
 * the last state change places. The caller then sets u(ts) in the strips of grid_strip. */
void shot_reverse(shot_t *shot, size_t ts);
/* Computes lambda(t+1) -> lambda(t) for t = ts_end, ..., ts, and then correlates lambda(ts) with
 * `u`, the field u(ts). A gradient needs ts_end = ts, and a grid that is not decomposed. */
void shot_backward(shot_t *shot, size_t ts, size_t ts_end, const real *u, image_t *image);

#endif
