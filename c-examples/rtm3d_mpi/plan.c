#include "plan.h"

#include "message.h"

/* With `schedule` not NULL: that algorithm and number of snapshots instead of the configuration's. */
static int open_with(checkpoint_t *c, const char *config, const node_t *node, const grid_t *g, size_t steps,
                     const int32_t schedule[2])
{
    gpuzip_config_t cfg;
    int status = -1;

    *c = (checkpoint_t){.session = NULL};
    if (checkpoint_failed(gpuzip_config_init(&cfg)) || checkpoint_failed(gpuzip_config_load(config, &cfg)))
        return -1;
    if (schedule != NULL) {
        cfg.checkpointing_algorithm = schedule[0];
        cfg.checkpointing_snaps = schedule[1];
    }
    if (node_share(node, &cfg) == 0 && !checkpoint_failed(checkpoint_configure(c, &cfg, NULL, g, steps, NULL)))
        status = 0;
    gpuzip_config_free(&cfg);
    return status;
}

int plan_open(checkpoint_t *c, const char *config, const node_t *node, const grid_t *g, size_t steps)
{
    return open_with(c, config, node, g, steps, NULL);
}

/* Of all ranks' plans, the one with the fewest snapshots; whether they differ at all. */
static int fewest(const checkpoint_t *c, MPI_Comm world, int32_t schedule[2])
{
    struct { int snapshots, rank; } mine = {.snapshots = c->plan.snapshots}, least;
    const int32_t own[2] = {c->plan.algorithm, c->plan.snapshots};
    int differs, any;

    MPI_Comm_rank(world, &mine.rank);
    MPI_Allreduce(&mine, &least, 1, MPI_2INT, MPI_MINLOC, world);
    schedule[0] = own[0];
    schedule[1] = own[1];
    MPI_Bcast(schedule, 2, MPI_INT32_T, least.rank, world);
    differs = schedule[0] != own[0] || schedule[1] != own[1];
    MPI_Allreduce(&differs, &any, 1, MPI_INT, MPI_MAX, world);
    return any;
}

static int all_well(int status, MPI_Comm world)
{
    int worst;

    MPI_Allreduce(&status, &worst, 1, MPI_INT, MPI_MIN, world);
    return worst == 0;
}

int plan_open_together(checkpoint_t *c, const char *config, const node_t *node, const grid_t *g, size_t steps, MPI_Comm world)
{
    int32_t schedule[2];

    if (!all_well(open_with(c, config, node, g, steps, NULL), world))
        return -1;
    if (!fewest(c, world, schedule))
        return 0;
    checkpoint_close(c);
    if (!all_well(open_with(c, config, node, g, steps, schedule), world))
        return -1;
    if (!fewest(c, world, schedule))
        return 0;
    return complain("--decompose: ranks plan %d and %d snapshots; give checkpointing_algorithm and checkpointing_snaps",
                    (int)c->plan.snapshots, (int)schedule[1]);
}
