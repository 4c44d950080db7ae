//! The shortest times of 196 small problems, with which a unit test compares the plans of `auto`.
//! Prints the table `src/choice/optima.txt` (10 minutes): `cargo bench --bench optima`.

mod bound;
mod search;

use search::{optimum, Problem, STEP};

/// Number of problems of the table.
const PROBLEMS: usize = 196;
/// A problem is in the table if the proof of its optimum follows at most this many runs.
const MOST_RUNS: usize = 400_000;

/// Draws problem `k`: 8 to 24 steps, 1 to 4 slots on the device and 0 to 8 on the host, transfers of
/// 0.5 to 16 steps, copies of 0 to 0.5 steps.
fn problem(k: u64) -> Problem {
    let mut state = (1 << 32 | k).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = |n: u32| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % n
    };
    for _ in 0..8 {
        draw(1);
    }
    let (steps, cache, host) = (8 + draw(17), 1 + draw(4), draw(9));
    // From half a step on, each doubling is as likely as the others.
    let link = (STEP as u32 / 2) << draw(5);
    let (link, copy) = (link + draw(link + 1), draw(STEP as u32 / 2 + 1));
    let small = |number: u32| number as u8;
    Problem {
        steps: small(steps),
        cache: small(cache),
        host: small(host),
        link: link as i32,
        copy: copy as i32,
    }
}

fn main() {
    println!(
        "# Random small problems and their optima, proven by benches/optima: steps, slots on the device,\n\
         # slots on the host, time of a transfer, time of a copy on the device, shortest time of all\n\
         # nested schedules with all placements of their snapshots. Times are in 16ths of a step."
    );
    let solved = (0..).map(problem).filter_map(|p| Some((optimum(&p, MOST_RUNS)?, p)));
    for (time, Problem { steps, cache, host, link, copy }) in solved.take(PROBLEMS) {
        println!("{steps} {cache} {host} {link} {copy} {time}");
    }
}
