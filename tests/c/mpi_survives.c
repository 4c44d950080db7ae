/* Goes on without leaving the job, under an MPI that survives the loss of ranks (ULFM). Four ranks compute; one
 * more is a spare. Each has a folder of its own, which stands for the disk of its node and is lost with it. One
 * rank dies at a call of MPI, its own or one within gpuzip_mpi.h or the library; then the spare takes its place, and
 * all go on from the newest generation that parity and files make whole. Rank 0 prints the result.
 *
 *     mpiexec --with-ft ulfm -n 5 mpi_survives DIR RANK CALL
 *
 * RANK dies at its call of MPI with the number CALL; -1: none does. */
#include <mpi.h>
#include <mpi-ext.h>

#define GPUZIP_MPI_REVOKE(comm) MPIX_Comm_revoke(comm)
#include <gpuzip_mpi.h>

#include "test.h"

enum { WORKERS = 4, SHOTS = 12, VALUES = 3000 };

/* Of this process: its number in MPI_COMM_WORLD, and its place among the workers; -1: a spare. */
static int process, place;
/* The processes that live, and those of them that compute. */
static MPI_Comm living, team;
static char base[2000];
static int dying, calls, at;

/* Ends this process if it is time. */
static void die(void)
{
  if (process == dying && ++calls == at) raise(SIGKILL);
}

int MPI_Allreduce(const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
  die();
  return PMPI_Allreduce(from, to, n, type, op, comm);
}

int MPI_Allgather(const void *from, int n, MPI_Datatype type, void *to, int m, MPI_Datatype other, MPI_Comm comm)
{
  die();
  return PMPI_Allgather(from, n, type, to, m, other, comm);
}

int MPI_Isend(const void *from, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
  die();
  return PMPI_Isend(from, n, type, to, tag, comm, request);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *part)
{
  die();
  return PMPI_Comm_split(comm, color, key, part);
}

/* The folder of the node of a process. */
static const char *folder(int of)
{
  static char path[2100];
  snprintf(path, sizeof path, "%s/node%d", base, of);
  return path;
}

static int32_t least(void *user, int64_t *value)
{
  return MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT64_T, MPI_MIN, *(MPI_Comm *)user);
}

/* Computes shots from the newest generation on. Returns 0, or another number if a rank was lost. */
static int compute(double *values, double *result)
{
  static double state;
  gpuzip_mpi_options_t options;
  gpuzip_mpi_result_t done;
  gpuzip_persist_options_t persist;
  gpuzip_generation_t found;
  gpuzip_config_t config = revolve(3, 0);
  gpuzip_field_t field = field_of(&state, 1, GPUZIP_TYPE_F64);
  gpuzip_array_t array;
  gpuzip_t *session;
  int64_t shot;
  int i, lost = 1;

  memset((void *)&options, 0, sizeof options);
  options.group = WORKERS, options.node = process + 1;
  if (gpuzip_mpi_recover(team, folder(process), &done) < 0) {
    if (strstr(done.text, "MPI") == NULL) puts(done.text);
    return 1;
  }
  memset((void *)&array, 0, sizeof array);
  array.name = "values", array.field = field_of(values, VALUES, GPUZIP_TYPE_F64);
  memset((void *)&persist, 0, sizeof persist);
  persist.struct_size = sizeof persist, persist.rank = place, persist.ranks = WORKERS;
  persist.agree_min = least, persist.user = &team;
  memset((void *)&found, 0, sizeof found);
  found.struct_size = sizeof found;
  config.persist_dir = folder(process), config.persist_overhead = 1;
  WORKS(gpuzip_init(&config, 10, &field, 1, &session));
  if (gpuzip_persist_open(session, &persist) < 0 || gpuzip_persist_find(session, &found) < 0) goto end;
  for (i = 0; i < VALUES; i++) values[i] = place + 1e-3 * i;
  if (found.generation > 0 && gpuzip_persist_read(session, &array, 1, NULL) < 0) goto end;
  if (place == 0 && found.generation > 0) printf("goes on from generation %d\n", (int)found.generation), fflush(stdout);
  for (shot = found.generation > 0 ? found.shot : 0; shot < SHOTS; shot++) {
    double sum = 0;
    for (i = 0; i < VALUES; i++) sum += values[i];
    if (MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, team) != 0) goto end;
    for (i = 0; i < VALUES; i++) values[i] = 0.5 * values[i] + 1e-4 * sum / (1 + i + place);
    if (gpuzip_persist_write(session, shot + 1, &array, 1, NULL) < 0 || gpuzip_persist_wait(session) < 0) goto end;
    if (gpuzip_mpi_protect(team, folder(process), &options, &done) < 0) goto end;
  }
  for (*result = 0, i = 0; i < VALUES; i++) *result += values[i] * (i % 7 + 1);
  lost = MPI_Allreduce(MPI_IN_PLACE, result, 1, MPI_DOUBLE, MPI_SUM, team) != 0;
end:
  gpuzip_finalize(session);
  return lost;
}

/* Replaces the communicators by those of the processes that still live, and gives the places of the lost to spares. */
static void repair(void)
{
  int places[WORKERS + 1], size, rank, spare = 0, i, k;
  MPI_Comm rest;

  if (team != MPI_COMM_NULL) MPIX_Comm_revoke(team);
  MPIX_Comm_revoke(living);
  CHECK(MPIX_Comm_shrink(living, &rest) == MPI_SUCCESS);
  living = rest;
  MPI_Comm_set_errhandler(living, MPI_ERRORS_RETURN);
  MPI_Comm_size(living, &size);
  MPI_Comm_rank(living, &rank);
  CHECK(MPI_Allgather(&place, 1, MPI_INT, places, 1, MPI_INT, living) == MPI_SUCCESS);
  for (i = 0; i < WORKERS; i++) {
    for (k = 0; k < size && places[k] != i; k++)
      ;
    if (k < size) continue;
    for (; spare < size && places[spare] >= 0; spare++)
      ;
    CHECK(spare < size);
    places[spare] = i;
  }
  place = places[rank];
}

int main(int argc, char **argv)
{
  static double values[VALUES];
  double result = 0;
  char command[2200];
  int lost;

  CHECK(argc == 4);
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &living);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(living, MPI_ERRORS_RETURN);
  MPI_Comm_rank(living, &process);
  snprintf(base, sizeof base, "%s", argv[1]);
  place = process < WORKERS ? process : -1;
  mkdir(base, 0700);
  CHECK(mkdir(folder(process), 0700) == 0);
  MPI_Barrier(living);
  dying = atoi(argv[2]), at = atoi(argv[3]);
  for (;;) {
    team = MPI_COMM_NULL;
    lost = PMPI_Comm_split(living, place < 0 ? MPI_UNDEFINED : 0, place, &team) != MPI_SUCCESS;
    if (!lost && place >= 0) lost = compute(values, &result);
    if (lost) {
      if (team != MPI_COMM_NULL) MPIX_Comm_revoke(team);
      MPIX_Comm_revoke(living);
    }
    /* Spares wait here. */
    if (MPI_Barrier(living) == MPI_SUCCESS && !lost) break;
    repair();
    if (place == 0) {
      /* The node of the lost process is lost with it. */
      snprintf(command, sizeof command, "rm -rf '%s'", folder(dying));
      CHECK(system(command) == 0);
    }
    if (PMPI_Barrier(living) != MPI_SUCCESS) continue;
  }
  if (place == 0) printf("result %.17g\n", result), fflush(stdout);
  /* MPI_Finalize of Open MPI 5.0 sometimes waits for the rank that was lost. */
  PMPI_Barrier(living);
  _exit(0);
}
