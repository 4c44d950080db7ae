//! The order of operations: a proof over the history of the software CUDA driver, and the names of
//! all waits and records in the history.
//!
//! An operation comes before another one if a chain of stream order, waits of streams and waits of
//! the host leads from the first to the second; CUDA promises no other order. Two operations are a
//! race if they touch the same bytes, at least one of them writes, they are in no order, and the
//! bytes matter: the application checks bytes that are made of them.

use crate::common::checksum::fnv;
use crate::common::emu::{self, Entry};
use std::collections::HashMap;
use std::ops::Range;

type Bytes = Range<u64>;

fn overlap(a: &Bytes, b: &Bytes) -> bool {
    a.start < b.end && b.start < a.end
}

/// What is known of the kernels of a session with a codec.
pub struct Kernels {
    /// `room`: bytes in which a snapshot is made. `own`: bytes of the working memory of the
    /// kernels.
    pub room: u64,
    pub own: u64,
    /// Number of values and bytes of each field. The number of values is the argument by which a
    /// kernel call shows its field.
    pub fields: Vec<(u64, u64)>,
}

/// An operation that touches memory, or the host's reading of a report.
#[derive(Debug)]
struct Access {
    stream: usize,
    /// `number` counts the operations of the access's stream up to this one. `after` counts, for
    /// each stream, the operations that come before this one.
    number: u32,
    after: Vec<u32>,
    to: Vec<Bytes>,
    from: Vec<Bytes>,
    /// Whether written bytes reach the memory that the application checks, or the access is the
    /// host's.
    matters: bool,
}

fn any_overlap(a: &[Bytes], b: &[Bytes]) -> bool {
    a.iter().any(|a| b.iter().any(|b| overlap(a, b)))
}

/// Returns, as text, the pairs of operations that race. No pair is the proof that no order of
/// execution gives a wrong state. `seen` is the memory that the application checks in the end.
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

/// The memory accesses of all kernels that code one snapshot.
#[derive(Default)]
struct Group {
    to: Vec<Bytes>,
    from: Vec<Bytes>,
}

/// Bytes of a report about a snapshot.
const REPORT: u64 = 48;

impl Group {
    /// Notes argument number `k` of a kernel; `before` are the arguments before it. Returns the
    /// address of the report if the kernel is the last one of the group, which stores the report.
    fn argument(
        &mut self,
        name: u64,
        k: usize,
        before: &[u64],
        value: u64,
        kernels: &Kernels,
    ) -> Option<u64> {
        let range = |at: u64, bytes: u64| at..at + bytes;
        let field = |values: u64| {
            kernels.fields.iter().find(|field| field.0 == values).map_or(0, |field| field.1)
        };
        if name == kernel("snapshot_prepare") && k == 3 {
            *self = Group { to: vec![range(value, kernels.room)], from: Vec::new() };
        } else if name == kernel("snapshot_survey") && k == 2 {
            self.from.push(range(before[0], field(value)));
        } else if name == kernel("snapshot_decide") && k == 0 {
            self.to.push(range(value, kernels.own));
        } else if name == kernel("snapshot_open") && k == 6 {
            *self = Group {
                to: vec![range(before[0], kernels.own)],
                from: vec![range(before[5], value)],
            };
        } else if name == kernel("snapshot_spread") && k == 2 {
            self.to.push(range(before[0], field(value)));
        }
        let is_last = name == kernel("snapshot_seal") && k == 8 && before[6] == u64::from(u32::MAX)
            || name == kernel("snapshot_conclude") && k == 4;
        is_last.then_some(value)
    }
}

/// Returns the FNV-1a hash of a kernel's name.
fn kernel(name: &str) -> u64 {
    fnv(name.as_bytes())
}

/// Returns the accesses in the order of the calls, each with the operations that it comes after.
/// The host is the last stream.
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
    // `report`: where the last report was stored. `reports`: the report that an event marks. `recorded`: the event that a record operation records.
    let mut report = 0..0;
    let mut reports: HashMap<u64, Bytes> = HashMap::new();
    let mut recorded: HashMap<u64, u64> = HashMap::new();
    for entry in history {
        let stream = entry.stream as usize;
        let before = of_operation.get(&entry.after);
        let told = match entry.kind {
            emu::Kind::Sync => recorded.get(&entry.after).copied(),
            emu::Kind::Done => Some(entry.event).filter(|event| roles.is_of_report(*event)),
            _ => None,
        };
        match (entry.kind, before) {
            (emu::Kind::Wait, Some(before)) => join(&mut of_stream[stream], before),
            (emu::Kind::Sync, Some(before)) => join(&mut host, before),
            (emu::Kind::Done, Some(before)) if told.is_some() => join(&mut host, before),
            (emu::Kind::Argument, _) => {
                if words.0 != entry.after {
                    words = (entry.after, Vec::new());
                }
                let stored = kernels.and_then(|kernels| {
                    group.argument(entry.event, entry.from as usize, &words.1, entry.to, kernels)
                });
                if let Some(at) = stored {
                    report = at..at + REPORT;
                    let Group { mut to, from } = std::mem::take(&mut group);
                    to.push(report.clone());
                    let after = of_stream[stream].clone();
                    let number = after[stream];
                    accesses.push(Access { stream, number, after, to, from, matters: false });
                }
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
        of_stream[stream][stream] += 1;
        let after = of_stream[stream].clone();
        of_operation.insert(entry.operation, after.clone());
        if entry.kind == emu::Kind::Record && roles.is_of_report(entry.event) {
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

/// Goes from the last access to the first: written bytes matter if an access that matters reads
/// them before they are written again.
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

/// The purpose of an event of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The kernels have made a snapshot in a staging buffer and stored its report.
    Made,
    /// The kernels of a restore have read their snapshot and stored the report about it.
    Reported,
    /// An upload into a device slot has ended.
    Filled,
    /// A download from a device slot has ended.
    Read,
    /// A point on the application's stream, for the upload lane or the download lane.
    App,
    /// The start of a call.
    Begin,
    /// The end of a call.
    End,
    /// A mark between actions, by which the host sees how far the device has come.
    Mark,
}

/// The roles of the library's events.
#[derive(Default)]
pub struct Roles(HashMap<u64, Role>);

impl Roles {
    /// Finds the role of every event, because the library makes its events in a known order. The
    /// history must begin before the library makes its first event.
    pub fn new(history: &[Entry], device_slots: u32, compresses: bool) -> Self {
        let of_packer = if compresses { [2, 64] } else { [0, 0] };
        let of_packer = std::iter::repeat_n(Role::Made, of_packer[0])
            .chain(std::iter::repeat_n(Role::Reported, of_packer[1]));
        let of_slot = [Role::Filled, Role::Read];
        let of_tiers = of_slot.into_iter().cycle().take(of_slot.len() * device_slots as usize);
        let mut first = of_packer.chain([Role::App]).chain(of_tiers);
        let mut roles = HashMap::new();
        let mut before = Entry::default();
        for entry in history {
            if entry.kind == emu::Kind::Event {
                let role = first.next().unwrap_or(
                    if roles.get(&before.event) == Some(&Role::Begin)
                        && before.kind == emu::Kind::Event
                    {
                        Role::End
                    } else {
                        Role::Begin
                    },
                );
                roles.insert(entry.event, role);
            }
            // Two events made one right after the other are the start and the end of a call; a
            // single event is a mark.
            if before.kind == emu::Kind::Event
                && entry.kind != emu::Kind::Event
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

/// The lane of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    App,
    Upload,
    Download,
}

/// The sites of all waits and all records of a history, in order: the names of their purposes, or `None` for those of the application. The history begins before the library
/// makes its first stream.
#[derive(Default)]
pub struct Sites {
    pub waits: Vec<Option<&'static str>>,
    pub records: Vec<Option<&'static str>>,
}

/// The names of the waits: which lane waits for which. The wait for the call before has two names, the
/// second for a call on another stream of the application.
pub const WAITS: [&str; 7] = [
    "application: until the download",
    "download: until the application",
    "upload: until the application",
    "upload: until the download",
    "application: until the upload",
    "call: until the call before",
    "call: until the call before, on another stream",
];
/// Sites that only sessions with a codec on the device have.
pub const OF_COMPRESSED: [(&str, &str); 2] =
    [("record", "snapshot made, for its size"), ("record", "snapshot read, for the report")];
pub const RECORDS: [&str; 9] = [
    "application, for the download",
    "download",
    "application, for the upload",
    "upload",
    "start of a call",
    "end of a call",
    "mark between actions",
    "snapshot made, for its size",
    "snapshot read, for the report",
];

/// Returns the sites of all waits and records of a history.
pub fn sites(history: &[Entry], roles: &Roles) -> Sites {
    let lanes: Vec<u32> = history
        .iter()
        .filter(|entry| entry.kind == emu::Kind::Stream)
        .map(|entry| entry.stream)
        .collect();
    assert_eq!(lanes.len(), 2, "one library, two streams");
    let lane = |entry: &Entry| match lanes.iter().position(|&lane| lane == entry.stream) {
        Some(0) => Lane::Upload,
        Some(_) => Lane::Download,
        None => Lane::App,
    };
    let stream_of: HashMap<u64, u32> =
        history.iter().map(|entry| (entry.operation, entry.stream)).collect();
    let mut sites = Sites { waits: Vec::new(), records: Vec::new() };
    for (i, entry) in history.iter().enumerate() {
        let Some(role) = roles.of(entry.event) else {
            match entry.kind {
                emu::Kind::Wait => sites.waits.push(None),
                emu::Kind::Record => sites.records.push(None),
                _ => {}
            }
            continue;
        };
        let site = match (entry.kind, lane(entry), role) {
            (emu::Kind::Wait, Lane::App, Role::Read) => 0,
            (emu::Kind::Wait, Lane::Download, Role::App) => 1,
            (emu::Kind::Wait, Lane::Upload, Role::App) => 2,
            (emu::Kind::Wait, Lane::Upload, Role::Read) => 3,
            (emu::Kind::Wait, Lane::App, Role::Filled) => 4,
            (emu::Kind::Wait, Lane::App, Role::End) => {
                5 + usize::from(stream_of[&entry.after] != entry.stream)
            }
            (emu::Kind::Record, Lane::App, Role::App) => {
                let user = history[i..]
                    .iter()
                    .find(|other| other.kind == emu::Kind::Wait && other.event == entry.event)
                    .unwrap();
                [0, 2][usize::from(lane(user) == Lane::Upload)]
            }
            (emu::Kind::Record, Lane::Download, Role::Read) => 1,
            (emu::Kind::Record, Lane::Upload, Role::Filled) => 3,
            (emu::Kind::Record, Lane::App, Role::Begin) => 4,
            (emu::Kind::Record, Lane::App, Role::End) => 5,
            (emu::Kind::Record, Lane::App, Role::Mark) => 6,
            (emu::Kind::Record, Lane::App, Role::Made) => 7,
            (emu::Kind::Record, Lane::App, Role::Reported) => 8,
            (emu::Kind::Event | emu::Kind::Done, ..) => continue,
            _ => panic!("what is {entry:?}, {role:?}?"),
        };
        match entry.kind {
            emu::Kind::Wait => sites.waits.push(Some(WAITS[site])),
            _ => sites.records.push(Some(RECORDS[site])),
        }
    }
    sites
}
