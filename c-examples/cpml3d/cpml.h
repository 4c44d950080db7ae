/*
 * Acoustic propagator with convolutional perfectly matched layers (CPML), 2-D and 3-D, of 8th
 * order in space and 2nd order in time:
 *
 *     m u_tt = sum over axes a of (d_a (d_a u + psi_a) + zeta_a) + s,    m = 1/v^2.
 *
 * In a layer d_a is stretched to (1/s) d_a with s = 1 + d/(alpha + i omega), a convolution in
 * time. Roden and Gedney (2000) compute it by a recursion, with one memory variable for each of
 * the two derivatives (Pasalic and McGarry 2010):
 *
 *     psi+  = b psi + a d_a u
 *     zeta+ = b zeta + a d_a (d_a u + psi+)
 *     b = exp(-(d+alpha) dt),    a = d/(d+alpha) (b-1).
 *
 * The memory variables exist in the layers only. A state is two fields of the whole grid and
 * two slabs for each axis: four, six or eight fields of different sizes. Waves in these layers
 * cannot be computed backwards in time, so the adjoint needs saved states.
 */
#ifndef CPML_CPML_H
#define CPML_CPML_H

#include "grid.h"

#define AXES 3

/* Memory variables of one derivative along one axis: both layers, the low one first. */
typedef struct slab_t {
    /* Shape, n[0] fastest: 2 border along the axis, otherwise the points between the halos. */
    size_t n[AXES];
    size_t count;     /* product of n */
    size_t *point;    /* [count]: for each value, its index into a field */
    real *a, *b;      /* [count]: coefficients of the recursion */
} slab_t;

typedef struct cpml_t {
    grid_t grid;      /* `border` is the width of a layer */
    int dims;
    real *scale;      /* c = (v dt/dx)^2, one value per point */
    slab_t psi[AXES]; /* at points i+1/2 along their axis */
    slab_t zeta[AXES];
} cpml_t;

/* u(t), u(t-1), and the memory variables at time t. */
typedef struct state_t {
    real *curr, *prev;
    real *psi[AXES], *zeta[AXES];  /* NULL for an axis that is not in use */
} state_t;

/* Arrays that a step needs besides the state. */
typedef struct work_t {
    real *rate;       /* right side of the wave equation in the last step, times dx^2 */
    real *p, *q;
} work_t;

/* Largest stable time step at the velocity vmax. */
double cpml_stable_dt(int dims, double dx, double vmax);
/* Computes the coefficients of the model `v` (m/s, model cells, n1 fastest), with layers that
 * reflect least near `freq` Hz. Returns 0, or -1: no memory. */
int cpml_init(cpml_t *m, const grid_t *g, double dt, double freq, const float *v);
void cpml_free(cpml_t *m);

/* Allocates a state at rest. Returns 0, or -1: no memory. */
int state_init(state_t *x, const cpml_t *m);
void state_rest(state_t *x, const cpml_t *m);
void state_copy(const cpml_t *m, state_t *to, const state_t *from);
void state_free(state_t *x);
/* Bytes of all fields of a state. */
size_t state_bytes(const cpml_t *m);

int work_init(work_t *w, const grid_t *g);
void work_free(work_t *w);

/* Computes x(t) -> x(t+1) with the source `s` (in units of 1/dx^2) at `index`; w->rate becomes
 * the rate of this step, source included. */
void cpml_step(const cpml_t *m, state_t *x, work_t *w, size_t index, real s);
/* The transpose of cpml_step without its source: y, the derivatives of a number by x(t+1),
 * becomes the derivatives by x(t). w->q becomes c y. */
void cpml_adjoint_step(const cpml_t *m, state_t *y, work_t *w);

#endif
