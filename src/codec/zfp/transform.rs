//! The transform of a batch of blocks: block floating point, decorrelation, order, negabinary.

use super::block_bits::WORDS;
use super::planes::{join, split, Matrix};
use super::value::{Int, Value};
use crate::codec::simd::Kernel;

/// Unrolls a statement for i = 0, ..., 15. A loop over lanes is vectorised only if its body is
/// long: the compiler unrolls a loop with a short body instead of vectorising it.
macro_rules! sixteen {
    ($i:ident: $step:expr) => {
        sixteen!($i: $step; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    ($i:ident: $step:expr; $($at:literal)*) => {{
        $({
            const $i: usize = $at;
            $step;
        })*
    }};
}

/// The coefficients by total sequency: place x + 4y + 16z of each coefficient in a block.
const ORDER_1: [u8; 4] = [0, 1, 2, 3];
const ORDER_2: [u8; 16] = [0, 1, 4, 5, 2, 8, 6, 9, 3, 12, 10, 7, 13, 11, 14, 15];
#[rustfmt::skip]
const ORDER_3: [u8; 64] = [
    0, 1, 4, 16, 20, 17, 5, 2, 8, 32, 21, 6, 18, 24, 9, 33, 36, 3, 12, 48, 22, 25, 37, 40, 34, 10, 7, 19, 28, 13, 49, 52,
    41, 38, 26, 23, 29, 53, 11, 35, 44, 14, 50, 56, 42, 27, 39, 45, 30, 54, 57, 60, 51, 15, 43, 46, 58, 61, 55, 31, 62, 59, 47, 63,
];

/// A batch of blocks: 64 / 4^d groups of `N` lanes each. `rows[j][l]` has the values 4j to 4j + 3
/// of lane l; each 4^d consecutive values of a lane are one block.
#[derive(Clone)]
pub struct Batch<T: Value<N>, const N: usize> {
    pub rows: [[[T; 4]; N]; 16],
    /// The bit planes of the coefficients.
    pub planes: Matrix,
    /// The biased exponents of the blocks: the lanes of the first group, then of the next group.
    pub exponents: [u32; 256],
    /// The bits of the blocks.
    pub words: [u64; WORDS],
    work: [[T::Int; N]; 64],
    coefficients: Matrix,
}

impl<T: Value<N>, const N: usize> Batch<T, N> {
    /// Returns a batch of zeros.
    pub fn new() -> Self {
        let zero = T::default();
        let (planes, coefficients) = ([[0; 8]; 64], [[0; 8]; 64]);
        Batch {
            rows: [[[zero; 4]; N]; 16],
            planes,
            exponents: [0; 256],
            words: [0; WORDS],
            work: [[T::Int::default(); N]; 64],
            coefficients,
        }
    }
}

/// Returns the order of the coefficients in a block of `dims` dimensions.
#[inline(always)]
fn order(dims: u32) -> &'static [u8] {
    match dims {
        1 => &ORDER_1,
        2 => &ORDER_2,
        _ => &ORDER_3,
    }
}

/// Turns the values of a batch into bit planes and exponents; false if a value is not finite.
pub struct Forward<'a, T: Value<N>, const N: usize> {
    pub batch: &'a mut Batch<T, N>,
    pub dims: u32,
    /// True if the stream has bits for the planes; otherwise the planes are not computed.
    pub coded: bool,
}

impl<T: Value<N>, const N: usize> Kernel for Forward<'_, T, N> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Batch { rows, planes, exponents, work, coefficients, .. } = self.batch;
        let order = order(self.dims);
        for l in 0..N {
            sixteen!(J: [work[4 * J][l], work[4 * J + 1][l], work[4 * J + 2][l], work[4 * J + 3][l]] = rows[J][l].map(T::int_bits));
        }
        let rows_of = order.len() / 4;
        for group in 0..16 / rows_of {
            let work = &mut work[4 * rows_of * group..][..4 * rows_of];
            let exponents: &mut [u32; N] =
                (&mut exponents[N * group..][..N]).try_into().expect("N exponents");
            if !quantize::<T, N>(work, exponents) {
                return false;
            }
        }
        if !self.coded {
            return true;
        }
        for axis in 0..self.dims {
            along(work, axis, lift);
        }
        for (to, row) in coefficients.iter_mut().enumerate() {
            let from = (to & !(order.len() - 1)) + usize::from(order[to % order.len()]);
            let mut lanes = work[from & 63];
            for int in &mut lanes {
                *int = int.negabinary();
            }
            *row = T::words(lanes);
        }
        split(coefficients, planes);
        true
    }
}

/// Turns the values of one group, given as bits, into fixed-point numbers relative to the exponent
/// of each block. Returns false if a value is not finite.
#[inline(always)]
fn quantize<T: Value<N>, const N: usize>(
    values: &mut [[T::Int; N]],
    exponents: &mut [u32; N],
) -> bool {
    let mut largest = [T::Int::default(); N];
    for four in values.as_chunks::<4>().0 {
        for l in 0..N {
            for row in four {
                largest[l] = largest[l].max(row[l].magnitude());
            }
        }
    }
    let mut scale = [T::default(); N];
    let (mut highest, mut tiny) = (0, false);
    for l in 0..N {
        let exponent =
            if largest[l] == T::Int::default() { 0 } else { largest[l].above(T::DIGITS - 1) + 1 };
        exponents[l] = exponent;
        highest = highest.max(exponent);
        tiny |= exponent != 0 && exponent < least::<T, N>();
        scale[l] = to_fixed::<T, N>(exponent);
    }
    if highest >= 1 << T::EXPONENT {
        return false;
    }
    for four in values.as_chunks_mut::<4>().0 {
        for l in 0..N {
            for row in &mut *four {
                // SAFETY: |value| < 2^e and the scale is 2^(width - 2 - e) or 0: the product fits.
                row[l] = unsafe { T::of_int_bits(row[l]).quantized(scale[l]) };
            }
        }
    }
    if tiny {
        // The factor 2^(width - 2 - e) overflows. libzfp then converts infinities and NaN to
        // integers; every machine turns them into this number.
        for l in (0..N).filter(|&l| exponents[l] != 0 && exponents[l] < least::<T, N>()) {
            values.iter_mut().for_each(|row| row[l] = T::Int::LEAST);
        }
    }
    true
}

/// Returns the smallest biased exponent whose factor to fixed point is finite.
#[inline(always)]
fn least<T: Value<N>, const N: usize>() -> u32 {
    8 * T::BYTES as u32 - 2
}

/// Returns 2^(width - 2 - e), where e is the exponent without its bias; 0 where this factor
/// overflows.
#[inline(always)]
fn to_fixed<T: Value<N>, const N: usize>(exponent: u32) -> T {
    let bias = (1u32 << (T::EXPONENT - 1)) - 1;
    let field = if exponent < least::<T, N>() { 0 } else { least::<T, N>() + 2 * bias - exponent };
    T::from_bits(u64::from(field) << (T::DIGITS - 1))
}

/// Returns 2^(e - width + 2), where e is the exponent without its bias; a denormal number or 0
/// where the type requires it.
#[inline(always)]
fn from_fixed<T: Value<N>, const N: usize>(exponent: u32) -> T {
    let least = least::<T, N>();
    T::from_bits(match exponent {
        e if e > least => u64::from(e - least) << (T::DIGITS - 1),
        e if e + T::DIGITS > least + 1 => 1 << (e + T::DIGITS - 2 - least),
        _ => 0,
    })
}

/// Calls `lift` for every row of 4 values along x (axis 0), y (1) or z (2).
#[inline(always)]
fn along<T: Int, const N: usize>(
    v: &mut [[T; N]; 64],
    axis: u32,
    lift: impl Fn(&mut [[T; N]; 64], usize, usize, usize),
) {
    for l in 0..N {
        match axis {
            0 => sixteen!(I: lift(v, 4 * I, 1, l)),
            1 => sixteen!(I: lift(v, 4 * (I - I % 4) + I % 4, 4, l)),
            _ => sixteen!(I: lift(v, I, 16, l)),
        }
    }
}

/// Lifts a row of 4 values: the matrix is 1/16 (4 4 4 4; 5 1 -1 -5; -4 4 4 -4; -2 6 -6 2).
#[inline(always)]
fn lift<I: Int, const N: usize>(v: &mut [[I; N]; 64], at: usize, step: usize, l: usize) {
    let [mut x, mut y, mut z, mut w] =
        [v[at][l], v[at + step][l], v[at + 2 * step][l], v[at + 3 * step][l]];
    x = (x + w) >> 1;
    w = w - x;
    z = (z + y) >> 1;
    y = y - z;
    x = (x + z) >> 1;
    z = z - x;
    w = (w + y) >> 1;
    y = y - w;
    w = w + (y >> 1);
    y = y - (w >> 1);
    [v[at][l], v[at + step][l], v[at + 2 * step][l], v[at + 3 * step][l]] = [x, y, z, w];
}

/// Lifts a row of 4 back: the matrix is 1/4 (4 6 -4 -1; 4 2 4 5; 4 -2 4 -5; 4 -6 -4 1).
#[inline(always)]
fn unlift<I: Int, const N: usize>(v: &mut [[I; N]; 64], at: usize, step: usize, l: usize) {
    let [mut x, mut y, mut z, mut w] =
        [v[at][l], v[at + step][l], v[at + 2 * step][l], v[at + 3 * step][l]];
    y = y + (w >> 1);
    w = w - (y >> 1);
    y = y + w;
    w = (w << 1) - y;
    z = z + x;
    x = (x << 1) - z;
    y = y + z;
    z = (z << 1) - y;
    w = w + x;
    x = (x << 1) - w;
    [v[at][l], v[at + step][l], v[at + 2 * step][l], v[at + 3 * step][l]] = [x, y, z, w];
}

/// Turns the bit planes and exponents of a batch into values.
pub struct Inverse<'a, T: Value<N>, const N: usize> {
    pub batch: &'a mut Batch<T, N>,
    pub dims: u32,
}

impl<T: Value<N>, const N: usize> Kernel for Inverse<'_, T, N> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Batch { rows, planes, exponents, work, coefficients, .. } = self.batch;
        let order = order(self.dims);
        join(planes, coefficients);
        for (from, row) in coefficients.iter().enumerate() {
            let to = (from & !(order.len() - 1)) + usize::from(order[from % order.len()]);
            let mut lanes = T::lanes(*row);
            for int in &mut lanes {
                *int = int.binary();
            }
            work[to & 63] = lanes;
        }
        for axis in (0..self.dims).rev() {
            along(work, axis, unlift);
        }
        let rows_of = order.len() / 4;
        for group in 0..16 / rows_of {
            let mut scale = [T::default(); N];
            for l in 0..N {
                scale[l] = from_fixed::<T, N>(exponents[(N * group + l) % 256]);
            }
            for four in work[4 * rows_of * group..][..4 * rows_of].as_chunks_mut::<4>().0 {
                for l in 0..N {
                    for row in &mut *four {
                        row[l] = T::value(row[l], scale[l]).int_bits();
                    }
                }
            }
        }
        for l in 0..N {
            sixteen!(J: rows[J][l] = [work[4 * J][l], work[4 * J + 1][l], work[4 * J + 2][l], work[4 * J + 3][l]].map(T::of_int_bits));
        }
    }
}
