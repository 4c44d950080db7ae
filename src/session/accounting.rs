//! What a session counts in a shot: times, transfers, bytes, and the line of the performance log.

use super::engine::Engine;
use super::{performance_log, Session};
use crate::codec::Method;
use crate::error::Result;
use crate::plan::spare_bytes;
use crate::schedule::Kind;
use crate::stats::Stats;
use crate::tier::Saved;
use std::time::Instant;

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
        for Saved { ts, bytes, written } in engine.tiers.saved() {
            self.stats.d2h += u64::from(written);
            self.stats.write_backs_avoided += u64::from(!written);
            self.stats.raw_bytes += if bytes > 0 { self.layout.raw_bytes } else { 0 };
            self.stats.stored_bytes += bytes;
            if self.config.log_ratio && bytes > 0 {
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
        if let Some(Engine { plan, tiers, traffic_before, stalled_before, coded_before, .. }) =
            &mut self.engine
        {
            let traffic = tiers.device().traffic();
            stats.stall = tiers.device().stalled()? - *stalled_before;
            stats.h2d_bytes = traffic.h2d_bytes - traffic_before.h2d_bytes;
            stats.d2h_bytes = traffic.d2h_bytes - traffic_before.d2h_bytes;
            let times = |slots: u32| (slots as u64).saturating_mul(self.layout.slot_bytes);
            let (cache, pool) =
                tiers.peaks().unwrap_or((times(plan.device_slots), times(plan.host_slots)));
            let is_coded = self.option.compression.method != Method::None;
            let state = self.layout.slot_bytes;
            let spare = spare_bytes(plan.zero_copy, is_coded, plan.cache, state);
            stats.peak_device_bytes = cache + spare;
            stats.peak_host_bytes = pool;
            let coded = tiers.device().coded()?;
            (stats.compress, stats.decompress) =
                (coded.0 - coded_before.0, coded.1 - coded_before.1);
        }
        Ok(stats)
    }

    pub(super) fn end_shot(&mut self) {
        self.ended = true;
        self.shots += 1;
        self.log_performance();
        self.timeline_shot();
    }

    pub(super) fn log_performance(&mut self) {
        if !self.config.performance_log {
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
