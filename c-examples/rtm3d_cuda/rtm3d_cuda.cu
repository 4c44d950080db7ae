/*
 * rtm3d_cuda: the reverse time migration of rtm3d on a GPU, with the options, files and JSON of
 * rtm3d, and equal bits. migrate.cu shows how gpuzip is used, kernels.cu has the time step.
 */
#include <stdio.h>
#include <string.h>

#include "gpu_bench.h"
#include "migrate.h"

enum { DONE = 0, FAILED = 1, BAD_OPTIONS = 2 };

/* Everything that a run allocates. After zeroing, the run can be freed at any point. */
typedef struct run_t {
    medium_t truth, smooth;
    survey_t survey;
    gpu_shot_t shot;
    checkpoint_t checkpoint;
    tuned_t tuned;  // for --tune
    gpu_reference_t reference;
    int observed;                 /* whether the shot has data; for a sweep */
    image_t sums;                 /* image of one shot, in device memory */
    image_t one;                  /* the copy of `sums` in host memory */
    image_t image, expected;      /* images of all shots: checkpointing, every state kept */
} run_t;

/* Prepares everything except the session. */
static int run_prepare(run_t *run, const job_t *job)
{
    const grid_t *g = &job->grid;

    if (medium_init(&run->truth, g, job->dt, job->model) != 0 ||
        medium_init(&run->smooth, g, job->dt, job->smooth) != 0 ||
        survey_init(&run->survey, g, job->steps, job->shots, job->dt, job->freq) != 0 ||
        image_init(&run->one, g) != 0 || image_init(&run->image, g) != 0 || image_init(&run->expected, g) != 0)
        return complain("no memory for %zu points and %zu steps of data", g->points, job->steps);
    run->survey.every = job->every;
    gpu_shot_open(&run->shot, &run->truth, &run->smooth, &run->survey);
    run->sums = gpu_image_open(g);
    CUDA(cudaDeviceSynchronize());
    return 0;
}

/* Opens the session and the reference; returns an exit code. */
static int run_open(run_t *run, const job_t *job)
{
    const grid_t *g = &job->grid;

    if (run_prepare(run, job) != 0)
        return FAILED;
    /* The library allocates its memory before the reference takes all that is left. */
    if (checkpoint_open(&run->checkpoint, job->config, job->zero_copy, g, job->steps, job->every, &run->shot.u) != 0)
        return BAD_OPTIONS;
    if (job->verify)
        gpu_reference_open(&run->reference, g, job->steps);
    return DONE;
}

static void run_close(run_t *run)
{
    checkpoint_close(&run->checkpoint);
    tune_free(&run->tuned);
    gpu_reference_close(&run->reference);
    gpu_image_close(&run->sums);
    gpu_shot_close(&run->shot);
    image_free(&run->expected);
    image_free(&run->image);
    image_free(&run->one);
    survey_free(&run->survey);
    medium_free(&run->smooth);
    medium_free(&run->truth);
}

/* Measures the seconds of a forward and of a backward step of a migration, on noise, since
 * zeros can be faster. */
static void time_steps(run_t *run, results_t *r)
{
    gpu_shot_t *shot = &run->shot;
    const int steps = 5, repeats = 5;

    shot->source = run->survey.source[0];
    gpu_noise(&shot->smooth.grid, &shot->u);
    gpu_noise(&shot->smooth.grid, &shot->lambda);
    CUDA(cudaDeviceSynchronize());
    r->forward_step = cuda_seconds(shot->stream, repeats, [&](cudaStream_t) {
        for (int i = 0; i < steps; i++)
            gpu_shot_forward(shot, 1, 1);
    }) / steps;
    r->backward_step = cuda_seconds(shot->stream, repeats, [&](cudaStream_t) {
        for (int i = 0; i < steps; i++)
            gpu_shot_backward(shot, 0, 0, shot->u.curr, &run->sums);
    }) / steps;
}

/* Adds the sums of the migrated shot to an image. */
static void stack(run_t *run, image_t *image)
{
    gpu_image_fetch(&run->sums, &run->one, run->shot.stream);
    image_stack(image, &run->one);
}

/* Time steps of all shots, for the progress bar. */
static double steps_to_take(const run_t *run, const job_t *job)
{
    return progress_steps_of_shot(job, &run->checkpoint) * (double)job->shots;
}

static int migrate(run_t *run, const job_t *job, results_t *r)
{
    progress_size(job, &run->checkpoint, 2 * job->grid.points * sizeof(real), 2);
    progress_begin(steps_to_take(run, job));
    run->shot.stepped = progress_step;
    for (size_t i = 0; i < job->shots; i++) {
        double start = seconds();
        progress_shot(i, job->shots, "migrating");
        gpu_shot_observe(&run->shot, i);
        CUDA(cudaStreamSynchronize(run->shot.stream));
        r->modelling += seconds() - start;

        gpu_image_clear(&run->sums, run->shot.stream);
        start = seconds();
        if (job->tune && i == 0 && tune_begin(&run->checkpoint) != 0)
            return -1;
        if (gpu_migrate(&run->checkpoint, &run->shot, &run->sums) != 0)
            return -1;
        r->migration += seconds() - start;
        if (job->tune && i == 0) {
            if (tune_take(&run->tuned, &run->checkpoint) != 0 || tune_apply(&run->tuned, &run->checkpoint) != 0)
                return -1;
            r->tuned = &run->tuned;
        }
        progress_replan(steps_to_take(run, job));  // `auto` may have made a new plan
        stack(run, &run->image);
        if (!job->verify)
            continue;

        gpu_image_clear(&run->sums, run->shot.stream);
        start = seconds();
        gpu_reference_migrate(&run->reference, &run->shot, &run->sums);
        r->store_everything += seconds() - start;
        stack(run, &run->expected);
    }
    progress_end();
    return 0;
}

/* Migrates all shots for one setting of a sweep; the data of a single shot are modelled once,
 * for all settings. */
static int migrate_all(void *all, const job_t *job, checkpoint_t *c, image_t *image, double *time)
{
    run_t *run = (run_t *)all;

    for (size_t i = 0; i < job->shots; i++) {
        if (job->shots > 1 || !run->observed)
            gpu_shot_observe(&run->shot, i);
        run->observed = 1;
        gpu_image_clear(&run->sums, run->shot.stream);
        CUDA(cudaStreamSynchronize(run->shot.stream));
        const double start = seconds();
        if (gpu_migrate(c, &run->shot, &run->sums) != 0)
            return -1;
        *time += seconds() - start;
        stack(run, image);
    }
    return 0;
}

static int same(const image_t *a, const image_t *b)
{
    return memcmp(a->correlation, b->correlation, a->cells * sizeof(real)) == 0 &&
           memcmp(a->illumination, b->illumination, a->cells * sizeof(real)) == 0;
}

/* Returns whether standard output took everything that was printed. */
static int printed(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return DONE;
    complain("standard output cannot be written");
    return FAILED;
}

static int run_job(const job_t *job)
{
    run_t run = {};
    results_t r = {};
    int status;

    r.device = cuda_device_name();
    if (output_open(&r.files, job->out) != 0)
        return FAILED;
    status = run_open(&run, job);
    if (status == DONE) {
        time_steps(&run, &r);
        status = migrate(&run, job, &r) == 0 && output_write(&r.files, job, &run.image) == 0 ? DONE : FAILED;
    }
    if (status == DONE) {
        r.identical = job->verify && same(&run.image, &run.expected);
        if (job->verify && !r.identical)
            report_quality(&r, job, &run.expected, &run.image);
        r.image_hash = image_hash(run.image.correlation, run.image.cells);
        r.illumination_hash = image_hash(run.image.illumination, run.image.cells);
        (job->json ? report_json : report_text)(job, &run.checkpoint, &r);
        status = printed() == DONE && (!job->verify || r.identical) ? DONE : FAILED;
    }
    run_close(&run);
    return status;
}

static int run_sweep(const job_t *job)
{
    run_t run = {};
    const migrator_t migrator = {&run, &run.shot.u, migrate_all};
    int status = FAILED;

    if (run_prepare(&run, job) == 0 && sweep(job, &migrator) == 0)
        status = printed();
    run_close(&run);
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
        options_help("reverse time migration on a GPU, with adjoint checkpointing by gpuzip", "--gradient --taylor --reconstruct --claim --lease --no-wait --only --sum");
        return DONE;
    }
    if (options.bench)
        return gpu_bench(&options) == 0 ? DONE : FAILED;
    if (options.claim != NULL)
        return complain("--claim %s: is rtm3d's, on the CPU; leave it out", options.claim), BAD_OPTIONS;
    if (options.gradient || options.reconstruct)
        return complain("--%s: is rtm3d's, on the CPU; leave it out", options.gradient ? "gradient" : "reconstruct"), BAD_OPTIONS;
    if (job_prepare(&job, &options) != 0)
        return BAD_OPTIONS;
    if (job.dumps > 0)
        /* The CPU computes these results, with the bits that the GPU would give. */
        status = snapshots_dump(&job) == 0 ? printed() : FAILED;
    else if (job.settings > 0)
        status = run_sweep(&job);
    else
        status = run_job(&job);
    job_free(&job);
    return status;
}
