//! Runs of many ranks that are killed, stopped or given damaged files go on from what they kept, and end
//! in the same image, bit for bit: slabs with `--decompose`, and shots that are distributed over ranks.

use crate::{common, mpi_rig};
use common::{run, stdout};
use mpi_rig::*;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A run of slabs whose rank dies ends with all ranks and goes on from restart files; so does one that a
/// signal stops.
#[test]
fn slabs_go_on_after_a_rank_died() {
    use std::time::{Duration, Instant};
    for name in mpis() {
        let mpi = Mpi::new(name, "restart");
        let files = mpi.dir.join("files");
        let job =
            "--n1 30 --n2 40 --n3 1 --border 8 --shots 3 --steps 120 --json --decompose --out out";
        let arguments: Vec<&str> = job.split(' ').collect();
        let expected = stdout(&mpi.ranks(2, &arguments, &[]));
        let hash =
            |json: &str| json.split("\"image_hash\": ").nth(1).map(|rest| rest[..18].to_string());
        assert!(hash(&expected).is_some(), "{expected}");
        let start = || {
            let mut command = quiet(Command::new(format!("mpirun.{name}")));
            if name == "openmpi" {
                command.args(["--allow-run-as-root", "--oversubscribe"]);
            }
            command.args(["-n", "2"]).arg(mpi.dir.join("rtm3d_mpi")).args(&arguments);
            command.arg("--restart").arg(&files).current_dir(&mpi.dir);
            command.env("GPUZIP_PERSIST_OVERHEAD", "1").env("GPUZIP_STOP_BUDGET_S", "60");
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            command.spawn().unwrap()
        };
        // The generation that was published last, by the name of its file.
        let newest = || {
            let entries = std::fs::read_dir(&files).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            names
                .filter(|name| name.ends_with(".gen"))
                .map(|name| name[name.len() - 16..].to_string())
                .max()
        };
        for signal in [libc::SIGKILL, libc::SIGTERM] {
            let before = newest();
            let mut child = start();
            let begin = Instant::now();
            // A signal while mpirun starts the ranks may leave them waiting in MPI_Init for ever.
            while child.try_wait().unwrap().is_none() && newest() == before {
                assert!(begin.elapsed() < Duration::from_secs(300));
                std::thread::sleep(Duration::from_millis(5));
            }
            // The last rank of this test, by its folder; the command lines of mpirun begin otherwise.
            let program = format!("^{}", mpi.dir.join("rtm3d_mpi").display());
            let ranks = Command::new("pgrep").args(["-f", &program]).output().unwrap();
            let ranks = String::from_utf8(ranks.stdout).unwrap();
            let rank = ranks.lines().last().and_then(|line| line.parse::<i32>().ok());
            if let Some(rank) = rank.filter(|&rank| rank != child.id() as i32) {
                // SAFETY: a process of this test.
                unsafe { libc::kill(rank, signal) };
            }
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() {
                assert_eq!(
                    hash(&String::from_utf8_lossy(&output.stdout)),
                    hash(&expected),
                    "{text}"
                );
            }
        }
        let last = start().wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&last.stderr).into_owned();
        assert!(last.status.success(), "{text}");
        assert_eq!(hash(&String::from_utf8_lossy(&last.stdout)), hash(&expected), "{text}");
    }
}

/// A survey of distributed shots with --restart, whose ranks may die.
struct Survey {
    mpi: Mpi,
    arguments: Vec<String>,
    config: Vec<(&'static str, &'static str)>,
    /// The image of a run without --restart.
    hash: String,
}

/// The result of a run of a survey.
struct Ended {
    code: Option<i32>,
    text: String,
    /// The hash of the image; empty if the run ended before.
    hash: String,
    /// The number of shots that an earlier run kept, as the report has it; empty if the run ended before.
    kept: String,
}

impl Survey {
    const SMALL: &'static str = "--n1 16 --n2 30 --n3 1 --border 6 --steps 24 --shots 6";
    /// 20 shots, each of which takes longer than a signal takes to come.
    const LONGER: &'static str = "--n1 60 --n2 80 --n3 1 --border 8 --steps 2400 --shots 20";

    fn new(
        name: &'static str,
        test: &str,
        job: &str,
        config: &[(&'static str, &'static str)],
    ) -> Self {
        let mpi = Mpi::new(name, test);
        let arguments = [job, " --json"].concat().split(' ').map(String::from).collect::<Vec<_>>();
        let plain: Vec<&str> = arguments.iter().map(|argument| argument.as_str()).collect();
        let plain = mpi.json(2, &plain[..plain.len() - 1], config);
        let hash = value(&plain, "image_hash").to_string();
        Self { mpi, arguments, config: config.to_vec(), hash }
    }

    fn folder(&self) -> PathBuf {
        self.mpi.dir.join("kept")
    }

    fn shot(&self, number: usize) -> PathBuf {
        self.folder().join(format!("shot-{number:06}.image"))
    }

    /// The program `before` runs mpirun; empty: mpirun itself.
    fn command(&self, before: &[&str], ranks: usize, more: &[&str]) -> Command {
        let mpirun = format!("mpirun.{}", self.mpi.name);
        let words = [before, &[&mpirun[..]]].concat();
        let mut command = quiet(Command::new(words[0]));
        command.args(&words[1..]);
        if self.mpi.name == "openmpi" {
            command
                .arg("--oversubscribe")
                .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
                .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        command.args(["-np", &ranks.to_string()]).arg(self.mpi.dir.join("rtm3d_mpi"));
        command.args(&self.arguments).args(["--restart", "kept", "--out", "out"]).args(more);
        command.envs(self.config.iter().copied()).current_dir(&self.mpi.dir);
        command.env("MPIEXEC_TIMEOUT", "100");
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command
    }

    fn run(&self, ranks: usize, more: &[&str]) -> Ended {
        Self::ended(self.command(&[], ranks, more).output().unwrap())
    }

    fn ended(output: Output) -> Ended {
        let json = stdout(&output);
        let hash = if json.contains("image_hash") { value(&json, "image_hash") } else { "" };
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let kept = if json.contains("\"kept\"") { value(&json, "kept") } else { "" };
        Ended { code: output.status.code(), text, hash: hash.to_string(), kept: kept.to_string() }
    }

    /// Runs to the end, with the image of the run that was not stopped.
    fn finish(&self, ranks: usize) -> String {
        let done = self.run(ranks, &[]);
        assert_eq!(
            (done.code, &done.hash),
            (Some(0), &self.hash),
            "{}: {}",
            self.mpi.name,
            done.text
        );
        done.text
    }

    /// The kept shots: a file that was written again has another inode.
    fn kept(&self) -> std::collections::BTreeMap<String, u64> {
        use std::os::unix::fs::MetadataExt;
        let entries = std::fs::read_dir(self.folder()).into_iter().flatten().flatten();
        let files = entries.filter(|entry| entry.path().extension() == Some("image".as_ref()));
        files
            .map(|entry| {
                (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().ino())
            })
            .collect()
    }

    /// Starts ranks, waits until one of them has kept a shot and then `millis` more, and sends a
    /// signal to one of the ranks.
    fn signalled(
        &self,
        ranks: usize,
        more: &[&str],
        millis: u64,
        which: usize,
        signal: i32,
    ) -> Ended {
        use std::time::{Duration, Instant};
        let before = self.kept().len();
        let mut child = self.command(&[], ranks, more).spawn().unwrap();
        let begin = Instant::now();
        // A signal while mpirun starts the ranks may leave them waiting in MPI_Init for ever.
        while child.try_wait().unwrap().is_none() && self.kept().len() == before {
            assert!(begin.elapsed() < Duration::from_secs(100));
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(millis));
        // A rank of this test, by its folder; the command lines of mpirun begin otherwise.
        let program = format!("^{}", self.mpi.dir.join("rtm3d_mpi").display());
        let found = Command::new("pgrep").args(["-f", &program]).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        let found: Vec<i32> = found.lines().map(|line| line.parse().unwrap()).collect();
        if !found.is_empty() {
            // SAFETY: a process of this test.
            unsafe { libc::kill(found[which % found.len()], signal) };
        }
        Self::ended(child.wait_with_output().unwrap())
    }
}

/// Some snapshots of a shot are raw and some compressed.
const MIXED: [(&str, &str); 7] = [
    ("GPUZIP_CHECKPOINTING_ALGORITHM", "revolve"),
    ("GPUZIP_CHECKPOINTING_SNAPS", "12"),
    ("GPUZIP_DEVICE_BUDGET", "240K"),
    ("GPUZIP_COMPRESSOR", "dct"),
    ("GPUZIP_COMPRESSION_FACTOR", "2"),
    ("GPUZIP_ERROR_BOUND", "1e-3"),
    ("GPUZIP_MIXED_STORAGE", "always"),
];

/// Ranks are killed at random moments, run after run, on other numbers of ranks: the image has the same
/// bits, and no shot that was kept is computed again.
#[test]
fn a_survey_goes_on_after_ranks_were_killed() {
    for name in mpis() {
        let survey = Survey::new(name, "killed", Survey::LONGER, &[]);
        let seed = std::process::id() as u64;
        let mut kept = survey.kept();
        for (turn, ranks) in [3, 2, 4, 1, 3].into_iter().enumerate() {
            let millis = (seed * 31 + turn as u64 * 57) % 150;
            let ended = survey.signalled(ranks, &[], millis, turn, libc::SIGKILL);
            if ended.code == Some(0) {
                assert_eq!(ended.hash, survey.hash, "{name}: {}", ended.text);
            }
            let now = survey.kept();
            assert!(now.len() > kept.len() || now.len() == 20, "{name}: {}", ended.text);
            assert!(
                kept.iter().all(|shot| now.get(shot.0) == Some(shot.1)),
                "{name}: a shot twice"
            );
            kept = now;
        }
        survey.finish(3);
        assert!(kept.iter().all(|shot| survey.kept().get(shot.0) == Some(shot.1)), "{name}");
        // With all shots kept the run only adds them up.
        let kept = survey.kept();
        assert!(survey.finish(2).contains("goes on with 20 of 20 shots from kept"), "{name}");
        assert_eq!(survey.kept(), kept, "{name}");
    }
}

/// A signal to any rank stops all ranks with exit code 3, and the same command goes on.
#[test]
fn a_signal_to_one_rank_stops_the_survey() {
    for name in mpis() {
        let survey = Survey::new(name, "stopped", Survey::LONGER, &[]);
        let turns = [(0, libc::SIGTERM, 3, &[][..]), (1, libc::SIGUSR1, 3, &["--zero-copy"])];
        for (which, signal, ranks, more) in
            turns.into_iter().chain([(0, libc::SIGTERM, 1, &[][..])])
        {
            let before = survey.kept().len();
            let ended = survey.signalled(ranks, more, 0, which, signal);
            let kept = survey.kept().len();
            assert!(ended.code == Some(3) && ended.hash.is_empty(), "{name}: {}", ended.text);
            assert!(before < kept && kept < 20, "{name}: {kept}");
            let said = format!(
                "stopped on request, {kept} of 20 shots are kept: continue with --restart kept"
            );
            assert!(ended.text.contains(&said), "{name}: {}", ended.text);
        }
        survey.finish(2);
    }
}

/// Mixed storage and a lossy codec: the bits do not depend on what was computed before the restart.
#[test]
fn lossy_shots_are_kept_for_one_plan() {
    let Some(name) = mpis().pop() else { return };
    let survey = Survey::new(name, "lossy-kept", Survey::SMALL, &MIXED);
    survey.finish(2);
    for shot in [1, 2, 5] {
        std::fs::remove_file(survey.shot(shot)).unwrap();
    }
    survey.finish(2);
    // Three ranks share the node's budget in other parts.
    let refused = survey.run(3, &[]);
    assert_eq!(refused.code, Some(2), "{}", refused.text);
    assert!(refused.text.contains("had raw_slots "), "{}", refused.text);
}

/// Ranks of which one got fewer slots for raw snapshots, or another plan, are refused.
#[test]
fn ranks_with_other_raw_slots_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let Some(name) = mpis().pop() else { return };
    let mut survey = Survey::new(name, "raw-slots", Survey::SMALL, &MIXED);
    let program = survey.mpi.dir.join("rtm3d_mpi");
    std::fs::rename(&program, survey.mpi.dir.join("program")).unwrap();
    let script = "#!/bin/sh\n[ \"${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\" = 1 ] && eval \"export $OF_RANK_1\"\nexec \"${0%/*}/program\" \"$@\"\n";
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    survey.finish(2);
    survey.config.push(("OF_RANK_1", "GPUZIP_DEVICE_BUDGET=160K"));
    let job: Vec<&str> = survey.arguments.iter().map(String::as_str).collect();
    let refused = survey.mpi.ranks(2, &job, &survey.config);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{text}");
    assert!(text.contains("a rank has ") && text.contains("slots for raw snapshots"), "{text}");
    *survey.config.last_mut().unwrap() = ("OF_RANK_1", "GPUZIP_CHECKPOINTING_SNAPS=9");
    let refused = survey.run(2, &[]);
    assert_eq!(refused.code, Some(2), "{}", refused.text);
    assert!(
        refused.text.contains("rank 0 has snapshots 12, rank 1 has snapshots 9"),
        "{}",
        refused.text
    );
}

/// Kept shots that are damaged are named and computed again; nothing else is.
#[test]
fn damaged_shots_of_a_survey_are_computed_again() {
    for name in mpis() {
        let survey = Survey::new(name, "damaged", Survey::SMALL, &[]);
        survey.finish(2);
        let kept = survey.kept();
        let change = |shot, change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = std::fs::read(survey.shot(shot)).unwrap();
            change(&mut bytes);
            std::fs::write(survey.shot(shot), bytes).unwrap();
        };
        std::fs::copy(survey.shot(2), survey.shot(1)).unwrap();
        change(3, &|bytes| bytes[1000] ^= 4);
        change(4, &|bytes| bytes.truncate(bytes.len() - 1));
        change(6, &|bytes| bytes.push(0));
        std::fs::write(survey.folder().join("shot-000002.image.0badcafe.part"), "left").unwrap();
        let text = survey.finish(3);
        for (shot, why) in [
            (1, "it belongs to another shot or survey"),
            (3, "its checksum is wrong"),
            (4, "the file is too short or cannot be read"),
            (6, "the file is too long"),
        ] {
            let said =
                format!("shot-{shot:06}.image is damaged: {why}; the shot is computed again");
            assert!(text.contains(&said), "{name}: {said}: {text}");
        }
        assert!(text.contains("goes on with 2 of 6 shots"), "{name}: {text}");
        let now = survey.kept();
        let again: Vec<&String> =
            kept.iter().filter(|shot| now.get(shot.0) != Some(shot.1)).map(|shot| shot.0).collect();
        assert_eq!(again.len(), 4, "{name}: {again:?}");
        assert!(!survey.folder().join("shot-000002.image.0badcafe.part").exists());
        // The report says which shots its times and counts are of.
        std::fs::remove_file(survey.shot(5)).unwrap();
        let done = survey.run(2, &[]);
        assert_eq!((done.hash, done.kept), (survey.hash.clone(), "5".to_string()));
        // What is no file cannot be replaced by one: an error on all ranks.
        std::fs::remove_file(survey.shot(2)).unwrap();
        std::fs::create_dir(survey.shot(2)).unwrap();
        let refused = survey.run(2, &[]);
        assert_eq!(refused.code, Some(1), "{name}: {}", refused.text);
        assert!(
            refused.text.contains("shot-000002.image cannot be opened: there is no regular file"),
            "{}",
            refused.text
        );
    }
}

/// Other options, another run at the same time, and folders of other kinds of runs are refused once,
/// with the reason.
#[test]
fn folders_of_other_surveys_are_refused() {
    for name in mpis() {
        let survey = Survey::new(name, "refused", Survey::SMALL, &[]);
        let refuse = |ranks, more: &[&str], code, parts: &[&str]| {
            let refused = survey.run(ranks, more);
            assert_eq!(refused.code, Some(code), "{name} {more:?}: {}", refused.text);
            let said: Vec<&str> =
                refused.text.lines().filter(|line| line.contains("--restart")).collect();
            assert_eq!(said.len(), 1, "{name} {more:?}: {}", refused.text);
            for part in parts {
                assert!(said[0].contains(part), "{name} {more:?}: {part}: {}", refused.text);
            }
        };
        refuse(3, &["--verify"], 2, &["--restart kept --verify: what the run before computed"]);
        refuse(3, &["--tune"], 2, &["--restart kept --tune"]);
        assert!(!survey.folder().exists());
        // A folder without a shot belongs to nobody's options.
        std::fs::create_dir(survey.folder()).unwrap();
        survey.finish(2);
        let kept = survey.kept();
        refuse(
            3,
            &["--freq", "7"],
            2,
            &["the run that wrote the files had --freq", "this run has --freq 7;"],
        );
        refuse(2, &["--shots", "5"], 2, &["had --shots 6, this run has --shots 5;"]);
        refuse(2, &["--decompose"], 1, &["the folder holds shots of"]);
        let lock = std::fs::File::open(survey.folder().join("lock")).unwrap();
        assert!(gpuzip::files::try_lock(&lock).unwrap());
        refuse(2, &[], 1, &["another run uses this folder"]);
        drop(lock);
        assert_eq!(survey.kept(), kept);
        for shot in 1..=6 {
            std::fs::remove_file(survey.shot(shot)).unwrap();
        }
        let other = survey.run(2, &["--shots", "5"]);
        assert_eq!((other.code, survey.kept().len()), (Some(0), 5), "{name}: {}", other.text);

        let claim = survey.mpi.dir.join("claim");
        let job: Vec<&str> = Survey::SMALL.split(' ').collect();
        let out = survey.mpi.dir.join("out");
        run(rtm3d().args(&job).arg("--claim").arg(&claim).arg("--out").arg(&out));
        refuse(2, &["--restart", "none/kept"], 1, &["the folder cannot be made"]);
        refuse(2, &["--restart", "claim"], 2, &["the folder belongs to workers of rtm3d --claim"]);
        let files = survey.mpi.dir.join("files");
        let mut alone = rtm3d();
        alone.args(&job).arg("--restart").arg(&files).arg("--out").arg(&out);
        run(alone.env("GPUZIP_PERSIST_OVERHEAD", "1"));
        refuse(
            2,
            &["--restart", "files"],
            2,
            &["the folder holds files of rtm3d --restart or of --decompose"],
        );
        let mut there = rtm3d();
        there.args(&job).arg("--restart").arg(survey.folder()).arg("--out").arg(&out);
        let there = there.output().unwrap();
        let text = String::from_utf8_lossy(&there.stderr).into_owned();
        assert!(
            there.status.code() == Some(1) && text.contains("the folder holds shots of"),
            "{text}"
        );
    }
}

/// On a full disk the run goes on without the files that do not fit, in the same image.
#[test]
fn a_full_disk_ends_no_survey() {
    let mount = ["-Urm", "sh", "-c", "mount -t tmpfs none /mnt"];
    if !Command::new("unshare").args(mount).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: file systems cannot be mounted here");
        return;
    }
    for name in mpis() {
        let survey = Survey::new(name, "full", Survey::SMALL, &[]);
        // Pages for job and three shots; then for no file at all.
        for (size, code, said) in [
            ("20k", 0, "the run goes on without the file of shot "),
            ("4k", 1, "its file job cannot be written: No space left on device"),
        ] {
            let script = format!("mkdir -p kept && mount -t tmpfs -o size={size} none kept && {{ [ {size} = 20k ] || head -c 4096 /dev/zero >kept/full; }}; exec \"$@\"");
            let within = ["unshare", "-Urm", "sh", "-c", &script, "sh"];
            let ended = Survey::ended(survey.command(&within, 3, &[]).output().unwrap());
            assert_eq!(ended.code, Some(code), "{name} {size}: {}", ended.text);
            assert!(ended.text.contains(said), "{name} {size}: {}", ended.text);
            assert!(code != 0 || ended.hash == survey.hash, "{name}: {}", ended.text);
        }
    }
}
