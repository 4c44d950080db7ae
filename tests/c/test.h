/* What the C programs of tests share: checks that end the program, configurations, arrays as fields,
 * and an action that is served. The file is valid C99 and C++. */
#ifndef TEST_H
#define TEST_H

#include <gpuzip.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void failed(const char *file, int line, const char *condition)
{
  fprintf(stderr, "%s:%d: %s\n  last error: %s\n", file, line, condition, gpuzip_last_error());
  exit(1);
}

#define CHECK(condition)                                          \
  do {                                                            \
    if (!(condition)) failed(__FILE__, __LINE__, #condition);     \
  } while (0)
/* A call that must succeed. */
#define WORKS(call) CHECK((call) == GPUZIP_OK)
/* A call that must fail with this status and an error text that contains `part`. */
#define FAILS(call, status, part) \
  CHECK((call) == (status) && strstr(gpuzip_last_error(), part) != NULL)

/* Describes an array of n values in contiguous memory. */
static inline gpuzip_field_t field_of(void *data, uint64_t n, int32_t type)
{
  gpuzip_field_t f;
  memset((void *)&f, 0, sizeof f);
  f.data = data, f.n1 = n, f.n2 = f.n3 = 1, f.type = type;
  return f;
}

static inline gpuzip_config_t config_of(int algorithm, int snapshots, int cache)
{
  gpuzip_config_t config;
  WORKS(gpuzip_config_init(&config));
  config.checkpointing_algorithm = algorithm;
  config.checkpointing_snaps = snapshots, config.cache_capacity = cache;
  return config;
}

static inline gpuzip_config_t revolve(int snapshots, int cache)
{
  return config_of(GPUZIP_ALGORITHM_REVOLVE, snapshots, cache);
}

/* Serves a SAVE or RESTORE with contiguous fields, whose values are overwritten before the RESTORE. */
static inline void serve(gpuzip_t *h, const gpuzip_action_t *a, const gpuzip_field_t *f, uint32_t n)
{
  static const size_t bytes[] = {4, 8, 1, 2, 4, 8, 8, 16, 1}; /* of a value, by its type */
  if (a->type == GPUZIP_ACTION_SAVE) WORKS(gpuzip_save(h, a->ts, f, n, NULL));
  if (a->type != GPUZIP_ACTION_RESTORE) return;
  for (uint32_t k = 0; k < n; k++)
    memset(f[k].data, 0xee, f[k].n1 * f[k].n2 * f[k].n3 * bytes[f[k].type]);
  WORKS(gpuzip_retrieve(h, a->ts, f, n, NULL));
}

/* Takes the next action of a session, serves it and returns it. */
static inline gpuzip_action_t next_action(gpuzip_t *h, const gpuzip_field_t *fields, uint32_t nfields)
{
  gpuzip_action_t action;
  WORKS(gpuzip_get_action(h, &action));
  serve(h, &action, fields, nfields);
  return action;
}

#endif
