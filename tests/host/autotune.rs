//! Sessions that measure a shot and plan by profiles, on the host backend: measuring changes
//! nothing in the shot, a profile holds the measured values, and a plan is a function of
//! configuration and profile.

use crate::common::prelude::*;
use gpuzip::predict::{CodecProfile, Profile};
use gpuzip::schedule::Schedule;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const STEPS: u32 = 60;
const VALUES: usize = 1 << 15;

fn fields() -> [Field; 2] {
    let level = field([VALUES as u64 / 64, 64, 1], Scalar::F32);
    [level, Field { previous_of: Some(0), ..level }]
}

/// A value of an application whose states are waves that fill more and more of the grid.
fn waves(_: u64, ts: i64, _: usize, i: usize) -> f64 {
    static WAVE: OnceLock<Vec<f64>> = OnceLock::new();
    let at = |j: usize| (0.01 * j as f64).sin() * (0.0007 * j as f64).cos();
    let wave = WAVE.get_or_init(|| (0..VALUES + 30 * STEPS as usize).map(at).collect());
    let front = VALUES as i64 * ts / i64::from(STEPS);
    if (i as i64) < front {
        wave[i + 30 * ts as usize]
    } else {
        0.0
    }
}

fn app() -> HostApp<'static> {
    HostApp::new(&fields(), waves)
}

fn open(config: &Config) -> Session {
    Session::new(config.clone(), STEPS.into(), &unplaced(&fields())).unwrap()
}

/// Plays a shot of the application, and returns its statistics.
fn shot(session: &mut Session) -> Stats {
    app().shot(session).unwrap()
}

fn host() -> Config {
    Config::default().with(|c| c.device.backend = Backend::Host)
}

const STATE: u64 = 8 * VALUES as u64;

fn bounded(method: Method) -> Settings {
    coding(method, ErrorBound::OfMax(1e-3))
}

/// Lets the session choose any codec with an error bound, within budgets that hold few raw states.
fn any_codec() -> Config {
    host().with(|c| {
        c.codec.any_codec = true;
        c.codec.settings = bounded(Method::None);
        c.tiers.device_budget = 3 * STATE;
        c.tiers.host_budget = 6 * STATE;
    })
}

#[test]
fn a_measured_shot_is_like_any_other_and_what_is_measured_is_there() {
    let (forward, backward, link) = (Duration::from_millis(1), Duration::from_millis(3), 2e8);
    let base = any_codec().with(|c| {
        c.schedule.algorithm = Some(Algorithm::Revolve);
        c.schedule.snapshots = 6;
        c.tiers.cache = 2;
        c.device.link_bandwidth = link;
    });
    // On a busy machine a measurement may be far off, but not in all of eight attempts.
    let mut last = String::new();
    for _ in 0..8 {
        let mut session = open(&base);
        let mut app = app();
        app.times = [forward, backward];
        session.autotune().unwrap();
        session.setup().unwrap();
        let measured = app.shot(&mut session).unwrap();
        let profile = session.profile().unwrap();
        let own = app.mean_ms();
        session.setup().unwrap();
        let bytes = |s: &Stats| (counts(s), s.h2d_bytes, s.d2h_bytes);
        assert_eq!(bytes(&app.shot(&mut session).unwrap()), bytes(&measured));
        assert_eq!((profile.backend, profile.state_bytes), (1, STATE));
        last = format!("{own:?} {profile:?}");
        let methods: Vec<i32> = profile.codecs.iter().map(|codec| codec.compressor).collect();
        assert!(methods.starts_with(&[4, 5, 3]), "{methods:?}");
        assert!(profile.codecs.iter().all(|c| (c.bound_mode, c.bound) == (0, 1e-3)
            && c.worst_ratio <= c.ratio
            && c.compress_gbs > 0.0));
        // The simulated link is never quicker than it says.
        assert!(profile.h2d_gbs <= 0.201 && profile.d2h_gbs <= 0.201, "{profile:?}");
        let near = |what: f64, is: f64| what > 0.85 * is && what < 1.2 * is;
        let steps = near(profile.forward_ms, own[0]) && near(profile.backward_ms, own[1]);
        // The steps of this application keep a processor busy.
        let most = f64::from(gpuzip::available::processors()) - 0.5;
        if profile.idle_processors < most && steps && profile.h2d_gbs > 0.1 && profile.d2h_gbs > 0.1
        {
            return;
        }
    }
    panic!("{last}");
}

/// The measured ratios are those of states during the sweep. The state at rest, u(0), which is all
/// zeros, is left out.
#[test]
fn ratios_are_those_of_live_states() {
    let base = host().with(|c| {
        c.codec.settings = bounded(Method::Lorenzo);
        c.schedule.algorithm = Some(Algorithm::StoreAll);
    });
    let mut session = open(&base);
    session.autotune().unwrap();
    shot(&mut session);
    let profile = session.profile().unwrap();
    let mut codec =
        SnapshotCodec::new(bounded(Method::Lorenzo), &Layout::new(fields().to_vec()).unwrap())
            .unwrap();
    let mut stream = vec![0; codec.capacity()];
    let mut app = app();
    let mut ratio = |ts| {
        app.set(ts);
        let memory: Vec<_> = app.fields().iter().map(|field| field.memory.unwrap()).collect();
        // SAFETY: the fields are the application's, and nobody else uses them now.
        STATE as f64 / unsafe { codec.compress(&memory, &mut stream) }.unwrap() as f64
    };
    // The session tries the first state in each eighth of the sweep, but in the first eighth u(1),
    // since u(0) is at rest.
    let tried: Vec<f64> = [1, 8, 15, 23, 30, 38, 45, 53].map(&mut ratio).to_vec();
    let worst = tried.iter().copied().fold(f64::INFINITY, f64::min);
    let mean = 1.0 / (tried.iter().map(|r| 1.0 / r).sum::<f64>() / 8.0);
    let [found] = &profile.codecs[..] else { panic!("{profile:?}") };
    assert!(
        (found.worst_ratio / worst - 1.0).abs() < 1e-12 && (found.ratio / mean - 1.0).abs() < 1e-12,
        "{found:?} {worst} {mean}"
    );
    assert!(found.ratio > 2.0 && ratio(0) > 10.0 * found.ratio);
}

/// Returns the profile of a machine: the speed of the link in each direction and the speed of all
/// codecs, both in GB/s, and the ratio of each codec.
fn machine(link_gbs: f64, codec_gbs: f64, codecs: &[(Method, f64)]) -> Profile {
    let codec = |(method, ratio): &(Method, f64)| CodecProfile {
        compress_gbs: codec_gbs,
        decompress_gbs: codec_gbs,
        ratio: *ratio,
        worst_ratio: *ratio,
        ..CodecProfile::of(&bounded(method.clone()))
    };
    let codecs = codecs.iter().map(codec).collect();
    let speeds = Profile {
        forward_ms: 1.0,
        backward_ms: 1.0,
        h2d_gbs: link_gbs,
        d2h_gbs: link_gbs,
        ..Profile::typical_gpu(STATE)
    };
    Profile { backend: 1, codecs, ..speeds }
}

/// Returns the profile of a machine with a link of 0.02 GB/s, on which the Lorenzo codec has the
/// ratio `lorenzo` and the DCT codec the ratio `dct`, and both code `codec_gbs` GB/s.
fn both(codec_gbs: f64, lorenzo: f64, dct: f64) -> Profile {
    machine(0.02, codec_gbs, &[(Method::Lorenzo, lorenzo), (Method::Dct, dct)])
}

fn schedule(session: &Session) -> (Schedule, Vec<String>) {
    let schedule = session.schedule().decide().unwrap();
    let actions = schedule.actions().map(|action| format!("{action:?}")).collect();
    (schedule, actions)
}

/// Each imported profile gives the next shot of the session another plan, and chooses its codec.
#[test]
fn profiles_change_the_plan_between_shots() {
    // Measurements of a codec with another error bound say nothing about the codec with the
    // configured bound.
    let mut other = both(100.0, 10.0, 10.0);
    other.codecs.iter_mut().for_each(|codec| codec.bound = 1e-4);
    let profiles = [
        (both(100.0, 10.0, 2.0), Method::Lorenzo),
        // These codecs are slower than doing steps again.
        (both(0.001, 10.0, 10.0), Method::None),
        (both(100.0, 2.0, 30.0), Method::Dct),
        (machine(1000.0, 1.0, &[]), Method::None),
        (both(100.0, 2.0, 10.0), Method::Dct),
        (other, Method::None),
    ];
    let mut session = open(&any_codec());
    assert_eq!(session.tiers().storage.codec.method, Method::None);
    let mut plans = Vec::new();
    for (profile, method) in profiles {
        session.import(profile.clone()).unwrap();
        session.setup().unwrap();
        let stats = shot(&mut session);
        let (schedule, actions) = schedule(&session);
        let steps = (stats.backward_steps, stats.forward_steps);
        assert_eq!(steps, (STEPS.into(), schedule.forward_steps()));
        assert_eq!(session.tiers().storage.codec.method, method, "{profile:?}");
        assert_eq!(stats.stored_bytes < stats.raw_bytes, method != Method::None);
        // A new session with the same profile has the same plan: earlier profiles of the first
        // session have no influence.
        let fresh = open(&any_codec().with(|c| c.device.profile = Some(profile)));
        assert_eq!(
            (&fresh.tiers().storage.codec.method, &self::schedule(&fresh).1),
            (&method, &actions)
        );
        plans.push(actions);
    }
    assert_ne!(plans[0], plans[1]);
}

#[test]
fn named_algorithms_choose_codecs_too() {
    for algorithm in
        [Algorithm::Revolve, Algorithm::StoreAll, Algorithm::TwoLevel, Algorithm::Hrevolve]
    {
        let config = any_codec().with(|c| {
            c.schedule.algorithm = Some(algorithm);
            c.tiers.host_budget = 64 * STATE;
            c.device.profile = Some(both(100.0, 8.0, 2.0));
        });
        let mut session = open(&config);
        assert_eq!(shot(&mut session).backward_steps, u64::from(STEPS));
        assert_eq!(session.tiers().storage.codec.method, Method::Lorenzo);
    }
}

/// All sessions that share a schedule import a profile; the next shot follows the new plan in every
/// session.
#[test]
fn sessions_of_one_schedule_change_together() {
    let config = any_codec();
    let cursor = Arc::new(SharedSchedule::new(config.clone(), STEPS.into()).unwrap());
    let attach =
        |()| Session::attach(cursor.clone(), config.clone(), &unplaced(&fields())).unwrap();
    let mut sessions = [(); 2].map(attach);
    let mut apps = [app(), app()];
    for profile in [None, Some(both(100.0, 10.0, 2.0)), Some(both(100.0, 2.0, 30.0))] {
        for session in &mut sessions {
            profile.clone().map_or(Ok(()), |profile| session.import(profile)).unwrap();
        }
        sessions.iter_mut().for_each(|session| session.setup().unwrap());
        while step_all(&mut sessions, &mut apps).unwrap().is_some() {}
        assert!(apps.iter().all(|app| app.reversed == STEPS));
        assert_eq!(sessions[0].tiers().storage.codec, sessions[1].tiers().storage.codec);
        assert_eq!(sessions[0].tiers().storage.codec.method == Method::None, profile.is_none());
    }
}

#[test]
fn imports_come_between_shots_and_change_nothing_if_they_fail() {
    let mut session = open(&any_codec());
    let good = both(100.0, 10.0, 2.0);
    session.get_action().unwrap();
    refused(session.import(good.clone()), Code::State, &["action 0"]);
    refused(session.autotune(), Code::State, &["before the first action"]);
    session.setup().unwrap();
    let before = schedule(&session);
    let of_cuda = Profile { backend: 2, ..good.clone() };
    refused(session.import(of_cuda), Code::Config, &["measured on the CUDA backend"]);
    refused(session.profile(), Code::State, &["no profile"]);
    assert_eq!(schedule(&session).1, before.1);
    session.import(good.clone()).unwrap();
    assert_eq!(session.profile().unwrap(), good);
    shot(&mut session);
    // A profile that is imported after TERMINATE applies to the next shot; the statistics of the
    // finished shot stay.
    session.import(both(0.001, 10.0, 10.0)).unwrap();
    assert_eq!(session.stats().unwrap().backward_steps, u64::from(STEPS));
    session.setup().unwrap();
    shot(&mut session);
    assert_eq!(session.tiers().storage.codec.method, Method::None);
}

/// A shot that `setup` breaks off gives no profile. A later shot is measured only if `autotune` is
/// called again.
#[test]
fn shots_that_end_early_have_no_profile() {
    let mut session = open(&host().with(|c| {
        c.schedule.algorithm = Some(Algorithm::Revolve);
        c.schedule.snapshots = 5;
    }));
    session.autotune().unwrap();
    session.get_action().unwrap();
    session.setup().unwrap();
    shot(&mut session);
    refused(session.profile(), Code::State, &[]);
    session.autotune().unwrap();
    session.setup().unwrap();
    shot(&mut session);
    assert!(session.profile().unwrap().forward_ms > 0.0);
}

/// A shot whose number of steps is not known is measured, too: one state from each power of 2 to the next.
#[test]
fn shots_of_unknown_length_are_measured() {
    let config = host().with(|c| {
        c.schedule.algorithm = Some(Algorithm::Online);
        c.schedule.snapshots = 5;
        c.codec.settings = bounded(Method::Lorenzo);
    });
    let mut session = Session::new(config, 0, &unplaced(&fields())).unwrap();
    session.autotune().unwrap();
    let mut app = app();
    app.times = [Duration::from_micros(300), Duration::from_micros(900)];
    while let Some(tick) = step(&mut session, &mut app).unwrap() {
        if is_end(tick, STEPS, false) {
            session.end_forward().unwrap();
        }
    }
    assert_eq!(app.reversed, STEPS);
    let profile = session.profile().unwrap();
    // The steps take at least these times; a busy machine makes them longer.
    assert!(profile.forward_ms > 0.25 && profile.backward_ms > 0.75, "{profile:?}");
    assert!(profile.d2d_gbs > 0.0 && profile.h2d_gbs > 0.0, "{profile:?}");
    assert!(profile.codecs.len() == 1 && profile.codecs[0].ratio > 1.5, "{profile:?}");
}

/// The times of steps in a profile scale with the bytes of a state, so that slabs of unequal size
/// can share a profile.
#[test]
fn steps_of_larger_states_take_longer() {
    use gpuzip::predict::Costs;
    let profile = machine(1.0, 1.0, &[]);
    let (same, twice) = (Costs::new(&profile, STATE, None), Costs::new(&profile, 2 * STATE, None));
    assert_eq!((same.forward.of(0), twice.forward.of(0)), (1e-3, 2e-3));
    assert_eq!(twice.backward.of(0), 2e-3);
}

/// The measurement of the disk takes its room out of `disk_budget`, beside the slots of the plan.
#[test]
fn the_measurement_keeps_the_disk_budget() {
    let folder = tempdir("autotune-disk");
    let pages = STATE.next_multiple_of(4096);
    for spare in [0, 1] {
        let config = host().with(|c| {
            c.schedule.algorithm = Some(Algorithm::Revolve);
            c.tiers.host_budget = 5 * STATE;
            c.tiers.disk_budget = (8 + spare) * pages;
            c.tiers.disk_folders = vec![folder.clone()];
        });
        let mut session = open(&config);
        session.autotune().unwrap();
        let (mut app, mut most) = (app(), 0);
        while step(&mut session, &mut app).unwrap().is_some() {
            most = most.max(bytes_of(&nameless_in(&folder)));
        }
        assert!(
            most > 0 && most <= config.tiers.disk_budget,
            "{most} of {}",
            config.tiers.disk_budget
        );
    }
}

/// A forward step that the application computes between `save_begin` and `save_commit` is measured as one:
/// however states are saved, the steps take at least as long as they do.
#[test]
fn a_step_in_the_slot_is_measured_as_a_step() {
    const FORWARD: Duration = Duration::from_millis(2);
    for (zero_copy, algorithm) in
        [(false, Algorithm::StoreAll), (true, Algorithm::StoreAll), (true, Algorithm::Revolve)]
    {
        let mut session = open(&host().with(|c| {
            c.tiers.zero_copy = zero_copy;
            c.schedule.algorithm = Some(algorithm);
            c.schedule.snapshots = if algorithm == Algorithm::Revolve { 5 } else { 0 };
        }));
        session.autotune().unwrap();
        let mut app = app();
        app.times = [FORWARD, Duration::ZERO];
        app.slots = zero_copy.then(|| Slots::new(true, || false));
        app.shot(&mut session).unwrap();
        let forward = session.profile().unwrap().forward_ms;
        assert!(forward >= 2.0, "{algorithm:?}, zero copy {zero_copy}: {forward} ms");
    }
}

#[test]
fn zero_copy_is_measured_too() {
    let mut session = open(&host().with(|c| {
        c.tiers.zero_copy = true;
        c.codec.settings = bounded(Method::Dct);
        c.schedule.algorithm = Some(Algorithm::Revolve);
        c.schedule.snapshots = 5;
    }));
    session.autotune().unwrap();
    let mut app = app();
    app.slots = Some(Slots::new(false, || false));
    app.shot(&mut session).unwrap();
    let profile = session.profile().unwrap();
    assert!(
        profile.codecs.len() == 1
            && profile.codecs[0].ratio > 2.0
            && profile.codecs[0].ratio < 100.0,
        "{profile:?}"
    );
}

/// The measured shot writes its profile to the file in one piece, and the file holds the bytes of
/// the profile.
#[test]
fn the_file_is_the_profile() {
    let path = tempdir("autotune-file").join("site.profile");
    let mut session = open(&any_codec().with(|c| c.device.profile_file = Some(path.clone())));
    session.autotune().unwrap();
    shot(&mut session);
    let profile = session.profile().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), profile.to_bytes());
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    // If the file cannot be written, the shot and its profile are the same.
    let nowhere = path.join("under-a-file");
    let mut session = open(&any_codec().with(|c| c.device.profile_file = Some(nowhere)));
    session.autotune().unwrap();
    assert_eq!(shot(&mut session).backward_steps, u64::from(STEPS));
    assert!(session.profile().is_ok());
}
