//! Terms: a schedule as numbers, so that ranks can agree on one schedule; and the fingerprint,
//! which shows whether all ranks have the same schedule.

use super::intervals::Intervals;
use super::{Algorithm, Form, Schedule, Tree};
use crate::error::{fail, Result};

/// A generated schedule, without its number of time steps, as three numbers from 0 to `i64::MAX`.
/// Of several schedules, the one with the lexicographically smallest terms has the fewest
/// snapshots.
pub type Terms = [i64; 3];

impl Schedule {
    /// Returns this schedule as numbers.
    pub fn terms(&self) -> Terms {
        let head = (self.snapshots as i64) << 5 | (self.algorithm as i64) << 1;
        match &self.form {
            Form::Intervals(intervals) => {
                let even = intervals.spacing.is_none();
                let spacing = intervals.spacing.unwrap_or(intervals.count);
                let within = (intervals.inner as i64) << 31 | spacing as i64;
                let rest = (intervals.cache as i64) << 31 | self.chunk as i64;
                [head | i64::from(even), within, rest]
            }
            Form::Trace(trace) => match (trace.of, trace.tree) {
                (Some(terms), _) => terms,
                // No algorithm has the number 0 and an even spacing.
                (None, Some(tree)) => {
                    let word = |first: u32| (tree.bits() >> first) as i64 & i64::MAX;
                    [(self.snapshots as i64) << 5 | 1, word(0), word(63)]
                }
                (None, None) => [head, 0, 0],
            },
            Form::Online(_) => [head, 0, 0],
        }
    }

    /// Makes the schedule of these numbers for `steps` time steps; 0: not known yet (online). Fails
    /// for a trace, whose actions are in a file.
    pub fn of_terms(steps: u32, [head, within, rest]: Terms) -> Result<Self> {
        let low = |number: i64, bits: u32| (number & ((1 << bits) - 1)) as u32;
        let none = || {
            fail!(
                Argument,
                "{head}, {within}, {rest}: no schedule of {steps} steps has these numbers"
            )
        };
        let known = Algorithm::ALL.into_iter().find(|a| *a as u32 == low(head >> 1, 4));
        let Some(algorithm) = known else { return none() };
        if algorithm == Algorithm::Trace && head & 1 == 1 {
            let bits = within as u128 | (rest as u128) << 63;
            let schedule = Tree::of_bits(bits, steps).map(Self::of_tree).transpose()?;
            let found = schedule.filter(|schedule| schedule.snapshots == low(head >> 5, 32));
            return found.map_or_else(none, Ok);
        }
        if algorithm == Algorithm::Trace {
            return fail!(Config, "another rank follows a trace: give all ranks checkpointing_algorithm = 0 and the same trace_file_path");
        }
        let (snapshots, spacing, inner) =
            (low(head >> 5, 32), low(within, 31), low(within >> 31, 32));
        let intervals = match head & 1 {
            _ if algorithm == Algorithm::Online => {
                return match steps {
                    0 => Self::online_open(snapshots),
                    _ => Self::online(steps, snapshots, false),
                };
            }
            _ if algorithm == Algorithm::Hrevolve => {
                let starts = snapshots.saturating_sub(inner);
                Intervals::nested(steps, spacing.max(2), starts, inner)
            }
            1 => Intervals::even(steps, spacing, snapshots, inner),
            _ => Intervals::of_length(steps, spacing.max(1), snapshots, inner)?,
        };
        let (chunk, cache) = (low(rest, 31), low(rest >> 31, 32));
        Ok(Self::of(algorithm, snapshots, chunk, intervals).through(cache))
    }

    /// A 64-bit number of all actions as the application gets them, joined into ranges if `ranges`:
    /// of their kinds, time steps, range ends and flags, in order. Walks through the whole
    /// schedule.
    ///
    /// The fingerprint of an endless schedule is that of its parameters.
    pub fn fingerprint(&self, ranges: bool) -> Result<u64> {
        let action = |hash, (action, end): (super::Action, u32)| {
            action.check_memory()?;
            let word = (action.kind as u64) << 56 | (action.flags as u64) << 32 | action.ts as u64;
            Ok(mixed(mixed(hash, word), end as u64))
        };
        if self.steps == 0 {
            return Ok(self.terms().iter().fold(0, |hash, &term| mixed(hash, term as u64)));
        }
        self.ranges(ranges).try_fold(0, action)
    }
}

/// Returns the hash of the words that `hash` is of and one more word.
pub fn mixed(hash: u64, word: u64) -> u64 {
    let x = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (x ^ x >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(29)
}
