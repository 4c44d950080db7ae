//! States of many fields of unequal size: the gradient of c-examples/cpml3d must not depend on how
//! the states were kept.

use crate::common;
use common::{library, root, run, stdout};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const TWO_D: [&str; 12] =
    ["--n1", "20", "--n2", "32", "--n3", "1", "--steps", "120", "--shots", "2", "--border", "8"];
const THREE_D: [&str; 12] =
    ["--n1", "14", "--n2", "10", "--n3", "16", "--steps", "80", "--shots", "1", "--border", "5"];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cpml")
}

/// Builds a target of c-examples/cpml3d in FP32 and returns the path of the program.
fn build(target: &str) -> PathBuf {
    build_with(&folder(), target, &[])
}

/// Builds a target with further variables of the Makefile, in a folder of their own.
fn build_with(folder: &Path, target: &str, more: &[&str]) -> PathBuf {
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one_at_a_time = LOCK.lock();
    let variables =
        [format!("BUILD={}", folder.display()), format!("GPUZIP_LIB={}", library().display())];
    let flags = "CFLAGS=-O2 -march=native -Werror";
    let program = folder.join(target);
    run(Command::new("make")
        .args(["-s", "-j2", "-C"])
        .arg(root().join("c-examples/cpml3d"))
        .args(variables)
        .args(more)
        .arg(flags)
        .arg(&program));
    program
}

fn cpml3d() -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    alone(PROGRAM.get_or_init(|| build("cpml3d")))
}

fn cpml3d_in_fp64() -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    alone(PROGRAM.get_or_init(|| build_with(&folder().join("fp64"), "cpml3d", &["REAL=double"])))
}

/// Returns a command without the settings of the environment.
fn alone(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GPUZIP_")) {
        command.env_remove(name);
    }
    command.env("OMP_WAIT_POLICY", "passive");
    command
}

/// Runs cpml3d with `--json` and with the environment variables GPUZIP_<key> of `config`. With
/// `verify` the program also compares its gradient with that of a run that keeps every state.
fn gradient(
    args: &[&str],
    out: &str,
    verify: bool,
    config: &[(&str, &str)],
) -> std::process::Output {
    run_with(cpml3d(), &[args, if verify { &["--verify"] } else { &[] }].concat(), out, config)
}

fn run_with(
    mut command: Command,
    args: &[&str],
    out: &str,
    config: &[(&str, &str)],
) -> std::process::Output {
    command.args(args).args(["--json", "--out"]).arg(folder().join(out));
    command.envs(config.iter().map(|(key, value)| (format!("GPUZIP_{key}"), value)));
    command.output().unwrap()
}

/// Returns the value of a key, as text.
fn value<'a>(json: &'a str, key: &str) -> &'a str {
    let start = json.find(&format!("\"{key}\": ")).unwrap_or_else(|| panic!("no {key} in {json}"))
        + key.len()
        + 4;
    json[start..].split([',', '}']).next().unwrap().trim_matches('"')
}

fn number(json: &str, key: &str) -> f64 {
    value(json, key).parse().unwrap_or_else(|_| panic!("{key}: {json}"))
}

fn floats(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn gradients_do_not_depend_on_schedule_or_cache() {
    for (args, out, fields) in [(&TWO_D, "small-2d", "6"), (&THREE_D, "small-3d", "8")] {
        let mut hashes = BTreeSet::new();
        for algorithm in ["revolve", "uniform", "zcut", "two-level", "hrevolve", "store-all"] {
            for (snapshots, cache) in [("6", "0"), ("6", "1"), ("7", "3"), ("12", "8")] {
                let config = [
                    ("CHECKPOINTING_ALGORITHM", algorithm),
                    ("CHECKPOINTING_SNAPS", snapshots),
                    ("CACHE_CAPACITY", cache),
                ];
                let output = gradient(args, out, true, &config);
                let json = stdout(&output);
                assert!(
                    output.status.success(),
                    "{config:?}: {json}{}",
                    String::from_utf8_lossy(&output.stderr)
                );
                assert_eq!(
                    [value(&json, "identical"), value(&json, "snapshot_error")],
                    ["true", "0"],
                    "{config:?}"
                );
                assert_eq!(
                    [value(&json, "algorithm"), value(&json, "fields")],
                    [algorithm, fields]
                );
                assert_eq!(
                    number(&json, "raw_bytes"),
                    number(&json, "saves") * number(&json, "state_bytes"),
                    "{json}"
                );
                hashes.insert(value(&json, "gradient_hash").to_string());
            }
        }
        assert_eq!(hashes.len(), 1, "one gradient whatever the schedule and the cache: {hashes:?}");
        let written = floats(&folder().join(out).join("gradient.f32"));
        assert!(written.iter().all(|v| v.is_finite()) && written.iter().any(|v| *v != 0.0));
        assert!(std::fs::read(folder().join(out).join("gradient.png"))
            .unwrap()
            .starts_with(b"\x89PNG"));
    }
}

/// With a lossy codec every field stays within the error bound, relative to its own maximum; a
/// previous time level is coded as a difference. The gradient changes by less than 3 % in the L2
/// norm.
#[test]
fn compressed_states_are_within_their_bound() {
    let few = [
        ("CHECKPOINTING_ALGORITHM", "revolve"),
        ("CHECKPOINTING_SNAPS", "6"),
        ("CACHE_CAPACITY", "2"),
    ];
    for (args, out) in [(&TWO_D, "lossy-2d"), (&THREE_D, "lossy-3d")] {
        assert!(gradient(args, out, false, &few).status.success());
        let raw = floats(&folder().join(out).join("gradient.f32"));
        for codec in ["dct", "lorenzo"] {
            let output = gradient(args, out, true, &[&few[..], &[("COMPRESSOR", codec)]].concat());
            let json = stdout(&output);
            assert_eq!(
                [value(&json, "identical"), &output.status.code().unwrap().to_string()],
                ["false", "1"],
                "{json}"
            );
            let error = number(&json, "snapshot_error");
            assert!(error > 1e-4 && error < 1.001e-3, "{codec}: {json}");
            assert!(
                number(&json, "stored_bytes") < 0.3 * number(&json, "raw_bytes"),
                "{codec}: {json}"
            );
            let lossy = floats(&folder().join(out).join("gradient.f32"));
            let norm = |values: &mut dyn Iterator<Item = f32>| {
                values.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt()
            };
            let relative = norm(&mut raw.iter().zip(&lossy).map(|(a, b)| a - b))
                / norm(&mut raw.iter().copied());
            println!("{out}, {codec}: relative L2 {relative:.2e}");
            assert!(relative > 0.0 && relative < 0.03, "{out}, {codec}: {relative}");
        }
    }
}

/// The gradient and three Gauss-Newton products by four reverse sweeps over one forward run: their bits
/// are those of one run for each, and do not depend on how the states were kept. The products are
/// symmetric and those of the data's derivative. A lossy codec fails each comparison.
#[test]
fn gauss_newton_products_take_one_forward_run() {
    let disk = folder().join("disk").display().to_string();
    std::fs::create_dir_all(&disk).unwrap();
    for (args, out) in [(&TWO_D, "hessian-2d"), (&THREE_D, "hessian-3d")] {
        let job = |more: &[&str], config: &[(&str, &str)]| {
            let output = run_with(cpml3d_in_fp64(), &[&args[..], more].concat(), out, config);
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            (output.status.code(), stdout(&output), told)
        };
        let (_, plain, _) = job(&[], &[("CHECKPOINTING_ALGORITHM", "store-all")]);
        let state: f64 = number(&plain, "state_bytes");
        let once = number(&plain, "shots") * (number(&plain, "steps") - 1.0);
        let budgets = [4.5, 60.0].map(|states| format!("{:.0}", states * state));
        let revolve = |snapshots| {
            [("CHECKPOINTING_ALGORITHM", "revolve"), ("CHECKPOINTING_SNAPS", snapshots)]
        };
        let with = |codec| [&revolve("12")[..], &[("COMPRESSOR", codec)]].concat();
        let disk =
            [("HOST_BUDGET", &*budgets[0]), ("DISK_BUDGET", &*budgets[1]), ("DISK_PATH", &*disk)];
        let mut products = BTreeSet::new();
        for (config, store_all) in [
            (&revolve("5")[..], false),
            (&revolve("12"), false),
            (&[("CHECKPOINTING_ALGORITHM", "store-all")], true),
            (&disk, false),
            (&[&revolve("30")[..], &disk].concat(), false),
            (&with("lossless"), false),
        ] {
            let (code, json, told) = job(&["--hessian", "3"], config);
            assert_eq!(code, Some(0), "{config:?}: {json}{told}");
            for key in ["asymmetry", "product_error"] {
                assert!(number(&json, key) <= 1e-10, "{key}, {config:?}: {json}");
            }
            let [least, largest] = ["least_order", "largest_order"].map(|key| number(&json, key));
            assert!(least > 1.9 && largest < 2.1, "{json}");
            assert_eq!(value(&json, "same_bits"), "true");
            assert_eq!(value(&json, "gradient_hash"), value(&plain, "gradient_hash"), "{config:?}");
            products.insert(value(&json, "products_hash").to_string());
            let steps = ["forward_steps", "forward_steps_alone"].map(|key| number(&json, key));
            println!("{out}, {config:?}: {steps:?} forward steps");
            // `auto` may choose other plans, with other steps, for one sweep and for four.
            let named = config[0].0 == "CHECKPOINTING_ALGORITHM";
            assert!(steps[0] >= once && (!named || steps[0] < steps[1]), "{config:?}: {json}");
            assert!(!store_all || steps == [once, 4.0 * once], "{json}");
            let on_disk = config.len() == 5;
            assert!(!on_disk || number(&json, "disk_bytes") > 20.0 * state, "{json}");
        }
        assert_eq!(products.len(), 1, "{products:?}");
        let (code, lossy, _) = job(&["--hessian", "3"], &with("dct"));
        assert_eq!((code, value(&lossy, "same_bits")), (Some(1), "false"), "{lossy}");
        for key in ["asymmetry", "product_error"] {
            assert!(number(&lossy, key) > 1e-7, "{key}: {lossy}");
        }
    }
}

#[test]
fn bad_jobs_are_told_what_is_wrong() {
    // The time step 0.00308 lies between the largest stable time steps of the two propagators:
    // rtm3d's is stable with it, cpml3d's is not.
    for (args, part) in [
        (&["--n3", "1", "--dt", "0.00308"][..], "--dt 0.00308: unstable"),
        (&["--sweep"], "--sweep"),
        (&["--taylor"], "--taylor"),
        (&["--hessian", "17"], "--hessian 17: it wants a whole number from 1 to 16"),
        (&["--hessian"], "--hessian --json: it wants"),
        (&["--config", "/no/such/config"], "/no/such/config"),
        (&["--stepz", "3"], "--stepz"),
    ] {
        let output = gradient(
            &[&["--n1", "10", "--n2", "10", "--steps", "9"], args].concat(),
            "bad",
            false,
            &[],
        );
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
        assert!(text.contains(part) && output.stdout.is_empty(), "{args:?}: {text}");
    }
}

/// The help names what cpml3d does and takes, not what rtm3d does. If the codec is lossy, the
/// output says so and names the codec.
#[test]
fn the_program_speaks_of_itself() {
    let help = stdout(&run(cpml3d().arg("--help")));
    assert!(
        help.starts_with("cpml3d: misfit and gradient of waveform inversion")
            && help.contains("--verify")
            && help.contains("  --hessian "),
        "{help}"
    );
    for foreign in
        ["--sweep", "--codecs", "--taylor", "--tune", "--zero-copy", "--bench", "--dump-snapshots"]
    {
        assert!(!help.contains(&format!("  {foreign} ")), "{foreign}: {help}");
        let output = cpml3d()
            .args(
                [foreign, "1"]
                    .iter()
                    .take(if ["--codecs", "--dump-snapshots"].contains(&foreign) { 2 } else { 1 }),
            )
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && text.contains(foreign) && text.contains("rtm3d's"),
            "{text}"
        );
    }
    let mut command = cpml3d();
    command
        .args([
            "--n1", "12", "--n2", "20", "--n3", "1", "--shots", "1", "--steps", "80", "--verify",
            "--out",
        ])
        .arg(folder().join("named"));
    command
        .env("GPUZIP_COMPRESSOR", "dct")
        .env("GPUZIP_ERROR_BOUND", "1e-3")
        .env("GPUZIP_CHECKPOINTING_ALGORITHM", "revolve");
    let output = command.output().unwrap();
    let (text, told) = (stdout(&output), String::from_utf8_lossy(&output.stderr));
    assert!(
        text.contains(
            "codec             dct, each value of a snapshot within 0.001 of its field's maximum"
        ),
        "{text}"
    );
    assert!(
        text.contains("as the codec dct is lossy: PSNR ") && !text.contains("DIFFERENT"),
        "{text}"
    );
    assert!(
        told.contains("cpml3d: a state has 6 fields, ") && told.contains(" time steps of "),
        "{told}"
    );
}

#[test]
fn the_physics_passes_its_gates() {
    for program in ["cpml_physics_f32", "cpml_physics_f64"] {
        print!("{}", stdout(&run(Command::new(build(program)).env("OMP_WAIT_POLICY", "passive"))));
    }
}
