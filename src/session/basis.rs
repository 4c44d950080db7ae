//! What a session plans by, and its changes.

use super::Session;
use crate::choice::{
    are_left, choose_among, storage_options, take, Choice, Coded, Free, Job, Promise, State,
    Storage, Target, TierSpec, Why,
};
use crate::config::{Backend, Config};
use crate::device::AppField;
use crate::error::{fail, Result};
use crate::layout::{aligned, Layout};
use std::sync::Arc;

/// What the plans of a session follow from. A change makes another one.
#[derive(Clone)]
pub(super) struct Basis {
    pub(super) job: Job,
    pub(super) layout: Layout,
    /// The device of the session; `None` until the configuration or the fields tell it.
    pub(super) target: Option<Target>,
    /// The ways to store snapshots, at least one; the schedule's decision takes one of them.
    pub(super) options: Vec<TierSpec>,
    /// The host memory that the budgets promise, if the library chose the budgets.
    pub(super) promise: Option<Arc<Promise>>,
}

impl Basis {
    /// Returns the basis of a session with these fields, for `steps` time steps.
    pub(super) fn of(
        config: Arc<Config>,
        layout: Layout,
        steps: u32,
        fields: &[AppField],
    ) -> Result<Self> {
        let target = Target::of(&config, fields)?;
        // Costs and the work space of a codec depend on the backend.
        let backend = target.map_or(config.device.backend, Target::backend);
        let job = Job { backend, ..Job::new(config, State::Fields(layout.clone())) };
        let (options, promise) = (Vec::new(), None);
        let basis = Basis { job: job.clone(), layout, target, options, promise };
        basis.with_budgets(job, steps)
    }

    /// Returns the basis of the same session with `job`.
    pub(super) fn with(&self, job: Job) -> Result<Self> {
        let options = storage_options(&job)?;
        if options.is_empty() {
            return fail!(Config, "no way to store snapshots");
        }
        let (layout, promise) = (self.layout.clone(), self.promise.clone());
        Ok(Basis { job, layout, target: self.target, options, promise })
    }

    /// As `with`, but with the budgets of the configuration. If this leaves them to the library, they are
    /// chosen from the free memory, for `steps` time steps.
    pub(super) fn with_budgets(&self, mut job: Job, steps: u32) -> Result<Self> {
        let given = &job.config.tiers;
        (job.device_budget, job.host_budget) = (given.device_budget, given.host_budget);
        job.disk_budget = given.disk_budget;
        if !are_left(&job) {
            return self.with(job);
        }
        let free = Free::now(&job, self.target, self.promise.as_deref());
        take(&mut job, steps, free.as_ref());
        let promise = Some(Arc::new(Promise::of(&job)));
        Ok(Basis { promise, ..self.with(job)? })
    }

    /// Returns the storage option of this number; a session with fewer options repeats its last one.
    pub(super) fn option(&self, number: usize) -> &TierSpec {
        &self.options[number.min(self.options.len() - 1)]
    }
}

impl Session {
    /// Decides the schedule anew by another basis of this session. The table at [`Why`] says when that is
    /// allowed. If this fails, nothing has changed.
    pub(super) fn decide_anew(&mut self, why: Why, basis: Basis) -> Result<()> {
        self.schedule.decide_anew(why, Some((self.number, basis.options.clone())))?;
        self.basis = basis;
        Ok(())
    }

    /// Plans anew for the backend that the fields of the first save have told, with the costs and
    /// the free memory of that backend. The plan stays as it is if other sessions follow the
    /// schedule, if the application was already told of the schedule, or if no plan fits.
    pub(super) fn settle_on(&mut self, target: Target) {
        self.basis.target = Some(target);
        let job = Job { backend: target.backend(), ..self.basis.job.clone() };
        let basis = self.basis.with_budgets(job, self.schedule.steps());
        if let Err(error) = basis.and_then(|basis| self.decide_anew(Why::Backend, basis)) {
            let were_left = self.basis.promise.is_some();
            log::log!(
                if were_left { log::Level::Warn } else { log::Level::Info },
                "the plan is the one that was made before the backend was known: {error}; for a plan by the backend's free memory and costs set \
                 backend = {}, or give the fields with their data at init",
                if target.backend() == Backend::Host { 1 } else { 2 }
            );
        }
    }

    /// Plans anew for another number of time steps, between two shots. Budgets that the library chose
    /// are chosen anew, too, after the memory of the old plan was freed.
    pub(super) fn plan_for(&mut self, steps: i64) -> Result<()> {
        let job = self.basis.job.clone();
        let count = job.config.check_steps(steps)?;
        if self.basis.promise.is_some() {
            self.engine = None;
        }
        let basis = self.basis.with_budgets(job, count)?;
        self.decide_anew(Why::OtherSteps(steps), basis)
    }

    /// Plans the tiers anew with `largest`, the bytes of the largest compressed snapshot of the
    /// shot before, if the number of slots that the device budget holds changes. The schedule
    /// stays. With mixed storage the slots for raw snapshots stay, too, and with them which snapshots
    /// are compressed: the restored bits of a shot do not depend on the shots before it.
    pub(super) fn replan(&mut self, largest: u64) -> Result<()> {
        let Some(engine) = &mut self.engine else { return Ok(()) };
        let job = engine.spec.job_of(&self.basis.job);
        // The slots on disk have the size that the plan at the start of the session gave them. A
        // session without a slot on disk has opened no file, and its new plan must do without, too.
        // The record of the last state of a sequence is by far the largest.
        let in_sequences = engine.spec.storage.codec.sequences;
        if largest == 0 || job.device_budget == 0 || engine.tiers.on_disk() > 0 || in_sequences {
            return Ok(());
        }
        let job = Job {
            disk_budget: 0,
            coded_bytes: Some(aligned(largest)),
            beside_cache: Some(engine.spec.beside_cache),
            ..job
        };
        let storage = Storage { coded: Coded::All, ..engine.spec.storage.clone() };
        let tiers = TierSpec::of(&storage, &job)?;
        let tiers = match engine.spec.raw_slots {
            None => Some(tiers),
            // A cache that had to shrink has no room for the raw states of the whole budget.
            Some(_) if engine.spec.packed_bytes.is_none() => None,
            Some(raw) => tiers.with_raw(raw),
        };
        let tiers = tiers.map(|tiers| TierSpec { host: engine.spec.host, ..tiers });
        if let Some(tiers) = tiers.filter(|tiers| tiers.cache != engine.spec.cache) {
            if let Ok(plan) = self.schedule.plan(&tiers) {
                let (device, host) = (plan.device_slots, plan.host_slots);
                log::info!("{device} device and {host} host slots of {largest} bytes");
                engine.tiers.fit(plan)?;
                (engine.spec, engine.planned_by) = (tiers, largest);
            }
        }
        Ok(())
    }
}

/// The schedule, the plan and the tiers that a session on its own schedule would have.
pub struct Estimate {
    /// The schedule and its plan.
    pub choice: Choice,
    /// How snapshots are stored, and the tiers.
    pub tiers: TierSpec,
    /// `device_budget` and `host_budget` of the plan, in bytes; 0: no budget.
    pub budgets: (u64, u64),
}

/// Returns what a session of this configuration would decide for `steps` time steps and states of
/// these fields. Allocates no snapshot memory.
pub fn estimate(config: Config, steps: i64, fields: &[AppField]) -> Result<Estimate> {
    let (layout, steps) =
        (Layout::new(fields.iter().map(|f| f.field).collect())?, config.check_steps(steps)?);
    let mut basis = Basis::of(config.into(), layout, steps, fields)?;
    // An estimate takes no memory.
    basis.promise = None;
    let choice = choose_among(&basis.job.config, steps, &[basis.options.clone()])?;
    let tiers = basis.option(choice.alternative).clone();
    let budgets = (basis.job.device_budget, basis.job.host_budget);
    Ok(Estimate { choice, tiers, budgets })
}
