/* The gradient of elastic waveform inversion with every state kept: before FILE writes it. */
#include "elastic.h"

int main(int argc, char **argv)
{
    begin();
    state_t u = new_state(), adjoint = new_state();
    real *kept = zeros((size_t)STEPS * FIELDS * values());

    for (int ts = 0; ts < STEPS; ts++) {
        for (int k = 0; k < FIELDS; k++)
            memcpy(kept + ((size_t)ts * FIELDS + k) * values(), u.f[k], values() * sizeof(real));
        step(&u, &u, ts);
    }
    for (int ts = STEPS - 1; ts >= 0; ts--) {
        for (int k = 0; k < FIELDS; k++)
            memcpy(u.f[k], kept + ((size_t)ts * FIELDS + k) * values(), values() * sizeof(real));
        adjoint_step(&u, &adjoint, ts);
    }
    return finish(argc > 1 ? argv[1] : "gradient");
}
