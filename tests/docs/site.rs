//! The references that docs/site makes from the header, and the check of a site's links. tests/foreign/site.rs
//! builds the site and has mandoc check the manual pages.

use crate::common::{have, root, run, tempdir};
use gpuzip::capi::KEYS;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn script(name: &str, arguments: &[&Path]) -> Command {
    let mut python = Command::new("python3");
    python.arg("-B").arg(root().join("docs/site").join(name)).args(arguments);
    python
}

/// A page, and after it the pages that some of its sections have; the title of a class is a heading there.
fn with_parts(pages: &Path, page: &str) -> String {
    let read = |name: &str| fs::read_to_string(pages.join(format!("{name}.md"))).unwrap();
    let text = read(page);
    let listed = text.lines().skip_while(|line| *line != ":hidden:").skip(1);
    let names = listed.take_while(|line| *line != "```").filter(|line| !line.is_empty());
    let parts: String = names.map(|name| read(name).replacen("# gpuzip::", "\n## ", 1)).collect();
    text.clone() + &parts
}

/// The functions and constants of the header, each with the comment before it.
fn declarations() -> BTreeMap<String, String> {
    let header = fs::read_to_string(root().join("include/gpuzip.h")).unwrap();
    let (mut comment, mut inside, mut found) = (String::new(), false, BTreeMap::new());
    for line in header.lines() {
        let name = match line.strip_prefix("#define ") {
            Some(constant) => constant.split_once(' ').map(|(name, _)| name),
            None if line.starts_with("typedef") || line.starts_with('#') => None,
            None => line.split_once('(').and_then(|(head, _)| head.rsplit([' ', '*']).next()),
        };
        match (line, name) {
            ("/*", _) => (inside, comment) = (true, String::new()),
            (" */", _) => inside = false,
            _ if inside => comment += &format!("{line}\n"),
            (_, Some(name)) if !line.starts_with(' ') && !name.contains('(') => {
                found.insert(name.to_string(), comment.clone());
            }
            _ => {}
        }
    }
    for known in ["gpuzip_save", "gpuzip_request_stop", "GPUZIP_OK", "GPUZIP_TYPE_BYTE"] {
        assert!(found.contains_key(known), "{known} is not found in {:?}", found.keys());
    }
    found
}

/// The words of a text without the marks of Markdown and of manual pages.
fn words(text: &str) -> String {
    let plain = ["```c\n", "`", "*", "\\fB", "\\fI", "\\fR", "\\&", ".PP", ".nf", ".fi"]
        .iter()
        .fold(text.to_string(), |text, mark| text.replace(mark, ""))
        .replace("\\-", "-")
        .replace("&lt;", "<");
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_function_and_constant_has_its_whole_text_in_the_reference() {
    if !have("python3") {
        return;
    }
    let folder = tempdir("site-reference");
    let (pages, manuals) = (folder.join("pages"), folder.join("man3"));
    run(&mut script("reference.py", &[Path::new("pages"), &pages]));
    run(&mut script("reference.py", &[Path::new("man"), &manuals]));
    let constants = fs::read_to_string(pages.join("constants.md")).unwrap();
    for (name, comment) in declarations() {
        assert!(words(&comment).len() > 5, "{name} has no comment");
        if name.starts_with("GPUZIP_") {
            let row = constants.lines().find(|line| line.starts_with(&format!("| `{name}` | ")));
            assert!(words(row.unwrap_or_default()).contains(&words(&comment)), "{name}: {row:?}");
            continue;
        }
        for (file, head) in [
            (pages.join(format!("{name}.md")), format!("# {name}\n")),
            (manuals.join(format!("{name}.3")), format!(".TH {} 3 ", name.to_uppercase())),
        ] {
            let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file:?}: {e}"));
            assert!(text.starts_with(&head), "{file:?} does not begin with {head}");
            // In a page `<` would begin a tag, which nobody sees.
            let prose = || text.split("```").step_by(2).flat_map(|part| part.split('`').step_by(2));
            let tag = prose().find(|part| part.contains('<'));
            assert!(tag.is_none() || head.starts_with('.'), "{file:?}: {tag:?}");
            let (body, pointers) = comment.split_once(" Pointers:\n").unwrap_or((&comment, ""));
            for part in [body, pointers] {
                assert!(words(&text).contains(&words(part)), "{file:?} lacks {part}");
            }
        }
    }
}

/// The public names of a header, such as `session.save`, each with the comment before it. They are found by
/// the indentation of their lines, unlike in headers.py. Names in a namespace other than gpuzip are left out.
fn names_of_header(header: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("include").join(header)).unwrap();
    let (mut found, mut comment, mut open) = (Vec::new(), String::new(), false);
    let (mut class, mut public, mut inner) = (String::new(), true, false);
    for line in text.lines() {
        let code = line.trim_start();
        let at = line.len() - code.len();
        if open || code.starts_with("/*") || code.starts_with("//") {
            open = (open || code.starts_with("/*")) && !code.contains("*/");
            let marks = ['/', '*', ' '];
            comment += &format!("{} ", code.trim_start_matches(marks).trim_end_matches(marks));
            continue;
        }
        match line {
            "namespace gpuzip {" => {}
            _ if line.starts_with("namespace ") => inner = true,
            _ if line.starts_with("}  // namespace ") => inner = false,
            _ if line.starts_with("};") => (class, public) = (String::new(), true),
            _ if at == 1 && line.ends_with(':') => public = line == " public:",
            _ => {}
        }
        let first = |rest: &str| rest.split([' ', ';', '(']).next().unwrap().to_string();
        let kinds = ["class ", "struct ", "enum ", "typedef struct ", "#define "];
        let kind = kinds.iter().find_map(|kind| code.strip_prefix(kind)).map(first);
        let last = |head: &str| head.rsplit([' ', '*', '&']).next().unwrap().to_string();
        let function = code.split_once('(').map(|(head, _)| last(head));
        let member = at == 2 && !class.is_empty() && public;
        let constant = code.starts_with("#define ");
        let shown = !inner
            && (at == 0 || member)
            && !comment.starts_with("Internal")
            && (!code.starts_with('#') || constant && code.matches(' ').count() > 1)
            && !["~", "virtual ~", "friend "].iter().any(|it| code.starts_with(it))
            && !["= delete", "&&other)"].iter().any(|it| code.contains(it));
        let name = if constant { kind.clone() } else { function.or(kind.clone()) };
        if let Some(name) = name.filter(|name| shown && !name.contains('<')) {
            let told = code.split_once("/* ").filter(|_| constant);
            let comment = told.map_or(comment.trim(), |(_, told)| told.trim_end_matches(" */"));
            if !text.contains(&format!("#undef {name}")) {
                let scope = if member { format!("{class}.") } else { String::new() };
                found.push((scope + &name, comment.to_string()));
            }
        }
        if at == 0
            && line.ends_with('{')
            && (code.starts_with("class ") || code.starts_with("struct "))
        {
            (class, public) = (kind.unwrap(), code.starts_with("struct "));
        }
        // These lines stand between a comment and its declaration.
        if !code.starts_with("template") && !code.starts_with("#if") {
            comment.clear();
        }
    }
    found
}

#[test]
fn every_name_of_the_other_headers_has_its_whole_text_in_the_reference() {
    if !have("python3") {
        return;
    }
    let folder = tempdir("site-headers");
    let (pages, manuals) = (folder.join("pages"), folder.join("man3"));
    run(&mut script("reference.py", &[Path::new("pages"), &pages]));
    run(&mut script("reference.py", &[Path::new("man"), &manuals]));
    let dropin = fs::read_to_string(root().join("docs/gpuzip-2x.md")).unwrap();
    let (kept, _) = dropin.split_once("\n## Headers").unwrap().1.split_once("\n## ").unwrap();
    let kept =
        kept.lines().filter(|row| row.ends_with("| the same |") || row.contains("to be included"));
    let kept =
        kept.flat_map(|row| row.split('`').skip(1).step_by(2)).chain(["common/GPUZIPError.h"]);
    let mut headers: Vec<(String, &str, &str)> = vec![
        ("gpuzip.hpp".into(), "cxx-gpuzip", "session.retrieve_acquire"),
        ("gpuzip_revolve.h".into(), "c-gpuzip_revolve", "numforw"),
        ("gpuzip_gradient.h".into(), "c-gpuzip_gradient", "GPUZIP_TAYLOR_LEAST"),
        ("gpuzip_mpi.h".into(), "c-gpuzip_mpi", "gpuzip_mpi_recover"),
        ("gpuzip_interrupt.cuh".into(), "c-gpuzip_interrupt", "gpuzip_kernel_pending"),
    ];
    headers.extend(kept.map(|name| (format!("gpuzip-dropin/{name}"), "cxx-dropin", "")));
    assert!(headers.iter().any(|(name, ..)| name.ends_with("/Prefetch.cuh")), "{headers:?}");
    for (header, page, known) in headers {
        let names = names_of_header(&header);
        assert!(known.is_empty() || names.iter().any(|(name, _)| name == known), "{names:?}");
        let text = with_parts(&pages, page);
        for (name, comment) in names {
            let section =
                text.split("\n## ").flat_map(|part| part.split("\n### ")).find(|section| {
                    // A heading is `session.save`, or `Compressor.compress, decompress`.
                    let mut names = section.lines().next().unwrap().split(", ");
                    let first = names.next().unwrap();
                    let scope = first.split_once('.').map_or("", |(class, _)| class);
                    first == name || names.any(|it| format!("{scope}.{it}") == name)
                });
            let section = section.unwrap_or_else(|| panic!("{page}.md has no {name} of {header}"));
            let together = section.lines().next().unwrap().contains(", ");
            assert!(together || comment.len() > 5, "{header}: {name} has no comment");
            assert!(words(section).contains(&words(&comment)), "{section} lacks {comment}");
            let manual = manuals.join(format!("{name}.3"));
            if page.starts_with("c-")
                && name.starts_with("gpuzip")
                && name != "gpuzip_revolve_action"
            {
                let text =
                    fs::read_to_string(&manual).unwrap_or_else(|e| panic!("{manual:?}: {e}"));
                assert!(words(&text).contains(&words(&comment)), "{manual:?} lacks {comment}");
                assert!(text.contains(&format!("#include <{header}>")), "{text}");
            }
        }
    }
}

#[test]
fn every_public_procedure_of_fortran_and_class_of_python_is_in_the_reference() {
    if !have("python3") {
        return;
    }
    let pages = tempdir("site-languages");
    run(&mut script("reference.py", &[Path::new("pages"), &pages]));
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    for module in ["gpuzip", "gpuzip_gradient"] {
        let page = with_parts(&pages, &format!("fortran-{module}"));
        let source = read(&root().join(format!("fortran/{module}.f90")));
        let public = source.lines().filter_map(|line| line.strip_prefix("  public :: "));
        for name in public.flat_map(|names| names.split(", ")).filter(|name| !name.ends_with("_t"))
        {
            let sections = page.matches(&format!("\n## {name}\n")).count();
            assert_eq!(sections, 1, "fortran/{module}.f90: {name}");
        }
    }
    let page = with_parts(&pages, "fortran-gpuzip");
    assert!(page.contains("[gpuzip_save](fortran-the-loop.md#gpuzip_save)"), "{page}");
    for line in [
        "  type(gpuzip_field_t), intent(in), target :: fields(:)",
        "  integer, intent(out), optional :: stat",
    ] {
        assert!(page.contains(line), "the arguments of Fortran lack {line}");
    }
    let page = read(&pages.join("python-init.md"));
    let package = read(&root().join("python/src/gpuzip/__init__.py"));
    let listed = package.split_once("__all__ = [").unwrap().1.split_once(']').unwrap().0;
    let names: Vec<&str> = listed.split(['"', ',', '\n', ' ']).filter(|s| !s.is_empty()).collect();
    let constant = |name: &str| name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    for name in names.iter().filter(|name| !constant(name) && **name != "__version__") {
        let own = pages.join(format!("gpuzip.{name}.md"));
        let there = own.exists() && read(&own).starts_with(&format!("# gpuzip.{name}\n"));
        assert!(there || page.contains(&format!("\n## {name}\n")), "python-init.md lacks {name}");
        let listed = page.contains(&format!("[{name}](gpuzip.{name}.md)\n"));
        assert!(listed == own.exists(), "python-init.md and {own:?}");
    }
    let page = read(&pages.join("gpuzip.Session.md"));
    assert!(page.contains("\n## Session.save\n") && page.contains("class Session("), "methods");
}

#[test]
fn every_key_of_the_configuration_is_on_one_page_and_its_manual_page_has_all() {
    if !have("python3") {
        return;
    }
    let folder = tempdir("site-keys");
    let (pages, manuals) = (folder.join("pages"), folder.join("man3"));
    run(&mut script("reference.py", &[Path::new("pages"), &pages]));
    run(&mut script("reference.py", &[Path::new("man"), &manuals]));
    let index = fs::read_to_string(pages.join("gpuzip_config_t.md")).unwrap();
    let all = with_parts(&pages, "gpuzip_config_t");
    let manual = fs::read_to_string(manuals.join("gpuzip_config_t.3")).unwrap();
    for key in KEYS {
        assert_eq!(all.matches(&format!("\n## {}\n", key.name)).count(), 1, "{}", key.name);
        assert!(index.contains(&format!("[{0}](config-", key.name)), "{}", key.name);
        assert!(index.contains(&format!(".md#{})", key.name)), "{}", key.name);
        assert!(!index.contains(&format!("\n## {}\n", key.name)), "{}", key.name);
        let names = |line: &str| {
            line.starts_with(".B ") && line.rsplit([' ', '*']).next() == Some(key.name)
        };
        assert_eq!(manual.lines().filter(|line| names(line)).count(), 1, "{}", key.name);
    }
}

/// The commands that the manual pages consist of, by the package man of troff.
const COMMANDS: [&str; 9] = [".TH", ".SH", ".TP", ".IP", ".B", ".BR", ".PP", ".nf", ".fi"];

#[test]
fn every_manual_page_is_well_formed() {
    if !have("python3") {
        return;
    }
    let folder = tempdir("site-manuals");
    run(&mut script("reference.py", &[Path::new("man"), &folder]));
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        let stem = file.file_stem().unwrap().to_str().unwrap();
        assert!(text.contains(&format!(".SH NAME\n{stem} \\- ")), "{file:?}");
        let at = |heading: &str| {
            text.find(&format!(".SH {heading}\n")).unwrap_or_else(|| panic!("{file:?}: {heading}"))
        };
        assert!(at("NAME") < at("SYNOPSIS") && at("SYNOPSIS") < at("DESCRIPTION"), "{file:?}");
        assert!(at("DESCRIPTION") < at("SEE ALSO"), "{file:?}");
        assert_eq!(text.matches("\n.nf\n").count(), text.matches("\n.fi\n").count(), "{file:?}");
        for line in text.lines().filter(|line| line.starts_with(['.', '\''])) {
            let command = line.split(' ').next().unwrap();
            assert!(COMMANDS.contains(&command), "{file:?}: {line}");
        }
        for other in text.lines().filter_map(|line| line.strip_prefix(".BR gpuzip")) {
            let Some((name, section)) = other.split_once(" (") else { continue };
            let there = folder.join(format!("gpuzip{name}.3"));
            assert!(there.exists() || section.starts_with("1)"), "{file:?} names gpuzip{name}");
        }
    }
}

fn links(folder: &Path) -> Output {
    script("links.py", &[folder]).output().unwrap()
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    if !have("python3") {
        return;
    }
    let folder = tempdir("site-links");
    let good = "<a href='b.html#there'>b</a> <a href='https://example.org/'>elsewhere</a>";
    fs::write(folder.join("b.html"), "<h1 id='there'>B</h1> <a href='#there'>up</a>").unwrap();
    fs::write(folder.join("c.svg"), "").unwrap();
    for (link, dead) in [
        ("<img src='c.svg'>", None),
        ("<a href='c.html'>c</a>", Some("c.html")),
        ("<a href='b.html#here'>b</a>", Some("b.html#here")),
        ("<a href='#here'>here</a>", Some("#here")),
        ("<img src='d.svg'>", Some("d.svg")),
        (
            "<script src='https://example.org/x.js'></script>",
            Some("loads https://example.org/x.js"),
        ),
        ("<link rel='stylesheet' href='//example.org/x.css'>", Some("loads //example.org/x.css")),
    ] {
        fs::write(folder.join("a.html"), format!("{good} {link}")).unwrap();
        let output = links(&folder);
        let said = String::from_utf8(output.stderr).unwrap();
        match dead {
            None => assert!(output.status.success(), "{said}"),
            Some(dead) => {
                let lines: Vec<&str> = said.lines().skip(1).collect();
                assert!(!output.status.success(), "{link} passes");
                assert!(
                    lines.len() == 1 && lines[0].ends_with(&format!("a.html: {dead}")),
                    "{said}"
                );
            }
        }
    }
    let empty = folder.join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(!links(&empty).status.success(), "a folder without pages passes");
}
