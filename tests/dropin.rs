//! Programs written for GPUZIP 2.x build with `include/gpuzip-dropin/` and the library, and get the right answer. The programs are in
//! `tests/cxx/`; the numbers of defects are those that GPUZIP 2.x had: errors exit (1), the caller's fields are overwritten (9), memory grows
//! per shot (10), a retrieve before the save reads out of bounds (11).

mod common;

use common::{have, library, root, run, stdout, tempdir};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const STRICT: [&str; 6] = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"];
const HEADERS: [&str; 12] = [
    "Compressor.hpp",
    "checkpointing/Checkpointing.hpp",
    "checkpointing/Schedule.hpp",
    "common/GPUZIPBuilders.cpp",
    "common/GPUZIPConfig.h",
    "common/GPUZIPError.h",
    "common/GPUZIPLogger.cpp",
    "common/real_t.h",
    "common/structs.h",
    "prefetch/Checkpointing.hpp",
    "prefetch/Prefetch.cuh",
    "prefetch/Shape.hpp",
];

/// A compiler with the one include path that the headers need.
fn compiler(name: &str, flags: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(flags).arg("-I").arg(root().join("include/gpuzip-dropin"));
    command
}

/// Compiles and links `sources` as `dir/name`.
fn build(dir: &Path, name: &str, flags: &[&str], sources: &[PathBuf]) -> PathBuf {
    let (program, lib) = (dir.join(name), library().display().to_string());
    let mut command = compiler("c++", flags);
    command.args(sources).arg("-o").arg(&program).args([&format!("-L{lib}"), "-lgpuzip", &format!("-Wl,-rpath,{lib}")]);
    run(&mut command);
    program
}

/// Compiles one program of `tests/cxx/`, strictly.
fn build_ours(dir: &Path, name: &str, more: &[&str]) -> PathBuf {
    let flags: Vec<&str> = [&["-std=c++14", "-O1"], &STRICT[..], more].concat();
    build(dir, name, &flags, &[root().join(format!("tests/cxx/{name}.cpp"))])
}

fn expect(program: &Path, arguments: &[&str], output: &str) {
    let got = stdout(&run(Command::new(program).args(arguments)));
    assert_eq!(got, output, "{program:?} {arguments:?}");
}

#[test]
fn every_header_stands_alone_in_every_standard() {
    if !have("c++") {
        return;
    }
    let dir = tempdir("dropin-headers");
    for compiler_name in ["c++", "clang++"] {
        if !have(compiler_name) {
            continue;
        }
        for header in HEADERS {
            let source = dir.join("alone.cpp");
            fs::write(&source, format!("#include \"{header}\"\n#include \"{header}\"\nint main() {{ return 0; }}\n")).unwrap();
            for standard in ["-std=c++14", "-std=c++17", "-std=c++20"] {
                run(compiler(compiler_name, &[standard, "-fsyntax-only"]).args(STRICT).arg(&source));
            }
        }
    }
}

#[test]
fn all_headers_in_two_units_of_one_program() {
    if !have("c++") {
        return;
    }
    let dir = tempdir("dropin-units");
    for standard in ["-std=c++14", "-std=c++17", "-std=c++20"] {
        let objects = [1, 2].map(|unit| {
            let object = dir.join(format!("unit{unit}.o"));
            let source = root().join("tests/cxx/units.cpp");
            run(compiler("c++", &[standard, "-c", &format!("-DUNIT={unit}")]).args(STRICT).arg(source).arg("-o").arg(&object));
            object
        });
        expect(&build(&dir, "units", &[standard], &objects), &[], "30\n");
    }
}

#[test]
fn shots_are_identical_for_algorithms_and_caches() {
    if !have("c++") {
        return;
    }
    let program = build_ours(&tempdir("dropin-shots"), "shots", &[]);
    for algorithm in 1..=6 {
        for cache in 0..=6 {
            for steps in ["1", "2", "7", "100"] {
                let kind = if cache % 2 == 0 { "float" } else { "double" };
                expect(&program, &[steps, &algorithm.to_string(), &cache.to_string(), "9", kind], "identical\n");
            }
        }
    }
    // Snapshots chosen by the library.
    for algorithm in ["1", "3", "4", "6"] {
        expect(&program, &["100", algorithm, "3", "0"], "identical\n");
    }
}

#[test]
fn every_builder_and_both_types() {
    if !have("c++") {
        return;
    }
    let program = build_ours(&tempdir("dropin-builders"), "shots", &[]);
    for build in ["extents", "bytes", "first_save"] {
        for kind in ["float", "double"] {
            for algorithm in ["1", "2", "3", "4", "5", "6"] {
                for steps in ["1", "2", "60"] {
                    expect(&program, &[steps, algorithm, "3", "7", kind, build], "identical\n");
                }
            }
        }
    }
}

#[test]
fn recorded_traces_are_replayed() {
    if !have("c++") {
        return;
    }
    let dir = tempdir("dropin-trace");
    let (record, replay) = (build_ours(&dir, "trace", &[]), build_ours(&dir, "shots", &[]));
    for algorithm in ["1", "2", "3", "5", "6"] {
        let file = dir.join(format!("trace{algorithm}.txt"));
        fs::write(&file, run(Command::new(&record).args(["80", algorithm, "10"])).stdout).unwrap();
        for (cache, kind) in [("0", "float"), ("1", "double"), ("2", "float"), ("4", "double")] {
            for build in ["extents", "first_save"] {
                expect(&replay, &["80", "0", cache, "0", kind, build, file.to_str().unwrap()], "identical\n");
            }
        }
    }
}

#[test]
fn errors_are_exceptions_and_the_process_lives() {
    if !have("c++") {
        return;
    }
    let program = build_ours(&tempdir("dropin-errors"), "errors", &[]);
    expect(&program, &[], "all caught\n");
}

/// AddressSanitizer with its leak check, and UBSan, over the C++ side: whole shots, errors, objects deleted in any order.
#[test]
fn sanitizers_find_nothing() {
    if !have("c++") {
        return;
    }
    let dir = tempdir("dropin-sanitizers");
    let flags = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let clean = |program: &Path, arguments: &[&str], output: &str| {
        let mut command = Command::new(program);
        command.args(arguments).env("ASAN_OPTIONS", "detect_leaks=1:detect_stack_use_after_return=1");
        assert_eq!(stdout(&run(&mut command)), output, "{program:?} {arguments:?}");
    };
    clean(&build_ours(&dir, "errors", &flags), &[], "all caught\n");
    let shots = build_ours(&dir, "shots", &flags);
    for (algorithm, cache) in [("1", "0"), ("1", "3"), ("2", "1"), ("3", "4"), ("4", "6")] {
        for build in ["extents", "bytes", "first_save"] {
            clean(&shots, &["60", algorithm, cache, "6", "double", build], "identical\n");
        }
    }
}

/// The library keeps sessions in a table, so that a forgotten one is no leak to LeakSanitizer: the memory of the process tells.
#[test]
fn memory_does_not_grow_with_shots_or_objects() {
    if !have("c++") {
        return;
    }
    if !cfg!(target_os = "linux") {
        return println!("skipped: /proc is needed");
    }
    let output = run(&mut Command::new(build_ours(&tempdir("dropin-growth"), "growth", &[])));
    assert!(stdout(&output).starts_with("flat"), "{}", stdout(&output));
}

/// SetLevel and PerfTraceSwitch stand above the configuration; a zeroed configuration logs at DEBUG.
#[test]
fn the_logger_has_the_last_word() {
    if !have("c++") {
        return;
    }
    let dir = tempdir("dropin-logger");
    let source = dir.join("logger.cpp");
    fs::write(
        &source,
        "#include \"common/GPUZIPBuilders.cpp\"
int main(int argc, char **argv) {
  gpuzip_config_t config;
  config.checkpointing_algorithm = 1;
  if (argc > 1) GPUZIPLogger::SetLevel(argv[1][0] - '0');
  if (argc > 2) GPUZIPLogger::PerfTraceSwitch(argv[2][0] == '1');
  const std::unique_ptr<Checkpointing> schedule(CheckpointingBuilder(&config, 1));
  const std::unique_ptr<Prefetch> prefetch(PrefetchBuilder(&config, 4, 4, 1, 1, schedule.get()));
  for (;;) {
    const Action action = schedule->GetAction();
    prefetch->Dispatch(schedule->GetIt());
    if (action.actionType == ACTION_TERMINATE) break;
    if (action.actionType == ACTION_SAVE || action.actionType == ACTION_RESTORE) return 1;
  }
  prefetch->Report();
}
",
    )
    .unwrap();
    let program = build(&dir, "logger", &["-std=c++14"], &[source]);
    let log = dir.join("performance.csv");
    let stderr = |arguments: &[&str]| {
        let output = run(Command::new(&program).args(arguments).env("GPUZIP_PERFORMANCE_LOG", &log).env_remove("GPUZIP_LOG"));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(stderr(&[]).contains("0 forward and 1 backward"), "a report at DEBUG");
    assert_eq!(stderr(&["2"]), "", "nothing at WARN");
    assert!(!log.exists(), "no performance log unless it is asked for");
    stderr(&["3", "1"]);
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 2, "a heading and one shot");
}

/// An application as GPUZIP's users have it, compiled as it is. It is not in this repository: `GPUZIP_SHARED` says where, or `../shared`.
#[test]
fn an_awave_program_runs_unmodified() {
    if !have("c++") {
        return;
    }
    let shared = std::env::var_os("GPUZIP_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    let source = shared.join("reference/awave_snippet.cpp");
    if !source.exists() {
        return println!("skipped: {} is not there", source.display());
    }
    let dir = tempdir("dropin-awave");
    for standard in ["-std=c++20", "-std=c++17", "-std=c++14"] {
        let program = build(&dir, "awave", &[standard, "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"], std::slice::from_ref(&source));
        expect(&program, &[], "identical\n");
    }
    for algorithm in 1..=4 {
        for cache in 0..=6 {
            for steps in ["1", "2", "7", "200"] {
                expect(&dir.join("awave"), &[steps, &algorithm.to_string(), &cache.to_string()], "identical\n");
            }
        }
    }
}
