//! The name of a session's timeline file: different for every rank and for every session of a
//! process.

use crate::environment;
use crate::error::Result;
use crate::files;
use crate::guarded::Guarded;
use crate::process::Process;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Environment variables in which launchers tell the rank of a process and the number of ranks.
const LAUNCHERS: [(&str, &str); 4] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];

/// Number of sessions of this process that have asked for each name.
static TAKEN: Guarded<BTreeMap<PathBuf, u32>> = Guarded::new(BTreeMap::new(), BTreeMap::new);

/// Returns the rank of this process, if a launcher tells that there are several ranks. PMIx does
/// not tell their number: its rank is taken if no other launcher tells one.
pub fn rank() -> Option<u32> {
    rank_in(|name| environment::text(name)?.parse().ok())
}

fn rank_in(number: impl Fn(&str) -> Option<u32>) -> Option<u32> {
    let told =
        || LAUNCHERS.into_iter().filter_map(|(rank, size)| Some((number(rank)?, number(size)?)));
    match told().find(|&(_, size)| size > 1) {
        Some((rank, _)) => Some(rank),
        None if told().next().is_some() => None,
        None => number("PMIX_RANK"),
    }
}

/// Opens the file for a session, and locks it until it is closed. In `pattern`, `%r` stands for the
/// rank (0 without ranks), `%p` for the process number, and `%%` for a percent sign. Suffixes
/// before the extension keep files apart:
///
/// - `-r` and the rank, if there are ranks and the pattern has neither `%r` nor `%p`;
/// - `-p` and the process number, in a forked child whose pattern has no `%p`;
/// - `-` and the first free number from 2 on, if an earlier session of this process has the same
///   name, or if another process is writing to a file of this name.
pub fn open(pattern: &Path) -> io::Result<(PathBuf, File)> {
    let named = expanded(pattern, rank(), std::process::id(), Process::current().is_child());
    loop {
        let path = numbered(&named, next_number(&named).map_err(io::Error::other)?);
        let file = files::open_to_write(&path)?;
        if files::try_lock(&file)? {
            return Ok((path, file));
        }
    }
}

/// Returns the number, from 1, of the session of this process that asks for this name now.
fn next_number(named: &Path) -> Result<u32> {
    let mut taken = TAKEN.write()?;
    let sessions = taken.entry(named.to_path_buf()).or_insert(0);
    *sessions += 1;
    Ok(*sessions)
}

fn numbered(path: &Path, session: u32) -> PathBuf {
    match session {
        1 => path.to_path_buf(),
        session => before_extension(path, &format!("-{session}")),
    }
}

fn expanded(pattern: &Path, rank: Option<u32>, process: u32, is_child: bool) -> PathBuf {
    let (mut out, mut has_rank, mut has_process) = (Vec::new(), false, false);
    let mut bytes = pattern.as_os_str().as_bytes().iter();
    while let Some(&byte) = bytes.next() {
        let sign = bytes.clone().next().filter(|sign| byte == b'%' && b"rp%".contains(sign));
        match sign {
            Some(b'r') => out.extend(rank.unwrap_or(0).to_string().bytes()),
            Some(b'p') => out.extend(process.to_string().bytes()),
            _ => out.push(byte),
        }
        has_rank |= sign == Some(&b'r');
        has_process |= sign == Some(&b'p');
        if sign.is_some() {
            bytes.next();
        }
    }
    let path = PathBuf::from(OsString::from_vec(out));
    let path = match rank {
        Some(rank) if !has_rank && !has_process => before_extension(&path, &format!("-r{rank}")),
        _ => path,
    };
    if is_child && !has_process {
        return before_extension(&path, &format!("-p{process}"));
    }
    path
}

fn before_extension(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_os_string();
    name.push(suffix);
    if let Some(extension) = path.extension() {
        name.push(OsStr::new("."));
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_tell_the_rank_where_there_are_several() {
        let rank = |set: &[(&str, u32)]| {
            rank_in(|name| set.iter().find(|(known, _)| *known == name).map(|(_, number)| *number))
        };
        assert_eq!(rank(&[]), None);
        for (name, size) in LAUNCHERS {
            assert_eq!(rank(&[(name, 3), (size, 4)]), Some(3));
            assert_eq!(rank(&[(name, 0), (size, 1)]), None, "one rank needs no name");
            assert_eq!(rank(&[(name, 0), (size, 1), ("PMIX_RANK", 0)]), None);
        }
        assert_eq!(
            rank(&[
                ("SLURM_PROCID", 0),
                ("SLURM_NTASKS", 1),
                ("OMPI_COMM_WORLD_RANK", 2),
                ("OMPI_COMM_WORLD_SIZE", 3)
            ]),
            Some(2)
        );
        assert_eq!(rank(&[("PMIX_RANK", 7)]), Some(7));
    }

    #[test]
    fn ranks_processes_and_sessions_have_files_of_their_own() {
        let name = |pattern: &str, rank| {
            expanded(Path::new(pattern), rank, 77, false).to_str().unwrap().to_string()
        };
        assert_eq!(name("run.json", None), "run.json");
        assert_eq!(name("a.b/run.json", Some(3)), "a.b/run-r3.json");
        assert_eq!(name("a.b/run", Some(3)), "a.b/run-r3");
        assert_eq!(name("run%r.json", Some(12)), "run12.json");
        assert_eq!(name("run%r.json", None), "run0.json");
        assert_eq!(name("run-%p.json", Some(1)), "run-77.json");
        assert_eq!(name("100%%.json", None), "100%.json");
        assert_eq!(name("100%%.json", Some(2)), "100%-r2.json");
        assert_eq!(name("%x%", None), "%x%");
        let of_child = |pattern: &str, rank| {
            expanded(Path::new(pattern), rank, 78, true).to_str().unwrap().to_string()
        };
        assert_eq!(of_child("run.json", None), "run-p78.json");
        assert_eq!(of_child("run.json", Some(3)), "run-r3-p78.json");
        assert_eq!(of_child("run-%r.json", Some(3)), "run-3-p78.json");
        assert_eq!(of_child("run-%p.json", Some(3)), "run-78.json");
        let sessions = [1, 2, 3].map(|number| numbered(Path::new("of/a session.json"), number));
        assert_eq!(
            sessions,
            ["of/a session.json", "of/a session-2.json", "of/a session-3.json"].map(PathBuf::from)
        );
    }
}
