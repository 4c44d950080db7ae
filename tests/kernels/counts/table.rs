//! The committed table of counts: reading, writing, comparing.

use crate::common::root;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// By how much a figure may be worse than in the table.
const SLACK: f64 = 0.02;

/// The start of the line that names the version of NVRTC.
const VERSION: &str = "# NVRTC ";

/// A row: what the figures are of, in words, and the figures with their names.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub key: String,
    pub figures: Vec<(String, f64)>,
}

impl Row {
    pub fn new(key: String, figures: Vec<(&str, f64)>) -> Self {
        let figures = figures.into_iter().map(|(name, figure)| (name.to_owned(), figure));
        Row { key, figures: figures.collect() }
    }

    /// Reads a row as `Display` writes it; `None` for a comment or an empty line.
    pub fn read(line: &str) -> Option<Self> {
        let (key, figures) = line.split_once(':').filter(|_| !line.starts_with('#'))?;
        let figure = |word: &str| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        let figures = figures.split_whitespace().map(figure).collect::<Option<_>>()?;
        Some(Row { key: key.to_owned(), figures })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.key)?;
        self.figures.iter().try_for_each(|(name, value)| write!(f, " {name}={}", digits(*value)))
    }
}

/// Writes a number with four significant digits, and a whole number with all.
fn digits(value: f64) -> String {
    if value.fract() == 0.0 {
        return format!("{value}");
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    let rounded = (value * scale).round() / scale;
    format!("{rounded}")
}

fn path() -> PathBuf {
    root().join("benches/results/kernel-counts.txt")
}

fn text() -> String {
    std::fs::read_to_string(path()).unwrap_or_default()
}

/// Returns the version of NVRTC with which the table was made.
pub fn version() -> String {
    let line = text().lines().find_map(|line| line.strip_prefix(VERSION).map(str::to_owned));
    line.unwrap_or_default().split_whitespace().next().unwrap_or_default().to_owned()
}

/// What the columns are.
const HEAD: &str = "\
# What the kernels execute and move, counted; no GPU was used. `make counts` writes this file, and
# tests/kernels/counts.rs fails where a figure gets worse by more than 2 %.
#
# kernel CODEC WORK TYPE RANK BOUND KERNEL: one kernel in one compression or decompression of a field
# of 64^3, 256^2 or 65536 values (plane waves, a third at rest; the bound is relative to the largest
# value, or a PSNR). All figures but launches and text are per value of the field.
#   thread      instructions of PTX per thread
#   warp        lanes of the warps that run them: as thread, with idle lanes
#   slots       as warp, each instruction with the issue slots that it takes as machine code (the
#               weights: tests/cuda-emu/src/ptx/counts.rs)
#   read, written  32-byte sectors that a launch reads and writes, each once: the traffic of DRAM
#   requested   sectors, once per access of a warp: the traffic of the L2 cache
#   wavefronts  passes of shared memory, times 32: 1 is a word of 4 bytes per value without conflicts
#   text        slots of the kernel's text, each instruction once
# kernel rtm3d step f32 3 - KERNEL: one time step of c-examples/rtm3d_cuda on 124 x 128 x 64 cells, per
#   cell.
# stream CODEC bytes ...: bytes of the compressed field per value.
# image sm_NN TYPE SOURCE KERNEL: registers of a thread, bytes of static shared memory of a block,
#   bytes of spills, instructions of machine code (SASS).
# session CODEC BOUND WAY: kernel launches and driver calls per save and per restore of two time
#   levels, means of a shot after the first; way: all snapshots in the device cache, or over the link.
# bitcomp: the kernels of NVIDIA's library are closed and cannot be counted; the rows `image` are of the
#   kernels around them.
";

/// Writes the table.
pub fn write(nvrtc: &str, rows: &[Row]) {
    let rows: String = rows.iter().map(|row| format!("{row}\n")).collect();
    std::fs::write(path(), format!("{VERSION}{nvrtc} made this table.\n{HEAD}{rows}")).unwrap();
}

/// Fails if a figure is worse than in the table, or if the rows are not those of the table for
/// which `is_made` returns true.
pub fn compare(rows: &[Row], is_made: impl Fn(&str) -> bool) {
    let table: BTreeMap<String, Row> =
        text().lines().filter_map(Row::read).map(|row| (row.key.clone(), row)).collect();
    let (mut worse, mut better) = (Vec::new(), Vec::new());
    for row in rows {
        let Some(old) = table.get(&row.key) else {
            worse.push(format!("{}: not in the table", row.key));
            continue;
        };
        let names = |row: &Row| row.figures.iter().map(|f| f.0.clone()).collect::<Vec<_>>();
        assert_eq!(names(row), names(old), "{}: other figures", row.key);
        for ((name, new), (_, old)) in row.figures.iter().zip(&old.figures) {
            // Both numbers as the table has them.
            let new: f64 = digits(*new).parse().unwrap();
            let line = format!("{}: {name} {old} is now {new}", row.key);
            if new > old * (1.0 + SLACK) {
                worse.push(line);
            } else if new < old * (1.0 - SLACK) {
                better.push(line);
            }
        }
    }
    let now: std::collections::BTreeSet<&String> = rows.iter().map(|row| &row.key).collect();
    let gone = table.keys().filter(|key| is_made(key) && !now.contains(key));
    worse.extend(gone.map(|key| format!("{key}: only in the table")));
    if !better.is_empty() {
        println!("better, `make counts` puts it down:\n{}", better.join("\n"));
    }
    assert!(
        worse.is_empty(),
        "{} figures are worse than in benches/results/kernel-counts.txt; if they must be, `make \
         counts` writes them down:\n{}",
        worse.len(),
        worse.join("\n")
    );
}
