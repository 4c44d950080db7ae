//! Names of the files in a folder of generations. Rank 3's generation 17 is
//! `gpuzip-r000003-g000000000017.gen`; while it is written, its name ends in `.tmp`. The rank's
//! other files are `gpuzip-r000003.lock` and `gpuzip-r000003.journal`.

use std::ffi::OsStr;

/// The largest number of a generation. A file whose name has a larger one is not gpuzip's.
pub const LAST_GENERATION: u64 = 999_999_999_999_999;

/// What the name of a file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileName {
    /// A published generation.
    Generation {
        /// The rank that wrote the file.
        rank: u32,
        /// Number of the generation.
        generation: u64,
    },
    /// A generation that is being written, or whose writer died.
    Temporary {
        /// The rank that writes the file.
        rank: u32,
        /// Number of the generation.
        generation: u64,
    },
    /// The file whose lock a rank holds.
    Lock {
        /// The rank.
        rank: u32,
    },
    /// The journal of a rank.
    Journal {
        /// The rank.
        rank: u32,
    },
}

impl FileName {
    /// Reads a name; `None` if the file is not gpuzip's.
    pub fn read(name: &OsStr) -> Option<FileName> {
        let text = name.to_str()?;
        let (stem, end) = text.strip_prefix("gpuzip-r")?.rsplit_once('.')?;
        let found = match (stem.split_once("-g"), end) {
            (None, "lock") => FileName::Lock { rank: stem.parse().ok()? },
            (None, "journal") => FileName::Journal { rank: stem.parse().ok()? },
            (Some((rank, generation)), "gen" | "tmp") => {
                let (rank, generation) = (rank.parse().ok()?, generation.parse().ok()?);
                if !(1..=LAST_GENERATION).contains(&generation) {
                    return None;
                }
                match end {
                    "gen" => FileName::Generation { rank, generation },
                    _ => FileName::Temporary { rank, generation },
                }
            }
            _ => return None,
        };
        // One file has one name: `r3` or `r+00003` is another file's.
        (found.text() == text).then_some(found)
    }

    /// Returns the rank whose file it is.
    pub fn rank(self) -> u32 {
        match self {
            FileName::Generation { rank, .. }
            | FileName::Temporary { rank, .. }
            | FileName::Lock { rank }
            | FileName::Journal { rank } => rank,
        }
    }

    /// Returns the name.
    pub fn text(self) -> String {
        match self {
            FileName::Generation { rank, generation } => {
                format!("gpuzip-r{rank:06}-g{generation:012}.gen")
            }
            FileName::Temporary { rank, generation } => {
                format!("gpuzip-r{rank:06}-g{generation:012}.tmp")
            }
            FileName::Lock { rank } => format!("gpuzip-r{rank:06}.lock"),
            FileName::Journal { rank } => format!("gpuzip-r{rank:06}.journal"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_rank_and_generation() {
        for (name, text) in [
            (FileName::Generation { rank: 3, generation: 17 }, "gpuzip-r000003-g000000000017.gen"),
            (
                FileName::Temporary { rank: u32::MAX, generation: LAST_GENERATION },
                "gpuzip-r4294967295-g999999999999999.tmp",
            ),
            (FileName::Lock { rank: 0 }, "gpuzip-r000000.lock"),
            (FileName::Journal { rank: 1_000_000 }, "gpuzip-r1000000.journal"),
        ] {
            assert_eq!(name.text(), text);
            assert_eq!(FileName::read(OsStr::new(text)), Some(name));
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
            "other-r000003-g000000000017.gen",
        ] {
            assert_eq!(FileName::read(OsStr::new(text)), None, "{text}");
        }
    }
}
