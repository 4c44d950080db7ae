/* What the stress programs share: random numbers that follow from a seed, and a check that says what failed in which job. */
#ifndef STRESS_COMMON_H
#define STRESS_COMMON_H

#include <gpuzip.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The random job that the calling thread is in. Programs print it with every failure: it repeats the job by itself. */
extern _Thread_local uint64_t current_job;

#define CHECK(condition, ...)                                                                                        \
  do {                                                                                                               \
    if (!(condition)) {                                                                                              \
      fprintf(stderr, "%s:%d: job %llu: %s\n  ", __FILE__, __LINE__, (unsigned long long)current_job, #condition);    \
      fprintf(stderr, __VA_ARGS__);                                                                                  \
      fprintf(stderr, "\n  last error: %s\n", gpuzip_last_error());                                                  \
      exit(1);                                                                                                       \
    }                                                                                                                \
  } while (0)

/* SplitMix64 (Steele, Lea and Flood 2014). */
static inline uint64_t mix(uint64_t x)
{
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

typedef struct {
  uint64_t state;
} random_t;

static inline uint64_t next(random_t *r)
{
  return mix(r->state += 0x9e3779b97f4a7c15u);
}

/* A number from `low` to `high`, both included. */
static inline int64_t between(random_t *r, int64_t low, int64_t high)
{
  return low + (int64_t)(next(r) % (uint64_t)(high - low + 1));
}

/* True once in `times` calls. */
static inline int once_in(random_t *r, int times)
{
  return next(r) % (uint64_t)times == 0;
}

#endif
