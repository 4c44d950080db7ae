//! Images of compiled kernels in the cache folder: reused, damaged, refused by the driver, compiled
//! on another machine, or in a folder that cannot be used.

use crate::common::{self, emu, rig};
use gpuzip::codec::{ErrorBound, Method, Settings};
use gpuzip::scalar::Scalar;
use rig::{Kind, Rig};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Runs in a child: compresses a field, which needs the kernels of `MODULES` modules.
#[test]
#[ignore = "runs in a process of its own"]
fn codes_a_field() {
    assert_eq!(gpuzip::capi::gpuzip_set_log_level(2), 0);
    assert_eq!(emu::reset(1, emu::RANDOM, 1, 1 << 28), 0);
    let settings =
        Settings { method: Method::Fp16, bound: ErrorBound::DEFAULT, ..Settings::default() };
    Rig::new(settings, &[([40, 3, 1], Scalar::F32, None)]).check(Kind::Smooth, 1);
    // SAFETY: the library is looked for among those that are loaded, and is not loaded.
    let nvrtc =
        unsafe { libc::dlopen(c"libnvrtc.so".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    println!("{}", if nvrtc.is_null() { "NVRTC was not opened" } else { "NVRTC was opened" });
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
            // What is compiled runs once: without optimisation it is there in half the time.
            format!("#!/bin/sh\necho x >> {}\nexec c++ \"$@\" -O0\n", root.join("calls").display()),
        )
        .unwrap();
        std::fs::set_permissions(&compiler, PermissionsExt::from_mode(0o755)).unwrap();
        Some(Machine { root, libraries })
    }

    /// Runs the child.
    fn code(&self, folder: &Path, nvrtc: bool) -> Output {
        self.code_with(folder, nvrtc, &[])
    }

    /// Runs the child with these environment variables.
    fn code_with(&self, folder: &Path, nvrtc: bool, variables: &[(&str, &str)]) -> Output {
        common::again("codes_a_field")
            .env("LD_LIBRARY_PATH", &self.libraries[usize::from(!nvrtc)])
            .env("GPUZIP_CACHE_DIR", folder)
            .env("CXX", self.root.join("compiler"))
            .env_remove("CUDA_HOME")
            .env_remove("CUDA_PATH")
            .envs(variables.iter().copied())
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
        self.succeeds_with(folder, nvrtc, &[])
    }

    /// Runs the child with these environment variables as `succeeds` does.
    fn succeeds_with(&self, folder: &Path, nvrtc: bool, variables: &[(&str, &str)]) -> usize {
        let output = self.code_with(folder, nvrtc, variables);
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
    let hash = common::checksum::fnv(image);
    std::fs::write(file, [&hash.to_le_bytes(), image].concat()).unwrap();
}

/// Renames an image to the name that an image of NVRTC 11.8 has. Returns the new path.
fn make_of_another_nvrtc(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap().to_str().unwrap();
    let stem = &name[..name.find("-nvrtc").unwrap()];
    let new = file.with_file_name(format!("{stem}-nvrtc11.8.cubin"));
    std::fs::rename(file, &new).unwrap();
    new
}

/// The environment of a process whose device has this architecture, 86 for sm_86.
fn device(architecture: &str) -> (&str, &str) {
    ("CUDA_EMU_ARCHITECTURE", architecture)
}

/// An NVRTC that knows no architecture above sm_80.
const OLD_NVRTC: (&str, &str) = ("CUDA_EMU_NVRTC_ARCHITECTURES", "70,75,80");

#[test]
fn nvrtc_is_found_by_the_name_of_every_version() {
    let Some(machine) = Machine::new("names") else { return };
    let library = machine.libraries[1].join("libnvrtc");
    for (number, version) in ["so.13", "so.12", "so.11.2"].into_iter().enumerate() {
        let named = library.with_extension(version);
        std::fs::copy(emu::driver(), &named).unwrap();
        let folder = machine.root.join(format!("cache-{number}"));
        assert_eq!(machine.succeeds(&folder, false), MODULES, "{version}");
        std::fs::remove_file(named).unwrap();
    }
}

/// A toolkit whose libraries the loader does not know: CUDA_HOME names its folder.
#[test]
fn nvrtc_is_found_in_the_folder_of_the_toolkit() {
    let Some(machine) = Machine::new("toolkit") else { return };
    let toolkit = machine.root.join("toolkit");
    std::fs::create_dir_all(toolkit.join("lib64")).unwrap();
    for (number, variable) in ["CUDA_HOME", "CUDA_PATH"].into_iter().enumerate() {
        let folder = machine.root.join(format!("cache-{number}"));
        let variables = [(variable, toolkit.to_str().unwrap())];
        let library = toolkit.join("lib64/libnvrtc.so.12");
        let output = machine.code_with(&folder, false, &variables);
        let text =
            [common::stdout(&output), String::from_utf8_lossy(&output.stderr).into()].concat();
        assert!(!output.status.success() && text.contains("CUDA_HOME"), "{text}");
        std::fs::copy(emu::driver(), &library).unwrap();
        assert_eq!(machine.succeeds_with(&folder, false, &variables), MODULES, "{variable}");
        std::fs::remove_file(library).unwrap();
    }
}

#[test]
fn an_nvrtc_that_refuses_the_architecture_hides_no_image() {
    let Some(machine) = Machine::new("refuses") else { return };
    let folder = machine.root.join("cache");
    assert_eq!(machine.succeeds_with(&folder, true, &[device("90")]), MODULES);
    files(&folder).iter().for_each(|file| drop(make_of_another_nvrtc(file)));
    assert_eq!(machine.succeeds_with(&folder, true, &[device("90"), OLD_NVRTC]), 0);
}

/// A device runs machine code of a lower minor compute capability of its major one, and no other.
#[test]
fn machine_code_of_a_lower_minor_capability_is_used() {
    let Some(machine) = Machine::new("minor") else { return };
    let folder = machine.root.join("cache");
    assert_eq!(machine.succeeds_with(&folder, true, &[device("86")]), MODULES);
    for (architecture, is_enough) in [("89", true), ("80", false), ("90", false), ("100", false)] {
        let output = machine.code_with(&folder, false, &[device(architecture)]);
        assert_eq!(output.status.success(), is_enough, "sm_{architecture}");
    }
    assert_eq!(machine.compilations(), 0);
    assert_eq!(files(&folder).len(), MODULES, "no file is lost");
}

#[test]
fn ptx_serves_a_device_that_nvrtc_does_not_know() {
    let Some(machine) = Machine::new("ptx") else { return };
    let folder = machine.root.join("cache");
    let newer = [device("90"), OLD_NVRTC];
    assert_eq!(machine.succeeds_with(&folder, true, &newer), MODULES);
    assert_eq!(machine.succeeds_with(&folder, true, &newer), 0, "PTX is kept");
    assert_eq!(machine.succeeds_with(&folder, false, &newer), 0, "PTX needs no NVRTC");
    assert!(files(&folder).is_empty(), "machine code of sm_80 would be of no use");
    // The driver compiles PTX for its own and for newer architectures only.
    assert!(!machine.code_with(&folder, false, &[device("75")]).status.success());
}

/// The driver refuses an image: this machine's NVRTC makes its own image anew. The images of other
/// versions of NVRTC, which other drivers may take, stay.
#[test]
fn a_refused_image_takes_no_other_image_with_it() {
    let Some(machine) = Machine::new("refused") else { return };
    let folder = machine.root.join("cache");
    assert_eq!(machine.succeeds(&folder, true), MODULES);
    let own = files(&folder).remove(0);
    let of_others = make_of_another_nvrtc(&own);
    write_image(&of_others, b"an image for another driver");
    write_image(&own, b"an image for another driver");
    assert_eq!(machine.succeeds(&folder, true), 1);
    assert!(of_others.exists());
    assert_eq!(machine.succeeds(&folder, true), 0);
}

/// The images of any version of NVRTC are used without opening this machine's, whose library is large.
#[test]
fn nvrtc_is_not_opened_for_images_that_are_there() {
    let Some(machine) = Machine::new("not-opened") else { return };
    let folder = machine.root.join("cache");
    let is_opened = || {
        let output = machine.code_with(&folder, true, &[]);
        let said = common::stdout(&output);
        assert!(output.status.success() && said.contains("NVRTC was"), "{said}");
        said.contains("NVRTC was opened")
    };
    assert!(is_opened());
    assert!(!is_opened());
    files(&folder).iter().for_each(|file| drop(make_of_another_nvrtc(file)));
    assert!(!is_opened());
    std::fs::write(&files(&folder)[0], b"rubbish").unwrap();
    assert!(is_opened(), "an image is damaged");
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
    files(&folder).iter().for_each(|file| drop(make_of_another_nvrtc(file)));
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

/// An attack on the cache folder or on its images: name, function, whether the folder itself is
/// refused, and a part of the reason.
type Attack = (&'static str, fn(&Path), bool, &'static str);

fn attacks() -> Vec<Attack> {
    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    fn each(folder: &Path, change: impl Fn(&Path)) {
        files(folder).iter().for_each(|file| change(file));
    }
    let mut attacks: Vec<Attack> = vec![
        ("a folder that all may write to", |folder| mode(folder, 0o777), true, "chmod go-w"),
        (
            "images that all may write to",
            |folder| each(folder, |file| mode(file, 0o666)),
            false,
            "chmod go-w",
        ),
        (
            "links to images",
            |folder| {
                each(folder, |file| {
                    let elsewhere = folder.with_file_name(file.file_name().unwrap());
                    std::fs::rename(file, &elsewhere).unwrap();
                    std::os::unix::fs::symlink(elsewhere, file).unwrap();
                })
            },
            false,
            "symbolic link",
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
            false,
            "is too large",
        ),
        (
            "damaged images",
            |folder| each(folder, |file| std::fs::write(file, b"rubbish").unwrap()),
            false,
            "is damaged",
        ),
    ];
    // SAFETY: geteuid takes no pointer and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        attacks.push((
            "another user's folder",
            |folder| std::os::unix::fs::chown(folder, Some(65534), None).unwrap(),
            true,
            "belongs to user 65534",
        ));
        attacks.push((
            "another user's images",
            |folder| {
                each(folder, |file| std::os::unix::fs::chown(file, Some(65534), None).unwrap())
            },
            false,
            "belongs to user 65534",
        ));
    } else {
        println!("skipped: files of another user, which only root can make");
    }
    attacks
}

/// Machine code is loaded only from files that no other user can have written; otherwise the
/// kernels are compiled again. Without NVRTC, the error says which folder or file is refused, why,
/// and what to do.
#[test]
fn images_that_others_may_have_written_are_not_loaded() {
    let Some(machine) = Machine::new("attacks") else { return };
    let made = machine.root.join("made");
    assert_eq!(machine.succeeds(&made, true), MODULES);
    for (number, (attack, make, is_of_folder, why)) in attacks().into_iter().enumerate() {
        let folder = machine.root.join(format!("attack-{number}/cache"));
        std::fs::create_dir_all(&folder).unwrap();
        for file in files(&made) {
            std::fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
        }
        make(&folder);
        let output = machine.code(&folder, false);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let refused = folder.join(if is_of_folder { "" } else { "half-" });
        let named = format!("not used: {}", refused.display());
        match output.status.success() {
            true => println!("skipped in part: this machine has NVRTC"),
            false => assert!(
                error.contains(named.trim_end_matches('/'))
                    && error.contains(why)
                    && error.contains("GPUZIP_CACHE_DIR name a whole copy"),
                "{attack}: {error}"
            ),
        }
        machine.compilations();
        let output = machine.code(&folder, true);
        assert!(output.status.success(), "{attack}: {}", common::stdout(&output));
        assert_eq!(machine.compilations(), MODULES, "{attack}");
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            log.matches("compiled kernels are not kept").count(),
            usize::from(is_of_folder),
            "{attack}: {log}"
        );
        assert!(!is_of_folder || log.contains(why), "{attack}: {log}");
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
