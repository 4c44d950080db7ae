//! The settings of a reset, and the environment variables from which the first settings come.

use crate::named::named;
use crate::ptx::Interleaving;
use std::env::var;

named! {
    /// How the scheduler chooses among the operations that the ordering rules allow.
    Mode {
        /// The seed decides; copies are torn into pieces.
        Random = "random",
        /// An operation runs only when the host waits and the wait depends on it.
        Late = "late",
        /// An operation runs inside the call that enqueues it, if the rules allow.
        Early = "early",
        /// Operations run in the order of virtual time.
        Timed = "timed",
    }
}

impl Mode {
    /// Returns the mode with this number.
    pub fn from_number(number: i32) -> Option<Self> {
        [Self::Random, Self::Late, Self::Early, Self::Timed]
            .into_iter()
            .find(|mode| *mode as i32 == number)
    }
}

named! {
    /// What runs kernels.
    Kernels {
        /// The machine's C++ compiler and fibres.
        Host = "host",
        /// NVIDIA's compiler and the interpreter of PTX.
        Ptx = "ptx",
    }
}

/// The settings of a reset.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Seed of the scheduler.
    pub seed: u64,
    /// Mode of the scheduler.
    pub mode: Mode,
    /// Number of devices.
    pub devices: usize,
    /// Capacity of each device in bytes.
    pub memory: u64,
    /// The version that `cuDriverGetVersion` gives.
    pub version: i32,
    /// Copy engines of each device: 2, one for each direction, or 1 for both.
    pub copy_engines: i32,
    /// 1 if kernels can use ordinary host memory.
    pub pageable_access: i32,
    /// Whether an asynchronous copy from pageable memory to a device reads the memory when the copy
    /// runs, and not before the call returns.
    pub reads_pageable_late: bool,
    /// The compute capability of the devices: 80 for 8.0.
    pub architecture: i32,
    /// What runs kernels.
    pub kernels: Kernels,
    /// How the interpreter interleaves blocks and warps.
    pub interleaving: Interleaving,
    /// Whether the use of a destroyed stream ends the process.
    pub aborts_on_destroyed: bool,
    /// The largest number of operations in a stream's queue.
    pub queue: usize,
    /// Whether a null pointer stands behind the pointers to the arguments of each launch.
    pub null_behind_arguments: bool,
}

impl Settings {
    /// Reads the settings from the environment. A malformed variable aborts the process: a test
    /// must not run with other settings than it requested.
    pub fn from_env() -> Self {
        Self {
            seed: read("CUDA_EMU_SEED", 1, |text| text.parse().ok()),
            mode: read("CUDA_EMU_MODE", Mode::Random, Mode::from_name),
            devices: read("CUDA_EMU_DEVICES", 1, |text| text.parse().ok()),
            memory: read("CUDA_EMU_MEMORY", 1 << 30, bytes),
            version: read("CUDA_EMU_DRIVER_VERSION", 12_040, |text| text.parse().ok()),
            copy_engines: read("CUDA_EMU_COPY_ENGINES", 2, |text| {
                text.parse().ok().filter(|count| [1, 2].contains(count))
            }),
            pageable_access: read("CUDA_EMU_PAGEABLE_ACCESS", 0, |text| text.parse().ok()),
            reads_pageable_late: either("CUDA_EMU_PAGEABLE_COPIES", "staged", "late"),
            architecture: read("CUDA_EMU_ARCHITECTURE", 80, |text| text.parse().ok()),
            kernels: Kernels::from_env(),
            interleaving: read("CUDA_EMU_PTX_ORDER", Interleaving::Any, Interleaving::from_name),
            aborts_on_destroyed: either("CUDA_EMU_DESTROYED_STREAMS", "error", "abort"),
            queue: read("CUDA_EMU_QUEUE", 1024, |text| text.parse().ok().filter(|&most| most > 0)),
            null_behind_arguments: either("CUDA_EMU_ARGUMENTS", "any", "null-behind"),
        }
    }
}

impl Kernels {
    /// Reads the variable `CUDA_EMU_KERNELS`.
    pub fn from_env() -> Self {
        read("CUDA_EMU_KERNELS", Self::Host, Self::from_name)
    }
}

/// Returns whether the environment variable `name` is `set` and not `default`.
fn either(name: &str, default: &str, set: &str) -> bool {
    read(name, false, |text| {
        [default, set].iter().position(|known| *known == text).map(|at| at == 1)
    })
}

/// Returns the environment variable `name` as `parse` reads it, or `default` if it is not set.
pub fn read<T>(name: &str, default: T, parse: impl Fn(&str) -> Option<T>) -> T {
    match var(name) {
        Err(_) => default,
        Ok(text) => parse(&text)
            .unwrap_or_else(|| crate::driver::fatal(&format!("{name}={text}: not understood"))),
    }
}

/// Reads a number of bytes; K, M or G behind the number stand for powers of 1024.
fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(
            [bytes("3"), bytes("2K"), bytes("5M"), bytes("1G")],
            [Some(3), Some(2048), Some(5 << 20), Some(1 << 30)]
        );
        assert_eq!([bytes(""), bytes("G"), bytes("-1"), bytes("99999999999G")], [None; 4]);
    }
}
