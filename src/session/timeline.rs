//! What a session reports of its run: the timeline of `trace_out`, and NVTX ranges. An error in
//! here becomes a warning and does not stop the run.

use super::{Engine, Session};
use crate::choice::{Target, Tick};
use crate::device::Device;
use crate::error::Result;
use crate::plan::Plan;
use crate::predict::{Costs, Profile};
use crate::schedule::{flags, Algorithm, Kind, Schedule};
use crate::timeline::{nvtx, Label, Object, Row, TimelineFile};
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// What is reported and measured of the run.
#[derive(Default)]
pub(super) struct Watch {
    /// The timeline, if `trace_out` asks for it.
    pub(super) timeline: Option<TimelineFile>,
    /// The NVTX range of the current action, if a profiler listens.
    pub(super) range: Option<nvtx::Action>,
    /// Whether the current or the next shot is measured, and the profile (or the error) of the last
    /// measured shot.
    pub(super) tuning: bool,
    pub(super) measured: Option<Result<Profile>>,
}

/// Adds fields of a struct to an object, under their own names.
macro_rules! with_fields {
    ($about:expr, $of:expr, $($name:ident)*) => {
        $about$(.value(stringify!($name), $of.$name))*
    };
}

impl Session {
    /// Calls `body` with the device and the timeline, if the session writes a timeline. An error of
    /// `body` ends the timeline with a warning.
    pub(super) fn record(
        &mut self,
        body: impl FnOnce(&mut dyn Device, &mut TimelineFile) -> io::Result<()>,
    ) {
        let (Some(engine), Some(timeline)) = (&mut self.engine, &mut self.watch.timeline) else {
            return;
        };
        if let Err(error) = body(engine.tiers.device(), timeline) {
            log::warn!("trace_out: {}: {error}: the timeline ends here", timeline.path().display());
            self.watch.timeline = None;
            // Nothing is left to warn of.
            let _ = engine.tiers.device().keep_spans(false);
        }
    }

    /// Begins a timeline, if `trace_out` asks for it.
    pub(super) fn open_timeline(&mut self, target: Target) {
        if self.watch.timeline.is_some() {
            return self.record(|device, timeline| {
                // A new plan came with a new device: the timeline has a device of this number from
                // here on.
                timeline.begin_device();
                Ok(device.keep_spans(true)?)
            });
        }
        let (Some(pattern), Some(engine)) =
            (&self.basis.job.config.report.trace_out, &mut self.engine)
        else {
            return;
        };
        let kept = engine.tiers.device().keep_spans(true).map_err(io::Error::from);
        match kept.and_then(|()| TimelineFile::create(pattern, about(target))) {
            Ok(timeline) => {
                log::info!("trace_out: {}", timeline.path().display());
                self.watch.timeline = Some(timeline);
                // If the fields of the first SAVE tell the device, that SAVE has begun before the
                // timeline.
                self.shot.tick.into_iter().for_each(|tick| self.timeline_action(tick));
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
            self.watch.range = None;
            // A FORWARD is named by the state that it leads to.
            let ts = if tick.action.kind == Kind::Forward { tick.end } else { tick.action.ts };
            let is_over = tick.action.kind == Kind::Terminate;
            self.watch.range =
                (!is_over).then(|| nvtx::action(tick.action.kind.name(), ts)).flatten();
        }
        self.record(|device, _| Ok(device.begin_action(label_of(tick))?));
    }

    /// Writes the spans that have ended, after a call, so that they do not collect in memory.
    pub(super) fn timeline_call(&mut self) {
        self.record(|device, timeline| timeline.add(&device.spans(false)?));
    }

    /// Waits for everything that the shot has enqueued and writes its spans, at TERMINATE.
    pub(super) fn timeline_shot(&mut self) {
        self.record(|device, timeline| timeline.add(&device.spans(true)?));
        if self.watch.timeline.is_some() {
            let about = self.about_shot();
            self.record(|_, timeline| timeline.end_shot(about?));
        }
    }

    /// Writes what is left of the shot before, and begins a shot in the timeline. A shot that was
    /// broken off stays in the file without its end.
    pub(super) fn timeline_setup(&mut self) {
        self.record(|device, timeline| {
            timeline.add(&device.spans(true)?)?;
            timeline.begin_shot();
            Ok(())
        });
    }

    /// Writes what is left and flushes the file, at the end of the session.
    pub(super) fn close_timeline(&mut self) {
        if self.process.is_current() {
            self.record(|device, timeline| {
                timeline.add(&device.spans(false)?)?;
                timeline.flush()
            });
        }
    }

    /// Describes the shot: the parameters and costs that a prediction needs, and the statistics.
    fn about_shot(&mut self) -> Result<Object> {
        let (schedule, stats) = (self.schedule.decide()?, self.stats()?);
        let Some(Engine { tiers, spec, .. }) = &self.engine else { return Ok(Object::new()) };
        let config = &self.schedule.config().schedule;
        let about = of_schedule(Object::new().value("shot", self.shot.shots), &schedule);
        let about = of_plan(about, tiers.plan()).value("published", config.uniform_published);
        let about = match &config.trace_file {
            Some(path) if schedule.algorithm == Algorithm::Trace => {
                about.text_of("trace_file", &path.to_string_lossy())
            }
            _ => about,
        };
        let job = &self.basis.job;
        let about = about.text_of("compressor", spec.storage.codec.method.name());
        let about = with_fields!(about, job.config.device, link_bandwidth);
        let about = with_fields!(about, job, host_budget disk_budget);
        let object = Object::new();
        let stats = stats.columns().into_iter().fold(object, |of, (name, n)| of.value(name, n));
        Ok(about.value("costs", of_costs(&spec.costs).text()).value("stats", stats.text()))
    }
}

/// Returns the label of the span of an action; `None` for TERMINATE, which computes nothing.
fn label_of(Tick { action, end, it, .. }: Tick) -> Option<Label> {
    let (row, what) = match action.kind {
        Kind::Forward if action.flags & flags::RECOMPUTE != 0 => (Row::Compute, "recompute"),
        Kind::Forward => (Row::Compute, "forward"),
        Kind::Backward => (Row::Compute, "backward"),
        Kind::Save => (Row::Stall, "save"),
        Kind::Restore => (Row::Stall, "restore"),
        Kind::Terminate | Kind::Error => return None,
    };
    Some(Label { row, what, ts: action.ts as i64, ts_end: end as i64, it, bytes: 0 })
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
        .value("every", schedule.macro_steps().every())
        .value("sweeps", schedule.sweeps());
    let inner = if schedule.has_inner_slots() { schedule.inner() } else { 0 };
    with_fields!(about, schedule, snapshots chunk)
        .value("inner", inner)
        .value("for_cache", schedule.cache())
        .value("after_save", schedule.ends_after_save())
        .text_of("tree", &schedule.tree().map_or(String::new(), |tree| tree.bits().to_string()))
}

fn of_plan(about: Object, plan: &Plan) -> Object {
    let about = about.value("cache", plan.cache).text_of("policy", plan.policy.name());
    with_fields!(about, plan, zero_copy raw_slots device_slots host_slots)
}

/// The costs that the plan was made with, in seconds and bytes. Times that differ from step to step
/// appear as their mean.
fn of_costs(costs: &Costs) -> Object {
    let mean = Object::new().value("forward", costs.forward.mean());
    with_fields!(mean.value("backward", costs.backward.mean()), costs,
        copy compress decompress upload download disk_read disk_write one_engine compressed
        state_bytes stored_bytes moved_bytes slot_bytes previous_bytes)
}
