//! Images of compiled kernels in the cache folder: reused, damaged, refused by the driver, compiled
//! on another machine, or in a folder that cannot be used.

mod common;
#[allow(dead_code)] // Each test program uses a part of it.
#[path = "cuda/emu.rs"]
mod emu;
#[allow(dead_code)] // Each test program uses a part of it.
#[path = "gpu_codecs/rig.rs"]
mod rig;

use gpuzip::codec::{ErrorBound, Method, Settings};
use gpuzip::scalar::Scalar;
use rig::{Kind, Rig};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs in a child: compresses a field, which needs the kernels of `MODULES` modules.
#[test]
#[ignore = "runs in a process of its own"]
fn codes_a_field() {
    assert_eq!(gpuzip::capi::gpuzip_set_log_level(2), 0);
    assert_eq!(emu::reset(1, emu::RANDOM, 1, 1 << 28), 0);
    let settings =
        Settings { method: Method::Fp16, bound: ErrorBound::DEFAULT, reject_nonfinite: false };
    Rig::new(settings, &[([40, 3, 1], Scalar::F32, None)]).check(Kind::Smooth, 1);
}

/// Number of modules whose kernels `codes_a_field` needs.
const MODULES: usize = 2;

struct Machine {
    root: PathBuf,
    /// Folders of libraries with NVRTC and without NVRTC.
    libraries: [PathBuf; 2],
}

impl Machine {
    fn new(name: &str) -> Option<Self> {
        if !common::have("c++") {
            return None;
        }
        let root = common::tempdir(&format!("images-{name}"));
        let libraries = ["with", "without"]
            .map(|with| emu::folder_with(&format!("{name}-{with}"), &emu::driver()));
        std::fs::remove_file(libraries[1].join("libnvrtc.so")).unwrap();
        let compiler = root.join("compiler");
        std::fs::write(
            &compiler,
            format!("#!/bin/sh\necho x >> {}\nexec c++ \"$@\"\n", root.join("calls").display()),
        )
        .unwrap();
        std::fs::set_permissions(&compiler, PermissionsExt::from_mode(0o755)).unwrap();
        Some(Machine { root, libraries })
    }

    /// Runs the child.
    fn code(&self, folder: &Path, nvrtc: bool) -> Output {
        Command::new(std::env::current_exe().unwrap())
            .args(["codes_a_field", "--exact", "--ignored", "--test-threads=1"])
            .env("LD_LIBRARY_PATH", &self.libraries[usize::from(!nvrtc)])
            .env("GPUZIP_CACHE_DIR", folder)
            .env("CXX", self.root.join("compiler"))
            .output()
            .unwrap()
    }

    /// Number of compilations since the last call.
    fn compilations(&self) -> usize {
        let calls = self.root.join("calls");
        let count = std::fs::read_to_string(&calls).map_or(0, |text| text.lines().count());
        let _ = std::fs::remove_file(calls);
        count
    }

    /// Runs the child, which must succeed, and counts its compilations.
    fn succeeds(&self, folder: &Path, nvrtc: bool) -> usize {
        let output = self.code(folder, nvrtc);
        assert!(
            output.status.success(),
            "{}{}",
            common::stdout(&output),
            String::from_utf8_lossy(&output.stderr)
        );
        self.compilations()
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|file| file.extension().is_some_and(|e| e == "cubin")).collect()
}

/// Writes an image as src/device/cuda/images.rs does: the FNV-1a hash of the image, then the image.
fn write_image(file: &Path, image: &[u8]) {
    let hash = image.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
        (hash ^ byte as u64).wrapping_mul(0x0100_0000_01b3)
    });
    std::fs::write(file, [&hash.to_le_bytes(), image].concat()).unwrap();
}

#[test]
fn images_are_kept_and_what_is_no_image_is_made_anew() {
    let Some(machine) = Machine::new("kept") else { return };
    let folder = machine.root.join("cache");
    assert_eq!(machine.succeeds(&folder, true), MODULES);
    assert_eq!(machine.succeeds(&folder, true), 0);
    let kept = files(&folder);
    assert_eq!(kept.len(), MODULES);
    let whole = std::fs::read(&kept[0]).unwrap();
    for bad in [&whole[..whole.len() - 1], &whole[..4], &[], &b"rubbish, and more of it"[..]] {
        std::fs::write(&kept[0], bad).unwrap();
        assert_eq!(machine.succeeds(&folder, true), 1, "{} bytes", bad.len());
    }
    // An undamaged image that the driver refuses, such as the image of another driver.
    write_image(&kept[0], b"an image for something else");
    assert_eq!(machine.succeeds(&folder, true), 1);
    assert_eq!(machine.succeeds(&folder, true), 0);
}

#[test]
fn images_that_were_made_elsewhere_need_no_nvrtc() {
    let Some(machine) = Machine::new("elsewhere") else { return };
    let folder = machine.root.join("cache");
    let output = machine.code(&folder, false);
    if output.status.success() {
        println!("skipped: this machine has NVRTC");
        return;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("gpuzip kernels --prebuild"), "{said}");
    assert_eq!(machine.succeeds(&folder, true), MODULES);
    // The images may come from any version of NVRTC.
    for file in files(&folder) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let stem = &name[..name.find("-nvrtc").unwrap()];
        std::fs::rename(&file, folder.join(format!("{stem}-nvrtc11.8.cubin"))).unwrap();
    }
    assert_eq!(machine.succeeds(&folder, false), 0);
    // A damaged image counts as no image.
    std::fs::write(&files(&folder)[0], b"rubbish").unwrap();
    assert!(!machine.code(&folder, false).status.success());
}

#[test]
fn a_folder_that_cannot_be_written_is_none() {
    let Some(machine) = Machine::new("none") else { return };
    for _ in 0..2 {
        assert_eq!(machine.succeeds(Path::new("/dev/null/cache"), true), MODULES);
    }
}

/// An attack on the cache folder or on its images: name, function, and a part of the warning about
/// a folder that is not trusted (empty where only images are attacked).
type Attack = (&'static str, fn(&Path), &'static str);

fn attacks() -> Vec<Attack> {
    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    fn each(folder: &Path, change: impl Fn(&Path)) {
        files(folder).iter().for_each(|file| change(file));
    }
    let mut attacks: Vec<Attack> = vec![
        ("a folder that all may write to", |folder| mode(folder, 0o777), "chmod go-w"),
        ("images that all may write to", |folder| each(folder, |file| mode(file, 0o666)), ""),
        (
            "links to images",
            |folder| {
                each(folder, |file| {
                    let elsewhere = folder.with_file_name(file.file_name().unwrap());
                    std::fs::rename(file, &elsewhere).unwrap();
                    std::os::unix::fs::symlink(elsewhere, file).unwrap();
                })
            },
            "",
        ),
        (
            "images without end",
            |folder| {
                each(folder, |file| {
                    std::fs::File::options()
                        .write(true)
                        .open(file)
                        .unwrap()
                        .set_len(1 << 40)
                        .unwrap()
                })
            },
            "",
        ),
    ];
    // SAFETY: geteuid takes no pointer and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        attacks.push((
            "another user's folder",
            |folder| std::os::unix::fs::chown(folder, Some(65534), None).unwrap(),
            "belongs to user 65534",
        ));
        attacks.push((
            "another user's images",
            |folder| {
                each(folder, |file| std::os::unix::fs::chown(file, Some(65534), None).unwrap())
            },
            "",
        ));
    } else {
        println!("skipped: files of another user, which only root can make");
    }
    attacks
}

/// Machine code is loaded only from files that no other user can have written; otherwise the
/// kernels are compiled again.
#[test]
fn images_that_others_may_have_written_are_not_loaded() {
    let Some(machine) = Machine::new("attacks") else { return };
    let made = machine.root.join("made");
    assert_eq!(machine.succeeds(&made, true), MODULES);
    for (number, (attack, make, said)) in attacks().into_iter().enumerate() {
        let folder = machine.root.join(format!("attack-{number}/cache"));
        std::fs::create_dir_all(&folder).unwrap();
        for file in files(&made) {
            std::fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
        }
        make(&folder);
        let output = machine.code(&folder, true);
        assert!(output.status.success(), "{attack}: {}", common::stdout(&output));
        assert_eq!(machine.compilations(), MODULES, "{attack}");
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            log.matches("compiled kernels are not kept").count(),
            usize::from(!said.is_empty()),
            "{attack}: {log}"
        );
        assert!(log.contains(said), "{attack}: {log}");
    }
}

#[test]
fn a_fifo_in_the_place_of_the_lock_is_no_lock() {
    let Some(machine) = Machine::new("fifo") else { return };
    let folder = machine.root.join("cache");
    std::fs::create_dir_all(&folder).unwrap();
    let lock = std::ffi::CString::new(folder.join("lock").to_str().unwrap()).unwrap();
    // SAFETY: `lock` is a NUL-terminated string that outlives the call.
    assert_eq!(unsafe { libc::mkfifo(lock.as_ptr(), 0o600) }, 0);
    assert_eq!(machine.succeeds(&folder, true), MODULES);
    assert_eq!(machine.succeeds(&folder, true), 0, "they are kept all the same");
}

#[test]
fn processes_that_start_together_compile_once() {
    let Some(machine) = Machine::new("at-once") else { return };
    let folder = machine.root.join("cache");
    std::thread::scope(|scope| {
        let both = [0, 1].map(|_| scope.spawn(|| machine.code(&folder, true).status.success()));
        assert!(both.into_iter().all(|child| child.join().unwrap()));
    });
    assert_eq!(machine.compilations(), MODULES);
}
