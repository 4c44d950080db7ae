//! From a configuration to memory: a session joins its schedule, takes over the schedule's
//! decision, and opens its device.

use super::engine::Engine;
use super::{tuning, Session};
use crate::choice::{
    self, spare_beside, storage_options, tiers_of, Free, Job, Promise, SharedSchedule, Target,
    TierSpec,
};
use crate::codec::{Method, Settings, SnapshotCodec};
use crate::config::{Backend, Config};
use crate::device::{cuda, AppField, Device, DeviceMemory, DiskSpace, Memory, Traffic};
use crate::error::{fail, text, Code, Error, Result};
use crate::layout::{aligned, Layout, ALIGNMENT};
use crate::plan::{spare_bytes, Plan};
use crate::process::Process;
use crate::stats::Stats;
use crate::stop;
use crate::tier::{staging_bytes, FieldChecksums, SnapshotCoder, Tiers};
use std::sync::Arc;
use std::time::Instant;

impl Session {
    pub(super) fn join(
        schedule: Arc<SharedSchedule>,
        config: Arc<Config>,
        fields: &[AppField],
    ) -> Result<Self> {
        let layout = Layout::new(fields.iter().map(|f| f.field).collect())?;
        check_with(&schedule, &config)?;
        if config.backend == Backend::Cuda {
            cuda::require_device()?;
        }
        if config.stop_budget > 0.0 {
            stop::set_budget(config.stop_budget);
        }
        let (mut job, target) = job_of(config, fields)?;
        let are_left = choice::are_left(&job);
        budget(&mut job, &layout, schedule.steps(), target);
        let promise = are_left.then(|| Promise::of(&job));
        let options = storage_options(&job, &layout)?;
        let Some(option) = options.first().cloned() else {
            return fail!(Config, "no way to store snapshots");
        };
        let codec = codec_of(&option.compression, &layout)?;
        if job.device_budget > 0 && option.tiers.cache == Some(0) {
            log::warn!(
                "device_budget = {} is less than a snapshot of {} bytes: no device cache",
                job.device_budget,
                option.tiers.slot_bytes
            );
        }
        target.map_or(Ok(()), |target| target.check(fields))?;
        let (number, sweep) =
            schedule.attach(options.iter().map(|option| option.tiers.clone()).collect())?;
        Ok(Session {
            schedule,
            number,
            job,
            promise,
            layout,
            options,
            option,
            decision: None,
            codec,
            target,
            engine: None,
            sweep,
            tick: None,
            served: true,
            stopped: None,
            since: Instant::now(),
            stats: Stats::default(),
            carried: Stats::default(),
            largest_before: 0,
            planned_by: 0,
            persist: None,
            rest: None,
            indexed: None,
            shots: 0,
            ended: false,
            tuning: false,
            measured: None,
            timeline: None,
            range: None,
            disjoint: Vec::new(),
            process: Process::current(),
        })
    }

    /// Takes over the schedule's decision: which storage option this session uses.
    pub(super) fn settle(&mut self) -> Result<()> {
        let (alternative, decision) = self.schedule.alternative()?;
        if self.decision == Some(decision) {
            return Ok(());
        }
        let Some(option) = self.options.get(alternative).or(self.options.last()) else {
            return fail!(Config, "no way to store snapshots");
        };
        if self.option.compression != option.compression {
            self.codec = None;
        }
        (self.option, self.decision, self.planned_by) = (option.clone(), Some(decision), 0);
        Ok(())
    }

    /// Determines the device from `fields` if it is not known yet, and refuses fields in memory
    /// that this device cannot copy.
    pub(super) fn place(&mut self, fields: &[AppField]) -> Result<()> {
        let target = match self.target {
            Some(target) => Some(target),
            None => Target::of(&self.job.config, fields)?,
        };
        target.map_or(Ok(()), |target| target.check(fields))?;
        if let (None, Some(target)) = (self.target, target) {
            self.settle_on(target);
        }
        self.target = target;
        Ok(())
    }

    /// Opens the device and allocates the tiers, if the device is known and this was not done yet.
    pub(super) fn open(&mut self) -> Result<()> {
        if self.tick.is_none() {
            self.leave_old_plan()?;
        }
        self.follow_end()?;
        let (None, Some(target)) = (&self.engine, self.target) else { return Ok(()) };
        if let Some(profile) = &self.job.profile {
            tuning::check_backend(profile, Some(target))?;
        }
        self.settle()?;
        if self.codec.is_none() {
            // The codec is gone with tiers that could not be made, or a new decision chose another
            // one.
            self.codec = codec_of(&self.option.compression, &self.layout)?;
        }
        let mut device = target.open(&self.job.config)?;
        let mut coder = match (self.codec.take(), target) {
            (None, _) => None,
            (Some(codec), Target::Host) => Some(SnapshotCoder::on_host(codec)?),
            (Some(_), Target::Cuda(_)) => {
                Some(SnapshotCoder::on_gpu(&mut *device, &self.option.compression, &self.layout)?)
            }
        };
        let mut checksums = FieldChecksums::Host;
        let reserved = match (target, &self.option.levels) {
            (Target::Cuda(_), Some(_)) => FieldChecksums::on_gpu(&mut *device),
            _ => Ok(FieldChecksums::Host),
        };
        let reserved = reserved.and_then(|made| {
            checksums = made;
            self.reserve(&mut *device, coder.as_mut(), &mut checksums)
        });
        let reserved = reserved.and_then(|reserved| {
            let disk = self.reserve_disk(&reserved.0)?;
            Ok((reserved, disk))
        });
        let ((plan, cache, pool), space) = match reserved {
            Ok((reserved, Room::Enough(space))) => (reserved, space),
            failed => {
                coder.iter_mut().for_each(|coder| coder.close(&mut *device));
                checksums.close(&mut *device);
                failed?;
                drop(device);
                return self.open();
            }
        };
        log::info!(
            "{} device and {} host slots of {} bytes, {} of them on disk",
            plan.device_slots,
            plan.host_slots,
            self.option.tiers.slot_bytes,
            space.as_ref().map_or(0, DiskSpace::slots)
        );
        let mut tiers = match self.option.levels.clone() {
            Some(levels) => {
                Tiers::sharing_levels(device, self.layout.clone(), &plan, levels, checksums)?
            }
            None => Tiers::new(device, self.layout.clone(), &plan, coder, cache, pool)?,
        };
        if let Some(space) = space {
            let slots = space.slots();
            tiers.device().mount(space)?;
            tiers.use_disk(slots, self.option.tiers.slot_bytes, pool)?;
        }
        self.engine = Some(Engine {
            decision: self.decision.unwrap_or(0),
            plan,
            tiers,
            whole: None,
            begun: None,
            acquired: None,
            broken: None,
            traffic_before: Traffic::default(),
            stalled_before: 0.0,
            tuner: None,
            coded_before: (0.0, 0.0),
        });
        self.begin_tuning();
        self.open_timeline(target);
        Ok(())
    }

    /// Reserves the disk space that `plan` needs. If there is less space, plans anew with as much disk
    /// as there is.
    fn reserve_disk(&mut self, plan: &Plan) -> Result<Room> {
        let (slots, slot_bytes) = (self.option.tiers.on_disk(plan), self.option.tiers.slot_bytes);
        if slots == 0 {
            return Ok(Room::Enough(None));
        }
        let space = DiskSpace::reserve(&self.job.config.disk_folders(), slots, slot_bytes)?;
        if space.slots() == slots {
            for folder in space.in_memory() {
                log::warn!(
                    "disk_path: {} lies in main memory (tmpfs), so that its snapshots take memory beside host_budget: name a folder on a disk",
                    folder.display()
                );
            }
            return Ok(Room::Enough(Some(space)));
        }
        let bytes_on_disk = self.option.tiers.bytes_on_disk();
        let bytes = |slots: u32| u64::from(slots).saturating_mul(bytes_on_disk);
        let (needed, room) = (bytes(slots), bytes(space.slots()));
        let folders = space.folders();
        drop(space);
        let less = format!(
            "{folders} has room for {room} bytes of snapshots and the plan needs {needed}: free space there, or name other folders in disk_path"
        );
        if self.rest.is_some() {
            return fail!(
                Budget,
                "{less}; the shot goes on from restart files, which another plan does not fit"
            );
        }
        self.plan_with_disk(room).map_err(|e| match e.code {
            Code::State => Error::new(
                Code::Budget,
                text(format_args!(
                    "{less}; no smaller plan can be made any more, because {}",
                    e.message
                )),
            ),
            _ => e.within(format_args!("{less}, or set disk_budget to what there is")),
        })?;
        log::warn!(
            "disk_budget = {needed} bytes were planned, and {folders} has room for {room}: the plan was made anew for these"
        );
        Ok(Room::Less)
    }

    /// Plans anew with `disk_budget` bytes of disk.
    fn plan_with_disk(&mut self, disk_budget: u64) -> Result<()> {
        let job = Job { disk_budget, ..self.job.clone() };
        let options = storage_options(&job, &self.layout)?;
        let tiers = options.iter().map(|option| option.tiers.clone()).collect();
        self.schedule.replan_untold(self.number, tiers)?;
        (self.job, self.options, self.decision) = (job, options, None);
        Ok(())
    }

    /// Takes the whole plan of this shot once its forward phase has ended, which another session of
    /// the schedule may have told.
    pub(super) fn follow_end(&mut self) -> Result<()> {
        let Some(engine) = self.engine.as_mut().filter(|engine| engine.plan.is_open()) else {
            return Ok(());
        };
        if self.schedule.has_ended()? {
            engine.plan = self.schedule.plan(&self.option.tiers)?;
        }
        Ok(())
    }

    /// Frees the memory of a plan if the schedule was decided anew since.
    pub(super) fn leave_old_plan(&mut self) -> Result<()> {
        if self.engine.is_some() {
            let decision = self.schedule.decisions()?;
            self.engine = self.engine.take().filter(|engine| engine.decision == decision);
        }
        Ok(())
    }

    /// Reserves device and host memory for the plan; returns the plan and the bytes of its device
    /// cache and host pool, behind which the staging buffers of the disk lie. If the device has too
    /// little free memory for both the session and `device_reserve`, the cache shrinks by a quarter
    /// and this tries again.
    pub(super) fn reserve(
        &mut self,
        device: &mut dyn Device,
        coder: Option<&mut SnapshotCoder>,
        checksums: &mut FieldChecksums,
    ) -> Result<(Arc<Plan>, u64, u64)> {
        let spare = spare_beside(&self.job, &self.option.compression, self.layout.slot_bytes);
        let most = coder.is_some().then(|| SnapshotCodec::max_bytes(&self.layout));
        // The staging buffers and the work space of the codec count in the budget, too.
        let (buffers, own) =
            coder.as_ref().map_or((0, 0), |coder| (coder.device_bytes(), coder.own_bytes()));
        let beside_slots = buffers.saturating_add(own).saturating_add(checksums.device_bytes());
        let beside_cache = spare.saturating_add(beside_slots);
        if (1..beside_cache).contains(&self.job.device_budget) && buffers > 0 {
            return fail!(
                Budget,
                "device_budget = {}: compression on this device works in {beside_cache} bytes",
                self.job.device_budget
            );
        }
        if self.option.levels.is_some() {
            self.option.tiers.beside_cache = beside_cache;
        } else if self.option.tiers.beside_cache != beside_cache {
            // The options were made before the backend was known, for other bytes beside the cache.
            let tiers = tiers_of(
                &self.job,
                &self.option.compression,
                &self.layout,
                self.option.tiers.slot_bytes,
                beside_cache,
            );
            self.option.tiers = match self.option.tiers.raw_slots {
                Some(_) => mixed_of(&tiers)?,
                None => TierSpec { cache: self.option.tiers.cache, ..tiers },
            };
        }
        loop {
            let plan = match &self.rest {
                Some(rest) => rest.clone(),
                None => self.schedule.plan(&self.option.tiers)?,
            };
            let times = |slots: u32, bytes: u64| (slots as u64).saturating_mul(bytes);
            let cache = self.option.tiers.cache_bytes(&plan);
            let (state, zero_copy) = (self.layout.slot_bytes, self.job.config.zero_copy);
            let spare = spare_bytes(zero_copy, most.is_some(), plan.cache, state);
            let beside = spare.saturating_add(beside_slots - own);
            let (needed, can_shrink) =
                (cache.saturating_add(beside), cache > 0 && self.rest.is_none());
            let leaves_enough = match can_shrink {
                true => leave_reserve(&self.job.config, &*device, needed),
                false => Ok(()),
            };
            match leaves_enough.and_then(|()| device.reserve(Memory::Device, needed)) {
                Err(error) if error.code == Code::Memory && can_shrink => {
                    let fewer = self.option.tiers.with_fewer_slots(&plan);
                    log::warn!(
                        "{error}: the device cache shrinks from {} to {} slots",
                        plan.device_slots,
                        fewer.cache.unwrap_or(0)
                    );
                    self.option.tiers = fewer;
                }
                result => {
                    result?;
                    let staged = match self.option.tiers.on_disk(&plan) {
                        0 => 0,
                        _ => staging_bytes(self.option.tiers.slot_bytes),
                    };
                    let snapshots = plan.host_slots.saturating_add(plan.device_slots);
                    // On a GPU the pool has twice the addresses that snapshots can take, so that there
                    // always is a free range for one more (`Arena`); an address takes no memory.
                    let copies = if matches!(self.target, Some(Target::Cuda(_))) { 2 } else { 1 };
                    let pool = match (most, self.job.host_budget) {
                        (None, _) => self.option.tiers.bytes_of(&plan).1.saturating_sub(staged),
                        (Some(most), 0) => times(snapshots, aligned(most)).saturating_mul(copies),
                        (Some(_), budget) => budget.saturating_sub(staged) / ALIGNMENT * ALIGNMENT,
                    };
                    device.reserve(Memory::Host, pool.saturating_add(staged))?;
                    // Without a budget, a pool of compressed snapshots grows as the snapshots need it.
                    let grows =
                        most.is_some() && (self.job.host_budget == 0 || self.promise.is_some());
                    device.lock(match (grows, self.job.config.compression_factor > 1.0) {
                        (false, _) => pool.saturating_add(staged),
                        (true, true) => times(plan.host_slots, self.option.tiers.slot_bytes),
                        (true, false) => u64::from(plan.host_slots.min(1)),
                    })?;
                    if most.is_none() {
                        // Raw snapshots use every byte of their slots. Compressed snapshots may
                        // never use most of the cache, so its pages are not touched ahead.
                        device.touch_ahead();
                    }
                    coder.into_iter().for_each(|coder| coder.settle_at(cache + spare));
                    checksums.settle_at(device, cache + spare + buffers)?;
                    return Ok((plan, cache, pool));
                }
            }
        }
    }
}

/// Fails if a session that takes `needed` bytes of the device's memory leaves less than
/// `device_reserve` to the application.
fn leave_reserve(config: &Config, device: &dyn Device, needed: u64) -> Result<()> {
    let Some(DeviceMemory { free, total }) = device.memory()? else { return Ok(()) };
    let reserve = config.reserve_of(total);
    if needed.saturating_add(reserve) > free {
        return fail!(
            Memory,
            "{needed} bytes of device memory are planned and {free} are free, of which {reserve} are left to the application: lower device_budget \
             or cache_capacity, or set device_reserve to the bytes that the application takes later"
        );
    }
    Ok(())
}

/// The disk space that there is for a plan.
enum Room {
    /// The space that the plan needs; `None` if the plan needs none.
    Enough(Option<DiskSpace>),
    /// Less. The session has a new plan.
    Less,
}

/// Returns these tiers of compressed snapshots for mixed storage.
fn mixed_of(tiers: &TierSpec) -> Result<TierSpec> {
    match tiers.mixed() {
        Some(mixed) => Ok(mixed),
        None => fail!(
            Budget,
            "mixed storage: the device cache has no room any more for raw states of {} bytes beside compressed snapshots of {} bytes: raise \
             device_budget, or use mixed_storage = 2",
            tiers.costs.state_bytes,
            tiers.slot_bytes
        ),
    }
}

/// Fails if the session's own configuration does not go together with the schedule.
fn check_with(schedule: &SharedSchedule, config: &Config) -> Result<()> {
    let every = schedule.macro_steps().every();
    if config.adjoint_every > 1 && config.adjoint_every != every {
        return fail!(
            Config,
            "adjoint_every = {}: the schedule of the session has adjoint_every = {every}; give the session the same number, or 0",
            config.adjoint_every
        );
    }
    let of_schedule =
        Config { adjoint_every: every, algorithm: schedule.config().algorithm, ..config.clone() };
    of_schedule.modes().check()
}

/// Returns the job of a session with these fields, and their device if it is known. Costs and the
/// work space of a codec depend on its backend.
pub(super) fn job_of(config: Arc<Config>, fields: &[AppField]) -> Result<(Job, Option<Target>)> {
    let target = Target::of(&config, fields)?;
    let backend = target.map_or(config.backend, Target::backend);
    Ok((Job { backend, ..Job::new(config) }, target))
}

/// Sets the budgets from the free memory, if the configuration leaves them to the library.
pub(super) fn budget(job: &mut Job, layout: &Layout, steps: u32, target: Option<Target>) {
    if choice::are_left(job) {
        choice::take(job, layout, steps, Free::now(job, target).as_ref());
    }
}

/// Returns the codec for snapshots of this layout; `None`: snapshots are raw.
fn codec_of(compression: &Settings, layout: &Layout) -> Result<Option<SnapshotCodec>> {
    match compression.method {
        Method::None => Ok(None),
        _ => SnapshotCodec::new(compression.clone(), layout).map(Some),
    }
}
