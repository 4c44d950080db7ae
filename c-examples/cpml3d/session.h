/* The gradient of a shot with gpuzip: what a time loop whose state has many fields has to do to be checkpointed. */
#ifndef CPML_SESSION_H
#define CPML_SESSION_H

#include <gpuzip.h>

#include "checkpoint.h"
#include "kept.h"

/* curr and prev, and psi and zeta of each axis. */
#define MAX_FIELDS (2 + 2 * AXES)

/* The state `x` in the library's words; how many fields it has. `x` may be NULL. */
uint32_t session_fields(const cpml_t *m, const state_t *x, gpuzip_field_t fields[MAX_FIELDS]);
/* Plans `steps` steps under a configuration file (NULL: none) and the environment. 0, or -1 with the reason on stderr. */
int session_open(checkpoint_t *c, const char *config, const cpml_t *m, size_t steps);
/* Adds the gradient of the shot that was observed. `k` compares snapshots, or is NULL. 0, or -1 with the reason on stderr. */
int session_gradient(checkpoint_t *c, inversion_t *inv, kept_t *k);

#endif
