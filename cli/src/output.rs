//! What a subcommand says: named values for a script or a person, and the listing behind them.

use clap::Args;
use serde_json::{Map, Value};
use std::io::{self, BufWriter, Write};

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

/// Writes what `--print` asks for, line by line.
pub type Listing<'a> = &'a dyn Fn(&mut dyn Write) -> io::Result<()>;

/// Shows `values`, and the listing if it is asked for; it is the JSON object's last value, `key`.
pub fn emit(mut values: Map<String, Value>, key: &str, listing: Listing, options: &OutputOptions) -> io::Result<()> {
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

/// One object on one line of standard output.
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

/// Names and values in two columns.
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
        Value::Number(number) if number.is_f64() => format!("{:.2}", number.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    };
    values.iter().map(|(name, value)| (name.replace('_', " "), text(value))).collect()
}
