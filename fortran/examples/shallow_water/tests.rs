//! The ocean model in Fortran (fortran/examples/shallow_water) under OpenMPI and MPICH: its gradient is the
//! derivative of the misfit, and has the same bits on any number of ranks, with every state kept, with
//! snapshots in memory and on disk, and after all ranks were killed.

use crate::common::{self, have, library, root, run, scratch, stdout, tempdir};
use crate::mpi_rig::{mpis, quiet};
use gpuzip::schedule::Schedule;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// gfortran 12 warns of descriptors that it allocates itself.
const FLAGS: &str =
    "FFLAGS=-std=f2008 -O2 -Wall -Wextra -Werror -Wno-uninitialized -Wno-maybe-uninitialized";

const REVOLVE: [(&str, &str); 2] =
    [("GPUZIP_CHECKPOINTING_ALGORITHM", "revolve"), ("GPUZIP_CHECKPOINTING_SNAPS", "6")];

/// Four staging buffers and some snapshots fit the host budget of each rank; the other snapshots go to disk.
const DISK: [(&str, &str); 3] = [
    ("GPUZIP_CHECKPOINTING_ALGORITHM", "revolve"),
    ("GPUZIP_HOST_BUDGET", "500K"),
    ("GPUZIP_DISK_BUDGET", "2M"),
];

/// The program, built with one MPI, in the folder of a test.
struct Ocean {
    mpi: &'static str,
    dir: PathBuf,
}

impl Ocean {
    fn all(test: &str) -> Vec<Self> {
        let built = mpis().into_iter().filter(|mpi| have(&format!("mpif90.{mpi}")));
        built.map(|mpi| Self::new(mpi, test)).collect()
    }

    fn new(mpi: &'static str, test: &str) -> Self {
        static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let (build, dir) =
            (scratch(&format!("ocean-{mpi}")), tempdir(&format!("ocean-{test}-{mpi}")));
        let guard = ONE_AT_A_TIME.lock();
        run(common::plain(Command::new("make").arg("-s").arg("-C").arg(root().join("fortran")))
            .arg(format!("BUILD={}", build.display()))
            .arg(format!("GPUZIP_LIB={}", library().display()))
            .args([FLAGS, "CFLAGS=-Wall -Wextra -Werror"])
            .args([format!("MPIFC=mpif90.{mpi}"), format!("MPICC=mpicc.{mpi}")])
            .arg("shallow_water"));
        drop(guard);
        std::fs::copy(build.join("shallow_water"), dir.join("shallow_water")).unwrap();
        Self { mpi, dir }
    }

    /// The program with these keys, separated by blanks; snapshots on disk go to the folder of the test.
    fn command(&self, ranks: usize, keys: &str, config: &[(&str, &str)]) -> Command {
        let mut command = quiet(Command::new(format!("mpirun.{}", self.mpi)));
        if self.mpi == "openmpi" {
            command
                .arg("--oversubscribe")
                .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
                .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        command.args(["-n", &ranks.to_string()]).arg(self.dir.join("shallow_water"));
        command.args(keys.split_whitespace()).current_dir(&self.dir);
        command.env("GPUZIP_DISK_PATH", &self.dir).envs(config.iter().copied());
        // mpirun ends ranks that wait for each other for more than 200 seconds, with a failure.
        command.env("MPIEXEC_TIMEOUT", "200");
        command
    }

    /// As `command`; each rank is on a node of its own, whose number is that of the rank: the folder with its
    /// restart files is `node` with this number.
    fn on_nodes(&self, ranks: usize, keys: &str, config: &[(&str, &str)]) -> Command {
        let whole = self.command(ranks, keys, config);
        let arguments: Vec<_> = whole.get_args().collect();
        let program = self.dir.join("shallow_water");
        let at = arguments.iter().position(|argument| *argument == program.as_os_str()).unwrap();
        // Each rank finds its node by its number, which mpirun tells it.
        let on_node = "n=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; GPUZIP_PERSIST_DIR=node$n exec \"$0\" \"$@\" node=$((n + 1))";
        let mut command = Command::new(whole.get_program());
        command.args(&arguments[..at]).args(["sh", "-c", on_node]).args(&arguments[at..]);
        command.current_dir(&self.dir);
        for (name, value) in whole.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command
    }

    /// Kills all ranks.
    fn kill_ranks(&self) {
        // By the folder of the test; the command line of mpirun begins otherwise.
        let program = format!("^{}", self.dir.join("shallow_water").display());
        let ranks = Command::new("pgrep").args(["-f", &program]).output().unwrap();
        for rank in String::from_utf8(ranks.stdout).unwrap().lines() {
            // SAFETY: a process of this test.
            unsafe { libc::kill(rank.parse().unwrap(), libc::SIGKILL) };
        }
    }

    fn gradient(&self) -> PathBuf {
        self.dir.join("gradient.npy")
    }

    /// The bytes of the gradient, what was printed without what gpuzip counted, and that line.
    fn run(&self, ranks: usize, keys: &str, config: &[(&str, &str)]) -> (Vec<u8>, String, String) {
        let _ = std::fs::remove_file(self.gradient());
        let printed = stdout(&run(&mut self.command(ranks, keys, config)));
        let (counts, physics): (Vec<&str>, Vec<&str>) =
            printed.lines().partition(|line| line.starts_with("gpuzip "));
        (std::fs::read(self.gradient()).unwrap(), physics.join("\n"), counts.concat())
    }
}

/// The number after a text.
fn number(line: &str, name: &str) -> u64 {
    let rest = line.split(name).nth(1).unwrap_or_else(|| panic!("no {name} in {line}"));
    rest.trim_start().split(',').next().unwrap().parse().unwrap()
}

/// The orders of the Taylor test, of which the table has two in each row but the first.
fn orders(printed: &str) -> Vec<f64> {
    let rows = printed.lines().skip_while(|line| !line.starts_with("e  ")).skip(2);
    rows.flat_map(|row| {
        let words: Vec<f64> = row.split_whitespace().map(|word| word.parse().unwrap()).collect();
        [words[2], words[4]]
    })
    .collect()
}

#[test]
fn gradients_are_derivatives_with_equal_bits_on_any_number_of_ranks() {
    let keys = "nx=30 ny=24 steps=120";
    for ocean in Ocean::all("bits") {
        let (kept, physics, _) = ocean.run(1, &format!("{keys} states=kept"), &[]);
        assert_eq!(kept.len(), 128 + 2 * 24 * 30 * 8);
        let orders = orders(&physics);
        assert!(
            orders.len() == 12 && orders.iter().all(|&order| (order - 2.0).abs() < 0.1),
            "{physics}"
        );
        let difference = physics.split("relative difference").nth(1).unwrap();
        let difference = difference.split_whitespace().next().unwrap();
        assert!(difference.parse::<f64>().unwrap() < 1e-12, "{physics}");
        // MPICH's ranks do not give up their processor while they wait, so that more ranks than
        // processors are slow.
        let (numbers, tests) =
            if ocean.mpi == "openmpi" { (&[1, 2, 4][..], "T") } else { (&[1, 2][..], "F") };
        for &ranks in numbers {
            for config in [&REVOLVE[..], &DISK] {
                let keys = format!("{keys} tests={tests}");
                let (gradient, told, counts) = ocean.run(ranks, &keys, config);
                let place = format!("{}, {ranks} ranks, {config:?}: {counts}", ocean.mpi);
                let expected = if tests == "T" { 12 } else { 2 };
                assert!(told.lines().eq(physics.lines().take(expected)), "{place}: {told}");
                assert!(gradient == kept, "{place}");
                let [written, read] =
                    ["written to disk", "read from disk"].map(|name| number(&counts, name));
                if config == REVOLVE {
                    let revolve = Schedule::revolve(120, 6).unwrap();
                    assert_eq!(
                        number(&counts, "forward steps"),
                        revolve.forward_steps(),
                        "{place}"
                    );
                    assert_eq!((written, read), (0, 0), "{place}");
                } else {
                    assert!(written > 0 && read > 0, "{place}");
                }
            }
        }
    }
}

/// The generation that was published last, by the name of its file.
fn newest(folder: &Path) -> Option<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let generations = names.filter(|name| name.ends_with(".gen"));
    generations.map(|name| name[name.len() - 16..].to_string()).max()
}

/// Waits until a run has published so many more generations, or has ended.
fn wait_for(child: &mut Child, generations: usize, folder: &Path) {
    let begin = Instant::now();
    let mut last = newest(folder);
    let mut seen = 0;
    // A signal while mpirun starts the ranks may leave them waiting in MPI_Init for ever.
    while seen < generations && child.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(200));
        std::thread::sleep(Duration::from_millis(2));
        let now = newest(folder);
        seen += usize::from(now != last);
        last = now;
    }
}

#[test]
fn runs_whose_ranks_were_all_killed_go_on_with_the_same_bits() {
    let keys = "nx=60 ny=40 steps=400 tests=F";
    let Some(ocean) = Ocean::all("killed").into_iter().next() else { return };
    let (kept, physics, _) = ocean.run(1, &format!("{keys} states=kept"), &[]);
    let files = ocean.dir.join("restart");
    let folder = files.display().to_string();
    let restart = [("GPUZIP_PERSIST_DIR", &folder[..]), ("GPUZIP_PERSIST_OVERHEAD", "1")];
    let config = [&DISK[..], &restart].concat();
    let _ = std::fs::remove_file(ocean.gradient());
    let mut killed = 0;
    for generations in [1, 4, 16] {
        let mut command = ocean.command(2, keys, &config);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for(&mut child, generations, &files);
        ocean.kill_ranks();
        if child.wait().unwrap().success() {
            assert!(std::fs::read(ocean.gradient()).unwrap() == kept); // it had ended
        } else {
            killed += 1;
        }
    }
    assert!(killed > 0, "every run ended before its ranks were killed");
    let last = run(&mut ocean.command(2, keys, &config));
    let told = String::from_utf8_lossy(&last.stderr).into_owned();
    assert!(told.contains("shallow_water: goes on after action "), "{told}");
    let printed = stdout(&last);
    let counts = printed.lines().find(|line| line.starts_with("gpuzip ")).unwrap();
    assert!(number(counts, "read from disk") > 0, "{counts}");
    assert!(physics.lines().all(|line| printed.contains(line)), "{printed}\n{physics}");
    assert!(std::fs::read(ocean.gradient()).unwrap() == kept);
    // No run goes on with the files of another one; the fields are the same.
    for (keys, reason) in [
        ("nx=60 ny=40 steps=400 tests=F dx=9000", "other nx, ny, steps or dx"),
        ("nx=60 ny=40 steps=399 tests=F", "steps = 400"),
    ] {
        let output = ocean.command(2, keys, &config).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.contains(reason), "{keys}: {told}");
    }
}

/// Four ranks, each on a node of its own, whose folder is lost after the ranks were killed. A process on each
/// node copies the restart files to a shared folder: it is asked to end, with time for the rest, or it is
/// killed, too.
#[test]
fn runs_whose_nodes_are_lost_go_on_with_the_same_bits() {
    let keys = "nx=60 ny=40 steps=400 tests=F";
    let Some(ocean) = Ocean::all("nodes").into_iter().next() else { return };
    let (kept, ..) = ocean.run(1, &format!("{keys} states=kept"), &[]);
    let node = |rank: usize| ocean.dir.join(format!("node{rank}"));
    let shared = ocean.dir.join("shared").display().to_string();
    let config =
        [&REVOLVE[..], &[("GPUZIP_PERSIST_SHARED_DIR", &shared), ("GPUZIP_PERSIST_OVERHEAD", "1")]];
    let start = || ocean.on_nodes(4, keys, &config.concat());
    let (mut resumed, mut killed) = (0, 0);
    for round in 0..8 {
        let mut flushers: Vec<Child> = (0..4)
            .map(|rank| {
                let mut command = Command::new(library().join("gpuzip"));
                command.arg("flushd").arg(node(rank)).args(["--grace", "60"]);
                command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
            })
            .collect();
        let mut command = start();
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for(&mut child, 2 + 3 * round, &node(0));
        let (is_lost, signal) =
            (round % 4, if round % 2 == 0 { libc::SIGTERM } else { libc::SIGKILL });
        if signal == libc::SIGTERM {
            ocean.kill_ranks();
        }
        for flusher in &mut flushers {
            // SAFETY: a process of this test, which is not waited for yet.
            unsafe { libc::kill(flusher.id() as libc::pid_t, signal) };
            let status = flusher.wait().unwrap();
            assert!(signal == libc::SIGKILL || status.success(), "{status}");
        }
        ocean.kill_ranks();
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        resumed += usize::from(told.contains("shallow_water: goes on after action "));
        killed += usize::from(!output.status.success());
        if output.status.success() {
            assert!(std::fs::read(ocean.gradient()).unwrap() == kept, "it had ended");
        }
        if told.contains("no generation is complete on all ranks") {
            // A node was lost before the first copies were complete: the run begins anew.
            assert!(signal == libc::SIGKILL || round > 0, "{told}");
            for folder in (0..4).map(node).chain([PathBuf::from(&shared)]) {
                std::fs::remove_dir_all(folder).unwrap();
            }
        } else {
            std::fs::remove_dir_all(node(is_lost)).unwrap();
        }
    }
    assert!(killed > 0 && resumed > 1, "{killed} runs were killed, {resumed} went on");
    let output = start().output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    assert!(std::fs::read(ocean.gradient()).unwrap() == kept);
}

/// Four ranks, each on a node of its own, one of which is lost after the ranks were killed, with its folder. There is
/// no shared folder: its files are computed from those of the other nodes, and the run never begins anew.
#[test]
fn runs_go_on_from_copies_on_other_nodes_with_the_same_bits() {
    let keys = "nx=60 ny=40 steps=400 tests=F";
    let Some(ocean) = Ocean::all("copies").into_iter().next() else { return };
    let (kept, ..) = ocean.run(1, &format!("{keys} states=kept"), &[]);
    let keys = format!("{keys} copies=1");
    let config = [&REVOLVE[..], &[("GPUZIP_PERSIST_OVERHEAD", "0.1")]].concat();
    let _ = std::fs::remove_file(ocean.gradient());
    let node = |rank: usize| ocean.dir.join(format!("node{rank}"));
    let mut lost = None;
    let mut rounds = 0;
    for round in 0..9 {
        let mut command = ocean.on_nodes(4, &keys, &config);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        if round < 8 {
            // Each generation is protected before the next one: at least the third, which is within the shot.
            wait_for(&mut child, 4 + 2 * round, &node((round + 1) % 4));
            ocean.kill_ranks();
        }
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        if let Some(lost) = lost {
            assert!(
                told.contains("shallow_water: files from copies: "),
                "node {lost} was lost: {told}"
            );
            assert!(told.contains("shallow_water: goes on after action "), "{told}");
        }
        if output.status.success() {
            rounds = round;
            break;
        }
        assert!(round < 8, "{told}");
        std::fs::remove_dir_all(node(round % 4)).unwrap();
        lost = Some(round % 4);
    }
    assert!(rounds > 1, "the run ended before nodes were lost");
    assert!(std::fs::read(ocean.gradient()).unwrap() == kept);
}
