//! Reads a timeline file (`trace_out`) and checks its shots.

use gpuzip::plan::Counts;
use gpuzip::schedule::{Action, Kind};
use gpuzip::stats::Stats;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A span of a timeline; `begin` and `length` are in microseconds.
#[derive(Clone, Debug)]
pub struct Span {
    pub begin: f64,
    pub length: f64,
    pub what: String,
    pub arguments: Value,
}

impl Span {
    pub fn argument(&self, name: &str) -> i64 {
        self.arguments[name].as_i64().unwrap_or_else(|| panic!("{name} in {self:?}"))
    }
}

/// The spans of one shot by their rows, and the arguments of the shot's event.
#[derive(Debug, Default)]
pub struct Shot {
    pub rows: BTreeMap<String, Vec<Span>>,
    pub about: Value,
}

impl Shot {
    pub fn row(&self, name: &str) -> &[Span] {
        self.rows.get(name).map_or(&[], Vec::as_slice)
    }

    /// Total length, in seconds, of the spans of a row that have one of these names; of all spans
    /// if there are no names.
    pub fn seconds(&self, row: &str, names: &[&str]) -> f64 {
        let of = |span: &&Span| names.is_empty() || names.contains(&span.what.as_str());
        self.row(row).iter().filter(of).map(|span| span.length).sum::<f64>() / 1e6
    }

    fn bytes(&self, rows: [&str; 2]) -> u64 {
        rows.iter().flat_map(|row| self.row(row)).map(|span| span.argument("bytes") as u64).sum()
    }

    /// Checks that spans of a row do not overlap, that the spans name every action once and in
    /// order, and that sums and counts agree with the statistics and the plan.
    pub fn check(&self, actions: &[(Action, u32)], stats: &Stats, plan: &Counts) {
        for (row, spans) in &self.rows {
            for pair in spans.windows(2) {
                assert!(pair[0].begin + pair[0].length <= pair[1].begin + 1e-6, "{row}: {pair:?}");
            }
        }
        let expected: Vec<(i64, &str, i64)> = (0..)
            .zip(actions)
            .filter_map(|(it, (action, end))| Some((it, name(action)?, *end as i64)))
            .collect();
        let mut found: Vec<(i64, &str, i64)> = Vec::new();
        for span in self.row("compute").iter().chain(self.row("stall")) {
            let end = span.arguments["last"].as_i64().unwrap_or(span.argument("state"));
            found.push((
                span.argument("action"),
                if span.what == "recompute" { "forward" } else { &span.what },
                end,
            ));
        }
        found.sort();
        assert_eq!(found, expected);
        let stall = self.seconds("stall", &[]);
        assert!(
            (stall - stats.stall).abs() < 1e-6 + 1e-9 * actions.len() as f64,
            "{stall} s, {} s of statistics",
            stats.stall
        );
        let count =
            |rows: [&str; 2]| rows.iter().map(|row| self.row(row).len() as u64).sum::<u64>();
        assert_eq!(count(["h2d", "h2d on the stream"]), plan.h2d);
        assert_eq!(count(["d2h", "d2h on the stream"]), plan.d2h);
        assert_eq!(
            (self.bytes(["h2d", "h2d on the stream"]), self.bytes(["d2h", "d2h on the stream"])),
            (stats.h2d_bytes, stats.d2h_bytes)
        );
        for (name, value) in stats.columns() {
            let told = &self.about["stats"][name];
            let (told, value) = (told.as_f64().unwrap(), value.parse::<f64>().unwrap());
            assert!((told - value).abs() <= 1e-12 * value.abs(), "{name}: {told} and {value}");
        }
    }
}

fn name(action: &Action) -> Option<&'static str> {
    match action.kind {
        Kind::Forward => Some("forward"),
        Kind::Backward => Some("backward"),
        Kind::Save => Some("save"),
        Kind::Restore => Some("restore"),
        Kind::Terminate | Kind::Error => None,
    }
}

/// The shots of a file, which must be complete JSON.
pub fn shots(path: &Path) -> Vec<Shot> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file: Value =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}\n{text}", path.display()));
    let (mut shots, mut shot) = (Vec::new(), Shot::default());
    let mut threads = BTreeMap::new();
    for event in file["traceEvents"].as_array().unwrap() {
        let number =
            |name: &str| event[name].as_f64().unwrap_or_else(|| panic!("{name} in {event}"));
        match event["ph"].as_str().unwrap() {
            "M" if event["name"] == "thread_name" => {
                threads.insert(
                    event["tid"].as_u64().unwrap(),
                    event["args"]["name"].as_str().unwrap().to_string(),
                );
            }
            "M" => {}
            "X" => {
                let row = threads[&event["tid"].as_u64().unwrap()].clone();
                assert_eq!(event["cat"], row.as_str());
                let what = event["name"].as_str().unwrap().to_string();
                let span = Span {
                    begin: number("ts"),
                    length: number("dur"),
                    what,
                    arguments: event["args"].clone(),
                };
                shot.rows.entry(row).or_default().push(span);
            }
            "i" => {
                shot.about = event["args"].clone();
                shots.push(std::mem::take(&mut shot));
            }
            other => panic!("an event of kind {other}"),
        }
    }
    assert!(shot.rows.is_empty(), "spans behind the last shot");
    shots
}
