/* Arrays between ranks, of any length: MPI counts in int. */
#ifndef RTM_MPI_TRANSFER_H
#define RTM_MPI_TRANSFER_H

#include <mpi.h>

#include "shot.h"

/* The MPI type of `real`. */
#define TRANSFER_REAL (sizeof(real) == sizeof(double) ? MPI_DOUBLE : MPI_FLOAT)

/* A type of `lines` lines of `values` each, next to each other; together they may be more than an int counts. To be freed. */
MPI_Datatype transfer_plane(size_t values, size_t lines);
/* Sends both sums of an image; receives them into one of as many cells. Blocking. */
void transfer_send(const image_t *image, int to, int tag, MPI_Comm comm);
void transfer_receive(image_t *image, int from, int tag, MPI_Comm comm);

#endif
