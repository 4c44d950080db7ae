/*
 * The codec dct, compressing: writes header and directory and moves the tiles directly behind them,
 * as Engine::finish of src/codec/dct/engine.rs does.
 */

#define MOVERS 256
/* Words of 8 bytes that a thread, and bytes that a block, moves at a time, in registers. */
#define WORDS 8
#define CHUNK (8ull * WORDS * MOVERS)
/* Words of 4 bytes of header and directory that a block makes at a time. */
#define PART 1024ull

struct Head {
    u64 words[3]; /* the header, before the directory */
    /* first byte behind the bits that say which tiles are not empty */
    u64 map;
    u64 begin;    /* first byte behind the directory */
    u64 coded;
    u32 width;    /* bits of a length */
    u64 tiles;
};

static __device__ __forceinline__ Head head_of(const Tables *tables, const Job *job, const Control *control)
{
    const u32 side = control->side;
    const double step = job->rms ? job->bound * step_of(control->index) : job->bound * 2.1, unit = job->rms ? step : job->bound * 1.25;
    Head head;
    head.tiles = tables->grids[side].tiles;
    head.coded = control->coded;
    head.width = 32 - __clz(control->longest);
    head.map = HEAD + (head.tiles + 7) / 8;
    head.begin = head.map + (head.coded * head.width + 7) / 8;
    head.words[0] = (side == 0 ? LARGE : SMALL) | head.width << 8;
    head.words[1] = bits_of_double(step);
    head.words[2] = bits_of_double(unit);
    return head;
}

static __device__ __forceinline__ u32 head_byte(const Head *head, const u32 *lengths, const u32 *table, u64 at)
{
    if (at < HEAD)
        return (u32)((at < 8 ? head->words[0] : at < 16 ? head->words[1] : head->words[2]) >> 8 * (at % 8)) & 0xFF;
    u32 byte = 0;
    if (at < head->map) {
        const u64 first = 8 * (at - HEAD);
        for (u32 i = 0; i < 8 && first + i < head->tiles; i++)
            byte |= (u32)(lengths[first + i] != 0) << i;
        return byte;
    }
    /* Only the lengths that have bits in this byte. */
    const u64 bit = 8 * (at - head->map);
    for (u64 i = bit / head->width; i < head->coded && i * head->width < bit + 8; i++) {
        const i64 from = (i64)(i * head->width) - (i64)bit;
        byte |= from >= 0 ? table[i] << from : table[i] >> -from;
    }
    return byte & 0xFF;
}

static __device__ __forceinline__ void write_head(const Head *head, const u32 *lengths, const u32 *table, u8 *to, u64 part)
{
    for (u64 w = part * PART + threadIdx.x; w < (part + 1) * PART && 4 * w < head->begin; w += MOVERS) {
        u32 word = 0;
        for (u32 i = 0; i < 4 && 4 * w + i < head->begin; i++)
            word |= head_byte(head, lengths, table, 4 * w + i) << 8 * i;
        if (4 * w + 4 <= head->begin)
            ((u32 *)to)[w] = word;
        else
            for (u32 i = 0; 4 * w + i < head->begin; i++)
                to[4 * w + i] = (u8)(word >> 8 * i);
    }
}

/* Returns the 8 bytes that belong at `at`, a multiple of 8; they are now `by` bytes further on. */
static __device__ __forceinline__ u64 word_at(const u8 *payload, u64 at, u64 by)
{
    const u64 *from = (const u64 *)(payload + ((at + by) & ~7ull));
    const u32 shift = 8 * (u32)(by & 7);
    return shift == 0 ? from[0] : from[0] >> shift | from[1] << (64 - shift);
}

/*
 * As `word_at`, but reads only bytes that belong at `begin` or behind it and before `end`: other
 * blocks may be writing the bytes in front of them, and nothing may have written those behind them.
 */
static __device__ __forceinline__ u64 bytes_at(const u8 *payload, u64 at, u64 by, u64 begin, u64 end)
{
    u64 word = 0;
    for (u32 k = 0; k < 8; k++)
        if (at + k >= begin && at + k < end)
            word |= (u64)payload[at + k + by] << 8 * k;
    return word;
}

/*
 * Moves chunk `chunk` of the tiles `by` bytes towards the header. The destination may overlap the
 * chunk itself and up to two earlier chunks. The block loads its chunk into registers, announces
 * this, waits until these earlier chunks have been loaded, and then stores its chunk. The blocks
 * with the earlier chunks took earlier tickets and load them without waiting for anything.
 */
static __device__ __forceinline__ void move(u8 *payload, u64 begin, u64 end, u64 by, u64 chunk, volatile u32 *loaded)
{
    const u64 first = begin / 8 * 8 + chunk * CHUNK, behind = by / CHUNK;
    u64 words[WORDS];
#pragma unroll
    for (u32 i = 0; i < WORDS; i++) {
        const u64 at = first + 8 * (i * MOVERS + threadIdx.x);
        const int inner = at != first && at >= begin + 8 && at + 16 <= end;
        words[i] = at >= end ? 0 : inner ? word_at(payload, at, by) : bytes_at(payload, at, by, begin, end);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        loaded[chunk] = 1;
        for (u64 back = behind; back <= behind + 1; back++)
            while (back > 0 && back <= chunk && loaded[chunk - back] == 0)
                __nanosleep(20);
        __threadfence();
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < WORDS; i++) {
        const u64 at = first + 8 * (i * MOVERS + threadIdx.x);
        if (at >= begin && at + 8 <= end)
            *(u64 *)(payload + at) = words[i];
        else
            for (u32 k = 0; k < 8; k++)
                if (at + k >= begin && at + k < end)
                    payload[at + k] = (u8)(words[i] >> 8 * k);
    }
}

extern "C" __global__ void __launch_bounds__(MOVERS)
    dct_finish(const Tables *tables, Job *job, Control *control, const u32 *lengths, const u32 *table, u32 *loaded)
{
    __shared__ u32 ticket;
    if (!job->go || control->none)
        return;
    const Head head = head_of(tables, job, control);
    const u64 end = head.begin + control->bytes, by = HEAD + tables->grids[control->side].longest - head.begin;
    if (end >= tables->values * sizeof(real))
        return; /* job->bytes keeps the value NONE */
    const u64 parts = (head.begin + 4 * PART - 1) / (4 * PART), chunks = by == 0 ? 0 : (end - head.begin / 8 * 8 + CHUNK - 1) / CHUNK;
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0)
            ticket = atomicAdd(&control->moved, 1u);
        __syncthreads();
        if (ticket == 0 && threadIdx.x == 0)
            job->bytes = end;
        if (ticket >= parts + chunks)
            return;
        if (ticket < parts)
            write_head(&head, lengths, table, (u8 *)job->payload, ticket);
        else
            move((u8 *)job->payload, head.begin, end, by, ticket - parts, loaded);
    }
}
