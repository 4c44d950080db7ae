//! Runs of rtm3d that are killed, stopped and started again: the image has the bits of a run that was
//! never stopped.

use crate::common;
use crate::common::cases::long;
use crate::common::draw::Draw;
use common::{library_path, root, run, stdout, tempdir};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// Stopped on request, to be continued.
const STOPPED: i32 = 3;

/// A small migration in 2-D. With `persist_overhead` = 1 it writes generations all the time.
fn rtm3d(out: &Path, folder: Option<&Path>, arguments: &[&str]) -> Command {
    let mut command = Command::new(common::rtm3d());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GPUZIP_")) {
        command.env_remove(name);
    }
    command.envs([("OMP_WAIT_POLICY", "passive"), ("OMP_NUM_THREADS", "1")]);
    command.envs([
        ("GPUZIP_CHECKPOINTING_ALGORITHM", "revolve"),
        ("GPUZIP_CHECKPOINTING_SNAPS", "6"),
        ("GPUZIP_CACHE_CAPACITY", "3"),
        ("GPUZIP_PERSIST_OVERHEAD", "1"),
        ("GPUZIP_STOP_BUDGET_S", "60"),
    ]);
    let job = "--n1 40 --n2 60 --n3 1 --border 8 --shots 3 --steps 80 --json --out";
    command.args(job.split(' ')).arg(out);
    if let Some(folder) = folder {
        command.arg("--restart").arg(folder);
    }
    // The last of two options counts.
    command.args(arguments);
    // The library that the program was linked to, and not one that cargo's variable finds first.
    command.env("LD_LIBRARY_PATH", library_path());
    command.stdin(Stdio::null());
    command
}

fn value<'a>(json: &'a str, key: &str) -> &'a str {
    let start = json.find(&format!("\"{key}\": ")).unwrap_or_else(|| panic!("no {key} in {json}"));
    json[start + key.len() + 4..].split([',', '}']).next().unwrap()
}

/// What identifies the result of a run.
fn result(json: &str) -> (String, String) {
    (value(json, "image_hash").into(), value(json, "illumination_hash").into())
}

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, number: i32) {
    // SAFETY: the child was not waited for, so that its number is its own.
    unsafe { libc::kill(child.id() as i32, number) };
}

/// Waits until a generation lies in the folder, or the process has ended.
fn until_written(child: &mut Child, folder: &Path) {
    let is_generation = |name: std::ffi::OsString| name.to_string_lossy().ends_with(".gen");
    let has_one = || {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.flatten().any(|entry| is_generation(entry.file_name()))
    };
    while child.try_wait().unwrap().is_none() && !has_one() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

struct Ended {
    status: ExitStatus,
    json: String,
    text: String,
}

fn end(child: Child) -> Ended {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { status: output.status, json: text(output.stdout), text: text(output.stderr) }
}

/// A variable of the environment: its name and its value.
type Variable = (&'static str, &'static str);

/// Arguments and environment of runs that are interrupted: raw snapshots, lossy ones, zero copy, a
/// gradient, states that are computed backward.
const WAYS: [(&[&str], &[Variable]); 5] = [
    (&[], &[]),
    (&["--gradient"], &[("GPUZIP_COMPRESSOR", "lorenzo")]),
    (&["--zero-copy"], &[]),
    (&["--every", "3", "--verify"], &[]),
    (&["--reconstruct"], &[]),
];

/// Runs one job without interruption, and then with interruptions by `interrupt`, which returns whether
/// it was one, until one run ends by itself. Returns the number of interruptions.
fn interrupted(
    name: &str,
    way: usize,
    mut interrupt: impl FnMut(&mut Child, &mut Draw, &Path) -> bool,
    seed: u64,
) -> usize {
    let (arguments, variables) = WAYS[way];
    let dir = tempdir(&format!("{name}-{way}-{seed}"));
    let job = |folder: Option<&Path>| {
        let mut command = rtm3d(&dir.join("out"), folder, arguments);
        command.envs(variables.iter().copied());
        command
    };
    let expected = result(&stdout(&run(&mut job(None))));
    let folder = dir.join("files");
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut interruptions = 0;
    loop {
        let mut child = start(&mut job(Some(&folder)));
        let interrupts = interruptions < 4 && interrupt(&mut child, &mut draw, &folder);
        let Ended { status, json, text } = end(child);
        if status.success() {
            assert_eq!(
                result(&json),
                expected,
                "{arguments:?}, seed {seed}, {interruptions}: {text}"
            );
            let _ = std::fs::remove_dir_all(&dir);
            return interruptions;
        }
        assert!(interrupts, "{arguments:?}, seed {seed}: {status}: {text}");
        if let Some(code) = status.code() {
            assert_eq!(code, STOPPED, "{text}");
            assert!(text.contains("continue with --restart"), "{text}");
        }
        interruptions += 1;
    }
}

#[test]
fn a_killed_run_goes_on_with_the_same_bits() {
    let least = if long() { 200 } else { 12 };
    let (mut kills, mut seed) = (0, 1);
    while kills < least {
        kills += interrupted(
            "restart-kill",
            seed as usize % WAYS.len(),
            |child, draw, _| {
                std::thread::sleep(Duration::from_millis(5 + draw.below(400) as u64));
                signal(child, libc::SIGKILL);
                true
            },
            seed,
        );
        seed += 1;
    }
}

#[test]
fn a_signal_stops_the_run_in_time() {
    for (way, number) in [(0, libc::SIGTERM), (1, libc::SIGUSR1), (2, libc::SIGTERM)] {
        interrupted(
            "restart-stop",
            way,
            |child, draw, folder| {
                until_written(child, folder);
                std::thread::sleep(Duration::from_millis(draw.below(150) as u64));
                signal(child, number);
                // A second signal changes nothing.
                signal(child, number);
                true
            },
            7,
        );
    }
}

#[test]
fn a_storm_of_signals_stops_the_run_once() {
    interrupted(
        "restart-storm",
        1,
        |child, draw, folder| {
            until_written(child, folder);
            std::thread::sleep(Duration::from_millis(draw.below(150) as u64));
            for k in 0..300 {
                signal(child, [libc::SIGTERM, libc::SIGUSR1][k % 2]);
                std::thread::sleep(Duration::from_micros(50));
            }
            true
        },
        3,
    );
}

/// With no time left, the start of the shot is written, and the run goes on from there.
#[test]
fn without_time_the_run_goes_on_from_the_begin_of_its_shot() {
    let dir = tempdir("restart-no-time");
    let expected = result(&stdout(&run(&mut rtm3d(&dir.join("out"), None, &[]))));
    let folder = dir.join("files");
    let job = || {
        let mut command = rtm3d(&dir.join("out"), Some(&folder), &[]);
        // Generations are due at the start of the run only, and a stop has no time.
        command.envs([("GPUZIP_STOP_BUDGET_S", "1e-6"), ("GPUZIP_PERSIST_OVERHEAD", "1e-9")]);
        command
    };
    let mut child = start(&mut job());
    until_written(&mut child, &folder);
    signal(&child, libc::SIGTERM);
    let first = end(child);
    if first.status.code() == Some(STOPPED) {
        let second = end(start(&mut job()));
        assert!(second.status.success(), "{}", second.text);
        assert!(second.text.contains("goes on with shot"), "{}", second.text);
        assert_eq!(result(&second.json), expected);
    } else {
        assert_eq!(result(&first.json), expected);
    }
}

#[test]
fn files_of_another_job_are_refused_with_the_reason() {
    let dir = tempdir("restart-other");
    let folder = dir.join("files");
    let velocities = |of: &dyn Fn(usize) -> f32| -> Vec<u8> {
        (0..40 * 60).flat_map(|i| of(i).to_le_bytes()).collect()
    };
    for (name, bytes) in [
        ("another.f32", velocities(&|i| 1500.0 + i as f32)),
        ("other.f32", velocities(&|_| 2000.0)),
    ] {
        std::fs::write(dir.join(name), bytes).unwrap();
    }
    let times = ["--dt", "0.001", "--freq", "4"];
    let expected = {
        let mut command = rtm3d(&dir.join("out"), None, &times);
        result(&stdout(&run(command.current_dir(&dir))))
    };
    let mut child = start(rtm3d(&dir.join("out"), Some(&folder), &times).current_dir(&dir));
    until_written(&mut child, &folder);
    signal(&child, libc::SIGKILL);
    end(child);
    for (arguments, variables, reason) in [
        (&["--n1", "44"][..], &[][..], "fields"),
        (&["--steps", "81"], &[], "steps = 80"),
        (&["--shots", "5"], &[], "had --shots 3, this run has --shots 5"),
        (&["--dx", "24"], &[], "had --dx 25, this run has --dx 24"),
        (&["--freq", "3"], &[], "this run has --freq 3"),
        (&["--dt", "0.0001"], &[], "this run has --dt 0.0001"),
        (&["--init", "other.f32"], &[], "--init, --smooth"),
        (&["--smooth", "5"], &[], "--init, --smooth"),
        (&["--model", "another.f32"], &[], "--model"),
        (&["--n1", "60", "--n2", "40"], &[], "fields"),
        (&["--n3", "2"], &[], "fields"),
        (&["--extrude", "2"], &[], "fields"),
        (&["--border", "9"], &[], "fields"),
        // The same fields, of which the model takes less.
        (&["--n1", "38", "--n2", "58", "--border", "9"], &[], "array image"),
        (&["--every", "2"], &[], "adjoint_every"),
        (&["--gradient"], &[], "gradient"),
        (&["--verify"], &[], "expected image"),
        (&["--zero-copy"], &[], "range_actions"),
        (&["--reconstruct"], &[], "fields"),
        (&[], &[("GPUZIP_COMPRESSOR", "dct")], "compressor"),
    ] {
        let mut command = rtm3d(&dir.join("out"), Some(&folder), &[&times, arguments].concat());
        command.current_dir(&dir).envs(variables.iter().copied());
        let ended = end(start(&mut command));
        assert_eq!(ended.status.code(), Some(1), "{arguments:?} {variables:?}: {}", ended.text);
        assert!(ended.text.contains(reason), "{reason}: {}", ended.text);
    }
    // These options do not change the image.
    let other = dir.join("elsewhere");
    for (arguments, variables) in [
        (&["--out", other.to_str().unwrap()][..], &[][..]),
        (&[], &[("GPUZIP_CHECKPOINTING_SNAPS", "4"), ("OMP_NUM_THREADS", "2")]),
    ] {
        let mut command = rtm3d(&dir.join("out"), Some(&folder), &[&times, arguments].concat());
        command.current_dir(&dir).envs(variables.iter().copied());
        let ended = end(start(&mut command));
        assert!(ended.status.success(), "{arguments:?} {variables:?}: {}", ended.text);
        assert!(ended.text.contains("goes on"), "{arguments:?} {variables:?}: {}", ended.text);
        assert_eq!(result(&ended.json), expected, "{arguments:?} {variables:?}");
    }
}

/// The library that makes calls on files fail (tests/c/faults.c).
fn faults() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let library = tempdir("restart-faults").join("faults.so");
        run(Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(root().join("tests/c/faults.c"))
            .arg("-ldl"));
        library
    })
}

/// Files that cannot be written do not end a run, and do not change its image; a run that is killed at
/// the k-th write, fsync or rename goes on.
#[test]
fn a_run_outlives_its_disk() {
    let dir = tempdir("restart-disk");
    let expected = result(&stdout(&run(&mut rtm3d(&dir.join("out"), None, &[]))));
    let run_with = |folder: &Path, spec: Option<&str>| {
        let mut command = rtm3d(&dir.join("out"), Some(folder), &[]);
        std::fs::create_dir_all(folder).unwrap();
        if let Some(spec) = spec {
            command.env("LD_PRELOAD", faults()).env("GPUZIP_FAULTS", spec);
            command.env("GPUZIP_FAULTS_DIR", folder);
        }
        end(start(&mut command))
    };
    for spec in ["fsync:*:ENOSPC", "write:*:ENOSPC", "write:2:EIO", "rename:*:EIO"] {
        let folder = dir.join(format!("full-{}", spec.replace([':', '*'], "-")));
        let ended = run_with(&folder, Some(spec));
        assert!(ended.status.success(), "{spec}: {}", ended.text);
        assert!(ended.text.contains("goes on without a new generation"), "{spec}: {}", ended.text);
        assert_eq!(result(&ended.json), expected, "{spec}");
    }
    for call in ["write", "fsync", "rename"] {
        for k in [2, 5] {
            let folder = dir.join(format!("kill-{call}-{k}"));
            let ended = run_with(&folder, Some(&format!("{call}:{k}:kill")));
            assert!(ended.status.code().is_none_or(|code| code == 0), "{call} {k}: {}", ended.text);
            let last = run_with(&folder, None);
            assert!(last.status.success(), "{call} {k}: {}", last.text);
            assert_eq!(result(&last.json), expected, "{call} {k}");
        }
    }
}
