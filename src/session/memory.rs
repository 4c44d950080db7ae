//! The memory of an engine: the device, the slabs, the codec and the disk space for a plan.

use super::basis::Basis;
use crate::available;
use crate::choice::{self, Coded, Cut, Job, SharedSchedule, Target, TierSpec};
use crate::codec::SnapshotCodec;
use crate::config::Config;
use crate::device::{Device, DeviceMemory, DiskSpace, Memory as Tier};
use crate::error::{fail, Code, Result};
use crate::layout::{aligned, ALIGNMENT};
use crate::plan::Plan;
use crate::tier::{staging_bytes, LaneCoder, SnapshotCoder, Storage, Sums, Tiers};
use std::sync::Arc;

/// An open device, on which memory is reserved for the plan of a storage option.
pub(super) struct Memory<'a> {
    basis: &'a Basis,
    target: Target,
    device: Box<dyn Device>,
    storage: Storage,
    /// The storage option, which becomes one that fits the memory.
    spec: TierSpec,
}

/// The memory that is reserved for a plan.
pub(super) struct Reserved {
    plan: Arc<Plan>,
    /// Bytes of the device cache, behind which the spare memory lies.
    cache: u64,
    /// Bytes of the host pool, behind which the staging buffers of the disk lie.
    pool: u64,
    /// The disk space; `None` if the plan needs none.
    disk: Option<DiskSpace>,
}

/// Folders with less room for snapshots than a plan needs, in bytes.
pub(super) struct LessDisk {
    pub(super) folders: String,
    pub(super) needed: u64,
    pub(super) room: u64,
}

/// The memory that is reserved, or why a plan does not get what it needs.
type Room = std::result::Result<Reserved, LessDisk>;

impl<'a> Memory<'a> {
    /// Opens the device, and the codec or the checksums that `spec` stores snapshots with.
    pub(super) fn open(basis: &'a Basis, target: Target, spec: TierSpec) -> Result<Self> {
        let mut device = target.open(&basis.job.config)?;
        let choice::Storage { cut, codec, coded, .. } = &spec.storage;
        let levels = basis.layout.by_level().filter(|_| *cut == Cut::Levels);
        let parts = levels.unwrap_or_else(|| basis.layout.whole());
        let shared = parts.previous.len();
        let coder = match coded {
            Coded::None => None,
            Coded::ByLanes(_) => {
                let threads = basis.job.codec_threads();
                if available::processors() < 2 {
                    log::warn!(
                        "codec_threads = {threads}: this thread may run on one processor only, which the threads that code share with it: open \
                         the session where the thread is not bound (OMP_PROC_BIND binds it), or set codec_threads = -1"
                    );
                }
                let buffers = spec.cache.unwrap_or(0);
                let make = || SnapshotCodec::of_parts(codec.clone(), &basis.layout, &parts);
                let sizes = [threads, buffers];
                let lanes = LaneCoder::new(&mut *device, &basis.layout, &parts, sizes, make)?;
                Some(SnapshotCoder::Lanes(Box::new(lanes)))
            }
            _ => Some(target.coder(&mut *device, codec, &basis.layout, &parts)?),
        };
        let mut storage = Storage { parts, coder, sums: None };
        if shared > 0 {
            let sums = match target {
                Target::Host => Ok(Sums::on_host(shared)),
                Target::Cuda(_) => Sums::on_gpu(&mut *device, shared),
            };
            storage.sums = Some(sums.inspect_err(|_| storage.close(&mut *device))?);
        }
        Ok(Memory { basis, target, device, storage, spec })
    }

    /// Frees all that was taken.
    pub(super) fn close(mut self) {
        self.storage.close(&mut *self.device);
    }

    /// Returns the tiers that play the plan in the memory that is reserved for it, and the storage option
    /// that fits this memory.
    pub(super) fn into_tiers(self, reserved: Reserved) -> Result<(TierSpec, Tiers)> {
        let Memory { basis, device, storage, spec, .. } = self;
        let Reserved { plan, cache, pool, disk } = reserved;
        let slot_bytes = spec.slot_bytes;
        log::info!(
            "{} device and {} host slots of {slot_bytes} bytes, {} of them on disk",
            plan.device_slots,
            plan.host_slots,
            disk.as_ref().map_or(0, DiskSpace::slots)
        );
        let mut tiers = Tiers::new(device, basis.layout.clone(), plan, storage, cache, pool)?;
        if let Some(disk) = disk {
            let slots = disk.slots();
            tiers.device().mount(disk)?;
            tiers.use_disk(slots, slot_bytes, pool)?;
        }
        Ok((spec, tiers))
    }

    /// Reserves memory for the plan of the schedule's decision, or for `rest` instead. If the device has
    /// too little free memory for both the session and `device_reserve`, the cache shrinks by a quarter
    /// and this tries again: the schedule stays, so that this asks nobody.
    pub(super) fn reserve(
        &mut self,
        schedule: &SharedSchedule,
        rest: Option<&Arc<Plan>>,
    ) -> Result<Room> {
        self.fit_beside()?;
        let config = &self.basis.job.config;
        loop {
            let tiers = &self.spec;
            let plan = rest.map_or_else(|| schedule.plan(tiers), |rest| Ok(rest.clone()))?;
            let (cache, spare) = (tiers.cache_bytes(&plan), tiers.spare_bytes(&plan));
            let needed = cache.saturating_add(spare.saturating_add(self.storage.device_bytes()));
            let can_shrink = cache > 0 && rest.is_none();
            let leaves_enough =
                if can_shrink { leave_reserve(config, &*self.device, needed) } else { Ok(()) };
            match leaves_enough.and_then(|()| self.device.reserve(Tier::Device, needed)) {
                Err(error) if error.code == Code::Memory && can_shrink => {
                    let fewer = tiers.with_fewer_slots(&plan);
                    log::warn!(
                        "{error}: the device cache shrinks from {} to {} slots",
                        plan.device_slots,
                        fewer.cache.unwrap_or(0)
                    );
                    self.spec = fewer;
                }
                result => {
                    result?;
                    let pool = self.reserve_pool(&plan)?;
                    self.storage.settle_at(&mut *self.device, cache + spare)?;
                    return self.reserve_disk(Reserved { plan, cache, pool, disk: None });
                }
            }
        }
    }

    /// Fits the tiers to the bytes of device memory that the device and the codec take beside the cache.
    fn fit_beside(&mut self) -> Result<()> {
        let tiers = &mut self.spec;
        // The staging buffers and the work space of the codec count in the budget, too.
        let of_codec = self.storage.device_bytes().saturating_add(self.storage.own_bytes());
        let job = tiers.job_of(&self.basis.job);
        let beside_cache = tiers.storage.spare_bytes(&job).saturating_add(of_codec);
        if tiers.beside_cache != beside_cache {
            // The options were made before the backend was known, for other bytes beside the cache.
            let (coded_bytes, beside_cache) = (Some(tiers.slot_bytes), Some(beside_cache));
            let job = Job { coded_bytes, beside_cache, ..job };
            let fitted = TierSpec::of(&tiers.storage, &job)?;
            *tiers = match tiers.raw_slots {
                Some(_) => fitted,
                None => TierSpec { cache: tiers.cache, host: tiers.host, ..fitted },
            };
        }
        Ok(())
    }

    /// Reserves host memory for the pool of a plan and for the staging buffers of the disk behind the
    /// pool. Returns the bytes of the pool.
    fn reserve_pool(&mut self, plan: &Plan) -> Result<u64> {
        let (tiers, job) = (&self.spec, &self.basis.job);
        let times = |slots: u32, bytes: u64| (slots as u64).saturating_mul(bytes);
        let has_disk = tiers.on_disk(plan) > 0;
        let staged = if has_disk { staging_bytes(tiers.slot_bytes) } else { 0 };
        let is_coded = self.storage.coder.is_some();
        let pool = match (is_coded, tiers.pool_bytes) {
            (false, _) => tiers.bytes_of(plan).1.saturating_sub(staged),
            (true, None) => {
                let snapshots = plan.host_slots.saturating_add(plan.device_slots);
                // On a GPU the pool has twice the addresses that snapshots can take, so that there
                // always is a free range for one more (`Arena`); an address takes no memory.
                let copies = if matches!(self.target, Target::Cuda(_)) { 2 } else { 1 };
                let most = aligned(SnapshotCodec::max_bytes(&self.basis.layout));
                times(snapshots, most).saturating_mul(copies)
            }
            (true, Some(budget)) => budget.saturating_sub(staged) / ALIGNMENT * ALIGNMENT,
        };
        self.device.reserve(Tier::Host, pool.saturating_add(staged))?;
        // Without a budget, a pool of compressed snapshots grows as the snapshots need it.
        let grows = is_coded && (tiers.pool_bytes.is_none() || self.basis.promise.is_some());
        self.device.lock(match (grows, job.config.codec.compression_factor > 1.0) {
            (false, _) => pool.saturating_add(staged),
            (true, true) => times(plan.host_slots, tiers.slot_bytes),
            (true, false) => u64::from(plan.host_slots.min(1)),
        })?;
        if !is_coded {
            // Raw snapshots use every byte of their slots. Compressed snapshots may never use most of
            // the cache, so its pages are not touched ahead.
            self.device.touch_ahead();
        }
        Ok(pool)
    }

    /// Reserves the disk space that the plan needs, if there is as much.
    fn reserve_disk(&self, reserved: Reserved) -> Result<Room> {
        let tiers = &self.spec;
        let slots = tiers.on_disk(&reserved.plan);
        if slots == 0 {
            return Ok(Ok(reserved));
        }
        let folders = self.basis.job.config.disk_folders();
        let disk = DiskSpace::reserve(&folders, slots, tiers.slot_bytes)?;
        if disk.slots() < slots {
            let bytes = |slots: u32| u64::from(slots).saturating_mul(tiers.bytes_on_disk());
            let (needed, room) = (bytes(slots), bytes(disk.slots()));
            return Ok(Err(LessDisk { folders: disk.folders(), needed, room }));
        }
        for folder in disk.in_memory() {
            log::warn!(
                "disk_path: {} lies in main memory (tmpfs), so that its snapshots take memory beside host_budget: name a folder on a disk",
                folder.display()
            );
        }
        Ok(Ok(Reserved { disk: Some(disk), ..reserved }))
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
