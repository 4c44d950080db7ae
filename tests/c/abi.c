/* Tests the C ABI: whole sweeps, shared schedules, zero copy, errors, threads, a fork. The program
 * exits with 1 at the first failed check. tests/sanitizers.sh runs it under sanitizers and
 * valgrind, which find the memory errors and races that this program itself cannot detect. */
#define _POSIX_C_SOURCE 200809L
#include <gpuzip.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                            \
  do {                                                                                              \
    if (!(condition)) {                                                                             \
      fprintf(stderr, "%s:%d: %s\n  last error: %s\n", __FILE__, __LINE__, #condition, gpuzip_last_error()); \
      exit(1);                                                                                      \
    }                                                                                               \
  } while (0)

enum { STEPS = 57, N = 120, M = 31, SESSIONS = 3 };

/* The state of the model application: two fields of different sizes and types. */
typedef struct {
  float u[N];
  double v[M];
} state_t;

static void start(state_t *s, int seed)
{
  for (int i = 0; i < N; i++) s->u[i] = (float)((i * 37 + seed * 11) % 101) / 7.0f;
  for (int i = 0; i < M; i++) s->v[i] = (double)((i * 13 + seed) % 29) / 3.0;
}

static void forward(state_t *s)
{
  for (int i = 0; i < N; i++) s->u[i] = 0.7f * s->u[(i + 1) % N] + (float)s->v[i % M] * 0.01f;
  for (int i = 0; i < M; i++) s->v[i] = 0.9 * s->v[(i + 3) % M] + (double)s->u[i] * 0.02;
}

static void fields_of(state_t *s, gpuzip_field_t f[2])
{
  memset(f, 0, 2 * sizeof f[0]);
  f[0].data = s->u, f[0].n1 = N / 4, f[0].n2 = 2, f[0].n3 = 2;
  f[1].data = s->v, f[1].n1 = M, f[1].n2 = f[1].n3 = 1, f[1].type = GPUZIP_TYPE_F64;
}

static gpuzip_config_t revolve(int snaps, int cache)
{
  gpuzip_config_t config;
  CHECK(gpuzip_config_init(&config) == GPUZIP_OK);
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE;
  config.checkpointing_snaps = snaps;
  config.cache_capacity = cache;
  return config;
}

/* Runs one shot of `count` sessions in lockstep and compares every state at its BACKWARD, bit for
 * bit, with a run that keeps all states. */
static void shot(gpuzip_t **h, int count, int seed)
{
  static const gpuzip_action_t none;
  state_t *all = calloc((size_t)STEPS * (size_t)count, sizeof *all), live[SESSIONS];
  gpuzip_field_t f[2];
  CHECK(all != NULL);
  for (int d = 0; d < count; d++) {
    start(&live[d], seed + d);
    state_t s = live[d];
    for (int t = 0; t < STEPS; t++) all[d * STEPS + t] = s, forward(&s);
    CHECK(gpuzip_setup(h[d]) == GPUZIP_OK);
  }
  gpuzip_action_t action = none;
  int reversed = 0;
  while (action.type != GPUZIP_ACTION_TERMINATE) {
    CHECK(gpuzip_get_action(h[0], &action) == GPUZIP_OK);
    for (int d = 0; d < count; d++) {
      CHECK(gpuzip_dispatch(h[d], action.it) == GPUZIP_OK);
      fields_of(&live[d], f);
      if (action.type == GPUZIP_ACTION_FORWARD) forward(&live[d]);
      if (action.type == GPUZIP_ACTION_SAVE) CHECK(gpuzip_save(h[d], action.ts, f, 2, NULL) == GPUZIP_OK);
      if (action.type == GPUZIP_ACTION_RESTORE) {
        memset(&live[d], 0xee, sizeof live[d]);
        CHECK(gpuzip_retrieve(h[d], action.ts, f, 2, NULL) == GPUZIP_OK);
      }
      if (action.type == GPUZIP_ACTION_BACKWARD) {
        const state_t *expected = &all[d * STEPS + action.ts];
        CHECK(memcmp(live[d].u, expected->u, sizeof expected->u) == 0 && memcmp(live[d].v, expected->v, sizeof expected->v) == 0);
        reversed++;
      }
    }
  }
  CHECK(reversed == STEPS * count);
  free(all);
}

static void whole_sweeps(void)
{
  state_t s;
  gpuzip_field_t f[2];
  fields_of(&s, f);
  for (int algorithm = GPUZIP_ALGORITHM_REVOLVE; algorithm <= GPUZIP_ALGORITHM_STORE_ALL; algorithm++)
    for (int cache = 0; cache < 5; cache++) {
      gpuzip_config_t config = revolve(12, cache);
      gpuzip_schedule_t *schedule;
      gpuzip_t *h[SESSIONS];
      config.checkpointing_algorithm = algorithm;
      CHECK(gpuzip_schedule_create(&config, STEPS, &schedule) == GPUZIP_OK);
      for (int d = 0; d < SESSIONS; d++) {
        config.cache_capacity = cache + d;
        config.policy = d % 2;
        CHECK(gpuzip_attach(schedule, &config, f, 2, &h[d]) == GPUZIP_OK);
      }
      for (int i = 0; i < 3; i++) shot(h, SESSIONS, 5 * i);
      CHECK(gpuzip_schedule_release(schedule) == GPUZIP_OK);
      for (int d = 0; d < SESSIONS; d++) CHECK(gpuzip_finalize(h[d]) == GPUZIP_OK);
    }
}

/* Copies the state `s` into the memory of a slot that gpuzip_save_begin has returned. */
static void put(void *const data[2], const state_t *s)
{
  memcpy(data[0], s->u, sizeof s->u);
  memcpy(data[1], s->v, sizeof s->v);
}

static void zero_copy(void)
{
  static state_t all[STEPS];
  state_t live;
  gpuzip_field_t f[2];
  gpuzip_action_t action;
  gpuzip_config_t config = revolve(6, 3);
  gpuzip_t *h;
  void *data[2];
  int begun = -1;
  fields_of(&live, f);
  config.zero_copy = 1;
  start(&all[0], 4);
  for (int t = 1; t < STEPS; t++) all[t] = all[t - 1], forward(&all[t]);
  CHECK(gpuzip_init(&config, STEPS, f, 2, &h) == GPUZIP_OK);
  live = all[0];
  do {
    CHECK(gpuzip_get_action(h, &action) == GPUZIP_OK);
    if (action.type == GPUZIP_ACTION_FORWARD) {
      forward(&live);
      if (action.flags & GPUZIP_FLAG_NEXT_IS_SAVE) {
        CHECK(gpuzip_save_begin(h, action.ts, data, 1, NULL) == GPUZIP_ERR_SHAPE);
        CHECK(gpuzip_save_begin(h, action.ts, data, 2, NULL) == GPUZIP_OK);
        put(data, &live), begun = action.ts;
      }
    }
    if (action.type == GPUZIP_ACTION_SAVE) {
      if (begun != action.ts) {
        CHECK(gpuzip_save_commit(h, action.ts, NULL) == GPUZIP_ERR_STATE);
        CHECK(gpuzip_save_begin(h, action.ts, data, 2, NULL) == GPUZIP_OK);
        put(data, &live);
      }
      CHECK(gpuzip_save_commit(h, action.ts, NULL) == GPUZIP_OK);
    }
    if (action.type == GPUZIP_ACTION_RESTORE) {
      CHECK(gpuzip_retrieve_acquire(h, action.ts, data, 2, NULL) == GPUZIP_OK);
      memcpy(live.u, data[0], sizeof live.u);
      memcpy(live.v, data[1], sizeof live.v);
      CHECK(gpuzip_retrieve_release(h, action.ts + 1, NULL) == GPUZIP_ERR_STATE);
      CHECK(gpuzip_retrieve_release(h, action.ts, NULL) == GPUZIP_OK);
      CHECK(gpuzip_retrieve_release(h, action.ts, NULL) == GPUZIP_ERR_STATE);
    }
    if (action.type == GPUZIP_ACTION_BACKWARD) CHECK(memcmp(&live.u, all[action.ts].u, sizeof live.u) == 0);
    if (action.type == GPUZIP_ACTION_BACKWARD) CHECK(memcmp(&live.v, all[action.ts].v, sizeof live.v) == 0);
  } while (action.type != GPUZIP_ACTION_TERMINATE);
  CHECK(gpuzip_finalize(h) == GPUZIP_OK);
}

static void errors(void)
{
  state_t s;
  gpuzip_field_t f[2];
  gpuzip_action_t action;
  gpuzip_config_t config = revolve(4, 2);
  gpuzip_t *h = NULL;
  start(&s, 1);
  fields_of(&s, f);
  CHECK(gpuzip_init(&config, 0, f, 2, &h) == GPUZIP_ERR_ARGUMENT && h == NULL);
  CHECK(strstr(gpuzip_last_error(), "steps = 0") != NULL);
  f[0].n2 = UINT64_MAX;
  CHECK(gpuzip_init(&config, STEPS, f, 2, &h) == GPUZIP_ERR_ARGUMENT);
  fields_of(&s, f);
  CHECK(gpuzip_init(&config, STEPS, f, 2, &h) == GPUZIP_OK);
  CHECK(gpuzip_retrieve(h, 0, f, 2, NULL) == GPUZIP_ERR_STATE);
  CHECK(gpuzip_get_action(h, &action) == GPUZIP_OK && action.type == GPUZIP_ACTION_SAVE);
  CHECK(gpuzip_get_action(h, &action) == GPUZIP_ERR_STATE);
  CHECK(gpuzip_save(h, 0, f, 1, NULL) == GPUZIP_ERR_SHAPE);
  f[1].type = GPUZIP_TYPE_F32;
  CHECK(gpuzip_save(h, 0, f, 2, NULL) == GPUZIP_ERR_SHAPE);
  fields_of(&s, f);
  CHECK(gpuzip_save(h, 0, f, 2, NULL) == GPUZIP_OK);
  CHECK(gpuzip_finalize(h) == GPUZIP_OK);
  CHECK(gpuzip_finalize(h) == GPUZIP_ERR_HANDLE);
  CHECK(gpuzip_get_action(h, &action) == GPUZIP_ERR_HANDLE);
  CHECK(strstr(gpuzip_last_error(), "finalized") != NULL);
}

/* Finalizes sessions in the middle of a shot, while transfers are under way. */
static void early_finalize(void)
{
  state_t s;
  gpuzip_field_t f[2];
  gpuzip_action_t action;
  gpuzip_config_t config = revolve(9, 1);
  start(&s, 1);
  fields_of(&s, f);
  for (int stop = 1; stop < 60; stop += 3) {
    gpuzip_t *h;
    config.link_bandwidth = 1e6;
    CHECK(gpuzip_init(&config, STEPS, f, 2, &h) == GPUZIP_OK);
    for (int i = 0; i < stop; i++) {
      CHECK(gpuzip_get_action(h, &action) == GPUZIP_OK);
      if (action.type == GPUZIP_ACTION_SAVE) CHECK(gpuzip_save(h, action.ts, f, 2, NULL) == GPUZIP_OK);
      if (action.type == GPUZIP_ACTION_RESTORE) CHECK(gpuzip_retrieve(h, action.ts, f, 2, NULL) == GPUZIP_OK);
    }
    if (stop % 2) CHECK(gpuzip_setup(h) == GPUZIP_OK);
    CHECK(gpuzip_finalize(h) == GPUZIP_OK);
  }
}

static void *thread_main(void *seed)
{
  gpuzip_t *h;
  state_t s;
  gpuzip_field_t f[2];
  gpuzip_config_t config = revolve(6, 2);
  fields_of(&s, f);
  CHECK(gpuzip_init(&config, STEPS, f, 2, &h) == GPUZIP_OK);
  for (int i = 0; i < 5; i++) shot(&h, 1, *(int *)seed + i);
  CHECK(gpuzip_finalize(h) == GPUZIP_OK);
  CHECK(gpuzip_finalize(h) == GPUZIP_ERR_HANDLE);
  CHECK(gpuzip_last_error()[0] != '\0');
  return NULL;
}

static void threads(void)
{
  pthread_t id[4];
  int seed[4] = {1, 20, 300, 4000};
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&id[i], NULL, thread_main, &seed[i]) == 0);
  for (int i = 0; i < 4; i++) CHECK(pthread_join(id[i], NULL) == 0);
}

static void forked(void)
{
  state_t s;
  gpuzip_field_t f[2];
  gpuzip_action_t action;
  gpuzip_config_t config = revolve(4, 2);
  gpuzip_t *h, *own;
  int status;
  start(&s, 1);
  fields_of(&s, f);
  CHECK(gpuzip_init(&config, STEPS, f, 2, &h) == GPUZIP_OK);
  pid_t child = fork();
  if (child == 0) {
    /* Calls on the parent's session fail in the child; a session that the child makes works. */
    CHECK(gpuzip_get_action(h, &action) == GPUZIP_ERR_FORKED);
    CHECK(gpuzip_finalize(h) == GPUZIP_ERR_FORKED);
    CHECK(gpuzip_init(&config, STEPS, f, 2, &own) == GPUZIP_OK);
    shot(&own, 1, 3);
    CHECK(gpuzip_finalize(own) == GPUZIP_OK);
    /* execl instead of _exit: at the end of the child a leak checker would report the memory of the
     * parent's threads, which do not exist in the child. */
    execl("/bin/true", "true", (char *)NULL);
    _exit(1);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  shot(&h, 1, 3);
  CHECK(gpuzip_finalize(h) == GPUZIP_OK);
}

static void log_line(int level, const char *message, void *user)
{
  *(int *)user += level >= 0 && message[0] != '\0';
}

/* A struct that nobody filled is an error that says what to call, and no reason to print more. */
static void unfilled(const int *lines)
{
  state_t s;
  gpuzip_field_t f[2];
  gpuzip_t *h = NULL;
  gpuzip_config_t config;
  const int before = *lines;
  fields_of(&s, f);
  memset(&config, 0, sizeof config);
  CHECK(gpuzip_init(&config, STEPS, f, 2, &h) == GPUZIP_ERR_CONFIG && h == NULL);
  CHECK(strstr(gpuzip_last_error(), "call gpuzip_config_init first") != NULL && *lines == before);
  /* With an algorithm it is a configuration whose other keys have their defaults, which is said. */
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE;
  config.host_budget = 1;
  CHECK(gpuzip_init(&config, STEPS, f, 2, &h) == GPUZIP_OK && *lines > before);
  CHECK(gpuzip_finalize(h) == GPUZIP_OK);
}

int main(void)
{
  int lines = 0;
  CHECK(gpuzip_set_log_callback(log_line, &lines) == GPUZIP_OK);
  unfilled(&lines);
  whole_sweeps();
  zero_copy();
  errors();
  early_finalize();
  threads();
  forked();
  CHECK(gpuzip_set_log_callback(NULL, NULL) == GPUZIP_OK);
  puts("ok");
  return 0;
}
