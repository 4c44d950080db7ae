//! Names of the files in a folder of generations. Rank 3's generation 17 is
//! `gpuzip-r000003-g000000000017.gen`; while it is written, its name ends in `.tmp`. The rank's
//! other files are `gpuzip-r000003.lock`, `gpuzip-r000003.journal` and `gpuzip-r000003.order`.

use crate::error::{Error, Result};
use crate::fallible_vec;
use crate::files::Folder;
use std::ffi::OsStr;
use std::path::Path;

/// The largest number of a generation. A file whose name has a larger one is not gpuzip's.
pub const LAST_GENERATION: u64 = 999_999_999_999_999;

/// A file of a rank, by what its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileName {
    /// The published generation of this number.
    Generation(u64),
    /// The generation of this number that is being written, or whose writer died.
    Temporary(u64),
    /// The file whose lock the rank holds.
    Lock,
    /// The journal.
    Journal,
    /// Which generation is to be copied to the shared folder, and where that is.
    Order,
}

impl FileName {
    /// Reads a name: returns the rank and which of its files it is; `None` if the file is not gpuzip's.
    pub fn read(name: &OsStr) -> Option<(u32, FileName)> {
        let text = name.to_str()?;
        let (stem, end) = text.strip_prefix("gpuzip-r")?.rsplit_once('.')?;
        let (rank, generation) = stem.split_once("-g").unwrap_or((stem, "1"));
        let (rank, generation) = (rank.parse().ok()?, generation.parse().ok()?);
        let found = match end {
            "gen" => FileName::Generation(generation),
            "tmp" => FileName::Temporary(generation),
            "lock" => FileName::Lock,
            "journal" => FileName::Journal,
            "order" => FileName::Order,
            _ => return None,
        };
        // One file has one name: `r3` or `r+00003` is another file's.
        let is_name = (1..=LAST_GENERATION).contains(&generation) && found.text(rank) == text;
        is_name.then_some((rank, found))
    }

    /// Returns the name of this file of `rank`.
    pub fn text(self, rank: u32) -> String {
        match self {
            FileName::Generation(generation) => format!("gpuzip-r{rank:06}-g{generation:012}.gen"),
            FileName::Temporary(generation) => format!("gpuzip-r{rank:06}-g{generation:012}.tmp"),
            FileName::Lock => format!("gpuzip-r{rank:06}.lock"),
            FileName::Journal => format!("gpuzip-r{rank:06}.journal"),
            FileName::Order => format!("gpuzip-r{rank:06}.order"),
        }
    }
}

/// Returns the files in a folder, each with its rank: those of one rank, or of all ranks.
pub fn files_in(folder: &Folder, path: &Path, only: Option<u32>) -> Result<Vec<(u32, FileName)>> {
    let mut files = Vec::new();
    let listed = folder.names(&mut |name| match FileName::read(name) {
        Some(file) if only.is_none_or(|rank| rank == file.0) => {
            fallible_vec::push(&mut files, file)
        }
        _ => Ok(()),
    });
    listed.map_err(|e: Error| e.within(path.display()))?;
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_rank_and_generation() {
        for (rank, name, text) in [
            (3, FileName::Generation(17), "gpuzip-r000003-g000000000017.gen"),
            (
                u32::MAX,
                FileName::Temporary(LAST_GENERATION),
                "gpuzip-r4294967295-g999999999999999.tmp",
            ),
            (0, FileName::Lock, "gpuzip-r000000.lock"),
            (1_000_000, FileName::Journal, "gpuzip-r1000000.journal"),
            (3, FileName::Order, "gpuzip-r000003.order"),
        ] {
            assert_eq!(name.text(rank), text);
            assert_eq!(FileName::read(OsStr::new(text)), Some((rank, name)));
        }
        for text in [
            "",
            "gpuzip-r3.lock",
            "gpuzip-r+00003.lock",
            "gpuzip-r000003.locks",
            "gpuzip-r000003-g17.gen",
            "gpuzip-r000003-g000000000000.gen",
            "gpuzip-r000003-g1000000000000000.gen",
            "gpuzip-r99999999999.journal",
            "gpuzip-r000003-g000000000017.lock",
            "gpuzip-r000003.gen",
            // Files of gpuzip_mpi.h.
            "gpuzip-r000003-g000000000017.parity",
            "gpuzip-r000003-g000000000017.parity.tmp",
            "other-r000003-g000000000017.gen",
        ] {
            assert_eq!(FileName::read(OsStr::new(text)), None, "{text}");
        }
    }
}
