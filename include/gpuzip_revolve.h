/*
 * The interface that Griewank and Walther describe in "Algorithm 799: revolve", ACM Transactions on
 * Mathematical Software 26 (2000), played by a schedule of gpuzip. Header only, C99 and C++11; link with
 * libgpuzip. Nothing here is taken from the program of that paper. docs/from-revolve.md is the page.
 *
 *     #define GPUZIP_REVOLVE_NAMES    (or the compiler's option -DGPUZIP_REVOLVE_NAMES)
 *     #include <gpuzip_revolve.h>
 *
 * gives a program the names of the paper: `enum action` with advance, takeshot, restore, firsturn, youturn,
 * terminate and error, and the functions revolve, adjust, maxrange, numforw and expense. Without the macro
 * there are only names that begin with gpuzip_revolve and GPUZIP_REVOLVE.
 *
 * The loop. A run reverses the time steps capo -> capo+1, ..., fine-1 -> fine with at most `snaps`
 * snapshots. It begins with check = -1 and fine > capo; a run before it that has not ended is dropped. Each
 * call answers with an action and sets the variables; the program changes none of them between calls.
 *
 *     advance     compute the states from the old capo to the new capo; record nothing
 *     takeshot    store the live state, u(capo), in slot check, 0 <= check < snaps
 *     restore     the state in slot check, u(capo), becomes the live state
 *     firsturn    the last step capo -> capo+1: compute and record the step, begin the adjoint, do the
 *                 adjoint of the step; the live state before the step is u(capo), and fine is now capo
 *     youturn     the same for an earlier step; the adjoint goes on
 *     terminate   the run is over
 *     error       the run is over; info says why
 *
 * `info` before a call: 0 prints nothing; 1 prints, when the run begins, the number of forward steps; more
 * prints every action, too; to stderr. After error, info is a negative status of gpuzip.h, not a number of
 * the paper, and gpuzip_revolve_t.message is the reason.
 *
 * The fewest forward steps: the steps of all advances together are numforw(steps, snaps).
 */
#ifndef GPUZIP_REVOLVE_H
#define GPUZIP_REVOLVE_H

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuzip.h"

/* What a call of gpuzip_revolve asks the program to do, as the head of this file says. */
enum gpuzip_revolve_action {
  GPUZIP_REVOLVE_ADVANCE,
  GPUZIP_REVOLVE_TAKESHOT,
  GPUZIP_REVOLVE_RESTORE,
  GPUZIP_REVOLVE_FIRSTURN,
  GPUZIP_REVOLVE_YOUTURN,
  GPUZIP_REVOLVE_TERMINATE,
  GPUZIP_REVOLVE_ERROR
};

/* A run. All zero before its first call; zero again after terminate or error, except for the message. */
typedef struct gpuzip_revolve_t {
  gpuzip_schedule_t *schedule; /* NULL: no run */
  int start;                   /* capo at the beginning of the run */
  int snaps, check, capo, fine; /* as the last call left them */
  int live;                    /* number of snapshots that a later restore reads; they are in slots 0, 1, ... */
  const char *message;         /* why the last action was error; valid until the thread's next error */
} gpuzip_revolve_t;

/* The most steps that ss snapshots reverse with no step computed forward more than tt times,
 * beta(ss, tt) = (ss + tt)! / (ss! tt!); INT_MAX if that is larger, -1 if an argument is negative. */
static inline int gpuzip_revolve_maxrange(int ss, int tt)
{
  const long long low = ss < tt ? ss : tt, high = ss < tt ? tt : ss;
  long long range = 1, k;

  if (low < 0) return -1;
  for (k = 1; k <= low && range < INT_MAX; k++) range = range * (high + k) / k;
  return range < INT_MAX ? (int)range : INT_MAX;
}

/* The least number of forward steps with which `snaps` snapshots reverse `steps` steps, the recorded step of
 * each turn not counted: r steps - beta(snaps + 1, r - 1) for the least r with beta(snaps, r) >= steps. -1 if
 * an argument is not positive. */
static inline long long gpuzip_revolve_numforw(int steps, int snaps)
{
  const long long n = steps, s = snaps;
  long long below = 1, range, r; /* beta(s, r - 1), beta(s, r) */

  if (steps < 1 || snaps < 1) return -1;
  if (steps == 1 || snaps == 1) return n * (n - 1) / 2;
  for (r = 1; (range = below * (s + r) / r) < n; r++) below = range;
  return r * n - below * (s + r) / (s + 1);
}

/* Forward steps of a run for each step of the simulation; -1 if an argument is not positive. */
static inline double gpuzip_revolve_expense(int steps, int snaps)
{
  return steps < 1 || snaps < 1 ? -1.0 : (double)gpuzip_revolve_numforw(steps, snaps) / steps;
}

/* A number of snapshots with which memory and time grow alike: the least s with beta(s, s) >= steps. */
static inline int gpuzip_revolve_adjust(int steps)
{
  int s = 1;

  while (gpuzip_revolve_maxrange(s, s) < steps) s++;
  return s;
}

/* Ends a run before terminate, and gives its schedule back. Without a run it does nothing. */
static inline void gpuzip_revolve_end(gpuzip_revolve_t *run)
{
  if (run->schedule != NULL) gpuzip_schedule_release(run->schedule);
  memset(run, 0, sizeof *run);
}

/* Internal: ends the run with an error. */
static inline enum gpuzip_revolve_action gpuzip_revolve_error(gpuzip_revolve_t *run, int *info, int status, const char *message)
{
  gpuzip_revolve_end(run);
  run->message = message;
  if (*info > 0) fprintf(stderr, "gpuzip_revolve: %s\n", message);
  *info = status;
  return GPUZIP_REVOLVE_ERROR;
}

/* Internal: makes the schedule of the run. */
static inline gpuzip_status_t gpuzip_revolve_begin(gpuzip_revolve_t *run, int capo, int fine, int snaps)
{
  gpuzip_config_t config;
  gpuzip_status_t status = gpuzip_config_init(&config);

  gpuzip_revolve_end(run);
  run->start = run->capo = capo;
  run->fine = fine;
  run->snaps = snaps;
  run->check = -1;
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE;
  config.checkpointing_snaps = snaps;
  config.range_actions = 1;
  return status < 0 ? status : gpuzip_schedule_create(&config, fine - capo, &run->schedule);
}

/* Returns the next action of the run, and sets `*check`, `*capo`, `*fine` and `*info`, as the head of this file
 * says. `snaps` is the same in all calls of a run. After GPUZIP_REVOLVE_ERROR `*info` is a status of gpuzip.h:
 * GPUZIP_ERR_ARGUMENT if an argument is wrong or was changed since the last call, or what gpuzip_schedule_create
 * or gpuzip_schedule_get_action returned. */
static inline enum gpuzip_revolve_action gpuzip_revolve(gpuzip_revolve_t *run, int *check, int *capo, int *fine, int snaps, int *info)
{
  static const char *const names[] = {"advance", "takeshot", "restore", "firsturn", "youturn", "terminate"};
  enum gpuzip_revolve_action what = GPUZIP_REVOLVE_TERMINATE;
  gpuzip_status_t status = GPUZIP_OK;
  gpuzip_action_t action;

  /* Within a run check is -1 only when fine = capo. */
  if (*check == -1 && *fine > *capo) {
    if (snaps < 1 || *capo < 0) return gpuzip_revolve_error(run, info, GPUZIP_ERR_ARGUMENT, "a run has snaps >= 1 and capo >= 0");
    if (*info > 0)
      fprintf(stderr, "gpuzip_revolve: %d steps with %d snapshots take %lld forward steps, %.3f for each step\n", *fine - *capo, snaps,
              gpuzip_revolve_numforw(*fine - *capo, snaps), gpuzip_revolve_expense(*fine - *capo, snaps));
    status = gpuzip_revolve_begin(run, *capo, *fine, snaps);
  } else if (run->schedule == NULL) {
    return gpuzip_revolve_error(run, info, GPUZIP_ERR_ARGUMENT, "a run begins with check = -1 and fine > capo");
  } else if (*check != run->check || *capo != run->capo || *fine != run->fine || snaps != run->snaps) {
    return gpuzip_revolve_error(run, info, GPUZIP_ERR_ARGUMENT, "check, capo, fine or snaps was changed since the last call");
  }
  do { /* A snapshot that nothing restores is not taken. */
    if (status >= 0) status = gpuzip_schedule_get_action(run->schedule, &action);
    if (status < 0) return gpuzip_revolve_error(run, info, status, gpuzip_last_error());
  } while (action.type == GPUZIP_ACTION_SAVE && (action.flags & GPUZIP_FLAG_LAST_USE));
  run->check = run->live - 1;
  if (action.type == GPUZIP_ACTION_FORWARD) {
    run->capo = run->start + action.ts_end;
    what = GPUZIP_REVOLVE_ADVANCE;
  } else if (action.type == GPUZIP_ACTION_SAVE) {
    run->check = run->live++;
    what = GPUZIP_REVOLVE_TAKESHOT;
  } else if (action.type == GPUZIP_ACTION_RESTORE) {
    run->capo = run->start + action.ts;
    if (action.flags & GPUZIP_FLAG_LAST_USE) run->live--;
    what = GPUZIP_REVOLVE_RESTORE;
  } else if (action.type == GPUZIP_ACTION_BACKWARD) {
    run->fine = run->capo;
    what = action.flags & GPUZIP_FLAG_FIRST_BACKWARD ? GPUZIP_REVOLVE_FIRSTURN : GPUZIP_REVOLVE_YOUTURN;
  }
  *check = run->check;
  *capo = run->capo;
  *fine = run->fine;
  if (*info > 1) fprintf(stderr, "gpuzip_revolve: %s, check = %d, capo = %d, fine = %d\n", names[what], *check, *capo, *fine);
  if (what == GPUZIP_REVOLVE_TERMINATE) gpuzip_revolve_end(run);
  return what;
}

#ifdef GPUZIP_REVOLVE_NAMES

#if defined(__cplusplus)
#define GPUZIP_REVOLVE_THREAD thread_local
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L && !defined(__STDC_NO_THREADS__)
#define GPUZIP_REVOLVE_THREAD _Thread_local
#elif defined(__GNUC__)
#define GPUZIP_REVOLVE_THREAD __thread
#else
#define GPUZIP_REVOLVE_THREAD
#endif

/* What a call of revolve asks the program to do, by the names of the paper. */
enum action {
  advance = GPUZIP_REVOLVE_ADVANCE,
  takeshot = GPUZIP_REVOLVE_TAKESHOT,
  restore = GPUZIP_REVOLVE_RESTORE,
  firsturn = GPUZIP_REVOLVE_FIRSTURN,
  youturn = GPUZIP_REVOLVE_YOUTURN,
  terminate = GPUZIP_REVOLVE_TERMINATE,
  error = GPUZIP_REVOLVE_ERROR
};

/* As gpuzip_revolve. The paper's function has no argument for its run; here each thread has one in each file
 * that includes this header. Programs with several runs at a time call gpuzip_revolve with a gpuzip_revolve_t
 * for each. */
static inline enum action revolve(int *check, int *capo, int *fine, int snaps, int *info)
{
  static GPUZIP_REVOLVE_THREAD gpuzip_revolve_t run;
  return (enum action)gpuzip_revolve(&run, check, capo, fine, snaps, info);
}
#undef GPUZIP_REVOLVE_THREAD

/* As gpuzip_revolve_maxrange. */
static inline int maxrange(int ss, int tt) { return gpuzip_revolve_maxrange(ss, tt); }

/* As gpuzip_revolve_adjust. */
static inline int adjust(int steps) { return gpuzip_revolve_adjust(steps); }

/* As gpuzip_revolve_expense. */
static inline double expense(int steps, int snaps) { return gpuzip_revolve_expense(steps, snaps); }

/* As gpuzip_revolve_numforw; INT_MAX if the number is larger. */
static inline int numforw(int steps, int snaps)
{
  const long long number = gpuzip_revolve_numforw(steps, snaps);
  return number < INT_MAX ? (int)number : INT_MAX;
}

#endif /* GPUZIP_REVOLVE_NAMES */

#endif /* GPUZIP_REVOLVE_H */
