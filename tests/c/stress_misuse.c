/* Makes random, mostly wrong calls from eight threads at once: handles that are NULL, finalized,
 * made up or of the wrong kind, calls out of order, NULL pointers, random configurations, damaged
 * streams and profiles. The threads share their sessions and finalize one another's. Now and then
 * each thread runs a correct session of its own and compares every restored state with the saved
 * one.
 *
 *   stress_misuse SEED CALLS
 *
 * A call with at least one argument that is certainly wrong must fail, and every failed call must
 * leave an error text. */
#define _POSIX_C_SOURCE 200809L
#include "stress_common.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

_Thread_local uint64_t current_job;

void stress_failed(void) { exit(1); }

enum { THREADS = 8, SLOTS = 24, SHAPES = 3, CALLS = 36, FIELDS = 8 };

static _Atomic(gpuzip_t *) sessions[SLOTS];
static _Atomic(gpuzip_schedule_t *) schedules[SLOTS];
static atomic_ullong log_lines;

/* The data of one thread: arguments to choose from, and counters. */
typedef struct {
  random_t random;
  gpuzip_t *stale;
  gpuzip_field_t good[SHAPES][2], bad[FIELDS];
  double memory[2][256];
  unsigned char stream[8192], profile[1024];
  uint64_t stream_bytes, profile_bytes;
  gpuzip_config_t loaded;
  uint64_t calls, succeeded, own_states;
  /* The number of the current call, and whether an argument of it is certainly wrong. */
  int call, must_fail;
} thread_t;

static void on_log(int32_t level, const char *message, void *user)
{
  (void)user;
  if (level >= 0 && level <= 3 && message[0] != '\0') atomic_fetch_add(&log_lines, 1);
}

/* Returns a handle for a session argument. Sets must_fail if the handle names no session. */
static gpuzip_t *a_session(thread_t *t)
{
  random_t *r = &t->random;
  switch (between(r, 0, 19)) {
    case 0: t->must_fail = 1; return NULL;
    case 1: t->must_fail = 1; return t->stale;
    case 2: t->must_fail = 1; return (gpuzip_t *)(uintptr_t)(next(r) | 1);
    case 3: t->must_fail = 1; return (gpuzip_t *)atomic_load(&schedules[between(r, 0, SLOTS - 1)]);
    default: {
      gpuzip_t *handle = atomic_load(&sessions[between(r, 0, SLOTS - 1)]);
      if (handle == NULL) t->must_fail = 1;
      return handle;
    }
  }
}

static gpuzip_schedule_t *a_schedule(thread_t *t)
{
  random_t *r = &t->random;
  switch (between(r, 0, 9)) {
    case 0: t->must_fail = 1; return NULL;
    case 1: t->must_fail = 1; return (gpuzip_schedule_t *)t->stale;
    default: {
      gpuzip_schedule_t *handle = atomic_load(&schedules[between(r, 0, SLOTS - 1)]);
      if (handle == NULL) t->must_fail = 1;
      return handle;
    }
  }
}

/* Returns `place` for a pointer argument, or NULL once in 12 calls. */
static void *a_place(thread_t *t, void *place)
{
  if (!once_in(&t->random, 12)) return place;
  t->must_fail = 1;
  return NULL;
}

static const gpuzip_field_t *some_fields(thread_t *t, uint32_t *nfields)
{
  random_t *r = &t->random;
  *nfields = 2;
  switch (between(r, 0, 9)) {
    case 0: t->must_fail = 1; return NULL;
    case 1: t->must_fail = 1, *nfields = 0; return t->good[0];
    case 2: t->must_fail = 1, *nfields = (uint32_t)between(r, 1025, UINT32_MAX); return t->good[0];
    case 3: {
      /* Random words: lengths that overflow, and types and roles that do not exist. `data` is NULL,
       * because the shapes do not fit the thread's memory. */
      *nfields = (uint32_t)between(r, 1, FIELDS);
      for (uint32_t k = 0; k < *nfields; k++) {
        gpuzip_field_t *f = &t->bad[k];
        memset(f, 0, sizeof *f);
        f->n1 = next(r) >> between(r, 0, 63), f->n2 = next(r) >> between(r, 0, 63),
        f->n3 = next(r) >> between(r, 0, 63);
        f->type = (int32_t)between(r, -1, 3), f->role = (int32_t)between(r, -1, 3);
        if (once_in(r, 9)) f->reserved[between(r, 0, 1)] = next(r);
      }
      /* This extent makes the first shape invalid: its size in bytes is zero or overflows. */
      t->bad[0].n1 = UINT64_MAX, t->must_fail = 1;
      return t->bad;
    }
    default: return t->good[between(r, 0, SHAPES - 1)];
  }
}

/* A configuration: the defaults with random numbers in some places. */
static const gpuzip_config_t *a_config(thread_t *t, unsigned char buffer[4096])
{
  random_t *r = &t->random;
  gpuzip_config_t *c = (gpuzip_config_t *)(void *)buffer;
  memset(buffer, 0, 4096);
  gpuzip_config_init(c);
  c->backend = 1, c->log_level = 3;
  c->checkpointing_algorithm = (int32_t)between(r, 1, 6),
  c->checkpointing_snaps = (int32_t)between(r, 1, 9);
  for (int64_t changes = between(r, 0, 4); changes > 0; changes--) {
    int32_t *const ints[] = {&c->checkpointing_algorithm,
                             &c->checkpointing_snaps,
                             &c->cache_capacity,
                             &c->compressor,
                             &c->log_level,
                             &c->zfp_bit_rate,
                             &c->backend,
                             &c->device,
                             &c->policy,
                             &c->error_bound_mode,
                             &c->nonfinite,
                             &c->max_in_flight,
                             &c->range_actions,
                             &c->snapshot_rule,
                             &c->schedule_chunk,
                             &c->uniform_reading,
                             &c->zero_copy,
                             &c->shared_levels,
                             &c->mixed_storage,
                             &c->bitcomp_delta_config,
                             &c->bitcomp_algorithm,
                             &c->enable_compression_rate_log};
    double *const doubles[] = {&c->error_bound,    &c->cuszp_err_bound,  &c->bitcomp_delta,
                               &c->link_bandwidth, &c->persist_overhead, &c->stop_budget_s};
    uint64_t *const words[] = {&c->device_budget, &c->host_budget, &c->disk_budget};
    switch (between(r, 0, 5)) {
      case 0: case 1: *ints[between(r, 0, 21)] = (int32_t)between(r, 0, 8); break;
      case 2: *ints[between(r, 0, 21)] = (int32_t)next(r); break;
      case 3: *words[between(r, 0, 2)] = next(r) >> between(r, 0, 63); break;
      case 4: {
        const uint64_t bits = next(r);
        memcpy(doubles[between(r, 0, 5)], &bits, sizeof bits);
        break;
      }
      default: c->compression_factor = (float)between(r, -2, 40);
    }
  }
  /* A link so slow that a transfer takes minutes is valid; the test does without it to save
   * time. */
  if (c->link_bandwidth > 0 && c->link_bandwidth < 1e9) c->link_bandwidth = 0;
  if (once_in(r, 20))
    c->trace_file_path = (char *)(uintptr_t)(once_in(r, 2) ? "" : "/nonexistent/trace");
  if (once_in(r, 20)) c->float_kind = "quadruple", t->must_fail = 1;
  if (once_in(r, 20)) c->profile_path = "/nonexistent/folder/profile";
  switch (between(r, 0, 19)) {
    case 0: c->struct_size = 0; break; /* only block 1 is read */
    /* A newer header whose additional members are zero. */
    case 1: c->struct_size = sizeof *c + 8 * (uint64_t)between(r, 1, 9); break;
    case 2: c->struct_size = next(r) | 1; t->must_fail = 1; break;
    case 3: t->must_fail = 1; return NULL;
    /* Reserved words must be zero in this version. */
    case 4:
      c->reserved[next(r) % (sizeof c->reserved / sizeof c->reserved[0])] = 1 + next(r) / 2,
                                                         t->must_fail = 1;
      break;
    default: break;
  }
  return c;
}

static int32_t some_steps(thread_t *t)
{
  static const int32_t steps[] = {1, 2, 3, 17, 40, 100, 150};
  if (!once_in(&t->random, 10)) return steps[between(&t->random, 0, 6)];
  t->must_fail = 1;
  return (int32_t)between(&t->random, INT32_MIN, 0);
}

static int32_t on_forward(void *user, int32_t ts, int32_t ts_end, uint32_t flags)
{
  thread_t *t = user;
  return (void)ts, (void)ts_end, (void)flags, once_in(&t->random, 50) ? 5 : 0;
}

static int32_t on_backward(void *user, int32_t ts, uint32_t flags)
{
  thread_t *t = user;
  gpuzip_stats_t stats;
  stats.struct_size = sizeof stats;
  return (void)ts, (void)flags,
         gpuzip_stats(atomic_load(&sessions[between(&t->random, 0, 3)]), &stats) ==
             GPUZIP_ERR_PANIC;
}

/* Puts a new session into a random shared slot, and finalizes the session that was in the slot.
 * replace_schedule does the same with a schedule. */
static void replace_session(thread_t *t, gpuzip_t *handle)
{
  gpuzip_t *old = atomic_exchange(&sessions[between(&t->random, 0, SLOTS - 1)], handle);
  if (old == NULL) return;
  CHECK(gpuzip_finalize(old) == GPUZIP_OK, "finalize of a live session");
  t->stale = old;
}

static void replace_schedule(thread_t *t, gpuzip_schedule_t *handle)
{
  gpuzip_schedule_t *old = atomic_exchange(&schedules[between(&t->random, 0, SLOTS - 1)], handle);
  if (old != NULL) CHECK(gpuzip_schedule_release(old) == GPUZIP_OK, "release of a live schedule");
}

static int32_t make_session(thread_t *t)
{
  unsigned char buffer[4096];
  uint32_t nfields;
  gpuzip_t *handle = NULL;
  const gpuzip_config_t *config = a_config(t, buffer);
  const gpuzip_field_t *fields = some_fields(t, &nfields);
  gpuzip_t **place = a_place(t, &handle);
  const int32_t status = once_in(&t->random, 3)
                             ? gpuzip_attach(a_schedule(t), config, fields, nfields, place)
                             : gpuzip_init(config, some_steps(t), fields, nfields, place);
  CHECK((status == GPUZIP_OK) == (handle != NULL), "status %d, handle %p", status, (void *)handle);
  if (handle != NULL) replace_session(t, handle);
  return status;
}

/* Decodes a damaged stream: one bit is changed, or bytes at its end are missing. */
static int32_t damaged_stream(thread_t *t)
{
  random_t *r = &t->random;
  unsigned char buffer[4096];
  const uint64_t cut = once_in(r, 2) ? (uint64_t)between(r, 1, (int64_t)t->stream_bytes) : 0;
  memcpy(buffer, t->stream, sizeof buffer);
  if (cut == 0) buffer[next(r) % t->stream_bytes] ^= (unsigned char)(1 << next(r) % 8);
  t->must_fail = 1;
  return gpuzip_codec_decompress(buffer, t->stream_bytes - cut, t->good[2], 2);
}

static int32_t one_call(thread_t *t)
{
  random_t *r = &t->random;
  unsigned char buffer[4096];
  gpuzip_config_t config;
  gpuzip_action_t action;
  gpuzip_stats_t stats;
  gpuzip_summary_t summary;
  gpuzip_profile_info_t info;
  gpuzip_codec_info_t codec;
  void *data[2];
  uint32_t nfields;
  uint64_t bytes;
  const int32_t ts = (int32_t)between(r, -1, 40);
  gpuzip_callbacks_t callbacks = {
      sizeof callbacks, t, on_forward, on_backward, NULL, NULL, NULL, {0}};
  const int good_size = !once_in(r, 10);
  stats.struct_size = good_size ? sizeof stats : (uint64_t)between(r, 0, 7);
  summary.struct_size = good_size ? sizeof summary : (uint64_t)between(r, 0, 7);
  info.struct_size = good_size ? sizeof info : (uint64_t)between(r, 0, 7);
  codec.struct_size = good_size ? sizeof codec : (uint64_t)between(r, 0, 7);
  switch (t->call = (int)between(r, 0, CALLS - 1)) {
    case 0: case 1: case 2: case 3: return gpuzip_get_action(a_session(t), a_place(t, &action));
    case 4:
    case 5:
    case 6: {
      const gpuzip_field_t *f = some_fields(t, &nfields);
      return gpuzip_save(a_session(t), ts, f, nfields, NULL);
    }
    case 7:
    case 8:
    case 9: {
      const gpuzip_field_t *f = some_fields(t, &nfields);
      return gpuzip_retrieve(a_session(t), ts, f, nfields, NULL);
    }
    case 10: return gpuzip_setup(a_session(t));
    case 11: return gpuzip_dispatch(a_session(t), between(r, -3, 60));
    case 12: return gpuzip_save_begin(a_session(t), ts, a_place(t, data), 2, NULL);
    case 13: return gpuzip_save_commit(a_session(t), ts, NULL);
    case 14: return gpuzip_retrieve_acquire(a_session(t), ts, a_place(t, data), 2, NULL);
    case 15: return gpuzip_retrieve_release(a_session(t), ts, NULL);
    case 16: return gpuzip_synchronize(a_session(t));
    case 17: t->must_fail |= !good_size; return gpuzip_stats(a_session(t), a_place(t, &stats));
    case 18: t->must_fail |= !good_size; return gpuzip_summary(a_session(t), a_place(t, &summary));
    case 19: return gpuzip_autotune(a_session(t));
    case 20:
      return gpuzip_profile_export(a_session(t), once_in(r, 3) ? NULL : t->profile,
                                   sizeof t->profile, a_place(t, &bytes));
    case 21: {
      memset(buffer, 0, sizeof buffer);
      memcpy(buffer, t->profile, sizeof t->profile);
      buffer[next(r) % t->profile_bytes] ^= (unsigned char)(1 << next(r) % 8), t->must_fail = 1;
      return gpuzip_profile_import(a_session(t), buffer, t->profile_bytes);
    }
    case 22:
      t->must_fail |= !good_size;
      return gpuzip_profile_info(t->profile, t->profile_bytes, (uint32_t)between(r, 0, 3),
                                 a_place(t, &info));
    case 23: case 24: case 25: return make_session(t);
    case 26: {
      gpuzip_schedule_t *schedule = NULL;
      const gpuzip_config_t *c = a_config(t, buffer);
      const int32_t steps = some_steps(t),
                    status = gpuzip_schedule_create(c, steps, a_place(t, &schedule));
      if (schedule != NULL) replace_schedule(t, schedule);
      return status;
    }
    case 27: return gpuzip_schedule_get_action(a_schedule(t), a_place(t, &action));
    case 28: return gpuzip_schedule_rewind(a_schedule(t));
    case 29:
      t->must_fail |= !good_size;
      return gpuzip_schedule_summary(a_schedule(t), a_place(t, &summary));
    case 30: {
      const gpuzip_config_t *c = a_config(t, buffer);
      const gpuzip_field_t *f = some_fields(t, &nfields);
      const int32_t steps = some_steps(t);
      t->must_fail |= !good_size;
      return gpuzip_memory_required(c, steps, f, nfields, a_place(t, &summary));
    }
    case 31: {
      const gpuzip_field_t *f = some_fields(t, &nfields);
      if (once_in(r, 6)) callbacks.forward = NULL, t->must_fail = 1;
      if (once_in(r, 6)) callbacks.struct_size = (uint64_t)between(r, 0, 70), t->must_fail = 1;
      return gpuzip_run_forward(a_session(t), a_place(t, &callbacks), f, nfields, NULL);
    }
    case 32: {
      const gpuzip_field_t *f = some_fields(t, &nfields);
      return gpuzip_run_reverse(a_session(t), a_place(t, &callbacks), f, nfields, NULL);
    }
    case 33: return damaged_stream(t);
    case 34:
      t->must_fail |= !good_size;
      return gpuzip_codec_info(t->stream, t->stream_bytes, (uint32_t)between(r, 0, 3),
                               a_place(t, &codec));
    default: {
      const int32_t status = gpuzip_config_load(once_in(r, 2) ? "/nonexistent/gpuzip.cfg" : NULL,
                                                a_place(t, &config));
      return status == GPUZIP_OK ? gpuzip_config_free(&config) : status;
    }
  }
}

/* Runs a correct session while the other threads misuse theirs, and checks every restored state. */
static void own_session(thread_t *t)
{
  gpuzip_config_t config;
  gpuzip_action_t a;
  gpuzip_t *handle = NULL;
  double state[64];
  gpuzip_field_t field = {state, 64, 1, 1, GPUZIP_TYPE_F64, 0, 0, 0, {0}};
  const int32_t steps = (int32_t)between(&t->random, 1, 60);
  CHECK(gpuzip_config_init(&config) == GPUZIP_OK, "defaults");
  config.checkpointing_algorithm = (int32_t)between(&t->random, 1, 3),
  config.checkpointing_snaps = 9, config.cache_capacity = 2, config.backend = 1;
  config.log_level = 3;
  CHECK(gpuzip_init(&config, steps, &field, 1, &handle) == GPUZIP_OK, "a session");
  int32_t live = 0, reversed = steps;
  for (int i = 0; i < 64; i++) state[i] = i;
  do {
    CHECK(gpuzip_get_action(handle, &a) == GPUZIP_OK, "an action");
    switch (a.type) {
      case GPUZIP_ACTION_FORWARD:
        CHECK(a.ts == ++live, "FORWARD %d", a.ts);
        for (int i = 0; i < 64; i++) state[i] = i + 1000.0 * live;
        break;
      case GPUZIP_ACTION_SAVE:
        CHECK(a.ts == live && gpuzip_save(handle, a.ts, &field, 1, NULL) == GPUZIP_OK, "SAVE %d",
              a.ts);
        break;
      case GPUZIP_ACTION_RESTORE:
        memset(state, 0xee, sizeof state);
        CHECK(gpuzip_retrieve(handle, a.ts, &field, 1, NULL) == GPUZIP_OK, "RESTORE %d", a.ts);
        live = a.ts;
        for (int i = 0; i < 64; i++) CHECK(state[i] == i + 1000.0 * live, "state %d", live);
        t->own_states++;
        break;
      case GPUZIP_ACTION_BACKWARD:
        CHECK(a.ts == live && a.ts == --reversed, "BACKWARD %d", a.ts);
        break;
      default: CHECK(a.type == GPUZIP_ACTION_TERMINATE, "action %d", a.type);
    }
  } while (a.type != GPUZIP_ACTION_TERMINATE);
  CHECK(reversed == 0 && gpuzip_finalize(handle) == GPUZIP_OK, "the end");
}

/* Makes the arguments that the thread's calls choose from: fields, a stream, a profile, and the
 * handle of a finalized session. */
static void prepare(thread_t *t)
{
  gpuzip_config_t config;
  gpuzip_action_t a;
  gpuzip_t *handle = NULL;
  for (int s = 0; s < SHAPES; s++)
    for (int k = 0; k < 2; k++) {
      const gpuzip_field_t field = {t->memory[k],
                                    s == 0 ? 1 : 16,
                                    s == 2 ? 8 : 1,
                                    1,
                                    s == 1 ? GPUZIP_TYPE_F64 : GPUZIP_TYPE_F32,
                                    k,
                                    0,
                                    0,
                                    {0}};
      t->good[s][k] = field;
    }
  for (int i = 0; i < 256; i++) t->memory[0][i] = t->memory[1][i] = 0.001 * i;
  CHECK(gpuzip_config_init(&config) == GPUZIP_OK, "defaults");
  config.compressor = GPUZIP_COMPRESSOR_DCT, config.backend = 1, config.log_level = 3;
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE, config.checkpointing_snaps = 3;
  CHECK(gpuzip_codec_compress(&config, t->good[2], 2, t->stream, sizeof t->stream,
                              &t->stream_bytes) == GPUZIP_OK,
        "a stream");
  CHECK(t->stream_bytes <= 4096, "%llu bytes", (unsigned long long)t->stream_bytes);
  config.compressor = GPUZIP_COMPRESSOR_NONE;
  CHECK(gpuzip_init(&config, 9, t->good[0], 2, &handle) == GPUZIP_OK &&
            gpuzip_autotune(handle) == GPUZIP_OK,
        "a session that measures");
  do {
    CHECK(gpuzip_get_action(handle, &a) == GPUZIP_OK, "an action");
    if (a.type == GPUZIP_ACTION_SAVE)
      CHECK(gpuzip_save(handle, a.ts, t->good[0], 2, NULL) == GPUZIP_OK, "SAVE");
    if (a.type == GPUZIP_ACTION_RESTORE)
      CHECK(gpuzip_retrieve(handle, a.ts, t->good[0], 2, NULL) == GPUZIP_OK, "RESTORE");
  } while (a.type != GPUZIP_ACTION_TERMINATE);
  CHECK(gpuzip_profile_export(handle, t->profile, sizeof t->profile, &t->profile_bytes) ==
            GPUZIP_OK,
        "a profile");
  CHECK(gpuzip_finalize(handle) == GPUZIP_OK, "finalize");
  t->stale = handle;
}

static void *run(void *argument)
{
  thread_t *t = argument;
  const uint64_t calls = t->calls, seed = t->random.state;
  prepare(t);
  for (uint64_t k = 0; k < calls; k++) {
    /* The random numbers of a call follow from current_job alone, which a failed check prints. */
    t->random.state = mix(current_job = seed + k);
    t->must_fail = 0;
    const int32_t status = one_call(t);
    CHECK(status <= 0, "status %d", status);
    CHECK(!t->must_fail || status < 0, "call %d with wrong arguments succeeded", t->call);
    CHECK(status == GPUZIP_OK || strlen(gpuzip_last_error()) > 10,
          "call %d: status %d without a text", t->call, status);
    CHECK(status != GPUZIP_ERR_PANIC && status != GPUZIP_ERR_POISONED, "call %d: status %d",
          t->call, status);
    t->succeeded += status == GPUZIP_OK;
    if (k % 400 == 0) own_session(t);
  }
  return NULL;
}

int main(int argc, char **argv)
{
  static thread_t threads[THREADS];
  pthread_t ids[THREADS];
  uint64_t succeeded = 0, states = 0;
  if (argc != 3) return fprintf(stderr, "usage: %s SEED CALLS\n", argv[0]), 2;
  const uint64_t seed = strtoull(argv[1], NULL, 10), calls = strtoull(argv[2], NULL, 10) / THREADS;
  CHECK(gpuzip_set_log_callback(on_log, NULL) == GPUZIP_OK, "log callback");
  for (int k = 0; k < THREADS; k++) {
    threads[k].random.state = mix(seed) + ((uint64_t)k << 40), threads[k].calls = calls;
    CHECK(pthread_create(&ids[k], NULL, run, &threads[k]) == 0, "a thread");
  }
  for (int k = 0; k < THREADS; k++)
    pthread_join(ids[k], NULL), succeeded += threads[k].succeeded, states += threads[k].own_states;
  for (int k = 0; k < SLOTS; k++) {
    gpuzip_t *session = atomic_load(&sessions[k]);
    gpuzip_schedule_t *schedule = atomic_load(&schedules[k]);
    if (session != NULL) CHECK(gpuzip_finalize(session) == GPUZIP_OK, "finalize");
    if (schedule != NULL) CHECK(gpuzip_schedule_release(schedule) == GPUZIP_OK, "release");
  }
  printf(
      "%llu calls from %d threads, %llu of them valid, %llu states of ordinary sessions compared\n",
      (unsigned long long)(calls * THREADS), THREADS, (unsigned long long)succeeded,
      (unsigned long long)states);
  return 0;
}
