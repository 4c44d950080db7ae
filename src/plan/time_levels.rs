//! Shared time levels: which snapshots need no room for their previous time level.
//!
//! The previous time level of u(t) is the current time level of u(t-1). If the snapshot of u(t-1)
//! is in a tier as long as the snapshot of u(t) is read from that tier, the previous time level of
//! u(t) is read from the slot of u(t-1). Slots hold the other fields of a state. A previous time
//! level that is not shared lies in a place of its own, beside the slots; a plan needs fewer places
//! than slots.

use super::{Fetch, Index, Step, NONE};
use crate::error::Result;
use crate::fallible_vec::{self, filled, push};

/// Where the previous time level of a snapshot lies, in the tier of the snapshot's slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PreviousLevel {
    /// The previous time level is not kept in this tier: no RESTORE reads it from here.
    #[default]
    Nowhere,
    /// In the place with this number.
    Place(u32),
    /// In the slot with this number, which holds the snapshot one time step before.
    Slot(u32),
}

/// Where the previous time levels of all snapshots lie.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// For each SAVE and RESTORE, the previous time level in the cache.
    pub device: Vec<PreviousLevel>,
    /// For each SAVE and RESTORE, the previous time level in the host pool.
    pub host: Vec<PreviousLevel>,
    /// Number of places for previous time levels in the cache.
    pub device_places: u32,
    /// Number of places for previous time levels in the host pool.
    pub host_places: u32,
}

/// The lifetime of a snapshot in a slot of a tier. All numbers are those of plan steps.
struct Lifetime {
    slot: u32,
    /// The plan step at which the lifetime begins; with `early`, the lifetime begins right after
    /// that step.
    since: u32,
    early: bool,
    /// The last plan step that reads the snapshot from this slot, and the last one at which the
    /// snapshot is still there. `kept` is NONE while no other snapshot takes the slot.
    read: u32,
    kept: u32,
    /// Number of the lifetime of the snapshot one time step before, if that snapshot was in the
    /// tier when this one was saved; else NONE.
    before: u32,
}

/// Determines for a plan where previous time levels are shared.
pub fn share(index: &Index, steps: &[Step], fetches: &[Fetch]) -> Result<Shares> {
    let mut issue = filled(NONE, steps.len())?;
    fetches.iter().for_each(|fetch| issue[fetch.restore as usize] = fetch.issue_after);
    let cached = |e: usize| (steps[e].slot, index.accesses[e].save || steps[e].host != NONE);
    let pooled = |e: usize| (steps[e].host, index.accesses[e].save);
    let (device, device_places) = previous_levels(index, &cached, &issue)?;
    let (host, host_places) = previous_levels(index, &pooled, &issue)?;
    Ok(Shares { device, host, device_places, host_places })
}

/// Determines the previous time levels in one tier, and the number of places that they take. For
/// each plan step, `at` returns the slot in that tier and whether a lifetime begins there.
fn previous_levels(
    index: &Index,
    at: &dyn Fn(usize) -> (u32, bool),
    issue: &[u32],
) -> Result<(Vec<PreviousLevel>, u32)> {
    let (lifetimes, lifetime_of) = lifetimes(index, at, issue)?;
    let shared = |lifetime: &Lifetime| {
        lifetime.before != NONE && lifetimes[lifetime.before as usize].kept >= lifetime.read
    };
    // Order of the turns of one plan step: lifetimes that begin at the step (0), that end with the
    // step (1), that begin after the step (2).
    let mut turns: Vec<(u32, u8, u32)> = Vec::new();
    for (k, lifetime) in lifetimes.iter().enumerate().filter(|(_, lifetime)| !shared(lifetime)) {
        push(&mut turns, (lifetime.since, if lifetime.early { 2 } else { 0 }, k as u32))?;
        push(&mut turns, (lifetime.read, 1, k as u32))?;
    }
    turns.sort_unstable();
    let (mut place, mut free, mut places) = (filled(NONE, lifetimes.len())?, Vec::new(), 0);
    for (_, turn, k) in turns {
        let place = &mut place[k as usize];
        if turn == 1 {
            push(&mut free, *place)?;
        } else {
            *place = free.pop().unwrap_or(places);
            places = places.max(*place + 1);
        }
    }
    let place = |&k: &u32| match lifetimes.get(k as usize) {
        None => PreviousLevel::Nowhere,
        Some(lifetime) if shared(lifetime) => {
            PreviousLevel::Slot(lifetimes[lifetime.before as usize].slot)
        }
        Some(_) => PreviousLevel::Place(place[k as usize]),
    };
    Ok((fallible_vec::collected(lifetime_of.iter().map(place))?, places))
}

/// Returns all lifetimes in a tier, and for each plan step the number of its lifetime.
fn lifetimes(
    index: &Index,
    at: &dyn Fn(usize) -> (u32, bool),
    issue: &[u32],
) -> Result<(Vec<Lifetime>, Vec<u32>)> {
    let mut lifetimes: Vec<Lifetime> = Vec::new();
    let mut lifetime_of = filled(NONE, index.accesses.len())?;
    let mut in_slot: Vec<u32> = Vec::new();
    let mut of_state = filled(NONE, index.states)?;
    for (e, access) in index.accesses.iter().enumerate() {
        let (slot, begins) = at(e);
        if slot == NONE {
            continue;
        }
        if slot as usize >= in_slot.len() {
            fallible_vec::up_to(&mut in_slot, slot as usize + 1)?;
            in_slot.resize(slot as usize + 1, NONE);
        }
        let current = &mut in_slot[slot as usize];
        if begins {
            let early = !access.save && issue[e] != e as u32;
            let since = if access.save { e as u32 } else { issue[e] };
            if let Some(lifetime) = lifetimes.get_mut(*current as usize) {
                // An early fetch overwrites the slot only after plan step `since`.
                lifetime.kept = if early { since } else { since.saturating_sub(1) };
            }
            let number = lifetimes.len() as u32;
            let before = access
                .ts
                .checked_sub(1)
                .filter(|_| access.save)
                .map_or(NONE, |ts| of_state[ts as usize]);
            let before = if lifetimes
                .get(before as usize)
                .is_some_and(|b: &Lifetime| b.kept == NONE && b.slot != slot)
            {
                before
            } else {
                NONE
            };
            push(
                &mut lifetimes,
                Lifetime { slot, since, early, read: e as u32, kept: NONE, before },
            )?;
            *current = number;
            // A fetched snapshot may not have arrived when the next state is saved. Its current
            // time level is therefore not shared with the next snapshot.
            of_state[access.ts as usize] = if access.save { number } else { NONE };
        }
        lifetime_of[e] = *current;
        if let Some(lifetime) = lifetimes.get_mut(*current as usize) {
            lifetime.read = e as u32;
        }
    }
    Ok((lifetimes, lifetime_of))
}
