//! Draws SVG pages: shapes, text, and axes with round ticks.

use std::fmt::{Display, Write};

/// Colours that colour-blind readers can tell apart (Okabe and Ito).
pub const BLUE: &str = "#0072b2";
pub const SKY: &str = "#8cc9ec";
pub const GREEN: &str = "#009e73";
pub const ORANGE: &str = "#e69f00";
pub const RED: &str = "#d55e00";
pub const PURPLE: &str = "#cc79a7";
pub const GREY: &str = "#777777";
const INK: &str = "#222222";
const FAINT: &str = "#dddddd";

/// Where a text is anchored.
#[derive(Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A page measured in pixels, with its origin at the top left.
pub struct Page {
    width: f64,
    height: f64,
    body: String,
}

impl Page {
    pub fn new(width: f64, height: f64) -> Self {
        Page { width, height, body: String::new() }
    }

    fn add(&mut self, element: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "{element}");
    }

    pub fn rect(&mut self, [x, y, width, height]: [f64; 4], fill: &str) {
        self.add(format_args!(
            r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" fill="{fill}"/>"#
        ));
    }

    pub fn line(&mut self, [x1, y1, x2, y2]: [f64; 4], ink: &str) {
        self.add(format_args!(
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{ink}"/>"#
        ));
    }

    /// Draws a line of twice the usual width.
    pub fn bold(&mut self, [x1, y1, x2, y2]: [f64; 4], ink: &str) {
        self.add(format_args!(
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{ink}" stroke-width="2" stroke-linecap="round"/>"#
        ));
    }

    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, size: f64, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        self.add(format_args!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" font-size="{size}" fill="{INK}">{text}</text>"#));
    }

    /// Draws text along a vertical axis, to be read from the bottom up.
    pub fn upright(&mut self, x: f64, y: f64, text: &str) {
        self.add(format_args!(
            r#"<text transform="translate({x:.1} {y:.1}) rotate(-90)" text-anchor="middle" font-size="13" fill="{INK}">{text}</text>"#
        ));
    }

    /// Draws a line through points, with a mark at each point.
    pub fn curve(&mut self, points: &[(f64, f64)], ink: &str, dashed: bool) {
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dash = if dashed { r#" stroke-dasharray="6 4""# } else { "" };
        self.add(format_args!(
            r#"<polyline points="{}" fill="none" stroke="{ink}" stroke-width="2"{dash}/>"#,
            path.join(" ")
        ));
        for (x, y) in points {
            self.add(format_args!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{ink}"/>"#));
        }
    }

    /// Draws a legend in one row: colours and their meanings. Returns the x where the legend ends.
    pub fn legend(&mut self, mut x: f64, y: f64, entries: &[(&str, &str)]) -> f64 {
        for (ink, name) in entries {
            self.rect([x, y - 10.0, 14.0, 11.0], ink);
            self.text(x + 19.0, y, Anchor::Start, 12.0, name);
            x += 36.0 + 6.6 * name.chars().count() as f64;
        }
        x
    }

    /// Draws ticks and grid lines of a horizontal axis from `x` to `x + width` at the height `y`.
    pub fn ticks_below(&mut self, [x, y, width, height]: [f64; 4], ticks: &[(f64, String)]) {
        for (at, label) in ticks {
            let at = x + at * width;
            self.line([at, y - height, at, y + 5.0], FAINT);
            self.text(at, y + 19.0, Anchor::Middle, 12.0, label);
        }
        self.line([x, y, x + width, y], INK);
    }

    /// Draws ticks and grid lines of a vertical axis at `x` that rises from `y`.
    pub fn ticks_left(&mut self, [x, y, width, height]: [f64; 4], ticks: &[(f64, String)]) {
        for (at, label) in ticks {
            let at = y - at * height;
            self.line([x - 5.0, at, x + width, at], FAINT);
            self.text(x - 9.0, at + 4.0, Anchor::End, 12.0, label);
        }
        self.line([x, y, x, y - height], INK);
    }

    /// Returns the text of the SVG file.
    pub fn finish(self) -> String {
        let Page { width, height, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"Helvetica, Arial, sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
        )
    }
}

/// Returns about `count` round values from `low` to `high`.
pub fn round_values(low: f64, high: f64, count: usize) -> Vec<f64> {
    let rough = (high - low) / count as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|s| s * power).find(|s| *s >= rough).unwrap_or(rough);
    if !(step > 0.0 && step.is_finite()) {
        return vec![low];
    }
    let first = (low / step - 1e-9).ceil();
    (0..).map(|k| (first + k as f64) * step).take_while(|v| *v <= high + 1e-9 * step).collect()
}

/// Formats a number with enough digits to tell it from values `step` away.
pub fn digits(value: f64, step: f64) -> String {
    let places = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
    format!("{value:.places$}")
}

/// What the title of a drawing says of several reverse sweeps.
pub fn in_sweeps(sweeps: u32) -> String {
    match sweeps {
        1 => String::new(),
        _ => format!(", {sweeps} reverse sweeps"),
    }
}
