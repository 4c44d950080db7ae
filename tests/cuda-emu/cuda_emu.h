/* Control functions of the software CUDA driver (libcuda_emu.so), besides the driver API itself. A
 * test finds these functions with dlsym in the library that the program under test has loaded as
 * libcuda.so.1: a second copy of the library would be a second driver. Functions that return
 * int32_t return 0 for success unless said otherwise. All may be called from any thread, but not
 * from a host function of a stream. */
#ifndef CUDA_EMU_H
#define CUDA_EMU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the scheduler chooses among the operations that the ordering rules allow. */
#define EMU_RANDOM 0 /* drawn from the seed at each API call; copies are torn in pieces */
#define EMU_LATE 1   /* an operation runs only when the host waits and the wait depends on it */
#define EMU_EARLY 2  /* an operation runs inside the call that enqueues it, if the rules allow */
#define EMU_TIMED 3  /* operations run in the order of virtual time */

/* Counts since the last reset. */
typedef struct emu_counters_t {
    /* Bytes of accepted copies; d2d: within a device or between two devices. */
    uint64_t h2d_bytes, d2h_bytes, d2d_bytes, h2h_bytes;
    uint64_t h2d_copies, d2h_copies, d2d_copies;
    uint64_t pageable_copies;  /* copies with pageable memory; host_syncs counts them, too */
    uint64_t calls;            /* driver calls of any name */
    /* Calls that held the host: cuStreamSynchronize, cuEventSynchronize, cuCtxSynchronize,
     * cuMemFree, synchronous and pageable copies. */
    uint64_t host_syncs;
    uint64_t executed;         /* operations that have run to their end */
    uint64_t dropped;          /* operations lost through emu_drop */
    uint64_t streams, events;  /* alive now */
    uint64_t allocations;      /* alive now: device and managed memory */
    uint64_t host_allocations; /* alive now: page-locked, allocated or registered */
    uint64_t contexts;         /* alive now: made by cuCtxCreate */
    uint64_t retained;         /* retains of primary contexts not yet released */
    uint64_t pending;          /* operations queued now */
    uint64_t abandoned;        /* objects that died with their context instead of being freed */
    uint64_t device_bytes, peak_device_bytes; /* all devices together */
    uint64_t host_bytes, peak_host_bytes; /* page-locked memory, allocated or registered */
    double host_wait_s;        /* virtual seconds that the host waited */
} emu_counters_t;

/* Runs all queued work, then resets the driver: clears counters, virtual time, faults and drops.
 * Handles and addresses begin again at their first values, so that the same calls give the same
 * run. Returns -1 for an unknown mode, or the number of objects and operations that are still
 * alive; in both cases nothing is reset. cuInit need not be called again. */
int32_t emu_reset(uint64_t seed, int32_t mode, int32_t devices, uint64_t bytes_per_device);

int32_t emu_counters(emu_counters_t *out);

/* Returns the number of calls of the entry point `name` ("cuStreamWaitEvent", "cuMemAlloc_v2")
 * since the last reset; UINT64_MAX for an unknown name. */
uint64_t emu_calls(const char *name);

/* Runs all queued operations that can run, without moving the host's virtual clock. */
void emu_run_all(void);

/* Makes the k-th call of the entry point `name` from now (k = 1: the next call) return `code` and
 * do nothing else; k < 0: every call from the |k|-th on; k = 0: removes the faults of this name.
 * The name "*" stands for any call but cuGetErrorName and cuGetErrorString. "exec" stands for the
 * execution of a copy and "kernel" for the execution of a kernel: their error sticks to the
 * context, whose calls all return this error from then on. */
int32_t emu_fail(const char *name, int64_t k, int32_t code);

/* Returns the name of the last call that emu_fail made fail; NULL: none since the last reset. */
const char *emu_struck(void);

/* Returns the number of cuEventSynchronize calls since the last reset that had to wait for an event
 * made without CU_EVENT_BLOCKING_SYNC: NVIDIA's driver may spin on a core for their time. */
uint64_t emu_spins(void);
/* Limits the bytes of page-locked memory, allocated or registered, until the next reset; the calls that
 * would exceed the limit fail with CUDA_ERROR_OUT_OF_MEMORY. */
void emu_pinned(uint64_t bytes);

/* Makes the k-th call of a kind from now return CUDA_SUCCESS without any effect; k = 0: none.
 * Kinds: "wait" (cuStreamWaitEvent), "record" (cuEventRecord), "sync" (cuStreamSynchronize,
 * cuEventSynchronize, cuCtxSynchronize), "value" (cuStreamWaitValue32). */
int32_t emu_drop(const char *kind, uint64_t k);

/* Kinds of entries in the history, which lists the program's requests in the order of its calls.
 * The history has no entries for operations lost by emu_drop. */
#define EMU_OTHER 0  /* kernels, host functions, computation */
#define EMU_COPY 1
#define EMU_SET 2
#define EMU_RECORD 3
#define EMU_WAIT 4   /* cuStreamWaitEvent: later operations of the stream run after `after` */
#define EMU_SYNC 5   /* the host has waited for `after`: all later requests come after it */
#define EMU_EVENT 6  /* a new event */
#define EMU_STREAM 7 /* a new stream */
/* An argument of a kernel. `after`: the operation that runs the kernel; `event`: FNV-1a of the
 * kernel's name; `from`: the argument's number; `to`: its first 8 bytes. */
#define EMU_ARGUMENT 8
/* A query has answered that `event` is complete: so is its record, the operation `after` (0:
 * none). */
#define EMU_DONE 9
typedef struct emu_entry_t {
    int32_t kind;
    uint32_t stream;    /* the number of the stream; default streams have numbers, too */
    uint64_t operation; /* the number of the operation, from 1; 0: the entry is no operation */
    uint64_t after;     /* the number of the operation that is waited for; 0: none */
    uint64_t event;     /* a CUevent */
    uint64_t to, from, bytes;
} emu_entry_t;

/* Keeps a history from now on, until the next reset. The history does not show the order that the
 * legacy default stream and blocking streams keep among themselves. */
void emu_history_start(void);

/* Copies the first `room` entries of the history and returns the number of all entries. */
uint64_t emu_history(emu_entry_t *entries, uint64_t room);

/* Writes the CUipcMemHandle (64 bytes) of `bytes` bytes of device memory that another process has
 * allocated. */
int32_t emu_ipc(void *handle, uint64_t bytes);

/* Number of calls since the last reset that waited because the queue of their stream was full. */
uint64_t emu_full_queues(void);

/* What the launches of an interpreted kernel (CUDA_EMU_KERNELS=ptx) have done. */
typedef struct emu_kernel_t {
    char name[48]; /* cut to 47 characters */
    uint64_t launches, blocks;
    uint64_t threads;    /* instructions of PTX, once per thread */
    uint64_t warps;      /* instructions of PTX, once per group of lanes that runs them together */
    uint64_t slots;      /* as warps, in tenths of the issue slots that they take as machine code */
    uint64_t read;       /* 32-byte sectors of global memory that a launch reads, each once */
    uint64_t written;    /* sectors that a launch writes, each once */
    uint64_t requested;  /* sectors, once per access of a warp */
    uint64_t wavefronts; /* passes of the banks of shared memory */
    uint64_t text;       /* slots of the kernel's text, each instruction once */
} emu_kernel_t;

/* Counts from now on, until the next reset. With CUDA_EMU_PTX_ORDER=steady and EMU_EARLY the counts
 * depend on the program alone. */
void emu_count_kernels(void);

/* Copies the counts of the first `room` kernels, by name, and returns the number of all kernels that
 * have run since emu_count_kernels. */
uint64_t emu_kernels(emu_kernel_t *kernels, uint64_t room);

/* Virtual time, in seconds. Each device has one engine for each direction of copies and one engine
 * for computation; each engine runs one operation at a time. */
int32_t emu_bandwidth(double h2d, double d2h, double d2d); /* bytes per second; outlives a reset */
int32_t emu_launch(double seconds);                        /* time of a kernel; outlives a reset */
int32_t emu_work(void *stream, double seconds);            /* enqueues computation */
int32_t emu_host_work(double seconds);                     /* advances the host's clock */
/* Returns the end of the last operation that has run in the stream; NaN if there is no such
 * stream. */
double emu_clock(void *stream);
/* Returns the time that the stream has waited for other streams; NaN if there is no such stream. */
double emu_stall(void *stream);
double emu_host_clock(void);

#ifdef __cplusplus
}
#endif
#endif
