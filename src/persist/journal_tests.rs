//! Lines of a journal, torn and damaged ones included.

use super::*;
use std::path::PathBuf;

fn line(generation: u64) -> Line {
    Line { generation, shot: 7, it: -1, bytes: 1 << 40 }
}

fn folder(name: &str) -> (PathBuf, Folder) {
    let path = std::env::temp_dir().join(format!("gpuzip-journal-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir(&path).unwrap();
    let folder = Folder::open(&path).unwrap();
    (path, folder)
}

fn read(folder: &Folder) -> Vec<u64> {
    super::read(folder, "j".as_ref()).unwrap().iter().map(|line| line.generation).collect()
}

#[test]
fn a_line_has_96_bytes_whatever_it_says() {
    for line in [
        line(1),
        Line { generation: MOST, shot: i64::MIN, it: i64::MAX, bytes: MOST },
        Line { generation: 0, shot: 0, it: 0, bytes: 0 },
    ] {
        assert_eq!(Line::from_bytes(&line.to_bytes()), Some(line));
    }
    let text = String::from_utf8(line(17).to_bytes().to_vec()).unwrap();
    assert!(text.starts_with("gpz1                  17 ") && text.ends_with('\n'), "{text}");
    // A number that is too long for its columns is written as the largest one that fits.
    let cut = Line { generation: u64::MAX, ..line(1) }.to_bytes();
    assert_eq!(Line::from_bytes(&cut).unwrap().generation, MOST);
}

#[test]
fn every_flipped_bit_of_a_line_is_noticed() {
    let mut bytes = line(17).to_bytes();
    for k in 0..LINE {
        for bit in 0..8 {
            bytes[k] ^= 1 << bit;
            assert_eq!(Line::from_bytes(&bytes), None, "bit {bit} of byte {k}");
            bytes[k] ^= 1 << bit;
        }
    }
}

#[test]
fn torn_and_damaged_lines_are_passed_over() {
    let (path, folder) = folder("torn");
    assert_eq!(read(&folder), [0; 0], "no journal");
    for generation in 1..=3 {
        append(&folder, "j".as_ref(), line(generation)).unwrap();
    }
    let whole = std::fs::read(path.join("j")).unwrap();
    assert_eq!(whole.len(), 3 * LINE);
    for length in 0..3 * LINE {
        std::fs::write(path.join("j"), &whole[..length]).unwrap();
        let lines: Vec<u64> = (1..=(length / LINE) as u64).collect();
        assert_eq!(read(&folder), lines, "{length} bytes");
        append(&folder, "j".as_ref(), line(9)).unwrap();
        assert_eq!(read(&folder), [&lines[..], &[9]].concat(), "{length} bytes, and a line");
    }
    let mut damaged = whole.clone();
    damaged[LINE + 20] ^= 1;
    std::fs::write(path.join("j"), &damaged).unwrap();
    assert_eq!(read(&folder), [1, 3]);
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_long_journal_is_cut_down_to_its_newest_lines() {
    let (path, folder) = folder("long");
    let all: Vec<u8> = (1..=MOST_LINES).flat_map(|k| line(k).to_bytes()).collect();
    std::fs::write(path.join("j"), all).unwrap();
    append(&folder, "j".as_ref(), line(MOST_LINES + 1)).unwrap();
    let expected: Vec<u64> = (MOST_LINES - KEPT as u64 + 1..=MOST_LINES + 1).collect();
    assert_eq!(read(&folder), expected);
    // What no run of gpuzip leaves behind is not read into memory.
    let file = std::fs::OpenOptions::new().write(true).open(path.join("j")).unwrap();
    file.set_len(1 << 40).unwrap();
    assert!(super::read(&folder, "j".as_ref()).unwrap_err().message.contains("too large"));
    std::fs::remove_dir_all(path).unwrap();
}
