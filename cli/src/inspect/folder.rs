//! What `gpuzip inspect` finds in a folder.

use super::listing::Listing;
use gpuzip::error::{Code, Error, Result};
use gpuzip::persist::{Header, Origin, Record};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Most ranks without files that are listed.
const MOST_LISTED: usize = 1000;

/// A folder of restart files.
pub struct Folder {
    pub path: PathBuf,
    pub ranks: Vec<Rank>,
    /// The generation that a restart goes on from, or why there is none.
    pub restored: std::result::Result<Restored, String>,
}

/// The restart files of a rank in the folder.
pub struct Rank {
    pub rank: u32,
    /// Whether a process holds the rank's lock.
    pub is_in_use: bool,
    /// Files that are being written, or whose writer died.
    pub unfinished: usize,
    /// Numbers of the generations that the journal says were published; `None` if it cannot be read.
    pub journal: Option<Vec<u64>>,
    /// The generations, newest first.
    pub generations: Vec<Generation>,
}

/// A generation of a rank: one file of the folder.
pub struct Generation {
    pub number: u64,
    /// What can be read; or why the file cannot be used at all.
    pub content: std::result::Result<Content, String>,
}

/// What is in the file of a generation whose header, index and footer are right.
/// The file is closed again: a folder may have more files than a process may have open.
pub struct Content {
    pub header: Header,
    pub origin: Origin,
    /// Bytes of the file.
    pub length: u64,
    /// The records, each with why its bytes cannot be used; `None`: they are right.
    pub records: Vec<(Record, Option<String>)>,
}

/// What a restart goes on from.
pub struct Restored {
    pub generation: u64,
    pub shot: i64,
    pub it: i64,
    /// Number of the run's ranks that have no files in the folder.
    pub missing: u32,
    /// The lowest `MOST_LISTED` of these ranks: the number of ranks stands in a file, and a file that
    /// is a few KB long can state millions.
    pub lowest_missing: Vec<u32>,
}

impl Folder {
    /// Reads and verifies all generations.
    pub fn read(path: &Path) -> Result<Self> {
        let listing = Listing::of(path)?;
        let mut ranks = Vec::new();
        for rank in listing.ranks() {
            ranks.push(Rank::read(&listing, rank)?);
        }
        if ranks.is_empty() {
            let text = format!("{}: the folder has no restart files", path.display());
            return Err(Error::new(Code::Io, text));
        }
        let restored = restored(&ranks);
        Ok(Folder { path: path.to_path_buf(), ranks, restored })
    }
}

impl Rank {
    fn read(listing: &Listing, rank: u32) -> Result<Self> {
        let mut generations = Vec::new();
        for number in listing.generations(rank).into_iter().rev() {
            // A run that is going on may have removed the file since the folder was listed.
            if let Some(content) = Content::read(listing, rank, number)? {
                generations.push(Generation { number, content });
            }
        }
        let journal = listing.journal(rank);
        Ok(Rank {
            rank,
            is_in_use: listing.is_in_use(rank),
            unfinished: listing.unfinished(rank),
            journal: journal.ok().map(|lines| lines.iter().map(|l| l.generation).collect()),
            generations,
        })
    }

    /// Returns the numbers of the generations that can be read completely.
    fn right(&self) -> impl Iterator<Item = u64> + '_ {
        self.generations.iter().filter(|found| found.is_right()).map(|found| found.number)
    }
}

impl Generation {
    /// Returns whether all of the generation can be read.
    pub fn is_right(&self) -> bool {
        self.content.as_ref().is_ok_and(|content| content.damage().next().is_none())
    }
}

impl Content {
    /// Reads a generation completely; `None` if there is no such file.
    fn read(
        listing: &Listing,
        rank: u32,
        number: u64,
    ) -> Result<Option<std::result::Result<Content, String>>> {
        let reader = match listing.open(rank, number) {
            Ok(reader) => reader,
            Err(e) if e.code == Code::Memory => return Err(e),
            Err(_) if !listing.has(rank, number) => return Ok(None),
            Err(e) => return Ok(Some(Err(e.to_string()))),
        };
        let verdict = |k| reader.read(k, &mut |_| Ok(())).err().map(|e| e.to_string());
        let records = reader.records.iter().enumerate().map(|(k, record)| (*record, verdict(k)));
        Ok(Some(Ok(Content {
            records: records.collect(),
            header: reader.header.clone(),
            origin: reader.origin,
            length: reader.length,
        })))
    }

    /// Returns why bytes of records cannot be used, for each damaged record.
    pub fn damage(&self) -> impl Iterator<Item = &String> {
        self.records.iter().filter_map(|(_, damage)| damage.as_ref())
    }
}

/// Finds the newest generation that is right on all ranks of the folder.
fn restored(ranks: &[Rank]) -> std::result::Result<Restored, String> {
    let with_files: Vec<&Rank> = ranks.iter().filter(|rank| !rank.generations.is_empty()).collect();
    let Some((first, others)) = with_files.split_first() else {
        return Err("no generation was published".into());
    };
    let common = |number: &u64| others.iter().all(|rank| rank.right().any(|n| n == *number));
    let newest = first.right().find(common);
    let content = newest.and_then(|number| {
        let found = first.generations.iter().find(|generation| generation.number == number)?;
        found.content.as_ref().ok()
    });
    let (Some(number), Some(content)) = (newest, content) else {
        let undone = with_files.iter().find(|rank| rank.right().next().is_none());
        return Err(match undone {
            Some(rank) => format!("no generation of rank {} can be read", rank.rank),
            None => "no generation can be read on all ranks".into(),
        });
    };
    let (header, ranks) = (&content.header, content.origin.ranks);
    let present: BTreeSet<u32> =
        with_files.iter().map(|found| found.rank).filter(|rank| *rank < ranks).collect();
    let missing = (0..ranks).filter(|rank| !present.contains(rank));
    Ok(Restored {
        generation: number,
        shot: header.shot,
        it: header.it,
        missing: ranks - present.len() as u32,
        lowest_missing: missing.take(MOST_LISTED).collect(),
    })
}
