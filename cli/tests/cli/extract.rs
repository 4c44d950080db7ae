//! `gpuzip inspect --extract`: what a session wrote comes back in files of NumPy, bit for bit.

use super::draw::Draw;
use super::inspect::hostile::Hostile;
use super::inspect::{cases, damage, generation, limited, lines, opened, publish, END};
use super::{json, text};
use gpuzip::codec::{FillValue, Method};
use gpuzip::config::{Backend, Config};
use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::layout::{Field, Layout};
use gpuzip::persist::{
    FileName, Fingerprint, Header, Kind as RecordKind, Name, RecordHead, Shapes, Store, SHAPES,
};
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{Algorithm, Kind};
use gpuzip::session::{Array, Session};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HOST: Stream = Stream(std::ptr::null_mut());
const STEPS: u32 = 24;
/// The arrays that the application has beside its live state.
const IMAGE: Field = Field { n: [7, 5, 1], scalar: Scalar::F32, previous_of: None };
const COUNT: Field = Field { n: [1, 1, 1], scalar: Scalar::I64, previous_of: None };

/// A time level, its previous one, and a field without one.
fn shapes() -> Vec<Field> {
    let level = Field { n: [12, 9, 1], scalar: Scalar::F64, previous_of: None };
    let other = Field { n: [5, 2, 3], scalar: Scalar::F32, previous_of: None };
    vec![level, Field { previous_of: Some(0), ..level }, other]
}

/// The bytes of field `k` of u(ts), with NaN in some places of every second pair of states: a level with NaN is
/// not stored as a difference.
fn exact(ts: i64, k: usize) -> Vec<u8> {
    let field = shapes()[k];
    let (k, ts) = if k == 1 { (0, ts - 1) } else { (k, ts) };
    let value = |i: u64| match i % 17 {
        3 if ts % 4 > 1 => f64::NAN,
        _ => ((i as f64 * 0.37 + ts as f64 * 0.11).sin() + k as f64) * 10.0,
    };
    let values = (0..field.n.iter().product()).map(value);
    match field.scalar {
        Scalar::F32 => values.flat_map(|x| (x as f32).to_ne_bytes()).collect(),
        _ => values.flat_map(f64::to_ne_bytes).collect(),
    }
}

fn app_field(field: Field, bytes: &mut [u8]) -> AppField {
    // SAFETY: the memory outlives the call that the field is made for, and nobody uses it during that call.
    let memory = unsafe { AppMemory::new(bytes.as_mut_ptr(), bytes.len()) };
    AppField { field, memory: Some(memory) }
}

fn fields(state: &mut [Vec<u8>]) -> Vec<AppField> {
    shapes().into_iter().zip(state).map(|(field, bytes)| app_field(field, bytes)).collect()
}

/// What the arrays hold and what the session brought back of each state that the generation holds.
struct Run {
    folder: PathBuf,
    image: Vec<u8>,
    live: Vec<Vec<u8>>,
    restored: BTreeMap<u32, Vec<Vec<u8>>>,
}

/// Runs a shot, and writes a generation before its first step backward.
fn run(name: &str, config: Config) -> Run {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("extract-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    let config = config.with(|c| c.restart.folder = Some(folder.join("restart")));
    let unplaced: Vec<AppField> =
        shapes().into_iter().map(|field| AppField { field, memory: None }).collect();
    let mut session = Session::new(config, STEPS.into(), &unplaced).unwrap();
    session.persist_open((0, 1), Box::new(Ok)).unwrap();
    let mut state: Vec<Vec<u8>> = (0..3).map(|k| exact(0, k)).collect();
    let mut image: Vec<u8> = (0..35).flat_map(|i| (i as f32 * 0.5).to_ne_bytes()).collect();
    let mut shots = 5i64.to_ne_bytes();
    let (mut live, mut restored) = (None, BTreeMap::new());
    let mut saved_later = BTreeSet::new();
    loop {
        let tick = session.get_action().unwrap();
        let ts = tick.action.ts;
        match tick.action.kind {
            Kind::Forward => state = (0..3).map(|k| exact(tick.end.into(), k)).collect(),
            Kind::Save => {
                session.save(ts.into(), &fields(&mut state), HOST).unwrap();
                if live.is_some() {
                    saved_later.insert(ts);
                }
            }
            Kind::Restore => {
                session.retrieve(ts.into(), &fields(&mut state), HOST).unwrap();
                if !saved_later.contains(&ts) {
                    restored.entry(ts).or_insert(state.clone());
                }
            }
            Kind::Backward if live.is_none() => {
                live = Some(state.clone());
                let names = ["u/now", "u/before", "more"];
                let mut arrays = vec![
                    (Name::new("image").unwrap(), app_field(IMAGE, &mut image), false),
                    (Name::new("shots").unwrap(), app_field(COUNT, &mut shots), false),
                ];
                let state = names.iter().zip(fields(&mut state));
                arrays.extend(state.map(|(name, field)| (Name::new(name).unwrap(), field, true)));
                let array = |(name, field, changes_within)| Array { name, field, changes_within };
                let arrays: Vec<Array> = arrays.into_iter().map(array).collect();
                session.persist_write(0, &arrays, HOST).unwrap();
                session.persist_wait().unwrap();
            }
            Kind::Terminate => break,
            _ => {}
        }
    }
    drop(session);
    Run { folder, image, live: live.unwrap(), restored }
}

/// Copies that the stage `compress` packed are shown with both sizes, and come back as they were.
#[test]
fn packed_copies_are_shown_and_extracted() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("extract-packed");
    let _ = fs::remove_dir_all(&root);
    fs::create_dir(&root).unwrap();
    let folders = ["near", "far"].map(|name| root.join(name));
    folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
    let [near, far] = &folders;
    let config = config(Algorithm::Revolve, |c| {
        c.restart.folder = Some(near.clone());
        c.restart.shared_folder = Some(far.clone());
        c.restart.stages = vec![Name::new("compress").unwrap()];
    });
    let state = AppField { field: COUNT, memory: None };
    let mut session = Session::new(config, STEPS.into(), &[state]).unwrap();
    session.persist_open((0, 1), Box::new(Ok)).unwrap();
    let field = Field { n: [100, 80, 1], ..COUNT };
    let mut counts: Vec<u8> = (0..8000i64).flat_map(i64::to_ne_bytes).collect();
    let name = Name::new("counts").unwrap();
    let array = Array { name, field: app_field(field, &mut counts), changes_within: false };
    session.persist_write(0, &[array], HOST).unwrap();
    session.persist_wait().unwrap();
    drop(session);

    let line = |folder: &Path| {
        lines(folder, &["--records"]).into_iter().find(|line| line.contains("counts")).unwrap()
    };
    assert_eq!(line(near), "    array counts, 62.5 KiB: right");
    let packed = line(far);
    assert!(packed.starts_with("    array counts, 62.5 KiB, packed in "), "{packed}");
    extracts(far, &root.join("out"), &[]);
    assert!(npy(&root.join("out/counts.npy")).1 == counts);
    fs::remove_dir_all(root).unwrap();
}

fn config(algorithm: Algorithm, change: impl FnOnce(&mut Config)) -> Config {
    let config = Config::default().with(|c| {
        c.schedule.algorithm = Some(algorithm);
        c.schedule.snapshots = if algorithm == Algorithm::StoreAll { 0 } else { 5 };
        c.device.backend = Backend::Host;
        c.codec.threads = Some(0);
    });
    config.with(change)
}

fn coded(method: Method) -> Config {
    config(Algorithm::Revolve, |c| c.codec.settings.method = method)
}

fn extract(from: &Path, to: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuzip"));
    command.arg("inspect").arg(from).arg("--extract").arg(to).args(options).output().unwrap()
}

/// Extracts, and returns the lines that the command prints.
fn extracts(from: &Path, to: &Path, options: &[&str]) -> Vec<String> {
    let output = extract(from, to, options);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

/// Fails with a message that names `part`, and leaves no file.
fn fails(from: &Path, to: &Path, options: &[&str], part: &str) {
    let before = to.exists();
    let output = extract(from, to, options);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains(part) && output.stdout.is_empty(), "{part}: {error}");
    assert_eq!(to.exists(), before, "{part}");
    assert!(!before || fs::read_dir(to).unwrap().next().is_none(), "{part}");
}

/// Reads a file of NumPy: what its header says, and the bytes of the values.
fn npy(file: &Path) -> (String, Vec<u8>) {
    let bytes = fs::read(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    assert_eq!(bytes[..8], *b"\x93NUMPY\x01\x00");
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let (header, values) = bytes[10..].split_at(length);
    assert_eq!((10 + length) % 64, 0);
    (text(header).trim_end().into(), values.to_vec())
}

fn header(of: &str, shape: &str) -> String {
    let order = match of.ends_with('1') {
        true => '|',
        false if cfg!(target_endian = "big") => '>',
        false => '<',
    };
    format!("{{'descr': '{order}{of}', 'fortran_order': False, 'shape': ({shape}), }}")
}

/// Types and extents of the fields.
fn headers() -> [String; 3] {
    [header("f8", "9, 12"), header("f8", "9, 12"), header("f4", "3, 2, 5")]
}

fn names(folder: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(folder).unwrap();
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

/// Extracts the generation of a run, and compares every file. Returns the number of previous levels.
fn compare(run: &Run, coded: bool) -> usize {
    let (from, to) = (run.folder.join("restart"), run.folder.join("out"));
    let lines = extracts(&from, &to, &[]);
    assert!(lines.iter().all(|line| !line.contains("bytes, since")), "{}", lines.join("\n"));
    let (mut files, mut levels) = (names(&to), 0);
    let mut is = |name: &str, header: &str, values: &[u8]| {
        let (found, bytes) = npy(&to.join(name));
        assert_eq!(found, header, "{name}");
        assert!(bytes == values, "{name}");
        assert!(files.remove(name), "{name}");
    };
    is("image.npy", &header("f4", "5, 7"), &run.image);
    is("shots.npy", &header("i8", "1,"), &5i64.to_ne_bytes());
    for (k, name) in ["u-now.npy", "u-before.npy", "more.npy"].into_iter().enumerate() {
        is(name, &headers()[k], &run.live[k]);
    }
    assert!(run.restored.len() >= 4, "{:?}", run.restored.keys());
    for (ts, state) in &run.restored {
        for (k, values) in state.iter().enumerate() {
            let name = format!("snapshot-{ts:06}-field{k}.npy");
            let level = format!("previous-level-{ts:06}.npy");
            if to.join(&name).exists() || k != 1 {
                is(&name, &headers()[k], values);
            } else if to.join(&level).exists() {
                is(&level, &headers()[k], values);
                levels += 1;
            }
            let exact = exact((*ts).into(), k);
            assert!(coded || *values == exact, "the application itself");
        }
    }
    assert!(files.is_empty(), "{files:?}");
    levels
}

#[test]
fn raw_states_come_back_with_their_shapes() {
    for algorithm in [Algorithm::Revolve, Algorithm::StoreAll] {
        let run = run(&format!("raw-{}", algorithm.name()), config(algorithm, |_| {}));
        assert_eq!(compare(&run, false), 0);
        fs::remove_dir_all(run.folder).unwrap();
    }
}

#[test]
fn every_codec_s_states_are_decoded() {
    let bits = Method::Zfp { rate: 12 };
    for method in [bits, Method::Lorenzo, Method::Dct, Method::Fp16, Method::Bfp, Method::Lossless]
    {
        let name = method.name();
        let run = run(name, coded(method));
        assert_eq!(compare(&run, true), 0, "{name}");
        fs::remove_dir_all(run.folder).unwrap();
    }
}

#[test]
fn masked_values_come_back() {
    let masked =
        |method| coded(method).with(|c| c.codec.settings.fill_value = Some(FillValue::Nan));
    for method in [Method::Lorenzo, Method::Dct, Method::Cuszp] {
        let name = method.name();
        let run = run(&format!("masked-{name}"), masked(method));
        assert_eq!(compare(&run, true), 0, "{name}");
        fs::remove_dir_all(run.folder).unwrap();
    }
}

/// A record of a level alone, and records of previous levels, which may be differences to it.
#[test]
fn shared_levels_are_records_of_their_own() {
    let mut levels = 0;
    for method in [Method::None, Method::Lorenzo, Method::Dct] {
        let name = format!("levels-{}", method.name());
        let run = run(&name, coded(method.clone()).with(|c| c.tiers.shared_levels = true));
        levels += compare(&run, method != Method::None);
        fs::remove_dir_all(run.folder).unwrap();
    }
    assert!(levels > 0);
}

/// A record of a sequence leans on the next two, also where these are not extracted.
#[test]
fn states_of_a_sequence_are_decoded() {
    for levels in [false, true] {
        let sequence = config(Algorithm::StoreAll, |c| {
            c.codec.settings.method = Method::Dct;
            c.codec.settings.sequences = true;
            c.tiers.shared_levels = levels;
        });
        let run = run(&format!("sequence-{levels}"), sequence);
        compare(&run, true);
        let (from, to) = (run.folder.join("restart"), run.folder.join("few"));
        extracts(&from, &to, &["--record", "snapshot", "--every", "4"]);
        let found = names(&to);
        assert!(found.len() >= 2 * STEPS as usize / 4, "{found:?}");
        for name in found {
            assert!(
                fs::read(to.join(&name)).unwrap()
                    == fs::read(run.folder.join("out").join(name)).unwrap()
            );
        }
        fs::remove_dir_all(run.folder).unwrap();
    }
}

#[test]
fn a_part_is_extracted_and_told() {
    let run = run("part", coded(Method::Lorenzo));
    let (from, to) = (run.folder.join("restart"), run.folder.join("part"));
    let file = from.join(FileName::Generation(1).text(0));
    let lines =
        extracts(&file, &to, &["--record", "image", "--record", "snapshot", "--every", "2"]);
    let states: Vec<&u32> = run.restored.keys().collect();
    let snapshots = lines.iter().filter(|line| line.contains("snapshot of time step")).count();
    assert_eq!(snapshots % 3, 0);
    assert!((states.len() / 2..=states.len() / 2 + 1).contains(&(snapshots / 3)), "{lines:?}");
    assert!(lines[0].starts_with("rank 0, generation 1: shot 0 after action "), "{}", lines[0]);
    assert_eq!(lines[1], "  image.npy: array image, f32 5 x 7");
    let first = &lines[2];
    assert!(first.ends_with(", field 0, f64 9 x 12, decoded by lorenzo"), "{first}");
    let none = run.folder.join("none");
    fails(&file, &none, &["--record", "picture"], "no array and no snapshot of this name");
    extracts(&file, &none, &[]);
    let line =
        format!("inspect {} --extract {}", file.display(), run.folder.join("json").display());
    let value = json(&line);
    let found = &value["extracted"][0];
    assert_eq!((&found["generation"], &found["shot"]), (&1.into(), &0.into()));
    let first = &found["files"][0];
    assert_eq!((&first["file"], &first["shape"]), (&"image.npy".into(), &vec![5, 7].into()));
    assert_eq!((&first["type"], &first["is_shape_known"]), (&"f32".into(), &true.into()));
    // A folder with files is left alone.
    let output = extract(&file, &none, &[]);
    assert!(text(&output.stderr).contains("the folder is not empty"), "{}", text(&output.stderr));
    assert_eq!(names(&none), names(&run.folder.join("json")));
    with_numpy(&run);
    fs::remove_dir_all(run.folder).unwrap();
}

/// Where Python has NumPy, it reads the same values.
fn with_numpy(run: &Run) {
    let python = |program: &str| {
        let output =
            Command::new("python3").args(["-c", program]).current_dir(&run.folder).output();
        output.is_ok_and(|output| {
            print!("{}", text(&output.stderr));
            output.status.success()
        })
    };
    if !python("import numpy") {
        return println!("skipped: python3 has no NumPy");
    }
    let (ts, state) = run.restored.iter().next().unwrap();
    for (k, values) in state.iter().enumerate() {
        fs::write(run.folder.join(format!("{k}.raw")), values).unwrap();
    }
    assert!(python(&format!(
        "import numpy as np\n\
         image = np.load('json/image.npy')\n\
         assert image.shape == (5, 7) and image.dtype == np.float32 and image[1, 2] == 4.5\n\
         for k, (shape, kind) in enumerate([((9, 12), 'f8'), ((9, 12), 'f8'), ((3, 2, 5), 'f4')]):\n\
         \x20   u = np.load(f'json/snapshot-{ts:06}-field{{k}}.npy')\n\
         \x20   assert u.shape == shape and u.dtype == kind and u.flags.c_contiguous\n\
         \x20   assert u.tobytes() == open(f'{{k}}.raw', 'rb').read()\n"
    )));
}

/// The bytes of record `k`: the same ones in a short record.
fn content(k: u64, range: Range<u64>) -> Vec<u8> {
    range.map(|i| (k + i / 1000) as u8).collect()
}

/// Publishes a generation of records of another writer than a session, with these shapes.
fn foreign(folder: &Path, names: &[(RecordKind, &str, u64)], shapes: Option<Shapes>) {
    let mut store = Store::open(folder, 0, 1, false).unwrap();
    let header = Header { fingerprint: Fingerprint::new(), shot: 3, it: 7 };
    let mut writer = store.begin(header).unwrap();
    for (k, &(kind, name, bytes)) in names.iter().enumerate() {
        let (name, ts) = (Name::new(name).unwrap(), 4);
        let head = RecordHead { kind, name, ts, codec: 0, raw_bytes: bytes, stored_bytes: bytes };
        writer.record(head).unwrap();
        writer.write(&content(k as u64, 0..bytes)).unwrap();
    }
    if let Some(bytes) = shapes.map(|shapes| shapes.to_bytes().unwrap()) {
        let (kind, name, count) =
            (RecordKind::Other, Name::new(SHAPES).unwrap(), bytes.len() as u64);
        let (ts, codec) = (0, 0);
        let head = RecordHead { kind, name, ts, codec, raw_bytes: count, stored_bytes: count };
        writer.record(head).unwrap();
        writer.write(&bytes).unwrap();
    }
    let finished = writer.finish().unwrap();
    store.publish(finished).unwrap();
}

fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("extract-{name}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir(&path).unwrap();
    path
}

#[test]
fn unknown_shapes_are_bytes() {
    let folder = scratch("foreign");
    let (from, to) = (folder.join("restart"), |name: &str| folder.join(name));
    let array = RecordKind::Array;
    let snapshot = RecordKind::Snapshot;
    let records = [
        (array, "a b/c", 24),
        (array, "a-b-c", 24),
        (array, "a-b-c-2", 24),
        (array, "..", 5),
        (snapshot, "snapshot", 512),
        (RecordKind::Other, "gpuzip position", 3),
        (snapshot, "snapshot", 512),
    ];
    foreign(&from, &records, None);
    let lines = extracts(&from, &to("bytes"), &[]);
    let end = ": bytes, because another program wrote the generation";
    assert_eq!(
        lines,
        [
            "rank 0, generation 1: shot 3 after action 7".to_owned(),
            format!("  a-b-c.npy: array a b/c, byte 24{end}"),
            format!("  a-b-c-2.npy: array a-b-c, byte 24{end}"),
            format!("  a-b-c-2-2.npy: array a-b-c-2, byte 24{end}"),
            format!("  _...npy: array .., byte 5{end}"),
            format!("  snapshot-000004.npy: snapshot of time step 4, byte 512{end}"),
            format!("  snapshot-000004-2.npy: snapshot of time step 4, byte 512{end}"),
        ]
    );
    let numbered = [(0, "a-b-c"), (1, "a-b-c-2"), (2, "a-b-c-2-2")];
    for (k, name) in numbered {
        let (found, values) = npy(&to("bytes").join(format!("{name}.npy")));
        assert_eq!((found, values), (header("u1", "24,"), vec![k; 24]));
    }
    for (options, part) in [
        (&["--record", "gpuzip position"][..], "no array and no snapshot"),
        (&["--every", "0"], "from 1"),
        (&["--records"], "cannot be used with"),
    ] {
        fails(&from, &to("no"), options, part);
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Ranks have folders of their own. Of two folders of restart files the second one has what is damaged in
/// the first one.
#[test]
fn every_rank_s_newest_right_generation_is_extracted() {
    let folder = scratch("ranks");
    let (node, shared, to) = (folder.join("node"), folder.join("shared"), folder.join("out"));
    for rank in [0, 3] {
        let mut store = opened(&node, rank, 4);
        store.share(&shared, false).unwrap();
        for shot in 1..=2 {
            publish(&mut store, shot, -1);
        }
    }
    fs::create_dir_all(&shared).unwrap();
    let (file, copy) = (generation(&node, 3, 2), generation(&shared, 3, 2));
    fs::copy(&file, &copy).unwrap();
    damage(&file, END + 1);
    let lines = extracts(&node, &to, &["--record", "image"]);
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[2], "rank 3, generation 2: start of shot 2");
    for rank in ["rank-000000", "rank-000003"] {
        let (found, values) = npy(&to.join(rank).join("image.npy"));
        assert_eq!((found, values), (header("u1", "2048,"), vec![7; 2048]));
    }
    fs::remove_dir_all(folder).unwrap();
}

/// A folder has more files than the command may have open at a time.
#[test]
fn many_ranks_are_extracted_with_few_open_files() {
    let folder = scratch("open-files");
    let (from, to) = (folder.join("restart"), folder.join("out"));
    for rank in 0..40 {
        publish(&mut opened(&from, rank, 40), 5, -1);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuzip"));
    limited(&mut command, libc::RLIMIT_NOFILE, 20);
    command.arg("inspect").arg(&from).arg("--extract").arg(&to).args(["--record", "image"]);
    assert!(command.status().unwrap().success());
    assert_eq!(names(&to).len(), 40);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_cannot_be_read_leaves_no_file() {
    let folder = scratch("damaged");
    let (from, to) = (folder.join("restart"), folder.join("out"));
    fails(&from, &to, &[], "No such file");
    publish(&mut Store::open(&from, 0, 1, false).unwrap(), 5, 12);
    let file = generation(&from, 0, 1);
    // Bytes that no codec made, under a right checksum.
    fails(&from, &to, &[], "snapshot of time step 17");
    fails(&file, &folder.join("no/out"), &["--record", "image"], "No such file");
    // The last byte of the image, which lies before the 100 bytes of the snapshot.
    damage(&file, END + 101);
    fails(&file, &to, &["--record", "image"], "is damaged: the checksum of record 0 (array image)");
    fails(&from, &to, &[], "nothing can be extracted: no generation of rank 0 can be read");
    fs::create_dir(&to).unwrap();
    fails(&file, &to, &[], "is damaged");
    fs::write(&file, "torn").unwrap();
    fails(&file, &to, &[], "is damaged: it has 4 bytes");
    fs::remove_dir_all(folder).unwrap();
}

/// Fields of more than 1 MiB each are cut out of the record as it is read, in pieces of 1 MiB.
#[test]
fn large_records_are_written_piece_by_piece() {
    let folder = scratch("large");
    let (from, to) = (folder.join("restart"), folder.join("out"));
    let field = Field { n: [300_007, 1, 1], scalar: Scalar::F32, previous_of: None };
    let layout = Layout::new(vec![field; 5]).unwrap();
    let shapes = Shapes { state: layout.fields.clone(), arrays: vec![] };
    foreign(&from, &[(RecordKind::Snapshot, "snapshot", layout.slot_bytes)], Some(shapes));
    extracts(&from, &to, &[]);
    for k in 0..5 {
        let (found, values) = npy(&to.join(format!("snapshot-000004-field{k}.npy")));
        assert_eq!(found, header("f4", "300007,"));
        let begin = layout.offsets[k];
        assert!(values == content(0, begin..begin + 4 * 300_007), "{k}");
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Files with right checksums and absurd numbers: 200, in long tests 10^4. The command extracts a file or says
/// why it cannot, in 256 MiB of memory, and leaves no part of one.
#[test]
fn hostile_files_leave_all_of_their_files_or_none() {
    let run = run("hostile", coded(Method::Lorenzo).with(|c| c.tiers.shared_levels = true));
    let (file, to) = (generation(&run.folder.join("restart"), 0, 1), run.folder.join("out"));
    let real = Hostile::of(&fs::read(&file).unwrap());
    let (mut extracted, mut random) = (0, Draw(11));
    let files = cases::cases(200, 10_000);
    for k in 0..files {
        fs::write(&file, real.clone().changed(&mut random)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuzip"));
        limited(&mut command, libc::RLIMIT_AS, 256 << 20);
        let output = command.arg("inspect").arg(&file).arg("--extract").arg(&to).output().unwrap();
        let error = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 2)), "{k}: {error}");
        assert!(!error.contains("panicked"), "{k}: {error}");
        assert_eq!(to.exists(), output.status.success(), "{k}: {error}");
        if output.status.success() {
            extracted += 1;
            fs::remove_dir_all(&to).unwrap();
        }
    }
    assert!((files / 20..files - files / 20).contains(&extracted), "{extracted} of {files}");
    fs::remove_dir_all(run.folder).unwrap();
}
