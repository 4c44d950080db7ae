//! Compiles the driver of all combinations (`tests/c/everything*.c`) for the target `everything`.

use std::path::{Path, PathBuf};
use std::process::Command;

const PARTS: [&str; 6] = [
    "everything",
    "everything_draw",
    "everything_shot",
    "everything_restart",
    "everything_quality",
    "stress_state",
];

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(status.success(), "{command:?}: {status}");
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap());
    let tool = |name: &str, usual: &str| std::env::var(name).unwrap_or(usual.into());
    for name in ["tests/c", "include/gpuzip.h"] {
        println!("cargo::rerun-if-changed={}", root.join(name).display());
    }
    // A failed check unwinds to the target.
    let objects = PARTS.map(|part| {
        let object = out.join(format!("{part}.o"));
        run(Command::new(tool("CC", "cc"))
            .args(["-std=gnu11", "-O1", "-g", "-fPIC", "-fexceptions", "-frounding-math"])
            .args(["-DNO_MAIN", "-I"])
            .arg(root.join("include"))
            .arg("-c")
            .arg(root.join("tests/c").join(format!("{part}.c")))
            .arg("-o")
            .arg(&object));
        object
    });
    run(Command::new(tool("AR", "ar")).arg("crs").arg(out.join("libeverything.a")).args(objects));
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=static=everything");
}
