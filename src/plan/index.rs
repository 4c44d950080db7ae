//! The next-use index: for every SAVE and RESTORE of a schedule, the next RESTORE of the same
//! snapshot.
//!
//! A snapshot is one record, the whole state, or two: the fields of its time level (part 0), and the
//! fields that are their previous time level (part 1). With two parts an access is a *use* of one
//! record by a SAVE or RESTORE, and a record that two states share has the uses of both.

use super::NONE;
use crate::error::{fail, Result};
use crate::fallible_vec::{filled, push, with_room};
use crate::schedule::{Algorithm, Kind, Schedule};

/// A SAVE or RESTORE action, or with two parts its use of one record. The number among
/// `Index::accesses` is the number of the step of the plan.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// With one part the time step t of the state. With two parts the number of the record: 2 t for
    /// part 0 of u(t), 2 t + 1 for part 1.
    pub ts: u32,
    /// True for a SAVE, false for a RESTORE.
    pub save: bool,
    /// Part 1 of u(t) that is not stored again, since part 0 of u(t-1) is that level. Such a SAVE
    /// stores no record, and such a RESTORE reads the record of u(t-1).
    pub is_shared: bool,
    /// Whether a FORWARD follows before the next SAVE or RESTORE.
    pub steps_on: bool,
    /// Number of the next RESTORE of the same record, or [`NONE`]. A claim has `NONE`, too, and is nobody's
    /// next use, except for the claim of the first SAVE in `Index::rest` with zero copy.
    pub next: u32,
    /// Number of forward and backward steps before this action.
    pub clock: u64,
}

impl Access {
    /// Whether this is the part of a SAVE that is not stored, since another record is that level.
    pub fn is_claim(&self) -> bool {
        self.save && self.is_shared
    }
}

/// All SAVE and RESTORE actions of a schedule, in order.
#[derive(Clone, Debug)]
pub struct Index {
    /// The SAVE and RESTORE actions.
    pub accesses: Vec<Access>,
    /// Number of states that are reversed, n, times the number of parts.
    pub states: usize,
    /// Parts of a state, 1 or 2: each SAVE and RESTORE has as many accesses, part 0 first.
    pub parts: u32,
    /// The forward phase of an online schedule.
    pub forward: Option<ForwardPhase>,
    /// Whether states with neighbouring numbers are one time step apart: not with macro-steps.
    pub(super) is_consecutive: bool,
    /// Whether one BACKWARD comes between two RESTOREs, before the first one and after the last one, and
    /// FORWARD only leads to the state of the next SAVE or BACKWARD. The SAVEs and RESTOREs then say what
    /// comes between them.
    pub is_one_by_one: bool,
    /// Whether there are several reverse sweeps. A snapshot that a sweep has read is then needed last of all,
    /// so that Belady's rule would send it around the cache, and its fetch would overlap with nothing: every
    /// RESTORE takes a slot instead.
    pub(super) is_repeated: bool,
}

/// Which states may take part 0 of the state before as their part 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claims {
    /// No state.
    None,
    /// Only states from which no FORWARD starts. A compressed level may differ from the exact one by
    /// its error bound; the difference of two such levels, from which a run would go on, may differ by
    /// the sum of two bounds, which is more than a stored difference does.
    OfStatesNotSteppedFrom,
    /// All states: records are raw, and so a shared one is exactly the level.
    All,
}

/// Sets the next RESTORE of the same record for each access.
#[inline]
fn link(accesses: &mut [Access], records: usize) -> Result<()> {
    let mut upcoming = filled(NONE, records)?;
    for (e, access) in accesses.iter_mut().enumerate().rev() {
        if access.is_claim() {
            access.next = NONE;
            continue;
        }
        let this = if access.save { NONE } else { e as u32 };
        access.next = std::mem::replace(&mut upcoming[access.ts as usize], this);
    }
    Ok(())
}

/// The forward phase of an online schedule: its snapshots may be dropped without a RESTORE.
#[derive(Clone, Copy, Debug)]
pub struct ForwardPhase {
    /// The most snapshots that are stored at a time.
    pub snapshots: u32,
    /// Number of SAVE actions of the forward phase: the first ones of `Index::accesses`.
    pub saves: usize,
}

impl Index {
    /// Walks through the schedule once, and then backward through its SAVE and RESTORE actions.
    pub fn new(schedule: &Schedule) -> Result<Self> {
        schedule.check_length()?;
        let count = schedule.accesses()?;
        if count >= NONE as u64 {
            return fail!(Budget, "{count} saves and restores: a plan holds at most {}; take fewer time steps or more snapshots", NONE - 1);
        }
        if let Some(why) = schedule.why_it_takes_long() {
            log::warn!("{why}");
        }
        let mut accesses: Vec<Access> = with_room(count as usize)?;
        let (mut clock, mut forward) = (0, None);
        let is_online = schedule.algorithm == Algorithm::Online;
        for (forwards, action) in schedule.actions().stops() {
            clock += u64::from(forwards);
            if let Some(last) = accesses.last_mut().filter(|_| forwards > 0) {
                last.steps_on = true;
            }
            match action.kind {
                Kind::Backward => {
                    if is_online && clock + 1 == schedule.steps as u64 {
                        let (snapshots, saves) = (schedule.snapshots, accesses.len());
                        forward = Some(ForwardPhase { snapshots, saves });
                    }
                    clock += 1;
                }
                Kind::Save | Kind::Restore => {
                    let (ts, save) = (action.ts, action.kind == Kind::Save);
                    let [is_shared, steps_on] = [false; 2];
                    let access = Access { ts, save, is_shared, steps_on, next: NONE, clock };
                    push(&mut accesses, access)?;
                }
                Kind::Forward | Kind::Terminate => {}
                Kind::Error => action.check_memory()?,
            }
        }
        let states = schedule.steps as usize;
        link(&mut accesses, states)?;
        Ok(Index {
            accesses,
            states,
            parts: 1,
            is_consecutive: schedule.macro_steps().every() == 1,
            forward,
            is_one_by_one: schedule.is_of_intervals() && schedule.sweeps() == 1,
            is_repeated: schedule.sweeps() > 1,
        })
    }

    /// Returns the index of the same schedule with states in two parts. A SAVE of u(t) claims part 0 of
    /// u(t-1) as its part 1 if the SAVE or RESTORE before it is one of u(t-1) and the last RESTORE of
    /// u(t) comes before the last one of u(t-1): the record is then there as long as u(t) needs it.
    /// `claims` says for which snapshots.
    pub fn in_levels(&self, claims: Claims) -> Result<Index> {
        self.in_levels_after(0, [], claims)
    }

    /// Does what `in_levels` does for the SAVEs after the first `done` accesses. Of the states that are
    /// stored then, those of `shared` have taken part 0 of the state before.
    pub fn in_levels_after(
        &self,
        done: usize,
        shared: impl IntoIterator<Item = u32>,
        claims: Claims,
    ) -> Result<Index> {
        if self.accesses.len() >= (NONE / 2) as usize {
            return fail!(Budget, "{} saves and restores: a plan of states in two parts holds at most {}; use shared_levels = 0, or take fewer time steps or more snapshots", self.accesses.len(), NONE / 2 - 1);
        }
        let saves = self.forward.map_or(0, |phase| phase.saves);
        let mut is_shared = filled(false, self.states)?;
        for state in shared {
            if let Some(is_shared) = is_shared.get_mut(state as usize) {
                *is_shared = state > 0;
            }
        }
        let mut accesses = with_room(2 * self.accesses.len())?;
        for (e, access) in self.accesses.iter().enumerate() {
            let is_shared = &mut is_shared[access.ts as usize];
            if access.save && e >= done {
                *is_shared = e >= saves.max(1) && self.claims(e, claims);
            }
            let (own, previous) =
                (2 * access.ts, if *is_shared { 2 * (access.ts - 1) } else { 2 * access.ts + 1 });
            accesses.push(Access { ts: own, ..*access });
            accesses.push(Access { ts: previous, is_shared: *is_shared, ..*access });
        }
        let states = 2 * self.states;
        link(&mut accesses, states)?;
        let forward = self.forward.map(|phase| ForwardPhase { saves: 2 * phase.saves, ..phase });
        Ok(Index { accesses, states, parts: 2, forward, ..*self })
    }

    /// Whether all SAVEs come before all RESTOREs, and each snapshot is restored once, in the reverse order.
    pub fn is_stack(&self) -> bool {
        let of_states: Vec<&Access> = self.accesses.iter().step_by(self.parts as usize).collect();
        let saves = of_states.iter().take_while(|access| access.save).count();
        let (saves, restores) = of_states.split_at(saves);
        let pairs = saves.iter().rev().zip(restores);
        saves.len() == restores.len() && pairs.into_iter().all(|(a, b)| !b.save && a.ts == b.ts)
    }

    /// Whether the SAVE with number `e` > 0, an access of an index with one part, claims the level of
    /// the state before.
    fn claims(&self, e: usize, claims: Claims) -> bool {
        let (access, before) = (self.accesses[e], self.accesses[e - 1]);
        let is_next = self.is_consecutive && access.ts == before.ts + 1;
        let is_coded = claims == Claims::OfStatesNotSteppedFrom;
        // An application may set zeros again that a codec has not kept (docs/caller.md): what it steps
        // from after a RESTORE is then not what the record holds.
        if claims == Claims::None || !is_next || (is_coded && !before.save) {
            return false;
        }
        let there = |number: u32| (number != NONE).then_some(number);
        let next = |number: &u32| there(self.accesses[*number as usize].next);
        let uses = |from: u32| std::iter::successors(there(from), next);
        let Some(last) = uses(access.next).last() else { return false };
        let stays = uses(before.next).last().is_some_and(|of_before| last < of_before);
        stays && !(is_coded && uses(access.next).any(|e| self.accesses[e as usize].steps_on))
    }
}
