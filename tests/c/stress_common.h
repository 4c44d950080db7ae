/* Declarations of the stress programs: seeded random numbers, and a check that prints the number of
 * the failed job. */
#ifndef STRESS_COMMON_H
#define STRESS_COMMON_H

#include <gpuzip.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The number of the calling thread's random job, printed with every failure: a run of this job
 * alone repeats the failure. */
extern _Thread_local uint64_t current_job;

/* Ends the process, or the input of a fuzzer, after a failed check. */
void stress_failed(void);

#define CHECK(condition, ...)                                                                      \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: job %llu: %s\n  ", __FILE__, __LINE__,                               \
              (unsigned long long)current_job, #condition);                                        \
      fprintf(stderr, __VA_ARGS__);                                                                \
      fprintf(stderr, "\n  last error: %s\n", gpuzip_last_error());                                \
      stress_failed();                                                                             \
    }                                                                                              \
  } while (0)

/* The output function of SplitMix64 (Steele, Lea and Flood 2014). */
static inline uint64_t mix(uint64_t x)
{
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* Random numbers: those of the input of a fuzzer, two bytes each, and then those of a generator. */
typedef struct {
  uint64_t state;
  const unsigned char *bytes, *end;
} random_t;

static inline uint64_t next(random_t *r)
{
  const uint64_t random = mix(r->state += 0x9e3779b97f4a7c15u);
  if (r->end - r->bytes < 2) return random;
  r->bytes += 2;
  r->state += (uint64_t)r->bytes[-2] << 8 | r->bytes[-1];
  return (uint64_t)r->bytes[-2] << 8 | r->bytes[-1];
}

/* Returns a random number from `low` to `high`, both included. */
static inline int64_t between(random_t *r, int64_t low, int64_t high)
{
  return low + (int64_t)(next(r) % (uint64_t)(high - low + 1));
}

/* Returns 1 with probability 1 / `times`, else 0. */
static inline int once_in(random_t *r, int times)
{
  return next(r) % (uint64_t)times == 0;
}

#endif
