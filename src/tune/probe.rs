//! Timed trials on the application's live fields: copies within the device, transfers across the
//! link, on a GPU both ways at once, too, and, if the session may use a disk, to and from disk, and
//! codecs, one at a time.
//!
//! A probe opens a device of its own, with memory beside the session's memory, and works on the
//! application's stream. It only reads the fields. It waits for the device after every trial, so
//! that a measured shot takes longer.

use crate::choice::{Job, Target};
use crate::codec::Settings;
use crate::device::{AppMemory, Device, DiskSpace, Event, Lane, Memory, Place, Stream};
use crate::error::Result;
use crate::layout::Layout;
use crate::predict::{CodecProfile, Profile};
use crate::tier::{CodedRecord, SnapshotCoder};
use std::time::Instant;

/// Rounds of copies that are timed for each sampled state.
const COPIES: usize = 2;

/// A device for trials, and the seconds that were measured on it.
pub struct Probe {
    device: Box<dyn Device>,
    layout: Layout,
    /// Whether the device is a GPU, whose transfer lanes copy at once as far as its copy engines
    /// do; and events for copies both ways.
    on_gpu: bool,
    ways: [Event; 3],
    warm: bool,
    /// Seconds of a state within the device, to the host and to the device.
    copies: Vec<[f64; 3]>,
    /// Seconds of a state each way, both ways at once.
    both: Vec<f64>,
    trials: Vec<Trial>,
    /// Room for a state on disk, if the session may use a disk; seconds to and from disk.
    disk: Option<DiskSpace>,
    passages: Vec<[f64; 2]>,
}

/// The results of one codec so far: for each sampled state the stored bytes, and the seconds of
/// compression and decompression.
struct Trial {
    settings: Settings,
    coder: SnapshotCoder,
    stored: Vec<u64>,
    seconds: Vec<[f64; 2]>,
}

impl Probe {
    /// Opens the device. Reserves one state of device memory, one state of host memory, and the
    /// work space of the job's codecs. Leaves out codecs that do not work on this device.
    pub fn new(target: Target, job: &Job, layout: &Layout) -> Result<Self> {
        let mut device = target.open(&job.config)?;
        let ways = [device.event()?, device.event()?, device.event()?];
        let mut probe = Probe {
            device,
            layout: layout.clone(),
            on_gpu: matches!(target, Target::Cuda(_)),
            ways,
            warm: false,
            copies: Vec::new(),
            both: Vec::new(),
            trials: Vec::new(),
            disk: disk_of(job, layout),
            passages: Vec::new(),
        };
        for settings in job.codecs() {
            let settings = Settings { sequences: false, ..settings };
            match target.coder(&mut *probe.device, &settings, layout, &layout.whole()) {
                Ok(coder) => {
                    let (stored, seconds) = (Vec::new(), Vec::new());
                    probe.trials.push(Trial { settings, coder, stored, seconds });
                }
                Err(error) => log::info!("{} is not measured: {error}", settings.method.name()),
            }
        }
        let stages = probe.trials.iter().map(|trial| trial.coder.device_bytes()).max().unwrap_or(0);
        probe.device.reserve(Memory::Device, layout.slot_bytes + stages)?;
        probe.device.reserve(Memory::Host, layout.slot_bytes)?;
        probe.device.lock(layout.slot_bytes)?;
        probe.trials.iter_mut().for_each(|trial| trial.coder.settle_at(layout.slot_bytes));
        Ok(probe)
    }

    /// Runs `body` on the application's stream, waits for it, and returns its seconds there.
    fn timed<R>(
        &mut self,
        stream: Stream,
        body: impl FnOnce(&mut dyn Device) -> Result<R>,
    ) -> Result<(f64, R)> {
        let before = self.device.times()?.stalled;
        self.device.enter(stream, "tune")?;
        let result = body(&mut *self.device);
        self.device.leave()?;
        let result = result?;
        self.device.finish_calls()?;
        Ok((self.device.times()?.stalled - before, result))
    }

    /// Times copies of the state within the device, to the host and back, and to disk and back.
    pub fn copies(&mut self, fields: &[AppMemory], stream: Stream) -> Result<()> {
        let (here, host, bytes) = (Place::Device(0), Place::Host(0), self.layout.slot_bytes);
        let places = self.layout.offsets.clone();
        for k in 0..COPIES + usize::from(!self.warm) {
            let in_fields = fields.iter().zip(&places);
            let copy_in = |device: &mut dyn Device| -> Result<()> {
                for (&memory, &offset) in in_fields {
                    let (to, bytes) = (here.plus(offset), memory.bytes() as u64);
                    device.copy(Lane::App, to, Place::App(memory), bytes)?;
                }
                Ok(())
            };
            let (within, ()) = self.timed(stream, copy_in)?;
            let (to_host, ()) =
                self.timed(stream, |device| device.copy(Lane::App, host, here, bytes))?;
            let (to_device, ()) =
                self.timed(stream, |device| device.copy(Lane::App, here, host, bytes))?;
            let both = self.on_gpu.then(|| self.both_ways(stream)).transpose()?;
            // The first round also pays for the first touch of the memory, and is not counted.
            if self.warm || k > 0 {
                self.copies.push([within, to_host, to_device]);
                self.both.extend(both);
            }
        }
        self.passages()?;
        self.warm = true;
        Ok(())
    }

    /// Times the two halves of the state on their ways to the host and to the device at once, on
    /// the transfer lanes. Returns the seconds for a whole state each way.
    fn both_ways(&mut self, stream: Stream) -> Result<f64> {
        let half = self.layout.slot_bytes / 2;
        let [begin, up, down] = self.ways;
        let body = |device: &mut dyn Device| {
            device.record(Lane::App, begin)?;
            device.wait(Lane::Upload, begin)?;
            device.wait(Lane::Download, begin)?;
            device.copy(Lane::Upload, Place::Device(0), Place::Host(0), half)?;
            device.copy(Lane::Download, Place::Host(half), Place::Device(half), half)?;
            device.record(Lane::Upload, up)?;
            device.record(Lane::Download, down)?;
            device.wait(Lane::App, up)?;
            device.wait(Lane::App, down)
        };
        Ok(2.0 * self.timed(stream, body)?.0)
    }

    /// Times the way of the state from host memory to disk and back. A failing disk is not
    /// measured.
    fn passages(&mut self) -> Result<()> {
        let Some(disk) = &self.disk else { return Ok(()) };
        let bytes = self.layout.slot_bytes;
        let address = self.device.pointer(Place::Host(0), bytes)?;
        // SAFETY: the device's host memory, on which no lane works: `timed` has waited.
        let memory = unsafe { std::slice::from_raw_parts_mut(address.cast(), bytes as usize) };
        let mut pass = || -> Result<[f64; 2]> {
            let begin = Instant::now();
            disk.write(0, memory)?;
            disk.settle()?;
            let written = Instant::now();
            disk.read(0, memory)?;
            Ok([written - begin, written.elapsed()].map(|time| time.as_secs_f64()))
        };
        match pass() {
            Ok(seconds) => self.passages.push(seconds),
            Err(error) => {
                log::warn!("the disk is not measured: {error}");
                self.disk = None;
            }
        }
        Ok(())
    }

    /// Times every codec on u(ts).
    pub fn codecs(&mut self, ts: i64, fields: &[AppMemory], stream: Stream) -> Result<()> {
        let mut trials = std::mem::take(&mut self.trials);
        let result =
            trials.iter_mut().try_for_each(|trial| self.attempt(trial, ts, fields, stream));
        self.trials = trials;
        result.map_err(|e| e.within(format_args!("state {ts}")))
    }

    fn attempt(
        &mut self,
        trial: &mut Trial,
        ts: i64,
        fields: &[AppMemory],
        stream: Stream,
    ) -> Result<()> {
        let scratch = self.scratch()?;
        let coder = &mut trial.coder;
        if trial.stored.is_empty() {
            self.timed(stream, |device| coder.make(device, 0, (ts, 1), fields))?;
        }
        let (compress, _) = self.timed(stream, |device| coder.make(device, 0, (ts, 1), fields))?;
        let (_, [bytes, _]) = self.timed(stream, |device| coder.size(device, 0))?;
        let place = coder.buffer(0);
        let record = CodedRecord { place, bytes, part: 0, as_previous: false };
        let (decompress, _) =
            self.timed(stream, |device| coder.open(device, ts, record, &scratch))?;
        coder.check()?;
        trial.stored.push(bytes);
        trial.seconds.push([compress, decompress]);
        Ok(())
    }

    /// Returns fields in the probe's device memory, into which codecs decompress.
    fn scratch(&self) -> Result<Vec<AppMemory>> {
        let mut fields = Vec::with_capacity(self.layout.fields.len());
        for (&bytes, &offset) in self.layout.bytes.iter().zip(&self.layout.offsets) {
            let address = self.device.pointer(Place::Device(offset), bytes)?;
            // SAFETY: memory of the device, which lives as long as the probe and has no other user.
            fields.push(unsafe { AppMemory::new(address.cast(), bytes as usize) });
        }
        Ok(fields)
    }

    /// Returns a profile with the speeds that were measured, from the medians, and the results of
    /// every codec that works on this device; `None` before the first trial. Without a disk in the
    /// session, the disk has typical speeds.
    pub fn speeds(&self) -> Option<Profile> {
        let state_bytes = self.layout.slot_bytes;
        let state = state_bytes as f64;
        let gbs = |seconds: f64| state / seconds.max(1e-9) / 1e9;
        let [d2d_gbs, d2h_gbs, h2d_gbs] = medians(&self.copies)?.map(gbs);
        // One engine is certain from its count; a measured time may be of a busy moment.
        let both_gbs = match self.device.copy_engines() {
            _ if !self.on_gpu => 0.0,
            Ok(1) => Profile::in_turns(h2d_gbs, d2h_gbs),
            _ => 2.0 * gbs(median(self.both.clone())?),
        };
        let codec = |trial: &Trial| {
            let largest = *trial.stored.iter().max()? as f64;
            let mean = trial.stored.iter().map(|&bytes| bytes as f64).sum::<f64>()
                / trial.stored.len() as f64;
            let [compress_gbs, decompress_gbs] = medians(&trial.seconds)?.map(gbs);
            Some(CodecProfile {
                compress_gbs,
                decompress_gbs,
                ratio: state / mean,
                worst_ratio: state / largest,
                ..CodecProfile::of(&trial.settings)
            })
        };
        let codecs = self.trials.iter().filter_map(codec).collect();
        let typical = Profile::typical_gpu(state_bytes);
        let [disk_write_gbs, disk_read_gbs] = medians(&self.passages)
            .map_or([typical.disk_write_gbs, typical.disk_read_gbs], |seconds| seconds.map(gbs));
        Some(Profile {
            h2d_gbs,
            d2h_gbs,
            both_gbs,
            d2d_gbs,
            disk_read_gbs,
            disk_write_gbs,
            codecs,
            ..typical
        })
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let device = &mut *self.device;
        self.trials.iter_mut().for_each(|trial| trial.coder.close(device));
    }
}

/// Returns room for one state on the disk of the session; `None` if the session uses no disk, or if
/// there is no room. `disk_budget` of `job` is what the plan of the session leaves of it.
fn disk_of(job: &Job, layout: &Layout) -> Option<DiskSpace> {
    let folders = job.config.disk_folders();
    let needed = DiskSpace::bytes_of_slot(layout.slot_bytes, folders.len());
    if job.disk_budget < needed {
        if !job.config.tiers.disk_folders.is_empty() {
            log::info!(
                "the disk is not measured: disk_budget leaves {} bytes beside the plan, and a state takes {needed}: raise disk_budget by {needed}",
                job.disk_budget
            );
        }
        return None;
    }
    match DiskSpace::reserve(&folders, 1, layout.slot_bytes) {
        Ok(space) if space.slots() == 1 => Some(space),
        Ok(_) => None,
        Err(error) => {
            log::warn!("the disk is not measured: {error}");
            None
        }
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Returns the median of each column; `None` without rows.
fn medians<const N: usize>(rows: &[[f64; N]]) -> Option<[f64; N]> {
    let column = |of: usize| median(rows.iter().map(|row| row[of]).collect()).unwrap_or(0.0);
    (!rows.is_empty()).then(|| std::array::from_fn(column))
}
