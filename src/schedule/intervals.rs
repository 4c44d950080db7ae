//! Intervals: the form that all generated schedules have. A first sweep saves the start of each
//! interval. Then, from the last interval to the first, Revolve (Griewank & Walther 2000) reverses
//! each interval with the slots that are free.
//!
//! One interval gives Revolve itself. As many slots as states give store-all or zCut. One slot per
//! interval gives Uniform as GPUZIP 2.x published it.
//!
//! A nested schedule stores fewer starts than there are intervals: Revolve over whole intervals,
//! each of which counts as one state, decides which starts are stored, and Revolve reverses each
//! interval. The starts can stay in host memory and the snapshots inside an interval in the device
//! cache (Aupy, Herrmann, Hovland & Robert, "Optimal multistage algorithm for adjoint computation",
//! SIAM J. Sci. Comput. 38 (2016), and H-Revolve, ACM TOMS 46 (2020), minimise over such schedules).

use super::revolve::{self, Range};
use super::{flags, Action, Kind};
use crate::error::{fail, Result};
use crate::fallible_vec;

/// A division of `steps` states into intervals, and the number of slots for each interval.
#[derive(Clone, Debug)]
pub(super) struct Intervals {
    pub steps: u32,
    /// States of every interval but the last one, which may be shorter; `None`: the intervals are even,
    /// and interval i starts at round(i n / count), where halves are rounded to even.
    pub spacing: Option<u32>,
    /// Number of intervals.
    pub count: u32,
    /// The most snapshots that are stored at a time.
    pub snapshots: u32,
    /// The most slots for one interval, including the slot of its start.
    pub inner: u32,
    /// The most starts of intervals that are stored at a time; `u32::MAX`: all starts are stored.
    pub starts: u32,
    /// Slots of the device cache for which the schedule is chosen among those with as few forward
    /// steps; 0: no cache.
    pub cache: u32,
}

impl Intervals {
    pub fn whole(steps: u32, snapshots: u32) -> Self {
        Self::even(steps, 1, snapshots, u32::MAX)
    }

    pub fn even(steps: u32, count: u32, snapshots: u32, inner: u32) -> Self {
        Intervals { steps, spacing: None, count, snapshots, inner, starts: u32::MAX, cache: 0 }
    }

    /// Intervals of `length` >= 2 states, each reversed with at most `inner` slots. At most `starts`
    /// starts are stored at a time.
    pub fn nested(steps: u32, length: u32, starts: u32, inner: u32) -> Self {
        let count = steps.div_ceil(length);
        let inner = inner.clamp(1, (length - 1).max(1));
        let starts = starts.min(count - 1).max(1);
        let snapshots = starts.min(count - 1).saturating_add(inner);
        let spacing = Some(length);
        Intervals { steps, spacing, count, snapshots, inner, starts, cache: 0 }
    }

    pub fn of_length(steps: u32, length: u32, snapshots: u32, inner: u32) -> Result<Self> {
        let count = steps.div_ceil(length);
        // If the last interval has one state, that state is reversed while it is live, and nothing
        // is stored.
        let stored = count - u32::from(steps - (count - 1) * length == 1);
        if stored > snapshots {
            let least = steps.div_ceil(snapshots);
            return fail!(
                Config,
                "checkpointing_snaps = {snapshots}: {steps} steps in chunks of schedule_chunk = {length} states have {stored} starts to store; raise \
                 checkpointing_snaps to {stored} or schedule_chunk to {least}"
            );
        }
        let spacing = Some(length);
        Ok(Intervals { steps, spacing, count, snapshots, inner, starts: u32::MAX, cache: 0 })
    }

    /// Even intervals whose number gives the fewest forward steps of `sweeps` reverse sweeps. All free
    /// slots reverse the current interval, up to `inner`.
    pub fn fewest_steps(steps: u32, snapshots: u32, inner: u32, sweeps: u32) -> Self {
        let even = |count| Some(Self::even(steps, count, snapshots, inner));
        Self::cheapest(steps, snapshots, sweeps, even)
    }

    /// Intervals of one length that gives the fewest forward steps, with at most `inner` slots in
    /// each (0: all slots that the starts leave free).
    pub fn fewest_steps_fixed(steps: u32, snapshots: u32, inner: u32) -> Self {
        Self::cheapest(steps, snapshots, 1, |count| {
            let length = steps.div_ceil(count);
            let left = snapshots.checked_sub(steps.div_ceil(length) - 1)?;
            let slots = if inner == 0 { left } else { inner.min(left) };
            (slots >= 1).then(|| Self::of_length(steps, length, snapshots, slots).ok())?
        })
    }

    /// Nested intervals of the length that gives the fewest forward steps, among lengths about 3 %
    /// apart.
    pub fn fewest_steps_nested(steps: u32, starts: u32, inner: u32) -> Self {
        let next = |&length: &u32| Some(length + (length / 32).max(1)).filter(|&next| next < steps);
        std::iter::successors(Some(2.min(steps)), next)
            .map(|length| Self::nested(steps, length, starts, inner))
            .min_by_key(|intervals| intervals.forward_steps(1))
            .unwrap_or_else(|| Self::nested(steps, steps, starts, inner))
    }

    /// The division of fewest forward steps among those that `make` returns. Tries every count up
    /// to 64, then counts 3 % apart, and then all counts near the best one. This is enough, since
    /// the number of forward steps, a closed form, is a smooth function of the count.
    fn cheapest(
        steps: u32,
        snapshots: u32,
        sweeps: u32,
        make: impl Fn(u32) -> Option<Self>,
    ) -> Self {
        let most = snapshots.min(steps);
        let cost = |count: u32| make(count).map(|i| (i.forward_steps(sweeps), count));
        let next = |&count: &u32| Some(count + 1.max(count / 32)).filter(|&next| next <= most);
        let counts = std::iter::successors(Some(1), next);
        let coarse = counts.filter_map(cost).min().map_or(1, |(_, count)| count);
        let reach = coarse / 32 + 1;
        let near = coarse.saturating_sub(reach).max(1)..=coarse.saturating_add(reach).min(most);
        let best = near.filter_map(cost).min();
        best.and_then(|(_, count)| make(count)).unwrap_or_else(|| Self::whole(steps, snapshots))
    }

    /// The first state of interval `i`; `steps` for i = count.
    fn start(&self, i: u32) -> u32 {
        if i >= self.count {
            return self.steps;
        }
        match self.spacing {
            Some(length) => i * length,
            None => {
                let (product, count) = (i as u64 * self.steps as u64, self.count as u64);
                let (whole, twice) = (product / count, product % count * 2);
                (whole + u64::from(twice > count || (twice == count && whole % 2 == 1))) as u32
            }
        }
    }

    /// Number of states in interval `i`.
    pub fn length(&self, i: u32) -> u32 {
        self.start(i + 1) - self.start(i)
    }

    /// Slots that may reverse interval `i`: those that the starts before it leave free.
    pub fn slots(&self, i: u32) -> u32 {
        let below = i.min(self.starts);
        self.snapshots.saturating_sub(below).clamp(1, self.inner)
    }

    /// Slots that may reverse any interval in a sweep after which all starts stay stored.
    fn slots_beside_starts(&self) -> u32 {
        self.slots(self.count - 1)
    }

    /// All intervals as a range for Revolve, in which an interval counts as one state; `None` if all
    /// starts are stored.
    pub fn outer(&self) -> Option<Range> {
        (self.starts < u32::MAX).then(|| Range::new(0, self.count, self.starts))
    }

    pub fn longest(&self) -> u32 {
        self.spacing.unwrap_or_else(|| self.steps.div_ceil(self.count))
    }

    /// The most snapshots of interval `i` that are stored at a time.
    pub fn used(&self, i: u32) -> u32 {
        self.slots(i).min(self.length(i) - 1)
    }

    /// Number of the first intervals, without the last one, that have slots enough for all their states,
    /// or `inner` slots. Nothing but their length, of which there are at most two, tells one from another.
    pub fn alike(&self) -> u32 {
        let enough = self.inner.min(self.longest().max(2) - 1);
        match self.starts {
            u32::MAX => self.snapshots.saturating_sub(enough - 1).min(self.count - 1),
            _ => self.count - 1,
        }
    }

    /// The lengths of the first `count` of these intervals, each with the number of its intervals.
    pub fn lengths(&self, count: u32) -> [(u32, u32); 2] {
        let short = self.spacing.unwrap_or_else(|| self.steps / self.count);
        let longer = self.start(count) - count * short;
        [(short, count - longer), (short + 1, longer)]
    }

    /// Returns the sum of `cost(length, slots)` over all intervals. Intervals that are not `alike` are
    /// fewer than the states of an interval, and are summed one by one.
    fn sum(&self, cost: impl Fn(u64, u64) -> Result<u64>) -> Result<u64> {
        let alike = self.alike();
        let mut sum = 0;
        for (length, count) in self.lengths(alike).into_iter().filter(|(_, count)| *count > 0) {
            sum += u64::from(count) * cost(length.into(), self.slots(0).into())?;
        }
        (alike..self.count)
            .try_fold(sum, |sum, i| Ok(sum + cost(self.length(i).into(), self.slots(i).into())?))
    }

    /// Returns `of_kept` of each interval's states and slots, summed over the sweeps but the last, which
    /// leave the starts stored, plus `of_last`, the sum over the last sweep.
    fn of_sweeps(&self, sweeps: u32, of_kept: impl Fn(u64, u64) -> u64, of_last: u64) -> u64 {
        let slots = self.slots_beside_starts().into();
        let sum = |sum: u64, (length, count): (u32, u32)| {
            sum.saturating_add(u64::from(count).saturating_mul(of_kept(length.into(), slots)))
        };
        let kept = self.lengths(self.count - 1).into_iter().filter(|(_, count)| *count > 0);
        let last = (self.length(self.count - 1), 1);
        let one = kept.chain([last]).fold(0, sum);
        u64::from(sweeps - 1).saturating_mul(one).saturating_add(of_last)
    }

    /// Number of forward steps of `sweeps` reverse sweeps: the forward sweep up to the last interval,
    /// and the reversal of each interval. A nested schedule comes from u(0) in every sweep.
    pub fn forward_steps(&self, sweeps: u32) -> u64 {
        let outside = match self.starts {
            u32::MAX => self.start(self.count - 1) as u64,
            starts => {
                // No advance passes the last interval, and all others have the same length.
                let intervals = revolve::forward_steps(self.count as u64, starts as u64);
                intervals.saturating_mul(self.longest() as u64)
            }
        };
        let inside = self.sum(|n, s| Ok(revolve::forward_steps(n, s))).unwrap_or(0);
        match self.starts {
            u32::MAX => {
                outside.saturating_add(self.of_sweeps(sweeps, revolve::forward_steps, inside))
            }
            _ => outside.saturating_add(inside).saturating_mul(sweeps.into()),
        }
    }

    /// Number of SAVE actions of `sweeps` reverse sweeps, of which only the first saves the starts that
    /// stay stored. If the last interval has one state, that state is not saved for a single sweep.
    pub fn saves(&self, sweeps: u32) -> Result<u64> {
        let is_kept = sweeps > 1 && (self.starts == u32::MAX || self.count == 1);
        let single = u64::from(self.length(self.count - 1) == 1 && !is_kept);
        let saves = match self.cache {
            0 => self.sum(|n, s| Ok(revolve::writes(n, s).max(1))),
            cache => self.sum(|n, s| Ok(revolve::writes_through(n, s, cache)?.max(1))),
        };
        let saves = saves? - single;
        if self.starts < u32::MAX {
            // u(0) is saved once.
            return Ok(saves + u64::from(sweeps - 1) * saves.saturating_sub(1));
        }
        let inside = |n, s| {
            let all = match self.cache {
                0 => Ok(revolve::writes(n, s)),
                cache => revolve::writes_through(n, s, cache),
            };
            all.unwrap_or(u64::MAX).saturating_sub(1)
        };
        Ok(self.of_sweeps(sweeps, inside, saves))
    }
}

/// What the schedule does when the live state has reached `goal`.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// In the first sweep, at the start of the current interval.
    Start,
    /// Split the top range. The live state is the range's base; if all states of the range are
    /// stored, the live state is the range's last one.
    Split,
    /// Save the live state, which is the first one of the top range, or one of a range whose states are
    /// all stored.
    Save,
    /// Nested schedules: split the top range of intervals. The live state is the range's base.
    SplitOuter,
    /// Nested schedules: save the live state, which is the start of the first of the top intervals.
    SaveOuter,
    /// Reverse the live state, which is the only one above the rest of the top range.
    Reverse,
    /// Restore the next state of the top range: the range's base; if all states of the range are
    /// stored, its last state.
    Restore,
    /// Begin the next reverse sweep: restore the start of the last interval; of a nested schedule, u(0).
    Again,
    /// The schedule is over, by TERMINATE, or because there was no memory to go on.
    Terminated,
}

/// The actions of the schedule that `Intervals` describe.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    intervals: Intervals,
    /// Number of reverse sweeps after this one, for which the starts of intervals stay stored; of a
    /// nested schedule, u(0).
    more: u32,
    /// Number of the interval that is swept or reversed.
    interval: u32,
    /// Nested schedules: the ranges of intervals that are being reversed, innermost last. An interval
    /// counts as one state.
    outer: Vec<Range>,
    /// The ranges that are being reversed, innermost last.
    ranges: Vec<Range>,
    /// Time step of the live state, and the time step to reach before `next`.
    pub live: u32,
    goal: u32,
    next: Next,
}

impl Sweep {
    pub fn new(intervals: Intervals, sweeps: u32) -> Self {
        let (outer, ranges, more) = (Vec::new(), Vec::new(), sweeps - 1);
        Sweep { intervals, more, interval: 0, outer, ranges, live: 0, goal: 0, next: Next::Start }
    }

    /// The reversal of the state `live`, and then of `ranges`, whose first states are stored, from the
    /// last range to the first.
    pub fn reversing(live: u32, ranges: Vec<Range>) -> Self {
        let (intervals, outer) = (Intervals::whole(1, 1), Vec::new());
        Sweep {
            intervals,
            more: 0,
            interval: 0,
            outer,
            ranges,
            live,
            goal: live,
            next: Next::Reverse,
        }
    }

    /// Skips the next FORWARD actions up to the state `last`, but for the one that reaches the
    /// goal. Returns their number.
    #[inline]
    pub fn skip_to(&mut self, last: u32) -> u32 {
        let skipped = last.min(self.goal.saturating_sub(1)).saturating_sub(self.live);
        self.live += skipped;
        skipped
    }

    fn range(&self) -> Range {
        let i = self.interval;
        let slots = match self.keeps_starts() {
            true => self.intervals.slots_beside_starts(),
            false => self.intervals.slots(i),
        };
        Range::new(self.intervals.start(i), self.intervals.length(i), slots)
            .through(self.intervals.cache)
    }

    /// Whether all starts stay stored for the next reverse sweep.
    fn keeps_starts(&self) -> bool {
        self.more > 0 && self.intervals.starts == u32::MAX
    }

    /// Whether the snapshot of `ts`, which this sweep does not read again, stays stored for the next one.
    fn is_kept(&self, ts: u32) -> bool {
        let is_start = || self.keeps_starts() && ts == self.intervals.start(self.interval);
        self.more > 0 && (ts == 0 || is_start())
    }

    /// Ends this reverse sweep, and prepares the next one, if there is one.
    fn terminate(&mut self) -> Action {
        self.next = if self.more > 0 { Next::Again } else { Next::Terminated };
        Action::new(Kind::Terminate, 0)
    }

    /// Begins the next reverse sweep.
    fn begin_again(&mut self) -> Action {
        self.more -= 1;
        if let Some(outer) = self.intervals.outer().filter(|outer| outer.len > 1) {
            return self.keep(outer, true).unwrap_or_else(|| self.restore_outer());
        }
        self.interval = self.intervals.count;
        self.restore_interval()
    }

    /// Puts a range on top of the others, `of_intervals` on top of the ranges of intervals. Without
    /// memory for the range, returns the action ERROR, which ends the schedule.
    #[inline]
    fn keep(&mut self, range: Range, of_intervals: bool) -> Option<Action> {
        let ranges = if of_intervals { &mut self.outer } else { &mut self.ranges };
        fallible_vec::push(ranges, range).is_err().then(|| {
            (self.next, self.goal) = (Next::Terminated, self.live);
            Action::new(Kind::Error, 0)
        })
    }

    /// Splits the top range of intervals and sets the start of the upper part as the goal. A range of
    /// one interval leaves the list, and the interval is reversed next.
    fn split_outer(&mut self) -> Option<Action> {
        let top = self.outer.last_mut()?;
        if top.len == 1 {
            self.interval = top.base;
            self.outer.pop();
            self.next = Next::Split;
            return self.keep(self.range(), false);
        }
        let upper = top.split();
        self.goal = self.intervals.start(upper.base);
        if upper.len > 1 {
            self.next = Next::SaveOuter;
            return self.keep(upper, true);
        }
        self.interval = upper.base;
        self.reach(self.range())
    }

    /// Lets the state at the goal be saved as the first one of `range`, which is reversed then.
    #[inline]
    fn reach(&mut self, range: Range) -> Option<Action> {
        if range.len == 1 {
            self.next = Next::Reverse;
            return None;
        }
        self.next = Next::Save;
        self.keep(range, false)
    }

    /// Restores the start of the first interval of the top range of intervals.
    fn restore_outer(&mut self) -> Action {
        let Some(top) = self.outer.last() else { return self.terminate() };
        let ts = self.intervals.start(top.base);
        let is_last = top.len == 1 && self.intervals.length(top.base) == 1;
        let last_use = is_last && !self.is_kept(ts);
        (self.live, self.goal) = (ts, ts);
        self.next = Next::SplitOuter;
        Action::new(Kind::Restore, ts).with(flags::LAST_USE, last_use)
    }

    /// At the start of an interval in the first sweep: saves the live state, and then goes on to
    /// the next start, or begins to reverse the last interval.
    fn start(&mut self) -> Option<Action> {
        let at = self.live;
        if let Some(outer) = self.intervals.outer().filter(|outer| outer.len > 1) {
            self.next = Next::SplitOuter;
            return self.keep(outer, true).or(Some(Action::new(Kind::Save, at)));
        }
        if self.interval + 1 < self.intervals.count {
            self.interval += 1;
            self.goal = self.intervals.start(self.interval);
            return Some(Action::new(Kind::Save, at));
        }
        let range = self.range();
        self.next = Next::Split;
        let save = range.len > 1 || self.is_kept(at);
        self.keep(range, false).or(save.then(|| Action::new(Kind::Save, at)))
    }

    /// Splits the top range and sets the split as the goal. If a range has slots for all its
    /// states, its states are stored one by one instead.
    #[inline]
    fn split(&mut self) -> Option<Action> {
        let top = self.ranges.last_mut()?;
        if !top.stores_all() {
            let upper = top.split();
            self.goal = upper.base;
            return self.reach(upper);
        }
        top.stored = true;
        let last = top.base + top.len - 1;
        if self.live < last {
            self.goal = self.live + 1;
            self.next = if self.goal < last { Next::Save } else { Next::Split };
            return None;
        }
        top.len -= 1;
        if top.len == 0 {
            self.ranges.pop();
        }
        self.next = Next::Restore;
        Some(Action::new(Kind::Backward, last))
    }

    /// Restores the base of the top range, or the start of the interval before the current one.
    /// Returns TERMINATE after the first interval.
    #[inline]
    fn restore(&mut self) -> Action {
        if self.ranges.is_empty() {
            if self.intervals.outer().is_some() {
                return self.restore_outer();
            }
            return match self.interval {
                0 => self.terminate(),
                _ => self.restore_interval(),
            };
        }
        self.restore_top()
    }

    /// Restores the start of the interval before the current one.
    fn restore_interval(&mut self) -> Action {
        self.interval -= 1;
        self.keep(self.range(), false).unwrap_or_else(|| self.restore_top())
    }

    /// Restores the next state of the top range.
    #[inline]
    fn restore_top(&mut self) -> Action {
        let (ts, is_last) = match self.ranges.last() {
            Some(top) if top.stored => (top.base + top.len - 1, true),
            Some(top) => (top.base, top.len == 1),
            None => (0, true),
        };
        let last_use = is_last && !self.is_kept(ts);
        (self.live, self.goal) = (ts, ts);
        self.next = Next::Split;
        Action::new(Kind::Restore, ts).with(flags::LAST_USE, last_use)
    }

    /// An action of the live state, after which the schedule goes on with `next`.
    #[inline]
    fn act(&mut self, kind: Kind, next: Next) -> Option<Action> {
        self.next = next;
        Some(Action::new(kind, self.live))
    }

    fn saves_at_goal(&self) -> bool {
        match self.next {
            Next::Save | Next::SaveOuter => true,
            Next::Start => {
                self.interval + 1 < self.intervals.count
                    || self.intervals.length(self.interval) > 1
                    || self.is_kept(self.goal)
            }
            _ => false,
        }
    }

    /// Returns the next action, and the number of FORWARDs before it that were passed, all if `passes`.
    #[inline(always)]
    pub fn advance(&mut self, passes: bool) -> Option<(u32, Action)> {
        let mut passed = 0;
        loop {
            if passes {
                passed += self.goal.saturating_sub(self.live);
                self.live = self.live.max(self.goal);
            } else if self.live < self.goal {
                self.live += 1;
                let saves = self.live == self.goal && self.saves_at_goal();
                let forward = Action::new(Kind::Forward, self.live);
                return Some((0, forward.with(flags::NEXT_IS_SAVE, saves)));
            }
            let action = match self.next {
                Next::Start => self.start(),
                Next::Split => self.split(),
                Next::Save => self.act(Kind::Save, Next::Split),
                Next::SplitOuter => self.split_outer(),
                Next::SaveOuter => self.act(Kind::Save, Next::SplitOuter),
                Next::Reverse => self.act(Kind::Backward, Next::Restore),
                Next::Restore => Some(self.restore()),
                Next::Again => Some(self.begin_again()),
                Next::Terminated => return None,
            };
            if let Some(action) = action {
                return Some((passed, action));
            }
        }
    }
}

impl Iterator for Sweep {
    type Item = Action;

    #[inline]
    fn next(&mut self) -> Option<Action> {
        self.advance(false).map(|(_, action)| action)
    }
}
