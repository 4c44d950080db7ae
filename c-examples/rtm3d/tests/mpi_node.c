/* Shares a configuration among the ranks of a node, as rtm3d_mpi does. Each rank opens a session on
 * its device; rank 0 prints the CUDA device and the budgets in bytes of every rank. */
#include <stdio.h>

#include "checkpoint.h"
#include "message.h"
#include "node.h"

static int open_session(const gpuzip_config_t *cfg)
{
    gpuzip_field_t field = {NULL, 8, 1, 1, GPUZIP_TYPE_F32, 0, 0, 0, {0}};
    gpuzip_t *session;

    return checkpoint_failed(gpuzip_init(cfg, 10, &field, 1, &session)) || checkpoint_failed(gpuzip_finalize(session));
}

int main(int argc, char **argv)
{
    gpuzip_config_t cfg;
    node_t node;
    int failed, any, line[3];

    MPI_Init(&argc, &argv);
    node_open(&node, MPI_COMM_WORLD);
    failed = checkpoint_failed(gpuzip_config_init(&cfg)) || checkpoint_failed(gpuzip_config_load(NULL, &cfg)) ||
             node_share(&node, &cfg) != 0 || open_session(&cfg);
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    for (int rank = 0; !any && rank < node.ranks; rank++) {
        line[0] = cfg.device, line[1] = (int)cfg.device_budget, line[2] = (int)cfg.host_budget;
        MPI_Bcast(line, 3, MPI_INT, rank, MPI_COMM_WORLD);
        if (node.rank == 0)
            printf("rank %d: device %d, %d and %d bytes\n", rank, line[0], line[1], line[2]);
    }
    node_close(&node);
    MPI_Finalize();
    return any;
}
