/* A C program outside the repository: reverses 50 steps of u(ts) = 3 ts + 1 with 6 snapshots and a
 * device cache, and checks every state. The other headers are installed, too. */
#include <gpuzip.h>
#include <gpuzip_gradient.h>
#include <gpuzip_revolve.h>
#include <stdio.h>

#define STEPS 50
#define TRY(call) if ((call) < 0) return fprintf(stderr, "%s\n", gpuzip_last_error()), 1

int main(void)
{
  double u = 1;
  int reversed = 0;
  gpuzip_field_t field = {&u, 1, 1, 1, GPUZIP_TYPE_F64, 0, 0, 0, {0}};
  gpuzip_config_t config;
  gpuzip_action_t action;
  gpuzip_t *gpuzip;

  TRY(gpuzip_config_init(&config));
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE;
  config.checkpointing_snaps = 6;
  config.cache_capacity = 2;
  TRY(gpuzip_init(&config, STEPS, &field, 1, &gpuzip));
  do {
    TRY(gpuzip_get_action(gpuzip, &action));
    if (action.type == GPUZIP_ACTION_FORWARD) u += 3;
    if (action.type == GPUZIP_ACTION_SAVE) TRY(gpuzip_save(gpuzip, action.ts, &field, 1, NULL));
    if (action.type == GPUZIP_ACTION_RESTORE) TRY(gpuzip_retrieve(gpuzip, action.ts, &field, 1, NULL));
    if (action.type == GPUZIP_ACTION_BACKWARD && u == 3 * action.ts + 1) reversed++;
  } while (action.type != GPUZIP_ACTION_TERMINATE);
  TRY(gpuzip_finalize(gpuzip));
  if (gpuzip_revolve_maxrange(3, 2) != 10) return 1;
  puts(reversed == STEPS ? "ok" : "wrong state");
  return reversed != STEPS;
}
