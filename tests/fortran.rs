//! Fortran programs drive the C ABI: `fortran/smoke.f90`, strict Fortran 2008, for the algorithms and cache sizes.

mod common;

use common::{have, library, root, run, stdout, tempdir};
use std::process::Command;

#[test]
fn states_are_identical_from_fortran() {
    if !have("gfortran") {
        return;
    }
    let dir = tempdir("fortran");
    let (program, lib) = (dir.join("smoke"), library().display().to_string());
    run(Command::new("gfortran")
        .args(["-std=f2008", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fcheck=all", "-J"])
        .args([&dir, &root().join("fortran/smoke.f90")])
        .arg("-o")
        .arg(&program)
        .args([&format!("-L{lib}"), "-lgpuzip", &format!("-Wl,-rpath,{lib}")]));
    for algorithm in 1..=6 {
        for cache in [0, 1, 2, 5] {
            for steps in [1, 2, 60] {
                let arguments = [steps, algorithm, 8, cache].map(|n| n.to_string());
                let output = run(Command::new(&program).args(&arguments));
                assert_eq!(stdout(&output), "identical\n", "steps, algorithm, snapshots, cache: {arguments:?}");
            }
        }
    }
    // An error is a status with a text, which the program prints.
    let output = Command::new(&program).args(["60", "77", "8", "0"]).output().unwrap();
    assert!(!output.status.success() && stdout(&output).contains("checkpointing_algorithm = 77"), "{output:?}");
}
