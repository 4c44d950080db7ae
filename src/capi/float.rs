//! The floating-point environment (IEEE 754): the rounding mode, whether subnormal numbers are
//! flushed to zero, and which exceptions trap.
//!
//! An application may round upward, flush subnormal numbers to zero (compilers do so with
//! -ffast-math) or trap on overflow. The bytes and bounds of a stream and the costs of a plan must
//! not depend on these settings. So every call of the ABI computes in the environment that programs
//! begin with, the only one in which Rust's arithmetic is defined. Callbacks run in the caller's
//! environment, and the caller gets its environment back on return, exception flags included.
//! Threads that the library starts inherit the library's environment.

use std::cell::Cell;

/// The environment that programs begin with: rounding to nearest, subnormal numbers are kept, no
/// exception traps, no flag is set.
const OURS: Environment = Environment::INITIAL;

thread_local! {
    /// The environment of the code that called the library in this thread; outside of calls, the
    /// environment that programs begin with.
    static CALLER: Cell<Environment> = const { Cell::new(OURS) };
}

/// Runs `body`, work of the library, in the library's environment, and restores the caller's.
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

/// Runs `body`, a callback of the application, in the environment of the code that called the
/// library. Changes that the callback makes to the environment reach that code.
pub(super) fn in_caller<R>(body: impl FnOnce() -> R) -> R {
    let ours = Environment::get();
    CALLER.get().set();
    let result = apart(body);
    CALLER.set(Environment::get());
    ours.set();
    result
}

/// Calls `body` behind a boundary across which the compiler moves no arithmetic.
#[inline(never)]
fn apart<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// The environment as the register MXCSR. The x87 unit has an environment of its own, which no code
/// of the library uses.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, PartialEq)]
struct Environment(u32);

#[cfg(target_arch = "x86_64")]
impl Environment {
    const INITIAL: Environment = Environment(0x1F80);
    const FLAGS: u32 = 0x3F;

    fn get() -> Self {
        let mut csr = 0u32;
        // SAFETY: the instruction stores the register's 4 bytes to `csr`.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut csr, options(nostack, preserves_flags))
        };
        Environment(csr)
    }

    fn set(self) {
        // SAFETY: the value was read from the register before, or is the initial one. Rust's own
        // arithmetic runs in the initial environment only: `in_library` and `in_caller` set other
        // environments for the application's code alone, and compute nothing under them.
        unsafe {
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const self.0, options(nostack, preserves_flags))
        };
    }

    /// Whether arithmetic gives equal results in both environments: compares all bits but the
    /// flags.
    fn computes_as(self, other: Environment) -> bool {
        self.0 & !Self::FLAGS == other.0 & !Self::FLAGS
    }
}

/// The environment as two registers: FPCR, the control bits, and FPSR, the exception flags.
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
        // SAFETY: the instructions read two registers that every program may read.
        unsafe {
            std::arch::asm!("mrs {}, fpcr", "mrs {}, fpsr", out(reg) control, out(reg) status, options(nostack, preserves_flags))
        };
        Environment { control, status }
    }

    fn set(self) {
        // SAFETY: the values were read from the registers before, or are the initial ones. Rust's
        // own arithmetic runs in the initial environment only: `in_library` and `in_caller` set
        // other environments for the application's code alone, and compute nothing under them.
        unsafe {
            std::arch::asm!("msr fpcr, {}", "msr fpsr, {}", in(reg) self.control, in(reg) self.status, options(nostack, preserves_flags))
        };
    }

    /// Whether arithmetic gives equal results in both environments: compares all bits but the
    /// flags.
    fn computes_as(self, other: Environment) -> bool {
        self.control == other.control
    }
}

/// On other processors the library computes in the caller's environment, which must be the one that
/// programs begin with.
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
