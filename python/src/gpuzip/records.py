"""What the library tells of schedules, sessions, profiles, streams and restart files.

Generated from include/gpuzip.h by tests/foreign/python.rs; `make header` rewrites this file.
"""

from typing import NamedTuple

from ._shown import shown


class Summary(NamedTuple):
    """The numbers of a schedule and, for a session, of its plan and its memory.
    """

    algorithm: int
    """The algorithm that was chosen: GPUZIP_ALGORITHM_*, never AUTO."""

    policy: int
    """GPUZIP_POLICY_*."""

    steps: int
    """Time steps, n."""

    snapshots: int
    """Snapshots that the schedule may store at a time."""

    cache: int
    """Slots of the device cache."""

    chunk: int
    """States per chunk or interval, of the states that may be stored (with `adjoint_every`,
    every k-th state); 0 if the algorithm has none."""

    forward_steps: int
    """Time steps of FORWARD actions."""

    saves: int
    """SAVE actions."""

    restores: int
    """RESTORE actions."""

    backward_steps: int
    """Time steps of BACKWARD actions."""

    max_live: int
    """Most snapshots that the schedule stores at a time."""

    actions: int
    """All actions, TERMINATE included; a range of FORWARDs or of backward steps counts as one
    action."""

    h2d: int
    """Transfers from host to device memory."""

    d2h: int
    """Transfers from device to host memory."""

    hits: int
    """Restores found in the device cache without a transfer."""

    misses: int
    """Restores that need a transfer."""

    prefetches: int
    """Misses whose transfer is issued ahead of the restore."""

    min_lead: int
    """Least lead: forward and backward steps between the issue of a prefetch and the restore
    that needs it; 0 without prefetches. With `adjoint_every` = k a shorter last BACKWARD
    counts as k."""

    mean_lead: float
    """Mean lead, in forward and backward steps."""

    slot_bytes: int
    """Bytes of one snapshot."""

    device_bytes: int
    """Bytes of device memory: the device cache, the two states that `zero_copy` may need beside
    it, and the buffers of a codec's kernels."""

    host_bytes: int
    """Bytes of host memory for the snapshots, with the buffers of the disk."""

    compressor: int
    """The codec that was chosen: GPUZIP_COMPRESSOR_*, never AUTO; 0 for a schedule without a
    session."""

    raw_slots: int
    """Device slots that hold raw states: with mixed storage (`mixed_storage`) some of them, and
    the others hold compressed snapshots; all of them where threads code (`codec_threads`). 0
    if all snapshots are stored in the same way."""

    device_budget: int
    """The `device_budget` of the plan in bytes, as configured, or as algorithm `auto` set it
    from the free memory; 0: none."""

    host_budget: int
    """The `host_budget` of the plan in bytes, as configured, or as algorithm `auto` set it from
    the free memory; 0: none."""

    predicted_s: float
    """The predicted time of a shot in seconds, by the profile, or else by speeds that are
    typical of the backend; 0 for a schedule without a session, for policy lru, and as long as
    the number of steps is unknown."""

    bound_s: float
    """A lower bound of the predicted time in seconds: no nested schedule whose snapshots are
    stored as this plan stores them is faster within the same slots. The plan is at most
    `predicted_s / bound_s` times slower than the best one. `gpuzip plan --thorough` finds a
    larger bound of the same kind for long problems. 0 where `predicted_s` is 0."""

    disk_bytes: int
    """Bytes of disk for the snapshots."""

    def __str__(self) -> str:
        return shown(self)


class Stats(NamedTuple):
    """Counts and times of one session since its last setup.
    """

    forward_steps: int
    """Time steps of FORWARD actions."""

    saves: int
    """SAVE actions served."""

    restores: int
    """RESTORE actions served."""

    backward_steps: int
    """Time steps of BACKWARD actions."""

    hits: int
    """Restores found in the device cache without a transfer."""

    misses: int
    """Restores that needed a transfer: restores = hits + misses."""

    prefetches: int
    """Misses whose transfer was issued ahead of the restore."""

    late_prefetches: int
    """Prefetches that were not complete when their restore came."""

    h2d: int
    """Transfers from host to device memory."""

    d2h: int
    """Transfers from device to host memory."""

    h2d_bytes: int
    """Bytes from host to device memory."""

    d2h_bytes: int
    """Bytes from device to host memory."""

    disk_bytes: int
    """Bytes of snapshots written to and read from disk."""

    write_backs_avoided: int
    """Snapshots that were never written back to the host: saves = d2h + write_backs_avoided."""

    raw_bytes: int
    """Bytes of the fields that were saved, before compression."""

    stored_bytes: int
    """Bytes of the snapshots of these fields, after compression."""

    peak_device_bytes: int
    """Largest device memory of the session, in bytes."""

    peak_host_bytes: int
    """Largest host memory of the session, in bytes."""

    forward: float
    """Seconds of the application's FORWARD actions, measured on the host."""

    backward: float
    """Seconds of the application's BACKWARD actions, measured on the host."""

    save: float
    """Seconds that the host spent in saves."""

    restore: float
    """Seconds that the host spent in retrieves."""

    compress: float
    """Seconds of compression, those of threads that code (`codec_threads`) included; on a GPU,
    seconds of the application's stream, for the compressions that have completed."""

    decompress: float
    """Seconds of decompression, those of threads that code included; on a GPU, seconds of the
    application's stream, for the decompressions that have completed."""

    stall: float
    """Seconds that the application's stream spent in saves and retrieves; on a GPU, for those
    that have completed."""

    run_ahead_wait: float
    """Seconds that the host waited for the GPU because it was `max_in_flight` actions ahead."""

    generations: int
    """Generations of restart files that the session has written, over all shots."""

    persist_bytes: int
    """Bytes of these generations."""

    persist: float
    """Seconds that the application has waited for these generations."""

    stop_left: float
    """Seconds that are left of a requested stop, negative when the time is over; 0 without a
    request."""

    disk_reads: int
    """Snapshots read from disk."""

    disk_writes: int
    """Snapshots written to disk."""

    pageable_bytes: int
    """Bytes of host memory for snapshots that the system did not let a GPU's driver page-lock:
    copies from and to them are slower, and block the host. 0: all that was wanted is
    page-locked, or the session is on the host backend."""

    persist_held_bytes: int
    """Bytes of restart files that were not written, because an older generation holds them
    (`persist_whole_every`)."""


class ProfileInfo(NamedTuple):
    """The content of a profile. Times are for a state of `state_bytes` bytes; GB/s are 1e9 bytes
    per second, for a codec of raw bytes.
    """

    state_bytes: int
    """Bytes of a state in the measurement; 0: the times hold for states of any size."""

    forward_ms: float
    """One FORWARD step, in milliseconds."""

    backward_ms: float
    """One BACKWARD step, in milliseconds."""

    h2d_gbs: float
    """GB/s from host to device memory."""

    d2h_gbs: float
    """GB/s from device to host memory."""

    d2d_gbs: float
    """GB/s of copies within device memory."""

    disk_read_gbs: float
    """GB/s of reading snapshots from disk, assumed unless the measured session had a disk."""

    disk_write_gbs: float
    """GB/s of writing snapshots to disk, assumed unless the measured session had a disk."""

    backend: int
    """The backend of the measurement: 1 host, 2 CUDA; 0: any."""

    codecs: int
    """Number of codecs in the profile."""

    compressor: int
    """GPUZIP_COMPRESSOR_* of codec number `index` of the call; this member and those down to
    `worst_ratio` are 0 if the profile has no such codec."""

    error_bound_mode: int
    """`error_bound_mode` with which that codec was measured."""

    error_bound: float
    """`error_bound` with which that codec was measured; 0 if the codec keeps no bound."""

    compress_gbs: float
    """GB/s of compression."""

    decompress_gbs: float
    """GB/s of decompression."""

    ratio: float
    """Compression ratio, raw bytes over stored bytes, of all measured states together."""

    worst_ratio: float
    """Compression ratio of the state that compressed worst."""

    both_gbs: float
    """GB/s of both directions of the link together while snapshots move both ways; 0: not
    measured, and each direction is then as fast as alone."""

    idle_processors: float
    """Host backend: processors that this process may use (affinity, control groups, ranks on
    this node) and that the steps left idle, on average; 0: none, or not measured."""

    sequences: int
    """1 if codec number `index` was measured on snapshots in a sequence (key `sequences`), else
    0."""


class QualityInfo(NamedTuple):
    """What `gpuzip_quality_open` has begun, as told by `gpuzip_quality_info`. Errors are in the
    unit of the key `quality`: relative errors of gradients, PSNRs of images in dB.
    """

    asked: float
    """The error that is asked for: the largest one, or the least PSNR."""

    error_bound: float
    """The `error_bound` that is chosen, in the unit of `error_bound_mode`; 0: none yet."""

    chosen_error: float
    """The error of the result with `error_bound`, in the shot that was measured last."""

    last_error: float
    """The error of the last run with a codec whose result was judged; infinite for one with NaN
    or infinities, in dB -infinity, and for equal results in dB infinity."""

    field: int
    """The field of the result that had `last_error`: the one with the largest error."""

    runs: int
    """Runs whose results were judged, over all shots."""

    shots: int
    """Shots that were measured: the first one, and those of `gpuzip_quality_check`."""


class CodecInfo(NamedTuple):
    """Describes one array of a compressed stream. Set `struct_size` to
    sizeof(gpuzip_codec_info_t) before the call.
    """

    arrays: int
    """Number of arrays in the stream."""

    compressor: int
    """GPUZIP_COMPRESSOR_* of the array, or the number of a registered codec."""

    content: int
    """How the array is stored: 0 unchanged, 1 compressed, 2 as one value that all elements have;
    with a mask the elements that are not masked."""

    type: int
    """GPUZIP_TYPE_*."""

    field: int
    """Number of the field that the array is, from 0."""

    reference: int
    """-1: the field itself is stored. From 0 on, the number of another field of the stream: that
    field minus this field is stored."""

    n1: int
    """Extent of the fastest dimension, in values."""

    n2: int
    """Extent of the second dimension, in values."""

    n3: int
    """Extent of the slowest dimension, in values."""

    bound: float
    """Absolute error bound of the stored values; 0: none was asked for."""

    raw_bytes: int
    """Bytes of the array before compression."""

    stored_bytes: int
    """Bytes of the array in the stream, with its mask, headers and padding."""


class Generation(NamedTuple):
    """A generation of restart files.
    """

    generation: int
    """Number of the generation, from 1; 0: there is none."""

    shot: int
    """Number of the shot to go on with."""

    it: int
    """The last action of that shot that was done; -1: the generation is of the start of the
    shot."""

    bytes: int
    """Bytes of this rank's file."""
