/* Tests that gpuzip does not depend on the caller's floating-point environment, and does not change
 * it. In every rounding mode, with subnormal numbers flushed to zero, and with all exceptions
 * trapping, codecs give the same bytes and values, and sessions the same actions and states. Levels that
 * states share keep their bounds. After every call, and in every callback, the environment is the
 * caller's. The program exits with 1 at the first failed check; with any argument it tries all
 * environments instead of some. */
#define _GNU_SOURCE
#include "test.h"

#include <fenv.h>
#include <math.h>
#include <pthread.h>

static char what[200] = "";

/* A failed check says what was tried, in the default environment. */
#undef CHECK
#define CHECK(condition)                                            \
  do {                                                              \
    if (!(condition)) {                                             \
      fesetenv(FE_DFL_ENV);                                         \
      fprintf(stderr, "%s\n", what);                                \
      failed(__FILE__, __LINE__, #condition);                       \
    }                                                               \
  } while (0)

#ifdef __x86_64__
#include <xmmintrin.h>
static unsigned control(void) { return _mm_getcsr(); }
static void flush_subnormals(void) { _mm_setcsr(_mm_getcsr() | 0x8040); }
/* Sets the flag of a division by zero without a trap. */
static void raise_quietly(void) { _mm_setcsr(_mm_getcsr() | 0x04); }
#else
static unsigned control(void) { return (unsigned)fegetround() << 8 | (unsigned)fetestexcept(FE_ALL_EXCEPT); }
static void flush_subnormals(void) {}
static void raise_quietly(void) { feraiseexcept(FE_DIVBYZERO); }
#endif

/* Makes a call that must succeed and leave the environment as it was before, flags included. */
#define CALL(call)                     \
  do {                                 \
    const unsigned before = control(); \
    const int32_t status = (call);     \
    CHECK(control() == before);        \
    CHECK(status == GPUZIP_OK);        \
  } while (0)

enum { ENVIRONMENTS = 16, MOST = 3000 };

/* Without an argument only these environments are tried: the four rounding modes, each of the two
 * flags alone, and a mixture. */
static int is_long;
static int wanted(int environment)
{
  return is_long || environment <= 4 || environment == 8 || environment == 13;
}

static pthread_t caller;
/* The control word that callbacks, and the caller after each call, must find. */
static unsigned expected;

/* Sets environment number `environment`: bits 0 and 1 choose the rounding mode, bit 2 flushes
 * subnormal numbers to zero, bit 3 lets all exceptions trap. Programs begin with environment 0. */
static void enter(int environment)
{
  static const int rounding[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };
  fesetround(rounding[environment % 4]);
  if (environment & 4) flush_subnormals();
#ifdef __x86_64__
  if (environment & 8) feenableexcept(FE_ALL_EXCEPT);
#endif
  expected = control();
}

static void leave(void)
{
  CHECK(control() == expected);
  fesetenv(FE_DFL_ENV);
}

static uint64_t hash_of(uint64_t hash, const void *data, size_t bytes)
{
  const unsigned char *p = data;
  size_t i;
  for (i = 0; i < bytes; i++) hash = (hash ^ p[i]) * 1099511628211u;
  return hash;
}

/* ---- Codecs ---- */

static const int sides[][3] = { { 300, 1, 1 }, { 40, 27, 1 }, { 20, 12, 9 }, { 1, 7, 20 } };

/* Returns a value of an array of size n[0] x n[1] x n[2]. Each kind of array has values whose codes
 * another rounding mode or a flush to zero could change. */
static double value(int kind, int level, int i, const int *n, int type)
{
  const double smooth = sin(0.31 * (i % n[0]) + 0.1 * level) * cos(0.23 * (i / n[0]) - 0.1 * level);
  const double noise = (i * 7919 + level * 104729) % 20011 / 10005.5 - 1.0;
  const int wide = type == GPUZIP_TYPE_F64;
  switch (kind) {
  case 0: return smooth;
  /* Close to 31.75 = 127/4, the largest multiple of 1/4 that 8 signed bits hold. */
  case 1: return (i % 2 ? -1.0 : 1.0) * (31.8 - 0.001 * (i % 7));
  case 2: return smooth * (wide ? 1e-310 : 1e-42);
  case 3: return noise * ldexp(1.0, (i * 31) % 100 - 50);
  case 4: return smooth * (wide ? 1.7e308 : 3.4e38);
  case 5: return 1e8 + noise + level;
  case 6: return smooth * (wide ? 1e-300 : 1e-36);
  default: return i % 3 ? noise * 1e-3 : 0.0;
  }
}

static void store(void *data, int type, int i, double x)
{
  if (type == GPUZIP_TYPE_F64) ((double *)data)[i] = x;
  else ((float *)data)[i] = (float)x;
}

static double load(const void *data, int type, int i)
{
  return type == GPUZIP_TYPE_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static void codec_case(const gpuzip_config_t *config, const int *n, int type, int kind)
{
  static double from[2][MOST], to[2][MOST];
  static unsigned char stream[1 << 17];
  const int count = n[0] * n[1] * n[2];
  const size_t size = type == GPUZIP_TYPE_F64 ? 8 : 4;
  uint64_t bytes, bytes_hash[2], values_hash[2];
  gpuzip_field_t fields[2];
  double most = 0.0, worst = 0.0;
  int environment, i, k;

  for (k = 0; k < 2; k++) {
    fields[k] = field_of(NULL, (uint64_t)n[0], type);
    fields[k].n2 = (uint64_t)n[1], fields[k].n3 = (uint64_t)n[2], fields[k].role = k;
    for (i = 0; i < count; i++) store(from[k], type, i, value(kind, k, i, n, type));
  }
  for (environment = 0; environment < ENVIRONMENTS; environment++) {
    const int at = environment > 0;
    if (!wanted(environment)) continue;
    snprintf(what, sizeof what, "compressor %d, mode %d, %d x %d x %d, type %d, kind %d, environment %d", config->compressor,
             config->error_bound_mode, n[0], n[1], n[2], type, kind, environment);
    memset(stream, 0xA5, sizeof stream);
    memset(to, 0xEE, sizeof to);
    fields[0].data = from[0], fields[1].data = from[1];
    enter(environment);
    CALL(gpuzip_codec_bound(config, fields, 2, &bytes));
    CHECK(bytes <= sizeof stream);
    CALL(gpuzip_codec_compress(config, fields, 2, stream, sizeof stream, &bytes));
    fields[0].data = to[0], fields[1].data = to[1];
    CALL(gpuzip_codec_decompress(stream, bytes, fields, 2));
    leave();
    bytes_hash[at] = hash_of(bytes, stream, bytes);
    values_hash[at] = hash_of(hash_of(0, to[0], count * size), to[1], count * size);
    CHECK(bytes_hash[at] == bytes_hash[0]);
    CHECK(values_hash[at] == values_hash[0]);
  }
  for (i = 0; i < count; i++) {
    most = fmax(most, fabs(load(from[0], type, i)));
    worst = fmax(worst, fabs(load(from[0], type, i) - load(to[0], type, i)));
  }
  if (config->compressor == GPUZIP_COMPRESSOR_NONE || config->compressor == GPUZIP_COMPRESSOR_LOSSLESS) CHECK(worst == 0.0);
  if (config->compressor >= GPUZIP_COMPRESSOR_CUSZP && config->compressor <= GPUZIP_COMPRESSOR_DCT) {
    if (config->error_bound_mode == 0) CHECK(worst <= config->error_bound * most);
    if (config->error_bound_mode == 1) CHECK(worst <= config->error_bound);
  }
  if (kind != 2 && config->compressor == GPUZIP_COMPRESSOR_BFP) CHECK(worst <= most / 64.0);
  if (kind != 2 && config->compressor == GPUZIP_COMPRESSOR_FP16) CHECK(worst <= most / 1024.0);
}

static void codecs(void)
{
  static const int compressors[] = { GPUZIP_COMPRESSOR_NONE, GPUZIP_COMPRESSOR_ZFP, GPUZIP_COMPRESSOR_CUSZP, GPUZIP_COMPRESSOR_LORENZO,
                                     GPUZIP_COMPRESSOR_DCT, GPUZIP_COMPRESSOR_FP16, GPUZIP_COMPRESSOR_BFP, GPUZIP_COMPRESSOR_LOSSLESS };
  static const double bounds[] = { 1e-3, 1e-5, 1e-4, 60.0 };
  size_t c, s;
  int mode, type, kind;
  for (c = 0; c < sizeof compressors / sizeof *compressors; c++) {
    gpuzip_config_t config;
    const int bounded = compressors[c] >= GPUZIP_COMPRESSOR_CUSZP && compressors[c] <= GPUZIP_COMPRESSOR_DCT;
    CALL(gpuzip_config_init(&config));
    config.compressor = compressors[c];
    config.zfp_bit_rate = 12;
    for (mode = 0; mode < (bounded ? 4 : 1); mode++) {
      config.error_bound_mode = mode;
      config.error_bound = bounds[mode];
      for (s = 0; s < sizeof sides / sizeof *sides; s++)
        for (type = 0; type < 2; type++)
          for (kind = 0; kind < 8; kind++) codec_case(&config, sides[s], type, kind);
    }
    CALL(gpuzip_config_free(&config));
  }
}

/* ---- Callbacks ---- */

static int lines, codec_calls;

static void on_log(int32_t level, const char *text, void *user)
{
  CHECK(level >= 0 && text != NULL && user == NULL);
  if (pthread_equal(pthread_self(), caller)) CHECK(control() == expected);
  lines++;
}

static uint64_t raw_most(void *user, const gpuzip_field_t *f)
{
  CHECK(user == NULL && control() == expected);
  return 8 * f->n1 * f->n2 * f->n3;
}

static int32_t raw_compress(void *user, const gpuzip_field_t *f, int32_t rms, double bound, void *to, uint64_t capacity, uint64_t *bytes)
{
  CHECK(user == NULL && rms >= 0 && bound > 0.0 && control() == expected);
  /* The codec keeps half of the values, so its stream is smaller than the raw field. */
  *bytes = 4 * f->n1 * f->n2 * f->n3 / 2;
  CHECK(*bytes <= capacity);
  memcpy(to, f->data, *bytes);
  codec_calls++;
  return 0;
}

static int32_t raw_decompress(void *user, const void *from, uint64_t bytes, const gpuzip_field_t *f)
{
  CHECK(user == NULL && control() == expected);
  memset(f->data, 0, 4 * f->n1 * f->n2 * f->n3);
  memcpy(f->data, from, bytes);
  codec_calls++;
  return 0;
}

/* ---- Sessions ---- */

enum { N = 600, STEPS = 40 };
static float state[2][N];
static uint64_t found;
static int raises;

static void wave(int t)
{
  int i, k;
  for (k = 0; k < 2; k++)
    for (i = 0; i < N; i++) state[k][i] = (float)((i * 37 + (t - k) * 11) % 127 - 63) * 0x1p-7f;
}

static int32_t forward(void *user, int32_t ts, int32_t end, uint32_t flags)
{
  (void)flags;
  CHECK(user == &found && control() == expected);
  wave(end + 1);
  found = hash_of(found, &ts, sizeof ts);
  /* An exception flag that the application raises in a callback must survive the callback. */
  if (raises) raise_quietly(), expected = control();
  return 0;
}

static int32_t backward(void *user, int32_t ts, uint32_t flags)
{
  (void)flags;
  CHECK(user == &found && control() == expected);
  found = hash_of(hash_of(found, &ts, sizeof ts), state, sizeof state);
  return 0;
}

static int32_t observe(void *user, int32_t action, int32_t ts, uint32_t flags)
{
  (void)flags;
  CHECK(user == &found && control() == expected);
  found = hash_of(hash_of(hash_of(found, &ts, sizeof ts), &action, sizeof action), state, sizeof state);
  return 0;
}

static int32_t locate(void *user, int32_t action, int32_t ts, gpuzip_field_t *fields, uint32_t nfields)
{
  (void)action, (void)ts;
  CHECK(user == &found && nfields == 2 && control() == expected);
  fields[0].data = state[0], fields[1].data = state[1];
  return 0;
}

/* Runs one shot by callbacks and returns a hash of all actions and restored states. */
static uint64_t session(const gpuzip_config_t *config, int environment)
{
  gpuzip_callbacks_t callbacks;
  gpuzip_field_t fields[2];
  gpuzip_stats_t stats;
  gpuzip_summary_t summary;
  gpuzip_schedule_t *schedule = NULL;
  gpuzip_action_t action;
  gpuzip_t *h = NULL;
  uint64_t bytes = 0;
  unsigned char profile[8192];
  int k;

  memset(&callbacks, 0, sizeof callbacks);
  callbacks.struct_size = sizeof callbacks, callbacks.user = &found;
  callbacks.forward = forward, callbacks.backward = backward, callbacks.observe = observe, callbacks.locate = locate;
  for (k = 0; k < 2; k++) fields[k] = field_of(state[k], N, GPUZIP_TYPE_F32), fields[k].role = k;
  memset(&stats, 0, sizeof stats), stats.struct_size = sizeof stats;
  memset(&summary, 0, sizeof summary), summary.struct_size = sizeof summary;
  memset(&action, 0, sizeof action);
  found = 0;
  wave(0);

  enter(environment);
  CALL(gpuzip_init(config, STEPS, fields, 2, &h));
  CALL(gpuzip_setup(h));
  raises = environment < 8;
  {
    const int32_t status = gpuzip_run_forward(h, &callbacks, fields, 2, NULL);
    CHECK(status == GPUZIP_OK && control() == expected);
    CHECK(gpuzip_run_reverse(h, &callbacks, fields, 2, NULL) == GPUZIP_OK && control() == expected);
  }
  CALL(gpuzip_synchronize(h));
  CALL(gpuzip_stats(h, &stats));
  CALL(gpuzip_summary(h, &summary));
  CALL(gpuzip_get_schedule(h, &schedule));
  CALL(gpuzip_schedule_rewind(schedule));
  CALL(gpuzip_schedule_get_action(schedule, &action));
  CALL(gpuzip_schedule_release(schedule));
  bytes = sizeof profile;
  if (config->checkpointing_algorithm == GPUZIP_ALGORITHM_AUTO) {
    const unsigned before = control();
    (void)gpuzip_profile_export(h, profile, sizeof profile, &bytes);
    (void)gpuzip_profile_import(h, profile, 7);
    CHECK(control() == before);
  }
  CALL(gpuzip_finalize(h));
  leave();
  found = hash_of(found, &stats.forward_steps, sizeof stats.forward_steps);
  return hash_of(found, &stats.stored_bytes, sizeof stats.stored_bytes);
}

static void sessions(int registered)
{
  const int algorithms[] = { GPUZIP_ALGORITHM_REVOLVE, GPUZIP_ALGORITHM_AUTO, GPUZIP_ALGORITHM_STORE_ALL };
  const int compressors[] = { GPUZIP_COMPRESSOR_NONE, GPUZIP_COMPRESSOR_LORENZO, GPUZIP_COMPRESSOR_DCT, GPUZIP_COMPRESSOR_BFP,
                              GPUZIP_COMPRESSOR_AUTO, 0 };
  size_t a, c;
  int environment;
  for (a = 0; a < sizeof algorithms / sizeof *algorithms; a++)
    for (c = 0; c < sizeof compressors / sizeof *compressors; c++) {
      const int own = c + 1 == sizeof compressors / sizeof *compressors;
      uint64_t first = 0, hash;
      gpuzip_config_t config;
      CALL(gpuzip_config_init(&config));
      config.backend = 1;
      config.checkpointing_algorithm = algorithms[a];
      config.compressor = own ? registered : compressors[c];
      config.log_level = 0;
      config.error_bound = 1e-4;
      if (algorithms[a] == GPUZIP_ALGORITHM_REVOLVE) config.checkpointing_snaps = 5, config.cache_capacity = 2;
      else config.host_budget = 200000, config.device_budget = 20000;
      if (config.compressor == GPUZIP_COMPRESSOR_AUTO && algorithms[a] != GPUZIP_ALGORITHM_AUTO) continue;
      for (environment = 0; environment < ENVIRONMENTS; environment++) {
        if (!wanted(environment)) continue;
        snprintf(what, sizeof what, "session: algorithm %d, compressor %d, environment %d", algorithms[a], config.compressor, environment);
        hash = session(&config, environment);
        if (environment == 0) first = hash;
        CHECK(hash == first);
      }
      CALL(gpuzip_config_free(&config));
    }
}

/* ---- Chains of shared levels ---- */

/* LEVELS levels of a wave in each precision, -1 before the first state: what the program computes. The
 * restored states of a session are compared with what was saved once the session has ended. */
enum { CHAIN = 260, LEVELS = 24, MOST_RESTORES = 400 };
typedef struct {
  float own[CHAIN], past[CHAIN];
  double own_wide[CHAIN], past_wide[CHAIN];
} levels_t;
static float single[LEVELS + 1][CHAIN];
static double wide[LEVELS + 1][CHAIN];
static levels_t live, stored[LEVELS], restored[MOST_RESTORES];
static int32_t live_at, restored_at[MOST_RESTORES];
static int restores, chains_played;

/* Computes u(ts) from the live state, which may be a restored one, or from a state between. */
static void compute(int32_t ts, int is_one_step)
{
  if (is_one_step) memcpy(live.past, live.own, sizeof live.own), memcpy(live.past_wide, live.own_wide, sizeof live.own_wide);
  else memcpy(live.past, single[ts], sizeof live.past), memcpy(live.past_wide, wide[ts], sizeof live.past_wide);
  memcpy(live.own, single[ts + 1], sizeof live.own), memcpy(live.own_wide, wide[ts + 1], sizeof live.own_wide);
  live_at = ts;
}

static int32_t chain_forward(void *user, int32_t ts, int32_t end, uint32_t flags)
{
  (void)user, (void)flags;
  CHECK(control() == expected && live_at == ts - 1);
  compute(end, ts == end);
  return 0;
}

static int32_t chain_backward(void *user, int32_t ts, uint32_t flags)
{
  (void)user, (void)flags;
  CHECK(control() == expected && live_at == ts);
  return 0;
}

static int32_t chain_observe(void *user, int32_t action, int32_t ts, uint32_t flags)
{
  (void)user, (void)flags;
  CHECK(control() == expected);
  if (action == GPUZIP_ACTION_SAVE) stored[ts] = live;
  if (action != GPUZIP_ACTION_RESTORE) return 0;
  CHECK(restores < MOST_RESTORES);
  restored[restores] = live, restored_at[restores++] = ts, live_at = ts;
  return 0;
}

static void place(gpuzip_field_t fields[4])
{
  fields[0].data = live.own, fields[1].data = live.past;
  fields[2].data = live.own_wide, fields[3].data = live.past_wide;
}

static int32_t chain_locate(void *user, int32_t action, int32_t ts, gpuzip_field_t *fields, uint32_t nfields)
{
  (void)user, (void)ts;
  CHECK(nfields == 4 && control() == expected);
  if (action == GPUZIP_ACTION_RESTORE) memset(&live, 0xEE, sizeof live);
  place(fields);
  return 0;
}

/* Returns what a codec allows for an array, and in `worst` the error that it made. */
static double allowed(const gpuzip_config_t *c, const void *was, const void *is, int type, double *worst)
{
  double most = 0.0, low = INFINITY, high = -INFINITY;
  long double squares = 0.0L;
  int i;
  *worst = 0.0;
  for (i = 0; i < CHAIN; i++) {
    const double x = load(was, type, i), error = fabs(x - load(is, type, i));
    most = fmax(most, fabs(x)), low = fmin(low, x), high = fmax(high, x);
    *worst = fmax(*worst, error), squares += (long double)error * error;
  }
  if (c->error_bound_mode == 3) {
    *worst = (double)sqrtl(squares / CHAIN);
    return (high - low) * pow(10.0, -c->error_bound / 20.0) * (1.0 + 1e-9) + 2.3e-308;
  }
  return c->error_bound_mode == 1 ? c->error_bound : c->error_bound * (c->error_bound_mode ? high - low : most);
}

/* Checks both levels of restored states. A level keeps its bound. So does a previous level that is
 * the level of the state before, as all are but the first one if no FORWARD starts from a restored
 * state; another one has the errors of a level and of a difference, whose bound is at most the sum of
 * those of two levels. */
static void check_chain(const gpuzip_config_t *c, int type, int are_all_shared)
{
  int r;
  for (r = 0; r < restores; r++) {
    const int32_t ts = restored_at[r];
    const levels_t *was = &stored[ts], *is = &restored[r];
    const int is_wide = type == GPUZIP_TYPE_F64;
    const void *const own[2] = { is_wide ? (const void *)was->own_wide : was->own, is_wide ? (const void *)is->own_wide : is->own };
    const void *const past[2] = { is_wide ? (const void *)was->past_wide : was->past, is_wide ? (const void *)is->past_wide : is->past };
    double of_level, of_past;
    const double level = allowed(c, own[0], own[1], type, &of_level), before = allowed(c, past[0], past[1], type, &of_past);
    CHECK(of_level <= level);
    if (are_all_shared && ts > 0) CHECK(of_past <= before);
    else CHECK(of_past <= (level + level + before) * (1.0 + 1e-6));
  }
}

/* Runs one shot, and returns a hash of its restored states. */
static uint64_t chain(const gpuzip_config_t *config, int environment)
{
  gpuzip_callbacks_t callbacks;
  gpuzip_field_t fields[4];
  gpuzip_t *h = NULL;
  int k;
  memset(&callbacks, 0, sizeof callbacks);
  callbacks.struct_size = sizeof callbacks, callbacks.observe = chain_observe, callbacks.locate = chain_locate;
  callbacks.forward = chain_forward, callbacks.backward = chain_backward;
  for (k = 0; k < 4; k++) fields[k] = field_of(NULL, CHAIN, k < 2 ? GPUZIP_TYPE_F32 : GPUZIP_TYPE_F64);
  fields[1].role = 1, fields[3].role = 3;
  place(fields), compute(0, 0), restores = 0;
  enter(environment);
  CALL(gpuzip_init(config, LEVELS, fields, 4, &h));
  CALL(gpuzip_run_forward(h, &callbacks, fields, 4, NULL));
  CALL(gpuzip_run_reverse(h, &callbacks, fields, 4, NULL));
  CALL(gpuzip_finalize(h));
  leave();
  CHECK(restores > 0);
  return hash_of(0, restored, (size_t)restores * sizeof *restored);
}

static void chains(void)
{
  static const int compressors[] = { GPUZIP_COMPRESSOR_CUSZP, GPUZIP_COMPRESSOR_LORENZO, GPUZIP_COMPRESSOR_DCT };
  static const double bounds[] = { 1e-3, 1e-5, 1e-4, 60.0 };
  static const int kinds[] = { 0, 2, 4, 5, 6, 7 };
  static const int line[] = { CHAIN, 1, 1 };
  size_t c, kind;
  int mode, all, environment, type, ts, i;
  for (kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
    for (ts = -1; ts < LEVELS; ts++)
      for (i = 0; i < CHAIN; i++) {
        store(single[ts + 1], GPUZIP_TYPE_F32, i, value(kinds[kind], ts, i, line, GPUZIP_TYPE_F32));
        store(wide[ts + 1], GPUZIP_TYPE_F64, i, value(kinds[kind], ts, i, line, GPUZIP_TYPE_F64));
      }
    for (c = 0; c < sizeof compressors / sizeof *compressors; c++)
      for (mode = 0; mode < 4; mode++)
        for (all = 0; all < 2; all++) {
          uint64_t first = 0, hash;
          gpuzip_config_t config;
          CALL(gpuzip_config_init(&config));
          config.backend = 1, config.log_level = 0, config.shared_levels = 1;
          config.compressor = compressors[c], config.error_bound_mode = mode, config.error_bound = bounds[mode];
          config.checkpointing_algorithm = all ? GPUZIP_ALGORITHM_STORE_ALL : GPUZIP_ALGORITHM_REVOLVE;
          config.checkpointing_snaps = all ? 0 : 5, config.cache_capacity = 2;
          for (environment = 0; environment < ENVIRONMENTS; environment++) {
            if (!wanted(environment)) continue;
            snprintf(what, sizeof what, "chain: compressor %d, mode %d, kind %d, algorithm %d, environment %d", compressors[c], mode,
                     kinds[kind], config.checkpointing_algorithm, environment);
            hash = chain(&config, environment);
            for (type = GPUZIP_TYPE_F32; type <= GPUZIP_TYPE_F64; type++) check_chain(&config, type, all);
            if (environment == 0) first = hash;
            CHECK(hash == first);
            chains_played++;
          }
          CALL(gpuzip_config_free(&config));
        }
  }
}

int main(int argc, char **argv)
{
  gpuzip_codec_plugin_t plugin;
  gpuzip_config_t config;
  int32_t registered = 0;
  caller = pthread_self();
  is_long = argc > 1 && argv[1] != NULL;
  codecs();

  memset(&plugin, 0, sizeof plugin);
  plugin.struct_size = sizeof plugin, plugin.name = "half of the values";
  plugin.max_bytes = raw_most, plugin.compress = raw_compress, plugin.decompress = raw_decompress;
  enter(13);
  CALL(gpuzip_codec_register(&plugin, &registered));
  CALL(gpuzip_set_log_level(0));
  CALL(gpuzip_set_log_callback(on_log, NULL));
  CHECK(gpuzip_config_load("/nonexistent", &config) < 0 && gpuzip_save(NULL, 0, NULL, 0, NULL) < 0);
  leave();
  sessions(registered);
  chains();
  CHECK(lines > 0 && codec_calls > 0);
  puts("ok");
  return 0;
}
