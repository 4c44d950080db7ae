/* One shot of a job: every action with its checks, by the pull loop and by callbacks, and wrong
 * calls and questions in between. */
#define _POSIX_C_SOURCE 200809L
#include "everything.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

/* Returns the control bits of the floating-point environment: rounding, flush to zero, traps. */
static unsigned control(void)
{
#ifdef __SSE2__
  return _mm_getcsr() & 0xffc0u;
#else
  return (unsigned)fegetround();
#endif
}

unsigned enter(const job_t *job)
{
  fesetround(job->rounding);
#ifdef __SSE2__
  if (job->flush) _mm_setcsr(_mm_getcsr() | 0x8040u); /* flush to zero, denormals are zero */
#endif
  return control();
}

void leave(unsigned before)
{
  CHECK(control() == before, "the call changed the floating-point environment");
  fesetround(FE_TONEAREST);
#ifdef __SSE2__
  _mm_setcsr(_mm_getcsr() & ~0x8040u);
#endif
}

static int excused(const job_t *job) { return faults_made() != job->faults_before; }

int32_t open_sessions(job_t *job)
{
  int32_t status;
  const int steps = job->open ? 0 : job->now.steps;
  job->peeked = 0;
  if (job->sessions == 1) {
    IN(job, status,
       gpuzip_init(&job->config, steps, job->apps[0].fields, job->apps[0].nfields,
                   &job->handles[0]));
  } else {
    IN(job, status, gpuzip_schedule_create(&job->config, steps, &job->schedule));
    for (int k = 0; k < 2 && status == GPUZIP_OK; k++)
      IN(job, status,
         gpuzip_attach(job->schedule, &job->config, job->apps[k].fields, job->apps[k].nfields,
                       &job->handles[k]));
  }
  CHECK(status != GPUZIP_OK || job->handles[0] != NULL, "success without a session");
  return status;
}

void close_sessions(job_t *job)
{
  for (int k = 0; k < 2; k++) {
    if (job->handles[k] == NULL) continue;
    const int32_t status = gpuzip_finalize(job->handles[k]);
    CHECK(status == GPUZIP_OK || excused(job), "finalize: status %d", status);
  }
  if (job->schedule != NULL) CHECK(gpuzip_schedule_release(job->schedule) == GPUZIP_OK, "release");
  job->handles[0] = job->handles[1] = NULL, job->schedule = NULL;
}

/* Makes a call that does not fit the current action; the call must fail and change nothing. */
static void misuse(job_t *job, const gpuzip_action_t *now, int served)
{
  app_t *app = &job->apps[0];
  gpuzip_t *h = job->handles[0];
  void *data[MOST_FIELDS];
  gpuzip_action_t action;
  gpuzip_stats_t before, after;
  int32_t status;
  const int32_t other = job->now.steps + 7; /* no state has this number */
  before.struct_size = after.struct_size = sizeof before;
  CHECK(gpuzip_stats(h, &before) == GPUZIP_OK, "statistics");
  switch (between(&job->random, 0, 12)) {
    case 0: IN(job, status, gpuzip_save(h, other, app->fields, app->nfields, NULL)); break;
    case 1: IN(job, status, gpuzip_retrieve(h, other, app->fields, app->nfields, NULL)); break;
    case 2: IN(job, status, gpuzip_save(h, now->ts, app->fields, app->nfields + 1, NULL)); break;
    case 3: IN(job, status, gpuzip_retrieve_release(h, other, NULL)); break;
    case 4: IN(job, status, gpuzip_save_begin(h, other, data, app->nfields, NULL)); break;
    case 5: IN(job, status, gpuzip_get_action(h, NULL)); break;
    case 6: IN(job, status, gpuzip_save_commit(h, other, NULL)); break;
    case 7: IN(job, status, gpuzip_autotune(h)); break;
    case 8: IN(job, status, gpuzip_profile_import(h, &before, sizeof before)); break;
    case 9:
      IN(job, status, job->open ? gpuzip_dispatch(h, now->it + 3) : gpuzip_end_forward(h));
      break;
    case 10: IN(job, status, gpuzip_persist_read(h, NULL, 1, NULL)); break;
    case 11:
      if (served || (now->type != GPUZIP_ACTION_SAVE && now->type != GPUZIP_ACTION_RESTORE)) return;
      status = write_arrays(job);
      break;
    default:
      if (served) {
        IN(job, status, gpuzip_save(h, now->ts, app->fields, app->nfields, NULL));
        break;
      }
      if (now->type != GPUZIP_ACTION_SAVE && now->type != GPUZIP_ACTION_RESTORE) return;
      IN(job, status, gpuzip_get_action(h, &action));
  }
  CHECK(status < 0, "a call that does not fit succeeded");
  CHECK(strlen(gpuzip_last_error()) > 20, "a refusal without a reason");
  CHECK(gpuzip_stats(h, &after) == GPUZIP_OK, "statistics");
  CHECK(before.saves == after.saves && before.restores == after.restores &&
            before.forward_steps == after.forward_steps &&
            before.backward_steps == after.backward_steps,
        "a refused call was counted");
  job->counts->misused++;
}

/* Asks about the session; the answers must fit the shot, and the questions must change nothing. */
static void ask(job_t *job)
{
  gpuzip_t *h = job->handles[0];
  gpuzip_stats_t stats;
  gpuzip_summary_t summary;
  uint64_t print[2];
  int32_t status, due;
  stats.struct_size = sizeof stats, summary.struct_size = sizeof summary;
  IN(job, status, gpuzip_stats(h, &stats));
  CHECK(status == GPUZIP_OK && stats.forward_steps == job->now.forward_steps, "%llu forward steps",
        (unsigned long long)stats.forward_steps);
  CHECK(stats.backward_steps ==
            (uint64_t)((job->now.sweeps + 1) * job->now.steps - job->now.reversed),
        "%llu backward steps", (unsigned long long)stats.backward_steps);
  /* A summary takes longer than the rest of a session: it bounds the time of the best plan. */
  if (once_in(&job->random, 60)) {
    IN(job, status, gpuzip_summary(h, &summary));
    if (status != GPUZIP_OK) check_failure(job, status);
  }
  if (once_in(&job->random, 4))
    for (int k = 0; k < 2; k++) {
      IN(job, status, gpuzip_fingerprint(h, &print[k]));
      if (status != GPUZIP_OK) check_failure(job, status);
      else if (k == 1)
        CHECK(print[0] == print[1] || excused(job), "two fingerprints of one schedule");
    }
  if (job->persist && once_in(&job->random, 4)) {
    IN(job, status, gpuzip_persist_due(h, &due));
    if (status != GPUZIP_OK) check_failure(job, status);
  }
  if (job->schedule == NULL) {
    IN(job, status, gpuzip_peek_action(h, &job->expected));
    if (status != GPUZIP_OK) check_failure(job, status);
    job->peeked = status == GPUZIP_OK;
  }
  job->counts->asked++;
}

/* Whether the memory of field `f` is that of the state before, by the flags of the action. */
static int is_shared(const app_t *app, uint32_t f, uint32_t flags)
{
  const gpuzip_field_t *field = &app->fields[f];
  return (flags & GPUZIP_FLAG_SHARED_LEVEL) && field->role != 0 &&
         app->bytes[f] / app->values[f] >= 4 && app->fields[field->role - 1].role == 0;
}

/* Checks that the memory of a field holds the values of the state. */
static void check_there(const app_t *app, uint32_t f, const void *memory, int32_t ts)
{
  CHECK(memcmp(memory, app->copies[ts][f], app->bytes[f]) == 0,
        "the shared level, field %u, of state %d is not there", f, ts);
}

/* Saves u(ts) of session `k`. */
static int32_t store(job_t *job, int k, int32_t ts, uint32_t flags)
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
  for (uint32_t f = 0; f < app->nfields; f++)
    if (is_shared(app, f, flags)) check_there(app, f, job->given[k][f], ts);
    else memcpy(job->given[k][f], app->copies[ts][f], app->bytes[f]);
  job->given[k][0] = NULL;
  IN(job, status, gpuzip_save_commit(job->handles[k], ts, NULL));
  return status;
}

static int32_t fetch(job_t *job, int k, int32_t ts, uint32_t flags)
{
  const int is_last = (flags & GPUZIP_FLAG_LAST_USE) != 0;
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
  for (uint32_t f = 0; f < app->nfields; f++) app_put(app, f, data[f]);
  /* After its last use the memory is the application's, but for a level of the state before. */
  for (uint32_t f = 0; is_last && f < app->nfields; f++)
    if (!is_shared(app, f, flags)) memset(data[f], 0x3c, app->bytes[f]);
  job->in_hand = ts + 1;
  return status;
}

/* Gives the memory of the RESTORE back, or leaves that to the next action. */
static int32_t give_back(job_t *job)
{
  const int32_t ts = job->in_hand - 1;
  int32_t status = GPUZIP_OK;
  job->in_hand = 0;
  if (ts < 0 || once_in(&job->random, 2)) return GPUZIP_OK;
  for (int k = 0; k < job->sessions && status == GPUZIP_OK; k++)
    IN(job, status, gpuzip_retrieve_release(job->handles[k], ts, NULL));
  return status;
}

/* Takes the memory of the next SAVE. It is the application's now, which writes to it at once. */
static int32_t take(job_t *job, int32_t ts, uint32_t flags)
{
  int32_t status = GPUZIP_OK;
  for (int k = 0; k < job->sessions && status == GPUZIP_OK; k++) {
    const app_t *app = &job->apps[k];
    IN(job, status, gpuzip_save_begin(job->handles[k], ts, job->given[k], app->nfields, NULL));
    for (uint32_t f = 0; status == GPUZIP_OK && f < app->nfields; f++)
      if (is_shared(app, f, flags)) check_there(app, f, job->given[k][f], ts);
      else memset(job->given[k][f], 0x5a, app->bytes[f]);
  }
  return status;
}

static int32_t serve(job_t *job, const gpuzip_action_t *a)
{
  int32_t status = GPUZIP_OK;
  for (int k = 0; k < job->sessions && status == GPUZIP_OK; k++) {
    if (a->type == GPUZIP_ACTION_SAVE) {
      CHECK(job->now.live == a->ts, "SAVE %d of state %d", a->ts, job->now.live);
      status = store(job, k, a->ts, a->flags);
      job->now.saved_at[a->ts] = 1, job->counts->saves++;
    } else {
      CHECK(job->now.saved_at[a->ts], "RESTORE %d of no snapshot", a->ts);
      status = fetch(job, k, a->ts, a->flags);
      if (status != GPUZIP_OK) break;
      app_check(&job->apps[k], a->ts, &job->loss);
      keep_restored(job, a->ts);
      if (!job->loss.shared) app_advance(&job->apps[k], a->ts);
      job->counts->restores++;
    }
  }
  if (a->type == GPUZIP_ACTION_RESTORE) job->now.live = a->ts;
  if (a->flags & GPUZIP_FLAG_LAST_USE) job->now.saved_at[a->ts] = 0;
  return status;
}

static void forward(job_t *job, int32_t ts, int32_t ts_end, uint32_t flags)
{
  CHECK(job->now.live == ts - 1 && ts <= ts_end && ts_end < job->now.steps,
        "FORWARD %d to %d from state %d", ts, ts_end, job->now.live);
  CHECK(ts == ts_end || job->config.range_actions, "a range that nobody asked for");
  CHECK(!(flags & GPUZIP_FLAG_RECOMPUTE) == !job->now.seen[ts_end],
        "FORWARD %d has the wrong flag RECOMPUTE", ts_end);
  for (int t = ts; t <= ts_end; t++) job->now.seen[t] = 1;
  job->now.forward_steps += (uint64_t)(ts_end - ts + 1);
  job->now.live = ts_end;
  for (int k = 0; k < job->sessions; k++)
    if (job->loss.shared) app_step(&job->apps[k], ts_end, ts == ts_end);
    else app_advance(&job->apps[k], ts_end);
}

static void backward(job_t *job, int32_t ts, int32_t ts_end, uint32_t flags)
{
  CHECK(ts_end == job->now.reversed - 1 && ts == job->now.live,
        "BACKWARD %d to %d after %d, state %d is live", ts, ts_end, job->now.reversed,
        job->now.live);
  CHECK(ts % job->every == 0 && (ts_end - ts + 1 == job->every || ts_end == job->now.steps - 1),
        "BACKWARD %d to %d", ts, ts_end);
  CHECK(!(flags & GPUZIP_FLAG_FIRST_BACKWARD) == (ts_end != job->now.steps - 1),
        "the wrong flag FIRST_BACKWARD");
  CHECK(!job->open || job->now.ended, "BACKWARD %d before the forward phase ended", ts);
  job->now.reversed = ts;
  add_to_result(job, ts);
}

/* Ends the forward phase if its number of steps is not known and its last state is live. */
static int32_t end_forward(job_t *job)
{
  int32_t status = GPUZIP_OK;
  if (!job->open || job->now.ended || job->now.live != job->now.steps - 1) return GPUZIP_OK;
  /* Memory for a SAVE that does not come any more is not the application's. */
  memset(job->given, 0, sizeof job->given);
  job->now.ended = 1, job->peeked = 0;
  IN(job, status, gpuzip_end_forward(job->handles[0]));
  return status;
}

void begin_shot(job_t *job)
{
  job->in_hand = 0;
  const shot_t fresh = {
      .shot = job->now.shot, .it = -1, .steps = job->now.steps, .reversed = job->now.steps};
  job->now = fresh, job->peeked = 0;
  memset(job->given, 0, sizeof job->given);
  for (int k = 0; k < job->sessions; k++) app_spoil(&job->apps[k]), app_advance(&job->apps[k], 0);
}

static int32_t next_action(job_t *job, gpuzip_action_t *a)
{
  int32_t status;
  if (job->schedule == NULL) {
    IN(job, status, gpuzip_get_action(job->handles[0], a));
    const gpuzip_action_t *e = &job->expected;
    if (status == GPUZIP_OK && job->peeked)
      CHECK(e->type == a->type && e->ts == a->ts && e->ts_end == a->ts_end &&
                e->flags == a->flags && e->it == a->it,
            "action %d of %d, number %lld, is not action %d of %d, number %lld, that was peeked",
            a->type, a->ts, (long long)a->it, e->type, e->ts, (long long)e->it);
    job->peeked = 0;
    return status;
  }
  IN(job, status, gpuzip_schedule_get_action(job->schedule, a));
  for (int k = 0; k < 2 && status == GPUZIP_OK; k++)
    IN(job, status, gpuzip_dispatch(job->handles[k], a->it));
  return status;
}

/* A shot may end early because a fault was made, because a compressed snapshot does not fit the
 * budgets, because the configuration refuses its values or, at the first action of a shared
 * schedule, because no plan fits all sessions. */
void check_failure(job_t *job, int32_t status)
{
  CHECK(status < 0 && status != GPUZIP_ERR_PANIC && status != GPUZIP_ERR_POISONED &&
            strcmp(gpuzip_status_string(status), "unknown") != 0,
        "status %d", status);
  CHECK(strlen(gpuzip_last_error()) > 20, "an error without a reason");
  const int is_refused = status == GPUZIP_ERR_CONFIG || status == GPUZIP_ERR_UNSUPPORTED ||
                         status == GPUZIP_ERR_BUDGET;
  if (is_refused && job->schedule != NULL && job->now.live == 0) {
    job->counts->refused++, count_refusal(status);
    return;
  }
  if (excused(job)) {
    job->counts->faulted++;
    return;
  }
  const int refuses = job->config.nonfinite &&
                      (job->apps[0].nonfinite || (job->sessions == 2 && job->apps[1].nonfinite));
  CHECK((status == GPUZIP_ERR_BUDGET && job->config.compressor != 0) ||
            (status == GPUZIP_ERR_VALUES && refuses),
        "status %d", status);
  job->counts->due++;
}

/* Writes a generation of the current action now and then. */
static void write_now(job_t *job)
{
  if (!job->persist || !once_in(&job->random, job->eager)) return;
  job->counts->out += job->given[0][0] != NULL || job->in_hand;
  const int32_t status = write_generation(job, 1);
  if (status != GPUZIP_OK) check_failure(job, status);
}

/* Makes and tests restart files after an action that was served. Returns the status of the restart,
 * if there is one. */
static int32_t persist(job_t *job)
{
  write_now(job);
  if (!job->persist || job->memos_kept == 0 || job->restarts_left == 0) return GPUZIP_OK;
  if (!once_in(&job->random, job->eager + 10)) return GPUZIP_OK;
  job->restarts_left--;
  const int32_t status = restart(job);
  /* The generation may be of the last state, before the call that ends the forward phase. */
  return status == GPUZIP_OK && job->now.it >= 0 ? end_forward(job) : status;
}

/* Does what an action asks for. */
static int32_t act(job_t *job, const gpuzip_action_t *a)
{
  const int is_next_save = (a->flags & GPUZIP_FLAG_NEXT_IS_SAVE) != 0;
  int32_t status = GPUZIP_OK;
  switch (a->type) {
    case GPUZIP_ACTION_FORWARD:
      forward(job, a->ts, a->ts_end, a->flags);
      job->now.it = a->it;
      write_now(job);
      if (job->config.zero_copy && is_next_save && once_in(&job->random, 2))
        status = take(job, a->ts_end, a->flags);
      /* The last state may be saved before the forward phase ends. */
      if (status == GPUZIP_OK && (!is_next_save || once_in(&job->random, 2)))
        status = end_forward(job);
      return status;
    case GPUZIP_ACTION_SAVE:
      return status = serve(job, a), status == GPUZIP_OK ? end_forward(job) : status;
    case GPUZIP_ACTION_RESTORE: return serve(job, a);
    case GPUZIP_ACTION_BACKWARD: return backward(job, a->ts, a->ts_end, a->flags), GPUZIP_OK;
    default: CHECK(0, "action %d", a->type); return GPUZIP_ERR_PANIC;
  }
}

/* Whether another reverse sweep follows the one that has ended. */
static int goes_on(job_t *job)
{
  CHECK(job->now.reversed == 0, "%d states are not reversed", job->now.reversed);
  if (job->now.sweeps + 1 >= job->config.sweeps) return 0;
  job->now.sweeps++;
  job->now.reversed = job->now.steps, job->now.live = -1;
  return 1;
}

/* Begins a reverse sweep in every session, where no state is live. */
static void begin_again(job_t *job)
{
  if (job->now.live >= 0) return;
  for (int k = 0; k < job->sessions; k++)
    CHECK(gpuzip_rewind(job->handles[k]) == GPUZIP_OK, "rewind: %s", gpuzip_last_error());
}

/* Runs one shot in the pull loop. */
static int pull(job_t *job)
{
  const int64_t give_up = once_in(&job->random, 12) ? between(&job->random, 0, 60) : -1;
  gpuzip_action_t a;
  for (;;) {
    if (job->faults && !job->armed && once_in(&job->random, 60)) begin_faults(job);
    else if (job->armed && once_in(&job->random, 60)) end_faults(job);
    begin_again(job);
    int32_t status = next_action(job, &a);
    if (status != GPUZIP_OK) return check_failure(job, status), 0;
    job->counts->actions++;
    if (a.type == GPUZIP_ACTION_TERMINATE) {
      if (!goes_on(job)) return 1;
      job->now.it = a.it;
      if (job->loss.shared) continue;
      status = persist(job);
      if (status != GPUZIP_OK) return check_failure(job, status), 0;
      continue;
    }
    CHECK(a.it == job->now.it + 1, "action %lld after action %lld", (long long)a.it,
          (long long)job->now.it);
    if (a.it == give_up) return 0;
    if (once_in(&job->random, 40)) misuse(job, &a, 0);
    status = act(job, &a);
    if (status != GPUZIP_OK) return check_failure(job, status), 0;
    job->now.it = a.it;
    if (once_in(&job->random, 40)) misuse(job, &a, 1);
    if (once_in(&job->random, 20)) ask(job);
    status = export_live(job);
    if (status == GPUZIP_OK) status = persist(job);
    if (status == GPUZIP_OK) status = give_back(job);
    if (status != GPUZIP_OK) return check_failure(job, status), 0;
  }
}

static int32_t on_forward(void *user, int32_t ts, int32_t ts_end, uint32_t flags)
{
  job_t *job = user;
  forward(job, ts, ts_end, flags);
  const int32_t status = end_forward(job);
  if (status != GPUZIP_OK) return check_failure(job, status), 78;
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
static int32_t on_locate(void *user, int32_t type, int32_t ts, gpuzip_field_t *fields,
                         uint32_t nfields)
{
  job_t *job = user;
  app_t *app = &job->apps[0];
  CHECK(nfields == app->nfields && (type == GPUZIP_ACTION_RESTORE || ts == job->now.live),
        "locate of state %d", ts);
  if (type == GPUZIP_ACTION_RESTORE) app_spoil(app);
  if (type == GPUZIP_ACTION_RESTORE && once_in(&job->random, 2)) app_move(app);
  for (uint32_t k = 0; k < nfields; k++) fields[k].data = app->fields[k].data;
  return 0;
}

static int32_t on_observe(void *user, int32_t type, int32_t ts, uint32_t flags)
{
  job_t *job = user;
  if (type == GPUZIP_ACTION_RESTORE) {
    app_check(&job->apps[0], ts, &job->loss);
    keep_restored(job, ts);
    if (!job->loss.shared) app_advance(&job->apps[0], ts);
    job->now.live = ts, job->counts->restores++;
  } else {
    job->now.saved_at[ts] = 1, job->counts->saves++;
  }
  if (flags & GPUZIP_FLAG_LAST_USE) job->now.saved_at[ts] = 0;
  return 0;
}

/* Runs one shot by callbacks. */
static int run(job_t *job)
{
  gpuzip_callbacks_t callbacks = {.struct_size = sizeof callbacks,
                                  .user = job,
                                  .forward = on_forward,
                                  .backward = on_backward,
                                  .locate = on_locate,
                                  .observe = on_observe};
  if (job->every > 1 || once_in(&job->random, 2))
    callbacks.backward = NULL, callbacks.backward_range = on_backward_range;
  const app_t *app = &job->apps[0];
  int32_t status;
  /* Runs are made in the default floating-point environment, in which the callbacks check states;
   * tests/c/float.c tests runs in other environments. */
  status = gpuzip_run_forward(job->handles[0], &callbacks, app->fields, app->nfields, NULL);
  if (status == GPUZIP_OK)
    status = gpuzip_run_reverse(job->handles[0], &callbacks, app->fields, app->nfields, NULL);
  while (status == GPUZIP_OK && goes_on(job)) {
    begin_again(job);
    status = gpuzip_run_reverse(job->handles[0], &callbacks, app->fields, app->nfields, NULL);
  }
  if (status == GPUZIP_ERR_CALLBACK) return 0;
  if (status != GPUZIP_OK) return check_failure(job, status), 0;
  return 1;
}

int run_shot(job_t *job)
{
  const int callbacks = !job->config.zero_copy && job->sessions == 1 && job->now.it < 0 &&
                        !job->persist && once_in(&job->random, 4);
  return callbacks ? run(job) : pull(job);
}

uint64_t bytes_on_disk(void)
{
  uint64_t bytes = 0;
  DIR *folder = opendir("/proc/self/fd");
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    struct stat found;
    if (fstat(atoi(entry->d_name), &found) == 0 && S_ISREG(found.st_mode) && found.st_nlink == 0)
      bytes += (uint64_t)found.st_size;
  }
  if (folder != NULL) closedir(folder);
  return bytes;
}

void check_numbers(job_t *job)
{
  const gpuzip_config_t *c = &job->config;
  CHECK(job->now.reversed == 0, "%d states are not reversed", job->now.reversed);
  for (int k = 0; k < job->sessions; k++) {
    gpuzip_stats_t stats;
    gpuzip_summary_t summary;
    stats.struct_size = sizeof stats, summary.struct_size = sizeof summary;
    CHECK(gpuzip_stats(job->handles[k], &stats) == GPUZIP_OK, "statistics");
    CHECK(stats.backward_steps == (uint64_t)((job->now.sweeps + 1) * job->now.steps), "%llu backward steps",
          (unsigned long long)stats.backward_steps);
    CHECK(stats.forward_steps == job->now.forward_steps, "%llu forward steps",
          (unsigned long long)stats.forward_steps);
    CHECK(stats.restores == stats.hits + stats.misses, "hits and misses");
    if (job->tuned) continue; /* a measurement takes additional memory */
    if (c->device_budget)
      CHECK(stats.peak_device_bytes <= c->device_budget, "%llu bytes of device memory",
            (unsigned long long)stats.peak_device_bytes);
    if (c->host_budget)
      CHECK(stats.peak_host_bytes <= c->host_budget, "%llu bytes of host memory",
            (unsigned long long)stats.peak_host_bytes);
    /* On a CPU host_budget alone is for both. */
    if (c->host_budget && !c->device_budget && !c->cache_capacity && c->link_bandwidth == 0)
      CHECK(stats.peak_device_bytes + stats.peak_host_bytes <= c->host_budget, "%llu + %llu bytes of memory",
            (unsigned long long)stats.peak_device_bytes, (unsigned long long)stats.peak_host_bytes);
    if (!once_in(&job->random, 20)) continue;
    const int32_t status = gpuzip_summary(job->handles[k], &summary);
    CHECK(status == GPUZIP_OK || excused(job), "summary");
    if (status != GPUZIP_OK) continue;
    if (c->device_budget)
      CHECK(summary.device_bytes <= c->device_budget, "a plan with %llu bytes of device memory",
            (unsigned long long)summary.device_bytes);
    if (c->host_budget)
      CHECK(summary.host_bytes <= c->host_budget, "a plan with %llu bytes of host memory",
            (unsigned long long)summary.host_bytes);
    CHECK(summary.disk_bytes <= c->disk_budget, "a plan with %llu bytes of disk",
          (unsigned long long)summary.disk_bytes);
  }
  /* Other threads have files, too; so has the thread that copies a generation, which may be removed. */
  if (!c->disk_budget || !job->alone || c->persist_shared_dir) return;
  const uint64_t bytes = bytes_on_disk() - job->others_bytes;
  CHECK(bytes <= c->disk_budget * (uint64_t)job->sessions, "%llu bytes on disk",
        (unsigned long long)bytes);
}
