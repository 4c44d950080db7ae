//! Which run went on from which: the runs whose generations are in some folders, as a tree.

use super::folder::{Content, Found};
use super::show::{place, run as run_name};
use serde_json::{json, Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter, Write};

/// A run, as the generations say that are there.
#[derive(Default)]
struct Run {
    /// The number of the parent and the generation from which this run went on; zeros: it began anew.
    parent: (u64, u64),
    /// Its generations by number.
    generations: BTreeMap<u64, Generation>,
}

/// A generation of a run, in whatever folders.
struct Generation {
    shot: i64,
    it: i64,
    ranks: u32,
    /// By folder, the ranks whose part is there and right.
    right: BTreeMap<String, BTreeSet<u32>>,
}

/// The runs by number.
pub struct Tree(BTreeMap<u64, Run>);

impl Tree {
    pub fn of(all: &[Found]) -> Self {
        let mut runs = BTreeMap::<u64, Run>::new();
        let mut seen = BTreeSet::new();
        for level in all.iter().flat_map(|found| &found.levels) {
            let folder = level.path.display().to_string();
            if !seen.insert(folder.clone()) {
                continue;
            }
            for rank in &level.ranks {
                for file in &rank.generations {
                    let Ok(Content { header, origin, .. }) = &file.content else { continue };
                    let run = runs.entry(origin.run.number).or_default();
                    run.parent = (origin.run.parent, origin.run.from);
                    let of = run.generations.entry(file.number).or_insert_with(|| Generation {
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
        Tree(runs)
    }

    /// Prints the runs, each below the generation from which it went on.
    pub fn text(&self) -> io::Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        let roots = self.0.iter().filter(|(_, run)| !self.0.contains_key(&run.parent.0));
        for (number, run) in roots {
            let (parent, from) = run.parent;
            let origin = match parent {
                0 => "began anew".into(),
                _ => format!("went on from generation {from} of run {parent:016x}, of which nothing is left here"),
            };
            writeln!(out, "run {number:016x} {origin}")?;
            self.below(*number, 1, &mut out)?;
        }
        out.flush()
    }

    /// Prints a run's generations, and below each the runs that went on from it. No run is below itself: a
    /// run is printed where its parent is, and a parent is printed once.
    fn below(&self, number: u64, depth: usize, out: &mut dyn Write) -> io::Result<()> {
        let indent = 2 * depth;
        let Some(run) = self.0.get(&number) else { return Ok(()) };
        let children = self.0.iter().filter(|(_, child)| child.parent.0 == number);
        let mut by_generation = BTreeMap::<u64, Vec<u64>>::new();
        for (child, of) in children {
            by_generation.entry(of.parent.1).or_default().push(*child);
        }
        let gone = by_generation.keys().filter(|from| !run.generations.contains_key(from));
        let numbers: BTreeSet<u64> = run.generations.keys().chain(gone).copied().collect();
        for generation in numbers {
            match run.generations.get(&generation) {
                None => writeln!(out, "{:indent$}generation {generation}: not here", "")?,
                Some(found) => {
                    let place = place(found.shot, found.it);
                    write!(out, "{:indent$}generation {generation}: {place};", "")?;
                    for (k, (folder, right)) in found.right.iter().enumerate() {
                        let comma = if k > 0 { "," } else { "" };
                        write!(
                            out,
                            "{comma} {} of {} ranks in {folder}",
                            right.len(),
                            found.ranks
                        )?;
                    }
                    writeln!(out)?;
                }
            }
            for child in by_generation.get(&generation).into_iter().flatten() {
                writeln!(
                    out,
                    "{:indent$}  run {child:016x} went on from generation {generation}",
                    ""
                )?;
                self.below(*child, depth + 2, out)?;
            }
        }
        Ok(())
    }

    /// Returns the runs for programs.
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
        let run = |(number, run): (&u64, &Run)| {
            json!({
                "run": run_name(*number),
                "parent": run_name(run.parent.0),
                "from": run.parent.1,
                "generations": run.generations.iter().map(generation).collect::<Vec<_>>(),
            })
        };
        let runs: Vec<Value> = self.0.iter().map(run).collect();
        Map::from_iter([("runs".to_owned(), runs.into())])
    }
}
