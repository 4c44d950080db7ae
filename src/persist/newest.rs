//! Which generation a run goes on from: the newest that every rank can read.

use super::container::Reader;
use super::fingerprint::Fingerprint;
use super::store::{AgreeMin, Store};
use crate::error::{fail, text, Code, Error, Result};
use crate::fallible_vec;

/// What a rank gives that cannot go on.
const TROUBLE: i64 = -1;

impl Store {
    /// Makes all ranks give the next generation the same number, and the start, too. To be called on all ranks
    /// before the first generation is begun, if `newest` is not called. `store` is `None` on a rank that has
    /// none any more.
    pub fn agree_numbers(store: Option<&mut Store>, agree_min: AgreeMin) -> Result<()> {
        let (next, start) = store
            .as_ref()
            .map_or((0, i64::MAX), |store| (store.next as i64, store.start.number as i64));
        let (last, start) = (-agree_min(-next)?, agree_min(start)?);
        if let Some(store) = store {
            store.next = store.next.max(u64::try_from(last).unwrap_or(0));
            store.start.number = u64::try_from(start).unwrap_or(store.start.number);
        }
        Ok(())
    }

    /// Returns the newest generation that can be read completely on all ranks; `None` if no rank
    /// has one, or if the run had ended before its first generation was complete on all ranks.
    /// `agree_min` gives the minimum over the ranks; all ranks call this together.
    ///
    /// A generation that is damaged or cannot be read, or that is of another start, shot or action than
    /// the same generation of another rank, is passed over, with a warning, for an older one. Fails
    /// if this rank has generations and none is right; if the newest right one has another
    /// fingerprint, number of ranks or rank; if no generation is right on all ranks; and if another
    /// rank fails. Nothing is removed or changed.
    pub fn newest(
        &mut self,
        expected: &Fingerprint,
        agree_min: AgreeMin,
    ) -> Result<Option<Reader>> {
        Self::agree_numbers(Some(self), agree_min)?;
        let mut search = Search { below: u64::MAX, ..Search::default() };
        loop {
            let own = search.step(self, expected);
            let vote = match &own {
                Ok(()) => search.generation() as i64,
                Err(_) => TROUBLE,
            };
            let (lowest, highest) = (agree_min(vote)?, -agree_min(-vote)?);
            own?;
            if lowest < 0 {
                return fail!(
                    Io,
                    "another rank cannot go on from its restart files: its message says why"
                );
            }
            let is_common = lowest == highest && (lowest > 0 || search.below == u64::MAX);
            let mut is_one = is_common && search.is_of_one_place(agree_min)?;
            if is_common && !is_one && self.is_shared() {
                search.take_copy(self, expected);
                is_one = search.is_of_one_place(agree_min)?;
            }
            if is_one {
                self.confirm(lowest as u64);
                return Ok(search.found.map(|(_, reader)| reader));
            }
            if is_common {
                // That memory for the note is refused does not matter: the ranks go on together.
                let text = "is of different starts, shots or actions on different ranks";
                let e = Error::new(Code::Stream, text);
                let _ = search.pass_over(self, search.generation(), &e);
                search.below = lowest as u64;
                continue;
            }
            if lowest == 0 {
                if self.never_complete(&search, agree_min)? {
                    log::warn!(
                        "{}: the run had ended before its first generation was complete on all ranks; it begins anew",
                        self.near.path.display()
                    );
                    return Ok(None);
                }
                return fail!(
                    Io,
                    "{}: no generation is complete on all ranks; the newest of this rank is {}{}: bring the missing files back, or begin anew in an empty folder",
                    self.near.path.display(),
                    search.generation(),
                    search.passed_over
                );
            }
            search.below = lowest as u64 + 1;
        }
    }

    /// Returns whether some rank has no generation at all, and no rank knows of one that all ranks
    /// had: the run ended while it wrote its first generation. Called on all ranks.
    fn never_complete(&self, search: &Search, agree_min: AgreeMin) -> Result<bool> {
        let files = self.generations().map_or(i64::MAX, |all| all.len() as i64);
        let known = search.newest_confirmed.min(i64::MAX as u64) as i64;
        let (fewest_files, most_known) = (agree_min(files)?, -agree_min(-known)?);
        Ok(fewest_files == 0 && most_known == 0)
    }

    /// Returns the paths of the folders for a message.
    fn folders(&self) -> String {
        let near = self.near.path.display();
        match &self.shared {
            Some(shared) => text(format_args!("{near} and {}", shared.level.path.display())),
            None => text(format_args!("{near}")),
        }
    }

    fn check_run(&self, reader: &Reader, expected: &Fingerprint) -> Result<()> {
        let found = reader.origin.ranks;
        if found != self.ranks {
            return fail!(
                Config,
                "the restart files were written with ranks = {found}, and this run has ranks = {}: start as many processes as wrote the files",
                self.ranks
            );
        }
        reader.header.fingerprint.check(expected)
    }
}

/// One rank's search for the newest generation that is right.
#[derive(Default)]
struct Search {
    /// Only generations older than this one are considered.
    below: u64,
    found: Option<(u64, Reader)>,
    /// The newest generation that all ranks had, as a later generation that is right says.
    newest_confirmed: u64,
    /// The generations that were passed over, each with its reason.
    passed_over: String,
}

impl Search {
    /// Finds the newest right generation below `below`, if the one found is not.
    fn step(&mut self, store: &mut Store, expected: &Fingerprint) -> Result<()> {
        if self.generation() > 0 && self.generation() < self.below {
            return Ok(());
        }
        let begin_anew = self.found.is_none();
        self.found = None;
        let all = store.generations()?;
        let below = self.below;
        for generation in all.iter().copied().rev().filter(|number| *number < below) {
            match store.read_right(generation) {
                Ok(reader) => {
                    store.check_run(&reader, expected).map_err(|e| {
                        e.within(format_args!(
                            "{}: generation {generation}",
                            store.near.path.display()
                        ))
                    })?;
                    store.verified(generation)?;
                    self.newest_confirmed = self.newest_confirmed.max(reader.origin.confirmed);
                    self.found = Some((generation, reader));
                    return Ok(());
                }
                Err(e) if e.code == Code::Memory => return Err(e),
                Err(e) => self.pass_over(store, generation, &e)?,
            }
        }
        match begin_anew && !all.is_empty() {
            true => fail!(
                Stream,
                "{}: no generation can be read{}: bring back what is missing, or begin anew in an empty folder",
                store.folders(),
                self.passed_over
            ),
            false => Ok(()),
        }
    }

    /// Takes the copy in the shared folder instead, if it is right: a node that the run had left may be back, with
    /// other generations of the same numbers.
    fn take_copy(&mut self, store: &Store, expected: &Fingerprint) {
        let Some(shared) = &store.shared else { return };
        let Ok(reader) = shared.level.read_right(self.generation(), false) else { return };
        if store.check_run(&reader, expected).is_ok() {
            self.found = Some((self.generation(), reader));
        }
    }

    fn pass_over(&mut self, store: &Store, generation: u64, e: &Error) -> Result<()> {
        log::warn!("{}: generation {generation} is passed over: {e}", store.folders());
        fallible_vec::write(&mut self.passed_over, format_args!("; generation {generation} {e}"))
    }

    /// Returns whether the generations that the ranks found are of one start, one shot and one action. They
    /// are if all ranks wrote all generations together. Called on all ranks.
    fn is_of_one_place(&self, agree_min: AgreeMin) -> Result<bool> {
        let place = |reader: &Reader| {
            [reader.origin.start.number as i64, reader.header.shot, reader.header.it]
        };
        let place = self.found.as_ref().map_or([0; 3], |(_, reader)| place(reader));
        let mut is_one = true;
        for number in place {
            let (lowest, highest) = (agree_min(number)?, !agree_min(!number)?);
            is_one &= lowest == highest;
        }
        Ok(is_one)
    }

    fn generation(&self) -> u64 {
        self.found.as_ref().map_or(0, |(generation, _)| *generation)
    }
}

#[cfg(test)]
#[path = "newest_tests.rs"]
pub(super) mod tests;
