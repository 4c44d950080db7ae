/*
 * The folder of --restart for a survey whose shots are distributed over ranks. All ranks see the
 * folder, which holds
 *
 *     lock                  locked (flock) by rank 0 of the run that uses the folder
 *     job                   the description of the survey (description.h)
 *     shot-000012.image     the sums of shot 12 (shot_file.h), written by the rank that computed them
 *
 * A run reads the shots that it finds and computes the others.
 */
#ifndef RTM_MPI_KEPT_H
#define RTM_MPI_KEPT_H

#include <mpi.h>

#include "description.h"
#include "shot_file.h"

typedef struct kept_t {
    const char *dir;
    int folder, lock;   /* descriptors; -1: not open */
    int rank;
    uint32_t survey;    /* checksum of the description */
    size_t shots;
    signed char *has;   /* [shots]: 1 if the shot was found complete when the folder was opened */
    size_t count;       /* number of kept shots; on rank 0, after shots_migrate, with those of this run */
} kept_t;

/* What kept_open came to, the same on all ranks. */
enum { KEPT_OPEN = 0, KEPT_FAILED = 1, KEPT_REFUSED = 2 };

/*
 * Opens the folder `dir`, and makes it if it is missing; collective. `d`: the job of this rank and
 * its plan (checkpoint_describe). A run or a rank with another description than that of the kept
 * shots is refused, as is the folder of another kind of run. Every kept shot is read once, each by
 * one rank, into `one`; damaged ones are named on stderr and count as missing. Reasons of a result
 * other than KEPT_OPEN are on stderr. kept_close may follow in any case.
 */
int kept_open(kept_t *k, const char *dir, const description_t *d, size_t shots, image_t *one, MPI_Comm comm);
void kept_close(kept_t *k);
/* Writes a shot durably. Returns whether it is kept: if not, the reason is on stderr, and the run can
 * go on. */
int kept_write(const kept_t *k, size_t shot, const image_t *image);
/* Reads a kept shot. Returns 0, or -1 with the reason on stderr. */
int kept_read(const kept_t *k, size_t shot, image_t *image);

#endif
