//! `gpuzip inspect --extract`: the arrays and snapshots of a generation as files of NumPy.

use super::decode::{Decoder, Values};
use super::folder::{Found, Generation};
use super::out::{Npy, Out};
use super::show::{codec, place};
use crate::options::{at_least_one, refuse};
use clap::Args;
use gpuzip::error::{Code, Error, Result};
use gpuzip::layout::Field;
use gpuzip::npy;
use gpuzip::persist::{
    self, FieldAt, FileName, Header, Kind, Reader, Record, RecordHead, Shapes, PREVIOUS_LEVEL,
};
use gpuzip::scalar::Scalar;
use serde_json::{json, Value};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// What is extracted.
#[derive(Args)]
pub struct ExtractOptions {
    /// Write arrays and snapshots as files of NumPy into this folder, which is new or empty: those of the
    /// generation that would be restored, or of DIR, if that is a file; codecs' snapshots are decoded
    #[arg(long, value_name = "OUT", conflicts_with = "records")]
    pub extract: Option<PathBuf>,
    /// Extract only records of this name; may be given several times
    #[arg(long, value_name = "NAME", requires = "extract")]
    record: Vec<String>,
    /// Extract the snapshots of every K-th stored state only
    #[arg(long, value_name = "K", requires = "extract", value_parser = at_least_one, default_value_t = 1, hide_default_value = true, allow_hyphen_values = true)]
    every: u32,
}

fn type_name(scalar: Scalar) -> String {
    scalar.name().trim_start_matches("GPUZIP_TYPE_").to_lowercase()
}

/// A file that was written.
struct Written {
    /// The path of the file, below the folder that is written.
    file: PathBuf,
    head: RecordHead,
    /// The number of the field in the state, where a snapshot has several.
    number: Option<u16>,
    field: Field,
    /// Whether the generation tells the shape; if not, the file has bytes.
    is_known: bool,
}

/// The generation of a rank.
pub struct Extracted {
    rank: u32,
    generation: u64,
    shot: i64,
    it: i64,
    files: Vec<Written>,
}

/// The records of a state.
struct State {
    level: Option<usize>,
    previous: Option<usize>,
}

/// A file that is to be extracted. It is opened as late as possible: a folder may have more files than a process
/// may have open.
struct Source {
    path: PathBuf,
    /// Rank and generation that the file of a folder must be of.
    of: Option<(u32, u64)>,
}

impl Source {
    fn open(&self) -> Result<Reader> {
        persist::open(&self.path, self.of)
    }
}

/// Extracts what `options` ask for from `path`, a file or a folder.
pub fn run(path: &Path, to: &Path, options: &ExtractOptions) -> Result<Vec<Extracted>> {
    let sources = match path.is_dir() {
        true => of_folder(path)?,
        false => vec![Source { path: path.into(), of: None }],
    };
    options.check_names(&sources)?;
    let mut out = Out::new(to)?;
    let mut all = Vec::new();
    for source in &sources {
        let reader = &source.open()?;
        let rank = reader.origin.rank;
        let folder = match sources.len() {
            1 => PathBuf::new(),
            _ => out.folder(&format!("rank-{rank:06}"))?,
        };
        let shapes = reader.shapes()?;
        let mut extraction =
            Extraction { reader, options, shapes, out: &mut out, folder, files: vec![] };
        extraction.arrays()?;
        extraction.snapshots()?;
        let mut files = extraction.files;
        // Snapshots were decoded in another order.
        files.sort_by_key(|(k, written)| (*k, written.number));
        let files = files.into_iter().map(|(_, written)| written).collect();
        let (&Header { shot, it, .. }, generation) = (&reader.header, reader.origin.generation);
        all.push(Extracted { rank, generation, shot, it, files });
    }
    out.keep();
    Ok(all)
}

/// Returns the files of the generation that a restart would go on from, of each rank that has one in the folders.
fn of_folder(path: &Path) -> Result<Vec<Source>> {
    let found = Found::read(path)?;
    let number = match &found.restored {
        Ok(restored) => restored.generation,
        Err(reason) => {
            let text = format!("{}: nothing can be extracted: {reason}", path.display());
            return Err(Error::new(Code::Io, text));
        }
    };
    let is_it = |generation: &Generation| generation.number == number && generation.is_right();
    let mut right = BTreeMap::new();
    for level in &found.levels {
        for rank in level.ranks.iter().filter(|rank| rank.generations.iter().any(is_it)) {
            // Of two folders the first one counts.
            right.entry(rank.rank).or_insert(&level.path);
        }
    }
    let source = |(rank, folder): (u32, &PathBuf)| {
        let path = folder.join(FileName::Generation(number).text(rank));
        Source { path, of: Some((rank, number)) }
    };
    Ok(right.into_iter().map(source).collect())
}

impl ExtractOptions {
    /// Fails if an option names a record that no file has: it is probably a mistake.
    fn check_names(&self, sources: &[Source]) -> Result<()> {
        let mut missing: Vec<&String> = self.record.iter().collect();
        for source in sources {
            if missing.is_empty() {
                break;
            }
            let records = source.open()?.records;
            let is_it = |record: &Record, name: &str| {
                record.head.kind != Kind::Other && record.head.name.as_str() == name
            };
            missing.retain(|name| !records.iter().any(|record| is_it(record, name)));
        }
        match missing.first() {
            None => Ok(()),
            Some(name) => refuse(format!(
                "--record {name}: the generation has no array and no snapshot of this name; --records lists them"
            )),
        }
    }

    fn takes(&self, head: &RecordHead) -> bool {
        self.record.is_empty() || self.record.iter().any(|name| name == head.name.as_str())
    }
}

/// The extraction of one file.
struct Extraction<'a> {
    reader: &'a Reader,
    options: &'a ExtractOptions,
    shapes: Shapes,
    out: &'a mut Out,
    /// Below the folder of the output.
    folder: PathBuf,
    /// The files, each with the number of its record.
    files: Vec<(usize, Written)>,
}

impl Extraction<'_> {
    fn arrays(&mut self) -> Result<()> {
        for (k, Record { head, .. }) in self.reader.records.iter().enumerate() {
            if head.kind != Kind::Array || !self.options.takes(head) {
                continue;
            }
            self.raw(k)?;
        }
        Ok(())
    }

    fn snapshots(&mut self) -> Result<()> {
        let records = &self.reader.records;
        let mut decoder = Decoder::default();
        for (number, state) in states(records).iter().enumerate().rev() {
            let is_due = number % self.options.every as usize == 0;
            let due = |k: &usize| is_due && self.options.takes(&records[*k].head);
            let mut level = None;
            if let Some(k) = state.level {
                let head = &records[k].head;
                // The record of the previous level, and those of the states before, may lean on this one.
                let is_needed =
                    state.previous.as_ref().is_some_and(due) || Decoder::may_lean(head.codec);
                let due = due(&k);
                match head.codec {
                    0 if due => self.raw(k)?,
                    0 => {}
                    _ if due || is_needed => {
                        let values = self.decoded(&mut decoder, k, None)?;
                        if due {
                            self.fields(k, &values)?;
                        }
                        level = Some(values);
                    }
                    _ => {}
                }
            }
            if let Some(k) = state.previous.filter(due) {
                match records[k].head.codec {
                    0 => self.raw(k)?,
                    _ => {
                        let values =
                            self.decoded(&mut decoder, k, Some(&mut level.unwrap_or_default()))?;
                        self.fields(k, &values)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes a raw record: its fields, or its bytes if the generation does not tell the fields.
    fn raw(&mut self, k: usize) -> Result<()> {
        let mut places = self.shapes.of_raw(&self.reader.records, k);
        let is_known = !places.is_empty();
        if !is_known {
            let n = [self.reader.records[k].head.stored_bytes, 1, 1];
            let field = Field { n, scalar: Scalar::Byte, previous_of: None };
            places.push(FieldAt { number: 0, field, offset: 0 });
        }
        let mut files = Vec::new();
        for FieldAt { number, field, .. } in &places {
            let number = (places.len() > 1).then_some(*number as u16);
            files.push(self.file(k, number, *field, is_known)?);
        }
        let mut begin = 0;
        let read = self.reader.read(k, &mut |piece| {
            for (FieldAt { field, offset, .. }, file) in places.iter().zip(&mut files) {
                let inside = |at: u64| at.clamp(begin, begin + piece.len() as u64) - begin;
                let end = offset + field.bytes().unwrap_or(0);
                file.write(&piece[inside(*offset) as usize..inside(end) as usize])?;
            }
            begin += piece.len() as u64;
            Ok(())
        });
        read.map_err(|e| self.within(e))
    }

    /// Reads a record that a codec made.
    fn decoded(
        &self,
        decoder: &mut Decoder,
        k: usize,
        later: Option<&mut Vec<Values>>,
    ) -> Result<Vec<Values>> {
        let head = &self.reader.records[k].head;
        let mut stream = Vec::new();
        let room = stream.try_reserve_exact(head.stored_bytes as usize);
        room.map_err(|e| Error::new(Code::Memory, format!("record {k} ({}): {e}", head.name)))?;
        let read = self.reader.read(k, &mut |piece| {
            stream.extend_from_slice(piece);
            Ok(())
        });
        read.map_err(|e| self.within(e))?;
        let values = decoder.decode(head.ts, &stream, later);
        values.map_err(|e| {
            self.within(e.within(format_args!("{} of time step {}", head.name, head.ts)))
        })
    }

    /// Writes decoded fields.
    fn fields(&mut self, k: usize, all: &[Values]) -> Result<()> {
        for values in all {
            let number = (all.len() > 1).then_some(values.number);
            let mut file = self.file(k, number, values.field, true)?;
            file.write_words(&values.words, values.field.bytes().unwrap_or(0))?;
        }
        Ok(())
    }

    /// Begins a file of record `k`.
    fn file(&mut self, k: usize, number: Option<u16>, field: Field, is_known: bool) -> Result<Npy> {
        let head = self.reader.records[k].head;
        let name = name_of(&head, number);
        let (file, npy) =
            self.out.file(&self.folder, &name, &npy::header(field.scalar, field.n))?;
        self.files.push((k, Written { file, head, number, field, is_known }));
        Ok(npy)
    }

    /// Says which generation an error is of.
    fn within(&self, error: Error) -> Error {
        let origin = &self.reader.origin;
        error.within(format_args!("generation {} of rank {}", origin.generation, origin.rank))
    }
}

/// Returns the states of a generation in the order of their first records.
fn states(records: &[Record]) -> Vec<State> {
    let (mut states, mut of) = (Vec::<State>::new(), HashMap::new());
    for (k, Record { head, .. }) in records.iter().enumerate() {
        if head.kind != Kind::Snapshot {
            continue;
        }
        let at = *of.entry(head.ts).or_insert(states.len());
        let is_previous = head.name.as_str() == PREVIOUS_LEVEL;
        let record = |state: &mut State| match is_previous {
            true => state.previous.replace(k),
            false => state.level.replace(k),
        };
        if at == states.len() {
            states.push(State { level: None, previous: None });
        }
        // Two records of one name and time step are of two states.
        if let Some(earlier) = record(&mut states[at]) {
            let (level, previous) =
                if is_previous { (None, Some(earlier)) } else { (Some(earlier), None) };
            states.push(State { level, previous });
        }
    }
    states
}

/// Returns the name of a file without its ending.
fn name_of(head: &RecordHead, number: Option<u16>) -> String {
    let mut name = npy::file_name(head.name.as_str());
    if head.kind == Kind::Snapshot {
        name += &format!("-{:06}", head.ts);
    }
    number.map_or(name.clone(), |number| format!("{name}-field{number}"))
}

impl Written {
    fn line(&self) -> String {
        let Written { head, field, .. } = self;
        let what = match head.kind {
            Kind::Snapshot => format!("{} of time step {}", head.name, head.ts),
            _ => format!("{} {}", head.kind.name(), head.name),
        };
        let number = self.number.map_or(String::new(), |number| format!(", field {number}"));
        let how = match (self.is_known, head.codec) {
            (true, 0) => String::new(),
            (true, number) => format!(", decoded by {}", codec(number)),
            (false, _) => ": bytes, because another program wrote the generation".into(),
        };
        let shape: Vec<String> = npy::shape(field.n).iter().map(u64::to_string).collect();
        format!(
            "{}: {what}{number}, {} {}{how}",
            self.file.display(),
            type_name(field.scalar),
            shape.join(" x ")
        )
    }

    fn json(&self) -> Value {
        let Written { head, field, .. } = self;
        json!({
            "file": self.file.display().to_string(),
            "kind": head.kind.name(),
            "name": head.name.as_str(),
            "ts": (head.kind == Kind::Snapshot).then_some(head.ts),
            "field": self.number,
            "type": type_name(field.scalar),
            "shape": npy::shape(field.n),
            "codec": head.codec,
            "is_shape_known": self.is_known,
        })
    }
}

impl Extracted {
    /// The lines for a reader.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let Extracted { rank, generation, shot, it, .. } = self;
        let first = format!("rank {rank}, generation {generation}: {}", place(*shot, *it));
        std::iter::once(first).chain(self.files.iter().map(|file| format!("  {}", file.line())))
    }

    /// The values for a program.
    pub fn json(&self) -> Value {
        let files: Vec<Value> = self.files.iter().map(Written::json).collect();
        let Extracted { rank, generation, shot, it, .. } = self;
        json!({ "rank": rank, "generation": generation, "shot": shot, "it": it, "files": files })
    }
}
