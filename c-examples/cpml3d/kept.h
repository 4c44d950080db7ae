/* Every state of a shot in plain memory: what checkpointing must reproduce, and what it is compared with. */
#ifndef CPML_KEPT_H
#define CPML_KEPT_H

#include "inversion.h"

typedef struct kept_t {
    size_t steps;
    state_t *states;  /* [steps] */
    double error;     /* the largest of kept_compare so far */
} kept_t;

/* 0, or -1 with the reason on stderr. */
int kept_open(kept_t *k, const cpml_t *m, size_t steps);
void kept_close(kept_t *k);
/* Adds the gradient of the shot that was observed, as checkpointing should. */
void kept_gradient(kept_t *k, inversion_t *inv);
/* A snapshot as it is saved, and as it comes back: of each field the largest error over its largest value; of prev, of curr - prev. */
void kept_save(kept_t *k, const cpml_t *m, size_t ts, const state_t *x);
void kept_compare(kept_t *k, const cpml_t *m, size_t ts, const state_t *x);

#endif
