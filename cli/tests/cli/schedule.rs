//! `gpuzip schedule`, and `gpuzip plan` without costs: keys, counts, listings, drawings.

use super::{gpuzip, json, keys, numbers, runs, temporary, text};

const COUNTS: [&str; 9] = [
    "algorithm",
    "steps",
    "snapshots",
    "forward_steps",
    "saves",
    "restores",
    "backward_steps",
    "max_live",
    "actions",
];

const TRANSFERS: [&str; 11] = [
    "cache",
    "policy",
    "h2d",
    "d2h",
    "hits",
    "misses",
    "prefetches",
    "min_lead",
    "mean_lead",
    "device_slots",
    "host_slots",
];

#[test]
fn revolve_has_the_published_counts() {
    for (n, s, steps, writes) in [
        (3751, 8, 21_252, 1716),
        (1000, 10, 3636, 714),
        (10_000, 50, 28_622, 8674),
        (100_000, 100, 294_747, 94_849),
    ] {
        let object = json(&format!("schedule --algorithm revolve --steps {n} --snapshots {s}"));
        assert_eq!(keys(&object), COUNTS);
        assert_eq!(object["algorithm"], "revolve");
        let expected = [n, s, steps, writes, n - 1, n, s, steps + writes + (n - 1) + n + 1];
        assert_eq!(numbers(&object, COUNTS[1..].try_into().unwrap()) as [u64; 8], expected);
    }
}

#[test]
fn every_algorithm_has_its_counts() {
    let names = ["steps", "snapshots", "forward_steps", "saves", "restores", "max_live"];
    for (options, expected) in [
        ("revolve --steps 3001 --adjust", [3001, 7, 18_004, 1285, 3000, 7]),
        ("revolve --steps 1 --adjust", [1, 1, 0, 0, 0, 0]),
        ("store-all --steps 100", [100, 99, 99, 99, 99, 99]),
        ("store-all --steps 100 --snapshots 10", [100, 99, 99, 99, 99, 99]),
        // K = 10 chunks of m = 10: (K - 1) m + K (m - 1) forward steps; the last state of a chunk
        // is reversed unsaved.
        ("zcut --steps 100 --chunk 10", [100, 20, 180, 90, 99, 18]),
        // One interval is best here: t(100, 10) = 222, q = 55.
        ("uniform --steps 100 --snapshots 10", [100, 10, 222, 55, 99, 10]),
        // Every interval of 10 is quadratic: 90 + 10 * 45.
        ("uniform --steps 100 --snapshots 10 --published", [100, 10, 540, 10, 99, 10]),
        // (K - 1) L + K t(L, 3) with K = 5, L = 20, t(20, 3) = 45, q(20, 3) = 10.
        (
            "two-level --steps 100 --snapshots 7 --chunk 20 --inner 3",
            [100, 7, 80 + 5 * 45, 5 * 10, 99, 7],
        ),
        // L t(K, 3) + K t(L, 2) with K = 10, L = 10, t(10, 3) = 15, t(10, 2) = 20, q(10, 2) = 4.
        (
            "hrevolve --steps 100 --snapshots 5 --chunk 10 --inner 2",
            [100, 5, 10 * 15 + 10 * 20, 10 * 4, 99, 5],
        ),
        // n <= (s + 1) (s + 2) / 2: t(60, 10) = 2n - s - 2 forward steps.
        ("online --steps 60 --snapshots 10", [60, 10, 108, 101, 59, 10]),
    ] {
        let object = json(&format!("schedule --algorithm {options}"));
        assert_eq!(numbers(&object, names), expected, "{options}: {object}");
    }
}

#[test]
fn online_schedules_are_compared_with_revolve() {
    let names = ["forward_steps", "revolve_forward_steps"];
    for (s, expected) in [(3, [1305, 1305]), (5, [799, 790]), (10, [523, 522])] {
        let object = json(&format!("schedule --online --steps 200 --snapshots {s}"));
        assert_eq!(numbers(&object, names), expected, "{s} snapshots");
    }
    // A snapshot that is dropped before it leaves the cache is not written back.
    let object = json("plan --online --steps 3751 --snapshots 30 --cache 4");
    let [saves, d2h] = numbers(&object, ["saves", "d2h"]);
    assert!(d2h < saves, "{object}");
    let both = gpuzip("schedule --online --algorithm revolve --steps 9 --snapshots 2");
    assert!(!both.status.success() && text(&both.stderr).contains("--online"));
}

#[test]
fn plans_have_the_published_transfers() {
    for (policy, h2d, d2h) in
        [("", 27, 7), (" --policy clairvoyant", 27, 7), (" --policy lru", 265, 1716)]
    {
        let object =
            json(&format!("plan --algorithm revolve --steps 3751 --snapshots 8 --cache 6{policy}"));
        assert_eq!(keys(&object), [&COUNTS[..], &TRANSFERS[..]].concat());
        assert_eq!(
            numbers(&object, ["cache", "h2d", "d2h", "hits", "misses"]),
            [6, h2d, d2h, 3750 - h2d, h2d]
        );
        assert_eq!(
            numbers(&object, ["forward_steps", "prefetches", "device_slots"]),
            [21_252, h2d, 6]
        );
        assert_eq!(object["policy"], if policy.ends_with("lru") { "lru" } else { "clairvoyant" });
        assert!(object["mean_lead"].as_f64().unwrap() >= object["min_lead"].as_f64().unwrap());
    }
}

#[test]
fn without_a_prefetch_there_is_no_lead() {
    let object = json("plan --algorithm revolve --steps 3751 --snapshots 8 --cache 8");
    assert_eq!(
        numbers(&object, ["h2d", "d2h", "prefetches", "device_slots", "host_slots"]),
        [0, 0, 0, 8, 0]
    );
    assert!(object["min_lead"] == 0 && object["mean_lead"] == 0.0);
    assert_eq!(
        numbers(
            &json("plan --algorithm store-all --steps 9 --cache 0"),
            ["h2d", "device_slots", "host_slots"]
        ),
        [8, 0, 8]
    );
}

#[test]
fn two_level_works_inside_the_cache() {
    let options = "--algorithm two-level --steps 100 --snapshots 10 --chunk 20";
    let inside = |line: String| numbers(&json(&line), ["forward_steps", "max_live"]);
    let by_cache = inside(format!("plan {options} --cache 3"));
    assert_eq!(by_cache, inside(format!("schedule {options} --inner 3")));
    assert_eq!(inside(format!("plan {options} --cache 0")), inside(format!("schedule {options}")));
    assert_eq!(
        inside(format!("plan {options} --cache 3 --inner 5")),
        inside(format!("schedule {options} --inner 5"))
    );
    assert_ne!(by_cache, inside(format!("schedule {options}")));
}

#[test]
fn a_printed_schedule_can_be_replayed() {
    let printed = runs("schedule --algorithm revolve --steps 200 --snapshots 5 --print");
    assert!(text(&printed.stderr).contains("forward steps"), "the summary goes to stderr");
    let file = temporary("round-trip.txt", &printed.stdout);
    let replay = format!("--algorithm trace --trace {}", file.display());
    let (original, mut replayed) = (
        json("schedule --algorithm revolve --steps 200 --snapshots 5"),
        json(&format!("schedule {replay} --steps 200")),
    );
    assert_eq!(replayed, json(&format!("schedule {replay}")));
    replayed["algorithm"] = "revolve".into();
    assert_eq!(replayed, original);
    assert_eq!(runs(&format!("schedule {replay} --print")).stdout, printed.stdout);
    let listed = json(&format!("schedule {replay} --print"));
    assert_eq!(keys(&listed), [&COUNTS[..], &["schedule"]].concat());
    assert!(listed["schedule"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line.as_str().unwrap())
        .eq(text(&printed.stdout).lines()));
    std::fs::remove_file(file).unwrap();
}

/// `2..5 FORWARD` stands for the FORWARDs of 2, 3, 4 and 5; one alone, and everything else, is the
/// line of a trace.
#[test]
fn ranges_are_the_schedule_with_forwards_in_a_row_as_one() {
    for options in [
        "revolve --steps 200 --snapshots 5",
        "zcut --steps 90",
        "uniform --steps 60 --snapshots 4",
        "store-all --steps 5",
    ] {
        let line = format!("schedule --algorithm {options}");
        let [single, ranges] =
            ["--print", "--print --range"].map(|flags| runs(&format!("{line} {flags}")).stdout);
        let mut taken_apart = String::new();
        for action in text(&ranges).lines() {
            let (steps, name) = action.split_once(' ').unwrap();
            let (first, last) = steps.split_once("..").unwrap_or((steps, steps));
            let [first, last] = [first, last].map(|step| step.parse::<u32>().unwrap());
            assert!(first < last || !steps.contains(".."), "{options}: {action} is one step");
            (first..=last).for_each(|step| taken_apart += &format!("{step} {name}\n"));
        }
        assert_eq!(taken_apart, text(&single), "{options}");
        let object = json(&format!("{line} --range --print"));
        let listed: Vec<&str> = object["schedule"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line.as_str().unwrap())
            .collect();
        assert_eq!(listed, text(&ranges).lines().collect::<Vec<_>>());
        assert_eq!(object["actions"], listed.len(), "what an application is handed out");
        assert_eq!(object["forward_steps"], json(&line)["forward_steps"], "the work is the same");
    }
    // All that one snapshot leaves to do again: a stretch of recomputations never joins the first
    // pass.
    let short = runs("schedule --algorithm revolve --steps 4 --snapshots 1 --print --range").stdout;
    let expected = "0 SAVE|1..3 FORWARD|3 BACKWARD|0 RESTORE|1..2 FORWARD|2 BACKWARD|0 RESTORE|1 FORWARD|1 BACKWARD|0 RESTORE|0 BACKWARD";
    assert!(text(&short).replace('\n', "|").starts_with(expected), "{}", text(&short));
}

/// The lines of a drawing have a horizontal length for each step done.
#[test]
fn a_drawn_schedule_has_its_snapshots_and_steps() {
    let file = temporary("schedule.svg", b"");
    for options in [
        "revolve --steps 24 --snapshots 4",
        "store-all --steps 9",
        "zcut --steps 100",
        "revolve --steps 25 --snapshots 3 --every 2",
    ] {
        let counts = json(&format!("schedule --algorithm {options} --svg {}", file.display()));
        let drawing = std::fs::read_to_string(&file).unwrap();
        let mut lengths = std::collections::HashMap::<&str, Vec<f64>>::new();
        for line in drawing.lines().filter(|line| line.contains("stroke-width=\"2\"")) {
            let value = |name: &str| line.split(name).nth(1).unwrap().split('"').nth(1).unwrap();
            let [from, to] = ["x1=", "x2="].map(|name| value(name).parse::<f64>().unwrap());
            lengths.entry(value("stroke=")).or_default().push(to - from);
        }
        let [forward, backward, saves] =
            ["forward_steps", "backward_steps", "saves"].map(|key| counts[key].as_u64().unwrap());
        let steps =
            |inks: &[&str]| inks.iter().filter_map(|ink| lengths.get(ink)).flatten().sum::<f64>();
        assert_eq!(lengths["#e69f00"].len() as u64, saves, "{options}: a line for each SAVE");
        let (rising, falling) = (steps(&["#0072b2", "#8cc9ec"]), steps(&["#009e73"]));
        let ratio = rising / falling * backward as f64 / forward as f64;
        assert!((ratio - 1.0).abs() < 0.01, "{options}: {rising} to {falling} pixels");
    }
    let much = format!(
        "schedule --algorithm revolve --steps 20001 --snapshots 4 --svg {}",
        file.display()
    );
    assert!(text(&gpuzip(&much).stderr).contains("draw fewer time steps"));
    let nowhere = "schedule --algorithm revolve --steps 9 --snapshots 4 --svg not/there.svg";
    assert!(text(&gpuzip(nowhere).stderr).contains("not/there.svg"));
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_printed_plan_is_its_listing_alone() {
    let options = "plan --algorithm revolve --steps 50 --snapshots 6 --cache 2 --print";
    let printed = runs(options);
    let events =
        text(&printed.stdout).lines().filter(|line| !line.starts_with("  fetch for ")).enumerate();
    let counted = events
        .inspect(|(e, line)| assert!(line.starts_with(&format!("{e}:")), "{line}"))
        .count() as u64;
    let listed = json(options);
    assert_eq!(counted, numbers(&listed, ["saves", "restores"]).iter().sum::<u64>());
    assert_eq!(*keys(&listed).last().unwrap(), "plan");
    assert!(listed["plan"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line.as_str().unwrap())
        .eq(text(&printed.stdout).lines()));
    assert!(text(&printed.stderr).contains("h2d"));
}

/// A schedule whose replay would take minutes is counted by formulas, at once.
#[test]
fn long_schedules_are_counted_by_formulas() {
    let quick = |line: &str| {
        let begun = std::time::Instant::now();
        let found = json(line);
        assert!(begun.elapsed().as_secs() < 30, "{line}: {:?}", begun.elapsed());
        found
    };
    let revolve = "schedule --algorithm revolve --snapshots 1";
    let n = 1_000_000u64;
    let long = quick(&format!("{revolve} --steps {n}"));
    let names = ["forward_steps", "saves", "restores", "backward_steps", "actions"];
    let steps = n * (n - 1) / 2;
    assert_eq!(numbers(&long, names), [steps, 1, n - 1, n, steps + 1 + (n - 1) + n + 1]);
    assert!(long["max_live"].is_null() && long["replayed"] == false, "{long}");
    // Formulas give what a replay gives: this one takes a second, the next longer one none.
    let replayed = json(&format!("{revolve} --steps 14142"));
    assert!(replayed.get("replayed").is_none() && replayed["max_live"] == 1, "{replayed}");
    let [before, after] = [replayed, quick(&format!("{revolve} --steps 14143"))]
        .map(|counts| numbers(&counts, names));
    let more: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    assert_eq!(more, [14142, 0, 1, 1, 14142 + 2]);
    // With macro-steps FORWARDs are those of time steps, and BACKWARDs those of macro-steps.
    let [every, whole] = ["--steps 3e6 --every 3", "--steps 1e6"]
        .map(|steps| numbers(&quick(&format!("{revolve} {steps}")), names));
    assert_eq!(every, [3 * whole[0], 1, whole[2], 3 * n, 3 * whole[0] + 1 + (n - 1) + n + 1]);
    // No plan can be made of so many steps, which is said at once.
    let plan = gpuzip("plan --algorithm revolve --snapshots 1 --cache 1 --steps 1e6");
    assert!(text(&plan.stderr).contains("a schedule may have 1073741824"), "{plan:?}");
}

/// What cannot be counted by a formula says first how long it takes and what is quicker.
#[test]
fn long_walks_are_announced() {
    let plan = gpuzip("plan --algorithm revolve --snapshots 1 --cache 1 --steps 14143");
    let said = text(&plan.stderr);
    assert!(plan.status.success() && said.contains("seconds for every 10^8"), "{said}");
    assert!(said.contains("with more snapshots"), "{said}");
    // With --algorithm auto one search is enough.
    for (algorithm, about) in [("", "3.40 s"), (" --algorithm auto", "1.00 s")] {
        let problem = "plan --steps 2000001 --state-bytes 1K --device-budget 1M --snapshots 100";
        let search = gpuzip(&format!("{problem}{algorithm}"));
        let said = text(&search.stderr);
        let expected = format!("takes about {about}");
        assert!(said.contains(&expected) && said.contains("--every K"), "{said}");
    }
}
