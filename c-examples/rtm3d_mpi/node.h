/* The memory and the GPUs that the ranks of a node share. */
#ifndef RTM_MPI_NODE_H
#define RTM_MPI_NODE_H

#include <gpuzip.h>
#include <mpi.h>

typedef struct node_t {
    MPI_Comm comm;    /* the ranks of this node */
    int rank, ranks;  /* this rank's place among them, and their number */
} node_t;

/* Finds the ranks of this node. Collective over `world`. */
void node_open(node_t *node, MPI_Comm world);
void node_close(node_t *node);

/*
 * Ends every rank of `comm` with exit status 1, after the reason was printed on stderr. The call
 * waits for 0.3 s first: a launcher that learns of the end drops what its ranks have written and
 * it has not yet read (MPICH's does).
 */
void node_end_all(MPI_Comm comm);

/*
 * Turns the configuration of a whole node into that of this rank: byte budgets are divided by
 * the node's ranks; with the CUDA backend ranks get GPUs in turn, unless `device` names one.
 * Returns 0, or -1 with the reason on stderr.
 */
int node_share(const node_t *node, gpuzip_config_t *cfg);

#endif
