//! `gpuzip codec`: measures size, error and speed of each codec on a user's own snapshots.

use crate::metrics::{quality, Quality};
use crate::options::{at_least_one, positive, ValueOf};
use crate::output::emit_json;
use crate::Failure;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::Args;
use gpuzip::codec::{Content, ErrorBound, Header, Method, Settings, SnapshotCodec, CODECS};
use gpuzip::device::AppMemory;
use gpuzip::error::{Code, Error, Result};
use gpuzip::files;
use gpuzip::layout::{Field, Layout};
use gpuzip::scalar::Scalar;
use serde_json::{json, Map, Value};
use std::hint::black_box;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Compress arrays and say how small, how exact and how fast
#[derive(Args)]
pub struct Arguments {
    /// The codec
    #[arg(long, value_parser = codecs(), required_unless_present = "all")]
    codec: Option<Method>,
    /// The bound: rel:X of the maximum, abs:X, range:X of the range of values, or psnr:DB
    #[arg(long, value_name = "KIND:X", default_value = "rel:1e-3", value_parser = bound, allow_hyphen_values = true)]
    bound: ErrorBound,
    /// Bits per value of zfp
    #[arg(long, default_value_t = 8, value_parser = at_least_one, allow_hyphen_values = true)]
    rate: u32,
    /// Extents, fastest first; 1 or nothing where a dimension is not used
    #[arg(long, value_name = "N1,N2,N3", value_parser = dims, allow_hyphen_values = true)]
    dims: [u64; 3],
    /// Type of the values
    #[arg(long = "type", default_value = "f32", value_parser = types())]
    scalar: Scalar,
    /// The files are pairs of time levels, u(t) and u(t-1) in turn: each pair is coded as u(t) and
    /// the difference
    #[arg(long)]
    pair: bool,
    /// Compare all codecs over several bounds, and zfp at the rates that reach 60, 80 and 100 dB
    #[arg(long, conflicts_with_all = ["codec", "bound", "rate"])]
    all: bool,
    /// GB/s of the link to the host, each way, for the verdict of --all
    #[arg(long, value_name = "GB/S", default_value_t = 25.0, requires = "all", value_parser = positive, allow_hyphen_values = true)]
    link_gbs: f64,
    /// Arrays: values in the order of memory, little endian, without a header
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn codecs() -> impl TypedValueParser<Value = Method> {
    ValueOf::key("compressor", &["auto"]).map(|name| {
        let own = CODECS.iter().find(|own| own.name == name);
        own.map_or(Method::None, |own| own.method.clone())
    })
}

pub fn types() -> impl TypedValueParser<Value = Scalar> {
    PossibleValuesParser::new(["f32", "f64"]).map(|name| {
        if name == "f64" {
            Scalar::F64
        } else {
            Scalar::F32
        }
    })
}

fn bound(text: &str) -> std::result::Result<ErrorBound, String> {
    let Some((kind, number)) = text.split_once(':') else {
        return Err("write rel:1e-3, abs:1e-8, range:1e-3 or psnr:90".into());
    };
    let value = positive(number).map_err(|e| format!("after {kind}: {e}"))?;
    match kind {
        "rel" => Ok(ErrorBound::OfMax(value)),
        "abs" => Ok(ErrorBound::Absolute(value)),
        "range" => Ok(ErrorBound::OfRange(value)),
        "psnr" => Ok(ErrorBound::Psnr(value)),
        other => Err(format!("{other:?}: use rel, abs, range or psnr")),
    }
}

fn name_of(bound: ErrorBound) -> String {
    match bound {
        ErrorBound::OfMax(x) => format!("rel:{x:e}"),
        ErrorBound::Absolute(x) => format!("abs:{x:e}"),
        ErrorBound::OfRange(x) => format!("range:{x:e}"),
        ErrorBound::Psnr(x) => format!("psnr:{x}"),
        ErrorBound::Delta(delta) => format!("{delta:?}"),
    }
}

pub fn dims(text: &str) -> std::result::Result<[u64; 3], String> {
    let mut n = [1; 3];
    let given: Vec<&str> = text.split(',').collect();
    if given.len() > 3 {
        return Err("give at most three extents".into());
    }
    for (n, text) in n.iter_mut().zip(given) {
        let extent = text.trim().parse().ok().filter(|&n| n > 0);
        *n =
            extent.ok_or_else(|| format!("{text:?} is no extent: give whole numbers from 1 on"))?;
    }
    Ok(n)
}

/// One array, or a pair of time levels, as read from files.
struct Sample {
    name: String,
    fields: Vec<Field>,
    data: Vec<Values>,
}

/// The values of an array, aligned for their type.
#[derive(Clone)]
enum Values {
    F32(Vec<f32>),
    F64(Vec<f64>),
}

impl Values {
    fn read(path: &Path, field: &Field) -> Result<Self> {
        let refuse =
            |text: String| Err(Error::new(Code::Io, format!("{}: {text}", path.display())));
        let length = match files::open(path, u64::MAX).and_then(|file| file.metadata()) {
            Ok(found) => found.len(),
            Err(e) => return refuse(e.to_string()),
        };
        let [n1, n2, n3] = field.n;
        if field.bytes() != Some(length) {
            let expected = field.bytes().map_or("more than 2^64".into(), |n| n.to_string());
            return refuse(format!(
                "the file has {length} bytes, and {n1} x {n2} x {n3} values of {} bytes are {expected} bytes: give the file's extents with --dims, and its type with --type",
                field.scalar.bytes()
            ));
        }
        let bytes = match files::read(path, length) {
            Ok(bytes) if bytes.len() as u64 == length => bytes,
            Ok(_) => return refuse("it was cut short while it was read".into()),
            Err(e) => return refuse(e.to_string()),
        };
        Ok(match field.scalar {
            Scalar::F32 => Values::F32(
                bytes
                    .chunks_exact(4)
                    .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                    .collect(),
            ),
            _ => Values::F64(
                bytes
                    .chunks_exact(8)
                    .map(|b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
                    .collect(),
            ),
        })
    }

    fn memory(&mut self) -> AppMemory {
        // SAFETY: the vector outlives the call that this memory is made for, and no other code uses
        // the vector during that call.
        unsafe {
            match self {
                Values::F32(x) => AppMemory::new(x.as_mut_ptr().cast(), size_of_val(&x[..])),
                Values::F64(x) => AppMemory::new(x.as_mut_ptr().cast(), size_of_val(&x[..])),
            }
        }
    }

    fn metrics(&self, decoded: &Values, n: [u64; 3]) -> Quality {
        let n = n.map(|n| n as usize);
        match (self, decoded) {
            (Values::F64(x), Values::F64(y)) => quality(x, y, n),
            (Values::F32(x), Values::F32(y)) => quality(x, y, n),
            _ => quality::<f32>(&[], &[], [0; 3]),
        }
    }

    fn copy_from(&mut self, other: &Values) {
        match (self, other) {
            (Values::F64(x), Values::F64(y)) => x.copy_from_slice(y),
            (Values::F32(x), Values::F32(y)) => x.copy_from_slice(y),
            _ => {}
        }
    }
}

impl Sample {
    fn load(arguments: &Arguments, paths: &[PathBuf]) -> Result<Self> {
        let Arguments { dims: n, scalar, .. } = *arguments;
        let fields: Vec<Field> = (0..paths.len())
            .map(|k| Field { n, scalar, previous_of: k.checked_sub(1).map(|k| k as u32) })
            .collect();
        let data = paths
            .iter()
            .zip(&fields)
            .map(|(path, field)| Values::read(path, field))
            .collect::<Result<_>>()?;
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        Ok(Sample { name: names.join(" "), fields, data })
    }

    /// Compresses and decompresses the sample, and measures error, size and speed.
    fn result(&mut self, settings: &Settings) -> Result<Outcome> {
        let layout = Layout::new(self.fields.clone())?;
        let mut codec = SnapshotCodec::new(settings.clone(), &layout)?;
        let (mut stream, mut decoded) = (vec![0; codec.capacity()], self.data.clone());
        let memory: Vec<AppMemory> = self.data.iter_mut().map(Values::memory).collect();
        // SAFETY: the vectors of this sample have the layout's size, and no other code uses them.
        let (bytes, compress) = best(|| unsafe { codec.compress(&memory, &mut stream) })?;
        let targets: Vec<AppMemory> = decoded.iter_mut().map(Values::memory).collect();
        // SAFETY: as for the compression.
        let ((), decompress) = best(|| unsafe { codec.decompress(&stream[..bytes], &targets) })?;
        let metrics: Vec<Quality> =
            self.data.iter().zip(&decoded).map(|(x, y)| x.metrics(y, self.fields[0].n)).collect();
        let (bound, kept) = self.bound_is_kept(settings, &stream[..bytes], &decoded)?;
        let (_, memcpy) = best(|| {
            black_box(&mut decoded)
                .iter_mut()
                .zip(black_box(&self.data))
                .for_each(|(to, from)| to.copy_from(from));
            Ok(())
        })?;
        let gbs = |seconds: f64| layout.raw_bytes as f64 / seconds / 1e9;
        Ok(Outcome {
            settings: settings.clone(),
            raw_bytes: layout.raw_bytes,
            stored_bytes: bytes as u64,
            metrics,
            bound,
            kept,
            compress: gbs(compress),
            decompress: gbs(decompress),
            memcpy: gbs(memcpy),
        })
    }

    /// Returns the absolute bound (the smallest one, if there are several arrays) and whether the
    /// decoded values keep the bounds, checked value by value.
    fn bound_is_kept(
        &self,
        settings: &Settings,
        mut stream: &[u8],
        decoded: &[Values],
    ) -> Result<(Option<f64>, Option<bool>)> {
        if !settings.method.is_bounded() {
            return Ok((None, None));
        }
        let (mut kept, mut least) = (true, f64::INFINITY);
        while !stream.is_empty() {
            let (header, _, bytes) = Header::open(stream)?;
            stream = &stream[bytes..];
            if header.content == Content::Mask {
                continue;
            }
            least = least.min(header.bound);
            if header.content == Content::Raw {
                continue;
            }
            let (x, y) = (&self.data[header.field as usize], &decoded[header.field as usize]);
            let reference =
                header.reference.map(|k| (&self.data[k as usize], &decoded[k as usize]));
            let error = |i: usize| {
                let at = |v: &Values| match v {
                    Values::F32(x) => x[i] as f64,
                    Values::F64(x) => x[i],
                };
                match reference {
                    Some((a, b)) => (at(b) - at(y)) - (at(a) - at(x)),
                    None => at(y) - at(x),
                }
            };
            let errors = (0..header.shape.values()).map(error).filter(|e| e.is_finite());
            // The differences computed here have rounding errors of their own.
            let bound = header.bound * (1.0 + 1e-9);
            kept &= match settings.bound {
                ErrorBound::Psnr(_) => {
                    let sum: f64 = errors.map(|e| e * e).sum();
                    (sum / header.shape.values() as f64).sqrt() <= bound
                }
                _ => errors.fold(0.0, |m: f64, e| m.max(e.abs())) <= bound,
            };
        }
        Ok((Some(least), Some(kept)))
    }
}

/// More runs of a small array would take processor time and find no faster run.
const MOST_RUNS: u32 = 50;

/// Runs `body` at least three times, and until a fifth of a second is over or `MOST_RUNS` are done;
/// returns its result and the time of the fastest run in seconds.
fn best<R>(mut body: impl FnMut() -> Result<R>) -> Result<(R, f64)> {
    let begin = Instant::now();
    let (mut least, mut runs) = (f64::INFINITY, 0);
    loop {
        let start = Instant::now();
        let result = body()?;
        least = least.min(start.elapsed().as_secs_f64());
        runs += 1;
        if runs >= MOST_RUNS || runs >= 3 && begin.elapsed().as_secs_f64() > 0.2 {
            return Ok((result, least.max(1e-9)));
        }
    }
}

/// The measurements of one codec on one sample; speeds in GB/s of raw bytes.
struct Outcome {
    settings: Settings,
    raw_bytes: u64,
    stored_bytes: u64,
    /// The error measures of each array.
    metrics: Vec<Quality>,
    bound: Option<f64>,
    kept: Option<bool>,
    compress: f64,
    decompress: f64,
    memcpy: f64,
}

impl Outcome {
    /// Returns the bound or the rate as the command line spells it.
    fn setting(&self) -> Option<String> {
        match self.settings.method {
            Method::Zfp { rate } => Some(format!("rate:{rate}")),
            _ => self.settings.method.is_bounded().then(|| name_of(self.settings.bound)),
        }
    }

    fn ratio(&self) -> f64 {
        self.raw_bytes as f64 / self.stored_bytes as f64
    }

    /// Seconds to compress and decompress 10^9 raw bytes; for raw snapshots, seconds to copy them
    /// twice.
    fn coding(&self) -> f64 {
        match self.settings.method {
            Method::None => 2.0 / self.memcpy,
            _ => 1.0 / self.compress + 1.0 / self.decompress,
        }
    }

    /// As `coding`, with the transfers of the stored bytes over a link of `link` GB/s and back.
    fn round_trip(&self, link: f64) -> f64 {
        self.coding() + 2.0 / (self.ratio() * link)
    }

    /// Returns the worst value of an error measure over the arrays.
    fn worst(&self, of: impl Fn(&Quality) -> f64, worse: impl Fn(f64, f64) -> f64) -> f64 {
        self.metrics.iter().map(of).reduce(worse).unwrap_or(f64::NAN)
    }

    fn psnr(&self) -> f64 {
        self.worst(|m| m.psnr, f64::min)
    }

    fn json(&self, file: &str) -> Map<String, Value> {
        // JSON has no infinity: the PSNR of equal arrays is null.
        let values: [(&str, Value); 17] = [
            ("file", file.into()),
            ("codec", self.settings.method.name().into()),
            ("raw_bytes", self.raw_bytes.into()),
            ("stored_bytes", self.stored_bytes.into()),
            ("ratio", json!(self.ratio())),
            ("psnr", json!(self.psnr())),
            ("ssim", json!(self.worst(|m| m.ssim, f64::min))),
            ("max_error", json!(self.worst(|m| m.max_error, f64::max))),
            ("rmse", json!(self.worst(|m| m.rmse, f64::max))),
            ("relative_l2", json!(self.worst(|m| m.relative_l2, f64::max))),
            ("nonfinite_lost", self.metrics.iter().map(|m| m.nonfinite_lost).sum::<u64>().into()),
            ("setting", json!(self.setting())),
            ("bound", json!(self.bound)),
            ("bound_kept", json!(self.kept)),
            ("compress_gbs", json!(self.compress)),
            ("decompress_gbs", json!(self.decompress)),
            ("memcpy_gbs", json!(self.memcpy)),
        ];
        values.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }
}

/// PSNRs in dB at which `--all` compares all codecs.
const EQUAL_PSNR: [f64; 3] = [60.0, 80.0, 100.0];

/// The codecs and bounds that `--all` compares, zfp excepted.
fn all() -> Vec<Settings> {
    let bounds = [1e-2, 1e-3, 1e-4, 1e-5]
        .map(ErrorBound::OfMax)
        .into_iter()
        .chain(EQUAL_PSNR.map(ErrorBound::Psnr));
    let own = || CODECS.iter().map(|codec| codec.method.clone());
    let bounded = bounds.flat_map(|bound| {
        let methods = own().filter(|method| method.is_bounded() && method.missing().is_none());
        methods.map(move |method| Settings { method, bound, ..Settings::default() })
    });
    let has_no_setting = |m: &Method| !m.is_bounded() && !matches!(m, Method::Zfp { .. });
    let without = own().filter(has_no_setting);
    without.map(|method| Settings { method, ..Settings::default() }).chain(bounded).collect()
}

/// Finds the lowest rate of zfp that reaches a PSNR of `db` dB on the sample, if any does.
fn zfp_at(sample: &mut Sample, db: f64) -> Result<Option<Outcome>> {
    let mut found = None;
    let (mut low, mut high) = (1, 8 * sample.fields[0].scalar.bytes() as u32);
    while low <= high {
        let rate = (low + high) / 2;
        let outcome =
            sample.result(&Settings { method: Method::Zfp { rate }, ..Settings::default() })?;
        if outcome.psnr() >= db {
            (found, high) = (Some(outcome), rate - 1);
        } else {
            low = rate + 1;
        }
    }
    Ok(found)
}

fn settings(arguments: &Arguments) -> Vec<Settings> {
    match &arguments.codec {
        Some(Method::Zfp { .. }) => {
            vec![Settings { method: Method::Zfp { rate: arguments.rate }, ..Settings::default() }]
        }
        Some(method) => {
            vec![Settings { method: method.clone(), bound: arguments.bound, ..Settings::default() }]
        }
        None => all(),
    }
}

fn table(rows: &[(String, Outcome)], out: &mut dyn Write) -> io::Result<()> {
    let mut last = "";
    for (file, o) in rows {
        if file != last {
            writeln!(out, "{file}: {} bytes, memcpy {:.1} GB/s", o.raw_bytes, o.memcpy)?;
            writeln!(out, "codec       setting       ratio    PSNR    SSIM     max error  bound kept  compress  decompress GB/s")?;
            last = file;
        }
        let bound = o.setting().unwrap_or("-".into());
        let kept = o.kept.map_or("-", |kept| if kept { "yes" } else { "NO" });
        let (ssim, error) = (o.worst(|m| m.ssim, f64::min), o.worst(|m| m.max_error, f64::max));
        writeln!(
            out,
            "{:11} {bound:10} {:8.2} {:7.2} {ssim:7.5} {error:12.3e}  {kept:10} {:9.2} {:11.2}",
            o.settings.method.name(),
            o.ratio(),
            o.psnr(),
            o.compress,
            o.decompress
        )?;
    }
    out.flush()
}

/// The best codecs for one sample at one bound.
struct Verdict<'a> {
    file: &'a str,
    setting: String,
    /// The smallest result among the codecs that kept the bound.
    smallest: &'a Outcome,
    fastest: &'a Outcome,
    /// The result, raw snapshots included, with the least time to the host and back.
    over_link: &'a Outcome,
}

/// Returns one verdict for each pair of sample and bound at which some codec keeps the bound.
fn verdicts(rows: &[(String, Outcome)], link: f64) -> Vec<Verdict<'_>> {
    let mut groups: Vec<(&str, String)> = Vec::new();
    let settings = rows
        .iter()
        .filter(|(_, o)| o.kept == Some(true))
        .filter_map(|(file, o)| Some((&**file, o.setting()?)));
    settings.for_each(|group| {
        if !groups.contains(&group) {
            groups.push(group)
        }
    });
    let found = groups.into_iter().filter_map(|(file, setting)| {
        let of_file: Vec<&Outcome> =
            rows.iter().filter(|(name, _)| name == file).map(|(_, o)| o).collect();
        let kept = of_file
            .iter()
            .copied()
            .filter(|o| o.kept == Some(true) && o.setting().as_ref() == Some(&setting));
        let raw = of_file.iter().copied().filter(|o| o.settings.method == Method::None);
        let smallest = kept.clone().max_by(|a, b| a.ratio().total_cmp(&b.ratio()))?;
        let fastest = kept.clone().min_by(|a, b| a.coding().total_cmp(&b.coding()))?;
        let over_link =
            kept.chain(raw).min_by(|a, b| a.round_trip(link).total_cmp(&b.round_trip(link)))?;
        Some(Verdict { file, setting, smallest, fastest, over_link })
    });
    found.collect()
}

impl Verdict<'_> {
    fn json(&self) -> Value {
        let [smallest, fastest, over_link] =
            [self.smallest, self.fastest, self.over_link].map(|o| o.settings.method.name());
        json!({"file": self.file, "setting": self.setting, "smallest": smallest, "fastest": fastest, "over_link": over_link})
    }
}

fn write_verdicts(verdicts: &[Verdict], link: f64, out: &mut dyn Write) -> io::Result<()> {
    let mut last = "";
    for verdict in verdicts {
        let Verdict { file, setting, smallest, fastest, over_link } = verdict;
        if *file != last {
            writeln!(
                out,
                "\n{file}: of the codecs that keep each bound, the smallest, the fastest, and what a link of {link} GB/s each way wants:"
            )?;
            writeln!(out, "least time to compress, move to the host and back, and decompress; raw if copying and moving takes less")?;
            last = file;
        }
        writeln!(
            out,
            "{setting:10}  smallest {:8} ratio {:8.2}   fastest {:8} {:6.2} / {:6.2} GB/s   over the link {}",
            smallest.settings.method.name(),
            smallest.ratio(),
            fastest.settings.method.name(),
            fastest.compress,
            fastest.decompress,
            over_link.settings.method.name()
        )?;
    }
    out.flush()
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> std::result::Result<(), Failure> {
    let group = if arguments.pair { 2 } else { 1 };
    if !arguments.files.len().is_multiple_of(group) {
        return Err(Error::new(
            Code::Config,
            format!("--pair with {} files: they come in twos", arguments.files.len()),
        )
        .into());
    }
    let mut rows = Vec::new();
    for paths in arguments.files.chunks(group) {
        let mut sample = Sample::load(arguments, paths)?;
        for settings in settings(arguments) {
            rows.push((sample.name.clone(), sample.result(&settings)?));
        }
        if arguments.all {
            for db in EQUAL_PSNR {
                rows.extend(zfp_at(&mut sample, db)?.map(|outcome| (sample.name.clone(), outcome)));
            }
        }
    }
    let verdicts = if arguments.all { verdicts(&rows, arguments.link_gbs) } else { Vec::new() };
    if !arguments.json {
        let mut out = BufWriter::new(io::stdout().lock());
        table(&rows, &mut out)?;
        write_verdicts(&verdicts, arguments.link_gbs, &mut out)?;
        return Ok(());
    }
    let mut objects: Vec<_> = rows.iter().map(|(file, outcome)| outcome.json(file)).collect();
    let mut object = match objects.len() {
        1 => objects.remove(0),
        _ => Map::from_iter([(
            "results".to_string(),
            objects.into_iter().map(Value::Object).collect(),
        )]),
    };
    if arguments.all {
        object.insert("link_gbs".into(), arguments.link_gbs.into());
        object.insert("verdicts".into(), verdicts.iter().map(Verdict::json).collect());
    }
    emit_json(object)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn small_arrays_are_not_measured_for_a_fifth_of_a_second() {
        let mut runs = 0;
        let run = || {
            runs += 1;
            Ok(())
        };
        assert!(super::best(run).is_ok());
        assert!((3..=super::MOST_RUNS).contains(&runs), "{runs} runs");
    }
}
