/* Tests the C ABI: shared schedules, early ends, threads, a fork, structs that nobody filled. The
 * program exits with 1 at the first failed check. tests/sanitizers.sh runs it under sanitizers and
 * valgrind, which find the memory errors and races that this program itself cannot detect. */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

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
  f[0] = field_of(s->u, N / 4, GPUZIP_TYPE_F32), f[0].n2 = f[0].n3 = 2;
  f[1] = field_of(s->v, M, GPUZIP_TYPE_F64);
}

/* Runs one shot of `count` sessions in lockstep and compares every state at its BACKWARD, bit for
 * bit, with a run that keeps all states. */
static void shot(gpuzip_t **h, int count, int seed)
{
  state_t *all = calloc((size_t)STEPS * (size_t)count, sizeof *all), live[SESSIONS];
  gpuzip_action_t action;
  int reversed = 0;
  CHECK(all != NULL);
  for (int d = 0; d < count; d++) {
    start(&live[d], seed + d);
    state_t s = live[d];
    for (int t = 0; t < STEPS; t++) all[d * STEPS + t] = s, forward(&s);
    WORKS(gpuzip_setup(h[d]));
  }
  do {
    WORKS(gpuzip_get_action(h[0], &action));
    for (int d = 0; d < count; d++) {
      gpuzip_field_t f[2];
      const state_t *expected = &all[d * STEPS + action.ts];
      WORKS(gpuzip_dispatch(h[d], action.it));
      fields_of(&live[d], f);
      serve(h[d], &action, f, 2);
      if (action.type == GPUZIP_ACTION_FORWARD) forward(&live[d]);
      if (action.type != GPUZIP_ACTION_BACKWARD) continue;
      CHECK(memcmp(live[d].u, expected->u, sizeof expected->u) == 0);
      CHECK(memcmp(live[d].v, expected->v, sizeof expected->v) == 0);
      reversed++;
    }
  } while (action.type != GPUZIP_ACTION_TERMINATE);
  CHECK(reversed == STEPS * count);
  free(all);
}

static gpuzip_t *session(const gpuzip_config_t *config, state_t *s)
{
  gpuzip_field_t f[2];
  gpuzip_t *h;
  fields_of(s, f);
  WORKS(gpuzip_init(config, STEPS, f, 2, &h));
  return h;
}

static void shared_schedules(void)
{
  state_t s;
  gpuzip_field_t f[2];
  fields_of(&s, f);
  for (int algorithm = GPUZIP_ALGORITHM_REVOLVE; algorithm <= GPUZIP_ALGORITHM_STORE_ALL; algorithm++)
    for (int cache = 0; cache < 5; cache++) {
      gpuzip_config_t config = config_of(algorithm, 12, cache);
      gpuzip_schedule_t *schedule;
      gpuzip_t *h[SESSIONS];
      WORKS(gpuzip_schedule_create(&config, STEPS, &schedule));
      for (int d = 0; d < SESSIONS; d++) {
        config.cache_capacity = cache + d, config.policy = d % 2;
        WORKS(gpuzip_attach(schedule, &config, f, 2, &h[d]));
      }
      for (int i = 0; i < 3; i++) shot(h, SESSIONS, 5 * i);
      WORKS(gpuzip_schedule_release(schedule));
      for (int d = 0; d < SESSIONS; d++) WORKS(gpuzip_finalize(h[d]));
    }
}

/* Finalizes sessions in the middle of a shot, while transfers are under way. */
static void early_finalize(void)
{
  state_t s;
  gpuzip_field_t f[2];
  gpuzip_config_t config = revolve(9, 1);
  config.link_bandwidth = 1e6;
  start(&s, 1);
  fields_of(&s, f);
  for (int stop = 1; stop < 60; stop += 3) {
    gpuzip_t *h = session(&config, &s);
    for (int i = 0; i < stop; i++) next_action(h, f, 2);
    if (stop % 2) WORKS(gpuzip_setup(h));
    WORKS(gpuzip_finalize(h));
  }
}

static void *thread_main(void *seed)
{
  state_t s;
  const gpuzip_config_t config = revolve(6, 2);
  gpuzip_t *h = session(&config, &s);
  for (int i = 0; i < 5; i++) shot(&h, 1, *(int *)seed + i);
  WORKS(gpuzip_finalize(h));
  FAILS(gpuzip_finalize(h), GPUZIP_ERR_HANDLE, "finalized");
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
  const gpuzip_config_t config = revolve(4, 2);
  gpuzip_t *h = session(&config, &s);
  int seed = 3, status;
  const pid_t child = fork();
  if (child == 0) {
    /* Calls on the parent's session fail in the child; a session that the child makes works. */
    CHECK(gpuzip_setup(h) == GPUZIP_ERR_FORKED);
    CHECK(gpuzip_finalize(h) == GPUZIP_ERR_FORKED);
    thread_main(&seed);
    /* execl instead of _exit: at the end of the child a leak checker would report the memory of the
     * parent's threads, which do not exist in the child. */
    execl("/bin/true", "true", (char *)NULL);
    _exit(1);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  shot(&h, 1, 3);
  WORKS(gpuzip_finalize(h));
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
  FAILS(gpuzip_init(&config, STEPS, f, 2, &h), GPUZIP_ERR_CONFIG, "call gpuzip_config_init first");
  CHECK(h == NULL && *lines == before);
  /* With an algorithm it is a configuration whose other keys have their defaults, which is said. */
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE;
  config.host_budget = 1;
  h = session(&config, &s);
  CHECK(*lines > before);
  WORKS(gpuzip_finalize(h));
}

/* Blocks of parity without a session: what is lost comes back, blocks with NULL are left out, and wrong calls are
 * errors. */
static void parity(void)
{
  char one[] = "first", two[] = "other", sum[6] = "", more[6] = "";
  void *blocks[4];
  int32_t present[4] = {1, 1, 0, 0};
  int k;
  blocks[0] = one, blocks[1] = two, blocks[2] = sum, blocks[3] = NULL;
  WORKS(gpuzip_persist_parity(blocks, present, 2, 2, 6));
  for (k = 0; k < 6; k++) CHECK(sum[k] == (one[k] ^ two[k]));
  blocks[3] = more;
  WORKS(gpuzip_persist_parity(blocks, present, 2, 2, 6));
  memset(one, 0, 6), memset(two, 0, 6);
  present[0] = present[1] = 0, present[2] = present[3] = -1;
  WORKS(gpuzip_persist_parity(blocks, present, 2, 2, 6));
  CHECK(strcmp(one, "first") == 0 && strcmp(two, "other") == 0);
  WORKS(gpuzip_persist_parity(blocks, present, 2, 2, 0));
  present[3] = 0;
  FAILS(gpuzip_persist_parity(blocks, present, 2, 2, 6), GPUZIP_ERR_ARGUMENT, "1 of 4 blocks are present");
  FAILS(gpuzip_persist_parity(blocks, present, 4, 0, 6), GPUZIP_ERR_ARGUMENT, "each is at least 1");
  FAILS(gpuzip_persist_parity(blocks, present, 2, 255, 6), GPUZIP_ERR_ARGUMENT, "at most 256");
  FAILS(gpuzip_persist_parity(blocks, present, 0xffffffffu, 0xffffffffu, 6), GPUZIP_ERR_ARGUMENT, "at most 256");
  FAILS(gpuzip_persist_parity(blocks, present, 2, 2, (uint64_t)1 << 63), GPUZIP_ERR_ARGUMENT, "no block is so long");
  blocks[2] = NULL;
  FAILS(gpuzip_persist_parity(blocks, present, 2, 2, 6), GPUZIP_ERR_ARGUMENT, "blocks[2] is NULL, and present[2] is not 0");
  CHECK(gpuzip_persist_checksum(gpuzip_persist_checksum(0, "12345", 5), "6789", 4) == 0xe3069283u);
  CHECK(gpuzip_persist_checksum(7, NULL, 5) == 7);
  FAILS(gpuzip_persist_check("/nonexistent/gpuzip-r000000-g000000000001.gen"), GPUZIP_ERR_IO, "No such file");
  FAILS(gpuzip_persist_check("gpuzip-r000000-g000000000001.parity"), GPUZIP_ERR_ARGUMENT, "no name of a generation");
  FAILS(gpuzip_persist_whole("/nonexistent/gpuzip-r000000-g000000000001.gen"), GPUZIP_ERR_IO, "No such file");
  FAILS(gpuzip_persist_whole("gpuzip-r000000-g000000000001.parity"), GPUZIP_ERR_ARGUMENT, "no name of a generation");
}

int main(void)
{
  int lines = 0;
  WORKS(gpuzip_set_log_callback(log_line, &lines));
  unfilled(&lines);
  parity();
  shared_schedules();
  early_finalize();
  threads();
  forked();
  WORKS(gpuzip_set_log_callback(NULL, NULL));
  puts("ok");
  return 0;
}
