#include "asked.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "checkpoint.h"
#include "json.h"
#include "message.h"

/* Runs a shot until the library has what it needs; then `cfg` has the chosen bound. */
static int measure(gpuzip_quality_t *quality, gpuzip_config_t *cfg, size_t shot, asked_run_t compute, void *run)
{
    for (;;) {
        gpuzip_field_t result = {.n1 = 0};
        int32_t is_wanted;

        if (checkpoint_failed(gpuzip_quality_next(quality, cfg, &is_wanted)))
            return -1;
        if (!is_wanted)
            return 0;
        if (compute(run, cfg, shot, &result) != 0 || checkpoint_failed(gpuzip_quality_result(quality, &result, 1)))
            return -1;
    }
}

int asked_choose(asked_t *a, gpuzip_config_t *cfg, size_t shots, asked_run_t compute, void *run)
{
    gpuzip_quality_t *quality;
    int status;

    if (cfg->quality == NULL || cfg->quality[0] == '\0')
        return 0;
    snprintf(a->text, sizeof a->text, "%s", cfg->quality);
    a->error_bound_mode = cfg->error_bound_mode;
    if (checkpoint_failed(gpuzip_quality_open(cfg, &quality)))
        return -1;
    status = measure(quality, cfg, 0, compute, run);
    if (status == 0 && shots > 1)
        status = checkpoint_failed(gpuzip_quality_check(quality)) ? -1 : measure(quality, cfg, shots / 2, compute, run);
    a->info.struct_size = sizeof a->info;
    if (status == 0 && checkpoint_failed(gpuzip_quality_info(quality, &a->info)))
        status = -1;
    gpuzip_quality_close(quality);
    return status;
}

int asked_keep(asked_t *a, const real *result, size_t values, size_t shots)
{
    if (a->text[0] == '\0')
        return 0;
    if (a->kept == NULL) {
        a->values = values;
        a->kept = malloc(values * sizeof *a->kept);
        a->relative = malloc(shots * sizeof *a->relative);
        a->psnr = malloc(shots * sizeof *a->psnr);
    }
    if (a->kept == NULL || a->relative == NULL || a->psnr == NULL)
        return complain("quality: no memory to compare results of %zu values", values);
    for (size_t i = 0; i < values; i++)
        a->kept[i] = result[i];
    return 0;
}

void asked_compare(asked_t *a, const real *exact)
{
    double error = 0.0, norm = 0.0, lo = INFINITY, hi = -INFINITY;

    if (a->text[0] == '\0')
        return;
    for (size_t i = 0; i < a->values; i++) {
        const double r = exact[i], d = (double)a->kept[i] - r;
        error += d * d;
        norm += r * r;
        lo = fmin(lo, r);
        hi = fmax(hi, r);
    }
    a->relative[a->shots] = sqrt(error / norm);
    a->psnr[a->shots++] = 20.0 * log10((hi - lo) / sqrt(error / (double)a->values));
}

void asked_text(const asked_t *a)
{
    const gpuzip_quality_info_t *q = &a->info;

    if (a->text[0] == '\0')
        return;
    printf("quality           %s asked; %" PRIu32 " runs of %" PRIu32 " shots chose error_bound = %g with error_bound_mode = %d,\n"
           "                  whose result has %.3g in the shot that was measured last\n", a->text, q->runs, q->shots, q->error_bound,
           (int)a->error_bound_mode, q->chosen_error);
    if (a->shots > 0) {
        double worst = a->relative[0], least = a->psnr[0];
        for (size_t i = 1; i < a->shots; i++) {
            worst = fmax(worst, a->relative[i]);
            least = fmin(least, a->psnr[i]);
        }
        printf("                  of all shots the worst has an error of %.3g of its norm, and one of %.1f dB\n", worst, least);
    }
}

/* JSON has neither infinities nor NaN. */
static void json_numbers(const char *key, const double *value, size_t count)
{
    printf(", \"%s\": [", key);
    for (size_t i = 0; i < count; i++)
        printf(isfinite(value[i]) ? "%s%.9g" : "%snull", i > 0 ? ", " : "", value[i]);
    printf("]");
}

void asked_json(const asked_t *a)
{
    const gpuzip_quality_info_t *q = &a->info;

    if (a->text[0] == '\0')
        return;
    printf(", \"quality\": {");
    json_text("asked", a->text);
    printf(", \"error_bound\": %.9g, \"error_bound_mode\": %d, \"runs\": %" PRIu32 ", \"measured_shots\": %" PRIu32, q->error_bound,
           (int)a->error_bound_mode, q->runs, q->shots);
    json_numbers("measured", &q->chosen_error, 1);
    json_numbers("relative_l2", a->relative, a->shots);
    json_numbers("psnr", a->psnr, a->shots);
    printf("}");
}

void asked_close(asked_t *a)
{
    free(a->kept);
    free(a->relative);
    free(a->psnr);
    *a = (asked_t){.kept = NULL};
}
