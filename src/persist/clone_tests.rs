//! Clones: the same bytes in a second folder, and from which start they and what follows are.

use super::super::container::Container;
use super::super::format::Start;
use super::super::newest::tests::{damage, file};
use super::super::store::tests::{fingerprint, folder, newest_shot, publish};
use super::*;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

fn alone(value: i64) -> Result<i64> {
    Ok(value)
}

/// Goes on from the newest generation of a folder, as a session does, writes the next one, and returns the
/// shot and the start of both.
fn go_on(path: &Path) -> [(i64, Start); 2] {
    let mut store = Store::open(path, 0, 1, false).unwrap();
    let found = store.newest(&fingerprint(300), &mut alone).unwrap().unwrap();
    store.went_on(found.origin);
    let number = publish(&mut store, found.header.shot + 1);
    let next = Container::open(File::open(file(path, 0, number)).unwrap()).unwrap();
    [&found, &next].map(|reader| (reader.header.shot, reader.origin.start))
}

#[test]
fn a_clone_stays_when_the_run_goes_on_and_many_runs_begin_with_it() {
    let path = folder("clone");
    let (own, kept) = (path.join("run"), path.join("kept"));
    let mut store = Store::open(&own, 0, 1, false).unwrap();
    let error = store.clone_to(&kept).unwrap_err();
    assert!(error.message.contains("write one first") && !kept.exists(), "{error}");
    for shot in 1..=2 {
        publish(&mut store, shot);
    }
    let cloned = store.clone_to(&kept).unwrap();
    assert_eq!((cloned.shot, cloned.it, cloned.is_link), (2, -1, true));
    let error = store.clone_to(&kept.join("../run")).unwrap_err();
    assert!(error.message.contains("is the folder of the run: name a new one"), "{error}");
    let number = |path: &Path| fs::metadata(file(path, 0, 2)).unwrap().ino();
    assert_eq!(number(&own), number(&kept), "one file with two names");
    for shot in 3..=6 {
        publish(&mut store, shot);
    }
    assert!(!file(&own, 0, 2).exists());
    let error = store.clone_to(&kept).unwrap_err();
    assert!(error.message.contains("has generation 2 of rank 0: give each clone"), "{error}");
    // Runs from one clone, each in a folder of its own: parents tell where each came from.
    let mut seen = Vec::new();
    for name in ["a", "b"] {
        let begun = path.join(name);
        clone_generation(&[&kept], 0, 2, &begun).unwrap();
        let [(shot, first), (next, second)] = go_on(&begun);
        assert_eq!((shot, next), (2, 3));
        assert_eq!(first, Start { parent: 0, from: 0, ..store.start });
        assert_eq!((second.parent, second.from), (first.number, 2));
        let [_, (_, third)] = go_on(&begun);
        assert_eq!((third.parent, third.from), (second.number, 3), "a restart is a start, too");
        seen.extend([second.number, third.number]);
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 4, "each start has a number of its own");
    assert_eq!(newest_shot(&mut Store::open(&kept, 0, 1, false).unwrap()), 2);
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_clone_is_made_from_a_folder_that_has_it_right() {
    let path = folder("clone-levels");
    let (near, shared) = (path.join("near"), path.join("shared"));
    let mut store = Store::open(&near, 0, 1, false).unwrap();
    publish(&mut store, 1);
    clone_generation(&[&near], 0, 1, &shared).unwrap();
    let good = fs::read(file(&near, 0, 1)).unwrap();
    // A second file: the first one shares its bytes with the clone.
    fs::remove_file(file(&shared, 0, 1)).unwrap();
    fs::write(file(&shared, 0, 1), &good).unwrap();
    damage(&near, 0, 1);
    let from = [near.as_path(), shared.as_path()];
    clone_generation(&from, 0, 1, &path.join("kept")).unwrap();
    assert!(fs::read(file(&path.join("kept"), 0, 1)).unwrap() == good);
    damage(&shared, 0, 1);
    let error = clone_generation(&from, 0, 1, &path.join("none")).unwrap_err();
    assert!(error.message.contains("near") && error.message.contains("damaged"), "{error}");
    assert!(!path.join("none").exists());
    fs::remove_dir_all(path).unwrap();
}

/// Without hard links, as between two file systems, the bytes are copied.
#[test]
fn what_cannot_be_linked_is_copied() {
    let path = folder("clone-copy");
    let mut store = Store::open(&path, 0, 1, false).unwrap();
    publish(&mut store, 1);
    let other = Path::new("/dev/shm").join(path.file_name().unwrap());
    let number = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    if number(&path) == number("/dev/shm".as_ref()) || number("/dev/shm".as_ref()).is_none() {
        eprintln!("skipped: there is no second file system");
        return;
    }
    let cloned = store.clone_to(&other).unwrap();
    assert!(!cloned.is_link);
    assert!(fs::read(file(&path, 0, 1)).unwrap() == fs::read(file(&other, 0, 1)).unwrap());
    fs::remove_dir_all(other).unwrap();
    fs::remove_dir_all(path).unwrap();
}
