//! Inverse heat conduction (c-examples/heat3d): the gradient is the derivative of the misfit, and has the bits
//! that it has with every state kept, whatever the checkpoints are and wherever they lie; the misfit falls.

use crate::common::{library_of_tests, needs, root, run, scratch, stdout, tempdir};
use gpuzip::schedule::Schedule;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const SMALL: &str = "--n1 12 --n2 10 --n3 8 --steps 96";

/// The program with these options, separated by blanks, in a folder, with no settings of the environment
/// but these.
fn heat3d(folder: &Path, options: &str, config: &[(&str, &str)]) -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let build = scratch("heat3d");
        run(Command::new("make")
            .args(["-s", "-C"])
            .arg(root().join("c-examples/heat3d"))
            .arg(format!("BUILD={}", build.display()))
            .arg(format!("GPUZIP_LIB={}", library_of_tests().display()))
            .args(["CXXFLAGS=-O2 -march=native -Werror", "CFLAGS=-O2 -Werror"]));
        build.join("heat3d")
    });
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GPUZIP_")) {
        command.env_remove(name);
    }
    command.current_dir(folder).args(options.split_whitespace());
    command.env("OMP_WAIT_POLICY", "passive").env("OMP_NUM_THREADS", "1");
    command.envs(config.iter().copied());
    command
}

/// The bytes of the gradient, the line of the misfit, and what gpuzip counted.
fn gradient(folder: &Path, options: &str, config: &[(&str, &str)]) -> (Vec<u8>, String, String) {
    let file = folder.join("heat3d-out/gradient.f64");
    let _ = std::fs::remove_file(&file);
    let options = format!("{SMALL} --iterations 0 {options}");
    let printed = stdout(&run(&mut heat3d(folder, &options, config)));
    let line = |name: &str| {
        printed.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_string()
    };
    (std::fs::read(file).unwrap(), line("misfit "), line("gpuzip "))
}

/// The number after a text.
fn number(printed: &str, name: &str) -> f64 {
    let rest = printed.split(name).nth(1).unwrap_or_else(|| panic!("no {name} in {printed}"));
    let word = rest.split_whitespace().next().unwrap();
    word.trim_end_matches(',').parse().unwrap_or_else(|_| panic!("{name}: {word}"))
}

#[test]
fn gradients_have_the_bits_of_keeping_every_state() {
    needs!("c++", "make");
    let folder = tempdir("heat3d-bits");
    let (kept, misfit, counts) = gradient(&folder, "--store-all", &[]);
    assert!(kept.len() == 12 * 10 * 8 * 8 && counts.is_empty(), "{} {counts}", kept.len());
    assert!(kept.chunks(8).all(|value| value.iter().any(|&byte| byte != 0)), "a cell has no value");
    std::fs::write(folder.join("six.cfg"), "checkpointing_snaps = 6\n").unwrap();
    let six = ("GPUZIP_CHECKPOINTING_SNAPS", "6");
    let algorithm = |name| ("GPUZIP_CHECKPOINTING_ALGORITHM", name);
    let tight = ("GPUZIP_HOST_BUDGET", "60K");
    let disk = [("GPUZIP_DISK_BUDGET", "300K"), ("GPUZIP_DISK_PATH", folder.to_str().unwrap())];
    let revolve = Schedule::revolve(96, 6).unwrap().forward_steps() as f64;
    for (options, config, steps) in [
        ("", vec![algorithm("revolve"), six], Some(revolve)),
        ("--config six.cfg", vec![algorithm("revolve")], Some(revolve)),
        ("", vec![algorithm("uniform"), six], None),
        ("", vec![algorithm("zcut"), six], None),
        ("", vec![tight], None),
        ("", vec![tight, disk[0], disk[1]], None),
        ("", vec![algorithm("revolve"), tight, disk[0], disk[1]], None),
        ("", vec![algorithm("revolve"), six, ("GPUZIP_COMPRESSOR", "lossless")], Some(revolve)),
    ] {
        for threads in ["1", "2"] {
            let config = [&config[..], &[("OMP_NUM_THREADS", threads)]].concat();
            let (bits, told, counts) = gradient(&folder, options, &config);
            assert!(bits == kept && told == misfit, "{options} {config:?}: {told} {counts}");
            let recomputes = number(&counts, "forward steps ");
            assert!(recomputes > 95.0 && steps.is_none_or(|steps| steps == recomputes), "{counts}");
            let read = number(&counts, "read from disk ");
            assert_eq!(read > 0.0, config.contains(&disk[0]), "{config:?}: {counts}");
        }
    }
}

#[test]
fn the_gradient_is_the_derivative_of_the_misfit() {
    needs!("c++", "make");
    let folder = tempdir("heat3d-taylor");
    let options = format!("{SMALL} --iterations 0 --taylor");
    let revolve =
        [("GPUZIP_CHECKPOINTING_ALGORITHM", "revolve"), ("GPUZIP_CHECKPOINTING_SNAPS", "6")];
    let printed = stdout(&run(&mut heat3d(&folder, &options, &revolve)));
    assert!(number(&printed, "mismatch ") < 1e-12, "{printed}");
    let orders = printed.split("orders of remainder 2 are ").nth(1).unwrap();
    let (least, rest) = orders.split_once(" to ").unwrap();
    let most = rest.split(';').next().unwrap();
    for order in [least, most] {
        let order: f64 = order.parse().unwrap();
        assert!((order - 2.0).abs() < 0.1, "{printed}");
    }
}

/// The state is complete, and its steps are deterministic.
#[test]
fn states_computed_again_are_the_same() {
    needs!("c++", "make");
    let folder = tempdir("heat3d-check");
    let (kept, misfit, _) = gradient(&folder, "--store-all", &[]);
    for times in ["1", "3"] {
        let config = [("GPUZIP_CHECK", times), ("OMP_NUM_THREADS", "2")];
        let (bits, told, counts) = gradient(&folder, "", &config);
        assert!(bits == kept && told == misfit, "{told} {counts}");
        assert!(number(&counts, "forward steps ") > 95.0, "{counts}");
    }
}

/// The default run finds where the conductivity is high and where it is low, and draws that.
#[test]
fn the_misfit_falls() {
    needs!("c++", "make");
    let folder = tempdir("heat3d-descent");
    let printed = stdout(&run(&mut heat3d(&folder, "", &[("GPUZIP_HOST_BUDGET", "4M")])));
    let misfits: Vec<f64> = printed
        .lines()
        .filter(|line| line.starts_with("misfit ") || line.starts_with("iteration "))
        .map(|line| number(line, "misfit "))
        .collect();
    assert!(misfits.len() == 21 && misfits.is_sorted_by(|a, b| a > b), "{printed}");
    let factor = number(&printed, "fell by a factor of ");
    assert!(
        factor > 100.0 && (factor / (misfits[0] / misfits[20]) - 1.0).abs() < 1e-3,
        "{printed}"
    );
    for picture in ["gradient.png", "truth.png", "model.png"] {
        let bytes = std::fs::read(folder.join("heat3d-out").join(picture)).unwrap();
        assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.len() > 2000, "{picture}");
    }
}

#[test]
fn bad_options_are_errors_in_words() {
    needs!("c++", "make");
    let folder = tempdir("heat3d-options");
    for (options, code, words) in [
        ("--n1 3", 2, "--n1 3: it wants a whole number from 4 to 1000000"),
        ("--steps 9x", 2, "--steps 9x: it wants a whole number"),
        ("--n2", 2, "--n2: needs a value"),
        ("--snaps 3", 2, "--snaps: no such option"),
        ("--config none.cfg", 1, "none.cfg"),
        ("--iterations 0 --out /dev/null/folder", 1, "/dev/null/folder"),
    ] {
        let Output { status, stderr, .. } = heat3d(&folder, options, &[]).output().unwrap();
        let told = String::from_utf8(stderr).unwrap();
        assert!(told.starts_with("heat3d: ") && told.contains(words), "{options}: {told}");
        assert_eq!(status.code(), Some(code), "{options}: {told}");
    }
}
