//! What the tiers are asked for, and what they return: SAVEs, RESTOREs and the bytes of a record.

use crate::plan::{Level, Plan, Step, NONE, SPARE_SLOTS};

/// The number of the record that holds part `part` of u(ts).
pub(super) fn record(ts: i64, part: usize) -> i64 {
    2 * ts + part as i64
}

/// The time step of the state of a record.
pub(super) fn state_of(record: i64) -> i64 {
    record >> 1
}

/// The part of the state that a record holds.
pub(super) fn part_of(record: i64) -> usize {
    (record & 1) as usize
}

/// A SAVE or RESTORE of u(ts) that the tiers play.
#[derive(Clone, Copy)]
pub struct Play {
    /// One step of the plan for each part.
    steps: [Step; 2],
    parts: usize,
    /// What part 1 is.
    pub level: Level,
    pub ts: i64,
    /// Number of the spare state that is used where a step has no slot.
    pub spare: u32,
    /// Whether the next SAVE compares its previous level with this state's level.
    pub is_claimed: bool,
}

impl Play {
    /// The SAVE or RESTORE number `action` of a plan, of u(ts).
    pub fn of(plan: &Plan, action: usize, ts: i64) -> Self {
        let of_plan = plan.steps_of(action);
        let nothing = Step { slot: NONE, host: NONE };
        Play {
            steps: [0, 1].map(|part| of_plan.get(part).copied().unwrap_or(nothing)),
            parts: of_plan.len(),
            level: plan.level_of(action),
            ts,
            // Neighbouring actions have different spare states.
            spare: action as u32 % SPARE_SLOTS,
            is_claimed: plan.level_of(action + 1) == Level::Claimed,
        }
    }

    /// The steps of the parts.
    pub fn steps(&self) -> &[Step] {
        &self.steps[..self.parts]
    }

    /// What part `part` is.
    pub fn level_of(&self, part: usize) -> Level {
        match part {
            1 => self.level,
            _ => Level::Own,
        }
    }

    /// The number of the record of part `part`.
    pub fn record(&self, part: usize) -> i64 {
        match self.level_of(part) {
            Level::Own => record(self.ts, part),
            Level::Claimed | Level::Shared => record(self.ts - 1, 0),
        }
    }

    /// The parts that a SAVE stores somewhere, with their steps.
    pub fn made(&self) -> impl Iterator<Item = (usize, Step)> + '_ {
        self.steps().iter().copied().enumerate().filter(|(part, step)| {
            let is_stored = step.slot != NONE || step.host != NONE;
            is_stored && self.level_of(*part) == Level::Own
        })
    }
}

/// What a SAVE did with its snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Saved {
    /// Time step of the saved state.
    pub ts: i64,
    /// Bytes of the snapshot; 0 if no RESTORE reads the snapshot, which is then not stored.
    pub bytes: u64,
    /// Records of the snapshot that cross the link to the host.
    pub written: u32,
}

/// A record in a tier or in a restart file.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// Time step of the state.
    pub ts: i64,
    /// The part of the state that the record holds.
    pub part: usize,
    /// Bytes of the record.
    pub bytes: u64,
    /// Whether the bytes are the stream of a codec; otherwise they are fields, at the offsets of their part.
    pub is_coded: bool,
}

/// What a RESTORE found.
#[derive(Clone, Copy, Debug)]
pub struct Restored {
    /// Records of the snapshot that had to cross the link.
    pub moved: u32,
    /// Whether the snapshot's transfer into the cache was issued before the RESTORE.
    pub prefetched: bool,
    /// Whether that transfer had not ended when the RESTORE came.
    pub late: bool,
}
