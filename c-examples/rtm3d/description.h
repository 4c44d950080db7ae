/* The description of a survey: lines that name everything on which the bits of its image depend. Workers
 * of --claim and runs with --restart compare theirs with that of the files that they find. */
#ifndef RTM_DESCRIPTION_H
#define RTM_DESCRIPTION_H

#include <stdint.h>

#include "job.h"
#include "shot.h"

#define DESCRIPTION_FILE "job"  /* the description of a survey in the folder of its shots */

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

typedef enum description_read_t {
    DESCRIPTION_GOOD,
    DESCRIPTION_MISSING,  /* there is no file, or it cannot be opened: see shot_file_error */
    DESCRIPTION_DAMAGED   /* its checksum is wrong */
} description_read_t;

/* Writes `text` and its checksum, the last line, to DESCRIPTION_FILE of the folder with the descriptor
 * `folder`, unless there is such a file. Returns 0 if there is a file now, or -1 with the reason in errno. */
int description_write(const char *text, int folder);
/* Reads what description_write wrote; `*checksum` becomes its checksum. */
description_read_t description_read(description_t *d, int folder, uint32_t *checksum);

#endif
