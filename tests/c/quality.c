/*
 * The error of the result as the setting. A wave equation in one dimension and its adjoint give a
 * gradient for each shot; gpuzip_quality_* choose the error bound by it. Prints "ok".
 */
#define _POSIX_C_SOURCE 200809L
#include <gpuzip.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

enum { N = 400, STEPS = 300 };

/* u(t+1) = 2 u(t) - u(t-1) + c2 L u(t) + s(t); the misfit is that of u at a receiver with zero data. */
static float curr[N], prev[N], next[N], y[N], y_after[N], receiver[STEPS + 1];
static double gradient[N];

static double ricker(int t)
{
  const double x = 0.02 * (t - 60), a = 9.8 * x * x;
  return (1 - 2 * a) * exp(-a);
}

static float speed(int i)
{
  return i < N / 2 ? 0.2f : 0.3f;
}

static float laplacian(const float *u, int i)
{
  return (i > 0 ? u[i - 1] : 0) - 2 * u[i] + (i + 1 < N ? u[i + 1] : 0);
}

static void forward(int t, int source)
{
  for (int i = 0; i < N; i++) next[i] = 2 * curr[i] - prev[i] + speed(i) * laplacian(curr, i);
  next[source] += (float)ricker(t);
  memcpy(prev, curr, sizeof curr);
  memcpy(curr, next, sizeof curr);
  receiver[t] = curr[N / 3];
}

/* The adjoint of the step t -> t+1, while u(t) is in `curr`. */
static void backward(int t)
{
  for (int i = 0; i < N; i++) {
    gradient[i] += (double)y[i] * laplacian(curr, i);
    next[i] = 2 * y[i] - y_after[i] + speed(i) * laplacian(y, i);
  }
  next[N / 3] += receiver[t];
  memcpy(y_after, y, sizeof y);
  memcpy(y, next, sizeof y);
}

/* Computes the gradient of a shot, with a session of its own. Returns the status of gpuzip_init. */
static int32_t shot(const gpuzip_config_t *config, int source)
{
  gpuzip_field_t f[2];
  gpuzip_action_t a;
  gpuzip_t *h;
  int32_t status;
  memset(f, 0, sizeof f);
  for (int i = 0; i < 2; i++) f[i].n1 = N, f[i].n2 = f[i].n3 = 1, f[i].role = i;
  f[0].data = curr, f[1].data = prev;
  if ((status = gpuzip_init(config, STEPS, f, 2, &h)) != GPUZIP_OK) return status;
  memset(curr, 0, sizeof curr), memset(prev, 0, sizeof prev);
  memset(y, 0, sizeof y), memset(y_after, 0, sizeof y_after), memset(gradient, 0, sizeof gradient);
  receiver[0] = 0;
  CHECK(gpuzip_setup(h) == GPUZIP_OK);
  do {
    CHECK(gpuzip_get_action(h, &a) == GPUZIP_OK);
    if (a.type == GPUZIP_ACTION_FORWARD) forward(a.ts, source);
    if (a.type == GPUZIP_ACTION_SAVE) CHECK(gpuzip_save(h, a.ts, f, 2, NULL) == GPUZIP_OK);
    if (a.type == GPUZIP_ACTION_RESTORE) CHECK(gpuzip_retrieve(h, a.ts, f, 2, NULL) == GPUZIP_OK);
    if (a.type == GPUZIP_ACTION_BACKWARD) backward(a.ts);
  } while (a.type != GPUZIP_ACTION_TERMINATE);
  CHECK(gpuzip_finalize(h) == GPUZIP_OK);
  return GPUZIP_OK;
}

static gpuzip_field_t result(void)
{
  gpuzip_field_t f;
  memset(&f, 0, sizeof f);
  f.data = gradient, f.n1 = N, f.n2 = f.n3 = 1, f.type = GPUZIP_TYPE_F64;
  return f;
}

static double relative_error(const double *exact)
{
  double error = 0, norm = 0;
  for (int i = 0; i < N; i++) {
    error += (gradient[i] - exact[i]) * (gradient[i] - exact[i]);
    norm += exact[i] * exact[i];
  }
  return sqrt(error / norm);
}

/* Runs a shot as often as is asked for; runs that are thrown away write no restart files and check no state.
 * Returns the number of runs. */
static int measure(gpuzip_quality_t *q, gpuzip_config_t *config, int source)
{
  int runs = 0;
  int32_t run;
  for (;; runs++) {
    const gpuzip_field_t f = result();
    CHECK(gpuzip_quality_next(q, config, &run) == GPUZIP_OK);
    CHECK(config->quality == NULL && config->struct_size == sizeof *config);
    CHECK(!run == (config->persist_dir != NULL));
    CHECK(!run || config->check == 0);
    if (!run) return runs;
    CHECK(shot(config, source) == GPUZIP_OK);
    CHECK(gpuzip_quality_result(q, &f, 1) == GPUZIP_OK);
  }
}

static gpuzip_config_t configured(int32_t codec, const char *quality)
{
  gpuzip_config_t c;
  CHECK(gpuzip_config_init(&c) == GPUZIP_OK);
  c.backend = 1, c.compressor = codec, c.quality = quality, c.persist_dir = "restart-files";
  c.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE, c.host_budget = 20 * 2 * 4 * N;
  c.log_level = 3;
  return c;
}

static void a_bound_is_chosen(int32_t codec, const char *quality, double asked)
{
  static double exact[N];
  const gpuzip_config_t given = configured(codec, quality);
  gpuzip_config_t config, raw;
  gpuzip_quality_info_t info;
  gpuzip_quality_t *q;
  CHECK(gpuzip_quality_open(&given, &q) == GPUZIP_OK);
  CHECK(measure(q, &config, 50) <= 9);
  CHECK(gpuzip_quality_check(q) == GPUZIP_OK);
  CHECK(measure(q, &config, 150) <= 9);
  info.struct_size = sizeof info;
  CHECK(gpuzip_quality_info(q, &info) == GPUZIP_OK);
  CHECK(info.shots == 2 && info.error_bound == config.error_bound && config.compressor == codec);
  CHECK(config.checkpointing_algorithm == GPUZIP_ALGORITHM_REVOLVE);
  CHECK(gpuzip_quality_close(q) == GPUZIP_OK && gpuzip_quality_close(NULL) == GPUZIP_ERR_ARGUMENT);
  CHECK(gpuzip_quality_close(q) == GPUZIP_ERR_HANDLE);
  raw = given, raw.quality = NULL, raw.compressor = 0;
  for (int source = 60; source < 180; source += 40) {
    CHECK(shot(&raw, source) == GPUZIP_OK);
    memcpy(exact, gradient, sizeof exact);
    CHECK(shot(&config, source) == GPUZIP_OK);
    CHECK(relative_error(exact) > 0);
    if (asked > 0) CHECK(relative_error(exact) < asked);
  }
}

/* With `check` all snapshots are raw, but not in the runs that measure. */
static void a_bound_is_chosen_with_check(void)
{
  gpuzip_config_t given = configured(GPUZIP_COMPRESSOR_DCT, "gradient:1e-3"), config, other;
  gpuzip_quality_info_t info;
  gpuzip_quality_t *q;
  given.check = 2;
  CHECK(gpuzip_quality_open(&given, &q) == GPUZIP_OK);
  CHECK(measure(q, &config, 50) <= 9 && config.check == 2);
  info.struct_size = sizeof info;
  CHECK(gpuzip_quality_info(q, &info) == GPUZIP_OK);
  CHECK(info.chosen_error > 1e-4 && info.chosen_error <= 1e-3);
  CHECK(gpuzip_quality_close(q) == GPUZIP_OK);
  given.check = 0;
  CHECK(gpuzip_quality_open(&given, &q) == GPUZIP_OK);
  measure(q, &other, 50);
  CHECK(other.error_bound == config.error_bound);
  CHECK(gpuzip_quality_close(q) == GPUZIP_OK);
  for (int32_t check = 0; check < 2; check++) {
    given.check = check;
    setenv("GPUZIP_CHECK", "3", 1);
    CHECK(gpuzip_quality_open(&given, &q) == GPUZIP_ERR_CONFIG);
    CHECK(strstr(gpuzip_last_error(), "GPUZIP_CHECK = 3 in the environment") != NULL);
    CHECK(strstr(gpuzip_last_error(), "unset GPUZIP_CHECK") != NULL);
    setenv("GPUZIP_CHECK", "0", 1);
    CHECK(gpuzip_quality_open(&given, &q) == GPUZIP_OK && gpuzip_quality_close(q) == GPUZIP_OK);
  }
  unsetenv("GPUZIP_CHECK");
}

/* Two ranks measure an image whose values are about 3000 with a range of 0.2. Rank 1 has a part of the image if
 * `has_part`. Returns the bound. */
static double chosen_by_ranks(int has_part)
{
  const gpuzip_config_t given = configured(GPUZIP_COMPRESSOR_DCT, "image:60dB");
  gpuzip_config_t config;
  gpuzip_quality_t *ranks[2];
  int32_t run;
  for (int r = 0; r < 2; r++) CHECK(gpuzip_quality_open(&given, &ranks[r]) == GPUZIP_OK);
  for (;;) {
    double sums[2][3], maxima[2][2];
    gpuzip_field_t parts[2] = {result(), result()};
    for (int r = 0; r < 2; r++) CHECK(gpuzip_quality_next(ranks[r], &config, &run) == GPUZIP_OK);
    if (!run) break;
    for (int i = 0; i < N; i++)
      gradient[i] = 3000 + 0.1 * sin(0.1 * i) + (config.compressor ? config.error_bound * sin(3. * i) : 0);
    parts[0].n1 = has_part ? N / 4 : N;
    parts[1].n1 = N - parts[0].n1, parts[1].data = has_part ? &gradient[N / 4] : NULL;
    for (int r = 0; r < 2; r++) CHECK(gpuzip_quality_compare(ranks[r], &parts[r], 1, sums[r], maxima[r]) == GPUZIP_OK);
    if (!has_part) CHECK(sums[1][0] == 0 && sums[1][1] == 0 && sums[1][2] == 0);
    if (!has_part) CHECK(maxima[1][0] == -INFINITY && maxima[1][1] == -INFINITY);
    if (!has_part && config.compressor == 0) {
      CHECK(gpuzip_quality_judge(ranks[1], sums[1], maxima[1], 1) == GPUZIP_ERR_VALUES);
      CHECK(strstr(gpuzip_last_error(), "field 0 of the result: no rank gave values of it") != NULL);
    }
    for (int i = 0; i < 3; i++) sums[0][i] += sums[1][i];
    for (int i = 0; i < 2; i++) maxima[0][i] = fmax(maxima[0][i], maxima[1][i]);
    for (int r = 0; r < 2; r++) CHECK(gpuzip_quality_judge(ranks[r], sums[0], maxima[0], 1) == GPUZIP_OK);
  }
  for (int r = 0; r < 2; r++) CHECK(gpuzip_quality_close(ranks[r]) == GPUZIP_OK);
  return config.error_bound;
}

static void a_rank_without_a_part_changes_nothing(void)
{
  const double bound = chosen_by_ranks(0), psnr = 20 * log10(0.2 / (bound / sqrt(2)));
  CHECK(psnr > 60 && psnr < 70);
  CHECK(chosen_by_ranks(1) == bound);
}

/* Returns the text of the error that a first result of this field has. */
static const char *refusal_of(gpuzip_field_t f, int32_t status)
{
  const gpuzip_config_t given = configured(GPUZIP_COMPRESSOR_DCT, "gradient:1e-3");
  gpuzip_config_t config;
  gpuzip_quality_t *q;
  int32_t run;
  CHECK(gpuzip_quality_open(&given, &q) == GPUZIP_OK && gpuzip_quality_next(q, &config, &run) == GPUZIP_OK);
  CHECK(gpuzip_quality_result(q, &f, 1) == status);
  CHECK(gpuzip_quality_close(q) == GPUZIP_OK);
  return gpuzip_last_error();
}

static void what_is_no_result_is_named(void)
{
  gpuzip_field_t f = result();
  f.role = 1;
  CHECK(strstr(refusal_of(f, GPUZIP_ERR_ARGUMENT), "field 0: role = 1: the fields of a result have role 0") != NULL);
  f = result(), f.n1 = 0;
  CHECK(strstr(refusal_of(f, GPUZIP_ERR_VALUES), "field 0 of the result: no rank gave values of it") != NULL);
  f = result(), f.n1 = f.n2 = UINT64_C(1) << 40;
  CHECK(strstr(refusal_of(f, GPUZIP_ERR_ARGUMENT), "values do not fit the address space") != NULL);
  f = result(), f.data = NULL;
  CHECK(strstr(refusal_of(f, GPUZIP_ERR_ARGUMENT), "field 0: data is NULL") != NULL);
  for (int i = 0; i < N; i++) gradient[i] = 1e-160;
  CHECK(strstr(refusal_of(result(), GPUZIP_ERR_VALUES), "multiply the result by a constant") != NULL);
}

static void calls_out_of_order_are_refused(void)
{
  gpuzip_config_t config = configured(GPUZIP_COMPRESSOR_DCT, "gradient:1e-3"), run;
  gpuzip_field_t f = result();
  gpuzip_quality_t *q;
  double sums[3], maxima[2];
  int32_t wanted;
  CHECK(shot(&config, 50) == GPUZIP_ERR_CONFIG);
  CHECK(strstr(gpuzip_last_error(), "quality = gradient:1e-3: this program does not measure") != NULL);
  CHECK(gpuzip_quality_open(&config, &q) == GPUZIP_OK);
  CHECK(gpuzip_quality_result(q, &f, 1) == GPUZIP_ERR_STATE);
  CHECK(gpuzip_quality_check(q) == GPUZIP_ERR_STATE);
  CHECK(gpuzip_quality_next(q, &run, &wanted) == GPUZIP_OK && wanted == 1 && run.compressor == 0);
  CHECK(run.checkpointing_algorithm == GPUZIP_ALGORITHM_AUTO && run.error_bound == 0);
  CHECK(gpuzip_quality_judge(q, sums, maxima, 1) == GPUZIP_ERR_STATE);
  memset(gradient, 0, sizeof gradient);
  CHECK(gpuzip_quality_result(q, &f, 1) == GPUZIP_ERR_VALUES);
  CHECK(strstr(gpuzip_last_error(), "0 everywhere") != NULL);
  gradient[3] = NAN;
  CHECK(gpuzip_quality_result(q, &f, 1) == GPUZIP_ERR_VALUES);
  gradient[3] = 1;
  CHECK(gpuzip_quality_result(q, NULL, 1) == GPUZIP_ERR_ARGUMENT);
  CHECK(gpuzip_quality_result(q, &f, 0) == GPUZIP_ERR_ARGUMENT);
  f.type = GPUZIP_TYPE_I64;
  CHECK(gpuzip_quality_result(q, &f, 1) == GPUZIP_ERR_ARGUMENT);
  f.type = GPUZIP_TYPE_F64;
  CHECK(gpuzip_quality_compare(q, &f, 1, sums, maxima) == GPUZIP_OK && sums[1] == 1 && sums[2] == N);
  CHECK(gpuzip_quality_judge(q, sums, maxima, 2) == GPUZIP_ERR_ARGUMENT);
  CHECK(gpuzip_quality_judge(q, sums, maxima, 1) == GPUZIP_OK);
  CHECK(gpuzip_quality_next(q, &run, &wanted) == GPUZIP_OK && run.compressor == GPUZIP_COMPRESSOR_DCT);
  f.n1 = N - 1;
  CHECK(gpuzip_quality_result(q, &f, 1) == GPUZIP_ERR_SHAPE);
  CHECK(gpuzip_quality_close(q) == GPUZIP_OK);
}

static void what_has_no_bound_is_refused(void)
{
  static const int32_t without[] = {GPUZIP_COMPRESSOR_NONE, GPUZIP_COMPRESSOR_ZFP, GPUZIP_COMPRESSOR_FP16,
                                    GPUZIP_COMPRESSOR_LOSSLESS, GPUZIP_COMPRESSOR_AUTO};
  gpuzip_quality_t *q = NULL;
  for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) {
    gpuzip_config_t config = configured(without[i], "image:60dB");
    config.error_bound = 1e-3;
    CHECK(gpuzip_quality_open(&config, &q) == GPUZIP_ERR_CONFIG && q == NULL);
    CHECK(strstr(gpuzip_last_error(), "quality = image:60dB with compressor") != NULL);
  }
  gpuzip_config_t config = configured(GPUZIP_COMPRESSOR_DCT, "picture:60");
  CHECK(gpuzip_quality_open(&config, &q) == GPUZIP_ERR_CONFIG);
  config.quality = NULL;
  CHECK(gpuzip_quality_open(&config, &q) == GPUZIP_ERR_CONFIG);
}

int main(void)
{
  a_bound_is_chosen(GPUZIP_COMPRESSOR_DCT, "gradient:1e-3", 1e-3);
  a_bound_is_chosen(GPUZIP_COMPRESSOR_LORENZO, "gradient:1e-2", 1e-2);
  a_bound_is_chosen(GPUZIP_COMPRESSOR_CUSZP, "image:70dB", 0);
  a_bound_is_chosen_with_check();
  a_rank_without_a_part_changes_nothing();
  what_is_no_result_is_named();
  calls_out_of_order_are_refused();
  what_has_no_bound_is_refused();
  puts("ok");
  return 0;
}
