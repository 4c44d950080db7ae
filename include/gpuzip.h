/* gpuzip: checkpointing for adjoint codes.
 *
 * Generated from the library's sources; do not edit. Conventions:
 *  - Every call returns a gpuzip_status_t: 0 is success; a negative number is an error, whose text
 *    gpuzip_last_error() returns in the same thread.
 *  - Outputs are the last arguments and are written only on success. No call exits, aborts or
 *    throws.
 *  - Handles are checked: a stale handle is an error. One thread at a time may use a session; calls
 *    on it from several threads run one after the other.
 *  - The library computes in the floating-point environment that programs begin with, whatever the
 *    caller's environment is. Streams, error bounds and plans therefore do not depend on rounding
 *    modes, on flushed subnormal numbers or on exceptions that trap. Callbacks run in the caller's
 *    environment, and every call leaves that environment unchanged, exception flags included
 *    (x86-64 and ARM64).
 *  - The library copies configurations, strings and shapes. It uses the memory of fields during the
 *    call only, and on a GPU until the work that the call enqueued is done.
 */

#ifndef GPUZIP_H
#define GPUZIP_H

#include <stdint.h>

/* In C++ every member of a new configuration is zero, as in GPUZIP 2.x, but struct_size, which is
   set. From C++14 on gpuzip_config_t is also an aggregate. */
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
 level is not what `shared_levels = 1` requires; or a state differs from what it was first, and `check`
 is set.
 */
#define GPUZIP_ERR_VALUES -105

/*
 The call does not fit the current action. Nothing has changed.
 */
#define GPUZIP_ERR_STATE -201

/*
 The handle was never made, or has been given back.
 */
#define GPUZIP_ERR_HANDLE -202

/*
 The handle belongs to the process that this one was forked from; or the call needs CUDA, which
 does not work in a child of a process that has used it. Configurations, schedules and host
 sessions that the child makes itself work.
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
 A compressed stream is damaged, or was written by another version.
 */
#define GPUZIP_ERR_STREAM -404

/*
 The device failed.
 */
#define GPUZIP_ERR_DEVICE -501

/*
 A defect in gpuzip was caught (a panic).
 */
#define GPUZIP_ERR_PANIC -901

/*
 An earlier defect made this handle unusable; finalize it.
 */
#define GPUZIP_ERR_POISONED -902

/*
 The application computes u(ts) from u(ts-1); with `range_actions`, it goes on to u(ts_end).
 */
#define GPUZIP_ACTION_FORWARD 0

/*
 u(ts) is live: the application calls `gpuzip_save`.
 */
#define GPUZIP_ACTION_SAVE 1

/*
 The application calls `gpuzip_retrieve`; u(ts) is live afterwards.
 */
#define GPUZIP_ACTION_RESTORE 2

/*
 u(ts) is live: the application does the adjoint of the step ts -> ts+1; with `adjoint_every`, the
 adjoint of the steps ts_end -> ts_end+1, ..., ts -> ts+1, in this order.
 */
#define GPUZIP_ACTION_BACKWARD 3

/*
 The shot is over.
 */
#define GPUZIP_ACTION_TERMINATE 4

/*
 The schedule cannot go on. No valid schedule contains it.
 */
#define GPUZIP_ACTION_ERROR 5

/*
 FORWARD: this step (every step of a range) was computed before in this shot; do not record
 receivers again.
 */
#define GPUZIP_FLAG_RECOMPUTE 1

/*
 BACKWARD: the first one of the reverse sweep.
 */
#define GPUZIP_FLAG_FIRST_BACKWARD 2

/*
 RESTORE: no later action needs the snapshot. SAVE: no action will restore the snapshot; online
 schedules do not say so of a SAVE, since their forward phase does not depend on where it ends.
 */
#define GPUZIP_FLAG_LAST_USE 4

/*
 FORWARD: the next action saves the state that this action computes (the last state of a range).
 */
#define GPUZIP_FLAG_NEXT_IS_SAVE 8

/*
 Any action: a stop was requested (`gpuzip_request_stop`). The seconds that are left are in the
 statistics, `stop_left`.
 */
#define GPUZIP_FLAG_INTERRUPT 16

/*
 With `zero_copy` and `shared_levels`. SAVE, RESTORE, and a FORWARD with GPUZIP_FLAG_NEXT_IS_SAVE: the
 memory that the session hands out for the previous time level of the state is that of the state one
 time step before, and holds it already. Do not write there, not even after GPUZIP_FLAG_LAST_USE.
 */
#define GPUZIP_FLAG_SHARED_LEVEL 32

/*
 `gpuzip_persist_due`: no generation is to be written now.
 */
#define GPUZIP_DUE_NO 0

/*
 `gpuzip_persist_due`: a generation may be written.
 */
#define GPUZIP_DUE_YES 1

/*
 `gpuzip_persist_due`: a stop was requested.
 */
#define GPUZIP_DUE_STOP 2

/*
 Replays the recorded schedule in `trace_file_path`.
 */
#define GPUZIP_ALGORITHM_TRACE 0

/*
 Revolve: binomial checkpointing (Griewank and Walther 2000).
 */
#define GPUZIP_ALGORITHM_REVOLVE 1

/*
 Checkpoints at equal distances; inside each interval, Revolve with the slots that are free.
 */
#define GPUZIP_ALGORITHM_UNIFORM 2

/*
 zCut, reconstructed from its description.
 */
#define GPUZIP_ALGORITHM_ZCUT 3

/*
 The library chooses the schedule that it predicts to be fastest within the budgets, by
 simulation with the profile, or with speeds that are typical of the backend.
 */
#define GPUZIP_ALGORITHM_AUTO 4

/*
 Checkpoints at equal distances in host memory; inside each interval, Revolve with the slots of
 the device cache.
 */
#define GPUZIP_ALGORITHM_TWO_LEVEL 5

/*
 Saves every state that is needed again.
 */
#define GPUZIP_ALGORITHM_STORE_ALL 6

/*
 Nested: Revolve over intervals, of which few starts are stored, in host memory; inside each
 interval, Revolve with the slots of the device cache. For few host slots.
 */
#define GPUZIP_ALGORITHM_HREVOLVE 8

/*
 Online: for a number of steps that is not known before the forward phase ends
 (`gpuzip_end_forward`). For n <= (s+1)(s+2)/2 steps and s snapshots it takes as few forward steps
 as Revolve does with n known, and for larger n at most 8 % more (two snapshots: 14 %).
 */
#define GPUZIP_ALGORITHM_ONLINE 9

/*
 Clairvoyant replacement: the snapshot whose next use is farthest away leaves the device cache
 (Belady 1966). The plan has the fewest transfers from host to device that the cache allows, and
 for every algorithm but `trace` the fewest transfers in both directions together. A recorded
 schedule may use its snapshots in another order than a stack does, and its plan may then have
 more write-backs than the fewest.
 */
#define GPUZIP_POLICY_CLAIRVOYANT 0

/*
 LRU replacement and the prefetching algorithm PSA, as published for GPUZIP 2.x, for comparison.
 */
#define GPUZIP_POLICY_LRU 1

/*
 No codec: raw snapshots.
 */
#define GPUZIP_COMPRESSOR_NONE 0

/*
 zfp (Lindstrom 2014) at a fixed rate of `zfp_bit_rate` bits per value; the payload is libzfp's
 format.
 */
#define GPUZIP_COMPRESSOR_ZFP 1

/*
 Bitcomp, NVIDIA's codec in an installed libnvcomp.
 */
#define GPUZIP_COMPRESSOR_BITCOMP 2

/*
 cuSZp in its published layout (Huang et al. 2023), within an error bound.
 */
#define GPUZIP_COMPRESSOR_CUSZP 3

/*
 Lorenzo prediction (Ibarria et al. 2003) in tiles, within an error bound: the fast one.
 */
#define GPUZIP_COMPRESSOR_LORENZO 4

/*
 Cosine transform of tiles, within an error bound: the one with small snapshots.
 */
#define GPUZIP_COMPRESSOR_DCT 5

/*
 Scaled half precision: half the bytes of FP32, a quarter of the bytes of FP64. Every value is
 within 2^-11 (4.9e-4) of its field's maximum; on wavefields the PSNR is 95 to 100 dB.
 */
#define GPUZIP_COMPRESSOR_FP16 6

/*
 Blocks of 32 8-bit integers with a common exponent: 3.9 times smaller than FP32. Every value is
 within 1/127 of its block's maximum, or within 2^-126 (FP64: 2^-1022) if this is larger; on
 wavefields the PSNR is 65 to 70 dB.
 */
#define GPUZIP_COMPRESSOR_BFP 7

/*
 Every bit comes back: Lorenzo prediction (Ibarria et al. 2003) of aligned significands in tiles, on the
 host only. The size depends on the values.
 */
#define GPUZIP_COMPRESSOR_LOSSLESS 8

/*
 The library chooses raw snapshots or one of the codecs that keep an error bound. `error_bound`
 must be set, and the profile (`profile_path`, `gpuzip_profile_import`) must have measured these
 codecs with that bound. If it has measured none of them, the library considers lorenzo with the
 ratio `compression_factor`.
 */
#define GPUZIP_COMPRESSOR_AUTO 15

/*
 32-bit IEEE 754 values.
 */
#define GPUZIP_TYPE_F32 0

/*
 64-bit IEEE 754 values.
 */
#define GPUZIP_TYPE_F64 1

/*
 8-bit integers, signed or not. Values of this type and of the types below are stored unchanged
 and come back exactly, whatever the codec is. The CUDA backend of this version refuses fields of
 these types together with a codec.
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
 Complex values, each two 32-bit IEEE 754 numbers. A codec does not compress them; to have them
 compressed, declare a GPUZIP_TYPE_F32 field whose n1 and pitches are twice as large.
 */
#define GPUZIP_TYPE_COMPLEX_F32 6

/*
 Complex values, each two 64-bit IEEE 754 numbers; otherwise as GPUZIP_TYPE_COMPLEX_F32.
 */
#define GPUZIP_TYPE_COMPLEX_F64 7

/*
 Bytes whose meaning only the application knows.
 */
#define GPUZIP_TYPE_BYTE 8

/*
 The choice of an error bound from the errors of results (`gpuzip_quality_open`).
 */
typedef struct gpuzip_quality_t gpuzip_quality_t;

/*
 A schedule with its current action; several sessions may follow one schedule.
 */
typedef struct gpuzip_schedule_t gpuzip_schedule_t;

/*
 A session: one device of one application.
 */
typedef struct gpuzip_t gpuzip_t;

/*
 The result of a call: 0 is success; negative numbers are errors, whose reason
 `gpuzip_last_error` returns. Positive numbers are reserved for success with a warning; this
 version returns none.
 */
typedef int32_t gpuzip_status_t;

/*
 Receives log lines. The function must not throw, longjmp, fork or call gpuzip. Any thread may
 call it, also in a forked child, which inherits it. `level`: 0 DEBUG, 1 INFO, 2 WARN, 3 ERROR.
 `message` is valid during the call only. `user` is the pointer given at registration.
 */
typedef void (*gpuzip_log_callback_t)(int32_t level,
                                      const char *message,
                                      void *user);

/*
 The configuration. Block 1 has GPUZIP 2.x's fields in their order and with their numbers, and
 zero means what it means in GPUZIP 2.x. Block 2, from `struct_size` on, has gpuzip's own fields,
 and zero means the default. `gpuzip_config_init` fills both blocks with gpuzip's defaults.
 */
typedef struct gpuzip_config_t {
  /*
   GPUZIP_ALGORITHM_*.
   */
  int32_t checkpointing_algorithm GPUZIP_DEFAULT(0);
  /*
   The number of snapshots that the schedule may store at a time; it is an error if the budgets
   hold fewer. 0: as many as the budgets allow; without budgets as many as the algorithm needs
   (Revolve: GPUZIP's number, see `snapshot_rule`), and for `auto` in `gpuzip_init` as many as
   half of the free memory holds (see `device_budget`). Uniform, two-level and hrevolve need
   this number or a budget; store-all keeps every state, and warns if that is more.
   */
  int32_t checkpointing_snaps GPUZIP_DEFAULT(0);
  /*
   Snapshots for which the device cache has room: 0 no cache, from 2 on cache and prefetch. With
   `device_budget`, the most snapshots.
   */
  int32_t cache_capacity GPUZIP_DEFAULT(0);
  /*
   GPUZIP_COMPRESSOR_*; 0: none.
   */
  int32_t compressor GPUZIP_DEFAULT(0);
  /*
   The least severe log lines that are written: 0 DEBUG, 1 INFO, 2 WARN, 3 ERROR. The level
   holds for the whole process.
   */
  int32_t log_level GPUZIP_DEFAULT(0);
  /*
   1: the library appends one CSV line per shot to gpuzip_performance.csv, or to the file that
   GPUZIP_PERFORMANCE_LOG names. Several processes may share the file. A line is written whole
   or not at all; if it is not written, a warning says why.
   */
  int32_t enable_performance_log GPUZIP_DEFAULT(0);
  /*
   1: the library logs the compression ratio of every snapshot, at level INFO.
   */
  int32_t enable_compression_rate_log GPUZIP_DEFAULT(0);
  /*
   The compression ratio (raw bytes over stored bytes) that budgets are planned with; 0 or 1:
   none. A snapshot takes as many bytes as it needs. A snapshot that finds no room in the
   device cache stays in host memory; if it does not fit `host_budget`, its save is an error.
   */
  float compression_factor GPUZIP_DEFAULT(0);
  /*
   The path of the recorded schedule for GPUZIP_ALGORITHM_TRACE.
   */
  char *trace_file_path GPUZIP_DEFAULT(0);
  /*
   Accepted for compatibility with GPUZIP 2.x and without effect; `log_level` decides.
   */
  int32_t revolve_log_level GPUZIP_DEFAULT(0);
  /*
   zfp: bits per value, 1 to 32 (FP64: to 64); 0 stands for 8.
   */
  int32_t zfp_bit_rate GPUZIP_DEFAULT(0);
  /*
   cuSZp without `error_bound`: the bound relative to the range of the values, as in GPUZIP
   2.x.
   */
  double cuszp_err_bound GPUZIP_DEFAULT(0);
  /*
   "float" or "double": the type of fields where a call gives only extents (in the GPUZIP 2.x
   headers). NULL: float.
   */
  const char *float_kind GPUZIP_DEFAULT(0);
  /*
   Bitcomp without `error_bound`: its quantization step delta, twice the error: 0 a fraction of
   the maximum, 1 a fraction of the width of mean +- a number of standard deviations, 2
   `bitcomp_delta`.
   */
  int32_t bitcomp_delta_config GPUZIP_DEFAULT(0);
  /*
   Bitcomp: the fraction for `bitcomp_delta_config` 0 and 1, between 0 and 1.
   */
  double bitcomp_range_fraction GPUZIP_DEFAULT(0);
  /*
   Bitcomp: the standard deviations on either side of the mean, for `bitcomp_delta_config` 1.
   */
  double bitcomp_num_sigma GPUZIP_DEFAULT(0);
  /*
   Bitcomp: the delta, for `bitcomp_delta_config` 2.
   */
  double bitcomp_delta GPUZIP_DEFAULT(0);
  /*
   Bitcomp: 0 the default algorithm, 1 the one for arrays with many zeros (sparse).
   */
  int32_t bitcomp_algorithm GPUZIP_DEFAULT(0);
  /*
   sizeof(gpuzip_config_t), set by `gpuzip_config_init` and, in C++, by the declaration. 0: the
   library reads block 1 only. A larger struct, of a newer header, is accepted if the bytes
   beyond the library's struct are zero.
   */
  uint64_t struct_size GPUZIP_DEFAULT(sizeof(gpuzip_config_t));
  /*
   Where snapshots are kept: 0 where the fields are (device or managed memory: CUDA), 1 host, 2
   CUDA; 2 is an error at init where there is no driver or no device.

   With 0 and fields whose data is NULL at init, the backend is the host if this machine has no
   CUDA driver or device. Otherwise the first save decides: `auto` plans for CUDA at first, and
   makes a new plan at the first save if the fields are in host memory, unless the application
   has seen the schedule by then (through a peek, a summary or a fingerprint). The library does
   not start CUDA in this process before the fields show that it is needed.
   */
  int32_t backend GPUZIP_DEFAULT(0);
  /*
   0: the device of the fields, or else the current device; k+1: CUDA device k. Must be 0 on
   the host backend.
   */
  int32_t device GPUZIP_DEFAULT(0);
  /*
   Bytes of device memory for all that a session takes there, the device cache included; 0:
   `cache_capacity` decides. On the host backend main memory is the device memory too: this is
   the budget that a CPU code sets.

   If `device_budget`, `host_budget`, `checkpointing_snaps` and `snapshot_rule` are all 0,
   algorithm `auto` sets both budgets itself in `gpuzip_init` and `gpuzip_memory_required`: to
   at most half of the memory that is free at that time, and never to more than saving every
   state takes. Free host memory is the least of MemAvailable and what control groups,
   RLIMIT_AS and RLIMIT_DATA leave, divided by the number of ranks on this node where a
   launcher's environment variable gives it. Free GPU memory is what the driver says; ranks
   that share a GPU must set budgets. If `cache_capacity` is set, `auto` sets `host_budget`
   only. If the half holds fewer snapshots than GPUZIP's number (`snapshot_rule` 1), that
   number decides instead. A log line at level INFO and `gpuzip_summary` report these budgets.
   Ranks that must follow one schedule set budgets, since the free memory differs between
   ranks. Sessions made by `gpuzip_attach` and sessions with policy lru get no such budgets.
   */
  uint64_t device_budget GPUZIP_DEFAULT(0);
  /*
   Bytes of host memory for snapshots; 0: as many as the plan needs, or for `auto` as
   `device_budget` says.
   */
  uint64_t host_budget GPUZIP_DEFAULT(0);
  /*
   Most bytes of disk that snapshots take, in the folders of `disk_path`. Snapshots go there when
   `host_budget`, which must be set, too, has no room for them; four snapshots of `host_budget`
   are then buffers of the disk. 0: no snapshot goes to disk.
   */
  uint64_t disk_budget GPUZIP_DEFAULT(0);
  /*
   GPUZIP_POLICY_*.
   */
  int32_t policy GPUZIP_DEFAULT(0);
  /*
   For codecs that keep an error bound (cuSZp, lorenzo, dct, Bitcomp), what `error_bound` is: 0
   relative to the maximum of each field in each snapshot, 1 absolute, 2 relative to the
   field's range, 3 a target PSNR in dB. Of a declared pair of time levels (`role`) the bound
   holds for the later level and for the difference of the two levels, each relative to its own
   size.
   */
  int32_t error_bound_mode GPUZIP_DEFAULT(0);
  /*
   The error bound, kept for every finite value (in mode 3, kept by the field as a whole); 0
   stands for 1e-3 in modes 0 and 2.
   */
  double error_bound GPUZIP_DEFAULT(0);
  /*
   What a codec does with NaN and infinities: 0 stores them exactly, 1 the save is
   GPUZIP_ERR_VALUES.
   */
  int32_t nonfinite GPUZIP_DEFAULT(0);
  /*
   The host runs at most this number of actions ahead of the GPU: before an action is handed
   out, the GPU has completed all actions that are this many or more before it, on the stream
   of the last save or retrieve. Before the first save or retrieve of a shot the library does
   not wait. 0 stands for 64.
   */
  int32_t max_in_flight GPUZIP_DEFAULT(0);
  /*
   1: consecutive FORWARDs are one action, from `ts` to `ts_end`. Statistics and leads count
   its time steps one by one.
   */
  int32_t range_actions GPUZIP_DEFAULT(0);
  /*
   Rule for the number of snapshots: 0 `checkpointing_snaps` or the budgets; 1 GPUZIP's
   `adjust`, the least s with C(2s, s) >= n for n time steps.
   */
  int32_t snapshot_rule GPUZIP_DEFAULT(0);
  /*
   zCut: states per chunk; two-level and hrevolve: states per interval; 0: the library chooses.
   */
  int32_t schedule_chunk GPUZIP_DEFAULT(0);
  /*
   Uniform: 0 slots that are free work inside the interval; 1 as published for GPUZIP 2.x, with
   a number of forward steps quadratic in the interval.
   */
  int32_t uniform_reading GPUZIP_DEFAULT(0);
  /*
   1: the application works in memory of the session (`gpuzip_save_begin`,
   `gpuzip_retrieve_acquire`), so that the library does not copy the fields: in the slots of the
   cache or, if snapshots are compressed, the algorithm is online, or the cache has room for fewer
   than two snapshots, in device memory for two more states, within `device_budget` if that is set.
   Policy clairvoyant only.
   */
  int32_t zero_copy GPUZIP_DEFAULT(0);
  /*
   Host backend: bandwidth of a simulated link, in bytes per second in each direction; 0: no
   simulated link.
   */
  double link_bandwidth GPUZIP_DEFAULT(0);
  /*
   The file of a profile, which `auto` and predictions use. It is read if it exists, and
   written by a session after `gpuzip_autotune`; a reader finds the whole old profile or the
   whole new one. NULL: none.
   */
  const char *profile_path GPUZIP_DEFAULT(0);
  /*
   The file for a timeline in Chrome's trace format, for ui.perfetto.dev and the command
   `gpuzip report`. NULL or empty: no timeline. In the name, `%r` is the MPI rank, `%p` the
   process number and `%%` a percent sign. Without `%r` and `%p` the library inserts before the
   extension: `-r<rank>` where a launcher has started several ranks, `-p<process>` in a forked
   child, and `-<k>` for the k-th session of the process, k from 2 on, or the next free k if
   another process is writing that file (and holds its lock, flock). An older file is replaced.
   The library writes the file at the end of every shot, before TERMINATE is handed out. If a
   part cannot be written, a warning is logged, and the file ends before that part as valid
   JSON.
   */
  const char *trace_out GPUZIP_DEFAULT(0);
  /*
   The folder for restart files, which `gpuzip_persist_open` opens. NULL: none.
   */
  const char *persist_dir GPUZIP_DEFAULT(0);
  /*
   Share of the run time that restart files may take (`gpuzip_persist_due`), at most 1: the
   application's wait, and the processor time of the thread that writes the files; 0: 0.035.
   */
  double persist_overhead GPUZIP_DEFAULT(0);
  /*
   Seconds that a requested stop may take until the last generation is on the disk. The number holds
   for the whole process; 0: 1.5.
   */
  double stop_budget_s GPUZIP_DEFAULT(0);
  /*
   1: snapshots of consecutive states may share a time level, which is then stored once: the
   previous time level (`role`) of u(t+1) is a field of u(t). A save that shares one compares the
   checksums of the two, except under `zero_copy`, where both are the same memory
   (GPUZIP_FLAG_SHARED_LEVEL). If the application changed the level after the step, the save fails
   with GPUZIP_ERR_VALUES (on a GPU, the call that would give TERMINATE fails), and the shot cannot
   continue. Not with policy lru.
   */
  int32_t shared_levels GPUZIP_DEFAULT(0);
  /*
   Mixed storage: snapshots that stay in device memory are raw, and those that go to the host are
   compressed. 0: with codec `auto` and without `zero_copy`, where the predicted time is shorter;
   a codec that is named is used for all snapshots. 1: wherever snapshots are compressed; needs a
   codec and `device_budget`. With `zero_copy` the application must then not write to memory from
   `gpuzip_retrieve_acquire`, except after GPUZIP_FLAG_LAST_USE. 2: never. Not with policy lru or
   algorithm online.
   */
  int32_t mixed_storage GPUZIP_DEFAULT(0);
  /*
   k > 1: the adjoint needs u(0), u(k), u(2k), ... only, as an imaging condition does that is
   applied every k-th time step. A BACKWARD then stands for k steps, from `ts`, a multiple of k,
   to `ts_end`, and schedules, `checkpointing_snaps` and `schedule_chunk` count these k steps
   as one. Snapshots then share no time level. 0 and 1: one step per BACKWARD.
   */
  int32_t adjoint_every GPUZIP_DEFAULT(0);
  /*
   In which restored states the difference of a field and its previous time level (`role`) keeps
   a bound of its own, where both come from a codec that keeps a bound. 0: in the states that a
   FORWARD starts from; in other states the two levels keep their bounds, and the difference may
   be wrong by the sum of these. 1: in all states, for a BACKWARD that forms this difference.
   */
  int32_t difference_bound GPUZIP_DEFAULT(0);
  /*
   Without effect: the place of the former `huge_pages`. A value other than 0 gives a warning.
   */
  int32_t reserved_huge_pages GPUZIP_DEFAULT(0);
  /*
   Restart files that another user could have made or changed. 0: a folder or a generation of
   another user than this process's and root is used, with a warning. 1: `gpuzip_persist_open`
   fails if the folder, or one of its files that are read, belongs to another user or if its mode
   lets others write to it.
   */
  int32_t strict GPUZIP_DEFAULT(0);
  /*
   The folders of the snapshots on disk, separated by colons; every snapshot is striped over all
   of them, so name one on each disk. The files in them have no names and are gone when the
   session ends, also when the process is killed. NULL or empty: the folder that the environment
   variable TMPDIR names, or else /var/tmp.
   */
  const char *disk_path GPUZIP_DEFAULT(0);
  /*
   Bytes of device memory that the library leaves to the application: the device cache takes
   only what is free beside them when the session opens its device. If `device_budget` or
   `cache_capacity` ask for more, the cache gets fewer slots, and a warning says so. What a
   session needs beside the cache (spare slots, work space of a codec) it takes all the same. 0:
   the larger of 512 MiB and 2 % of the device's memory, at most an eighth of it; 1: none to
   speak of. Without effect on the host backend.
   */
  uint64_t device_reserve GPUZIP_DEFAULT(0);
  /*
   Host backend: threads that compress and decompress snapshots while the application computes. States are
   then raw in a cache of some of the budget, and compressed outside. 1 to 64: so many at a time, which share
   the work on each state if the compressor is dct; with others there is one for each direction. A thread
   of the application that waits for them helps. 0: as many as the profile has idle processors
   (`idle_processors`), and none without a profile. -1: the calling thread codes. Snapshots are coded so
   where the predicted time is
   shorter. The threads run on the processors of the thread that opens the session's device, in
   `gpuzip_init` or at the first save. Without effect on a GPU, with policy lru, algorithm online or a
   `mixed_storage` that is set.
   */
  int32_t codec_threads GPUZIP_DEFAULT(0);
  /*
   Host backend, `compressor` dct, `checkpointing_algorithm` store-all or auto: 1: where all states are kept,
   the snapshot of a state holds the difference to what the next two states predict, and is decoded after
   them. With `shared_levels` snapshots take several times fewer bytes; `compression_factor` says what to
   plan with. With auto, schedules that keep fewer states compete, whose snapshots are coded by
   themselves and planned with the ratio of a profile. 0: every snapshot is coded by itself.
   */
  int32_t sequences GPUZIP_DEFAULT(0);
  /*
   The error of the application's result, from which `gpuzip_quality_open` chooses `error_bound`:
   "gradient:1e-3" for a relative error (root of the sum of squares) of at most 1e-3, "image:60dB" for
   a PSNR of at least 60 dB relative to the range. Needs a codec that keeps an error bound.
   `error_bound`, if set, is then the loosest bound that may be chosen. A session with this text is
   refused: only the application can measure its result. NULL or empty: not used.
   */
  const char *quality GPUZIP_DEFAULT(0);
  /*
   Host backend, codecs that keep an error bound: the value that stands where a field has none, such as the
   land of an ocean model: "nan", or a number, which is converted to the type of each field ("1e20", "0",
   "-9999"). Values with exactly its bits are masked (with "nan", those with the bits of the first NaN of the
   array; "0" is not -0): they come back with the same bits, do not count for `error_bound`, and cost little.
   Write all digits where fields are FP64. NULL or empty: not used.
   */
  const char *fill_value GPUZIP_DEFAULT(0);
  /*
   k > 1: the plan is for k reverse sweeps over the states of one forward sweep: after TERMINATE
   `gpuzip_rewind` begins the next one, which finds snapshots that the sweep before has left for it. A
   shot may end after fewer sweeps. Not with algorithm online or `sequences`. 0 and 1: one sweep. A trace has
   one sweep, which is repeated, or so many.
   */
  int32_t sweeps GPUZIP_DEFAULT(0);
  /*
   k > 0: finds states that are not complete. The schedule computes every state again, k times from the
   snapshot of the state before, and a save compares it, bit for bit, with what it was first: if it
   differs, the save returns GPUZIP_ERR_VALUES, and the text names the field, the state and the first
   value. With 3 or more, the text also says whether the step is deterministic. Snapshots are raw, whatever
   `compressor` says. At most 9; needs a known number of steps. Environment: GPUZIP_CHECK, where this is 0,
   also for a program that loads no configuration.
   */
  int32_t check GPUZIP_DEFAULT(0);
  /*
   A second folder for restart files, which outlives the node, such as one of a parallel file system.
   Generations of `persist_dir`, then a folder of the node, are copied there in the background: by the
   command `gpuzip flushd`, where it runs for `persist_dir`, or else by a thread of the session. A
   restart takes the newest generation of which every rank can read its part in one of the two. NULL or
   empty: none.
   */
  const char *persist_shared_dir GPUZIP_DEFAULT(0);
  /*
   k > 1: generations of restart files are incremental, but for those whose number is a multiple of k: an
   array or a snapshot that an older generation holds unchanged is referred to and not written again. The
   older file stays as long as one refers to it, and what is damaged in it is damaged in all of these. When
   the files since the last whole one have more bytes than two whole ones, the next one is whole, too. At
   most 100; 0 and 1: every generation holds all that a restart needs.
   */
  int32_t persist_whole_every GPUZIP_DEFAULT(0);
  /*
   Reserved: must be zero.
   */
  int32_t reserved0 GPUZIP_DEFAULT(0);
  /*
   The stages that generations of restart files pass beside being written, read back and, with
   `persist_shared_dir`, copied: names with commas or spaces between them. `compress`: the copies are packed
   without loss, by those who copy; all other names are of `gpuzip_persist_stage_register`. NULL or empty: all
   stages that are registered.
   */
  const char *persist_stages GPUZIP_DEFAULT(0);
  /*
   Reserved: must be zero.
   */
  uint64_t reserved[4] GPUZIP_DEFAULT({0});
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
 What the application must do next.
 */
typedef struct gpuzip_action_t {
  /*
   GPUZIP_ACTION_*.
   */
  int32_t type;
  /*
   The time step of the state that the action produces or needs, 0..n; for a range of FORWARDs
   the first time step.
   */
  int32_t ts;
  /*
   The last time step that the action covers. FORWARD with `range_actions`: u(ts), ..., u(ts_end)
   are computed. BACKWARD with `adjoint_every` = k > 1: the adjoint of the step t -> t+1 is done
   for t = ts_end, ..., ts, in this order; u(ts) is live, and `ts_end` = min(ts+k, n) - 1. For
   example, n = 10 and k = 4 give BACKWARD 8 to 9, 4 to 7, 0 to 3. Otherwise equal to `ts`.
   */
  int32_t ts_end;
  /*
   GPUZIP_FLAG_*, combined with bitwise or.
   */
  uint32_t flags;
  /*
   Number of this action since setup; the first action is 0.
   */
  int64_t it;
  /*
   Reserved; the library writes zero.
   */
  uint64_t reserved[2];
} gpuzip_action_t;

/*
 The numbers of a schedule and, for a session, of its plan and its memory.
 */
typedef struct gpuzip_summary_t {
  /*
   sizeof(gpuzip_summary_t), set by the caller.
   */
  uint64_t struct_size;
  /*
   The algorithm that was chosen: GPUZIP_ALGORITHM_*, never AUTO.
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
   Snapshots that the schedule may store at a time.
   */
  int32_t snapshots;
  /*
   Slots of the device cache.
   */
  int32_t cache;
  /*
   States per chunk or interval, of the states that may be stored (with `adjoint_every`, every
   k-th state); 0 if the algorithm has none.
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
   Time steps of BACKWARD actions.
   */
  uint64_t backward_steps;
  /*
   Most snapshots that the schedule stores at a time.
   */
  uint64_t max_live;
  /*
   All actions, TERMINATE included; a range of FORWARDs or of backward steps counts as one
   action.
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
   Least lead: forward and backward steps between the issue of a prefetch and the restore that
   needs it; 0 without prefetches. With `adjoint_every` = k a shorter last BACKWARD counts as k.
   */
  uint64_t min_lead;
  /*
   Mean lead, in forward and backward steps.
   */
  double mean_lead;
  /*
   Bytes of one snapshot.
   */
  uint64_t slot_bytes;
  /*
   Bytes of device memory: the device cache, the two states that `zero_copy` may need beside it,
   and the buffers of a codec's kernels.
   */
  uint64_t device_bytes;
  /*
   Bytes of host memory for the snapshots, with the buffers of the disk.
   */
  uint64_t host_bytes;
  /*
   The codec that was chosen: GPUZIP_COMPRESSOR_*, never AUTO; 0 for a schedule without a
   session.
   */
  int32_t compressor;
  /*
   Device slots that hold raw states: with mixed storage (`mixed_storage`) some of them, and the
   others hold compressed snapshots; all of them where threads code (`codec_threads`). 0 if all
   snapshots are stored in the same way.
   */
  int32_t raw_slots;
  /*
   The `device_budget` of the plan in bytes, as configured, or as algorithm `auto` set it from
   the free memory; 0: none.
   */
  uint64_t device_budget;
  /*
   The `host_budget` of the plan in bytes, as configured, or as algorithm `auto` set it from
   the free memory; 0: none.
   */
  uint64_t host_budget;
  /*
   The predicted time of a shot in seconds, by the profile, or else by speeds that are typical of
   the backend; 0 for a schedule without a session, for policy lru, and as long as the number of
   steps is unknown.
   */
  double predicted_s;
  /*
   A lower bound of the predicted time in seconds: no nested schedule whose snapshots are stored
   as this plan stores them is faster within the same slots. The plan is at most
   `predicted_s / bound_s` times slower than the best one. `gpuzip plan --thorough` finds a
   larger bound of the same kind for long problems. 0 where `predicted_s` is 0.
   */
  double bound_s;
  /*
   Bytes of disk for the snapshots.
   */
  uint64_t disk_bytes;
  /*
   Reserved; the library writes zero.
   */
  uint64_t reserved[2];
} gpuzip_summary_t;

/*
 One array of the state: n1 x n2 x n3 values, n1 fastest, contiguous or with gaps between its
 rows and planes.

 Value (i1, i2, i3), each index from 0, is at `data` + (i1 + `pitch2` i2 + `pitch3` i3) values.
 Only these values belong to the state: values in the gaps (a halo) are neither saved nor
 compared, and a retrieve does not write them. A snapshot has the size of the n1 n2 n3 values.
 Example: n1 x n2 x n3 cells in an array of (n1+8) x (n2+8) x (n3+8) cells with a halo of 4 cells
 have `data` = &array[4][4][4], `pitch2` = n1+8 and `pitch3` = (n1+8)(n2+8).

 In every call, number, extents, types and roles of the fields are those given at init; `data`
 and the pitches may differ from call to call. Memory that the library hands out (zero copy) and
 fields that it passes to a registered codec are contiguous. The CUDA backend of this version
 refuses fields with gaps. On the host a codec works on a contiguous copy of a field with gaps; a
 session with a codec then takes memory for one more state, which its budgets do not count.

 An array of pointers to rows (`float **u`) is one field if its rows are evenly spaced, as rows
 allocated in one piece are: `u[1] - u[0]` = `u[2] - u[1]` = ... Then `data` is u[0], and
 `pitch2` is that distance. Otherwise each evenly spaced block of rows is a field of its own.
 */
typedef struct gpuzip_field_t {
  /*
   The memory of the values, owned by the caller. May be NULL where a call reads the shape
   only.
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
   Distance, in values, between the first values of consecutive rows: at least n1; 0 stands for
   n1 (rows without gaps).
   */
  uint64_t pitch2;
  /*
   Distance, in values, between the first values of consecutive planes: at least (n2-1)
   `pitch2` + n1; 0 stands for n2 times the distance of rows.
   */
  uint64_t pitch3;
  /*
   Reserved: must be zero.
   */
  uint64_t reserved[2];
} gpuzip_field_t;

/*
 Counts and times of one session since its last setup.
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
   Time steps of BACKWARD actions.
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
   Prefetches that were not complete when their restore came.
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
   Bytes of snapshots written to and read from disk.
   */
  uint64_t disk_bytes;
  /*
   Snapshots that were never written back to the host: saves = d2h + write_backs_avoided.
   */
  uint64_t write_backs_avoided;
  /*
   Bytes of the fields that were saved, before compression.
   */
  uint64_t raw_bytes;
  /*
   Bytes of the snapshots of these fields, after compression.
   */
  uint64_t stored_bytes;
  /*
   Largest device memory of the session, in bytes.
   */
  uint64_t peak_device_bytes;
  /*
   Largest host memory of the session, in bytes.
   */
  uint64_t peak_host_bytes;
  /*
   Seconds of the application's FORWARD actions, measured on the host.
   */
  double forward;
  /*
   Seconds of the application's BACKWARD actions, measured on the host.
   */
  double backward;
  /*
   Seconds that the host spent in saves.
   */
  double save;
  /*
   Seconds that the host spent in retrieves.
   */
  double restore;
  /*
   Seconds of compression, those of threads that code (`codec_threads`) included; on a GPU, seconds of the application's stream, for the compressions
   that have completed.
   */
  double compress;
  /*
   Seconds of decompression, those of threads that code included; on a GPU, seconds of the application's stream, for the
   decompressions that have completed.
   */
  double decompress;
  /*
   Seconds that the application's stream spent in saves and retrieves; on a GPU, for those that
   have completed.
   */
  double stall;
  /*
   Seconds that the host waited for the GPU because it was `max_in_flight` actions ahead.
   */
  double run_ahead_wait;
  /*
   Generations of restart files that the session has written, over all shots.
   */
  uint64_t generations;
  /*
   Bytes of these generations.
   */
  uint64_t persist_bytes;
  /*
   Seconds that the application has waited for these generations.
   */
  double persist;
  /*
   Seconds that are left of a requested stop, negative when the time is over; 0 without a request.
   */
  double stop_left;
  /*
   Snapshots read from disk.
   */
  uint64_t disk_reads;
  /*
   Snapshots written to disk.
   */
  uint64_t disk_writes;
  /*
   Bytes of host memory for snapshots that the system did not let a GPU's driver page-lock: copies
   from and to them are slower, and block the host. 0: all that was wanted is page-locked, or the
   session is on the host backend.
   */
  uint64_t pageable_bytes;
  /*
   Bytes of restart files that were not written, because an older generation holds them
   (`persist_whole_every`).
   */
  uint64_t persist_held_bytes;
} gpuzip_stats_t;

/*
 Computes u(ts), ..., u(ts_end) from u(ts-1); `ts_end` is `ts` without `range_actions`. `flags`
 are the action's GPUZIP_FLAG_*. Returns 0, or another number to stop the run.
 */
typedef int32_t (*gpuzip_forward_t)(void *user,
                                    int32_t ts,
                                    int32_t ts_end,
                                    uint32_t flags);

/*
 Does the adjoint of the step ts -> ts+1, while u(ts) is live. Called once for each ts = n-1,
 ..., 0. `flags` and result as for `gpuzip_forward_t`.
 */
typedef int32_t (*gpuzip_backward_t)(void *user,
                                     int32_t ts,
                                     uint32_t flags);

/*
 Tells where the state is, for applications that swap buffers. The function gets the `nfields`
 fields that were given to the run and sets their `data` to where u(ts) is (`type`
 GPUZIP_ACTION_SAVE) or is to be put (GPUZIP_ACTION_RESTORE). Result as for `gpuzip_forward_t`.
 */
typedef int32_t (*gpuzip_locate_t)(void *user,
                                   int32_t type,
                                   int32_t ts,
                                   struct gpuzip_field_t *fields,
                                   uint32_t nfields);

/*
 Called after every SAVE and RESTORE of u(ts) is done, on a GPU after it is enqueued. `flags` and
 result as for `gpuzip_forward_t`.
 */
typedef int32_t (*gpuzip_observe_t)(void *user,
                                    int32_t type,
                                    int32_t ts,
                                    uint32_t flags);

/*
 Does the adjoint of the step t -> t+1 for t = ts_end, ..., ts, in this order, while u(ts) is live:
 `backward` for sessions with `adjoint_every` > 1. `flags` and result as for `gpuzip_forward_t`.
 */
typedef int32_t (*gpuzip_backward_range_t)(void *user,
                                           int32_t ts,
                                           int32_t ts_end,
                                           uint32_t flags);

/*
 The functions that `gpuzip_run_forward` and `gpuzip_run_reverse` call, in the calling thread.
 The functions must not throw or longjmp. They may ask about the session (`gpuzip_stats`,
 `gpuzip_summary`) and use other sessions; a call that moves this session makes the run fail.
 */
typedef struct gpuzip_callbacks_t {
  /*
   sizeof(gpuzip_callbacks_t), set by the caller. A larger struct, of a newer header, is
   accepted if the bytes beyond the library's struct are zero.
   */
  uint64_t struct_size;
  /*
   Passed to the functions unchanged.
   */
  void *user;
  /*
   Computes time steps. Not NULL.
   */
  gpuzip_forward_t forward;
  /*
   Does the adjoint of a time step. May be NULL for `gpuzip_run_forward`, and with
   `backward_range`.
   */
  gpuzip_backward_t backward;
  /*
   Tells where the state is. NULL: always in the fields given to the run.
   */
  gpuzip_locate_t locate;
  /*
   Observes saves and restores. May be NULL.
   */
  gpuzip_observe_t observe;
  /*
   Does the adjoint of `adjoint_every` time steps. If it is not NULL, it is called instead of
   `backward`. Not NULL for a session with `adjoint_every` > 1.
   */
  gpuzip_backward_range_t backward_range;
  /*
   Reserved: must be zero.
   */
  uint64_t reserved[3];
} gpuzip_callbacks_t;

/*
 Finds a minimum over all ranks, for `gpuzip_agree`: replaces `*value` by the least value of all
 ranks, as `MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT64_T, MPI_MIN, communicator)` does.
 Returns 0, or another number on failure.
 */
typedef int32_t (*gpuzip_least_t)(void *user,
                                  int64_t *value);

/*
 The content of a profile. Times are for a state of `state_bytes` bytes; GB/s are 1e9 bytes per
 second, for a codec of raw bytes.
 */
typedef struct gpuzip_profile_info_t {
  /*
   sizeof(gpuzip_profile_info_t), set by the caller.
   */
  uint64_t struct_size;
  /*
   Bytes of a state in the measurement; 0: the times hold for states of any size.
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
   GB/s of reading snapshots from disk, assumed unless the measured session had a disk.
   */
  double disk_read_gbs;
  /*
   GB/s of writing snapshots to disk, assumed unless the measured session had a disk.
   */
  double disk_write_gbs;
  /*
   The backend of the measurement: 1 host, 2 CUDA; 0: any.
   */
  int32_t backend;
  /*
   Number of codecs in the profile.
   */
  uint32_t codecs;
  /*
   GPUZIP_COMPRESSOR_* of codec number `index` of the call; this member and those down to
   `worst_ratio` are 0 if the profile has no such codec.
   */
  int32_t compressor;
  /*
   `error_bound_mode` with which that codec was measured.
   */
  int32_t error_bound_mode;
  /*
   `error_bound` with which that codec was measured; 0 if the codec keeps no bound.
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
   Compression ratio, raw bytes over stored bytes, of all measured states together.
   */
  double ratio;
  /*
   Compression ratio of the state that compressed worst.
   */
  double worst_ratio;
  /*
   GB/s of both directions of the link together while snapshots move both ways; 0: not
   measured, and each direction is then as fast as alone.
   */
  double both_gbs;
  /*
   Host backend: processors that this process may use (affinity, control groups, ranks on this node)
   and that the steps left idle, on average; 0: none, or not measured.
   */
  double idle_processors;
  /*
   1 if codec number `index` was measured on snapshots in a sequence (key `sequences`), else 0.
   */
  int32_t sequences;
  /*
   Reserved; the library writes zero.
   */
  int32_t reserved0;
  /*
   Reserved; the library writes zero.
   */
  uint64_t reserved[1];
} gpuzip_profile_info_t;

/*
 What `gpuzip_quality_open` has begun, as told by `gpuzip_quality_info`. Errors are in the unit of the
 key `quality`: relative errors of gradients, PSNRs of images in dB.
 */
typedef struct gpuzip_quality_info_t {
  /*
   sizeof(gpuzip_quality_info_t), set by the caller.
   */
  uint64_t struct_size;
  /*
   The error that is asked for: the largest one, or the least PSNR.
   */
  double asked;
  /*
   The `error_bound` that is chosen, in the unit of `error_bound_mode`; 0: none yet.
   */
  double error_bound;
  /*
   The error of the result with `error_bound`, in the shot that was measured last.
   */
  double chosen_error;
  /*
   The error of the last run with a codec whose result was judged; infinite for one with NaN or infinities,
   in dB -infinity, and for equal results in dB infinity.
   */
  double last_error;
  /*
   The field of the result that had `last_error`: the one with the largest error.
   */
  uint32_t field;
  /*
   Runs whose results were judged, over all shots.
   */
  uint32_t runs;
  /*
   Shots that were measured: the first one, and those of `gpuzip_quality_check`.
   */
  uint32_t shots;
  /*
   Reserved; the library writes zero.
   */
  uint32_t reserved0;
  /*
   Reserved; the library writes zero.
   */
  uint64_t reserved[4];
} gpuzip_quality_info_t;

/*
 Options of `gpuzip_persist_open`.
 */
typedef struct gpuzip_persist_options_t {
  /*
   sizeof(gpuzip_persist_options_t), set by the caller.
   */
  uint64_t struct_size;
  /*
   Number of this rank, from 0.
   */
  int32_t rank;
  /*
   Number of ranks; 0 stands for 1.
   */
  int32_t ranks;
  /*
   Finds the minimum over all ranks. May be NULL with one rank.
   */
  gpuzip_least_t agree_min;
  /*
   Passed to `agree_min` unchanged.
   */
  void *user;
  /*
   Reserved: must be zero.
   */
  uint64_t reserved[4];
} gpuzip_persist_options_t;

/*
 A generation of restart files.
 */
typedef struct gpuzip_generation_t {
  /*
   sizeof(gpuzip_generation_t), set by the caller.
   */
  uint64_t struct_size;
  /*
   Number of the generation, from 1; 0: there is none.
   */
  int64_t generation;
  /*
   Number of the shot to go on with.
   */
  int64_t shot;
  /*
   The last action of that shot that was done; -1: the generation is of the start of the shot.
   */
  int64_t it;
  /*
   Bytes of this rank's file.
   */
  uint64_t bytes;
  /*
   Reserved; the library writes zero.
   */
  uint64_t reserved[4];
} gpuzip_generation_t;

/*
 A stage that a generation passes (`gpuzip_persist_stage_register`), for example one that copies the file to an
 object store. Called when this rank's part of the generation is on the disk under its name and was read back;
 `file` is its path, and both pointers are valid during the call. Runs in a thread of the library while the
 application computes; the next generation is written after it has returned, and none is due before. Must not
 call the library with this session. Returns 0, or another number if it failed: the library then logs a warning,
 the generation passes no further stage, and it counts all the same.
 */
typedef int32_t (*gpuzip_persist_stage_t)(void *user,
                                          const char *file,
                                          const struct gpuzip_generation_t *generation);

/*
 Memory of the application that restart files keep.
 */
typedef struct gpuzip_array_t {
  /*
   The name of the array, which differs from that of every other: at most 80 bytes of UTF-8. Names
   that begin with "gpuzip " are the library's own.
   */
  const char *name;
  /*
   Shape and memory of the array, as those of a field of a state; `role` does not count.
   */
  struct gpuzip_field_t field;
  /*
   0: the array changes between shots only, such as an image summed over shots. 1: it changes during
   a shot, such as a wavefield; only generations within a shot hold it.
   */
  int32_t scope;
  /*
   Reserved: must be zero.
   */
  int32_t reserved0;
  /*
   Reserved: must be zero.
   */
  uint64_t reserved[2];
} gpuzip_array_t;

/*
 Describes one array of a compressed stream. Set `struct_size` to sizeof(gpuzip_codec_info_t)
 before the call.
 */
typedef struct gpuzip_codec_info_t {
  /*
   sizeof(gpuzip_codec_info_t), set by the caller.
   */
  uint64_t struct_size;
  /*
   Number of arrays in the stream.
   */
  uint32_t arrays;
  /*
   GPUZIP_COMPRESSOR_* of the array, or the number of a registered codec.
   */
  int32_t compressor;
  /*
   How the array is stored: 0 unchanged, 1 compressed, 2 as one value that all elements have; with a
   mask the elements that are not masked.
   */
  int32_t content;
  /*
   GPUZIP_TYPE_*.
   */
  int32_t type;
  /*
   Number of the field that the array is, from 0.
   */
  int32_t field;
  /*
   -1: the field itself is stored. From 0 on, the number of another field of the stream: that
   field minus this field is stored.
   */
  int32_t reference;
  /*
   Extent of the fastest dimension, in values.
   */
  uint64_t n1;
  /*
   Extent of the second dimension, in values.
   */
  uint64_t n2;
  /*
   Extent of the slowest dimension, in values.
   */
  uint64_t n3;
  /*
   Absolute error bound of the stored values; 0: none was asked for.
   */
  double bound;
  /*
   Bytes of the array before compression.
   */
  uint64_t raw_bytes;
  /*
   Bytes of the array in the stream, with its mask, headers and padding.
   */
  uint64_t stored_bytes;
  /*
   Reserved; the library writes zero.
   */
  uint64_t reserved[4];
} gpuzip_codec_info_t;

/*
 Returns the most bytes that `compress` of a registered codec writes for an array of this shape;
 `data` of `field` is NULL. The library uses at most the bytes of the array itself.
 */
typedef uint64_t (*gpuzip_codec_max_bytes_t)(void *user,
                                             const struct gpuzip_field_t *field);

/*
 Compresses the array of `field`, which is in host memory, into `to` and sets `*bytes` to the
 number of bytes written. `capacity` is the room at `to` in bytes, as `max_bytes` returned it.
 The result keeps `bound`: for every value, or with `rms` = 1 as root mean square error. The
 array must not be changed. Returns 0 on success, 1 if the array is to be stored uncompressed, or
 a negative status, which makes the save fail.
 */
typedef int32_t (*gpuzip_codec_compress_t)(void *user,
                                           const struct gpuzip_field_t *field,
                                           int32_t rms,
                                           double bound,
                                           void *to,
                                           uint64_t capacity,
                                           uint64_t *bytes);

/*
 Decompresses what `compress` wrote, `bytes` bytes at `from`, into the array of `field`, which is
 in host memory. Returns 0 on success, or another status, which makes the retrieve fail.
 */
typedef int32_t (*gpuzip_codec_decompress_t)(void *user,
                                             const void *from,
                                             uint64_t bytes,
                                             const struct gpuzip_field_t *field);

/*
 What the library and the functions for device memory of a registered codec tell one another of one array,
 in device memory: only kernels and copies on the stream of the call may use it.
 */
typedef struct gpuzip_codec_job_t {
  /*
   Of `device_compress`: the error bound to keep, as `bound` of `compress`.
   */
  double bound;
  /*
   Number of bytes: `device_compress` sets how many it wrote; for `device_decompress` how many there are.
   */
  uint64_t bytes;
  /*
   1: there is an array to code. 0: there is none; the functions may do their work or leave it, and the
   library uses nothing of it.
   */
  int32_t go;
  /*
   Set by the functions to what `compress` or `decompress` would return, or left at 0: success. An
   error is one of the field: it fails the save or the retrieve, or goes to `gpuzip_codec_result_t`.
   */
  int32_t status;
  /*
   Reserved; the library writes zero.
   */
  uint64_t reserved;
} gpuzip_codec_job_t;

/*
 Enqueues on `stream`, a `cudaStream_t`, what `compress` does, for an array without gaps in device memory.
 `to` has room for `capacity` bytes, as `max_bytes` returned it, and `work` is the memory of `device_work`;
 both begin at multiples of 256 and hold anything. The kernels read `job->bound`, and set `job->bytes`
 (or `job->status`). They should write the bytes that `compress` writes. Returns 0, or another number if the
 work could not be enqueued, which makes the call fail.
 */
typedef int32_t (*gpuzip_codec_device_compress_t)(void *user,
                                                  const struct gpuzip_field_t *field,
                                                  int32_t rms,
                                                  void *to,
                                                  uint64_t capacity,
                                                  struct gpuzip_codec_job_t *job,
                                                  void *work,
                                                  void *stream);

/*
 Enqueues on `stream` what `decompress` does, for an array without gaps in device memory: decompresses
 the first `job->bytes` bytes at `from`, where `capacity` bytes may be read. `work` and result as for
 `device_compress`.
 */
typedef int32_t (*gpuzip_codec_device_decompress_t)(void *user,
                                                    const void *from,
                                                    uint64_t capacity,
                                                    const struct gpuzip_field_t *field,
                                                    struct gpuzip_codec_job_t *job,
                                                    void *work,
                                                    void *stream);

/*
 Returns the bytes of device memory that `device_compress` and `device_decompress` of a registered codec
 need for themselves, for an array of this shape; `data` of `field` is NULL. Always the same for a shape.
 */
typedef uint64_t (*gpuzip_codec_device_work_t)(void *user,
                                               const struct gpuzip_field_t *field);

/*
 A codec of the application. The library calls its functions from any thread that saves or
 retrieves, from several threads at a time; the functions must not throw. A call that they make on
 a session or schedule, or on device memory, returns GPUZIP_ERR_STATE. The library adds
 headers and checksums, and handles constant arrays and differences of time levels itself. It
 does not check that the codec keeps the error bound.

 With `device_compress` and `device_decompress` the codec also codes FP32 and FP64 in device memory: in sessions
 on CUDA, and for `gpuzip_codec_encode` and `gpuzip_codec_decode`. These functions enqueue their work
 on the stream that they get, in the device's primary context, which is current, and do not wait for it.
 */
typedef struct gpuzip_codec_plugin_t {
  /*
   sizeof(gpuzip_codec_plugin_t), set by the caller.
   */
  uint64_t struct_size;
  /*
   Name of the codec; copied.
   */
  const char *name;
  /*
   Passed to the functions unchanged.
   */
  void *user;
  /*
   Bounds the compressed size. Not NULL.
   */
  gpuzip_codec_max_bytes_t max_bytes;
  /*
   Compresses an array. Not NULL.
   */
  gpuzip_codec_compress_t compress;
  /*
   Decompresses an array. Not NULL.
   */
  gpuzip_codec_decompress_t decompress;
  /*
   Compresses an array in device memory, or NULL: the codec is one of the host.
   */
  gpuzip_codec_device_compress_t device_compress;
  /*
   Decompresses an array in device memory. NULL if `device_compress` is, and only then.
   */
  gpuzip_codec_device_decompress_t device_decompress;
  /*
   Tells their work space, or NULL: they need none.
   */
  gpuzip_codec_device_work_t device_work;
  /*
   Reserved: must be zero.
   */
  uint64_t reserved;
} gpuzip_codec_plugin_t;

/*
 What `gpuzip_codec_encode` or `gpuzip_codec_decode` came to. The device writes it behind the other work
 of the call on the call's stream; until then its contents are undefined.
 */
typedef struct gpuzip_codec_result_t {
  /*
   Size in bytes of the compressed stream that was written or read; 0 after an error.
   */
  uint64_t bytes;
  /*
   GPUZIP_OK; GPUZIP_ERR_VALUES: a field to encode holds NaN or infinities and `nonfinite` is 1, and
   nothing was written; GPUZIP_ERR_ARGUMENT: a registered codec failed to encode a field, or told more bytes
   than it has room for; GPUZIP_ERR_STREAM: the stream to decode is damaged or of another codec, and the
   values of the fields are undefined.
   */
  int32_t status;
  /*
   After an error the number of the field, from 0.
   */
  int32_t field;
  /*
   After GPUZIP_ERR_VALUES the number of NaNs and infinities in that field.
   */
  uint64_t count;
  /*
   Reserved; the library writes zero.
   */
  uint64_t reserved;
} gpuzip_codec_result_t;

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/*
 Returns the text of this thread's last error: which call failed, which value was wrong and what
 to do. Where an MPI launcher has started several ranks, the text begins with the rank: "rank 3:
 ". The text is empty before the thread's first error; a successful call does not clear it. The
 pointer stays valid while the thread lives; the thread's next error overwrites the text.
 */
const char *gpuzip_last_error(void);

/*
 Returns the short name of a status. Never NULL; the string stays valid until the process ends.
 */
const char *gpuzip_status_string(gpuzip_status_t status);

/*
 Returns the version of the library, "major.minor.patch". The string stays valid until the
 process ends.
 */
const char *gpuzip_version(void);

/*
 Returns the version of the ABI: a program runs with every library that returns the number that
 the program was compiled with.
 */
uint32_t gpuzip_abi_version(void);

/*
 Returns the name of an algorithm GPUZIP_ALGORITHM_*, as configurations spell it; "unknown" for
 other numbers. The string stays valid until the process ends.
 */
const char *gpuzip_algorithm_name(int32_t algorithm);

/*
 Sets the log level for the whole process from now on: `level` 0 DEBUG, 1 INFO, 2 WARN, 3 ERROR.
 `gpuzip_init`, `gpuzip_attach` and `gpuzip_schedule_create` also set it, to the `log_level` of
 their configuration. The environment variable GPUZIP_LOG filters the lines that go to stderr.
 */
gpuzip_status_t gpuzip_set_log_level(int32_t level);

/*
 Sends log lines to `callback` instead of stderr, for the whole process; NULL sends them to
 stderr again. `user` is handed to the callback unchanged and must stay valid as long as the
 callback is registered.
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
 Fills `*config` from three sources, of which a later one overrides an earlier one: the defaults,
 the file at `path`, and the environment variables GPUZIP_<KEY> in capitals. The file has at most
 1 MiB, `key = value` lines and `#` comments; the keys are the names of the fields. With `path`
 NULL no file is read. The command `gpuzip config` lists the keys and checks a file.

 A value that has a name can be given by name, in any case, or by number. Numbers may be written
 as 1e4. Byte counts and bandwidths may have a suffix, as for GNU coreutils: K, M, G, T and KiB
 to TiB are powers of 1024, kB to TB are powers of 1000. An unknown key or value is an error,
 whose text names the nearest key or the allowed values. An unknown environment variable GPUZIP_*
 is logged as a warning, unless its name is far from every key and consists of words that build
 files use (GPUZIP_ROOT, GPUZIP_LIB_DIR).

 The strings of `*config` belong to the library and stay valid until the process ends; equal
 strings are stored once. Copies of the struct may therefore be used and freed in any order. On
 an error `*config` is unchanged.

 Pointers:
 `path` is NULL or a string; `config` is NULL or points to memory for a configuration.
 */
gpuzip_status_t gpuzip_config_load(const char *path,
                                   struct gpuzip_config_t *config);

/*
 Resets `*config` to the defaults, so that it no longer points to any loaded or set string. The
 call is also valid for a configuration that was never loaded, for a copy, and for a
 configuration that was freed before. A configuration of block 1 only (`struct_size` 0) is left
 unchanged.

 Pointers:
 `config` is NULL or points to an initialised configuration.
 */
gpuzip_status_t gpuzip_config_free(struct gpuzip_config_t *config);

/*
 Makes a schedule for `steps` time steps (0: as for `gpuzip_init`) that stands before its first
 action. `config` is copied, strings included. If the budgets decide the number of snapshots, the
 number is settled at the first action, when all sessions are attached. Without sessions,
 algorithm `auto` is Revolve with GPUZIP's number of snapshots (`snapshot_rule` 1). On success
 `*schedule` is a handle; give it back with `gpuzip_schedule_release`.

 Pointers:
 `config` is NULL or points to a configuration; `schedule` is NULL or points to memory for a
 handle.
 */
gpuzip_status_t gpuzip_schedule_create(const struct gpuzip_config_t *config,
                                       int32_t steps,
                                       struct gpuzip_schedule_t **schedule);

/*
 Moves the schedule to its next action and writes the action to `*action`. The sessions of the
 schedule follow with `gpuzip_dispatch`. After the TERMINATE of the last reverse sweep only
 `gpuzip_schedule_rewind` is valid.

 Pointers:
 `action` is NULL or points to an action.
 */
gpuzip_status_t gpuzip_schedule_get_action(struct gpuzip_schedule_t *schedule,
                                           struct gpuzip_action_t *action);

/*
 Writes to `*action` the action that `gpuzip_schedule_get_action` would give next, and changes
 nothing; the counterpart of `gpuzip_peek_action`.

 Pointers:
 `action` is NULL or points to an action.
 */
gpuzip_status_t gpuzip_schedule_peek_action(struct gpuzip_schedule_t *schedule,
                                            struct gpuzip_action_t *action);

/*
 Moves the schedule back to before its first action. Every session of the schedule then needs
 `gpuzip_setup`.
 */
gpuzip_status_t gpuzip_schedule_rewind(struct gpuzip_schedule_t *schedule);

/*
 Computes the summary of a schedule in one pass over it. The members about a plan are 0.

 Pointers:
 `summary` is NULL or points to a summary whose `struct_size` is set.
 */
gpuzip_status_t gpuzip_schedule_summary(struct gpuzip_schedule_t *schedule,
                                        struct gpuzip_summary_t *summary);

/*
 Gives a schedule handle back. The schedule itself lives as long as sessions follow it.
 */
gpuzip_status_t gpuzip_schedule_release(struct gpuzip_schedule_t *schedule);

/*
 Makes a session with a schedule of its own, ready for the first shot, and allocates its memory.

 `config` is copied, strings included. `steps` is the number of time steps, n; with
 GPUZIP_ALGORITHM_ONLINE it may be 0, and then `gpuzip_end_forward` tells n. `fields` are the
 `nfields` fields of a state: their shapes, types and roles are read, and their data may be NULL.
 On success `*handle` is the session; give it back with `gpuzip_finalize`.

 Pointers:
 `config` and `handle` are NULL or valid; `fields` points to `nfields` fields.
 */
gpuzip_status_t gpuzip_init(const struct gpuzip_config_t *config,
                            int32_t steps,
                            const struct gpuzip_field_t *fields,
                            uint32_t nfields,
                            struct gpuzip_t **handle);

/*
 Makes a session that follows `schedule` together with other sessions, one for each device.
 `config` gives the session's tiers and replacement policy; the schedule's own configuration
 gives the algorithm and `range_actions`. The session's memory is allocated with the first
 action. Parameters as for `gpuzip_init`.

 Pointers:
 As for `gpuzip_init`.
 */
gpuzip_status_t gpuzip_attach(struct gpuzip_schedule_t *schedule,
                              const struct gpuzip_config_t *config,
                              const struct gpuzip_field_t *fields,
                              uint32_t nfields,
                              struct gpuzip_t **handle);

/*
 Gives the fields of a session names, such as "temperature": the texts of later errors tell them beside
 the numbers of the fields, and files of `gpuzip_export` have them. `names` are `nfields` strings of 1 to 80 bytes in the order of the fields,
 which the call copies; `nfields` is the number of fields of the session. Another call replaces the
 names.

 Pointers:
 `names` is NULL or points to `nfields` pointers, each NULL or a string.
 */
gpuzip_status_t gpuzip_name_fields(struct gpuzip_t *handle,
                                   const char *const *names,
                                   uint32_t nfields);

/*
 Returns the schedule that a session follows, as a new handle: give the handle back with
 `gpuzip_schedule_release`.

 Pointers:
 `schedule` is NULL or points to memory for a handle.
 */
gpuzip_status_t gpuzip_get_schedule(struct gpuzip_t *handle,
                                    struct gpuzip_schedule_t **schedule);

/*
 Prepares a shot: moves the schedule back to before its first action, forgets all snapshots and
 clears the statistics; the plan is kept. Call it before each shot, for every session of a
 schedule. A new session does not need it before its first shot.

 If the application left the shot before after its last BACKWARD and without TERMINATE, this call
 does what TERMINATE does for that shot: it writes the line of the performance log and the end of
 the timeline, keeps the profile of `gpuzip_autotune`, and on a GPU checks that every restored
 state was what had been saved. The time up to this call then counts as time of that BACKWARD. An
 error of this call belongs to the shot before and is returned once: a second call begins the
 next shot.
 */
gpuzip_status_t gpuzip_setup(struct gpuzip_t *handle);

/*
 Prepares a shot as `gpuzip_setup` does, but of `steps` time steps, 1 to 2^31 - 1, which need not be
 the number given at init. If the number changes, the call makes a new plan, as `gpuzip_init` does:
 budgets that `auto` chose from the free memory are chosen anew, a profile stays, and the memory for
 snapshots is allocated anew at the first save. The number holds for all later shots, until another
 call of this function.

 If there is no plan for `steps`, or several sessions follow the schedule, or n was not known at init
 (`steps` = 0; then `gpuzip_end_forward` tells n), the call returns the error, and a shot of as many
 steps as before is prepared.
 */
gpuzip_status_t gpuzip_setup_steps(struct gpuzip_t *handle,
                                   int32_t steps);

/*
 Begins another reverse sweep over the states of this shot, after TERMINATE, if the key `sweeps` has
 planned for it. The next action is a RESTORE: no state is live any more. FORWARD, SAVE, RESTORE and
 BACKWARD follow as in the first reverse sweep, up to the next TERMINATE; the first BACKWARD has
 GPUZIP_FLAG_FIRST_BACKWARD. Every FORWARD computes a state again. `gpuzip_run_reverse` runs the sweep.

 Snapshots stay for the next sweep in memory and on disk as the plan says; the statistics go on. A
 restart file of TERMINATE or of an action after it goes on in the same sweep. Of several sessions on a
 schedule, the one that moves the schedule calls this; the others follow by `gpuzip_dispatch`.

 If the current action is not TERMINATE, or as many sweeps as planned have ended, the result is
 GPUZIP_ERR_STATE, and nothing changes.
 */
gpuzip_status_t gpuzip_rewind(struct gpuzip_t *handle);

/*
 Moves the schedule and this session to the next action and writes the action to `*action`. The
 application must serve a SAVE or RESTORE with a save or retrieve before it asks for the next
 action. After TERMINATE only `gpuzip_setup` is valid, and `gpuzip_rewind` if the key `sweeps` has
 planned for another reverse sweep.

 Pointers:
 `action` is NULL or points to an action.
 */
gpuzip_status_t gpuzip_get_action(struct gpuzip_t *handle,
                                  struct gpuzip_action_t *action);

/*
 Writes to `*action` the action that `gpuzip_get_action` would give next, and changes nothing.
 This tells a loop that the forward sweep is over while the last action of the sweep is still the
 current one: the next action is then a BACKWARD with GPUZIP_FLAG_FIRST_BACKWARD. If the schedule
 is not decided yet, the call decides it. After TERMINATE there is no next action, and the result
 is GPUZIP_ERR_STATE.

 Pointers:
 `action` is NULL or points to an action.
 */
gpuzip_status_t gpuzip_peek_action(struct gpuzip_t *handle,
                                   struct gpuzip_action_t *action);

/*
 Ends the forward phase of a shot that began without a number of steps (`steps` = 0, for
 GPUZIP_ALGORITHM_ONLINE): the state of the current action, FORWARD or SAVE of `ts`, is live and is
 the last one, u(n-1) with n = `ts` + 1. The next action is the BACKWARD of `ts`, and then the
 reverse phase follows up to TERMINATE. The next shot, after `gpuzip_setup`, again begins without
 a number of steps and may have another one.

 Until this call the actions are FORWARD and SAVE without end; every FORWARD is one step, with
 `range_actions` = 1 too. A SAVE may replace an older snapshot, which the application need not
 know. GPUZIP_FLAG_NEXT_IS_SAVE is true unless this call comes next: call it after the FORWARD of
 the last state and before its SAVE. After the SAVE it is valid, too, if the state is still live;
 then the slot of that SAVE was wasted, and the reverse phase may take more forward steps. With
 callbacks, the function `forward` may call it. With several sessions on a schedule, call it for
 one of them, when all of them are at the current action.

 If n was given, or the forward phase has ended already, or no action has come yet, or a SAVE was
 not served, the result is GPUZIP_ERR_STATE.
 */
gpuzip_status_t gpuzip_end_forward(struct gpuzip_t *handle);

/*
 Moves the session to the current action of its schedule, which must be number `it`. For sessions
 whose schedule another caller advances; the call does nothing if the session is there already.
 */
gpuzip_status_t gpuzip_dispatch(struct gpuzip_t *handle,
                                int64_t it);

/*
 Saves u(ts), which the fields hold. The current action must be SAVE of `ts`. `fields` have the
 shapes given at init; the addresses of their data may differ from call to call. Fields that
 overlap each other or the session's own memory are an error.

 On a GPU the call does not wait: the GPU reads the fields in the order of `stream` (a CUstream
 or cudaStream_t; NULL is the default stream). `stream` must stay valid until the next save or
 retrieve, `gpuzip_setup` or `gpuzip_finalize`, since the library finds out from it how far the
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
 for `gpuzip_save`. On a GPU the call does not wait: the GPU writes the fields in the order of
 `stream`, which must stay valid as for `gpuzip_save`. On the host backend `stream` is NULL, and
 the fields have been written on return.

 Without a codec each field gets the bytes that were saved. A lossy codec keeps its bound for
 every value, zeros included: zeros that the application's time steps read and never compute,
 such as those of a halo or a boundary, may come back as values within the bound. Set those zeros
 again after the call.

 Pointers:
 `fields` points to `nfields` fields whose data is writable.
 */
gpuzip_status_t gpuzip_retrieve(struct gpuzip_t *handle,
                                int32_t ts,
                                const struct gpuzip_field_t *fields,
                                uint32_t nfields,
                                void *stream);

/*
 Writes u(ts), which the fields hold, for other programs: each field as a file of NumPy (`.npy`) in the
 folder `dir`, which is made if it is missing. The session stays as it is: the call may come wherever
 the fields hold u(ts), between two steps or at an action.

 The file of field k is NAME-TS.npy, with `ts` in at least 9 digits. NAME is the name of the field
 (`gpuzip_name_fields`), with a `-` in the place of each character but letters, digits, `-`, `_` and
 `.`, and a `_` before a name that begins with `-` or `.`; without names it is field0, field1, ... Two
 fields of one NAME are GPUZIP_ERR_ARGUMENT. The array has the extents (n3, n2, n1), without an n3 and
 an n2 that are 1, and the type of the field.

 A state is computed several times in a shot: the first call for it writes its files, and later ones do
 nothing if the files are there, with their lengths; so does the rest of a shot that goes on from a restart
 file. Another shot writes its states in their place; each run and each of its ranks has a folder of its own.

 A file is written under a temporary name and gets its name when it is complete. The call does not wait
 until the bytes are on the disk (fsync). If it fails, no part of a file is left, and the session goes
 on. Fields are read as by `gpuzip_persist_write`: on the host or, for a session on a GPU, on the
 device, in the order of `stream`, and have been read on return.

 Pointers:
 `dir` is NULL or points to a string; `fields` points to `nfields` fields whose data is readable.
 */
gpuzip_status_t gpuzip_export(struct gpuzip_t *handle,
                              const char *dir,
                              int32_t ts,
                              const struct gpuzip_field_t *fields,
                              uint32_t nfields,
                              void *stream);

/*
 Zero copy, for sessions with `zero_copy` = 1: hands out memory in which the application computes
 u(ts), so that the library need not copy the fields.

 The current action is the FORWARD to `ts` (the `ts_end` of a range) with
 GPUZIP_FLAG_NEXT_IS_SAVE, or the SAVE of `ts`. At a range, the application may ask for the memory
 before any step of the range, so that the last steps write the time levels of u(ts) where they
 belong. `data[i]` becomes the address of field i, to which work on `stream` may write from now
 on. `gpuzip_save_commit` must follow. Nothing is copied within the device.

 Pointers:
 `data` is NULL or points to room for `nfields` addresses.
 */
gpuzip_status_t gpuzip_save_begin(struct gpuzip_t *handle,
                                  int32_t ts,
                                  void **data,
                                  uint32_t nfields,
                                  void *stream);

/*
 Saves u(ts), which work on `stream` has computed in the memory from `gpuzip_save_begin`; the
 current action must be SAVE of `ts`. The application may read this memory until the next save or
 retrieve is done on the stream, and must not write to it any more.
 */
gpuzip_status_t gpuzip_save_commit(struct gpuzip_t *handle,
                                   int32_t ts,
                                   void *stream);

/*
 Zero copy: hands out memory that holds u(ts), in the order of `stream`, until the next save or
 retrieve is done on the stream; the memory need not be given back. The current action must be
 RESTORE of `ts`. The application must not write to the memory unless the action has
 GPUZIP_FLAG_LAST_USE or all snapshots are compressed (in `gpuzip_summary_t`, `compressor` is not 0
 and `raw_slots` is 0), and never to a level that is shared (GPUZIP_FLAG_SHARED_LEVEL).

 Pointers:
 `data` is NULL or points to room for `nfields` addresses.
 */
gpuzip_status_t gpuzip_retrieve_acquire(struct gpuzip_t *handle,
                                        int32_t ts,
                                        void **data,
                                        uint32_t nfields,
                                        void *stream);

/*
 Gives the memory that `gpuzip_retrieve_acquire` handed out for `ts` back early. The work that
 uses the memory must be enqueued on `stream` or done, and the application must not use the
 memory after this call. The call is optional: without it the next save or retrieve gives the
 memory back, and the earlier it comes, the earlier the library can fetch the next snapshot.
 Valid in any action up to the next save or retrieve.
 */
gpuzip_status_t gpuzip_retrieve_release(struct gpuzip_t *handle,
                                        int32_t ts,
                                        void *stream);

/*
 Blocks the calling thread until all saves and retrieves of this session so far have read and
 written their fields. Needed only if the application uses the fields outside the stream that it
 passed to them. On the host backend every save and retrieve is complete when it returns.
 */
gpuzip_status_t gpuzip_synchronize(struct gpuzip_t *handle);

/*
 Copies the statistics of this session since its last setup.

 Pointers:
 `stats` is NULL or points to statistics whose `struct_size` is set.
 */
gpuzip_status_t gpuzip_stats(struct gpuzip_t *handle,
                             struct gpuzip_stats_t *stats);

/*
 Describes what was decided for this session: schedule, plan and memory. As long as the number of
 steps is not known (`gpuzip_end_forward`), `steps` and all counts of actions and transfers are 0.

 Pointers:
 `summary` is NULL or points to a summary whose `struct_size` is set.
 */
gpuzip_status_t gpuzip_summary(struct gpuzip_t *handle,
                               struct gpuzip_summary_t *summary);

/*
 Describes what `gpuzip_init` would decide and allocate, and allocates nothing. Parameters as for
 `gpuzip_init`. `device_bytes` is the memory that the session would take of the device, and is
 enough as `device_budget`, provided the backend is named or follows from the memory of the
 fields. `host_bytes` is the host memory of the snapshots at their expected sizes. `steps` = 0 for
 GPUZIP_ALGORITHM_ONLINE gives the memory for any number of steps.

 Pointers:
 As for `gpuzip_init`; `summary` is NULL or points to a summary whose `struct_size` is set.
 */
gpuzip_status_t gpuzip_memory_required(const struct gpuzip_config_t *config,
                                       int32_t steps,
                                       const struct gpuzip_field_t *fields,
                                       uint32_t nfields,
                                       struct gpuzip_summary_t *summary);

/*
 Frees a session after its transfers are done. If another thread is in a call on the session, the
 session is freed when that call returns. The handle becomes invalid at once.

 If the application left a shot after its last BACKWARD and without TERMINATE, this call ends the
 shot as `gpuzip_setup` does. If a state that a GPU restored was not what had been saved, and no
 call has reported that yet, the result is GPUZIP_ERR_STREAM, GPUZIP_ERR_VALUES or
 GPUZIP_ERR_DEVICE; the session is freed all the same.
 */
gpuzip_status_t gpuzip_finalize(struct gpuzip_t *handle);

/*
 Runs the forward sweep of a shot: the actions that `gpuzip_get_action` would give, up to the
 first BACKWARD. FORWARD actions go to `callbacks->forward`; the library does the saves and
 retrieves. The call returns before the first BACKWARD begins, so that the application can work
 between the sweeps. If the session has already reached the first BACKWARD, the call does
 nothing.

 `fields` are the `nfields` fields of the state with their data, unless `callbacks->locate` gives
 the address of the data at each action; `stream` is as for `gpuzip_save`. The library copies the
 callbacks and the fields. If a callback returns a value other than 0, no callback is called any
 more, the result is GPUZIP_ERR_CALLBACK with the value in the error's text, and the session
 needs `gpuzip_setup` before its next shot. Sessions with `zero_copy` = 1 cannot be run this way.

 Pointers:
 `callbacks` is NULL or points to callbacks whose `struct_size` is set; `fields` points to
 `nfields` fields, whose data is readable and writable.
 */
gpuzip_status_t gpuzip_run_forward(struct gpuzip_t *handle,
                                   const struct gpuzip_callbacks_t *callbacks,
                                   const struct gpuzip_field_t *fields,
                                   uint32_t nfields,
                                   void *stream);

/*
 Runs the rest of a shot, to TERMINATE: after `gpuzip_run_forward` the reverse sweep, in a shot
 that has not begun both sweeps. Parameters and result as for `gpuzip_run_forward`;
 `callbacks->backward_range` must not be NULL, or without `adjoint_every` `callbacks->backward`.

 Pointers:
 As for `gpuzip_run_forward`.
 */
gpuzip_status_t gpuzip_run_reverse(struct gpuzip_t *handle,
                                   const struct gpuzip_callbacks_t *callbacks,
                                   const struct gpuzip_field_t *fields,
                                   uint32_t nfields,
                                   void *stream);

/*
 Computes the fingerprint of the session's schedule: a 64-bit number that is equal for two
 schedules if both give the application the same actions, in the same order and with the same
 flags. Two different schedules have equal fingerprints with probability 2^-64. The fingerprint
 depends on the actions only, so it can be compared between ranks, machines and runs. The call
 passes once over the schedule; if the schedule is not decided yet, the call decides it.

 Pointers:
 `fingerprint` is NULL or points to a number.
 */
gpuzip_status_t gpuzip_fingerprint(struct gpuzip_t *handle,
                                   uint64_t *fingerprint);

/*
 Computes the fingerprint of a schedule by itself, as `gpuzip_fingerprint` does for a session.

 Pointers:
 `fingerprint` is NULL or points to a number.
 */
gpuzip_status_t gpuzip_schedule_fingerprint(struct gpuzip_schedule_t *schedule,
                                            uint64_t *fingerprint);

/*
 Gives all ranks that compute one grid together one schedule. A plan depends on the size of the
 states and on the budgets: ranks with slabs of 101 and of 100 planes may plan with 19 and 20
 snapshots. One rank then waits for ever in an exchange of halos that the other rank does not
 take part in. Call this function on every rank after `gpuzip_init` (and after
 `gpuzip_profile_import`, which makes a new plan), before the first action or after TERMINATE.

 All ranks get the schedule of the rank with the fewest snapshots; among several ranks with that
 number, the schedule with the smallest values of the other parameters. A session whose schedule
 changes by this makes a new plan and allocates its memory again with its next action. Each rank
 keeps its own device cache and codec. Either all ranks return success and have equal
 fingerprints, or all ranks return an error: a rank that failed returns its own error, the other
 ranks return GPUZIP_ERR_SCHEDULE.

 `least` is called 5 times on every rank, even where the rank has failed, with `user` as its
 first argument. A rank whose `gpuzip_init` failed calls `gpuzip_agree` with `handle` NULL, so
 that the other ranks do not wait for it; `gpuzip_last_error` then still returns the error of
 `gpuzip_init`. If `least` returns an error, the library does not call
 it again, and this rank returns GPUZIP_ERR_CALLBACK.

 Pointers:
 `least` is NULL or does what `gpuzip_least_t` says, with `user`.
 */
gpuzip_status_t gpuzip_agree(struct gpuzip_t *handle,
                             gpuzip_least_t least,
                             void *user);

/*
 Measures a profile during the next shot. Call it before the first action of that shot or after
 TERMINATE of the shot before.

 The session times the steps of that shot. In each of eight parts of the sweep it also copies one
 of the saved states within the device and across the link, and compresses and decompresses it
 with the codecs that the configuration names or leaves to choose from. If the number of steps is
 not known, it does so from each power of 2 to the next. The results of the shot
 are those of any other shot. The shot takes longer and needs additional memory: one state on the
 device, one on the host, and what the codecs need. When TERMINATE has been handed out, the
 session has the profile: it writes the profile to `profile_path` if that is set, and
 `gpuzip_profile_export` returns it. The session keeps its plan until `gpuzip_profile_import`, so
 that ranks stay in step.
 */
gpuzip_status_t gpuzip_autotune(struct gpuzip_t *handle);

/*
 Writes the profile that the session measured last, or was given, to `data`, as bytes that have
 the same meaning on every machine: broadcast them, or write them to a file. `*bytes` becomes the
 number of bytes. With `data` NULL the call writes `*bytes` only; otherwise `data` has room for
 `capacity` bytes, at least `*bytes`.

 Pointers:
 `data` is NULL or points to `capacity` bytes; `bytes` is NULL or points to a number.
 */
gpuzip_status_t gpuzip_profile_export(struct gpuzip_t *handle,
                                      void *data,
                                      uint64_t capacity,
                                      uint64_t *bytes);

/*
 Gives the session a profile, as bytes from `gpuzip_profile_export` or from a profile's file, and
 makes a new plan with it. Call it before the first action, or after TERMINATE for the next shot.
 A plan depends on configuration, profile and fields only: ranks that import the same bytes
 between the same shots make the same plan. If several sessions follow one schedule, each of them
 imports. If the profile is damaged, or comes from another version or another backend, or if no
 plan fits the budgets, the session stays unchanged. The memory of the new plan is allocated with
 the next action.

 Pointers:
 `data` is NULL or points to `bytes` bytes.
 */
gpuzip_status_t gpuzip_profile_import(struct gpuzip_t *handle,
                                      const void *data,
                                      uint64_t bytes);

/*
 Gives the time steps of each part of the sweep times of their own, where steps do not all take
 equally long, and makes a new plan by them. The sweep is divided into `parts` parts of equal
 length, at most 4096 (as many as time steps: one time for each step); a step of part k takes
 `forward_ms[k]` and `backward_ms[k]` milliseconds. `parts` = 0: every step takes the mean. All
 other speeds are those of the session's profile, or else typical of the backend. The times become
 a part of that profile, so that `gpuzip_profile_export` has them; `gpuzip_profile_import` replaces
 them, and so does a measurement. Call it before the first action, or after TERMINATE for the next
 shot, on all ranks with the same numbers.

 Pointers:
 `forward_ms` and `backward_ms` point to `parts` numbers each; NULL is allowed for `parts` = 0.
 */
gpuzip_status_t gpuzip_profile_steps(struct gpuzip_t *handle,
                                     uint32_t parts,
                                     const double *forward_ms,
                                     const double *backward_ms);

/*
 Describes the profile in `data` and its codec number `index`, counted from 0. If `index` is
 beyond the last codec, the members about a codec are 0.

 Pointers:
 `data` is NULL or points to `bytes` bytes; `info` is NULL or points to a `gpuzip_profile_info_t`
 whose `struct_size` is set.
 */
gpuzip_status_t gpuzip_profile_info(const void *data,
                                    uint64_t bytes,
                                    uint32_t index,
                                    struct gpuzip_profile_info_t *info);

/*
 Begins to choose `error_bound` from the error of the application's result, as `config->quality`
 asks: the application runs one shot several times, each time with a configuration that
 `gpuzip_quality_next` gives, and hands over what it computed. The bound is an estimate for other shots;
 `gpuzip_quality_check` measures one of them.

 ```c
 int32_t run;
 gpuzip_quality_open(&config, &quality);
 while (gpuzip_quality_next(quality, &config, &run) == GPUZIP_OK && run) {
   migrate(&config, shot, image);
   gpuzip_quality_result(quality, &image_as_field, 1);
 }
 ```

 `migrate` makes a session of `config` for each run, and all shots follow with the last `config`.
 `config` is copied but for its strings, which must stay valid until `gpuzip_quality_close`. Nothing
 else is shared with sessions.

 Pointers:
 `config` and `quality` are NULL or valid.
 */
gpuzip_status_t gpuzip_quality_open(const struct gpuzip_config_t *config,
                                    struct gpuzip_quality_t **quality);

/*
 Tells the next run. `*run` = 1: run the shot that is being measured, with a session of `*config`, and
 give its result to `gpuzip_quality_result`. `*run` = 0: no run is left, and `*config` is the
 configuration of all shots that follow, with the chosen `error_bound`.

 The first run has raw snapshots. With a budget it has algorithm auto (unless the algorithm is online or
 the policy lru), since raw snapshots may not fit as many as compressed ones; without one, the configured
 schedule needs memory for its snapshots raw. The runs that follow differ in `error_bound` only.
 `*config` is the configuration given to `gpuzip_quality_open` with the run's values; its `quality` is
 NULL, and so is `persist_dir` while `*run` = 1: a restart measures the shot anew, and finds the
 generations of the shots that follow. `check` is 0 while `*run` = 1: it makes all snapshots raw. Until a
 result was taken, the call gives the same run again.

 Pointers:
 `config` and `run` are NULL or valid.
 */
gpuzip_status_t gpuzip_quality_next(struct gpuzip_quality_t *quality,
                                    struct gpuzip_config_t *config,
                                    int32_t *run);

/*
 Hands over the result of the run that `gpuzip_quality_next` told: the image or gradient of this shot
 alone, FP32 or FP64 in host memory, as `nfields` fields whose `role` is 0. The result of the run with
 raw snapshots is copied; the copy is freed when no run is left. Every field must keep the error, so
 give parameters of different units as fields of their own. Values in the gaps between rows are not
 compared. In the run with raw snapshots a result with NaN or infinities, a field that is 0 everywhere (for
 images: constant), and values so small that squares of errors underflow are GPUZIP_ERR_VALUES; the run's
 result is then still wanted. In the runs that follow a result with NaN or infinities has an infinite
 error, and a tighter bound is tried.

 Pointers:
 `result` points to `nfields` fields with their data.
 */
gpuzip_status_t gpuzip_quality_result(struct gpuzip_quality_t *quality,
                                      const struct gpuzip_field_t *result,
                                      uint32_t nfields);

/*
 As the first half of `gpuzip_quality_result`, for a result of which each rank has a part: writes three
 numbers for each field to `sums`, and two to `maxima`. Add the sums of all ranks
 (`MPI_Allreduce(MPI_IN_PLACE, sums, 3 * nfields, MPI_DOUBLE, MPI_SUM, communicator)`), take the maxima
 (MPI_MAX, 2 * nfields), and give both to `gpuzip_quality_judge` on every rank: all ranks then choose one
 bound. A rank without a part of a field gives it an extent of 0; its `data` may be NULL. Its sums are then 0
 and its maxima -infinity. A field without values on all ranks is GPUZIP_ERR_VALUES when it is judged.

 Pointers:
 As for `gpuzip_quality_result`; `sums` has room for 3 `nfields` numbers and `maxima` for 2 `nfields`.
 */
gpuzip_status_t gpuzip_quality_compare(struct gpuzip_quality_t *quality,
                                       const struct gpuzip_field_t *result,
                                       uint32_t nfields,
                                       double *sums,
                                       double *maxima);

/*
 As the second half of `gpuzip_quality_result`: judges the run by the sums and maxima of all ranks. All
 ranks give the same numbers, as many as `gpuzip_quality_compare` wrote, and get the same answer.

 Pointers:
 `sums` and `maxima` point to as many numbers as `gpuzip_quality_compare` wrote.
 */
gpuzip_status_t gpuzip_quality_judge(struct gpuzip_quality_t *quality,
                                     const double *sums,
                                     const double *maxima,
                                     uint32_t nfields);

/*
 Begins to measure another shot, once no run is left: with raw snapshots, and with the chosen bound. If
 the result's error is larger than asked, further runs of this shot choose a tighter bound; the bound
 never becomes looser. Go on with `gpuzip_quality_next`.
 */
gpuzip_status_t gpuzip_quality_check(struct gpuzip_quality_t *quality);

/*
 Tells what was measured and chosen so far.

 Pointers:
 `info` is NULL or points to a `gpuzip_quality_info_t` whose `struct_size` is set.
 */
gpuzip_status_t gpuzip_quality_info(struct gpuzip_quality_t *quality,
                                    struct gpuzip_quality_info_t *info);

/*
 Gives the handle back, and the memory of what was measured.
 */
gpuzip_status_t gpuzip_quality_close(struct gpuzip_quality_t *quality);

/*
 Opens the folder `persist_dir` of the session's configuration for restart files, and makes the folder
 if it is missing. One process at a time uses the files of a rank. With `options` NULL there is one
 rank.

 A *generation* is one file for each rank that holds all that the rank needs to go on. It becomes
 visible when it is complete and on the disk, and two generations are kept, so that a run can be killed
 at any moment.

 With several ranks, all ranks make every call whose name begins with `gpuzip_persist_` and that takes a
 session together, and each of these calls may call `agree_min`. `agree_min` must not call the library
 with this session.

 Pointers:
 `options` is NULL or points to options whose `struct_size` is set, and `agree_min` does what
 `gpuzip_least_t` says, with `user`, until the session is finalized.
 */
gpuzip_status_t gpuzip_persist_open(struct gpuzip_t *handle,
                                    const struct gpuzip_persist_options_t *options);

/*
 Adds a stage to those that every generation of this session passes when it is on the disk, in the order of rising
 `priority`, and of equal ones in the order in which they were added. `name` is the stage's name in the configuration
 key `persist_stages`, which switches stages on: at most 80 bytes of UTF-8 without commas and spaces, and not
 `compress`. To be called after `gpuzip_persist_open` and before the first `gpuzip_persist_write`. `user` is passed to
 `run` unchanged.

 Pointers:
 `name` is NULL or a text that ends with NUL, and `run` does what `gpuzip_persist_stage_t` says, with `user`, until the
 session is finalized.
 */
gpuzip_status_t gpuzip_persist_stage_register(struct gpuzip_t *handle,
                                              const char *name,
                                              int32_t priority,
                                              gpuzip_persist_stage_t run,
                                              void *user);

/*
 Says whether a generation is to be written now: `*due` becomes GPUZIP_DUE_NO (0), GPUZIP_DUE_YES (1)
 if the time that generations may take (`persist_overhead`) permits another one, or GPUZIP_DUE_STOP (2)
 if a stop was requested: then write a generation, wait for it (`gpuzip_persist_wait`) and end the run.
 With one rank the call takes some 50 ns and may be made after every action. With several ranks a stop
 that one rank was asked for is due on all of them.

 Pointers:
 `due` is NULL or points to a number.
 */
gpuzip_status_t gpuzip_persist_due(struct gpuzip_t *handle,
                                   int32_t *due);

/*
 Writes a generation, from which a run goes on with shot `shot`.

 Between shots, that is before the first action or after TERMINATE, the generation is of the start of
 that shot and holds the arrays with `scope` 0. Within a shot, after the work of the current action and
 before the next one, the generation is of this action and holds all arrays, the stored snapshots as
 they are, and the position in the schedule; the shot number is the same as before the shot. A session
 with other sessions on its schedule, such as those of several devices, writes generations between shots only.

 Names of arrays that begin with "gpuzip " are the library's own: an array with such a name is
 GPUZIP_ERR_ARGUMENT.

 The arrays are memory that may be read as that of `gpuzip_save`, on the host or, for a session on a
 GPU, on the device, in the order of `stream`. On return the library has read them. Another thread then
 puts the generation on the disk; if that fails, the next call for restart files returns the error, and
 the older generations are as they were.

 If a stop was requested within a shot, the most valuable comes first: a generation of the start of this
 shot, unless the last one that this session wrote or read is of this shot, and then one of this action if
 it is expected to be on the disk within `stop_budget_s`.

 Pointers:
 `arrays` points to `narrays` arrays with names and readable data.
 */
gpuzip_status_t gpuzip_persist_write(struct gpuzip_t *handle,
                                     int64_t shot,
                                     const struct gpuzip_array_t *arrays,
                                     uint32_t narrays,
                                     void *stream);

/*
 Waits until the last generation is on the disk, and returns its error if it is not.
 */
gpuzip_status_t gpuzip_persist_wait(struct gpuzip_t *handle);

/*
 Puts the last generation, once it is on the disk on all ranks, into the folder `dir`, where it stays when
 the run removes it; before the first `gpuzip_persist_write` the one that `gpuzip_persist_find` found. The
 folder is made, for this user alone, if it is missing, and holds no generation of this rank. On one file
 system with `persist_dir` the file of a whole generation (`persist_whole_every`) gets a second name (a hard link)
 and takes no more room. Other runs begin with this generation if the folder is their `persist_dir`, or a clone of it
 (`gpuzip clone`).

 Pointers:
 `dir` is NULL or points to a string.
 */
gpuzip_status_t gpuzip_persist_clone(struct gpuzip_t *handle,
                                     const char *dir);

/*
 Finds the newest generation that every rank can read completely, with every checksum right, and
 describes it in `*found`; `found->generation` is 0 if there is none. Generations that are damaged are
 passed over for older ones, with a warning. If there are generations and none can be read, or the
 newest was written with other numbers of steps, fields, codec settings or ranks, the call fails and
 says what differs.

 Pointers:
 `found` is NULL or points to a struct whose `struct_size` is set.
 */
gpuzip_status_t gpuzip_persist_find(struct gpuzip_t *handle,
                                    struct gpuzip_generation_t *found);

/*
 Goes on from the generation that `gpuzip_persist_find` found last: fills the arrays with what they held
 when it was written, by their names, and moves the session to where it was. Call it before the first
 action of a session; the arrays are those with which the generation was written, in the same shapes.

 For the start of a shot (`it` = -1) the arrays with `scope` 0 are filled, and the application goes on
 with the shot as with any other. Otherwise all arrays are filled, and the shot goes on: without
 `gpuzip_setup`, the next `gpuzip_get_action` returns action `it` + 1, and everything that follows is as
 if the run had not stopped, the flags and the statistics too.

 If the session's schedule differs, as it may where budgets follow from the free memory, the session
 takes the schedule of the generation if its budgets can hold it.

 Pointers:
 `arrays` points to `narrays` arrays with names and writable data.
 */
gpuzip_status_t gpuzip_persist_read(struct gpuzip_t *handle,
                                    const struct gpuzip_array_t *arrays,
                                    uint32_t narrays,
                                    void *stream);

/*
 Reads all of the file of a generation, such as `gpuzip-r000003-g000000000017.gen`, and succeeds if every
 checksum is right and the file is of the rank and the generation that its name says. A damaged file is
 GPUZIP_ERR_STREAM, one that cannot be read GPUZIP_ERR_IO. Needs no session.

 Pointers:
 `path` is NULL or a string.
 */
gpuzip_status_t gpuzip_persist_check(const char *path);

/*
 Writes the file of a generation anew with all that older generations hold of it (`persist_whole_every`): it
 can then be copied by itself. A file that refers to no other stays as it is. To be called by the process that
 wrote it, in a stage or after `gpuzip_persist_wait`, or when no process uses the folder. Needs no session;
 `gpuzip_mpi.h` calls it for the generations that it protects.

 Pointers:
 `path` is NULL or a string.
 */
gpuzip_status_t gpuzip_persist_whole(const char *path);

/*
 Computes blocks of a Reed-Solomon code from other blocks, each of `bytes` bytes: the first `data` ones
 are of data, the `parity` ones behind them of parity; `data` and `parity` are at least 1, and both
 together at most 256. `present[k]` is not 0 if block k is known. The others are computed, but for those
 whose pointer is NULL. Any `data` blocks suffice: to make parity, those of data are present, and after a
 loss, those that are left. The first parity block is the XOR of the data. Needs no session;
 `gpuzip_mpi.h` keeps copies of restart files on other nodes with it.

 Pointers:
 `blocks` points to `data + parity` pointers, and `present` to as many numbers. The blocks do not overlap;
 those that are present may be read, and those that are computed written.
 */
gpuzip_status_t gpuzip_persist_parity(void *const *blocks,
                                      const int32_t *present,
                                      uint32_t data,
                                      uint32_t parity,
                                      uint64_t bytes);

/*
 Continues a CRC32C (polynomial 0x1EDC6F41, as in iSCSI): returns that of the bytes whose CRC32C is
 `before` and the `count` bytes behind them. Begin with 0. NULL adds no bytes.

 Pointers:
 `bytes` is NULL or points to `count` bytes.
 */
uint32_t gpuzip_persist_checksum(uint32_t before,
                                 const void *bytes,
                                 uint64_t count);

/*
 Requests that the run stop: `gpuzip_persist_due` then says so, and every later action has
 GPUZIP_FLAG_INTERRUPT. Only the first request of a process counts. May be called in a signal handler
 and from any thread.
 */
void gpuzip_request_stop(void);

/*
 Returns 1 if a stop of this process was requested, and else 0. `*seconds_left`, unless NULL, becomes
 what is left of `stop_budget_s`: negative when the time is over; 0 without a request.

 Pointers:
 `seconds_left` is NULL or points to a number.
 */
int32_t gpuzip_stop_requested(double *seconds_left);

/*
 Lets `nsignals` signals request a stop, as `gpuzip_request_stop` does; with `signals` NULL and
 `nsignals` 0, SIGTERM and SIGUSR1. A handler that the application had installed for a signal is called after that, on
 the alternate stack where there is one, with the signals blocked that it wanted to be blocked. The default
 action of a signal, such as to end the process, is not taken any more: the application ends the run.

 A further call for a signal changes nothing. A handler that the application installs after the first call
 must therefore call the one that sigaction returned to it, or call gpuzip_request_stop itself.

 SIGKILL and SIGSTOP cannot be caught. SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS and SIGABRT tell of
 faults in the program. All of these are refused with GPUZIP_ERR_ARGUMENT.

 Pointers:
 `signals` is NULL or points to `nsignals` numbers.
 */
gpuzip_status_t gpuzip_catch_signals(const int32_t *signals,
                                     uint32_t nsignals);

/*
 Computes `*bytes`, the room in bytes that `gpuzip_codec_compress` and `gpuzip_codec_encode` need for
 these fields: at least as much as any stream of them takes. The `data` of the fields may be NULL. With
 `backend` 1 (host) data in device memory is refused.

 Pointers:
 `config` and `bytes` are NULL or valid; `fields` points to `nfields` fields.
 */
gpuzip_status_t gpuzip_codec_bound(const struct gpuzip_config_t *config,
                                   const struct gpuzip_field_t *fields,
                                   uint32_t nfields,
                                   uint64_t *bytes);

/*
 Compresses arrays, with the codec and the error bound of `config`, into one stream at `stream`. `capacity` is the room at `stream` in bytes, at least what
 `gpuzip_codec_bound` computes; `*bytes` becomes the size of the stream in bytes. A field with
 the role k+1 is coded as field k minus this field, as in a session. The stream is complete when
 the call returns.

 Arrays in memory of a CUDA device are compressed by kernels into the same bytes, at a multiple of 64 in
 memory of that device. Their work follows that of the legacy default stream, and so waits for all streams
 that are not `cudaStreamNonBlocking`; the library keeps the work space, of `gpuzip_codec_work` bytes, for
 the next call. `gpuzip_codec_encode` says what has kernels, and works on a stream of the application without
 waiting. Managed memory counts as the host's, unless the stream or a field is in device memory.

 Pointers:
 `config` and `bytes` are NULL or valid; `fields` points to `nfields` fields with their data;
 `stream` points to `capacity` bytes that do not overlap the fields.
 */
gpuzip_status_t gpuzip_codec_compress(const struct gpuzip_config_t *config,
                                      const struct gpuzip_field_t *fields,
                                      uint32_t nfields,
                                      void *stream,
                                      uint64_t capacity,
                                      uint64_t *bytes);

/*
 Decompresses a stream that `gpuzip_codec_compress` made, in this process or another, into the
 fields. The fields must have the shapes, types and roles of the arrays that were compressed.
 Whatever the bytes of the stream are, the call either fills the arrays or returns an error. Stream and
 fields are in host memory, or both in memory of one CUDA device, as for `gpuzip_codec_compress`; the stream
 there may end before `bytes` bytes do.

 Pointers:
 `stream` points to `bytes` bytes; `fields` points to `nfields` fields with writable data.
 */
gpuzip_status_t gpuzip_codec_decompress(const void *stream,
                                        uint64_t bytes,
                                        const struct gpuzip_field_t *fields,
                                        uint32_t nfields);

/*
 Describes array number `index` of a compressed stream, counted from 0 in the order of the
 stream. Of a stream in memory of a CUDA device only the headers up to that of this array are read: `arrays`
 becomes 0, and the stream may end before `bytes` bytes do.

 Pointers:
 `stream` points to `bytes` bytes; `info` is NULL or points to a `gpuzip_codec_info_t` whose
 `struct_size` is set.
 */
gpuzip_status_t gpuzip_codec_info(const void *stream,
                                  uint64_t bytes,
                                  uint32_t index,
                                  struct gpuzip_codec_info_t *info);

/*
 Registers a codec of the application for the rest of the process. `*compressor` becomes its
 number for `gpuzip_config_t.compressor`: 64, 65, ... in the order of registration. A program
 that reads streams of registered codecs must register the same codecs in the same order.

 Pointers:
 `plugin` is NULL or points to a table whose functions do what `gpuzip_codec_plugin_t` says, from
 any thread, as long as the process lives.
 */
gpuzip_status_t gpuzip_codec_register(const struct gpuzip_codec_plugin_t *plugin,
                                      int32_t *compressor);

/*
 Computes `*bytes`, the work space in bytes that `gpuzip_codec_encode` and `gpuzip_codec_decode` need for
 these fields and the codec of `config`. Fields with pitches that leave gaps need more. The `data` of the
 fields may be NULL. The call does not use the device.

 Pointers:
 `config` and `bytes` are NULL or valid; `fields` points to `nfields` fields.
 */
gpuzip_status_t gpuzip_codec_work(const struct gpuzip_config_t *config,
                                  const struct gpuzip_field_t *fields,
                                  uint32_t nfields,
                                  uint64_t *bytes);

/*
 Compresses arrays in device or managed memory of one CUDA device, as `gpuzip_codec_compress` does for
 host memory and into the same bytes, at `coded`, a multiple of 64 in memory of that device. `capacity`
 is the room there in bytes, at least what `gpuzip_codec_bound` computes.

 All work is enqueued on `stream`, a `cudaStream_t` of the device's primary context, and the host waits for
 nothing; only the first call with a codec and a type on a device loads kernels, and may wait for that.
 Until the stream has come to the end of the work, the arrays, `coded` and `work` must stay as they are.
 `work` is `work_bytes` bytes of device memory at a multiple of 256, at least what `gpuzip_codec_work`
 computes; it need not be the same memory, nor the same contents, in another call. The kernels write
 `*result`, which is in device, managed or page-locked host memory. The arrays may have pitches that
 leave gaps. Compressor 0, lossless and a registered codec without `device_compress` have no kernels: the
 result is GPUZIP_ERR_UNSUPPORTED, as for fields that are not of FP32 or FP64.

 Pointers:
 `config` is NULL or valid; `fields` points to `nfields` fields with their data; `coded` and `work` point
 to memory of their sizes, which overlaps neither the other nor the fields; `result` is memory for a
 result; `stream` is a stream.
 */
gpuzip_status_t gpuzip_codec_encode(const struct gpuzip_config_t *config,
                                    const struct gpuzip_field_t *fields,
                                    uint32_t nfields,
                                    void *coded,
                                    uint64_t capacity,
                                    void *work,
                                    uint64_t work_bytes,
                                    struct gpuzip_codec_result_t *result,
                                    void *stream);

/*
 Decompresses a stream of `gpuzip_codec_encode` or `gpuzip_codec_compress` into arrays in device or managed
 memory. The stream begins at `coded`, a multiple of 64 in memory of their device, and ends within the
 `bytes` bytes there: `bytes` may be the room for the stream where the host does not know its size. Whatever
 these bytes are, the kernels read no others, and write only the arrays, `work` and `*result`.

 `config` names the codec that made the stream, with `zfp_bit_rate` or `bitcomp_algorithm`, because the host
 does not read the stream; the error bound is in the stream. The other arguments, and the order on `stream`,
 are as for `gpuzip_codec_encode`.

 Pointers:
 As for `gpuzip_codec_encode`; the data of the fields is writable.
 */
gpuzip_status_t gpuzip_codec_decode(const struct gpuzip_config_t *config,
                                    const void *coded,
                                    uint64_t bytes,
                                    const struct gpuzip_field_t *fields,
                                    uint32_t nfields,
                                    void *work,
                                    uint64_t work_bytes,
                                    struct gpuzip_codec_result_t *result,
                                    void *stream);

#ifdef __cplusplus
}  /* extern "C" */
#endif  /* __cplusplus */

#endif  /* GPUZIP_H */
