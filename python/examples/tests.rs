//! `python/examples/survey.py`: shots as tasks of Dask, whose workers are killed at random moments.
//! The image has the bytes of one run of rtm3d.

use crate::common::cases::long;
use crate::common::{self, venv};
use common::{rtm3d, run, stdout, tempdir};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The Python of an environment with Dask, made once in each process.
fn python() -> Option<&'static Path> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let packages = ["distributed", "dask-jobqueue"];
    match PYTHON.get_or_init(|| venv::make(&tempdir("dask-python"), &packages)) {
        Ok(python) => Some(python),
        Err(reason) => {
            println!("skipped: {reason}");
            None
        }
    }
}

/// Shots of 0.2 s: of a slice of the Overthrust model if its file is there, or else of the salt
/// dome that is built in.
fn options() -> Vec<String> {
    let sizes = match common::data() {
        Some(data) => format!(
            "--model {} --n1 81 --n2 201 --dx 25 --dt 0.002 --freq 8",
            data.join("overthrust2d_201x81_25m_vp.f32").display()
        ),
        None => "--n1 60 --n2 100 --n3 1 --border 16 --steps 700".into(),
    };
    sizes.split(' ').map(String::from).collect()
}

/// The words of the command that docs/surveys.md shows for survey.py with this option, from the
/// script's name on, up to and without the `--` before the options of rtm3d.
fn documented(option: &str) -> Vec<String> {
    let page = fs::read_to_string(common::root().join("docs/surveys.md")).unwrap();
    let page = page.replace("\\\n", " ");
    let command = page
        .lines()
        .find(|line| line.starts_with("python ") && line.contains(option))
        .unwrap_or_else(|| panic!("docs/surveys.md has no command with {option}"));
    let words = command.split_whitespace().skip(1).take_while(|word| *word != "--");
    words.map(String::from).collect()
}

/// Runs the documented command in `dir` for a number of shots. Returns what it tells as JSON.
fn survey(python: &Path, dir: &Path, option: &str, shots: usize, more: &[&str]) -> Value {
    let words = documented(option);
    let mut script = venv::command(python);
    script
        .arg(common::root().join(&words[0]))
        .args(&words[1..])
        .args(["--shots", &shots.to_string(), "--rtm3d", rtm3d().to_str().unwrap()])
        .args(more)
        .arg("--")
        .args(options())
        .current_dir(dir)
        .env("PATH", format!("{}:{}", dir.display(), std::env::var("PATH").unwrap()))
        .env("DASK_JOBQUEUE__SLURM__MEMORY", "1GB")
        .env("OMP_WAIT_POLICY", "passive");
    let told = stdout(&run(&mut script));
    serde_json::from_str(told.lines().last().unwrap()).unwrap()
}

/// Demands that the image of the survey has the bytes of a run of rtm3d without workers.
fn check(dir: &Path, told: &Value, shots: usize) {
    let mut plain = Command::new(rtm3d());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GPUZIP_")) {
        plain.env_remove(name);
    }
    plain.args(options()).args(["--shots", &shots.to_string(), "--json", "--out", "plain"]);
    plain.env("OMP_WAIT_POLICY", "passive").env("OMP_NUM_THREADS", "1");
    let plain = stdout(&run(plain.current_dir(dir)));
    let plain: Value = serde_json::from_str(&plain).unwrap();
    for hash in ["image_hash", "illumination_hash"] {
        assert_eq!(told[hash], plain[hash], "{told}");
    }
    for name in ["image.f32", "image_filtered.f32", "image_filtered.png"] {
        let [ours, plain] =
            ["image", "plain"].map(|out| fs::read(dir.join(out).join(name)).unwrap());
        assert!(ours == plain, "{name} has other bytes than that of a run without workers");
    }
    // The tasks have computed every shot: nothing was left to the worker that added them up.
    assert_eq!((&told["shots"], &told["computed"]), (&shots.into(), &0.into()), "{told}");
}

/// How often workers began a shot, and how often they committed one.
fn begun_and_committed(folder: &Path) -> (usize, usize) {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.filter(|path| path.to_string_lossy().contains("/worker-"));
    let all: String = texts.map(|path| fs::read_to_string(path).unwrap()).collect();
    (all.matches(" begins shot ").count(), all.matches(" commits shot ").count())
}

/// In `make test-long`, 240 shots on 4 workers that are killed 24 times.
#[test]
fn killed_workers_of_dask_change_no_bit() {
    let Some(python) = python() else { return };
    let long = long();
    let (shots, kills, workers) = if long { (240, 24, "4") } else { (16, 2, "2") };
    let dir = tempdir("dask");
    let more = ["--kill", &kills.to_string(), "--workers", workers];
    let told = survey(python, &dir, "--workers", shots, &more);
    let (begun, committed) = begun_and_committed(&dir.join("survey"));
    println!("{shots} shots, {}; {begun} begun, {committed} committed", told);
    assert_eq!(told["killed"], kills, "{told}");
    // A worker of Dask may die before its program begins the shot, or after the shot is committed.
    assert!(begun > shots || kills < 10, "{begun} shots begun");
    assert!(begun <= shots + kills, "shots were repeated without a death: {begun} begun");
    check(&dir, &told, shots);
}

/// A stand-in for Slurm starts the job scripts of dask-jobqueue on this machine.
#[test]
fn jobs_of_dask_jobqueue_make_the_image() {
    let Some(python) = python() else { return };
    let dir = tempdir("dask-slurm");
    let scripts = [
        (
            "sbatch",
            "cp \"$1\" job.$$; setsid sh job.$$ >job.$$.out 2>&1 & echo \"Submitted batch job $!\"",
        ),
        ("scancel", "kill -- \"-$1\""),
    ];
    for (name, script) in scripts {
        fs::write(dir.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let told = survey(python, &dir, "--slurm", 4, &["--workers", "2", "--threads", "1"]);
    let jobs = fs::read_dir(&dir).unwrap().filter(|entry| {
        let path = entry.as_ref().unwrap().path();
        fs::read_to_string(path).is_ok_and(|text| text.contains("#SBATCH --cpus-per-task=1\n"))
    });
    assert_eq!(jobs.count(), 2, "{told}");
    check(&dir, &told, 4);
}

/// Wrong calls end with a text that names the value, and not with a wait for ever.
#[test]
fn wrong_calls_of_the_survey_say_what_to_do() {
    let Some(python) = python() else { return };
    let dir = tempdir("dask-wrong");
    let program = rtm3d().to_str().unwrap();
    fs::write(dir.join("file"), "").unwrap();
    let missing = "no such program; `make -C c-examples/rtm3d` builds build/rtm3d";
    for (more, code, text) in [
        ("--rtm3d nowhere", 2, format!("--rtm3d nowhere: {missing}")),
        ("--shots 0", 2, "--shots 0: at least 1".into()),
        ("--workers 0", 2, "--workers 0: at least 1".into()),
        ("--threads -1", 2, "--threads -1: at least 1".into()),
        ("--kill -1", 2, "--kill -1: local workers only".into()),
        ("--shots 2 --kill 2", 2, "--kill 2: local workers only, and at most one for two".into()),
        ("--shots 1 -- --salt 3", 1, "\nrtm3d: --salt: no such option; see --help\n".into()),
        ("--shots 1 --folder file", 1, "--claim file: the folder cannot be opened".into()),
    ] {
        let mut script = venv::command(python);
        script.arg(common::root().join("python/examples/survey.py")).current_dir(&dir);
        let output = script.args(["--rtm3d", program]).args(more.split(' ')).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{more}: {told}");
        assert!(told.contains(&text) && !told.contains("most recent call"), "{more}: {told}");
    }
}
