//! The command as scripts and people use it: keys, counts, listings, drawings, errors.

mod answer;
mod clone;
mod codec;
mod costs;
#[path = "../../../tests/common/draw.rs"]
mod draw;
mod every;
mod extract;
mod failures;
mod flushd;
mod general;
mod inspect;
mod kernels;
mod pages;
mod predict;
mod refused;
mod schedule;
mod slots;
mod sweeps;

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuzip"));
    command.args(line.split_whitespace());
    command
}

fn gpuzip(line: &str) -> Output {
    command(line).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn runs(line: &str) -> Output {
    let output = gpuzip(line);
    assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    output
}

/// What a command prints on standard output.
fn succeeds(line: &str) -> String {
    text(&runs(line).stdout).to_owned()
}

/// The one object that `--json` prints.
fn json(line: &str) -> Value {
    let output = runs(&format!("{line} --json"));
    assert!(output.stderr.is_empty(), "{line}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(object: &Value, name: &str) -> f64 {
    object[name].as_f64().unwrap_or_else(|| panic!("{name} in {object}"))
}

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

fn numbers<const N: usize>(object: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| object[name].as_u64().unwrap_or_else(|| panic!("{name} in {object}")))
}

fn temporary(name: &str, content: &[u8]) -> PathBuf {
    let path =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    std::fs::write(&path, content).unwrap();
    path
}

/// Exit code 2, nothing on stdout, and one text that names the value.
fn is_refused(line: &str, part: &str) {
    let output = gpuzip(line);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{line}: {message}");
    assert!(output.stdout.is_empty(), "{line}");
    assert!(message.starts_with("gpuzip: error: ") && message.contains(part), "{line}: {message}");
}
