//! What is busy when: the rows of a run, simulated or not.

/// A row of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// FORWARD steps that are taken for the first time.
    Forward,
    /// FORWARD steps that are repeated.
    Recompute,
    /// BACKWARD steps.
    Backward,
    /// Snapshots copied or coded on the application's stream.
    Codec,
    /// The application's stream waits for a transfer.
    Stall,
    /// Transfers from host to device memory.
    H2d,
    /// Transfers from device to host memory.
    D2h,
    /// Transfers from disk.
    DiskRead,
    /// Transfers to disk.
    DiskWrite,
}

impl Row {
    /// All rows, in the order in which they are drawn.
    pub const ALL: [Row; 9] = [
        Row::Forward,
        Row::Recompute,
        Row::Backward,
        Row::Codec,
        Row::Stall,
        Row::H2d,
        Row::D2h,
        Row::DiskRead,
        Row::DiskWrite,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Row::Forward => "forward",
            Row::Recompute => "recompute",
            Row::Backward => "backward",
            Row::Codec => "copy or codec",
            Row::Stall => "stall",
            Row::H2d => "host to device",
            Row::D2h => "device to host",
            Row::DiskRead => "disk read",
            Row::DiskWrite => "disk write",
        }
    }

    fn is_of_stream(self) -> bool {
        matches!(self, Row::Forward | Row::Recompute | Row::Backward)
    }
}

/// When each row is busy: intervals in seconds, in order, that do not overlap. Steps in a row are
/// one interval; every transfer is its own.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    rows: [Vec<(f64, f64)>; Row::ALL.len()],
}

impl Timeline {
    /// The intervals of a row.
    pub fn row(&self, row: Row) -> &[(f64, f64)] {
        &self.rows[row as usize]
    }

    /// Seconds that a row is busy.
    pub fn busy(&self, row: Row) -> f64 {
        self.row(row).iter().map(|(begin, end)| end - begin).sum()
    }

    /// Adds an interval behind those of its row; an empty one is none.
    pub fn add(&mut self, row: Row, begin: f64, end: f64) {
        let intervals = &mut self.rows[row as usize];
        match intervals.last_mut() {
            _ if end <= begin => {}
            Some(last) if row.is_of_stream() && last.1 == begin => last.1 = end,
            _ => intervals.push((begin, end)),
        }
    }
}
