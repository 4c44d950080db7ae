//! `auto` beside a grid of configurations made by hand, measured: migrations of rtm3d over a *simulated link*, all on equal memory.
//!
//! `grid RTM3D SVG [OPTIONS OF RTM3D]`, as `make bench-grid` runs it; some twenty minutes on a machine that does nothing else. The balance is the raw
//! one of GPUZIP's Salt data set: 3751 steps, a transfer of a snapshot takes 12 forward steps, the device holds 4 snapshots and the host 149.
//! rtm3d computes on one core, transfers take the other; steps, copies and transfers are real, only the link's bandwidth is given.

#[path = "../src/plan/svg.rs"]
#[allow(dead_code)]
mod svg;

use serde_json::Value;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use svg::{digits, round_values, Anchor, Page, BLUE, GREEN, GREY, ORANGE, PURPLE, RED};

const STEPS: u32 = 3751;
/// Forward steps that a transfer takes; snapshots that the device and the host hold.
const TRANSFER: f64 = 12.0;
const DEVICE: u32 = 4;
const HOST: u32 = 149;
const ROUNDS: usize = 3;

/// `checkpointing_algorithm` in the C ABI.
const REVOLVE: u32 = 1;
const UNIFORM: u32 = 2;
const ZCUT: u32 = 3;
const AUTO: u32 = 4;
const TWO_LEVEL: u32 = 5;

/// What must hold: the time of `auto` over that of the best entry, and of GPUZIP's recipe over `auto`.
const NEAR_BEST: f64 = 1.08;
const AHEAD: f64 = 1.6;

struct Bench {
    rtm3d: String,
    options: Vec<String>,
    folder: PathBuf,
}

impl Bench {
    /// Runs rtm3d with this configuration file.
    fn run(&self, config: &str, more: &[&str]) -> Value {
        let file = self.folder.join("grid.cfg");
        std::fs::write(&file, config).expect("the configuration is written");
        let output = Command::new(&self.rtm3d)
            .args(["--shots", "1", "--json", "--config"])
            .args([&file, &"--out".into(), &self.folder.join("images")])
            .args(&self.options)
            .args(more)
            .env("OMP_NUM_THREADS", "1")
            .output()
            .expect("rtm3d starts");
        assert!(output.status.success(), "{config}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("rtm3d writes JSON")
    }

    fn seconds(&self, config: &str) -> f64 {
        let result = self.run(config, &["--steps", &STEPS.to_string()]);
        let (device, host) = (number(&result, "peak_device_bytes"), number(&result, "peak_host_bytes"));
        let state = number(&result, "raw_bytes") / number(&result, "saves");
        assert!(device < (DEVICE + 1) as f64 * state && host < (HOST + 1) as f64 * state, "{config}: {device} and {host} bytes");
        number(&result, "migration_seconds")
    }
}

fn number(result: &Value, key: &str) -> f64 {
    result[key].as_f64().unwrap_or_else(|| panic!("rtm3d's JSON has no number {key}"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A configuration made by hand.
struct Entry {
    name: String,
    ink: &'static str,
    config: String,
}

fn entry(name: String, ink: &'static str, algorithm: u32, snapshots: u32, chunk: u32, cache: u32) -> Entry {
    let config = format!(
        "checkpointing_algorithm = {algorithm}\ncheckpointing_snaps = {snapshots}\nschedule_chunk = {chunk}\ncache_capacity = {cache}\n"
    );
    Entry { name, ink, config }
}

/// Every algorithm over its parameters, as a user would try them: nothing in it takes more memory than `auto` may.
fn entries() -> Vec<Entry> {
    const MOST: u32 = DEVICE + HOST;
    let mut entries = Vec::new();
    for s in [4, 8, 10, 12, 16, 20, 24, 32, 40, 50, 64, 80, 100, 120, 140, MOST] {
        entries.push(entry(format!("Revolve, {s} snapshots"), BLUE, REVOLVE, s, 0, DEVICE));
    }
    for s in [8, 16, 24, 32, 48, 64, 80, 100, 120, MOST] {
        entries.push(entry(format!("uniform, {s} snapshots"), ORANGE, UNIFORM, s, 0, DEVICE));
    }
    for chunk in [34, 45, 60, 80] {
        entries.push(entry(format!("zCut, chunks of {chunk}"), PURPLE, ZCUT, 0, chunk, DEVICE));
    }
    for chunk in [26, 27, 28, 30, 32, 35, 38, 42, 46, 50, 56, 64, 72, 80, 95, 110, 130, 160, 200] {
        for cache in [3, DEVICE] {
            let snapshots = STEPS.div_ceil(chunk) - 1 + cache;
            if snapshots <= MOST {
                entries.push(entry(format!("two levels, intervals of {chunk}, {cache} slots"), GREEN, TWO_LEVEL, snapshots, chunk, cache));
            }
        }
    }
    entries
}

/// An entry's seconds, and its time over that of `auto` run right before it: medians over the rounds.
struct Outcome {
    entry: Entry,
    seconds: f64,
    over_auto: f64,
}

fn measure(bench: &Bench, link: &str, auto: &str, entries: Vec<Entry>) -> (f64, Vec<Outcome>) {
    let (mut autos, mut all) = (Vec::new(), vec![(Vec::new(), Vec::new()); entries.len()]);
    for round in 1..=ROUNDS {
        for (entry, (seconds, over_auto)) in entries.iter().zip(&mut all) {
            let (auto, own) = (bench.seconds(auto), bench.seconds(&format!("{}{link}", entry.config)));
            eprintln!("round {round}: auto {auto:.3} s, {} {own:.3} s", entry.name);
            autos.push(auto);
            seconds.push(own);
            over_auto.push(own / auto);
        }
    }
    let outcomes = entries.into_iter().zip(all).map(|(entry, (seconds, over_auto))| Outcome {
        entry,
        seconds: median(seconds),
        over_auto: median(over_auto),
    });
    (median(autos), outcomes.collect())
}

/// The outcomes as marks over their rank, with `auto` and the recipe as lines.
fn draw(title: &str, outcomes: &[Outcome], recipe: f64, ideal: f64) -> String {
    const LEFT: f64 = 70.0;
    const TOP: f64 = 90.0;
    const WIDTH: f64 = 700.0;
    const HEIGHT: f64 = 340.0;
    let worst = outcomes.iter().map(|o| o.over_auto).fold(recipe, f64::max);
    let y = |over: f64| TOP + HEIGHT * (1.0 - over / (1.05 * worst));
    let mut page = Page::new(LEFT + WIDTH + 30.0, TOP + HEIGHT + 60.0);
    page.text(LEFT, 28.0, Anchor::Start, 16.0, "Time of a migration over that of auto, on equal memory");
    page.text(LEFT, 48.0, Anchor::Start, 12.0, title);
    let inks = [(BLUE, "Revolve"), (ORANGE, "uniform"), (PURPLE, "zCut"), (GREEN, "two levels"), (RED, "auto"), (GREY, "GPUZIP's recipe")];
    page.legend(LEFT, 74.0, &inks);
    let ticks = round_values(0.0, 1.05 * worst, 8);
    let step = ticks.get(1).map_or(1.0, |t| t - ticks[0]);
    let ticks: Vec<(f64, String)> = ticks.into_iter().map(|t| (t / (1.05 * worst), digits(t, step))).collect();
    page.ticks_left([LEFT, TOP + HEIGHT, WIDTH, HEIGHT], &ticks);
    let mut line = |over: f64, ink: &str, name: &str| {
        page.line([LEFT, y(over), LEFT + WIDTH, y(over)], ink);
        page.text(LEFT + 6.0, y(over) - 5.0, Anchor::Start, 12.0, name);
    };
    line(1.0, RED, &format!("auto: {:.2} times the time of keeping every state at no cost", 1.0 / ideal));
    line(recipe, GREY, &format!("GPUZIP's recipe: {recipe:.2}"));
    for (k, outcome) in outcomes.iter().enumerate() {
        let x = LEFT + WIDTH * (k as f64 + 0.5) / outcomes.len() as f64;
        page.curve(&[(x, y(outcome.over_auto))], outcome.entry.ink, false);
    }
    page.text(
        LEFT + WIDTH / 2.0,
        TOP + HEIGHT + 30.0,
        Anchor::Middle,
        13.0,
        &format!("{} configurations, from the fastest to the slowest", outcomes.len()),
    );
    page.finish()
}

fn main() {
    // `cargo bench` appends --bench.
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (Some(rtm3d), Some(svg)) = (arguments.next(), arguments.next()) else {
        println!("grid: not run; it takes some twenty minutes: make bench-grid");
        return;
    };
    let folder = std::env::temp_dir().join(format!("gpuzip-grid-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder is made");
    let bench = Bench { rtm3d, options: arguments.collect(), folder };

    // A step's time and a state's bytes, then the link, then what auto measures with that.
    let plain = format!("backend = 1\ncheckpointing_algorithm = {REVOLVE}\ncheckpointing_snaps = 30\ncache_capacity = {DEVICE}\n");
    let tuned: Vec<Value> = (0..5).map(|_| bench.run(&plain, &["--tune", "--steps", "1000"])).collect();
    let of = |key: &str| median(tuned.iter().map(|t| number(t, key)).collect());
    let (forward, backward) = (of("forward_ms") / 1e3, of("backward_ms") / 1e3);
    let state = (number(&tuned[0], "h2d_bytes") / number(&tuned[0], "h2d")) as u64;
    let link = format!("backend = 1\nlink_bandwidth = {:.0}\n", state as f64 / (TRANSFER * forward));
    let profile = bench.folder.join("profile");
    let budgets = format!("device_budget = {}\nhost_budget = {}\n", u64::from(DEVICE) * state, u64::from(HOST) * state);
    let auto = format!("{link}{budgets}checkpointing_algorithm = {AUTO}\nprofile_path = {}\n", profile.display());
    let chosen = bench.run(&auto, &["--tune", "--steps", &STEPS.to_string()]);

    let ideal = STEPS as f64 * (forward + backward);
    let text = |key: &str| chosen[key].as_str().unwrap_or("?").to_string();
    let mut title = format!(
        "Simulated link; {}, {} x {} x {}, {STEPS} steps of {:.0} and {:.0} us; ",
        text("model").rsplit('/').next().unwrap_or_default(),
        chosen["n1"],
        chosen["n2"],
        chosen["n3"],
        forward * 1e6,
        backward * 1e6
    );
    let _ = write!(title, "a transfer takes {TRANSFER} steps; {DEVICE} snapshots on the device, {HOST} on the host");
    println!("{title}");
    println!("auto: {}, {} snapshots, cache of {}", text("algorithm"), chosen["snapshots"], chosen["cache"]);

    let recipe = entry("GPUZIP's recipe".into(), GREY, REVOLVE, 8, 0, DEVICE);
    let recipe = Entry { config: format!("{}policy = 1\n", recipe.config), ..recipe };
    let (auto, mut outcomes) = measure(&bench, &link, &auto, entries().into_iter().chain([recipe]).collect());
    let recipe = outcomes.pop().expect("the recipe was measured last");
    outcomes.sort_by(|a, b| a.over_auto.total_cmp(&b.over_auto));
    println!("{:<44} {:>8} {:>8} {:>10}", "configuration", "seconds", "x ideal", "over auto");
    for Outcome { entry, seconds, over_auto } in outcomes.iter().chain([&recipe]) {
        println!("{:<44} {seconds:>8.3} {:>8.3} {over_auto:>10.3}", entry.name, seconds / ideal);
    }
    println!("{:<44} {auto:>8.3} {:>8.3} {:>10.3}", "auto", auto / ideal, 1.0);
    println!(
        "of {} configurations the best takes {:.3} times as long as auto (auto within {:.1} %, wanted {:.0} %), GPUZIP's recipe {:.2} times (wanted {AHEAD})",
        outcomes.len(), outcomes[0].over_auto, (1.0 / outcomes[0].over_auto - 1.0) * 100.0, (NEAR_BEST - 1.0) * 100.0, recipe.over_auto
    );
    std::fs::write(&svg, draw(&title, &outcomes, recipe.over_auto, ideal / auto)).expect("the drawing is written");
    let _ = std::fs::remove_dir_all(&bench.folder);
}
