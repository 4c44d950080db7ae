#define _POSIX_C_SOURCE 200809L /* setenv, faccessat */
#include "restart.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint.h"
#include "message.h"

int restart_name(const char *folder)
{
    const int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int is_survey = at >= 0 && faccessat(at, DESCRIPTION_FILE, F_OK, 0) == 0;

    if (at >= 0)
        close(at);
    if (is_survey)
        return complain("--restart %s: the folder holds shots of rtm3d --claim, or of rtm3d_mpi --restart without --decompose; give another "
                        "folder", folder);
    return setenv("GPUZIP_PERSIST_DIR", folder, 1) == 0 ? 0 : complain("--restart %s: no memory for its name", folder);
}

void restart_job(restart_t *r, const job_t *job, const medium_t *truth)
{
    description_of_job(&r->job, job, truth, r->shot);
}

/* Compares the description of this run with that of the restart files, which is in r->job now. */
static int check_job(restart_t *r, description_t mine)
{
    const char *there, *here;

    r->job.text[sizeof r->job.text - 1] = '\0';
    if (!description_differs(r->job.text, mine.text, 0, &there, &here))
        return 0;
    return complain("--restart %s: the run that wrote the files had %s, this run has %s; give the options of that run, or another folder",
                    r->folder, there, here);
}

static void keep(restart_t *r, const char *name, int32_t scope, void *data, size_t count, int32_t type)
{
    gpuzip_array_t *a = &r->array[r->arrays++];

    memset(a, 0, sizeof *a);
    a->name = name;
    a->scope = scope;
    a->field.data = data;
    a->field.n1 = count;
    a->field.n2 = a->field.n3 = 1;
    a->field.type = type;
}

static void keep_image(restart_t *r, const char *const name[3], int32_t scope, const image_t *image, int32_t type)
{
    keep(r, name[0], scope, image->correlation, image->cells, type);
    keep(r, name[1], scope, image->illumination, image->cells, type);
    if (image->gradient != NULL)
        keep(r, name[2], scope, image->gradient, image->points, type);
}

/* Lists what a run needs to go on. Between shots that is the sum of the images alone; within a shot
 * also the state, the adjoint state, the data, and what the shot has added to the image so far. curr and
 * prev change places at every step, so the list is made anew for each use. */
static void list(restart_t *r)
{
    static const char *const stacked[] = {"image", "illumination", "gradient"};
    static const char *const partial[] = {"image of the shot", "illumination of the shot", "gradient of the shot"};
    static const char *const verified[] = {"expected image", "expected illumination", "expected gradient"};
    const int32_t type = sizeof(real) == sizeof(double);
    const shot_t *s = r->shot;
    const grid_t *g = &s->medium->grid;
    const size_t points = g->e1 * g->e2 * g->e3, data = s->survey->steps * s->survey->receivers;

    r->arrays = 0;
    keep(r, "job", 0, r->job.text, sizeof r->job.text, GPUZIP_TYPE_BYTE);
    if (r->image != NULL)
        keep_image(r, stacked, 0, r->image, type);
    if (r->expected != NULL)
        keep_image(r, verified, 0, r->expected, type);
    if (r->misfit != NULL)
        keep(r, "misfit", 0, r->misfit, 1, GPUZIP_TYPE_F64);
    keep_image(r, partial, 1, r->one, type);
    keep(r, "u", 1, s->u.curr, points, type);
    keep(r, "u before", 1, s->u.prev, points, type);
    keep(r, "lambda", 1, s->lambda.curr, points, type);
    keep(r, "lambda after", 1, s->lambda.prev, points, type);
    keep(r, "observed data", 1, s->observed, data, type);
    keep(r, "synthetic data", 1, s->synthetic, data, type);
}

int restart_open(restart_t *r, const gpuzip_persist_options_t *options)
{
    gpuzip_generation_t found = {.struct_size = sizeof found};
    const description_t mine = r->job;

    r->number = 0;
    r->within = 0;
    list(r);
    if (checkpoint_failed(gpuzip_persist_open(r->session, options)) ||
        checkpoint_failed(gpuzip_catch_signals(NULL, 0)) ||
        checkpoint_failed(gpuzip_persist_find(r->session, &found)))
        return -1;
    if (found.generation == 0)
        return 0;
    if (checkpoint_failed(gpuzip_persist_read(r->session, r->array, r->arrays, NULL)))
        return -1;
    if (check_job(r, mine) != 0)
        return -1;
    r->job = mine;  /* the lines were cut apart */
    r->number = (size_t)found.shot;
    r->within = found.it >= 0;
    if (options != NULL && options->rank > 0)
        return 0;
    if (r->within)
        fprintf(stderr, RTM_PROGRAM ": goes on within shot %zu, after action %lld (generation %lld in %s)\n", r->number + 1,
                (long long)found.it, (long long)found.generation, r->folder);
    else
        fprintf(stderr, RTM_PROGRAM ": goes on with shot %zu (generation %lld in %s)\n", r->number + 1,
                (long long)found.generation, r->folder);
    return 0;
}

/* Writes a generation if one is due; after a request to stop waits until the generation is on the
 * disk. */
static int step(restart_t *r)
{
    gpuzip_status_t status;
    int32_t due;

    if (checkpoint_failed(gpuzip_persist_due(r->session, &due)))
        return RESTART_FAILED;
    if (due == GPUZIP_DUE_NO)
        return RESTART_GO_ON;
    list(r);
    status = gpuzip_persist_write(r->session, (int64_t)r->number, r->array, r->arrays, NULL);
    if (status == GPUZIP_ERR_IO && due != GPUZIP_DUE_STOP) {
        /* A full disk must not end a run: the older generations are as they were. */
        warn("--restart %s: the run goes on without a new generation: %s", r->folder, gpuzip_last_error());
        return RESTART_GO_ON;
    }
    if (checkpoint_failed(status))
        return RESTART_FAILED;
    if (due != GPUZIP_DUE_STOP)
        return RESTART_GO_ON;
    if (checkpoint_failed(gpuzip_persist_wait(r->session)))
        return RESTART_FAILED;
    return RESTART_STOPPED;
}

int restart_between(restart_t *r, size_t shot)
{
    r->number = shot;
    return step(r);
}

int restart_within(restart_t *r)
{
    return step(r);
}
