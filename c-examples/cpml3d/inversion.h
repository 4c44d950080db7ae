/*
 * Misfit and gradient of waveform inversion with the propagator of cpml.h, one shot at a time.
 * x(k) is the whole state, u and all memory variables; s is the source, d the observed data,
 * and R takes the values at the receivers:
 *
 *     x(k+1) = M x(k) + c s(k),   k = 0 .. n-2
 *     J = 1/2 sum over k = 1 .. n-1 of |R u(k) - d(k)|^2
 *
 * The derivatives y(k) of J by x(k) are
 *
 *     y(k) = M' (y(k+1) + R' (R u(k+1) - d(k+1))),
 *
 * where M' is transposed line by line, layers included. Of all coefficients only c = v^2
 * dt^2/dx^2 depends on the velocity, since the layers belong to the experiment. With `rate`,
 * the factor of c in the step of u(k),
 *
 *     dJ/dm = -v^2 c sum of y(k+1) rate(k),    m = 1/v^2.
 *
 * So BACKWARD ts needs u(ts) with all its memory variables; it makes the step from u(ts) again
 * and overwrites the state. There are no data at n: y(n) = 0.
 *
 * A tangent dx(k) is the derivative of x(k) by m along a relative change v of m: dc = -c v, so
 *
 *     dx(k+1) = M dx(k) - c v rate(k),    dx(0) = 0,
 *
 * and B v = R du, with the field du of dx, is the derivative of the data. With B v(k+1) in place
 * of the residual, -c sum of y rate is the Gauss-Newton Hessian's product with v: H v = B' B v.
 * Tangents advance with the states of the forward sweep; their data are all that the reverse
 * sweeps need.
 */
#ifndef CPML_INVERSION_H
#define CPML_INVERSION_H

#include "cpml.h"
#include "shot.h"

typedef struct tangent_t {
    real *change;              /* v at all points */
    state_t dx;
    real *data;                /* [steps][receivers]: B v of this shot */
    /* H v = -c sum of y rate at all points, over all shots so far: the derivative by the relative
     * change of m */
    real *product;
} tangent_t;

typedef struct inversion_t {
    const cpml_t *medium;      /* the approximate model in which waves are migrated */
    const survey_t *survey;
    size_t source;             /* position of this shot */
    state_t u, y;
    work_t work;
    real *observed, *synthetic; /* [steps][receivers] */
    /* -c sum of y rate at all points, over all shots so far; input of gradient_collect */
    real *gradient;
    /* Reverse sweep 0 propagates the residual back and adds to `gradient`; sweep i propagates the
     * data of tangent[i-1] back and adds to its product. A run plays the sweeps `first`, ...,
     * `tangents`. A gradient alone: both are 0. */
    tangent_t *tangent;
    size_t tangents, first;
    size_t sweep;              /* the current one */
    void (*stepped)(void);     /* called after each forward or backward step, or NULL */
} inversion_t;

/* Allocates the arrays. Returns 0, or -1: no memory. */
int inversion_open(inversion_t *inv, const cpml_t *medium, const survey_t *survey);
void inversion_close(inversion_t *inv);
/* Number of reverse sweeps of a run. */
size_t inversion_sweeps(const inversion_t *inv);
/* Sets the gradient and all products to zero. */
void inversion_clear(inversion_t *inv);
/* Models the observed data of shot `number` in the medium `truth`. */
void inversion_observe(inversion_t *inv, const cpml_t *truth, size_t number);
/* Sets all fields to zero: u is state 0, and the first reverse sweep is the current one. */
void inversion_begin(inversion_t *inv);
/* Sets y to zero for the next reverse sweep. */
void inversion_rewind(inversion_t *inv);
/* Computes u(ts-1) -> u(ts). If `record` is not 0, for the first time: records the data at ts, and
 * advances the tangents with u. */
void inversion_forward(inversion_t *inv, size_t ts, int record);
/* Computes y(ts+1) -> y(ts) and adds the step's share of the current sweep's sum. inv->u must
 * be u(ts), and is overwritten. */
void inversion_backward(inversion_t *inv, size_t ts);
/* J of the shot whose data were observed and recorded. */
double inversion_misfit(const inversion_t *inv);

#endif
