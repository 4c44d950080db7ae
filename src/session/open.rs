//! From a configuration to memory: a session joins its schedule, and makes its engine.

use super::basis::Basis;
use super::engine::Engine;
use super::memory::{LessDisk, Memory};
use super::shot::Shot;
use super::timeline::Watch;
use super::{tuning, Session};
use crate::choice::{Coded, Job, SharedSchedule, Target, TierSpec, Why};
use crate::codec::SnapshotCodec;
use crate::config::{Backend, Config};
use crate::device::{cuda, AppField};
use crate::error::{fail, Code, Result};
use crate::layout::Layout;
use crate::plan::Plan;
use crate::process::Process;
use crate::stop;
use std::sync::Arc;

impl Session {
    pub(super) fn join(
        schedule: Arc<SharedSchedule>,
        config: Arc<Config>,
        fields: &[AppField],
    ) -> Result<Self> {
        let layout = Layout::new(fields.iter().map(|f| f.field).collect())?;
        check_with(&schedule, &config)?;
        if config.device.backend == Backend::Cuda {
            config.check_on_cuda()?;
            cuda::require_device()?;
        }
        if config.restart.stop_budget > 0.0 {
            stop::set_budget(config.restart.stop_budget);
        }
        let basis = Basis::of(config, layout, schedule.steps(), fields)?;
        let (job, option) = (&basis.job, basis.option(0));
        if option.storage.coded != Coded::None {
            // A codec that cannot store these fields is refused at once.
            SnapshotCodec::new(option.storage.codec.clone(), &basis.layout)?;
        }
        if job.device_budget > 0 && option.cache == Some(0) {
            log::warn!(
                "device_budget = {} is less than a snapshot of {} bytes: no device cache",
                job.device_budget,
                option.slot_bytes
            );
        }
        basis.target.map_or(Ok(()), |target| target.check(fields))?;
        let (number, sweep) = schedule.attach(basis.options.clone())?;
        Ok(Session {
            schedule,
            number,
            basis,
            engine: None,
            shot: Shot { sweep, ..Shot::default() },
            watch: Watch::default(),
            persist: None,
            names: Vec::new(),
            process: Process::current(),
        })
    }

    /// Determines the device from `fields` if it is not known yet, and refuses fields in memory
    /// that this device cannot copy.
    pub(super) fn place(&mut self, fields: &[AppField]) -> Result<()> {
        if let Some(target) = self.basis.target {
            return target.check(fields);
        }
        if let Some(target) = Target::of(&self.basis.job.config, fields)? {
            target.check(fields)?;
            self.settle_on(target);
        }
        Ok(())
    }

    /// Opens the device that copies the memory of `fields` to files and back. A session on a GPU copies
    /// from memory of either kind.
    pub(super) fn reach(&mut self, fields: &[AppField]) -> Result<()> {
        if !matches!(self.basis.target, Some(Target::Cuda(_))) {
            self.place(fields)?;
        }
        self.open()
    }

    /// Makes the engine if there is none. Before the first action of a shot, leaves an engine whose plan
    /// is an old one.
    pub(super) fn open(&mut self) -> Result<()> {
        if self.shot.tick.is_none() {
            self.leave_old_plan();
        }
        match &self.engine {
            Some(_) => Ok(()),
            None => self.make_engine(None),
        }
    }

    /// Frees the memory of a plan if the schedule was decided anew since.
    pub(super) fn leave_old_plan(&mut self) {
        if self.engine_of_decision().is_none() {
            self.engine = None;
        }
    }

    /// Makes the engine, if the device is known, for the plan of the schedule's decision. `rest` is the rest
    /// of a shot that was planned anew, and the storage option for it. This is the only maker of engines.
    pub(super) fn make_engine(&mut self, rest: Option<(&Arc<Plan>, &TierSpec)>) -> Result<()> {
        let Some(target) = self.basis.target else { return Ok(()) };
        while self.engine.is_none() {
            if let Some(profile) = &self.basis.job.profile {
                tuning::check_backend(profile, Some(target))?;
            }
            self.schedule.decide()?;
            let (number, decision) = self.schedule.decision();
            let spec = rest.map_or(self.basis.option(number), |(_, spec)| spec).clone();
            let mut memory = Memory::open(&self.basis, target, spec)?;
            match memory.reserve(&self.schedule, rest.map(|(plan, _)| plan)) {
                Ok(Ok(reserved)) => {
                    let (spec, tiers) = memory.into_tiers(reserved)?;
                    self.engine = Some(Engine::new(decision, spec, tiers));
                    self.begin_tuning();
                    self.open_timeline(target);
                }
                short => {
                    memory.close();
                    if let Err(less) = short? {
                        self.plan_for_disk(less, rest.is_some())?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Plans anew for the disk that there is; fails if the plan is the rest of a shot.
    fn plan_for_disk(&mut self, less: LessDisk, is_rest: bool) -> Result<()> {
        let LessDisk { folders, needed, room } = less;
        let less = format!(
            "{folders} has room for {room} bytes of snapshots and the plan needs {needed}: free space there, or name other folders in disk_path"
        );
        if is_rest {
            return fail!(
                Budget,
                "{less}; the shot goes on from restart files, which another plan does not fit"
            );
        }
        let job = Job { disk_budget: room, ..self.basis.job.clone() };
        let basis = self.basis.with(job);
        if let Err(error) = basis.and_then(|basis| self.decide_anew(Why::LessDisk, basis)) {
            if error.code == Code::State {
                let why = error;
                return fail!(
                    Budget,
                    "{less}; no smaller plan can be made any more, because {why}"
                );
            }
            return Err(error.within(format_args!("{less}, or set disk_budget to what there is")));
        }
        log::warn!(
            "disk_budget = {needed} bytes were planned, and {folders} has room for {room}: the plan was made anew for these"
        );
        Ok(())
    }
}

/// Fails if the session's own configuration does not go together with the schedule.
fn check_with(schedule: &SharedSchedule, config: &Config) -> Result<()> {
    let every = schedule.macro_steps().every();
    if config.schedule.adjoint_every > 1 && config.schedule.adjoint_every != every {
        return fail!(
            Config,
            "adjoint_every = {}: the schedule of the session has adjoint_every = {every}; give the session the same number, or 0",
            config.schedule.adjoint_every
        );
    }
    if config.schedule.sweeps > 1 && config.schedule.sweeps != schedule.sweeps() {
        return fail!(
            Config,
            "sweeps = {}: the schedule of the session has sweeps = {}; give the session the same number, or 0",
            config.schedule.sweeps,
            schedule.sweeps()
        );
    }
    let (check, of_schedule) = (config.schedule.check, schedule.config().schedule.check);
    if check != of_schedule {
        return fail!(
            Config,
            "check = {check}: the schedule of the session has check = {of_schedule}; give the session the same number, or 0"
        );
    }
    let of_schedule = config.clone().with(|c| {
        c.schedule.adjoint_every = every;
        c.schedule.sweeps = schedule.sweeps();
        c.schedule.algorithm = schedule.config().schedule.algorithm;
    });
    of_schedule.modes().check()
}
