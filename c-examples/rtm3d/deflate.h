/* Writes a zlib stream (RFC 1950, RFC 1951): one block with Huffman codes made for its data,
 * and with repetitions of the byte before and of the row before. */
#ifndef RTM_DEFLATE_H
#define RTM_DEFLATE_H

#include <stddef.h>

/* Compresses `size` bytes in rows of `row` bytes. Returns memory to free(), or NULL: no memory.
 * `*length` becomes the number of bytes of the stream. */
unsigned char *deflate_rows(const unsigned char *data, size_t size, size_t row, size_t *length);

#endif
