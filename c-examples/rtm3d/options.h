/* Reads the command line. */
#ifndef RTM_OPTIONS_H
#define RTM_OPTIONS_H

#include <stddef.h>

/* Numbers that the command line does not give are 0, and job.c sets them; strings are then
 * NULL. */
typedef struct options_t {
    const char *model, *init, *config, *out, *dump, *codecs, *claim, *restart;
    size_t n1, n2, n3, steps, shots, every, border, extrude, only;
    double dx, dt, freq, smooth, lease;
    int verify, json, bench, sweep, gradient, taylor, tune, zero_copy, reconstruct, sum, no_wait, help;
} options_t;

/* Returns 0, or -1 with option, value and remedy on stderr. */
int options_parse(options_t *o, int argc, char **argv);
/* Prints to stdout the purpose of the program, `about`, and its options, except those named in
 * `without`, which are separated by blanks. */
void options_help(const char *about, const char *without);

#endif
