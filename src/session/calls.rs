//! Saves and retrieves of the application's own fields.

use super::Session;
use crate::choice::Tick;
use crate::device::{check_disjoint, AppField, AppMemory, Stream};
use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::plan::{Step, NONE};
use crate::schedule::{flags, trace, Kind};
use crate::tier::{PreviousLevels, Tiers};
use std::time::Instant;

impl Session {
    /// Stores the live state u(ts).
    pub fn save(&mut self, ts: i64, fields: &[AppField], stream: Stream) -> Result<()> {
        let tick = self.expect(Kind::Save, ts)?;
        let memory = self.expect_fields(fields)?;
        self.place(fields)?;
        self.open()?;
        self.refuse_own(&memory)?;
        self.store(tick, stream, &memory, |tiers, step, previous_levels, _| {
            tiers.save(step, previous_levels, ts, &memory)
        })
    }

    /// Makes u(ts) live in the fields.
    pub fn retrieve(&mut self, ts: i64, fields: &[AppField], stream: Stream) -> Result<()> {
        let tick = self.expect(Kind::Restore, ts)?;
        let memory = self.expect_fields(fields)?;
        self.place(fields)?;
        self.refuse_own(&memory)?;
        let last = tick.action.flags & flags::LAST_USE != 0;
        self.fetch(tick, stream, |tiers, step, previous_levels, _| {
            Ok(((), tiers.restore(step, previous_levels, ts, last, &memory)?))
        })
    }

    /// A SAVE of these fields, done by `body` on its step and spare slot.
    pub(super) fn store(
        &mut self,
        tick: Tick,
        stream: Stream,
        fields: &[AppMemory],
        body: impl FnOnce(&mut Tiers, Step, PreviousLevels, u32) -> Result<()>,
    ) -> Result<()> {
        let engine = self.engine()?;
        engine.sample(tick.action.ts as i64, fields, stream)?;
        let begin = Instant::now();
        let (step, spare) = (engine.plan.steps[tick.event], engine.spare(tick.event));
        let previous_levels = engine.plan.previous_levels(tick.event);
        engine.call(stream, "save", |engine| {
            body(&mut engine.tiers, step, previous_levels, spare)?;
            engine.issue_after(tick.event)
        })?;
        engine.acquired = None;
        self.stats.saves += 1;
        self.count_saved();
        self.served = true;
        self.stats.save += begin.elapsed().as_secs_f64();
        self.trace_call();
        Ok(())
    }

    /// A RESTORE, done by `body` on its step and spare slot.
    pub(super) fn fetch<R>(
        &mut self,
        tick: Tick,
        stream: Stream,
        body: impl FnOnce(&mut Tiers, Step, PreviousLevels, u32) -> Result<(R, bool)>,
    ) -> Result<R> {
        let begin = Instant::now();
        let engine = self.engine()?;
        let (step, spare) = (engine.plan.steps[tick.event], engine.spare(tick.event));
        let prefetched = step.host != NONE && step.slot != NONE && engine.is_issued(tick.event);
        let ((result, moved), late) = engine.call(stream, "restore", |engine| {
            engine.issue_for(tick.event)?;
            let late = prefetched && engine.tiers.is_late(step)?;
            let previous_levels = engine.plan.previous_levels(tick.event);
            let result = body(&mut engine.tiers, step, previous_levels, spare)?;
            engine.issue_after(tick.event)?;
            Ok((result, late))
        })?;
        engine.acquired = None;
        self.count_saved();
        self.stats.restores += 1;
        self.stats.misses += u64::from(moved);
        self.stats.h2d += u64::from(moved);
        self.stats.hits += u64::from(!moved);
        self.stats.prefetches += u64::from(prefetched);
        self.stats.late_prefetches += u64::from(late);
        self.served = true;
        self.stats.restore += begin.elapsed().as_secs_f64();
        self.trace_call();
        Ok(result)
    }

    /// Blocks the calling thread until all saves and retrieves so far have read and written their
    /// fields.
    pub fn synchronize(&mut self) -> Result<()> {
        self.process.check()?;
        self.engine.as_mut().map_or(Ok(()), |engine| engine.finish())
    }

    /// Checks that the current action is `kind` of `ts` and still to be served.
    pub(super) fn expect(&self, kind: Kind, ts: i64) -> Result<Tick> {
        self.process.check()?;
        let call = if kind == Kind::Save { "save" } else { "retrieve" };
        let Some(tick) = self.tick else {
            return fail!(State, "{call} of state {ts} before the first action");
        };
        let action = tick.action;
        if action.kind != kind || action.ts as i64 != ts {
            return fail!(
                State,
                "{call} of state {ts}: the current action is {} {}",
                trace::name(action.kind),
                action.ts
            );
        }
        if self.served {
            return fail!(State, "{call} of state {ts}: it is done already");
        }
        Ok(tick)
    }

    /// Refuses a run by callbacks with fields that its first save or retrieve would refuse, perhaps
    /// hours later. Where a callback says before each of them where the fields are, `located`,
    /// their data does not count.
    pub fn check_run(&mut self, fields: &[AppField], located: bool) -> Result<()> {
        if self.config.zero_copy {
            return fail!(Unsupported, "zero_copy = 1: a run copies the fields; use 0, or gpuzip_get_action instead of the run");
        }
        if located {
            self.check_shapes(fields)
        } else {
            self.expect_fields(fields).map(drop)
        }
    }

    pub(super) fn check_count(&self, nfields: usize) -> Result<()> {
        if nfields != self.layout.fields.len() {
            return fail!(Shape, "{nfields} fields: the session has {}", self.layout.fields.len());
        }
        Ok(())
    }

    /// Refuses fields that differ from those of the session in number, shape or type.
    pub(super) fn check_shapes(&self, fields: &[AppField]) -> Result<()> {
        self.check_count(fields.len())?;
        for (i, (given, expected)) in fields.iter().zip(&self.layout.fields).enumerate() {
            if given.field.n != expected.n || given.field.scalar != expected.scalar {
                return fail!(
                    Shape,
                    "field {i} is {:?} of {}: the session has {:?} of {}",
                    given.field.n,
                    given.field.scalar.name(),
                    expected.n,
                    expected.scalar.name()
                );
            }
        }
        Ok(())
    }

    /// The memory of the fields, which have to be those of the session.
    pub(super) fn expect_fields(&mut self, fields: &[AppField]) -> Result<Vec<AppMemory>> {
        self.check_shapes(fields)?;
        let named = |(i, field): (usize, &AppField)| match field.memory {
            Some(memory) => Ok(memory),
            None => fail!(Argument, "field {i}: data is NULL"),
        };
        let memory: Vec<AppMemory> = fields.iter().enumerate().map(named).collect::<Result<_>>()?;
        // The check is the longer, the more rows of different fields alternate in memory: the same
        // memory is checked once.
        if memory != self.disjoint {
            check_disjoint(&memory)?;
            self.disjoint = fallible_vec::copied(&memory)?;
        }
        Ok(memory)
    }

    /// Refuses fields in the memory that this session keeps its snapshots in, or hands out for zero
    /// copy.
    pub(super) fn refuse_own(&mut self, fields: &[AppMemory]) -> Result<()> {
        let Some(engine) = &mut self.engine else { return Ok(()) };
        let device = engine.tiers.device();
        match fields.iter().enumerate().find(|(_, field)| device.owns(**field)) {
            None => Ok(()),
            Some((i, field)) => fail!(
                Argument,
                "field {i}: {:p} is memory of this session: save what was computed there by gpuzip_save_begin and gpuzip_save_commit, and give \
                 save and retrieve the application's own memory",
                field.address()
            ),
        }
    }
}
