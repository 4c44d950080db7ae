//! The scripts and recipes of `packaging/`, the modulefile and the manifest of fpm. With
//! GPUZIP_TEST_LONG: Rust of the oldest version and for aarch64, the tarball without a network, and
//! a release as far as its tag.

use crate::common::{self, cases};
use common::{have, library, needs, plain, root, run, stdout, target, tempdir};
use std::fs;
use std::path::Path;
use std::process::Command;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const RUST: &str = env!("CARGO_PKG_RUST_VERSION");

/// The oldest glibc that the binaries of a release run on.
const GLIBC: (u32, u32) = (2, 17);

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Whether GPUZIP_TEST_LONG is set. If not, prints that the test is skipped.
fn long(what: &str) -> bool {
    let set = cases::long();
    if !set {
        println!("skipped: {what}, with GPUZIP_TEST_LONG set");
    }
    set
}

/// The command `git` in `dir`, with an author.
fn git(dir: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.current_dir(dir).args(["-c", "user.name=test", "-c", "user.email=test@localhost"]);
    stdout(&run(git.args(arguments)))
}

/// What a script of `dir` prints to stderr when it refuses its arguments.
fn refusal(dir: &Path, script: &str, arguments: &[&str]) -> String {
    let output = Command::new("sh")
        .arg(dir.join("packaging").join(script))
        .args(arguments)
        .output()
        .unwrap();
    assert!(!output.status.success(), "{script} {arguments:?} succeeded");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A repository with the files that the scripts read and this CHANGELOG.
fn small_repository(name: &str, changelog: &str) -> std::path::PathBuf {
    let dir = tempdir(name);
    run(Command::new("cp").arg("-r").arg(root().join("packaging")).arg(&dir));
    for file in ["Cargo.toml", "CITATION.cff"] {
        fs::copy(root().join(file), dir.join(file)).unwrap();
    }
    fs::write(dir.join("CHANGELOG.md"), changelog).unwrap();
    dir
}

/// A tarball with nothing but Cargo.toml, which the recipes are filled for.
fn small_tarball(dir: &Path) -> std::path::PathBuf {
    let name = format!("gpuzip-{VERSION}");
    fs::create_dir(dir.join(&name)).unwrap();
    fs::copy(root().join("Cargo.toml"), dir.join(&name).join("Cargo.toml")).unwrap();
    let tarball = dir.join(format!("{name}.tar.gz"));
    run(Command::new("tar").arg("-C").arg(dir).arg("-czf").arg(&tarball).arg(&name));
    tarball
}

#[test]
fn recipes_say_what_cargo_toml_says() {
    let dir = tempdir("packaging-recipes");
    let tarball = small_tarball(&dir);
    let recipes = dir.join("recipes");
    run(Command::new("sh")
        .arg(root().join("packaging/recipes.sh"))
        .args([&tarball, &recipes])
        .arg("https://example.org/files"));
    let sum = stdout(&run(Command::new("sha256sum").arg(&tarball)));
    let sum = sum.split(' ').next().unwrap();
    let url = format!("https://example.org/files/gpuzip-{VERSION}.tar.gz");
    let license = env!("CARGO_PKG_LICENSE");
    let description = env!("CARGO_PKG_DESCRIPTION");

    let easyconfig = format!("easybuild/gpuzip-{VERSION}-GCCcore-14.3.0.eb");
    let expected = [
        ("spack/package.py", format!("version(\"{VERSION}\", sha256=\"{sum}\")")),
        ("spack/package.py", format!("depends_on(\"rust@{RUST}:\", type=\"build\")")),
        ("spack/package.py", format!("license(\"{license}\"")),
        ("spack/package.py", format!("url = \"{url}\"")),
        ("spack/package.py", description.into()),
        (&easyconfig, format!("version = '{VERSION}'")),
        (&easyconfig, format!("checksums = ['{sum}']")),
        (&easyconfig, "source_urls = ['https://example.org/files']".into()),
        (&easyconfig, format!("('Rust', '{RUST}.0')")),
        (&easyconfig, description.into()),
        ("conda/recipe.yaml", format!("version: \"{VERSION}\"")),
        ("conda/recipe.yaml", format!("sha256: {sum}")),
        ("conda/recipe.yaml", format!("url: {url}")),
        ("conda/recipe.yaml", format!("rust >={RUST}\n")),
        ("conda/recipe.yaml", format!("license: {license}")),
        ("conda/recipe.yaml", description.into()),
        ("debian/control", format!("cargo (>= {RUST}), rustc (>= {RUST})")),
    ];
    for (name, part) in expected {
        let text = read(&recipes.join(name));
        assert!(text.contains(&part), "no {part:?} in {name}:\n{text}");
    }
    let changelog = read(&recipes.join("debian/changelog"));
    assert!(changelog.starts_with(&format!("gpuzip ({VERSION}-1) ")), "{changelog}");

    // Every @NAME@ is filled.
    let names = stdout(&run(Command::new("find").arg(&recipes).args(["-type", "f"])));
    assert!(names.lines().count() > 8, "{names}");
    for name in names.lines() {
        let text = read(Path::new(name));
        let open = text.split('@').skip(1).step_by(2).find(|word| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
        });
        assert_eq!(open, None, "{name}:\n{text}");
    }
    if have("python3") {
        for name in ["spack/package.py", &easyconfig] {
            let parse = "import ast, sys; ast.parse(open(sys.argv[1]).read())";
            run(Command::new("python3").args(["-c", parse]).arg(recipes.join(name)));
        }
    }
}

#[test]
fn pages_state_the_oldest_rust_and_glibc() {
    let glibc = format!("{}.{}", GLIBC.0, GLIBC.1);
    assert!(read(&root().join("README.md")).contains(&format!("{RUST} or newer")));
    let page = read(&root().join("docs/install.md"));
    assert!(page.contains(&format!("Rust {RUST} or newer")));
    assert!(page.contains(&format!("glibc {glibc}")));
    let script = read(&root().join("packaging/binaries.sh"));
    assert!(script.contains(&format!("\nglibc={glibc}\n")), "{script}");
}

#[test]
fn the_notes_are_the_section_of_the_changelog() {
    let changelog = "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-01-02\n\n### Added\n\n- One.\n\n## [1.2] - 2025\n- Two.\n";
    let dir = small_repository("packaging-notes", changelog);
    let script = dir.join("packaging/notes.sh");
    let notes = |version: &str| stdout(&run(Command::new("sh").arg(&script).arg(version)));
    assert_eq!(notes("1.2.3"), "### Added\n\n- One.\n");
    assert_eq!(notes("1.2"), "- Two.\n");
    for version in ["Unreleased", "2", "1.2.", "3"] {
        let text = refusal(&dir, "notes.sh", &[version]);
        assert!(text.contains(&format!("nothing under the heading \"## [{version}]\"")), "{text}");
    }
}

#[test]
fn a_release_is_refused_that_does_not_agree_with_the_tree() {
    needs!("git");
    let section = format!("# Changelog\n\n## [{VERSION}] - 2026-01-02\n- One.\n");
    let dir = small_repository("packaging-refused", "# Changelog\n");
    git(&dir, &["init", "-q"]);
    git(&dir, &["add", "."]);
    git(&dir, &["commit", "-qm", "one"]);
    let refused = |arguments: &[&str], reason: &str| {
        let text = refusal(&dir, "release.sh", arguments);
        assert!(text.contains(reason), "{arguments:?}: {text}");
        assert!(!dir.join("build").exists(), "{arguments:?} wrote files");
    };
    refused(&[], "usage");
    refused(&["--dry-run"], "usage");
    refused(&["9.9.9"], &format!("version 9.9.9 is asked for, and Cargo.toml has {VERSION}"));
    refused(&[VERSION], &format!("nothing under the heading \"## [{VERSION}]\""));
    fs::write(dir.join("CHANGELOG.md"), section).unwrap();
    refused(&[VERSION], "changes that are not committed:  M CHANGELOG.md");
    git(&dir, &["commit", "-qam", "two"]);
    fs::write(dir.join("more"), "").unwrap();
    refused(&["--dry-run", VERSION], "changes that are not committed: ?? more");
    fs::remove_file(dir.join("more")).unwrap();
    git(&dir, &["tag", &format!("v{VERSION}")]);
    refused(&[VERSION], &format!("there is a tag v{VERSION} already"));
    git(&dir, &["tag", "-d", &format!("v{VERSION}")]);
    let citation = read(&dir.join("CITATION.cff"));
    fs::write(dir.join("CITATION.cff"), citation.replace(VERSION, "9.9.9")).unwrap();
    refused(&[VERSION], "CITATION.cff has 9.9.9");
    git(&dir, &["checkout", "-q", "."]);
    // What is right in every respect gets as far as the first thing to make, the tarball.
    let output = Command::new("sh")
        .arg(dir.join("packaging/release.sh"))
        .args(["--dry-run", VERSION])
        .env("CARGO", "false")
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert_eq!(read(&dir.join(format!("build/release-{VERSION}/NOTES.md"))), "- One.\n");
}

#[test]
fn bad_arguments_are_refused() {
    let dir = tempdir("packaging-arguments");
    let text = refusal(&root(), "binaries.sh", &[dir.to_str().unwrap(), "riscv64"]);
    assert!(text.contains("no binaries for riscv64"), "{text}");
    // Without cargo-zigbuild there are no binaries, which is an error unless --if-possible is given.
    let binaries = |arguments: &[&str]| {
        let mut sh = Command::new("/bin/sh");
        sh.arg(root().join("packaging/binaries.sh")).args(arguments).env("PATH", "/usr/bin:/bin");
        let output = sh.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    if !Path::new("/usr/bin/cargo-zigbuild").exists() {
        let (good, text) = binaries(&["--if-possible", dir.to_str().unwrap(), "x86_64", "aarch64"]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(good && lines.len() == 2, "{text}");
        assert!(
            lines[1].starts_with("binaries.sh: skipped: no binaries and no wheel for aarch64: ")
        );
        assert!(lines[1].contains("pip install ziglang cargo-zigbuild"), "{text}");
        let (good, text) = binaries(&[dir.to_str().unwrap(), "aarch64"]);
        assert!(!good && text.contains("cargo-zigbuild is not installed"), "{text}");
    }
    let folder = dir.to_str().unwrap();
    assert!(refusal(&root(), "recipes.sh", &[]).contains("usage"));
    let missing = dir.join("none.tar.gz");
    let text = refusal(&root(), "recipes.sh", &[missing.to_str().unwrap(), folder]);
    assert!(text.contains("make dist makes it"), "{text}");
    let other = dir.join("gpuzip-9.9.9.tar.gz");
    fs::write(&other, "").unwrap();
    let text = refusal(&root(), "recipes.sh", &[other.to_str().unwrap(), folder]);
    assert!(text.contains(&format!("is not gpuzip-{VERSION}.tar.gz")), "{text}");
}

#[test]
fn the_tag_of_the_wheel_follows_from_its_files() {
    needs!("python3");
    let dir = tempdir("packaging-tag");
    // The tag for files with a processor's number in the header of ELF and these versions of symbols.
    let tag = |files: &[(u8, &str)]| {
        let mut python = Command::new("python3");
        python.args(["-c", TAG]).arg(root().join("python/hatch_build.py"));
        for (i, (processor, versions)) in files.iter().enumerate() {
            let mut bytes = vec![0; 64];
            bytes[18] = *processor;
            bytes.extend(versions.split(' ').flat_map(|v| [b"\0GLIBC_", v.as_bytes()].concat()));
            bytes.push(0);
            let file = dir.join(format!("{i}"));
            fs::write(&file, bytes).unwrap();
            python.arg(file);
        }
        stdout(&run(&mut python)).trim().to_string()
    };
    let old = "manylinux2014_x86_64.manylinux_2_17_x86_64";
    assert_eq!(tag(&[(62, "2.2.5 2.17"), (62, "2.3.4 2.4")]), old);
    assert_eq!(tag(&[(62, "2.17"), (62, "2.18")]), "manylinux_2_18_x86_64");
    assert_eq!(tag(&[(183, "2.17 2.9"), (183, "2.34")]), "manylinux_2_34_aarch64");
    assert_eq!(tag(&[(183, "2.17")]), old.replace("x86_64", "aarch64"));
    assert!(tag(&[(62, "PRIVATE")]).starts_with("linux_"));
    assert!(tag(&[(62, "2.17"), (183, "2.17")]).starts_with("linux_"));
}

/// Calls `platform_tag` of the hook without hatchling, which only builds of the wheel have.
const TAG: &str = "
import pathlib, runpy, sys, types
path = 'hatchling.builders.hooks.plugin.interface'
parts = path.split('.')
for i in range(len(parts)):
    sys.modules['.'.join(parts[:i + 1])] = types.ModuleType(parts[i])
sys.modules[path].BuildHookInterface = object
hook = runpy.run_path(sys.argv[1])
print(hook['platform_tag']([pathlib.Path(p) for p in sys.argv[2:]]))
";

/// Installs the library for the tests below and returns the prefix.
fn installed(name: &str) -> std::path::PathBuf {
    let prefix = tempdir(name).join("prefix");
    let mut install = Command::new("sh");
    install.arg(root().join("install/install.sh")).arg("install").arg(library());
    run(plain(&mut install).env("PREFIX", &prefix).env("FC", ""));
    prefix
}

#[test]
fn a_loaded_module_is_all_that_a_compiler_needs() {
    let inits =
        ["/usr/share/modules/init/sh", "/usr/share/lmod/lmod/init/sh"].map(Path::new).into_iter();
    let inits: Vec<_> = inits.filter(|init| init.exists()).collect();
    if inits.is_empty() || !have("cc") {
        println!("skipped: neither Environment Modules nor Lmod is installed");
        return;
    }
    let prefix = installed("packaging-module");
    // The installation may be moved.
    let moved = prefix.with_file_name("moved");
    fs::rename(&prefix, &moved).unwrap();
    for init in inits {
        let script = format!(
            ". '{init}'
            module use '{moved}/share/modulefiles' && module load gpuzip/{VERSION} || exit 1
            cc '{source}' -lgpuzip -o '{moved}/minimal' && '{moved}/minimal' || exit 1
            command -v gpuzip && module unload gpuzip && echo \"left: $LIBRARY_PATH\"",
            init = init.display(),
            moved = moved.display(),
            source = root().join("c-examples/minimal.c").display(),
        );
        let text = stdout(&run(Command::new("bash")
            .args(["-c", &script])
            .env_remove("MODULEPATH")
            .env_remove("LIBRARY_PATH")
            .env_remove("LD_LIBRARY_PATH")));
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("du(1000)/du(0) = 1.979449291628"), "{init:?}: {text}");
        let command = format!("{}/bin/gpuzip", moved.display());
        assert_eq!(lines.next(), Some(command.as_str()), "{init:?}");
        assert_eq!(lines.next(), Some("left: "), "{init:?}");
    }
}

#[test]
fn a_project_of_fpm_depends_on_the_installed_module() {
    needs!("fpm", "gfortran");
    let prefix = installed("packaging-fpm");
    let project = prefix.with_file_name("project");
    fs::create_dir_all(project.join("app")).unwrap();
    // fpm 0.12 takes paths relative to the project only.
    let manifest = "name = \"adjoint\"\n[dependencies]\n\
        gpuzip = { path = \"../prefix/share/gpuzip/fortran\" }\n";
    fs::write(project.join("fpm.toml"), manifest).unwrap();
    fs::copy(root().join("tests/foreign/install/fortran/sweep.f90"), project.join("app/main.f90"))
        .unwrap();
    let text = stdout(&run(Command::new("fpm")
        .current_dir(&project)
        .args(["run", "--compiler", "gfortran"])
        .env("LIBRARY_PATH", prefix.join("lib"))
        .env("LD_LIBRARY_PATH", prefix.join("lib"))));
    assert!(text.lines().any(|line| line.trim() == "ok"), "{text}");
}

/// Runs cargo in the repository with a target folder of its own, which is removed afterwards.
fn cargo(program: &mut Command, folder: &str) {
    let target = tempdir(folder);
    run(program
        .current_dir(root())
        .env("CARGO_TARGET_DIR", &target)
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN"));
    fs::remove_dir_all(target).unwrap();
}

#[test]
fn the_oldest_rust_checks_the_library_and_the_command() {
    if !long("checks with the oldest Rust") || !have("rustup") {
        return;
    }
    let install = ["toolchain", "install", RUST, "--profile", "minimal"];
    let _ = Command::new("rustup").args(install).output();
    let version =
        Command::new("rustup").args(["run", RUST, "cargo", "--version"]).output().unwrap();
    if !version.status.success() {
        println!("skipped: rustup cannot install Rust {RUST}");
        return;
    }
    assert!(stdout(&version).starts_with(&format!("cargo {RUST}.")));
    let check = ["run", RUST, "cargo", "check", "--locked", "-p", "gpuzip", "-p", "gpuzip-cli"];
    cargo(Command::new("rustup").args(check), "packaging-oldest");
}

#[test]
fn the_library_and_the_command_are_checked_for_aarch64() {
    const TRIPLE: &str = "aarch64-unknown-linux-gnu";
    if !long("checks for aarch64") || !have("rustup") {
        return;
    }
    let added = Command::new("rustup").args(["target", "add", TRIPLE]).output().unwrap();
    if !added.status.success() {
        println!("skipped: rustup cannot install the target {TRIPLE}");
        return;
    }
    let check = ["check", "--locked", "-p", "gpuzip", "-p", "gpuzip-cli", "--target", TRIPLE];
    cargo(Command::new("cargo").args(check).env("RUSTFLAGS", "-Dwarnings"), "packaging-aarch64");
}

/// A clone of the last commit with a section of this version in CHANGELOG.md, or `None` where this
/// is no repository.
fn release_clone(name: &str) -> Option<std::path::PathBuf> {
    if !have("git") || !root().join(".git").exists() {
        println!("skipped: this is no git repository");
        return None;
    }
    let dir = tempdir(name).join("clone");
    git(&root(), &["clone", "-q", ".", dir.to_str().unwrap()]);
    let changelog = read(&dir.join("CHANGELOG.md"));
    let section = format!("## [Unreleased]\n\n## [{VERSION}] - 2026-01-02\n");
    fs::write(dir.join("CHANGELOG.md"), changelog.replace("## [Unreleased]\n", &section)).unwrap();
    git(&dir, &["commit", "-qam", "release"]);
    Some(dir)
}

#[test]
fn the_tarball_builds_installs_and_tests_without_a_network() {
    if !long("builds the tarball without a network") {
        return;
    }
    if !Command::new("unshare").args(["-rn", "true"]).status().is_ok_and(|s| s.success()) {
        println!("skipped: unshare -rn makes no namespace without a network here");
        return;
    }
    let Some(clone) = release_clone("packaging-offline") else { return };
    let dist = clone.join("packaging/dist.sh");
    let make = |folder: &str| {
        let folder = clone.with_file_name(folder);
        run(Command::new("sh").arg(&dist).arg(&folder));
        folder.join(format!("gpuzip-{VERSION}.tar.gz"))
    };
    let tarball = make("one");
    assert!(fs::read(&tarball).unwrap() == fs::read(make("two")).unwrap(), "not reproducible");
    // An empty CARGO_HOME: no crate can come from an earlier download.
    let script = format!(
        "set -e; tar -xzf '{}'; cd gpuzip-{VERSION}; make install PREFIX=\"$PWD/../prefix\" FC=
        ../prefix/bin/gpuzip --version; cargo test --offline --test host --test abi -- sessions:: header::",
        tarball.display()
    );
    let folder = clone.parent().unwrap();
    let mut shell = Command::new("unshare");
    shell.args(["-rn", "sh", "-c", &script]).current_dir(folder);
    for name in ["CARGO", "CARGO_TARGET_DIR", "MAKEFLAGS", "DESTDIR", "GPUZIP_TEST_LONG"] {
        shell.env_remove(name);
    }
    let text = stdout(&run(shell.env("CARGO_HOME", folder.join("home"))));
    assert!(text.contains(&format!("gpuzip {VERSION}\n")), "{text}");
    assert!(text.matches("test result: ok.").count() == 2, "{text}");
    fs::remove_dir_all(folder).unwrap();
}

/// The newest version of glibc's symbols that a file needs, as readelf prints it.
fn glibc_needed(file: &Path) -> (u32, u32) {
    let text = stdout(&run(Command::new("readelf").arg("-VW").arg(file)));
    let versions = text.split("Name: GLIBC_").skip(1).map(|rest| {
        let version = rest.split_whitespace().next().unwrap();
        let mut parts = version.split('.').map(|part| part.parse().unwrap());
        (parts.next().unwrap(), parts.next().unwrap())
    });
    versions.max().unwrap_or_else(|| panic!("{}: no versions in {text}", file.display()))
}

#[test]
fn a_release_has_binaries_for_old_systems() {
    if !long("makes a release") || !have("readelf") {
        return;
    }
    needs!("cargo-zigbuild", "python3");
    let Some(clone) = release_clone("packaging-release") else { return };
    // The processors whose Rust target is installed.
    let archs: Vec<&str> = ["x86_64", "aarch64"]
        .into_iter()
        .filter(|arch| {
            let target = format!("{arch}-unknown-linux-gnu");
            let mut rustc = Command::new("rustc");
            let folder =
                stdout(&run(rustc.args(["--print", "target-libdir", "--target", &target])));
            let there = Path::new(folder.trim()).is_dir();
            if !there {
                println!("skipped: the Rust target {target} is not installed");
            }
            there
        })
        .collect();
    run(Command::new("sh")
        .arg(clone.join("packaging/release.sh"))
        .args(["--dry-run", VERSION])
        .env_remove("CARGO")
        .env("ARCHS", archs.join(" "))
        .env("CARGO_TARGET_DIR", target().join("zigbuild")));
    assert_eq!(git(&clone, &["tag"]), "");
    let release = clone.join(format!("build/release-{VERSION}"));
    run(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(&release));
    let sums = read(&release.join("SHA256SUMS"));
    for name in [
        format!("gpuzip-{VERSION}.tar.gz"),
        format!("gpuzip-{VERSION}-recipes.tar.gz"),
        "NOTES.md".into(),
    ] {
        assert!(sums.contains(&format!("  {name}\n")), "{name}");
    }
    for arch in archs {
        binaries_run(&release, arch, &sums);
    }
    fs::remove_dir_all(clone.parent().unwrap()).unwrap();
}

/// Checks the tarball and the wheel of a processor, and runs a C program with the library; one for another
/// processor in qemu.
fn binaries_run(release: &Path, arch: &str, sums: &str) {
    let wheel = format!("gpuzip-{VERSION}-py3-none-manylinux2014_{arch}.manylinux_2_17_{arch}.whl");
    let binaries = format!("gpuzip-{VERSION}-linux-{arch}");
    for name in [format!("{binaries}.tar.gz"), wheel.clone()] {
        assert!(sums.contains(&format!("  {name}\n")), "{name}");
    }
    let unpacked = tempdir(&format!("packaging-unpacked-{arch}"));
    let tarball = release.join(format!("{binaries}.tar.gz"));
    run(Command::new("tar").arg("-xzf").arg(tarball).current_dir(&unpacked));
    let unzip =
        ["-m", "zipfile", "-e", release.join(&wheel).to_str().unwrap(), "wheel"].map(String::from);
    run(Command::new("python3").args(unzip).current_dir(&unpacked));
    for file in [
        format!("{binaries}/lib/libgpuzip.so"),
        format!("{binaries}/bin/gpuzip"),
        "wheel/gpuzip/libgpuzip.so.0".into(),
        "wheel/gpuzip/gpuzip".into(),
    ] {
        let needed = glibc_needed(&unpacked.join(&file));
        assert!(needed <= GLIBC, "{file} needs glibc {needed:?}");
    }
    let (cross, emulator) = (format!("{arch}-linux-gnu-gcc"), format!("qemu-{arch}"));
    let native = arch == std::env::consts::ARCH;
    let runs_here = native || (have(&cross) && have(&emulator));
    if !runs_here {
        return;
    }
    let program = unpacked.join("minimal");
    let lib = unpacked.join(&binaries).join("lib");
    run(Command::new(if native { "cc" } else { &cross })
        .arg(root().join("c-examples/minimal.c"))
        .arg("-I")
        .arg(unpacked.join(&binaries).join("include"))
        .arg("-L")
        .arg(&lib)
        .args(["-lgpuzip", "-o"])
        .arg(&program));
    let mut played = Command::new(if native { program.as_os_str() } else { emulator.as_ref() });
    if !native {
        played.arg("-L").arg(format!("/usr/{arch}-linux-gnu")).arg(&program);
    }
    let text = stdout(&run(played.env("LD_LIBRARY_PATH", lib)));
    assert_eq!(text, "du(1000)/du(0) = 1.979449291628\n");
}
