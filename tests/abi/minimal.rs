//! The smallest C program, linked with the library, computes the derivative.

use crate::common::{compile_against, library_of_tests, root, run, stdout, tempdir};
use std::process::Command;

#[test]
fn the_minimal_example_computes_the_derivative() {
    let dir = tempdir("minimal");
    let program = compile_against(
        library_of_tests(),
        &dir,
        "cc",
        &["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"],
        &[&root().join("c-examples/minimal.c")],
    );
    let printed = stdout(&run(&mut Command::new(program)));
    let mut states = vec![0.1f64];
    (0..1000).for_each(|t| states.push(states[t] + 1e-3 * states[t] * (1.0 - states[t])));
    let expected: f64 =
        states[..1000].iter().rev().fold(1.0, |lambda, u| lambda * (1.0 + 1e-3 * (1.0 - 2.0 * u)));
    assert_eq!(printed, format!("du(1000)/du(0) = {expected:.12}\n"));
}
