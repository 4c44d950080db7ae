//! What a session counts in a shot: times, transfers, bytes, and the line of the performance log.

use super::engine::Engine;
use super::{performance_log, Session};
use crate::codec::Method;
use crate::error::Result;
use crate::plan::spare_bytes;
use crate::schedule::Kind;
use crate::stats::Stats;
use crate::tier::{staging_bytes, Saved};
use std::time::Instant;

impl Stats {
    /// Counts what a SAVE of a state of `raw_bytes` bytes did.
    pub(super) fn count(&mut self, saved: Saved, raw_bytes: u64) {
        let Saved { bytes, written, .. } = saved;
        self.d2h += u64::from(written);
        self.write_backs_avoided += u64::from(!written);
        self.raw_bytes += if bytes > 0 { raw_bytes } else { 0 };
        self.stored_bytes += bytes;
    }
}

impl Session {
    /// Adds the seconds since the application got its current action to `forward` or `backward` of
    /// the statistics, if that action is a FORWARD or a BACKWARD.
    pub(super) fn account(&mut self, now: Instant) {
        let elapsed = now.duration_since(self.since).as_secs_f64();
        match self.tick.map(|tick| tick.action.kind) {
            Some(Kind::Forward) => self.stats.forward += elapsed,
            Some(Kind::Backward) => self.stats.backward += elapsed,
            _ => {}
        }
    }

    /// Adds the finished saves to the statistics. The size of a snapshot that a GPU compresses
    /// becomes known after its SAVE call, so the snapshot is counted in a later call.
    pub(super) fn count_saved(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        for saved @ Saved { ts, bytes, .. } in engine.tiers.saved() {
            self.stats.count(saved, self.layout.raw_bytes);
            if self.job.config.report.log_ratio && bytes > 0 {
                let ratio = self.layout.raw_bytes as f64 / bytes as f64;
                log::info!(
                    "state {ts}: {bytes} of {} bytes, ratio {ratio:.2}",
                    self.layout.raw_bytes
                );
            }
        }
    }

    /// Returns the statistics of this shot so far. Fails if the device cannot tell its times.
    pub fn stats(&mut self) -> Result<Stats> {
        self.process.check()?;
        let mut stats = self.stats.clone();
        (stats.generations, stats.persist_bytes, stats.persist) = self.persisted();
        if let Some(Engine { tiers, traffic_before, stalled_before, coded_before, .. }) =
            &mut self.engine
        {
            let traffic = tiers.device().traffic() - *traffic_before;
            stats.stall += tiers.device().stalled()? - *stalled_before;
            stats.h2d_bytes += traffic.h2d_bytes;
            stats.d2h_bytes += traffic.d2h_bytes;
            stats.disk_bytes += traffic.disk_bytes;
            stats.disk_reads += traffic.disk_reads;
            stats.disk_writes += traffic.disk_writes;
            let (on_disk, plan) = (tiers.on_disk(), tiers.plan());
            let times = |slots: u32| (slots as u64).saturating_mul(self.layout.slot_bytes);
            let in_memory = plan.host_slots.saturating_sub(on_disk);
            let (cache, pool) =
                tiers.peaks().unwrap_or((times(plan.device_slots), times(in_memory)));
            let staged = if on_disk > 0 { staging_bytes(self.option.tiers.slot_bytes) } else { 0 };
            let is_coded = self.option.storage.codec.method != Method::None;
            let state = self.layout.slot_bytes;
            let spare = spare_bytes(plan.zero_copy, is_coded, plan.cache, state);
            stats.peak_device_bytes = stats.peak_device_bytes.max(cache + spare);
            stats.peak_host_bytes = stats.peak_host_bytes.max(pool + staged);
            let (compress, decompress) = tiers.device().coded()?;
            stats.compress += compress - coded_before.0;
            stats.decompress += decompress - coded_before.1;
        }
        Ok(stats)
    }

    /// Returns the bytes of host memory for snapshots that could not be page-locked for a GPU.
    pub fn pageable_bytes(&mut self) -> u64 {
        self.engine.as_mut().map_or(0, |engine| engine.tiers.device().pageable_bytes())
    }

    pub(super) fn end_shot(&mut self) {
        self.ended = true;
        self.shots += 1;
        self.log_performance();
        self.timeline_shot();
    }

    pub(super) fn log_performance(&mut self) {
        if !self.job.config.report.performance_log {
            return;
        }
        let mut append = || -> std::result::Result<(), String> {
            self.synchronize().map_err(|e| e.message)?;
            let stats = self.stats().map_err(|e| e.message)?;
            let (schedule, plan) = self
                .schedule
                .decide()
                .and_then(|s| Ok((s, self.plan()?)))
                .map_err(|e| e.message)?;
            performance_log::append(self.shots, &schedule, &plan, &stats).map_err(|e| e.to_string())
        };
        if let Err(e) = append() {
            log::warn!("performance log: {e}");
        }
    }
}
