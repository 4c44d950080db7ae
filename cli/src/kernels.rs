//! `gpuzip kernels`: lists the compiled kernels by GPU architecture, and compiles them in advance.

use crate::output::{emit_json, table};
use crate::Failure;
use clap::Args;
use gpuzip::codec::gpu::sources;
use gpuzip::device::cuda::{self, image_in, images_in, keep_ptx, Image, Source};
use gpuzip::error::{Code, Error, Result};
use serde_json::{json, Map, Value};
use std::path::{Path, PathBuf};

/// List the compiled kernels that are kept, and compile them in advance
#[derive(Args)]
pub struct Arguments {
    /// Compile what is not there yet
    #[arg(long)]
    prebuild: bool,
    /// For these architectures, sm_90 or 90; those of this machine's GPUs if none are given
    #[arg(long, value_name = "ARCH", value_delimiter = ',', requires = "prebuild", value_parser = architecture, allow_hyphen_values = true)]
    arch: Vec<u32>,
    /// And PTX of the highest of these architectures, from which a driver compiles for later GPUs
    #[arg(long, requires = "prebuild")]
    ptx: bool,
    /// The folder; if not given GPUZIP_CACHE_DIR, or gpuzip in XDG_CACHE_HOME or ~/.cache
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Parses the name of an architecture, `sm_90` or `90`.
fn architecture(text: &str) -> std::result::Result<u32, String> {
    let digits = text.trim().strip_prefix("sm_").unwrap_or(text.trim());
    let number = digits.parse().ok().filter(|number| (10..1000).contains(number));
    number.ok_or_else(|| "give sm_ and the digits of the compute capability, as sm_90".into())
}

/// Returns the folder of kernels. Fails if --dir names a folder that is not there and is not to be
/// filled.
fn folder(arguments: &Arguments) -> Result<PathBuf> {
    if let Some(dir) = arguments.dir.as_deref().filter(|dir| !arguments.prebuild && !dir.is_dir()) {
        let text = format!("--dir {}: no such folder; --prebuild makes it", dir.display());
        return Err(Error::new(Code::Io, text));
    }
    let named = arguments.dir.clone().or_else(cuda::image_folder);
    named.ok_or_else(|| {
        Error::new(
            Code::Config,
            "no folder to keep kernels in: give --dir, or set GPUZIP_CACHE_DIR",
        )
    })
}

/// Returns the architectures that were asked for, or those of this machine's GPUs, each once.
fn architectures(asked: &[u32]) -> Result<Vec<u32>> {
    let mut architectures = asked.to_vec();
    if asked.is_empty() {
        let devices =
            cuda::devices().map_err(|e| e.within("give --arch to compile for other machines"))?;
        architectures.extend(devices.iter().map(|device| device.architecture));
    }
    architectures.sort_unstable();
    architectures.dedup();
    Ok(architectures)
}

/// Compiles all kernels, and fails if they cannot be kept in the folder; a session would go on.
fn prebuild(folder: &Path, architectures: &[u32], ptx: bool) -> Result<()> {
    // Lists the folder first, so that an untrustworthy folder is an error before anything is
    // compiled.
    images_in(folder, &[])?;
    // Sources, architectures, and whether as PTX.
    let mut wanted: Vec<(Source, u32, bool)> = Vec::new();
    for &architecture in architectures {
        for source in sources() {
            image_in(Some(folder), &source, architecture)?;
            wanted.push((source, architecture, false));
        }
    }
    if let Some(&architecture) = architectures.iter().max().filter(|_| ptx) {
        for source in sources() {
            keep_ptx(folder, &source, architecture)?;
            wanted.push((source, architecture, true));
        }
    }
    let kept = images_in(folder, &sources())?;
    let is_kept = |(source, architecture, ptx): &&(Source, u32, bool)| {
        let is_it = |image: &Image| {
            image.is_whole
                && (image.architecture, image.is_ptx) == (*architecture, *ptx)
                && image.is_of(source)
        };
        kept.iter().any(is_it)
    };
    if let Some((source, architecture, ptx)) = wanted.iter().find(|wanted| !is_kept(wanted)) {
        return Err(Error::new(
            Code::Io,
            format!(
                "{}: {} for {}_{architecture} cannot be kept there",
                folder.display(),
                source.name,
                if *ptx { "compute" } else { "sm" }
            ),
        ));
    }
    Ok(())
}

fn state(image: &Image) -> &'static str {
    match (image.is_whole, image.is_current) {
        (false, _) => "damaged",
        (true, true) => "current",
        (true, false) => "of another version",
    }
}

fn object(folder: &Path, images: &[Image]) -> Map<String, Value> {
    let of = |image: &Image| json!({ "file": image.name, "architecture": image.architecture, "ptx": image.is_ptx, "bytes": image.bytes, "state": state(image) });
    let values: [(&str, Value); 2] = [
        ("folder", folder.display().to_string().into()),
        ("images", images.iter().map(of).collect::<Vec<_>>().into()),
    ];
    values.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> std::result::Result<(), Failure> {
    let folder = folder(arguments)?;
    if arguments.prebuild {
        prebuild(&folder, &architectures(&arguments.arch)?, arguments.ptx)?;
    }
    let images = images_in(&folder, &sources())?;
    if arguments.json {
        emit_json(object(&folder, &images))?;
        return Ok(());
    }
    let mut rows = vec![("folder".to_string(), folder.display().to_string())];
    rows.extend(
        images
            .iter()
            .map(|image| (image.name.clone(), format!("{} bytes, {}", image.bytes, state(image)))),
    );
    table(rows, std::io::stdout())?;
    Ok(())
}
