//! The default configuration.

use super::types::*;

/// The configuration with every field 0 or NULL and `struct_size` of this version.
pub(super) const ZERO: gpuzip_config_t = gpuzip_config_t {
    struct_size: std::mem::size_of::<gpuzip_config_t>() as u64,
    // SAFETY: the fields are numbers and pointers, for which all bits may be 0.
    ..unsafe { std::mem::zeroed() }
};

/// gpuzip's defaults: algorithm auto and log level WARN, every other field as in `ZERO`.
/// `checked.rs` says what 0 stands for.
pub(super) const DEFAULT: gpuzip_config_t =
    gpuzip_config_t { checkpointing_algorithm: GPUZIP_ALGORITHM_AUTO, log_level: 2, ..ZERO };
