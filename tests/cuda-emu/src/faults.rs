//! Errors and lost synchronisation on request.

use crate::call::{Call, NAMES};
use crate::status::{Result, Status};

/// A call, or the execution of a copy, that is to fail.
struct Fault {
    name: String,
    /// Matching calls left before it strikes; it strikes when this reaches zero.
    left: u64,
    /// Strikes at every later match too.
    forever: bool,
    code: Status,
}

impl Fault {
    /// Counts a match; the code if it strikes now.
    fn matched(&mut self) -> Option<Status> {
        self.left = self.left.saturating_sub(1);
        (self.left == 0).then_some(self.code)
    }
}

/// What [`Faults::dropped`] can lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// `cuStreamWaitEvent`
    Wait = 0,
    /// `cuEventRecord`
    Record = 1,
    /// `cuStreamSynchronize`, `cuEventSynchronize`, `cuCtxSynchronize`
    Sync = 2,
}

/// The name under which the execution of a copy can be made to fail.
const EXECUTION: &str = "exec";
/// The name under which the execution of a kernel can be made to fail.
const KERNEL: &str = "kernel";

/// All pending requests.
#[derive(Default)]
pub struct Faults {
    faults: Vec<Fault>,
    drops: [u64; 3],
    /// The last call that was made to fail.
    pub struck: Option<Call>,
}

impl Faults {
    /// Makes the `k`-th matching call from now fail, or with a negative `k` every one from the
    /// `|k|`-th on; 0: none any more.
    pub fn add(&mut self, name: &str, k: i64, code: Status) -> bool {
        let known = name == "*" || name == EXECUTION || name == KERNEL || NAMES.contains(&name);
        if known && k == 0 {
            self.faults.retain(|fault| fault.name != name);
        } else if known {
            self.faults.push(Fault {
                name: name.into(),
                left: k.unsigned_abs(),
                forever: k < 0,
                code,
            });
        }
        known
    }

    /// Reads `name:k:code`, several separated by commas; `k+` means from the `k`-th on.
    pub fn parse(&mut self, text: &str) -> Option<()> {
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let mut fields = part.split(':');
            let (name, k, code) = (fields.next()?, fields.next()?, fields.next()?.parse().ok()?);
            let k = match k.strip_suffix('+') {
                Some(k) => -k.parse::<i64>().ok()?,
                None => k.parse::<i64>().ok()?,
            };
            self.add(name, k, code).then_some(())?;
        }
        Some(())
    }

    /// Counts a call; the error if it is to fail.
    pub fn call(&mut self, call: Call) -> Result {
        let name = NAMES[call as usize];
        self.strike(|fault| fault == name || fault == "*").inspect_err(|_| self.struck = Some(call))
    }

    /// The same for a call that only its own name means.
    pub fn call_by_name(&mut self, call: Call) -> Result {
        self.strike(|fault| fault == NAMES[call as usize]).inspect_err(|_| self.struck = Some(call))
    }

    /// Counts the execution of a copy; the sticky error if it is to fail.
    pub fn execution(&mut self) -> Result {
        self.strike(|fault| fault == EXECUTION)
    }

    /// Counts the execution of a kernel; the sticky error if it is to fail.
    pub fn kernel(&mut self) -> Result {
        self.strike(|fault| fault == KERNEL)
    }

    fn strike(&mut self, matches: impl Fn(&str) -> bool) -> Result {
        let mut struck = None;
        self.faults.retain_mut(|fault| {
            let code = if matches(&fault.name) { fault.matched() } else { None };
            struck = struck.or(code);
            code.is_none() || fault.forever
        });
        struck.map_or(Ok(()), Err)
    }

    /// Asks to lose the `k`-th operation of this kind from now; 0 asks for none.
    pub fn drop_later(&mut self, kind: Drop, k: u64) {
        self.drops[kind as usize] = k;
    }

    /// Counts an operation; whether it is to be lost.
    pub fn dropped(&mut self, kind: Drop) -> bool {
        let left = &mut self.drops[kind as usize];
        let armed = *left > 0;
        *left = left.saturating_sub(1);
        armed && *left == 0
    }
}
