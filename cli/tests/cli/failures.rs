//! What `gpuzip plan --mtbf` tells of nodes that fail.

use super::{gpuzip, json, number};

const SURVEY: &str = "plan --steps 60000 --state-bytes 1G --forward-ms 10 --device-budget 4G --host-budget 40G --disk-gbs 2 \
    --ranks 8 --ranks-per-node 2 --shots 80";

/// Numbers that were written as text and read again may differ in their last digit.
fn assert_near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-12, "{found} {expected}");
}

/// The interval follows the cost, which is computed from the bytes and the disk unless it is given,
/// and the survey takes the longer the more often nodes fail.
#[test]
fn generations_are_as_frequent_as_failures_ask_for() {
    let of = |options: &str| json(&format!("{SURVEY} --mtbf {options}"));
    let given = of("2d --checkpoint-s 6");
    // sqrt(2 * 6 * 172800)
    assert_near(number(&given, "young_s"), 1440.0);
    let daly = number(&given, "daly_s");
    assert!(daly > 1430.0 && daly < 1440.0, "{daly}");
    assert_near(number(&given, "persist_overhead"), 6.0 / daly);
    let computed = of("2d");
    // Two ranks share a disk that writes 2 GB/s.
    let bytes = number(&computed, "generation_bytes");
    assert!(bytes > (2u64 << 30) as f64 && bytes <= (25u64 << 30) as f64, "{bytes}");
    assert_near(number(&computed, "checkpoint_s"), bytes / 1e9);
    let times = ["20d", "2d", "12h", "30m"].map(|mtbf| number(&of(mtbf), "failing_s"));
    assert!(number(&given, "survey_s") < times[0], "{times:?}");
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    let often = of("30m");
    assert!(number(&often, "failing_s") < number(&often, "failing_without_generations_s"));
}

#[test]
fn nodes_that_fail_have_a_price_of_their_own() {
    let line = format!("{SURVEY} --mtbf 6h --price 4.10 --spot-price 1.20");
    let value = json(&line);
    let of = |time: &str, price: f64| price * 4.0 * number(&value, time) / 3600.0;
    assert_near(number(&value, "price_of_survey"), of("survey_s", 4.1));
    assert_near(number(&value, "spot_price_of_survey"), of("failing_s", 1.2));
    let text = String::from_utf8(gpuzip(&line).stdout).unwrap();
    for part in ["persist_overhead = 0.", "--disk-gbs, given; a rank's share", "4 nodes that fail"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn failures_without_a_unit_or_without_an_end_are_refused() {
    for (options, part) in [
        ("--mtbf 6", "s, m, h or d"),
        ("--mtbf -6h", "s, m, h or d"),
        ("--mtbf 10s --checkpoint-s 11", "no run would get on"),
        ("--mtbf 10s --checkpoint-s 1 --restart-s 12", "--restart-s"),
        ("--mtbf 6h --price 3", "--spot-price"),
        ("--checkpoint-s 3", "--mtbf"),
    ] {
        let output = gpuzip(&format!("{SURVEY} {options}"));
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && message.contains(part), "{options}: {message}");
    }
}
