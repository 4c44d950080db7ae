/* Seconds of a clock that never goes back. Needs _POSIX_C_SOURCE >= 199309L. */
#ifndef RTM_CLOCK_H
#define RTM_CLOCK_H

#include <time.h>

static inline double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
