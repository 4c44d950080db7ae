//! Sessions that measure a shot and plan by profiles, on the host backend: measuring changes
//! nothing in the shot, a profile holds the measured values, and a plan is a function of
//! configuration and profile.

mod choice;

use crate::common;
use common::tempdir;
use gpuzip::choice::SharedSchedule;
use gpuzip::codec::{ErrorBound, Method, Settings, SnapshotCodec};
use gpuzip::config::{Backend, Config};
use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::error::Code;
use gpuzip::layout::{Field, Layout};
use gpuzip::predict::{CodecProfile, Profile};
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{Algorithm, Kind, Schedule};
use gpuzip::session::Session;
use gpuzip::stats::Stats;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

const HOST: Stream = Stream(std::ptr::null_mut());
const STEPS: u32 = 60;
const VALUES: usize = 1 << 15;

fn fields() -> Vec<Field> {
    let field =
        |previous_of| Field { n: [VALUES as u64 / 64, 64, 1], scalar: Scalar::F32, previous_of };
    vec![field(None), field(Some(0))]
}

/// An application whose states are waves that fill more and more of the grid. `forward` and
/// `backward` are the shortest times of its steps.
struct App {
    data: [Vec<f32>; 2],
    forward: Duration,
    backward: Duration,
    /// Seconds that the forward and the backward steps took by the application's own clock, and the
    /// numbers of these steps.
    spent: [(f64, u32); 2],
}

/// The fields of u(ts).
fn state(ts: u32) -> &'static [Vec<f32>; 2] {
    static STATES: OnceLock<Vec<[Vec<f32>; 2]>> = OnceLock::new();
    let value = |ts: u32, k: u32, i: usize| {
        let (front, t) = (VALUES * ts as usize / STEPS as usize, ts as f32 - k as f32);
        if i < front {
            (0.01 * i as f32 + 0.3 * t).sin() * (0.0007 * i as f32).cos()
        } else {
            0.0
        }
    };
    let all = || {
        (0..STEPS)
            .map(|ts| [0, 1].map(|k| (0..VALUES).map(|i| value(ts, k, i)).collect()))
            .collect()
    };
    &STATES.get_or_init(all)[ts as usize]
}

impl App {
    fn new(forward: Duration, backward: Duration) -> Self {
        App {
            data: [vec![0.0; VALUES], vec![0.0; VALUES]],
            forward,
            backward,
            spent: [(0.0, 0); 2],
        }
    }

    fn set(&mut self, ts: u32) {
        self.data.iter_mut().zip(state(ts)).for_each(|(data, state)| data.copy_from_slice(state));
    }

    /// Runs `body` as a forward step (`kind` 0) or a backward step (`kind` 1), which takes at least
    /// the configured time.
    fn compute(&mut self, kind: usize, body: impl FnOnce(&mut Self)) {
        let begin = Instant::now();
        body(self);
        while begin.elapsed() < [self.forward, self.backward][kind] {
            std::hint::spin_loop();
        }
        self.spent[kind].0 += begin.elapsed().as_secs_f64();
        self.spent[kind].1 += 1;
    }

    fn mean_ms(&self, kind: usize) -> f64 {
        1e3 * self.spent[kind].0 / self.spent[kind].1 as f64
    }

    fn memory(&mut self) -> Vec<AppMemory> {
        // SAFETY: the vectors outlive the calls that the memory is made for, and nothing else
        // touches them meanwhile.
        self.data
            .iter_mut()
            .map(|data| unsafe { AppMemory::new(data.as_mut_ptr().cast(), 4 * VALUES) })
            .collect()
    }

    fn app_fields(&mut self) -> Vec<AppField> {
        let memory = self.memory();
        fields()
            .into_iter()
            .zip(memory)
            .map(|(field, memory)| AppField { field, memory: Some(memory) })
            .collect()
    }
}

/// Runs a shot to TERMINATE and checks that every value of a restored state differs by at most
/// `error` from the saved value. Returns the statistics.
fn shot(session: &mut Session, app: &mut App, error: f32) -> Stats {
    app.set(0);
    loop {
        let tick = session.get_action().unwrap();
        let ts = tick.action.ts;
        match tick.action.kind {
            Kind::Forward => app.compute(0, |app| app.set(ts)),
            Kind::Save => session.save(ts.into(), &app.app_fields(), HOST).unwrap(),
            Kind::Restore => {
                app.data.iter_mut().for_each(|data| data.fill(f32::NAN));
                session.retrieve(ts.into(), &app.app_fields(), HOST).unwrap();
                let pairs = app.data.iter().flatten().zip(state(ts).iter().flatten());
                assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() <= error), "state {ts}");
                app.set(ts);
            }
            Kind::Backward => app.compute(1, |_| {}),
            Kind::Terminate | Kind::Error => break,
        }
    }
    session.stats().unwrap()
}

fn open(config: &Config) -> Session {
    let unplaced: Vec<AppField> =
        fields().into_iter().map(|field| AppField { field, memory: None }).collect();
    Session::new(config.clone(), STEPS.into(), &unplaced).unwrap()
}

fn quick() -> App {
    App::new(Duration::ZERO, Duration::ZERO)
}

fn host() -> Config {
    Config { backend: Backend::Host, ..Config::default() }
}

const STATE: u64 = 8 * VALUES as u64;

fn bounded(method: Method) -> Settings {
    Settings { method, bound: ErrorBound::OfMax(1e-3), reject_nonfinite: false }
}

/// Lets the session choose any codec with an error bound, within budgets that hold few raw states.
fn any_codec() -> Config {
    Config {
        any_codec: true,
        compression: bounded(Method::None),
        device_budget: 3 * STATE,
        host_budget: 6 * STATE,
        ..host()
    }
}

#[test]
fn a_measured_shot_is_like_any_other_and_what_is_measured_is_there() {
    let (forward, backward, link) = (Duration::from_millis(1), Duration::from_millis(3), 2e8);
    let base = Config {
        algorithm: Some(Algorithm::Revolve),
        snapshots: 6,
        cache: 2,
        link_bandwidth: link,
        ..any_codec()
    };
    // On a busy machine a measurement may be far off, but not in all of eight attempts.
    let mut last = String::new();
    for _ in 0..8 {
        let mut session = open(&base);
        let mut app = App::new(forward, backward);
        session.autotune().unwrap();
        session.setup().unwrap();
        let measured = shot(&mut session, &mut app, 3e-3);
        let profile = session.profile().unwrap();
        let own = [app.mean_ms(0), app.mean_ms(1)];
        session.setup().unwrap();
        let counts = |s: &Stats| {
            (
                s.forward_steps,
                s.backward_steps,
                s.saves,
                s.restores,
                s.h2d_bytes,
                s.d2h_bytes,
                s.stored_bytes,
            )
        };
        assert_eq!(counts(&shot(&mut session, &mut app, 3e-3)), counts(&measured));
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
        if steps && profile.h2d_gbs > 0.1 && profile.d2h_gbs > 0.1 {
            return;
        }
    }
    panic!("{last}");
}

/// The measured ratios are those of states during the sweep. The state at rest, u(0), which is all
/// zeros, is left out.
#[test]
fn ratios_are_those_of_live_states() {
    let base = Config {
        compression: bounded(Method::Lorenzo),
        algorithm: Some(Algorithm::StoreAll),
        ..host()
    };
    let mut session = open(&base);
    session.autotune().unwrap();
    shot(&mut session, &mut quick(), 3e-3);
    let profile = session.profile().unwrap();
    let mut codec =
        SnapshotCodec::new(bounded(Method::Lorenzo), &Layout::new(fields()).unwrap()).unwrap();
    let mut stream = vec![0; codec.capacity()];
    let mut app = quick();
    let mut ratio = |ts| {
        app.set(ts);
        // SAFETY: the fields are the application's, and nobody else uses them now.
        STATE as f64 / unsafe { codec.compress(&app.memory(), &mut stream) }.unwrap() as f64
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

/// Each imported profile gives the next shot of the session another plan, and every restored state
/// is right.
#[test]
fn profiles_change_the_plan_between_shots() {
    let mut session = open(&any_codec());
    let mut plans = Vec::new();
    let profiles = [
        both(100.0, 10.0, 2.0),
        both(0.001, 10.0, 10.0),
        both(100.0, 2.0, 30.0),
        machine(1000.0, 1.0, &[]),
    ];
    for profile in &profiles {
        session.import(profile.clone()).unwrap();
        session.setup().unwrap();
        let stats = shot(&mut session, &mut quick(), 3e-3);
        let (schedule, actions) = schedule(&session);
        assert_eq!(
            (stats.backward_steps, stats.forward_steps),
            (STEPS.into(), schedule.forward_steps())
        );
        plans.push((session.compression().method.clone(), actions));
        // A new session with the same profile has the same plan: earlier profiles of the first
        // session have no influence.
        let fresh = open(&Config { profile: Some(profile.clone()), ..any_codec() });
        assert_eq!(
            (fresh.compression().method.clone(), self::schedule(&fresh).1),
            plans.last().unwrap().clone()
        );
    }
    let methods: Vec<Method> = plans.iter().map(|(method, _)| method.clone()).collect();
    assert_eq!(methods, [Method::Lorenzo, Method::None, Method::Dct, Method::None]);
    assert_ne!(plans[0].1, plans[1].1);
}

/// All sessions that share a schedule import a profile; the next shot follows the new plan in every
/// session.
#[test]
fn sessions_of_one_schedule_change_together() {
    let config = any_codec();
    let cursor = Arc::new(SharedSchedule::new(config.clone(), STEPS.into()).unwrap());
    let attach =
        |app: &mut App| Session::attach(cursor.clone(), config.clone(), &app.app_fields()).unwrap();
    let mut apps = [quick(), quick()];
    let mut sessions = apps.each_mut().map(attach);
    for profile in [None, Some(both(100.0, 10.0, 2.0)), Some(both(100.0, 2.0, 30.0))] {
        for session in &mut sessions {
            profile.clone().map_or(Ok(()), |profile| session.import(profile)).unwrap();
        }
        sessions.iter_mut().for_each(|session| session.setup().unwrap());
        apps.iter_mut().for_each(|app| app.set(0));
        let mut backward = 0;
        loop {
            let tick = sessions[0].get_action().unwrap();
            let ts = tick.action.ts;
            for (session, app) in sessions.iter_mut().zip(&mut apps) {
                session.dispatch(tick.it).unwrap();
                match tick.action.kind {
                    Kind::Forward => app.set(ts),
                    Kind::Save => session.save(ts.into(), &app.app_fields(), HOST).unwrap(),
                    Kind::Restore => session.retrieve(ts.into(), &app.app_fields(), HOST).unwrap(),
                    _ => {}
                }
            }
            backward += u32::from(tick.action.kind == Kind::Backward);
            if tick.action.kind == Kind::Terminate {
                break;
            }
        }
        assert_eq!(backward, STEPS);
        assert_eq!(sessions[0].compression(), sessions[1].compression());
        assert_eq!(sessions[0].compression().method == Method::None, profile.is_none());
    }
}

#[test]
fn imports_come_between_shots_and_change_nothing_if_they_fail() {
    let mut session = open(&any_codec());
    let good = both(100.0, 10.0, 2.0);
    session.get_action().unwrap();
    let error = session.import(good.clone()).unwrap_err();
    assert!(error.code == Code::State && error.message.contains("action 0"), "{error}");
    let error = session.autotune().unwrap_err();
    assert!(
        error.code == Code::State && error.message.contains("before the first action"),
        "{error}"
    );
    session.setup().unwrap();
    let before = schedule(&session);
    let error = session.import(Profile { backend: 2, ..good.clone() }).unwrap_err();
    assert!(error.message.contains("measured on the CUDA backend"), "{error}");
    let error = session.profile().unwrap_err();
    assert!(error.code == Code::State && error.message.contains("no profile"), "{error}");
    assert_eq!(schedule(&session).1, before.1);
    session.import(good.clone()).unwrap();
    assert_eq!(session.profile().unwrap(), good);
    shot(&mut session, &mut quick(), 3e-3);
    // A profile that is imported after TERMINATE applies to the next shot; the statistics of the
    // finished shot stay.
    session.import(both(0.001, 10.0, 10.0)).unwrap();
    assert_eq!(session.stats().unwrap().backward_steps, u64::from(STEPS));
    session.setup().unwrap();
    shot(&mut session, &mut quick(), 3e-3);
    assert_eq!(session.compression().method, Method::None);
}

/// A shot that `setup` breaks off gives no profile. A later shot is measured only if `autotune` is
/// called again.
#[test]
fn shots_that_end_early_have_no_profile() {
    let mut session = open(&Config { algorithm: Some(Algorithm::Revolve), snapshots: 5, ..host() });
    session.autotune().unwrap();
    session.get_action().unwrap();
    session.setup().unwrap();
    shot(&mut session, &mut quick(), 0.0);
    assert_eq!(session.profile().unwrap_err().code, Code::State);
    session.autotune().unwrap();
    session.setup().unwrap();
    shot(&mut session, &mut quick(), 0.0);
    assert!(session.profile().unwrap().forward_ms > 0.0);
}

/// A shot whose number of steps is not known is measured, too: one state from each power of 2 to the next.
#[test]
fn shots_of_unknown_length_are_measured() {
    let config = Config {
        algorithm: Some(Algorithm::Online),
        snapshots: 5,
        compression: bounded(Method::Lorenzo),
        ..host()
    };
    let memory = None;
    let unknown: Vec<AppField> =
        fields().into_iter().map(|field| AppField { field, memory }).collect();
    let mut session = Session::new(config, 0, &unknown).unwrap();
    session.autotune().unwrap();
    let mut app = App::new(Duration::from_micros(300), Duration::from_micros(900));
    app.set(0);
    let (mut is_forward, mut reversed) = (true, 0);
    loop {
        let tick = session.get_action().unwrap();
        let ts = tick.action.ts;
        match tick.action.kind {
            Kind::Forward => {
                app.compute(0, |app| app.set(ts));
                if is_forward && ts + 1 == STEPS {
                    session.end_forward().unwrap();
                    is_forward = false;
                }
            }
            Kind::Save => session.save(ts.into(), &app.app_fields(), HOST).unwrap(),
            Kind::Restore => session.retrieve(ts.into(), &app.app_fields(), HOST).unwrap(),
            Kind::Backward => {
                app.compute(1, |_| ());
                reversed += 1;
            }
            Kind::Terminate => break,
            Kind::Error => unreachable!("no schedule has it"),
        }
    }
    assert_eq!(reversed, STEPS);
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
    let folder = common::tempdir("autotune-disk");
    let pages = STATE.next_multiple_of(4096);
    for spare in [0, 1] {
        let config = Config {
            algorithm: Some(Algorithm::Revolve),
            host_budget: 5 * STATE,
            disk_budget: (8 + spare) * pages,
            disk_folders: vec![folder.clone()],
            ..host()
        };
        let mut session = open(&config);
        session.autotune().unwrap();
        let (mut app, mut most) = (quick(), 0);
        app.set(0);
        loop {
            let tick = session.get_action().unwrap();
            let ts = tick.action.ts;
            match tick.action.kind {
                Kind::Forward => app.set(ts),
                Kind::Save => session.save(ts.into(), &app.app_fields(), HOST).unwrap(),
                Kind::Restore => session.retrieve(ts.into(), &app.app_fields(), HOST).unwrap(),
                Kind::Terminate => break,
                _ => {}
            }
            most = most.max(bytes_in(&folder));
        }
        assert!(most > 0 && most <= config.disk_budget, "{most} of {}", config.disk_budget);
    }
}

/// Returns the bytes of the files without a name in `folder` that this process has open.
fn bytes_in(folder: &std::path::Path) -> u64 {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten().map(|entry| entry.path());
    open.filter(|path| std::fs::read_link(path).is_ok_and(|to| to.starts_with(folder)))
        .filter_map(|path| std::fs::metadata(path).ok())
        .map(|file| file.len())
        .sum()
}

#[test]
fn zero_copy_is_measured_too() {
    let mut session = open(&Config {
        zero_copy: true,
        compression: bounded(Method::Dct),
        algorithm: Some(Algorithm::Revolve),
        snapshots: 5,
        ..host()
    });
    session.autotune().unwrap();
    let mut app = quick();
    loop {
        let tick = session.get_action().unwrap();
        let ts = tick.action.ts;
        match tick.action.kind {
            Kind::Save => {
                let data = session.save_begin(ts.into(), 2, HOST).unwrap();
                app.set(ts);
                for (from, to) in app.data.iter().zip(data) {
                    // SAFETY: the session's memory for one field, which is the application's until
                    // the commit.
                    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.cast(), VALUES) };
                }
                session.save_commit(ts.into(), HOST).unwrap();
            }
            Kind::Restore => drop(session.retrieve_acquire(ts.into(), 2, HOST).unwrap()),
            Kind::Terminate => break,
            _ => {}
        }
    }
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
    let mut session = open(&Config { profile_file: Some(path.clone()), ..any_codec() });
    session.autotune().unwrap();
    shot(&mut session, &mut quick(), 3e-3);
    let profile = session.profile().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), profile.to_bytes());
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    // If the file cannot be written, the shot and its profile are the same.
    let nowhere = path.join("under-a-file");
    let mut session = open(&Config { profile_file: Some(nowhere), ..any_codec() });
    session.autotune().unwrap();
    assert_eq!(shot(&mut session, &mut quick(), 3e-3).backward_steps, u64::from(STEPS));
    assert!(session.profile().is_ok());
}
