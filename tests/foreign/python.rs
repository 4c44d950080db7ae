//! The Python package: its tables follow the header, `pip install ./python` works in a fresh
//! environment, and its tests and the programs of its documentation run there.

mod bindings;

use crate::common::cases::long;
use crate::common::{self, emu, venv};
use crate::header;
use common::{compile_c, library, needs, root, run, stdout, target, tempdir};
use header::Header;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn the_tables_follow_the_header() {
    let header = Header::ours();
    let files = [("_abi.py", bindings::abi(&header)), ("records.py", bindings::records(&header))];
    for (name, generated) in files {
        let path = format!("python/src/gpuzip/{name}");
        if std::env::var_os("GPUZIP_UPDATE_HEADER").is_some() {
            std::fs::write(root().join(&path), &generated).unwrap();
        }
        assert!(
            generated == read(&path),
            "{path} differs from include/gpuzip.h: run `make header` and commit it"
        );
    }
}

/// Makes a fresh environment and installs the package there, once in each process. Returns the
/// environment's Python, or the reason why there is none.
fn python() -> Option<&'static Path> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = PYTHON.get_or_init(|| {
        let folder = tempdir("python");
        let python = venv::make(&folder, &["hatchling", "numpy"])?;
        library();
        run(venv::pip(&python)
            .arg(root().join("python"))
            .env("CARGO_TARGET_DIR", target())
            .env("CARGO", env!("CARGO")));
        Ok(python)
    });
    match made {
        Ok(python) => Some(python),
        Err(reason) => {
            println!("skipped: {reason}");
            None
        }
    }
}

/// Runs all tests in files of this pattern in `python/tests`. No test may be skipped.
fn run_tests(pattern: &str, prepare: impl FnOnce(&mut Command)) {
    if let Some(python) = python() {
        run_tests_with(python, pattern, prepare);
    }
}

fn run_tests_with(python: &Path, pattern: &str, prepare: impl FnOnce(&mut Command)) {
    let mut tests = venv::command(python);
    tests
        .args(["-W", "error", "-m", "unittest", "discover", "-p", pattern, "-s"])
        .arg(root().join("python/tests"))
        .current_dir(tempdir(&format!("python-{}", pattern.trim_end_matches("*.py"))));
    prepare(&mut tests);
    let report = String::from_utf8_lossy(&run(&mut tests).stderr).into_owned();
    assert!(report.trim_end().ends_with("\nOK") && !report.contains("Ran 0 tests"), "{report}");
}

#[test]
fn the_package_does_what_the_library_does() {
    needs!("cc");
    let dir = tempdir("python-c");
    let program = compile_c(&dir, "cc", &[], &root().join("c-examples/minimal.c"));
    let printed = stdout(&run(&mut Command::new(program)));
    run_tests("test_[!g]*.py", |tests| {
        tests
            .env("GPUZIP_TEST_C_OUTPUT", &printed)
            .env("GPUZIP_TEST_PAGE", root().join("docs/python.md"));
    });
}

#[test]
fn arrays_on_a_gpu() {
    run_tests("test_gpu*.py", |tests| {
        tests
            .env("LD_LIBRARY_PATH", emu::folder_with("python-driver", &emu::driver()))
            .env("GPUZIP_CACHE_DIR", emu::images());
    });
}

/// Runs `python/tests/adapter_NAME*.py` with packages that have up to some 100 MB to download. They go
/// to a folder of their own, so that other tests keep their NumPy.
fn adapter(name: &str, packages: &[&str]) {
    if !long() {
        println!("skipped: installs {}, with GPUZIP_TEST_LONG set", packages.join(" and "));
        return;
    }
    let Some(python) = python() else { return };
    let folder = tempdir(&format!("python-packages-{name}"));
    let mut pip = venv::pip(python);
    pip.arg("--target").arg(&folder).args(packages);
    if !pip.status().is_ok_and(|status| status.success()) {
        println!("skipped: pip cannot install {}", packages.join(" and "));
        return;
    }
    run_tests(&format!("adapter_{name}*.py"), |tests| {
        tests.env("PYTHONPATH", &folder).env("GPUZIP_TEST_LONG", "1");
        tests.env("GPUZIP_TEST_PAGE", root().join(format!("docs/{name}.md")));
    });
}

#[test]
fn pictures_progress_and_types() {
    adapter("plots", &["matplotlib", "tqdm", "mypy"]);
}

#[test]
fn gradients_in_jax() {
    adapter("jax", &["jax", "equinox", "matplotlib"]);
}

/// PyTorch is not downloaded: its package for Linux has some gigabytes. The test needs a Python that has
/// it, such as Debian's with the package python3-torch, and lends that one the installed gpuzip.
#[test]
fn gradients_in_torch() {
    if !long() {
        println!("skipped: runs with GPUZIP_TEST_LONG set");
        return;
    }
    let has_torch = |path: &&Path| {
        let output = venv::command(path).args(["-c", "import numpy, torch"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let Some(theirs) =
        [Path::new("python3"), Path::new("/usr/bin/python3")].into_iter().find(has_torch)
    else {
        println!("skipped: no Python has PyTorch and NumPy; Debian's package is python3-torch");
        return;
    };
    let Some(python) = python() else { return };
    let code = "import gpuzip; print(gpuzip.__path__[0])";
    let package = stdout(&run(venv::command(python).args(["-c", code])));
    let folder = tempdir("python-packages-torch");
    std::os::unix::fs::symlink(package.trim(), folder.join("gpuzip")).unwrap();
    run_tests_with(theirs, "adapter_torch*.py", |tests| {
        tests.env("PYTHONPATH", &folder).env("GPUZIP_TEST_LONG", "1");
        tests.env("GPUZIP_TEST_PAGE", root().join("docs/torch.md"));
    });
}

/// The source package of PyRevolve is compiled: it needs a C++ compiler.
#[test]
fn revolvers_of_pyrevolve() {
    adapter("pyrevolve", &["pyrevolve==2.2.8", "pytest"]);
}

#[test]
fn schedules_of_checkpoint_schedules() {
    adapter(
        "checkpoint_schedules",
        &["checkpoint_schedules==1.0.4", "pytest", "pyadjoint-ad==2026.10.0"],
    );
}

#[test]
fn configurations_and_results_on_workers_of_dask() {
    adapter("surveys", &["distributed"]);
}

#[test]
fn exported_states_in_netcdf() {
    adapter("netcdf", &["scipy"]);
}

#[test]
fn restart_files_in_an_object_store() {
    adapter("object_store", &["moto[server]", "boto3"]);
}

/// Devito compiles its time steps with gcc.
#[test]
fn images_and_gradients_in_devito() {
    adapter("devito", &["devito==4.8.23", "pyrevolve==2.2.8", "scipy", "matplotlib", "pytest"]);
}
