//! What a session counts in a shot: times, transfers, bytes, and the line of the performance log.

use super::engine::{Counted, Engine};
use super::{performance_log, Session};
use crate::error::Result;
use crate::schedule::Kind;
use crate::stats::Stats;
use crate::tier::{staging_bytes, Saved};
use std::io;
use std::time::Instant;

impl Session {
    /// Adds the seconds since the application got its current action to `forward` or `backward` of
    /// the statistics, if that action is a FORWARD or a BACKWARD.
    pub(super) fn account(&mut self, now: Instant) {
        let (Some(tick), Some(since)) = (self.shot.tick, self.shot.since) else { return };
        let seconds = match tick.action.kind {
            Kind::Forward => &mut self.shot.stats.forward,
            Kind::Backward => &mut self.shot.stats.backward,
            _ => return,
        };
        *seconds += (now - since).as_secs_f64();
    }

    /// Adds the finished saves to the statistics. The size of a snapshot that a GPU compresses
    /// becomes known after its SAVE call, so the snapshot is counted in a later call.
    pub(super) fn count_saved(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        let (stats, raw_bytes) = (&mut self.shot.stats, self.basis.layout.raw_bytes);
        for Saved { ts, bytes, written } in engine.tiers.saved() {
            stats.d2h += u64::from(written);
            stats.write_backs_avoided += u64::from(written == 0);
            stats.stored_bytes += bytes;
            stats.raw_bytes += if bytes > 0 { raw_bytes } else { 0 };
            if self.basis.job.config.report.log_ratio && bytes > 0 {
                let ratio = raw_bytes as f64 / bytes as f64;
                log::info!("state {ts}: {bytes} of {raw_bytes} bytes, ratio {ratio:.2}");
            }
        }
    }

    /// Returns the statistics of this shot so far. Fails if the device cannot tell its times.
    pub fn stats(&mut self) -> Result<Stats> {
        self.process.check()?;
        let mut stats = self.shot.stats.clone();
        (stats.generations, stats.persist_bytes, stats.persist_held_bytes, stats.persist) =
            self.persisted();
        if let Some(Engine { tiers, spec, before, .. }) = &mut self.engine {
            let now = Counted::by(tiers.device())?;
            let traffic = now.traffic - before.traffic;
            stats.stall += now.times.stalled - before.times.stalled;
            stats.compress += now.times.coded.0 - before.times.coded.0;
            stats.decompress += now.times.coded.1 - before.times.coded.1;
            stats.h2d_bytes += traffic.h2d_bytes;
            stats.d2h_bytes += traffic.d2h_bytes;
            stats.disk_bytes += traffic.disk_bytes;
            stats.disk_reads += traffic.disk_reads;
            stats.disk_writes += traffic.disk_writes;
            let (on_disk, plan) = (tiers.on_disk(), tiers.plan());
            let (cache, pool) = tiers.peaks();
            let staged = if on_disk > 0 { staging_bytes(spec.slot_bytes) } else { 0 };
            let device = cache + spec.spare_bytes(plan);
            stats.peak_device_bytes = stats.peak_device_bytes.max(device);
            stats.peak_host_bytes = stats.peak_host_bytes.max(pool + staged);
        }
        Ok(stats)
    }

    /// Returns the bytes of host memory for snapshots that could not be page-locked for a GPU.
    pub fn pageable_bytes(&mut self) -> u64 {
        self.engine.as_mut().map_or(0, |engine| engine.tiers.device().lock(0).unwrap_or(0))
    }

    pub(super) fn end_shot(&mut self) {
        self.shot.ended = true;
        self.shot.shots += 1;
        if self.basis.job.config.report.performance_log {
            self.log_performance().unwrap_or_else(|e| log::warn!("performance log: {e}"));
        }
        self.timeline_shot();
    }

    fn log_performance(&mut self) -> io::Result<()> {
        self.synchronize()?;
        let (stats, schedule, plan) = (self.stats()?, self.schedule.decide()?, self.plan()?);
        performance_log::append(self.shot.shots, &schedule, &plan, &stats)
    }
}
