//! Timelines: when each part of the machine is busy in a simulated run.

use crate::named::named;

named! {
    /// A row of the timeline; the values are in the order in which the rows are drawn.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Row {
        /// FORWARD steps that are computed for the first time.
        Forward => "forward",
        /// FORWARD steps that are computed again.
        Recompute => "recompute",
        /// BACKWARD steps.
        Backward => "backward",
        /// Copies and coding of snapshots on the application's stream.
        Codec => "copy or codec",
        /// Waits of the application's stream for a transfer.
        Stall => "stall",
        /// Transfers from host to device memory.
        H2d => "host to device",
        /// Transfers from device to host memory.
        D2h => "device to host",
        /// Reads from disk.
        DiskRead => "disk read",
        /// Writes to disk.
        DiskWrite => "disk write",
    }
}

/// The spans in which each row is busy: begin and end in seconds, in order, without overlap.
/// Consecutive time steps are one span; every transfer is a span of its own.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    rows: [Vec<(f64, f64)>; Row::ALL.len()],
}

impl Timeline {
    /// The spans of a row.
    pub fn row(&self, row: Row) -> &[(f64, f64)] {
        &self.rows[row as usize]
    }

    /// Seconds in which a row is busy.
    pub fn busy(&self, row: Row) -> f64 {
        self.row(row).iter().map(|(begin, end)| end - begin).sum()
    }

    /// Adds a span behind those of its row. A span without length is not added.
    pub fn add(&mut self, row: Row, begin: f64, end: f64) {
        let intervals = &mut self.rows[row as usize];
        let is_of_steps = matches!(row, Row::Forward | Row::Recompute | Row::Backward);
        match intervals.last_mut() {
            _ if end <= begin => {}
            Some(last) if is_of_steps && last.1 == begin => last.1 = end,
            _ => intervals.push((begin, end)),
        }
    }

    /// Inserts a span within the last span of a row, whose rest comes later by as many seconds.
    pub fn cut_in(&mut self, row: Row, begin: f64, end: f64) {
        if let Some(last) = self.rows[row as usize].last_mut() {
            let rest = last.1 - begin;
            last.1 = begin;
            self.add(row, begin, end);
            self.add(row, end, end + rest);
        }
    }
}
