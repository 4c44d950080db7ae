//! What is ordered with what: a proof over the history of the software CUDA driver, and the names of all waits and records in it.
//!
//! An operation comes before another one if a chain of stream order, waits and waits of the host leads from it to the other; nothing else is
//! promised. Two operations that touch the same bytes, one of them writing, and are in no such order are a race, if those bytes matter:
//! if what the application looks at is made of them.

use crate::emu::{self, Entry};
use std::collections::HashMap;
use std::ops::Range;

type Bytes = Range<u64>;

fn overlap(a: &Bytes, b: &Bytes) -> bool {
    a.start < b.end && b.start < a.end
}

/// An operation that touches memory.
#[derive(Debug)]
struct Access {
    stream: usize,
    /// How many operations its stream has up to this one, and how many of each stream come before it.
    number: u32,
    after: Vec<u32>,
    to: Bytes,
    from: Bytes,
    /// Something of what it writes reaches the application's eyes.
    matters: bool,
}

/// Pairs of operations in no order though their bytes matter, as text; none is the proof that no schedule gives a wrong state. `seen` is the
/// memory that the application looks at in the end.
pub fn races(history: &[Entry], seen: &Bytes) -> Vec<String> {
    let mut accesses = ordered(history);
    mark_what_matters(&mut accesses, seen);
    let mut races = Vec::new();
    for (j, second) in accesses.iter().enumerate() {
        for first in &accesses[..j] {
            let read_too_early = overlap(&first.to, &second.from) && second.matters;
            let overwritten_too_early = overlap(&first.from, &second.to) && first.matters;
            let overwritten_too_late = overlap(&first.to, &second.to) && second.matters;
            let ordered = second.after[first.stream] >= first.number;
            if !ordered && (read_too_early || overwritten_too_early || overwritten_too_late) {
                races.push(format!("{first:x?} and {second:x?}"));
            }
        }
    }
    races
}

/// The accesses in the order of the calls, with all that each comes after.
fn ordered(history: &[Entry]) -> Vec<Access> {
    let streams = 1 + history.iter().map(|entry| entry.stream).max().unwrap_or(0) as usize;
    let join = |into: &mut Vec<u32>, from: &[u32]| into.iter_mut().zip(from).for_each(|(a, &b)| *a = b.max(*a));
    let (mut host, mut of_stream) = (vec![0; streams], vec![vec![0; streams]; streams]);
    let mut of_operation: HashMap<u64, Vec<u32>> = HashMap::new();
    let mut accesses = Vec::new();
    for entry in history {
        let stream = entry.stream as usize;
        match (entry.kind, of_operation.get(&entry.after)) {
            (emu::WAIT, Some(before)) => join(&mut of_stream[stream], before),
            (emu::SYNC, Some(before)) => join(&mut host, before),
            _ => {}
        }
        if entry.operation == 0 {
            continue;
        }
        join(&mut of_stream[stream], &host);
        of_stream[stream][stream] += 1;
        let after = of_stream[stream].clone();
        of_operation.insert(entry.operation, after.clone());
        let range = |at: u64| if at == 0 { 0..0 } else { at..at + entry.bytes };
        if entry.bytes > 0 {
            let (to, from) = (range(entry.to), range(entry.from));
            accesses.push(Access { stream, number: after[stream], after, to, from, matters: false });
        }
    }
    accesses
}

/// From the last access to the first: what is written matters if somebody who matters reads it before it is written again.
fn mark_what_matters(accesses: &mut [Access], seen: &Bytes) {
    let mut wanted = vec![seen.clone()];
    for access in accesses.iter_mut().rev() {
        access.matters = wanted.iter().any(|range| overlap(range, &access.to));
        if access.matters {
            let Bytes { start, end } = access.to;
            let rest = |range: &Bytes| [range.start..range.end.min(start), range.start.max(end)..range.end];
            wanted = wanted.iter().flat_map(rest).filter(|range| range.start < range.end).collect();
            wanted.push(access.from.clone());
        }
    }
}

/// What an event of the library is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Filled,
    Read,
    Written,
    App,
    Begin,
    End,
    Mark,
}

/// Whose stream it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    App,
    Upload,
    Download,
}

/// Every wait and every record of a history in turn, each by the line of the source that makes it; `None` for those of the application. The
/// history begins before the library makes its first stream.
pub struct Sites {
    pub waits: Vec<Option<&'static str>>,
    pub records: Vec<Option<&'static str>>,
}

/// All of them: lines that wait, and one of them that hands over from one stream of the application to another; lines that record.
pub const WAITS: [&str; 8] = [
    "save: until the slot was downloaded",
    "download: until the save",
    "upload: until the application is done with the slot",
    "upload: until the slot was downloaded",
    "upload: until the snapshot is on the host",
    "restore: until the slot is filled",
    "call: until the call before",
    "call: until the call before, on another stream",
];
pub const RECORDS: [&str; 8] = [
    "save, for the download",
    "download, for the slot",
    "download, for the snapshot",
    "application, for the upload",
    "upload, for the slot",
    "begin of a call",
    "end of a call",
    "mark between actions",
];

/// Finds them: the library makes its streams and events in a known order.
pub fn sites(history: &[Entry], device_slots: u32, host_slots: u32) -> Sites {
    let lanes: Vec<u32> = history.iter().filter(|entry| entry.kind == emu::STREAM).map(|entry| entry.stream).collect();
    assert_eq!(lanes.len(), 2, "one library, two streams");
    let lane = |entry: &Entry| match lanes.iter().position(|&lane| lane == entry.stream) {
        Some(0) => Lane::Upload,
        Some(_) => Lane::Download,
        None => Lane::App,
    };
    let of_tiers = [Role::Filled, Role::Read].into_iter().cycle().take(2 * device_slots as usize);
    let of_tiers = [Role::App].into_iter().chain(of_tiers);
    let mut of_tiers = of_tiers.chain(std::iter::repeat_n(Role::Written, host_slots as usize));
    let mut roles = HashMap::new();
    let mut before = Entry::default();
    for entry in history {
        if entry.kind == emu::EVENT {
            let role = of_tiers.next().unwrap_or(if roles.get(&before.event) == Some(&Role::Begin) && before.kind == emu::EVENT {
                Role::End
            } else {
                Role::Begin
            });
            roles.insert(entry.event, role);
        }
        // Two events at once are for a call; one alone is a mark.
        if before.kind == emu::EVENT && entry.kind != emu::EVENT && roles.get(&before.event) == Some(&Role::Begin) {
            roles.insert(before.event, Role::Mark);
        }
        before = *entry;
    }
    let stream_of: HashMap<u64, u32> = history.iter().map(|entry| (entry.operation, entry.stream)).collect();
    let mut sites = Sites { waits: Vec::new(), records: Vec::new() };
    for (i, entry) in history.iter().enumerate() {
        let role = roles.get(&entry.event).copied();
        let Some(role) = role else {
            match entry.kind {
                emu::WAIT => sites.waits.push(None),
                emu::RECORD => sites.records.push(None),
                _ => {}
            }
            continue;
        };
        let site = match (entry.kind, lane(entry), role) {
            (emu::WAIT, Lane::App, Role::Read) => 0,
            (emu::WAIT, Lane::Download, Role::App) => 1,
            (emu::WAIT, Lane::Upload, Role::App) => 2,
            (emu::WAIT, Lane::Upload, Role::Read) => 3,
            (emu::WAIT, Lane::Upload, Role::Written) => 4,
            (emu::WAIT, Lane::App, Role::Filled) => 5,
            (emu::WAIT, Lane::App, Role::End) => 6 + usize::from(stream_of[&entry.after] != entry.stream),
            (emu::RECORD, Lane::App, Role::App) => {
                let user = history[i..].iter().find(|other| other.kind == emu::WAIT && other.event == entry.event).unwrap();
                [0, 3][usize::from(lane(user) == Lane::Upload)]
            }
            (emu::RECORD, Lane::Download, Role::Read) => 1,
            (emu::RECORD, Lane::Download, Role::Written) => 2,
            (emu::RECORD, Lane::Upload, Role::Filled) => 4,
            (emu::RECORD, Lane::App, Role::Begin) => 5,
            (emu::RECORD, Lane::App, Role::End) => 6,
            (emu::RECORD, Lane::App, Role::Mark) => 7,
            (emu::EVENT, ..) => continue,
            _ => panic!("what is {entry:?}, {role:?}?"),
        };
        match entry.kind {
            emu::WAIT => sites.waits.push(Some(WAITS[site])),
            _ => sites.records.push(Some(RECORDS[site])),
        }
    }
    sites
}
