//! Plans of a session that replace its first one: for a backend that was not known before, for
//! another number of time steps, for snapshots of another size.

use super::open::budget;
use super::Session;
use crate::choice::{storage_options, Coded, Job, Promise, Storage, Target, TierSpec, Why};
use crate::config::Backend;
use crate::error::Result;
use crate::layout::aligned;

impl Session {
    /// Decides the schedule anew for another job of this session. If this fails, nothing has changed.
    pub(super) fn decide_anew(&mut self, why: Why, job: Job) -> Result<()> {
        let options = storage_options(&job)?;
        let tiers = options.iter().map(|option| option.tiers.clone()).collect();
        self.schedule.decide_anew(why, self.number, tiers)?;
        (self.job, self.options, self.decision) = (job, options, None);
        Ok(())
    }

    /// Plans anew for the backend that the fields of the first save have told, with the costs and
    /// the free memory of that backend. The plan stays as it is if other sessions follow the
    /// schedule, if the application was already told of the schedule, or if no plan fits.
    pub(super) fn settle_on(&mut self, target: Target) {
        let mut job = Job { backend: target.backend(), ..self.job.with_whole_disk() };
        let were_left = self.promise.take().is_some();
        if were_left {
            (job.device_budget, job.host_budget) = (0, 0);
            budget(&mut job, &self.layout, self.schedule.steps(), Some(target));
        }
        if let Err(error) = self.decide_anew(Why::Backend, job) {
            log::log!(
                if were_left { log::Level::Warn } else { log::Level::Info },
                "the plan is the one that was made before the backend was known: {error}; for a plan by the backend's free memory and costs set \
                 backend = {}, or give the fields with their data at init",
                if target.backend() == Backend::Host { 1 } else { 2 }
            );
        }
        self.promise = were_left.then(|| Promise::of(&self.job));
    }

    /// Plans anew for another number of time steps, between two shots. Budgets that the library chose
    /// are chosen anew, too, after the memory of the old plan was freed.
    pub(super) fn plan_for(&mut self, steps: i64) -> Result<()> {
        let mut job = self.job.with_whole_disk();
        let were_left = self.promise.is_some();
        if were_left {
            let steps = job.config.check_steps(steps)?;
            (self.engine, self.promise) = (None, None);
            (job.device_budget, job.host_budget) = (0, 0);
            budget(&mut job, &self.layout, steps, self.target);
            self.promise = Some(Promise::of(&self.job));
        }
        self.decide_anew(Why::OtherSteps(steps), job)?;
        if were_left {
            self.promise = Some(Promise::of(&self.job));
        }
        Ok(())
    }

    /// Plans the tiers anew with `largest`, the bytes of the largest compressed snapshot of the
    /// shot before, if the number of slots that the device budget holds changes. The schedule
    /// stays. With mixed storage the slots for raw snapshots stay, too, and with them which snapshots
    /// are compressed: the restored bits of a shot do not depend on the shots before it.
    pub(super) fn replan(&mut self, largest: u64) -> Result<()> {
        let Some(engine) = &mut self.engine else { return Ok(()) };
        // The slots on disk have the size that the plan at the start of the session gave them. A
        // session without a slot on disk has opened no file, and its new plan must do without, too.
        if largest == 0 || self.job.device_budget == 0 || engine.tiers.on_disk() > 0 {
            return Ok(());
        }
        let job = Job {
            disk_budget: 0,
            coded_bytes: Some(aligned(largest)),
            beside_cache: Some(self.option.tiers.beside_cache),
            ..self.job.clone()
        };
        let storage = Storage { coded: Coded::All, ..self.option.storage.clone() };
        let tiers = TierSpec::of(&storage, &job)?;
        let tiers = match self.option.tiers.raw_slots {
            // A cache that had to shrink has no room for the raw states of the whole budget.
            Some(_) if self.option.tiers.packed_bytes.is_none() => return Ok(()),
            Some(raw) => match tiers.with_raw(raw) {
                Some(mixed) => mixed,
                None => return Ok(()),
            },
            None => tiers,
        };
        let tiers = TierSpec { host: self.option.tiers.host, ..tiers };
        if tiers.cache != self.option.tiers.cache {
            if let Ok(plan) = self.schedule.plan(&tiers) {
                log::info!(
                    "{} device and {} host slots of {largest} bytes",
                    plan.device_slots,
                    plan.host_slots
                );
                engine.tiers.fit(plan)?;
                (self.option.tiers, self.planned_by) = (tiers, largest);
            }
        }
        Ok(())
    }
}
