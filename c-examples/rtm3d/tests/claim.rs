//! Workers of `rtm3d --claim`: any number of processes compute the shots of a survey, are killed,
//! frozen and run out of space, and the image has the bits of a plain run.

use crate::common;
use crate::common::cases::long;
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

/// Numbers that look random (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (x ^ x >> 31) % n
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
    let mut random = Random(7);
    let mut workers: Vec<Child> = (0..4).map(|_| quiet(&mut survey.worker(&[]))).collect();
    let (mut kills, mut lost) = (0, 0);
    until("workers have made their files", || {
        survey.home.join("survey").exists() && survey.names("worker-").len() >= 4
    });
    while kills < shots / 5 {
        // A kill after every fifth commit on average, at any moment of a shot.
        let next = (kills * 5 + random.below(5) as usize).min(shots - 2);
        until("shots are committed", || survey.names(".image").len() >= next);
        std::thread::sleep(Duration::from_millis(random.below(150)));
        let victim = random.below(4) as usize;
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

/// A damaged file of a shot is found by its checksum, named, and computed again: every bit of the
/// header, bits of the sums, every kind of wrong length, and the file of another shot.
#[test]
fn damaged_shots_are_computed_again() {
    let shots = 3;
    let survey = Survey::new("damaged", QUICK, shots);
    let plain = survey.plain();
    run(&mut survey.worker(&[]));
    survey.check(shots, &plain);
    let (shot, sum) = (survey.file("shot-000002.image"), survey.file("sum.image"));
    let good = fs::read(&shot).unwrap();
    assert_eq!(good.len(), 72 + 2 * 12 * 20 * 4);
    let flipped = |at: usize, bit: u8| {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << bit;
        bytes
    };
    let mut damages: Vec<Vec<u8>> = (0..72).map(|at| flipped(at, (at % 8) as u8)).collect();
    damages.extend((72..good.len()).step_by(397).map(|at| flipped(at, (at % 8) as u8)));
    damages.extend([0, 1, 71, 72, 73, good.len() - 1].map(|length| good[..length].to_vec()));
    damages.push([&good[..], &[0]].concat());
    damages.push(vec![0; good.len()]);
    damages.push(fs::read(survey.file("shot-000001.image")).unwrap());
    damages.push(fs::read(&sum).unwrap());
    for (i, damage) in damages.iter().enumerate() {
        fs::write(&shot, damage).unwrap();
        let summed = survey.worker(&["--sum"]).output().unwrap();
        let text = told(&summed);
        assert_eq!(summed.status.code(), Some(1), "damage {i}: {text}");
        assert!(text.contains("shot-000002.image is damaged") && summed.stdout.is_empty());
        if i % 10 == 0 || i + 10 > damages.len() {
            fs::remove_file(&sum).unwrap();
            fs::write(survey.file("shot-000002.image.worker-gone-1-0.part"), &good[..99]).unwrap();
            let again = survey.worker(&[]).output().unwrap();
            let (json, text) = (stdout(&again), told(&again));
            assert!(again.status.success(), "{text}");
            assert_eq!((value(&json, "computed"), hashes(&json)), ("1", plain.1.clone()));
            assert!(text.contains("shot-000002.image is damaged"), "{text}");
            assert!(fs::read(&shot).unwrap() == good);
            survey.check(shots, &plain);
        }
    }
    println!("{} kinds of damage", damages.len());

    // A shot that is lost, and a damaged sum.
    fs::write(&shot, &good).unwrap();
    fs::remove_file(&shot).unwrap();
    let missing = survey.worker(&["--sum"]).output().unwrap();
    assert!(missing.status.code() == Some(1), "{}", told(&missing));
    assert!(told(&missing).contains("1 of 3 shots are not committed"), "{}", told(&missing));
    run(&mut survey.worker(&[]));
    fs::write(&sum, &good).unwrap();
    let json = stdout(&run(&mut survey.worker(&[])));
    assert_eq!((value(&json, "computed"), hashes(&json)), ("0", plain.1.clone()));
    survey.check(shots, &plain);
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

/// A worker with other options than the survey's is told which.
#[test]
fn a_worker_of_another_survey_is_refused() {
    let mut survey = Survey::new("refused", QUICK, 2);
    run(&mut survey.worker(&[]));
    let before = (survey.names(".image"), fs::read(survey.file("job")).unwrap());
    let model = survey.home.join("model.f32");
    let velocities = (0..12 * 20).flat_map(|_| 2000f32.to_le_bytes()).collect::<Vec<_>>();
    fs::write(&model, velocities).unwrap();
    let others = [
        ("--steps 61", "--steps 60", "--steps 61"),
        ("--n1 13", "--n1 12", "--n1 13"),
        ("--n2 21", "--n2 20", "--n2 21"),
        ("--dx 24", "--dx 25", "--dx 24"),
        ("--border 7", "--border 6", "--border 7"),
        ("--freq 3", "--freq ", "--freq 3"),
        ("--dt 0.001", "--dt ", "--dt 0.001"),
        ("--shots 3", "--shots 2", "--shots 3"),
        ("--every 2", "--every 1", "--every 2"),
        ("--gradient", "no --gradient", "--gradient"),
        ("--smooth 2", "smooth model", "smooth model"),
        // The other model has another largest velocity, too, which sets the time step.
        ("--model model.f32", "--dt ", "--dt "),
    ];
    for (options, there, here) in others {
        for sum in [&[][..], &["--sum"]] {
            let more = [&options.split(' ').collect::<Vec<_>>()[..], sum].concat();
            let refused = survey.worker(&more).output().unwrap();
            let text = told(&refused);
            assert_eq!(refused.status.code(), Some(2), "{options}: {text}");
            let named = text.contains(&format!("the survey there has {there}"))
                && text.contains(&format!("this worker has {here}"));
            assert!(named && refused.stdout.is_empty(), "{options}: {text}");
        }
    }
    for (key, value, named) in [
        ("COMPRESSOR", "dct", "the survey there has codec none, this worker has codec dct"),
        ("COMPRESSOR", "fp16", "this worker has codec fp16"),
    ] {
        survey.config = vec![(key, value)];
        let refused = survey.worker(&[]).output().unwrap();
        assert!(refused.status.code() == Some(2) && told(&refused).contains(named));
    }
    // Raw snapshots change no bit of the image: any schedule may compute a shot.
    survey.config = vec![("CHECKPOINTING_ALGORITHM", "revolve"), ("CHECKPOINTING_SNAPS", "3")];
    fs::remove_file(survey.file("shot-000001.image")).unwrap();
    run(&mut survey.worker(&[]));
    assert_eq!((survey.names(".image"), fs::read(survey.file("job")).unwrap()), before);
    assert_eq!(survey.names(".part"), [""; 0]);

    // Damaged, the description is not believed.
    let mut job = before.1;
    job[20] ^= 1;
    fs::write(survey.file("job"), &job).unwrap();
    let refused = survey.worker(&[]).output().unwrap();
    assert!(told(&refused).contains("its file job is damaged"), "{}", told(&refused));
    assert_eq!(refused.status.code(), Some(1));
}

/// Named pipes and folders in the place of the survey's files are told, and no worker waits for them.
#[test]
fn what_is_no_file_is_an_error_at_once() {
    for name in ["job", "shot-000001.claim-0", "shot-000001.image", "sum.image"] {
        for is_pipe in [true, false] {
            let survey = Survey::new("pipe", QUICK, 1);
            fs::create_dir(survey.home.join("survey")).unwrap();
            match is_pipe {
                true => drop(run(Command::new("mkfifo").arg(survey.file(name)))),
                false => fs::create_dir(survey.file(name)).unwrap(),
            }
            let ended = survey.worker_within(&["timeout", "60"], &[]).output().unwrap();
            let text = told(&ended);
            assert_eq!(ended.status.code(), Some(1), "{name}: {text}");
            assert!(text.contains(name) && text.contains("no regular file"), "{name}: {text}");
        }
    }
}

/// In a folder to which others may write, a link under a name that they can guess leads to a file of
/// theirs or of somebody else: no worker writes through a link.
#[test]
fn no_file_is_written_through_a_link_that_others_left() {
    let plain = Survey::new("link-plain", QUICK, 2).plain();
    // `$$` is the process number of the worker, too, which takes the shell's place. The last names
    // are those of workers that made their names from the process number.
    let plant = "for name in job.part job.worker-$(hostname)-$$-0.part sum.image.part \
        shot-000001.image.worker-$(hostname)-$$-0.part sum.image.worker-$(hostname)-$$-0.part \
        worker-$(hostname)-$$-0; do LINK ../victim survey/$name || exit 9; done; exec \"$@\"";
    for link in ["ln -s", "ln"] {
        let survey = Survey::new("link", QUICK, 2);
        fs::create_dir(survey.home.join("survey")).unwrap();
        fs::write(survey.home.join("victim"), "precious").unwrap();
        // Hard links are made from the folder of the survey's parent.
        let plant = plant.replace("LINK ../", if link == "ln" { "ln " } else { "ln -s ../" });
        let done = run(&mut survey.worker_within(&["sh", "-c", &plant, "sh"], &[]));
        assert_eq!(hashes(&stdout(&done)), plain.1);
        assert_eq!(fs::read_to_string(survey.home.join("victim")).unwrap(), "precious", "{link}");

        // The files of the results have fixed names.
        let image = survey.home.join("images/image.f32");
        fs::remove_file(&image).unwrap();
        match link {
            "ln" => fs::hard_link(survey.home.join("victim"), &image).unwrap(),
            _ => std::os::unix::fs::symlink("../victim", &image).unwrap(),
        }
        let refused = survey.worker(&["--sum"]).output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{link}: {}", told(&refused));
        assert_eq!(fs::read_to_string(survey.home.join("victim")).unwrap(), "precious", "{link}");
    }
}

/// With lossy snapshots, the codec's bound and the schedule belong to the survey, and with mixed
/// storage the number of raw snapshots, too.
#[test]
fn lossy_workers_need_the_same_bound_and_schedule() {
    let base = vec![
        ("CHECKPOINTING_ALGORITHM", "revolve"),
        ("CHECKPOINTING_SNAPS", "5"),
        ("CACHE_CAPACITY", "2"),
        ("COMPRESSOR", "lorenzo"),
        ("ERROR_BOUND", "1e-3"),
    ];
    let mut survey = Survey::new("lossy", QUICK, 2);
    survey.config = base.clone();
    run(&mut survey.worker(&[]));
    for (key, value, named) in [
        ("ERROR_BOUND", "1e-4", "error_bound 0.001"),
        ("ERROR_BOUND_MODE", "range", "error_bound_mode 0"),
        ("CHECKPOINTING_SNAPS", "6", "snapshots 5"),
        ("CHECKPOINTING_ALGORITHM", "uniform", "algorithm revolve"),
    ] {
        survey.config = base.clone();
        survey.config.retain(|(name, _)| *name != key);
        survey.config.push((key, value));
        let refused = survey.worker(&[]).output().unwrap();
        let text = told(&refused);
        let named = text.contains(&format!("the survey there has {named}"));
        assert!(refused.status.code() == Some(2) && named, "{key} {value}: {text}");
    }
    let mut survey = Survey::new("lossy-mixed", QUICK, 2);
    survey.config = mixed();
    run(&mut survey.worker(&[]));
    survey.config.push(("DEVICE_BUDGET", "60K"));
    let refused = survey.worker(&[]).output().unwrap();
    let text = told(&refused);
    assert!(refused.status.code() == Some(2) && text.contains("there has raw_slots "), "{text}");
}

#[test]
fn options_of_workers_need_a_folder_and_exclude_others() {
    let survey = Survey::new("options", QUICK, 2);
    for (options, named) in [
        ("--sum", "--sum: is for workers; add --claim"),
        ("--no-wait", "--no-wait: is for workers; add --claim"),
        ("--lease 5", "--lease: is for workers; add --claim"),
        ("--only 1", "--only: is for workers; add --claim"),
        ("--claim s --only 3", "--only 3: the survey has 2 shots"),
        ("--claim s --only 2 --sum", "--only 2 --sum: a shot, or the sum of all"),
        ("--claim s --verify", "--claim s --verify: needs all shots in one process"),
        ("--claim s --gradient --taylor", "--claim s --taylor: needs all shots"),
        ("--claim s --sweep", "--claim s --sweep: needs all shots"),
        ("--claim s --dump-snapshots 3", "--claim s --dump-snapshots: needs all shots"),
        ("--claim s --tune", "--claim s --tune: every worker would plan"),
        ("--claim s --lease 0.5", "--lease 0.5: out of range"),
    ] {
        let refused =
            survey.command(&[], &options.split(' ').collect::<Vec<_>>()).output().unwrap();
        let text = told(&refused);
        assert!(refused.status.code() == Some(2) && text.contains(named), "{options}: {text}");
    }
    assert!(!survey.home.join("s").exists());
    for (folder, named) in [
        ("none/survey", "the folder cannot be made"),
        ("file", "the folder cannot be opened"),
        ("/proc/self", "a worker cannot make its file there"),
    ] {
        fs::write(survey.home.join("file"), "").unwrap();
        let refused = survey.command(&[], &["--claim", folder]).output().unwrap();
        let text = told(&refused);
        assert!(refused.status.code() == Some(1) && text.contains(named), "{folder}: {text}");
    }
}

/// Whether this process may mount file systems in a namespace of its own.
fn can_mount() -> bool {
    let able = have("unshare")
        && Command::new("unshare")
            .args(["-Urm", "sh", "-c", "mount -t tmpfs none /mnt"])
            .output()
            .is_ok_and(|output| output.status.success());
    if !able {
        println!("skipped in part: file systems cannot be mounted here");
    }
    able
}

/// A folder that cannot be written refuses workers, and --sum still reads it.
#[test]
fn a_read_only_folder_is_an_error_for_workers_only() {
    let survey = Survey::new("read-only", QUICK, 2);
    let plain = survey.plain();
    run(&mut survey.worker(&[]));
    if !can_mount() {
        return;
    }
    let script = "mount --bind survey survey && mount -o remount,ro,bind survey && exec \"$@\"";
    let within = ["unshare", "-Urm", "sh", "-c", script, "sh"];
    let refused = survey.worker_within(&within, &[]).output().unwrap();
    let text = told(&refused);
    assert!(refused.status.code() == Some(1), "{text}");
    assert!(
        text.contains("--claim survey: a worker cannot make its file there: Read-only"),
        "{text}"
    );
    fs::remove_dir_all(survey.home.join("images")).unwrap();
    run(&mut survey.worker_within(&within, &["--sum"]));
    survey.check(2, &plain);
}

/// Where shots do not fit, the worker says so and ends; what was committed stays, nothing half is
/// left, and with more space the survey goes on.
#[test]
fn a_full_disk_loses_nothing_that_was_committed() {
    let shots = 6;
    let survey = Survey::new("full", QUICK, shots);
    let plain = survey.plain();
    let limited = ["sh", "-c", "ulimit -f 1; exec \"$@\"", "sh"]; // 512 or 1024 bytes
    let refused = survey.worker_within(&limited, &[]).output().unwrap();
    let text = told(&refused);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    let named = "shot 1 of 6 was computed, but shot-000001.image cannot be written: File too large";
    assert!(text.contains(named), "{text}");
    assert_eq!((survey.names(".image").len(), survey.names(".claim").len()), (0, 0));
    assert_eq!(survey.names(".part"), [""; 0]);

    if can_mount() {
        // Pages: job, worker's file, three shots; then a larger file system.
        let script = "mount -t tmpfs -o size=20k none survey && cp job survey/ && \"$@\"; code=$?; \
                      ls survey; mount -o remount,size=1m survey && shift 0 && \"$@\" && exit $code";
        fs::rename(survey.file("job"), survey.home.join("job")).unwrap();
        let within = ["unshare", "-Urm", "sh", "-c", script, "sh"];
        let output = survey.worker_within(&within, &[]).output().unwrap();
        let (text, listed) = (told(&output), stdout(&output));
        assert_eq!(output.status.code(), Some(1), "{text}{listed}");
        assert!(text.contains("cannot be written: No space left on device"), "{text}");
        assert!(!listed.contains(".part") && !listed.contains(".claim"), "{listed}");
        let last = listed.lines().last().unwrap();
        let computed = value(last, "computed").parse::<usize>().unwrap();
        assert!(computed > 0 && computed < shots, "{last}");
        assert_eq!(hashes(last), plain.1);
        fs::rename(survey.home.join("job"), survey.file("job")).unwrap();
    }
    run(&mut survey.worker(&[]));
    survey.check(shots, &plain);
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

/// For every n, a worker is killed at its n-th call that opens or changes a file, or that call
/// fails: the worker ends with an error, or makes the image; the next worker makes the image.
/// strace injects the faults.
#[test]
fn every_file_call_may_fail_or_be_the_last() {
    if !have("strace") {
        return;
    }
    let survey = Survey::new("calls", QUICK, 2);
    let plain = survey.plain();
    let calls = "mkdir,openat,write,fsync,linkat,renameat,unlinkat,utimensat";
    let traced = |fault: &str| {
        let _ = fs::remove_dir_all(survey.home.join("survey"));
        let _ = fs::remove_dir_all(survey.home.join("images"));
        let trace = format!("trace={calls}");
        let strace = ["strace", "-f", "-qq", "-o", "calls", "-e", &trace];
        let words = [&strace[..], &["-e", fault][..if fault.is_empty() { 0 } else { 2 }]].concat();
        survey.worker_within(&words, &[]).output().unwrap()
    };
    assert!(traced("").status.success());
    let text = fs::read_to_string(survey.home.join("calls")).unwrap();
    let process = text.split(' ').next().unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(process)).collect();
    // The calls before the survey's first one load libraries and open the session.
    let first = lines.iter().position(|line| line.contains("\"survey\"")).unwrap();
    // strace counts the calls of each name.
    let name = |at: usize| {
        let word = lines[at].split_whitespace().nth(1).unwrap();
        word.split('(').next().unwrap()
    };
    let of_its_name = |at: usize| (0..=at).filter(|k| name(*k) == name(at)).count();
    let mut tally = String::new();
    for (fault, step) in [("signal=KILL", 2), ("error=EIO", 3), ("error=ENOSPC", 5)] {
        let (mut ended, mut done) = (0, 0);
        for at in (first..lines.len()).step_by(if long() { 1 } else { step }) {
            let inject = format!("inject={}:{fault}:when={}", name(at), of_its_name(at));
            let output = traced(&inject);
            if output.status.success() {
                assert_eq!(hashes(&stdout(&output)), plain.1, "{inject}");
                done += 1;
            } else {
                let why = told(&output);
                let is_told = fault == "signal=KILL" || why.lines().any(|l| l.contains(": "));
                assert!(is_told, "{inject}: {why}");
                ended += 1;
            }
            let next = survey.worker(&[]).output().unwrap();
            assert!(next.status.success(), "after {inject}: {}", told(&next));
            assert_eq!(hashes(&stdout(&next)), plain.1, "after {inject}");
            assert!(survey.images("images") == plain.0, "after {inject}");
        }
        tally += &format!("{fault}: {ended} workers ended, {done} made the image; ");
    }
    println!("{} calls: {tally}", lines.len() - first);
}
