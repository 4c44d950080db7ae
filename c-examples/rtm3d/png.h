/* A small PNG writer: 8-bit grey, compressed. */
#ifndef RTM_PNG_H
#define RTM_PNG_H

#include <stddef.h>

/* Writes width x height pixels, row by row from the top left. Returns 0 or -1. */
int png_write(const char *path, const unsigned char *pixels, size_t width, size_t height);

#endif
