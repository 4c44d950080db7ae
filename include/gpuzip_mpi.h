/*
 * Copies of restart files on other nodes, by the application's MPI. Header only, C99 and C++11 with POSIX
 * (`-std=gnu99`, or _POSIX_C_SOURCE=200809L); link with libgpuzip and MPI. docs/restart.md is the page.
 *
 * A run with restart files in folders of its nodes loses the files of a node with the node. Ranks on k different
 * nodes are a *group*, which keeps m blocks of parity for every k - m blocks of its files, so that the group gets
 * back the files of any m of its nodes. k = 2 with m = 1 is a copy at a partner, m = 1 an XOR, and larger m a
 * Reed-Solomon code. A node keeps m / (k - m) times the bytes of its files beside them.
 *
 *     gpuzip_mpi_recover(world, dir, &result);            before gpuzip_persist_open
 *     ...
 *     gpuzip_persist_write(session, ...);
 *     gpuzip_persist_wait(session);                       before the next gpuzip_persist_write at the latest
 *     gpuzip_mpi_protect(world, dir, &options, &result);
 *
 * All ranks of the communicator make each call together; their numbers in it are those that
 * gpuzip_persist_open gets. Both calls return the same status and text on all ranks, unless MPI itself fails:
 * then the ranks are no longer in step (GPUZIP_ERR_CALLBACK). By default MPI ends the job in that case.
 *
 * How it works. The k files of a group are filled up with zeros to one length and cut into k - m blocks. There
 * are k *stripes*; member r has one block of stripe s: with i = (r - s) mod k, the parity block i for i < m, and
 * else the block i - m of its file. So every node has one block of each stripe, and any k - m of them give the
 * others (gpuzip_persist_parity). To make parity and to bring back files is one operation: every member computes
 * the blocks that it lacks from those that other members send.
 */
#ifndef GPUZIP_MPI_H
#define GPUZIP_MPI_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "gpuzip.h"

#if !defined(_POSIX_C_SOURCE) || _POSIX_C_SOURCE < 200809L
#error "gpuzip_mpi.h needs POSIX: compile with -std=gnu99 or later, or with -D_POSIX_C_SOURCE=200809L"
#endif

/* Most members of a group. */
#define GPUZIP_MPI_MOST 256

/* What is protected. All zero is a good choice. `group` and `parity` are the same on all ranks, and `node` is 0
 * on all or on none. */
typedef struct gpuzip_mpi_options_t {
  int32_t group;  /* k, ranks of a group, from 2 to 255; 0: 8. With fewer nodes, as many as there are. */
  int32_t parity; /* m, nodes of a group that may be lost, from 1 to group - 1; 0: 1 */
  int64_t node;   /* number of this rank's node, from 1 on; 0: MPI tells which ranks share a node */
} gpuzip_mpi_options_t;

/* What a call has done, in numbers that are the same on all ranks. */
typedef struct gpuzip_mpi_result_t {
  int64_t generation; /* the generation that is protected, or that is whole on all ranks; 0: none */
  int64_t moved;      /* files that were brought from folders of other nodes */
  int64_t rebuilt;    /* files that were computed from those of other ranks, those of parity included */
  int64_t bytes;      /* bytes of the files that were computed */
  char text[1024];    /* why the call failed; after success, what was less than asked for, or empty */
} gpuzip_mpi_result_t;

/* Protects the newest generation that all ranks have published in `dir`, their `persist_dir`, and keeps the parity
 * of the one that was protected before. If that generation is protected already, or if there is none, the call
 * returns at once. Memory: 33 MiB. Call it after gpuzip_persist_wait, and before the next gpuzip_persist_write:
 * that one removes older generations, which parity needs. If ranks run on one node only, nothing is done, and
 * `text` says so. `options` and `result` may be NULL. */
static inline gpuzip_status_t gpuzip_mpi_protect(MPI_Comm comm, const char *dir, const gpuzip_mpi_options_t *options,
                                                 gpuzip_mpi_result_t *result);

/* Makes the newest generation whole that can be made whole: brings each rank's files to its folder `dir` from the
 * folders of other ranks, if the ranks run on other nodes than before, and computes files that are missing or
 * damaged. Call it before gpuzip_persist_open, with no session that uses `dir`; the folder is made if it is
 * missing. A generation that cannot be made whole is no error: `text` names the ranks whose files lack, and an
 * older generation is tried. `result` may be NULL. */
static inline gpuzip_status_t gpuzip_mpi_recover(MPI_Comm comm, const char *dir, gpuzip_mpi_result_t *result);

#endif /* GPUZIP_MPI_H */
