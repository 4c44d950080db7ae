//! Generates `python/src/gpuzip/_abi.py` and `python/src/gpuzip/records.py` from
//! `include/gpuzip.h` and from the table of the configuration's keys.

use crate::header::{Declaration, Function, Header, Struct};
use gpuzip::capi::{Allowed, KEYS};
use std::fmt::Write;

/// The most columns of a generated line of text.
const WIDTH: usize = 100;
const NOTE: &str =
    "Generated from include/gpuzip.h by tests/foreign/python.rs; `make header` rewrites this file.";

/// The structs that Python gets as records: name in C, name in Python.
const RECORDS: [(&str, &str); 6] = [
    ("gpuzip_summary_t", "Summary"),
    ("gpuzip_stats_t", "Stats"),
    ("gpuzip_profile_info_t", "ProfileInfo"),
    ("gpuzip_quality_info_t", "QualityInfo"),
    ("gpuzip_codec_info_t", "CodecInfo"),
    ("gpuzip_generation_t", "Generation"),
];

/// Returns the text of `_abi.py`: constants, structs, function types, functions and keys.
pub fn abi(header: &Header) -> String {
    let mut text = format!("\"\"\"The C ABI: constants, structs, functions and configuration keys.\n\n{NOTE}\n\"\"\"\n\n");
    text += "# fmt: off\nimport ctypes\n\n";
    writeln!(text, "ABI_VERSION = {}", gpuzip::ABI_VERSION).unwrap();
    for constant in &header.constants {
        writeln!(text, "{} = {}", constant.name.trim_start_matches("GPUZIP_"), constant.value)
            .unwrap();
    }
    // A function type names structs, and structs name function types: structs come first, and
    // their members after the function types.
    for of in &header.structs {
        write!(text, "\n\nclass {}(ctypes.Structure):\n    pass\n", of.name).unwrap();
    }
    text += "\n\n";
    for callback in &header.callbacks {
        writeln!(text, "{} = ctypes.CFUNCTYPE({})", callback.result.name, types(header, callback))
            .unwrap();
    }
    for of in &header.structs {
        writeln!(text, "\n{}._fields_ = [", of.name).unwrap();
        for member in &of.members {
            writeln!(text, "    (\"{}\", {}),", member.name, member_type(header, member)).unwrap();
        }
        text += "]\n";
    }
    text += "\n# Name: type of the result, and types of the arguments.\nFUNCTIONS = {\n";
    for function in &header.functions {
        let types = types(header, function);
        let (result, arguments) = types.split_once(", ").unwrap_or((&types, ""));
        let arguments = if arguments.is_empty() { String::new() } else { format!("{arguments},") };
        writeln!(text, "    \"{}\": ({result}, ({arguments})),", function.result.name).unwrap();
    }
    text + "}\n\n" + &keys()
}

/// The table of the configuration's keys.
fn keys() -> String {
    let mut text = String::from(
        "# Key: unit, values that the key accepts as a text, names of its values, and its meaning.\nKEYS = {\n",
    );
    for key in KEYS {
        let names = match key.allowed {
            Allowed::Names(names) | Allowed::Codecs(names) => names,
            _ => &[],
        };
        let names: Vec<String> =
            names.iter().map(|(name, number)| format!("\"{name}\": {number}")).collect();
        writeln!(
            text,
            "    \"{}\": (\n        {:?},\n        {:?},\n        {{{}}},\n        {:?},\n    ),",
            key.name,
            key.unit,
            key.choices(),
            names.join(", "),
            key.doc
        )
        .unwrap();
    }
    text + "}\n"
}

/// Returns the text of `records.py`: the structs that the library fills, as classes of Python.
pub fn records(header: &Header) -> String {
    let mut text = format!("\"\"\"What the library tells of schedules, sessions, profiles, streams and restart files.\n\n{NOTE}\n\"\"\"\n\n");
    text += "from typing import NamedTuple\n\nfrom ._shown import shown\n";
    for (name, python) in RECORDS {
        let of = header.structs.iter().find(|s| s.name == name).expect(name);
        let doc = wrapped(&of.doc, "    ");
        write!(
            text,
            "\n\nclass {python}(NamedTuple):\n    \"\"\"{}\n    \"\"\"\n",
            doc.trim_start()
        )
        .unwrap();
        for member in shown(of) {
            let number =
                if ["float", "double"].contains(&member.base.as_str()) { "float" } else { "int" };
            writeln!(text, "\n    {}: {number}\n    \"\"\"{}\"\"\"", member.name, {
                wrapped(&member.doc, "    ").trim_start()
            })
            .unwrap();
        }
        if python == "Summary" {
            text += "\n    def __str__(self) -> str:\n        return shown(self)\n";
        }
    }
    text
}

/// The members of a struct that mean something to a reader.
fn shown(of: &Struct) -> impl Iterator<Item = &Declaration> {
    of.members.iter().filter(|m| m.name != "struct_size" && !m.name.starts_with("reserved"))
}

/// A comment of the header as lines of at most `WIDTH` columns.
fn wrapped(doc: &str, indent: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in doc.split("\n\n").map(str::trim).filter(|p| !p.is_empty()) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let mut line = indent.to_string();
        for word in paragraph.replace('\\', "\\\\").split_whitespace() {
            // Room for the quotation marks on either side.
            if line.len() + word.len() + 7 > WIDTH {
                lines.push(std::mem::replace(&mut line, indent.into()));
            }
            if line.len() > indent.len() {
                line.push(' ');
            }
            line += word;
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// The types of the result and of the arguments, separated by commas.
fn types(header: &Header, function: &Function) -> String {
    let result = match (function.result.base.as_str(), function.result.stars) {
        ("void", 0) => "None".into(),
        _ => pointed(header, &function.result),
    };
    let arguments = function.arguments.iter().map(|argument| pointed(header, argument));
    std::iter::once(result).chain(arguments).collect::<Vec<_>>().join(", ")
}

fn member_type(header: &Header, member: &Declaration) -> String {
    let one = pointed(header, member);
    member.elements.map_or(one.clone(), |count| format!("{one} * {count}"))
}

/// The ctypes type of a declaration. A handle is a `c_void_p`.
fn pointed(header: &Header, of: &Declaration) -> String {
    let opaque = of.base == "void" || header.opaque.contains(&of.base);
    match (of.stars, of.base.as_str()) {
        (1, "char") => "ctypes.c_char_p".into(),
        (1, _) if opaque => "ctypes.c_void_p".into(),
        (2, "char") => "ctypes.POINTER(ctypes.c_char_p)".into(),
        (2, _) if opaque => "ctypes.POINTER(ctypes.c_void_p)".into(),
        (0, _) => scalar(header, of),
        (1, _) => format!("ctypes.POINTER({})", scalar(header, of)),
        _ => panic!("no ctypes type for {}: name one in tests/foreign/python/bindings.rs", of.name),
    }
}

fn scalar(header: &Header, of: &Declaration) -> String {
    match of.base.as_str() {
        "int32_t" | "gpuzip_status_t" => "ctypes.c_int32".into(),
        "uint32_t" => "ctypes.c_uint32".into(),
        "int64_t" => "ctypes.c_int64".into(),
        "uint64_t" => "ctypes.c_uint64".into(),
        "float" => "ctypes.c_float".into(),
        "double" => "ctypes.c_double".into(),
        name if header.structs.iter().any(|s| s.name == name)
            || header.callbacks.iter().any(|f| f.result.name == name) =>
        {
            name.into()
        }
        name => panic!("no ctypes type for {name}: name one in tests/foreign/python/bindings.rs"),
    }
}
