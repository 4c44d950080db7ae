/*
 * The migration with every state kept in plain memory, which checkpointing must reproduce.
 * Equal images prove that the states that entered them were equal. They do not show three
 * differences: a last bit lost in the FP32 sums; the sponge of a state from which no step is
 * taken; and the previous time level where every state is saved. Tests of snapshots therefore
 * compare the bytes of snapshots.
 */
#ifndef RTM_REFERENCE_H
#define RTM_REFERENCE_H

#include "shot.h"

typedef struct reference_t {
    size_t steps;
    real **states;  /* u(0) .. u(steps-1), one field each: imaging needs no previous time level */
} reference_t;

/* Bytes of all states; 0 if that number does not fit a size_t. */
size_t reference_bytes(const grid_t *g, size_t steps);
/* Returns 0, or -1 with the reason on stderr, for instance if the states do not fit in memory. */
int reference_open(reference_t *r, const grid_t *g, size_t steps);
/* Migrates one shot, whose data were observed, into `image`, in which every k-th state enters for
 * k = survey->every. */
void reference_migrate(reference_t *r, shot_t *shot, image_t *image);
void reference_close(reference_t *r);

#endif
