//! The Fortran interface: its module follows the header, every Fortran procedure does what the C
//! function of the same name does, and the examples compute the right results.

mod bindings;
mod layouts;

use crate::common::{self, checksum::fnv, emu};
use crate::header;
use common::{compile_c, have, library, needs, root, run, stdout, tempdir, valgrind};
use header::Header;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Strict Fortran 2008 with every check at run time. Some warnings are off: gfortran 12 warns of
/// descriptors that it allocates itself; tests compare reals exactly and call functions in
/// conditions.
const STRICT: &str = "-std=f2008 -pedantic -Wall -Wextra -Werror -Wno-uninitialized -Wno-maybe-uninitialized -Wno-compare-reals \
                      -Wno-function-elimination                       -fcheck=all -g -O1";

/// The program that makes every call, in the order in which its modules are compiled.
const CALLS: [&str; 3] = [
    "tests/foreign/fortran/calls_support.f90",
    "tests/foreign/fortran/calls_fields.f90",
    "tests/foreign/fortran/calls.f90",
];

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Runs `make` in fortran/; `dir` takes the build products.
fn make(dir: &Path, arguments: &[&str]) {
    let mut command = Command::new("make");
    command
        .arg("-C")
        .arg(root().join("fortran"))
        .arg(format!("BUILD={}", dir.display()))
        .arg(format!("GPUZIP_LIB={}", library().display()))
        .args(arguments);
    run(&mut command);
}

/// The folder with the module, its library and all examples, built once with the options `STRICT`.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let dir = tempdir("fortran");
        make(&dir, &["examples", &format!("FFLAGS={STRICT}")]);
        dir
    })
}

/// Compiles a program, named after its last source, with the module and the library; `link` adds
/// options for the linker.
fn compile(sources: &[PathBuf], dir: &Path, link: &[&str]) -> PathBuf {
    let name = sources.last().unwrap().file_stem().unwrap();
    let (program, lib) = (dir.join(name), library().display().to_string());
    let mut command = Command::new("gfortran");
    command
        .args(STRICT.split_whitespace())
        .arg("-I")
        .arg(built())
        .arg("-J")
        .arg(dir)
        .args(sources)
        .arg("-o")
        .arg(&program);
    command.arg(built().join("libgpuzip_fortran.a")).args([
        &format!("-L{lib}"),
        "-lgpuzip",
        &format!("-Wl,-rpath,{lib}"),
    ]);
    run(command.args(link));
    program
}

/// A program in an environment without gpuzip's variables.
fn command(program: &Path) -> Command {
    without_variables(Command::new(program))
}

fn without_variables(mut command: Command) -> Command {
    command.env("OMP_WAIT_POLICY", "passive").env("OMP_NUM_THREADS", "2");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GPUZIP_")) {
        command.env_remove(name);
    }
    command
}

#[test]
fn the_module_follows_the_header() {
    let path = root().join("fortran/gpuzip.f90");
    let generated = bindings::update(&read("fortran/gpuzip.f90"), &Header::ours());
    if std::env::var_os("GPUZIP_UPDATE_HEADER").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    assert!(
        generated == read("fortran/gpuzip.f90"),
        "fortran/gpuzip.f90 differs from include/gpuzip.h: run `make header` and commit it"
    );
}

#[test]
fn every_call_of_c_is_one_of_fortran_and_is_tested() {
    let (header, module) = (Header::ours(), read("fortran/gpuzip.f90"));
    let calls = CALLS.map(read).concat();
    let lists = module.lines().filter_map(|line| line.trim_start().strip_prefix("public :: "));
    let public: Vec<&str> = lists.flat_map(|names| names.split(", ")).collect();
    assert!(header.functions.len() >= 37, "{} functions found", header.functions.len());
    for name in header.functions.iter().map(|f| &f.result.name) {
        assert!(
            public.contains(&name.as_str()),
            "{name}: fortran/gpuzip.f90 has no public procedure of this name; write one"
        );
        let called = calls.match_indices(name).any(|(at, _)| {
            !calls[at + name.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
        });
        assert!(called, "{name}: tests/foreign/fortran/calls*.f90 do not call it");
    }
    let is_number = |line: &&str| {
        line.starts_with("#define GPUZIP_") && line.ends_with(|c: char| c.is_ascii_digit())
    };
    let numbers = read("include/gpuzip.h").lines().filter(is_number).count();
    assert_eq!(header.constants.len(), numbers);
}

/// Both programs are generated from the header and print the constants, sizes and offsets that
/// their compilers use.
#[test]
fn c_and_fortran_agree_on_constants_and_layouts() {
    needs!("gfortran");
    let (dir, header) = (tempdir("fortran-layouts"), Header::ours());
    let (c, fortran) = (dir.join("layouts_c.c"), dir.join("layouts_fortran.f90"));
    std::fs::write(&c, layouts::c_program(&header)).unwrap();
    std::fs::write(&fortran, layouts::fortran_program(&header)).unwrap();
    let of_c = stdout(&run(&mut Command::new(compile_c(
        &dir,
        "cc",
        &["-std=c11", "-Wall", "-Werror"],
        &c,
    ))));
    let of_fortran = stdout(&run(&mut Command::new(compile(&[fortran], &dir, &[]))));
    assert!(
        of_c.lines().count() > 150 && of_c.contains("gpuzip_config_t.link_bandwidth 192 8 f8\n"),
        "{of_c}"
    );
    for (c, fortran) in of_c.lines().zip(of_fortran.lines()) {
        assert_eq!(c, fortran, "C and Fortran");
    }
    assert_eq!(of_c.lines().count(), of_fortran.lines().count());
}

#[test]
fn every_call_works_from_fortran() {
    needs!("gfortran");
    let dir = tempdir("fortran-calls");
    let program = compile(&CALLS.map(|source| root().join(source)), &dir, &[]);
    let files = [dir.join("a config"), dir.join("a trace")];
    assert_eq!(stdout(&run(command(&program).args(&files))), "ok\n");
    if have("valgrind") {
        let mut checked = without_variables(valgrind(&program, "definite"));
        assert_eq!(stdout(&run(checked.args(&files))), "ok\n");
    }
}

#[test]
fn gradients_are_judged_in_fortran() {
    needs!("gfortran");
    let dir = tempdir("fortran-gradient");
    let source = root().join("tests/foreign/fortran/gradient.f90");
    let (program, picture) = (compile(&[source], &dir, &[]), dir.join("remainders.svg"));
    assert_eq!(stdout(&run(command(&program).arg(&picture))), "ok\n");
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{picture}");
}

#[test]
fn states_are_identical_from_fortran() {
    needs!("gfortran");
    let program = built().join("smoke");
    for algorithm in 1..=6 {
        for cache in [0, 1, 2, 5] {
            for steps in [1, 2, 60] {
                let arguments = [steps, algorithm, 8, cache].map(|n| n.to_string());
                let output = run(command(&program).args(&arguments));
                assert_eq!(
                    stdout(&output),
                    "identical\n",
                    "steps, algorithm, snapshots, cache: {arguments:?}"
                );
            }
        }
    }
    // Without `stat` an error ends the program with its text.
    let output = command(&program).args(["60", "77", "8", "0"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1)
            && text.starts_with("gpuzip_init: checkpointing_algorithm = 77"),
        "{output:?}"
    );
}

/// Writes a namelist and returns its path.
fn job(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("job.nml");
    std::fs::write(&path, format!("&job {text} /\n")).unwrap();
    path
}

/// A run that is killed or stopped goes on from its restart files with the same bits.
#[test]
fn a_run_that_was_ended_goes_on_with_the_same_bits() {
    needs!("gfortran");
    let (dir, plain) = (tempdir("fortran-restart"), tempdir("fortran-restart-plain"));
    let files = dir.join("files");
    let size = "n1 = 16, n2 = 12, n3 = 20, border = 6, shots = 2, steps = 80";
    let text = |out: &Path| format!("{size}, out = '{}'", out.display());
    run(command(&built().join("rtm3d")).arg(job(&plain, &text(&plain))));
    let whole = job(&dir, &format!("{}, restart_files = '{}'", text(&dir), files.display()));
    let start = || {
        let mut command = command(&built().join("rtm3d"));
        command.arg(&whole).env("GPUZIP_PERSIST_OVERHEAD", "1").env("GPUZIP_STOP_BUDGET_S", "60");
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    for signal in [libc::SIGKILL, libc::SIGTERM, libc::SIGKILL] {
        let mut child = start();
        let is_written = || {
            let entries = std::fs::read_dir(&files).into_iter().flatten().flatten();
            entries.into_iter().any(|e| e.file_name().to_string_lossy().ends_with(".gen"))
        };
        while child.try_wait().unwrap().is_none() && !is_written() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        std::thread::sleep(std::time::Duration::from_millis(30));
        // SAFETY: the child was not waited for, or has ended, so that its number is no one else's.
        unsafe { libc::kill(child.id() as i32, signal) };
        let ended = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        if ended.status.code() == Some(3) {
            assert!(text.contains("continue with the same restart_files"), "{text}");
        } else {
            // It was killed, it had no handlers yet, or it was done.
            assert!(ended.status.code().is_none_or(|code| code == 0), "{text}");
        }
    }
    // No run goes on with the files of another job. Both jobs have the same fields.
    let other = tempdir("fortran-restart-other");
    for (name, value) in
        [("dx", "24"), ("freq", "3"), ("dt", "0.001"), ("smooth", "2"), ("shots", "3")]
    {
        let text =
            format!("{}, restart_files = '{}', {name} = {value}", text(&dir), files.display());
        let output = command(&built().join("rtm3d")).arg(job(&other, &text)).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {told}");
        // Another spacing has another time step, too.
        assert!(told.contains(&format!("restart files had {name} =")), "{name}: {told}");
    }
    let last = start().wait_with_output().unwrap();
    assert!(last.status.success(), "{}", String::from_utf8_lossy(&last.stderr));
    for name in ["correlation.f32", "illumination.f32", "image.f32"] {
        let file = |dir: &Path| std::fs::read(dir.join(name)).unwrap();
        assert!(file(&dir) == file(&plain), "{name}");
    }
}

/// c-examples/rtm3d, in the folder where c-examples/rtm3d/tests/images.rs builds it.
fn c_example() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rtm");
        let arguments =
            [format!("BUILD={}", dir.display()), format!("GPUZIP_LIB={}", library().display())];
        run(Command::new("make").arg("-C").arg(root().join("c-examples/rtm3d")).args(arguments));
        dir.join("rtm3d")
    })
}

#[test]
fn the_image_is_that_of_the_c_example_bit_for_bit() {
    needs!("gfortran");
    let (dir, fast) = (tempdir("fortran-rtm3d"), tempdir("fortran-fast"));
    // The C example and `fast` are built with the defaults of their makefiles, and `built()` with
    // the options `STRICT`.
    make(&fast, &[&format!("{}/rtm3d", fast.display()), "FFLAGS=-O3 -march=native"]);
    let grids = [["16", "12", "20", "60", "2"], ["18", "31", "9", "45", "3"]];
    for [n1, n2, n3, steps, shots] in grids {
        let arguments = [
            "--n1", n1, "--n2", n2, "--n3", n3, "--border", "6", "--steps", steps, "--shots",
            shots, "--verify", "--json", "--out",
        ];
        let json = stdout(&run(command(c_example()).args(arguments).arg(&dir)));
        let image = std::fs::read(dir.join("image.f32")).unwrap();
        let out = tempdir("fortran-rtm3d-out");
        let size = format!("n1 = {n1}, n2 = {n2}, n3 = {n3}, border = 6, steps = {steps}, shots = {shots}, out = '{}'", out.display());
        let job = job(&out, &size);
        let handing = tempdir("fortran-handing");
        let handing = self::job(&handing, &format!("{size}, zero_copy = .true."));
        for (program, threads, config) in [
            (built(), "2", &[][..]),
            (
                &fast,
                "1",
                &[
                    ("GPUZIP_CHECKPOINTING_ALGORITHM", "revolve"),
                    ("GPUZIP_CHECKPOINTING_SNAPS", "5"),
                    ("GPUZIP_CACHE_CAPACITY", "3"),
                ],
            ),
            (
                &fast,
                "2",
                &[("GPUZIP_CHECKPOINTING_ALGORITHM", "zcut"), ("GPUZIP_CACHE_CAPACITY", "2")],
            ),
        ] {
            for job in [&job, &handing] {
                run(command(&program.join("rtm3d"))
                    .arg(job)
                    .envs(config.iter().copied())
                    .env("OMP_NUM_THREADS", threads));
                let file = |name: &str| std::fs::read(out.join(name)).unwrap();
                for (key, name) in [("image", "correlation"), ("illumination", "illumination")] {
                    let hash = fnv(&file(&format!("{name}.f32")));
                    let told = format!("\"{key}_hash\": \"{hash:016x}\"");
                    assert!(json.contains(&told), "{config:?}: {told}: {json}");
                }
                assert!(file("image.f32") == image, "{config:?}");
            }
        }
    }
}

/// Where a job leaves out time step, frequency and number of steps, the Fortran example chooses
/// those that the C example chooses.
#[test]
fn the_defaults_are_those_of_the_c_example() {
    needs!("gfortran");
    let (dir, out) = (tempdir("fortran-defaults-c"), tempdir("fortran-defaults"));
    run(command(c_example())
        .args(["--n1", "12", "--n2", "10", "--n3", "14", "--shots", "1", "--out"])
        .arg(&dir));
    let job =
        job(&out, &format!("n1 = 12, n2 = 10, n3 = 14, shots = 1, out = '{}'", out.display()));
    run(command(&built().join("rtm3d")).arg(job));
    assert!(
        std::fs::read(dir.join("image.f32")).unwrap()
            == std::fs::read(out.join("image.f32")).unwrap()
    );
}

#[test]
fn bad_jobs_are_told_what_is_wrong() {
    needs!("gfortran");
    let dir = tempdir("fortran-bad");
    for (text, part) in [
        ("n1 = 3", "n1, n2, n3 >= 8"),
        ("steps = -1", "steps >= 2"),
        ("stepz = 9", "stepz"),
        ("dt = 1.0", "largest stable time step"),
        ("n1 = 8, n2 = 8, n3 = 8, config = '/no/such/config'", "/no/such/config"),
        (
            "n1 = 8, n2 = 8, n3 = 8, steps = 2, shots = 1, out = '/no/such/folder'",
            "/no/such/folder",
        ),
    ] {
        let output = command(&built().join("rtm3d")).arg(job(&dir, text)).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(part), "{text}: {message}");
    }
    for program in ["rtm3d", "viscoacoustic"] {
        let output = command(&built().join(program)).arg("/no/such/job").output().unwrap();
        assert!(
            !output.status.success()
                && String::from_utf8_lossy(&output.stderr).contains("/no/such/job"),
            "{output:?}"
        );
    }
}

#[test]
fn the_viscoacoustic_gradient_passes_its_own_tests_and_they_can_fail() {
    needs!("gfortran");
    let dir = tempdir("fortran-viscoacoustic");
    let viscoacoustic = |more: &str, config: &[(&str, &str)]| {
        let small = job(&dir, &format!("n1 = 11, n2 = 9, n3 = 10, steps = 50{more}"));
        let config = config.iter().map(|(key, value)| (format!("GPUZIP_{key}"), value));
        command(&built().join("viscoacoustic")).arg(&small).envs(config).output().unwrap()
    };
    for config in [
        &[][..],
        &[
            ("CHECKPOINTING_ALGORITHM", "revolve"),
            ("CHECKPOINTING_SNAPS", "4"),
            ("CACHE_CAPACITY", "2"),
        ],
        &[("CHECKPOINTING_ALGORITHM", "zcut"), ("CACHE_CAPACITY", "3")],
        &[("CHECKPOINTING_ALGORITHM", "store-all"), ("CACHE_CAPACITY", "0")],
        &[("DEVICE_BUDGET", "200K"), ("HOST_BUDGET", "300K")],
    ] {
        let output = viscoacoustic("", config);
        assert!(
            output.status.success() && stdout(&output).contains("identical"),
            "{config:?}: {output:?}"
        );
    }
    // Lossy snapshots give a gradient that fails both tests: that of the adjoint, and the
    // comparison with the gradient of keeping every state.
    for (tolerance, part) in
        [("", "not the adjoint"), (", tolerance = 1.0", "differs from that of keeping every state")]
    {
        let output = viscoacoustic(tolerance, &[("COMPRESSOR", "bfp")]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(part), "{message}{}", stdout(&output));
    }
}

#[test]
fn the_makefile_takes_the_library_from_pkg_config() {
    needs!("gfortran", "pkg-config");
    let dir = tempdir("fortran-pkg-config");
    // A name of its own: the makefile would also find the library in the repository's target folder.
    let folder = dir.join("lib");
    std::os::unix::fs::symlink(library(), &folder).unwrap();
    let lib = folder.display();
    let package = format!("libdir={lib}\nName: gpuzip\nDescription: checkpointing\nVersion: 0\n");
    std::fs::write(dir.join("gpuzip.pc"), package).unwrap();
    let smoke = dir.join("smoke");
    let mut command = Command::new("make");
    command
        .arg("-C")
        .arg(root().join("fortran"))
        .arg(&smoke)
        .arg(format!("BUILD={}", dir.display()));
    let printed = stdout(&run(command.env("PKG_CONFIG_PATH", &dir).env_remove("GPUZIP_LIB")));
    let links = |line: &str| line.contains("-o") && line.contains(&format!("-L{lib} -lgpuzip"));
    assert!(printed.lines().any(links), "{printed}");
    assert_eq!(stdout(&run(Command::new(smoke).args(["20", "1", "3", "2"]))), "identical\n");
}

/// The program of the documentation runs without arguments and with some, and refuses wrong
/// arguments.
#[test]
fn smoke_runs_plainly_and_refuses_what_is_no_number() {
    needs!("gfortran");
    let smoke = built().join("smoke");
    for arguments in [&[][..], &["20"], &["20", "2", "4"]] {
        assert_eq!(
            stdout(&run(Command::new(&smoke).args(arguments))),
            "identical\n",
            "{arguments:?}"
        );
    }
    for arguments in [&["sixty"][..], &["20", "1", "4", "2", "9"]] {
        let output = Command::new(&smoke).args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success()
                && text.contains("smoke [steps [algorithm [snapshots [cache]]]]"),
            "{arguments:?}: {text}"
        );
    }
}

/// Options that change the kinds of plain `integer` and `real` change nothing in the interface.
#[test]
fn default_kinds_of_8_bytes_change_nothing() {
    needs!("gfortran");
    for (name, kinds) in [
        ("fortran-i8", "-fdefault-integer-8"),
        ("fortran-i8-r8", "-fdefault-integer-8 -fdefault-real-8"),
    ] {
        let dir = tempdir(name);
        let smoke = dir.join("smoke");
        make(&dir, &[smoke.to_str().unwrap(), &format!("FFLAGS=-O1 {kinds}")]);
        assert_eq!(stdout(&run(&mut command(&smoke))), "identical\n", "{kinds}");
    }
}

/// A Fortran program passes device addresses and a stream; the software CUDA driver stands for a
/// GPU.
#[test]
fn device_memory_is_taken_from_fortran() {
    needs!("gfortran", "c++");
    let dir = emu::folder_with("fortran-gpu", &emu::driver());
    let program = compile(
        &[root().join("tests/foreign/fortran/gpu.f90")],
        &dir,
        &[&format!("-L{}", dir.display()), "-lcuda"],
    );
    for seed in 1..=20 {
        let output = run(command(&program)
            .env("LD_LIBRARY_PATH", &dir)
            .env("GPUZIP_CACHE_DIR", emu::images())
            .env("CUDA_EMU_SEED", seed.to_string()));
        assert_eq!(stdout(&output), "identical\n", "CUDA_EMU_SEED={seed}");
    }
}

/// LLVM's Fortran compiler, which also checks CUDA Fortran.
fn flang() -> Option<&'static str> {
    ["flang", "flang-new", "flang-new-19"].into_iter().find(|name| have(name))
}

#[test]
fn another_compiler_takes_it() {
    let Some(flang) = flang() else { return };
    let dir = tempdir("fortran-flang");
    let (program, lib) = (dir.join("calls"), library().display().to_string());
    let sources = ["fortran/gpuzip.f90"].iter().chain(&CALLS).map(|source| root().join(source));
    let link = [&format!("-L{lib}"), "-lgpuzip", &format!("-Wl,-rpath,{lib}")];
    run(Command::new(flang).current_dir(&dir).args(sources).args(link).arg("-o").arg(&program));
    assert_eq!(
        stdout(&run(command(&program).args([dir.join("config"), dir.join("trace")]))),
        "ok\n"
    );
    for source in [
        "tests/foreign/fortran/cudafor.f90",
        "fortran/gpuzip_cuda.F90",
        "tests/foreign/fortran/device.f90",
    ] {
        let cuda = ["-fc1", "-x", "cuda", "-cpp", "-D_CUDA", "-fsyntax-only"];
        run(Command::new(flang).current_dir(&dir).args(cuda).arg(root().join(source)));
    }
}
