#include "tune.h"

#include <stdio.h>
#include <stdlib.h>

#include "json.h"
#include "message.h"
#include "setting.h"

int tune_begin(checkpoint_t *c)
{
    return checkpoint_failed(gpuzip_autotune(c->session)) ? -1 : 0;
}

int tune_take(tuned_t *t, checkpoint_t *c)
{
    *t = (tuned_t){.before = c->plan};
    if (checkpoint_failed(gpuzip_profile_export(c->session, NULL, 0, &t->bytes)))
        return -1;
    if ((t->profile = malloc(t->bytes)) == NULL)
        return complain("--tune: no memory for a profile of %llu bytes", (unsigned long long)t->bytes);
    return checkpoint_failed(gpuzip_profile_export(c->session, t->profile, t->bytes, &t->bytes)) ? -1 : 0;
}

int tune_apply(tuned_t *t, checkpoint_t *c)
{
    if (checkpoint_failed(gpuzip_profile_import(c->session, t->profile, t->bytes)))
        return -1;
    c->plan.struct_size = sizeof c->plan;
    return checkpoint_failed(gpuzip_summary(c->session, &c->plan)) ? -1 : 0;
}

void tune_free(tuned_t *t)
{
    free(t->profile);
    *t = (tuned_t){.profile = NULL};
}

/* Reads the profile and its codec number `index`; returns 0 if there is no such codec. */
static int look(const tuned_t *t, uint32_t index, gpuzip_profile_info_t *info)
{
    info->struct_size = sizeof *info;
    return !checkpoint_failed(gpuzip_profile_info(t->profile, t->bytes, index, info)) && index < info->codecs;
}

static void plan_text(const char *when, const gpuzip_summary_t *plan)
{
    printf("%-18s%s, %d snapshots, cache of %d slots, compressor %s\n", when, gpuzip_algorithm_name(plan->algorithm),
           (int)plan->snapshots, (int)plan->cache, setting_codec(plan->compressor));
}

void tune_text(const tuned_t *t, const checkpoint_t *c)
{
    gpuzip_profile_info_t p;

    look(t, 0, &p);
    printf("measured          %.3f ms a forward step, %.3f ms a backward step\n", p.forward_ms, p.backward_ms);
    printf("  copies          %.2f GB/s to the device, %.2f to the host, %.2f within", p.h2d_gbs, p.d2h_gbs, p.d2d_gbs);
    if (p.both_gbs > 0)
        printf(", %.2f to both together", p.both_gbs);
    printf("\n");
    if (p.idle_processors > 0)
        printf("  processors      %.1f are idle during steps\n", p.idle_processors);
    for (uint32_t i = 0; look(t, i, &p); i++)
        printf("  %-16s%.2f GB/s, back %.2f GB/s, ratio %.2f, at worst %.2f%s\n", setting_codec(p.compressor), p.compress_gbs,
               p.decompress_gbs, p.ratio, p.worst_ratio, p.sequences ? ", in a sequence" : "");
    plan_text("  planned before", &t->before);
    plan_text("  and by this", &c->plan);
}

void tune_json(const tuned_t *t, const checkpoint_t *c)
{
    gpuzip_profile_info_t p;

    look(t, 0, &p);
    printf(", \"forward_ms\": %.6g, \"backward_ms\": %.6g, \"h2d_gbs\": %.6g, \"d2h_gbs\": %.6g", p.forward_ms,
           p.backward_ms, p.h2d_gbs, p.d2h_gbs);
    printf(", \"both_gbs\": %.6g, \"d2d_gbs\": %.6g", p.both_gbs, p.d2d_gbs);
    printf(", \"profile\": \"");  /* the content of a file at profile_path */
    for (uint64_t i = 0; i < t->bytes; i++)
        printf("%02x", t->profile[i]);
    printf("\"");
    printf(", \"codecs\": [");
    for (uint32_t i = 0; look(t, i, &p); i++) {
        printf("%s{", i > 0 ? ", " : "");
        json_text("compressor", setting_codec(p.compressor));
        printf(", \"sequences\": %s", p.sequences ? "true" : "false");
        printf(", \"compress_gbs\": %.6g, \"decompress_gbs\": %.6g, \"ratio\": %.6g, \"worst_ratio\": %.6g}", p.compress_gbs,
               p.decompress_gbs, p.ratio, p.worst_ratio);
    }
    printf("], ");
    json_text("compressor", setting_codec(c->plan.compressor));
    printf(", ");
    json_text("algorithm_before", gpuzip_algorithm_name(t->before.algorithm));
    printf(", \"snapshots_before\": %d", (int)t->before.snapshots);
}
