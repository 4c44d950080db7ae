//! Snapshots on a device: the work of [`SnapshotCodec`](crate::codec::SnapshotCodec), done by the
//! kernels of kernels/snapshot.cu.

use super::{blocks, kernels, GpuCoder, Kernel, Kernels, Modules, Room, Values};
use crate::codec::snapshot_codec::not_finite;
use crate::codec::streams::{self, shapes_of, Record, Streams};
use crate::codec::{Delta, ErrorBound, Settings, Shape};
use crate::device::cuda::{Argument, WORDS};
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

pub(super) const KERNELS: Kernels = kernels!("snapshot", "snapshot.cu");

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

    /// As `check`, after `compress`.
    pub fn check_made(&self) -> Result<[u64; 2]> {
        match self.error {
            2 => codec_failed(self.field),
            _ => self.check(),
        }
    }
}

/// The error of a registered codec that says in device memory that it failed.
pub(super) fn codec_failed<T>(field: impl std::fmt::Display) -> Result<T> {
    fail!(
        Argument,
        "a registered codec failed to compress field {field} on the device: it set a negative status, or more bytes than it has room for"
    )
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

/// The kernels that code the snapshots of one layout on one device, in work memory that the caller has. The
/// modules of the kernels stay loaded as long as this object lives, which is the caller's duty.
pub struct SnapshotKernels {
    /// The order of the streams, and the records in which they lie.
    records: Streams,
    /// True if the bound depends on standard deviations.
    statistical: bool,
    streams: Vec<Stream>,
    coders: Coders,
    /// What work memory must hold before the first call: words, and the offset in bytes of the first one.
    texts: Vec<(u64, Vec<u64>)>,
    layout: Layout,
    write: Kernel,
    result: Kernel,
    prepare: Kernel,
    sigma: Kernel,
    decide: Kernel,
    seal: Kernel,
    open: Kernel,
    refuse: Kernel,
    verify: Kernel,
    judge: Kernel,
    conclude: Kernel,
}

/// A record of a part of a state in device memory.
#[derive(Clone, Copy)]
pub struct Coded {
    /// Address of the record, a multiple of 64.
    pub at: u64,
    /// Bytes that may be read.
    pub bytes: u64,
    /// Whether the record has all of these bytes, and not the first ones only.
    pub is_whole: bool,
}

/// What the kernels of a call use: the stream, the addresses in the work memory, the addresses of the fields,
/// and the address of the [`Report`].
#[derive(Clone, Copy)]
struct On<'a> {
    queue: &'a Queue,
    at: Addresses,
    fields: &'a [u64],
    report: u64,
}

/// Addresses in the work memory, all multiples of 256.
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

    /// The address of job number `k`.
    fn job(&self, k: usize) -> u64 {
        self.jobs + k as u64 * JOB
    }
}

impl SnapshotKernels {
    /// Loads the kernels for snapshots of `layout`, cut into `parts`, into `modules`.
    pub fn new(
        settings: &Settings,
        layout: &Layout,
        parts: &Parts,
        modules: &mut Modules,
    ) -> Result<Self> {
        let records = Streams::new(settings, layout, parts)?;
        let (coders, coder_of) = coders_of(settings, layout, modules)?;
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
        let plain = KERNELS.of(Scalar::F32);
        let mut kernel = |name, threads| modules.kernel(&plain, name, threads);
        let mut made = SnapshotKernels {
            write: kernel(c"snapshot_write", THREADS)?,
            result: kernel(c"snapshot_result", WARP)?,
            prepare: kernel(c"snapshot_prepare", WARP)?,
            sigma: kernel(c"snapshot_sigma", THREADS)?,
            decide: kernel(c"snapshot_decide", WARP)?,
            seal: kernel(c"snapshot_seal", WARP)?,
            open: kernel(c"snapshot_open", WARP)?,
            refuse: kernel(c"snapshot_refuse", WARP)?,
            verify: kernel(c"snapshot_verify", THREADS)?,
            judge: kernel(c"snapshot_judge", WARP)?,
            conclude: kernel(c"snapshot_conclude", WARP)?,
            statistical: is_statistical(settings),
            streams,
            records,
            coders,
            texts: Vec::new(),
            layout: layout.clone(),
        };
        made.texts = made.texts(settings)?;
        Ok(made)
    }

    /// Returns the bytes of work memory of a codec with these settings.
    pub fn bytes_for(settings: &Settings, layout: &Layout) -> Result<u64> {
        let (coders, _) = coders_of(settings, layout, &mut Modules::default())?;
        Ok(Addresses::of(layout, &coders, is_statistical(settings), 0).end)
    }

    /// The addresses in work memory that begins at `work`.
    fn addresses(&self, work: u64) -> Addresses {
        Addresses::of(&self.layout, &self.coders, self.statistical, work)
    }

    /// Returns the bytes of work memory.
    pub fn bytes(&self) -> u64 {
        self.addresses(0).end
    }

    /// The memory of coder number `k`.
    fn room(&self, at: &Addresses, k: usize) -> Room {
        let before = self.coders[..k].iter().map(|coder| aligned(coder.kept()));
        Room { kept: at.kept + before.sum::<u64>(), scratch: at.scratch }
    }

    /// Enqueues what must be done in work memory at the address `work` before the first call with this memory,
    /// and again if the memory was used for anything else. The words come to the device as arguments of kernels,
    /// so that no copy has to wait for memory of the host.
    pub fn prepare(&self, queue: &Queue, work: u64) -> Result<()> {
        for (at, text) in &self.texts {
            for (k, part) in text.chunks(WORDS).enumerate() {
                let (mut words, to) = ([0; WORDS], work + at + (8 * WORDS * k) as u64);
                words[..part.len()].copy_from_slice(part);
                self.write.launch(queue, 1, &[&to, &(part.len() as u32), &words])?;
            }
        }
        let at = self.addresses(work);
        let mut coders = self.coders.iter().enumerate();
        coders.try_for_each(|(k, coder)| coder.prepare(queue, self.room(&at, k)))
    }

    /// Returns settings, layout and the tables of the coders in the form that the kernels read.
    fn texts(&self, settings: &Settings) -> Result<Vec<(u64, Vec<u64>)>> {
        let at = self.addresses(0);
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
        let (codec, bounded) = (method.number() as u32, method.is_bounded() as u32);
        let reject = settings.reject_nonfinite as u32;
        let (streams, groups) = (self.streams.len() as u32, self.records.groups.len() as u32);
        let mut text =
            words(&[codec, method.parameter(), bounded, reject, mode, streams, groups, 0]);
        text.extend([value, sigmas].map(f64::to_bits));
        let mut texts = vec![(at.settings, text)];
        let mut text = Vec::new();
        for (k, stream) in self.streams.iter().enumerate() {
            let n = stream.shape.n.map(|n| n as u64);
            text.extend([stream.shape.values() as u64, n[0], n[1], n[2]]);
            let group =
                self.records.groups.iter().position(|group| group.contains(&k)).unwrap_or(0);
            let scalar = stream.shape.scalar as u32 | (stream.part as u32) << 16;
            let field = stream.field as u32;
            let later = stream.later.map_or(0, |j| j as u32 + 1);
            text.extend(words(&[scalar, later, group as u32, field]));
        }
        texts.push((at.fields, text));
        let mut text = Vec::new();
        for group in &self.records.groups {
            text.extend([group.start as u64 | (group.len() as u64) << 16, 0, 0]);
        }
        texts.push((at.groups, text));
        for (k, coder) in self.coders.iter().enumerate() {
            texts.push((self.room(&at, k).kept, coder.tables()?));
        }
        Ok(texts)
    }

    /// Enqueues the coding of the first `parts` parts of the fields at the device address `stage`, a
    /// multiple of 64, with the room that `SnapshotCodec` needs; the record of each part begins as
    /// there (`begin`). `work` is the address of work memory that was prepared. The [`Report`] goes to
    /// the address `report`, in memory of the device or in page-locked memory.
    pub fn compress(
        &self,
        queue: &Queue,
        work: u64,
        parts: usize,
        fields: &[u64],
        stage: u64,
        report: u64,
    ) -> Result<()> {
        let on = On { queue, at: self.addresses(work), fields, report };
        let Addresses { settings, fields: infos, groups, surveys, jobs, errors, state, .. } = on.at;
        let (all, second) = (2 * self.streams.len() as u32 + 1, stage + self.begin(1));
        self.prepare.launch(queue, 1, &[&surveys, &all, &state, &stage, &second])?;
        self.survey(on, parts)?;
        if self.statistical {
            self.deviations(on, parts)?;
        }
        let count = parts as u32;
        let arguments: [&dyn Argument; 8] =
            [&settings, &count, &infos, &groups, &surveys, &jobs, &errors, &state];
        self.decide.launch(queue, 1, &arguments)?;
        let made = self.made(parts);
        for (i, &stream) in made.iter().enumerate() {
            let next = made.get(i + 1).map_or(u32::MAX, |&(job, _)| job as u32);
            self.stream(on, stream, next)?;
        }
        Ok(())
    }

    /// Enqueues the kernel that stores the result of the call before in the form of gpuzip_codec_result_t
    /// at the address `to`. The call's report went to `report`; `statuses`: of the report's errors 1 and 2.
    pub fn tell(&self, queue: &Queue, report: u64, statuses: [i32; 2], to: u64) -> Result<()> {
        let [values, stream] = statuses;
        self.result.launch(queue, 1, &[&report, &values, &stream, &to])
    }

    /// The address of the state of a call in work memory that begins at `work`: the kernels need no other place
    /// for their report.
    pub fn own_report(&self, work: u64) -> u64 {
        self.addresses(work).state
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
    fn survey(&self, on: On, parts: usize) -> Result<()> {
        let On { queue, fields, .. } = on;
        let count = self.streams.len();
        let place = |k: usize| on.at.surveys + k as u64 * SURVEY;
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
    fn deviations(&self, on: On, parts: usize) -> Result<()> {
        let On { queue, fields, .. } = on;
        let arrays = |(k, _, later): (usize, &Stream, Option<usize>)| {
            let difference = later.map(|j| (self.streams.len() + k, fields[self.streams[j].field]));
            [Some((k, 0)), difference].into_iter().flatten().map(move |(at, later)| (k, at, later))
        };
        for (k, at, later) in self.coded(parts).flat_map(arrays) {
            let Stream { field, shape, typed, .. } = &self.streams[k];
            let (values, survey, sums) =
                (shape.values() as u64, on.at.surveys + at as u64 * SURVEY, on.at.sums);
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
    fn stream(&self, on: On, (number, later): (usize, Option<usize>), next: u32) -> Result<()> {
        let On { queue, at, fields, report } = on;
        let (k, job, number) = (number as u32 / 2, at.job(number), number as u32);
        let stream = &self.streams[k as usize];
        let (x, values) = (fields[stream.field], stream.shape.values() as u64);
        let later = later.map_or(0, |j| fields[self.streams[j].field]);
        let (coder, room) = (&self.coders[stream.coder], self.room(&at, stream.coder));
        coder.compress(queue, Values { x, later }, job, room)?;
        if coder.may_fail() {
            self.refuse.launch(queue, 1, &[&job, &(stream.field as u32), &at.state])?;
        }
        stream.typed.fill.launch(queue, blocks(values, THREADS, EACH), &[&x, &values, &job])?;
        let Addresses { settings, fields: infos, groups, jobs, state, .. } = at;
        self.seal.launch(
            queue,
            1,
            &[&settings, &infos, &groups, &k, &jobs, &number, &next, &state, &report],
        )
    }

    /// Enqueues the decoding of a record into those of the fields that [`Record`] says. If the record is
    /// damaged, the values of these fields are undefined. `work` and `report` as for `compress`; if the record
    /// may be shorter than its bytes, the report says where it ends.
    pub fn decompress(
        &self,
        queue: &Queue,
        work: u64,
        record: Record,
        from: Coded,
        fields: &[u64],
        report: u64,
    ) -> Result<()> {
        let at = self.addresses(work);
        let Addresses { settings, fields: infos, jobs, state, .. } = at;
        let (part, whole) = (record.part() as u32, u32::from(from.is_whole));
        let arguments: [&dyn Argument; 8] =
            [&settings, &part, &infos, &jobs, &state, &from.at, &from.bytes, &whole];
        self.open.launch(queue, 1, &arguments)?;
        let streams = || self.streams.iter().enumerate().filter(|(_, s)| s.part == record.part());
        for (k, _) in streams() {
            self.verify.launch(queue, blocks(from.bytes / 8, THREADS, EACH), &[&at.job(k)])?;
        }
        self.judge.launch(queue, 1, &[&settings, &part, &infos, &jobs, &state])?;
        for (k, stream) in streams() {
            let mut targets = self.records.targets(record, stream.field);
            let Some(target) = targets.next() else { continue };
            let (x, values) = (fields[target], stream.shape.values() as u64);
            let later = stream.later.map_or(0, |j| fields[self.streams[j].field]);
            let (job, blocks) = (at.job(k), blocks(values, THREADS, EACH));
            let (coder, room) = (&self.coders[stream.coder], self.room(&at, stream.coder));
            coder.decompress(queue, Values { x, later }, job, room)?;
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

/// Joins pairs of words of 32 bits, the lower half first.
fn words(halves: &[u32]) -> Vec<u64> {
    halves.chunks(2).map(|pair| pair[0] as u64 | (pair[1] as u64) << 32).collect()
}
