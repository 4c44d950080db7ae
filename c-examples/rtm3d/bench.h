/* Compares the speed of the propagator with the memory bandwidth of the machine. */
#ifndef RTM_BENCH_H
#define RTM_BENCH_H

#include "options.h"

/* Prints a table, or JSON with --json. Returns 0, or -1 with the reason on stderr. */
int bench(const options_t *o);

#endif
