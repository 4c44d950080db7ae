/* The ranks of the program `levels`: an adjoint code on a ring of four ranks with a halo exchange. A
 * chaotic map makes every bit of a state count: a rank that goes on from another moment than its
 * neighbours, or with one other bit, changes the result. */
#define _GNU_SOURCE
#include "levels.h"

#include <gpuzip_mpi.h>

#include <linux/futex.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct {
  const run_t *run;
  board_t *board;
  int rank;
  uint64_t dues, generations, failures;
  int64_t shot;
  double *image, *sum, *adjoint, *state, *next;
} rank_t;

/* What the ranks wait for together. */
enum { AGREE = 1, HALO, END };

static _Noreturn void leave(rank_t *self, int how, const char *text)
{
  snprintf(self->board->text[self->rank], LONGEST_TEXT, "%s", text);
  _exit(how);
}

/* Returns the minimum of `value` over all ranks. If a rank waits for something else than the others, or
 * has had another number of answers or errors, the ranks are out of step. The driver ends the ranks if
 * one dies. */
static int64_t least(rank_t *self, int what, int64_t value)
{
  board_t *board = self->board;
  const uint32_t round = atomic_load(&board->round), k = round & 1;
  const uint64_t tag = (uint64_t)what | self->failures << 4 | self->generations << 20 | self->dues << 40;
  board->value[k][self->rank] = value, board->tag[k][self->rank] = (int64_t)tag;
  if (atomic_fetch_add(&board->arrived, 1) + 1 == RANKS) {
    atomic_store(&board->arrived, 0);
    atomic_store(&board->round, round + 1);
    syscall(SYS_futex, &board->round, FUTEX_WAKE, RANKS, NULL, NULL, 0);
  }
  while (atomic_load(&board->round) == round)
    syscall(SYS_futex, &board->round, FUTEX_WAIT, round, NULL, NULL, 0);
  for (int r = 0; r < RANKS; r++) {
    if (board->tag[k][r] != (int64_t)tag) {
      char text[200];
      snprintf(text, sizeof text, "out of step: this rank has tag %llx, rank %d has %llx",
               (unsigned long long)tag, r, (unsigned long long)board->tag[k][r]);
      leave(self, RANK_OUT_OF_STEP, text);
    }
    if (board->value[k][r] < value) value = board->value[k][r];
  }
  return value;
}

static int32_t agree_min(void *user, int64_t *value)
{
  *value = least(user, AGREE, *value);
  return 0;
}

/* Ends all ranks. */
static _Noreturn void end_together(rank_t *self, const char *because)
{
  char text[LONGEST_TEXT];
  snprintf(text, sizeof text, "%s", because);
  self->failures = 0xfff;
  least(self, END, 0);
  leave(self, RANK_FAILED, text);
}

/* Ends all ranks with the text of the last error. */
static _Noreturn void fail_together(rank_t *self)
{
  end_together(self, gpuzip_last_error());
}

/* Gets the neighbours' values at both ends of an array. */
static void exchange(rank_t *self, const double *array, double *left, double *right)
{
  const uint32_t k = atomic_load(&self->board->round) & 1;
  self->board->halo[k][self->rank][0] = array[0];
  self->board->halo[k][self->rank][1] = array[self->run->points - 1];
  least(self, HALO, 0);
  *left = self->board->halo[k][(self->rank + RANKS - 1) % RANKS][1];
  *right = self->board->halo[k][(self->rank + 1) % RANKS][0];
}

static double logistic(double x)
{
  x = fmin(fmax(x, 0.0), 1.0); /* a lossy codec may leave the range */
  return 3.9 * x * (1.0 - x);
}

static void forward(rank_t *self)
{
  double left, right;
  const int n = self->run->points;
  exchange(self, self->state, &left, &right);
  for (int i = 0; i < n; i++) {
    const double before = i > 0 ? self->state[i - 1] : left;
    const double after = i + 1 < n ? self->state[i + 1] : right;
    self->next[i] = 0.9 * logistic(self->state[i]) + 0.05 * (logistic(before) + logistic(after));
  }
  memcpy(self->state, self->next, (size_t)n * sizeof(double));
}

static void backward(rank_t *self)
{
  double left, right;
  const int n = self->run->points;
  exchange(self, self->adjoint, &left, &right);
  for (int i = 0; i < n; i++) {
    const double before = i > 0 ? self->adjoint[i - 1] : left;
    const double after = i + 1 < n ? self->adjoint[i + 1] : right;
    const double slope = 3.9 - 7.8 * self->state[i];
    const double x = slope * self->adjoint[i] + 0.5 * (before + after) + self->state[i];
    self->next[i] = x / (1.0 + fabs(x));
    self->sum[i] += self->next[i] * self->state[i];
  }
  memcpy(self->adjoint, self->next, (size_t)n * sizeof(double));
}

static void begin_shot(rank_t *self)
{
  for (int i = 0; i < self->run->points; i++) {
    const uint64_t seed = (uint64_t)self->shot << 40 | (uint64_t)self->rank << 32 | (uint64_t)i;
    self->state[i] = 0.1 + 0.8 * (double)(mix(seed + 1) >> 11) * 0x1p-53;
    self->sum[i] = self->adjoint[i] = 0.0;
  }
}

static void on_log(int32_t level, const char *message, void *user)
{
  rank_t *self = user;
  char *log = self->board->log[self->rank];
  const size_t used = strlen(log);
  if (level < 2 && strstr(message, "passed over") == NULL && strstr(message, ": from ") == NULL) return;
  snprintf(log + used, LONGEST_LOG - used, "  rank %d: %s\n", self->rank, message);
}

/* Calls the library for the rank `self`, and tells the driver which call the rank is in. */
#define TRY(expression) (atomic_store(&self->board->call[self->rank], #expression), (expression))
/* A call whose failure ends all ranks. */
#define WORKS(expression)                         \
  do {                                            \
    if (TRY(expression) < 0) fail_together(self); \
  } while (0)

/* Counts an error of a call for restart files, which all ranks must have, and ends the ranks unless the
 * run is patient. */
static void failed_with(rank_t *self, const char *text)
{
  on_log(2, text, self);
  self->failures++;
  self->board->failures[self->rank]++;
  if (!self->run->is_patient) end_together(self, text);
}

static void failed(rank_t *self)
{
  failed_with(self, gpuzip_last_error());
}

static gpuzip_t *open_session(rank_t *self, const gpuzip_field_t *state)
{
  const run_t *run = self->run;
  gpuzip_config_t config;
  gpuzip_t *session;
  const gpuzip_persist_options_t options = {.struct_size = sizeof options,
                                            .rank = self->rank,
                                            .ranks = RANKS,
                                            .agree_min = agree_min,
                                            .user = self};
  WORKS(gpuzip_config_init(&config));
  config.checkpointing_algorithm = run->algorithm, config.checkpointing_snaps = run->snapshots;
  config.cache_capacity = 2, config.compressor = run->compressor, config.backend = 1;
  config.log_level = 1, config.persist_overhead = 1.0, config.persist_whole_every = run->whole_every;
  if (run->persists) config.persist_dir = run->node[self->rank], config.persist_shared_dir = run->shared;
  if (run->persists && run->packs) config.persist_stages = "compress";
  WORKS(gpuzip_set_log_callback(on_log, self));
  WORKS(gpuzip_init(&config, run->steps, state, 1, &session));
  WORKS(gpuzip_agree(session, agree_min, self));
  if (!run->persists) return session;
  if (run->parity > 0) {
    gpuzip_mpi_result_t result;
    const int32_t status = TRY(gpuzip_mpi_recover(MPI_COMM_WORLD, run->node[self->rank], &result));
    if (status < 0) leave(self, RANK_ALONE, result.text);
    self->board->rebuilt = result.rebuilt;
    on_log(2, result.text, self);
  }
  /* A rank whose folder cannot be opened ends the run, as MPI_Abort does. */
  if (TRY(gpuzip_persist_open(session, &options)) < 0) leave(self, RANK_ALONE, gpuzip_last_error());
  WORKS(gpuzip_catch_signals(NULL, 0));
  return session;
}

/* Protects the generation that was written last. */
static void protect(rank_t *self, gpuzip_t *session)
{
  const gpuzip_mpi_options_t options = {self->run->group, self->run->parity, self->rank + 1};
  gpuzip_mpi_result_t result;
  if (self->run->parity == 0) return;
  if (TRY(gpuzip_persist_wait(session)) < 0) failed(self);
  const int32_t status =
      TRY(gpuzip_mpi_protect(MPI_COMM_WORLD, self->run->node[self->rank], &options, &result));
  if (self->rank == 0) self->board->protected = status < 0 ? 0 : result.generation;
  if (status < 0) failed_with(self, result.text);
}

/* Writes a generation if one is due. Ends the rank if a stop was requested. */
static void persist(rank_t *self, gpuzip_t *session, const gpuzip_array_t *arrays)
{
  int32_t due = GPUZIP_DUE_NO;
  if (!self->run->persists) return;
  if (TRY(gpuzip_persist_due(session, &due)) < 0) failed(self);
  self->dues += (uint64_t)due + 1;
  if (due == GPUZIP_DUE_NO) return;
  if (TRY(gpuzip_persist_write(session, self->shot, arrays, 4, NULL)) < 0) failed(self);
  else self->board->generations[self->rank] = ++self->generations;
  protect(self, session);
  if (due != GPUZIP_DUE_STOP) return;
  if (TRY(gpuzip_persist_wait(session)) < 0) failed(self);
  least(self, END, 0);
  if (self->run->finalizes) gpuzip_finalize(session);
  leave(self, RANK_STOPPED, "stopped");
}

static void run_shot(rank_t *self, gpuzip_t *session, const gpuzip_array_t *arrays)
{
  const gpuzip_field_t *state = &arrays[3].field;
  gpuzip_action_t action;
  do {
    persist(self, session, arrays);
    WORKS(gpuzip_get_action(session, &action));
    if (self->run->pace_us > 0) usleep((unsigned)self->run->pace_us);
    if (action.type == GPUZIP_ACTION_FORWARD) forward(self);
    if (action.type == GPUZIP_ACTION_BACKWARD) backward(self);
    if (action.type == GPUZIP_ACTION_SAVE) WORKS(gpuzip_save(session, action.ts, state, 1, NULL));
    if (action.type == GPUZIP_ACTION_RESTORE) WORKS(gpuzip_retrieve(session, action.ts, state, 1, NULL));
  } while (action.type != GPUZIP_ACTION_TERMINATE);
  for (int i = 0; i < self->run->points; i++) self->image[i] += self->sum[i];
}

/* Goes on from the newest generation, if there is one. Returns whether this is within a shot. */
static int go_on(rank_t *self, gpuzip_t *session, const gpuzip_array_t *arrays)
{
  gpuzip_generation_t found = {.struct_size = sizeof found};
  WORKS(gpuzip_persist_find(session, &found));
  board_t *board = self->board;
  board->found[self->rank].generation = found.generation;
  board->found[self->rank].shot = found.shot, board->found[self->rank].it = found.it;
  board->found[self->rank].is_set = 1;
  if (found.generation == 0) return 0;
  /* The file may be damaged since it was found: on one rank alone. */
  const int32_t status = TRY(gpuzip_persist_read(session, arrays, 4, NULL));
  if (status < 0) leave(self, RANK_ALONE, gpuzip_last_error());
  self->shot = found.shot;
  if (self->run->plants_error && self->rank == 2) self->image[0] += 0x1p-20;
  return found.it >= 0;
}

int run_rank(const run_t *run, board_t *board, int rank)
{
  rank_t own = {.run = run, .board = board, .rank = rank}, *self = &own;
  static const char *const names[] = {"image", "sum", "adjoint", "state"};
  double **const parts[] = {&own.image, &own.sum, &own.adjoint, &own.state, &own.next};
  gpuzip_array_t arrays[4];
  begin_mpi(board, rank);
  memset(arrays, 0, sizeof arrays);
  for (int k = 0; k < 5; k++) {
    *parts[k] = calloc((size_t)run->points, sizeof(double));
    if (k == 4) break;
    arrays[k].name = names[k], arrays[k].scope = k > 0;
    arrays[k].field.data = *parts[k], arrays[k].field.type = GPUZIP_TYPE_F64;
    arrays[k].field.n1 = (uint64_t)run->points, arrays[k].field.n2 = arrays[k].field.n3 = 1;
  }
  gpuzip_t *session = open_session(self, &arrays[3].field);
  int is_within = run->persists && go_on(self, session, arrays);
  for (; own.shot < run->shots; own.shot++) {
    if (!is_within) {
      WORKS(gpuzip_setup(session));
      begin_shot(self);
    }
    is_within = 0;
    run_shot(self, session, arrays);
  }
  if (run->persists) {
    if (TRY(gpuzip_persist_write(session, run->shots, arrays, 4, NULL)) < 0) failed(self);
    if (TRY(gpuzip_persist_wait(session)) < 0) failed(self);
    protect(self, session);
  }
  board->result[rank] = checksum(own.image, (uint64_t)run->points * sizeof(double));
  WORKS(gpuzip_finalize(session));
  least(self, END, 0);
  return RANK_DONE;
}
