//! `auto` beside a grid of configurations made by hand, measured: migrations of rtm3d over a
//! *simulated link*, all on equal memory.
//!
//! `grid RTM3D SVG STEPS[,HOST] [OPTIONS OF RTM3D]`, as `make bench-grid` runs it; some twenty minutes
//! on a machine that does nothing else. The balance is the raw one of GPUZIP's Salt data set: a
//! transfer of a snapshot takes 12 forward steps, the device holds 4 snapshots, the host HOST, or else
//! one for every 25 steps, one less. rtm3d computes on one core, transfers take the other; steps, copies and
//! transfers are real, only the link's bandwidth is given.

#[path = "../src/plan/svg.rs"]
#[allow(dead_code)]
mod svg;

use gpuzip::schedule::adjust;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use svg::{digits, round_values, Anchor, Page, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY};

/// Forward steps that a transfer takes, snapshots that the device holds, and steps for each that
/// the host holds, one less.
const TRANSFER: f64 = 12.0;
const DEVICE: u32 = 4;
const STEPS_OF_HOST: u32 = 25;
/// Rounds after the first one, and how many of the fastest entries are in them.
const ROUNDS: usize = 3;
const FASTEST: usize = 12;

/// `checkpointing_algorithm` in the C ABI.
const REVOLVE: u32 = 1;
const UNIFORM: u32 = 2;
const ZCUT: u32 = 3;
const AUTO: u32 = 4;
const TWO_LEVEL: u32 = 5;
const HREVOLVE: u32 = 8;

/// What must hold: the time of `auto` over that of the best entry, and of GPUZIP's recipe over
/// `auto`.
const NEAR_BEST: f64 = 1.08;
const AHEAD: f64 = 1.6;

struct Bench {
    rtm3d: String,
    steps: u32,
    /// Snapshots that the host holds.
    host: u32,
    options: Vec<String>,
    folder: PathBuf,
}

impl Bench {
    /// Runs rtm3d with this configuration file.
    fn run(&self, config: &str, more: &[&str]) -> Value {
        let file = self.folder.join("grid.cfg");
        std::fs::write(&file, config).expect("the configuration is written");
        let output = Command::new(&self.rtm3d)
            .args(["--json", "--config"])
            .args([&file, &"--out".into(), &self.folder.join("images")])
            .args(&self.options)
            .args(more)
            .env("OMP_NUM_THREADS", "1")
            .env("GPUZIP_PERFORMANCE_LOG", self.log())
            .output()
            .expect("rtm3d starts");
        assert!(output.status.success(), "{config}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("rtm3d writes JSON")
    }

    /// Seconds of the faster of two shots: in the first one memory is touched for the first time.
    fn seconds(&self, config: &str) -> f64 {
        let log = self.log();
        let _ = std::fs::remove_file(&log);
        let config = format!("{config}enable_performance_log = 1\n");
        let result = self.run(&config, &["--shots", "2", "--steps", &self.steps.to_string()]);
        let (device, host) =
            (number(&result, "peak_device_bytes"), number(&result, "peak_host_bytes"));
        let state = number(&result, "raw_bytes") / number(&result, "saves");
        let (most_device, most_host) = (DEVICE + 1, self.host + 1);
        assert!(
            device < f64::from(most_device) * state && host < f64::from(most_host) * state,
            "{config}: {device} and {host} bytes"
        );
        let log = std::fs::read_to_string(log).expect("the library writes a line per shot");
        let mut rows = log.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let header = rows.next().expect("names of columns");
        let column = |row: &[&str], name: &str| -> f64 {
            let k = header.iter().position(|column| *column == name).expect("a column");
            row[k].parse().expect("a number")
        };
        let shot = |row: Vec<&str>| {
            ["forward", "backward", "save", "restore"].iter().map(|name| column(&row, name)).sum()
        };
        rows.map(shot).fold(f64::INFINITY, f64::min)
    }

    fn log(&self) -> PathBuf {
        self.folder.join("shots.csv")
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

fn entry(
    name: String,
    ink: &'static str,
    algorithm: u32,
    snapshots: u32,
    chunk: u32,
    cache: u32,
) -> Entry {
    let config = format!(
        "checkpointing_algorithm = {algorithm}\ncheckpointing_snaps = {snapshots}\nschedule_chunk = {chunk}\ncache_capacity = {cache}\n"
    );
    Entry { name, ink, config }
}

/// Every algorithm over its parameters, as a user would try them: nothing in it takes more memory
/// than `auto` may.
fn entries(steps: u32, host: u32) -> Vec<Entry> {
    let most = DEVICE + host;
    let mut entries = Vec::new();
    // Some parts in a hundred apart.
    let ladder = |low: u32, high: u32, parts: u32| {
        std::iter::successors(Some(low), move |x| Some(x + (x * parts / 100).max(1)))
            .take_while(move |&x| x < high)
    };
    for s in ladder(4, most, 25).chain([most]) {
        entries.push(entry(format!("Revolve, {s} snapshots"), BLUE, REVOLVE, s, 0, DEVICE));
    }
    for s in ladder(6, most, 60).chain([most]) {
        entries.push(entry(format!("uniform, {s} snapshots"), ORANGE, UNIFORM, s, 0, DEVICE));
    }
    for chunk in
        ladder(20, steps / 4, 50).filter(|chunk| steps.div_ceil(*chunk) - 1 + chunk <= host)
    {
        entries.push(entry(format!("zCut, chunks of {chunk}"), PURPLE, ZCUT, 0, chunk, DEVICE));
    }
    for (cache, parts) in [(DEVICE, 15), (3, 40)] {
        for chunk in ladder(steps.div_ceil(host + 1), steps / 4, parts)
            .filter(|chunk| steps.div_ceil(*chunk) - 1 <= host)
        {
            let (name, snapshots) = (
                format!("two levels, intervals of {chunk}, {cache} slots"),
                steps.div_ceil(chunk) - 1 + cache,
            );
            entries.push(entry(name, GREEN, TWO_LEVEL, snapshots, chunk, cache));
        }
    }
    for chunk in ladder(DEVICE + 2, steps / 20, 20) {
        let name = format!("nested, intervals of {chunk}, all {host} starts of the host");
        entries.push(entry(name, SKY, HREVOLVE, most, chunk, DEVICE));
    }
    entries
}

/// An entry's seconds, and its time over that of `auto` run right before it: medians over the
/// rounds.
struct Outcome {
    entry: Entry,
    seconds: f64,
    over_auto: f64,
}

fn measure(bench: &Bench, link: &str, auto: &str, entries: Vec<Entry>) -> (f64, Vec<Outcome>) {
    let (mut autos, mut all) = (Vec::new(), vec![(Vec::new(), Vec::new()); entries.len()]);
    let mut again: Vec<usize> = (0..entries.len()).collect();
    for round in 0..=ROUNDS {
        for &k in &again {
            let (auto, own) =
                (bench.seconds(auto), bench.seconds(&format!("{}{link}", entries[k].config)));
            eprintln!("round {round}: auto {auto:.3} s, {} {own:.3} s", entries[k].name);
            autos.push(auto);
            all[k].0.push(own);
            all[k].1.push(own / auto);
        }
        // The last one is the recipe.
        let over =
            |k: &usize| if *k + 1 == entries.len() { 0.0 } else { median(all[*k].1.clone()) };
        again.sort_by(|a, b| over(a).total_cmp(&over(b)));
        again.truncate(FASTEST + 1);
    }
    let outcomes = entries.into_iter().zip(all).map(|(entry, (seconds, over_auto))| Outcome {
        entry,
        seconds: median(seconds),
        over_auto: median(over_auto),
    });
    (median(autos), outcomes.collect())
}

/// The outcomes as marks over their rank, with `auto` and the recipe as lines.
fn draw(title: [&str; 2], outcomes: &[Outcome], recipe: f64, ideal: f64) -> String {
    const LEFT: f64 = 70.0;
    const TOP: f64 = 108.0;
    const WIDTH: f64 = 700.0;
    const HEIGHT: f64 = 340.0;
    let worst = outcomes.iter().map(|o| o.over_auto).fold(recipe, f64::max);
    let y = |over: f64| TOP + HEIGHT * (1.0 - over / (1.05 * worst));
    let mut page = Page::new(LEFT + WIDTH + 30.0, TOP + HEIGHT + 60.0);
    page.text(
        LEFT,
        28.0,
        Anchor::Start,
        16.0,
        "Time of a migration over that of auto, on equal memory",
    );
    page.text(LEFT, 48.0, Anchor::Start, 12.0, title[0]);
    page.text(LEFT, 65.0, Anchor::Start, 12.0, title[1]);
    let inks = [
        (BLUE, "Revolve"),
        (ORANGE, "uniform"),
        (PURPLE, "zCut"),
        (GREEN, "two levels"),
        (SKY, "nested"),
        (RED, "auto"),
        (GREY, "GPUZIP's recipe"),
    ];
    page.legend(LEFT, 91.0, &inks);
    let ticks = round_values(0.0, 1.05 * worst, 8);
    let step = ticks.get(1).map_or(1.0, |t| t - ticks[0]);
    let ticks: Vec<(f64, String)> =
        ticks.into_iter().map(|t| (t / (1.05 * worst), digits(t, step))).collect();
    page.ticks_left([LEFT, TOP + HEIGHT, WIDTH, HEIGHT], &ticks);
    for (over, ink) in [(1.0, RED), (recipe, GREY)] {
        page.line([LEFT, y(over), LEFT + WIDTH, y(over)], ink);
    }
    let auto = format!("auto: {:.2} times the time of keeping every state at no cost", 1.0 / ideal);
    page.text(LEFT + WIDTH, y(1.0) + 15.0, Anchor::End, 12.0, &auto);
    page.text(
        LEFT + 6.0,
        y(recipe) - 5.0,
        Anchor::Start,
        12.0,
        &format!("GPUZIP's recipe: {recipe:.2}"),
    );
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
    let (Some(rtm3d), Some(svg), Some(steps)) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        println!("grid: not run; it takes some twenty minutes: make bench-grid");
        return;
    };
    let folder = std::env::temp_dir().join(format!("gpuzip-grid-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder is made");
    let (steps, host) = steps.split_once(',').map_or((&steps[..], None), |(a, b)| (a, Some(b)));
    let steps: u32 = steps.parse().expect("a number of steps");
    let host = host.map_or(steps / STEPS_OF_HOST - 1, |host| host.parse().expect("snapshots"));
    let bench = Bench { rtm3d, steps, host, options: arguments.collect(), folder };

    // A step's time and a state's bytes, then the link, then what auto measures with that.
    let plain = format!("backend = 1\ncheckpointing_algorithm = {REVOLVE}\ncheckpointing_snaps = 30\ncache_capacity = {DEVICE}\n");
    let tuned: Vec<Value> =
        (0..5).map(|_| bench.run(&plain, &["--tune", "--shots", "1", "--steps", "1000"])).collect();
    let of = |key: &str| median(tuned.iter().map(|t| number(t, key)).collect());
    let (forward, backward) = (of("forward_ms") / 1e3, of("backward_ms") / 1e3);
    let state = (number(&tuned[0], "h2d_bytes") / number(&tuned[0], "h2d")) as u64;
    let link =
        format!("backend = 1\nlink_bandwidth = {:.0}\n", state as f64 / (TRANSFER * forward));
    let profile = bench.folder.join("profile");
    let budgets = format!(
        "device_budget = {}\nhost_budget = {}\n",
        u64::from(DEVICE) * state,
        u64::from(bench.host) * state
    );
    let auto = format!(
        "{link}{budgets}checkpointing_algorithm = {AUTO}\nprofile_path = {}\n",
        profile.display()
    );
    let chosen = bench.run(&auto, &["--tune", "--shots", "1", "--steps", &steps.to_string()]);

    let ideal = f64::from(steps) * (forward + backward);
    let text = |key: &str| chosen[key].as_str().unwrap_or("?").to_string();
    let model = text("model").rsplit('/').next().unwrap_or_default().to_string();
    let (n1, n2, n3) = (&chosen["n1"], &chosen["n2"], &chosen["n3"]);
    let case = format!(
        "{model}, {n1} x {n2} x {n3}; {steps} steps, forward {:.0} us, backward {:.0} us",
        forward * 1e6,
        backward * 1e6
    );
    let host = bench.host;
    let balance = format!("Simulated link: a transfer takes {TRANSFER} steps; {DEVICE} snapshots on the device, {host} on the host");
    println!("{case}\n{balance}");
    println!(
        "auto: {}, {} snapshots, cache of {}",
        text("algorithm"),
        chosen["snapshots"],
        chosen["cache"]
    );

    let recipe = entry("GPUZIP's recipe".into(), GREY, REVOLVE, adjust(steps.into()), 0, DEVICE);
    let recipe = Entry { config: format!("{}policy = 1\n", recipe.config), ..recipe };
    let entries = entries(steps, bench.host);
    let (auto, mut outcomes) =
        measure(&bench, &link, &auto, entries.into_iter().chain([recipe]).collect());
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
    let others = outcomes.iter().filter(|o| o.entry.ink != SKY);
    let others = others.map(|o| o.over_auto).fold(f64::INFINITY, f64::min);
    println!("the best configuration that is not nested takes {others:.3} times as long as auto");
    std::fs::write(&svg, draw([&case, &balance], &outcomes, recipe.over_auto, ideal / auto))
        .expect("the drawing is written");
    let _ = std::fs::remove_dir_all(&bench.folder);
}
