/*
 * The same migration with every state kept in plain memory: what checkpointing must reproduce.
 * Equal images prove that whatever reached them was equal. They are blind to what did not: a last
 * bit lost in the FP32 sums, the sponge of a state from which no step is taken, and the previous
 * level where every state is saved. Tests of snapshots as such compare the snapshots' bytes.
 */
#ifndef RTM_REFERENCE_H
#define RTM_REFERENCE_H

#include "shot.h"

typedef struct reference_t {
    size_t steps;
    real **states;  /* u(0) .. u(steps-1), one field each: imaging needs no previous level */
} reference_t;

/* Bytes that keeping every state takes; 0 where that number does not fit a size_t. */
size_t reference_bytes(const grid_t *g, size_t steps);
/* 0, or -1 with the reason on stderr, above all when the states do not fit in memory. */
int reference_open(reference_t *r, const grid_t *g, size_t steps);
/* Migrates one shot, whose data were observed, into `image`. */
void reference_migrate(reference_t *r, shot_t *shot, image_t *image);
void reference_close(reference_t *r);

#endif
