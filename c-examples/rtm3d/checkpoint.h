/* Migration of a shot with gpuzip: what a time loop has to do to be checkpointed. */
#ifndef RTM_CHECKPOINT_H
#define RTM_CHECKPOINT_H

#include <gpuzip.h>

#include "setting.h"
#include "shot.h"

typedef struct checkpoint_t {
    gpuzip_t *session;
    int32_t policy;            /* of the cache: 0 clairvoyant, 1 lru */
    int32_t shared_levels;     /* whether raw snapshots of consecutive states keep their common field once */
    int32_t zfp_bit_rate, error_bound_mode;
    double error_bound;        /* of the codec, plan.compressor */
    gpuzip_summary_t plan;     /* what the library decided, once, for all shots */
    gpuzip_stats_t total;      /* counts and seconds summed over shots, peaks their largest */
} checkpoint_t;

/* Plans `steps` steps of a wavefield on `g`. `config`: a configuration file, or NULL for defaults
 * and GPUZIP_* environment variables alone. `u`: a wavefield whose memory decides on the device, or
 * NULL where it is not there yet: the first save decides. 0, or -1 with the reason on stderr. */
int checkpoint_open(checkpoint_t *c, const char *config, const grid_t *g, size_t steps,
                    const wavefield_t *u);
/* The same with a codec of its own, silently. A negative status is a failure, and gpuzip_last_error() the reason. */
gpuzip_status_t checkpoint_start(checkpoint_t *c, const char *config, const setting_t *setting,
                                 const grid_t *g, size_t steps, const wavefield_t *u);
/* The same with a configuration that the program made, whose device and budgets it may have set; `cfg` stays the caller's. */
gpuzip_status_t checkpoint_configure(checkpoint_t *c, const gpuzip_config_t *cfg, const setting_t *setting,
                                     const grid_t *g, size_t steps, const wavefield_t *u);
/* Migrates one shot, whose data were observed, into `image`; 0 or -1 as above. */
int checkpoint_migrate(checkpoint_t *c, shot_t *shot, image_t *image);
void checkpoint_close(checkpoint_t *c);
/* Whether snapshots lose something, so that no result is that of keeping every state bit for bit. */
int checkpoint_is_lossy(const checkpoint_t *c);
/* The codec and what it keeps, in words. */
void checkpoint_codec(const checkpoint_t *c, char *text, size_t size);

/* For time loops of their own, as in rtm3d_cuda. The state `u` in the library's words; `u` may be NULL. */
void checkpoint_fields(const grid_t *g, const wavefield_t *u, gpuzip_field_t fields[2]);
/* Keeps what checkpoint_codec and reports tell of a configuration. */
void checkpoint_remember(checkpoint_t *c, const gpuzip_config_t *cfg);
/* Whether a call failed; tells the reason, or a warning, on stderr. */
int checkpoint_failed(gpuzip_status_t status);

#endif
