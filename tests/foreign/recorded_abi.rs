//! The ABI only grows: libgpuzip.so has everything that `abi/gpuzip.abi` has, unchanged, and the
//! header has every constant of `abi/constants`. `make abi` rewrites both files. A line that
//! disappears from either file breaks existing programs, unless the line is a reserved word that
//! was put to use.

use crate::common::{have, root, run, target, tempdir};
use crate::header::Header;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Whether `make abi` runs the tests, which then rewrite the baseline.
fn updating() -> bool {
    std::env::var_os("GPUZIP_UPDATE_ABI").is_some()
}

/// Whether the ABI can be compared here: abidw and abidiff are installed, and the machine has the
/// architecture of the baseline.
fn can_compare() -> bool {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: abi/gpuzip.abi is of x86_64");
    }
    let can = cfg!(target_arch = "x86_64") && have("abidw") && have("abidiff");
    assert!(
        can || !updating(),
        "make abi needs abidw and abidiff (package abigail-tools), on x86_64"
    );
    can
}

fn baseline() -> String {
    fs::read_to_string(root().join("abi/gpuzip.abi")).expect("abi/gpuzip.abi: `make abi` writes it")
}

/// Returns the public part of the ABI, as abidw reads it from the debug information of a library
/// that is built with the profile `abi`.
fn generate() -> String {
    let target = target();
    let mut cargo = Command::new(env!("CARGO"));
    run(cargo.current_dir(root()).env("CARGO_TARGET_DIR", &target).args([
        "build",
        "--quiet",
        "--profile",
        "abi",
        "--lib",
    ]));
    let mut abidw = Command::new("abidw");
    abidw.current_dir(root()).args([
        "--suppressions",
        "abi/private.ini",
        "--no-corpus-path",
        "--no-comp-dir-path",
        "--no-show-locs",
    ]);
    let output = run(abidw
        .args(["--drop-undefined-syms", "--no-elf-needed"])
        .arg(target.join("abi/libgpuzip.so")));
    tidy(&String::from_utf8(output.stdout).unwrap())
}

/// Removes the translation units that the suppressions leave empty (those of Rust's own libraries),
/// and replaces the paths of the other units, which contain names that the compiler makes up.
fn tidy(abi: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in abi.lines() {
        match lines.last() {
            Some(last) if line == "  </abi-instr>" && last.starts_with("  <abi-instr ") => {
                let _ = lines.pop();
            }
            _ => lines.push(line),
        }
    }
    let without_path = |line: &str| match line.split_once(" path='") {
        Some((before, after)) => {
            format!("{before} path='src/lib.rs'{}\n", after.split_once('\'').unwrap().1)
        }
        None => format!("{line}\n"),
    };
    lines.into_iter().map(without_path).collect()
}

/// Runs abidiff on two versions of the ABI. The exit status is 0 if `new` breaks no program that
/// was built with `old`; functions that only `new` has do not count.
fn compare(old: &Path, new: &Path) -> Output {
    let mut abidiff = Command::new("abidiff");
    abidiff.current_dir(root()).args([
        "--suppr",
        "abi/private.ini",
        "--no-added-syms",
        "--no-show-locs",
        "--harmless",
    ]);
    abidiff.arg(old).arg(new).output().unwrap()
}

#[test]
fn the_library_has_all_of_the_baseline() {
    if !can_compare() {
        return;
    }
    let (dir, committed) = (tempdir("abi"), root().join("abi/gpuzip.abi"));
    let now = dir.join("now.abi");
    fs::write(&now, generate()).unwrap();
    if updating() {
        fs::copy(&now, &committed).unwrap();
    }
    let output = compare(&committed, &now);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "the ABI has changed; if no program can notice (a reserved word put to use), run `make abi`\n{text}");
}

/// Returns `abi` with the first `from` after `anchor` replaced by `to`.
fn after(abi: &str, anchor: &str, from: &str, to: &str) -> String {
    let at = abi.find(anchor).unwrap_or_else(|| panic!("{anchor} is in the baseline"));
    let changed = abi[at..].replacen(from, to, 1);
    assert_ne!(changed, abi[at..], "{from} follows {anchor}");
    format!("{}{changed}", &abi[..at])
}

/// Returns the baseline without a function, as the baseline was before the function was added.
fn without(abi: &str, function: &str) -> String {
    let begin = abi.find(&format!("<function-decl name='{function}'")).unwrap();
    let end = begin + abi[begin..].find("</function-decl>").unwrap() + "</function-decl>".len();
    let rest = format!("{}{}", &abi[..begin], &abi[end..]);
    rest.lines()
        .filter(|line| !line.contains(&format!("<elf-symbol name='{function}'")))
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn the_comparison_sees_what_breaks_programs() {
    if !can_compare() {
        return;
    }
    let (dir, now) = (tempdir("abi-changes"), baseline());
    let committed = root().join("abi/gpuzip.abi");
    let passes = |name: &str, old: &str| {
        let file = dir.join(name);
        fs::write(&file, old).unwrap();
        compare(&file, &committed).status.success()
    };
    assert!(passes("same", &now));
    assert!(passes("function added", &without(&now, "gpuzip_synchronize")));
    let stats = "class-decl name='gpuzip_stats_t'";
    let parameters = |function: &str| {
        let at = now.find(&format!("<function-decl name='{function}'")).unwrap();
        now[at..]
            .lines()
            .skip(1)
            .take_while(|line| line.contains("<parameter "))
            .map(|line| format!("{line}\n"))
            .collect::<Vec<_>>()
    };
    let save = parameters("gpuzip_save");
    for (name, old) in [
        ("function removed", now.replace("gpuzip_setup", "gpuzip_prepare")),
        (
            "member moved",
            after(&now, stats, "layout-offset-in-bits='64'", "layout-offset-in-bits='96'"),
        ),
        ("member renamed", after(&now, stats, "name='forward_steps'", "name='steps_forward'")),
        (
            "struct shrunk",
            after(
                &now,
                "class-decl name='gpuzip_config_t'",
                "size-in-bits='2944'",
                "size-in-bits='3008'",
            ),
        ),
        ("parameter added", after(&now, "name='gpuzip_save'", &save[4], "")),
        ("parameter's type changed", after(&now, "name='gpuzip_save'", &save[1], &save[3])),
        ("callback changed", now.replace("gpuzip_field_t, i32, f64,", "gpuzip_field_t, i32, f32,")),
    ] {
        assert_ne!(old, now, "{name}");
        assert!(!passes(name, &old), "{name} is not seen");
    }
}

/// The suppressions of abi/private.ini leave out nothing public. A type that they left out would
/// disappear, unnoticed, from the functions and structs that use the type.
#[test]
fn the_baseline_has_every_parameter_of_the_header() {
    let abi = baseline();
    let mut found = BTreeMap::new();
    for text in abi.split("<function-decl name='").skip(1) {
        let (name, body) = text.split_once('\'').unwrap();
        found.insert(
            name.to_string(),
            body.split("</function-decl>").next().unwrap().matches("<parameter ").count(),
        );
    }
    let functions = Header::ours().functions;
    let declared: BTreeMap<String, usize> =
        functions.into_iter().map(|f| (f.result.name, f.arguments.len())).collect();
    assert!(found.len() > 30, "{found:?}");
    for (name, parameters) in found {
        assert_eq!(declared.get(&name), Some(&parameters), "{name}");
    }
}

#[test]
fn constants_keep_their_values() {
    let constants: BTreeMap<String, i32> =
        Header::ours().constants.into_iter().map(|c| (c.name, c.value)).collect();
    let file = root().join("abi/constants");
    if updating() {
        fs::write(
            &file,
            constants.iter().map(|(name, value)| format!("{name} {value}\n")).collect::<String>(),
        )
        .unwrap();
    }
    let frozen = fs::read_to_string(&file).expect("abi/constants: `make abi` writes it");
    assert!(frozen.lines().count() > 40, "{frozen}");
    for line in frozen.lines() {
        let (name, value) = line.split_once(' ').unwrap();
        assert_eq!(
            constants.get(name),
            Some(&value.parse().unwrap()),
            "{name}: programs have its value compiled in"
        );
    }
}
