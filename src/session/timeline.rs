//! What a session reports of its run: the timeline of `trace_out`, and NVTX ranges. An error in
//! here becomes a warning and does not stop the run.

use super::{Engine, Session};
use crate::choice::Target;
use crate::choice::Tick;
use crate::device::Device;
use crate::error::Result;
use crate::plan::Plan;
use crate::predict::Costs;
use crate::schedule::{flags, Algorithm, Kind, Schedule};
use crate::stats::Stats;
use crate::timeline::{nvtx, Label, Object, Row, TimelineFile};
use std::ffi::CString;
use std::time::{SystemTime, UNIX_EPOCH};

impl Session {
    /// Returns the device and the timeline, if the session writes a timeline.
    fn recorded(&mut self) -> Option<(&mut dyn Device, &mut TimelineFile)> {
        match (&mut self.engine, &mut self.timeline) {
            (Some(engine), Some(timeline)) => Some((engine.tiers.device(), timeline)),
            _ => None,
        }
    }

    /// Ends the timeline with a warning if `result` is an error.
    fn timeline_result(&mut self, result: std::result::Result<(), String>) {
        if let (Err(error), Some(timeline)) = (result, &self.timeline) {
            log::warn!("trace_out: {}: {error}: the timeline ends here", timeline.path().display());
            self.timeline = None;
            self.engine.iter_mut().for_each(|engine| engine.tiers.device().close_spans());
        }
    }

    /// Begins a timeline, if `trace_out` asks for it.
    pub(super) fn open_timeline(&mut self, target: Target) {
        let (Some(pattern), Some(engine)) = (&self.job.config.report.trace_out, &mut self.engine)
        else {
            return;
        };
        let result = engine.tiers.device().keep_spans().map_err(|e| e.message);
        if let Some(timeline) = &mut self.timeline {
            // A new plan came with a new device: the timeline has a device of this number from here
            // on.
            timeline.begin_device();
            return self.timeline_result(result);
        }
        match result
            .and_then(|()| TimelineFile::create(pattern, about(target)).map_err(|e| e.to_string()))
        {
            Ok(timeline) => {
                log::info!("trace_out: {}", timeline.path().display());
                self.timeline = Some(timeline);
                // If the fields of the first SAVE tell the device, that SAVE has begun before the
                // timeline.
                self.tick.into_iter().for_each(|tick| self.timeline_action(tick));
            }
            Err(error) => {
                log::warn!("trace_out: {}: {error}: there is no timeline", pattern.display())
            }
        }
    }

    /// Ends the span of the previous action and begins the span of this one, in the timeline and in
    /// NVTX.
    pub(super) fn timeline_action(&mut self, tick: Tick) {
        if nvtx::is_on() {
            // Ends the previous range before the next one begins.
            self.range = None;
            // A FORWARD is named by the state that it leads to.
            let ts = if tick.action.kind == Kind::Forward { tick.end } else { tick.action.ts };
            let name = CString::new(format!("{} {ts}", tick.action.kind.name())).ok();
            self.range = name
                .filter(|_| tick.action.kind != Kind::Terminate)
                .and_then(|name| nvtx::action(&name));
        }
        let Some((device, _)) = self.recorded() else { return };
        let result = device.begin_action(label_of(tick)).map_err(|e| e.message);
        self.timeline_result(result);
    }

    /// Writes the spans that have ended, after a call, so that they do not collect in memory.
    pub(super) fn timeline_call(&mut self) {
        let Some((device, timeline)) = self.recorded() else { return };
        let result = device
            .spans()
            .map_err(|e| e.message)
            .and_then(|spans| timeline.add(&spans).map_err(|e| e.to_string()));
        self.timeline_result(result);
    }

    /// Waits for everything that the shot has enqueued and writes its spans, at TERMINATE.
    pub(super) fn timeline_shot(&mut self) {
        let Some((device, _)) = self.recorded() else { return };
        let finished = device.finish_spans().map_err(|e| e.message);
        self.timeline_result(finished);
        self.timeline_call();
        let about = self.about_shot();
        let Some((_, timeline)) = self.recorded() else { return };
        let result = about
            .map_err(|e| e.message)
            .and_then(|about| timeline.end_shot(about).map_err(|e| e.to_string()));
        self.timeline_result(result);
    }

    /// Ends the application's last action, before a new shot.
    pub(super) fn timeline_break(&mut self) {
        let Some((device, _)) = self.recorded() else { return };
        let result = device.break_off().map_err(|e| e.message);
        self.timeline_result(result);
    }

    /// Writes what is left of the shot before, and begins a shot in the timeline. A shot that was
    /// broken off stays in the file without its end.
    pub(super) fn timeline_setup(&mut self) {
        let Some((device, _)) = self.recorded() else { return };
        let finished = device.finish_spans().map_err(|e| e.message);
        self.timeline_result(finished);
        self.timeline_call();
        if let Some(timeline) = &mut self.timeline {
            timeline.begin_shot();
        }
    }

    /// Writes what is left and flushes the file, at the end of the session.
    pub(super) fn close_timeline(&mut self) {
        if !self.process.is_current() {
            return;
        }
        self.timeline_call();
        let Some((_, timeline)) = self.recorded() else { return };
        let result = timeline.flush().map_err(|e| e.to_string());
        self.timeline_result(result);
    }

    /// Describes the shot: the parameters and costs that a prediction needs, and the statistics.
    fn about_shot(&mut self) -> Result<Object> {
        let (schedule, stats) = (self.schedule.decide()?, self.stats()?);
        let Some(Engine { tiers, .. }) = &self.engine else { return Ok(Object::new()) };
        let about = of_schedule(Object::new().value("shot", self.shots), &schedule);
        let about = of_plan(about, tiers.plan());
        let about = about.value("published", self.schedule.config().schedule.uniform_published);
        let about = match self
            .schedule
            .config()
            .schedule
            .trace_file
            .as_ref()
            .filter(|_| schedule.algorithm == Algorithm::Trace)
        {
            Some(path) => about.text_of("trace_file", &path.to_string_lossy()),
            None => about,
        };
        let about = about
            .text_of("compressor", self.option.storage.codec.method.name())
            .value("link_bandwidth", self.job.config.device.link_bandwidth)
            .value("host_budget", self.job.host_budget)
            .value("disk_budget", self.job.disk_budget);
        Ok(about
            .value("costs", of_costs(&self.option.tiers.costs).text())
            .value("stats", of_stats(&stats).text()))
    }
}

/// Returns the label of the span of an action; `None` for TERMINATE, which computes nothing.
fn label_of(tick: Tick) -> Option<Label> {
    let (row, what) = match tick.action.kind {
        Kind::Forward if tick.action.flags & flags::RECOMPUTE != 0 => (Row::Compute, "recompute"),
        Kind::Forward => (Row::Compute, "forward"),
        Kind::Backward => (Row::Compute, "backward"),
        Kind::Save => (Row::Stall, "save"),
        Kind::Restore => (Row::Stall, "restore"),
        Kind::Terminate | Kind::Error => return None,
    };
    Some(Label {
        row,
        what,
        ts: tick.action.ts as i64,
        ts_end: tick.end as i64,
        it: tick.it,
        bytes: 0,
    })
}

fn about(target: Target) -> Object {
    let device = match target {
        Target::Host => "host".to_string(),
        Target::Cuda(ordinal) => format!("cuda {ordinal}"),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
    let about =
        Object::new().text_of("gpuzip", env!("CARGO_PKG_VERSION")).text_of("device", &device);
    about.value("process", std::process::id()).value("began_unix_s", now)
}

fn of_schedule(about: Object, schedule: &Schedule) -> Object {
    let about = about
        .text_of("algorithm", schedule.algorithm.name())
        .value("steps", schedule.macro_steps().time_steps())
        .value("every", schedule.macro_steps().every());
    let inner = if schedule.has_inner_slots() { schedule.inner() } else { 0 };
    about
        .value("snapshots", schedule.snapshots)
        .value("chunk", schedule.chunk)
        .value("inner", inner)
        .value("for_cache", schedule.cache())
        .value("after_save", schedule.ends_after_save())
        .text_of("tree", &schedule.tree().map_or(String::new(), |tree| tree.bits().to_string()))
}

fn of_plan(about: Object, plan: &Plan) -> Object {
    about
        .value("cache", plan.cache)
        .text_of("policy", plan.policy.name())
        .value("zero_copy", plan.zero_copy)
        .value("raw_slots", plan.raw_slots)
        .value("device_slots", plan.device_slots)
        .value("host_slots", plan.host_slots)
}

/// The costs that the plan was made with, in seconds and bytes. Times that differ from step to step
/// appear as their mean.
fn of_costs(costs: &Costs) -> Object {
    Object::new()
        .value("forward", costs.forward.mean())
        .value("backward", costs.backward.mean())
        .value("copy", costs.copy)
        .value("compress", costs.compress)
        .value("decompress", costs.decompress)
        .value("upload", costs.upload)
        .value("download", costs.download)
        .value("disk_read", costs.disk_read)
        .value("disk_write", costs.disk_write)
        .value("one_engine", costs.one_engine)
        .value("compressed", costs.compressed)
        .value("state_bytes", costs.state_bytes)
        .value("stored_bytes", costs.stored_bytes)
        .value("slot_bytes", costs.slot_bytes)
        .value("previous_bytes", costs.previous_bytes)
}

fn of_stats(stats: &Stats) -> Object {
    stats.columns().into_iter().fold(Object::new(), |about, (name, value)| about.value(name, value))
}
