//! Numbers in the notation that people use, for configuration files, variables and the command
//! line.
//!
//! `1e4` and `1.5e3` are whole numbers. Suffixes are those of GNU coreutils, in either case: K, M,
//! G, T and KiB, MiB, GiB, TiB are powers of 1024; kB, MB, GB, TB are powers of 1000. A bandwidth
//! may end in `/s`.

/// Parses a whole number.
pub fn whole(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let (value, is_whole) = Decimal::of(digits)?.times(1)?;
    let value = i64::try_from(value).ok().filter(|_| is_whole)?;
    Some(if negative { -value } else { value })
}

/// Parses a number of bytes. With a suffix, a fraction of a byte is dropped.
pub fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let (bytes, is_whole) = Decimal::of(number)?.times(unit)?;
    u64::try_from(bytes).ok().filter(|_| is_whole || unit > 1)
}

/// Parses a bandwidth, in bytes per second.
pub fn bandwidth(text: &str) -> Option<f64> {
    let (number, unit) = split(text.strip_suffix("/s").unwrap_or(text))?;
    real(number).map(|value| value * unit as f64).filter(|value| value.is_finite())
}

/// Parses a finite number.
pub fn real(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// Splits a text into a number and the factor of its suffix.
fn split(text: &str) -> Option<(&str, u64)> {
    // The number ends with its last digit or point, so that the `e` of an exponent belongs to it.
    let end = text.rfind(|c: char| c.is_ascii_digit() || c == '.').map_or(0, |last| last + 1);
    let (number, suffix) = text.split_at(end);
    Some((number, unit(suffix.trim())?))
}

fn unit(suffix: &str) -> Option<u64> {
    let power = |letter: char| "kmgt".find(letter).map(|at| at as u32 + 1);
    let mut letters = suffix.chars().map(|c| c.to_ascii_lowercase());
    match (letters.next(), letters.next(), letters.next(), letters.next()) {
        (None | Some('b'), None, ..) => Some(1),
        (Some(letter), None, ..) | (Some(letter), Some('i'), Some('b'), None) => {
            Some(1024u64.pow(power(letter)?))
        }
        (Some(letter), Some('b'), None, _) => Some(1000u64.pow(power(letter)?)),
        _ => None,
    }
}

/// `digits` times ten to the power `exponent`.
struct Decimal {
    digits: u128,
    exponent: i32,
}

impl Decimal {
    fn of(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i16>().ok()?.into()),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all_digits = [whole, fraction].concat();
        let is_number = !all_digits.is_empty() && all_digits.bytes().all(|b| b.is_ascii_digit());
        let digits = is_number.then(|| all_digits.parse().ok())??;
        Some(Decimal { digits, exponent: exponent - i32::try_from(fraction.len()).ok()? })
    }

    /// Returns the part left of the point of this number times `unit`, and whether nothing but
    /// zeros is right of the point.
    fn times(self, unit: u64) -> Option<(u128, bool)> {
        let digits = self.digits.checked_mul(unit.into())?;
        let ten_to = 10u128.checked_pow(self.exponent.unsigned_abs());
        match (self.exponent, ten_to) {
            _ if digits == 0 => Some((0, true)),
            (0.., factor) => Some((digits.checked_mul(factor?)?, true)),
            (_, Some(divisor)) => Some((digits / divisor, digits.is_multiple_of(divisor))),
            // A power of ten that exceeds 128 bits exceeds every number that is divided by it.
            (_, None) => Some((0, false)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bytes() {
        for (text, value) in [
            ("0", 0),
            ("12", 12),
            ("12B", 12),
            ("1e4", 10_000),
            ("1.5e3", 1500),
            ("2G", 2 << 30),
            ("2 g", 2 << 30),
            ("4GiB", 4 << 30),
            ("4gib", 4 << 30),
            ("12GB", 12_000_000_000),
            ("1kB", 1000),
            ("1.5G", 3 << 29),
            ("1.3K", 1331),
            (".5M", 1 << 19),
            ("1e3K", 1_024_000),
            ("18446744073709551615", u64::MAX),
            ("15.99999999999999999T", (1 << 44) - 1),
        ] {
            assert_eq!(bytes(text), Some(value), "{text}");
        }
        for text in [
            "",
            "G",
            "-1",
            "1.5",
            "1e-1",
            "1..5",
            "1e",
            "1G1",
            "1 2",
            "1GG",
            "1Gi",
            "1E",
            "0x10",
            "1e99",
            "18446744073709551616",
            "99999999999T",
            "inf",
            "٣",
        ] {
            assert_eq!(bytes(text), None, "{text}");
        }
        // These take no time, whatever the exponent.
        assert_eq!(
            (bytes("1e32767"), bytes("0e32767"), bytes("1e-32767K")),
            (None, Some(0), Some(0))
        );
    }

    #[test]
    fn whole_numbers_bandwidths_and_reals() {
        let cases = [("7", 7), ("-3", -3), ("+3", 3), ("1e4", 10_000), ("2.5e1", 25), ("10.0", 10)];
        cases.iter().for_each(|(text, value)| assert_eq!(whole(text), Some(*value), "{text}"));
        ["", "-", "--1", "1.5", "many", "1K", "99999999999999999999", "1 "]
            .iter()
            .for_each(|text| assert_eq!(whole(text), None, "{text}"));
        let rates =
            [("2G", (2u64 << 30) as f64), ("2GB/s", 2e9), ("1.5e9", 1.5e9), ("12.5 GB/s", 12.5e9)];
        rates.iter().for_each(|(text, value)| assert_eq!(bandwidth(text), Some(*value), "{text}"));
        ["", "fast", "nan", "inf", "1e999", "G", "1e308T"]
            .iter()
            .for_each(|text| assert_eq!(bandwidth(text), None, "{text}"));
        assert_eq!((real("1e-3"), real("inf"), real("1,5")), (Some(1e-3), None, None));
    }
}
