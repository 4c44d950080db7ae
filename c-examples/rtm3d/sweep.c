#define _POSIX_C_SOURCE 200809L
#include "sweep.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "display.h"
#include "image.h"
#include "json.h"
#include "message.h"
#include "quality.h"

/*
 * The image before the filter, after the filter, and as shown in its picture. The first two are
 * dominated by values around sources and receivers; the third shows the reflectors below.
 */
enum { PLAIN, FILTERED, SHOWN, VIEWS };
static const char *const PREFIX[VIEWS] = {"", "filtered_", "shown_"};

typedef struct views_t {
    float *of[VIEWS];
} views_t;

typedef struct row_t {
    const setting_t *setting;
    char error[512];  /* why the row has no results; empty: it has results */
    gpuzip_summary_t plan;
    gpuzip_stats_t stats;
    double seconds;
    quality_t quality[VIEWS];
} row_t;

static const setting_t RAW = {.text = "none"};

static int views_open(views_t *v, size_t cells)
{
    int status = 0;

    for (int i = 0; i < VIEWS; i++) {
        v->of[i] = malloc(cells * sizeof *v->of[i]);
        status |= v->of[i] == NULL;
    }
    return status == 0 ? 0 : -1;
}

static void views_close(views_t *v)
{
    for (int i = 0; i < VIEWS; i++)
        free(v->of[i]);
}

static void views_make(views_t *v, const grid_t *g, const image_t *image)
{
    image_normalise(image, v->of[PLAIN]);
    image_filter(g, v->of[PLAIN], v->of[FILTERED]);
    for (size_t i = 0; i < image->cells; i++)
        v->of[SHOWN][i] = (float)(v->of[FILTERED][i] * display_gain(g, i % g->n1));
}

/* Prints progress if stderr is a terminal. */
static void progress(const char *what)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%-72s\r%s", "", what);
}

/* Migrates with one setting. Returns 0, or -1 with the reason in row->error. */
static int migrate(row_t *row, const job_t *job, const migrator_t *m, image_t *image, views_t *v)
{
    checkpoint_t c;
    int status = -1;

    progress(row->setting->text);
    image_clear(image);
    if (checkpoint_start(&c, job->config, job->zero_copy, job->reconstruct, row->setting, &job->grid, job->steps, job->every, m->u) >= 0 &&
        m->migrate(m->run, job, &c, image, &row->seconds) == 0) {
        row->plan = c.plan;
        row->stats = c.total;
        views_make(v, &job->grid, image);
        status = 0;
    } else {
        snprintf(row->error, sizeof row->error, "%s", gpuzip_last_error());
    }
    checkpoint_close(&c);
    return status;
}

static int measure(row_t *row, const job_t *job, const views_t *reference, const views_t *v)
{
    int status = 0;

    for (int i = 0; i < VIEWS; i++)
        status |= quality_measure(&row->quality[i], &job->grid, reference->of[i], v->of[i]);
    return status == 0 ? 0 : complain("--sweep: no memory to compare images");
}

/* Runs every row; the row of raw snapshots is the reference. */
static int run_rows(row_t *rows, const job_t *job, const migrator_t *m, image_t *image, views_t *reference,
                    views_t *v)
{
    row_t raw = {.setting = &RAW};

    if (migrate(&raw, job, m, image, reference) != 0)
        return complain("--sweep: the migration with raw snapshots failed: %s", raw.error);
    for (size_t i = 0; i < job->settings; i++) {
        rows[i].setting = &job->setting[i];
        if (rows[i].setting->compressor == GPUZIP_COMPRESSOR_NONE) {
            rows[i] = raw;
            rows[i].setting = &job->setting[i];
            if (measure(&rows[i], job, reference, reference) != 0)
                return -1;
        } else if (migrate(&rows[i], job, m, image, v) == 0 && measure(&rows[i], job, reference, v) != 0) {
            return -1;
        }
    }
    progress("");
    return 0;
}

static double ratio(const row_t *row)
{
    return row->stats.stored_bytes > 0 ? (double)row->stats.raw_bytes / (double)row->stats.stored_bytes : NAN;
}

static void text_row(const row_t *r)
{
    printf("%-19s %5d %6.2f %8.2f %8.3f", r->setting->text, (int)r->plan.snapshots, ratio(r), r->seconds, r->stats.stall);
    for (int v = 0; v < VIEWS; v++)
        printf(" %6.1f %.5f %8.3g", r->quality[v].psnr, r->quality[v].ssim, 100.0 * r->quality[v].relative_l2);
    printf("\n");
}

static void print_text(const job_t *job, const row_t *rows)
{
    const grid_t *g = &job->grid;

    printf("model    %s, %zu x %zu x %zu cells of %g m\n", job->name, g->n1, g->n2, g->n3, g->dx);
    printf("survey   %zu shots, %zu steps of %g s, Ricker wavelet of %g Hz\n", job->shots, job->steps, job->dt,
           job->freq);
    printf("images   against the one of raw snapshots: as it is, filtered, and filtered with the picture's mute and gain\n");
    printf("         relative L2 in %%; SSIM in windows of %d cells a side\n\n", SSIM_WINDOW);
    printf("%-46s%-28s%-28s%s\n", "", "image", "filtered", "as shown");
    printf("%-19s snaps  ratio   time s  stall s", "codec");
    for (int v = 0; v < VIEWS; v++)
        printf("     dB    SSIM      L2 %%");
    printf("\n");
    for (size_t i = 0; i < job->settings; i++) {
        const row_t *r = &rows[i];
        if (r->error[0] != '\0')
            printf("%-19s %s\n", r->setting->text, r->error);
        else
            text_row(r);
    }
}

/* JSON has neither infinities nor NaN. */
static void json_number(const char *key, double value)
{
    if (isfinite(value))
        printf(", \"%s\": %.9g", key, value);
    else
        printf(", \"%s\": null", key);
}

static void json_quality(const char *prefix, const quality_t *q, int known)
{
    char key[64];
    const struct { const char *name; double value; } figures[] = {
        {"psnr", q->psnr}, {"ssim", q->ssim}, {"relative_l2", q->relative_l2}};

    for (size_t i = 0; i < 3; i++) {
        snprintf(key, sizeof key, "%s%s", prefix, figures[i].name);
        json_number(key, known ? figures[i].value : NAN);
    }
}

static void json_row(const row_t *r)
{
    const setting_t *s = r->setting;
    const int known = r->error[0] == '\0';
    const gpuzip_stats_t *t = &r->stats;

    printf("{");
    json_text("codec", s->text);
    if (s->has_bound) {
        printf(", ");
        json_text("bound_mode", setting_mode(s->error_bound_mode));
    } else {
        printf(", \"bound_mode\": null");
    }
    json_number("bound", s->has_bound ? s->error_bound : NAN);
    json_number("rate", s->has_rate ? (double)s->zfp_bit_rate : NAN);
    printf(", \"error\": ");
    if (known)
        printf("null");
    else
        json_string(r->error);
    json_number("ratio", known ? ratio(r) : NAN);
    printf(", \"raw_bytes\": %" PRIu64 ", \"stored_bytes\": %" PRIu64 ", \"snapshots\": %d, \"forward_steps\": %" PRIu64
           ", \"saves\": %" PRIu64 ", \"restores\": %" PRIu64, t->raw_bytes, t->stored_bytes, (int)r->plan.snapshots,
           t->forward_steps, t->saves, t->restores);
    json_number("seconds", known ? r->seconds : NAN);
    json_number("stall", known ? t->stall : NAN);
    json_number("compress", known ? t->compress : NAN);
    json_number("decompress", known ? t->decompress : NAN);
    for (int v = 0; v < VIEWS; v++)
        json_quality(PREFIX[v], &r->quality[v], known);
    printf("}");
}

static void print_json(const job_t *job, const row_t *rows)
{
    const grid_t *g = &job->grid;

    printf("{\"n1\": %zu, \"n2\": %zu, \"n3\": %zu, \"dx\": %.9g, \"dt\": %.9g, \"steps\": %zu, \"shots\": %zu, "
           "\"freq\": %.9g, \"ssim_window\": %d, ", g->n1, g->n2, g->n3, g->dx, job->dt, job->steps, job->shots,
           job->freq, SSIM_WINDOW);
    json_text("model", job->name);
    printf(", \"results\": [");
    for (size_t i = 0; i < job->settings; i++) {
        printf(i > 0 ? ", " : "");
        json_row(&rows[i]);
    }
    puts("]}");
}

int sweep(const job_t *job, const migrator_t *migrator)
{
    row_t *rows = calloc(job->settings, sizeof *rows);
    image_t image = {.correlation = NULL};
    views_t reference = {.of = {NULL}}, views = {.of = {NULL}};
    int status = -1;

    if (rows == NULL || image_init(&image, &job->grid) != 0 || views_open(&reference, image.cells) != 0 ||
        views_open(&views, image.cells) != 0)
        complain("--sweep: no memory for images");
    else
        status = run_rows(rows, job, migrator, &image, &reference, &views);
    if (status == 0)
        (job->json ? print_json : print_text)(job, rows);
    views_close(&views);
    views_close(&reference);
    image_free(&image);
    free(rows);
    return status;
}
