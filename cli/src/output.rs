//! The output of a subcommand: named values, as JSON or as text, and a listing.

use crate::options::refuse;
use crate::units::{seconds, size};
use clap::Args;
use gpuzip::error::{Code, Error, Result};
use serde_json::{Map, Value};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// How the result is shown.
#[derive(Args)]
pub struct OutputOptions {
    /// Print all of it on standard output, and the summary on standard error
    #[arg(long)]
    pub print: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Writes the listing that `--print` asks for, line by line.
pub type Listing<'a> = &'a dyn Fn(&mut dyn Write) -> io::Result<()>;

/// Prints `values`, and the listing if `--print` asks for it; in the JSON object the listing is the
/// last member, named `key`.
pub fn emit(
    mut values: Map<String, Value>,
    key: &str,
    listing: Listing,
    options: &OutputOptions,
) -> io::Result<()> {
    match options {
        OutputOptions { print: true, json: true } => {
            values.insert(key.into(), lines(listing)?);
            emit_json(values)
        }
        OutputOptions { print: true, json: false } => {
            let mut out = BufWriter::new(io::stdout().lock());
            listing(&mut out)?;
            out.flush()?;
            table(rows(&values), io::stderr())
        }
        OutputOptions { print: false, json: true } => emit_json(values),
        OutputOptions { print: false, json: false } => table(rows(&values), io::stdout()),
    }
}

/// Prints one JSON object on one line of standard output.
pub fn emit_json(values: Map<String, Value>) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    writeln!(out, "{}", Value::Object(values))?;
    out.flush()
}

fn lines(listing: Listing) -> io::Result<Value> {
    let mut text = Vec::new();
    listing(&mut text)?;
    Ok(String::from_utf8_lossy(&text).lines().map(Value::from).collect())
}

/// Prints names and values in two columns.
pub fn table(rows: Vec<(String, String)>, out: impl Write) -> io::Result<()> {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut out = BufWriter::new(out);
    for (name, value) in rows {
        writeln!(out, "{name:width$}  {value}")?;
    }
    out.flush()
}

fn rows(values: &Map<String, Value>) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            format!("{:.2}", number.as_f64().unwrap_or(f64::NAN))
        }
        other => other.to_string(),
    };
    let row =
        |name: &str, value: &Value| match (name.strip_suffix("_s"), value.as_f64(), value.as_u64())
        {
            (Some(name), Some(value), _) => (name.replace('_', " "), seconds(value)),
            (None, _, Some(bytes)) if name.ends_with("_bytes") || name.ends_with("_peak") => {
                (name.replace('_', " "), size(bytes))
            }
            _ => (name.replace('_', " "), text(value)),
        };
    values.iter().map(|(name, value)| row(name, value)).collect()
}

/// Whether the name of a file says that the file is an SVG drawing.
pub fn is_svg(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("svg"))
}

/// Makes the folder for drawings if its parent folder exists. A new folder has no ending: `x.png` is
/// the name of a file in another format.
pub fn folder_of_drawings(path: &Path) -> Result<()> {
    if is_svg(path) {
        return refuse(format!(
            "--svg {}: there are several drawings, each with a name of its own: give a folder",
            path.display()
        ));
    }
    if path.extension().is_some() && !path.is_dir() {
        return refuse(format!(
            "--svg {}: drawings are SVG: give the name of a folder without an ending, or make the folder before",
            path.display()
        ));
    }
    match std::fs::create_dir(path) {
        Err(_) if path.is_dir() => Ok(()),
        Err(e) => Err(Error::new(
            Code::Io,
            format!("--svg {}: the folder cannot be made: {e}", path.display()),
        )),
        Ok(()) => Ok(()),
    }
}

/// Writes a drawing; an error names the file that could not be written.
pub fn write_drawing(path: &Path, drawing: &str) -> Result<()> {
    if !is_svg(path) {
        return refuse(format!(
            "--svg {}: the drawing is SVG: give a name that ends in .svg",
            path.display()
        ));
    }
    gpuzip::files::replace(path, drawing.as_bytes()).map_err(|e| {
        Error::new(Code::Io, format!("--svg {}: the file cannot be written: {e}", path.display()))
    })
}
