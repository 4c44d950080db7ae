//! `--sweep`: what each codec makes of an image.

use super::*;

/// The rows of a sweep over codec settings, each as the text of a JSON object.
fn sweep(list: &str, out: &str) -> Vec<String> {
    let job = [
        "--n1", "16", "--n2", "12", "--n3", "20", "--steps", "60", "--border", "6", "--sweep",
        "--json",
    ];
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rtm").join(out);
    let mut command = rtm3d();
    command.env("GPUZIP_CHECKPOINTING_ALGORITHM", "revolve").env("GPUZIP_CHECKPOINTING_SNAPS", "5");
    let json = stdout(&run(command.args(job).args(["--codecs", list, "--out"]).arg(&dir)));
    assert_eq!(json.lines().count(), 1, "{json}");
    assert_eq!(value(&json, "shots"), "1", "one shot unless it is told otherwise");
    assert_eq!(value(&json, "ssim_window"), "7");
    assert!(!dir.exists(), "a sweep writes no files");
    let rows = json.split_once("\"results\": [").unwrap().1.trim_end().trim_end_matches("]}");
    rows.split("}, ").map(|row| format!("{}}}", row.trim_end_matches('}'))).collect()
}

#[test]
fn raw_snapshots_change_no_image() {
    let rows = sweep("none,none:unpaired", "sweep-none");
    assert_eq!(rows.len(), 2);
    assert_eq!([value(&rows[0], "codec"), value(&rows[1], "codec")], ["none", "none:unpaired"]);
    for row in &rows {
        for view in ["", "filtered_", "shown_"] {
            let figure = |name: &str| value(row, &format!("{view}{name}")).to_string();
            // JSON has no infinity.
            assert_eq!(
                [figure("psnr"), figure("ssim"), figure("relative_l2")],
                ["null", "1", "0"],
                "{row}"
            );
        }
        assert!((value(row, "ratio").parse::<f64>().unwrap() - 1.0).abs() < 1e-2, "{row}");
        assert_eq!(
            [value(row, "error"), value(row, "bound"), value(row, "rate"), value(row, "snapshots")],
            ["null", "null", "null", "5"]
        );
        assert!(
            value(row, "seconds").parse::<f64>().unwrap() > 0.0
                && value(row, "stall").parse::<f64>().unwrap() > 0.0
        );
        let (raw, saves) = (
            value(row, "raw_bytes").parse::<u64>().unwrap(),
            value(row, "saves").parse::<u64>().unwrap(),
        );
        assert_eq!(raw, saves * 2 * 36 * 32 * 40 * 4);
    }
}

/// The figures of images are of the size that the codecs' errors let expect, and declaring both
/// time levels as a pair improves them.
#[test]
fn lossy_snapshots_are_told_from_raw_ones() {
    let rows = sweep("fp16,bfp,bfp:unpaired", "sweep-lossy");
    let figure = |row: usize, name: &str| {
        value(&rows[row], name).parse::<f64>().unwrap_or_else(|_| panic!("{name}: {}", rows[row]))
    };
    for (row, ratio) in [(0, 2.0), (1, 3.8), (2, 3.8)] {
        assert!((figure(row, "ratio") / ratio - 1.0).abs() < 0.1, "{}", rows[row]);
        for view in ["", "filtered_", "shown_"] {
            let of = |name: &str| figure(row, &format!("{view}{name}"));
            assert!(of("psnr") > 30.0 && of("psnr") < 200.0, "{}", rows[row]);
            assert!(of("ssim") > 0.9 && of("ssim") < 1.0, "{}", rows[row]);
            assert!(of("relative_l2") > 0.0 && of("relative_l2") < 0.3, "{}", rows[row]);
        }
    }
    assert!(figure(0, "filtered_psnr") > figure(1, "filtered_psnr") + 10.0, "{rows:?}");
    assert!(figure(1, "psnr") > figure(2, "psnr") + 3.0, "{rows:?}");
}

/// A sweep goes on after a refused codec. `auto` without a bound is refused, because it takes lossy
/// codecs only within a given bound.
#[test]
fn a_refused_codec_is_a_row_that_says_why() {
    let rows = sweep("auto,none", "sweep-refused");
    assert_eq!(rows.len(), 2);
    assert!(value(&rows[0], "error").starts_with("gpuzip_"), "{}", rows[0]);
    assert_eq!(
        [value(&rows[0], "codec"), value(&rows[0], "ratio"), value(&rows[0], "ssim")],
        ["auto", "null", "null"]
    );
    assert_eq!([value(&rows[1], "error"), value(&rows[1], "filtered_relative_l2")], ["null", "0"]);
}

#[test]
fn the_default_sweep_has_every_codec() {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rtm").join("sweep-default");
    let job = [
        "--n1", "16", "--n2", "12", "--n3", "1", "--steps", "20", "--border", "6", "--sweep",
        "--out",
    ];
    let text = stdout(&run(rtm3d().args(job).arg(out)));
    let first = |line: &str| line.split_whitespace().next().map(String::from);
    let settings: Vec<String> = text
        .lines()
        .skip_while(|line| !line.starts_with("codec "))
        .skip(1)
        .filter_map(first)
        .collect();
    let expected = "none dct:1e-2 dct:1e-3 dct:1e-4 lorenzo:1e-2 lorenzo:1e-3 lorenzo:1e-4 cuszp:1e-2 cuszp:1e-3 cuszp:1e-4 \
                    zfp:4 zfp:8 zfp:16 fp16 bfp";
    assert_eq!(settings, expected.split_whitespace().collect::<Vec<_>>());
}
