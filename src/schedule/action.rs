//! An action of an adjoint code.

use crate::error::{fail, Result};
use crate::named::named;

named! {
    /// What the application does next, as the page of [`crate::schedule`] says. The values are those of
    /// GPUZIP 2.x.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    #[repr(i32)]
    pub enum Kind {
        Forward = 0 => "FORWARD",
        Save = 1 => "SAVE",
        Restore = 2 => "RESTORE",
        Backward = 3 => "BACKWARD",
        /// The sweep is over.
        Terminate = 4 => "TERMINATE",
        /// The schedule cannot go on; the last error says why. Never part of a valid schedule.
        Error = 5 => "ERROR",
    }
}

/// Flags of an action.
pub mod flags {
    /// FORWARD: the application computed this step before in this sweep.
    pub const RECOMPUTE: u32 = 1;
    /// BACKWARD: the first one of the sweep.
    pub const FIRST_BACKWARD: u32 = 2;
    /// RESTORE: no later RESTORE reads the snapshot. SAVE: no RESTORE reads the snapshot, so that
    /// nothing is stored.
    pub const LAST_USE: u32 = 4;
    /// FORWARD: the next action saves the state that this action computes.
    pub const NEXT_IS_SAVE: u32 = 8;
    /// Zero copy: the memory of the previous time level is that of the state before. (16 is set by the C
    /// interface.)
    pub const SHARED_LEVEL: u32 = 32;
}

/// An action of a schedule: what the application does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// What to do.
    pub kind: Kind,
    /// The time step of the state that the action produces or needs.
    pub ts: u32,
    /// See [`flags`].
    pub flags: u32,
}

impl Action {
    /// Fails if this action is the ERROR that ends a schedule for whose actions there is no memory.
    pub fn check_memory(self) -> Result<()> {
        match self.kind {
            Kind::Error => fail!(
                Memory,
                "there is no memory to go on with the schedule: free memory, then call setup for a new shot, or take fewer snapshots"
            ),
            _ => Ok(()),
        }
    }

    pub(super) fn new(kind: Kind, ts: u32) -> Self {
        Action { kind, ts, flags: 0 }
    }

    pub(super) fn with(mut self, flag: u32, on: bool) -> Self {
        self.flags |= if on { flag } else { 0 };
        self
    }
}
