//! Schedules as numbers, so that ranks can agree on one, and the fingerprint that tells whether
//! they have.

use super::intervals::Intervals;
use super::{Algorithm, Form, Ranges, Schedule};
use crate::error::{fail, Result};

/// A generated schedule of any number of steps, as three numbers from 0 up to `i64::MAX`. The
/// smallest of several schedules, number by number, has the fewest snapshots of all.
pub type Terms = [i64; 3];

impl Schedule {
    /// This schedule as numbers.
    pub fn terms(&self) -> Terms {
        let head = (self.snapshots as i64) << 5 | (self.algorithm as i64) << 1;
        match &self.form {
            Form::Intervals(intervals) => {
                let (even, spacing) = intervals.spacing();
                let within = (intervals.inner() as i64) << 31 | spacing as i64;
                [
                    head | i64::from(even),
                    within,
                    (intervals.cache() as i64) << 31 | self.chunk as i64,
                ]
            }
            Form::Trace(_) => [head, 0, 0],
        }
    }

    /// The schedule of these numbers for `steps` time steps. A trace has its actions in a file, and
    /// cannot be made of them.
    pub fn of_terms(steps: u32, [head, within, rest]: Terms) -> Result<Self> {
        let low = |number: i64, bits: u32| (number & ((1 << bits) - 1)) as u32;
        let Some(algorithm) = Algorithm::ALL.into_iter().find(|a| *a as u32 == low(head >> 1, 4))
        else {
            return fail!(Argument, "{head}, {within}, {rest}: no schedule has these numbers");
        };
        if algorithm == Algorithm::Trace {
            return fail!(Config, "another rank follows a trace: give all ranks checkpointing_algorithm = 0 and the same trace_file_path");
        }
        let (snapshots, spacing, inner) =
            (low(head >> 5, 32), low(within, 31), low(within >> 31, 32));
        let intervals = match head & 1 {
            1 => Intervals::even(steps, spacing, snapshots, inner),
            _ => Intervals::of_length(steps, spacing.max(1), snapshots, inner)?,
        };
        Ok(Self::of(algorithm, snapshots, low(rest, 31), intervals.through(low(rest >> 31, 32))))
    }

    /// A number of the actions as an application sees them, with or without ranges: of their kinds,
    /// time steps, ends and flags, in their order. It takes a pass over the schedule.
    pub fn fingerprint(&self, ranges: bool) -> u64 {
        let mixed = |hash: u64, word: u64| {
            let x = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (x ^ x >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(29)
        };
        let action = |hash, (action, end): (super::Action, u32)| {
            let word = (action.kind as u64) << 56 | (action.flags as u64) << 32 | action.ts as u64;
            mixed(mixed(hash, word), end as u64)
        };
        Ranges::new(self.actions(), ranges).fold(0, action)
    }
}
