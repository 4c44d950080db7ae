/*
 * The codec cuszp (after cuSZp, Huang et al. 2023); src/codec/cuszp describes the format. A block
 * of threads codes a tile, 64 blocks of 32 values. Four threads hold a block of values, eight
 * values each.
 */

#define BLOCKS 64
#define AS_IS 0x7F
/* The largest number of bytes of 64 coded blocks, and the words of shared memory for them. */
#if FP64
#define CODED (BLOCKS * LINE * 8)
#else
#define CODED (BLOCKS * (8 + 4 * 31))
#endif
#define ROOM (CODED / 4 + 4)

/* A block of values: its rate byte, its size in bytes, and where it is. */
struct Block {
    u32 rate;
    u32 size;
    u32 before; /* bytes of the tile's blocks before this one */
};

/* Returns the number of blocks of an array of n values. */
static __device__ __forceinline__ u64 blocks_of(u64 n) { return (n + LINE - 1) / LINE; }

/* Returns the bytes of this thread's block if it is stored raw; 0 for a block beyond the array. */
static __device__ __forceinline__ u32 raw_bytes(u64 n, u64 tile)
{
    const u64 first = tile * TILE + threadIdx.x / 4 * LINE;
    return first < n ? (u32)min(n - first, (u64)LINE) * (u32)sizeof(real) : 0;
}

/*
 * Returns the bytes of a block with this rate. An invalid rate gives the size for some valid rate.
 */
static __device__ __forceinline__ u32 size_of(u32 rate, u32 raw)
{
    return rate == AS_IS ? raw : rate == 0 ? 0 : rate & 0x80 ? 5 + (rate >> 5 & 3) + 4 * (rate & 31) : 4 + 4 * (rate & 31);
}

/*
 * Sets block->before and returns the bytes of all blocks of the tile. This function contains a
 * barrier. `of_warps`: WARPS words of shared memory.
 */
static __device__ __forceinline__ u32 place(Block *block, u32 *of_warps)
{
    const u32 warp = threadIdx.x / 32, lane = lane_id();
    u32 sum = block->size, all;
    for (u32 by = 4; by < 32; by *= 2) {
        const u32 other = __shfl_up_sync(~0u, sum, by);
        sum += lane >= by ? other : 0;
    }
    block->before = sum - block->size;
    if (lane == 31)
        of_warps[warp] = sum;
    __syncthreads();
    block->before += sum_of_warps(of_warps, &all);
    return all;
}

/* Returns the bitwise or of v over the four threads of a block of values. */
static __device__ __forceinline__ u32 or_of_block(u32 v)
{
    v |= __shfl_xor_sync(~0u, v, 1);
    return v | __shfl_xor_sync(~0u, v, 2);
}

/* ---- Encoder ---- */

/*
 * Quantises the values of a tile and stores the numbers in shared memory. Bit k of the result is
 * set if all values of line k of this warp keep the bound.
 */
static __device__ __forceinline__ u32 quantise_lines(const real *x, const real *later, u64 n, u64 tile, const Quantum &quantum, u32 *numbers)
{
    const u32 own = threadIdx.x / 32 * 8 * LINE + lane_id();
    const u64 first = tile * TILE + own;
    real values[8];
    u32 good = 0;
    for (u32 k = 0; k < 8; k++)
        values[k] = first + LINE * k < n ? x[first + LINE * k] : 0;
    for (u32 k = 0; later && k < 8; k++)
        values[k] = first + LINE * k < n ? later[first + LINE * k] - values[k] : 0;
    for (u32 k = 0; k < 8; k++)
        good |= (u32)(__all_sync(~0u, quantise(values[k], quantum, &numbers[own + LINE * k])) != 0) << k;
    return good;
}

/*
 * Computes the differences of the thread's eight numbers: magnitudes in v; the result has the signs
 * in the order of the stream.
 */
static __device__ __forceinline__ u32 differences(const u32 *numbers, u64 n, u64 tile, u32 v[8])
{
    const u64 first = tile * TILE + 8 * threadIdx.x;
    u32 before = threadIdx.x % 4 > 0 ? numbers[8 * threadIdx.x - 1] : 0, signs = 0;
    get_row(numbers, v);
    for (u32 i = 0; i < 8; i++) {
        const u32 number = v[i], step = first + i < n ? number - before : 0;
        before = number;
        signs |= step >> 31 << (7 - i);
        v[i] = magnitude(step);
    }
    return signs;
}

/*
 * Returns the rate of the thread's block, from its magnitudes. If the block stores its first number
 * apart, *first is this number, and it is removed from v.
 */
static __device__ __forceinline__ u32 rate_of(u32 v[8], u32 *first)
{
    u32 behind = 0;
    const u32 leads = threadIdx.x % 4 == 0;
    for (u32 i = 1; i < 8; i++)
        behind |= v[i];
    const u32 others = width_of(or_of_block(leads ? behind : behind | v[0]));
    *first = __shfl_sync(~0u, v[0], lane_id() & 28);
    const u32 all = max(others, width_of(*first)), apart = bytes_of(*first);
    if (all > 31)
        return AS_IS;
    if (apart + 4 * others >= 4 * all)
        return all;
    v[0] = leads ? 0 : v[0];
    return 0x80 | (apart - 1) << 5 | others;
}

/* Writes the thread's part of a block. */
static __device__ __forceinline__ void put_block(const Block &block, const u32 v[8], u32 signs, u32 first, u8 *to)
{
    const u32 apart = block.rate & 0x80 ? 1 + (block.rate >> 5 & 3) : 0, planes = block.rate & 31;
    if (block.rate == 0)
        return;
    to += block.before;
    for (u32 i = threadIdx.x % 4; i < apart; i += 4)
        to[i] = (u8)(first >> 8 * i);
    to += apart + threadIdx.x % 4;
    *to = (u8)signs;
    to += 4;
    /* The bytes are in reverse order because number 0 is bit 7 of a plane. */
    for (u32 k = 0; 8 * k < planes; k++, to += 32) {
        const Eight eight = transposed(Eight{four_bytes(v[7], v[6], v[5], v[4], k), four_bytes(v[3], v[2], v[1], v[0], k)});
        for (u32 p = 0; p < 8; p++)
            if (8 * k + p < planes)
                to[4 * p] = (u8)((p < 4 ? eight.low : eight.high) >> 8 * (p & 3));
    }
}

static __device__ void put_as_is(const real *x, const real *later, u64 n, u64 tile, u8 *to)
{
    const u64 first = tile * TILE + 8 * threadIdx.x;
    to += threadIdx.x % 4 * 8 * sizeof(real);
    for (u32 i = 0; i < 8 && first + i < n; i++) {
        const bits value = bits_of(load(x, later, first + i));
        for (u32 byte = 0; byte < sizeof(real); byte++)
            *to++ = (u8)(value >> 8 * byte);
    }
}

/* Codes an array, one block of threads per tile. `status`: one word per tile, zero at first. */
extern "C" __global__ void ENCODER cuszp_encode(const real *x, const real *later, u64 n, Job *job, const Quanta *quanta, u64 *status)
{
    __shared__ __align__(16) u32 room[ROOM];
    __shared__ u32 rates[BLOCKS / 4], of_warps[WARPS], ticket;
    __shared__ u64 begin;
    const u32 levels = quanta->levels;
    if (!job->go || levels == 0)
        return; /* job->bytes keeps the value NONE */
    if (threadIdx.x == 0)
        ticket = (u32)atomicAdd(&job->work[3], 1);
    __syncthreads();
    const u64 tile = ticket, head = 8 + blocks_of(n);
    u32 v[8], first;
    const u32 good = quantise_lines(x, later, n, tile, quanta->of[0], room);
    __syncwarp();
    const u32 signs = differences(room, n, tile, v), raw = raw_bytes(n, tile);
    Block block;
    block.rate = rate_of(v, &first);
    block.rate = good >> lane_id() / 4 & 1 ? block.rate : AS_IS;
    block.size = size_of(block.rate, raw);
    /* Behind the barrier in `place` all threads have read their numbers from `room`. */
    const u32 bytes = place(&block, of_warps);
    if (threadIdx.x < 32)
        sum_announce(status, (u32)tile, bytes);
    if (block.rate == AS_IS)
        put_as_is(x, later, n, tile, (u8 *)room + block.before);
    else
        put_block(block, v, signs, first, (u8 *)room);
    if (threadIdx.x % 4 == 0)
        ((u8 *)rates)[threadIdx.x / 4] = (u8)block.rate;
    if (threadIdx.x < 32) {
        const u64 before = sum_before(status, (u32)tile, bytes), end = head + before + bytes;
        if (lane_id() == 0) {
            begin = before;
            if (tile == 0)
                *(u64 *)job->payload = bits_of_double(quanta->of[0].step);
            if ((tile + 1) * TILE >= n)
                job->bytes = end <= n * sizeof(real) ? end : NONE;
        }
    }
    __syncthreads();
    put_piece(job->payload + 8 + tile * BLOCKS, (u32)min(blocks_of(n) - tile * BLOCKS, (u64)BLOCKS), rates);
    put_piece(job->payload + head + begin, bytes, room);
}

/* ---- Decoder ---- */

/*
 * Reads the thread's eight numbers from the bytes of its tile in shared memory, which begin at byte
 * `shift`.
 */
static __device__ __forceinline__ void get_block(const Block &block, const u32 *words, u32 shift, u32 v[8])
{
    const u32 coded = block.rate != 0 && block.rate != AS_IS, planes = coded ? block.rate & 31 : 0;
    const u32 apart = coded && block.rate & 0x80 ? 1 + (block.rate >> 5 & 3) : 0, own = threadIdx.x % 4;
    const u32 at = shift + block.before;
    const u8 *from = (const u8 *)words + at + apart + own;
    const u32 signs = coded ? from[0] : 0;
    for (u32 i = 0; i < 8; i++)
        v[i] = 0;
    for (u32 k = 0; 8 * k < planes; k++) {
        Eight rows = {0, 0};
        for (u32 p = 0; p < 8; p++) {
            const u32 byte = 8 * k + p < planes ? from[4 + 32 * k + 4 * p] : 0;
            if (p < 4)
                rows.low |= byte << 8 * p;
            else
                rows.high |= byte << 8 * (p - 4);
        }
        const Eight eight = transposed(rows);
        for (u32 i = 0; i < 8; i++)
            v[7 - i] |= ((i < 4 ? eight.low : eight.high) >> 8 * (i & 3) & 0xFF) << 8 * k;
    }
    if (apart > 0 && own == 0)
        v[0] += word_at(words, at) & (~0u >> (32 - 8 * apart));
    for (u32 i = 0; i < 8; i++) {
        const u32 sign = 0 - (signs >> (7 - i) & 1);
        v[i] = (v[i] ^ sign) - sign;
    }
}

/* Prefix sums along a block of values, which four threads hold. */
static __device__ __forceinline__ void sum_block(u32 v[8])
{
    for (u32 i = 1; i < 8; i++)
        v[i] += v[i - 1];
    u32 before = v[7];
    for (u32 by = 1; by < 4; by *= 2) {
        const u32 other = __shfl_up_sync(~0u, before, by);
        before += threadIdx.x % 4 >= by ? other : 0;
    }
    before -= v[7];
    for (u32 i = 0; i < 8; i++)
        v[i] += before;
}

/* Decodes an array, one block of threads per tile. `status`: one word per tile, zero at first. */
extern "C" __global__ void __launch_bounds__(256)
cuszp_decode(real *x, const real *later, u64 n, Job *job, u64 *status)
{
    __shared__ __align__(16) u32 room[ROOM];
    __shared__ u32 of_warps[WARPS], ticket;
    __shared__ u64 begin;
    if (!job->go)
        return;
    const real *whole = job->reference ? later : 0;
    const u64 head = 8 + blocks_of(n);
    const double unit = job->bytes < head ? 0 : double_of(*(const u64 *)job->payload);
    if (!(unit > 0 && unit - unit == 0)) {
        job->damaged = 1;
        return;
    }
    if (threadIdx.x == 0)
        ticket = (u32)atomicAdd(&job->work[3], 1);
    __syncthreads();
    const u64 tile = ticket, number = tile * BLOCKS + threadIdx.x / 4;
    Block block;
    block.rate = number < blocks_of(n) ? ((const u8 *)job->payload)[8 + number] : 0;
    const int valid = block.rate < 32 || block.rate == AS_IS || block.rate >= 0x80;
    block.size = size_of(block.rate, raw_bytes(n, tile));
    const u32 bytes = place(&block, of_warps);
    if (threadIdx.x < 32) {
        const u64 before = sum_before(status, (u32)tile, bytes);
        if (lane_id() == 0)
            begin = before;
    }
    const int damaged = __syncthreads_or(!valid);
    const u64 rest = job->bytes - head, address = job->payload + head + begin;
    const int ends = (tile + 1) * TILE >= n;
    if (damaged || bytes > CODED || begin > rest || bytes > rest - begin || (ends && bytes != rest - begin)) {
        job->damaged = 1;
        return;
    }
    get_piece(address, bytes, room);
    __syncthreads();
    u32 v[8];
    get_block(block, room, (u32)(address & 3), v);
    sum_block(v);
    __syncthreads();
    put_row(room, v);
    __syncwarp();
    const real step = (real)unit;
    const u32 own = threadIdx.x / 32 * 8 * LINE + lane_id();
    const u64 first = tile * TILE + own;
    real values[8];
    for (u32 k = 0; k < 8; k++) {
        const u32 rate = __shfl_sync(~0u, block.rate, 4 * k), before = __shfl_sync(~0u, block.before, 4 * k);
        values[k] = (real)(i32)room[own + LINE * k] * step;
        if (rate == AS_IS && first + LINE * k < n)
            values[k] = real_of(value_at(address + before + lane_id() * sizeof(real)));
    }
    for (u32 k = 0; whole && k < 8; k++)
        values[k] = first + LINE * k < n ? whole[first + LINE * k] - values[k] : 0;
    for (u32 k = 0; k < 8; k++)
        if (first + LINE * k < n)
            x[first + LINE * k] = values[k];
}
