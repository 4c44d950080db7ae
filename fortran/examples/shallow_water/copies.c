/* The calls of gpuzip_mpi.h, for copies.f90. */
#define GPUZIP_MPI_FORTRAN
#include <gpuzip_mpi.h>
