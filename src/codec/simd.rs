//! Runtime dispatch: one piece of portable code, compiled for every instruction set that helps, the
//! best one chosen when it runs.
//!
//! The code is the same for all of them and Rust never fuses a product and a sum, so that the bits
//! are the same, too.

use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// What every machine of the architecture has.
    Portable = 1,
    /// AVX2 with BMI, 2013 and later.
    Avx2 = 2,
    /// AVX-512 F, BW, CD, DQ and VL.
    Avx512 = 3,
}

/// 0: not asked yet.
static LEVEL: AtomicU8 = AtomicU8::new(0);

/// What this machine has, best last.
pub fn levels() -> Vec<Level> {
    let mut levels = vec![Level::Portable];
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx2") && has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt") {
            levels.push(Level::Avx2);
            if has!("avx512f")
                && has!("avx512bw")
                && has!("avx512cd")
                && has!("avx512dq")
                && has!("avx512vl")
            {
                levels.push(Level::Avx512);
            }
        }
    }
    levels
}

/// The level in use: the best, unless `set_level` chose another.
pub fn level() -> Level {
    match LEVEL.load(Ordering::Relaxed) {
        1 => Level::Portable,
        2 => Level::Avx2,
        3 => Level::Avx512,
        _ => {
            let best = levels().last().copied().unwrap_or(Level::Portable);
            LEVEL.store(best as u8, Ordering::Relaxed);
            best
        }
    }
}

/// Uses another level from now on, in the whole process. The machine must have it, or nothing
/// changes.
pub fn set_level(level: Level) {
    if levels().contains(&level) {
        LEVEL.store(level as u8, Ordering::Relaxed);
    }
}

/// Code to be compiled for every level. Mark `run` and what it calls `#[inline(always)]`: what is
/// not inlined is compiled for `Portable` alone.
pub trait Kernel {
    /// What it gives.
    type Output;
    /// Does it.
    fn run(self) -> Self::Output;
}

/// Runs a kernel at the level in use.
#[inline]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    match level() {
        Level::Portable => kernel.run(),
        // SAFETY: `level` only gives what the machine has.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { avx2(kernel) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { avx512(kernel) },
        #[cfg(not(target_arch = "x86_64"))]
        _ => kernel.run(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(
    enable = "avx2,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
)]
fn avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}

/// Asks for what will be read, or with `WRITE` written, at `x[at]`.
#[inline(always)]
pub fn prefetch<T, const WRITE: bool>(x: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(line) = x.get(at) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_ET0, _MM_HINT_T0};
        let line = std::ptr::from_ref(line).cast();
        // SAFETY: a hint, with a valid address.
        unsafe {
            if WRITE {
                _mm_prefetch::<_MM_HINT_ET0>(line);
            } else {
                _mm_prefetch::<_MM_HINT_T0>(line);
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (x, at);
}
