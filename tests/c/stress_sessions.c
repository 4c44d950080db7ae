/* Runs random sessions on the host backend. Each restored state is compared with the program's own
 * copy of that state, and each action with the rules of checkpointing. All random choices of a job
 * follow from its number.
 *
 *   stress_sessions FIRST COUNT
 *
 * runs the jobs FIRST .. FIRST + COUNT - 1 and prints counts of their results. The program exits
 * with 1 at the first failed check. */
#define _POSIX_C_SOURCE 200809L
#include "stress_state.h"

#include <fenv.h>
#include <string.h>
#include <unistd.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

_Thread_local uint64_t current_job;

typedef struct {
  uint64_t refused, ran, shots, broken, saves, restores, actions, misused;
} counts_t;

typedef struct {
  random_t random;
  gpuzip_config_t config;
  loss_t loss;
  int steps, sessions, rounding, flush;
  int every;         /* time steps of a BACKWARD */
  int open, ended;   /* the number of steps is told by gpuzip_end_forward; it was told in this shot */
  gpuzip_t *handles[2];
  gpuzip_schedule_t *schedule;
  app_t apps[2];
  int live, reversed, in_advance, saved_at[MOST_STEPS], seen[MOST_STEPS];
  void *given[2][MOST_FIELDS]; /* zero copy: the slot from gpuzip_save_begin for the next SAVE */
  uint64_t forward_steps;
  counts_t *counts;
} job_t;

/* Returns the control bits of the floating-point environment: rounding, flush to zero, traps. */
static unsigned control(void)
{
#ifdef __SSE2__
  return _mm_getcsr() & 0xffc0u;
#else
  return (unsigned)fegetround();
#endif
}

static void enter(const job_t *job)
{
  fesetround(job->rounding);
#ifdef __SSE2__
  if (job->flush) _mm_setcsr(_mm_getcsr() | 0x8040u); /* flush to zero, denormals are zero */
#endif
}

static void leave(const job_t *job, unsigned before)
{
  CHECK(control() == before, "the call changed the floating-point environment");
  fesetround(FE_TONEAREST);
#ifdef __SSE2__
  _mm_setcsr(_mm_getcsr() & ~0x8040u);
#endif
  (void)job;
}

/* Calls the library in the job's floating-point environment. */
#define IN(job, status, call)           \
  do {                                  \
    enter(job);                         \
    const unsigned before_ = control(); \
    (status) = (call);                  \
    leave(job, before_);                \
  } while (0)

static void choose_codec(job_t *job, double amplitude)
{
  static const int codecs[] = {0, 0, 0, 1, 3, 4, 4, 5, 5, 6, 7, 15};
  random_t *r = &job->random;
  gpuzip_config_t *c = &job->config;
  const loss_t exact = {1, 0, 0, 0.0, 0.0};
  job->loss = exact;
  c->compressor = codecs[between(r, 0, 11)];
  if (c->compressor == 0) return;
  job->loss.exact = 0;
  if (once_in(r, 3)) c->compression_factor = (float)between(r, 1, 12);
  c->nonfinite = once_in(r, 10);
  if (c->compressor == 1) c->zfp_bit_rate = (int32_t)between(r, 12, 32), job->loss.loose = 1.0;
  if (c->compressor == 6) job->loss.loose = 1e-2;
  if (c->compressor == 7) job->loss.loose = 0.1;
  if (c->compressor == 1 || c->compressor == 6 || c->compressor == 7) return;
  static const double bounds[] = {1e-1, 1e-2, 1e-3, 1e-5, 1e-8, 1e-14};
  job->loss.bounded = 1;
  c->error_bound_mode = (int32_t)between(r, 0, 3);
  c->error_bound = bounds[between(r, 0, 5)];
  if (c->error_bound_mode == 1) c->error_bound *= amplitude;
  if (c->error_bound_mode == 3) c->error_bound = (double)between(r, 20, 120);
  job->loss.mode = c->error_bound_mode, job->loss.bound = c->error_bound;
}

/* Removes contradictions from the configuration, so that gpuzip refuses only some of the jobs. */
static void settle(job_t *job)
{
  gpuzip_config_t *c = &job->config;
  const int algorithm = c->checkpointing_algorithm;
  if (c->zero_copy) c->policy = 0;
  if (c->zero_copy || c->policy || c->compressor) c->shared_levels = 0;
  if (c->compressor == 15 && c->compression_factor <= 1.0f) c->nonfinite = 0;
  if (algorithm == GPUZIP_ALGORITHM_ONLINE) c->zero_copy = c->policy = c->shared_levels = c->adjoint_every = 0;
  if (c->adjoint_every > 1) c->shared_levels = 0;
  if (c->mixed_storage == 1 && (!c->compressor || c->policy || algorithm == GPUZIP_ALGORITHM_ONLINE)) c->mixed_storage = 0;
  const int needs_snapshots = algorithm == GPUZIP_ALGORITHM_UNIFORM || algorithm == GPUZIP_ALGORITHM_TWO_LEVEL ||
                              algorithm == GPUZIP_ALGORITHM_HREVOLVE || algorithm == GPUZIP_ALGORITHM_ONLINE;
  if (needs_snapshots && !c->host_budget && !c->device_budget && !c->checkpointing_snaps) c->checkpointing_snaps = 5;
  if (algorithm == GPUZIP_ALGORITHM_ZCUT || algorithm == GPUZIP_ALGORITHM_TWO_LEVEL) c->schedule_chunk = 0;
  if (algorithm == GPUZIP_ALGORITHM_HREVOLVE && c->schedule_chunk == 1) c->schedule_chunk = 2;
  if (algorithm == GPUZIP_ALGORITHM_STORE_ALL) c->checkpointing_snaps = 0, c->host_budget = c->device_budget = 0;
}

/* Writes a Revolve schedule into a trace file and configures the algorithm `trace` to replay it. */
static void record(job_t *job)
{
  static const char *const names[] = {"FORWARD", "SAVE", "RESTORE", "BACKWARD", "TERMINATE"};
  static char path[64];
  gpuzip_config_t config;
  gpuzip_schedule_t *schedule = NULL;
  gpuzip_action_t a;
  gpuzip_config_init(&config);
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE;
  config.checkpointing_snaps = (int32_t)between(&job->random, 1, 9);
  snprintf(path, sizeof path, "stress-%ld.trace", (long)getpid());
  FILE *file = fopen(path, "w");
  /* A trace counts the time steps of a BACKWARD as one. */
  const int every = job->config.adjoint_every > 1 ? job->config.adjoint_every : 1;
  CHECK(file != NULL && gpuzip_schedule_create(&config, (job->steps + every - 1) / every, &schedule) == GPUZIP_OK, "%s", path);
  do {
    CHECK(gpuzip_schedule_get_action(schedule, &a) == GPUZIP_OK, "a schedule to record");
    fprintf(file, "%d %s\n", a.ts, names[a.type]);
  } while (a.type != GPUZIP_ACTION_TERMINATE);
  CHECK(fclose(file) == 0 && gpuzip_schedule_release(schedule) == GPUZIP_OK, "%s", path);
  job->config.checkpointing_algorithm = GPUZIP_ALGORITHM_TRACE;
  job->config.trace_file_path = path;
}

static void choose(job_t *job)
{
  random_t *r = &job->random;
  gpuzip_config_t *c = &job->config;
  uint64_t raw = 0;
  gpuzip_config_init(c);
  job->steps = (int)(once_in(r, 4) ? between(r, 1, 5) : between(r, 1, MOST_STEPS));
  job->sessions = once_in(r, 10) ? 2 : 1;
  for (int k = 0; k < job->sessions; k++) app_make(&job->apps[k], r, job->steps);
  for (uint32_t k = 0; k < job->apps[0].nfields; k++) raw += job->apps[0].bytes[k] + 256;
  c->backend = 1;
  c->log_level = 3;
  c->checkpointing_algorithm = (int32_t)between(r, 1, 8);
  if (c->checkpointing_algorithm >= 7) c->checkpointing_algorithm++; /* 7 is no algorithm */
  if (!once_in(r, 5)) c->checkpointing_snaps = (int32_t)between(r, 1, 14);
  c->cache_capacity = (int32_t)between(r, 0, 7);
  if (once_in(r, 3)) c->device_budget = raw * (uint64_t)between(r, 1, 12) + (uint64_t)between(r, 0, 300);
  if (once_in(r, 3)) c->host_budget = raw * (uint64_t)between(r, 1, 30) + (uint64_t)between(r, 0, 300);
  c->policy = once_in(r, 4);
  c->range_actions = once_in(r, 3);
  c->snapshot_rule = once_in(r, 12);
  c->schedule_chunk = (int32_t)(once_in(r, 3) ? between(r, 1, 20) : 0);
  c->uniform_reading = once_in(r, 6);
  c->zero_copy = once_in(r, 4);
  c->shared_levels = once_in(r, 3);
  if (once_in(r, 4)) c->adjoint_every = (int32_t)between(r, 0, 7);
  c->mixed_storage = (int32_t)(once_in(r, 2) ? between(r, 1, 2) : 0);
  if (once_in(r, 30)) c->link_bandwidth = 2e9;
  choose_codec(job, job->apps[0].amplitude);
  if (!once_in(r, 10)) settle(job);
  static const int roundings[] = {FE_TONEAREST, FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  job->rounding = roundings[between(r, 0, 4)];
  job->flush = once_in(r, 3);
  if (once_in(r, 10)) record(job);
  job->every = c->adjoint_every > 1 ? c->adjoint_every : 1;
  job->open = c->checkpointing_algorithm == GPUZIP_ALGORITHM_ONLINE && c->compressor != GPUZIP_COMPRESSOR_AUTO &&
              job->steps > 1 && once_in(r, 2);
}

/* Makes the sessions. Returns 0 if gpuzip refuses the configuration with an error text, else 1. */
static int open_sessions(job_t *job)
{
  int32_t status;
  const int steps = job->open ? 0 : job->steps;
  if (job->sessions == 1) {
    IN(job, status, gpuzip_init(&job->config, steps, job->apps[0].fields, job->apps[0].nfields, &job->handles[0]));
  } else {
    IN(job, status, gpuzip_schedule_create(&job->config, steps, &job->schedule));
    for (int k = 0; k < 2 && status == GPUZIP_OK; k++)
      IN(job, status, gpuzip_attach(job->schedule, &job->config, job->apps[k].fields, job->apps[k].nfields, &job->handles[k]));
  }
  if (status == GPUZIP_OK) return 1;
  CHECK(status == GPUZIP_ERR_CONFIG || status == GPUZIP_ERR_BUDGET || status == GPUZIP_ERR_UNSUPPORTED, "status %d", status);
  CHECK(strlen(gpuzip_last_error()) > 20, "a refusal without a reason");
  return 0;
}

/* Makes a call that does not fit the current action; the call must fail and change nothing. */
static void misuse(job_t *job, const gpuzip_action_t *now)
{
  app_t *app = &job->apps[0];
  void *data[MOST_FIELDS];
  gpuzip_action_t action;
  int32_t status;
  const int32_t other = job->steps + 7; /* no state has this number */
  switch (between(&job->random, 0, 6)) {
    case 0: IN(job, status, gpuzip_save(job->handles[0], other, app->fields, app->nfields, NULL)); break;
    case 1: IN(job, status, gpuzip_retrieve(job->handles[0], other, app->fields, app->nfields, NULL)); break;
    case 2: IN(job, status, gpuzip_save(job->handles[0], now->ts, app->fields, app->nfields + 1, NULL)); break;
    case 3: IN(job, status, gpuzip_retrieve_release(job->handles[0], other, NULL)); break;
    case 4: IN(job, status, gpuzip_save_begin(job->handles[0], other, data, app->nfields, NULL)); break;
    case 5: IN(job, status, gpuzip_get_action(job->handles[0], NULL)); break;
    default:
      if (now->type != GPUZIP_ACTION_SAVE && now->type != GPUZIP_ACTION_RESTORE) return;
      /* The current SAVE or RESTORE is not served yet. */
      IN(job, status, gpuzip_get_action(job->handles[0], &action));
  }
  CHECK(status < 0, "a call that does not fit succeeded");
  job->counts->misused++;
}

static int32_t store(job_t *job, int k, int32_t ts)
{
  app_t *app = &job->apps[k];
  int32_t status;
  if (!job->config.zero_copy) {
    IN(job, status, gpuzip_save(job->handles[k], ts, app->fields, app->nfields, NULL));
    app_spoil(app); /* gpuzip_save has read the fields before it returns */
    app_advance(app, ts);
    return status;
  }
  if (job->given[k][0] == NULL) {
    IN(job, status, gpuzip_save_begin(job->handles[k], ts, job->given[k], app->nfields, NULL));
    if (status != GPUZIP_OK) return status;
  }
  for (uint32_t f = 0; f < app->nfields; f++) memcpy(job->given[k][f], app->copies[ts][f], app->bytes[f]);
  job->given[k][0] = NULL;
  IN(job, status, gpuzip_save_commit(job->handles[k], ts, NULL));
  return status;
}

static int32_t fetch(job_t *job, int k, int32_t ts)
{
  app_t *app = &job->apps[k];
  void *data[MOST_FIELDS];
  int32_t status;
  app_spoil(app);
  if (!job->config.zero_copy) {
    IN(job, status, gpuzip_retrieve(job->handles[k], ts, app->fields, app->nfields, NULL));
    return status;
  }
  IN(job, status, gpuzip_retrieve_acquire(job->handles[k], ts, data, app->nfields, NULL));
  if (status != GPUZIP_OK) return status;
  for (uint32_t f = 0; f < app->nfields; f++) memcpy(app->fields[f].data, data[f], app->bytes[f]);
  if (once_in(&job->random, 2)) IN(job, status, gpuzip_retrieve_release(job->handles[k], ts, NULL));
  return status;
}

static int32_t serve(job_t *job, const gpuzip_action_t *a)
{
  int32_t status = GPUZIP_OK;
  for (int k = 0; k < job->sessions && status == GPUZIP_OK; k++) {
    if (a->type == GPUZIP_ACTION_SAVE) {
      CHECK(job->live == a->ts, "SAVE %d of state %d", a->ts, job->live);
      status = store(job, k, a->ts);
      job->saved_at[a->ts] = 1, job->counts->saves++;
    } else {
      CHECK(job->saved_at[a->ts], "RESTORE %d of no snapshot", a->ts);
      status = fetch(job, k, a->ts);
      if (status != GPUZIP_OK) break;
      app_check(&job->apps[k], a->ts, &job->loss);
      app_advance(&job->apps[k], a->ts);
      job->counts->restores++;
    }
  }
  if (a->type == GPUZIP_ACTION_RESTORE) job->live = a->ts;
  if (a->flags & GPUZIP_FLAG_LAST_USE) job->saved_at[a->ts] = 0;
  return status;
}

static void forward(job_t *job, int32_t ts, int32_t ts_end, uint32_t flags)
{
  CHECK(job->live == ts - 1 && ts <= ts_end && ts_end < job->steps, "FORWARD %d to %d from state %d", ts, ts_end, job->live);
  CHECK(ts == ts_end || job->config.range_actions, "a range that nobody asked for");
  CHECK(!(flags & GPUZIP_FLAG_RECOMPUTE) == !job->seen[ts_end], "FORWARD %d has the wrong flag RECOMPUTE", ts_end);
  for (int t = ts; t <= ts_end; t++) job->seen[t] = 1;
  job->forward_steps += (uint64_t)(ts_end - ts + 1);
  job->live = ts_end;
  for (int k = 0; k < job->sessions; k++) app_advance(&job->apps[k], ts_end);
}

static void backward(job_t *job, int32_t ts, int32_t ts_end, uint32_t flags)
{
  CHECK(ts_end == job->reversed - 1 && ts == job->live, "BACKWARD %d to %d after %d, state %d is live", ts, ts_end, job->reversed, job->live);
  CHECK(ts % job->every == 0 && (ts_end - ts + 1 == job->every || ts_end == job->steps - 1), "BACKWARD %d to %d", ts, ts_end);
  CHECK(!(flags & GPUZIP_FLAG_FIRST_BACKWARD) == (ts_end != job->steps - 1), "the wrong flag FIRST_BACKWARD");
  CHECK(!job->open || job->ended, "BACKWARD %d before the forward phase ended", ts);
  job->reversed = ts;
}

/* Ends the forward phase if its number of steps is not known and its last state is live. */
static int32_t end_forward(job_t *job)
{
  int32_t status = GPUZIP_OK;
  if (!job->open || job->ended || job->live != job->steps - 1) return GPUZIP_OK;
  job->ended = 1;
  IN(job, status, gpuzip_end_forward(job->handles[0]));
  return status;
}

static void begin_shot(job_t *job)
{
  job->live = 0, job->reversed = job->steps, job->forward_steps = 0, job->ended = 0;
  memset(job->saved_at, 0, sizeof job->saved_at);
  memset(job->seen, 0, sizeof job->seen);
  memset(job->given, 0, sizeof job->given);
  for (int k = 0; k < job->sessions; k++) app_advance(&job->apps[k], 0);
}

static int32_t next_action(job_t *job, gpuzip_action_t *a)
{
  int32_t status;
  if (job->schedule == NULL) {
    IN(job, status, gpuzip_get_action(job->handles[0], a));
    return status;
  }
  IN(job, status, gpuzip_schedule_get_action(job->schedule, a));
  for (int k = 0; k < 2 && status == GPUZIP_OK; k++) IN(job, status, gpuzip_dispatch(job->handles[k], a->it));
  return status;
}

/* Checks that the error which ended a shot early was due: a compressed snapshot that does not fit
 * the budgets, values that the configuration refuses, or, at the first action of a shared schedule,
 * a configuration for which no plan fits all sessions. */
static void check_failure(const job_t *job, int32_t status)
{
  const int is_refused = status == GPUZIP_ERR_CONFIG || status == GPUZIP_ERR_UNSUPPORTED;
  if (is_refused && job->schedule != NULL && job->live == 0) {
    job->counts->refused++;
    return;
  }
  const int refuses = job->config.nonfinite && (job->apps[0].nonfinite || (job->sessions == 2 && job->apps[1].nonfinite));
  CHECK(status == GPUZIP_ERR_BUDGET || (status == GPUZIP_ERR_VALUES && refuses), "status %d", status);
  job->counts->broken++;
}

/* Runs one shot in the pull loop. Returns 0 if the shot ended early, by an error or given up by the
 * program, else 1. */
static int pull(job_t *job)
{
  const int64_t give_up = once_in(&job->random, 12) ? between(&job->random, 0, 60) : -1;
  gpuzip_action_t a;
  begin_shot(job);
  for (;;) {
    int32_t status = next_action(job, &a);
    if (status != GPUZIP_OK) return check_failure(job, status), 0;
    job->counts->actions++;
    if (a.it == give_up) return 0;
    if (once_in(&job->random, 40)) misuse(job, &a);
    switch (a.type) {
      case GPUZIP_ACTION_FORWARD:
        forward(job, a.ts, a.ts_end, a.flags);
        if (job->config.zero_copy && (a.flags & GPUZIP_FLAG_NEXT_IS_SAVE) && once_in(&job->random, 2))
          for (int k = 0; k < job->sessions && status == GPUZIP_OK; k++)
            IN(job, status, gpuzip_save_begin(job->handles[k], a.ts_end, job->given[k], job->apps[k].nfields, NULL));
        /* The last state may be saved before the forward phase ends. */
        if (!(a.flags & GPUZIP_FLAG_NEXT_IS_SAVE) || once_in(&job->random, 2)) status = end_forward(job);
        break;
      case GPUZIP_ACTION_SAVE:
        status = serve(job, &a);
        if (status == GPUZIP_OK) status = end_forward(job);
        break;
      case GPUZIP_ACTION_RESTORE: status = serve(job, &a); break;
      case GPUZIP_ACTION_BACKWARD: backward(job, a.ts, a.ts_end, a.flags); break;
      case GPUZIP_ACTION_TERMINATE: return 1;
      default: CHECK(0, "action %d", a.type);
    }
    if (status != GPUZIP_OK) return check_failure(job, status), 0;
  }
}

static int32_t on_forward(void *user, int32_t ts, int32_t ts_end, uint32_t flags)
{
  job_t *job = user;
  forward(job, ts, ts_end, flags);
  CHECK(end_forward(job) == GPUZIP_OK, "the end of the forward phase");
  return once_in(&job->random, 2000) ? 77 : 0;
}

static int32_t on_backward(void *user, int32_t ts, uint32_t flags)
{
  backward(user, ts, ts, flags);
  return 0;
}

static int32_t on_backward_range(void *user, int32_t ts, int32_t ts_end, uint32_t flags)
{
  backward(user, ts, ts_end, flags);
  return 0;
}

/* Before a RESTORE the callback overwrites the fields, and moves them to other memory now and
 * then. */
static int32_t on_locate(void *user, int32_t type, int32_t ts, gpuzip_field_t *fields, uint32_t nfields)
{
  job_t *job = user;
  app_t *app = &job->apps[0];
  CHECK(nfields == app->nfields && (type == GPUZIP_ACTION_RESTORE || ts == job->live), "locate of state %d", ts);
  if (type == GPUZIP_ACTION_RESTORE) app_spoil(app);
  if (type == GPUZIP_ACTION_RESTORE && once_in(&job->random, 2))
    for (uint32_t k = 0; k < nfields; k++) {
      void *moved = malloc(app->bytes[k]);
      CHECK(moved != NULL, "no memory");
      free(app->fields[k].data);
      app->fields[k].data = moved;
    }
  for (uint32_t k = 0; k < nfields; k++) fields[k].data = app->fields[k].data;
  return 0;
}

static int32_t on_observe(void *user, int32_t type, int32_t ts, uint32_t flags)
{
  job_t *job = user;
  if (type == GPUZIP_ACTION_RESTORE) {
    app_check(&job->apps[0], ts, &job->loss);
    app_advance(&job->apps[0], ts);
    job->live = ts, job->counts->restores++;
  } else {
    job->saved_at[ts] = 1, job->counts->saves++;
  }
  if (flags & GPUZIP_FLAG_LAST_USE) job->saved_at[ts] = 0;
  return 0;
}

/* Runs one shot by callbacks. Returns 0 if the shot ended early, else 1. */
static int run(job_t *job)
{
  gpuzip_callbacks_t callbacks = {.struct_size = sizeof callbacks, .user = job, .forward = on_forward, .backward = on_backward, .locate = on_locate, .observe = on_observe};
  if (job->every > 1 || once_in(&job->random, 2)) callbacks.backward = NULL, callbacks.backward_range = on_backward_range;
  const app_t *app = &job->apps[0];
  int32_t status;
  begin_shot(job);
  /* Runs are made in the default floating-point environment, in which the callbacks check states;
   * tests/c/float.c tests runs in other environments. */
  status = gpuzip_run_forward(job->handles[0], &callbacks, app->fields, app->nfields, NULL);
  if (status == GPUZIP_OK) status = gpuzip_run_reverse(job->handles[0], &callbacks, app->fields, app->nfields, NULL);
  if (status == GPUZIP_ERR_CALLBACK) return 0;
  if (status != GPUZIP_OK) return check_failure(job, status), 0;
  return 1;
}

static void check_stats(job_t *job)
{
  for (int k = 0; k < job->sessions; k++) {
    gpuzip_stats_t stats;
    stats.struct_size = sizeof stats;
    CHECK(gpuzip_stats(job->handles[k], &stats) == GPUZIP_OK, "statistics");
    CHECK(job->reversed == 0 && stats.backward_steps == (uint64_t)job->steps, "%d states are not reversed", job->reversed);
    CHECK(stats.forward_steps == job->forward_steps, "%llu forward steps", (unsigned long long)stats.forward_steps);
    CHECK(stats.restores == stats.hits + stats.misses, "hits and misses");
    if (job->config.device_budget) CHECK(stats.peak_device_bytes <= job->config.device_budget, "%llu bytes of device memory", (unsigned long long)stats.peak_device_bytes);
    if (job->config.host_budget) CHECK(stats.peak_host_bytes <= job->config.host_budget, "%llu bytes of host memory", (unsigned long long)stats.peak_host_bytes);
  }
}

static void run_job(uint64_t number, counts_t *counts)
{
  job_t job;
  memset(&job, 0, sizeof job);
  current_job = number;
  job.random.state = mix(number), job.counts = counts;
  choose(&job);
  if (!open_sessions(&job)) counts->refused++;
  else {
    const int callbacks = !job.config.zero_copy && job.sessions == 1 && once_in(&job.random, 4);
    counts->ran++;
    for (int64_t shots = between(&job.random, 1, 3); shots > 0; shots--) {
      if (callbacks ? run(&job) : pull(&job)) check_stats(&job), counts->shots++;
      int32_t status = GPUZIP_OK;
      for (int k = 0; k < job.sessions; k++) {
        IN(&job, status, gpuzip_setup(job.handles[k]));
        CHECK(status == GPUZIP_OK, "setup for the next shot");
      }
    }
  }
  for (int k = 0; k < 2; k++)
    if (job.handles[k] != NULL) CHECK(gpuzip_finalize(job.handles[k]) == GPUZIP_OK, "finalize");
  if (job.schedule != NULL) CHECK(gpuzip_schedule_release(job.schedule) == GPUZIP_OK, "release");
  for (int k = 0; k < job.sessions; k++) app_free(&job.apps[k]);
}

int main(int argc, char **argv)
{
  counts_t c = {0, 0, 0, 0, 0, 0, 0, 0};
  if (argc != 3) return fprintf(stderr, "usage: %s FIRST COUNT\n", argv[0]), 2;
  const uint64_t first = strtoull(argv[1], NULL, 10), count = strtoull(argv[2], NULL, 10);
  for (uint64_t k = 0; k < count; k++) run_job(first + k, &c);
  char path[64];
  snprintf(path, sizeof path, "stress-%ld.trace", (long)getpid());
  remove(path);
  printf("%llu jobs: %llu refused, %llu sessions, %llu shots to their end, %llu ended by an error that was due, %llu actions, %llu saves, "
         "%llu restores compared, %llu misused calls\n",
         (unsigned long long)count, (unsigned long long)c.refused, (unsigned long long)c.ran, (unsigned long long)c.shots,
         (unsigned long long)c.broken, (unsigned long long)c.actions, (unsigned long long)c.saves, (unsigned long long)c.restores,
         (unsigned long long)c.misused);
  return 0;
}
