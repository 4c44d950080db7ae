//! `make test` installs programs only if SKIP_DEPS does not forbid it, and prints what it installs
//! before it does.

use crate::common;
use common::{root, tempdir};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Writes a program with this name, which runs `script`, into `dir`.
fn program(dir: &Path, name: &str, script: &str) {
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs tests/deps.sh as root on a machine that has a C and a C++ compiler, make and apt-get, and
/// no other program. Returns what the script printed, and whether it called apt-get.
fn deps(name: &str, skip: Option<&str>) -> (String, bool) {
    let dir = tempdir(name);
    let log = dir.join("installed");
    for tool in ["cc", "c++", "make"] {
        program(&dir, tool, "exit 0");
    }
    program(&dir, "id", "echo 0");
    program(&dir, "grep", "exit 1");
    program(&dir, "apt-get", &format!("echo \"$@\" >>{}", log.display()));
    let mut command = Command::new("/bin/sh");
    command.arg(root().join("tests/deps.sh")).env("PATH", &dir).env_remove("SKIP_DEPS");
    if let Some(value) = skip {
        command.env("SKIP_DEPS", value);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    (String::from_utf8_lossy(&output.stdout).into_owned(), log.exists())
}

#[test]
fn nothing_is_installed_where_skip_deps_is_set() {
    let (told, installed) = deps("deps-skip", Some("1"));
    let skipped = "SKIP_DEPS is set, so nothing is installed; missing:";
    assert!(!installed && told.starts_with(skipped), "{told}");
    for part in ["valgrind", "libopenmpi-dev", "tests that need them are skipped"] {
        assert!(told.contains(part), "{told}");
    }
    for skip in [None, Some("0")] {
        let (told, installed) = deps("deps-install", skip);
        let first = told.lines().next().unwrap();
        let parts = ["as root:", "valgrind", "SKIP_DEPS=1"];
        assert!(installed && parts.iter().all(|part| first.contains(part)), "{told}");
    }
}
