//! The configuration: what it holds once it is checked, and how its `key = value` files are read.

use crate::codec::Settings;
use crate::device::Pages;
use crate::error::{fail, Result};
use crate::plan::Policy;
use crate::predict::Profile;
use crate::schedule::Algorithm;
use std::path::PathBuf;

/// Which kind of device a session is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The one whose memory the fields are.
    ByFields,
    /// The host: RAM as device memory.
    Host,
    /// A CUDA device.
    Cuda,
}

/// A checked configuration. Zero means "not set" throughout.
#[derive(Clone, Debug)]
pub struct Config {
    /// The algorithm; `None` lets the library choose (`auto`).
    pub algorithm: Option<Algorithm>,
    /// Snapshots stored at a time, at most; 0: what fits the budgets, or what the algorithm needs.
    pub snapshots: u32,
    /// Chunk of zCut, interval of two-level, in states; 0: chosen.
    pub chunk: u32,
    /// GPUZIP 2.x's rule for the number of snapshots, whatever the budgets.
    pub adjust_snapshots: bool,
    /// Uniform as GPUZIP 2.x published it.
    pub uniform_published: bool,
    /// The trace file of `Algorithm::Trace`.
    pub trace_file: Option<PathBuf>,
    /// Device cache slots; with a device budget, at most.
    pub cache: u32,
    /// The replacement policy.
    pub policy: Policy,
    /// Bytes of device memory for the cache.
    pub device_budget: u64,
    /// Bytes of host memory for snapshots.
    pub host_budget: u64,
    /// Where neither budgets nor snapshots are set, a session of its own on `auto` takes a share
    /// of the memory that is free.
    pub default_budgets: bool,
    /// Which kind of device the session is on.
    pub backend: Backend,
    /// The ordinal of the device; `None`: the one of the fields, or else the current one.
    pub device: Option<i32>,
    /// The application works in the slots instead of having its fields copied.
    pub zero_copy: bool,
    /// Pages of the host backend's memory.
    pub huge_pages: Pages,
    /// FORWARDs in a row are one action.
    pub range_actions: bool,
    /// Actions that the host may run ahead of a GPU.
    pub max_in_flight: u32,
    /// Bandwidth of a simulated link between device and host memory, bytes per second each way; 0:
    /// as fast as memory.
    pub link_bandwidth: f64,
    /// How snapshots are compressed.
    pub compression: Settings,
    /// The planner chooses whether and how, among the codecs that keep the bound of `compression`.
    pub any_codec: bool,
    /// Raw snapshots of consecutive states share the time level that both have.
    pub shared_levels: bool,
    /// The ratio that is expected of compressed snapshots; at most 1: none is.
    pub compression_factor: f64,
    /// What steps, copies and codecs cost, for `auto`; `None`: what is typical of the backend.
    pub profile: Option<Profile>,
    /// The file that a measured profile is written to.
    pub profile_file: Option<PathBuf>,
    /// Log the ratio of every snapshot.
    pub log_ratio: bool,
    /// Write one line per shot to the performance log.
    pub performance_log: bool,
    /// Write a timeline to this file; see [`crate::trace`] for the names that it stands for.
    pub trace_out: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            algorithm: None,
            snapshots: 0,
            chunk: 0,
            adjust_snapshots: false,
            uniform_published: false,
            trace_file: None,
            cache: 0,
            policy: Policy::Clairvoyant,
            device_budget: 0,
            host_budget: 0,
            default_budgets: false,
            backend: Backend::ByFields,
            device: None,
            zero_copy: false,
            huge_pages: Pages::Measured,
            range_actions: false,
            max_in_flight: 64,
            link_bandwidth: 0.0,
            compression: Settings::default(),
            any_codec: false,
            shared_levels: false,
            compression_factor: 0.0,
            profile: None,
            profile_file: None,
            log_ratio: false,
            performance_log: false,
            trace_out: None,
        }
    }
}

/// A line of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its line number, from 1.
    pub line: usize,
    /// What stands left of the `=`.
    pub key: &'a str,
    /// What stands right of it, without quotes.
    pub value: &'a str,
}

/// The `key = value` lines of a text; `#` begins a comment, unless inside double quotes. Lines may
/// end as in DOS, and the text may begin with the mark that editors there put before UTF-8.
pub fn entries(text: &str) -> impl Iterator<Item = Result<Entry<'_>>> {
    (1..)
        .zip(text.strip_prefix('\u{feff}').unwrap_or(text).lines())
        .filter_map(|(line, content)| entry(line, content).transpose())
}

fn entry(line: usize, content: &str) -> Result<Option<Entry<'_>>> {
    let content = strip_comment(content).trim();
    if content.is_empty() {
        return Ok(None);
    }
    let Some((key, value)) = content.split_once('=') else {
        return fail!(Parse, "line {line}: {} is not `key = value`", shown(content));
    };
    let (key, value) = (key.trim(), value.trim().trim_end_matches(';').trim());
    let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value);
    if key.is_empty() {
        return fail!(Parse, "line {line}: no key before the `=`");
    }
    Ok(Some(Entry { line, key, value }))
}

/// A text of a file or variable as an error quotes it: what to do about it must not be lost behind
/// it.
pub(crate) fn shown(value: &str) -> String {
    const LONGEST: usize = 100;
    match value.char_indices().nth(LONGEST) {
        None => format!("{value:?}"),
        Some((end, _)) => format!("{:?}... ({} bytes)", &value[..end], value.len()),
    }
}

fn strip_comment(line: &str) -> &str {
    let mut quoted = false;
    for (i, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => return &line[..i],
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Vec<Entry<'_>>> {
        entries(text).collect()
    }

    #[test]
    fn lines_comments_and_quotes() {
        let text = "\u{feff}# GPUZIP\n\ncheckpointing_algorithm = 1 # revolve\r\n trace_file_path=\"a # b.txt\"\nfloat_kind = float;\n";
        let entries = parse(text).unwrap();
        let pairs: Vec<_> = entries.iter().map(|e| (e.line, e.key, e.value)).collect();
        assert_eq!(
            pairs,
            [
                (3, "checkpointing_algorithm", "1"),
                (4, "trace_file_path", "a # b.txt"),
                (5, "float_kind", "float")
            ]
        );
    }

    #[test]
    fn errors_name_the_line() {
        for (text, part) in [("a = 1\nb\n", "line 2: \"b\""), ("= 1", "line 1: no key")] {
            let error = parse(text).unwrap_err();
            assert!(error.message.contains(part), "{error}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in ".{0,200}", lines in "([a-z]{0,3} ?=? ?[\"#0-9a-z]{0,4}\n){0,10}") {
            let _ = parse(&text);
            let _ = parse(&lines);
        }
    }
}
