//! `gpuzip info`, `gpuzip config`, help, tables, and ends for lack of a reader or of memory.

use super::{command, is_refused, json, keys, runs, temporary, text};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn tables_are_for_people() {
    let table = runs("plan --algorithm revolve --steps 3751 --snapshots 8 --cache 8").stdout;
    let line =
        |name: &str| text(&table).lines().find(|line| line.starts_with(name)).unwrap().to_string();
    assert_eq!(line("forward steps"), "forward steps   21252");
    assert_eq!(line("min lead"), "min lead        0");
    let info = runs("info").stdout;
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
    assert_eq!(
        names,
        ["none", "zfp", "bitcomp", "cuszp", "lorenzo", "dct", "fp16", "bfp", "lossless"]
    );
    assert!(codecs
        .iter()
        .all(|codec| codec["available"].as_bool().unwrap() == codec["reason"].is_null()));
}

#[test]
fn help_and_version() {
    assert_eq!(
        text(&runs("--version").stdout),
        concat!("gpuzip ", env!("CARGO_PKG_VERSION"), "\n")
    );
    for (line, part) in [
        ("--help", "schedule"),
        ("schedule --help", "--published"),
        ("plan --help", "clairvoyant"),
        ("info --help", "--json"),
    ] {
        assert!(text(&runs(line).stdout).contains(part), "{line}");
    }
}

#[test]
fn keys_of_the_configuration_are_listed() {
    let listed = text(&runs("config").stdout).to_owned();
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
    assert!(text(&runs(&format!("config {}", file.display())).stdout).contains("dct"));
    std::fs::remove_file(file).unwrap();
    runs("config --environment");
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
    for (arguments, kilobytes, part) in [
        ("plan --algorithm store-all --steps 1000000000 --cache 2", 1_000_000, "no memory for"),
        ("plan --algorithm store-all --steps 100000000 --cache 2", 1_000_000, "no memory for"),
        ("schedule --algorithm store-all --steps 100000000", 90_000, "no memory for"),
    ] {
        let shell =
            format!("ulimit -v {kilobytes}; exec {} {arguments}", env!("CARGO_BIN_EXE_gpuzip"));
        let output = std::process::Command::new("sh").arg("-c").arg(shell).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {text}");
        assert!(text.contains(part), "{arguments}: {text}");
    }
    // Formulas take no memory.
    let long = json("schedule --algorithm revolve --steps 2147483647 --snapshots 100");
    assert_eq!(long["backward_steps"], 2_147_483_647);
}
