//! States as files of NumPy, for pictures and for other programs.

use super::{array, Session};
use crate::device::{AppField, AppMemory, Device, Stream};
use crate::error::{fail, of, Code, Error, Result};
use crate::files::{hash, Folder};
use crate::npy;
use crate::stats::Stats;
use std::collections::HashMap;
use std::fs::{DirBuilder, Metadata};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A file that is to be written.
struct File {
    name: String,
    /// What stands before the values.
    header: Vec<u8>,
    memory: AppMemory,
}

impl Session {
    /// Writes each field of u(ts) as a file of NumPy into the folder `to`. Nothing is read or written if this
    /// shot has written the files, or may have before it went on from a restart file, and they are there.
    pub fn export(
        &mut self,
        to: &Path,
        ts: i64,
        fields: &[AppField],
        stream: Stream,
    ) -> Result<()> {
        self.process.check()?;
        if ts < 0 {
            return fail!(Argument, "ts = {ts}: states are numbered from 0");
        }
        if to.as_os_str().is_empty() {
            return fail!(Argument, "dir is empty: name a folder");
        }
        self.check_shapes(fields)?;
        let key = hash(to.as_os_str().as_bytes().iter().copied().chain(ts.to_le_bytes()));
        let place = self.shot.exported.binary_search(&key);
        let went_on = self.shot.carried != Stats::default();
        let files = self.missing(to, ts, fields, place.is_ok() || went_on)?;
        if files.is_empty() {
            return Ok(());
        }
        let begin = Instant::now();
        self.reach(fields)?;
        let written = match &mut self.engine {
            None => write(to, &files, None),
            Some(engine) => {
                // The application may call this between two steps of its action.
                if let Some(tuner) = &mut engine.tuner {
                    tuner.begins();
                }
                // An error of a file must not break the shot.
                engine.call(stream, "export", |engine| {
                    Ok(write(to, &files, Some(engine.tiers.device())))
                })?
            }
        };
        // The time of this call is not that of a step.
        if let Some(since) = &mut self.shot.since {
            *since += begin.elapsed();
        }
        written?;
        if let Err(place) = place {
            // Without memory for the note, the state is written again when it passes again.
            if self.shot.exported.try_reserve(1).is_ok() {
                self.shot.exported.insert(place, key);
            }
        }
        Ok(())
    }

    /// Returns the files that are to be written: all, or if this shot `has_written` them, those that are not
    /// there any more with the length that the field needs.
    fn missing(
        &self,
        to: &Path,
        ts: i64,
        fields: &[AppField],
        has_written: bool,
    ) -> Result<Vec<File>> {
        let (mut names, mut files) = (HashMap::new(), Vec::new());
        for (k, AppField { field, memory }) in fields.iter().enumerate() {
            let name = match self.names.get(k) {
                Some(name) => npy::file_name(name.as_str()),
                None => format!("field{k}"),
            };
            let name = format!("{name}-{ts:09}.npy");
            if let Some(first) = names.insert(name.clone(), k) {
                return fail!(Argument, "field {first} and field {k} would both be written to {name}: give them names that differ in letters and digits (gpuzip_name_fields)");
            }
            let Some(memory) = *memory else { return fail!(Argument, "field {k}: data is NULL") };
            let header = npy::header(field.scalar, field.n);
            let length = (header.len() + memory.bytes()) as u64;
            let is_there = |found: Metadata| found.is_file() && found.len() == length;
            if !has_written || !std::fs::metadata(to.join(&name)).is_ok_and(is_there) {
                files.push(File { name, header, memory });
            }
        }
        Ok(files)
    }
}

/// Writes files into a folder, which is made if it is missing. Each file is complete or as it was.
fn write(to: &Path, files: &[File], mut device: Option<&mut (dyn Device + '_)>) -> Result<()> {
    let folder = DirBuilder::new().recursive(true).create(to).and_then(|()| Folder::open(to));
    let folder = folder.map_err(|error| failed(to.into(), error))?;
    for File { name, header, memory } in files {
        let written = folder.replace_by(name.as_ref(), |mut file| {
            file.write_all(header)?;
            array::read(device.as_deref_mut(), *memory, &mut |piece| file.write_all(piece))
        });
        written.map_err(|error| failed(to.join(name), error))?;
    }
    Ok(())
}

/// Returns the error of a file, or of the device that was read.
fn failed(path: PathBuf, error: io::Error) -> Error {
    if error.get_ref().is_some_and(|inner| inner.is::<Error>()) {
        return Error::from(error).within(path.display());
    }
    let remedy = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "free space there, or name another folder"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "name a folder in which this process may write"
        }
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
            "a file has this name: name another folder"
        }
        _ => "name another folder",
    };
    of(Code::Io, format_args!("{}: {error}: {remedy}", path.display()))
}
