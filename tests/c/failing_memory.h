/* Memory that runs out when a test says so, for libgpuzip's own requests only: what the C library and other libraries ask for themselves
 * is always served. Compiled into a test program, or preloaded. */
#ifndef FAILING_MEMORY_H
#define FAILING_MEMORY_H

enum { FAIL_NEVER, FAIL_ONE, FAIL_FROM }; /* which requests fail */

/* From now on, counted from 1, the library's request number `first` for at least `least` bytes fails (FAIL_ONE), or it and all later ones
 * (FAIL_FROM). A thread counts as much as a request may have. */
void failing_memory_arm(int how, long first, unsigned long least);
/* Counts requests from 1 again; how many have failed stays counted. */
void failing_memory_restart(void);
/* No request fails any more. Returns how many requests the library has made since it was armed. */
long failing_memory_disarm(void);
/* Requests that failed since it was armed. */
long failing_memory_failed(void);
/* Blocks and mappings that the library has and has not given back. */
long failing_memory_live(void);
/* Bytes that the blocks of at most 128 KiB have taken since it was armed, at most, in pieces of 256 bytes. */
long failing_memory_peak(void);

#endif
