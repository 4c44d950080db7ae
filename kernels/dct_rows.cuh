/*
 * The codec dct: from coefficients and corrections to the bits of tiles, as in
 * src/codec/dct/rows.rs.
 */

/* This thread's part of the bits of its tile. */
template <int S> struct Coded {
    i32 values[EACH]; /* coefficients of the thread's rows */
    u8 modes[Tile<S>::own_rows];
    u32 mode_before;  /* mode of the row before the thread's rows */
    u32 rows;         /* number of rows of the tile that are stored */
    u32 count;        /* number of corrections of the tile */
    /*
     * bits of the tile's four strings (`pack`): of the rows before this thread's rows, and of all
     * rows
     */
    u64 before, all;
    /*
     * bits of the unary strings of the tile's corrections: of distances, and from bit 32 on of
     * magnitudes
     */
    u64 rest_before, rest_all;
};

/* Returns the number of values between correction i and the correction before it. */
static __device__ __forceinline__ u32 distance(const u32 *list, u32 i)
{
    return (list[i] & 0xFFF) - (i > 0 ? (list[i - 1] & 0xFFF) + 1 : 0);
}

/* Computes the range of corrections that this thread writes. */
template <int S> static __device__ __forceinline__ void share(u32 count, u32 *begin, u32 *end)
{
    const u32 threads = Tile<S>::threads, each = (count + threads - 1) / threads;
    *begin = threadIdx.x % threads * each;
    *begin = *begin < count ? *begin : count;
    *end = *begin + each < count ? *begin + each : count;
}

/* ---- Rows ---- */

/* Returns the number whose unary code stands for a change of the mode. */
static __device__ __forceinline__ u32 change(u32 from, u32 to)
{
    const i32 up = (i32)(to - from);
    return (u32)(2 * up ^ up >> 31);
}

/*
 * Chooses the mode of a row as `choose` of src/codec/dct/rows.rs does. A row of zeros gets mode 0;
 * but if rows have 8 coefficients and the mode before is GROUPS or higher, naming no group takes
 * fewer bits than the change to mode 0, and the row gets mode GROUPS. A row whose magnitudes have
 * the sum 1 always gets mode ONE: every other mode takes more bits than a cheaper change of the
 * mode could save.
 */
template <int R> static __device__ __forceinline__ u32 choose(u32 sum, u32 named, u32 before, int first)
{
    if (sum < 2)
        return sum == 1 ? ONE : R == 8 && !first && before >= GROUPS ? GROUPS : 0;
    const u32 guess = 31 - __clz(sum / R | 1);
    u32 least = ~0u;
    if (sum <= R)
        least = (R / 4 + 4 * __popc(named) + sum + (first ? 0 : change(before, GROUPS))) << 5 | GROUPS;
#pragma unroll
    for (u32 i = 0; i < 3; i++) {
        const u32 k = guess + i > 1 ? guess + i - 1 : 0, high = sum >> k;
        const u32 unary = k == 0 ? sum : high > 3 * R / 8 ? high - 3 * R / 8 : 0;
        const u32 offer = (R * (k + 1) + unary + (first ? 0 : change(before, RICE + k))) << 5 | (RICE + k);
        least = offer < least ? offer : least;
    }
    return least & 31;
}

/*
 * Packs the bits of four strings into one word: modes, fixed bits, unary numbers, signs. The number
 * of bits of each string of a tile fits into its part of the word.
 */
static __device__ __forceinline__ u64 pack(u32 modes, u32 fixed, u32 unary, u32 signs)
{
    return modes | (u64)fixed << 16 | (u64)unary << 34 | (u64)signs << 50;
}
static __device__ __forceinline__ u32 mode_bits(u64 v) { return (u32)v & 0xFFFF; }
static __device__ __forceinline__ u32 fixed_bits(u64 v) { return (u32)(v >> 16) & 0x3FFFF; }
static __device__ __forceinline__ u32 unary_bits(u64 v) { return (u32)(v >> 34) & 0xFFFF; }
static __device__ __forceinline__ u32 sign_bits(u64 v) { return (u32)(v >> 50); }

/*
 * Returns the mode of the row before this thread's first row. `out`: the mode of this thread's last
 * row; `some`: this thread has a row that is not zero.
 */
template <int S> static __device__ __forceinline__ u32 mode_before(Shared *s, u32 out, int some)
{
    const u32 threads = Tile<S>::threads, lane = lane_id();
    if (threads > 32) {
        s->modes[threadIdx.x] = (u8)out;
        __syncthreads();
        return threadIdx.x > 0 ? s->modes[threadIdx.x - 1] : 0;
    }
    /*
     * After rows of zeros the mode depends only on the mode of the last row that is not zero, so
     * that one step suffices for any number of threads with rows of zeros.
     */
    const u32 first = lane & ~(threads - 1), before = ((1u << lane) - 1) & ~((1u << first) - 1);
    const u32 nonzero = __ballot_sync(~0u, some) & before, last = nonzero != 0 ? 31 - __clz(nonzero) : lane;
    const u32 mode = __shfl_sync(~0u, out, last);
    return nonzero == 0 ? 0 : last + 1 == lane ? mode : choose<Tile<S>::of_row>(0, 0, mode, 0);
}

/*
 * Chooses the modes of all rows and returns the mode before this thread's rows. Each mode depends
 * on the mode before it. A thread therefore begins with a guess and chooses again until no mode
 * changes: a correct row makes the next row correct, and most modes do not depend on the mode
 * before.
 */
template <int S> static __device__ __forceinline__ u32 choose_modes(Shared *s, const u32 *sums, const u32 *named, Coded<S> *c)
{
    const u32 rows = Tile<S>::own_rows, first = threadIdx.x % Tile<S>::threads * rows;
    u32 before;
    int some = 0, changed;
#pragma unroll
    for (u32 k = 0; k < rows; k++)
        some |= sums[k] != 0;
    u32 out = choose<Tile<S>::of_row>(sums[rows - 1], named[rows - 1], 0, 1);
    do {
        before = mode_before<S>(s, out, some);
        u32 mode = before;
#pragma unroll
        for (u32 k = 0; k < rows; k++) {
            mode = choose<Tile<S>::of_row>(sums[k], named[k], mode, first + k == 0);
            c->modes[k] = (u8)mode;
        }
        changed = mode != out;
        out = mode;
    } while (Tile<S>::threads > 1 && any<S>(changed));
    return before;
}

/*
 * Takes this thread's rows from the coefficients q of its lines, chooses the modes, and counts the
 * bits.
 */
template <int S> static __device__ __forceinline__ void code_rows(Shared *s, const Source *from, const i32 *q, Coded<S> *c)
{
    constexpr u32 R = Tile<S>::of_row, rows = Tile<S>::own_rows;
    const u32 first = threadIdx.x % Tile<S>::threads * rows, origin = at<S>(own_tile<S>() * Tile<S>::values);
#pragma unroll
    for (u32 h = 0; h < Tile<S>::lines; h++)
#pragma unroll
        for (u32 i = 0; i < S; i++)
            s->room[at<S>(line_of<S>(h, DIMS - 1)) + at<S>(i << (DIMS - 1) * Tile<S>::log)] = real_of((bits)(u32)q[h * S + i]);
    sync<S>();
    u32 sums[rows], named[rows], end = 0;
    const uint4 *order = (const uint4 *)(from->order + first * R);
#pragma unroll
    for (u32 j = 0; j < EACH; j += 8) {
        const uint4 eight = order[j / 8];
        const u32 two[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
        for (u32 i = 0; i < 8; i++)
            c->values[j + i] = (i32)bits_of(s->room[origin + (two[i / 2] >> 16 * (i % 2) & 0xFFFF)]);
    }
#pragma unroll
    for (u32 k = 0; k < rows; k++) {
        sums[k] = named[k] = 0;
#pragma unroll
        for (u32 i = 0; i < R; i += 4) {
            const i32 *v = c->values + k * R + i;
            sums[k] += (u32)abs(v[0]) + (u32)abs(v[1]) + (u32)abs(v[2]) + (u32)abs(v[3]);
            named[k] |= (u32)((v[0] | v[1] | v[2] | v[3]) != 0) << i / 4;
        }
        end = sums[k] != 0 ? first + k + 1 : end;
    }
    c->rows = tile_max<S>(end, s->scan);
    u32 before = c->mode_before = choose_modes<S>(s, sums, named, c);
    u64 size = 0;
#pragma unroll
    for (u32 k = 0; k < rows; k++) {
        const u32 mode = c->modes[k];
        u32 unary = mode == GROUPS ? sums[k] + 4 * __popc(named[k]) : mode >= RICE ? R : 0, signs = 0;
#pragma unroll
        for (u32 i = 0; i < R; i++) {
            signs += c->values[k * R + i] != 0;
            unary += mode >= RICE ? (u32)abs(c->values[k * R + i]) >> (mode - RICE) : 0;
        }
        if (first + k < c->rows)
            size += pack(first + k == 0 ? 5 : change(before, mode) + 1, fixed_of<R>(mode), unary, signs);
        before = mode;
    }
    c->before = tile_scan<S>(size, &c->all, s->scan);
}

/* Returns the number of bits before the strings: number of rows and number of corrections. */
template <int S> static __device__ __forceinline__ u32 head_bits(u32 count) { return Tile<S>::row_bits + 2 * (31 - __clz(count + 4)) - 1; }

template <int S> static __device__ __forceinline__ u32 corrections_at(const Coded<S> *c)
{
    return head_bits<S>(c->count) + mode_bits(c->all) + fixed_bits(c->all) + unary_bits(c->all) + sign_bits(c->all);
}

/* Codes the piece as far as its sizes: sets s->bytes and s->raw of the tiles. */
template <int S> static __device__ __forceinline__ void code(Shared *s, const Source *from, Coded<S> *c)
{
    const u32 mine = own_tile<S>();
    if (!gather<S>(s, from)) {
        if (threadIdx.x % Tile<S>::threads == 0)
            s->bytes[mine] = 0;
        c->rows = c->count = 0;
        return;
    }
    i32 q[EACH];
    quantise<S>(s, q);
    c->count = correct<S>(s, from, misses<S>(s, from));
    code_rows<S>(s, from, q, c);
    const u32 *list = s->list + mine * Tile<S>::most, k = distance_bits<S>(c->count);
    u64 rest = 0;
    c->rest_before = c->rest_all = 0;
    if (any<S>(c->count > 0)) {
        u32 i, end;
        for (share<S>(c->count, &i, &end); i < end; i++)
            rest += (distance(list, i) >> k) + 1 + ((u64)((list[i] >> 13) + 1) << 32);
        c->rest_before = tile_scan<S>(rest, &c->rest_all, s->scan);
    }
    const u64 size = (u64)corrections_at<S>(c) + (u64)c->count * (k + 1) + (u32)c->rest_all + (c->rest_all >> 32), bytes = (size + 7) / 8;
    const u32 most = values_inside(&s->places[mine]) * (u32)sizeof(real);
    if (threadIdx.x % Tile<S>::threads == 0) {
        if (bytes >= most && s->places[mine].there)
            s->raw[mine] = 1;
        s->strings[mine] = c->all;
        s->rests[mine] = c->rest_all;
        s->bytes[mine] = s->raw[mine] ? most : c->rows == 0 && c->count == 0 ? 0 : (u32)bytes;
    }
}

/* ---- Bits ---- */

/* Appends bits to a string whose words other threads write, too. */
struct Pen {
    u32 *words;
    u32 used, word;
};

static __device__ __forceinline__ Pen pen_at(u32 *words, u32 at) { return Pen{words + at / 32, at % 32, 0}; }

static __device__ __forceinline__ void flush(Pen *pen)
{
    if (pen->word != 0)
        atomicOr(pen->words, pen->word);
}

/* Appends the lowest `count` < 32 bits of `value`. All higher bits of `value` must be zero. */
static __device__ __forceinline__ void put(Pen *pen, u32 value, u32 count)
{
    const u64 both = (u64)value << pen->used;
    pen->word |= (u32)both;
    pen->used += count;
    if (pen->used >= 32) {
        flush(pen);
        pen->words++;
        pen->used -= 32;
        pen->word = (u32)(both >> 32);
    }
}

/* Appends `zeros` zeros and a one. A full word stays in the pen until the next call. */
static __device__ __forceinline__ void unary(Pen *pen, u32 zeros)
{
    pen->used += zeros;
    if (pen->used >= 32) {
        flush(pen);
        pen->words += pen->used / 32;
        pen->used %= 32;
        pen->word = 0;
    }
    pen->word |= 1u << pen->used++;
}

/* Appends the lowest `count` bits of each of four magnitudes. */
static __device__ __forceinline__ void put_four(Pen *pen, const u32 *a, u32 count)
{
    const u32 mask = (1u << count) - 1;
    if (count < 8)
        return put(pen, (a[0] & mask) | (a[1] & mask) << count | (a[2] & mask) << 2 * count | (a[3] & mask) << 3 * count, 4 * count);
#pragma unroll
    for (u32 j = 0; j < 4; j++)
        put(pen, a[j] & mask, count);
}

/* Writes this thread's rows. `begin`: the first bit of the tile. */
template <int S> static __device__ __forceinline__ void write_rows(Shared *s, const Coded<S> *c, u32 begin)
{
    constexpr u32 R = Tile<S>::of_row;
    const u32 first = threadIdx.x % Tile<S>::threads * Tile<S>::own_rows;
    u32 from = begin + head_bits<S>(c->count), before = c->mode_before;
    Pen modes = pen_at(s->words, from + mode_bits(c->before));
    Pen fixed = pen_at(s->words, (from += mode_bits(c->all)) + fixed_bits(c->before));
    Pen numbers = pen_at(s->words, (from += fixed_bits(c->all)) + unary_bits(c->before));
    Pen signs = pen_at(s->words, (from += unary_bits(c->all)) + sign_bits(c->before));
#pragma unroll
    for (u32 k = 0; k < Tile<S>::own_rows; k++) {
        if (first + k >= c->rows)
            break;
        const u32 mode = c->modes[k];
        if (first + k == 0)
            put(&modes, mode, 5);
        else
            unary(&modes, change(before, mode));
        before = mode;
        u32 named = 0, place = 0, negative = 0, nonzero = 0;
#pragma unroll
        for (u32 i = 0; i < R; i++) {
            const i32 v = c->values[k * R + i];
            named |= (u32)(v != 0) << i / 4;
            place += v != 0 ? i : 0;
            negative |= (u32)(v < 0) << nonzero;
            nonzero += v != 0;
        }
        if (mode == ONE || mode == GROUPS)
            put(&fixed, mode == ONE ? place : named, fixed_of<R>(mode));
        const u32 low = mode >= RICE ? mode - RICE : 0, used = mode >= RICE ? 15 : mode == GROUPS ? named : 0;
#pragma unroll
        for (u32 i = 0; i < R; i += 4) {
            u32 a[4];
#pragma unroll
            for (u32 j = 0; j < 4; j++)
                a[j] = (u32)abs(c->values[k * R + i + j]);
            if (low > 0)
                put_four(&fixed, a, low);
            if (used >> i / 4 & 1) {
#pragma unroll
                for (u32 j = 0; j < 4; j++)
                    unary(&numbers, a[j] >> low);
            }
        }
        put(&signs, negative, nonzero);
    }
    flush(&modes);
    flush(&fixed);
    flush(&numbers);
    flush(&signs);
}

/* Writes this thread's corrections. `begin`: the first bit of the tile's corrections. */
template <int S> static __device__ __forceinline__ void write_corrections(Shared *s, const Coded<S> *c, u32 begin)
{
    const u32 *list = s->list + own_tile<S>() * Tile<S>::most, k = distance_bits<S>(c->count);
    u32 i, end, from = begin;
    share<S>(c->count, &i, &end);
    Pen low = pen_at(s->words, from + i * k);
    Pen rest = pen_at(s->words, (from += c->count * k) + (u32)c->rest_before);
    Pen magnitudes = pen_at(s->words, (from += (u32)c->rest_all) + (u32)(c->rest_before >> 32));
    Pen signs = pen_at(s->words, (from += (u32)(c->rest_all >> 32)) + i);
    for (; i < end; i++) {
        const u32 by = distance(list, i);
        put(&low, by & ((1u << k) - 1), k);
        unary(&rest, by >> k);
        unary(&magnitudes, list[i] >> 13);
        put(&signs, list[i] >> 12 & 1, 1);
    }
    flush(&low);
    flush(&rest);
    flush(&magnitudes);
    flush(&signs);
}

/* Writes the raw tiles of the piece. */
template <int S> static __device__ __forceinline__ void write_raw(Shared *s, const Source *from)
{
    for (u32 i = 0; i < EACH; i++) {
        const u32 b = own(i), tile = b / Tile<S>::values, p = b % Tile<S>::values;
        const Place *place = &s->places[tile];
        if (!s->raw[tile] || !within<S>(place, p))
            continue;
        const bits value = bits_of(inside_value<S>(s, from, i));
        Pen pen = pen_at(s->words, 8 * (s->offsets[tile] + rank_inside<S>(place, p) * (u32)sizeof(real)));
        for (u32 part = 0; part < 2 * sizeof(real); part += 4)
            put(&pen, (u32)(value >> 4 * part) & 0xFFFF, 16);
        flush(&pen);
    }
}

/* Writes the bits of the piece's tiles into s->words, which must be zero. */
template <int S> static __device__ __forceinline__ void write(Shared *s, const Source *from, Coded<S> *c)
{
    const u32 mine = own_tile<S>(), begin = 8 * s->offsets[mine];
    if (!s->raw[mine] && s->bytes[mine] != 0) {
        /*
         * c->all and c->rest_all are read again from shared memory, because registers are scarce
         * between `code` and here.
         */
        c->all = s->strings[mine];
        c->rest_all = s->rests[mine];
        if (threadIdx.x % Tile<S>::threads == 0) {
            const u32 count = c->count + 4, size = 31 - __clz(count);
            Pen pen = pen_at(s->words, begin);
            put(&pen, c->rows, Tile<S>::row_bits);
            unary(&pen, size - 2);
            put(&pen, count & ((1u << size) - 1), size);
            flush(&pen);
        }
        write_rows<S>(s, c, begin);
        if (c->count > 0)
            write_corrections<S>(s, c, begin + corrections_at<S>(c));
    }
    write_raw<S>(s, from);
}
