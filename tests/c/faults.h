/* What faults.c offers a program that it is compiled into. */
#ifndef FAULTS_H
#define FAULTS_H

#include <stdint.h>

/* Makes `share` of 1000 calls for files below the current folder fail from now on, each in a way in
 * which a process goes on; 0 ends this. The faults follow from `seed` and the sequence of calls,
 * and hit all threads. The first call of this function decides which folder is meant: files that were
 * opened before never fail. */
void file_faults(long share, uint64_t seed);
/* Returns the number of faults that were made so far. */
long file_faults_made(void);

#endif
