//! Exact counts as a performance test, where no GPU is: what the kernels of the codecs execute and
//! move, as the interpreter of PTX counts it; what NVIDIA's compiler makes of them; and the launches
//! and driver calls of a save and a restore. `benches/results/kernel-counts.txt` has the figures; the
//! test fails where one got worse by more than 2 %. `make counts` writes them anew. A version of NVRTC
//! that is not the one of the table makes other code: with it the test is skipped.

mod cubin;
mod quality;
mod session;
mod steps;
mod table;

use super::tools::{installed, interpreting, on_two_threads};
use crate::common::cases::long;
use crate::common::{self, emu, rig};
use gpuzip::codec::{ErrorBound, Method, Settings};
use gpuzip::scalar::Scalar;
use rig::{Draw, Rig};
use std::path::Path;
use std::process::Command;

/// The variable that has the table written instead of compared.
const UPDATE: &str = "GPUZIP_UPDATE_COUNTS";

/// Names the part of the table that a process makes.
const PART: &str = "GPUZIP_TEST_COUNTS";

/// The codecs, and for each the bounds with their names.
fn codecs() -> Vec<(Method, Vec<(&'static str, ErrorBound)>)> {
    let one = vec![("-", ErrorBound::OfMax(1e-3))];
    let two = vec![("1e-3", ErrorBound::OfMax(1e-3)), ("1e-5", ErrorBound::OfMax(1e-5))];
    let psnr = [&two[..], &[("70dB", ErrorBound::Psnr(70.0))]].concat();
    vec![
        (Method::Dct, psnr),
        (Method::Lorenzo, two.clone()),
        (Method::Cuszp, two),
        (Method::Zfp { rate: 8 }, one.clone()),
        (Method::Fp16, one.clone()),
        (Method::Bfp, one),
    ]
}

/// The fields, by the number of their dimensions: whole tiles of every codec.
const SHAPES: [[u64; 3]; 3] = [[1 << 16, 1, 1], [256, 256, 1], [64, 64, 64]];

/// Whether the figures of all architectures are made.
fn all_architectures() -> bool {
    long() || std::env::var_os(UPDATE).is_some()
}

/// The parts of the table, each made by a process of its own.
fn parts() -> Vec<String> {
    let kernels = codecs().into_iter().flat_map(|(method, _)| {
        ["f64", "f32"].map(|scalar| format!("kernels {} {scalar}", method.name()))
    });
    let images = [cubin::LONG, cubin::ALWAYS]
        .map(|architecture| ["f64", "f32"].map(|scalar| format!("images {architecture} {scalar}")));
    let images = images.into_iter().flatten().skip(if all_architectures() { 0 } else { 2 });
    images.chain(["session", "rtm3d"].map(str::to_owned)).chain(kernels).collect()
}

#[test]
fn no_figure_of_the_table_got_worse() {
    let Some(nvrtc) = installed("nvrtc.sh") else { return };
    let version = cubin::version_of(Path::new(&nvrtc));
    let update = std::env::var_os(UPDATE).is_some();
    if !update && table::version() != version {
        println!("skipped: the table is of NVRTC {}, and {version} is here", table::version());
        return;
    }
    let rows = on_two_threads(&parts(), |part| rows_of(part, &nvrtc)).concat();
    if update {
        table::write(&version, &rows);
    } else {
        let left_out = format!("image sm_{} ", cubin::LONG);
        table::compare(&rows, |key| all_architectures() || !key.starts_with(&left_out));
    }
}

/// The table of quality is that of the codecs: each codec, type, number of dimensions and bound of the
/// counts has its figures.
#[test]
fn the_quality_is_that_of_the_codecs() {
    let text = quality::text();
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(quality::path(), text).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(quality::path()).unwrap();
    assert!(kept == text, "`make counts` writes the figures anew:\n{text}");
}

#[test]
fn the_roofline_follows_from_the_table() {
    if !common::have("python3") {
        return;
    }
    let script = common::root().join("benches/roofline.py");
    let page = common::stdout(&common::run(Command::new("python3").arg(script).arg("--print")));
    let kept = common::root().join("benches/results/roofline.md");
    assert!(std::fs::read_to_string(kept).unwrap() == page, "`make roofline` writes the page anew");
}

/// The page of whole shots follows from the roofline and from the schedules that `gpuzip plan` finds.
/// Takes a minute, and runs with GPUZIP_TEST_LONG only.
#[test]
fn the_page_of_shots_follows_from_the_roofline() {
    if !long() || !common::have("python3") {
        return;
    }
    let mut script = Command::new("python3");
    script.arg(common::root().join("benches/end_to_end.py"));
    let page =
        common::stdout(&common::run(script.arg(common::library().join("gpuzip")).arg("--print")));
    let kept = common::root().join("benches/results/end-to-end.md");
    assert!(
        std::fs::read_to_string(kept).unwrap() == page,
        "`make end-to-end` writes the page anew"
    );
}

/// Makes a part of the table in a process of its own.
fn rows_of(part: &str, nvrtc: &str) -> Vec<table::Row> {
    let begin = std::time::Instant::now();
    let mut command = common::again("one_part");
    command.env(PART, part);
    if part.starts_with("images") {
        command.env("LD_LIBRARY_PATH", nvrtc);
    } else {
        let folder = emu::folder_with(&format!("counts {part}").replace(' ', "-"), &emu::driver());
        command
            .env("LD_LIBRARY_PATH", folder)
            .env("GPUZIP_TEST_EMULATED", "1")
            .envs(interpreting(nvrtc))
            .env("CUDA_EMU_PTX_ORDER", "steady");
    }
    let output = command.output().unwrap();
    let text = common::stdout(&output);
    assert!(output.status.success(), "{part}: {text}{}", String::from_utf8_lossy(&output.stderr));
    let row = |line: &str| table::Row::read(line.strip_prefix("row ")?);
    let rows: Vec<table::Row> = text.lines().filter_map(row).collect();
    println!("{part}: {} rows, {:.1} s", rows.len(), begin.elapsed().as_secs_f64());
    rows
}

#[test]
#[ignore = "makes one part of the table, in a process with the right libraries"]
fn one_part() {
    let part = std::env::var(PART).unwrap();
    let words: Vec<&str> = part.split(' ').collect();
    let rows = match words[..] {
        ["images", architecture, scalar] => {
            cubin::rows(architecture.parse().unwrap(), scalar == "f64")
        }
        ["kernels", codec, "f32"] => kernel_rows(codec, Scalar::F32),
        ["kernels", codec, "f64"] => kernel_rows(codec, Scalar::F64),
        ["rtm3d"] => steps::rows(),
        _ => session::rows(),
    };
    // The harness has written the name of the test into this line.
    println!();
    rows.iter().for_each(|row| println!("row {row}"));
}

/// Counts what the kernels of a codec do to fields of values of a type.
fn kernel_rows(codec: &str, scalar: Scalar) -> Vec<table::Row> {
    let (method, bounds) = codecs().into_iter().find(|(method, _)| method.name() == codec).unwrap();
    let ty = if scalar == Scalar::F32 { "f32" } else { "f64" };
    let mut rows = Vec::new();
    for (rank, n) in (1..).zip(SHAPES) {
        for (name, bound) in &bounds {
            assert_eq!(emu::reset(1, emu::EARLY, 1, 1 << 28), 0);
            let settings =
                Settings { method: method.clone(), bound: *bound, ..Settings::default() };
            let rig = Rig::new(settings, &[(n, scalar, None)]);
            let field = wavefield(n, scalar);
            let values = n.iter().product::<u64>() as f64;
            emu::count_kernels();
            let stream = rig.make(&[field]);
            let key = |work: &str| format!("{codec} {work} {ty} {rank} {name}");
            rows.extend(counted(&key("compress"), values));
            emu::count_kernels();
            rig.read(&stream).unwrap();
            rows.extend(counted(&key("decompress"), values));
            let bytes = stream.len() as f64 / values;
            let key = format!("stream {}", key("bytes"));
            rows.push(table::Row::new(key, vec![("bytes", bytes)]));
        }
    }
    rows
}

/// Returns a row per kernel that has run; all figures but the launches are per value.
fn counted(key: &str, values: f64) -> Vec<table::Row> {
    let row = |kernel: &emu::KernelCounts| {
        let counts = &kernel.counts;
        let figures = vec![
            ("launches", counts.launches as f64),
            ("thread", counts.threads as f64 / values),
            ("warp", 32.0 * counts.warps as f64 / values),
            ("slots", 3.2 * counts.slots as f64 / values),
            ("read", counts.read as f64 / values),
            ("written", counts.written as f64 / values),
            ("requested", counts.requested as f64 / values),
            ("wavefronts", 32.0 * counts.wavefronts as f64 / values),
            ("text", counts.text as f64 / 10.0),
        ];
        table::Row::new(format!("kernel {key} {}", kernel.name()), figures)
    };
    emu::kernels().iter().map(row).collect()
}

/// Makes a field of plane waves with 12 to 20 points per wavelength, which fade towards one end: a
/// third of the field is at rest.
fn wavefield(n: [u64; 3], scalar: Scalar) -> Vec<u8> {
    let mut draw = Draw::new(5);
    let axes = n.iter().filter(|&&n| n > 1).count();
    let waves: Vec<([f64; 3], f64)> = (0..8)
        .map(|_| {
            let mut way = [0.0; 3];
            way[..axes].iter_mut().for_each(|x| *x = draw.value());
            let length = way.iter().map(|x| x * x).sum::<f64>().sqrt();
            let number = 2.0 * std::f64::consts::PI / (16.0 + 4.0 * draw.value());
            (way.map(|x| x * number / length), 3.0 * draw.value())
        })
        .collect();
    let mut bytes = Vec::new();
    for i in 0..n.iter().product::<u64>() {
        let at = [i % n[0], i / n[0] % n[1], i / n[0] / n[1]].map(|x| x as f64);
        let sum: f64 = waves
            .iter()
            .map(|(way, phase)| (way[0] * at[0] + way[1] * at[1] + way[2] * at[2] + phase).sin())
            .sum();
        let front = (at[axes - 1] / n[axes - 1] as f64 - 0.67).max(0.0);
        let value = if front > 0.15 { 0.0 } else { sum * (1.0 - front / 0.15).powi(4) };
        match scalar {
            Scalar::F32 => bytes.extend((value as f32).to_le_bytes()),
            _ => bytes.extend(value.to_le_bytes()),
        }
    }
    bytes
}
