/* Declares what the C and C++ blocks of the documentation use: gpuzip, the C library, and MPI as tests/docs/mpi.h
 * has it. */
#define _POSIX_C_SOURCE 200809L
#include <gpuzip.h>
#include <gpuzip_mpi.h>
#ifdef __cplusplus
#include <gpuzip.hpp>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

