/* The gradient of elastic waveform inversion with states in gpuzip's memory, which are not copied:
 * zero_copy FILE writes it. */
#include <gpuzip.h>
#include "elastic.h"
#define TRY(call) if ((call) < 0) return fprintf(stderr, "%s\n", gpuzip_last_error()), 1

int main(int argc, char **argv)
{
    begin();
    state_t own = new_state(), u = own, adjoint = new_state(), next;
    void *memory[FIELDS];
    gpuzip_field_t fields[FIELDS];
    gpuzip_config_t config;
    gpuzip_action_t action;
    gpuzip_t *session;

    for (int k = 0; k < FIELDS; k++)
        fields[k] = (gpuzip_field_t){u.f[k], NZ, (uint64_t)nx + 2, 1, GPUZIP_TYPE_F32, 0, 0, 0, {0}};
    TRY(gpuzip_config_load(NULL, &config)); /* the environment sets budgets and codec */
    config.range_actions = config.adjoint_every = 0; /* an action is one step */
    config.zero_copy = 1;
    TRY(gpuzip_init(&config, STEPS, fields, FIELDS, &session));
    do {
        TRY(gpuzip_get_action(session, &action));
        switch (action.type) {
        case GPUZIP_ACTION_FORWARD:
            next = own;
            if (action.flags & GPUZIP_FLAG_NEXT_IS_SAVE) {
                TRY(gpuzip_save_begin(session, action.ts, memory, FIELDS, NULL));
                for (int k = 0; k < FIELDS; k++) next.f[k] = memory[k];
            }
            step(&u, &next, action.ts - 1);
            u = next;
            break;
        case GPUZIP_ACTION_SAVE:
            if (action.ts == 0) { /* no FORWARD computes the initial state */
                TRY(gpuzip_save_begin(session, 0, memory, FIELDS, NULL));
                for (int k = 0; k < FIELDS; k++) memcpy(memory[k], u.f[k], values() * sizeof(real));
            }
            TRY(gpuzip_save_commit(session, action.ts, NULL));
            break;
        case GPUZIP_ACTION_RESTORE:
            TRY(gpuzip_retrieve_acquire(session, action.ts, memory, FIELDS, NULL));
            for (int k = 0; k < FIELDS; k++) u.f[k] = memory[k];
            break;
        case GPUZIP_ACTION_BACKWARD: adjoint_step(&u, &adjoint, action.ts); break;
        }
    } while (action.type != GPUZIP_ACTION_TERMINATE);
    TRY(gpuzip_finalize(session));
    return finish(argc > 1 ? argv[1] : "gradient");
}
