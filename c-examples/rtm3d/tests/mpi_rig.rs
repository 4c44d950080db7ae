//! The program rtm3d_mpi under OpenMPI and MPICH, as the tests of many ranks build and run it.

use crate::common::{have, library, root, run, stdout, tempdir};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Options of rtm3d for jobs with several shots, on a grid of three and of two dimensions.
pub const THREE_D: [&str; 12] =
    ["--n1", "16", "--n2", "12", "--n3", "20", "--border", "6", "--steps", "24", "--shots", "3"];
pub const TWO_D: [&str; 12] =
    ["--n1", "16", "--n2", "30", "--n3", "1", "--border", "6", "--steps", "24", "--shots", "3"];

/// The installed MPIs; prints which are missing.
pub fn mpis() -> Vec<&'static str> {
    ["openmpi", "mpich"]
        .into_iter()
        .filter(|mpi| have(&format!("mpicc.{mpi}")) && have(&format!("mpirun.{mpi}")))
        .collect()
}

pub fn make(example: &str, dir: &Path, arguments: &[String]) {
    let (build, lib) =
        (format!("BUILD={}", dir.display()), format!("GPUZIP_LIB={}", library().display()));
    run(Command::new("make")
        .args(["-s", "-j2", "-C"])
        .arg(root().join("c-examples").join(example))
        .args([build, lib])
        .args(arguments));
}

/// Removes gpuzip's variables from the program's environment and gives each rank one thread.
pub fn quiet(mut command: Command) -> Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GPUZIP_")) {
        command.env_remove(name);
    }
    command.env("OMP_WAIT_POLICY", "passive").env("OMP_NUM_THREADS", "1");
    command
}

pub fn rtm3d() -> Command {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mpi-serial");
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| make("rtm3d", &dir, &[]));
    quiet(Command::new(dir.join("rtm3d")))
}

/// The program rtm3d_mpi, built with one MPI.
pub struct Mpi {
    pub name: &'static str,
    pub dir: PathBuf,
}

impl Mpi {
    /// Builds the program if need be, and copies it into a folder of this test.
    pub fn new(name: &'static str, test: &str) -> Self {
        let dir = tempdir(&format!("mpi-{test}-{name}"));
        static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let build = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("mpi-{name}"));
        let guard = ONE_AT_A_TIME.lock();
        make("rtm3d_mpi", &build, &[format!("MPICC=mpicc.{name}"), "CFLAGS=-O1 -Werror".into()]);
        drop(guard);
        std::fs::copy(build.join("rtm3d_mpi"), dir.join("rtm3d_mpi")).unwrap();
        Self { name, dir }
    }

    pub fn ranks(&self, ranks: usize, arguments: &[&str], config: &[(&str, &str)]) -> Output {
        let mut command = quiet(Command::new(format!("mpirun.{}", self.name)));
        if self.name == "openmpi" {
            command
                .arg("--oversubscribe")
                .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
                .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        command
            .args(["-np", &ranks.to_string()])
            .arg(self.dir.join("rtm3d_mpi"))
            .args(arguments)
            .arg("--out")
            .arg(self.dir.join("out"));
        command.envs(config.iter().map(|(key, value)| (key.to_string(), value)));
        // mpirun ends ranks that wait for each other for more than 100 seconds, with a failure.
        command.env("MPIEXEC_TIMEOUT", "100");
        command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
    }

    /// The JSON object that the program prints; the run must succeed.
    pub fn json(&self, ranks: usize, arguments: &[&str], config: &[(&str, &str)]) -> String {
        let output = self.ranks(ranks, &[arguments, &["--json"]].concat(), config);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{} on {ranks} ranks, {arguments:?}: {text}", self.name);
        let json = stdout(&output);
        assert_eq!(json.lines().count(), 1, "one object: {json}");
        json
    }
}

/// The value of a key, as text.
pub fn value<'a>(json: &'a str, key: &str) -> &'a str {
    let start = json.find(&format!("\"{key}\": ")).unwrap_or_else(|| panic!("no {key} in {json}"))
        + key.len()
        + 4;
    json[start..].split([',', '}']).next().unwrap().trim_matches('"')
}

/// The parts of the output that do not depend on the number of ranks: the names of all keys, and
/// hashes, schedule and counts.
pub fn facts(json: &str) -> Vec<String> {
    let keys = [
        "image_hash",
        "illumination_hash",
        "identical",
        "shots",
        "steps",
        "algorithm",
        "forward_steps",
        "backward_steps",
        "saves",
    ];
    let names = json
        .split('"')
        .skip(1)
        .step_by(2)
        .filter(|name| !name.contains(['/', '.']))
        .collect::<Vec<_>>()
        .join(" ");
    keys.iter().map(|key| format!("{key} {}", value(json, key))).chain([names]).collect()
}
