/* Declares what the C and C++ blocks of the documentation use: gpuzip, the C library, and a few
 * functions of MPI, so that the blocks compile where MPI is not installed. */
#include <gpuzip.h>
#ifdef __cplusplus
#include <gpuzip.hpp>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int MPI_Comm;
typedef int MPI_Datatype;
typedef int MPI_Op;
#define MPI_SUCCESS 0
#define MPI_BYTE 1
#define MPI_INT64_T 2
#define MPI_MIN 3
#define MPI_COMM_WORLD 4
#define MPI_IN_PLACE ((void *)-1)
int MPI_Allreduce(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
int MPI_Bcast(void *, int, MPI_Datatype, int, MPI_Comm);
int MPI_Abort(MPI_Comm, int);

