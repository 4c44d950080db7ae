//! Restart within a shot: what a shot has come to, as numbers and stored bytes, and a session that
//! goes on from there.
//!
//! The session that goes on plays the rest of the plan of the session that stopped
//! (`src/plan/rest.rs`): it first loads the snapshots into the slots where the plan keeps them, as
//! the bytes that they were, and then serves the actions that are left. It so restores the same bits,
//! and counts what the other session would have counted.

use super::engine::Whole;
use super::Session;
use crate::choice::{TierSpec, Why};
use crate::device::{Stream, Traffic};
use crate::error::{fail, Code, Error, Result};
use crate::files::hash;
use crate::plan::Kept;
use crate::schedule::{Kind, Terms};
use crate::stats::Stats;
use crate::tier::Stored;
use crate::together::Mode;
use std::sync::Arc;

/// What a shot has come to, or the start of a shot (`it` = -1).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Position {
    /// Number of the action that was served last; -1: none.
    pub it: i64,
    /// Fingerprint of the schedule.
    pub schedule: u64,
    /// The schedule as numbers, and whether it is a recorded one, which these do not describe.
    pub terms: Terms,
    /// 1 if the schedule is recorded.
    pub recorded: u64,
    /// Fingerprint of the plan; 0 for the start of a shot.
    pub plan: u64,
    /// The bytes of a compressed snapshot by which the plan was made anew since the first one; 0: it is
    /// the first one.
    pub planned_by: u64,
    /// Bytes of the largest compressed snapshot of the shot so far, or for the start of a shot of the
    /// shot before: the next plan follows from it.
    pub largest: u64,
    /// With mixed storage, a hash of what its plans follow from; 0: all snapshots are stored alike.
    pub mixed: u64,
    /// If the shot told its number of time steps at the end of its forward phase: twice that number, and
    /// 1 more if the phase ended after the SAVE of its last state; else 0.
    pub end: u64,
    /// In how many records a state is stored.
    pub parts: u64,
    /// The statistics of the shot so far.
    pub stats: Stats,
}

/// Words of a position before its end, its parts and its statistics, the version included.
const HEAD: usize = 11;
/// The version of a position in a restart file, and of one that says its `end` and its `parts`. Where it
/// says nothing, it has no end and one part.
const VERSION: u64 = 2;
const VERSION_WITH_PARTS: u64 = 3;

impl Position {
    /// Returns the position as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let more = (self.end > 0 || self.parts > 1).then_some([self.end, self.parts]);
        let version = more.map_or(VERSION, |_| VERSION_WITH_PARTS);
        let head = [version, self.it as u64, self.schedule];
        let terms = self.terms.map(|term| term as u64);
        let rest = [self.recorded, self.plan, self.planned_by, self.largest, self.mixed];
        let words = head
            .into_iter()
            .chain(terms)
            .chain(rest)
            .chain(more.into_iter().flatten())
            .chain(self.stats.words());
        words.flat_map(u64::to_le_bytes).collect()
    }

    /// Reads what `to_bytes` returned.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self> {
        let words: Vec<u64> =
            bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let Some((
            &[version, it, schedule, a, b, c, recorded, plan, planned_by, largest, mixed],
            rest,
        )) = words.split_first_chunk::<HEAD>()
        else {
            return fail!(Stream, "the position of the shot has {} bytes only", bytes.len());
        };
        let (end, parts, stats) = match (version, rest) {
            (VERSION, stats) => (0, 1, stats),
            (VERSION_WITH_PARTS, [end, parts, stats @ ..]) => (*end, *parts, stats),
            _ => return fail!(Stream, "the position of the shot has version {version}: this library reads {VERSION} and {VERSION_WITH_PARTS}; go on with the library that wrote it"),
        };
        let terms = [a, b, c].map(|term| term as i64);
        let Some(stats) = Stats::of_words(stats) else {
            return fail!(Stream, "the position of the shot has statistics that no shot can have");
        };
        let it = it as i64;
        let position =
            Position { it, schedule, terms, recorded, plan, planned_by, ..Position::default() };
        Ok(Position { largest, mixed, end, parts, stats, ..position })
    }
}

/// Returns the state and the part of a record, by its number in an index of states in `parts` parts, of
/// which neighbouring ones are `every` time steps apart.
pub(super) fn state_and_part(record: u32, parts: usize, every: u32) -> (i64, usize) {
    let state = u64::from(record / parts as u32) * u64::from(every);
    (state as i64, record as usize % parts)
}

/// Returns the numbers of the states in an index of states `every` time steps apart that are stored without
/// a part 1: they share part 0 of the state before.
fn shared_states(stored: &[Stored], every: u32) -> impl Iterator<Item = u32> + '_ {
    let is_alone = move |(k, own): (usize, &Stored)| {
        let is_whole = stored.get(k + 1).is_some_and(|next| (next.ts, next.part) == (own.ts, 1));
        (own.part == 0 && !is_whole).then_some((own.ts / i64::from(every)) as u32)
    };
    stored.iter().enumerate().filter_map(is_alone)
}

/// Fails unless this session compresses the same snapshots as the one that wrote the restart files.
fn check_mixed(is_same: bool) -> Result<()> {
    match is_same {
        true => Ok(()),
        false => fail!(
            Config,
            "the restart files were written with other budgets, another profile, mixed_storage or codec_threads, and these decide which snapshots are \
             compressed: give the configuration that wrote the files, device_budget, host_budget, mixed_storage and codec_threads included"
        ),
    }
}

impl Session {
    /// Whether no shot is under way.
    pub fn is_between_shots(&self) -> bool {
        let is_over = self.shot.tick.is_none_or(|tick| tick.action.kind == Kind::Terminate);
        is_over && (self.shot.tick.is_none() || self.is_last_sweep())
    }

    /// Fails if the state within a shot cannot be written to a restart file.
    pub(super) fn check_within_shot(&self) -> Result<()> {
        self.schedule.modes(self.number)?.with(Mode::WithinShot, true).check()
    }

    /// Returns the start of the current shot, or, between shots, of the next one.
    pub(super) fn position_of_begin(&mut self) -> Result<Position> {
        let begin = Position { it: -1, ..self.position_of_shot()? };
        // The plan of this shot does not follow from this shot's own snapshots.
        let largest = if self.is_between_shots() { begin.largest } else { 0 };
        Ok(Position { largest, ..begin })
    }

    /// Returns a checksum of what decides which snapshots mixed storage compresses; 0: not mixed.
    fn mixed(&self) -> u64 {
        let tiers = self.tiers();
        tiers.raw_slots.map_or(0, |raw| {
            let cache = tiers.cache.map_or(u64::MAX, u64::from);
            let slots = [raw.into(), cache, self.basis.job.device_budget];
            hash(slots.into_iter().flat_map(u64::to_le_bytes)) | 1
        })
    }

    /// Returns what does not change within the current shot.
    fn position_of_shot(&self) -> Result<Position> {
        let schedule = self.schedule.of_all_shots()?;
        Ok(Position {
            schedule: schedule.fingerprint(self.schedule.config().schedule.range_actions)?,
            terms: schedule.terms(),
            recorded: (!schedule.has_terms()).into(),
            planned_by: self.engine_of_decision().map_or(0, |engine| engine.planned_by),
            largest: self.largest(),
            mixed: self.mixed(),
            parts: self.tiers().storage.cut as u64,
            ..Position::default()
        })
    }

    /// Returns what the current shot has come to, and the snapshots that the rest of the shot reads. All
    /// of these snapshots are placed and counted. The current action must be served.
    pub(super) fn position(&mut self, stream: Stream) -> Result<(Position, Vec<Kept>)> {
        self.check_served()?;
        let Some(tick) = self.shot.tick else { return fail!(State, "no action has come yet") };
        self.check_within_shot()?;
        let (schedule, end) = (self.schedule.decide()?, self.schedule.end()?);
        let (mut kept, mut plan) = (Vec::new(), 0);
        match &mut self.engine {
            // Nothing is stored yet.
            None => plan = self.plan()?.fingerprint(),
            Some(engine) => {
                engine.call(stream, "persist", |engine| engine.tiers.settle())?;
                let done = engine.done(tick.step, tick.action.kind);
                match &engine.whole {
                    Some(Whole { anew: Some(index), .. }) => {
                        kept = engine.tiers.plan().needed_from(Some(index), done)?;
                    }
                    _ => {
                        let index = engine.spec.index(&schedule, 0, [])?;
                        // The open plan of a forward phase grows: the whole one is not known.
                        let known = index.as_ref().map(|_| engine.whole_plan());
                        let whole = known.unwrap_or(engine.tiers.plan());
                        kept = whole.needed_from(index.as_ref(), done)?;
                        plan = whole.fingerprint();
                    }
                }
                self.count_saved();
            }
        }
        let end =
            end.map_or(0, |(steps, after_save)| u64::from(steps) << 1 | u64::from(after_save));
        let mut stats = self.stats()?;
        let early = self.engine.as_ref().map_or_else(Traffic::default, |e| e.tiers.early());
        stats.h2d_bytes -= early.h2d_bytes;
        stats.disk_bytes -= early.disk_bytes;
        stats.disk_reads -= early.disk_reads;
        let position = Position { it: tick.it, plan, end, stats, ..self.position_of_shot()? };
        Ok((position, kept))
    }

    /// Bytes of the largest compressed snapshot since the last setup.
    pub(super) fn largest(&self) -> u64 {
        let largest = self.engine.as_ref().map_or(0, |engine| engine.tiers.largest());
        largest.max(self.shot.largest_before)
    }

    /// Prepares the first shot of this session, which goes on at the start of a shot or within it.
    pub(super) fn go_on_from(&mut self, position: &Position) -> Result<()> {
        self.open()?;
        self.replan(position.planned_by)?;
        check_mixed(self.mixed() == position.mixed)?;
        self.shot.largest_before = position.largest;
        match position.it < 0 {
            true => self.setup(),
            false => Ok(()),
        }
    }

    /// Takes the schedule of `position`, and stores a state in as many records, if this session has decided
    /// otherwise.
    pub fn adopt(&mut self, position: &Position) -> Result<()> {
        let is_same = |tiers: &TierSpec| tiers.storage.cut as u64 == position.parts;
        if self.schedule.fingerprint()? == position.schedule && is_same(self.tiers()) {
            return Ok(());
        }
        let mut basis = self.basis.clone();
        basis.options.retain(is_same);
        if basis.options.is_empty() {
            return fail!(Config, "the restart files hold states in {} records: give the shared_levels and the algorithm that wrote the files", position.parts);
        }
        if basis.options.len() < self.basis.options.len() {
            self.decide_anew(Why::OtherTiers, basis)?;
        }
        if self.schedule.fingerprint()? == position.schedule {
            return Ok(());
        }
        let differs = |why: &str| {
            fail!(
                Config,
                "the restart files were written with another schedule{why}: give the configuration that wrote the files, budgets and profile included, or another folder"
            )
        };
        if position.recorded != 0 {
            return differs(", a recorded one");
        }
        self.schedule.decide_anew(Why::Terms(position.terms), None)?;
        match self.schedule.fingerprint()? == position.schedule {
            true => Ok(()),
            false => differs(""),
        }
    }

    /// An error of going on from restart files, which says so if the disk has less room than
    /// `disk_budget`: a plan may not fit that did fit the session that wrote the files.
    pub(super) fn on_less_disk(&self, error: Error) -> Error {
        let (room, budget) = (self.basis.job.disk_budget, self.basis.job.config.tiers.disk_budget);
        if room >= budget || !matches!(error.code, Code::Budget | Code::Config) {
            return error;
        }
        let folders = self.basis.job.config.disk_folders();
        let folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
        error.within(format_args!(
            "{} has room for {room} bytes of snapshots now, of disk_budget = {budget}: free space there, or name other folders in disk_path",
            folders.join(":")
        ))
    }

    /// Goes on with the shot of `position`, whose records of snapshots are `stored`: the next action is the
    /// one after `position.it`. `source` passes the bytes of record number k on to a function, piece by
    /// piece. The session is before the first action of a shot, with its device open.
    pub fn resume(
        &mut self,
        position: &Position,
        stored: &[Stored],
        stream: Stream,
        source: impl Fn(usize, &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        self.go_on_from(position)?;
        self.check_within_shot()?;
        let mut whole = self.plan()?;
        if position.end > 0 {
            let steps = u32::try_from(position.end >> 1).unwrap_or(u32::MAX);
            self.schedule.end_as((steps, position.end & 1 == 1))?;
            whole = self.schedule.plan(self.tiers())?;
        }
        let done = self.schedule.accesses_until(position.it)?;
        if let (true, Some(last)) = (whole.is_open(), done.checked_sub(1)) {
            Arc::make_mut(&mut whole).reach(last)?;
        }
        let schedule = self.schedule.decide()?;
        let (every, parts) = (schedule.macro_steps().every(), whole.parts());
        // The snapshots of a forward phase are the same ones wherever they lie.
        let is_same = whole.is_open() || whole.fingerprint() == position.plan;
        check_mixed(is_same || self.tiers().raw_slots.is_none())?;
        let (rest, loads, whole) =
            match self.tiers().index(&schedule, done, shared_states(stored, every))? {
                Some(index) if !is_same => {
                    let index = index.rest(done, self.tiers().storage.zero_copy)?;
                    let loads = index.accesses.len() + parts * done - whole.steps.len();
                    let loads = index.accesses[..loads].iter().step_by(parts);
                    let loads: Vec<u32> = loads.map(|access| access.ts).collect();
                    let rest = self.tiers().plan_of_rest(&index, schedule.snapshots)?;
                    let anew = Some(Box::new(index));
                    (rest, loads, Whole { plan: whole, ahead: 0, anew, kept: Vec::new() })
                }
                index => {
                    let kept = whole.needed_from(index.as_ref(), done)?;
                    let ahead = done as i64 - kept.len() as i64;
                    let rest = whole.rest(&kept, done)?;
                    let loads = kept.iter().map(|kept| kept.record).collect();
                    (rest, loads, Whole { plan: whole, ahead, anew: None, kept })
                }
            };
        let first = loads.len();
        let expected = loads.iter().map(|&record| state_and_part(record, parts, every));
        if !expected.eq(stored.iter().map(|stored| (stored.ts, stored.part))) {
            return fail!(
                Config,
                "the restart files hold {} records of snapshots at action {}, and not those of the schedule: give the configuration that wrote the files, shared_levels, budgets and profile included",
                stored.len(),
                position.it
            );
        }
        let rest = Arc::new(rest);
        if whole.anew.is_some() {
            // The rest may need other memory than the whole plan.
            let spec = self.tiers().clone();
            let planned_by = self.engine.take().map_or(0, |engine| engine.planned_by);
            self.make_engine(Some((&rest, &spec)))?;
            self.engine()?.planned_by = planned_by;
        }
        let engine = self.engine()?;
        engine.reset()?;
        engine.tiers.fit(rest)?;
        engine.whole = Some(whole);
        let loaded = engine.call(stream, "restart", |engine| {
            engine.uncounted(|engine| {
                let mut records = stored.iter().enumerate();
                records.try_for_each(|(k, stored)| {
                    engine.tiers.load(k, *stored, |sink| source(k, sink))
                })?;
                // What lanes compress anew was counted when it was saved.
                engine.tiers.settle()?;
                engine.tiers.saved().for_each(drop);
                Ok(())
            })
        });
        if let Err(error) = loaded {
            // No wrong state is left: the shot is prepared anew.
            self.setup()?;
            return Err(error);
        }
        let tick = self.schedule.resume(position.it, first)?;
        self.end_tuning();
        (self.shot.tick, self.shot.served, self.shot.sweep) = (Some(tick), true, tick.sweep);
        (self.shot.stats, self.shot.carried) = (position.stats.clone(), position.stats.clone());
        self.shot.since = Some(std::time::Instant::now());
        Ok(())
    }
}
