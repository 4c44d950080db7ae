//! The floating-point environment: rounding, what becomes of subnormal numbers, which exceptions
//! trap.
//!
//! An application may round upward, flush subnormal numbers to zero (compilers do so with
//! -ffast-math) or trap on overflow; a stream's bytes and bounds and a plan's costs must not depend
//! on it. So every entry computes in the environment that programs begin with, in which
//! Rust's arithmetic is defined; callbacks and the caller have their own again, exception flags
//! included. Threads that an entry starts inherit the library's environment.

use std::cell::Cell;

/// What programs begin with: rounding to nearest, subnormal numbers as they are, nothing traps, no
/// flag is set.
const OURS: Environment = Environment::INITIAL;

thread_local! {
    /// The environment of the code that called the library in this thread. Where nothing called it, the one that programs begin with.
    static CALLER: Cell<Environment> = const { Cell::new(OURS) };
}

/// Runs `body`, work of the library, in the library's environment, and gives the caller's back.
pub(super) fn in_library<R>(body: impl FnOnce() -> R) -> R {
    CALLER.with(|caller| {
        let found = Environment::get();
        let outer = caller.replace(found);
        if !found.computes_as(OURS) {
            OURS.set();
        }
        let result = apart(body);
        let found = caller.replace(outer);
        if Environment::get() != found {
            found.set();
        }
        result
    })
}

/// Runs `body`, a callback of the application's, in the environment of the code that called the
/// library. What the callback makes of it stays so.
pub(super) fn in_caller<R>(body: impl FnOnce() -> R) -> R {
    let ours = Environment::get();
    CALLER.get().set();
    let result = apart(body);
    CALLER.set(Environment::get());
    ours.set();
    result
}

/// A call that the compiler moves no arithmetic into or out of.
#[inline(never)]
fn apart<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// MXCSR. The x87 unit has an environment of its own, which no code of the library uses.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, PartialEq)]
struct Environment(u32);

#[cfg(target_arch = "x86_64")]
impl Environment {
    const INITIAL: Environment = Environment(0x1F80);
    const FLAGS: u32 = 0x3F;

    fn get() -> Self {
        let mut csr = 0u32;
        // SAFETY: stores the register's 4 bytes to this variable.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut csr, options(nostack, preserves_flags))
        };
        Environment(csr)
    }

    fn set(self) {
        // SAFETY: a value that the register has had, or the initial one. Rust's own arithmetic runs
        // in the initial environment alone: others are set only for code of the
        // application's, by the two functions above, which then compute nothing.
        unsafe {
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const self.0, options(nostack, preserves_flags))
        };
    }

    /// Whether results are the same: all but the flags.
    fn computes_as(self, other: Environment) -> bool {
        self.0 & !Self::FLAGS == other.0 & !Self::FLAGS
    }
}

/// FPCR, and FPSR, which has the flags.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, PartialEq)]
struct Environment {
    control: u64,
    status: u64,
}

#[cfg(target_arch = "aarch64")]
impl Environment {
    const INITIAL: Environment = Environment { control: 0, status: 0 };

    fn get() -> Self {
        let (control, status);
        // SAFETY: reads two registers that every program may read.
        unsafe {
            std::arch::asm!("mrs {}, fpcr", "mrs {}, fpsr", out(reg) control, out(reg) status, options(nostack, preserves_flags))
        };
        Environment { control, status }
    }

    fn set(self) {
        // SAFETY: values that the registers have had, or the initial ones. Rust's own arithmetic
        // runs in the initial environment alone: others are set only for code of the
        // application's, by the two functions above, which then compute nothing.
        unsafe {
            std::arch::asm!("msr fpcr, {}", "msr fpsr, {}", in(reg) self.control, in(reg) self.status, options(nostack, preserves_flags))
        };
    }

    /// Whether results are the same: all but the flags.
    fn computes_as(self, other: Environment) -> bool {
        self.control == other.control
    }
}

/// On other machines the environment stays the caller's, which has to be the initial one.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[derive(Clone, Copy, PartialEq)]
struct Environment;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Environment {
    const INITIAL: Environment = Environment;

    fn get() -> Self {
        Environment
    }

    fn set(self) {}

    fn computes_as(self, _: Environment) -> bool {
        true
    }
}
