/*
 * What all kernels share. A module is this file and one other, compiled for one type of values (FP64 = 0 or 1) without fused operations:
 * every result must be that of the host codecs in src/codec, bit for bit.
 *
 * A snapshot is made stream by stream. Its jobs lie in device memory: what the coder of one stream is to do, and what became of it. A
 * kernel of a coder returns at once where job->go is 0, since the host, which enqueues it, cannot know.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

#if FP64
typedef double real;
typedef u64 bits;
#else
typedef float real;
typedef u32 bits;
#endif

/* Extents of an array, n1 fastest. */
struct Extents {
    u64 n[3];
};

/* Bytes of a stream's header, and what streams are aligned to. */
#define HEADER 64
/* job->bytes of an array that the coder cannot code. */
#define NONE (~0ull)

/* One stream, being made or read. */
struct Job {
    double bound;    /* what the coder has to keep, positive */
    u64 payload;     /* where its payload is: a multiple of 64; room for what the host's `max_bytes` says */
    u64 bytes;       /* of the payload; told by the coder when it is made, NONE if it cannot be coded */
    u64 sum;         /* checksum of header and payload, as far as it is added up */
    double promised; /* the bound in the header */
    double value;    /* of all values, if they are the same */
    u32 rms;         /* the bound is that of the root of the mean square */
    u32 go;          /* the coder's kernels do something */
    u32 active;      /* there is such a stream */
    u32 wanted;      /* `go`, if it becomes active */
    u32 content;     /* 0 as they are, 1 coded, 2 one value */
    u32 reference;   /* 0, or 1 + the field from which the array is the difference */
    u32 damaged;     /* what is read cannot be decoded */
    u32 spare;
    double max;      /* the greatest finite |x| */
    u64 nonfinite;   /* NaNs and infinities */
    u64 work[8];     /* the coder's own, zero at first */
};

/* ---- Values: an array, or what a later time level is more than it ---- */

static __device__ __forceinline__ real load(const real *x, const real *later, u64 i)
{
    return later ? later[i] - x[i] : x[i];
}

/* The same formula takes a difference apart. */
static __device__ __forceinline__ void store(real *x, const real *later, u64 i, real v)
{
    x[i] = later ? later[i] - v : v;
}

static __device__ __forceinline__ bits bits_of(real x)
{
#if FP64
    return (u64)__double_as_longlong(x);
#else
    return __float_as_uint(x);
#endif
}

static __device__ __forceinline__ real real_of(bits b)
{
#if FP64
    return __longlong_as_double((i64)b);
#else
    return __uint_as_float(b);
#endif
}

static __device__ __forceinline__ double double_of(u64 b) { return __longlong_as_double((i64)b); }
static __device__ __forceinline__ u64 bits_of_double(double x) { return (u64)__double_as_longlong(x); }

/* ---- Sums over a block of whole warps. Every thread calls them. ---- */

static __device__ __forceinline__ u32 lane_id() { return threadIdx.x & 31; }

/* The sum of v over the lanes before this one; `all`: over all. */
static __device__ __forceinline__ u32 warp_scan(u32 v, u32 *all)
{
    u32 sum = v;
    for (int by = 1; by < 32; by *= 2) {
        const u32 other = __shfl_up_sync(~0u, sum, by);
        if (lane_id() >= (u32)by)
            sum += other;
    }
    *all = __shfl_sync(~0u, sum, 31);
    return sum - v;
}

/* The same over the block; `room`: 33 words of shared memory, free again when all threads have passed the next barrier, or for another scan
 * at once: what a warp reads at the end of one, no other writes before all are in the next. */
static __device__ __forceinline__ u32 block_scan(u32 v, u32 *all, u32 *room)
{
    u32 of_warp, before = warp_scan(v, &of_warp);
    const u32 warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    if (lane_id() == 0)
        room[warp] = of_warp;
    __syncthreads();
    if (warp == 0) {
        u32 sum, from = warp_scan(lane_id() < warps ? room[lane_id()] : 0, &sum);
        __syncwarp();
        room[lane_id()] = from;
        if (lane_id() == 0)
            room[32] = sum;
    }
    __syncthreads();
    before += room[warp];
    *all = room[32];
    return before;
}

static __device__ __forceinline__ u64 warp_sum(u64 v)
{
    for (int by = 16; by > 0; by /= 2)
        v += __shfl_xor_sync(~0u, v, by);
    return v;
}

/* The sum of v over the block, added up in the same order always, for all threads; `room`: 32 numbers of shared memory. */
static __device__ __forceinline__ double block_sum(double v, double *room)
{
    for (int by = 16; by > 0; by /= 2)
        v += __shfl_xor_sync(~0u, v, by);
    if (lane_id() == 0)
        room[threadIdx.x / 32] = v;
    __syncthreads();
    v = lane_id() < blockDim.x / 32 ? room[lane_id()] : 0;
    for (int by = 16; by > 0; by /= 2)
        v += __shfl_xor_sync(~0u, v, by);
    return v;
}

/* The sum of what the blocks of a grid gave, one number each; all threads of one block. */
static __device__ __forceinline__ double sum_of(const double *sums, u32 count, double *room)
{
    double sum = 0;
    for (u32 i = threadIdx.x; i < count; i += blockDim.x)
        sum += sums[i];
    return block_sum(sum, room);
}

/* Adds the v of all threads to *to. */
static __device__ __forceinline__ void add_to(u64 *to, u64 v)
{
    v = warp_sum(v);
    if (lane_id() == 0 && v != 0)
        atomicAdd(to, v);
}

/* ---- The checksum, as src/codec/checksum.rs explains it ---- */

/* Words that have a weight in common and a key each: a power of two. Where a thread goes on by a multiple of it, its key stays. */
#define CHECKSUM_RUN 256

static __device__ __forceinline__ u64 splitmix64(u64 i)
{
    u64 x = (i + 1) * 0x9E3779B97F4A7C15ull;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
}

static __device__ __forceinline__ u64 checksum_key(u64 index) { return splitmix64(index % CHECKSUM_RUN); }

/*
 * What word `index`, with its key, adds to a checksum. The words of a stream are numbered from its beginning; the checksum's own, 7, is left
 * out.
 */
static __device__ __forceinline__ u64 checksum_term(u64 word, u64 index, u64 key)
{
    const u64 x = word ^ key;
    return (splitmix64(~(index / CHECKSUM_RUN)) | 1) * (x + (x & 0xFFFFFFFFu) * (x >> 32));
}

/* ---- Sums over a grid ---- */

/* What the words of a grid's sum say: the sum of one block is known, or that of it and all before it. */
#define OWN_SUM (1ull << 62)
#define WHOLE_SUM (2ull << 62)

/* Tells the blocks behind of a sum, where there is something else to do before `sum_before`, which does it too. */
static __device__ __forceinline__ void sum_announce(volatile u64 *status, u32 block, u64 sum)
{
    if (lane_id() == 0 && block > 0)
        status[block] = OWN_SUM | sum;
}

/*
 * The sum of what the blocks before this one give, by decoupled look-back (Merrill and Garland, "Single-pass Parallel Prefix Scan with
 * Decoupled Look-back", 2016). The first warp of every block calls it, all lanes with the same arguments. `block` is a ticket, taken by an
 * atomicAdd, so that the blocks before have begun; `status` has a word per block, zero at first; sums are below 2^62.
 */
static __device__ __forceinline__ u64 sum_before(volatile u64 *status, u32 block, u64 sum)
{
    u64 before = 0;
    sum_announce(status, block, sum);
    for (i64 last = (i64)block - 1; last >= 0; last -= 32) {
        const i64 at = last - lane_id();
        u64 word = at < 0 ? WHOLE_SUM : status[at];
        while (__any_sync(~0u, word < OWN_SUM)) {
            __nanosleep(20);
            word = at < 0 ? WHOLE_SUM : status[at];
        }
        const u32 wholes = __ballot_sync(~0u, word >= WHOLE_SUM), first = __ffs(wholes) - 1;
        before += warp_sum(wholes == 0 || lane_id() <= first ? word & (OWN_SUM - 1) : 0);
        if (wholes != 0)
            break;
    }
    if (lane_id() == 0)
        status[block] = WHOLE_SUM | (before + sum);
    return before;
}
