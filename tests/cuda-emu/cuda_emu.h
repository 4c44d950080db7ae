/* Control of the software CUDA driver (libcuda_emu.so), besides the driver API itself. Find these with dlsym in the library that the
 * program under test has loaded as libcuda.so.1: a second copy of the library is a second driver. All return 0 for success unless said
 * otherwise, and may be called from any thread, but not from a host function. */
#ifndef CUDA_EMU_H
#define CUDA_EMU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the scheduler chooses among the operations that the ordering rules allow. */
#define EMU_RANDOM 0 /* drawn from the seed at each API call; copies are torn in pieces */
#define EMU_LATE 1   /* nothing runs before something waits for it, and then only what it needs */
#define EMU_EARLY 2  /* everything runs inside the call that enqueues it, if the rules allow */
#define EMU_TIMED 3  /* in the order of virtual time */

/* Since the last reset. */
typedef struct emu_counters_t {
    uint64_t h2d_bytes, d2h_bytes, d2d_bytes, h2h_bytes; /* of accepted copies; d2d on a device or between two */
    uint64_t h2d_copies, d2h_copies, d2d_copies;
    uint64_t pageable_copies;  /* with pageable memory on one side; each counts in host_syncs too */
    uint64_t calls;            /* driver calls of any name */
    uint64_t host_syncs;       /* cuStreamSynchronize, cuEventSynchronize, cuCtxSynchronize, cuMemFree, synchronous and pageable copies */
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
    uint64_t host_bytes, peak_host_bytes; /* of cuMemHostAlloc */
    double host_wait_s;        /* virtual seconds that the host waited */
} emu_counters_t;

/* Starts again: seed, mode, number of devices, bytes of each. Counters, virtual time, faults and drops are cleared; handles and addresses
 * start again too, so that the same calls give the same run. Queued work is run first. Returns -1 for an unknown mode, or the number of
 * objects and operations that are still alive; then nothing is reset. cuInit need not be called again. */
int32_t emu_reset(uint64_t seed, int32_t mode, int32_t devices, uint64_t bytes_per_device);

int32_t emu_counters(emu_counters_t *out);

/* Calls of the entry point `name` ("cuStreamWaitEvent", "cuMemAlloc_v2"); UINT64_MAX for an unknown name. */
uint64_t emu_calls(const char *name);

/* Runs everything that is queued and can run; the host's clock stands still. */
void emu_run_all(void);

/* Makes the k-th call of `name` from now (k = 1: the next) return `code` and do nothing; k < 0: every one from the |k|-th on; 0: none any
 * more. "*" is any call but cuGetErrorName and cuGetErrorString, "exec" the execution of a copy, "kernel" that of a kernel: its error sticks
 * to the context, whose calls all return it from then on. */
int32_t emu_fail(const char *name, int64_t k, int32_t code);

/* The name of the call that was made to fail last; NULL for none since the last reset. */
const char *emu_struck(void);

/* Loses the k-th operation of a kind from now, which still returns CUDA_SUCCESS; 0 loses none. Kinds: "wait" (cuStreamWaitEvent), "record"
 * (cuEventRecord), "sync" (cuStreamSynchronize, cuEventSynchronize, cuCtxSynchronize). */
int32_t emu_drop(const char *kind, uint64_t k);

/* What was asked for, in the order of the calls; a lost operation is not among it. */
#define EMU_OTHER 0  /* kernels, host functions, computation */
#define EMU_COPY 1
#define EMU_SET 2
#define EMU_RECORD 3
#define EMU_WAIT 4   /* cuStreamWaitEvent: what follows in the stream comes after the operation `after` */
#define EMU_SYNC 5   /* the host has waited for the operation `after`: so has all that is asked for later */
#define EMU_EVENT 6  /* a new event */
#define EMU_STREAM 7 /* a new stream */
#define EMU_ARGUMENT 8 /* argument number `from` of the kernel that is the operation `after`: its first 8 bytes are `to`, FNV-1a of the kernel's name is `event` */
#define EMU_DONE 9   /* `event` was asked whether it is done and is: so is the operation `after`, its record, if there is one */
typedef struct emu_entry_t {
    int32_t kind;
    uint32_t stream;    /* a number of its own, default streams included */
    uint64_t operation; /* from 1; 0 for what does not run in a stream */
    uint64_t after;     /* the operation that is waited for; 0 for none */
    uint64_t event;     /* a CUevent */
    uint64_t to, from, bytes;
} emu_entry_t;

/* Keeps a history from now on, until the next reset. What the legacy default stream and the blocking ones order among themselves is not in it. */
void emu_history_start(void);

/* Copies the first `room` entries and returns how many there are. */
uint64_t emu_history(emu_entry_t *entries, uint64_t room);

/* Virtual time. Each device has one engine per direction and one for computation; each engine does one thing at a time. */
int32_t emu_bandwidth(double h2d, double d2h, double d2d); /* bytes per second; outlives a reset */
int32_t emu_launch(double seconds);                        /* every kernel takes that long, from none on; outlives a reset */
int32_t emu_work(void *stream, double seconds);            /* enqueues computation */
int32_t emu_host_work(double seconds);                     /* the host computes: its clock moves on */
double emu_clock(void *stream);  /* end of the last operation that has run in the stream; NaN for no stream */
double emu_stall(void *stream);  /* time that the stream has waited for other streams; NaN for no stream */
double emu_host_clock(void);

#ifdef __cplusplus
}
#endif
#endif
