//! The journal of a rank: one line of `LINE` bytes for each published generation. Each line has a
//! checksum. The journal tells which generations once were published; it is not needed to read
//! them. A line that is damaged or torn counts as absent, and so does a journal that is missing.

use crate::error::Result;
use crate::fallible_vec;
use crate::files::{self, Folder};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of a line, end of line included.
pub const LINE: usize = 96;
/// The largest unsigned number in a line.
const MOST: u64 = i64::MAX as u64;
/// A journal of this many lines is cut down to `KEPT` lines.
const MOST_LINES: u64 = 10_000;
/// Newest lines that stay when a journal is cut down.
const KEPT: usize = 100;

/// What the journal says of a published generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Number of the generation.
    pub generation: u64,
    /// The shot that the run goes on with.
    pub shot: i64,
    /// The last action before the generation; -1: start of the shot.
    pub it: i64,
    /// Bytes of the container.
    pub bytes: u64,
}

impl Line {
    /// Returns the line: `gpz1`, the four numbers in decimal, right-aligned in 19, 20, 20 and 19
    /// columns, and the CRC32C of the bytes before it in hexadecimal, separated by spaces.
    pub(super) fn to_bytes(self) -> [u8; LINE] {
        let Line { generation, shot, it, bytes } = self;
        // Numbers of at most 19 digits, and signed ones of at most 20 characters.
        let (generation, bytes) = (generation.min(MOST), bytes.min(MOST));
        let text = format!("gpz1 {generation:>19} {shot:>20} {it:>20} {bytes:>19} ");
        let crc = crc32c::crc32c(text.as_bytes());
        let mut line = [b'\n'; LINE];
        line[..LINE - 9].copy_from_slice(text.as_bytes());
        line[LINE - 9..LINE - 1].copy_from_slice(format!("{crc:08x}").as_bytes());
        line
    }

    /// Reads a line; `None` if one byte differs from what `to_bytes` writes.
    pub(super) fn from_bytes(bytes: &[u8; LINE]) -> Option<Line> {
        let mut words = std::str::from_utf8(bytes).ok()?.split_ascii_whitespace().skip(1);
        let line = Line {
            generation: words.next()?.parse().ok()?,
            shot: words.next()?.parse().ok()?,
            it: words.next()?.parse().ok()?,
            bytes: words.next()?.parse().ok()?,
        };
        (line.to_bytes() == *bytes).then_some(line)
    }
}

/// Returns the valid lines in the bytes of a journal.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = Line> + '_ {
    bytes.as_chunks().0.iter().filter_map(Line::from_bytes)
}

/// Returns the valid lines of a journal; none if the journal is missing. A journal that is longer
/// than any that `append` leaves behind is no journal.
pub fn read(folder: &Folder, name: &OsStr) -> Result<Vec<Line>> {
    let limit = 2 * MOST_LINES * LINE as u64;
    let bytes = match folder.read(name, limit) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e.into()),
    };
    let mut found = fallible_vec::with_room(bytes.len() / LINE)?;
    found.extend(lines(&bytes));
    Ok(found)
}

/// Appends a line and puts it on the disk. A torn line at the end is overwritten.
pub(super) fn append(folder: &Folder, name: &OsStr, line: Line) -> io::Result<()> {
    let file = folder.open_private(name)?;
    let whole = whole_lines(&file)?;
    let result = files::quietly(|| file.write_all_at(&line.to_bytes(), whole * LINE as u64));
    if let Err(e) = result {
        // A torn line does no harm, so that a failure to cut it off does not matter.
        let _ = file.set_len(whole * LINE as u64);
        return Err(e);
    }
    file.sync_all()
}

/// Returns the number of whole lines of a journal, after cutting down one that is too long. What
/// lies behind the whole lines is cut off.
fn whole_lines(file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let lines = length / LINE as u64;
    if lines < MOST_LINES {
        if length % LINE as u64 != 0 {
            file.set_len(lines * LINE as u64)?;
        }
        return Ok(lines);
    }
    let mut kept = [0; KEPT * LINE];
    file.read_exact_at(&mut kept, (lines - KEPT as u64) * LINE as u64)?;
    file.set_len(0)?;
    files::quietly(|| file.write_all_at(&kept, 0))?;
    Ok(KEPT as u64)
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
