//! Snapshots on a device: the work of [`SnapshotCodec`](crate::codec::SnapshotCodec), done by the
//! kernels of kernels/snapshot.cu.

use super::{blocks, kernels, send, sum, GpuCoder, Kernel, Kernels, Modules, Values};
use crate::codec::snapshot_codec::not_finite;
use crate::codec::streams::{self, shapes_of, Record, Streams};
use crate::codec::table::CODECS;
use crate::codec::{Delta, ErrorBound, Settings, Shape};
use crate::device::cuda::{Argument, DeviceSlab, Source};
use crate::device::Queue;
use crate::error::{fail, Result};
use crate::layout::{aligned, Layout, Parts};
use crate::scalar::Scalar;
use std::ops::Range;

const THREADS: u32 = 256;
/// Threads of the kernels with one block that decide and write few words.
const WARP: u32 = 32;
/// Values per thread in a pass over an array: enough to hide the time of the reductions.
const EACH: u64 = 16;

/// Sizes in bytes of the structures in device memory that kernels/snapshot.cu declares.
const JOB: u64 = 160;
const SURVEY: u64 = 48;
const FIELD: usize = 48;
const GROUP: usize = 24;
const SETTINGS: usize = 48;
/// Largest number of blocks that sum the moments of an array; every block has one partial sum.
const SUMS: u64 = 1024;

const KERNELS: Kernels = kernels!("snapshot", "snapshot.cu");

/// Returns all kernel sources, to be compiled in advance.
pub fn sources() -> Vec<Source> {
    let of_codecs = CODECS.iter().flat_map(|codec| codec.kernels);
    let both = |kernels: &Kernels| [Scalar::F32, Scalar::F64].map(|scalar| kernels.of(scalar));
    let sources = [KERNELS].iter().chain(of_codecs).flat_map(both);
    sources.chain([sum::KERNELS.of(Scalar::F32)]).collect()
}

/// The result of coding or decoding a snapshot, stored by the last kernel of the call.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Bytes of the record of each part.
    pub bytes: [u64; 2],
    base: [u64; 2],
    error: u32,
    field: u32,
    count: u64,
}

impl Report {
    /// Returns the bytes of the record of each part, or the error that the kernels found.
    pub fn check(&self) -> Result<[u64; 2]> {
        match self.error {
            0 => Ok(self.bytes),
            1 => not_finite(self.field as usize, self.count),
            _ => fail!(Stream, "the stream of field {} of a snapshot is damaged", self.field),
        }
    }
}

/// The kernels for values of one type.
#[derive(Clone, Copy)]
struct Typed {
    survey: Kernel,
    moments: Kernel,
    fill: Kernel,
    spread: Kernel,
}

/// A field of the snapshot, in the order of the streams.
struct Stream {
    /// Number of the field in the layout.
    field: usize,
    /// The part of a state that the field is of.
    part: usize,
    shape: Shape,
    /// For a previous time level: the index, in the order of the streams, of its later level.
    later: Option<usize>,
    typed: Typed,
    coder: usize,
}

/// Codes the snapshots of one layout on one device. All memory is allocated when the codec is made,
/// once for all parts.
pub struct GpuCodec {
    /// The order of the streams, and the records in which they lie.
    records: Streams,
    /// True if the bound depends on standard deviations.
    statistical: bool,
    streams: Vec<Stream>,
    coders: Coders,
    /// The modules of the kernels, which stay loaded as long as this object lives.
    _modules: Modules,
    prepare: Kernel,
    sigma: Kernel,
    decide: Kernel,
    seal: Kernel,
    open: Kernel,
    verify: Kernel,
    judge: Kernel,
    conclude: Kernel,
    memory: DeviceSlab,
    at: Addresses,
}

/// Addresses in the device memory of a codec, all multiples of 256.
#[derive(Clone, Copy, Default)]
struct Addresses {
    settings: u64,
    fields: u64,
    groups: u64,
    surveys: u64,
    jobs: u64,
    errors: u64,
    state: u64,
    sums: u64,
    kept: u64,
    scratch: u64,
    end: u64,
}

impl Addresses {
    /// Addresses everything from the address `base` on.
    fn of(layout: &Layout, coders: &[Box<dyn GpuCoder>], statistical: bool, base: u64) -> Self {
        let fields = layout.fields.len() as u64;
        let groups = layout.fields.iter().filter(|f| f.previous_of.is_none()).count() as u64;
        let sums = if statistical { SUMS } else { 0 };
        let kept = coders.iter().map(|c| aligned(c.kept())).sum();
        let scratch = coders.iter().map(|c| c.scratch()).max().unwrap_or(0);
        let mut end = base;
        let mut take = |bytes: u64| {
            let at = end;
            end = aligned(end.saturating_add(bytes));
            at
        };
        let mut at = Addresses {
            settings: take(SETTINGS as u64),
            fields: take(fields * FIELD as u64),
            groups: take(groups * GROUP as u64),
            surveys: take((2 * fields + 1) * SURVEY),
            jobs: take(2 * fields * JOB),
            errors: take(8 * fields),
            state: take(size_of::<Report>() as u64),
            sums: take(8 * sums),
            kept: take(kept),
            scratch: take(scratch),
            end: 0,
        };
        at.end = end;
        at
    }
}

impl GpuCodec {
    /// Makes a codec for snapshots of `layout`, cut into `parts`, on a device of this architecture, in
    /// the current context. Copies tables to the device through `queue`, and does not wait for the device.
    pub fn new(
        settings: &Settings,
        layout: &Layout,
        parts: &Parts,
        architecture: u32,
        queue: &Queue,
    ) -> Result<Self> {
        let mut modules = Modules::new(architecture);
        let records = Streams::new(settings, layout, parts)?;
        let (coders, coder_of) = coders_of(settings, layout, &mut modules)?;
        let shapes: Vec<Shape> = shapes_of(layout).collect();
        let mut streams: Vec<Stream> = Vec::new();
        for &field in &records.order {
            let (shape, coder) = (shapes[field], coder_of[field]);
            let source = KERNELS.of(shape.scalar);
            let typed = Typed {
                survey: modules.kernel(&source, c"snapshot_survey", THREADS)?,
                moments: modules.kernel(&source, c"snapshot_moments", THREADS)?,
                fill: modules.kernel(&source, c"snapshot_fill", THREADS)?,
                spread: modules.kernel(&source, c"snapshot_spread", THREADS)?,
            };
            let later = layout.fields[field]
                .previous_of
                .and_then(|j| streams.iter().position(|s| s.field == j as usize));
            let part = records.part_of[field];
            streams.push(Stream { field, part, shape, later, typed, coder });
        }
        let statistical = is_statistical(settings);
        let bytes = Addresses::of(layout, &coders, statistical, 0).end;
        let plain = KERNELS.of(Scalar::F32);
        let mut kernel = |name, threads| modules.kernel(&plain, name, threads);
        let mut codec = GpuCodec {
            prepare: kernel(c"snapshot_prepare", WARP)?,
            sigma: kernel(c"snapshot_sigma", THREADS)?,
            decide: kernel(c"snapshot_decide", WARP)?,
            seal: kernel(c"snapshot_seal", WARP)?,
            open: kernel(c"snapshot_open", WARP)?,
            verify: kernel(c"snapshot_verify", THREADS)?,
            judge: kernel(c"snapshot_judge", WARP)?,
            conclude: kernel(c"snapshot_conclude", WARP)?,
            statistical,
            streams,
            records,
            coders,
            _modules: modules,
            memory: DeviceSlab::new(bytes)?,
            at: Addresses::default(),
        };
        codec.at = Addresses::of(layout, &codec.coders, statistical, codec.memory.address);
        let mut place = codec.at.kept;
        for coder in &mut codec.coders {
            coder.settle(queue, place, codec.at.scratch)?;
            place += aligned(coder.kept());
        }
        codec.describe(settings, queue)?;
        Ok(codec)
    }

    /// Returns the bytes of device memory that a codec with these settings would hold.
    pub fn bytes_for(settings: &Settings, layout: &Layout) -> Result<u64> {
        let (coders, _) = coders_of(settings, layout, &mut Modules::default())?;
        Ok(Addresses::of(layout, &coders, is_statistical(settings), 0).end)
    }

    /// Returns the bytes of device memory that the codec holds.
    pub fn bytes(&self) -> u64 {
        self.memory.bytes
    }

    /// Copies settings and layout to the device in the form that the kernels read.
    fn describe(&self, settings: &Settings, queue: &Queue) -> Result<()> {
        let (mode, value, sigmas) = match settings.bound {
            ErrorBound::OfMax(part) => (0u32, part, 0.0),
            ErrorBound::Absolute(bound) => (1, bound, 0.0),
            ErrorBound::OfRange(part) => (2, part, 0.0),
            ErrorBound::Psnr(db) => (3, ErrorBound::psnr_factor(db), 0.0),
            ErrorBound::Delta(Delta::Fraction(fraction)) => (4, fraction, 0.0),
            ErrorBound::Delta(Delta::Range { fraction, sigmas }) => (5, fraction, sigmas),
            ErrorBound::Delta(Delta::Static(delta)) => (1, delta / 2.0, 0.0),
        };
        let method = &settings.method;
        let mut text = Vec::new();
        let (codec, bounded) = (method.number() as u32, method.is_bounded() as u32);
        let reject = settings.reject_nonfinite as u32;
        put(&mut text, &[codec, method.parameter(), bounded, reject, mode]);
        put(&mut text, &[self.streams.len() as u32, self.records.groups.len() as u32, 0]);
        text.extend([value, sigmas].into_iter().flat_map(f64::to_le_bytes));
        send(queue, self.at.settings, &text)?;
        let mut text = Vec::new();
        for (k, stream) in self.streams.iter().enumerate() {
            let n = stream.shape.n.map(|n| n as u64);
            for n in [stream.shape.values() as u64, n[0], n[1], n[2]] {
                text.extend(n.to_le_bytes());
            }
            let group =
                self.records.groups.iter().position(|group| group.contains(&k)).unwrap_or(0);
            let scalar = stream.shape.scalar as u32 | (stream.part as u32) << 16;
            let field = stream.field as u32;
            let later = stream.later.map_or(0, |j| j as u32 + 1);
            put(&mut text, &[scalar, later, group as u32, field]);
        }
        send(queue, self.at.fields, &text)?;
        let mut text = Vec::new();
        for group in &self.records.groups {
            put(&mut text, &[group.start as u32 | (group.len() as u32) << 16, 0, 0, 0, 0, 0]);
        }
        send(queue, self.at.groups, &text)
    }

    /// Returns the device address of job number `k`.
    fn job(&self, k: usize) -> u64 {
        self.at.jobs + k as u64 * JOB
    }

    /// Enqueues the coding of the first `parts` parts of the fields at the device address `stage`, a
    /// multiple of 64, with the room that `SnapshotCodec` needs; the record of each part begins as
    /// there (`begin`). The [`Report`] goes to the address `report`, in memory of the device or in
    /// page-locked memory.
    pub fn compress(
        &self,
        queue: &Queue,
        parts: usize,
        fields: &[u64],
        stage: u64,
        report: u64,
    ) -> Result<()> {
        let Addresses { settings, fields: infos, groups, surveys, jobs, errors, state, .. } =
            self.at;
        let (all, second) = (2 * self.streams.len() as u32 + 1, stage + self.begin(1));
        self.prepare.launch(queue, 1, &[&surveys, &all, &state, &stage, &second])?;
        self.survey(queue, parts, fields)?;
        if self.statistical {
            self.deviations(queue, parts, fields)?;
        }
        let count = parts as u32;
        let arguments: [&dyn Argument; 8] =
            [&settings, &count, &infos, &groups, &surveys, &jobs, &errors, &state];
        self.decide.launch(queue, 1, &arguments)?;
        let made = self.made(parts);
        for (i, &stream) in made.iter().enumerate() {
            let next = made.get(i + 1).map_or(u32::MAX, |&(job, _)| job as u32);
            self.stream(queue, fields, stream, next, report)?;
        }
        Ok(())
    }

    /// Where the record of part `part` begins behind the address that `compress` gets, in bytes.
    pub fn begin(&self, part: usize) -> u64 {
        [0, self.records.second as u64][part]
    }

    /// Returns the streams that the kernels may make of the first `parts` parts, in order, each as the
    /// number of its job and the later level to which the stream has differences: for every group
    /// the fields with differences, then, if there are several fields, the same fields each by
    /// itself.
    fn made(&self, parts: usize) -> Vec<(usize, Option<usize>)> {
        let of = |group: &Range<usize>| {
            let is_of = |(k, ..): &(usize, &Stream, Option<usize>)| group.contains(k);
            let coded = self.coded(parts).filter(is_of);
            let together: Vec<_> = coded.map(|(k, _, later)| (2 * k, later)).collect();
            let is_one = together.len() == 1;
            let apart = together.clone().into_iter().filter(move |_| !is_one);
            together.into_iter().chain(apart.map(|(job, _)| (job + 1, None)))
        };
        self.records.groups.iter().flat_map(of).collect()
    }

    /// Returns the streams of the first `parts` parts with their numbers, each with the later level of
    /// its field if that is among them.
    fn coded(
        &self,
        parts: usize,
    ) -> impl DoubleEndedIterator<Item = (usize, &Stream, Option<usize>)> {
        let coded = self.streams.iter().enumerate().filter(move |(_, s)| s.part < parts);
        coded.map(move |(k, s)| (k, s, s.later.filter(|&j| self.streams[j].part < parts)))
    }

    /// Enqueues the kernels that find the ranges of the fields and of the differences.
    fn survey(&self, queue: &Queue, parts: usize, fields: &[u64]) -> Result<()> {
        let count = self.streams.len();
        let place = |k: usize| self.at.surveys + k as u64 * SURVEY;
        let mut seen = vec![false; count];
        // The kernel of a previous time level also finds the range of its later level, unless an
        // earlier kernel has found it: a later level needs no pass of its own.
        for (k, stream, later) in self.coded(parts).rev() {
            let (later, of_later) = match later {
                Some(j) => (
                    fields[self.streams[j].field],
                    if std::mem::replace(&mut seen[j], true) { 0 } else { place(j) },
                ),
                None if seen[k] => continue,
                None => (0, 0),
            };
            let own = if seen[k] { place(2 * count) } else { place(k) };
            let values = stream.shape.values() as u64;
            let arguments: [&dyn Argument; 6] =
                [&fields[stream.field], &later, &values, &own, &of_later, &place(count + k)];
            stream.typed.survey.launch(queue, blocks(values, THREADS, EACH), &arguments)?;
        }
        Ok(())
    }

    /// Enqueues the kernels that find the standard deviations of the fields and of the differences.
    fn deviations(&self, queue: &Queue, parts: usize, fields: &[u64]) -> Result<()> {
        let arrays = |(k, _, later): (usize, &Stream, Option<usize>)| {
            let difference = later.map(|j| (self.streams.len() + k, fields[self.streams[j].field]));
            [Some((k, 0)), difference].into_iter().flatten().map(move |(at, later)| (k, at, later))
        };
        for (k, at, later) in self.coded(parts).flat_map(arrays) {
            let Stream { field, shape, typed, .. } = &self.streams[k];
            let (values, survey, sums) =
                (shape.values() as u64, self.at.surveys + at as u64 * SURVEY, self.at.sums);
            let count = blocks(values, THREADS, EACH).min(SUMS);
            for round in [0u32, 1] {
                let arguments: [&dyn Argument; 6] =
                    [&fields[*field], &later, &values, &survey, &sums, &round];
                typed.moments.launch(queue, count, &arguments)?;
                self.sigma.launch(queue, 1, &[&survey, &values, &sums, &(count as u32), &round])?;
            }
        }
        Ok(())
    }

    /// Enqueues the kernels that make the stream of job `number`, as the difference to the field of
    /// stream `later` if there is one. `next` is the job number of the stream behind it, or
    /// `u32::MAX`: the result then goes to `report`.
    fn stream(
        &self,
        queue: &Queue,
        fields: &[u64],
        (number, later): (usize, Option<usize>),
        next: u32,
        report: u64,
    ) -> Result<()> {
        let (k, job, number) = (number as u32 / 2, self.job(number), number as u32);
        let stream = &self.streams[k as usize];
        let (x, values) = (fields[stream.field], stream.shape.values() as u64);
        let later = later.map_or(0, |j| fields[self.streams[j].field]);
        self.coders[stream.coder].compress(queue, Values { x, later }, job, self.at.scratch)?;
        stream.typed.fill.launch(queue, blocks(values, THREADS, EACH), &[&x, &values, &job])?;
        let Addresses { settings, fields: infos, groups, jobs, state, .. } = self.at;
        self.seal.launch(
            queue,
            1,
            &[&settings, &infos, &groups, &k, &jobs, &number, &next, &state, &report],
        )
    }

    /// Enqueues the decoding of the record of `bytes` bytes at the device address `from`, a multiple
    /// of 64, into those of the fields that [`Record`] says. If the record is damaged, the values of
    /// these fields are undefined. The [`Report`] goes to the address `report`, as in `compress`.
    pub fn decompress(
        &self,
        queue: &Queue,
        record: Record,
        (from, bytes): (u64, u64),
        fields: &[u64],
        report: u64,
    ) -> Result<()> {
        let Addresses { settings, fields: infos, jobs, state, scratch, .. } = self.at;
        let part = record.part() as u32;
        self.open.launch(queue, 1, &[&settings, &part, &infos, &jobs, &state, &from, &bytes])?;
        let streams = || self.streams.iter().enumerate().filter(|(_, s)| s.part == record.part());
        for (k, _) in streams() {
            self.verify.launch(queue, blocks(bytes / 8, THREADS, EACH), &[&self.job(k)])?;
        }
        self.judge.launch(queue, 1, &[&settings, &part, &infos, &jobs, &state])?;
        for (k, stream) in streams() {
            let mut targets = self.records.targets(record, stream.field);
            let Some(target) = targets.next() else { continue };
            let (x, values) = (fields[target], stream.shape.values() as u64);
            let later = stream.later.map_or(0, |j| fields[self.streams[j].field]);
            let (job, blocks) = (self.job(k), blocks(values, THREADS, EACH));
            self.coders[stream.coder].decompress(queue, Values { x, later }, job, scratch)?;
            stream.typed.spread.launch(queue, blocks, &[&x, &later, &values, &job])?;
            targets
                .try_for_each(|other| queue.copy(fields[other], x, stream.shape.bytes() as u64))?;
        }
        self.conclude.launch(queue, 1, &[&settings, &infos, &jobs, &state, &report])
    }
}

/// Returns whether the bound depends on the mean and the standard deviation of the values.
fn is_statistical(settings: &Settings) -> bool {
    matches!(settings.bound, ErrorBound::Delta(Delta::Range { .. }))
}

type Coders = Vec<Box<dyn GpuCoder>>;

/// Returns one coder for each shape of the fields, and for each field the index of its coder.
fn coders_of(
    settings: &Settings,
    layout: &Layout,
    modules: &mut Modules,
) -> Result<(Coders, Vec<usize>)> {
    for (i, field) in layout.fields.iter().enumerate() {
        if !field.scalar.is_coded() {
            return fail!(
                Unsupported,
                "field {i} is of {}: with a codec the CUDA backend of this version takes FP32 and FP64 fields only; use compressor 0, or the \
                 host backend",
                field.scalar.name()
            );
        }
    }
    let rms = matches!(settings.bound, ErrorBound::Psnr(_));
    streams::coders_of(layout, |shape| match settings.method.gpu_coder(shape, rms, modules)? {
        Some(coder) => Ok(coder),
        None => fail!(Unsupported, "compressor = none has no kernels: set compressor to a codec"),
    })
}

/// Appends the words to `text`, little-endian.
fn put(text: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|word| text.extend(word.to_le_bytes()));
}
