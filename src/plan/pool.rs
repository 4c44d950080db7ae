//! The order of the pool: which of its slots lie on disk.

use super::{Index, Plan, NONE};
use crate::error::Result;
use crate::fallible_vec::{filled, push, with_room};
use std::collections::BinaryHeap;

/// The steps between which a host slot holds one record: its SAVE, and the last step that reads it there.
struct Life {
    begin: usize,
    end: usize,
    on_disk: bool,
    /// Number of the slot, among those on disk or among those in host memory.
    slot: u32,
}

impl Plan {
    /// Numbers the host slots anew for a pool that has `memory` slots in host memory; those with lower
    /// numbers lie on disk. Where more records are stored than memory holds, those that are needed longest
    /// go to disk, so that as few as possible do (Faigle and Nawijn, Discrete Applied Mathematics 58
    /// (1995)); a record stays where it was written. Leaves the plan as it is if memory holds all records,
    /// or if the pool would have more than `most` slots.
    pub fn sort_pool(&mut self, index: &Index, memory: u32, most: u32) -> Result<()> {
        if self.host_slots <= memory {
            return Ok(());
        }
        let (mut lives, mut life_of) = (Vec::new(), filled(NONE, self.steps.len())?);
        let mut held = filled(NONE, self.host_slots as usize)?;
        for (number, (step, access)) in self.steps.iter().zip(&index.accesses).enumerate() {
            let Some(held) = held.get_mut(step.host as usize) else { continue };
            if access.save {
                *held = lives.len() as u32;
                let life = Life { begin: number, end: number, on_disk: false, slot: NONE };
                push(&mut lives, life)?;
            }
            life_of[number] = *held;
            lives[*held as usize].end = number;
        }
        let uses = || life_of.iter().enumerate().filter(|(_, life)| **life != NONE);
        let (mut stored, mut latest) = (0, BinaryHeap::from(with_room(lives.len())?));
        for (number, &life) in uses() {
            let Life { begin, end, .. } = lives[life as usize];
            if begin == number {
                latest.push((end, life));
                stored += 1;
            }
            if stored > memory {
                // The life that ends last has not ended, and is in memory.
                let longest = latest.pop().map_or(life, |(_, life)| life);
                lives[longest as usize].on_disk = true;
                stored -= 1;
            }
            stored -= u32::from(end == number && !lives[life as usize].on_disk);
        }
        // A slot is taken at a SAVE, and the one that was freed last first.
        let (mut slots, mut free) = ([0; 2], [Vec::new(), Vec::new()]);
        for (number, &life) in uses() {
            let Life { begin, end, on_disk, slot } = &mut lives[life as usize];
            let (slots, free) =
                (&mut slots[usize::from(*on_disk)], &mut free[usize::from(*on_disk)]);
            if *begin == number {
                *slot = free.pop().unwrap_or(*slots);
                *slots = (*slots).max(*slot + 1);
            }
            if *end == number {
                push(free, *slot)?;
            }
        }
        let [_, on_disk] = slots;
        if on_disk.saturating_add(memory) > most {
            return Ok(());
        }
        for (step, &life) in self.steps.iter_mut().zip(&life_of).filter(|(_, life)| **life != NONE)
        {
            let life = &lives[life as usize];
            step.host = life.slot + if life.on_disk { 0 } else { on_disk };
        }
        self.host_slots = on_disk + memory;
        Ok(())
    }
}
