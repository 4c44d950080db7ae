//! The discrete cosine transform of one line of 8, 16 or 32 values, for many lines at a time.
//!
//! The transforms are orthonormal up to a factor sqrt(2/n), which the step of the quantiser
//! contains. They recurse as in Plonka and Tasche, "Fast and numerically stable algorithms for
//! discrete cosine transforms", Linear Algebra Appl. 394 (2005): sums and differences split a
//! DCT-II into a DCT-II and a DCT-IV of half the length; rotations split a DCT-IV into two DCT-II
//! of half the length. Products and sums are computed in the order written here and never fused.

use super::vector::Vector;
use crate::codec::simd::array;
use crate::scalar::Real;

/// cos(pi j / 64), j = 0, ..., 32, correctly rounded.
#[rustfmt::skip]
const COS: [f64; 33] = [
    1.0, 0.9987954562051724, 0.9951847266721969, 0.989176509964781,
    0.9807852804032304, 0.970031253194544, 0.9569403357322088, 0.9415440651830208,
    0.9238795325112867, 0.9039892931234433, 0.881921264348355, 0.8577286100002721,
    0.8314696123025452, 0.8032075314806449, 0.773010453362737, 0.7409511253549591,
    std::f64::consts::FRAC_1_SQRT_2, 0.6715589548470184, 0.6343932841636455, 0.5956993044924334,
    0.5555702330196022, 0.5141027441932218, 0.47139673682599764, 0.4275550934302821,
    0.3826834323650898, 0.33688985339222005, 0.2902846772544624, 0.2429801799032639,
    0.19509032201612828, 0.14673047445536175, 0.0980171403295606, 0.049067674327418015,
    0.0,
];

/// Returns cos(pi j / 64).
#[inline(always)]
fn cos<T: Real>(j: usize) -> T {
    T::from_f64(COS[j])
}

/// Computes X_k = sum over n of x_n cos(pi (2n+1) k / 2N), N = 2.
#[inline(always)]
fn dct2_2<T: Real>(x: [T; 2]) -> [T; 2] {
    [x[0] + x[1], (x[0] - x[1]) * cos(16)]
}

/// Computes the transpose of `dct2_2`.
#[inline(always)]
fn dct3_2<T: Real>(x: [T; 2]) -> [T; 2] {
    let odd = x[1] * cos(16);
    [x[0] + odd, x[0] - odd]
}

/// Computes X_k = sum over n of x_n cos(pi (2n+1) (2k+1) / 4N), N = 2: its own transpose.
#[inline(always)]
fn dct4_2<T: Real>(x: [T; 2]) -> [T; 2] {
    let (c, s) = (cos::<T>(8), cos::<T>(24));
    [x[0] * c + x[1] * s, x[0] * s - x[1] * c]
}

/// Defines a DCT-II and its transpose of length $n by transforms of half the length $h.
macro_rules! dct2 {
    ($n:literal, $h:literal, $dct2:ident, $dct3:ident, $half2:ident, $half3:ident, $half4:ident) => {
        #[inline(always)]
        fn $dct2<T: Real>(x: [T; $n]) -> [T; $n] {
            let even = $half2(array(|i| x[i] + x[$n - 1 - i]));
            let odd = $half4(array(|i| x[i] - x[$n - 1 - i]));
            array(|k| if k % 2 == 0 { even[k / 2] } else { odd[k / 2] })
        }

        #[inline(always)]
        fn $dct3<T: Real>(x: [T; $n]) -> [T; $n] {
            let even: [T; $h] = $half3(array(|i| x[2 * i]));
            let odd: [T; $h] = $half4(array(|i| x[2 * i + 1]));
            array(|n| if n < $h { even[n] + odd[n] } else { even[$n - 1 - n] - odd[$n - 1 - n] })
        }
    };
}

/// Defines a DCT-IV of length $n by DCT-IIs of half the length $h. With t_n = pi (2n+1) / 4N,
///
/// ```text
/// X_2m   = P_m - Q_m
/// X_2m-1 = P_m + Q_m
/// ```
///
/// where P is the DCT-II of x_n cos t_n + x_N-1-n sin t_n, and Q, backwards, is the DCT-II of (x_n
/// sin t_n - x_N-1-n cos t_n) (-1)^n.
macro_rules! dct4 {
    ($n:literal, $h:literal, $dct4:ident, $half2:ident) => {
        #[inline(always)]
        fn $dct4<T: Real>(x: [T; $n]) -> [T; $n] {
            let angle = |i: usize| (2 * i + 1) * (16 / $n);
            let p: [T; $h] =
                $half2(array(|i| x[i] * cos(angle(i)) + x[$n - 1 - i] * cos(32 - angle(i))));
            let q: [T; $h] = $half2(array(|i| {
                let (a, b) = (x[i] * cos(32 - angle(i)), x[$n - 1 - i] * cos(angle(i)));
                if i % 2 == 0 {
                    a - b
                } else {
                    b - a
                }
            }));
            array(|k| match k {
                0 => p[0],
                k if k == $n - 1 => q[0],
                k if k % 2 == 0 => p[k / 2] - q[$h - k / 2],
                k => p[k / 2 + 1] + q[$h - 1 - k / 2],
            })
        }
    };
}

dct2!(4, 2, dct2_4, dct3_4, dct2_2, dct3_2, dct4_2);
dct4!(4, 2, dct4_4, dct2_2);
dct2!(8, 4, dct2_8, dct3_8, dct2_4, dct3_4, dct4_4);
dct4!(8, 4, dct4_8, dct2_4);
dct2!(16, 8, dct2_16, dct3_16, dct2_8, dct3_8, dct4_8);

/// A line of `S` values of each SIMD lane.
pub(super) type Line<T, const L: usize, const S: usize> = [Vector<T, L>; S];

/// Applies the transform `$each`, of `$n` values, to the line of every lane. Lines of 16 values are the longest that
/// compilers keep in vector registers. (A function for this would call `$each` through another one, which is not
/// always inlined into kernels.)
macro_rules! lanes {
    ($line:expr, $each:ident, $n:literal) => {{
        let line: Line<T, L, $n> = $line;
        let mut out = line;
        for l in 0..L {
            let mut x = [T::default(); $n];
            for i in 0..$n {
                x[i] = line[i].0[l];
            }
            let y = $each(x);
            for i in 0..$n {
                out[i].0[l] = y[i];
            }
        }
        out
    }};
}

/// Computes the sums and the differences of the values of two lines.
#[inline(always)]
fn butterflies<T: Real, const L: usize, const N: usize>(
    a: &Line<T, L, N>,
    b: &Line<T, L, N>,
) -> [Line<T, L, N>; 2] {
    let mut out = [*a; 2];
    for l in 0..L {
        for i in 0..N {
            let (a, b) = (a[i].0[l], b[i].0[l]);
            (out[0][i].0[l], out[1][i].0[l]) = (a + b, a - b);
        }
    }
    out
}

/// Computes what `dct4!` says, of length 16, of each lane's line.
#[inline(always)]
fn dct4_16<T: Real, const L: usize>(x: &Line<T, L, 16>) -> Line<T, L, 16> {
    let [mut p, mut q] = [[x[0]; 8]; 2];
    for l in 0..L {
        for i in 0..8 {
            let (a, b, angle) = (x[i].0[l], x[15 - i].0[l], 2 * i + 1);
            p[i].0[l] = a * cos(angle) + b * cos(32 - angle);
            let (a, b) = (a * cos(32 - angle), b * cos(angle));
            q[i].0[l] = if i % 2 == 0 { a - b } else { b - a };
        }
    }
    let (p, q) = (lanes!(p, dct2_8, 8), lanes!(q, dct2_8, 8));
    let mut out = *x;
    for l in 0..L {
        (out[0].0[l], out[15].0[l]) = (p[0].0[l], q[0].0[l]);
        for m in 1..8 {
            out[2 * m].0[l] = p[m].0[l] - q[8 - m].0[l];
            out[2 * m - 1].0[l] = p[m].0[l] + q[8 - m].0[l];
        }
    }
    out
}

/// Computes what `dct2!` says, of length 32, of each lane's line. The two transforms of half the length are computed
/// one after the other, for all lanes.
#[inline(always)]
fn dct2_32<T: Real, const L: usize>(x: &Line<T, L, 32>) -> Line<T, L, 32> {
    let [low, high] = [array(|i| x[i]), array(|i| x[31 - i])];
    let [sums, differences] = butterflies(&low, &high);
    let (even, odd) = (lanes!(sums, dct2_16, 16), dct4_16(&differences));
    array(|k| if k % 2 == 0 { even[k / 2] } else { odd[k / 2] })
}

/// Computes the transpose of `dct2_32`.
#[inline(always)]
fn dct3_32<T: Real, const L: usize>(x: &Line<T, L, 32>) -> Line<T, L, 32> {
    let (even, odd) = (array(|i| x[2 * i]), array(|i| x[2 * i + 1]));
    let [low, high] = butterflies(&lanes!(even, dct3_16, 16), &dct4_16(&odd));
    array(|n| if n < 16 { low[n] } else { high[31 - n] })
}

/// Computes the orthonormal DCT-II of each lane's line, times sqrt(S/2), or with `BACK` the inverse
/// of the orthonormal DCT-II, times sqrt(S/2).
#[inline(always)]
pub(super) fn transform<T: Real, const L: usize, const S: usize, const BACK: bool>(
    line: &Line<T, L, S>,
) -> Line<T, L, S> {
    if BACK {
        let mut line = *line;
        scale(&mut line[0]);
        return match S {
            8 => cast(&lanes!(cast(&line), dct3_8, 8)),
            16 => cast(&lanes!(cast(&line), dct3_16, 16)),
            _ => cast(&dct3_32(&cast(&line))),
        };
    }
    let mut out = match S {
        8 => cast(&lanes!(cast(line), dct2_8, 8)),
        16 => cast(&lanes!(cast(line), dct2_16, 16)),
        _ => cast(&dct2_32(&cast(line))),
    };
    scale(&mut out[0]);
    out
}

/// Multiplies the constant coefficients by sqrt(1/2).
#[inline(always)]
fn scale<T: Real, const L: usize>(x: &mut Vector<T, L>) {
    for x in &mut x.0 {
        *x = *x * cos(16);
    }
}

/// Converts between lines of lengths `A` and `B`, which are equal for every call that runs.
#[inline(always)]
fn cast<T: Real, const L: usize, const A: usize, const B: usize>(
    x: &Line<T, L, A>,
) -> Line<T, L, B> {
    array(|i| if i < A { x[i] } else { Vector::default() })
}
