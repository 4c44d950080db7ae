/* Measuring a shot, and planning the next ones by what was measured. */
#ifndef RTM_TUNE_H
#define RTM_TUNE_H

#include "checkpoint.h"

/* A profile, as the library gives it, and the plan that it took the place of. Zeroed, it is none. */
typedef struct tuned_t {
    unsigned char *profile;
    uint64_t bytes;
    gpuzip_summary_t before;
} tuned_t;

/* All: 0, or -1 with the reason on stderr. The next shot of `c` is measured. */
int tune_begin(checkpoint_t *c);
/* After that shot: its profile. */
int tune_take(tuned_t *t, checkpoint_t *c);
/* `c` goes on by the profile; c->plan becomes what is planned now. */
int tune_apply(tuned_t *t, checkpoint_t *c);
void tune_free(tuned_t *t);

/* What was measured and chosen, for people, and as keys of an object that has others before. */
void tune_text(const tuned_t *t, const checkpoint_t *c);
void tune_json(const tuned_t *t, const checkpoint_t *c);

#endif
