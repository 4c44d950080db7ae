//! The examples of docs/tutorial.md compute true gradients: in FP64 they equal the differences of the
//! misfit. tests/foreign/blocks.rs runs the programs of the page and compares their gradients bit for bit.

use crate::common;
use common::{have, root, run, stdout, tempdir};
use std::process::Command;

#[test]
fn the_elastic_gradient_is_the_derivative() {
    let dir = tempdir("elastic");
    run(Command::new("cc")
        .args([
            "-std=c99",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-Wno-unused-function",
        ])
        .arg(root().join("c-examples/tutorial/tests/elastic.c"))
        .args(["-lm", "-o"])
        .arg(dir.join("elastic")));
    assert_eq!(stdout(&run(&mut Command::new(dir.join("elastic")))), "ok\n");
}

#[test]
fn the_viscoelastic_gradient_is_the_derivative() {
    if !have("gfortran") {
        return;
    }
    let dir = tempdir("viscoelastic");
    let waves = root().join("fortran/examples/viscoelastic/waves.f90");
    let single = std::fs::read_to_string(waves).unwrap();
    let double = single.replace("wp => c_float", "wp => c_double");
    assert_ne!(single, double);
    std::fs::write(dir.join("waves.f90"), double).unwrap();
    run(Command::new("gfortran")
        .current_dir(&dir)
        .args(["-std=f2008", "-O2", "-Wall", "-Wextra", "-Werror", "waves.f90"])
        .arg(root().join("tests/foreign/fortran/viscoelastic.f90"))
        .args(["-o", "viscoelastic"]));
    assert_eq!(stdout(&run(&mut Command::new(dir.join("viscoelastic")))), "ok\n");
}
