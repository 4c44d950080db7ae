//! Spans: intervals of time in a timeline, each in a row and with a label.

use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::named::named;

named! {
    /// A row of a timeline, in the order in which a viewer shows them. Spans of one row do not
    /// overlap.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Row {
        /// The application computes between its calls: FORWARD and BACKWARD.
        Compute => "compute",
        /// The application's stream is in a call of the library; the spans add up to `stall` of the
        /// statistics.
        Stall => "stall",
        /// The application's stream itself works in a call: it copies snapshots within the device,
        /// compresses or decompresses.
        Codec => "codec",
        /// Transfers from host to device memory, on a lane of their own.
        Upload => "h2d",
        /// Transfers from device to host memory, on a lane of their own.
        Download => "d2h",
        /// Transfers from host to device memory on the application's stream, for snapshots without
        /// a slot.
        DirectUpload => "h2d on the stream",
        /// Transfers from device to host memory on the application's stream, for snapshots without
        /// a slot.
        DirectDownload => "d2h on the stream",
        /// Reads of snapshots from disk.
        DiskRead => "disk read",
        /// Writes of snapshots to disk.
        DiskWrite => "disk write",
    }
}

impl Row {
    /// Returns the number of the row, from 1; the file uses it as a thread number.
    pub fn number(self) -> u32 {
        self as u32 + 1
    }

    /// Returns whether the row is one of the two that fill the time of the application's stream.
    pub(super) fn is_of_stream(self) -> bool {
        matches!(self, Row::Compute | Row::Stall)
    }
}

/// The description of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The row of the span.
    pub row: Row,
    /// What is done in the span.
    pub what: &'static str,
    /// The state that the work is done on, or the first of several.
    pub ts: i64,
    /// The last of several states.
    pub ts_end: i64,
    /// The number of the action in which the work was asked for.
    pub it: i64,
    /// Bytes that are transferred; 0 if none are.
    pub bytes: u64,
}

impl Label {
    /// Returns the label of a part of the same action: work `what` on state `ts` in row `row`.
    pub fn part(self, row: Row, what: &'static str, ts: i64, bytes: u64) -> Self {
        Label { row, what, ts, ts_end: ts, bytes, ..self }
    }

    /// Returns whether `other` continues this span, with another field of the snapshot on the lane.
    pub fn goes_on_with(&self, other: &Label) -> bool {
        Label { bytes: 0, ..*self } == Label { bytes: 0, ..*other }
    }
}

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The description of the span.
    pub label: Label,
    /// Seconds since the device began to keep spans.
    pub begin: f64,
    /// Length of the span in seconds.
    pub seconds: f64,
}

/// Spans that have ended and that the timeline has not taken yet.
#[derive(Debug, Default)]
pub struct Spans {
    ended: Vec<Span>,
    /// Number of spans for which there was no memory.
    lost: usize,
    /// Whether no spans are kept any more.
    closed: bool,
}

impl Spans {
    /// Adds a span.
    pub fn add(&mut self, span: Span) {
        if !self.closed {
            self.lost += usize::from(fallible_vec::push(&mut self.ended, span).is_err());
        }
    }

    /// Returns the last span of a row.
    pub fn last_of(&mut self, row: Row) -> Option<&mut Span> {
        self.ended.iter_mut().rev().find(|span| span.label.row == row)
    }

    /// Returns the spans and forgets them; an error if spans were lost.
    pub fn take(&mut self) -> Result<Vec<Span>> {
        match std::mem::take(&mut self.lost) {
            0 => Ok(std::mem::take(&mut self.ended)),
            lost => fail!(Memory, "no memory for {lost} spans of the timeline"),
        }
    }

    /// Forgets all spans and keeps none from now on.
    pub fn close(&mut self) {
        *self = Spans { closed: true, ..Spans::default() };
    }
}
