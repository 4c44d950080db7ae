//! The one shape of all generated schedules: a first sweep that saves the start of each interval,
//! then, from the last interval to the first, Revolve inside it with the slots that it may use. One
//! interval is Revolve; as many slots as states is store-all or zCut; one slot per interval is the
//! published Uniform.

use super::revolve::{self, Range};
use super::{flags, Action, Kind};
use crate::error::{fail, Result};
use crate::fallible_vec;

#[derive(Clone, Copy, Debug)]
enum Spacing {
    /// `count` intervals that start at round(i n / count), halves to even.
    Even(u32),
    /// Intervals of this length; the last one may be shorter.
    Length(u32),
}

/// A division of `steps` states into intervals, and the slots for each.
#[derive(Clone, Debug)]
pub(super) struct Intervals {
    pub steps: u32,
    spacing: Spacing,
    count: u32,
    /// Snapshots stored at a time, at most.
    snapshots: u32,
    /// Slots inside an interval, its start's included, at most.
    inner: u32,
    /// Slots of the device cache for which equally short schedules are told apart; 0: none.
    cache: u32,
}

impl Intervals {
    pub fn whole(steps: u32, snapshots: u32) -> Self {
        Self::even(steps, 1, snapshots, u32::MAX)
    }

    pub fn even(steps: u32, count: u32, snapshots: u32, inner: u32) -> Self {
        Intervals { steps, spacing: Spacing::Even(count), count, snapshots, inner, cache: 0 }
    }

    /// The same intervals, each reversed with as few transfers through a device cache as the fewest
    /// steps allow.
    pub fn through(self, cache: u32) -> Self {
        Intervals { cache, ..self }
    }

    /// Whether they are spaced evenly, and their number then; or else their length.
    pub fn spacing(&self) -> (bool, u32) {
        match self.spacing {
            Spacing::Even(count) => (true, count),
            Spacing::Length(length) => (false, length),
        }
    }

    /// Slots inside an interval, its start's included, at most.
    pub fn inner(&self) -> u32 {
        self.inner
    }

    /// The cache for which they are reversed.
    pub fn cache(&self) -> u32 {
        self.cache
    }

    pub fn of_length(steps: u32, length: u32, snapshots: u32, inner: u32) -> Result<Self> {
        let count = steps.div_ceil(length);
        // A last interval of one state is reversed from the live state: nothing of it is stored.
        let stored = count - u32::from(steps - (count - 1) * length == 1);
        if stored > snapshots {
            let least = steps.div_ceil(snapshots);
            return fail!(
                Config,
                "snapshots = {snapshots}: {steps} steps in chunks of {length} have {stored} starts to store; raise the snapshots to \
                 {stored} or the chunk to {least}"
            );
        }
        Ok(Intervals { steps, spacing: Spacing::Length(length), count, snapshots, inner, cache: 0 })
    }

    /// Even intervals, their number chosen for the fewest forward steps; all slots that are free
    /// work inside.
    pub fn fewest_steps(steps: u32, snapshots: u32, inner: u32) -> Self {
        Self::cheapest(steps, snapshots, |count| Some(Self::even(steps, count, snapshots, inner)))
    }

    /// Intervals of one length with at most `inner` slots in each (0: all that the starts leave),
    /// chosen for the fewest forward steps.
    pub fn fewest_steps_fixed(steps: u32, snapshots: u32, inner: u32) -> Self {
        Self::cheapest(steps, snapshots, |count| {
            let length = steps.div_ceil(count);
            let left = snapshots.checked_sub(steps.div_ceil(length) - 1)?;
            let slots = if inner == 0 { left } else { inner.min(left) };
            (slots >= 1).then(|| Self::of_length(steps, length, snapshots, slots).ok())?
        })
    }

    /// The cheapest of the divisions that `make` offers. Tries every count up to 64 and then counts
    /// 3 % apart, and refines around the best: the cost is smooth in the count, and its
    /// evaluation is a closed form.
    fn cheapest(steps: u32, snapshots: u32, make: impl Fn(u32) -> Option<Self>) -> Self {
        let most = snapshots.min(steps);
        let cost = |count: u32| make(count).map(|i| (i.forward_steps(), count));
        let mut counts = Vec::new();
        let mut count = 1u32;
        while count <= most {
            counts.push(count);
            count += 1.max(count / 32);
        }
        let coarse = counts.into_iter().filter_map(cost).min().map_or(1, |(_, count)| count);
        let reach = coarse / 32 + 1;
        let best = (coarse.saturating_sub(reach).max(1)..=coarse.saturating_add(reach).min(most))
            .filter_map(cost)
            .min();
        best.and_then(|(_, count)| make(count)).unwrap_or_else(|| Self::whole(steps, snapshots))
    }

    /// The first state of interval `i`; `steps` for i = count.
    fn start(&self, i: u32) -> u32 {
        if i >= self.count {
            return self.steps;
        }
        match self.spacing {
            Spacing::Length(length) => i * length,
            Spacing::Even(count) => {
                let (product, count) = (i as u64 * self.steps as u64, count as u64);
                let (whole, twice) = (product / count, product % count * 2);
                (whole + u64::from(twice > count || (twice == count && whole % 2 == 1))) as u32
            }
        }
    }

    /// Their number.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// States of interval `i`.
    pub fn length(&self, i: u32) -> u32 {
        self.start(i + 1) - self.start(i)
    }

    /// Slots that may reverse interval `i`: those that the starts before it leave free.
    pub fn slots(&self, i: u32) -> u32 {
        self.snapshots.saturating_sub(i).clamp(1, self.inner)
    }

    pub fn longest(&self) -> u32 {
        match self.spacing {
            Spacing::Length(length) => length,
            Spacing::Even(count) => self.steps.div_ceil(count),
        }
    }

    /// The sum of `cost(length, slots)` over all intervals. All that have slots enough for every
    /// state, or as many as `inner` allows, cost the same for the same length, of which there
    /// are two at most; the others are fewer than the states of an interval.
    fn sum(&self, cost: impl Fn(u64, u64) -> Result<u64>) -> Result<u64> {
        let (last, longest) = (self.count - 1, self.longest());
        let enough = self.inner.min(longest.max(2) - 1);
        let alike = self.snapshots.saturating_sub(enough - 1).min(last);
        let short = match self.spacing {
            Spacing::Length(length) => length as u64,
            Spacing::Even(count) => (self.steps / count) as u64,
        };
        let longer = self.start(alike) as u64 - alike as u64 * short;
        let same = (alike as u64 - longer) * cost(short, enough as u64)?
            + if longer > 0 { longer * cost(short + 1, enough as u64)? } else { 0 };
        (alike..=last)
            .try_fold(same, |sum, i| Ok(sum + cost(self.length(i) as u64, self.slots(i) as u64)?))
    }

    /// Plain forward steps: the sweep over all intervals but the last, and the reversal of each.
    pub fn forward_steps(&self) -> u64 {
        self.start(self.count - 1) as u64
            + self.sum(|n, s| Ok(revolve::forward_steps(n, s))).unwrap_or(0)
    }

    /// SAVE actions: a single state that is not swept to again needs none if it is the last.
    pub fn saves(&self) -> Result<u64> {
        let single = u64::from(self.length(self.count - 1) == 1);
        let saves = match self.cache {
            0 => self.sum(|n, s| Ok(revolve::writes(n, s).max(1))),
            cache => self.sum(|n, s| Ok(revolve::writes_through(n, s, cache)?.max(1))),
        };
        Ok(saves? - single)
    }
}

/// What follows once the live state has reached `goal`.
#[derive(Clone, Debug)]
enum Next {
    /// In the first sweep, at the start of the current interval.
    Start,
    /// The top range is live at its base, or at its end if all of it is stored.
    Split,
    /// The live state is stored as one more of the top range.
    Keep,
    /// The live state begins the range, which is stored and reversed next.
    Save(Range),
    /// The live state is the only one above the top range's rest.
    Reverse,
    /// The next state of the top range must be restored: its base, or its last one if all of it is
    /// stored.
    Restore,
    /// The schedule is over: by TERMINATE, or because there was no memory to go on.
    Terminated,
}

/// The actions of `Intervals`.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    intervals: Intervals,
    /// The interval that is swept or reversed.
    interval: u32,
    /// Ranges being reversed, innermost last.
    ranges: Vec<Range>,
    /// The time step of the live state, and the one to reach before `next`.
    live: u32,
    goal: u32,
    next: Next,
}

impl Sweep {
    pub fn new(intervals: Intervals) -> Self {
        Sweep { intervals, interval: 0, ranges: Vec::new(), live: 0, goal: 0, next: Next::Start }
    }

    fn range(&self) -> Range {
        let i = self.interval;
        Range::new(self.intervals.start(i), self.intervals.length(i), self.intervals.slots(i))
            .through(self.intervals.cache)
    }

    /// Puts a range on top of the others, and gives `action` then; the action ERROR ends the
    /// schedule if there is no memory for the range.
    fn keep(&mut self, range: Range, action: Option<Action>) -> Option<Action> {
        if fallible_vec::push(&mut self.ranges, range).is_ok() {
            return action;
        }
        (self.next, self.goal) = (Next::Terminated, self.live);
        Some(Action::new(Kind::Error, 0))
    }

    /// At an interval's start in the first sweep: saves it, and goes to the next start or begins to
    /// reverse the last interval.
    fn start(&mut self) -> Option<Action> {
        let at = self.live;
        if self.interval + 1 < self.intervals.count {
            self.interval += 1;
            self.goal = self.intervals.start(self.interval);
            return Some(Action::new(Kind::Save, at));
        }
        let range = self.range();
        self.next = Next::Split;
        let save = range.len > 1;
        self.keep(range, save.then(|| Action::new(Kind::Save, at)))
    }

    /// Splits the top range and heads for the split. A range with slots for all its states is
    /// stored state by state instead.
    fn split(&mut self) -> Option<Action> {
        let top = self.ranges.last_mut()?;
        if !top.stores_all() {
            let upper = top.split();
            self.goal = upper.base;
            self.next = if upper.len > 1 { Next::Save(upper) } else { Next::Reverse };
            return None;
        }
        top.stored = true;
        let last = top.base + top.len - 1;
        if self.live < last {
            self.goal = self.live + 1;
            self.next = if self.goal < last { Next::Keep } else { Next::Split };
            return None;
        }
        top.len -= 1;
        if top.len == 0 {
            self.ranges.pop();
        }
        self.next = Next::Restore;
        Some(Action::new(Kind::Backward, last))
    }

    /// Restores the top range's base, or the start of the interval before the current one; ends
    /// after the first interval.
    fn restore(&mut self) -> Action {
        if self.ranges.is_empty() {
            if self.interval == 0 {
                self.next = Next::Terminated;
                return Action::new(Kind::Terminate, 0);
            }
            self.interval -= 1;
            let range = self.range();
            if let Some(failed) = self.keep(range, None) {
                return failed;
            }
        }
        let (ts, last_use) = match self.ranges.last() {
            Some(top) if top.stored => (top.base + top.len - 1, true),
            Some(top) => (top.base, top.len == 1),
            None => (0, true),
        };
        (self.live, self.goal) = (ts, ts);
        self.next = Next::Split;
        Action::new(Kind::Restore, ts).with(flags::LAST_USE, last_use)
    }

    fn saves_at_goal(&self) -> bool {
        match self.next {
            Next::Save(_) | Next::Keep => true,
            Next::Start => {
                self.interval + 1 < self.intervals.count || self.intervals.length(self.interval) > 1
            }
            _ => false,
        }
    }
}

impl Iterator for Sweep {
    type Item = Action;

    #[inline]
    fn next(&mut self) -> Option<Action> {
        loop {
            if self.live < self.goal {
                self.live += 1;
                let arrives = self.live == self.goal;
                return Some(
                    Action::new(Kind::Forward, self.live)
                        .with(flags::NEXT_IS_SAVE, arrives && self.saves_at_goal()),
                );
            }
            let action = match std::mem::replace(&mut self.next, Next::Split) {
                Next::Start => {
                    self.next = Next::Start;
                    self.start()
                }
                Next::Split => self.split(),
                Next::Keep => Some(Action::new(Kind::Save, self.live)),
                Next::Save(range) => self.keep(range, Some(Action::new(Kind::Save, self.live))),
                Next::Reverse => {
                    self.next = Next::Restore;
                    Some(Action::new(Kind::Backward, self.live))
                }
                Next::Restore => Some(self.restore()),
                Next::Terminated => {
                    self.next = Next::Terminated;
                    return None;
                }
            };
            if action.is_some() {
                return action;
            }
        }
    }
}
