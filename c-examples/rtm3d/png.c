/* PNG (ISO/IEC 15948) around a zlib stream (RFC 1950) of stored blocks (RFC 1951, 3.2.4). */
#include "png.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 65535u  /* most that a stored block holds */

static unsigned char *put32(unsigned char *at, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        *at++ = (unsigned char)(value >> shift);
    return at;
}

static uint32_t crc32(const unsigned char *data, size_t size)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static uint32_t adler32(const unsigned char *data, size_t size)
{
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < size; i++) {
        a = (a + data[i]) % 65521u;
        b = (b + a) % 65521u;
    }
    return b << 16 | a;
}

/* Fills in length and checksum around `size` bytes at chunk + 8, and writes it. */
static int write_chunk(FILE *file, unsigned char *chunk, const char *type, size_t size)
{
    put32(chunk, (uint32_t)size);
    memcpy(chunk + 4, type, 4);
    put32(chunk + 8 + size, crc32(chunk + 4, size + 4));
    return fwrite(chunk, 1, size + 12, file) == size + 12 ? 0 : -1;
}

/* zlib header, stored blocks, checksum; returns the end. */
static unsigned char *store(unsigned char *at, const unsigned char *data, size_t size)
{
    *at++ = 0x78;
    *at++ = 0x01;
    for (size_t done = 0; done < size;) {
        const size_t n = size - done < BLOCK ? size - done : BLOCK;
        *at++ = done + n == size;  /* last block? */
        *at++ = (unsigned char)n;
        *at++ = (unsigned char)(n >> 8);
        *at++ = (unsigned char)~n;
        *at++ = (unsigned char)(~n >> 8);
        memcpy(at, data + done, n);
        at += n;
        done += n;
    }
    return put32(at, adler32(data, size));
}

static int write_all(FILE *file, unsigned char *rows, unsigned char *chunk,
                     const unsigned char *pixels, size_t width, size_t height)
{
    static const unsigned char signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    static const unsigned char grey8[5] = {8, 0, 0, 0, 0};  /* depth, grey, deflate, filter, plain */
    const unsigned char *end;

    for (size_t y = 0; y < height; y++) {
        rows[y * (width + 1)] = 0;  /* each row begins with its filter: none */
        memcpy(rows + y * (width + 1) + 1, pixels + y * width, width);
    }
    if (fwrite(signature, 1, sizeof signature, file) != sizeof signature)
        return -1;
    memcpy(put32(put32(chunk + 8, (uint32_t)width), (uint32_t)height), grey8, sizeof grey8);
    if (write_chunk(file, chunk, "IHDR", 13) != 0)
        return -1;
    end = store(chunk + 8, rows, (width + 1) * height);
    if (write_chunk(file, chunk, "IDAT", (size_t)(end - (chunk + 8))) != 0)
        return -1;
    return write_chunk(file, chunk, "IEND", 0);
}

int png_write(const char *path, const unsigned char *pixels, size_t width, size_t height)
{
    const size_t raw = (width + 1) * height, stored = raw + 5 * (raw / BLOCK + 1) + 6;
    unsigned char *rows = malloc(raw), *chunk = malloc(stored + 32);
    FILE *file = fopen(path, "wb");
    int status = rows == NULL || chunk == NULL || file == NULL
                     ? -1 : write_all(file, rows, chunk, pixels, width, height);

    if (file != NULL && fclose(file) != 0)
        status = -1;
    free(rows);
    free(chunk);
    return status;
}
