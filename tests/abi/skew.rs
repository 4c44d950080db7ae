//! Programs compiled with an older or a newer header run with this library. The program is
//! `tests/c/skew.c`; the older header is the current one with fewer members in its structs, the
//! newer header has more members.

use crate::common;
use common::{have, library_of_tests, root, run, stdout, tempdir};
use std::path::Path;
use std::process::Command;

/// Number of 64-bit words that the newer header adds to each struct.
const GROWTH: usize = 5;

/// The member list of a struct, without what follows its last member (the configuration's
/// constructor).
fn members<'a>(header: &'a str, name: &str) -> &'a str {
    let begin = header
        .find(&format!("typedef struct {name} {{"))
        .unwrap_or_else(|| panic!("{name} is in the header"));
    let text = &header[begin..];
    let end = text.find(&format!("}} {name};")).unwrap();
    let text = &text[..text[..end].find("\n#if").map_or(end, |at| at + 1)];
    assert!(text.trim_end().ends_with(';'), "{text}");
    text
}

/// The header with struct `name` ending after member `last`.
fn cut(header: &str, name: &str, last: &str) -> String {
    let all = members(header, name);
    let at = all.find(&format!(" {last}")).unwrap_or_else(|| panic!("{name} has {last}"));
    let line_end = at + all[at..].find('\n').unwrap() + 1;
    assert!(line_end < all.len(), "{last} is not the last member of {name}");
    header.replace(all, &all[..line_end])
}

/// The header with `GROWTH` more words in struct `name`.
fn grown(header: &str, name: &str) -> String {
    let all = members(header, name);
    header.replace(all, &format!("{all}  uint64_t later[{GROWTH}] GPUZIP_DEFAULT({{0}});\n"))
}

fn output(dir: &Path, name: &str, header: &str, define: &str) -> String {
    let include = dir.join(name);
    std::fs::create_dir_all(&include).unwrap();
    std::fs::write(include.join("gpuzip.h"), header).unwrap();
    let lib = library_of_tests().display().to_string();
    let mut printed = Vec::new();
    for (compiler, language) in [
        ("cc", ["-xc", "-std=c99"]),
        ("c++", ["-xc++", "-std=c++11"]),
        ("c++", ["-xc++", "-std=c++14"]),
    ] {
        if !have(compiler) {
            continue;
        }
        let program = include.join("skew");
        let mut command = Command::new(compiler);
        command
            .args(language)
            .args(["-Wall", "-Wextra", "-Werror", &format!("-D{define}"), "-I"])
            .arg(&include);
        command.arg(root().join("tests/c/skew.c")).arg("-o").arg(&program).args([
            &format!("-L{lib}"),
            "-lgpuzip",
            &format!("-Wl,-rpath,{lib}"),
        ]);
        run(&mut command);
        printed.push(stdout(&run(&mut Command::new(&program))));
    }
    assert!(printed.iter().all(|text| *text == printed[0]), "C and C++: {printed:?}");
    printed.swap_remove(0)
}

#[test]
fn programs_of_older_and_newer_headers_run() {
    let dir = tempdir("skew");
    let ours = std::fs::read_to_string(root().join("include/gpuzip.h")).unwrap();
    let block_1 = cut(&ours, "gpuzip_config_t", "struct_size ");
    let older = cut(&cut(&block_1, "gpuzip_stats_t", "restores;"), "gpuzip_summary_t", "restores;");
    let newer = ["gpuzip_config_t", "gpuzip_stats_t", "gpuzip_summary_t"]
        .into_iter()
        .fold(ours.clone(), |h, name| grown(&h, name));
    let expected = output(&dir, "current", &ours, "CURRENT");
    assert!(expected.starts_with("40 steps, ") && !expected.contains(" 0 "), "{expected}");
    assert_eq!(output(&dir, "older", &older, "OLDER"), expected);
    assert_eq!(output(&dir, "newer", &newer, &format!("NEWER={GROWTH}")), expected);
}
