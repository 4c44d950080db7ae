/*
 * The codec dct, decompressing: first where the tiles are, then their values. The lengths of
 * strings are checked as they are read: whatever the payload says, nothing beyond its end is read.
 */

/* ---- Directory ---- */

#define OPENERS 256
/* Number of tiles of a thread and of a block. */
#define TILES 4
#define PORTION (TILES * OPENERS)
/* Marks the position of a raw tile. */
#define AS_IT_IS (1ull << 63)

/* Data that blocks exchange; zero at first. */
struct Control {
    u64 ticket;
    u64 begin; /* first byte of the tiles */
};

/* Returns 32 bits from bit `at` on; behind the last word the bits are zero. */
static __device__ __forceinline__ u32 bits_at(const u32 *words, u64 count, u64 at)
{
    const u64 w = at / 32;
    const u32 low = w < count ? words[w] : 0, high = w + 1 < count ? words[w + 1] : 0;
    return __funnelshift_r(low, high, (u32)at & 31);
}

/* Returns the number of the payload's tiling, or -1 if the header is invalid. */
static __device__ __forceinline__ int side_of(const Tables *tables, const Job *job)
{
    const u64 *head = (const u64 *)job->payload;
    if (job->bytes < HEAD)
        return -1;
    const u32 side = (u32)head[0] & 0xFF, width = (u32)head[0] >> 8 & 0xFF, large = side == LARGE;
    const double step = double_of(head[1]), unit = double_of(head[2]), most = 1.7976931348623157e308;
    if ((!large && side != SMALL) || head[0] >> 16 != 0 || width > 24 || !(step > 0 && step <= most && unit > 0 && unit <= most))
        return -1;
    return job->bytes - HEAD < (tables->grids[!large].tiles + 7) / 8 ? -1 : !large;
}

/*
 * Returns the bytes of a tile with this length in the directory; a length of 0 stands for a raw
 * tile.
 */
static __device__ __forceinline__ u32 bytes_of(const Grid *grid, int side, u32 tile, u32 length)
{
    if (length != 0)
        return length;
    const Place place = side == 0 ? place_of<LARGE>(grid, tile) : place_of<SMALL>(grid, tile);
    return values_inside(&place) * (u32)sizeof(real);
}

/* Finds where all tiles are. */
extern "C" __global__ void __launch_bounds__(OPENERS)
    dct_open(const Tables *tables, Job *job, Control *control, u64 *status, u64 *places)
{
    __shared__ u32 room[33];
    __shared__ u64 ticket, coded_before, bytes_before;
    if (!job->go)
        return;
    const int side = side_of(tables, job);
    if (side < 0) {
        job->damaged = 1;
        return;
    }
    const Grid *grid = &tables->grids[side];
    const u32 *words = (const u32 *)job->payload, width = words[0] >> 8 & 0xFF;
    const u32 longest = (side == 0 ? Tile<LARGE>::values : Tile<SMALL>::values) * (u32)sizeof(real);
    const u64 tiles = grid->tiles, map = HEAD + (tiles + 7) / 8, portions = (tiles + PORTION - 1) / PORTION, count = (job->bytes + 3) / 4;
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0)
            ticket = atomicAdd(&control->ticket, 1ull);
        __syncthreads();
        const u64 portion = ticket, first = portion * PORTION + TILES * threadIdx.x;
        if (portion >= portions)
            return;
        u32 there = first < tiles ? bits_at(words, count, 8 * HEAD + first) & 15 : 0;
        if (tiles - first < TILES && first < tiles)
            there &= (1u << (tiles - first)) - 1;
        u32 coded, all;
        const u32 rank = block_scan(__popc(there), &coded, room);
        if (threadIdx.x < 32) {
            const u64 before = sum_before(status, (u32)portion, coded);
            if (threadIdx.x == 0)
                coded_before = before;
        }
        __syncthreads();
        u64 at = 8 * map + (coded_before + rank) * width;
        u32 sizes[TILES], sum = 0, bad = 0;
        u64 marks[TILES];
        for (u32 i = 0; i < TILES; i++) {
            sizes[i] = 0;
            marks[i] = 0;
            if (!(there >> i & 1))
                continue;
            const u32 length = bits_at(words, count, at) & ((1u << width) - 1);
            at += width;
            bad |= at > 8 * job->bytes || length > longest;
            sizes[i] = bad ? 0 : bytes_of(grid, side, (u32)first + i, length);
            marks[i] = length == 0 ? AS_IT_IS : 0;
            sum += sizes[i];
        }
        const u32 begin = block_scan(sum, &all, room);
        if (threadIdx.x < 32) {
            const u64 before = sum_before(status + portions, (u32)portion, all);
            if (threadIdx.x == 0)
                bytes_before = before;
        }
        __syncthreads();
        u64 place = bytes_before + begin;
        for (u32 i = 0; i < TILES && first + i < tiles; i++) {
            places[first + i] = place | marks[i];
            place += sizes[i];
        }
        if (portion + 1 == portions && threadIdx.x == 0) {
            places[tiles] = bytes_before + all;
            control->begin = map + ((coded_before + coded) * width + 7) / 8;
            bad |= control->begin + bytes_before + all != job->bytes;
        }
        if (bad)
            job->damaged = 1;
    }
}

/* ---- Tiles ---- */

struct Shared {
    real room[ROOM];
    union {
        u16 ends[PIECE];          /* positions of ones, lowest 16 bits */
        u32 long_ends[PIECE / 2]; /* positions of ones in strings of corrections */
    };
    Place places[MOST_TILES];
    /* where the tiles begin, counted from the first tile; bit AS_IT_IS is set for a raw tile */
    u64 from[MOST_TILES];
    u32 bytes[MOST_TILES];  /* 0: a tile of zeros */
    u32 behind[MOST_TILES]; /* first bit behind a string */
    u64 scan[THREADS / 32];
    Quantiser q;
    u32 damaged;
};

/* The bits of a tile. */
struct Bits {
    const u32 *words; /* the first bit is in the first of these words, */
    u32 shift;        /* at this position of the word */
    u32 count;        /* number of words up to the end of the payload */
    u32 size;         /* bits of the tile; 0: nothing is to be read */
};

static __device__ __forceinline__ u32 peek(const Bits *from, u32 at)
{
    const u32 bit = from->shift + at, w = bit / 32;
    const u32 low = w < from->count ? from->words[w] : 0, high = w + 1 < from->count ? from->words[w + 1] : 0;
    return __funnelshift_r(low, high, bit & 31);
}

/* Returns the `count` <= 28 bits from bit `at` on. */
static __device__ __forceinline__ u32 peek(const Bits *from, u32 at, u32 count) { return peek(from, at) & ((1u << count) - 1); }

/* Returns the bits of a tile that begins at byte `byte` of the payload `words`. */
static __device__ __forceinline__ Bits bits_of_tile(const u32 *words, u64 count, u64 byte, u32 size)
{
    const u64 rest = count - byte / 4;
    return Bits{words + byte / 4, 8 * (u32)(byte & 3), rest < 1u << 24 ? (u32)rest : 1u << 24, size};
}

/*
 * Finds `need` ones from bit `at` on and stores the position of each in `ends`; all threads of the
 * tile call this function. Returns the first bit behind the last one, or 0 if the tile has fewer
 * ones.
 */
template <int S, class T> static __device__ __forceinline__ u32 find_ones(Shared *s, const Bits *from, u32 at, u32 need, T *ends)
{
    const u32 threads = Tile<S>::threads, tile = threadIdx.x / threads, mine = threadIdx.x % threads;
    u32 found = 0, first = at;
    if (mine == 0)
        s->behind[tile] = need == 0 ? at : 0;
    sync<S>();
    while (any<S>(found < need && first < from->size)) {
        const u32 here = first + 32 * mine;
        u32 word = here < from->size && found < need ? peek(from, here) : 0, all, rank = found + tile_scan<S>((u32)__popc(word), &all, s->scan);
        for (; word != 0 && rank < need; word &= word - 1, rank++) {
            const u32 place = here + __ffs(word) - 1;
            ends[rank] = (T)place;
            if (rank + 1 == need)
                s->behind[tile] = place + 1;
        }
        found += all;
        first += 32 * threads;
    }
    sync<S>();
    const u32 behind = s->behind[tile];
    /* The next call overwrites the word. */
    sync<S>();
    return behind;
}

/*
 * Returns true if the string was found (`end` is not 0) and is so short that 16 bits suffice for
 * the positions in it.
 */
static __device__ __forceinline__ int is_short(u32 begin, u32 end) { return end - begin < 1u << 16; }

/* Returns the i-th number of a unary string that begins at bit `at`. */
template <class T> static __device__ __forceinline__ T number_at(const T *ends, u32 at, u32 i)
{
    return (T)(ends[i] - (i > 0 ? ends[i - 1] + 1 : at));
}

/* What is known of a tile after its rows have been read. */
struct Opened {
    u32 count;       /* number of corrections */
    u32 corrections; /* first bit of the corrections */
    u32 bad;
};

/* Reads the modes of this thread's rows. Returns the first bit behind all modes. */
template <int S> static __device__ __forceinline__ u32 read_modes(Shared *s, const Bits *from, u32 at, u32 rows, u32 *modes, u32 *bad)
{
    const u32 own_rows = Tile<S>::own_rows, first = threadIdx.x % Tile<S>::threads * own_rows;
    u16 *ends = s->ends + threadIdx.x / Tile<S>::threads * Tile<S>::values;
    const u32 initial = rows > 0 ? peek(from, at, 5) : 0, unaries = at + (rows > 0 ? 5 : 0);
    const u32 behind = find_ones<S>(s, from, unaries, rows > 0 ? rows - 1 : 0, ends);
    *bad |= !is_short(unaries, behind);
    u32 sum = 0, all;
#pragma unroll
    for (u32 k = 0; k < own_rows; k++) {
        const u32 r = first + k;
        u32 up = 0;
        if (r == 0) {
            up = initial;
        } else if (r < rows && !*bad) {
            const u32 change = number_at(ends, unaries, r - 1);
            up = change % 2 == 1 ? ~(change / 2) : change / 2;
        }
        sum += up;
        modes[k] = sum;
    }
    const u32 before = tile_scan<S>(sum, &all, s->scan);
#pragma unroll
    for (u32 k = 0; k < own_rows; k++) {
        modes[k] += before;
        *bad |= first + k < rows && modes[k] > 31;
        modes[k] = first + k < rows && !*bad ? modes[k] : 0;
    }
    return behind;
}

/*
 * Reads the magnitudes of this thread's rows, whose modes are known. `at`: the first of the fixed
 * bits. Returns the first bit of the signs.
 */
template <int S> static __device__ __forceinline__ u32 read_magnitudes(Shared *s, const Bits *from, u32 at, const u32 *modes, u32 *values, u32 *bad)
{
    constexpr u32 R = Tile<S>::of_row, rows = Tile<S>::own_rows;
    const u16 *ends = s->ends + threadIdx.x / Tile<S>::threads * Tile<S>::values;
    u32 sum = 0, fixed_all, numbers_all, numbers = 0;
#pragma unroll
    for (u32 k = 0; k < rows; k++)
        sum += fixed_of<R>(modes[k]);
    u32 fixed = at + tile_scan<S>(sum, &fixed_all, s->scan), next = fixed, used[rows];
#pragma unroll
    for (u32 k = 0; k < rows; k++) {
        used[k] = modes[k] == GROUPS ? peek(from, next, R / 4) : modes[k] >= RICE ? (1u << R / 4) - 1 : 0;
        numbers += 4 * __popc(used[k]);
        next += fixed_of<R>(modes[k]);
    }
    u32 number = tile_scan<S>(numbers, &numbers_all, s->scan);
    const u32 unaries = at + fixed_all, signs = find_ones<S>(s, from, unaries, numbers_all, s->ends + (ends - s->ends));
    *bad |= !is_short(unaries, signs);
    u32 four = 0;
#pragma unroll
    for (u32 k = 0; k < rows; k++) {
        const u32 low = modes[k] >= RICE ? modes[k] - RICE : 0;
#pragma unroll
        for (u32 i = 0; i < R; i++) {
            /* The fixed bits of four numbers at a time, if they fit into one word. */
            if (i % 4 == 0 || low > 8)
                four = low > 0 ? peek(from, fixed + i * low) : 0;
            u32 v = 0;
            if ((used[k] >> i / 4 & 1) && !*bad) {
                v = number_at(ends, unaries, number++);
                *bad |= v >= LONGEST || v >= LIMIT >> low;
                v = v << low | (four >> (low > 8 ? 0 : i % 4 * low) & ((1u << low) - 1));
            }
            values[k * R + i] = v;
        }
        if (modes[k] == ONE) {
            const u32 place = peek(from, fixed, R == 16 ? 4 : 3);
#pragma unroll
            for (u32 i = 0; i < R; i++)
                values[k * R + i] = i == place;
        }
        fixed += fixed_of<R>(modes[k]);
    }
    return signs;
}

/* Reads the coefficients of the tile into s->room and writes all places of the tile. */
template <int S> static __device__ __forceinline__ Opened read_rows(Shared *s, const Bits *from, const u16 *order)
{
    constexpr u32 R = Tile<S>::of_row, rows = Tile<S>::own_rows;
    const u32 first = threadIdx.x % Tile<S>::threads * rows, origin = at<S>(threadIdx.x / Tile<S>::threads * Tile<S>::values);
    Opened tile = {0, 0, 0};
    u32 stored = from->size != 0 ? peek(from, 0, Tile<S>::row_bits) : 0, begin = 0;
    if (from->size != 0) {
        const u32 zeros = __ffs(peek(from, Tile<S>::row_bits) | 1u << 31) - 1, size = zeros + 2;
        tile.bad = stored > Tile<S>::rows || size > 20;
        begin = Tile<S>::row_bits + zeros + 1 + size;
        tile.count = tile.bad ? 0 : (peek(from, Tile<S>::row_bits + zeros + 1, size) | 1u << size) - 4;
        tile.bad |= tile.count > Tile<S>::most;
    }
    /* All threads of a tile must know that the tile is damaged, or their loops would differ. */
    if (tile.bad)
        stored = tile.count = 0;
    u32 modes[rows], values[EACH];
    const u32 fixed = read_modes<S>(s, from, begin, stored, modes, &tile.bad);
    if (any<S>(tile.bad))
        tile.bad = 1;
    if (tile.bad) {
#pragma unroll
        for (u32 k = 0; k < rows; k++)
            modes[k] = 0;
    }
    u32 nonzero = 0, all;
    const u32 signs = read_magnitudes<S>(s, from, fixed, modes, values, &tile.bad);
#pragma unroll
    for (u32 i = 0; i < EACH; i++)
        nonzero += values[i] != 0;
    u32 sign = signs + tile_scan<S>(nonzero, &all, s->scan);
    tile.corrections = signs + all;
    tile.bad |= tile.corrections > from->size;
    const uint4 *places = (const uint4 *)(order + first * R);
    const real step = s->q.step;
    u32 negative = 0;
#pragma unroll
    for (u32 j = 0; j < EACH; j += 8) {
        const uint4 eight = places[j / 8];
        const u32 two[4] = {eight.x, eight.y, eight.z, eight.w};
        if (j % R == 0)
            negative = peek(from, sign);
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const u32 v = values[j + i];
            const i32 c = negative & 1 ? -(i32)v : (i32)v;
            negative >>= v != 0;
            sign += v != 0;
            s->room[origin + (two[i / 2] >> 16 * (i % 2) & 0xFFFF)] = (real)c * step;
        }
    }
    sync<S>();
    return tile;
}

/* Adds the corrections to the decoded values. */
template <int S> static __device__ __forceinline__ u32 correct(Shared *s, const Bits *from, Opened tile)
{
    const u32 threads = Tile<S>::threads, mine = threadIdx.x / threads, k = distance_bits<S>(tile.count);
    const u32 count = tile.bad ? 0 : tile.count, at_rest = tile.corrections + count * k;
    u32 *ends = s->long_ends + mine * (Tile<S>::values / 2);
    if (!any<S>(count > 0))
        return 0;
    const u32 signs = find_ones<S>(s, from, at_rest, 2 * count, ends);
    u32 bad = count > 0 && (signs == 0 || signs + count > from->size);
    /* Each thread has consecutive corrections. */
    const u32 each = (count + threads - 1) / threads, first = threadIdx.x % threads * each;
    u32 sum = 0, all;
    for (u32 i = first; i < first + each && i < count && !bad; i++)
        sum += (number_at(ends, at_rest, i) << k | peek(from, tile.corrections + i * k, k)) + 1;
    u32 next = tile_scan<S>(sum, &all, s->scan);
    for (u32 i = first; i < first + each && i < count && !bad; i++) {
        const u32 high = number_at(ends, at_rest, i), magnitude = number_at(ends, at_rest, count + i) + 1;
        const u32 place = next + (high << k | peek(from, tile.corrections + i * k, k));
        bad |= high >= LONGEST || magnitude > LONGEST || place >= Tile<S>::values;
        if (bad)
            break;
        next = place + 1;
        const i32 level = peek(from, signs + i, 1) ? -(i32)magnitude : (i32)magnitude;
        s->room[at<S>(mine * Tile<S>::values + place)] += (real)level * s->q.unit;
    }
    sync<S>();
    return bad;
}

/* The payload. */
struct Payload {
    const u32 *words;
    u64 count; /* number of words of the payload */
    u64 begin; /* first byte behind the directory */
};

/* Returns a value of a raw tile. */
template <int S> static __device__ __forceinline__ real raw_value(const Payload *payload, const Shared *s, u32 tile, u32 p)
{
    const u64 bit = 8 * (payload->begin + (s->from[tile] & ~AS_IT_IS) + rank_inside<S>(&s->places[tile], p) * (u32)sizeof(real));
    bits value = bits_at(payload->words, payload->count, bit);
#if FP64
    value |= (u64)bits_at(payload->words, payload->count, bit + 32) << 32;
#endif
    return real_of(value);
}

template <int S> static __device__ __forceinline__ void store_piece(const Shared *s, const Payload *payload, const Grid *grid, real *x, const real *whole)
{
    const u64 offset = offset_of<S>(grid, own_first<S>());
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
        const u32 b = own(i), tile = b / Tile<S>::values, p = b % Tile<S>::values;
        const Place *place = &s->places[tile];
        if (!place->whole && (!place->there || !within<S>(place, p)))
            continue;
        const int raw = s->bytes[tile] != 0 && s->from[tile] & AS_IT_IS;
        store(x, whole, index_of<S>(grid, place, offset, i), raw ? raw_value<S>(payload, s, tile, p) : s->room[at<S>(b)]);
    }
}

template <int S> static __device__ __forceinline__ void decode_piece(Shared *s, const Payload *payload, const u16 *order)
{
    const u32 mine = threadIdx.x / Tile<S>::threads;
    const int coded = s->bytes[mine] != 0 && !(s->from[mine] & AS_IT_IS);
    if (!any<S>(coded)) {
#pragma unroll
        for (u32 i = 0; i < EACH; i++)
            s->room[at<S>(own(i))] = 0;
        return sync<S>();
    }
    const Bits from = bits_of_tile(payload->words, payload->count, coded ? payload->begin + s->from[mine] : 0, coded ? 8 * s->bytes[mine] : 0);
    const Opened tile = read_rows<S>(s, &from, order);
#pragma unroll
    for (u32 a = 0; a < DIMS; a++) {
        backward_axis<S>(s->room, DIMS - 1 - a);
        if (a == 0)
            sync<S>();
        else
            __syncwarp();
    }
    sync<S>();
    if (correct<S>(s, &from, tile) || tile.bad)
        s->damaged = 1;
}

template <int S> static __device__ __forceinline__ void decode(Shared *s, real *x, const real *whole, const Tables *tables, Job *job, const Control *control, const u64 *places, u32 piece)
{
    const u32 side = S == LARGE ? 0 : 1;
    const Grid *grid = &tables->grids[side];
    const u64 *head = (const u64 *)job->payload;
    const Payload payload = {(const u32 *)job->payload, (job->bytes + 3) / 4, control->begin};
    if (piece >= (grid->tiles + Tile<S>::count - 1) / Tile<S>::count)
        return;
    if (threadIdx.x == 0) {
        s->q = quantiser_of<S>(double_of(head[1]), double_of(head[2]), 0, 1);
        s->damaged = !s->q.fits;
    }
    if (threadIdx.x < Tile<S>::count) {
        const u32 tile = piece * Tile<S>::count + threadIdx.x;
        const u64 from = tile < grid->tiles ? places[tile] : 0;
        s->places[threadIdx.x] = place_of<S>(grid, tile);
        s->from[threadIdx.x] = from;
        s->bytes[threadIdx.x] = tile < grid->tiles ? (u32)((places[(u64)tile + 1] & ~AS_IT_IS) - (from & ~AS_IT_IS)) : 0;
    }
    __syncthreads();
    decode_piece<S>(s, &payload, tables->order[side]);
    store_piece<S>(s, &payload, grid, x, whole);
    __syncthreads();
    /* Volatile: blocks that begin now read the word. Whether they still decode does not matter. */
    if (threadIdx.x == 0 && s->damaged)
        ((volatile Job *)job)->damaged = 1;
}

/* Decodes the pieces of an array from piece `first` on, one piece per block. */
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    dct_decode(real *x, const real *later, const Tables *tables, Job *job, const Control *control, const u64 *places, u32 first)
{
    __shared__ Shared s;
    if (__syncthreads_or(!job->go || ((volatile Job *)job)->damaged))
        return;
    const real *whole = job->reference ? later : 0;
    if (LARGE == SMALL || (*(const u8 *)job->payload) == LARGE)
        decode<LARGE>(&s, x, whole, tables, job, control, places, first + blockIdx.x);
    else
        decode<SMALL>(&s, x, whole, tables, job, control, places, first + blockIdx.x);
}
