//! Error measures of a decoded array: maximal error, PSNR and SSIM.
//!
//! All of them are computed in double precision over the values that are finite in the original. A
//! finite value that was decoded to NaN or an infinity counts as an infinite error.

use gpuzip::codec::simd::{dispatch, Kernel};
use gpuzip::scalar::Real;

/// The difference between a decoded array y and the original array x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// The largest |x - y|.
    pub max_error: f64,
    /// The root of the mean of (x - y)^2.
    pub rmse: f64,
    /// PSNR, 20 log10(range / rmse), in dB: infinite if all values are equal, -infinite if the
    /// original is constant and a value differs.
    pub psnr: f64,
    /// x - y| / |x| in the Euclidean norm; 0 if all values are equal.
    pub relative_l2: f64,
    /// Mean structural similarity as `Ssim` defines it; 1 if all values are equal, NaN if no window
    /// is finite.
    pub ssim: f64,
    /// max |x|.
    pub peak: f64,
    /// max x - min x.
    pub range: f64,
    /// Number of values of the original that are not finite.
    pub nonfinite: u64,
    /// Number of these values whose bits changed.
    pub nonfinite_lost: u64,
}

/// Compares two arrays of extents `n`, n1 fastest, which must have equal numbers of values. A field
/// of 256^3 values takes about 0.3 s.
pub fn quality<T: Real>(x: &[T], y: &[T], n: [usize; 3]) -> Quality {
    assert!(x.len() == y.len() && x.len() == n.iter().product::<usize>(), "two arrays of {n:?}");
    let Extent { least, largest, finite } = dispatch(Extents(x));
    let (peak, range) =
        if finite == 0 { (0.0, 0.0) } else { (largest.max(-least), largest - least) };
    // Values are scaled by about the maximum, since the squares of FP64 values might overflow.
    let unit = power_below(peak);
    let sums = dispatch(Errors { x, y, relative: 1.0 / unit });
    let mean = |sum: f64| (sum / finite.max(1) as f64).sqrt() * unit;
    let ratio = |a: f64, b: f64| if a == 0.0 { 0.0 } else { a / b };
    let (rmse, rms) = (mean(sums.error), mean(sums.square));
    let middle = least / 2.0 + largest / 2.0;
    let scale = [range, peak].into_iter().find(|&scale| scale > 0.0).unwrap_or(1.0);
    Quality {
        max_error: sums.largest,
        rmse,
        psnr: if rmse == 0.0 { f64::INFINITY } else { 20.0 * (range / rmse).log10() },
        relative_l2: ratio(rmse, rms),
        ssim: dispatch(Ssim { x, y, n, middle: if finite == 0 { 0.0 } else { middle }, scale }),
        peak,
        range,
        nonfinite: x.len() as u64 - finite,
        nonfinite_lost: x
            .iter()
            .zip(y)
            .filter(|(x, y)| !x.is_finite() && x.to_bits() != y.to_bits())
            .count() as u64,
    }
}

/// Returns the largest power of two that is at most `x`; 1 if it would not be a normal number.
fn power_below(x: f64) -> f64 {
    match f64::from_bits(x.to_bits() & f64::INFINITY.to_bits()) {
        0.0 => 1.0,
        power => power,
    }
}

/// Number of independent partial sums, for vector instructions.
const LANES: usize = 16;

/// The least and the greatest of the finite values.
struct Extent {
    least: f64,
    largest: f64,
    finite: u64,
}

struct Extents<'a, T>(&'a [T]);

impl<T: Real> Kernel for Extents<'_, T> {
    type Output = Extent;

    #[inline(always)]
    fn run(self) -> Extent {
        let mut lanes = [(f64::INFINITY, f64::NEG_INFINITY, 0); LANES];
        for chunk in self.0.chunks(LANES) {
            for ((least, largest, finite), x) in lanes.iter_mut().zip(chunk) {
                let (x, is_finite) = (x.to_f64(), x.is_finite());
                *least = if is_finite && x < *least { x } else { *least };
                *largest = if is_finite && x > *largest { x } else { *largest };
                *finite += is_finite as u64;
            }
        }
        lanes.iter().fold(
            Extent { least: f64::INFINITY, largest: f64::NEG_INFINITY, finite: 0 },
            |a, b| Extent {
                least: a.least.min(b.0),
                largest: a.largest.max(b.1),
                finite: a.finite + b.2,
            },
        )
    }
}

/// Sums over the values that are finite in the original, which are scaled by about its maximum.
#[derive(Clone, Copy, Default)]
struct Sums {
    largest: f64,
    error: f64,
    square: f64,
}

struct Errors<'a, T> {
    x: &'a [T],
    y: &'a [T],
    relative: f64,
}

impl<T: Real> Kernel for Errors<'_, T> {
    type Output = Sums;

    #[inline(always)]
    fn run(self) -> Sums {
        let mut lanes = [Sums::default(); LANES];
        for (x, y) in self.x.chunks(LANES).zip(self.y.chunks(LANES)) {
            for ((sums, x), y) in lanes.iter_mut().zip(x).zip(y) {
                let finite = x.is_finite();
                let (x, y) = (x.to_f64(), y.to_f64());
                let error = (x - y).abs();
                // A decoded NaN or infinity counts as an infinite error.
                let error = if error <= f64::MAX { error } else { f64::INFINITY };
                let (x, error) = if finite { (x, error) } else { (0.0, 0.0) };
                sums.largest = if error > sums.largest { error } else { sums.largest };
                sums.error += (error * self.relative) * (error * self.relative);
                sums.square += (x * self.relative) * (x * self.relative);
            }
        }
        lanes.iter().fold(Sums::default(), |a, b| Sums {
            largest: a.largest.max(b.largest),
            error: a.error + b.error,
            square: a.square + b.square,
        })
    }
}

/// Values of an SSIM window along each dimension; the extent if that is less.
const WINDOW: usize = 7;
/// Values between the first values of consecutive windows.
const STRIDE: usize = 2;
/// Number of sums for a window: of u, v, u u, v v and u v.
const MOMENTS: usize = 5;

/// The mean structural similarity (Wang, Bovik, Sheikh and Simoncelli 2004,
/// doi:10.1109/TIP.2003.819861, eq. 13) over all complete uniform windows of 7 values in each
/// dimension, 2 values apart. QCAT and Z-checker compute it so for 3-D data; here it is also
/// computed for 1-D and 2-D data.
///
/// (2 mx my + C1) (2 sxy + C2) / ((mx^2 + my^2 + C1) (sxx + syy + C2))
/// C1 = (0.01 L)^2, C2 = (0.03 L)^2
///
/// m are the means and s the (co)variances over the N values of the window, with the factor 1 / N.
/// L is the range of the original's values, or max |x| if the range is 0. Dimensions of extent 1
/// are ignored. A window with a value that is not finite, in either array, is left out.
struct Ssim<'a, T> {
    x: &'a [T],
    y: &'a [T],
    n: [usize; 3],
    /// Subtracted from all values: variances of fields far from 0 would be lost to rounding.
    middle: f64,
    /// L of the formula.
    scale: f64,
}

impl<T: Real> Kernel for Ssim<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let n = extents(self.n);
        if self.x.is_empty() {
            return f64::NAN;
        }
        let width = n.map(|n| n.min(WINDOW));
        let windows: [usize; 3] = std::array::from_fn(|d| (n[d] - width[d]) / STRIDE + 1);
        let (row, plane) = (windows[0] * MOMENTS, windows[0] * windows[1] * MOMENTS);
        // The last `width` rows, summed along n1, and the last planes, summed along n1 and n2.
        let (mut rows, mut planes) = (vec![0.0; row * width[1]], vec![0.0; plane * width[2]]);
        let (mut u, mut v, mut sums) = (vec![0.0; n[0]], vec![0.0; n[0]], vec![0.0; row]);
        let (mut total, mut count) = (0.0, 0u64);
        let origin = self.middle / self.scale;
        let values: usize = width.iter().product();
        for i3 in 0..n[2] {
            let to_plane = &mut planes[i3 % width[2] * plane..][..plane];
            for i2 in 0..n[1] {
                let at = (i3 * n[1] + i2) * n[0];
                self.relative(&self.x[at..][..n[0]], &self.y[at..][..n[0]], &mut u, &mut v);
                moments(&u, &v, width[0], &mut rows[i2 % width[1] * row..][..row]);
                if let Some(window) = complete(i2, width[1]) {
                    add(&rows, &mut to_plane[window * row..][..row]);
                }
            }
            if complete(i3, width[2]).is_some() {
                for i2 in 0..windows[1] {
                    sums.fill(0.0);
                    planes
                        .chunks_exact(plane)
                        .for_each(|plane| accumulate(&plane[i2 * row..][..row], &mut sums));
                    let (mean, windows) = similarity(&sums, values as f64, origin);
                    total += mean;
                    count += windows;
                }
            }
        }
        total / count as f64
    }
}

/// Returns the extents, with those that are not 1 first.
fn extents(n: [usize; 3]) -> [usize; 3] {
    let mut used = n.into_iter().filter(|&n| n != 1);
    std::array::from_fn(|_| used.next().unwrap_or(1))
}

/// Returns the number of the window whose last row or plane is `i`, if there is one.
fn complete(i: usize, width: usize) -> Option<usize> {
    let first = (i + 1).checked_sub(width)?;
    first.is_multiple_of(STRIDE).then_some(first / STRIDE)
}

impl<T: Real> Ssim<'_, T> {
    /// Computes a row of (x - middle) / L of both arrays; both are NaN where either is not finite.
    #[inline(always)]
    fn relative(&self, x: &[T], y: &[T], u: &mut [f64], v: &mut [f64]) {
        let unit = 1.0 / self.scale;
        let unit = if unit.is_finite() { unit } else { f64::MAX };
        for (((x, y), u), v) in x.iter().zip(y).zip(u).zip(v) {
            // The product of 0 and a value that is not finite is NaN.
            let (x, y) = (x.to_f64(), y.to_f64());
            let nan = x * 0.0 + y * 0.0;
            (*u, *v) = ((x - self.middle) * unit + nan, (y - self.middle) * unit + nan);
        }
    }
}

/// Computes the sums of all windows along a row: first of u, then of v, and so on.
#[inline(always)]
fn moments(u: &[f64], v: &[f64], width: usize, to: &mut [f64]) {
    let windows = to.len() / MOMENTS;
    for i in 0..windows {
        let mut sums = [0.0; MOMENTS];
        for (u, v) in u[i * STRIDE..][..width].iter().zip(&v[i * STRIDE..][..width]) {
            let terms = [*u, *v, u * u, v * v, u * v];
            for (sum, term) in sums.iter_mut().zip(terms) {
                *sum += term;
            }
        }
        for (m, sum) in sums.into_iter().enumerate() {
            to[m * windows + i] = sum;
        }
    }
}

/// Sums all rows.
#[inline(always)]
fn add(rows: &[f64], to: &mut [f64]) {
    to.fill(0.0);
    for row in rows.chunks_exact(to.len()) {
        accumulate(row, to);
    }
}

#[inline(always)]
fn accumulate(from: &[f64], to: &mut [f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += from;
    }
}

/// Returns the sum of the similarities in a row of windows and the number of the finite ones. L is
/// 1, and values are relative to `origin`.
#[inline(always)]
fn similarity(sums: &[f64], values: f64, origin: f64) -> (f64, u64) {
    const C1: f64 = 0.01 * 0.01;
    const C2: f64 = 0.03 * 0.03;
    let windows = sums.len() / MOMENTS;
    let (mut total, mut count) = (0.0, 0);
    for i in 0..windows {
        let [u, v, uu, vv, uv] = std::array::from_fn(|m| sums[m * windows + i] / values);
        let (mx, my) = (origin + u, origin + v);
        let (sxx, syy, sxy) = (uu - u * u, vv - v * v, uv - u * v);
        let similarity =
            (2.0 * mx * my + C1) * (2.0 * sxy + C2) / ((mx * mx + my * my + C1) * (sxx + syy + C2));
        let finite = similarity.is_finite();
        total += if finite { similarity } else { 0.0 };
        count += finite as u64;
    }
    (total, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(n: [usize; 3]) -> Vec<f64> {
        let value = |i: usize| {
            let (i1, i2, i3) = (i % n[0], i / n[0] % n[1], i / n[0] / n[1]);
            (i1 as f64 / 3.0).sin() * (i2 as f64 / 5.0).cos()
                + (i3 as f64 / 4.0).sin()
                + 0.3 * (i as f64 * 0.37).sin()
        };
        (0..n.iter().product()).map(value).collect()
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-12 * b.abs(), "{a} instead of {b}");
    }

    /// Computes the SSIM window by window from its definition.
    fn slow_ssim(x: &[f64], y: &[f64], n: [usize; 3]) -> f64 {
        let range =
            x.iter().fold(f64::MIN, |a, &x| a.max(x)) - x.iter().fold(f64::MAX, |a, &x| a.min(x));
        let (c1, c2) = ((0.01 * range).powi(2), (0.03 * range).powi(2));
        let starts = |n: usize| (0..=n - n.min(7)).step_by(2);
        let mut all = Vec::new();
        for (k3, k2, k1) in starts(n[2]).flat_map(|k3| {
            starts(n[1]).flat_map(move |k2| starts(n[0]).map(move |k1| (k3, k2, k1)))
        }) {
            let within = |k: usize, n: usize| k..k + n.min(7);
            let places = within(k3, n[2]).flat_map(|i3| within(k2, n[1]).map(move |i2| (i3, i2)));
            let places: Vec<usize> = places
                .flat_map(|(i3, i2)| within(k1, n[0]).map(move |i1| (i3 * n[1] + i2) * n[0] + i1))
                .collect();
            let mean = |f: &dyn Fn(usize) -> f64| {
                places.iter().map(|&i| f(i)).sum::<f64>() / places.len() as f64
            };
            let (mx, my) = (mean(&|i| x[i]), mean(&|i| y[i]));
            let (sxx, syy) = (mean(&|i| (x[i] - mx).powi(2)), mean(&|i| (y[i] - my).powi(2)));
            let sxy = mean(&|i| (x[i] - mx) * (y[i] - my));
            all.push(
                (2.0 * mx * my + c1) * (2.0 * sxy + c2)
                    / ((mx * mx + my * my + c1) * (sxx + syy + c2)),
            );
        }
        all.iter().sum::<f64>() / all.len() as f64
    }

    #[test]
    fn equal_arrays() {
        for n in [[20, 9, 8], [31, 1, 17], [5, 1, 1], [1, 1, 1]] {
            let x = field(n);
            let quality = quality(&x, &x, n);
            assert_eq!(
                (quality.max_error, quality.rmse, quality.psnr, quality.relative_l2),
                (0.0, 0.0, f64::INFINITY, 0.0)
            );
            close(quality.ssim, 1.0);
        }
        let zeros = quality(&[0f32; 60], &[0f32; 60], [10, 6, 1]);
        assert_eq!(
            (zeros.psnr, zeros.relative_l2, zeros.ssim, zeros.range),
            (f64::INFINITY, 0.0, 1.0, 0.0)
        );
    }

    #[test]
    fn errors_of_known_size() {
        let x: Vec<f32> = (0..1000).map(|i| if i % 2 == 0 { 3.0 } else { -1.0 }).collect();
        let y: Vec<f32> =
            x.iter().enumerate().map(|(i, x)| if i % 4 == 0 { x - 0.5 } else { *x }).collect();
        let quality = quality(&x, &y, [1000, 1, 1]);
        assert_eq!(
            (quality.max_error, quality.rmse, quality.peak, quality.range),
            (0.5, 0.25, 3.0, 4.0)
        );
        close(quality.psnr, 20.0 * 16f64.log10());
        close(quality.relative_l2, 0.25 / 5f64.sqrt());
    }

    #[test]
    fn similarity_of_one_window() {
        // x = +-1: mean 1/7, variance 48/49, L = 2. y = x / 2: half the mean, a quarter of the
        // variance, and half the variance of x as covariance.
        let x = [1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0];
        let (m, s, c1, c2) = (1.0 / 7.0, 48.0 / 49.0, 0.0004, 0.0036);
        let expected = (m * m + c1) * (s + c2) / ((1.25 * m * m + c1) * (1.25 * s + c2));
        for n in [[7, 1, 1], [1, 7, 1], [1, 1, 7]] {
            close(quality(&x, &x.map(|x| x / 2.0), n).ssim, expected);
        }
        // All values are moved by 0.25: (co)variances do not change. All windows are equal, since
        // they are 2 values apart and the period is 2 values.
        let x: Vec<f64> = (0..21).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let y: Vec<f64> = x.iter().map(|x| x + 0.25).collect();
        close(
            quality(&x, &y, [21, 1, 1]).ssim,
            (2.0 * m * (m + 0.25) + c1) / (m * m + (m + 0.25) * (m + 0.25) + c1),
        );
    }

    #[test]
    fn similarity_as_defined() {
        for n in [[20, 9, 8], [13, 7, 7], [8, 30, 1], [50, 1, 1], [3, 4, 5], [9, 2, 11], [1, 12, 9]]
        {
            for offset in [0.0, 5.0] {
                let x: Vec<f64> = field(n).iter().map(|x| x + offset).collect();
                let y: Vec<f64> =
                    x.iter().enumerate().map(|(i, x)| x + 0.2 * (i as f64 * 1.7).sin()).collect();
                let (fast, slow) = (quality(&x, &y, n).ssim, slow_ssim(&x, &y, n));
                assert!(
                    (fast - slow).abs() < 1e-12 && fast < 0.999,
                    "{n:?}: {fast} instead of {slow}"
                );
                let single: Vec<f32> = x.iter().map(|&x| x as f32).collect();
                let blurred: Vec<f32> = y.iter().map(|&y| y as f32).collect();
                assert!((quality(&single, &blurred, n).ssim - slow).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn magnitudes_do_not_matter() {
        let n = [20, 9, 8];
        let x = field(n);
        let y: Vec<f64> =
            x.iter().enumerate().map(|(i, x)| x + 0.01 * (i as f64 * 1.7).sin()).collect();
        let expected = quality(&x, &y, n);
        for scale in [2f64.powi(1000), 2f64.powi(-1000)] {
            let scaled = |x: &[f64]| x.iter().map(|x| x * scale).collect::<Vec<_>>();
            let got = quality(&scaled(&x), &scaled(&y), n);
            close(got.psnr, expected.psnr);
            close(got.relative_l2, expected.relative_l2);
            close(got.ssim, expected.ssim);
            close(got.rmse / scale, expected.rmse);
        }
    }

    #[test]
    fn constants() {
        let (same, moved) = (
            quality(&[5f64; 100], &[5f64; 100], [10, 10, 1]),
            quality(&[5f64; 100], &[4f64; 100], [10, 10, 1]),
        );
        assert_eq!((same.psnr, same.ssim), (f64::INFINITY, 1.0));
        assert_eq!((moved.psnr, moved.rmse), (f64::NEG_INFINITY, 1.0));
        close(moved.relative_l2, 0.2);
        close(moved.ssim, (40.0 + 0.0025) / (41.0 + 0.0025));
    }

    #[test]
    fn what_is_not_finite_is_counted_apart() {
        let n = [20, 10, 1];
        let (mut x, mut y) = (vec![1f32; 200], vec![1f32; 200]);
        (x[0], x[1], x[2], x[150]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2.0);
        (y[0], y[1], y[2], y[150]) = (f32::NAN, f32::INFINITY, 7.0, 1.5);
        let partly = quality(&x, &y, n);
        assert_eq!(
            (partly.nonfinite, partly.nonfinite_lost, partly.max_error, partly.range),
            (3, 1, 0.5, 1.0)
        );
        close(partly.rmse, (0.25f64 / 197.0).sqrt());
        assert!(partly.ssim < 1.0 && partly.ssim > 0.9);
        y[50] = f32::NAN;
        let broken = quality(&x, &y, n);
        assert_eq!(
            (broken.max_error, broken.rmse, broken.psnr),
            (f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY)
        );
        let nothing = quality(&[f64::NAN; 8], &[f64::NAN; 8], [2, 2, 2]);
        assert_eq!(
            (nothing.max_error, nothing.rmse, nothing.nonfinite, nothing.nonfinite_lost),
            (0.0, 0.0, 8, 0)
        );
        assert!(nothing.ssim.is_nan());
    }
}
