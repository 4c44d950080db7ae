/* The key `quality`: chooses error_bound from the error of a shot's image or gradient. */
#ifndef RTM_ASKED_H
#define RTM_ASKED_H

#include <gpuzip.h>
#include <stddef.h>

#include "propagator.h"

typedef struct asked_t {
    char text[64];               /* the value of the key; empty: not set */
    gpuzip_quality_info_t info;  /* what was measured and chosen */
    int32_t error_bound_mode;    /* the unit of info.error_bound */
    /* With --verify: the result of a shot that is to be compared, and the relative error (root of the
     * sum of squares) and the PSNR in dB of each shot that was compared. */
    real *kept;
    size_t values, shots;
    double *relative, *psnr;
} asked_t;

/* Computes shot number `shot` with a session of `cfg` and tells where its result is. Returns 0, or -1
 * with the reason on stderr. */
typedef int (*asked_run_t)(void *run, const gpuzip_config_t *cfg, size_t shot, gpuzip_field_t *result);

/* Chooses cfg->error_bound on the first of `shots` shots, and checks it on the one in the middle. The
 * strings of `cfg` must stay valid. Does nothing if the key is not set. Returns 0, or -1 with the reason
 * on stderr. */
int asked_choose(asked_t *a, gpuzip_config_t *cfg, size_t shots, asked_run_t compute, void *run);
/* Keeps the result of a shot, to be compared with that of a run which keeps every state, and compares.
 * Both do nothing if the key is not set; asked_keep returns 0, or -1 with the reason on stderr. */
int asked_keep(asked_t *a, const real *result, size_t values, size_t shots);
void asked_compare(asked_t *a, const real *exact);
void asked_text(const asked_t *a);
void asked_json(const asked_t *a);
void asked_close(asked_t *a);

#endif
