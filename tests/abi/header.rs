//! `include/gpuzip.h` equals the header that cbindgen generates from `src/capi/`, and compiles in
//! every standard of C and C++.

use crate::common;
use common::{have, needs, root, run, tempdir};
use std::process::Command;

/// The files of `src/capi/` that hold the ABI, in the order of the header.
const SOURCES: [&str; 13] = [
    "types.rs",
    "entry.rs",
    "logging.rs",
    "config.rs",
    "schedule.rs",
    "session.rs",
    "run.rs",
    "agree.rs",
    "profile.rs",
    "quality.rs",
    "persist.rs",
    "codec.rs",
    "device_codec.rs",
];

fn generate() -> String {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(root().join("src/capi").join(source));
    }
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    // Replace Rust's heading "Safety", and comments that C89 does not allow.
    let text = String::from_utf8(text).unwrap().replace("# Safety", "Pointers:");
    let text = ["__cplusplus", "extern \"C\""]
        .iter()
        .fold(text, |text, word| text.replace(&format!("// {word}"), &format!("/* {word} */")));
    with_defaults(&text)
}

/// Gives the members of the configuration their C++14 initialisers.
fn with_defaults(header: &str) -> String {
    let begin = header.find("typedef struct gpuzip_config_t {").expect("the configuration");
    let end = begin + header[begin..].find("\n#if").expect("its constructor");
    // Members are indented by two columns, lines of comments by three.
    let is_member = |line: &str| line.starts_with("  ") && !line.starts_with("   ");
    let member = |line: &str| match line.strip_suffix(';').filter(|_| is_member(line)) {
        Some(rest) if rest.ends_with(" struct_size") => {
            format!("{rest} GPUZIP_DEFAULT(sizeof(gpuzip_config_t));\n")
        }
        Some(rest) if rest.ends_with(']') => format!("{rest} GPUZIP_DEFAULT({{0}});\n"),
        Some(rest) => format!("{rest} GPUZIP_DEFAULT(0);\n"),
        None => format!("{line}\n"),
    };
    let members: String = header[begin..end].lines().map(member).collect();
    format!("{}{members}{}", &header[..begin], &header[end + 1..])
}

#[test]
fn the_header_is_the_generated_one() {
    let path = root().join("include/gpuzip.h");
    let generated = generate();
    if std::env::var_os("GPUZIP_UPDATE_HEADER").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "include/gpuzip.h differs from src/capi/: run `make header` and commit it"
    );
}

/// The header has a constant for every row of the table of codecs, with the row's number.
#[test]
fn every_codec_has_a_constant() {
    let header = std::fs::read_to_string(root().join("include/gpuzip.h")).unwrap();
    for codec in gpuzip::codec::CODECS {
        let name = codec.name.to_uppercase();
        let line = format!("\n#define GPUZIP_COMPRESSOR_{name} {}\n", codec.number);
        assert!(header.contains(&line), "src/capi/types.rs has no constant{line}");
    }
}

#[test]
fn every_c_and_cxx_standard_takes_it() {
    let strict = [
        "-pedantic-errors",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-missing-field-initializers",
        "-fsyntax-only",
        "-I",
    ];
    let cases = [
        ("cc", "c", &["c89", "c99", "c11", "c17"][..]),
        ("c++", "c++", &["c++98", "c++11", "c++14", "c++17", "c++20"][..]),
    ];
    let dir = tempdir("header");
    let source = dir.join("twice.c");
    std::fs::write(&source, SOURCE).unwrap();
    for (compiler, language, standards) in cases.into_iter().filter(|(compiler, ..)| have(compiler))
    {
        for standard in standards {
            let mut command = Command::new(compiler);
            command
                .args(["-x", language, &format!("-std={standard}")])
                .args(strict)
                .arg(root().join("include"))
                .arg(&source);
            run(&mut command);
        }
    }
}

const SOURCE: &str = "#include <gpuzip.h>
#include <gpuzip.h>
#ifdef __cplusplus
int defaults() { gpuzip_config_t plain; gpuzip_config_t *heap = new gpuzip_config_t(); int sum = plain.policy + heap->policy; delete heap; return sum; }
#endif
#if !defined(__cplusplus) || __cplusplus >= 201402L
int aggregate(void);
int aggregate(void) { gpuzip_config_t some = {1, 10, 3}, zero = {0}; return some.cache_capacity + zero.policy; }
#endif
int main(void) { return GPUZIP_OK; }
";

#[test]
fn a_cxx_configuration_knows_its_size_and_is_zero_otherwise() {
    needs!("c++");
    let dir = tempdir("cxx-defaults");
    let source = dir.join("defaults.cpp");
    let program = dir.join("defaults");
    let text = "#include <gpuzip.h>\n#include <cstring>\nint main() {\n  gpuzip_config_t c, z;\n  std::memset((void *)&z, 0, sizeof z);\n  \
                if (c.struct_size != sizeof c) return 1;\n  z.struct_size = sizeof z;\n  return std::memcmp(&c.struct_size, &z.struct_size, \
                sizeof c - offsetof(gpuzip_config_t, struct_size)) || c.checkpointing_algorithm || c.trace_file_path || c.bitcomp_delta != 0;\n}\n";
    std::fs::write(&source, format!("#include <cstddef>\n{text}")).unwrap();
    for standard in ["c++98", "c++11", "c++14", "c++20"] {
        run(Command::new("c++")
            .arg(format!("-std={standard}"))
            .arg("-I")
            .arg(root().join("include"))
            .arg(&source)
            .arg("-o")
            .arg(&program));
        run(&mut Command::new(&program));
    }
}

#[test]
fn every_exported_function_is_documented() {
    let header = generate();
    let lines: Vec<&str> = header.lines().collect();
    let mut functions = 0;
    for (i, line) in lines.iter().enumerate() {
        let declares = !line.starts_with([' ', '*', '/', '#'])
            && line.contains("gpuzip_")
            && line.contains('(')
            && !line.contains("typedef");
        if declares {
            functions += 1;
            assert!(lines[i - 1].trim_end().ends_with("*/"), "{line} has no documentation");
        }
    }
    assert!(functions >= 20, "{functions} functions found");
}
