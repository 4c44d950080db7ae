//! The cost of a session: its own work per action, and the speed of its copies relative to memcpy,
//! each compared with a limit measured in the same run.

mod common;

use common::{field, machine, sweep};
use gpuzip::config::Config;
use gpuzip::device::AppField;
use gpuzip::plan::{Plan, Policy};
use gpuzip::schedule::{Algorithm, Kind, Schedule};
use gpuzip::session::Session;
use gpuzip::stats::Stats;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Limit of the design: host time per action in ns.
const ACTION_NS: f64 = 1000.0;

fn config(snapshots: u32, cache: u32) -> Config {
    Config::default().with(|c| {
        c.schedule.algorithm = Some(Algorithm::Revolve);
        c.schedule.snapshots = snapshots;
        c.tiers.cache = cache;
        c.tiers.policy = Policy::Clairvoyant;
    })
}

fn session(steps: u32, snapshots: u32, cache: u32, values: usize) -> Session {
    Session::new(
        config(snapshots, cache),
        steps.into(),
        &[AppField { field: field(values), memory: None }],
    )
    .unwrap()
}

/// Returns time in seconds and statistics of the sweep with the median time of five, after one
/// sweep that touches all memory.
fn median(session: &mut Session, data: &mut [f32], step: fn(&mut [f32])) -> (f64, Stats) {
    sweep(session, data, step);
    let mut sweeps: Vec<_> = (0..5).map(|_| sweep(session, data, step)).collect();
    sweeps.sort_by(|a, b| a.0.total_cmp(&b.0));
    sweeps.swap_remove(2)
}

/// Returns the median of five results of `call`, in seconds, after one call that touches all
/// memory.
fn median_of(mut call: impl FnMut() -> f64) -> f64 {
    call();
    let mut times: Vec<f64> = (0..5).map(|_| call()).collect();
    times.sort_by(f64::total_cmp);
    times[2]
}

/// Returns the median time in seconds of one of `count` calls.
fn seconds_each<T>(count: u32, mut call: impl FnMut() -> T) -> f64 {
    median_of(|| {
        let begin = Instant::now();
        (0..count).for_each(|_| drop(black_box(call())));
        begin.elapsed().as_secs_f64() / f64::from(count)
    })
}

/// Runs the same application without a session: plain memcpy to and from the same slots, all of
/// them in memory, with the same steps in between. Returns the median of the time in seconds that
/// the copies of a sweep take.
fn by_hand(schedule: &Schedule, data: &mut [f32], step: fn(&mut [f32])) -> f64 {
    let plan = Plan::new(schedule, schedule.snapshots, Policy::Clairvoyant).unwrap();
    let length = data.len();
    let mut slab = huge_pages(plan.device_slots as usize * length);
    median_of(|| {
        let mut slots = plan.steps.iter().map(|step| step.slot as usize * length);
        let mut copying = Duration::ZERO;
        for action in schedule.actions() {
            let begin = Instant::now();
            match action.kind {
                Kind::Save => {
                    slab[slots.next().unwrap()..][..length].copy_from_slice(black_box(&*data))
                }
                Kind::Restore => {
                    data.copy_from_slice(black_box(&slab[slots.next().unwrap()..][..length]))
                }
                _ => {
                    step(data);
                    continue;
                }
            }
            copying += begin.elapsed();
        }
        copying.as_secs_f64()
    })
}

/// Returns memory with huge pages, as a session's slots have: the page size alone can change the
/// speed of a copy.
fn huge_pages(values: usize) -> Vec<f32> {
    let mut memory = Vec::with_capacity(values);
    let (address, page) = (memory.as_mut_ptr() as usize, 4096);
    let begin = address.next_multiple_of(page);
    let bytes = (address + values * 4).saturating_sub(begin);
    // SAFETY: the pages are inside the allocation of `memory`; the advice does not change their
    // contents.
    unsafe { libc::madvise(begin as *mut _, bytes, libc::MADV_HUGEPAGE) };
    memory.resize(values, 0.0);
    memory
}

/// Prints the least cost of each part of the overhead: generating an action, reading the clock,
/// copying a field.
fn limits(schedule: &Schedule, actions: f64, data: &[f32]) {
    let sum = || schedule.actions().fold(0u64, |sum, action| sum.rotate_left(7) ^ action.ts as u64);
    let action = seconds_each(1, sum) / actions;
    let clock = seconds_each(100_000, Instant::now);
    let mut slot = data.to_vec();
    let copy = seconds_each(100_000, || slot.copy_from_slice(black_box(data)));
    let [action, clock, copy] = [action, clock, copy].map(|seconds| seconds * 1e9);
    println!("limits in ns: generating an action {action:.1}, Instant::now {clock:.1}, copying 64 bytes {copy:.1}");
}

/// Prints the cost of sessions with tiny fields: everything but the copy itself.
fn overhead(steps: u32, snapshots: u32) {
    let schedule = Schedule::revolve(steps, snapshots).unwrap();
    let actions = schedule.actions().count() as f64;
    let mut data = vec![0.5f32; 16];
    println!("overhead: revolve n={steps} s={snapshots}, {actions} actions, one field of 64 bytes, median of 5 sweeps");
    limits(&schedule, actions, &data);
    println!(
        "cache  ns/action   target  ns/SAVE  ns/RESTORE  ns/action without them     h2d     d2h"
    );
    for cache in [snapshots / 5, snapshots] {
        let (seconds, stats) =
            median(&mut session(steps, snapshots, cache, data.len()), &mut data, |_| ());
        println!(
            "{cache:>5}  {:>9.0}  <= {ACTION_NS}  {:>7.0}  {:>10.0}  {:>22.0}  {:>6}  {:>6}",
            seconds * 1e9 / actions,
            stats.save * 1e9 / stats.saves as f64,
            stats.restore * 1e9 / stats.restores as f64,
            (seconds - stats.stall) * 1e9 / actions,
            stats.h2d,
            stats.d2h
        );
    }
}

/// A step that reads and writes the whole field, so that transfers can overlap with it.
fn relax(data: &mut [f32]) {
    data.iter_mut().for_each(|x| *x = *x * 0.999 + 0.001);
}

/// Prints the time that the application waits for snapshots of 8 MiB, as a bandwidth.
fn bandwidth(steps: u32, snapshots: u32) {
    let schedule = Schedule::revolve(steps, snapshots).unwrap();
    let mut data = vec![0.5f32; 2 << 20];
    println!("\nstall: revolve n={steps} s={snapshots}, one field of 8 MiB, median of 5 sweeps; a step reads and writes the field");
    println!("the limit is the same sweep with plain memcpy to and from as many slots as there are snapshots");
    println!("cache  stall GB/s  memcpy GB/s  ratio  step ms  stalled    h2d    d2h   late");
    for cache in [snapshots / 5, snapshots] {
        let (seconds, stats) =
            median(&mut session(steps, snapshots, cache, data.len()), &mut data, relax);
        let plain = by_hand(&schedule, &mut data, relax);
        let gigabytes = stats.raw_bytes as f64 / 1e9 * (stats.saves + stats.restores) as f64
            / stats.saves as f64;
        println!(
            "{cache:>5}  {:>10.2}  {:>11.2}  {:>5.2}  {:>7.2}  {:>6.0}%  {:>5}  {:>5}  {:>5}",
            gigabytes / stats.stall,
            gigabytes / plain,
            plain / stats.stall,
            (stats.forward + stats.backward) * 1e3
                / (stats.forward_steps + stats.backward_steps) as f64,
            stats.stall / seconds * 100.0,
            stats.h2d,
            stats.d2h,
            stats.late_prefetches
        );
    }
}

fn main() {
    println!("machine: {}\n", machine());
    overhead(100_000, 20);
    bandwidth(300, 20);
}
