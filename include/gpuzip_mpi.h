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
 * then the ranks are no longer in step (GPUZIP_ERR_CALLBACK). By default MPI ends the job in that case. With an MPI
 * that survives the loss of ranks (ULFM), define GPUZIP_MPI_REVOKE(comm) as MPIX_Comm_revoke(comm) before this header
 * is included: a rank at which MPI fails calls it, so that the others end the call, too, and do not wait for that rank.
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
#include <signal.h>
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

/* Internal: most bytes of a piece of a block. */
#define GPUZIP_MPI_PIECE (1 << 20)
/* Internal: most bytes of all pieces in memory. */
#define GPUZIP_MPI_MEMORY (32 << 20)
/* Internal: bytes of the head of a file of parity without its lists. */
#define GPUZIP_MPI_HEAD 56
/* Internal: bytes of the head of a file of parity with the longest lists. */
#define GPUZIP_MPI_HEAD_MOST (GPUZIP_MPI_HEAD + 20 * GPUZIP_MPI_MOST + 4)
#if defined(__GNUC__)
/* Internal: compilers check the arguments of a format. */
#define GPUZIP_MPI_PRINTF(format_at, first) __attribute__((format(printf, format_at, first)))
#else
/* Internal: no compiler checks them. */
#define GPUZIP_MPI_PRINTF(format_at, first)
#endif
/* Internal: the largest number of a generation. */
#define GPUZIP_MPI_LAST INT64_C(999999999999999)

/* Internal: the two kinds of files, also as numbers of bits. */
enum gpuzip_mpi_kind { GPUZIP_MPI_GEN, GPUZIP_MPI_PARITY };

/* Internal: a call on one rank. Only the first failure since the ranks agreed is kept. */
typedef struct gpuzip_mpi_job_t {
  MPI_Comm comm;
  int rank, size;
  const char *dir;
  int folder;  /* descriptor of `dir`, or -1 */
  MPI_Comm *group; /* NULL, or the communicator of the group, if there is one yet */
  int broken;  /* MPI has failed: no further call of it is made */
  gpuzip_status_t status;
  char text[1024];
} gpuzip_mpi_job_t;

/* Internal: the head of a file of parity: its bytes, and the numbers in it. */
typedef struct gpuzip_mpi_head_t {
  int64_t generation, stamp, block; /* `stamp` is when the parity of all ranks was made; `block` in bytes */
  int ranks, k, m, place;
  unsigned char bytes[GPUZIP_MPI_HEAD_MOST];
} gpuzip_mpi_head_t;

/* Internal: a group, seen from one member. */
typedef struct gpuzip_mpi_group_t {
  MPI_Comm comm;
  int place;                      /* of this member; `head` has k and m */
  gpuzip_mpi_head_t head;
  int file[2], made[2];           /* descriptors of its two files: those that are right, and those to be written */
  unsigned char has[2][GPUZIP_MPI_MOST]; /* whether a member's file is right */
  unsigned char *memory;
  uint32_t checksums[GPUZIP_MPI_MOST]; /* of the parity blocks that are written */
} gpuzip_mpi_group_t;

/* Internal: a failure on this rank. */
GPUZIP_MPI_PRINTF(3, 4) static inline void gpuzip_mpi_fail(gpuzip_mpi_job_t *job, gpuzip_status_t status, const char *format, ...)
{
  va_list arguments;
  int used;

  if (job->status < 0) return;
  job->status = status;
  used = snprintf(job->text, sizeof job->text, "rank %d: ", job->rank);
  va_start(arguments, format);
  vsnprintf(job->text + used, sizeof job->text - (size_t)used, format, arguments);
  va_end(arguments);
}

/* Internal: a failed call of the system on a file of `dir`. */
static inline void gpuzip_mpi_fail_file(gpuzip_mpi_job_t *job, const char *name, const char *remedy)
{
  const char *reason = strerror(errno);

  gpuzip_mpi_fail(job, GPUZIP_ERR_IO, "%s/%s: %s: %s", job->dir, name, reason, remedy);
}

/* Internal: a failed call of the library, whose text may begin with the rank. */
static inline void gpuzip_mpi_fail_call(gpuzip_mpi_job_t *job, gpuzip_status_t status)
{
  const char *text = gpuzip_last_error(), *rest = strstr(text, ": ");

  gpuzip_mpi_fail(job, status, "%s", strncmp(text, "rank ", 5) == 0 && rest != NULL ? rest + 2 : text);
}

/* Internal: whether a call of MPI has succeeded. */
static inline int gpuzip_mpi_did(gpuzip_mpi_job_t *job, int code)
{
  char reason[MPI_MAX_ERROR_STRING + 1] = "unknown error";
  int length = 0;

  if (code == MPI_SUCCESS) return 1;
  MPI_Error_string(code, reason, &length);
  job->status = GPUZIP_OK;
  gpuzip_mpi_fail(job, GPUZIP_ERR_CALLBACK, "MPI: %s: ranks are no longer in step", reason);
  job->broken = 1;
#ifdef GPUZIP_MPI_REVOKE
  if (job->group != NULL && *job->group != MPI_COMM_NULL) GPUZIP_MPI_REVOKE(*job->group);
  if (job->comm != MPI_COMM_NULL) GPUZIP_MPI_REVOKE(job->comm);
#endif
  return 0;
}

/* Internal: the least values over all ranks. */
static inline int gpuzip_mpi_least(gpuzip_mpi_job_t *job, int64_t *values, int count)
{
  return !job->broken && gpuzip_mpi_did(job, MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_INT64_T, MPI_MIN, job->comm));
}

/* Internal: whether no rank has failed. If one has, all get the status and the text of the lowest such rank. */
static inline int gpuzip_mpi_all(gpuzip_mpi_job_t *job)
{
  int64_t first = job->status < 0 ? job->rank : INT_MAX;

  if (!gpuzip_mpi_least(job, &first, 1)) return 0;
  if (first == INT_MAX) return 1;
  if (gpuzip_mpi_did(job, MPI_Bcast(&job->status, (int)sizeof job->status, MPI_BYTE, (int)first, job->comm)))
    gpuzip_mpi_did(job, MPI_Bcast(job->text, (int)sizeof job->text, MPI_BYTE, (int)first, job->comm));
  return 0;
}

/* Internal: appends to the text of a result, as far as there is room. */
GPUZIP_MPI_PRINTF(2, 3) static inline void gpuzip_mpi_say(gpuzip_mpi_result_t *result, const char *format, ...)
{
  size_t used = strlen(result->text);
  va_list arguments;

  va_start(arguments, format);
  vsnprintf(result->text + used, sizeof result->text - used, format, arguments);
  va_end(arguments);
}

/* Internal: writes a number, little-endian. */
static inline void gpuzip_mpi_put(unsigned char *at, int bytes, uint64_t value)
{
  for (; bytes > 0; bytes--, value >>= 8) *at++ = (unsigned char)value;
}

/* Internal: reads a number, little-endian. */
static inline uint64_t gpuzip_mpi_get(const unsigned char *at, int bytes)
{
  uint64_t value = 0;

  while (bytes-- > 0) value = value << 8 | at[bytes];
  return value;
}

/* Internal: room for the name of a file. */
typedef struct gpuzip_mpi_name_t {
  char text[80];
} gpuzip_mpi_name_t;

/* Internal: the name of a file of a rank; `end` is what stands behind the number of the generation. */
static inline gpuzip_mpi_name_t gpuzip_mpi_name(int rank, int64_t generation, const char *end)
{
  gpuzip_mpi_name_t name;

  snprintf(name.text, sizeof name.text, "gpuzip-r%06d-g%012lld.%s", rank, (long long)generation, end);
  return name;
}

/* Internal: the end of a name. */
static inline const char *gpuzip_mpi_end(int kind) { return kind == GPUZIP_MPI_GEN ? "gen" : "parity"; }

/* Internal: the end of a name while the file is written. The library removes what a dead process leaves of the first
 * kind, and the next gpuzip_mpi_protect of the second. */
static inline const char *gpuzip_mpi_temporary(int kind) { return kind == GPUZIP_MPI_GEN ? "tmp" : "parity.tmp"; }

/* Internal: whether a file is of a rank and a generation, by its name; tells which. */
static inline int gpuzip_mpi_is(const char *file, const char *end, int *rank, int64_t *generation)
{
  gpuzip_mpi_name_t name;
  unsigned long r;
  long long g;
  char *rest;

  if (strncmp(file, "gpuzip-r", 8) != 0 || file[8] < '0' || file[8] > '9') return 0;
  r = strtoul(file + 8, &rest, 10);
  if (r > 16777216 || strncmp(rest, "-g", 2) != 0 || rest[2] < '0' || rest[2] > '9') return 0;
  g = strtoll(rest + 2, &rest, 10);
  if (g < 1 || g > GPUZIP_MPI_LAST) return 0;
  name = gpuzip_mpi_name((int)r, g, end);
  *rank = (int)r;
  *generation = g;
  return strcmp(file, name.text) == 0;
}

/* Internal: opens the folder for a listing. */
static inline DIR *gpuzip_mpi_list(gpuzip_mpi_job_t *job)
{
  int folder = openat(job->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = folder < 0 ? NULL : fdopendir(folder);

  if (list == NULL) {
    gpuzip_mpi_fail_file(job, ".", "the folder cannot be listed");
    if (folder >= 0) close(folder);
  }
  return list;
}

/* Internal: the newest generation, at most `most`, that the folder has of this rank (or of `any` rank); 0: none. */
static inline int64_t gpuzip_mpi_newest(gpuzip_mpi_job_t *job, int kind, int any, int64_t most)
{
  int64_t newest = 0, generation;
  struct dirent *entry;
  DIR *list = gpuzip_mpi_list(job);
  int rank;

  while (list != NULL && (entry = readdir(list)) != NULL)
    if (gpuzip_mpi_is(entry->d_name, gpuzip_mpi_end(kind), &rank, &generation) && (any ? rank < job->size : rank == job->rank) &&
        generation <= most && generation > newest)
      newest = generation;
  if (list != NULL) closedir(list);
  return newest;
}

/* Internal: removes the files of a rank with this ending and a number from `from` to `to`. */
static inline void gpuzip_mpi_remove(gpuzip_mpi_job_t *job, int rank, const char *end, int64_t from, int64_t to)
{
  struct dirent *entry;
  DIR *list = gpuzip_mpi_list(job);
  int64_t generation;
  int of;

  while (list != NULL && (entry = readdir(list)) != NULL)
    if (gpuzip_mpi_is(entry->d_name, end, &of, &generation) && of == rank && generation >= from && generation <= to)
      unlinkat(job->folder, entry->d_name, 0);
  if (list != NULL) closedir(list);
}

/* Internal: calls a function of the library with the path of a file. */
static inline gpuzip_status_t gpuzip_mpi_call(gpuzip_mpi_job_t *job, const char *name, gpuzip_status_t (*call)(const char *))
{
  size_t length = strlen(job->dir) + strlen(name) + 2;
  char *path = (char *)malloc(length);
  gpuzip_status_t status = GPUZIP_ERR_MEMORY;

  if (path == NULL) {
    gpuzip_mpi_fail(job, GPUZIP_ERR_MEMORY, "no memory for %d bytes: free memory", (int)length);
  } else {
    snprintf(path, length, "%s/%s", job->dir, name);
    status = call(path);
    if (status == GPUZIP_ERR_MEMORY) gpuzip_mpi_fail_call(job, status);
  }
  free(path);
  return status;
}

/* Internal: opens a regular file for reading; -1 and errno, if there is none. */
static inline int gpuzip_mpi_open(gpuzip_mpi_job_t *job, const char *name)
{
  int file = openat(job->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  struct stat found;

  if (file >= 0 && (fstat(file, &found) != 0 || !S_ISREG(found.st_mode))) {
    close(file);
    file = -1;
    errno = EINVAL;
  }
  return file;
}

/* Internal: creates a temporary file; one that a dead process has left is replaced. */
static inline int gpuzip_mpi_create(gpuzip_mpi_job_t *job, const char *name)
{
  int file;

  unlinkat(job->folder, name, 0);
  file = openat(job->folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) gpuzip_mpi_fail_file(job, name, "the file cannot be written");
  return file;
}

/* Internal: reads all of `count` bytes; returns whether that was done. */
static inline int gpuzip_mpi_read(int file, unsigned char *to, int64_t count, int64_t offset)
{
  while (count > 0) {
    ssize_t done = pread(file, to, (size_t)count, (off_t)offset);

    if (done < 0 && errno == EINTR) continue;
    if (done == 0) errno = EIO;
    if (done <= 0) return 0;
    to += done, count -= done, offset += done;
  }
  return 1;
}

/* Internal: writes all of `count` bytes; returns whether that was done. */
static inline int gpuzip_mpi_write(int file, const unsigned char *from, int64_t count, int64_t offset)
{
  sigset_t limit, before, waiting; /* a limit on the size of files is an error, and no signal that ends the process */
  struct timespec now = {0, 0};
  int reason = 0;

  sigemptyset(&limit);
  sigaddset(&limit, SIGXFSZ);
  sigpending(&waiting);
  pthread_sigmask(SIG_BLOCK, &limit, &before);
  while (count > 0 && reason == 0) {
    ssize_t done = pwrite(file, from, (size_t)count, (off_t)offset);

    if (done > 0)
      from += done, count -= done, offset += done;
    else if (done == 0 || errno != EINTR)
      reason = done == 0 ? ENOSPC : errno;
  }
  if (reason == EFBIG && !sigismember(&waiting, SIGXFSZ)) sigtimedwait(&limit, NULL, &now);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = reason;
  return reason == 0;
}

/* Internal: puts a temporary file on the disk, and closes it. */
static inline int gpuzip_mpi_finish(gpuzip_mpi_job_t *job, int file, const char *name)
{
  int done = fsync(file) == 0;

  if (close(file) != 0) done = 0;
  if (!done) gpuzip_mpi_fail_file(job, name, "free space on the disk, or look for its faults");
  return done;
}

/* Internal: gives a file that is on the disk its name. */
static inline void gpuzip_mpi_publish(gpuzip_mpi_job_t *job, const char *temporary, const char *name)
{
  if (renameat(job->folder, temporary, job->folder, name) != 0)
    gpuzip_mpi_fail_file(job, name, "the file cannot get its name");
  else if (fsync(job->folder) != 0 && errno != EINVAL && errno != EOPNOTSUPP)
    gpuzip_mpi_fail_file(job, name, "look for faults of the disk");
}

/* Internal: the length of a file, and the checksum at its end, which is of all others; 0 for no generation. */
static inline int64_t gpuzip_mpi_identity(int file, uint32_t *checksum)
{
  unsigned char end[12];
  struct stat found;

  if (file < 0 || fstat(file, &found) != 0 || found.st_size < 56 || !gpuzip_mpi_read(file, end, 12, (int64_t)found.st_size - 12)) return 0;
  *checksum = (uint32_t)gpuzip_mpi_get(end, 4);
  return (int64_t)found.st_size;
}

/* Internal: bytes of a head before the checksums of blocks. */
static inline int gpuzip_mpi_head_common(const gpuzip_mpi_head_t *head) { return GPUZIP_MPI_HEAD + 16 * head->k; }
/* Internal: bytes of a head. */
static inline int gpuzip_mpi_head_length(const gpuzip_mpi_head_t *head) { return gpuzip_mpi_head_common(head) + 4 * head->m + 4; }
/* Internal: the entry of a member: its rank, the checksum at the end of its generation, and the bytes of that. */
static inline unsigned char *gpuzip_mpi_member(gpuzip_mpi_head_t *head, int place) { return head->bytes + GPUZIP_MPI_HEAD + 16 * place; }
/* Internal: the rank of a member. */
static inline int gpuzip_mpi_member_rank(gpuzip_mpi_head_t *head, int place) { return (int)gpuzip_mpi_get(gpuzip_mpi_member(head, place), 4); }
/* Internal: the bytes of the generation of a member. */
static inline int64_t gpuzip_mpi_member_length(gpuzip_mpi_head_t *head, int place)
{
  return (int64_t)gpuzip_mpi_get(gpuzip_mpi_member(head, place) + 8, 8);
}

/* Internal: writes the numbers of a head into its bytes, but for the list of members. */
static inline void gpuzip_mpi_head_write(gpuzip_mpi_head_t *head, const uint32_t *checksums)
{
  static const unsigned char mark[8] = {0x89, 'g', 'p', 'z', 'p', 'a', 'r', '\n'};
  unsigned char *at = head->bytes;
  int length = gpuzip_mpi_head_length(head), i;

  memcpy(at, mark, 8);
  gpuzip_mpi_put(at + 8, 4, 1);
  gpuzip_mpi_put(at + 12, 4, (uint64_t)length);
  gpuzip_mpi_put(at + 16, 8, (uint64_t)head->generation);
  gpuzip_mpi_put(at + 24, 8, (uint64_t)head->stamp);
  gpuzip_mpi_put(at + 32, 8, (uint64_t)head->block);
  gpuzip_mpi_put(at + 40, 4, (uint64_t)head->ranks);
  gpuzip_mpi_put(at + 44, 4, (uint64_t)head->k);
  gpuzip_mpi_put(at + 48, 4, (uint64_t)head->m);
  gpuzip_mpi_put(at + 52, 4, (uint64_t)head->place);
  for (i = 0; i < head->m; i++) gpuzip_mpi_put(at + gpuzip_mpi_head_common(head) + 4 * i, 4, checksums[i]);
  gpuzip_mpi_put(at + length - 4, 4, gpuzip_persist_checksum(0, at, (uint64_t)length - 4));
}

/* Internal: reads and checks the numbers of a head whose bytes are there. */
static inline int gpuzip_mpi_head_parse(gpuzip_mpi_head_t *head)
{
  static const unsigned char mark[8] = {0x89, 'g', 'p', 'z', 'p', 'a', 'r', '\n'};
  const unsigned char *at = head->bytes;
  int length, i, members = 0;

  head->generation = (int64_t)gpuzip_mpi_get(at + 16, 8);
  head->stamp = (int64_t)gpuzip_mpi_get(at + 24, 8);
  head->block = (int64_t)gpuzip_mpi_get(at + 32, 8);
  head->ranks = (int)gpuzip_mpi_get(at + 40, 4);
  head->k = (int)gpuzip_mpi_get(at + 44, 4);
  head->m = (int)gpuzip_mpi_get(at + 48, 4);
  head->place = (int)gpuzip_mpi_get(at + 52, 4);
  if (memcmp(at, mark, 8) != 0 || gpuzip_mpi_get(at + 8, 4) != 1 || head->k < 2 || head->k > GPUZIP_MPI_MOST || head->m < 1 ||
      head->m >= head->k || head->place < 0 || head->place >= head->k || head->block < 1 || head->block > INT64_MAX / GPUZIP_MPI_MOST - 65536)
    return 0;
  length = gpuzip_mpi_head_length(head);
  if (gpuzip_mpi_get(at + 12, 4) != (uint64_t)length ||
      gpuzip_mpi_get(at + length - 4, 4) != gpuzip_persist_checksum(0, at, (uint64_t)length - 4))
    return 0;
  for (i = 0; i < head->k; i++) {
    int rank = gpuzip_mpi_member_rank(head, i);
    int64_t bytes = gpuzip_mpi_member_length(head, i);

    members += rank >= 0 && rank < head->ranks && bytes >= 56 && bytes <= head->block * (head->k - head->m) &&
               (i == 0 || rank > gpuzip_mpi_member_rank(head, i - 1));
  }
  return members == head->k;
}

/* Internal: reads the head of this rank's parity of a generation; returns whether it is right. */
static inline int gpuzip_mpi_head_read(gpuzip_mpi_job_t *job, int file, int64_t generation, gpuzip_mpi_head_t *head)
{
  struct stat found;
  int64_t length;

  if (file < 0 || fstat(file, &found) != 0) return 0;
  length = (int64_t)found.st_size < GPUZIP_MPI_HEAD_MOST ? (int64_t)found.st_size : GPUZIP_MPI_HEAD_MOST;
  memset(head->bytes, 0, sizeof head->bytes);
  return length >= GPUZIP_MPI_HEAD && gpuzip_mpi_read(file, head->bytes, length, 0) && gpuzip_mpi_head_parse(head) &&
         head->generation == generation && head->ranks == job->size && gpuzip_mpi_member_rank(head, head->place) == job->rank &&
         (int64_t)found.st_size == gpuzip_mpi_head_length(head) + head->m * head->block;
}

/* Internal: whether the blocks of a file of parity are as they were written. */
static inline int gpuzip_mpi_blocks_are_right(gpuzip_mpi_job_t *job, int file, gpuzip_mpi_head_t *head)
{
  unsigned char *piece = (unsigned char *)malloc(GPUZIP_MPI_PIECE);
  int64_t offset = gpuzip_mpi_head_length(head), at, count;
  int i, right = piece != NULL;

  if (!right) gpuzip_mpi_fail(job, GPUZIP_ERR_MEMORY, "no memory for %d bytes: free memory", GPUZIP_MPI_PIECE);
  for (i = 0; right && i < head->m; i++, offset += head->block) {
    uint32_t checksum = 0;

    for (at = 0; right && at < head->block; at += count) {
      count = head->block - at < GPUZIP_MPI_PIECE ? head->block - at : GPUZIP_MPI_PIECE;
      right = gpuzip_mpi_read(file, piece, count, offset + at);
      if (right) checksum = gpuzip_persist_checksum(checksum, piece, (uint64_t)count);
    }
    right = right && checksum == gpuzip_mpi_get(head->bytes + gpuzip_mpi_head_common(head) + 4 * i, 4);
  }
  free(piece);
  return right;
}

/* Internal: the number of a member's block in a stripe. */
static inline int gpuzip_mpi_block(const gpuzip_mpi_group_t *group, int place, int stripe)
{
  return (place - stripe + group->head.k) % group->head.k;
}

/* Internal: whether a member's block in a stripe is known. */
static inline int gpuzip_mpi_knows(const gpuzip_mpi_group_t *group, int place, int stripe)
{
  return group->has[gpuzip_mpi_block(group, place, stripe) < group->head.m ? GPUZIP_MPI_PARITY : GPUZIP_MPI_GEN][place];
}

/* Internal: the member that has the block with this number in the code, data first, in a stripe. */
static inline int gpuzip_mpi_holder(const gpuzip_mpi_group_t *group, int code, int stripe)
{
  int k = group->head.k, m = group->head.m;

  return (stripe + (code < k - m ? code + m : code - (k - m))) % k;
}

/* Internal: whether every block that a member lacks can be computed; `lacks` becomes whether one does. */
static inline int gpuzip_mpi_suffices(const gpuzip_mpi_group_t *group, int *lacks)
{
  int k = group->head.k, stripe, place, suffices = 1;

  *lacks = 0;
  for (stripe = 0; stripe < k; stripe++) {
    int known = 0;

    for (place = 0; place < k; place++) known += gpuzip_mpi_knows(group, place, stripe);
    *lacks |= known < k;
    suffices &= known == k || known >= k - group->head.m;
  }
  return suffices;
}

/* Internal: bytes of a piece in a group, and of all memory for pieces. */
static inline int64_t gpuzip_mpi_piece(const gpuzip_mpi_group_t *group)
{
  int64_t piece = GPUZIP_MPI_MEMORY / (2 * group->head.k) / 64 * 64;

  if (piece > GPUZIP_MPI_PIECE) piece = GPUZIP_MPI_PIECE;
  return piece < group->head.block ? piece : group->head.block;
}

/* Internal: a piece of this member's block in a stripe, from its file; zeros stand behind the end of the file. */
static inline void gpuzip_mpi_take(gpuzip_mpi_job_t *job, gpuzip_mpi_group_t *group, int stripe, int64_t offset, int64_t count, unsigned char *to)
{
  gpuzip_mpi_head_t *head = &group->head;
  int i = gpuzip_mpi_block(group, group->place, stripe), kind = i < head->m ? GPUZIP_MPI_PARITY : GPUZIP_MPI_GEN;
  int64_t begin, some = count;

  if (kind == GPUZIP_MPI_PARITY) {
    begin = gpuzip_mpi_head_length(head) + i * head->block + offset;
  } else {
    begin = (i - head->m) * head->block + offset;
    some = gpuzip_mpi_member_length(head, group->place) - begin;
    some = some < 0 ? 0 : some > count ? count : some;
  }
  memset(to + some, 0, (size_t)(count - some));
  if (!gpuzip_mpi_read(group->file[kind], to, some, begin)) {
    gpuzip_mpi_name_t name = gpuzip_mpi_name(job->rank, head->generation, gpuzip_mpi_end(kind));
    gpuzip_mpi_fail_file(job, name.text, "the file cannot be read: look for faults of the disk");
  }
}

/* Internal: puts a piece that was computed into the file that is written. */
static inline void gpuzip_mpi_give(gpuzip_mpi_job_t *job, gpuzip_mpi_group_t *group, int i, int64_t offset, int64_t count, const unsigned char *from)
{
  gpuzip_mpi_head_t *head = &group->head;
  int kind = i < head->m ? GPUZIP_MPI_PARITY : GPUZIP_MPI_GEN;
  int64_t begin, some = count;

  if (kind == GPUZIP_MPI_PARITY) {
    begin = gpuzip_mpi_head_length(head) + i * head->block + offset;
    group->checksums[i] = gpuzip_persist_checksum(group->checksums[i], from, (uint64_t)count);
  } else {
    begin = (i - head->m) * head->block + offset;
    some = gpuzip_mpi_member_length(head, group->place) - begin;
    some = some < 0 ? 0 : some > count ? count : some;
  }
  if (job->status >= 0 && !gpuzip_mpi_write(group->made[kind], from, some, begin)) {
    gpuzip_mpi_name_t name = gpuzip_mpi_name(job->rank, head->generation, gpuzip_mpi_temporary(kind));
    gpuzip_mpi_fail_file(job, name.text, "free space on the disk, or look for its faults");
  }
}

/* Internal: computes what the members of a group lack, and writes it to the files in `made`. A rank that fails goes on
 * to send and to receive, so that no other waits for it. `group->memory` has room for 2 k pieces. */
static inline void gpuzip_mpi_complete(gpuzip_mpi_job_t *job, gpuzip_mpi_group_t *group)
{
  const int k = group->head.k, m = group->head.m, place = group->place;
  const int64_t piece = gpuzip_mpi_piece(group);
  unsigned char *own = group->memory, *theirs = own + k * piece, *result = theirs + (k - m) * piece;
  MPI_Request requests[2 * GPUZIP_MPI_MOST];
  MPI_Status statuses[2 * GPUZIP_MPI_MOST]; /* MPICH's MPI_STATUSES_IGNORE makes compilers warn */
  int32_t present[GPUZIP_MPI_MOST];
  void *blocks[GPUZIP_MPI_MOST];
  gpuzip_status_t status;
  int64_t offset, count;
  int stripe, i, code;

  memset(group->checksums, 0, sizeof group->checksums);
  for (offset = 0; offset < group->head.block; offset += count) {
    count = group->head.block - offset < piece ? group->head.block - offset : piece;
    for (stripe = 0; stripe < k; stripe++)
      if (gpuzip_mpi_knows(group, place, stripe)) gpuzip_mpi_take(job, group, stripe, offset, count, own + stripe * piece);
    for (i = 0; i < k; i++) { /* the members compute their blocks with number i, each of another stripe */
      int pending = 0, computes = 0;

      for (stripe = 0; stripe < k; stripe++) {
        int to = (stripe + i) % k, sources = 0;

        if (gpuzip_mpi_knows(group, to, stripe)) continue;
        if (to == place) {
          computes = 1;
          memset(present, 0, sizeof present);
          memset(blocks, 0, sizeof blocks);
        }
        for (code = 0; code < k && sources < k - m; code++) { /* of the blocks that are known, the first k - m are used */
          int from = gpuzip_mpi_holder(group, code, stripe);

          if (!gpuzip_mpi_knows(group, from, stripe)) continue;
          if (to == place) {
            present[code] = 1;
            blocks[code] = theirs + sources * piece;
            if (!gpuzip_mpi_did(job, MPI_Irecv(blocks[code], (int)count, MPI_BYTE, from, i, group->comm, &requests[pending++]))) return;
          } else if (from == place) {
            if (!gpuzip_mpi_did(job, MPI_Isend(own + stripe * piece, (int)count, MPI_BYTE, to, i, group->comm, &requests[pending++]))) return;
          }
          sources++;
        }
      }
      if (!gpuzip_mpi_did(job, MPI_Waitall(pending, requests, statuses))) return;
      if (!computes) continue;
      blocks[i < m ? k - m + i : i - m] = result;
      status = gpuzip_persist_parity(blocks, present, (uint32_t)(k - m), (uint32_t)m, (uint64_t)count);
      if (status < 0) gpuzip_mpi_fail_call(job, status);
      gpuzip_mpi_give(job, group, i, offset, count, result);
    }
  }
}

/* Internal: closes the files of a group and gives its memory and its communicator back. What was written and has no
 * name is removed. */
static inline void gpuzip_mpi_leave(gpuzip_mpi_job_t *job, gpuzip_mpi_group_t *group)
{
  int kind;

  for (kind = 0; kind < 2; kind++) {
    if (group->file[kind] >= 0) close(group->file[kind]);
    if (group->made[kind] >= 0) {
      gpuzip_mpi_name_t name = gpuzip_mpi_name(job->rank, group->head.generation, gpuzip_mpi_temporary(kind));

      close(group->made[kind]);
      unlinkat(job->folder, name.text, 0);
    }
    group->file[kind] = group->made[kind] = -1;
  }
  if (!job->broken) free(group->memory); /* MPI may still write there */
  group->memory = NULL;
  if (group->comm != MPI_COMM_NULL && !job->broken) MPI_Comm_free(&group->comm);
  group->comm = MPI_COMM_NULL;
}

/* Internal: makes room, and the temporary files of what this member lacks. */
static inline void gpuzip_mpi_prepare(gpuzip_mpi_job_t *job, gpuzip_mpi_group_t *group)
{
  int64_t bytes = 2 * group->head.k * gpuzip_mpi_piece(group);
  int kind;

  group->memory = (unsigned char *)malloc((size_t)bytes);
  if (group->memory == NULL) gpuzip_mpi_fail(job, GPUZIP_ERR_MEMORY, "no memory for %lld bytes: free memory", (long long)bytes);
  for (kind = 0; kind < 2; kind++) {
    gpuzip_mpi_name_t name = gpuzip_mpi_name(job->rank, group->head.generation, gpuzip_mpi_temporary(kind));

    if (!group->has[kind][group->place]) group->made[kind] = gpuzip_mpi_create(job, name.text);
  }
}

/* Internal: gives this member's temporary file its name, when its bytes are on the disk. */
static inline void gpuzip_mpi_name_made(gpuzip_mpi_job_t *job, gpuzip_mpi_group_t *group, int kind, gpuzip_mpi_result_t *result)
{
  gpuzip_mpi_name_t temporary = gpuzip_mpi_name(job->rank, group->head.generation, gpuzip_mpi_temporary(kind));
  gpuzip_mpi_name_t name = gpuzip_mpi_name(job->rank, group->head.generation, gpuzip_mpi_end(kind));
  struct stat found;

  if (group->made[kind] < 0 || job->status < 0) return;
  if (fstat(group->made[kind], &found) == 0) result->bytes += (int64_t)found.st_size;
  close(group->made[kind]);
  group->made[kind] = -1;
  result->rebuilt++;
  gpuzip_mpi_publish(job, temporary.text, name.text);
}

/* Internal: writes the head of the parity that was computed, and puts what was computed on the disk. */
static inline void gpuzip_mpi_settle(gpuzip_mpi_job_t *job, gpuzip_mpi_group_t *group)
{
  int kind;

  for (kind = 0; kind < 2; kind++) {
    gpuzip_mpi_name_t name = gpuzip_mpi_name(job->rank, group->head.generation, gpuzip_mpi_temporary(kind));
    int done = 1;

    if (group->made[kind] < 0) continue;
    if (kind == GPUZIP_MPI_PARITY) {
      group->head.place = group->place;
      gpuzip_mpi_head_write(&group->head, group->checksums);
      done = gpuzip_mpi_write(group->made[kind], group->head.bytes, gpuzip_mpi_head_length(&group->head), 0);
    }
    if (!done || fsync(group->made[kind]) != 0) gpuzip_mpi_fail_file(job, name.text, "free space on the disk, or look for its faults");
  }
}

/* Internal: begins a call; `folder` stays -1 if `dir` cannot be opened. */
static inline void gpuzip_mpi_begin(gpuzip_mpi_job_t *job, MPI_Comm comm, const char *dir)
{
  memset(job, 0, sizeof *job);
  job->comm = comm;
  job->folder = -1;
  job->dir = dir;
  if (!gpuzip_mpi_did(job, MPI_Comm_rank(comm, &job->rank)) || !gpuzip_mpi_did(job, MPI_Comm_size(comm, &job->size))) return;
  if (dir == NULL || dir[0] == '\0') {
    gpuzip_mpi_fail(job, GPUZIP_ERR_ARGUMENT, "dir is NULL or empty: give the folder persist_dir");
    return;
  }
  job->folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (job->folder < 0) gpuzip_mpi_fail(job, GPUZIP_ERR_IO, "folder of restart files %s: %s", dir, strerror(errno));
}

/* Internal: ends a call: closes the folder, adds the numbers of all ranks, and tells the text. */
static inline gpuzip_status_t gpuzip_mpi_end_call(gpuzip_mpi_job_t *job, const gpuzip_mpi_result_t *done, gpuzip_mpi_result_t *result)
{
  if (job->folder >= 0) close(job->folder);
  if (result != NULL) {
    *result = *done;
    if (job->status < 0) {
      result->generation = 0;
      memcpy(result->text, job->text, sizeof result->text);
    }
  }
  return job->status;
}

/* Internal: adds the numbers of all ranks. */
static inline void gpuzip_mpi_sum(gpuzip_mpi_job_t *job, gpuzip_mpi_result_t *done)
{
  int64_t sums[3] = {done->moved, done->rebuilt, done->bytes};

  if (!job->broken) gpuzip_mpi_did(job, MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_INT64_T, MPI_SUM, job->comm));
  done->moved = sums[0];
  done->rebuilt = sums[1];
  done->bytes = sums[2];
}

/* Internal: a rank, by its node and by its number among the ranks of the node. */
typedef struct gpuzip_mpi_seat_t {
  int64_t node;
  int rank, local;
} gpuzip_mpi_seat_t;

/* Internal: compares seats by node, then by rank. */
static inline int gpuzip_mpi_by_node(const void *a, const void *b)
{
  const gpuzip_mpi_seat_t *one = (const gpuzip_mpi_seat_t *)a, *other = (const gpuzip_mpi_seat_t *)b;

  if (one->node != other->node) return one->node < other->node ? -1 : 1;
  return one->rank < other->rank ? -1 : one->rank > other->rank;
}

/* Internal: compares seats by the number on their nodes, then by node. */
static inline int gpuzip_mpi_by_local(const void *a, const void *b)
{
  const gpuzip_mpi_seat_t *one = (const gpuzip_mpi_seat_t *)a, *other = (const gpuzip_mpi_seat_t *)b;

  if (one->local != other->local) return one->local < other->local ? -1 : 1;
  return gpuzip_mpi_by_node(a, b);
}

/* Internal: a group that a rank on this node can join, the smallest; -1: none. `groups` groups have `sizes`, and the
 * first `seated` seats are in `group_of`. */
static inline int gpuzip_mpi_free_group(const gpuzip_mpi_seat_t *seats, const int *group_of, int seated, const int *sizes, int groups,
                                        unsigned char *taken, int64_t node)
{
  int best = -1, i;

  memset(taken, 0, (size_t)groups);
  for (i = 0; i < seated; i++)
    if (seats[i].node == node) taken[group_of[seats[i].rank]] = 1;
  for (i = 0; i < groups; i++)
    if (!taken[i] && sizes[i] < GPUZIP_MPI_MOST && (best < 0 || sizes[i] < sizes[best])) best = i;
  return best;
}

/* Internal: divides the ranks into groups on different nodes: those that are first on their node into groups of
 * neighbouring nodes, and so on with those that are second. Where nodes have fewer ranks than others, so that
 * too few are left for a group, the last ranks join groups. Returns the number of nodes; `group_of` becomes the
 * group of each rank, and `*m` what this many nodes allow. */
static inline int gpuzip_mpi_divide(gpuzip_mpi_job_t *job, gpuzip_mpi_seat_t *seats, int k, int *m, int *group_of)
{
  int nodes = 0, groups = 0, begin, end, i;
  int *sizes = (int *)calloc((size_t)job->size, sizeof *sizes);
  unsigned char *taken = (unsigned char *)malloc((size_t)job->size);

  if (sizes == NULL || taken == NULL) gpuzip_mpi_fail(job, GPUZIP_ERR_MEMORY, "no memory for a list of %d ranks: free memory", job->size);
  qsort(seats, (size_t)job->size, sizeof *seats, gpuzip_mpi_by_node);
  for (i = 0; i < job->size; i++) {
    seats[i].local = i > 0 && seats[i].node == seats[i - 1].node ? seats[i - 1].local + 1 : 0;
    nodes += seats[i].local == 0;
  }
  qsort(seats, (size_t)job->size, sizeof *seats, gpuzip_mpi_by_local);
  if (k > nodes) k = nodes;
  if (*m >= k) *m = k - 1;
  for (begin = 0; nodes > 1 && job->status >= 0 && begin < job->size; begin = end) {
    int count, parts;

    for (end = begin; end < job->size && seats[end].local == seats[begin].local; end++) continue;
    count = end - begin;
    parts = (count + k - 1) / k;
    while (parts > 1 && count / parts <= *m) parts--;
    for (i = 0; i < count; i++) {
      int group = groups + (int)((int64_t)i * parts / count);

      if (count <= *m) group = gpuzip_mpi_free_group(seats, group_of, begin + i, sizes, groups, taken, seats[begin + i].node);
      if (group < 0 || sizes[group] == GPUZIP_MPI_MOST) {
        gpuzip_mpi_fail(job, GPUZIP_ERR_CONFIG,
                        "no group of ranks on other nodes is left for rank %d: start the same number of ranks on every node, or ask for less parity than %d",
                        seats[begin + i].rank, *m);
        break;
      }
      group_of[seats[begin + i].rank] = group;
      sizes[group]++;
    }
    if (count > *m) groups += parts;
  }
  free(sizes);
  free(taken);
  return nodes;
}

/* Internal: which ranks share a node; the number of a node is that of its first rank, or given. */
static inline void gpuzip_mpi_seats(gpuzip_mpi_job_t *job, int64_t node, gpuzip_mpi_seat_t *seats)
{
  MPI_Comm shared = MPI_COMM_NULL;
  gpuzip_mpi_seat_t own;

  memset(&own, 0, sizeof own);
  own.rank = job->rank;
  own.node = node;
  if (node == 0) {
    int first = job->rank;

    if (!gpuzip_mpi_did(job, MPI_Comm_split_type(job->comm, MPI_COMM_TYPE_SHARED, job->rank, MPI_INFO_NULL, &shared)) ||
        !gpuzip_mpi_did(job, MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, shared)))
      return;
    MPI_Comm_free(&shared);
    own.node = first;
  }
  gpuzip_mpi_did(job, MPI_Allgather(&own, (int)sizeof own, MPI_BYTE, seats, (int)sizeof own, MPI_BYTE, job->comm));
}

/* Internal: joins the group of this rank: its communicator, and its members in the head. */
static inline void gpuzip_mpi_join(gpuzip_mpi_job_t *job, gpuzip_mpi_group_t *group, int k, int m, int64_t node, gpuzip_mpi_result_t *done, int *nodes)
{
  gpuzip_mpi_seat_t *seats = (gpuzip_mpi_seat_t *)malloc((size_t)job->size * sizeof *seats);
  int *group_of = (int *)malloc((size_t)job->size * sizeof *group_of);
  int asked = m, size;

  if (seats == NULL || group_of == NULL) gpuzip_mpi_fail(job, GPUZIP_ERR_MEMORY, "no memory for a list of %d ranks: free memory", job->size);
  if (gpuzip_mpi_all(job)) gpuzip_mpi_seats(job, node, seats);
  if (job->status >= 0) *nodes = gpuzip_mpi_divide(job, seats, k, &m, group_of);
  if (gpuzip_mpi_all(job) && *nodes > 1) {
    if (m < asked) gpuzip_mpi_say(done, "the ranks are on %d nodes: at most %d of a group may be lost, not %d", *nodes, m, asked);
    if (gpuzip_mpi_did(job, MPI_Comm_split(job->comm, group_of[job->rank], job->rank, &group->comm)) &&
        gpuzip_mpi_did(job, MPI_Comm_rank(group->comm, &group->place)) && gpuzip_mpi_did(job, MPI_Comm_size(group->comm, &size))) {
      group->head.k = size;
      group->head.m = m;
      group->head.ranks = job->size;
    }
  }
  free(seats);
  free(group_of);
}

/* Internal: makes and publishes the parity of a generation whose file is open in `group->file`. */
static inline void gpuzip_mpi_encode(gpuzip_mpi_job_t *job, gpuzip_mpi_group_t *group, gpuzip_mpi_result_t *done)
{
  gpuzip_mpi_head_t *head = &group->head;
  unsigned char member[16];
  struct timespec now;
  uint32_t checksum = 0;
  int64_t length = gpuzip_mpi_identity(group->file[GPUZIP_MPI_GEN], &checksum), longest = 1, stamp;
  int i;

  if (length == 0) {
    gpuzip_mpi_name_t name = gpuzip_mpi_name(job->rank, head->generation, "gen");
    gpuzip_mpi_fail(job, GPUZIP_ERR_STREAM, "%s/%s is no generation: remove it", job->dir, name.text);
  }
  gpuzip_mpi_put(member, 4, (uint64_t)job->rank);
  gpuzip_mpi_put(member + 4, 4, checksum);
  gpuzip_mpi_put(member + 8, 8, (uint64_t)length);
  clock_gettime(CLOCK_REALTIME, &now);
  stamp = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  stamp = stamp > head->stamp ? -stamp : -(head->stamp + 1); /* later than that of an attempt before */
  if (!gpuzip_mpi_all(job) || !gpuzip_mpi_least(job, &stamp, 1) ||
      !gpuzip_mpi_did(job, MPI_Allgather(member, 16, MPI_BYTE, gpuzip_mpi_member(head, 0), 16, MPI_BYTE, group->comm)))
    return;
  head->stamp = -stamp;
  for (i = 0; i < head->k; i++)
    if (gpuzip_mpi_member_length(head, i) > longest) longest = gpuzip_mpi_member_length(head, i);
  head->block = (longest + head->k - head->m - 1) / (head->k - head->m);
  memset(group->has[GPUZIP_MPI_GEN], 1, GPUZIP_MPI_MOST);
  memset(group->has[GPUZIP_MPI_PARITY], 0, GPUZIP_MPI_MOST);
  gpuzip_mpi_prepare(job, group);
  if (!gpuzip_mpi_all(job)) return;
  gpuzip_mpi_complete(job, group);
  if (!job->broken) gpuzip_mpi_settle(job, group);
  if (!gpuzip_mpi_all(job)) return;
  gpuzip_mpi_name_made(job, group, GPUZIP_MPI_PARITY, done);
  gpuzip_mpi_all(job);
}

/* Internal: removes this rank's parity of generations before the two newest that are protected, and what a dead process
 * has left. */
static inline void gpuzip_mpi_prune(gpuzip_mpi_job_t *job, int64_t newest)
{
  int64_t second = gpuzip_mpi_newest(job, GPUZIP_MPI_PARITY, 0, newest - 1);

  gpuzip_mpi_remove(job, job->rank, "parity", 1, second - 1);
  gpuzip_mpi_remove(job, job->rank, "parity.tmp", 1, newest);
}

/* Protects the newest generation that all ranks have published in `dir`, their `persist_dir`, and keeps the parity
 * of the one that was protected before. If that generation is protected already, or if there is none, the call
 * returns at once. Memory: 33 MiB. Call it for every generation, after gpuzip_persist_wait and before the
 * next gpuzip_persist_write: that one removes older generations, which parity needs. If ranks run on one node only, nothing is done, and
 * `text` says so. `options` and `result` may be NULL. */
static inline gpuzip_status_t gpuzip_mpi_protect(MPI_Comm comm, const char *dir, const gpuzip_mpi_options_t *options, gpuzip_mpi_result_t *result)
{
  gpuzip_mpi_options_t asked = {0, 0, 0};
  gpuzip_mpi_result_t done;
  gpuzip_mpi_group_t group;
  gpuzip_mpi_head_t head;
  gpuzip_mpi_job_t job;
  int64_t values[8], bound = GPUZIP_MPI_LAST;
  int nodes = 0;

  memset(&done, 0, sizeof done);
  memset(&group, 0, sizeof group);
  group.comm = MPI_COMM_NULL;
  group.file[0] = group.file[1] = group.made[0] = group.made[1] = -1;
  if (options != NULL) asked = *options;
  if (asked.group == 0) asked.group = asked.parity < 8 ? 8 : asked.parity + 1;
  if (asked.parity == 0) asked.parity = 1;
  gpuzip_mpi_begin(&job, comm, dir);
  job.group = &group.comm;
  if (asked.group < 2 || asked.group > 255 || asked.parity < 1 || asked.parity >= asked.group || asked.node < 0)
    gpuzip_mpi_fail(&job, GPUZIP_ERR_ARGUMENT, "group = %d, parity = %d, node = %lld: group is from 2 to 255, parity from 1 to group - 1, node from 0 on",
                    (int)asked.group, (int)asked.parity, (long long)asked.node);
  values[0] = asked.group, values[1] = -asked.group, values[2] = asked.parity, values[3] = -asked.parity;
  values[4] = asked.node == 0, values[5] = -(asked.node == 0), values[6] = job.status >= 0, values[7] = 0;
  if (job.status >= 0) values[7] = gpuzip_mpi_newest(&job, GPUZIP_MPI_GEN, 0, bound);
  if (gpuzip_mpi_least(&job, values, 8) && (values[0] != -values[1] || values[2] != -values[3] || values[4] != -values[5]))
    gpuzip_mpi_fail(&job, GPUZIP_ERR_ARGUMENT, "group, parity, or whether node is 0, differ between ranks: give all ranks the same ones");
  while (job.status >= 0 && values[6] != 0 && values[7] > 0) {
    gpuzip_mpi_name_t name = gpuzip_mpi_name(job.rank, values[7], "gen");
    uint32_t checksum = 0;
    int64_t length, votes[4];
    int parity;

    /* The file stays readable while it is open, also if the session removes its name. */
    group.head.generation = values[7];
    group.file[GPUZIP_MPI_GEN] = gpuzip_mpi_open(&job, name.text);
    if (group.file[GPUZIP_MPI_GEN] >= 0) { /* the copies must hold what older files hold of it (persist_whole_every) */
      gpuzip_status_t status = gpuzip_mpi_call(&job, name.text, gpuzip_persist_whole);

      if (status < 0) gpuzip_mpi_fail_call(&job, status);
      close(group.file[GPUZIP_MPI_GEN]);
      group.file[GPUZIP_MPI_GEN] = gpuzip_mpi_open(&job, name.text);
    }
    name = gpuzip_mpi_name(job.rank, values[7], "parity");
    parity = gpuzip_mpi_open(&job, name.text);
    length = gpuzip_mpi_identity(group.file[GPUZIP_MPI_GEN], &checksum);
    votes[0] = group.file[GPUZIP_MPI_GEN] >= 0;
    votes[1] = gpuzip_mpi_head_read(&job, parity, values[7], &head) && length == gpuzip_mpi_member_length(&head, head.place) &&
               checksum == gpuzip_mpi_get(gpuzip_mpi_member(&head, head.place) + 4, 4);
    votes[2] = group.head.stamp = votes[1] ? head.stamp : 0;
    votes[3] = -votes[2];
    if (parity >= 0) close(parity);
    if (!gpuzip_mpi_least(&job, votes, 4)) break;
    if (votes[0] == 1) {
      done.generation = values[7];
      if (votes[1] == 1 && votes[2] == -votes[3]) break; /* it is protected */
      if (gpuzip_mpi_did(&job, MPI_Comm_dup(comm, &job.comm))) {
        gpuzip_mpi_join(&job, &group, asked.group, asked.parity, asked.node, &done, &nodes);
        if (nodes > 1 && options != NULL && options->group > nodes)
          gpuzip_mpi_say(&done, "%sa group has at most one rank of each of the %d nodes", done.text[0] ? "; " : "", nodes);
        if (job.status >= 0 && nodes > 1) gpuzip_mpi_encode(&job, &group, &done);
        if (job.status >= 0 && nodes == 1) {
          gpuzip_mpi_say(&done, "all ranks are on one node: no copies are made");
          done.generation = 0;
        }
        gpuzip_mpi_sum(&job, &done);
        if (!job.broken) MPI_Comm_free(&job.comm);
      }
      break;
    }
    if (group.file[GPUZIP_MPI_GEN] >= 0) close(group.file[GPUZIP_MPI_GEN]);
    group.file[GPUZIP_MPI_GEN] = -1;
    values[7] = gpuzip_mpi_newest(&job, GPUZIP_MPI_GEN, 0, values[7] - 1);
    values[6] = job.status >= 0;
    if (!gpuzip_mpi_least(&job, values + 6, 2)) break;
  }
  job.comm = comm;
  gpuzip_mpi_all(&job);
  if (job.status >= 0 && done.generation > 0) gpuzip_mpi_prune(&job, done.generation);
  gpuzip_mpi_leave(&job, &group);
  return gpuzip_mpi_end_call(&job, &done, result);
}

/* Internal: makes a folder and those above it; errors show when it is opened. */
static inline void gpuzip_mpi_make_folder(const char *dir)
{
  char path[PATH_MAX];
  size_t length = dir != NULL ? strlen(dir) : 0, i;

  if (length == 0 || length >= sizeof path) return;
  memcpy(path, dir, length + 1);
  for (i = 1; i < length; i++) {
    if (path[i] != '/') continue;
    path[i] = '\0';
    mkdir(path, 0700);
    path[i] = '/';
  }
  mkdir(path, 0700);
}

/* Internal: takes the lock of a rank's files, and tries it `patience` times in 20 ms each: a killed process takes time to
 * end. Returns the descriptor that holds the lock; -1 if another process has it. */
static inline int gpuzip_mpi_lock(gpuzip_mpi_job_t *job, int rank, int patience)
{
  struct timespec pause = {0, 20000000};
  char name[40];
  int file, tries;

  snprintf(name, sizeof name, "gpuzip-r%06d.lock", rank);
  file = openat(job->folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (file < 0) {
    gpuzip_mpi_fail_file(job, name, "the file cannot be opened");
    return -1;
  }
  for (tries = 0; tries < patience; tries++) {
    if (flock(file, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR)) return file; /* or there are no locks */
    if (tries + 1 < patience) nanosleep(&pause, NULL);
  }
  close(file);
  return -1;
}

/* Internal: the least ranks whose folders have files of this generation that the folders of their own ranks lack:
 * of the file `kind` of rank r in `holders[2 * r + kind]`, or INT_MAX. Returns whether there is any. */
static inline int gpuzip_mpi_seek(gpuzip_mpi_job_t *job, int64_t generation, int *holders, unsigned char *lacks, int *lock)
{
  unsigned char own = 0;
  struct dirent *entry;
  int kind, i, any = 0;
  DIR *list;

  for (i = 0; i < 2 * job->size; i++) holders[i] = INT_MAX;
  for (kind = 0; kind < 2; kind++) {
    gpuzip_mpi_name_t name = gpuzip_mpi_name(job->rank, generation, gpuzip_mpi_end(kind));
    struct stat found;

    if (fstatat(job->folder, name.text, &found, AT_SYMLINK_NOFOLLOW) != 0) own |= (unsigned char)(1 << kind);
  }
  if (!gpuzip_mpi_did(job, MPI_Allgather(&own, 1, MPI_BYTE, lacks, 1, MPI_BYTE, job->comm))) return 0;
  for (i = 0; i < job->size; i++) any |= lacks[i];
  if (!any) return 0;
  list = gpuzip_mpi_list(job);
  while (list != NULL && (entry = readdir(list)) != NULL)
    for (kind = 0; kind < 2; kind++) {
      int64_t of;
      int rank;

      if (!gpuzip_mpi_is(entry->d_name, gpuzip_mpi_end(kind), &rank, &of) || of != generation || rank >= job->size || !(lacks[rank] >> kind & 1)) continue;
      if (lock[rank] < 0) lock[rank] = gpuzip_mpi_lock(job, rank, 1);
      if (lock[rank] < 0) continue; /* a process uses these files */
      /* What older files hold of it is here, too, and stays here. A file that is damaged is no better for it. */
      if (kind == GPUZIP_MPI_GEN) gpuzip_mpi_call(job, entry->d_name, gpuzip_persist_whole);
      holders[2 * rank + kind] = job->rank;
    }
  if (list != NULL) closedir(list);
  if (!gpuzip_mpi_did(job, MPI_Allreduce(MPI_IN_PLACE, holders, 2 * job->size, MPI_INT, MPI_MIN, job->comm))) return 0;
  for (any = 0, i = 0; i < 2 * job->size; i++) any |= holders[i] != INT_MAX;
  return any;
}

/* Internal: one direction of the transport of files: what message is under way, and of which file. */
typedef struct gpuzip_mpi_end_t {
  int step; /* 0: the length, 1: a piece, 2: whether all pieces were right, 3: no message */
  int rank; /* the other rank when receiving; the rank whose file is sent when sending */
  int file, right;
  int64_t length, at;
  unsigned char *piece;
} gpuzip_mpi_end_t;

/* Internal: the bytes of the message that is under way. */
static inline int gpuzip_mpi_message(const gpuzip_mpi_end_t *end)
{
  if (end->step != 1) return 8;
  return (int)(end->length - end->at < GPUZIP_MPI_PIECE ? end->length - end->at : GPUZIP_MPI_PIECE);
}

/* Internal: begins to send the file of the next rank, from `rank` on, that this rank holds. */
static inline void gpuzip_mpi_next_file(gpuzip_mpi_job_t *job, gpuzip_mpi_end_t *out, int kind, int64_t generation, const int *holders)
{
  gpuzip_mpi_name_t name;
  struct stat found;

  while (out->rank < job->size && holders[2 * out->rank + kind] != job->rank) out->rank++;
  out->step = out->rank < job->size ? 0 : 3;
  if (out->step == 3) return;
  name = gpuzip_mpi_name(out->rank, generation, gpuzip_mpi_end(kind));
  out->file = gpuzip_mpi_open(job, name.text);
  out->at = 0;
  out->right = 1;
  out->length = out->file >= 0 && fstat(out->file, &found) == 0 ? (int64_t)found.st_size : -1;
}

/* Internal: brings the files of one kind to the folders of their ranks. A file that cannot be read or written stays
 * where it is: it then counts as missing. Each rank sends and receives one piece at a time, and does both at once. */
static inline void gpuzip_mpi_move(gpuzip_mpi_job_t *job, int kind, int64_t generation, const int *holders, unsigned char *arrived, gpuzip_mpi_result_t *done)
{
  gpuzip_mpi_name_t name = gpuzip_mpi_name(job->rank, generation, gpuzip_mpi_end(kind));
  gpuzip_mpi_name_t temporary = gpuzip_mpi_name(job->rank, generation, gpuzip_mpi_temporary(kind));
  unsigned char *memory = (unsigned char *)malloc(2 * GPUZIP_MPI_PIECE), did_arrive = 0;
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  gpuzip_mpi_end_t in, out;
  int which;

  if (memory == NULL) gpuzip_mpi_fail(job, GPUZIP_ERR_MEMORY, "no memory for %d bytes: free memory", 2 * GPUZIP_MPI_PIECE);
  if (!gpuzip_mpi_all(job)) {
    free(memory);
    return;
  }
  memset(&in, 0, sizeof in);
  memset(&out, 0, sizeof out);
  in.piece = memory;
  out.piece = memory + GPUZIP_MPI_PIECE;
  in.rank = holders[2 * job->rank + kind];
  in.step = in.rank == INT_MAX ? 3 : 0;
  in.right = 1;
  in.file = -1;
  gpuzip_mpi_next_file(job, &out, kind, generation, holders);
  for (;;) {
    if (in.step < 3 && requests[0] == MPI_REQUEST_NULL &&
        !gpuzip_mpi_did(job, MPI_Irecv(in.piece, gpuzip_mpi_message(&in), MPI_BYTE, in.rank, kind, job->comm, &requests[0])))
      break;
    if (out.step < 3 && requests[1] == MPI_REQUEST_NULL) {
      if (out.step == 0) gpuzip_mpi_put(out.piece, 8, (uint64_t)out.length);
      if (out.step == 1 && !gpuzip_mpi_read(out.file, out.piece, gpuzip_mpi_message(&out), out.at)) out.right = 0;
      if (out.step == 2) gpuzip_mpi_put(out.piece, 8, (uint64_t)out.right);
      if (!gpuzip_mpi_did(job, MPI_Isend(out.piece, gpuzip_mpi_message(&out), MPI_BYTE, out.rank, kind, job->comm, &requests[1]))) break;
    }
    if (!gpuzip_mpi_did(job, MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE)) || which == MPI_UNDEFINED) break;
    if (which == 0 && in.step == 0) {
      in.length = (int64_t)gpuzip_mpi_get(in.piece, 8);
      in.step = in.length < 0 ? 3 : in.length == 0 ? 2 : 1;
      if (in.step < 3) in.file = gpuzip_mpi_create(job, temporary.text);
    } else if (which == 0 && in.step == 1) {
      int64_t count = gpuzip_mpi_message(&in);

      if (job->status >= 0 && !gpuzip_mpi_write(in.file, in.piece, count, in.at))
        gpuzip_mpi_fail_file(job, temporary.text, "free space on the disk, or look for its faults");
      in.at += count;
      if (in.at == in.length) in.step = 2;
    } else if (which == 0) {
      in.right = gpuzip_mpi_get(in.piece, 8) == 1;
      in.step = 3;
      if (job->status >= 0 && in.right) {
        did_arrive = (unsigned char)gpuzip_mpi_finish(job, in.file, temporary.text);
        in.file = -1;
        if (did_arrive) gpuzip_mpi_publish(job, temporary.text, name.text);
      }
    } else if (out.step == 0) {
      out.step = out.length < 0 ? 3 : out.length == 0 ? 2 : 1;
    } else if (out.step == 1) {
      out.at += gpuzip_mpi_message(&out);
      if (out.at == out.length) out.step = 2;
    } else {
      out.step = 3;
    }
    if (which == 1 && out.step == 3) {
      if (out.file >= 0) close(out.file);
      out.rank++;
      gpuzip_mpi_next_file(job, &out, kind, generation, holders);
    }
  }
  if (in.file >= 0) {
    close(in.file);
    unlinkat(job->folder, temporary.text, 0);
  }
  if (!job->broken) free(memory); /* MPI may still write there */
  done->moved += did_arrive;
  if (!job->broken) gpuzip_mpi_did(job, MPI_Allgather(&did_arrive, 1, MPI_BYTE, arrived, 1, MPI_BYTE, job->comm));
}

/* Internal: whether the file of a generation of this rank, published or not, is right. */
static inline int gpuzip_mpi_is_right(gpuzip_mpi_job_t *job, const char *name)
{
  return gpuzip_mpi_call(job, name, gpuzip_persist_check) >= 0;
}

/* Internal: joins the group that this rank's parity is of, by the files that are there, and tells what each member
 * has. Returns whether this rank has, or the group can compute, its file of the generation. Files that belong to no
 * parity, or to another one, are not touched. */
static inline int gpuzip_mpi_rejoin(gpuzip_mpi_job_t *job, int64_t generation, gpuzip_mpi_group_t *group, int *group_of, int *lacks)
{
  gpuzip_mpi_name_t name = gpuzip_mpi_name(job->rank, generation, "gen");
  gpuzip_mpi_head_t *head = &group->head, own;
  unsigned char state[4] = {0, 0, 0, 0}, states[4 * GPUZIP_MPI_MOST];
  uint32_t checksum = 0;
  int64_t stamp, length;
  int i, size = 0, first, mixed = 0, whole = 1;

  *lacks = 0;
  state[GPUZIP_MPI_GEN] = (unsigned char)gpuzip_mpi_is_right(job, name.text);
  if (state[GPUZIP_MPI_GEN]) group->file[GPUZIP_MPI_GEN] = gpuzip_mpi_open(job, name.text);
  name = gpuzip_mpi_name(job->rank, generation, "parity");
  group->file[GPUZIP_MPI_PARITY] = gpuzip_mpi_open(job, name.text);
  memset(&own, 0, sizeof own);
  state[GPUZIP_MPI_PARITY] = gpuzip_mpi_head_read(job, group->file[GPUZIP_MPI_PARITY], generation, &own) &&
                             gpuzip_mpi_blocks_are_right(job, group->file[GPUZIP_MPI_PARITY], &own);
  stamp = state[GPUZIP_MPI_PARITY] ? -own.stamp : 0;
  if (!gpuzip_mpi_all(job) || !gpuzip_mpi_least(job, &stamp, 1)) return 0;
  if (own.stamp != -stamp) state[GPUZIP_MPI_PARITY] = 0; /* of an attempt that did not end */
  for (i = 0; i < job->size; i++) group_of[i] = -1;
  for (i = 0; state[GPUZIP_MPI_PARITY] && i < own.k; i++) group_of[gpuzip_mpi_member_rank(&own, i)] = gpuzip_mpi_member_rank(&own, 0);
  if (!gpuzip_mpi_did(job, MPI_Allreduce(MPI_IN_PLACE, group_of, job->size, MPI_INT, MPI_MAX, job->comm)) ||
      !gpuzip_mpi_did(job, MPI_Comm_split(job->comm, group_of[job->rank] < 0 ? MPI_UNDEFINED : group_of[job->rank], job->rank, &group->comm)))
    return 0;
  if (group->comm == MPI_COMM_NULL) return state[GPUZIP_MPI_GEN];
  if (!gpuzip_mpi_did(job, MPI_Comm_rank(group->comm, &group->place)) || !gpuzip_mpi_did(job, MPI_Comm_size(group->comm, &size))) return 0;
  first = state[GPUZIP_MPI_PARITY] ? group->place : INT_MAX;
  if (!gpuzip_mpi_did(job, MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, group->comm))) return 0;
  *head = own;
  if (first == INT_MAX) return state[GPUZIP_MPI_GEN];
  if (!gpuzip_mpi_did(job, MPI_Bcast(head->bytes, (int)sizeof head->bytes, MPI_BYTE, first, group->comm))) return 0;
  if (!gpuzip_mpi_head_parse(head) || head->k != size || gpuzip_mpi_member_rank(head, group->place) != job->rank) {
    mixed = 1;
  } else {
    length = gpuzip_mpi_identity(group->file[GPUZIP_MPI_GEN], &checksum);
    if (state[GPUZIP_MPI_GEN] && (length != gpuzip_mpi_member_length(head, group->place) ||
                                  checksum != gpuzip_mpi_get(gpuzip_mpi_member(head, group->place) + 4, 4)))
      mixed = 1;
    /* All but the place and the checksums of the blocks is the same in all heads. */
    if (state[GPUZIP_MPI_PARITY] && (memcmp(own.bytes, head->bytes, 52) != 0 ||
                                     memcmp(own.bytes + GPUZIP_MPI_HEAD, head->bytes + GPUZIP_MPI_HEAD, (size_t)(16 * head->k)) != 0))
      mixed = 1;
  }
  state[2] = (unsigned char)mixed;
  if (size > GPUZIP_MPI_MOST) return state[GPUZIP_MPI_GEN];
  if (!gpuzip_mpi_did(job, MPI_Allgather(state, 4, MPI_BYTE, states, 4, MPI_BYTE, group->comm))) return 0;
  for (i = 0; i < size; i++) {
    group->has[GPUZIP_MPI_GEN][i] = states[4 * i];
    group->has[GPUZIP_MPI_PARITY][i] = states[4 * i + 1];
    mixed |= states[4 * i + 2];
  }
  if (mixed) return state[GPUZIP_MPI_GEN];
  whole = gpuzip_mpi_suffices(group, lacks);
  if (!whole) *lacks = 0;
  return whole || state[GPUZIP_MPI_GEN];
}

/* Internal: tells the ranks for which something holds; returns whether there is any. */
static inline int gpuzip_mpi_named(gpuzip_mpi_job_t *job, int64_t generation, const char *what, unsigned char own, unsigned char *all, gpuzip_mpi_result_t *done)
{
  int i, named = 0;

  if (!gpuzip_mpi_did(job, MPI_Allgather(&own, 1, MPI_BYTE, all, 1, MPI_BYTE, job->comm))) return 1;
  for (i = 0; i < job->size; i++) {
    if (!all[i]) continue;
    if (named++)
      gpuzip_mpi_say(done, ", %d", i);
    else
      gpuzip_mpi_say(done, "%sgeneration %lld: %s %d", done->text[0] ? "; " : "", (long long)generation, what, i);
  }
  return named > 0;
}

/* Internal: makes one generation whole; returns whether it is. */
static inline int gpuzip_mpi_restore(gpuzip_mpi_job_t *job, int64_t generation, int *holders, unsigned char *bytes, int *lock, gpuzip_mpi_result_t *done)
{
  unsigned char *lacking = bytes, *arrived = bytes + job->size, own;
  gpuzip_mpi_group_t group;
  int kind, i, lacks = 0, named = 0;

  memset(&group, 0, sizeof group);
  group.comm = MPI_COMM_NULL;
  group.file[0] = group.file[1] = group.made[0] = group.made[1] = -1;
  job->group = &group.comm;
  if (gpuzip_mpi_seek(job, generation, holders, lacking, lock))
    for (kind = 0; kind < 2; kind++) {
      memset(arrived, 0, (size_t)job->size);
      gpuzip_mpi_move(job, kind, generation, holders, arrived, done);
      for (i = 0; i < job->size; i++)
        if (arrived[i] && holders[2 * i + kind] == job->rank) {
          gpuzip_mpi_name_t name = gpuzip_mpi_name(i, generation, gpuzip_mpi_end(kind));
          unlinkat(job->folder, name.text, 0);
        }
    }
  if (!gpuzip_mpi_all(job)) {
    job->group = NULL;
    return 0;
  }
  own = (unsigned char)!gpuzip_mpi_rejoin(job, generation, &group, holders, &lacks);
  if (gpuzip_mpi_all(job)) named = gpuzip_mpi_named(job, generation, "no copies give back the files of rank", own, lacking, done);
  if (job->status >= 0 && !named) {
    if (lacks) gpuzip_mpi_prepare(job, &group);
    if (gpuzip_mpi_all(job)) {
      if (lacks) gpuzip_mpi_complete(job, &group);
      if (lacks && !job->broken) gpuzip_mpi_settle(job, &group);
      if (job->status >= 0 && group.made[GPUZIP_MPI_GEN] >= 0) {
        gpuzip_mpi_name_t name = gpuzip_mpi_name(job->rank, generation, "tmp");

        own = (unsigned char)!gpuzip_mpi_is_right(job, name.text);
      }
    }
    if (gpuzip_mpi_all(job)) named = gpuzip_mpi_named(job, generation, "the copies give back a damaged file of rank", own, lacking, done);
    for (kind = 0; job->status >= 0 && !named && kind < 2; kind++) gpuzip_mpi_name_made(job, &group, kind, done);
  }
  gpuzip_mpi_all(job);
  gpuzip_mpi_leave(job, &group);
  job->group = NULL;
  return job->status >= 0 && !named;
}

/* Makes the newest generation whole that can be made whole: brings each rank's files to its folder `dir` from the
 * folders of other ranks, if the ranks run on other nodes than before, and computes files that are missing or
 * damaged. Call it before gpuzip_persist_open, with no session that uses `dir`; the folder is made if it is
 * missing. A generation that cannot be made whole is no error: `text` names the ranks whose files lack, and an
 * older generation is tried. `result` may be NULL. */
static inline gpuzip_status_t gpuzip_mpi_recover(MPI_Comm comm, const char *dir, gpuzip_mpi_result_t *result)
{
  gpuzip_mpi_result_t done;
  gpuzip_mpi_job_t job;
  int *holders = NULL, *lock = NULL, mine = -1, i;
  unsigned char *bytes = NULL;
  int64_t newest = 0, top = 0;

  memset(&done, 0, sizeof done);
  gpuzip_mpi_make_folder(dir);
  gpuzip_mpi_begin(&job, comm, dir);
  if (job.broken) return gpuzip_mpi_end_call(&job, &done, result);
  if (job.status >= 0) {
    holders = (int *)malloc(2 * (size_t)job.size * sizeof *holders);
    lock = (int *)malloc((size_t)job.size * sizeof *lock);
    bytes = (unsigned char *)malloc(2 * (size_t)job.size);
    if (holders == NULL || lock == NULL || bytes == NULL)
      gpuzip_mpi_fail(&job, GPUZIP_ERR_MEMORY, "no memory for a list of %d ranks: free memory", job.size);
    for (i = 0; lock != NULL && i < job.size; i++) lock[i] = -1;
    if (job.status >= 0) mine = gpuzip_mpi_lock(&job, job.rank, 25);
    if (mine < 0) gpuzip_mpi_fail(&job, GPUZIP_ERR_IO, "%s: another process uses the files of this rank: end it, or finalize its session first", dir);
    newest = gpuzip_mpi_newest(&job, GPUZIP_MPI_GEN, 1, GPUZIP_MPI_LAST);
  }
  if (gpuzip_mpi_all(&job) && gpuzip_mpi_did(&job, MPI_Comm_dup(comm, &job.comm))) {
    newest = -newest;
    while (gpuzip_mpi_least(&job, &newest, 1) && newest < 0) {
      int whole;

      if (!top) top = newest;
      whole = gpuzip_mpi_restore(&job, -newest, holders, bytes, lock, &done);
      if (whole && done.generation == 0 && newest != top) {
        /* What came back may hold a part of a newer one (persist_whole_every): all are looked at once more. */
        done.generation = -newest, newest = top, done.text[0] = 0;
        continue;
      }
      if (whole) done.generation = -newest;
      if (whole || job.status < 0) break;
      newest = -gpuzip_mpi_newest(&job, GPUZIP_MPI_GEN, 1, -newest - 1);
    }
    gpuzip_mpi_sum(&job, &done);
    if (!job.broken) MPI_Comm_free(&job.comm);
  }
  for (i = 0; lock != NULL && i < job.size; i++)
    if (lock[i] >= 0) {
      if (done.generation > 0) { /* what is left of a rank whose folder is another one */
        gpuzip_mpi_remove(&job, i, "gen", 1, done.generation);
        gpuzip_mpi_remove(&job, i, "parity", 1, done.generation);
      }
      close(lock[i]);
    }
  if (mine >= 0) close(mine);
  free(holders);
  free(lock);
  free(bytes);
  return gpuzip_mpi_end_call(&job, &done, result);
}

#ifdef GPUZIP_MPI_FORTRAN
#ifdef __cplusplus
/* Internal: the functions have the names that Fortran calls. */
#define GPUZIP_MPI_C extern "C"
#else
#define GPUZIP_MPI_C
#endif

/* For Fortran: one C file of the program defines GPUZIP_MPI_FORTRAN before it includes this header. `comm` is
 * comm%MPI_VAL, and `dir` ends with c_null_char; fortran/examples/shallow_water/copies.f90 has the interfaces. */
GPUZIP_MPI_C gpuzip_status_t gpuzip_mpi_protect_f(MPI_Fint comm, const char *dir, const gpuzip_mpi_options_t *options, gpuzip_mpi_result_t *result)
{
  return gpuzip_mpi_protect(MPI_Comm_f2c(comm), dir, options, result);
}

/* For Fortran: as gpuzip_mpi_recover. */
GPUZIP_MPI_C gpuzip_status_t gpuzip_mpi_recover_f(MPI_Fint comm, const char *dir, gpuzip_mpi_result_t *result)
{
  return gpuzip_mpi_recover(MPI_Comm_f2c(comm), dir, result);
}
#endif /* GPUZIP_MPI_FORTRAN */

#endif /* GPUZIP_MPI_H */
