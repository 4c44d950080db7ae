//! Stores in real folders: publication, what is kept, locks, and folders that cannot be used.

use super::super::fingerprint::Fingerprint;
use super::super::format::Kind;
use super::super::name::Name;
use super::*;
use std::os::unix::fs::{symlink, PermissionsExt};

pub(in crate::persist) fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("gpuzip-store-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

pub(in crate::persist) fn fingerprint(steps: u64) -> Fingerprint {
    let mut fingerprint = Fingerprint::new();
    fingerprint.add("steps", steps).unwrap();
    fingerprint
}

/// Writes a generation whose payload is made from its shot.
pub(in crate::persist) fn write(store: &mut Store, shot: i64) -> Finished {
    let header = Header { fingerprint: fingerprint(300), shot, it: -1 };
    let mut writer = store.begin(header).unwrap();
    for (k, length) in [5, 3000].into_iter().enumerate() {
        writer
            .record(RecordHead {
                kind: Kind::Array,
                name: Name::new(&format!("array {k}")).unwrap(),
                ts: -1,
                codec: 0,
                raw_bytes: length,
                stored_bytes: length,
            })
            .unwrap();
        writer.write(&vec![shot as u8; length as usize]).unwrap();
    }
    writer.finish().unwrap()
}

pub(in crate::persist) fn publish(store: &mut Store, shot: i64) -> u64 {
    let finished = write(store, shot);
    store.publish(finished).unwrap()
}

/// A rank that has no room for its parts confirms nothing: the parts of the others do not pile up.
#[test]
fn parts_that_not_all_ranks_have_do_not_stay() {
    let path = folder("common");
    let mut store = Store::open(&path, 0, 2, false).unwrap();
    for shot in 1..=2 {
        publish(&mut store, shot);
    }
    store.confirm(2);
    for shot in 3..=9 {
        let number = publish(&mut store, shot);
        store.keep_common();
        assert_eq!(store.generations().unwrap(), [2, number]);
    }
    publish(&mut store, 10);
    store.confirm(10);
    store.keep_common();
    publish(&mut store, 11);
    assert_eq!(store.generations().unwrap(), [10, 11]);
    std::fs::remove_dir_all(path).unwrap();
}

/// Returns the shot of the newest generation after checking its payload; -1 if there is none.
pub(in crate::persist) fn newest_shot(store: &mut Store) -> i64 {
    let Some(reader) = store.newest(&fingerprint(300), &mut |value| Ok(value)).unwrap() else {
        return -1;
    };
    let shot = reader.header.shot;
    for k in 0..2 {
        let check = &mut |bytes: &[u8]| {
            assert!(bytes.iter().all(|byte| *byte == shot as u8));
            Ok(())
        };
        reader.read(k, check).unwrap();
    }
    shot
}

fn names(path: &Path) -> Vec<String> {
    let names = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn generation(rank: u32, generation: u64) -> String {
    FileName::Generation(generation).text(rank)
}

#[test]
fn the_two_newest_generations_are_kept_across_processes() {
    let path = folder("kept");
    let mut next = 1;
    for _ in 0..3 {
        let mut store = Store::open(&path, 0, 1, false).unwrap();
        assert_eq!(newest_shot(&mut store), next as i64 - 1 - i64::from(next == 1));
        for _ in 0..4 {
            assert_eq!(publish(&mut store, next as i64), next);
            assert_eq!(newest_shot(&mut store), next as i64);
            let kept = store.generations().unwrap();
            assert_eq!(kept, (next.saturating_sub(1).max(1)..=next).collect::<Vec<_>>());
            next += 1;
        }
        let lines: Vec<_> = store.near.published().iter().map(|l| (l.generation, l.shot)).collect();
        assert_eq!(lines, (1..next).map(|k| (k, k as i64)).collect::<Vec<_>>());
    }
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for name in names(&path) {
        assert_eq!(mode(&path.join(&name)), 0o600, "{name}");
    }
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn what_is_not_published_leaves_nothing_behind() {
    let path = folder("dropped");
    let mut store = Store::open(&path, 0, 1, false).unwrap();
    let header = Header { fingerprint: fingerprint(300), shot: 0, it: -1 };
    let writer = store.begin(header).unwrap();
    assert_eq!((writer.line.generation, names(&path).len()), (1, 2));
    drop(writer);
    let finished = write(&mut store, 1);
    assert_eq!((finished.generation(), names(&path).len()), (2, 2));
    assert!(finished.bytes() > 3000);
    drop(finished);
    assert_eq!(names(&path), [FileName::Lock.text(0)]);
    assert_eq!(newest_shot(&mut store), -1);
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn two_generations_may_be_written_at_a_time_and_published_by_another_thread() {
    let path = folder("threads");
    let mut store = Store::open(&path, 0, 1, false).unwrap();
    let (first, second) = (write(&mut store, 1), write(&mut store, 2));
    let mut store = std::thread::spawn(move || {
        assert_eq!(store.publish(second).unwrap(), 2);
        assert_eq!(store.publish(first).unwrap(), 1);
        store
    })
    .join()
    .unwrap();
    assert_eq!(newest_shot(&mut store), 2);
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn with_several_ranks_a_generation_stays_until_all_have_a_newer_one() {
    let path = folder("confirmed");
    let mut store = Store::open(&path, 1, 2, false).unwrap();
    (1..=4).for_each(|shot| assert_eq!(publish(&mut store, shot), shot as u64));
    assert_eq!(store.generations().unwrap(), [1, 2, 3, 4]);
    store.confirm(2);
    publish(&mut store, 5);
    assert_eq!(store.generations().unwrap(), [2, 3, 4, 5]);
    store.confirm(5);
    publish(&mut store, 6);
    assert_eq!(store.generations().unwrap(), [5, 6]);
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn files_of_dead_writers_go_and_those_of_others_stay() {
    let path = folder("swept");
    let mut store = Store::open(&path, 1, 2, false).unwrap();
    publish(&mut store, 1);
    drop(store);
    let own = FileName::Temporary(7).text(1);
    let others = [FileName::Temporary(7).text(0), "gpuzip-r1.tmp".into()];
    for name in others.iter().chain([&own]) {
        std::fs::write(path.join(name), "torn").unwrap();
    }
    let mut store = Store::open(&path, 1, 2, false).unwrap();
    assert!(!path.join(own).exists() && others.iter().all(|name| path.join(name).exists()));
    // A file that came since the store was opened is in nobody's use either.
    std::fs::write(path.join(FileName::Temporary(2).text(1)), "x").unwrap();
    assert_eq!(publish(&mut store, 2), 2);
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn numbers_are_never_used_again() {
    let path = folder("numbers");
    let mut store = Store::open(&path, 0, 1, false).unwrap();
    (1..=3).for_each(|shot| assert_eq!(publish(&mut store, shot), shot as u64));
    drop(store);
    let journal = path.join(FileName::Journal.text(0));
    // The newest file is lost: the journal knows its number.
    std::fs::remove_file(path.join(generation(0, 3))).unwrap();
    let mut store = Store::open(&path, 0, 1, false).unwrap();
    assert_eq!((newest_shot(&mut store), publish(&mut store, 4)), (2, 4));
    drop(store);
    // The journal is lost, damaged or no file: the folder knows.
    for (k, spoil) in [
        (|journal: &Path| std::fs::remove_file(journal).unwrap()) as fn(&Path),
        |journal| std::fs::write(journal, "no line of a journal").unwrap(),
        |journal| {
            std::fs::remove_file(journal).unwrap();
            std::fs::create_dir(journal).unwrap();
        },
    ]
    .into_iter()
    .enumerate()
    {
        spoil(&journal);
        let mut store = Store::open(&path, 0, 1, false).unwrap();
        let last = 4 + k as i64;
        assert_eq!(
            (newest_shot(&mut store), publish(&mut store, last + 1)),
            (last, last as u64 + 1)
        );
    }
    std::fs::remove_dir_all(path).unwrap();
}

/// The other ranks give the number to their part of the generation.
#[test]
fn a_generation_that_cannot_be_begun_uses_its_number_up() {
    let path = folder("begun");
    let mut store = Store::open(&path, 0, 2, false).unwrap();
    let name = FileName::Temporary(1).text(0);
    std::fs::create_dir(path.join(&name)).unwrap();
    let header = Header { fingerprint: fingerprint(300), shot: 1, it: -1 };
    let error = store.begin(header).err().unwrap();
    assert!(error.code == Code::Io && error.message.contains(&name), "{error}");
    assert_eq!(publish(&mut store, 2), 2);
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_generation_under_another_name_is_not_used() {
    let path = folder("renamed");
    let mut store = Store::open(&path, 0, 2, false).unwrap();
    publish(&mut store, 1);
    publish(&mut store, 2);
    std::fs::copy(path.join(generation(0, 1)), path.join(generation(0, 2))).unwrap();
    let error = store.near.read(2, false).err().unwrap();
    assert!(error.message.contains("is generation 1 of rank 0 under the name"), "{error}");
    assert_eq!(newest_shot(&mut store), 1);
    // Another rank's file.
    let mut other = Store::open(&path, 1, 2, false).unwrap();
    std::fs::copy(path.join(generation(0, 1)), path.join(generation(1, 1))).unwrap();
    let error = other.newest(&fingerprint(300), &mut |value| Ok(value)).err().unwrap();
    assert!(error.message.contains("generation 1 is generation 1 of rank 0"), "{error}");
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_rank_is_one_process_at_a_time() {
    let path = folder("locked");
    let store = Store::open(&path, 3, 4, false).unwrap();
    let other_rank = Store::open(&path, 2, 4, false).unwrap();
    let error = Store::open(&path, 3, 4, false).err().unwrap();
    assert_eq!(error.code, Code::Io);
    let owner = format!("(process {} on ", std::process::id());
    for text in [path.to_str().unwrap(), "another process uses this folder as rank 3", &owner] {
        assert!(error.message.contains(text), "{error}");
    }
    drop((store, other_rank));
    // What a dead process has left in the lock file means nothing.
    let lock = path.join(FileName::Lock.text(3));
    std::fs::write(&lock, "process 1 on nowhere\n").unwrap();
    drop(Store::open(&path, 3, 4, false).unwrap());
    let owner = std::fs::read_to_string(&lock).unwrap();
    assert!(owner.starts_with(&format!("process {} on ", std::process::id())), "{owner}");
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn impossible_ranks_are_refused() {
    for (rank, ranks) in [(0, 0), (1, 1), (4, 3), (0, MOST_RANKS + 1)] {
        let error = Store::open("/nonexistent".as_ref(), rank, ranks, false).err().unwrap();
        assert!(error.message.contains(&format!("rank = {rank} of ranks = {ranks}")), "{error}");
    }
}

/// Lock and journal that have a second name, which may be another user's file.
#[test]
fn no_lock_and_no_journal_is_written_through_a_hard_link() {
    let path = folder("hard-links");
    std::fs::create_dir(&path).unwrap();
    let victim = path.join("victim");
    std::fs::write(&victim, "precious").unwrap();
    std::fs::hard_link(&victim, path.join("gpuzip-r000000.lock")).unwrap();
    let error = Store::open(&path, 0, 1, false).err().unwrap();
    assert!(error.message.contains("gpuzip-r000000.lock: has 2 names"), "{error}");
    std::fs::remove_file(path.join("gpuzip-r000000.lock")).unwrap();
    std::fs::hard_link(&victim, path.join("gpuzip-r000000.journal")).unwrap();
    let mut store = Store::open(&path, 0, 1, false).unwrap();
    // The generation is complete without its line in the journal.
    publish(&mut store, 7);
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    std::fs::remove_dir_all(path).unwrap();
}

/// Folders and generations of another user are used, unless they are to be trusted.
#[test]
fn files_of_another_user_are_refused_where_they_must_be_trusted() {
    let path = folder("strangers");
    let mut store = Store::open(&path, 0, 1, true).unwrap();
    publish(&mut store, 7);
    drop(store);
    let generation = path.join("gpuzip-r000000-g000000000001.gen");
    let found = |store: Result<Store>| -> Result<i64> {
        let found = store?.newest(&fingerprint(300), &mut |value| Ok(value))?;
        Ok(found.map_or(-1, |reader| reader.header.shot))
    };
    std::fs::set_permissions(&generation, PermissionsExt::from_mode(0o620)).unwrap();
    assert_eq!(found(Store::open(&path, 0, 1, false)).unwrap(), 7);
    let error = found(Store::open(&path, 0, 1, true)).unwrap_err();
    assert!(error.message.contains("generation 1 has mode 620"), "{error}");
    std::fs::set_permissions(&generation, PermissionsExt::from_mode(0o600)).unwrap();
    for given in [&generation, &path] {
        if std::os::unix::fs::chown(given, Some(65534), None).is_ok() {
            assert_eq!(found(Store::open(&path, 0, 1, false)).unwrap(), 7);
            let error = found(Store::open(&path, 0, 1, true)).unwrap_err();
            assert!(error.message.contains("belongs to user 65534"), "{error}");
        }
    }
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn folders_that_cannot_be_used_are_named() {
    let path = folder("unusable");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("file"), "").unwrap();
    symlink("nothing", path.join("dangling")).unwrap();
    symlink("loop", path.join("loop")).unwrap();
    let long = format!("{}/{}", "x".repeat(200), "y".repeat(300));
    for (dir, text) in [
        ("file", "File exists"),
        ("file/below", "Not a directory"),
        ("dangling", "a symbolic link to nothing"),
        ("loop", "File exists"),
        (&long, "File name too long"),
        (&"z/".repeat(5000), "File name too long"),
        ("with\0nul", "nul"),
    ] {
        let error = Store::open(&path.join(dir), 0, 1, false).err().unwrap();
        assert!(
            error.code == Code::Io
                && error.message.starts_with("folder of restart files ")
                && (error.message.contains(text)
                    || error.message.len() == crate::error::LONGEST_TEXT),
            "{dir}: {error}"
        );
    }
    // A link to a folder, and folders that are missing, are made use of.
    symlink("a/b/c", path.join("link")).unwrap();
    drop(Store::open(&path.join("a/b/c"), 0, 1, false).unwrap());
    drop(Store::open(&path.join("link"), 0, 1, false).unwrap());
    assert_eq!(names(&path.join("a/b/c")), ["gpuzip-r000000.lock"]);
    // A lock file or a generation that is a link or no file is not followed.
    let lock = path.join("a/b/c/gpuzip-r000000.lock");
    std::fs::remove_file(&lock).unwrap();
    symlink(path.join("file"), &lock).unwrap();
    let error = Store::open(&path.join("a/b/c"), 0, 1, false).err().unwrap();
    assert!(error.message.contains("gpuzip-r000000.lock: "), "{error}");
    std::fs::remove_dir_all(path).unwrap();
}
