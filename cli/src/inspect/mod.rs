//! `gpuzip inspect`: what is in a folder of restart files and in the shared one of its runs, whether it can
//! be read, and what a restart would go on from. Changes nothing, and works while a run writes to the folder.

pub mod folder;
mod listing;
mod show;
mod tree;

use crate::output::emit_json;
use crate::Failure;
use clap::Args;
use folder::Found;
use gpuzip::error::{Code, Error};
pub use show::place;
use std::path::PathBuf;
use tree::Tree;

/// List and verify the generations in a folder of restart files, and say what would be restored
#[derive(Args)]
pub struct Arguments {
    /// The folder (persist_dir); the shared one of its runs (persist_shared_dir) is listed beside
    dir: PathBuf,
    /// With --tree, more folders, such as those of runs that began with a clone
    #[arg(requires = "tree")]
    more: Vec<PathBuf>,
    /// Show which run went on from which generation of which run
    #[arg(long, conflicts_with = "records")]
    tree: bool,
    /// List every record of each generation, not only those that are damaged
    #[arg(long)]
    records: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand. That nothing can be restored is an error, so that a script can ask.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let found = Found::read(&arguments.dir)?;
    if arguments.tree {
        let mut all = vec![found];
        for dir in &arguments.more {
            all.push(Found::read(dir)?);
        }
        let tree = Tree::of(&all);
        return Ok(if arguments.json { emit_json(tree.json())? } else { tree.text()? });
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
