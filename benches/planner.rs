//! The planner: how long a search takes, and how close its predictions are to measured runs. `make
//! bench-grid` shows how close its choice is to the best one.
//!
//! The runs use the host backend with a *simulated link*: a transfer takes as long as on a link of
//! a given bandwidth, and a step computes for a given time. The ratio of the two is that of an
//! accelerator; sessions, plans and copies are real.

mod common;

use common::{app_field, field, machine, median, HOST};
use gpuzip::choice::{search, Job, Keep, State, Storage, TierSpec};
use gpuzip::config::{Backend, Config};
use gpuzip::device::AppField;
use gpuzip::plan::{Plan, Policy};
use gpuzip::predict::{simulate, Budgets, Profile};
use gpuzip::schedule::{Algorithm, Kind, Schedule};
use gpuzip::session::Session;
use std::time::{Duration, Instant};

/// Length of a state in bytes, and the time of a step and of a transfer (12 steps) in seconds.
const STATE: usize = 1 << 20;
const STEP: f64 = 3e-3;
const TRANSFER: f64 = 12.0 * STEP;

/// Limits: times of searches over 10^4, 10^5 and 10^6 steps, and of planning and simulating a million
/// steps, all in seconds; relative error of a prediction.
const SEARCH_S: [(u32, f64); 3] = [(10_000, 0.5), (100_000, 1.0), (1_000_000, 4.0)];
const MILLION_S: f64 = 5.0;
const ERROR: f64 = 0.10;

fn timed<R>(body: impl FnOnce() -> R) -> (f64, R) {
    let begin = Instant::now();
    let result = body();
    (begin.elapsed().as_secs_f64(), result)
}

/// Returns the tiers for raw states of `all` bytes within `device` and `host` bytes of memory.
fn tiers(device: u64, host: u64, profile: &Profile, all: u64) -> TierSpec {
    let config = Config::default().with(|c| {
        (c.tiers.device_budget, c.tiers.host_budget) = (device, host);
        c.device.profile = Some(profile.clone());
    });
    let job = Job::new(config, State::Bytes { all, previous: 0 });
    TierSpec::of(&Storage::raw(&job), &job).unwrap()
}

/// Prints the time of searches and of a simulation of a million steps.
fn speed() {
    println!("search; snapshots move in X steps and are copied in op; device slots / host slots for 10^4 steps, and as many times the host slots as steps");
    let cases = [
        (12.0, 0.48, 4, 397),
        (3.0, 0.85, 16, 1589),
        (0.8, 0.5, 60, 5960),
        (20.0, 0.8, 2, 40),
        (1.5, 0.8, 40, 100),
        (28.0, 0.5, 4, 25),
        (8.0, 0.5, 4, 60),
        (2.0, 0.5, 40, 180),
    ];
    for (steps, limit) in SEARCH_S {
        for (transfer, copy, device, host) in cases {
            let profile = Profile { forward_ms: 1e3, backward_ms: 1e3, ..Profile::free() };
            let slots = host * u64::from(steps / SEARCH_S[0].0);
            let mut tiers = tiers(device, slots, &profile, 1);
            (tiers.costs.upload, tiers.costs.download, tiers.costs.copy) =
                (transfer, transfer, copy);
            let (seconds, found) =
                timed(|| search(steps, u32::MAX, &[vec![tiers.clone()]], Keep::Best).unwrap());
            let Schedule { algorithm, snapshots, chunk, .. } = found[0].schedule;
            println!(
                "n = {steps:>7}, X = {transfer:>4}, op = {copy:.2}, {device:>3} / {host:>4}: {seconds:.3} s <= {limit}: {} {snapshots} {chunk}, {:.3} times the ideal",
                algorithm.name(),
                found[0].simulation.over_problem_ideal()
            );
        }
    }
    let million = || {
        let schedule = Schedule::revolve(1_000_000, 100).unwrap();
        let plan = Plan::new(&schedule, 8, Policy::Clairvoyant).unwrap();
        let profile = Profile {
            forward_ms: 1.0,
            backward_ms: 1.0,
            h2d_gbs: 1e-6,
            d2h_gbs: 1e-6,
            ..Profile::free()
        };
        let tiers = tiers(8, 92, &profile, 1);
        simulate(&schedule, &plan, &tiers.costs, Budgets::NONE).unwrap().makespan
    };
    println!(
        "n = 1000000, revolve 100, 8 slots: planned and simulated in {:.2} s <= {MILLION_S}\n",
        timed(million).0
    );
}

/// Stands for the stream of a device that computes. A step begins when the previous step ends, even
/// if this thread wakes up later.
struct Pace {
    end: Instant,
}

impl Pace {
    fn step(&mut self, seconds: f64) {
        self.end += Duration::from_secs_f64(seconds);
        let early = Duration::from_micros(300);
        std::thread::sleep(
            self.end.saturating_duration_since(Instant::now()).saturating_sub(early),
        );
        while Instant::now() < self.end {
            std::hint::spin_loop();
        }
    }

    /// Synchronises with the present after a call of the session: the next step begins now.
    fn now(&mut self) {
        self.end = Instant::now();
    }
}

/// A configuration with a name to print.
#[derive(Clone)]
struct Entry {
    name: String,
    config: Config,
}

fn entry(
    name: String,
    algorithm: Option<Algorithm>,
    snapshots: u32,
    chunk: u32,
    cache: u32,
    policy: Policy,
) -> Entry {
    let link_bandwidth = STATE as f64 / TRANSFER;
    let backend = Backend::Host;
    Entry {
        name,
        config: Config::default().with(|c| {
            c.schedule.algorithm = algorithm;
            c.schedule.snapshots = snapshots;
            c.schedule.chunk = chunk;
            c.tiers.cache = cache;
            c.tiers.policy = policy;
            c.device.link_bandwidth = link_bandwidth;
            c.device.backend = backend;
        }),
    }
}

/// Runs one sweep and returns its time in seconds.
fn sweep(session: &mut Session, data: &mut [f32]) -> f64 {
    session.setup().unwrap();
    let begin = Instant::now();
    let mut pace = Pace { end: begin };
    loop {
        let action = session.get_action().unwrap().action;
        match action.kind {
            Kind::Forward | Kind::Backward => pace.step(STEP),
            Kind::Save => session.save(action.ts.into(), &[app_field(data)], HOST).unwrap(),
            Kind::Restore => session.retrieve(action.ts.into(), &[app_field(data)], HOST).unwrap(),
            Kind::Terminate => return begin.elapsed().as_secs_f64(),
            Kind::Error => unreachable!("no schedule has it"),
        }
        if matches!(action.kind, Kind::Save | Kind::Restore) {
            pace.now();
        }
    }
}

/// Returns the median time of `sweeps` sweeps in seconds.
fn run(entry: &Entry, steps: u32, sweeps: usize) -> f64 {
    let mut data = vec![0.5f32; STATE / 4];
    let fields = [AppField { field: field(data.len()), memory: None }];
    let mut session = Session::new(entry.config.clone(), steps.into(), &fields).unwrap();
    median((0..sweeps).map(|_| sweep(&mut session, &mut data)).collect())
}

/// Returns the time in seconds of a copy between a field and a slot in this machine's sessions. It
/// is the minimum over several sweeps, because every disturbance makes a sweep longer.
fn copy_seconds() -> f64 {
    let all = entry(String::new(), Some(Algorithm::StoreAll), 0, 0, 100, Policy::Clairvoyant);
    let (all, steps) =
        (Entry { config: all.config.with(|c| c.device.link_bandwidth = 0.0), ..all }, 100);
    let beside_steps = (0..7).map(|_| run(&all, steps, 1) - (2 * steps - 1) as f64 * STEP);
    beside_steps.fold(f64::INFINITY, f64::min) / (2 * steps - 2) as f64
}

fn profile(copy: f64) -> Profile {
    let gbs = |seconds: f64| STATE as f64 / seconds / 1e9;
    let (link, step) = (gbs(TRANSFER), STEP * 1e3);
    Profile {
        forward_ms: step,
        backward_ms: step,
        h2d_gbs: link,
        d2h_gbs: link,
        d2d_gbs: gbs(copy.max(1e-9)),
        ..Profile::free()
    }
}

/// Returns the time in seconds that the simulator predicts for an entry.
fn predicted(entry: &Entry, steps: u32, profile: &Profile) -> f64 {
    let session = Session::new(
        entry.config.clone(),
        steps.into(),
        &[AppField { field: field(STATE / 4), memory: None }],
    );
    let session = session.unwrap();
    let (plan, schedule) = (session.plan().unwrap(), session.schedule().decide().unwrap());
    let tiers = tiers(u64::MAX, u64::MAX, profile, STATE as u64);
    simulate(&schedule, &plan, &tiers.costs, Budgets::NONE).unwrap().makespan
}

/// Prints predicted and measured times for plans with long waits and plans with short waits.
fn accuracy(profile: &Profile) {
    let steps = 120;
    println!("prediction beside run, simulated link, n = {steps}, states of 1 MiB, a transfer takes 12 steps; median of 5 sweeps");
    let mut worst = 0.0f64;
    for (algorithm, snapshots, chunk, cache, policy) in [
        (Algorithm::Revolve, 8, 0, 2, Policy::Clairvoyant),
        (Algorithm::Revolve, 8, 0, 4, Policy::Clairvoyant),
        (Algorithm::Revolve, 8, 0, 4, Policy::Lru),
        (Algorithm::Revolve, 12, 0, 6, Policy::Clairvoyant),
        (Algorithm::Revolve, 12, 0, 0, Policy::Clairvoyant),
        (Algorithm::TwoLevel, 10, 26, 4, Policy::Clairvoyant),
        (Algorithm::TwoLevel, 16, 10, 4, Policy::Clairvoyant),
        (Algorithm::Zcut, 0, 12, 8, Policy::Clairvoyant),
        (Algorithm::Uniform, 12, 0, 4, Policy::Clairvoyant),
        (Algorithm::StoreAll, 0, 0, 80, Policy::Clairvoyant),
    ] {
        let name =
            format!("{} {snapshots} {chunk}, {cache} slots, {}", algorithm.name(), policy.name());
        let entry = entry(name, Some(algorithm), snapshots, chunk, cache, policy);
        let (predicted, measured) = (predicted(&entry, steps, profile), run(&entry, steps, 5));
        worst = worst.max((predicted / measured - 1.0).abs());
        println!(
            "{:<40} predicted {predicted:.3} s, measured {measured:.3} s, {:+.1} %",
            entry.name,
            (predicted / measured - 1.0) * 100.0
        );
    }
    println!("largest error {:.1} % <= {:.0} %\n", worst * 100.0, ERROR * 100.0);
}

fn main() {
    println!("machine: {}\n", machine());
    speed();
    let copy = copy_seconds();
    println!("a copy of a state takes {:.0} us, {:.2} steps", copy * 1e6, copy / STEP);
    let profile = profile(copy);
    accuracy(&profile);
}
