//! Draws the timeline of a plan: the whole shot as shares of time, and some of its steps in detail.

use super::costs::Machine;
use super::svg::{
    digits, in_sweeps, round_values, Anchor, Page, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY,
};
use super::text::name;
use crate::units::seconds;
use gpuzip::choice::Candidate;
use gpuzip::error::Result;
use gpuzip::predict::{simulate_timeline, Row, Timeline};

pub const LEFT: f64 = 150.0;
pub const WIDTH: f64 = 1000.0;
const LANE: f64 = 34.0;
const GAP: f64 = 10.0;

/// What the columns of a panel of shares mean, and what a panel of details is.
pub const SHARES: &str = "the share of the time for which each row is busy";
pub const A_PART: &str = "A part of it, to scale";

/// A row of the drawing: the activities of one engine, each with its colour.
pub type Lane = (&'static str, &'static [(Row, &'static str)]);

const LANES: [Lane; 4] = [
    (
        "stream",
        &[
            (Row::Forward, BLUE),
            (Row::Recompute, SKY),
            (Row::Backward, GREEN),
            (Row::Codec, ORANGE),
            (Row::Stall, RED),
        ],
    ),
    ("host to device", &[(Row::H2d, PURPLE)]),
    ("device to host", &[(Row::D2h, GREY)]),
    ("disk", &[(Row::DiskRead, PURPLE), (Row::DiskWrite, GREY)]),
];

/// Draws the timeline of a candidate's slowest session.
pub fn draw(candidate: &Candidate, machine: &Machine) -> Result<String> {
    let (tiers, plan) = (&machine.alternatives[candidate.alternative][0], &candidate.plans[0]);
    let (found, timeline) =
        simulate_timeline(&candidate.schedule, plan, &tiers.costs, tiers.budgets)?;
    let mut lanes = lanes(&[&timeline]);
    if machine.cpu {
        // What crosses a link on other machines is copied or coded by threads here.
        for (label, _) in &mut lanes {
            *label = match *label {
                "host to device" => "into the cache",
                "device to host" => "out of the cache",
                label => label,
            };
        }
    }
    let panel = panel_height(&lanes);
    let mut page = Page::new(LEFT + WIDTH + 40.0, 2.0 * panel + 210.0);
    let c = &candidate.schedule;
    let title = format!(
        "{}, n = {}{}, {} snapshots, {}: {}, {:.2} times the steps alone",
        name(candidate),
        c.macro_steps().time_steps(),
        in_sweeps(c.sweeps()),
        c.snapshots,
        machine.ways[candidate.alternative],
        seconds(found.makespan),
        found.over_problem_ideal()
    );
    page.text(20.0, 28.0, Anchor::Start, 16.0, &title);
    keys(&mut page, 54.0, &lanes, if tiers.costs.compressed { "codec" } else { "copy" });
    let top = 86.0;
    page.text(20.0, top - 8.0, Anchor::Start, 13.0, &format!("The whole run: {SHARES}"));
    shares(&mut page, &lanes, &timeline, found.makespan, top);
    let top = top + panel + 68.0;
    let window = window(&timeline, found.makespan);
    page.text(20.0, top - 8.0, Anchor::Start, 13.0, A_PART);
    details(&mut page, &lanes, &timeline, window, top);
    Ok(page.finish())
}

/// Returns the rows in which one of these timelines has an activity that takes time.
pub fn lanes(timelines: &[&Timeline]) -> Vec<Lane> {
    let takes_time = |timeline: &&Timeline, row| timeline.row(row).iter().any(|(a, b)| b > a);
    let busy = |(_, rows): &Lane| {
        rows.iter().any(|(row, _)| timelines.iter().any(|timeline| takes_time(timeline, *row)))
    };
    LANES.into_iter().filter(busy).collect()
}

/// Returns the height of a panel with these rows, in pixels.
pub fn panel_height(lanes: &[Lane]) -> f64 {
    lanes.len() as f64 * (LANE + GAP)
}

/// Draws the legend of the rows; `copies` names what the stream does with snapshots.
pub fn keys(page: &mut Page, y: f64, lanes: &[Lane], copies: &str) {
    let inks = [
        (BLUE, "forward"),
        (SKY, "recompute"),
        (GREEN, "backward"),
        (ORANGE, copies),
        (RED, "waiting"),
    ];
    let end = page.legend(LEFT, y, &inks);
    if lanes.len() > 1 {
        let names = match lanes.iter().any(|(label, _)| label.contains("device")) {
            true => ["to the device", "to the host"],
            false => ["fetched", "stored"],
        };
        page.legend(end, y, &[(PURPLE, names[0]), (GREY, names[1])]);
    }
}

/// Chooses an interval of the reverse sweep with about 30 steps, which shows how transfers overlap
/// steps: from the first fetch in the sweep's second half on, or from its middle without fetches.
pub fn window(timeline: &Timeline, makespan: f64) -> (f64, f64) {
    let backward = timeline.row(Row::Backward);
    let begin = backward.get(backward.len() / 2).map_or(0.0, |interval| interval.0);
    let fetches = timeline.row(Row::H2d);
    let begin = fetches.iter().find(|fetch| fetch.0 >= begin).map_or(begin, |fetch| fetch.0);
    let end = backward.iter().find(|interval| interval.0 > begin).map_or(makespan, |_| {
        let after = backward.partition_point(|interval| interval.0 < begin);
        backward.get(after + 30).map_or(makespan, |interval| interval.1)
    });
    let margin = 0.04 * (end - begin);
    ((begin - margin).max(0.0), end.min(makespan))
}

fn lane_top(top: f64, k: usize) -> f64 {
    top + k as f64 * (LANE + GAP)
}

/// Draws each row as columns: the share of the column's time in which each activity is busy.
pub fn shares(page: &mut Page, lanes: &[Lane], timeline: &Timeline, makespan: f64, top: f64) {
    const COLUMNS: usize = 500;
    let bottom = lane_top(top, lanes.len()) - GAP;
    axis(page, (0.0, makespan), top, bottom);
    for (k, (label, rows)) in lanes.iter().enumerate() {
        page.text(LEFT - 12.0, lane_top(top, k) + LANE / 2.0 + 4.0, Anchor::End, 13.0, label);
        let mut filled = [0.0f64; COLUMNS];
        for (row, ink) in *rows {
            for (column, share) in
                columns::<COLUMNS>(timeline.row(*row), makespan).into_iter().enumerate()
            {
                let height = share * LANE;
                let y = lane_top(top, k) + LANE - filled[column] - height;
                if height > 0.05 {
                    page.rect(
                        [
                            LEFT + column as f64 * WIDTH / COLUMNS as f64,
                            y,
                            WIDTH / COLUMNS as f64 + 0.2,
                            height,
                        ],
                        ink,
                    );
                }
                filled[column] += height;
            }
        }
    }
}

/// Returns the share of each of N equal columns that the intervals cover.
fn columns<const N: usize>(intervals: &[(f64, f64)], makespan: f64) -> [f64; N] {
    let mut shares = [0.0; N];
    let width = makespan / N as f64;
    for &(begin, end) in intervals {
        let first = ((begin / width) as usize).min(N - 1);
        let last = ((end / width) as usize).min(N - 1);
        for (column, share) in shares.iter_mut().enumerate().take(last + 1).skip(first) {
            let (from, to) = (column as f64 * width, (column + 1) as f64 * width);
            *share += (end.min(to) - begin.max(from)).max(0.0) / width;
        }
    }
    shares
}

/// Draws each row as intervals of time.
pub fn details(page: &mut Page, lanes: &[Lane], timeline: &Timeline, window: (f64, f64), top: f64) {
    let bottom = lane_top(top, lanes.len()) - GAP;
    axis(page, window, top, bottom);
    let place = |time: f64| {
        LEFT + (time.clamp(window.0, window.1) - window.0) / (window.1 - window.0) * WIDTH
    };
    for (k, (label, rows)) in lanes.iter().enumerate() {
        page.text(LEFT - 12.0, lane_top(top, k) + LANE / 2.0 + 4.0, Anchor::End, 13.0, label);
        for (row, ink) in *rows {
            let intervals = timeline.row(*row);
            let first = intervals.partition_point(|interval| interval.1 <= window.0);
            for &(begin, end) in
                intervals[first..].iter().take_while(|interval| interval.0 < window.1)
            {
                let gap = if matches!(row, Row::H2d | Row::D2h | Row::DiskRead | Row::DiskWrite) {
                    1.0
                } else {
                    0.0
                };
                page.rect(
                    [
                        place(begin),
                        lane_top(top, k),
                        (place(end) - place(begin) - gap).max(0.4),
                        LANE,
                    ],
                    ink,
                );
            }
        }
    }
}

/// Draws the time axis of a panel, in seconds or milliseconds.
fn axis(page: &mut Page, (from, to): (f64, f64), top: f64, bottom: f64) {
    let (unit, scale) = if to - from < 0.1 { ("ms", 1e3) } else { ("s", 1.0) };
    let values = round_values(from * scale, to * scale, 8);
    let step = values.windows(2).next().map_or(1.0, |w| w[1] - w[0]);
    let ticks: Vec<_> =
        values.iter().map(|v| ((v / scale - from) / (to - from), digits(*v, step))).collect();
    page.ticks_below([LEFT, bottom + 4.0, WIDTH, bottom + 4.0 - top], &ticks);
    page.text(LEFT + WIDTH / 2.0, bottom + 41.0, Anchor::Middle, 13.0, &format!("time, {unit}"));
}
