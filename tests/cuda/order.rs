//! What is ordered with what: a proof over the history of the software CUDA driver, and the names
//! of all waits and records in it.
//!
//! An operation comes before another one if a chain of stream order, waits and waits of the host
//! leads from it to the other; nothing else is promised. Two operations that touch the same bytes,
//! one of them writing, and are in no such order are a race, if those bytes matter: if what the
//! application looks at is made of them.

use crate::emu::{self, Entry};
use std::collections::HashMap;
use std::ops::Range;

type Bytes = Range<u64>;

fn overlap(a: &Bytes, b: &Bytes) -> bool {
    a.start < b.end && b.start < a.end
}

/// What is known of the kernels of a session with a codec.
pub struct Kernels {
    /// Bytes that a snapshot is made in, and those that the kernels work in.
    pub room: u64,
    pub own: u64,
    /// Values and bytes of each field, by which kernels are told of it.
    pub fields: Vec<(u64, u64)>,
}

/// An operation that touches memory, or the host, which reads a report.
#[derive(Debug)]
struct Access {
    stream: usize,
    /// How many operations its stream has up to this one, and how many of each stream come before
    /// it.
    number: u32,
    after: Vec<u32>,
    to: Vec<Bytes>,
    from: Vec<Bytes>,
    /// Something of what it writes reaches the application's eyes, or it is the host.
    matters: bool,
}

fn any_overlap(a: &[Bytes], b: &[Bytes]) -> bool {
    a.iter().any(|a| b.iter().any(|b| overlap(a, b)))
}

/// Pairs of operations in no order though their bytes matter, as text; none is the proof that no
/// schedule gives a wrong state. `seen` is the memory that the application looks at in the end.
pub fn races(
    history: &[Entry],
    roles: &Roles,
    kernels: Option<&Kernels>,
    seen: &Bytes,
) -> Vec<String> {
    let mut accesses = ordered(history, roles, kernels);
    mark_what_matters(&mut accesses, seen);
    let mut races = Vec::new();
    for (j, second) in accesses.iter().enumerate() {
        for first in &accesses[..j] {
            let ordered = second.after[first.stream] >= first.number;
            if ordered {
                continue;
            }
            let read_too_early = second.matters && any_overlap(&first.to, &second.from);
            let overwritten_too_early = first.matters && any_overlap(&first.from, &second.to);
            let overwritten_too_late = second.matters && any_overlap(&first.to, &second.to);
            if read_too_early || overwritten_too_early || overwritten_too_late {
                races.push(format!("{first:x?} and {second:x?}"));
            }
        }
    }
    races
}

/// The kernels of a snapshot, from the first to the copy of the report about it.
#[derive(Default)]
struct Group {
    /// What the report is copied from.
    state: u64,
    to: Vec<Bytes>,
    from: Vec<Bytes>,
}

impl Group {
    /// Takes argument number `k` of a kernel, whose arguments before are `before`.
    fn argument(&mut self, name: u64, k: usize, before: &[u64], value: u64, kernels: &Kernels) {
        let range = |at: u64, bytes: u64| at..at + bytes;
        let field = |values: u64| {
            kernels.fields.iter().find(|field| field.0 == values).map_or(0, |field| field.1)
        };
        if name == kernel("snapshot_prepare") && k == 3 {
            *self =
                Group { state: before[2], to: vec![range(value, kernels.room)], from: Vec::new() };
        } else if name == kernel("snapshot_survey") && k == 2 {
            self.from.push(range(before[0], field(value)));
        } else if name == kernel("snapshot_decide") && k == 0 {
            self.to.push(range(value, kernels.own));
        } else if name == kernel("snapshot_open") && k == 5 {
            *self = Group {
                state: before[3],
                to: vec![range(before[0], kernels.own)],
                from: vec![range(before[4], value)],
            };
        } else if name == kernel("snapshot_spread") && k == 2 {
            self.to.push(range(before[0], field(value)));
        }
    }
}

/// FNV-1a of a kernel's name.
fn kernel(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The accesses in the order of the calls, with all that each comes after. The host is the last
/// stream.
fn ordered(history: &[Entry], roles: &Roles, kernels: Option<&Kernels>) -> Vec<Access> {
    let streams = 1 + history.iter().map(|entry| entry.stream).max().unwrap_or(0) as usize;
    let join = |into: &mut Vec<u32>, from: &[u32]| {
        into.iter_mut().zip(from).for_each(|(a, &b)| *a = b.max(*a))
    };
    let (mut host, mut of_stream) = (vec![0; streams + 1], vec![vec![0; streams + 1]; streams]);
    let mut of_operation: HashMap<u64, Vec<u32>> = HashMap::new();
    let mut accesses: Vec<Access> = Vec::new();
    let mut group = Group::default();
    let mut words: (u64, Vec<u64>) = Default::default();
    // Where reports were copied to last, the event that says so, and the operation that is its
    // record.
    let mut report = 0..0;
    let mut reports: HashMap<u64, Bytes> = HashMap::new();
    let mut recorded: HashMap<u64, u64> = HashMap::new();
    for entry in history {
        let stream = entry.stream as usize;
        let before = of_operation.get(&entry.after);
        let told = match entry.kind {
            emu::SYNC => recorded.get(&entry.after).copied(),
            emu::DONE => Some(entry.event).filter(|event| roles.is_of_report(*event)),
            _ => None,
        };
        match (entry.kind, before) {
            (emu::WAIT, Some(before)) => join(&mut of_stream[stream], before),
            (emu::SYNC, Some(before)) => join(&mut host, before),
            (emu::DONE, Some(before)) if told.is_some() => join(&mut host, before),
            (emu::ARGUMENT, _) => {
                if words.0 != entry.after {
                    words = (entry.after, Vec::new());
                }
                kernels.iter().for_each(|kernels| {
                    group.argument(entry.event, entry.from as usize, &words.1, entry.to, kernels)
                });
                words.1.push(entry.to);
            }
            _ => {}
        }
        if let Some(from) = told.and_then(|event| reports.get(&event)) {
            host[streams] += 1;
            let (number, after, from) = (host[streams], host.clone(), vec![from.clone()]);
            accesses.push(Access {
                stream: streams,
                number,
                after,
                to: Vec::new(),
                from,
                matters: true,
            });
        }
        if entry.operation == 0 {
            continue;
        }
        join(&mut of_stream[stream], &host);
        if entry.kind == emu::COPY && entry.from == group.state && group.state != 0 {
            let Group { to, from, .. } = std::mem::take(&mut group);
            let after = of_stream[stream].clone();
            accesses.push(Access {
                stream,
                number: after[stream],
                after,
                to,
                from,
                matters: false,
            });
            report = entry.to..entry.to + entry.bytes;
        }
        of_stream[stream][stream] += 1;
        let after = of_stream[stream].clone();
        of_operation.insert(entry.operation, after.clone());
        if entry.kind == emu::RECORD && roles.is_of_report(entry.event) {
            reports.insert(entry.event, report.clone());
            recorded.insert(entry.operation, entry.event);
        }
        let range = |at: u64| Some(at..at + entry.bytes).filter(|_| at != 0).into_iter().collect();
        if entry.bytes > 0 {
            let (to, from) = (range(entry.to), range(entry.from));
            accesses.push(Access {
                stream,
                number: after[stream],
                after,
                to,
                from,
                matters: false,
            });
        }
    }
    accesses
}

/// From the last access to the first: what is written matters if somebody who matters reads it
/// before it is written again.
fn mark_what_matters(accesses: &mut [Access], seen: &Bytes) {
    let mut wanted = vec![seen.clone()];
    for access in accesses.iter_mut().rev() {
        access.matters |= any_overlap(&wanted, &access.to);
        if access.matters {
            for Bytes { start, end } in access.to.iter().cloned() {
                let rest = |range: &Bytes| {
                    [range.start..range.end.min(start), range.start.max(end)..range.end]
                };
                wanted =
                    wanted.iter().flat_map(rest).filter(|range| range.start < range.end).collect();
            }
            wanted.extend(access.from.iter().cloned());
        }
    }
}

/// What an event of the library is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Made,
    Reported,
    Filled,
    Read,
    Written,
    App,
    Begin,
    End,
    Mark,
}

/// Whose stream it is.
/// The roles of the library's events.
#[derive(Default)]
pub struct Roles(HashMap<u64, Role>);

impl Roles {
    /// The library makes its events in a known order. The history begins before it makes the first
    /// one.
    pub fn new(history: &[Entry], device_slots: u32, host_slots: u32, compresses: bool) -> Self {
        let of_packer = if compresses { [2, 64] } else { [0, 0] };
        let of_packer = std::iter::repeat_n(Role::Made, of_packer[0])
            .chain(std::iter::repeat_n(Role::Reported, of_packer[1]));
        let of_tiers =
            [Role::Filled, Role::Read].into_iter().cycle().take(2 * device_slots as usize);
        let of_tiers = [Role::App].into_iter().chain(of_tiers);
        let mut first = of_packer
            .chain(of_tiers)
            .chain(std::iter::repeat_n(Role::Written, host_slots as usize));
        let mut roles = HashMap::new();
        let mut before = Entry::default();
        for entry in history {
            if entry.kind == emu::EVENT {
                let role = first.next().unwrap_or(
                    if roles.get(&before.event) == Some(&Role::Begin) && before.kind == emu::EVENT {
                        Role::End
                    } else {
                        Role::Begin
                    },
                );
                roles.insert(entry.event, role);
            }
            // Two events at once are for a call; one alone is a mark.
            if before.kind == emu::EVENT
                && entry.kind != emu::EVENT
                && roles.get(&before.event) == Some(&Role::Begin)
            {
                roles.insert(before.event, Role::Mark);
            }
            before = *entry;
        }
        Roles(roles)
    }

    fn of(&self, event: u64) -> Option<Role> {
        self.0.get(&event).copied()
    }

    fn is_of_report(&self, event: u64) -> bool {
        matches!(self.of(event), Some(Role::Made | Role::Reported))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    App,
    Upload,
    Download,
}

/// Every wait and every record of a history in turn, each by the line of the source that makes it;
/// `None` for those of the application. The history begins before the library makes its first
/// stream.
#[derive(Default)]
pub struct Sites {
    pub waits: Vec<Option<&'static str>>,
    pub records: Vec<Option<&'static str>>,
}

/// All of them: lines that wait, and one of them that hands over from one stream of the application
/// to another; lines that record.
pub const WAITS: [&str; 12] = [
    "save: until the slot was downloaded",
    "download: until the save",
    "upload: until the application is done with the slot",
    "upload: until the slot was downloaded",
    "upload: until the snapshot is on the host",
    "restore: until the slot is filled",
    "call: until the call before",
    "call: until the call before, on another stream",
    "cache: until what was there was downloaded",
    "upload: until what was there was downloaded",
    "pool: until what was there was downloaded",
    "restore: until the snapshot is on the host",
];
/// Those that only sessions with a codec on the device have, and only others.
pub const OF_COMPRESSED: [(&str, &str); 6] = [
    ("wait", "cache: until what was there was downloaded"),
    ("wait", "upload: until what was there was downloaded"),
    ("wait", "pool: until what was there was downloaded"),
    ("wait", "restore: until the snapshot is on the host"),
    ("record", "snapshot made, for its size"),
    ("record", "snapshot read, for the report"),
];
pub const OF_RAW: [(&str, &str); 2] = [
    ("wait", "save: until the slot was downloaded"),
    ("wait", "upload: until the slot was downloaded"),
];
pub const RECORDS: [&str; 10] = [
    "save, for the download",
    "download, for the slot",
    "download, for the snapshot",
    "application, for the upload",
    "upload, for the slot",
    "begin of a call",
    "end of a call",
    "mark between actions",
    "snapshot made, for its size",
    "snapshot read, for the report",
];

/// Finds them.
pub fn sites(history: &[Entry], roles: &Roles, compresses: bool) -> Sites {
    let lanes: Vec<u32> = history
        .iter()
        .filter(|entry| entry.kind == emu::STREAM)
        .map(|entry| entry.stream)
        .collect();
    assert_eq!(lanes.len(), 2, "one library, two streams");
    let lane = |entry: &Entry| match lanes.iter().position(|&lane| lane == entry.stream) {
        Some(0) => Lane::Upload,
        Some(_) => Lane::Download,
        None => Lane::App,
    };
    let makes = |entry: &&Entry| {
        entry.kind == emu::ARGUMENT && entry.event == kernel("snapshot_prepare") && entry.from == 3
    };
    let stages: Vec<u64> = history.iter().filter(makes).map(|entry| entry.to).collect();
    let stream_of: HashMap<u64, u32> =
        history.iter().map(|entry| (entry.operation, entry.stream)).collect();
    let mut sites = Sites { waits: Vec::new(), records: Vec::new() };
    for (i, entry) in history.iter().enumerate() {
        let Some(role) = roles.of(entry.event) else {
            match entry.kind {
                emu::WAIT => sites.waits.push(None),
                emu::RECORD => sites.records.push(None),
                _ => {}
            }
            continue;
        };
        let site = match (entry.kind, lane(entry), role) {
            (emu::WAIT, Lane::App, Role::Read) => [0, 8][usize::from(compresses)],
            (emu::WAIT, Lane::Download, Role::App) => 1,
            (emu::WAIT, Lane::Upload, Role::App) => 2,
            (emu::WAIT, Lane::Upload, Role::Read) => [3, 9][usize::from(compresses)],
            (emu::WAIT, Lane::Upload, Role::Written) => 4,
            (emu::WAIT, Lane::App, Role::Filled) => 5,
            (emu::WAIT, Lane::App, Role::Written) => {
                let copies =
                    |other: &&Entry| other.kind == emu::COPY && other.stream == entry.stream;
                let copy = history[i..].iter().find(copies).unwrap();
                [10, 11][usize::from(stages.contains(&copy.to))]
            }
            (emu::WAIT, Lane::App, Role::End) => {
                6 + usize::from(stream_of[&entry.after] != entry.stream)
            }
            (emu::RECORD, Lane::App, Role::App) => {
                let user = history[i..]
                    .iter()
                    .find(|other| other.kind == emu::WAIT && other.event == entry.event)
                    .unwrap();
                [0, 3][usize::from(lane(user) == Lane::Upload)]
            }
            (emu::RECORD, Lane::Download, Role::Read) => 1,
            (emu::RECORD, Lane::Download, Role::Written) => 2,
            (emu::RECORD, Lane::Upload, Role::Filled) => 4,
            (emu::RECORD, Lane::App, Role::Begin) => 5,
            (emu::RECORD, Lane::App, Role::End) => 6,
            (emu::RECORD, Lane::App, Role::Mark) => 7,
            (emu::RECORD, Lane::App, Role::Made) => 8,
            (emu::RECORD, Lane::App, Role::Reported) => 9,
            (emu::EVENT | emu::DONE, ..) => continue,
            _ => panic!("what is {entry:?}, {role:?}?"),
        };
        match entry.kind {
            emu::WAIT => sites.waits.push(Some(WAITS[site])),
            _ => sites.records.push(Some(RECORDS[site])),
        }
    }
    sites
}
