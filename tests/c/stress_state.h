/* The states of a random application: shapes, the program's copies of all states, and the largest
 * error of a restored state. */
#ifndef STRESS_STATE_H
#define STRESS_STATE_H

#include "stress_common.h"

enum { MOST_FIELDS = 4, MOST_STEPS = 80 };

/* How far a restored value may differ from the saved value. */
typedef struct {
  int exact;   /* 1: every bit must come back */
  int bounded; /* 1: the error is within `bound`; `mode` is gpuzip_config_t.error_bound_mode */
  int mode;
  double bound;
  /* For codecs without an error bound: the largest plausible error, relative to the field's
   * maximum. */
  double loose;
  const char *fill; /* the key fill_value: values that come back exactly and do not count for the bound */
  int shared; /* 1: a previous level may be that of another snapshot, or of a restored state */
} loss_t;

typedef struct {
  uint32_t nfields;
  gpuzip_field_t fields[MOST_FIELDS]; /* shapes; `data` points to the live state */
  size_t bytes[MOST_FIELDS];             /* the values alone, without gaps */
  size_t room[MOST_FIELDS];              /* the memory at `data`, with the gaps of the pitches */
  size_t values[MOST_FIELDS];
  int steps;
  void *copies[MOST_STEPS][MOST_FIELDS]; /* the program's copies of u(0) .. u(steps - 1) */
  int nonfinite;                         /* 1: states may hold NaN or infinities */
  const char *fill;                      /* the value of land, as the key fill_value; NULL: no land */
  double amplitude;                      /* the largest magnitude of a finite value */
} app_t;

/* Chooses shapes at random and computes all states. app_free frees the memory. */
void app_make(app_t *app, random_t *r, int steps);
void app_free(app_t *app);
/* Makes u(ts) the live state by copying the program's copy. */
void app_advance(app_t *app, int ts);
/* As app_advance, for a state that is computed from the live state or, if `is_one_step` is 0, from a
 * state between: its previous levels are the levels of that state, lossy ones too. */
void app_step(app_t *app, int ts, int is_one_step);
/* Copies the live state to contiguous memory, field behind field, of `app_live_bytes` bytes, and
 * back. */
size_t app_live_bytes(const app_t *app);
void app_get_live(const app_t *app, unsigned char *to);
void app_put_live(app_t *app, const unsigned char *from);
/* Keeps the program's copies of the previous levels of the states `ts` with `is_kept[ts]`, which
 * app_step changes; app_bring_back puts them back. The caller frees the memory. */
void *app_keep(const app_t *app, const int *is_kept);
void app_bring_back(app_t *app, const int *is_kept, const void *kept);
/* Overwrites the live state, and the gaps between its rows, with bytes that no state has. */
void app_spoil(app_t *app);
/* Copies field `k` from contiguous memory into the live state. */
void app_put(app_t *app, uint32_t k, const void *values);
/* Moves the memory of the live state to other addresses. */
void app_move(app_t *app);
/* Compares the live state with the program's copy of u(ts); the process ends if `loss` does not
 * allow the difference. */
void app_check(const app_t *app, int ts, const loss_t *loss);

#endif
