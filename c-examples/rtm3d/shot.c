#include "shot.h"

#include <stdlib.h>
#include <string.h>

/* Depth of sources and receivers in cells: close to the surface, clear of the first cells of the
 * sponge. */
#define SURFACE 2

/* The cell of the source of shot i of n: in the middle of the i-th of n equal parts of the
 * line. */
static size_t source_cell(const grid_t *g, size_t i, size_t n)
{
    const size_t line3 = g->n3 >= g->n2;  /* the line runs along n3 */
    const size_t length = line3 ? g->n3 : g->n2, width = line3 ? g->n2 : g->n3;
    const size_t along = (2 * i + 1) * length / (2 * n);
    const size_t side = width / 8;  /* 0 in 2-D */
    const size_t across = i % 2 == 0 ? width / 2 - side : width / 2 + side;

    return line3 ? grid_index(g, SURFACE, across, along) : grid_index(g, SURFACE, along, across);
}

int survey_init(survey_t *s, const grid_t *g, size_t steps, size_t shots, double dt, double freq)
{
    *s = (survey_t){.steps = steps, .every = 1, .shots = shots, .receivers = g->n2 * g->n3};
    s->source = malloc(shots * sizeof *s->source);
    s->receiver = malloc(s->receivers * sizeof *s->receiver);
    s->wavelet = malloc(steps * sizeof *s->wavelet);
    if (s->source == NULL || s->receiver == NULL || s->wavelet == NULL) {
        survey_free(s);
        return -1;
    }
    for (size_t i = 0; i < shots; i++)
        s->source[i] = source_cell(g, i, shots);
    for (size_t r = 0; r < s->receivers; r++)
        s->receiver[r] = grid_index(g, SURFACE, r % g->n2, r / g->n2);
    for (size_t k = 0; k < steps; k++)
        s->wavelet[k] = (real)ricker((double)k * dt, freq);
    return 0;
}

void survey_free(survey_t *s)
{
    free(s->source);
    free(s->receiver);
    free(s->wavelet);
    *s = (survey_t){.source = NULL};
}

int image_init(image_t *image, const grid_t *g)
{
    const size_t cells = g->n1 * g->n2 * g->n3;
    *image = (image_t){.cells = cells, .correlation = calloc(cells, sizeof(real)),
                       .illumination = calloc(cells, sizeof(real))};
    if (image->correlation != NULL && image->illumination != NULL)
        return 0;
    image_free(image);
    return -1;
}

int image_add_gradient(image_t *image, const grid_t *g)
{
    image->points = g->points;
    image->gradient = field_alloc(g);
    return image->gradient != NULL ? 0 : -1;
}

void image_free(image_t *image)
{
    free(image->gradient);
    free(image->correlation);
    free(image->illumination);
    *image = (image_t){.correlation = NULL};
}

void image_clear(image_t *image)
{
    memset(image->correlation, 0, image->cells * sizeof *image->correlation);
    memset(image->illumination, 0, image->cells * sizeof *image->illumination);
    if (image->gradient != NULL)
        memset(image->gradient, 0, image->points * sizeof *image->gradient);
}

void image_stack(image_t *sum, const image_t *shot)
{
    for (size_t i = 0; i < sum->cells; i++) {
        sum->correlation[i] += shot->correlation[i];
        sum->illumination[i] += shot->illumination[i];
    }
    for (size_t i = 0; sum->gradient != NULL && i < sum->points; i++)
        sum->gradient[i] += shot->gradient[i];
}

int shot_init(shot_t *shot, const medium_t *medium, const survey_t *survey)
{
    const grid_t *g = &medium->grid;
    int status = 0;

    *shot = (shot_t){.medium = medium, .survey = survey};
    status |= wavefield_init(&shot->u, g);
    status |= wavefield_init(&shot->lambda, g);
    if (survey->every > 1)
        status |= wavefield_init(&shot->ahead, g);
    shot->observed = calloc(survey->steps, survey->receivers * sizeof *shot->observed);
    shot->synthetic = calloc(survey->steps, survey->receivers * sizeof *shot->synthetic);
    if (status == 0 && shot->observed != NULL && shot->synthetic != NULL)
        return 0;
    shot_free(shot);
    return -1;
}

void shot_free(shot_t *shot)
{
    wavefield_free(&shot->u);
    wavefield_free(&shot->lambda);
    wavefield_free(&shot->ahead);
    free(shot->observed);
    free(shot->synthetic);
    *shot = (shot_t){.medium = NULL};
}

static void advance(shot_t *shot, const medium_t *medium, wavefield_t *w, real *next)
{
    if (shot->exchange != NULL)
        shot->exchange(shot->part, w->curr);
    propagate_to(medium, w, next);
    if (shot->stepped != NULL)
        shot->stepped();
}

/* Computes u(ts) with its source in `next` and records the data at ts in `data`, unless `data` is
 * NULL. */
static void step(shot_t *shot, const medium_t *medium, size_t ts, real *data, real *next)
{
    const survey_t *s = shot->survey;

    advance(shot, medium, &shot->u, next);
    if (shot->source != NOWHERE)
        inject(medium, &shot->u, shot->source, s->wavelet[ts - 1]);
    if (data != NULL)
        for (size_t r = 0; r < s->receivers; r++)
            data[ts * s->receivers + r] = shot->u.curr[s->receiver[r]];
}

void shot_begin(shot_t *shot)
{
    wavefield_rest(&shot->u, &shot->medium->grid);
    wavefield_rest(&shot->lambda, &shot->medium->grid);
}

void shot_observe(shot_t *shot, const medium_t *truth, size_t number)
{
    shot->source = shot->survey->source[number];
    shot_begin(shot);
    for (size_t ts = 1; ts < shot->survey->steps; ts++)
        step(shot, truth, ts, shot->observed, shot->u.prev);
}

void shot_forward(shot_t *shot, size_t ts, int record)
{
    shot_forward_to(shot, ts, record, shot->u.prev);
}

void shot_forward_to(shot_t *shot, size_t ts, int record, real *next)
{
    step(shot, shot->medium, ts, record ? shot->synthetic : NULL, next);
}

void shot_record_rest(shot_t *shot, size_t ts)
{
    const grid_t *g = &shot->medium->grid;
    const wavefield_t u = shot->u;

    if (ts + 1 >= shot->survey->steps)
        return;
    field_copy(g, shot->ahead.curr, u.curr);
    field_copy(g, shot->ahead.prev, u.prev);
    shot->u = shot->ahead;
    for (size_t next = ts + 1; next < shot->survey->steps; next++)
        shot_forward(shot, next, 1);
    shot->ahead = shot->u;  /* curr and prev may have changed places */
    shot->u = u;
}

void shot_reverse(shot_t *shot, size_t ts)
{
    const survey_t *s = shot->survey;
    const wavefield_t u = shot->u;

    if (ts + 2 == s->steps) {
        shot->u = (wavefield_t){.curr = u.prev, .prev = u.curr};
        return;
    }
    propagate_back(shot->medium, &shot->u);
    inject(shot->medium, &shot->u, shot->source, s->wavelet[ts + 1]);
    if (shot->stepped != NULL)
        shot->stepped();
}

/* I += u lambda and S += u^2 on the cells of the model. */
static void correlate(const grid_t *g, const real *u, const real *lambda, image_t *image)
{
#pragma omp parallel for schedule(static)
    for (size_t line = 0; line < g->n2 * g->n3; line++) {
        const size_t at = grid_index(g, 0, line % g->n2, line / g->n2);
        const real *restrict ul = u + at, *restrict ll = lambda + at;
        real *restrict corr = image->correlation + line * g->n1;
        real *restrict illum = image->illumination + line * g->n1;
#pragma omp simd
        for (size_t i = 0; i < g->n1; i++) {
            corr[i] += ul[i] * ll[i];
            illum[i] += ul[i] * ul[i];
        }
    }
}

/* Computes lambda(ts+1) -> lambda(ts). */
static void step_back(shot_t *shot, size_t ts)
{
    const survey_t *s = shot->survey;
    const size_t at = (ts + 1) * s->receivers;

    advance(shot, shot->medium, &shot->lambda, shot->lambda.prev);
    for (size_t r = 0; ts + 1 < s->steps && r < s->receivers; r++)
        inject(shot->medium, &shot->lambda, s->receiver[r],
               shot->observed[at + r] - shot->synthetic[at + r]);
}

void shot_backward(shot_t *shot, size_t ts, size_t ts_end, const real *u, image_t *image)
{
    for (size_t t = ts_end + 1; t-- > ts;)
        step_back(shot, t);
    correlate(&shot->medium->grid, u, shot->lambda.curr, image);
    if (image->gradient != NULL) {
        correlate_laplacian(shot->medium, u, shot->lambda.curr, image->gradient);
        image->gradient[shot->source] += shot->lambda.curr[shot->source] * shot->survey->wavelet[ts];
    }
}
