//! Traces: recorded schedules in the format of GPUZIP 2.x, one `<timestep> <ACTION>` per line.
//! ACTION is FORWARD, SAVE, SAVE_INTERMEDIARY (= SAVE), RESTORE, BACKWARD, FIRSTURN (= BACKWARD) or
//! TERMINATE. Blank lines are allowed; any other text is an error. A trace of several reverse sweeps has
//! a TERMINATE at the end of each, and begins each but the first with a RESTORE.

use super::{flags, validate_ranges, Action, Kind, MacroSteps, Summary, Terms, Tree, MAX_STEPS};
use crate::error::{fail, Error, Result};
use crate::fallible_vec;
use crate::files;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::Arc;

/// A recorded schedule that is valid and has its flags.
#[derive(Clone, Debug)]
pub struct Trace {
    pub(super) actions: Vec<Action>,
    /// Counts of the actions and snapshots, of all sweeps together.
    pub summary: Summary,
    /// Reverse sweeps, at least 1.
    pub sweeps: u32,
    /// The tree that the actions were made from, if they were.
    pub(super) tree: Option<Tree>,
    /// The terms of the schedule that the actions were made from by `Schedule::checked`, if they were.
    pub(super) of: Option<Terms>,
}

/// The most actions of a trace with any number of time steps.
pub(super) const MOST_ACTIONS: u64 = 1 << 28;

/// The most actions of `sweeps` reverse sweeps of `steps` time steps: those of the longest sensible
/// schedule, which keeps one snapshot, computes every state from u(0), and saves every state that it
/// computes. A longer file is refused before it fills the memory.
fn most_actions(steps: Option<u32>, sweeps: u32) -> usize {
    let n = steps.map_or(u64::MAX, u64::from);
    let of_sweep = n.saturating_mul(n.saturating_add(1)).saturating_add(2);
    of_sweep.saturating_mul(sweeps.into()).min(MOST_ACTIONS) as usize
}

fn is_end(action: &Action) -> bool {
    action.kind == Kind::Terminate
}

impl Trace {
    /// Reads a trace file. `steps` is the number of time steps that the trace must reverse; `None`
    /// accepts any number.
    pub fn load(path: &Path, steps: Option<u32>) -> Result<Self> {
        let file = files::open(path, files::LARGEST_TRACE).map_err(Error::from);
        file.and_then(|file| Self::read(io::BufReader::new(file), steps))
            .map_err(|e| e.within(format_args!("trace file {}", path.display())))
    }

    /// Reads a trace from `input`; see `load`.
    pub fn read(mut input: impl BufRead, steps: Option<u32>) -> Result<Self> {
        let mut most = most_actions(steps, 1);
        let (mut actions, mut sweeps) = (Vec::new(), 1);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            // The longest valid line is far shorter. A file without line ends must not fill the
            // memory.
            let limit: u64 = 256;
            match io::Read::take(&mut input, limit).read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(_) if line.len() as u64 == limit => {
                    return fail!(Parse, "line {number}: is longer than {limit} bytes")
                }
                Ok(_) => {}
                Err(e) => return fail!(Io, "line {number}: {e}"),
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            if actions.len() >= most {
                return fail!(
                    Parse,
                    "line {number}: more than {most} actions, which no schedule needs for the number of time \
                     steps that was given"
                );
            }
            let within = |e: Error| e.within(format_args!("line {number}"));
            let action = parse(text).map_err(within)?;
            if is_end(&action) {
                sweeps += 1;
                most = most_actions(steps, sweeps);
            }
            fallible_vec::push(&mut actions, action).map_err(within)?;
        }
        Self::new(actions, steps)
    }

    /// Makes a trace of actions: checks the sequence and sets its flags.
    pub fn new(actions: Vec<Action>, steps: Option<u32>) -> Result<Self> {
        Self::of_actions(actions, steps, most_actions)
    }

    /// As `new`, for at most `most` actions, which depend on the numbers of time steps and of sweeps.
    pub(super) fn of_actions(
        mut actions: Vec<Action>,
        steps: Option<u32>,
        most: impl FnOnce(Option<u32>, u32) -> usize,
    ) -> Result<Self> {
        let count = |kind| actions.iter().filter(|a| a.kind == kind).count() as u32;
        let (reversed, sweeps) = (count(Kind::Backward), count(Kind::Terminate).max(1));
        let steps = steps.unwrap_or(reversed / sweeps);
        if u64::from(reversed) != u64::from(steps) * u64::from(sweeps) {
            let each = match sweeps {
                1 => String::new(),
                _ => format!(" in each of {sweeps} sweeps, which a TERMINATE ends"),
            };
            return fail!(
                Schedule,
                "reverses {reversed} time steps; the application has {steps}{each}"
            );
        }
        if steps == 0 {
            return fail!(Schedule, "has no BACKWARD");
        }
        let (count, most) = (actions.len(), most(Some(steps), sweeps));
        if count > most {
            return fail!(
                Schedule,
                "has {count} actions: no schedule of {steps} time steps needs more than {most}"
            );
        }
        set_flags(&mut actions, steps)?;
        // RECOMPUTE and FIRST_BACKWARD are set when the actions are generated, as for every
        // schedule.
        let summary = Summary { backward_steps: reversed.into(), ..Summary::default() };
        let unchecked = Arc::new(Trace { actions, summary, sweeps, tree: None, of: None });
        let schedule = super::Schedule::trace(unchecked.clone());
        let single = schedule.actions().map(|action| (action, action.ts));
        let summary = validate_ranges(single, (MacroSteps::new(1, steps), sweeps), None)?;
        Ok(Trace { summary, ..Arc::unwrap_or_clone(unchecked) })
    }
}

/// Iterates over the actions of a trace. A trace of one sweep is repeated for each reverse sweep: the sweeps
/// but the last keep u(0), and those but the first begin with it.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    trace: Arc<Trace>,
    next: usize,
    /// Repetitions of the trace after this one, and whether this is the first one.
    more: u32,
    is_first: bool,
    /// Number of the last RESTORE of u(0).
    last_of_start: usize,
}

impl Replay {
    pub fn new(trace: Arc<Trace>, sweeps: u32) -> Self {
        let times = sweeps / trace.sweeps;
        let is_of_start = |action: &Action| action.kind == Kind::Restore && action.ts == 0;
        let last_of_start = match times {
            1 => 0,
            _ => trace.actions.iter().rposition(is_of_start).unwrap_or(0),
        };
        Replay { trace, next: 0, more: times - 1, is_first: true, last_of_start }
    }
}

impl Iterator for Replay {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        let mut action = *self.trace.actions.get(self.next)?;
        if self.next == 0 && !self.is_first {
            // Every trace of two states or more begins with the SAVE of u(0).
            action = Action::new(Kind::Restore, 0);
        }
        if self.more > 0 && self.next == self.last_of_start {
            action.flags &= !flags::LAST_USE;
        }
        self.next += 1;
        if self.next == self.trace.actions.len() && self.more > 0 {
            (self.next, self.more, self.is_first) = (0, self.more - 1, false);
        }
        Some(action)
    }
}

/// Sets NEXT_IS_SAVE by looking one action ahead, and LAST_USE by one pass from the end.
pub(super) fn set_flags(actions: &mut [Action], steps: u32) -> Result<()> {
    let mut needed = fallible_vec::filled(false, steps as usize)?;
    let mut next: Option<(Kind, u32)> = None;
    for action in actions.iter_mut().rev() {
        let ts = action.ts;
        let Some(needed) = needed.get_mut(ts as usize) else { continue };
        let flag = match action.kind {
            Kind::Forward if next == Some((Kind::Save, ts)) => flags::NEXT_IS_SAVE,
            Kind::Restore if !std::mem::replace(needed, true) => flags::LAST_USE,
            Kind::Save if !std::mem::replace(needed, false) => flags::LAST_USE,
            _ => 0,
        };
        action.flags |= flag;
        next = Some((action.kind, ts));
    }
    Ok(())
}

fn parse(text: &str) -> Result<Action> {
    let mut words = text.split_ascii_whitespace();
    let (Some(ts), Some(name), None) = (words.next(), words.next(), words.next()) else {
        return fail!(Parse, "{text:?} is not `<timestep> <ACTION>`");
    };
    let name = match name {
        "SAVE_INTERMEDIARY" => Kind::Save.name(),
        "FIRSTURN" => Kind::Backward.name(),
        name => name,
    };
    let known = |kind: &Kind| *kind != Kind::Error && kind.name() == name;
    let Some(kind) = Kind::ALL.into_iter().find(known) else {
        return fail!(
            Parse,
            "{name:?} is no action: use FORWARD, SAVE, RESTORE, BACKWARD, FIRSTURN or TERMINATE"
        );
    };
    match ts.parse::<u32>() {
        Ok(value) if value <= MAX_STEPS && value.to_string() == ts => Ok(Action::new(kind, value)),
        _ => fail!(Parse, "{ts:?} is no time step: use 0 to {MAX_STEPS}"),
    }
}

/// Writes a schedule as a trace file.
pub fn write(actions: impl IntoIterator<Item = Action>, mut out: impl Write) -> io::Result<()> {
    for action in actions {
        writeln!(out, "{} {}", action.ts, action.kind.name())?;
    }
    out.flush()
}
