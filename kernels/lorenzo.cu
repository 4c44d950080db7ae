/*
 * The codec lorenzo (Lorenzo predictor, Ibarria et al. 2003); src/codec/lorenzo describes the
 * format. A block of threads codes a tile. Warp w holds the tile's lines 8 w to 8 w + 7; a lane
 * holds one place of each line.
 */

/* Number of tiles of a group. */
#define GROUP 64
#define AS_IS 0xFF
/* The largest number of bytes of a coded tile, and the words of shared memory for them. */
#define CODED (2 + 32 * 5 + 256 * 31 + 256)
#define ROOM (CODED / 4 + 8)

/*
 * How an array is divided into tiles: Grid of src/codec/lorenzo/grid.rs. `rank`: number of
 * dimensions; the other extents are 1.
 */
struct Grid {
    u64 n[3];
    u64 tiles[3];
    u64 count;
    u64 rank;
};

/* Position and extents of a tile: Place of src/codec/lorenzo/grid.rs. */
struct Place {
    u64 first;
    u32 tile;
    u32 extent[3];
};

static __device__ __forceinline__ Place place_of(const Grid &grid, u32 tile)
{
    const u32 tiles1 = (u32)grid.tiles[0], tiles2 = (u32)grid.tiles[1];
    const u64 at1 = tile % tiles1, row = tile / tiles1, at2 = row % tiles2, at3 = row / tiles2;
    const u64 low1 = at1 * (grid.rank == 1 ? TILE : LINE), low2 = at2 * (grid.rank == 2 ? 64 : 8), low3 = at3 * 8;
    Place place;
    place.first = low1 + grid.n[0] * (low2 + grid.n[1] * low3);
    place.tile = tile;
    place.extent[0] = (u32)min(grid.n[0] - low1, (u64)(grid.rank == 1 ? TILE : LINE));
    place.extent[1] = (u32)min(grid.n[1] - low2, (u64)(grid.rank == 2 ? 64 : 8));
    place.extent[2] = (u32)min(grid.n[2] - low3, 8ull);
    return place;
}

static __device__ __forceinline__ u32 values_of(const Place &place) { return place.extent[0] * place.extent[1] * place.extent[2]; }

/* The thread's place in the first line of its warp. */
struct Corner {
    u32 i1, i2, i3;
};

static __device__ __forceinline__ Corner corner_of(u32 rank)
{
    const u32 warp = threadIdx.x / 32, lane = lane_id();
    return rank == 3 ? Corner{lane, 0, warp} : rank == 2 ? Corner{lane, 8 * warp, 0} : Corner{lane + 256 * warp, 0, 0};
}

/* Bit k of the result is set if the thread's place in line k of its warp is inside the array. */
static __device__ __forceinline__ u32 inside_of(const Place &place, u32 rank)
{
    const Corner c = corner_of(rank);
    u32 inside = 0;
    for (u32 k = 0; k < 8; k++)
        inside |= (u32)(rank == 1 ? c.i1 + LINE * k < place.extent[0] : c.i2 + k < place.extent[1]) << k;
    return c.i3 < place.extent[2] && (rank == 1 || c.i1 < place.extent[0]) ? inside : 0;
}

/* ---- Differences ---- */

/*
 * Takes the `taken`-th difference of the tile, in place, along dimension `along`, counted from 0. A
 * difference along the last dimension uses the numbers that other warps stored in `given` before
 * the last barrier; other differences need only the numbers of the warp.
 */
static __device__ __forceinline__ void difference(u32 v[8], u32 rank, u32 along, u32 taken, const u32 *given)
{
    const u32 warp = threadIdx.x / 32, lane = lane_id();
    if (along == 0) {
        /*
         * In 1-D lines continue one another: lane 0 subtracts the last lane's value of the line
         * before.
         */
        const int chain = rank == 1;
        u32 carry = chain && warp > 0 ? given[WARPS * (taken & 1) + warp - 1] : 0;
        for (u32 k = 0; k < 8; k++) {
            const u32 before = __shfl_sync(~0u, v[k], lane + 31);
            if (lane > 0)
                v[k] -= before;
            else if (chain)
                v[k] -= carry, carry = before;
        }
    } else if (along == 1) {
        for (u32 k = 7; k > 0; k--)
            v[k] -= v[k - 1];
        if (rank == 2 && warp > 0)
            v[0] -= given[LINE * (warp - 1) + lane];
    } else if (warp > 0) {
        for (u32 k = 0; k < 8; k++)
            v[k] -= given[256 * (warp - 1) + LINE * k + lane];
    }
}

/*
 * Stores in `given` the numbers that other warps need if the next difference is along dimension
 * `along`.
 */
static __device__ __forceinline__ void give(const u32 v[8], u32 rank, u32 along, u32 taken, u32 *given)
{
    const u32 warp = threadIdx.x / 32, lane = lane_id();
    if (along != rank - 1)
        return;
    if (rank == 1) {
        if (lane == 31)
            given[WARPS * (taken & 1) + warp] = v[7];
    } else if (rank == 2) {
        given[LINE * warp + lane] = v[7];
    } else {
        for (u32 k = 0; k < 8; k++)
            given[256 * warp + LINE * k + lane] = v[k];
    }
}

/*
 * Returns the cost of the warp's lines in bits; from bit 16 on the number of columns with a
 * magnitude of 2^31.
 */
static __device__ __forceinline__ u32 cost_of(const u32 v[8])
{
    u32 column = 0;
    for (u32 k = 0; k < 8; k++)
        column |= magnitude(v[k]);
    return warp_add(width_of(column) + (column >> 31 << 16));
}

/* ---- Encoder ---- */

/* Loads the thread's values. Places beyond the array repeat the last value before them. */
static __device__ __forceinline__ void collect(const real *x, const real *later, const Grid &grid, const Place &place, real v[8])
{
    const Corner c = corner_of((u32)grid.rank);
    const u32 i1 = min(c.i1, place.extent[0] - 1), i2 = min(c.i2, place.extent[1] - 1), i3 = min(c.i3, place.extent[2] - 1);
    const u64 first = grid.rank == 1 ? place.first : place.first + i1 + grid.n[0] * (i2 + grid.n[1] * i3);
    u64 at[8] = {first};
    for (u32 k = 0; k < 8; k++)
        if (grid.rank == 1)
            at[k] = first + min(c.i1 + LINE * k, place.extent[0] - 1);
        else if (k > 0)
            at[k] = at[k - 1] + (c.i2 + k < place.extent[1] ? grid.n[0] : 0);
    for (u32 k = 0; k < 8; k++)
        v[k] = x[at[k]];
    for (u32 k = 0; later && k < 8; k++)
        v[k] = later[at[k]] - v[k];
}

/* The residuals of a tile, and the number of differences that led to them. */
struct Best {
    u32 v[8];
    u32 taken;
    u32 cost; /* 0: all numbers are 0; from bit 16 on: the tile cannot be coded */
};

/*
 * Takes more differences as long as the cost falls. The whole block calls this function; all
 * threads called `give` with `best->v` before the last barrier. `costs`: zeros.
 */
static __device__ __forceinline__ void predict(Best *best, u32 rank, u32 *given, u32 *costs)
{
    u32 along = 0;
    best->taken = 0;
    best->cost = 0xFFFF;
    for (u32 i = 0; i < (rank == 1 ? 3 : 4); i++) {
        const u32 next = rank == 3 ? 2 + i + (i > 1) : 1 + i;
        u32 v[8];
        for (u32 k = 0; k < 8; k++)
            v[k] = best->v[k];
        for (u32 taken = best->taken; taken < next; taken++) {
            difference(v, rank, along, taken, given);
            along = along + 1 == rank ? 0 : along + 1;
        }
        const u32 of_warp = cost_of(v);
        if (lane_id() == 0)
            atomicAdd(&costs[i], of_warp);
        give(v, rank, along, next, given);
        __syncthreads();
        const u32 cost = costs[i];
        if ((cost & 0xFFFF) >= (best->cost & 0xFFFF))
            break;
        best->cost = cost, best->taken = next;
        for (u32 k = 0; k < 8; k++)
            best->v[k] = v[k];
        if (cost == 0)
            break;
    }
}

/* A row of residuals to be written, and how much of the tile is before the row. */
struct Row {
    u32 v[8]; /* magnitudes */
    u32 width;
    u32 signs; /* signs of the residuals that are not 0 */
    u32 bytes_before, signs_before;
};

/* What all rows of a tile have in common. */
struct Rows {
    u32 least, bits;
    u32 bytes; /* the sum of the widths */
    u32 signs;
};

static __device__ __forceinline__ u32 rows_at(const Rows &rows) { return 2 + 32 * rows.bits; }
static __device__ __forceinline__ u32 size_of(const Rows &rows) { return rows_at(rows) + rows.bytes + (rows.signs + 7) / 8; }

/* Shared memory through which the warps of a tile exchange results. */
struct Shared {
    u32 costs[4];
    u32 least, most; /* widths */
    u32 sums[WARPS];
    u32 signs[TILE / 32 + 1];
};

/*
 * Makes the thread's row and returns what all rows have in common. This function contains a
 * barrier; behind it `numbers` may be used for something else.
 */
static __device__ __forceinline__ Rows make_rows(const Best &best, u32 inside, u32 *numbers, Shared *shared, Row *row)
{
    const u32 warp = threadIdx.x / 32;
    for (u32 k = 0; k < 8; k++)
        numbers[256 * warp + LINE * k + lane_id()] = inside >> k & 1 ? best.v[k] : 0;
    __syncwarp();
    get_row(numbers, row->v);
    u32 any = 0, count = 0;
    row->signs = 0;
    for (u32 i = 0; i < 8; i++) {
        row->signs |= row->v[i] >> 31 << count;
        count += row->v[i] != 0;
        row->v[i] = magnitude(row->v[i]);
        any |= row->v[i];
    }
    row->width = width_of(any);
    u32 all, before = warp_scan(row->width | count << 16, &all);
    const u32 least = warp_min(row->width), most = warp_max(row->width);
    if (lane_id() == 0) {
        shared->sums[warp] = all;
        atomicMin(&shared->least, least);
        atomicMax(&shared->most, most);
    }
    __syncthreads();
    before += sum_of_warps(shared->sums, &all);
    row->bytes_before = before & 0xFFFF, row->signs_before = before >> 16;
    return Rows{shared->least, width_of(shared->most - shared->least), all & 0xFFFF, all >> 16};
}

/*
 * Writes the bytes of a tile except for its signs, which are collected in `signs`, zeros at first.
 */
static __device__ __forceinline__ void put_rows(const Rows &rows, const Row &row, u32 taken, u32 level, u8 *to, u32 *signs)
{
    const u32 lane = lane_id();
    if (threadIdx.x == 0) {
        to[0] = (u8)(rows.least | rows.bits << 5);
        to[1] = (u8)(taken | level << 3);
    }
    /* A byte is one bit of the widths of eight rows, which eight lanes hold. */
    const u32 width = row.width - rows.least;
    u32 own = 0;
    for (u32 bit = 0; bit < rows.bits; bit++) {
        const u32 votes = __ballot_sync(~0u, width >> bit & 1);
        own = (lane & 7) == bit ? votes >> (lane & 24) : own;
    }
    if ((lane & 7) < rows.bits)
        to[2 + rows.bits * (threadIdx.x / 8) + (lane & 7)] = (u8)own;
    u8 *at = to + rows_at(rows) + row.bytes_before;
    for (u32 k = 0; 8 * k < row.width; k++) {
        const u32 *v = row.v;
        const Eight planes = transposed(Eight{four_bytes(v[0], v[1], v[2], v[3], k), four_bytes(v[4], v[5], v[6], v[7], k)});
        for (u32 p = 0; p < 8; p++)
            if (8 * k + p < row.width)
                at[8 * k + p] = (u8)((p < 4 ? planes.low : planes.high) >> 8 * (p & 3));
    }
    const u32 word = row.signs_before / 32, bit = row.signs_before % 32;
    const u32 low = row.signs << bit, high = bit > 24 ? row.signs >> (32 - bit) : 0;
    if (low != 0)
        atomicOr(&signs[word], low);
    if (high != 0)
        atomicOr(&signs[word + 1], high);
}

/*
 * Returns word m of the values of a raw tile. The word before the first ends with AS_IS, the first
 * byte of a raw tile.
 */
static __device__ u32 word_of_values(const real *x, const real *later, const Grid &grid, const Place &place, i32 m)
{
    const u32 i = (u32)m / (sizeof(real) / 4);
    if (m < 0)
        return (u32)AS_IS << 24;
    if (i >= values_of(place))
        return 0;
    const u32 i1 = i % place.extent[0], row = i / place.extent[0], i2 = row % place.extent[1], i3 = row / place.extent[1];
    const bits value = bits_of(load(x, later, place.first + i1 + grid.n[0] * (i2 + grid.n[1] * i3)));
#if FP64
    return (u32)(m & 1 ? value >> 32 : value);
#else
    return value;
#endif
}

static __device__ void put_as_is(const real *x, const real *later, const Grid &grid, const Place &place, u64 address, u32 bytes)
{
    /* The first byte of the tile is AS_IS; the words of the values follow, shifted by one byte. */
    for (u32 j = threadIdx.x; j < words_of(address, bytes); j += blockDim.x) {
        u32 w[3];
        for (u32 k = 0; k < 3; k++)
            w[k] = word_of_values(x, later, grid, place, (i32)(j + k) - 2);
        put_word(address, bytes, j, __funnelshift_l(w[0], w[1], 8), __funnelshift_l(w[1], w[2], 8));
    }
}

/*
 * Publishes the size of a tile in bytes (0 for an empty tile) and returns the number of bytes that
 * the tile adds to the payload. The last tile of a group also adds the table of sizes of its group,
 * 2 bytes per stored tile; *stored then says which tiles of the group are stored. The first warp
 * calls this function. Waiting for the sizes of the group is safe: the blocks of the earlier tiles
 * have begun and publish their sizes without waiting for other blocks.
 */
static __device__ __forceinline__ u32 tell_size(const Grid &grid, u32 tile, u32 size, volatile u32 *sizes, volatile u64 *status, u64 *stored)
{
    const u32 known = 1u << 31, first = tile & ~(GROUP - 1u);
    const int last = tile % GROUP == GROUP - 1 || tile == grid.count - 1;
    u32 sum = size;
    if (lane_id() == 0)
        sizes[tile] = known | size;
    if (last) {
        *stored = 0;
        for (u32 from = 0; from < GROUP; from += 32) {
            const u32 other = first + from + lane_id();
            u32 word = other == tile ? known | size : known;
            if (other < tile)
                word = sizes[other];
            while (__any_sync(~0u, word == 0)) {
                __nanosleep(20);
                if (other < tile)
                    word = sizes[other];
            }
            *stored |= (u64)__ballot_sync(~0u, word != known) << from;
        }
        sum += 2 * __popcll(*stored);
    }
    sum_announce(status, tile, sum);
    return sum;
}

/*
 * Writes the end of a group: which of its tiles are stored, and their sizes; this tile's size
 * is `own`. The first warp calls this function.
 */
static __device__ __forceinline__ void put_sizes(u32 tile, u32 own, u64 stored, const volatile u32 *sizes, u64 *table, u8 *to)
{
    const u32 first = tile & ~(GROUP - 1u);
    if (lane_id() == 0)
        table[1 + 2 * (tile / GROUP)] = stored;
    for (u32 i = lane_id(); i < GROUP; i += 32) {
        if (!(stored >> i & 1))
            continue;
        const u32 rank = __popcll(stored & ((1ull << i) - 1)), told = sizes[first + i], size = first + i == tile ? own : told;
        to[2 * rank] = (u8)size;
        to[2 * rank + 1] = (u8)(size >> 8);
    }
}

/*
 * Codes an array, one block of threads per tile. Working memory, zero at first: one word of
 * `status` and one of `sizes` per tile.
 */
extern "C" __global__ void ENCODER lorenzo_encode(const real *x, const real *later, Grid grid, Job *job, const Quanta *quanta, u64 *status, u32 *sizes)
{
    __shared__ __align__(16) u32 room[ROOM];
    __shared__ Shared shared;
    __shared__ Place place;
    __shared__ u64 begin;
    const u32 levels = quanta->levels;
    if (!job->go || levels == 0)
        return; /* job->bytes keeps the value NONE */
    const u32 rank = (u32)grid.rank;
    const u64 head = 8 + 16 * ((grid.count + GROUP - 1) / GROUP);
    if (threadIdx.x == 0)
        place = place_of(grid, (u32)atomicAdd(&job->work[3], 1));
    if (threadIdx.x < TILE / 32 + 1)
        shared.signs[threadIdx.x] = 0;
    if (threadIdx.x < 4)
        shared.costs[threadIdx.x] = 0;
    if (threadIdx.x == 32)
        shared.least = 31, shared.most = 0;
    __syncthreads();
    const u32 tile = place.tile;
    Best best;
    real values[8];
    collect(x, later, grid, place, values);
    u32 level = 0, good;
    do {
        const Quantum quantum = quanta->of[level];
        good = 1;
        for (u32 k = 0; k < 8; k++)
            good &= quantise(values[k], quantum, &best.v[k]);
        give(best.v, rank, 0, 0, room);
        good = __syncthreads_and(good);
    } while (!good && ++level < levels);
    if (good)
        predict(&best, rank, room, shared.costs);
    const u32 as_is = 1 + values_of(place) * sizeof(real);
    const int codable = good && best.cost < 1 << 16;
    u32 size = codable && best.cost == 0 ? 0 : as_is;
    Row row;
    Rows rows;
    if (codable && size != 0) {
        rows = make_rows(best, inside_of(place, rank), room, &shared, &row);
        size = min(as_is, size_of(rows));
    }
    u32 sum;
    u64 stored;
    if (threadIdx.x < 32)
        sum = tell_size(grid, tile, size, sizes, status, &stored);
    const int coded = codable && size != 0 && size < as_is;
    if (coded) {
        put_rows(rows, row, best.taken, level, (u8 *)room, shared.signs);
        __syncthreads();
        for (u32 i = threadIdx.x; i < (rows.signs + 7) / 8; i += blockDim.x)
            ((u8 *)room)[rows_at(rows) + rows.bytes + i] = ((const u8 *)shared.signs)[i];
    }
    if (threadIdx.x < 32) {
        const u64 before = sum_before(status, tile, sum), end = head + before + sum;
        u64 *table = (u64 *)job->payload;
        if (lane_id() == 0) {
            begin = before;
            if (tile == 0)
                table[0] = bits_of_double(quanta->unit);
            if (tile % GROUP == 0)
                table[2 + 2 * (tile / GROUP)] = before;
            if (tile == grid.count - 1)
                job->bytes = end <= grid.n[0] * grid.n[1] * grid.n[2] * sizeof(real) ? end : NONE;
        }
        if (tile % GROUP == GROUP - 1 || tile == grid.count - 1)
            put_sizes(tile, size, stored, sizes, table, (u8 *)(job->payload + head + before + size));
    }
    __syncthreads();
    const u64 address = job->payload + head + begin;
    if (coded)
        put_piece(address, size, room);
    else if (size != 0)
        put_as_is(x, later, grid, place, address, size);
}

/* ---- Decoder ---- */

/* Where a tile is in the payload, counted from the end of the table. */
struct Source {
    u64 begin;
    u32 size;   /* bytes of the tile; 0: the tile is empty */
    u32 damaged;
};

/* Finds a tile and checks the table of its group. One warp calls this function. */
static __device__ Source find(const Grid &grid, u32 tile, u64 head, const Job *job)
{
    const u64 *table = (const u64 *)job->payload, group = tile / GROUP, body = job->bytes - head;
    const u64 stored = table[1 + 2 * group], begin = table[2 + 2 * group];
    const u64 end = (group + 1) * GROUP < grid.count ? table[4 + 2 * group] : body, left = grid.count - group * GROUP;
    const u32 count = __popcll(stored), rank = __popcll(stored & ((1ull << tile % GROUP) - 1));
    if (begin > end || end > body || end - begin < 2 * count || (left < GROUP && stored >> left != 0))
        return Source{0, 0, 1};
    const u8 *sizes = (const u8 *)(job->payload + head + end - 2 * count);
    u32 all = 0, before = 0, own = 0;
    for (u32 i = lane_id(); i < count; i += 32) {
        const u32 size = sizes[2 * i] | (u32)sizes[2 * i + 1] << 8;
        all += size;
        before += i < rank ? size : 0;
        own += i == rank ? size : 0;
    }
    all = warp_add(all), before = warp_add(before), own = warp_add(own);
    const int is_stored = stored >> tile % GROUP & 1;
    const u32 damaged = all != end - begin - 2 * count || (is_stored && own == 0);
    return Source{begin + before, is_stored && !damaged ? own : 0, damaged};
}

/*
 * Prefix sums along each line of the tile, or, with `chain`, along the whole tile. A thread holds a
 * row.
 */
static __device__ __forceinline__ void sum_rows(u32 v[8], int chain, u32 *of_warps)
{
    for (u32 i = 1; i < 8; i++)
        v[i] += v[i - 1];
    const u32 lane = lane_id() & (chain ? 31 : 3), warp = threadIdx.x / 32;
    u32 before = v[7];
    for (u32 by = 1; by < (chain ? 32 : 4); by *= 2) {
        const u32 other = __shfl_up_sync(~0u, before, by);
        before += lane >= by ? other : 0;
    }
    if (chain) {
        if (lane == 31)
            of_warps[warp] = before;
        __syncthreads();
        u32 all;
        before += sum_of_warps(of_warps, &all);
    }
    before -= v[7];
    for (u32 i = 0; i < 8; i++)
        v[i] += before;
}

static __device__ __forceinline__ void sum_own(u32 v[8], u32 times)
{
    for (; times > 0; times--)
        for (u32 k = 1; k < 8; k++)
            v[k] += v[k - 1];
}

/*
 * Inverts the differences. The thread holds a row at first, and its place in each of eight lines at
 * the end.
 */
static __device__ __forceinline__ void sum_all(u32 v[8], u32 rank, u32 taken, u32 *numbers, u32 (*of_warps)[WARPS])
{
    const u32 warp = threadIdx.x / 32, lane = lane_id();
    for (u32 i = 0; i < (taken + rank - 1) / rank; i++)
        sum_rows(v, rank == 1, of_warps[i]);
    put_row(numbers, v);
    if (rank == 3 && taken > 2) {
        __syncthreads();
        for (u32 k = 0; k < 8; k++)
            v[k] = numbers[256 * k + LINE * warp + lane];
        sum_own(v, taken / 3);
        for (u32 k = 0; k < 8; k++)
            numbers[256 * k + LINE * warp + lane] = v[k];
        __syncthreads();
    }
    __syncwarp();
    for (u32 k = 0; k < 8; k++)
        v[k] = numbers[256 * warp + LINE * k + lane];
    if (rank == 3)
        sum_own(v, (taken + 1) / 3);
    for (u32 i = 0; rank == 2 && i < taken / 2; i++) {
        sum_own(v, 1);
        /* The sums of columns overwrite the numbers after all threads have read them. */
        if (i == 0)
            __syncthreads();
        numbers[256 * i + LINE * warp + lane] = v[7];
        __syncthreads();
        u32 before = 0;
        for (u32 w = 0; w < warp; w++)
            before += numbers[256 * i + LINE * w + lane];
        for (u32 k = 0; k < 8; k++)
            v[k] += before;
    }
}

/*
 * Decodes the residuals of a tile as rows. The bytes of the tile are in shared memory, from byte
 * `shift` on. `sums`: two times WARPS words. Returns 0 if the tile is damaged. Behind the next
 * barrier the bytes are not needed any more.
 */
static __device__ __forceinline__ int get_rows(const u32 *words, u32 shift, u32 size, u32 (*sums)[WARPS], u32 v[8])
{
    const u32 warp = threadIdx.x / 32;
    const u8 *from = (const u8 *)words + shift;
    const u32 least = from[0] & 31, bits = from[0] >> 5, at = 2 + 32 * bits;
    if (bits > 5 || size < at)
        return 0;
    u32 width = least;
    for (u32 bit = 0; bit < bits; bit++)
        width += (u32)(from[2 + bits * (threadIdx.x / 8) + bit] >> (threadIdx.x & 7) & 1) << bit;
    u32 all, before = warp_scan(width, &all);
    if (lane_id() == 0)
        sums[0][warp] = all;
    if (__syncthreads_or(width > 31))
        return 0;
    before += sum_of_warps(sums[0], &all);
    if (size < at + all)
        return 0;
    for (u32 i = 0; i < 8; i++)
        v[i] = 0;
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        if (8 * k >= width)
            break;
        const u32 byte = shift + at + before + 8 * k, kept = min(width - 8 * k, 8u);
        Eight planes = {word_at(words, byte), word_at(words, byte + 4)};
        planes.low &= kept >= 4 ? ~0u : (1u << 8 * kept) - 1;
        planes.high &= kept >= 8 ? ~0u : kept < 4 ? 0 : (1u << 8 * (kept - 4)) - 1;
        const Eight eight = transposed(planes);
        for (u32 i = 0; i < 8; i++)
            v[i] |= ((i < 4 ? eight.low : eight.high) >> 8 * (i & 3) & 0xFF) << 8 * k;
    }
    u32 count = 0, signs;
    for (u32 i = 0; i < 8; i++)
        count += v[i] != 0;
    u32 signs_before = warp_scan(count, &signs);
    if (lane_id() == 0)
        sums[1][warp] = signs;
    __syncthreads();
    signs_before += sum_of_warps(sums[1], &signs);
    if (size != at + all + (signs + 7) / 8)
        return 0;
    u32 left = word_at(words, shift + at + all + signs_before / 8) >> (signs_before & 7);
    for (u32 i = 0; i < 8; i++) {
        const u32 sign = v[i] != 0 ? 0 - (left & 1) : 0;
        left >>= v[i] != 0;
        v[i] = (v[i] ^ sign) - sign;
    }
    return 1;
}

/* Writes the thread's places of a raw tile. */
static __device__ void get_as_is(real *x, const real *whole, const Grid &grid, const Place &place, u64 address)
{
    const Corner c = corner_of((u32)grid.rank);
    const u32 inside = inside_of(place, (u32)grid.rank);
    for (u32 k = 0; k < 8; k++) {
        if (!(inside >> k & 1))
            continue;
        const u32 i1 = c.i1 + (grid.rank == 1 ? LINE * k : 0), i2 = c.i2 + (grid.rank == 1 ? 0 : k);
        const u64 i = i1 + (u64)place.extent[0] * (i2 + place.extent[1] * c.i3);
        store(x, whole, place.first + i1 + grid.n[0] * (i2 + grid.n[1] * c.i3), real_of(value_at(address + i * sizeof(real))));
    }
}

static __device__ __forceinline__ void put_values(real *x, const real *whole, const Grid &grid, const Place &place, const u32 v[8], real step)
{
    const Corner c = corner_of((u32)grid.rank);
    const u32 inside = inside_of(place, (u32)grid.rank);
    const u64 stride = grid.rank == 1 ? LINE : grid.n[0], at = place.first + c.i1 + grid.n[0] * (c.i2 + grid.n[1] * c.i3);
    real values[8];
    for (u32 k = 0; k < 8; k++)
        values[k] = (real)(i32)v[k] * step;
    for (u32 k = 0; whole && k < 8; k++)
        values[k] = inside >> k & 1 ? whole[at + k * stride] - values[k] : 0;
    for (u32 k = 0; k < 8; k++)
        if (inside >> k & 1)
            x[at + k * stride] = values[k];
}

/* Decodes an array from tile `first` on, one block of threads per tile. */
extern "C" __global__ void __launch_bounds__(256) lorenzo_decode(real *x, const real *later, Grid grid, Job *job, u32 first)
{
    __shared__ __align__(16) u32 room[ROOM];
    __shared__ u32 sums[5][WARPS];
    __shared__ Place place;
    __shared__ Source source;
    if (!job->go)
        return;
    const real *whole = job->reference ? later : 0;
    const u32 rank = (u32)grid.rank, most_taken = rank == 3 ? 6 : rank == 2 ? 4 : 3;
    const u64 head = 8 + 16 * ((grid.count + GROUP - 1) / GROUP);
    const double unit = job->bytes < head ? 0 : double_of(*(const u64 *)job->payload);
    if (!(unit > 0 && unit - unit == 0)) {
        job->damaged = 1;
        return;
    }
    const u32 tile = first + blockIdx.x;
    if (threadIdx.x < 32) {
        const Source found = find(grid, tile, head, job);
        if (lane_id() == 0)
            source = found, place = place_of(grid, tile);
    }
    __syncthreads();
    const u32 size = source.size;
    const u64 address = job->payload + head + source.begin;
    get_piece(address, min(size, (u32)CODED), room);
    __syncthreads();
    const u8 *bytes = (const u8 *)room + (address & 3);
    int good = !source.damaged;
    if (size > 0 && bytes[0] == AS_IS) {
        good = size == 1 + values_of(place) * sizeof(real);
        if (good)
            get_as_is(x, whole, grid, place, address + 1);
    } else if (good) {
        u32 v[8] = {0, 0, 0, 0, 0, 0, 0, 0}, level = 0;
        if (size > 0) {
            const u32 taken = bytes[1] & 7;
            level = bytes[1] >> 3;
            good = size <= CODED && taken <= most_taken && level < 3 && get_rows(room, (u32)(address & 3), size, sums, v);
            __syncthreads();
            if (good)
                sum_all(v, rank, taken, room, sums + 2);
        }
        if (good)
            put_values(x, whole, grid, place, v, step_of(unit, level));
    }
    if (!good)
        job->damaged = 1;
}
