//! `gpuzip codec`: every codec on the files of a user.

use super::{is_refused, json, keys, runs, temporary, text};
use std::process::Command;

const CODEC: [&str; 17] = [
    "file",
    "codec",
    "raw_bytes",
    "stored_bytes",
    "ratio",
    "psnr",
    "ssim",
    "max_error",
    "rmse",
    "relative_l2",
    "nonfinite_lost",
    "setting",
    "bound",
    "bound_kept",
    "compress_gbs",
    "decompress_gbs",
    "memcpy_gbs",
];

/// A wave on 40 x 30 x 20 points, at time t.
fn wave(t: f64) -> Vec<u8> {
    let value = |i: usize| {
        ((0.3 * (i % 40) as f64 + t).sin()
            * (0.2 * (i / 40 % 30) as f64).cos()
            * (0.25 * (i / 1200) as f64).sin()) as f32
    };
    (0..24_000).flat_map(|i| value(i).to_le_bytes()).collect()
}

#[test]
fn every_codec_says_how_small_and_how_exact() {
    let file = temporary("wave.f32", &wave(0.0)).display().to_string();
    for (codec, bounded) in [
        ("none", false),
        ("zfp", false),
        ("fp16", false),
        ("bfp", false),
        ("lossless", false),
        ("cuszp", true),
        ("lorenzo", true),
        ("dct", true),
    ] {
        for bound in ["rel:1e-3", "abs:1e-4", "range:1e-2", "psnr:70"] {
            let object =
                json(&format!("codec --codec {codec} --bound {bound} --dims 40,30,20 {file}"));
            assert_eq!(keys(&object), CODEC);
            let number =
                |name: &str| object[name].as_f64().unwrap_or_else(|| panic!("{name} in {object}"));
            assert_eq!(number("raw_bytes"), 96_000.0);
            assert!((number("ratio") - 96_000.0 / number("stored_bytes")).abs() < 1e-9);
            assert!(
                number("compress_gbs") > 0.0
                    && number("decompress_gbs") > 0.0
                    && number("memcpy_gbs") > 0.0
            );
            if bounded {
                assert_eq!(object["bound_kept"], true, "{object}");
                assert!(number("ratio") > 2.0 && number("ssim") > 0.9, "{object}");
            }
            match (bounded, bound) {
                (true, "psnr:70") => assert!(number("psnr") >= 70.0, "{object}"),
                (true, _) => assert!(number("max_error") <= number("bound"), "{object}"),
                _ => assert!(object["bound"].is_null() && object["bound_kept"].is_null()),
            }
            if codec == "none" {
                // What is the same has no PSNR that JSON could hold.
                assert!(
                    object["psnr"].is_null()
                        && number("max_error") == 0.0
                        && number("ratio") > 0.99
                );
            }
        }
    }
}

#[test]
fn several_files_pairs_and_doubles() {
    let (curr, prev) = (temporary("curr.f32", &wave(0.1)), temporary("prev.f32", &wave(0.0)));
    let files = format!("{} {}", curr.display(), prev.display());
    let object = json(&format!("codec --codec dct --dims 40,30,20 {files}"));
    assert_eq!(keys(&object), ["results"]);
    assert_eq!(object["results"].as_array().unwrap().len(), 2);
    let object = json(&format!("codec --codec dct --dims 40,30,20 --pair {files}"));
    assert_eq!(
        (object["raw_bytes"].as_u64(), object["bound_kept"].as_bool()),
        (Some(192_000), Some(true))
    );
    // As doubles the same bytes are 20 x 30 x 20 other values.
    let object =
        json(&format!("codec --codec lorenzo --type f64 --dims 20,30,20 {}", curr.display()));
    assert_eq!(object["bound_kept"], true);
    let table = runs(&format!("codec --all --dims 40,30,20 {}", curr.display()));
    let table = text(&table.stdout);
    for name in ["zfp", "cuszp", "lorenzo", "dct", "fp16", "bfp", "lossless", "psnr:80", "rel:1e-5"]
    {
        assert!(table.contains(name), "{table}");
    }
    assert!(!table.contains("NO"), "{table}");
    // It ends with a verdict: at each bound the smallest, the fastest, and what a link wants.
    let verdict = table.lines().last().unwrap();
    assert!(
        ["psnr:100", "smallest", "fastest", "over the link"]
            .iter()
            .all(|part| verdict.contains(part)),
        "{verdict}"
    );
    let object = json(&format!("codec --all --link-gbs 1e-6 --dims 40,30,20 {}", curr.display()));
    let (rows, verdicts) =
        (object["results"].as_array().unwrap(), object["verdicts"].as_array().unwrap());
    assert_eq!(verdicts.len(), 7);
    for verdict in verdicts {
        let of_bound = rows
            .iter()
            .filter(|row| row["setting"] == verdict["setting"] && row["bound_kept"] == true);
        let best = of_bound
            .max_by(|a, b| a["ratio"].as_f64().unwrap().total_cmp(&b["ratio"].as_f64().unwrap()))
            .unwrap();
        // Over a link as slow as that nothing counts but bytes.
        assert_eq!(
            (&verdict["smallest"], &verdict["over_link"]),
            (&best["codec"], &best["codec"]),
            "{verdict}"
        );
    }
}

/// A FIFO as an input is an error that names it: nothing waits for whoever might write to it.
#[test]
fn inputs_that_are_no_files_are_refused() {
    let fifo = temporary("fifo", &[]);
    std::fs::remove_file(&fifo).unwrap();
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let name = fifo.display().to_string();
    for (line, file) in [
        (format!("codec --codec dct --dims 100 {name}"), &*name),
        (format!("report {name}"), &name),
        ("codec --codec dct --dims 100 /dev/zero".into(), "/dev/zero"),
        ("report /".into(), "/"),
    ] {
        // Where it waits all the same, not for ever.
        let output = Command::new("timeout")
            .arg("60")
            .arg(env!("CARGO_BIN_EXE_gpuzip"))
            .args(line.split_whitespace())
            .output()
            .unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {message}");
        assert!(
            message.contains(&format!("{file}: is a")) && message.contains("give a regular file"),
            "{line}: {message}"
        );
    }
    std::fs::remove_file(&fifo).unwrap();
}

#[test]
fn arrays_that_do_not_fit_are_refused() {
    let file = temporary("short.f32", &[0; 400]).display().to_string();
    is_refused(
        &format!("codec --codec dct --dims 101 {file}"),
        "the file has 400 bytes, and 101 x 1 x 1 values of 4 bytes are 404 bytes",
    );
    is_refused(&format!("codec --codec dct --dims 5,5,4,1 {file}"), "three extents");
    is_refused(&format!("codec --codec dct --dims 0 {file}"), "no extent");
    is_refused(&format!("codec --codec gzip --dims 100 {file}"), "gzip");
    is_refused(&format!("codec --codec dct --bound 1e-3 --dims 100 {file}"), "rel:1e-3");
    is_refused(
        &format!("codec --codec dct --bound rel:-1 --dims 100 {file}"),
        "after rel: give a number greater than 0",
    );
    is_refused(
        &format!("codec --codec dct --bound max:1 --dims 100 {file}"),
        "use rel, abs, range or psnr",
    );
    is_refused(&format!("codec --codec zfp --rate 33 --dims 100 {file}"), "33");
    is_refused(&format!("codec --codec dct --pair --dims 100 {file}"), "twos");
    is_refused("codec --codec dct --dims 100 /no/such/file", "/no/such/file");
    is_refused(&format!("codec --dims 100 {file}"), "--codec");
}
