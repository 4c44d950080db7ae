//! `include/gpuzip.h` is what cbindgen makes of `src/capi/`, and every compiler takes it.

mod common;

use common::{root, run, tempdir};
use std::process::Command;

/// The files of `src/capi/` that hold the ABI, in the order of the header.
const SOURCES: [&str; 6] = ["types.rs", "entry.rs", "logging.rs", "config.rs", "schedule.rs", "session.rs"];

fn generate() -> String {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(root().join("src/capi").join(source));
    }
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    // Rust's heading for what the caller must keep; comments that C89 knows.
    let text = String::from_utf8(text).unwrap().replace("# Safety", "Pointers:");
    ["__cplusplus", "extern \"C\""].iter().fold(text, |text, word| text.replace(&format!("// {word}"), &format!("/* {word} */")))
}

#[test]
fn the_header_is_the_generated_one() {
    let path = root().join("include/gpuzip.h");
    let generated = generate();
    if std::env::var_os("GPUZIP_UPDATE_HEADER").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == generated, "include/gpuzip.h differs from src/capi/: run `make header` and commit it");
}

#[test]
fn every_c_and_cxx_standard_takes_it() {
    let strict = ["-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"];
    let cases = [("gcc", "c", &["c89", "c99", "c11", "c17"][..]), ("g++", "c++", &["c++98", "c++11", "c++14", "c++17", "c++20"][..])];
    let dir = tempdir("header");
    let source = dir.join("twice.c");
    std::fs::write(&source, "#include <gpuzip.h>\n#include <gpuzip.h>\nint main(void) { return GPUZIP_OK; }\n").unwrap();
    for (compiler, language, standards) in cases {
        for standard in standards {
            let mut command = Command::new(compiler);
            command.args(["-x", language, &format!("-std={standard}")]).args(strict).arg(root().join("include")).arg(&source);
            run(&mut command);
        }
    }
}

#[test]
fn every_exported_function_is_documented() {
    let header = generate();
    let lines: Vec<&str> = header.lines().collect();
    let mut functions = 0;
    for (i, line) in lines.iter().enumerate() {
        let declares =
            !line.starts_with([' ', '*', '/', '#']) && line.contains("gpuzip_") && line.contains('(') && !line.contains("typedef");
        if declares {
            functions += 1;
            assert!(lines[i - 1].trim_end().ends_with("*/"), "{line} has no documentation");
        }
    }
    assert!(functions >= 20, "{functions} functions found");
}
