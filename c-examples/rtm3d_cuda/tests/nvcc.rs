//! The CUDA examples: nvcc compiles them, and their kernels, run on the CPU, must compute the bits
//! of rtm3d. No GPU is needed.

use crate::common::{self, example};
use common::{library, root, run, stdout, tempdir};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Architectures (sm_80, sm_90) that both CUDA 12 and CUDA 13 compile for. CUDA 12 also has sm_70;
/// the oldest of CUDA 13 is sm_75.
const ARCHS: &str = "80 90";

/// The path of an nvcc: an installed one, or one that tests/nvcc.sh installs from PyPI.
fn nvcc() -> Option<&'static Path> {
    static NVCC: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let output = Command::new("sh").arg(root().join("tests/nvcc.sh")).output().unwrap();
        if output.status.success() {
            return Some(PathBuf::from(stdout(&output).trim()));
        }
        println!("skipped: {}", String::from_utf8_lossy(&output.stderr).trim());
        None
    };
    NVCC.get_or_init(find).as_deref()
}

fn make(dir: &Path, nvcc: &Path, archs: &str, targets: &[&str]) -> std::process::Output {
    run(Command::new("make")
        .args(["-j2", "-C"])
        .arg(root().join("c-examples/rtm3d_cuda"))
        .arg(format!("BUILD={}", dir.display()))
        .arg(format!("GPUZIP_LIB={}", library().display()))
        .arg(format!("NVCC={}", nvcc.display()))
        .arg(format!("ARCHS={archs}"))
        .args(targets))
}

#[test]
fn the_programs_compile_and_say_that_there_is_no_gpu() {
    let Some(nvcc) = nvcc() else { return };
    let dir = tempdir("nvcc");
    make(&dir, nvcc, ARCHS, &["all", "minimal"]);
    if gpuzip::device::cuda::devices().is_ok() {
        println!("skipped: this machine has a CUDA driver");
        return;
    }
    for (program, args) in [
        ("minimal_cuda", &[][..]),
        ("rtm3d_cuda", &["--steps", "9"]),
        ("rtm3d_cuda", &["--bench"]),
        ("stall", &["60", "9", "3", "1", "1", "0:lru"]),
    ] {
        let output = Command::new(dir.join(program)).current_dir(&dir).args(args).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{program}: {text}");
        assert!(text.contains(".cu:") && text.contains("CUDA"), "{program}: {text}");
    }
    for (program, args, part) in [
        ("rtm3d_cuda", &["--stepz"][..], "--stepz"),
        ("rtm3d_cuda", &["--gradient"], "--gradient"),
        ("stall", &["-60", "9", "3", "1", "1", "0:lru"], "usage"),
    ] {
        let bad = Command::new(dir.join(program)).args(args).output().unwrap();
        let text = String::from_utf8_lossy(&bad.stderr);
        assert!(bad.status.code() == Some(2) && text.contains(part), "{program} {args:?}: {text}");
    }
}

#[test]
fn the_kernels_do_not_spill() {
    let Some(nvcc) = nvcc() else { return };
    let version = stdout(&run(Command::new(nvcc).arg("--version")));
    let archs = if version.contains("release 12.") { "70 80 90" } else { "75 80 90" };
    let output = make(&tempdir("nvcc-kernels"), nvcc, archs, &["kernels"]);
    let text = stdout(&output) + &String::from_utf8_lossy(&output.stderr);
    let mut kernels = 0;
    for kernel in text.split("Compiling entry function ").skip(1) {
        let name = kernel.lines().next().unwrap();
        assert!(
            kernel.contains("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"),
            "{kernel}"
        );
        let registers = kernel
            .split("Used ")
            .nth(1)
            .and_then(|t| t.split(' ').next())
            .and_then(|t| t.parse::<u32>().ok())
            .unwrap();
        println!("{name} {registers} registers");
        // A multiprocessor's 65536 registers suffice for three blocks of step3, on sm_75 for two.
        assert!(
            registers <= if name.contains("sm_75") { 64 } else { 42 } || !name.contains("step3"),
            "{name}: {registers} registers"
        );
        kernels += usize::from(name.contains("step3"));
    }
    assert_eq!(kernels, 3, "{text}");
}

/// Builds a program of rtm3d_cuda from `parts`, with its kernels on the CPU; returns the paths of
/// this program and of rtm3d.
fn on_the_host(dir: &Path, parts: &[&str]) -> (PathBuf, PathBuf) {
    example::build(dir, "c-examples/rtm3d_cuda/tests/cuda-host", parts, &[])
}

/// Runs the kernels and the time loop thread by thread on the CPU, on grids that tiles, halos and
/// chunks do not divide.
#[test]
fn the_kernels_have_the_bits_of_the_cpu() {
    if !common::have("g++") {
        return;
    }
    let dir = tempdir("nvcc-host");
    let (on_host, rtm3d) = on_the_host(&dir, &["migrate", "rtm3d_cuda"]);
    for args in [
        &[
            "--n1", "24", "--n2", "40", "--n3", "1", "--steps", "30", "--shots", "2", "--border",
            "8",
        ][..],
        &[
            "--n1", "26", "--n2", "9", "--n3", "46", "--steps", "12", "--shots", "1", "--border",
            "5",
        ],
    ] {
        let hashes = |program: &Path| {
            let mut command = Command::new(program);
            command
                .args(args)
                .args(["--json", "--verify", "--out"])
                .arg(dir.join("out"))
                .env("OMP_WAIT_POLICY", "passive");
            for (key, value) in [
                ("CHECKPOINTING_ALGORITHM", "revolve"),
                ("CHECKPOINTING_SNAPS", "4"),
                ("CACHE_CAPACITY", "2"),
            ] {
                command.env(format!("GPUZIP_{key}"), value);
            }
            let json = stdout(&run(&mut command));
            assert!(json.contains("\"identical\": true"), "{json}");
            let from = json.find("\"image_hash\"").unwrap();
            json[from..from + 80].to_string()
        };
        assert_eq!(hashes(&on_host), hashes(&rtm3d), "{args:?}");
        // With zero copy, both programs compute the same bits in the session's memory.
        for compressor in ["none", "dct"] {
            let in_slots = |program: &Path, zero_copy: &str| {
                let mut command = Command::new(program);
                command.args(args).args(["--json", "--out"]).arg(dir.join("out"));
                command.env("OMP_WAIT_POLICY", "passive").env("GPUZIP_ZERO_COPY", zero_copy);
                command.env("GPUZIP_CHECKPOINTING_ALGORITHM", "revolve");
                command.env("GPUZIP_CHECKPOINTING_SNAPS", "5").env("GPUZIP_CACHE_CAPACITY", "3");
                command.env("GPUZIP_COMPRESSOR", compressor);
                let json = stdout(&run(&mut command));
                json[json.find("\"image_hash\"").unwrap()..][..80].to_string()
            };
            let expected = in_slots(&rtm3d, "0");
            assert_eq!(in_slots(&on_host, "1"), expected, "{args:?}, {compressor}");
            assert_eq!(in_slots(&rtm3d, "1"), expected, "{args:?}, {compressor}");
        }
        // Images of every k-th state, with the steps after the last of them, by copies and in slots.
        for (every, zero_copy) in [("4", "0"), ("5", "1"), ("12", "0")] {
            let sparse = |program: &Path, more: &[&str]| {
                let mut command = Command::new(program);
                command.args(args).args(["--every", every, "--json", "--out"]).arg(dir.join("out"));
                command.args(more).env("OMP_WAIT_POLICY", "passive");
                command.env("GPUZIP_CHECKPOINTING_ALGORITHM", "revolve");
                command.env("GPUZIP_CHECKPOINTING_SNAPS", "3").env("GPUZIP_CACHE_CAPACITY", "2");
                command.env("GPUZIP_ZERO_COPY", zero_copy);
                let json = stdout(&run(&mut command));
                assert!(more.is_empty() || json.contains("\"identical\": true"), "{json}");
                json[json.find("\"image_hash\"").unwrap()..][..80].to_string()
            };
            let expected = sparse(&rtm3d, &[]);
            assert_eq!(sparse(&on_host, &["--verify"]), expected, "{args:?}, every {every}");
            assert_ne!(expected, hashes(&rtm3d), "every {every}");
        }
        // Decompression may leave values other than 0 in the halo; both programs must zero them.
        let lossy = |program: &Path| {
            let mut command = Command::new(program);
            command
                .args(args)
                .args(["--json", "--out"])
                .arg(dir.join("out"))
                .env("OMP_WAIT_POLICY", "passive");
            for (key, value) in [
                ("CHECKPOINTING_ALGORITHM", "revolve"),
                ("CHECKPOINTING_SNAPS", "4"),
                ("COMPRESSOR", "dct"),
            ] {
                command.env(format!("GPUZIP_{key}"), value);
            }
            let json = stdout(&run(&mut command));
            json[json.find("\"image_hash\"").unwrap()..][..80].to_string()
        };
        assert_eq!(lossy(&on_host), lossy(&rtm3d), "{args:?}, lossy");
        assert_ne!(lossy(&on_host), hashes(&on_host));
        let sweep = stdout(&run(Command::new(&on_host)
            .args(args)
            .args(["--sweep", "--codecs", "none", "--json"])));
        assert!(
            sweep.contains("\"error\": null") && sweep.contains("\"shown_relative_l2\": 0}"),
            "{sweep}"
        );
    }
}

/// The program `stall`, which the GPU bundle runs: raw configurations give the same bits, and
/// configurations with codecs nearly the same image.
#[test]
fn stall_compares_codecs() {
    if !common::have("g++") {
        return;
    }
    let dir = tempdir("nvcc-stall");
    let (stall, _) = on_the_host(&dir, &["stall"]);
    let configurations = ["2:clairvoyant", "0:lru", "2:clairvoyant:dct:1e-3", "2:lru:zfp:8"];
    let mut command = Command::new(&stall);
    command
        .args(["52", "70", "6", "1", "1000"])
        .args(configurations)
        .env("OMP_WAIT_POLICY", "passive");
    let text = stdout(&run(&mut command));
    let runs: Vec<&str> = text.lines().collect();
    assert_eq!(runs.len(), configurations.len(), "{text}");
    let number = |run: &str, key: &str| -> f64 {
        let at = run.find(&format!("\"{key}\": ")).unwrap_or_else(|| panic!("no {key} in {run}"))
            + key.len()
            + 4;
        run[at..].split([',', '}']).next().unwrap().parse().unwrap()
    };
    let hash = |run: &str| run[run.find("\"image_hash\"").unwrap()..].to_string();
    assert_eq!(hash(runs[0]), hash(runs[1]));
    for run in &runs[..2] {
        assert!(number(run, "filtered_relative_l2") == 0.0 && number(run, "ratio") == 1.0, "{run}");
    }
    for run in &runs[2..] {
        let error = number(run, "filtered_relative_l2");
        assert!(error > 0.0 && error < 0.05 && number(run, "ratio") > 3.5, "{run}");
        assert!(number(run, "filtered_psnr") > 40.0, "{run}");
    }
    let bad =
        Command::new(&stall).args(["52", "9", "3", "1", "1000", "2:lru:no-such"]).output().unwrap();
    assert_eq!(bad.status.code(), Some(1), "{bad:?}");
}

#[test]
fn an_awave_program_compiles_as_cuda() {
    let shared =
        std::env::var_os("GPUZIP_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    let source = shared.join("reference/awave_snippet.cpp");
    if !source.is_file() {
        println!("skipped: no {} (set GPUZIP_SHARED)", source.display());
        return;
    }
    let Some(nvcc) = nvcc() else { return };
    let program = tempdir("nvcc-awave").join("awave");
    let lib = library().display();
    run(Command::new(nvcc)
        .args([
            "-x",
            "cu",
            "-std=c++17",
            "-arch=sm_80",
            "-Werror",
            "all-warnings",
            "-Xcompiler",
            "-Wall,-Wextra",
            "-I",
        ])
        .arg(root().join("include/gpuzip-dropin"))
        .arg("-I")
        .arg(root().join("include"))
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .args([&format!("-L{lib}"), "-lgpuzip", "-Xlinker", &format!("-rpath,{lib}")]));
    // The program's fields are in ordinary memory, so that it runs without a GPU.
    assert_eq!(stdout(&run(&mut Command::new(program))), "identical\n");
}

#[test]
fn the_swap_example_compiles_as_cuda() {
    let Some(nvcc) = nvcc() else { return };
    let dir = tempdir("nvcc-swap");
    run(Command::new("make")
        .arg("-C")
        .arg(root().join("c-examples/awave-swap"))
        .arg(format!("BUILD={}", dir.display()))
        .arg(format!("GPUZIP_LIB={}", library().display()))
        .arg(format!("COMPILE={} -x cu -arch=sm_80 -Werror all-warnings", nvcc.display())));
    if gpuzip::device::cuda::devices().is_ok() {
        println!("skipped: this machine has a CUDA driver");
        return;
    }
    let output = Command::new(dir.join("awave")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && text.contains("awave: cudaMallocManaged: "),
        "{text}"
    );
}
