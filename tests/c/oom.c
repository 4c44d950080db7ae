/* Tests that gpuzip survives the failure of any of its allocations. A trial runs a small session in
 * which the library's N-th request for memory fails, or the N-th and all later requests; there are
 * trials for every N and for every mode in the table MODES. In a trial a call may fail with an
 * error text, or give the right states. The process must not abort, no memory may leak, and the
 * next session must work. Sessions on several threads share one count of requests. The program
 * prints the number of trials; a trial of more than HANG seconds counts as an abort.
 *
 * oom [--most TRIALS] [--only PATTERN] [--but PATTERN] [--cuda]: runs at most TRIALS trials for
 * each
 *   mode, spread over all N; 0: all N (but 200 for THREADS, REPEAT and fields of many shapes, whose
 *   trials take long). PATTERN is a shell pattern of the names of modes.
 * oom --only NAME --at N [--later]: runs one trial in this process, for a debugger; --later: all
 *   requests from the N-th on fail.
 * oom --limit BYTES: runs a session in a process whose address space is limited to BYTES. */
#define _GNU_SOURCE
#include <gpuzip.h>

#include "failing_memory.h"
#include "oom_modes.h"

#include <dlfcn.h>
#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HANG = 300, MEMBERS = 16, TRIES = 5 };

static __thread gpuzip_config_t config;
static __thread char *stream;
static __thread uint64_t stream_bytes;
static __thread int has_met; /* whether this thread has been in end_shortage during this trial */
static pthread_barrier_t meeting;
static int on_gpu, is_cold;
static long asked_without_memory;

/* Runs one shot in the pull loop and returns 1 if a call failed. */
static int shot(gpuzip_t *handle, gpuzip_schedule_t *schedule, int stats)
{
  int live = 0, reversed = mode->steps;
  void *place[2];
  gpuzip_field_t *state = fields, lent[2];
  if (mode->kind == ZERO_COPY) memcpy(lent, fields, 2 * sizeof lent[0]);
  set_state(state, 0);
  for (int64_t it = 0;; it++) {
    gpuzip_action_t a;
    if (schedule == NULL) {
      if (FAILS(gpuzip_get_action(handle, &a))) return 1;
    } else {
      if (FAILS(gpuzip_schedule_get_action(schedule, &a)) || FAILS(gpuzip_dispatch(handle, it))) return 1;
    }
    const int save_here = mode->kind == ZERO_COPY && (a.flags & GPUZIP_FLAG_NEXT_IS_SAVE);
    switch (a.type) {
    case GPUZIP_ACTION_FORWARD:
      if (a.ts != live + 1) die("FORWARD %d from state %d", a.ts, live);
      live = a.ts_end;
      if (save_here) {
        if (FAILS(gpuzip_save_begin(handle, live, place, 2, NULL))) return 1;
        lent[0].data = place[0], lent[1].data = place[1], state = lent;
      } else state = fields;
      set_state(state, live);
      break;
    case GPUZIP_ACTION_SAVE:
      if (a.ts != live) die("SAVE %d of state %d", a.ts, live);
      if (mode->kind == ZERO_COPY) {
        if (live == 0) {
          if (FAILS(gpuzip_save_begin(handle, live, place, 2, NULL))) return 1;
          lent[0].data = place[0], lent[1].data = place[1], state = lent;
          set_state(state, live);
        }
        if (FAILS(gpuzip_save_commit(handle, a.ts, NULL))) return 1;
      } else if (FAILS(gpuzip_save(handle, a.ts, fields, (uint32_t)mode->nfields, NULL))) return 1;
      break;
    case GPUZIP_ACTION_RESTORE:
      live = a.ts;
      if (mode->kind == ZERO_COPY) {
        if (FAILS(gpuzip_retrieve_acquire(handle, a.ts, place, 2, NULL))) return 1;
        lent[0].data = place[0], lent[1].data = place[1], state = lent;
        if (FAILS(gpuzip_synchronize(handle))) return 1;
        check_state(lent, live);
      } else {
        for (int k = 0; k < mode->nfields; k++) memset(fields[k].data, 0xee, values(k) * value_bytes);
        if (FAILS(gpuzip_retrieve(handle, a.ts, fields, (uint32_t)mode->nfields, NULL))) return 1;
        if (FAILS(gpuzip_synchronize(handle))) return 1;
        check_state(fields, live);
        set_state(fields, live);
      }
      break;
    case GPUZIP_ACTION_BACKWARD:
      if (a.ts != live || a.ts != --reversed) die("BACKWARD %d from state %d", a.ts, live);
      break;
    case GPUZIP_ACTION_TERMINATE:
      if (reversed != 0) die("TERMINATE with %d states to reverse", reversed);
      if (stats) {
        gpuzip_stats_t counted;
        counted.struct_size = sizeof counted;
        if (FAILS(gpuzip_stats(handle, &counted))) return 1;
      }
      return 0;
    default: die("action %d", a.type);
    }
  }
}

struct app {
  int live, reversed;
};

static int32_t forward(void *user, int32_t ts, int32_t ts_end, uint32_t flags)
{
  struct app *app = user;
  (void)flags;
  if (ts != app->live + 1) die("FORWARD %d from state %d", ts, app->live);
  app->live = ts_end;
  set_state(fields, ts_end);
  return 0;
}

static int32_t backward(void *user, int32_t ts, uint32_t flags)
{
  struct app *app = user;
  (void)flags;
  if (ts != app->live || ts != --app->reversed) die("BACKWARD %d from state %d", ts, app->live);
  return 0;
}

static int32_t observe(void *user, int32_t type, int32_t ts, uint32_t flags)
{
  struct app *app = user;
  (void)flags;
  if (type == GPUZIP_ACTION_RESTORE) check_state(fields, app->live = ts);
  return 0;
}

static int run(gpuzip_t *handle)
{
  struct app app = {0, mode->steps};
  gpuzip_callbacks_t calls;
  memset(&calls, 0, sizeof calls);
  calls.struct_size = sizeof calls, calls.user = &app, calls.forward = forward, calls.backward = backward, calls.observe = observe;
  set_state(fields, 0);
  if (FAILS(gpuzip_run_forward(handle, &calls, fields, (uint32_t)mode->nfields, NULL))) return 1;
  return FAILS(gpuzip_run_reverse(handle, &calls, fields, (uint32_t)mode->nfields, NULL));
}

/* Ends the shortage of memory. With THREADS, each thread waits until all threads have called this
 * function, so that every thread runs its first part under the shortage. */
static void end_shortage(void)
{
  has_met = 1;
  if (whole->kind != THREADS) {
    asked_without_memory = failing_memory_disarm();
    return;
  }
  if (pthread_barrier_wait(&meeting) == PTHREAD_BARRIER_SERIAL_THREAD) failing_memory_disarm();
  pthread_barrier_wait(&meeting);
}

static int session(void)
{
  gpuzip_t *handle = NULL;
  gpuzip_schedule_t *schedule = NULL;
  char profile[8192];
  uint64_t bytes = 0;
  int wrong = 1;
  if (mode->kind == ATTACH) {
    if (FAILS(gpuzip_schedule_create(&config, mode->steps, &schedule))) return 1;
    if (FAILS(gpuzip_attach(schedule, &config, fields, (uint32_t)mode->nfields, &handle))) goto release;
  } else if (FAILS(gpuzip_init(&config, mode->steps, fields, (uint32_t)mode->nfields, &handle))) return 1;
  if (mode->kind == AUTOTUNE && FAILS(gpuzip_autotune(handle))) goto finalize;
  wrong = mode->kind == RUN ? run(handle) : shot(handle, schedule, 1);
  if (!wrong && mode->kind == AUTOTUNE) {
    wrong = FAILS(gpuzip_profile_export(handle, profile, sizeof profile, &bytes)) || FAILS(gpuzip_profile_import(handle, profile, bytes));
    wrong = wrong || FAILS(gpuzip_setup(handle)) || shot(handle, NULL, 0);
  }
  if (wrong) {
    /* After the shortage, gpuzip_setup works, or fails with an error text. Where it works, so does another
     * shot. */
    const int how = shared->how;
    if (how != FAIL_NEVER) {
      end_shortage();
      if (!FAILS(gpuzip_setup(handle))) {
        if (schedule != NULL) FAILS(gpuzip_schedule_rewind(schedule));
        if (mode->kind == RUN ? run(handle) : shot(handle, schedule, 0)) die("the shot after the shortage fails: %s", gpuzip_last_error());
      }
    }
  }
finalize:
  if (gpuzip_finalize(handle) != GPUZIP_OK) die("finalize failed");
release:
  if (schedule != NULL && gpuzip_schedule_release(schedule) != GPUZIP_OK) die("release failed");
  return wrong;
}

static int schedule_alone(void)
{
  gpuzip_schedule_t *schedule;
  gpuzip_summary_t summary;
  gpuzip_action_t a;
  int wrong = 0, live = 0, reversed = mode->steps;
  if (FAILS(gpuzip_schedule_create(&config, mode->steps, &schedule))) return 1;
  summary.struct_size = sizeof summary;
  wrong = FAILS(gpuzip_schedule_summary(schedule, &summary));
  for (a.type = GPUZIP_ACTION_FORWARD; !wrong && a.type != GPUZIP_ACTION_TERMINATE;) {
    wrong = FAILS(gpuzip_schedule_get_action(schedule, &a));
    if (wrong) break;
    if (a.type == GPUZIP_ACTION_FORWARD && a.ts != live + 1) die("FORWARD %d from state %d", a.ts, live);
    if (a.type == GPUZIP_ACTION_BACKWARD && a.ts != --reversed) die("BACKWARD %d, not %d", a.ts, reversed);
    if (a.type != GPUZIP_ACTION_TERMINATE) live = a.ts_end;
  }
  if (!wrong && reversed != 0) die("%d states are not reversed", reversed);
  if (gpuzip_schedule_release(schedule) != GPUZIP_OK) die("release failed");
  return wrong;
}

static int codec_alone(void)
{
  uint64_t bytes = 0, most = 0;
  gpuzip_codec_info_t info;
  info.struct_size = sizeof info;
  set_state(fields, 3);
  if (FAILS(gpuzip_codec_bound(&config, fields, (uint32_t)mode->nfields, &most))) return 1;
  if (most > stream_bytes) die("a stream may have %llu bytes", (unsigned long long)most);
  if (FAILS(gpuzip_codec_compress(&config, fields, (uint32_t)mode->nfields, stream, stream_bytes, &bytes))) return 1;
  if (FAILS(gpuzip_codec_info(stream, bytes, 0, &info))) return 1;
  for (int k = 0; k < mode->nfields; k++) memset(fields[k].data, 0xee, values(k) * value_bytes);
  if (FAILS(gpuzip_codec_decompress(stream, bytes, fields, (uint32_t)mode->nfields))) return 1;
  check_state(fields, 3);
  return 0;
}

static int load(void)
{
  gpuzip_config_t loaded;
  if (FAILS(gpuzip_config_load("oom-config.txt", &loaded))) return 1;
  if (loaded.checkpointing_snaps != 6 || strcmp(loaded.trace_out, "some-file.json") != 0) die("a wrong configuration");
  if (gpuzip_config_free(&loaded) != GPUZIP_OK) die("config_free failed");
  return 0;
}

/* Runs a session with a configuration that it loads from a file, and returns 1 if a call failed. */
static int files(void)
{
  const gpuzip_config_t before = config;
  int wrong = 1;
  if (!FAILS(gpuzip_config_load("oom-files.txt", &config))) {
    wrong = session();
    if (gpuzip_config_free(&config) != GPUZIP_OK) die("config_free failed");
  }
  config = before;
  return wrong;
}

/* Calls gpuzip_init TRIES times under the shortage, twice: first the requests are counted anew for
 * each call, then over all calls together. Sessions that begin stay open until all calls are made.
 * After the shortage a session must begin and work. */
static int repeat(void)
{
  int wrong = 0;
  for (int each = 1; each >= 0; each--) {
    gpuzip_t *open[TRIES];
    int count = 0;
    failing_memory_restart();
    for (int k = 0; k < TRIES; k++) {
      gpuzip_t *handle = NULL;
      const long before = failing_memory_live();
      if (each) failing_memory_restart();
      if (FAILS(gpuzip_init(&config, mode->steps, fields, (uint32_t)mode->nfields, &handle))) {
        wrong = 1;
        if (handle != NULL) die("a handle of a session that has not begun");
        /* While no session is open, no thread of the library frees memory, so the counts
         * compare. */
        if (!is_cold && count == 0 && failing_memory_live() != before) die("try %d: %ld blocks are leaked", k, failing_memory_live() - before);
      } else open[count++] = handle;
    }
    while (count > 0)
      if (gpuzip_finalize(open[--count]) != GPUZIP_OK) die("finalize failed");
  }
  const int how = shared->how;
  end_shortage();
  shared->how = FAIL_NEVER;
  if (session()) die("no session begins with memory again");
  shared->how = how;
  return wrong;
}

/* The members of a THREADS or REPEAT mode, with all that prepare() has made for each. */
static struct member {
  const struct mode *mode;
  gpuzip_config_t config;
  gpuzip_field_t *fields;
  size_t value_bytes;
  char *stream;
  uint64_t stream_bytes;
  int wrong;
} member[MEMBERS];
static int members;

static void become(const struct member *m)
{
  mode = m->mode, config = m->config, fields = m->fields, value_bytes = m->value_bytes, stream = m->stream, stream_bytes = m->stream_bytes;
}

static int once(void);

static void *one_thread(void *argument)
{
  struct member *m = argument;
  become(m);
  m->wrong = once();
  if (!has_met) end_shortage();
  return NULL;
}

static int threads(void)
{
  pthread_t thread[MEMBERS];
  int wrong = 0;
  pthread_barrier_init(&meeting, NULL, (unsigned)members);
  for (int k = 0; k < members; k++)
    if (pthread_create(&thread[k], NULL, one_thread, &member[k]) != 0) die("no thread");
  for (int k = 0; k < members; k++) pthread_join(thread[k], NULL), wrong |= member[k].wrong;
  pthread_barrier_destroy(&meeting);
  return wrong;
}

static int once(void)
{
  switch (mode->kind) {
  case FILES: return files();
  case THREADS: return threads();
  case REPEAT: {
    become(&member[0]);
    const int wrong = repeat();
    mode = whole;
    return wrong;
  }
  case SCHEDULE: return schedule_alone();
  case CODEC: return codec_alone();
  case LOAD: return load();
  default: return session();
  }
}

/* Writes a recorded schedule for 300 steps into the file oom-schedule.txt. */
static void write_trace(void)
{
  static const char *name[] = {"FORWARD", "SAVE", "RESTORE", "BACKWARD", "TERMINATE"};
  gpuzip_config_t c;
  gpuzip_schedule_t *schedule;
  gpuzip_action_t a;
  FILE *file = fopen("oom-schedule.txt", "w");
  gpuzip_config_init(&c);
  c.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE, c.checkpointing_snaps = 20, c.log_level = 3;
  if (file == NULL || gpuzip_schedule_create(&c, 300, &schedule) != GPUZIP_OK) exit(2);
  do {
    if (gpuzip_schedule_get_action(schedule, &a) != GPUZIP_OK) exit(2);
    fprintf(file, "%d %s\n", a.type == GPUZIP_ACTION_TERMINATE ? 0 : a.ts, name[a.type]);
  } while (a.type != GPUZIP_ACTION_TERMINATE);
  fclose(file);
  gpuzip_schedule_release(schedule);
}

static void *memory(size_t bytes)
{
  void *memory = NULL;
  if (on_gpu) {
    /* The host may read and write the device memory of the software CUDA driver. */
    static int (*alloc)(unsigned long long *, size_t), (*copy)(unsigned long long, const void *, size_t);
    unsigned long long address = 0;
    if (alloc == NULL) {
      void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
      if (driver == NULL) die("no driver: %s", dlerror());
      *(void **)&alloc = dlsym(driver, "cuMemAlloc_v2"), *(void **)&copy = dlsym(driver, "cuMemcpyHtoD_v2");
      int (*init)(unsigned), (*retain)(void **, int), (*set)(void *);
      *(void **)&init = dlsym(driver, "cuInit"), *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
      *(void **)&set = dlsym(driver, "cuCtxSetCurrent");
      if (init(0) != 0 || retain(&context, 0) != 0 || set(context) != 0) die("no context");
    }
    /* The driver's check of kernels that read unwritten memory knows of copies, not of the host's
     * writes to device memory. */
    void *zeros = calloc(1, bytes);
    if (zeros == NULL || alloc(&address, bytes) != 0 || copy(address, zeros, bytes) != 0) die("no device memory");
    free(zeros);
    memory = (void *)(uintptr_t)address;
  } else memory = malloc(bytes);
  if (memory == NULL) die("no memory");
  return memory;
}

static const struct mode *named(const char *name, size_t length)
{
  for (int k = 0; k < KINDS; k++)
    if (strlen(MODES[k].name) == length && memcmp(MODES[k].name, name, length) == 0) return &MODES[k];
  die("no kind %s", name);
  return NULL;
}

static void prepare(void)
{
  if (mode->kind == THREADS || mode->kind == REPEAT) {
    members = 0;
    for (const char *name = whole->config; *name != '\0';) {
      const size_t length = strcspn(name, " ");
      mode = named(name, length);
      prepare();
      member[members++] = (struct member){mode, config, fields, value_bytes, stream, stream_bytes, 0};
      name += length + strspn(name + length, " ");
    }
    mode = whole;
    return;
  }
  const uint64_t most_values = (mode->n[0] + (uint64_t)mode->spread) * mode->n[1] * mode->n[2];
  value_bytes = mode->type == GPUZIP_TYPE_F32 ? 4 : 8;
  fields = calloc((size_t)mode->nfields, sizeof *fields);
  stream_bytes = 4096 + (uint64_t)mode->nfields * (most_values * value_bytes + 4096);
  stream = malloc(stream_bytes);
  for (int k = 0; k < mode->nfields; k++) {
    fields[k].n1 = mode->n[0] + (mode->spread > 0 ? (uint64_t)(k / 2 * 7 % mode->spread) : 0);
    fields[k].n2 = mode->n[1], fields[k].n3 = mode->n[2];
    fields[k].type = mode->type;
    /* Field k is the previous time level of field k + 1, whose number counts from 1 in `role`. */
    if (mode->nfields > 1 && k % 2 == 0 && k + 1 < mode->nfields) fields[k].role = k + 2;
    fields[k].data = memory(values(k) * value_bytes);
  }
  const char *path = mode->kind == FILES ? "oom-files.txt" : "oom-config.txt";
  FILE *file = fopen(path, "w");
  if (file == NULL) die("no file");
  fprintf(file, BASE "%s%s", on_gpu || mode->kind >= SCHEDULE ? "" : "backend = host\n", mode->config);
  fclose(file);
  if (strstr(mode->config, "oom-schedule.txt") != NULL) write_trace();
  if (gpuzip_config_load(path, &config) != GPUZIP_OK) die("no configuration");
  if (mode->kind == AUTOTUNE && whole->kind != REPEAT) remove("oom-profile.gz");
}

/* Writes, from a child process, the profile file that the mode repeat-profile begins with. */
static void leave_profile(void)
{
  if (mode->kind != REPEAT || strcmp(mode->config, "autotune") != 0) return;
  const pid_t child = fork();
  if (child == 0) {
    whole = mode = named("autotune", strlen("autotune"));
    prepare();
    _exit(session());
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) die("no profile");
}

static void silence(int32_t level, const char *message, void *user) { (void)level, (void)message, (void)user; }

/* Runs trials number n, n + step, ... in this process until no request fails. `cold`: runs only
 * trial number n, as the process's first use of the library; else two sessions have warmed it
 * up. */
static void trials(int how, long n, long step, int cold)
{
  gpuzip_set_log_callback(silence, NULL);
  prepare();
  is_cold = cold;
  shared->how = FAIL_NEVER;
  if (!cold && (once() || once())) die("fails without a reason");
  const long before = failing_memory_live();
  for (;; n += step) {
    shared->n = n, shared->how = how;
    alarm(HANG);
    failing_memory_arm(how, n, mode->least);
    const int wrong = once();
    failing_memory_disarm();
    shared->how = FAIL_NEVER;
    const long lost = failing_memory_failed(), left = failing_memory_live();
    /* The most bytes that one session takes of the library's reserve of memory. */
    if (mode->kind != THREADS && mode->kind != REPEAT && failing_memory_peak() > shared->peak) shared->peak = failing_memory_peak();
    if (!cold && left != before) die("%ld blocks are leaked", left - before);
    if (lost == 0) {
      if (wrong) die("fails without a reason");
      shared->finished = 1;
      return;
    }
    shared->trials++, shared->failed += lost;
    if (cold || shared->trials % 16 == 0) {
      if (once()) die("does not work with memory again");
      if (!cold && failing_memory_live() != before) die("%ld blocks are leaked by the next session", failing_memory_live() - before);
    }
    if (cold) return;
  }
}

/* Runs the trials of one mode in child processes, with FAIL_ONE and with FAIL_FROM, warm and
 * cold. When a child dies of a signal, an abort is counted and a new child goes on with the next
 * trial. */
static int explore(long most, int *aborts)
{
  int wrong = 0;
  if (most == 0 && (mode->kind == THREADS || mode->kind == REPEAT || mode->spread > 0)) most = 200;
  leave_profile();
  for (int cold = 0; cold < 2; cold++)
    for (int how = FAIL_ONE; how <= FAIL_FROM; how++) {
      long total = most > 0 ? 0 : 1, step = 1;
      shared->finished = 0;
      for (long n = 1; !shared->finished;) {
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
          if (total == 0) {
            /* This child counts the requests, so that `most` trials can be spread over them. */
            gpuzip_set_log_callback(silence, NULL);
            prepare();
            if (!cold && (once() || once())) die("fails without a reason");
            failing_memory_arm(FAIL_NEVER, 0, mode->least);
            once();
            const long asked = failing_memory_disarm();
            shared->n = mode->kind == REPEAT ? asked_without_memory : asked;
            _exit(0);
          }
          trials(how, n, step, cold);
          _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (total == 0 && status == 0) {
          total = shared->n > 0 ? shared->n : 1;
          step = cold ? 1 + total * 2 / most : 1 + total / most;
          continue;
        }
        if (status != 0) {
          const char *what = WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "failed";
          printf("%s: %s at allocation %ld%s%s\n", mode->name, what, shared->n, how == FAIL_ONE ? "" : " and all later ones", cold ? ", cold" : "");
          wrong++, *aborts += WIFSIGNALED(status) != 0;
          if (wrong > 5) return wrong;
          n = shared->n;
        }
        if (cold || status != 0) n = (status != 0 ? shared->n : n) + step;
      }
    }
  return wrong;
}

/* Runs a session of many steps while the address space of the process is limited to `bytes` bytes,
 * and then a session without that limit. */
static int limited(rlim_t bytes)
{
  static const struct mode many = {"limit", PULL, 300000, 1, {1, 1, 1}, GPUZIP_TYPE_F64, 0,
                                   "checkpointing_algorithm = store-all\ncache_capacity = 8\n", 0};
  const struct rlimit limit = {bytes, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
  whole = mode = &many, shared->how = FAIL_ONE;
  prepare();
  if (setrlimit(RLIMIT_AS, &limit) != 0) die("no limit");
  const int wrong = once();
  if (setrlimit(RLIMIT_AS, &none) != 0) die("no limit");
  printf("%lu bytes: %s\n", (unsigned long)bytes, wrong ? gpuzip_last_error() : "the right states");
  if (once()) die("does not work with memory again");
  return 0;
}

int main(int argc, char **argv)
{
  long most = 0, here = 0;
  const char *only = "*", *but = "";
  rlim_t limit = 0;
  int wrong = 0, aborts = 0, how = FAIL_ONE;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--most") == 0 && i + 1 < argc) most = atol(argv[++i]);
    else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) only = argv[++i];
    else if (strcmp(argv[i], "--but") == 0 && i + 1 < argc) but = argv[++i];
    else if (strcmp(argv[i], "--cuda") == 0) on_gpu = 1;
    else if (strcmp(argv[i], "--limit") == 0 && i + 1 < argc) limit = strtoul(argv[++i], NULL, 10);
    else if (strcmp(argv[i], "--at") == 0 && i + 1 < argc) here = atol(argv[++i]);
    else if (strcmp(argv[i], "--later") == 0) how = FAIL_FROM;
    else return fprintf(stderr, "unknown argument %s\n", argv[i]), 2;
  }
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 2;
  if (limit > 0) return limited(limit);
  setenv("GPUZIP_PERFORMANCE_LOG", "oom-performance.csv", 1);
  long trials_before = 0;
  for (int k = 0; k < KINDS; k++) {
    whole = mode = &MODES[k];
    if (fnmatch(only, mode->name, FNM_EXTMATCH) != 0 || fnmatch(but, mode->name, FNM_EXTMATCH) == 0) continue;
    if (on_gpu && (mode->kind == LOAD || mode->kind == CODEC)) continue;
    if (here > 0) return trials(how, here, 1, 1), 0;
    wrong += explore(most, &aborts);
    printf("%-20s %7ld trials\n", mode->name, shared->trials - trials_before);
    trials_before = shared->trials;
  }
  printf("trials %ld, allocations failed %ld, calls that said so %ld, aborts %d, wrong %d, most of the reserve %ld bytes\n", shared->trials, shared->failed,
         shared->errors, aborts, wrong - aborts, shared->peak);
  return wrong > 0;
}
