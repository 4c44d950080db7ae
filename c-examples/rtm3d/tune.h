/* Measures a profile during a shot and plans the next shots with it. */
#ifndef RTM_TUNE_H
#define RTM_TUNE_H

#include "checkpoint.h"

/* A profile as bytes, and the plan before it was used. All members zero: no profile. */
typedef struct tuned_t {
    unsigned char *profile;
    uint64_t bytes;
    gpuzip_summary_t before;
} tuned_t;

/* Measures the next shot of `c`. This function and the two below return 0, or -1 with the
 * reason on stderr. */
int tune_begin(checkpoint_t *c);
/* Takes the profile after that shot. */
int tune_take(tuned_t *t, checkpoint_t *c);
/* Makes a new plan for `c` with the profile; c->plan becomes the new plan. */
int tune_apply(tuned_t *t, checkpoint_t *c);
void tune_free(tuned_t *t);

/* Prints the measurements and the new plan: as text, or as members of a JSON object that has
 * other members before. */
void tune_text(const tuned_t *t, const checkpoint_t *c);
void tune_json(const tuned_t *t, const checkpoint_t *c);

#endif
