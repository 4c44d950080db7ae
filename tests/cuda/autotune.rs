//! Measured shots on the CUDA backend, on the software driver: every restored state is right,
//! nothing is left behind, and the times are those of the device.

use crate::common::emu::emulated;
use crate::common::prelude::*;
use crate::common::{self, app, emu, here};
use app::{draw_job, emulate, run_tuned, Draws};
use gpuzip::predict::Profile;

/// Bytes of device memory, for staging buffers, working memory of kernels, slots, measurements of
/// codecs, and the application's fields.
const MEMORY: u64 = 1 << 22;

/// The first shot is measured, the second is not, and the third follows a plan by the measured
/// profile.
#[test]
fn shots_that_are_measured_are_right() {
    emulated!(kernels);
    for seed in 0..cases(20, 60) {
        let methods = &[Method::None, Method::Fp16];
        let (snapshots, steps, devices, shots) = (2..11, 8..28, 1..3, 3..4);
        let of = Draws { methods, snapshots, steps, devices, shots, ..Draws::PLAIN };
        let job = draw_job(seed, &of);
        let (mut begun, mut ended) = (0, 0);
        let mut profiles: Vec<Profile> = Vec::new();
        let before = |session: &mut gpuzip::session::Session| {
            begun += 1;
            if begun <= job.devices {
                session.autotune()
            } else {
                Ok(())
            }
        };
        let after = |session: &mut gpuzip::session::Session| {
            ended += 1;
            if ended <= job.devices {
                profiles.push(session.profile()?);
            } else if ended <= 2 * job.devices {
                session.import(profiles[0].clone())?;
            }
            Ok(())
        };
        let shots = || run_tuned(&job, seed, || {}, before, after);
        emulate(&job, seed, emu::mode(seed), MEMORY, shots);
        for profile in &profiles {
            assert_eq!(
                (profile.backend, profile.codecs.len()),
                (2, usize::from(job.config.codec.settings.method != Method::None))
            );
            assert!(
                profile.codecs.iter().all(|codec| codec.ratio > 1.0 && codec.ratio < 4.0),
                "seed {seed}: {profile:?}"
            );
        }
    }
}

/// In virtual time a forward step of the application takes as long as its copies.
#[test]
fn times_are_those_of_the_device() {
    emulated!(kernels);
    measure();
}

fn measure() {
    let job = app::reference(Policy::Clairvoyant, 3);
    let mut measured = None;
    let after = |session: &mut gpuzip::session::Session| {
        measured = Some(session.profile()?);
        Ok(())
    };
    let shot = || run_tuned(&job, 3, || {}, |session| session.autotune(), after);
    emulate(&job, 3, emu::TIMED, MEMORY, shot);
    let profile = measured.unwrap();
    // A forward step uploads a state. The measured time also contains the application's other work:
    // it poisons its fields and copies them out.
    let upload = profile.state_bytes as f64 / profile.h2d_gbs / 1e6;
    assert!(
        profile.forward_ms >= 0.9 * upload && profile.forward_ms < 20.0 * upload,
        "{profile:?}"
    );
    assert!(profile.d2d_gbs > 0.0 && profile.d2d_gbs.is_finite());
    let turns = Profile::in_turns(profile.h2d_gbs, profile.d2h_gbs);
    match std::env::var_os("CUDA_EMU_COPY_ENGINES") {
        None => assert!(profile.both_gbs > 1.5 * turns, "{turns}: {profile:?}"),
        Some(_) => assert_eq!(profile.both_gbs, turns, "{profile:?}"),
    }
}

/// A device with one copy engine.
#[test]
fn one_copy_engine_is_found() {
    let images = common::scratch("one_copy_engine_is_found").display().to_string();
    let variables = [("GPUZIP_CACHE_DIR", &*images), ("CUDA_EMU_COPY_ENGINES", "1")];
    if common::have("c++") && emu::inside(here!(), &variables) {
        measure();
    }
}
