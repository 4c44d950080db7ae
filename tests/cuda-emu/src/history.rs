//! What the program asked for, call by call: so that a test can prove what is ordered with what.

use crate::driver::Driver;
use crate::execute::{Action, Side};
use crate::stream::Point;

/// What was asked for; the numbers are those of `cuda_emu.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Kind {
    /// Anything else that runs in a stream: kernels, host functions, computation.
    #[default]
    Other = 0,
    /// A copy.
    Copy = 1,
    /// A memory set.
    Set = 2,
    /// A record of an event.
    Record = 3,
    /// What follows in a stream waits for a record.
    Wait = 4,
    /// The host waits for an operation.
    Sync = 5,
    /// A new event.
    Event = 6,
    /// A new stream.
    Stream = 7,
    /// An argument of a kernel.
    Argument = 8,
    /// An event was asked whether it is done, and is.
    Done = 9,
}

/// One entry, as `emu_history` hands it out; the layout is that of `emu_entry_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// The stream, by a number of its own.
    pub stream: u32,
    /// The number of the operation; 0 for what does not run in a stream.
    pub operation: u64,
    /// What a wait or the host waits for: an operation; 0: nothing.
    pub after: u64,
    /// The event of a record or wait, or the new one.
    pub event: u64,
    /// Destination.
    pub to: u64,
    /// Source; 0 for a set.
    pub from: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Driver {
    /// Writes an entry, if a history is kept.
    pub fn note(&mut self, entry: Entry) {
        if let Some(history) = &mut self.history {
            history.push(entry);
        }
    }

    /// An operation was put into a stream.
    pub fn note_operation(&mut self, stream: usize, operation: u64, action: &Action) {
        let address = |side: &Side| match side {
            Side::Known(address) | Side::Pageable(address) => *address as u64,
            Side::Staged(_) => 0,
        };
        let (kind, to, from, bytes, event) = match action {
            // A wait is noted whether it has to be queued or not.
            Action::Wait => return,
            Action::Copy(copy) => {
                (Kind::Copy, address(&copy.to), address(&copy.from), copy.len as u64, 0)
            }
            Action::Set(to, _, len) => (Kind::Set, *to as u64, 0, *len as u64, 0),
            Action::Record(event) => (Kind::Record, 0, 0, 0, self.events.handle(*event) as u64),
            Action::Host(..) | Action::Launch(_) | Action::Work(_) => (Kind::Other, 0, 0, 0, 0),
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

    /// What a kernel was given.
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

    /// The host waits for operations.
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
