//! Draws a schedule: which time step the application is at, and which snapshots are stored meanwhile.

use crate::options::refuse;
use crate::plan::svg::{digits, in_sweeps, round_values, Anchor, Page, BLUE, GREEN, ORANGE, SKY};
use gpuzip::error::Result;
use gpuzip::schedule::{flags, validate_schedule, Kind, Schedule};

const LEFT: f64 = 70.0;
const TOP: f64 = 80.0;
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 360.0;
/// The most lines of a drawing.
const MOST: usize = 20_000;

/// A line from one point to another; a point is the number of steps done and a time step.
struct Line {
    from: (f64, f64),
    to: (f64, f64),
    ink: &'static str,
}

/// Draws the time step of the application over the steps that it has done, forward and backward,
/// and each snapshot as a line from its SAVE to its last RESTORE.
pub fn draw(schedule: &Schedule) -> Result<String> {
    let (lines, done) = lines(schedule)?;
    let steps = f64::from(schedule.macro_steps().time_steps());
    let mut page = Page::new(LEFT + WIDTH + 30.0, TOP + HEIGHT + 60.0);
    let snapshots = if schedule.snapshots == 1 { "snapshot" } else { "snapshots" };
    let title = format!(
        "{}, n = {steps}{}, {} {snapshots}: {} forward steps",
        schedule.algorithm.name(),
        in_sweeps(schedule.sweeps()),
        schedule.snapshots,
        validate_schedule(schedule, false)?.forward_steps
    );
    page.text(20.0, 28.0, Anchor::Start, 16.0, &title);
    let keys = [(BLUE, "forward"), (SKY, "recompute"), (GREEN, "backward"), (ORANGE, "snapshot")];
    page.legend(LEFT, 56.0, &keys);
    let ticks = |high: f64| {
        let values = round_values(0.0, high, 8);
        values.iter().map(|v| (v / high, digits(*v, 1.0))).collect::<Vec<_>>()
    };
    let bottom = TOP + HEIGHT;
    page.ticks_below([LEFT, bottom, WIDTH, HEIGHT], &ticks(done));
    page.ticks_left([LEFT, bottom, WIDTH, HEIGHT], &ticks(steps));
    page.text(LEFT + WIDTH / 2.0, bottom + 42.0, Anchor::Middle, 13.0, "steps done");
    page.upright(22.0, TOP + HEIGHT / 2.0, "time step");
    let place = |(x, t): (f64, f64)| (LEFT + x / done * WIDTH, bottom - t / steps * HEIGHT);
    for Line { from, to, ink } in lines {
        let ((x1, y1), (x2, y2)) = (place(from), place(to));
        page.bold([x1, y1, x2, y2], ink);
    }
    Ok(page.finish())
}

/// Returns the lines of the drawing, snapshots first, and the number of steps done.
fn lines(schedule: &Schedule) -> Result<(Vec<Line>, f64)> {
    let (mut snapshots, mut steps): (Vec<Line>, Vec<Line>) = (Vec::new(), Vec::new());
    let mut done = 0.0;
    // For each stored time step, the position of its line.
    let mut stored = std::collections::HashMap::new();
    for (action, end) in schedule.ranges(true) {
        let (ts, end) = (f64::from(action.ts), f64::from(end));
        let (from, to, ink) = match action.kind {
            Kind::Forward if action.flags & flags::RECOMPUTE != 0 => (ts - 1.0, end, SKY),
            Kind::Forward => (ts - 1.0, end, BLUE),
            Kind::Backward => (end + 1.0, ts, GREEN),
            Kind::Save => {
                stored.insert(action.ts, snapshots.len());
                snapshots.push(Line { from: (done, ts), to: (done, ts), ink: ORANGE });
                continue;
            }
            Kind::Restore => {
                if let Some(&line) = stored.get(&action.ts) {
                    snapshots[line].to.0 = done;
                }
                continue;
            }
            Kind::Terminate => continue,
            Kind::Error => break,
        };
        let begin = done;
        done += (to - from).abs();
        // BACKWARDs in a row are one line.
        match steps.last_mut() {
            Some(last) if ink == GREEN && last.ink == GREEN && last.to.1 == from => {
                last.to = (done, to);
            }
            _ => steps.push(Line { from: (begin, from), to: (done, to), ink }),
        }
        if snapshots.len() + steps.len() > MOST {
            return refuse(format!(
                "--svg: the drawing of this schedule has more than {MOST} lines: draw fewer time steps"
            ));
        }
    }
    snapshots.append(&mut steps);
    Ok((snapshots, done))
}
