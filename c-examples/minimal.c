/* Reverses 1000 steps of u' = u (1 - u) with 10 snapshots instead of 1000 states. */
#include <gpuzip.h>
#include <stdio.h>
#define TRY(call) if ((call) < 0) return fprintf(stderr, "%s\n", gpuzip_last_error()), 1

int main(void)
{
  double u = 0.1, lambda = 1.0; /* the state, and its adjoint */
  gpuzip_field_t state = {.data=&u, .n1=1, .n2=1, .n3=1, .type=GPUZIP_TYPE_F64};
  gpuzip_config_t config;
  gpuzip_action_t action;
  gpuzip_t *gpuzip;

  TRY(gpuzip_config_init(&config));
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE;
  config.checkpointing_snaps = 10;
  TRY(gpuzip_init(&config, 1000, &state, 1, &gpuzip));
  do {
    TRY(gpuzip_get_action(gpuzip, &action));
    switch (action.type) {
      case GPUZIP_ACTION_FORWARD: u += 1e-3 * u * (1.0 - u); break;
      case GPUZIP_ACTION_SAVE: TRY(gpuzip_save(gpuzip, action.ts, &state, 1, NULL)); break;
      case GPUZIP_ACTION_RESTORE: TRY(gpuzip_retrieve(gpuzip, action.ts, &state, 1, NULL)); break;
      case GPUZIP_ACTION_BACKWARD: lambda *= 1.0 + 1e-3 * (1.0 - 2.0 * u); break;
    }
  } while (action.type != GPUZIP_ACTION_TERMINATE);
  TRY(gpuzip_finalize(gpuzip));
  printf("du(1000)/du(0) = %.12f\n", lambda);
  return 0;
}
