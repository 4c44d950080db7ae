/*
 * The codec dct, compressing. A sample of the tiles decides between the two sides. As in
 * src/codec/dct/engine.rs, the coded tiles begin where the longest possible directory ends; when
 * all lengths are known, dct_finish moves the tiles to the end of the directory.
 */

/*
 * Number of steps that are tried for a bound on the mean square; each is 2^(1/16) times the
 * previous one.
 */
#define STEPS 256
/* Number of bisections that find the step for a sample. */
#define ROUNDS 8
#define SIDES (LARGE == SMALL ? 1 : 2)

/* Data that blocks exchange; zero at first. */
struct Control {
    u32 ticket, moved;  /* number of pieces that have been begun */
    u64 bytes, coded;   /* bytes of all tiles, and number of tiles that are not empty */
    u64 tally[2][2];    /* of a sample: bits, or squared error; number of values */
    /* for each side the largest index of a step that is known to keep the bound on the sample */
    u32 low[2];
    /* index of the step, and smallest index whose step is too large */
    u32 index, end;
    u32 longest;        /* largest length in bytes of a tile that is not raw */
    u32 side;           /* 0: the larger side, 1: the smaller side */
    u32 done;           /* number of blocks of a kernel that have finished */
    u32 none;           /* 1: the array cannot be coded */
    u32 found;          /* 1: the index is final */
    u32 spare;
};

/* ---- Steps ---- */

/* 2^(i/16), i = 0, ..., 15 */
static __constant__ const double octave[16] = {1.0, 1.0442737824274138, 1.0905077326652577, 1.1387886347566916, 1.189207115002721, 1.241857812073484,
                                               1.2968395546510096, 1.3542555469368927, 1.4142135623730951, 1.4768261459394993, 1.5422108254079407,
                                               1.6104903319492543, 1.681792830507429, 1.7562521603732995, 1.8340080864093424, 1.9152065613971474};

/* Returns 2^(index/16), the ratio of the step with this index to the target. */
static __device__ __forceinline__ double step_of(u32 index) { return octave[index % 16] * double_of((u64)(1023 + index / 16) << 52); }

/* Returns true if the mean square of the errors is within the target. */
static __device__ __forceinline__ int holds(u64 energy, double step, double target, u64 values)
{
    const double relative = step / target;
    return (double)energy * (relative * relative) <= (double)values * (16384.0 * (1.0 - 1.0 / 65536.0));
}

template <int S> static __device__ __forceinline__ void set_quantiser(Shared *s, const Job *job, u32 index)
{
    if (threadIdx.x != 0)
        return;
    const double step = job->rms ? job->bound * step_of(index) : job->bound * 2.1;
    s->q = quantiser_of<S>(step, job->rms ? step : job->bound * 1.25, job->bound, job->rms);
}

/*
 * Returns true in the last block of the grid that calls this function; this block sees what the
 * other blocks have written.
 */
static __device__ __forceinline__ int is_last(Shared *s, Control *control)
{
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        s->flag = atomicAdd(&control->done, 1u) == gridDim.x - 1;
        __threadfence();
        if (s->flag)
            control->done = 0;
    }
    __syncthreads();
    return s->flag;
}

/* ---- Pieces ---- */

/* The number of a tile that does not exist. */
#define NOWHERE (~0u)

/* Returns the number of tiles of side S in a tile of the larger side. */
template <int S> static __device__ __forceinline__ u32 parts_of(const Tables *tables)
{
    return S == LARGE ? 1 : (u32)(tables->parts[0] * tables->parts[1] * tables->parts[2]);
}

/* Returns the s-th tile of the sample. */
template <int S> static __device__ __forceinline__ u32 sampled(const Tables *tables, u32 s)
{
    const Grid *large = &tables->grids[0], *grid = &tables->grids[1];
    const u32 all = parts_of<S>(tables), number = s / all;
    if (number >= tables->sample)
        return NOWHERE;
    const u32 tile = tables->sample == large->tiles ? number : (u32)__umul64hi(number * 0x9e3779b97f4a7c15ull, large->tiles);
    if (S == LARGE)
        return tile;
    const u32 m0 = (u32)large->m[0], m1 = (u32)large->m[1], row = tile / m0, place[3] = {tile % m0, row % m1, row / m1};
    u32 part = s % all, index = 0, step = 1;
#pragma unroll
    for (u32 a = 0; a < 3; a++) {
        const u32 parts = (u32)tables->parts[a], at = place[a] * parts + part % parts, m = (u32)grid->m[a];
        part /= parts;
        if (at >= m)
            return NOWHERE;
        index += at * step;
        step *= m;
    }
    return index;
}

/* Begins piece `piece` of the sample or of the array. */
template <int S> static __device__ __forceinline__ void begin(Shared *s, const Tables *tables, const Grid *grid, u32 piece, int sample)
{
    __syncthreads();
    if (threadIdx.x < Tile<S>::count) {
        const u32 number = piece * Tile<S>::count + threadIdx.x;
        s->places[threadIdx.x] = place_of<S>(grid, sample ? sampled<S>(tables, number) : number);
        s->raw[threadIdx.x] = 0;
        s->energies[threadIdx.x] = 0;
    }
    __syncthreads();
}

template <int S> static __device__ __forceinline__ Source source_of(const real *x, const real *later, const Tables *tables)
{
    const u32 side = S == LARGE ? 0 : 1;
    return Source{x, later, &tables->grids[side], tables->order[side]};
}

template <int S> static __device__ __forceinline__ u32 pieces_of(const Tables *tables, int sample)
{
    const u64 tiles = sample ? tables->sample * parts_of<S>(tables) : tables->grids[S == LARGE ? 0 : 1].tiles;
    return (u32)((tiles + Tile<S>::count - 1) / Tile<S>::count);
}

/* ---- Bounds on the mean square ---- */

/* Adds the squared errors and the numbers of values of a piece's tiles to `tally`. */
template <int S> static __device__ __forceinline__ void measure_piece(Shared *s, const Source *from, u64 *tally)
{
    if (gather<S>(s, from)) {
        i32 q[EACH];
        quantise<S>(s, q);
    } else {
        for (u32 i = 0; i < EACH; i++)
            s->room[at<S>(own(i))] = 0;
        sync<S>();
    }
    measure<S>(s, from);
    __syncthreads();
    const u32 tile = threadIdx.x;
    const int there = tile < Tile<S>::count && s->places[tile].there;
    add_to(&tally[0], there && !s->raw[tile] ? s->energies[tile] : 0);
    add_to(&tally[1], there ? values_inside(&s->places[tile]) : 0);
}

/* Measures this block's pieces: piece `first` and every `stride`-th piece after it. */
template <int S> static __device__ __forceinline__ void measure_pieces(Shared *s, const real *x, const real *later, const Tables *tables, const Job *job, Control *control, u32 round, u32 first, u32 stride)
{
    const Source from = source_of<S>(x, later, tables);
    const u32 side = S == LARGE ? 0 : 1, pieces = pieces_of<S>(tables, round < ROUNDS);
    __syncthreads();
    set_quantiser<S>(s, job, round < ROUNDS ? control->low[side] + (STEPS / 2 >> round) : ((volatile Control *)control)->index);
    __syncthreads();
    for (u32 piece = first; piece < pieces && s->q.fits; piece += stride) {
        begin<S>(s, tables, from.grid, piece, round < ROUNDS);
        measure_piece<S>(s, &from, control->tally[round < ROUNDS ? side : 0]);
    }
    if (threadIdx.x == 0 && !s->q.fits)
        atomicOr(&control->none, 1u);
}

/*
 * Engine::find_step of the host: for both sides, decides whether the step in the middle of the
 * remaining interval keeps the bound on the sample.
 */
static __device__ __forceinline__ void halve(const Job *job, Control *control, u32 round)
{
    for (u32 side = 0; side < 2; side++) {
        volatile u64 *tally = control->tally[side];
        const u32 middle = control->low[side] + (STEPS / 2 >> round);
        if (tally[1] != 0 && holds(tally[0], job->bound * step_of(middle), job->bound, tally[1]))
            control->low[side] = middle;
        tally[0] = tally[1] = 0;
    }
}

/*
 * Engine::compress_mean of the host: from the squared error of the whole array, decides whether the
 * index is final, and otherwise chooses the next index. The block's other threads may already read
 * `none` and `found`, so that these are volatile; all threads wait for this one before they act.
 */
static __device__ __forceinline__ void next_step(const Job *job, volatile Control *control, u64 values)
{
    volatile u64 *tally = control->tally[0];
    const u64 energy = tally[0];
    tally[0] = tally[1] = 0;
    const u32 index = control->index, end = control->end;
    const double target = job->bound, step = target * step_of(index);
    if (holds(energy, step, target, values)) {
        u32 by = 1;
        while (by < end - index && holds(energy, step * step_of(by), target, values))
            by++;
        control->found = by == 1;
        control->index = index + by - 1;
    } else if (index == 0) {
        control->none = 1;
    } else {
        u32 by = 1;
        while (by <= index && !holds(energy, step / step_of(by), target, values))
            by++;
        control->end = index;
        control->index = by <= index ? index - by : index - 1;
    }
}

/*
 * Finds the step for a bound on the mean square. Rounds 0 to 7 bisect the table of steps on the
 * sample with both sides; even blocks work on the larger side, odd blocks on the smaller side.
 * Round 8 is a pass over the array. The number of passes is not known beforehand: the host enqueues
 * a few passes with all blocks, then round 9, in which a single block makes all remaining passes.
 * The last block to finish a round decides.
 */
extern "C" __global__ void __launch_bounds__(THREADS, ENCODERS)
    dct_mean(const real *x, const real *later, const Tables *tables, Job *job, Control *control, u32 round)
{
    __shared__ Shared s;
    const volatile Control *now = control;
    const u32 sides = round < ROUNDS ? SIDES : 1;
    if (!job->go || !job->rms)
        return;
    while (!__syncthreads_or(now->none || now->found)) {
        if (SIDES == 1 || (round < ROUNDS ? blockIdx.x % 2 : now->side) == 0)
            measure_pieces<LARGE>(&s, x, later, tables, job, control, round, blockIdx.x / sides, gridDim.x / sides);
        else
            measure_pieces<SMALL>(&s, x, later, tables, job, control, round, blockIdx.x / sides, gridDim.x / sides);
        if (is_last(&s, control) && threadIdx.x == 0 && !now->none) {
            if (round < ROUNDS)
                halve(job, control, round);
            else
                next_step(job, control, tables->values);
            __threadfence();
        }
        if (round <= ROUNDS)
            return;
    }
}

/* ---- Sides ---- */

/* Adds up the bits of the tiles of a piece of the sample. */
template <int S> static __device__ __forceinline__ void add_sizes(const Shared *s, u64 *bits)
{
    const u32 tile = threadIdx.x;
    u64 size = 0;
    if (tile < Tile<S>::count && s->places[tile].there)
        size = s->bytes[tile] == 0 ? 1 : 12 + 8 * (u64)s->bytes[tile];
    add_to(bits, size);
}

/*
 * Chooses the side with which the sample takes fewer bits. A side with which no step keeps the
 * bound on the sample counts as infinitely large.
 */
static __device__ __forceinline__ void choose_side(const Job *job, Control *control)
{
    const volatile u64 *large = control->tally[0], *small = control->tally[1];
    const u64 bits_large = job->rms && control->low[0] == 0 ? ~0ull : large[0], bits_small = job->rms && control->low[1] == 0 ? ~0ull : small[0];
    control->side = SIDES == 2 && bits_small < bits_large;
    control->index = control->low[control->side];
    control->end = STEPS;
    control->tally[0][0] = 0;
}

/* ---- Coding ---- */

/*
 * Computes where the tiles are in the piece and where the piece is in the payload: s->offsets,
 * s->before and s->coded_before, valid behind a barrier. Sets the words of the piece to zero.
 * Returns the bytes of the piece; *rank: the number of tiles that are not empty before the tile
 * with this thread's number.
 */
template <int S> static __device__ __forceinline__ u32 place_tiles(Shared *s, u32 pieces, Control *control, u64 *status, u32 *rank)
{
    const u32 tile = threadIdx.x, bytes = tile < Tile<S>::count && s->places[tile].there ? s->bytes[tile] : 0;
    u32 all, coded;
    const u32 offset = block_scan(bytes, &all, s->block);
    *rank = block_scan(bytes != 0, &coded, s->block);
    if (tile < Tile<S>::count)
        s->offsets[tile] = offset;
    for (u32 w = tile; w < (all + 3) / 4; w += THREADS)
        s->words[w] = 0;
    __syncthreads();
    if (warp_id() < 2) {
        const u32 sum = warp_id() == 0 ? all : coded;
        const u64 before = sum_before(status + warp_id() * pieces, s->piece, sum);
        if (lane_id() == 0)
            *(warp_id() == 0 ? &s->before : &s->coded_before) = before;
        if (lane_id() == 0 && s->piece + 1 == pieces)
            *(warp_id() == 0 ? &control->bytes : &control->coded) = before + sum;
    }
    return all;
}

/*
 * Stores the lengths of the piece's tiles: in `lengths` of all tiles, in `table` of those that are
 * not empty.
 */
template <int S> static __device__ __forceinline__ void put_lengths(Shared *s, Control *control, u32 *lengths, u32 *table, u32 rank)
{
    const u32 tile = threadIdx.x;
    if (tile >= Tile<S>::count || !s->places[tile].there)
        return;
    const u32 length = s->raw[tile] ? RAW : s->bytes[tile];
    lengths[(u64)s->piece * Tile<S>::count + tile] = length;
    if (length != 0)
        table[s->coded_before + rank] = length == RAW ? 0 : length;
    if (length != 0 && length != RAW && length > *(volatile u32 *)&control->longest)
        atomicMax(&control->longest, length);
}

/* Copies the bytes of the piece to their place in the payload, which can begin at any byte. */
static __device__ __forceinline__ void copy_out(const Shared *s, u8 *to, u32 bytes)
{
    const u32 shift = 8 * (u32)((u64)to & 3), words = (bytes + shift / 8 + 3) / 4;
    u8 *const aligned = to - shift / 8;
    for (u32 w = threadIdx.x; w < words; w += THREADS) {
        const u32 low = w > 0 ? s->words[w - 1] : 0, high = 4 * w < bytes ? s->words[w] : 0;
        const u32 word = shift == 0 ? high : high << shift | low >> (32 - shift);
        if (4 * w >= shift / 8 && 4 * w + 4 <= bytes + shift / 8)
            ((u32 *)aligned)[w] = word;
        else
            for (u32 i = 0; i < 4; i++)
                if (4 * w + i >= shift / 8 && 4 * w + i < bytes + shift / 8)
                    aligned[4 * w + i] = (u8)(word >> 8 * i);
    }
}

/*
 * Codes a piece: with `sample` the block's piece of the sample, and only its sizes; otherwise the
 * next piece of the array, by ticket, so that all earlier pieces have been begun.
 */
template <int S> static __device__ __forceinline__ void encode(Shared *s, const real *x, const real *later, const Tables *tables, const Job *job, Control *control, u64 *status, u32 *lengths, u32 *table, int sample)
{
    const Source from = source_of<S>(x, later, tables);
    const u32 side = S == LARGE ? 0 : 1, pieces = pieces_of<S>(tables, sample);
    set_quantiser<S>(s, job, sample ? control->low[side] : control->index);
    if (threadIdx.x == 0) {
        s->piece = sample ? blockIdx.x / SIDES : atomicAdd(&control->ticket, 1u);
        /* With a bound on the mean square, a side without a step is not an error of the sample. */
        if (!s->q.fits && !(sample && job->rms))
            atomicOr(&control->none, 1u);
    }
    __syncthreads();
    if (s->piece >= pieces || !s->q.fits)
        return;
    begin<S>(s, tables, from.grid, s->piece, sample);
    Coded<S> c;
    code<S>(s, &from, &c);
    __syncthreads();
    if (sample)
        return add_sizes<S>(s, &control->tally[side][0]);
    u32 rank;
    const u32 bytes = place_tiles<S>(s, pieces, control, status, &rank);
    write<S>(s, &from, &c);
    __syncthreads();
    put_lengths<S>(s, control, lengths, table, rank);
    copy_out(s, (u8 *)job->payload + HEAD + from.grid->longest + s->before, bytes);
}

/*
 * Codes the sample with both sides (even blocks the larger side, odd blocks the smaller side), or
 * the array.
 */
extern "C" __global__ void __launch_bounds__(THREADS, ENCODERS)
    dct_encode(const real *x, const real *later, const Tables *tables, Job *job, Control *control, u64 *status, u32 *lengths, u32 *table, u32 sample)
{
    __shared__ Shared s;
    if (__syncthreads_or(!job->go || control->none))
        return;
    if (SIDES == 1 || (sample ? blockIdx.x % 2 : control->side) == 0)
        encode<LARGE>(&s, x, later, tables, job, control, status, lengths, table, sample);
    else
        encode<SMALL>(&s, x, later, tables, job, control, status, lengths, table, sample);
    if (sample && is_last(&s, control) && threadIdx.x == 0)
        choose_side(job, control);
}
