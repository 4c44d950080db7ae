//! Images: compiled kernels, made once per source, architecture and compiler, and kept on disk.
//!
//! The cache folder is `GPUZIP_CACHE_DIR`, else `gpuzip` in `XDG_CACHE_HOME`, else
//! `~/.cache/gpuzip`. A file is written under another name and then renamed, so that a file is
//! whole or does not exist; a hash in the file shows whether the file is whole. If the folder
//! cannot be written, images are not kept. Of ranks that start together on a node, one compiles and
//! the others wait. Without NVRTC, an image from any version of NVRTC is used; such images are made
//! by
//! `gpuzip kernels --prebuild`.
//!
//! An image is machine code. The folder is therefore made with mode 0700, and the folder and its
//! files are used only if they belong to this user or root and no other user may write to them.
//! Otherwise kernels are compiled and not kept, and a warning says what to do.

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

/// How long a process waits for another process of the user that compiles. All kernels together
/// take about a minute.
const PATIENCE: Duration = Duration::from_secs(600);

/// A kernel source, complete except for the macros that the options define.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name of the source in messages and file names.
    pub name: &'static str,
    /// File names and texts of the parts; the source is the parts in this order.
    pub parts: &'static [(&'static str, &'static str)],
    /// Whether values are FP64; FP32 otherwise.
    pub double: bool,
}

/// Options that make the kernels round as the host does (IEEE 754): products and sums are rounded
/// separately, and subnormal numbers are not flushed to zero.
const OPTIONS: [&str; 5] =
    ["--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"];

impl Source {
    /// The text that is compiled.
    pub fn text(&self) -> String {
        self.parts.iter().map(|(name, text)| format!("#line 1 \"{name}\"\n{text}\n")).collect()
    }

    /// The options for compiling for `architecture`.
    pub fn options(&self, architecture: u32) -> Vec<String> {
        let own = [
            format!("-DFP64={}", self.double as u32),
            format!("--gpu-architecture=sm_{architecture}"),
        ];
        OPTIONS.into_iter().map(String::from).chain(own).collect()
    }

    /// The begin of the image file names of this source and architecture, without the compiler's
    /// version.
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

/// The image of a source for an architecture: read from the cache, or compiled and written to the
/// cache.
pub fn image(source: &Source, architecture: u32) -> Result<Vec<u8>> {
    image_in(folder().as_deref(), source, architecture)
}

/// As `image`, with `folder` as the cache.
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

/// Returns a folder for images, or `None`. The first `None` of a process logs a warning.
fn opened(folder: io::Result<Folder>, path: &Path) -> Option<Folder> {
    static SAID: AtomicBool = AtomicBool::new(false);
    let why = match folder {
        Ok(folder) => return Some(folder),
        Err(why) => why,
    };
    let text =
        format!("compiled kernels are not kept in {}: {why}; let GPUZIP_CACHE_DIR name a folder that is yours alone", path.display());
    match why.kind() {
        // `Folder` itself refused the folder. All other errors are the system's, about a folder
        // that does not exist or that this user cannot make.
        io::ErrorKind::Other if SAID.swap(true, Ordering::Relaxed) => {}
        io::ErrorKind::Other => log::warn!("{text}"),
        _ => log::info!("{text}"),
    }
    None
}

/// Removes the images of a source that the driver does not accept, so that they are compiled again.
pub fn forget(source: &Source, architecture: u32) {
    let Some(path) = folder() else { return };
    let Ok(folder) = Folder::trusted(&path) else { return };
    for name in names(&path, &source.stem(architecture)) {
        let _ = folder.remove(name.as_ref());
    }
}

/// An image in a cache folder.
#[derive(Clone, Debug)]
pub struct Image {
    /// Name of the file.
    pub name: String,
    /// The architecture for which the image is compiled: 90 for sm_90.
    pub architecture: u32,
    /// Bytes of the file.
    pub bytes: u64,
    /// Whether the file is as it was written.
    pub is_whole: bool,
    /// Whether the image was made from the present text of a source.
    pub is_current: bool,
}

impl Image {
    /// Whether this is an image of `source` for `architecture`, from any version of the compiler.
    pub fn is_of(&self, source: &Source, architecture: u32) -> bool {
        self.name.starts_with(&source.stem(architecture))
    }
}

/// The images in a folder. `sources` are the present sources. A folder that does not exist has no
/// images; a folder that other users may write to is an error.
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

/// The default folder of images; `None` if no environment variable names one.
pub fn folder() -> Option<PathBuf> {
    let of =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    of("GPUZIP_CACHE_DIR")
        .or_else(|| of("XDG_CACHE_HOME").map(|dir| dir.join("gpuzip")))
        .or_else(|| of("HOME").map(|dir| dir.join(".cache/gpuzip")))
}

/// The sorted names of the images in a folder. Code that uses an image opens it through the checked
/// `Folder`.
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

/// Locks the cache until the returned file is dropped. Other processes of this machine, and other
/// threads, wait for the lock.
fn lock(folder: &Folder) -> io::Result<File> {
    let file = folder.lock_file(LOCK.as_ref())?;
    files::lock(&file, PATIENCE)?;
    Ok(file)
}

/// The image in a file; `None` if the hash at the begin of the file does not fit. The hash detects
/// damage. Against intent, the owner and the mode of the folder and the file are checked.
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

/// FNV-1a, 64 bits: the same in every build. The standard library's hasher does not promise that.
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
        // Also the hash alone differs, not only the readable part of the name.
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
