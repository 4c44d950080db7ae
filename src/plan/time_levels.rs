//! Shared time levels: which snapshots need no room for their past, since that is the present of
//! the snapshot one step before.
//!
//! The previous time level of u(t) is the current one of u(t-1). Where both snapshots are in a tier
//! as long as the later one is read from there, the earlier one has it. Slots hold the other
//! fields; what is not shared takes a place for the past, of which there are fewer.

use super::{Fetch, Index, Step, NONE};
use crate::error::Result;
use crate::fallible_vec::{self, filled, push};

/// Where the past of a snapshot is, in the tier of the slot that it has there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PreviousLevel {
    /// Nobody reads it there.
    #[default]
    Nowhere,
    /// In this place.
    Place(u32),
    /// In this slot, of the snapshot one step before.
    Slot(u32),
}

/// Where the previous levels of all snapshots are.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// For each SAVE and RESTORE with a device slot.
    pub device: Vec<PreviousLevel>,
    /// For each SAVE and RESTORE with a host slot.
    pub host: Vec<PreviousLevel>,
    /// Places for previous levels in the cache.
    pub device_places: u32,
    /// Places in the host pool.
    pub host_places: u32,
}

/// A snapshot in a slot of a tier.
struct Stay {
    slot: u32,
    /// The event after which it is there; with `early` right after it, or else at it.
    since: u32,
    early: bool,
    /// The last event that reads it there, and the last one at which it is still there.
    read: u32,
    kept: u32,
    /// The stay of the snapshot one step before, if that was there when this one was saved.
    before: u32,
}

/// Finds out for a plan where previous levels are shared.
pub fn share(index: &Index, steps: &[Step], fetches: &[Fetch]) -> Result<Shares> {
    let mut issue = filled(NONE, steps.len())?;
    fetches.iter().for_each(|fetch| issue[fetch.event as usize] = fetch.issue_after);
    let cached = |e: usize| (steps[e].slot, index.events[e].save || steps[e].host != NONE);
    let pooled = |e: usize| (steps[e].host, index.events[e].save);
    let (device, device_places) = previous_levels(index, &cached, &issue)?;
    let (host, host_places) = previous_levels(index, &pooled, &issue)?;
    Ok(Shares { device, host, device_places, host_places })
}

/// The previous levels in one tier, whose slot at each event, and whether a stay begins there, `at`
/// says; and the places that they take.
fn previous_levels(
    index: &Index,
    at: &dyn Fn(usize) -> (u32, bool),
    issue: &[u32],
) -> Result<(Vec<PreviousLevel>, u32)> {
    let (stays, stay_of) = stays(index, at, issue)?;
    let shared = |stay: &Stay| stay.before != NONE && stays[stay.before as usize].kept >= stay.read;
    // Of each event first what begins at it, then what ends, then what begins after it.
    let mut turns: Vec<(u32, u8, u32)> = Vec::new();
    for (k, stay) in stays.iter().enumerate().filter(|(_, stay)| !shared(stay)) {
        push(&mut turns, (stay.since, if stay.early { 2 } else { 0 }, k as u32))?;
        push(&mut turns, (stay.read, 1, k as u32))?;
    }
    turns.sort_unstable();
    let (mut place, mut free, mut places) = (filled(NONE, stays.len())?, Vec::new(), 0);
    for (_, turn, k) in turns {
        let place = &mut place[k as usize];
        if turn == 1 {
            push(&mut free, *place)?;
        } else {
            *place = free.pop().unwrap_or(places);
            places = places.max(*place + 1);
        }
    }
    let past = |&k: &u32| match stays.get(k as usize) {
        None => PreviousLevel::Nowhere,
        Some(stay) if shared(stay) => PreviousLevel::Slot(stays[stay.before as usize].slot),
        Some(_) => PreviousLevel::Place(place[k as usize]),
    };
    Ok((fallible_vec::collected(stay_of.iter().map(past))?, places))
}

/// All stays in a tier, and which one each event is about.
fn stays(
    index: &Index,
    at: &dyn Fn(usize) -> (u32, bool),
    issue: &[u32],
) -> Result<(Vec<Stay>, Vec<u32>)> {
    let mut stays: Vec<Stay> = Vec::new();
    let mut stay_of = filled(NONE, index.events.len())?;
    let mut in_slot: Vec<u32> = Vec::new();
    let mut of_state = filled(NONE, index.states)?;
    for (e, event) in index.events.iter().enumerate() {
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
            let early = !event.save && issue[e] != e as u32;
            let since = if event.save { e as u32 } else { issue[e] };
            if let Some(stay) = stays.get_mut(*current as usize) {
                // An early fetch leaves it alone until the event before is done.
                stay.kept = if early { since } else { since.saturating_sub(1) };
            }
            let number = stays.len() as u32;
            let before = event
                .ts
                .checked_sub(1)
                .filter(|_| event.save)
                .map_or(NONE, |ts| of_state[ts as usize]);
            let before = if stays
                .get(before as usize)
                .is_some_and(|b: &Stay| b.kept == NONE && b.slot != slot)
            {
                before
            } else {
                NONE
            };
            push(&mut stays, Stay { slot, since, early, read: e as u32, kept: NONE, before })?;
            *current = number;
            // What is fetched may not have come when the next one is saved.
            of_state[event.ts as usize] = if event.save { number } else { NONE };
        }
        stay_of[e] = *current;
        if let Some(stay) = stays.get_mut(*current as usize) {
            stay.read = e as u32;
        }
    }
    Ok((stays, stay_of))
}
