//! Speed of schedules and plans, each compared with a limit measured in the same run.
//!
//! The limit of a schedule is a trivial iterator that yields the same number of actions and is
//! folded in the same way. The limit of a plan is the generation of its schedule, which every plan
//! needs once.

use gpuzip::plan::{Access, Fetch, Index, Plan, Policy, Step};
use gpuzip::schedule::{Action, Kind, Schedule};
use std::hint::black_box;
use std::mem::size_of;
use std::time::Instant;

/// Limits of the design: time per action in ns, and time in seconds for the plan of a million
/// steps.
const ACTION_NS: f64 = 20.0;
const PLAN_S: f64 = 1.0;

fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown", |m| m.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{cores} cores, {model}")
}

/// Returns the median time of `runs` calls in seconds.
fn seconds<T>(runs: usize, mut call: impl FnMut() -> T) -> f64 {
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let begin = Instant::now();
            black_box(call());
            begin.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[runs / 2]
}

/// Folds all members of every action, so that the compiler cannot drop one of them. Each result
/// depends on the previous one, so that the compiler cannot vectorise the trivial iterator.
fn fold(actions: impl Iterator<Item = Action>) -> (u64, u64) {
    let chain = |sum: u64, a: Action| {
        (sum ^ a.ts as u64).rotate_left(7) ^ (a.kind as u64) << 8 ^ a.flags as u64
    };
    actions.fold((0, 0), |(count, sum), action| (count + 1, chain(sum, action)))
}

/// Yields `count` actions at the lowest possible cost.
fn trivial(count: u64) -> impl Iterator<Item = Action> {
    (0..count).map(|i| Action {
        kind: if i & 1 == 0 { Kind::Forward } else { Kind::Backward },
        ts: i as u32,
        flags: i as u32 & 15,
    })
}

fn generation(name: &str, schedule: &Schedule) {
    let (count, _) = fold(schedule.actions());
    let per_action = |seconds: f64| seconds * 1e9 / count as f64;
    // black_box hides the parameters: the compiler could otherwise evaluate the loop at compile
    // time.
    let time = per_action(seconds(15, || fold(black_box(schedule).actions())));
    let limit = per_action(seconds(15, || fold(trivial(black_box(count)))));
    println!(
        "{name:<28} {count:>10}  {time:>9.2}  {limit:>8.2}  {:>5.1}  <= {ACTION_NS}",
        time / limit
    );
}

fn planning(name: &str, schedule: &Schedule, cache: u32, policy: Policy) {
    let generating = seconds(5, || fold(schedule.actions()));
    let indexing = seconds(5, || Index::new(schedule).unwrap());
    let index = Index::new(schedule).unwrap();
    let planning = seconds(5, || Plan::of(&index, cache, policy).unwrap());
    let plan = Plan::of(&index, cache, policy).unwrap();
    let accesses = index.accesses.len() as f64;
    let per_access = |seconds: f64| seconds * 1e9 / accesses;
    let kept =
        plan.steps.capacity() * size_of::<Step>() + plan.fetches.capacity() * size_of::<Fetch>();
    let passing = index.accesses.capacity() * size_of::<Access>();
    let total = indexing + planning;
    println!(
        "{name:<16} {cache:>2}  {:<11} {accesses:>8}  {indexing:>6.3}  {planning:>6.3}  {total:>6.3}  <= {PLAN_S}  {generating:>8.3}  \
         {:>5.1}  {:>8.1}  {:>7.1}  {:>7.1}",
        policy.name(),
        total / generating,
        per_access(total),
        kept as f64 / accesses,
        passing as f64 / accesses,
    );
}

fn main() {
    println!("machine: {}\n", machine());
    println!("schedules, median of 15; the limit is a trivial iterator of the same length, folded in the same way");
    println!(
        "{:<28} {:>10}  {:>9}  {:>8}  {:>5}  target",
        "schedule", "actions", "ns/action", "limit ns", "ratio"
    );
    let million = 1_000_000;
    for (name, schedule) in [
        ("revolve n=10^6 s=10", Schedule::revolve(million, 10)),
        ("revolve n=10^6 s=100", Schedule::revolve(million, 100)),
        ("revolve n=10^4 s=50", Schedule::revolve(10_000, 50)),
        ("uniform n=10^6 s=100", Schedule::uniform(million, 100)),
        ("uniform n=10^6 s=2000", Schedule::uniform(million, 2000)),
        ("zcut n=10^6 chunk=1000", Schedule::zcut(million, 0, 1000)),
        ("two-level n=10^6 L=1000 c=10", Schedule::two_level(million, 1010, 1000, 10)),
        ("store-all n=10^6", Schedule::store_all(million)),
    ] {
        generation(name, &schedule.unwrap());
    }
    println!("\nplans for n=10^6, median of 5; the limit is generating the schedule once; the index goes when the plan is made");
    println!(
        "{:<16} {:>2}  {:<11} {:>8}  {:>6}  {:>6}  {:>6}  {:<6}{:>8}  {:>5}  {:>8}  {:>7}  {:>7}",
        "schedule",
        "C",
        "policy",
        "accesses",
        "index",
        "plan",
        "s",
        "target",
        "limit s",
        "ratio",
        "ns/event",
        "plan B",
        "index B"
    );
    for (name, snapshots, cache) in [("revolve s=100", 100, 8), ("revolve s=10", 10, 4)] {
        for policy in [Policy::Clairvoyant, Policy::Lru] {
            planning(name, &Schedule::revolve(million, snapshots).unwrap(), cache, policy);
        }
    }
}
