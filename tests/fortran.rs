//! The Fortran interface.

#[path = "fortran/bindings.rs"]
mod bindings;
mod common;
#[path = "fortran/header.rs"]
mod header;

use common::root;
use header::Header;

fn parsed() -> Header {
    Header::parse(&std::fs::read_to_string(root().join("include/gpuzip.h")).unwrap())
}

#[test]
fn the_module_follows_the_header() {
    let path = root().join("fortran/gpuzip.f90");
    let committed = std::fs::read_to_string(&path).unwrap();
    let generated = bindings::update(&committed, &parsed());
    if std::env::var_os("GPUZIP_UPDATE_HEADER").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    assert!(
        generated == std::fs::read_to_string(&path).unwrap(),
        "fortran/gpuzip.f90 differs from include/gpuzip.h: run `make header` and commit it"
    );
}
