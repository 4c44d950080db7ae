/* Tests gpuzip_run_forward and gpuzip_run_reverse with a leap-frog code whose buffers swap roles:
 * with and without ranges of time steps, callbacks that stop the run, wrong calls, threads. The
 * program exits with 1 at the first failed check; tests/sanitizers.sh runs it under sanitizers and
 * valgrind. */
#include "test.h"

#include <pthread.h>

enum { STEPS = 53, N = 40 };
enum { NOWHERE, FORWARD, BACKWARD, LOCATE, OBSERVE }; /* the callback that stops the run */

/* The application: two time levels, u(ts-1) and u(ts), in two of three buffers that swap roles. */
typedef struct {
  double buffer[3][N];
  int now, before;    /* buffers of u(ts) and u(ts-1) */
  int ts, reversed;   /* the live state is u(ts); the last BACKWARD was of u(reversed) */
  double all[STEPS][2][N]; /* the expected states: u(t-1) and u(t) for every t */
  int64_t steps, calls, saves, restores, firsts, located, longest;
  int stop_in, stop_at, stop_with; /* callback number stop_in returns stop_with at call stop_at */
  gpuzip_t *handle;   /* not NULL: forward calls gpuzip_stats with this session */
  int meddle;         /* forward calls 1: gpuzip_get_action, 2: gpuzip_setup, 3: gpuzip_finalize */
} app_t;

static void start(app_t *a, double seed)
{
  memset(a, 0, sizeof *a);
  a->now = 1, a->reversed = STEPS;
  for (int i = 0; i < N; i++) a->buffer[0][i] = seed + i, a->buffer[1][i] = seed - 2.0 * i;
}

static void step(app_t *a)
{
  const int next = 3 - a->now - a->before;
  for (int i = 0; i < N; i++)
    a->buffer[next][i] = 1.9 * a->buffer[a->now][i] - 0.95 * a->buffer[a->before][i] + 0.01 * a->buffer[a->now][(i + 1) % N];
  a->before = a->now, a->now = next, a->ts++;
}

static void keep_all(app_t *a)
{
  app_t twin = *a;
  for (int t = 0; t < STEPS; t++) {
    memcpy(a->all[t][0], twin.buffer[twin.before], sizeof a->all[t][0]);
    memcpy(a->all[t][1], twin.buffer[twin.now], sizeof a->all[t][1]);
    step(&twin);
  }
}

static void fields_of(gpuzip_field_t f[2])
{
  f[0] = f[1] = field_of(NULL, N, GPUZIP_TYPE_F64);
}

static int32_t stops(app_t *a, int callback, int64_t calls)
{
  return a->stop_in == callback && calls == a->stop_at ? a->stop_with : 0;
}

static int32_t forward(void *user, int32_t ts, int32_t ts_end, uint32_t flags)
{
  app_t *a = user;
  gpuzip_action_t action;
  gpuzip_stats_t stats;
  stats.struct_size = sizeof stats;
  CHECK(ts == a->ts + 1 && ts_end >= ts && ts_end < STEPS);
  if (ts_end - ts >= a->longest) a->longest = ts_end - ts + 1;
  CHECK(!(flags & ~(uint32_t)(GPUZIP_FLAG_RECOMPUTE | GPUZIP_FLAG_NEXT_IS_SAVE)));
  CHECK(!(flags & GPUZIP_FLAG_RECOMPUTE) == (a->steps < STEPS - 1));
  while (a->ts < ts_end) step(a), a->steps++;
  a->calls++;
  if (a->handle != NULL) CHECK(gpuzip_stats(a->handle, &stats) == GPUZIP_OK && (int64_t)stats.forward_steps == a->steps);
  if (a->meddle == 1) CHECK(gpuzip_get_action(a->handle, &action) == GPUZIP_OK);
  if (a->meddle == 2) CHECK(gpuzip_setup(a->handle) == GPUZIP_OK);
  if (a->meddle == 3) CHECK(gpuzip_finalize(a->handle) == GPUZIP_OK);
  return stops(a, FORWARD, a->calls);
}

static int32_t backward(void *user, int32_t ts, uint32_t flags)
{
  app_t *a = user;
  CHECK(ts == a->ts && ts == a->reversed - 1);
  CHECK(memcmp(a->buffer[a->before], a->all[ts][0], sizeof a->all[ts][0]) == 0);
  CHECK(memcmp(a->buffer[a->now], a->all[ts][1], sizeof a->all[ts][1]) == 0);
  a->firsts += (flags & GPUZIP_FLAG_FIRST_BACKWARD) != 0;
  a->reversed = ts;
  return stops(a, BACKWARD, STEPS - ts);
}

/* Locates the fields. Before each RESTORE the buffers change roles, so that the state is restored
 * into other memory than it was saved from. */
static int32_t locate(void *user, int32_t type, int32_t ts, gpuzip_field_t *fields, uint32_t nfields)
{
  app_t *a = user;
  CHECK(nfields == 2 && (type == GPUZIP_ACTION_SAVE || type == GPUZIP_ACTION_RESTORE));
  CHECK(fields[0].n1 == N && fields[0].data == NULL);
  if (type == GPUZIP_ACTION_SAVE) CHECK(ts == a->ts);
  if (type == GPUZIP_ACTION_RESTORE) {
    memset(a->buffer, 0xee, sizeof a->buffer);
    a->now = (a->now + 1) % 3, a->before = (a->now + 1) % 3, a->ts = ts;
  }
  fields[0].data = a->buffer[a->before];
  fields[1].data = a->buffer[a->now];
  return stops(a, LOCATE, ++a->located);
}

/* A locate callback that leaves the data pointers of the fields NULL. */
static int32_t nowhere(void *user, int32_t type, int32_t ts, gpuzip_field_t *fields, uint32_t nfields)
{
  return (void)user, (void)type, (void)ts, (void)fields, (void)nfields, 0;
}

static int32_t observe(void *user, int32_t type, int32_t ts, uint32_t flags)
{
  app_t *a = user;
  CHECK(ts == a->ts && !(flags & ~(uint32_t)GPUZIP_FLAG_LAST_USE));
  if (type == GPUZIP_ACTION_SAVE) a->saves++;
  if (type == GPUZIP_ACTION_RESTORE) a->restores++;
  return stops(a, OBSERVE, a->saves + a->restores);
}

static gpuzip_callbacks_t callbacks_of(app_t *a)
{
  gpuzip_callbacks_t c;
  memset(&c, 0, sizeof c);
  c.struct_size = sizeof c;
  c.user = a, c.forward = forward, c.backward = backward, c.locate = locate, c.observe = observe;
  return c;
}

static gpuzip_t *session(const gpuzip_config_t *config)
{
  gpuzip_field_t f[2];
  gpuzip_t *h;
  fields_of(f);
  CHECK(gpuzip_init(config, STEPS, f, 2, &h) == GPUZIP_OK);
  return h;
}

/* Runs a whole shot and checks its counters. `two`: the forward part by gpuzip_run_forward, the
 * rest by gpuzip_run_reverse; else all by gpuzip_run_reverse. */
static void shot(gpuzip_t *h, app_t *a, double seed, int two)
{
  const gpuzip_callbacks_t c = callbacks_of(a);
  gpuzip_stats_t stats;
  gpuzip_field_t f[2];
  fields_of(f);
  stats.struct_size = sizeof stats;
  start(a, seed);
  keep_all(a);
  a->handle = h;
  CHECK(gpuzip_setup(h) == GPUZIP_OK);
  if (two) {
    CHECK(gpuzip_run_forward(h, &c, f, 2, NULL) == GPUZIP_OK);
    CHECK(a->reversed == STEPS && a->ts == STEPS - 1 && a->steps == STEPS - 1);
    CHECK(gpuzip_run_forward(h, &c, f, 2, NULL) == GPUZIP_OK && a->steps == STEPS - 1);
  }
  CHECK(gpuzip_run_reverse(h, &c, f, 2, NULL) == GPUZIP_OK);
  CHECK(a->reversed == 0 && a->firsts == 1);
  CHECK(gpuzip_stats(h, &stats) == GPUZIP_OK);
  CHECK((int64_t)stats.forward_steps == a->steps && stats.backward_steps == STEPS);
  CHECK((int64_t)stats.saves == a->saves && (int64_t)stats.restores == a->restores);
  FAILS(gpuzip_run_reverse(h, &c, f, 2, NULL), GPUZIP_ERR_STATE, "terminated");
  FAILS(gpuzip_run_forward(h, &c, f, 2, NULL), GPUZIP_ERR_STATE, "call setup");
}

static void whole_shots(app_t *a)
{
  for (int algorithm = GPUZIP_ALGORITHM_REVOLVE; algorithm <= GPUZIP_ALGORITHM_STORE_ALL; algorithm++)
    for (int cache = 0; cache < 4; cache++) {
      int64_t steps = 0;
      for (int ranges = 0; ranges < 2; ranges++) {
        gpuzip_config_t config = revolve(9, cache);
        gpuzip_summary_t summary;
        summary.struct_size = sizeof summary;
        config.checkpointing_algorithm = algorithm, config.range_actions = ranges;
        gpuzip_t *h = session(&config);
        for (int i = 0; i < 3; i++) shot(h, a, 5.0 * i, i != 1);
        CHECK(gpuzip_summary(h, &summary) == GPUZIP_OK);
        /* The application counted every action but TERMINATE, which is the 1 of this sum. */
        CHECK((int64_t)summary.actions == a->calls + a->saves + a->restores + STEPS + 1);
        if (ranges) CHECK(steps == a->steps && (a->longest > 1) == (algorithm != GPUZIP_ALGORITHM_STORE_ALL));
        if (!ranges) CHECK(a->longest == 1 && a->calls == a->steps);
        steps = a->steps;
        CHECK(gpuzip_finalize(h) == GPUZIP_OK);
      }
    }
}

static void stopped(app_t *a)
{
  static const char *const names[] = {"", "callback forward of ", "callback backward of ", "callback locate of ", "callback observe of "};
  for (int in = FORWARD; in <= OBSERVE; in++)
    for (int at = 1; at < 12; at += 5) {
      const gpuzip_config_t config = revolve(5, 2);
      const gpuzip_callbacks_t c = callbacks_of(a);
      gpuzip_t *h = session(&config);
      gpuzip_action_t action;
      gpuzip_field_t f[2];
      char value[32];
      fields_of(f);
      start(a, 1.0);
      keep_all(a);
      a->stop_in = in, a->stop_at = at, a->stop_with = at == 1 ? -77 : 4200 + at;
      sprintf(value, " returned %d", a->stop_with);
      gpuzip_status_t status = gpuzip_run_forward(h, &c, f, 2, NULL);
      if (status == GPUZIP_OK) status = gpuzip_run_reverse(h, &c, f, 2, NULL);
      CHECK(status == GPUZIP_ERR_CALLBACK && strcmp(gpuzip_status_string(status), "stopped by a callback") == 0);
      CHECK(strstr(gpuzip_last_error(), names[in]) != NULL && strstr(gpuzip_last_error(), value) != NULL);
      /* A stopped shot cannot go on, by runs or by gpuzip_get_action; a new shot works. */
      CHECK(gpuzip_run_reverse(h, &c, f, 2, NULL) == GPUZIP_ERR_STATE && strstr(gpuzip_last_error(), value) != NULL);
      CHECK(gpuzip_run_forward(h, &c, f, 2, NULL) == GPUZIP_ERR_STATE);
      FAILS(gpuzip_get_action(h, &action), GPUZIP_ERR_STATE, "call setup");
      shot(h, a, 2.0, 1);
      CHECK(gpuzip_finalize(h) == GPUZIP_OK);
    }
}

static void misused(app_t *a)
{
  const gpuzip_config_t config = revolve(5, 2);
  gpuzip_callbacks_t c = callbacks_of(a);
  gpuzip_config_t zero_copy = config;
  gpuzip_t *h = session(&config);
  gpuzip_field_t f[2];
  int other = 0;
  fields_of(f);
  start(a, 1.0);
  keep_all(a);
  CHECK(gpuzip_run_forward(h, NULL, f, 2, NULL) == GPUZIP_ERR_ARGUMENT);
  CHECK(gpuzip_run_forward(h, &c, NULL, 2, NULL) == GPUZIP_ERR_ARGUMENT);
  c.struct_size -= 8;
  FAILS(gpuzip_run_forward(h, &c, f, 2, NULL), GPUZIP_ERR_ARGUMENT, "struct_size = 72");
  c = callbacks_of(a), c.reserved[2] = 9;
  FAILS(gpuzip_run_forward(h, &c, f, 2, NULL), GPUZIP_ERR_ARGUMENT, "reserved[2] = 9");
  c = callbacks_of(a), c.forward = NULL;
  FAILS(gpuzip_run_forward(h, &c, f, 2, NULL), GPUZIP_ERR_ARGUMENT, "forward");
  c = callbacks_of(a), c.backward = NULL;
  FAILS(gpuzip_run_reverse(h, &c, f, 2, NULL), GPUZIP_ERR_ARGUMENT, "backward");
  CHECK(a->calls + a->located == 0);
  /* Fields that gpuzip_save would refuse are refused before the first callback. */
  c = callbacks_of(a), c.locate = NULL;
  FAILS(gpuzip_run_forward(h, &c, f, 2, NULL), GPUZIP_ERR_ARGUMENT, "data is NULL");
  c = callbacks_of(a), f[1].n1++;
  FAILS(gpuzip_run_reverse(h, &c, f, 2, NULL), GPUZIP_ERR_SHAPE, "field 1");
  fields_of(f);
  CHECK(gpuzip_run_forward(h, &c, f, 1, NULL) == GPUZIP_ERR_SHAPE && a->calls + a->located == 0);
  /* When the save of a run fails, SAVE stays the current action: no further run passes it until the
   * application has called gpuzip_save. */
  c.locate = nowhere;
  FAILS(gpuzip_run_forward(h, &c, f, 2, NULL), GPUZIP_ERR_ARGUMENT, "data is NULL");
  c = callbacks_of(a);
  FAILS(gpuzip_run_forward(h, &c, f, 2, NULL), GPUZIP_ERR_STATE, "was not served");
  f[0].data = a->buffer[a->before], f[1].data = a->buffer[a->now];
  FAILS(gpuzip_save(h, 0, f, 2, &other), GPUZIP_ERR_ARGUMENT, "stream");
  CHECK(gpuzip_save(h, 0, f, 2, NULL) == GPUZIP_OK);
  fields_of(f);
  CHECK(gpuzip_run_forward(h, &c, f, 2, NULL) == GPUZIP_OK);
  CHECK(gpuzip_run_reverse(h, &c, f, 2, NULL) == GPUZIP_OK && a->reversed == 0);
  CHECK(gpuzip_setup(h) == GPUZIP_OK);
  FAILS(gpuzip_run_forward(h, &c, f, 2, &other), GPUZIP_ERR_ARGUMENT, "stream");
  /* The run fails if a callback takes an action, begins another shot, or finalizes the session. */
  for (int meddle = 1; meddle <= 3; meddle++) {
    const gpuzip_status_t expected = meddle == 3 ? GPUZIP_ERR_HANDLE : GPUZIP_ERR_STATE;
    CHECK(gpuzip_setup(h) == GPUZIP_OK);
    start(a, 1.0);
    keep_all(a);
    a->handle = h, a->meddle = meddle;
    CHECK(gpuzip_run_forward(h, &c, f, 2, NULL) == expected && a->calls == 1);
    CHECK(strstr(gpuzip_last_error(), meddle == 3 ? "finalized" : "moved from action 1 by another call") != NULL);
  }
  CHECK(gpuzip_finalize(h) == GPUZIP_ERR_HANDLE);
  CHECK(gpuzip_run_reverse(h, &c, f, 2, NULL) == GPUZIP_ERR_HANDLE);
  zero_copy.zero_copy = 1;
  h = session(&zero_copy);
  FAILS(gpuzip_run_forward(h, &c, f, 2, NULL), GPUZIP_ERR_UNSUPPORTED, "zero_copy = 1");
  CHECK(gpuzip_finalize(h) == GPUZIP_OK);
}

/* An application whose state is one number, u(ts) = ts, in one place. */
typedef struct {
  float u;
  int calls; /* of the callback of BACKWARD */
} number_t;

static int32_t count_on(void *user, int32_t ts, int32_t ts_end, uint32_t flags)
{
  number_t *a = user;
  (void)flags;
  CHECK(a->u == (float)(ts - 1));
  a->u = (float)ts_end;
  return 0;
}

static int32_t is_there(void *user, int32_t ts, uint32_t flags)
{
  number_t *a = user;
  (void)flags;
  CHECK(a->u == (float)ts);
  a->calls++;
  return 0;
}

static int32_t stop_at_the_second(void *user, int32_t ts, int32_t ts_end, uint32_t flags)
{
  number_t *a = user;
  CHECK(a->u == (float)ts && ts % 4 == 0 && ts_end == (ts == 36 ? 38 : ts + 3));
  CHECK(!(flags & GPUZIP_FLAG_FIRST_BACKWARD) == (a->calls > 0));
  return ++a->calls == 2 ? 7 : 0;
}

/* adjoint_every: BACKWARD is a range of time steps, which needs a callback of its own. everything.c
 * runs whole shots of such ranges. */
static void macro_steps(void)
{
  for (int every = 0; every <= 4; every += 2) {
    number_t a = {0, 0};
    const gpuzip_field_t f = field_of(&a.u, 1, GPUZIP_TYPE_F32);
    gpuzip_config_t config = revolve(3, 1);
    gpuzip_callbacks_t c;
    gpuzip_t *h;
    char text[40];
    memset(&c, 0, sizeof c);
    c.struct_size = sizeof c, c.user = &a, c.forward = count_on;
    if (every > 1) c.backward = is_there;
    config.adjoint_every = every;
    WORKS(gpuzip_init(&config, 39, &f, 1, &h));
    CHECK(gpuzip_run_forward(h, &c, &f, 1, NULL) == GPUZIP_OK && a.u == (every == 4 ? 36 : 38));
    snprintf(text, sizeof text, "with adjoint_every = %d", every);
    FAILS(gpuzip_run_reverse(h, &c, &f, 1, NULL), GPUZIP_ERR_ARGUMENT, every > 1 ? text : "callbacks->backward is NULL");
    c.backward_range = stop_at_the_second;
    if (every == 4) FAILS(gpuzip_run_reverse(h, &c, &f, 1, NULL), GPUZIP_ERR_CALLBACK, "callback backward_range of ");
    CHECK(a.calls == (every == 4 ? 2 : 0));
    WORKS(gpuzip_finalize(h));
  }
}

/* Fields that stay in one place need no locate callback. */
static void fixed_fields(void)
{
  gpuzip_config_t config = revolve(3, 1);
  config.range_actions = 1;
  for (int steps = 1; steps < 40; steps++) {
    number_t a = {0, 0};
    const gpuzip_field_t f = field_of(&a.u, 1, GPUZIP_TYPE_F32);
    gpuzip_callbacks_t c;
    gpuzip_t *h;
    memset(&c, 0, sizeof c);
    c.struct_size = sizeof c, c.user = &a, c.forward = count_on, c.backward = is_there;
    WORKS(gpuzip_init(&config, steps, &f, 1, &h));
    CHECK(gpuzip_run_forward(h, &c, &f, 1, NULL) == GPUZIP_OK && a.u == (float)(steps - 1));
    CHECK(gpuzip_run_reverse(h, &c, &f, 1, NULL) == GPUZIP_OK && a.u == 0 && a.calls == steps);
    WORKS(gpuzip_finalize(h));
  }
}

static void *thread_main(void *seed)
{
  app_t *a = calloc(1, sizeof *a);
  const gpuzip_config_t config = revolve(6, 2);
  CHECK(a != NULL);
  gpuzip_t *h = session(&config);
  for (int i = 0; i < 4; i++) shot(h, a, *(int *)seed + i, i % 2);
  CHECK(gpuzip_finalize(h) == GPUZIP_OK);
  free(a);
  return NULL;
}

int main(void)
{
  pthread_t id[3];
  int seed[3] = {1, 20, 300};
  app_t *a = calloc(1, sizeof *a);
  CHECK(a != NULL);
  whole_shots(a);
  stopped(a);
  misused(a);
  fixed_fields();
  macro_steps();
  for (int i = 0; i < 3; i++) CHECK(pthread_create(&id[i], NULL, thread_main, &seed[i]) == 0);
  for (int i = 0; i < 3; i++) CHECK(pthread_join(id[i], NULL) == 0);
  free(a);
  puts("ok");
  return 0;
}
