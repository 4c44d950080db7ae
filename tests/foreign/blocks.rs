//! Every code block of the documentation compiles or runs, and every command that it asks a reader to type runs
//! as it is printed, except for those that tests/common/commands.rs lists.

use crate::common::commands::{in_block, in_prose, not_run, Typed, PYTHON};
use crate::common::pages::{code, gpuzip, pages, sources, Block, Page};
use crate::common::{
    compile_c, have, library, library_path, needs, plain, root, rtm3d, run, stdout, target, tempdir,
};
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;

/// Checks the blocks of each page in their order, in one folder per page: later commands of a page
/// read files that its earlier programs write.
#[test]
fn every_block_compiles_or_runs() {
    let has_commands = |page: &Page| page.blocks().iter().any(|block| block.language == "sh");
    let (with_commands, others): (Vec<Page>, Vec<Page>) =
        pages().into_iter().partition(has_commands);
    // Pages with commands take several processors each, so these pages come one after the other.
    std::thread::scope(|scope| {
        scope.spawn(|| others.iter().for_each(check_blocks));
        with_commands.iter().for_each(check_blocks);
    });
}

fn check_blocks(page: &Page) {
    let (blocks, prose) = (page.blocks(), in_prose(page));
    if !blocks.is_empty() || !prose.is_empty() {
        let sandbox = Sandbox::new(page);
        let next = blocks.iter().skip(1).map(Some).chain([None]);
        blocks.iter().zip(next).for_each(|(block, next)| sandbox.check(block, next));
        sandbox.pictures(&blocks);
        prose.iter().for_each(|command| sandbox.shell(std::slice::from_ref(command), None));
    }
}

/// A folder with links to the files in the root of the repository, and with copies of the folders in which
/// commands build and write. The blocks of a page run here.
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
            if ["benches", "c-examples", "fortran"].contains(&name.as_str()) {
                run(Command::new("cp").arg("-r").args([root().join(&name), dir.join(&name)]));
            } else if !name.starts_with('.') && name != "target" && name != "build" {
                symlink(root().join(&name), dir.join(&name)).unwrap();
            }
        }
        library();
        symlink(target(), dir.join("target")).unwrap();
        // With another path of the repository, cargo would build everything again; with another home, it
        // would download everything again.
        fs::create_dir(dir.join("bin")).unwrap();
        let script = format!(
            "#!/bin/sh\nHOME='{}'\ncd '{}' && exec '{}' \"$@\"\n",
            std::env::var("HOME").unwrap_or_default(),
            root().display(),
            env!("CARGO")
        );
        fs::write(dir.join("bin/cargo"), script).unwrap();
        fs::set_permissions(dir.join("bin/cargo"), fs::Permissions::from_mode(0o755)).unwrap();
        // A velocity model of 121 x 401 FP32 values in m/s, and the model that a migration begins with.
        if page.text.contains(" vp.f32 ") {
            let speeds =
                (0..121 * 401).flat_map(|i| (1500.0 + 20.0 * (i % 121) as f32).to_le_bytes());
            let speeds: Vec<u8> = speeds.collect();
            fs::write(dir.join("vp.f32"), &speeds).unwrap();
            fs::write(dir.join("vp_init.f32"), &speeds).unwrap();
        }
        // Pages about more than one program take rtm3d as it is built on the page of the examples.
        let runs = |command: &Typed| {
            command.text.starts_with("build/rtm3d ") && not_run(&command.text).is_none()
        };
        let commands: Vec<Typed> =
            page.blocks().iter().filter(|b| b.language == "sh").flat_map(in_block).collect();
        if commands.iter().any(runs) && !page.text.contains("make -C c-examples/rtm3d\n") {
            fs::create_dir(dir.join("build")).unwrap();
            symlink(rtm3d(), dir.join("build/rtm3d")).unwrap();
        }
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
            "cpp" => {
                // What is used of CUDA is declared by a stand-in for its runtime.
                let runtime = root().join("c-examples/rtm3d_cuda/tests/cuda-runtime");
                let include = format!("-I{}", runtime.display());
                let cuda = ["-std=c++14", &include, "-D__CUDACC__", "-DKERNELS=\"\""];
                self.compiled(block, "c++", &cuda, "cpp");
            }
            "fortran" => self.fortran(block),
            "sh" => {
                let exact = EXACT.contains(&self.page.name.as_str());
                let printed = next.filter(|next| next.language == "text" && exact);
                self.shell(&in_block(block), printed);
            }
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
            "python" => assert!(PYTHON.iter().any(|(page, _)| *page == self.page.name)),
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
            .arg("-I")
            .arg(root().join("tests/docs"))
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

    /// Runs commands as they are printed, in one shell. tests/docs/shell.sh has what is checked of those that
    /// `NOT_RUN` lists: that names and options exist.
    ///
    /// `printed` is a block with all that the commands print, error messages included.
    fn shell(&self, commands: &[Typed], printed: Option<&Block>) {
        if commands.iter().any(|command| lacks(&command.text)) {
            return;
        }
        let mut script = String::new();
        if printed.is_some() {
            script.push_str("exec 2>&1\nset +e\ntrap 'exit 0' EXIT\n");
        }
        for Typed { line, text, code } in commands {
            let words: Vec<&str> = text.split_whitespace().collect();
            let built = words.iter().position(|word| word.starts_with("build/"));
            match (not_run(text), built.filter(|at| *at == 0 || words[0] == "mpirun")) {
                (None, _) if *code == 0 => script.push_str(&format!("{text}\n")),
                (None, _) => {
                    script.push_str(&format!("code=0; {text} || code=$?\n[ $code = {code} ]\n"))
                }
                (Some(_), Some(at)) => self.example(*line, &words[at..]),
                // The folder of the bundle for a machine with a GPU is the reader's current folder.
                (Some(_), None) if text.starts_with("./") => {
                    assert!(root().join("gpu-bundle").join(text).is_file(), "{line}: {text}")
                }
                (Some(reason), None) => {
                    println!("{}:{line}: not run ({reason}): {text}", self.page.name);
                    script.push_str(&format!("(. \"$CHECKS\"; {text}\n)\n"));
                }
            }
        }
        let bin = self.dir.join("bin");
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{}:{path}", bin.display(), library().display());
        let mut command = Command::new("bash");
        command
            .args(["-euc", &script, "bash"])
            .current_dir(&self.dir)
            .env("PATH", path)
            .env("HOME", &self.dir);
        let output = run(plain(&mut command)
            .env("LD_LIBRARY_PATH", library_path())
            .env("REPOSITORY", root())
            .env("CHECKS", root().join("tests/docs/shell.sh"))
            .env("CARGO", bin.join("cargo"))
            .env("CARGO_TARGET_DIR", target())
            .env("OMP_WAIT_POLICY", "passive")
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"));
        if let Some(expected) = printed {
            let place = format!("{}:{}", self.page.name, expected.line);
            assert_eq!(stdout(&output), expected.text, "{place}: what the commands print");
        }
    }

    /// Checks that the example has a folder in `c-examples/` or, if it is built in `build/fortran/`, in
    /// `fortran/examples/`, and that its options exist.
    fn example(&self, line: usize, words: &[&str]) {
        let place = format!("{}:{line}", self.page.name);
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

/// Whether a command needs a program that is not installed.
fn lacks(command: &str) -> bool {
    let needed = [
        ("pkg-config", "pkg-config"),
        ("mpicc ", "mpicc"),
        ("mpirun ", "mpirun"),
        ("rtm3d_mpi", "mpicc"),
        ("petsc", "mpicc"),
        ("gfortran ", "gfortran"),
        ("-C fortran", "gfortran"),
        ("shallow_water", "mpif90"),
        ("awave-swap", "c++"),
        ("python3 ", "python3"),
    ];
    let petsc = || {
        let found = Command::new("pkg-config").args(["--exists", "PETSc"]).status();
        found.is_ok_and(|status| status.success())
    };
    if (command.contains("petsc") || command.contains("burgers")) && !petsc() {
        println!("skipped: pkg-config finds no PETSc (Debian: petsc-dev)");
        return true;
    }
    needed.iter().any(|(word, program)| command.contains(word) && !have(program))
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
