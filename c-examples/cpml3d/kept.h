/* Every state of a shot in plain memory: the result that checkpointing must reproduce. */
#ifndef CPML_KEPT_H
#define CPML_KEPT_H

#include "inversion.h"

typedef struct kept_t {
    size_t steps;
    state_t *states;  /* [steps] */
    double error;     /* largest error that kept_compare has found */
} kept_t;

/* Allocates all states. Returns 0, or -1 with the reason on stderr. */
int kept_open(kept_t *k, const cpml_t *m, size_t steps);
void kept_close(kept_t *k);
/* Adds the gradient of the observed shot, computed with every state kept. */
void kept_gradient(kept_t *k, inversion_t *inv);
/* kept_save keeps a snapshot, kept_compare compares it with the retrieved one: the largest
 * error of each field over the field's largest value; in place of prev the difference curr -
 * prev is compared. */
void kept_save(kept_t *k, const cpml_t *m, size_t ts, const state_t *x);
void kept_compare(kept_t *k, const cpml_t *m, size_t ts, const state_t *x);

#endif
