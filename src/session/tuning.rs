//! Sessions that measure a shot, and plan by what was measured.

use super::{Engine, Session};
use crate::choice::Target;
use crate::choice::{candidates, storage_options};
use crate::device::{AppMemory, Stream};
use crate::error::{fail, Result};
use crate::files;
use crate::predict::Profile;
use crate::schedule::Kind;
use crate::tune::Tuner;

impl Session {
    /// Measures the next shot, or the one that has had no action yet.
    pub fn autotune(&mut self) -> Result<()> {
        self.process.check()?;
        if let Some(tick) = self.tick.filter(|tick| tick.action.kind != Kind::Terminate) {
            return fail!(
                State,
                "autotune at action {}: a whole shot is measured; call it before the first action",
                tick.it
            );
        }
        self.tuning = true;
        if self.tick.is_none() {
            self.begin_tuning();
        }
        Ok(())
    }

    /// Begins to measure, if that is asked for and the session has its device.
    pub(super) fn begin_tuning(&mut self) {
        if let (true, Some(engine), Some(target)) = (self.tuning, &mut self.engine, self.target) {
            let codecs = candidates(&self.config);
            engine.tuner = Some(Box::new(Tuner::new(
                target,
                &self.config,
                &self.layout,
                self.schedule.steps(),
                codecs,
            )));
            engine.tiers.device().time_gaps(true);
        }
    }

    /// Measures nothing any more.
    pub(super) fn end_tuning(&mut self) {
        self.tuning = false;
        if let Some(engine) = &mut self.engine {
            engine.tuner = None;
            engine.tiers.device().time_gaps(false);
        }
    }

    /// At the end of a shot: what was measured is the profile from now on, and is written to the
    /// file that is configured.
    pub(super) fn conclude_tuning(&mut self) -> Result<()> {
        let Some(engine) = self.engine.as_mut().filter(|engine| engine.tuner.is_some()) else {
            return Ok(());
        };
        engine.tiers.device().finish_calls()?;
        engine.listen()?;
        let Some(tuner) = engine.tuner.take() else { return Ok(()) };
        self.end_tuning();
        let measured = tuner.finish();
        match (&measured, &self.config.profile_file) {
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
        self.measured = Some(measured);
        Ok(())
    }

    /// The profile: what was measured last, or what was given.
    pub fn profile(&self) -> Result<Profile> {
        match (&self.measured, &self.config.profile) {
            (Some(measured), _) => measured.clone(),
            (None, Some(profile)) => Ok(profile.clone()),
            (None, None) => fail!(State, "the session has no profile: autotune a shot and run it to TERMINATE, or import one"),
        }
    }

    /// Plans anew by a profile, between shots. If that is impossible nothing changes; or else the
    /// profile is the session's.
    pub fn import(&mut self, profile: Profile) -> Result<()> {
        self.process.check()?;
        check_backend(&profile, self.target)?;
        let mut config = self.config.clone();
        config.profile = Some(profile);
        let offers = storage_options(&config, &self.layout)?;
        self.schedule
            .replan(self.number, offers.iter().map(|offer| offer.sizes.clone()).collect())?;
        (self.config, self.options, self.decision, self.measured) = (config, offers, None, None);
        Ok(())
    }
}

impl Engine {
    /// Tries the state of a SAVE, if it is one of those to be tried.
    pub(super) fn sample(&mut self, ts: i64, fields: &[AppMemory], stream: Stream) -> Result<()> {
        if self.tuner.as_ref().is_none_or(|tuner| !tuner.wants(ts)) {
            return Ok(());
        }
        // An empty call ends the stretch of the steps before.
        self.call(stream, "tune", |_| Ok(()))?;
        if let Some(tuner) = &mut self.tuner {
            tuner.sample(ts, fields, stream);
        }
        Ok(())
    }

    /// Hears from the device how long the steps took that have ended.
    pub(super) fn listen(&mut self) -> Result<()> {
        if let Some(tuner) = &mut self.tuner {
            tuner.gaps(self.tiers.device().gaps()?);
        }
        Ok(())
    }
}

/// A profile tells nothing of another backend.
pub(super) fn check_backend(profile: &Profile, target: Option<Target>) -> Result<()> {
    let names = |backend: i32| if backend == 1 { "host" } else { "CUDA" };
    let here = match target {
        Some(Target::Host) => 1,
        Some(Target::Cuda(_)) => 2,
        None => return Ok(()),
    };
    if profile.backend != 0 && profile.backend != here {
        let (there, here) = (names(profile.backend), names(here));
        return fail!(Config, "the profile was measured on the {there} backend, and the session is on the {here} one: measure there");
    }
    Ok(())
}
