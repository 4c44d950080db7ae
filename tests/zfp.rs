//! zfp streams against those of libzfp.

#[path = "zfp/libzfp.rs"]
mod libzfp;

use gpuzip::codec::zfp::Zfp;
use gpuzip::codec::{Array, ArrayMut, Coder, Shape};
use gpuzip::snapshot::Scalar;
use libzfp::Libzfp;

/// What the tests do with both types.
trait Value: libzfp::Value + PartialEq + std::fmt::Debug {
    const SCALAR: Scalar;
    const MOST: u32;
    fn array(x: &[Self]) -> Array<'_>;
    fn array_mut(x: &mut [Self]) -> ArrayMut<'_>;
    fn bits(self) -> u64;
    fn of_bits(bits: u64) -> Self;
    fn of(x: f64) -> Self;
}

macro_rules! value {
    ($float:ident, $bits:ident, $variant:ident, $most:literal) => {
        impl Value for $float {
            const SCALAR: Scalar = Scalar::$variant;
            const MOST: u32 = $most;
            fn array(x: &[Self]) -> Array<'_> {
                Array::$variant(x)
            }
            fn array_mut(x: &mut [Self]) -> ArrayMut<'_> {
                ArrayMut::$variant(x)
            }
            fn bits(self) -> u64 {
                self.to_bits() as u64
            }
            fn of_bits(bits: u64) -> Self {
                $float::from_bits(bits as $bits)
            }
            fn of(x: f64) -> Self {
                x as $float
            }
        }
    };
}

value!(f32, u32, F32, 32);
value!(f64, u64, F64, 64);

/// Reproducible numbers.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In [-1, 1).
    fn real(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// Fields of all kinds.
const KINDS: usize = 7;

fn field<T: Value>(kind: usize, dims: &[usize], seed: u64) -> Vec<T> {
    let mut random = Random(seed);
    let nx = dims[0];
    let ny = dims.get(1).copied().unwrap_or(1);
    (0..dims.iter().product())
        .map(|i: usize| {
            let (x, y, z) = ((i % nx) as f64, (i / nx % ny) as f64, (i / nx / ny) as f64);
            // A parabola per axis: smooth, and the same bits everywhere.
            let smooth = (x - 7.25) * (x - 20.0) * 0.01 - (y - 3.0) * (y + 1.5) * 0.03 + (z - 2.0) * z * 0.05;
            let noise = random.real();
            match kind {
                0 => T::of(smooth),
                1 => T::of(noise),
                2 => T::of(if i / 50 % 2 == 0 { 0.0 } else { smooth * noise }),
                3 => T::of(smooth * 1e30),
                // Every exponent, denormals and -0 included.
                4 => loop {
                    let value = T::of_bits(random.bits());
                    if T::array(&[value]).finite() {
                        break value;
                    }
                },
                // Denormals and what is near them.
                5 => T::of_bits(random.bits() & if T::MOST == 32 { 0x8fff_ffff } else { 0x803f_ffff_ffff_ffff } >> (i / 64 % 8)),
                _ => T::of(-1.0 + 1e-6 * (noise * 4.0).floor()),
            }
        })
        .collect()
}

trait Finite {
    fn finite(&self) -> bool;
}

impl Finite for Array<'_> {
    fn finite(&self) -> bool {
        match self {
            Array::F32(x) => x.iter().all(|x| x.is_finite()),
            Array::F64(x) => x.iter().all(|x| x.is_finite()),
        }
    }
}

fn shape<T: Value>(dims: &[usize]) -> Shape {
    let mut n = [1; 3];
    n[..dims.len()].copy_from_slice(dims);
    Shape { n, scalar: T::SCALAR }
}

const DIMS: [&[usize]; 12] =
    [&[1], &[3], &[64], &[1031], &[2, 2], &[5, 7], &[64, 4], &[67, 33], &[4, 4, 4], &[2, 3, 5], &[64, 8, 4], &[35, 14, 9]];

/// Both streams and what both make of them.
fn compare<T: Value>(library: &Libzfp, dims: &[usize], rate: u32, x: &[T], what: &str) {
    let mut zfp = Zfp::new(shape::<T>(dims), rate).unwrap();
    let (mut ours, mut theirs) = (vec![0xaa; zfp.max_bytes()], vec![0; zfp.max_bytes()]);
    assert!(zfp.encode(T::array(x), &mut ours).unwrap());
    let len = library.compress(x, dims, rate, &mut theirs);
    assert!(ours.len() - len < 8, "{what}: {} and {len} bytes", ours.len());
    if let Some(at) = ours.iter().zip(&theirs).position(|(a, b)| a != b) {
        panic!("{what}: byte {at} of {len} is {:02x}, not {:02x}", ours[at], theirs[at]);
    }
    both_decode::<T>(library, &mut zfp, dims, rate, &ours, what);
}

fn both_decode<T: Value>(library: &Libzfp, zfp: &mut Zfp, dims: &[usize], rate: u32, stream: &[u8], what: &str) {
    let len: usize = dims.iter().product();
    let (mut ours, mut theirs) = (vec![T::of(7.0); len], vec![T::of(-7.0); len]);
    zfp.decompress(stream, T::array_mut(&mut ours)).unwrap();
    library.decompress(stream, dims, rate, &mut theirs);
    if let Some(at) = ours.iter().zip(&theirs).position(|(a, b)| a.bits() != b.bits()) {
        panic!("{what}: value {at} of {len} is {:?}, not {:?}", ours[at], theirs[at]);
    }
}

fn compare_all<T: Value>(library: &Libzfp) {
    for (seed, dims) in DIMS.iter().enumerate() {
        if dims.contains(&1) && dims.len() > 1 {
            continue;
        }
        for kind in 0..KINDS {
            let x = field::<T>(kind, dims, seed as u64);
            for rate in 1..=T::MOST {
                compare(library, dims, rate, &x, &format!("{dims:?} {:?} kind {kind} rate {rate}", T::SCALAR));
            }
        }
    }
}

#[test]
fn streams_and_values_are_those_of_libzfp() {
    let Some(library) = Libzfp::open() else { return };
    for level in gpuzip::codec::simd::levels() {
        gpuzip::codec::simd::set_level(level);
        compare_all::<f32>(&library);
        compare_all::<f64>(&library);
    }
}

/// Seconds that this thread has run: other programs' do not count.
fn seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a clock that exists, and room for its time.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Seconds of the fastest of some runs.
fn fastest(mut run: impl FnMut()) -> f64 {
    let once = |_| {
        let start = seconds();
        run();
        seconds() - start
    };
    (0..5).map(once).fold(f64::INFINITY, f64::min)
}

fn measure<T: Value>(library: &Libzfp, name: &str, dims: &[usize], x: &[T]) {
    let gb = size_of_val(x) as f64 / 1e9;
    let mut copy = x.to_vec();
    let memcpy = gb / fastest(|| copy.copy_from_slice(std::hint::black_box(x)));
    println!("{name} {dims:?} {:?}, GB/s beside memcpy at {memcpy:.1}; libzfp, then ours by instruction set:", T::SCALAR);
    for rate in [4, 8, 16] {
        let mut zfp = Zfp::new(shape::<T>(dims), rate).unwrap();
        let mut stream = vec![0; zfp.max_bytes()];
        let mut theirs = vec![0; zfp.max_bytes()];
        let (to, from) = (
            gb / fastest(|| _ = library.compress(x, dims, rate, &mut theirs)),
            gb / fastest(|| _ = library.decompress(&theirs, dims, rate, &mut copy)),
        );
        let mut line = format!("  rate {rate:2}: compress {to:.2}, decompress {from:.2}");
        for level in gpuzip::codec::simd::levels() {
            gpuzip::codec::simd::set_level(level);
            let ours_to = gb / fastest(|| assert!(zfp.encode(T::array(x), &mut stream).unwrap()));
            let ours_from = gb / fastest(|| zfp.decompress(&stream, T::array_mut(&mut copy)).unwrap());
            line += &format!(" | {level:?} {ours_to:.2} ({:.1}x), {ours_from:.2} ({:.1}x)", ours_to / to, ours_from / from);
        }
        println!("{line}");
    }
}

/// `cargo test --release --test zfp -- --ignored --nocapture`; files of FP32 values, n1 x n2 x n3 in their names, through ZFP_FIELDS.
#[test]
#[ignore = "measures"]
fn speed_beside_libzfp() {
    let Some(library) = Libzfp::open() else { return };
    for path in std::env::var("ZFP_FIELDS").unwrap_or_default().split_whitespace() {
        let bytes = std::fs::read(path).unwrap();
        let x: Vec<f32> = bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        let extents = |part: &str| part.split('x').map(|n| n.parse().ok()).collect::<Option<Vec<usize>>>();
        let mut dims = path.split(['_', '/', '.']).filter_map(extents).find(|dims| dims.len() == 3).expect("extents in the name");
        dims.retain(|&n| n > 1);
        measure(&library, path, &dims, &x);
        measure(&library, path, &dims, &x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
        measure(&library, path, &[x.len()], &x);
    }
}
