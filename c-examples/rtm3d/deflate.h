/* A zlib stream (RFC 1950, RFC 1951): one block of Huffman codes made for its data, with repetitions of the byte and of the row before. */
#ifndef RTM_DEFLATE_H
#define RTM_DEFLATE_H

#include <stddef.h>

/* Compresses `size` bytes, rows of `row` bytes, into memory to free(); NULL: no memory. `*length` becomes the stream's. */
unsigned char *deflate_rows(const unsigned char *data, size_t size, size_t row, size_t *length);

#endif
