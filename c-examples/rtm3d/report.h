/* What a run tells: a short text, or JSON. */
#ifndef RTM_REPORT_H
#define RTM_REPORT_H

#include <stdint.h>

#include "checkpoint.h"
#include "job.h"
#include "taylor.h"
#include "tune.h"

/* Paths of the files written, in --out. */
typedef struct outputs_t {
    char image[1024], filtered[1024], image_png[1024], filtered_png[1024], model_png[1024];
    char gradient[1024], gradient_png[1024];  /* with --gradient */
} outputs_t;

typedef struct results_t {
    double modelling, migration;  /* seconds, all shots */
    double store_everything;      /* seconds, all shots; with --verify */
    int identical;                /* both pairs of sums, all bytes; with --verify */
    double psnr, relative_l2;     /* of the image against that of keeping every state; with --verify and a lossy codec; NAN: not known */
    uint64_t image_hash, illumination_hash;
    double misfit;                /* of all shots; with --gradient */
    uint64_t gradient_hash;       /* of its sums over time at all points of the grid */
    const taylor_t *taylor;       /* NULL: no such test */
    int right;                    /* whether the gradient passed it */
    const tuned_t *tuned;         /* NULL: nothing was measured */
    const char *device;           /* name of the GPU; NULL on the CPU */
    double forward_step, backward_step;  /* seconds of one, without checkpointing; on a GPU */
    outputs_t files;
} results_t;

/* Fills in psnr and relative_l2. */
void report_quality(results_t *r, const job_t *job, const image_t *expected, const image_t *image);
void report_text(const job_t *job, const checkpoint_t *c, const results_t *r);
void report_json(const job_t *job, const checkpoint_t *c, const results_t *r);

#endif
