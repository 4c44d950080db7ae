//! Reads the timeline file of a run: its shots and the spans of each shot.

use crate::options::refuse;
use gpuzip::error::{Code, Error, Result};
use gpuzip::files;
use gpuzip::timeline::Row;
use serde_json::{Map, Value};
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};

/// A span, in seconds since the beginning of the shot.
#[derive(Clone, Debug)]
pub struct Span {
    pub row: Row,
    pub what: String,
    pub begin: f64,
    pub end: f64,
}

/// A shot that reached its end.
pub struct Shot {
    pub spans: Vec<Span>,
    about: Value,
}

/// The shots of a timeline file.
pub struct Run {
    pub path: PathBuf,
    pub device: String,
    pub shots: Vec<Shot>,
}

impl Run {
    /// Reads a timeline file. Every JSON event has a line of its own, so that the text of at most
    /// one shot is in memory.
    pub fn read(path: &Path) -> Result<Self> {
        read(path).map_err(|e| e.within(path.display()))
    }

    /// Returns the shot that was asked for, or the one of median makespan.
    pub fn shown(&self, number: Option<u64>) -> Result<&Shot> {
        let mut order: Vec<&Shot> = self.shots.iter().collect();
        order.sort_by(|a, b| a.makespan().total_cmp(&b.makespan()));
        let found = match number {
            Some(number) => order.into_iter().find(|shot| shot.number() == number),
            None => order.get((order.len().max(1) - 1) / 2).copied(),
        };
        match found {
            Some(shot) => Ok(shot),
            None => refuse(format!(
                "{}: no such shot: {} came to their end",
                self.path.display(),
                self.shots.len()
            )),
        }
    }
}

fn read(path: &Path) -> Result<Run> {
    let file = files::open(path, u64::MAX).map_err(|e| Error::new(Code::Io, e.to_string()))?;
    let (mut device, mut shots, mut spans) = (String::new(), Vec::new(), Vec::new());
    for (number, line) in (1..).zip(BufReader::new(file).lines()) {
        let strange = || {
            Error::new(Code::Parse, format!("line {number}: this is no timeline that gpuzip wrote"))
        };
        let line = line.map_err(|e| match e.kind() {
            // The file is not UTF-8 text.
            ErrorKind::InvalidData => strange(),
            _ => Error::new(Code::Io, e.to_string()),
        })?;
        if number == 1 {
            let head: Value = serde_json::from_str(&format!("{line}]}}")).map_err(|_| strange())?;
            device = head["otherData"]["device"].as_str().ok_or_else(strange)?.to_string();
            continue;
        }
        if line == "]}" {
            break;
        }
        let event: Value =
            serde_json::from_str(line.trim_end_matches(',')).map_err(|_| strange())?;
        match event["ph"].as_str() {
            Some("M") => {}
            Some("X") => spans.push(span(&event).ok_or_else(strange)?),
            Some("i") => shots.push(Shot::new(std::mem::take(&mut spans), event["args"].clone())),
            _ => return Err(strange()),
        }
    }
    Ok(Run { path: path.to_path_buf(), device, shots })
}

fn span(event: &Value) -> Option<Span> {
    let category = event["cat"].as_str()?;
    let row = Row::ALL.into_iter().find(|row| row.name() == category)?;
    let begin = event["ts"].as_f64()? / 1e6;
    Some(Span {
        row,
        what: event["name"].as_str()?.to_string(),
        begin,
        end: begin + event["dur"].as_f64()? / 1e6,
    })
}

impl Shot {
    /// Makes a shot, without the spans of an earlier shot that was broken off.
    fn new(mut spans: Vec<Span>, about: Value) -> Self {
        let origin = about["begin_s"].as_f64().unwrap_or(0.0);
        spans.retain(|span| span.begin >= origin - 1e-9);
        for span in &mut spans {
            (span.begin, span.end) = (span.begin - origin, span.end - origin);
        }
        Shot { spans, about }
    }

    /// Number of the shot in its session, from 1.
    pub fn number(&self) -> u64 {
        self.about["shot"].as_u64().unwrap_or(0)
    }

    /// Seconds from the first action to TERMINATE.
    pub fn makespan(&self) -> f64 {
        self.about["makespan_s"].as_f64().unwrap_or(0.0)
    }

    /// Returns a number that the run recorded for this shot.
    pub fn number_of(&self, name: &str) -> Result<f64> {
        number(&self.about, name)
    }

    /// Returns a recorded number that is a count.
    pub fn count_of(&self, name: &str) -> Result<u32> {
        Ok(self.number_of(name)? as u32)
    }

    /// Returns `adjoint_every` of the run; 1 in timelines of versions without it.
    pub fn every(&self) -> u32 {
        self.about["every"].as_u64().and_then(|every| u32::try_from(every).ok()).unwrap_or(1)
    }

    /// Returns `sweeps` of the run; 1 in timelines of versions without it.
    pub fn sweeps(&self) -> u32 {
        self.about["sweeps"].as_u64().and_then(|sweeps| u32::try_from(sweeps).ok()).unwrap_or(1)
    }

    /// Returns the device slots for raw snapshots in mixed storage; 0 without it, and in timelines of
    /// versions without it.
    pub fn raw_slots(&self) -> u32 {
        self.about["raw_slots"].as_u64().and_then(|slots| u32::try_from(slots).ok()).unwrap_or(0)
    }

    /// Returns a text that the run recorded for this shot; empty if there is none.
    pub fn text_of(&self, name: &str) -> &str {
        self.about[name].as_str().unwrap_or("")
    }

    /// Returns a recorded flag; false if there is none.
    pub fn is(&self, name: &str) -> bool {
        self.about[name].as_bool().unwrap_or(false)
    }

    /// Returns one of the costs that the shot was planned with.
    pub fn cost(&self, name: &str) -> Result<f64> {
        number(&self.about["costs"], name)
    }

    /// Whether the snapshots of the shot were compressed.
    pub fn is_compressed(&self) -> bool {
        self.about["costs"]["compressed"].as_bool().unwrap_or(false)
    }

    /// Returns whether one copy engine served both directions of the link.
    pub fn has_one_engine(&self) -> bool {
        self.about["costs"]["one_engine"].as_bool().unwrap_or(false)
    }

    /// Returns the bytes of a state that are the previous time level of other fields, if the shot's
    /// snapshots shared time levels; else 0.
    pub fn previous_bytes(&self) -> u64 {
        self.about["costs"]["previous_bytes"].as_u64().unwrap_or(0)
    }

    /// Returns the budgets of host memory and disk in bytes, if the shot had a disk.
    pub fn budgets(&self) -> Option<(u64, u64)> {
        let budget = |name: &str| self.about[name].as_u64().unwrap_or(0);
        Some((budget("host_budget"), budget("disk_budget"))).filter(|(_, disk)| *disk > 0)
    }

    /// Returns one of the statistics of the shot.
    pub fn stat(&self, name: &str) -> Result<f64> {
        number(&self.about["stats"], name)
    }

    /// Returns the configuration of the shot's plan.
    pub fn configuration(&self) -> Map<String, Value> {
        let keys = [
            "algorithm",
            "steps",
            "snapshots",
            "chunk",
            "inner",
            "for_cache",
            "cache",
            "policy",
            "zero_copy",
            "compressor",
            "link_bandwidth",
        ];
        keys.into_iter().map(|key| (key.to_string(), self.about[key].clone())).collect()
    }

    /// Returns the seconds and the number of the spans in one of these rows with one of these
    /// names; without names, of all spans in these rows.
    pub fn busy(&self, rows: &[Row], names: &[&str]) -> (f64, u64) {
        let spans = self.spans.iter().filter(|span| {
            rows.contains(&span.row) && (names.is_empty() || names.contains(&&*span.what))
        });
        spans.fold((0.0, 0), |(seconds, count), span| (seconds + span.end - span.begin, count + 1))
    }
}

fn number(object: &Value, name: &str) -> Result<f64> {
    // JSON has no infinity: an infinite speed or time is not a number there.
    match object.get(name) {
        Some(Value::Number(number)) => Ok(number.as_f64().unwrap_or(f64::NAN)),
        _ => Err(Error::new(
            Code::Parse,
            format!("the timeline has no {name}: was it written by another version?"),
        )),
    }
}
