/* The program `levels`: its faults. */
#define _GNU_SOURCE
#include "levels.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const fault_names[FAULTS] = {
    "a rank killed", "all ranks killed", "a stop", "flushd killed", "a node lost", "two nodes lost",
    "a file cut short", "a bit flipped", "half a copy", "half a temporary file", "no room on the nodes",
    "the shared folder away for a time", "the shared folder removed",
    "nodes left, whose flushd comes late", "an old node is back", "the shared level full",
    "the shared level read-only"};

void lift(job_t *job)
{
  char path[LONGEST_PATH], disk[LONGEST_PATH];
  snprintf(disk, sizeof disk, "%s/disk", job->base);
  if (job->is_read_only) {
    const int is_mounted = mount("none", disk, "tmpfs", MS_REMOUNT, "size=8m") == 0;
    if (!is_mounted) wrong(job, "remount: %s", strerror(errno));
    job->is_read_only = 0;
  }
  snprintf(path, sizeof path, "%s/disk/ballast", job->base);
  unlink(path), job->is_full = 0;
  if (job->is_hidden) {
    snprintf(path, sizeof path, "%s/disk/hidden", job->base);
    while (rename(path, job->run.shared) != 0) remove_folder(job->run.shared);
    job->is_hidden = 0;
  }
  const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
  for (int r = 0; r < RANKS && job->is_limited; r++)
    if (job->ranks[r] != 0) prlimit(job->ranks[r], RLIMIT_FSIZE, &none, NULL);
  job->is_limited = 0;
}

void limit(job_t *job)
{
  const struct rlimit few = {3000, RLIM_INFINITY};
  const int only = (int)between(&job->random, -1, RANKS - 1); /* -1: none has room */
  for (int r = 0; r < RANKS; r++)
    if (job->ranks[r] != 0 && (only < 0 || r == only))
      prlimit(job->ranks[r], RLIMIT_FSIZE, &few, NULL);
  job->is_limited = job->is_spoiled = 1;
}

static void fill(job_t *job)
{
  char path[LONGEST_PATH];
  static const char zeros[1 << 16];
  snprintf(path, sizeof path, "%s/disk/ballast", job->base);
  const int file = open(path, O_WRONLY | O_CREAT, 0600);
  while (write(file, zeros, sizeof zeros) > 0) {}
  while (write(file, zeros, 1) > 0) {}
  close(file), job->is_full = 1;
}

static int hide(job_t *job)
{
  char path[LONGEST_PATH];
  snprintf(path, sizeof path, "%s/disk/hidden", job->base);
  if (!job->is_hidden && !job->is_read_only && rename(job->run.shared, path) == 0) job->is_hidden = 1;
  else return 0;
  return 1;
}

static int make_read_only(job_t *job)
{
  char disk[LONGEST_PATH];
  snprintf(disk, sizeof disk, "%s/disk", job->base);
  /* It is busy while a file is written. */
  for (int k = 0; k < 200 && !job->is_read_only; k++, pause_us(500))
    job->is_read_only = mount("none", disk, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=8m") == 0;
  return job->is_read_only;
}

/* Damages a file that is there, or makes a damaged one. Returns 0 if there is none. */
static int damage(job_t *job, fault_t fault)
{
  static file_t files[MOST_FILES];
  const int n = list_all(job, files);
  char path[2 * LONGEST_PATH], bytes[1 << 16];
  if (n == 0 || job->ndamaged == MOST_DAMAGED || job->is_read_only) return 0;
  const file_t *file = &files[between(&job->random, 0, n - 1)];
  for (int k = 0; k < 3; k++) { /* a newer one counts more */
    const file_t *other = &files[between(&job->random, 0, n - 1)];
    if (other->generation > file->generation) file = other;
  }
  if (file->is_damaged) return 0;
  const int is_copied = fault == HALF_COPY || fault == HALF_TEMPORARY;
  const int from = open(file->path, O_RDWR);
  if (from < 0) return 0;
  const off_t size = lseek(from, 0, SEEK_END);
  if (size < 2) return close(from), 0;
  const off_t length = between(&job->random, 1, size - 1);
  int changed = from;
  if (is_copied) {
    /* What a plain copy leaves that is interrupted, from a node to the shared level or the other way. */
    const char *folder = file->is_shared ? job->run.node[file->rank] : job->run.shared;
    const int64_t number = file->generation + (fault == HALF_TEMPORARY);
    snprintf(path, sizeof path, "%s/gpuzip-r%06d-g%012lld.%s", folder, file->rank, (long long)number,
             fault == HALF_COPY ? "gen" : "tmp");
    const size_t half = length < (off_t)sizeof bytes ? (size_t)length : sizeof bytes;
    const ssize_t all = pread(from, bytes, half, 0);
    close(from);
    changed = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (changed < 0) return 0;
    if (write(changed, bytes, (size_t)all) < 0) {} /* there may be no room */
  } else if (fault == TRUNCATE) {
    if (ftruncate(from, length) != 0) wrong(job, "ftruncate: %s", strerror(errno));
  } else {
    char byte;
    if (pread(from, &byte, 1, length) != 1) return close(from), 0;
    byte ^= (char)(1 << between(&job->random, 0, 7));
    if (pwrite(from, &byte, 1, length) != 1) wrong(job, "pwrite: %s", strerror(errno));
  }
  if (fault != HALF_TEMPORARY) job->damaged[job->ndamaged++] = identity_of(changed);
  close(changed);
  /* What the file replaces on the shared level, or was there, counts no more. */
  if (fault != HALF_TEMPORARY) job->promised = 0, job->is_spoiled = 1;
  note(job, " (%s, generation %lld of rank %d)", file->is_shared != is_copied ? "shared" : "near",
       (long long)file->generation, file->rank);
  return 1;
}

static void lose_node(job_t *job, int node)
{
  if (job->ranks[node] != 0) kill(job->ranks[node], SIGKILL);
  end_process(job, &job->flushd[node]);
  remove_folder(job->run.node[node]);
  job->lost |= 1 << node;
  note(job, " (node %d)", node);
}

/* The run leaves a node, which stands still with its files. */
static void leave_node(job_t *job, int node)
{
  if (job->nold == MOST_OLD) return;
  job->is_spoiled = 1;
  old_t *old = &job->old[job->nold];
  old->node = node, old->flushd = job->flushd[node];
  if (old->flushd != 0) kill(old->flushd, SIGSTOP);
  job->flushd[node] = 0;
  snprintf(old->path, sizeof old->path, "%s/old%d-%d", job->base, node, job->olds_made++);
  if (rename(job->run.node[node], old->path) != 0) end_process(job, &old->flushd);
  else job->nold++, note(job, " (node %d)", node);
}

void come_late(job_t *job)
{
  if (job->nold == 0 || job->command == NULL) return;
  old_t *old = &job->old[between(&job->random, 0, job->nold - 1)];
  if (old->flushd != 0) kill(old->flushd, SIGCONT);
  else old->flushd = begin_flushd(job, old->path, 1);
  job->has_late = 1, job->counts->late++;
  note(job, "; flushd of an old node %d", old->node);
}

/* Makes a fault now. Returns 0 if it cannot be made. */
static int make(job_t *job, fault_t fault)
{
  random_t *random = &job->random;
  const int rank = (int)between(random, 0, RANKS - 1);
  const size_t before = strlen(job->did);
  note(job, "; %s", fault_names[fault]);
  int is_made = 1;
  switch (fault) {
    case KILL_RANK:
      is_made = !job->is_dead && kill(job->ranks[rank], SIGKILL) == 0;
      break;
    case KILL_ALL: is_made = !job->is_dead, kill_ranks(job); break;
    case STOP: is_made = !job->is_dead && kill(job->ranks[rank], SIGTERM) == 0; break;
    case KILL_FLUSHD: is_made = job->flushd[rank] != 0, end_process(job, &job->flushd[rank]); break;
    case LOSE_TWO: lose_node(job, (rank + (int)between(random, 1, 3)) % RANKS); /* fall through */
    case LOSE_NODE: lose_node(job, rank); break;
    case TRUNCATE:
    case FLIP:
    case HALF_COPY:
    case HALF_TEMPORARY: is_made = damage(job, fault); break;
    case NEAR_LIMIT: is_made = !job->is_dead; if (is_made) limit(job); break;
    case HIDE: is_made = hide(job); break;
    case REMOVE:
      is_made = !job->is_read_only && !job->is_hidden;
      if (is_made) remove_folder(job->run.shared), job->promised = 0;
      break;
    case LEAVE:
      kill_ranks(job);
      for (int r = 0; r < RANKS; r++) /* all of them in half of the cases */
        if (r == rank || once_in(random, 2) || rank % 2) leave_node(job, r);
      break;
    case RETURN:
      is_made = job->nold > 0;
      if (is_made) {
        old_t old = job->old[--job->nold];
        kill_ranks(job);
        end_process(job, &old.flushd);
        leave_node(job, old.node);
        remove_folder(job->run.node[old.node]);
        if (rename(old.path, job->run.node[old.node]) != 0) wrong(job, "rename: %s", strerror(errno));
      }
      break;
    case FULL: is_made = job->has_mount && !job->is_read_only; if (is_made) fill(job); break;
    case READ_ONLY: is_made = job->has_mount && make_read_only(job); break;
    case FAULTS: break;
  }
  if (is_made) job->counts->faults[fault]++;
  else job->did[before] = 0;
  return is_made;
}

/* Draws a fault that can be made, and makes it. */
static void make_one(job_t *job)
{
  const int must_leave = job->first == RETURN && job->nold == 0;
  if (job->first < FAULTS && make(job, must_leave ? LEAVE : (fault_t)job->first)) {
    if (!must_leave) job->first = FAULTS;
    return;
  }
  for (int tries = 0; tries < 50; tries++)
    if (make(job, (fault_t)between(&job->random, 0, FAULTS - 1))) return;
}

void make_some(job_t *job)
{
  random_t *random = &job->random;
  if (once_in(random, 2)) come_late(job);
  if (job->first == FAULTS && once_in(random, 2)) kill_ranks(job);
  make_one(job);
  if (once_in(random, 4)) make_one(job), job->counts->pairs++;
  if (!job->is_dead && once_in(random, 2)) lift(job);
  /* Then all ranks die, or those that are left go on to the end. */
  if (once_in(random, 2)) pause_us(between(random, 0, 300000)), kill_ranks(job);
}
