//! Saves and retrieves that copy between the session's memory and the application's own fields.

use super::Session;
use crate::choice::Tick;
use crate::device::{memory_of, AppField, AppMemory, Stream};
use crate::error::{fail, Result};
use crate::schedule::{flags, Kind};
use crate::tier::{Restored, Tiers};
use crate::together::Mode;

impl Session {
    /// Stores the live state u(ts) from `fields`, on `stream`. The current action must be SAVE
    /// `ts`.
    pub fn save(&mut self, ts: i64, fields: &[AppField], stream: Stream) -> Result<()> {
        let tick = self.expect(Kind::Save, ts)?;
        let memory = self.expect_fields(fields)?;
        self.place(fields)?;
        self.open()?;
        self.refuse_own(&memory)?;
        self.store(tick, stream, &memory, |tiers| tiers.save(tick.step, ts, &memory))?;
        self.shot.disjoint = memory;
        Ok(())
    }

    /// Copies the snapshot of u(ts) into `fields`, on `stream`. The current action must be RESTORE
    /// `ts`.
    pub fn retrieve(&mut self, ts: i64, fields: &[AppField], stream: Stream) -> Result<()> {
        let tick = self.expect(Kind::Restore, ts)?;
        let memory = self.expect_fields(fields)?;
        self.place(fields)?;
        self.refuse_own(&memory)?;
        let last = tick.action.flags & flags::LAST_USE != 0;
        self.fetch(stream, |tiers| Ok(((), tiers.restore(tick.step, ts, last, &memory)?)))?;
        self.shot.disjoint = memory;
        Ok(())
    }

    /// Serves the SAVE of `tick`: `body` plays the SAVE, for the state in `fields`.
    pub(super) fn store(
        &mut self,
        tick: Tick,
        stream: Stream,
        fields: &[AppMemory],
        body: impl FnOnce(&mut Tiers) -> Result<()>,
    ) -> Result<()> {
        self.compare(tick.action.ts.into(), fields, stream)?;
        let engine = self.engine()?;
        engine.tiers.reach(tick.step)?;
        engine.sample(tick.action.ts as i64, fields, stream)?;
        engine.call(stream, "save", |engine| body(&mut engine.tiers))?;
        engine.acquired = None;
        self.shot.stats.save += engine.seconds;
        self.shot.stats.saves += 1;
        self.count_saved();
        self.shot.served = true;
        self.timeline_call();
        Ok(())
    }

    /// Serves the current RESTORE: `body` plays the RESTORE, and returns a result, which this
    /// function returns, and what the RESTORE found.
    pub(super) fn fetch<R>(
        &mut self,
        stream: Stream,
        body: impl FnOnce(&mut Tiers) -> Result<(R, Restored)>,
    ) -> Result<R> {
        let engine = self.engine()?;
        let (result, Restored { moved, prefetched, late }) =
            engine.call(stream, "restore", |engine| body(&mut engine.tiers))?;
        engine.acquired = None;
        self.shot.stats.restore += engine.seconds;
        self.count_saved();
        self.shot.check.from = self.shot.tick.map_or(0, |tick| tick.action.ts.into());
        self.shot.stats.restores += 1;
        self.shot.stats.misses += u64::from(moved > 0);
        self.shot.stats.h2d += u64::from(moved);
        self.shot.stats.hits += u64::from(moved == 0);
        self.shot.stats.prefetches += u64::from(prefetched);
        self.shot.stats.late_prefetches += u64::from(late);
        self.shot.served = true;
        self.timeline_call();
        Ok(result)
    }

    /// Blocks the calling thread until every save and retrieve so far has finished with its fields.
    pub fn synchronize(&mut self) -> Result<()> {
        self.process.check()?;
        self.engine.as_mut().map_or(Ok(()), |engine| engine.finish())
    }

    /// Checks that the current action is `kind` of state `ts` and that no call has served it yet.
    pub(super) fn expect(&self, kind: Kind, ts: i64) -> Result<Tick> {
        self.process.check()?;
        let call = if kind == Kind::Save { "save" } else { "retrieve" };
        let Some(tick) = self.shot.tick else {
            return fail!(State, "{call} of state {ts} before the first action");
        };
        let (current, at) = (tick.action.kind, tick.action.ts);
        if (current, at as i64) != (kind, ts) {
            let remedy = match current {
                Kind::Save => "call gpuzip_save for it",
                Kind::Restore => "call gpuzip_retrieve for it",
                _ => "do its work, and call gpuzip_get_action for the next one",
            };
            let current = current.name();
            return fail!(
                State,
                "{call} of state {ts}: the current action is {current} {at}: {remedy}"
            );
        }
        if self.shot.served {
            return fail!(State, "{call} of state {ts}: it is done already");
        }
        Ok(tick)
    }

    /// Fails if the first save or retrieve of a run by callbacks would refuse these fields: the
    /// application learns at once what it would otherwise learn hours later. With `located`, a
    /// callback gives the addresses of the fields before each save and retrieve, and the addresses
    /// in `fields` are not checked.
    pub fn check_run(&mut self, fields: &[AppField], located: bool) -> Result<()> {
        self.basis.job.config.modes().with(Mode::Run, true).check()?;
        if located {
            self.check_shapes(fields)
        } else {
            self.expect_fields(fields).map(drop)
        }
    }

    pub(super) fn check_count(&self, nfields: usize) -> Result<()> {
        let count = self.basis.layout.fields.len();
        if nfields != count {
            return fail!(Shape, "{nfields} fields: the session has {count}: give those of gpuzip_init, in their order");
        }
        Ok(())
    }

    /// Refuses fields that differ from the session's fields in number, shape or type.
    pub(super) fn check_shapes(&self, fields: &[AppField]) -> Result<()> {
        self.check_count(fields.len())?;
        for (i, (given, expected)) in fields.iter().zip(&self.basis.layout.fields).enumerate() {
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

    /// Returns the memory of `fields`, whose shapes must be the session's and which must not
    /// overlap.
    pub(super) fn expect_fields(&mut self, fields: &[AppField]) -> Result<Vec<AppMemory>> {
        self.check_shapes(fields)?;
        // `check_disjoint` takes longer, the more the rows of different fields alternate in memory,
        // so fields at the addresses of the last call are not checked again.
        let last = std::mem::take(&mut self.shot.disjoint);
        if last.iter().map(Some).eq(fields.iter().map(|field| field.memory.as_ref())) {
            return Ok(last);
        }
        memory_of(fields)
    }

    /// Refuses fields that lie in the memory where this session keeps its snapshots, which is also
    /// the memory that it hands out for zero copy.
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
