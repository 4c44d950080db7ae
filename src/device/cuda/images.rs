//! Images: compiled kernels, made once per source, architecture and compiler, and kept on disk.
//!
//! The cache folder is `GPUZIP_CACHE_DIR`, else `gpuzip` in `XDG_CACHE_HOME`, else
//! `~/.cache/gpuzip`. A file is written under another name and then renamed; a hash in the file
//! shows damage. If the folder cannot be written, images are not kept. Of ranks that start together
//! on a node, one compiles and the others wait. An image from any version of NVRTC is used, and
//! then NVRTC is not even opened; `gpuzip kernels --prebuild` makes such images for machines that
//! lack NVRTC.
//!
//! Where NVRTC does not know the architecture of a device, or the driver refuses NVRTC's image, the
//! images of other versions of NVRTC are tried, then machine code for a lower minor compute
//! capability of the same major one, which the device runs, too (sm_80 on sm_86), and last PTX,
//! which the driver compiles. The file of a refused image stays or is replaced by the image of the
//! same NVRTC: other devices and drivers use the same folder.
//!
//! An image is machine code. The folder is therefore made with mode 0700, and the folder and its
//! files are used only if they belong to this user or root and no other user may write to them.
//! Otherwise kernels are compiled and not kept, and a warning says what to do.

use super::nvrtc::{self, Form};
use crate::environment;
use crate::error::{fail, Code, Error, Result};
use crate::files::{self, hash, Folder};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a process waits for another one that compiles: all kernels take about a minute.
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
        self.options_for(Kind::cubin(architecture))
    }

    fn options_for(&self, Kind { form, architecture }: Kind) -> Vec<String> {
        let scalar = format!("-DFP64={}", self.double as u32);
        let target = format!("--gpu-architecture={}_{architecture}", form.target());
        OPTIONS.into_iter().map(String::from).chain([scalar, target]).collect()
    }

    /// The start of the image file names of this source and kind, without the compiler's version.
    fn stem(&self, kind: Kind) -> String {
        let (text, options) = (self.text(), self.options_for(kind));
        let hash = hash([&text].into_iter().chain(&options).flat_map(|part| part.bytes()));
        let scalar = if self.double { "f64" } else { "f32" };
        let (target, architecture) = (kind.form.target(), kind.architecture);
        format!("{}-{scalar}-{target}{architecture}-{hash:016x}-nvrtc", self.name)
    }

    fn compile(&self, kind: Kind) -> Result<Vec<u8>> {
        let (target, architecture) = (kind.form.target(), kind.architecture);
        log::info!("compiling kernels {} for {target}_{architecture}", self.name);
        nvrtc::compile(&self.text(), self.name, &self.options_for(kind), kind.form)
    }
}

/// What an image is: machine code or PTX, and its architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    form: Form,
    /// 90 for sm_90 or compute_90.
    architecture: u32,
}

impl Kind {
    fn cubin(architecture: u32) -> Self {
        Kind { form: Form::Cubin, architecture }
    }

    fn ptx(architecture: u32) -> Self {
        Kind { form: Form::Ptx, architecture }
    }
}

impl Form {
    /// NVIDIA's word before the number of the architecture.
    fn target(self) -> &'static str {
        ["sm", "compute"][self as usize]
    }

    fn extension(self) -> &'static str {
        [".cubin", ".ptx"][self as usize]
    }
}

/// The image of a source for an architecture: from the cache `folder`, or compiled and then cached.
pub fn image_in(folder: Option<&Path>, source: &Source, architecture: u32) -> Result<Vec<u8>> {
    own(folder, source, Kind::cubin(architecture), true).map(|(image, _)| image)
}

/// Makes sure that `folder` has the PTX of a source for `architecture`. The driver compiles PTX for
/// its device, if the device has this architecture or came later.
pub fn keep_ptx(folder: &Path, source: &Source, architecture: u32) -> Result<()> {
    own(Some(folder), source, Kind::ptx(architecture), true).map(drop)
}

/// The image of a source, and whether the image was read from the cache: one that any version of
/// NVRTC has made, or else the one that this machine's NVRTC makes. `may_read`: the cache may be
/// read; otherwise the image is compiled, and replaces the file of the cache.
fn own(
    folder: Option<&Path>,
    source: &Source,
    kind: Kind,
    may_read: bool,
) -> Result<(Vec<u8>, bool)> {
    let stem = source.stem(kind);
    let kept = folder
        .filter(|_| may_read)
        .and_then(|path| all(path, |name| name.starts_with(&stem)).pop());
    if let Some(image) = kept {
        return Ok((image, true));
    }
    // Without NVRTC, the kept images were the only ones: the error says why they are not used.
    let refused = |error: Error| match folder.and_then(|path| refusal(path, &stem)) {
        Some(why) => Error::new(error.code, format!("{error}; {why}")),
        None => error,
    };
    let version = nvrtc::version().map_err(refused)?;
    let compile = || source.compile(kind).map(|image| (image, false)).map_err(refused);
    let cache = folder.and_then(|path| opened(Folder::trusted_or_new(path), path));
    let (Some(cache), Some(path)) = (cache, folder) else { return compile() };
    let name = file_name(&stem, version, kind);
    let kept = || read(&cache, name.as_ref()).ok().filter(|_| may_read);
    if let Some(image) = kept() {
        return Ok((image, true));
    }
    let _lock = lock(&cache).inspect_err(|e| {
        log::info!(
            "{}/{LOCK}: {e}: kernels are compiled without waiting for others",
            path.display()
        )
    });
    if let Some(image) = kept() {
        return Ok((image, true));
    }
    let (image, _) = compile()?;
    if let Err(e) = write(&cache, name.as_ref(), &image) {
        log::info!("compiled kernels are not kept: {}: {e}", path.join(name).display());
    }
    Ok((image, false))
}

fn file_name(stem: &str, (major, minor): (i32, i32), kind: Kind) -> String {
    format!("{stem}{major}.{minor}{}", kind.form.extension())
}

/// Gives images of a source to `load`, best first, until `load` takes an image, and returns what
/// `load` made. `load` returns `None` for an image that the driver does not take.
pub fn offer<T>(
    source: &Source,
    architecture: u32,
    load: &mut dyn FnMut(&[u8]) -> Result<Option<T>>,
) -> Result<T> {
    let folder = folder();
    let (folder, kind) = (folder.as_deref(), Kind::cubin(architecture));
    let first = own(folder, source, kind, true);
    let own_image = first.iter().map(|(image, _)| image.clone());
    let kept = folder.into_iter().flat_map(|path| kept_cubins(path, source, architecture));
    if let Some(loaded) = own_image.chain(kept).find_map(|image| load(&image).transpose()) {
        return loaded;
    }
    // A kept image that the driver refuses may be the image of a driver that was replaced.
    let second = match &first {
        Ok((_, true)) => own(folder, source, kind, false),
        _ => first,
    };
    let why = match second.and_then(|(image, _)| load(&image)) {
        Ok(Some(loaded)) => return Ok(loaded),
        Ok(None) => None,
        Err(error) => Some(error),
    };
    let images = ptx(folder, source, architecture);
    match (images.iter().find_map(|image| load(image).transpose()), why) {
        (Some(loaded), _) => loaded,
        (None, Some(error)) => Err(error),
        (None, None) => fail!(
            Device,
            "the driver does not take the kernels {} that NVRTC made for sm_{architecture}",
            source.name
        ),
    }
}

/// The kept machine code of a source that a device of this architecture runs: for the architecture
/// itself, by all versions of NVRTC, then for lower minor compute capabilities, highest first.
fn kept_cubins(path: &Path, source: &Source, architecture: u32) -> Vec<Vec<u8>> {
    let mut images = Vec::new();
    for lower in (architecture - architecture % 10..=architecture).rev() {
        let stem = source.stem(Kind::cubin(lower));
        images.extend(all(path, |name| name.starts_with(&stem)).into_iter().rev());
    }
    images
}

/// PTX of a source that the driver can compile for this architecture: of this machine's NVRTC, for
/// the highest architecture that this NVRTC knows, and what the cache has, highest first.
fn ptx(folder: Option<&Path>, source: &Source, architecture: u32) -> Vec<Vec<u8>> {
    let known = nvrtc::architectures().unwrap_or_default();
    let highest = known.into_iter().filter(|&known| known <= architecture).max();
    let made = highest.map(|known| own(folder, source, Kind::ptx(known), true));
    let mut images: Vec<Vec<u8>> = made.into_iter().flatten().map(|(image, _)| image).collect();
    let scalar = if source.double { "f64" } else { "f32" };
    let begin = format!("{}-{scalar}-compute", source.name);
    let of = |name: &str| {
        let number: u32 = name.strip_prefix(&begin)?.split('-').next()?.parse().ok()?;
        let is_usable = number <= architecture && name.starts_with(&source.stem(Kind::ptx(number)));
        is_usable.then_some(number)
    };
    if let Some(path) = folder {
        let mut kept: Vec<u32> = names(path).iter().filter_map(|name| of(name)).collect();
        kept.sort_unstable();
        kept.dedup();
        for number in kept.into_iter().rev() {
            images.extend(all(path, |name| of(name) == Some(number)));
        }
    }
    images
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
        // `Folder` refused it; other errors are the system's: no folder is there or can be made.
        io::ErrorKind::Other if SAID.swap(true, Ordering::Relaxed) => {}
        io::ErrorKind::Other => log::warn!("{text}"),
        _ => log::info!("{text}"),
    }
    None
}

/// An image in a cache folder.
#[derive(Clone, Debug)]
pub struct Image {
    /// Name of the file.
    pub name: String,
    /// The architecture for which the image is compiled: 90 for sm_90 and compute_90.
    pub architecture: u32,
    /// Whether the image is PTX; else it is machine code.
    pub is_ptx: bool,
    /// Bytes of the file.
    pub bytes: u64,
    /// Whether the file is as it was written.
    pub is_whole: bool,
    /// Whether the image was made from the present text of a source.
    pub is_current: bool,
}

impl Image {
    /// Whether this is an image of `source`, from any version of the compiler.
    pub fn is_of(&self, source: &Source) -> bool {
        let kind = if self.is_ptx { Kind::ptx } else { Kind::cubin };
        self.name.starts_with(&source.stem(kind(self.architecture)))
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
    let image = |name: String| {
        let form = if name.ends_with(Form::Ptx.extension()) { Form::Ptx } else { Form::Cubin };
        let begin = format!("-{}", form.target());
        let architecture = name.split(&begin).nth(1)?.split('-').next()?.parse().ok()?;
        let bytes = fs::symlink_metadata(path.join(&name)).ok()?.len();
        let is_of = |source: &Source| name.starts_with(&source.stem(Kind { form, architecture }));
        Some(Image {
            architecture,
            is_ptx: form == Form::Ptx,
            bytes,
            is_whole: read(&folder, name.as_ref()).is_ok(),
            is_current: sources.iter().any(is_of),
            name,
        })
    };
    Ok(names(path).into_iter().filter_map(image).collect())
}

/// The default folder of images; `None` if no environment variable names one.
pub fn folder() -> Option<PathBuf> {
    environment::path("GPUZIP_CACHE_DIR")
        .or_else(|| environment::path("XDG_CACHE_HOME").map(|dir| dir.join("gpuzip")))
        .or_else(|| environment::path("HOME").map(|dir| dir.join(".cache/gpuzip")))
}

/// The names of the images in a folder: machine code, then PTX, each sorted. Code that uses an
/// image opens it through the checked `Folder`.
fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort();
    let of = |form: Form| names.iter().filter(move |name| name.ends_with(form.extension()));
    of(Form::Cubin).chain(of(Form::Ptx)).cloned().collect()
}

/// The undamaged images in a folder whose names fit, sorted by name. A folder that is not trusted
/// has none.
fn all(path: &Path, fits: impl Fn(&str) -> bool) -> Vec<Vec<u8>> {
    let folder = match Folder::trusted(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        folder => opened(folder, path),
    };
    let Some(folder) = folder else { return Vec::new() };
    let names = names(path).into_iter().filter(|name| fits(name));
    names.filter_map(|name| read(&folder, name.as_ref()).ok()).collect()
}

/// Returns why no kept image whose name begins with `stem` is used, and what to do about this: the
/// folder or an image is refused or damaged. `None` if there is no such folder or image.
fn refusal(path: &Path, stem: &str) -> Option<String> {
    let (refused, why) = match Folder::trusted(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return None,
        Err(why) => (path.to_path_buf(), why),
        Ok(folder) => names(path)
            .into_iter()
            .filter(|name| name.starts_with(stem))
            .find_map(|name| Some((path.join(&name), read(&folder, name.as_ref()).err()?)))?,
    };
    Some(format!(
        "compiled kernels are kept but not used: {}: {why}; let GPUZIP_CACHE_DIR name a whole copy of \
         the folder that belongs to you and that nobody else may write to (cp -r, chmod -R go-w)",
        refused.display()
    ))
}

const LOCK: &str = "lock";

/// Locks the cache, against other processes and threads, until the returned file is dropped.
fn lock(folder: &Folder) -> io::Result<File> {
    let file = folder.lock_file(LOCK.as_ref())?;
    files::lock(&file, PATIENCE)?;
    Ok(file)
}

/// The image in a file. A file whose first 8 bytes are not the hash of the rest is damaged.
fn read(folder: &Folder, name: &OsStr) -> io::Result<Vec<u8>> {
    let mut bytes = folder.read(name, files::LARGEST_IMAGE)?;
    let is_whole = bytes.split_first_chunk().is_some_and(|(kept, image)| {
        !image.is_empty() && u64::from_le_bytes(*kept) == hash(image.iter().copied())
    });
    if !is_whole {
        return Err(io::Error::other("is damaged: its hash does not fit its content"));
    }
    bytes.drain(..8);
    Ok(bytes)
}

fn write(folder: &Folder, name: &OsStr, image: &[u8]) -> io::Result<()> {
    folder.replace(name, &[&hash(image.iter().copied()).to_le_bytes(), image], None)
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
            .map(|other| other.stem(Kind::cubin(80)))
            .chain([KERNEL.stem(Kind::cubin(80)), KERNEL.stem(Kind::cubin(90))])
            .collect();
        assert_eq!(stems.len(), 7);
        assert!(
            KERNEL.stem(Kind::cubin(80)) == KERNEL.clone().stem(Kind::cubin(80))
                && KERNEL.stem(Kind::cubin(80)).starts_with("a-f32-sm80-")
        );
        stems.sort();
        stems.dedup();
        assert_eq!(stems.len(), 7);
        // Also the hash alone differs, not only the readable part of the name.
        let hash = |stem: String| stem.split('-').nth(3).map(str::to_owned);
        assert_ne!(hash(KERNEL.stem(Kind::cubin(80))), hash(KERNEL.stem(Kind::cubin(90))));
        assert_ne!(hash(KERNEL.stem(Kind::cubin(80))), hash(others[0].stem(Kind::cubin(80))));
    }

    #[test]
    fn a_file_says_whether_it_is_whole() {
        let path = std::env::temp_dir().join(format!("gpuzip-images-{}", std::process::id()));
        let folder = Folder::trusted_or_new(&path).unwrap();
        let name = format!("{}12.4.cubin", KERNEL.stem(Kind::cubin(80)));
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
        assert!(found[0].is_of(&KERNEL) && !found[0].is_of(&Source { double: true, ..KERNEL }));
        assert!(!images(&[])[0].is_current && !found[0].is_ptx);
        let whole = fs::read(&file).unwrap();
        for cut in 0..whole.len() {
            fs::write(&file, &whole[..cut]).unwrap();
            assert!(read(&folder, name).is_err(), "cut at {cut}");
        }
        for bit in 0..8 * whole.len() {
            let mut bad = whole.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            fs::write(&file, bad).unwrap();
            assert!(read(&folder, name).is_err(), "bit {bit}");
        }
        assert!(!images(&[KERNEL])[0].is_whole && all(&path, |_| true).is_empty());
        fs::remove_dir_all(&path).unwrap();
    }
}
