//! Counts the records of a schedule whose states are stored as two records each, without walking
//! through its actions: the time level of a state, and the previous level. A SAVE of u(t) right after a
//! SAVE or RESTORE of u(t-1) may leave out the previous level, for that is the level of u(t-1), whose
//! record stays longer: the snapshots form a stack. The tests compare these counts with those of indexes.

use super::intervals::Intervals;
use super::revolve::Range;
use crate::error::Result;

/// What the SAVEs of a schedule store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Number of SAVEs that may leave out the previous level.
    pub shared: u64,
    /// The most records that are stored at a time, if these SAVEs leave it out.
    pub most: u64,
}

/// Counts the records of `whole`, at whose base `below` records are stored. `leaf` counts a range that is not
/// split, and `own` the records that the SAVE of an upper part's first state stores: 1 if the SAVE leaves
/// out the previous level.
fn of_parts(
    whole: (Range, u64),
    mut leaf: impl FnMut(&Range) -> Result<Option<Records>>,
    own: impl Fn(&Range, &Range) -> u64,
) -> Result<Records> {
    let mut sum = Records::default();
    let (range, below) = whole;
    range.visit(below, |range, below| {
        if let Some(Records { shared, most }) = leaf(range)? {
            sum = Records { shared: sum.shared + shared, most: sum.most.max(below + most) };
            return Ok(None);
        }
        let upper = range.split();
        let own = own(range, &upper);
        sum.shared += u64::from(own == 1);
        sum.most = sum.most.max(below + own);
        Ok(Some((upper, [below, below + own])))
    })?;
    Ok(sum)
}

/// The records of a range of states, without those of its base.
fn of_range(whole: Range) -> Result<Records> {
    let leaf = |range: &Range| {
        let stored = u64::from(range.len.max(2) - 2);
        Ok(range.stores_all().then_some(Records { shared: stored, most: stored }))
    };
    of_parts((whole, 0), leaf, |range, upper| match (range.len, upper.len) {
        (_, 1) => 0,
        (1, _) => 1,
        _ => 2,
    })
}

/// The records of all intervals and of their starts. An interval counts as a state of a range.
pub(super) fn of_intervals(intervals: &Intervals) -> Result<Records> {
    // The interval that was counted last: most are alike.
    let mut known = ((0, 0), Records::default());
    let leaf = |range: &Range| {
        let this = (intervals.length(range.base), intervals.used(range.base));
        if range.len == 1 && known.0 != this {
            let inside = Range::new(0, this.0, this.1).through(intervals.cache);
            known = (this, of_range(inside)?);
        }
        Ok((range.len == 1).then_some(known.1))
    };
    // The last state is not saved.
    let own = |base: u32| match (base + 1 < intervals.count || intervals.length(base) > 1, base) {
        (false, _) => 0,
        (true, 1..) if intervals.length(base - 1) == 1 => 1,
        _ => 2,
    };
    let all = || Range::new(0, intervals.count, intervals.count);
    of_parts((intervals.outer().unwrap_or_else(all), own(0)), leaf, |_, upper| own(upper.base))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Claims, Index, NONE};
    use crate::schedule::Schedule;
    use proptest::prelude::*;

    /// The records of an index, counted one by one.
    fn counted(schedule: &Schedule) -> Records {
        let index = Index::new(schedule).unwrap().in_levels(Claims::All).unwrap();
        let (mut sum, mut stored) = (Records::default(), 0u64);
        for access in &index.accesses {
            sum.shared += u64::from(access.is_claim());
            stored += u64::from(access.save && !access.is_claim());
            sum.most = sum.most.max(stored);
            stored -= u64::from(!access.save && access.next == NONE);
        }
        sum
    }

    proptest! {
        #[test]
        fn counts_equal_those_of_indexes(n in 1u32..500, s in 1u32..60, m in 1u32..40, c in 1u32..12, cache in 0u32..16) {
            let two_level = Schedule::two_level(n, n.div_ceil(m) + c, m, c);
            let nested = Schedule::hrevolve(n, s + c, m + 1, c);
            for schedule in [Schedule::revolve(n, s), Schedule::store_all(n), Schedule::uniform(n, s), Schedule::uniform_published(n, s), Schedule::zcut(n, 0, m), two_level, nested] {
                let schedule = schedule.unwrap().through(cache);
                prop_assert_eq!(schedule.records().unwrap().unwrap(), counted(&schedule), "{:?}", schedule);
            }
        }
    }
}
