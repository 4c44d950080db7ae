//! Workers of `rtm3d --claim`: any number of processes compute the shots of a survey, are killed,
//! frozen and run out of space, and the image has the bits of a plain run.

#[path = "claim/faults.rs"]
mod faults;
#[path = "claim/refused.rs"]
mod refused;

use crate::common;
use crate::common::cases::long;
use crate::common::draw::Draw;
use common::{faults_library, have, library_path, root, run, stdout, tempdir};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A survey: options of rtm3d, keys of gpuzip, and a folder for everything that belongs to it.
struct Survey {
    home: PathBuf,
    args: Vec<String>,
    config: Vec<(&'static str, &'static str)>,
}

/// Shots of some milliseconds.
const QUICK: &str = "--n1 12 --n2 20 --n3 1 --border 6 --steps 60";
/// Shots of some tenths of a second.
const SLOW: &str = "--n1 60 --n2 100 --n3 1 --border 16 --steps 700";

impl Survey {
    fn new(name: &str, args: &str, shots: usize) -> Survey {
        let mut args: Vec<String> = args.split(' ').map(String::from).collect();
        args.extend(["--shots".into(), shots.to_string()]);
        Survey { home: tempdir(&format!("claim-{name}")), args, config: vec![] }
    }

    /// A command around rtm3d: `prefix` is a program with arguments that runs another one, or
    /// empty.
    fn command(&self, prefix: &[&str], more: &[&str]) -> Command {
        let words = [prefix, &[common::rtm3d().to_str().unwrap()]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GPUZIP_")) {
            command.env_remove(name);
        }
        command.env("OMP_WAIT_POLICY", "passive").env("OMP_NUM_THREADS", "1");
        command.env("LD_LIBRARY_PATH", library_path());
        command.envs(self.config.iter().map(|(key, value)| (format!("GPUZIP_{key}"), value)));
        command.args(&self.args).args(more).current_dir(&self.home);
        command
    }

    fn worker(&self, more: &[&str]) -> Command {
        self.worker_within(&[], more)
    }

    fn worker_within(&self, prefix: &[&str], more: &[&str]) -> Command {
        self.command(prefix, &[&["--claim", "survey", "--json", "--out", "images"], more].concat())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.join("survey").join(name)
    }

    /// Names in the survey's folder that contain `part`.
    fn names(&self, part: &str) -> Vec<String> {
        let entries = fs::read_dir(self.home.join("survey")).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains(part))
            .collect();
        names.sort();
        names
    }

    /// Lines of the workers' files whose second word is `what`.
    fn lines(&self, what: &str) -> Vec<String> {
        let files = self.names("worker-").into_iter().filter(|name| name.starts_with("worker-"));
        let texts = files.map(|name| fs::read_to_string(self.file(&name)).unwrap());
        let lines: Vec<String> =
            texts.flat_map(|text| text.lines().map(String::from).collect::<Vec<_>>()).collect();
        lines.into_iter().filter(|line| line.split(' ').nth(1) == Some(what)).collect()
    }

    /// How often a worker began a shot.
    fn begun(&self) -> usize {
        self.lines("begins").iter().filter(|line| !line.contains("the sum")).count()
    }

    /// Files of the image, and the hashes, of a run without workers.
    fn plain(&self) -> (Vec<Vec<u8>>, String) {
        let json = stdout(&run(&mut self.command(&[], &["--json", "--out", "plain"])));
        (self.images("plain"), hashes(&json))
    }

    fn images(&self, folder: &str) -> Vec<Vec<u8>> {
        let mut names = vec!["image.f32", "image_filtered.f32"];
        if self.args.contains(&"--gradient".into()) {
            names.push("gradient.f32");
        }
        names.iter().map(|name| fs::read(self.home.join(folder).join(name)).unwrap()).collect()
    }

    /// Demands that the workers' image has the bits of a plain run, and that the folder holds
    /// nothing but the job, the workers' files, the shots and the sum.
    fn check(&self, shots: usize, plain: &(Vec<Vec<u8>>, String)) {
        assert!(self.images("images") == plain.0, "the image has other bits than a plain run");
        assert_eq!(self.names(".image").len(), shots + 1);
        assert_eq!(self.names(".part"), [""; 0]);
        assert_eq!(self.names(".claim"), [""; 0]);
    }
}

/// The value of a key in a JSON object, as text.
fn value<'a>(json: &'a str, key: &str) -> &'a str {
    let start = json.find(&format!("\"{key}\": ")).unwrap_or_else(|| panic!("no {key} in {json}"))
        + key.len()
        + 4;
    json[start..].split([',', '}']).next().unwrap().trim_matches('"')
}

/// What a run says of its image.
fn hashes(json: &str) -> String {
    let mut keys = vec!["image_hash", "illumination_hash"];
    if json.contains("gradient_hash") {
        keys.extend(["gradient_hash", "misfit"]);
    }
    keys.iter().map(|key| value(json, key)).collect::<Vec<_>>().join(" ")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn quiet(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: kill takes two numbers; the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

/// Waits until `is_so`; fails after two minutes.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Some snapshots of a shot are raw and some compressed.
fn mixed() -> Vec<(&'static str, &'static str)> {
    vec![
        ("CHECKPOINTING_ALGORITHM", "revolve"),
        ("CHECKPOINTING_SNAPS", "12"),
        ("DEVICE_BUDGET", "40K"),
        ("COMPRESSOR", "dct"),
        ("COMPRESSION_FACTOR", "2"),
        ("ERROR_BOUND", "1e-3"),
        ("MIXED_STORAGE", "always"),
    ]
}

/// Workers that start at the same instant compute every shot once.
#[test]
fn any_number_of_workers_gives_the_image_of_a_plain_run() {
    let codec = vec![
        ("CHECKPOINTING_ALGORITHM", "revolve"),
        ("CHECKPOINTING_SNAPS", "5"),
        ("CACHE_CAPACITY", "2"),
        ("COMPRESSOR", "dct"),
        ("ERROR_BOUND", "1e-3"),
    ];
    let gradient = format!("{QUICK} --gradient");
    for (kind, args, config) in [
        ("raw", QUICK, vec![]),
        ("gradient", &gradient, vec![]),
        ("lossy", QUICK, codec),
        ("mixed", QUICK, mixed()),
    ] {
        for workers in [1, 2, 4] {
            let shots = 24;
            let mut survey = Survey::new(&format!("{kind}-{workers}"), args, shots);
            survey.config = config.clone();
            let plain = survey.plain();
            let started: Vec<Child> =
                (0..workers).map(|_| quiet(&mut survey.worker(&[]))).collect();
            let (mut computed, mut writers) = (0, 0);
            for child in started {
                let output = child.wait_with_output().unwrap();
                let json = stdout(&output);
                assert!(output.status.success(), "{json}{}", told(&output));
                assert_eq!(hashes(&json), plain.1, "every worker tells the image");
                computed += value(&json, "computed").parse::<usize>().unwrap();
                writers += usize::from(json.contains("\"image\""));
            }
            assert_eq!((computed, survey.begun(), writers), (shots, shots, 1));
            survey.check(shots, &plain);

            // A worker that comes afterwards finds nothing to do; --sum writes the image again.
            let late = stdout(&run(&mut survey.worker(&[])));
            assert_eq!((value(&late, "computed"), value(&late, "done")), ("0", "true"));
            assert_eq!(hashes(&late), plain.1);
            fs::remove_dir_all(survey.home.join("images")).unwrap();
            let before = survey.names("");
            assert_eq!(hashes(&stdout(&run(&mut survey.worker(&["--sum"])))), plain.1);
            assert_eq!(survey.names(""), before, "--sum writes nothing to the folder");
            survey.check(shots, &plain);
        }
    }
}

/// One worker in five shots is killed at a random moment. The image stays, and hardly a shot is
/// computed twice beyond those that a killed worker had.
#[test]
fn killed_workers_change_no_bit_and_repeat_no_work() {
    let (shots, args) = if long() { (200, SLOW) } else { (24, SLOW) };
    let survey = Survey::new("killed", args, shots);
    let plain = survey.plain();
    let mut draw = Draw(7);
    let mut workers: Vec<Child> = (0..4).map(|_| quiet(&mut survey.worker(&[]))).collect();
    let (mut kills, mut lost) = (0, 0);
    until("workers have made their files", || {
        survey.home.join("survey").exists() && survey.names("worker-").len() >= 4
    });
    while kills < shots / 5 {
        // A kill after every fifth commit on average, at any moment of a shot.
        let next = (kills * 5 + draw.below(5)).min(shots - 2);
        until("shots are committed", || survey.names(".image").len() >= next);
        std::thread::sleep(Duration::from_millis(draw.below(150) as u64));
        let victim = draw.below(4);
        let id = workers[victim].id();
        if workers[victim].try_wait().unwrap().is_some() {
            break; // the survey was done before the last kill
        }
        signal(&workers[victim], libc::SIGKILL);
        let _ = workers[victim].wait();
        kills += 1;
        // Whether the worker had a shot: its last line says that it began one.
        for name in survey.names(&format!("-{id}-")) {
            let text = fs::read_to_string(survey.file(&name)).unwrap_or_default();
            let last = text.lines().last().unwrap_or_default();
            lost += usize::from(name.starts_with("worker-") && last.contains(" begins shot"));
        }
        workers[victim] = quiet(&mut survey.worker(&[]));
    }
    for worker in workers {
        let output = worker.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        assert_eq!(hashes(&stdout(&output)), plain.1);
    }
    let begun = survey.begun();
    println!(
        "{shots} shots, {kills} workers killed, {lost} of them with a shot; {begun} shots begun: \
         {} more than that",
        begun as i64 - (shots + lost) as i64
    );
    assert!(kills + 1 >= shots / 5 && lost > 0, "{kills} kills, {lost} with a shot");
    assert!(begun <= shots + lost + shots * 3 / 100, "{begun} begun, {lost} lost");
    survey.check(shots, &plain);
}

/// With --only, workers compute their shots and no other one, and do not add up.
#[test]
fn a_worker_may_be_given_its_shot() {
    let survey = Survey::new("only", QUICK, 3);
    let plain = survey.plain();
    for (shot, computed, images) in [("3", "1", 1), ("1", "1", 2), ("3", "0", 2), ("2", "1", 3)] {
        let json = stdout(&run(&mut survey.worker(&["--only", shot])));
        assert_eq!((value(&json, "computed"), value(&json, "done")), (computed, "false"), "{json}");
        assert!(survey.file(&format!("shot-{:0>6}.image", shot)).exists());
        assert_eq!(survey.names(".image").len(), images, "{json}");
    }
    let told = stdout(&run(&mut survey.command(&[], &["--claim", "survey", "--only", "2"])));
    assert!(told.contains("\nshot 2            committed\n"), "{told}");
    let json = stdout(&run(&mut survey.worker(&[])));
    assert_eq!((value(&json, "computed"), hashes(&json)), ("0", plain.1.clone()));
    survey.check(3, &plain);
}

/// A worker with --only waits for a worker that has the shot and takes the shot over when that one dies.
#[test]
fn a_given_shot_is_taken_over_from_a_dead_worker() {
    let survey = Survey::new("only-dead", SLOW, 2);
    let plain = survey.plain();
    let first = quiet(&mut survey.worker(&["--only", "2"]));
    until("a shot is begun", || survey.home.join("survey").exists() && survey.begun() > 0);
    signal(&first, libc::SIGSTOP);
    let json = stdout(&run(&mut survey.worker(&["--only", "2", "--no-wait"])));
    assert_eq!((value(&json, "computed"), value(&json, "held")), ("0", "1"), "{json}");
    let second = quiet(&mut survey.worker(&["--only", "2"]));
    until("the second worker is there", || survey.names("worker-").len() >= 3);
    signal(&first, libc::SIGKILL);
    let output = second.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!((value(&stdout(&output), "computed"), survey.begun()), ("1", 2));
    run(&mut survey.worker(&[]));
    survey.check(2, &plain);
    first.wait_with_output().unwrap();
}

/// A worker that is frozen loses its shot after its lease, although it holds its lock, and does no
/// harm when it goes on.
#[test]
fn a_frozen_worker_loses_its_shot_and_does_no_harm_later() {
    let shots = 4;
    let survey = Survey::new("frozen", SLOW, shots);
    let plain = survey.plain();
    let frozen = quiet(&mut survey.worker(&["--lease", "1"]));
    until("a shot is begun", || survey.home.join("survey").exists() && survey.begun() > 0);
    signal(&frozen, libc::SIGSTOP);
    let held = survey.names(".claim");
    assert_eq!(held, ["shot-000001.claim-0"], "{held:?}");

    // Others compute what is left, and do not wait.
    let other = survey.worker(&["--no-wait", "--lease", "100"]).output().unwrap();
    if survey.names("sum.image").is_empty() {
        let json = stdout(&other);
        assert!(other.status.success(), "{}", told(&other));
        assert_eq!((value(&json, "computed"), value(&json, "held")), ("3", "1"));
        assert_eq!(value(&json, "done"), "false");
        assert!(!json.contains("image_hash"), "{json}");
    }
    // The lease is that of the frozen worker.
    let taker = survey.worker(&["--lease", "100"]).output().unwrap();
    assert!(taker.status.success(), "{}", told(&taker));
    assert_eq!(hashes(&stdout(&taker)), plain.1);
    let all = told(&other) + &told(&taker);
    assert!(
        all.contains("shot 1 of 4: taken over from worker-") && all.contains("silent"),
        "{all}"
    );
    survey.check(shots, &plain);

    signal(&frozen, libc::SIGCONT);
    let awake = frozen.wait_with_output().unwrap();
    assert!(awake.status.success(), "{}", told(&awake));
    assert_eq!(hashes(&stdout(&awake)), plain.1);
    survey.check(shots, &plain);
    assert_eq!(survey.begun(), shots + 1);
}

/// For every n, a worker is stopped at its n-th call on files of the survey and taken for dead, another
/// worker does all that is left, and then the first one goes on, in the middle of a commit, too. One
/// result of each shot counts, with the bits of a survey that nobody disturbed.
#[test]
fn a_worker_that_comes_too_late_changes_nothing() {
    let Some(faults) = faults_library() else { return };
    let shots = 2;
    let survey = Survey::new("late", QUICK, shots);
    let plain = survey.plain();
    let folder = survey.home.join("survey");
    // The library of faults knows files below a folder by their absolute names.
    let worker = |faults_of: &str| {
        let _ = fs::remove_dir_all(&folder);
        let _ = fs::remove_dir_all(survey.home.join("images"));
        fs::create_dir(&folder).unwrap();
        let _ = fs::remove_file(survey.home.join("log"));
        let dir = folder.to_str().unwrap();
        let mut command =
            survey.command(&[], &["--claim", dir, "--json", "--out", "images", "--lease", "100"]);
        command
            .env("LD_PRELOAD", faults)
            .env("GPUZIP_FAULTS_DIR", &folder)
            .env("GPUZIP_FAULTS", faults_of)
            .env("GPUZIP_FAULTS_LOG", survey.home.join("log"));
        command
    };
    let commits = || {
        let names = (1..=shots).map(|k| format!("shot-{k:06}.image"));
        names.map(|name| fs::read(survey.file(&name)).unwrap()).collect::<Vec<_>>()
    };
    assert!(worker("any:*:none").output().unwrap().status.success());
    let (expected, log) = (commits(), fs::read_to_string(survey.home.join("log")).unwrap());
    let calls: Vec<&str> = log.lines().collect();
    let mut taken = 0;
    for n in (1..=calls.len()).step_by(if long() { 1 } else { 2 }) {
        let late = quiet(&mut worker(&format!("any:{n}:stop")));
        // SAFETY: `info` has room for the answer; the process is a child, which this leaves a child.
        let stopped = unsafe {
            let mut info = std::mem::zeroed::<libc::siginfo_t>();
            let options = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT;
            assert_eq!(libc::waitid(libc::P_PID, late.id(), &mut info, options), 0);
            info.si_code == libc::CLD_STOPPED
        };
        assert!(stopped, "call {n} of {}", calls.len());
        // The lease of the stopped worker is over.
        let past = std::time::SystemTime::now() - Duration::from_secs(3600);
        for name in survey.names("worker-") {
            fs::File::open(survey.file(&name)).unwrap().set_modified(past).unwrap();
        }
        let other = survey.worker(&[]).output().unwrap();
        assert!(other.status.success(), "call {n}: {}", told(&other));
        assert_eq!(hashes(&stdout(&other)), plain.1, "call {n}");
        taken += usize::from(told(&other).contains("taken over from worker-"));
        assert!(commits() == expected, "call {n}");

        signal(&late, libc::SIGCONT);
        let late = late.wait_with_output().unwrap();
        assert!(late.status.success(), "call {n}, {}: {}", calls[n - 1], told(&late));
        assert_eq!(hashes(&stdout(&late)), plain.1, "call {n}");
        assert!(commits() == expected, "call {n}");
        survey.check(shots, &plain);
    }
    println!("stopped at {} calls, taken over after {taken}", calls.len());
    assert!(taken > 10, "{taken}");
}

/// Workers of other nodes are judged by the lease alone: a free lock proves nothing there.
#[test]
fn a_worker_of_another_node_is_dead_when_its_lease_is_over() {
    let survey = Survey::new("nodes", QUICK, 2);
    let plain = survey.plain();
    let first = survey.worker(&["--no-wait"]).output().unwrap();
    assert!(first.status.success(), "{}", told(&first));
    let claim = survey.file("shot-000002.claim-0");
    let abroad = "worker-abroad-1-0 lease 3 locked 1 node other-kernel\n";
    for name in ["shot-000002.image", "sum.image"] {
        fs::remove_file(survey.file(name)).unwrap();
    }
    fs::write(&claim, abroad).unwrap();
    let started = Instant::now();
    let early = survey.worker(&["--no-wait"]).output().unwrap();
    if started.elapsed() < Duration::from_secs(2) {
        assert_eq!(value(&stdout(&early), "held"), "1", "{}", told(&early));
    }
    let late = survey.worker(&[]).output().unwrap();
    assert!(late.status.success(), "{}", told(&late));
    assert!(told(&late).contains("from worker-abroad-1-0, silent for"), "{}", told(&late));
    assert!(started.elapsed() >= Duration::from_secs(2));
    survey.check(2, &plain);

    // The same file of this kernel: the worker has ended.
    for name in ["shot-000002.image", "sum.image"] {
        fs::remove_file(survey.file(name)).unwrap();
    }
    let kernel = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let here = abroad.replace("lease 3", "lease 1000").replace("other-kernel", kernel.trim());
    fs::write(&claim, here).unwrap();
    let taker = survey.worker(&["--no-wait"]).output().unwrap();
    assert!(told(&taker).contains("from worker-abroad-1-0, which has ended"), "{}", told(&taker));
    survey.check(2, &plain);
}

/// The job script of docs/surveys.md, with a stand-in for Slurm's `srun`: its tasks make the image.
#[test]
fn the_slurm_script_runs_a_survey() {
    let survey = Survey::new("slurm", "--every 1", 2);
    let text = "#!/bin/sh\nshift\nexec \"$@\" --n1 12 --n2 20 --n3 1 --border 6 --steps 60\n";
    fs::write(survey.home.join("srun"), text).unwrap();
    run(Command::new("chmod").arg("+x").arg(survey.home.join("srun")));
    let path = format!("{}:{}", survey.home.display(), std::env::var("PATH").unwrap());
    for computed in ["2 of them", "0 of them"] {
        let output = run(Command::new("bash")
            .arg(root().join("c-examples/rtm3d/survey.slurm"))
            .env("PATH", &path)
            .env("SLURM_SUBMIT_DIR", &survey.home)
            .env("SLURM_CPUS_PER_TASK", "1")
            .env("OMP_WAIT_POLICY", "passive")
            .env("RTM3D", common::rtm3d())
            .env("SHOTS", "2"));
        assert!(stdout(&output).contains(computed), "{}", stdout(&output));
    }
    assert!(survey.home.join("survey-image/image.f32").exists());
    assert_eq!(survey.names(".image").len(), 3);
}
