#define _POSIX_C_SOURCE 200809L
#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "message.h"
#include "taylor.h"

#define REDRAW 0.1  /* seconds between two drawings of the bar */
#define QUIET 2.0   /* seconds between two lines if stderr is no terminal */
#define LONGEST 60.0  /* seconds after which a line is printed before a tenth of the run is done */

static struct {
    int running, terminal;
    /* Times in seconds, and the share of the steps at the last output. */
    double begun, told, told_share;
    double done, all;                /* time steps */
    size_t shot, shots;
    const char *what;
} now;

double progress_steps_of_shot(const job_t *job, const checkpoint_t *c)
{
    const double once = (double)(job->steps - 1);
    double steps = once + (double)c->plan.forward_steps + (double)c->plan.backward_steps + c->more_steps;

    steps += (double)((job->steps - 1) % job->every);  /* shot_record_rest */
    if (job->verify)
        steps += 2.0 * once + 1.0;
    return steps + (job->taylor ? TAYLOR_SIZES * once : 0.0);
}

/* Formats bytes with a unit that leaves one to three digits before the point. */
static const char *bytes_text(double bytes, char *text, size_t size)
{
    static const char *const UNITS[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;

    for (; bytes >= 1000.0 && unit + 1 < sizeof UNITS / sizeof *UNITS; unit++)
        bytes /= 1000.0;
    snprintf(text, size, unit > 0 ? "%.1f %s" : "%.0f %s", bytes, UNITS[unit]);
    return text;
}

void progress_size(const job_t *job, const checkpoint_t *c, size_t state_bytes, unsigned fields)
{
    const grid_t *g = &job->grid;
    const double state = (double)state_bytes, steps = progress_steps_of_shot(job, c) * (double)job->shots;
    char one[32], kept[32], all[32];

    fprintf(stderr, RTM_PROGRAM ": %zu x %zu x %zu cells of %g m, with sponge and halo %zu x %zu x %zu; shots: %zu of %zu time steps each\n", g->n1,
            g->n2, g->n3, g->dx, g->e1, g->e2, g->e3, job->shots, job->steps);
    fprintf(stderr, RTM_PROGRAM ": %s %u fields, %s: planned are %d snapshots at a time, %s%s; %s %zu states would take %s\n",
            c->reconstruct ? "the strips of a state are" : "a state has", fields,
            bytes_text(state, one, sizeof one), (int)c->plan.snapshots, bytes_text(state * c->plan.snapshots, kept, sizeof kept),
            c->plan.compressor != GPUZIP_COMPRESSOR_NONE ? " before compression" : "", c->reconstruct ? "those of all" : "all", job->steps,
            bytes_text(state * (double)job->steps, all, sizeof all));
    fprintf(stderr, RTM_PROGRAM ": %.0f time steps of %.3g million points are to be taken\n", steps, (double)g->points / 1e6);
}

/* Formats seconds in one or two units. */
static const char *time_text(double s, char *text, size_t size)
{
    if (s < 100.0)
        snprintf(text, size, "%.0f s", s);
    else if (s < 7200.0)
        snprintf(text, size, "%.0f min %.0f s", floor(s / 60.0), floor(fmod(s, 60.0)));
    else
        snprintf(text, size, "%.0f h %.0f min", floor(s / 3600.0), floor(fmod(s, 3600.0) / 60.0));
    return text;
}

static void tell(double time, double share)
{
    char bar[31], since[32], left[32];

    time_text(time - now.begun, since, sizeof since);
    time_text(share > 0.0 ? (time - now.begun) * (1.0 - share) / share : 0.0, left, sizeof left);
    if (now.terminal) {
        const size_t full = (size_t)(share * (double)(sizeof bar - 1));
        memset(bar, ' ', sizeof bar - 1);
        memset(bar, '#', full);
        bar[sizeof bar - 1] = '\0';
        fprintf(stderr, "\r[%s] %3.0f %% shot %zu of %zu, %s; %s, %s left\x1b[K", bar, floor(100.0 * share), now.shot + 1, now.shots, now.what, since, left);
    } else {
        fprintf(stderr, RTM_PROGRAM ": %3.0f %% after %s, %s left (shot %zu of %zu, %s)\n", floor(100.0 * share), since, left, now.shot + 1, now.shots,
                now.what);
    }
    now.told = time;
    now.told_share = share;
}

/* Prints the progress if it is time. */
static void look(void)
{
    const double time = seconds(), share = now.all > 0.0 ? fmin(1.0, now.done / now.all) : 0.0;

    if (now.terminal ? time - now.told >= REDRAW
                     : time - now.told >= QUIET && (share - now.told_share >= 0.1 || time - now.told >= LONGEST))
        tell(time, share);
}

void progress_begin(double steps)
{
    memset(&now, 0, sizeof now);
    now.running = 1;
    now.terminal = isatty(STDERR_FILENO);
    now.begun = now.told = seconds();
    now.all = steps;
    now.what = "";
}

void progress_replan(double steps)
{
    now.all = steps;
}

void progress_shot(size_t shot, size_t shots, const char *what)
{
    now.shot = shot;
    now.shots = shots;
    now.what = what;
    if (now.running && now.terminal)
        look();
}

void progress_step(void)
{
    now.done++;
    if (now.running)
        look();
}

void progress_end(void)
{
    if (now.running && now.terminal)
        fprintf(stderr, "\r\x1b[K");
    now.running = 0;
}
