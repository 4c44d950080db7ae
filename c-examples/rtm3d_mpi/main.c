/*
 * rtm3d_mpi: the migration of rtm3d on many ranks, with the options, files and JSON of rtm3d,
 * and equal bits. By default each rank migrates shots of its own: see shots.c. With --decompose
 * all ranks migrate each shot together, and each rank has a slab of the grid: see slab.c.
 * --restart keeps the images of finished shots (kept.h), or with --decompose the state of the run.
 * Either way every rank has its own gpuzip session (plan.c); the library does not use MPI.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "clock.h"
#include "image.h"
#include "job.h"
#include "kept.h"
#include "message.h"
#include "node.h"
#include "output.h"
#include "plan.h"
#include "progress.h"
#include "reference.h"
#include "report.h"
#include "shots.h"
#include "slab.h"
#include "snapshots.h"
#include "stats.h"
#include "sweep.h"
#include "tune.h"

enum { DONE = 0, FAILED = 1, BAD_OPTIONS = 2, STOPPED = RESTART_STOPPED };  /* as KEPT_* of kept.h */

/* The results of a rank. */
typedef struct tally_t {
    gpuzip_stats_t stats;
    double modelling, migration, store_everything;
    int different;  /* 1: an image of this rank differed from the image with every state kept */
} tally_t;

/* The data of a rank. */
typedef struct run_t {
    int rank, ranks, decompose;
    const job_t *job;
    node_t node;
    slab_t slab;                 /* for --decompose */
    medium_t truth, smooth;      /* media of the slab, or of the whole grid */
    survey_t survey;
    shot_t shot;
    checkpoint_t checkpoint;
    restart_t restart;           /* for --restart with --decompose */
    kept_t kept;                 /* for --restart without */
    size_t kept_before;          /* shots that were kept when the run began */
    tuned_t tuned;               /* for --tune: the profile of rank 0, on all ranks */
    reference_t reference;
    image_t one, expected;       /* images of one shot: checkpointing, every state kept */
    image_t part;                /* image of all shots on the slab */
    image_t image;               /* image of all shots on the whole grid; rank 0 only */
    tally_t tally;
} run_t;

/* Returns the worst exit code of all ranks, on every rank. */
static int agree(int code)
{
    int worst;

    MPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return worst;
}

/* Runs `call`, which returns an exit code, on rank 0 and then on the other ranks, so that an
 * error common to all ranks is printed once. */
#define ROOT_FIRST(code, rank, call)                      \
    do {                                                  \
        (code) = agree((rank) == 0 ? (call) : DONE);      \
        if ((code) == DONE)                               \
            (code) = agree((rank) != 0 ? (call) : DONE);  \
    } while (0)

static const grid_t *grid_of(const run_t *run)
{
    return run->decompose ? &run->slab.grid : &run->job->grid;
}

static int open_media(run_t *run)
{
    const job_t *job = run->job;
    const grid_t *g = &job->grid;

    if (run->decompose)
        return slab_medium(&run->slab, &run->truth, job->dt, job->model) != 0 ||
               slab_medium(&run->slab, &run->smooth, job->dt, job->smooth) != 0 ||
               slab_survey(&run->slab, &run->survey, job->steps, job->shots, job->dt, job->freq) != 0;
    return medium_init(&run->truth, g, job->dt, job->model) != 0 ||
           medium_init(&run->smooth, g, job->dt, job->smooth) != 0 ||
           survey_init(&run->survey, g, job->steps, job->shots, job->dt, job->freq) != 0;
}

/* Prepares everything except the sessions; each rank reports its own lack of memory. */
static int open_rank(run_t *run)
{
    const job_t *job = run->job;
    const grid_t *g = grid_of(run);
    int failed;

    failed = open_media(run) != 0;
    run->survey.every = job->every;
    if (failed || shot_init(&run->shot, &run->smooth, &run->survey) != 0 || image_init(&run->one, g) != 0 ||
        image_init(&run->part, g) != 0 || image_init(&run->expected, g) != 0 ||
        (run->rank == 0 && image_init(&run->image, &job->grid) != 0)) {
        complain("rank %d: no memory for %zu points and %zu steps of data", run->rank, g->points, job->steps);
        return FAILED;
    }
    if (run->decompose) {
        run->shot.exchange = slab_exchange;
        run->shot.part = &run->slab;
    }
    return DONE;
}

/* Opens the references of a node's ranks one after the other, since each rank checks how much
 * memory is left. */
static int open_references(run_t *run)
{
    int status = 0;

    for (int turn = 0; run->job->verify && turn < run->node.ranks; turn++) {
        if (turn == run->node.rank)
            status = reference_open(&run->reference, grid_of(run), run->job->steps);
        MPI_Barrier(run->node.comm);
    }
    return agree(status == 0 ? DONE : FAILED);
}

static tuned_t *by_profile(run_t *run)
{
    return run->tuned.profile != NULL ? &run->tuned : NULL;
}

static int open_session(run_t *run)
{
    const job_t *job = run->job;
    return plan_open(&run->checkpoint, job->config, job->zero_copy, &run->node, grid_of(run), job->steps, job->every,
                     by_profile(run)) == 0 ? DONE : BAD_OPTIONS;
}

/* Opens the sessions of all ranks. */
static int open_sessions(run_t *run)
{
    const job_t *job = run->job;
    int code;

    if (run->decompose)
        return plan_open_together(&run->checkpoint, job->config, &run->node, grid_of(run), job->steps, job->every,
                                  by_profile(run), MPI_COMM_WORLD) == 0 ? DONE : BAD_OPTIONS;
    ROOT_FIRST(code, run->rank, open_session(run));
    if (code == DONE && plan_compare(&run->checkpoint, MPI_COMM_WORLD) != 0)
        code = BAD_OPTIONS;
    return code;
}

static int run_open(run_t *run, outputs_t *files)
{
    const job_t *job = run->job;
    int code;

    if (run->decompose && slab_init(&run->slab, &job->grid, MPI_COMM_WORLD) != 0)
        return BAD_OPTIONS;
    code = open_sessions(run);
    if (code == DONE)
        code = agree(run->rank == 0 && output_open(files, job->out) != 0 ? FAILED : DONE);
    if (code == DONE)
        code = agree(open_rank(run));
    return code == DONE ? open_references(run) : code;
}

static void run_close(run_t *run)
{
    kept_close(&run->kept);
    checkpoint_close(&run->checkpoint);
    tune_free(&run->tuned);
    reference_close(&run->reference);
    image_free(&run->image);
    image_free(&run->part);
    image_free(&run->expected);
    image_free(&run->one);
    shot_free(&run->shot);
    survey_free(&run->survey);
    medium_free(&run->smooth);
    medium_free(&run->truth);
}

static int same(const image_t *a, const image_t *b)
{
    return memcmp(a->correlation, b->correlation, a->cells * sizeof(real)) == 0 &&
           memcmp(a->illumination, b->illumination, a->cells * sizeof(real)) == 0;
}

/* A shot_worker_t: migrates a shot and compares its image on this rank. If the images of all shots
 * are equal, their sums are equal, too. */
static int migrate_one(void *data, size_t number, image_t *image)
{
    run_t *run = data;
    tally_t *t = &run->tally;
    double start = seconds();

    int status;

    if (run->rank == 0)
        progress_shot(number, run->job->shots, "migrating");
    if (run->restart.within)
        run->shot.source = run->survey.source[number];  /* all else comes from the restart files */
    else
        shot_observe(&run->shot, &run->truth, number);
    t->modelling += seconds() - start;

    start = seconds();
    if ((status = checkpoint_migrate(&run->checkpoint, &run->shot, image)) != 0)
        return status;
    t->migration += seconds() - start;
    if (!run->job->verify)
        return 0;

    image_clear(&run->expected);
    start = seconds();
    reference_migrate(&run->reference, &run->shot, &run->expected);
    t->store_everything += seconds() - start;
    t->different |= !same(image, &run->expected);
    return 0;
}

/* Makes plans with a profile before the survey: rank 0 measures its first shot (with slabs, all
 * ranks do), whose image is not used; then all ranks plan with the profile of rank 0. */
static int tune(run_t *run)
{
    const int takes_part = run->rank == 0 || run->decompose;
    int code = DONE;

    if (takes_part) {
        shot_observe(&run->shot, &run->truth, 0);
        image_clear(&run->one);
        if ((run->rank == 0 && tune_begin(&run->checkpoint) != 0) ||
            checkpoint_migrate(&run->checkpoint, &run->shot, &run->one) != 0)
            node_end_all(MPI_COMM_WORLD);
    }
    code = plan_share(&run->tuned, &run->checkpoint, MPI_COMM_WORLD) == 0 ? DONE : FAILED;
    checkpoint_close(&run->checkpoint);
    return code == DONE ? open_sessions(run) : code;
}

/* Prints the size of the job and the progress of rank 0. With slabs this is the progress of all
 * ranks, otherwise the progress of rank 0's share of the shots. */
static void begin_progress(run_t *run)
{
    const job_t *job = run->job;
    const size_t ranks = (size_t)run->ranks, left = job->shots - run->kept.count;
    const size_t shots = run->decompose ? job->shots : (left + ranks - 1) / ranks;

    run->kept_before = run->kept.count;
    if (run->rank != 0)
        return;
    progress_size(job, &run->checkpoint, 2 * grid_of(run)->points * sizeof(real), 2);
    if (run->kept.count > 0)
        fprintf(stderr, RTM_PROGRAM ": goes on with %zu of %zu shots from %s\n", run->kept.count, job->shots, job->restart);
    if (run->ranks > 1)
        fprintf(stderr, run->decompose ? RTM_PROGRAM ": %d ranks; memory is that of rank 0's slab\n"
                                       : RTM_PROGRAM ": %d ranks; memory is that of each, and what follows counts rank 0's part of the shots\n",
                run->ranks);
    progress_begin(progress_steps_of_shot(job, &run->checkpoint) * (double)shots);
    run->shot.stepped = progress_step;
}

/* The minimum over all ranks that the library asks for. */
static int32_t agree_min(void *user, int64_t *value)
{
    (void)user;
    return MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);
}

/* Goes on from restart files, if all ranks have some, and lets the migration write more of them. */
static int open_restart(run_t *run)
{
    const gpuzip_persist_options_t options = {.struct_size = sizeof options, .rank = run->rank, .ranks = run->ranks,
                                              .agree_min = agree_min};

    run->restart = (restart_t){.folder = run->job->restart, .session = run->checkpoint.session, .shot = &run->shot,
                               .one = &run->one, .image = &run->part};
    restart_job(&run->restart, run->job, &run->truth);
    run->checkpoint.restart = &run->restart;
    return restart_open(&run->restart, &options);
}

/* Returns DONE or STOPPED. */
static int migrate_slabs(run_t *run)
{
    int status = RESTART_GO_ON;

    if (run->job->restart != NULL && open_restart(run) != 0)
        node_end_all(MPI_COMM_WORLD);
    for (size_t i = run->restart.number; i < run->job->shots && status == RESTART_GO_ON; i++) {
        if (!run->restart.within) {
            if (run->job->restart != NULL)
                status = restart_between(&run->restart, i);
            image_clear(&run->one);
        }
        if (status == RESTART_GO_ON)
            status = migrate_one(run, i, &run->one);
        if (status == RESTART_FAILED)
            node_end_all(MPI_COMM_WORLD);
        if (status == RESTART_GO_ON)
            image_stack(&run->part, &run->one);
    }
    if (status == RESTART_STOPPED) {
        if (run->rank == 0) {
            progress_end();
            fprintf(stderr, RTM_PROGRAM ": stopped on request within shot %zu of %zu: continue with --restart %s\n",
                    run->restart.number + 1, run->job->shots, run->restart.folder);
        }
        return STOPPED;
    }
    slab_gather(&run->slab, &run->part, &run->image);
    return DONE;
}

/* Opens the folder in which shots are kept, and lets SIGTERM and SIGUSR1 stop the run. */
static int open_kept(run_t *run)
{
    description_t d;
    int code = DONE;

    description_of_job(&d, run->job, &run->truth, &run->shot);
    if (checkpoint_describe(&run->checkpoint, &d) != 0 || checkpoint_failed(gpuzip_catch_signals(NULL, 0)))
        code = FAILED;
    if ((code = agree(code)) != DONE)
        return code;
    run->checkpoint.is_stopped = shots_is_stopped;
    return kept_open(&run->kept, run->job->restart, &d, run->job->shots, &run->one, MPI_COMM_WORLD);
}

/* Returns DONE or STOPPED, on every rank. */
static int migrate_shots(run_t *run)
{
    const job_t *job = run->job;
    const int code = shots_migrate(MPI_COMM_WORLD, job->shots, job->restart != NULL ? &run->kept : NULL, migrate_one, run, &run->one,
                                   run->rank == 0 ? &run->image : NULL);

    if (code == STOPPED) {
        progress_end();
        fprintf(stderr, RTM_PROGRAM ": stopped on request, %zu of %zu shots are kept: continue with --restart %s\n", run->kept.count, job->shots,
                job->restart);
    }
    return agree(code);
}

/* Adds the statistics of ranks with shots of their own: sums, and the larger of each peak, as
 * over the shots of one rank. */
static void add_shots(tally_t *sum, const tally_t *t)
{
    stats_add(&sum->stats, &t->stats);
    sum->modelling += t->modelling;
    sum->migration += t->migration;
    sum->store_everything += t->store_everything;
    sum->different |= t->different;
}

/* Adds the statistics of ranks with slabs of one shot: bytes are summed; times, steps and
 * numbers of transfers are those of rank 0, which equal those of all ranks. */
static void add_slab(tally_t *sum, const tally_t *t)
{
    sum->stats.h2d_bytes += t->stats.h2d_bytes;
    sum->stats.d2h_bytes += t->stats.d2h_bytes;
    sum->stats.disk_bytes += t->stats.disk_bytes;
    sum->stats.raw_bytes += t->stats.raw_bytes;
    sum->stats.stored_bytes += t->stats.stored_bytes;
    sum->stats.peak_device_bytes += t->stats.peak_device_bytes;
    sum->stats.peak_host_bytes += t->stats.peak_host_bytes;
    sum->different |= t->different;
}

/* Adds the tallies of all ranks; run->tally of rank 0 becomes the sum. */
static void gather_tallies(run_t *run)
{
    run->tally.stats = run->checkpoint.total;
    if (run->rank != 0) {
        MPI_Send(&run->tally, sizeof run->tally, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        return;
    }
    for (int rank = 1; rank < run->ranks; rank++) {
        tally_t other;
        MPI_Recv(&other, sizeof other, MPI_BYTE, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        (run->decompose ? add_slab : add_shots)(&run->tally, &other);
    }
    run->checkpoint.total = run->tally.stats;
}

/* Returns whether standard output took everything that was printed. */
static int printed(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return DONE;
    complain("standard output cannot be written");
    return FAILED;
}

static int report(run_t *run, const outputs_t *files, double elapsed)
{
    const job_t *job = run->job;
    const tally_t *t = &run->tally;
    results_t r = {.kept = run->kept_before, .modelling = t->modelling, .migration = t->migration, .store_everything = t->store_everything,
                   .identical = job->verify && !t->different, .psnr = NAN, .tuned = by_profile(run), .files = *files};

    if (output_write(files, job, &run->image) != 0)
        return FAILED;
    r.image_hash = image_hash(run->image.correlation, run->image.cells);
    r.illumination_hash = image_hash(run->image.illumination, run->image.cells);
    (job->json ? report_json : report_text)(job, &run->checkpoint, &r);
    if (!job->json)
        printf("ranks             %d, %d on the first node, %s: %.2f s in all\n", run->ranks, run->node.ranks,
               run->decompose ? "a slab each" : "times above summed over shots", elapsed);
    return job->verify && !r.identical ? FAILED : printed();
}

static int run_job(run_t *run)
{
    outputs_t files;
    const int restarts = run->job->restart != NULL;
    int code = DONE;
    double start;

    if (restarts && run->decompose)
        ROOT_FIRST(code, run->rank, restart_name(run->job->restart) == 0 ? DONE : FAILED);
    if (code != DONE)
        return code;
    node_open(&run->node, MPI_COMM_WORLD);
    code = run_open(run, &files);
    if (code == DONE && run->job->tune)
        code = tune(run);
    if (code == DONE && restarts && !run->decompose)
        code = open_kept(run);
    if (code == DONE) {
        start = seconds();
        begin_progress(run);
        code = run->decompose ? migrate_slabs(run) : migrate_shots(run);
        if (run->rank == 0 && code == DONE)
            progress_end();
        gather_tallies(run);
        if (code == DONE)
            code = agree(run->rank == 0 ? report(run, &files, seconds() - start) : DONE);
    }
    run_close(run);
    node_close(&run->node);
    return code;
}

/* The function `migrate` of a migrator_t, for a run with one rank. */
static int migrate_all(void *data, const job_t *job, checkpoint_t *c, image_t *image, double *time)
{
    run_t *run = data;

    for (size_t i = 0; i < job->shots; i++) {
        double start;
        shot_observe(&run->shot, &run->truth, i);
        image_clear(&run->one);
        start = seconds();
        if (checkpoint_migrate(c, &run->shot, &run->one) != 0)
            return -1;
        *time += seconds() - start;
        image_stack(image, &run->one);
    }
    return 0;
}

static int sweep_settings(run_t *run)
{
    const migrator_t migrator = {.run = run, .u = NULL, .migrate = migrate_all};
    int code = open_rank(run);

    if (code == DONE)
        code = sweep(run->job, &migrator) == 0 ? printed() : FAILED;
    run_close(run);
    return code;
}

/* Removes --decompose from the arguments; returns whether it was there. */
static int take_decompose(int *argc, char **argv)
{
    int kept = 1, found = 0;

    for (int i = 1; i < *argc; i++)
        if (strcmp(argv[i], "--decompose") == 0)
            found = 1;
        else
            argv[kept++] = argv[i];
    *argc = kept;
    argv[kept] = NULL;
    return found;
}

static int prepare(job_t *job, const options_t *o, const run_t *run)
{
    const int ranks = run->ranks;

    if (o->gradient || o->reconstruct) {
        complain("--%s: is rtm3d's, of one process; leave it out", o->gradient ? "gradient" : "reconstruct");
        return BAD_OPTIONS;
    }
    if (o->claim != NULL) {
        complain("--claim %s: is rtm3d's, of one process; leave it out", o->claim);
        return BAD_OPTIONS;
    }
    if (o->restart != NULL && o->verify) {
        complain("--restart %s --verify: what the run before computed is not compared; leave one out", o->restart);
        return BAD_OPTIONS;
    }
    if (o->sweep && run->decompose) {
        complain("--sweep --decompose: a sweep is of one rank; leave one out");
        return BAD_OPTIONS;
    }
    if (o->zero_copy && run->decompose) {
        complain("--zero-copy --decompose: neighbours write into the wavefield, which may be a snapshot; leave one out");
        return BAD_OPTIONS;
    }
    if (o->sweep && ranks > 1) {
        complain("--sweep: compares settings on one rank, and there are %d; run rtm3d, or one rank", ranks);
        return BAD_OPTIONS;
    }
    return job_prepare(job, o) == 0 ? DONE : BAD_OPTIONS;
}

/* The tasks of rtm3d that rank 0 does alone. */
static int alone(const options_t *o, const job_t *job)
{
    if (o->bench)
        return bench(o) == 0 ? DONE : FAILED;
    return snapshots_dump(job) == 0 ? printed() : FAILED;
}

static int main_of_rank(int argc, char **argv)
{
    run_t run;
    options_t options = {.help = 0};
    job_t job = {.name = NULL};
    int code;

    memset(&run, 0, sizeof run);
    MPI_Comm_rank(MPI_COMM_WORLD, &run.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &run.ranks);
    run.decompose = take_decompose(&argc, argv);
    run.job = &job;
    ROOT_FIRST(code, run.rank, options_parse(&options, argc, argv) == 0 ? DONE : BAD_OPTIONS);
    if (code != DONE)
        return code;
    if (options.help) {
        if (run.rank == 0) {
            options_help("reverse time migration on many ranks, with adjoint checkpointing by gpuzip", "--gradient --taylor --reconstruct --claim --lease --no-wait --only --sum");
            puts("of MPI:\n  --decompose      all ranks migrate each shot together, a slab of the grid each (default: shots are distributed)\n"
                 "  --restart with shots that are distributed: each finished shot is kept in the folder, which all ranks see");
        }
        return DONE;
    }
    if (options.bench)
        return agree(run.rank == 0 ? alone(&options, &job) : DONE);
    ROOT_FIRST(code, run.rank, prepare(&job, &options, &run));
    if (code != DONE)
        /* If only other ranks failed, the end of the process frees this rank's models. */
        return code;
    if (job.dumps > 0)
        code = agree(run.rank == 0 ? alone(&options, &job) : DONE);
    else
        code = job.settings > 0 ? sweep_settings(&run) : run_job(&run);
    job_free(&job);
    return code;
}

int main(int argc, char **argv)
{
    int provided, code;

    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return FAILED;
    if (provided < MPI_THREAD_FUNNELED) {
        complain("this MPI offers no MPI_THREAD_FUNNELED, which rank 0 needs to work beside serving; use one that does");
        node_end_all(MPI_COMM_WORLD);
    }
    code = main_of_rank(argc, argv);
    MPI_Finalize();
    return code;
}
