/* The smallest program: reverse 1000 steps of u' = f(u) with 10 snapshots instead of 1000 states. */
#include <gpuzip.h>
#include <stdio.h>

static void forward(double *u) { *u += 1e-3 * *u * (1.0 - *u); }
static void adjoint(double u, double *lambda) { *lambda *= 1.0 + 1e-3 * (1.0 - 2.0 * u); }
static int fail(void) { return fprintf(stderr, "%s\n", gpuzip_last_error()), 1; }

int main(void)
{
  double u = 0.1, lambda = 1.0;
  gpuzip_field_t field = {&u, 1, 1, 1, GPUZIP_TYPE_F64, 0, {0}};
  gpuzip_config_t config;
  gpuzip_action_t action;
  gpuzip_t *gpuzip;

  gpuzip_config_init(&config);
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE;
  config.checkpointing_snaps = 10;
  config.cache_capacity = 4;
  if (gpuzip_init(&config, 1000, &field, 1, &gpuzip) < 0) return fail();
  do {
    if (gpuzip_get_action(gpuzip, &action) < 0) return fail();
    switch (action.type) {
      case GPUZIP_ACTION_FORWARD: forward(&u); break;
      case GPUZIP_ACTION_SAVE: if (gpuzip_save(gpuzip, action.ts, &field, 1, NULL) < 0) return fail(); break;
      case GPUZIP_ACTION_RESTORE: if (gpuzip_retrieve(gpuzip, action.ts, &field, 1, NULL) < 0) return fail(); break;
      case GPUZIP_ACTION_BACKWARD: adjoint(u, &lambda); break;
    }
  } while (action.type != GPUZIP_ACTION_TERMINATE);
  printf("du(1)/du(0) = %.12f\n", lambda);
  return gpuzip_finalize(gpuzip) < 0 ? fail() : 0;
}
