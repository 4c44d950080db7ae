//! Measures and prints compression ratio, PSNR and speeds for given files.

use super::Dct;
use crate::codec::{simd, Bound, Coder, Shape};
use crate::scalar::Scalar;
use crate::scalar::{Array, ArrayMut};
use std::path::PathBuf;

/// Measures the processor time of the calling thread in seconds, so that other processes on the
/// machine do not change the result.
struct Clock(f64);

impl Clock {
    fn now() -> Self {
        let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `t` is a valid timespec for the result.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
        Clock(t.tv_sec as f64 + 1e-9 * t.tv_nsec as f64)
    }

    fn seconds(&self) -> f64 {
        Clock::now().0 - self.0
    }
}

/// Prints ratio, PSNR and speeds for the files in `GPUZIP_DCT_FILES` (`path[:n1,n2,n3]`, separated
/// by spaces; raw FP32, a cube unless extents are given) and the bounds in `GPUZIP_DCT_BOUNDS`
/// (`rel:` relative to the largest magnitude, or `psnr:` in dB), with every instruction set of the
/// machine, or only the one in `GPUZIP_DCT_LEVEL`.
pub fn print() {
    let files = std::env::var("GPUZIP_DCT_FILES").unwrap_or_default();
    let bounds = std::env::var("GPUZIP_DCT_BOUNDS").unwrap_or("rel:1e-3 psnr:80 psnr:100".into());
    for file in files.split_whitespace() {
        let (path, dims) = file.split_once(':').map_or((file, None), |(p, d)| (p, Some(d)));
        let bytes = std::fs::read(PathBuf::from(path)).unwrap();
        let x: Vec<f32> =
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        let side = (x.len() as f64).cbrt().round() as usize;
        let n = dims.map_or([side; 3], |d| {
            let d: Vec<usize> = d.split(',').map(|n| n.parse().unwrap()).collect();
            [d[0], d[1], d[2]]
        });
        let max = x.iter().fold(0f64, |m, &x| m.max(f64::from(x).abs()));
        let (least, most) = x
            .iter()
            .fold((f64::MAX, f64::MIN), |(a, b), &x| (a.min(f64::from(x)), b.max(f64::from(x))));
        let mut coder = Dct::new(Shape { n, scalar: Scalar::F32 }).unwrap();
        let mut to = vec![0; coder.max_bytes()];
        let mut y = vec![0f32; x.len()];
        for bound in bounds.split_whitespace() {
            let (kind, value) = bound.split_once(':').unwrap();
            let value: f64 = value.parse().unwrap();
            let limit = match kind {
                "rel" => Bound::Max(value * max),
                _ => Bound::Rms((most - least) * 10f64.powf(-value / 20.0)),
            };
            for level in simd::levels() {
                if std::env::var("GPUZIP_DCT_LEVEL").is_ok_and(|l| l != (level as u8).to_string()) {
                    continue;
                }
                simd::set_level(level);
                let gbs = |seconds: f64| 4e-9 * x.len() as f64 / seconds;
                let (mut copy, mut compress, mut decompress) = (0f64, 0f64, 0f64);
                let mut size = 0;
                for _ in 0..7 {
                    let t = Clock::now();
                    y.copy_from_slice(std::hint::black_box(&x));
                    copy = copy.max(gbs(t.seconds()));
                    let t = Clock::now();
                    size = coder.compress(Array::F32(&x), limit, &mut to).unwrap().unwrap_or(0);
                    compress = compress.max(gbs(t.seconds()));
                    if size == 0 {
                        break;
                    }
                    let t = Clock::now();
                    coder.decompress(&to[..size], ArrayMut::F32(&mut y)).unwrap();
                    decompress = decompress.max(gbs(t.seconds()));
                }
                let (mut square, mut worst) = (0f64, 0f64);
                for (&x, &y) in x.iter().zip(&y) {
                    let e = (f64::from(x) - f64::from(y)).abs();
                    square += e * e;
                    worst = worst.max(e);
                }
                let psnr = 20.0 * ((most - least) / (square / x.len() as f64).sqrt()).log10();
                println!(
                    "{path} {bound} {level:?}: side {} ratio {:.2} psnr {psnr:.2} error {:.4} of bound; memcpy {copy:.1} compress {compress:.2} ({:.2}) decompress {decompress:.2} ({:.2}) GB/s",
                    to[0], bytes.len() as f64 / size as f64, worst / limit.value(), compress / copy, decompress / copy
                );
            }
        }
    }
}
