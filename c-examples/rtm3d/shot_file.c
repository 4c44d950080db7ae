#define _POSIX_C_SOURCE 200809L
#include "shot_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "new_file.h"

/* The header: 72 bytes without gaps. Lengths are in values of `real`. */
typedef struct head_t {
    char magic[8];
    uint32_t order;       /* ORDER in the byte order of the machine that wrote the file */
    uint32_t real_bytes;  /* bytes of a value */
    uint32_t survey;
    uint32_t payload_crc; /* checksum of all bytes after the header */
    uint64_t shot;
    uint64_t cells;       /* length of the correlation, and of the illumination */
    uint64_t points;      /* length of the gradient; 0: none */
    double misfit;
    uint64_t reserved;    /* 0 */
    uint32_t reserved2;   /* 0 */
    uint32_t head_crc;    /* checksum of the bytes of the header before this member */
} head_t;

#define MAGIC "RTM3DSH1"
#define ORDER 0x01020304u

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
    static uint32_t table[256];  /* the remainder of every byte */
    const unsigned char *at = data;

    if (table[1] == 0)
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t rest = i;
            for (int bit = 0; bit < 8; bit++)
                rest = rest >> 1 ^ (rest & 1 ? 0x82f63b78u : 0);  /* Castagnoli's polynomial, reflected */
            table[i] = rest;
        }
    crc = ~crc;
    for (size_t i = 0; i < bytes; i++)
        crc = table[(crc ^ at[i]) & 0xff] ^ crc >> 8;
    return ~crc;
}

/* The arrays of an image in the order in which they lie in a file. */
typedef struct parts_t {
    real *data[3];
    size_t bytes[3];
} parts_t;

static parts_t parts_of(const image_t *image)
{
    const size_t cells = image->cells * sizeof(real), points = image->gradient != NULL ? image->points * sizeof(real) : 0;
    return (parts_t){{image->correlation, image->illumination, image->gradient}, {cells, cells, points}};
}

static uint32_t crc_of(const parts_t *parts)
{
    uint32_t crc = 0;

    for (int i = 0; i < 3; i++)
        if (parts->bytes[i] > 0)
            crc = crc32c(crc, parts->data[i], parts->bytes[i]);
    return crc;
}

static head_t head_of(shot_key_t key, const image_t *image)
{
    head_t head = {.order = ORDER, .real_bytes = sizeof(real), .survey = key.survey, .shot = key.shot, .cells = image->cells,
                   .points = image->gradient != NULL ? image->points : 0};

    memcpy(head.magic, MAGIC, sizeof head.magic);
    return head;
}

/* The error of shot_file_open if there is something else under the name, a symbolic link included: somebody
 * else may have put the link there. */
#define NOT_REGULAR ELOOP

int shot_file_open(int folder, const char *name)
{
    /* Without O_NONBLOCK the call would wait until somebody writes to a named pipe. */
    const int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat info;

    if (file < 0 || (fstat(file, &info) == 0 && S_ISREG(info.st_mode)))
        return file;
    close(file);
    errno = NOT_REGULAR;
    return -1;
}

const char *shot_file_error(void)
{
    return errno == NOT_REGULAR ? "there is no regular file under this name; remove it" : strerror(errno);
}

/* Writes all bytes, or returns -1. */
static int write_bytes(int file, const void *data, size_t bytes)
{
    const char *at = data;

    while (bytes > 0) {
        const ssize_t n = write(file, at, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        at += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* Reads `bytes` bytes, or fewer if the file ends before. Returns their number, or -1. */
static ssize_t read_bytes(int file, void *data, size_t bytes)
{
    size_t have = 0;

    while (have < bytes) {
        const ssize_t n = read(file, (char *)data + have, bytes - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return (ssize_t)have;
}

static int write_file(int file, const head_t *head, const parts_t *parts)
{
    int status = write_bytes(file, head, sizeof *head);

    for (int i = 0; i < 3 && status == 0; i++)
        status = write_bytes(file, parts->data[i], parts->bytes[i]);
    return status == 0 ? fsync(file) : -1;
}

int shot_file_write(int folder, const char *name, shot_key_t key, const image_t *image, double misfit)
{
    const parts_t parts = parts_of(image);
    head_t head = head_of(key, image);
    char part[PART_NAME];
    const int file = part_create(folder, name, part);
    int status, why;

    if (file < 0)
        return -1;
    head.misfit = misfit;
    head.payload_crc = crc_of(&parts);
    head.head_crc = crc32c(0, &head, offsetof(head_t, head_crc));
    status = write_file(file, &head, &parts);
    why = errno;
    if (close(file) != 0 && status == 0) {
        status = -1;
        why = errno;
    }
    if (status == 0 && renameat(folder, part, folder, name) != 0) {
        status = -1;
        why = errno;
    }
    if (status != 0) {
        unlinkat(folder, part, 0);
        errno = why;
        return -1;
    }
    /* EINVAL: a file system that syncs no folders. */
    return fsync(folder) == 0 || errno == EINVAL ? 0 : -1;
}

/* Returns why the file does not hold the sums that were asked for; NULL: it does. */
static const char *read_file(int file, shot_key_t key, image_t *image, double *misfit)
{
    const parts_t parts = parts_of(image);
    const head_t wanted = head_of(key, image);
    head_t head;
    char more;

    if (read_bytes(file, &head, sizeof head) != (ssize_t)sizeof head)
        return "the file ends within its header";
    if (memcmp(head.magic, MAGIC, sizeof head.magic) != 0 || head.head_crc != crc32c(0, &head, offsetof(head_t, head_crc)))
        return "the checksum of its header is wrong";
    if (head.order != wanted.order || head.real_bytes != wanted.real_bytes || head.survey != wanted.survey || head.shot != wanted.shot ||
        head.cells != wanted.cells || head.points != wanted.points)
        return "it belongs to another shot or survey";
    for (int i = 0; i < 3; i++)
        if (read_bytes(file, parts.data[i], parts.bytes[i]) != (ssize_t)parts.bytes[i])
            return "the file is too short or cannot be read";
    if (read_bytes(file, &more, 1) != 0)
        return "the file is too long";
    if (crc_of(&parts) != head.payload_crc)
        return "its checksum is wrong";
    *misfit = head.misfit;
    return NULL;
}

shot_read_t shot_file_read(int folder, const char *name, shot_key_t key, image_t *image, double *misfit, const char **why)
{
    const int file = shot_file_open(folder, name);

    if (file < 0)
        return errno == ENOENT ? SHOT_MISSING : SHOT_FAILED;
    *why = read_file(file, key, image, misfit);
    close(file);
    return *why == NULL ? SHOT_GOOD : SHOT_DAMAGED;
}
