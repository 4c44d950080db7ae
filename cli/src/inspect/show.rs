//! How `gpuzip inspect` shows what it found: text for people, JSON for programs.

use super::folder::{Content, Folder, Found, Generation, Rank, Restored};
use crate::units::size;
use gpuzip::codec::CODECS;
use gpuzip::persist::{Kind, Place, Record};
use serde_json::{json, Map, Value};
use std::io::{self, BufWriter, Write};

/// Most ranks that a sentence lists.
const MOST_LISTED: usize = 8;

/// Says where in the run a generation was written.
pub fn place(shot: i64, it: i64) -> String {
    match it {
        -1 => format!("start of shot {shot}"),
        it => format!("shot {shot} after action {it}"),
    }
}

/// The name of a start by its number; `None` for 0, which is none.
pub fn start(number: u64) -> Option<String> {
    (number != 0).then(|| format!("{number:016x}"))
}

/// Returns the name of a codec.
pub fn codec(number: u32) -> String {
    let known = CODECS.iter().find(|codec| u32::from(codec.number) == number);
    known.map_or_else(|| format!("codec {number}"), |codec| codec.name.into())
}

/// Returns the line of a record of the generation with the number `generation`.
fn record_line(record: &Record, at: &Place, generation: u64, damage: Option<&str>) -> String {
    let head = &record.head;
    let (kind, name, number) = (head.kind.name(), head.name, head.ts);
    let what = match head.kind {
        Kind::Array => format!("{kind} {name}"),
        Kind::Snapshot => format!("{name} of time step {number}"),
        Kind::Other if number < 0 => name.to_string(),
        Kind::Other => format!("{name} after action {number}"),
    };
    let bytes = match head.codec {
        0 => size(head.stored_bytes),
        number => format!(
            "{} by {} ({} raw)",
            size(head.stored_bytes),
            codec(number),
            size(head.raw_bytes)
        ),
    };
    let packed =
        if at.is_packed { format!(", packed in {}", size(at.bytes)) } else { String::new() };
    let place = match at.generation {
        own if own == generation => String::new(),
        older => format!(", in generation {older}"),
    };
    format!("{what}, {bytes}{packed}{place}: {}", damage.unwrap_or("right"))
}

fn generation_lines(
    generation: &Generation,
    all_records: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let number = generation.number;
    let content = match &generation.content {
        Ok(content) => content,
        Err(reason) => return writeln!(out, "  generation {number}: cannot be used: {reason}"),
    };
    let header = &content.header;
    let verdict = match content.damage().count() {
        0 => "right".into(),
        count => format!("{count} of {} records damaged", content.records.len()),
    };
    let held = content.places.iter().filter(|at| at.generation != number).count();
    let held = if held > 0 { format!(", {held} of them in older files") } else { String::new() };
    writeln!(
        out,
        "  generation {number}: {}, {}, {} records{held}: {verdict}",
        place(header.shot, header.it),
        size(content.length),
        content.records.len()
    )?;
    for ((record, damage), at) in content.records.iter().zip(&content.places) {
        if all_records || damage.is_some() {
            writeln!(out, "    {}", record_line(record, at, number, damage.as_deref()))?;
        }
    }
    Ok(())
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn rank_line(rank: &Rank) -> String {
    let mut line = format!("rank {}", rank.rank);
    if rank.is_in_use {
        line += ", in use by a process";
    }
    match &rank.journal {
        Some(lines) => line += &format!(", {} in the journal", count(lines.len(), "generation")),
        None => line += ", the journal cannot be read",
    }
    if rank.unfinished > 0 {
        line += &format!(", {}", count(rank.unfinished, "unfinished file"));
    }
    line
}

fn restored_line(restored: &Restored) -> String {
    let mut line = format!(
        "would be restored: generation {}, {}",
        restored.generation,
        place(restored.shot, restored.it)
    );
    if restored.missing > 0 {
        let lowest = restored.lowest_missing.iter().take(MOST_LISTED);
        let names: Vec<String> = lowest.map(u32::to_string).collect();
        let more = if restored.missing as usize > names.len() { ", ..." } else { "" };
        line += &format!(
            ", if {} other ranks have it, too, whose files are not here: {}{more}",
            restored.missing,
            names.join(", ")
        );
    }
    line
}

/// Prints a table: which generation is right for how many ranks in which folder.
fn table(found: &Found, out: &mut dyn Write) -> io::Result<()> {
    let ranks = found.ranks();
    writeln!(out, "{:>12}  {:<30}  {:>12}  {:>12}", "generation", "of", "node", "shared")?;
    for row in found.rows() {
        let of = row.header.map_or("?".into(), |header| place(header.shot, header.it));
        write!(out, "{:>12}  {of:<30}", row.number)?;
        for right in row.right {
            write!(out, "  {:>12}", format!("{right} of {}", ranks.len()))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Prints the folders as text.
pub fn text(found: &Found, all_records: bool) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let is_shared = found.levels.len() > 1;
    for folder in &found.levels {
        if is_shared {
            writeln!(out, "{}", folder.path.display())?;
        }
        for rank in &folder.ranks {
            writeln!(out, "{}", rank_line(rank))?;
            for generation in &rank.generations {
                generation_lines(generation, all_records, &mut out)?;
            }
        }
    }
    if is_shared {
        table(found, &mut out)?;
    }
    if let Ok(restored) = &found.restored {
        writeln!(out, "{}", restored_line(restored))?;
    }
    out.flush()
}

fn record_json(record: &Record, at: &Place, damage: Option<&str>) -> Value {
    let head = &record.head;
    json!({
        "kind": head.kind.name(),
        "name": head.name.as_str(),
        "ts": head.ts,
        "codec": head.codec,
        "raw_bytes": head.raw_bytes,
        "stored_bytes": head.stored_bytes,
        "packed_bytes": at.is_packed.then_some(at.bytes),
        "in_generation": at.generation,
        "right": damage.is_none(),
        "reason": damage,
    })
}

fn content_json(content: &Content) -> Map<String, Value> {
    let Content { header, origin, .. } = content;
    let fingerprint: Map<String, Value> = header
        .fingerprint
        .values()
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), (*value).into()))
        .collect();
    let records = content
        .records
        .iter()
        .zip(&content.places)
        .map(|((record, damage), at)| record_json(record, at, damage.as_deref()));
    let records: Vec<Value> = records.collect();
    [
        ("shot", header.shot.into()),
        ("it", header.it.into()),
        ("ranks", origin.ranks.into()),
        ("time", origin.time.into()),
        ("start", start(origin.start.number).into()),
        ("parent", start(origin.start.parent).into()),
        ("from", origin.start.from.into()),
        ("bytes", content.length.into()),
        ("fingerprint", fingerprint.into()),
        ("records", records.into()),
    ]
    .into_iter()
    .map(|(name, value): (&str, Value)| (name.to_owned(), value))
    .collect()
}

fn generation_json(generation: &Generation) -> Value {
    let mut values = Map::new();
    values.insert("generation".into(), generation.number.into());
    values.insert("right".into(), generation.is_right().into());
    let reason = match &generation.content {
        Ok(content) => content.damage().next().cloned(),
        Err(reason) => Some(reason.clone()),
    };
    values.insert("reason".into(), reason.into());
    if let Ok(content) = &generation.content {
        values.append(&mut content_json(content));
    }
    values.into()
}

fn folder_json(folder: &Folder) -> Map<String, Value> {
    let rank = |rank: &Rank| {
        json!({
            "rank": rank.rank,
            "in_use": rank.is_in_use,
            "unfinished": rank.unfinished,
            "journal": rank.journal,
            "generations": rank.generations.iter().map(generation_json).collect::<Vec<_>>(),
        })
    };
    [
        ("folder", folder.path.display().to_string().into()),
        ("ranks", folder.ranks.iter().map(rank).collect::<Vec<_>>().into()),
    ]
    .into_iter()
    .map(|(name, value): (&str, Value)| (name.to_owned(), value))
    .collect()
}

/// Returns the folders as a JSON object: the first one, and the shared one in it.
pub fn json(found: &Found) -> Map<String, Value> {
    let restored = found.restored.as_ref().ok().map(|restored| {
        json!({
            "generation": restored.generation,
            "shot": restored.shot,
            "it": restored.it,
            "missing": restored.missing,
            "missing_ranks": restored.lowest_missing,
        })
    });
    let mut object = folder_json(&found.levels[0]);
    object.insert("shared".into(), found.levels.get(1).map(folder_json).into());
    object.insert("restored".into(), restored.into());
    object.insert("reason".into(), found.restored.as_ref().err().cloned().into());
    object
}
