//! `make install`, and projects outside this repository that use the installation: C, C++ and
//! Fortran, through pkg-config and through CMake.

use crate::common;
use common::{have, needs, plain, root, run, stdout, target, tempdir};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const MAJOR: &str = env!("CARGO_PKG_VERSION_MAJOR");

/// Runs `make` as a user does, but with the target folder of these tests; returns the output.
fn make(arguments: &[&str]) -> String {
    let mut command = Command::new("make");
    command.current_dir(root()).args(arguments).env("CARGO_TARGET_DIR", target());
    stdout(&run(plain(&mut command)))
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The installation that foreign projects use. Its prefix, /opt/gpuzip, is staged with DESTDIR, has
/// unusual folders for libraries and headers, and is then moved, so that only relative paths in the
/// installation still hold.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let dir = tempdir("install-moved");
        let stage = format!("DESTDIR={}/stage", path(&dir));
        make(&[
            "install",
            "PREFIX=/opt/gpuzip",
            "LIBDIR=lib64",
            "INCLUDEDIR=/opt/gpuzip/include/ours",
            &stage,
        ]);
        fs::rename(dir.join("stage/opt/gpuzip"), dir.join("moved")).unwrap();
        dir.join("moved")
    })
}

/// A copy of a project of `tests/foreign/install/` outside of this repository; dropping it removes the
/// copy.
struct Foreign(PathBuf);

impl Foreign {
    fn new(language: &str, purpose: &str) -> Foreign {
        let dir = std::env::temp_dir()
            .join(format!("gpuzip-foreign-{language}-{purpose}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        for file in fs::read_dir(root().join("tests/foreign/install").join(language)).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), dir.join(file.file_name())).unwrap();
        }
        Foreign(dir)
    }

    /// Compiles `source` with the flags that pkg-config gives for `package` in the installation
    /// `from`.
    fn compile(&self, from: &Path, compiler: &[&str], source: &str, package: &[&str]) -> PathBuf {
        let mut query = Command::new("pkg-config");
        query
            .args(["--cflags", "--libs"])
            .args(package)
            .env("PKG_CONFIG_PATH", from.join("lib64/pkgconfig"));
        let flags = stdout(&run(&mut query));
        let program = self.0.join("program");
        let mut command = Command::new(compiler[0]);
        command
            .current_dir(&self.0)
            .args(&compiler[1..])
            .args([source, "-o"])
            .arg(&program)
            .args(flags.split_whitespace());
        run(&mut command);
        program
    }

    /// The command that configures the project with CMake; the project is told only gpuzip's prefix
    /// and the version that it wants.
    fn configure(&self, more: &[&str]) -> Command {
        let mut command = Command::new("cmake");
        command.args([
            "-S",
            path(&self.0),
            "-B",
            path(&self.0.join("build")),
            &format!("-DCMAKE_PREFIX_PATH={}", path(prefix())),
        ]);
        command.arg(format!("-DWANTED={VERSION}")).args(more);
        command
    }

    /// Builds the project with CMake and returns the folder of its programs.
    fn cmake(&self) -> PathBuf {
        run(&mut self.configure(&[]));
        run(Command::new("cmake").args(["--build", path(&self.0.join("build"))]));
        self.0.join("build")
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Checks that the program prints "ok"; returns the lines of `ldd` that name libgpuzip.
fn libraries(program: &Path, library_path: Option<&Path>) -> Vec<String> {
    let with_path = |name: &str| {
        let mut command = Command::new(name);
        command.env_remove("LD_LIBRARY_PATH");
        if let Some(folder) = library_path {
            command.env("LD_LIBRARY_PATH", folder);
        }
        command
    };
    assert_eq!(stdout(&run(&mut with_path(path(program)))), "ok\n", "{program:?}");
    let needs = stdout(&run(with_path("ldd").arg(program)));
    let ours = needs.lines().filter(|line| line.contains("libgpuzip"));
    ours.map(|line| line.trim().to_string()).collect()
}

/// Checks that the program runs and loads libgpuzip from the installation.
fn expect_shared(program: &Path, library_path: Option<&Path>) {
    let ours = libraries(program, library_path);
    let library = format!("libgpuzip.so.{MAJOR}");
    let expected = format!("{library} => {}/lib64/{library} ", path(prefix()));
    assert!(ours.len() == 1 && ours[0].starts_with(&expected), "{expected}: {ours:?}");
}

/// Checks that the program runs and loads no libgpuzip.
fn expect_static(program: &Path) {
    assert_eq!(libraries(program, None), [""; 0]);
}

/// Asserts that each link from one installed page to another file names an installed file.
fn assert_links_lead_somewhere(pages: &Path, installed: &[String]) {
    let mut links = 0;
    for name in installed.iter().filter_map(|name| name.strip_prefix("share/doc/gpuzip/")) {
        let Some(folder) = Path::new(name).parent().filter(|_| name.ends_with(".md")) else {
            continue;
        };
        let page = fs::read_to_string(pages.join(name)).unwrap();
        for link in page.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            if !link.is_empty() && !link.contains("://") {
                assert!(pages.join(folder).join(link).exists(), "{name} links to {link}");
                links += 1;
            }
        }
    }
    assert!(links > 50, "{links}");
}

/// The relative paths of all files below a folder; of links also their targets.
pub fn tree(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap().path();
            let name = path(entry.strip_prefix(dir).unwrap()).to_string();
            match (fs::read_link(&entry), entry.is_dir()) {
                (Ok(target), _) => found.push(format!("{name} -> {}", path(&target))),
                (_, true) => open.push(entry),
                _ => found.push(name),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn install_is_idempotent_and_uninstall_leaves_what_is_not_ours() {
    let prefix = tempdir("install-plain").join("a/b");
    let to = format!("PREFIX={}", path(&prefix));
    make(&["install", &to]);
    let installed = tree(&prefix);
    let module = format!("share/modulefiles/gpuzip/{VERSION}");
    let so = format!("lib/libgpuzip.so.{VERSION}");
    let links = [
        format!("lib/libgpuzip.so -> libgpuzip.so.{MAJOR}"),
        format!("lib/libgpuzip.so.{MAJOR} -> libgpuzip.so.{VERSION}"),
    ];
    let expected = [
        "bin/gpuzip",
        "include/gpuzip.h",
        "include/gpuzip_gradient.h",
        "include/gpuzip_interrupt.cuh",
        "include/gpuzip_mpi.h",
        "include/gpuzip_revolve.h",
        "include/gpuzip-dropin/common/structs.h",
        "lib/libgpuzip.a",
        "lib/pkgconfig/gpuzip.pc",
    ];
    let more = [
        "share/bash-completion/completions/gpuzip",
        "share/cmake/gpuzip/gpuzipConfig.cmake",
        "share/doc/gpuzip/LICENSE",
        "share/doc/gpuzip/README.md",
        "share/doc/gpuzip/docs/README.md",
        "share/gpuzip/fortran/fpm.toml",
        "share/man/man1/gpuzip-plan.1",
        &module,
        &so,
        &links[0],
        &links[1],
    ];
    for name in expected.iter().chain(&more) {
        assert!(installed.iter().any(|have| have == name), "{name} is missing in {installed:?}");
    }
    let manual = "share/man/man3/gpuzip_save.3".to_string();
    assert_eq!(installed.contains(&manual), have("python3"), "{manual}");
    assert_links_lead_somewhere(&prefix.join("share/doc/gpuzip"), &installed);
    let headers = tree(&root().join("include")).into_iter().map(|name| format!("include/{name}"));
    assert!(headers.into_iter().all(|name| installed.contains(&name)), "{installed:?}");
    assert_eq!(
        installed.contains(&"lib/libgpuzip_fortran.a".into()),
        root().join("fortran/gpuzip.f90").exists() && have("gfortran")
    );
    let command = Command::new(prefix.join("bin/gpuzip"))
        .args(["schedule", "--algorithm", "revolve", "--steps", "9", "--snapshots", "3"])
        .output()
        .unwrap();
    assert!(command.status.success(), "{command:?}");

    // Install again, over a version that had another file; then uninstall.
    let manifest = prefix.join("share/gpuzip/manifest");
    let listed = fs::read_to_string(&manifest).unwrap();
    fs::write(prefix.join("lib/libgpuzip.so.0.0.1"), "of an earlier version").unwrap();
    fs::write(&manifest, format!("lib/libgpuzip.so.0.0.1\n{listed}")).unwrap();
    make(&["install", &to]);
    assert_eq!(tree(&prefix), installed);
    assert_eq!(fs::read_to_string(&manifest).unwrap(), listed);
    fs::write(prefix.join("lib/libother.a"), "not ours").unwrap();
    make(&["uninstall", &to]);
    assert_eq!(tree(&prefix), ["lib/libother.a"]);
    assert!(
        !prefix.join("share").exists() && !prefix.join("include").exists(),
        "folders that it made are gone"
    );
    assert!(make(&["uninstall", &to]).contains("is not in"), "nothing is left to do");
    fs::create_dir_all(prefix.join("include")).unwrap();
    make(&["install", &to]);
    make(&["uninstall", &to]);
    assert!(prefix.join("include").exists(), "a folder that was there stays");
}

#[test]
fn nothing_installed_names_the_place_it_was_made_in() {
    let (stage, root) = (prefix().parent().unwrap().join("stage"), root());
    for name in tree(prefix()).iter().filter(|name| !name.contains(" -> ")) {
        let bytes = fs::read(prefix().join(name)).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        // Debug information in binaries may name folders; only text files are searched for the
        // repository's folder.
        let made_in = if std::str::from_utf8(&bytes).is_ok() { path(&root) } else { "/opt/gpuzip" };
        let said =
            [path(&stage), "/opt/gpuzip", made_in].into_iter().find(|place| text.contains(place));
        assert_eq!(said, None, "{name}");
    }
}

#[test]
fn the_static_libraries_are_those_that_rustc_names() {
    needs!("rustc", "pkg-config");
    let dir = tempdir("install-static-libs");
    fs::write(dir.join("empty.rs"), "").unwrap();
    let mut rustc = Command::new("rustc");
    rustc.current_dir(&dir).args([
        "--crate-type",
        "staticlib",
        "--print",
        "native-static-libs",
        "empty.rs",
    ]);
    let said = String::from_utf8_lossy(&run(&mut rustc).stderr).into_owned();
    let libs = said.split("native-static-libs: ").nth(1).unwrap().lines().next().unwrap();
    let pc = fs::read_to_string(prefix().join("lib64/pkgconfig/gpuzip.pc")).unwrap();
    assert!(pc.contains(&format!("\nLibs.private: {}\n", libs.trim())), "rustc: {libs}\n{pc}");
}

#[test]
fn c_through_pkg_config() {
    needs!("pkg-config");
    let project = Foreign::new("c", "pkg");
    let strict = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror"];
    let lib = prefix().join("lib64");
    expect_shared(&project.compile(prefix(), &strict, "sweep.c", &["gpuzip"]), Some(&lib));
    let linked = ["--static", "gpuzip-static"];
    expect_static(&project.compile(prefix(), &strict, "sweep.c", &linked));
    // Where only the static library is installed, gpuzip.pc names the libraries that it needs.
    let only = tempdir("install-only-static");
    run(Command::new("cp").arg("-a").arg(prefix()).arg(&only));
    let only = only.join("moved");
    for name in ["", &format!(".{MAJOR}"), &format!(".{VERSION}")] {
        fs::remove_file(only.join(format!("lib64/libgpuzip.so{name}"))).unwrap();
    }
    expect_static(&project.compile(&only, &strict, "sweep.c", &["--static", "gpuzip"]));
}

#[test]
fn c_through_cmake() {
    needs!("cmake");
    let project = Foreign::new("c", "cmake");
    let programs = project.cmake();
    expect_shared(&programs.join("sweep"), None);
    expect_static(&programs.join("sweep_static"));
}

#[test]
fn cxx_through_pkg_config() {
    needs!("c++", "pkg-config");
    let project = Foreign::new("cxx", "pkg");
    let strict = ["c++", "-std=c++14", "-Wall", "-Wextra", "-Werror"];
    let lib = prefix().join("lib64");
    expect_shared(&project.compile(prefix(), &strict, "sweep.cpp", &["gpuzip"]), Some(&lib));
    let mut query = Command::new("pkg-config");
    query.args(["--variable=dropindir", "gpuzip"]).env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
    let include = format!("-I{}", stdout(&run(&mut query)).trim());
    let with_dropin = [&strict[..], &[&include]].concat();
    expect_shared(&project.compile(prefix(), &with_dropin, "dropin.cpp", &["gpuzip"]), Some(&lib));
}

#[test]
fn cxx_through_cmake() {
    needs!("c++", "cmake");
    let project = Foreign::new("cxx", "cmake");
    let programs = project.cmake();
    expect_shared(&programs.join("sweep"), None);
    expect_shared(&programs.join("dropin"), None);
}

#[test]
fn fortran_through_pkg_config() {
    needs!("pkg-config", "gfortran");
    let project = Foreign::new("fortran", "pkg");
    let strict = ["gfortran", "-std=f2008", "-Wall", "-Werror"];
    let program = project.compile(prefix(), &strict, "sweep.f90", &["gpuzip-fortran"]);
    expect_shared(&program, Some(&prefix().join("lib64")));
}

/// The examples find the installed library without LD_LIBRARY_PATH.
#[test]
fn the_fortran_examples_start_from_an_installation() {
    needs!("pkg-config", "gfortran");
    let build = tempdir("install-fortran");
    let program = build.join("smoke");
    let mut make = Command::new("make");
    make.arg("-C").arg(root().join("fortran")).arg(format!("BUILD={}", path(&build)));
    make.env_remove("GPUZIP_LIB").env("PKG_CONFIG_PATH", prefix().join("lib64/pkgconfig"));
    run(make.arg(&program));
    run(Command::new(&program).args(["60", "1", "8", "3"]).env_remove("LD_LIBRARY_PATH"));
    let needs = stdout(&run(Command::new("ldd").arg(&program).env_remove("LD_LIBRARY_PATH")));
    assert!(needs.contains(path(&prefix().join("lib64"))), "{needs}");
}

#[test]
fn fortran_through_cmake() {
    needs!("cmake", "gfortran");
    let project = Foreign::new("fortran", "cmake");
    expect_shared(&project.cmake().join("sweep"), None);
}

#[test]
fn a_wrong_version_or_component_is_not_found() {
    needs!("cmake");
    let project = Foreign::new("c", "wrong");
    let refused = |more: &[&str]| {
        let output = project.configure(more).output().unwrap();
        assert!(!output.status.success(), "{more:?}");
        String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let newer = format!("-DWANTED={MAJOR}.999");
    assert!(refused(&[&newer]).contains(&format!("version: {VERSION}")), "what is there is named");
    let text = refused(&["-DWANTED=COMPONENTS;fortran"]);
    assert!(text.contains("fortran in projects with the language Fortran"), "{text}");
}
