/*
 * Misfit and gradient of waveform inversion with cpml.h's propagator, one shot at a time. With x(k) the whole state, u and all memory,
 *
 *     x(k+1) = M x(k) + c s(k),  k = 0 .. n-2,     J = 1/2 sum over k = 1 .. n-1 of |R u(k) - d(k)|^2,
 *
 * the derivatives y(k) of J by x(k) are y(k) = M' (y(k+1) + R' (R u(k+1) - d(k+1))), transposed line by line, layers included. The
 * velocity is in c = v^2 dt^2/dx^2 alone, as layers are the experiment's: with `rate`, what c multiplies in the step of u(k),
 *
 *     dJ/dm = -v^2 c sum of y(k+1) rate(k),    m = 1/v^2,
 *
 * so BACKWARD ts needs u(ts) with all its memory, takes that step again, and uses up the state. No data exist at n: y(n) = 0.
 */
#ifndef CPML_INVERSION_H
#define CPML_INVERSION_H

#include "cpml.h"
#include "shot.h"

typedef struct inversion_t {
    const cpml_t *medium;      /* what is known of the truth */
    const survey_t *survey;
    size_t source;             /* of this shot */
    state_t u, y;
    work_t work;
    real *observed, *synthetic; /* [steps][receivers] */
    real *gradient;            /* -c sum of y rate at all points, over all shots so far; gradient_collect makes dJ/dm of it */
    void (*stepped)(void);     /* called after each time step, forwards or backwards; NULL: nobody counts them */
} inversion_t;

/* 0, or -1: no memory. */
int inversion_open(inversion_t *inv, const cpml_t *medium, const survey_t *survey);
void inversion_close(inversion_t *inv);
/* Models the observed data of shot `number` in the medium `truth`. */
void inversion_observe(inversion_t *inv, const cpml_t *truth, size_t number);
/* Everything at rest: u is state 0. */
void inversion_begin(inversion_t *inv);
/* u(ts-1) -> u(ts); records the data of ts where `record` is not 0. */
void inversion_forward(inversion_t *inv, size_t ts, int record);
/* y(ts+1) -> y(ts), and the gradient's share of the step. inv->u, which is u(ts), is used up. */
void inversion_backward(inversion_t *inv, size_t ts);
/* J of the shot that was observed and recorded. */
double inversion_misfit(const inversion_t *inv);

#endif
