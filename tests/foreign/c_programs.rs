//! C programs, linked to the library as users link them, under sanitizers and under valgrind; the
//! exported symbols; the libraries that libgpuzip.so needs.

use crate::common;
use crate::common::cases::long;
use crate::header::Header;
use common::{compile_c, compile_everything, folder_in_memory, library, needs, root, run, stdout};
use common::{tempdir, valgrind};
use std::process::Command;

const SOURCES: [&str; 9] = [
    "tests/c/abi.c",
    "tests/c/run.c",
    "tests/c/online.c",
    "tests/c/codec.c",
    "tests/c/halo.c",
    "tests/c/quality.c",
    "tests/c/check.c",
    "tests/c/revolve.c",
    "tests/c/gradient.c",
];

#[test]
fn a_c_program_is_clean_under_sanitizers() {
    let dir = tempdir("sanitized");
    let strict = ["-std=c99", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread"];
    let sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let flags = [&strict[..], &sanitizers].concat();
    for source in SOURCES {
        let program = compile_c(&dir, "cc", &flags, &root().join(source));
        let output = run(Command::new(program).env("ASAN_OPTIONS", "detect_leaks=1"));
        assert_eq!(stdout(&output), "ok\n", "{source}");
    }
    let program =
        compile_everything(&dir, &[&["-std=c11", "-g", "-O1"], &sanitizers[..]].concat(), &[]);
    everything(Command::new(program).env("ASAN_OPTIONS", "detect_leaks=1"), 200);
}

/// Runs random sessions of tests/c/everything.c.
fn everything(command: &mut Command, jobs: u32) {
    let folder = folder_in_memory(&format!("c-everything-{jobs}"));
    let printed = stdout(&run(command.current_dir(&folder).args(["0", &jobs.to_string()])));
    assert!(printed.starts_with(&format!("{jobs} jobs: ")), "{printed}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_c_program_is_clean_under_valgrind() {
    needs!("valgrind");
    let dir = tempdir("valgrind");
    let kinds = "definite,indirect,possible";
    // Programs that take no argument ignore it.
    let few = (!long()).then_some("few");
    let check = |source: &str| {
        let program = compile_c(&dir, "cc", &["-std=c99", "-g", "-pthread"], &root().join(source));
        let output = run(valgrind(&program, kinds).args(few));
        assert_eq!(stdout(&output), "ok\n", "{source}");
    };
    // Valgrind runs one thread at a time, so two programs share the time of two cores.
    std::thread::scope(|scope| {
        scope.spawn(|| SOURCES[..2].iter().for_each(|source| check(source)));
        SOURCES[2..].iter().for_each(|source| check(source));
        let program = compile_everything(&dir, &["-std=c11", "-g", "-O1"], &[]);
        everything(&mut valgrind(&program, kinds), 20);
    });
}

/// Processes that end, or close the library, without `gpuzip_finalize`, while snapshots are in
/// transfer.
#[test]
fn a_process_may_leave_in_the_middle_of_a_shot() {
    let dir = tempdir("leave");
    let program = dir.join("leave");
    let flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"];
    run(Command::new("cc")
        .args(flags)
        .arg("-I")
        .arg(root().join("include"))
        .arg(root().join("tests/c/leave.c"))
        .arg("-o")
        .arg(&program)
        .arg("-ldl"));
    for way in ["return", "exit", "_exit", "thread", "atexit", "dlclose"] {
        let output = Command::new("timeout")
            .arg("60")
            .arg(&program)
            .arg(library().join("libgpuzip.so"))
            .arg(way)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{way}: {text}");
    }
}

#[test]
fn the_callers_floating_point_environment_changes_nothing() {
    let dir = tempdir("float");
    let flags = ["-std=gnu11", "-O1", "-frounding-math", "-Wall", "-Wextra", "-Werror", "-pthread"];
    let program = compile_c(&dir, "cc", &flags, &root().join("tests/c/float.c"));
    let long = long().then_some("long");
    assert_eq!(stdout(&run(Command::new(program).args(long))), "ok\n");
}

/// In a locale with a decimal comma, which this test makes, gpuzip reads and writes numbers with a
/// decimal point.
#[test]
fn a_locale_changes_nothing() {
    let dir = tempdir("locale");
    let source =
        "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n";
    std::fs::write(dir.join("comma.src"), source).unwrap();
    // localedef warns, also by its exit status, of the categories that this locale does not define.
    let made = Command::new("localedef")
        .current_dir(&dir)
        .args(["-c", "-i", "comma.src", "./comma"])
        .output();
    if made.is_err() || !dir.join("comma/LC_NUMERIC").exists() {
        println!("skipped: localedef makes no locale here");
        return;
    }
    let configuration = "compressor = lorenzo\nerror_bound = 0.0125\ncompression_factor = 2.5\ndevice_budget = 1.5G\nbackend = host\n\
                         trace_out = run.json\nenable_performance_log = 1\n";
    std::fs::write(dir.join("gpuzip.cfg"), configuration).unwrap();
    let program = compile_c(
        &dir,
        "cc",
        &["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"],
        &root().join("tests/c/locale.c"),
    );
    assert_eq!(
        stdout(&run(Command::new(program).current_dir(&dir).env("LOCPATH", &dir).arg("comma"))),
        "ok\n"
    );
    let timeline = std::fs::read_to_string(dir.join("run.json")).unwrap();
    serde_json::from_str::<serde_json::Value>(&timeline).unwrap();
    let log = std::fs::read_to_string(dir.join("gpuzip_performance.csv")).unwrap();
    let columns: Vec<usize> = log.lines().map(|line| line.split(',').count()).collect();
    assert!(columns.len() == 2 && columns[0] == columns[1], "{log}");
}

#[test]
fn only_the_abi_is_exported() {
    let listed =
        run(Command::new("nm").args(["-D", "--defined-only"]).arg(library().join("libgpuzip.so")));
    let mut exported: Vec<String> = stdout(&listed)
        .lines()
        .filter_map(|line| line.split_whitespace().last().map(String::from))
        .collect();
    let mut declared: Vec<String> =
        Header::ours().functions.into_iter().map(|f| f.result.name).collect();
    exported.sort();
    declared.sort();
    assert_eq!(exported, declared);
}

#[test]
fn it_needs_libc_only() {
    let needed = stdout(&run(Command::new("ldd").arg(library().join("libgpuzip.so"))));
    for line in needed.lines() {
        let known = ["linux-vdso", "libc.so", "libm.so", "libgcc_s.so", "ld-linux"];
        assert!(known.iter().any(|name| line.contains(name)), "{line}");
    }
}

/// With several ranks, a line of the log tells whose it is, if the launcher tells the process its rank.
#[test]
fn lines_of_the_log_name_the_rank() {
    let dir = tempdir("rank");
    let source = dir.join("rank.c");
    let text = "#include <gpuzip.h>\nint main(void) { gpuzip_config_t c; return gpuzip_config_load(0, &c) < 0; }\n";
    std::fs::write(&source, text).unwrap();
    let program = compile_c(&dir, "cc", &["-std=c99"], &source);
    let mut alone = Command::new(program);
    for name in ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"] {
        alone.env_remove(name);
    }
    alone.env("GPUZIP_COMPRESOR", "zfp");
    let line = |command: &mut Command| String::from_utf8(run(command).stderr).unwrap();
    let plain = line(&mut alone);
    assert!(plain.contains("] the variable GPUZIP_COMPRESOR is none of gpuzip's"), "{plain}");
    for (name, rank) in [("PMI_RANK", "3"), ("OMPI_COMM_WORLD_RANK", "17")] {
        let expected = plain.replacen("] ", &format!("] rank {rank}: "), 1);
        assert_eq!(line(alone.env(name, rank)), expected);
    }
}
