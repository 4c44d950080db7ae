/* Runs random sessions on the host backend that combine all that a session can be asked for:
 * algorithms, codecs, codecs of the program, budgets, disk, zero copy, shared time levels,
 * macro-steps, bounds chosen by the error of a result, ranges, unknown numbers of steps, several
 * shots, other numbers of steps, measured profiles, restarts at random actions, wrong calls, and
 * faults of memory and files. Each restored state is compared with the program's own copy of that
 * state, and each action with the rules of checkpointing.
 *
 *   everything FIRST COUNT [THREADS [faults]]
 *
 * runs the jobs FIRST .. FIRST + COUNT - 1 in the current folder and prints counts of their
 * results. All random choices of a job follow from its number. Faults hit all threads: with more
 * than one thread they are made only if asked for, and then a job does not follow from its number
 * alone. The program exits with 1 at the first failed check, and also if a job takes longer than
 * SECONDS. In the end no memory, descriptor or file may be left. */
#define _POSIX_C_SOURCE 200809L
#include "everything.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "failing_memory.h"
#include "faults.h"

/* The parts that make faults are linked only where faults are wanted. */
#pragma weak failing_memory_arm
#pragma weak failing_memory_disarm
#pragma weak failing_memory_failed_ever
#pragma weak failing_memory_live
#pragma weak file_faults
#pragma weak file_faults_made

/* At most MOST_LIVE blocks of memory that belong to no session are live in the end. */
enum { SECONDS = 120, MOST_THREADS = 8, KINDS = 256, MOST_LIVE = 64 };

_Thread_local uint64_t current_job;
static _Atomic uint64_t jobs_of_threads[MOST_THREADS];
static int wants_faults;
const char *everything_place = ".";

/* The reasons of refusals. */
static struct {
  char text[200];
  uint64_t count;
} kinds[KINDS];
static pthread_mutex_t kinds_mutex = PTHREAD_MUTEX_INITIALIZER;

uint64_t faults_made(void)
{
  if (failing_memory_arm == NULL) return 0;
  return (uint64_t)failing_memory_failed_ever() + (uint64_t)file_faults_made();
}

void begin_faults(job_t *job)
{
  const int64_t kind = between(&job->random, 0, 3);
  if (kind < 2)
    failing_memory_arm(kind ? FAIL_ONE : FAIL_FROM, (long)between(&job->random, 1, 60), 0);
  else file_faults((long)between(&job->random, 20, 300), next(&job->random));
  job->armed = 1;
}

void end_faults(job_t *job)
{
  if (!job->armed) return;
  failing_memory_disarm();
  file_faults(0, 0);
  job->armed = 0;
}

/* Checks that a refusal names a key, and counts its text without numbers. */
void count_refusal(int32_t status)
{
  static const char *const keys[] = {
      "checkpointing_algorithm", "checkpointing_snaps", "cache_capacity", "compressor",
      "compression_factor", "trace_file_path", "zfp_bit_rate", "device_budget", "host_budget",
      "disk_budget", "disk_path", "policy", "error_bound", "nonfinite", "snapshot_rule",
      "schedule_chunk", "zero_copy", "shared_levels", "mixed_storage", "adjoint_every", "steps",
      "codec_threads", "sequences", "quality", "fill_value", "sweeps", "check", "persist_shared_dir",
      "persist_whole_every", "persist_stages"};
  char text[200];
  size_t n = 0;
  int named = 0;
  const char *from = gpuzip_last_error();
  for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) named |= strstr(from, keys[k]) != NULL;
  CHECK(named, "a refusal that names no key");
  for (; *from != '\0' && n + 1 < sizeof text; from++) {
    const int digit = *from >= '0' && *from <= '9';
    if (!digit) text[n++] = *from;
    else if (n == 0 || text[n - 1] != '#') text[n++] = '#';
  }
  text[n] = '\0';
  (void)status;
  pthread_mutex_lock(&kinds_mutex);
  int k = 0;
  while (k < KINDS - 1 && kinds[k].count != 0 && strcmp(kinds[k].text, text) != 0) k++;
  if (kinds[k].count++ == 0) strcpy(kinds[k].text, text);
  pthread_mutex_unlock(&kinds_mutex);
}

/* Asks for the memory of the job's sessions and makes them. Returns 0 if gpuzip refuses the
 * configuration, at once and by name. */
static int begin(job_t *job)
{
  gpuzip_summary_t required;
  const app_t *app = &job->apps[0];
  const int asks = job->sessions == 1 && once_in(&job->random, 20);
  int32_t status, asked = GPUZIP_OK;
  required.struct_size = sizeof required;
  if (asks)
    IN(job, asked,
       gpuzip_memory_required(&job->config, job->open ? 0 : job->now.steps, app->fields,
                              app->nfields, &required));
  if (job->faults && once_in(&job->random, 3)) begin_faults(job);
  status = open_again(job);
  if (asks && job->alone)
    CHECK(status == asked, "gpuzip_memory_required returned %d, gpuzip_init %d", asked, status);
  if (status == GPUZIP_OK) return 1;
  CHECK(status == GPUZIP_ERR_CONFIG || status == GPUZIP_ERR_BUDGET ||
            status == GPUZIP_ERR_UNSUPPORTED,
        "status %d", status);
  count_refusal(status);
  job->counts->refused++;
  return 0;
}

/* Measures a profile in the next shot, or gives the session one. */
static void tune(job_t *job)
{
  const double forward[2] = {(double)between(&job->random, 1, 50), 3.0},
               backward[2] = {7.0, (double)between(&job->random, 1, 50)};
  int32_t status;
  if (job->sessions > 1) return;
  if (once_in(&job->random, 12)) {
    IN(job, status, gpuzip_autotune(job->handles[0]));
    if (status != GPUZIP_OK) check_failure(job, status);
    job->tuned = status == GPUZIP_OK;
  } else if (once_in(&job->random, 12) && job->now.steps > 1) {
    IN(job, status, gpuzip_profile_steps(job->handles[0], 2, forward, backward));
    if (status != GPUZIP_OK) check_failure(job, status);
    else job->profiled = 1;
  }
}

/* After a measured shot: the next plan follows from what was measured. */
static void import(job_t *job)
{
  unsigned char profile[4096];
  uint64_t bytes = 0;
  int32_t status;
  if (!job->tuned) return;
  job->tuned = 0;
  IN(job, status, gpuzip_profile_export(job->handles[0], profile, sizeof profile, &bytes));
  if (status == GPUZIP_ERR_STATE) return; /* a shot of few steps measures nothing */
  if (status == GPUZIP_OK) IN(job, status, gpuzip_profile_import(job->handles[0], profile, bytes));
  if (status != GPUZIP_OK) check_failure(job, status);
  else job->profiled = 1;
}

/* Prepares the next shot, of another number of steps now and then. */
static void next_shot(job_t *job)
{
  const int most = job->apps[0].steps;
  int32_t status = GPUZIP_OK;
  job->now.shot++;
  for (int k = 0; k < job->sessions; k++) {
    IN(job, status, gpuzip_setup(job->handles[k]));
    /* The first call may return an error of the shot before. */
    if (status != GPUZIP_OK) {
      check_failure(job, status);
      for (uint64_t before = UINT64_MAX; status != GPUZIP_OK && before != faults_made();) {
        before = faults_made();
        IN(job, status, gpuzip_setup(job->handles[k]));
      }
    }
    CHECK(status == GPUZIP_OK, "setup for the next shot: status %d", status);
  }
  if (job->open && once_in(&job->random, 2)) job->now.steps = (int)between(&job->random, 2, most);
  if (!once_in(&job->random, 4)) return;
  const int steps = (int)between(&job->random, 1, most);
  IN(job, status, gpuzip_setup_steps(job->handles[0], steps));
  /* A trace counts the time steps of a BACKWARD as one. */
  const int is_other = (steps + job->every - 1) / job->every !=
                       (job->now.steps + job->every - 1) / job->every;
  const int is_trace = job->config.checkpointing_algorithm == GPUZIP_ALGORITHM_TRACE;
  const int is_fixed = (steps != job->now.steps && (job->open || job->sessions > 1)) ||
                       (is_trace && is_other);
  CHECK((status != GPUZIP_OK) >= is_fixed, "a shot of %d steps instead of %d", steps,
        job->now.steps);
  if (status == GPUZIP_OK) job->now.steps = steps;
  else CHECK(status < 0 && strlen(gpuzip_last_error()) > 20, "status %d", status);
}

static void run_shots(job_t *job)
{
  for (int64_t shots = between(&job->random, 1, 4); shots > 0; shots--) {
    int32_t status = GPUZIP_OK;
    begin_shot(job);
    tune(job);
    if (job->persist && once_in(&job->random, 2)) status = write_generation(job, 0);
    if (status != GPUZIP_OK) check_failure(job, status);
    const int ended = run_shot(job);
    end_faults(job);
    if (ended) check_numbers(job), import(job), job->counts->shots++;
    if (job->handles[0] == NULL) {
      /* A fault has hit the restart. */
      close_sessions(job);
      status = open_again(job);
      CHECK(status == GPUZIP_OK, "a session after the faults: status %d", status);
    }
    next_shot(job);
  }
}

void run_job(uint64_t number, random_t random, int worker, int alone, counts_t *counts)
{
  job_t *job = calloc(1, sizeof *job);
  CHECK(job != NULL, "no memory");
  current_job = number;
  jobs_of_threads[worker] = number;
  alarm(SECONDS);
  job->random = random, job->counts = counts, job->alone = alone;
  snprintf(job->folder, sizeof job->folder, "%s/restart-%d", everything_place, worker);
  snprintf(job->shared, sizeof job->shared, "%s/shared-%d", everything_place, worker);
  snprintf(job->clone, sizeof job->clone, "%s/clone-%d", everything_place, worker);
  snprintf(job->states, sizeof job->states, "%s/states-%d", everything_place, worker);
  snprintf(job->trace, sizeof job->trace, "%s/everything-%d.trace", everything_place, worker);
  counts->jobs++, job->restarts_left = 5;
  choose(job);
  job->live = malloc(app_live_bytes(&job->apps[0]));
  CHECK(job->live != NULL, "no memory");
  job->faults = wants_faults && failing_memory_arm != NULL && once_in(&job->random, 4);
  job->faults_before = faults_made(), job->others_bytes = bytes_on_disk();
  choose_bound(job);
  if (begin(job)) counts->sessions++, run_shots(job);
  end_faults(job);
  close_sessions(job);
  if (job->persist) remove_folder(job);
  forget_generations(job), free(job->live);
  if (job->config.trace_file_path != NULL) remove(job->trace);
  for (int k = 0; k < job->sessions; k++) app_free(&job->apps[k]);
  free(job);
}

#ifdef NO_MAIN
/* Runs the job that the bytes of a fuzzer's input describe, in the folder `place`. */
void everything_of_bytes(const char *place, const unsigned char *bytes, size_t n)
{
  static int is_ready;
  counts_t counts = {0};
  const random_t random = {0, bytes, bytes + n};
  if (!is_ready) register_codecs();
  is_ready = 1, everything_place = place;
  run_job(0, random, 0, 0, &counts);
  alarm(0);
}
#else
static void reproduce(uint64_t job)
{
  char line[80];
  const int length = snprintf(line, sizeof line, "run again: everything %llu 1\n",
                              (unsigned long long)job);
  if (write(STDERR_FILENO, line, (size_t)length) < 0) _exit(2);
}

void stress_failed(void)
{
  reproduce(current_job);
  exit(1);
}

static void too_long(int signal)
{
  (void)signal;
  for (int k = 0; k < MOST_THREADS; k++)
    if (jobs_of_threads[k] != UINT64_MAX) reproduce(jobs_of_threads[k]);
  _exit(3);
}

typedef struct {
  uint64_t first, count;
  int worker, workers;
  counts_t counts;
} worker_t;

static void *work(void *user)
{
  worker_t *w = user;
  for (uint64_t k = (uint64_t)w->worker; k < w->count; k += (uint64_t)w->workers) {
    const random_t random = {mix(w->first + k), NULL, NULL};
    run_job(w->first + k, random, w->worker, w->workers == 1, &w->counts);
  }
  jobs_of_threads[w->worker] = UINT64_MAX;
  return NULL;
}

static void on_log(int32_t level, const char *message, void *user)
{
  (void)level, (void)message, (void)user;
}

/* Returns the number of entries of a folder. */
static int entries(const char *path)
{
  int n = 0;
  DIR *folder = opendir(path);
  while (folder != NULL && readdir(folder) != NULL) n++;
  if (folder != NULL) closedir(folder);
  return n;
}

int main(int argc, char **argv)
{
  static worker_t workers[MOST_THREADS];
  pthread_t threads[MOST_THREADS];
  counts_t sum = {0};
  if (argc < 3) return fprintf(stderr, "usage: %s FIRST COUNT [THREADS]\n", argv[0]), 2;
  const int n = argc > 3 ? atoi(argv[3]) : 1;
  if (n < 1 || n > MOST_THREADS) return fprintf(stderr, "THREADS: 1 to %d\n", MOST_THREADS), 2;
  wants_faults = n == 1 || argc > 4;
  signal(SIGALRM, too_long);
  gpuzip_set_log_callback(on_log, NULL);
  register_codecs();
  const int files = entries("."), descriptors = entries("/proc/self/fd");
  for (int k = 0; k < MOST_THREADS; k++) jobs_of_threads[k] = UINT64_MAX;
  for (int k = 0; k < n; k++) {
    const worker_t w = {strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10), k, n, {0}};
    workers[k] = w;
    if (n > 1) CHECK(pthread_create(&threads[k], NULL, work, &workers[k]) == 0, "a thread");
    else work(&workers[k]);
  }
  for (int k = 0; k < n; k++) {
    if (n > 1) pthread_join(threads[k], NULL);
    for (size_t c = 0; c < sizeof sum / sizeof(uint64_t); c++)
      ((uint64_t *)&sum)[c] += ((uint64_t *)&workers[k].counts)[c];
  }
  CHECK(entries(".") <= files, "%d files are left", entries(".") - files);
  CHECK(entries("/proc/self/fd") == descriptors, "%d descriptors are open, and %d were before",
        entries("/proc/self/fd"), descriptors);
  if (failing_memory_arm != NULL) {
    const long live = failing_memory_live();
    CHECK(live < MOST_LIVE, "%ld blocks of memory of the library are left", live);
  }
#define U(name) (unsigned long long)sum.name
  printf("%llu jobs: %llu refused, %llu sessions, %llu shots to their end, "
         "%llu ended by an error that was due, %llu by faults, %llu actions, %llu saves, "
         "%llu restores compared, %llu misused calls, %llu questions, %llu generations, "
         "%llu of them while memory was out, %llu restarts, "
         "%llu of them from an older generation, %llu nodes lost, %llu begun with clones, %llu states exported, %llu bounds chosen, %llu faults\n",
         U(jobs), U(refused), U(sessions), U(shots), U(due), U(faulted), U(actions), U(saves),
         U(restores), U(misused), U(asked), U(written), U(out), U(restarts), U(older), U(nodes_lost),
         U(clones), U(exported), U(chosen),
         (unsigned long long)faults_made());
  for (int k = 0; k < KINDS && kinds[k].count; k++)
    printf("refused %llu: %s\n", (unsigned long long)kinds[k].count, kinds[k].text);
  return 0;
}
#endif
