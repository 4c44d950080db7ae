/*
 * Defines the CUDA C++ words that a kernel needs to run on the CPU; the software NVRTC includes
 * this file before the kernel's source. Each thread of a block is a fibre; a barrier, a warp
 * collective and some atomic operations switch to another fibre. A block runs to its end before the
 * next block begins.
 */
#ifndef CUDA_EMU_KERNEL_H
#define CUDA_EMU_KERNEL_H

#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <tuple>
#include <ucontext.h>

#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __CUDA_ARCH__ 800
#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static __attribute__((section("emu_shared")))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
static dim3 gridDim, blockDim(0, 0, 0), blockIdx, threadIdx;
enum { warpSize = 32 };

/* ---- Fibres ---- */

enum emu_state : unsigned char { EMU_READY, EMU_BARRIER, EMU_WARP, EMU_DONE };
struct emu_fibre {
    jmp_buf here;
    unsigned mask, kind; /* lanes and kind of the collective; the kind of a barrier is its line */
    uint64_t value;      /* this lane's input to the collective; a barrier's predicate */
    uint64_t seen[32];   /* the inputs of all lanes */
    unsigned arrived;    /* bit mask of the lanes that took part */
};
enum { EMU_STACK = 256 << 10, EMU_THREADS = 1024 };
static emu_fibre emu_fibres[EMU_THREADS];
/* What every round looks up of each thread, in arrays of its own, which fit the first-level cache. */
static emu_state emu_states[EMU_THREADS];
static dim3 emu_indices[EMU_THREADS];
/* Whether the fibre has a stack, on which it waits between two blocks, too. */
static bool emu_begun[EMU_THREADS];
static unsigned emu_threads, emu_current;
static char *emu_stacks;
static jmp_buf emu_block;
static uint64_t emu_dice;
static unsigned emu_late; /* bit mask of the warps that are slow until the next barrier */
static const char *emu_error;
/* The bounds of the section that holds all static shared memory; the linker defines them. */
extern "C" unsigned char __start_emu_shared[] __attribute__((weak, visibility("hidden")));
extern "C" unsigned char __stop_emu_shared[] __attribute__((weak, visibility("hidden")));
alignas(128) static unsigned char emu_dynamic_shared[163 << 10];
static void *(*emu_kernel_entry)(int, void *);
static void *emu_arguments;

static inline unsigned emu_random(unsigned n)
{
    emu_dice = emu_dice * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(emu_dice >> 33) % n;
}

/* Draws the slow warps: one warp, all warps but one, any set, or none, with equal probability. */
static inline unsigned emu_draw_late()
{
    const unsigned one = 1u << emu_random((emu_threads + 31) / 32);
    switch (emu_threads > 32 ? emu_random(4) : 3) {
    case 0: return one;
    case 1: return ~one;
    case 2: return emu_random(~0u);
    default: return 0;
    }
}

/* Switches to the scheduler; returns when the scheduler chooses this fibre again. */
__attribute__((noipa)) static void emu_suspend()
{
    if (_setjmp(emu_fibres[emu_current].here) == 0)
        _longjmp(emu_block, 1);
}

[[noreturn]] __attribute__((noipa)) static void emu_fail(const char *why)
{
    emu_error = why;
    _longjmp(emu_block, 1);
}

/* A fibre runs a thread of one block after the other. */
static void emu_begin()
{
    for (;;) {
        emu_kernel_entry(1, emu_arguments);
        emu_states[emu_current] = EMU_DONE;
        emu_suspend();
    }
}

/* Runs a thread until it waits or ends. A fibre begins with setcontext, which makes system calls, once
 * and not for every block, and switches with longjmp, which makes none. */
__attribute__((noipa)) static void emu_resume(unsigned i)
{
    static ucontext_t context;

    emu_current = i, threadIdx = emu_indices[i];
    if (_setjmp(emu_block) != 0)
        return;
    if (emu_begun[i])
        _longjmp(emu_fibres[i].here, 1);
    emu_begun[i] = true;
    getcontext(&context);
    context.uc_stack.ss_sp = emu_stacks + (size_t)i * EMU_STACK;
    context.uc_stack.ss_size = EMU_STACK;
    context.uc_link = NULL;
    makecontext(&context, emu_begin, 0);
    setcontext(&context);
}

/* Completes the collective in which lane i waits, once all lanes of its mask that have not ended
 * wait in it. `first` is the first thread of the warp. */
static void emu_release_warp(unsigned first, unsigned i)
{
    const unsigned mask = emu_fibres[i].mask, kind = emu_fibres[i].kind;
    unsigned arrived = 0;

    for (unsigned lane = 0; lane < 32 && first + lane < emu_threads; lane++) {
        const emu_fibre &f = emu_fibres[first + lane];
        if (!(mask >> lane & 1) || emu_states[first + lane] == EMU_DONE)
            continue;
        if (emu_states[first + lane] != EMU_WARP || f.mask != mask || f.kind != kind)
            return;
        arrived |= 1u << lane;
    }
    for (unsigned lane = 0; lane < 32; lane++) {
        if (!(arrived >> lane & 1))
            continue;
        emu_fibre &f = emu_fibres[first + lane];
        f.arrived = arrived, emu_states[first + lane] = EMU_READY;
        for (unsigned other = 0; other < 32; other++)
            f.seen[other] = arrived >> other & 1 ? emu_fibres[first + other].value : 0xa5a5a5a5a5a5a5a5u;
    }
}

/* Runs every thread that can run, in ascending or descending order from a random thread on. In most
 * rounds the threads of slow warps do not run, so that other warps get far ahead. */
static void emu_round()
{
    const unsigned start = emu_random(emu_threads), down = emu_random(2), held = emu_random(16) > 0 ? emu_late : 0;

    for (unsigned k = 0; k < emu_threads && !emu_error; k++) {
        const unsigned up = start + (down ? emu_threads - k : k), i = up < emu_threads ? up : up - emu_threads;
        if (emu_states[i] == EMU_READY && !(held >> i / 32 & 1))
            emu_resume(i);
    }
    for (unsigned i = 0; i < emu_threads; i++)
        if (emu_states[i] == EMU_WARP)
            emu_release_warp(i & ~31u, i);
}

/* Called when all threads wait. If all wait at one barrier, opens it and returns true. */
static bool emu_open_barrier()
{
    unsigned line = 0;
    uint64_t count = 0;

    for (unsigned i = 0; i < emu_threads; i++) {
        const emu_fibre &f = emu_fibres[i];
        if (emu_states[i] == EMU_DONE)
            continue;
        if (emu_states[i] != EMU_BARRIER || (line != 0 && f.kind != line))
            return false;
        line = f.kind, count += f.value;
    }
    for (unsigned i = 0; i < emu_threads; i++)
        if (emu_states[i] == EMU_BARRIER)
            emu_states[i] = EMU_READY, emu_fibres[i].seen[0] = count;
    emu_late = emu_draw_late();
    return line != 0;
}

/* Frees the stacks when the module is unloaded. */
__attribute__((destructor)) static void emu_end()
{
    if (emu_stacks)
        munmap(emu_stacks, (size_t)EMU_STACK * EMU_THREADS);
}

/* Runs one block. Returns NULL, or an error text. `geometry`: the extents of the grid, the extents
 * of the block, and the block's index in the grid. `shared`: bytes of dynamic shared memory. */
extern "C" const char *emu_run_block(void *(*entry)(int, void *), void *arguments, const unsigned *geometry, unsigned shared, uint64_t seed)
{
    const unsigned *g = geometry;

    if (!emu_stacks) {
        void *m = mmap(NULL, (size_t)EMU_STACK * EMU_THREADS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (m == MAP_FAILED)
            return "no memory for stacks";
        emu_stacks = (char *)m;
    }
    emu_threads = g[3] * g[4] * g[5];
    if (blockDim.x != g[3] || blockDim.y != g[4] || blockDim.z != g[5])
        for (unsigned i = 0; i < emu_threads; i++)
            emu_indices[i] = dim3(i % g[3], i / g[3] % g[4], i / g[3] / g[4]);
    gridDim = dim3(g[0], g[1], g[2]), blockDim = dim3(g[3], g[4], g[5]), blockIdx = dim3(g[6], g[7], g[8]);
    emu_kernel_entry = entry, emu_arguments = arguments, emu_dice = seed, emu_error = NULL;
    emu_late = emu_draw_late();
    memset(emu_dynamic_shared, 0xa5, shared);
    memset(__start_emu_shared, 0xa5, (size_t)(__stop_emu_shared - __start_emu_shared));
    for (unsigned i = 0; i < emu_threads; i++) {
        /* A thread of a block that failed is left where it was: its fibre begins anew. */
        emu_begun[i] &= emu_states[i] == EMU_DONE;
        emu_states[i] = EMU_READY;
    }
    for (;;) {
        emu_round();
        unsigned done = 0, ready = 0;
        for (unsigned i = 0; i < emu_threads; i++)
            done += emu_states[i] == EMU_DONE, ready += emu_states[i] == EMU_READY;
        if (emu_error || done == emu_threads)
            return emu_error;
        if (ready == 0 && !emu_open_barrier())
            return "deadlock: threads wait at different barriers, or for lanes that do not come";
    }
}

/* The first 8 bytes of a kernel's arguments. */
struct emu_words {
    void *arguments;
    uint64_t count, at[32];
};
template <class T> static inline void emu_add_word(emu_words *words, const T &v)
{
    if (words->count < 32)
        memcpy(&words->at[words->count++], &v, sizeof v < 8 ? sizeof v : 8);
}

/* The entry of the kernel `f`. `what` = 0: copies the arguments and returns the copy; 1: runs a
 * thread; 2: frees the copy; 3: fills emu_words from the copy. */
template <class... A> static void *emu_kernel(void (*f)(A...), int what, void *p)
{
    typedef std::tuple<A...> arguments;
    emu_words *words = (emu_words *)p;
    if (what == 3)
        std::apply([words](const A &...a) { (void)words, (emu_add_word(words, a), ...); }, *(arguments *)words->arguments);
    if (what == 1)
        std::apply(f, *(arguments *)p);
    if (what == 2)
        delete (arguments *)p;
    if (what != 0)
        return NULL;
    void **next = (void **)p;
    (void)next;
    return new arguments{*(A *)*next++...};
}

/* ---- Barriers ---- */

static inline unsigned emu_barrier(unsigned line, uint64_t value)
{
    emu_fibre &f = emu_fibres[emu_current];
    f.kind = line, f.value = value, emu_states[emu_current] = EMU_BARRIER;
    emu_suspend();
    return (unsigned)emu_fibres[emu_current].seen[0];
}
#define __syncthreads() ((void)emu_barrier(__LINE__, 0))
#define __syncthreads_or(p) ((int)(emu_barrier(__LINE__, (p) != 0) != 0))
#define __syncthreads_and(p) ((int)(emu_barrier(__LINE__, (p) == 0) == 0))
#define __trap() emu_fail("trap")
#undef assert
#define assert(x) ((x) ? (void)0 : emu_fail("assertion: " #x))
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __nanosleep(unsigned) { emu_suspend(); }

#include "kernel_intrinsics.h"
#endif
