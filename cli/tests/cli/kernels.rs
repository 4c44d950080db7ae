//! `gpuzip kernels` with the software NVRTC, whose compiler is a script here that counts how often
//! it is called.

use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A machine with NVRTC, a folder for images, and a compiler that leaves a line for every image.
struct Machine {
    root: PathBuf,
}

impl Machine {
    fn new(name: &str) -> Option<Self> {
        if Command::new("cc").arg("--version").output().is_err() {
            println!("skipped: cc is not installed");
            return None;
        }
        let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("kernels-{name}"));
        let _ = std::fs::remove_dir_all(&root);
        for folder in ["both", "driver"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
            symlink(driver(), root.join(folder).join("libcuda.so.1")).unwrap();
        }
        // A file of its own: the loader knows one file by one name only.
        std::fs::copy(driver(), root.join("both/libnvrtc.so")).unwrap();
        // The images are empty libraries; what matters is who makes them, and that it takes a
        // while.
        let script = format!(
            "#!/bin/sh\necho x >> {}\nsleep 0.1\nfor out; do :; done\nexec cc -shared -x c /dev/null -o \"$out\"\n",
            root.join("calls").display()
        );
        let compiler = root.join("compiler");
        std::fs::write(&compiler, script).unwrap();
        std::fs::set_permissions(&compiler, PermissionsExt::from_mode(0o755)).unwrap();
        Some(Machine { root })
    }

    fn cache(&self) -> PathBuf {
        self.root.join("cache")
    }

    /// The command, with these libraries: `both` has NVRTC, `driver` has not.
    fn command(&self, line: &str, libraries: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuzip"));
        command
            .arg("kernels")
            .args(line.split_whitespace())
            .env("LD_LIBRARY_PATH", self.root.join(libraries));
        command.env("CXX", self.root.join("compiler")).env("GPUZIP_CACHE_DIR", self.cache());
        command
    }

    fn run(&self, line: &str, libraries: &str) -> Output {
        self.command(line, libraries).output().unwrap()
    }

    /// The images that `--json` tells of.
    fn images(&self, line: &str, libraries: &str) -> Vec<Value> {
        let output = self.run(&format!("{line} --json"), libraries);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["folder"], self.cache().to_str().unwrap());
        value["images"].as_array().unwrap().clone()
    }

    /// Compilations since the last time.
    fn compilations(&self) -> usize {
        let calls = self.root.join("calls");
        let count = std::fs::read_to_string(&calls).map_or(0, |text| text.lines().count());
        let _ = std::fs::remove_file(calls);
        count
    }
}

/// The software driver, where cargo leaves what tests depend on.
fn driver() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libcuda_emu.so")
}

fn states(images: &[Value]) -> BTreeSet<&str> {
    images.iter().map(|image| image["state"].as_str().unwrap()).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let cubins = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        cubins.filter(|file| file.extension().is_some_and(|e| e == "cubin")).collect();
    files.sort();
    files
}

#[test]
fn every_source_is_compiled_once_for_every_architecture() {
    let Some(machine) = Machine::new("once") else { return };
    assert!(machine.images("", "both").is_empty());
    let one = machine.images("--prebuild --arch 80", "both");
    assert_eq!(one.len(), gpuzip::codec::gpu::sources().len(), "{one:?}");
    assert_eq!((states(&one), machine.compilations()), (BTreeSet::from(["current"]), one.len()));
    // 80 is there already; that it is named twice changes nothing.
    let both = machine.images("--prebuild --arch 80,90,80", "both");
    assert_eq!((both.len(), machine.compilations()), (2 * one.len(), one.len()));
    let of = |architecture: u64| {
        both.iter().filter(|image| image["architecture"] == architecture).count()
    };
    assert_eq!((of(80), of(90)), (one.len(), one.len()));
    // The software driver's GPU is an sm_80.
    assert_eq!((machine.images("--prebuild", "both"), machine.compilations()), (both.clone(), 0));
    let text = String::from_utf8(machine.run("", "both").stdout).unwrap();
    assert_eq!(text.lines().count(), 1 + both.len(), "{text}");
    assert!(
        text.starts_with("folder ")
            && text.lines().skip(1).all(|line| line.ends_with(" bytes, current")),
        "{text}"
    );
}

/// `--ptx` adds the PTX of every source for the highest architecture that was asked for, which all
/// later GPUs can use: NVRTC's highest one would leave out the GPUs in between.
#[test]
fn ptx_is_compiled_for_later_gpus() {
    let Some(machine) = Machine::new("ptx") else { return };
    let count = gpuzip::codec::gpu::sources().len();
    let made = machine.images("--prebuild --arch 90,75,80 --ptx", "both");
    assert_eq!((made.len(), machine.compilations()), (4 * count, 4 * count));
    assert_eq!(states(&made), BTreeSet::from(["current"]));
    let (ptx, cubins): (Vec<_>, Vec<_>) = made.iter().partition(|image| image["ptx"] == true);
    assert_eq!((ptx.len(), cubins.len()), (count, 3 * count));
    let is_highest = |image: &&Value| {
        let name = image["file"].as_str().unwrap();
        image["architecture"] == 90 && name.contains("-compute90-") && name.ends_with(".ptx")
    };
    assert!(ptx.iter().all(is_highest), "{ptx:?}");
    let again = machine.images("--prebuild --arch 75,80,90 --ptx", "both");
    assert_eq!((again, machine.compilations()), (made, 0));
}

#[test]
fn processes_that_start_together_compile_once() {
    let Some(machine) = Machine::new("together") else { return };
    let start = || {
        machine
            .command("--prebuild --arch 80 --json", "both")
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    };
    let outputs = [start(), start(), start()].map(|child| child.wait_with_output().unwrap());
    assert!(outputs
        .iter()
        .all(|output| output.status.success() && output.stdout == outputs[0].stdout));
    assert_eq!(machine.compilations(), files(&machine.cache()).len());
}

#[test]
fn what_is_damaged_is_made_anew() {
    let Some(machine) = Machine::new("damaged") else { return };
    let made = machine.images("--prebuild --arch 80", "both");
    machine.compilations();
    let files = files(&machine.cache());
    let contents: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    std::fs::write(&files[0], &contents[0][..contents[0].len() / 2]).unwrap();
    std::fs::write(&files[1], b"not an image at all").unwrap();
    std::fs::write(&files[2], b"").unwrap();
    std::fs::rename(
        &files[3],
        machine.cache().join("half-f32-sm80-0123456789abcdef-nvrtc12.0.cubin"),
    )
    .unwrap();
    let listed = machine.images("", "both");
    let count = |state: &str| listed.iter().filter(|image| image["state"] == state).count();
    assert_eq!(
        (count("damaged"), count("of another version"), count("current")),
        (3, 1, made.len() - 4)
    );
    // Without NVRTC there is nothing to make them with, and what is left does not do.
    let output = machine.run("--prebuild --arch 80", "driver");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        println!("skipped in part: this machine has NVRTC");
    } else {
        assert!(text.contains("libnvrtc"), "{text}");
    }
    machine.images("--prebuild --arch 80", "both");
    assert_eq!(machine.compilations(), 4);
    assert!(files
        .iter()
        .zip(&contents)
        .all(|(file, content)| std::fs::read(file).unwrap().len() == content.len()));
}

#[test]
fn images_that_are_there_need_no_compiler() {
    let Some(machine) = Machine::new("absent") else { return };
    let made = machine.images("--prebuild --arch sm_80", "both");
    machine.compilations();
    assert_eq!(
        (machine.images("--prebuild --arch 80", "driver"), machine.compilations()),
        (made, 0)
    );
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let Some(machine) = Machine::new("unwritable") else { return };
    let output = machine.run("--prebuild --arch 80 --dir /dev/null/kernels", "both");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2)
            && text.contains("/dev/null/kernels")
            && text.contains("cannot be kept"),
        "{text}"
    );
    let listed = machine.run("--dir /dev/null/kernels", "both");
    assert!(String::from_utf8_lossy(&listed.stderr).contains("no such folder"), "{listed:?}");
    assert_eq!(listed.status.code(), Some(2));
    assert_eq!(
        machine.run("--arch 80", "both").status.code(),
        Some(2),
        "--arch alone does nothing"
    );
}

/// Nothing is compiled into, or listed of, a folder that others may write to.
#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    let Some(machine) = Machine::new("open") else { return };
    std::fs::create_dir_all(machine.cache()).unwrap();
    std::fs::set_permissions(machine.cache(), PermissionsExt::from_mode(0o777)).unwrap();
    for line in ["", "--json", "--prebuild --arch 90"] {
        let output = machine.run(line, "both");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {text}");
        assert!(
            text.contains("has mode 777, so that others may write to it (chmod go-w)"),
            "{line}: {text}"
        );
    }
    assert_eq!(machine.compilations(), 0);
}
