/* Tests include/gpuzip_mpi.h under MPI. Each rank's folder stands for the disk of its node. A session writes
 * generations, which are protected; then folders are lost or damaged in every way that the parity covers, and every
 * file comes back as it was, byte for byte. Rank 0 prints "ok".
 *
 *     mpirun -n RANKS mpi_copies DIR GROUP PARITY RANKS_PER_NODE VALUES
 *
 * tells how many ranks are on a node, and about how many values the array of a rank has. */
#include <gpuzip_mpi.h>

#include "test.h"

enum { GENERATIONS = 3, MOST_FILES = 16 };

static int rank, ranks, per_node;
static MPI_Comm world;
static char base[2000];
static gpuzip_mpi_options_t options;
static gpuzip_mpi_result_t result;
static int32_t whole_every;

/* The files of this rank as they were before losses. */
static struct {
  char name[80];
  unsigned char *bytes;
  size_t length;
} files[MOST_FILES];
static int nfiles;

static void together(void) { MPI_Barrier(world); }

/* The folder of the node with this number. */
static const char *folder(int node)
{
  static char path[2100];
  snprintf(path, sizeof path, "%s/node%d", base, node);
  return path;
}

static int node_of(int of) { return of / per_node; }
static const char *own(void) { return folder(node_of(rank)); }

/* The first of the ranks with one number on their nodes, and the group among them. */
static int nodes(void) { return ranks / per_node; }
static int group_of_node(int node)
{
  int parts = (nodes() + options.group - 1) / options.group;
  while (parts > 1 && nodes() / parts <= options.parity) parts--;
  return node * parts / nodes();
}

static char *read_file(const char *path, size_t *length)
{
  FILE *file = fopen(path, "rb");
  char *bytes;
  if (file == NULL) return NULL;
  fseek(file, 0, SEEK_END);
  *length = (size_t)ftell(file);
  rewind(file);
  bytes = (char *)malloc(*length + 1);
  CHECK(fread(bytes, 1, *length, file) == *length);
  fclose(file);
  return bytes;
}

static void write_file(const char *path, const void *bytes, size_t length)
{
  FILE *file = fopen(path, "wb");
  CHECK(file != NULL && fwrite(bytes, 1, length, file) == length && fclose(file) == 0);
}

/* Removes a folder with its files. */
static void lose(const char *path)
{
  char name[2400];
  struct dirent *entry;
  DIR *list = opendir(path);
  while (list != NULL && (entry = readdir(list)) != NULL) {
    snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
    unlink(name);
  }
  if (list != NULL) closedir(list);
  rmdir(path);
}

static void remove_own(const char *name)
{
  char path[2400];
  snprintf(path, sizeof path, "%s/%s", own(), name);
  CHECK(unlink(path) == 0);
}

/* Whether a file is one of the copies or generations of a rank; -1 stands for any rank. */
static int is_kept(const char *name, int of)
{
  int64_t generation;
  int found;
  return (gpuzip_mpi_is(name, "gen", &found, &generation) || gpuzip_mpi_is(name, "parity", &found, &generation)) && (of < 0 || found == of);
}

/* Keeps the bytes of this rank's files. */
static void keep(void)
{
  char path[2400];
  struct dirent *entry;
  DIR *list = opendir(own());
  for (nfiles = 0; (entry = readdir(list)) != NULL;) {
    if (!is_kept(entry->d_name, rank)) continue;
    CHECK(nfiles < MOST_FILES);
    snprintf(path, sizeof path, "%s/%s", own(), entry->d_name);
    strcpy(files[nfiles].name, entry->d_name);
    files[nfiles].bytes = (unsigned char *)read_file(path, &files[nfiles].length);
    nfiles++;
  }
  closedir(list);
}

/* Puts every rank's files into its folder again, as they were, with no others. */
static void lay(void)
{
  char path[2400];
  int k;
  together();
  if (rank == 0)
    for (k = 0; k <= nodes(); k++) lose(folder(k));
  together();
  mkdir(own(), 0700);
  together();
  for (k = 0; k < nfiles; k++) {
    snprintf(path, sizeof path, "%s/%s", own(), files[k].name);
    write_file(path, files[k].bytes, files[k].length);
  }
  together();
}

/* Whether a file in a folder is as it was. */
static int is_as_before(const char *in, int k)
{
  char path[2400], *bytes;
  size_t length = 0;
  int same;
  snprintf(path, sizeof path, "%s/%s", in, files[k].name);
  bytes = read_file(path, &length);
  same = bytes != NULL && length == files[k].length && memcmp(bytes, files[k].bytes, length) == 0;
  free(bytes);
  return same;
}

/* Checks that the generation is whole: that all its files, and those of its parity, are as they were. */
static void check_whole(const char *in, int64_t generation)
{
  int k, seen = 0;
  int64_t of;
  if (result.generation != generation)
    fprintf(stderr, "rank %d: generation %lld, not %lld: %s\n", rank, (long long)result.generation, (long long)generation, result.text);
  CHECK(result.generation == generation);
  for (k = 0; k < nfiles; k++) {
    int found;
    if (!gpuzip_mpi_is(files[k].name, "gen", &found, &of)) CHECK(gpuzip_mpi_is(files[k].name, "parity", &found, &of));
    if (of != generation) continue;
    if (!is_as_before(in, k)) fprintf(stderr, "rank %d: %s/%s differs\n", rank, in, files[k].name);
    CHECK(is_as_before(in, k));
    seen++;
  }
  CHECK(seen == 2);
}

/* The number of files in a folder whose names have this ending. */
static int count(const char *in, const char *end)
{
  struct dirent *entry;
  DIR *list = opendir(in);
  int found = 0;
  while (list != NULL && (entry = readdir(list)) != NULL) {
    size_t length = strlen(entry->d_name), tail = strlen(end);
    found += length > tail && strcmp(entry->d_name + length - tail, end) == 0;
  }
  if (list != NULL) closedir(list);
  return found;
}

static int32_t least(void *user, int64_t *value)
{
  return MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT64_T, MPI_MIN, *(MPI_Comm *)user);
}

/* A session with restart files in a folder. */
static gpuzip_t *open_session(const char *in)
{
  static double state;
  gpuzip_persist_options_t persist;
  gpuzip_config_t config = revolve(3, 0);
  gpuzip_field_t field = field_of(&state, 1, GPUZIP_TYPE_F64);
  gpuzip_t *session;
  memset((void *)&persist, 0, sizeof persist);
  persist.struct_size = sizeof persist, persist.rank = rank, persist.ranks = ranks;
  persist.agree_min = least, persist.user = &world;
  config.persist_dir = in;
  config.persist_whole_every = whole_every;
  WORKS(gpuzip_init(&config, 10, &field, 1, &session));
  WORKS(gpuzip_persist_open(session, &persist));
  return session;
}

/* Fills the array of this rank for a shot. */
static double value_of(int64_t shot, size_t i) { return 1e6 * (double)(rank + 1) + 1e3 * (double)shot + 1e-3 * (double)i; }

static void fill(double *array, size_t n, int64_t shot)
{
  size_t i;
  for (i = 0; i < n; i++) array[i] = value_of(shot, i);
}

/* Writes generations, each of which is protected, and keeps the last two. */
static void write_generations(double *array, size_t n)
{
  gpuzip_array_t entry;
  gpuzip_t *session;
  int64_t shot;
  memset((void *)&entry, 0, sizeof entry);
  entry.name = "array";
  entry.field = field_of(array, n, GPUZIP_TYPE_F64);
  WORKS(gpuzip_mpi_recover(world, own(), &result));
  CHECK(result.generation == 0 && result.text[0] == 0);
  session = open_session(own());
  WORKS(gpuzip_mpi_protect(world, own(), &options, &result));
  CHECK(result.generation == 0 && result.rebuilt == 0);
  for (shot = 1; shot <= GENERATIONS; shot++) {
    fill(array, n, shot);
    WORKS(gpuzip_persist_write(session, shot, &entry, 1, NULL));
    WORKS(gpuzip_persist_wait(session));
    WORKS(gpuzip_mpi_protect(world, own(), &options, &result));
    CHECK(result.generation == shot && result.rebuilt == ranks && result.bytes > 0);
    WORKS(gpuzip_mpi_protect(world, own(), &options, &result));
    CHECK(result.generation == shot && result.rebuilt == 0); /* it is protected */
  }
  CHECK(count(own(), ".parity") == 2 * per_node && count(own(), "tmp") == 0);
  WORKS(gpuzip_finalize(session));
}

/* A session goes on from the generation, with the values that the array had. */
static void check_restart(const char *in, double *array, size_t n, int64_t generation)
{
  gpuzip_generation_t found;
  gpuzip_array_t entry;
  gpuzip_t *session;
  size_t i;
  memset((void *)&found, 0, sizeof found);
  found.struct_size = sizeof found;
  memset((void *)&entry, 0, sizeof entry);
  entry.name = "array";
  entry.field = field_of(array, n, GPUZIP_TYPE_F64);
  memset(array, 0x5a, n * sizeof *array);
  session = open_session(in);
  WORKS(gpuzip_persist_find(session, &found));
  CHECK(found.generation == generation && found.shot == generation);
  WORKS(gpuzip_persist_read(session, &entry, 1, NULL));
  for (i = 0; i < n; i++) CHECK(array[i] == value_of(generation, i));
  WORKS(gpuzip_finalize(session));
}

/* Whether no group loses more than its parity, when these nodes are lost. */
static int is_covered(unsigned lost)
{
  int node, of[64] = {0};
  for (node = 0; node < nodes(); node++)
    if (lost >> node & 1 && ++of[group_of_node(node)] > options.parity) return 0;
  return 1;
}

/* Loses every set of nodes. */
static void every_set_of_nodes(void)
{
  unsigned lost;
  for (lost = 0; lost < 1u << nodes(); lost++) {
    char name[40];
    int node, any = 0;
    if (!is_covered(lost) && (lost & (lost - 1)) == 0) continue;
    lay();
    for (node = 0; node < nodes(); node++) {
      if (!(lost >> node & 1)) continue;
      if (rank == node * per_node) lose(folder(node));
      any++;
    }
    together();
    WORKS(gpuzip_mpi_recover(world, own(), &result));
    CHECK(count(own(), "tmp") == 0);
    if (is_covered(lost)) {
      check_whole(own(), GENERATIONS);
      CHECK(result.text[0] == 0 && result.moved == 0 && result.rebuilt == 2 * any * per_node);
    } else {
      /* Ranks of a group that lost too much are named; files of others are as they were. */
      int k;
      CHECK(result.generation == 0 && result.rebuilt == 0);
      snprintf(name, sizeof name, "generation %d: no copies", GENERATIONS);
      if (any == nodes())
        CHECK(result.text[0] == 0); /* nothing tells that there were files */
      else
        CHECK(strstr(result.text, name) != NULL && strstr(result.text, "of rank") != NULL);
      for (k = 0; k < nfiles && !(lost >> node_of(rank) & 1); k++) CHECK(is_as_before(own(), k));
    }
  }
}

/* Damages files of one rank of each group, and of `parity` ranks: a byte in any part, a missing end, strange bytes. */
static void damaged_files(void)
{
  static const char *const ends[] = {"gen", "parity"};
  int kind, way, at;
  for (kind = 0; kind < 2; kind++)
    for (way = 0; way < 8; way++)
      for (at = 0; at < nodes(); at++) {
        char path[2400], *bytes;
        gpuzip_mpi_name_t name = gpuzip_mpi_name(rank, GENERATIONS, ends[kind]);
        size_t length = 0;
        lay();
        if (rank / per_node == at) {
          snprintf(path, sizeof path, "%s/%s", own(), name.text);
          bytes = read_file(path, &length);
          CHECK(bytes != NULL && length > 100);
          if (way < 5) bytes[way == 4 ? length - 1 : length * (size_t)way / 4] ^= (char)(1 << way);
          if (way == 5) length = length / 2;
          if (way == 6) length = 0;
          if (way == 7) memset(bytes, 0xff, length);
          write_file(path, bytes, length);
          free(bytes);
          name = gpuzip_mpi_name(rank, GENERATIONS, "tmp"); /* as left by a dead process */
          snprintf(path, sizeof path, "%s/%s", own(), name.text);
          write_file(path, "half", 4);
          name = gpuzip_mpi_name(rank, GENERATIONS, "parity.tmp");
          snprintf(path, sizeof path, "%s/%s", own(), name.text);
          write_file(path, "half", 4);
        }
        together();
        WORKS(gpuzip_mpi_recover(world, own(), &result));
        check_whole(own(), GENERATIONS);
        CHECK(result.rebuilt == per_node);
      }
}

/* The newest generation is lost on more ranks than parity covers: the one before is taken, and its files may be
 * missing, too. */
static void an_older_generation(double *array, size_t n)
{
  gpuzip_mpi_name_t name = gpuzip_mpi_name(rank, GENERATIONS, "gen");
  char path[2400];
  lay();
  remove_own(name.text);
  remove_own(gpuzip_mpi_name(rank, GENERATIONS, "parity").text);
  if (node_of(rank) == nodes() - 1) remove_own(gpuzip_mpi_name(rank, GENERATIONS - 1, "gen").text);
  name = gpuzip_mpi_name(rank, GENERATIONS, "gen");
  snprintf(path, sizeof path, "%s/%s", own(), name.text);
  if (rank == 0) write_file(path, "no generation", 13);
  together();
  WORKS(gpuzip_mpi_recover(world, own(), &result));
  CHECK(strstr(result.text, "generation 3: no copies give back the files of rank 0, 1") != NULL);
  check_whole(own(), GENERATIONS - 1);
  check_restart(own(), array, n, GENERATIONS - 1);
}

/* The ranks run on other nodes than before, one of which was lost: files move, and are computed. */
static void other_nodes(double *array, size_t n)
{
  int by;
  for (by = 1; by < nodes(); by++) {
    char in[2100];
    lay();
    strcpy(in, folder((node_of(rank) + by) % nodes()));
    if (rank == 0) lose(folder(1));
    together();
    WORKS(gpuzip_mpi_recover(world, in, &result));
    check_whole(in, GENERATIONS);
    CHECK(result.rebuilt == 2 * per_node && result.moved == 2 * (ranks - per_node));
    CHECK(count(in, "tmp") == 0);
    together();
    CHECK(count(in, ".gen") == per_node); /* nothing is left behind */
    together();
    if (by == 1) check_restart(in, array, n, GENERATIONS);
  }
}

/* The ranks run on other nodes than before, and the newest generation refers to older ones and is not protected. */
static void incremental_on_other_nodes(double *array, size_t n)
{
  char in[2100];
  gpuzip_array_t entry;
  gpuzip_t *session;
  int64_t shot;
  memset((void *)&entry, 0, sizeof entry);
  entry.name = "array";
  entry.field = field_of(array, n, GPUZIP_TYPE_F64);
  if (rank % per_node == 0) lose(own());
  together();
  whole_every = 50;
  session = open_session(own());
  fill(array, n, GENERATIONS);
  for (shot = 1; shot <= GENERATIONS; shot++) {
    WORKS(gpuzip_persist_write(session, shot, &entry, 1, NULL));
    WORKS(gpuzip_persist_wait(session));
  }
  WORKS(gpuzip_finalize(session));
  strcpy(in, folder((node_of(rank) + 1) % nodes()));
  together();
  WORKS(gpuzip_mpi_recover(world, in, &result));
  CHECK(result.generation == GENERATIONS && result.moved == ranks && result.text[0] == 0);
  check_restart(in, array, n, GENERATIONS);
}

/* Parity of another time, under the same number, is not used, and right files stay. */
static void parity_of_another_time(void)
{
  char path[2400], *bytes;
  gpuzip_mpi_name_t name = gpuzip_mpi_name(rank, GENERATIONS - 1, "gen");
  size_t length = 0;
  gpuzip_mpi_head_t head;
  gpuzip_mpi_job_t job;
  int file;
  lay();
  /* The parity of this rank, and the others' of another stamp. */
  gpuzip_mpi_begin(&job, world, own());
  name = gpuzip_mpi_name(rank, GENERATIONS, "parity");
  snprintf(path, sizeof path, "%s/%s", own(), name.text);
  file = gpuzip_mpi_open(&job, name.text);
  CHECK(gpuzip_mpi_head_read(&job, file, GENERATIONS, &head));
  close(file);
  bytes = read_file(path, &length);
  if (rank == 0) {
    uint32_t checksums[GPUZIP_MPI_MOST];
    int i;
    for (i = 0; i < head.m; i++) checksums[i] = (uint32_t)gpuzip_mpi_get(head.bytes + gpuzip_mpi_head_common(&head) + 4 * i, 4);
    head.stamp -= 1;
    gpuzip_mpi_head_write(&head, checksums);
    memcpy(bytes, head.bytes, (size_t)gpuzip_mpi_head_length(&head));
    write_file(path, bytes, length);
  }
  close(job.folder);
  free(bytes);
  together();
  WORKS(gpuzip_mpi_recover(world, own(), &result));
  check_whole(own(), GENERATIONS);
  CHECK(result.rebuilt == 1);
}

/* What fails on one rank fails on all, with its text. */
static void failures(void)
{
  char path[2400];
  gpuzip_mpi_options_t wrong = options;
  gpuzip_mpi_name_t name = gpuzip_mpi_name(rank, GENERATIONS, "parity");
  gpuzip_t *session;
  lay();
  CHECK(gpuzip_mpi_protect(world, rank == 1 ? "" : own(), &options, &result) == GPUZIP_ERR_ARGUMENT);
  CHECK(strcmp(result.text, "rank 1: dir is NULL or empty: give the folder persist_dir") == 0);
  CHECK(gpuzip_mpi_recover(world, rank == 1 ? NULL : own(), &result) == GPUZIP_ERR_ARGUMENT);
  CHECK(gpuzip_mpi_protect(world, rank == ranks - 1 ? "/nonexistent/folder" : own(), &options, NULL) == GPUZIP_ERR_IO);
  wrong.parity = rank == 0 ? 1 : 2, wrong.group = 3;
  CHECK(gpuzip_mpi_protect(world, own(), &wrong, &result) == GPUZIP_ERR_ARGUMENT && strstr(result.text, "differ between ranks"));
  wrong = options, wrong.parity = wrong.group;
  CHECK(gpuzip_mpi_protect(world, own(), &wrong, &result) == GPUZIP_ERR_ARGUMENT && strstr(result.text, "parity from 1 to group - 1"));
  wrong = options, wrong.node = rank == 1 ? 0 : wrong.node;
  CHECK(gpuzip_mpi_protect(world, own(), &wrong, &result) == GPUZIP_ERR_ARGUMENT && strstr(result.text, "differ between ranks"));
  /* A folder stands where rank 1 writes its file. */
  snprintf(path, sizeof path, "%s/%s", own(), name.text);
  unlink(path);
  name = gpuzip_mpi_name(rank, GENERATIONS, "parity.tmp");
  snprintf(path, sizeof path, "%s/%s", own(), name.text);
  if (rank == 1) CHECK(mkdir(path, 0700) == 0);
  together();
  CHECK(gpuzip_mpi_protect(world, own(), &options, &result) == GPUZIP_ERR_IO);
  CHECK(strstr(result.text, "rank 1: ") == result.text && strstr(result.text, name.text + 14) != NULL);
  WORKS(gpuzip_mpi_recover(world, own(), &result));
  CHECK(result.generation == GENERATIONS && result.rebuilt == 0); /* without parity, but whole */
  if (rank == 1) CHECK(rmdir(path) == 0);
  together();
  WORKS(gpuzip_mpi_protect(world, own(), &options, &result));
  CHECK(result.generation == GENERATIONS && result.rebuilt == ranks);
  /* A session uses the files. */
  session = open_session(own());
  CHECK(gpuzip_mpi_recover(world, own(), &result) == GPUZIP_ERR_IO && strstr(result.text, "another process uses the files"));
  WORKS(gpuzip_finalize(session));
}

/* Nodes with unlike numbers of ranks, and one node only. */
static void other_machines(void)
{
  static const int uneven[] = {1, 1, 2, 2, 3, 3}, lonely[] = {1, 1, 2, 3, 2, 3};
  gpuzip_mpi_options_t some = options;
  int k;
  lay();
  for (k = 0; k < nfiles; k++)
    if (strstr(files[k].name, ".parity") != NULL) remove_own(files[k].name);
  together();
  some.node = 0;
  WORKS(gpuzip_mpi_protect(world, own(), &some, &result));
  CHECK(result.generation == 0 && strcmp(result.text, "all ranks are on one node: no copies are made") == 0);
  if (ranks == 4) { /* the second rank of node 1 has no group of others */
    some = options, some.node = lonely[rank];
    CHECK(gpuzip_mpi_protect(world, own(), &some, &result) == GPUZIP_ERR_CONFIG);
    CHECK(strstr(result.text, "no group of ranks on other nodes is left for rank 1") != NULL);
  }
  some = options, some.node = uneven[rank];
  WORKS(gpuzip_mpi_protect(world, own(), &some, &result));
  CHECK(result.generation == GENERATIONS && result.rebuilt == ranks);
  /* Fewer nodes than asked for are told. */
  CHECK((strstr(result.text, "a group has at most one rank of each of the") != NULL) == (options.group > ranks / 2));
  CHECK((strstr(result.text, "of a group may be lost, not") != NULL) == (options.parity > ranks / 2 - 1));
  for (k = 0; k < nfiles; k++)
    if (strstr(files[k].name, ".gen") != NULL) CHECK(is_as_before(own(), k));
}

int main(int argc, char **argv)
{
  size_t n, values;
  double *array;
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &ranks);
  CHECK(argc == 6);
  snprintf(base, sizeof base, "%s", argv[1]);
  options.group = atoi(argv[2]), options.parity = atoi(argv[3]), per_node = atoi(argv[4]);
  options.node = node_of(rank) + 1;
  values = (size_t)atol(argv[5]);
  n = 1 + values * (size_t)(1 + rank % 3) + 7 * (size_t)rank;
  array = (double *)malloc(n * sizeof *array);
  mkdir(base, 0700);
  lay();
  write_generations(array, n);
  keep();
  every_set_of_nodes();
  if (values < 100000) {
    damaged_files();
    an_older_generation(array, n);
    parity_of_another_time();
    failures();
    if (per_node == 1 && ranks >= 4) other_machines();
  }
  other_nodes(array, n);
  incremental_on_other_nodes(array, n);
  free(array);
  for (; nfiles > 0; nfiles--) free(files[nfiles - 1].bytes);
  MPI_Comm_free(&world);
  if (rank == 0) puts("ok");
  MPI_Finalize();
  return 0;
}
