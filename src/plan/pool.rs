//! The order of the pool: which of its slots lie on disk, and when a record comes back from there.

use super::{Index, Plan, Read, NONE};
use crate::error::Result;
use crate::fallible_vec::{filled, push, with_room};
use std::collections::BinaryHeap;

/// The steps between which host slots hold one record: its SAVE, and the last step that reads it.
struct Life {
    begin: u32,
    end: u32,
    on_disk: bool,
    /// Number of the slot, among those on disk or among those in host memory.
    slot: u32,
    /// The first step that reads the record, or [`NONE`].
    first: u32,
    /// The last step after which a read from disk comes in time for the first step.
    due: u32,
    /// A record on disk: the step after which it is read into host memory, or [`NONE`]; and the number of
    /// its slot there.
    read_after: u32,
    read_into: u32,
}

/// Slots that are on disk, and slots in host memory: the number of them, and those that are free.
#[derive(Default)]
struct Slots {
    count: u32,
    free: Vec<u32>,
}

impl Slots {
    /// Takes the slot that was freed last.
    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        })
    }
}

/// Slots in host memory for a record on disk that is read, and for the next one, which comes beside.
const FOR_READS: u32 = 2;

impl Plan {
    /// Numbers the host slots anew for a pool that has `memory` slots in host memory; those with lower
    /// numbers lie on disk. Where more records are stored than memory holds, those that are needed longest
    /// go to disk, so that as few as possible do (Faigle and Nawijn, Discrete Applied Mathematics 58
    /// (1995)). Before its first use such a record is read into host memory, where it stays, while the one
    /// before it is used. Leaves the plan as it is if memory holds all records, or if the pool would have
    /// more than `most` slots.
    pub fn sort_pool(&mut self, index: &Index, memory: u32, most: u32) -> Result<()> {
        if self.host_slots <= memory {
            return Ok(());
        }
        let (mut lives, life_of) = self.lives(index)?;
        choose_for_disk(&mut lives, &life_of, memory - FOR_READS.min(memory / 2))?;
        let order = choose_reads(&mut lives, &life_of, memory)?;
        let [on_disk, in_memory] = number_slots(&mut lives, &life_of, &order)?;
        debug_assert!(in_memory <= memory);
        // The pool does not shrink: its number of slots says how many lie on disk.
        let on_disk = on_disk.max(self.host_slots - memory);
        if on_disk.saturating_add(memory) > most {
            return Ok(());
        }
        for (number, (step, &life)) in (0..).zip(self.steps.iter_mut().zip(&life_of)) {
            let Some(life) = lives.get(life as usize) else { continue };
            step.host = match (life.on_disk, life.read_after) {
                (false, _) => on_disk + life.slot,
                (true, after) if after != NONE && number > life.begin => on_disk + life.read_into,
                (true, _) => life.slot,
            };
        }
        for &life in &order {
            let Life { begin, read_after, read_into, .. } = lives[life as usize];
            let (save, to) = (begin, on_disk + read_into);
            push(&mut self.reads, Read { issue_after: read_after, save, to })?;
        }
        (self.host_slots, self.on_disk) = (on_disk + memory, on_disk);
        Ok(())
    }

    /// The records of the pool in the order of their SAVEs, and for each step the number of the record that
    /// it writes to the pool or reads from it, or [`NONE`].
    fn lives(&self, index: &Index) -> Result<(Vec<Life>, Vec<u32>)> {
        let (mut lives, mut life_of) = (Vec::new(), filled(NONE, self.steps.len())?);
        let mut held = filled(NONE, self.host_slots as usize)?;
        let mut released = filled(NONE, self.steps.len())?;
        for fetch in &self.fetches {
            released[fetch.restore as usize] = fetch.released_after;
        }
        let parts = self.parts() as u32;
        for (number, (step, access)) in (0..).zip(self.steps.iter().zip(&index.accesses)) {
            let Some(held) = held.get_mut(step.host as usize) else { continue };
            if access.save {
                *held = lives.len() as u32;
                let [slot, first, due, read_after, read_into] = [NONE; 5];
                let (begin, end, on_disk) = (number, number, false);
                let life = Life { begin, end, on_disk, slot, first, due, read_after, read_into };
                push(&mut lives, life)?;
            }
            life_of[number as usize] = *held;
            let life = &mut lives[*held as usize];
            life.end = number;
            if life.first == NONE && !access.save {
                // A transfer that waits for its RESTORE is issued when that is called.
                life.due = released[number as usize].min(number.saturating_sub(parts));
                life.first = number;
            }
        }
        Ok((lives, life_of))
    }
}

/// Sends the records to disk that `memory` slots do not hold: of those that overlap, the ones that end
/// last. `life_of` is the record of each step.
fn choose_for_disk(lives: &mut [Life], life_of: &[u32], memory: u32) -> Result<()> {
    let (mut stored, mut latest) = (0, BinaryHeap::from(with_room(lives.len())?));
    for (number, &life) in (0..).zip(life_of).filter(|(_, life)| **life != NONE) {
        let Life { begin, end, .. } = lives[life as usize];
        if begin == number {
            latest.push((end, life));
            stored += 1;
        }
        if stored > memory {
            // The record that ends last has not ended, and is in memory.
            let longest = latest.pop().map_or(life, |(_, life)| life);
            lives[longest as usize].on_disk = true;
            stored -= 1;
        }
        stored -= u32::from(end == number && !lives[life as usize].on_disk);
    }
    Ok(())
}

/// Decides which records on disk are read into the host memory that the others leave of `memory` slots, and
/// when. Returns these records in the order in which they are read.
fn choose_reads(lives: &mut [Life], life_of: &[u32], memory: u32) -> Result<Vec<u32>> {
    let mut order = Vec::new();
    for (number, life) in (0..).zip(life_of).filter(|(_, life)| **life != NONE) {
        let Life { on_disk, first, .. } = lives[*life as usize];
        if on_disk && first == number {
            push(&mut order, *life)?;
        }
    }
    let mut used = 0;
    for &life in &order {
        let life = &mut lives[life as usize];
        life.read_after = life.begin.max(used).min(life.due);
        used = life.first;
    }
    order.sort_by_key(|life| lives[*life as usize].read_after);
    let (mut stored, mut latest) = (0, BinaryHeap::from(with_room(order.len())?));
    let mut next = order.iter().peekable();
    for (number, &life) in (0..).zip(life_of) {
        let begins = |life: &Life| life.begin == number && !life.on_disk;
        stored += u32::from(lives.get(life as usize).is_some_and(begins));
        let make_room = |lives: &mut [Life], latest: &mut BinaryHeap<_>, stored: &mut u32| {
            if *stored > memory {
                if let Some((_, last)) = latest.pop() {
                    lives[last as usize].read_after = NONE;
                    *stored -= 1;
                }
            }
        };
        make_room(lives, &mut latest, &mut stored);
        let ends = |life: &Life| life.end == number && (!life.on_disk || life.read_after != NONE);
        stored -= u32::from(lives.get(life as usize).is_some_and(ends));
        while let Some(&read) = next.next_if(|life| lives[**life as usize].read_after == number) {
            latest.push((lives[read as usize].end, read));
            stored += 1;
            make_room(lives, &mut latest, &mut stored);
        }
    }
    order.retain(|life| lives[*life as usize].read_after != NONE);
    Ok(order)
}

/// Gives each record a slot for as long as it lasts: its own, or one on disk up to its first use and one in
/// host memory from its read on. The slot that was freed last is taken first. Returns the numbers of slots
/// on disk and in host memory.
fn number_slots(lives: &mut [Life], life_of: &[u32], order: &[u32]) -> Result<[u32; 2]> {
    let (mut disk, mut memory) = (Slots::default(), Slots::default());
    let mut next = order.iter().peekable();
    for (number, &life) in (0..).zip(life_of) {
        if let Some(life) = lives.get_mut(life as usize) {
            let is_read = life.read_after != NONE;
            let own = if life.on_disk { &mut disk } else { &mut memory };
            if life.begin == number {
                life.slot = own.take();
            }
            if (if is_read { life.first } else { life.end }) == number {
                push(&mut own.free, life.slot)?;
            }
            if is_read && life.end == number {
                push(&mut memory.free, life.read_into)?;
            }
        }
        let is_due = |life: &&u32, lives: &[Life]| lives[**life as usize].read_after <= number;
        while let Some(read) = next.next_if(|life| is_due(life, lives)) {
            lives[*read as usize].read_into = memory.take();
        }
    }
    Ok([disk.count, memory.count])
}
