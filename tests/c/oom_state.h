/* The states of the sessions of oom.c, whose values are known, and the errors of its trials. */
#ifndef OOM_STATE_H
#define OOM_STATE_H

#include <gpuzip.h>
#include <stddef.h>

/* PULL: a session in the pull loop. ZERO_COPY: the pull loop with zero copy. RUN: a session by
 * callbacks. ATTACH: a session attached to a schedule. AUTOTUNE: a session that measures and
 * exchanges its profile. FILES: a session whose configuration file is loaded within the trial.
 * THREADS: one thread for each of the modes that `config` names, all at the same time. REPEAT:
 * gpuzip_init of the mode that `config` names, TRIES times in a row. SCHEDULE: a schedule without
 * a session. CODEC: compression and decompression without a session. LOAD: gpuzip_config_load
 * alone. */
enum kind { PULL, ZERO_COPY, RUN, ATTACH, AUTOTUNE, FILES, THREADS, REPEAT, SCHEDULE, CODEC, LOAD };

struct mode {
  const char *name;
  enum kind kind;
  int steps, nfields;
  uint64_t n[3];
  int type;
  double tolerance; /* largest absolute error of a restored value; all values lie in -1..1 */
  const char *config;
  unsigned long least; /* requests of fewer bytes are not counted and do not fail */
  int spread;          /* n1 takes up to `spread` different values; 0: all fields have one shape */
};

/* Memory shared by parent and child: the parent reads it when a trial has killed the child. */
struct shared {
  long n, trials, failed, errors, peak;
  int how, finished;
};
extern struct shared *shared;

/* The mode of the trials. With THREADS and REPEAT, `mode` is the member that one thread or try
 * runs. */
extern const struct mode *whole;
extern __thread const struct mode *mode;
extern __thread gpuzip_field_t *fields;
extern __thread size_t value_bytes;

/* Prints what is wrong in which trial, and ends the process. */
void die(const char *format, ...);
/* Returns 1 if the call failed, else 0. A failed call must have left an error text. */
int failed(gpuzip_status_t status, const char *call);
#define FAILS(call) failed(call, #call)

/* Returns the number of values of field k. */
size_t values(int k);
/* Returns the i-th value of field k in state u(ts). Fields 2j and 2j + 1 hold one wave: field 2j is
 * the previous time level of field 2j + 1. */
double value(int k, int ts, size_t i);
/* Returns the i-th of the values at `data`. */
double at(const void *data, size_t i);
void set_state(gpuzip_field_t *to, int ts);
void check_state(const gpuzip_field_t *of, int ts);

#endif
