/* Random faults under restart files on two levels: four ranks, each on a node of its own, and one shared
 * folder.
 *
 *   levels FIRST COUNT [WORKERS [COMMAND [plant]]]
 *
 * runs COUNT jobs, from number FIRST on, WORKERS at a time, in the current folder. COMMAND is the
 * program `gpuzip`, whose `flushd` copies in some jobs. A job computes its result without restart files,
 * and then starts runs with restart files, with a fault or two in each, and at last one without a fault.
 * The program exits with 1 if a result is another one, if a run goes on from another generation than the
 * newest one that every rank has on one of the levels, if the ranks have no generation in common on the
 * shared level after they had one, if the ranks are out of step, or if a process does not end. `plant`
 * changes one value by 2^-20 after each restart, which must be seen. */
#define _GNU_SOURCE
#include "levels.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Runs ---- */

static void begin_ranks(job_t *job, const run_t *run)
{
  board_t *board = job->board;
  memset(board, 0, offsetof(board_t, meetings));
  for (int k = 0; k < MEETINGS; k++) board->meetings[k].arrived = board->meetings[k].round = 0;
  for (int k = 0; k < RANKS * RANKS * MESSAGES; k++)
    board->messages[k / MESSAGES / RANKS][k / MESSAGES % RANKS][k % MESSAGES].order = 0;
  job->is_dead = 0;
  for (int r = 0; r < RANKS; r++) {
    job->ranks[r] = begin_child(job);
    if (job->ranks[r] == 0) _exit(run_rank(run, job->board, r));
  }
}

typedef enum { DONE, STOPPED, KILLED, REFUSED, ALONE } outcome_t;

/* Waits until all ranks have ended, and ends them if one dies, as mpirun does. Makes the faults at round
 * `trigger` of their reductions. */
static outcome_t watch(job_t *job, uint32_t trigger)
{
  int counts[256] = {0}, killed = 0, is_made = trigger == UINT32_MAX;
  const double begin = now();
  while (live_ranks(job) > 0) {
    for (int r = 0, status; r < RANKS; r++) {
      if (job->ranks[r] == 0 || waitpid(job->ranks[r], &status, WNOHANG) != job->ranks[r]) continue;
      job->ranks[r] = 0, job->is_dead = 1;
      if (WIFSIGNALED(status)) killed++;
      else counts[WEXITSTATUS(status)]++;
      if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGTERM)
        wrong(job, "rank %d ended by signal %d", r, WTERMSIG(status));
      if (WIFSIGNALED(status) || WEXITSTATUS(status) == RANK_ALONE) kill_ranks(job);
    }
    if (!is_made && atomic_load(&job->board->round) >= trigger && live_ranks(job) == RANKS) {
      is_made = 1;
      note(job, "; at %u", trigger);
      for (int r = 0; r < RANKS; r++) job->is_early |= !job->board->found[r].is_set;
      make_some(job);
    }
    if (now() - begin > WATCHDOG_S) wrong(job, "the run does not end");
    pause_us(300);
  }
  if (!is_made) note(job, "; at the end"), make_some(job);
  for (int r = 0; r < RANKS; r++) {
    job->counts->generations += job->board->generations[r];
    job->counts->tolerated += job->board->failures[r];
  }
  if (counts[RANK_OUT_OF_STEP] > 0) wrong(job, "the ranks are out of step");
  if (counts[RANK_ALONE] > 0) return ALONE;
  if (killed > 0) return KILLED;
  if (counts[RANK_DONE] == RANKS) return DONE;
  if (counts[RANK_STOPPED] == RANKS) return STOPPED;
  if (counts[RANK_FAILED] == RANKS) return REFUSED;
  wrong(job, "the ranks ended in different ways: %d done, %d stopped, %d failed", counts[RANK_DONE],
        counts[RANK_STOPPED], counts[RANK_FAILED]);
}

static uint64_t result_of(const job_t *job)
{
  return checksum(job->board->result, sizeof job->board->result);
}

/* Whether the error text of some rank has this part. */
static int says(const job_t *job, const char *part)
{
  for (int r = 0; r < RANKS; r++)
    if (strstr(job->board->text[r], part) != NULL) return 1;
  return 0;
}

static void begin_anew(job_t *job)
{
  for (int r = 0; r < RANKS; r++) end_process(job, &job->flushd[r]), remove_folder(job->run.node[r]);
  for (; job->nold > 0; job->nold--) {
    old_t *old = &job->old[job->nold - 1];
    end_process(job, &old->flushd), remove_folder(old->path);
  }
  lift(job);
  remove_folder(job->run.shared), job->promised = job->protected = 0, job->has_late = job->lost = 0;
}

/* Checks where a start went on, and counts it. */
static void check_begin(job_t *job, int64_t expected, const file_t *files, int n)
{
  const board_t *board = job->board;
  for (int r = 0; r < RANKS; r++) {
    if (!board->found[r].is_set) continue;
    const int64_t found = board->found[r].generation;
    int is_near = 0;
    /* The fault may have come before the run looked. What comes late from a node that the run has left,
     * or is computed from parity, may be newer. */
    const int may_be_newer = job->has_late || job->is_unclear || job->run.parity > 0;
    if (!job->is_early && (found < expected || (found > expected && !may_be_newer)))
      wrong(job, "rank %d went on from generation %lld, and the newest of all ranks is %lld", r,
            (long long)found, (long long)expected);
    if (found == 0) continue;
    for (int k = 0; k < n; k++)
      is_near |= files[k].rank == r && !files[k].is_shared && !files[k].is_damaged &&
                 files[k].generation == found;
    job->counts->shared += !is_near;
  }
  if (!board->found[0].is_set) return;
  if (board->found[0].generation == 0) job->counts->anew++;
  else job->counts->resumed++, job->counts->within += board->found[0].it >= 0;
  note(job, " -> %lld", (long long)board->found[0].generation);
}

/* Starts the run, with a fault or without, and checks how it ends. */
static outcome_t start(job_t *job, int with_fault)
{
  static file_t files[MOST_FILES];
  int n;
  const int lost = job->lost;
  int64_t expected = expect(job, files, &n);
  if (__builtin_popcount((unsigned)lost) <= job->run.parity && job->protected > expected)
    expected = job->protected;
  job->lost = job->is_spoiled = 0;
  const uint32_t trigger =
      with_fault ? (uint32_t)between(&job->random, 0, 3 * (int64_t)job->rounds) : UINT32_MAX;
  const int had_limits = job->is_full || job->is_read_only || job->is_hidden || job->is_limited;
  job->counts->starts++;
  for (int r = 0; r < RANKS && job->has_flushd; r++)
    if (job->flushd[r] == 0 && !once_in(&job->random, 6))
      job->flushd[r] = begin_flushd(job, job->run.node[r], 0);
  if (once_in(&job->random, 3)) come_late(job);
  job->is_early = 0;
  begin_ranks(job, &job->run);
  if (job->is_limited) limit(job);
  const outcome_t outcome = watch(job, trigger);
  check_begin(job, expected, files, n);
  const int has_begun = job->board->found[0].is_set;
  if (has_begun) job->protected = job->board->protected;
  else job->lost |= lost;
  if (job->is_spoiled) job->protected = 0;
  job->counts->rebuilt += (uint64_t)job->board->rebuilt;
  switch (outcome) {
    case DONE:
      note(job, ": done");
      job->counts->done++;
      if (result_of(job) != job->sum) wrong(job, "the result is another one");
      break;
    case STOPPED: note(job, ": stopped"), job->counts->stopped++; break;
    case KILLED: note(job, ": killed"), job->counts->killed++; break;
    case REFUSED:
      if (has_begun && job->run.is_patient) wrong(job, "the run ended with an error");
      if (has_begun) {
        note(job, ": ended by an error of a file");
        job->counts->refused++;
        break;
      }
      note(job, ": nothing to go on from");
      job->counts->texts++;
      if (expected > 0 && !job->is_early)
        wrong(job, "generation %lld is there", (long long)expected);
      if (!says(job, "generation ") || !says(job, "begin anew in an empty folder"))
        wrong(job, "a bad text");
      begin_anew(job);
      break;
    case ALONE:
      note(job, ": refused");
      job->counts->refused++;
      if (!had_limits && !with_fault) wrong(job, "the folders cannot be opened");
      if (!says(job, job->base) && !says(job, "is damaged")) wrong(job, "a bad text");
      break;
  }
  return outcome;
}

/* ---- Jobs ---- */

static void choose(job_t *job)
{
  static const int codecs[] = {GPUZIP_COMPRESSOR_NONE, GPUZIP_COMPRESSOR_LOSSLESS, GPUZIP_COMPRESSOR_DCT,
                               GPUZIP_COMPRESSOR_LORENZO, GPUZIP_COMPRESSOR_ZFP};
  random_t *random = &job->random;
  run_t *run = &job->run;
  run->shots = (int)between(random, 2, 6), run->steps = (int)between(random, 5, 30);
  run->points = (int)between(random, 16, 600), run->snapshots = (int)between(random, 3, 6);
  run->algorithm = once_in(random, 8) ? GPUZIP_ALGORITHM_ONLINE : GPUZIP_ALGORITHM_REVOLVE;
  run->compressor = codecs[between(random, 0, 4)];
  run->pace_us = once_in(random, 2) ? (int)between(random, 0, 2000) : 0;
  run->is_patient = !once_in(random, 3), run->finalizes = once_in(random, 2);
  if (once_in(random, 3)) {
    run->group = (int)between(random, 2, RANKS), run->parity = (int)between(random, 1, run->group - 1);
  } else {
    run->group = run->parity = 0;
  }
  job->has_flushd = job->command != NULL && (!once_in(random, 3) || job->first == KILL_FLUSHD);
  for (int r = 0; r < RANKS; r++) snprintf(run->node[r], LONGEST_PATH, "%s/node%d", job->base, r);
  snprintf(run->shared, LONGEST_PATH, "%s/disk/shared", job->base);
  run->whole_every = once_in(random, 2) ? (int)between(random, 2, MOST_NEEDED) : 0;
  run->packs = once_in(random, 2);
}

static void clear_away(job_t *job)
{
  kill_ranks(job);
  begin_anew(job);
  char disk[LONGEST_PATH];
  snprintf(disk, sizeof disk, "%s/disk", job->base);
  if (job->has_mount) umount2(disk, MNT_DETACH);
  remove_folder(job->base);
}

static void run_job(job_t *job)
{
  job->first = (int)(job->number % FAULTS);
  choose(job);
  job->counts->jobs++;
  job->protected = job->lost = 0;
  job->promised = job->has_late = job->ndamaged = job->nold = 0, job->did[0] = 0;
  const run_t *run = &job->run;
  if (run->parity > 0) note(job, " parity %d of %d,", run->parity, run->group);
  if (run->whole_every > 0) note(job, " whole every %d,", run->whole_every);
  if (run->packs) note(job, " packed,");
  note(job, " %d shots of %d steps, codec %d%s%s", run->shots, run->steps, run->compressor,
       run->algorithm == GPUZIP_ALGORITHM_ONLINE ? ", online" : "", job->has_flushd ? ", flushd" : "");
  begin_ranks(job, run);
  if (watch(job, UINT32_MAX) != DONE) wrong(job, "the run without restart files failed");
  job->sum = result_of(job), job->rounds = atomic_load(&job->board->round);
  job->run.persists = 1;
  for (int64_t faults = between(&job->random, 2, 5); faults > 0; faults--) {
    if (start(job, 1) == DONE && once_in(&job->random, 2)) begin_anew(job);
    if (once_in(&job->random, 2)) lift(job);
    for (int r = 0; r < RANKS && once_in(&job->random, 4); r++) {
      if (job->flushd[r] == 0) continue;
      kill(job->flushd[r], SIGTERM);
      wait_for(job, job->flushd[r], "flushd after SIGTERM"), job->flushd[r] = 0;
    }
  }
  lift(job);
  /* After a text the run begins anew, once. */
  for (int tries = 0; start(job, 0) != DONE; tries++)
    if (tries == 1) wrong(job, "the run does not come to its end");
  job->run.persists = 0;
  begin_anew(job);
}

/* Gives this process file systems of its own, so that jobs may mount. Returns whether it may. */
static int may_mount(void)
{
  char map[40];
  const int user = (int)getuid(), group = (int)getgid();
  if (unshare(CLONE_NEWNS) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 0;
    const char *const files[] = {"setgroups", "uid_map", "gid_map"};
    for (int k = 0; k < 3; k++) {
      char path[40];
      snprintf(path, sizeof path, "/proc/self/%s", files[k]);
      snprintf(map, sizeof map, k == 0 ? "deny" : "0 %d 1", k == 1 ? user : group);
      const int file = open(path, O_WRONLY);
      if (file < 0 || write(file, map, strlen(map)) < 0) return 0;
      close(file);
    }
  }
  return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* Runs the jobs of one worker. Returns 1 if one has found an error. */
static int work(job_t *job, uint64_t first, uint64_t count, int worker, int workers)
{
  char disk[LONGEST_PATH], here[200];
  volatile int is_wrong = 0;
  if (getcwd(here, sizeof here) == NULL) exit(2);
  snprintf(job->base, sizeof job->base, "%s/levels-%d", here, worker);
  mkdir(job->base, 0700);
  snprintf(disk, sizeof disk, "%s/disk", job->base);
  mkdir(disk, 0700);
  if (job->has_mount) job->has_mount = mount("none", disk, "tmpfs", 0, "size=8m") == 0;
  for (uint64_t k = (uint64_t)worker; k < count; k += (uint64_t)workers) {
    job->number = first + k, job->random = (random_t){mix(first + k + 1), NULL, NULL};
    if (sigsetjmp(job->on_error, 0) != 0) {
      is_wrong = 1;
      kill_ranks(job);
      for (int r = 0; r < RANKS; r++) end_process(job, &job->ranks[r]);
      job->run.persists = 0;
      begin_anew(job);
      continue;
    }
    run_job(job);
    printf("job %llu:%s\n", (unsigned long long)job->number, job->did);
    fflush(stdout);
  }
  clear_away(job);
  return is_wrong;
}

/* Not used: the driver calls no random job of another program. */
_Thread_local uint64_t current_job;
void stress_failed(void) { exit(2); }

int main(int argc, char **argv)
{
  if (argc < 3) {
    fprintf(stderr, "usage: %s FIRST COUNT [WORKERS [COMMAND [plant]]]\n", argv[0]);
    return 2;
  }
  const int workers = argc > 3 ? atoi(argv[3]) : 1, has_mount = may_mount();
  if (workers < 1 || workers > MOST_WORKERS)
    return fprintf(stderr, "WORKERS: 1 to %d\n", MOST_WORKERS), 2;
  const int how = MAP_SHARED | MAP_ANONYMOUS, access = PROT_READ | PROT_WRITE;
  counts_t *counts = mmap(NULL, sizeof *counts * MOST_WORKERS, access, how, -1, 0), sum = {0};
  pid_t children[MOST_WORKERS];
  int failed = 0;
  for (int w = 0; w < workers; w++) {
    children[w] = fork();
    if (children[w] != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    static job_t job;
    job.board = mmap(NULL, sizeof *job.board, access, how, -1, 0);
    job.counts = &counts[w], job.has_mount = has_mount;
    job.command = argc > 4 && argv[4][0] != 0 ? argv[4] : NULL;
    job.run.plants_error = argc > 5;
    exit(work(&job, strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10), w, workers));
  }
  for (int w = 0; w < workers; w++) {
    int status;
    if (waitpid(children[w], &status, 0) != children[w] || status != 0) failed = 1;
    for (size_t c = 0; c < sizeof sum / sizeof(uint64_t); c++)
      ((uint64_t *)&sum)[c] += ((uint64_t *)&counts[w])[c];
  }
  uint64_t faults = 0;
#define U(name) (unsigned long long)sum.name
  for (int k = 0; k < FAULTS; k++) {
    faults += sum.faults[k];
    printf("%5llu %s%s\n", U(faults[k]), fault_names[k],
           k >= FULL && !has_mount ? " (nothing can be mounted)" : "");
  }
  printf("%llu faults, %llu of them in pairs, in %llu jobs: %llu starts, %llu went on, %llu of them "
         "within a shot, %llu ranks from the shared folder, %llu began anew, %llu ended with a text of what is "
         "missing, %llu with another text, %llu stopped, %llu killed, %llu done; "
         "%llu generations of a rank, %llu not written, %llu late copying processes, "
         "%llu files computed from parity\n",
         (unsigned long long)faults, U(pairs), U(jobs), U(starts), U(resumed), U(within), U(shared),
         U(anew), U(texts), U(refused), U(stopped), U(killed), U(done), U(generations), U(tolerated), U(late),
         U(rebuilt));
  return failed;
}
