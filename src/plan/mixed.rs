//! Mixed storage: a snapshot that stays on the device is stored raw, a snapshot that goes to the host
//! is compressed.
//!
//! A raw snapshot costs the least time of the application's stream and the most memory; a compressed
//! one takes little room in host memory and on the link, but coding takes time. In a nested schedule
//! most snapshots never leave the device, and so the raw ones are most of all SAVEs and RESTOREs.

use super::online::Left;
use super::replace::Cache;
use super::{Index, Plan, Policy, Step, NONE};
use crate::error::Result;
use crate::fallible_vec::{filled, with_room};

impl Plan {
    /// Plans an indexed schedule for mixed storage, with `raw_slots` device slots for raw snapshots
    /// and `coded_slots` smaller ones, numbered after them, through which compressed snapshots pass.
    /// The plan of a cache of `raw_slots` slots alone tells which snapshots go to the host: these are
    /// compressed, wherever they lie. In the forward phase of an online schedule they take the slots for
    /// compressed ones in turn, so that the newest ones are on the device when the phase ends.
    pub fn mixed(index: &Index, raw_slots: u32, coded_slots: u32, zero_copy: bool) -> Result<Self> {
        let alone = Self::made(index, raw_slots, Policy::Clairvoyant, zero_copy)?;
        let phase = index.forward.as_ref();
        let by = |phase| Left::by(index, phase, raw_slots, Some(coded_slots));
        let left = phase.map(by).transpose()?;
        let mut raw = Cache::new(index, raw_slots, alone.zero_copy)?;
        // The application never works in compressed snapshots.
        let mut coded = Cache::new(index, coded_slots, false)?;
        coded.always |= index.is_repeated;
        let mut is_coded = filled(false, index.states)?;
        let mut steps: Vec<Step> = with_room(index.accesses.len())?;
        if let Some(left) = &left {
            steps.extend_from_slice(&left.steps);
            raw.take_over(left, &left.content, 0)?;
            coded.take_over(left, &left.coded, raw_slots)?;
        }
        let planned = steps.len();
        for (e, access) in (0..).zip(&index.accesses) {
            let is_coded = &mut is_coded[access.ts as usize];
            if access.save {
                *is_coded = alone.steps[e as usize].host != NONE;
            }
            if (e as usize) < planned {
                continue;
            }
            steps.push(match *is_coded {
                true => {
                    raw.is_left();
                    let step = coded.clairvoyant(e)?;
                    let slot = if step.slot == NONE { NONE } else { raw_slots + step.slot };
                    Step { slot, ..step }
                }
                // No raw snapshot is evicted: those of this plan are fewer than the ones of the plan
                // that never evicted them.
                false => raw.clairvoyant(e)?,
            });
        }
        let device_slots = match coded.used {
            0 => raw.used,
            used => raw_slots + used,
        };
        debug_assert!(raw_slots == 0 || raw.fetches.is_empty());
        let mut plan = Plan {
            cache: raw_slots.saturating_add(coded_slots),
            zero_copy: alone.zero_copy,
            raw_slots,
            device_slots,
            steps,
            fetches: coded.fetches,
            drops: left.is_some(),
            ..Plan::default()
        };
        plan.fetches.sort_unstable();
        plan.place_on_host(index, left.as_ref())?;
        plan.count(index);
        Ok(plan)
    }

    /// The numbers of SAVEs and RESTOREs of compressed snapshots in a plan of mixed storage.
    pub fn coded(&self, index: &Index) -> [u64; 2] {
        let mut coded = [0; 2];
        // Where all slots are for raw snapshots, transfer lanes code.
        if (1..self.cache).contains(&self.raw_slots) {
            for (step, access) in self.steps.iter().zip(&index.accesses) {
                let is_stored = step.slot != NONE || step.host != NONE;
                let is_coded = step.slot >= self.raw_slots && is_stored;
                coded[usize::from(!access.save)] += u64::from(is_coded);
            }
        }
        coded
    }
}
