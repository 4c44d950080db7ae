//! Runtime dispatch: portable code is compiled once for every instruction set that makes it faster,
//! and the best version for the machine is chosen at run time.
//!
//! All versions come from the same source, and Rust never fuses a multiplication with an addition,
//! so that all versions give the same bits.
//!
//! build.rs sets `avx512` for x86-64 machines and compilers that know AVX-512 (rustc 1.89 and later).
//! Without it, the version for AVX2 is the best one.

use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// The instructions that every machine of the architecture has.
    Portable = 1,
    /// AVX2 with BMI1, BMI2, LZCNT and POPCNT (processors of 2013 and later).
    Avx2 = 2,
    /// AVX-512 F, BW, CD, DQ and VL.
    Avx512 = 3,
}

/// The level in use as a number; 0: not determined yet.
static LEVEL: AtomicU8 = AtomicU8::new(0);

/// Returns the levels that this machine has, the best one last.
pub fn levels() -> Vec<Level> {
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
    let mut levels = vec![Level::Portable];
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx2") && has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt") {
            levels.push(Level::Avx2);
            if cfg!(avx512)
                && has!("avx512f")
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

/// Returns the level in use: the best level of the machine, unless `set_level` chose another.
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

/// Makes the whole process use another level from now on. Does nothing if the machine lacks the
/// level.
pub fn set_level(level: Level) {
    if levels().contains(&level) {
        LEVEL.store(level as u8, Ordering::Relaxed);
    }
}

/// Code that is compiled for every level. `run` and the functions that it calls must be
/// `#[inline(always)]`: a function that is not inlined is compiled for `Portable` alone.
pub trait Kernel {
    /// Result of the kernel.
    type Output;
    /// Runs the kernel.
    fn run(self) -> Self::Output;
}

/// Runs a kernel at the level in use.
#[inline]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    match level() {
        Level::Portable => kernel.run(),
        // SAFETY: `level` returns only instruction sets that the machine has.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { avx2(kernel) },
        // SAFETY: `level` returns only instruction sets that the machine has.
        #[cfg(avx512)]
        Level::Avx512 => unsafe { avx512(kernel) },
        #[cfg(not(avx512))]
        _ => kernel.run(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}

#[cfg(avx512)]
#[target_feature(
    enable = "avx2,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
)]
fn avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}

/// Makes an array of what `item` returns for each index, as `std::array::from_fn` does, whose code is not always
/// inlined into kernels.
#[inline(always)]
pub fn array<T: Copy + Default, const N: usize>(item: impl Fn(usize) -> T) -> [T; N] {
    let mut items = [T::default(); N];
    for (i, to) in items.iter_mut().enumerate() {
        *to = item(i);
    }
    items
}

/// Calls a short function for every element of `from` and the element of `to` at the same place.
pub fn each<A, B>(from: &[A], to: &mut [B], write: impl Fn(&A, &mut B)) {
    dispatch(Each(from, to, write));
}

struct Each<'a, A, B, F>(&'a [A], &'a mut [B], F);

impl<A, B, F: Fn(&A, &mut B)> Kernel for Each<'_, A, B, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (a, b) in self.0.iter().zip(self.1) {
            self.2(a, b);
        }
    }
}

/// Prefetches the cache line of `x[at]`, to be read or, with `WRITE`, to be written. Does nothing
/// if `at` is out of range.
#[inline(always)]
pub fn prefetch<T, const WRITE: bool>(x: &[T], at: usize) {
    if let Some(value) = x.get(at) {
        prefetch_at::<T, WRITE>(value);
    }
}

/// As `prefetch`, for the value at an address.
#[inline(always)]
pub fn prefetch_at<T, const WRITE: bool>(value: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_ET0, _MM_HINT_T0};
        // SAFETY: a prefetch is a hint without effect on memory.
        unsafe {
            if WRITE {
                _mm_prefetch::<_MM_HINT_ET0>(value.cast());
            } else {
                _mm_prefetch::<_MM_HINT_T0>(value.cast());
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
