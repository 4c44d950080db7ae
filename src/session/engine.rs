//! The engine: a plan, and the tiers of the device on which the plan is played.

use crate::choice::TierSpec;
use crate::device::{AppMemory, Device, Stream, Times, Traffic};
use crate::error::{Code, Error, Result};
use crate::plan::{Index, Kept, Plan};
use crate::schedule::Kind;
use crate::tier::Tiers;
use crate::timeline::nvtx;
use crate::tune::Tuner;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::Arc;

/// A plan of a whole shot, and its index; an engine plays the rest of it.
pub(super) struct Whole {
    pub(super) plan: Arc<Plan>,
    /// The number of a step of the whole plan minus its number in the rest.
    pub(super) ahead: i64,
    /// The index of the rest, if the rest was planned anew, for other memory.
    pub(super) anew: Option<Box<Index>>,
    /// The records with which the rest begins, if it is a rest of `plan`.
    pub(super) kept: Vec<Kept>,
}

/// A plan, the tiers that it is played on, and how far it has been played.
pub(super) struct Engine {
    /// Sequence number of the shared schedule's decision that the plan belongs to.
    pub(super) decision: u64,
    /// The storage option, fitted to the memory that there is.
    pub(super) spec: TierSpec,
    /// Bytes of a snapshot by which the plan was made after the decision; 0: by the decision itself.
    pub(super) planned_by: u64,
    pub(super) tiers: Tiers,
    /// The plan whose rest the tiers play, while a shot goes on from a restart file.
    pub(super) whole: Option<Whole>,
    /// The SAVE that `save_begin` has begun: its step of the plan, and the memory that the
    /// application was given for its state.
    pub(super) begun: Option<(usize, Vec<AppMemory>)>,
    /// The RESTORE whose memory the application holds since `retrieve_acquire`: its step of the
    /// plan, and its state `ts`.
    pub(super) acquired: Option<(usize, i64)>,
    /// Seconds of the last call.
    pub(super) seconds: f64,
    /// The error after which this shot cannot go on.
    pub(super) broken: Option<Error>,
    /// What the device had counted before this shot: the statistics are differences from it.
    pub(super) before: Counted,
    /// Measures this shot, if autotuning is asked for.
    pub(super) tuner: Option<Box<Tuner>>,
}

/// What a device has counted since it was opened.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) traffic: Traffic,
    pub(super) times: Times,
}

impl Counted {
    pub(super) fn by(device: &mut dyn Device) -> Result<Self> {
        Ok(Counted { times: device.times()?, traffic: device.traffic() })
    }
}

impl Engine {
    /// An engine that has played nothing of a plan of decision number `decision`.
    pub(super) fn new(decision: u64, spec: TierSpec, tiers: Tiers) -> Self {
        Engine {
            decision,
            spec,
            planned_by: 0,
            tiers,
            whole: None,
            begun: None,
            acquired: None,
            seconds: 0.0,
            broken: None,
            before: Counted::default(),
            tuner: None,
        }
    }

    /// The plan of the whole shot.
    pub(super) fn whole_plan(&self) -> &Arc<Plan> {
        self.whole.as_ref().map_or(self.tiers.plan(), |whole| &whole.plan)
    }

    /// Number of steps of the whole plan that are played, if the current action has the number `step`
    /// and is served.
    pub(super) fn done(&self, step: usize, kind: Kind) -> usize {
        let played = step.wrapping_add(usize::from(matches!(kind, Kind::Save | Kind::Restore)));
        let ahead = self.whole.as_ref().map_or(0, |whole| whole.ahead);
        (played as i64 + ahead).max(0) as usize
    }

    /// Prepares the tiers and the counters for a shot. If this fails, the shot so far is broken,
    /// since its snapshots are gone.
    pub(super) fn reset(&mut self) -> Result<()> {
        if let Err(error) = self.tiers.clear() {
            self.broken = Some(error.clone());
            return Err(error);
        }
        self.before = Counted::by(self.tiers.device())?;
        (self.begun, self.acquired, self.broken) = (None, None, None);
        Ok(())
    }

    /// Runs `body`, which moves snapshots for a restart file. The statistics of the shot leave out its
    /// transfers to and from disk.
    pub(super) fn uncounted<R>(&mut self, body: impl FnOnce(&mut Self) -> R) -> R {
        let Traffic { disk_bytes, disk_reads, disk_writes, .. } = self.tiers.device().traffic();
        let result = body(self);
        let after = self.tiers.device().traffic();
        self.before.traffic.disk_bytes += after.disk_bytes - disk_bytes;
        self.before.traffic.disk_reads += after.disk_reads - disk_reads;
        self.before.traffic.disk_writes += after.disk_writes - disk_writes;
        result
    }

    /// Blocks the calling thread until all calls have ended on the device, and fails if one of them
    /// restored a state that differs from the saved one. After such an error the shot is broken.
    pub(super) fn finish(&mut self) -> Result<()> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let result = self.tiers.finish();
        self.broken = result.as_ref().err().filter(|error| error.code != Code::Device).cloned();
        result
    }

    /// As `finish`, but only if an error of a restore can become known after the restore has returned.
    pub(super) fn check(&mut self) -> Result<()> {
        match self.tiers.is_checked_later() {
            true => self.finish(),
            false => Ok(()),
        }
    }

    /// Runs `body`, which is a call of the application, on the application's `stream`. `name` is
    /// the call's name in a timeline. A call that fails half-way may leave a slot with part of a
    /// snapshot, so that from then on every call fails until a new shot begins: no wrong state is
    /// restored.
    pub(super) fn call<R>(
        &mut self,
        stream: Stream,
        name: &'static str,
        body: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<R> {
        if let Some(error) = &self.broken {
            let why = "an earlier call failed, call setup for a new shot or finalize";
            return Err(error.clone().within(why));
        }
        let _range = nvtx::range(name);
        self.tiers.device().enter(stream, name)?;
        if let Some(tuner) = &mut self.tuner {
            tuner.called();
        }
        // `leave` restores the caller's CUDA context even if `body` panics.
        let result = catch_unwind(AssertUnwindSafe(|| body(self)));
        let left = self.tiers.device().leave();
        let result = result.unwrap_or_else(|panic| resume_unwind(panic)).and_then(|value| {
            self.seconds = left?;
            Ok(value)
        });
        self.broken = result.as_ref().err().cloned();
        result.and_then(|value| self.listen().map(|()| value))
    }
}
