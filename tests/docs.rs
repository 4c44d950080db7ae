//! Tests of the documentation: every code block compiles or runs; every link, path, name and `make`
//! target exists; every table that is derived from the sources agrees with the sources.
//! With `GPUZIP_UPDATE_DOCS=1` the tests rewrite these tables instead of comparing them.

mod common;

use common::{compile_c, have, library, library_path, root, run, stdout, target, tempdir};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// One Markdown page; `name` is its path below the root of the repository.
struct Page {
    name: String,
    text: String,
}

/// A fenced block of a page.
struct Block {
    /// The word after the opening fence.
    language: String,
    /// Line number of the opening fence.
    line: usize,
    text: String,
}

fn page(name: &str) -> Page {
    let text = fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    Page { name: name.into(), text }
}

/// The pages that a reader is led to: the README, the page for contributors, and `docs/`.
fn pages() -> Vec<Page> {
    let mut names: Vec<String> = vec!["README.md".into(), "CONTRIBUTING.md".into()];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            names.push(format!("docs/{name}"));
        }
    }
    names.sort();
    names.iter().map(|name| page(name)).collect()
}

impl Page {
    /// Lines with their numbers; `true` marks the lines of fenced blocks, fences included.
    fn lines(&self) -> impl Iterator<Item = (usize, &str, bool)> {
        let mut fenced = false;
        self.text.lines().enumerate().map(move |(at, line)| {
            let fence = line.starts_with("```");
            let inside = fenced || fence;
            fenced ^= fence;
            (at + 1, line, inside)
        })
    }

    fn blocks(&self) -> Vec<Block> {
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
    fn spans(&self) -> Vec<(usize, String)> {
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
    fn links(&self) -> Vec<(usize, String)> {
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
    fn anchors(&self) -> BTreeSet<String> {
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
fn sources() -> &'static [PathBuf] {
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

/// The text of all sources that are neither documentation nor this file, to look names up in.
fn code() -> &'static str {
    static CODE: OnceLock<String> = OnceLock::new();
    CODE.get_or_init(|| {
        let documentation = |path: &&PathBuf| path.extension().is_none_or(|e| e != "md");
        let itself = root().join("tests/docs.rs");
        sources()
            .iter()
            .filter(documentation)
            .filter(|path| **path != itself)
            .filter_map(|path| fs::read_to_string(path).ok())
            .collect()
    })
}

/// The words of the sources: runs of letters, digits and underscores.
fn words() -> &'static BTreeSet<&'static str> {
    static WORDS: OnceLock<BTreeSet<&'static str>> = OnceLock::new();
    WORDS.get_or_init(|| code().split(|c: char| !c.is_alphanumeric() && c != '_').collect())
}

/// Runs the release build of the command.
fn gpuzip(arguments: &[&str]) -> String {
    stdout(&run(Command::new(library().join("gpuzip")).args(arguments)))
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

/// Checks the blocks of each page in their order, in one folder per page: later commands of a page
/// read files that its earlier programs write.
#[test]
fn every_block_compiles_or_runs() {
    let has_commands = |page: &Page| page.blocks().iter().any(|block| block.language == "sh");
    let (with_commands, others): (Vec<Page>, Vec<Page>) =
        pages().into_iter().partition(has_commands);
    // Commands of two pages may build the same example, so these pages come one after the other.
    std::thread::scope(|scope| {
        scope.spawn(|| others.iter().for_each(check_blocks));
        with_commands.iter().for_each(check_blocks);
    });
}

fn check_blocks(page: &Page) {
    let blocks = page.blocks();
    if !blocks.is_empty() {
        let sandbox = Sandbox::new(page);
        let next = blocks.iter().skip(1).map(Some).chain([None]);
        blocks.iter().zip(next).for_each(|(block, next)| sandbox.check(block, next));
        sandbox.pictures(&blocks);
    }
}

/// A folder with links to the files in the root of the repository, in which the blocks of a page
/// run and write their files.
struct Sandbox<'a> {
    page: &'a Page,
    dir: PathBuf,
}

/// The head of the function around statements of a C or C++ block: its parameters are the variables
/// that these statements may use.
const FRAGMENT: &str =
    "static void fragment(gpuzip_t *session, gpuzip_schedule_t *schedule, gpuzip_config_t config, gpuzip_action_t action, \
    gpuzip_field_t *fields, uint32_t nfields, int32_t steps, void *stream, int shots, MPI_Comm world, int rank)\n{\n";

/// Pages whose commands print what the page shows after them.
const EXACT: [&str; 2] = ["docs/tutorial.md", "docs/faq.md"];

impl Sandbox<'_> {
    fn new(page: &Page) -> Sandbox<'_> {
        let dir = tempdir(&format!("docs-{}", page.name.replace(['/', '.'], "-")));
        for entry in fs::read_dir(root()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if !name.starts_with('.') && name != "target" && name != "build" {
                std::os::unix::fs::symlink(root().join(&name), dir.join(&name)).unwrap();
            }
        }
        library();
        std::os::unix::fs::symlink(target(), dir.join("target")).unwrap();
        // A field of 64^3 FP32 values for the commands that read one.
        let value = |i: usize| {
            (0.2 * (i % 64) as f32).sin()
                * (0.1 * (i / 64 % 64) as f32).cos()
                * (0.15 * (i / 4096) as f32).sin()
        };
        fs::write(
            dir.join("snapshot.f32"),
            (0..1 << 18).flat_map(|i| value(i).to_le_bytes()).collect::<Vec<_>>(),
        )
        .unwrap();
        Sandbox { page, dir }
    }

    /// Compares the pictures of a page whose commands draw pictures with what its commands have drawn.
    fn pictures(&self, blocks: &[Block]) {
        if !blocks.iter().any(|block| block.language == "sh" && block.text.contains("--svg")) {
            return;
        }
        for (line, link) in self.page.links().iter().filter(|(_, link)| link.ends_with(".svg")) {
            let place = format!("{}:{line}: {link}", self.page.name);
            let drawn = fs::read_to_string(self.dir.join(link))
                .unwrap_or_else(|e| panic!("{place}: no command of the page draws it: {e}"));
            let file = root().join("docs").join(link);
            if std::env::var_os("GPUZIP_UPDATE_DOCS").is_some() {
                fs::write(&file, &drawn).unwrap();
            }
            assert!(
                fs::read_to_string(&file).is_ok_and(|kept| kept == drawn),
                "{place}: the command draws another picture: run `make docs` and commit it"
            );
        }
    }

    fn name(&self, block: &Block, extension: &str) -> PathBuf {
        self.dir.join(format!("line{}.{extension}", block.line))
    }

    /// Checks a block; `next` is the block after it.
    fn check(&self, block: &Block, next: Option<&Block>) {
        println!("{}:{}: {}", self.page.name, block.line, block.language);
        if self.is_excerpt(block) {
            return;
        }
        match block.language.as_str() {
            "c" => self.compiled(block, "cc", &["-std=c99", "-pedantic"], "c"),
            "cpp" => self.compiled(block, "c++", &["-std=c++14"], "cpp"),
            "fortran" => self.fortran(block),
            "sh" => self.shell(block, next),
            "ini" => {
                let file = self.name(block, "cfg");
                fs::write(&file, &block.text).unwrap();
                gpuzip(&["config", file.to_str().unwrap()]);
            }
            "make" => {
                let file = self.name(block, "mk");
                fs::write(
                    &file,
                    format!("{}\n.PHONY: all\nall:\n\t@echo $(INCLUDE) $(LINK)\n", block.text),
                )
                .unwrap();
                run(Command::new("make").arg("-f").arg(file).arg("all"));
            }
            "cmake" => self.copied(block, "CMakeLists.txt"),
            "rust" => self.copied(block, ".rs"),
            // test_docs.py and adapter_*.py in python/tests run the blocks of these pages.
            "python" => {
                let tested =
                    ["python", "jax", "torch", "pyrevolve", "devito", "checkpoint_schedules"];
                assert!(tested.iter().any(|name| self.page.name == format!("docs/{name}.md")));
            }
            _ => {}
        }
    }

    /// Whether the block stands word for word in the source of an example, which other blocks of the
    /// page or other tests compile.
    fn is_excerpt(&self, block: &Block) -> bool {
        let is_example = |path: &&PathBuf| {
            ["c-examples", "fortran"].iter().any(|folder| path.starts_with(root().join(folder)))
        };
        ["c", "fortran"].contains(&block.language.as_str())
            && sources()
                .iter()
                .filter(is_example)
                .filter_map(|path| fs::read_to_string(path).ok())
                .any(|text| text.contains(&block.text))
    }

    /// Compiles and runs a block that is a whole program. Other blocks are only compiled:
    /// statements inside a function, after the page's earlier blocks that `declares` finds to be
    /// declarations.
    fn compiled(&self, block: &Block, compiler: &str, flags: &[&str], extension: &str) {
        if !have(compiler) {
            return;
        }
        let warnings = ["-Wall", "-Wextra", "-Werror"];
        let source = self.name(block, extension);
        if block.text.contains("int main(") {
            fs::write(&source, &block.text).unwrap();
            let program = compile_c(&self.dir, compiler, &[flags, &warnings].concat(), &source);
            run(Command::new(program).current_dir(&self.dir));
            return;
        }
        let earlier =
            self.page.blocks().into_iter().filter(|b| {
                b.language == block.language && b.line < block.line && declares(&b.text)
            });
        let declarations: String = earlier.map(|b| b.text).collect();
        let prelude = fs::read_to_string(root().join("tests/docs/prelude.h")).unwrap();
        let body = if declares(&block.text) {
            block.text.clone()
        } else {
            format!("{FRAGMENT}{}}}\n", block.text)
        };
        fs::write(&source, format!("{prelude}{declarations}{body}")).unwrap();
        let unused = ["-Wno-unused", "-fsyntax-only"];
        let include = root().join("include");
        run(Command::new(compiler)
            .args(flags)
            .args(warnings)
            .args(["-Wno-unused-parameter"])
            .args(unused)
            .arg("-I")
            .arg(include)
            .arg(source));
    }

    /// Compiles and runs a block that is a whole program. Other blocks are only compiled, as
    /// statements of the subroutine in `tests/docs/fragment.f90`.
    fn fortran(&self, block: &Block) {
        if !have("gfortran") {
            return;
        }
        let whole = block.text.lines().any(|line| line.trim_start().starts_with("program "));
        let source = self.name(block, "f90");
        let text = match whole {
            true => block.text.clone(),
            false => fs::read_to_string(root().join("tests/docs/fragment.f90"))
                .unwrap()
                .replace("! BLOCK\n", &block.text),
        };
        fs::write(&source, text).unwrap();
        let mut command = Command::new("gfortran");
        command
            .current_dir(&self.dir)
            .args(["-Wall", "-Werror", "-Wno-unused", "-Wno-unused-dummy-argument", "-J."])
            .arg(root().join("fortran/gpuzip.f90"))
            .arg(&source);
        if !whole {
            run(command.args(["-Wno-uninitialized", "-fsyntax-only"]));
            return;
        }
        let program = self.dir.join(format!("fortran{}", block.line));
        run(command
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(library())
            .args(["-lgpuzip", &format!("-Wl,-rpath,{}", library().display())]));
        run(Command::new(program).current_dir(&self.dir));
    }

    /// Runs the commands of a block, except those that take long: `make` only prints its commands,
    /// and only names and options are checked for `cargo` and for the examples in `build/`.
    ///
    /// On a page of `EXACT`, a block `text` after the commands is all that they print, error messages
    /// included.
    fn shell(&self, block: &Block, next: Option<&Block>) {
        for program in ["pkg-config", "mpicc", "gfortran"] {
            if block.text.contains(&format!("{program} ")) && !have(program) {
                return;
            }
        }
        let mut script = fs::read_to_string(root().join("tests/docs/shell.sh")).unwrap();
        let printed =
            next.filter(|next| next.language == "text" && EXACT.contains(&self.page.name.as_str()));
        if printed.is_some() {
            script.push_str("exec 2>&1\nset +e\ntrap 'exit 0' EXIT\n");
        }
        for command in block.text.replace("\\\n", " ").lines() {
            let words: Vec<&str> = command.split('#').next().unwrap().split_whitespace().collect();
            let built = words.iter().position(|word| word.starts_with("build/"));
            match built.filter(|at| *at == 0 || words[0] == "mpirun") {
                Some(at) => self.example(block, &words[at..]),
                None => script.push_str(&format!("{command}\n")),
            }
        }
        let path = format!("{}:{}", library().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command
            .args(["-euc", &script, "bash"])
            .current_dir(&self.dir)
            .env("PATH", path)
            .env("HOME", &self.dir);
        for variable in [
            "MAKEFLAGS",
            "MAKELEVEL",
            "MFLAGS",
            "PREFIX",
            "DESTDIR",
            "LIBDIR",
            "INCLUDEDIR",
            "BINDIR",
            "FC",
        ] {
            command.env_remove(variable);
        }
        let output = run(command
            .env("LD_LIBRARY_PATH", library_path())
            .env("REPOSITORY", root())
            .env("CARGO_TARGET_DIR", target())
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"));
        if let Some(expected) = printed {
            let place = format!("{}:{}", self.page.name, expected.line);
            assert_eq!(stdout(&output), expected.text, "{place}: what the commands print");
        }
    }

    /// Checks that the example has a folder in `c-examples/` and that its options exist.
    fn example(&self, block: &Block, words: &[&str]) {
        let place = format!("{}:{}", self.page.name, block.line);
        let name = words[0].trim_start_matches("build/");
        assert!(
            root().join("c-examples").join(name).is_dir(),
            "{place}: there is no example {name}"
        );
        for option in words.iter().filter(|word| word.starts_with("--")) {
            let option = option.split('=').next().unwrap();
            assert!(
                code().contains(&format!("\"{option}\"")),
                "{place}: no example has the option {option}"
            );
        }
    }

    /// Checks that a source whose name ends in `ending` has every line of the block; other tests
    /// compile these sources.
    fn copied(&self, block: &Block, ending: &str) {
        let place = format!("{}:{}", self.page.name, block.line);
        let lines: Vec<&str> =
            block.text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let has = |path: &&PathBuf| {
            path.to_str().is_some_and(|name| name.ends_with(ending))
                && fs::read_to_string(path).is_ok_and(|text| {
                    lines.iter().all(|line| {
                        text.replace("${WANTED} ", "").lines().any(|l| l.trim() == *line)
                    })
                })
        };
        assert!(
            sources().iter().any(|path| has(&path)),
            "{place}: no source that ends in {ending} has these lines"
        );
    }
}

/// Whether a block of C or C++ begins at file scope.
fn declares(text: &str) -> bool {
    let first = text
        .lines()
        .find(|line| !line.starts_with("/*") && !line.starts_with("//"))
        .unwrap_or_default();
    ["static ", "#include", "typedef ", "struct ", "template"]
        .iter()
        .any(|word| first.starts_with(word))
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
                if file && !root().join(path).exists() {
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
            let words: Vec<&str> = span.split_whitespace().collect();
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
/// tests/floors.rs lists all floors, the lowest first.
#[test]
fn the_architecture_page_has_the_floors() {
    let test = fs::read_to_string(root().join("tests/floors.rs")).unwrap();
    let list = test
        .split_once("const FLOORS")
        .unwrap()
        .1
        .split_once("= [")
        .unwrap()
        .1
        .split_once("];")
        .unwrap()
        .0;
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
    assert_eq!(drawn, expected, "docs/architecture.md and tests/floors.rs");
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
    let found = page
        .text
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(&end)?)));
    let (before, (old, after)) = found.unwrap_or_else(|| panic!("{name} has no {begin}... {end}"));
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

/// The `#define`s of the header whose names begin with `prefix`: name, number, and the comment
/// before the `#define`.
fn defines(prefix: &str) -> Vec<[String; 4]> {
    let header = fs::read_to_string(root().join("include/gpuzip.h")).unwrap();
    let mut comment = String::new();
    let mut found = Vec::new();
    for line in header.lines() {
        if line == "/*" {
            comment.clear();
        } else if let Some((name, number)) =
            line.strip_prefix("#define ").and_then(|rest| rest.split_once(' '))
        {
            if name.starts_with(prefix) {
                found.push([quoted(name), number.into(), cell(comment.trim()), String::new()]);
            }
        } else if line.trim() != "*/" {
            comment += &format!(" {}", line.trim());
        }
    }
    found
}

#[test]
fn the_api_page_has_the_statuses_of_the_header() {
    let mut rows = defines("GPUZIP_OK");
    rows.extend(defines("GPUZIP_ERR_"));
    table_is("docs/api.md", "statuses", ["status", "number", "meaning", ""], rows);
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
