//! States that a session writes for other programs: every byte of the files, which files there are, and
//! what a failed call leaves.

use crate::common::prelude::*;
use gpuzip::device::{Rows, Stream};
use gpuzip::persist::Name;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const STEPS: u32 = 17;

/// Fields of every type, and how NumPy describes them.
const FIELDS: [(Scalar, [u64; 3], &str); 9] = [
    (Scalar::F32, [4, 3, 2], "'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 4)"),
    (Scalar::F64, [5, 1, 1], "'descr': '<f8', 'fortran_order': False, 'shape': (5,)"),
    (Scalar::I8, [3, 1, 1], "'descr': '|i1', 'fortran_order': False, 'shape': (3,)"),
    (Scalar::I16, [2, 2, 1], "'descr': '<i2', 'fortran_order': False, 'shape': (2, 2)"),
    (Scalar::I32, [1, 7, 1], "'descr': '<i4', 'fortran_order': False, 'shape': (7, 1)"),
    (Scalar::I64, [2, 1, 1], "'descr': '<i8', 'fortran_order': False, 'shape': (2,)"),
    (Scalar::ComplexF32, [1, 2, 3], "'descr': '<c8', 'fortran_order': False, 'shape': (3, 2, 1)"),
    (Scalar::ComplexF64, [3, 1, 1], "'descr': '<c16', 'fortran_order': False, 'shape': (3,)"),
    (Scalar::Byte, [1, 1, 1], "'descr': '|u1', 'fortran_order': False, 'shape': (1,)"),
];

/// The bytes of a file of NumPy with this array.
fn npy(array: &str, values: &[u8]) -> Vec<u8> {
    let text = format!("{:117}\n", format!("{{{array}, }}"));
    [b"\x93NUMPY\x01\x00\x76\x00", text.as_bytes(), values].concat()
}

fn npy_f32(values: &[f32]) -> Vec<u8> {
    let array = format!("'descr': '<f4', 'fortran_order': False, 'shape': ({},)", values.len());
    npy(&array, &values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>())
}

/// The files of a folder.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
    entries.map(|entry| (name(&entry), fs::read(entry.path()).unwrap())).collect()
}

/// A field of FP32 values.
fn floats(values: &mut [f32]) -> AppField {
    let field = field([values.len() as u64, 1, 1], Scalar::F32);
    // SAFETY: the values outlive the calls of these tests that get them.
    let memory = unsafe { AppMemory::new(values.as_mut_ptr().cast(), size_of_val(values)) };
    AppField { field, memory: Some(memory) }
}

/// A session for such fields.
fn session(fields: &[AppField]) -> Session {
    Session::new(config(Algorithm::Revolve, 3, 2), STEPS.into(), fields).unwrap()
}

fn names(session: &mut Session, names: &[&str]) {
    let names = names.iter().map(|name| Name::new(name).unwrap());
    session.name_fields(names.collect()).unwrap();
}

/// An application that computes states again writes each of them the first time, and the rest of the
/// shot is as without.
#[test]
fn every_state_is_written_once_with_every_byte() {
    let shapes = FIELDS.map(|(scalar, n, _)| field(n, scalar));
    for (name, config) in [
        ("revolve", config(Algorithm::Revolve, 3, 2)),
        ("store-all", config(Algorithm::StoreAll, 0, 0)),
        ("online", config(Algorithm::Online, 4, 0)),
    ] {
        let dir = tempdir(&format!("export-{name}")).join("made/if missing");
        let mut app = HostApp::new(&shapes, noise);
        let mut session = open(&config, STEPS, &shapes).unwrap();
        // u(0) may be written before the first action.
        app.set(0);
        session.export(&dir, 0, &app.fields(), HOST).unwrap();
        let inode = |ts: u32| fs::metadata(dir.join(format!("field0-{ts:09}.npy"))).unwrap().ino();
        let mut seen = BTreeMap::from([(0, inode(0))]);
        while let Some(tick) = step(&mut session, &mut app).unwrap() {
            match tick.action.kind {
                Kind::Forward => app.set(app.live),
                // Of a state that is there nothing is read.
                Kind::Save | Kind::Restore => app.poison(),
                _ => continue,
            }
            session.export(&dir, app.live.into(), &app.fields(), HOST).unwrap();
            let found = inode(app.live);
            assert_eq!(*seen.entry(app.live).or_insert(found), found, "{name}: written again");
        }
        let mut expected = BTreeMap::new();
        for ts in 0..STEPS {
            for (k, (state, (_, _, array))) in app.state(ts).iter().zip(FIELDS).enumerate() {
                expected.insert(format!("field{k}-{ts:09}.npy"), npy(array, state));
            }
        }
        assert!(files(&dir) == expected, "{name}: {:?}", files(&dir).keys());
    }
}

/// Fields with gaps between their rows and of more bytes than are read at a time.
#[test]
fn large_fields_and_gaps_between_rows() {
    let dir = tempdir("export-large");
    let ([n1, n2, n3], [pitch2, pitch3]) = ([300u64, 700, 3], [307u64, 307 * 702]);
    let whole = field([n1, n2, n3], Scalar::F32);
    let mut memory: Vec<f32> = (0..pitch3 * n3).map(|i| i as f32).collect();
    let rows = Rows::of(&whole, pitch2, pitch3).unwrap();
    // SAFETY: the vector has room for the rows and outlives the calls.
    let rows = unsafe { AppMemory::in_rows(memory.as_mut_ptr().cast(), rows) };
    let fields = [AppField { field: whole, memory: Some(rows) }];
    session(&fields).export(&dir, 1_234_567_890, &fields, HOST).unwrap();
    let at = |i: u64| memory[(i / n1 / n2 * pitch3 + i / n1 % n2 * pitch2 + i % n1) as usize];
    let values: Vec<u8> = (0..n1 * n2 * n3).flat_map(|i| at(i).to_le_bytes()).collect();
    let array = "'descr': '<f4', 'fortran_order': False, 'shape': (3, 700, 300)";
    let expected = BTreeMap::from([("field0-1234567890.npy".into(), npy(array, &values))]);
    assert!(files(&dir) == expected, "{:?}", files(&dir).keys());
}

/// Memory of zero copy is exported as the application's own.
#[test]
fn memory_of_a_session_is_exported() {
    let dir = tempdir("export-zero-copy");
    let mut own = [0f32; 3];
    let config = config(Algorithm::Revolve, 3, 2).with(|c| c.tiers.zero_copy = true);
    let mut session = Session::new(config, STEPS.into(), &[floats(&mut own)]).unwrap();
    session.get_action().unwrap();
    let at: *mut f32 = session.save_begin(0, 1, HOST).unwrap()[0].cast();
    // SAFETY: the memory is the application's until it commits the save, and readable afterwards.
    let given = unsafe { std::slice::from_raw_parts_mut(at, 3) };
    given.copy_from_slice(&[1.0, 2.0, 3.0]);
    session.export(&dir, 0, &[floats(given)], HOST).unwrap();
    session.save_commit(0, HOST).unwrap();
    session.export(&dir, 1, &[floats(given)], HOST).unwrap();
    let file = npy_f32(&[1.0, 2.0, 3.0]);
    let expected = [("field0-000000000.npy", &file), ("field0-000000001.npy", &file)];
    assert!(files(&dir).iter().map(|(name, bytes)| (&**name, bytes)).eq(expected));
}

#[test]
fn names_of_fields_are_names_of_files() {
    let dir = tempdir("export-names");
    let (mut u, mut v) = ([1f32], [2f32]);
    let fields = [floats(&mut u), floats(&mut v)];
    let mut session = session(&fields);
    for (ts, [first, second], expected) in [
        (0, ["u", "v"], ["u-000000000.npy", "v-000000000.npy"]),
        (1, ["a/../b", ".v"], ["a-..-b-000000001.npy", "_.v-000000001.npy"]),
        (2, ["-u", "\u{e9}t\u{e9} 1\n"], ["_-u-000000002.npy", "\u{e9}t\u{e9}-1--000000002.npy"]),
    ] {
        names(&mut session, &[first, second]);
        session.export(&dir, ts, &fields, HOST).unwrap();
        for (name, values) in expected.iter().zip([u, v]) {
            assert_eq!(fs::read(dir.join(name)).unwrap(), npy_f32(&values), "{name}");
        }
    }
    assert_eq!(files(&dir).len(), 6);
    names(&mut session, &["p/x", "p x"]);
    let same = session.export(&dir, 3, &fields, HOST);
    refused(same, Code::Argument, &["field 0", "field 1", "p-x-000000003.npy", "names"]);
    assert_eq!(files(&dir).len(), 6);
}

/// Another shot writes its states in the place of those of the shot before, and so does another session.
#[test]
fn another_shot_writes_its_own_states() {
    let dir = tempdir("export-shots");
    let mut u = [0f32; 4];
    for _ in 0..2 {
        let mut session = session(&[floats(&mut u)]);
        for shot in 0..3 {
            session.setup().unwrap();
            for pass in 0..2 {
                u.fill((10 * shot + pass) as f32);
                session.export(&dir, 5, &[floats(&mut u)], HOST).unwrap();
                let found = fs::read(dir.join("field0-000000005.npy")).unwrap();
                assert_eq!(found, npy_f32(&[10.0 * shot as f32; 4]), "shot {shot}, pass {pass}");
            }
        }
    }
}

/// What a dead process has left, or what was damaged since: a temporary file, and files of another length.
#[test]
fn leftovers_are_not_in_the_way() {
    let dir = tempdir("export-leftovers");
    let (mut u, mut v) = ([1f32, 2.0], [3f32, 4.0]);
    let fields = [floats(&mut u), floats(&mut v)];
    let mut session = session(&fields);
    let (of_u, of_v) = (npy_f32(&u), npy_f32(&v));
    fs::write(dir.join(".gpuzip-0123456789abcdef.part"), &of_u[..50]).unwrap();
    let other = dir.join("elsewhere");
    for left in [&b""[..], &of_u[..of_u.len() - 1], &[&of_u[..], b"x"].concat()] {
        fs::write(dir.join("field0-000000003.npy"), left).unwrap();
        session.export(&dir, 3, &fields, HOST).unwrap();
        assert_eq!(fs::read(dir.join("field0-000000003.npy")).unwrap(), of_u);
        assert_eq!(fs::read(dir.join("field1-000000003.npy")).unwrap(), of_v);
    }
    // One field alone is missing. The other is not written again, whatever it holds.
    fs::write(dir.join("field0-000000003.npy"), vec![7; of_u.len()]).unwrap();
    fs::remove_file(dir.join("field1-000000003.npy")).unwrap();
    session.export(&dir, 3, &fields, HOST).unwrap();
    assert_eq!(fs::read(dir.join("field0-000000003.npy")).unwrap(), vec![7; of_u.len()]);
    assert_eq!(fs::read(dir.join("field1-000000003.npy")).unwrap(), of_v);
    // A state that was moved to another place is there by a symbolic link; a link to nothing is replaced.
    fs::rename(dir.join("field0-000000003.npy"), &other).unwrap();
    std::os::unix::fs::symlink(&other, dir.join("field0-000000003.npy")).unwrap();
    session.export(&dir, 3, &fields, HOST).unwrap();
    assert_eq!(fs::read(&other).unwrap(), vec![7; of_u.len()]);
    fs::remove_file(&other).unwrap();
    session.export(&dir, 3, &fields, HOST).unwrap();
    assert_eq!(fs::read(dir.join("field0-000000003.npy")).unwrap(), of_u);
    assert!(!other.exists());
    assert_eq!(files(&dir).len(), 3);
}

/// Each rank has a folder of its own. Two threads that write the same states into one folder write
/// complete files.
#[test]
fn ranks_and_threads() {
    let dir = tempdir("export-ranks");
    std::thread::scope(|scope| {
        for rank in 0..4 {
            let dir = &dir;
            scope.spawn(move || {
                let mut u = vec![rank as f32; 500];
                let fields = [floats(&mut u)];
                let mut session = session(&fields);
                for ts in 0..40 {
                    session.export(&dir.join(format!("rank-{rank}")), ts, &fields, HOST).unwrap();
                    session.export(&dir.join("all"), ts, &fields, HOST).unwrap();
                }
            });
        }
    });
    for rank in 0..4 {
        let files = files(&dir.join(format!("rank-{rank}")));
        assert!(
            files.len() == 40 && files.values().all(|file| *file == npy_f32(&[rank as f32; 500]))
        );
    }
    let all = files(&dir.join("all"));
    let whole: Vec<_> = (0..4).map(|rank| npy_f32(&[rank as f32; 500])).collect();
    assert!(all.len() == 40 && all.values().all(|file| whole.contains(file)), "{:?}", all.keys());
}

#[test]
fn impossible_calls_are_refused() {
    let dir = tempdir("export-refused");
    let mut u = [1f32, 2.0];
    let (fields, none) = ([floats(&mut u)], Path::new(""));
    let mut session = session(&fields);
    let nowhere = [AppField { memory: None, ..fields[0] }];
    let mut longer = [0f32; 3];
    refused(session.export(&dir, -1, &fields, HOST), Code::Argument, &["ts = -1"]);
    refused(session.export(none, 0, &fields, HOST), Code::Argument, &["dir is empty"]);
    refused(session.export(&dir, 0, &nowhere, HOST), Code::Argument, &["field 0: data is NULL"]);
    refused(session.export(&dir, 0, &[], HOST), Code::Shape, &["0 fields"]);
    let other = session.export(&dir, 0, &[floats(&mut longer)], HOST);
    refused(other, Code::Shape, &["field 0 is [3, 1, 1]"]);
    let stream = Stream(8 as *mut _);
    refused(session.export(&dir, 0, &fields, stream), Code::Argument, &["stream"]);
    assert_eq!(files(&dir).len(), 0);
    session.export(&dir, 0, &fields, HOST).unwrap();
    assert_eq!(files(&dir).len(), 1);
}

/// A call that fails says which file and what to do, leaves no part of a file, and the shot goes on.
#[test]
fn a_failed_call_leaves_nothing_and_harms_nothing() {
    let Some(dir) = alone("a_failed_call_leaves_nothing_and_harms_nothing") else { return };
    let shapes = [field([40, 1, 1], Scalar::F32), field([900, 1, 1], Scalar::F64)];
    let mut app = HostApp::new(&shapes, noise);
    let mut session = open(&config(Algorithm::Revolve, 3, 2), STEPS, &shapes).unwrap();
    let states = dir.join("states");
    fs::write(dir.join("file"), "").unwrap();
    fs::create_dir_all(dir.join("taken/field1-000000001.npy")).unwrap();
    let mut failed = 0;
    while let Some(tick) = step(&mut session, &mut app).unwrap() {
        if tick.action.kind != Kind::Forward {
            continue;
        }
        app.set(app.live);
        let (ts, fields) = (i64::from(app.live), app.fields());
        if ts == 1 {
            let folder = session.export(&dir.join("taken"), ts, &fields, HOST);
            refused(folder, Code::Io, &["taken/field1-000000001.npy", "name another folder"]);
            let of_taken: Vec<_> = fs::read_dir(dir.join("taken")).unwrap().collect();
            assert_eq!(of_taken.len(), 2, "field 0 and the folder");
        }
        let no_folder = session.export(&dir.join("file"), ts, &fields, HOST);
        refused(no_folder, Code::Io, &["alone-", "file: ", "name another folder"]);
        // Room for the first field and a part of the second one.
        limit_files(4096);
        let full = session.export(&states, ts, &fields, HOST);
        limit_files(libc::RLIM_INFINITY);
        if !states.join(format!("field1-{ts:09}.npy")).exists() {
            let name = format!("states/field1-{ts:09}.npy: File too large");
            refused(full, Code::Io, &[&name, "free space there, or name another folder"]);
            assert!(states.join(format!("field0-{ts:09}.npy")).exists());
            failed += 1;
            if ts > 3 {
                session.export(&states, ts, &fields, HOST).unwrap();
            }
        } else {
            full.unwrap();
        }
    }
    assert_eq!(app.reversed, STEPS);
    assert!(failed > STEPS as usize - 4, "{failed}");
    let found = files(&states);
    assert!(found.keys().all(|name| name.ends_with(".npy")), "{:?}", found.keys());
    for ts in 4..STEPS - 1 {
        let array = "'descr': '<f8', 'fortran_order': False, 'shape': (900,)";
        assert_eq!(found[&format!("field1-{ts:09}.npy")], npy(array, &app.state(ts)[1]), "{ts}");
    }
}
