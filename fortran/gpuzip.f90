! gpuzip from Fortran 2008. `use gpuzip` gives the types, constants and calls of include/gpuzip.h, which explains each call;
! here is what is different:
!  - Calls are subroutines with the arguments of C in C's order. Every one ends with the optional `stat` and `errmsg` of ALLOCATE:
!    `stat` becomes 0, or a negative gpuzip_err_*, and then `errmsg` says which value was wrong and what to do. Without `stat` an
!    error prints that text and stops the program with ERROR STOP.
!  - Types have C's layout, and start as zeros with `struct_size` set; gpuzip_config_init gives a configuration its defaults.
!  - `fields` are arrays of gpuzip_field_t, one for each array of a state: [gpuzip_field(u), gpuzip_field(v)]. gpuzip_field takes
!    real(4) and real(8) variables of rank 0 to 4 (of rank 4 the last two dimensions count as one), integer and complex ones, which
!    are stored exactly, or an address and a shape: what c_loc gives within OpenACC's `host_data use_device` or OpenMP's `target data
!    use_device_addr` is a device pointer. Arrays need the attribute TARGET (or POINTER), and stay where they are while their field
!    is used.
!  - A section whose first dimension is contiguous is a field with gaps, on the host backend: gpuzip_field(u(1:nz, 1:nx)) of
!    u(-3:nz+4, -3:nx+4) stores u without its halo of 4 cells, and a retrieve leaves the halo as it is. Other sections, as u(::2, :)
!    or u(:, nx:1:-1), are refused.
!  - gpuzip_save and gpuzip_retrieve also take one array, or two: the current and the previous time level.
!  - A retrieve of a lossy snapshot (`compressor`) may leave values within the bound where the array had zeros, in a halo as well:
!    set again what the time loop keeps zero and does not compute, as examples/rtm3d/checkpoint.f90 does.
!  - `stream` is optional: the C address of a CUDA stream, or gpuzip_stream(integer); absent is NULL.
!  - Texts are Fortran characters. Only the c_ptr in gpuzip_config_t want C strings: gpuzip_to_c makes them.
module gpuzip
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  private

  ! The type of a field that gpuzip_field was given a section for that pitches cannot describe; every call refuses it by name.
  integer(c_int32_t), parameter, public :: gpuzip_type_strided = -1

  ! Parts between marks are generated: `make header`.
  ! generated: c {
  ! Success.
  integer(c_int32_t), parameter, public :: gpuzip_ok = 0
  ! A pointer is NULL, or a number is outside its range.
  integer(c_int32_t), parameter, public :: gpuzip_err_argument = -101
  ! A configuration value is impossible, or contradicts another one.
  integer(c_int32_t), parameter, public :: gpuzip_err_config = -102
  ! The value is valid, but this version of the library cannot do what it asks for.
  integer(c_int32_t), parameter, public :: gpuzip_err_unsupported = -103
  ! The fields differ in number, shape or type from those given at init.
  integer(c_int32_t), parameter, public :: gpuzip_err_shape = -104
  ! A field holds NaN or infinities, and `nonfinite = 1` makes that an error; or a previous time level is not what
  ! `shared_levels = 1` says.
  integer(c_int32_t), parameter, public :: gpuzip_err_values = -105
  ! The call does not fit the current action. Nothing has changed.
  integer(c_int32_t), parameter, public :: gpuzip_err_state = -201
  ! The handle was never made, or is finalized.
  integer(c_int32_t), parameter, public :: gpuzip_err_handle = -202
  ! The handle belongs to the process that this one was forked from; or CUDA, which does not work in a child of a
  ! process that has used it. The child's own configurations, schedules and sessions on the host are as good as any.
  integer(c_int32_t), parameter, public :: gpuzip_err_forked = -203
  ! A callback of the application returned other than 0 and so stopped the run.
  integer(c_int32_t), parameter, public :: gpuzip_err_callback = -204
  ! Memory ran out: of the host, of the device, or for a thread. What exists stays usable; the call may be repeated.
  integer(c_int32_t), parameter, public :: gpuzip_err_memory = -301
  ! The plan does not fit the budgets.
  integer(c_int32_t), parameter, public :: gpuzip_err_budget = -302
  ! A file cannot be read or written.
  integer(c_int32_t), parameter, public :: gpuzip_err_io = -401
  ! A configuration or trace file is malformed.
  integer(c_int32_t), parameter, public :: gpuzip_err_parse = -402
  ! A schedule breaks the rules of checkpointing.
  integer(c_int32_t), parameter, public :: gpuzip_err_schedule = -403
  ! A compressed stream is damaged, or of another version.
  integer(c_int32_t), parameter, public :: gpuzip_err_stream = -404
  ! The device failed.
  integer(c_int32_t), parameter, public :: gpuzip_err_device = -501
  ! A defect in gpuzip was caught.
  integer(c_int32_t), parameter, public :: gpuzip_err_panic = -901
  ! An earlier defect left this handle unusable; finalize it.
  integer(c_int32_t), parameter, public :: gpuzip_err_poisoned = -902
  ! Compute u(ts) from u(ts-1); with `range_actions`, go on to u(ts_end).
  integer(c_int32_t), parameter, public :: gpuzip_action_forward = 0
  ! u(ts) is live: call `gpuzip_save`.
  integer(c_int32_t), parameter, public :: gpuzip_action_save = 1
  ! Call `gpuzip_retrieve`: u(ts) is live afterwards.
  integer(c_int32_t), parameter, public :: gpuzip_action_restore = 2
  ! u(ts) is live: do the adjoint of the step ts -> ts+1.
  integer(c_int32_t), parameter, public :: gpuzip_action_backward = 3
  ! The sweep is over.
  integer(c_int32_t), parameter, public :: gpuzip_action_terminate = 4
  ! The schedule cannot go on. No valid schedule contains it.
  integer(c_int32_t), parameter, public :: gpuzip_action_error = 5
  ! FORWARD: this step (all steps of a range) was computed before in this sweep; do not record receivers again.
  integer(c_int32_t), parameter, public :: gpuzip_flag_recompute = 1
  ! BACKWARD: the first of the sweep.
  integer(c_int32_t), parameter, public :: gpuzip_flag_first_backward = 2
  ! RESTORE: the snapshot is not needed again. SAVE: nobody will restore it.
  integer(c_int32_t), parameter, public :: gpuzip_flag_last_use = 4
  ! FORWARD: the state that it computes (the last of a range) will be saved.
  integer(c_int32_t), parameter, public :: gpuzip_flag_next_is_save = 8
  ! Replay a recorded schedule from `trace_file_path`.
  integer(c_int32_t), parameter, public :: gpuzip_algorithm_trace = 0
  ! Binomial checkpointing.
  integer(c_int32_t), parameter, public :: gpuzip_algorithm_revolve = 1
  ! Checkpoints at equal distance, Revolve with the free slots inside each interval.
  integer(c_int32_t), parameter, public :: gpuzip_algorithm_uniform = 2
  ! zCut (reconstructed).
  integer(c_int32_t), parameter, public :: gpuzip_algorithm_zcut = 3
  ! The library chooses the quickest schedule that fits, by simulation with the profile or with what is typical of the
  ! backend.
  integer(c_int32_t), parameter, public :: gpuzip_algorithm_auto = 4
  ! Checkpoints at equal distance, Revolve with the device cache's slots inside each interval.
  integer(c_int32_t), parameter, public :: gpuzip_algorithm_two_level = 5
  ! Every state.
  integer(c_int32_t), parameter, public :: gpuzip_algorithm_store_all = 6
  ! Replacement by the known schedule: the fewest fetches that the cache allows, and the fewest transfers altogether for
  ! every algorithm but `trace`, whose snapshots may be used in another order than a stack's; there a write-back more
  ! than the fewest may be made.
  integer(c_int32_t), parameter, public :: gpuzip_policy_clairvoyant = 0
  ! GPUZIP 2.x's published LRU and PSA, for comparison.
  integer(c_int32_t), parameter, public :: gpuzip_policy_lru = 1
  ! Raw snapshots.
  integer(c_int32_t), parameter, public :: gpuzip_compressor_none = 0
  ! zfp at a fixed rate of `zfp_bit_rate`; the payload is libzfp's.
  integer(c_int32_t), parameter, public :: gpuzip_compressor_zfp = 1
  ! NVIDIA's Bitcomp, through an installed libnvcomp.
  integer(c_int32_t), parameter, public :: gpuzip_compressor_bitcomp = 2
  ! The published cuSZp layout, within a bound.
  integer(c_int32_t), parameter, public :: gpuzip_compressor_cuszp = 3
  ! Lorenzo prediction in tiles, within a bound: fast.
  integer(c_int32_t), parameter, public :: gpuzip_compressor_lorenzo = 4
  ! Cosine transform of tiles, within a bound: small.
  integer(c_int32_t), parameter, public :: gpuzip_compressor_dct = 5
  ! Scaled half precision: half the bytes of FP32, a quarter of FP64's. Every value is within 2^-11 (4.9e-4) of its
  ! field's maximum; on wavefields the PSNR is 95 to 100 dB.
  integer(c_int32_t), parameter, public :: gpuzip_compressor_fp16 = 6
  ! Blocks of 32 8-bit integers with a common exponent: 3.9 times less than FP32. Every value is within 1/127 of its
  ! block's maximum; on wavefields the PSNR is 65 to 70 dB.
  integer(c_int32_t), parameter, public :: gpuzip_compressor_bfp = 7
  ! The library chooses: raw snapshots, or one of the codecs that keep a bound. `error_bound` must be set, and the
  ! profile (`profile_path`, `gpuzip_profile_import`) must have them measured with it; without one, lorenzo is taken to
  ! have the ratio `compression_factor`.
  integer(c_int32_t), parameter, public :: gpuzip_compressor_auto = 15
  ! 32-bit IEEE values.
  integer(c_int32_t), parameter, public :: gpuzip_type_f32 = 0
  ! 64-bit IEEE values.
  integer(c_int32_t), parameter, public :: gpuzip_type_f64 = 1
  ! 8-bit integers, signed or not. Values of this type and of the types below are stored as they are and come back
  ! exactly, whatever the codec is; with a codec, the CUDA backend of this version refuses them.
  integer(c_int32_t), parameter, public :: gpuzip_type_i8 = 2
  ! 16-bit integers, signed or not.
  integer(c_int32_t), parameter, public :: gpuzip_type_i16 = 3
  ! 32-bit integers, signed or not.
  integer(c_int32_t), parameter, public :: gpuzip_type_i32 = 4
  ! 64-bit integers, signed or not.
  integer(c_int32_t), parameter, public :: gpuzip_type_i64 = 5
  ! Complex values, each two 32-bit IEEE numbers. A codec does not code them; for coded ones declare a GPUZIP_TYPE_F32
  ! field whose n1 and pitches are twice as large.
  integer(c_int32_t), parameter, public :: gpuzip_type_complex_f32 = 6
  ! Complex values, each two 64-bit IEEE numbers; otherwise as GPUZIP_TYPE_COMPLEX_F32.
  integer(c_int32_t), parameter, public :: gpuzip_type_complex_f64 = 7
  ! Bytes of whatever the application keeps there.
  integer(c_int32_t), parameter, public :: gpuzip_type_byte = 8

  ! A handle, opaque; a `gpuzip_schedule_t *` of C. Copies of it are the same thing.
  type, bind(c), public :: gpuzip_schedule_t
    private
    type(c_ptr) :: handle = c_null_ptr
  end type

  ! A handle, opaque; a `gpuzip_t *` of C. Copies of it are the same thing.
  type, bind(c), public :: gpuzip_t
    private
    type(c_ptr) :: handle = c_null_ptr
  end type

  ! The configuration. Block 1 has GPUZIP 2.x's fields in its order and with its numbers; zero means there what it means
  ! in GPUZIP 2.x. Block 2, from `struct_size` on, is gpuzip's; zero means the default. `gpuzip_config_init` fills in
  ! gpuzip's own defaults.
  type, bind(c), public :: gpuzip_config_t
    ! GPUZIP_ALGORITHM_*.
    integer(c_int32_t) :: checkpointing_algorithm = 0
    ! Snapshots stored at a time, at most. 0: the most that fits the budgets; without budgets what the algorithm needs
    ! (Revolve: GPUZIP's number), and for `auto` in `gpuzip_init` what half of the free memory holds (`device_budget`).
    ! Uniform and two-level need it, or a budget.
    integer(c_int32_t) :: checkpointing_snaps = 0
    ! Device cache slots: 0 no cache, 1 one slot, from 2 on cache and prefetch. With `device_budget`, at most so many.
    integer(c_int32_t) :: cache_capacity = 0
    ! GPUZIP_COMPRESSOR_*; 0: none.
    integer(c_int32_t) :: compressor = 0
    ! What is logged: 0 DEBUG and above, 1 INFO, 2 WARN, 3 ERROR only. Holds for the whole process.
    integer(c_int32_t) :: log_level = 0
    ! 1: append one CSV line per shot to gpuzip_performance.csv, or to the file that GPUZIP_PERFORMANCE_LOG names.
    ! Processes may share it; a line is there whole or not at all, and then a warning says why.
    integer(c_int32_t) :: enable_performance_log = 0
    ! 1: log the compression ratio of every snapshot, at level INFO.
    integer(c_int32_t) :: enable_compression_rate_log = 0
    ! The compression ratio that is expected: budgets are planned with it. Snapshots take what they need; one that finds
    ! no room in the cache stays in host memory, and if that has a budget that it does not fit, saving it is an error. 0
    ! or 1: none is expected.
    real(c_float) :: compression_factor = 0
    ! The file of GPUZIP_ALGORITHM_TRACE.
    type(c_ptr) :: trace_file_path = c_null_ptr
    ! Accepted for compatibility; `log_level` decides.
    integer(c_int32_t) :: revolve_log_level = 0
    ! zfp: bits per value, 1 to 32 (FP64: to 64); 0: 8.
    integer(c_int32_t) :: zfp_bit_rate = 0
    ! cuSZp without `error_bound`: the bound relative to the range of values, as in GPUZIP 2.x.
    real(c_double) :: cuszp_err_bound = 0
    ! "float" or "double": the type of fields where a call gives only extents (the GPUZIP 2.x headers). NULL: float.
    type(c_ptr) :: float_kind = c_null_ptr
    ! Bitcomp: 0 fraction of the maximum, 1 statistical range, 2 static delta.
    integer(c_int32_t) :: bitcomp_delta_config = 0
    ! Bitcomp: the fraction of mode 0.
    real(c_double) :: bitcomp_range_fraction = 0
    ! Bitcomp: the standard deviations of mode 1.
    real(c_double) :: bitcomp_num_sigma = 0
    ! Bitcomp: the delta of mode 2.
    real(c_double) :: bitcomp_delta = 0
    ! Bitcomp: 0 default, 1 sparse.
    integer(c_int32_t) :: bitcomp_algorithm = 0
    ! sizeof(gpuzip_config_t), set by `gpuzip_config_init` and, in C++, by the declaration. 0: only block 1 is read. A
    ! larger one, of a newer header, is accepted if all that it has beyond this one is zero.
    integer(c_int64_t) :: struct_size = 368
    ! 0: by the memory of the fields (device or managed memory: CUDA). Where their data are NULL at init, that is the
    ! host if this machine has no CUDA driver or device, and is found out at the first save if it has one: `auto` then
    ! plans for CUDA, and once more there if the fields are the host's, unless the application was shown the schedule by
    ! then (a peek, a summary, a fingerprint). CUDA is not started in this process before fields tell that it is needed.
    ! 1: host; 2: CUDA, an error at init where there is no driver or no device.
    integer(c_int32_t) :: backend = 0
    ! 0: the device of the fields, else the current one; k+1: CUDA device k. Must be 0 on the host backend.
    integer(c_int32_t) :: device = 0
    ! Bytes of device memory: for the cache, and all else that a session takes there; 0: `cache_capacity` decides. On
    ! the host backend main memory is the device memory too: this is the budget that a CPU code sets.
    ! Where this, `host_budget`, `checkpointing_snaps` and `snapshot_rule` are all 0, algorithm `auto` takes budgets of
    ! its own in `gpuzip_init` and `gpuzip_memory_required`: at most half of the memory that is free then, and never
    ! more than keeping every state needs. Free is, of the host, the least of MemAvailable and what control groups,
    ! RLIMIT_AS and RLIMIT_DATA leave, divided by the ranks on this node where a launcher's variable tells them; of a
    ! GPU, what its driver says, which ranks on one GPU have to divide by a budget. With `cache_capacity` only
    ! `host_budget` is taken. Where the half holds fewer snapshots than GPUZIP's number, that number decides instead. A
    ! line of the log at level INFO and `gpuzip_summary` say what was taken. Ranks that must follow one schedule set
    ! budgets: what is free differs between them. Sessions made by `gpuzip_attach` and policy lru take none.
    integer(c_int64_t) :: device_budget = 0
    ! Bytes of host memory for snapshots; 0: what the plan needs, or for `auto` as said at `device_budget`.
    integer(c_int64_t) :: host_budget = 0
    ! Bytes of disk for snapshots; 0: none (no disk tier in this version).
    integer(c_int64_t) :: disk_budget = 0
    ! GPUZIP_POLICY_*.
    integer(c_int32_t) :: policy = 0
    ! Codecs that keep a bound (cuSZp, lorenzo, dct, Bitcomp): 0 relative to each field's maximum in each snapshot, 1
    ! absolute, 2 relative to its range, 3 target PSNR in dB. Of a declared pair of time levels it bounds the later one
    ! and their difference, each by its own size.
    integer(c_int32_t) :: error_bound_mode = 0
    ! Their bound, kept for every finite value (mode 3: by the field as a whole); 0: 1e-3 in modes 0 and 2.
    real(c_double) :: error_bound = 0
    ! Codecs, NaN and Inf: 0 stored exactly, 1 saving them is GPUZIP_ERR_VALUES.
    integer(c_int32_t) :: nonfinite = 0
    ! No action is handed out before a GPU has ended, on the stream of the last save or retrieve, all actions that lie
    ! this many back or more; before the first save or retrieve of a shot there is nothing to wait for. 0: 64.
    integer(c_int32_t) :: max_in_flight = 0
    ! 1: FORWARDs between which nothing else comes are one action, `ts` to `ts_end`. Statistics and leads count its
    ! steps one by one.
    integer(c_int32_t) :: range_actions = 0
    ! Number of snapshots: 0 `checkpointing_snaps` or the budgets; 1 GPUZIP's `adjust`, the least s with C(2s, s) >= n.
    integer(c_int32_t) :: snapshot_rule = 0
    ! zCut: states per chunk; two-level: states per interval; 0: chosen.
    integer(c_int32_t) :: schedule_chunk = 0
    ! Uniform: 0 free slots work inside the interval; 1 as published for GPUZIP 2.x, quadratic in the interval.
    integer(c_int32_t) :: uniform_reading = 0
    ! 1: the application works in the cache's slots (`gpuzip_save_begin`, `gpuzip_retrieve_acquire`) instead of having
    ! its fields copied. Takes memory for two more snapshots on the device, out of `device_budget` if that is set;
    ! policy clairvoyant only.
    integer(c_int32_t) :: zero_copy = 0
    ! Host backend: bandwidth of a simulated link in bytes per second each way; 0: none.
    real(c_double) :: link_bandwidth = 0
    ! The file of a profile, by which `auto` and predictions go: read if it exists, and written by a session after
    ! `gpuzip_autotune`, in one piece: readers find the old profile or the new one. NULL: none.
    type(c_ptr) :: profile_path = c_null_ptr
    ! A file for a timeline in Chrome's trace format, for ui.perfetto.dev and `gpuzip report`; NULL or empty: none. `%r`
    ! is the MPI rank, `%p` the process, `%%` a percent sign. Without `%r` and `%p`, `-r<rank>` comes before the
    ! extension where a launcher has started several ranks, so does `-p<process>` in a forked child, and so does `-<k>`
    ! for the k-th session of a process from the second on, or, where another process is writing that file (it has its
    ! lock, flock), the next number that is free. Older files are replaced. It is written at the end of every shot, for
    ! which TERMINATE then waits; what cannot be written is a warning, and the file ends, as valid JSON, before it.
    type(c_ptr) :: trace_out = c_null_ptr
    ! A directory for restart files (not in this version).
    type(c_ptr) :: persist_dir = c_null_ptr
    ! Share of the run time that persistence may take.
    real(c_double) :: persist_overhead = 0
    ! Seconds that a requested stop may take.
    real(c_double) :: stop_budget_s = 0
    ! 1: raw snapshots of consecutive states keep the time level that both have once: the previous level (`role`) of
    ! u(t+1) is the field of u(t). Every save compares their checksums; where the application changed it after the step,
    ! the save fails with GPUZIP_ERR_VALUES, on a GPU the call that would give TERMINATE, and the shot cannot go on. Not
    ! with `zero_copy`, policy lru or a codec by name.
    integer(c_int32_t) :: shared_levels = 0
    ! Zero.
    integer(c_int32_t) :: reserved_32 = 0
    ! Zero.
    integer(c_int64_t) :: reserved_64 = 0
    ! Pages of the host backend's memory for snapshots: 0 huge ones, unless touching 16 MiB of them for the first time
    ! takes this machine more than 1.5 times as long as 16 MiB of ordinary ones; 1 huge ones always, for runs of very
    ! many shots: copies are then 9 to 21 % faster; 2 never.
    integer(c_int32_t) :: huge_pages = 0
    ! Zero.
    integer(c_int32_t) :: reserved_strict = 0
    ! Zero.
    integer(c_int64_t) :: reserved(13) = 0
  end type

  ! What the application has to do next.
  type, bind(c), public :: gpuzip_action_t
    ! GPUZIP_ACTION_*.
    integer(c_int32_t) :: type = 0
    ! The time step of the state that the action produces or needs, 0..n; of a range of FORWARDs the first.
    integer(c_int32_t) :: ts = 0
    ! The last time step of a range of FORWARDs; equal to `ts` without `range_actions`, and for all other actions.
    integer(c_int32_t) :: ts_end = 0
    ! GPUZIP_FLAG_*, or-ed.
    integer(c_int32_t) :: flags = 0
    ! Actions since setup; the first is 0.
    integer(c_int64_t) :: it = 0
    ! Zero.
    integer(c_int64_t) :: reserved(2) = 0
  end type

  ! A schedule and, for a session, its plan and memory, as numbers.
  type, bind(c), public :: gpuzip_summary_t
    ! sizeof(gpuzip_summary_t), set by the caller.
    integer(c_int64_t) :: struct_size = 224
    ! GPUZIP_ALGORITHM_*, never AUTO: what was chosen.
    integer(c_int32_t) :: algorithm = 0
    ! GPUZIP_POLICY_*.
    integer(c_int32_t) :: policy = 0
    ! Time steps, n.
    integer(c_int32_t) :: steps = 0
    ! Snapshots that may be stored at a time.
    integer(c_int32_t) :: snapshots = 0
    ! Device cache slots.
    integer(c_int32_t) :: cache = 0
    ! States per chunk or interval; 0 if the algorithm has none.
    integer(c_int32_t) :: chunk = 0
    ! Time steps of FORWARD actions.
    integer(c_int64_t) :: forward_steps = 0
    ! SAVE actions.
    integer(c_int64_t) :: saves = 0
    ! RESTORE actions.
    integer(c_int64_t) :: restores = 0
    ! BACKWARD actions.
    integer(c_int64_t) :: backward_steps = 0
    ! Snapshots stored at a time, at most.
    integer(c_int64_t) :: max_live = 0
    ! All actions, TERMINATE included; a range is one.
    integer(c_int64_t) :: actions = 0
    ! Transfers from host to device memory.
    integer(c_int64_t) :: h2d = 0
    ! Transfers from device to host memory.
    integer(c_int64_t) :: d2h = 0
    ! Restores found in the device cache without a transfer.
    integer(c_int64_t) :: hits = 0
    ! Restores that need a transfer.
    integer(c_int64_t) :: misses = 0
    ! Misses whose transfer is issued ahead of the restore.
    integer(c_int64_t) :: prefetches = 0
    ! Forward and backward steps between issue and use of a prefetch: the least, 0 if there is none.
    integer(c_int64_t) :: min_lead = 0
    ! The same: the mean.
    real(c_double) :: mean_lead = 0
    ! Bytes of one snapshot.
    integer(c_int64_t) :: slot_bytes = 0
    ! Device memory: the cache, two states with `zero_copy`, and what the kernels of a codec work in.
    integer(c_int64_t) :: device_bytes = 0
    ! Host memory of the snapshots.
    integer(c_int64_t) :: host_bytes = 0
    ! GPUZIP_COMPRESSOR_*, never AUTO: what was chosen; 0 for a schedule by itself.
    integer(c_int32_t) :: compressor = 0
    ! Zero.
    integer(c_int32_t) :: reserved_32 = 0
    ! `device_budget` that the plan was made within: as configured, or as taken of the memory that was free; 0: none.
    integer(c_int64_t) :: device_budget = 0
    ! `host_budget`, likewise.
    integer(c_int64_t) :: host_budget = 0
    ! Zero.
    integer(c_int64_t) :: reserved(5) = 0
  end type

  ! One array of the state: n1 x n2 x n3 values, n1 fastest, contiguous or with gaps between its rows and planes.
  ! Value (i1, i2, i3), each index from 0, is at `data` + (i1 + `pitch2` i2 + `pitch3` i3) values. Only these values
  ! belong to the state: what lies between them (a halo) is neither stored nor compared, and a retrieve does not write
  ! it. A snapshot has the size of the values. A field of n1 x n2 x n3 cells in an array of (n1+8) x (n2+8) x (n3+8)
  ! with a halo of 4 cells has `data` = &array[4][4][4], `pitch2` = n1+8 and `pitch3` = (n1+8)(n2+8).
  ! Number, extents, types and roles of the fields are those given at init in every call; `data` and the pitches may
  ! differ from call to call. Memory that the library hands out (zero copy) and fields that it gives to a registered
  ! codec are contiguous. The CUDA backend of this version refuses fields with gaps. A codec works on a contiguous copy
  ! of a field with gaps; a session that has a codec then takes memory for one more state, beside its budgets.
  ! An array of pointers to rows (`float **u`) is one field if its rows are evenly spaced, as `u[1] - u[0]` = `u[2] -
  ! u[1]` = ... of rows allocated in one piece: `data` = u[0] and `pitch2` that distance. Otherwise each evenly spaced
  ! block of rows is a field of its own.
  type, bind(c), public :: gpuzip_field_t
    ! Its memory, owned by the caller. May be NULL where only the shape counts.
    type(c_ptr) :: data = c_null_ptr
    ! Extent of the fastest dimension, in values.
    integer(c_int64_t) :: n1 = 0
    ! Extent of the second dimension; 1 if there is none.
    integer(c_int64_t) :: n2 = 0
    ! Extent of the slowest dimension; 1 if there is none.
    integer(c_int64_t) :: n3 = 0
    ! GPUZIP_TYPE_*.
    integer(c_int32_t) :: type = 0
    ! 0: a quantity of its own; k+1: the previous time level of field k.
    integer(c_int32_t) :: role = 0
    ! Distance, in values, between the first values of consecutive rows: at least n1. 0: n1, rows without gaps.
    integer(c_int64_t) :: pitch2 = 0
    ! Distance, in values, between the first values of consecutive planes: at least (n2-1) `pitch2` + n1. 0: n2 times
    ! the distance of rows.
    integer(c_int64_t) :: pitch3 = 0
    ! Zero.
    integer(c_int64_t) :: reserved(2) = 0
  end type

  ! What one session counted and timed since the last setup.
  type, bind(c), public :: gpuzip_stats_t
    ! sizeof(gpuzip_stats_t), set by the caller.
    integer(c_int64_t) :: struct_size = 280
    ! Time steps of FORWARD actions.
    integer(c_int64_t) :: forward_steps = 0
    ! SAVE actions served.
    integer(c_int64_t) :: saves = 0
    ! RESTORE actions served.
    integer(c_int64_t) :: restores = 0
    ! BACKWARD actions.
    integer(c_int64_t) :: backward_steps = 0
    ! Restores found in the device cache without a transfer.
    integer(c_int64_t) :: hits = 0
    ! Restores that needed a transfer: restores = hits + misses.
    integer(c_int64_t) :: misses = 0
    ! Misses whose transfer was issued ahead of the restore.
    integer(c_int64_t) :: prefetches = 0
    ! Prefetches that had not ended when their restore came.
    integer(c_int64_t) :: late_prefetches = 0
    ! Transfers from host to device memory.
    integer(c_int64_t) :: h2d = 0
    ! Transfers from device to host memory.
    integer(c_int64_t) :: d2h = 0
    ! Bytes from host to device memory.
    integer(c_int64_t) :: h2d_bytes = 0
    ! Bytes from device to host memory.
    integer(c_int64_t) :: d2h_bytes = 0
    ! Bytes written to and read from disk.
    integer(c_int64_t) :: disk_bytes = 0
    ! Saves that never had to leave the device: saves = d2h + write_backs_avoided.
    integer(c_int64_t) :: write_backs_avoided = 0
    ! Bytes of the fields saved.
    integer(c_int64_t) :: raw_bytes = 0
    ! Bytes of the snapshots made of them.
    integer(c_int64_t) :: stored_bytes = 0
    ! Device memory taken.
    integer(c_int64_t) :: peak_device_bytes = 0
    ! Host memory taken.
    integer(c_int64_t) :: peak_host_bytes = 0
    ! Seconds of the application's FORWARDs, as the host sees them.
    real(c_double) :: forward = 0
    ! Seconds of the application's BACKWARDs, as the host sees them.
    real(c_double) :: backward = 0
    ! Seconds of the host in save.
    real(c_double) :: save = 0
    ! Seconds of the host in retrieve.
    real(c_double) :: restore = 0
    ! Seconds of compression; on a GPU of the application's stream, as far as they have ended.
    real(c_double) :: compress = 0
    ! Seconds of decompression, likewise.
    real(c_double) :: decompress = 0
    ! Seconds that the application's stream spent in saves and retrieves; on a GPU of those that have ended.
    real(c_double) :: stall = 0
    ! Seconds that the host waited because it was `max_in_flight` actions ahead.
    real(c_double) :: run_ahead_wait = 0
    ! Zero.
    integer(c_int64_t) :: reserved(8) = 0
  end type

  ! What `gpuzip_run_forward` and `gpuzip_run_reverse` call, in the thread that called them. The functions must not
  ! throw or longjmp. They may ask about the session (`gpuzip_stats`, `gpuzip_summary`) and use other sessions; whatever
  ! moves this one makes the run fail.
  type, bind(c), public :: gpuzip_callbacks_t
    ! sizeof(gpuzip_callbacks_t). A larger one, of a newer header, is accepted if all that it has beyond this one is
    ! zero.
    integer(c_int64_t) :: struct_size = 80
    ! Given to the functions as it is.
    type(c_ptr) :: user = c_null_ptr
    ! Not NULL.
    type(c_funptr) :: forward = c_null_funptr
    ! May be NULL for `gpuzip_run_forward`.
    type(c_funptr) :: backward = c_null_funptr
    ! NULL: the state is always in the fields given to the run.
    type(c_funptr) :: locate = c_null_funptr
    ! May be NULL.
    type(c_funptr) :: observe = c_null_funptr
    ! Zero.
    integer(c_int64_t) :: reserved(4) = 0
  end type

  ! What a profile says. Times are of a state of `state_bytes` bytes; GB/s are 1e9 bytes per second, a codec's of raw
  ! bytes.
  type, bind(c), public :: gpuzip_profile_info_t
    ! sizeof(gpuzip_profile_info_t), set by the caller.
    integer(c_int64_t) :: struct_size = 160
    ! Bytes of the states that were measured; 0: times are of any.
    integer(c_int64_t) :: state_bytes = 0
    ! One FORWARD step, in milliseconds.
    real(c_double) :: forward_ms = 0
    ! One BACKWARD step, in milliseconds.
    real(c_double) :: backward_ms = 0
    ! GB/s from host to device memory.
    real(c_double) :: h2d_gbs = 0
    ! GB/s from device to host memory.
    real(c_double) :: d2h_gbs = 0
    ! GB/s of copies within device memory.
    real(c_double) :: d2d_gbs = 0
    ! GB/s of reading from disk; assumed in this version.
    real(c_double) :: disk_read_gbs = 0
    ! GB/s of writing to disk; assumed in this version.
    real(c_double) :: disk_write_gbs = 0
    ! Where it was measured: 1 host, 2 CUDA; 0: anywhere.
    integer(c_int32_t) :: backend = 0
    ! Codecs in the profile.
    integer(c_int32_t) :: codecs = 0
    ! Of the codec that was asked for: GPUZIP_COMPRESSOR_*; it and what follows is 0 if there is none.
    integer(c_int32_t) :: compressor = 0
    ! Its `error_bound_mode`.
    integer(c_int32_t) :: error_bound_mode = 0
    ! Its bound; 0 if it keeps none.
    real(c_double) :: error_bound = 0
    ! GB/s of compression.
    real(c_double) :: compress_gbs = 0
    ! GB/s of decompression.
    real(c_double) :: decompress_gbs = 0
    ! Raw bytes over stored bytes, of all states that were tried together.
    real(c_double) :: ratio = 0
    ! The same of the state that compressed worst.
    real(c_double) :: worst_ratio = 0
    ! Zero.
    integer(c_int64_t) :: reserved(4) = 0
  end type

  ! What a compressed stream says of one of its arrays. Set `struct_size` to sizeof(gpuzip_codec_info_t) before the
  ! call.
  type, bind(c), public :: gpuzip_codec_info_t
    ! Bytes that the caller knows.
    integer(c_int64_t) :: struct_size = 112
    ! Arrays in the stream.
    integer(c_int32_t) :: arrays = 0
    ! GPUZIP_COMPRESSOR_*, or the number of a registered codec.
    integer(c_int32_t) :: compressor = 0
    ! 0 the values as they are, 1 compressed, 2 one value that all have.
    integer(c_int32_t) :: content = 0
    ! GPUZIP_TYPE_*.
    integer(c_int32_t) :: type = 0
    ! Number of the field.
    integer(c_int32_t) :: field = 0
    ! -1, or the number of another field of the stream: what is stored is that one minus this one.
    integer(c_int32_t) :: reference = 0
    ! Extents, n1 fastest.
    integer(c_int64_t) :: n1 = 0
    ! Extent.
    integer(c_int64_t) :: n2 = 0
    ! Extent.
    integer(c_int64_t) :: n3 = 0
    ! The absolute bound that what is stored keeps; 0: none was asked for.
    real(c_double) :: bound = 0
    ! Bytes of the array.
    integer(c_int64_t) :: raw_bytes = 0
    ! Bytes in the stream, header and padding included.
    integer(c_int64_t) :: stored_bytes = 0
    ! Zero.
    integer(c_int64_t) :: reserved(4) = 0
  end type

  ! A codec of the application's own. Its functions are called by whatever thread saves and retrieves, several at a
  ! time, and must not throw; headers, checksums, constant arrays and differences of time levels are gpuzip's. That the
  ! bound is kept is its own promise.
  type, bind(c), public :: gpuzip_codec_plugin_t
    ! sizeof(gpuzip_codec_plugin_t).
    integer(c_int64_t) :: struct_size = 80
    ! Its name, copied.
    type(c_ptr) :: name = c_null_ptr
    ! Given to its functions as it is.
    type(c_ptr) :: user = c_null_ptr
    ! Not NULL.
    type(c_funptr) :: max_bytes = c_null_funptr
    ! Not NULL.
    type(c_funptr) :: compress = c_null_funptr
    ! Not NULL.
    type(c_funptr) :: decompress = c_null_funptr
    ! Zero.
    integer(c_int64_t) :: reserved(4) = 0
  end type

  abstract interface
    ! Receives log lines. Must not throw, longjmp, fork or call gpuzip; may be called from any thread, and in a forked
    ! child, which inherits it. `level`: 0 DEBUG, 1 INFO, 2 WARN, 3 ERROR. `message` lives during the call only. `user`:
    ! as registered.
    subroutine gpuzip_log_callback_t(level, message, user) bind(c)
      import
      integer(c_int32_t), value :: level
      type(c_ptr), value :: message
      type(c_ptr), value :: user
    end subroutine

    ! Computes u(ts), ..., u(ts_end) from u(ts-1); `ts_end` is `ts` without `range_actions`. `flags` are GPUZIP_FLAG_*,
    ! as those of the action. Returns 0, or another number to stop the run.
    integer(c_int32_t) function gpuzip_forward_t(user, ts, ts_end, flags) bind(c)
      import
      type(c_ptr), value :: user
      integer(c_int32_t), value :: ts
      integer(c_int32_t), value :: ts_end
      integer(c_int32_t), value :: flags
    end function

    ! Does the adjoint of the step ts -> ts+1; u(ts) is live. Called for n-1, ..., 0, each once. `flags` and result as
    ! for `gpuzip_forward_t`.
    integer(c_int32_t) function gpuzip_backward_t(user, ts, flags) bind(c)
      import
      type(c_ptr), value :: user
      integer(c_int32_t), value :: ts
      integer(c_int32_t), value :: flags
    end function

    ! Says where the state is, for applications that swap buffers: sets `data` of the `nfields` fields, which come as
    ! given to the run, to where u(ts) is (`type` GPUZIP_ACTION_SAVE) or is to be put (GPUZIP_ACTION_RESTORE). Result as
    ! for `gpuzip_forward_t`.
    integer(c_int32_t) function gpuzip_locate_t(user, type, ts, fields, nfields) bind(c)
      import
      type(c_ptr), value :: user
      integer(c_int32_t), value :: type
      integer(c_int32_t), value :: ts
      type(gpuzip_field_t), intent(inout) :: fields(*)
      integer(c_int32_t), value :: nfields
    end function

    ! Told of every SAVE and RESTORE of u(ts) after it is done; on a GPU after it is enqueued. `flags` and result as for
    ! `gpuzip_forward_t`.
    integer(c_int32_t) function gpuzip_observe_t(user, type, ts, flags) bind(c)
      import
      type(c_ptr), value :: user
      integer(c_int32_t), value :: type
      integer(c_int32_t), value :: ts
      integer(c_int32_t), value :: flags
    end function

    ! For `gpuzip_agree`: replaces `*value` by the least that any rank gave, as `MPI_Allreduce(MPI_IN_PLACE, value, 1,
    ! MPI_INT64_T, MPI_MIN, communicator)` does. Returns 0, or another number if that failed.
    integer(c_int32_t) function gpuzip_least_t(user, value) bind(c)
      import
      type(c_ptr), value :: user
      integer(c_int64_t), intent(inout) :: value
    end function

    ! Most bytes that `compress` of a registered codec writes for an array of this shape (`data` is NULL); what is more
    ! than the bytes of the array does not count.
    integer(c_int64_t) function gpuzip_codec_max_bytes_t(user, field) bind(c)
      import
      type(c_ptr), value :: user
      type(gpuzip_field_t), intent(in) :: field
    end function

    ! Compresses the array, which is host memory, into `to`, at most `capacity` bytes, the result of `max_bytes`, and
    ! sets `*bytes`. It keeps `bound`: pointwise, or with `rms` = 1 as the root mean square error. The array must not be
    ! changed. Returns 0; or 1 if the array is to be stored as it is; or a negative status, which fails the save.
    integer(c_int32_t) function gpuzip_codec_compress_t(user, field, rms, bound, to, capacity, bytes) bind(c)
      import
      type(c_ptr), value :: user
      type(gpuzip_field_t), intent(in) :: field
      integer(c_int32_t), value :: rms
      real(c_double), value :: bound
      type(c_ptr), value :: to
      integer(c_int64_t), value :: capacity
      integer(c_int64_t), intent(inout) :: bytes
    end function

    ! Fills the array, which is host memory, from what `compress` wrote. Returns 0, or another status, which fails the
    ! retrieve.
    integer(c_int32_t) function gpuzip_codec_decompress_t(user, from, bytes, field) bind(c)
      import
      type(c_ptr), value :: user
      type(c_ptr), value :: from
      integer(c_int64_t), value :: bytes
      type(gpuzip_field_t), intent(in) :: field
    end function
  end interface
  public :: gpuzip_log_callback_t
  public :: gpuzip_forward_t
  public :: gpuzip_backward_t
  public :: gpuzip_locate_t
  public :: gpuzip_observe_t
  public :: gpuzip_least_t
  public :: gpuzip_codec_max_bytes_t
  public :: gpuzip_codec_compress_t
  public :: gpuzip_codec_decompress_t

  interface
    type(c_ptr) function c_gpuzip_last_error() bind(c, name='gpuzip_last_error')
      import
    end function

    type(c_ptr) function c_gpuzip_status_string(status) bind(c, name='gpuzip_status_string')
      import
      integer(c_int32_t), value :: status
    end function

    type(c_ptr) function c_gpuzip_version() bind(c, name='gpuzip_version')
      import
    end function

    integer(c_int32_t) function c_gpuzip_abi_version() bind(c, name='gpuzip_abi_version')
      import
    end function

    type(c_ptr) function c_gpuzip_algorithm_name(algorithm) bind(c, name='gpuzip_algorithm_name')
      import
      integer(c_int32_t), value :: algorithm
    end function

    integer(c_int32_t) function c_gpuzip_set_log_level(level) bind(c, name='gpuzip_set_log_level')
      import
      integer(c_int32_t), value :: level
    end function

    integer(c_int32_t) function c_gpuzip_set_log_callback(callback, user) bind(c, name='gpuzip_set_log_callback')
      import
      type(c_funptr), value :: callback
      type(c_ptr), value :: user
    end function

    integer(c_int32_t) function c_gpuzip_config_init(config) bind(c, name='gpuzip_config_init')
      import
      type(gpuzip_config_t), intent(inout) :: config
    end function

    integer(c_int32_t) function c_gpuzip_config_load(path, config) bind(c, name='gpuzip_config_load')
      import
      type(c_ptr), value :: path
      type(gpuzip_config_t), intent(inout) :: config
    end function

    integer(c_int32_t) function c_gpuzip_config_free(config) bind(c, name='gpuzip_config_free')
      import
      type(gpuzip_config_t), intent(inout) :: config
    end function

    integer(c_int32_t) function c_gpuzip_schedule_create(config, steps, schedule) bind(c, name='gpuzip_schedule_create')
      import
      type(gpuzip_config_t), intent(in) :: config
      integer(c_int32_t), value :: steps
      type(c_ptr), intent(inout) :: schedule
    end function

    integer(c_int32_t) function c_gpuzip_schedule_get_action(schedule, action) &
        bind(c, name='gpuzip_schedule_get_action')
      import
      type(c_ptr), value :: schedule
      type(gpuzip_action_t), intent(inout) :: action
    end function

    integer(c_int32_t) function c_gpuzip_schedule_peek_action(schedule, action) &
        bind(c, name='gpuzip_schedule_peek_action')
      import
      type(c_ptr), value :: schedule
      type(gpuzip_action_t), intent(inout) :: action
    end function

    integer(c_int32_t) function c_gpuzip_schedule_rewind(schedule) bind(c, name='gpuzip_schedule_rewind')
      import
      type(c_ptr), value :: schedule
    end function

    integer(c_int32_t) function c_gpuzip_schedule_summary(schedule, summary) bind(c, name='gpuzip_schedule_summary')
      import
      type(c_ptr), value :: schedule
      type(gpuzip_summary_t), intent(inout) :: summary
    end function

    integer(c_int32_t) function c_gpuzip_schedule_release(schedule) bind(c, name='gpuzip_schedule_release')
      import
      type(c_ptr), value :: schedule
    end function

    integer(c_int32_t) function c_gpuzip_init(config, steps, fields, nfields, handle) bind(c, name='gpuzip_init')
      import
      type(gpuzip_config_t), intent(in) :: config
      integer(c_int32_t), value :: steps
      type(gpuzip_field_t), intent(in) :: fields(*)
      integer(c_int32_t), value :: nfields
      type(c_ptr), intent(inout) :: handle
    end function

    integer(c_int32_t) function c_gpuzip_attach(schedule, config, fields, nfields, handle) bind(c, name='gpuzip_attach')
      import
      type(c_ptr), value :: schedule
      type(gpuzip_config_t), intent(in) :: config
      type(gpuzip_field_t), intent(in) :: fields(*)
      integer(c_int32_t), value :: nfields
      type(c_ptr), intent(inout) :: handle
    end function

    integer(c_int32_t) function c_gpuzip_get_schedule(handle, schedule) bind(c, name='gpuzip_get_schedule')
      import
      type(c_ptr), value :: handle
      type(c_ptr), intent(inout) :: schedule
    end function

    integer(c_int32_t) function c_gpuzip_setup(handle) bind(c, name='gpuzip_setup')
      import
      type(c_ptr), value :: handle
    end function

    integer(c_int32_t) function c_gpuzip_get_action(handle, action) bind(c, name='gpuzip_get_action')
      import
      type(c_ptr), value :: handle
      type(gpuzip_action_t), intent(inout) :: action
    end function

    integer(c_int32_t) function c_gpuzip_peek_action(handle, action) bind(c, name='gpuzip_peek_action')
      import
      type(c_ptr), value :: handle
      type(gpuzip_action_t), intent(inout) :: action
    end function

    integer(c_int32_t) function c_gpuzip_dispatch(handle, it) bind(c, name='gpuzip_dispatch')
      import
      type(c_ptr), value :: handle
      integer(c_int64_t), value :: it
    end function

    integer(c_int32_t) function c_gpuzip_save(handle, ts, fields, nfields, stream) bind(c, name='gpuzip_save')
      import
      type(c_ptr), value :: handle
      integer(c_int32_t), value :: ts
      type(gpuzip_field_t), intent(in) :: fields(*)
      integer(c_int32_t), value :: nfields
      type(c_ptr), value :: stream
    end function

    integer(c_int32_t) function c_gpuzip_retrieve(handle, ts, fields, nfields, stream) bind(c, name='gpuzip_retrieve')
      import
      type(c_ptr), value :: handle
      integer(c_int32_t), value :: ts
      type(gpuzip_field_t), intent(in) :: fields(*)
      integer(c_int32_t), value :: nfields
      type(c_ptr), value :: stream
    end function

    integer(c_int32_t) function c_gpuzip_save_begin(handle, ts, data, nfields, stream) bind(c, name='gpuzip_save_begin')
      import
      type(c_ptr), value :: handle
      integer(c_int32_t), value :: ts
      type(c_ptr), intent(inout) :: data(*)
      integer(c_int32_t), value :: nfields
      type(c_ptr), value :: stream
    end function

    integer(c_int32_t) function c_gpuzip_save_commit(handle, ts, stream) bind(c, name='gpuzip_save_commit')
      import
      type(c_ptr), value :: handle
      integer(c_int32_t), value :: ts
      type(c_ptr), value :: stream
    end function

    integer(c_int32_t) function c_gpuzip_retrieve_acquire(handle, ts, data, nfields, stream) &
        bind(c, name='gpuzip_retrieve_acquire')
      import
      type(c_ptr), value :: handle
      integer(c_int32_t), value :: ts
      type(c_ptr), intent(inout) :: data(*)
      integer(c_int32_t), value :: nfields
      type(c_ptr), value :: stream
    end function

    integer(c_int32_t) function c_gpuzip_retrieve_release(handle, ts, stream) bind(c, name='gpuzip_retrieve_release')
      import
      type(c_ptr), value :: handle
      integer(c_int32_t), value :: ts
      type(c_ptr), value :: stream
    end function

    integer(c_int32_t) function c_gpuzip_synchronize(handle) bind(c, name='gpuzip_synchronize')
      import
      type(c_ptr), value :: handle
    end function

    integer(c_int32_t) function c_gpuzip_stats(handle, stats) bind(c, name='gpuzip_stats')
      import
      type(c_ptr), value :: handle
      type(gpuzip_stats_t), intent(inout) :: stats
    end function

    integer(c_int32_t) function c_gpuzip_summary(handle, summary) bind(c, name='gpuzip_summary')
      import
      type(c_ptr), value :: handle
      type(gpuzip_summary_t), intent(inout) :: summary
    end function

    integer(c_int32_t) function c_gpuzip_memory_required(config, steps, fields, nfields, summary) &
        bind(c, name='gpuzip_memory_required')
      import
      type(gpuzip_config_t), intent(in) :: config
      integer(c_int32_t), value :: steps
      type(gpuzip_field_t), intent(in) :: fields(*)
      integer(c_int32_t), value :: nfields
      type(gpuzip_summary_t), intent(inout) :: summary
    end function

    integer(c_int32_t) function c_gpuzip_finalize(handle) bind(c, name='gpuzip_finalize')
      import
      type(c_ptr), value :: handle
    end function

    integer(c_int32_t) function c_gpuzip_run_forward(handle, callbacks, fields, nfields, stream) &
        bind(c, name='gpuzip_run_forward')
      import
      type(c_ptr), value :: handle
      type(gpuzip_callbacks_t), intent(in) :: callbacks
      type(gpuzip_field_t), intent(in) :: fields(*)
      integer(c_int32_t), value :: nfields
      type(c_ptr), value :: stream
    end function

    integer(c_int32_t) function c_gpuzip_run_reverse(handle, callbacks, fields, nfields, stream) &
        bind(c, name='gpuzip_run_reverse')
      import
      type(c_ptr), value :: handle
      type(gpuzip_callbacks_t), intent(in) :: callbacks
      type(gpuzip_field_t), intent(in) :: fields(*)
      integer(c_int32_t), value :: nfields
      type(c_ptr), value :: stream
    end function

    integer(c_int32_t) function c_gpuzip_fingerprint(handle, fingerprint) bind(c, name='gpuzip_fingerprint')
      import
      type(c_ptr), value :: handle
      integer(c_int64_t), intent(inout) :: fingerprint
    end function

    integer(c_int32_t) function c_gpuzip_schedule_fingerprint(schedule, fingerprint) &
        bind(c, name='gpuzip_schedule_fingerprint')
      import
      type(c_ptr), value :: schedule
      integer(c_int64_t), intent(inout) :: fingerprint
    end function

    integer(c_int32_t) function c_gpuzip_agree(handle, least, user) bind(c, name='gpuzip_agree')
      import
      type(c_ptr), value :: handle
      type(c_funptr), value :: least
      type(c_ptr), value :: user
    end function

    integer(c_int32_t) function c_gpuzip_autotune(handle) bind(c, name='gpuzip_autotune')
      import
      type(c_ptr), value :: handle
    end function

    integer(c_int32_t) function c_gpuzip_profile_export(handle, data, capacity, bytes) &
        bind(c, name='gpuzip_profile_export')
      import
      type(c_ptr), value :: handle
      type(c_ptr), value :: data
      integer(c_int64_t), value :: capacity
      integer(c_int64_t), intent(inout) :: bytes
    end function

    integer(c_int32_t) function c_gpuzip_profile_import(handle, data, bytes) bind(c, name='gpuzip_profile_import')
      import
      type(c_ptr), value :: handle
      type(c_ptr), value :: data
      integer(c_int64_t), value :: bytes
    end function

    integer(c_int32_t) function c_gpuzip_profile_info(data, bytes, index, info) bind(c, name='gpuzip_profile_info')
      import
      type(c_ptr), value :: data
      integer(c_int64_t), value :: bytes
      integer(c_int32_t), value :: index
      type(gpuzip_profile_info_t), intent(inout) :: info
    end function

    integer(c_int32_t) function c_gpuzip_codec_bound(config, fields, nfields, bytes) bind(c, name='gpuzip_codec_bound')
      import
      type(gpuzip_config_t), intent(in) :: config
      type(gpuzip_field_t), intent(in) :: fields(*)
      integer(c_int32_t), value :: nfields
      integer(c_int64_t), intent(inout) :: bytes
    end function

    integer(c_int32_t) function c_gpuzip_codec_compress(config, fields, nfields, stream, capacity, bytes) &
        bind(c, name='gpuzip_codec_compress')
      import
      type(gpuzip_config_t), intent(in) :: config
      type(gpuzip_field_t), intent(in) :: fields(*)
      integer(c_int32_t), value :: nfields
      type(c_ptr), value :: stream
      integer(c_int64_t), value :: capacity
      integer(c_int64_t), intent(inout) :: bytes
    end function

    integer(c_int32_t) function c_gpuzip_codec_decompress(stream, bytes, fields, nfields) &
        bind(c, name='gpuzip_codec_decompress')
      import
      type(c_ptr), value :: stream
      integer(c_int64_t), value :: bytes
      type(gpuzip_field_t), intent(in) :: fields(*)
      integer(c_int32_t), value :: nfields
    end function

    integer(c_int32_t) function c_gpuzip_codec_info(stream, bytes, index, info) bind(c, name='gpuzip_codec_info')
      import
      type(c_ptr), value :: stream
      integer(c_int64_t), value :: bytes
      integer(c_int32_t), value :: index
      type(gpuzip_codec_info_t), intent(inout) :: info
    end function

    integer(c_int32_t) function c_gpuzip_codec_register(plugin, compressor) bind(c, name='gpuzip_codec_register')
      import
      type(gpuzip_codec_plugin_t), intent(in) :: plugin
      integer(c_int32_t), intent(inout) :: compressor
    end function
  end interface
  ! } generated: c

  interface gpuzip_field
    module procedure field_at, field_at_int64
  end interface
  interface gpuzip_save
    module procedure save_fields
  end interface
  interface gpuzip_retrieve
    module procedure retrieve_fields
  end interface
  ! generated: kinds and ranks {
  interface gpuzip_field
    module procedure field_f32_0, field_f32_1, field_f32_2, field_f32_3, field_f32_4
    module procedure field_f64_0, field_f64_1, field_f64_2, field_f64_3, field_f64_4
    module procedure field_i8_0, field_i8_1, field_i8_2, field_i8_3, field_i8_4
    module procedure field_i16_0, field_i16_1, field_i16_2, field_i16_3, field_i16_4
    module procedure field_i32_0, field_i32_1, field_i32_2, field_i32_3, field_i32_4
    module procedure field_i64_0, field_i64_1, field_i64_2, field_i64_3, field_i64_4
    module procedure field_complex_f32_0, field_complex_f32_1, field_complex_f32_2, field_complex_f32_3, field_complex_f32_4
    module procedure field_complex_f64_0, field_complex_f64_1, field_complex_f64_2, field_complex_f64_3, field_complex_f64_4
  end interface
  interface gpuzip_save
    module procedure save_f32_0, save_f32_1, save_f32_2, save_f32_3, save_f32_4
    module procedure save_f64_0, save_f64_1, save_f64_2, save_f64_3, save_f64_4
  end interface
  interface gpuzip_retrieve
    module procedure retrieve_f32_0, retrieve_f32_1, retrieve_f32_2, retrieve_f32_3, retrieve_f32_4
    module procedure retrieve_f64_0, retrieve_f64_1, retrieve_f64_2, retrieve_f64_3, retrieve_f64_4
  end interface
  interface gpuzip_view
    module procedure view_f32_0, view_f32_1, view_f32_2, view_f32_3, view_f32_4
    module procedure view_f64_0, view_f64_1, view_f64_2, view_f64_3, view_f64_4
  end interface
  ! } generated: kinds and ranks

  public :: gpuzip_field, gpuzip_stream, gpuzip_to_c, gpuzip_from_c, gpuzip_has_flag
  public :: gpuzip_last_error, gpuzip_status_string, gpuzip_version, gpuzip_abi_version, gpuzip_algorithm_name
  public :: gpuzip_set_log_level, gpuzip_set_log_callback, gpuzip_config_init, gpuzip_config_load, gpuzip_config_free
  public :: gpuzip_schedule_create, gpuzip_schedule_get_action, gpuzip_schedule_rewind, gpuzip_schedule_summary
  public :: gpuzip_schedule_release, gpuzip_init, gpuzip_attach, gpuzip_get_schedule, gpuzip_setup, gpuzip_get_action
  public :: gpuzip_dispatch, gpuzip_save, gpuzip_retrieve, gpuzip_save_begin, gpuzip_save_commit, gpuzip_retrieve_acquire
  public :: gpuzip_retrieve_release, gpuzip_view, gpuzip_synchronize, gpuzip_stats, gpuzip_summary, gpuzip_memory_required
  public :: gpuzip_run_forward, gpuzip_run_reverse, gpuzip_peek_action, gpuzip_schedule_peek_action
  public :: gpuzip_fingerprint, gpuzip_schedule_fingerprint, gpuzip_agree
  public :: gpuzip_finalize, gpuzip_codec_bound, gpuzip_codec_compress, gpuzip_codec_decompress, gpuzip_codec_info
  public :: gpuzip_codec_register, gpuzip_autotune, gpuzip_profile_export, gpuzip_profile_import, gpuzip_profile_info

contains

  ! Texts, fields, flags.

  ! The Fortran text of a C string; empty for NULL.
  function gpuzip_from_c(string) result(text)
    type(c_ptr), intent(in) :: string
    character(:), allocatable :: text
    character(kind=c_char), pointer :: c(:)
    integer :: i
    interface
      integer(c_size_t) function strlen(string) bind(c)
        import
        type(c_ptr), value :: string
      end function
    end interface
    if (.not. c_associated(string)) then
      text = ''
      return
    end if
    call c_f_pointer(string, c, [strlen(string)])
    allocate (character(size(c)) :: text)
    do i = 1, size(c)
      text(i:i) = c(i)
    end do
  end function

  ! The C string of `text` without trailing blanks, made in `buffer`, which has to live as long as the string is used:
  ! `config%trace_file_path = gpuzip_to_c('zcut.trace', buffer)`, with a buffer for each text, until gpuzip_init has copied it.
  function gpuzip_to_c(text, buffer) result(string)
    character(*), intent(in) :: text
    character(kind=c_char), allocatable, target, intent(out) :: buffer(:)
    type(c_ptr) :: string
    integer :: i
    allocate (buffer(len_trim(text) + 1))
    do i = 1, len_trim(text)
      buffer(i) = text(i:i)
    end do
    buffer(size(buffer)) = c_null_char
    string = c_loc(buffer)
  end function

  ! A stream from the integer that CUDA Fortran and OpenACC's acc_get_cuda_stream call it.
  elemental function gpuzip_stream(number) result(stream)
    integer(c_intptr_t), intent(in) :: number
    type(c_ptr) :: stream
    stream = transfer(number, c_null_ptr)
  end function

  ! Whether an action has a flag: gpuzip_has_flag(action, gpuzip_flag_recompute).
  elemental logical function gpuzip_has_flag(action, flag)
    type(gpuzip_action_t), intent(in) :: action
    integer(c_int32_t), intent(in) :: flag
    gpuzip_has_flag = iand(action%flags, flag) /= 0
  end function

  ! gpuzip_field(address, type, shape [, role]): contiguous memory at `address`, of GPUZIP_TYPE_*; a shape of up to 4 extents.
  function field_at(address, type, shape, role) result(field)
    type(c_ptr), intent(in) :: address
    integer(c_int32_t), intent(in) :: type
    integer(c_int32_t), intent(in) :: shape(:)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = described(address, type, int(shape, c_int64_t), role)
  end function

  function field_at_int64(address, type, shape, role) result(field)
    type(c_ptr), intent(in) :: address
    integer(c_int32_t), intent(in) :: type
    integer(c_int64_t), intent(in) :: shape(:)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = described(address, type, shape, role)
  end function

  function described(address, type, extents, role) result(field)
    type(c_ptr), intent(in) :: address
    integer(c_int32_t), intent(in) :: type
    integer(c_int64_t), intent(in) :: extents(:)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field%data = address
    field%n1 = product(extents(:min(1, size(extents))))
    field%n2 = product(extents(2:min(2, size(extents))))
    field%n3 = product(extents(3:))
    field%type = type
    if (present(role)) field%role = int(role, c_int32_t)
  end function

  ! The pitches of a section with these extents, whose elements have `bits` bits and whose second elements in each dimension are at
  ! `second`.
  subroutine set_pitches(field, extents, bits, second)
    type(gpuzip_field_t), intent(inout) :: field
    integer(c_int64_t), intent(in) :: extents(:)
    integer, intent(in) :: bits
    type(c_ptr), intent(in) :: second(:)
    integer(c_int64_t) :: n(4), apart(4), bytes
    logical :: described_by_pitches
    n = 1
    n(:size(extents)) = extents
    apart = 0
    apart(:size(extents)) = transfer(second, 0_c_intptr_t, size(second)) - transfer(field%data, 0_c_intptr_t)
    bytes = bits / 8
    described_by_pitches = all(apart >= 0) .and. all(mod(apart, bytes) == 0)
    if (n(1) > 1) described_by_pitches = described_by_pitches .and. apart(1) == bytes
    if (n(3) > 1 .and. n(4) > 1) described_by_pitches = described_by_pitches .and. apart(4) == n(3) * apart(3)
    if (n(2) > 1) field%pitch2 = apart(2) / bytes
    if (n(3) > 1) then
      field%pitch3 = apart(3) / bytes
    else if (n(4) > 1) then
      field%pitch3 = apart(4) / bytes
    end if
    if (.not. described_by_pitches) field%type = gpuzip_type_strided
  end subroutine

  ! Errors.

  ! What ends every call: `status` to `stat`, the reason to `errmsg`, or both to the user and an end.
  subroutine finish(status, stat, errmsg, reason)
    integer(c_int32_t), intent(in) :: status
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(*), intent(in), optional :: reason
    character(:), allocatable :: text
    if (present(stat)) stat = status
    if (status >= 0) return
    if (present(reason)) then
      text = reason
    else
      text = gpuzip_last_error()
    end if
    if (present(errmsg)) errmsg = text
    if (present(stat)) return
    write (error_unit, '(a)') text
    flush (error_unit)
    error stop 1
  end subroutine

  ! Whether pitches describe all fields; if not, `call` is over.
  logical function is_described(fields, call, stat, errmsg)
    type(gpuzip_field_t), intent(in), target :: fields(:)
    character(*), intent(in) :: call
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(12) :: number
    integer :: i
    is_described = all(fields%type /= gpuzip_type_strided)
    if (is_described) return
    do i = 1, size(fields)
      if (fields(i)%type == gpuzip_type_strided) exit
    end do
    write (number, '(i0)') i
    call finish(gpuzip_err_argument, stat, errmsg, call // ': field ' // trim(number) // &
                ' is a strided section; its first dimension has to be contiguous, and of rank 4 the last two have to be one; ' // &
                'pass such a section, a whole array or a contiguous copy')
  end function

  ! Whether an array of `type` and `extents` is what a field is; if not, gpuzip_view is over.
  logical function matches(field, type, extents, stat, errmsg)
    type(gpuzip_field_t), intent(in) :: field
    integer(c_int32_t), intent(in) :: type
    integer(c_int64_t), intent(in) :: extents(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(200) :: reason
    matches = .false.
    reason = ''
    if (.not. c_associated(field%data)) then
      reason = 'the field has no data; gpuzip_save_begin and gpuzip_retrieve_acquire set it'
    else if (field%type /= type) then
      write (reason, '(a, i0, a, i0)') 'the field has the type ', field%type, ' and the pointer the type ', type
    else if (product(extents) /= field%n1 * field%n2 * field%n3) then
      write (reason, '(3(a, i0), a, *(i0, :, " x "))') &
        'the field has ', field%n1, ' x ', field%n2, ' x ', field%n3, ' values and the pointer the shape ', extents
    else if (field%pitch2 > field%n1 .or. field%pitch3 > field%n1 * field%n2) then
      reason = 'the field has gaps between its rows'
    else
      matches = .true.
    end if
    call finish(merge(gpuzip_ok, gpuzip_err_shape, matches), stat, errmsg, 'gpuzip_view: ' // trim(reason))
  end function

  ! Puts the addresses that the library handed out into fields, which are contiguous there.
  subroutine hand_out(fields, data)
    type(gpuzip_field_t), intent(inout) :: fields(:)
    type(c_ptr), intent(in) :: data(:)
    integer :: i
    do i = 1, size(fields)
      if (.not. c_associated(data(i)) .or. c_associated(fields(i)%data, data(i))) cycle
      fields(i)%data = data(i)
      fields(i)%pitch2 = 0
      fields(i)%pitch3 = 0
    end do
  end subroutine

  ! What a missing stream is.
  function stream_or_null(stream) result(address)
    type(c_ptr), intent(in), optional :: stream
    type(c_ptr) :: address
    address = c_null_ptr
    if (present(stream)) address = stream
  end function

  ! The reason of this thread's last error that the library found. (`errmsg` also has those that this module found.)
  function gpuzip_last_error() result(text)
    character(:), allocatable :: text
    text = gpuzip_from_c(c_gpuzip_last_error())
  end function

  ! A short name of a status.
  function gpuzip_status_string(status) result(text)
    integer, intent(in) :: status
    character(:), allocatable :: text
    text = gpuzip_from_c(c_gpuzip_status_string(int(status, c_int32_t)))
  end function

  ! "major.minor.patch".
  function gpuzip_version() result(text)
    character(:), allocatable :: text
    text = gpuzip_from_c(c_gpuzip_version())
  end function

  integer(c_int32_t) function gpuzip_abi_version()
    gpuzip_abi_version = c_gpuzip_abi_version()
  end function

  function gpuzip_algorithm_name(algorithm) result(text)
    integer(c_int32_t), intent(in) :: algorithm
    character(:), allocatable :: text
    text = gpuzip_from_c(c_gpuzip_algorithm_name(algorithm))
  end function

  ! Logging and configuration.

  subroutine gpuzip_set_log_level(level, stat, errmsg)
    integer, intent(in) :: level
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_set_log_level(int(level, c_int32_t)), stat, errmsg)
  end subroutine

  ! Without `callback` log lines go to stderr again. It may be called from any thread; gpuzip_from_c(message) is its text.
  subroutine gpuzip_set_log_callback(callback, user, stat, errmsg)
    procedure(gpuzip_log_callback_t), optional :: callback
    type(c_ptr), intent(in), optional :: user
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_funptr) :: address
    address = c_null_funptr
    if (present(callback)) address = c_funloc(callback)
    call finish(c_gpuzip_set_log_callback(address, stream_or_null(user)), stat, errmsg)
  end subroutine

  subroutine gpuzip_config_init(config, stat, errmsg)
    type(gpuzip_config_t), intent(inout) :: config
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_config_init(config), stat, errmsg)
  end subroutine

  ! The defaults, then the file at `path` if it is given and not blank, then the variables GPUZIP_<KEY>.
  subroutine gpuzip_config_load(config, path, stat, errmsg)
    type(gpuzip_config_t), intent(inout) :: config
    character(*), intent(in), optional :: path
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: buffer(:)
    type(c_ptr) :: address
    address = c_null_ptr
    if (present(path)) then
      if (path /= '') address = gpuzip_to_c(path, buffer)
    end if
    call finish(c_gpuzip_config_load(address, config), stat, errmsg)
  end subroutine

  subroutine gpuzip_config_free(config, stat, errmsg)
    type(gpuzip_config_t), intent(inout) :: config
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_config_free(config), stat, errmsg)
  end subroutine

  ! Schedules.

  subroutine gpuzip_schedule_create(config, steps, schedule, stat, errmsg)
    type(gpuzip_config_t), intent(in) :: config
    integer(c_int32_t), intent(in) :: steps
    type(gpuzip_schedule_t), intent(inout) :: schedule
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_schedule_create(config, steps, schedule%handle), stat, errmsg)
  end subroutine

  subroutine gpuzip_schedule_get_action(schedule, action, stat, errmsg)
    type(gpuzip_schedule_t), intent(in) :: schedule
    type(gpuzip_action_t), intent(inout) :: action
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_schedule_get_action(schedule%handle, action), stat, errmsg)
  end subroutine

  subroutine gpuzip_schedule_peek_action(schedule, action, stat, errmsg)
    type(gpuzip_schedule_t), intent(in) :: schedule
    type(gpuzip_action_t), intent(inout) :: action
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_schedule_peek_action(schedule%handle, action), stat, errmsg)
  end subroutine

  subroutine gpuzip_schedule_fingerprint(schedule, fingerprint, stat, errmsg)
    type(gpuzip_schedule_t), intent(in) :: schedule
    integer(c_int64_t), intent(inout) :: fingerprint
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_schedule_fingerprint(schedule%handle, fingerprint), stat, errmsg)
  end subroutine

  subroutine gpuzip_schedule_rewind(schedule, stat, errmsg)
    type(gpuzip_schedule_t), intent(in) :: schedule
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_schedule_rewind(schedule%handle), stat, errmsg)
  end subroutine

  subroutine gpuzip_schedule_summary(schedule, summary, stat, errmsg)
    type(gpuzip_schedule_t), intent(in) :: schedule
    type(gpuzip_summary_t), intent(inout) :: summary
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_schedule_summary(schedule%handle, summary), stat, errmsg)
  end subroutine

  subroutine gpuzip_schedule_release(schedule, stat, errmsg)
    type(gpuzip_schedule_t), intent(in) :: schedule
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_schedule_release(schedule%handle), stat, errmsg)
  end subroutine

  ! Sessions.

  subroutine gpuzip_init(config, steps, fields, handle, stat, errmsg)
    type(gpuzip_config_t), intent(in) :: config
    integer(c_int32_t), intent(in) :: steps
    type(gpuzip_field_t), intent(in), target :: fields(:)
    type(gpuzip_t), intent(inout) :: handle
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (.not. is_described(fields, 'gpuzip_init', stat, errmsg)) return
    call finish(c_gpuzip_init(config, steps, fields, size(fields, kind=c_int32_t), handle%handle), stat, errmsg)
  end subroutine

  subroutine gpuzip_attach(schedule, config, fields, handle, stat, errmsg)
    type(gpuzip_schedule_t), intent(in) :: schedule
    type(gpuzip_config_t), intent(in) :: config
    type(gpuzip_field_t), intent(in), target :: fields(:)
    type(gpuzip_t), intent(inout) :: handle
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (.not. is_described(fields, 'gpuzip_attach', stat, errmsg)) return
    call finish(c_gpuzip_attach(schedule%handle, config, fields, size(fields, kind=c_int32_t), handle%handle), stat, errmsg)
  end subroutine

  subroutine gpuzip_get_schedule(handle, schedule, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    type(gpuzip_schedule_t), intent(inout) :: schedule
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_get_schedule(handle%handle, schedule%handle), stat, errmsg)
  end subroutine

  subroutine gpuzip_setup(handle, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_setup(handle%handle), stat, errmsg)
  end subroutine

  subroutine gpuzip_get_action(handle, action, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    type(gpuzip_action_t), intent(inout) :: action
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_get_action(handle%handle, action), stat, errmsg)
  end subroutine

  subroutine gpuzip_peek_action(handle, action, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    type(gpuzip_action_t), intent(inout) :: action
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_peek_action(handle%handle, action), stat, errmsg)
  end subroutine

  subroutine gpuzip_fingerprint(handle, fingerprint, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int64_t), intent(inout) :: fingerprint
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_fingerprint(handle%handle, fingerprint), stat, errmsg)
  end subroutine

  ! `least` takes the least of its value over all ranks; `user` is given to it, a communicator for one. A rank without a session takes part
  ! with the handle that gpuzip_init has left as it was.
  subroutine gpuzip_agree(handle, least, user, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    procedure(gpuzip_least_t) :: least
    type(c_ptr), intent(in), optional :: user
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_agree(handle%handle, c_funloc(least), stream_or_null(user)), stat, errmsg)
  end subroutine

  subroutine gpuzip_dispatch(handle, it, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int64_t), intent(in) :: it
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_dispatch(handle%handle, it), stat, errmsg)
  end subroutine

  ! gpuzip_save(handle, ts, fields | curr [, prev] [, stream] [, stat] [, errmsg])
  subroutine save_fields(handle, ts, fields, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    type(gpuzip_field_t), intent(in), target :: fields(:)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (.not. is_described(fields, 'gpuzip_save', stat, errmsg)) return
    call finish(c_gpuzip_save(handle%handle, ts, fields, size(fields, kind=c_int32_t), stream_or_null(stream)), stat, errmsg)
  end subroutine

  ! gpuzip_retrieve(handle, ts, fields | curr [, prev] [, stream] [, stat] [, errmsg])
  subroutine retrieve_fields(handle, ts, fields, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    type(gpuzip_field_t), intent(in), target :: fields(:)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (.not. is_described(fields, 'gpuzip_retrieve', stat, errmsg)) return
    call finish(c_gpuzip_retrieve(handle%handle, ts, fields, size(fields, kind=c_int32_t), stream_or_null(stream)), stat, errmsg)
  end subroutine

  ! Zero copy: sets the data of `fields`, contiguous memory, whose shapes it does not look at; gpuzip_view makes pointers of them.
  subroutine gpuzip_save_begin(handle, ts, fields, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    type(gpuzip_field_t), intent(inout), target :: fields(:)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_ptr) :: data(size(fields))
    data = fields%data
    call finish(c_gpuzip_save_begin(handle%handle, ts, data, size(data, kind=c_int32_t), stream_or_null(stream)), &
                stat, errmsg)
    call hand_out(fields, data)
  end subroutine

  subroutine gpuzip_save_commit(handle, ts, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_save_commit(handle%handle, ts, stream_or_null(stream)), stat, errmsg)
  end subroutine

  ! Zero copy: sets the data of `fields` as gpuzip_save_begin does.
  subroutine gpuzip_retrieve_acquire(handle, ts, fields, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    type(gpuzip_field_t), intent(inout), target :: fields(:)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_ptr) :: data(size(fields))
    data = fields%data
    call finish(c_gpuzip_retrieve_acquire(handle%handle, ts, data, size(data, kind=c_int32_t), stream_or_null(stream)), &
                stat, errmsg)
    call hand_out(fields, data)
  end subroutine

  subroutine gpuzip_retrieve_release(handle, ts, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_retrieve_release(handle%handle, ts, stream_or_null(stream)), stat, errmsg)
  end subroutine

  subroutine gpuzip_synchronize(handle, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_synchronize(handle%handle), stat, errmsg)
  end subroutine

  subroutine gpuzip_stats(handle, stats, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    type(gpuzip_stats_t), intent(inout) :: stats
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_stats(handle%handle, stats), stat, errmsg)
  end subroutine

  subroutine gpuzip_summary(handle, summary, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    type(gpuzip_summary_t), intent(inout) :: summary
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_summary(handle%handle, summary), stat, errmsg)
  end subroutine

  subroutine gpuzip_memory_required(config, steps, fields, summary, stat, errmsg)
    type(gpuzip_config_t), intent(in) :: config
    integer(c_int32_t), intent(in) :: steps
    type(gpuzip_field_t), intent(in), target :: fields(:)
    type(gpuzip_summary_t), intent(inout) :: summary
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (.not. is_described(fields, 'gpuzip_memory_required', stat, errmsg)) return
    call finish(c_gpuzip_memory_required(config, steps, fields, size(fields, kind=c_int32_t), summary), stat, errmsg)
  end subroutine

  subroutine gpuzip_finalize(handle, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_finalize(handle%handle), stat, errmsg)
  end subroutine

  ! Runs by callbacks: c_funloc of bind(c) procedures with the interfaces gpuzip_forward_t and so on, and c_loc of what they share.

  ! Callbacks and fields hold addresses of what the call changes: as targets, the compiler must not take that for unchanged after it.
  subroutine gpuzip_run_forward(handle, callbacks, fields, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    type(gpuzip_callbacks_t), intent(in), target :: callbacks
    type(gpuzip_field_t), intent(in), target :: fields(:)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (.not. is_described(fields, 'gpuzip_run_forward', stat, errmsg)) return
    call finish(c_gpuzip_run_forward(handle%handle, callbacks, fields, size(fields, kind=c_int32_t), stream_or_null(stream)), &
                stat, errmsg)
  end subroutine

  subroutine gpuzip_run_reverse(handle, callbacks, fields, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    type(gpuzip_callbacks_t), intent(in), target :: callbacks
    type(gpuzip_field_t), intent(in), target :: fields(:)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (.not. is_described(fields, 'gpuzip_run_reverse', stat, errmsg)) return
    call finish(c_gpuzip_run_reverse(handle%handle, callbacks, fields, size(fields, kind=c_int32_t), stream_or_null(stream)), &
                stat, errmsg)
  end subroutine

  ! Profiles. One is an array of bytes.

  subroutine gpuzip_autotune(handle, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_autotune(handle%handle), stat, errmsg)
  end subroutine

  ! `profile` is allocated here; on an error it is not allocated.
  subroutine gpuzip_profile_export(handle, profile, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int8_t), allocatable, target, intent(out) :: profile(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: bytes
    integer(c_int32_t) :: status
    bytes = 0
    status = c_gpuzip_profile_export(handle%handle, c_null_ptr, 0_c_int64_t, bytes)
    if (status >= 0) then
      allocate (profile(bytes))
      status = c_gpuzip_profile_export(handle%handle, c_loc(profile), bytes, bytes)
    end if
    call finish(status, stat, errmsg)
  end subroutine

  subroutine gpuzip_profile_import(handle, profile, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int8_t), contiguous, target, intent(in) :: profile(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_profile_import(handle%handle, c_loc(profile), size(profile, kind=c_int64_t)), stat, errmsg)
  end subroutine

  ! `index` counts codecs from 0, as in C.
  subroutine gpuzip_profile_info(profile, index, info, stat, errmsg)
    integer(c_int8_t), contiguous, target, intent(in) :: profile(:)
    integer, intent(in) :: index
    type(gpuzip_profile_info_t), intent(inout) :: info
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_profile_info(c_loc(profile), size(profile, kind=c_int64_t), int(index, c_int32_t), info), stat, errmsg)
  end subroutine

  ! Codecs alone. A compressed stream is an array of bytes.

  subroutine gpuzip_codec_bound(config, fields, bytes, stat, errmsg)
    type(gpuzip_config_t), intent(in) :: config
    type(gpuzip_field_t), intent(in), target :: fields(:)
    integer(c_int64_t), intent(inout) :: bytes
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (.not. is_described(fields, 'gpuzip_codec_bound', stat, errmsg)) return
    call finish(c_gpuzip_codec_bound(config, fields, size(fields, kind=c_int32_t), bytes), stat, errmsg)
  end subroutine

  ! The stream becomes stream(:bytes); gpuzip_codec_bound says how many elements suffice.
  subroutine gpuzip_codec_compress(config, fields, stream, bytes, stat, errmsg)
    type(gpuzip_config_t), intent(in) :: config
    type(gpuzip_field_t), intent(in), target :: fields(:)
    integer(c_int8_t), contiguous, target, intent(inout) :: stream(:)
    integer(c_int64_t), intent(inout) :: bytes
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (.not. is_described(fields, 'gpuzip_codec_compress', stat, errmsg)) return
    call finish(c_gpuzip_codec_compress(config, fields, size(fields, kind=c_int32_t), c_loc(stream), size(stream, kind=c_int64_t), &
                                        bytes), stat, errmsg)
  end subroutine

  ! `stream` is as long as it was made: stream(:bytes).
  subroutine gpuzip_codec_decompress(stream, fields, stat, errmsg)
    integer(c_int8_t), contiguous, target, intent(in) :: stream(:)
    type(gpuzip_field_t), intent(in), target :: fields(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (.not. is_described(fields, 'gpuzip_codec_decompress', stat, errmsg)) return
    call finish(c_gpuzip_codec_decompress(c_loc(stream), size(stream, kind=c_int64_t), fields, size(fields, kind=c_int32_t)), &
                stat, errmsg)
  end subroutine

  ! `index` counts from 0, as in C.
  subroutine gpuzip_codec_info(stream, index, info, stat, errmsg)
    integer(c_int8_t), contiguous, target, intent(in) :: stream(:)
    integer, intent(in) :: index
    type(gpuzip_codec_info_t), intent(inout) :: info
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_codec_info(c_loc(stream), size(stream, kind=c_int64_t), int(index, c_int32_t), info), stat, errmsg)
  end subroutine

  ! The functions of `plugin` are c_funloc of procedures with the interfaces gpuzip_codec_*_t; its name comes from gpuzip_to_c.
  subroutine gpuzip_codec_register(plugin, compressor, stat, errmsg)
    type(gpuzip_codec_plugin_t), intent(in), target :: plugin
    integer(c_int32_t), intent(inout) :: compressor
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish(c_gpuzip_codec_register(plugin, compressor), stat, errmsg)
  end subroutine

  ! One of each kind and rank.

  ! generated: procedures {

  function field_f32_0(array, role) result(field)
    real(c_float), target, intent(in) :: array
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = described(c_loc(array), gpuzip_type_f32, shape(array, c_int64_t), role)
  end function

  subroutine save_f32_0(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_float), target, intent(in) :: curr
    real(c_float), target, intent(in), optional :: prev
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call save_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call save_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine retrieve_f32_0(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_float), target, intent(inout) :: curr
    real(c_float), target, intent(inout), optional :: prev
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call retrieve_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call retrieve_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine view_f32_0(field, array, stat, errmsg)
    type(gpuzip_field_t), intent(in) :: field
    real(c_float), pointer, intent(out) :: array
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    nullify (array)
    if (matches(field, gpuzip_type_f32, [integer(c_int64_t) ::], stat, errmsg)) call c_f_pointer(field%data, array)
  end subroutine

  function field_f32_1(array, role) result(field)
    real(c_float), target, intent(in) :: array(:)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(1)
    field = described(c_loc(array), gpuzip_type_f32, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1)))])
  end function

  subroutine save_f32_1(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_float), target, intent(in) :: curr(:)
    real(c_float), target, intent(in), optional :: prev(:)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call save_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call save_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine retrieve_f32_1(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_float), target, intent(inout) :: curr(:)
    real(c_float), target, intent(inout), optional :: prev(:)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call retrieve_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call retrieve_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine view_f32_1(field, array, extents, stat, errmsg)
    type(gpuzip_field_t), intent(in) :: field
    real(c_float), pointer, intent(out) :: array(:)
    integer, intent(in), optional :: extents(1)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: n(1)
    n = [field%n1]
    if (present(extents)) n = extents
    nullify (array)
    if (matches(field, gpuzip_type_f32, n, stat, errmsg)) call c_f_pointer(field%data, array, n)
  end subroutine

  function field_f32_2(array, role) result(field)
    real(c_float), target, intent(in) :: array(:, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(2)
    field = described(c_loc(array), gpuzip_type_f32, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1)), c_loc(array(1, k(2)))])
  end function

  subroutine save_f32_2(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_float), target, intent(in) :: curr(:, :)
    real(c_float), target, intent(in), optional :: prev(:, :)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call save_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call save_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine retrieve_f32_2(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_float), target, intent(inout) :: curr(:, :)
    real(c_float), target, intent(inout), optional :: prev(:, :)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call retrieve_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call retrieve_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine view_f32_2(field, array, extents, stat, errmsg)
    type(gpuzip_field_t), intent(in) :: field
    real(c_float), pointer, intent(out) :: array(:, :)
    integer, intent(in), optional :: extents(2)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: n(2)
    n = [field%n1, field%n2]
    if (present(extents)) n = extents
    nullify (array)
    if (matches(field, gpuzip_type_f32, n, stat, errmsg)) call c_f_pointer(field%data, array, n)
  end subroutine

  function field_f32_3(array, role) result(field)
    real(c_float), target, intent(in) :: array(:, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(3)
    field = described(c_loc(array), gpuzip_type_f32, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1, 1)), c_loc(array(1, k(2), 1)), c_loc(array(1, 1, k(3)))])
  end function

  subroutine save_f32_3(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_float), target, intent(in) :: curr(:, :, :)
    real(c_float), target, intent(in), optional :: prev(:, :, :)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call save_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call save_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine retrieve_f32_3(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_float), target, intent(inout) :: curr(:, :, :)
    real(c_float), target, intent(inout), optional :: prev(:, :, :)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call retrieve_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call retrieve_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine view_f32_3(field, array, extents, stat, errmsg)
    type(gpuzip_field_t), intent(in) :: field
    real(c_float), pointer, intent(out) :: array(:, :, :)
    integer, intent(in), optional :: extents(3)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: n(3)
    n = [field%n1, field%n2, field%n3]
    if (present(extents)) n = extents
    nullify (array)
    if (matches(field, gpuzip_type_f32, n, stat, errmsg)) call c_f_pointer(field%data, array, n)
  end subroutine

  function field_f32_4(array, role) result(field)
    real(c_float), target, intent(in) :: array(:, :, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(4)
    field = described(c_loc(array), gpuzip_type_f32, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1, 1, 1)), c_loc(array(1, k(2), 1, 1)), c_loc(array(1, 1, k(3), 1)), &
                      c_loc(array(1, 1, 1, k(4)))])
  end function

  subroutine save_f32_4(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_float), target, intent(in) :: curr(:, :, :, :)
    real(c_float), target, intent(in), optional :: prev(:, :, :, :)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call save_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call save_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine retrieve_f32_4(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_float), target, intent(inout) :: curr(:, :, :, :)
    real(c_float), target, intent(inout), optional :: prev(:, :, :, :)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call retrieve_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call retrieve_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine view_f32_4(field, array, extents, stat, errmsg)
    type(gpuzip_field_t), intent(in) :: field
    real(c_float), pointer, intent(out) :: array(:, :, :, :)
    integer, intent(in), optional :: extents(4)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: n(4)
    n = [field%n1, field%n2, field%n3, 1_c_int64_t]
    if (present(extents)) n = extents
    nullify (array)
    if (matches(field, gpuzip_type_f32, n, stat, errmsg)) call c_f_pointer(field%data, array, n)
  end subroutine

  function field_f64_0(array, role) result(field)
    real(c_double), target, intent(in) :: array
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = described(c_loc(array), gpuzip_type_f64, shape(array, c_int64_t), role)
  end function

  subroutine save_f64_0(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_double), target, intent(in) :: curr
    real(c_double), target, intent(in), optional :: prev
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call save_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call save_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine retrieve_f64_0(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_double), target, intent(inout) :: curr
    real(c_double), target, intent(inout), optional :: prev
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call retrieve_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call retrieve_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine view_f64_0(field, array, stat, errmsg)
    type(gpuzip_field_t), intent(in) :: field
    real(c_double), pointer, intent(out) :: array
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    nullify (array)
    if (matches(field, gpuzip_type_f64, [integer(c_int64_t) ::], stat, errmsg)) call c_f_pointer(field%data, array)
  end subroutine

  function field_f64_1(array, role) result(field)
    real(c_double), target, intent(in) :: array(:)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(1)
    field = described(c_loc(array), gpuzip_type_f64, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1)))])
  end function

  subroutine save_f64_1(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_double), target, intent(in) :: curr(:)
    real(c_double), target, intent(in), optional :: prev(:)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call save_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call save_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine retrieve_f64_1(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_double), target, intent(inout) :: curr(:)
    real(c_double), target, intent(inout), optional :: prev(:)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call retrieve_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call retrieve_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine view_f64_1(field, array, extents, stat, errmsg)
    type(gpuzip_field_t), intent(in) :: field
    real(c_double), pointer, intent(out) :: array(:)
    integer, intent(in), optional :: extents(1)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: n(1)
    n = [field%n1]
    if (present(extents)) n = extents
    nullify (array)
    if (matches(field, gpuzip_type_f64, n, stat, errmsg)) call c_f_pointer(field%data, array, n)
  end subroutine

  function field_f64_2(array, role) result(field)
    real(c_double), target, intent(in) :: array(:, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(2)
    field = described(c_loc(array), gpuzip_type_f64, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1)), c_loc(array(1, k(2)))])
  end function

  subroutine save_f64_2(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_double), target, intent(in) :: curr(:, :)
    real(c_double), target, intent(in), optional :: prev(:, :)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call save_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call save_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine retrieve_f64_2(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_double), target, intent(inout) :: curr(:, :)
    real(c_double), target, intent(inout), optional :: prev(:, :)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call retrieve_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call retrieve_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine view_f64_2(field, array, extents, stat, errmsg)
    type(gpuzip_field_t), intent(in) :: field
    real(c_double), pointer, intent(out) :: array(:, :)
    integer, intent(in), optional :: extents(2)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: n(2)
    n = [field%n1, field%n2]
    if (present(extents)) n = extents
    nullify (array)
    if (matches(field, gpuzip_type_f64, n, stat, errmsg)) call c_f_pointer(field%data, array, n)
  end subroutine

  function field_f64_3(array, role) result(field)
    real(c_double), target, intent(in) :: array(:, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(3)
    field = described(c_loc(array), gpuzip_type_f64, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1, 1)), c_loc(array(1, k(2), 1)), c_loc(array(1, 1, k(3)))])
  end function

  subroutine save_f64_3(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_double), target, intent(in) :: curr(:, :, :)
    real(c_double), target, intent(in), optional :: prev(:, :, :)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call save_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call save_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine retrieve_f64_3(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_double), target, intent(inout) :: curr(:, :, :)
    real(c_double), target, intent(inout), optional :: prev(:, :, :)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call retrieve_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call retrieve_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine view_f64_3(field, array, extents, stat, errmsg)
    type(gpuzip_field_t), intent(in) :: field
    real(c_double), pointer, intent(out) :: array(:, :, :)
    integer, intent(in), optional :: extents(3)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: n(3)
    n = [field%n1, field%n2, field%n3]
    if (present(extents)) n = extents
    nullify (array)
    if (matches(field, gpuzip_type_f64, n, stat, errmsg)) call c_f_pointer(field%data, array, n)
  end subroutine

  function field_f64_4(array, role) result(field)
    real(c_double), target, intent(in) :: array(:, :, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(4)
    field = described(c_loc(array), gpuzip_type_f64, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1, 1, 1)), c_loc(array(1, k(2), 1, 1)), c_loc(array(1, 1, k(3), 1)), &
                      c_loc(array(1, 1, 1, k(4)))])
  end function

  subroutine save_f64_4(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_double), target, intent(in) :: curr(:, :, :, :)
    real(c_double), target, intent(in), optional :: prev(:, :, :, :)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call save_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call save_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine retrieve_f64_4(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    real(c_double), target, intent(inout) :: curr(:, :, :, :)
    real(c_double), target, intent(inout), optional :: prev(:, :, :, :)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call retrieve_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call retrieve_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine

  subroutine view_f64_4(field, array, extents, stat, errmsg)
    type(gpuzip_field_t), intent(in) :: field
    real(c_double), pointer, intent(out) :: array(:, :, :, :)
    integer, intent(in), optional :: extents(4)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: n(4)
    n = [field%n1, field%n2, field%n3, 1_c_int64_t]
    if (present(extents)) n = extents
    nullify (array)
    if (matches(field, gpuzip_type_f64, n, stat, errmsg)) call c_f_pointer(field%data, array, n)
  end subroutine

  function field_i8_0(array, role) result(field)
    integer(c_int8_t), target, intent(in) :: array
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = described(c_loc(array), gpuzip_type_i8, shape(array, c_int64_t), role)
  end function

  function field_i8_1(array, role) result(field)
    integer(c_int8_t), target, intent(in) :: array(:)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(1)
    field = described(c_loc(array), gpuzip_type_i8, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1)))])
  end function

  function field_i8_2(array, role) result(field)
    integer(c_int8_t), target, intent(in) :: array(:, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(2)
    field = described(c_loc(array), gpuzip_type_i8, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1)), c_loc(array(1, k(2)))])
  end function

  function field_i8_3(array, role) result(field)
    integer(c_int8_t), target, intent(in) :: array(:, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(3)
    field = described(c_loc(array), gpuzip_type_i8, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1, 1)), c_loc(array(1, k(2), 1)), c_loc(array(1, 1, k(3)))])
  end function

  function field_i8_4(array, role) result(field)
    integer(c_int8_t), target, intent(in) :: array(:, :, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(4)
    field = described(c_loc(array), gpuzip_type_i8, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1, 1, 1)), c_loc(array(1, k(2), 1, 1)), c_loc(array(1, 1, k(3), 1)), &
                      c_loc(array(1, 1, 1, k(4)))])
  end function

  function field_i16_0(array, role) result(field)
    integer(c_int16_t), target, intent(in) :: array
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = described(c_loc(array), gpuzip_type_i16, shape(array, c_int64_t), role)
  end function

  function field_i16_1(array, role) result(field)
    integer(c_int16_t), target, intent(in) :: array(:)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(1)
    field = described(c_loc(array), gpuzip_type_i16, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1)))])
  end function

  function field_i16_2(array, role) result(field)
    integer(c_int16_t), target, intent(in) :: array(:, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(2)
    field = described(c_loc(array), gpuzip_type_i16, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1)), c_loc(array(1, k(2)))])
  end function

  function field_i16_3(array, role) result(field)
    integer(c_int16_t), target, intent(in) :: array(:, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(3)
    field = described(c_loc(array), gpuzip_type_i16, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1, 1)), c_loc(array(1, k(2), 1)), c_loc(array(1, 1, k(3)))])
  end function

  function field_i16_4(array, role) result(field)
    integer(c_int16_t), target, intent(in) :: array(:, :, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(4)
    field = described(c_loc(array), gpuzip_type_i16, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1, 1, 1)), c_loc(array(1, k(2), 1, 1)), c_loc(array(1, 1, k(3), 1)), &
                      c_loc(array(1, 1, 1, k(4)))])
  end function

  function field_i32_0(array, role) result(field)
    integer(c_int32_t), target, intent(in) :: array
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = described(c_loc(array), gpuzip_type_i32, shape(array, c_int64_t), role)
  end function

  function field_i32_1(array, role) result(field)
    integer(c_int32_t), target, intent(in) :: array(:)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(1)
    field = described(c_loc(array), gpuzip_type_i32, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1)))])
  end function

  function field_i32_2(array, role) result(field)
    integer(c_int32_t), target, intent(in) :: array(:, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(2)
    field = described(c_loc(array), gpuzip_type_i32, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1)), c_loc(array(1, k(2)))])
  end function

  function field_i32_3(array, role) result(field)
    integer(c_int32_t), target, intent(in) :: array(:, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(3)
    field = described(c_loc(array), gpuzip_type_i32, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1, 1)), c_loc(array(1, k(2), 1)), c_loc(array(1, 1, k(3)))])
  end function

  function field_i32_4(array, role) result(field)
    integer(c_int32_t), target, intent(in) :: array(:, :, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(4)
    field = described(c_loc(array), gpuzip_type_i32, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1, 1, 1)), c_loc(array(1, k(2), 1, 1)), c_loc(array(1, 1, k(3), 1)), &
                      c_loc(array(1, 1, 1, k(4)))])
  end function

  function field_i64_0(array, role) result(field)
    integer(c_int64_t), target, intent(in) :: array
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = described(c_loc(array), gpuzip_type_i64, shape(array, c_int64_t), role)
  end function

  function field_i64_1(array, role) result(field)
    integer(c_int64_t), target, intent(in) :: array(:)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(1)
    field = described(c_loc(array), gpuzip_type_i64, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1)))])
  end function

  function field_i64_2(array, role) result(field)
    integer(c_int64_t), target, intent(in) :: array(:, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(2)
    field = described(c_loc(array), gpuzip_type_i64, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1)), c_loc(array(1, k(2)))])
  end function

  function field_i64_3(array, role) result(field)
    integer(c_int64_t), target, intent(in) :: array(:, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(3)
    field = described(c_loc(array), gpuzip_type_i64, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1, 1)), c_loc(array(1, k(2), 1)), c_loc(array(1, 1, k(3)))])
  end function

  function field_i64_4(array, role) result(field)
    integer(c_int64_t), target, intent(in) :: array(:, :, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(4)
    field = described(c_loc(array), gpuzip_type_i64, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1, 1, 1)), c_loc(array(1, k(2), 1, 1)), c_loc(array(1, 1, k(3), 1)), &
                      c_loc(array(1, 1, 1, k(4)))])
  end function

  function field_complex_f32_0(array, role) result(field)
    complex(c_float_complex), target, intent(in) :: array
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = described(c_loc(array), gpuzip_type_complex_f32, shape(array, c_int64_t), role)
  end function

  function field_complex_f32_1(array, role) result(field)
    complex(c_float_complex), target, intent(in) :: array(:)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(1)
    field = described(c_loc(array), gpuzip_type_complex_f32, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1)))])
  end function

  function field_complex_f32_2(array, role) result(field)
    complex(c_float_complex), target, intent(in) :: array(:, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(2)
    field = described(c_loc(array), gpuzip_type_complex_f32, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1)), c_loc(array(1, k(2)))])
  end function

  function field_complex_f32_3(array, role) result(field)
    complex(c_float_complex), target, intent(in) :: array(:, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(3)
    field = described(c_loc(array), gpuzip_type_complex_f32, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1, 1)), c_loc(array(1, k(2), 1)), c_loc(array(1, 1, k(3)))])
  end function

  function field_complex_f32_4(array, role) result(field)
    complex(c_float_complex), target, intent(in) :: array(:, :, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(4)
    field = described(c_loc(array), gpuzip_type_complex_f32, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1, 1, 1)), c_loc(array(1, k(2), 1, 1)), c_loc(array(1, 1, k(3), 1)), &
                      c_loc(array(1, 1, 1, k(4)))])
  end function

  function field_complex_f64_0(array, role) result(field)
    complex(c_double_complex), target, intent(in) :: array
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    field = described(c_loc(array), gpuzip_type_complex_f64, shape(array, c_int64_t), role)
  end function

  function field_complex_f64_1(array, role) result(field)
    complex(c_double_complex), target, intent(in) :: array(:)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(1)
    field = described(c_loc(array), gpuzip_type_complex_f64, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1)))])
  end function

  function field_complex_f64_2(array, role) result(field)
    complex(c_double_complex), target, intent(in) :: array(:, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(2)
    field = described(c_loc(array), gpuzip_type_complex_f64, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1)), c_loc(array(1, k(2)))])
  end function

  function field_complex_f64_3(array, role) result(field)
    complex(c_double_complex), target, intent(in) :: array(:, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(3)
    field = described(c_loc(array), gpuzip_type_complex_f64, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1, 1)), c_loc(array(1, k(2), 1)), c_loc(array(1, 1, k(3)))])
  end function

  function field_complex_f64_4(array, role) result(field)
    complex(c_double_complex), target, intent(in) :: array(:, :, :, :)
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
    integer :: k(4)
    field = described(c_loc(array), gpuzip_type_complex_f64, shape(array, c_int64_t), role)
    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [c_loc(array(k(1), 1, 1, 1)), c_loc(array(1, k(2), 1, 1)), c_loc(array(1, 1, k(3), 1)), &
                      c_loc(array(1, 1, 1, k(4)))])
  end function
  ! } generated: procedures
end module
