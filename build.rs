//! Sets the link options of `libgpuzip.so`: its soname, and that the library is never unloaded,
//! since its worker threads may still run after `dlclose`.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    let soname = format!("libgpuzip.so.{major}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");

    // A program that links the library in cargo's target folder looks for the soname in that folder
    // at run time. A failure to make the link is ignored: an installed library does not need it.
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    if let Some(profile) = Path::new(&out).ancestors().nth(3) {
        let _ = std::os::unix::fs::symlink("libgpuzip.so", profile.join(soname));
    }
}
