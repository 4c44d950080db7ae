#define _POSIX_C_SOURCE 200809L
#include "new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_TRIED 16  /* the names are random: that so many of them are taken is no accident */

/* 64 random bits of the system. Returns 0, or -1 with the reason in errno. */
static int draw(uint64_t *bits)
{
    const int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (file < 0)
        return -1;
    n = read(file, bits, sizeof *bits);
    close(file);
    if (n == (ssize_t)sizeof *bits)
        return 0;
    if (n >= 0)
        errno = EIO;
    return -1;
}

int part_create(int folder, const char *name, char part[PART_NAME])
{
    int file = -1;

    for (int i = 0; file < 0 && i < NAMES_TRIED; i++) {
        uint64_t bits;
        if (draw(&bits) != 0)
            return -1;
        snprintf(part, PART_NAME, "%s.%016" PRIx64 ".part", name, bits);
        file = openat(folder, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file < 0 && errno != EEXIST)
            break;
    }
    return file;
}

FILE *new_file(const char *path)
{
    /* The file is emptied only when it is known to be one that nobody has under another name. */
    const int file = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    struct stat info;
    FILE *stream = NULL;
    int why;

    if (file < 0)
        return NULL;
    if (fstat(file, &info) == 0) {
        errno = EMLINK;
        if (S_ISREG(info.st_mode) && info.st_nlink == 1 && ftruncate(file, 0) == 0)
            stream = fdopen(file, "wb");
    }
    if (stream == NULL) {
        why = errno;
        close(file);
        errno = why;
    }
    return stream;
}
