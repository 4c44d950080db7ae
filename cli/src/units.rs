//! Durations and numbers of bytes as text with their units.

/// Formats a duration with its unit; a duration below the last digit is shown as 0.
pub fn seconds(value: f64) -> String {
    let text = match value.abs() {
        v if v >= 3600.0 => format!("{:.2} h", v / 3600.0),
        v if v >= 1.0 => format!("{v:.2} s"),
        v if v >= 1e-3 => format!("{:.2} ms", v * 1e3),
        v => format!("{:.2} us", v * 1e6),
    };
    match value < 0.0 && text != "0.00 us" {
        true => format!("-{text}"),
        false => text,
    }
}

/// Formats a number of bytes with a unit that is a power of 1024.
pub fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let power = (0..units.len() - 1).take_while(|&p| bytes >= 1 << (10 * (p + 1))).count();
    match power {
        0 => format!("{bytes} B"),
        p => format!("{:.1} {}", bytes as f64 / (1u64 << (10 * p)) as f64, units[p]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_and_no_negative_nothing() {
        let of = [
            (0.0, "0.00 us"),
            (-0.0, "0.00 us"),
            (-4e-9, "0.00 us"),
            (-2e-6, "-2.00 us"),
            (-0.5, "-500.00 ms"),
            (7200.0, "2.00 h"),
        ];
        of.into_iter().for_each(|(value, text)| assert_eq!(seconds(value), text));
    }
}
