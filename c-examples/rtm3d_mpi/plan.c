#include "plan.h"

#include <inttypes.h>
#include <stdlib.h>

#include "message.h"

/* What ranks agree to have alike, as far as `terms` says. */
typedef struct terms_t {
    int32_t algorithm, snapshots;  /* from SCHEDULE on */
    int32_t cache;                 /* with CACHE: slots, at most */
    int32_t compressor;            /* from SCHEDULE on */
} terms_t;
enum { NOTHING, SCHEDULE, CACHE };

/* The configuration, with the first `agreed` of `terms` instead of its own. */
static int open_with(checkpoint_t *c, const char *config, const node_t *node, const grid_t *g, size_t steps, tuned_t *tuned,
                     int agreed, const terms_t *terms)
{
    gpuzip_config_t cfg;
    int status = -1;

    *c = (checkpoint_t){.session = NULL};
    if (checkpoint_failed(gpuzip_config_init(&cfg)) || checkpoint_failed(gpuzip_config_load(config, &cfg)))
        return -1;
    if (agreed >= SCHEDULE) {
        cfg.checkpointing_algorithm = terms->algorithm;
        cfg.checkpointing_snaps = terms->snapshots;
        cfg.compressor = terms->compressor;
    }
    if (agreed >= CACHE) {
        cfg.cache_capacity = terms->cache;
        cfg.device_budget = terms->cache > 0 ? cfg.device_budget : 0;
    }
    if (node_share(node, &cfg) == 0 && !checkpoint_failed(checkpoint_configure(c, &cfg, NULL, g, steps, NULL)) &&
        (tuned == NULL || tune_apply(tuned, c) == 0))
        status = 0;
    gpuzip_config_free(&cfg);
    return status;
}

int plan_open(checkpoint_t *c, const char *config, const node_t *node, const grid_t *g, size_t steps, tuned_t *tuned)
{
    return open_with(c, config, node, g, steps, tuned, NOTHING, NULL);
}

/* FNV-1a over every action of a session's schedule. 0, or -1 with the reason on stderr. */
static int fingerprint(const checkpoint_t *c, uint64_t *hash)
{
    gpuzip_schedule_t *schedule;
    gpuzip_action_t action;
    int failed;

    *hash = 0xcbf29ce484222325u;
    if (checkpoint_failed(gpuzip_get_schedule(c->session, &schedule)))
        return -1;
    do {
        failed = checkpoint_failed(gpuzip_schedule_get_action(schedule, &action));
        *hash = (*hash ^ (uint64_t)(uint32_t)action.type) * 0x100000001b3u;
        *hash = (*hash ^ (uint64_t)(uint32_t)action.ts) * 0x100000001b3u;
    } while (!failed && action.type != GPUZIP_ACTION_TERMINATE);
    failed |= checkpoint_failed(gpuzip_schedule_rewind(schedule));
    failed |= checkpoint_failed(gpuzip_schedule_release(schedule));
    return failed ? -1 : 0;
}

static int all_well(int status, MPI_Comm world)
{
    int worst;

    MPI_Allreduce(&status, &worst, 1, MPI_INT, MPI_MIN, world);
    return worst == 0;
}

/* Whether all ranks have the same actions in the same order: a rank that took another step would wait for halos for ever. */
static int in_step(uint64_t hash, MPI_Comm world)
{
    uint64_t least, most;

    MPI_Allreduce(&hash, &least, 1, MPI_UINT64_T, MPI_MIN, world);
    MPI_Allreduce(&hash, &most, 1, MPI_UINT64_T, MPI_MAX, world);
    return least == most;
}

/* Of all ranks' plans the algorithm and snapshots of the one with the fewest, and the smallest cache. */
static void agree_on(terms_t *terms, const checkpoint_t *c, MPI_Comm world)
{
    struct { int snapshots, rank; } mine = {.snapshots = c->plan.snapshots}, least;

    *terms = (terms_t){.algorithm = c->plan.algorithm, .compressor = c->plan.compressor};
    MPI_Comm_rank(world, &mine.rank);
    MPI_Allreduce(&mine, &least, 1, MPI_2INT, MPI_MINLOC, world);
    terms->snapshots = least.snapshots;
    MPI_Bcast(&terms->algorithm, 1, MPI_INT32_T, least.rank, world);
    MPI_Bcast(&terms->compressor, 1, MPI_INT32_T, least.rank, world);
    MPI_Allreduce(&c->plan.cache, &terms->cache, 1, MPI_INT32_T, MPI_MIN, world);
}

int plan_open_together(checkpoint_t *c, const char *config, const node_t *node, const grid_t *g, size_t steps, tuned_t *tuned,
                       MPI_Comm world)
{
    terms_t terms = {.snapshots = 0};
    uint64_t hash;
    int rank;

    for (int agreed = NOTHING; agreed <= CACHE; agreed++) {
        if (!all_well(open_with(c, config, node, g, steps, tuned, agreed, &terms), world) || !all_well(fingerprint(c, &hash), world))
            return -1;
        if (in_step(hash, world))
            return 0;
        agree_on(&terms, c, world);
        if (agreed < CACHE)
            checkpoint_close(c);
    }
    MPI_Comm_rank(world, &rank);
    return rank > 0 ? -1 : complain("--decompose: ranks have different schedules with %d snapshots; is their configuration the same?",
                                    (int)terms.snapshots);
}

int plan_share(tuned_t *tuned, checkpoint_t *c, MPI_Comm world)
{
    int rank, status = 0;

    MPI_Comm_rank(world, &rank);
    if (rank == 0)
        status = tune_take(tuned, c);
    if (!all_well(status, world))
        return -1;
    MPI_Bcast(&tuned->bytes, 1, MPI_UINT64_T, 0, world);
    MPI_Bcast(&tuned->before, sizeof tuned->before, MPI_BYTE, 0, world);
    if (rank != 0)
        status = (tuned->profile = malloc(tuned->bytes)) != NULL ? 0 : complain("rank %d: no memory for a profile", rank);
    if (!all_well(status, world))
        return -1;
    MPI_Bcast(tuned->profile, (int)tuned->bytes, MPI_BYTE, 0, world);
    return 0;
}
