/*
 * Acoustic propagator with convolutional perfectly matched layers (CPML), 2-D and 3-D, 8th order in space, 2nd in time:
 *
 *     m u_tt = sum over axes a of (d_a (d_a u + psi_a) + zeta_a) + s,    m = 1/v^2.
 *
 * In a layer d_a is stretched, (1/s) d_a with s = 1 + d/(alpha + i omega): a convolution in time, which by Roden and Gedney (2000)
 * is a recursion of one memory variable for each of the two derivatives (Pasalic and McGarry 2010):
 *
 *     psi+ = b psi + a d_a u,    zeta+ = b zeta + a d_a (d_a u + psi+),    b = exp(-(d+alpha) dt),    a = d/(d+alpha) (b-1).
 *
 * Memory lives in the layers alone, so a state is two fields of the whole grid and two slabs per axis: four, six or eight fields
 * of unequal size. Waves cannot be run backwards through it, which is what checkpointing is for.
 */
#ifndef CPML_CPML_H
#define CPML_CPML_H

#include "grid.h"

#define AXES 3

/* Memory of one derivative along one axis: both layers of it, the low one first. */
typedef struct slab_t {
    size_t n[AXES];   /* its shape, n[0] fastest: 2 border along the axis, else the points between the halos */
    size_t count;     /* their product */
    size_t *point;    /* [count]: index into a field of each value */
    real *a, *b;      /* [count]: the coefficients of the recursion */
} slab_t;

typedef struct cpml_t {
    grid_t grid;      /* `border` is the width of a layer */
    int dims;
    real *scale;      /* c = (v dt/dx)^2, one value per point */
    slab_t psi[AXES]; /* at points i+1/2 along their axis */
    slab_t zeta[AXES];
} cpml_t;

/* u(t), u(t-1), and the memory that came with u(t). */
typedef struct state_t {
    real *curr, *prev;
    real *psi[AXES], *zeta[AXES];  /* NULL for an axis that is not in use */
} state_t;

/* Room for a step. */
typedef struct work_t {
    real *rate;       /* dx^2 times the right side of the wave equation, of the last step */
    real *p, *q;
} work_t;

/* Largest stable time step at the velocity vmax. */
double cpml_stable_dt(int dims, double dx, double vmax);
/* The model `v` (m/s, model cells, n1 fastest); layers that reflect least near `freq` Hz. 0, or -1: no memory. */
int cpml_init(cpml_t *m, const grid_t *g, double dt, double freq, const float *v);
void cpml_free(cpml_t *m);

/* At rest. 0, or -1: no memory. */
int state_init(state_t *x, const cpml_t *m);
void state_rest(state_t *x, const cpml_t *m);
void state_copy(const cpml_t *m, state_t *to, const state_t *from);
void state_free(state_t *x);
/* Bytes of all fields of a state. */
size_t state_bytes(const cpml_t *m);

int work_init(work_t *w, const grid_t *g);
void work_free(work_t *w);

/* x(t) -> x(t+1), with the source `s` (in units of 1/dx^2) at `index`; w->rate is that of the step, source included. */
void cpml_step(const cpml_t *m, state_t *x, work_t *w, size_t index, real s);
/* The transpose of cpml_step without its source: the derivatives y of anything by x(t+1) become those by x(t). w->q has c y. */
void cpml_adjoint_step(const cpml_t *m, state_t *y, work_t *w);

#endif
