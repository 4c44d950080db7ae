/* The check of complete states (key `check`) finds mistakes that authors of adjoint codes make, and names
 * the field; a complete state passes. The model has two fields, of which one has a halo. */
#define _POSIX_C_SOURCE 200112L /* setenv */
#include "test.h"

#include <math.h>

enum {
  NONE,
  FORGOTTEN_FIELD,   /* an array that the step reads and changes is no field */
  FORGOTTEN_LEVEL,   /* the previous time level is no field */
  STATIC_COUNTER,    /* the step counts its calls */
  SOURCE_IN_TIME,    /* the source decays from call to call, not by the time step */
  STALE_HALO,        /* the halo is filled after the step, and not after a RESTORE */
  SWAPPED_POINTERS,  /* the saves get the array of the state before, every second time */
  RANDOM_NUMBER,
  SCRATCH,           /* the step reads scratch memory before it writes there */
  CHANGED_PARAMETER, /* the adjoint step changes a coefficient of the step */
  SUMMED_TIME,       /* the time is summed up outside the state */
  ANY_ORDER,         /* a sum in an order that differs from call to call */
  ONLY_ONCE,         /* the step leaves something out when it is done again */
  MISTAKES
};

/* What the text of `check = 3` says of a mistake. */
static const char *const whys[MISTAKES] = {
    [FORGOTTEN_FIELD] = "not a function", [FORGOTTEN_LEVEL] = "outside the fields",
    [STATIC_COUNTER] = "not a function",      [SOURCE_IN_TIME] = "not a function",
    [STALE_HALO] = "not a function",      [SWAPPED_POINTERS] = "",
    [RANDOM_NUMBER] = "not a function",       [SCRATCH] = "not a function",
    [CHANGED_PARAMETER] = "outside the fields", [SUMMED_TIME] = "not a function",
    [ANY_ORDER] = "not a function",           [ONLY_ONCE] = "outside the fields"};

enum { N1 = 7, N2 = 5, ROW = N1 + 2, STEPS = 23 };

/* The memory of the model. `temperature` has a column of halo at either end of each row. */
typedef struct {
  double temperature[2][N2 * ROW], level[N2 * N1], scratch[N2 * N1], sink[N2 * N1];
  float velocity[N1];
  double coefficient, source, time;
  int mistake, at, calls, computed;
} model_t;

static void fill_halo(double *u)
{
  for (int row = 0; row < N2; row++) u[row * ROW] = u[row * ROW + N1], u[row * ROW + N1 + 1] = u[row * ROW + 1];
}

static void begin(model_t *m, int mistake)
{
  memset(m, 0, sizeof *m);
  m->mistake = mistake, m->coefficient = 0.1, m->source = 1;
  for (int k = 0; k < N2 * N1; k++) m->temperature[0][k / N1 * ROW + k % N1 + 1] = sin(k + 1.0), m->sink[k] = 0.01 * k;
  for (int k = 0; k < N1; k++) m->velocity[k] = 0.5f + 0.01f * (float)k;
  fill_halo(m->temperature[0]);
  srand(1);
}

static void step(model_t *m, int ts)
{
  double *u = m->temperature[m->at], *next = m->temperature[m->mistake == SWAPPED_POINTERS ? !m->at : m->at];
  double old[N2 * ROW], source = 0.1 * cos(0.3 * ts);
  if (m->mistake != STALE_HALO) fill_halo(u);
  if (m->mistake == SOURCE_IN_TIME) source = m->source *= 0.9;
  if (m->mistake == SUMMED_TIME) source = cos(m->time += 0.3);
  if (m->mistake == STATIC_COUNTER) source = m->calls % 7;
  if (m->mistake == RANDOM_NUMBER) source = rand() * 1e-12;
  if (m->mistake == ONLY_ONCE && ts <= m->computed) source = 0;
  if (m->mistake == SCRATCH) source += 1e-3 * m->scratch[0];
  if (m->mistake == ANY_ORDER) {
    const double a = u[1], b = 1e16, c = -1e16;
    source += m->calls % 2 ? (a + b) + c : a + (b + c);
  }
  memcpy(old, u, sizeof old);
  for (int k = 0; k < N2 * N1; k++) {
    const int at = k / N1 * ROW + k % N1 + 1;
    double flux = m->coefficient * (old[at + 1] - 2 * old[at] + old[at - 1]) - (double)m->velocity[k % N1] * 0.1 * (old[at] - old[at - 1]);
    if (m->mistake == FORGOTTEN_FIELD) flux -= m->sink[k], m->sink[k] *= 0.95;
    if (m->mistake == FORGOTTEN_LEVEL) flux += 0.1 * (old[at] - m->level[k]), m->level[k] = old[at];
    next[at] = old[at] + flux + (k == 0 ? source : 0);
    m->scratch[k] = next[at];
  }
  for (int k = 0; k < N1; k++) m->velocity[k] *= 0.99f;
  if (m->mistake == STALE_HALO) fill_halo(next);
  if (m->mistake == SWAPPED_POINTERS) m->at = !m->at;
  m->calls++;
  if (ts > m->computed) m->computed = ts;
}

/* The text of the error that ended the last shot. */
static char error[2048];

/* Runs a shot to its end or to the first error, whose status it returns, with the time step of the action
 * in `*ts`. `*sum` becomes a sum over the states that are reversed. */
static int32_t shot(const gpuzip_config_t *config, int mistake, double *sum, int *ts)
{
  static const char *const names[] = {"velocity", "temperature"};
  model_t model, *m = &model;
  gpuzip_t *h = NULL;
  gpuzip_action_t a;
  int32_t status = GPUZIP_OK;
  begin(m, mistake);
  *sum = 0;
  gpuzip_field_t fields[2] = {field_of(m->velocity, N1, GPUZIP_TYPE_F32),
                              field_of(m->temperature[0] + 1, N1, GPUZIP_TYPE_F64)};
  fields[1].n2 = N2, fields[1].pitch2 = ROW;
  WORKS(gpuzip_init(config, STEPS, fields, 2, &h));
  WORKS(gpuzip_name_fields(h, names, 2));
  do {
    if ((status = gpuzip_get_action(h, &a)) != GPUZIP_OK) break;
    if (a.type == GPUZIP_ACTION_FORWARD) step(m, a.ts);
    if (a.type == GPUZIP_ACTION_SAVE) status = gpuzip_save(h, a.ts, fields, 2, NULL);
    if (a.type == GPUZIP_ACTION_RESTORE) status = gpuzip_retrieve(h, a.ts, fields, 2, NULL);
    if (a.type != GPUZIP_ACTION_BACKWARD) continue;
    const double *u = m->temperature[0];
    for (int k = 0; k < N2 * N1; k++)
      *sum += u[k / N1 * ROW + k % N1 + 1] * (k + 1) + a.ts * (double)m->velocity[k % N1];
    if (mistake == CHANGED_PARAMETER) m->coefficient = 0.11;
  } while (status == GPUZIP_OK && a.type != GPUZIP_ACTION_TERMINATE);
  snprintf(error, sizeof error, "%s", gpuzip_last_error());
  *ts = a.ts;
  if (status != GPUZIP_OK) {
    /* The error stays for this shot, and the next shot begins. */
    CHECK(a.type != GPUZIP_ACTION_SAVE || gpuzip_save(h, a.ts, fields, 2, NULL) == status);
    WORKS(gpuzip_setup(h));
    WORKS(gpuzip_get_action(h, &a));
    begin(m, NONE);
    WORKS(gpuzip_save(h, 0, fields, 2, NULL));
  }
  WORKS(gpuzip_finalize(h));
  return status;
}

/* Every mistake is found with every schedule, and a complete state has none. */
static void mistakes(gpuzip_config_t config)
{
  double expected, sum;
  int ts;
  config.check = 0;
  WORKS(shot(&config, NONE, &expected, &ts));
  for (config.check = 1; config.check <= 4; config.check++) {
    WORKS(shot(&config, NONE, &sum, &ts));
    CHECK(memcmp(&sum, &expected, sizeof sum) == 0);
    for (int mistake = NONE + 1; mistake < MISTAKES; mistake++) {
      const int32_t status = shot(&config, mistake, &sum, &ts);
      const char *why = config.check < 3 ? "check = 3 tells which" : whys[mistake];
      if (status != GPUZIP_ERR_VALUES || !strstr(error, "field 1 (temperature) of u(") || !strstr(error, why))
        fprintf(stderr, "algorithm %d, check %d, mistake %d, status %d: %s\n", config.checkpointing_algorithm,
                config.check, mistake, status, error);
      CHECK(status == GPUZIP_ERR_VALUES && strstr(error, "field 1 (temperature) of u(") && strstr(error, why));
      CHECK(strstr(error, "at index ") && strstr(error, "its values "));
    }
  }
}

/* The environment asks for the check of a program that does not; snapshots are raw then. */
static void environment(void)
{
  gpuzip_config_t config = revolve(4, 2);
  double sum;
  int ts;
  config.compressor = GPUZIP_COMPRESSOR_DCT, config.error_bound = 0.1;
  WORKS(shot(&config, RANDOM_NUMBER, &sum, &ts));
  setenv("GPUZIP_CHECK", "2", 1);
  config.mixed_storage = 1;
  WORKS(shot(&config, NONE, &sum, &ts));
  CHECK(shot(&config, RANDOM_NUMBER, &sum, &ts) == GPUZIP_ERR_VALUES && strstr(error, "check = 2: field 1"));
  /* A codec without a session is the one that the program asks for. */
  static float wave[4096];
  static unsigned char coded[1 << 16];
  gpuzip_field_t array = field_of(wave, 4096, GPUZIP_TYPE_F32);
  uint64_t bytes = 0;
  for (int k = 0; k < 4096; k++) wave[k] = (float)sin(0.01 * k);
  config.mixed_storage = 0;
  WORKS(gpuzip_codec_compress(&config, &array, 1, coded, sizeof coded, &bytes));
  CHECK(bytes < sizeof wave / 4);
  setenv("GPUZIP_CHECK", "often", 1);
  gpuzip_t *h = NULL;
  double u[4] = {0};
  gpuzip_field_t field = field_of(u, 4, GPUZIP_TYPE_F64);
  FAILS(gpuzip_init(&config, 9, &field, 1, &h), GPUZIP_ERR_CONFIG, "check = often: use 0 (no check), or 1 to 9");
  unsetenv("GPUZIP_CHECK");
  config.check = 10;
  FAILS(gpuzip_init(&config, 9, &field, 1, &h), GPUZIP_ERR_CONFIG, "check = 10: use 0");
  config = config_of(GPUZIP_ALGORITHM_ONLINE, 3, 0);
  config.check = 1;
  FAILS(gpuzip_init(&config, 0, &field, 1, &h), GPUZIP_ERR_UNSUPPORTED, "check = 1 with steps = 0");
}

/* Names are in the texts of a session's errors, and wrong ones are refused. */
static void names(void)
{
  gpuzip_config_t config = revolve(4, 2);
  gpuzip_t *h = NULL;
  gpuzip_action_t a;
  double u[4] = {0}, v[4] = {0};
  gpuzip_field_t fields[2] = {field_of(u, 4, GPUZIP_TYPE_F64), field_of(v, 4, GPUZIP_TYPE_F64)};
  const char *const given[] = {"u", "salinity"}, *const none[] = {"u", ""}, *const null[] = {"u", NULL};
  WORKS(gpuzip_init(&config, 9, fields, 2, &h));
  FAILS(gpuzip_name_fields(h, NULL, 2), GPUZIP_ERR_ARGUMENT, "names");
  FAILS(gpuzip_name_fields(h, given, 1), GPUZIP_ERR_SHAPE, "1 fields: the session has 2");
  FAILS(gpuzip_name_fields(h, none, 2), GPUZIP_ERR_ARGUMENT, "field 1: the name \"\"");
  FAILS(gpuzip_name_fields(h, null, 2), GPUZIP_ERR_ARGUMENT, "field 1: the name \"\"");
  FAILS(gpuzip_name_fields(h, given, UINT32_MAX), GPUZIP_ERR_ARGUMENT, "nfields = 4294967295");
  WORKS(gpuzip_name_fields(h, given, 2));
  WORKS(gpuzip_get_action(h, &a));
  fields[1].n1 = 3;
  FAILS(gpuzip_save(h, 0, fields, 2, NULL), GPUZIP_ERR_SHAPE, "field 1 (salinity) is");
  fields[1].n1 = 4, fields[1].data = u + 1;
  FAILS(gpuzip_save(h, 0, fields, 2, NULL), GPUZIP_ERR_ARGUMENT, "overlaps field 0 (u)");
  WORKS(gpuzip_finalize(h));
}

int main(int argc, char **argv)
{
  gpuzip_config_t budget = config_of(GPUZIP_ALGORITHM_AUTO, 0, 0);
  (void)argv;
  mistakes(revolve(4, 2));
  mistakes(config_of(GPUZIP_ALGORITHM_STORE_ALL, 0, 3));
  if (argc < 2) {
    mistakes(revolve(1, 0));
    mistakes(config_of(GPUZIP_ALGORITHM_UNIFORM, 5, 0));
    mistakes(config_of(GPUZIP_ALGORITHM_ZCUT, 0, 2));
    mistakes(config_of(GPUZIP_ALGORITHM_ONLINE, 4, 0));
    budget.host_budget = 4000;
    mistakes(budget);
  }
  environment();
  names();
  puts("ok");
  return 0;
}
