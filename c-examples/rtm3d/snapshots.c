#include "snapshots.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "message.h"
#include "new_file.h"
#include "output.h"
#include "shot.h"

#define FILLED 1e-3  /* a value counts as filled from this share of the largest value on */
#define BAND 2.5     /* a Ricker wavelet has almost no energy above 2.5 times its peak frequency */

/* Both time levels of a state, curr first. */
typedef struct dump_t {
    char path[2][1200];
    double max[2];     /* largest |value| */
    double filled[2];  /* share of the values that count as filled */
} dump_t;

static int ascending(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

size_t *snapshots_list(const char *text, size_t steps, size_t *count)
{
    size_t *list = malloc((strlen(text) / 2 + 1) * sizeof *list), n = 0, kept = 0;
    const char *at = text;

    for (;;) {
        char *end;
        unsigned long long step;

        errno = 0;
        step = *at >= '0' && *at <= '9' ? strtoull(at, &end, 10) : (end = (char *)at, 0);
        if (list == NULL || end == at || (*end != ',' && *end != '\0')) {
            complain("--dump-snapshots %s: not a list of time steps such as 800,1500", text);
            break;
        }
        if (errno != 0 || step > steps) {
            complain("--dump-snapshots %s: %.*s is not one of the steps 0 to %zu; give more --steps",
                     text, (int)(end - at), at, steps);
            break;
        }
        list[n++] = (size_t)step;
        if (*end == '\0') {
            qsort(list, n, sizeof *list, ascending);
            for (size_t i = 0; i < n; i++)
                if (i == 0 || list[i] != list[i - 1])
                    list[kept++] = list[i];
            *count = kept;
            return list;
        }
        at = end + 1;
    }
    free(list);
    return NULL;
}

/* Converts values to little-endian FP32, on any machine and for any `real`. */
static void to_bytes(unsigned char *out, const real *in, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float value = (float)in[i];
        uint32_t bits;
        memcpy(&bits, &value, 4);
        for (int b = 0; b < 4; b++)
            out[4 * i + (size_t)b] = (unsigned char)(bits >> (8 * b));
    }
}

static int write_field(const char *path, const grid_t *g, const real *field)
{
    FILE *file = new_file(path);
    unsigned char *line = malloc(4 * g->e1);
    int status = file != NULL && line != NULL ? 0 : -1;

    for (size_t i = 0; status == 0 && i < g->e2 * g->e3; i++) {
        to_bytes(line, field + i * g->e1, g->e1);
        status = fwrite(line, 4, g->e1, file) == g->e1 ? 0 : -1;
    }
    free(line);
    if (file != NULL && fclose(file) != 0)
        status = -1;
    return status == 0 ? 0 : complain("%s: cannot be written", path);
}

static void measure(const grid_t *g, const real *field, double *max, double *filled)
{
    size_t above = 0;

    *max = 0.0;
    for (size_t i = 0; i < g->points; i++)
        *max = fmax(*max, fabs(field[i]));
    for (size_t i = 0; i < g->points; i++)
        above += fabs(field[i]) > FILLED * *max;
    *filled = (double)above / (double)g->points;
}

static int write_state(dump_t *d, const job_t *job, size_t step, const wavefield_t *u)
{
    static const char *const levels[2] = {"curr", "prev"};
    const grid_t *g = &job->grid;

    for (int i = 0; i < 2; i++) {
        const real *field = i == 0 ? u->curr : u->prev;
        const int n = snprintf(d->path[i], sizeof d->path[i], "%s/snapshot_%zux%zux%zu_step%04zu_%s.f32",
                               job->out, g->e1, g->e2, g->e3, step, levels[i]);
        if (n < 0 || (size_t)n >= sizeof d->path[i])
            return complain("--out %s: the path is too long", job->out);
        if (write_field(d->path[i], g, field) != 0)
            return -1;
        measure(g, field, &d->max[i], &d->filled[i]);
    }
    return 0;
}

static int sweep(const job_t *job, shot_t *shot, dump_t *dumps)
{
    size_t ts = 0;

    for (size_t i = 0; i < job->dumps; i++) {
        while (ts < job->dump[i])
            shot_forward(shot, ++ts, 0);
        if (write_state(&dumps[i], job, ts, &shot->u) != 0)
            return -1;
    }
    return 0;
}

static double points_per_wavelength(const job_t *job, double freq)
{
    return job->vmin / (freq * job->grid.dx);
}

static void print_text(const job_t *job, const dump_t *dumps)
{
    const grid_t *g = &job->grid;

    printf("model       %s, %zu x %zu x %zu cells of %g m\n", job->name, g->n1, g->n2, g->n3, g->dx);
    printf("snapshots   %zu x %zu x %zu: the model, %zu cells of sponge and %d of zeros on every side\n",
           g->e1, g->e2, g->e3, g->border, HALO);
    printf("waves       Ricker wavelet of %g Hz, time steps of %g s\n", job->freq, job->dt);
    printf("            %.1f points per shortest wavelength at %g Hz, %.1f at %g Hz, the end of its band\n",
           points_per_wavelength(job, job->freq), job->freq,
           points_per_wavelength(job, BAND * job->freq), BAND * job->freq);
    for (size_t i = 0; i < job->dumps; i++)
        for (int l = 0; l < 2; l++)
            printf("step %-6zu largest value %.4e, %4.1f %% of the values above 1e-3 of it: %s\n",
                   job->dump[i], dumps[i].max[l], 100.0 * dumps[i].filled[l], dumps[i].path[l]);
}

static void print_json(const job_t *job, const dump_t *dumps)
{
    static const char *const levels[2] = {"curr", "prev"};
    const grid_t *g = &job->grid;

    printf("{");
    json_text("model", job->name);
    printf(", \"n1\": %zu, \"n2\": %zu, \"n3\": %zu, \"sponge\": %zu, \"halo\": %d, \"dx\": %.9g, \"dt\": %.9g, "
           "\"freq\": %.9g, \"points_per_wavelength_peak\": %.3f, \"points_per_wavelength_max\": %.3f, "
           "\"snapshots\": [", g->e1, g->e2, g->e3, g->border, HALO, g->dx, job->dt, job->freq,
           points_per_wavelength(job, job->freq), points_per_wavelength(job, BAND * job->freq));
    for (size_t i = 0; i < 2 * job->dumps; i++) {
        const dump_t *d = &dumps[i / 2];
        printf("%s{\"step\": %zu, \"level\": \"%s\", \"max\": %.9g, \"filled\": %.6f, ",
               i > 0 ? ", " : "", job->dump[i / 2], levels[i % 2], d->max[i % 2], d->filled[i % 2]);
        json_text("file", d->path[i % 2]);
        printf("}");
    }
    puts("]}");
}

int snapshots_dump(const job_t *job)
{
    const grid_t *g = &job->grid;
    dump_t *dumps = calloc(job->dumps, sizeof *dumps);
    medium_t medium = {.scale = NULL};
    survey_t survey = {.source = NULL};
    /* Only a forward sweep: no data, no adjoint. */
    shot_t shot = {.medium = &medium, .survey = &survey};
    int status = -1;

    if (dumps == NULL || medium_init(&medium, g, job->dt, job->smooth) != 0 ||
        survey_init(&survey, g, job->steps, job->shots, job->dt, job->freq) != 0 ||
        wavefield_init(&shot.u, g) != 0) {
        complain("no memory for %zu points", g->points);
    } else if (output_folder(job->out) == 0) {
        shot.source = survey.source[0];
        status = sweep(job, &shot, dumps);
    }
    if (status == 0)
        (job->json ? print_json : print_text)(job, dumps);
    shot_free(&shot);
    survey_free(&survey);
    medium_free(&medium);
    free(dumps);
    return status;
}
