//! Two levels: orders, copies, and what a restart finds after nodes are lost.

use super::super::container::Container;
use super::super::newest::tests::{damage, file, ranks};
use super::super::store::tests::{fingerprint, folder, publish};
use super::super::store::Store;
use super::*;
use crate::cases::cases;
use crate::error::fail;
use std::fs::{self, File};
use std::path::Path;

#[test]
fn every_changed_bit_of_an_order_is_noticed() {
    let shared = PathBuf::from("/scratch/a run\n of two");
    let order = Order { shared, generation: 17, complete: 15, folder: u64::MAX, packs: true };
    let bytes = order.to_bytes();
    assert_eq!(Order::of_bytes(&bytes), Some(order));
    for bit in 0..8 * bytes.len() {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Order::of_bytes(&changed), None, "bit {bit}");
    }
    (0..bytes.len()).for_each(|length| assert_eq!(Order::of_bytes(&bytes[..length]), None));
    let relative =
        Order { shared: "scratch".into(), generation: 0, complete: 0, folder: 0, packs: false };
    assert_eq!(Order::of_bytes(&relative.to_bytes()), None);
}

fn all(_: u64) -> Result<()> {
    Ok(())
}

fn alone(value: i64) -> Result<i64> {
    Ok(value)
}

/// Makes a folder of a test, with the folders `node` and `shared` of one rank, and opens its store.
fn two_levels(name: &str) -> (PathBuf, Store) {
    let path = folder(name);
    let mut store = Store::open(&path.join("node"), 0, 1, false).unwrap();
    store.share(&path.join("shared"), false).unwrap();
    (path, store)
}

/// Publishes a generation of one rank, and returns its number and its shipper.
fn next(store: &mut Store, shot: i64) -> (u64, Option<Shipper>) {
    let number = publish(store, shot);
    (number, store.ship(number, &mut alone).unwrap())
}

#[test]
fn a_copy_has_the_bytes_of_the_generation_and_two_are_kept() {
    let (path, mut store) = two_levels("two-levels");
    let (near, shared) = (path.join("node"), path.join("shared"));
    let names = |folder: &Path| {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.retain(|name| name.ends_with(".gen") || name.ends_with(".tmp"));
        names.sort();
        names
    };
    for shot in 1..=5 {
        let (number, shipper) = next(&mut store, shot);
        assert_eq!(shipper.as_ref().unwrap().ship(&mut all).unwrap().generations, 1);
        assert_eq!(shipper.unwrap().ship(&mut all).unwrap(), Shipped::default(), "once is enough");
        let bytes = |path| fs::read(file(path, 0, number)).unwrap();
        assert!(bytes(&near) == bytes(&shared));
        // The copy is known to be there when the next generation is published, and the one before the last
        // goes when the copy after the next one is there.
        assert!(names(&shared).len() <= 3 && names(&near).len() <= 3, "{:?}", names(&shared));
    }
    assert_eq!(names(&shared).len(), 2);
    // A copying that ends early leaves nothing behind, and the generation of the order stays on the node.
    let (number, shipper) = next(&mut store, 6);
    let shipper = shipper.unwrap();
    let error = shipper.ship(&mut |_| fail!(Io, "enough")).unwrap_err();
    assert!(error.message.contains("enough"), "{error}");
    assert_eq!(names(&shared).len(), 2);
    for shot in 7..=12 {
        assert!(next(&mut store, shot).1.is_some(), "still the copy of generation {number}");
        assert!(names(&near).len() <= 3, "{:?}", names(&near));
    }
    assert_eq!(shipper.ship(&mut all).unwrap().generations, 1);
    assert!(file(&shared, 0, number).exists());
    // The node is lost.
    drop(store);
    fs::remove_dir_all(&near).unwrap();
    let mut store = Store::open(&near, 0, 1, false).unwrap();
    store.share(&shared, false).unwrap();
    let found = store.newest(&fingerprint(300), &mut alone).unwrap().unwrap();
    assert_eq!((found.header.shot, found.origin.generation), (6, number));
    assert!(publish(&mut store, 7) > number, "a number is given once");
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn damage_on_one_level_is_passed_over_and_on_both_it_is_told() {
    let (path, mut store) = two_levels("damaged-levels");
    let (near, shared) = (path.join("node"), path.join("shared"));
    for shot in 1..=2 {
        next(&mut store, shot).1.unwrap().ship(&mut all).unwrap();
    }
    damage(&near, 0, 2);
    let shot = |store: &mut Store| {
        store.newest(&fingerprint(300), &mut alone).map(|found| found.unwrap().header.shot)
    };
    assert_eq!(shot(&mut store).unwrap(), 2, "the copy");
    damage(&shared, 0, 2);
    assert_eq!(shot(&mut store).unwrap(), 1);
    damage(&near, 0, 1);
    damage(&shared, 0, 1);
    let error = shot(&mut store).unwrap_err().to_string();
    for text in [
        "generation 2 is damaged",
        "generation 1 is damaged",
        "; its copy in ",
        "shared is damaged",
    ] {
        assert!(error.contains(text), "{text}: {error}");
    }
    // What is damaged on the node is not copied, and the order goes on with the next generation.
    let (number, shipper) = next(&mut store, 3);
    damage(&near, 0, number);
    assert_eq!(shipper.unwrap().ship(&mut all).unwrap(), Shipped::default());
    assert!(!file(&shared, 0, number).exists() && !file(&near, 0, number).exists());
    let (number, shipper) = next(&mut store, 4);
    shipper.unwrap().ship(&mut all).unwrap();
    assert!(file(&shared, 0, number).exists());
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn folders_that_cannot_be_levels_are_named() {
    let path = folder("one-level");
    let mut store = Store::open(&path, 0, 1, false).unwrap();
    let same = path.join("..").join(path.file_name().unwrap());
    let error = store.share(&same, false).unwrap_err();
    assert!(error.message.contains("are one folder"), "{error}");
    let error = store.share("/proc/none".as_ref(), false).unwrap_err();
    assert!(error.message.contains("/proc/none"), "{error}");
    fs::remove_dir_all(path).unwrap();
}

/// A clone that were given the shared folder of another run would go on from that run's generations, and
/// remove them later.
#[test]
fn a_clone_gets_a_shared_folder_of_its_own() {
    let (path, mut store) = two_levels("clone-shared");
    let (shared, kept) = (path.join("shared"), path.join("kept"));
    next(&mut store, 1).1.unwrap().ship(&mut all).unwrap();
    store.clone_to(&kept).unwrap();
    let mut begun = Store::open(&kept, 0, 1, false).unwrap();
    let error = begun.share(&shared, false).unwrap_err();
    for text in [
        "shared has restart files of a run",
        "kept, such as a clone",
        "persist_shared_dir of its own",
    ] {
        assert!(error.message.contains(text), "{text}: {error}");
    }
    begun.share(&path.join("other"), false).unwrap();
    drop((store, begun));
    // The run itself, also with a torn order, and one without files of its own.
    let node = path.join("node");
    fs::write(node.join(FileName::Order.text(0)), "torn").unwrap();
    Store::open(&node, 0, 1, false).unwrap().share(&shared, false).unwrap();
    Store::open(&path.join("new"), 0, 1, false).unwrap().share(&shared, false).unwrap();
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn one_process_copies_for_a_folder() {
    let (path, mut store) = two_levels("flusher");
    let (near, shared) = (path.join("node"), path.join("shared"));
    let (_, shipper) = next(&mut store, 1);
    let shipper = shipper.unwrap();
    assert!(!shipper.has_flusher() && shipper.is_in_use());
    let flusher = Flusher::open(&near, false).unwrap();
    assert!(shipper.has_flusher());
    let error = Flusher::open(&near, false).err().unwrap();
    assert!(error.message.contains("another process uses this folder to copy"), "{error}");
    // Without a run all generations are copied; with one, that of the order.
    let shippers = flusher.shippers().unwrap();
    publish(&mut store, 2);
    assert_eq!(shippers[0].ship(&mut all).unwrap().generations, 1);
    drop(store);
    assert_eq!(shippers[0].ship(&mut all).unwrap().generations, 1);
    assert_eq!(shared_folder(&near).unwrap(), Some(fs::canonicalize(&shared).unwrap()));
    fs::remove_dir_all(path).unwrap();
}

/// A node that was taken for lost comes back when the run has gone on without it: its copies of generations that
/// the run has written anew do not count as the run's.
#[test]
fn copies_of_a_node_that_was_taken_for_lost_are_not_those_of_the_run() {
    let (path, mut store) = two_levels("late");
    let shared = path.join("shared");
    let old: Vec<_> = (1..=3).map(|shot| next(&mut store, shot).1.unwrap()).collect();
    drop(store);
    let mut store = Store::open(&path.join("other node"), 0, 1, false).unwrap();
    store.share(&shared, false).unwrap();
    assert_eq!(old[0].ship(&mut all).unwrap().generations, 3, "the late copies");
    let copy = |number| right(&shared, 0, number);
    for shot in 11..=14 {
        let (number, shipper) = next(&mut store, shot);
        assert_eq!(number as i64, shot - 10);
        assert_ne!(copy(number), Some(shot), "it has still to be copied");
        assert_eq!(shipper.unwrap().ship(&mut all).unwrap().generations, 1);
        assert_eq!(copy(number), Some(shot));
    }
    fs::remove_dir_all(path).unwrap();
}

/// Opens the store of a rank of two that has its node in `near`.
fn open(near: &Path, shared: &Path, rank: u32) -> Store {
    let mut store = Store::open(near, rank, 2, false).unwrap();
    store.share(shared, false).unwrap();
    store
}

/// A node that the run had left is back with its old files, one of which has the number of a generation that
/// all ranks have on the shared level.
#[test]
fn an_old_node_that_is_back_hides_no_copy() {
    let path = folder("old-node");
    let (shared, left) = (path.join("shared"), path.join("left"));
    let nodes = ["node0", "node1"].map(|name| path.join(name));
    let run = |shots: &[i64], copies: usize| {
        ranks(2, |rank, agree| {
            let mut store = open(&nodes[rank as usize], &shared, rank);
            let found = store.newest(&fingerprint(300), agree).unwrap();
            for (k, shot) in shots.iter().enumerate() {
                let number = publish(&mut store, *shot);
                store.confirm(number);
                if k < copies {
                    let shipper = store.ship(number, agree).unwrap().unwrap();
                    assert_eq!(shipper.ship(&mut all).unwrap().generations, 1);
                }
            }
            found.map(|reader| (reader.origin.generation, reader.header.shot))
        })
    };
    assert_eq!(run(&[1, 2], 1), [None, None]);
    fs::rename(&nodes[1], &left).unwrap();
    fs::remove_dir_all(&nodes[0]).unwrap();
    assert_eq!(run(&[7], 1), [Some((1, 1)); 2]);
    nodes.iter().for_each(|node| fs::remove_dir_all(node).unwrap());
    fs::rename(&left, &nodes[1]).unwrap();
    assert_eq!(right(&nodes[1], 1, 2), Some(2));
    assert_eq!(run(&[], 0), [Some((2, 7)); 2]);
    fs::remove_dir_all(path).unwrap();
}

/// The shared folder was away for a time, in which the run made a new one. What it has in common with the other
/// ranks stays when it is back.
#[test]
fn a_shared_folder_that_was_away_keeps_what_it_has() {
    let (path, mut store) = two_levels("away");
    let (near, shared, away) = (path.join("node"), path.join("shared"), path.join("away"));
    let again = || {
        let mut store = Store::open(&near, 0, 1, false).unwrap();
        store.share(&shared, false).unwrap();
        store
    };
    next(&mut store, 1).1.unwrap().ship(&mut all).unwrap();
    drop(store);
    fs::rename(&shared, &away).unwrap();
    let mut store = again();
    for shot in 2..=4 {
        next(&mut store, shot).1.unwrap().ship(&mut all).unwrap();
    }
    drop(store);
    fs::remove_dir_all(&shared).unwrap();
    fs::rename(&away, &shared).unwrap();
    let mut store = again();
    next(&mut store, 5).1.unwrap().ship(&mut all).unwrap();
    assert_eq!((right(&shared, 0, 1), right(&shared, 0, 4)), (Some(1), Some(4)));
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_shared_folder_that_was_removed_is_filled_again() {
    let (path, mut store) = two_levels("removed");
    let shared = path.join("shared");
    next(&mut store, 1).1.unwrap().ship(&mut all).unwrap();
    fs::remove_dir_all(&shared).unwrap();
    for shot in 2..=4 {
        next(&mut store, shot).1.unwrap().ship(&mut all).unwrap();
    }
    assert_eq!(right(&shared, 0, 4), Some(4));
    fs::remove_dir_all(path).unwrap();
}

/// Random numbers: a linear congruential generator with the constants of Knuth's MMIX.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// The shot of a generation that is right.
fn right(path: &Path, rank: u32, number: u64) -> Option<i64> {
    let container = Container::open(File::open(file(path, rank, number)).ok()?).ok()?;
    container.verify().ok().map(|()| container.header.shot)
}

/// The newest generation of which each rank's part is right on its node or on the shared level, by trying all
/// numbers: number and shot, or zeros.
fn newest_common(nodes: &[PathBuf], shared: &Path, last: u64) -> (u64, i64) {
    let of = |rank: usize, number| {
        right(&nodes[rank], rank as u32, number).or_else(|| right(shared, rank as u32, number))
    };
    let common = |number: &u64| {
        let shot = of(0, *number)?;
        let is_one = (1..nodes.len()).all(|rank| of(rank, *number) == Some(shot));
        is_one.then_some((*number, shot))
    };
    (1..=last).rev().find_map(|number| common(&number)).unwrap_or((0, 0))
}

/// A process of another version of gpuzip copies nothing, and removes nothing.
#[test]
fn a_generation_of_another_version_is_left_alone() {
    let (path, mut store) = two_levels("other-version");
    let (number, shipper) = next(&mut store, 1);
    let own = file(&path.join("node"), 0, number);
    let mut bytes = fs::read(&own).unwrap();
    bytes[8] += 1;
    let header = u32::from_le_bytes(bytes[16..20].try_into().unwrap()) as usize - 4;
    let crc = crc32c::crc32c(&bytes[..header]).to_le_bytes();
    bytes[header..header + 4].copy_from_slice(&crc);
    fs::write(&own, &bytes).unwrap();
    let error = shipper.unwrap().ship(&mut all).unwrap_err();
    assert!(error.message.contains("use the gpuzip that wrote it"), "{error}");
    assert_eq!(fs::read(&own).unwrap(), bytes);
    drop(store);
    fs::remove_dir_all(path).unwrap();
}

/// Whether the ranks have no generation in common and must say so instead of beginning anew: each rank has files,
/// or a file that is right tells of a generation that all ranks had.
fn is_lost(nodes: &[PathBuf], shared: &Path, last: u64) -> bool {
    let mut each_has_files = true;
    for (rank, node) in (0..).zip(nodes) {
        let files = || {
            let of = |folder: &Path| (1..=last).map(|number| file(folder, rank, number)).collect();
            let files: [Vec<PathBuf>; 2] = [of(node), of(shared)];
            files.into_iter().flatten()
        };
        each_has_files &= files().any(|path| path.exists());
        let open = |path| Container::open(File::open(path).ok()?).ok();
        let mut right = files().filter_map(open).filter(|container| container.verify().is_ok());
        if right.any(|container| container.origin.confirmed > 0) {
            return true;
        }
    }
    each_has_files
}

/// Runs of one to four ranks on a node each that are killed anywhere: between ranks' publications, with
/// copies made by some ranks, begun by others. Then nodes are lost. The next run finds the newest generation
/// that is still whole on any mix of the levels; never less than what all ranks had on the levels that are
/// left, and on the lost ones nothing that all ranks had on the shared level.
#[test]
fn the_newest_generation_on_any_mix_of_levels_is_found() {
    for seed in 0..cases(40, 2000) {
        let random = &mut Random(seed * 7919 + 1);
        let count = 1 + random.below(4) as u32;
        let path = folder(&format!("mix-{seed}"));
        let nodes: Vec<_> = (0..count).map(|rank| path.join(format!("node{rank}"))).collect();
        let shared = path.join("shared");
        // What all ranks have published, and had on the shared level.
        let (mut published, mut safe) = (0, 0);
        for _ in 0..6 {
            let last = 200;
            let (number, shot) = newest_common(&nodes, &shared, last);
            assert!(number >= safe, "seed {seed}: {number} < {safe}");
            if number == 0 && is_lost(&nodes, &shared, last) {
                ranks(count, |rank, agree| {
                    let mut store = Store::open(&nodes[rank as usize], rank, count, false).unwrap();
                    store.share(&shared, false).unwrap();
                    let error = store.newest(&fingerprint(300), agree).err().unwrap();
                    assert!(error.message.contains("is complete on all ranks"), "{error}");
                });
                break;
            }
            let seeds: Vec<u64> = (0..count).map(|_| random.below(1 << 30)).collect();
            let (rounds, killed_at) = (1 + random.below(4), random.below(5));
            let told = ranks(count, |rank, agree| {
                let random = &mut Random(seeds[rank as usize]);
                let mut store = Store::open(&nodes[rank as usize], rank, count, false).unwrap();
                store.share(&shared, false).unwrap();
                let found = store.newest(&fingerprint(300), agree).unwrap();
                let found = found.map_or((0, 0), |r| (r.origin.generation, r.header.shot));
                assert_eq!(found, (number, shot), "seed {seed}");
                let mut told = Vec::new();
                for round in 0..rounds {
                    let is_last = killed_at == round;
                    if is_last && random.below(2) == 0 {
                        break;
                    }
                    let own = publish(&mut store, shot + 1 + round as i64);
                    if is_last {
                        break;
                    }
                    store.confirm(own);
                    told.push(own);
                    let shipper = store.ship(own, agree).unwrap();
                    let mut pieces = random.below(4);
                    let pace = &mut |_| match pieces {
                        0 => fail!(Io, "killed"),
                        _ => {
                            pieces -= 1;
                            Ok(())
                        }
                    };
                    shipper.into_iter().for_each(|shipper| drop(shipper.ship(pace)));
                }
                told
            });
            published = told[0].last().copied().unwrap_or(number).max(published.min(number));
            // After the kill some ranks' processes for copying go on.
            for (rank, node) in (0..).zip(&nodes) {
                if random.below(3) == 0 {
                    let near = Level::open(node, rank, false).unwrap();
                    Shipper::new(near, false).ship(&mut all).unwrap();
                }
            }
            let on_shared =
                |number: &u64| (0..count).all(|rank| right(&shared, rank, *number).is_some());
            let safest = (1..=last).rev().find(on_shared).unwrap_or(0);
            let mut is_lost = false;
            for node in &nodes {
                if random.below(4) == 0 {
                    fs::remove_dir_all(node).unwrap();
                    is_lost = true;
                }
            }
            safe = if is_lost { safest } else { published };
        }
        fs::remove_dir_all(path).unwrap();
    }
}
