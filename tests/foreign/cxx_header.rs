//! `include/gpuzip.hpp`: every compiler accepts the header with every standard, the header covers
//! the ABI, and a program that uses all of the header is clean under sanitizers and valgrind.

use crate::common;
use crate::header::Header;
use common::{compile_c, have, needs, root, run, stdout, tempdir, valgrind};
use std::fs;
use std::process::Command;

const STRICT: [&str; 6] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wshadow", "-Wconversion"];

#[test]
fn every_standard_and_compiler_takes_it() {
    for compiler in ["c++", "clang++"].into_iter().filter(|compiler| have(compiler)) {
        for standard in ["-std=c++14", "-std=c++17", "-std=c++20"] {
            let mut command = Command::new(compiler);
            command
                .args([standard, "-fsyntax-only"])
                .args(STRICT)
                .arg("-I")
                .arg(root().join("include"));
            run(command.arg(root().join("tests/foreign/cxx/session.cpp")));
        }
    }
}

/// The headers for C that are written by hand are valid C++ from C++11 on, too.
#[test]
fn every_cxx_standard_takes_the_headers_for_c() {
    for compiler in ["c++", "clang++"].into_iter().filter(|compiler| have(compiler)) {
        for standard in ["-std=c++11", "-std=c++14", "-std=c++20"] {
            for program in ["tests/c/revolve.c", "tests/c/gradient.c"] {
                let mut command = Command::new(compiler);
                command.args([standard, "-fsyntax-only", "-x", "c++"]).args(STRICT);
                run(command.arg("-I").arg(root().join("include")).arg(root().join(program)));
            }
        }
    }
}

/// A field of a type without a type of values says so in a sentence of its own.
#[test]
fn a_type_without_a_type_of_values_is_refused_in_words() {
    let source = tempdir("cxx_types").join("types.cpp");
    for (of, words) in [("float", false), ("long double", true), ("void *", true)] {
        let line = format!("{of} u[9];\nauto f = gpuzip::field(u, 9);");
        fs::write(&source, format!("#include <gpuzip.hpp>\n{line}\n")).unwrap();
        let mut compiler = Command::new("c++");
        compiler.args(["-std=c++14", "-fsyntax-only", "-I"]).arg(root().join("include"));
        let errors = compiler.arg(&source).output().unwrap().stderr;
        let errors = String::from_utf8(errors).unwrap();
        assert_eq!(
            errors.contains("gpuzip has no type of values for this type"),
            words,
            "{errors}"
        );
        assert_eq!(errors.is_empty(), !words, "{errors}");
    }
}

/// A call that writes fields does not compile with a field of const values, nor with a list of fields that
/// are only read; a call that reads fields does.
#[test]
fn fields_of_const_values_are_only_read() {
    let source = tempdir("cxx_const").join("const.cpp");
    for (call, [takes_values, takes_const_values]) in [
        ("s.save(0, {field})", [true, true]),
        ("gpuzip::compress({}, {field})", [true, true]),
        ("s.retrieve(0, {field})", [true, false]),
        ("s.run_reverse({}, {field})", [true, false]),
        ("gpuzip::decompress({}, {field})", [true, false]),
        ("gpuzip::arrays().add(\"u\", field)", [true, false]),
        ("s.retrieve(0, gpuzip::const_field_list({field}))", [false, false]),
    ] {
        for (constness, compiles) in [("", takes_values), ("const ", takes_const_values)] {
            let program = format!(
                "#include <gpuzip.hpp>\nvoid f(gpuzip::session &s, {constness}std::vector<float> &u) {{\n\
                 const auto field = gpuzip::field(u);\n(void)s;\n{call};\n}}\n"
            );
            fs::write(&source, program).unwrap();
            let mut compiler = Command::new("c++");
            compiler.args(["-std=c++14", "-fsyntax-only", "-I"]).arg(root().join("include"));
            let output = compiler.arg(&source).output().unwrap();
            let errors = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.success(), compiles, "{constness}{call}: {errors}");
        }
    }
}

#[test]
fn it_covers_the_abi() {
    let c = Header::ours();
    let cxx = std::fs::read_to_string(root().join("include/gpuzip.hpp")).unwrap();
    // C++ programs call these two functions as C programs do.
    let left = ["gpuzip_set_log_level", "gpuzip_set_log_callback"];
    let calls = c.functions.iter().filter(|f| f.result.base == "gpuzip_status_t");
    for call in calls.map(|f| &f.result.name).filter(|call| !left.contains(&call.as_str())) {
        assert!(
            cxx.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == call),
            "{call} is not in gpuzip.hpp"
        );
    }
    let config = c.structs.iter().find(|s| s.name == "gpuzip_config_t").unwrap();
    let strings = config.members.iter().filter(|m| m.base == "char" && m.stars == 1);
    let strings: Vec<&str> = strings.map(|m| m.name.as_str()).collect();
    assert!(strings.len() >= 5, "{strings:?}");
    for string in strings {
        for use_of in [
            format!("detail::take(loaded.{string}, c.{string})"),
            format!("c.{string} = detail::c_string(self.{string})"),
        ] {
            assert!(cxx.contains(&use_of), "gpuzip.hpp does not own {string}: no {use_of}");
        }
    }
}

#[test]
fn a_program_with_it_is_clean_under_sanitizers() {
    needs!("c++");
    let dir = tempdir("hpp-sanitized");
    let flags =
        ["-std=c++14", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let program = compile_c(&dir, "c++", &flags, &root().join("tests/foreign/cxx/session.cpp"));
    let output = run(Command::new(program).arg(&dir).env("ASAN_OPTIONS", "detect_leaks=1"));
    assert_eq!(stdout(&output), "ok\n");
}

#[test]
fn a_program_with_it_is_clean_under_valgrind_in_two_units() {
    needs!("c++");
    let dir = tempdir("hpp-units");
    let other = dir.join("other.cpp");
    fs::write(
        &other,
        "#include <gpuzip.hpp>\nint other() { return gpuzip::config().log_level; }\n",
    )
    .unwrap();
    let flags = ["-std=c++17", "-g", other.to_str().unwrap()];
    let program = compile_c(&dir, "c++", &flags, &root().join("tests/foreign/cxx/session.cpp"));
    let mut command = match have("valgrind") {
        true => valgrind(&program, "definite,indirect"),
        false => Command::new(program),
    };
    assert_eq!(stdout(&run(command.arg(&dir))), "ok\n");
}
