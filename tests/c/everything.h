/* The parts of the driver `everything`: what a job is, and what its files offer one another. */
#ifndef EVERYTHING_H
#define EVERYTHING_H

#include "stress_state.h"

#include <fenv.h>

/* The results of the jobs of one thread. */
typedef struct {
  uint64_t jobs, refused, sessions, shots, due, faulted, actions, saves, restores, misused, asked,
      written, out, restarts, older, nodes_lost, clones, exported, chosen;
} counts_t;

/* What the program knows of a shot. It is kept with every generation, and a restart brings it
 * back. */
typedef struct {
  int64_t shot, it;  /* `it` is the last action that was done, -1 before the first action */
  int steps;         /* time steps of the shot, n */
  /* live: -1 where no state is; sweeps: reverse sweeps before this one */
  int sweeps;
  int live, reversed, ended, saved_at[MOST_STEPS], seen[MOST_STEPS];
  uint64_t forward_steps;
} shot_t;

/* What was known when a generation was written. */
typedef struct {
  shot_t now;
  int is_kept[MOST_STEPS]; /* the states that were stored or live, */
  void *levels;            /* and their previous levels, if they may be lossy ones; see app_keep */
} memo_t;

enum { GENERATIONS = 200 };

typedef struct {
  random_t random;
  gpuzip_config_t config;
  loss_t loss, measured; /* of the shots, and of the runs with a codec that choose the bound */
  int rounding, flush;
  int every;  /* time steps of a BACKWARD */
  int open;   /* the number of steps is told by gpuzip_end_forward */
  int sessions;
  int alone;  /* no other thread of the program has sessions */
  int faults; /* faults may be made in this job */
  int persist; /* restart files are written: */
  int eager;   /* one generation in so many actions */
  int tuned;  /* gpuzip_autotune measures this shot */
  int profiled; /* a session of this job was given a profile */
  uint64_t faults_before, others_bytes; /* before the job */
  gpuzip_t *handles[2];
  gpuzip_schedule_t *schedule;
  app_t apps[2];
  shot_t now;
  int armed;                         /* faults are being made */
  gpuzip_action_t expected;          /* the action that a peek has told, if `peeked` */
  int peeked;
  void *given[2][MOST_FIELDS]; /* zero copy: the slot from gpuzip_save_begin for the next SAVE */
  int in_hand; /* zero copy: 1 + the state of a RESTORE whose memory was not given back, else 0 */
  memo_t memos[GENERATIONS];
  int memos_kept, restarts_left;
  int holds;                         /* the session has written a generation, or has found one */
  int cloned;                        /* the run has begun with a clone, and has not found it yet */
  int64_t image[2], wave[3];         /* arrays in the restart files, */
  unsigned char *live;               /* and the live state, if the program has no copy of it */
  char folder[320], shared[320], clone[320], states[320], trace[320], disks[640];
  double *result;                    /* while the bound is chosen: the result of the shot, */
  unsigned char *restored;           /* the values of the last RESTORE, */
  int restored_at;                   /* and its state */
  counts_t *counts;
} job_t;

/* Calls the library in the job's floating-point environment. */
#define IN(job, status, call)                  \
  do {                                         \
    const unsigned before_ = enter(job);       \
    (status) = (call);                         \
    leave(before_);                            \
  } while (0)

unsigned enter(const job_t *job);
void leave(unsigned before);

/* Chooses shapes, states, configuration and environment of a job. */
void choose(job_t *job);
/* Registers the codecs of the program, once in a process. */
void register_codecs(void);

/* Makes the sessions of a job, with the number of steps of its current shot. Returns the status. */
int32_t open_sessions(job_t *job);
void close_sessions(job_t *job);
/* Runs one shot. Returns 1 if the shot came to its end, 0 if the program gave the shot up or an
 * error that was due ended it. */
int run_shot(job_t *job);
void begin_shot(job_t *job);
/* Returns the bytes of the files without a name that this process has open: the snapshots on
 * disk. */
uint64_t bytes_on_disk(void);
/* Checks the numbers of a session whose shot has ended. */
void check_numbers(job_t *job);
/* Ends the process unless `status` is an error that was due. */
void check_failure(job_t *job, int32_t status);

/* Makes the sessions of a job and opens the folder for restart files, again while faults of files
 * and memory hit this. Returns the status. */
int32_t open_again(job_t *job);
/* Opens the folder for restart files. */
int32_t open_folder(job_t *job);
/* Asks for a generation, which this program does not remember. */
int32_t write_arrays(job_t *job);
/* Writes a generation of the current action (`within` = 1) or of the start of the shot. */
int32_t write_generation(job_t *job, int within);
/* Ends the session as a process that is killed does, makes another one, and goes on from the newest
 * generation. On success the job stands where that generation was written. */
int32_t restart(job_t *job);
void remove_folder(const job_t *job);
/* Exports the live state now and then, and compares the files with it. Returns the status, if no fault was
 * made. */
int32_t export_live(job_t *job);
/* Forgets what was known when generations were written. */
void forget_generations(job_t *job);

/* Chooses the error bound of a job with the key `quality`. */
void choose_bound(job_t *job);
/* The result of the shot, while the bound is chosen: begins it, keeps the live state, which was restored, and adds
 * state `ts` at its BACKWARD. */
void begin_result(job_t *job);
void keep_restored(job_t *job, int32_t ts);
void add_to_result(job_t *job, int32_t ts);

/* Makes faults of files and memory from now on, as the job's random numbers say, and ends them. */
void begin_faults(job_t *job);
void end_faults(job_t *job);
/* Returns the number of faults that this process has made. */
uint64_t faults_made(void);

/* Counts the reason of a refusal: its text, without the numbers. */
void count_refusal(int32_t status);

/* Runs one job in the folder `everything_place`. */
extern const char *everything_place;
void run_job(uint64_t number, random_t random, int worker, int alone, counts_t *counts);

#endif
