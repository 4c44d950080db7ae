//! Target for restart files: containers and journals of any bytes must be read or refused cleanly,
//! and what is read must lie within the file.

use gpuzip::error::Code;
use gpuzip::persist::{lines, Container, LINE, PIECE};

/// Bytes of a container's footer, and of a record in its index.
const FOOTER: usize = 56;
const ENTRY: usize = 152;

/// Runs the target. The first byte tells what the others are: 0 a journal, 1 a journal whose lines
/// get right checksums here, 2 a container, all others a container that gets right checksums, marks
/// and lengths here, so that mutations reach the checks behind them.
pub fn run(data: &[u8]) {
    let Some((&form, bytes)) = data.split_first() else { return };
    match form {
        0 => journal(bytes),
        1 => journal(&sealed_journal(bytes)),
        2 => container(bytes),
        _ => container(&sealed_container(bytes)),
    }
}

fn journal(bytes: &[u8]) {
    let found = lines(bytes).count();
    assert!(found <= bytes.len() / LINE, "{found} lines in {} bytes", bytes.len());
}

fn sealed_journal(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for line in bytes.chunks_exact_mut(LINE) {
        let crc = format!("{:08x}\n", crc32c::crc32c(&line[..LINE - 9]));
        line[LINE - 9..].copy_from_slice(crc.as_bytes());
    }
    bytes
}

fn container(bytes: &[u8]) {
    let container = match Container::open(bytes) {
        Ok(container) => container,
        Err(e) => {
            assert!(matches!(e.code, Code::Stream | Code::Argument | Code::Config), "{e}");
            return assert!(!e.message.is_empty());
        }
    };
    assert_eq!(container.length, bytes.len() as u64);
    let mut payloads = 0;
    for (k, record) in container.records.iter().enumerate() {
        let place = container.places[k];
        if place.generation != container.origin.generation {
            assert!((1..container.origin.generation).contains(&place.generation));
            assert_eq!(container.read(k, &mut |_| Ok(())).unwrap_err().code, Code::State);
            continue;
        }
        let payload = &bytes[place.offset as usize..][..place.bytes as usize];
        payloads += payload.len();
        let mut read = Vec::new();
        let result = container.read(k, &mut |piece| {
            assert!(piece.len() <= PIECE);
            read.extend_from_slice(piece);
            Ok(())
        });
        let is_right = crc32c::crc32c(&read) == record.crc;
        if place.is_packed {
            assert!(read.len() as u64 <= record.head.stored_bytes, "record {k}");
            assert!(result.is_err() || is_right, "record {k}");
        } else {
            assert_eq!(read, payload, "record {k}");
            assert_eq!(result.is_ok(), is_right, "record {k}");
        }
        // Names are printed by the command.
        assert!(!record.head.name.to_string().chars().any(char::is_control));
    }
    assert!(payloads + container.records.len() * ENTRY + FOOTER < bytes.len());
    container.header.fingerprint.check(&container.header.fingerprint).expect("equal");
}

/// Writes a right checksum of `bytes[begin..at]` to `at`, if the bytes are there.
fn seal(bytes: &mut [u8], begin: usize, at: usize) {
    if begin <= at && at + 4 <= bytes.len() {
        let crc = crc32c::crc32c(&bytes[begin..at]);
        bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

fn number(bytes: &[u8], at: usize) -> usize {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number).min(bytes.len() as u64) as usize
}

fn sealed_container(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let length = bytes.len();
    if length < 96 + FOOTER {
        return bytes;
    }
    bytes[..8].copy_from_slice(b"\x89gpzgen\n");
    bytes[8..12].copy_from_slice(&4u32.to_le_bytes());
    let header = usize::from(u16::from_le_bytes([bytes[16], bytes[17]]));
    if (96..=length).contains(&header) {
        seal(&mut bytes, 0, header - 4);
        let crc = [0, 1, 2, 3].map(|k| bytes[header - 4 + k]);
        bytes[length - 24..length - 20].copy_from_slice(&crc);
    }
    let footer = length - FOOTER;
    bytes[footer..footer + 8].copy_from_slice(&(length as u64).to_le_bytes());
    let index = number(&bytes, footer + 8);
    if index <= footer {
        let crc = crc32c::crc32c(&bytes[index..footer]);
        bytes[footer + 36..footer + 40].copy_from_slice(&crc.to_le_bytes());
    }
    seal(&mut bytes, footer, footer + 44);
    bytes[footer + 48..].copy_from_slice(b"gpzgend\n");
    bytes
}
