//! Programs written for GPUZIP 2.x build with `include/gpuzip-dropin/` and the library, and compute
//! the right states. The programs are in `tests/foreign/cxx/`. Their comments number the defects of
//! GPUZIP 2.x: errors exit (1), the caller's fields are overwritten (9), memory grows per shot
//! (10), a retrieve before the save reads out of bounds (11).

use crate::common::{self, emu};
use crate::header::Header;
use crate::install::tree;
use common::{have, library, needs, root, run, stdout, tempdir};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const STRICT: [&str; 6] = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"];
/// The paths of the drop-in headers, relative to their folder.
fn headers() -> Vec<String> {
    let headers = tree(&root().join("include/gpuzip-dropin"));
    assert_eq!(headers.len(), 21, "{headers:?}");
    headers
}

/// A command that starts compiler `name` with the one include path that the drop-in headers need.
fn compiler(name: &str, flags: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(flags).arg("-I").arg(root().join("include/gpuzip-dropin"));
    command
}

/// Compiles and links `sources` as `dir/name`.
fn build(dir: &Path, name: &str, flags: &[&str], sources: &[PathBuf]) -> PathBuf {
    let (program, lib) = (dir.join(name), library().display().to_string());
    let mut command = compiler("c++", flags);
    command.args(sources).arg("-o").arg(&program).args([
        &format!("-L{lib}"),
        "-lgpuzip",
        &format!("-Wl,-rpath,{lib}"),
    ]);
    run(&mut command);
    program
}

/// Compiles a program from its text.
fn build_text(dir: &Path, name: &str, flags: &[&str], text: &str) -> PathBuf {
    let source = dir.join(name).with_extension("cpp");
    fs::write(&source, text).unwrap();
    build(dir, name, &[&["-std=c++14"], flags].concat(), &[source])
}

/// Compiles `tests/foreign/cxx/{name}.cpp` with the warnings of `STRICT` as errors.
fn build_ours(dir: &Path, name: &str, more: &[&str]) -> PathBuf {
    let flags: Vec<&str> = [&["-std=c++14", "-O1"], &STRICT[..], more].concat();
    build(dir, name, &flags, &[root().join(format!("tests/foreign/cxx/{name}.cpp"))])
}

fn expect(program: &Path, arguments: &[&str], output: &str) {
    let got = stdout(&run(Command::new(program).args(arguments)));
    assert_eq!(got, output, "{program:?} {arguments:?}");
}

#[test]
fn every_header_stands_alone_in_every_standard() {
    needs!("c++");
    let dir = tempdir("dropin-headers");
    for compiler_name in ["c++", "clang++"].into_iter().filter(|name| have(name)) {
        for header in headers() {
            let source = dir.join("alone.cpp");
            fs::write(
                &source,
                format!(
                    "#include \"{header}\"\n#include \"{header}\"\nint main() {{ return 0; }}\n"
                ),
            )
            .unwrap();
            for standard in ["-std=c++14", "-std=c++17", "-std=c++20"] {
                run(compiler(compiler_name, &[standard, "-fsyntax-only"])
                    .args(STRICT)
                    .arg(&source));
            }
        }
    }
}

#[test]
fn all_headers_in_two_units_of_one_program() {
    needs!("c++");
    let dir = tempdir("dropin-units");
    for standard in ["-std=c++14", "-std=c++17", "-std=c++20"] {
        let objects = [1, 2].map(|unit| {
            let object = dir.join(format!("unit{unit}.o"));
            let source = root().join("tests/foreign/cxx/units.cpp");
            run(compiler("c++", &[standard, "-c", &format!("-DUNIT={unit}")])
                .args(STRICT)
                .arg(source)
                .arg("-o")
                .arg(&object));
            object
        });
        expect(&build(&dir, "units", &[standard], &objects), &[], "30\n");
    }
}

/// Writes headers with the few names of the CUDA runtime that `GPUZIP_CUDA_CHECK` needs and with
/// NVTX calls that print; returns the compiler option for their folder.
fn stand_ins(dir: &Path) -> String {
    fs::create_dir_all(dir.join("nvtx3")).unwrap();
    fs::write(
        dir.join("cuda_runtime.h"),
        "#pragma once
enum cudaError_t { cudaSuccess, cudaErrorInvalidDevice };
inline cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
inline const char *cudaGetErrorString(cudaError_t) { return \"no such device\"; }
",
    )
    .unwrap();
    fs::write(
        dir.join("nvtx3/nvToolsExt.h"),
        "#pragma once
#include <cstdio>
inline int nvtxRangePushA(const char *title) { return std::fprintf(stderr, \"push %s\\n\", title); }
inline int nvtxRangePop() { return std::fprintf(stderr, \"pop\\n\"); }
",
    )
    .unwrap();
    format!("-I{}", dir.display())
}

/// Every name of GPUZIP 2.x's interface compiles without a warning in every standard, and behaves
/// as in GPUZIP 2.x.
#[test]
fn every_name_of_the_original_compiles_and_does_its_work() {
    needs!("c++");
    let dir = tempdir("dropin-probes");
    let (include, trace) = (stand_ins(&dir), dir.join("trace.txt"));
    let actions = "0 SAVE\n1 FORWARD\n2 FORWARD\n2 SAVE\n3 FORWARD\n3 FIRSTURN\n2 RESTORE\n2 BACKWARD\n0 RESTORE\n1 FORWARD\n1 BACKWARD\n\
                   0 RESTORE\n0 BACKWARD\n0 TERMINATE\n";
    fs::write(&trace, actions).unwrap();
    for compiler_name in ["c++", "clang++"].into_iter().filter(|name| have(name)) {
        for standard in ["-std=c++14", "-std=c++17", "-std=c++20"] {
            let syntax = [standard, "-fsyntax-only", &include];
            run(compiler(compiler_name, &syntax)
                .args(STRICT)
                .arg(root().join("tests/foreign/cxx/probes.cpp")));
        }
    }
    let probes = |more: &[&str]| {
        let program = build_ours(&dir, "probes", &[&[include.as_str()], more].concat());
        let output = run(Command::new(program).arg(&trace).env_remove("GPUZIP_LOG"));
        assert_eq!(stdout(&output), "all hold\n");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let log = probes(&[]);
    let expected =
        "[DEBUG] debug 1\n[WARN] warn three\n[ERROR] error 4.5\n[PERF] perf\nGPUZIP configuration:\n  checkpointing_algorithm = 0\n";
    assert!(log.starts_with(expected), "{log}");
    assert!(
        log.contains("  cache_capacity = 4\n")
            && log.contains("  bitcomp_delta = 1e-08\n")
            && !log.contains("hidden"),
        "{log}"
    );
    assert!(!log.contains("push"), "{log}");
    let ranges = probes(&["-DUSE_NVTX"]);
    assert!(
        ranges.contains("push Compressor-zfp\npop\npush Decompressor-zfp\npop\n")
            && ranges.contains("push a range\npop\n"),
        "{ranges}"
    );
}

/// GPUZIP 2.x's macro USE_DOUBLE makes `real_t` a double.
#[test]
fn use_double_makes_fields_of_doubles() {
    needs!("c++");
    let dir = tempdir("dropin-double");
    let text = "#include \"common/GPUZIPBuilders.cpp\"
int main() {
  gpuzip_config_t config;
  config.checkpointing_algorithm = REVOLVE;
  GPUZIPLogger::SetLevel(GPUZIPLogger::WARN);
  const std::unique_ptr<Checkpointing> schedule(CheckpointingBuilder(&config, 9));
  const std::unique_ptr<Prefetch> prefetch(PrefetchBuilder(&config, 4, 1, 1, 9, schedule.get()));
  real_t curr[4] = {1. / 3, 2, 3, 4}, prev[4] = {};
  Field_t f = {curr, sizeof curr, 4, 1, 1}, g = {prev, sizeof prev, 4, 1, 1};
  schedule->GetAction();
  return sizeof(real_t) == 8 && prefetch->Save(0, &f, &g) ? 0 : 1;
}
";
    for name in ["USE_DOUBLE", "GPUZIP_REAL_DOUBLE"] {
        run(&mut Command::new(build_text(&dir, "double", &[&format!("-D{name}")], text)));
    }
}

#[test]
fn shots_are_identical_for_algorithms_and_caches() {
    needs!("c++");
    let program = build_ours(&tempdir("dropin-shots"), "shots", &[]);
    for algorithm in 1..=6 {
        for cache in 0..=6 {
            for steps in ["1", "2", "7", "100"] {
                let kind = if cache % 2 == 0 { "float" } else { "double" };
                expect(
                    &program,
                    &[steps, &algorithm.to_string(), &cache.to_string(), "9", kind],
                    "identical\n",
                );
            }
        }
    }
    // With 0 snapshots the library chooses their number.
    for algorithm in ["1", "3", "4", "6"] {
        expect(&program, &["100", algorithm, "3", "0"], "identical\n");
    }
}

/// An application of GPUZIP 2.x's users, whose source is not in this repository: it is read from the
/// folder that `GPUZIP_SHARED` names, or else from `../shared`.
#[test]
fn an_awave_program_runs_unmodified() {
    needs!("c++");
    let shared =
        std::env::var_os("GPUZIP_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    let source = shared.join("reference/awave_snippet.cpp");
    if !source.exists() {
        return println!("skipped: {} is not there", source.display());
    }
    let dir = tempdir("dropin-awave");
    let flags = ["-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"];
    let program = ["-std=c++20", "-std=c++17", "-std=c++14"].map(|standard| {
        let program = build(
            &dir,
            "awave",
            &[&flags[..], &[standard]].concat(),
            std::slice::from_ref(&source),
        );
        expect(&program, &[], "identical\n");
        program
    });
    for algorithm in ["1", "2", "3", "4"] {
        for cache in 0..=6 {
            for steps in ["1", "2", "7", "200"] {
                expect(&program[0], &[steps, algorithm, &cache.to_string()], "identical\n");
            }
        }
    }
}

#[test]
fn every_builder_and_both_types() {
    needs!("c++");
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
    needs!("c++");
    let dir = tempdir("dropin-trace");
    let (record, replay) = (build_ours(&dir, "trace", &[]), build_ours(&dir, "shots", &[]));
    for algorithm in ["1", "2", "3", "5", "6"] {
        let file = dir.join(format!("trace{algorithm}.txt"));
        fs::write(&file, run(Command::new(&record).args(["80", algorithm, "10"])).stdout).unwrap();
        for (cache, kind) in [("0", "float"), ("1", "double"), ("2", "float"), ("4", "double")] {
            for build in ["extents", "first_save"] {
                expect(
                    &replay,
                    &["80", "0", cache, "0", kind, build, file.to_str().unwrap()],
                    "identical\n",
                );
            }
        }
    }
}

#[test]
fn errors_are_exceptions_and_the_process_lives() {
    needs!("c++");
    let program = build_ours(&tempdir("dropin-errors"), "errors", &[]);
    expect(&program, &[], "all caught\n");
}

#[test]
fn compressors_keep_their_bound_alone_and_in_a_prefetch() {
    needs!("c++");
    let program = build_ours(&tempdir("dropin-compressor"), "compressor", &[]);
    for compressor in ["1", "2", "3", "4", "5", "6", "7"] {
        for kind in ["float", "double"] {
            let got = stdout(&run(Command::new(&program).args([compressor, kind])));
            match got.strip_prefix("not here: ") {
                Some(reason) if compressor == "2" => println!("skipped: {reason}"),
                _ => assert_eq!(got, "within the bound\n", "{compressor} {kind}"),
            }
        }
    }
}

/// The C++ programs run under AddressSanitizer with its leak check and under UBSan: whole shots,
/// errors, objects deleted in any order.
#[test]
fn sanitizers_find_nothing() {
    needs!("c++");
    let dir = tempdir("dropin-sanitizers");
    let flags = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let clean = |program: &Path, arguments: &[&str], output: &str| {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("ASAN_OPTIONS", "detect_leaks=1:detect_stack_use_after_return=1");
        assert_eq!(stdout(&run(&mut command)), output, "{program:?} {arguments:?}");
    };
    clean(&build_ours(&dir, "errors", &flags), &[], "all caught\n");
    let compressor = build_ours(&dir, "compressor", &flags);
    for number in ["1", "3", "4", "5", "6", "7"] {
        clean(&compressor, &[number, "float"], "within the bound\n");
    }
    let shots = build_ours(&dir, "shots", &flags);
    for (algorithm, cache) in [("1", "0"), ("1", "3"), ("2", "1"), ("3", "4"), ("4", "6")] {
        for build in ["extents", "bytes", "first_save"] {
            clean(&shots, &["60", algorithm, cache, "6", "double", build], "identical\n");
        }
    }
}

/// LeakSanitizer cannot find a session that was never finalized, because the library's table of
/// sessions still refers to it; the program therefore measures the memory of its process.
#[test]
fn memory_does_not_grow_with_shots_or_objects() {
    needs!("c++");
    if !cfg!(target_os = "linux") {
        return println!("skipped: /proc is needed");
    }
    let output = run(&mut Command::new(build_ours(&tempdir("dropin-growth"), "growth", &[])));
    assert!(stdout(&output).starts_with("flat"), "{}", stdout(&output));
}

/// SetLevel and PerfTraceSwitch take precedence over the configuration; a zeroed configuration logs
/// at DEBUG.
#[test]
fn the_logger_has_the_last_word() {
    needs!("c++");
    let dir = tempdir("dropin-logger");
    let text = "#include \"common/GPUZIPBuilders.cpp\"
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
";
    let program = build_text(&dir, "logger", &[], text);
    let log = dir.join("performance.csv");
    let stderr = |arguments: &[&str]| {
        let output = run(Command::new(&program)
            .args(arguments)
            .env("GPUZIP_PERFORMANCE_LOG", &log)
            .env_remove("GPUZIP_LOG"));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(stderr(&[]).contains("0 forward and 1 backward"), "a report at DEBUG");
    assert_eq!(stderr(&["2"]), "", "nothing at WARN");
    assert!(!log.exists(), "no performance log unless it is asked for");
    stderr(&["3", "1"]);
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 2, "a heading and one shot");
}

#[test]
fn a_configuration_file_of_the_original_is_read_as_it_is() {
    needs!("c++");
    let dir = tempdir("dropin-config");
    let file = dir.join("config.cfg");
    let lines = "# GPUZIP 2.x\ncheckpointing_algorithm = 1\ncheckpointing_snaps = 8\ncache_capacity = 4\ncompressor = 3\nlog_level = 2\n\
                 enable_performance_log = 0\nenable_compression_rate_log = 1\ncompression_factor = 4.0\ntrace_file_path = zcut.txt\n\
                 revolve_log_level = 2\nzfp_bit_rate = 12\ncuszp_err_bound = 1e-4\nfloat_kind = double\nbitcomp_delta_config = 1\n\
                 bitcomp_range_fraction = 0.25\nbitcomp_num_sigma = 3\nbitcomp_delta = 0.5\nbitcomp_algorithm = 1\n";
    fs::write(&file, lines).unwrap();
    let text =
        "#include \"common/GPUZIPBuilders.cpp\"
#include <iostream>
int main(int, char **argv) {
  gpuzip_config_t c;
  gpuzip_dropin::check(gpuzip_config_load(argv[1], &c));
  const bool built = CompressorBuilder(&c, 8, 8, 8)->CompressedMaxSize() > 0;
  std::cout << c.checkpointing_algorithm << ' ' << c.checkpointing_snaps << ' ' << c.cache_capacity << ' ' << c.compressor << ' ' << c.log_level
            << ' ' << c.enable_performance_log << ' ' << c.enable_compression_rate_log << ' ' << c.compression_factor << ' ' << c.trace_file_path
            << ' ' << c.revolve_log_level << ' ' << c.zfp_bit_rate << ' ' << c.cuszp_err_bound << ' ' << c.float_kind << ' '
            << c.bitcomp_delta_config << ' ' << c.bitcomp_range_fraction << ' ' << c.bitcomp_num_sigma << ' ' << c.bitcomp_delta << ' '
            << c.bitcomp_algorithm << ' ' << built << std::endl;
  return gpuzip_config_free(&c);
}
";
    let program = build_text(&dir, "config", &[], text);
    expect(
        &program,
        &[file.to_str().unwrap()],
        "1 8 4 3 2 0 1 4 zcut.txt 2 12 0.0001 double 1 0.25 3 0.5 1 1\n",
    );
}

/// Runs `make` with `arguments` in c-examples/awave-swap, which builds in `dir`; returns the
/// output.
fn make_swap(arguments: &[&str], dir: &Path) -> String {
    let (build, lib) =
        (format!("BUILD={}", dir.display()), format!("GPUZIP_LIB={}", library().display()));
    let mut make = Command::new("make");
    make.args(["--no-print-directory", "-C"])
        .arg(root().join("c-examples/awave-swap"))
        .args([build, lib])
        .args(arguments);
    stdout(&run(make.env_remove("MAKEFLAGS")))
}

#[test]
fn the_swap_example_gives_the_image_of_every_state() {
    needs!("c++", "make");
    let dir = tempdir("dropin-swap");
    let strict = format!("CXXFLAGS=-O2 {}", STRICT.join(" "));
    let printed = make_swap(&[&strict, "run"], &dir);
    assert_eq!(
        (printed.matches("identical").count(), printed.matches("close: ").count()),
        (1, 2),
        "{printed}"
    );
    let program = dir.join("awave");
    for algorithm in 1..=6 {
        for cache in ["0", "1", "2", "6"] {
            expect(&program, &["80", &algorithm.to_string(), cache], "identical\n");
        }
    }
    for compressor in ["1", "3", "4", "5", "6", "7"] {
        let printed = stdout(&run(Command::new(&program).args(["200", "1", "3", compressor])));
        assert!(printed.starts_with("close: "), "compressor {compressor}: {printed}");
    }
}

/// The build commands before and after the swap differ in the compiler, one include path and the
/// link line.
#[test]
fn the_swap_changes_one_include_path_and_one_link_line() {
    needs!("make");
    let dir = tempdir("dropin-swap-line");
    let words = |more: &[&str]| {
        let line = make_swap(&[&["-n", "CXX=c++"], more].concat(), &dir);
        line.split_whitespace().map(str::to_string).collect::<Vec<_>>()
    };
    let only = |a: &[String], b: &[String]| {
        a.iter().filter(|word| !b.contains(word)).cloned().collect::<Vec<_>>()
    };
    let (before, after) = (words(&["GPUZIP2=/opt/gpuzip2"]), words(&[]));
    assert_eq!(
        only(&before, &after),
        ["nvcc", "-x", "cu", "-I/opt/gpuzip2/include", "-L/opt/gpuzip2/lib"]
    );
    let lib = library().display().to_string();
    let expected = [
        "c++",
        "-I../../include/gpuzip-dropin",
        &format!("-L{lib}"),
        "-Xlinker",
        "-rpath",
        "-Xlinker",
        &lib,
    ];
    assert_eq!(only(&after, &before), expected);
}

/// docs/gpuzip-2x.md names every drop-in header and every field of GPUZIP 2.x's configuration.
#[test]
fn the_page_has_every_name() {
    let page = fs::read_to_string(root().join("docs/gpuzip-2x.md")).unwrap();
    let header = Header::ours();
    let config = header.structs.iter().find(|s| s.name == "gpuzip_config_t").unwrap();
    let fields = config.members.iter().map(|member| member.name.as_str());
    let fields: Vec<&str> = fields.take_while(|name| *name != "struct_size").collect();
    assert_eq!(fields.len(), 18, "{fields:?}");
    let headers = headers();
    let missing: Vec<&str> = headers
        .iter()
        .map(String::as_str)
        .chain(fields)
        .filter(|name| !page.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "docs/gpuzip-2x.md says nothing of {missing:?}");
}

/// The drop-in headers keep GPUZIP 2.x's promise: once Save returns, the application may overwrite
/// the saved memory on any stream.
#[test]
fn the_drop_in_headers_are_host_synchronous() {
    needs!("c++");
    let dir = common::tempdir("dropin-cuda");
    let include = format!("-I{}", common::root().join("include/gpuzip-dropin").display());
    let program = common::compile_c(
        &dir,
        "c++",
        &["-std=c++14", "-Wall", "-Wextra", "-Werror", &include],
        &common::root().join("tests/foreign/cxx/cuda_overwrite.cpp"),
    );
    let folder = emu::folder_with("dropin", &emu::driver());
    let run = |seed: u64, mode: &str| {
        let mut command = std::process::Command::new(&program);
        command
            .env("LD_LIBRARY_PATH", &folder)
            .env("CUDA_EMU_SEED", seed.to_string())
            .env("GPUZIP_CACHE_DIR", emu::images())
            .arg(mode);
        common::stdout(&common::run(&mut command))
    };
    assert!((0..60).all(|seed| run(seed, "synchronous") == "identical\n"));
    assert!(
        (0..60).any(|seed| run(seed, "asynchronous") == "DIFFERENT\n"),
        "the test sees what the promise is for"
    );
    assert_eq!(run(0, "compressors"), "4\n", "compressing device memory");
}
