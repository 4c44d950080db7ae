//! The program's requests, call by call, from which a test can prove which operations are ordered.

use crate::driver::Driver;
use crate::execute::{Action, Side};
use crate::stream::Point;

/// The kind of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Kind {
    /// An operation of another kind: a kernel, a host function, a computation.
    #[default]
    Other = 0,
    /// A copy.
    Copy = 1,
    /// A memory set.
    Set = 2,
    /// A record of an event.
    Record = 3,
    /// Later operations of a stream wait for a record.
    Wait = 4,
    /// The host waits for an operation.
    Sync = 5,
    /// A new event.
    Event = 6,
    /// A new stream.
    Stream = 7,
    /// An argument of a kernel. `after`: the operation that runs the kernel; `event`: FNV-1a of the
    /// kernel's name; `from`: the argument's number; `to`: its first 8 bytes.
    Argument = 8,
    /// A query has answered that an event is complete.
    Done = 9,
}

/// One entry as `emu_history` copies it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The kind of the request.
    pub kind: Kind,
    /// The number of the stream.
    pub stream: u32,
    /// The number of the operation; 0 if the request does not run in a stream.
    pub operation: u64,
    /// The number of the operation for which a stream or the host waits; 0: none.
    pub after: u64,
    /// The event of a record or wait, or the new event.
    pub event: u64,
    /// Destination address.
    pub to: u64,
    /// Source address; 0 for a set.
    pub from: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Driver {
    /// Writes an entry, if a history is kept.
    pub fn note(&mut self, entry: Entry) {
        if let Some(history) = &mut self.history {
            history.push(entry);
        }
    }

    /// Notes an operation that was put into a stream.
    pub fn note_operation(&mut self, stream: usize, operation: u64, action: &Action) {
        let address = |side: &Side| match side {
            Side::Known(address) | Side::Pageable(address) | Side::Late(address) => *address as u64,
            Side::Staged(_) => 0,
        };
        let (kind, to, from, bytes, event) = match action {
            // `stream_wait` notes each wait, also a wait that need not be queued.
            Action::Wait => return,
            Action::Copy(copy) => {
                (Kind::Copy, address(&copy.to), address(&copy.from), copy.len as u64, 0)
            }
            Action::Set(to, _, len) => (Kind::Set, *to as u64, 0, *len as u64, 0),
            Action::Record(event) => (Kind::Record, 0, 0, 0, self.events.handle(*event) as u64),
            Action::Begin(_)
            | Action::End(_)
            | Action::WaitValue(..)
            | Action::Host(..)
            | Action::Launch(..)
            | Action::Work(_) => (Kind::Other, 0, 0, 0, 0),
        };
        self.note(Entry {
            kind,
            stream: stream as u32,
            operation,
            after: 0,
            event,
            to,
            from,
            bytes,
        });
    }

    /// Notes the arguments of a kernel.
    pub fn note_arguments(&mut self, stream: usize, operation: u64, name: u64, words: &[u64]) {
        for (k, &word) in words.iter().enumerate() {
            self.note(Entry {
                kind: Kind::Argument,
                stream: stream as u32,
                operation: 0,
                after: operation,
                event: name,
                to: word,
                from: k as u64,
                bytes: 0,
            });
        }
    }

    /// Notes that the host waits for operations.
    pub fn note_sync(&mut self, targets: &[Point]) {
        for target in targets {
            self.note(Entry {
                kind: Kind::Sync,
                stream: target.stream as u32,
                after: target.op,
                ..Entry::default()
            });
        }
    }
}
