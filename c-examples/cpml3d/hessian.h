/*
 * Products of the Gauss-Newton Hessian with P directions (inversion.h): 1 + P reverse sweeps over
 * the states of one forward sweep, the gradient's first. The directions v are smooth, the same on
 * every machine, and at most 1.
 *
 * P right sides B v that are known before the reverse sweep could also share one sweep with
 * 1 + P adjoints, which takes fewer steps where memory holds 1 + P adjoint states. Several sweeps
 * need memory for one, and sweep i may depend on what sweep i-1 has computed.
 *
 * What is checked:
 *
 *     H is symmetric:           <v_j, H v_i> = <v_i, H v_j>
 *     H is B' B:                <v_j, H v_i> = <B v_j, B v_i>
 *     B is the derivative of the data F:  |F(m + h v) - F(m) - h B v| = O(h^2),  a Taylor test
 *     the sums of 1 + P sweeps have the bits of those of 1 + P runs of one sweep each.
 */
#ifndef CPML_HESSIAN_H
#define CPML_HESSIAN_H

#include "checkpoint.h"
#include "inversion.h"

#define HESSIAN_MOST 16    /* largest P */
#define HESSIAN_SIZES 4    /* number of h, each half of the one before */

typedef struct hessian_t {
    size_t count;          /* P; 0: the gradient alone, and nothing is checked */
    /* For the runs of one sweep each; its memory for snapshots comes on top of that of all sweeps. */
    checkpoint_t single;
    tangent_t tangent[HESSIAN_MOST];
    real *alone[HESSIAN_MOST + 1];      /* sums of the runs of one sweep: the gradient, then the products */
    cpml_t changed;        /* m + h v; all but its scale belongs to the medium of the inversion */
    real *data;            /* [steps][receivers]: F(m + h v) */
    double born[HESSIAN_MOST][HESSIAN_MOST];        /* <B v_i, B v_j>, summed over shots */
    double remainder[HESSIAN_MOST][HESSIAN_SIZES];  /* |F(m + h v) - F(m) - h B v|^2, summed over shots */
    /* The largest errors of symmetry and of B' B, relative to |B v_i| |B v_j|; the least and the largest
     * order in h of the remainders. */
    double asymmetry, error, least, largest;
    int same;              /* whether the sums of both ways have the same bits */
    double seconds;        /* of all runs of one sweep */
} hessian_t;

/* Makes `count` directions and gives `inv` their tangents. Returns 0, or -1: no memory. */
int hessian_open(hessian_t *h, inversion_t *inv, size_t count);
void hessian_close(hessian_t *h);
/* Time steps of a shot, with or without --verify, beyond those that the plan of its session counts. */
double hessian_steps_of_shot(const hessian_t *h, const inversion_t *inv, int verify);
/* Checks a shot whose sweeps have been computed: does the runs of one sweep and the Taylor test.
 * Returns 0, or -1 with the reason on stderr. */
int hessian_shot(hessian_t *h, inversion_t *inv);
/* Computes the figures after the last shot. Returns whether all of them pass. */
int hessian_judge(hessian_t *h, const inversion_t *inv);
/* Print the figures; `together` is the session of all sweeps. */
void hessian_text(const hessian_t *h, const inversion_t *inv, const checkpoint_t *together);
void hessian_json(const hessian_t *h, const inversion_t *inv, const checkpoint_t *together);

#endif
