//! The structs and constants of the ABI. Their layouts are frozen: tests/layout.rs holds the
//! offsets.

use std::ffi::{c_char, c_void};

/// The result of every call: 0 is success, negative numbers are errors (`gpuzip_last_error` has the
/// reason). Positive numbers are reserved for success with a warning; this version returns none.
pub type gpuzip_status_t = i32;

/// Success.
pub const GPUZIP_OK: i32 = 0;
/// A pointer is NULL, or a number is outside its range.
pub const GPUZIP_ERR_ARGUMENT: i32 = -101;
/// A configuration value is impossible, or contradicts another one.
pub const GPUZIP_ERR_CONFIG: i32 = -102;
/// The value is valid, but this version of the library cannot do what it asks for.
pub const GPUZIP_ERR_UNSUPPORTED: i32 = -103;
/// The fields differ in number, shape or type from those given at init.
pub const GPUZIP_ERR_SHAPE: i32 = -104;
/// A field holds NaN or infinities, and `nonfinite = 1` makes that an error; or a previous time
/// level is not what `shared_levels = 1` says.
pub const GPUZIP_ERR_VALUES: i32 = -105;
/// The call does not fit the current action. Nothing has changed.
pub const GPUZIP_ERR_STATE: i32 = -201;
/// The handle was never made, or is finalized.
pub const GPUZIP_ERR_HANDLE: i32 = -202;
/// The handle belongs to the process that this one was forked from; or CUDA, which does not work in
/// a child of a process that has used it. The child's own configurations, schedules and sessions on
/// the host are as good as any.
pub const GPUZIP_ERR_FORKED: i32 = -203;
/// A callback of the application returned other than 0 and so stopped the run.
pub const GPUZIP_ERR_CALLBACK: i32 = -204;
/// Memory ran out: of the host, of the device, or for a thread. What exists stays usable; the call
/// may be repeated.
pub const GPUZIP_ERR_MEMORY: i32 = -301;
/// The plan does not fit the budgets.
pub const GPUZIP_ERR_BUDGET: i32 = -302;
/// A file cannot be read or written.
pub const GPUZIP_ERR_IO: i32 = -401;
/// A configuration or trace file is malformed.
pub const GPUZIP_ERR_PARSE: i32 = -402;
/// A schedule breaks the rules of checkpointing.
pub const GPUZIP_ERR_SCHEDULE: i32 = -403;
/// A compressed stream is damaged, or of another version.
pub const GPUZIP_ERR_STREAM: i32 = -404;
/// The device failed.
pub const GPUZIP_ERR_DEVICE: i32 = -501;
/// A defect in gpuzip was caught.
pub const GPUZIP_ERR_PANIC: i32 = -901;
/// An earlier defect left this handle unusable; finalize it.
pub const GPUZIP_ERR_POISONED: i32 = -902;

/// Compute u(ts) from u(ts-1); with `range_actions`, go on to u(ts_end).
pub const GPUZIP_ACTION_FORWARD: i32 = 0;
/// u(ts) is live: call `gpuzip_save`.
pub const GPUZIP_ACTION_SAVE: i32 = 1;
/// Call `gpuzip_retrieve`: u(ts) is live afterwards.
pub const GPUZIP_ACTION_RESTORE: i32 = 2;
/// u(ts) is live: do the adjoint of the step ts -> ts+1.
pub const GPUZIP_ACTION_BACKWARD: i32 = 3;
/// The sweep is over.
pub const GPUZIP_ACTION_TERMINATE: i32 = 4;
/// The schedule cannot go on. No valid schedule contains it.
pub const GPUZIP_ACTION_ERROR: i32 = 5;

/// FORWARD: this step (all steps of a range) was computed before in this sweep; do not record
/// receivers again.
pub const GPUZIP_FLAG_RECOMPUTE: u32 = 1;
/// BACKWARD: the first of the sweep.
pub const GPUZIP_FLAG_FIRST_BACKWARD: u32 = 2;
/// RESTORE: the snapshot is not needed again. SAVE: nobody will restore it.
pub const GPUZIP_FLAG_LAST_USE: u32 = 4;
/// FORWARD: the state that it computes (the last of a range) will be saved.
pub const GPUZIP_FLAG_NEXT_IS_SAVE: u32 = 8;

/// Replay a recorded schedule from `trace_file_path`.
pub const GPUZIP_ALGORITHM_TRACE: i32 = 0;
/// Binomial checkpointing.
pub const GPUZIP_ALGORITHM_REVOLVE: i32 = 1;
/// Checkpoints at equal distance, Revolve with the free slots inside each interval.
pub const GPUZIP_ALGORITHM_UNIFORM: i32 = 2;
/// zCut (reconstructed).
pub const GPUZIP_ALGORITHM_ZCUT: i32 = 3;
/// The library chooses the quickest schedule that fits, by simulation with the profile or with what
/// is typical of the backend.
pub const GPUZIP_ALGORITHM_AUTO: i32 = 4;
/// Checkpoints at equal distance, Revolve with the device cache's slots inside each interval.
pub const GPUZIP_ALGORITHM_TWO_LEVEL: i32 = 5;
/// Every state.
pub const GPUZIP_ALGORITHM_STORE_ALL: i32 = 6;

/// Replacement by the known schedule: the fewest fetches that the cache allows, and the fewest
/// transfers altogether for every algorithm but `trace`, whose snapshots may be used in another
/// order than a stack's; there a write-back more than the fewest may be made.
pub const GPUZIP_POLICY_CLAIRVOYANT: i32 = 0;
/// GPUZIP 2.x's published LRU and PSA, for comparison.
pub const GPUZIP_POLICY_LRU: i32 = 1;

/// Raw snapshots.
pub const GPUZIP_COMPRESSOR_NONE: i32 = 0;
/// zfp at a fixed rate of `zfp_bit_rate`; the payload is libzfp's.
pub const GPUZIP_COMPRESSOR_ZFP: i32 = 1;
/// NVIDIA's Bitcomp, through an installed libnvcomp.
pub const GPUZIP_COMPRESSOR_BITCOMP: i32 = 2;
/// The published cuSZp layout, within a bound.
pub const GPUZIP_COMPRESSOR_CUSZP: i32 = 3;
/// Lorenzo prediction in tiles, within a bound: fast.
pub const GPUZIP_COMPRESSOR_LORENZO: i32 = 4;
/// Cosine transform of tiles, within a bound: small.
pub const GPUZIP_COMPRESSOR_DCT: i32 = 5;
/// Scaled half precision: half the bytes of FP32, a quarter of FP64's. Every value is within 2^-11
/// (4.9e-4) of its field's maximum; on wavefields the PSNR is 95 to 100 dB.
pub const GPUZIP_COMPRESSOR_FP16: i32 = 6;
/// Blocks of 32 8-bit integers with a common exponent: 3.9 times less than FP32. Every value is
/// within 1/127 of its block's maximum; on wavefields the PSNR is 65 to 70 dB.
pub const GPUZIP_COMPRESSOR_BFP: i32 = 7;
/// The library chooses: raw snapshots, or one of the codecs that keep a bound. `error_bound` must
/// be set, and the profile (`profile_path`, `gpuzip_profile_import`) must have them measured with
/// it; without one, lorenzo is taken to have the ratio `compression_factor`.
pub const GPUZIP_COMPRESSOR_AUTO: i32 = 15;

/// 32-bit IEEE values.
pub const GPUZIP_TYPE_F32: i32 = 0;
/// 64-bit IEEE values.
pub const GPUZIP_TYPE_F64: i32 = 1;
/// 8-bit integers, signed or not. Values of this type and of the types below are stored as they are
/// and come back exactly, whatever the codec is; with a codec, the CUDA backend of this version
/// refuses them.
pub const GPUZIP_TYPE_I8: i32 = 2;
/// 16-bit integers, signed or not.
pub const GPUZIP_TYPE_I16: i32 = 3;
/// 32-bit integers, signed or not.
pub const GPUZIP_TYPE_I32: i32 = 4;
/// 64-bit integers, signed or not.
pub const GPUZIP_TYPE_I64: i32 = 5;
/// Complex values, each two 32-bit IEEE numbers. A codec does not code them; for coded ones declare
/// a GPUZIP_TYPE_F32 field whose n1 and pitches are twice as large.
pub const GPUZIP_TYPE_COMPLEX_F32: i32 = 6;
/// Complex values, each two 64-bit IEEE numbers; otherwise as GPUZIP_TYPE_COMPLEX_F32.
pub const GPUZIP_TYPE_COMPLEX_F64: i32 = 7;
/// Bytes of whatever the application keeps there.
pub const GPUZIP_TYPE_BYTE: i32 = 8;

/// A session: one device of one application.
pub struct gpuzip_t {
    _opaque: [u8; 0],
}

/// A schedule with its cursor; several sessions may follow it.
pub struct gpuzip_schedule_t {
    _opaque: [u8; 0],
}

/// One array of the state: n1 x n2 x n3 values, n1 fastest, contiguous or with gaps between its
/// rows and planes.
///
/// Value (i1, i2, i3), each index from 0, is at `data` + (i1 + `pitch2` i2 + `pitch3` i3) values.
/// Only these values belong to the state: what lies between them (a halo) is neither stored nor
/// compared, and a retrieve does not write it. A snapshot has the size of the values. A field of n1
/// x n2 x n3 cells in an array of (n1+8) x (n2+8) x (n3+8) with a halo of 4 cells has `data` =
/// &array[4][4][4], `pitch2` = n1+8 and `pitch3` = (n1+8)(n2+8).
///
/// Number, extents, types and roles of the fields are those given at init in every call; `data` and
/// the pitches may differ from call to call. Memory that the library hands out (zero copy) and
/// fields that it gives to a registered codec are contiguous. The CUDA backend of this version
/// refuses fields with gaps. A codec works on a contiguous copy of a field with gaps; a session
/// that has a codec then takes memory for one more state, beside its budgets.
///
/// An array of pointers to rows (`float **u`) is one field if its rows are evenly spaced, as `u[1]
/// - u[0]` = `u[2] - u[1]` = ... of rows allocated in one piece: `data` = u[0] and `pitch2` that
/// distance. Otherwise each evenly spaced block of rows is a field of its own.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gpuzip_field_t {
    /// Its memory, owned by the caller. May be NULL where only the shape counts.
    pub data: *mut c_void,
    /// Extent of the fastest dimension, in values.
    pub n1: u64,
    /// Extent of the second dimension; 1 if there is none.
    pub n2: u64,
    /// Extent of the slowest dimension; 1 if there is none.
    pub n3: u64,
    /// GPUZIP_TYPE_*.
    pub r#type: i32,
    /// 0: a quantity of its own; k+1: the previous time level of field k.
    pub role: i32,
    /// Distance, in values, between the first values of consecutive rows: at least n1. 0: n1, rows
    /// without gaps.
    pub pitch2: u64,
    /// Distance, in values, between the first values of consecutive planes: at least (n2-1)
    /// `pitch2` + n1. 0: n2 times the distance of rows.
    pub pitch3: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

/// What the application has to do next.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct gpuzip_action_t {
    /// GPUZIP_ACTION_*.
    pub r#type: i32,
    /// The time step of the state that the action produces or needs, 0..n; of a range of FORWARDs
    /// the first.
    pub ts: i32,
    /// The last time step of a range of FORWARDs; equal to `ts` without `range_actions`, and for
    /// all other actions.
    pub ts_end: i32,
    /// GPUZIP_FLAG_*, or-ed.
    pub flags: u32,
    /// Actions since setup; the first is 0.
    pub it: i64,
    /// Zero.
    pub reserved: [u64; 2],
}

/// The configuration. Block 1 has GPUZIP 2.x's fields in its order and with its numbers; zero means
/// there what it means in GPUZIP 2.x. Block 2, from `struct_size` on, is gpuzip's; zero means the
/// default. `gpuzip_config_init` fills in gpuzip's own defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gpuzip_config_t {
    /// GPUZIP_ALGORITHM_*.
    pub checkpointing_algorithm: i32,
    /// Snapshots stored at a time, at most. 0: the most that fits the budgets; without budgets
    /// what the algorithm needs (Revolve: GPUZIP's number), and for `auto` in `gpuzip_init`
    /// what half of the free memory holds (`device_budget`). Uniform and two-level need it, or
    /// a budget.
    pub checkpointing_snaps: i32,
    /// Device cache slots: 0 no cache, 1 one slot, from 2 on cache and prefetch. With
    /// `device_budget`, at most so many.
    pub cache_capacity: i32,
    /// GPUZIP_COMPRESSOR_*; 0: none.
    pub compressor: i32,
    /// What is logged: 0 DEBUG and above, 1 INFO, 2 WARN, 3 ERROR only. Holds for the whole
    /// process.
    pub log_level: i32,
    /// 1: append one CSV line per shot to gpuzip_performance.csv, or to the file that
    /// GPUZIP_PERFORMANCE_LOG names. Processes may share it; a line is there whole or not at
    /// all, and then a warning says why.
    pub enable_performance_log: i32,
    /// 1: log the compression ratio of every snapshot, at level INFO.
    pub enable_compression_rate_log: i32,
    /// The compression ratio that is expected: budgets are planned with it. Snapshots take what
    /// they need; one that finds no room in the cache stays in host memory, and if that has a
    /// budget that it does not fit, saving it is an error. 0 or 1: none is expected.
    pub compression_factor: f32,
    /// The file of GPUZIP_ALGORITHM_TRACE.
    pub trace_file_path: *mut c_char,
    /// Accepted for compatibility; `log_level` decides.
    pub revolve_log_level: i32,
    /// zfp: bits per value, 1 to 32 (FP64: to 64); 0: 8.
    pub zfp_bit_rate: i32,
    /// cuSZp without `error_bound`: the bound relative to the range of values, as in GPUZIP 2.x.
    pub cuszp_err_bound: f64,
    /// "float" or "double": the type of fields where a call gives only extents (the GPUZIP 2.x
    /// headers). NULL: float.
    pub float_kind: *const c_char,
    /// Bitcomp: 0 fraction of the maximum, 1 statistical range, 2 static delta.
    pub bitcomp_delta_config: i32,
    /// Bitcomp: the fraction of mode 0.
    pub bitcomp_range_fraction: f64,
    /// Bitcomp: the standard deviations of mode 1.
    pub bitcomp_num_sigma: f64,
    /// Bitcomp: the delta of mode 2.
    pub bitcomp_delta: f64,
    /// Bitcomp: 0 default, 1 sparse.
    pub bitcomp_algorithm: i32,
    /// sizeof(gpuzip_config_t), set by `gpuzip_config_init` and, in C++, by the declaration. 0:
    /// only block 1 is read. A larger one, of a newer header, is accepted if all that it has
    /// beyond this one is zero.
    pub struct_size: u64,
    /// 0: by the memory of the fields (device or managed memory: CUDA). Where their data are NULL
    /// at init, that is the host if this machine has no CUDA driver or device, and is found
    /// out at the first save if it has one: `auto` then plans for CUDA, and once more there if the
    /// fields are the host's, unless the application was shown the schedule by then (a peek, a
    /// summary, a fingerprint). CUDA is not started in this process before fields tell that it
    /// is needed. 1: host; 2: CUDA, an error at init where there is no driver or no device.
    pub backend: i32,
    /// 0: the device of the fields, else the current one; k+1: CUDA device k. Must be 0 on the
    /// host backend.
    pub device: i32,
    /// Bytes of device memory: for the cache, and all else that a session takes there; 0:
    /// `cache_capacity` decides. On the host backend main memory is the device memory too:
    /// this is the budget that a CPU code sets.
    ///
    /// Where this, `host_budget`, `checkpointing_snaps` and `snapshot_rule` are all 0, algorithm
    /// `auto` takes budgets of its own in `gpuzip_init` and `gpuzip_memory_required`: at most
    /// half of the memory that is free then, and never more than keeping every state needs.
    /// Free is, of the host, the least of MemAvailable and what control groups, RLIMIT_AS and
    /// RLIMIT_DATA leave, divided by the ranks on this node where a launcher's variable tells
    /// them; of a GPU, what its driver says, which ranks on one GPU have to divide by a budget.
    /// With `cache_capacity` only `host_budget` is taken. Where the half holds fewer snapshots
    /// than GPUZIP's number, that number decides instead. A line of the log at level INFO and
    /// `gpuzip_summary` say what was taken. Ranks that must follow one schedule set budgets: what
    /// is free differs between them. Sessions made by `gpuzip_attach` and policy lru take
    /// none.
    pub device_budget: u64,
    /// Bytes of host memory for snapshots; 0: what the plan needs, or for `auto` as said at
    /// `device_budget`.
    pub host_budget: u64,
    /// Bytes of disk for snapshots; 0: none (no disk tier in this version).
    pub disk_budget: u64,
    /// GPUZIP_POLICY_*.
    pub policy: i32,
    /// Codecs that keep a bound (cuSZp, lorenzo, dct, Bitcomp): 0 relative to each field's maximum
    /// in each snapshot, 1 absolute, 2 relative to its range, 3 target PSNR in dB. Of a
    /// declared pair of time levels it bounds the later one and their difference, each by its own
    /// size.
    pub error_bound_mode: i32,
    /// Their bound, kept for every finite value (mode 3: by the field as a whole); 0: 1e-3 in
    /// modes 0 and 2.
    pub error_bound: f64,
    /// Codecs, NaN and Inf: 0 stored exactly, 1 saving them is GPUZIP_ERR_VALUES.
    pub nonfinite: i32,
    /// No action is handed out before a GPU has ended, on the stream of the last save or retrieve,
    /// all actions that lie this many back or more; before the first save or retrieve of a
    /// shot there is nothing to wait for. 0: 64.
    pub max_in_flight: i32,
    /// 1: FORWARDs between which nothing else comes are one action, `ts` to `ts_end`. Statistics
    /// and leads count its steps one by one.
    pub range_actions: i32,
    /// Number of snapshots: 0 `checkpointing_snaps` or the budgets; 1 GPUZIP's `adjust`, the least
    /// s with C(2s, s) >= n.
    pub snapshot_rule: i32,
    /// zCut: states per chunk; two-level: states per interval; 0: chosen.
    pub schedule_chunk: i32,
    /// Uniform: 0 free slots work inside the interval; 1 as published for GPUZIP 2.x, quadratic in
    /// the interval.
    pub uniform_reading: i32,
    /// 1: the application works in the cache's slots (`gpuzip_save_begin`,
    /// `gpuzip_retrieve_acquire`) instead of having its fields copied. Takes memory for two
    /// more snapshots on the device, out of `device_budget` if that is set; policy clairvoyant
    /// only.
    pub zero_copy: i32,
    /// Host backend: bandwidth of a simulated link in bytes per second each way; 0: none.
    pub link_bandwidth: f64,
    /// The file of a profile, by which `auto` and predictions go: read if it exists, and written
    /// by a session after `gpuzip_autotune`, in one piece: readers find the old profile or the
    /// new one. NULL: none.
    pub profile_path: *const c_char,
    /// A file for a timeline in Chrome's trace format, for ui.perfetto.dev and `gpuzip report`;
    /// NULL or empty: none. `%r` is the MPI rank, `%p` the process, `%%` a percent sign.
    /// Without `%r` and `%p`, `-r<rank>` comes before the extension where a launcher has started
    /// several ranks, so does `-p<process>` in a forked child, and so does `-<k>` for the k-th
    /// session of a process from the second on, or, where another process is writing that file
    /// (it has its lock, flock), the next number that is free. Older files are replaced. It is
    /// written at the end of every shot, for which TERMINATE then waits; what cannot be
    /// written is a warning, and the file ends, as valid JSON, before it.
    pub trace_out: *const c_char,
    /// A directory for restart files (not in this version).
    pub persist_dir: *const c_char,
    /// Share of the run time that persistence may take.
    pub persist_overhead: f64,
    /// Seconds that a requested stop may take.
    pub stop_budget_s: f64,
    /// 1: raw snapshots of consecutive states keep the time level that both have once: the
    /// previous level (`role`) of u(t+1) is the field of u(t). Every save compares their
    /// checksums; where the application changed it after the step, the save fails with
    /// GPUZIP_ERR_VALUES, on a GPU the call that would give TERMINATE, and the shot cannot go
    /// on. Not with `zero_copy`, policy lru or a codec by name.
    pub shared_levels: i32,
    /// Zero.
    pub reserved_32: i32,
    /// Zero.
    pub reserved_64: u64,
    /// Pages of the host backend's memory for snapshots: 0 huge ones, unless touching 16 MiB of
    /// them for the first time takes this machine more than 1.5 times as long as 16 MiB of
    /// ordinary ones; 1 huge ones always, for runs of very many shots: copies are then 9 to 21 %
    /// faster; 2 never.
    pub huge_pages: i32,
    /// Zero.
    pub reserved_strict: i32,
    /// Zero.
    pub reserved: [u64; 13],
}

/// What one session counted and timed since the last setup.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct gpuzip_stats_t {
    /// sizeof(gpuzip_stats_t), set by the caller.
    pub struct_size: u64,
    /// Time steps of FORWARD actions.
    pub forward_steps: u64,
    /// SAVE actions served.
    pub saves: u64,
    /// RESTORE actions served.
    pub restores: u64,
    /// BACKWARD actions.
    pub backward_steps: u64,
    /// Restores found in the device cache without a transfer.
    pub hits: u64,
    /// Restores that needed a transfer: restores = hits + misses.
    pub misses: u64,
    /// Misses whose transfer was issued ahead of the restore.
    pub prefetches: u64,
    /// Prefetches that had not ended when their restore came.
    pub late_prefetches: u64,
    /// Transfers from host to device memory.
    pub h2d: u64,
    /// Transfers from device to host memory.
    pub d2h: u64,
    /// Bytes from host to device memory.
    pub h2d_bytes: u64,
    /// Bytes from device to host memory.
    pub d2h_bytes: u64,
    /// Bytes written to and read from disk.
    pub disk_bytes: u64,
    /// Saves that never had to leave the device: saves = d2h + write_backs_avoided.
    pub write_backs_avoided: u64,
    /// Bytes of the fields saved.
    pub raw_bytes: u64,
    /// Bytes of the snapshots made of them.
    pub stored_bytes: u64,
    /// Device memory taken.
    pub peak_device_bytes: u64,
    /// Host memory taken.
    pub peak_host_bytes: u64,
    /// Seconds of the application's FORWARDs, as the host sees them.
    pub forward: f64,
    /// Seconds of the application's BACKWARDs, as the host sees them.
    pub backward: f64,
    /// Seconds of the host in save.
    pub save: f64,
    /// Seconds of the host in retrieve.
    pub restore: f64,
    /// Seconds of compression; on a GPU of the application's stream, as far as they have ended.
    pub compress: f64,
    /// Seconds of decompression, likewise.
    pub decompress: f64,
    /// Seconds that the application's stream spent in saves and retrieves; on a GPU of those that
    /// have ended.
    pub stall: f64,
    /// Seconds that the host waited because it was `max_in_flight` actions ahead.
    pub run_ahead_wait: f64,
    /// Zero.
    pub reserved: [u64; 8],
}

/// A schedule and, for a session, its plan and memory, as numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct gpuzip_summary_t {
    /// sizeof(gpuzip_summary_t), set by the caller.
    pub struct_size: u64,
    /// GPUZIP_ALGORITHM_*, never AUTO: what was chosen.
    pub algorithm: i32,
    /// GPUZIP_POLICY_*.
    pub policy: i32,
    /// Time steps, n.
    pub steps: i32,
    /// Snapshots that may be stored at a time.
    pub snapshots: i32,
    /// Device cache slots.
    pub cache: i32,
    /// States per chunk or interval; 0 if the algorithm has none.
    pub chunk: i32,
    /// Time steps of FORWARD actions.
    pub forward_steps: u64,
    /// SAVE actions.
    pub saves: u64,
    /// RESTORE actions.
    pub restores: u64,
    /// BACKWARD actions.
    pub backward_steps: u64,
    /// Snapshots stored at a time, at most.
    pub max_live: u64,
    /// All actions, TERMINATE included; a range is one.
    pub actions: u64,
    /// Transfers from host to device memory.
    pub h2d: u64,
    /// Transfers from device to host memory.
    pub d2h: u64,
    /// Restores found in the device cache without a transfer.
    pub hits: u64,
    /// Restores that need a transfer.
    pub misses: u64,
    /// Misses whose transfer is issued ahead of the restore.
    pub prefetches: u64,
    /// Forward and backward steps between issue and use of a prefetch: the least, 0 if there is
    /// none.
    pub min_lead: u64,
    /// The same: the mean.
    pub mean_lead: f64,
    /// Bytes of one snapshot.
    pub slot_bytes: u64,
    /// Device memory: the cache, two states with `zero_copy`, and what the kernels of a codec work
    /// in.
    pub device_bytes: u64,
    /// Host memory of the snapshots.
    pub host_bytes: u64,
    /// GPUZIP_COMPRESSOR_*, never AUTO: what was chosen; 0 for a schedule by itself.
    pub compressor: i32,
    /// Zero.
    pub reserved_32: i32,
    /// `device_budget` that the plan was made within: as configured, or as taken of the memory
    /// that was free; 0: none.
    pub device_budget: u64,
    /// `host_budget`, likewise.
    pub host_budget: u64,
    /// Zero.
    pub reserved: [u64; 5],
}

/// What a profile says. Times are of a state of `state_bytes` bytes; GB/s are 1e9 bytes per second,
/// a codec's of raw bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct gpuzip_profile_info_t {
    /// sizeof(gpuzip_profile_info_t), set by the caller.
    pub struct_size: u64,
    /// Bytes of the states that were measured; 0: times are of any.
    pub state_bytes: u64,
    /// One FORWARD step, in milliseconds.
    pub forward_ms: f64,
    /// One BACKWARD step, in milliseconds.
    pub backward_ms: f64,
    /// GB/s from host to device memory.
    pub h2d_gbs: f64,
    /// GB/s from device to host memory.
    pub d2h_gbs: f64,
    /// GB/s of copies within device memory.
    pub d2d_gbs: f64,
    /// GB/s of reading from disk; assumed in this version.
    pub disk_read_gbs: f64,
    /// GB/s of writing to disk; assumed in this version.
    pub disk_write_gbs: f64,
    /// Where it was measured: 1 host, 2 CUDA; 0: anywhere.
    pub backend: i32,
    /// Codecs in the profile.
    pub codecs: u32,
    /// Of the codec that was asked for: GPUZIP_COMPRESSOR_*; it and what follows is 0 if there is
    /// none.
    pub compressor: i32,
    /// Its `error_bound_mode`.
    pub error_bound_mode: i32,
    /// Its bound; 0 if it keeps none.
    pub error_bound: f64,
    /// GB/s of compression.
    pub compress_gbs: f64,
    /// GB/s of decompression.
    pub decompress_gbs: f64,
    /// Raw bytes over stored bytes, of all states that were tried together.
    pub ratio: f64,
    /// The same of the state that compressed worst.
    pub worst_ratio: f64,
    /// Zero.
    pub reserved: [u64; 4],
}

/// Receives log lines. Must not throw, longjmp, fork or call gpuzip; may be called from any thread,
/// and in a forked child, which inherits it. `level`: 0 DEBUG, 1 INFO, 2 WARN, 3 ERROR. `message`
/// lives during the call only. `user`: as registered.
pub type gpuzip_log_callback_t =
    Option<unsafe extern "C" fn(level: i32, message: *const c_char, user: *mut c_void)>;

/// What a compressed stream says of one of its arrays. Set `struct_size` to
/// sizeof(gpuzip_codec_info_t) before the call.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct gpuzip_codec_info_t {
    /// Bytes that the caller knows.
    pub struct_size: u64,
    /// Arrays in the stream.
    pub arrays: u32,
    /// GPUZIP_COMPRESSOR_*, or the number of a registered codec.
    pub compressor: i32,
    /// 0 the values as they are, 1 compressed, 2 one value that all have.
    pub content: i32,
    /// GPUZIP_TYPE_*.
    pub r#type: i32,
    /// Number of the field.
    pub field: i32,
    /// -1, or the number of another field of the stream: what is stored is that one minus this
    /// one.
    pub reference: i32,
    /// Extents, n1 fastest.
    pub n1: u64,
    /// Extent.
    pub n2: u64,
    /// Extent.
    pub n3: u64,
    /// The absolute bound that what is stored keeps; 0: none was asked for.
    pub bound: f64,
    /// Bytes of the array.
    pub raw_bytes: u64,
    /// Bytes in the stream, header and padding included.
    pub stored_bytes: u64,
    /// Zero.
    pub reserved: [u64; 4],
}

/// Most bytes that `compress` of a registered codec writes for an array of this shape (`data` is
/// NULL); what is more than the bytes of the array does not count.
pub type gpuzip_codec_max_bytes_t =
    Option<unsafe extern "C" fn(user: *mut c_void, field: *const gpuzip_field_t) -> u64>;

/// Compresses the array, which is host memory, into `to`, at most `capacity` bytes, the result of
/// `max_bytes`, and sets `*bytes`. It keeps `bound`: pointwise, or with `rms` = 1 as the root mean
/// square error. The array must not be changed. Returns 0; or 1 if the array is to be stored as it
/// is; or a negative status, which fails the save.
pub type gpuzip_codec_compress_t = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        field: *const gpuzip_field_t,
        rms: i32,
        bound: f64,
        to: *mut c_void,
        capacity: u64,
        bytes: *mut u64,
    ) -> i32,
>;

/// Fills the array, which is host memory, from what `compress` wrote. Returns 0, or another status,
/// which fails the retrieve.
pub type gpuzip_codec_decompress_t = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        from: *const c_void,
        bytes: u64,
        field: *const gpuzip_field_t,
    ) -> i32,
>;

/// A codec of the application's own. Its functions are called by whatever thread saves and
/// retrieves, several at a time, and must not throw; headers, checksums, constant arrays and
/// differences of time levels are gpuzip's. That the bound is kept is its own promise.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gpuzip_codec_plugin_t {
    /// sizeof(gpuzip_codec_plugin_t).
    pub struct_size: u64,
    /// Its name, copied.
    pub name: *const c_char,
    /// Given to its functions as it is.
    pub user: *mut c_void,
    /// Not NULL.
    pub max_bytes: gpuzip_codec_max_bytes_t,
    /// Not NULL.
    pub compress: gpuzip_codec_compress_t,
    /// Not NULL.
    pub decompress: gpuzip_codec_decompress_t,
    /// Zero.
    pub reserved: [u64; 4],
}

/// Computes u(ts), ..., u(ts_end) from u(ts-1); `ts_end` is `ts` without `range_actions`. `flags`
/// are GPUZIP_FLAG_*, as those of the action. Returns 0, or another number to stop the run.
pub type gpuzip_forward_t =
    Option<unsafe extern "C" fn(user: *mut c_void, ts: i32, ts_end: i32, flags: u32) -> i32>;

/// Does the adjoint of the step ts -> ts+1; u(ts) is live. Called for n-1, ..., 0, each once.
/// `flags` and result as for `gpuzip_forward_t`.
pub type gpuzip_backward_t =
    Option<unsafe extern "C" fn(user: *mut c_void, ts: i32, flags: u32) -> i32>;

/// Says where the state is, for applications that swap buffers: sets `data` of the `nfields`
/// fields, which come as given to the run, to where u(ts) is (`type` GPUZIP_ACTION_SAVE) or is to
/// be put (GPUZIP_ACTION_RESTORE). Result as for `gpuzip_forward_t`.
pub type gpuzip_locate_t = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        r#type: i32,
        ts: i32,
        fields: *mut gpuzip_field_t,
        nfields: u32,
    ) -> i32,
>;

/// Told of every SAVE and RESTORE of u(ts) after it is done; on a GPU after it is enqueued. `flags`
/// and result as for `gpuzip_forward_t`.
pub type gpuzip_observe_t =
    Option<unsafe extern "C" fn(user: *mut c_void, r#type: i32, ts: i32, flags: u32) -> i32>;

/// For `gpuzip_agree`: replaces `*value` by the least that any rank gave, as
/// `MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT64_T, MPI_MIN, communicator)` does. Returns 0, or
/// another number if that failed.
pub type gpuzip_least_t = Option<unsafe extern "C" fn(user: *mut c_void, value: *mut i64) -> i32>;

/// What `gpuzip_run_forward` and `gpuzip_run_reverse` call, in the thread that called them. The
/// functions must not throw or longjmp. They may ask about the session (`gpuzip_stats`,
/// `gpuzip_summary`) and use other sessions; whatever moves this one makes the run fail.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gpuzip_callbacks_t {
    /// sizeof(gpuzip_callbacks_t). A larger one, of a newer header, is accepted if all that it has
    /// beyond this one is zero.
    pub struct_size: u64,
    /// Given to the functions as it is.
    pub user: *mut c_void,
    /// Not NULL.
    pub forward: gpuzip_forward_t,
    /// May be NULL for `gpuzip_run_forward`.
    pub backward: gpuzip_backward_t,
    /// NULL: the state is always in the fields given to the run.
    pub locate: gpuzip_locate_t,
    /// May be NULL.
    pub observe: gpuzip_observe_t,
    /// Zero.
    pub reserved: [u64; 4],
}
