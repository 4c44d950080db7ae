//! What `gpuzip plan --mtbf` tells of nodes that fail.

use super::{gpuzip, json, number, succeeds};

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

/// The formula of docs: a generation of 2 s, a copy of 500 s, and nodes that are lost each 5 days.
#[test]
fn a_lost_node_costs_the_age_of_its_copy() {
    let of = |options: &str| json(&format!("{SURVEY} --mtbf 6h --checkpoint-s 2 {options}"));
    let value = of("--mtbf-node 5d --copy-s 500 --restart-s 10");
    let [interval, copied] = ["interval_s", "copied_each"].map(|name| number(&value, name));
    let period = interval + 2.0;
    assert_eq!(copied, (500.0 / period).ceil());
    assert_near(number(&value, "persist_overhead"), 2.0 / interval);
    let (crash, loss) = (period / 2.0 + 10.0, 500.0 + copied * period / 2.0 + 10.0);
    assert_near(number(&value, "failure_costs_s"), crash);
    assert_near(number(&value, "lost_node_costs_s"), loss);
    let lost = 1.0 - (1.0 - 2.0 / period) * (1.0 - crash / 21600.0 - loss / 432_000.0);
    assert_near(number(&value, "lost_share"), lost);
    assert_near(number(&value, "failing_s"), number(&value, "survey_s") / (1.0 - lost));
    // Without lost nodes, Young's interval, shortened by the restarts.
    let young = (2.0 * 2.0 * 21600.0 * (1.0 - 10.0 / 21600.0f64)).sqrt();
    let bound = 1.0 - (1.0 - 2.0 / young) * (1.0 - (young / 2.0 + 10.0) / 21600.0);
    assert_near(number(&value, "lost_share_no_lost_node"), bound);
    // The shared folder alone: any failure costs half an interval, and each generation 500 s.
    let all = 1.0 / (1.0 / 21600.0 + 1.0 / 432_000.0f64);
    let young = (2.0 * 500.0 * all * (1.0 - 10.0 / all)).sqrt();
    let alone = 1.0 - (1.0 - 500.0 / young) * (1.0 - (young / 2.0 + 10.0) / all);
    assert_near(number(&value, "lost_share_shared_alone"), alone);
    // The folder of the node alone: half of a shot is lost with the node.
    let again = number(&value, "predicted_s") / 2.0 + 10.0;
    let young = (2.0 * 2.0 * 21600.0 * (1.0 - 10.0 / 21600.0 - again / 432_000.0)).sqrt();
    let kept = 1.0 - (young / 2.0 + 10.0) / 21600.0 - again / 432_000.0;
    assert_near(number(&value, "lost_share_near_alone"), 1.0 - (1.0 - 2.0 / young) * kept);
    // Two ranks share 1 GB/s, by which the copy is read, too.
    let computed = of("--mtbf-node 5d --shared-gbs 1");
    let copy = number(&computed, "generation_bytes") / 5e8;
    assert_near(number(&computed, "copy_s"), copy);
    let [interval, copied] = ["interval_s", "copied_each"].map(|name| number(&computed, name));
    let loss = copy + copied * (interval + 2.0) / 2.0 + copy;
    assert_near(number(&computed, "lost_node_costs_s"), loss);
}

/// What the text advises follows from the shares.
#[test]
fn the_folders_that_lose_least_are_named() {
    for (options, part) in [
        ("--mtbf-node 5d --copy-s 500 --restart-s 10", "The two levels lose least."),
        ("--mtbf-node 5d --copy-s 2 --restart-s 10", "The shared folder alone loses less"),
        ("--mtbf-node 5d --copy-s 6000 --restart-s 10", "The folder of the node alone loses less"),
    ] {
        let line = format!("{SURVEY} --mtbf 6h --checkpoint-s 3 {options}");
        let text = String::from_utf8(gpuzip(&line).stdout).unwrap();
        assert!(text.contains(part), "{part}: {text}");
        assert!(text.contains("and is lost each 120.00 h:"), "{text}");
    }
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
        ("--mtbf-node 5d --copy-s 3", "--mtbf"),
        ("--mtbf 6h --mtbf-node 5d", "--shared-gbs"),
        ("--mtbf 6h --copy-s 3", "--mtbf-node"),
        ("--mtbf 6h --mtbf-node 5d --copy-s 3 --shared-gbs 1", "cannot be used with"),
        ("--mtbf 6h --mtbf-node 1h --copy-s 3500", "no run would get on"),
    ] {
        let output = gpuzip(&format!("{SURVEY} {options}"));
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && message.contains(part), "{options}: {message}");
    }
}

/// 0 would stand for the default, 3.5 %.
#[test]
fn a_small_overhead_is_not_printed_as_zero() {
    let line = "plan --steps 2000 --state-bytes 1M --forward-ms 1000 --host-budget 20M --disk-gbs 2 --mtbf 90d --checkpoint-s 0.01";
    let shown = succeeds(line);
    let (_, value) = shown.split_once("persist_overhead = ").unwrap();
    let value: f64 = value.lines().next().unwrap().parse().unwrap();
    assert!((2e-5..5e-5).contains(&value), "{shown}");
}
