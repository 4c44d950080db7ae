#include "deflate.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LITERALS = 286, DISTANCES = 30, ORDERS = 19, END = 256, LEAST = 3, MOST = 258, REACH = 32768, DEEPEST = 15 };

/* A Huffman code: for each symbol the number of bits (0 if the symbol does not occur) and the
 * bits, with the first bit lowest. */
typedef struct code_t {
    uint8_t length[LITERALS];
    uint16_t bits[LITERALS];
} code_t;

typedef struct writer_t {
    unsigned char *at;
    uint64_t held;  /* bits that are not yet written */
    int count;
} writer_t;

static void put(writer_t *w, uint32_t bits, int count)
{
    w->held |= (uint64_t)bits << w->count;
    for (w->count += count; w->count >= 8; w->count -= 8) {
        *w->at++ = (unsigned char)w->held;
        w->held >>= 8;
    }
}

/* Computes the depth of each symbol in the Huffman tree, which joins the two rarest nodes until
 * one is left. Returns the greatest depth. */
static int tree_depths(const size_t *frequency, size_t symbols, uint8_t *depth)
{
    size_t weight[2 * LITERALS], parent[2 * LITERALS] = {0}, nodes = symbols;
    int deepest = 0;

    memcpy(weight, frequency, symbols * sizeof *weight);
    for (;;) {
        size_t rarest[2] = {SIZE_MAX, SIZE_MAX};
        for (size_t i = 0; i < nodes; i++) {
            if (weight[i] == 0)
                continue;
            if (rarest[0] == SIZE_MAX || weight[i] < weight[rarest[0]]) {
                rarest[1] = rarest[0];
                rarest[0] = i;
            } else if (rarest[1] == SIZE_MAX || weight[i] < weight[rarest[1]]) {
                rarest[1] = i;
            }
        }
        if (rarest[1] == SIZE_MAX)
            break;
        parent[rarest[0]] = parent[rarest[1]] = nodes;
        weight[nodes++] = weight[rarest[0]] + weight[rarest[1]];
        weight[rarest[0]] = weight[rarest[1]] = 0;  /* joined */
    }
    for (size_t i = 0; i < symbols; i++) {
        int levels = 0;
        for (size_t node = i; frequency[i] > 0 && node != nodes - 1; node = parent[node])
            levels++;
        depth[i] = (uint8_t)levels;
        deepest = levels > deepest ? levels : deepest;
    }
    return deepest;
}

/* Makes the code of these frequencies with at most `limit` bits per symbol: raises the
 * frequencies of rare symbols until this holds. */
static void make_code(code_t *code, size_t *frequency, size_t symbols, int limit)
{
    uint16_t next = 0;
    int used = 0;

    memset(code, 0, sizeof *code);
    for (size_t i = 0; i < symbols; i++)
        used += frequency[i] > 0;
    for (size_t i = 0; used < 2; i++)  /* a code needs at least two symbols */
        if (frequency[i] == 0)
            frequency[i] = 1, used++;
    while (tree_depths(frequency, symbols, code->length) > limit)
        for (size_t i = 0; i < symbols; i++)
            frequency[i] = frequency[i] > 0 ? frequency[i] / 2 + 1 : 0;
    for (int length = 1; length <= limit; length++, next = (uint16_t)(next << 1))
        for (size_t i = 0; i < symbols; i++) {
            if (code->length[i] != length)
                continue;
            for (int bit = 0; bit < length; bit++)
                code->bits[i] |= (uint16_t)((next >> bit & 1) << (length - 1 - bit));
            next++;
        }
}

static void put_symbol(writer_t *w, const code_t *code, size_t symbol)
{
    put(w, code->bits[symbol], code->length[symbol]);
}

/* The symbol of a length or distance and the bits of the rest: the width of a symbol's interval
 * doubles every `period` symbols. */
typedef struct split_t {
    size_t symbol;
    uint32_t rest;
    int bits;
} split_t;

static split_t split(size_t value, int period)
{
    size_t from = 0, symbol = 0;
    int bits = 0;

    for (;; symbol++) {
        const int group = (int)symbol / period;
        bits = group > 1 ? group - 1 : 0;
        if (value < from + ((size_t)1 << bits))
            break;
        from += (size_t)1 << bits;
    }
    return (split_t){symbol, (uint32_t)(value - from), bits};
}

static split_t split_length(size_t length)
{
    split_t s = split(length - LEAST, 4);
    if (length == MOST)
        s = (split_t){28, 0, 0};
    s.symbol += END + 1;
    return s;
}

/* Number of bytes from `at` on that equal the bytes `distance` before them. */
static size_t repeated(const unsigned char *data, size_t at, size_t size, size_t distance)
{
    size_t n = 0;
    if (distance > at || distance > REACH)
        return 0;
    while (n < MOST && at + n < size && data[at + n] == data[at + n - distance])
        n++;
    return n;
}

/* Passes over the data and counts symbols; with a writer, writes them. */
static void walk(const unsigned char *data, size_t size, size_t row, size_t *literals, size_t *distances, writer_t *w, const code_t *code)
{
    for (size_t at = 0; at < size;) {
        const size_t before = repeated(data, at, size, 1), above = repeated(data, at, size, row);
        const size_t length = above > before ? above : before;
        if (length < LEAST) {
            if (w != NULL)
                put_symbol(w, &code[0], data[at]);
            else
                literals[data[at]]++;
            at++;
            continue;
        }
        const split_t l = split_length(length), d = split((above > before ? row : 1) - 1, 2);
        if (w != NULL) {
            put_symbol(w, &code[0], l.symbol);
            put(w, l.rest, l.bits);
            put_symbol(w, &code[1], d.symbol);
            put(w, d.rest, d.bits);
        } else {
            literals[l.symbol]++;
            distances[d.symbol]++;
        }
        at += length;
    }
}

/* Writes the bit lengths of both codes, themselves in a Huffman code. */
static void put_codes(writer_t *w, const code_t *code)
{
    static const unsigned char order[ORDERS] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    size_t frequency[ORDERS] = {0};
    code_t lengths;

    for (size_t i = 0; i < LITERALS; i++)
        frequency[code[0].length[i]]++;
    for (size_t i = 0; i < DISTANCES; i++)
        frequency[code[1].length[i]]++;
    make_code(&lengths, frequency, ORDERS, 7);
    put(w, LITERALS - 257, 5);
    put(w, DISTANCES - 1, 5);
    put(w, ORDERS - 4, 4);
    for (size_t i = 0; i < ORDERS; i++)
        put(w, lengths.length[order[i]], 3);
    for (size_t i = 0; i < LITERALS; i++)
        put_symbol(w, &lengths, code[0].length[i]);
    for (size_t i = 0; i < DISTANCES; i++)
        put_symbol(w, &lengths, code[1].length[i]);
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

unsigned char *deflate_rows(const unsigned char *data, size_t size, size_t row, size_t *length)
{
    /* No symbol is longer than DEEPEST bits, and no repetition is longer than the bytes it
     * stands for. */
    unsigned char *stream = malloc(2 * size + 1024);
    size_t literals[LITERALS] = {0}, distances[DISTANCES] = {0};
    const uint32_t sum = adler32(data, size);
    code_t code[2];
    writer_t w = {.at = stream};

    if (stream == NULL)
        return NULL;
    walk(data, size, row, literals, distances, NULL, NULL);
    literals[END] = 1;
    make_code(&code[0], literals, LITERALS, DEEPEST);
    make_code(&code[1], distances, DISTANCES, DEEPEST);
    put(&w, 0x0178, 16);  /* zlib: deflate, 32 KiB */
    put(&w, 5, 3);        /* the last block, with its own codes */
    put_codes(&w, code);
    walk(data, size, row, NULL, NULL, &w, code);
    put_symbol(&w, &code[0], END);
    put(&w, 0, (8 - w.count) % 8);
    for (int shift = 24; shift >= 0; shift -= 8)
        put(&w, sum >> shift & 0xff, 8);
    *length = (size_t)(w.at - stream);
    return stream;
}
