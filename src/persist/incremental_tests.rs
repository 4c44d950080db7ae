//! Incremental generations: what is not written again, what stays because others need it, and what damage does.

use super::container::Container;
use super::format::{Header, Kind, RecordHead, ENTRY, FOOTER, HEADER, HEADER_END, PIECE, VALUE};
use super::level::make_whole;
use super::name::Name;
use super::newest::tests::{damage, file};
use super::store::tests::{fingerprint, folder};
use super::store::Store;
use crate::cases::cases;
use crate::error::Code;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

fn alone(value: i64) -> crate::error::Result<i64> {
    Ok(value)
}

/// Records by their numbers: the bytes of each.
type State = BTreeMap<i64, Vec<u8>>;

fn head(ts: i64, bytes: &[u8]) -> RecordHead {
    let (name, bytes) = (Name::new(&format!("array {}", ts % 3)).unwrap(), bytes.len() as u64);
    let kind = if ts % 2 == 0 { Kind::Array } else { Kind::Snapshot };
    RecordHead { kind, name, ts, codec: 0, raw_bytes: bytes, stored_bytes: bytes }
}

/// Publishes a generation, and returns its number, the bytes of its file and those that older ones hold.
fn publish(store: &mut Store, state: &State) -> (u64, u64, u64) {
    let header = Header { fingerprint: fingerprint(300), shot: 1, it: 7 };
    let mut writer = store.begin(header).unwrap();
    for (ts, bytes) in state {
        writer.record(head(*ts, bytes)).unwrap();
        bytes.chunks(700_001).for_each(|piece| writer.write(piece).unwrap());
    }
    let finished = writer.finish().unwrap();
    let (bytes, held) = (finished.bytes(), finished.held_bytes());
    (store.publish(finished).unwrap(), bytes, held)
}

fn read(reader: &super::Reader) -> State {
    let bytes = |k| {
        let mut bytes = Vec::new();
        let sink = &mut |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok(())
        };
        reader.read(k, sink).unwrap();
        bytes
    };
    reader.records.iter().enumerate().map(|(k, record)| (record.head.ts, bytes(k))).collect()
}

/// Reads a generation in a folder by itself.
fn state_of(folder: &Path, generation: u64) -> State {
    read(&super::open(&file(folder, 0, generation), Some((0, generation))).unwrap())
}

fn generations(folder: &Path) -> Vec<u64> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let numbers = names.filter_map(|name| match super::FileName::read(&name) {
        Some((_, super::FileName::Generation(number))) => Some(number),
        _ => None,
    });
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// Bytes of the files of the generations from `first` on.
fn bytes_since(folder: &Path, first: u64) -> u64 {
    let numbers = generations(folder).into_iter().filter(|number| *number >= first);
    numbers.map(|number| fs::metadata(file(folder, 0, number)).unwrap().len()).sum()
}

/// Bytes of a file with so many records, without payloads.
fn frame(records: usize) -> u64 {
    (HEADER + VALUE + HEADER_END + records * ENTRY + FOOTER) as u64
}

/// A change of a state: of record `ts`, by what.
fn change() -> impl Strategy<Value = (i64, u8, usize)> {
    (0i64..6, 0u8..5, prop_oneof![0usize..9, PIECE - 2..PIECE + 2, 2 * PIECE..2 * PIECE + 3])
}

fn apply(state: &mut State, (ts, how, at): (i64, u8, usize)) {
    match (how, state.get_mut(&ts)) {
        (0, _) => drop(state.remove(&ts)),
        (1, _) | (_, None) => drop(state.insert(ts, (0..at + 1).map(|k| (k * k) as u8).collect())),
        (2, Some(bytes)) => bytes.push(at as u8),
        (_, Some(bytes)) => {
            let at = at % bytes.len();
            bytes[at] ^= 1 << (ts + 1);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(40, 600)))]

    /// Any states: each generation that is kept reads as it was written, holds exactly the records that changed
    /// since the one before, and no file stays that none needs. Copies and clones read the same.
    #[test]
    fn a_generation_holds_what_changed_and_reads_as_it_was_written(
        every in 1u32..5,
        all in prop::collection::vec(prop::collection::vec(change(), 0..4), 1..9),
        ship in prop::collection::vec(0u8..3, 9),
    ) {
        let path = folder("incremental");
        let (near, shared) = (path.join("near"), path.join("shared"));
        let mut store = Store::open(&near, 0, 1, false).unwrap();
        store.share(&shared, false).unwrap();
        store.whole_every(every);
        let (mut state, mut states, mut before) = (State::new(), BTreeMap::new(), State::new());
        let (mut last_whole, mut most) = (0, 0);
        for (k, changes) in all.iter().enumerate() {
            changes.iter().for_each(|change| apply(&mut state, *change));
            let since = bytes_since(&near, last_whole);
            let (number, bytes, held) = publish(&mut store, &state);
            let is_whole = number == 1 || number % u64::from(every) == 0 || since > most;
            if is_whole {
                last_whole = number;
            }
            let is_held = |(ts, bytes): &(&i64, &Vec<u8>)| !is_whole && before.get(ts) == Some(bytes);
            let expected: usize = state.iter().filter(is_held).map(|(_, bytes)| bytes.len()).sum();
            prop_assert_eq!(held, expected as u64);
            let whole = frame(state.len()) + state.values().map(|b| b.len() as u64).sum::<u64>();
            prop_assert_eq!(bytes, whole - held);
            most = 2 * whole;
            states.insert(number, state.clone());
            before.clone_from(&state);
            match (ship[k], store.ship(number, &mut alone).unwrap()) {
                (0, Some(shipper)) => drop(shipper.ship(&mut |_| Ok(())).unwrap()),
                (1, _) => {
                    let kept = path.join(format!("kept {k}"));
                    store.clone_to(&kept).unwrap();
                    prop_assert_eq!(state_of(&kept, number), state.clone());
                }
                _ => {}
            }
            let mut needed = std::collections::BTreeSet::new();
            for folder in [&near, &shared] {
                for generation in generations(folder) {
                    prop_assert_eq!(&state_of(folder, generation), &states[&generation]);
                }
            }
            let kept = generations(&near);
            for generation in &kept {
                let reader = super::open(&file(&near, 0, *generation), None).unwrap();
                needed.extend(reader.places.iter().map(|place| place.generation).filter(|of| of != generation));
            }
            // The two newest, the one that is being copied, and what they refer to.
            let extra = kept.iter().filter(|k| **k + 2 <= number && !needed.contains(k)).count();
            prop_assert!(extra <= 1, "{:?} of {}, of which {:?} are needed", kept, number, needed);
        }
        fs::remove_dir_all(&path).unwrap();
    }
}

/// Eight arrays of which one changes: at least four times fewer bytes, and after 1,000 generations few files.
#[test]
fn an_array_of_eight_that_changes() {
    let path = folder("one-of-eight");
    let mut store = Store::open(&path, 0, 1, false).unwrap();
    store.whole_every(50);
    let mut state: State = (0..8).map(|ts| (ts, vec![ts as u8; 4000])).collect();
    let mut written = 0;
    for k in 0..1000usize {
        state.get_mut(&3).unwrap()[k % 4000] ^= 0x55;
        written += publish(&mut store, &state).1;
        let kept = generations(&path).len();
        assert!(kept <= 4, "{kept} files");
    }
    let whole = 1000 * (frame(8) + 8 * 4000);
    assert!(4 * written < whole, "{written} bytes of {whole}");
    assert_eq!(state_of(&path, 1000), state);
    fs::remove_dir_all(&path).unwrap();
}

/// Where there is no room for a generation that holds everything, the next one refers to older ones all the same.
#[test]
fn a_whole_generation_without_room_is_no_end() {
    let path = folder("no-room-for-a-whole-one");
    let mut store = Store::open(&path, 0, 1, false).unwrap();
    store.whole_every(100);
    let mut state = State::from([(0, vec![7; 40_000]), (2, vec![0; 40_000])]);
    let mut number = 1;
    publish(&mut store, &state);
    loop {
        state.get_mut(&2).unwrap()[number] = 1;
        number += 1;
        // This one is too large for the disk, if it is the one that holds everything.
        let header = Header { fingerprint: fingerprint(300), shot: 1, it: 7 };
        let mut writer = store.begin(header).unwrap();
        for (ts, bytes) in &state {
            writer.record(head(*ts, bytes)).unwrap();
            writer.write(bytes).unwrap();
        }
        let finished = writer.finish().unwrap();
        if finished.held_bytes() == 0 {
            break;
        }
        store.publish(finished).unwrap();
        assert!(number < 20);
    }
    state.get_mut(&2).unwrap()[0] = 9;
    let (number, _, held) = publish(&mut store, &state);
    assert_eq!(held, 40_000);
    assert_eq!(state_of(&path, number), state);
    // The hundredth one holds everything again.
    for _ in number + 1..100 {
        publish(&mut store, &state);
    }
    assert_eq!(publish(&mut store, &state).2, 0);
    fs::remove_dir_all(&path).unwrap();
}

/// A record that differs in its last block is whole again: the blocks before come out of the older file, and if
/// that was damaged meanwhile, the generation fails and the next one is whole.
#[test]
fn blocks_of_a_damaged_file_are_not_taken() {
    let path = folder("damaged-blocks");
    let mut store = Store::open(&path, 0, 1, false).unwrap();
    store.whole_every(100);
    let mut state = State::from([(0, vec![7; 3 * PIECE])]);
    publish(&mut store, &state);
    state.get_mut(&0).unwrap()[3 * PIECE - 1] = 8;
    publish(&mut store, &state);
    assert_eq!(state_of(&path, 2), state);
    damage(&path, 0, 2);
    state.get_mut(&0).unwrap()[3 * PIECE - 1] = 9;
    let mut writer = store.begin(Header { fingerprint: fingerprint(300), shot: 1, it: 7 }).unwrap();
    writer.record(head(0, &state[&0])).unwrap();
    let error = writer.write(&state[&0]).unwrap_err();
    assert!(error.code == Code::Stream && error.message.contains("was changed"), "{error}");
    drop(writer);
    assert_eq!(publish(&mut store, &state).2, 0);
    assert_eq!(state_of(&path, 4), state);
    fs::remove_dir_all(&path).unwrap();
}

/// Without the file that it refers to, or with another one of that name, a generation is passed over.
#[test]
fn a_generation_without_its_older_file_is_passed_over() {
    let path = folder("without-older");
    let store_of = || {
        let mut store = Store::open(&path, 0, 1, false).unwrap();
        store.whole_every(9);
        store
    };
    let state = |k: u8| State::from([(0, vec![1; 999]), (1, vec![k; 10])]);
    let mut store = store_of();
    for k in 1..=4 {
        publish(&mut store, &state(k));
    }
    drop(store);
    assert_eq!(generations(&path), [1, 3, 4]);
    let other = folder("another-one");
    let mut another = Store::open(&other, 0, 1, false).unwrap();
    publish(&mut another, &state(1));
    drop(another);
    let newest = |text: &str| {
        let found = store_of().newest(&fingerprint(300), &mut alone);
        let error = found.map(|found| found.map(|found| found.origin.generation));
        match error {
            Ok(found) => found,
            Err(error) => {
                assert!(error.message.contains(text), "{error}");
                None
            }
        }
    };
    assert_eq!(newest(""), Some(4));
    let first = fs::read(file(&path, 0, 1)).unwrap();
    fs::copy(file(&other, 0, 1), file(&path, 0, 1)).unwrap();
    let found = newest("");
    assert_eq!(found, Some(1), "the other generation itself is right");
    fs::remove_file(file(&path, 0, 1)).unwrap();
    assert_eq!(newest("generation 1, which is missing"), None);
    fs::write(file(&path, 0, 1), &first).unwrap();
    assert_eq!(newest(""), Some(4));
    // What is damaged in the older file is damaged in all that refer to it.
    damage(&path, 0, 1);
    assert_eq!(newest("the checksum of record"), None);
    [path, other].iter().for_each(|path| fs::remove_dir_all(path).unwrap());
}

/// A file of which little is needed is not kept for ever: the files have room as five whole generations.
#[test]
fn files_of_which_little_is_needed_go() {
    let path = folder("little-needed");
    let mut store = Store::open(&path, 0, 1, false).unwrap();
    store.whole_every(100);
    let mut state: State = (0..20).map(|ts| (ts, vec![0; 1000])).collect();
    for k in 0..100u8 {
        state.insert(20, vec![k; 100_000]);
        state.insert(i64::from(k % 20), vec![k; 1000]);
        let (number, bytes, _) = publish(&mut store, &state);
        let whole = frame(21) + 120_000;
        let all = bytes_since(&path, 0);
        assert!(bytes <= whole && all <= 4 * whole, "generation {number}: {all} bytes");
    }
    fs::remove_dir_all(&path).unwrap();
}

/// That an older file cannot be opened does not say that what refers to it is damaged: nothing is removed.
#[test]
fn what_cannot_be_opened_is_not_damaged() {
    let path = folder("not-opened");
    let (near, shared) = (path.join("near"), path.join("shared"));
    let mut store = Store::open(&near, 0, 1, false).unwrap();
    store.share(&shared, false).unwrap();
    store.whole_every(9);
    let state = |k: u8| State::from([(0, vec![1; 999]), (1, vec![k; 10])]);
    publish(&mut store, &state(1));
    let (number, ..) = publish(&mut store, &state(2));
    let shipper = store.ship(number, &mut alone).unwrap().unwrap();
    fs::rename(file(&near, 0, 1), path.join("away")).unwrap();
    fs::create_dir(file(&near, 0, 1)).unwrap();
    let error = shipper.ship(&mut |_| Ok(())).unwrap_err();
    assert!(error.message.contains("the file of generation 1, which holds a part"), "{error}");
    fs::remove_dir(file(&near, 0, 1)).unwrap();
    fs::rename(path.join("away"), file(&near, 0, 1)).unwrap();
    assert_eq!(shipper.ship(&mut |_| Ok(())).unwrap().generations, 1);
    assert_eq!(state_of(&shared, 2), state(2));
    // Missing, it is: then the generation is of no use, and goes.
    publish(&mut store, &state(3));
    let shipper = store.ship(3, &mut alone).unwrap().unwrap();
    fs::remove_file(file(&near, 0, 1)).unwrap();
    assert_eq!(shipper.ship(&mut |_| Ok(())).unwrap().generations, 0);
    assert!(!file(&near, 0, 3).exists());
    drop(store);
    fs::remove_dir_all(&path).unwrap();
}

/// A generation that was made whole is a copy by itself, and the next ones may still refer to it and to what it
/// referred to.
#[test]
fn a_generation_can_be_made_whole() {
    let path = folder("made-whole");
    let mut store = Store::open(&path, 0, 1, false).unwrap();
    store.whole_every(100);
    // Record 1 changes in every generation, record 2 in every second one.
    let state = |k: u8| {
        State::from([(0, vec![1; 999]), (1, vec![k; 10]), (2, vec![k / 2; 100]), (3, vec![3; 50])])
    };
    for k in 1..=3 {
        publish(&mut store, &state(k));
    }
    let mut last_whole = 1;
    for number in 3..=8 {
        let newest = file(&path, 0, number);
        make_whole(&newest).unwrap();
        let bytes = fs::read(&newest).unwrap();
        let alone = Container::open(&bytes[..]).unwrap();
        assert!(alone.is_whole());
        alone.verify().unwrap();
        assert_eq!(state_of(&path, number), state(number as u8));
        make_whole(&newest).unwrap();
        assert_eq!(fs::read(&newest).unwrap(), bytes, "a whole one stays as it is");
        let is_whole = bytes_since(&path, last_whole) > 2 * (frame(4) + 1159);
        let (next, _, held) = publish(&mut store, &state(number as u8 + 1));
        let unchanged = 999 + 50 + if next % 2 == 1 { 100 } else { 0 };
        assert_eq!((next, held), (number + 1, if is_whole { 0 } else { unchanged }));
        if is_whole {
            last_whole = next;
        }
        assert_eq!(state_of(&path, number), state(number as u8));
        assert_eq!(state_of(&path, next), state(next as u8));
    }
    let error = make_whole(&path.join("gpuzip-r000000-g1.gen")).unwrap_err();
    assert_eq!(error.code, Code::Argument);
    assert!(File::open(path.join("gpuzip-r000000-g000000000009.tmp")).is_err());
    fs::remove_dir_all(&path).unwrap();
}
