/* Prints the results of a run, as a short text or as JSON. */
#ifndef RTM_REPORT_H
#define RTM_REPORT_H

#include <stdint.h>

#include "asked.h"
#include "checkpoint.h"
#include "job.h"
#include "taylor.h"
#include "tune.h"

/* Paths of the files written, in the folder --out. */
typedef struct outputs_t {
    char image[1024], filtered[1024], image_png[1024], filtered_png[1024], model_png[1024];
    char gradient[1024], gradient_png[1024];  /* with --gradient */
} outputs_t;

typedef struct results_t {
    size_t kept;                  /* shots of an earlier run: not in the times and counts below */
    double modelling, migration;  /* seconds, all shots */
    double store_everything;      /* seconds, all shots; with --verify */
    /* Whether all bytes of both pairs of sums are equal; with --verify. */
    int identical;
    /* The image compared with that of a run that keeps every state; with --verify and a lossy
     * codec; NAN: not known. */
    double psnr, relative_l2;
    uint64_t image_hash, illumination_hash;
    double misfit;                /* of all shots; with --gradient */
    uint64_t gradient_hash;       /* hash of the sums over time at all points of the grid */
    const taylor_t *taylor;       /* NULL: no Taylor test */
    int right;                    /* whether the gradient passed the Taylor test */
    const tuned_t *tuned;         /* NULL: nothing was measured */
    const asked_t *asked;         /* NULL: the program does not know the key quality */
    const char *device;           /* name of the GPU; NULL on the CPU */
    double forward_step, backward_step;  /* seconds of one step, without checkpointing; on a GPU */
    outputs_t files;
} results_t;

/* Computes psnr and relative_l2. */
void report_quality(results_t *r, const job_t *job, const image_t *expected, const image_t *image);
void report_text(const job_t *job, const checkpoint_t *c, const results_t *r);
void report_json(const job_t *job, const checkpoint_t *c, const results_t *r);

#endif
