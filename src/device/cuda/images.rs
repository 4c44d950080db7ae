//! Compiled kernels: made once per source, architecture and compiler, and kept on disk.
//!
//! The folder is `GPUZIP_CACHE_DIR`, else `gpuzip` in `XDG_CACHE_HOME` or `~/.cache`. A file appears whole or not at all, and says itself
//! whether it is; a folder that cannot be written is none. Ranks that start together wait for the one of a node that compiles. Where
//! there is no NVRTC, an image that any version of it made will do: `gpuzip kernels --prebuild` makes them.

use super::nvrtc;
use crate::error::Result;
use std::fs::{self, File};
use std::hash::Hasher;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// A source, complete but for what the options define.
#[derive(Clone, Debug)]
pub struct Source {
    /// What messages and files call it.
    pub name: &'static str,
    /// Its parts, one behind the other.
    pub parts: &'static [(&'static str, &'static str)],
    /// Values are FP64.
    pub double: bool,
}

/// Products and sums are rounded one by one, and nothing is flushed: as on the host.
const OPTIONS: [&str; 5] = ["--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"];

impl Source {
    fn text(&self) -> String {
        self.parts.iter().map(|(name, text)| format!("#line 1 \"{name}\"\n{text}\n")).collect()
    }

    fn options(&self, architecture: u32) -> Vec<String> {
        let own = [format!("-DFP64={}", self.double as u32), format!("--gpu-architecture=sm_{architecture}")];
        OPTIONS.into_iter().map(String::from).chain(own).collect()
    }

    /// What the names of its images begin with, whatever compiler made them.
    fn stem(&self, architecture: u32) -> String {
        let mut hash = Fnv::default();
        hash.write(self.text().as_bytes());
        self.options(architecture).iter().for_each(|option| hash.write(option.as_bytes()));
        let scalar = if self.double { "f64" } else { "f32" };
        format!("{}-{scalar}-sm{architecture}-{:016x}-nvrtc", self.name, hash.finish())
    }

    fn compile(&self, architecture: u32) -> Result<Vec<u8>> {
        log::info!("compiling kernels {} for sm_{architecture}", self.name);
        nvrtc::compile(&self.text(), self.name, &self.options(architecture))
    }
}

/// The image of a source for an architecture: from the disk, or compiled and put there.
pub fn image(source: &Source, architecture: u32) -> Result<Vec<u8>> {
    image_in(folder().as_deref(), source, architecture)
}

/// As `image`, with the cache in this folder.
pub fn image_in(folder: Option<&Path>, source: &Source, architecture: u32) -> Result<Vec<u8>> {
    let stem = source.stem(architecture);
    let (major, minor) = match nvrtc::version() {
        Ok(version) => version,
        Err(missing) => return folder.and_then(|folder| any(folder, &stem)).ok_or(missing),
    };
    let Some(folder) = folder else { return source.compile(architecture) };
    let file = folder.join(format!("{stem}{major}.{minor}.cubin"));
    if let Some(image) = read(&file) {
        return Ok(image);
    }
    let _lock = fs::create_dir_all(folder).and_then(|()| lock(folder)).inspect_err(|e| log::info!("{}: {e}", folder.display()));
    if let Some(image) = read(&file) {
        return Ok(image);
    }
    let image = source.compile(architecture)?;
    if let Err(e) = write(&file, &image) {
        log::info!("compiled kernels are not kept: {}: {e}", file.display());
    }
    Ok(image)
}

/// Forgets an image that the driver does not take, so that it is made again.
pub fn forget(source: &Source, architecture: u32) {
    let Some(folder) = folder() else { return };
    for file in files(&folder, &source.stem(architecture)) {
        let _ = fs::remove_file(file);
    }
}

fn folder() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    of("GPUZIP_CACHE_DIR")
        .or_else(|| of("XDG_CACHE_HOME").map(|dir| dir.join("gpuzip")))
        .or_else(|| of("HOME").map(|dir| dir.join(".cache/gpuzip")))
}

fn files(folder: &Path, stem: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let named = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.starts_with(stem) && name.ends_with(".cubin"));
    let mut files: Vec<PathBuf> = entries.flatten().filter(|entry| named(&entry.file_name())).map(|entry| entry.path()).collect();
    files.sort();
    files
}

fn any(folder: &Path, stem: &str) -> Option<Vec<u8>> {
    files(folder, stem).iter().rev().find_map(|file| read(file))
}

/// Held until it is dropped; other processes of this machine, and other threads, wait for it.
fn lock(folder: &Path) -> std::io::Result<File> {
    let file = File::options().create(true).append(true).open(folder.join("lock"))?;
    // SAFETY: a descriptor that lives.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } {
        0 => Ok(file),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The image of a file that is whole: its hash stands before it.
fn read(file: &Path) -> Option<Vec<u8>> {
    let bytes = fs::read(file).ok()?;
    let (sum, image) = bytes.split_first_chunk::<8>()?;
    (!image.is_empty() && u64::from_le_bytes(*sum) == Fnv::of(image)).then(|| image.to_vec())
}

fn write(file: &Path, image: &[u8]) -> std::io::Result<()> {
    let part = file.with_extension(format!("{}.part", std::process::id()));
    let written = File::create(&part).and_then(|mut to| {
        to.write_all(&Fnv::of(image).to_le_bytes())?;
        to.write_all(image)?;
        to.sync_all()
    });
    let done = written.and_then(|()| fs::rename(&part, file));
    if done.is_err() {
        let _ = fs::remove_file(&part);
    }
    done
}

/// FNV-1a, 64 bits: the same in every build, which std's hasher does not promise.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn of(bytes: &[u8]) -> u64 {
        let mut hash = Fnv::default();
        hash.write(bytes);
        hash.finish()
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
