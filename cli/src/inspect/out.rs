//! The folder into which a generation is extracted: all of its files, or none.

use crate::options::refuse;
use gpuzip::error::{Code, Error, Result};
use gpuzip::files::quietly;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Words that are written at a time.
const PIECE: usize = 1 << 17;

/// The folder. What was made in it is removed again, unless `keep` is called.
pub struct Out {
    path: PathBuf,
    /// Files and folders in the order in which they were made.
    made: Vec<PathBuf>,
    /// How often each name was asked for.
    names: HashMap<PathBuf, u64>,
}

/// A file that is being written.
pub struct Npy {
    path: PathBuf,
    file: File,
}

fn failed(path: &Path, error: io::Error) -> Error {
    Error::new(Code::Io, format!("{}: {error}", path.display()))
}

impl Out {
    /// Makes the folder, or takes an empty one.
    pub fn new(path: &Path) -> Result<Self> {
        let mut out = Out { path: path.to_path_buf(), made: Vec::new(), names: HashMap::new() };
        match fs::create_dir(path) {
            Ok(()) => out.made.push(path.to_path_buf()),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let mut files = fs::read_dir(path).map_err(|e| failed(path, e))?;
                if files.next().is_some() {
                    let path = path.display();
                    return refuse(format!(
                        "--extract {path}: the folder is not empty: name a new one or an empty one"
                    ));
                }
            }
            Err(e) => return Err(failed(path, e)),
        }
        Ok(out)
    }

    /// Makes a folder in the folder. Returns its path below it.
    pub fn folder(&mut self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::create_dir(&path).map_err(|e| failed(&path, e))?;
        self.made.push(path);
        Ok(name.into())
    }

    /// Begins a file in `folder` with `header`. Its name gets a number if there is a file of this name. Returns
    /// its path below the folder, too.
    pub fn file(&mut self, folder: &Path, name: &str, header: &[u8]) -> Result<(PathBuf, Npy)> {
        loop {
            let asked = self.names.entry(folder.join(name)).or_default();
            *asked += 1;
            let number = if *asked > 1 { format!("-{asked}") } else { String::new() };
            let below = folder.join(format!("{name}{number}.npy"));
            let path = self.path.join(&below);
            match File::create_new(&path) {
                Ok(file) => {
                    self.made.push(path.clone());
                    let mut npy = Npy { path, file };
                    npy.write(header)?;
                    return Ok((below, npy));
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(failed(&path, e)),
            }
        }
    }

    /// Keeps what was made.
    pub fn keep(mut self) {
        self.made.clear();
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        for path in self.made.iter().rev() {
            // There is nobody to tell: the error that led here is told.
            let _ = if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) };
        }
    }
}

impl Npy {
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        quietly(|| self.file.write_all(bytes)).map_err(|e| failed(&self.path, e))
    }

    /// Writes the first `bytes` bytes of words.
    pub fn write_words(&mut self, words: &[u64], mut bytes: u64) -> Result<()> {
        for words in words.chunks(PIECE) {
            let piece: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let count = bytes.min(piece.len() as u64);
            self.write(&piece[..count as usize])?;
            bytes -= count;
        }
        Ok(())
    }
}
