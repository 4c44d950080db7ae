//! What a thread knows of the others: the order that barriers, fences and atomics make.
//!
//! A clock of a thread is the number of barriers that its block has passed, and behind it, in the
//! lower [`INNER`] bits, a count of the thread's own barriers of warps, fences and atomics since
//! the last of them. A thread knows an access by another thread if it knows that thread's clock at
//! the access or a later one:
//!
//! - A barrier of the block makes known all clocks of the block before the barrier.
//! - A barrier of lanes makes the lanes' knowledge common to them.
//! - A fence takes what the thread knows, itself included, as what the thread *releases*. An
//!   atomic or volatile write behind the fence gives this to the word. A thread that reads the
//!   word by an atomic or volatile read, and then passes a fence, knows it, too.
//! - Shuffles and votes order nothing.

use std::sync::Arc;

/// Bits of a clock below the number of barriers.
pub const INNER: u32 = 14;

/// The number of a thread in its grid: its block times the block's threads in whole warps, and its
/// number in its block.
pub type Thread = u32;

/// Knowledge of threads of the grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// For each block, in order: the clock below which all its threads are known.
    floors: Vec<(u32, u32)>,
    /// For single threads, in order: the last clock that is known.
    exact: Vec<(Thread, u32)>,
    /// Clocks of atomic or volatile writes that have been observed, of which nothing else of the
    /// thread is known.
    points: Vec<(Thread, u32)>,
}

impl Known {
    /// Makes what a thread releases: what it knows of its own block, and what it knew before.
    pub fn of_thread(block: u32, floor: u32, exact: Vec<(Thread, u32)>) -> Self {
        Self { floors: vec![(block, floor)], exact, points: Vec::new() }
    }

    /// Makes knowledge of one write.
    pub fn of_point(thread: Thread, clock: u32) -> Self {
        Self { points: vec![(thread, clock)], ..Self::default() }
    }

    /// Returns whether an access of `thread`, in `block`, at `clock` is known. A strong access is
    /// an atomic or volatile one.
    pub fn has(&self, thread: Thread, block: u32, clock: u32, is_strong: bool) -> bool {
        let find = |list: &[(u32, u32)], key: u32| {
            list.binary_search_by_key(&key, |entry| entry.0).ok().map(|at| list[at].1)
        };
        find(&self.floors, block).is_some_and(|floor| clock < floor)
            || find(&self.exact, thread).is_some_and(|last| clock <= last)
            || is_strong && self.points.binary_search(&(thread, clock)).is_ok()
    }

    fn join(&self, other: &Self, span: u32) -> Self {
        let floors = merged(&self.floors, &other.floors, true);
        let known = |thread: Thread, clock: u32| {
            floors
                .binary_search_by_key(&(thread / span), |entry| entry.0)
                .is_ok_and(|at| clock < floors[at].1)
        };
        let mut exact = merged(&self.exact, &other.exact, true);
        exact.retain(|&(thread, clock)| !known(thread, clock));
        let mut points = merged(&self.points, &other.points, false);
        points.retain(|&(thread, clock)| !known(thread, clock));
        Self { floors, exact, points }
    }
}

/// Merges two sorted lists. With `largest`, a key occurs once, with its largest value.
fn merged(a: &[(u32, u32)], b: &[(u32, u32)], largest: bool) -> Vec<(u32, u32)> {
    let mut all = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let next = if j == b.len() || i < a.len() && a[i] <= b[j] {
            i += 1;
            a[i - 1]
        } else {
            j += 1;
            b[j - 1]
        };
        match all.last_mut() {
            Some(last) if *last == next => {}
            Some((key, value)) if largest && *key == next.0 => *value = next.1.max(*value),
            _ => all.push(next),
        }
    }
    all
}

/// Adds knowledge to what is there. `span` is the number of threads of a block.
pub fn add(to: &mut Option<Arc<Known>>, more: &Option<Arc<Known>>, span: u32) {
    let Some(more) = more else { return };
    match to {
        Some(known) if Arc::ptr_eq(known, more) => {}
        Some(known) => *known = Arc::new(known.join(more, span)),
        None => *to = Some(Arc::clone(more)),
    }
}

/// What a thread knows of threads outside its warp and before its block's last barrier, and what it
/// gives away.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// What the thread knows.
    pub known: Option<Arc<Known>>,
    /// What the thread has read and will know after a fence; and after a fence of the block.
    pub read: Option<Arc<Known>>,
    /// As `read`, from threads of the block.
    pub read_of_block: Option<Arc<Known>>,
    /// What the thread's writes give to others, and to those of its block.
    pub released: Option<Arc<Known>>,
    /// As `released`, for threads of the block.
    pub released_in_block: Option<Arc<Known>>,
}

impl Order {
    /// Adds what another thread, with which this one passes a barrier, knows and releases.
    pub fn meet(&mut self, other: &Self, span: u32) {
        add(&mut self.known, &other.known, span);
        add(&mut self.released, &other.released, span);
        add(&mut self.released_in_block, &other.released_in_block, span);
    }

    /// Passes a fence: what was read is known.
    pub fn fence(&mut self, for_all: bool, span: u32) {
        let read = self.read_of_block.take();
        add(&mut self.known, &read, span);
        if for_all {
            let read = self.read.take();
            add(&mut self.known, &read, span);
        }
    }
}

/// What the last atomic or volatile writes of a word give to its readers.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// To all threads.
    pub to_all: Option<Arc<Known>>,
    /// To threads of this block.
    pub in_block: Option<(u32, Arc<Known>)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knowledge_is_joined() {
        let of =
            |block, floor, exact: &[(u32, u32)]| Known::of_thread(block, floor, exact.to_vec());
        let a = of(0, 3 << INNER, &[(5, (3 << INNER) + 1)]);
        let b = of(1, 1 << INNER, &[(5, (3 << INNER) + 2), (40, 9)]);
        let both = a.join(&b, 32).join(&Known::of_point(70, 4), 32);
        assert!(both.has(7, 0, 3, false) && both.has(5, 0, (3 << INNER) + 2, false));
        assert!(!both.has(5, 0, (3 << INNER) + 3, false) && !both.has(7, 0, 3 << INNER, false));
        assert!(both.has(40, 1, (1 << INNER) - 1, false), "below the floor");
        assert_eq!(both.exact.len(), 1, "what is below a floor is dropped");
        assert!(
            both.has(70, 2, 4, true) && !both.has(70, 2, 4, false) && !both.has(70, 2, 3, true)
        );
    }
}
