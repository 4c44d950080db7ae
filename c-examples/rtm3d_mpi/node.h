/* What the ranks of a node share: its memory and its GPUs. */
#ifndef RTM_MPI_NODE_H
#define RTM_MPI_NODE_H

#include <gpuzip.h>
#include <mpi.h>

typedef struct node_t {
    MPI_Comm comm;    /* the ranks of this node */
    int rank, ranks;  /* this one's place among them */
} node_t;

/* Collective over `world`. */
void node_open(node_t *node, MPI_Comm world);
void node_close(node_t *node);

/*
 * This rank's part of a configuration that speaks of a whole node: byte budgets are divided by its ranks, and with the CUDA
 * backend the GPUs are dealt out round robin, unless `device` names one. 0, or -1 with the reason on stderr.
 */
int node_share(const node_t *node, gpuzip_config_t *cfg);

#endif
