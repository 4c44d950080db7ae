"""The types of the configuration's keys, for type checkers.

Written by python/tests/test_typing.py from the table in _abi.py.
"""

import os
from typing import Literal, TypedDict, Union

Path = Union[str, "os.PathLike[str]"]


class ConfigKeys(TypedDict, total=False):
    """The keys of a configuration, as `Session`, `Config` and others take them: a function of yours that hands them on
    has `**keys: Unpack[gpuzip.ConfigKeys]`."""

    checkpointing_algorithm: Union[Literal["trace", "revolve", "uniform", "zcut", "auto", "two-level", "store-all", "hrevolve", "online"], int]
    """The schedule; auto: the schedule with the shortest predicted time within the budgets."""

    checkpointing_snaps: int
    """Snapshots that may be stored at a time, an error if the budgets hold fewer; 0: what fits the budgets, or what the algorithm needs [snapshots]."""

    cache_capacity: int
    """Snapshots for which the device cache has room; 0: no cache, from 2 on with prefetch; with device_budget: the most snapshots [snapshots]."""

    compressor: Union[Literal["none", "zfp", "cuzfp", "bitcomp", "cuszp", "lorenzo", "dct", "fp16", "bfp", "lossless", "auto"], int]
    """The codec of snapshots; auto: the codec with the shortest predicted time that keeps error_bound, or none."""

    log_level: Union[Literal["debug", "info", "warn", "error"], int]
    """The least important level that is logged, for the whole process."""

    enable_performance_log: bool
    """Append one CSV row per shot to gpuzip_performance.csv, or to the file that GPUZIP_PERFORMANCE_LOG names."""

    enable_compression_rate_log: bool
    """Log the compression ratio of every snapshot, at level info."""

    compression_factor: float
    """The compression ratio that budgets are planned with; 0 or 1: snapshots are planned with their raw size [ratio]."""

    trace_file_path: Path
    """The file with the recorded schedule of algorithm trace."""

    revolve_log_level: int
    """Without effect, accepted because GPUZIP 2.x has this key; log_level decides."""

    zfp_bit_rate: int
    """The rate of zfp: 1 to 32 (FP64: to 64); 0: 8 [bits per value]."""

    cuszp_err_bound: float
    """The bound of cuszp if error_bound is not set, as in GPUZIP 2.x [of the range]."""

    float_kind: Literal["float", "double"]
    """The type of fields in calls that give only extents (the GPUZIP 2.x headers); not set: float."""

    bitcomp_delta_config: Union[Literal["maximum", "statistics", "delta"], int]
    """What sets the quantisation step (delta) of bitcomp if error_bound is not set."""

    bitcomp_range_fraction: float
    """Bitcomp with bitcomp_delta_config maximum or statistics: the delta, as a part of the maximum or of the range [of the maximum]."""

    bitcomp_num_sigma: float
    """Bitcomp with bitcomp_delta_config statistics: the range from which the delta follows [standard deviations]."""

    bitcomp_delta: float
    """Bitcomp with bitcomp_delta_config delta: the delta, in the unit of the field."""

    bitcomp_algorithm: Union[Literal["default", "sparse"], int]
    """The algorithm of bitcomp; sparse is for arrays with many zeros."""

    backend: Union[Literal["fields", "host", "cuda"], int]
    """Where snapshots are kept; fields: where the memory of the fields is."""

    device: int
    """The CUDA device; 0: the device of the fields, or else the current device; k+1: CUDA device k."""

    device_budget: Union[float, str]
    """Most device memory that a session takes; 0: cache_capacity decides [bytes]."""

    host_budget: Union[float, str]
    """Most host memory for snapshots; 0: what the plan needs; for auto without any budget at most half of the free memory [bytes]."""

    disk_budget: Union[float, str]
    """Most disk space for snapshots that host_budget has no room for; 0: none go to disk [bytes]."""

    policy: Union[Literal["clairvoyant", "lru"], int]
    """Which snapshot leaves the device cache; clairvoyant: the one that is needed last; lru: as in GPUZIP 2.x."""

    error_bound_mode: Union[Literal["max", "absolute", "range", "psnr"], int]
    """What error_bound is relative to; psnr: error_bound is a target in dB."""

    error_bound: float
    """The bound of codecs that keep one; 0: 1e-3 of the maximum or of the range [by its mode]."""

    nonfinite: Union[Literal["store", "error"], int]
    """What a codec does with NaN and infinities: store them exactly, or refuse the save."""

    max_in_flight: int
    """Most actions that the host runs ahead of a GPU; 0: 64 [actions]."""

    range_actions: bool
    """Consecutive FORWARDs are one action, from ts to ts_end."""

    snapshot_rule: Union[Literal["budgets", "adjust"], int]
    """What decides the number of snapshots: checkpointing_snaps or the budgets, or GPUZIP 2.x's rule."""

    schedule_chunk: int
    """States per chunk of zcut or per interval of two-level and hrevolve; 0: gpuzip chooses [states]."""

    uniform_reading: Union[Literal["inside", "published"], int]
    """Uniform: inside: free slots reverse each interval; published: as in GPUZIP 2.x, quadratic in the interval."""

    zero_copy: bool
    """The application computes in memory of the session, such as the slots of the device cache; its fields are not copied."""

    link_bandwidth: Union[float, str]
    """Host backend: bandwidth of a simulated link, each way; 0: no simulated link [bytes/s]."""

    profile_path: Path
    """The file with measured costs: auto reads the file if it exists, gpuzip_autotune writes it."""

    trace_out: Path
    """The file for a timeline of the run, for ui.perfetto.dev and gpuzip report; %r: rank, %p: process."""

    persist_dir: Path
    """The folder of restart files, which the application asks for (gpuzip_persist_open)."""

    persist_overhead: float
    """Most of the run time that restart files take: the application's wait, and the processor time of the thread that writes; 0: 0.035 [of the run time]."""

    stop_budget_s: float
    """Most time that a requested stop may take; 0: 1.5 [s]."""

    shared_levels: bool
    """Two consecutive snapshots store the time level that they share once."""

    mixed_storage: Union[Literal["planned", "always", "never"], int]
    """Snapshots that stay on the device are raw, those that go to the host compressed; planned: with compressor auto and without zero_copy, where it is faster."""

    adjoint_every: int
    """The adjoint needs every k-th state only, and BACKWARDs are ranges of k steps; 0 and 1: every state [time steps]."""

    difference_bound: Union[Literal["auto", "always"], int]
    """States in which the difference of a field and its previous level keeps a bound of its own; auto: those that steps start from; always: all."""

    strict: bool
    """Restart files that another user could have made or changed; false: a warning, true: an error."""

    disk_path: Path
    """The folders of snapshots on disk, separated by colons, one on each disk; not set: TMPDIR, or else /var/tmp."""

    device_reserve: Union[float, str]
    """Device memory that is left to the application; 0: the larger of 512 MiB and 2 % of the device's memory, at most an eighth of it [bytes]."""

    codec_threads: int
    """Host backend: most threads that code snapshots while the application computes, where that is faster; 0: as many as the profile has idle processors; -1: the calling thread codes [threads]."""

    sequences: bool
    """Host backend, dct, store-all or auto: where all states are kept, a snapshot holds the difference to what the next two states predict."""

    quality: str
    """The error of the result, such as gradient:1e-3 or image:60dB, from which an application that measures its result chooses error_bound."""

    fill_value: Union[str, float]
    """Host backend, codecs with an error bound: the value where fields have none, such as land; it is kept exactly and does not count for the bound."""

    sweeps: int
    """Reverse sweeps over the states of one forward sweep, each after gpuzip_rewind; 0 and 1: one."""

    check: int
    """Every state is computed so many times again and compared with the first time, which finds incomplete states; 3 or more: and steps that are not deterministic [times]."""

    persist_shared_dir: Path
    """A second folder for restart files, which outlives the node: generations of persist_dir are copied there in the background."""

    persist_whole_every: int
    """Every k-th generation of restart files holds everything; the others refer to older ones for what has not changed; 0 and 1: all hold everything [generations]."""

    persist_stages: str
    """The stages that generations of restart files pass: compress, which packs the copies in persist_shared_dir without loss, and those that the application registers; not set: all that it registers."""
