/* The choices of a job: codec, budgets, algorithm, and the combinations of all these. */
#define _POSIX_C_SOURCE 200809L
#include "everything.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Two codecs of the program: `turned` stores the bytes backwards, or leaves an array to be stored
 * uncompressed; `steps` stores multiples of twice the error bound. */
enum { TURNED = 64, STEPS = 65 };

static uint64_t bytes_of(const gpuzip_field_t *field)
{
  return field->n1 * field->n2 * field->n3 * (field->type == GPUZIP_TYPE_F64 ? 8 : 4);
}

static uint64_t most_bytes(void *user, const gpuzip_field_t *field)
{
  return (void)user, bytes_of(field);
}

static void turn(const void *from, void *to, uint64_t bytes)
{
  for (uint64_t k = 0; k < bytes; k++)
    ((unsigned char *)to)[k] = ((const unsigned char *)from)[bytes - 1 - k];
}

static int32_t turned_in(void *user, const gpuzip_field_t *field, int32_t rms, double bound,
                         void *to, uint64_t capacity, uint64_t *bytes)
{
  (void)user, (void)rms, (void)bound;
  *bytes = bytes_of(field);
  if (*bytes > capacity || field->n1 % 3 == 0) return 1;
  turn(field->data, to, *bytes);
  return 0;
}

static int32_t turned_out(void *user, const void *from, uint64_t bytes, const gpuzip_field_t *field)
{
  (void)user;
  if (bytes != bytes_of(field)) return -1;
  turn(from, field->data, bytes);
  return 0;
}

static int32_t steps_in(void *user, const gpuzip_field_t *field, int32_t rms, double bound,
                        void *to, uint64_t capacity, uint64_t *bytes)
{
  const uint64_t values = field->n1 * field->n2 * field->n3;
  const double width = bound; /* half of what is allowed, for the rounding of the value */
  (void)user, (void)rms;
  *bytes = 8 + 4 * values;
  if (*bytes > capacity || !(width > 1e-300)) return 1;
  memcpy(to, &width, 8);
  for (uint64_t k = 0; k < values; k++) {
    const double x = field->type == GPUZIP_TYPE_F64 ? ((const double *)field->data)[k]
                                                    : (double)((const float *)field->data)[k];
    if (!(fabs(x / width) < 1e4)) return 1;
    const int32_t number = (int32_t)(x / width + (x < 0 ? -0.5 : 0.5));
    memcpy((char *)to + 8 + 4 * k, &number, 4);
  }
  return 0;
}

static int32_t steps_out(void *user, const void *from, uint64_t bytes, const gpuzip_field_t *field)
{
  const uint64_t values = field->n1 * field->n2 * field->n3;
  double width;
  (void)user;
  if (bytes != 8 + 4 * values) return -1;
  memcpy(&width, from, 8);
  for (uint64_t k = 0; k < values; k++) {
    int32_t number;
    memcpy(&number, (const char *)from + 8 + 4 * k, 4);
    if (field->type == GPUZIP_TYPE_F64) ((double *)field->data)[k] = number * width;
    else ((float *)field->data)[k] = (float)(number * width);
  }
  return 0;
}

void register_codecs(void)
{
  gpuzip_codec_plugin_t turned = {.struct_size = sizeof turned,
                                  .name = "turned",
                                  .max_bytes = most_bytes,
                                  .compress = turned_in,
                                  .decompress = turned_out};
  gpuzip_codec_plugin_t steps = {.struct_size = sizeof steps,
                                 .name = "steps",
                                 .max_bytes = most_bytes,
                                 .compress = steps_in,
                                 .decompress = steps_out};
  int32_t number = 0;
  CHECK(gpuzip_codec_register(&turned, &number) == GPUZIP_OK && number == TURNED, "codec %d",
        number);
  CHECK(gpuzip_codec_register(&steps, &number) == GPUZIP_OK && number == STEPS, "codec %d", number);
}

static void choose_codec(job_t *job, double amplitude)
{
  static const int codecs[] = {0, 0, 0, 0, 0, 1, 3, 4, 5, 6, 7, 8, 15, TURNED, STEPS};
  random_t *r = &job->random;
  gpuzip_config_t *c = &job->config;
  const loss_t exact = {.exact = 1};
  job->loss = exact;
  c->compressor = codecs[between(r, 0, 14)];
  if (once_in(r, 8)) {
    c->sequences = 1;
    c->compressor = 5;
    c->checkpointing_algorithm =
        once_in(r, 4) ? GPUZIP_ALGORITHM_AUTO : GPUZIP_ALGORITHM_STORE_ALL;
  }
  if (c->compressor == 0) return;
  job->loss.exact = c->compressor == 8;
  if (once_in(r, 3)) c->compression_factor = (float)between(r, 1, 12);
  c->nonfinite = once_in(r, 10);
  if (c->compressor == 1) c->zfp_bit_rate = (int32_t)between(r, 12, 32), job->loss.loose = 1.0;
  if (c->compressor == 6) job->loss.loose = 1e-2;
  if (c->compressor == 7) job->loss.loose = 0.1;
  if (c->compressor == TURNED) job->loss.loose = 1e-6; /* of a difference of time levels */
  if (job->loss.loose > 0.0 || job->loss.exact) return;
  static const double bounds[] = {1e-1, 1e-2, 1e-3, 1e-5, 1e-8, 1e-14};
  job->loss.bounded = 1;
  c->error_bound_mode = (int32_t)between(r, 0, 3);
  c->error_bound = bounds[between(r, 0, 5)];
  if (c->error_bound_mode == 1) c->error_bound *= amplitude;
  if (c->error_bound_mode == 3) c->error_bound = (double)between(r, 20, 120);
  job->loss.mode = c->error_bound_mode, job->loss.bound = c->error_bound;
}

/* Removes contradictions from the configuration, so that gpuzip refuses only some of the jobs. */
static void settle(job_t *job)
{
  gpuzip_config_t *c = &job->config;
  const int algorithm = c->checkpointing_algorithm;
  if (c->zero_copy) c->policy = 0;
  if (c->policy) c->shared_levels = 0;
  if (c->compressor == 15 && c->compression_factor <= 1.0f) c->nonfinite = 0;
  if (algorithm == GPUZIP_ALGORITHM_ONLINE)
    c->policy = c->adjoint_every = c->sweeps = 0;
  if (c->sequences) c->sweeps = 0;
  if (c->mixed_storage == 1 && (!c->compressor || c->policy || c->sequences))
    c->mixed_storage = 0;
  const int needs_snapshots = algorithm == GPUZIP_ALGORITHM_UNIFORM ||
                              algorithm == GPUZIP_ALGORITHM_TWO_LEVEL ||
                              algorithm == GPUZIP_ALGORITHM_HREVOLVE ||
                              algorithm == GPUZIP_ALGORITHM_ONLINE;
  if (needs_snapshots && !c->host_budget && !c->device_budget && !c->checkpointing_snaps)
    c->checkpointing_snaps = 5;
  if (algorithm == GPUZIP_ALGORITHM_ZCUT) c->schedule_chunk = 0;
  if (algorithm == GPUZIP_ALGORITHM_HREVOLVE && c->schedule_chunk == 1) c->schedule_chunk = 2;
  if (algorithm == GPUZIP_ALGORITHM_STORE_ALL && !c->disk_budget)
    c->checkpointing_snaps = 0, c->host_budget = c->device_budget = 0;
}

/* Writes a Revolve schedule of `sweeps` reverse sweeps into the job's trace file. Returns the status of
 * the schedule. */
static int32_t write_trace(job_t *job, int32_t snaps, int steps, int32_t sweeps)
{
  static const char *const names[] = {"FORWARD", "SAVE", "RESTORE", "BACKWARD", "TERMINATE"};
  gpuzip_config_t config;
  gpuzip_schedule_t *schedule = NULL;
  gpuzip_action_t a;
  gpuzip_config_init(&config);
  config.log_level = 3;
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE;
  config.checkpointing_snaps = snaps;
  config.sweeps = sweeps;
  FILE *file = fopen(job->trace, "w");
  CHECK(file != NULL, "%s", job->trace);
  int32_t status = gpuzip_schedule_create(&config, steps, &schedule);
  for (int32_t ended = 0; status == GPUZIP_OK && ended < sweeps;) {
    status = gpuzip_schedule_get_action(schedule, &a);
    if (status == GPUZIP_OK) fprintf(file, "%d %s\n", a.ts, names[a.type]);
    ended += status == GPUZIP_OK && a.type == GPUZIP_ACTION_TERMINATE;
  }
  CHECK(fclose(file) == 0, "%s", job->trace);
  if (schedule != NULL) CHECK(gpuzip_schedule_release(schedule) == GPUZIP_OK, "release");
  return status;
}

/* Makes a trace file and configures the algorithm `trace` to replay it. */
static void record(job_t *job)
{
  /* A trace counts the time steps of a BACKWARD as one. */
  const int every = job->config.adjoint_every > 1 ? job->config.adjoint_every : 1;
  const int32_t snaps = (int32_t)between(&job->random, 1, 9);
  /* A trace of one sweep is repeated by a session of several. */
  const int32_t sweeps = once_in(&job->random, 2) && job->config.sweeps ? job->config.sweeps : 1;
  int32_t status = GPUZIP_ERR_PANIC;
  for (uint64_t before = UINT64_MAX; status != GPUZIP_OK && before != faults_made();) {
    before = faults_made();
    status = write_trace(job, snaps, (job->now.steps + every - 1) / every, sweeps);
  }
  CHECK(status == GPUZIP_OK, "a schedule to record: status %d", status);
  job->config.checkpointing_algorithm = GPUZIP_ALGORITHM_TRACE;
  job->config.trace_file_path = job->trace;
}

static void choose_tiers(job_t *job)
{
  random_t *r = &job->random;
  gpuzip_config_t *c = &job->config;
  uint64_t raw = 0;
  for (uint32_t k = 0; k < job->apps[0].nfields; k++) raw += job->apps[0].bytes[k] + 256;
  if (!once_in(r, 5)) c->checkpointing_snaps = (int32_t)between(r, 1, 14);
  c->cache_capacity = (int32_t)between(r, 0, 7);
  if (once_in(r, 3))
    c->device_budget = raw * (uint64_t)between(r, 1, 12) + (uint64_t)between(r, 0, 300);
  if (once_in(r, 3))
    c->host_budget = raw * (uint64_t)between(r, 1, 30) + (uint64_t)between(r, 0, 300);
  if (once_in(r, 2)) return;
  c->host_budget = raw * (uint64_t)between(r, 3, 9) + (uint64_t)between(r, 0, 300);
  c->disk_budget = (raw / 4096 + 1) * 4096 * (uint64_t)between(r, 1, 40) +
                   (uint64_t)between(r, 0, 300);
  snprintf(job->disks, sizeof job->disks, once_in(r, 3) ? "%s:%s" : "%s", everything_place,
           everything_place);
  c->disk_path = job->disks;
}

void choose(job_t *job)
{
  static const int eager[] = {30, 20, 8, 3};
  static const int algorithms[] = {1, 2, 3, 5, 6, 8, 9};
  static const int roundings[] = {FE_TONEAREST, FE_TONEAREST, FE_UPWARD, FE_DOWNWARD,
                                  FE_TOWARDZERO};
  random_t *r = &job->random;
  gpuzip_config_t *c = &job->config;
  gpuzip_config_init(c);
  job->now.steps = (int)(once_in(r, 4) ? between(r, 1, 5)
                                       : between(r, 1, once_in(r, 4) ? MOST_STEPS : 30));
  job->sessions = once_in(r, 10) ? 2 : 1;
  for (int k = 0; k < job->sessions; k++) app_make(&job->apps[k], r, job->now.steps);
  c->backend = 1;
  c->log_level = 3;
  c->checkpointing_algorithm = once_in(r, 60) ? GPUZIP_ALGORITHM_AUTO
                                              : algorithms[between(r, 0, 6)];
  choose_tiers(job);
  c->policy = once_in(r, 4);
  c->range_actions = once_in(r, 3);
  c->snapshot_rule = once_in(r, 12);
  c->schedule_chunk = (int32_t)(once_in(r, 3) ? between(r, 1, 20) : 0);
  c->uniform_reading = once_in(r, 6);
  c->zero_copy = between(r, 0, 4) < 2;
  c->shared_levels = once_in(r, 3);
  if (once_in(r, 4)) c->adjoint_every = (int32_t)between(r, 0, 7);
  if (once_in(r, 4)) c->sweeps = (int32_t)between(r, 2, 4);
  c->mixed_storage = (int32_t)(once_in(r, 2) ? between(r, 1, 2) : 0);
  c->codec_threads = (int32_t)(once_in(r, 2) ? between(r, 1, 3) : between(r, 0, 1) - 1);
  if (once_in(r, 30)) c->link_bandwidth = 2e9;
  choose_codec(job, job->apps[0].amplitude);
  for (int k = 0; k < job->sessions; k++)
    if (job->apps[k].fill != NULL && isnan(strtod(job->apps[k].fill, NULL))) c->nonfinite = 0;
  const int keeps_masked = job->loss.exact || job->loss.bounded;
  if (job->apps[0].fill != NULL && (keeps_masked || once_in(r, 20)))
    c->fill_value = job->loss.fill = job->apps[0].fill;
  if (!once_in(r, 10)) settle(job);
  job->loss.shared = c->shared_levels && !job->loss.exact;
  job->rounding = roundings[between(r, 0, 4)];
  job->flush = once_in(r, 3);
  if (once_in(r, 10)) record(job);
  job->every = c->adjoint_every > 1 ? c->adjoint_every : 1;
  job->open = c->checkpointing_algorithm == GPUZIP_ALGORITHM_ONLINE &&
              c->compressor != GPUZIP_COMPRESSOR_AUTO && job->now.steps > 1 && once_in(r, 2);
  job->measured = job->loss;
  if (!job->open && once_in(r, 10)) {
    /* Snapshots are raw, whatever `compressor` says. */
    const loss_t exact = {.exact = 1};
    c->check = (int32_t)between(r, 1, 4);
    job->loss = exact;
  }
  job->persist = job->sessions == 1 && between(r, 0, 4) < 2;
  job->eager = eager[between(r, 0, 3)];
  if (job->persist) c->persist_dir = job->folder;
  random_t random = *r; /* the choices of the rest stay as they are */
  if (job->persist && once_in(&random, 3)) c->persist_shared_dir = job->shared;
  if (job->persist && once_in(&random, 2)) c->persist_whole_every = (int32_t)between(&random, 2, 6);
  if (c->persist_shared_dir != NULL && once_in(&random, 2)) c->persist_stages = "compress";
  static const char *const qualities[] = {"gradient:0.1", "gradient:1e-5", "image:30dB", "image:110dB"};
  if (job->measured.bounded && job->sessions == 1 && once_in(&random, 3)) c->quality = qualities[between(&random, 0, 3)];
}
