//! Every code block of the documentation compiles or runs.

use crate::common::pages::{code, gpuzip, pages, sources, Block, Page};
use crate::common::{
    compile_c, have, library, library_path, needs, plain, root, run, stdout, target, tempdir,
};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

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
        needs!("gfortran");
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
        let output = run(plain(&mut command)
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

    /// Checks that the example has a folder in `c-examples/` or, if it is built in `build/fortran/`, in
    /// `fortran/examples/`, and that its options exist.
    fn example(&self, block: &Block, words: &[&str]) {
        let place = format!("{}:{}", self.page.name, block.line);
        let name = words[0].trim_start_matches("build/");
        let folder = match name.strip_prefix("fortran/") {
            Some(name) => root().join("fortran/examples").join(name),
            None => root().join("c-examples").join(name),
        };
        assert!(folder.is_dir(), "{place}: there is no example {name}");
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
