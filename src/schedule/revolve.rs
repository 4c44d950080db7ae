//! Revolve: binomial checkpointing, optimal in forward steps and, among schedules with the fewest
//! forward steps, in snapshot writes.
//!
//! Sources: Griewank & Walther, "Algorithm 799: revolve", ACM TOMS 26 (2000); Stumm & Walther,
//! "MultiStage approaches for optimal offline checkpointing", SIAM J. Sci. Comput. 31 (2009).
//! Written from the formulas of these papers. The basis is
//! beta(s, r) = C(s + r, s),
//! the length of the longest range that `s` snapshots (the one at the range's start included)
//! reverse with no time step computed more than `r` times.

use crate::error::Result;
use crate::fallible_vec;

/// beta(s, r) = C(s + r, s), at most `u64::MAX`; 0 if an argument is negative.
pub fn beta(s: i64, r: i64) -> u64 {
    if s < 0 || r < 0 {
        return 0;
    }
    let (low, high) = (s.min(r) as u128, s.max(r) as u128);
    let mut value: u128 = 1;
    for k in 1..=low {
        value = value * (high + k) / k;
        if value > u64::MAX as u128 {
            return u64::MAX;
        }
    }
    value as u64
}

/// The repetition number r(n, s), for n >= 2: beta(s, r-1) < n <= beta(s, r).
fn repetitions(n: u64, s: u64) -> i64 {
    let mut depth = Depth::shallowest(s);
    depth.deepen(n);
    depth.r as i64
}

/// The least number of forward steps that reverse `n` states with `s` snapshots:
/// t(n, s) = r n - beta(s+1, r-1).
pub fn forward_steps(n: u64, s: u64) -> u64 {
    if n <= 1 {
        return 0;
    }
    let s = s.clamp(1, n - 1);
    if s == 1 {
        return n * (n - 1) / 2;
    }
    let r = repetitions(n, s);
    r as u64 * n - beta(s as i64 + 1, r - 1)
}

/// The least number of snapshot writes among the schedules with `forward_steps(n, s)` steps, the
/// write of the initial state included; 0 for a single state.
pub fn writes(n: u64, s: u64) -> u64 {
    if n <= 1 {
        return 0;
    }
    let s = s.clamp(1, n - 1);
    if s == 1 {
        return 1;
    }
    let r = repetitions(n, s);
    beta(s as i64 - 1, r - 1).max(n - beta(s as i64, r - 1))
}

/// The number of snapshots that GPUZIP 2.x chooses whatever memory there is: the least s with
/// beta(s, s) >= n.
pub fn adjust(n: u64) -> u32 {
    (1..).find(|&s| beta(s, s) >= n).map_or(1, |s| s as u32)
}

/// The repetition number r of a range, and beta(s, r-1). Both are carried from a range to its
/// parts, so that each action costs O(1).
#[derive(Clone, Copy, Debug)]
struct Depth {
    s: u64,
    r: u64,
    /// beta(s, r-1)
    below: u64,
}

impl Depth {
    fn shallowest(s: u64) -> Self {
        Depth { s, r: 1, below: 1 }
    }

    /// Raises r until beta(s, r) >= n. The products have 64 bits at most, since n, a number of states,
    /// s and r are below 2^32.
    fn deepen(&mut self, n: u64) {
        loop {
            let next = self.below * (self.s + self.r) / self.r;
            if next >= n {
                return;
            }
            self.r += 1;
            self.below = next;
        }
    }

    /// Lowers r until beta(s, r-1) < n.
    fn rise(&mut self, n: u64) {
        while self.below >= n && self.r > 1 {
            self.below = self.below * (self.r - 1) / (self.s + self.r - 1);
            self.r -= 1;
        }
    }
}

/// The length of the longest range that `s` slots reverse with no time step computed more than `r`
/// times, under the condition that each piece in which all states are stored fits in `cache` < s
/// slots; at most `limit`.
///
/// The length follows the recurrence
/// beta(s, r) = beta(s-1, r) + beta(s, r-1),
/// but ends with cache + 1 instead of beta(s, 1) = s + 1 where s > cache. The solution is the sum
/// over k < r of
/// C(s - cache + k - 1, k) beta(cache, r - k).
fn in_pieces(s: u64, r: u64, cache: u64, limit: u64) -> u64 {
    let (mut paths, mut piece, mut sum) = (1u64, 1u64, 0u64);
    // piece = beta(cache, r). The products before the division have 64 bits at most, since all factors are
    // below 2^32: a `limit` is a number of time steps.
    let (low, high) = (cache.min(r), cache.max(r));
    for k in 1..=low {
        piece = piece * (high + k) / k;
        if piece >= limit {
            return limit;
        }
    }
    for k in 0..r {
        sum = sum.saturating_add(paths.saturating_mul(piece));
        if sum >= limit {
            return limit;
        }
        paths = paths * (s - cache + k) / (k + 1);
        piece = piece * (r - k) / (cache + r - k);
    }
    sum
}

/// Number of snapshot writes of a range that is split for a cache, the write of its base included.
/// The splits are counted one by one, since no formula is known.
pub(super) fn writes_through(len: u64, slots: u64, cache: u32) -> Result<u64> {
    let mut sum = u64::from(len > 1);
    Range::new(0, len as u32, slots as u32).through(cache).visit((), |range, ()| {
        if range.used() <= cache || range.stores_all() {
            sum += writes(range.len as u64, range.slots as u64).saturating_sub(1);
            return Ok(None);
        }
        let upper = range.split();
        sum += u64::from(upper.len > 1);
        Ok(Some((upper, [(); 2])))
    })?;
    Ok(sum)
}

/// A range of `len` states from `base` on that is being reversed. If `len` > 1, the first state is
/// stored.
#[derive(Clone, Debug)]
pub(super) struct Range {
    pub base: u32,
    pub len: u32,
    /// The most snapshots of the range, the one at `base` included.
    pub slots: u32,
    /// Whether all states of the range are stored, or are being stored.
    pub stored: bool,
    depth: Depth,
    /// Slots of the device cache through which the range moves as little as possible; 0: no cache.
    cache: u32,
}

impl Range {
    pub fn new(base: u32, len: u32, slots: u32) -> Self {
        let slots = slots.clamp(1, (len - 1).max(1));
        let mut depth = Depth::shallowest(slots as u64);
        if slots > 1 && slots + 1 < len {
            depth.deepen(len as u64);
        }
        Range { base, len, slots, stored: false, depth, cache: 0 }
    }

    /// The same range, split for a device cache of `cache` slots.
    pub fn through(self, cache: u32) -> Self {
        Range { cache, ..self }
    }

    /// Visits the range and its parts in the order in which they are reversed. `visit` may split the range
    /// that it is given, with what belongs to that range; it then returns the upper part, and what belongs
    /// to the lower and to the upper part.
    pub fn visit<T>(
        self,
        of_whole: T,
        mut visit: impl FnMut(&mut Range, T) -> Result<Option<(Range, [T; 2])>>,
    ) -> Result<()> {
        let mut open = Vec::from([(self, of_whole)]);
        while let Some((mut range, of_range)) = open.pop() {
            if let Some((upper, [of_lower, of_upper])) = visit(&mut range, of_range)? {
                fallible_vec::push(&mut open, (range, of_lower))?;
                fallible_vec::push(&mut open, (upper, of_upper))?;
            }
        }
        Ok(())
    }

    /// Whether the range may store all its states. Its last state is reversed while it is live and
    /// needs no slot.
    pub fn stores_all(&self) -> bool {
        self.slots >= self.len - 1
    }

    /// The most snapshots of the range that are stored at a time.
    pub fn used(&self) -> u32 {
        self.slots.min(self.len - 1)
    }

    /// Splits a range of at least 2 states at the best place of its next snapshot.
    /// `self` keeps the part below that snapshot; returns the part that begins with it.
    ///
    /// With n = len, s = slots and r = r(n, s), an advance j is optimal in forward steps if
    /// max(beta(s, r-2), n - beta(s-1, r)) <= j <= min(beta(s, r-1), n - beta(s-1, r-1)).
    /// The writes of the two parts, as functions of j, are piecewise linear: one has slope -1 left
    /// of `a` and 0 right of `a`, the other has slope 0 left of `b` and 1 right of `b`. Their sum
    /// is therefore least from min(a, b) on. The smallest such j is taken, which keeps the
    /// snapshots close together. For a cache, the j is taken with which the lower part can be
    /// reversed in pieces that fit the cache, as far as the forward steps stay the fewest.
    pub fn split(&mut self) -> Range {
        let (n, s) = (self.len as u64, self.slots as u64);
        let mut depth = self.depth;
        let j = if self.slots == 1 {
            n - 1
        } else {
            self.depth.rise(n);
            let Depth { r, below, .. } = self.depth;
            // Pascal's rule, beta(s, r) = beta(s-1, r) + beta(s, r-1), saves divisions.
            let s1_r1 = below * s / (s + r - 1); // beta(s-1, r-1)
            let s1_r = below * s / r; // beta(s-1, r)
            let s_r2 = below - s1_r1; // beta(s, r-2)
            let low = s_r2.max(n.saturating_sub(s1_r)).max(1);
            let high = below.min(n - s1_r1);
            depth = Depth { s: s - 1, r, below: s1_r1 };
            let best = if self.cache > 0 && s > self.cache as u64 {
                in_pieces(s, r - 1, self.cache as u64, n)
            } else {
                let s2_r1 = s1_r1 * (s - 1) / (s + r - 2); // beta(s-2, r-1)
                let s1_r2 = s1_r1 - s2_r1; // beta(s-1, r-2)
                let a = n.saturating_sub(s1_r1 + s2_r1);
                let b = s_r2 + s1_r2;
                a.min(b)
            };
            best.clamp(low, high)
        };
        let upper = (n - j) as u32;
        depth.rise(upper as u64);
        self.len = j as u32;
        let (base, slots) = (self.base + self.len, self.slots.saturating_sub(1).max(1));
        Range { base, len: upper, slots, stored: false, depth, cache: self.cache }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lexicographic minimum of (forward steps, writes except the first one), by dynamic
    /// programming over every advance.
    fn dp(n_max: usize, s_max: usize) -> Vec<Vec<(u64, u64)>> {
        let mut best = vec![vec![(0, 0); s_max + 1]; n_max + 1];
        for n in 2..=n_max {
            best[n][1] = ((n * (n - 1) / 2) as u64, 0);
            for s in 2..=s_max {
                best[n][s] = (1..n)
                    .map(|j| {
                        let (right, left) = (best[n - j][s - 1], best[j][s]);
                        (j as u64 + right.0 + left.0, u64::from(n - j > 1) + right.1 + left.1)
                    })
                    .min()
                    .unwrap();
            }
        }
        best
    }

    #[test]
    fn closed_forms_equal_the_dynamic_programme() {
        let best = dp(300, 20);
        for n in 2..=300u64 {
            for s in 1..=20u64 {
                let (t, w) = best[n as usize][s as usize];
                assert_eq!((forward_steps(n, s), writes(n, s)), (t, w + 1), "n = {n}, s = {s}");
            }
        }
    }

    #[test]
    fn published_values() {
        for (n, s, t) in [
            (3001, 7, 18004),
            (3751, 8, 21252),
            (6751, 8, 42568),
            (3751, 149, 7351),
            (6751, 177, 13323),
        ] {
            assert_eq!(forward_steps(n, s), t);
        }
        for (n, s, t, q) in [
            (1000, 10, 3636, 714),
            (10_000, 50, 28_622, 8674),
            (100_000, 100, 294_747, 94_849),
            (1_000_000, 10, 11_647_922, 353_354),
            (1_000_000, 100, 3_817_896, 823_149),
        ] {
            assert_eq!((forward_steps(n, s), writes(n, s)), (t, q));
        }
        for (n, s) in [
            (1000, 7),
            (2000, 7),
            (3001, 7),
            (3751, 8),
            (4000, 8),
            (6751, 8),
            (1, 1),
            (2, 1),
            (3, 2),
        ] {
            assert_eq!(adjust(n), s, "n = {n}");
        }
    }

    #[test]
    fn binomials_saturate() {
        assert_eq!(beta(-1, 3), 0);
        assert_eq!(beta(3, 2), 10);
        assert_eq!(beta(1 << 40, 4), u64::MAX);
    }
}
