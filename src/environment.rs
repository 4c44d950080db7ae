//! The environment variables: this is the only file of the library that reads them.

use std::ffi::OsString;
use std::path::PathBuf;

/// Environment variables that are not keys of the configuration, each with its meaning.
pub const VARIABLES: &[(&str, &str)] = &[
    (
        "GPUZIP_CACHE_DIR",
        "the folder of compiled kernels; not set: gpuzip in XDG_CACHE_HOME or ~/.cache",
    ),
    ("GPUZIP_LOG", "what of the log reaches stderr, in env_logger's syntax: warn, or gpuzip=debug"),
    (
        "GPUZIP_NVCOMP",
        "the file of libnvcomp, for codec bitcomp; not set: libnvcomp.so.6, .5 or .4",
    ),
    ("GPUZIP_NVTX", "1: actions and calls are NVTX ranges, for Nsight Systems"),
    (
        "GPUZIP_PERFORMANCE_LOG",
        "the file of enable_performance_log; not set: gpuzip_performance.csv",
    ),
    ("GPUZIP_VALIDATE", "1: every schedule is played and checked before it is used"),
];

/// Returns the value of a variable.
pub fn value(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Returns the value of a variable that is UTF-8.
pub fn text(name: &str) -> Option<String> {
    value(name)?.into_string().ok()
}

/// Returns the file or folder that a variable names; `None` if it is not set or empty.
pub fn path(name: &str) -> Option<PathBuf> {
    value(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Variables in which launchers tell a process its rank: Open MPI, MPICH and Intel MPI, PMIx, Slurm.
const RANKS: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"];

/// Returns the rank of this process in its job, if its launcher tells it.
pub fn rank() -> Option<u32> {
    RANKS.into_iter().find_map(|name| text(name)?.parse().ok())
}

/// Returns whether a variable is 1.
pub fn is_on(name: &str) -> bool {
    value(name).is_some_and(|value| value == "1")
}

/// Returns the names of all variables that are UTF-8.
pub fn names() -> impl Iterator<Item = String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())
}
