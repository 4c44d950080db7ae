//! Counts the transfers of a schedule through a device cache, without making its plan.
//!
//! The snapshots of all generated schedules form a stack: the snapshot stored last is the first one
//! that is not needed any more. The clairvoyant policy then keeps the top of the stack in the
//! cache. A snapshot leaves a cache of C slots when C other snapshots lie above that snapshot. An
//! evicted snapshot is fetched at its next RESTORE. A snapshot is written back once, if it is ever
//! fetched. The tests compare these counts with those of plans.
//!
//! A caller who only needs to know whether more than `enough` snapshots are fetched says so: counting
//! ends as soon as there are more, and returns lower bounds.

use super::intervals::Intervals;
use super::revolve::Range;
use crate::error::Result;
use crate::fallible_vec;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Numbers of transfers to and from the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Snapshots fetched from the host.
    pub h2d: u64,
    /// Snapshots written to the host.
    pub d2h: u64,
}

/// Transfers while a range is reversed, but for the write-back of the snapshot at its base; and
/// whether that snapshot is fetched after the range has begun.
type Counted = (Transfers, bool);

/// What was counted for ranges, by `key`.
type Known = HashMap<u64, Counted, BuildHasherDefault<Product>>;

/// The hash of one number: a product (Fibonacci hashing, Knuth, The Art of Computer Programming 6.4),
/// whose high bits, which are the well mixed ones, become the low bits. Keys come from parameters of
/// schedules, not from outside, so that the standard library's hash, which resists attacks and takes
/// several times as long, is not needed.
#[derive(Default)]
struct Product(u64);

impl Hasher for Product {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(self.0 ^ u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0.rotate_left(32)
    }
}

/// Up to this number of slots, ranges with equal counts are frequent enough that looking up a count
/// takes less time than counting again.
const FEW_SLOTS: u32 = 256;

/// What tells a range from others with other counts: its numbers of states and slots, and whether it ends
/// at `end`. A range that does has intervals as its states, fewer than 2^31.
fn key(range: &Range, end: u32) -> u64 {
    key_of(range.len, range.slots) | u64::from(range.base + range.len == end) << 63
}

fn key_of(len: u32, slots: u32) -> u64 {
    u64::from(len) << 32 | u64::from(slots)
}

/// Counts the transfers of `whole` from those of its parts. `leaf` counts ranges that are not split.
/// `fills` says whether the cache has no slot left for the base of a range while the upper part of
/// that range is reversed. Ranges with equally many states and slots move equally many snapshots, but
/// for those that end at `end`; each is counted once, if it is not in `known`.
fn of_parts(
    whole: Range,
    (end, known): (u32, &mut Known),
    enough: u64,
    mut leaf: impl FnMut(&Range) -> Result<Option<Counted>>,
    fills: impl Fn(&Range) -> bool,
) -> Result<Counted> {
    if whole.slots > FEW_SLOTS {
        return one_by_one(whole, enough, leaf, fills);
    }
    // Ranges whose parts are counted: the key, the upper part until it is counted, too, whether that part
    // fills the cache, and the count of the lower part.
    let (mut range, mut open) = (whole, Vec::new());
    loop {
        let key_of_range = key(&range, end);
        let known_or_leaf = match known.get(&key_of_range) {
            Some(counted) => Some(*counted),
            None => leaf(&range)?,
        };
        let Some(mut counted) = known_or_leaf else {
            let upper = range.split();
            let fills = fills(&upper);
            fallible_vec::push(&mut open, (key_of_range, Some(upper), fills, Counted::default()))?;
            continue;
        };
        loop {
            let Some((key, upper, fills, below)) = open.last_mut() else { return Ok(counted) };
            if let Some(upper) = upper.take() {
                (*below, range) = (counted, upper);
                break;
            }
            let ((above, above_fetched), (below, below_fetched)) = (counted, *below);
            let h2d = below.h2d + above.h2d + u64::from(*fills);
            let d2h = below.d2h + above.d2h + u64::from(above_fetched);
            counted = (Transfers { h2d, d2h }, below_fetched || *fills);
            fallible_vec::insert(known, *key, counted)?;
            open.pop();
        }
    }
}

/// Does what `of_parts` does in another way: visits every range.
fn one_by_one(
    whole: Range,
    enough: u64,
    mut leaf: impl FnMut(&Range) -> Result<Option<Counted>>,
    fills: impl Fn(&Range) -> bool,
) -> Result<Counted> {
    let base = whole.base;
    let (mut sum, mut base_fetched) = Counted::default();
    // To each range belongs whether the snapshot at its base was fetched before.
    whole.visit(false, |range, fetched| {
        if sum.h2d > enough {
            return Ok(None);
        }
        let mut upper = None;
        let (moved, now_fetched) = leaf(range)?.unwrap_or_else(|| {
            let upper = upper.insert(range.split());
            let fills = fills(upper);
            (Transfers { h2d: u64::from(fills), d2h: 0 }, fills)
        });
        let is_base = range.base == base;
        sum.h2d += moved.h2d;
        sum.d2h += moved.d2h + u64::from(now_fetched && !fetched && !is_base);
        base_fetched |= now_fetched && is_base;
        Ok(upper.map(|upper| (upper, [fetched || now_fetched, false])))
    })?;
    Ok((sum, base_fetched))
}

/// The most snapshots that are stored at a time while a range of intervals is reversed, the one at its
/// base included. The last interval may need fewer slots than the others.
fn used(intervals: &Intervals, range: &Range) -> u32 {
    let inside = |i: u32| intervals.used(i);
    let last = range.base + range.len - 1;
    match range.len {
        1 => inside(last),
        // Two starts are never stored above all others where the last interval is reversed.
        _ if range.stores_all() => {
            (range.len - 1 + inside(last)).max(range.len - 2 + inside(range.base))
        }
        _ => range.used() + inside(range.base),
    }
}

/// Intervals whose transfers are counted.
struct Counting<'a> {
    intervals: &'a Intervals,
    cache: u32,
    enough: u64,
    /// What was counted for intervals and for their parts.
    known: Known,
}

impl Counting<'_> {
    /// Transfers of interval `i`.
    fn inside(&mut self, i: u32) -> Result<Counted> {
        self.of_range(self.intervals.length(i), self.intervals.used(i))
    }

    /// Transfers of an interval of `len` states that uses `slots` slots.
    fn of_range(&mut self, len: u32, slots: u32) -> Result<Counted> {
        let (cache, key) = (self.cache, key_of(len, slots));
        let leaf = |range: &Range| {
            let used = range.used();
            Ok(if used <= cache {
                Some(Counted::default())
            } else if range.stores_all() {
                let h2d = u64::from(used - cache);
                Some((Transfers { h2d, d2h: h2d - 1 }, true))
            } else {
                None
            })
        };
        if slots <= cache {
            return Ok(Counted::default());
        }
        if let Some(counted) = self.known.get(&key) {
            return Ok(*counted);
        }
        let whole = Range::new(0, len, slots).through(self.intervals.cache);
        let fills = |upper: &Range| upper.used() >= cache;
        let counted = of_parts(whole, (0, &mut self.known), self.enough, leaf, fills)?;
        fallible_vec::insert(&mut self.known, key, counted)?;
        Ok(counted)
    }

    /// Transfers of the intervals of a nested schedule, which `whole` are.
    fn nested(mut self, whole: Range) -> Result<Transfers> {
        let Counting { intervals, cache, enough, .. } = self;
        let leaf = |range: &Range| {
            Ok(match range.len {
                1 => Some(self.inside(range.base)?),
                _ if used(intervals, range) <= cache => Some(Counted::default()),
                _ => None,
            })
        };
        let known = (whole.base + whole.len, &mut Known::default());
        let fills = |upper: &Range| used(intervals, upper) >= cache;
        let (sum, base_fetched) = of_parts(whole, known, enough, leaf, fills)?;
        Ok(Transfers { d2h: sum.d2h + u64::from(base_fetched), ..sum })
    }
}

/// Transfers of all intervals and of their starts, through `cache` > 0 slots. If more than `enough`
/// snapshots are fetched, the numbers are lower bounds, and `h2d` is above `enough`.
pub(super) fn of_intervals(intervals: &Intervals, cache: u32, enough: u64) -> Result<Transfers> {
    let mut counting = Counting { intervals, cache, enough, known: Known::default() };
    if let Some(outer) = intervals.outer() {
        return counting.nested(outer);
    }
    let mut sum = Transfers::default();
    let mut highest = 0;
    // The intervals below `alike` differ in nothing but their length.
    let alike = intervals.alike().saturating_sub(1);
    for i in (alike..intervals.count).rev() {
        let (inside, base_fetched) = counting.inside(i)?;
        // `highest` is the highest stack place used after this start is stored and before it is
        // restored.
        let start_fetched = i + 1 < intervals.count && highest > cache.saturating_add(i);
        highest = highest.max(i + intervals.used(i));
        sum.h2d += inside.h2d + u64::from(start_fetched);
        sum.d2h += inside.d2h + u64::from(start_fetched || base_fetched);
        if sum.h2d > enough {
            return Ok(sum);
        }
    }
    // No interval below reaches a higher place, so that the starts of the first ones are fetched.
    let fetched = highest.saturating_sub(cache).min(alike);
    let lengths = intervals.lengths(alike).into_iter().zip(intervals.lengths(fetched));
    for ((len, count), (_, fetched)) in lengths.filter(|((_, count), _)| *count > 0) {
        let (inside, base_fetched) = counting.of_range(len, intervals.slots(0).min(len - 1))?;
        let written = if base_fetched { count } else { fetched };
        sum.h2d += u64::from(count) * inside.h2d + u64::from(fetched);
        sum.d2h += u64::from(count) * inside.d2h + u64::from(written);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use crate::plan::{Plan, Policy};
    use crate::schedule::{validate, Schedule};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_equal_those_of_plans(n in 1u32..500, s in 1u32..60, m in 1u32..40, c in 1u32..12, cache in 1u32..16) {
            let two_level = Schedule::two_level(n, n.div_ceil(m) + c, m, c);
            let nested = Schedule::hrevolve(n, s + c, m + 1, c);
            for schedule in [Schedule::revolve(n, s), Schedule::uniform(n, s), Schedule::uniform_published(n, s), Schedule::zcut(n, 0, m), two_level, nested] {
                let schedule = schedule.unwrap();
                let counts = Plan::new(&schedule, cache, Policy::Clairvoyant).unwrap().counts;
                let transfers = schedule.transfers(cache, u64::MAX).unwrap().unwrap();
                prop_assert_eq!((transfers.h2d, transfers.d2h), (counts.h2d, counts.d2h), "{:?}", schedule);
            }
        }

        /// Schedules for a cache have as few forward steps and restores as all others, and their
        /// counts are those of their plans.
        #[test]
        fn schedules_for_a_cache_are_as_short(n in 1u32..500, s in 1u32..60, m in 1u32..40, c in 1u32..12, cache in 1u32..16) {
            let two_level = Schedule::two_level(n, n.div_ceil(m) + c, m, c);
            let nested = Schedule::hrevolve(n, s + c, m + 1, c);
            for schedule in [Schedule::revolve(n, s), Schedule::uniform(n, s), two_level, nested] {
                let schedule = schedule.unwrap();
                let through = schedule.clone().through(cache);
                let summary = validate(through.actions(), n, Some(schedule.snapshots)).unwrap();
                prop_assert_eq!((summary.forward_steps, summary.saves + summary.restores), (schedule.forward_steps(), through.accesses().unwrap()));
                let counts = Plan::new(&through, cache, Policy::Clairvoyant).unwrap().counts;
                let transfers = through.transfers(cache, u64::MAX).unwrap().unwrap();
                prop_assert_eq!((transfers.h2d, transfers.d2h), (counts.h2d, counts.d2h), "{:?}", through);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Counting that ends early returns lower bounds, which say that there are more transfers. The
        /// schedules have more and fewer slots than `FEW_SLOTS`.
        #[test]
        fn counting_ends_early(n in 1u32..20_000, s in 1u32..600, m in 1u32..600, c in 1u32..300, cache in 1u32..16, part in 0f64..1.2) {
            let two_level = Schedule::two_level(n, n.div_ceil(m) + c, m, c);
            let nested = Schedule::hrevolve(n, s + c, m + 1, c);
            for schedule in [Schedule::revolve(n, s), Schedule::uniform(n, s), Schedule::zcut(n, 0, m), two_level, nested] {
                let schedule = schedule.unwrap().through(cache);
                let all = schedule.transfers(cache, u64::MAX).unwrap().unwrap();
                let enough = (all.h2d as f64 * part) as u64;
                let some = schedule.transfers(cache, enough).unwrap().unwrap();
                if all.h2d <= enough {
                    prop_assert_eq!(some, all);
                } else {
                    prop_assert!(some.h2d > enough && some.h2d <= all.h2d && some.d2h <= all.d2h, "{:?}", schedule);
                }
            }
        }

        /// Counts of schedules with more slots than `FEW_SLOTS` equal those of plans.
        #[test]
        fn counts_of_many_slots_equal_those_of_plans(n in 300u32..5000, s in 257u32..500, cache in 1u32..16) {
            for schedule in [Schedule::revolve(n, s).unwrap(), Schedule::revolve(n, s).unwrap().through(cache)] {
                let counts = Plan::new(&schedule, cache, Policy::Clairvoyant).unwrap().counts;
                let transfers = schedule.transfers(cache, u64::MAX).unwrap().unwrap();
                prop_assert_eq!((transfers.h2d, transfers.d2h), (counts.h2d, counts.d2h), "{:?}", schedule);
            }
        }
    }

    /// Transfers in both directions together: with the smallest best advances, and with the
    /// advances for the cache. The third number is the least of all schedules with the fewest
    /// forward steps, found by dynamic programming over every advance.
    #[test]
    fn schedules_for_a_cache_move_least() {
        for (n, s, cache, smallest, through, least) in [
            (1000, 10, 4, 333, 333, 333),
            (1000, 20, 8, 306, 168, 168),
            (2000, 40, 8, 1118, 1088, 1088),
            (3000, 30, 10, 1259, 440, 440),
            (1000, 100, 8, 1231, 422, 346),
            (600, 60, 4, 862, 697, 666),
        ] {
            let moved = |schedule: &Schedule| {
                schedule.transfers(cache, u64::MAX).unwrap().map(|t| t.h2d + t.d2h).unwrap()
            };
            let schedule = Schedule::revolve(n, s).unwrap();
            assert_eq!(
                (moved(&schedule), moved(&schedule.through(cache))),
                (smallest, through),
                "n = {n}, s = {s}, {cache} slots"
            );
            assert!(through >= least && through <= least * 5 / 4);
        }
    }
}
