//! Measured shots on the CUDA backend, on the software driver: every restored state is right,
//! nothing is left behind, and the times are those of the device.

use crate::common::cases::cases;
use crate::common::{self, app, emu};
use app::{config, host_syncs, run_tuned, Draw, Job, Streams};
use gpuzip::codec::{ErrorBound, Method, Settings};
use gpuzip::config::Config;
use gpuzip::plan::Policy;
use gpuzip::predict::Profile;
use gpuzip::schedule::Algorithm;

/// Bytes of device memory, for staging buffers, working memory of kernels, slots, measurements of
/// codecs, and the application's fields.
const MEMORY: u64 = 1 << 22;

fn draw_job(seed: u64) -> Job {
    let mut draw = Draw(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    let algorithms = [
        Algorithm::Revolve,
        Algorithm::Uniform,
        Algorithm::Zcut,
        Algorithm::TwoLevel,
        Algorithm::StoreAll,
        Algorithm::Hrevolve,
    ];
    let method = if draw.below(2) == 0 { Method::None } else { Method::Fp16 };
    let config = Config {
        max_in_flight: [1, 3, 64][draw.below(3) as usize],
        compression: Settings { method, bound: ErrorBound::OfMax(1e-3), reject_nonfinite: false },
        range_actions: draw.below(2) == 0,
        ..config(
            algorithms[draw.below(6) as usize],
            2 + draw.below(9),
            draw.below(6),
            Policy::Clairvoyant,
        )
    };
    let streams = [Streams::Default, Streams::Own, Streams::Alternating, Streams::Independent]
        [draw.below(4) as usize];
    Job {
        config,
        steps: 8 + draw.below(20),
        devices: 1 + draw.below(2) as i32,
        shots: 3,
        streams,
        stubborn: false,
    }
}

/// The first shot is measured, the second is not, and the third follows a plan by the measured
/// profile.
#[test]
fn shots_that_are_measured_are_right() {
    if !emu::with_kernels("shots_that_are_measured_are_right") {
        return;
    }
    for seed in 0..cases(20, 60) {
        let mode = [emu::RANDOM, emu::LATE, emu::EARLY, emu::TIMED][seed as usize % 4];
        let job = draw_job(seed);
        assert_eq!(emu::reset(seed, mode, job.devices, MEMORY), 0, "left over before seed {seed}");
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
        let outcome = run_tuned(&job, seed, host_syncs, || {}, before, after)
            .unwrap_or_else(|e| panic!("seed {seed}, {job:?}: {e}"));
        let left = emu::counters();
        assert_eq!(
            (left.streams, left.events, left.allocations, left.host_allocations, left.retained),
            (0, 0, 0, 0, 0),
            "seed {seed}: {left:?}"
        );
        assert_eq!(outcome.wrong, 0, "seed {seed}, mode {mode}: {job:?}");
        for profile in &profiles {
            assert_eq!(
                (profile.backend, profile.codecs.len()),
                (2, usize::from(job.config.compression.method != Method::None))
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
    if emu::with_kernels("times_are_those_of_the_device") {
        measure();
    }
}

fn measure() {
    let base = app::reference(Policy::Clairvoyant, 3);
    let job = Job { shots: 1, ..base };
    assert_eq!(emu::reset(3, emu::TIMED, 1, MEMORY), 0);
    let mut measured = None;
    let outcome = run_tuned(
        &job,
        3,
        host_syncs,
        || {},
        |session| session.autotune(),
        |session| {
            measured = Some(session.profile()?);
            Ok(())
        },
    );
    assert_eq!(outcome.unwrap().wrong, 0);
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
    if common::have("c++") && emu::inside("one_copy_engine_is_found", &variables) {
        measure();
    }
}
