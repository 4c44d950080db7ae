#include "plan.h"

#include <stdlib.h>

#include "message.h"

#define BACKEND_TOLD 0  /* by the memory of the first snapshot */
#define BACKEND_HOST 1

int plan_open(checkpoint_t *c, const char *config, int zero_copy, const node_t *node, const grid_t *g, size_t steps,
              size_t every, tuned_t *tuned)
{
    gpuzip_config_t cfg;
    int status = -1;

    *c = (checkpoint_t){.session = NULL};
    if (checkpoint_failed(gpuzip_config_init(&cfg)) || checkpoint_failed(gpuzip_config_load(config, &cfg)))
        return -1;
    cfg.zero_copy |= zero_copy;
    if (cfg.backend == BACKEND_TOLD)
        cfg.backend = BACKEND_HOST;  /* of this program's memory: the session opens it, and its plan stays */
    if (node_share(node, &cfg) == 0 && !checkpoint_failed(checkpoint_configure(c, &cfg, 0, NULL, g, steps, every, NULL)) &&
        (tuned == NULL || tune_apply(tuned, c) == 0))
        status = 0;
    gpuzip_config_free(&cfg);
    return status;
}

/* The reduction for gpuzip_agree: sets *value to its minimum over all ranks. */
static int32_t least(void *world, int64_t *value)
{
    return MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT64_T, MPI_MIN, *(MPI_Comm *)world) != MPI_SUCCESS;
}

int plan_open_together(checkpoint_t *c, const char *config, const node_t *node, const grid_t *g, size_t steps,
                       size_t every, tuned_t *tuned, MPI_Comm world)
{
    int opened = plan_open(c, config, 0, node, g, steps, every, tuned) == 0;
    gpuzip_status_t status = gpuzip_agree(opened ? c->session : NULL, least, &world);

    if (!opened)
        return -1;
    return checkpoint_failed(status) || checkpoint_failed(gpuzip_summary(c->session, &c->plan)) ? -1 : 0;
}

static int all_well(int status, MPI_Comm world)
{
    int worst;

    MPI_Allreduce(&status, &worst, 1, MPI_INT, MPI_MIN, world);
    return worst == 0;
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

int plan_compare(const checkpoint_t *c, MPI_Comm world)
{
    int slots[2] = {c->plan.raw_slots, -c->plan.raw_slots}, rank;

    MPI_Comm_rank(world, &rank);
    MPI_Allreduce(MPI_IN_PLACE, slots, 2, MPI_INT, MPI_MAX, world);
    if (slots[0] == -slots[1])
        return 0;
    if (rank == 0)
        complain("mixed storage: a rank has %d slots for raw snapshots and another one has %d, so the image would depend on which of them "
                 "migrates a shot; set device_budget to what every rank has, or mixed_storage = 2", slots[0], -slots[1]);
    return -1;
}
