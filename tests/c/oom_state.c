/* The states of the sessions of oom.c, and the errors of its trials. */
#define _GNU_SOURCE
#include "oom_state.h"

#include "failing_memory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

struct shared *shared;
const struct mode *whole;
__thread const struct mode *mode;
__thread gpuzip_field_t *fields;
__thread size_t value_bytes;

void die(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "%s (%s), allocation %ld%s: ", whole->name, mode->name, shared->n, shared->how == FAIL_ONE ? "" : " and all later ones");
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n  last error: %s\n", gpuzip_last_error());
  _exit(1); /* other threads may be in the library */
}

int failed(gpuzip_status_t status, const char *call)
{
  if (status == GPUZIP_OK) return 0;
  if (status == GPUZIP_ERR_PANIC || status == GPUZIP_ERR_POISONED) die("%s: status %d", call, status);
  if (gpuzip_last_error()[0] == '\0') die("%s failed with status %d and says nothing", call, status);
  __atomic_fetch_add(&shared->errors, 1, __ATOMIC_RELAXED);
  return 1;
}

size_t values(int k) { return fields[k].n1 * fields[k].n2 * fields[k].n3; }

double value(int k, int ts, size_t i)
{
  if (mode->nfields == 1 || k % 2 == 0) ts--;
  const size_t x = i % fields[k].n1, y = i / fields[k].n1;
  return 0.9 * sin(0.3 * ts + 0.2 * (double)x + 0.13 * (double)y + k / 2);
}

double at(const void *data, size_t i) { return value_bytes == 4 ? ((const float *)data)[i] : ((const double *)data)[i]; }

void set_state(gpuzip_field_t *to, int ts)
{
  for (int k = 0; k < mode->nfields; k++)
    for (size_t i = 0; i < values(k); i++) {
      if (value_bytes == 4) ((float *)to[k].data)[i] = (float)value(k, ts, i);
      else ((double *)to[k].data)[i] = value(k, ts, i);
    }
}

void check_state(const gpuzip_field_t *of, int ts)
{
  for (int k = 0; k < mode->nfields; k++)
    for (size_t i = 0; i < values(k); i++) {
      const double right = value_bytes == 4 ? (float)value(k, ts, i) : value(k, ts, i);
      if (!(fabs(at(of[k].data, i) - right) <= mode->tolerance))
        die("state %d, field %d, value %zu is %g, not %g", ts, k, i, at(of[k].data, i), right);
    }
}
