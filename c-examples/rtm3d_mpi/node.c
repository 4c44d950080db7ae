#define _POSIX_C_SOURCE 200809L
#include "node.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "message.h"

#define BACKEND_CUDA 2

void node_open(node_t *node, MPI_Comm world)
{
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node->comm);
    MPI_Comm_rank(node->comm, &node->rank);
    MPI_Comm_size(node->comm, &node->ranks);
}

void node_close(node_t *node)
{
    MPI_Comm_free(&node->comm);
}

void node_end_all(MPI_Comm comm)
{
    const struct timespec wait = {.tv_nsec = 300 * 1000 * 1000};
    nanosleep(&wait, NULL);
    MPI_Abort(comm, 1);
}

/* Number of GPUs that this rank sees. The driver is loaded at run time, as the library does, so
 * the program builds and runs without CUDA. */
static int count_gpus(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = NULL, (*get_count)(int *) = NULL;
    void *symbols[2];
    int count = 0;

    if (driver == NULL)
        return 0;
    symbols[0] = dlsym(driver, "cuInit");
    symbols[1] = dlsym(driver, "cuDeviceGetCount");
    memcpy(&init, &symbols[0], sizeof init);  /* C has no cast from an object to a function */
    memcpy(&get_count, &symbols[1], sizeof get_count);
    if (init == NULL || get_count == NULL || init(0) != 0 || get_count(&count) != 0)
        return 0;
    return count;  /* the driver stays loaded, since the library uses it */
}

/* Divides a budget by the ranks; 0 (no budget) stays 0. */
static int divide(uint64_t *budget, const char *key, int ranks)
{
    const uint64_t share = *budget / (uint64_t)ranks;

    if (*budget > 0 && share == 0)
        return complain("%s = %" PRIu64 ": not a byte for each of the %d ranks of this node; give more, or run fewer ranks",
                        key, *budget, ranks);
    *budget = share;
    return 0;
}

int node_share(const node_t *node, gpuzip_config_t *cfg)
{
    if (divide(&cfg->device_budget, "device_budget", node->ranks) != 0 ||
        divide(&cfg->host_budget, "host_budget", node->ranks) != 0 ||
        divide(&cfg->disk_budget, "disk_budget", node->ranks) != 0)
        return -1;
    if (cfg->backend == BACKEND_CUDA && cfg->device == 0) {
        const int gpus = count_gpus();
        if (gpus == 0)
            return complain("backend = cuda: rank %d of this node sees no GPU; use backend = host, or ask the job for GPUs",
                            node->rank);
        cfg->device = node->rank % gpus + 1;
    }
    return 0;
}
