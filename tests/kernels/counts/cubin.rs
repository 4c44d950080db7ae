//! What NVIDIA's compiler makes of the kernels: registers, shared memory, spills and the number of
//! machine instructions, from NVRTC's log and its ELF files.

use super::table::Row;
use crate::common::nvrtc::compiled;
use gpuzip::codec::gpu::sources;
use gpuzip::device::cuda::Source;
use std::path::Path;

/// The architecture whose figures are always compared (H100), and the one that is compared with
/// GPUZIP_TEST_LONG (A100): each takes a minute of the compiler's time.
pub const ALWAYS: u32 = 90;
pub const LONG: u32 = 80;

/// Bytes of a machine instruction.
const INSTRUCTION: usize = 16;

/// Returns the version of the NVRTC that tests/nvrtc.sh has installed in this folder: that of its
/// wheel, such as 12.9.86.
pub fn version_of(folder: &Path) -> String {
    let name = folder.ancestors().find_map(|at| at.file_name()?.to_str()?.strip_prefix("nvrtc-"));
    name.unwrap_or("of an unknown version").to_owned()
}

/// Returns a row per kernel.
pub fn rows(architecture: u32, double: bool) -> Vec<Row> {
    let sources = sources().into_iter().filter(|source| source.double == double);
    sources.flat_map(|source| rows_of(&source, architecture)).collect()
}

fn rows_of(source: &Source, architecture: u32) -> Vec<Row> {
    let (log, image) = compiled(source, architecture);
    let scalar = if source.double { "f64" } else { "f32" };
    let kernel = |part: &str| {
        let name = part.split('\'').next().unwrap();
        let number = |before: &str| -> f64 {
            let end = part.find(before).map(|end| &part[..end]);
            let word = end.and_then(|text| text.split_whitespace().last());
            word.and_then(|word| word.parse().ok()).unwrap_or(0.0)
        };
        let figures = vec![
            ("registers", number(" registers")),
            ("shared", number(" bytes smem")),
            ("spills", number(" bytes spill stores") + number(" bytes spill loads")),
            ("sass", instructions(&image, name) as f64),
        ];
        Row::new(format!("image sm_{architecture} {scalar} {} {name}", source.name), figures)
    };
    log.split("Compiling entry function '").skip(1).map(kernel).collect()
}

/// Returns the number of instructions of a kernel in an ELF file, without the padding behind the
/// last branch: `NOP`, opcode 0x918.
fn instructions(image: &[u8], kernel: &str) -> usize {
    let code = section(image, &format!(".text.{kernel}")).expect("a section of the kernel");
    let is_nop = |code: &&[u8]| u16::from_le_bytes([code[0], code[1]]) & 0xFFF == 0x918;
    let count = code.len() / INSTRUCTION;
    count - code.chunks_exact(INSTRUCTION).rev().take_while(is_nop).count()
}

/// Returns a section of a 64-bit ELF file.
fn section<'a>(image: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let number = |at: usize, bytes: usize| {
        image[at..at + bytes].iter().rev().fold(0usize, |sum, &byte| sum << 8 | byte as usize)
    };
    let (table, size, count, names) =
        (number(0x28, 8), number(0x3A, 2), number(0x3C, 2), number(0x3E, 2));
    let bounds = |section: usize| {
        let at = table + size * section;
        (number(at + 0x18, 8), number(at + 0x20, 8))
    };
    let (names, _) = bounds(names);
    let found = (0..count).find(|section| {
        let text = &image[names + number(table + size * section, 4)..];
        text.starts_with(name.as_bytes()) && text[name.len()] == 0
    })?;
    let (at, bytes) = bounds(found);
    Some(&image[at..at + bytes])
}
