//! `gpuzip clone`: puts one generation of a folder of restart files into a folder of its own, where it is kept
//! and where other runs begin with it.

use crate::inspect::folder::Found;
use crate::inspect::place;
use crate::units::size;
use crate::Failure;
use clap::Args;
use gpuzip::error::{Code, Error};
use gpuzip::persist::clone_generation;
use std::path::{Path, PathBuf};

/// Put a generation of restart files into a folder of its own, to keep it or to begin another run with it
#[derive(Args)]
pub struct Arguments {
    /// The folder of restart files (persist_dir); the shared one of its runs is read, too
    from: PathBuf,
    /// The new folder; on the same file system the files of whole generations get a second name and take no more room
    to: PathBuf,
    /// The number of the generation; by default the newest that every rank has right
    #[arg(long, value_name = "NUMBER")]
    generation: Option<u64>,
}

/// Clones a generation of all ranks that have files in the folders.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { from, to, generation } = arguments;
    let found = Found::read(from)?;
    let generation = match (generation, &found.restored) {
        (Some(generation), _) => *generation,
        (None, Ok(restored)) => restored.generation,
        (None, Err(reason)) => {
            let text = format!("{}: there is nothing to clone: {reason}", from.display());
            return Err(Error::new(Code::Io, text).into());
        }
    };
    let ranks = found.ranks();
    let folders: Vec<&Path> = found.levels.iter().map(|level| level.path.as_path()).collect();
    // Of all ranks or of none.
    for rank in &ranks {
        let levels = found.levels.iter().flat_map(|level| &level.ranks);
        let mut own = levels.filter(|of| of.rank == *rank).flat_map(|of| &of.generations);
        if !own.any(|of| of.number == generation && of.is_right()) {
            let text = format!(
                "{}: rank {rank} has no right generation {generation} there, so nothing is cloned: gpuzip inspect lists what there is",
                from.display()
            );
            return Err(Error::new(Code::Io, text).into());
        }
    }
    let (mut bytes, mut links, mut of) = (0, 0, String::new());
    for rank in &ranks {
        let cloned = clone_generation(&folders, *rank, generation, to)
            .map_err(|e| e.within(format_args!("rank {rank}")))?;
        bytes += cloned.bytes;
        links += usize::from(cloned.is_link);
        of = place(cloned.shot, cloned.it);
    }
    let count = ranks.len();
    println!(
        "generation {generation}, {of}: files of {count} rank(s), {}, of which {links} share their bytes with {}",
        size(bytes),
        from.display()
    );
    if let Ok(restored) = &found.restored {
        if restored.missing > 0 {
            println!(
                "{} other ranks have no files here: clone theirs on their nodes, with --generation {generation}",
                restored.missing
            );
        }
    }
    Ok(())
}
