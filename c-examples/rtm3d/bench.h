/* Speed of the propagator against what the memory of the machine allows. */
#ifndef RTM_BENCH_H
#define RTM_BENCH_H

#include "options.h"

/* Prints a table, or JSON with --json; 0, or -1 with the reason on stderr. */
int bench(const options_t *o);

#endif
