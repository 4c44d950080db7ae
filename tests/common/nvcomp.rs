//! The stand-in for libnvcomp, tests/c/nvcomp.c.

use crate::common::{root, run, scratch};
use std::process::Command;

/// The environment variable that names the library.
pub const PATH: &str = "GPUZIP_NVCOMP";

/// Compiles the stand-in with a preprocessor definition and returns its path. In a process that was
/// started with a stand-in already, returns the path of that library.
pub fn stand_in(name: &str, define: &str) -> String {
    if let (Some(_), Ok(path)) = (std::env::var_os("GPUZIP_TEST_EMULATED"), std::env::var(PATH)) {
        return path;
    }
    let library = scratch("nvcomp").join(format!("{name}.so"));
    let mine = library.with_extension(
        format!("{:?}", std::thread::current().id()).replace(['(', ')'], "-")
            + &std::process::id().to_string(),
    );
    let source = root().join("tests/c/nvcomp.c");
    run(Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", define])
        .arg(source)
        .arg("-o")
        .arg(&mine)
        .args(["-ldl", "-lm"]));
    std::fs::rename(mine, &library).unwrap();
    library.to_str().unwrap().into()
}
