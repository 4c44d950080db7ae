/* Prints the size in bytes of rtm3d_mpi's MPI type for a plane of more values than an int can
 * count. */
#include <stdio.h>

#include "transfer.h"

int main(int argc, char **argv)
{
    MPI_Datatype plane;
    MPI_Count bytes;

    MPI_Init(&argc, &argv);
    plane = transfer_plane(60000, 70000);
    MPI_Type_size_x(plane, &bytes);
    printf("%lld\n", (long long)bytes);
    MPI_Type_free(&plane);
    return MPI_Finalize();
}
