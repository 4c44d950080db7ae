/* Writes PNG (ISO/IEC 15948): 8-bit grey, each row stored as its difference from the row above,
 * deflated. */
#include "png.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deflate.h"
#include "new_file.h"

#define UP 2  /* the filter that subtracts the row above */

static unsigned char *put32(unsigned char *at, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        *at++ = (unsigned char)(value >> shift);
    return at;
}

/* CRC-32 of `data`, continued from `crc`, which begins with all bits set. */
static uint32_t crc32(uint32_t crc, const unsigned char *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return crc;
}

static int write_chunk(FILE *file, const char *type, const unsigned char *data, size_t size)
{
    unsigned char head[8], tail[4];

    memcpy(put32(head, (uint32_t)size), type, 4);
    put32(tail, ~crc32(crc32(0xffffffffu, head + 4, 4), data, size));
    return fwrite(head, 1, 8, file) == 8 && fwrite(data, 1, size, file) == size && fwrite(tail, 1, 4, file) == 4 ? 0 : -1;
}

/* Returns the rows, each preceded by its filter number; NULL: no memory. */
static unsigned char *filter(const unsigned char *pixels, size_t width, size_t height)
{
    unsigned char *rows = malloc((width + 1) * height);

    for (size_t y = 0; rows != NULL && y < height; y++) {
        unsigned char *row = rows + y * (width + 1);
        *row++ = UP;
        for (size_t x = 0; x < width; x++)
            row[x] = (unsigned char)(pixels[y * width + x] - (y > 0 ? pixels[(y - 1) * width + x] : 0));
    }
    return rows;
}

static int write_all(FILE *file, const unsigned char *stream, size_t length, size_t width, size_t height)
{
    static const unsigned char signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    /* Bit depth 8, colour type grey, compression deflate, filter method 0, not interlaced. */
    static const unsigned char grey8[5] = {8, 0, 0, 0, 0};
    unsigned char header[13];

    memcpy(put32(put32(header, (uint32_t)width), (uint32_t)height), grey8, sizeof grey8);
    if (fwrite(signature, 1, sizeof signature, file) != sizeof signature || write_chunk(file, "IHDR", header, sizeof header) != 0 ||
        write_chunk(file, "IDAT", stream, length) != 0)
        return -1;
    return write_chunk(file, "IEND", signature, 0);
}

int png_write(const char *path, const unsigned char *pixels, size_t width, size_t height)
{
    unsigned char *rows = filter(pixels, width, height), *stream = NULL;
    size_t length = 0;
    FILE *file = new_file(path);
    int status = -1;

    if (rows != NULL)
        stream = deflate_rows(rows, (width + 1) * height, width + 1, &length);
    if (file != NULL && stream != NULL)
        status = write_all(file, stream, length, width, height);
    if (file != NULL && fclose(file) != 0)
        status = -1;
    free(stream);
    free(rows);
    return status;
}
