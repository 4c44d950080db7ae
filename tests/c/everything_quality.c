/* The key `quality` in a job: a shot is run with the configurations that gpuzip_quality_next gives, and the job
 * goes on with the bound that follows. The result of a shot is the sum of the states at its BACKWARDs. */
#define _POSIX_C_SOURCE 200809L
#include "everything.h"

#include <math.h>
#include <string.h>

/* MOST_RUNS: more than a shot is ever run; the program gives some shots up. */
enum { MOST_RUNS = 60 };

/* Returns the number of the field that the result is of: its first current level. */
static uint32_t result_field(const app_t *app)
{
  uint32_t f = 0;
  while (app->fields[f].role != 0) f++;
  return f;
}

/* Returns the number of values of the result. */
static size_t result_values(const app_t *app)
{
  const uint32_t f = result_field(app);
  const int32_t type = app->fields[f].type;
  return type == GPUZIP_TYPE_F32 || type == GPUZIP_TYPE_F64 ? app->values[f] : app->bytes[f];
}

/* Adds the values at `from` to the result. */
static void add(job_t *job, const unsigned char *from)
{
  const app_t *app = &job->apps[0];
  const int32_t type = app->fields[result_field(app)].type;
  const size_t n = result_values(app);
  for (size_t k = 0; k < n; k++) {
    float x;
    double y;
    if (type == GPUZIP_TYPE_F32) memcpy(&x, from + 4 * k, 4), y = x;
    else if (type == GPUZIP_TYPE_F64) memcpy(&y, from + 8 * k, 8);
    else y = from[k];
    job->result[k] += y;
  }
}

void begin_result(job_t *job)
{
  job->restored_at = -1;
  if (job->result != NULL) memset(job->result, 0, sizeof(double) * result_values(&job->apps[0]));
}

void keep_restored(job_t *job, int32_t ts)
{
  if (job->result == NULL) return;
  app_get_live(&job->apps[0], job->restored);
  job->restored_at = ts;
}

void add_to_result(job_t *job, int32_t ts)
{
  const app_t *app = &job->apps[0];
  const unsigned char *from = job->restored;
  const uint32_t field = job->result != NULL ? result_field(app) : 0;
  if (job->result == NULL) return;
  for (uint32_t f = 0; f < field; f++) from += app->bytes[f];
  add(job, job->restored_at == ts ? from : app->copies[ts][field]);
}

/* Runs the shot with the job's configuration. Returns 1 if its result is there, 0 if the shot did not come to its
 * end, and -1 if the configuration is refused. */
static int run_measured(job_t *job)
{
  const int32_t status = open_again(job);
  if (status != GPUZIP_OK) {
    CHECK(status == GPUZIP_ERR_CONFIG || status == GPUZIP_ERR_BUDGET || status == GPUZIP_ERR_UNSUPPORTED,
          "status %d", status);
    count_refusal(status);
    close_sessions(job);
    return -1;
  }
  begin_shot(job), begin_result(job);
  const uint64_t due = job->counts->due;
  const int ended = run_shot(job);
  if (ended) check_numbers(job), job->counts->shots++;
  close_sessions(job);
  return ended ? 1 : due != job->counts->due ? -1 : 0;
}

/* Returns the error of the result relative to `exact`, as a fraction of what `quality` allows. */
static double part_of_allowed(const job_t *job, const char *quality, const double *exact)
{
  const size_t n = result_values(&job->apps[0]);
  const double asked = strtod(strchr(quality, ':') + 1, NULL);
  double error = 0, norm = 0, least = INFINITY, largest = -INFINITY;
  for (size_t k = 0; k < n; k++) {
    error += (job->result[k] - exact[k]) * (job->result[k] - exact[k]), norm += exact[k] * exact[k];
    least = fmin(least, exact[k]), largest = fmax(largest, exact[k]);
  }
  if (quality[0] == 'g') return sqrt(error / norm) / asked;
  return sqrt(error / (double)n) / (largest - least) / pow(10, -asked / 20);
}

/* Hands over the result of a run, again while faults hit this. Returns the status. */
static int32_t give_result(job_t *job, gpuzip_quality_t *q)
{
  int32_t status = GPUZIP_ERR_PANIC;
  gpuzip_field_t field;
  memset(&field, 0, sizeof field);
  field.data = job->result, field.type = GPUZIP_TYPE_F64;
  field.n1 = result_values(&job->apps[0]), field.n2 = field.n3 = 1;
  if (job->faults && once_in(&job->random, 3)) begin_faults(job);
  for (uint64_t before = UINT64_MAX; status != GPUZIP_OK && before != faults_made();) {
    before = faults_made();
    IN(job, status, gpuzip_quality_result(q, &field, 1));
    end_faults(job);
  }
  CHECK(status == GPUZIP_OK || status == GPUZIP_ERR_VALUES, "status %d", status);
  return status;
}

/* A bound that is being chosen. */
typedef struct {
  gpuzip_quality_t *q;
  const char *quality;
  int all[MOST_STEPS]; /* 1 for every state of the job, */
  void *levels;        /* and their previous levels, of which runs with lossy levels leave others */
  double *exact;       /* the result of the run with raw snapshots */
  double part;         /* the largest error with the chosen bound, as a part of what is allowed */
} choice_t;

/* Measures a shot. Returns 1 if the bound is chosen, and 0 if it cannot be. */
static int measure(job_t *job, choice_t *c)
{
  const loss_t shots = job->loss, raw = {.exact = 1};
  double parts[MOST_RUNS], bounds[MOST_RUNS];
  int runs = 0;
  for (int k = 0; k < MOST_RUNS; k++) {
    int32_t is_wanted, status;
    IN(job, status, gpuzip_quality_next(c->q, &job->config, &is_wanted));
    CHECK(status == GPUZIP_OK && job->config.quality == NULL, "status %d", status);
    CHECK(!is_wanted || job->config.persist_dir == NULL, "a run that is thrown away has restart files");
    CHECK(!is_wanted || job->config.check == 0, "a run that measures has raw snapshots");
    const int is_raw = is_wanted && job->config.compressor == GPUZIP_COMPRESSOR_NONE;
    job->loss = !is_wanted ? shots : is_raw ? raw : job->measured;
    if (job->loss.bounded) job->loss.bound = job->config.error_bound;
    for (int i = 0; i < runs; i++)
      if (!is_wanted && bounds[i] == job->config.error_bound) c->part = fmax(c->part, parts[i]);
    if (!is_wanted) return 1;
    app_bring_back(&job->apps[0], c->all, c->levels);
    const int ended = run_measured(job);
    if (ended < 0) break;
    if (ended == 0) continue;
    if (give_result(job, c->q) != GPUZIP_OK) break;
    if (is_raw) memcpy(c->exact, job->result, sizeof(double) * result_values(&job->apps[0]));
    else parts[runs] = part_of_allowed(job, c->quality, c->exact), bounds[runs++] = job->config.error_bound;
  }
  return 0;
}

/* Chooses the bound; the configuration is `given` without its key `quality`. Returns whether it is chosen. */
static int choose_by(job_t *job, const gpuzip_config_t *given, choice_t *c)
{
  gpuzip_quality_info_t info = {.struct_size = sizeof info};
  int is_chosen = measure(job, c);
  if (is_chosen && once_in(&job->random, 3)) {
    CHECK(gpuzip_quality_check(c->q) == GPUZIP_OK, "a check");
    is_chosen = measure(job, c);
  }
  if (!is_chosen) return 0;
  const double bound = job->config.error_bound;
  CHECK(c->part >= 0 && c->part <= 1 + 1e-9, "%s: with the chosen bound %g the error is %g of that", c->quality, bound,
        c->part);
  CHECK(gpuzip_quality_info(c->q, &info) == GPUZIP_OK && info.error_bound == bound, "bound %g, told %g", bound,
        info.error_bound);
  CHECK(given->error_bound_mode == 3 ? bound >= given->error_bound : bound <= given->error_bound,
        "bound %g, given %g", bound, given->error_bound);
  CHECK(job->config.persist_dir == given->persist_dir, "the shots that follow have another folder");
  CHECK(job->config.check == given->check, "the shots that follow have another check");
  job->counts->chosen++;
  return 1;
}

void choose_bound(job_t *job)
{
  const gpuzip_config_t given = job->config;
  const loss_t loss = job->loss;
  const int persist = job->persist;
  const app_t *app = &job->apps[0];
  choice_t c = {.quality = given.quality, .part = -1};
  int32_t status = GPUZIP_ERR_PANIC;
  if (given.quality == NULL) return;
  job->config.quality = NULL;
  for (uint64_t before = UINT64_MAX; status != GPUZIP_OK && before != faults_made();) {
    before = faults_made();
    IN(job, status, gpuzip_quality_open(&given, &c.q));
  }
  if (status != GPUZIP_OK) {
    CHECK(status == GPUZIP_ERR_CONFIG || status == GPUZIP_ERR_UNSUPPORTED, "status %d", status);
    count_refusal(status);
    return;
  }
  for (int k = 0; k < app->steps; k++) c.all[k] = 1;
  c.levels = app_keep(app, c.all);
  c.exact = malloc(sizeof(double) * result_values(app));
  job->result = malloc(sizeof(double) * result_values(app)), job->restored = malloc(app_live_bytes(app));
  CHECK(c.exact != NULL && job->result != NULL && job->restored != NULL, "no memory");
  job->persist = 0;
  if (!choose_by(job, &given, &c)) job->config = given, job->config.quality = NULL, job->loss = loss;
  job->persist = persist;
  CHECK(gpuzip_quality_close(c.q) == GPUZIP_OK, "close");
  app_bring_back(&job->apps[0], c.all, c.levels);
  free(c.levels), free(c.exact), free(job->result), free(job->restored);
  job->result = NULL;
}
