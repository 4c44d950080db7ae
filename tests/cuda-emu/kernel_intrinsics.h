/* The second half of kernel.h: warp collectives, atomics, bits, floating point, vector types. */
#ifndef CUDA_EMU_KERNEL_INTRINSICS_H
#define CUDA_EMU_KERNEL_INTRINSICS_H

/* ---- Warps ---- */

template <class T> static inline uint64_t emu_bits(T v)
{
    static_assert(sizeof(T) <= 8, "at most 64 bits");
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    return bits;
}
template <class T> static inline T emu_value(uint64_t bits)
{
    T v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
static inline unsigned emu_lane() { return emu_current & 31; }

/* Waits for the lanes of the mask. Returns this lane's fibre, whose `seen` holds all lanes'
 * inputs. */
static inline emu_fibre &emu_collect(unsigned mask, unsigned kind, uint64_t value)
{
    emu_fibre &f = emu_fibres[emu_current];
    if (!(mask >> emu_lane() & 1))
        emu_fail("a warp collective whose mask lacks the calling lane");
    f.mask = mask, f.kind = kind, f.value = value, emu_states[emu_current] = EMU_WARP;
    emu_suspend();
    return emu_fibres[emu_current];
}
enum { EMU_SYNC = 1, EMU_SHFL, EMU_VOTE, EMU_REDUCE };

static inline void __syncwarp(unsigned mask = 0xffffffffu) { emu_collect(mask, EMU_SYNC, 0); }

/* Returns the value of the lane `from`, or the calling lane's own value if `inside` is false:
 * `from` is then outside the lane's segment. */
template <class T> static inline T emu_shuffle(unsigned mask, T v, int from, bool inside)
{
    const emu_fibre &f = emu_collect(mask, EMU_SHFL, emu_bits(v));
    return inside ? emu_value<T>(f.seen[from & 31]) : v;
}
template <class T> static inline T __shfl_sync(unsigned mask, T v, int from, int width = 32)
{
    const int lane = emu_lane();
    return emu_shuffle(mask, v, (lane & ~(width - 1)) + (from & (width - 1)), true);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T v, int by, int width = 32)
{
    const int lane = emu_lane(), from = lane ^ by;
    return emu_shuffle(mask, v, from, from < (lane & ~(width - 1)) + width);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32)
{
    const int lane = emu_lane(), from = lane - (int)by;
    return emu_shuffle(mask, v, from, from >= (lane & ~(width - 1)));
}
static inline unsigned emu_vote(unsigned mask, bool p)
{
    const emu_fibre &f = emu_collect(mask, EMU_VOTE, p);
    unsigned votes = 0;
    for (unsigned lane = 0; lane < 32; lane++)
        votes |= (f.arrived >> lane & 1 && f.seen[lane] ? 1u : 0u) << lane;
    return votes;
}
static inline unsigned __ballot_sync(unsigned mask, int p) { return emu_vote(mask, p != 0); }
static inline int __any_sync(unsigned mask, int p) { return emu_vote(mask, p != 0) != 0; }
static inline int __all_sync(unsigned mask, int p) { return emu_vote(mask, p == 0) == 0; }
template <class T, class F> static inline T emu_reduce(unsigned mask, T v, unsigned kind, F combine)
{
    const emu_fibre &f = emu_collect(mask, EMU_REDUCE + 16 * kind, emu_bits(v));
    T sum = v;
    for (unsigned lane = 0; lane < 32; lane++)
        if (f.arrived >> lane & 1 && lane != emu_lane())
            sum = combine(sum, emu_value<T>(f.seen[lane]));
    return sum;
}
#define EMU_REDUCTION(name, kind, T, expression) \
    static inline T name(unsigned mask, T v) { return emu_reduce<T>(mask, v, kind, [](T a, T b) -> T { return expression; }); }
EMU_REDUCTION(__reduce_add_sync, 1, unsigned, a + b)
EMU_REDUCTION(__reduce_add_sync, 2, int, (int)((unsigned)a + (unsigned)b))
EMU_REDUCTION(__reduce_min_sync, 3, unsigned, a < b ? a : b)
EMU_REDUCTION(__reduce_min_sync, 4, int, a < b ? a : b)
EMU_REDUCTION(__reduce_max_sync, 5, unsigned, a > b ? a : b)
EMU_REDUCTION(__reduce_max_sync, 6, int, a > b ? a : b)

/* ---- Atomic operations: indivisible, since a fibre switches before an operation, not inside.
 * ---- */

template <class T> struct emu_same { typedef T type; };
template <class T> using emu_as = typename emu_same<T>::type;
static inline void emu_contend()
{
    if (emu_random(4) == 0)
        emu_suspend();
}
#define EMU_ATOMIC(name, expression) \
    template <class T> static inline T name(T *p, emu_as<T> v) \
    { \
        emu_contend(); \
        const T old = *(volatile T *)p; \
        *(volatile T *)p = (expression); \
        return old; \
    }
EMU_ATOMIC(atomicAdd, old + v)
EMU_ATOMIC(atomicMin, v < old ? v : old)
EMU_ATOMIC(atomicMax, v > old ? v : old)
EMU_ATOMIC(atomicOr, old | v)
EMU_ATOMIC(atomicExch, v)
template <class T> static inline T atomicCAS(T *p, emu_as<T> compare, emu_as<T> v)
{
    emu_contend();
    const T old = *(volatile T *)p;
    if (old == compare)
        *(volatile T *)p = v;
    return old;
}

/* ---- Bits ---- */

static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline int __ffsll(long long v) { return __builtin_ffsll(v); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned long long)((unsigned __int128)a * b >> 64); }
static inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) { return (unsigned)(((uint64_t)hi << 32 | lo) << (n & 31) >> 32); }
static inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) { return (unsigned)(((uint64_t)hi << 32 | lo) >> (n & 31)); }
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s)
{
    const uint64_t bytes = (uint64_t)b << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned byte = (unsigned)(bytes >> 8 * (s >> 4 * i & 7)) & 0xff;
        r |= (s >> 4 * i & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << 8 * i;
    }
    return r;
}

/* ---- Floating point ---- */

static inline unsigned __float_as_uint(float v) { return emu_value<unsigned>(emu_bits(v)); }
static inline float __uint_as_float(unsigned v) { return emu_value<float>(v); }
static inline long long __double_as_longlong(double v) { return emu_value<long long>(emu_bits(v)); }
static inline double __longlong_as_double(long long v) { return emu_value<double>(emu_bits(v)); }
template <class A, class B> static constexpr inline decltype(A() + B()) min(A a, B b) { return a < b ? a : b; }
template <class A, class B> static constexpr inline decltype(A() + B()) max(A a, B b) { return a > b ? a : b; }

/* ---- Vectors ---- */

#define EMU_VECTOR(T, name) \
    struct alignas(2 * sizeof(T)) name##2 { T x, y; }; \
    struct name##3 { T x, y, z; }; \
    struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) name##4 { T x, y, z, w; }; \
    static inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
    static inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
    static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMU_VECTOR(unsigned, uint)
EMU_VECTOR(unsigned long long, ulonglong)
EMU_VECTOR(float, float)

#endif
