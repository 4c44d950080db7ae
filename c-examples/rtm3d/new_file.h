/* Files in folders to which other users may write. Whoever can write to a folder can put a symbolic
 * link, or a hard link to a file of somebody else, under any name that can be guessed: a program that
 * wrote through such a link would overwrite that file. */
#ifndef RTM_NEW_FILE_H
#define RTM_NEW_FILE_H

#include <stdio.h>

#define PART_NAME 128  /* bytes of the longest name of an unfinished file, with its final zero */

/* Creates the unfinished file of `name` in the folder with the descriptor `folder`, for writing, under
 * the new name NAME.XXXXXXXXXXXXXXXX.part with 16 random hexadecimal digits, which becomes `part`.
 * Returns its descriptor, or -1 with the reason in errno. */
int part_create(int folder, const char *name, char part[PART_NAME]);
/* Opens the file `path` of results for writing, and empties an older one. Fails, with the reason in
 * errno, if `path` is a symbolic link, has a second name (a hard link) or is no regular file. */
FILE *new_file(const char *path);

#endif
