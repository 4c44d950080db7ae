//! The shortest times of small problems, with which a unit test compares the plans of `auto`.
//! `cargo bench --bench optima` prints the table `src/choice/optima.txt` of 196 problems without a disk (10
//! minutes), and `cargo bench --bench optima disk` the table `src/choice/optima_disk.txt` of problems with one.

mod bound;
mod search;

use search::{optimum, Problem, STEP};

/// Number of problems of each table.
const PROBLEMS: usize = 196;
const PROBLEMS_WITH_DISK: usize = 100;
/// A problem is in a table if the proof of its optimum follows at most this many runs.
const MOST_RUNS: usize = 400_000;

/// Slots of host memory that the staging buffers of a disk take. A plan that uses no disk has them for
/// snapshots.
const STAGING: u8 = 4;

/// Returns what draws the numbers of problem `k` of a table: each call with `n` returns one below `n`.
fn drawing(table: u64, k: u64) -> impl FnMut(u32) -> u32 {
    let mut state = (table << 32 | k).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = move |n: u32| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % n
    };
    for _ in 0..8 {
        draw(1);
    }
    draw
}

/// Draws problem `k`: 8 to 24 steps, 1 to 4 slots on the device and 0 to 8 on the host, transfers of
/// 0.5 to 16 steps, copies of 0 to 0.5 steps.
fn problem(k: u64) -> Problem {
    let mut draw = drawing(1, k);
    let (steps, cache, host) = (8 + draw(17), 1 + draw(4), draw(9));
    // From half a step on, each doubling is as likely as the others.
    let link = (STEP as u32 / 2) << draw(5);
    let (link, copy) = (link + draw(link + 1), draw(STEP as u32 / 2 + 1));
    Problem {
        steps: steps as u8,
        cache: cache as u8,
        host: host as u8,
        link: link as i32,
        copy: copy as i32,
        disk: 0,
        read: 0,
        write: 0,
    }
}

/// Draws problem `k` with a disk: 6 to 12 steps, 1 or 2 slots on the device, 0 to 2 in host memory beside
/// the staging buffers and 5 to 10 on disk, transfers of 0.5 to 4 steps, reads
/// and writes of a quarter to 2 steps, copies of 0 to 0.5 steps.
fn problem_with_disk(k: u64) -> Problem {
    let mut draw = drawing(2, k);
    let (steps, cache, host, disk) = (6 + draw(7), 1 + draw(2), draw(3), 5 + draw(6));
    let mut time = |least: u32| {
        let time = least << draw(3);
        (time + draw(time + 1)) as i32
    };
    // As without a disk, no transfer is quicker than a copy on the device.
    let (link, read, write) = (time(STEP as u32 / 2), time(STEP as u32 / 4), time(STEP as u32 / 4));
    Problem {
        steps: steps as u8,
        cache: cache as u8,
        host: host as u8,
        link,
        copy: draw(STEP as u32 / 2 + 1) as i32,
        disk: disk as u8,
        read,
        write,
    }
}

/// The optimum of a problem with a disk: of the plans that use it, and of those that do not.
fn with_disk(problem: &Problem) -> Option<i32> {
    let in_memory = Problem { host: problem.host + STAGING, disk: 0, ..*problem };
    let of_memory = optimum(&in_memory, MOST_RUNS, i32::MAX)?;
    optimum(problem, MOST_RUNS, of_memory)
}

fn main() {
    if std::env::args().any(|argument| argument == "disk") {
        println!(
            "# Random small problems with a disk and their optima, proven by benches/optima: steps, slots on the\n\
             # device, slots in host memory beside the staging buffers of the disk, slots on disk, time of a transfer,\n\
             # time of a copy on the device, time of a disk read, time of a disk write, shortest time of all nested\n\
             # schedules with all placements of their snapshots. Times are in 16ths of a step."
        );
        let solved = (0..).map(problem_with_disk).filter_map(|p| Some((with_disk(&p)?, p)));
        for (time, problem) in solved.take(PROBLEMS_WITH_DISK) {
            let Problem { steps, cache, host, link, copy, disk, read, write } = problem;
            println!("{steps} {cache} {host} {disk} {link} {copy} {read} {write} {time}");
        }
        return;
    }
    println!(
        "# Random small problems and their optima, proven by benches/optima: steps, slots on the device,\n\
         # slots on the host, time of a transfer, time of a copy on the device, shortest time of all\n\
         # nested schedules with all placements of their snapshots. Times are in 16ths of a step."
    );
    let solved = (0..).map(problem).filter_map(|p| Some((optimum(&p, MOST_RUNS, i32::MAX)?, p)));
    for (time, Problem { steps, cache, host, link, copy, .. }) in solved.take(PROBLEMS) {
        println!("{steps} {cache} {host} {link} {copy} {time}");
    }
}
