/*
 * The folder of --claim, in which workers share the shots of a survey. Workers are processes on one
 * node or on several nodes with a common file system. The folder holds
 *
 *     job                      the description of the survey; its last line is its checksum
 *     worker-HOST-PID-K        one for each worker: who it is, and a line for each shot it took
 *     shot-000012.claim-0      a hard link to the file of the worker that computes shot 12
 *     shot-000012.claim-1      the same for the worker that took the shot over from the first one
 *     shot-000012.image        the committed sums of shot 12 (shot_file.h)
 *     sum.claim-0, sum.image   likewise for the sum of all shots
 *
 * A worker claims a shot by making the link with the lowest number that no worker had before, which
 * succeeds for one worker only. It is the worker of the link with the highest number that has the
 * shot. Another worker takes the shot over if that worker is dead:
 *
 * - Every worker holds a lock (flock) of its own file. A worker of the same node whose lock is free
 *   has ended. Locks of workers of other nodes are not asked for, since mounts exist whose locks do
 *   not leave the node.
 * - Every worker sets the time of its file every few seconds, between two time steps. A worker that
 *   has not done so for its lease is taken for dead, on whichever node. Both times are those of the
 *   file system, so that clocks of nodes need not agree.
 *
 * A worker that was taken for dead and lives (it was stopped, or its file system hung) does no harm:
 * it commits the same bits, or finds them committed. Claims only save work; the image does not
 * depend on them.
 *
 * Assumed of the file system: link() and rename() are atomic, and open() shows what other nodes have
 * closed before (NFS does). Without locks, only the lease tells dead workers.
 */
#ifndef RTM_CLAIM_H
#define RTM_CLAIM_H

#include "shot_file.h"

#define CLAIM_NAME 96  /* bytes of the longest name of a claim, image or description, with its end */

/* A worker in the folder of its survey. */
typedef struct claims_t {
    const char *dir;
    int folder;             /* descriptor of `dir`; -1: not open */
    int file;               /* descriptor of this worker's file, locked; -1: none */
    char name[128];         /* name of that file */
    char node[64];          /* names the kernel that this worker runs on */
    double lease;           /* seconds */
    double beaten;          /* time of the last sign of life, in seconds */
    uint32_t survey;        /* checksum of the description */
    size_t shots;
    int is_refused;         /* whether the survey has another description */
    char claim[CLAIM_NAME]; /* link of the shot that this worker has; empty: none */
    char owner[192];        /* after CLAIM_HELD: the worker that has the shot */
} claims_t;

typedef enum claim_t {
    CLAIM_TAKEN,      /* this worker has the shot now */
    CLAIM_COMMITTED,  /* the shot has been computed */
    CLAIM_HELD,       /* another worker has the shot */
    CLAIM_FAILED      /* the reason is on stderr */
} claim_t;

/* Opens the folder `dir` as a new worker, and makes it for the first one. `description`: lines
 * "name value", the same for all workers of the survey; a worker with another line is refused.
 * Returns 0, or -1 with the reason on stderr. */
int claims_open(claims_t *c, const char *dir, const char *description, size_t shots, double lease);
/* Opens the folder of an existing survey to read it; `description` may lack the last lines. */
int claims_look(claims_t *c, const char *dir, const char *description, size_t shots);
/* Gives back what this worker has claimed and not committed. */
void claims_close(claims_t *c);

/* In what follows, the shot number `shots` stands for the sum of all shots. */

/* Claims a shot. A worker has one at a time. */
claim_t claims_take(claims_t *c, size_t shot);
/* Gives a sign of life. Cheap enough to be called at every time step. */
void claims_beat(claims_t *c);
/* Commits the sums of the claimed shot, which then is no longer claimed; nothing happens if another
 * worker has committed them. Returns 0, or -1 with the reason on stderr. */
int claims_commit(claims_t *c, size_t shot, const image_t *image, double misfit);
/* Gives a claimed shot back. */
void claims_release(claims_t *c);
/* Whether a shot was committed, perhaps damaged since. */
int claims_committed(const claims_t *c, size_t shot);
/* Reads a committed shot. If it is damaged, says so on stderr. */
shot_read_t claims_read(claims_t *c, size_t shot, image_t *image, double *misfit);
/* Removes the file of a damaged shot, so that a worker computes it again. */
void claims_discard(claims_t *c, size_t shot);
/* Removes what dead workers left: claims and unfinished files. For a survey that is done. */
void claims_sweep(claims_t *c);
/* The name of a shot in messages: "shot 12 of 200", or "the sum". Valid until the next call. */
const char *claims_shot(const claims_t *c, size_t shot);

#endif
