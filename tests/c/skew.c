/* Runs a sweep in a program compiled with a header that is older (OLDER) or newer (NEWER: the
 * number of added words) than the library; tests/abi/skew.rs makes the headers. The file is valid C99
 * and C++. The program prints some statistics, and exits with 1 if the library writes beyond the
 * structs that this header declares, or leaves words of them unwritten. */
#include "test.h"

enum { STEPS = 40, GUARD = 256, UNSET = 0xA5 };

/* A struct that the library writes, followed by memory that the library must not write. */
#define GUARDED(type) \
  struct { \
    type value; \
    unsigned char guard[GUARD]; \
  }
#define PREPARE(output) (memset((void *)&output, UNSET, sizeof output), output.value.struct_size = sizeof output.value)
#define CHECK_GUARD(output) \
  for (int i = 0; i < GUARD; i++) CHECK(output.guard[i] == UNSET)

static gpuzip_config_t configuration(void)
{
#ifdef __cplusplus
  gpuzip_config_t config; /* in C++ the members have initialisers: zero, and struct_size */
#else
  gpuzip_config_t config;
  memset(&config, 0, sizeof config);
#ifndef OLDER
  config.struct_size = sizeof config;
#endif
#endif
#ifdef OLDER
  config.struct_size = 0; /* only the members of block 1, those of GPUZIP 2.x, are read */
#endif
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE;
  config.checkpointing_snaps = 5;
  config.cache_capacity = 2;
  config.log_level = 3;
  return config;
}

/* Reverses STEPS steps of u(ts) = ts * ts. */
static void sweep(gpuzip_t *h)
{
  double u = 0;
  const gpuzip_field_t field = field_of(&u, 1, GPUZIP_TYPE_F64);
  gpuzip_action_t action;
  do {
    action = next_action(h, &field, 1);
    if (action.type == GPUZIP_ACTION_FORWARD) u = (double)action.ts * action.ts;
    if (action.type == GPUZIP_ACTION_BACKWARD) CHECK(u == (double)action.ts * action.ts);
  } while (action.type != GPUZIP_ACTION_TERMINATE);
}

static void outputs(gpuzip_t *h)
{
  GUARDED(gpuzip_stats_t) stats;
  GUARDED(gpuzip_summary_t) summary;
  PREPARE(stats);
  PREPARE(summary);
  CHECK(gpuzip_stats(h, &stats.value) == GPUZIP_OK);
  CHECK(gpuzip_summary(h, &summary.value) == GPUZIP_OK);
  CHECK_GUARD(stats);
  CHECK_GUARD(summary);
  CHECK(stats.value.struct_size == sizeof stats.value && summary.value.struct_size == sizeof summary.value);
#ifdef NEWER
  for (int i = 0; i < NEWER; i++) CHECK(stats.value.later[i] == 0 && summary.value.later[i] == 0);
#endif
  printf("%d steps, %d forward, %d saves, %d restores\n", (int)summary.value.steps, (int)stats.value.forward_steps, (int)stats.value.saves,
         (int)summary.value.restores);
}

#ifdef NEWER
/* Checks that the library refuses a non-zero member that only a newer header has, and that the
 * error text has the program's and the library's struct_size. */
static void refused(gpuzip_field_t *field)
{
  gpuzip_config_t config = configuration();
  gpuzip_t *h = NULL;
  char both[64];
  config.later[NEWER - 1] = 1;
  CHECK(gpuzip_init(&config, STEPS, field, 1, &h) == GPUZIP_ERR_UNSUPPORTED && h == NULL);
  snprintf(both, sizeof both, "struct_size = %d", (int)sizeof config);
  CHECK(strstr(gpuzip_last_error(), both) != NULL);
  snprintf(both, sizeof both, "has %d", (int)(sizeof config - sizeof config.later));
  CHECK(strstr(gpuzip_last_error(), both) != NULL);
}
#endif

int main(void)
{
  double u = 0;
  gpuzip_field_t field = field_of(&u, 1, GPUZIP_TYPE_F64);
  gpuzip_config_t config = configuration();
  gpuzip_t *h;
  CHECK(gpuzip_init(&config, STEPS, &field, 1, &h) == GPUZIP_OK);
  sweep(h);
  outputs(h);
  CHECK(gpuzip_finalize(h) == GPUZIP_OK);
#ifdef NEWER
  refused(&field);
#endif
  return 0;
}
