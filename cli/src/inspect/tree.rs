//! Which start of the program went on from which: the starts whose generations are in some folders, as a tree.

use super::folder::{Content, Found};
use super::show::{place, start as start_name};
use serde_json::{json, Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter, Write};

/// A start, as the generations say that are there.
#[derive(Default)]
struct Start {
    /// The number of the parent and the generation from which this one went on; zeros: it began anew.
    parent: (u64, u64),
    /// The generations of the start, by number.
    generations: BTreeMap<u64, Generation>,
}

/// A generation of a start, in whatever folders.
struct Generation {
    shot: i64,
    it: i64,
    ranks: u32,
    /// By folder, the ranks whose part is there and right.
    right: BTreeMap<String, BTreeSet<u32>>,
}

/// The starts by number.
pub struct Tree(BTreeMap<u64, Start>);

impl Tree {
    pub fn of(all: &[Found]) -> Self {
        let mut starts = BTreeMap::<u64, Start>::new();
        let mut seen = BTreeSet::new();
        for level in all.iter().flat_map(|found| &found.levels) {
            let folder = level.path.display().to_string();
            if !seen.insert(level.path.canonicalize().unwrap_or_else(|_| level.path.clone())) {
                continue;
            }
            for rank in &level.ranks {
                for file in &rank.generations {
                    let Ok(Content { header, origin, .. }) = &file.content else { continue };
                    let start = starts.entry(origin.start.number).or_default();
                    start.parent = (origin.start.parent, origin.start.from);
                    let of = start.generations.entry(file.number).or_insert_with(|| Generation {
                        shot: header.shot,
                        it: header.it,
                        ranks: origin.ranks,
                        right: BTreeMap::new(),
                    });
                    let right = of.right.entry(folder.clone()).or_default();
                    if file.is_right() {
                        right.insert(rank.rank);
                    }
                }
            }
        }
        Tree(starts)
    }

    /// Prints the starts, each below the generation from which it went on.
    pub fn text(&self) -> io::Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        let roots = self.0.iter().filter(|(_, start)| !self.0.contains_key(&start.parent.0));
        for (number, start) in roots {
            let (parent, from) = start.parent;
            let origin = match parent {
                0 => "began anew".into(),
                _ => format!("went on from generation {from} of start {parent:016x}, of which nothing is left here"),
            };
            writeln!(out, "start {number:016x} {origin}")?;
            self.below(*number, 1, &mut out)?;
        }
        out.flush()
    }

    /// Prints the generations of a start, and below each the starts that went on from it. None is below itself: a
    /// start is printed where its parent is, and a parent is printed once.
    fn below(&self, number: u64, depth: usize, out: &mut dyn Write) -> io::Result<()> {
        let indent = 2 * depth;
        let Some(start) = self.0.get(&number) else { return Ok(()) };
        let children = self.0.iter().filter(|(_, child)| child.parent.0 == number);
        let mut by_generation = BTreeMap::<u64, Vec<u64>>::new();
        for (child, of) in children {
            by_generation.entry(of.parent.1).or_default().push(*child);
        }
        let gone = by_generation.keys().filter(|from| !start.generations.contains_key(from));
        let numbers: BTreeSet<u64> = start.generations.keys().chain(gone).copied().collect();
        for generation in numbers {
            match start.generations.get(&generation) {
                None => writeln!(out, "{:indent$}generation {generation}: not here", "")?,
                Some(found) => {
                    let place = place(found.shot, found.it);
                    write!(out, "{:indent$}generation {generation}: {place};", "")?;
                    for (k, (folder, right)) in found.right.iter().enumerate() {
                        let comma = if k > 0 { "," } else { "" };
                        match right.len() {
                            0 => write!(out, "{comma} damaged in {folder}")?,
                            count => {
                                write!(out, "{comma} {count} of {} ranks in {folder}", found.ranks)?
                            }
                        }
                    }
                    writeln!(out)?;
                }
            }
            for child in by_generation.get(&generation).into_iter().flatten() {
                writeln!(
                    out,
                    "{:indent$}  start {child:016x} went on from generation {generation}",
                    ""
                )?;
                self.below(*child, depth + 2, out)?;
            }
        }
        Ok(())
    }

    /// Returns the starts for programs.
    pub fn json(&self) -> Map<String, Value> {
        let generation = |(number, found): (&u64, &Generation)| {
            json!({
                "generation": number,
                "shot": found.shot,
                "it": found.it,
                "ranks": found.ranks,
                "right": found.right,
            })
        };
        let start = |(number, start): (&u64, &Start)| {
            json!({
                "start": start_name(*number),
                "parent": start_name(start.parent.0),
                "from": start.parent.1,
                "generations": start.generations.iter().map(generation).collect::<Vec<_>>(),
            })
        };
        let starts: Vec<Value> = self.0.iter().map(start).collect();
        Map::from_iter([("starts".to_owned(), starts.into())])
    }
}
