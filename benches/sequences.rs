//! What a sequence of states gains: `cargo bench --bench sequences -- FOLDER...`, with FP32 arrays whose names end
//! as in `snapshot_184x184x184_step0600_curr.f32`, at least three consecutive steps of a run
//! (`rtm3d --dump-snapshots 600,601,602 --out FOLDER`). Prints for each three the ratios of raw to coded bytes:
//! a state of two levels as `dct` codes it by itself, u(t) and u(t) - u(t-1); and in a sequence, where it is one
//! new array. Speeds are of one thread, in GB/s of an array.

use gpuzip::codec::{Bound, Coder, Method, SequenceCoder, Shape};
use gpuzip::scalar::{Array, ArrayMut, Scalar};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Extents and step in the name of a file.
fn parts_of(path: &Path) -> Option<([usize; 3], u32)> {
    let name = path.file_name()?.to_str()?.strip_suffix("_curr.f32")?;
    let (rest, step) = name.rsplit_once("_step")?;
    let numbers = rest.rsplit_once('_')?.1.split('x').map(|n| n.parse().ok());
    let n: Vec<usize> = numbers.collect::<Option<_>>()?;
    Some((n.try_into().ok()?, step.parse().ok()?))
}

fn values_of(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).expect("a file of values");
    bytes.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)).collect()
}

fn span(x: &[f32]) -> (f64, f64) {
    let (low, high) = x.iter().fold((f32::MAX, f32::MIN), |(a, b), &x| (a.min(x), b.max(x)));
    (f64::from(high) - f64::from(low), f64::from(high.max(-low)))
}

/// The name of a bound, and how it follows from an array.
type Mode = (&'static str, fn(&[f32]) -> Bound);

struct Coders {
    shape: Shape,
    alone: Box<dyn Coder>,
    sequence: Box<dyn SequenceCoder>,
    to: Vec<u8>,
}

/// Runs `body` for some 0.2 s. Returns its last result, and the GB/s of its fastest run, which takes `bytes`.
fn timed<T>(bytes: usize, mut body: impl FnMut() -> T) -> (T, f64) {
    let (begin, mut least) = (Instant::now(), f64::MAX);
    loop {
        let start = Instant::now();
        let result = body();
        least = least.min(start.elapsed().as_secs_f64());
        if begin.elapsed().as_secs_f64() > 0.2 {
            return (result, bytes as f64 / least / 1e9);
        }
    }
}

impl Coders {
    fn new(shape: Shape) -> Self {
        let alone = Method::Dct.coder(shape).unwrap().unwrap();
        let sequence = Method::Dct.sequence_coder(shape, 3).unwrap().unwrap();
        let to = vec![0; alone.max_bytes().max(sequence.max_bytes())];
        Coders { shape, alone, sequence, to }
    }

    fn alone(&mut self, x: &[f32], bound: Bound) -> usize {
        let made = self.alone.compress(Array::F32(x), bound, &mut self.to).unwrap();
        made.unwrap_or(self.shape.bytes())
    }

    /// Prints the ratios of the first of three consecutive states.
    fn measure(&mut self, name: &str, x: &[Vec<f32>; 3], (mode, bound): Mode) {
        let raw = self.shape.bytes();
        let difference: Vec<f32> = x[1].iter().zip(&x[0]).map(|(a, b)| a - b).collect();
        let (one, alone_gbs) = timed(raw, || self.alone(&x[0], bound(&x[0])));
        let two = self.alone(&difference, bound(&difference));
        let (taken, take_gbs) = timed(3 * raw, || {
            (0..3).all(|k| self.sequence.take(k, Array::F32(&x[k]), bound(&x[k])).unwrap())
        });
        if !taken {
            println!("{name} {mode}: not in a sequence");
            return;
        }
        let (new, code_gbs) =
            timed(raw, || self.sequence.code(0, &[1, 2], &mut self.to).unwrap().0);
        let mut decoded = vec![0.0; x[0].len()];
        let (opened, open_gbs) = timed(raw, || {
            let is_open = self.sequence.open(0, &[1, 2], &self.to[..new]).is_ok();
            is_open && self.sequence.values(0, ArrayMut::F32(&mut decoded)).is_ok()
        });
        assert!(opened, "{name} {mode}: a sequence is decoded");
        let ratio = |bytes: usize| 2.0 * raw as f64 / bytes as f64;
        let (pair, sequence) = (ratio(one + two), ratio(new));
        let both = 1.0 / (1.0 / take_gbs + 1.0 / code_gbs);
        println!(
            "{name} {mode}: pair {pair:.1}, sequence {sequence:.1}, {:.2} times fewer bytes; GB/s: alone {alone_gbs:.2}, take {take_gbs:.2}, code {code_gbs:.2}, both {both:.2}, decode {open_gbs:.2}",
            sequence / pair
        );
    }
}

fn main() {
    let modes: [Mode; 4] = [
        ("80 dB", |x| Bound::Rms(span(x).0 * 1e-4)),
        ("1e-2", |x| Bound::Max(span(x).1 * 1e-2)),
        ("1e-3", |x| Bound::Max(span(x).1 * 1e-3)),
        ("1e-4", |x| Bound::Max(span(x).1 * 1e-4)),
    ];
    for folder in std::env::args().skip(1).filter(|argument| !argument.starts_with('-')) {
        let entries = std::fs::read_dir(&folder).expect("a folder");
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let known = files.iter().filter_map(|path| Some((parts_of(path)?, path)));
        let known: Vec<_> = known.collect();
        for three in known.windows(3) {
            let [((n, first), a), (second, b), (third, c)] = three else { continue };
            if (*second, *third) != ((*n, first + 1), (*n, first + 2)) {
                continue;
            }
            let x = [a, b, c].map(|path| values_of(path));
            let mut coders = Coders::new(Shape { n: *n, scalar: Scalar::F32 });
            let name = a.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            modes.iter().for_each(|&mode| coders.measure(name, &x, mode));
        }
    }
}
