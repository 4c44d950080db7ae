//! The planner: how long a search takes, how near its predictions come to runs, and how near its choice to the best of many made by hand.
//!
//! Runs are on the host backend with a *simulated link*: transfers take the time that a link of a given bandwidth would need, and a step
//! computes for a given time, so that the balance is an accelerator's while the sessions, plans and copies are the real ones.
//! `GPUZIP_BENCH_GRID=1` runs the grid too, some minutes.

mod common;

use common::{app_field, field, machine, median, HOST};
use gpuzip::config::{Backend, Config};
use gpuzip::device::AppField;
use gpuzip::plan::{search, simulate, Budgets, Keep, Plan, Policy, Profile, Sizes};
use gpuzip::schedule::{adjust, Algorithm, Kind, Schedule};
use gpuzip::session::Session;
use std::time::{Duration, Instant};

/// Bytes of a state, seconds of a step and of a transfer: 12 steps.
const STATE: usize = 1 << 20;
const STEP: f64 = 3e-3;
const TRANSFER: f64 = 12.0 * STEP;

/// Longest time of a search over 10,000 steps, and of planning and simulating a million, in seconds; largest error of a prediction.
const SEARCH_S: f64 = 0.2;
const MILLION_S: f64 = 5.0;
const ERROR: f64 = 0.10;

fn timed<R>(body: impl FnOnce() -> R) -> (f64, R) {
    let begin = Instant::now();
    let result = body();
    (begin.elapsed().as_secs_f64(), result)
}

/// The time of a search, and of a simulation of a million steps.
fn speed() {
    println!("search over n = 10000, device slots / host slots; snapshots move in X steps and are copied in op");
    let cases = [(12.0, 0.48, 4, 397), (3.0, 0.85, 16, 1589), (0.8, 0.5, 60, 5960), (20.0, 0.8, 2, 40), (1.5, 0.8, 40, 100)];
    for (transfer, copy, device, host) in cases {
        let profile = Profile { forward_ms: 1e3, backward_ms: 1e3, ..Profile::free() };
        let mut sizes = Sizes::filling(Budgets { device, host, disk: 0 }, &profile, 1, None);
        (sizes.costs.upload, sizes.costs.download, sizes.costs.copy) = (transfer, transfer, copy);
        let (seconds, found) = timed(|| search(10_000, u32::MAX, &[vec![sizes.clone()]], Keep::Best).unwrap());
        let Schedule { algorithm, snapshots, chunk, .. } = found[0].schedule;
        println!(
            "X = {transfer:>4}, op = {copy:.2}, {device:>3} / {host:>4}: {seconds:.3} s <= {SEARCH_S}: {} {snapshots} {chunk}, {:.3} times the ideal",
            algorithm.name(),
            found[0].simulation.over_problem_ideal()
        );
    }
    let million = || {
        let schedule = Schedule::revolve(1_000_000, 100).unwrap();
        let plan = Plan::new(&schedule, 8, Policy::Clairvoyant).unwrap();
        let profile = Profile { forward_ms: 1.0, backward_ms: 1.0, h2d_gbs: 1e-6, d2h_gbs: 1e-6, ..Profile::free() };
        let sizes = Sizes::filling(Budgets { device: 8, host: 92, disk: 0 }, &profile, 1, None);
        simulate(&schedule, &plan, &sizes.costs, Budgets::NONE).unwrap().makespan
    };
    println!("n = 1000000, revolve 100, 8 slots: planned and simulated in {:.2} s <= {MILLION_S}\n", timed(million).0);
}

/// The stream of a device that computes: a step begins when the one before it has ended, however late this thread wakes up.
struct Pace {
    end: Instant,
}

impl Pace {
    fn step(&mut self, seconds: f64) {
        self.end += Duration::from_secs_f64(seconds);
        let early = Duration::from_micros(300);
        std::thread::sleep(self.end.saturating_duration_since(Instant::now()).saturating_sub(early));
        while Instant::now() < self.end {
            std::hint::spin_loop();
        }
    }

    /// A call of the session has ended: the stream goes on from now.
    fn now(&mut self) {
        self.end = Instant::now();
    }
}

/// A configuration made by hand.
#[derive(Clone)]
struct Entry {
    name: String,
    config: Config,
}

fn entry(name: String, algorithm: Option<Algorithm>, snapshots: u32, chunk: u32, cache: u32, policy: Policy) -> Entry {
    let link_bandwidth = STATE as f64 / TRANSFER;
    let backend = Backend::Host;
    Entry { name, config: Config { algorithm, snapshots, chunk, cache, policy, link_bandwidth, backend, ..Config::default() } }
}

/// One sweep, in seconds.
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

/// The median of some sweeps, in seconds.
fn run(entry: &Entry, steps: u32, sweeps: usize) -> f64 {
    let mut data = vec![0.5f32; STATE / 4];
    let fields = [AppField { field: field(data.len()), memory: None }];
    let mut session = Session::new(entry.config.clone(), steps.into(), &fields).unwrap();
    median((0..sweeps).map(|_| sweep(&mut session, &mut data)).collect())
}

/// Seconds of a copy between the field and a slot in this machine's sessions: the least of some sweeps, since whatever disturbs one adds to it.
fn copy_seconds() -> f64 {
    let all = entry(String::new(), Some(Algorithm::StoreAll), 0, 0, 100, Policy::Clairvoyant);
    let (all, steps) = (Entry { config: Config { link_bandwidth: 0.0, ..all.config }, ..all }, 100);
    let beside_steps = (0..7).map(|_| run(&all, steps, 1) - (2 * steps - 1) as f64 * STEP);
    beside_steps.fold(f64::INFINITY, f64::min) / (2 * steps - 2) as f64
}

fn profile(copy: f64) -> Profile {
    let gbs = |seconds: f64| STATE as f64 / seconds / 1e9;
    let (link, step) = (gbs(TRANSFER), STEP * 1e3);
    Profile { forward_ms: step, backward_ms: step, h2d_gbs: link, d2h_gbs: link, d2d_gbs: gbs(copy.max(1e-9)), ..Profile::free() }
}

/// What the simulator says of an entry.
fn predicted(entry: &Entry, steps: u32, profile: &Profile) -> f64 {
    let session = Session::new(entry.config.clone(), steps.into(), &[AppField { field: field(STATE / 4), memory: None }]);
    let mut session = session.unwrap();
    let (plan, schedule) = (session.plan().unwrap(), session.cursor().decide().unwrap());
    let sizes = Sizes::filling(Budgets::NONE, profile, STATE as u64, None);
    simulate(&schedule, &plan, &sizes.costs, Budgets::NONE).unwrap().makespan
}

/// Predictions beside runs, for plans that wait much and plans that do not.
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
        let name = format!("{} {snapshots} {chunk}, {cache} slots, {}", algorithm.name(), policy.name());
        let entry = entry(name, Some(algorithm), snapshots, chunk, cache, policy);
        let (predicted, measured) = (predicted(&entry, steps, profile), run(&entry, steps, 5));
        worst = worst.max((predicted / measured - 1.0).abs());
        println!("{:<40} predicted {predicted:.3} s, measured {measured:.3} s, {:+.1} %", entry.name, (predicted / measured - 1.0) * 100.0);
    }
    println!("largest error {:.1} % <= {:.0} %\n", worst * 100.0, ERROR * 100.0);
}

/// The raw balance of schedules as GPUZIP's users have it, scaled to `steps`: 4 device slots, host memory for a 25th of the states.
fn grid(profile: &Profile) {
    let (steps, device) = (400u32, 4u32);
    let host = steps / 25;
    let most = host + device;
    let mut entries = Vec::new();
    for s in 2..=most {
        entries.push(entry(format!("revolve {s}"), Some(Algorithm::Revolve), s, 0, device, Policy::Clairvoyant));
        if s % 2 == 0 {
            entries.push(entry(format!("uniform {s}"), Some(Algorithm::Uniform), s, 0, device, Policy::Clairvoyant));
        }
    }
    for chunk in [20, 21, 22, 23, 24, 25, 26, 27, 28, 30, 32, 34, 37, 40, 43, 46, 50, 55, 60, 67, 75, 80, 90, 100] {
        let starts = steps.div_ceil(chunk) - 1;
        for cache in [3, 4].into_iter().filter(|c| starts + c <= most) {
            let name = format!("two-level {chunk}, {cache} slots");
            entries.push(entry(name, Some(Algorithm::TwoLevel), starts + cache, chunk, cache, Policy::Clairvoyant));
        }
    }
    let recipe = entry("GPUZIP revolve".into(), Some(Algorithm::Revolve), adjust(steps.into()), 0, device, Policy::Lru);
    let mut auto = entry("auto".into(), None, 0, 0, 0, Policy::Clairvoyant);
    let bytes = |slots: u32| slots as u64 * STATE as u64;
    auto.config = Config { device_budget: bytes(device), host_budget: bytes(host), profile: Some(profile.clone()), ..auto.config };
    println!(
        "grid: n = {steps}, {device} device and {host} host slots, {} configurations; each over auto in its round, median of 3",
        entries.len()
    );
    let auto = |_| run(&auto, steps, 1);
    let rounds: Vec<(f64, Vec<f64>)> =
        (0..3).map(|k| (auto(k), entries.iter().chain([&recipe]).map(|entry| run(entry, steps, 1)).collect())).collect();
    let mut results: Vec<(f64, f64, String)> = Vec::new();
    for (k, entry) in entries.iter().chain([&recipe]).enumerate() {
        let ratio = median(rounds.iter().map(|(auto, all)| all[k] / auto).collect());
        results.push((ratio, median(rounds.iter().map(|(_, all)| all[k]).collect()), entry.name.clone()));
    }
    let recipe = results.pop().unwrap();
    results.sort_by(|a, b| a.0.total_cmp(&b.0));
    println!("{:<24} {:>8}  {:>8}  over auto", "configuration", "seconds", "x ideal");
    let ideal = 2.0 * steps as f64 * STEP;
    for (ratio, seconds, name) in results.iter().chain([&recipe]) {
        println!("{name:<24} {seconds:>8.3}  {:>8.3}  {ratio:.3}", seconds / ideal);
    }
    let best = results[0].0;
    println!(
        "auto takes {:.3} times as long as the best of the grid (<= 1.08), GPUZIP's recipe {:.2} times as long as auto (>= 1.6)",
        1.0 / best,
        recipe.0
    );
}

fn main() {
    println!("machine: {}\n", machine());
    speed();
    let copy = copy_seconds();
    println!("a copy of a state takes {:.0} us, {:.2} steps", copy * 1e6, copy / STEP);
    let profile = profile(copy);
    accuracy(&profile);
    if std::env::var_os("GPUZIP_BENCH_GRID").is_some_and(|v| v == "1") {
        grid(&profile);
    }
}
