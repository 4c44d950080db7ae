/* The statistics of the library by name: one list serves summing and printing. */
#ifndef RTM_STATS_H
#define RTM_STATS_H

#include <gpuzip.h>

#define STATS_COUNTS(X)                                                                            \
    X(forward_steps) X(saves) X(restores) X(backward_steps) X(hits) X(misses) X(prefetches)        \
    X(late_prefetches) X(h2d) X(d2h) X(h2d_bytes) X(d2h_bytes) X(disk_bytes)                       \
    X(write_backs_avoided) X(raw_bytes) X(stored_bytes)
#define STATS_PEAKS(X) X(peak_device_bytes) X(peak_host_bytes)
#define STATS_SECONDS(X)                                                                           \
    X(forward) X(backward) X(save) X(restore) X(compress) X(decompress) X(stall) X(run_ahead_wait)

/* Adds the statistics of one shot: sums of counts and seconds, and the larger of each peak. */
static inline void stats_add(gpuzip_stats_t *total, const gpuzip_stats_t *shot)
{
#define SUM(name) total->name += shot->name;
#define MAX(name) total->name = total->name > shot->name ? total->name : shot->name;
    STATS_COUNTS(SUM)
    STATS_PEAKS(MAX)
    STATS_SECONDS(SUM)
#undef SUM
#undef MAX
}

#endif
