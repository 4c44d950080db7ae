//! Draws a run beside its plan.

use super::compare::Columns;
use super::run::{Run, Shot};
use crate::plan::svg::{Anchor, Page};
use crate::plan::timeline::{
    details, keys, lanes, panel_height, shares, window, A_PART, LEFT, SHARES, WIDTH,
};
use crate::units::{seconds, size};

/// Describes a run in one line.
pub fn title(run: &Run, shot: &Shot) -> String {
    let configuration = shot.configuration();
    let text = |key: &str| {
        configuration[key].as_str().map_or_else(|| configuration[key].to_string(), String::from)
    };
    let link = match configuration["link_bandwidth"].as_f64() {
        Some(link) if link > 0.0 => format!(", simulated link of {}/s", size(link as u64)),
        _ => String::new(),
    };
    let stored = if shot.is_compressed() { text("compressor") } else { "raw".into() };
    format!(
        "{}, n = {}, {} snapshots, cache of {} slots, {}, {stored}; {}{link}",
        text("algorithm"),
        text("steps"),
        text("snapshots"),
        text("cache"),
        text("policy"),
        run.device
    )
}

/// Draws the whole shot above the simulated plan at the costs of the run, on a common time axis,
/// and below them some steps of each in detail.
pub fn draw(run: &Run, shot: &Shot, columns: &Columns) -> String {
    let (found, simulated) = (&columns.found, &columns.simulated);
    let times = [&columns.measured, &columns.remade].map(|values| values.get("makespan_s"));
    let until = times[0].max(times[1]);
    let lanes = lanes(&[found, simulated]);
    let panel = panel_height(&lanes) + 68.0;
    let mut page = Page::new(LEFT + WIDTH + 40.0, 4.0 * panel + 100.0);
    let name = run.path.file_name().unwrap_or_default().to_string_lossy();
    page.text(20.0, 28.0, Anchor::Start, 16.0, &format!("{name}: {}", title(run, shot)));
    keys(&mut page, 54.0, &lanes, if shot.is_compressed() { "copy or codec" } else { "copy" });
    let heading = |name: &str, k: usize, what: &str| {
        let values = [&columns.measured, &columns.remade][k];
        format!(
            "{name}, {what}: {}, {:.2} times the steps alone",
            seconds(times[k]),
            values.get("over_problem_ideal")
        )
    };
    let names = ["The run", "The plan, simulated at the costs of the run"];
    let mut top = 86.0;
    for (k, timeline) in [found, simulated].into_iter().enumerate() {
        page.text(20.0, top - 8.0, Anchor::Start, 13.0, &heading(names[k], k, SHARES));
        shares(&mut page, &lanes, timeline, until, top);
        top += panel;
    }
    for (k, timeline) in [found, simulated].into_iter().enumerate() {
        page.text(20.0, top - 8.0, Anchor::Start, 13.0, &format!("{}. {A_PART}", names[k]));
        details(&mut page, &lanes, timeline, window(timeline, times[k]), top);
        top += panel;
    }
    page.finish()
}
