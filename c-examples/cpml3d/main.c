/*
 * cpml3d: misfit and gradient of waveform inversion in 2-D or 3-D, and with --hessian products of
 * its Gauss-Newton Hessian (hessian.h). The memory variables of the absorbing layers make a state
 * of four, six or eight fields of different sizes. session.c shows how gpuzip keeps the states,
 * inversion.h explains the computation. Options, models and surveys are those of rtm3d.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "display.h"
#include "gradient.h"
#include "hessian.h"
#include "image.h"
#include "job.h"
#include "json.h"
#include "message.h"
#include "model.h"
#include "output.h"
#include "progress.h"
#include "quality.h"
#include "setting.h"
#include "session.h"

enum { DONE = 0, FAILED = 1, BAD_OPTIONS = 2 };

/* Everything that a run allocates. After zeroing, the run can be freed at any point. */
typedef struct run_t {
    cpml_t truth, smooth;
    survey_t survey;
    inversion_t inv;
    checkpoint_t checkpoint;
    hessian_t hessian;  /* for --hessian */
    asked_t asked;      /* for the key quality */
    kept_t kept;        /* for --verify */
    real *sum;          /* for --verify: inv.gradient with every state kept */
    double *gradient;   /* the gradient on the cells of the model */
    outputs_t files;
    double misfit, checkpointed, store_everything;  /* misfit; then two times in seconds */
    int identical;
    int right;          /* what hessian_judge returns; 1 without --hessian */
    /* The gradient compared with the one with every state kept, if they differ; NAN: no memory. */
    quality_t quality;
} run_t;

static int run_open(run_t *run, const job_t *job, size_t directions)
{
    const grid_t *g = &job->grid;

    if (cpml_init(&run->truth, g, job->dt, job->freq, job->model) != 0 ||
        cpml_init(&run->smooth, g, job->dt, job->freq, job->smooth) != 0 ||
        survey_init(&run->survey, g, job->steps, job->shots, job->dt, job->freq) != 0 ||
        inversion_open(&run->inv, &run->smooth, &run->survey) != 0 ||
        hessian_open(&run->hessian, &run->inv, directions) != 0 || (run->sum = field_alloc(g)) == NULL ||
        (run->gradient = malloc(g->n1 * g->n2 * g->n3 * sizeof *run->gradient)) == NULL)
        return complain("no memory for %zu points and %zu steps of data", g->points, job->steps);
    return job->verify ? kept_open(&run->kept, &run->smooth, job->steps) : 0;
}

static void run_close(run_t *run)
{
    checkpoint_close(&run->checkpoint);
    hessian_close(&run->hessian);
    asked_close(&run->asked);
    kept_close(&run->kept);
    free(run->gradient);
    free(run->sum);
    inversion_close(&run->inv);
    survey_free(&run->survey);
    cpml_free(&run->smooth);
    cpml_free(&run->truth);
}

static void swap_sums(run_t *run)
{
    real *other = run->sum;
    run->sum = run->inv.gradient;
    run->inv.gradient = other;
}

/* Computes every shot. With --verify each shot is computed twice: the first run keeps all states,
 * and the second run compares its snapshots with these states. */
static int invert(run_t *run, const job_t *job)
{
    gpuzip_field_t fields[MAX_FIELDS];
    double steps;

    run->checkpoint.more_steps = hessian_steps_of_shot(&run->hessian, &run->inv, job->verify);
    steps = progress_steps_of_shot(job, &run->checkpoint) * (double)job->shots;
    progress_size(job, &run->checkpoint, state_bytes(&run->smooth), session_fields(&run->smooth, NULL, fields));
    progress_begin(steps);
    run->inv.stepped = progress_step;
    for (size_t i = 0; i < job->shots; i++) {
        double start;
        progress_shot(i, job->shots, "computing the gradient");
        inversion_observe(&run->inv, &run->truth, i);
        if (job->verify) {
            start = seconds();
            swap_sums(run);
            kept_gradient(&run->kept, &run->inv);
            swap_sums(run);
            run->store_everything += seconds() - start;
        }
        start = seconds();
        if (session_gradient(&run->checkpoint, &run->inv, job->verify ? &run->kept : NULL) != 0)
            return -1;
        run->checkpointed += seconds() - start;
        run->misfit += inversion_misfit(&run->inv);
        if (hessian_shot(&run->hessian, &run->inv) != 0)
            return -1;
    }
    progress_end();
    run->right = run->hessian.count == 0 || hessian_judge(&run->hessian, &run->inv);
    run->identical = job->verify && memcmp(run->sum, run->inv.gradient, job->grid.points * sizeof *run->sum) == 0;
    return 0;
}

/* Measures the difference of the two gradients. */
static void compare(run_t *run, const job_t *job)
{
    const size_t cells = job->grid.n1 * job->grid.n2 * job->grid.n3;
    double *exact = malloc(cells * sizeof *exact);
    float *a = malloc(cells * sizeof *a), *b = malloc(cells * sizeof *b);
    int status = -1;

    if (exact != NULL && a != NULL && b != NULL) {
        gradient_collect(&job->grid, job->smooth, run->sum, exact);
        for (size_t i = 0; i < cells; i++) {
            a[i] = (float)exact[i];
            b[i] = (float)run->gradient[i];
        }
        status = quality_measure(&run->quality, &job->grid, a, b);
    }
    if (status != 0)
        run->quality = (quality_t){NAN, NAN, NAN};
    free(exact);
    free(a);
    free(b);
}

static void tell_json(const job_t *job, const run_t *run, uint32_t fields)
{
    const gpuzip_stats_t *t = &run->checkpoint.total;

    printf("{\"n1\": %zu, \"n2\": %zu, \"n3\": %zu, \"steps\": %zu, \"shots\": %zu, \"fields\": %" PRIu32 ", \"state_bytes\": %zu, ",
           job->grid.n1, job->grid.n2, job->grid.n3, job->steps, job->shots, fields, state_bytes(&run->smooth));
    json_text("algorithm", gpuzip_algorithm_name(run->checkpoint.plan.algorithm));
    printf(", \"snapshots\": %d, \"cache\": %d, \"saves\": %" PRIu64 ", \"restores\": %" PRIu64 ", \"raw_bytes\": %" PRIu64
           ", \"stored_bytes\": %" PRIu64 ", \"disk_bytes\": %" PRIu64, (int)run->checkpoint.plan.snapshots, (int)run->checkpoint.plan.cache, t->saves,
           t->restores, t->raw_bytes, t->stored_bytes, t->disk_bytes);
    printf(", \"misfit\": %.17g, \"gradient_hash\": \"%016" PRIx64 "\", \"seconds\": %.6f", run->misfit,
           image_hash(run->inv.gradient, job->grid.points), run->checkpointed);
    if (job->verify)
        printf(isfinite(run->kept.error) ? ", \"identical\": %s, \"snapshot_error\": %.9g" : ", \"identical\": %s, \"snapshot_error\": null",
               run->identical ? "true" : "false", run->kept.error);
    hessian_json(&run->hessian, &run->inv, &run->checkpoint);
    asked_json(&run->asked);
    printf(", ");
    json_text("gradient", run->files.gradient);
    printf(", ");
    json_text("gradient_png", run->files.gradient_png);
    puts("}");
}

static void tell_verified(const run_t *run)
{
    const char *const name = setting_codec(run->checkpoint.plan.compressor);

    printf("store-everything  %.2f s; snapshots came back within %.2e of their fields' maxima\n", run->store_everything, run->kept.error);
    if (run->identical || !checkpoint_is_lossy(&run->checkpoint))
        printf("gradients         %s, every byte compared\n", run->identical ? "IDENTICAL" : "DIFFERENT");
    else
        printf("gradients         not the same bits, as the codec %s is lossy: PSNR %.1f dB against that of keeping every state, an error of\n"
               "                  %.3g %% of its norm; without compressor the bits are the same\n", name, run->quality.psnr,
               100.0 * run->quality.relative_l2);
}

static void tell_text(const job_t *job, const run_t *run, uint32_t fields)
{
    const grid_t *g = &job->grid;
    const gpuzip_stats_t *t = &run->checkpoint.total;

    printf("model             %s, %zu x %zu x %zu cells of %g m, layers of %zu cells\n", job->name, g->n1, g->n2, g->n3, g->dx,
           g->border);
    printf("survey            %zu shots, %zu steps of %g s, Ricker wavelet of %g Hz\n", job->shots, job->steps, job->dt, job->freq);
    printf("state             %" PRIu32 " fields, %.2f MB\n", fields, (double)state_bytes(&run->smooth) / 1e6);
    printf("checkpointing     %s, %d snapshots, cache of %d slots\n", gpuzip_algorithm_name(run->checkpoint.plan.algorithm),
           (int)run->checkpoint.plan.snapshots, (int)run->checkpoint.plan.cache);
    if (checkpoint_is_lossy(&run->checkpoint)) {
        char codec[128];
        checkpoint_codec(&run->checkpoint, codec, sizeof codec);
        printf("codec             %s\n", codec);
    }
    printf("gradient          %.2f s; %" PRIu64 " snapshots saved, %" PRIu64 " restored, %.2f to 1\n", run->checkpointed, t->saves,
           t->restores, t->stored_bytes > 0 ? (double)t->raw_bytes / (double)t->stored_bytes : 1.0);
    printf("misfit            %.9e\n", run->misfit);
    hessian_text(&run->hessian, &run->inv, &run->checkpoint);
    asked_text(&run->asked);
    if (job->verify)
        tell_verified(run);
    printf("look at           %s\n                  %s\n", run->files.gradient_png, run->files.model_png);
}

/* Returns whether standard output took everything that was printed. */
static int printed(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return DONE;
    complain("standard output cannot be written");
    return FAILED;
}

static int finish(run_t *run, const job_t *job)
{
    gpuzip_field_t fields[MAX_FIELDS];
    const uint32_t count = session_fields(&run->smooth, NULL, fields);

    gradient_collect(&job->grid, job->smooth, run->inv.gradient, run->gradient);
    if (job->verify && !run->identical)
        compare(run, job);
    if (output_gradient(&run->files, job, run->gradient) != 0 ||
        display_model(run->files.model_png, &job->grid, job->model, job->name) != 0)
        return FAILED;
    (job->json ? tell_json : tell_text)(job, run, count);
    return (job->verify && !run->identical) || !run->right ? FAILED : printed();
}

static int run_job(const job_t *job, size_t directions)
{
    run_t run;
    int status = FAILED;

    memset(&run, 0, sizeof run);
    if (output_open(&run.files, job->out) == 0 && run_open(&run, job, directions) == 0) {
        if (session_open(&run.checkpoint, directions > 0 ? &run.hessian.single : NULL, &run.asked, job->config, &run.inv, &run.truth) != 0)
            status = BAD_OPTIONS;
        else if (invert(&run, job) == 0)
            status = finish(&run, job);
    }
    run_close(&run);
    return status;
}

/* Takes --hessian and its value out of the arguments. Returns the number of directions, 0 without the
 * option, or -1 with the reason on stderr. */
static int take_hessian(int *argc, char **argv)
{
    int kept = 1, directions = 0;

    for (int i = 1; i < *argc; i++) {
        const size_t length = strcspn(argv[i], "=");
        const char *text = argv[i] + length + 1;
        char *end;
        long value;

        if (length != strlen("--hessian") || strncmp(argv[i], "--hessian", length) != 0) {
            argv[kept++] = argv[i];
            continue;
        }
        if (argv[i][length] == '\0' && (text = argv[++i]) == NULL)
            return complain("--hessian: needs a value; see --help");
        value = strtol(text, &end, 10);
        if (end == text || *end != '\0' || value < 1 || value > HESSIAN_MOST)
            return complain("--hessian %s: it wants a whole number from 1 to %d", text, HESSIAN_MOST);
        directions = (int)value;
    }
    *argc = kept;
    argv[kept] = NULL;
    return directions;
}

/* Refuses options of rtm3d that this program does not have. */
static int check_options(const options_t *o)
{
    if (o->bench || o->sweep || o->dump != NULL || o->taylor || o->tune || o->codecs != NULL || o->zero_copy || o->reconstruct || o->every > 1)
        return complain("--bench, --sweep, --codecs, --dump-snapshots, --every, --taylor, --tune, --zero-copy and --reconstruct are rtm3d's; a gradient is all that is computed here");
    return 0;
}

static int check_dt(const job_t *job)
{
    double lo, vmax, fastest = 0.0;

    for (int i = 0; i < 2; i++)
        if (model_range(i == 0 ? job->model : job->smooth, job->grid.n1 * job->grid.n2 * job->grid.n3, job->name, &lo, &vmax) != 0)
            return -1;
        else
            fastest = vmax > fastest ? vmax : fastest;
    if (job->dt > cpml_stable_dt(grid_dims(&job->grid), job->grid.dx, fastest))
        return complain("--dt %g: unstable; at %g m/s and a spacing of %g m the largest stable time step is %.6g s", job->dt, fastest,
                        job->grid.dx, cpml_stable_dt(grid_dims(&job->grid), job->grid.dx, fastest));
    return 0;
}

int main(int argc, char **argv)
{
    options_t options;
    job_t job;
    int status = BAD_OPTIONS;
    const int directions = take_hessian(&argc, argv);

    if (directions < 0 || options_parse(&options, argc, argv) != 0)
        return BAD_OPTIONS;
    if (options.help) {
        options_help("misfit and gradient of waveform inversion between absorbing layers, with adjoint checkpointing by gpuzip",
                     "--bench --sweep --codecs --dump-snapshots --every --gradient --taylor --tune --zero-copy --reconstruct");
        puts("of cpml3d:\n  --hessian        also the Gauss-Newton Hessian's products with this many smooth directions, by further reverse sweeps\n"
             "                   over the states of one forward run; fails unless symmetry and Taylor orders are right and the bits are\n"
             "                   those of a run for each; 1 to 16");
        return DONE;
    }
    if (check_options(&options) != 0 || job_prepare(&job, &options) != 0)
        return BAD_OPTIONS;
    if (check_dt(&job) == 0)
        status = run_job(&job, (size_t)directions);
    job_free(&job);
    return status;
}
