#include "transfer.h"

#include <limits.h>

MPI_Datatype transfer_plane(size_t values, size_t lines)
{
    MPI_Datatype line, plane;

    MPI_Type_contiguous((int)values, TRANSFER_REAL, &line);
    MPI_Type_contiguous((int)lines, line, &plane);
    MPI_Type_commit(&plane);
    MPI_Type_free(&line);
    return plane;
}

/* Number of values in the next message if `left` values remain. */
static int next_count(size_t left)
{
    return left < INT_MAX ? (int)left : INT_MAX;
}

static void send(const real *data, size_t count, int to, int tag, MPI_Comm comm)
{
    for (size_t at = 0; at < count; at += (size_t)next_count(count - at))
        MPI_Send(data + at, next_count(count - at), TRANSFER_REAL, to, tag, comm);
}

static void receive(real *data, size_t count, int from, int tag, MPI_Comm comm)
{
    for (size_t at = 0; at < count; at += (size_t)next_count(count - at))
        MPI_Recv(data + at, next_count(count - at), TRANSFER_REAL, from, tag, comm, MPI_STATUS_IGNORE);
}

void transfer_send(const image_t *image, int to, int tag, MPI_Comm comm)
{
    send(image->correlation, image->cells, to, tag, comm);
    send(image->illumination, image->cells, to, tag, comm);
}

void transfer_receive(image_t *image, int from, int tag, MPI_Comm comm)
{
    receive(image->correlation, image->cells, from, tag, comm);
    receive(image->illumination, image->cells, from, tag, comm);
}
