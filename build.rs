//! Sets the link options of `libgpuzip.so`: its soname, and that the library is never unloaded,
//! since its worker threads may still run after `dlclose`. Tells the sources by `avx512` whether the
//! compiler knows AVX-512.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    let soname = format!("libgpuzip.so.{major}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");

    // Rust has the instructions of AVX-512 since 1.89.
    println!("cargo:rustc-check-cfg=cfg(avx512)");
    let is_x86_64 = std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64");
    if is_x86_64 && minor_version_of_rustc().is_some_and(|minor| minor >= 89) {
        println!("cargo:rustc-cfg=avx512");
    }

    // A program that links the library in cargo's target folder looks for the soname in that folder
    // at run time. A failure to make the link is ignored: an installed library does not need it.
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    if let Some(profile) = Path::new(&out).ancestors().nth(3) {
        let _ = std::os::unix::fs::symlink("libgpuzip.so", profile.join(soname));
    }
}

/// The 89 of `rustc 1.89.0 (29483883e 2025-08-04)`.
fn minor_version_of_rustc() -> Option<u32> {
    let rustc = std::env::var_os("RUSTC")?;
    let output = std::process::Command::new(rustc).arg("--version").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    version.split('.').nth(1)?.parse().ok()
}
