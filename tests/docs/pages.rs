//! Tests of the documentation: every link, path, name and `make` target exists; every table that is
//! derived from the sources agrees with the sources. With `GPUZIP_UPDATE_DOCS=1` the tests rewrite
//! these tables instead of comparing them. tests/foreign/blocks.rs compiles the code blocks.

use crate::common::pages::{gpuzip, page, pages, words, Block, Page};
use crate::common::{root, run, stdout};
use gpuzip::together::{Pair, PAIRS};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::sync::OnceLock;

/// Splits a text at two marks into what stands before, between and after them.
fn parts<'a>(text: &'a str, begin: &str, end: &str) -> Option<[&'a str; 3]> {
    let (before, rest) = text.split_once(begin)?;
    let (between, after) = rest.split_once(end)?;
    Some([before, between, after])
}

// Code blocks.

#[test]
fn every_block_has_a_language_that_is_tested() {
    let tested = ["c", "cpp", "fortran", "python", "sh", "ini", "make", "cmake", "rust", "text"];
    for page in pages() {
        for block in page.blocks() {
            assert!(
                tested.contains(&block.language.as_str()),
                "{}:{}: `{}` is not tested; output is `text`",
                page.name,
                block.line,
                block.language
            );
        }
    }
}

#[test]
fn the_readme_shows_the_minimal_example() {
    let program = fs::read_to_string(root().join("c-examples/minimal.c")).unwrap();
    assert!(
        page("README.md").text.contains(&program),
        "README.md shows c-examples/minimal.c word for word"
    );
}

#[test]
fn the_readme_is_short() {
    let words = page("README.md").text.split_whitespace().count();
    assert!(
        words <= 1300,
        "README.md has {words} words: what is beyond 1300 belongs to a page in docs/"
    );
}

/// The pages in docs/ stay readable: at most 36,000 words, without the tables that tests write.
#[test]
fn the_pages_are_short() {
    let written = |page: &Page| {
        let mut rest = page.text.as_str();
        let mut count = 0;
        while let Some((before, table)) = rest.split_once("<!-- begin ") {
            count += before.split_whitespace().count();
            rest = table.split_once("<!-- end ").expect("the end of a table").1;
        }
        count + rest.split_whitespace().count()
    };
    let all = pages();
    let in_docs = all.iter().filter(|page| page.name.starts_with("docs/"));
    let words: usize = in_docs.map(written).sum();
    assert!((20_000..=36_000).contains(&words), "docs/ has {words} words: say it in fewer");
}

// Tables, as GitHub shows them: the cells that a row has too many are lost without a word.

#[test]
fn every_row_of_a_table_has_as_many_cells_as_its_head() {
    for page in pages() {
        let mut head = None;
        for (at, line, fenced) in page.lines() {
            if fenced || !line.starts_with('|') {
                head = None;
                continue;
            }
            let cells: usize =
                line.split('`').step_by(2).map(|text| text.matches('|').count()).sum();
            assert_eq!(cells, *head.get_or_insert(cells), "{}:{at}: {line}", page.name);
        }
    }
}

// Links and names.

/// The shell finds `gpuzip` after `export PATH=...`, which docs/command.md has.
#[test]
fn a_page_that_calls_the_command_says_where_the_command_is() {
    for page in pages() {
        let calls = |block: &Block| {
            block.language == "sh" && block.text.lines().any(|line| line.starts_with("gpuzip "))
        };
        let says = page.links().iter().any(|(_, link)| link.ends_with("command.md"))
            || page.blocks().iter().any(|block| block.text.contains("export PATH="));
        assert!(says || !page.blocks().iter().any(calls), "{} calls gpuzip", page.name);
    }
}

#[test]
fn every_link_leads_somewhere() {
    let mut missing = Vec::new();
    for page in pages() {
        for (line, link) in page.links() {
            if link.starts_with("https://") || link.starts_with("http://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = root().join(&page.name).parent().unwrap().to_path_buf();
            let path = if file.is_empty() { root().join(&page.name) } else { folder.join(file) };
            let found = path.exists()
                && (anchor.is_empty()
                    || Page { name: link.clone(), text: fs::read_to_string(&path).unwrap() }
                        .anchors()
                        .contains(anchor));
            if !found {
                missing.push(format!("{}:{line}: {link}", page.name));
            }
        }
    }
    assert!(missing.is_empty(), "links that lead nowhere: {missing:#?}");
}

#[test]
fn every_page_is_in_the_index() {
    let index: BTreeSet<String> =
        page("docs/README.md").links().into_iter().map(|(_, link)| link).collect();
    for page in pages().iter().filter_map(|page| page.name.strip_prefix("docs/").map(String::from))
    {
        assert!(
            page == "README.md" || index.contains(&page),
            "docs/README.md does not lead to docs/{page}"
        );
    }
}

#[test]
fn every_path_exists() {
    let top: BTreeSet<String> = fs::read_dir(root())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut missing = Vec::new();
    for page in pages() {
        for (line, span) in page.spans() {
            for word in span.split([' ', ',']).map(|word| word.trim_end_matches('/')) {
                let first = word.split('/').next().unwrap();
                let ours = top.contains(first) && first != "target" && first != "build";
                // NAME stands for a file that the reader is to create.
                let file = word.contains('/') && ours && !word.contains("NAME");
                // Of a path with a star, only the folder in front of the star is checked.
                let path = word.split('*').next().unwrap();
                let path = if path.len() < word.len() {
                    path.rsplit_once('/').map_or("", |(folder, _)| folder)
                } else {
                    path
                };
                // Pages of a folder also name files from there.
                let beside = root().join(&page.name).with_file_name(path);
                if file && !root().join(path).exists() && !beside.exists() {
                    missing.push(format!("{}:{line}: {word}", page.name));
                }
            }
        }
    }
    assert!(missing.is_empty(), "paths that do not exist: {missing:#?}");
}

/// Checks names that begin with `gpuzip_` or `GPUZIP_` (functions, constants, variables), and the
/// last name of every Rust path.
#[test]
fn every_name_is_known() {
    let mut unknown = Vec::new();
    for page in pages() {
        for (line, span) in page.spans() {
            let mut check = |name: &str, known: bool| {
                if !known {
                    unknown.push(format!("{}:{line}: {name}", page.name));
                }
            };
            for word in span.split(|c: char| !c.is_alphanumeric() && !"_:*<".contains(c)) {
                // A star or an angle bracket stands for any ending.
                let name = word.split(['*', '<']).next().unwrap();
                let open = name.len() < word.len();
                let name = name.trim_end_matches(':');
                if let Some((_, last)) = name.rsplit_once("::") {
                    check(name, words().contains(last));
                } else if name.starts_with("gpuzip_") || name.starts_with("GPUZIP_") {
                    check(
                        name,
                        words().contains(name)
                            || is_variable(name)
                            || (open && words().iter().any(|word| word.starts_with(name))),
                    );
                }
            }
        }
    }
    assert!(unknown.is_empty(), "names that nothing has: {unknown:#?}");
}

/// The output of `gpuzip config --json`.
fn configuration() -> &'static Value {
    static LISTED: OnceLock<Value> = OnceLock::new();
    LISTED.get_or_init(|| serde_json::from_str(&gpuzip(&["config", "--json"])).unwrap())
}

/// Whether a name is the environment variable of a configuration key.
fn is_variable(name: &str) -> bool {
    let keys = configuration()["keys"].as_array().unwrap();
    name.strip_prefix("GPUZIP_")
        .is_some_and(|key| keys.iter().any(|k| k["key"].as_str().unwrap().to_uppercase() == key))
}

#[test]
fn every_make_target_and_command_exists() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let has = |text: &str, target: &str| {
        text.lines()
            .any(|line| line.split(':').next().unwrap().split(' ').any(|word| word == target))
    };
    let commands = gpuzip(&["--help"]);
    for page in pages() {
        for (line, span) in page.spans() {
            // Quotation marks begin the value of a variable.
            let words: Vec<&str> = span.split('\'').next().unwrap().split_whitespace().collect();
            let place = format!("{}:{line}: {span}", page.name);
            match words.as_slice() {
                ["make", "-C", folder, rest @ ..] => {
                    let text = fs::read_to_string(root().join(folder).join("Makefile"))
                        .unwrap_or_else(|e| panic!("{place}: {e}"));
                    rest.iter()
                        .filter(|word| !word.contains('='))
                        .for_each(|target| assert!(has(&text, target), "{place}"));
                }
                ["make", rest @ ..] => rest
                    .iter()
                    .filter(|word| !word.contains('='))
                    .for_each(|target| assert!(has(&makefile, target), "{place}")),
                ["gpuzip", command, ..] if !command.starts_with('-') => {
                    assert!(
                        commands.lines().any(|l| l.split_whitespace().next() == Some(command)),
                        "{place}"
                    );
                }
                _ => {}
            }
        }
    }
}

/// docs/architecture.md lists the floors from `schedule` upward, the highest first;
/// tests/abi/floors.rs lists all floors, the lowest first.
#[test]
fn the_architecture_page_has_the_floors() {
    let test = fs::read_to_string(root().join("tests/abi/floors.rs")).unwrap();
    let [_, list, _] = parts(&test, "const FLOORS", "];").unwrap();
    let floors: Vec<&str> =
        list.split('"').skip(1).step_by(2).filter(|name| *name != "lib").collect();
    let above = floors.iter().position(|name| *name == "schedule").unwrap();
    let blocks = page("docs/architecture.md").blocks();
    let drawn = blocks.iter().find(|block| block.language == "text").unwrap();
    let drawn: Vec<&str> = drawn
        .text
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let expected: Vec<&str> = floors[above..].iter().rev().copied().collect();
    assert_eq!(drawn, expected, "docs/architecture.md and tests/abi/floors.rs");
}

#[test]
fn the_citation_has_the_version() {
    let citation = page("CITATION.cff").text;
    assert!(
        citation.contains(concat!("\nversion: ", env!("CARGO_PKG_VERSION"), "\n")),
        "{citation}"
    );
}

#[test]
fn the_readme_names_the_files_of_this_release() {
    let readme = page("README.md").text;
    for ending in [".tar.gz", "-linux-x86_64.tar.gz"] {
        let file = format!("{}{ending}", concat!("gpuzip-", env!("CARGO_PKG_VERSION")));
        assert!(readme.contains(&format!("tar xf {file}")), "README.md does not unpack {file}");
    }
}

#[test]
fn make_help_names_every_target() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let phony = makefile.lines().find_map(|line| line.strip_prefix(".PHONY:")).unwrap();
    let help = stdout(&run(Command::new("make")
        .current_dir(root())
        .arg("help")
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")));
    for target in phony.split_whitespace().filter(|target| *target != "all") {
        let said = help.lines().any(|line| {
            line.trim().strip_prefix(target).is_some_and(|rest| rest.starts_with("  "))
        });
        assert!(said, "make help says nothing of {target}:\n{help}");
    }
}

// Tables.

/// Compares the lines between `<!-- begin {table} -->` and `<!-- end {table} -->` of page `name`
/// with a table of `head` and `rows`; with GPUZIP_UPDATE_DOCS=1 replaces these lines.
fn table_is(name: &str, table: &str, head: [&str; 4], rows: Vec<[String; 4]>) {
    let columns = head.iter().filter(|name| !name.is_empty()).count();
    let row = |cells: &[String]| format!("| {} |\n", cells[..columns].join(" | "));
    let mut made = row(&head.map(String::from)) + &"|---".repeat(columns) + "|\n";
    rows.iter().for_each(|cells| made += &row(cells));
    let page = page(name);
    let (begin, end) = (format!("<!-- begin {table} -->\n"), format!("<!-- end {table} -->\n"));
    let found = parts(&page.text, &begin, &end);
    let [before, old, after] = found.unwrap_or_else(|| panic!("{name} has no {begin}... {end}"));
    if std::env::var_os("GPUZIP_UPDATE_DOCS").is_some() {
        fs::write(root().join(name), format!("{before}{begin}{made}{end}{after}")).unwrap();
        return;
    }
    let first = old.lines().zip(made.lines()).find(|(old, made)| old != made);
    assert!(old == made, "{name}: the table of {table} is old; GPUZIP_UPDATE_DOCS=1 cargo test --test docs rewrites it. First: {first:#?}");
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

fn quoted(text: &str) -> String {
    if text.is_empty() {
        "".into()
    } else {
        format!("`{text}`")
    }
}

#[test]
fn the_configuration_page_has_the_keys_of_the_command() {
    let listed = configuration();
    let text = |object: &Value, name: &str| object[name].as_str().unwrap().to_string();
    let keys = listed["keys"].as_array().unwrap();
    let row = |key: &Value| {
        let unit = match text(key, "unit") {
            unit if unit.is_empty() => String::new(),
            unit => format!(" ({})", cell(&unit)),
        };
        let values = cell(&text(key, "values")) + &unit;
        [
            quoted(&text(key, "key")),
            quoted(&text(key, "default")),
            values,
            cell(&text(key, "meaning")),
        ]
    };
    table_is(
        "docs/configuration.md",
        "keys",
        ["key", "default", "values (unit)", "meaning"],
        keys.iter().map(row).collect(),
    );
    let variables = listed["variables"].as_array().unwrap();
    let row = |variable: &Value| {
        [
            quoted(&text(variable, "variable")),
            cell(&text(variable, "meaning")),
            String::new(),
            String::new(),
        ]
    };
    table_is(
        "docs/configuration.md",
        "variables",
        ["variable", "meaning", "", ""],
        variables.iter().map(row).collect(),
    );
}

#[test]
fn the_limitations_page_has_the_pairs_that_are_refused() {
    let row = |pair: &Pair| {
        let [one, other] = pair.modes.map(|mode| mode.name().replace('#', "N"));
        let status = format!("GPUZIP_ERR_{}", format!("{:?}", pair.code).to_uppercase());
        [one, other, format!("{}: {}", pair.why, pair.remedy), quoted(&status)]
    };
    let head = ["asked for", "together with", "reason: remedy", "status"];
    table_is("docs/limitations.md", "pairs", head, PAIRS.iter().map(row).collect());
}

#[test]
fn the_compression_page_has_every_codec() {
    let text = page("docs/compression.md").text;
    for codec in gpuzip::codec::CODECS.iter().filter(|codec| codec.number > 0) {
        let row = format!("\n| `{}` |", codec.name);
        assert!(text.contains(&row), "docs/compression.md has no row{row}");
    }
}

/// docs/performance.md counts the transfers for the schedule of GPUZIP 2.x's Salt data set (3751
/// time steps, 8 snapshots).
#[test]
fn the_performance_page_has_the_transfers_of_the_plan() {
    let count = |cache: &str, policy: &str| {
        let schedule =
            ["plan", "--algorithm", "revolve", "--steps", "3751", "--snapshots", "8", "--json"];
        let plan: Value = serde_json::from_str(&gpuzip(
            &[&schedule[..], &["--cache", cache, "--policy", policy]].concat(),
        ))
        .unwrap();
        let lead = format!("{:.1}", plan["mean_lead"].as_f64().unwrap());
        (format!("{} + {}", plan["h2d"], plan["d2h"]), lead)
    };
    let page = page("docs/performance.md");
    for cache in ["2", "4", "6", "8"] {
        let row =
            page.text.lines().find(|line| line.starts_with(&format!("| {cache} | "))).unwrap();
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let ((lru, lru_lead), (clairvoyant, lead)) =
            (count(cache, "lru"), count(cache, "clairvoyant"));
        assert_eq!(cells[1..3], [lru, clairvoyant], "{row}");
        assert!(
            cells[3].is_empty() || cells[3] == format!("{lru_lead} and {lead}"),
            "{row}: {lru_lead} and {lead}"
        );
    }
}

#[test]
fn the_api_page_names_every_function() {
    let header = fs::read_to_string(root().join("include/gpuzip.h")).unwrap();
    let page = page("docs/api.md");
    let named: BTreeSet<String> = page.spans().into_iter().map(|(_, span)| span).collect();
    let functions = header.lines().filter(|line| {
        line.starts_with("gpuzip_status_t gpuzip_") || line.starts_with("const char *gpuzip_")
    });
    let name =
        |line: &str| line.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap().to_string();
    let missing: Vec<String> = functions.map(name).filter(|name| !named.contains(name)).collect();
    assert!(missing.is_empty(), "docs/api.md says nothing of {missing:?}");
}
