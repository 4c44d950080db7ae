/*
 * The sums of one shot in a file, in this machine's byte order: a header, then the correlation, the
 * illumination and, if there is one, the gradient. A file appears under its name complete or not at
 * all, and a reader notices every change of its bytes.
 */
#ifndef RTM_SHOT_FILE_H
#define RTM_SHOT_FILE_H

#include <stdint.h>

#include "shot.h"

/* CRC-32C of `bytes` bytes, continued from `crc`, the value for the bytes before; 0 for none. */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);

/* What a file belongs to. */
typedef struct shot_key_t {
    uint32_t survey;  /* checksum of the survey's description */
    uint64_t shot;    /* number of the shot, from 0; the number of shots stands for their sum */
} shot_key_t;

typedef enum shot_read_t {
    SHOT_GOOD,
    SHOT_MISSING,  /* no file of this name */
    SHOT_DAMAGED,  /* `why` is the reason */
    SHOT_FAILED    /* the file could not be opened: see shot_file_error */
} shot_read_t;

/* Opens a file of the folder with the descriptor `folder` for reading, without waiting. Returns its
 * descriptor, or -1: shot_file_error then tells why, for instance that it is a named pipe or a folder. */
int shot_file_open(int folder, const char *name);
/* The reason of the last failure of shot_file_open, which is in errno. */
const char *shot_file_error(void);
/* Writes the sums of `image` and the misfit to a new file (part_create) of the folder with the
 * descriptor `folder`, syncs the file, renames it to `name`, replacing an older file, and syncs the
 * folder. Returns 0, or -1 with the reason in errno; the new file is then removed. */
int shot_file_write(int folder, const char *name, shot_key_t key, const image_t *image, double misfit);
/* Reads what shot_file_write wrote into `image` and `misfit`, which hold anything unless the result
 * is SHOT_GOOD. */
shot_read_t shot_file_read(int folder, const char *name, shot_key_t key, image_t *image, double *misfit, const char **why);

#endif
