//! Online: a schedule for a number of time steps that is not known before the forward phase ends.
//!
//! In the forward phase, a rule decides after every step whether the live state is saved, and which
//! older snapshot the new one replaces. Whenever the phase ends, Revolve (Griewank & Walther 2000)
//! reverses each gap between two kept snapshots, from the last gap to the first, with all slots that
//! are free by then.
//!
//! Sources: Heuveline & Walther, "Online checkpointing for parallel adjoint computation in PDEs",
//! Euro-Par 2006; Wang, Moin & Iaccarino, "Minimal repetition dynamic checkpointing algorithm for
//! unsteady adjoint calculation", SIAM J. Sci. Comput. 31 (2009); Stumm & Walther, "New algorithms
//! for optimal online checkpointing", SIAM J. Sci. Comput. 32 (2010), who show that the fewest
//! forward steps are possible as long as n <= beta(s, 2). The rule here is this library's own: a
//! snapshot is replaced as soon as that costs nothing, if one step follows. It has the fewest
//! forward steps for n <= beta(s, 2), and few more for larger n.

use super::intervals::Sweep;
use super::revolve::{self, Range};
use super::{flags, Action, Kind, MAX_STEPS};
use crate::error::Result;
use crate::fallible_vec::{self, with_room};
use std::sync::Arc;

/// The sum of an array's first elements, and the place of the least value among them.
#[derive(Clone, Copy, Debug, Default)]
struct Prefix {
    /// The sum of `gain` over the gaps 1 to i.
    gains: i64,
    /// The least of the merge cost plus `gains` over the snapshots 1 to i, and its snapshot.
    least: i64,
    which: u32,
}

/// What the rule keeps of the snapshots.
#[derive(Clone, Debug)]
enum Kept {
    /// n <= beta(s, 2): every state is saved. As long as slots are free, no gap is longer than one
    /// state; afterwards, the first `full` gaps have their greatest lengths, s + 1,
    /// s, ..., with which no step is computed more than twice; the next gap, which begins at `base`,
    /// has `length` states, and all other gaps have one.
    Twice {
        full: u32,
        base: u32,
        length: u32,
    },
    Listed(Listed),
}

/// The time steps of all snapshots, and for each gap between two of them a [`Prefix`].
#[derive(Clone, Debug)]
struct Listed {
    at: Vec<u32>,
    prefix: Vec<Prefix>,
}

/// What a SAVE of the forward phase does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saving {
    /// The snapshot that the new one replaces; `None`: a slot is free.
    pub replaces: Option<u32>,
}

/// The rule of the forward phase. It sees the states one by one.
#[derive(Clone, Debug)]
pub struct Rule {
    slots: u32,
    /// The time step of the next state.
    pub(crate) live: u32,
    /// States before this one are not saved unless an earlier state is; 0: not known.
    quiet: u32,
    kept: Kept,
}

/// t(n, s) as a number that can be subtracted.
fn steps(n: u32, slots: u32) -> i64 {
    revolve::forward_steps(n as u64, slots as u64) as i64
}

impl Rule {
    /// The rule for `slots` >= 1 slots, before u(0).
    pub fn new(slots: u32) -> Self {
        Rule { slots, live: 0, quiet: 0, kept: Kept::Twice { full: 0, base: 0, length: 1 } }
    }

    /// Decides on the next state: returns what its SAVE does, or `None` if the state is not saved.
    pub fn next_state(&mut self) -> Result<Option<Saving>> {
        let (live, slots) = (self.live, self.slots);
        self.live += 1;
        if live < slots {
            return Ok(Some(Saving { replaces: None }));
        }
        if slots == 1 || live < self.quiet {
            return Ok(None);
        }
        if let Kept::Twice { full, base, length } = &mut self.kept {
            if *full + 1 < slots {
                let replaced = *base + *length;
                *length += 1;
                if *length == slots - *full + 1 {
                    (*full, *base, *length) = (*full + 1, *base + *length, 1);
                }
                return Ok(Some(Saving { replaces: Some(replaced) }));
            }
            let at = self.snapshots_before(live)?;
            let prefix = fallible_vec::filled(Prefix::default(), at.len())?;
            let mut listed = Listed { at, prefix };
            listed.weigh(slots, 1, live);
            self.kept = Kept::Listed(listed);
        }
        self.replaced(live)
    }

    /// Decides on the state `live` where a snapshot has to be replaced at a cost: compares the
    /// steps of ending after one more FORWARD, with and without the SAVE.
    fn replaced(&mut self, live: u32) -> Result<Option<Saving>> {
        let most = revolve::beta(i64::from(self.slots), 2);
        let first = u64::from(live) < most;
        let Kept::Listed(listed) = &mut self.kept else { return Ok(None) };
        if u64::from(live) == most {
            listed.weigh(self.slots, 1, live);
        }
        let (cost, which) = listed.cheapest(live, first);
        if cost > 0 {
            self.quiet = if first { 0 } else { listed.quiet_until(live) };
            return Ok(None);
        }
        let replaced = listed.at.remove(which);
        listed.at.push(live);
        listed.weigh(self.slots, which.saturating_sub(1), live);
        Ok(Some(Saving { replaces: Some(replaced) }))
    }

    /// The time steps of the snapshots that are kept before the decision on the next state.
    pub fn snapshots(&self) -> Result<Vec<u32>> {
        self.snapshots_before(self.live)
    }

    fn snapshots_before(&self, live: u32) -> Result<Vec<u32>> {
        let count = live.min(self.slots);
        match &self.kept {
            Kept::Listed(listed) => fallible_vec::copied(&listed.at),
            Kept::Twice { full, base, length } => {
                let mut at = with_room(count.max(1) as usize)?;
                let mut next = 0;
                for i in 0..*full {
                    at.push(next);
                    next += self.slots - i + 1;
                }
                at.push(*base);
                at.extend((*base + *length..live).take((count.max(1) - *full - 1) as usize));
                at.truncate(count as usize);
                Ok(at)
            }
        }
    }
}

impl Listed {
    /// Computes the prefixes anew from snapshot `from` >= 1 on. Gap i begins with snapshot i and has
    /// s - i slots. To drop snapshot i merges two gaps, which takes more steps, and gives every later
    /// gap one more slot, which saves `gain`.
    ///
    /// Among equally good snapshots, the first one is dropped as long as the fewest steps are
    /// possible, and then the last one, since later snapshots are cheaper to move.
    fn weigh(&mut self, s: u32, from: usize, live: u32) {
        let Listed { at, prefix } = self;
        let first = u64::from(live) < revolve::beta(i64::from(s), 2);
        // The last gap is open: its merge is weighed at each state.
        for i in from.max(1)..at.len() - 1 {
            let (lower, upper, slots) = (at[i] - at[i - 1], at[i + 1] - at[i], s - i as u32);
            let alone = steps(upper, slots);
            let merge = steps(lower + upper, slots + 1) - steps(lower, slots + 1) - alone;
            let before = prefix[i - 1];
            let gains = before.gains + alone - steps(upper, slots + 1);
            let here = merge + gains;
            let keep = i > 1 && if first { before.least <= here } else { before.least < here };
            prefix[i] = match keep {
                true => Prefix { gains, ..before },
                false => Prefix { gains, least: here, which: i as u32 },
            };
        }
    }

    /// Returns the fewest additional steps of a SAVE of the state `live` if one more FORWARD follows, and
    /// which snapshot it replaces then. `first`: of equally good snapshots that are not the last one, an
    /// inner one is replaced.
    fn cheapest(&self, live: u32, first: bool) -> (i64, usize) {
        let Listed { at, prefix } = self;
        let last = at.len() - 1;
        let open = live - at[last];
        let without = steps(open + 1, 1);
        let lower = at[last] - at[last - 1];
        let merged = steps(lower + open, 2) - steps(lower, 2) - without;
        if last > 1 {
            let inner = prefix[last - 1];
            let other = inner.least - inner.gains + steps(open, 2) - without;
            if other < merged || (first && other == merged) {
                return (other, inner.which as usize);
            }
        }
        (merged, last)
    }

    /// Returns the first state behind `live` whose SAVE costs nothing, if no state is saved before it;
    /// `live` is a state whose SAVE costs something.
    ///
    /// Both costs of [`Listed::cheapest`] fall from some state on, and rise before it: t(n, 1) grows by n with each
    /// step, and t(n, 2) by about the root of 2 n. So a cost that is positive at `live` falls below 1 once.
    fn quiet_until(&self, live: u32) -> u32 {
        let costs = |state: u32| self.cheapest(state, false).0 > 0;
        let (mut low, mut by) = (live, 1);
        while low.saturating_add(by) < MAX_STEPS && costs(low + by) {
            (low, by) = (low + by, by.saturating_mul(2));
        }
        let mut high = low.saturating_add(by).min(MAX_STEPS);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if costs(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}

/// The forward phase of a schedule for n steps, as it was when it ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Number of SAVE actions of the forward phase.
    pub saves: u64,
    /// Whether one of them saves the last state.
    pub last_saved: bool,
    /// The time steps of the snapshots that the reverse phase begins with, n - 1 not among them.
    pub at: Vec<u32>,
}

impl Ended {
    /// Plays the rule for `slots` slots up to the state n - 1 = `last`, which is saved only if
    /// `after_save` and if the rule saves it.
    pub fn after(last: u32, slots: u32, after_save: bool) -> Result<Self> {
        let (mut rule, mut saves) = (Rule::new(slots), 0);
        for _ in 0..last {
            saves += u64::from(rule.next_state()?.is_some());
        }
        let last_saved = after_save && rule.next_state()?.is_some();
        let mut at = rule.snapshots()?;
        at.retain(|&ts| ts < last);
        Ok(Ended { saves: saves + u64::from(last_saved), last_saved, at })
    }

    /// The gaps between the snapshots, as ranges that Revolve reverses; the last one ends before the
    /// state `last`.
    pub fn ranges(&self, last: u32, slots: u32) -> impl ExactSizeIterator<Item = Range> + '_ {
        let end = move |i: usize| self.at.get(i + 1).copied().unwrap_or(last);
        (0..self.at.len())
            .map(move |i| Range::new(self.at[i], end(i) - self.at[i], slots - i as u32))
    }

    /// Returns the sum of `cost(length, slots)` over the gaps.
    pub fn sum(&self, last: u32, slots: u32, cost: impl Fn(u64, u64) -> u64) -> u64 {
        self.ranges(last, slots).map(|range| cost(range.len.into(), range.slots.into())).sum()
    }
}

/// An online schedule: its slots, and how its forward phase ended, if it has ended.
#[derive(Clone, Debug)]
pub(super) struct Online {
    pub slots: u32,
    /// Whether the forward phase ended after the SAVE of its last state.
    pub after_save: bool,
    /// `None`: the forward phase goes on without end.
    pub ended: Option<Arc<Ended>>,
}

/// The actions of an online schedule.
#[derive(Clone, Debug)]
pub(super) struct Phases {
    online: Online,
    rule: Rule,
    /// The last state of the forward phase.
    last: u32,
    live: u32,
    /// What follows the last action of the forward phase.
    next: Next,
    /// The snapshot that the action returned last has replaced, or that no later action needs.
    pub dropped: Option<u32>,
}

#[derive(Clone, Debug)]
enum Next {
    /// SAVE of the live state.
    Save(Saving),
    Forward,
    /// The reverse phase. `true`: its first action, which drops a snapshot of the last state, comes.
    Reverse(Box<Sweep>, bool),
    Failed,
    Over,
}

impl Phases {
    pub fn new(online: &Online, steps: u32) -> Self {
        let last = if online.ended.is_some() { steps - 1 } else { u32::MAX };
        let (online, rule) = (online.clone(), Rule::new(online.slots));
        let mut phases = Phases { rule, online, last, live: 0, next: Next::Over, dropped: None };
        let first = phases.decide();
        phases.then(first);
        phases
    }

    /// Decides what follows the FORWARD to the live state, and whether that is its SAVE.
    fn decide(&mut self) -> Result<Next> {
        if self.live == self.last && !self.online.after_save {
            return self.reverse();
        }
        match self.rule.next_state()? {
            Some(saving) => Ok(Next::Save(saving)),
            None if self.live == self.last => self.reverse(),
            None => Ok(Next::Forward),
        }
    }

    fn reverse(&self) -> Result<Next> {
        let Some(ended) = &self.online.ended else { return Ok(Next::Forward) };
        let ranges = ended.ranges(self.last, self.online.slots);
        let sweep = Sweep::reversing(self.last, fallible_vec::collected(ranges)?);
        Ok(Next::Reverse(Box::new(sweep), ended.last_saved))
    }

    /// Sets what comes next. Without memory, that is the action ERROR.
    fn then(&mut self, next: Result<Next>) {
        self.next = next.unwrap_or(Next::Failed);
    }
}

impl Iterator for Phases {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        self.dropped = None;
        match &mut self.next {
            Next::Save(saving) => {
                self.dropped = saving.replaces;
                let next = if self.live == self.last { self.reverse() } else { Ok(Next::Forward) };
                self.then(next);
                Some(Action::new(Kind::Save, self.live))
            }
            // The time steps of the C interface end there.
            Next::Forward if self.live + 1 >= MAX_STEPS => None,
            Next::Forward => {
                self.live += 1;
                let next = self.decide();
                self.then(next);
                let saves = matches!(self.next, Next::Save(_));
                Some(Action::new(Kind::Forward, self.live).with(flags::NEXT_IS_SAVE, saves))
            }
            Next::Reverse(sweep, drops) => {
                self.dropped = std::mem::take(drops).then_some(self.last);
                sweep.next()
            }
            Next::Failed => {
                self.next = Next::Over;
                Some(Action::new(Kind::Error, 0))
            }
            Next::Over => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{validate_schedule, Schedule};
    use super::*;

    /// A rule that weighs every state decides as one that knows which states need no weighing.
    #[test]
    fn states_that_are_passed_over_are_those_that_cost() {
        for slots in 2..14 {
            let (mut quick, mut plain) = (Rule::new(slots), Rule::new(slots));
            for live in 0..30_000 {
                plain.quiet = 0;
                assert_eq!(
                    quick.next_state().unwrap(),
                    plain.next_state().unwrap(),
                    "{slots} slots, state {live}"
                );
            }
            assert!(slots > 8 || quick.quiet > 0);
        }
    }

    /// Forward steps if the phase ends at the live state `last` with these snapshots.
    fn total(at: &[u32], slots: u32, last: u32) -> i64 {
        let end = |i: usize| at.get(i + 1).copied().unwrap_or(last);
        let gaps = (0..at.len()).map(|i| steps(end(i) - at[i], slots - i as u32));
        i64::from(last) + gaps.sum::<i64>()
    }

    /// The rule, told as plainly as possible: the snapshot whose replacement is cheapest if the phase
    /// ends one step later is replaced, if that costs no more than to save nothing.
    fn plain(at: &mut Vec<u32>, slots: u32, live: u32) -> Option<Saving> {
        if at.len() < slots as usize {
            at.push(live);
            return Some(Saving { replaces: None });
        }
        let last_wins = u64::from(live) >= revolve::beta(slots.into(), 2);
        let mut best: Option<(i64, usize)> = None;
        for i in 1..at.len() {
            let mut replaced = at.clone();
            replaced.remove(i);
            replaced.push(live);
            let cost = total(&replaced, slots, live + 1);
            if best.is_none_or(|(least, _)| cost < least || (last_wins && cost == least)) {
                best = Some((cost, i));
            }
        }
        let (cost, i) = best?;
        (cost <= total(at, slots, live + 1)).then(|| {
            let replaces = Some(at.remove(i));
            at.push(live);
            Saving { replaces }
        })
    }

    #[test]
    fn the_rule_is_the_plain_one() {
        for slots in 1..=14 {
            let (mut rule, mut at) = (Rule::new(slots), Vec::new());
            for live in 0..700 {
                assert_eq!(rule.snapshots().unwrap(), at, "{slots} slots, state {live}");
                let expected = plain(&mut at, slots, live);
                assert_eq!(rule.next_state().unwrap(), expected, "{slots} slots, state {live}");
            }
        }
    }

    /// The worst ratio of forward steps to t(n, s), for n in `range`, and its n.
    fn worst(slots: u32, most: u32) -> (f64, u32) {
        let (mut rule, mut worst) = (Rule::new(slots), (1.0, 1));
        for last in 0..most {
            let forward = total(&rule.snapshots().unwrap(), slots, last);
            let n = u64::from(last) + 1;
            let least = revolve::forward_steps(n, slots.into()) as i64;
            if n <= revolve::beta(slots.into(), 2) {
                assert_eq!(forward, least, "n = {n}, {slots} slots");
            } else if forward as f64 > worst.0 * least as f64 {
                worst = (forward as f64 / least as f64, last + 1);
            }
            rule.next_state().unwrap();
        }
        worst
    }

    /// For one slot the schedule is Revolve's. For two slots, no rule at all keeps below 1.122.
    #[test]
    fn steps_are_the_fewest_for_few_states_and_close_to_it_for_all() {
        assert_eq!(worst(1, 2000), (1.0, 1));
        let (ratio, n) = worst(2, 2000);
        assert!(ratio < 1.139, "n = {n}: {ratio}");
        for slots in 3..=30 {
            let (ratio, n) = worst(slots, 2000);
            println!("{slots} slots: {ratio:.4} at n = {n}");
            assert!(ratio < 1.08, "{slots} slots, n = {n}: {ratio}");
        }
    }

    /// Of all rules for two slots, whatever they do, the best one has this ratio at some n <= 31.
    #[test]
    fn no_rule_for_two_slots_keeps_below_an_eighth_more() {
        // For each place of the second snapshot (0: none), the least worst ratio of a rule so far.
        let mut least = std::collections::BTreeMap::from([(0, 1.0f64)]);
        for live in 1..31 {
            for (&place, worst) in &mut least {
                let at = if place == 0 { vec![0] } else { vec![0, place] };
                let fewest = revolve::forward_steps(u64::from(live) + 1, 2) as f64;
                *worst = worst.max(total(&at, 2, live) as f64 / fewest);
            }
            let best = least.values().copied().fold(f64::INFINITY, f64::min);
            least.insert(live, best);
        }
        let best = least.values().copied().fold(f64::INFINITY, f64::min);
        assert!((1.121..1.123).contains(&best), "{best}");
    }

    #[test]
    fn long_runs_stay_close_to_the_fewest_steps() {
        for slots in [2, 3, 4, 5, 7, 10, 17, 30, 60, 200] {
            let mut rule = Rule::new(slots);
            let mut worst = (1.0, 0);
            for last in 0..100_000u32 {
                if last % 97 == 0 && last > 1000 {
                    let forward = total(&rule.snapshots().unwrap(), slots, last) as f64;
                    let least = revolve::forward_steps(u64::from(last) + 1, slots.into()) as f64;
                    if forward / least > worst.0 {
                        worst = (forward / least, last + 1);
                    }
                }
                rule.next_state().unwrap();
            }
            println!("{slots} slots: {:.4} at n = {}", worst.0, worst.1);
            assert!(worst.0 < 1.08, "{slots} slots, n = {}: {}", worst.1, worst.0);
        }
    }

    #[test]
    fn totals_are_at_most_the_published_ones() {
        let forward =
            |s| Schedule::online(200, s, false).map(|schedule| schedule.forward_steps()).unwrap();
        assert_eq!([3, 5, 10].map(forward), [1305, 799, 523]);
        for (s, published) in [(3, 1317), (5, 844), (10, 526)] {
            assert!(forward(s) <= published);
        }
    }

    #[test]
    fn schedules_are_valid_and_counted() {
        for n in 1..=300 {
            for s in 1..=12 {
                for after_save in [false, true] {
                    let schedule = Schedule::online(n, s, after_save).unwrap();
                    let counts = validate_schedule(&schedule, false).unwrap();
                    assert_eq!(counts.forward_steps, schedule.forward_steps(), "n {n}, s {s}");
                    let accesses = counts.saves + counts.restores;
                    assert_eq!(accesses, schedule.accesses().unwrap(), "n {n}, s {s}");
                }
            }
        }
    }

    /// However the forward phase ends, its actions are those of the endless schedule.
    #[test]
    fn the_forward_phase_does_not_depend_on_its_end() {
        for s in 1..=9 {
            for n in [1, 2, 3, 8, 21, 40, 77] {
                for after_save in [false, true] {
                    let ended = Schedule::online(n, s, after_save).unwrap();
                    let open = Schedule::online_open(s).unwrap();
                    let (mut a, mut b) = (ended.actions(), open.actions());
                    while let Some(action) = a.next() {
                        if action.kind == Kind::Backward {
                            break;
                        }
                        let expected = b.next().unwrap();
                        assert_eq!((action.kind, action.ts), (expected.kind, expected.ts));
                        assert_eq!(a.dropped(), b.dropped());
                        if action.ts + 1 < n {
                            assert_eq!(action, expected);
                        }
                    }
                }
            }
        }
    }
}
