//! One generation of restart files: what a session writes into it, and how a session goes on from it.

use super::array::{fill, match_arrays, put, Array};
use super::persist::Persist;
use super::restart::{state_and_part, Position};
use super::Session;
use crate::choice::Cut;
use crate::codec::{Method, Settings, CODECS};
use crate::device::Stream;
use crate::error::{fail, text, Code, Result};
use crate::fallible_vec::push;
use crate::files::hash;
use crate::layout::Field;
use crate::persist::{
    Fingerprint, Header, Kind, Meaning, Name, Reader, RecordHead, Shapes, PREVIOUS_LEVEL, SHAPES,
    SNAPSHOT,
};
use crate::plan::Kept;
use crate::stop;
use crate::tier::Stored;
use std::time::Instant;

/// The name of the record that holds the position of the shot.
const POSITION: &str = "gpuzip position";
/// The name of the fingerprint's value that stands for types, extents and roles of the fields of a state.
const FIELDS: &str = "fields";
/// The start of the names that arrays of the application cannot have.
const OWN_NAMES: &str = "gpuzip ";
/// The name of the record that holds the checksums of the live state's level, 8 bytes each.
const LEVEL_SUMS: &str = "gpuzip level checksums";
/// Most shapes of fields that a message lists.
const MOST_SHAPES: usize = 8;

/// What `persist_write` is asked to write.
#[derive(Clone, Copy)]
struct Asked<'a> {
    shot: i64,
    arrays: &'a [Array],
    stream: Stream,
}

impl Session {
    /// What must be equal in the session that wrote a generation and in one that goes on from it. The
    /// schedule is compared when the generation is read.
    fn fingerprint(&mut self) -> Result<Fingerprint> {
        let macro_steps = self.schedule.macro_steps();
        self.schedule.decide()?;
        let compression = &self.tiers().storage.codec;
        let shapes = shapes_of(&self.basis.layout.fields);
        let fields = fields_number(&self.basis.layout.fields);
        let is_coded = self.codec_number() != 0;
        // Sequences and fill values came later than restart files, which have no word of them where there are none.
        let text = format!("{compression:?}").replace(", sequences: false", "");
        let text = text.replace(", fill_value: None", "");
        let settings = if is_coded { hash(text.bytes()) } else { 0 };
        let codec_text = settings_text(compression);
        let codecs = CODECS.iter().map(|codec| (codec.number.into(), codec.name));
        let mut fingerprint = Fingerprint::new();
        fingerprint.add("steps", macro_steps.time_steps().into())?;
        fingerprint.add_with(FIELDS, fields, Meaning::HashOf(shapes))?;
        fingerprint.add("adjoint_every", macro_steps.every().into())?;
        if let check @ 1.. = self.schedule.config().schedule.check {
            fingerprint.add("check", check.into())?;
        }
        fingerprint.add("range_actions", self.schedule.config().schedule.range_actions.into())?;
        let codecs = Meaning::OneOf(codecs.collect());
        fingerprint.add_with("compressor", self.codec_number().into(), codecs)?;
        fingerprint.add_with("the codec's settings", settings, Meaning::HashOf(codec_text))?;
        Ok(fingerprint)
    }

    fn codec_number(&self) -> u32 {
        u32::from(self.tiers().storage.codec.method.number())
    }

    /// Checks the arrays of a call, and opens the device that copies them.
    fn expect_arrays(&mut self, arrays: &[Array]) -> Result<()> {
        let mut fields = Vec::new();
        for (k, array) in arrays.iter().enumerate() {
            array.memory()?;
            if arrays[..k].iter().any(|other| other.name == array.name) {
                return fail!(Argument, "array {}: two arrays have this name", array.name);
            }
            push(&mut fields, array.field)?;
        }
        self.reach(&fields)
    }

    /// Writes a generation: between shots, of the start of shot `shot`; within a shot, of the current
    /// action, which must be served. If a stop was requested, a generation of the start of the shot comes
    /// first, if there is none, and the one of the action only if it is expected to be done in time. All
    /// ranks call this together.
    pub fn persist_write(&mut self, shot: i64, arrays: &[Array], stream: Stream) -> Result<()> {
        self.with_persist(|session, persist| {
            let begin = Instant::now();
            let written = session.write_due(persist, Asked { shot, arrays, stream });
            persist.is_unsettled = true;
            persist.waited(begin);
            written
        })
    }

    fn write_due(&mut self, persist: &mut Persist, asked: Asked) -> Result<()> {
        let settled = persist.settle_all();
        let is_stopping = !persist.all(stop::seconds_left().is_none())?;
        if settled.is_err() && !is_stopping {
            return settled;
        }
        self.write_now(persist, asked, is_stopping)?;
        // The last generations are worth more than the report that an earlier one is lost.
        settled.or_else(|earlier| {
            persist.settle_all()?;
            Err(earlier
                .within("the generation of this stop is on the disk, and an earlier one failed"))
        })
    }

    /// Writes what is due. Whatever fails on this rank alone, it asks the other ranks as often as they
    /// ask it.
    fn write_now(&mut self, persist: &mut Persist, asked: Asked, is_stopping: bool) -> Result<()> {
        let is_between = self.is_between_shots();
        let kept = self.keep_stages(persist);
        let prepared = kept.and_then(|()| self.prepare(asked, is_between || is_stopping));
        let begin = persist.together(prepared)?;
        let (all, none) = (persist.all(is_between)?, persist.all(!is_between)?);
        if !all && !none {
            return fail!(State, "some ranks are between two shots and others within a shot: all ranks write a generation at the same action");
        }
        if is_between {
            let written = self.write_generation(persist, asked, &begin, &[]);
            return persist.together(written);
        }
        let (shot, position) = (asked.shot, self.position(asked.stream));
        if is_stopping && !persist.all(persist.held_shot == Some(shot))? {
            // Nothing holds this shot. Its start is worth most and has the fewest bytes.
            let written = self.write_generation(persist, asked, &begin, &[]);
            persist.together(written)?;
            persist.settle_all()?;
        }
        let shots_only = !persist.all(self.check_within_shot().is_ok())?;
        if is_stopping && shots_only {
            return Ok(());
        }
        let (position, kept) = persist.together(position)?;
        if is_stopping {
            let bytes = self.expected_bytes(asked.arrays, &kept);
            let (left, needed) =
                (stop::seconds_left().unwrap_or(f64::INFINITY), persist.expected_seconds(bytes));
            if !persist.all(needed <= left)? {
                let why = match needed <= left {
                    true => "another rank has no time for its part".into(),
                    false => text(format_args!(
                        "{left:.2} s are left, and its {bytes} bytes would take {needed:.2} s (stop_budget_s gives more)"
                    )),
                };
                log::warn!("stop: the state within shot {shot} is not written: {why}. The run goes on from its last generation of this shot");
                return Ok(());
            }
        }
        let written = self.write_generation(persist, asked, &position, &kept);
        persist.together(written)
    }

    /// Checks what a generation is to be of, and returns the start of the current or the next shot, if
    /// a generation of it may be written.
    fn prepare(&mut self, Asked { shot, arrays, .. }: Asked, begins: bool) -> Result<Position> {
        if shot < 0 {
            return fail!(Argument, "shot = {shot}: shots are numbered from 0");
        }
        for Array { name, .. } in arrays {
            if name.as_str().starts_with(OWN_NAMES) {
                return fail!(Argument, "array {name}: names that begin with \"{OWN_NAMES}\" are the library's own: give it another name");
            }
        }
        self.expect_arrays(arrays)?;
        match begins {
            true => self.position_of_begin(),
            false => Ok(Position::default()),
        }
    }

    /// Bytes of a generation within a shot, at most.
    fn expected_bytes(&self, arrays: &[Array], kept: &[Kept]) -> u64 {
        let arrays = arrays.iter().map(|array| array.field.field.bytes().unwrap_or(0)).sum::<u64>();
        let each = match self.largest() {
            0 => self.basis.layout.slot_bytes,
            largest => largest.min(self.basis.layout.slot_bytes),
        };
        arrays.saturating_add(each.saturating_mul(kept.len() as u64))
    }

    fn write_generation(
        &mut self,
        persist: &mut Persist,
        Asked { shot, arrays, stream }: Asked,
        position: &Position,
        kept: &[Kept],
    ) -> Result<()> {
        let (begin, it) = (Instant::now(), position.it);
        let header = Header { fingerprint: self.fingerprint()?, shot, it };
        let mut writer = persist.store()?.begin(header)?;
        let mut arrays = arrays.iter().filter(|array| it >= 0 || !array.changes_within);
        let shape = |array: &Array| Field { previous_of: None, ..array.field.field };
        let of_arrays = arrays.clone().map(shape);
        let shapes =
            Shapes { state: self.basis.layout.fields.clone(), arrays: of_arrays.collect() };
        let codec = self.codec_number();
        let parts = match self.tiers().storage.cut {
            Cut::Whole => vec![self.basis.layout.raw_bytes],
            Cut::Levels => self.basis.layout.raw_bytes_by_level(),
        };
        let every = self.schedule.macro_steps().every();
        let written = match &mut self.engine {
            None => arrays.try_for_each(|array| put(&mut writer, None, array)).map(|()| Vec::new()),
            // An error of a file must not break the shot.
            Some(engine) => engine.call(stream, "persist", |engine| {
                engine.tiers.settle()?;
                let device = engine.tiers.device();
                let put = |array| put(&mut writer, Some(&mut *device), array);
                if let Err(error) = arrays.try_for_each(put) {
                    return Ok(Err(error));
                }
                let mut pass = |of: Stored, piece: Option<&[u8]>| match piece {
                    Some(piece) => writer.write(piece),
                    None => writer.record(head_of(of, codec, parts[of.part])?),
                };
                let sums = if it >= 0 { engine.tiers.sums()? } else { Vec::new() };
                Ok(engine.uncounted(|engine| {
                    let of = |kept: &Kept| state_and_part(kept.record, parts.len(), every);
                    for (k, stored) in kept.iter().enumerate() {
                        let later = kept[k + 1..].iter().filter(|kept| of(kept).1 == 0);
                        let later = later.map(|kept| (of(kept).0, kept.at)).take(2);
                        let later: Vec<_> = later.collect();
                        engine.tiers.read_stored(stored.at, of(stored), &later, &mut pass)?;
                    }
                    Ok(sums)
                }))
            })?,
        };
        let sums: Vec<u8> = written?.into_iter().flat_map(u64::to_le_bytes).collect();
        let mut put_own = |name: &str, bytes: &[u8]| {
            let (kind, name, raw_bytes) = (Kind::Other, Name::new(name)?, bytes.len() as u64);
            let (codec, stored_bytes) = (0, raw_bytes);
            writer.record(RecordHead { kind, name, ts: it, codec, raw_bytes, stored_bytes })?;
            writer.write(bytes)
        };
        if !sums.is_empty() {
            put_own(LEVEL_SUMS, &sums)?;
        }
        put_own(SHAPES, &shapes.to_bytes()?)?;
        put_own(POSITION, &position.to_bytes())?;
        let finished = writer.finish()?;
        let (generation, bytes) = (finished.generation(), finished.bytes());
        let held = finished.held_bytes();
        persist.publish(finished, begin.elapsed().as_secs_f64(), shot)?;
        log::info!(
            "generation {generation}: {bytes} bytes, and {held} that older ones hold, shot {shot}, action {it}"
        );
        Ok(())
    }

    /// Finds the newest generation that is right on all ranks, which `persist_read` reads. All ranks call
    /// this together.
    pub fn persist_find(&mut self) -> Result<Option<&Reader>> {
        self.with_persist(|session, persist| {
            persist.settle_all()?;
            let expected = persist.together(session.fingerprint())?;
            persist.find(&expected)
        })?;
        Ok(self.persist.as_ref().and_then(|persist| persist.found.as_ref()))
    }

    /// Goes on from the generation that `persist_find` found: fills the arrays, and moves the session to
    /// where the generation was written.
    pub fn persist_read(&mut self, arrays: &[Array], stream: Stream) -> Result<()> {
        self.with_persist(|session, persist| {
            let Some(reader) = persist.found.take() else {
                return fail!(State, "there is no generation to read: call gpuzip_persist_find first, which finds one");
            };
            session.read_generation(&reader, arrays, stream)?;
            persist.store()?.went_on(reader.origin);
            persist.held_shot = Some(reader.header.shot);
            Ok(())
        })
    }

    fn read_generation(&mut self, reader: &Reader, arrays: &[Array], stream: Stream) -> Result<()> {
        if !self.is_between_shots() {
            return fail!(State, "a shot is under way: a restart file is read before its first action; call gpuzip_setup first");
        }
        let within = reader.header.it >= 0;
        let position = position_of(reader)?;
        let places = match_arrays(reader, arrays, within)?;
        self.expect_arrays(arrays)?;
        // Nothing is changed if the file was damaged since it was found.
        let number = reader.origin.generation;
        reader.verify().map_err(|e| e.within(format_args!("generation {number}")))?;
        self.setup()?;
        let gone_on = self.go_on_with(reader, &position, &places, stream);
        let gone_on = gone_on.map_err(|error| match self.on_less_disk(error) {
            error if error.code == Code::Budget => error.within(
                "the run goes on with the schedule of its restart files, which needs the budgets of the run that wrote them: give device_budget, host_budget and disk_budget of that run, or begin anew in another folder",
            ),
            error => error,
        });
        if gone_on.is_err() {
            self.stop(
                "a restart file was not read completely, and the arrays may hold a part of it",
            );
        }
        gone_on
    }

    /// Moves the session to `position`, and fills the arrays last: until then a failure changes none.
    fn go_on_with(
        &mut self,
        reader: &Reader,
        position: &Position,
        places: &[(usize, &Array)],
        stream: Stream,
    ) -> Result<()> {
        let within = position.it >= 0;
        if within || self.codec_number() != 0 {
            self.adopt(position)?;
            self.open()?;
        }
        if within {
            let (mut snapshots, mut numbers) = (Vec::new(), Vec::new());
            for (k, record) in reader.records.iter().enumerate() {
                let RecordHead { kind, name, ts, codec, stored_bytes: bytes, .. } = record.head;
                if kind == Kind::Snapshot {
                    let part = usize::from(name == Name::new(PREVIOUS_LEVEL)?);
                    push(&mut snapshots, Stored { ts, part, bytes, is_coded: codec != 0 })?;
                    push(&mut numbers, k)?;
                }
            }
            self.resume(position, &snapshots, stream, |k, sink| reader.read(numbers[k], sink))?;
            let words = reader.own(LEVEL_SUMS)?.unwrap_or_default();
            let words: Vec<u64> =
                words.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
            self.engine()?.call(stream, "restart", |engine| engine.tiers.take_sums(&words))?;
        } else {
            self.go_on_from(position)?;
        }
        let mut places = places.iter();
        match &mut self.engine {
            None => places.try_for_each(|&(k, array)| fill(reader, k, None, array)),
            Some(engine) => engine.call(stream, "restart", |engine| {
                let device = engine.tiers.device();
                places.try_for_each(|&(k, array)| fill(reader, k, Some(device), array))
            }),
        }
    }
}

/// Returns the number that stands for types, extents and roles of the fields of a state in the fingerprint of a
/// generation: a hash of them.
fn fields_number(fields: &[Field]) -> u64 {
    let numbers = fields.iter().flat_map(|field| {
        let role = field.previous_of.map_or(0, |field| field + 1);
        field.n.into_iter().chain([field.scalar as u64, role.into()])
    });
    hash(numbers.flat_map(u64::to_le_bytes))
}

/// Returns types and extents of the fields of a state for a message, equal neighbours once.
fn shapes_of(fields: &[Field]) -> String {
    let is_equal = |a: &Field, b: &Field| (a.n, a.scalar) == (b.n, b.scalar);
    let parts = fields.chunk_by(is_equal).map(|equal| match equal.len() {
        1 => equal[0].to_string(),
        count => format!("{count} times {}", equal[0]),
    });
    let parts: Vec<String> = parts.take(MOST_SHAPES).collect();
    format!("{} ({} in all)", parts.join(", "), fields.len())
}

/// Returns the settings of a codec for a message, by the keys of the configuration.
fn settings_text(settings: &Settings) -> String {
    let (mode, bound) = settings.bound.key();
    if let Some(fill) = settings.fill_value {
        let others = settings_text(&Settings { fill_value: None, ..settings.clone() });
        return format!("{others}, fill_value {fill}");
    }
    match settings.method {
        _ if settings.sequences => {
            format!("error_bound {bound} of error_bound_mode {mode}, sequences 1")
        }
        Method::None => "none".into(),
        Method::Zfp { rate } => format!("{rate} bits per value"),
        Method::Bitcomp { sparse } => {
            format!("error_bound {bound} of error_bound_mode {mode}, sparse {}", u8::from(sparse))
        }
        _ => format!("error_bound {bound} of error_bound_mode {mode}"),
    }
}

fn head_of(stored: Stored, codec: u32, raw_bytes: u64) -> Result<RecordHead> {
    let Stored { ts, part, bytes, is_coded } = stored;
    Ok(RecordHead {
        kind: Kind::Snapshot,
        name: Name::new(if part == 0 { SNAPSHOT } else { PREVIOUS_LEVEL })?,
        ts,
        codec: if is_coded { codec } else { 0 },
        raw_bytes: if is_coded { raw_bytes } else { bytes },
        stored_bytes: bytes,
    })
}

/// Reads the position of the shot.
fn position_of(reader: &Reader) -> Result<Position> {
    let Some(bytes) = reader.own(POSITION)? else {
        return fail!(
            Stream,
            "the generation does not say where the run stopped: another program wrote it"
        );
    };
    let position = Position::of_bytes(&bytes)?;
    let (start, it) = (reader.header.it, position.it);
    if start != it {
        return fail!(
            Stream,
            "the generation is of action {start} by its start and of action {it} by its content"
        );
    }
    Ok(position)
}
