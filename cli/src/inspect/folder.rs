//! What `gpuzip inspect` finds in a folder, and in the shared folder of its runs if they have one.

use super::listing::Listing;
use gpuzip::error::{Code, Error, Result};
use gpuzip::persist::{shared_folder, Header, Origin, Place, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Most ranks without files that are listed.
const MOST_LISTED: usize = 1000;

/// The folders of restart files: one, or that of a node and the shared one.
pub struct Found {
    /// The folders; a restart takes a file from the first one that has it right.
    pub levels: Vec<Folder>,
    /// The generation that a restart goes on from, or why there is none.
    pub restored: std::result::Result<Restored, String>,
}

/// A folder of restart files.
pub struct Folder {
    pub path: PathBuf,
    pub ranks: Vec<Rank>,
}

/// Where a generation is: by folder, the number of ranks of which it is there and right.
pub struct Row<'a> {
    pub number: u64,
    /// Of a file that is right, if one is.
    pub header: Option<&'a Header>,
    pub right: Vec<usize>,
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
    /// Where the bytes of each record are.
    pub places: Vec<Place>,
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

impl Found {
    /// Reads and verifies all generations.
    pub fn read(path: &Path) -> Result<Self> {
        if path.is_file() {
            let text = format!(
                "{}: a file: name its folder, or with --extract OUT what is to be written of it",
                path.display()
            );
            return Err(Error::new(Code::Argument, text));
        }
        let near = Folder::read(path)?;
        let shared = shared_folder(path)?;
        if near.ranks.is_empty() {
            let text = format!("{}: the folder has no restart files", path.display());
            return Err(Error::new(Code::Io, text));
        }
        let mut levels = vec![near];
        if let Some(shared) = shared {
            levels.push(Folder::read(&shared)?);
        }
        let restored = restored(&levels);
        Ok(Found { levels, restored })
    }

    /// Returns the ranks that have files in some folder.
    pub fn ranks(&self) -> BTreeSet<u32> {
        self.levels.iter().flat_map(|level| &level.ranks).map(|rank| rank.rank).collect()
    }

    /// Returns where each generation is, newest first.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let mut rows = BTreeMap::new();
        for (k, level) in self.levels.iter().enumerate() {
            for generation in level.ranks.iter().flat_map(|rank| &rank.generations) {
                let number = generation.number;
                let none = || Row { number, header: None, right: vec![0; self.levels.len()] };
                let row = rows.entry(number).or_insert_with(none);
                if let (true, Ok(content)) = (generation.is_right(), &generation.content) {
                    row.right[k] += 1;
                    row.header = Some(&content.header);
                }
            }
        }
        rows.into_values().rev().collect()
    }
}

impl Folder {
    fn read(path: &Path) -> Result<Self> {
        let listing = Listing::of(path)?;
        let ranks: Result<_> =
            listing.ranks().into_iter().map(|rank| Rank::read(&listing, rank)).collect();
        Ok(Folder { path: path.to_path_buf(), ranks: ranks? })
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
            places: reader.places.clone(),
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

/// Finds the newest generation that every rank has right in some folder.
fn restored(levels: &[Folder]) -> std::result::Result<Restored, String> {
    // By rank, its generations in all folders.
    let mut with_files: BTreeMap<u32, Vec<&Generation>> = BTreeMap::new();
    for rank in levels.iter().flat_map(|level| &level.ranks) {
        if !rank.generations.is_empty() {
            with_files.entry(rank.rank).or_default().extend(&rank.generations);
        }
    }
    // Parts of different runs or places are no generation, whatever their number.
    let place =
        |content: &Content| (content.origin.start.number, content.header.shot, content.header.it);
    let right = |all: &[&Generation]| -> BTreeSet<_> {
        let mut first = BTreeMap::new();
        for found in all.iter().filter(|found| found.is_right()) {
            if let Ok(content) = &found.content {
                first.entry(found.number).or_insert_with(|| place(content));
            }
        }
        first.into_iter().collect()
    };
    let common = with_files.values().map(|all| right(all)).reduce(|a, b| &a & &b);
    let Some(common) = common else { return Err("no generation was published".into()) };
    let newest = common.last().and_then(|(number, of)| {
        let all = with_files.values().flatten().filter(|found| found.number == *number);
        let mut contents = all.filter_map(|found| found.content.as_ref().ok());
        Some((*number, contents.find(|content| place(content) == *of)?))
    });
    let Some((number, content)) = newest else {
        let undone = with_files.iter().find(|(_, all)| right(all).is_empty());
        return Err(match undone {
            Some((rank, _)) => format!("no generation of rank {rank} can be read"),
            None => "no generation can be read on all ranks".into(),
        });
    };
    let (header, ranks) = (&content.header, content.origin.ranks);
    let present: BTreeSet<u32> = with_files.into_keys().filter(|rank| *rank < ranks).collect();
    let missing = (0..ranks).filter(|rank| !present.contains(rank));
    Ok(Restored {
        generation: number,
        shot: header.shot,
        it: header.it,
        missing: ranks - present.len() as u32,
        lowest_missing: missing.take(MOST_LISTED).collect(),
    })
}
