//! Compiled kernels: made once per source, architecture and compiler, and kept on disk.
//!
//! The folder is `GPUZIP_CACHE_DIR`, else `gpuzip` in `XDG_CACHE_HOME` or `~/.cache`. A file
//! appears whole or not at all, and says itself whether it is; a folder that cannot be written is
//! none. Ranks that start together wait for the one of a node that compiles. Where there is no
//! NVRTC, an image that any version of it made will do: `gpuzip kernels --prebuild` makes them.
//!
//! An image is machine code, so that the folder, which is made with mode 0700, and the files in it
//! are used only if they are this user's, or root's, and nobody else may write to them. Or else
//! kernels are compiled, kept nowhere, and a warning says what to do.

use super::nvrtc;
use crate::error::{Code, Error, Result};
use crate::files::{self, Folder};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::Hasher;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long one process waits for another one of the user that compiles: all kernels take a minute.
const PATIENCE: Duration = Duration::from_secs(600);

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
const OPTIONS: [&str; 5] =
    ["--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"];

impl Source {
    /// The text that is compiled.
    pub fn text(&self) -> String {
        self.parts.iter().map(|(name, text)| format!("#line 1 \"{name}\"\n{text}\n")).collect()
    }

    /// How it is compiled.
    pub fn options(&self, architecture: u32) -> Vec<String> {
        let own = [
            format!("-DFP64={}", self.double as u32),
            format!("--gpu-architecture=sm_{architecture}"),
        ];
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
        Err(missing) => {
            return folder
                .and_then(|path| any(&opened(Folder::trusted(path), path)?, path, &stem))
                .ok_or(missing)
        }
    };
    let cache = folder.and_then(|path| opened(Folder::trusted_or_new(path), path));
    let (Some(cache), Some(path)) = (cache, folder) else { return source.compile(architecture) };
    let name = format!("{stem}{major}.{minor}.cubin");
    if let Some(image) = read(&cache, name.as_ref()) {
        return Ok(image);
    }
    let _lock = lock(&cache).inspect_err(|e| {
        log::info!(
            "{}/{LOCK}: {e}: kernels are compiled without waiting for others",
            path.display()
        )
    });
    if let Some(image) = read(&cache, name.as_ref()) {
        return Ok(image);
    }
    let image = source.compile(architecture)?;
    if let Err(e) = write(&cache, name.as_ref(), &image) {
        log::info!("compiled kernels are not kept: {}: {e}", path.join(name).display());
    }
    Ok(image)
}

/// A folder to keep images in, or `None` and, once per process, a line that says why.
fn opened(folder: io::Result<Folder>, path: &Path) -> Option<Folder> {
    static SAID: AtomicBool = AtomicBool::new(false);
    let why = match folder {
        Ok(folder) => return Some(folder),
        Err(why) => why,
    };
    let text =
        format!("compiled kernels are not kept in {}: {why}; let GPUZIP_CACHE_DIR name a folder that is yours alone", path.display());
    match why.kind() {
        // What `Folder` found out; all else is what the system says of a folder that is not there
        // or not ours to make.
        io::ErrorKind::Other if SAID.swap(true, Ordering::Relaxed) => {}
        io::ErrorKind::Other => log::warn!("{text}"),
        _ => log::info!("{text}"),
    }
    None
}

/// Forgets an image that the driver does not take, so that it is made again.
pub fn forget(source: &Source, architecture: u32) {
    let Some(path) = folder() else { return };
    let Ok(folder) = Folder::trusted(&path) else { return };
    for name in names(&path, &source.stem(architecture)) {
        let _ = folder.remove(name.as_ref());
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

/// The images in a folder; `sources` are those that are current. A folder that is not there has
/// none; one that others may write to is an error.
pub fn images_in(path: &Path, sources: &[Source]) -> Result<Vec<Image>> {
    let folder = match Folder::trusted(path) {
        Ok(folder) => folder,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new())
        }
        Err(e) => return Err(Error::new(Code::Io, format!("{}: {e}", path.display()))),
    };
    let image = |name: &String| {
        let architecture = name.split("-sm").nth(1)?.split('-').next()?.parse().ok()?;
        let bytes = fs::symlink_metadata(path.join(name)).ok()?.len();
        let image = Image {
            name: name.clone(),
            architecture,
            bytes,
            is_whole: read(&folder, name.as_ref()).is_some(),
            is_current: false,
        };
        Some(Image {
            is_current: sources.iter().any(|source| image.is_of(source, architecture)),
            ..image
        })
    };
    Ok(names(path, "").iter().filter_map(image).collect())
}

/// Where images are kept if nobody says otherwise.
pub fn folder() -> Option<PathBuf> {
    let of =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    of("GPUZIP_CACHE_DIR")
        .or_else(|| of("XDG_CACHE_HOME").map(|dir| dir.join("gpuzip")))
        .or_else(|| of("HOME").map(|dir| dir.join(".cache/gpuzip")))
}

/// The names of images, in order. Whoever uses one opens it in the folder that was checked.
fn names(folder: &Path, stem: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with(stem) && name.ends_with(".cubin")).collect();
    names.sort();
    names
}

fn any(folder: &Folder, path: &Path, stem: &str) -> Option<Vec<u8>> {
    names(path, stem).iter().rev().find_map(|name| read(folder, name.as_ref()))
}

const LOCK: &str = "lock";

/// Held until it is dropped; other processes of this machine, and other threads, wait for it.
fn lock(folder: &Folder) -> io::Result<File> {
    let file = folder.lock_file(LOCK.as_ref())?;
    files::lock(&file, PATIENCE)?;
    Ok(file)
}

/// The image of a file that is whole: its hash stands before it. The hash tells damage, not intent;
/// of that the owner and the mode tell.
fn read(folder: &Folder, name: &OsStr) -> Option<Vec<u8>> {
    let mut bytes = folder.read(name, files::LARGEST_IMAGE).ok()?;
    let (sum, image) = bytes.split_first_chunk::<8>()?;
    let is_whole = !image.is_empty() && u64::from_le_bytes(*sum) == Fnv::of(image);
    bytes.drain(..8);
    is_whole.then_some(bytes)
}

fn write(folder: &Folder, name: &OsStr, image: &[u8]) -> io::Result<()> {
    folder.replace(name, &[&Fnv::of(image).to_le_bytes(), image], None)
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

    const KERNEL: Source =
        Source { name: "a", parts: &[("a.cu", "one"), ("b.cu", "two")], double: false };

    #[test]
    fn a_name_tells_sources_types_and_architectures_apart() {
        let others = [
            Source { double: true, ..KERNEL },
            Source { name: "b", ..KERNEL },
            Source { parts: &[("a.cu", "one"), ("b.cu", "twO")], ..KERNEL },
            Source { parts: &[("a.cu", "one"), ("c.cu", "two")], ..KERNEL },
            Source { parts: &[("a.cu", "on"), ("b.cu", "etwo")], ..KERNEL },
        ];
        let mut stems: Vec<String> = others
            .iter()
            .map(|other| other.stem(80))
            .chain([KERNEL.stem(80), KERNEL.stem(90)])
            .collect();
        assert_eq!(stems.len(), 7);
        assert!(
            KERNEL.stem(80) == KERNEL.clone().stem(80)
                && KERNEL.stem(80).starts_with("a-f32-sm80-")
        );
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
        let path = std::env::temp_dir().join(format!("gpuzip-images-{}", std::process::id()));
        let folder = Folder::trusted_or_new(&path).unwrap();
        let name = format!("{}12.4.cubin", KERNEL.stem(80));
        let (file, name) = (path.join(&name), OsStr::new(&name));
        let images = |sources| images_in(&path, sources).unwrap();
        write(&folder, name, b"an image").unwrap();
        assert_eq!(read(&folder, name).unwrap(), b"an image");
        let found = images(&[KERNEL]);
        assert!(
            found.len() == 1
                && found[0].is_whole
                && found[0].is_current
                && found[0].architecture == 80
                && found[0].bytes == 16
        );
        assert!(!images(&[])[0].is_current && !found[0].is_of(&KERNEL, 90));
        let whole = fs::read(&file).unwrap();
        for cut in 0..whole.len() {
            fs::write(&file, &whole[..cut]).unwrap();
            assert!(read(&folder, name).is_none(), "cut at {cut}");
        }
        for bit in 0..8 * whole.len() {
            let mut bad = whole.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            fs::write(&file, bad).unwrap();
            assert!(read(&folder, name).is_none(), "bit {bit}");
        }
        assert!(!images(&[KERNEL])[0].is_whole && any(&folder, &path, &KERNEL.stem(80)).is_none());
        fs::remove_dir_all(&path).unwrap();
    }
}
