/*
 * What all kernels share. A module consists of this file and one codec's files, compiled for one
 * type of values (FP64 = 0 or 1) without fused operations: every result must equal the result of
 * the host codecs in src/codec, bit for bit.
 *
 * A snapshot is made stream by stream. Its jobs (struct Job) are in device memory: what the coder
 * of a stream must do, and the result. The host enqueues the kernels of a coder without knowing
 * whether they are needed; a kernel returns at once if job->go is 0.
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

/* Length of a stream's header and alignment of streams, in bytes. */
#define HEADER 64
/* job->bytes of an array that the coder cannot code. */
#define NONE (~0ull)

/* One stream that is made or read. */
struct Job {
    /* the bound that the coder must keep, positive */
    double bound;
    /* ^address of the payload, a multiple of 64, with room for the coder's `max_bytes` */
    u64 payload;
    /* ^length of the payload in bytes; an encoder sets it, NONE if it cannot code the array */
    u64 bytes;
    u64 sum;         /* checksum of header and payload, the part that is summed up so far */
    double promised; /* the bound in the header */
    double value;    /* the value of all elements, if they are equal */
    u32 rms;         /* 1: the bound is on the root of the mean square */
    u32 go;          /* 1: the coder's kernels run */
    u32 active;      /* 1: the stream exists */
    u32 wanted;      /* the value that `go` gets if the stream becomes active */
    u32 content;     /* the payload: 0 raw, 1 coded, 2 one value */
    /* 0, or 1 + f: the stream holds the difference field f minus this field */
    u32 reference;
    u32 damaged;     /* 1: the stream that is read cannot be decoded */
    u32 spare;
    double max;      /* the largest finite |x| */
    u64 nonfinite;   /* number of NaNs and infinities */
    u64 work[8];     /* for the coder, zero at first */
};

/* ---- Values: an array x, or, if `later` is not null, the difference later - x ---- */

static __device__ __forceinline__ real load(const real *x, const real *later, u64 i)
{
    return later ? later[i] - x[i] : x[i];
}

/* Stores v; if v is a difference later - x, stores x = later - v. */
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

/* ---- Sums over a block of whole warps. Every thread of the block calls these functions. ---- */

static __device__ __forceinline__ u32 lane_id() { return threadIdx.x & 31; }

/* Returns the sum of v over the lanes before this one; *all: the sum over all lanes. */
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

/*
 * Returns the sum of v over the threads of the block before this one; *all: the sum over all
 * threads. `room`: 33 words of shared memory. They can be used for something else behind the next
 * barrier, and for another scan at once: a warp's own word is overwritten only after all its lanes
 * have read it, the other words only after all warps have begun the next scan.
 */
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
    __syncwarp();
    return before;
}

static __device__ __forceinline__ u64 warp_sum(u64 v)
{
    for (int by = 16; by > 0; by /= 2)
        v += __shfl_xor_sync(~0u, v, by);
    return v;
}

/*
 * Returns to all threads the sum of v over the block, always summed up in the same order. `room`:
 * 32 numbers of shared memory.
 */
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

/*
 * Returns the sum of `count` numbers, one from each block of an earlier grid. All threads of one
 * block call this function.
 */
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

/* ---- The checksum, which src/codec/checksum.rs explains ---- */

/*
 * Number of consecutive words that share a weight and have a key each; a power of two. If the
 * stride of a thread is a multiple of this number, all its words have the same key.
 */
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
 * Returns what word `index`, which has key `key`, adds to a checksum. The words of a stream are
 * numbered from its beginning; word 7, the checksum itself, is left out.
 */
static __device__ __forceinline__ u64 checksum_term(u64 word, u64 index, u64 key)
{
    const u64 x = word ^ key;
    return (splitmix64(~(index / CHECKSUM_RUN)) | 1) * (x + (x & 0xFFFFFFFFu) * (x >> 32));
}

/* ---- Sums over a grid ---- */

/*
 * Flags in a status word: the word holds the sum of one block, or the sum of this block and all
 * blocks before it.
 */
#define OWN_SUM (1ull << 62)
#define WHOLE_SUM (2ull << 62)

/*
 * Publishes the sum of a block early, so that later blocks need not wait while this block does
 * other work before it calls `sum_before`. (`sum_before` publishes the sum, too.)
 */
static __device__ __forceinline__ void sum_announce(volatile u64 *status, u32 block, u64 sum)
{
    if (lane_id() == 0 && block > 0)
        status[block] = OWN_SUM | sum;
}

/*
 * Returns the sum over all blocks before this one, by decoupled look-back (Merrill and Garland,
 * "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016). The first warp of every block
 * calls this function, all lanes with the same arguments. `block` must be a ticket from an
 * atomicAdd, so that all blocks before it have begun. `status` has one word per block, zero at
 * first; sums are below 2^62.
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
