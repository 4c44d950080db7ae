//! The default configuration.

use super::types::*;
use std::ptr::{null, null_mut};

/// The configuration with every field 0 or NULL and `struct_size` of this version.
pub(super) const ZERO: gpuzip_config_t = gpuzip_config_t {
    checkpointing_algorithm: 0,
    checkpointing_snaps: 0,
    cache_capacity: 0,
    compressor: 0,
    log_level: 0,
    enable_performance_log: 0,
    enable_compression_rate_log: 0,
    compression_factor: 0.0,
    trace_file_path: null_mut(),
    revolve_log_level: 0,
    zfp_bit_rate: 0,
    cuszp_err_bound: 0.0,
    float_kind: null(),
    bitcomp_delta_config: 0,
    bitcomp_range_fraction: 0.0,
    bitcomp_num_sigma: 0.0,
    bitcomp_delta: 0.0,
    bitcomp_algorithm: 0,
    struct_size: std::mem::size_of::<gpuzip_config_t>() as u64,
    backend: 0,
    device: 0,
    device_budget: 0,
    host_budget: 0,
    disk_budget: 0,
    policy: 0,
    error_bound_mode: 0,
    error_bound: 0.0,
    nonfinite: 0,
    max_in_flight: 0,
    range_actions: 0,
    snapshot_rule: 0,
    schedule_chunk: 0,
    uniform_reading: 0,
    zero_copy: 0,
    link_bandwidth: 0.0,
    profile_path: null(),
    trace_out: null(),
    persist_dir: null(),
    persist_overhead: 0.0,
    stop_budget_s: 0.0,
    shared_levels: 0,
    mixed_storage: 0,
    adjoint_every: 0,
    reserved_difference_bound: 0,
    reserved_huge_pages: 0,
    strict: 0,
    disk_path: null(),
    device_reserve: 0,
    reserved: [0; 11],
};

/// gpuzip's defaults: algorithm auto and log level WARN, every other field as in `ZERO`.
/// `checked.rs` says what 0 stands for.
pub(super) const DEFAULT: gpuzip_config_t =
    gpuzip_config_t { checkpointing_algorithm: GPUZIP_ALGORITHM_AUTO, log_level: 2, ..ZERO };
