//! The memory that kernels may access: allocations, and which of their bytes have been written.

use std::collections::BTreeMap;

/// An allocation.
#[derive(Debug)]
pub struct Allocation {
    /// Address of the first byte.
    pub base: u64,
    /// Number of bytes.
    pub size: u64,
    /// The device whose memory it is; `None`: memory of the host, which every device may access.
    pub device: Option<usize>,
    /// A bit per byte: whether the byte has been written. Empty: the host has written all bytes.
    written: Vec<u64>,
}

impl Allocation {
    /// Returns whether `bytes` bytes at `address` are inside.
    pub fn has(&self, address: u64, bytes: u64) -> bool {
        address >= self.base && address - self.base + bytes <= self.size
    }

    /// Returns whether all of up to 64 bytes at `address` have been written.
    #[inline]
    pub fn is_written(&self, address: u64, bytes: u64) -> bool {
        if self.written.is_empty() {
            return true;
        }
        (address - self.base..address - self.base + bytes)
            .all(|at| self.written[(at / 64) as usize] >> (at % 64) & 1 == 1)
    }

    /// Notes that bytes have been written.
    #[inline]
    pub fn write(&mut self, address: u64, bytes: u64) {
        if self.written.is_empty() {
            return;
        }
        let (mut at, end) = (address - self.base, address - self.base + bytes);
        while at < end {
            let count = (64 - at % 64).min(end - at);
            self.written[(at / 64) as usize] |= (u64::MAX >> (64 - count)) << (at % 64);
            at += count;
        }
    }

    fn forget(&mut self, address: u64) {
        if let Some(word) = self.written.get_mut(((address - self.base) / 64) as usize) {
            *word &= !(1 << ((address - self.base) % 64));
        }
    }
}

/// All allocations.
#[derive(Debug, Default)]
pub struct Memory {
    all: Vec<Allocation>,
    free: Vec<usize>,
    places: BTreeMap<u64, usize>,
    /// Changes whenever an allocation is added or removed.
    pub generation: u64,
}

impl Memory {
    /// Adds an allocation. Memory of a device begins unwritten, memory of the host written.
    pub fn add(&mut self, base: u64, size: u64, device: Option<usize>) {
        let written =
            if device.is_some() { vec![0; size.div_ceil(64) as usize] } else { Vec::new() };
        let allocation = Allocation { base, size, device, written };
        self.generation += 1;
        let index = match self.free.pop() {
            Some(index) => {
                self.all[index] = allocation;
                index
            }
            None => {
                self.all.push(allocation);
                self.all.len() - 1
            }
        };
        self.places.insert(base, index);
    }

    /// Removes the allocation at `base`.
    pub fn remove(&mut self, base: u64) {
        self.generation += 1;
        if let Some(index) = self.places.remove(&base) {
            self.all[index].written = Vec::new();
            self.all[index].size = 0;
            self.free.push(index);
        }
    }

    /// Returns the number of the allocation that has `bytes` bytes at `address`.
    pub fn find(&self, address: u64, bytes: u64) -> Option<usize> {
        let (_, &index) = self.places.range(..=address).next_back()?;
        self.all[index].has(address, bytes).then_some(index)
    }

    /// Returns the allocation that begins at or before `address`, for messages.
    pub fn before(&self, address: u64) -> Option<&Allocation> {
        self.places.range(..=address).next_back().map(|(_, &index)| &self.all[index])
    }

    /// Returns an allocation by its number.
    #[inline]
    pub fn at(&mut self, index: usize) -> &mut Allocation {
        &mut self.all[index]
    }

    /// Notes that bytes have been written, by the host or by a copy of written bytes.
    pub fn write(&mut self, address: u64, bytes: u64) {
        let (mut at, end) = (address, address + bytes);
        while let Some((index, room)) = self.room(at).filter(|_| at < end) {
            let piece = room.min(end - at);
            self.all[index].write(at, piece);
            at += piece;
        }
    }

    /// Returns the number of the allocation that has this address, and its bytes from there on. What
    /// is mapped side by side is several allocations.
    fn room(&self, address: u64) -> Option<(usize, u64)> {
        let index = self.find(address, 1)?;
        Some((index, self.all[index].base + self.all[index].size - address))
    }

    /// Notes that anything may have been written: a function of the host can write memory.
    pub fn write_all(&mut self) {
        self.all.iter_mut().for_each(|allocation| allocation.written = Vec::new());
    }

    /// Notes a copy: what was not written at the source is not written at the destination.
    pub fn copy(&mut self, to: u64, from: u64, bytes: u64) {
        let mut done = 0;
        while done < bytes {
            let Some((source, room)) = self.room(from + done) else {
                return self.write(to + done, bytes - done);
            };
            let Some((target, place)) = self.room(to + done) else { return };
            let piece = room.min(place).min(bytes - done);
            self.copy_between(target, source, to + done, from + done, piece);
            done += piece;
        }
    }

    /// As `copy`, from one allocation to one allocation.
    fn copy_between(&mut self, target: usize, source: usize, to: u64, from: u64, bytes: u64) {
        let whole = (0..bytes)
            .step_by(64)
            .all(|at| self.all[source].is_written(from + at, (bytes - at).min(64)));
        if whole {
            return self.all[target].write(to, bytes);
        }
        for at in 0..bytes {
            if self.all[source].is_written(from + at, 1) {
                self.all[target].write(to + at, 1);
            } else {
                self.all[target].forget(to + at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_carry_what_is_written() {
        let mut memory = Memory::default();
        memory.add(1000, 200, Some(0));
        memory.add(2000, 200, Some(0));
        memory.add(3000, 8, None);
        memory.write(1010, 100);
        memory.copy(2000, 1000, 200);
        let at = |memory: &mut Memory, address, bytes| {
            let index = memory.find(address, bytes).unwrap();
            memory.at(index).is_written(address, bytes)
        };
        assert!(at(&mut memory, 2010, 64) && at(&mut memory, 2109, 1) && at(&mut memory, 3000, 8));
        assert!(!at(&mut memory, 2009, 2) && !at(&mut memory, 2110, 1));
        memory.copy(2110, 3000, 8);
        memory.copy(2010, 1000, 1);
        assert!(at(&mut memory, 2110, 8) && !at(&mut memory, 2010, 1));
        // Two allocations side by side.
        memory.add(2200, 200, Some(0));
        memory.write(2190, 20);
        memory.copy(1000, 2190, 20);
        assert!(at(&mut memory, 2190, 10) && at(&mut memory, 2200, 10));
        assert!(at(&mut memory, 1000, 20) && !at(&mut memory, 2210, 1));
        memory.remove(2000);
        assert!(memory.find(2000, 1).is_none() && memory.find(1199, 2).is_none());
    }
}
