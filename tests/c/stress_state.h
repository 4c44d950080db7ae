/* The states of a random application: shapes, own copies of every state, and what a restored one may differ from its copy by. */
#ifndef STRESS_STATE_H
#define STRESS_STATE_H

#include "stress_common.h"

enum { MOST_FIELDS = 4, MOST_STEPS = 80 };

/* How a codec may change what is saved. */
typedef struct {
  int exact;   /* not at all */
  int bounded; /* within `bound` in the sense of `mode`, as gpuzip_config_t.error_bound_mode has it */
  int mode;
  double bound;
  double loose; /* codecs that promise no bound: the largest error, relative to the field's maximum, that is plausible */
} loss_t;

typedef struct {
  uint32_t nfields;
  gpuzip_field_t fields[MOST_FIELDS]; /* shapes; `data` is the live state */
  size_t bytes[MOST_FIELDS];
  size_t values[MOST_FIELDS];
  int steps;
  void *copies[MOST_STEPS][MOST_FIELDS]; /* own copies of u(0) .. u(steps - 1) */
  int nonfinite;                         /* some state holds NaN or infinities */
  double amplitude;                      /* the size of an ordinary value */
} app_t;

/* Makes shapes and all states at random. */
void app_make(app_t *app, random_t *r, int steps);
void app_free(app_t *app);
/* Makes u(ts) the live state, as the application's own time steps would. */
void app_advance(app_t *app, int ts);
/* Overwrites the live state with bytes that no state has. */
void app_spoil(app_t *app);
/* Compares the live state with the own copy of u(ts). */
void app_check(const app_t *app, int ts, const loss_t *loss);

#endif
