/* Migration of a shot with gpuzip: all that checkpointing adds to a time loop. */
#ifndef RTM_CHECKPOINT_H
#define RTM_CHECKPOINT_H

#include <gpuzip.h>

#include "restart.h"
#include "setting.h"
#include "shot.h"

typedef struct checkpoint_t {
    gpuzip_t *session;
    /* Whether only the strips of states are kept (grid_strip), and the reverse sweep computes the states backward. */
    int reconstruct;
    int32_t zero_copy;         /* whether states lie in memory of the session (handed.h) */
    int32_t policy;            /* policy of the device cache: 0 clairvoyant, 1 lru */
    /* Whether consecutive raw snapshots share a time level, stored once. */
    int32_t shared_levels;
    int32_t zfp_bit_rate, error_bound_mode;
    double error_bound;        /* error bound of the codec, plan.compressor */
    restart_t *restart;        /* asked after every action, or NULL */
    /* Asked after every action whether to leave the shot, for which checkpoint_migrate then returns
     * RESTART_STOPPED; or NULL. */
    int (*is_stopped)(void);
    gpuzip_summary_t plan;     /* the library's decisions, equal for all shots */
    double more_steps;         /* time steps of a shot that neither job nor plan counts, for progress */
    gpuzip_stats_t total;      /* counts and seconds summed over shots; largest peaks */
} checkpoint_t;

/* Makes a session for `steps` steps of a wavefield on `g`, of which every `every`-th state enters
 * the image; the key adjoint_every of the configuration does not count. `config`: the path of a
 * configuration file, or NULL for defaults and GPUZIP_* environment variables only. `zero_copy`:
 * whether the session works with zero copy if the configuration does not ask for it. `u`: a
 * wavefield whose memory decides on the device; with NULL the first save decides. Returns 0, or
 * -1 with the reason on stderr. */
int checkpoint_open(checkpoint_t *c, const char *config, int zero_copy, const grid_t *g, size_t steps, size_t every,
                    const wavefield_t *u);
/* As checkpoint_open, with the codec of `setting`, and without messages of failures. A negative status is a
 * failure, whose reason gpuzip_last_error() returns. `reconstruct`: a member of checkpoint_t. It keeps every state, so
 * that the keys checkpointing_algorithm and zero_copy do not count. */
gpuzip_status_t checkpoint_start(checkpoint_t *c, const char *config, int zero_copy, int reconstruct, const setting_t *setting,
                                 const grid_t *g, size_t steps, size_t every, const wavefield_t *u);
/* As checkpoint_start, with a configuration in place of a file; the program may have set its
 * device and budgets. The caller keeps `cfg`. */
gpuzip_status_t checkpoint_configure(checkpoint_t *c, const gpuzip_config_t *cfg, int reconstruct,
                                     const setting_t *setting, const grid_t *g, size_t steps, size_t every, const wavefield_t *u);
/* Migrates one shot, whose data were observed, into `image`. With c->restart->within the shot goes on
 * where the generation was written. Returns 0, -1 with the reason on stderr, or RESTART_STOPPED. */
int checkpoint_migrate(checkpoint_t *c, shot_t *shot, image_t *image);
void checkpoint_close(checkpoint_t *c);
/* Returns whether snapshots are lossy: the image then differs from that of a run that keeps every
 * state, as it does with `reconstruct`. */
int checkpoint_is_lossy(const checkpoint_t *c);
/* Adds to a description what decides the bits of an image beside the job: the codec and, with lossy
 * snapshots, the plan. Returns 0, or -1 with the reason on stderr. */
int checkpoint_describe(const checkpoint_t *c, description_t *d);
/* Bytes and fields of what is saved of a state. */
size_t checkpoint_state(const checkpoint_t *c, const grid_t *g, unsigned *fields);
/* Describes the codec and its bound in words. */
void checkpoint_codec(const checkpoint_t *c, char *text, size_t size);

/* For other time loops, as in rtm3d_cuda: describes the state `u` as fields of gpuzip. `u` may
 * be NULL: shapes only. */
void checkpoint_fields(const grid_t *g, const wavefield_t *u, gpuzip_field_t fields[2]);
/* Keeps the settings of a configuration that checkpoint_codec and reports need. */
void checkpoint_remember(checkpoint_t *c, const gpuzip_config_t *cfg);
/* Returns whether a call failed; prints the reason of a failure, or a warning, on stderr. */
int checkpoint_failed(gpuzip_status_t status);

#endif
