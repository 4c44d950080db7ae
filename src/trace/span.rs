//! Spans: which row was busy with what, from when, and how long.

use crate::error::{fail, Result};
use crate::fallible_vec;

/// A row of a trace. No two spans of one row overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// The application computes between its calls: FORWARD and BACKWARD.
    Compute,
    /// The application's stream is in a call of the library; all of them together are the
    /// statistics' `stall`.
    Stall,
    /// What that stream does there itself: copies snapshots within the device, compresses,
    /// decompresses.
    Codec,
    /// Transfers from host to device memory, on a lane of their own.
    Upload,
    /// Transfers from device to host memory, on a lane of their own.
    Download,
    /// Transfers to the device on the application's stream, of snapshots that have no slot.
    DirectUpload,
    /// The same, to the host.
    DirectDownload,
}

impl Row {
    /// All rows, in the order in which they are shown.
    pub const ALL: [Row; 7] = [
        Row::Compute,
        Row::Stall,
        Row::Codec,
        Row::Upload,
        Row::Download,
        Row::DirectUpload,
        Row::DirectDownload,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Row::Compute => "compute",
            Row::Stall => "stall",
            Row::Codec => "codec",
            Row::Upload => "h2d",
            Row::Download => "d2h",
            Row::DirectUpload => "h2d on the stream",
            Row::DirectDownload => "d2h on the stream",
        }
    }

    /// Its number, as a thread's, from 1.
    pub fn number(self) -> u32 {
        self as u32 + 1
    }

    /// Its spans are the application's stream's, one after the other, and all of its time.
    pub(super) fn is_of_stream(self) -> bool {
        matches!(self, Row::Compute | Row::Stall)
    }
}

/// What a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its row.
    pub row: Row,
    /// What is done.
    pub what: &'static str,
    /// The state that it is done to, or the first of them.
    pub ts: i64,
    /// The last of them.
    pub ts_end: i64,
    /// The action in which it was asked for.
    pub it: i64,
    /// Bytes that move; 0 where none do.
    pub bytes: u64,
}

impl Label {
    /// Something in row `row` that is done to the state `ts` in the same action.
    pub fn part(self, row: Row, what: &'static str, ts: i64, bytes: u64) -> Self {
        Label { row, what, ts, ts_end: ts, bytes, ..self }
    }

    /// Whether `other` goes on with this: another field of the same snapshot, on the same lane.
    pub fn goes_on_with(&self, other: &Label) -> bool {
        Label { bytes: 0, ..*self } == Label { bytes: 0, ..*other }
    }
}

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// What it is.
    pub label: Label,
    /// Seconds since the device began to keep spans.
    pub begin: f64,
    /// How long it is.
    pub seconds: f64,
}

/// Spans that have ended and were not taken yet.
#[derive(Debug, Default)]
pub struct Spans {
    ended: Vec<Span>,
    /// Spans for which there was no memory.
    lost: usize,
    /// Nobody takes spans any more.
    closed: bool,
}

impl Spans {
    /// Adds one.
    pub fn add(&mut self, span: Span) {
        if !self.closed {
            self.lost += usize::from(fallible_vec::push(&mut self.ended, span).is_err());
        }
    }

    /// The last one of a row.
    pub fn last_of(&mut self, row: Row) -> Option<&mut Span> {
        self.ended.iter_mut().rev().find(|span| span.label.row == row)
    }

    /// Takes them; an error if some are missing.
    pub fn take(&mut self) -> Result<Vec<Span>> {
        match std::mem::take(&mut self.lost) {
            0 => Ok(std::mem::take(&mut self.ended)),
            lost => fail!(Memory, "no memory for {lost} spans of the timeline"),
        }
    }

    /// Keeps none from now on.
    pub fn close(&mut self) {
        *self = Spans { closed: true, ..Spans::default() };
    }
}
