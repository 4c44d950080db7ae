//! Calls that fail, and synchronisation that is lost, because a test has requested it.

use crate::call::{Call, NAMES};
use crate::status::{Result, Status};

/// A request that a call, or the execution of a copy or kernel, fails.
struct Fault {
    name: String,
    /// The number of matching calls up to the call that fails, included.
    left: u64,
    /// True if every later matching call fails, too.
    forever: bool,
    code: Status,
}

impl Fault {
    /// Counts a matching call. Returns the error code if this call is to fail.
    fn matched(&mut self) -> Option<Status> {
        self.left = self.left.saturating_sub(1);
        (self.left == 0).then_some(self.code)
    }
}

/// The kinds of calls that [`Faults::dropped`] can lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// `cuStreamWaitEvent`
    Wait = 0,
    /// `cuEventRecord`
    Record = 1,
    /// `cuStreamSynchronize`, `cuEventSynchronize`, `cuCtxSynchronize`
    Sync = 2,
    /// `cuStreamWaitValue32`
    Value = 3,
}

/// The name under which the execution of a copy can be made to fail.
const EXECUTION: &str = "exec";
/// The name under which the execution of a kernel can be made to fail.
const KERNEL: &str = "kernel";

/// All pending requests of failures and lost calls.
#[derive(Default)]
pub struct Faults {
    faults: Vec<Fault>,
    drops: [u64; 4],
    /// The last call that failed by request.
    pub struck: Option<Call>,
}

impl Faults {
    /// Makes the `k`-th matching call from now fail; a negative `k`: every call from the `|k|`-th
    /// on; 0: removes the faults of this name. Returns false if the name is unknown.
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

    /// Counts a call. Returns the error if this call is to fail.
    pub fn call(&mut self, call: Call) -> Result {
        let name = NAMES[call as usize];
        self.strike(|fault| fault == name || fault == "*").inspect_err(|_| self.struck = Some(call))
    }

    /// Counts a call for which the name `*` does not stand. Returns the error if this call is to
    /// fail.
    pub fn call_by_name(&mut self, call: Call) -> Result {
        self.strike(|fault| fault == NAMES[call as usize]).inspect_err(|_| self.struck = Some(call))
    }

    /// Counts the execution of a copy. Returns the sticky error if this execution is to fail.
    pub fn execution(&mut self) -> Result {
        self.strike(|fault| fault == EXECUTION)
    }

    /// Counts the execution of a kernel. Returns the sticky error if this execution is to fail.
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

    /// Requests the loss of the `k`-th call of this kind from now; 0 removes the request.
    pub fn drop_later(&mut self, kind: Drop, k: u64) {
        self.drops[kind as usize] = k;
    }

    /// Counts a call of this kind. Returns whether this call is to be lost.
    pub fn dropped(&mut self, kind: Drop) -> bool {
        let left = &mut self.drops[kind as usize];
        let armed = *left > 0;
        *left = left.saturating_sub(1);
        armed && *left == 0
    }
}
