/* The program `levels`: the processes of a job, and what is in its folders. */
#define _GNU_SOURCE
#include "levels.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void note(job_t *job, const char *format, ...)
{
  const size_t used = strlen(job->did);
  va_list list;
  va_start(list, format);
  vsnprintf(job->did + used, sizeof job->did - used, format, list);
  va_end(list);
}

static void show_folders(const job_t *job);

_Noreturn void wrong(job_t *job, const char *format, ...)
{
  static char all[RANKS * (LONGEST_LOG + LONGEST_TEXT) + 40000];
  va_list list;
  int used = snprintf(all, sizeof all, "job %llu:%s\n  WRONG: ", (unsigned long long)job->number,
                      job->did);
  va_start(list, format);
  used += vsnprintf(all + used, sizeof all - (size_t)used, format, list);
  va_end(list);
  for (int r = 0; r < RANKS; r++)
    used += snprintf(all + used, sizeof all - (size_t)used, "\n  rank %d, in %s: %s\n%s", r,
                     job->board->call[r] ? job->board->call[r] : "no call", job->board->text[r],
                     job->board->log[r]);
  if (write(STDERR_FILENO, all, (size_t)used) < 0) _exit(2);
  show_folders(job);
  fprintf(stderr, "run again: levels %llu 1\n", (unsigned long long)job->number);
  siglongjmp(job->on_error, 1);
}

void pause_us(long us)
{
  const struct timespec time = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&time, NULL);
}

double now(void)
{
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Removes what is in a folder. */
static void empty(const char *path)
{
  char name[2 * LONGEST_PATH];
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
    if (unlink(name) != 0 && errno == EISDIR) empty(name), rmdir(name);
  }
  if (folder != NULL) closedir(folder);
}

void remove_folder(const char *path)
{
  /* A copying process may write a file meanwhile. */
  do empty(path);
  while (rmdir(path) != 0 && errno == ENOTEMPTY);
}

/* ---- Processes ---- */

pid_t begin_child(job_t *job)
{
  const pid_t parent = getpid(), child = fork();
  if (child < 0) wrong(job, "fork: %s", strerror(errno));
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(9);
  return 0;
}

pid_t begin_flushd(job_t *job, const char *folder, int once)
{
  char log[LONGEST_PATH];
  const pid_t child = begin_child(job);
  if (child != 0) return child;
  snprintf(log, sizeof log, "%s/flushd.log", job->base);
  const int file = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(file, STDOUT_FILENO), dup2(file, STDERR_FILENO);
  execl(job->command, "gpuzip", "flushd", folder, "--grace", "2", once ? "--once" : NULL, NULL);
  _exit(9);
}

int wait_for(job_t *job, pid_t child, const char *what)
{
  int status;
  const double begin = now();
  while (waitpid(child, &status, WNOHANG) != child) {
    if (now() - begin > WATCHDOG_S) wrong(job, "%s does not end", what);
    pause_us(300);
  }
  return status;
}

void end_process(job_t *job, pid_t *child)
{
  if (*child == 0) return;
  kill(*child, SIGKILL);
  wait_for(job, *child, "a killed process");
  *child = 0;
}

void kill_ranks(job_t *job)
{
  job->is_dead = 1;
  for (int r = 0; r < RANKS; r++)
    if (job->ranks[r] != 0) kill(job->ranks[r], SIGKILL);
}

int live_ranks(const job_t *job)
{
  int live = 0;
  for (int r = 0; r < RANKS; r++) live += job->ranks[r] != 0;
  return live;
}

/* ---- What is in the folders ---- */

identity_t identity_of(int descriptor)
{
  struct stat found;
  identity_t identity = {0, 0, 0, 0};
  if (fstat(descriptor, &found) != 0) return identity;
  identity.device = found.st_dev, identity.number = found.st_ino;
  identity.seconds = (uint64_t)found.st_ctim.tv_sec;
  identity.nanoseconds = (uint64_t)found.st_ctim.tv_nsec;
  return identity;
}

/* Notes which older generations hold a part of a generation: its index says so, from byte 48 of each entry on. */
static void note_needed(file_t *file, int descriptor)
{
  enum { ENTRY = 152, FOOTER = 56 };
  const off_t end = lseek(descriptor, 0, SEEK_END) - FOOTER;
  int64_t index[2] = {0, 0}, number;
  int n = 0;
  memset(file->needed, 0, sizeof file->needed);
  if (end < 0 || pread(descriptor, index, 16, end + 8) != 16) return;
  for (int64_t at = index[0]; at >= 0 && at + ENTRY <= end && n < MOST_NEEDED; at += ENTRY) {
    if (pread(descriptor, &number, 8, at + 48) != 8 || number == file->generation) continue;
    int k = 0;
    while (k < n && file->needed[k] != number) k++;
    if (k == n) file->needed[n++] = number;
  }
}

/* Adds the generations in a folder to a list. */
static int list(const job_t *job, const char *path, int is_shared, file_t *files, int n)
{
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder != NULL && n < MOST_FILES && (entry = readdir(folder)) != NULL;) {
    file_t *file = &files[n];
    unsigned rank;
    long long generation;
    char end[8];
    if (sscanf(entry->d_name, "gpuzip-r%6u-g%12lld.%7s", &rank, &generation, end) != 3 ||
        strcmp(end, "gen") != 0 || rank >= RANKS)
      continue;
    snprintf(file->path, sizeof file->path, "%s/%s", path, entry->d_name);
    const int descriptor = open(file->path, O_RDONLY);
    if (descriptor < 0) continue;
    int64_t place[3] = {0, 0, 0};
    /* Shot and action of a generation are at byte 32, and the start of the program is at byte 72. */
    file->is_damaged = pread(descriptor, place, 16, 32) != 16 || pread(descriptor, place + 2, 8, 72) != 8;
    const identity_t identity = identity_of(descriptor);
    for (int k = 0; k < job->ndamaged; k++)
      file->is_damaged |= memcmp(&job->damaged[k], &identity, sizeof identity) == 0;
    file->rank = (int)rank, file->is_shared = is_shared, file->generation = generation;
    file->shot = place[0], file->it = place[1], file->run = place[2];
    n++;
    note_needed(file, descriptor);
    close(descriptor);
  }
  if (folder != NULL) closedir(folder);
  return n;
}

int list_all(const job_t *job, file_t *files)
{
  int n = list(job, job->run.shared, 1, files, 0);
  for (int r = 0; r < RANKS; r++) n = list(job, job->run.node[r], 0, files, n);
  return n;
}

/* Whether a file of the list has this generation of the rank and the folder of `of`, and of its run. */
static const file_t *needed(const file_t *files, int n, const file_t *of, int64_t generation)
{
  for (int k = 0; k < n; k++)
    if (files[k].generation == generation && files[k].rank == of->rank && files[k].is_shared == of->is_shared &&
        files[k].run == of->run)
      return &files[k];
  return NULL;
}

/* What refers to a file that is missing or damaged is damaged, too, unless the damage is elsewhere in that file. */
static void follow_needed(job_t *job, file_t *files, int n)
{
  static file_t was[MOST_FILES];
  memcpy(was, files, (size_t)n * sizeof *files);
  job->is_unclear = 0;
  for (int k = 0; k < n; k++)
    for (int i = 0; i < MOST_NEEDED && files[k].needed[i] != 0 && !was[k].is_damaged; i++) {
      const file_t *other = needed(was, n, &files[k], files[k].needed[i]);
      if (other != NULL && !other->is_damaged) continue;
      files[k].is_damaged = 1;
      job->is_unclear |= other != NULL;
    }
}

/* Whether all ranks have a generation, of one run, shot and action, if they take their files on the level
 * that is asked for or else, if `is_any`, on the other one. */
static int is_common(const file_t *files, int n, int64_t generation, int is_shared, int is_any)
{
  const file_t *of[RANKS] = {NULL};
  for (int k = 0; k < n; k++)
    if (files[k].generation == generation && !files[k].is_damaged &&
        (files[k].is_shared == is_shared || (is_any && of[files[k].rank] == NULL)))
      of[files[k].rank] = &files[k];
  for (int r = 0; r < RANKS; r++)
    if (of[r] == NULL || of[r]->shot != of[0]->shot || of[r]->it != of[0]->it || of[r]->run != of[0]->run)
      return 0;
  return 1;
}

/* Finds the newest generation that all ranks have, on the shared level or on any; 0: none. */
static int64_t newest_common(const file_t *files, int n, int only_shared)
{
  int64_t newest = 0;
  for (int k = 0; k < n; k++) {
    const int64_t generation = files[k].generation;
    if (generation > newest && (is_common(files, n, generation, 1, !only_shared) ||
                                (!only_shared && is_common(files, n, generation, 0, 1))))
      newest = generation;
  }
  return newest;
}

int64_t expect(job_t *job, file_t *files, int *n)
{
  *n = list_all(job, files);
  follow_needed(job, files, *n);
  for (int r = 0; r < RANKS; r++) {
    int near = 0;
    for (int k = 0; k < *n; k++) near += files[k].rank == r && !files[k].is_shared;
    if (near > MOST_NEAR + job->run.whole_every) wrong(job, "rank %d has %d generations on its node", r, near);
  }
  const int64_t common = newest_common(files, *n, 1);
  if (!job->is_hidden) {
    if (common < job->promised)
      wrong(job, "the ranks had generation %lld in common on the shared level, and have %lld now",
            (long long)job->promised, (long long)common);
    job->promised = common;
  }
  return newest_common(files, *n, 0);
}

/* Prints the generations in the folders, and what is to be copied. */
static void show_folders(const job_t *job)
{
  static file_t files[MOST_FILES];
  const int n = list_all(job, files);
  for (int k = 0; k < n; k++)
    fprintf(stderr, "  %s of rank %d: generation %lld, shot %lld, action %lld, start %llx%s\n",
            files[k].is_shared ? "shared" : "near", files[k].rank, (long long)files[k].generation,
            (long long)files[k].shot, (long long)files[k].it, (unsigned long long)files[k].run,
            files[k].is_damaged ? ", damaged" : "");
  for (int r = 0; r < RANKS; r++) {
    char path[2 * LONGEST_PATH], order[LONGEST_PATH] = "";
    snprintf(path, sizeof path, "%s/gpuzip-r%06d.order", job->run.node[r], r);
    const int file = open(path, O_RDONLY);
    if (file < 0) continue;
    if (read(file, order, sizeof order - 1) > 0) fprintf(stderr, "  order of rank %d: %s\n", r, order);
    close(file);
  }
}

