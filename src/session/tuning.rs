//! Autotuning: a session measures a shot, and plans by the measured profile.

use super::{Engine, Session};
use crate::choice::{Job, Target, Why};
use crate::device::{AppMemory, Stream};
use crate::error::{fail, Result};
use crate::files;
use crate::predict::{CodecProfile, Profile};
use crate::tune::Tuner;

impl Session {
    /// Measures the next shot, or the current one if it has had no action yet. Fails in the middle
    /// of a shot.
    pub fn autotune(&mut self) -> Result<()> {
        self.process.check()?;
        if let Some(tick) = self.shot.tick.filter(|_| !self.is_between_shots()) {
            return fail!(
                State,
                "autotune at action {}: a whole shot is measured; call it before the first action",
                tick.it
            );
        }
        self.watch.tuning = true;
        if self.shot.tick.is_none() {
            self.begin_tuning();
        }
        Ok(())
    }

    /// Begins to measure, if that is asked for and the session has opened its device.
    pub(super) fn begin_tuning(&mut self) {
        if let (true, Some(engine), Some(target)) =
            (self.watch.tuning, &mut self.engine, self.basis.target)
        {
            let planned = engine.spec.disk_bytes(engine.tiers.plan());
            let mut job = self.basis.job.clone();
            job.disk_budget = job.disk_budget.saturating_sub(planned);
            let tuner = Tuner::new(target, job, &self.basis.layout, self.schedule.steps());
            engine.tuner = Some(Box::new(tuner));
            engine.tiers.device().time_gaps(true);
        }
    }

    /// Stops measuring and drops what was measured.
    pub(super) fn end_tuning(&mut self) {
        self.watch.tuning = false;
        if let Some(engine) = &mut self.engine {
            engine.tuner = None;
            engine.tiers.device().time_gaps(false);
        }
    }

    /// Turns the measurements of a finished shot into the session's profile, and writes the profile
    /// to `profile_path` if the configuration names it. Does nothing if the shot is not measured.
    pub(super) fn conclude_tuning(&mut self) -> Result<()> {
        let Some(engine) = self.engine.as_mut().filter(|engine| engine.tuner.is_some()) else {
            return Ok(());
        };
        engine.tiers.device().finish_calls()?;
        engine.listen()?;
        let Some(tuner) = engine.tuner.take() else { return Ok(()) };
        let busy = engine.tiers.device().busy_processors();
        let in_sequences = self.in_sequences()?;
        self.end_tuning();
        let measured = tuner.finish(busy).map(|profile| {
            let codecs = in_sequences.into_iter().chain(profile.codecs).collect();
            Profile { codecs, ..profile }
        });
        match (&measured, &self.basis.job.config.device.profile_file) {
            (Err(error), _) => log::warn!("autotune: {error}"),
            (Ok(profile), Some(path)) => match files::replace(path, &profile.to_bytes()) {
                Ok(()) => log::info!("the profile was written to {}", path.display()),
                Err(error) => log::warn!(
                    "profile_path = {}: the profile could not be written: {error}",
                    path.display()
                ),
            },
            (Ok(_), None) => {}
        }
        self.watch.measured = Some(measured);
        Ok(())
    }

    /// The figures of the codec in this shot, if its snapshots were in a sequence. Single states, which the tuner
    /// samples, tell nothing of sequences; what a whole sweep takes decides, so that its mean ratio is the
    /// worst one, too.
    fn in_sequences(&mut self) -> Result<Option<CodecProfile>> {
        let Some(engine) = &self.engine else { return Ok(None) };
        let codec = &engine.spec.storage.codec;
        let [raw, coded] = engine.tiers.coded().map(|bytes| bytes as f64);
        if !codec.sequences || coded == 0.0 {
            return Ok(None);
        }
        let of_codec = CodecProfile::of(codec);
        let stats = self.stats()?;
        let gbs = |seconds: f64| raw / seconds.max(1e-9) / 1e9;
        Ok(Some(CodecProfile {
            compress_gbs: gbs(stats.compress),
            decompress_gbs: gbs(stats.decompress),
            ratio: raw / coded,
            worst_ratio: raw / coded,
            ..of_codec
        }))
    }

    /// Returns the profile that was measured last, or else the configured one.
    pub fn profile(&self) -> Result<Profile> {
        match (&self.watch.measured, &self.basis.job.profile) {
            (Some(measured), _) => measured.clone(),
            (None, Some(profile)) => Ok(profile.clone()),
            (None, None) => fail!(State, "the session has no profile: autotune a shot and run it to TERMINATE, or import one"),
        }
    }

    /// Gives the steps of each part of the sweep times of their own, in milliseconds of a forward and
    /// of a backward step, and plans anew by them, between shots. If this fails, nothing has changed.
    pub fn set_step_times(&mut self, steps: &[[f64; 2]]) -> Result<()> {
        self.process.check()?;
        let state_bytes = self.basis.layout.slot_bytes;
        // The profile of the plan: one that was measured since is not used before it is imported.
        let profile = match (&self.basis.job.profile, self.basis.target) {
            (Some(profile), _) => profile.clone(),
            (_, Some(target)) => {
                let link = self.basis.job.config.device.link_bandwidth;
                Profile::typical(target == Target::Host, state_bytes, link)
            }
            (_, None) => {
                return fail!(State, "the session does not know its backend yet, whose speeds go with the times of steps: set backend, or give the fields with their data at init")
            }
        };
        self.import(profile.with_steps(steps, state_bytes)?)
    }

    /// Takes `profile` as the session's profile and plans anew by it, between shots. If this fails,
    /// nothing has changed.
    pub fn import(&mut self, profile: Profile) -> Result<()> {
        self.process.check()?;
        check_backend(&profile, self.basis.target)?;
        let disk_budget = self.basis.job.config.tiers.disk_budget;
        let job = Job { profile: Some(profile), disk_budget, ..self.basis.job.clone() };
        self.decide_anew(Why::OtherTiers, self.basis.with(job)?)?;
        self.watch.measured = None;
        Ok(())
    }
}

impl Engine {
    /// Lets the tuner time copies and codecs on the state u(ts) of a SAVE, if `ts` is one of the
    /// states that the tuner samples.
    pub(super) fn sample(&mut self, ts: i64, fields: &[AppMemory], stream: Stream) -> Result<()> {
        if self.tuner.as_ref().is_none_or(|tuner| !tuner.wants(ts)) {
            return Ok(());
        }
        // An empty call ends the time interval of the steps before, so that they do not count the
        // sampling.
        self.call(stream, "tune", |_| Ok(()))?;
        if let Some(tuner) = &mut self.tuner {
            tuner.sample(ts, fields, stream);
        }
        Ok(())
    }

    /// Passes the times between calls that the device has measured so far to the tuner.
    pub(super) fn listen(&mut self) -> Result<()> {
        if let Some(tuner) = &mut self.tuner {
            tuner.gaps(self.tiers.device().gaps()?);
        }
        Ok(())
    }
}

/// Refuses a profile that was measured on another backend.
pub(super) fn check_backend(profile: &Profile, target: Option<Target>) -> Result<()> {
    let Some(target) = target else { return Ok(()) };
    let on_host = target == Target::Host;
    if profile.backend != 0 && (profile.backend == 1) != on_host {
        let (there, here) = if on_host { ("CUDA", "host") } else { ("host", "CUDA") };
        return fail!(Config, "the profile was measured on the {there} backend, and the session is on the {here} one: measure there");
    }
    Ok(())
}
