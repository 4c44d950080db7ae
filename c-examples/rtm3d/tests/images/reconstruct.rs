//! `--reconstruct`: the states of the reverse sweep are computed backward, from strips beside the model.

use super::*;

/// Migrations in 2-D and in 3-D; the cells of the model, and the steps.
const PLANE: ([usize; 3], usize) = ([24, 40, 1], 120);
const VOLUME: ([usize; 3], usize) = ([12, 16, 20], 90);
const SHOTS: usize = 2;

fn job((cells, steps): ([usize; 3], usize)) -> Vec<String> {
    let [n1, n2, n3] = cells;
    format!("--n1 {n1} --n2 {n2} --n3 {n3} --steps {steps} --border 6 --shots {SHOTS}")
        .split(' ')
        .map(String::from)
        .collect()
}

/// Exit code, standard output and standard error of a run, which writes its files to folder(out).
fn migrate(
    args: &[String],
    more: &[&str],
    out: &str,
    config: &[(&str, &str)],
) -> (i32, String, String) {
    let mut command = rtm3d();
    command.args(args).args(more).arg("--out").arg(folder(out));
    command.env("LD_LIBRARY_PATH", common::library_path()).env("OMP_NUM_THREADS", "1");
    command.envs(config.iter().map(|(key, value)| (format!("GPUZIP_{key}"), value)));
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), stdout(&output), told)
}

fn folder(out: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rtm").join(out)
}

/// The JSON object of a migration from strips with `--verify`, which finds other bits.
fn reconstruct(of: ([usize; 3], usize), out: &str, config: &[(&str, &str)]) -> String {
    let (code, json, told) =
        migrate(&job(of), &["--reconstruct", "--verify", "--json"], out, config);
    assert_eq!(code, 1, "{told}");
    assert_eq!(
        [value(&json, "identical"), value(&json, "reconstruct")],
        ["false", "true"],
        "{told}"
    );
    json
}

fn number(json: &str, key: &str) -> f64 {
    value(json, key).parse().unwrap_or_else(|_| panic!("{key}: {json}"))
}

/// The largest error of an image, relative to its norm: that of the states, as tests/physics.c derives it
/// from the rounding errors of FP32. The adjoint, with which states are multiplied, is exact.
fn gate(steps: usize) -> f64 {
    16.0 * f64::from(f32::EPSILON) / 2.0 * (steps as f64).sqrt()
}

/// The norm of the difference of two images relative to that of the first one, on cells that are at least
/// `edge` cells from the faces of the model.
fn difference([n1, n2, n3]: [usize; 3], edge: usize, a: &[f32], b: &[f32]) -> f64 {
    let inside = |i: usize, n: usize| n == 1 || (i >= edge && i + edge < n);
    let (mut error, mut norm) = (0.0, 0.0);
    for i in 0..n1 * n2 * n3 {
        if inside(i % n1, n1) && inside(i / n1 % n2, n2) && inside(i / (n1 * n2), n3) {
            error += (f64::from(a[i]) - f64::from(b[i])).powi(2);
            norm += f64::from(a[i]).powi(2);
        }
    }
    (error / norm).sqrt()
}

#[test]
fn images_differ_by_rounding_errors() {
    for (of, out) in [(PLANE, "backward-2d"), (VOLUME, "backward-3d")] {
        let (cells, steps) = of;
        let words = job(of);
        let (code, _, told) = migrate(&words, &[], &format!("{out}-kept"), &FEW_SNAPSHOTS);
        assert_eq!(code, 0, "{told}");
        let json = reconstruct(of, out, &[]);
        let kept = floats(&folder(&format!("{out}-kept")).join("image.f32"));
        let image = floats(&folder(out).join("image.f32"));
        let [whole, inside] = [0, 4].map(|edge| difference(cells, edge, &kept, &image));
        println!("{cells:?}: {whole:.2e}, {inside:.2e} inside, at most {:.2e}", gate(steps));
        assert!(whole > 0.0 && whole < gate(steps) && inside < gate(steps), "{whole} {inside}");
        // The report compares with a run that keeps every state, whose image is that of Revolve.
        assert!((number(&json, "relative_l2") / whole - 1.0).abs() < 1e-4, "{whole}: {json}");
    }
}

/// A session keeps the strips of all states but the last, which is live, and nothing else.
#[test]
fn strips_are_all_that_is_kept() {
    for (of, out) in [(PLANE, "strips-2d"), (VOLUME, "strips-3d")] {
        let ([n1, n2, n3], steps) = of;
        let faces = if n3 == 1 { n1 + n2 } else { n1 * n2 + n1 * n3 + n2 * n3 };
        let kept = (SHOTS * (steps - 1)) as f64;
        let json = reconstruct(of, out, &[]);
        for key in ["saves", "restores", "forward_steps"] {
            assert_eq!(number(&json, key), kept, "{key}: {json}");
        }
        assert_eq!(number(&json, "raw_bytes"), kept * (2 * 4 * faces * 4) as f64, "{json}");
        assert_eq!(value(&json, "algorithm"), "store-all");
        // The session's memory at its peak: strips of one shot, each with at most 256 bytes beside it.
        let peak = number(&json, "peak_host_bytes") + number(&json, "peak_device_bytes");
        let strips = number(&json, "raw_bytes") / SHOTS as f64;
        assert!(peak >= strips && peak <= strips + 256.0 * kept, "{peak} {strips}");
    }
}

/// Strips come back with their bits from every tier, and with a lossless codec.
#[test]
fn images_do_not_depend_on_tiers() {
    for (of, out, host) in [(PLANE, "tiers-2d", "100K"), (VOLUME, "tiers-3d", "1M")] {
        let image = |config: &[(&str, &str)]| {
            let json = reconstruct(of, out, config);
            (value(&json, "image_hash").to_string(), number(&json, "disk_bytes"))
        };
        let (hash, on_disk) = image(&[]);
        assert_eq!(on_disk, 0.0);
        for config in [
            &[("CACHE_CAPACITY", "3"), ("LINK_BANDWIDTH", "1e9")][..],
            &[("CACHE_CAPACITY", "3"), ("POLICY", "lru")],
            &[("HOST_BUDGET", host), ("DISK_BUDGET", "20M")],
            &[("COMPRESSOR", "lossless")],
        ] {
            let (other, on_disk) = image(config);
            assert_eq!(other, hash, "{config:?}");
            assert_eq!(on_disk > 0.0, config[0].0 == "HOST_BUDGET", "{config:?}");
        }
    }
}

/// The error of the image is below the bound of the strips, and ten times smaller with a bound that is.
#[test]
fn errors_are_in_proportion_to_the_bound() {
    for (of, out, codec) in [(PLANE, "bounds-2d", "lorenzo"), (VOLUME, "bounds-3d", "dct")] {
        let part = |bound: &str| {
            let json = reconstruct(of, out, &[("COMPRESSOR", codec), ("ERROR_BOUND", bound)]);
            assert!(number(&json, "stored_bytes") < number(&json, "raw_bytes"), "{json}");
            number(&json, "relative_l2") / bound.parse::<f64>().unwrap()
        };
        let parts = ["1e-2", "1e-3", "1e-4"].map(part);
        println!("{of:?} {codec}: errors over bounds {parts:?}");
        assert!(parts.iter().all(|&p| p < 1.0), "{parts:?}");
        assert!(parts.iter().all(|&p| p < 3.0 * parts[0] && p > parts[0] / 3.0), "{parts:?}");
    }
}

/// Rows of a sweep are compared with raw strips.
#[test]
fn codecs_of_strips_are_compared() {
    let words = job(VOLUME);
    let more = ["--reconstruct", "--sweep", "--codecs", "none,dct:1e-3", "--json"];
    let (code, json, told) = migrate(&words, &more, "backward-sweep", &[]);
    assert_eq!(code, 0, "{told}");
    let rows: Vec<&str> = json.split("{\"codec\": ").skip(1).collect();
    assert_eq!([rows.len(), number(rows[0], "relative_l2") as usize], [2, 0], "{json}");
    let [raw, coded] = [0, 1].map(|row: usize| number(rows[row], "raw_bytes"));
    assert_eq!([raw, coded], [(SHOTS * 89 * 8 * (12 * 16 + 12 * 20 + 16 * 20) * 4) as f64; 2]);
    let error = number(rows[1], "relative_l2");
    assert!(error > 0.0 && error < 1e-3 && number(rows[1], "ratio") > 1.0, "{json}");
}

/// Workers agree on how states are kept, as the bits of an image depend on it.
#[test]
fn workers_compute_the_same_image() {
    let words = job(PLANE);
    let shared = common::tempdir("backward-claim");
    let claim = ["--claim", shared.to_str().unwrap()];
    migrate(&words, &["--reconstruct", "--verify"], "backward-alone", &[]);
    let reconstructing = [&claim[..], &["--reconstruct", "--only", "1"]].concat();
    let (code, _, told) = migrate(&words, &reconstructing, "backward-claimed", &[]);
    assert_eq!(code, 0, "{told}");
    let (code, _, told) = migrate(&words, &claim, "backward-claimed", &[]);
    assert!(code != 0 && told.contains("--reconstruct"), "{code}: {told}");
    let (code, _, told) =
        migrate(&words, &[&claim[..], &["--reconstruct"]].concat(), "backward-claimed", &[]);
    assert_eq!(code, 0, "{told}");
    let [alone, claimed] =
        ["backward-alone", "backward-claimed"].map(|out| floats(&folder(out).join("image.f32")));
    assert_eq!(alone, claimed);
}

#[test]
fn what_cannot_be_reconstructed_is_refused() {
    let words = job(PLANE);
    let refused = |more: &[&str], config: &[(&str, &str)]| {
        let (code, out, told) =
            migrate(&words, &[&["--reconstruct"], more].concat(), "backward-refused", config);
        assert!(out.is_empty(), "{out}");
        (code, told)
    };
    for (more, part) in [
        (&["--gradient"][..], "--reconstruct --gradient: a gradient also sums over the sponge"),
        (&["--every", "2"], "--reconstruct --every 2: a state is computed from the next one"),
        (&["--zero-copy"], "--reconstruct --zero-copy: strips are parts of a field"),
        (&["--tune"], "--reconstruct --tune: there is one plan only"),
        (&["--dump-snapshots", "3"], "--reconstruct --dump-snapshots 3: there is no image"),
    ] {
        let (code, told) = refused(more, &[]);
        assert!(code == 2 && told.contains(part), "{more:?}: {code}: {told}");
    }
    for (config, expected, part) in [
        (("HOST_BUDGET", "100K"), 2, "store-all keeps 119 states"),
        (("CHECK", "1"), 1, "no step can start from strips, as the key check needs it"),
    ] {
        let (code, told) = refused(&[], &[config]);
        assert!(code == expected && told.contains(part), "{config:?}: {code}: {told}");
    }
}

/// Keys that would keep fewer states, or others, are named and do not count.
#[test]
fn other_plans_do_not_count() {
    let (_, json, told) = migrate(
        &job(PLANE),
        &["--reconstruct", "--json"],
        "backward-keys",
        &[&FEW_SNAPSHOTS[..], &[("ZERO_COPY", "1")]].concat(),
    );
    assert_eq!(value(&json, "algorithm"), "store-all");
    assert_eq!(
        value(&json, "image_hash"),
        value(&reconstruct(PLANE, "backward-keys", &[]), "image_hash")
    );
    for part in ["checkpointing_algorithm = revolve does not count", "zero_copy = 1 does not count"]
    {
        assert!(told.contains(part), "{told}");
    }
}
