/* A run that can be killed or stopped at any moment and goes on from there: --restart DIR. */
#ifndef RTM_RESTART_H
#define RTM_RESTART_H

#include <gpuzip.h>

#include "description.h"

/* Most arrays of a run. */
enum { RESTART_ARRAYS = 20 };

/* What a step of a run came to. */
enum { RESTART_GO_ON = 0, RESTART_FAILED = -1, RESTART_STOPPED = 3 };

typedef struct restart_t {
    const char *folder;
    gpuzip_t *session;
    shot_t *shot;
    image_t *one;             /* the image of the shot under way */
    image_t *image;           /* the sum of the shots before; NULL on a rank that has none */
    image_t *expected;        /* the same for --verify, or NULL */
    double *misfit;           /* the misfit of the shots before, or NULL */
    description_t job;        /* see restart_job */
    size_t number;            /* the shot under way */
    int within;               /* whether the run goes on within that shot */
    gpuzip_array_t array[RESTART_ARRAYS];
    uint32_t arrays;
} restart_t;

/* Describes the job, so that a run does not go on with the files of another one. `truth`: the medium in
 * which data are observed. */
void restart_job(restart_t *r, const job_t *job, const medium_t *truth);
/* Names the folder to the library, before the session is made: sets its variable GPUZIP_PERSIST_DIR.
 * Refuses the folder of a survey, whose shots are files of their own. Returns 0 or -1. */
int restart_name(const char *folder);
/* Opens the folder, catches SIGTERM and SIGUSR1, and goes on from the newest generation, if there is
 * one: the arrays get their values, and r->number and r->within say where to go on. The caller has set
 * the members up to `job`. `options`: the ranks, or NULL for one. Returns 0 or -1. */
int restart_open(restart_t *r, const gpuzip_persist_options_t *options);
/* Called before a shot begins: writes a generation if one is due. Returns RESTART_*. */
int restart_between(restart_t *r, size_t shot);
/* Called after the work of an action of the shot: writes a generation if one is due. Returns
 * RESTART_*. */
int restart_within(restart_t *r);

#endif
