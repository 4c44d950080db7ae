//! Gradients: independent of the schedule, and right by a Taylor test.

use super::*;

const GRADIENT_2D: [&str; 13] = [
    "--n1",
    "24",
    "--n2",
    "40",
    "--n3",
    "1",
    "--steps",
    "200",
    "--shots",
    "2",
    "--border",
    "8",
    "--gradient",
];
const GRADIENT_3D: [&str; 13] = [
    "--n1",
    "16",
    "--n2",
    "12",
    "--n3",
    "20",
    "--steps",
    "160",
    "--shots",
    "2",
    "--border",
    "6",
    "--gradient",
];

#[test]
fn gradients_do_not_depend_on_schedule_policy_or_cache() {
    for (args, out) in [(&GRADIENT_2D, "gradient-2d"), (&GRADIENT_3D, "gradient-3d")] {
        let mut found = BTreeSet::new();
        for algorithm in ["revolve", "uniform", "zcut", "two-level", "hrevolve", "store-all"] {
            for (cache, policy) in
                [("0", "lru"), ("1", "clairvoyant"), ("3", "lru"), ("8", "clairvoyant")]
            {
                let config = [
                    ("CHECKPOINTING_ALGORITHM", algorithm),
                    ("CHECKPOINTING_SNAPS", "7"),
                    ("CACHE_CAPACITY", cache),
                    ("POLICY", policy),
                ];
                let json = verify(args, out, &config);
                found.insert(["gradient_hash", "misfit"].map(|key| value(&json, key).to_string()));
            }
        }
        assert_eq!(found.len(), 1, "one gradient whatever the schedule and the cache: {found:?}");
    }
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rtm/gradient-3d");
    assert_eq!(floats(&dir.join("gradient.f32")).len(), 16 * 12 * 20);
    assert!(std::fs::read(dir.join("gradient.png")).unwrap().starts_with(b"\x89PNG"));
}

/// The convergence rates in the list of a key, without those that are `null`: rtm3d does not judge
/// them.
fn rates(json: &str, key: &str) -> Vec<f64> {
    let list = json.split_once(&format!("\"{key}\": [")).unwrap().1.split(']').next().unwrap();
    list.split(", ").filter(|rate| *rate != "null").map(|rate| rate.parse().unwrap()).collect()
}

/// The Taylor test: remainders are of first order without the gradient's term and of second order
/// with it. The gradient is computed from few snapshots.
#[test]
fn gradients_pass_a_taylor_test() {
    let double = build_with("rtm-f64", "rtm3d", &["REAL=double", "CFLAGS=-O1 -Werror"]);
    for (args, out) in [(&GRADIENT_2D, "taylor-2d"), (&GRADIENT_3D, "taylor-3d")] {
        for (mut command, least, tolerance) in [(quiet(&double), 5, 0.02), (rtm3d(), 2, 0.1)] {
            let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rtm").join(out);
            command.args(args).args(["--taylor", "--verify", "--json", "--out"]).arg(out);
            command.envs(FEW_SNAPSHOTS.map(|(key, value)| (format!("GPUZIP_{key}"), value)));
            let json = stdout(&run(&mut command));
            assert_eq!(
                [value(&json, "identical"), value(&json, "right"), value(&json, "algorithm")],
                ["true", "true", "revolve"]
            );
            let (first, second) = (rates(&json, "first_rates"), rates(&json, "second_rates"));
            assert!(
                first.len() == 5 && first.iter().all(|rate| (rate - 1.0).abs() < 0.1),
                "the slope is no part of it: {json}"
            );
            assert!(
                second.len() >= least && second.iter().all(|rate| (rate - 2.0).abs() < tolerance),
                "{json}"
            );
        }
    }
}

/// With lossy snapshots (bound 1e-3 by default) the relative L2 error of the gradient is below
/// 0.03.
#[test]
fn lossy_snapshots_leave_a_gradient() {
    for (args, out) in [(&GRADIENT_2D, "lossy-2d"), (&GRADIENT_3D, "lossy-3d")] {
        let gradient = |codec: &str| {
            let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rtm").join(out);
            let config = FEW_SNAPSHOTS.map(|(key, value)| (format!("GPUZIP_{key}"), value));
            let json = stdout(&run(rtm3d()
                .args(args)
                .args(["--json", "--out"])
                .arg(&dir)
                .envs(config)
                .env("GPUZIP_COMPRESSOR", codec)));
            (floats(&dir.join("gradient.f32")), value(&json, "misfit").to_string())
        };
        let ((raw, misfit), (lossy, same)) = (gradient("none"), gradient("dct"));
        assert_eq!(misfit, same, "data come from the first pass, which restores nothing");
        let norm = |values: &mut dyn Iterator<Item = f32>| {
            values.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt()
        };
        let error =
            norm(&mut raw.iter().zip(&lossy).map(|(a, b)| a - b)) / norm(&mut raw.iter().copied());
        println!("{out}: relative L2 {error:.2e}");
        assert!(error > 0.0 && error < 0.03, "{out}: {error}");
    }
}
