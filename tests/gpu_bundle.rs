//! The GPU bundle without a GPU: the script that runs the parts, the tables of the summary, and all
//! parts on the software CUDA driver.

mod common;
#[path = "cuda/emu.rs"]
mod emu;
#[allow(dead_code)] // Each test program uses a part of it.
#[path = "cuda/example.rs"]
mod example;

use common::{have, library, root, run, stdout, tempdir};
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A line of the program `stall` as `run` keeps it, with invented numbers.
fn stall(cache: u32, policy: &str, seconds: f64) -> String {
    format!(
        "{{\"part\": \"stall-revolve\", \"device\": \"none\", \"extent\": 400, \"steps\": 3000, \"algorithm\": \"revolve\", \"snapshots\": 20, \
         \"cache\": {cache}, \"policy\": \"{policy}\", \"slot_bytes\": 512000000, \"seconds\": {seconds}, \"forward_step_seconds\": 0.0004, \
         \"backward_step_seconds\": 0.001, \"ideal_of_plan\": 10.0, \"ideal_of_problem\": 5.0, \"h2d_bytes\": 8000000000, \
         \"d2h_bytes\": 4000000000, \"stall\": 5.0, \"image_hash\": \"0123456789abcdef\"}}\n"
    )
}

fn verdict(part: &str, code: i32, seconds: u32) -> String {
    format!(
        "{{\"part\": \"{part}\", \"exit_code\": {code}, \"seconds\": {seconds}, \"limit\": 9, \"commit\": \"abc\", \"command\": \"run {part}\"}}\n"
    )
}

#[test]
fn tables_are_made_of_what_there_is() {
    if !have("python3") {
        return;
    }
    let dir = tempdir("gpu-bundle");
    let lines = stall(0, "clairvoyant", 40.0)
        + &stall(4, "clairvoyant", 20.0)
        + &stall(4, "lru", 25.0)
        + &verdict("stall-revolve", 124, 400)
        + &verdict("suite", 0, 7)
        + "{\"cut off";
    std::fs::write(dir.join("results.jsonl"), lines).unwrap();
    let text =
        stdout(&run(Command::new("python3").arg(root().join("gpu-bundle/summary.py")).arg(&dir)));
    for row in [
        "Commit abc.",
        "| stall-revolve | out of time | 400 | 9 |",
        "| suite | ok | 7 | 9 |",
        "| revolve | 20 | 0 | synchronous | 40.00 | 5.00 (12 %) | 8 | 4 | 1.00 | 4.00 | 8.00 | 1.0 |",
        "| revolve | 20 | 4 | clairvoyant | 20.00 | 5.00 (25 %) | 8 | 4 | 2.00 | 2.00 | 4.00 | 1.0 |",
        "| revolve | 20 | 4 | lru | 25.00 | 5.00 (20 %) | 8 | 4 | 1.60 | 2.50 | 5.00 | 1.0 |",
        "Images: identical",
    ] {
        assert!(text.contains(row), "no {row} in\n{text}");
    }
    assert!(!text.contains("software"), "{text}");
}

/// The summary names the parts that failed, and is written although they failed.
#[test]
fn a_part_that_fails_stops_nothing() {
    if !have("bash") || !have("python3") {
        return;
    }
    let dir = tempdir("gpu-bundle-run");
    let output = Command::new("bash")
        .arg(root().join("gpu-bundle/run"))
        .env("OUT", dir.join("out"))
        .args(["minimal", "no-such"])
        .output()
        .unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("| minimal | FAILED (127)") && text.contains("| no-such | FAILED (2)"),
        "{text}"
    );
    if have("shellcheck") {
        run(Command::new("shellcheck")
            .arg(root().join("gpu-bundle/run"))
            .arg(root().join("gpu-bundle/make.sh")));
    }
}

/// The parts that run without arguments, with their limits in seconds: those of the script's help.
fn parts() -> Vec<(String, u32)> {
    let text = std::fs::read_to_string(root().join("gpu-bundle/run")).unwrap();
    let of = |line: &str| {
        let mut words = line.strip_prefix("#   ")?.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
    };
    let table = text.split("# By name only").next().unwrap();
    table.lines().filter_map(of).collect()
}

/// The limits of the parts that run without arguments add up to ten minutes.
#[test]
fn the_parts_fit_in_ten_minutes() {
    let parts = parts();
    assert_eq!(parts.iter().map(|(_, limit)| limit).sum::<u32>(), 600, "{parts:?}");
    let text = std::fs::read_to_string(root().join("gpu-bundle/run")).unwrap();
    let all = text.split("\nall=\"").nth(1).unwrap().split('"').next().unwrap();
    let named: Vec<&str> = parts.iter().map(|(part, _)| part.as_str()).collect();
    assert_eq!(all.split_whitespace().collect::<Vec<_>>(), named);
}

/// Returns the test programs that the bundle carries, built as this program is.
fn test_programs() -> Vec<(String, PathBuf)> {
    let names = ["cuda", "gpu_codecs", "gpu_machine"];
    let mut build = Command::new(env!("CARGO"));
    build.current_dir(root()).args(["test", "--no-run", "--message-format=json"]);
    let text = stdout(&run(build.args(names.iter().flat_map(|name| ["--test", name]))));
    let program = |name: &str| {
        let files = text.split("\"executable\":\"").skip(1).map(|rest| rest.split('"').next());
        let is_it = |file: &&str| {
            let of = Path::new(file).file_name().unwrap().to_str().unwrap();
            of.rsplit_once('-').is_some_and(|(of, _)| of == name)
        };
        let file = files.flatten().find(is_it).unwrap_or_else(|| panic!("no {name} in {text}"));
        (format!("{}-tests", name.replace('_', "-")), PathBuf::from(file))
    };
    names.into_iter().map(program).collect()
}

/// Builds `c-examples/minimal.cu` with 256 x 256 points and 20 steps, linked with `more`.
fn minimal(dir: &Path, more: &[String]) -> PathBuf {
    let source = std::fs::read_to_string(root().join("c-examples/minimal.cu")).unwrap();
    let small = source.replace("N = 512", "N = 256").replace("1000, &state", "20, &state");
    assert_ne!(source, small);
    let (_, rest) = small.split_once("const int N").unwrap();
    let (kernels, _) = rest.split_once("int main()").unwrap();
    let named = format!("const int N{kernels}").replace("__global__", "extern \"C\" __global__");
    let (of_gpu, of_host) = (dir.join("minimal.cu"), dir.join("minimal.cpp"));
    std::fs::write(&of_gpu, named).unwrap();
    std::fs::write(&of_host, example::in_cpp(&small)).unwrap();
    let (lib, program) = (library().display(), dir.join("minimal_cuda"));
    run(Command::new("g++")
        .args(["-std=c++17", "-O2"])
        .args([
            format!("-I{}", root().join("tests/cuda-runtime").display()),
            format!("-I{}", root().join("include").display()),
            format!("-DKERNELS=\"{}\"", of_gpu.display()),
        ])
        .arg(of_host)
        .arg("-o")
        .arg(&program)
        .args([&format!("-L{lib}"), "-lgpuzip", &format!("-Wl,-rpath,{lib}")])
        .args(more));
    program
}

/// A bundle for the software driver, whose folder is `driver`: the programs of nvcc are compiled by
/// g++ on a stand-in for the CUDA runtime.
fn software_bundle(dir: &Path, driver: &Path) -> PathBuf {
    let bundle = dir.join("bundle");
    std::fs::create_dir(&bundle).unwrap();
    let link = |to: &Path, name: &str| symlink(to, bundle.join(name)).unwrap();
    for (name, program) in test_programs() {
        // A copy: what the test programs look for beside themselves lies in the bundle.
        std::fs::copy(program, bundle.join(name)).unwrap();
    }
    for name in ["gpuzip", "libgpuzip.so", "libgpuzip.so.0"] {
        link(&library().join(name), name);
    }
    let kernels = dir.join("kernels.cu");
    std::fs::write(&kernels, example::kernels()).unwrap();
    let linked = [format!("-L{}", driver.display()), "-l:libcuda.so.1".into()];
    let more = [&linked[..], &[format!("-DKERNELS=\"{}\"", kernels.display())]].concat();
    let small =
        [("(size_t)1 << 30", "(size_t)1 << 20"), ("#define REPEATS 21", "#define REPEATS 1")];
    for (name, parts) in [("rtm3d_cuda", &["migrate", "rtm3d_cuda"][..]), ("stall", &["stall"])] {
        let of = dir.join(name);
        std::fs::create_dir(&of).unwrap();
        link(&example::build_with(&of, "tests/cuda-runtime", parts, &more, &small).0, name);
    }
    link(&minimal(dir, &linked), "minimal_cuda");
    for name in ["run", "summary.py"] {
        std::fs::copy(root().join("gpu-bundle").join(name), bundle.join(name)).unwrap();
    }
    run(Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(bundle.join("lose_wait.so"))
        .arg(root().join("tests/c/lose_wait.c"))
        .arg("-ldl"));
    std::fs::write(bundle.join("commit"), "dry-run\n").unwrap();
    bundle
}

/// Writes scripts that stand for NVIDIA's compute-sanitizer and nsys: they run their command, so that
/// the parts of the bundle that use them run, too. Returns a path of programs with the scripts first.
fn stand_ins(dir: &Path) -> std::ffi::OsString {
    let tools = dir.join("tools");
    std::fs::create_dir(&tools).unwrap();
    for name in ["compute-sanitizer", "nsys"] {
        let program = tools.join(name);
        let text = "#!/bin/sh\nwhile [ \"$1\" = profile ] || [ \"${1#--}\" != \"$1\" ]; do\n\
                    case $1 in --tool | --error-exitcode | --force-overwrite | --output) shift ;; esac\n\
                    shift\ndone\nexec \"$@\"\n";
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths([tools].into_iter().chain(std::env::split_paths(&path))).unwrap()
}

/// The whole bundle on the software driver, small: every part ends well. The results say that the
/// device is software, and hold no speeds.
#[test]
fn all_parts_run_on_the_software_driver() {
    if !have("bash") || !have("python3") || !have("g++") || !have("cc") {
        return;
    }
    let dir = tempdir("gpu-bundle-dry");
    let driver = emu::folder_with("gpu-bundle", &emu::driver());
    let bundle = software_bundle(&dir, &driver);
    let output = Command::new("bash")
        .arg(bundle.join("run"))
        .env("OUT", dir.join("out"))
        .env("LD_LIBRARY_PATH", driver)
        .env("GPUZIP_CACHE_DIR", emu::images())
        .env("CUDA_EMU_MEMORY", "256M")
        .envs([("EXTENT", "48"), ("STEPS", "8"), ("SNAPSHOTS", "6"), ("LIMIT", "20")])
        .env("PATH", stand_ins(&dir))
        .env("BENCH", "--n1 8 --n2 8 --n3 8 --border 4")
        .output()
        .unwrap();
    let text = stdout(&output);
    let logs = || {
        let log = |(part, _): &(String, u32)| {
            std::fs::read_to_string(dir.join("out").join(format!("{part}.log"))).unwrap_or_default()
        };
        parts().iter().map(log).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(output.status.code(), Some(0), "{text}\n{}", logs());
    for (part, _) in parts() {
        assert!(text.contains(&format!("| {part} | ok |")), "{part}: {text}");
    }
    assert!(text.contains("gpuzip software device") && text.contains("software CUDA driver"));
    let results = std::fs::read_to_string(dir.join("out/results.jsonl")).unwrap();
    let speeds =
        ["gpoints_per_second", "gb_per_second", "enqueue_seconds", "compress_gbs", "up_gbs"];
    for speed in speeds {
        let member = format!("\"{speed}\": ");
        let figures: Vec<&str> = results.split(&member).skip(1).collect();
        assert!(!figures.is_empty(), "no {speed} in {results}");
        assert!(figures.iter().all(|rest| rest.starts_with("null")), "{speed}: {results}");
    }
    for probe in ["machine", "image", "slow", "lost_wait", "pinning", "numa", "link", "small_copy"]
        .into_iter()
        .chain(["saves", "streams", "capture", "midshot", "memory", "full", "ends"])
    {
        assert!(results.contains(&format!("\"probe\": \"{probe}\"")), "{probe}: {results}");
    }
    assert!(results.contains("\"wrong_states\": true") && results.contains("\"hash\": "));
}
