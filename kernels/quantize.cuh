/*
 * What lorenzo and cuszp share: the quantiser of src/codec/quantize.rs, and strings of bytes that
 * begin at any address. Blocks have 256 threads, which code 2048 values. A warp has eight lines of
 * 32 values. First, a lane holds one place of each line; then a lane holds eight neighbouring
 * values, a row.
 */
#define LINE 32
#define TILE 2048
#define WARPS 8

/*
 * The encoders of FP64 must leave registers for at least four blocks per multiprocessor; without
 * the explicit limit the compiler uses more registers.
 */
#if FP64
#define ENCODER __launch_bounds__(256, 4)
#else
#define ENCODER __launch_bounds__(256)
#endif

#if FP64
#define MAGIC 6755399441055744.0
#define LEAST_BOUND (-930)
#define MOST_BOUND 1001
#else
#define MAGIC 12582912.0f
#define LEAST_BOUND (-128)
#define MOST_BOUND 121
#endif

struct Quantum {
    real step, inverse, bound;
};

/* The quanta of an array. */
struct Quanta {
    Quantum of[3];
    double unit;
    u32 levels; /* number of quanta in `of`; 0: no array can be coded with this bound */
};

static __device__ double power_of_two(i32 n) { return double_of((u64)(1023 + n) << 52); }

static __device__ __forceinline__ real magnitude_of(real x)
{
#if FP64
    return fabs(x);
#else
    return fabsf(x);
#endif
}

/* Rounds x >= 0 towards zero. */
static __device__ real down(double x)
{
    const real near = (real)x;
    return (double)near > x ? real_of(bits_of(near) - 1) : near;
}

static __device__ real step_of(double unit, u32 level) { return down(unit * (level == 0 ? 511.0 / 512.0 : level == 1 ? 31.0 / 32.0 : 3.0 / 4.0)); }

static __device__ Quantum quantum_of(double unit, double bound, u32 level)
{
    const real step = step_of(unit, level);
    return Quantum{step, 1 / step, down(bound * (1.0 - power_of_two(-20)))};
}

/* Returns the integer that was added to MAGIC. */
static __device__ __forceinline__ i32 whole(real sum)
{
#if FP64
    return (i32)(u32)bits_of(sum);
#else
    return (i32)(bits_of(sum) - bits_of(MAGIC));
#endif
}

/* Quantises a value. Returns 0 if the decoded value is outside the bound, as it is for NaN. */
static __device__ __forceinline__ u32 quantise(real x, const Quantum &quantum, u32 *q)
{
    const i32 number = whole(x * quantum.inverse + MAGIC);
    *q = (u32)number;
    return magnitude_of(x - (real)number * quantum.step) <= quantum.bound;
}

/* ---- Choice of the quantum ---- */

/* Returns true if the bound is on the mean square and a larger quantum must be measured for it. */
static __device__ int is_measured(const Job *job)
{
    return job->rms && job->bound >= power_of_two(LEAST_BOUND) && job->bound <= power_of_two(MOST_BOUND) / 4.0;
}

static __device__ double measured_unit(const Job *job) { return 3.4641016151377546 * job->bound; }

/*
 * Chooses the quanta as `choose` of quantize.rs does, from the measured sum of squares and count.
 */
static __device__ void choose(const Job *job, u64 sum, u64 count, Quanta *quanta)
{
    const double least = power_of_two(LEAST_BOUND), most = power_of_two(MOST_BOUND);
    const double value = job->bound < most ? job->bound : most;
    double unit = 2.0 * value, bound = value;
    quanta->levels = job->bound >= least ? 3 : 0;
    if (is_measured(job)) {
        const double wide = measured_unit(job), part = (double)step_of(wide, 0) / job->bound / 4096.0 * (1.0 + power_of_two(-20));
        if ((double)sum * part * part <= (double)count) {
            unit = bound = wide;
            quanta->levels = 1;
        }
    }
    quanta->unit = unit;
    for (u32 level = 0; level < 3; level++)
        quanta->of[level] = quantum_of(unit, bound, level);
}

/*
 * Sums up the squares of the errors, in units of (step / 4096)^2, and counts the values that are
 * coded.
 */
static __device__ void measure(const real *x, const real *later, u64 n, Job *job)
{
    const double unit = measured_unit(job);
    const Quantum quantum = quantum_of(unit, unit, 0);
    const u64 stride = (u64)gridDim.x * blockDim.x;
    u64 sum = 0, count = 0;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += 4 * stride) {
        real v[4];
        for (u32 k = 0; k < 4; k++)
            v[k] = i + k * stride < n ? x[i + k * stride] : 0;
        for (u32 k = 0; later && k < 4; k++)
            v[k] = i + k * stride < n ? later[i + k * stride] - v[k] : 0;
        for (u32 k = 0; k < 4; k++) {
            const real error = magnitude_of(v[k] - (real)whole(v[k] * quantum.inverse + MAGIC) * quantum.step);
            const u32 parts = (u32)whole(error * quantum.inverse * 4096 + MAGIC) + 1;
            const int counts = error <= quantum.bound && i + k * stride < n;
            sum += counts ? parts * parts : 0;
            count += counts;
        }
    }
    add_to(&job->work[0], sum);
    add_to(&job->work[1], count);
}

/*
 * Runs before the coder's kernel: sets `words` words of `zeros` to zero and chooses the quanta. The
 * kernel uses job->work[0] to [2]; the other words are for the coder. Blocks are counted to find
 * the last one to finish, which has all measurements.
 */
extern "C" __global__ void quantize_prepare(const real *x, const real *later, u64 n, Job *job, Quanta *quanta, u64 *zeros, u64 words)
{
    if (!job->go) {
        /* The coder's kernel reads the number of levels before it knows that it does not run. */
        if (blockIdx.x == 0 && threadIdx.x == 0)
            quanta->levels = 0;
        return;
    }
    const u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += stride)
        zeros[i] = 0;
    int last = blockIdx.x == 0;
    if (is_measured(job)) {
        measure(x, later, n, job);
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0)
            last = atomicAdd(&job->work[2], 1) == gridDim.x - 1;
        __threadfence();
    }
    if (threadIdx.x == 0 && last)
        choose(job, *(volatile u64 *)&job->work[0], *(volatile u64 *)&job->work[1], quanta);
}

/* ---- Integers ---- */

static __device__ __forceinline__ u32 magnitude(u32 number) { return (i32)number < 0 ? 0 - number : number; }

static __device__ __forceinline__ u32 width_of(u32 bits) { return 32 - __clz((i32)bits); }

static __device__ __forceinline__ u32 bytes_of(u32 bits) { return (width_of(bits) + 7) / 8; }

static __device__ __forceinline__ u32 warp_add(u32 v)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(~0u, v);
#else
    for (int by = 16; by > 0; by /= 2)
        v += __shfl_xor_sync(~0u, v, by);
    return v;
#endif
}

static __device__ __forceinline__ u32 warp_max(u32 v)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(~0u, v);
#else
    for (int by = 16; by > 0; by /= 2)
        v = max(v, __shfl_xor_sync(~0u, v, by));
    return v;
#endif
}

static __device__ __forceinline__ u32 warp_min(u32 v)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(~0u, v);
#else
    for (int by = 16; by > 0; by /= 2)
        v = min(v, __shfl_xor_sync(~0u, v, by));
    return v;
#endif
}

/*
 * Returns the sum over the warps before this one of the numbers that the warps stored in shared
 * memory; *all: the sum over all warps.
 */
static __device__ __forceinline__ u32 sum_of_warps(const u32 *of_warps, u32 *all)
{
    const u32 own = lane_id() < WARPS ? of_warps[lane_id()] : 0;
    *all = warp_add(own);
    return warp_add(lane_id() < threadIdx.x / 32 ? own : 0);
}

/* Eight bytes, or eight rows of eight bits. */
struct Eight {
    u32 low, high;
};

/* Transposes an 8 x 8 matrix of bits: bit j of byte i becomes bit i of byte j. */
static __device__ __forceinline__ Eight transposed(Eight m)
{
    u32 swap = (m.low ^ m.low >> 7) & 0x00AA00AA;
    m.low ^= swap ^ swap << 7;
    swap = (m.high ^ m.high >> 7) & 0x00AA00AA;
    m.high ^= swap ^ swap << 7;
    swap = (m.low ^ m.low >> 14) & 0x0000CCCC;
    m.low ^= swap ^ swap << 14;
    swap = (m.high ^ m.high >> 14) & 0x0000CCCC;
    m.high ^= swap ^ swap << 14;
    swap = (m.low ^ m.high << 4) & 0xF0F0F0F0;
    m.low ^= swap;
    m.high ^= swap >> 4;
    return m;
}

/* Returns byte k of each of four numbers. */
static __device__ __forceinline__ u32 four_bytes(u32 a, u32 b, u32 c, u32 d, u32 k)
{
    const u32 pair = k | (4 + k) << 4;
    return __byte_perm(__byte_perm(a, b, pair), __byte_perm(c, d, pair), 0x5410);
}

/* Loads this thread's row of eight numbers from shared memory. */
static __device__ __forceinline__ void get_row(const u32 *numbers, u32 v[8])
{
    const uint4 a = ((const uint4 *)numbers)[2 * threadIdx.x], b = ((const uint4 *)numbers)[2 * threadIdx.x + 1];
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
    v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

static __device__ __forceinline__ void put_row(u32 *numbers, const u32 v[8])
{
    ((uint4 *)numbers)[2 * threadIdx.x] = make_uint4(v[0], v[1], v[2], v[3]);
    ((uint4 *)numbers)[2 * threadIdx.x + 1] = make_uint4(v[4], v[5], v[6], v[7]);
}

/* ---- Pieces of a stream, which begin at any byte ---- */

/* Returns how many words of four bytes a piece touches. */
static __device__ __forceinline__ u32 words_of(u64 address, u32 bytes) { return bytes > 0 ? ((u32)(address & 3) + bytes + 3) / 4 : 0; }

/*
 * Writes word j of a piece. Only the bytes of the piece are written. `before` and `word` are
 * `words[j - 1]` and `words[j]` of the piece in shared memory, which are shifted to the piece's
 * address.
 */
static __device__ __forceinline__ void put_word(u64 address, u32 bytes, u32 j, u32 before, u32 word)
{
    const u32 shift = (u32)(address & 3), first = j == 0 ? shift : 0, end = shift + bytes - 4 * j;
    const u32 shifted = __funnelshift_l(before, word, 8 * shift);
    u8 *to = (u8 *)(address - shift + 4 * (u64)j);
    if (first == 0 && end >= 4) {
        *(u32 *)to = shifted;
        return;
    }
    for (u32 i = first; i < 4 && i < end; i++)
        to[i] = (u8)(shifted >> 8 * i);
}

/* Returns word j of a piece of `bytes` bytes; nothing may have written what is behind the piece. */
static __device__ __forceinline__ u32 piece_word(const u32 *words, u32 bytes, u32 j)
{
    if (4 * j + 4 <= bytes)
        return words[j];
    u32 word = 0;
    for (u32 k = 4 * j; k < bytes; k++)
        word |= (u32)((const u8 *)words)[k] << 8 * (k & 3);
    return word;
}

/* Copies a piece from shared memory to `address`; the whole block calls this function. */
static __device__ void put_piece(u64 address, u32 bytes, const u32 *words)
{
    for (u32 j = threadIdx.x; j < words_of(address, bytes); j += blockDim.x)
        put_word(address, bytes, j, j == 0 ? 0 : piece_word(words, bytes, j - 1), piece_word(words, bytes, j));
}

/*
 * Copies a piece from `address` to shared memory; the whole block calls this function. The piece
 * begins at byte `address & 3` of `words`. Behind it are two words of zeros, since `word_at` reads
 * beyond the bytes that it needs; `words` must have room for them.
 */
static __device__ void get_piece(u64 address, u32 bytes, u32 *words)
{
    const u32 *from = (const u32 *)(address & ~3ull);
    const u32 count = words_of(address, bytes);
    for (u32 j = threadIdx.x; j < count + 2; j += blockDim.x)
        words[j] = j < count ? from[j] : 0;
}

/* Returns four bytes of shared memory that begin at any byte. */
static __device__ __forceinline__ u32 word_at(const u32 *words, u32 byte)
{
    return __funnelshift_r(words[byte / 4], words[byte / 4 + 1], 8 * (byte & 3));
}

/*
 * Returns the bits of a value at any address. Only words that contain bytes of the value are read.
 */
static __device__ bits value_at(u64 address)
{
    const u32 *from = (const u32 *)(address & ~3ull);
    const u32 shift = (u32)(address & 3);
#if FP64
    const u32 second = from[1], last = shift ? from[2] : 0;
    return __funnelshift_r(from[0], second, 8 * shift) | (u64)__funnelshift_r(second, last, 8 * shift) << 32;
#else
    return __funnelshift_r(from[0], shift ? from[1] : 0, 8 * shift);
#endif
}
