#include "stress_state.h"

#include <math.h>
#include <string.h>

enum { WAVE, NOISE, CONSTANT, DENORMAL, FRONT, MIXED, KINDS };

/* Returns the value of element `i` of a field at time step `t`: between -1 and 1, or, if
 * `nonfinite`, now and then NaN or an infinity. */
static double value(uint64_t seed, int kind, int t, size_t i, int nonfinite)
{
  const uint64_t hash = mix(seed + 1000003u * (uint64_t)(t + 2) + 7919u * i);
  const double noise = (double)(int64_t)hash / 9.3e18;
  if (nonfinite && hash % 97 == 0) return hash & 128 ? NAN : hash & 256 ? INFINITY : -INFINITY;
  switch (kind) {
    case WAVE: return sin(0.07 * (double)i + 0.3 * t + (double)(seed % 7));
    case NOISE: return noise;
    case CONSTANT: return 0.25 * t;
    case DENORMAL: return noise * (hash & 64 ? 1e-42 : 1e-310);
    case FRONT: return i < (size_t)(5 * t) ? cos(0.2 * (double)i - 0.5 * t) : 0.0;
    default: return noise * pow(10.0, -(double)(hash % 40));
  }
}

/* Whether element `i` is land. The coast of some fields moves, and some fields are all land. */
static int is_land(uint64_t seed, int t, size_t i)
{
  const double moved = seed % 4 == 1 ? 0.2 * t : 0.0;
  return seed % 8 == 7 || sin(0.11 * (double)i + moved) + cos(0.031 * (double)i) > 0.8;
}

static size_t value_bytes(int32_t type)
{
  static const size_t bytes[] = {4, 8, 1, 2, 4, 8, 8, 16, 1};
  return bytes[type];
}

static int is_coded(const gpuzip_field_t *field)
{
  return field->type == GPUZIP_TYPE_F32 || field->type == GPUZIP_TYPE_F64;
}

static void fill(void *to, const gpuzip_field_t *field, size_t values, uint64_t seed, int kind,
                 int t, const app_t *app, int nonfinite)
{
  const double land = app->fill ? strtod(app->fill, NULL) : 0.0;
  if (!is_coded(field))
    for (size_t i = 0; i < values * value_bytes(field->type); i++)
      ((unsigned char *)to)[i] = (unsigned char)mix(seed + (uint64_t)(t + 2) * 1000003u + i);
  for (size_t i = 0; is_coded(field) && i < values; i++) {
    const int is_sea = app->fill == NULL || seed % 3 == 0 || !is_land(seed, t, i);
    const double x = is_sea ? app->amplitude * value(seed, kind, t, i, nonfinite) : land;
    if (field->type == GPUZIP_TYPE_F64) ((double *)to)[i] = x;
    else ((float *)to)[i] = (float)x;
  }
}

/* Returns the number of values between `data` and row `i2` of plane `i3`. */
static uint64_t row(const gpuzip_field_t *field, uint64_t i2, uint64_t i3)
{
  const uint64_t pitch2 = field->pitch2 ? field->pitch2 : field->n1;
  return i2 * pitch2 + i3 * (field->pitch3 ? field->pitch3 : field->n2 * pitch2);
}

/* Copies the values between the live field and contiguous memory: into the field if `from` is not
 * NULL, else to `to`. */
static void copy_rows(const gpuzip_field_t *field, const unsigned char *from, unsigned char *to)
{
  const size_t size = value_bytes(field->type), bytes = (size_t)field->n1 * size;
  size_t at = 0;
  for (uint64_t i3 = 0; i3 < field->n3; i3++)
    for (uint64_t i2 = 0; i2 < field->n2; i2++, at += bytes) {
      unsigned char *here = (unsigned char *)field->data + row(field, i2, i3) * size;
      if (from != NULL) memcpy(here, from + at, bytes);
      else memcpy(to + at, here, bytes);
    }
}

/* Checks that no call has written between the rows. `app_spoil` has filled the field before. */
static void check_gaps(const app_t *app, uint32_t k, int ts)
{
  const gpuzip_field_t *field = &app->fields[k];
  const size_t size = value_bytes(field->type);
  size_t at = 0;
  for (uint64_t i3 = 0; i3 < field->n3; i3++)
    for (uint64_t i2 = 0; i2 < field->n2; i2++) {
      const size_t begin = (size_t)row(field, i2, i3) * size;
      for (; at < begin; at++)
        CHECK(((unsigned char *)field->data)[at] == 0xc5,
              "state %d, field %u: byte %zu of a gap was written", ts, k, at);
      at = begin + (size_t)field->n1 * size;
    }
}

void app_make(app_t *app, random_t *r, int steps)
{
  static const char *const fills[] = {"nan", "1e20", "0", "-9999", "9.96921e36"};
  static const double amplitudes[] = {1.0, 1e-30, 1e20, 1e-6, 3e4};
  uint64_t seeds[MOST_FIELDS];
  int kinds[MOST_FIELDS];
  memset(app, 0, sizeof *app);
  app->steps = steps;
  app->nfields = (uint32_t)between(r, 1, MOST_FIELDS);
  app->amplitude = amplitudes[between(r, 0, 4)];
  app->nonfinite = once_in(r, 8);
  app->fill = once_in(r, 4) ? fills[between(r, 0, 4)] : NULL;
  for (uint32_t k = 0; k < app->nfields; k++) {
    gpuzip_field_t *field = &app->fields[k];
    if (k > 0 && app->fields[k - 1].role == 0 && !once_in(r, 3)) {
      /* Field k is the previous time level of field k - 1: it has the same shape, and at time step
       * t the values that field k - 1 has at t - 1. */
      *field = app->fields[k - 1];
      field->role = (int32_t)k;
      seeds[k] = seeds[k - 1], kinds[k] = kinds[k - 1];
    } else {
      field->n1 = (uint64_t)(once_in(r, 4) ? between(r, 1, 600) : between(r, 1, 40));
      field->n2 = (uint64_t)(once_in(r, 3) ? 1 : between(r, 1, 9));
      field->n3 = (uint64_t)(once_in(r, 2) ? 1 : between(r, 1, 5));
      while (field->n1 * field->n2 * field->n3 > 1200) field->n1 = field->n1 / 2 + 1;
      field->type = once_in(r, 3) ? GPUZIP_TYPE_F64 : GPUZIP_TYPE_F32;
      if (once_in(r, 8)) field->type = (int32_t)between(r, GPUZIP_TYPE_I8, GPUZIP_TYPE_BYTE);
      if (once_in(r, 5)) field->pitch2 = field->n1 + (uint64_t)between(r, 0, 3);
      if (once_in(r, 5))
        field->pitch3 = field->n2 * (field->pitch2 ? field->pitch2 : field->n1) +
                        (uint64_t)between(r, 0, 5);
      seeds[k] = next(r), kinds[k] = (int)between(r, 0, KINDS - 1);
    }
    app->values[k] = (size_t)(field->n1 * field->n2 * field->n3);
    app->bytes[k] = app->values[k] * value_bytes(field->type);
    app->room[k] = (size_t)(row(field, field->n2 - 1, field->n3 - 1) + field->n1) *
                   value_bytes(field->type);
    field->data = malloc(app->room[k]);
    CHECK(field->data != NULL, "no memory");
    for (int t = 0; t < steps; t++) {
      app->copies[t][k] = malloc(app->bytes[k]);
      CHECK(app->copies[t][k] != NULL, "no memory");
      fill(app->copies[t][k], field, app->values[k], seeds[k], kinds[k], field->role ? t - 1 : t,
           app, app->nonfinite);
    }
  }
}

void app_free(app_t *app)
{
  for (uint32_t k = 0; k < app->nfields; k++) {
    free(app->fields[k].data);
    for (int t = 0; t < app->steps; t++) free(app->copies[t][k]);
  }
}

void app_put(app_t *app, uint32_t k, const void *values)
{
  copy_rows(&app->fields[k], values, NULL);
}

void app_advance(app_t *app, int ts)
{
  for (uint32_t k = 0; k < app->nfields; k++) app_put(app, k, app->copies[ts][k]);
}

void app_step(app_t *app, int ts, int is_one_step)
{
  for (uint32_t k = 0; k < app->nfields; k++) {
    const int32_t role = app->fields[k].role;
    if (role == 0 || app->fields[role - 1].role != 0) continue;
    if (is_one_step) copy_rows(&app->fields[role - 1], NULL, app->copies[ts][k]);
    else memcpy(app->copies[ts][k], app->copies[ts - 1][role - 1], app->bytes[k]);
  }
  app_advance(app, ts);
}

size_t app_live_bytes(const app_t *app)
{
  size_t bytes = 0;
  for (uint32_t k = 0; k < app->nfields; k++) bytes += app->bytes[k];
  return bytes;
}

void app_get_live(const app_t *app, unsigned char *to)
{
  for (uint32_t k = 0; k < app->nfields; to += app->bytes[k++])
    copy_rows(&app->fields[k], NULL, to);
}

void app_put_live(app_t *app, const unsigned char *from)
{
  for (uint32_t k = 0; k < app->nfields; from += app->bytes[k++]) app_put(app, k, from);
}

/* Copies the previous levels of some states to `to`, or from `from` if this is not NULL. Returns
 * their bytes. */
static size_t copy_levels(const app_t *app, const int *is_kept, unsigned char *to,
                          const unsigned char *from)
{
  size_t at = 0;
  for (int ts = 0; ts < app->steps; ts++)
    for (uint32_t k = 0; k < app->nfields; k++) {
      if (!is_kept[ts] || app->fields[k].role == 0) continue;
      if (from != NULL) memcpy(app->copies[ts][k], from + at, app->bytes[k]);
      else if (to != NULL) memcpy(to + at, app->copies[ts][k], app->bytes[k]);
      at += app->bytes[k];
    }
  return at;
}

void *app_keep(const app_t *app, const int *is_kept)
{
  void *kept = malloc(copy_levels(app, is_kept, NULL, NULL) + 1);
  CHECK(kept != NULL, "no memory");
  copy_levels(app, is_kept, kept, NULL);
  return kept;
}

void app_bring_back(app_t *app, const int *is_kept, const void *kept)
{
  copy_levels(app, is_kept, NULL, kept);
}

void app_spoil(app_t *app)
{
  for (uint32_t k = 0; k < app->nfields; k++) memset(app->fields[k].data, 0xc5, app->room[k]);
}

void app_move(app_t *app)
{
  for (uint32_t k = 0; k < app->nfields; k++) {
    void *moved = malloc(app->room[k]);
    CHECK(moved != NULL, "no memory");
    memcpy(moved, app->fields[k].data, app->room[k]);
    free(app->fields[k].data);
    app->fields[k].data = moved;
  }
}

static double at(const void *array, const gpuzip_field_t *field, size_t i)
{
  return field->type == GPUZIP_TYPE_F64 ? ((const double *)array)[i] : ((const float *)array)[i];
}

/* Whether a value is the one that `fill_value` names, bit for bit; any NaN comes back and does not count. */
static int is_masked(double x, const gpuzip_field_t *field, const loss_t *loss)
{
  const double fill = loss->fill ? strtod(loss->fill, NULL) : NAN;
  const double of_type = field->type == GPUZIP_TYPE_F64 ? fill : (double)(float)fill;
  return x == of_type && signbit(x) == signbit(of_type);
}

/* The extreme values and the errors of a field, or of the difference of two time levels. A bound
 * may be relative to the extreme values. */
typedef struct {
  double max, low, high, worst;
  long double squares;
  size_t finite;
} size_of_t;

static size_of_t start(void)
{
  const size_of_t none = {0.0, INFINITY, -INFINITY, 0.0, 0.0L, 0};
  return none;
}

static void count(size_of_t *s, double x, long double error)
{
  if (!isfinite(x)) return;
  s->finite++;
  s->max = fmax(s->max, fabs(x)), s->low = fmin(s->low, x), s->high = fmax(s->high, x);
  s->worst = fmax(s->worst, (double)fabsl(error));
  s->squares += error * error;
}

static double limit_of(const size_of_t *s, const loss_t *loss)
{
  const double range = s->finite ? s->high - s->low : 0.0;
  if (loss->mode == 3) return range * pow(10.0, -loss->bound / 20.0) * (1.0 + 1e-9) + 2.3e-308;
  return loss->mode == 0 ? loss->bound * s->max : loss->mode == 1 ? loss->bound : loss->bound * range;
}

static void check_within(const size_of_t *s, size_t values, const loss_t *loss, double limit,
                         double slack, int ts, uint32_t k)
{
  const double error =
      loss->mode == 3 ? (double)sqrtl(s->squares / (long double)values) : s->worst;
  CHECK(s->finite == 0 || error <= limit * slack,
        "state %d, field %u: error %g is above the bound %g (mode %d)", ts, k, error, limit,
        loss->mode);
}

void app_check(const app_t *app, int ts, const loss_t *loss)
{
  void *live[MOST_FIELDS];
  for (uint32_t k = 0; k < app->nfields; k++) {
    check_gaps(app, k, ts);
    live[k] = malloc(app->bytes[k]);
    CHECK(live[k] != NULL, "no memory");
    copy_rows(&app->fields[k], NULL, live[k]);
  }
  for (uint32_t k = 0; k < app->nfields; k++) {
    const gpuzip_field_t *field = &app->fields[k];
    const void *was = app->copies[ts][k], *is = live[k];
    if (loss->exact || !is_coded(field)) {
      CHECK(memcmp(was, is, app->bytes[k]) == 0, "state %d, field %u is not what was saved", ts, k);
      continue;
    }
    size_of_t all = start(), difference = start(), level = start();
    double scale = 0.0;
    size_t land = 0;
    for (size_t i = 0; i < app->values[k]; i++) {
      const double x = at(was, field, i), y = at(is, field, i);
      const size_t bytes = app->bytes[k] / app->values[k];
      const int is_land = is_masked(x, field, loss);
      if (!isfinite(x) || !isfinite(y) || is_land)
        CHECK(memcmp((const char *)was + i * bytes, (const char *)is + i * bytes, bytes) == 0,
              "state %d, field %u, value %zu: %g became %g", ts, k, i, x, y);
      if (is_land) land++;
      else count(&all, x, (long double)x - y);
      if (field->role == 0) continue;
      const uint32_t later = (uint32_t)field->role - 1;
      const double a = at(app->copies[ts][later], field, i), b = at(live[later], field, i);
      /* The codecs compute the difference of FP32 fields in FP32. */
      const double d = field->type == GPUZIP_TYPE_F64 ? a - x : (double)((float)a - (float)x);
      if (is_masked(a, field, loss)) continue;
      if (!is_land) count(&difference, d, ((long double)a - b) - ((long double)x - y));
      count(&level, a, 0.0L);
      if (isfinite(a)) scale = fmax(scale, fabs(a));
    }
    const double rounding = field->type == GPUZIP_TYPE_F64 ? 1.0 + 1e-9 : 1.0 + 1e-6;
    const size_t n = app->values[k] - land;
    if (loss->bounded && field->role == 0)
      check_within(&all, n, loss, limit_of(&all, loss), 1.0, ts, k);
    else if (loss->bounded && !loss->shared)
      check_within(&difference, n, loss, limit_of(&difference, loss), rounding, ts, k);
    /* A shared level has the error of a level, a pair those of a level and of a difference; and what was
     * saved after a lossy restore had one before. */
    else if (loss->bounded)
      check_within(&all, n, loss, limit_of(&all, loss) + limit_of(&level, loss), 3 * rounding, ts, k);
    /* Codecs without a bound: zfp, in gpuzip as in libzfp, loses the values of a block in which no
     * value reaches 2^-98 (FP64: 2^-962). The term 3e-29 allows for this loss. */
    scale = loss->loose * (loss->shared ? 3 : 1) * (all.max + scale) + 3e-29;
    CHECK(loss->bounded || all.worst <= scale, "state %d, field %u: error %g of a field of %g", ts,
          k, all.worst, all.max);
  }
  for (uint32_t k = 0; k < app->nfields; k++) free(live[k]);
}
