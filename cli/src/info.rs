//! `gpuzip info`: the version, and what this build offers on this machine.

use crate::output::{emit_json, table};
use crate::Failure;
use clap::Args;
use gpuzip::schedule::Algorithm;
use serde_json::{json, Map, Value};

/// Show the version, and the backends, devices, algorithms and codecs of this build
#[derive(Args)]
pub struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Something that a build may offer, and why it does not.
struct Offer {
    name: &'static str,
    missing: Option<&'static str>,
}

const RAW_ONLY: Option<&str> = Some("this version stores raw snapshots only");

const BACKENDS: [Offer; 2] =
    [Offer { name: "host", missing: None }, Offer { name: "cuda", missing: Some("this version has no CUDA backend") }];

const CODECS: [Offer; 8] = [
    Offer { name: "none", missing: None },
    Offer { name: "zfp", missing: RAW_ONLY },
    Offer { name: "bitcomp", missing: RAW_ONLY },
    Offer { name: "cuszp", missing: RAW_ONLY },
    Offer { name: "lorenzo", missing: RAW_ONLY },
    Offer { name: "dct", missing: RAW_ONLY },
    Offer { name: "fp16", missing: RAW_ONLY },
    Offer { name: "bfp", missing: RAW_ONLY },
];

impl Offer {
    fn json(&self) -> Value {
        json!({ "name": self.name, "available": self.missing.is_none(), "reason": self.missing })
    }

    fn row(&self, what: &str) -> (String, String) {
        let state = self.missing.map_or("available".into(), |reason| format!("not available: {reason}"));
        (format!("{what} {}", self.name), state)
    }
}

/// Cores that this process may use.
fn cores() -> Option<usize> {
    std::thread::available_parallelism().ok().map(usize::from)
}

/// Bytes of main memory, where the system says so in Linux's way.
fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn values() -> Map<String, Value> {
    let offers = |offers: &[Offer]| -> Value { offers.iter().map(Offer::json).collect() };
    let values: [(&str, Value); 6] = [
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("abi_version", gpuzip::ABI_VERSION.into()),
        ("backends", offers(&BACKENDS)),
        ("devices", json!([{ "backend": "host", "cores": cores(), "memory_bytes": memory_bytes() }])),
        ("algorithms", Algorithm::ALL.iter().map(|a| a.name()).collect()),
        ("codecs", offers(&CODECS)),
    ];
    values.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

fn rows() -> Vec<(String, String)> {
    let known = |value: Option<String>| value.unwrap_or("unknown".into());
    let memory = known(memory_bytes().map(|bytes| format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)));
    let cores = known(cores().map(|n| n.to_string()));
    let mut rows = vec![
        ("version".into(), env!("CARGO_PKG_VERSION").into()),
        ("ABI version".into(), gpuzip::ABI_VERSION.to_string()),
        ("device host".into(), format!("{cores} cores, {memory} memory")),
        ("algorithms".into(), Algorithm::ALL.map(Algorithm::name).join(", ")),
    ];
    rows.extend(BACKENDS.iter().map(|offer| offer.row("backend")));
    rows.extend(CODECS.iter().map(|offer| offer.row("codec")));
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
