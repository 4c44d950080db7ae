//! The messages and pictures of rtm3d: the size of a job before it begins, progress, memory of
//! snapshots, names of lossy codecs, images of models and results.

use crate::common;
use common::{run, scratch, stdout};
use std::path::Path;
use std::process::Command;

fn rtm3d() -> Command {
    let mut command = Command::new(common::rtm3d());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GPUZIP_")) {
        command.env_remove(name);
    }
    command.env("OMP_WAIT_POLICY", "passive");
    command
}

const SMALL: [&str; 8] = ["--n1", "12", "--n2", "20", "--n3", "1", "--shots", "2"];

/// Standard output and standard error of a job, and whether it succeeded.
fn job(out: &str, args: &[&str], config: &[(&str, &str)]) -> (String, String, bool) {
    let mut command = rtm3d();
    command.args(SMALL).args(args).arg("--out").arg(scratch("rtm").join(out));
    command.envs(config.iter().map(|(key, value)| (format!("GPUZIP_{key}"), value)));
    let output = command.output().unwrap();
    (stdout(&output), String::from_utf8_lossy(&output.stderr).into_owned(), output.status.success())
}

#[test]
fn the_size_of_a_job_comes_first() {
    // Two fields of 12 + 2 (24 + 4) by 20 + 2 (24 + 4) points of 4 bytes: 41.3 kB.
    let config = [
        ("CHECKPOINTING_ALGORITHM", "revolve"),
        ("CHECKPOINTING_SNAPS", "5"),
        ("CACHE_CAPACITY", "5"),
    ];
    let (text, told, good) = job("size", &["--steps", "101", "--json"], &config);
    assert!(good && text.lines().count() == 1, "{text}{told}");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "rtm3d: 12 x 20 x 1 cells of 25 m, with sponge and halo 68 x 76 x 1; shots: 2 of 101 time steps each");
    let memory = "a state has 2 fields, 41.3 kB: planned are 5 snapshots at a time, 206.7 kB; all 101 states would take 4.2 MB";
    assert_eq!(lines[1], format!("rtm3d: {memory}"));
    let key = |name: &str| -> f64 {
        let at = text.find(&format!("\"{name}\": ")).unwrap() + name.len() + 4;
        text[at..].split([',', '}']).next().unwrap().parse().unwrap()
    };
    // The announced number of steps is the number of steps taken, in modelling and migration.
    let steps = 2.0 * 100.0 + key("forward_steps") + key("backward_steps");
    assert_eq!(
        lines[2],
        format!("rtm3d: {steps} time steps of 0.00517 million points are to be taken")
    );
}

/// A job of some seconds whose stderr is not a terminal prints few lines, each with a larger share
/// than the line before.
#[test]
fn a_long_shot_tells_how_far_it_is() {
    let mut command = rtm3d();
    command
        .args([
            "--n1", "80", "--n2", "200", "--n3", "1", "--shots", "1", "--steps", "2000", "--out",
        ])
        .arg(scratch("rtm").join("long"));
    command.env("OMP_NUM_THREADS", "1").env("GPUZIP_LINK_BANDWIDTH", "2e8");
    command.env("GPUZIP_CHECKPOINTING_ALGORITHM", "revolve").env("GPUZIP_CHECKPOINTING_SNAPS", "8");
    let told = String::from_utf8_lossy(&run(&mut command).stderr).into_owned();
    let shares: Vec<u32> = told
        .lines()
        .filter_map(|line| line.split_once(" % after ")?.0.rsplit(' ').next()?.parse().ok())
        .collect();
    println!("{told}");
    assert!(
        shares.len() <= 12
            && shares.windows(2).all(|pair| pair[0] < pair[1])
            && !told.contains('\r'),
        "{told}"
    );
    assert!(
        told.lines()
            .filter(|line| line.contains(" % after "))
            .all(|line| line.contains(" left (shot 1 of 1, ")),
        "{told}"
    );
}

#[test]
fn memory_is_counted_alike_and_sharing_is_suggested_where_it_helps() {
    let suggestion = "shared_levels = 1 keeps the field that consecutive states share once";
    let all = [("CHECKPOINTING_ALGORITHM", "store-all"), ("BACKEND", "1")];
    let (text, _, good) = job("memory", &["--steps", "101", "--verify"], &all);
    assert!(
        good && text.contains(
            "for snapshots of two fields each; so kept, all 101 states would take 4.2 MB"
        ),
        "{text}"
    );
    assert!(
        text.contains("(--verify keeps one field of each: 2.1 MB)") && text.contains(suggestion),
        "{text}"
    );
    let few = [("CHECKPOINTING_ALGORITHM", "revolve"), ("CHECKPOINTING_SNAPS", "4")];
    for config in [
        &[&all[..], &[("SHARED_LEVELS", "1")]].concat()[..],
        &few,
        &[&all[..], &[("COMPRESSOR", "dct")]].concat(),
    ] {
        let (text, told, good) = job("memory", &["--steps", "101"], config);
        assert!(good && !text.contains("shared_levels"), "{config:?}: {text}{told}");
    }
}

/// With a lossy codec, comparisons of results name the codec and print the PSNR.
#[test]
fn lossy_codecs_are_named_where_bits_are_compared() {
    for (config, codec) in [
        (
            &[("COMPRESSOR", "dct"), ("ERROR_BOUND", "1e-2")][..],
            "dct, each value of a snapshot within 0.01 of its field's maximum",
        ),
        (
            &[("COMPRESSOR", "lorenzo"), ("ERROR_BOUND_MODE", "psnr"), ("ERROR_BOUND", "50")],
            "lorenzo, each snapshot's field at a PSNR of 50 dB",
        ),
        (&[("COMPRESSOR", "zfp"), ("ZFP_BIT_RATE", "6")], "zfp, 6 bits per value"),
        (&[("COMPRESSOR", "bfp")], "bfp, of fixed size and without a bound"),
    ] {
        let config =
            [&[("CHECKPOINTING_ALGORITHM", "revolve"), ("CHECKPOINTING_SNAPS", "4")], config]
                .concat();
        let (text, told, good) =
            job("lossy", &["--steps", "121", "--verify", "--gradient", "--taylor"], &config);
        assert!(
            !good && !text.contains("DIFFERENT") && !text.contains("WRONG"),
            "{config:?}: {text}{told}"
        );
        assert!(text.contains(&format!("codec             {codec}\n")), "{config:?}: {text}");
        let name = codec.split(',').next().unwrap();
        assert!(
            text.contains(&format!("not the same bits, as the codec {name} is lossy")),
            "{text}"
        );
        let psnr: f64 =
            text.split("PSNR of ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(psnr > 20.0 && psnr < 150.0, "{text}");
    }
    let (text, _, good) = job("lossy", &["--steps", "121", "--verify"], &[]);
    assert!(
        good && text.contains("images            IDENTICAL") && !text.contains("codec "),
        "{text}"
    );
}

/// Width, height and pixels of an 8-bit grey PNG whose rows are differences from the row above.
fn png(path: &Path) -> (usize, usize, Vec<u8>) {
    let file = std::fs::read(path).unwrap();
    let number = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    assert!(
        file.starts_with(b"\x89PNG\r\n\x1a\n")
            && file[12..16] == *b"IHDR"
            && file[24..29] == [8, 0, 0, 0, 0]
    );
    let (width, height, length) = (number(16), number(20), number(33));
    assert_eq!(file[37..41], *b"IDAT");
    let rows = miniz_oxide::inflate::decompress_to_vec_zlib(&file[41..41 + length]).unwrap();
    assert_eq!(rows.len(), (width + 1) * height);
    let mut pixels: Vec<u8> = Vec::with_capacity(width * height);
    for (y, row) in rows.chunks(width + 1).enumerate() {
        assert_eq!(row[0], 2);
        for (x, difference) in row[1..].iter().enumerate() {
            pixels.push(difference.wrapping_add(if y > 0 {
                pixels[(y - 1) * width + x]
            } else {
                0
            }));
        }
    }
    (width, height, pixels)
}

/// Pictures of deep, flat, large and small models fit a screen, are compressed, and have a frame
/// and text around the model.
#[test]
fn pictures_fit_a_screen_whatever_the_model() {
    for (n1, n2) in [("640", "39"), ("8", "900"), ("12", "20"), ("300", "1200")] {
        let dir = scratch("rtm").join("pictures");
        run(rtm3d()
            .args([
                "--n1", n1, "--n2", n2, "--n3", "1", "--border", "4", "--shots", "1", "--steps",
                "30", "--out",
            ])
            .arg(&dir));
        for name in ["model.png", "image.png", "image_filtered.png"] {
            let path = dir.join(name);
            let (width, height, pixels) = png(&path);
            assert!(
                (300..1100).contains(&width) && (250..1000).contains(&height),
                "{n1} x {n2}, {name}: {width} x {height}"
            );
            let bytes = std::fs::metadata(&path).unwrap().len() as usize;
            assert!(
                bytes < width * height / 2,
                "{n1} x {n2}, {name}: {bytes} bytes of {}",
                width * height
            );
            let dark = |from: usize, to: usize| {
                pixels[from * width..to * width].iter().filter(|&&grey| grey == 0).count()
            };
            assert!(
                dark(0, 30) > 200 && dark(height - 40, height) > 200,
                "{n1} x {n2}, {name}: a title, and numbers below"
            );
            assert!(
                pixels.iter().filter(|&&grey| grey == 255).count() > width * height / 8,
                "{n1} x {n2}, {name}: paper"
            );
        }
    }
}
