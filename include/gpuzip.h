/* gpuzip: checkpointing for adjoint codes.
 *
 * Generated from the library's sources; do not edit. Conventions:
 *  - Every call returns a gpuzip_status_t: 0 is success, negative is an error, whose text gpuzip_last_error() has for this thread.
 *  - Outputs come last and are written only on success. No call exits, aborts or throws.
 *  - Handles are checked: a stale one is an error. A session may be used by one thread at a time; calls on it are serialised.
 *  - The library computes in the floating-point environment that programs begin with, whatever the caller's is: bytes, bounds and plans do
 *    not depend on rounding modes, on flushed subnormal numbers or on exceptions that trap. Callbacks see the caller's environment, and every
 *    call leaves it as it was, exception flags included (x86-64 and ARM64).
 *  - The library copies what it is given (configuration, strings, shapes); field memory is used during the call only.
 */

#ifndef GPUZIP_H
#define GPUZIP_H

#include <stdint.h>

/* In C++ a configuration starts as GPUZIP 2.x's defaults, all zero, and from C++14 on it is an aggregate all the same. */
#if defined(__cplusplus) && __cplusplus >= 201402L
#define GPUZIP_DEFAULT(value) = value
#else
#define GPUZIP_DEFAULT(value)
#endif

/*
 Success.
 */
#define GPUZIP_OK 0

/*
 A pointer is NULL, or a number is outside its range.
 */
#define GPUZIP_ERR_ARGUMENT -101

/*
 A configuration value is impossible, or contradicts another one.
 */
#define GPUZIP_ERR_CONFIG -102

/*
 The value is valid, but this version of the library cannot do what it asks for.
 */
#define GPUZIP_ERR_UNSUPPORTED -103

/*
 The fields differ in number, shape or type from those given at init.
 */
#define GPUZIP_ERR_SHAPE -104

/*
 A field holds NaN or infinities, and `nonfinite = 1` makes that an error; or a previous time
 level is not what `shared_levels = 1` says.
 */
#define GPUZIP_ERR_VALUES -105

/*
 The call does not fit the current action. Nothing has changed.
 */
#define GPUZIP_ERR_STATE -201

/*
 The handle was never made, or is finalized.
 */
#define GPUZIP_ERR_HANDLE -202

/*
 The handle belongs to the process that this one was forked from; or CUDA, which does not work in
 a child of a process that has used it. The child's own configurations, schedules and sessions on
 the host are as good as any.
 */
#define GPUZIP_ERR_FORKED -203

/*
 A callback of the application returned other than 0 and so stopped the run.
 */
#define GPUZIP_ERR_CALLBACK -204

/*
 Memory ran out: of the host, of the device, or for a thread. What exists stays usable; the call
 may be repeated.
 */
#define GPUZIP_ERR_MEMORY -301

/*
 The plan does not fit the budgets.
 */
#define GPUZIP_ERR_BUDGET -302

/*
 A file cannot be read or written.
 */
#define GPUZIP_ERR_IO -401

/*
 A configuration or trace file is malformed.
 */
#define GPUZIP_ERR_PARSE -402

/*
 A schedule breaks the rules of checkpointing.
 */
#define GPUZIP_ERR_SCHEDULE -403

/*
 A compressed stream is damaged, or of another version.
 */
#define GPUZIP_ERR_STREAM -404

/*
 The device failed.
 */
#define GPUZIP_ERR_DEVICE -501

/*
 A defect in gpuzip was caught.
 */
#define GPUZIP_ERR_PANIC -901

/*
 An earlier defect left this handle unusable; finalize it.
 */
#define GPUZIP_ERR_POISONED -902

/*
 Compute u(ts) from u(ts-1); with `range_actions`, go on to u(ts_end).
 */
#define GPUZIP_ACTION_FORWARD 0

/*
 u(ts) is live: call `gpuzip_save`.
 */
#define GPUZIP_ACTION_SAVE 1

/*
 Call `gpuzip_retrieve`: u(ts) is live afterwards.
 */
#define GPUZIP_ACTION_RESTORE 2

/*
 u(ts) is live: do the adjoint of the step ts -> ts+1.
 */
#define GPUZIP_ACTION_BACKWARD 3

/*
 The sweep is over.
 */
#define GPUZIP_ACTION_TERMINATE 4

/*
 The schedule cannot go on. No valid schedule contains it.
 */
#define GPUZIP_ACTION_ERROR 5

/*
 FORWARD: this step (all steps of a range) was computed before in this sweep; do not record
 receivers again.
 */
#define GPUZIP_FLAG_RECOMPUTE 1

/*
 BACKWARD: the first of the sweep.
 */
#define GPUZIP_FLAG_FIRST_BACKWARD 2

/*
 RESTORE: the snapshot is not needed again. SAVE: nobody will restore it.
 */
#define GPUZIP_FLAG_LAST_USE 4

/*
 FORWARD: the state that it computes (the last of a range) will be saved.
 */
#define GPUZIP_FLAG_NEXT_IS_SAVE 8

/*
 Replay a recorded schedule from `trace_file_path`.
 */
#define GPUZIP_ALGORITHM_TRACE 0

/*
 Binomial checkpointing.
 */
#define GPUZIP_ALGORITHM_REVOLVE 1

/*
 Checkpoints at equal distance, Revolve with the free slots inside each interval.
 */
#define GPUZIP_ALGORITHM_UNIFORM 2

/*
 zCut (reconstructed).
 */
#define GPUZIP_ALGORITHM_ZCUT 3

/*
 The library chooses the quickest schedule that fits, by simulation with the profile or with what
 is typical of the backend.
 */
#define GPUZIP_ALGORITHM_AUTO 4

/*
 Checkpoints at equal distance, Revolve with the device cache's slots inside each interval.
 */
#define GPUZIP_ALGORITHM_TWO_LEVEL 5

/*
 Every state.
 */
#define GPUZIP_ALGORITHM_STORE_ALL 6

/*
 Replacement by the known schedule: the fewest fetches that the cache allows, and the fewest
 transfers altogether for every algorithm but `trace`, whose snapshots may be used in another
 order than a stack's; there a write-back more than the fewest may be made.
 */
#define GPUZIP_POLICY_CLAIRVOYANT 0

/*
 GPUZIP 2.x's published LRU and PSA, for comparison.
 */
#define GPUZIP_POLICY_LRU 1

/*
 Raw snapshots.
 */
#define GPUZIP_COMPRESSOR_NONE 0

/*
 zfp at a fixed rate of `zfp_bit_rate`; the payload is libzfp's.
 */
#define GPUZIP_COMPRESSOR_ZFP 1

/*
 NVIDIA's Bitcomp, through an installed libnvcomp.
 */
#define GPUZIP_COMPRESSOR_BITCOMP 2

/*
 The published cuSZp layout, within a bound.
 */
#define GPUZIP_COMPRESSOR_CUSZP 3

/*
 Lorenzo prediction in tiles, within a bound: fast.
 */
#define GPUZIP_COMPRESSOR_LORENZO 4

/*
 Cosine transform of tiles, within a bound: small.
 */
#define GPUZIP_COMPRESSOR_DCT 5

/*
 Scaled half precision: half the bytes of FP32, a quarter of FP64's. Every value is within 2^-11
 (4.9e-4) of its field's maximum; on wavefields the PSNR is 95 to 100 dB.
 */
#define GPUZIP_COMPRESSOR_FP16 6

/*
 Blocks of 32 8-bit integers with a common exponent: 3.9 times less than FP32. Every value is
 within 1/127 of its block's maximum; on wavefields the PSNR is 65 to 70 dB.
 */
#define GPUZIP_COMPRESSOR_BFP 7

/*
 The library chooses: raw snapshots, or one of the codecs that keep a bound. `error_bound` must
 be set, and the profile (`profile_path`, `gpuzip_profile_import`) must have them measured with
 it; without one, lorenzo is taken to have the ratio `compression_factor`.
 */
#define GPUZIP_COMPRESSOR_AUTO 15

/*
 32-bit IEEE values.
 */
#define GPUZIP_TYPE_F32 0

/*
 64-bit IEEE values.
 */
#define GPUZIP_TYPE_F64 1

/*
 8-bit integers, signed or not. Values of this type and of the types below are stored as they are
 and come back exactly, whatever the codec is; with a codec, the CUDA backend of this version
 refuses them.
 */
#define GPUZIP_TYPE_I8 2

/*
 16-bit integers, signed or not.
 */
#define GPUZIP_TYPE_I16 3

/*
 32-bit integers, signed or not.
 */
#define GPUZIP_TYPE_I32 4

/*
 64-bit integers, signed or not.
 */
#define GPUZIP_TYPE_I64 5

/*
 Complex values, each two 32-bit IEEE numbers. A codec does not code them; for coded ones declare
 a GPUZIP_TYPE_F32 field whose n1 and pitches are twice as large.
 */
#define GPUZIP_TYPE_COMPLEX_F32 6

/*
 Complex values, each two 64-bit IEEE numbers; otherwise as GPUZIP_TYPE_COMPLEX_F32.
 */
#define GPUZIP_TYPE_COMPLEX_F64 7

/*
 Bytes of whatever the application keeps there.
 */
#define GPUZIP_TYPE_BYTE 8

/*
 A schedule with its cursor; several sessions may follow it.
 */
typedef struct gpuzip_schedule_t gpuzip_schedule_t;

/*
 A session: one device of one application.
 */
typedef struct gpuzip_t gpuzip_t;

/*
 The result of every call: 0 is success, negative numbers are errors (`gpuzip_last_error` has the
 reason). Positive numbers are reserved for success with a warning; this version returns none.
 */
typedef int32_t gpuzip_status_t;

/*
 Receives log lines. Must not throw, longjmp, fork or call gpuzip; may be called from any thread,
 and in a forked child, which inherits it. `level`: 0 DEBUG, 1 INFO, 2 WARN, 3 ERROR. `message`
 lives during the call only. `user`: as registered.
 */
typedef void (*gpuzip_log_callback_t)(int32_t level,
                                      const char *message,
                                      void *user);

/*
 The configuration. Block 1 has GPUZIP 2.x's fields in its order and with its numbers; zero means
 there what it means in GPUZIP 2.x. Block 2, from `struct_size` on, is gpuzip's; zero means the
 default. `gpuzip_config_init` fills in gpuzip's own defaults.
 */
typedef struct gpuzip_config_t {
  /*
   GPUZIP_ALGORITHM_*.
   */
  int32_t checkpointing_algorithm GPUZIP_DEFAULT(0);
  /*
   Snapshots stored at a time, at most. 0: the most that fits the budgets; without budgets
   what the algorithm needs (Revolve: GPUZIP's number), and for `auto` in `gpuzip_init`
   what half of the free memory holds (`device_budget`). Uniform and two-level need it, or
   a budget.
   */
  int32_t checkpointing_snaps GPUZIP_DEFAULT(0);
  /*
   Device cache slots: 0 no cache, 1 one slot, from 2 on cache and prefetch. With
   `device_budget`, at most so many.
   */
  int32_t cache_capacity GPUZIP_DEFAULT(0);
  /*
   GPUZIP_COMPRESSOR_*; 0: none.
   */
  int32_t compressor GPUZIP_DEFAULT(0);
  /*
   What is logged: 0 DEBUG and above, 1 INFO, 2 WARN, 3 ERROR only. Holds for the whole
   process.
   */
  int32_t log_level GPUZIP_DEFAULT(0);
  /*
   1: append one CSV line per shot to gpuzip_performance.csv, or to the file that
   GPUZIP_PERFORMANCE_LOG names. Processes may share it; a line is there whole or not at
   all, and then a warning says why.
   */
  int32_t enable_performance_log GPUZIP_DEFAULT(0);
  /*
   1: log the compression ratio of every snapshot, at level INFO.
   */
  int32_t enable_compression_rate_log GPUZIP_DEFAULT(0);
  /*
   The compression ratio that is expected: budgets are planned with it. Snapshots take what
   they need; one that finds no room in the cache stays in host memory, and if that has a
   budget that it does not fit, saving it is an error. 0 or 1: none is expected.
   */
  float compression_factor GPUZIP_DEFAULT(0);
  /*
   The file of GPUZIP_ALGORITHM_TRACE.
   */
  char *trace_file_path GPUZIP_DEFAULT(0);
  /*
   Accepted for compatibility; `log_level` decides.
   */
  int32_t revolve_log_level GPUZIP_DEFAULT(0);
  /*
   zfp: bits per value, 1 to 32 (FP64: to 64); 0: 8.
   */
  int32_t zfp_bit_rate GPUZIP_DEFAULT(0);
  /*
   cuSZp without `error_bound`: the bound relative to the range of values, as in GPUZIP 2.x.
   */
  double cuszp_err_bound GPUZIP_DEFAULT(0);
  /*
   "float" or "double": the type of fields where a call gives only extents (the GPUZIP 2.x
   headers). NULL: float.
   */
  const char *float_kind GPUZIP_DEFAULT(0);
  /*
   Bitcomp: 0 fraction of the maximum, 1 statistical range, 2 static delta.
   */
  int32_t bitcomp_delta_config GPUZIP_DEFAULT(0);
  /*
   Bitcomp: the fraction of mode 0.
   */
  double bitcomp_range_fraction GPUZIP_DEFAULT(0);
  /*
   Bitcomp: the standard deviations of mode 1.
   */
  double bitcomp_num_sigma GPUZIP_DEFAULT(0);
  /*
   Bitcomp: the delta of mode 2.
   */
  double bitcomp_delta GPUZIP_DEFAULT(0);
  /*
   Bitcomp: 0 default, 1 sparse.
   */
  int32_t bitcomp_algorithm GPUZIP_DEFAULT(0);
  /*
   sizeof(gpuzip_config_t), set by `gpuzip_config_init` and, in C++, by the declaration. 0:
   only block 1 is read. A larger one, of a newer header, is accepted if all that it has
   beyond this one is zero.
   */
  uint64_t struct_size GPUZIP_DEFAULT(sizeof(gpuzip_config_t));
  /*
   0: by the memory of the fields (device or managed memory: CUDA). Where their data are NULL
   at init, that is the host if this machine has no CUDA driver or device, and is found
   out at the first save if it has one: `auto` then plans for CUDA, and once more there if the
   fields are the host's, unless the application was shown the schedule by then (a peek, a
   summary, a fingerprint). CUDA is not started in this process before fields tell that it
   is needed. 1: host; 2: CUDA, an error at init where there is no driver or no device.
   */
  int32_t backend GPUZIP_DEFAULT(0);
  /*
   0: the device of the fields, else the current one; k+1: CUDA device k. Must be 0 on the
   host backend.
   */
  int32_t device GPUZIP_DEFAULT(0);
  /*
   Bytes of device memory: for the cache, and all else that a session takes there; 0:
   `cache_capacity` decides. On the host backend main memory is the device memory too:
   this is the budget that a CPU code sets.

   Where this, `host_budget`, `checkpointing_snaps` and `snapshot_rule` are all 0, algorithm
   `auto` takes budgets of its own in `gpuzip_init` and `gpuzip_memory_required`: at most
   half of the memory that is free then, and never more than keeping every state needs.
   Free is, of the host, the least of MemAvailable and what control groups, RLIMIT_AS and
   RLIMIT_DATA leave, divided by the ranks on this node where a launcher's variable tells
   them; of a GPU, what its driver says, which ranks on one GPU have to divide by a budget.
   With `cache_capacity` only `host_budget` is taken. Where the half holds fewer snapshots
   than GPUZIP's number, that number decides instead. A line of the log at level INFO and
   `gpuzip_summary` say what was taken. Ranks that must follow one schedule set budgets: what
   is free differs between them. Sessions made by `gpuzip_attach` and policy lru take
   none.
   */
  uint64_t device_budget GPUZIP_DEFAULT(0);
  /*
   Bytes of host memory for snapshots; 0: what the plan needs, or for `auto` as said at
   `device_budget`.
   */
  uint64_t host_budget GPUZIP_DEFAULT(0);
  /*
   Bytes of disk for snapshots; 0: none (no disk tier in this version).
   */
  uint64_t disk_budget GPUZIP_DEFAULT(0);
  /*
   GPUZIP_POLICY_*.
   */
  int32_t policy GPUZIP_DEFAULT(0);
  /*
   Codecs that keep a bound (cuSZp, lorenzo, dct, Bitcomp): 0 relative to each field's maximum
   in each snapshot, 1 absolute, 2 relative to its range, 3 target PSNR in dB. Of a
   declared pair of time levels it bounds the later one and their difference, each by its own
   size.
   */
  int32_t error_bound_mode GPUZIP_DEFAULT(0);
  /*
   Their bound, kept for every finite value (mode 3: by the field as a whole); 0: 1e-3 in
   modes 0 and 2.
   */
  double error_bound GPUZIP_DEFAULT(0);
  /*
   Codecs, NaN and Inf: 0 stored exactly, 1 saving them is GPUZIP_ERR_VALUES.
   */
  int32_t nonfinite GPUZIP_DEFAULT(0);
  /*
   No action is handed out before a GPU has ended, on the stream of the last save or retrieve,
   all actions that lie this many back or more; before the first save or retrieve of a
   shot there is nothing to wait for. 0: 64.
   */
  int32_t max_in_flight GPUZIP_DEFAULT(0);
  /*
   1: FORWARDs between which nothing else comes are one action, `ts` to `ts_end`. Statistics
   and leads count its steps one by one.
   */
  int32_t range_actions GPUZIP_DEFAULT(0);
  /*
   Number of snapshots: 0 `checkpointing_snaps` or the budgets; 1 GPUZIP's `adjust`, the least
   s with C(2s, s) >= n.
   */
  int32_t snapshot_rule GPUZIP_DEFAULT(0);
  /*
   zCut: states per chunk; two-level: states per interval; 0: chosen.
   */
  int32_t schedule_chunk GPUZIP_DEFAULT(0);
  /*
   Uniform: 0 free slots work inside the interval; 1 as published for GPUZIP 2.x, quadratic in
   the interval.
   */
  int32_t uniform_reading GPUZIP_DEFAULT(0);
  /*
   1: the application works in the cache's slots (`gpuzip_save_begin`,
   `gpuzip_retrieve_acquire`) instead of having its fields copied. Takes memory for two
   more snapshots on the device, out of `device_budget` if that is set; policy clairvoyant
   only.
   */
  int32_t zero_copy GPUZIP_DEFAULT(0);
  /*
   Host backend: bandwidth of a simulated link in bytes per second each way; 0: none.
   */
  double link_bandwidth GPUZIP_DEFAULT(0);
  /*
   The file of a profile, by which `auto` and predictions go: read if it exists, and written
   by a session after `gpuzip_autotune`, in one piece: readers find the old profile or the
   new one. NULL: none.
   */
  const char *profile_path GPUZIP_DEFAULT(0);
  /*
   A file for a timeline in Chrome's trace format, for ui.perfetto.dev and `gpuzip report` GPUZIP_DEFAULT(0);
   NULL or empty: none. `%r` is the MPI rank, `%p` the process, `%%` a percent sign.
   Without `%r` and `%p`, `-r<rank>` comes before the extension where a launcher has started
   several ranks, so does `-p<process>` in a forked child, and so does `-<k>` for the k-th
   session of a process from the second on, or, where another process is writing that file
   (it has its lock, flock), the next number that is free. Older files are replaced. It is
   written at the end of every shot, for which TERMINATE then waits; what cannot be
   written is a warning, and the file ends, as valid JSON, before it.
   */
  const char *trace_out GPUZIP_DEFAULT(0);
  /*
   A directory for restart files (not in this version).
   */
  const char *persist_dir GPUZIP_DEFAULT(0);
  /*
   Share of the run time that persistence may take.
   */
  double persist_overhead GPUZIP_DEFAULT(0);
  /*
   Seconds that a requested stop may take.
   */
  double stop_budget_s GPUZIP_DEFAULT(0);
  /*
   1: raw snapshots of consecutive states keep the time level that both have once: the
   previous level (`role`) of u(t+1) is the field of u(t). Every save compares their
   checksums; where the application changed it after the step, the save fails with
   GPUZIP_ERR_VALUES, on a GPU the call that would give TERMINATE, and the shot cannot go
   on. Not with `zero_copy`, policy lru or a codec by name.
   */
  int32_t shared_levels GPUZIP_DEFAULT(0);
  /*
   Zero.
   */
  int32_t reserved_32 GPUZIP_DEFAULT(0);
  /*
   Zero.
   */
  uint64_t reserved_64 GPUZIP_DEFAULT(0);
  /*
   Pages of the host backend's memory for snapshots: 0 huge ones, unless touching 16 MiB of
   them for the first time takes this machine more than 1.5 times as long as 16 MiB of
   ordinary ones; 1 huge ones always, for runs of very many shots: copies are then 9 to 21 %
   faster; 2 never.
   */
  int32_t huge_pages GPUZIP_DEFAULT(0);
  /*
   Zero.
   */
  int32_t reserved_strict GPUZIP_DEFAULT(0);
  /*
   Zero.
   */
  uint64_t reserved[13] GPUZIP_DEFAULT({0});
#if defined(__cplusplus) && __cplusplus < 201402L
  gpuzip_config_t()
  {
    unsigned char *bytes = reinterpret_cast<unsigned char *>(this);
    for (unsigned long i = 0; i < sizeof(gpuzip_config_t); ++i) bytes[i] = 0;
    struct_size = sizeof(gpuzip_config_t);
  }
#endif
} gpuzip_config_t;

/*
 What the application has to do next.
 */
typedef struct gpuzip_action_t {
  /*
   GPUZIP_ACTION_*.
   */
  int32_t type;
  /*
   The time step of the state that the action produces or needs, 0..n; of a range of FORWARDs
   the first.
   */
  int32_t ts;
  /*
   The last time step of a range of FORWARDs; equal to `ts` without `range_actions`, and for
   all other actions.
   */
  int32_t ts_end;
  /*
   GPUZIP_FLAG_*, or-ed.
   */
  uint32_t flags;
  /*
   Actions since setup; the first is 0.
   */
  int64_t it;
  /*
   Zero.
   */
  uint64_t reserved[2];
} gpuzip_action_t;

/*
 A schedule and, for a session, its plan and memory, as numbers.
 */
typedef struct gpuzip_summary_t {
  /*
   sizeof(gpuzip_summary_t), set by the caller.
   */
  uint64_t struct_size;
  /*
   GPUZIP_ALGORITHM_*, never AUTO: what was chosen.
   */
  int32_t algorithm;
  /*
   GPUZIP_POLICY_*.
   */
  int32_t policy;
  /*
   Time steps, n.
   */
  int32_t steps;
  /*
   Snapshots that may be stored at a time.
   */
  int32_t snapshots;
  /*
   Device cache slots.
   */
  int32_t cache;
  /*
   States per chunk or interval; 0 if the algorithm has none.
   */
  int32_t chunk;
  /*
   Time steps of FORWARD actions.
   */
  uint64_t forward_steps;
  /*
   SAVE actions.
   */
  uint64_t saves;
  /*
   RESTORE actions.
   */
  uint64_t restores;
  /*
   BACKWARD actions.
   */
  uint64_t backward_steps;
  /*
   Snapshots stored at a time, at most.
   */
  uint64_t max_live;
  /*
   All actions, TERMINATE included; a range is one.
   */
  uint64_t actions;
  /*
   Transfers from host to device memory.
   */
  uint64_t h2d;
  /*
   Transfers from device to host memory.
   */
  uint64_t d2h;
  /*
   Restores found in the device cache without a transfer.
   */
  uint64_t hits;
  /*
   Restores that need a transfer.
   */
  uint64_t misses;
  /*
   Misses whose transfer is issued ahead of the restore.
   */
  uint64_t prefetches;
  /*
   Forward and backward steps between issue and use of a prefetch: the least, 0 if there is
   none.
   */
  uint64_t min_lead;
  /*
   The same: the mean.
   */
  double mean_lead;
  /*
   Bytes of one snapshot.
   */
  uint64_t slot_bytes;
  /*
   Device memory: the cache, two states with `zero_copy`, and what the kernels of a codec work
   in.
   */
  uint64_t device_bytes;
  /*
   Host memory of the snapshots.
   */
  uint64_t host_bytes;
  /*
   GPUZIP_COMPRESSOR_*, never AUTO: what was chosen; 0 for a schedule by itself.
   */
  int32_t compressor;
  /*
   Zero.
   */
  int32_t reserved_32;
  /*
   `device_budget` that the plan was made within: as configured, or as taken of the memory
   that was free; 0: none.
   */
  uint64_t device_budget;
  /*
   `host_budget`, likewise.
   */
  uint64_t host_budget;
  /*
   Zero.
   */
  uint64_t reserved[5];
} gpuzip_summary_t;

/*
 One array of the state: n1 x n2 x n3 values, n1 fastest, contiguous or with gaps between its
 rows and planes.

 Value (i1, i2, i3), each index from 0, is at `data` + (i1 + `pitch2` i2 + `pitch3` i3) values.
 Only these values belong to the state: what lies between them (a halo) is neither stored nor
 compared, and a retrieve does not write it. A snapshot has the size of the values. A field of n1
 x n2 x n3 cells in an array of (n1+8) x (n2+8) x (n3+8) with a halo of 4 cells has `data` =
 &array[4][4][4], `pitch2` = n1+8 and `pitch3` = (n1+8)(n2+8).

 Number, extents, types and roles of the fields are those given at init in every call; `data` and
 the pitches may differ from call to call. Memory that the library hands out (zero copy) and
 fields that it gives to a registered codec are contiguous. The CUDA backend of this version
 refuses fields with gaps. A codec works on a contiguous copy of a field with gaps; a session
 that has a codec then takes memory for one more state, beside its budgets.

 An array of pointers to rows (`float **u`) is one field if its rows are evenly spaced, as `u[1]
 - u[0]` = `u[2] - u[1]` = ... of rows allocated in one piece: `data` = u[0] and `pitch2` that
 distance. Otherwise each evenly spaced block of rows is a field of its own.
 */
typedef struct gpuzip_field_t {
  /*
   Its memory, owned by the caller. May be NULL where only the shape counts.
   */
  void *data;
  /*
   Extent of the fastest dimension, in values.
   */
  uint64_t n1;
  /*
   Extent of the second dimension; 1 if there is none.
   */
  uint64_t n2;
  /*
   Extent of the slowest dimension; 1 if there is none.
   */
  uint64_t n3;
  /*
   GPUZIP_TYPE_*.
   */
  int32_t type;
  /*
   0: a quantity of its own; k+1: the previous time level of field k.
   */
  int32_t role;
  /*
   Distance, in values, between the first values of consecutive rows: at least n1. 0: n1, rows
   without gaps.
   */
  uint64_t pitch2;
  /*
   Distance, in values, between the first values of consecutive planes: at least (n2-1)
   `pitch2` + n1. 0: n2 times the distance of rows.
   */
  uint64_t pitch3;
  /*
   Zero.
   */
  uint64_t reserved[2];
} gpuzip_field_t;

/*
 What one session counted and timed since the last setup.
 */
typedef struct gpuzip_stats_t {
  /*
   sizeof(gpuzip_stats_t), set by the caller.
   */
  uint64_t struct_size;
  /*
   Time steps of FORWARD actions.
   */
  uint64_t forward_steps;
  /*
   SAVE actions served.
   */
  uint64_t saves;
  /*
   RESTORE actions served.
   */
  uint64_t restores;
  /*
   BACKWARD actions.
   */
  uint64_t backward_steps;
  /*
   Restores found in the device cache without a transfer.
   */
  uint64_t hits;
  /*
   Restores that needed a transfer: restores = hits + misses.
   */
  uint64_t misses;
  /*
   Misses whose transfer was issued ahead of the restore.
   */
  uint64_t prefetches;
  /*
   Prefetches that had not ended when their restore came.
   */
  uint64_t late_prefetches;
  /*
   Transfers from host to device memory.
   */
  uint64_t h2d;
  /*
   Transfers from device to host memory.
   */
  uint64_t d2h;
  /*
   Bytes from host to device memory.
   */
  uint64_t h2d_bytes;
  /*
   Bytes from device to host memory.
   */
  uint64_t d2h_bytes;
  /*
   Bytes written to and read from disk.
   */
  uint64_t disk_bytes;
  /*
   Saves that never had to leave the device: saves = d2h + write_backs_avoided.
   */
  uint64_t write_backs_avoided;
  /*
   Bytes of the fields saved.
   */
  uint64_t raw_bytes;
  /*
   Bytes of the snapshots made of them.
   */
  uint64_t stored_bytes;
  /*
   Device memory taken.
   */
  uint64_t peak_device_bytes;
  /*
   Host memory taken.
   */
  uint64_t peak_host_bytes;
  /*
   Seconds of the application's FORWARDs, as the host sees them.
   */
  double forward;
  /*
   Seconds of the application's BACKWARDs, as the host sees them.
   */
  double backward;
  /*
   Seconds of the host in save.
   */
  double save;
  /*
   Seconds of the host in retrieve.
   */
  double restore;
  /*
   Seconds of compression; on a GPU of the application's stream, as far as they have ended.
   */
  double compress;
  /*
   Seconds of decompression, likewise.
   */
  double decompress;
  /*
   Seconds that the application's stream spent in saves and retrieves; on a GPU of those that
   have ended.
   */
  double stall;
  /*
   Seconds that the host waited because it was `max_in_flight` actions ahead.
   */
  double run_ahead_wait;
  /*
   Zero.
   */
  uint64_t reserved[8];
} gpuzip_stats_t;

/*
 Computes u(ts), ..., u(ts_end) from u(ts-1); `ts_end` is `ts` without `range_actions`. `flags`
 are GPUZIP_FLAG_*, as those of the action. Returns 0, or another number to stop the run.
 */
typedef int32_t (*gpuzip_forward_t)(void *user,
                                    int32_t ts,
                                    int32_t ts_end,
                                    uint32_t flags);

/*
 Does the adjoint of the step ts -> ts+1; u(ts) is live. Called for n-1, ..., 0, each once.
 `flags` and result as for `gpuzip_forward_t`.
 */
typedef int32_t (*gpuzip_backward_t)(void *user,
                                     int32_t ts,
                                     uint32_t flags);

/*
 Says where the state is, for applications that swap buffers: sets `data` of the `nfields`
 fields, which come as given to the run, to where u(ts) is (`type` GPUZIP_ACTION_SAVE) or is to
 be put (GPUZIP_ACTION_RESTORE). Result as for `gpuzip_forward_t`.
 */
typedef int32_t (*gpuzip_locate_t)(void *user,
                                   int32_t type,
                                   int32_t ts,
                                   struct gpuzip_field_t *fields,
                                   uint32_t nfields);

/*
 Told of every SAVE and RESTORE of u(ts) after it is done; on a GPU after it is enqueued. `flags`
 and result as for `gpuzip_forward_t`.
 */
typedef int32_t (*gpuzip_observe_t)(void *user,
                                    int32_t type,
                                    int32_t ts,
                                    uint32_t flags);

/*
 What `gpuzip_run_forward` and `gpuzip_run_reverse` call, in the thread that called them. The
 functions must not throw or longjmp. They may ask about the session (`gpuzip_stats`,
 `gpuzip_summary`) and use other sessions; whatever moves this one makes the run fail.
 */
typedef struct gpuzip_callbacks_t {
  /*
   sizeof(gpuzip_callbacks_t). A larger one, of a newer header, is accepted if all that it has
   beyond this one is zero.
   */
  uint64_t struct_size;
  /*
   Given to the functions as it is.
   */
  void *user;
  /*
   Not NULL.
   */
  gpuzip_forward_t forward;
  /*
   May be NULL for `gpuzip_run_forward`.
   */
  gpuzip_backward_t backward;
  /*
   NULL: the state is always in the fields given to the run.
   */
  gpuzip_locate_t locate;
  /*
   May be NULL.
   */
  gpuzip_observe_t observe;
  /*
   Zero.
   */
  uint64_t reserved[4];
} gpuzip_callbacks_t;

/*
 For `gpuzip_agree`: replaces `*value` by the least that any rank gave, as
 `MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT64_T, MPI_MIN, communicator)` does. Returns 0, or
 another number if that failed.
 */
typedef int32_t (*gpuzip_least_t)(void *user,
                                  int64_t *value);

/*
 What a profile says. Times are of a state of `state_bytes` bytes; GB/s are 1e9 bytes per second,
 a codec's of raw bytes.
 */
typedef struct gpuzip_profile_info_t {
  /*
   sizeof(gpuzip_profile_info_t), set by the caller.
   */
  uint64_t struct_size;
  /*
   Bytes of the states that were measured; 0: times are of any.
   */
  uint64_t state_bytes;
  /*
   One FORWARD step, in milliseconds.
   */
  double forward_ms;
  /*
   One BACKWARD step, in milliseconds.
   */
  double backward_ms;
  /*
   GB/s from host to device memory.
   */
  double h2d_gbs;
  /*
   GB/s from device to host memory.
   */
  double d2h_gbs;
  /*
   GB/s of copies within device memory.
   */
  double d2d_gbs;
  /*
   GB/s of reading from disk; assumed in this version.
   */
  double disk_read_gbs;
  /*
   GB/s of writing to disk; assumed in this version.
   */
  double disk_write_gbs;
  /*
   Where it was measured: 1 host, 2 CUDA; 0: anywhere.
   */
  int32_t backend;
  /*
   Codecs in the profile.
   */
  uint32_t codecs;
  /*
   Of the codec that was asked for: GPUZIP_COMPRESSOR_*; it and what follows is 0 if there is
   none.
   */
  int32_t compressor;
  /*
   Its `error_bound_mode`.
   */
  int32_t error_bound_mode;
  /*
   Its bound; 0 if it keeps none.
   */
  double error_bound;
  /*
   GB/s of compression.
   */
  double compress_gbs;
  /*
   GB/s of decompression.
   */
  double decompress_gbs;
  /*
   Raw bytes over stored bytes, of all states that were tried together.
   */
  double ratio;
  /*
   The same of the state that compressed worst.
   */
  double worst_ratio;
  /*
   Zero.
   */
  uint64_t reserved[4];
} gpuzip_profile_info_t;

/*
 What a compressed stream says of one of its arrays. Set `struct_size` to
 sizeof(gpuzip_codec_info_t) before the call.
 */
typedef struct gpuzip_codec_info_t {
  /*
   Bytes that the caller knows.
   */
  uint64_t struct_size;
  /*
   Arrays in the stream.
   */
  uint32_t arrays;
  /*
   GPUZIP_COMPRESSOR_*, or the number of a registered codec.
   */
  int32_t compressor;
  /*
   0 the values as they are, 1 compressed, 2 one value that all have.
   */
  int32_t content;
  /*
   GPUZIP_TYPE_*.
   */
  int32_t type;
  /*
   Number of the field.
   */
  int32_t field;
  /*
   -1, or the number of another field of the stream: what is stored is that one minus this
   one.
   */
  int32_t reference;
  /*
   Extents, n1 fastest.
   */
  uint64_t n1;
  /*
   Extent.
   */
  uint64_t n2;
  /*
   Extent.
   */
  uint64_t n3;
  /*
   The absolute bound that what is stored keeps; 0: none was asked for.
   */
  double bound;
  /*
   Bytes of the array.
   */
  uint64_t raw_bytes;
  /*
   Bytes in the stream, header and padding included.
   */
  uint64_t stored_bytes;
  /*
   Zero.
   */
  uint64_t reserved[4];
} gpuzip_codec_info_t;

/*
 Most bytes that `compress` of a registered codec writes for an array of this shape (`data` is
 NULL); what is more than the bytes of the array does not count.
 */
typedef uint64_t (*gpuzip_codec_max_bytes_t)(void *user,
                                             const struct gpuzip_field_t *field);

/*
 Compresses the array, which is host memory, into `to`, at most `capacity` bytes, the result of
 `max_bytes`, and sets `*bytes`. It keeps `bound`: pointwise, or with `rms` = 1 as the root mean
 square error. The array must not be changed. Returns 0; or 1 if the array is to be stored as it
 is; or a negative status, which fails the save.
 */
typedef int32_t (*gpuzip_codec_compress_t)(void *user,
                                           const struct gpuzip_field_t *field,
                                           int32_t rms,
                                           double bound,
                                           void *to,
                                           uint64_t capacity,
                                           uint64_t *bytes);

/*
 Fills the array, which is host memory, from what `compress` wrote. Returns 0, or another status,
 which fails the retrieve.
 */
typedef int32_t (*gpuzip_codec_decompress_t)(void *user,
                                             const void *from,
                                             uint64_t bytes,
                                             const struct gpuzip_field_t *field);

/*
 A codec of the application's own. Its functions are called by whatever thread saves and
 retrieves, several at a time, and must not throw; headers, checksums, constant arrays and
 differences of time levels are gpuzip's. That the bound is kept is its own promise.
 */
typedef struct gpuzip_codec_plugin_t {
  /*
   sizeof(gpuzip_codec_plugin_t).
   */
  uint64_t struct_size;
  /*
   Its name, copied.
   */
  const char *name;
  /*
   Given to its functions as it is.
   */
  void *user;
  /*
   Not NULL.
   */
  gpuzip_codec_max_bytes_t max_bytes;
  /*
   Not NULL.
   */
  gpuzip_codec_compress_t compress;
  /*
   Not NULL.
   */
  gpuzip_codec_decompress_t decompress;
  /*
   Zero.
   */
  uint64_t reserved[4];
} gpuzip_codec_plugin_t;

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/*
 The text of this thread's last error: which call failed, which value was wrong, what to do;
 begun by "rank 3: " where a launcher of MPI has started several ranks. Empty if none did;
 success does not clear it. The pointer stays valid while the thread lives; what it points to
 changes with the thread's next error.
 */
const char *gpuzip_last_error(void);

/*
 A short name of a status. Never NULL; lives for ever.
 */
const char *gpuzip_status_string(gpuzip_status_t status);

/*
 The version of the library, "major.minor.patch". Lives for ever.
 */
const char *gpuzip_version(void);

/*
 The version of the ABI: a program runs with every library of the same number.
 */
uint32_t gpuzip_abi_version(void);

/*
 The name of GPUZIP_ALGORITHM_*, as configurations spell it; "unknown" for other numbers. Lives
 for ever.
 */
const char *gpuzip_algorithm_name(int32_t algorithm);

/*
 Sets what is logged from now on, for the whole process: `level` 0 DEBUG, 1 INFO, 2 WARN, 3
 ERROR. `gpuzip_init`, `gpuzip_attach` and `gpuzip_schedule_create` set it to the `log_level` of
 their configuration. The variable GPUZIP_LOG filters what goes to stderr.
 */
gpuzip_status_t gpuzip_set_log_level(int32_t level);

/*
 Sends log lines to `callback` instead of stderr, for the whole process; NULL sends them to
 stderr again. `user` is handed to the callback as it is and must outlive its registration.
 */
gpuzip_status_t gpuzip_set_log_callback(gpuzip_log_callback_t callback,
                                        void *user);

/*
 Fills `*config` with gpuzip's defaults: algorithm auto, snapshots and cache from the budgets, no
 compression, log level WARN.

 Pointers:
 `config` is NULL or points to memory for a configuration.
 */
gpuzip_status_t gpuzip_config_init(struct gpuzip_config_t *config);

/*
 Fills `*config` from the defaults, then the file at `path` (`key = value` lines, `#` comments,
 keys as the fields are named, at most 1 MiB), then the environment variables GPUZIP_<KEY> in
 capitals. `path` may be NULL: no file. `gpuzip config` lists the keys and checks a file.

 What has names may be given by name, whatever its case, or by number. Numbers may be written as
 1e4. Byte counts and bandwidths may have a suffix, as for GNU coreutils: K, M, G, T and KiB to
 TiB are powers of 1024, kB to TB are powers of 1000. An unknown key or value is an error that
 names the nearest key, or the values that there are; a variable GPUZIP_* that is not known is a
 warning, unless all of its words are such as build files use (GPUZIP_ROOT, GPUZIP_LIB_DIR) and
 it is near no key.

 The strings of `*config` belong to the library and stay valid as long as the process, equal ones
 being kept once: copies of the struct may be used and freed in any order. On an error `*config`
 is unchanged.

 Pointers:
 `path` is NULL or a string; `config` is NULL or points to memory for a configuration.
 */
gpuzip_status_t gpuzip_config_load(const char *path,
                                   struct gpuzip_config_t *config);

/*
 Resets `*config` to the defaults, so that it points to nothing that was loaded or set before. Of
 a configuration that was never loaded, of a copy and of one that was freed already this is as
 harmless as of any; one of block 1 only stays as it is.

 Pointers:
 `config` is NULL or points to an initialised configuration.
 */
gpuzip_status_t gpuzip_config_free(struct gpuzip_config_t *config);

/*
 Makes a schedule for `steps` time steps, with its cursor before the first action. `config` is
 copied, strings included. If budgets decide the number of snapshots, that is settled at the
 first action, when all sessions are attached; without sessions `auto` is Revolve with GPUZIP's
 number of snapshots. On success `*schedule` is a handle, to be given back with
 `gpuzip_schedule_release`.

 Pointers:
 `config` is NULL or points to a configuration; `schedule` is NULL or points to a handle's place.
 */
gpuzip_status_t gpuzip_schedule_create(const struct gpuzip_config_t *config,
                                       int32_t steps,
                                       struct gpuzip_schedule_t **schedule);

/*
 Moves the cursor to the next action and writes it to `*action`. Sessions follow with
 `gpuzip_dispatch`. After TERMINATE only a rewind is valid.

 Pointers:
 `action` is NULL or points to an action.
 */
gpuzip_status_t gpuzip_schedule_get_action(struct gpuzip_schedule_t *schedule,
                                           struct gpuzip_action_t *action);

/*
 Writes to `*action` what `gpuzip_schedule_get_action` would give next, and changes nothing, as
 `gpuzip_peek_action`.

 Pointers:
 `action` is NULL or points to an action.
 */
gpuzip_status_t gpuzip_schedule_peek_action(struct gpuzip_schedule_t *schedule,
                                            struct gpuzip_action_t *action);

/*
 Goes back to before the first action. Every session of the schedule needs a `gpuzip_setup` then.
 */
gpuzip_status_t gpuzip_schedule_rewind(struct gpuzip_schedule_t *schedule);

/*
 The numbers of a schedule, by one pass over it. The fields that belong to a plan are 0.

 Pointers:
 `summary` is NULL or points to a summary whose `struct_size` is set.
 */
gpuzip_status_t gpuzip_schedule_summary(struct gpuzip_schedule_t *schedule,
                                        struct gpuzip_summary_t *summary);

/*
 Gives a schedule handle back. Sessions that follow the schedule keep it alive.
 */
gpuzip_status_t gpuzip_schedule_release(struct gpuzip_schedule_t *schedule);

/*
 Makes a session with a schedule of its own, ready for the first shot, and allocates its memory.

 `config` is copied, strings included. `steps` is the number of time steps, n. `fields` are the
 `nfields` fields of a state: their shapes, types and roles count, their data may be NULL. On
 success `*handle` is the session, to be given back with `gpuzip_finalize`.

 Pointers:
 `config` and `handle` are NULL or valid; `fields` points to `nfields` fields.
 */
gpuzip_status_t gpuzip_init(const struct gpuzip_config_t *config,
                            int32_t steps,
                            const struct gpuzip_field_t *fields,
                            uint32_t nfields,
                            struct gpuzip_t **handle);

/*
 Makes a session that follows `schedule` together with others, one per device. `config` gives its
 tiers and policy; the schedule's own configuration gives the algorithm and whether actions are
 ranges. Its memory is allocated with the first action. Parameters as for `gpuzip_init`.

 Pointers:
 As `gpuzip_init`.
 */
gpuzip_status_t gpuzip_attach(struct gpuzip_schedule_t *schedule,
                              const struct gpuzip_config_t *config,
                              const struct gpuzip_field_t *fields,
                              uint32_t nfields,
                              struct gpuzip_t **handle);

/*
 The schedule that a session follows, as a handle of its own: give it back with
 `gpuzip_schedule_release`.

 Pointers:
 `schedule` is NULL or points to a handle's place.
 */
gpuzip_status_t gpuzip_get_schedule(struct gpuzip_t *handle,
                                    struct gpuzip_schedule_t **schedule);

/*
 Prepares a shot: rewinds the schedule, forgets all snapshots and clears the statistics; the plan
 is kept. Call it before each shot, for every session of a schedule; a new session needs none
 before its first.

 A shot that was left after its last BACKWARD without TERMINATE ends here, with all that
 TERMINATE does: the line in the performance log, the end in the timeline, the profile of
 `gpuzip_autotune`, and on a GPU the check that every state restored was what had been saved. The
 time up to this call then counts as that BACKWARD's. An error is of the shot before, and told
 once: a second call begins the next shot.
 */
gpuzip_status_t gpuzip_setup(struct gpuzip_t *handle);

/*
 Moves the schedule to its next action, follows it with this session, and writes it to `*action`.
 An action that asks for a save or a retrieve must be served before the next one. After TERMINATE
 only `gpuzip_setup` is valid.

 Pointers:
 `action` is NULL or points to an action.
 */
gpuzip_status_t gpuzip_get_action(struct gpuzip_t *handle,
                                  struct gpuzip_action_t *action);

/*
 Writes to `*action` what `gpuzip_get_action` would give next, and changes nothing: the action
 stays the next one. A loop sees so that the forward sweep is over while its last action is still
 the current one: the next action is a BACKWARD with GPUZIP_FLAG_FIRST_BACKWARD. The schedule is
 decided by this call if it is not yet. After TERMINATE there is no next action:
 GPUZIP_ERR_STATE.

 Pointers:
 `action` is NULL or points to an action.
 */
gpuzip_status_t gpuzip_peek_action(struct gpuzip_t *handle,
                                   struct gpuzip_action_t *action);

/*
 Follows the schedule to its current action, which must be number `it`. For the sessions whose
 schedule somebody else advances; for a session that is there already it does nothing.
 */
gpuzip_status_t gpuzip_dispatch(struct gpuzip_t *handle,
                                int64_t it);

/*
 Stores u(ts). The current action must be SAVE of `ts`. `fields` have the shapes given at init,
 and their data may move from call to call. Fields that overlap each other, or the session's own
 memory, are an error. On a GPU the effects are ordered on `stream` (a CUstream or cudaStream_t;
 NULL is the default stream) and the call does not wait. `stream` stays valid until the next save
 or retrieve, `gpuzip_setup` or `gpuzip_finalize`: that is where the library looks how far the
 GPU is (`max_in_flight`). On the host backend `stream` is NULL, and the fields have been read on
 return.

 Pointers:
 `fields` points to `nfields` fields whose data is readable.
 */
gpuzip_status_t gpuzip_save(struct gpuzip_t *handle,
                            int32_t ts,
                            const struct gpuzip_field_t *fields,
                            uint32_t nfields,
                            void *stream);

/*
 Overwrites the fields with u(ts). The current action must be RESTORE of `ts`; the fields are as
 for `gpuzip_save`. On a GPU the effects are ordered on `stream` and the call does not wait;
 `stream` stays valid as with `gpuzip_save`. On the host backend `stream` is NULL, and the fields
 have been written on return.

 Without a codec each field has the bytes that were saved. A lossy codec keeps its bound for
 every value, zeros included: where the application has zeros that its time steps read and never
 compute, such as a halo or a boundary, the field may come back with values within the bound. Set
 those zeros again after the call.

 Pointers:
 `fields` points to `nfields` fields whose data is writable.
 */
gpuzip_status_t gpuzip_retrieve(struct gpuzip_t *handle,
                                int32_t ts,
                                const struct gpuzip_field_t *fields,
                                uint32_t nfields,
                                void *stream);

/*
 Zero copy, for sessions with `zero_copy` = 1: gives memory in which the application computes
 u(ts) instead of having it copied.

 The current action is the FORWARD to `ts` (the `ts_end` of a range) with the flag NEXT_IS_SAVE,
 or SAVE of `ts`. `data[i]` becomes the address of field i, which `stream` may write to from now
 on. Then comes `gpuzip_save_commit`. Nothing is copied within the device.

 Pointers:
 `data` is NULL or points to `nfields` places.
 */
gpuzip_status_t gpuzip_save_begin(struct gpuzip_t *handle,
                                  int32_t ts,
                                  void **data,
                                  uint32_t nfields,
                                  void *stream);

/*
 Stores u(ts), which `stream` has computed in the memory that `gpuzip_save_begin` gave; the
 current action must be SAVE of `ts`. That memory may be read until the next save or retrieve is
 done on the stream, and written no more.
 */
gpuzip_status_t gpuzip_save_commit(struct gpuzip_t *handle,
                                   int32_t ts,
                                   void *stream);

/*
 Zero copy: gives memory that holds u(ts) on `stream` until the next save or retrieve is done
 there; it need not be given back. The current action must be RESTORE of `ts`. The memory must
 not be written to, unless the action has the flag LAST_USE.

 Pointers:
 `data` is NULL or points to `nfields` places.
 */
gpuzip_status_t gpuzip_retrieve_acquire(struct gpuzip_t *handle,
                                        int32_t ts,
                                        void **data,
                                        uint32_t nfields,
                                        void *stream);

/*
 Gives back the memory that `gpuzip_retrieve_acquire` gave for `ts`, before the next save or
 retrieve does: what uses it is enqueued on `stream`, or over, and it must not be touched after
 that. Optional; the sooner it comes, the sooner the next snapshot is fetched into it.
 Valid in any action up to the next save or retrieve.
 */
gpuzip_status_t gpuzip_retrieve_release(struct gpuzip_t *handle,
                                        int32_t ts,
                                        void *stream);

/*
 Blocks the calling thread until all saves and retrieves of this session so far have read and
 written their fields. Only for codes that touch the fields outside the stream that they gave; on
 the host backend that is so on return of each call.
 */
gpuzip_status_t gpuzip_synchronize(struct gpuzip_t *handle);

/*
 What this session counted and timed since its last setup.

 Pointers:
 `stats` is NULL or points to statistics whose `struct_size` is set.
 */
gpuzip_status_t gpuzip_stats(struct gpuzip_t *handle,
                             struct gpuzip_stats_t *stats);

/*
 What was decided for this session: schedule, plan and memory.

 Pointers:
 `summary` is NULL or points to a summary whose `struct_size` is set.
 */
gpuzip_status_t gpuzip_summary(struct gpuzip_t *handle,
                               struct gpuzip_summary_t *summary);

/*
 What `gpuzip_init` would decide and allocate, without doing so. Parameters as for `gpuzip_init`.
 `device_bytes` is what it takes of the device, and enough as `device_budget`, if the backend is
 named or the fields' memory tells it; `host_bytes` is what snapshots of the expected sizes have.

 Pointers:
 As `gpuzip_init`; `summary` is NULL or points to a summary whose `struct_size` is set.
 */
gpuzip_status_t gpuzip_memory_required(const struct gpuzip_config_t *config,
                                       int32_t steps,
                                       const struct gpuzip_field_t *fields,
                                       uint32_t nfields,
                                       struct gpuzip_summary_t *summary);

/*
 Frees a session once its transfers are done; if another thread is in a call on it, when that
 call returns. The handle is invalid at once.

 A shot that was left after its last BACKWARD without TERMINATE ends here, as by `gpuzip_setup`.
 If a state that a GPU restored was not what had been saved, and no call has said so yet, that is
 the result (GPUZIP_ERR_STREAM, GPUZIP_ERR_VALUES, GPUZIP_ERR_DEVICE); the session is
 freed all the same.
 */
gpuzip_status_t gpuzip_finalize(struct gpuzip_t *handle);

/*
 Runs the forward sweep of a shot: what `gpuzip_get_action` would say, up to the first BACKWARD.
 FORWARDs go to `callbacks->forward`, saves and retrieves are done here. Returns before the first
 BACKWARD is begun, so that the application can do what it has to between the sweeps; a session
 that is there already stays there.

 `fields` are the `nfields` fields of the state with their data, unless `callbacks->locate` says
 each time where those are; `stream` is as for `gpuzip_save`. All of it is copied. If a callback
 returns other than 0, nothing more is called and the result is GPUZIP_ERR_CALLBACK, with the
 value in the error's text; the session then needs `gpuzip_setup` before its next shot. Sessions
 with `zero_copy` = 1 cannot run so.

 Pointers:
 `callbacks` is NULL or points to callbacks whose `struct_size` is set; `fields` to `nfields`
 fields, whose data is readable and writable.
 */
gpuzip_status_t gpuzip_run_forward(struct gpuzip_t *handle,
                                   const struct gpuzip_callbacks_t *callbacks,
                                   const struct gpuzip_field_t *fields,
                                   uint32_t nfields,
                                   void *stream);

/*
 Runs what is left of a shot, to TERMINATE: after `gpuzip_run_forward` the reverse sweep; in a
 shot that has not begun, all of it. Parameters and result as for `gpuzip_run_forward`;
 `callbacks->backward` must not be NULL.

 Pointers:
 As `gpuzip_run_forward`.
 */
gpuzip_status_t gpuzip_run_reverse(struct gpuzip_t *handle,
                                   const struct gpuzip_callbacks_t *callbacks,
                                   const struct gpuzip_field_t *fields,
                                   uint32_t nfields,
                                   void *stream);

/*
 A number that two schedules have in common if an application gets the same actions from both, in
 the same order and with the same flags, and practically never otherwise (2 different ones with
 probability 2^-64). It depends on nothing but the actions: compare it between ranks, machines
 and runs. It takes a pass over the schedule, which is decided by this call if it is not yet.

 Pointers:
 `fingerprint` is NULL or points to a number.
 */
gpuzip_status_t gpuzip_fingerprint(struct gpuzip_t *handle,
                                   uint64_t *fingerprint);

/*
 As `gpuzip_fingerprint`, of a schedule.

 Pointers:
 `fingerprint` is NULL or points to a number.
 */
gpuzip_status_t gpuzip_schedule_fingerprint(struct gpuzip_schedule_t *schedule,
                                            uint64_t *fingerprint);

/*
 Makes ranks that compute one grid together have one schedule. A plan depends on the size of
 states and on budgets; slabs of 101 and of 100 planes may be planned with 19 and 20 snapshots,
 and then the first exchange of halos that one rank wants and the other does not waits for
 ever. Call it on every rank after `gpuzip_init` (and after `gpuzip_profile_import`, which plans
 anew), before the first action or after TERMINATE.

 All ranks get the schedule of the one with the fewest snapshots (of several such ranks the one
 with the smallest numbers in the other parameters); a session whose own schedule was another one
 plans and allocates anew with its next action. Cache and codec of each rank stay its own. The
 result is success on all ranks, with equal fingerprints, or an error on all: where a rank has
 failed that is its own error, and GPUZIP_ERR_SCHEDULE on the others.

 `least` is called 5 times on every rank, whatever becomes of the ranks; `user` is handed to it.
 A rank without a session, since `gpuzip_init` failed there, takes part with `handle` NULL, so
 that the others do not wait for it. If `least` itself fails, it is not called again, and the
 result there is GPUZIP_ERR_CALLBACK.

 Pointers:
 `least` is NULL or does what `gpuzip_least_t` says, with `user`.
 */
gpuzip_status_t gpuzip_agree(struct gpuzip_t *handle,
                             gpuzip_least_t least,
                             void *user);

/*
 Measures the next shot, or the one that begins: call it before the first action or after
 TERMINATE.

 Of that shot the steps are timed, and in eight parts of the sweep a state that is saved is
 copied within the device and across the link and compressed and decompressed with the codecs
 that the configuration has, or leaves to choose from. The shot's own results are those of
 any other; it takes longer, and while it runs, memory for one more state on the device and on
 the host, and what the codecs need. When TERMINATE has been handed out the session has the
 profile: it is written to `profile_path` if that is set, and `gpuzip_profile_export` gives it.
 The session itself goes on with its plan until `gpuzip_profile_import`, so that ranks stay in
 step.
 */
gpuzip_status_t gpuzip_autotune(struct gpuzip_t *handle);

/*
 The profile that the session measured last, or was given, as bytes that mean the same on every
 machine: broadcast them, or write them to a file. `*bytes` becomes their number. With `data`
 NULL that is all; or else `data` has room for `capacity` bytes, at least that many.

 Pointers:
 `data` is NULL or points to `capacity` bytes; `bytes` is NULL or points to a number.
 */
gpuzip_status_t gpuzip_profile_export(struct gpuzip_t *handle,
                                      void *data,
                                      uint64_t capacity,
                                      uint64_t *bytes);

/*
 Gives the session a profile that `gpuzip_profile_export` or a profile's file has, and plans anew
 by it: before the first action, or after TERMINATE for the next shot. A plan is a function of
 configuration, profile and fields alone: ranks that import the same bytes between the same shots
 plan alike. On a schedule with several sessions each one imports. If the profile is damaged, of
 another version or of another backend, or no plan fits, the session stays as it was. Memory is
 allocated with the next action.

 Pointers:
 `data` is NULL or points to `bytes` bytes.
 */
gpuzip_status_t gpuzip_profile_import(struct gpuzip_t *handle,
                                      const void *data,
                                      uint64_t bytes);

/*
 What the bytes of a profile say, and of its codecs number `index`, from 0; beyond the last one
 there is none.

 Pointers:
 `data` is NULL or points to `bytes` bytes; `info` is NULL or points to a `gpuzip_profile_info_t`
 whose `struct_size` is set.
 */
gpuzip_status_t gpuzip_profile_info(const void *data,
                                    uint64_t bytes,
                                    uint32_t index,
                                    struct gpuzip_profile_info_t *info);

/*
 Bytes that `gpuzip_codec_compress` needs room for: more than any stream of these fields has.
 Their data may be NULL.

 Pointers:
 `config` and `bytes` are NULL or valid; `fields` points to `nfields` fields.
 */
gpuzip_status_t gpuzip_codec_bound(const struct gpuzip_config_t *config,
                                   const struct gpuzip_field_t *fields,
                                   uint32_t nfields,
                                   uint64_t *bytes);

/*
 Compresses arrays in host memory, with the codec and the bound of `config`, into one stream at
 `stream`. `capacity` is the room there, at least what `gpuzip_codec_bound` says; `*bytes`
 becomes the size of the stream. A field with the role k+1 is coded as field k minus itself, as
 in a session. The call returns when it is done.

 Pointers:
 `config` and `bytes` are NULL or valid; `fields` points to `nfields` fields with their data;
 `stream` to `capacity` bytes apart from them.
 */
gpuzip_status_t gpuzip_codec_compress(const struct gpuzip_config_t *config,
                                      const struct gpuzip_field_t *fields,
                                      uint32_t nfields,
                                      void *stream,
                                      uint64_t capacity,
                                      uint64_t *bytes);

/*
 Restores arrays from a stream that `gpuzip_codec_compress` made, in this process or another. The
 fields must have the shapes, types and roles that were compressed. Whatever the bytes of the
 stream are, the call ends with the arrays restored or with an error.

 Pointers:
 `stream` points to `bytes` bytes; `fields` to `nfields` fields with their data, which may be
 written.
 */
gpuzip_status_t gpuzip_codec_decompress(const void *stream,
                                        uint64_t bytes,
                                        const struct gpuzip_field_t *fields,
                                        uint32_t nfields);

/*
 What a stream says of its array number `index`, from 0, in the order of the stream.

 Pointers:
 `stream` points to `bytes` bytes; `info` is NULL or points to a `gpuzip_codec_info_t` whose
 `struct_size` is set.
 */
gpuzip_status_t gpuzip_codec_info(const void *stream,
                                  uint64_t bytes,
                                  uint32_t index,
                                  struct gpuzip_codec_info_t *info);

/*
 Adds a codec of the application's to those of this process, for good. `*compressor` becomes its
 number for `gpuzip_config_t.compressor`: 64, 65, ... in the order of registration, which has to
 be the same where its streams are read.

 Pointers:
 `plugin` is NULL or points to a table whose functions do what `gpuzip_codec_plugin_t` says, from
 any thread, as long as the process lives.
 */
gpuzip_status_t gpuzip_codec_register(const struct gpuzip_codec_plugin_t *plugin,
                                      int32_t *compressor);

#ifdef __cplusplus
}  /* extern "C" */
#endif  /* __cplusplus */

#endif  /* GPUZIP_H */
