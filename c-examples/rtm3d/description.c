#define _POSIX_C_SOURCE 200809L
#include "description.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "new_file.h"
#include "shot_file.h"

void description_add(description_t *d, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(d->text + d->length, sizeof d->text - d->length, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < sizeof d->text - d->length)
        d->length += (size_t)n;
}

/* Checksum of the numbers that functions of the C library gave: those of two machines may differ in
 * their last bits, and then the images of these machines do. */
static uint32_t crc_of_functions(const medium_t *truth, const shot_t *shot)
{
    const survey_t *s = shot->survey;
    const medium_t *medium[2] = {truth, shot->medium};
    uint32_t crc = crc32c(0, s->wavelet, s->steps * sizeof *s->wavelet);

    for (int i = 0; i < 2; i++) {
        const grid_t *g = &medium[i]->grid;
        crc = crc32c(crc, medium[i]->scale, g->points * sizeof(real));
        crc = crc32c(crc, medium[i]->damp1, g->e1 * sizeof(real));
        crc = crc32c(crc, medium[i]->damp2, g->e2 * sizeof(real));
        crc = crc32c(crc, medium[i]->damp3, g->e3 * sizeof(real));
    }
    return crc;
}

void description_of_job(description_t *d, const job_t *job, const medium_t *truth, const shot_t *shot)
{
    const grid_t *g = &job->grid;
    const size_t bytes = g->n1 * g->n2 * g->n3 * sizeof(float);

    memset(d, 0, sizeof *d);
    description_add(d, "rtm3d-survey 1\nvalues of %zu bytes\n", sizeof(real));
    description_add(d, "--n1 %zu\n--n2 %zu\n--n3 %zu\n--dx %.17g\n--border %zu\n", g->n1, g->n2, g->n3, g->dx, g->border);
    description_add(d, "--steps %zu\n--dt %.17g\n--freq %.17g\n--shots %zu\n--every %zu\n", job->steps, job->dt, job->freq, job->shots,
                    job->every);
    description_add(d, "%s\n", job->gradient ? "--gradient" : "no --gradient");
    description_add(d, "true model %08" PRIx32 " (--model, --extrude)\n", crc32c(0, job->model, bytes));
    description_add(d, "smooth model %08" PRIx32 " (--init, --smooth)\n", crc32c(0, job->smooth, bytes));
    description_add(d, "functions of the C library %08" PRIx32 " (another machine gives other bits)\n", crc_of_functions(truth, shot));
}

/* The next line of a text, without its end; NULL: none is left. */
static char *next_line(char **text)
{
    char *line = *text, *end = strchr(line, '\n');

    if (end == NULL)
        return NULL;
    *end = '\0';
    *text = end + 1;
    return line;
}

int description_differs(char *theirs, char *ours, int is_part, const char **there, const char **here)
{
    for (;;) {
        const char *const a = next_line(&theirs), *const b = next_line(&ours);
        if (b == NULL && (a == NULL || is_part))
            return 0;
        *there = a != NULL ? a : "fewer properties";
        *here = b != NULL ? b : "fewer properties";
        if (a == NULL || b == NULL || strcmp(a, b) != 0)
            return 1;
    }
}

int description_write(const char *text, int folder)
{
    description_t whole;
    const int n = snprintf(whole.text, sizeof whole.text, "%schecksum %08" PRIx32 "\n", text, crc32c(0, text, strlen(text)));
    char part[PART_NAME];
    int file, status = -1, why;

    if ((size_t)n >= sizeof whole.text) {
        errno = EFBIG;
        return -1;
    }
    if ((file = part_create(folder, DESCRIPTION_FILE, part)) < 0)
        return -1;
    if (write(file, whole.text, (size_t)n) == n && fsync(file) == 0 &&
        (linkat(folder, part, folder, DESCRIPTION_FILE, 0) == 0 || errno == EEXIST))
        status = 0;
    why = errno;
    /* A worker that finished the survey meanwhile may have swept the part away. */
    if (status != 0 && faccessat(folder, DESCRIPTION_FILE, F_OK, 0) == 0)
        status = 0;
    close(file);
    unlinkat(folder, part, 0);
    errno = why;
    return status;
}

description_read_t description_read(description_t *d, int folder, uint32_t *checksum)
{
    const int file = shot_file_open(folder, DESCRIPTION_FILE);
    ssize_t n;
    char *sum;

    memset(d, 0, sizeof *d);
    if (file < 0)
        return DESCRIPTION_MISSING;
    n = pread(file, d->text, sizeof d->text - 1, 0);
    close(file);
    if (n < 0)
        return DESCRIPTION_MISSING;
    sum = strstr(d->text, "checksum ");
    if (sum == NULL || sscanf(sum, "checksum %" SCNx32, checksum) != 1 || *checksum != crc32c(0, d->text, (size_t)(sum - d->text)))
        return DESCRIPTION_DAMAGED;
    *sum = '\0';
    d->length = (size_t)(sum - d->text);
    return DESCRIPTION_GOOD;
}
