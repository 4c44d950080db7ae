//! The trajectory type "gpuzip" of PETSc (c-examples/petsc): gradients of TSAdjointSolve have the
//! bits that they have with PETSc's own trajectory that keeps every step, and the steps that are
//! computed again are those of the schedule. Skipped where pkg-config finds no PETSc.

use crate::common;
use common::{library, root, run, stdout, tempdir};
use gpuzip::schedule::Schedule;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Builds library and example into a folder of the test; `None` without PETSc.
fn built(name: &str) -> Option<PathBuf> {
    let found = Command::new("pkg-config").args(["--exists", "PETSc"]).status();
    if !found.is_ok_and(|status| status.success()) {
        println!("skipped: pkg-config finds no PETSc (Debian: petsc-dev)");
        return None;
    }
    let dir = tempdir(name);
    run(Command::new("make")
        .args(["-s", "-C"])
        .arg(root().join("c-examples/petsc"))
        .arg(format!("BUILD={}", dir.display()))
        .arg(format!("GPUZIP_LIB={}", library().display()))
        .arg("CFLAGS=-O2 -Wall -Wextra -Werror"));
    Some(dir)
}

/// The example with these options, separated by blanks, on a number of ranks.
fn burgers(dir: &Path, ranks: u32, options: &str) -> Command {
    on_ranks(dir, &dir.join("burgers"), ranks, options)
}

/// A program with these options, separated by blanks, on a number of ranks.
fn on_ranks(dir: &Path, program: &Path, ranks: u32, options: &str) -> Command {
    let mut command = Command::new("mpirun");
    command
        .current_dir(dir)
        .args(["--oversubscribe", "-n", &ranks.to_string()])
        .arg(program)
        .args(options.split_whitespace())
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

/// The bytes of the gradient, and the number of time steps that were computed.
fn gradient(dir: &Path, ranks: u32, options: &str) -> (Vec<u8>, u64) {
    let file = dir.join("gradient");
    let _ = std::fs::remove_file(&file);
    let printed = stdout(&run(&mut burgers(dir, ranks, &format!("{options} -gradient gradient"))));
    let steps = printed.trim_end().rsplit(' ').next().unwrap().parse().unwrap();
    (std::fs::read(file).unwrap(), steps)
}

const METHODS: [&str; 7] = [
    "-ts_type rk -ts_rk_type 4 -ts_adapt_type none",
    "-ts_type rk -ts_rk_type 3bs -ts_rtol 1e-7 -ts_atol 1e-7",
    "-ts_type rk -ts_rk_type 5f -ts_rtol 1e-7 -ts_atol 1e-7",
    "-ts_type cn",
    "-ts_type theta -ts_theta_theta 0.5",
    "-ts_type beuler",
    "-ts_type cn -ts_adapt_type basic",
];

#[test]
fn gradients_have_equal_bits() {
    let Some(dir) = built("petsc-bits") else { return };
    for ranks in [1, 2] {
        for method in METHODS {
            let method = format!("{method} -ts_max_time 0.2");
            let (expected, n) =
                gradient(&dir, ranks, &format!("{method} -ts_trajectory_type memory"));
            for (stages, only) in [(true, 0), (false, 1)] {
                let base = format!(
                    "{method} -ts_trajectory_type gpuzip -ts_trajectory_gpuzip_snapshots 5 -ts_trajectory_solution_only {only}"
                );
                let (bits, _) = gradient(
                    &dir,
                    ranks,
                    &format!("{base} -ts_trajectory_gpuzip_steps 0 -sweeps 2"),
                );
                assert!(bits == expected, "online, {ranks} ranks: {base}");
                let known = format!(
                    "{base} -ts_trajectory_gpuzip_algorithm revolve -ts_trajectory_gpuzip_steps {n}"
                );
                let (bits, computed) = gradient(&dir, ranks, &known);
                assert!(bits == expected, "{ranks} ranks: {known}");
                let revolve = Schedule::revolve(u32::try_from(n).unwrap(), 5).unwrap();
                let forward = revolve.forward_steps();
                let again = if stages { forward - (n - 1) } else { forward };
                assert_eq!(computed, n + again, "{known}");
            }
        }
    }
}

/// PETSc's own examples of adjoints, unchanged: the name below PETSc's folder of examples of TS, other
/// sources, ranks, options. `ex20opt_ic` is an optimisation, with a gradient in each iteration.
const EXAMPLES: [(&str, &[&str], u32, &str); 5] = [
    ("ex20adj", &[], 1, "-ts_type cn -ts_dt 0.001 -mu 100000 -ts_max_steps 15"),
    ("ex20adj", &[], 1, "-ts_type theta -ts_theta_endpoint -ts_theta_theta 0.5 -monitor 0 -ts_dt 0.001 -mu 100000"),
    ("ex23fwdadj", &[], 1, "-ts_type cn"),
    ("ex20opt_ic", &[], 1, "-ts_type cn -tao_monitor -mu 1000 -ts_dt 0.03125"),
    (
        "advection-diffusion-reaction/ex5adj",
        &["advection-diffusion-reaction/reaction_diffusion"],
        2,
        "-implicitform 0 -ts_type rk -ts_rk_type 4 -ts_max_steps 10 -da_grid_x 20 -da_grid_y 20 -ts_adjoint_monitor_sensi",
    ),
];

#[test]
fn petscs_examples_print_the_same_sensitivities() {
    let Some(dir) = built("petsc-examples") else { return };
    let pkg_config = |option: &str| {
        let text = stdout(&run(Command::new("pkg-config").args([option, "PETSc"])));
        text.split_whitespace().map(String::from).collect::<Vec<_>>()
    };
    let folder = Path::new(&pkg_config("--variable=prefix")[0])
        .join("share/petsc/examples/src/ts/tutorials");
    if !folder.is_dir() {
        println!("skipped: no {} (Debian: libpetsc3.18-dev-examples)", folder.display());
        return;
    }
    for (name, others, ranks, options) in EXAMPLES {
        let program = dir.join(name.rsplit('/').next().unwrap());
        let sources = [&[name], others].concat();
        run(Command::new("mpicc")
            .args(sources.iter().map(|source| folder.join(format!("{source}.c"))))
            .args([&pkg_config("--cflags")[..], &pkg_config("--libs")].concat())
            .args(["-lm", "-o"])
            .arg(&program));
        let print = |trajectory: &str| {
            let text = stdout(&run(&mut on_ranks(
                &dir,
                &program,
                ranks,
                &format!("{options} {trajectory}"),
            )));
            // The names of some vectors are addresses.
            text.lines()
                .filter(|line| !line.starts_with("Vec Object: Vec_0x"))
                .collect::<Vec<_>>()
                .join("\n")
        };
        let expected = print("-ts_trajectory_type memory -ts_trajectory_solution_only 0");
        assert!(expected.lines().count() > 5, "{name} prints no sensitivities: {expected}");
        let library = dir.join("libgpuzip_petsc.so");
        for more in ["", "-ts_trajectory_gpuzip_snapshots 3 -ts_trajectory_solution_only 1"] {
            let gpuzip =
                format!("-dll_append {} -ts_trajectory_type gpuzip {more}", library.display());
            assert_eq!(print(&gpuzip), expected, "{name} {options} {gpuzip}");
        }
    }
}

#[test]
fn wrong_options_are_errors_with_the_librarys_text() {
    let Some(dir) = built("petsc-errors") else { return };
    let gpuzip = "-ts_type cn -ts_trajectory_type gpuzip -ts_trajectory_gpuzip_";
    for (options, expected) in [
        ("algorithm revolv", "revolve"),
        ("config missing.cfg", "missing.cfg"),
        ("steps 7", "7 steps were expected: set -ts_trajectory_gpuzip_steps"),
        ("steps 700", "TSSolve ends at step 250, and 700 steps were expected"),
    ] {
        let Output { status, stderr, .. } =
            burgers(&dir, 1, &format!("{gpuzip}{options}")).output().unwrap();
        let text = String::from_utf8_lossy(&stderr).into_owned();
        assert!(!status.success() && text.contains(expected), "{options}: {text}");
    }
}

#[test]
fn nothing_leaks() {
    let Some(dir) = built("petsc-leaks") else { return };
    let options = "-ts_type cn -ts_max_time 0.1 -sweeps 2 -ts_trajectory_type gpuzip \
        -ts_trajectory_gpuzip_snapshots 3 -malloc_debug -malloc_dump";
    let Output { status, stdout, stderr } = burgers(&dir, 1, options).output().unwrap();
    let text = [stdout, stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(status.success() && !text.contains("gpuzip_petsc.c"), "{text}");
}
