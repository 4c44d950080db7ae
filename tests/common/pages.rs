//! The pages of the documentation, and the names that the sources have.

use super::{built, root, run, stdout};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// One Markdown page; `name` is its path below the root of the repository.
pub struct Page {
    pub name: String,
    pub text: String,
}

/// A fenced block of a page.
pub struct Block {
    /// The word after the opening fence.
    pub language: String,
    /// Line number of the opening fence.
    pub line: usize,
    pub text: String,
}

pub fn page(name: &str) -> Page {
    let text = fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    Page { name: name.into(), text }
}

/// Every page of the repository but CHANGELOG.md, which tells of the past.
pub fn pages() -> Vec<Page> {
    let mut names: Vec<&str> = sources()
        .iter()
        .filter_map(|path| path.strip_prefix(root()).unwrap().to_str())
        .filter(|name| name.ends_with(".md") && *name != "CHANGELOG.md")
        .collect();
    names.sort();
    names.into_iter().map(page).collect()
}

impl Page {
    /// Lines with their numbers; `true` marks the lines of fenced blocks, fences included.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str, bool)> {
        let mut fenced = false;
        self.text.lines().enumerate().map(move |(at, line)| {
            let fence = line.starts_with("```");
            let inside = fenced || fence;
            fenced ^= fence;
            (at + 1, line, inside)
        })
    }

    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut open = false;
        for (at, line, _) in self.lines() {
            match (line.strip_prefix("```"), open) {
                (Some(language), false) => {
                    blocks.push(Block {
                        language: language.trim().into(),
                        line: at,
                        text: String::new(),
                    });
                    open = true;
                }
                (Some(_), true) => open = false,
                (None, true) => {
                    let text = &mut blocks.last_mut().unwrap().text;
                    text.push_str(line);
                    text.push('\n');
                }
                (None, false) => {}
            }
        }
        assert!(!open, "{}: the last fence is not closed", self.name);
        blocks
    }

    /// The text between backquotes, with line numbers. No pair of backquotes goes over two lines.
    pub fn spans(&self) -> Vec<(usize, String)> {
        let prose = self.lines().filter(|(_, _, fenced)| !fenced);
        let odd = |line: &str| {
            line.split('`')
                .map(String::from)
                .enumerate()
                .filter(|(i, _)| i % 2 == 1)
                .map(|(_, s)| s)
                .collect::<Vec<_>>()
        };
        prose
            .flat_map(|(at, line, _)| {
                assert!(
                    line.matches('`').count() % 2 == 0,
                    "{}:{at}: a backquote without its partner",
                    self.name
                );
                odd(line).into_iter().map(move |span| (at, span))
            })
            .collect()
    }

    /// The targets of links and pictures outside of code, with line numbers.
    pub fn links(&self) -> Vec<(usize, String)> {
        let mut links = Vec::new();
        for (at, line, _) in self.lines().filter(|(_, _, fenced)| !fenced) {
            let parts = line.split('`').step_by(2).collect::<Vec<_>>().join("");
            for rest in parts.split("](").skip(1) {
                links.push((at, rest.split(')').next().unwrap().to_string()));
            }
        }
        links
    }

    /// The anchors that GitHub derives from the page's headings.
    pub fn anchors(&self) -> BTreeSet<String> {
        let headings = self.lines().filter(|(_, line, fenced)| !fenced && line.starts_with('#'));
        let kept = |c: char| {
            (c.is_alphanumeric() || c == '-' || c == '_').then(|| c.to_lowercase().to_string())
        };
        let slug = |line: &str| {
            let words = line.trim_start_matches('#').trim();
            words
                .chars()
                .filter_map(|c| if c == ' ' { Some("-".into()) } else { kept(c) })
                .collect::<String>()
        };
        headings.map(|(_, line, _)| slug(line)).collect()
    }
}

/// All files below the repository's root, without build products, hidden folders, and the folder
/// `vendor` of the tarball.
pub fn sources() -> &'static [PathBuf] {
    static SOURCES: OnceLock<Vec<PathBuf>> = OnceLock::new();
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && !path.is_symlink() {
                let product = name.starts_with('.')
                    || ["target", "build", "corpus", "vendor"].contains(&name);
                if !product {
                    walk(&path, found);
                }
            } else {
                found.push(path);
            }
        }
    }
    SOURCES.get_or_init(|| {
        let mut found = Vec::new();
        walk(&root(), &mut found);
        found
    })
}

/// The text of all sources that are neither documentation nor tests of it, to look names up in.
pub fn code() -> &'static str {
    static CODE: OnceLock<String> = OnceLock::new();
    CODE.get_or_init(|| {
        let documentation = |path: &&PathBuf| path.extension().is_none_or(|e| e != "md");
        let these = ["docs/pages.rs", "foreign/blocks.rs", "common/commands.rs"]
            .map(|file| root().join("tests").join(file));
        sources()
            .iter()
            .filter(documentation)
            .filter(|path| !these.contains(path))
            .filter_map(|path| fs::read_to_string(path).ok())
            .collect()
    })
}

/// The words of the sources: runs of letters, digits and underscores.
pub fn words() -> &'static BTreeSet<&'static str> {
    static WORDS: OnceLock<BTreeSet<&'static str>> = OnceLock::new();
    WORDS.get_or_init(|| code().split(|c: char| !c.is_alphanumeric() && c != '_').collect())
}

/// Runs the command as `cargo test` has built it beside the tests.
pub fn gpuzip(arguments: &[&str]) -> String {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let program = built().join("gpuzip");
        if !program.exists() {
            run(Command::new(env!("CARGO")).args(["build", "--quiet", "-p", "gpuzip-cli"]));
        }
        program
    });
    stdout(&run(Command::new(program).args(arguments)))
}
