/* Sends arrays of any length between ranks, although MPI counts values in an int. */
#ifndef RTM_MPI_TRANSFER_H
#define RTM_MPI_TRANSFER_H

#include <mpi.h>

#include "shot.h"

/* The MPI type of `real`. */
#define TRANSFER_REAL (sizeof(real) == sizeof(double) ? MPI_DOUBLE : MPI_FLOAT)

/* An MPI type of `lines` consecutive lines of `values` values each, together possibly more
 * values than an int counts. To be freed. */
MPI_Datatype transfer_plane(size_t values, size_t lines);
/* Sends both sums of an image, or receives them into an image with the same number of cells.
 * Blocking. */
void transfer_send(const image_t *image, int to, int tag, MPI_Comm comm);
void transfer_receive(image_t *image, int from, int tag, MPI_Comm comm);

#endif
