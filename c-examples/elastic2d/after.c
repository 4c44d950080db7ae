/* The gradient of elastic waveform inversion with snapshots in gpuzip: after FILE writes it. */
#include <gpuzip.h>
#include "elastic.h"
#define TRY(call) if ((call) < 0) return fprintf(stderr, "%s\n", gpuzip_last_error()), 1

int main(int argc, char **argv)
{
    begin();
    state_t u = new_state(), adjoint = new_state();
    gpuzip_field_t fields[FIELDS];
    gpuzip_config_t config;
    gpuzip_action_t action;
    gpuzip_t *session;

    for (int k = 0; k < FIELDS; k++)
        fields[k] = (gpuzip_field_t){u.f[k], NZ, (uint64_t)nx + 2, 1, GPUZIP_TYPE_F32, 0, 0, 0, {0}};
    TRY(gpuzip_config_load(NULL, &config)); /* the environment sets budgets and codec */
    config.range_actions = config.adjoint_every = 0; /* an action is one step */
    TRY(gpuzip_init(&config, STEPS, fields, FIELDS, &session));
    do {
        TRY(gpuzip_get_action(session, &action));
        switch (action.type) {
        case GPUZIP_ACTION_FORWARD: step(&u, &u, action.ts - 1); break;
        case GPUZIP_ACTION_SAVE: TRY(gpuzip_save(session, action.ts, fields, FIELDS, NULL)); break;
        case GPUZIP_ACTION_RESTORE:
            TRY(gpuzip_retrieve(session, action.ts, fields, FIELDS, NULL));
            clear_walls(&u); /* a lossy codec may have left small values there */
            break;
        case GPUZIP_ACTION_BACKWARD: adjoint_step(&u, &adjoint, action.ts); break;
        }
    } while (action.type != GPUZIP_ACTION_TERMINATE);
    TRY(gpuzip_finalize(session));
    return finish(argc > 1 ? argv[1] : "gradient");
}
