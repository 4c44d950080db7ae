/* The program `levels`: what gpuzip_mpi.h calls of MPI, for ranks that are forked processes and share the
 * board. They start in a hundredth of the time that mpirun takes, so that a test has hundreds of faults. */
#define _GNU_SOURCE
#include "levels.h"

#include <mpi.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { COMMUNICATORS = 100, REQUESTS = 64 };

/* A communicator: its number is equal on its members, and counts up in the run. */
typedef struct {
  int is_used, n, place, members[RANKS];
  uint32_t number;
} communicator_t;

/* A message that is on its way from this rank (`from` is NULL: to this rank). */
typedef struct {
  int is_used, other, tag;
  uint32_t number;
  size_t bytes;
  const void *from;
  void *to;
} request_t;

static board_t *board;
static int own_rank;
static communicator_t communicators[COMMUNICATORS];
static request_t requests[REQUESTS];

void begin_mpi(board_t *of_run, int rank)
{
  communicator_t *world = &communicators[MPI_COMM_WORLD];
  board = of_run, own_rank = rank;
  world->is_used = 1, world->n = RANKS, world->place = rank, world->number = 0;
  for (int r = 0; r < RANKS; r++) world->members[r] = r;
}

static size_t size_of(MPI_Datatype type)
{
  return type == MPI_INT64_T ? 8 : type == MPI_INT ? 4 : 1;
}

/* Copies `bytes` bytes of every member to `all`, in the order of the members. */
static void share(MPI_Comm comm, const void *own, size_t bytes, void *all)
{
  const communicator_t *c = &communicators[comm];
  meeting_t *meeting = &board->meetings[c->number % MEETINGS];
  const uint32_t round = atomic_load(&meeting->round);
  if (bytes > sizeof meeting->bytes[0][0] || !c->is_used) abort();
  memcpy(meeting->bytes[round & 1][c->place], own, bytes);
  if (atomic_fetch_add(&meeting->arrived, 1) + 1 == (uint32_t)c->n) {
    atomic_store(&meeting->arrived, 0);
    atomic_store(&meeting->round, round + 1);
    syscall(SYS_futex, &meeting->round, FUTEX_WAKE, RANKS, NULL, NULL, 0);
  }
  while (atomic_load(&meeting->round) == round)
    syscall(SYS_futex, &meeting->round, FUTEX_WAIT, round, NULL, NULL, 0);
  for (int k = 0; k < c->n; k++)
    memcpy((char *)all + (size_t)k * bytes, meeting->bytes[round & 1][k], bytes);
}

int MPI_Allgather(const void *own, int n, MPI_Datatype type, void *all, int m, MPI_Datatype of,
                  MPI_Comm comm)
{
  (void)m, (void)of;
  share(comm, own, (size_t)n * size_of(type), all);
  return MPI_SUCCESS;
}

static int64_t value_of(const void *values, int k, MPI_Datatype type)
{
  return type == MPI_INT ? ((const int *)values)[k] : ((const int64_t *)values)[k];
}

int MPI_Allreduce(const void *in, void *values, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
  static unsigned char all[RANKS][LONGEST_MEETING];
  const size_t bytes = (size_t)n * size_of(type);
  if (in != MPI_IN_PLACE || type == MPI_BYTE) abort();
  share(comm, values, bytes, all);
  for (int k = 0; k < n; k++) {
    int64_t result = value_of(all, k, type);
    for (int r = 1; r < communicators[comm].n; r++) {
      const int64_t value = value_of((char *)all + (size_t)r * bytes, k, type);
      if (op == MPI_SUM) result += value;
      else if ((op == MPI_MIN) == (value < result)) result = value;
    }
    if (type == MPI_INT) ((int *)values)[k] = (int)result;
    else ((int64_t *)values)[k] = result;
  }
  return MPI_SUCCESS;
}

int MPI_Bcast(void *values, int n, MPI_Datatype type, int root, MPI_Comm comm)
{
  static unsigned char all[RANKS][LONGEST_MEETING];
  const size_t bytes = (size_t)n * size_of(type);
  share(comm, values, bytes, all);
  memcpy(values, (char *)all + (size_t)root * bytes, bytes);
  return MPI_SUCCESS;
}

int MPI_Comm_rank(MPI_Comm comm, int *rank)
{
  *rank = communicators[comm].place;
  return MPI_SUCCESS;
}

int MPI_Comm_size(MPI_Comm comm, int *size)
{
  *size = communicators[comm].n;
  return MPI_SUCCESS;
}

/* The keys of all ranks are their numbers in the communicator before. */
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *made)
{
  const communicator_t *before = &communicators[comm];
  int colors[RANKS], first = -1;
  uint32_t numbers[RANKS], number = 0;
  (void)key;
  share(comm, &color, sizeof color, colors);
  for (int k = before->n - 1; k >= 0; k--)
    if (colors[k] == color) first = k;
  if (first == before->place) number = 1 + atomic_fetch_add(&board->communicators, 1);
  share(comm, &number, sizeof number, numbers);
  *made = MPI_COMM_NULL;
  if (color == MPI_UNDEFINED) return MPI_SUCCESS;
  for (*made = MPI_COMM_WORLD + 1; communicators[*made].is_used; ++*made)
    if (*made == COMMUNICATORS - 1) abort();
  communicator_t *c = &communicators[*made];
  c->is_used = 1, c->n = 0, c->number = numbers[first];
  for (int k = 0; k < before->n; k++) {
    if (colors[k] != color) continue;
    if (k == before->place) c->place = c->n;
    c->members[c->n++] = before->members[k];
  }
  return MPI_SUCCESS;
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *made)
{
  return MPI_Comm_split(comm, 0, 0, made);
}

/* Each rank is on a node of its own. */
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made)
{
  (void)type, (void)info;
  return MPI_Comm_split(comm, own_rank, key, made);
}

int MPI_Comm_free(MPI_Comm *comm)
{
  communicators[*comm].is_used = 0, *comm = MPI_COMM_NULL;
  return MPI_SUCCESS;
}

int MPI_Error_string(int code, char *text, int *length)
{
  *length = snprintf(text, MPI_MAX_ERROR_STRING, "error %d", code);
  return MPI_SUCCESS;
}

static int begin(request_t request, int n, MPI_Datatype type, MPI_Comm comm, MPI_Request *made)
{
  for (*made = 1; requests[*made].is_used; ++*made)
    if (*made == REQUESTS - 1) abort();
  request.is_used = 1, request.bytes = (size_t)n * size_of(type);
  request.other = communicators[comm].members[request.other];
  request.number = communicators[comm].number;
  if (request.bytes > LONGEST_MESSAGE) abort();
  requests[*made] = request;
  return MPI_SUCCESS;
}

int MPI_Isend(const void *from, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *made)
{
  return begin((request_t){.other = to, .tag = tag, .from = from}, n, type, comm, made);
}

int MPI_Irecv(void *to, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *made)
{
  return begin((request_t){.other = from, .tag = tag, .to = to}, n, type, comm, made);
}

/* Moves a message on. Returns whether that is done. */
static int is_done(const request_t *request)
{
  message_t *messages = request->from != NULL ? board->messages[own_rank][request->other]
                                              : board->messages[request->other][own_rank];
  message_t *message = NULL;
  /* The oldest message counts that fits. */
  for (int k = 0; k < MESSAGES; k++) {
    const uint32_t order = atomic_load(&messages[k].order);
    if (request->from != NULL ? order == 0
                              : order != 0 && messages[k].tag == request->tag &&
                                    messages[k].number == request->number &&
                                    (message == NULL || order < atomic_load(&message->order)))
      message = &messages[k];
  }
  if (message == NULL) return 0;
  if (request->from == NULL) {
    if (message->bytes > request->bytes) abort();
    memcpy(request->to, message->data, message->bytes);
    atomic_store(&message->order, 0);
    return 1;
  }
  message->tag = request->tag, message->number = request->number, message->bytes = request->bytes;
  memcpy(message->data, request->from, request->bytes);
  atomic_store(&message->order, 1 + atomic_fetch_add(&board->sent, 1));
  return 1;
}

/* Tries all requests once, in their order. Returns the number of one that is done, or -1. */
static int one_done(int n, MPI_Request *of)
{
  for (int k = 0; k < n; k++) {
    if (of[k] == MPI_REQUEST_NULL || !is_done(&requests[of[k]])) continue;
    requests[of[k]].is_used = 0, of[k] = MPI_REQUEST_NULL;
    return k;
  }
  return -1;
}

int MPI_Waitany(int n, MPI_Request of[], int *which, MPI_Status *status)
{
  int left = 0;
  (void)status;
  for (int k = 0; k < n; k++) left += of[k] != MPI_REQUEST_NULL;
  *which = MPI_UNDEFINED;
  while (left > 0 && (*which = one_done(n, of)) < 0) usleep(20);
  return MPI_SUCCESS;
}

int MPI_Waitall(int n, MPI_Request of[], MPI_Status statuses[])
{
  int which = 0;
  (void)statuses;
  while (which != MPI_UNDEFINED) MPI_Waitany(n, of, &which, MPI_STATUS_IGNORE);
  return MPI_SUCCESS;
}
