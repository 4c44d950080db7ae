//! The fewest transfers of a schedule, found by an exhaustive search.

use super::{Index, NONE};
use std::collections::{BTreeSet, HashMap};

/// The least number of fetches, or of fetches and write-backs together (`write_backs`), found by
/// trying every replacement, bypass included.
pub fn fewest(index: &Index, cache: usize, write_backs: bool) -> u64 {
    /// Time steps of the snapshots in the cache, each with whether the host also holds the
    /// snapshot.
    type Held = BTreeSet<(u32, bool)>;
    type Memo = HashMap<(usize, Held), u64>;
    fn from(
        index: &Index,
        (cache, write_backs): (usize, bool),
        e: usize,
        held: &Held,
        memo: &mut Memo,
    ) -> u64 {
        let Some(access) = index.accesses.get(e) else { return 0 };
        if let Some(&known) = memo.get(&(e, held.clone())) {
            return known;
        }
        let (mut cost, mut with) = (0, held.clone());
        if access.save {
            with.insert((access.ts, false));
        } else if !held.iter().any(|(ts, _)| *ts == access.ts) {
            cost = 1;
            with.insert((access.ts, true));
        }
        if access.next == NONE {
            with.retain(|(ts, _)| *ts != access.ts);
        }
        // A snapshot that leaves the cache is needed again, so the host must hold it.
        let without = |out: &(u32, bool), memo: &mut Memo| {
            let mut rest = with.clone();
            rest.remove(out);
            u64::from(write_backs && !out.1) + from(index, (cache, write_backs), e + 1, &rest, memo)
        };
        let best = match with.len() <= cache {
            true => from(index, (cache, write_backs), e + 1, &with, memo),
            false => with.iter().map(|out| without(out, memo)).min().unwrap(),
        };
        memo.insert((e, held.clone()), cost + best);
        cost + best
    }
    from(index, (cache, write_backs), 0, &Held::new(), &mut HashMap::new())
}
