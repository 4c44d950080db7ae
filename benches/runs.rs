//! Runs beside their predictions: sessions on the host backend with a *simulated link*, a real disk and steps
//! that take a given time, planned by what their own first shot measured.
//!
//! `cargo bench --bench runs -- PROBLEMS FIRST FOLDER` draws PROBLEMS problems of every kind (raw states, time
//! levels, codecs, mixed storage, zero copy, threads that code, with and without a disk), from problem FIRST
//! on. FOLDER is on the disk of the snapshots. `cargo bench --bench runs -- ranks` measures four ranks of a node, each with a plan
//! for its share, on one link. Steps sleep, so that four ranks need less than two cores.

mod common;

use common::{machine, median, HOST};
use gpuzip::codec::{ErrorBound, CODECS};
use gpuzip::config::{Backend, Config};
use gpuzip::device::{AppField, AppMemory};
use gpuzip::layout::Field;
use gpuzip::predict::{simulate, Profile, Simulation};
use gpuzip::scalar::Scalar;
use gpuzip::schedule::Kind;
use gpuzip::session::Session;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Values of a field; a state has two fields, of which the second may be the previous level of the first.
const VALUES: usize = 1 << 18;
const STATE: u64 = 2 * 4 * VALUES as u64;
/// Bound of the error of coded values, which lie between -1 and 1.
const BOUND: f64 = 1e-3;
/// Shots that are measured after the one that measures speeds; their median counts.
const SHOTS: usize = 3;

/// A generator of random numbers (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % n
    }

    /// A number between `least` and `most`; each doubling is as likely as the others.
    fn between(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.below(1 << 20) as f64 / (1 << 20) as f64)
    }
}

/// An application: its configuration, its number of time steps and the seconds of a step.
struct Job {
    name: String,
    config: Config,
    steps: u32,
    step: f64,
    shares_levels: bool,
}

impl Job {
    /// Draws problem `number`: its kind of storage follows from the number, sizes and speeds are random.
    fn drawn(number: u64, folder: &Path) -> Self {
        let draw = &mut Draw(number);
        let kinds = [
            "raw",
            "levels",
            "lorenzo",
            "dct, mixed",
            "zero copy",
            "lorenzo, a thread",
            "dct, two threads",
        ];
        let (kind, has_disk) = (kinds[number as usize % 7], number / 7 % 2 == 1);
        let threads = ["a thread", "two threads"].iter().position(|name| kind.ends_with(name));
        let steps = 60 + draw.below(140) as u32;
        let step = draw.between(2e-3, 8e-3);
        let transfer = step * draw.between(0.5, 8.0);
        let (device, host) = (4 + draw.below(5), 2 + draw.below(12));
        let disk = 10 + draw.below(40);
        let config = Config::default().with(|c| {
            c.device.backend = Backend::Host;
            c.device.link_bandwidth = STATE as f64 / transfer;
            c.tiers.device_budget = device * STATE;
            c.tiers.host_budget = host * STATE;
            if has_disk {
                c.tiers.host_budget += 4 * STATE;
                c.tiers.disk_budget = disk * (STATE + 65536);
                c.tiers.disk_folders = vec![folder.to_path_buf()];
            }
            if let Some(one) = threads {
                // One memory for both tiers, without a link.
                c.codec.threads = Some(1 + one as u32);
                c.device.link_bandwidth = 0.0;
                c.tiers.host_budget += std::mem::take(&mut c.tiers.device_budget);
            }
            c.tiers.zero_copy = kind == "zero copy";
            c.tiers.shared_levels = kind == "levels";
            if let Some(codec) = CODECS.iter().find(|codec| kind.starts_with(codec.name)) {
                c.codec.settings = c.codec.settings.with(codec.method.clone());
                c.codec.settings.bound = ErrorBound::Absolute(BOUND);
                c.tiers.mixed_storage = threads.is_none().then_some(kind == "dct, mixed");
                // The first shot, which measures the ratio, is planned with this one.
                c.codec.compression_factor = 3.0;
            }
        });
        let name = format!("{kind}{}", if has_disk { ", disk" } else { "" });
        Job { name, config, steps, step, shares_levels: kind == "levels" }
    }
}

/// The state: two fields of values between -1 and 1. The first value of the first field tells the time step.
struct State([Vec<f32>; 2]);

/// What the first value of u(ts) is.
fn mark(ts: u32) -> f32 {
    (ts as f32 * 0.37).sin()
}

impl State {
    fn new() -> Self {
        let wave = |i: usize| (i as f32 * 0.01).sin() * (i as f32 * 1e-4).cos() * 0.9;
        State([(0..VALUES).map(wave).collect(), (0..VALUES).map(wave).collect()])
    }

    fn fields(&mut self, shares_levels: bool) -> Vec<AppField> {
        let previous = [None, shares_levels.then_some(0)];
        let fields = self.0.iter_mut().zip(previous);
        fields.map(|(data, previous)| app_field(data, previous)).collect()
    }
}

fn app_field(data: &mut [f32], previous_of: Option<u32>) -> AppField {
    let field = Field { n: [data.len() as u64, 1, 1], scalar: Scalar::F32, previous_of };
    // SAFETY: the state outlives the session's calls with it; the host backend does not access it otherwise.
    let memory = unsafe { AppMemory::new(data.as_mut_ptr().cast(), std::mem::size_of_val(data)) };
    AppField { field, memory: Some(memory) }
}

/// Plays one shot. Returns its seconds.
fn shot(session: &mut Session, job: &Job, state: &mut State) -> f64 {
    session.setup().unwrap();
    let begin = Instant::now();
    // A step ends when it should, even if this thread wakes up late.
    let mut end = begin;
    let step = Duration::from_secs_f64(job.step);
    let bound = match job.config.codec.settings.bound {
        ErrorBound::Absolute(bound) => bound as f32,
        _ => 0.0,
    };
    let set = |state: &mut State, ts: u32| {
        state.0[0][0] = mark(ts);
        state.0[1][0] = if job.shares_levels && ts > 0 { mark(ts - 1) } else { mark(ts) };
    };
    set(state, 0);
    loop {
        let action = session.get_action().unwrap().action;
        let ts = action.ts;
        match action.kind {
            Kind::Forward | Kind::Backward => {
                end += step;
                std::thread::sleep(end.saturating_duration_since(Instant::now()));
                if action.kind == Kind::Forward {
                    set(state, ts);
                }
                continue;
            }
            Kind::Save if job.config.tiers.zero_copy => {
                let pointers = session.save_begin(ts.into(), 2, HOST).unwrap();
                // SAFETY: the session owns memory of the field's size until the next save or retrieve is done.
                unsafe { *pointers[0].cast::<f32>() = mark(ts) };
                session.save_commit(ts.into(), HOST).unwrap();
            }
            Kind::Restore if job.config.tiers.zero_copy => {
                let pointers = session.retrieve_acquire(ts.into(), 2, HOST).unwrap();
                // SAFETY: as above.
                assert_eq!(unsafe { *pointers[0].cast::<f32>() }, mark(ts));
            }
            Kind::Save => session.save(ts.into(), &state.fields(job.shares_levels), HOST).unwrap(),
            Kind::Restore => {
                session.retrieve(ts.into(), &state.fields(job.shares_levels), HOST).unwrap();
                assert!((state.0[0][0] - mark(ts)).abs() <= bound, "u({ts}) in {}", job.name);
                set(state, ts);
            }
            Kind::Terminate => return (end - begin).as_secs_f64(),
            Kind::Error => unreachable!("no schedule has it"),
        }
        end = Instant::now();
    }
}

/// Returns the predicted shot of those that the session plays now.
fn predicted(session: &Session) -> Simulation {
    let (plan, schedule) = (session.plan().unwrap(), session.schedule().decide().unwrap());
    let tiers = session.tiers();
    simulate(&schedule, &plan, &tiers.costs, tiers.budgets).unwrap()
}

/// Draws problems, and prints how far measured times lie from the predicted ones.
fn problems(count: u64, first: u64, folder: &Path) {
    println!(
        "states of {} MiB; predicted by what the first shot measured; measured: median of {SHOTS} shots",
        STATE >> 20
    );
    let mut errors = Vec::new();
    for number in first..first + count {
        let (job, mut state) = (Job::drawn(number, folder), State::new());
        let fields = state.fields(job.shares_levels);
        let mut session = Session::new(job.config.clone(), job.steps.into(), &fields).unwrap();
        session.autotune().unwrap();
        shot(&mut session, &job, &mut state);
        let profile = session.profile().unwrap();
        session.import(profile).unwrap();
        let measured = median((0..SHOTS).map(|_| shot(&mut session, &job, &mut state)).collect());
        let (predicted, stats) = (predicted(&session), session.stats().unwrap());
        let error = measured / predicted.makespan - 1.0;
        errors.push(error.abs());
        println!(
            "{number:>3} {:<18} {:>3} steps of {:.1} ms: {:<9} predicted {:.3} s, measured {measured:.3} s, {:+.1} %; stall {:.3} and {:.3} s; {} transfers, {} MB to and from disk",
            job.name,
            job.steps,
            job.step * 1e3,
            session.schedule().decide().unwrap().algorithm.name(),
            predicted.makespan,
            error * 100.0,
            predicted.stall(),
            stats.stall,
            stats.h2d + stats.d2h,
            stats.disk_bytes / 1_000_000
        );
    }
    let worst = errors.iter().copied().fold(0.0, f64::max);
    println!("off by {:.1} % (median), at most {:.1} %", median(errors) * 100.0, worst * 100.0);
}

/// Four ranks of a node, whose link moves a state in `transfer` steps: the time of a shot of one rank alone, and of
/// all four at once, each with the plan for its share, and with the plan of a rank alone.
fn ranks() {
    println!("4 ranks on one link, each a thread with its own session");
    for (transfer, device, host) in [(0.5, 4, 8), (2.0, 4, 8), (8.0, 4, 20), (2.0, 8, 40)] {
        let step = 8e-3;
        let link = STATE as f64 / (transfer * step);
        let (steps, folder) = (150, std::env::temp_dir());
        let config = Job::drawn(0, &folder).config.with(|c| {
            c.device.link_bandwidth = link;
            (c.tiers.device_budget, c.tiers.host_budget) = (device * STATE, host * STATE);
        });
        let job = |profile: Option<Profile>| {
            let config = config.clone().with(|c| c.device.profile = profile);
            Job { name: "a rank".into(), config, steps, step, shares_levels: false }
        };
        // Runs the shots of several ranks that begin together; returns predicted and measured seconds.
        let run = |ranks: usize, profile: &Profile| {
            let (together, job) = (Barrier::new(ranks), job(Some(profile.clone())));
            let rank = |_| {
                let mut state = State::new();
                let fields = state.fields(false);
                let mut session = Session::new(job.config.clone(), steps.into(), &fields).unwrap();
                shot(&mut session, &job, &mut state);
                together.wait();
                (predicted(&session).makespan, shot(&mut session, &job, &mut state))
            };
            let all: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..ranks).map(|k| scope.spawn(move || rank(k))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            (all[0].0, all.iter().map(|(_, measured)| *measured).fold(0.0, f64::max))
        };
        let measured = {
            let (job, mut state) = (job(None), State::new());
            let fields = state.fields(false);
            let mut session = Session::new(job.config.clone(), steps.into(), &fields).unwrap();
            session.autotune().unwrap();
            shot(&mut session, &job, &mut state);
            session.profile().unwrap()
        };
        let quarter = Profile {
            h2d_gbs: measured.h2d_gbs / 4.0,
            d2h_gbs: measured.d2h_gbs / 4.0,
            both_gbs: measured.both_gbs / 4.0,
            ..measured.clone()
        };
        let (alone, shared, unaware) = (run(1, &measured), run(4, &quarter), run(4, &measured));
        println!(
            "transfers of {transfer} steps, {device} device and {host} host slots: alone predicted {:.3} s, measured {:.3} s; four with the plan for a quarter of the link predicted {:.3} s, measured {:.3} s; four with the plan of one {:.3} s",
            alone.0, alone.1, shared.0, shared.1, unaware.1
        );
    }
}

fn main() {
    println!("machine: {}", machine());
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let number = |k: usize, otherwise: u64| {
        words.get(k).map_or(otherwise, |word| word.parse().expect("a number"))
    };
    if words.first().is_some_and(|word| word == "ranks") {
        return ranks();
    }
    let folder = words.get(2).map_or_else(std::env::temp_dir, PathBuf::from);
    problems(number(0, 20), number(1, 0), &folder);
}
