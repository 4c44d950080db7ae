/* Replaces malloc, mmap, pthread_create and their kin, so that libgpuzip's requests for memory and
 * threads fail when a test says so. Requests of the program, the C library and other libraries
 * never fail here. The file is compiled into a test program, or preloaded. */
#ifndef FAILING_MEMORY_H
#define FAILING_MEMORY_H

enum { FAIL_NEVER, FAIL_ONE, FAIL_FROM }; /* which requests fail */

/* Counts the library's requests for at least `least` bytes from 1. Request number `first` fails
 * (FAIL_ONE), or `first` and all later requests (FAIL_FROM). The start of a thread is a request,
 * too, whatever `least` is. */
void failing_memory_arm(int how, long first, unsigned long least);
/* Counts requests from 1 again. The count of failed requests goes on. */
void failing_memory_restart(void);
/* Lets all requests succeed from now on. Returns the number of requests for at least `least` bytes
 * since failing_memory_arm or failing_memory_restart. */
long failing_memory_disarm(void);
/* Returns the number of requests that failed since failing_memory_arm. */
long failing_memory_failed(void);
/* Returns the number of requests that have ever failed. */
long failing_memory_failed_ever(void);
/* Returns the number of blocks and mappings that the library holds. */
long failing_memory_live(void);
/* Returns the largest sum, since failing_memory_arm, of the bytes in the library's live blocks of
 * at most 128 KiB, each rounded up to a multiple of 256 bytes. */
long failing_memory_peak(void);

#endif
