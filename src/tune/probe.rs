//! Trials on the application's live fields: copies within the device and across the link, and
//! codecs, each by itself.
//!
//! A probe has a device of its own, with its own memory beside that of the session, and works on
//! the application's stream. It only reads the fields, and it waits for the device: a shot that is
//! measured takes longer.

use crate::choice::Target;
use crate::codec::{Settings, SnapshotCodec};
use crate::config::Config;
use crate::device::{AppMemory, Device, Lane, Place, Stream};
use crate::error::Result;
use crate::layout::Layout;
use crate::predict::CodecProfile;
use crate::tier::SnapshotCoder;

/// Copies that are timed per sample.
const COPIES: usize = 2;

/// A device to try things on.
pub struct Probe {
    device: Box<dyn Device>,
    layout: Layout,
    warm: bool,
    to_device: Vec<f64>,
    to_host: Vec<f64>,
    within: Vec<f64>,
    trials: Vec<Trial>,
}

/// What a codec did so far.
struct Trial {
    settings: Settings,
    coder: SnapshotCoder,
    stored: Vec<u64>,
    compress: Vec<f64>,
    decompress: Vec<f64>,
}

/// What was measured: GB/s of a state to the device, to the host and within the device, and of
/// every codec that works here.
pub struct Findings {
    /// To the device.
    pub h2d_gbs: f64,
    /// To the host.
    pub d2h_gbs: f64,
    /// Within the device.
    pub d2d_gbs: f64,
    /// The codecs.
    pub codecs: Vec<CodecProfile>,
}

impl Probe {
    /// Opens the device. Takes room for one state there and one on the host, and for what the
    /// codecs need; codecs that do not work here are left out.
    pub fn new(
        target: Target,
        config: &Config,
        layout: &Layout,
        codecs: &[Settings],
    ) -> Result<Self> {
        let device = target.open(config)?;
        let (to_device, to_host, within, trials) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut probe = Probe {
            device,
            layout: layout.clone(),
            warm: false,
            to_device,
            to_host,
            within,
            trials,
        };
        for settings in codecs {
            match coder(target, &mut *probe.device, settings, layout) {
                Ok(coder) => probe.trials.push(Trial::new(settings, coder)),
                Err(error) => log::info!("{} is not measured: {error}", settings.method.name()),
            }
        }
        let stages = probe.trials.iter().map(|trial| trial.coder.device_bytes()).max().unwrap_or(0);
        probe.device.reserve_device(layout.slot_bytes + stages)?;
        probe.device.reserve_host(layout.slot_bytes)?;
        probe.trials.iter_mut().for_each(|trial| trial.coder.settle_at(layout.slot_bytes));
        Ok(probe)
    }

    /// Seconds of the stream in `body`.
    fn timed<R>(
        &mut self,
        stream: Stream,
        body: impl FnOnce(&mut dyn Device) -> Result<R>,
    ) -> Result<(f64, R)> {
        let before = self.device.stalled()?;
        self.device.enter(stream, "tune")?;
        let result = body(&mut *self.device);
        self.device.leave()?;
        let result = result?;
        self.device.finish_calls()?;
        Ok((self.device.stalled()? - before, result))
    }

    /// Tries copies of the state.
    pub fn copies(&mut self, fields: &[AppMemory], stream: Stream) -> Result<()> {
        let (here, host, bytes) = (Place::Device(0), Place::Host(0), self.layout.slot_bytes);
        let places: Vec<u64> = self.layout.offsets.clone();
        for k in 0..COPIES + usize::from(!self.warm) {
            let in_fields = fields.iter().zip(&places);
            let copy_in = |device: &mut dyn Device| -> Result<()> {
                for (&memory, &offset) in in_fields {
                    device.copy(
                        Lane::App,
                        here.plus(offset),
                        Place::App(memory),
                        memory.bytes() as u64,
                    )?;
                }
                Ok(())
            };
            let (within, ()) = self.timed(stream, copy_in)?;
            let (to_host, ()) =
                self.timed(stream, |device| device.copy(Lane::App, host, here, bytes))?;
            let (to_device, ()) =
                self.timed(stream, |device| device.copy(Lane::App, here, host, bytes))?;
            // The first round touches the memory for the first time.
            if self.warm || k > 0 {
                self.within.push(within);
                self.to_host.push(to_host);
                self.to_device.push(to_device);
            }
        }
        self.warm = true;
        Ok(())
    }

    /// Tries the codecs on u(ts).
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
            self.timed(stream, |device| coder.make(device, 0, fields))?;
        }
        let (compress, _) = self.timed(stream, |device| coder.make(device, 0, fields))?;
        let (_, bytes) = self.timed(stream, |device| coder.size(device, 0))?;
        let stage = coder.stage(0);
        let (decompress, _) =
            self.timed(stream, |device| coder.open(device, ts, stage, bytes, &scratch))?;
        coder.check()?;
        trial.stored.push(bytes);
        trial.compress.push(compress);
        trial.decompress.push(decompress);
        Ok(())
    }

    /// Fields of its own, to decode into.
    fn scratch(&self) -> Result<Vec<AppMemory>> {
        let mut fields = Vec::with_capacity(self.layout.fields.len());
        for (field, &offset) in self.layout.fields.iter().zip(&self.layout.offsets) {
            let bytes = field.bytes().unwrap_or(0);
            let address = self.device.pointer(Place::Device(offset), bytes)?;
            // SAFETY: memory of this probe's own device, which nobody else uses and which lives as
            // long as the probe.
            fields.push(unsafe { AppMemory::new(address.cast(), bytes as usize) });
        }
        Ok(fields)
    }

    /// What was found; `None` before anything was tried.
    pub fn findings(&mut self) -> Option<Findings> {
        let state = self.layout.slot_bytes as f64;
        let gbs = |seconds: &mut Vec<f64>| Some(state / median(seconds)?.max(1e-9) / 1e9);
        let [h2d_gbs, d2h_gbs, d2d_gbs] =
            [gbs(&mut self.to_device)?, gbs(&mut self.to_host)?, gbs(&mut self.within)?];
        let codec = |trial: &mut Trial| {
            let largest = *trial.stored.iter().max()? as f64;
            let mean = trial.stored.iter().map(|&bytes| bytes as f64).sum::<f64>()
                / trial.stored.len() as f64;
            Some(CodecProfile {
                compress_gbs: gbs(&mut trial.compress)?,
                decompress_gbs: gbs(&mut trial.decompress)?,
                ratio: state / mean,
                worst_ratio: state / largest,
                ..CodecProfile::of(&trial.settings)
            })
        };
        Some(Findings {
            h2d_gbs,
            d2h_gbs,
            d2d_gbs,
            codecs: self.trials.iter_mut().filter_map(codec).collect(),
        })
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let device = &mut *self.device;
        self.trials.iter_mut().for_each(|trial| trial.coder.close(device));
    }
}

impl Trial {
    fn new(settings: &Settings, coder: SnapshotCoder) -> Self {
        Trial {
            settings: settings.clone(),
            coder,
            stored: Vec::new(),
            compress: Vec::new(),
            decompress: Vec::new(),
        }
    }
}

fn coder(
    target: Target,
    device: &mut dyn Device,
    settings: &Settings,
    layout: &Layout,
) -> Result<SnapshotCoder> {
    match target {
        Target::Host => SnapshotCoder::on_host(SnapshotCodec::new(settings.clone(), layout)?),
        Target::Cuda(_) => SnapshotCoder::on_gpu(device, settings, layout),
    }
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
