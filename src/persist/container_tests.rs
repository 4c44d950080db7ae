//! Containers in memory: what is written is read, and no damage goes unnoticed.

use super::super::fingerprint::Fingerprint;
use super::super::format::{Start, VALUE, VERSION};
use super::super::name::Name;
use super::*;

fn head(name: &str, ts: i64, stored: u64) -> RecordHead {
    RecordHead {
        kind: Kind::Snapshot,
        name: Name::new(name).unwrap(),
        ts,
        codec: 3,
        raw_bytes: 2 * stored,
        stored_bytes: stored,
    }
}

fn fingerprint() -> Fingerprint {
    let mut fingerprint = Fingerprint::new();
    fingerprint.add("steps", 300).unwrap();
    fingerprint.add("fields", u64::MAX).unwrap();
    fingerprint
}

fn origin(generation: u64) -> Origin {
    let start = Start { number: 1 << 60, parent: 77, from: 4 };
    Origin { generation, rank: 3, ranks: 4, confirmed: 5, time: 1_800_000_000, start }
}

/// Writes a container whose record k has `lengths[k]` bytes made from `seed` and k.
fn written(lengths: &[usize], generation: u64, seed: u32) -> Vec<u8> {
    let header = Header { fingerprint: fingerprint(), shot: 7, it: generation as i64 };
    let mut bytes = Vec::new();
    let mut writer = ContainerWriter::new(&mut bytes, &header, &origin(generation), None).unwrap();
    for (k, length) in lengths.iter().enumerate() {
        let payload = payload(*length, k, seed);
        writer.record(head(&format!("record {k}"), k as i64, *length as u64)).unwrap();
        // Pieces of several lengths.
        payload.chunks(1 + 1000 * k).for_each(|piece| writer.write(piece).unwrap());
    }
    let footer = writer.finish().unwrap();
    assert_eq!(footer.length, bytes.len() as u64);
    bytes
}

fn payload(length: usize, k: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(k as u32) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Opens and reads a container completely.
fn check(bytes: &[u8]) -> Result<Container<&[u8]>> {
    let container = Container::open(bytes)?;
    container.verify()?;
    Ok(container)
}

#[test]
fn what_is_written_is_read() {
    for lengths in [&[][..], &[0], &[1], &[5, 0, PIECE, 2 * PIECE + 1, 77, PIECE - 1]] {
        let bytes = written(lengths, 9, 1);
        let container = check(&bytes).unwrap();
        assert_eq!(container.origin, origin(9));
        assert_eq!(container.header, Header { fingerprint: fingerprint(), shot: 7, it: 9 });
        assert_eq!(container.length, bytes.len() as u64);
        assert_eq!(container.records.len(), lengths.len());
        for (k, record) in container.records.iter().enumerate() {
            assert_eq!(record.head, head(&format!("record {k}"), k as i64, lengths[k] as u64));
            let mut read = Vec::new();
            container
                .read(k, &mut |piece| {
                    assert!(piece.len() <= PIECE);
                    read.extend_from_slice(piece);
                    Ok(())
                })
                .unwrap();
            assert_eq!(read, payload(lengths[k], k, 1), "record {k}");
        }
        let none = container.read(lengths.len(), &mut |_| Ok(())).unwrap_err();
        assert_eq!(none.code, Code::Argument);
    }
}

#[test]
fn more_records_than_one_piece_of_the_index_has() {
    let bytes = written(&[3; 2 * PIECE / ENTRY + 1], 1, 1);
    assert_eq!(check(&bytes).unwrap().records.len(), 2 * PIECE / ENTRY + 1);
}

#[test]
fn a_writer_wants_exactly_the_bytes_of_a_record() {
    let header = Header { fingerprint: Fingerprint::new(), shot: 0, it: -1 };
    let mut bytes = Vec::new();
    let mut writer = ContainerWriter::new(&mut bytes, &header, &origin(1), None).unwrap();
    assert_eq!(writer.write(b"x").unwrap_err().code, Code::Argument, "before any record");
    writer.record(head("u", 1, 3)).unwrap();
    writer.write(b"ab").unwrap();
    let early = writer.record(head("v", 2, 1)).unwrap_err();
    assert!(early.code == Code::State && early.message.contains("1 of the 3 bytes"), "{early}");
    assert_eq!(writer.finish().unwrap_err().code, Code::State);
    assert_eq!(writer.write(b"cd").unwrap_err().code, Code::Argument, "one too many");
    writer.write(b"c").unwrap();
    writer.finish().unwrap();
    assert_eq!(check(&bytes).unwrap().records[0].head.name.as_str(), "u");
}

#[test]
fn a_failed_write_cannot_be_made_good() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.0.checked_sub(bytes.len()) {
                Some(left) => {
                    self.0 = left;
                    Ok(bytes.len())
                }
                None => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let header = Header { fingerprint: Fingerprint::new(), shot: 0, it: -1 };
    let mut writer = ContainerWriter::new(Full(PIECE), &header, &origin(1), None).unwrap();
    writer.record(head("u", 1, 4 * PIECE as u64)).unwrap();
    let piece = vec![1; PIECE];
    let error = writer.write(&piece).unwrap_err();
    assert!(error.message.contains("No space left"), "{error}");
    // The disk has room again, but bytes in the middle are missing.
    writer.to.0 = 100 * PIECE;
    assert!(writer.write(&piece).unwrap_err().message.contains("an earlier write"));
    assert!(writer.finish().is_err());
}

/// A container of 64 KiB with several records.
fn container_of_64_kib() -> Vec<u8> {
    let rest = 64 * 1024 - written(&[0, 0, 0, 0], 9, 1).len();
    let bytes = written(&[1, 20_000, 0, rest - 20_001], 9, 1);
    assert_eq!(bytes.len(), 64 * 1024);
    bytes
}

#[test]
fn every_truncation_is_noticed() {
    let bytes = container_of_64_kib();
    check(&bytes).unwrap();
    for length in 0..bytes.len() {
        let error = check(&bytes[..length]).err().unwrap_or_else(|| panic!("{length} bytes"));
        assert_eq!(error.code, Code::Stream, "{length} bytes: {error}");
    }
    for more in [1, 2, FOOTER, 4096] {
        let longer = [&bytes[..], &vec![0; more]].concat();
        assert!(check(&longer).is_err(), "{more} bytes more");
        let again = [&bytes[..], &bytes[bytes.len() - more..]].concat();
        assert!(check(&again).is_err(), "the last {more} bytes twice");
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let mut bytes = container_of_64_kib();
    for k in 0..bytes.len() {
        for bit in 0..8 {
            bytes[k] ^= 1 << bit;
            assert!(check(&bytes).is_err(), "bit {bit} of byte {k}");
            bytes[k] ^= 1 << bit;
        }
    }
    check(&bytes).unwrap();
}

#[test]
fn mixtures_of_two_generations_are_noticed() {
    let lengths = [1, 20_000, 0, 44_000];
    let (old, new) = (written(&lengths, 8, 1), written(&lengths, 9, 2));
    assert_eq!(old.len(), new.len());
    let (first, last) = (0..old.len())
        .filter(|k| old[*k] != new[*k])
        .fold((usize::MAX, 0), |(first, last), k| (first.min(k), last.max(k)));
    // A write that stopped after `cut` bytes, over the old file.
    for cut in first + 1..=last {
        let mixed = [&new[..cut], &old[cut..]].concat();
        assert!(check(&mixed).is_err(), "{cut} new bytes, then old ones");
        let mixed = [&old[..cut], &new[cut..]].concat();
        assert!(check(&mixed).is_err(), "{cut} old bytes, then new ones");
    }
    // Blocks that reached the disk in another order: every set of the 16 blocks of 4096 bytes, and
    // sets of blocks of 512 bytes.
    let mut mixed = Vec::with_capacity(new.len());
    for (block, patterns) in [(4096, 1 << 16), (512, 4096)] {
        for pattern in 0..patterns {
            mixed.clear();
            for (k, (new, old)) in new.chunks(block).zip(old.chunks(block)).enumerate() {
                mixed.extend(if pattern >> (k % 16) & 1 == 1 { new } else { old });
            }
            assert!(
                mixed == new || mixed == old || check(&mixed).is_err(),
                "blocks of {block} bytes, {pattern:#x}"
            );
        }
    }
}

/// The header of a container before the payloads of another one with the same number of the
/// generation and the same payloads.
#[test]
fn a_header_of_another_container_is_noticed() {
    let written = |shot: i64| {
        let header = Header { fingerprint: fingerprint(), shot, it: -1 };
        let mut bytes = Vec::new();
        let mut writer = ContainerWriter::new(&mut bytes, &header, &origin(9), None).unwrap();
        writer.record(head("u", 1, 3)).unwrap();
        writer.write(b"abc").unwrap();
        let footer = writer.finish().unwrap();
        (bytes, footer.index as usize - 3)
    };
    let ((one, end), (other, _)) = (written(1), written(2));
    let error = check(&[&one[..end], &other[end..]].concat()).err().unwrap();
    assert!(error.message.contains("of different generations"), "{error}");
}

#[test]
fn other_versions_and_byte_orders_are_told_from_damage() {
    let good = written(&[5], 1, 1);
    let error = |offset: usize, number: &[u8], is_sealed: bool| {
        let mut changed = good.clone();
        changed[offset..offset + number.len()].copy_from_slice(number);
        let header = HEADER + 2 * VALUE + 4;
        let crc = crc32c::crc32c(&changed[..header]).to_le_bytes();
        if is_sealed {
            changed[header..header + 4].copy_from_slice(&crc);
        }
        check(&changed).err().unwrap()
    };
    let [next, order] = [(VERSION + 1).to_le_bytes(), 0x0102_0304u32.to_be_bytes()];
    for (offset, number, is_sealed, code, text) in [
        (
            8,
            &next[..],
            true,
            Code::Config,
            "has version 5 of the format, and this gpuzip reads version 4",
        ),
        (8, &next, false, Code::Stream, "is damaged: its header says version 5"),
        (12, &order, true, Code::Config, "of another byte order, 0x04030201"),
        (12, &order, false, Code::Stream, "is damaged: its header says byte order 0x04030201"),
        (0, b"GIF89a", true, Code::Stream, "is no restart file of gpuzip"),
    ] {
        let error = error(offset, number, is_sealed);
        assert!(error.code == code && error.message.contains(text), "{text}: {error}");
    }
}

/// Numbers in a file that are right by their checksums and absurd: no panic, and no memory for what
/// the file is too short for.
#[test]
fn absurd_numbers_with_right_checksums_are_refused() {
    let good = written(&[5, 6], 1, 1);
    let end = good.len() - FOOTER;
    let with_footer = |offset: usize, number: u64| {
        let mut bytes = good.clone();
        bytes[end + offset..][..8].copy_from_slice(&number.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[end..end + 44]);
        bytes[end + 44..end + 48].copy_from_slice(&crc.to_le_bytes());
        check(&bytes).err().unwrap()
    };
    for number in [0, 1, 3, 1 << 20, 1 << 40, u64::MAX / ENTRY as u64, u64::MAX] {
        for (name, offset) in [("length", 0), ("index", 8), ("records", 16), ("generation", 24)] {
            if (name, number) != ("generation", 1) {
                let error = with_footer(offset, number);
                assert_eq!(error.code, Code::Stream, "{name} = {number}: {error}");
            }
        }
    }
    let with_entry = |offset: usize, number: u64| {
        let mut bytes = good.clone();
        let index = end - 2 * ENTRY;
        bytes[index + offset..][..8].copy_from_slice(&number.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[index..end]);
        bytes[end + 36..end + 40].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[end..end + 44]);
        bytes[end + 44..end + 48].copy_from_slice(&crc.to_le_bytes());
        check(&bytes).err().unwrap()
    };
    for number in [0, 4, 6, 1 << 40, u64::MAX] {
        for (name, offset) in [("offset", 16), ("stored bytes", 24), ("bytes", 64)] {
            let error = with_entry(offset, number);
            assert_eq!(error.code, Code::Stream, "{name} = {number}: {error}");
        }
    }
    let with_header = |offset: usize, number: &[u8]| {
        let mut bytes = good.clone();
        bytes[offset..offset + number.len()].copy_from_slice(number);
        let header = HEADER + 2 * VALUE + 4;
        let crc = crc32c::crc32c(&bytes[..header]).to_le_bytes();
        bytes[header..header + 4].copy_from_slice(&crc);
        bytes[end + 32..end + 36].copy_from_slice(&crc);
        let crc = crc32c::crc32c(&bytes[end..end + 44]);
        bytes[end + 44..end + 48].copy_from_slice(&crc.to_le_bytes());
        check(&bytes).err().unwrap()
    };
    for (offset, number, text) in [
        (24, &[0; 8][..], "generation 0"),
        (24, &[255; 8], "generation 18446744073709551615"),
        (32, &[255; 8], "shot -1"),
        (32, &i64::MIN.to_le_bytes(), "shot -9223372036854775808"),
        (40, &(-2i64).to_le_bytes(), "action -2"),
        (48, &4u32.to_le_bytes(), "rank 4 of 4 ranks"),
        (48, &[0; 8], "rank 0 of 0 ranks"),
        (52, &1_409_286_144_u32.to_le_bytes(), "rank 3 of 1409286144 ranks"),
        (72, &[0; 8], "says start 0"),
        (80, &[0; 8], "went on from generation 4 of start 0"),
        (88, &[0; 8], "went on from generation 0 of start 77"),
        (88, &[255; 8], "went on from generation 18446744073709551615"),
    ] {
        let error = with_header(offset, number);
        assert!(error.code == Code::Stream && error.message.contains(text), "{text}: {error}");
    }
    assert_eq!(with_entry(0, 3).code, Code::Stream, "an unknown kind");
    assert_eq!(with_entry(4, 0).code, Code::Stream, "a length before the codec, without a codec");
    assert_eq!(with_entry(72, 0).code, Code::Stream, "no name");
    assert_eq!(with_entry(44, 1).code, Code::Stream, "packed, of a codec");
    for (name, offset) in [("generation", 48), ("since", 56)] {
        for number in [0, 2, u64::MAX] {
            let error = with_entry(offset, number);
            assert!(error.code == Code::Stream, "{name} = {number}: {error}");
        }
    }
}

/// A change of the format needs a new version: these bytes are version 4.
#[test]
fn the_format_stays_what_it_is() {
    let bytes = written(&[5, 100], 9, 1);
    assert_eq!((VERSION, bytes.len(), crc32c::crc32c(&bytes)), (4, 745, 803_393_574));
}

/// Returns the numbers that a table of docs/persist-format.md finds in `bytes`: the rows of the
/// section `name`, which follow one another without gaps and end at `length`.
fn documented(name: &str, bytes: &[u8], length: usize) -> Vec<i128> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/persist-format.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with(name)).unwrap();
    let (mut next, mut numbers) = (0, Vec::new());
    for row in section.lines().filter(|row| row.starts_with("| ")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let Some((begin, end)) = cells[1].split_once(" to ") else { continue };
        let (begin, end): (usize, usize) = (begin.parse().unwrap(), end.parse().unwrap());
        assert_eq!(begin, next, "{row}");
        let field = &bytes[begin..end];
        match cells[2] {
            "u32" => numbers.push(u32::from_le_bytes(field.try_into().unwrap()).into()),
            "u64" => numbers.push(u64::from_le_bytes(field.try_into().unwrap()).into()),
            "i64" => numbers.push(i64::from_le_bytes(field.try_into().unwrap()).into()),
            "name" => assert_eq!(Name::read(field).unwrap().as_str(), "record 1", "{row}"),
            "mark" => assert!(field.len() == 8 && field.is_ascii() == (name == "Footer"), "{row}"),
            kind => assert!(kind.is_empty() && field == [0; 4], "{row}"),
        }
        next = end;
    }
    assert_eq!(next, length, "{name}");
    numbers
}

#[test]
fn the_page_of_the_format_is_right() {
    let bytes = written(&[5, 100], 9, 1);
    let header = HEADER + 2 * VALUE + HEADER_END;
    let (index, footer) = (header + 105, bytes.len() - FOOTER);
    let crc = |bytes: &[u8]| i128::from(crc32c::crc32c(bytes));
    let header_crc = crc(&bytes[..header - 4]);
    let order = i128::from(u32::from_le_bytes(0x0102_0304u32.to_ne_bytes()));
    let start = [1 << 60, 77, 4];
    let of_header = [4, order, header as i128, 2, 9, 7, 9, 3, 4, 5, 1_800_000_000];
    let of_header = [&of_header[..], &start].concat();
    assert_eq!(documented("Header", &bytes, HEADER), of_header);
    let payload = &bytes[header + 5..index];
    let of_record = [1, 3, 1, header as i128 + 5, 100, 200, crc(payload), 0, 9, 9, 100];
    assert_eq!(documented("Index", &bytes[index + ENTRY..], ENTRY), of_record);
    let of_footer = [
        bytes.len() as i128,
        index as i128,
        2,
        9,
        header_crc,
        crc(&bytes[index..footer]),
        crc(&bytes[footer..footer + 44]),
    ];
    assert_eq!(documented("Footer", &bytes[footer..], FOOTER), of_footer);
}
