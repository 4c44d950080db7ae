//! Hostile restart files: real generations with changed numbers, lengths, names and payloads, whose
//! checksums are made right again, so that the change is met by what reads behind the checksums.
#![allow(dead_code)] // Each test program uses a part of it.

use super::draw::Draw;

/// Bytes of the header before and behind the fingerprint, of one of its values, of an entry of the
/// index, and of the footer (docs/persist-format.md).
const HEADER: usize = 96;
const HEADER_END: usize = 8;
const VALUE: usize = 88;
const ENTRY: usize = 152;
const FOOTER: usize = 56;

/// Returns a number in place of `was`: an extreme one, or one that differs little.
fn hostile(was: u64, draw: &mut Draw) -> u64 {
    let numbers = [0, 1, 2, 255, 1 << 20, 1 << 31, 1 << 32, 1 << 40, 1 << 62, i64::MAX as u64];
    match draw.below(20) {
        k @ 0..=9 => numbers[k],
        10 => 0u64.wrapping_sub(1 + draw.below(3) as u64),
        11 => i64::MIN as u64,
        12 => was.wrapping_add(1),
        13 => was.wrapping_sub(1),
        14 => was.wrapping_mul(2),
        15 => was / 2,
        16 => was ^ 1 << draw.below(64),
        17 => was.swap_bytes(),
        18 => u64::from_ne_bytes(f64::NAN.to_ne_bytes()),
        _ => draw.bits(),
    }
}

/// A container in its parts. Offsets, lengths and checksums are made when it is written.
#[derive(Clone)]
pub struct Hostile {
    header: Vec<u8>,
    /// Entry of the index, and payload.
    records: Vec<([u8; ENTRY], Vec<u8>)>,
    footer: [u8; FOOTER],
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

impl Hostile {
    /// Takes the bytes of a real generation apart, which refers to no other.
    pub fn of(bytes: &[u8]) -> Self {
        let footer = bytes.last_chunk().unwrap();
        let index = &bytes[u64_at(footer, 8) as usize..bytes.len() - FOOTER];
        let record = |entry: &[u8; ENTRY]| {
            let (offset, stored) = (u64_at(entry, 16) as usize, u64_at(entry, 64) as usize);
            (*entry, bytes[offset..offset + stored].to_vec())
        };
        let header = u32::from_le_bytes(bytes[16..20].try_into().unwrap()) as usize;
        Hostile {
            header: bytes[..header].to_vec(),
            records: index.as_chunks().0.iter().map(record).collect(),
            footer: *footer,
        }
    }

    /// Says that the generation is of `rank`.
    pub fn of_rank(mut self, rank: u32, ranks: u32) -> Self {
        self.header[48..52].copy_from_slice(&rank.to_le_bytes());
        self.header[52..56].copy_from_slice(&ranks.to_le_bytes());
        self
    }

    /// Returns the bytes of this generation as it is.
    pub fn whole(&self) -> Vec<u8> {
        let payloads = self.records.iter().flat_map(|(_, payload)| payload);
        let entries = self.records.iter().flat_map(|(entry, _)| entry);
        self.header.iter().chain(payloads).chain(entries).chain(&self.footer).copied().collect()
    }

    /// Returns the bytes of this generation with one to three changes and right checksums.
    pub fn changed(mut self, draw: &mut Draw) -> Vec<u8> {
        for _ in 0..=draw.below(3) {
            self.change(draw);
        }
        let mut entries = Vec::new();
        let mut bytes = self.header.clone();
        for (entry, payload) in &mut self.records {
            entry[16..24].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
            let length = (payload.len() as u64).to_le_bytes();
            entry[64..72].copy_from_slice(&length);
            // What a packed record is before it was packed is not known here.
            if entry[44] == 0 {
                entry[24..32].copy_from_slice(&length);
                entry[40..44].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
            }
            bytes.extend_from_slice(payload);
            entries.push(*entry);
        }
        let index = bytes.len();
        // One time in four, an entry lies about where its payload is, or how long.
        if draw.below(4) == 0 && !entries.is_empty() {
            let entry = draw.below(entries.len());
            put(&mut entries[entry], [16, 24, 64][draw.below(3)], 8, draw);
        }
        entries.iter().for_each(|entry| bytes.extend_from_slice(entry));
        self.seal(bytes, index, draw)
    }

    fn seal(mut self, mut bytes: Vec<u8>, index: usize, draw: &mut Draw) -> Vec<u8> {
        let end = self.header.len() - 4;
        let header_crc = crc32c::crc32c(&bytes[..end]).to_le_bytes();
        bytes[end..end + 4].copy_from_slice(&header_crc);
        let footer = &mut self.footer;
        footer[..8].copy_from_slice(&((bytes.len() + FOOTER) as u64).to_le_bytes());
        footer[8..16].copy_from_slice(&(index as u64).to_le_bytes());
        footer[16..24].copy_from_slice(&(self.records.len() as u64).to_le_bytes());
        footer[24..32].copy_from_slice(&self.header[24..32]);
        footer[32..36].copy_from_slice(&header_crc);
        footer[36..40].copy_from_slice(&crc32c::crc32c(&bytes[index..]).to_le_bytes());
        if draw.below(8) == 0 {
            put(footer, [0, 8, 16, 24][draw.below(4)], 8, draw);
        }
        let crc = crc32c::crc32c(&footer[..44]).to_le_bytes();
        footer[44..48].copy_from_slice(&crc);
        bytes.extend_from_slice(footer);
        bytes
    }

    fn change(&mut self, draw: &mut Draw) {
        let record = draw.below(self.records.len());
        match draw.below(10) {
            0 | 1 => {
                let fields =
                    [(20, 4), (24, 8), (32, 8), (40, 8), (48, 4), (52, 4), (56, 8), (64, 8)];
                let (at, width) = fields[draw.below(fields.len())];
                put(&mut self.header, at, width, draw);
            }
            2 => {
                let values = (self.header.len() - HEADER - HEADER_END) / VALUE;
                let at = HEADER + VALUE * draw.below(values);
                let width = self.header.len() - HEADER_END - at;
                match draw.below(3) {
                    0 if width > 0 => put(&mut self.header, at + draw.below(80), 1, draw),
                    1 if width > 0 => put(&mut self.header, at + 80, 8, draw),
                    _ => self.cut_header(draw),
                }
            }
            _ if self.records.is_empty() => {}
            3 | 4 => {
                let names = [(72, 1), (72, 8), (151, 1)];
                let numbers = [(0, 4), (4, 4), (8, 8), (32, 8), (44, 1), (48, 8), (56, 8)];
                let at = draw.below(names.len() + numbers.len());
                let (at, width) = *names.iter().chain(&numbers).nth(at).unwrap();
                put(&mut self.records[record].0, at, width, draw);
            }
            5 => drop(self.records.remove(record)),
            6 => {
                let copy = self.records[record].clone();
                self.records.insert(draw.below(self.records.len() + 1), copy);
            }
            7 => {
                let other = draw.below(self.records.len());
                self.records.swap(record, other);
            }
            8 => {
                let length = self.records[record].1.len();
                let lengths = [0, 1, length / 2, length.saturating_sub(1), length + 1, 2 * length];
                self.records[record].1.resize(lengths[draw.below(6)], 0);
                // Half of the time the length before the codec is as wrong as the other one.
                if draw.below(2) == 0 {
                    let length = self.records[record].1.len() as u64;
                    self.records[record].0[32..40].copy_from_slice(&length.to_le_bytes());
                }
            }
            _ => self.change_payload(record, draw),
        }
    }

    /// Changes a number of a payload: mostly one of its first words, where the headers of streams
    /// and the position of the shot are, which is the last record.
    fn change_payload(&mut self, record: usize, draw: &mut Draw) {
        let last = self.records.len() - 1;
        let record = if draw.below(2) == 0 { last } else { record };
        let payload = &mut self.records[record].1;
        let words = payload.len() / 8;
        if words > 0 {
            let most = if draw.below(4) == 0 { words } else { words.min(16) };
            let word = draw.below(most);
            let (shift, width) = [(0, 8), (0, 4), (4, 4), (3, 1)][draw.below(4)];
            put(payload, 8 * word + shift, width, draw);
        }
    }

    /// Removes the last value of the fingerprint, or adds a copy of it.
    fn cut_header(&mut self, draw: &mut Draw) {
        let values = (self.header.len() - HEADER - HEADER_END) / VALUE;
        let end = self.header.len() - HEADER_END;
        match values {
            0 => {}
            _ if draw.below(2) == 0 => drop(self.header.drain(end - VALUE..end)),
            _ => {
                let copy = self.header[end - VALUE..end].to_vec();
                self.header.splice(end..end, copy);
            }
        }
        let (length, values) =
            (self.header.len(), (self.header.len() - HEADER - HEADER_END) / VALUE);
        self.header[16..20].copy_from_slice(&(length as u32).to_le_bytes());
        self.header[20..24].copy_from_slice(&(values as u32).to_le_bytes());
    }
}

/// Replaces a number of `width` bytes by a hostile one.
fn put(bytes: &mut [u8], at: usize, width: usize, draw: &mut Draw) {
    let mut was = [0; 8];
    was[..width].copy_from_slice(&bytes[at..at + width]);
    let number = hostile(u64::from_le_bytes(was), draw).to_le_bytes();
    bytes[at..at + width].copy_from_slice(&number[..width]);
}
