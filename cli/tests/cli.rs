//! The command as scripts and people use it: keys, counts, listings, errors.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

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

fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuzip"));
    command.args(line.split_whitespace());
    command
}

fn gpuzip(line: &str) -> Output {
    command(line).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn succeeds(line: &str) -> Output {
    let output = gpuzip(line);
    assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    output
}

/// The one object that `--json` prints.
fn json(line: &str) -> Value {
    let output = succeeds(&format!("{line} --json"));
    assert!(output.stderr.is_empty(), "{line}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

fn numbers<const N: usize>(object: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| object[name].as_u64().unwrap_or_else(|| panic!("{name} in {object}")))
}

fn temporary(name: &str, content: &[u8]) -> PathBuf {
    let path =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    std::fs::write(&path, content).unwrap();
    path
}

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
    let printed = succeeds("schedule --algorithm revolve --steps 200 --snapshots 5 --print");
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
    assert_eq!(succeeds(&format!("schedule {replay} --print")).stdout, printed.stdout);
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
            ["--print", "--print --range"].map(|flags| succeeds(&format!("{line} {flags}")).stdout);
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
    let short =
        succeeds("schedule --algorithm revolve --steps 4 --snapshots 1 --print --range").stdout;
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
    let printed = succeeds(options);
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

#[test]
fn tables_are_for_people() {
    let table = succeeds("plan --algorithm revolve --steps 3751 --snapshots 8 --cache 8").stdout;
    let line =
        |name: &str| text(&table).lines().find(|line| line.starts_with(name)).unwrap().to_string();
    assert_eq!(line("forward steps"), "forward steps   21252");
    assert_eq!(line("min lead"), "min lead        0");
    let info = succeeds("info").stdout;
    for part in ["version", "backend cuda", "libcuda", "two-level", "codec none"] {
        assert!(text(&info).contains(part), "{}", text(&info));
    }
}

#[test]
fn info_says_what_there_is() {
    let info = json("info");
    assert_eq!(
        keys(&info),
        ["version", "abi_version", "backends", "devices", "algorithms", "codecs"]
    );
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    assert!(info["abi_version"].as_u64().unwrap() >= 1);
    assert_eq!(
        info["backends"][0],
        serde_json::json!({ "name": "host", "available": true, "reason": null })
    );
    let cuda = &info["backends"][1];
    assert_eq!(cuda["name"], "cuda");
    assert!(
        cuda["available"] == true || cuda["reason"].as_str().unwrap().contains("CUDA"),
        "{cuda}"
    );
    assert!(info["devices"][0]["cores"].as_u64().unwrap() >= 1);
    assert_eq!(
        info["algorithms"],
        serde_json::json!([
            "trace",
            "revolve",
            "uniform",
            "zcut",
            "two-level",
            "store-all",
            "hrevolve",
            "online"
        ])
    );
    let codecs = info["codecs"].as_array().unwrap();
    let names: Vec<_> = codecs.iter().map(|codec| codec["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["none", "zfp", "bitcomp", "cuszp", "lorenzo", "dct", "fp16", "bfp"]);
    assert!(codecs
        .iter()
        .all(|codec| codec["available"].as_bool().unwrap() == codec["reason"].is_null()));
}

#[test]
fn help_and_version() {
    assert_eq!(
        text(&succeeds("--version").stdout),
        concat!("gpuzip ", env!("CARGO_PKG_VERSION"), "\n")
    );
    for (line, part) in [
        ("--help", "schedule"),
        ("schedule --help", "--published"),
        ("plan --help", "clairvoyant"),
        ("info --help", "--json"),
    ] {
        assert!(text(&succeeds(line).stdout).contains(part), "{line}");
    }
}

/// Exit code 2, nothing on stdout, and one text that names the value.
fn is_refused(line: &str, part: &str) {
    let output = gpuzip(line);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{line}: {message}");
    assert!(output.stdout.is_empty(), "{line}");
    assert!(message.starts_with("gpuzip: error: ") && message.contains(part), "{line}: {message}");
}

#[test]
fn options_that_do_not_belong_are_refused() {
    for (options, part) in [
        ("revolve --steps 9 --snapshots 3 --chunk 2", "--chunk has no meaning for revolve"),
        ("uniform --steps 9 --snapshots 3 --chunk 2", "--chunk has no meaning for uniform"),
        ("store-all --steps 9 --chunk 2", "--chunk has no meaning for store-all"),
        ("trace --chunk 2", "--chunk has no meaning for trace"),
        ("zcut --steps 9 --inner 2", "--inner has no meaning for zcut"),
        ("revolve --steps 9 --snapshots 3 --published", "--published has no meaning for revolve"),
        ("uniform --steps 9 --adjust", "--adjust has no meaning for uniform"),
        ("revolve --steps 9 --snapshots 3 --trace x", "--trace has no meaning for revolve"),
        ("revolve --steps 9 --snapshots 3 --adjust", "--snapshots 3 and --adjust"),
    ] {
        is_refused(&format!("schedule --algorithm {options}"), part);
        is_refused(&format!("plan --cache 2 --algorithm {options}"), part);
    }
}

#[test]
fn values_that_are_missing_or_impossible_are_refused() {
    for (line, part) in [
        ("", "requires a subcommand"),
        ("nonsense", "unrecognized subcommand"),
        ("schedule --steps 9 --snapshots 3", "--algorithm"),
        ("schedule --algorithm magic --steps 9", "possible values: trace, revolve"),
        ("schedule --algorithm revolve --steps nine", "invalid value 'nine'"),
        ("schedule --algorithm revolve --steps -9", "invalid value '-9'"),
        ("schedule --algorithm revolve --snapshots 3", "give --steps"),
        ("schedule --algorithm revolve --steps 0 --snapshots 3", "steps = 0"),
        (
            "schedule --algorithm store-all --steps 2147483648",
            "a whole number from 0 to 2147483647",
        ),
        (
            "plan --algorithm store-all --steps 9 --cache 2 --state-bytes 4Q",
            "K, M, G, T and KiB to TiB",
        ),
        ("schedule --algorithm revolve --steps 9", "--adjust"),
        ("schedule --algorithm uniform --steps 9", "uniform needs the number of snapshots"),
        (
            "schedule --algorithm uniform --steps 9 --published",
            "uniform needs the number of snapshots",
        ),
        (
            "schedule --algorithm two-level --steps 9 --chunk 3",
            "two-level needs the number of snapshots",
        ),
        (
            "schedule --algorithm zcut --steps 100 --snapshots 5 --chunk 10",
            "raise checkpointing_snaps to 10",
        ),
        ("plan --algorithm revolve --steps 9 --snapshots 3", "--cache"),
        (
            "plan --algorithm revolve --steps 9 --snapshots 3 --cache 2 --policy fifo",
            "possible values: clairvoyant, lru",
        ),
        ("schedule --algorithm trace", "give --trace FILE"),
        ("schedule --algorithm trace --trace /no/such/file", "/no/such/file"),
    ] {
        is_refused(line, part);
    }
}

/// Every option that takes numbers says which numbers it takes; no option takes one for another
/// option.
#[test]
fn numbers_that_are_impossible_are_refused() {
    let schedule = "--steps --snapshots --every --chunk --inner --for-cache";
    let plan = "--cache --state-bytes --forward-ms --backward-ms --link-gbs --both-gbs --d2d-gbs \
                --disk-gbs --device-budget --host-budget --disk-budget --shared-bytes --ratio \
                --codec-gbs --ranks --ranks-per-node --links-per-node --shots";
    for (command, options) in [
        ("schedule", schedule),
        ("plan", schedule),
        ("plan", plan),
        ("codec", "--rate --dims --bound --link-gbs"),
        ("report", "--shot"),
        ("kernels --prebuild", "--arch"),
    ] {
        for option in options.split_whitespace() {
            for value in ["-1", "-1,2", "1,2,-3", "many", "0x10"] {
                let line = format!("{command} {option} {value}");
                is_refused(&line, &format!("for '{option} <"));
                let message = gpuzip(&line).stderr;
                let says = ["give ", "write "].iter().any(|word| text(&message).contains(word));
                assert!(says && !text(&message).contains("invalid digit"), "{}", text(&message));
            }
        }
    }
}

/// Names on the command line are those of configuration files: in either case, with `-` or `_`, or
/// the number.
#[test]
fn names_are_read_as_in_a_configuration() {
    let counts = |algorithm: &str| {
        json(&format!("schedule --algorithm {algorithm} --steps 40 --snapshots 6"))
    };
    for (spelled, name) in [("Revolve", "revolve"), ("TWO_LEVEL", "two-level"), ("1", "revolve")] {
        assert_eq!(counts(spelled), counts(name));
    }
    let lru = json("plan --algorithm Revolve --steps 40 --snapshots 6 --cache 3 --policy LRU");
    assert_eq!(lru["policy"], "lru");
    let file = temporary("names.f32", &[0; 4096]).display().to_string();
    assert_eq!(json(&format!("codec --codec cuZFP --dims 1024 {file}"))["codec"], "zfp");
    is_refused(&format!("codec --codec auto --dims 1024 {file}"), "possible values: none, zfp");
}

/// A drawing is SVG, whatever the name of its file says.
#[test]
fn drawings_have_names_of_drawings() {
    let dir = temporary("drawings", b"").with_extension("folder");
    std::fs::create_dir(&dir).unwrap();
    let name = |name: &str| dir.join(name).display().to_string();
    let schedule = "schedule --algorithm revolve --steps 9 --snapshots 3 --svg";
    let plan = "plan --steps 9 --state-bytes 1M --device-budget 4M";
    is_refused(&format!("{schedule} {}", name("x.png")), "give a name that ends in .svg");
    is_refused(&format!("{plan} --svg {}", name("x.png")), "without an ending");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    is_refused(&format!("{plan} --trace-out {}", name("not/there")), "--trace-out ");
    std::fs::create_dir(dir.join("run.1")).unwrap();
    succeeds(&format!("{plan} --svg {}", name("run.1")));
    succeeds(&format!("{schedule} {}", name("x.SVG")));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn bad_traces_are_refused() {
    for (name, content, options, part) in [
        ("word.txt", "0 SAVE\n1 JUMP\n", "", "line 2"),
        ("short.txt", "0 BACKWARD\n0 TERMINATE\n", " --steps 5", "the application has 5"),
        (
            "order.txt",
            "0 SAVE\n1 FORWARD\n0 BACKWARD\n0 RESTORE\n1 BACKWARD\n0 TERMINATE\n",
            "",
            "the live state is 1",
        ),
    ] {
        let file = temporary(name, content.as_bytes());
        is_refused(
            &format!("schedule --algorithm trace --trace {}{options}", file.display()),
            part,
        );
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn numbers_are_read_as_in_a_configuration() {
    assert_eq!(json("schedule --algorithm revolve --steps 1e3 --snapshots 10")["steps"], 1000);
    succeeds("plan --steps 1e3 --state-bytes 1.5GiB --device-budget 12GB");
}

#[test]
fn keys_of_the_configuration_are_listed() {
    let listed = text(&succeeds("config").stdout).to_owned();
    for part in
        ["key ", "compressor", "none (0), zfp (1)", "device_budget", "bytes", "GPUZIP_CACHE_DIR"]
    {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    let object = json("config");
    let compressor =
        object["keys"].as_array().unwrap().iter().find(|key| key["key"] == "compressor").unwrap();
    assert_eq!(keys(compressor), ["key", "default", "unit", "values", "meaning"]);
    assert_eq!(compressor["default"], "none");
    assert!(object["variables"]
        .as_array()
        .unwrap()
        .iter()
        .any(|variable| variable["variable"] == "GPUZIP_LOG"));
}

#[test]
fn a_configuration_is_checked() {
    let file = temporary(
        "good.cfg",
        b"compressor = DCT\nerror_bound = 1e-4\ndevice_budget = 2G # of 80\n",
    );
    let line = format!("config {} --json", file.display());
    let output = command(&line)
        .env("GPUZIP_HOST_BUDGET", "4GB")
        .env("GPUZIP_COMPRESOR", "zfp")
        .env("GPUZIP_ROOT", "/opt")
        .output()
        .unwrap();
    let values: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (key, value, source) in [
        ("compressor", "dct", "line 1"),
        ("device_budget", "2147483648", "line 3"),
        ("host_budget", "4000000000", "variable"),
        ("policy", "clairvoyant", "default"),
    ] {
        assert_eq!(values[key], serde_json::json!({ "value": value, "set_by": source }));
    }
    let warnings = text(&output.stderr);
    assert!(
        warnings.contains("GPUZIP_COMPRESOR")
            && warnings.contains("did you mean GPUZIP_COMPRESSOR?"),
        "{warnings}"
    );
    assert!(!warnings.contains("GPUZIP_ROOT"), "{warnings}");
    assert!(text(&succeeds(&format!("config {}", file.display())).stdout).contains("dct"));
    std::fs::remove_file(file).unwrap();
    succeeds("config --environment");
    for (content, part) in [
        (&b"\nsnaps = 3\n"[..], "line 2: unknown key \"snaps\": did you mean checkpointing_snaps?"),
        (b"zero_copy = 1\npolicy = lru\n", "zero_copy = 1 with policy = 1"),
        (b"profile_path = /\n", "is a folder"),
        (b"compressor = \xff\n", "line 1: is not UTF-8"),
    ] {
        let file = temporary("bad.cfg", content);
        is_refused(&format!("config {}", file.display()), part);
        std::fs::remove_file(file).unwrap();
    }
    is_refused("config /dev/zero", "is a device: give a regular file");
}

/// `gpuzip schedule --print | head -1`: the reader goes away in the middle of megabytes.
#[test]
fn a_closed_pipe_is_a_quiet_end() {
    for options in ["--print", "--print --json"] {
        let mut command = command("schedule --algorithm revolve --steps 100000 --snapshots 10");
        let mut child = command
            .args(options.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 4];
        let mut reader = BufReader::with_capacity(first.len(), child.stdout.take().unwrap());
        first.copy_from_slice(&reader.fill_buf().unwrap()[..4]);
        drop(reader);
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{options}");
        assert_eq!(&first[..1], if options == "--print" { b"0" } else { b"{" });
    }
}

#[test]
fn memory_that_cannot_be_had_is_an_error() {
    for (arguments, part) in [
        ("plan --algorithm store-all --steps 2147483647 --cache 2", "no memory for"),
        ("plan --algorithm store-all --steps 100000000 --cache 2", "no memory for"),
        ("schedule --algorithm revolve --steps 2147483647 --snapshots 100", "no memory for"),
    ] {
        let shell = format!("ulimit -v 1000000; exec {} {arguments}", env!("CARGO_BIN_EXE_gpuzip"));
        let output = std::process::Command::new("sh").arg("-c").arg(shell).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {text}");
        assert!(text.contains(part), "{arguments}: {text}");
    }
}

const CODEC: [&str; 17] = [
    "file",
    "codec",
    "raw_bytes",
    "stored_bytes",
    "ratio",
    "psnr",
    "ssim",
    "max_error",
    "rmse",
    "relative_l2",
    "nonfinite_lost",
    "setting",
    "bound",
    "bound_kept",
    "compress_gbs",
    "decompress_gbs",
    "memcpy_gbs",
];

/// A wave on 40 x 30 x 20 points, at time t.
fn wave(t: f64) -> Vec<u8> {
    let value = |i: usize| {
        ((0.3 * (i % 40) as f64 + t).sin()
            * (0.2 * (i / 40 % 30) as f64).cos()
            * (0.25 * (i / 1200) as f64).sin()) as f32
    };
    (0..24_000).flat_map(|i| value(i).to_le_bytes()).collect()
}

#[test]
fn every_codec_says_how_small_and_how_exact() {
    let file = temporary("wave.f32", &wave(0.0)).display().to_string();
    for (codec, bounded) in [
        ("none", false),
        ("zfp", false),
        ("fp16", false),
        ("bfp", false),
        ("cuszp", true),
        ("lorenzo", true),
        ("dct", true),
    ] {
        for bound in ["rel:1e-3", "abs:1e-4", "range:1e-2", "psnr:70"] {
            let object =
                json(&format!("codec --codec {codec} --bound {bound} --dims 40,30,20 {file}"));
            assert_eq!(keys(&object), CODEC);
            let number =
                |name: &str| object[name].as_f64().unwrap_or_else(|| panic!("{name} in {object}"));
            assert_eq!(number("raw_bytes"), 96_000.0);
            assert!((number("ratio") - 96_000.0 / number("stored_bytes")).abs() < 1e-9);
            assert!(
                number("compress_gbs") > 0.0
                    && number("decompress_gbs") > 0.0
                    && number("memcpy_gbs") > 0.0
            );
            if bounded {
                assert_eq!(object["bound_kept"], true, "{object}");
                assert!(number("ratio") > 2.0 && number("ssim") > 0.9, "{object}");
            }
            match (bounded, bound) {
                (true, "psnr:70") => assert!(number("psnr") >= 70.0, "{object}"),
                (true, _) => assert!(number("max_error") <= number("bound"), "{object}"),
                _ => assert!(object["bound"].is_null() && object["bound_kept"].is_null()),
            }
            if codec == "none" {
                // What is the same has no PSNR that JSON could hold.
                assert!(
                    object["psnr"].is_null()
                        && number("max_error") == 0.0
                        && number("ratio") > 0.99
                );
            }
        }
    }
}

#[test]
fn several_files_pairs_and_doubles() {
    let (curr, prev) = (temporary("curr.f32", &wave(0.1)), temporary("prev.f32", &wave(0.0)));
    let files = format!("{} {}", curr.display(), prev.display());
    let object = json(&format!("codec --codec dct --dims 40,30,20 {files}"));
    assert_eq!(keys(&object), ["results"]);
    assert_eq!(object["results"].as_array().unwrap().len(), 2);
    let object = json(&format!("codec --codec dct --dims 40,30,20 --pair {files}"));
    assert_eq!(
        (object["raw_bytes"].as_u64(), object["bound_kept"].as_bool()),
        (Some(192_000), Some(true))
    );
    // As doubles the same bytes are 20 x 30 x 20 other values.
    let object =
        json(&format!("codec --codec lorenzo --type f64 --dims 20,30,20 {}", curr.display()));
    assert_eq!(object["bound_kept"], true);
    let table = succeeds(&format!("codec --all --dims 40,30,20 {}", curr.display()));
    let table = text(&table.stdout);
    for name in ["zfp", "cuszp", "lorenzo", "dct", "fp16", "bfp", "psnr:80", "rel:1e-5"] {
        assert!(table.contains(name), "{table}");
    }
    assert!(!table.contains("NO"), "{table}");
    // It ends with a verdict: at each bound the smallest, the fastest, and what a link wants.
    let verdict = table.lines().last().unwrap();
    assert!(
        ["psnr:100", "smallest", "fastest", "over the link"]
            .iter()
            .all(|part| verdict.contains(part)),
        "{verdict}"
    );
    let object = json(&format!("codec --all --link-gbs 1e-6 --dims 40,30,20 {}", curr.display()));
    let (rows, verdicts) =
        (object["results"].as_array().unwrap(), object["verdicts"].as_array().unwrap());
    assert_eq!(verdicts.len(), 7);
    for verdict in verdicts {
        let of_bound = rows
            .iter()
            .filter(|row| row["setting"] == verdict["setting"] && row["bound_kept"] == true);
        let best = of_bound
            .max_by(|a, b| a["ratio"].as_f64().unwrap().total_cmp(&b["ratio"].as_f64().unwrap()))
            .unwrap();
        // Over a link as slow as that nothing counts but bytes.
        assert_eq!(
            (&verdict["smallest"], &verdict["over_link"]),
            (&best["codec"], &best["codec"]),
            "{verdict}"
        );
    }
}

/// A FIFO as an input is an error that names it: nothing waits for whoever might write to it.
#[test]
fn inputs_that_are_no_files_are_refused() {
    let fifo = temporary("fifo", &[]);
    std::fs::remove_file(&fifo).unwrap();
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let name = fifo.display().to_string();
    for (line, file) in [
        (format!("codec --codec dct --dims 100 {name}"), &*name),
        (format!("report {name}"), &name),
        ("codec --codec dct --dims 100 /dev/zero".into(), "/dev/zero"),
        ("report /".into(), "/"),
    ] {
        // Where it waits all the same, not for ever.
        let output = Command::new("timeout")
            .arg("60")
            .arg(env!("CARGO_BIN_EXE_gpuzip"))
            .args(line.split_whitespace())
            .output()
            .unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {message}");
        assert!(
            message.contains(&format!("{file}: is a")) && message.contains("give a regular file"),
            "{line}: {message}"
        );
    }
    std::fs::remove_file(&fifo).unwrap();
}

#[test]
fn arrays_that_do_not_fit_are_refused() {
    let file = temporary("short.f32", &[0; 400]).display().to_string();
    is_refused(
        &format!("codec --codec dct --dims 101 {file}"),
        "the file has 400 bytes, and 101 x 1 x 1 values of 4 bytes are 404 bytes",
    );
    is_refused(&format!("codec --codec dct --dims 5,5,4,1 {file}"), "three extents");
    is_refused(&format!("codec --codec dct --dims 0 {file}"), "no extent");
    is_refused(&format!("codec --codec gzip --dims 100 {file}"), "gzip");
    is_refused(&format!("codec --codec dct --bound 1e-3 --dims 100 {file}"), "rel:1e-3");
    is_refused(
        &format!("codec --codec dct --bound rel:-1 --dims 100 {file}"),
        "after rel: give a number greater than 0",
    );
    is_refused(
        &format!("codec --codec dct --bound max:1 --dims 100 {file}"),
        "use rel, abs, range or psnr",
    );
    is_refused(&format!("codec --codec zfp --rate 33 --dims 100 {file}"), "33");
    is_refused(&format!("codec --codec dct --pair --dims 100 {file}"), "twos");
    is_refused("codec --codec dct --dims 100 /no/such/file", "/no/such/file");
    is_refused(&format!("codec --dims 100 {file}"), "--codec");
}
