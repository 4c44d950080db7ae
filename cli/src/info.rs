//! `gpuzip info`: shows the version and what this build can use on this machine.

use crate::output::{emit_json, table};
use crate::Failure;
use clap::Args;
use gpuzip::codec::CODECS;
use gpuzip::device::cuda::{self, DeviceInfo};
use gpuzip::error::Error;
use gpuzip::schedule::Algorithm;
use serde_json::{json, Map, Value};

/// Show the version, and the backends, devices, algorithms and codecs of this build
#[derive(Args)]
pub struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A backend or codec of the build, and the reason if it cannot be used on this machine.
struct Offer {
    name: &'static str,
    missing: Option<String>,
}

fn backends(cuda: &Result<Vec<DeviceInfo>, Error>) -> [Offer; 2] {
    [
        Offer { name: "host", missing: None },
        Offer { name: "cuda", missing: cuda.as_ref().err().map(|e| e.message.clone()) },
    ]
}

fn codecs() -> impl Iterator<Item = Offer> {
    CODECS.iter().map(|codec| Offer { name: codec.name, missing: codec.method.missing() })
}

impl Offer {
    fn json(&self) -> Value {
        json!({ "name": self.name, "available": self.missing.is_none(), "reason": self.missing })
    }

    fn row(&self, what: &str) -> (String, String) {
        let state = self
            .missing
            .as_ref()
            .map_or("available".into(), |reason| format!("not available: {reason}"));
        (format!("{what} {}", self.name), state)
    }
}

/// Returns the number of cores that this process may use.
fn cores() -> Option<usize> {
    std::thread::available_parallelism().ok().map(usize::from)
}

/// Returns the bytes of main memory, on systems that report it as Linux does.
fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn values() -> Map<String, Value> {
    let cuda = cuda::devices();
    let mut devices =
        vec![json!({ "backend": "host", "cores": cores(), "memory_bytes": memory_bytes() })];
    devices.extend(
        cuda.iter()
            .flatten()
            .map(|d| json!({ "backend": "cuda", "name": d.name, "memory_bytes": d.memory_bytes })),
    );
    let values: [(&str, Value); 6] = [
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("abi_version", gpuzip::ABI_VERSION.into()),
        ("backends", backends(&cuda).iter().map(Offer::json).collect()),
        ("devices", devices.into()),
        ("algorithms", Algorithm::ALL.iter().map(|a| a.name()).collect()),
        ("codecs", codecs().map(|offer| offer.json()).collect()),
    ];
    values.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

fn rows() -> Vec<(String, String)> {
    let cuda = cuda::devices();
    let known = |value: Option<String>| value.unwrap_or("unknown".into());
    let (cores, memory) = (known(cores().map(|n| n.to_string())), known(memory_bytes().map(gib)));
    let mut rows = vec![
        ("version".into(), env!("CARGO_PKG_VERSION").into()),
        ("ABI version".into(), gpuzip::ABI_VERSION.to_string()),
        ("device host".into(), format!("{cores} cores, {memory} memory")),
    ];
    rows.extend((0..).zip(cuda.iter().flatten()).map(|(k, d)| {
        (format!("device cuda {k}"), format!("{}, {}", d.name, gib(d.memory_bytes)))
    }));
    rows.push(("algorithms".into(), Algorithm::ALL.map(Algorithm::name).join(", ")));
    rows.extend(backends(&cuda).iter().map(|offer| offer.row("backend")));
    rows.extend(codecs().map(|offer| offer.row("codec")));
    rows
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.json {
        emit_json(values())?;
    } else {
        table(rows(), std::io::stdout())?;
    }
    Ok(())
}
