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
    /// The text that is compiled.
    pub fn text(&self) -> String {
        self.parts.iter().map(|(name, text)| format!("#line 1 \"{name}\"\n{text}\n")).collect()
    }

    /// How it is compiled.
    pub fn options(&self, architecture: u32) -> Vec<String> {
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

/// An image that is kept in a folder.
#[derive(Clone, Debug)]
pub struct Image {
    /// The file's name.
    pub name: String,
    /// What it is compiled for, 90 for sm_90.
    pub architecture: u32,
    /// Bytes of the file.
    pub bytes: u64,
    /// It is as it was written.
    pub is_whole: bool,
    /// It is that of a source as it is now.
    pub is_current: bool,
}

impl Image {
    /// Whether it is this source's, whatever version of the compiler made it.
    pub fn is_of(&self, source: &Source, architecture: u32) -> bool {
        self.name.starts_with(&source.stem(architecture))
    }
}

/// The images in a folder; `sources` are those that are current.
pub fn images_in(folder: &Path, sources: &[Source]) -> Vec<Image> {
    let image = |file: &PathBuf| {
        let name = file.file_name()?.to_str()?.to_owned();
        let architecture = name.split("-sm").nth(1)?.split('-').next()?.parse().ok()?;
        let (bytes, is_whole) = (fs::metadata(file).ok()?.len(), read(file).is_some());
        let image = Image { name, architecture, bytes, is_whole, is_current: false };
        Some(Image { is_current: sources.iter().any(|source| image.is_of(source, architecture)), ..image })
    };
    files(folder, "").iter().filter_map(image).collect()
}

/// Where images are kept if nobody says otherwise.
pub fn folder() -> Option<PathBuf> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: Source = Source { name: "a", parts: &[("a.cu", "one"), ("b.cu", "two")], double: false };

    #[test]
    fn a_name_tells_sources_types_and_architectures_apart() {
        let others = [
            Source { double: true, ..KERNEL },
            Source { name: "b", ..KERNEL },
            Source { parts: &[("a.cu", "one"), ("b.cu", "twO")], ..KERNEL },
            Source { parts: &[("a.cu", "one"), ("c.cu", "two")], ..KERNEL },
            Source { parts: &[("a.cu", "on"), ("b.cu", "etwo")], ..KERNEL },
        ];
        let mut stems: Vec<String> = others.iter().map(|other| other.stem(80)).chain([KERNEL.stem(80), KERNEL.stem(90)]).collect();
        assert_eq!(stems.len(), 7);
        assert!(KERNEL.stem(80) == KERNEL.clone().stem(80) && KERNEL.stem(80).starts_with("a-f32-sm80-"));
        stems.sort();
        stems.dedup();
        assert_eq!(stems.len(), 7);
        // The part that tells texts and options apart, not only what can be read.
        let hash = |stem: String| stem.split('-').nth(3).map(str::to_owned);
        assert_ne!(hash(KERNEL.stem(80)), hash(KERNEL.stem(90)));
        assert_ne!(hash(KERNEL.stem(80)), hash(others[0].stem(80)));
    }

    #[test]
    fn a_file_says_whether_it_is_whole() {
        let folder = std::env::temp_dir().join(format!("gpuzip-images-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{}12.4.cubin", KERNEL.stem(80)));
        write(&file, b"an image").unwrap();
        assert_eq!(read(&file).unwrap(), b"an image");
        let found = images_in(&folder, &[KERNEL]);
        assert!(found.len() == 1 && found[0].is_whole && found[0].is_current && found[0].architecture == 80 && found[0].bytes == 16);
        assert!(!images_in(&folder, &[])[0].is_current && !found[0].is_of(&KERNEL, 90));
        let whole = fs::read(&file).unwrap();
        for cut in 0..whole.len() {
            fs::write(&file, &whole[..cut]).unwrap();
            assert!(read(&file).is_none(), "cut at {cut}");
        }
        for bit in 0..8 * whole.len() {
            let mut bad = whole.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            fs::write(&file, bad).unwrap();
            assert!(read(&file).is_none(), "bit {bit}");
        }
        assert!(!images_in(&folder, &[KERNEL])[0].is_whole && any(&folder, &KERNEL.stem(80)).is_none());
        fs::remove_dir_all(&folder).unwrap();
    }
}
