//! A generation in a folder of its own: kept when the run removes it, and the start of other runs.

use super::journal::Line;
use super::level::Level;
use super::names::FileName;
use super::store::Store;
use crate::error::{fail, Code, Error, Result};
use std::path::Path;

/// What was put into a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cloned {
    /// The shot of the generation.
    pub shot: i64,
    /// The action of the generation.
    pub it: i64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Whether the file is the one of the other folder, under a second name (a hard link).
    pub is_link: bool,
}

impl Store {
    /// Puts this rank's part of the newest generation that all ranks have into the folder `to`, in which this
    /// rank has none, and makes the folder, for this user alone, if it is missing. No publication is under way.
    pub fn clone_to(&self, to: &Path) -> Result<Cloned> {
        if self.confirmed == 0 {
            return fail!(State, "there is no generation to clone: write one first");
        }
        let shared = self.shared.as_ref().map(|shared| &shared.level);
        clone_level(&[Some(&self.near), shared], self.confirmed, to, self.strict)
    }
}

/// Puts a generation of a rank into the folder `to`, as [`Store::clone_to`] does, from the first of the folders
/// `from` that has it right.
pub fn clone_generation(from: &[&Path], rank: u32, generation: u64, to: &Path) -> Result<Cloned> {
    let open = |dir: &&Path| Level::open(dir, rank, false).map(Some);
    let levels: Vec<Option<Level>> = from.iter().map(open).collect::<Result<_>>()?;
    let levels: Vec<Option<&Level>> = levels.iter().map(Option::as_ref).collect();
    clone_level(&levels, generation, to, false)
}

fn clone_level(
    from: &[Option<&Level>],
    generation: u64,
    to: &Path,
    strict: bool,
) -> Result<Cloned> {
    let mut reason = None;
    for from in from.iter().flatten() {
        let reader = match from.read_right(generation, false) {
            Ok(reader) => reader,
            Err(e) if e.code == Code::Memory => return Err(e),
            Err(e) => {
                let e = e.within(from.place(FileName::Generation(generation)));
                reason = Some(reason.unwrap_or(e));
                continue;
            }
        };
        let to = Level::open(to, from.rank, strict)?;
        if to.is_same_folder(from)? {
            return fail!(
                Argument,
                "{} is the folder of the run: name a new one",
                to.path.display()
            );
        }
        let _lock = to.lock()?;
        to.sweep()?;
        if let Some(other) = to.generations()?.last() {
            return fail!(
                Io,
                "{} has generation {other} of rank {}: give each clone a folder of its own",
                to.path.display(),
                to.rank
            );
        }
        let place = |e: Error| e.within(to.place(FileName::Generation(generation)));
        // A file system without hard links, or a second one, gets the bytes, and so does a clone of a generation
        // of which older files hold a part.
        let linked = if reader.is_whole() { from.link(generation, &to).ok() } else { None };
        let is_link = linked.is_some();
        let (file, temporary, bytes) = match linked {
            Some((file, temporary)) => (file, temporary, reader.length),
            None => {
                let copied = reader.copy_to(&to, None, false, &mut |_| Ok(()));
                let (file, temporary, footer) = copied.map_err(place)?;
                (file, temporary, footer.length)
            }
        };
        let (shot, it) = (reader.header.shot, reader.header.it);
        to.publish(file, temporary, Line { generation, shot, it, bytes }).map_err(place)?;
        return Ok(Cloned { shot, it, bytes, is_link });
    }
    Err(reason.unwrap_or_else(|| Error::new(Code::State, "no folder to clone from")))
}

#[cfg(test)]
#[path = "clone_tests.rs"]
mod tests;
