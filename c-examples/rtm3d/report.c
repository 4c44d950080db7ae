#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "json.h"
#include "image.h"
#include "quality.h"
#include "reference.h"
#include "setting.h"
#include "stats.h"

static const char *policy_name(int32_t policy)
{
    return policy == 1 ? "lru" : "clairvoyant";
}

/* A ratio to the time of the migration; 0 if there was none, since all shots came from --restart. */
static double per_second(double amount, const results_t *r)
{
    return r->migration > 0.0 ? amount / r->migration : 0.0;
}

/* Points that the migration advanced per second, forward and backward. */
static double points_per_second(const job_t *job, const checkpoint_t *c, const results_t *r)
{
    const grid_t *g = &job->grid;
    const double points = (double)(g->e1 - 2 * HALO) * (double)(g->e2 - 2 * HALO) *
                          (double)(grid_dims(g) == 3 ? g->e3 - 2 * HALO : 1);
    return per_second(points * (double)(c->total.forward_steps + c->total.backward_steps), r);
}

static double stall_fraction(const checkpoint_t *c, const results_t *r)
{
    return per_second(c->total.stall, r);
}

static void text_plan(const job_t *job, const checkpoint_t *c)
{
    const grid_t *g = &job->grid;
    printf("model             %s, %zu x %zu x %zu cells of %g m "
           "(with sponge and halo %zu x %zu x %zu)\n",
           job->name, g->n1, g->n2, g->n3, g->dx, g->e1, g->e2, g->e3);
    printf("survey            %zu shots, %zu steps of %g s, Ricker wavelet of %g Hz\n", job->shots,
           job->steps, job->dt, job->freq);
    if (job->every > 1)
        printf("image             of every %zu-th state\n", job->every);
    printf("checkpointing     %s, %d snapshots, cache of %d slots, %s\n",
           gpuzip_algorithm_name(c->plan.algorithm), (int)c->plan.snapshots, (int)c->plan.cache,
           policy_name(c->plan.policy));
    if (checkpoint_is_lossy(c)) {
        char codec[128];
        checkpoint_codec(c, codec, sizeof codec);
        printf("codec             %s\n", codec);
    }
}

/* Returns whether consecutive raw states are in memory together, each with its own copy of the
 * time level that they have in common. */
static int would_share(const job_t *job, const checkpoint_t *c)
{
    const int32_t a = c->plan.algorithm;
    const int neighbours = a == GPUZIP_ALGORITHM_STORE_ALL || a == GPUZIP_ALGORITHM_ZCUT || a == GPUZIP_ALGORITHM_TWO_LEVEL ||
                           (size_t)c->plan.snapshots + 1 >= job->steps;
    return neighbours && job->every == 1 && !c->shared_levels && !c->reconstruct && c->policy == GPUZIP_POLICY_CLAIRVOYANT && !checkpoint_is_lossy(c);
}

static void text_memory(const job_t *job, const checkpoint_t *c)
{
    const double used = (double)(c->total.peak_device_bytes + c->total.peak_host_bytes) / 1e6;
    const double field = (double)reference_bytes(&job->grid, job->steps) / 1e6;

    printf("  memory          %.1f MB for %s, all %zu states would take %.1f MB\n", used,
           c->reconstruct ? "strips of states; kept as two fields each" : "snapshots of two fields each; so kept", job->steps, 2.0 * field);
    if (job->verify)
        printf("                  (--verify keeps one field of each: %.1f MB)\n", field);
    if (would_share(job, c))
        printf("                  shared_levels = 1 keeps the field that consecutive states share once: about half the memory\n");
}

static void text_cost(const job_t *job, const checkpoint_t *c, const results_t *r)
{
    const gpuzip_stats_t *t = &c->total;
    const double once = (double)(job->shots - r->kept) * (double)(job->steps - 1);

    if (r->kept > 0)
        printf("kept              %zu of the %zu shots by an earlier run; what follows is of the others\n", r->kept, job->shots);
    printf("migration         %.2f s, %.2f Gpoint/s (modelling the data: %.2f s)\n", r->migration,
           points_per_second(job, c, r) / 1e9, r->modelling);
    if (r->device != NULL)
        printf("  device          %s: %.3f ms a forward step, %.3f ms a backward step\n", r->device,
               1e3 * r->forward_step, 1e3 * r->backward_step);
    printf("  forward steps   %" PRIu64 ", %.2f times the %.0f of keeping every state\n",
           t->forward_steps, once > 0.0 ? (double)t->forward_steps / once : 0.0, once);
    if (c->reconstruct)
        printf("  backward steps  %.0f that compute states, on the cells of the model\n", c->more_steps * (double)(job->shots - r->kept));
    printf("  snapshots       %" PRIu64 " saved, %" PRIu64 " restored\n", t->saves, t->restores);
    printf("  transfers       %" PRIu64 " to the device, %" PRIu64 " back: %.1f MB and %.1f MB; disk %.1f MB\n",
           t->h2d, t->d2h, (double)t->h2d_bytes / 1e6, (double)t->d2h_bytes / 1e6,
           (double)t->disk_bytes / 1e6);
    if (t->stored_bytes < t->raw_bytes)
        printf("  compression     %.2f to 1: %.1f MB saved as %.1f MB\n", (double)t->raw_bytes / (double)t->stored_bytes,
               (double)t->raw_bytes / 1e6, (double)t->stored_bytes / 1e6);
    printf("  stall           %.3f s, %.2f %% of the run\n", t->stall, 100.0 * stall_fraction(c, r));
    text_memory(job, c);
}

static void text_taylor(const taylor_t *t, int right, const checkpoint_t *c)
{
    if (right || !checkpoint_is_lossy(c)) {
        gpuzip_taylor_print(&t->test, stdout);
        return;
    }
    gpuzip_taylor_table(&t->test, stdout);
    printf("gradient          NOT EXACT: the codec %s is lossy, and its error takes the place of the second remainder where h is small;\n"
           "                  --verify tells how large it is, and without compressor this tests the gradient itself\n",
           setting_codec(c->plan.compressor));
}

static void text_gradient(const results_t *r, const checkpoint_t *c)
{
    printf("misfit            %.9e\n", r->misfit);
    if (r->taylor != NULL)
        text_taylor(r->taylor, r->right, c);
    printf("gradient hash     %016" PRIx64 "\n", r->gradient_hash);
}

static void text_images(const job_t *job, const checkpoint_t *c, const results_t *r)
{
    if (r->identical || (!c->reconstruct && !checkpoint_is_lossy(c))) {
        printf("images            %s, every byte of image%s illumination compared\n", r->identical ? "IDENTICAL" : "DIFFERENT",
               job->gradient ? ", gradient and" : " and");
        return;
    }
    if (c->reconstruct)
        printf("images            not the same bits, as states are computed backward, with other rounding errors; codec of the strips: %s\n",
               setting_codec(c->plan.compressor));
    else
        printf("images            not the same bits, as the codec %s is lossy; without compressor they are\n", setting_codec(c->plan.compressor));
    if (isfinite(r->psnr))
        printf("                  the image has a PSNR of %.1f dB against that of keeping every state, and an error of %.3g %% of its norm\n", r->psnr,
               100.0 * r->relative_l2);
}

void report_text(const job_t *job, const checkpoint_t *c, const results_t *r)
{
    text_plan(job, c);
    if (r->tuned != NULL)
        tune_text(r->tuned, c);
    if (r->asked != NULL)
        asked_text(r->asked);
    text_cost(job, c, r);
    if (job->verify) {
        printf("store-everything  %.2f s: checkpointing takes %.2f times as long\n",
               r->store_everything, r->migration / r->store_everything);
        text_images(job, c, r);
    }
    printf("image hash        %016" PRIx64 "\n", r->image_hash);
    if (job->gradient)
        text_gradient(r, c);
    printf("look at           %s\n                  %s\n                  %s\n", r->files.image_png,
           r->files.filtered_png, r->files.model_png);
    if (job->gradient)
        printf("                  %s\n", r->files.gradient_png);
}

/* Prints a text after other members of a JSON object. */
static void json_next(const char *key, const char *text)
{
    printf(", ");
    json_text(key, text);
}

static void json_job(const job_t *job, const checkpoint_t *c)
{
    const grid_t *g = &job->grid;
    printf("{\"n1\": %zu, \"n2\": %zu, \"n3\": %zu, \"dx\": %.9g, \"dt\": %.9g, \"steps\": %zu, "
           "\"shots\": %zu, \"every\": %zu, \"freq\": %.9g", g->n1, g->n2, g->n3, g->dx, job->dt, job->steps,
           job->shots, job->every, job->freq);
    json_next("model", job->name);
    json_next("algorithm", gpuzip_algorithm_name(c->plan.algorithm));
    printf(", \"snapshots\": %d, \"cache\": %d", (int)c->plan.snapshots, (int)c->plan.cache);
    json_next("policy", policy_name(c->plan.policy));
    json_next("codec", setting_codec(c->plan.compressor));
    printf(", \"reconstruct\": %s", c->reconstruct ? "true" : "false");
}

/* Prints the times of a step, known for a GPU only: the compute time without checkpointing is
 * steps times seconds. */
static void json_device(const results_t *r)
{
    if (r->device == NULL)
        return;
    json_next("device", r->device);
    printf(", \"forward_step_seconds\": %.9f, \"backward_step_seconds\": %.9f", r->forward_step,
           r->backward_step);
}

static void json_stats(const gpuzip_stats_t *t)
{
#define COUNT(name) printf(", \"" #name "\": %" PRIu64, t->name);
#define SECONDS(name) printf(", \"" #name "\": %.6f", t->name);
    STATS_COUNTS(COUNT)
    STATS_PEAKS(COUNT)
    STATS_SECONDS(SECONDS)
#undef COUNT
#undef SECONDS
}

static void json_rates(const char *key, const double *rate)
{
    printf(", \"%s\": [", key);
    for (int i = 0; i + 1 < TAYLOR_SIZES; i++)
        printf(isfinite(rate[i]) ? "%s%.6f" : "%snull", i > 0 ? ", " : "", rate[i]);
    printf("]");
}

static void json_gradient(const results_t *r)
{
    printf(", \"misfit\": %.17g, \"gradient_hash\": \"%016" PRIx64 "\"", r->misfit, r->gradient_hash);
    if (r->taylor != NULL) {
        printf(", \"slope\": %.17g", r->taylor->test.slope);
        json_rates("first_rates", r->taylor->test.first_order);
        json_rates("second_rates", r->taylor->test.second_order);
        printf(", \"right\": %s", r->right ? "true" : "false");
    }
    json_next("gradient", r->files.gradient);
    json_next("gradient_png", r->files.gradient_png);
}

void report_json(const job_t *job, const checkpoint_t *c, const results_t *r)
{
    json_job(job, c);
    json_device(r);
    if (r->tuned != NULL)
        tune_json(r->tuned, c);
    if (r->asked != NULL)
        asked_json(r->asked);
    json_stats(&c->total);
    printf(", \"kept\": %zu", r->kept);
    printf(", \"migration_seconds\": %.6f, \"modelling_seconds\": %.6f, \"stall_fraction\": %.6f, "
           "\"gpoints_per_second\": %.6f", r->migration, r->modelling, stall_fraction(c, r),
           points_per_second(job, c, r) / 1e9);
    printf(", \"image_hash\": \"%016" PRIx64 "\", \"illumination_hash\": \"%016" PRIx64 "\"",
           r->image_hash, r->illumination_hash);
    printf(", \"store_everything_bytes\": %zu", reference_bytes(&job->grid, job->steps));
    if (job->verify)
        printf(", \"store_everything_seconds\": %.6f, \"identical\": %s", r->store_everything,
               r->identical ? "true" : "false");
    else
        printf(", \"store_everything_seconds\": null, \"identical\": null");
    if (job->verify && !r->identical && (c->reconstruct || checkpoint_is_lossy(c)))
        printf(isfinite(r->psnr) ? ", \"psnr\": %.4f, \"relative_l2\": %.6g" : "", r->psnr, r->relative_l2);
    json_next("image", r->files.image);
    json_next("image_filtered", r->files.filtered);
    json_next("image_png", r->files.image_png);
    json_next("image_filtered_png", r->files.filtered_png);
    json_next("model_png", r->files.model_png);
    if (job->gradient)
        json_gradient(r);
    puts("}");
}

void report_quality(results_t *r, const job_t *job, const image_t *expected, const image_t *image)
{
    float *a = malloc(image->cells * sizeof *a), *b = malloc(image->cells * sizeof *b);
    quality_t q = {.psnr = NAN, .relative_l2 = NAN};

    if (a != NULL && b != NULL) {
        image_normalise(expected, a);
        image_normalise(image, b);
        if (quality_measure(&q, &job->grid, a, b) != 0)
            q.psnr = q.relative_l2 = NAN;
    }
    r->psnr = q.psnr;
    r->relative_l2 = q.relative_l2;
    free(a);
    free(b);
}
