//! NVIDIA's compilers compile all kernels of the codecs, and no kernel spills registers. No GPU is
//! needed.

use super::tools::{installed, on_two_threads};
use crate::common::cases::long;
use crate::common::{self, nvrtc};
use common::{stdout, tempdir};
use gpuzip::codec::gpu::sources;
use gpuzip::device::cuda::{image_in, Source};
use std::process::Command;

/// Kernels that may spill a register or two: they run once per array, and only with a bound on the
/// mean square error.
const COLD: [&str; 1] = ["dct_mean"];

/// Prints registers and shared memory of every kernel in ptxas's `log`; checks that no kernel
/// spills and that the log has all kernels of `source`.
fn look_at(log: &str, source: &Source, architecture: u32) {
    let scalar = if source.double { "f64" } else { "f32" };
    let mut kernels = 0;
    for kernel in log.split("Compiling entry function '").skip(1) {
        let name = kernel.split('\'').next().unwrap();
        let whole =
            kernel.contains("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads");
        assert!(whole || COLD.contains(&name), "sm_{architecture} {scalar} {kernel}");
        let used = kernel.split("Used ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
        let shared =
            used.split(", ").find(|part| part.ends_with(" smem")).unwrap_or("0 bytes smem");
        println!(
            "sm_{architecture} {scalar} {name}: {}, {shared}",
            used.split(',').next().unwrap()
        );
        kernels += 1;
    }
    let expected = source
        .parts
        .iter()
        .map(|(_, text)| text.matches("extern \"C\" __global__").count())
        .sum::<usize>();
    assert!(
        kernels == expected && kernels > 0,
        "{} of {expected} kernels of {}: {log}",
        kernels,
        source.name
    );
}

/// Runs `each` on two threads for all sources, with the oldest and the newest architecture; with
/// GPUZIP_TEST_LONG also with the architectures between them.
fn for_all(architectures: &[u32], each: impl Fn(&Source, u32) + Sync) {
    let long = long();
    let (first, last) = (architectures.first(), architectures.last());
    let architectures =
        architectures.iter().filter(|a| long || Some(*a) == first || Some(*a) == last);
    let architectures: Vec<u32> = architectures.copied().collect();
    let all: Vec<(Source, u32)> = sources()
        .into_iter()
        .flat_map(|source| architectures.iter().map(move |&a| (source.clone(), a)))
        .collect();
    on_two_threads(&all, |(source, architecture)| each(source, *architecture));
}

#[test]
fn nvcc_takes_all_kernels_and_none_spills() {
    let Some(nvcc) = installed("nvcc.sh") else { return };
    let version = stdout(&common::run(Command::new(&nvcc).arg("--version")));
    let dir = tempdir("kernel-builds");
    for_all(
        if version.contains("release 12.") { &[70, 80, 90] } else { &[75, 80, 90] },
        |source, architecture| {
            let file = dir.join(format!("{}-{}-{architecture}.cu", source.name, source.double));
            std::fs::write(&file, source.text()).unwrap();
            let mut command = Command::new(&nvcc);
            command
                .args([
                    "-cubin",
                    "-Xptxas",
                    "-v",
                    "--diag-suppress",
                    "177,186",
                    "-Werror",
                    "all-warnings",
                ])
                .args(source.options(architecture));
            let output =
                common::run(command.arg(&file).arg("-o").arg(file.with_extension("cubin")));
            look_at(
                &(stdout(&output) + &String::from_utf8_lossy(&output.stderr)),
                source,
                architecture,
            );
        },
    );
}

/// NVRTC compiles the kernels on users' machines, where it has no headers.
#[test]
fn nvrtc_takes_all_kernels_and_none_spills() {
    let Some(folder) = installed("nvrtc.sh") else { return };
    let output = common::again("by_nvrtc").env("LD_LIBRARY_PATH", folder).output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        stdout(&output),
        String::from_utf8_lossy(&output.stderr)
    );
    print!("{}", stdout(&output));
}

#[test]
#[ignore = "runs in a process that finds NVRTC"]
fn by_nvrtc() {
    for_all(&[70, 80, 90], |source, architecture| {
        let (log, _) = nvrtc::compiled(source, architecture);
        look_at(&log, source, architecture);
    });
    // The library itself compiles a source to an ELF file.
    let image = image_in(None, &sources()[0], 90).unwrap();
    assert!(image.starts_with(b"\x7fELF"));
}
