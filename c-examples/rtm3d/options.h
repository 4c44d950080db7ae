/* The command line. */
#ifndef RTM_OPTIONS_H
#define RTM_OPTIONS_H

#include <stddef.h>

/* Numbers are 0 where the command line leaves them to job.c; strings are NULL. */
typedef struct options_t {
    const char *model, *init, *config, *out, *dump, *codecs;
    size_t n1, n2, n3, steps, shots, border, extrude;
    double dx, dt, freq, smooth;
    int verify, json, bench, sweep, gradient, taylor, tune, help;
} options_t;

/* 0, or -1 with option, value and remedy on stderr. */
int options_parse(options_t *o, int argc, char **argv);
/* Prints to stdout what the program does, `about`, and its options: all but those named in `without`, between blanks. */
void options_help(const char *about, const char *without);

#endif
