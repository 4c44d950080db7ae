//! Random faults under restart files on two levels: four ranks, each on a node of its own, and one shared
//! folder, with a process on each node that copies or without, with parity on other nodes or without. The
//! program is tests/c/levels.c.
//! `GPUZIP_TEST_LONG=1` runs the jobs that docs/reliability.md states.

use crate::common;
use crate::common::cases::cases;
use common::{compile_c_with, folder_in_memory, library, library_path, root, run, stdout, tempdir};
use std::path::{Path, PathBuf};
use std::process::Command;

fn program(name: &str) -> PathBuf {
    let sources = ["levels", "levels_job", "levels_faults", "levels_mpi", "levels_run"];
    let sources = sources.map(|name| root().join(format!("tests/c/{name}.c")));
    // The functions of MPI that gpuzip_mpi.h calls are in levels_mpi.c.
    let mpi = root().join("tests/docs").display().to_string();
    let flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I", &mpi];
    compile_c_with(&tempdir(name), "cc", &flags, &sources.each_ref().map(PathBuf::as_path))
}

/// The command that runs so many jobs, from number `first` on, two at a time in the folder `dir`.
fn command(program: &Path, dir: &Path, (first, jobs): (u32, u32)) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).args([first, jobs, 2].map(|number| number.to_string()));
    command.arg(library().join("gpuzip"));
    command
}

/// Ranks, copying processes and nodes die, files are damaged, folders are full, read-only or gone, one or two
/// faults at a time. The program ends with an error if a result is not the one of a run without faults, if a
/// run does not go on from the newest generation that all ranks have, or if a process does not end.
#[test]
fn random_faults_of_nodes_and_folders_give_the_same_bits_or_say_what_is_missing() {
    let (program, dir) = (program("levels"), folder_in_memory("levels"));
    let printed = stdout(&run(&mut command(&program, &dir, (0, cases(40, 200)))));
    std::fs::remove_dir_all(dir).unwrap();
    let (jobs, counts): (Vec<_>, Vec<_>) =
        printed.lines().partition(|line| line.starts_with("job "));
    assert_eq!(jobs.len(), cases(40, 200), "{printed}");
    println!("{}", counts.join("\n"));
    let number = |text: &str| text.trim_start().split(' ').next().unwrap().parse::<u64>().unwrap();
    let (sum, kinds) = counts.split_last().unwrap();
    assert_eq!(kinds.len(), 17, "{printed}");
    for kind in kinds {
        assert!(number(kind) > 0 || kind.ends_with("(nothing can be mounted)"), "{kind}");
    }
    for part in [
        "went on",
        "of them within a shot",
        "ranks from the shared folder",
        "began anew",
        "ended with a text of what is missing",
        "late copying processes",
        "files computed from parity",
    ] {
        let before = sum.split(part).next().unwrap().trim_end();
        assert!(number(before.rsplit(' ').next().unwrap()) > 0, "{part}: {sum}");
    }
    assert!(number(sum) >= cases(100, 500), "{sum}");
}

/// The program sees one value of one rank that is wrong after a restart.
#[test]
fn a_wrong_value_after_a_restart_is_noticed() {
    let (program, dir) = (program("levels-wrong"), folder_in_memory("levels-wrong"));
    let mut command = command(&program, &dir, (0, 4));
    command.arg("plant").env("LD_LIBRARY_PATH", library_path());
    let output = command.output().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && told.contains("WRONG: the result is another one"),
        "{told}"
    );
}
