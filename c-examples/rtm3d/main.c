/*
 * rtm3d: reverse time migration in 2-D or 3-D; gpuzip keeps the states of the forward sweep for
 * the adjoint sweep. checkpoint.c shows how, and shot.h explains the computation.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asked.h"
#include "bench.h"
#include "checkpoint.h"
#include "clock.h"
#include "gradient.h"
#include "image.h"
#include "job.h"
#include "message.h"
#include "output.h"
#include "progress.h"
#include "reference.h"
#include "report.h"
#include "shot.h"
#include "snapshots.h"
#include "sweep.h"
#include "taylor.h"
#include "tune.h"
#include "worker.h"

enum { DONE = 0, FAILED = 1, BAD_OPTIONS = 2, STOPPED = RESTART_STOPPED };

/* Everything that a run allocates. After zeroing, the run can be freed at any point. */
typedef struct run_t {
    medium_t truth, smooth;
    survey_t survey;
    shot_t shot;
    checkpoint_t checkpoint;
    restart_t restart; /* for --restart */
    reference_t reference;
    int observed;      /* whether the shot has data */
    image_t one;       /* image of one shot */
    image_t image;     /* image of all shots, with checkpointing */
    image_t expected;  /* image of all shots, with every state kept; for --verify */
    taylor_t taylor;   /* for --taylor */
    tuned_t tuned;     /* for --tune */
    double *gradient;  /* for --gradient: the gradient on the cells of the model */
    asked_t asked;     /* for the key quality */
} run_t;

static int open_gradient(run_t *run, const job_t *job)
{
    const grid_t *g = &job->grid;

    run->gradient = malloc(run->image.cells * sizeof *run->gradient);
    if (run->gradient == NULL || image_add_gradient(&run->one, g) != 0 || image_add_gradient(&run->image, g) != 0 ||
        image_add_gradient(&run->expected, g) != 0)
        return complain("--gradient: no memory for %zu points", g->points);
    return job->taylor ? taylor_open(&run->taylor, job) : 0;
}

static int run_open(run_t *run, const job_t *job)
{
    const grid_t *g = &job->grid;

    if (medium_init(&run->truth, g, job->dt, job->model) != 0 ||
        medium_init(&run->smooth, g, job->dt, job->smooth) != 0 ||
        survey_init(&run->survey, g, job->steps, job->shots, job->dt, job->freq) != 0)
        return complain("no memory for %zu points and %zu steps of data", g->points, job->steps);
    run->survey.every = job->every;
    if (shot_init(&run->shot, &run->smooth, &run->survey) != 0 ||
        image_init(&run->one, g) != 0 || image_init(&run->image, g) != 0 ||
        image_init(&run->expected, g) != 0)
        return complain("no memory for %zu points and %zu steps of data", g->points, job->steps);
    if (job->gradient && open_gradient(run, job) != 0)
        return -1;
    return job->verify ? reference_open(&run->reference, g, job->steps) : 0;
}

static void run_close(run_t *run)
{
    checkpoint_close(&run->checkpoint);
    asked_close(&run->asked);
    tune_free(&run->tuned);
    taylor_close(&run->taylor);
    free(run->gradient);
    reference_close(&run->reference);
    image_free(&run->expected);
    image_free(&run->image);
    image_free(&run->one);
    shot_free(&run->shot);
    survey_free(&run->survey);
    medium_free(&run->smooth);
    medium_free(&run->truth);
}

/* Runs `call` and adds its seconds to `sum`. */
#define TIMED(sum, call)                    \
    do {                                    \
        const double start_ = seconds();    \
        call;                               \
        (sum) += seconds() - start_;        \
    } while (0)

/* Measures a profile after the first shot and plans the next shots with it. */
static int tune(run_t *run, results_t *r)
{
    if (tune_take(&run->tuned, &run->checkpoint) != 0 || tune_apply(&run->tuned, &run->checkpoint) != 0)
        return -1;
    r->tuned = &run->tuned;
    return 0;
}

/* Time steps of all shots, for the progress bar. */
static double steps_to_take(const run_t *run, const job_t *job)
{
    return progress_steps_of_shot(job, &run->checkpoint) * (double)job->shots;
}

/* Goes on from restart files, if there are any, and lets the migration write more of them. */
static int open_restart(run_t *run, const job_t *job, results_t *r)
{
    run->restart = (restart_t){.folder = job->restart, .session = run->checkpoint.session, .shot = &run->shot,
                               .one = &run->one, .image = &run->image, .misfit = &r->misfit,
                               .expected = job->verify ? &run->expected : NULL};
    restart_job(&run->restart, job, &run->truth);
    run->checkpoint.restart = &run->restart;
    return restart_open(&run->restart, NULL);
}

/* Says how a stopped run goes on, and returns RESTART_STOPPED. */
static int stopped(const run_t *run)
{
    progress_end();
    fprintf(stderr, RTM_PROGRAM ": stopped on request within shot %zu of %zu: continue with --restart %s\n",
            run->restart.number + 1, run->survey.shots, run->restart.folder);
    return RESTART_STOPPED;
}

/* What the key quality is about: the gradient at all points, or without --gradient the image. */
static real *result_of(const image_t *image)
{
    return image->gradient != NULL ? image->gradient : image->correlation;
}

static size_t values_of(const image_t *image)
{
    return image->gradient != NULL ? image->points : image->cells;
}

static void tell_size(const run_t *run, const job_t *job)
{
    unsigned fields;
    const size_t bytes = checkpoint_state(&run->checkpoint, &job->grid, &fields);

    progress_size(job, &run->checkpoint, bytes, fields);
}

static int migrate(run_t *run, const job_t *job, results_t *r)
{
    tell_size(run, job);
    progress_begin(steps_to_take(run, job));
    run->shot.stepped = progress_step;
    if (job->restart != NULL && open_restart(run, job, r) != 0)
        return -1;
    for (size_t i = run->restart.number; i < job->shots; i++) {
        int status;
        if (run->restart.within) {
            run->shot.source = run->survey.source[i];  /* all else comes from the restart files */
        } else {
            if (job->restart != NULL && (status = restart_between(&run->restart, i)) != RESTART_GO_ON)
                return status == RESTART_STOPPED ? stopped(run) : -1;
            progress_shot(i, job->shots, "modelling");
            TIMED(r->modelling, shot_observe(&run->shot, &run->truth, i));
            image_clear(&run->one);
        }
        progress_shot(i, job->shots, "migrating");
        if (job->tune && i == 0 && tune_begin(&run->checkpoint) != 0)
            return -1;
        TIMED(r->migration, status = checkpoint_migrate(&run->checkpoint, &run->shot, &run->one));
        if (status != 0)
            return status == RESTART_STOPPED ? stopped(run) : -1;
        if (job->tune && i == 0 && tune(run, r) != 0)
            return -1;
        progress_replan(steps_to_take(run, job));  /* `auto` may have made a new plan */
        image_stack(&run->image, &run->one);
        if (job->verify && asked_keep(&run->asked, result_of(&run->one), values_of(&run->one), job->shots) != 0)
            return -1;
        r->misfit += job->gradient ? gradient_misfit(&run->shot) : 0.0;
        if (job->verify) {
            progress_shot(i, job->shots, "verifying");
            image_clear(&run->one);
            TIMED(r->store_everything, reference_migrate(&run->reference, &run->shot, &run->one));
            image_stack(&run->expected, &run->one);
            asked_compare(&run->asked, result_of(&run->one));
        }
        if (job->taylor) {
            progress_shot(i, job->shots, "testing");
            taylor_shot(&run->taylor, &run->shot);
        }
    }
    progress_end();
    return 0;
}

/* Returns whether standard output took everything that was printed. */
static int printed(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return DONE;
    complain("standard output cannot be written");
    return FAILED;
}

/* Migrates all shots for one setting of a sweep; the data of a single shot are modelled once,
 * for all settings. */
static int migrate_all(void *all, const job_t *job, checkpoint_t *c, image_t *image, double *time)
{
    run_t *run = all;

    for (size_t i = 0; i < job->shots; i++) {
        int status;
        if (job->shots > 1 || !run->observed)
            shot_observe(&run->shot, &run->truth, i);
        run->observed = 1;
        image_clear(&run->one);
        TIMED(*time, status = checkpoint_migrate(c, &run->shot, &run->one));
        if (status != 0)
            return -1;
        image_stack(image, &run->one);
    }
    return 0;
}

static int run_sweep(const job_t *job)
{
    run_t run;
    const migrator_t migrator = {.run = &run, .u = NULL, .migrate = migrate_all};
    int status = FAILED;

    memset(&run, 0, sizeof run);
    if (run_open(&run, job) == 0 && sweep(job, &migrator) == 0)
        status = printed();
    run_close(&run);
    return status;
}

static int same(const image_t *a, const image_t *b)
{
    return memcmp(a->correlation, b->correlation, a->cells * sizeof(real)) == 0 &&
           memcmp(a->illumination, b->illumination, a->cells * sizeof(real)) == 0 &&
           (a->gradient == NULL || memcmp(a->gradient, b->gradient, a->points * sizeof(real)) == 0);
}

/* Writes the files and figures of the gradient. Returns 0 or -1. */
static int finish_gradient(run_t *run, const job_t *job, results_t *r)
{
    gradient_collect(&job->grid, job->smooth, run->image.gradient, run->gradient);
    r->gradient_hash = image_hash(run->image.gradient, run->image.points);
    if (job->taylor) {
        r->right = taylor_judge(&run->taylor, job, r->misfit, run->gradient);
        r->taylor = &run->taylor;
    }
    return output_gradient(&r->files, job, run->gradient);
}

typedef struct measured_t {
    run_t *run;
    const job_t *job;
    size_t observed;  /* 1 + number of the shot whose data are there */
} measured_t;

/* Migrates a shot with a session of its own, for the key quality. */
static int migrate_measured(void *all, const gpuzip_config_t *cfg, size_t shot, gpuzip_field_t *result)
{
    measured_t *m = all;
    run_t *run = m->run;
    const job_t *job = m->job;
    checkpoint_t c;
    int status = -1;

    if (m->observed != shot + 1)
        shot_observe(&run->shot, &run->truth, shot);
    m->observed = shot + 1;
    image_clear(&run->one);
    if (!checkpoint_failed(checkpoint_configure(&c, cfg, job->reconstruct, NULL, &job->grid, job->steps, job->every, NULL)))
        status = checkpoint_migrate(&c, &run->shot, &run->one);
    checkpoint_close(&c);
    *result = (gpuzip_field_t){.data = result_of(&run->one), .n1 = values_of(&run->one), .n2 = 1, .n3 = 1,
                               .type = sizeof(real) == sizeof(double)};
    return status;
}

/* Makes the session of all shots; with the key quality after its bound is chosen. */
static int open_session(run_t *run, const job_t *job)
{
    gpuzip_config_t loaded, cfg;
    measured_t measured = {.run = run, .job = job};
    int status = BAD_OPTIONS;

    if (checkpoint_failed(gpuzip_config_init(&loaded)) || checkpoint_failed(gpuzip_config_load(job->config, &loaded)))
        return BAD_OPTIONS;
    loaded.zero_copy |= job->zero_copy;
    cfg = loaded;
    if (asked_choose(&run->asked, &cfg, job->shots, migrate_measured, &measured) != 0)
        status = FAILED;
    else if (!checkpoint_failed(checkpoint_configure(&run->checkpoint, &cfg, job->reconstruct, NULL, &job->grid, job->steps, job->every, NULL)))
        status = DONE;
    gpuzip_config_free(&loaded);
    return status;
}

static int run_job(const job_t *job)
{
    run_t run;
    results_t r = {.identical = 0};
    int status = FAILED, migrated;

    memset(&run, 0, sizeof run);
    if (job->restart != NULL && restart_name(job->restart) != 0)
        return FAILED;
    if (run_open(&run, job) != 0) {
        run_close(&run);
        return FAILED;
    }
    if ((status = open_session(&run, job)) != DONE || output_open(&r.files, job->out) != 0) {
        run_close(&run);
        return status != DONE ? status : FAILED;
    }
    status = FAILED;
    r.asked = &run.asked;
    if ((migrated = migrate(&run, job, &r)) == RESTART_STOPPED)
        status = STOPPED;
    else if (migrated == 0 && output_write(&r.files, job, &run.image) == 0 &&
        (!job->gradient || finish_gradient(&run, job, &r) == 0)) {
        r.identical = job->verify && same(&run.image, &run.expected);
        if (job->verify && !r.identical)
            report_quality(&r, job, &run.expected, &run.image);
        r.image_hash = image_hash(run.image.correlation, run.image.cells);
        r.illumination_hash = image_hash(run.image.illumination, run.image.cells);
        (job->json ? report_json : report_text)(job, &run.checkpoint, &r);
        status = (job->verify && !r.identical) || (job->taylor && !r.right) ? FAILED : printed();
    }
    run_close(&run);
    return status;
}

/* A worker of --claim. */
typedef struct claimed_t {
    run_t run;
    const job_t *job;
    results_t r;
} claimed_t;

static void step_of_worker(void)
{
    progress_step();
    worker_beat();
}

static int migrate_claimed(void *all, size_t shot, double *misfit)
{
    claimed_t *c = all;
    run_t *run = &c->run;
    int status;

    progress_begin(progress_steps_of_shot(c->job, &run->checkpoint));
    run->shot.stepped = step_of_worker;
    progress_shot(shot, c->job->shots, "modelling");
    shot_observe(&run->shot, &run->truth, shot);
    progress_shot(shot, c->job->shots, "migrating");
    status = checkpoint_migrate(&run->checkpoint, &run->shot, &run->one);
    *misfit = c->job->gradient ? gradient_misfit(&run->shot) : 0.0;
    progress_end();
    return status;
}

static int write_claimed(void *all)
{
    claimed_t *c = all;

    if (output_open(&c->r.files, c->job->out) != 0 || output_write(&c->r.files, c->job, &c->run.image) != 0)
        return -1;
    return c->job->gradient ? finish_gradient(&c->run, c->job, &c->r) : 0;
}

static int run_worker(const job_t *job)
{
    claimed_t c;
    run_t *run = &c.run;
    worker_t worker = {.job = job, .shot = &run->shot, .truth = &run->truth, .one = &run->one, .sum = &run->image, .run = &c,
                       .migrate = migrate_claimed, .write = write_claimed, .claims = {.folder = -1}};
    int status = FAILED;

    memset(&c, 0, sizeof c);
    c.job = job;
    if (run_open(run, job) == 0) {
        /* The fields tell the device at once: all workers then describe the plan that they follow. */
        if (!job->sum && checkpoint_failed(checkpoint_start(&run->checkpoint, job->config, job->zero_copy, job->reconstruct, NULL, &job->grid, job->steps, job->every,
                                                          &run->shot.u))) {
            run_close(run);
            return BAD_OPTIONS;
        }
        if (!job->sum) {
            worker.checkpoint = &run->checkpoint;
            tell_size(run, job);
        }
        if (worker_run(&worker) == 0) {
            worker_report(&worker, &c.r.files);
            status = printed();
        } else if (worker.claims.is_refused) {
            status = BAD_OPTIONS;
        }
        claims_close(&worker.claims);
    }
    run_close(run);
    return status;
}

int main(int argc, char **argv)
{
    options_t options;
    job_t job;
    int status;

    if (options_parse(&options, argc, argv) != 0)
        return BAD_OPTIONS;
    if (options.help) {
        options_help("reverse time migration with adjoint checkpointing by gpuzip", "");
        return DONE;
    }
    if (options.bench)
        return bench(&options) == 0 ? DONE : FAILED;
    if (job_prepare(&job, &options) != 0)
        return BAD_OPTIONS;
    if (job.dumps > 0)
        status = snapshots_dump(&job) == 0 ? printed() : FAILED;
    else if (job.settings > 0)
        status = run_sweep(&job);
    else if (job.claim != NULL)
        status = run_worker(&job);
    else
        status = run_job(&job);
    job_free(&job);
    return status;
}
