//! The structs and constants of the ABI. Their layouts are frozen: tests/abi/layout.rs holds the
//! offsets of the members.

use std::ffi::{c_char, c_void};

/// The result of a call: 0 is success; negative numbers are errors, whose reason
/// `gpuzip_last_error` returns. Positive numbers are reserved for success with a warning; this
/// version returns none.
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
/// level is not what `shared_levels = 1` requires; or a state differs from what it was first, and `check`
/// is set.
pub const GPUZIP_ERR_VALUES: i32 = -105;
/// The call does not fit the current action. Nothing has changed.
pub const GPUZIP_ERR_STATE: i32 = -201;
/// The handle was never made, or has been given back.
pub const GPUZIP_ERR_HANDLE: i32 = -202;
/// The handle belongs to the process that this one was forked from; or the call needs CUDA, which
/// does not work in a child of a process that has used it. Configurations, schedules and host
/// sessions that the child makes itself work.
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
/// A compressed stream is damaged, or was written by another version.
pub const GPUZIP_ERR_STREAM: i32 = -404;
/// The device failed.
pub const GPUZIP_ERR_DEVICE: i32 = -501;
/// A defect in gpuzip was caught (a panic).
pub const GPUZIP_ERR_PANIC: i32 = -901;
/// An earlier defect made this handle unusable; finalize it.
pub const GPUZIP_ERR_POISONED: i32 = -902;

/// The application computes u(ts) from u(ts-1); with `range_actions`, it goes on to u(ts_end).
pub const GPUZIP_ACTION_FORWARD: i32 = 0;
/// u(ts) is live: the application calls `gpuzip_save`.
pub const GPUZIP_ACTION_SAVE: i32 = 1;
/// The application calls `gpuzip_retrieve`; u(ts) is live afterwards.
pub const GPUZIP_ACTION_RESTORE: i32 = 2;
/// u(ts) is live: the application does the adjoint of the step ts -> ts+1; with `adjoint_every`, the
/// adjoint of the steps ts_end -> ts_end+1, ..., ts -> ts+1, in this order.
pub const GPUZIP_ACTION_BACKWARD: i32 = 3;
/// The shot is over.
pub const GPUZIP_ACTION_TERMINATE: i32 = 4;
/// The schedule cannot go on. No valid schedule contains it.
pub const GPUZIP_ACTION_ERROR: i32 = 5;

/// FORWARD: this step (every step of a range) was computed before in this shot; do not record
/// receivers again.
pub const GPUZIP_FLAG_RECOMPUTE: u32 = 1;
/// BACKWARD: the first one of the reverse sweep.
pub const GPUZIP_FLAG_FIRST_BACKWARD: u32 = 2;
/// RESTORE: no later action needs the snapshot. SAVE: no action will restore the snapshot; online
/// schedules do not say so of a SAVE, since their forward phase does not depend on where it ends.
pub const GPUZIP_FLAG_LAST_USE: u32 = 4;
/// FORWARD: the next action saves the state that this action computes (the last state of a range).
pub const GPUZIP_FLAG_NEXT_IS_SAVE: u32 = 8;

/// Any action: a stop was requested (`gpuzip_request_stop`). The seconds that are left are in the
/// statistics, `stop_left`.
pub const GPUZIP_FLAG_INTERRUPT: u32 = 16;
/// With `zero_copy` and `shared_levels`. SAVE, RESTORE, and a FORWARD with GPUZIP_FLAG_NEXT_IS_SAVE: the
/// memory that the session hands out for the previous time level of the state is that of the state one
/// time step before, and holds it already. Do not write there, not even after GPUZIP_FLAG_LAST_USE.
pub const GPUZIP_FLAG_SHARED_LEVEL: u32 = 32;

/// `gpuzip_persist_due`: no generation is to be written now.
pub const GPUZIP_DUE_NO: i32 = 0;
/// `gpuzip_persist_due`: a generation may be written.
pub const GPUZIP_DUE_YES: i32 = 1;
/// `gpuzip_persist_due`: a stop was requested.
pub const GPUZIP_DUE_STOP: i32 = 2;

/// Replays the recorded schedule in `trace_file_path`.
pub const GPUZIP_ALGORITHM_TRACE: i32 = 0;
/// Revolve: binomial checkpointing (Griewank and Walther 2000).
pub const GPUZIP_ALGORITHM_REVOLVE: i32 = 1;
/// Checkpoints at equal distances; inside each interval, Revolve with the slots that are free.
pub const GPUZIP_ALGORITHM_UNIFORM: i32 = 2;
/// zCut, reconstructed from its description.
pub const GPUZIP_ALGORITHM_ZCUT: i32 = 3;
/// The library chooses the schedule that it predicts to be fastest within the budgets, by
/// simulation with the profile, or with speeds that are typical of the backend.
pub const GPUZIP_ALGORITHM_AUTO: i32 = 4;
/// Checkpoints at equal distances in host memory; inside each interval, Revolve with the slots of
/// the device cache.
pub const GPUZIP_ALGORITHM_TWO_LEVEL: i32 = 5;
/// Saves every state that is needed again.
pub const GPUZIP_ALGORITHM_STORE_ALL: i32 = 6;
/// Nested: Revolve over intervals, of which few starts are stored, in host memory; inside each
/// interval, Revolve with the slots of the device cache. For few host slots.
pub const GPUZIP_ALGORITHM_HREVOLVE: i32 = 8;
/// Online: for a number of steps that is not known before the forward phase ends
/// (`gpuzip_end_forward`). For n <= (s+1)(s+2)/2 steps and s snapshots it takes as few forward steps
/// as Revolve does with n known, and for larger n at most 8 % more (two snapshots: 14 %).
pub const GPUZIP_ALGORITHM_ONLINE: i32 = 9;

/// Clairvoyant replacement: the snapshot whose next use is farthest away leaves the device cache
/// (Belady 1966). The plan has the fewest transfers from host to device that the cache allows, and
/// for every algorithm but `trace` the fewest transfers in both directions together. A recorded
/// schedule may use its snapshots in another order than a stack does, and its plan may then have
/// more write-backs than the fewest.
pub const GPUZIP_POLICY_CLAIRVOYANT: i32 = 0;
/// LRU replacement and the prefetching algorithm PSA, as published for GPUZIP 2.x, for comparison.
pub const GPUZIP_POLICY_LRU: i32 = 1;

/// No codec: raw snapshots.
pub const GPUZIP_COMPRESSOR_NONE: i32 = 0;
/// zfp (Lindstrom 2014) at a fixed rate of `zfp_bit_rate` bits per value; the payload is libzfp's
/// format.
pub const GPUZIP_COMPRESSOR_ZFP: i32 = 1;
/// Bitcomp, NVIDIA's codec in an installed libnvcomp.
pub const GPUZIP_COMPRESSOR_BITCOMP: i32 = 2;
/// cuSZp in its published layout (Huang et al. 2023), within an error bound.
pub const GPUZIP_COMPRESSOR_CUSZP: i32 = 3;
/// Lorenzo prediction (Ibarria et al. 2003) in tiles, within an error bound: the fast one.
pub const GPUZIP_COMPRESSOR_LORENZO: i32 = 4;
/// Cosine transform of tiles, within an error bound: the one with small snapshots.
pub const GPUZIP_COMPRESSOR_DCT: i32 = 5;
/// Scaled half precision: half the bytes of FP32, a quarter of the bytes of FP64. Every value is
/// within 2^-11 (4.9e-4) of its field's maximum; on wavefields the PSNR is 95 to 100 dB.
pub const GPUZIP_COMPRESSOR_FP16: i32 = 6;
/// Blocks of 32 8-bit integers with a common exponent: 3.9 times smaller than FP32. Every value is
/// within 1/127 of its block's maximum, or within 2^-126 (FP64: 2^-1022) if this is larger; on
/// wavefields the PSNR is 65 to 70 dB.
pub const GPUZIP_COMPRESSOR_BFP: i32 = 7;
/// Every bit comes back: Lorenzo prediction (Ibarria et al. 2003) of aligned significands in tiles, on the
/// host only. The size depends on the values.
pub const GPUZIP_COMPRESSOR_LOSSLESS: i32 = 8;
/// The library chooses raw snapshots or one of the codecs that keep an error bound. `error_bound`
/// must be set, and the profile (`profile_path`, `gpuzip_profile_import`) must have measured these
/// codecs with that bound. If it has measured none of them, the library considers lorenzo with the
/// ratio `compression_factor`.
pub const GPUZIP_COMPRESSOR_AUTO: i32 = 15;

/// 32-bit IEEE 754 values.
pub const GPUZIP_TYPE_F32: i32 = 0;
/// 64-bit IEEE 754 values.
pub const GPUZIP_TYPE_F64: i32 = 1;
/// 8-bit integers, signed or not. Values of this type and of the types below are stored unchanged
/// and come back exactly, whatever the codec is. The CUDA backend of this version refuses fields of
/// these types together with a codec.
pub const GPUZIP_TYPE_I8: i32 = 2;
/// 16-bit integers, signed or not.
pub const GPUZIP_TYPE_I16: i32 = 3;
/// 32-bit integers, signed or not.
pub const GPUZIP_TYPE_I32: i32 = 4;
/// 64-bit integers, signed or not.
pub const GPUZIP_TYPE_I64: i32 = 5;
/// Complex values, each two 32-bit IEEE 754 numbers. A codec does not compress them; to have them
/// compressed, declare a GPUZIP_TYPE_F32 field whose n1 and pitches are twice as large.
pub const GPUZIP_TYPE_COMPLEX_F32: i32 = 6;
/// Complex values, each two 64-bit IEEE 754 numbers; otherwise as GPUZIP_TYPE_COMPLEX_F32.
pub const GPUZIP_TYPE_COMPLEX_F64: i32 = 7;
/// Bytes whose meaning only the application knows.
pub const GPUZIP_TYPE_BYTE: i32 = 8;

/// A session: one device of one application.
pub struct gpuzip_t {
    _opaque: [u8; 0],
}

/// The choice of an error bound from the errors of results (`gpuzip_quality_open`).
pub struct gpuzip_quality_t {
    _opaque: [u8; 0],
}

/// A schedule with its current action; several sessions may follow one schedule.
pub struct gpuzip_schedule_t {
    _opaque: [u8; 0],
}

/// One array of the state: n1 x n2 x n3 values, n1 fastest, contiguous or with gaps between its
/// rows and planes.
///
/// Value (i1, i2, i3), each index from 0, is at `data` + (i1 + `pitch2` i2 + `pitch3` i3) values.
/// Only these values belong to the state: values in the gaps (a halo) are neither saved nor
/// compared, and a retrieve does not write them. A snapshot has the size of the n1 n2 n3 values.
/// Example: n1 x n2 x n3 cells in an array of (n1+8) x (n2+8) x (n3+8) cells with a halo of 4 cells
/// have `data` = &array[4][4][4], `pitch2` = n1+8 and `pitch3` = (n1+8)(n2+8).
///
/// In every call, number, extents, types and roles of the fields are those given at init; `data`
/// and the pitches may differ from call to call. Memory that the library hands out (zero copy) and
/// fields that it passes to a registered codec are contiguous. The CUDA backend of this version
/// refuses fields with gaps. On the host a codec works on a contiguous copy of a field with gaps; a
/// session with a codec then takes memory for one more state, which its budgets do not count.
///
/// An array of pointers to rows (`float **u`) is one field if its rows are evenly spaced, as rows
/// allocated in one piece are: `u[1] - u[0]` = `u[2] - u[1]` = ... Then `data` is u[0], and
/// `pitch2` is that distance. Otherwise each evenly spaced block of rows is a field of its own.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct gpuzip_field_t {
    /// The memory of the values, owned by the caller. May be NULL where a call reads the shape
    /// only.
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
    /// Distance, in values, between the first values of consecutive rows: at least n1; 0 stands for
    /// n1 (rows without gaps).
    pub pitch2: u64,
    /// Distance, in values, between the first values of consecutive planes: at least (n2-1)
    /// `pitch2` + n1; 0 stands for n2 times the distance of rows.
    pub pitch3: u64,
    /// Reserved: must be zero.
    pub reserved: [u64; 2],
}

/// What the application must do next.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct gpuzip_action_t {
    /// GPUZIP_ACTION_*.
    pub r#type: i32,
    /// The time step of the state that the action produces or needs, 0..n; for a range of FORWARDs
    /// the first time step.
    pub ts: i32,
    /// The last time step that the action covers. FORWARD with `range_actions`: u(ts), ..., u(ts_end)
    /// are computed. BACKWARD with `adjoint_every` = k > 1: the adjoint of the step t -> t+1 is done
    /// for t = ts_end, ..., ts, in this order; u(ts) is live, and `ts_end` = min(ts+k, n) - 1. For
    /// example, n = 10 and k = 4 give BACKWARD 8 to 9, 4 to 7, 0 to 3. Otherwise equal to `ts`.
    pub ts_end: i32,
    /// GPUZIP_FLAG_*, combined with bitwise or.
    pub flags: u32,
    /// Number of this action since setup; the first action is 0.
    pub it: i64,
    /// Reserved; the library writes zero.
    pub reserved: [u64; 2],
}

/// The configuration. Block 1 has GPUZIP 2.x's fields in their order and with their numbers, and
/// zero means what it means in GPUZIP 2.x. Block 2, from `struct_size` on, has gpuzip's own fields,
/// and zero means the default. `gpuzip_config_init` fills both blocks with gpuzip's defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gpuzip_config_t {
    /// GPUZIP_ALGORITHM_*.
    pub checkpointing_algorithm: i32,
    /// The number of snapshots that the schedule may store at a time; it is an error if the budgets
    /// hold fewer. 0: as many as the budgets allow; without budgets as many as the algorithm needs
    /// (Revolve: GPUZIP's number, see `snapshot_rule`), and for `auto` in `gpuzip_init` as many as
    /// half of the free memory holds (see `device_budget`). Uniform, two-level and hrevolve need
    /// this number or a budget; store-all keeps every state, and warns if that is more.
    pub checkpointing_snaps: i32,
    /// Snapshots for which the device cache has room: 0 no cache, from 2 on cache and prefetch. With
    /// `device_budget`, the most snapshots.
    pub cache_capacity: i32,
    /// GPUZIP_COMPRESSOR_*; 0: none.
    pub compressor: i32,
    /// The least severe log lines that are written: 0 DEBUG, 1 INFO, 2 WARN, 3 ERROR. The level
    /// holds for the whole process.
    pub log_level: i32,
    /// 1: the library appends one CSV line per shot to gpuzip_performance.csv, or to the file that
    /// GPUZIP_PERFORMANCE_LOG names. Several processes may share the file. A line is written whole
    /// or not at all; if it is not written, a warning says why.
    pub enable_performance_log: i32,
    /// 1: the library logs the compression ratio of every snapshot, at level INFO.
    pub enable_compression_rate_log: i32,
    /// The compression ratio (raw bytes over stored bytes) that budgets are planned with; 0 or 1:
    /// none. A snapshot takes as many bytes as it needs. A snapshot that finds no room in the
    /// device cache stays in host memory; if it does not fit `host_budget`, its save is an error.
    pub compression_factor: f32,
    /// The path of the recorded schedule for GPUZIP_ALGORITHM_TRACE.
    pub trace_file_path: *mut c_char,
    /// Accepted for compatibility with GPUZIP 2.x and without effect; `log_level` decides.
    pub revolve_log_level: i32,
    /// zfp: bits per value, 1 to 32 (FP64: to 64); 0 stands for 8.
    pub zfp_bit_rate: i32,
    /// cuSZp without `error_bound`: the bound relative to the range of the values, as in GPUZIP
    /// 2.x.
    pub cuszp_err_bound: f64,
    /// "float" or "double": the type of fields where a call gives only extents (in the GPUZIP 2.x
    /// headers). NULL: float.
    pub float_kind: *const c_char,
    /// Bitcomp without `error_bound`: its quantization step delta, twice the error: 0 a fraction of
    /// the maximum, 1 a fraction of the width of mean +- a number of standard deviations, 2
    /// `bitcomp_delta`.
    pub bitcomp_delta_config: i32,
    /// Bitcomp: the fraction for `bitcomp_delta_config` 0 and 1, between 0 and 1.
    pub bitcomp_range_fraction: f64,
    /// Bitcomp: the standard deviations on either side of the mean, for `bitcomp_delta_config` 1.
    pub bitcomp_num_sigma: f64,
    /// Bitcomp: the delta, for `bitcomp_delta_config` 2.
    pub bitcomp_delta: f64,
    /// Bitcomp: 0 the default algorithm, 1 the one for arrays with many zeros (sparse).
    pub bitcomp_algorithm: i32,
    /// sizeof(gpuzip_config_t), set by `gpuzip_config_init` and, in C++, by the declaration. 0: the
    /// library reads block 1 only. A larger struct, of a newer header, is accepted if the bytes
    /// beyond the library's struct are zero.
    pub struct_size: u64,
    /// Where snapshots are kept: 0 where the fields are (device or managed memory: CUDA), 1 host, 2
    /// CUDA; 2 is an error at init where there is no driver or no device.
    ///
    /// With 0 and fields whose data is NULL at init, the backend is the host if this machine has no
    /// CUDA driver or device. Otherwise the first save decides: `auto` plans for CUDA at first, and
    /// makes a new plan at the first save if the fields are in host memory, unless the application
    /// has seen the schedule by then (through a peek, a summary or a fingerprint). The library does
    /// not start CUDA in this process before the fields show that it is needed.
    pub backend: i32,
    /// 0: the device of the fields, or else the current device; k+1: CUDA device k. Must be 0 on
    /// the host backend.
    pub device: i32,
    /// Bytes of device memory for all that a session takes there, the device cache included; 0:
    /// `cache_capacity` decides. On the host backend main memory is the device memory too: this is
    /// the budget that a CPU code sets.
    ///
    /// If `device_budget`, `host_budget`, `checkpointing_snaps` and `snapshot_rule` are all 0,
    /// algorithm `auto` sets both budgets itself in `gpuzip_init` and `gpuzip_memory_required`: to
    /// at most half of the memory that is free at that time, and never to more than saving every
    /// state takes. Free host memory is the least of MemAvailable and what control groups,
    /// RLIMIT_AS and RLIMIT_DATA leave, divided by the number of ranks on this node where a
    /// launcher's environment variable gives it. Free GPU memory is what the driver says; ranks
    /// that share a GPU must set budgets. If `cache_capacity` is set, `auto` sets `host_budget`
    /// only. If the half holds fewer snapshots than GPUZIP's number (`snapshot_rule` 1), that
    /// number decides instead. A log line at level INFO and `gpuzip_summary` report these budgets.
    /// Ranks that must follow one schedule set budgets, since the free memory differs between
    /// ranks. Sessions made by `gpuzip_attach` and sessions with policy lru get no such budgets.
    pub device_budget: u64,
    /// Bytes of host memory for snapshots; 0: as many as the plan needs, or for `auto` as
    /// `device_budget` says.
    pub host_budget: u64,
    /// Most bytes of disk that snapshots take, in the folders of `disk_path`. Snapshots go there when
    /// `host_budget`, which must be set, too, has no room for them; four snapshots of `host_budget`
    /// are then buffers of the disk. 0: no snapshot goes to disk.
    pub disk_budget: u64,
    /// GPUZIP_POLICY_*.
    pub policy: i32,
    /// For codecs that keep an error bound (cuSZp, lorenzo, dct, Bitcomp), what `error_bound` is: 0
    /// relative to the maximum of each field in each snapshot, 1 absolute, 2 relative to the
    /// field's range, 3 a target PSNR in dB. Of a declared pair of time levels (`role`) the bound
    /// holds for the later level and for the difference of the two levels, each relative to its own
    /// size.
    pub error_bound_mode: i32,
    /// The error bound, kept for every finite value (in mode 3, kept by the field as a whole); 0
    /// stands for 1e-3 in modes 0 and 2.
    pub error_bound: f64,
    /// What a codec does with NaN and infinities: 0 stores them exactly, 1 the save is
    /// GPUZIP_ERR_VALUES.
    pub nonfinite: i32,
    /// The host runs at most this number of actions ahead of the GPU: before an action is handed
    /// out, the GPU has completed all actions that are this many or more before it, on the stream
    /// of the last save or retrieve. Before the first save or retrieve of a shot the library does
    /// not wait. 0 stands for 64.
    pub max_in_flight: i32,
    /// 1: consecutive FORWARDs are one action, from `ts` to `ts_end`. Statistics and leads count
    /// its time steps one by one.
    pub range_actions: i32,
    /// Rule for the number of snapshots: 0 `checkpointing_snaps` or the budgets; 1 GPUZIP's
    /// `adjust`, the least s with C(2s, s) >= n for n time steps.
    pub snapshot_rule: i32,
    /// zCut: states per chunk; two-level and hrevolve: states per interval; 0: the library chooses.
    pub schedule_chunk: i32,
    /// Uniform: 0 slots that are free work inside the interval; 1 as published for GPUZIP 2.x, with
    /// a number of forward steps quadratic in the interval.
    pub uniform_reading: i32,
    /// 1: the application works in memory of the session (`gpuzip_save_begin`,
    /// `gpuzip_retrieve_acquire`), so that the library does not copy the fields: in the slots of the
    /// cache or, if snapshots are compressed, the algorithm is online, or the cache has room for fewer
    /// than two snapshots, in device memory for two more states, within `device_budget` if that is set.
    /// Policy clairvoyant only.
    pub zero_copy: i32,
    /// Host backend: bandwidth of a simulated link, in bytes per second in each direction; 0: no
    /// simulated link.
    pub link_bandwidth: f64,
    /// The file of a profile, which `auto` and predictions use. It is read if it exists, and
    /// written by a session after `gpuzip_autotune`; a reader finds the whole old profile or the
    /// whole new one. NULL: none.
    pub profile_path: *const c_char,
    /// The file for a timeline in Chrome's trace format, for ui.perfetto.dev and the command
    /// `gpuzip report`. NULL or empty: no timeline. In the name, `%r` is the MPI rank, `%p` the
    /// process number and `%%` a percent sign. Without `%r` and `%p` the library inserts before the
    /// extension: `-r<rank>` where a launcher has started several ranks, `-p<process>` in a forked
    /// child, and `-<k>` for the k-th session of the process, k from 2 on, or the next free k if
    /// another process is writing that file (and holds its lock, flock). An older file is replaced.
    /// The library writes the file at the end of every shot, before TERMINATE is handed out. If a
    /// part cannot be written, a warning is logged, and the file ends before that part as valid
    /// JSON.
    pub trace_out: *const c_char,
    /// The folder for restart files, which `gpuzip_persist_open` opens. NULL: none.
    pub persist_dir: *const c_char,
    /// Share of the run time that restart files may take (`gpuzip_persist_due`), at most 1: the
    /// application's wait, and the processor time of the thread that writes the files; 0: 0.035.
    pub persist_overhead: f64,
    /// Seconds that a requested stop may take until the last generation is on the disk. The number holds
    /// for the whole process; 0: 1.5.
    pub stop_budget_s: f64,
    /// 1: snapshots of consecutive states may share a time level, which is then stored once: the
    /// previous time level (`role`) of u(t+1) is a field of u(t). A save that shares one compares the
    /// checksums of the two, except under `zero_copy`, where both are the same memory
    /// (GPUZIP_FLAG_SHARED_LEVEL). If the application changed the level after the step, the save fails
    /// with GPUZIP_ERR_VALUES (on a GPU, the call that would give TERMINATE fails), and the shot cannot
    /// continue. Not with policy lru.
    pub shared_levels: i32,
    /// Mixed storage: snapshots that stay in device memory are raw, and those that go to the host are
    /// compressed. 0: with codec `auto` and without `zero_copy`, where the predicted time is shorter;
    /// a codec that is named is used for all snapshots. 1: wherever snapshots are compressed; needs a
    /// codec and `device_budget`. With `zero_copy` the application must then not write to memory from
    /// `gpuzip_retrieve_acquire`, except after GPUZIP_FLAG_LAST_USE. 2: never. Not with policy lru or
    /// algorithm online.
    pub mixed_storage: i32,
    /// k > 1: the adjoint needs u(0), u(k), u(2k), ... only, as an imaging condition does that is
    /// applied every k-th time step. A BACKWARD then stands for k steps, from `ts`, a multiple of k,
    /// to `ts_end`, and schedules, `checkpointing_snaps` and `schedule_chunk` count these k steps
    /// as one. Snapshots then share no time level. 0 and 1: one step per BACKWARD.
    pub adjoint_every: i32,
    /// In which restored states the difference of a field and its previous time level (`role`) keeps
    /// a bound of its own, where both come from a codec that keeps a bound. 0: in the states that a
    /// FORWARD starts from; in other states the two levels keep their bounds, and the difference may
    /// be wrong by the sum of these. 1: in all states, for a BACKWARD that forms this difference.
    pub difference_bound: i32,
    /// Without effect: the place of the former `huge_pages`. A value other than 0 gives a warning.
    pub reserved_huge_pages: i32,
    /// Restart files that another user could have made or changed. 0: a folder or a generation of
    /// another user than this process's and root is used, with a warning. 1: `gpuzip_persist_open`
    /// fails if the folder, or one of its files that are read, belongs to another user or if its mode
    /// lets others write to it.
    pub strict: i32,
    /// The folders of the snapshots on disk, separated by colons; every snapshot is striped over all
    /// of them, so name one on each disk. The files in them have no names and are gone when the
    /// session ends, also when the process is killed. NULL or empty: the folder that the environment
    /// variable TMPDIR names, or else /var/tmp.
    pub disk_path: *const c_char,
    /// Bytes of device memory that the library leaves to the application: the device cache takes
    /// only what is free beside them when the session opens its device. If `device_budget` or
    /// `cache_capacity` ask for more, the cache gets fewer slots, and a warning says so. What a
    /// session needs beside the cache (spare slots, work space of a codec) it takes all the same. 0:
    /// the larger of 512 MiB and 2 % of the device's memory, at most an eighth of it; 1: none to
    /// speak of. Without effect on the host backend.
    pub device_reserve: u64,
    /// Host backend: threads that compress and decompress snapshots while the application computes. States are
    /// then raw in a cache of some of the budget, and compressed outside. 1 to 64: so many at a time, which share
    /// the work on each state if the compressor is dct; with others there is one for each direction. A thread
    /// of the application that waits for them helps. 0: as many as the profile has idle processors
    /// (`idle_processors`), and none without a profile. -1: the calling thread codes. Snapshots are coded so
    /// where the predicted time is
    /// shorter. The threads run on the processors of the thread that opens the session's device, in
    /// `gpuzip_init` or at the first save. Without effect on a GPU, with policy lru, algorithm online or a
    /// `mixed_storage` that is set.
    pub codec_threads: i32,
    /// Host backend, `compressor` dct, `checkpointing_algorithm` store-all or auto: 1: where all states are kept,
    /// the snapshot of a state holds the difference to what the next two states predict, and is decoded after
    /// them. With `shared_levels` snapshots take several times fewer bytes; `compression_factor` says what to
    /// plan with. With auto, schedules that keep fewer states compete, whose snapshots are coded by
    /// themselves and planned with the ratio of a profile. 0: every snapshot is coded by itself.
    pub sequences: i32,
    /// The error of the application's result, from which `gpuzip_quality_open` chooses `error_bound`:
    /// "gradient:1e-3" for a relative error (root of the sum of squares) of at most 1e-3, "image:60dB" for
    /// a PSNR of at least 60 dB relative to the range. Needs a codec that keeps an error bound.
    /// `error_bound`, if set, is then the loosest bound that may be chosen. A session with this text is
    /// refused: only the application can measure its result. NULL or empty: not used.
    pub quality: *const c_char,
    /// Host backend, codecs that keep an error bound: the value that stands where a field has none, such as the
    /// land of an ocean model: "nan", or a number, which is converted to the type of each field ("1e20", "0",
    /// "-9999"). Values with exactly its bits are masked (with "nan", those with the bits of the first NaN of the
    /// array; "0" is not -0): they come back with the same bits, do not count for `error_bound`, and cost little.
    /// Write all digits where fields are FP64. NULL or empty: not used.
    pub fill_value: *const c_char,
    /// k > 1: the plan is for k reverse sweeps over the states of one forward sweep: after TERMINATE
    /// `gpuzip_rewind` begins the next one, which finds snapshots that the sweep before has left for it. A
    /// shot may end after fewer sweeps. Not with algorithm online or `sequences`. 0 and 1: one sweep. A trace has
    /// one sweep, which is repeated, or so many.
    pub sweeps: i32,
    /// k > 0: finds states that are not complete. The schedule computes every state again, k times from the
    /// snapshot of the state before, and a save compares it, bit for bit, with what it was first: if it
    /// differs, the save returns GPUZIP_ERR_VALUES, and the text names the field, the state and the first
    /// value. With 3 or more, the text also says whether the step is deterministic. Snapshots are raw, whatever
    /// `compressor` says. At most 9; needs a known number of steps. Environment: GPUZIP_CHECK, where this is 0,
    /// also for a program that loads no configuration.
    pub check: i32,
    /// A second folder for restart files, which outlives the node, such as one of a parallel file system.
    /// Generations of `persist_dir`, then a folder of the node, are copied there in the background: by the
    /// command `gpuzip flushd`, where it runs for `persist_dir`, or else by a thread of the session. A
    /// restart takes the newest generation of which every rank can read its part in one of the two. NULL or
    /// empty: none.
    pub persist_shared_dir: *const c_char,
    /// k > 1: generations of restart files are incremental, but for those whose number is a multiple of k: an
    /// array or a snapshot that an older generation holds unchanged is referred to and not written again. The
    /// older file stays as long as one refers to it, and what is damaged in it is damaged in all of these. When
    /// the files since the last whole one have more bytes than two whole ones, the next one is whole, too. At
    /// most 100; 0 and 1: every generation holds all that a restart needs.
    pub persist_whole_every: i32,
    /// Reserved: must be zero.
    pub reserved0: i32,
    /// The stages that generations of restart files pass beside being written, read back and, with
    /// `persist_shared_dir`, copied: names with commas or spaces between them. `compress`: the copies are packed
    /// without loss, by those who copy; all other names are of `gpuzip_persist_stage_register`. NULL or empty: all
    /// stages that are registered.
    pub persist_stages: *const c_char,
    /// Reserved: must be zero.
    pub reserved: [u64; 4],
}

/// What `gpuzip_quality_open` has begun, as told by `gpuzip_quality_info`. Errors are in the unit of the
/// key `quality`: relative errors of gradients, PSNRs of images in dB.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct gpuzip_quality_info_t {
    /// sizeof(gpuzip_quality_info_t), set by the caller.
    pub struct_size: u64,
    /// The error that is asked for: the largest one, or the least PSNR.
    pub asked: f64,
    /// The `error_bound` that is chosen, in the unit of `error_bound_mode`; 0: none yet.
    pub error_bound: f64,
    /// The error of the result with `error_bound`, in the shot that was measured last.
    pub chosen_error: f64,
    /// The error of the last run with a codec whose result was judged; infinite for one with NaN or infinities,
    /// in dB -infinity, and for equal results in dB infinity.
    pub last_error: f64,
    /// The field of the result that had `last_error`: the one with the largest error.
    pub field: u32,
    /// Runs whose results were judged, over all shots.
    pub runs: u32,
    /// Shots that were measured: the first one, and those of `gpuzip_quality_check`.
    pub shots: u32,
    /// Reserved; the library writes zero.
    pub reserved0: u32,
    /// Reserved; the library writes zero.
    pub reserved: [u64; 4],
}

/// Counts and times of one session since its last setup.
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
    /// Time steps of BACKWARD actions.
    pub backward_steps: u64,
    /// Restores found in the device cache without a transfer.
    pub hits: u64,
    /// Restores that needed a transfer: restores = hits + misses.
    pub misses: u64,
    /// Misses whose transfer was issued ahead of the restore.
    pub prefetches: u64,
    /// Prefetches that were not complete when their restore came.
    pub late_prefetches: u64,
    /// Transfers from host to device memory.
    pub h2d: u64,
    /// Transfers from device to host memory.
    pub d2h: u64,
    /// Bytes from host to device memory.
    pub h2d_bytes: u64,
    /// Bytes from device to host memory.
    pub d2h_bytes: u64,
    /// Bytes of snapshots written to and read from disk.
    pub disk_bytes: u64,
    /// Snapshots that were never written back to the host: saves = d2h + write_backs_avoided.
    pub write_backs_avoided: u64,
    /// Bytes of the fields that were saved, before compression.
    pub raw_bytes: u64,
    /// Bytes of the snapshots of these fields, after compression.
    pub stored_bytes: u64,
    /// Largest device memory of the session, in bytes.
    pub peak_device_bytes: u64,
    /// Largest host memory of the session, in bytes.
    pub peak_host_bytes: u64,
    /// Seconds of the application's FORWARD actions, measured on the host.
    pub forward: f64,
    /// Seconds of the application's BACKWARD actions, measured on the host.
    pub backward: f64,
    /// Seconds that the host spent in saves.
    pub save: f64,
    /// Seconds that the host spent in retrieves.
    pub restore: f64,
    /// Seconds of compression, those of threads that code (`codec_threads`) included; on a GPU, seconds of the application's stream, for the compressions
    /// that have completed.
    pub compress: f64,
    /// Seconds of decompression, those of threads that code included; on a GPU, seconds of the application's stream, for the
    /// decompressions that have completed.
    pub decompress: f64,
    /// Seconds that the application's stream spent in saves and retrieves; on a GPU, for those that
    /// have completed.
    pub stall: f64,
    /// Seconds that the host waited for the GPU because it was `max_in_flight` actions ahead.
    pub run_ahead_wait: f64,
    /// Generations of restart files that the session has written, over all shots.
    pub generations: u64,
    /// Bytes of these generations.
    pub persist_bytes: u64,
    /// Seconds that the application has waited for these generations.
    pub persist: f64,
    /// Seconds that are left of a requested stop, negative when the time is over; 0 without a request.
    pub stop_left: f64,
    /// Snapshots read from disk.
    pub disk_reads: u64,
    /// Snapshots written to disk.
    pub disk_writes: u64,
    /// Bytes of host memory for snapshots that the system did not let a GPU's driver page-lock: copies
    /// from and to them are slower, and block the host. 0: all that was wanted is page-locked, or the
    /// session is on the host backend.
    pub pageable_bytes: u64,
    /// Bytes of restart files that were not written, because an older generation holds them
    /// (`persist_whole_every`).
    pub persist_held_bytes: u64,
}

/// The numbers of a schedule and, for a session, of its plan and its memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct gpuzip_summary_t {
    /// sizeof(gpuzip_summary_t), set by the caller.
    pub struct_size: u64,
    /// The algorithm that was chosen: GPUZIP_ALGORITHM_*, never AUTO.
    pub algorithm: i32,
    /// GPUZIP_POLICY_*.
    pub policy: i32,
    /// Time steps, n.
    pub steps: i32,
    /// Snapshots that the schedule may store at a time.
    pub snapshots: i32,
    /// Slots of the device cache.
    pub cache: i32,
    /// States per chunk or interval, of the states that may be stored (with `adjoint_every`, every
    /// k-th state); 0 if the algorithm has none.
    pub chunk: i32,
    /// Time steps of FORWARD actions.
    pub forward_steps: u64,
    /// SAVE actions.
    pub saves: u64,
    /// RESTORE actions.
    pub restores: u64,
    /// Time steps of BACKWARD actions.
    pub backward_steps: u64,
    /// Most snapshots that the schedule stores at a time.
    pub max_live: u64,
    /// All actions, TERMINATE included; a range of FORWARDs or of backward steps counts as one
    /// action.
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
    /// Least lead: forward and backward steps between the issue of a prefetch and the restore that
    /// needs it; 0 without prefetches. With `adjoint_every` = k a shorter last BACKWARD counts as k.
    pub min_lead: u64,
    /// Mean lead, in forward and backward steps.
    pub mean_lead: f64,
    /// Bytes of one snapshot.
    pub slot_bytes: u64,
    /// Bytes of device memory: the device cache, the two states that `zero_copy` may need beside it,
    /// and the buffers of a codec's kernels.
    pub device_bytes: u64,
    /// Bytes of host memory for the snapshots, with the buffers of the disk.
    pub host_bytes: u64,
    /// The codec that was chosen: GPUZIP_COMPRESSOR_*, never AUTO; 0 for a schedule without a
    /// session.
    pub compressor: i32,
    /// Device slots that hold raw states: with mixed storage (`mixed_storage`) some of them, and the
    /// others hold compressed snapshots; all of them where threads code (`codec_threads`). 0 if all
    /// snapshots are stored in the same way.
    pub raw_slots: i32,
    /// The `device_budget` of the plan in bytes, as configured, or as algorithm `auto` set it from
    /// the free memory; 0: none.
    pub device_budget: u64,
    /// The `host_budget` of the plan in bytes, as configured, or as algorithm `auto` set it from
    /// the free memory; 0: none.
    pub host_budget: u64,
    /// The predicted time of a shot in seconds, by the profile, or else by speeds that are typical of
    /// the backend; 0 for a schedule without a session, for policy lru, and as long as the number of
    /// steps is unknown.
    pub predicted_s: f64,
    /// A lower bound of the predicted time in seconds: no nested schedule whose snapshots are stored
    /// as this plan stores them is faster within the same slots. The plan is at most
    /// `predicted_s / bound_s` times slower than the best one. `gpuzip plan --thorough` finds a
    /// larger bound of the same kind for long problems. 0 where `predicted_s` is 0.
    pub bound_s: f64,
    /// Bytes of disk for the snapshots.
    pub disk_bytes: u64,
    /// Reserved; the library writes zero.
    pub reserved: [u64; 2],
}

/// The content of a profile. Times are for a state of `state_bytes` bytes; GB/s are 1e9 bytes per
/// second, for a codec of raw bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct gpuzip_profile_info_t {
    /// sizeof(gpuzip_profile_info_t), set by the caller.
    pub struct_size: u64,
    /// Bytes of a state in the measurement; 0: the times hold for states of any size.
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
    /// GB/s of reading snapshots from disk, assumed unless the measured session had a disk.
    pub disk_read_gbs: f64,
    /// GB/s of writing snapshots to disk, assumed unless the measured session had a disk.
    pub disk_write_gbs: f64,
    /// The backend of the measurement: 1 host, 2 CUDA; 0: any.
    pub backend: i32,
    /// Number of codecs in the profile.
    pub codecs: u32,
    /// GPUZIP_COMPRESSOR_* of codec number `index` of the call; this member and those down to
    /// `worst_ratio` are 0 if the profile has no such codec.
    pub compressor: i32,
    /// `error_bound_mode` with which that codec was measured.
    pub error_bound_mode: i32,
    /// `error_bound` with which that codec was measured; 0 if the codec keeps no bound.
    pub error_bound: f64,
    /// GB/s of compression.
    pub compress_gbs: f64,
    /// GB/s of decompression.
    pub decompress_gbs: f64,
    /// Compression ratio, raw bytes over stored bytes, of all measured states together.
    pub ratio: f64,
    /// Compression ratio of the state that compressed worst.
    pub worst_ratio: f64,
    /// GB/s of both directions of the link together while snapshots move both ways; 0: not
    /// measured, and each direction is then as fast as alone.
    pub both_gbs: f64,
    /// Host backend: processors that this process may use (affinity, control groups, ranks on this node)
    /// and that the steps left idle, on average; 0: none, or not measured.
    pub idle_processors: f64,
    /// 1 if codec number `index` was measured on snapshots in a sequence (key `sequences`), else 0.
    pub sequences: i32,
    /// Reserved; the library writes zero.
    pub reserved0: i32,
    /// Reserved; the library writes zero.
    pub reserved: [u64; 1],
}

/// Receives log lines. The function must not throw, longjmp, fork or call gpuzip. Any thread may
/// call it, also in a forked child, which inherits it. `level`: 0 DEBUG, 1 INFO, 2 WARN, 3 ERROR.
/// `message` is valid during the call only. `user` is the pointer given at registration.
pub type gpuzip_log_callback_t =
    Option<unsafe extern "C" fn(level: i32, message: *const c_char, user: *mut c_void)>;

/// Describes one array of a compressed stream. Set `struct_size` to sizeof(gpuzip_codec_info_t)
/// before the call.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct gpuzip_codec_info_t {
    /// sizeof(gpuzip_codec_info_t), set by the caller.
    pub struct_size: u64,
    /// Number of arrays in the stream.
    pub arrays: u32,
    /// GPUZIP_COMPRESSOR_* of the array, or the number of a registered codec.
    pub compressor: i32,
    /// How the array is stored: 0 unchanged, 1 compressed, 2 as one value that all elements have; with a
    /// mask the elements that are not masked.
    pub content: i32,
    /// GPUZIP_TYPE_*.
    pub r#type: i32,
    /// Number of the field that the array is, from 0.
    pub field: i32,
    /// -1: the field itself is stored. From 0 on, the number of another field of the stream: that
    /// field minus this field is stored.
    pub reference: i32,
    /// Extent of the fastest dimension, in values.
    pub n1: u64,
    /// Extent of the second dimension, in values.
    pub n2: u64,
    /// Extent of the slowest dimension, in values.
    pub n3: u64,
    /// Absolute error bound of the stored values; 0: none was asked for.
    pub bound: f64,
    /// Bytes of the array before compression.
    pub raw_bytes: u64,
    /// Bytes of the array in the stream, with its mask, headers and padding.
    pub stored_bytes: u64,
    /// Reserved; the library writes zero.
    pub reserved: [u64; 4],
}

/// What `gpuzip_codec_encode` or `gpuzip_codec_decode` came to. The device writes it behind the other work
/// of the call on the call's stream; until then its contents are undefined.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct gpuzip_codec_result_t {
    /// Size in bytes of the compressed stream that was written or read; 0 after an error.
    pub bytes: u64,
    /// GPUZIP_OK; GPUZIP_ERR_VALUES: a field to encode holds NaN or infinities and `nonfinite` is 1, and
    /// nothing was written; GPUZIP_ERR_ARGUMENT: a registered codec failed to encode a field, or told more bytes
    /// than it has room for; GPUZIP_ERR_STREAM: the stream to decode is damaged or of another codec, and the
    /// values of the fields are undefined.
    pub status: i32,
    /// After an error the number of the field, from 0.
    pub field: i32,
    /// After GPUZIP_ERR_VALUES the number of NaNs and infinities in that field.
    pub count: u64,
    /// Reserved; the library writes zero.
    pub reserved: u64,
}

/// Returns the most bytes that `compress` of a registered codec writes for an array of this shape;
/// `data` of `field` is NULL. The library uses at most the bytes of the array itself.
pub type gpuzip_codec_max_bytes_t =
    Option<unsafe extern "C" fn(user: *mut c_void, field: *const gpuzip_field_t) -> u64>;

/// Compresses the array of `field`, which is in host memory, into `to` and sets `*bytes` to the
/// number of bytes written. `capacity` is the room at `to` in bytes, as `max_bytes` returned it.
/// The result keeps `bound`: for every value, or with `rms` = 1 as root mean square error. The
/// array must not be changed. Returns 0 on success, 1 if the array is to be stored uncompressed, or
/// a negative status, which makes the save fail.
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

/// Decompresses what `compress` wrote, `bytes` bytes at `from`, into the array of `field`, which is
/// in host memory. Returns 0 on success, or another status, which makes the retrieve fail.
pub type gpuzip_codec_decompress_t = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        from: *const c_void,
        bytes: u64,
        field: *const gpuzip_field_t,
    ) -> i32,
>;

/// What the library and the functions for device memory of a registered codec tell one another of one array,
/// in device memory: only kernels and copies on the stream of the call may use it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct gpuzip_codec_job_t {
    /// Of `device_compress`: the error bound to keep, as `bound` of `compress`.
    pub bound: f64,
    /// Number of bytes: `device_compress` sets how many it wrote; for `device_decompress` how many there are.
    pub bytes: u64,
    /// 1: there is an array to code. 0: there is none; the functions may do their work or leave it, and the
    /// library uses nothing of it.
    pub go: i32,
    /// Set by the functions to what `compress` or `decompress` would return, or left at 0: success. An
    /// error is one of the field: it fails the save or the retrieve, or goes to `gpuzip_codec_result_t`.
    pub status: i32,
    /// Reserved; the library writes zero.
    pub reserved: u64,
}

/// Returns the bytes of device memory that `device_compress` and `device_decompress` of a registered codec
/// need for themselves, for an array of this shape; `data` of `field` is NULL. Always the same for a shape.
pub type gpuzip_codec_device_work_t =
    Option<unsafe extern "C" fn(user: *mut c_void, field: *const gpuzip_field_t) -> u64>;

/// Enqueues on `stream`, a `cudaStream_t`, what `compress` does, for an array without gaps in device memory.
/// `to` has room for `capacity` bytes, as `max_bytes` returned it, and `work` is the memory of `device_work`;
/// both begin at multiples of 256 and hold anything. The kernels read `job->bound`, and set `job->bytes`
/// (or `job->status`). They should write the bytes that `compress` writes. Returns 0, or another number if the
/// work could not be enqueued, which makes the call fail.
pub type gpuzip_codec_device_compress_t = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        field: *const gpuzip_field_t,
        rms: i32,
        to: *mut c_void,
        capacity: u64,
        job: *mut gpuzip_codec_job_t,
        work: *mut c_void,
        stream: *mut c_void,
    ) -> i32,
>;

/// Enqueues on `stream` what `decompress` does, for an array without gaps in device memory: decompresses
/// the first `job->bytes` bytes at `from`, where `capacity` bytes may be read. `work` and result as for
/// `device_compress`.
pub type gpuzip_codec_device_decompress_t = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        from: *const c_void,
        capacity: u64,
        field: *const gpuzip_field_t,
        job: *mut gpuzip_codec_job_t,
        work: *mut c_void,
        stream: *mut c_void,
    ) -> i32,
>;

/// A codec of the application. The library calls its functions from any thread that saves or
/// retrieves, from several threads at a time; the functions must not throw. A call that they make on
/// a session or schedule, or on device memory, returns GPUZIP_ERR_STATE. The library adds
/// headers and checksums, and handles constant arrays and differences of time levels itself. It
/// does not check that the codec keeps the error bound.
///
/// With `device_compress` and `device_decompress` the codec also codes FP32 and FP64 in device memory: in sessions
/// on CUDA, and for `gpuzip_codec_encode` and `gpuzip_codec_decode`. These functions enqueue their work
/// on the stream that they get, in the device's primary context, which is current, and do not wait for it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gpuzip_codec_plugin_t {
    /// sizeof(gpuzip_codec_plugin_t), set by the caller.
    pub struct_size: u64,
    /// Name of the codec; copied.
    pub name: *const c_char,
    /// Passed to the functions unchanged.
    pub user: *mut c_void,
    /// Bounds the compressed size. Not NULL.
    pub max_bytes: gpuzip_codec_max_bytes_t,
    /// Compresses an array. Not NULL.
    pub compress: gpuzip_codec_compress_t,
    /// Decompresses an array. Not NULL.
    pub decompress: gpuzip_codec_decompress_t,
    /// Compresses an array in device memory, or NULL: the codec is one of the host.
    pub device_compress: gpuzip_codec_device_compress_t,
    /// Decompresses an array in device memory. NULL if `device_compress` is, and only then.
    pub device_decompress: gpuzip_codec_device_decompress_t,
    /// Tells their work space, or NULL: they need none.
    pub device_work: gpuzip_codec_device_work_t,
    /// Reserved: must be zero.
    pub reserved: u64,
}

/// Computes u(ts), ..., u(ts_end) from u(ts-1); `ts_end` is `ts` without `range_actions`. `flags`
/// are the action's GPUZIP_FLAG_*. Returns 0, or another number to stop the run.
pub type gpuzip_forward_t =
    Option<unsafe extern "C" fn(user: *mut c_void, ts: i32, ts_end: i32, flags: u32) -> i32>;

/// Does the adjoint of the step ts -> ts+1, while u(ts) is live. Called once for each ts = n-1,
/// ..., 0. `flags` and result as for `gpuzip_forward_t`.
pub type gpuzip_backward_t =
    Option<unsafe extern "C" fn(user: *mut c_void, ts: i32, flags: u32) -> i32>;

/// Does the adjoint of the step t -> t+1 for t = ts_end, ..., ts, in this order, while u(ts) is live:
/// `backward` for sessions with `adjoint_every` > 1. `flags` and result as for `gpuzip_forward_t`.
pub type gpuzip_backward_range_t =
    Option<unsafe extern "C" fn(user: *mut c_void, ts: i32, ts_end: i32, flags: u32) -> i32>;

/// Tells where the state is, for applications that swap buffers. The function gets the `nfields`
/// fields that were given to the run and sets their `data` to where u(ts) is (`type`
/// GPUZIP_ACTION_SAVE) or is to be put (GPUZIP_ACTION_RESTORE). Result as for `gpuzip_forward_t`.
pub type gpuzip_locate_t = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        r#type: i32,
        ts: i32,
        fields: *mut gpuzip_field_t,
        nfields: u32,
    ) -> i32,
>;

/// Called after every SAVE and RESTORE of u(ts) is done, on a GPU after it is enqueued. `flags` and
/// result as for `gpuzip_forward_t`.
pub type gpuzip_observe_t =
    Option<unsafe extern "C" fn(user: *mut c_void, r#type: i32, ts: i32, flags: u32) -> i32>;

/// Finds a minimum over all ranks, for `gpuzip_agree`: replaces `*value` by the least value of all
/// ranks, as `MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT64_T, MPI_MIN, communicator)` does.
/// Returns 0, or another number on failure.
pub type gpuzip_least_t = Option<unsafe extern "C" fn(user: *mut c_void, value: *mut i64) -> i32>;

/// A stage that a generation passes (`gpuzip_persist_stage_register`), for example one that copies the file to an
/// object store. Called when this rank's part of the generation is on the disk under its name and was read back;
/// `file` is its path, and both pointers are valid during the call. Runs in a thread of the library while the
/// application computes; the next generation is written after it has returned, and none is due before. Must not
/// call the library with this session. Returns 0, or another number if it failed: the library then logs a warning,
/// the generation passes no further stage, and it counts all the same.
pub type gpuzip_persist_stage_t = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        file: *const c_char,
        generation: *const gpuzip_generation_t,
    ) -> i32,
>;

/// Memory of the application that restart files keep.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gpuzip_array_t {
    /// The name of the array, which differs from that of every other: at most 80 bytes of UTF-8. Names
    /// that begin with "gpuzip " are the library's own.
    pub name: *const c_char,
    /// Shape and memory of the array, as those of a field of a state; `role` does not count.
    pub field: gpuzip_field_t,
    /// 0: the array changes between shots only, such as an image summed over shots. 1: it changes during
    /// a shot, such as a wavefield; only generations within a shot hold it.
    pub scope: i32,
    /// Reserved: must be zero.
    pub reserved0: i32,
    /// Reserved: must be zero.
    pub reserved: [u64; 2],
}

/// Options of `gpuzip_persist_open`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct gpuzip_persist_options_t {
    /// sizeof(gpuzip_persist_options_t), set by the caller.
    pub struct_size: u64,
    /// Number of this rank, from 0.
    pub rank: i32,
    /// Number of ranks; 0 stands for 1.
    pub ranks: i32,
    /// Finds the minimum over all ranks. May be NULL with one rank.
    pub agree_min: gpuzip_least_t,
    /// Passed to `agree_min` unchanged.
    pub user: *mut c_void,
    /// Reserved: must be zero.
    pub reserved: [u64; 4],
}

/// A generation of restart files.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct gpuzip_generation_t {
    /// sizeof(gpuzip_generation_t), set by the caller.
    pub struct_size: u64,
    /// Number of the generation, from 1; 0: there is none.
    pub generation: i64,
    /// Number of the shot to go on with.
    pub shot: i64,
    /// The last action of that shot that was done; -1: the generation is of the start of the shot.
    pub it: i64,
    /// Bytes of this rank's file.
    pub bytes: u64,
    /// Reserved; the library writes zero.
    pub reserved: [u64; 4],
}

/// The functions that `gpuzip_run_forward` and `gpuzip_run_reverse` call, in the calling thread.
/// The functions must not throw or longjmp. They may ask about the session (`gpuzip_stats`,
/// `gpuzip_summary`) and use other sessions; a call that moves this session makes the run fail.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gpuzip_callbacks_t {
    /// sizeof(gpuzip_callbacks_t), set by the caller. A larger struct, of a newer header, is
    /// accepted if the bytes beyond the library's struct are zero.
    pub struct_size: u64,
    /// Passed to the functions unchanged.
    pub user: *mut c_void,
    /// Computes time steps. Not NULL.
    pub forward: gpuzip_forward_t,
    /// Does the adjoint of a time step. May be NULL for `gpuzip_run_forward`, and with
    /// `backward_range`.
    pub backward: gpuzip_backward_t,
    /// Tells where the state is. NULL: always in the fields given to the run.
    pub locate: gpuzip_locate_t,
    /// Observes saves and restores. May be NULL.
    pub observe: gpuzip_observe_t,
    /// Does the adjoint of `adjoint_every` time steps. If it is not NULL, it is called instead of
    /// `backward`. Not NULL for a session with `adjoint_every` > 1.
    pub backward_range: gpuzip_backward_range_t,
    /// Reserved: must be zero.
    pub reserved: [u64; 3],
}
