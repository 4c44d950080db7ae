/* The gradient of a shot with gpuzip: all that checkpointing adds to a time loop whose state
 * has many fields. */
#ifndef CPML_SESSION_H
#define CPML_SESSION_H

#include <gpuzip.h>

#include "asked.h"
#include "checkpoint.h"
#include "kept.h"

/* curr and prev, and psi and zeta of each axis. */
#define MAX_FIELDS (2 + 2 * AXES)

/* Describes the state `x` as fields of gpuzip and returns their number. `x` may be NULL: shapes
 * only. */
uint32_t session_fields(const cpml_t *m, const state_t *x, gpuzip_field_t fields[MAX_FIELDS]);
/* Makes a session for the shots of `inv` and all its reverse sweeps, configured by the file `config`
 * (NULL: none) and the environment, and another one, `single`, for runs of one sweep (NULL: none).
 * With the key quality, shots in the medium `truth` give data to choose the error bound by the
 * gradient. Clears the sums of `inv`. Returns 0, or -1 with the reason on stderr. */
int session_open(checkpoint_t *c, checkpoint_t *single, asked_t *asked, const char *config, inversion_t *inv, const cpml_t *truth);
/* Adds what each sweep of `inv` computes, such as the gradient, of the observed shot. `k` compares snapshots, or is NULL. Returns 0, or -1
 * with the reason on stderr. */
int session_gradient(checkpoint_t *c, inversion_t *inv, kept_t *k);

#endif
