/*
 * The codec dct: from the values of a piece's tiles to coefficients and corrections.
 * src/codec/dct/batch.rs does the same for one value of many tiles at a time.
 */

/*
 * Shared memory of a block. Values, coefficients and bits of the tiles use the same memory, one
 * after the other.
 */
struct Shared {
    union {
        real room[ROOM];
        u32 words[PIECE * sizeof(real) / 4];
    };
    /*
     * corrections: place (bits 0 to 11), 1 for negative (bit 12), magnitude less 1 (from bit 13 on)
     */
    u32 list[PIECE / 4];
    Place places[MOST_TILES];
    u32 raw[MOST_TILES]; /* 1: the tile is stored raw */
    u32 bytes[MOST_TILES];
    u32 offsets[MOST_TILES];
    u64 energies[MOST_TILES];
    u64 strings[MOST_TILES]; /* bits of the four strings: `pack` */
    u64 rests[MOST_TILES];   /* bits of the unary strings of corrections */
    u64 scan[THREADS / 32];
    u32 block[33];
    u8 modes[THREADS];
    Quantiser q;
    u64 before, coded_before;
    u32 piece, flag;
};

/* An array, its tiling, and the order of the coefficients in a tile. */
struct Source {
    const real *x, *later;
    const Grid *grid;
    const u16 *order;
};

/* ---- Values ---- */

/*
 * Returns the tile whose rows this thread codes; the results of `misses` belong to the same tile.
 */
template <int S> static __device__ __forceinline__ u32 own_tile() { return threadIdx.x / Tile<S>::threads; }

/* Values of a thread that are loaded at a time. */
#define BATCH 8

/* Returns the place of the tile of this thread's i-th value. */
template <int S> static __device__ __forceinline__ const Place *own_place(const Shared *s, u32 i) { return &s->places[own(i) / Tile<S>::values]; }

/* Returns true if all tiles of this warp are inside the array as a whole. */
template <int S> static __device__ __forceinline__ int all_whole(const Shared *s)
{
    const u32 tiles = OF_WARP / Tile<S>::values;
    return __all_sync(~0u, s->places[own(0) / Tile<S>::values + (tiles > 1 ? lane_id() % tiles : 0)].whole);
}

/* Returns true if this thread's i-th value is inside the array. */
template <int S> static __device__ __forceinline__ int counts(const Shared *s, u32 i)
{
    const Place *place = own_place<S>(s, i);
    return place->there && within<S>(place, own(i) % Tile<S>::values);
}

/* Returns this thread's i-th value, which must be inside the array. */
template <int S> static __device__ __forceinline__ real inside_value(const Shared *s, const Source *from, u32 i)
{
    return load(from->x, from->later, index_of<S>(from->grid, own_place<S>(s, i), offset_of<S>(from->grid, own_first<S>()), i));
}

/* Returns a mask: bit j is set if this thread's value i + j is inside the array. */
template <int S> static __device__ __forceinline__ u32 batch_mask(const Shared *s, int whole, u32 i)
{
    if (whole)
        return ~0u;
    u32 mask = 0;
#pragma unroll 1
    for (u32 j = 0; j < BATCH; j++)
        mask |= (u32)counts<S>(s, i + j) << j;
    return mask;
}

/*
 * Loads this thread's values i to i + BATCH - 1 into v, 0 for values outside the array. i must be a
 * multiple of 8.
 */
template <int S> static __device__ __forceinline__ void load_batch(const Shared *s, const Source *from, u32 mask, u32 i, real *v)
{
    const u32 values = Tile<S>::values;
    const u64 offset = offset_of<S>(from->grid, own_first<S>()) + offset_of<S>(from->grid, 32 * i % values);
    u64 index[values == 32 ? BATCH : 1];
#pragma unroll
    for (u32 j = 0; j < (values == 32 ? BATCH : 1); j++)
        index[j] = own_place<S>(s, i + j)->first + offset;
#pragma unroll
    for (u32 j = 0; j < BATCH; j++)
        v[j] = mask >> j & 1 ? from->x[index[values == 32 ? j : 0] + offset_of<S>(from->grid, 32 * j % values)] : 0;
    if (!from->later)
        return;
#pragma unroll
    for (u32 j = 0; j < BATCH; j++)
        v[j] = mask >> j & 1 ? from->later[index[values == 32 ? j : 0] + offset_of<S>(from->grid, 32 * j % values)] - v[j] : 0;
}

/*
 * Fills the part of the tiles outside the array with mirror images. Returns true if one of these
 * values is larger than `small`.
 */
template <int S> static __device__ __forceinline__ int fill_up(Shared *s, const Source *from, real small)
{
    int large = 0;
#pragma unroll 1
    for (u32 i = 0; i < EACH; i++) {
        const Place *place = own_place<S>(s, i);
        if (!place->there || counts<S>(s, i))
            continue;
        const real v = load(from->x, from->later, mirrored<S>(from->grid, place, own(i) % Tile<S>::values));
        s->room[at<S>(own(i))] = v;
        large |= !(magnitude_of(v) <= small);
    }
    return large;
}

/*
 * Loads the piece. Returns 0 if the values of this thread's tile are so small that all coefficients
 * become zero and zeros keep the bound.
 */
template <int S> static __device__ __forceinline__ int gather(Shared *s, const Source *from)
{
    real small = s->q.step * (real)0.5 / (real)(i32)Tile<S>::values;
    if (!s->q.rms && s->q.most < small)
        small = 0;
    const int whole = all_whole<S>(s);
    int large = 0;
#pragma unroll 1
    for (u32 i = 0; i < EACH; i += BATCH) {
        real v[BATCH];
        load_batch<S>(s, from, batch_mask<S>(s, whole, i), i, v);
#pragma unroll
        for (u32 j = 0; j < BATCH; j++) {
            s->room[at<S>(own(i + j))] = v[j];
            large |= !(magnitude_of(v[j]) <= small);
        }
    }
    if (!whole)
        large |= fill_up<S>(s, from, small);
    sync<S>();
    return any<S>(large);
}

/* Returns the coefficient of a transformed value; sets *wild if it is too large. */
static __device__ __forceinline__ i32 coefficient_of(real y, real inverse, int *wild)
{
    const real scaled = magnitude_of(y) * inverse;
    const int fits = scaled < (real)(LIMIT - 1);
    const i32 magnitude = (i32)((fits ? scaled : 0) + (real)0.45);
    *wild |= !fits;
    return y < 0 ? -magnitude : magnitude;
}

/*
 * Transforms the tiles. Stores the coefficients in q, line by line along the last axis, and the
 * decoded values in s->room.
 */
template <int S> static __device__ __forceinline__ void quantise(Shared *s, i32 *q)
{
    const u32 axis = DIMS - 1;
#pragma unroll
    for (u32 a = 0; a < axis; a++) {
        forward_axis<S>(s->room, a);
        if (a + 2 == DIMS)
            sync<S>();
        else
            __syncwarp();
    }
    const real inverse = s->q.inverse, step = s->q.step;
#pragma unroll
    for (u32 h = 0; h < Tile<S>::lines; h++) {
        const u32 first = line_of<S>(h, axis);
        real line[S];
        int wild = 0, some = 0;
        load_line<S>(s->room, first, axis, line);
        forward<S>(line);
#pragma unroll
        for (u32 i = 0; i < S; i++) {
            const i32 c = coefficient_of(line[i], inverse, &wild);
            q[h * S + i] = c;
            some |= c;
            line[i] = (real)c * step;
        }
        if (wild)
            s->raw[first / Tile<S>::values] = 1;
        if (__any_sync(~0u, some != 0))
            backward<S>(line);
        store_line<S>(s->room, first, axis, line);
    }
#pragma unroll
    for (u32 a = 0; a < axis; a++) {
        if (a == 0)
            sync<S>();
        else
            __syncwarp();
        backward_axis<S>(s->room, axis - 1 - a);
    }
    sync<S>();
}

/* ---- Errors ---- */

/* Sums up the squared errors of the tiles, in units of 2^-14 step^2. */
template <int S> static __device__ __forceinline__ void measure(Shared *s, const Source *from)
{
    const real per_step = s->q.per_step;
    const int whole = all_whole<S>(s);
    u64 sum = 0;
#pragma unroll 1
    for (u32 first = 0; first < EACH; first += BATCH) {
        real v[BATCH];
        const u32 inside = batch_mask<S>(s, whole, first);
        load_batch<S>(s, from, inside, first, v);
#pragma unroll
        for (u32 j = 0; j < BATCH; j++) {
            const u32 i = first + j, tile = own(i) / Tile<S>::values;
            const real u = (v[j] - s->room[at<S>(own(i))]) * per_step, square = u * u;
            const int fits = square < (real)1024;
            if (inside >> j & 1) {
                sum += (u32)(i32)((fits ? square : 0) * (real)16384) + 1;
                if (!fits)
                    s->raw[tile] = 1;
            }
            if ((32 * i + 32) % Tile<S>::values == 0 || i + 1 == EACH) {
                sum = warp_sum(sum);
                if (lane_id() == 0)
                    atomicAdd(&s->energies[tile], sum);
                sum = 0;
            }
        }
    }
}

/*
 * Finds the values of the piece that are outside the bound: bit l of lane i's result is set if the
 * i-th value of lane l is. With a bound on the mean square the result is 0; a tile with a value
 * that is far off is marked as raw.
 */
template <int S> static __device__ __forceinline__ u32 misses(Shared *s, const Source *from)
{
    const real most = s->q.most, per_step = s->q.per_step;
    const u32 rms = s->q.rms;
    const int whole = all_whole<S>(s);
    u32 mask = 0;
#pragma unroll 1
    for (u32 first = 0; first < EACH; first += BATCH) {
        real v[BATCH];
        const u32 inside = batch_mask<S>(s, whole, first);
        load_batch<S>(s, from, inside, first, v);
#pragma unroll
        for (u32 j = 0; j < BATCH; j++) {
            const u32 i = first + j;
            const real error = v[j] - s->room[at<S>(own(i))], u = error * per_step;
            const int miss = (rms ? !(u * u < (real)1024) : !(magnitude_of(error) <= most)) && (inside >> j & 1);
            const u32 word = __ballot_sync(~0u, miss);
            if (lane_id() == i)
                mask = word;
        }
    }
    if (rms && mask != 0)
        s->raw[own_tile<S>()] = 1;
    sync<S>();
    return rms ? 0 : mask;
}

/*
 * Returns the correction for the original value o and the decoded value d at place p, as an item of
 * the list. *fits: 1 if the corrected value is within the bound.
 */
static __device__ __forceinline__ u32 correction(const Quantiser *q, real o, real d, u32 p, int *fits)
{
    const real units = magnitude_of(o - d) * q->per_unit;
    const int few = units < (real)LONGEST;
    const i32 magnitude = (i32)((few ? units : 0) + (real)0.5), level = o < d ? -magnitude : magnitude;
    const real corrected = d + (real)level * q->unit;
    /* The unary number of a larger magnitude would be longer than any tile. */
    *fits = few && magnitude != 0 && magnitude <= 1 << 19 && magnitude_of(o - corrected) <= q->most;
    return p | (u32)(level < 0) << 12 | (u32)(magnitude - 1) << 13;
}

/* Makes the lists of corrections. Returns the number of corrections of this thread's tile. */
template <int S> static __device__ __forceinline__ u32 correct(Shared *s, const Source *from, u32 mask)
{
    const u32 mine = own_tile<S>();
    if (s->raw[mine])
        mask = 0;
    /* The scan of a tile of one warp does not order the reads of `raw` above with the writes below. */
    __syncwarp();
    u32 count;
    const u32 before = tile_scan<S>((u32)__popc(mask), &count, s->scan);
    if (count > Tile<S>::most) {
        s->raw[mine] = 1;
        mask = count = 0;
    }
    for (u32 left = __ballot_sync(~0u, mask != 0); left != 0; left &= left - 1) {
        const u32 i = __ffs(left) - 1, word = __shfl_sync(~0u, mask, i), rank = __shfl_sync(~0u, before, i);
        if (word >> lane_id() & 1) {
            const u32 b = own(i), tile = b / Tile<S>::values, p = b % Tile<S>::values;
            int fits;
            const u32 item = correction(&s->q, inside_value<S>(s, from, i), s->room[at<S>(b)], p, &fits);
            s->list[tile * Tile<S>::most + rank + __popc(word & ((1u << lane_id()) - 1))] = item;
            if (!fits)
                s->raw[tile] = 1;
        }
    }
    sync<S>();
    return count;
}
