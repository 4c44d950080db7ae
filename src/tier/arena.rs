//! An allocator for snapshots of different sizes within one slab: first fit, lowest address first.

use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::layout::aligned;
use std::ops::Range;

/// The free bytes of a slab.
#[derive(Debug)]
pub struct Arena {
    /// All bytes of the slab that the arena may give.
    bytes: Range<u64>,
    /// The free ranges in ascending order. No two of these ranges touch.
    free: Vec<Range<u64>>,
    /// The end of the highest range that was ever taken, in bytes.
    peak: u64,
}

impl Arena {
    /// Makes an arena of these bytes of a slab, all of them free.
    pub fn new(bytes: Range<u64>) -> Self {
        Arena { free: std::iter::once(bytes.clone()).collect(), bytes, peak: 0 }
    }

    /// Lets the arena begin `begin` bytes behind the start of the slab, and frees all ranges. Fails if
    /// the arena ends before.
    pub fn begin_at(&mut self, begin: u64) -> Result<()> {
        if begin > self.bytes.end {
            return fail!(
                Memory,
                "internal error, please report it: {begin} bytes of a cache of {} bytes are for raw snapshots",
                self.bytes.end
            );
        }
        self.bytes.start = begin;
        self.clear();
        Ok(())
    }

    /// Reserves memory so that up to `taken` ranges can be taken at a time without an allocation.
    pub fn fit(&mut self, taken: usize) -> Result<()> {
        // Taken ranges separate at most `taken` + 1 free ranges; one more entry is in reserve.
        fallible_vec::up_to(&mut self.free, taken + 2)
    }

    /// Takes `bytes` bytes from the first free range that is long enough; `None` if there is none.
    pub fn take(&mut self, bytes: u64) -> Option<Range<u64>> {
        let size = size(bytes);
        let k = self.free.iter().position(|range| range.end - range.start >= size)?;
        let start = self.free[k].start;
        self.free[k].start += size;
        if self.free[k].is_empty() {
            self.free.remove(k);
        }
        self.peak = self.peak.max(start + size);
        Some(start..start + bytes)
    }

    /// Frees a range that `take` returned.
    pub fn give(&mut self, taken: Range<u64>) {
        if taken.is_empty() {
            return;
        }
        let mut range = taken.start..taken.start + size(taken.end - taken.start);
        let k = self.free.partition_point(|free| free.end < range.start);
        while let Some(free) = self.free.get(k).filter(|free| free.start <= range.end).cloned() {
            range = range.start.min(free.start)..range.end.max(free.end);
            self.free.remove(k);
        }
        self.free.insert(k, range);
    }

    /// Frees all ranges.
    pub fn clear(&mut self) {
        self.free.clear();
        self.free.push(self.bytes.clone());
    }

    /// Free bytes, the sum of all free ranges.
    pub fn free_bytes(&self) -> u64 {
        self.free.iter().map(|range| range.end - range.start).sum()
    }

    /// The end of the highest range that was ever taken, in bytes; the start of the arena at least.
    pub fn peak(&self) -> u64 {
        self.peak.max(self.bytes.start)
    }
}

/// Bytes that a snapshot of `bytes` bytes occupies: a positive multiple of
/// [`crate::layout::ALIGNMENT`].
fn size(bytes: u64) -> u64 {
    aligned(bytes.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::ALIGNMENT;
    use proptest::prelude::*;

    proptest! {
        /// Taken ranges never overlap and lie within the slab. Freed ranges become one range again.
        #[test]
        fn ranges_never_overlap(calls in prop::collection::vec((0..40u64, any::<prop::sample::Index>()), 1..200)) {
            let mut arena = Arena::new(0..64 * ALIGNMENT);
            let mut taken: Vec<Range<u64>> = Vec::new();
            for (blocks, which) in calls {
                if blocks >= 20 && !taken.is_empty() {
                    arena.give(taken.swap_remove(which.index(taken.len())));
                } else if let Some(range) = arena.take(blocks % 20 * ALIGNMENT + 1) {
                    prop_assert!(range.end <= 64 * ALIGNMENT);
                    prop_assert!(taken.iter().all(|other| other.end <= range.start || range.end <= other.start));
                    taken.push(range);
                }
                let used: u64 = taken.iter().map(|r| size(r.end - r.start)).sum();
                prop_assert_eq!(arena.free_bytes(), 64 * ALIGNMENT - used);
                prop_assert!(arena.free.windows(2).all(|w| w[0].end < w[1].start));
            }
            taken.into_iter().for_each(|range| arena.give(range));
            prop_assert_eq!(arena.take(64 * ALIGNMENT), Some(0..64 * ALIGNMENT));
        }

        /// An arena of twice the bytes that all snapshots can take has a free range for every
        /// snapshot, whatever the sizes: the n - 1 others leave at most n free ranges, with more than
        /// n times the most bytes of one in all.
        #[test]
        fn twice_the_bytes_are_enough(sizes in prop::collection::vec((1..=8u64, 0..6usize), 1..300)) {
            let mut arena = Arena::new(0..2 * 6 * 8 * ALIGNMENT);
            let mut taken: [Option<Range<u64>>; 6] = Default::default();
            for (blocks, which) in sizes {
                taken[which].take().into_iter().for_each(|range| arena.give(range));
                taken[which] = arena.take(blocks * ALIGNMENT);
                prop_assert!(taken[which].is_some());
            }
        }
    }
}
