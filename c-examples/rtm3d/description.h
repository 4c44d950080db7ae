/* The description of a survey: lines that name everything on which the bits of its image depend. Workers
 * of --claim and runs with --restart compare theirs with that of the files that they find. */
#ifndef RTM_DESCRIPTION_H
#define RTM_DESCRIPTION_H

#include "job.h"
#include "shot.h"

typedef struct description_t {
    char text[4096];  /* ends with zeros */
    size_t length;
} description_t;

/* Adds text to the description, as printf. */
void description_add(description_t *d, const char *format, ...);
/* Describes all options that decide the image, the models and what the functions of the C library gave
 * for them. `truth`: the medium in which data are observed. The codec is not included. */
void description_of_job(description_t *d, const job_t *job, const medium_t *truth, const shot_t *shot);
/* Finds the first line in which two descriptions differ; with `is_part` the second one may lack lines at
 * the end. Writes zeros into the texts. Returns whether they differ; `*there` and `*here` are then those
 * lines. */
int description_differs(char *theirs, char *ours, int is_part, const char **there, const char **here);

#endif
