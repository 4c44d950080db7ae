/* Runs one session for many shots, or one long shot, and demands that its memory, descriptors,
 * threads and files stay as they are after the first shots.
 *
 *     soak CONFIG STEPS SHOTS [reopen|steps|tune|slots|online|left|files|storm]...
 *
 * CONFIG: a configuration file. reopen: a session for every shot. steps: shots of different lengths.
 * tune: every tenth shot is measured. slots: zero copy. online: the number of steps is told when
 * the forward sweep ends. left: every other shot is left in its middle. files: the session writes
 * to files, from buffers whose sizes vary. storm: a signal interrupts the program ten thousand
 * times in a second.
 * The program checks the values of every state that BACKWARD sees. */
#define _GNU_SOURCE
#include <dirent.h>
#include <gpuzip.h>
#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { VALUES = 2048, SAMPLE = 1000 };

#define CHECK(condition, ...)                                                \
  do {                                                                       \
    if (!(condition)) {                                                      \
      fprintf(stderr, "soak.c:%d: %s\n  ", __LINE__, #condition);            \
      fprintf(stderr, __VA_ARGS__);                                          \
      fprintf(stderr, "\n  last error: %s\n", gpuzip_last_error());          \
      exit(1);                                                               \
    }                                                                        \
  } while (0)
#define TRY(call)                                            \
  do {                                                       \
    const gpuzip_status_t status_ = (call);                  \
    CHECK(status_ >= 0, "status %d", (int)status_);          \
  } while (0)

static gpuzip_config_t config;
static int reopen, lengths, tune, slots, online, left, files, storm;
static uint64_t actions;
static volatile sig_atomic_t signals;

static void on_signal(int number)
{
  (void)number;
  signals++;
}

/* Calls that a signal interrupts are not restarted: they fail with EINTR. */
static void begin_storm(void)
{
  const struct sigaction action = {.sa_handler = on_signal};
  const struct itimerval often = {{0, 100}, {0, 100}};
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
}

static void end_storm(void)
{
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
  CHECK(signals > 100, "%d signals", (int)signals);
  printf("%d signals; ", (int)signals);
}

/* u(ts), value i: smooth in i, and another field for every ts. */
static float value(int ts, int i)
{
  const float x = (float)i / VALUES;
  return 1.0f + x * (1.0f - x) * (float)(1 + ts % 17) + 0.25f * x * x * (float)(ts % 5);
}

static void fill(float *u, int ts)
{
  for (int i = 0; i < VALUES; i++)
    u[i] = value(ts, i);
}

static void check(const float *u, int ts)
{
  const float allowed = config.compressor == GPUZIP_COMPRESSOR_NONE ? 0.0f : 0.1f;
  for (int i = 0; i < VALUES; i++)
    CHECK(fabsf(u[i] - value(ts, i)) <= allowed, "u(%d)[%d] is %g, not %g", ts, i, (double)u[i], (double)value(ts, i));
}

/* What may not grow. */
typedef struct {
  long heap;  /* bytes that malloc has given and not got back */
  long rss;   /* bytes of resident memory */
  long descriptors, threads, files;
  long space; /* bytes of files without names that are open */
} usage_t;

static long entries(const char *folder)
{
  DIR *dir = opendir(folder);
  long n = 0;
  CHECK(dir != NULL, "%s", folder);
  while (readdir(dir) != NULL)
    n++;
  closedir(dir);
  return n;
}

/* Threads of the process. pthread_join may return shortly before the kernel takes the joined thread
 * out of /proc/self/task, so a count above every earlier one is taken again for up to a second. */
static long threads(void)
{
  const struct timespec pause = {0, 1000000};
  static long most_so_far;
  long n = entries("/proc/self/task");
  for (int i = 0; i < 1000 && most_so_far > 0 && n > most_so_far; i++) {
    nanosleep(&pause, NULL);
    n = entries("/proc/self/task");
  }
  if (n > most_so_far)
    most_so_far = n;
  return n;
}

/* Whether a thread of the library touches new pages: it ends by itself, and has memory until then. */
static int is_touching(void)
{
  DIR *tasks = opendir("/proc/self/task");
  int found = 0;
  CHECK(tasks != NULL, "/proc/self/task");
  for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
    FILE *file = fopen(path, "r"); /* fails for a thread that has ended */
    if (file != NULL && fgets(name, sizeof name, file) != NULL)
      found |= strncmp(name, "gpuzip-touch", 12) == 0;
    if (file != NULL)
      fclose(file);
  }
  closedir(tasks);
  return found;
}

static long unnamed_bytes(void)
{
  long bytes = 0;
  for (int fd = 0; fd < 256; fd++) {
    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 0)
      bytes += 512 * (long)info.st_blocks;
  }
  return bytes;
}

static usage_t measure(void)
{
  const struct timespec pause = {0, 1000000};
  while (is_touching())
    nanosleep(&pause, NULL);
  const struct mallinfo2 heap = mallinfo2();
  const char *const temporary = getenv("TMPDIR");
  usage_t u = {.heap = (long)(heap.uordblks + heap.hblkhd)};
  long size;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%ld %ld", &size, &u.rss) == 2, "statm");
  fclose(file);
  u.rss *= sysconf(_SC_PAGESIZE);
  u.descriptors = entries("/proc/self/fd");
  u.threads = threads();
  u.space = unnamed_bytes();
  u.files = entries(".") + (temporary != NULL ? entries(temporary) : 0);
  return u;
}

static long larger(long a, long b)
{
  return a > b ? a : b;
}

static usage_t most(usage_t a, usage_t b)
{
  return (usage_t){larger(a.heap, b.heap), larger(a.rss, b.rss), larger(a.descriptors, b.descriptors),
                   larger(a.threads, b.threads), larger(a.files, b.files), larger(a.space, b.space)};
}

/* `slack`: bytes by which the heap may grow. */
static void demand_flat(usage_t early, usage_t late, long slack, const char *what)
{
  printf("%s: %llu actions; heap %ld then %ld bytes, resident %ld then %ld, descriptors %ld then %ld, threads %ld then %ld, files %ld then %ld of %ld then %ld bytes\n",
         what, (unsigned long long)actions, early.heap, late.heap, early.rss, late.rss, early.descriptors, late.descriptors, early.threads,
         late.threads, early.files, late.files, early.space, late.space);
  CHECK(late.heap <= early.heap + slack, "the heap grew");
  CHECK(late.rss <= early.rss + (1 << 20), "resident memory grew");
  CHECK(late.descriptors <= early.descriptors && late.threads <= early.threads && late.files <= early.files, "descriptors, threads or files grew");
  CHECK(late.space <= early.space, "files without names grew");
  CHECK(config.disk_budget == 0 || reopen || early.space > 0, "no snapshot went to disk");
}

/* The first `most` actions of a shot. `sample` is called after every SAMPLE actions, unless it is
 * NULL. */
static void shot(gpuzip_t *h, int steps, uint64_t most, float *u, void (*sample)(void))
{
  const uint64_t before = actions;
  gpuzip_field_t field = {u, VALUES, 1, 1, GPUZIP_TYPE_F32, 0, 0, 0, {0}};
  gpuzip_action_t action;
  void *slot;  /* memory of the session, with zero copy */
  int next = steps - 1;

  fill(u, 0);
  while (actions - before < most) {
    TRY(gpuzip_get_action(h, &action));
    actions++;
    if (sample != NULL && actions % SAMPLE == 0)
      sample();
    switch (action.type) {
    case GPUZIP_ACTION_FORWARD:
      fill(u, action.ts_end);
      if (online && action.ts_end == steps - 1 && !(action.flags & GPUZIP_FLAG_RECOMPUTE))
        TRY(gpuzip_end_forward(h));
      break;
    case GPUZIP_ACTION_SAVE:
      if (slots) {
        TRY(gpuzip_save_begin(h, action.ts, &slot, 1, NULL));
        memcpy(slot, u, VALUES * sizeof *u);
        TRY(gpuzip_save_commit(h, action.ts, NULL));
      } else {
        TRY(gpuzip_save(h, action.ts, &field, 1, NULL));
      }
      break;
    case GPUZIP_ACTION_RESTORE:
      memset(u, 0xff, VALUES * sizeof *u);
      if (slots) {
        TRY(gpuzip_retrieve_acquire(h, action.ts, &slot, 1, NULL));
        memcpy(u, slot, VALUES * sizeof *u);
        TRY(gpuzip_retrieve_release(h, action.ts, NULL));
      } else {
        TRY(gpuzip_retrieve(h, action.ts, &field, 1, NULL));
      }
      break;
    case GPUZIP_ACTION_BACKWARD:
      CHECK(action.ts == next, "BACKWARD %d, not %d", (int)action.ts, next);
      check(u, next--);
      break;
    default:
      CHECK(next == -1, "the shot ended before BACKWARD %d", next);
      return;
    }
  }
}

static gpuzip_t *open_session(int steps, float *u)
{
  gpuzip_field_t field = {u, VALUES, 1, 1, GPUZIP_TYPE_F32, 0, 0, 0, {0}};
  gpuzip_t *h;
  TRY(gpuzip_init(&config, online ? 0 : steps, &field, 1, &h));
  return h;
}

static usage_t early, late;
static uint64_t halfway;

static void sample_long(void)
{
  usage_t *const part = actions < halfway ? &early : &late;
  *part = most(*part, measure());
}

/* The second half of one shot's actions has to do with the memory of the first half. */
static void long_shot(int steps, float *u)
{
  gpuzip_t *h = open_session(steps, u);
  gpuzip_summary_t plan = {.struct_size = sizeof plan};
  TRY(gpuzip_summary(h, &plan));
  /* Shots of an unknown number of steps have no number of actions before their end. */
  halfway = (plan.actions > 0 ? plan.actions : 8 * (uint64_t)steps) / 2;
  shot(h, steps, UINT64_MAX, u, sample_long);
  demand_flat(early, late, 4096, "a long shot");
  TRY(gpuzip_finalize(h));
}

static void many_shots(int steps, int shots, float *u)
{
  gpuzip_t *h = reopen ? NULL : open_session(steps, u);
  for (int i = 0; i < shots; i++) {
    const int length = lengths ? steps - i % 7 : steps;
    if (reopen)
      h = open_session(length, u);
    else if (lengths)
      TRY(gpuzip_setup_steps(h, length));
    else
      TRY(gpuzip_setup(h));
    if (tune && i % 10 == 0)
      TRY(gpuzip_autotune(h));
    shot(h, length, left && i % 2 == 1 ? (uint64_t)i * 37 % 200 : UINT64_MAX, u, NULL);
    TRY(gpuzip_synchronize(h));
    if (reopen)
      TRY(gpuzip_finalize(h));
    if (i >= shots / 10) {
      usage_t *const part = i < shots / 2 ? &early : &late;
      *part = most(*part, measure());
    }
  }
  if (!reopen)
    TRY(gpuzip_finalize(h));
  if (storm)
    end_storm();
  demand_flat(early, late, files ? 8192 : 512, "many shots");
}

int main(int argc, char **argv)
{
  const int steps = argc > 3 ? atoi(argv[2]) : 0, shots = argc > 3 ? atoi(argv[3]) : 0;
  float *u = malloc(VALUES * sizeof *u);

  CHECK(u != NULL && steps > 0 && shots > 0, "usage: soak CONFIG STEPS SHOTS [reopen|steps|tune|slots|online|left|files|storm]...");
  for (int i = 4; i < argc; i++) {
    reopen |= strcmp(argv[i], "reopen") == 0;
    lengths |= strcmp(argv[i], "steps") == 0;
    tune |= strcmp(argv[i], "tune") == 0;
    slots |= strcmp(argv[i], "slots") == 0;
    online |= strcmp(argv[i], "online") == 0;
    left |= strcmp(argv[i], "left") == 0;
    files |= strcmp(argv[i], "files") == 0;
    storm |= strcmp(argv[i], "storm") == 0;
  }
  if (storm)
    begin_storm();
  TRY(gpuzip_config_init(&config));
  TRY(gpuzip_config_load(argv[1], &config));
  if (shots == 1)
    long_shot(steps, u);
  else
    many_shots(steps, shots, u);
  TRY(gpuzip_config_free(&config));
  free(u);
  return 0;
}
