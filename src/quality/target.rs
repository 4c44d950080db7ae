//! What the key `quality` asks for, and how far a result is from it.

use crate::error::{fail, Result};
use crate::fallible_vec::with_room;
use crate::numbers;

/// The error that a result may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// `gradient:1e-3`: |x - r| / |r| is at most this number, where r is the result of a run with raw
    /// snapshots and |r| the root of the sum of its squares.
    Gradient(f64),
    /// `image:60dB`: 20 log10(range of r / root mean square of x - r) is at least this number, which is
    /// the PSNR of `error_bound_mode = 3` and of `rtm3d`.
    Image(f64),
}

impl Target {
    /// Reads the text of the key.
    pub fn of(text: &str) -> Result<Self> {
        let lower = text.to_ascii_lowercase();
        let number = |text: &str| numbers::real(text.trim());
        let read = match lower.split_once(':') {
            Some(("gradient", error)) => {
                number(error).filter(|&e| 0.0 < e && e < 1.0).map(Target::Gradient)
            }
            Some(("image", db)) => number(db.strip_suffix("db").unwrap_or(db))
                .filter(|&db| 0.0 < db && db <= 300.0)
                .map(Target::Image),
            _ => None,
        };
        let Some(target) = read else {
            return fail!(
                Config,
                "quality = {text}: use gradient:ERROR, a relative error below 1 such as gradient:1e-3, or image:PSNR in dB up to 300, such as \
                 image:60dB"
            );
        };
        Ok(target)
    }

    /// Returns the largest error as a fraction: of the norm of the result, or of its range.
    pub fn fraction(self) -> f64 {
        match self {
            Target::Gradient(error) => error,
            Target::Image(db) => 10f64.powf(-db / 20.0),
        }
    }

    /// Returns an error that is a fraction in the unit of the target: itself, or in dB.
    pub fn in_unit(self, fraction: f64) -> f64 {
        match self {
            Target::Gradient(_) => fraction,
            Target::Image(_) => -20.0 * fraction.log10(),
        }
    }

    /// Returns an error in the unit of the target as text, with three digits.
    pub(super) fn shown(self, error: f64) -> String {
        let is_db = matches!(self, Target::Image(_));
        match if is_db { -error } else { error } {
            f64::INFINITY => "NaN or infinities, or errors whose squares overflow".into(),
            none if none == 0.0 && !is_db || none == f64::NEG_INFINITY => "no error".into(),
            _ if is_db => format!("a PSNR of {error:.1} dB"),
            _ => format!("an error of {error:.2e}"),
        }
    }

    /// Returns what the root of the sum of squares of a field's errors is relative to, and whether that is
    /// above 0: squares of small values are 0, though the values are not.
    fn scale(self, of: &Compared) -> (f64, bool) {
        let range = of.max + of.max_negative;
        match self {
            Target::Gradient(_) => (of.norm.sqrt(), of.max.max(of.max_negative) > 0.0),
            Target::Image(_) => (range * of.count.sqrt(), range > 0.0),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Gradient(error) => write!(f, "gradient:{error:e}"),
            Target::Image(db) => write!(f, "image:{db}dB"),
        }
    }
}

/// The values of a field of a result.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Values {
    F32(Vec<f32>),
    F64(Vec<f64>),
}

impl Values {
    /// Returns the number of values and the bytes of each.
    pub(super) fn shape(&self) -> (usize, usize) {
        match self {
            Values::F32(x) => (x.len(), 4),
            Values::F64(x) => (x.len(), 8),
        }
    }
}

/// What the error of a field follows from. Ranks add the sums of their parts, and take the larger
/// maxima; without values the sums are 0 and the maxima -infinity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// Sum of the squares of x - r, over the values x of this run and r of the run with raw snapshots.
    pub difference: f64,
    /// Sum of the squares of r.
    pub norm: f64,
    /// Number of values.
    pub count: f64,
    /// Largest r.
    pub max: f64,
    /// Largest -r.
    pub max_negative: f64,
}

impl Compared {
    fn of(pairs: impl Iterator<Item = (f64, f64)>) -> Self {
        let (max, max_negative) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        let none = Compared { difference: 0.0, norm: 0.0, count: 0.0, max, max_negative };
        pairs.fold(none, |sum, (x, r)| Compared {
            difference: sum.difference + (x - r) * (x - r),
            norm: sum.norm + r * r,
            count: sum.count + 1.0,
            max: sum.max.max(r),
            max_negative: sum.max_negative.max(-r),
        })
    }
}

/// Compares each field of a result with that of the run with raw snapshots, which has the same shape.
pub fn compare(result: &[Values], reference: &[Values]) -> Result<Vec<Compared>> {
    let mut all = with_room(result.len())?;
    all.extend(result.iter().zip(reference).map(|pair| match pair {
        (Values::F32(x), Values::F32(r)) => {
            Compared::of(x.iter().zip(r).map(|(&x, &r)| (x.into(), r.into())))
        }
        (Values::F64(x), Values::F64(r)) => Compared::of(x.iter().copied().zip(r.iter().copied())),
        _ => Compared::of([(f64::NAN, f64::NAN)].into_iter()),
    }));
    Ok(all)
}

/// Returns the largest error of the fields as a fraction, and the number of that field. A result that is not
/// finite has an infinite error, but in the run with raw snapshots (`is_raw`) it is refused.
pub fn worst(target: Target, fields: &[Compared], is_raw: bool) -> Result<(f64, usize)> {
    let mut worst = (0.0, 0);
    for (i, of) in fields.iter().enumerate() {
        if of.count == 0.0 {
            return fail!(
                Values,
                "field {i} of the result: no rank gave values of it, so that no error can be measured: give the values, or leave this field out"
            );
        }
        let is_finite = of.difference.is_finite();
        if !of.norm.is_finite() || is_raw && !is_finite {
            return fail!(
                Values,
                "field {i} of the result: it has NaN or infinities, or values whose squares overflow, so that no error can be measured: correct the \
                 shot, or measure with another one"
            );
        }
        let (scale, is_scale) = target.scale(of);
        if !is_scale {
            let what = if matches!(target, Target::Image(_)) { "one value" } else { "0" };
            return fail!(
                Values,
                "field {i} of the result: it is {what} everywhere in the run with raw snapshots, and no error is relative to that: measure with \
                 another shot, or leave this field out"
            );
        }
        // The mean square of errors of the asked size must have all digits.
        if target.fraction() * scale < (f64::MIN_POSITIVE * of.count).sqrt() {
            return fail!(
                Values,
                "field {i} of the result: its values are so small that squares of errors of the size that quality = {target} asks for underflow: \
                 multiply the result by a constant, the same one in every run"
            );
        }
        let error = if is_finite { of.difference.sqrt() / scale } else { f64::INFINITY };
        if error > worst.0 {
            worst = (error, i);
        }
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn texts_are_read_and_shown() {
        for (text, target) in [
            ("gradient:1e-3", Target::Gradient(1e-3)),
            ("image:60dB", Target::Image(60.0)),
            ("Image: 60.5 db", Target::Image(60.5)),
            ("image:60", Target::Image(60.0)),
        ] {
            assert_eq!(Target::of(text).unwrap(), target);
            assert_eq!(Target::of(&target.to_string()).unwrap(), target);
        }
        for text in [
            "",
            "gradient",
            "gradient:",
            "gradient:0",
            "gradient:1",
            "gradient:nan",
            "image:-3",
            "image:301",
            "state:1",
        ] {
            let error = Target::of(text).unwrap_err();
            assert!(error.message.starts_with(&format!("quality = {text}: use ")), "{error}");
        }
    }

    #[test]
    fn errors_are_those_of_the_definitions() {
        let r = [Values::F32(vec![3.0, 4.0, -1.0])];
        let x = [Values::F32(vec![3.0, 4.5, -1.0])];
        let compared = compare(&x, &r).unwrap();
        let (error, field) = worst(Target::Gradient(0.1), &compared, false).unwrap();
        assert_eq!((error, field), (0.5 / 26f64.sqrt(), 0));
        let image = Target::Image(40.0);
        let (error, _) = worst(image, &compared, false).unwrap();
        assert!((error - (0.25 / 3f64).sqrt() / 5.0).abs() < 1e-15);
        assert!((image.in_unit(error) - 20.0 * (5.0 / (0.25 / 3f64).sqrt()).log10()).abs() < 1e-12);
        assert!((image.in_unit(image.fraction()) - 40.0).abs() < 1e-12);
    }

    #[test]
    fn a_result_without_a_scale_or_with_nan_has_no_error() {
        let fields = |values: &[f64]| [Values::F64(vec![1.0, 2.0]), Values::F64(values.to_vec())];
        let refusal = |target, r: &[f64], x: &[f64]| {
            let compared = compare(&fields(x), &fields(r)).unwrap();
            worst(target, &compared, true).unwrap_err().message.clone()
        };
        let zero = refusal(Target::Gradient(0.1), &[0.0, 0.0], &[0.0, 0.0]);
        assert!(zero.starts_with("field 1 of the result: it is 0 everywhere"), "{zero}");
        let constant = refusal(Target::Image(40.0), &[2.0, 2.0], &[2.0, 2.0]);
        assert!(constant.starts_with("field 1 of the result: it is one value"), "{constant}");
        for x in [[f64::NAN, 1.0], [1.0, f64::INFINITY]] {
            let nan = refusal(Target::Gradient(0.1), &[1.0, 1.0], &x);
            assert!(nan.starts_with("field 1 of the result: it has NaN"), "{nan}");
        }
    }

    #[test]
    fn an_error_is_measured_exactly_or_the_values_are_too_small() {
        for (target, asked) in [(Target::Gradient(1e-3), 1e-3), (Target::Image(80.0), 1e-4)] {
            let (mut measured, mut small) = (0, 0);
            for scale in (0..1075).map(|k| 0.5f64.powi(k)) {
                // A range of 2 and a norm of 1 for each value, but for the rounding of the smallest ones.
                let r: Vec<f64> =
                    (0..64).map(|k| if k % 2 == 0 { scale } else { -scale }).collect();
                let part = if let Target::Image(_) = target { 2.0 * asked } else { asked };
                let x: Vec<f64> = r.iter().map(|r| r * (1.0 + part)).collect();
                match worst(target, &compare(&[Values::F64(x)], &[Values::F64(r)]).unwrap(), false)
                {
                    Ok((error, _)) => {
                        assert!((error / asked - 1.0).abs() < 1e-9, "{scale:e}: {error}");
                        measured += 1;
                    }
                    Err(e) => {
                        assert_eq!(e.code, Code::Values);
                        let text =
                            "field 0 of the result: its values are so small that squares of errors";
                        assert!(e.message.starts_with(text), "{scale:e}: {e}");
                        small += 1;
                    }
                }
            }
            // Squares of 2^-511 are the smallest numbers with all digits.
            let most =
                511 + asked.log2().floor() as i32 + i32::from(matches!(target, Target::Image(_)));
            assert_eq!((measured, small), (most + 1, 1075 - most - 1));
        }
        // What FP32 holds can be measured.
        let r = || [Values::F32(vec![1e-38, -1e-38])];
        let compared = compare(&r(), &r()).unwrap();
        assert_eq!(worst(Target::Gradient(1e-9), &compared, true).unwrap(), (0.0, 0));
    }
}
