//! The fuzz targets on any toolchain: the committed corpora, and seeded mutations of them.
//!
//! An input that fails is left in `target/tmp/`, to be put into the corpus with the mend.
//! `GPUZIP_TEST_LONG=1` runs fifty times as many mutations, `GPUZIP_TEST_SEED=<number>` other ones.

#[path = "../../tests/common/cases.rs"]
mod cases;

use gpuzip_fuzz::mutate::{mutate, Random};
use gpuzip_fuzz::TARGETS;
use std::panic::{catch_unwind, resume_unwind};
use std::path::Path;

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no inputs", folder.display());
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

fn number(variable: &str) -> u64 {
    std::env::var(variable).map_or(0, |text| text.parse().unwrap())
}

/// Runs the corpus of a target and `mutations` mutations of it.
fn replay(name: &str, mutations: u64) {
    let (_, target) = TARGETS.into_iter().find(|(known, _)| *known == name).unwrap();
    let attempt = |input: &[u8]| {
        if let Err(panic) = catch_unwind(|| target(input)) {
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}"));
            std::fs::write(&path, input).unwrap();
            eprintln!(
                "target {name} fails with {}: {:?}",
                path.display(),
                String::from_utf8_lossy(input)
            );
            resume_unwind(panic);
        }
    };
    let pool = corpus(name);
    pool.iter().for_each(|input| attempt(input));
    let mut random = Random::new(1 + number("GPUZIP_TEST_SEED"));
    for _ in 0..cases::cases(mutations, 50 * mutations) {
        attempt(&mutate(&pool, &mut random));
    }
}

#[test]
fn config() {
    replay("config", 6_000);
}

#[test]
fn trace() {
    replay("trace", 60_000);
}

#[test]
fn profile() {
    replay("profile", 6_000);
}

#[test]
fn stream() {
    replay("stream", 1_500);
}

#[test]
fn persist() {
    replay("persist", 60_000);
}

#[test]
fn calls() {
    replay("calls", 2_000);
}

#[test]
fn everything() {
    replay("everything", 200);
}

#[test]
fn every_target_is_replayed() {
    let source = include_str!("replay.rs");
    for (name, _) in TARGETS {
        assert!(source.contains(&format!("replay(\"{name}\", ")), "no test replays {name}");
    }
}
