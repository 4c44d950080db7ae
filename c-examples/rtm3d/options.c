#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"

enum kind { FLAG, TEXT, COUNT, NUMBER };

/* One row for each option; parsing, checking and --help read this table. */
static const struct option {
    const char *name;
    enum kind kind;
    size_t offset;    /* position of the member in options_t, in bytes */
    double min, max;  /* smallest and largest value */
    const char *help;
} OPTIONS[] = {
    {"--model", TEXT, offsetof(options_t, model), 0, 0,
     "velocities in m/s: raw little-endian FP32, depth fastest (default: a salt dome)"},
    {"--init", TEXT, offsetof(options_t, init), 0, 0,
     "smooth model of the same size to migrate in (default: the model, smoothed)"},
    {"--smooth", NUMBER, offsetof(options_t, smooth), 0.1, 1000,
     "cells of the Gaussian that smooths slowness (default 3)"},
    {"--n1", COUNT, offsetof(options_t, n1), 8, 1e6, "cells in depth (built-in model: 64)"},
    {"--n2", COUNT, offsetof(options_t, n2), 8, 1e6,
     "cells across; the horizontal axis in 2-D (built-in model: 48)"},
    {"--n3", COUNT, offsetof(options_t, n3), 1, 1e6,
     "cells along; 1 is 2-D (default 1; built-in model: 96)"},
    {"--extrude", COUNT, offsetof(options_t, extrude), 2, 1e6,
     "repeat a 2-D model this many times along n3"},
    {"--dx", NUMBER, offsetof(options_t, dx), 1e-6, 1e6, "spacing in metres (default 25)"},
    {"--border", COUNT, offsetof(options_t, border), 4, 1000,
     "sponge cells on every side (default 24 in 2-D, 16 in 3-D)"},
    {"--dt", NUMBER, offsetof(options_t, dt), 1e-9, 1e3,
     "time step in seconds (default 0.9 of the largest stable one)"},
    {"--steps", COUNT, offsetof(options_t, steps), 2, 2147483647.0,
     "time steps (default: enough for waves to go down to the bottom and come back)"},
    {"--freq", NUMBER, offsetof(options_t, freq), 1e-6, 1e6,
     "peak frequency in Hz (default: 8 points per shortest wavelength)"},
    {"--shots", COUNT, offsetof(options_t, shots), 1, 1e6, "sources along the line (default 8)"},
    {"--every", COUNT, offsetof(options_t, every), 1, 2147483647.0,
     "correlate every k-th state only, which needs fewer snapshots and forward steps (default 1)"},
    {"--config", TEXT, offsetof(options_t, config), 0, 0,
     "gpuzip configuration file; GPUZIP_* environment variables override it"},
    {"--out", TEXT, offsetof(options_t, out), 0, 0, "folder for the images (default rtm3d-out)"},
    {"--dump-snapshots", TEXT, offsetof(options_t, dump), 0, 0,
     "only run forward and write the first shot's states at these steps (T1,T2,...) to --out"},
    {"--sweep", FLAG, offsetof(options_t, sweep), 0, 0,
     "one migration per codec setting: ratio, time, and the image against that of raw snapshots"},
    {"--codecs", TEXT, offsetof(options_t, codecs), 0, 0,
     "settings of --sweep, such as none,dct:1e-3,dct:1e-3:unpaired,lorenzo:psnr:80,zfp:8"},
    {"--verify", FLAG, offsetof(options_t, verify), 0, 0,
     "also keep every state in memory and demand the same image, bit for bit"},
    {"--gradient", FLAG, offsetof(options_t, gradient), 0, 0,
     "also the misfit of the data and its gradient with respect to 1/v^2 at the smooth model"},
    {"--taylor", FLAG, offsetof(options_t, taylor), 0, 0,
     "with --gradient: test it by six more modellings of each shot; it passes if remainders are of second order"},
    {"--tune", FLAG, offsetof(options_t, tune), 0, 0,
     "measure steps, copies and codecs in the first shot, and plan the others by that"},
    {"--zero-copy", FLAG, offsetof(options_t, zero_copy), 0, 0,
     "compute in the library's memory, so that saving and retrieving copy nothing (key zero_copy)"},
    {"--reconstruct", FLAG, offsetof(options_t, reconstruct), 0, 0,
     "keep the cells beside the model of every state, and compute the states backward in place of recomputing them"},
    {"--claim", TEXT, offsetof(options_t, claim), 0, 0,
     "take shots from this folder, which any number of workers share, and add them up when all are done"},
    {"--lease", NUMBER, offsetof(options_t, lease), 1, 1e9,
     "with --claim: seconds without a sign of life after which another worker takes this one's shot over (default 120)"},
    {"--no-wait", FLAG, offsetof(options_t, no_wait), 0, 0,
     "with --claim: end when other workers have all shots that are left, instead of waiting for them"},
    {"--only", COUNT, offsetof(options_t, only), 1, 1e6,
     "with --claim: compute this shot, counted from 1, unless it is committed; no other one, and no sum"},
    {"--sum", FLAG, offsetof(options_t, sum), 0, 0,
     "with --claim: compute no shot; add up the committed ones and write the image (again)"},
    {"--restart", TEXT, offsetof(options_t, restart), 0, 0,
     "write restart files to this folder, and go on from them if there are any; SIGTERM and SIGUSR1 stop the run"},
    {"--json", FLAG, offsetof(options_t, json), 0, 0, "one JSON object on stdout, nothing else"},
    {"--bench", FLAG, offsetof(options_t, bench), 0, 0,
     "time the propagator alone (148^3 points unless --n1 --n2 --n3)"},
    {"--help", FLAG, offsetof(options_t, help), 0, 0, "this text"},
};
#define OPTION_COUNT (sizeof OPTIONS / sizeof *OPTIONS)

/* Whether `name` is a word of `list`. */
static int listed(const char *list, const char *name)
{
    const size_t length = strlen(name);

    for (const char *at = strstr(list, name); at != NULL; at = strstr(at + 1, name))
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return 1;
    return 0;
}

void options_help(const char *about, const char *without)
{
    printf(RTM_PROGRAM ": %s\nusage: " RTM_PROGRAM " [--option value]...\n\n", about);
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (!listed(without, OPTIONS[i].name))
            printf("  %-16s %s\n", OPTIONS[i].name, OPTIONS[i].help);
    puts("\nexit code: 0 done; 1 failed, or what --verify or --taylor compared is not the same; 2 bad options or model;\n"
         "           3 stopped on request, to be continued with --restart");
}

/* Finds the option named `arg`, up to a '=' in `arg`. */
static const struct option *find(const char *arg)
{
    const size_t length = strcspn(arg, "=");
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strlen(OPTIONS[i].name) == length && strncmp(OPTIONS[i].name, arg, length) == 0)
            return &OPTIONS[i];
    return NULL;
}

static int set_number(options_t *o, const struct option *option, const char *text)
{
    void *field = (char *)o + option->offset;
    char *end;
    double value;

    errno = 0;
    value = strtod(text, &end);
    if (end == text || *end != '\0' || errno == ERANGE || !isfinite(value))
        return complain("%s %s: not a number; it wants one from %g to %.10g", option->name, text,
                        option->min, option->max);
    if (option->kind == COUNT && value != floor(value))
        return complain("%s %s: not a whole number; it wants one from %g to %.10g", option->name,
                        text, option->min, option->max);
    if (value < option->min || value > option->max)
        return complain("%s %s: out of range; it wants a number from %g to %.10g", option->name,
                        text, option->min, option->max);
    if (option->kind == COUNT)
        *(size_t *)field = (size_t)value;
    else
        *(double *)field = value;
    return 0;
}

int options_parse(options_t *o, int argc, char **argv)
{
    memset(o, 0, sizeof *o);
    for (int i = 1; i < argc; i++) {
        const struct option *option = find(argv[i]);
        const char *value = strchr(argv[i], '=');

        if (option == NULL)
            return complain("%s: no such option; see --help", argv[i]);
        if (option->kind == FLAG) {
            if (value != NULL)
                return complain("%s: takes no value; write %s", argv[i], option->name);
            *(int *)((char *)o + option->offset) = 1;
            continue;
        }
        if (value != NULL)
            value++;
        else if (i + 1 < argc)
            value = argv[++i];
        if (value == NULL || *value == '\0')
            return complain("%s: needs a value; see --help", option->name);
        if (option->kind == TEXT)
            *(const char **)((char *)o + option->offset) = value;
        else if (set_number(o, option, value) != 0)
            return -1;
    }
    return 0;
}
