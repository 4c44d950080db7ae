/*
 * Acoustic propagator with damping, 2-D and 3-D, of 8th order in space and 2nd order in time:
 *
 *     m u_tt + eta u_t = lap(u) + s,    m = 1/v^2
 */
#ifndef RTM_PROPAGATOR_H
#define RTM_PROPAGATOR_H

#include "grid.h"

/* The coefficients of a velocity model for the time loop; see medium_init. */
typedef struct medium_t {
    grid_t grid;
    real *scale;                   /* K of propagator.c: one value per point */
    real *damp1, *damp2, *damp3;   /* w = damp1[i1] damp2[i2] damp3[i3]; 1 outside the sponge */
} medium_t;

/* A state: two time levels, which are all that a step needs and all that a snapshot holds. */
typedef struct wavefield_t {
    real *curr;  /* u(t) */
    real *prev;  /* u(t-1) */
} wavefield_t;

/* Largest stable time step at the velocity vmax. */
double stable_dt(int dims, double dx, double vmax);
/* Ricker wavelet of peak frequency `freq`, delayed by 1.2/freq so that it starts near zero. */
double ricker(double t, double freq);

/* Computes the coefficients of the model `v` (m/s, model cells, n1 fastest). Returns 0, or -1:
 * no memory. */
int medium_init(medium_t *m, const grid_t *g, double dt, const float *v);
void medium_free(medium_t *m);
/* Changes `to`, another medium of the model of `m`: 1/v^2 of every model cell is that of `m`
 * times 1 + h change[cell]; the sponge is that of `m`. */
void medium_change(medium_t *to, const medium_t *m, double h, const double *change);

/* Allocates both time levels at rest. Returns 0, or -1: no memory. */
int wavefield_init(wavefield_t *w, const grid_t *g);
void wavefield_rest(wavefield_t *w, const grid_t *g);
void wavefield_free(wavefield_t *w);
/* Sets the halo to zero, after a lossy snapshot was retrieved into the arrays, or in memory that
 * was handed out. */
void wavefield_clear_halo(wavefield_t *w, const grid_t *g);

/* One time step without sources: (u(t), u(t-1)) becomes (u(t+1), u(t)). */
void propagate(const medium_t *m, wavefield_t *w);
/* The same step with u(t+1) in `next`, whose halo is zero: either w->prev, which the step
 * overwrites, or other memory, and then w->curr and w->prev keep their values. */
void propagate_to(const medium_t *m, wavefield_t *w, real *next);
/* The step in reverse time, without sources, on the cells of the model alone: there, (u(t), u(t+1)) becomes
 * (u(t-1), u(t)). It reads u(t) in the HALO cells beside every face of the model too. */
void propagate_back(const medium_t *m, wavefield_t *w);
/* Adds the source to w->curr, which a step has just computed; `s` is in units of 1/dx^2. */
void inject(const medium_t *m, wavefield_t *w, size_t index, real s);

/* sum += lambda dx^2 L u at every point. */
void correlate_laplacian(const medium_t *m, const real *u, const real *lambda, real *sum);

#endif
