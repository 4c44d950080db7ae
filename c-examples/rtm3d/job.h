/* The job: the options, completed and checked against models and physics. */
#ifndef RTM_JOB_H
#define RTM_JOB_H

#include "options.h"
#include "propagator.h"
#include "setting.h"

typedef struct job_t {
    const char *name;    /* name of the model */
    const char *config;  /* path of gpuzip's configuration file, or NULL */
    const char *out;     /* folder for the files of the run */
    const char *restart; /* folder for restart files, or NULL */
    grid_t grid;
    float *model;        /* the true model, in which data are observed */
    float *smooth;       /* the smooth model, in which waves are migrated */
    double dt, freq;
    double vmin;         /* slowest velocity */
    size_t steps, shots;
    size_t every;        /* k: u(0), u(k), u(2k), ... enter the image */
    size_t *dump;        /* time steps whose states are dumped, ascending */
    size_t dumps;        /* their number; 0: migrate */
    setting_t *setting;  /* codec settings to compare */
    size_t settings;     /* their number; 0: migrate once */
    const char *claim;   /* folder from which shots are taken, or NULL */
    double lease;        /* seconds; see claim.h */
    size_t only;         /* number, from 1, of the shot that this worker computes; 0: any */
    int verify, json, gradient, taylor, tune, zero_copy, reconstruct, sum, no_wait;
} job_t;

/* Returns 0, or -1 with the reason and a remedy on stderr; after -1 nothing is left to be
 * freed. */
int job_prepare(job_t *job, const options_t *o);
void job_free(job_t *job);

#endif
