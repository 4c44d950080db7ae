//! The next-use index: for every SAVE and RESTORE of a schedule, the next RESTORE of the same
//! snapshot.

use super::NONE;
use crate::error::{fail, Result};
use crate::fallible_vec::{filled, push, with_room};
use crate::schedule::{Algorithm, Kind, Schedule};

/// A SAVE or RESTORE action. Its number among `Index::accesses` is the number of its step of the
/// plan.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Time step of the state.
    pub ts: u32,
    /// True for a SAVE, false for a RESTORE.
    pub save: bool,
    /// Number of the next RESTORE of the same snapshot, or [`NONE`].
    pub next: u32,
    /// Number of forward and backward steps before this action.
    pub clock: u64,
}

/// All SAVE and RESTORE actions of a schedule, in order.
#[derive(Clone, Debug)]
pub struct Index {
    /// The SAVE and RESTORE actions.
    pub accesses: Vec<Access>,
    /// Number of states that are reversed, n.
    pub states: usize,
    /// The forward phase of an online schedule.
    pub forward: Option<ForwardPhase>,
    pub(super) is_one_by_one: bool,
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
        let mut accesses = with_room(count as usize)?;
        let (mut clock, mut forward) = (0, None);
        let mut actions = schedule.actions();
        while let Some(action) = actions.next() {
            match action.kind {
                Kind::Forward => clock += 1 + u64::from(actions.skip_forward()),
                Kind::Backward => {
                    if clock + 1 == schedule.steps as u64 && schedule.algorithm == Algorithm::Online
                    {
                        let (snapshots, saves) = (schedule.snapshots, accesses.len());
                        forward = Some(ForwardPhase { snapshots, saves });
                    }
                    clock += 1;
                }
                Kind::Save | Kind::Restore => {
                    push(
                        &mut accesses,
                        Access {
                            ts: action.ts,
                            save: action.kind == Kind::Save,
                            next: NONE,
                            clock,
                        },
                    )?;
                }
                Kind::Terminate => {}
                Kind::Error => action.check_memory()?,
            }
        }
        let states = schedule.steps as usize;
        let mut upcoming = filled(NONE, states)?;
        for (e, access) in accesses.iter_mut().enumerate().rev() {
            let this = if access.save { NONE } else { e as u32 };
            access.next = std::mem::replace(&mut upcoming[access.ts as usize], this);
        }
        Ok(Index { accesses, states, forward, is_one_by_one: schedule.is_of_intervals() })
    }

    /// Whether one BACKWARD comes between two RESTOREs, before the first one and after the last one, and
    /// FORWARD only leads to the state of the next SAVE or BACKWARD. The SAVEs and RESTOREs then say what
    /// comes between them.
    pub fn is_one_by_one(&self) -> bool {
        self.is_one_by_one
    }
}
