//! `gpuzip config`: lists the keys of configuration files and checks a file.

use crate::output::emit_json;
use crate::Failure;
use clap::Args;
use gpuzip::capi::{Key, Loaded, Source, KEYS};
use gpuzip::environment::VARIABLES;
use serde_json::{json, Map, Value};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

/// List the keys of configuration files, or check a file and show the values in force
///
/// A file has `key = value` lines and `#` comments. Variables GPUZIP_<KEY>, in capitals, win over
/// the file. Names are read in any case. Numbers may be written as 1e4; K, M, G, T and KiB to TiB
/// are powers of 1024, kB to TB are powers of 1000. The exit status is 0 if the configuration is
/// valid, or else 2.
#[derive(Args)]
pub struct Arguments {
    /// Check this file, and the variables; show the values in force, and what sets them
    file: Option<PathBuf>,
    /// Check the variables alone
    #[arg(long, conflicts_with = "file")]
    environment: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn dash(text: String) -> String {
    if text.is_empty() {
        "-".into()
    } else {
        text
    }
}

fn source_name(source: Source) -> String {
    match source {
        Source::Default => "default".into(),
        Source::Line(line) => format!("line {line}"),
        Source::Variable => "variable".into(),
    }
}

/// Prints columns as wide as their widest entry; the last column is not padded.
fn columns(rows: &[Vec<String>]) -> io::Result<()> {
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = BufWriter::new(io::stdout().lock());
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    out.flush()
}

fn head(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

/// Returns the meaning of a key, followed by its named values if it has any.
fn meaning(key: &Key) -> String {
    match key.allowed {
        gpuzip::capi::Allowed::Names(_) | gpuzip::capi::Allowed::Codecs(_) => {
            format!("{} [{}]", key.doc, key.choices())
        }
        _ => key.doc.into(),
    }
}

fn list(arguments: &Arguments) -> io::Result<()> {
    if arguments.json {
        let key = |key: &Key| json!({ "key": key.name, "default": key.default_value(), "unit": key.unit, "values": key.choices(), "meaning": key.doc });
        let variable = |(name, doc): &(&str, &str)| json!({ "variable": name, "meaning": doc });
        let keys: Vec<Value> = KEYS.iter().map(key).collect();
        let variables: Vec<Value> = VARIABLES.iter().map(variable).collect();
        return emit_json(object([("keys", keys.into()), ("variables", variables.into())]));
    }
    let row = |key: &Key| {
        vec![key.name.into(), dash(key.default_value()), dash(key.unit.into()), meaning(key)]
    };
    let mut rows = vec![head(&["key", "default", "unit", "meaning"])];
    rows.extend(KEYS.iter().map(row));
    columns(&rows)?;
    writeln!(io::stdout())?;
    let mut rows = vec![head(&["variable that is no key", "meaning"])];
    rows.extend(VARIABLES.iter().map(|(name, doc)| head(&[name, doc])));
    columns(&rows)
}

fn check(arguments: &Arguments) -> Result<(), Failure> {
    let loaded = Loaded::new(arguments.file.as_deref())?;
    loaded.check()?;
    if arguments.json {
        let value = |(key, value, source): (&Key, String, Source)| {
            (key.name.to_string(), json!({ "value": value, "set_by": source_name(source) }))
        };
        let values: Map<String, Value> = loaded.values().map(value).collect();
        emit_json(values)?;
        return Ok(());
    }
    let mut rows = vec![head(&["key", "value", "unit", "set by"])];
    rows.extend(loaded.values().map(|(key, value, source)| {
        vec![key.name.into(), dash(value), dash(key.unit.into()), source_name(source)]
    }));
    columns(&rows)?;
    Ok(())
}

fn object<const N: usize>(values: [(&str, Value); N]) -> Map<String, Value> {
    values.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match arguments.file.is_some() || arguments.environment {
        true => check(arguments),
        false => Ok(list(arguments)?),
    }
}
