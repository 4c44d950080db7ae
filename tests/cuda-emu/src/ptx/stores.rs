//! Stores that other threads do not see yet. A plain store of a thread waits here until a fence or
//! a barrier of the thread, or until it pleases the seed; so a kernel without a fence that it needs
//! hands old values to others, as a device may.

use super::inst::LANES;

/// A store that waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Store {
    /// The lane that stored.
    pub lane: u8,
    /// Number of bytes.
    pub bytes: u8,
    /// Whether the address is one of shared memory.
    pub shared: bool,
    /// The address.
    pub address: u64,
    /// The value.
    pub value: u64,
}

impl Store {
    fn overlaps(&self, shared: bool, address: u64, bytes: u64) -> bool {
        self.shared == shared
            && self.address < address + bytes
            && address < self.address + u64::from(self.bytes)
    }
}

/// What a load finds.
#[derive(Debug, PartialEq)]
pub enum Found {
    /// No store of the lane to these bytes.
    Nothing,
    /// The value of the lane's own store.
    Value(u64),
    /// A store to some of the bytes: the lane's stores must be drained first.
    Part,
}

/// The most stores of a lane that wait.
const MOST: usize = 8;

/// The stores of a warp that wait.
#[derive(Debug, Default)]
pub struct Stores {
    /// [`MOST`] places of each lane; empty before the first store.
    all: Vec<Store>,
    counts: [u8; LANES],
    /// The lanes that have stores.
    pub lanes: u32,
}

impl Stores {
    /// Adds a store. The lane must have no store to a part of the same bytes, and room.
    pub fn push(&mut self, store: Store) {
        if self.all.is_empty() {
            self.all = vec![store; MOST * LANES];
        }
        let lane = usize::from(store.lane);
        let count = usize::from(self.counts[lane]);
        let own = &mut self.all[MOST * lane..MOST * lane + count];
        let same = |old: &&mut Store| {
            (old.shared, old.address, old.bytes) == (store.shared, store.address, store.bytes)
        };
        self.lanes |= 1 << lane;
        match own.iter_mut().find(same) {
            Some(old) => old.value = store.value,
            None => {
                self.all[MOST * lane + count] = store;
                self.counts[lane] += 1;
            }
        }
    }

    /// Returns whether stores of the lane must be drained before another one.
    pub fn is_full(&self, lane: usize) -> bool {
        usize::from(self.counts[lane]) == MOST
    }

    /// Returns what a lane reads from its own stores.
    #[inline]
    pub fn find(&self, lane: usize, shared: bool, address: u64, bytes: u64) -> Found {
        if self.lanes >> lane & 1 == 0 {
            return Found::Nothing;
        }
        let own = &self.all[MOST * lane..MOST * lane + usize::from(self.counts[lane])];
        match own.iter().rev().find(|store| store.overlaps(shared, address, bytes)) {
            Some(store) if (store.address, u64::from(store.bytes)) == (address, bytes) => {
                Found::Value(store.value)
            }
            Some(_) => Found::Part,
            None => Found::Nothing,
        }
    }

    /// Gives the stores of the lanes in `mask` to `write`, those of a lane in their order.
    #[inline]
    pub fn drain(&mut self, mask: u32, mut write: impl FnMut(&Store)) {
        let mut left = self.lanes & mask;
        self.lanes &= !mask;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let count = usize::from(std::mem::take(&mut self.counts[lane]));
            self.all[MOST * lane..MOST * lane + count].iter().for_each(&mut write);
            left &= left - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_sees_its_own_stores() {
        let mut stores = Stores::default();
        let store = |lane, address, value| Store { lane, bytes: 4, shared: false, address, value };
        stores.push(store(3, 64, 1));
        stores.push(store(3, 64, 2));
        stores.push(store(4, 68, 3));
        assert_eq!(stores.find(3, false, 64, 4), Found::Value(2));
        assert_eq!(stores.find(3, false, 66, 2), Found::Part);
        assert_eq!(stores.find(3, true, 64, 4), Found::Nothing);
        assert_eq!(stores.find(4, false, 64, 4), Found::Nothing);
        let mut seen = Vec::new();
        stores.drain(1 << 3, |store| seen.push(store.value));
        assert_eq!((seen, stores.lanes), (vec![2], 1 << 4));
    }
}
