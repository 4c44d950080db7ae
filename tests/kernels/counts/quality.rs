//! What is left of the counted fields when they have been compressed: the quality to which the
//! predicted speeds belong.

use gpuzip::codec::{Settings, SnapshotCodec};
use gpuzip::device::AppMemory;
use gpuzip::layout::{Field, Layout};
use gpuzip::scalar::Scalar;
use std::path::PathBuf;

/// The file of the figures, which benches/roofline.py reads.
pub fn path() -> PathBuf {
    crate::common::root().join("benches/results/quality.txt")
}

const HEAD: &str = "\
# What the codecs leave of the fields of kernel-counts.txt: the peak signal-to-noise ratio in dB, 20 log10 of the range over the root
# mean square error, and the largest error over the range. The host's codecs made the streams; the kernels make the same bytes.
# codec type dimensions bound: psnr error
";

/// Returns the text of the file.
pub fn text() -> String {
    let mut text = HEAD.to_owned();
    for (method, bounds) in super::codecs() {
        for scalar in [Scalar::F32, Scalar::F64] {
            for (rank, n) in (1..).zip(super::SHAPES) {
                for &(name, bound) in &bounds {
                    let settings =
                        Settings { method: method.clone(), bound, ..Settings::default() };
                    let [psnr, error] = measured(settings, n, scalar);
                    let kind = if scalar == Scalar::F32 { "f32" } else { "f64" };
                    let codec = method.name();
                    text += &format!("{codec} {kind} {rank} {name}: {psnr:.1} {error:.1e}\n");
                }
            }
        }
    }
    text
}

/// Compresses and decompresses a field; returns its PSNR and its largest error over the range.
fn measured(settings: Settings, n: [u64; 3], scalar: Scalar) -> [f64; 2] {
    let layout = Layout::new(vec![Field { n, scalar, previous_of: None }]).unwrap();
    let mut codec = SnapshotCodec::new(settings, &layout).unwrap();
    let field = super::wavefield(n, scalar);
    let (mut copy, mut stream) = (field.clone(), vec![0; codec.capacity()]);
    // SAFETY: `copy` outlives the codec's calls, and nothing else uses it during them.
    unsafe {
        let memory = [AppMemory::new(copy.as_mut_ptr(), copy.len())];
        let bytes = codec.compress(&memory, &mut stream).unwrap();
        codec.decompress(&stream[..bytes], &memory).unwrap();
    }
    let (x, y) = (numbers(&field, scalar), numbers(&copy, scalar));
    let range = x.iter().fold(f64::MIN, |max, &x| max.max(x))
        - x.iter().fold(f64::MAX, |min, &x| min.min(x));
    let errors = x.iter().zip(&y).map(|(x, y)| (x - y).abs());
    let most = errors.clone().fold(0.0, f64::max);
    let square = errors.map(|error| error * error).sum::<f64>() / x.len() as f64;
    [20.0 * (range / square.sqrt()).log10(), most / range]
}

fn numbers(bytes: &[u8], scalar: Scalar) -> Vec<f64> {
    match scalar {
        Scalar::F32 => bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b).into()).collect(),
        _ => bytes.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect(),
    }
}
