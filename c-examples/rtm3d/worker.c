#define _POSIX_C_SOURCE 200809L
#include "worker.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "clock.h"
#include "description.h"
#include "image.h"
#include "json.h"
#include "message.h"

#define SHORTEST 0.05   /* seconds of the shortest and the longest wait for other workers */
#define LONGEST 2.0
#define TOLD 60.0       /* seconds between two messages of a waiting worker */

static claims_t *beating;  /* of the worker that computes a shot; worker_beat has no argument */

void worker_beat(void)
{
    if (beating != NULL)
        claims_beat(beating);
}

static int describe(description_t *d, const worker_t *w)
{
    description_of_job(d, w->job, w->truth, w->shot);
    return w->checkpoint != NULL ? checkpoint_describe(w->checkpoint, d) : 0;
}

/* Finds a shot to compute, from shot `*at` on and around. Returns CLAIM_TAKEN with the shot in `*at`,
 * CLAIM_HELD if other workers have all that are left, CLAIM_COMMITTED if none is left. */
static claim_t take_any(worker_t *w, char *committed, size_t *at)
{
    const size_t shots = w->job->shots, first = *at % shots;

    w->held = 0;
    for (size_t i = 0; i < shots; i++) {
        const size_t shot = (first + i) % shots;
        const claim_t claim = committed[shot] ? CLAIM_COMMITTED : claims_take(&w->claims, shot);
        if (claim == CLAIM_TAKEN || claim == CLAIM_FAILED) {
            *at = shot;
            return claim;
        }
        committed[shot] = claim == CLAIM_COMMITTED;
        w->held += claim == CLAIM_HELD;
        claims_beat(&w->claims);
    }
    return w->held > 0 ? CLAIM_HELD : CLAIM_COMMITTED;
}

/* Computes and commits the shot that this worker has. */
static int compute(worker_t *w, size_t shot)
{
    double misfit = 0.0;
    int status;

    image_clear(w->one);
    beating = &w->claims;
    status = w->migrate(w->run, shot, &misfit);
    beating = NULL;
    if (status != 0 || claims_commit(&w->claims, shot, w->one, misfit) != 0)
        return -1;
    w->computed++;
    return 0;
}

/* Adds up all shots in the order of their numbers. Returns SHOT_GOOD, or what the first bad one in
 * `*bad` is. */
static shot_read_t add_up(worker_t *w, size_t *bad)
{
    image_clear(w->sum);
    w->misfit = 0.0;
    for (size_t i = 0; i < w->job->shots; i++) {
        double misfit;
        const shot_read_t found = claims_read(&w->claims, i, w->one, &misfit);
        if (found != SHOT_GOOD) {
            *bad = i;
            return found;
        }
        image_stack(w->sum, w->one);
        w->misfit += misfit;
        claims_beat(&w->claims);
    }
    return SHOT_GOOD;
}

/* Adds up, writes the files of the image and commits the sum, which this worker has claimed. If a
 * shot is damaged, gives the sum back, and the shot is computed again. */
static int finish(worker_t *w, char *committed)
{
    size_t bad = 0;
    const shot_read_t found = add_up(w, &bad);

    if (found == SHOT_FAILED)
        return -1;
    if (found != SHOT_GOOD) {
        if (found == SHOT_DAMAGED)
            claims_discard(&w->claims, bad);
        committed[bad] = 0;
        claims_release(&w->claims);
        return 0;
    }
    if (w->write(w->run) != 0 || claims_commit(&w->claims, w->job->shots, w->sum, w->misfit) != 0)
        return -1;
    claims_sweep(&w->claims);
    w->is_done = w->is_writer = 1;
    return 0;
}

/* All shots are committed: claims and makes their sum, or reads it. Returns CLAIM_HELD if another
 * worker makes it, CLAIM_FAILED, or something else. */
static claim_t conclude(worker_t *w, char *committed)
{
    const claim_t claim = claims_take(&w->claims, w->job->shots);

    if (claim == CLAIM_TAKEN && finish(w, committed) != 0)
        return CLAIM_FAILED;
    if (claim == CLAIM_COMMITTED) {
        const shot_read_t found = claims_read(&w->claims, w->job->shots, w->sum, &w->misfit);
        if (found == SHOT_FAILED)
            return CLAIM_FAILED;
        if (found == SHOT_DAMAGED)
            claims_discard(&w->claims, w->job->shots);
        w->is_done = found == SHOT_GOOD;
    }
    return claim;
}

/* Waits for other workers, each time longer. */
static void wait_for_others(const worker_t *w, double *wait, double *told)
{
    const double now = seconds();
    const struct timespec time = {(time_t)*wait, (long)(1e9 * (*wait - (double)(time_t)*wait))};

    if (now - *told >= TOLD) {
        if (w->held > 0)
            fprintf(stderr, RTM_PROGRAM ": %zu shots are with other workers, one of them with %s; waiting\n", w->held, w->claims.owner);
        else
            fprintf(stderr, RTM_PROGRAM ": %s adds up the shots; waiting\n", w->claims.owner);
        *told = now;
    }
    nanosleep(&time, NULL);
    *wait = *wait * 1.5 < LONGEST ? *wait * 1.5 : LONGEST;
}

static int work(worker_t *w, char *committed)
{
    double wait = SHORTEST, told = seconds() - TOLD;
    size_t at = 0;

    while (!w->is_done) {
        claim_t claim = take_any(w, committed, &at);
        if (claim == CLAIM_TAKEN) {
            if (compute(w, at) != 0)
                return -1;
            committed[at] = 1;
            wait = SHORTEST;
            continue;
        }
        if (claim == CLAIM_COMMITTED)
            claim = conclude(w, committed);
        if (claim == CLAIM_FAILED)
            return -1;
        if (claim == CLAIM_HELD && w->job->no_wait)
            return 0;
        if (claim == CLAIM_HELD)
            wait_for_others(w, &wait, &told);
    }
    return 0;
}

/* --only: waits for another worker that has the shot, and takes the shot over if that worker dies. */
static int only_one(worker_t *w)
{
    const size_t shot = w->job->only - 1;
    double wait = SHORTEST, told = seconds() - TOLD;
    claim_t claim;

    while ((claim = claims_take(&w->claims, shot)) == CLAIM_HELD) {
        w->held = 1;
        if (w->job->no_wait)
            return 0;
        wait_for_others(w, &wait, &told);
    }
    w->held = 0;
    if (claim == CLAIM_FAILED)
        return -1;
    return claim == CLAIM_TAKEN ? compute(w, shot) : 0;
}

/* --sum: nothing is written to the folder. */
static int sum_only(worker_t *w)
{
    size_t bad = 0, missing = 0;
    shot_read_t found;

    for (size_t i = 0; i < w->job->shots; i++)
        missing += !claims_committed(&w->claims, i);
    if (missing > 0)
        return complain("--claim %s --sum: %zu of %zu shots are not committed; start a worker without --sum", w->job->claim, missing, w->job->shots);
    if ((found = add_up(w, &bad)) == SHOT_GOOD) {
        w->is_done = w->is_writer = 1;
        return w->write(w->run);
    }
    if (found == SHOT_FAILED)
        return -1;
    return complain("--claim %s --sum: %s is damaged; remove its file and start a worker without --sum", w->job->claim,
                    claims_shot(&w->claims, bad));
}

int worker_run(worker_t *w)
{
    const job_t *job = w->job;
    description_t description;
    char *committed;
    int status;

    if (describe(&description, w) != 0)
        return -1;
    if (job->sum)
        return claims_look(&w->claims, job->claim, description.text, job->shots) == 0 ? sum_only(w) : -1;
    if (claims_open(&w->claims, job->claim, description.text, job->shots, job->lease) != 0)
        return -1;
    signal(SIGXFSZ, SIG_IGN);  /* a write beyond the largest size of a file is then an error */
    if (job->only > 0)
        return only_one(w);
    committed = calloc(job->shots, 1);
    if (committed == NULL)
        return complain("no memory for %zu shots", job->shots);
    status = work(w, committed);
    free(committed);
    return status;
}

static void report_json_of(const worker_t *w, const outputs_t *files)
{
    printf("{\"shots\": %zu, \"computed\": %zu, \"held\": %zu, \"done\": %s, ", w->job->shots, w->computed, w->held,
           w->is_done ? "true" : "false");
    json_text("survey", w->job->claim);
    if (w->is_done) {
        printf(", \"image_hash\": \"%016" PRIx64 "\", \"illumination_hash\": \"%016" PRIx64 "\"", image_hash(w->sum->correlation, w->sum->cells),
               image_hash(w->sum->illumination, w->sum->cells));
        if (w->job->gradient)
            printf(", \"misfit\": %.17g, \"gradient_hash\": \"%016" PRIx64 "\"", w->misfit, image_hash(w->sum->gradient, w->sum->points));
    }
    if (w->is_writer) {
        printf(", ");
        json_text("image", files->image);
    }
    puts("}");
}

void worker_report(const worker_t *w, const outputs_t *files)
{
    if (w->job->json) {
        report_json_of(w, files);
        return;
    }
    printf("survey            %s: %zu shots, %zu of them computed by this worker\n", w->job->claim, w->job->shots, w->computed);
    if (!w->is_done) {
        if (w->job->only > 0)
            printf("shot %-13zu%s\n", w->job->only, w->held > 0 ? "with another worker" : "committed");
        else
            printf(w->held > 0 ? "not done          %zu shots are with other workers; nothing is left for this one\n"
                               : "not done          another worker adds up the shots\n", w->held);
        return;
    }
    printf("image hash        %016" PRIx64 "\n", image_hash(w->sum->correlation, w->sum->cells));
    if (w->job->gradient)
        printf("misfit            %.9e\ngradient hash     %016" PRIx64 "\n", w->misfit, image_hash(w->sum->gradient, w->sum->points));
    if (w->is_writer)
        printf("look at           %s\n                  %s\n                  %s\n", files->image_png, files->filtered_png, files->model_png);
    else
        printf("written           by the worker that added up the shots; --sum writes the files again\n");
}
