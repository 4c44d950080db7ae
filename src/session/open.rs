//! From a configuration to memory: a session joins its schedule, takes over the schedule's
//! decision, and opens its device.

use super::engine::Engine;
use super::{tuning, Session};
use crate::choice::{
    self, storage_options, Coded, Cut, Free, Job, Promise, SharedSchedule, State, StorageOption,
    Target, TierSpec, Why,
};
use crate::codec::SnapshotCodec;
use crate::config::{Backend, Config};
use crate::device::{cuda, AppField, Device, DeviceMemory, DiskSpace, Memory};
use crate::error::{fail, text, Code, Error, Result};
use crate::layout::{aligned, Layout, ALIGNMENT};
use crate::plan::{spare_bytes, Plan};
use crate::process::Process;
use crate::stats::Stats;
use crate::stop;
use crate::tier::{staging_bytes, FieldChecksums, Storage, Tiers};
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
        if config.device.backend == Backend::Cuda {
            cuda::require_device()?;
        }
        if config.restart.stop_budget > 0.0 {
            stop::set_budget(config.restart.stop_budget);
        }
        let (mut job, target) = job_of(config, &layout, fields)?;
        let are_left = choice::are_left(&job);
        budget(&mut job, &layout, schedule.steps(), target);
        let promise = are_left.then(|| Promise::of(&job));
        let options = storage_options(&job)?;
        let Some(option) = options.first().cloned() else {
            return fail!(Config, "no way to store snapshots");
        };
        if option.storage.coded != Coded::None {
            // A codec that cannot store these fields is refused at once.
            SnapshotCodec::new(option.storage.codec.clone(), &layout)?;
        }
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
        self.open_for(None)
    }

    /// As `open`, for the plan `rest` if it is the rest of a shot that was planned anew.
    pub(super) fn open_for(&mut self, rest: Option<&Arc<Plan>>) -> Result<()> {
        let Some(target) = self.target else { return Ok(()) };
        while self.engine.is_none() {
            if let Some(profile) = &self.job.profile {
                tuning::check_backend(profile, Some(target))?;
            }
            self.settle()?;
            let mut device = target.open(&self.job.config)?;
            let mut storage = self.storage(&mut *device, target)?;
            let reserved = self.reserve(&mut *device, &mut storage, rest).and_then(|reserved| {
                Ok((self.reserve_disk(&reserved.plan, rest.is_some())?, reserved))
            });
            match reserved {
                Ok((DiskRoom::Enough(space), reserved)) => {
                    self.engine = Some(self.engine_of(device, storage, reserved, space)?);
                    self.begin_tuning();
                    self.open_timeline(target);
                }
                failed => {
                    storage.close(&mut *device);
                    failed?;
                }
            }
        }
        Ok(())
    }

    /// Returns how the session's snapshots are stored, with the codec or the checksums for them.
    fn storage(&self, device: &mut dyn Device, target: Target) -> Result<Storage> {
        let choice::Storage { cut, codec, coded, .. } = &self.option.storage;
        let levels = self.layout.levels().filter(|_| *cut == Cut::Levels);
        Ok(match (levels, coded) {
            (Some(levels), _) => Storage::Sharing(
                levels,
                match target {
                    Target::Host => FieldChecksums::Host,
                    Target::Cuda(_) => FieldChecksums::on_gpu(device)?,
                },
            ),
            (None, Coded::None) => Storage::Raw,
            _ => Storage::Coded(target.coder(device, codec, &self.layout)?),
        })
    }

    /// Returns the engine that plays a plan in the memory and the disk space that are reserved for it.
    fn engine_of(
        &self,
        device: Box<dyn Device>,
        storage: Storage,
        Reserved { plan, cache, pool }: Reserved,
        space: Option<DiskSpace>,
    ) -> Result<Engine> {
        let slot_bytes = self.option.tiers.slot_bytes;
        log::info!(
            "{} device and {} host slots of {slot_bytes} bytes, {} of them on disk",
            plan.device_slots,
            plan.host_slots,
            space.as_ref().map_or(0, DiskSpace::slots)
        );
        let mut tiers = Tiers::new(device, self.layout.clone(), plan, storage, cache, pool)?;
        if let Some(space) = space {
            let slots = space.slots();
            tiers.device().mount(space)?;
            tiers.use_disk(slots, slot_bytes, pool)?;
        }
        Ok(Engine::new(self.decision.unwrap_or(0), tiers))
    }

    /// Reserves the disk space that `plan` needs. If there is less space, plans anew with as much disk
    /// as there is; fails if the plan is the rest of a shot.
    fn reserve_disk(&mut self, plan: &Plan, is_rest: bool) -> Result<DiskRoom> {
        let (slots, slot_bytes) = (self.option.tiers.on_disk(plan), self.option.tiers.slot_bytes);
        if slots == 0 {
            return Ok(DiskRoom::Enough(None));
        }
        let space = DiskSpace::reserve(&self.job.config.disk_folders(), slots, slot_bytes)?;
        if space.slots() == slots {
            for folder in space.in_memory() {
                log::warn!(
                    "disk_path: {} lies in main memory (tmpfs), so that its snapshots take memory beside host_budget: name a folder on a disk",
                    folder.display()
                );
            }
            return Ok(DiskRoom::Enough(Some(space)));
        }
        let bytes_on_disk = self.option.tiers.bytes_on_disk();
        let bytes = |slots: u32| u64::from(slots).saturating_mul(bytes_on_disk);
        let (needed, room) = (bytes(slots), bytes(space.slots()));
        let folders = space.folders();
        drop(space);
        let less = format!(
            "{folders} has room for {room} bytes of snapshots and the plan needs {needed}: free space there, or name other folders in disk_path"
        );
        if is_rest {
            return fail!(
                Budget,
                "{less}; the shot goes on from restart files, which another plan does not fit"
            );
        }
        self.decide_anew(Why::LessDisk, Job { disk_budget: room, ..self.job.clone() }).map_err(
            |e| match e.code {
                Code::State => Error::new(
                    Code::Budget,
                    text(format_args!(
                        "{less}; no smaller plan can be made any more, because {}",
                        e.message
                    )),
                ),
                _ => e.within(format_args!("{less}, or set disk_budget to what there is")),
            },
        )?;
        log::warn!(
            "disk_budget = {needed} bytes were planned, and {folders} has room for {room}: the plan was made anew for these"
        );
        Ok(DiskRoom::Less)
    }

    /// Takes the whole plan of this shot once its forward phase has ended, which another session of
    /// the schedule may have told.
    pub(super) fn follow_end(&mut self) -> Result<()> {
        let Some(engine) = self.engine.as_mut().filter(|engine| engine.tiers.plan().is_open())
        else {
            return Ok(());
        };
        if self.schedule.has_ended()? {
            engine.tiers.complete(self.schedule.plan(&self.option.tiers)?);
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

    /// Fits the tiers to the bytes of device memory that the device and `storage` take beside the cache.
    fn fit_beside(&mut self, storage: &Storage) -> Result<()> {
        let StorageOption { storage: stored, tiers } = &self.option;
        // The staging buffers and the work space of the codec count in the budget, too.
        let beside_cache = stored
            .spare_bytes(&self.job)
            .saturating_add(storage.device_bytes())
            .saturating_add(storage.own_bytes());
        if tiers.beside_cache != beside_cache {
            // The options were made before the backend was known, for other bytes beside the cache.
            let (coded_bytes, beside_cache) = (Some(tiers.slot_bytes), Some(beside_cache));
            let job = Job { coded_bytes, beside_cache, ..self.job.clone() };
            let fitted = TierSpec::of(stored, &job)?;
            self.option.tiers = match tiers.raw_slots {
                Some(_) => fitted,
                None => TierSpec { cache: tiers.cache, ..fitted },
            };
        }
        Ok(())
    }

    /// Reserves device and host memory for the session's plan, or for `rest` instead. If the device has
    /// too little free memory for both the session and `device_reserve`, the cache shrinks by a quarter
    /// and this tries again.
    fn reserve(
        &mut self,
        device: &mut dyn Device,
        storage: &mut Storage,
        rest: Option<&Arc<Plan>>,
    ) -> Result<Reserved> {
        self.fit_beside(storage)?;
        let is_coded = matches!(storage, Storage::Coded(_));
        loop {
            let plan = match rest {
                Some(rest) => rest.clone(),
                None => self.schedule.plan(&self.option.tiers)?,
            };
            let cache = self.option.tiers.cache_bytes(&plan);
            let (state, zero_copy) = (self.layout.slot_bytes, self.job.config.tiers.zero_copy);
            let spare = spare_bytes(zero_copy, is_coded, plan.cache, state);
            let needed = cache.saturating_add(spare.saturating_add(storage.device_bytes()));
            let can_shrink = cache > 0 && rest.is_none();
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
                    let pool = self.reserve_pool(device, is_coded, &plan)?;
                    storage.settle_at(device, cache + spare)?;
                    return Ok(Reserved { plan, cache, pool });
                }
            }
        }
    }

    /// Reserves host memory for the pool of a plan and for the staging buffers of the disk behind the
    /// pool. Returns the bytes of the pool.
    fn reserve_pool(&self, device: &mut dyn Device, is_coded: bool, plan: &Plan) -> Result<u64> {
        let (tiers, budget) = (&self.option.tiers, self.job.host_budget);
        let times = |slots: u32, bytes: u64| (slots as u64).saturating_mul(bytes);
        let staged = match tiers.on_disk(plan) {
            0 => 0,
            _ => staging_bytes(tiers.slot_bytes),
        };
        let pool = match (is_coded, budget) {
            (false, _) => tiers.bytes_of(plan).1.saturating_sub(staged),
            (true, 0) => {
                let snapshots = plan.host_slots.saturating_add(plan.device_slots);
                // On a GPU the pool has twice the addresses that snapshots can take, so that there
                // always is a free range for one more (`Arena`); an address takes no memory.
                let copies = if matches!(self.target, Some(Target::Cuda(_))) { 2 } else { 1 };
                let most = aligned(SnapshotCodec::max_bytes(&self.layout));
                times(snapshots, most).saturating_mul(copies)
            }
            (true, budget) => budget.saturating_sub(staged) / ALIGNMENT * ALIGNMENT,
        };
        device.reserve(Memory::Host, pool.saturating_add(staged))?;
        // Without a budget, a pool of compressed snapshots grows as the snapshots need it.
        let grows = is_coded && (budget == 0 || self.promise.is_some());
        device.lock(match (grows, self.job.config.codec.compression_factor > 1.0) {
            (false, _) => pool.saturating_add(staged),
            (true, true) => times(plan.host_slots, tiers.slot_bytes),
            (true, false) => u64::from(plan.host_slots.min(1)),
        })?;
        if !is_coded {
            // Raw snapshots use every byte of their slots. Compressed snapshots may never use most of
            // the cache, so its pages are not touched ahead.
            device.touch_ahead();
        }
        Ok(pool)
    }
}

/// The memory that is reserved for a plan.
struct Reserved {
    plan: Arc<Plan>,
    /// Bytes of the device cache, behind which the spare memory lies.
    cache: u64,
    /// Bytes of the host pool, behind which the staging buffers of the disk lie.
    pool: u64,
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
enum DiskRoom {
    /// The space that the plan needs; `None` if the plan needs none.
    Enough(Option<DiskSpace>),
    /// Less. The session has a new plan.
    Less,
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
    let of_schedule = config.clone().with(|c| {
        c.schedule.adjoint_every = every;
        c.schedule.algorithm = schedule.config().schedule.algorithm;
    });
    of_schedule.modes().check()
}

/// Returns the job of a session with these fields, and their device if it is known. Costs and the
/// work space of a codec depend on its backend.
pub(super) fn job_of(
    config: Arc<Config>,
    layout: &Layout,
    fields: &[AppField],
) -> Result<(Job, Option<Target>)> {
    let target = Target::of(&config, fields)?;
    let backend = target.map_or(config.device.backend, Target::backend);
    Ok((Job { backend, ..Job::new(config, State::Fields(layout.clone())) }, target))
}

/// Sets the budgets from the free memory, if the configuration leaves them to the library.
pub(super) fn budget(job: &mut Job, layout: &Layout, steps: u32, target: Option<Target>) {
    if choice::are_left(job) {
        choice::take(job, layout, steps, Free::now(job, target).as_ref());
    }
}
