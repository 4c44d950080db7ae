/* The program `levels`: what its files share. */
#ifndef LEVELS_H
#define LEVELS_H

#include "stress_common.h"

#include <setjmp.h>
#include <sys/types.h>

enum { RANKS = 4, LONGEST_PATH = 400, LONGEST_TEXT = 4000, LONGEST_LOG = 60000 };
/* Of levels_mpi.c: most bytes of a collective call and of a message, and their places. */
enum { LONGEST_MEETING = 6000, MEETINGS = 32, LONGEST_MESSAGE = 1 << 16, MESSAGES = 16 };

/* How a rank ended. With RANK_DONE, RANK_STOPPED and RANK_FAILED all ranks end so. */
enum { RANK_DONE = 0, RANK_ALONE = 1, RANK_STOPPED = 3, RANK_OUT_OF_STEP = 4, RANK_FAILED = 5 };

/* A run: the same numbers at each start. */
typedef struct {
  int shots, steps, points; /* per shot, and per rank */
  int algorithm, snapshots, compressor;
  int pace_us;      /* each action takes so many microseconds more */
  int is_patient;   /* goes on where a generation cannot be written */
  int persists;     /* writes restart files */
  int finalizes;    /* closes the session after a stop */
  int group, parity; /* of gpuzip_mpi_protect; 0: it is not called */
  int whole_every;   /* persist_whole_every */
  int packs;         /* persist_stages = compress */
  int plants_error; /* for the test of this program: changes a value after a restart */
  char node[RANKS][LONGEST_PATH], shared[LONGEST_PATH];
} run_t;

/* A place where the members of a communicator exchange bytes. */
typedef struct {
  _Atomic uint32_t arrived, round;
  unsigned char bytes[2][RANKS][LONGEST_MEETING];
} meeting_t;

/* A message from one rank to another; `order` is 0 if there is none. */
typedef struct {
  _Atomic uint32_t order;
  uint32_t number;
  int tag;
  size_t bytes;
  unsigned char data[LONGEST_MESSAGE];
} message_t;

/* Memory that the driver and the ranks share. It is zero when a run starts, but for messages. */
typedef struct {
  _Atomic uint32_t arrived, round; /* of the reduction */
  int64_t value[2][RANKS], tag[2][RANKS];
  double halo[2][RANKS][2];
  const char *_Atomic call[RANKS]; /* the call that the rank is in */
  struct {
    int is_set;
    int64_t generation, shot, it;
  } found[RANKS];
  int64_t rebuilt; /* files that gpuzip_mpi_recover has computed */
  uint64_t result[RANKS], generations[RANKS], failures[RANKS];
  int64_t protected; /* the last generation that gpuzip_mpi_protect has protected */
  _Atomic uint32_t communicators, sent;
  char text[RANKS][LONGEST_TEXT]; /* of the error that ended the rank */
  char log[RANKS][LONGEST_LOG];
  meeting_t meetings[MEETINGS];
  message_t messages[RANKS][RANKS][MESSAGES];
} board_t;

/* ---- The driver ---- */

enum { WATCHDOG_S = 60, MOST_WORKERS = 16, MOST_DAMAGED = 100, MOST_FILES = 400, MOST_NEAR = 6, MOST_NEEDED = 8, MOST_OLD = 20 };

/* Faults. Those from FULL on need a file system of the job's own for the shared folder. */
typedef enum {
  KILL_RANK, KILL_ALL, STOP, KILL_FLUSHD, LOSE_NODE, LOSE_TWO, TRUNCATE, FLIP, HALF_COPY, HALF_TEMPORARY,
  NEAR_LIMIT, HIDE, REMOVE, LEAVE, RETURN, FULL, READ_ONLY, FAULTS
} fault_t;

typedef struct {
  uint64_t jobs, faults[FAULTS], pairs, starts, done, stopped, killed, texts, refused, anew, resumed,
      within, shared, late, generations, tolerated, rebuilt;
} counts_t;

extern const char *const fault_names[FAULTS];

/* A node that the run has left: its folder, and its copying process, which stands still; 0: none. */
typedef struct {
  int node;
  pid_t flushd;
  char path[LONGEST_PATH];
} old_t;

/* A file that has not changed since: numbers of its file system and its inode, and the time of its last
 * change. */
typedef struct {
  uint64_t device, number, seconds, nanoseconds;
} identity_t;

/* A job of the driver. */
typedef struct {
  uint64_t number;
  random_t random;
  run_t run;
  board_t *board;
  counts_t *counts;
  char base[LONGEST_PATH - 100], did[20000];
  const char *command;
  sigjmp_buf on_error;
  int has_mount, has_flushd, has_late, is_hidden, is_full, is_read_only, is_limited, is_early, is_dead;
  pid_t ranks[RANKS], flushd[RANKS];
  identity_t damaged[MOST_DAMAGED]; /* files that a fault has damaged */
  int ndamaged, nold, olds_made;
  int first; /* the fault that is to be made first, by the number of the job; FAULTS: it was made */
  old_t old[MOST_OLD];
  uint64_t sum;     /* of the results of a run without faults */
  uint32_t rounds;  /* reductions of that run */
  int64_t promised; /* the ranks had this generation in common on the shared level; 0: none */
  /* The generation that gpuzip_mpi_protect has protected; 0: none. Bits of the nodes that were lost
   * since, and whether other files on nodes were. */
  int64_t protected;
  int lost, is_spoiled;
  int is_unclear; /* a generation refers to a damaged file, whose damage may be elsewhere */
} job_t;

/* A generation. */
typedef struct {
  int rank, is_shared, is_damaged;
  int64_t generation, shot, it, run;
  int64_t needed[MOST_NEEDED]; /* older generations that hold a part of it; 0: no more */
  char path[2 * LONGEST_PATH];
} file_t;

/* Adds to the text of what the job did. */
__attribute__((format(printf, 2, 3))) void note(job_t *job, const char *format, ...);
/* Ends the job, which has found an error. */
__attribute__((format(printf, 2, 3))) _Noreturn void wrong(job_t *job, const char *format, ...);
void pause_us(long us);
double now(void);
void remove_folder(const char *path);

/* Begins a child that dies with this process. Returns 0 in the child. */
pid_t begin_child(job_t *job);
pid_t begin_flushd(job_t *job, const char *folder, int once);
/* Waits until a process has ended, and returns its status. */
int wait_for(job_t *job, pid_t child, const char *what);
void end_process(job_t *job, pid_t *child);
void kill_ranks(job_t *job);
int live_ranks(const job_t *job);

/* Lists the generations on the nodes and on the shared level. Returns their number. */
int list_all(const job_t *job, file_t *files);
identity_t identity_of(int descriptor);
/* Returns the generation that the next start has to find, and lists what is there; 0: none. */
int64_t expect(job_t *job, file_t *files, int *n);

/* Makes one fault or two at once. */
void make_some(job_t *job);
/* The copying process of a node that the run has left goes on. */
void come_late(job_t *job);
/* Files of the ranks have no room. */
void limit(job_t *job);
/* Ends what lasts for a time only. */
void lift(job_t *job);

/* ---- The ranks ---- */

/* Runs one rank, and returns how it ended. */
int run_rank(const run_t *run, board_t *board, int rank);
/* Begins what gpuzip_mpi.h calls of MPI. */
void begin_mpi(board_t *board, int rank);

/* Returns the checksum of n bytes: FNV-1a. */
static inline uint64_t checksum(const void *data, uint64_t n)
{
  uint64_t sum = 0xcbf29ce484222325u;
  for (const unsigned char *byte = data; n > 0; n--) sum = (sum ^ *byte++) * 0x100000001b3u;
  return sum;
}

#endif
