//! `gpuzip inspect`: what is in a folder of restart files and in the shared one of its runs, whether it can
//! be read, and what a restart would go on from; the arrays and snapshots of a generation as files of NumPy.
//! Changes nothing in these folders, and works while a run writes to them.

mod decode;
mod extract;
pub mod folder;
mod listing;
mod out;
mod show;
mod tree;

use crate::output::emit_json;
use crate::Failure;
use clap::Args;
use extract::{ExtractOptions, Extracted};
use folder::Found;
use gpuzip::error::{Code, Error};
use serde_json::{Map, Value};
pub use show::place;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use tree::Tree;

/// List and verify the generations in a folder of restart files, and say what would be restored
#[derive(Args)]
pub struct Arguments {
    /// The folder (persist_dir), with that of its runs' copies (persist_shared_dir); with --extract also a file
    dir: PathBuf,
    /// With --tree, more folders, such as those of runs that began with a clone
    #[arg(requires = "tree")]
    more: Vec<PathBuf>,
    /// Show which start of the program went on from which generation
    #[arg(long, conflicts_with_all = ["records", "extract"])]
    tree: bool,
    /// List every record of each generation, not only those that are damaged
    #[arg(long)]
    records: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    extract: ExtractOptions,
}

/// Runs the subcommand. That nothing can be restored is an error, so that a script can ask.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(out) = &arguments.extract.extract {
        let extracted = extract::run(&arguments.dir, out, &arguments.extract)?;
        return Ok(show_extracted(&extracted, arguments.json)?);
    }
    let found = Found::read(&arguments.dir)?;
    if arguments.tree {
        let mut all = vec![found];
        for dir in &arguments.more {
            all.push(Found::read(dir)?);
        }
        let tree = Tree::of(&all);
        if arguments.json {
            emit_json(tree.json())?;
        } else {
            tree.text()?;
        }
        return Ok(());
    }
    if arguments.json {
        emit_json(show::json(&found))?;
    } else {
        show::text(&found, arguments.records)?;
    }
    match &found.restored {
        Ok(_) => Ok(()),
        Err(reason) => {
            let text = format!("{}: nothing can be restored: {reason}", arguments.dir.display());
            Err(Error::new(Code::Io, text).into())
        }
    }
}

fn show_extracted(all: &[Extracted], json: bool) -> io::Result<()> {
    if json {
        let ranks: Value = all.iter().map(Extracted::json).collect::<Vec<_>>().into();
        return emit_json(Map::from_iter([("extracted".into(), ranks)]));
    }
    let mut out = BufWriter::new(io::stdout().lock());
    all.iter().flat_map(Extracted::lines).try_for_each(|line| writeln!(out, "{line}"))?;
    out.flush()
}
