//! The GPU bundle without a GPU: the script that runs the parts, the tables of the summary, and all
//! parts on the software CUDA driver.

use crate::common::{self, emu, example};
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
        "{{\"part\": \"{part}\", \"exit_code\": {code}, \"seconds\": {seconds}, \"limit\": 9, \"cut\": false, \
         \"deadline\": 540, \"commit\": \"abc\", \"command\": \"run {part}\"}}\n"
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
    let text = stdout(&run(Command::new("python3")
        .arg(root().join("gpu-bundle/summary.py"))
        .arg(dir.join("results.jsonl"))
        .arg(&dir)));
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

fn executable(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// The sorted names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A bundle whose programs are scripts: the program of the part `minimal` notes the summary so far
/// and who may write to the folder of kernels; the program of `suite` fails, and in
/// `capture` and `midshot` it never ends.
fn scripted_bundle(dir: &Path) -> PathBuf {
    let bundle = dir.join("bundle");
    std::fs::create_dir_all(dir.join("kernels")).unwrap();
    std::fs::create_dir(&bundle).unwrap();
    std::fs::create_dir(dir.join("tmp")).unwrap();
    std::fs::write(dir.join("kernels/k.cubin"), "kernel").unwrap();
    run(Command::new("tar")
        .args(["--owner=nobody:65534", "--mode=a+rwx", "-C"])
        .arg(dir)
        .arg("-czf")
        .arg(bundle.join("kernels.tar.gz"))
        .arg("kernels"));
    let text = std::fs::read_to_string(root().join("gpu-bundle/run")).unwrap();
    let short = text.replace("#   capture 5 ", "#   capture 1 ");
    assert_ne!(text, short);
    std::fs::write(bundle.join("run"), short).unwrap();
    std::fs::copy(root().join("gpu-bundle/summary.py"), bundle.join("summary.py")).unwrap();
    executable(
        &bundle.join("minimal_cuda"),
        "#!/bin/sh\ncp \"$SEEN/out/summary.md\" \"$SEEN/before.md\"\n\
         stat -c '%a %u' \"$GPUZIP_CACHE_DIR\" \"$GPUZIP_CACHE_DIR/k.cubin\" >\"$SEEN/loaded\"\n",
    );
    executable(
        &bundle.join("cuda-tests"),
        "#!/bin/sh\ncase $1 in sessions::*) exit 3 ;; esac\ntail -f /dev/null\n",
    );
    bundle
}

/// Runs parts of the bundle with scripts, and returns the output, which ends with the summary. The
/// exit code is 1: not every part is well.
fn scripted(dir: &Path, deadline: &str, parts: &[&str]) -> String {
    let output = Command::new("bash")
        .arg(scripted_bundle(dir).join("run"))
        .env("OUT", dir.join("out"))
        .env("SEEN", dir)
        .env("TMPDIR", dir.join("tmp"))
        .env("DEADLINE", deadline)
        .env_remove("GPUZIP_CACHE_DIR")
        .args(parts)
        .output()
        .unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(names(&dir.join("tmp")).is_empty(), "the private folder is left");
    text
}

/// The file of a release: a bundle of scripts, packed. Beside it a program stands for nvidia-smi.
fn release(dir: &Path) -> PathBuf {
    let (bundle, packed) = (scripted_bundle(dir), dir.join("gpuzip-gpu-bundle.tar.gz"));
    std::fs::copy(root().join("gpu-bundle/try.sh"), bundle.join("try.sh")).unwrap();
    run(Command::new("tar")
        .args(["--transform", "s,^bundle,gpu-bundle,", "-C"])
        .arg(dir)
        .arg("-czf")
        .arg(&packed)
        .arg("bundle"));
    std::fs::create_dir(dir.join("bin")).unwrap();
    executable(&dir.join("bin/nvidia-smi"), "#!/bin/sh\necho a GPU, 1.2\n");
    packed
}

/// A command in `dir` that finds the stand-in of nvidia-smi first.
fn beside(dir: &Path, program: &str) -> Command {
    let path = format!("{}:{}", dir.join("bin").display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(program);
    command.current_dir(dir).env("PATH", path).env("SEEN", dir).env_remove("GPUZIP_CACHE_DIR");
    command.env("TMPDIR", dir.join("tmp"));
    command
}

/// The script for anyone's GPU takes a path or an address, and the notebook takes its cells' constant; both
/// leave the summary, of which parts that fail are a part, and nothing else. What is wrong is said.
#[test]
fn anyones_gpu_leaves_one_file_to_send() {
    if !have("bash") || !have("python3") || !have("curl") {
        return;
    }
    let dir = tempdir("gpu-bundle-try");
    let packed = release(&dir);
    let script = root().join("gpu-bundle/try.sh");
    for address in [packed.display().to_string(), format!("file://{}", packed.display())] {
        let mut shell = beside(&dir, "sh");
        let output = shell.arg(&script).arg(address).args(["suite", "capture"]).output().unwrap();
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(1), "a part fails: {text}");
        has_rows(&text, &["suite: exit code 3", "capture: exit code 124"]);
        let summary = std::fs::read_to_string(dir.join("gpuzip-gpu-summary.md")).unwrap();
        has_rows(&summary, &["suite", "a GPU, 1.2"]);
        assert!(text.contains("send") && names(&dir.join("tmp")).is_empty(), "{text}");
        std::fs::remove_file(dir.join("gpuzip-gpu-summary.md")).unwrap();
    }
    // The cells of the notebook, one after the other, with an address.
    let cells = "import json, sys\n\
                 cells = json.load(open(sys.argv[1]))['cells']\n\
                 cells = [''.join(c['source']) for c in cells if c['cell_type'] == 'code']\n\
                 assert cells[0].count('ADDRESS = \"\"') == 1\n\
                 cells[0] = cells[0].replace('ADDRESS = \"\"', f'ADDRESS = {sys.argv[2]!r}')\n\
                 scope = {}\n\
                 for cell in cells: exec(cell, scope)\n";
    let mut python = beside(&dir, "python3");
    let notebook = root().join("gpu-bundle/gpuzip-gpu.ipynb");
    let printed = stdout(&run(python
        .args(["-W", "error", "-c", cells])
        .arg(notebook)
        .arg(&packed)
        .env("DEADLINE", "3")));
    has_rows(&printed, &["minimal: exit code", "The file to send:"]);
    assert!(dir.join("gpuzip-gpu-summary.md").exists());
    // Nothing is given, no bundle, no driver.
    let fails = |command: &mut Command, part: &str| {
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && text.contains(part), "{part}: {text}");
    };
    fails(beside(&dir, "sh").arg(&script), "there is no release yet");
    fails(beside(&dir, "sh").arg(&script).arg(no_bundle(&dir)), "is no bundle");
    fails(beside(&dir, "sh").arg(&script).arg(dir.join("none")), "cannot be read");
    let mut without = beside(&dir, "sh");
    std::fs::remove_file(dir.join("bin/nvidia-smi")).unwrap();
    if !have("nvidia-smi") {
        fails(without.arg(&script).arg(&packed), "no nvidia-smi");
    }
}

/// A file that is no bundle.
fn no_bundle(dir: &Path) -> PathBuf {
    let file = dir.join("nothing.tar.gz");
    std::fs::write(&file, "nothing").unwrap();
    file
}

fn has_rows(text: &str, rows: &[&str]) {
    rows.iter().for_each(|row| assert!(text.contains(row), "no {row} in\n{text}"));
}

/// Parts that fail or hang stop no other part. After every part the summary is there and says which
/// these were; three files are left, and nothing else.
#[test]
fn a_part_that_fails_or_hangs_stops_nothing() {
    if !have("bash") || !have("python3") {
        return;
    }
    let dir = tempdir("gpu-bundle-run");
    let text = scripted(&dir, "540", &["suite", "no-such", "capture", "minimal"]);
    let failed =
        ["| suite | FAILED (3) |", "| no-such | FAILED (2) |", "| capture | out of time |"];
    has_rows(&text, &failed);
    let log = "## The log of `no-such`\n\n```text\nno such part: no-such\n```";
    has_rows(&text, &["| minimal | ok |", log]);
    let before = std::fs::read_to_string(dir.join("before.md")).unwrap();
    has_rows(&before, &failed);
    assert!(!before.contains("minimal"), "{before}");

    let out = dir.join("out");
    assert_eq!(names(&out), ["logs.tar.gz", "results.jsonl", "summary.md"]);
    let last = format!("The file to send: {}\n", out.join("summary.md").display());
    assert!(text.ends_with(&last), "{text}");
    assert!(text.contains(&std::fs::read_to_string(out.join("summary.md")).unwrap()));
    let logs = stdout(&run(Command::new("tar").arg("-tf").arg(out.join("logs.tar.gz"))));
    assert!(logs.contains("logs/suite.log\n") && logs.contains("logs/minimal.log\n"), "{logs}");

    // SAFETY: geteuid takes no pointer and cannot fail.
    let user = unsafe { libc::geteuid() };
    let kernels = std::fs::read_to_string(dir.join("loaded")).unwrap();
    assert_eq!(kernels, format!("700 {user}\n700 {user}\n"), "the kernels are a private copy");
    if have("shellcheck") {
        run(Command::new("shellcheck")
            .arg(root().join("gpu-bundle/run"))
            .arg(root().join("gpu-bundle/make.sh")));
    }
}

/// A part that runs at the deadline is stopped, and no other begins: the summary says which.
#[test]
fn the_deadline_cuts_what_is_left() {
    if !have("bash") || !have("python3") {
        return;
    }
    let dir = tempdir("gpu-bundle-deadline");
    let text = scripted(&dir, "3", &["midshot", "minimal", "ncu"]);
    has_rows(
        &text,
        &[
            "| midshot | cut at the deadline |",
            "| minimal | not begun before the deadline | 0 | 0 |",
            "| ncu | not begun before the deadline | 0 | 0 |",
            "The deadline of 3 s cut: midshot, minimal, ncu.",
        ],
    );
    assert!(!dir.join("before.md").exists(), "minimal ran");
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

/// The limits of the parts that run without arguments leave 20 seconds of the deadline, which is a
/// minute before ten minutes: the summaries, too, are written in time.
#[test]
fn the_parts_fit_before_the_deadline() {
    let parts = parts();
    assert_eq!(parts.iter().map(|(_, limit)| limit).sum::<u32>(), 520, "{parts:?}");
    let text = std::fs::read_to_string(root().join("gpu-bundle/run")).unwrap();
    assert!(text.contains("(520 together)") && text.contains("deadline=${DEADLINE:-540}"));
    let all = text.split("\nall=\"").nth(1).unwrap().split('"').next().unwrap();
    let named: Vec<&str> = parts.iter().map(|(part, _)| part.as_str()).collect();
    assert_eq!(all.split_whitespace().collect::<Vec<_>>(), named);
}

/// Stands for the programs of the bundle that make.sh calls: leaves images, named after the NVRTC on
/// the library path, whose content is the arguments.
const PREBUILDS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
int main(int argc, char **argv) {
    const char *folder = getenv("GPUZIP_TEST_PREBUILD"), *nvrtc = getenv("LD_LIBRARY_PATH");
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "--dir")) folder = argv[i + 1];
    for (int ptx = 0; folder && ptx < 2; ptx++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s%s", folder, nvrtc, ptx ? ".ptx" : ".cubin");
        mkdir(folder, 0700);
        FILE *file = fopen(name, "a");
        for (int i = 1; i < argc; i++) fprintf(file, "%s ", argv[i]);
        fclose(file);
    }
    return 0;
}
"#;

/// Makes a checkout in which make.sh finds stand-ins for what takes long: nvcc, NVRTC, cargo, and
/// the examples. Returns the built programs' folder.
fn checkout(dir: &Path) -> PathBuf {
    for folder in ["gpu-bundle", "tests/c", "c-examples/rtm3d_cuda", "out/release"] {
        std::fs::create_dir_all(dir.join(folder)).unwrap();
    }
    let bundle = ["make.sh", "run", "try.sh", "summary.py", "ncu.py"]
        .map(|name| format!("gpu-bundle/{name}"));
    for file in bundle.iter().map(String::as_str).chain(["tests/c/lose_wait.c"]) {
        std::fs::copy(root().join(file), dir.join(file)).unwrap();
    }
    let release = dir.join("out/release");
    std::fs::write(dir.join("program.c"), PREBUILDS).unwrap();
    run(Command::new("cc").arg("-o").arg(release.join("gpuzip")).arg(dir.join("program.c")));
    library_of(&release, 1);
    let program = release.join("gpuzip");
    executable(&dir.join("nvcc"), "#!/bin/sh\necho sm_75 sm_80 sm_90\n");
    std::fs::write(dir.join("tests/nvcc.sh"), format!("echo {}/nvcc\n", dir.display())).unwrap();
    std::fs::write(dir.join("tests/nvrtc.sh"), "echo nvrtc-$1\n").unwrap();
    std::fs::write(
        dir.join("c-examples/rtm3d_cuda/Makefile"),
        format!(
            "all:\n\tfor name in rtm3d_cuda stall minimal_cuda; do cp {} $(BUILD)/$$name; done\n\
             \techo $(ARCHS) $(GPUZIP_LIB) >{}/examples\nminimal:\n",
            program.display(),
            dir.display()
        ),
    )
    .unwrap();
    let mut cargo = "#!/bin/sh\n".to_owned();
    let test = dir.join("cuda-0a1b");
    std::fs::copy(&program, &test).unwrap();
    cargo += &format!("echo '{{\"executable\":\"{}\"}}'\n", test.display());
    executable(&dir.join("cargo"), &cargo);
    release
}

/// Builds a library with this number of bytes of data.
fn library_of(release: &Path, bytes: usize) {
    let source = release.join("library.c");
    std::fs::write(&source, format!("char data[{bytes}] = {{1}};\n")).unwrap();
    run(Command::new("cc").args(["-shared", "-o"]).arg(release.join("libgpuzip.so")).arg(source));
}

/// make.sh takes relative paths, packs the kernels of both versions of NVRTC, and refuses a bundle
/// of more than 45 MiB.
#[test]
fn a_bundle_is_packed_and_its_size_is_checked() {
    if !have("cc") || !have("make") || !have("strip") {
        return;
    }
    let dir = tempdir("gpu-bundle-make");
    let release = checkout(&dir);
    let make = || {
        let mut make = Command::new("sh");
        make.current_dir(&dir).env_remove("CC").arg("gpu-bundle/make.sh");
        make.args(["bundle", "out"]).arg(dir.join("cargo")).output().unwrap()
    };
    let output = make();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    let packed = "commit cuda-tests gpuzip kernels.tar.gz libgpuzip.so \
                  lose_wait.so minimal_cuda ncu.py rtm3d_cuda run stall summary.py try.sh";
    assert_eq!(names(&dir.join("bundle")).join(" "), packed);
    assert!(!dir.join("bundle.work").exists());
    let mut list = Command::new("tar");
    let listed = stdout(&run(list.arg("-tzf").arg(dir.join("gpuzip-gpu-bundle.tar.gz"))));
    assert!(listed.starts_with("gpu-bundle/\n") && listed.contains("gpu-bundle/try.sh\n"));
    let examples = std::fs::read_to_string(dir.join("examples")).unwrap();
    assert_eq!(examples, format!("75 80 90 {}\n", release.display()), "what nvcc knows");
    run(Command::new("tar").arg("-C").arg(&dir).arg("-xf").arg(dir.join("bundle/kernels.tar.gz")));
    let kernels = dir.join("kernels");
    let images =
        ["nvrtc-12.9.86.cubin", "nvrtc-12.9.86.ptx", "nvrtc-13.5.37.cubin", "nvrtc-13.5.37.ptx"];
    assert_eq!(names(&kernels), images);
    for image in images {
        let said = std::fs::read_to_string(kernels.join(image)).unwrap();
        let archs = match image.starts_with("nvrtc-12") {
            true => "--arch 75 --arch 80 --arch 90 machine::prebuild --exact",
            false => {
                "--arch 75 --arch 80 --arch 90 --arch 100 --arch 120 machine::prebuild --exact"
            }
        };
        assert!(said.contains("kernels --prebuild --ptx") && said.contains(archs), "{said}");
    }
    library_of(&release, 46 << 20);
    let output = make();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("must have at most 46080 KiB"), "{error}");
}

/// Returns the test programs that the bundle carries, built as this program is.
fn test_programs() -> Vec<(String, PathBuf)> {
    let names = ["cuda"];
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
            format!("-I{}", root().join("c-examples/rtm3d_cuda/tests/cuda-runtime").display()),
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
        link(
            &example::build_with(
                &of,
                "c-examples/rtm3d_cuda/tests/cuda-runtime",
                parts,
                &more,
                &small,
            )
            .0,
            name,
        );
    }
    link(&minimal(dir, &linked), "minimal_cuda");
    for name in ["summary.py", "ncu.py"] {
        std::fs::copy(root().join("gpu-bundle").join(name), bundle.join(name)).unwrap();
    }
    // The limits are those of a GPU: a busy machine without one gets ten times as long.
    let mut script = std::fs::read_to_string(root().join("gpu-bundle/run")).unwrap();
    for (part, limit) in parts() {
        script = script.replace(&format!("#   {part} {limit} "), &format!("#   {part} {limit}0 "));
    }
    std::fs::write(bundle.join("run"), script).unwrap();
    common::compile_library(&root().join("tests/c/lose_wait.c"), bundle.join("lose_wait.so"));
    std::fs::write(bundle.join("commit"), "dry-run\n").unwrap();
    bundle
}

/// What ncu writes for two kernels with `--page raw --csv --print-units base`.
const NCU_TABLE: &str = r#"==PROF== Connected to process 4242 (/bundle/cuda-tests)
==PROF== Profiling "dct_encode": 0%....50%....100% - 2 passes
==PROF== Disconnected from process 4242
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","dram__bytes.sum","dram__throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum","sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active","sm__inst_issued.avg.pct_of_peak_sustained_active","sm__warps_active.avg.pct_of_peak_sustained_active"
"","","","","","","","","","","","byte","%","ns","%","%","%"
"0","4242","cuda-tests","127.0.0.1","dct_encode(unsigned long, const float *)","1","14","(128, 1, 1)","(65536, 1, 1)","0","9.0","150,994,944","21.52","210,500","38.1","61.25","49.9"
"1","4242","cuda-tests","127.0.0.1","half_encode","1","14","(256, 1, 1)","(65536, 1, 1)","0","9.0","201,326,592","n/a","75,000","12.5","30","92"
"#;

/// A stand-in for compute-sanitizer and nsys.
const STAND_IN: &str = r#"#!/bin/sh
while [ "$1" = profile ] || [ "${1#--}" != "$1" ]; do
    case $1 in
    --tool) tool=$2 && shift ;;
    --error-exitcode | --force-overwrite | --output) shift ;;
    esac
    shift
done
case ${tool-} in racecheck | synccheck) exec test -x "$1" ;; esac
exec "$@"
"#;

/// A stand-in for ncu, which leaves the table and runs its command.
const NCU: &str = r#"#!/bin/sh
while [ "${1#--}" != "$1" ]; do
    case $1 in
    --csv) ;;
    --log-file) file=$2 && shift ;;
    *) shift ;;
    esac
    shift
done
cat >"$file" <<'END'
TABLEEND
exec "$@"
"#;

/// Writes scripts that stand for NVIDIA's ncu, compute-sanitizer and nsys: they run their command, so
/// that the parts of the bundle that use them run, too. The commands of racecheck and synccheck are
/// memcheck's, and need not run again. Returns a path of programs with the scripts first.
fn stand_ins(dir: &Path) -> std::ffi::OsString {
    let tools = dir.join("tools");
    std::fs::create_dir(&tools).unwrap();
    for name in ["compute-sanitizer", "nsys"] {
        executable(&tools.join(name), STAND_IN);
    }
    executable(&tools.join("ncu"), &NCU.replace("TABLE", NCU_TABLE));
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
        .env("DEADLINE", "5400")
        .envs([("EXTENT", "48"), ("STEPS", "4"), ("SNAPSHOTS", "3"), ("LIMIT", "20")])
        .env("PATH", stand_ins(&dir))
        .env("BENCH", "--n1 8 --n2 8 --n3 8 --border 4")
        .output()
        .unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
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
        .chain(["saves", "streams", "capture", "midshot", "memory", "full", "ends", "encoded"])
    {
        assert!(results.contains(&format!("\"probe\": \"{probe}\"")), "{probe}: {results}");
    }
    assert!(results.contains("\"wrong_states\": true") && results.contains("\"hash\": "));
    for row in [
        "\"kernel\": \"dct_encode\", \"seconds\": 0.0002105, \"dram_bytes\": 150994944.0, \
         \"issue_percent\": 61.25, \"alu_percent\": 38.1, \"dram_percent\": 21.52, \"warps_percent\": 49.9}",
        "\"kernel\": \"half_encode\", \"seconds\": 7.5e-05, \"dram_bytes\": 201326592.0, \
         \"issue_percent\": 30.0, \"alu_percent\": 12.5, \"dram_percent\": null, \"warps_percent\": 92.0}",
    ] {
        assert!(results.contains(row), "no {row} in {results}");
    }
    let tools: Vec<&str> = results.split("\"tool\": \"").skip(1).collect();
    assert_eq!(tools.len(), 7, "{results}");
    assert!(names(&dir.join("out")).len() <= 8);
}
