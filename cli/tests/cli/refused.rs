//! What the command refuses, and how it reads numbers and names.

use super::{gpuzip, is_refused, json, runs, temporary, text};

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
                --codec-gbs --fields --nvme --ranks --ranks-per-node --links-per-node --host-gbs --shots";
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
    runs(&format!("{plan} --svg {}", name("run.1")));
    runs(&format!("{schedule} {}", name("x.SVG")));
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
    runs("plan --steps 1e3 --state-bytes 1.5GiB --device-budget 12GB");
}
