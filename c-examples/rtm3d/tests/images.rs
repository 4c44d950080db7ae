//! The example rtm3d: images of reverse time migrations must not depend on how states were kept.

#[path = "images/gradients.rs"]
mod gradients;
#[path = "images/reconstruct.rs"]
mod reconstruct;
#[path = "images/sweeps.rs"]
mod sweeps;

use crate::common;
use crate::common::cases::long;
use common::{library, root, run, stdout};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

const FEW_SNAPSHOTS: [(&str, &str); 3] =
    [("CHECKPOINTING_ALGORITHM", "revolve"), ("CHECKPOINTING_SNAPS", "5"), ("CACHE_CAPACITY", "2")];

/// Builds a target of c-examples/rtm3d; all targets share one folder.
fn build(target: &str) -> PathBuf {
    build_with("rtm", target, &[])
}

fn build_with(folder: &str, target: &str, variables: &[&str]) -> PathBuf {
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one_at_a_time = LOCK.lock();
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let build = format!("BUILD={}", dir.display());
    let lib = format!("GPUZIP_LIB={}", library().display());
    let rtm3d = root().join("c-examples/rtm3d");
    run(Command::new("make")
        .args(["-s", "-j2", "-C"])
        .arg(rtm3d)
        .args([&build, &lib])
        .args(variables)
        .arg(dir.join(target)));
    dir.join(target)
}

fn rtm3d() -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    quiet(PROGRAM.get_or_init(|| build("rtm3d")))
}

/// A program in an environment without gpuzip's variables.
fn quiet(program: &std::path::Path) -> Command {
    let mut command = Command::new(program);
    // Spinning threads on a busy machine run several times slower.
    command.env("OMP_WAIT_POLICY", "passive");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GPUZIP_")) {
        command.env_remove(name);
    }
    command
}

/// The value of a key in the JSON object that rtm3d prints, as text.
fn value<'a>(json: &'a str, key: &str) -> &'a str {
    let start = json.find(&format!("\"{key}\": ")).unwrap_or_else(|| panic!("no {key} in {json}"))
        + key.len()
        + 4;
    json[start..].split([',', '}']).next().unwrap().trim_matches('"')
}

/// Runs a migration with `--verify --json`, configured by environment variables; checks that the
/// image is identical to that of keeping every state, and returns the JSON object.
fn verify(args: &[&str], out: &str, config: &[(&str, &str)]) -> String {
    let mut command = rtm3d();
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rtm").join(out);
    command.args(args).args(["--verify", "--json", "--out"]).arg(out);
    for (key, value) in config {
        command.env(format!("GPUZIP_{key}"), value);
    }
    let json = stdout(&run(&mut command));
    assert_eq!(json.lines().count(), 1, "one object: {json}");
    assert_eq!(value(&json, "identical"), "true", "{config:?}");
    json
}

/// Runs a job under every algorithm, policy and cache capacity; all images must have one hash.
fn matrix(args: &[&str], out: &str, snapshots: &str) {
    let mut hashes = BTreeSet::new();
    for algorithm in ["revolve", "uniform", "zcut", "two-level", "hrevolve", "store-all", "auto"] {
        for policy in ["clairvoyant", "lru"] {
            for cache in 0..=8 {
                let cache = cache.to_string();
                let config = [
                    ("CHECKPOINTING_ALGORITHM", algorithm),
                    ("CHECKPOINTING_SNAPS", snapshots),
                    ("POLICY", policy),
                    ("CACHE_CAPACITY", &cache),
                ];
                let json = verify(args, out, &config);
                hashes.insert((
                    value(&json, "image_hash").to_string(),
                    value(&json, "illumination_hash").to_string(),
                ));
                assert_eq!(value(&json, "policy"), policy);
                if algorithm != "auto" {
                    assert_eq!(value(&json, "algorithm"), algorithm);
                }
            }
        }
    }
    assert_eq!(hashes.len(), 1, "one image whatever the schedule and the cache: {hashes:?}");
}

#[test]
fn images_do_not_depend_on_schedule_policy_or_cache() {
    matrix(
        &[
            "--n1", "24", "--n2", "40", "--n3", "1", "--steps", "90", "--shots", "2", "--border",
            "8",
        ],
        "small-2d",
        "5",
    );
}

#[test]
fn a_small_3d_job_and_a_published_uniform() {
    let args = [
        "--n1", "16", "--n2", "12", "--n3", "20", "--steps", "60", "--shots", "2", "--border", "6",
    ];
    let base = verify(&args, "small-3d", &[]);
    for config in [
        &[
            ("CHECKPOINTING_ALGORITHM", "uniform"),
            ("CHECKPOINTING_SNAPS", "8"),
            ("UNIFORM_READING", "1"),
            ("CACHE_CAPACITY", "3"),
        ][..],
        &[
            ("CHECKPOINTING_ALGORITHM", "zcut"),
            ("SCHEDULE_CHUNK", "7"),
            ("CACHE_CAPACITY", "2"),
            ("LINK_BANDWIDTH", "1e9"),
        ],
        &[("DEVICE_BUDGET", "1M"), ("HOST_BUDGET", "3M")],
        &[
            ("CHECKPOINTING_ALGORITHM", "revolve"),
            ("SNAPSHOT_RULE", "1"),
            ("CACHE_CAPACITY", "2"),
            ("POLICY", "lru"),
        ],
    ] {
        let json = verify(&args, "small-3d", config);
        assert_eq!(value(&json, "image_hash"), value(&base, "image_hash"), "{config:?}");
    }
}

/// The previous time level of a wavefield equals the wavefield one step earlier, bit for bit, so
/// that it can be stored once; the image does not change.
#[test]
fn shared_time_levels_give_the_same_image() {
    let args = [
        "--n1", "16", "--n2", "12", "--n3", "20", "--steps", "60", "--shots", "2", "--border", "6",
    ];
    for (algorithm, cache) in
        [("store-all", "0"), ("store-all", "4"), ("zcut", "3"), ("revolve", "2")]
    {
        let config = [("CHECKPOINTING_ALGORITHM", algorithm), ("CACHE_CAPACITY", cache)];
        let plain = verify(&args, "levels", &config);
        let shared = verify(&args, "levels", &[&config[..], &[("SHARED_LEVELS", "1")]].concat());
        assert_eq!(value(&shared, "image_hash"), value(&plain, "image_hash"));
        let number = |json: &str, key: &str| value(json, key).parse::<u64>().unwrap();
        for (key, count) in [("stored_bytes", "saves"), ("peak_host_bytes", "snapshots")] {
            // The checksums of a snapshot take 256 bytes.
            let (shared_bytes, plain_bytes, checksums) =
                (number(&shared, key), number(&plain, key), 256 * number(&shared, count));
            let is_half = 100 * shared_bytes < 55 * plain_bytes;
            let what =
                format!("{key}: {shared_bytes} of {plain_bytes} with {algorithm}, {cache} slots");
            assert!(
                shared_bytes <= plain_bytes + checksums && (algorithm != "store-all" || is_half),
                "{what}"
            );
        }
    }
}

/// A migration that computes in the session's memory has the bits of one that copies: with any
/// schedule, with slots and without, over a link, with steps that follow one by one (store-all) and
/// with ranges, with codecs and when measured.
#[test]
fn zero_copy_gives_the_same_image() {
    let small = ["--steps", "60", "--shots", "2", "--border", "6"];
    for grid in
        [["--n1", "16", "--n2", "12", "--n3", "20"], ["--n1", "24", "--n2", "30", "--n3", "1"]]
    {
        let args = [&grid[..], &small].concat();
        let handing = [&args[..], &["--zero-copy"]].concat();
        let base = verify(&args, "handed", &[]);
        for algorithm in
            ["revolve", "uniform", "zcut", "two-level", "hrevolve", "store-all", "auto"]
        {
            for (cache, link) in [("0", "0"), ("1", "0"), ("2", "1e8"), ("3", "0"), ("5", "1e9")] {
                let config = [
                    ("CHECKPOINTING_ALGORITHM", algorithm),
                    ("CHECKPOINTING_SNAPS", "7"),
                    ("CACHE_CAPACITY", cache),
                    ("LINK_BANDWIDTH", link),
                ];
                let json = verify(&handing, "handed", &config);
                for key in ["image_hash", "illumination_hash"] {
                    assert_eq!(value(&json, key), value(&base, key), "{config:?}");
                }
            }
        }
        for config in [&[("DEVICE_BUDGET", "1M")][..], &[("ZERO_COPY", "1")]] {
            let json =
                verify(&[&handing[..], &["--gradient", "--tune"]].concat(), "handed", config);
            assert_eq!(value(&json, "image_hash"), value(&base, "image_hash"), "{config:?}");
        }
        for (compressor, bound) in [("dct", "1e-3"), ("lorenzo", "1e-4"), ("fp16", "0")] {
            let of = |args: &[&str]| {
                let mut command = rtm3d();
                command.args(args).args(["--json", "--out"]).arg(env!("CARGO_TARGET_TMPDIR"));
                command.env("GPUZIP_CHECKPOINTING_ALGORITHM", "revolve");
                command.env("GPUZIP_CHECKPOINTING_SNAPS", "5").env("GPUZIP_CACHE_CAPACITY", "3");
                command.env("GPUZIP_COMPRESSOR", compressor).env("GPUZIP_ERROR_BOUND", bound);
                value(&stdout(&run(&mut command)), "image_hash").to_string()
            };
            assert_eq!(of(&args), of(&handing), "{compressor}");
        }
    }
    let refused = rtm3d().arg("--zero-copy").env("GPUZIP_POLICY", "lru").output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && text.contains("zero_copy = 1"), "{text}");
}

/// The shot that `--tune` measures gives the same image as any other shot; later shots are planned
/// by the measured profile, which is kept in a file.
#[test]
fn tuned_migrations_have_the_same_image() {
    let args = [
        "--n1", "16", "--n2", "12", "--n3", "20", "--steps", "60", "--shots", "3", "--border", "6",
    ];
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rtm3d.profile");
    let _ = std::fs::remove_file(&file);
    let config =
        [("DEVICE_BUDGET", "1M"), ("HOST_BUDGET", "3M"), ("PROFILE_PATH", file.to_str().unwrap())];
    let plain = verify(&args, "tuned", &config);
    assert!(!file.exists());
    let tuned = verify(&[&args[..], &["--tune"]].concat(), "tuned", &config);
    assert_eq!(value(&tuned, "image_hash"), value(&plain, "image_hash"));
    let hex: String =
        std::fs::read(&file).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(value(&tuned, "profile"), hex);
    assert!(
        value(&tuned, "forward_ms").parse::<f64>().unwrap() > 0.0
            && value(&tuned, "d2h_gbs").parse::<f64>().unwrap() > 0.0
    );
    // A run that reads the file plans all its shots as the tuned run planned the shots after its
    // first.
    let read = verify(&args, "tuned", &config);
    for key in ["algorithm", "snapshots", "cache"] {
        assert_eq!(value(&read, key), value(&tuned, key), "{key}");
    }
    let text = stdout(&run(rtm3d()
        .args(args)
        .args(["--tune", "--out"])
        .arg(file.with_extension("out"))
        .envs([("GPUZIP_DEVICE_BUDGET", "1M")])));
    assert!(
        text.contains("a forward step")
            && text.contains("planned before")
            && text.contains("and by this"),
        "{text}"
    );
}

/// Steps of a small job in 2-D whose image uses every k-th state.
fn sparse(steps: &str, every: &str, more: &[&str], config: &[(&str, &str)]) -> String {
    let args = [
        "--n1", "24", "--n2", "40", "--n3", "1", "--shots", "2", "--border", "8", "--steps", steps,
        "--every", every,
    ];
    verify(&[&args[..], more].concat(), "every", config)
}

/// An image of every k-th state does not depend on how the states were kept. The data of the steps
/// after the last of these states are computed in the first BACKWARD: here 0 to 4 steps, and all.
#[test]
fn images_of_every_kth_state_do_not_depend_on_the_schedule() {
    for (steps, every) in
        [("89", "1"), ("89", "2"), ("89", "3"), ("89", "5"), ("90", "2"), ("90", "5"), ("90", "90")]
    {
        let mut hashes = BTreeSet::new();
        for (algorithm, more) in [
            ("revolve", &[][..]),
            ("revolve", &["--zero-copy"]),
            ("uniform", &[]),
            ("zcut", &["--zero-copy"]),
            ("two-level", &[]),
            ("hrevolve", &["--zero-copy"]),
            ("store-all", &[]),
            ("store-all", &["--zero-copy"]),
            ("auto", if every == "90" { &[] } else { &["--tune"] }), // 90: nothing to measure
        ] {
            let config = [
                ("CHECKPOINTING_ALGORITHM", algorithm),
                ("CHECKPOINTING_SNAPS", "4"),
                ("CACHE_CAPACITY", "2"),
                ("ADJOINT_EVERY", "4"), // --every counts
            ];
            let json = sparse(steps, every, more, &config);
            assert_eq!([value(&json, "steps"), value(&json, "every")], [steps, every]);
            let backward = value(&json, "backward_steps").parse::<u32>().unwrap();
            assert_eq!(backward, 2 * steps.parse::<u32>().unwrap(), "in two shots");
            hashes.insert((
                value(&json, "image_hash").to_string(),
                value(&json, "illumination_hash").to_string(),
            ));
        }
        assert_eq!(hashes.len(), 1, "{steps} steps, every {every}: {hashes:?}");
    }
}

/// With one state in each half period of the image's highest frequency, the image keeps its shape
/// and takes fewer forward steps; with fewer states it does not, and a warning says so.
#[test]
fn an_image_of_every_fourth_state_has_the_shape_of_one_of_every_state() {
    let image = |every: &str| {
        let dir = common::tempdir(&format!("every-{every}"));
        let output = run(rtm3d()
            .args(["--n1", "48", "--n2", "64", "--n3", "1", "--shots", "2", "--json"])
            .args(["--every", every, "--out"])
            .arg(&dir)
            .envs(FEW_SNAPSHOTS.map(|(key, value)| (format!("GPUZIP_{key}"), value))));
        let steps = value(&stdout(&output), "forward_steps").parse::<u64>().unwrap();
        let warned = String::from_utf8_lossy(&output.stderr).contains("is too few for waves");
        (floats(&dir.join("image_filtered.f32")), steps, warned)
    };
    let (all, most, _) = image("1");
    let product = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    for (every, is_enough) in [("4", true), ("40", false)] {
        let (sampled, steps, warned) = image(every);
        let energies = product(&all, &all) * product(&sampled, &sampled);
        let correlation = product(&all, &sampled) / energies.sqrt();
        println!("every {every}: correlation {correlation:.6}, {steps} of {most} forward steps");
        assert!(sampled != all && (correlation > 0.9999) == is_enough, "{every}: {correlation}");
        assert_eq!(warned, !is_enough, "{every}");
        assert!(steps < most, "{steps} forward steps in place of {most}");
    }
}

#[test]
fn a_recorded_schedule_gives_the_same_image() {
    let args =
        ["--n1", "16", "--n2", "20", "--n3", "1", "--steps", "50", "--shots", "1", "--border", "6"];
    let trace = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rtm.trace");
    let recorded = run(Command::new(library().join("gpuzip")).args([
        "schedule",
        "--algorithm",
        "zcut",
        "--steps",
        "50",
        "--print",
    ]));
    std::fs::write(&trace, recorded.stdout).unwrap();
    let config = [
        ("CHECKPOINTING_ALGORITHM", "trace"),
        ("TRACE_FILE_PATH", trace.to_str().unwrap()),
        ("CACHE_CAPACITY", "4"),
    ];
    let json = verify(&args, "trace", &config);
    assert_eq!(value(&json, "algorithm"), "trace");
    assert_eq!(value(&json, "image_hash"), value(&verify(&args, "trace", &[]), "image_hash"));
}

#[test]
fn the_performance_log_has_a_line_per_shot() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("performance.csv");
    let _ = std::fs::remove_file(&path);
    let args =
        ["--n1", "16", "--n2", "20", "--n3", "1", "--steps", "40", "--shots", "3", "--border", "6"];
    let config = [
        ("ENABLE_PERFORMANCE_LOG", "1"),
        ("PERFORMANCE_LOG", path.to_str().unwrap()),
        ("CHECKPOINTING_ALGORITHM", "revolve"),
    ];
    verify(&args, "performance", &config);
    let json = verify(&args, "performance", &config);
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 1 + 2 * 3, "one heading, two runs of three shots");
    assert!(lines.iter().all(|line| line.len() == lines[0].len()));
    let column = |name: &str| {
        lines[0].iter().position(|cell| *cell == name).unwrap_or_else(|| panic!("no {name}"))
    };
    assert_eq!(
        lines[1..].iter().map(|line| line[column("shot")]).collect::<Vec<_>>(),
        ["1", "2", "3", "1", "2", "3"]
    );
    let steps: u64 =
        lines[4..].iter().map(|line| line[column("forward_steps")].parse::<u64>().unwrap()).sum();
    assert_eq!(steps.to_string(), value(&json, "forward_steps"));
}

#[test]
fn a_mistyped_variable_is_named() {
    let small = [
        "--n1", "16", "--n2", "20", "--n3", "1", "--steps", "20", "--shots", "1", "--border", "6",
        "--out",
    ];
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rtm").join("variables");
    let output = run(rtm3d()
        .args(small)
        .arg(out)
        .env("GPUZIP_CHEKPOINTING_SNAPS", "4")
        .env("GPUZIP_LIB", "/a/build/file's"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("GPUZIP_CHEKPOINTING_SNAPS") && !text.contains("GPUZIP_LIB"), "{text}");
}

/// The FP32 values of a file.
fn floats(path: &std::path::Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn states_can_be_dumped() {
    let dir = common::tempdir("dumps");
    let job = ["--n1", "16", "--n2", "12", "--n3", "20", "--border", "6", "--shots", "2"];
    let dump = |steps: &str, list: &str| {
        stdout(&run(rtm3d()
            .args(job)
            .args(["--steps", steps, "--dump-snapshots", list, "--json", "--out"])
            .arg(&dir)))
    };
    let file = |step: &str, level: &str| {
        floats(&dir.join(format!("snapshot_36x32x40_step{step}_{level}.f32")))
    };
    // The list is unsorted, and has the last step of the job twice: each file is written once.
    let json = dump("60", "60,0,59,60");
    assert_eq!(json.lines().count(), 1, "{json}");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 6);
    assert_eq!(
        [value(&json, "n1"), value(&json, "n2"), value(&json, "n3")],
        ["36", "32", "40"],
        "with sponge and halo"
    );
    assert!(file("0000", "curr").iter().chain(&file("0000", "prev")).all(|&v| v == 0.0));
    let curr = file("0060", "curr");
    assert_eq!(curr.len(), 36 * 32 * 40);
    assert_eq!(
        file("0060", "prev"),
        file("0059", "curr"),
        "the previous level is the state one step earlier"
    );
    assert_ne!(file("0059", "curr"), curr);
    let halo = |i: usize| {
        [(i % 36, 36), (i / 36 % 32, 32), (i / (36 * 32), 40)]
            .iter()
            .any(|&(x, n)| x < 4 || x >= n - 4)
    };
    assert!(curr.iter().enumerate().all(|(i, &v)| if halo(i) { v == 0.0 } else { v.is_finite() }));
    let largest = curr.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    let filled = curr.iter().filter(|v| f64::from(v.abs()) > 1e-3 * f64::from(largest)).count()
        as f64
        / curr.len() as f64;
    let of_60 = json.split("{\"step\": 60").nth(1).unwrap();
    assert!(
        (value(of_60, "max").parse::<f64>().unwrap() / f64::from(largest) - 1.0).abs() < 1e-6,
        "{json}"
    );
    assert!((value(of_60, "filled").parse::<f64>().unwrap() - filled).abs() < 1e-6, "{json}");
    // A longer job passes through the same states.
    dump("90", "60");
    assert_eq!(file("0060", "curr"), curr);
}

#[test]
fn the_figures_of_images_have_their_closed_forms() {
    print!("{}", stdout(&run(&mut Command::new(build("rtm_quality")))));
}

#[test]
fn the_physics_passes_its_gates() {
    for program in ["rtm_physics_f32", "rtm_physics_f64"] {
        print!("{}", stdout(&run(Command::new(build(program)).env("OMP_WAIT_POLICY", "passive"))));
    }
}

#[test]
fn bad_jobs_are_told_what_is_wrong() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rtm");
    let model = build("rtm3d").with_file_name("short.f32");
    std::fs::write(&model, [0u8; 100]).unwrap();
    let model = model.to_str().unwrap();
    let level = dir.join("level.f32");
    std::fs::write(&level, 2000f32.to_le_bytes().repeat(64)).unwrap();
    let level = level.to_str().unwrap();
    let config = dir.join("bad.cfg");
    std::fs::write(&config, "cache_capacty = 3\n").unwrap();
    for (args, part) in [
        (&["--model", model, "--n1", "10", "--n2", "10"][..], "short.f32"),
        (&["--model", "/no/such/model", "--n1", "10", "--n2", "10"], "/no/such/model"),
        (&["--dt", "1"], "dt"),
        (&["--steps", "many"], "--steps many"),
        (&["--stepz", "3"], "--stepz"),
        (&["--dump-snapshots", "10,x"], "--dump-snapshots 10,x: not a list"),
        (&["--dump-snapshots", "10,"], "not a list"),
        (&["--steps", "20", "--dump-snapshots", "10,21"], "21 is not one of the steps 0 to 20"),
        (&["--dump-snapshots", "99999999999999999999999"], "is not one of the steps"),
        (&["--dump-snapshots", "10", "--verify"], "--verify"),
        (&["--sweep", "--codecs", "none,ddct:1e-3"], "ddct:1e-3: no such codec"),
        (&["--sweep", "--codecs", "none,"], "'' is no codec setting"),
        (&["--sweep", "--codecs", "dct:-1"], "dct:-1: wants a bound above 0"),
        (&["--sweep", "--codecs", "dct:rms:1"], "dct:rms:1: wants a bound above 0"),
        (&["--sweep", "--codecs", "zfp:1e-3"], "zfp:1e-3: wants bits per value"),
        (&["--sweep", "--codecs", "fp16:1e-3"], "fp16:1e-3: fp16 takes no parameter"),
        (&["--sweep", "--verify"], "leave one out"),
        (&["--codecs", "dct"], "--sweep"),
        (&["--taylor"], "add --gradient"),
        (&["--gradient", "--sweep"], "--gradient --sweep"),
        (&["--gradient", "--dump-snapshots", "10"], "--gradient --dump-snapshots"),
        (&["--every", "0"], "--every 0: out of range"),
        (&["--every", "3", "--gradient"], "--every 3 --gradient: the gradient of this misfit"),
        (&["--every", "3", "--dump-snapshots", "10"], "--every 3 --dump-snapshots 10"),
        (
            &[
                "--gradient",
                "--taylor",
                "--init",
                level,
                "--model",
                level,
                "--n1",
                "8",
                "--n2",
                "8",
            ],
            "--init",
        ),
        (&["--config", config.to_str().unwrap()], "cache_capacty"),
        (&["--config", "/no/such/config"], "/no/such/config"),
    ] {
        let output = rtm3d().args(args).arg("--out").arg(&dir).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
        assert!(text.contains(part), "{args:?}: {text}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_real_model_is_migrated_bit_for_bit() {
    let Some(data) = common::data() else { return };
    let model = data.join("overthrust2d_201x81_25m_vp.f32");
    let args = [
        "--model",
        model.to_str().unwrap(),
        "--n1",
        "81",
        "--n2",
        "201",
        "--dx",
        "25",
        "--dt",
        "0.002",
        "--freq",
        "8",
    ];
    let short = [&args[..], &["--steps", "300", "--shots", "1"]].concat();
    verify(
        &short,
        "overthrust",
        &[
            ("CHECKPOINTING_ALGORITHM", "revolve"),
            ("CHECKPOINTING_SNAPS", "12"),
            ("CACHE_CAPACITY", "4"),
        ],
    );
    if long() {
        matrix(&[&args[..], &["--steps", "1000", "--shots", "3"]].concat(), "overthrust", "70");
    } else {
        println!("skipped: the whole matrix on a real model (make test-long)");
    }
}
