/* Leaves a process, or the library, in the middle of a shot without gpuzip_finalize:
 *
 *     leave LIBRARY WAY
 *
 * return, exit, _exit: the process ends while snapshots are in transfer. thread: another thread ends
 * it while this one is in a call. atexit: a handler of exit() finalizes the session. dlclose: the
 * library is closed while its threads copy, opened again, and the shot goes on. The process ends with
 * code 7 after the states that it restored were right. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <gpuzip.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { VALUES = 50000, STEPS = 60, CODE = 7 };

/* The functions of the library that the program calls. */
#define FUNCTIONS(X) X(config_init) X(init) X(get_action) X(save) X(retrieve) X(finalize) X(last_error)
static struct {
#define MEMBER(name) __typeof__(&gpuzip_##name) name;
  FUNCTIONS(MEMBER)
} call;

static gpuzip_t *session;
static double u[VALUES];

static void fail(const char *what)
{
  fprintf(stderr, "%s: %s\n", what, call.last_error != NULL ? call.last_error() : dlerror());
  _exit(1);
}

static void *open_library(const char *path)
{
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fail("dlopen");
#define FIND(name)                                          \
  *(void **)&call.name = dlsym(library, "gpuzip_" #name);    \
  if (call.name == NULL) fail("dlsym");
  FUNCTIONS(FIND)
  return library;
}

static void fill(int ts)
{
  for (int i = 0; i < VALUES; i++) u[i] = ts * 1000.0 + i;
}

/* Does actions until a BACKWARD with a number below `until`, or TERMINATE. */
static void go_on(int until)
{
  gpuzip_field_t field = {u, VALUES, 1, 1, GPUZIP_TYPE_F64, 0, 0, 0, {0}};
  gpuzip_action_t action;
  for (;;) {
    if (call.get_action(session, &action) < 0) fail("get_action");
    switch (action.type) {
      case GPUZIP_ACTION_FORWARD: fill(action.ts); break;
      case GPUZIP_ACTION_SAVE:
        if (call.save(session, action.ts, &field, 1, NULL) < 0) fail("save");
        break;
      case GPUZIP_ACTION_RESTORE:
        memset(u, 0xff, sizeof u);
        if (call.retrieve(session, action.ts, &field, 1, NULL) < 0) fail("retrieve");
        break;
      case GPUZIP_ACTION_BACKWARD:
        for (int i = 0; i < VALUES; i++)
          if (u[i] != action.ts * 1000.0 + i) fail("a wrong state");
        if (action.ts < until) return;
        break;
      default: return;
    }
  }
}

static void at_exit(void)
{
  if (call.finalize(session) < 0) fail("finalize");
}

static void *end_process(void *none)
{
  const struct timespec soon = {0, 30000000};
  (void)none;
  nanosleep(&soon, NULL);
  exit(CODE);
}

int main(int argc, char **argv)
{
  const char *const way = argc > 2 ? argv[2] : "";
  void *const library = open_library(argc > 1 ? argv[1] : "");
  gpuzip_config_t config;
  gpuzip_field_t field = {u, VALUES, 1, 1, GPUZIP_TYPE_F64, 0, 0, 0, {0}};
  pthread_t thread;

  if (call.config_init(&config) < 0) fail("config_init");
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE;
  config.checkpointing_snaps = 8;
  config.cache_capacity = 3;
  config.link_bandwidth = 1e8;  /* 4 ms for each transfer */
  if (call.init(&config, STEPS, &field, 1, &session) < 0) fail("init");
  fill(0);
  if (strcmp(way, "thread") == 0) {
    if (pthread_create(&thread, NULL, end_process, NULL) != 0) fail("pthread_create");
    go_on(-1);
    pthread_join(thread, NULL);
  }
  go_on(STEPS - 10);
  if (strcmp(way, "dlclose") == 0) {
    const struct timespec later = {0, 100000000};
    dlclose(library);
    nanosleep(&later, NULL);
    memset(&call, 0, sizeof call);
    open_library(argv[1]);
    go_on(STEPS - 20);
    if (call.finalize(session) < 0) fail("finalize");
  }
  if (strcmp(way, "atexit") == 0 && atexit(at_exit) != 0) fail("atexit");
  if (strcmp(way, "_exit") == 0) _exit(CODE);
  if (strcmp(way, "exit") == 0) exit(CODE);
  return CODE;
}
