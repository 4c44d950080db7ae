//! Costs that `gpuzip plan` takes from options, files and profiles, and those that it refuses.

use super::predict::RAW;
use super::{gpuzip, json, number, temporary};
use gpuzip::predict::Profile;
use std::path::PathBuf;

/// Numbers that no machine has are refused by name, and none of them ends the command.
#[test]
fn absurd_costs_are_refused() {
    let base = "plan --steps 60 --state-bytes 1M --device-budget 4M";
    for (options, part) in [
        ("--forward-ms 1e300", "forward_ms"),
        ("--forward-ms inf", "forward_ms"),
        ("--backward-ms 1e13", "backward_ms"),
        ("--link-gbs 1e-300", "h2d_gbs"),
        ("--link-gbs 1,1e-12", "d2h_gbs"),
        ("--both-gbs 1e-12", "both_gbs"),
        ("--d2d-gbs 5e-324", "d2d_gbs"),
        ("--ratio 1e300", "ratio"),
        ("--ratio 4,1e-9", "worst_ratio"),
        ("--ratio 4 --codec-gbs 1e-99", "compress_gbs"),
        ("--shared-bytes 1M", "--shared-bytes"),
    ] {
        let output = gpuzip(&format!("{base} {options}"));
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && message.contains(part), "{options}: {message}");
    }
    let steps = gpuzip("plan --steps 5000000000 --state-bytes 1M --device-budget 4M");
    assert!(String::from_utf8_lossy(&steps.stderr).contains("2147483647"), "{steps:?}");
    for options in [
        "--steps 60 --state-bytes 1048576T --device-budget 16777215T --host-budget 16777215T",
        "--steps 60 --state-bytes 1 --device-budget 16777215T --ratio 1e9 --forward-ms 1e-300 --link-gbs inf",
        "--steps 60 --state-bytes 1M --device-budget 4M --ranks 4294967295 --ranks-per-node 4294967295 --shots 18446744073709551615",
        "--steps 60 --state-bytes 1048576T --cache 4294967294",
    ] {
        let output = gpuzip(&format!("plan {options}"));
        assert!(matches!(output.status.code(), Some(0 | 2)), "{options}: {output:?}");
    }
}

#[test]
fn impossible_costs_are_refused() {
    for (line, part) in [
        ("plan --steps 9 --state-bytes 1M", "--device-budget"),
        ("plan --state-bytes 1M --device-budget 4M", "give --steps"),
        ("plan --steps 9 --state-bytes 0 --device-budget 4M", "at least one byte"),
        ("plan --steps 9 --state-bytes 99999999999T --device-budget 4M", "2^64"),
        ("plan --steps 9 --state-bytes 1M --device-budget 4M --forward-ms 0", "greater than 0"),
        ("plan --steps 9 --state-bytes 1M --device-budget 4M --link-gbs 3,-1", "greater than 0"),
        ("plan --steps 9 --state-bytes 1M --device-budget 4M --codec-gbs 3", "--ratio"),
        ("plan --steps 9 --forward-ms 3", "--state-bytes"),
        (
            "plan --steps 9 --state-bytes 1M --device-budget 4M --chunk 3",
            "--chunk has no meaning for the search",
        ),
        ("plan --steps 9 --state-bytes 1M --device-budget 4M --policy lru", "published recipes"),
        ("plan --steps 90 --state-bytes 1M --device-budget 1K", "one snapshot takes 1048576 bytes"),
        (
            "plan --steps 90 --state-bytes 1M --device-budget 2M --algorithm revolve --snapshots 9",
            "raise host_budget to 7340032 bytes",
        ),
        ("plan --steps 90 --state-bytes 1M --device-budget 2M --ranks 0", "ranks"),
    ] {
        let output = gpuzip(line);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {message}");
        assert!(message.contains(part), "{line}: {message}");
    }
}

/// Where the directions of the link take turns, the plan counts it, by --both-gbs as by a profile.
/// --link-gbs is another link of the same device, so that its directions take turns as before.
#[test]
fn directions_that_take_turns_are_planned_with() {
    use gpuzip::predict::Profile;
    let job = "plan --steps 3751 --algorithm revolve --snapshots 100 --device-budget 4G --host-budget 149G";
    let speeds = |link: f64, both: f64| {
        let profile = Profile {
            h2d_gbs: link,
            d2h_gbs: link,
            both_gbs: both,
            ..Profile::typical_gpu(1 << 30)
        };
        let file =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("both-{link}-{both}.profile"));
        std::fs::write(&file, profile.to_bytes()).unwrap();
        format!("--profile {}", file.display())
    };
    let seconds = |options: &str| number(&json(&format!("{job} {options}")), "predicted_s");
    let plain = "--state-bytes 1G --link-gbs 8";
    let (apart, in_turns) = (seconds(plain), seconds(&format!("{plain} --both-gbs 8")));
    assert!(in_turns > apart, "{in_turns} {apart}");
    // Nearer to both at once than to turns.
    assert_eq!(seconds(&format!("{plain} --both-gbs 15")), apart);
    assert_eq!((seconds(&speeds(8.0, 8.0)), seconds(&speeds(8.0, 15.0))), (in_turns, apart));
    let other_link = |both| seconds(&format!("{} --link-gbs 8", speeds(25.0, both)));
    assert_eq!((other_link(25.0), other_link(49.0), other_link(0.0)), (in_turns, apart, apart));
    let text =
        String::from_utf8(gpuzip(&format!("{job} {} --link-gbs 8", speeds(25.0, 25.0))).stdout)
            .unwrap();
    assert!(text.contains("--both-gbs") && text.contains("take turns in the profile"), "{text}");
}

/// What an application measured, in place of options; options that are given come first.
#[test]
fn a_measured_profile_is_planned_with() {
    use gpuzip::predict::{CodecProfile, Profile};
    let codec = CodecProfile {
        compressor: 5,
        bound: 1e-3,
        ratio: 20.0,
        // With the margin for snapshots that were not measured, a slot holds a 16th of a state.
        worst_ratio: 18.0,
        compress_gbs: 600.0,
        decompress_gbs: 700.0,
        ..Default::default()
    };
    let profile = Profile {
        forward_ms: 10.0,
        backward_ms: 10.0,
        h2d_gbs: 8.9478485,
        d2h_gbs: 8.9478485,
        d2d_gbs: 223.69621,
        codecs: vec![codec],
        ..Profile::typical_gpu(1 << 30)
    };
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("plan.profile");
    std::fs::write(&file, profile.to_bytes()).unwrap();
    let budgets = "--device-budget 4G --host-budget 149G";
    let by_profile = json(&format!("plan --steps 3751 --profile {} {budgets}", file.display()));
    let by_options = json(&format!("{RAW} --ratio 20,16 --codec-gbs 600,700"));
    for key in ["predicted_s", "stall_s", "device_peak", "host_peak"] {
        assert_eq!(by_profile[key], by_options[key], "{key}");
    }
    assert_eq!(
        (&by_profile["configuration"]["stored"], &by_options["configuration"]["stored"]),
        (&"dct 0.001".into(), &"ratio 20".into())
    );
    let slower = json(&format!(
        "plan --steps 3751 --profile {} {budgets} --forward-ms 20 --backward-ms 20",
        file.display()
    ));
    assert!(number(&slower, "predicted_s") > 1.5 * number(&by_profile, "predicted_s"));
    std::fs::write(&file, "no profile").unwrap();
    for wrong in [file.display().to_string(), "nowhere.profile".into()] {
        let output = gpuzip(&format!("plan --steps 10 --profile {wrong} {budgets}"));
        assert!(
            !output.status.success() && String::from_utf8_lossy(&output.stderr).contains(&wrong),
            "{output:?}"
        );
    }
}

/// `--step-ms`: all steps of one part take its time, and mixed storage is ranked and can be pasted.
#[test]
fn steps_may_vary() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let budgets = "plan --steps 100 --state-bytes 1G --device-budget 4G --host-budget 9G";
    let even = json(&format!("{budgets} --forward-ms 10 --backward-ms 20"));
    let same = json(&format!("{budgets} --step-ms {}", file("even.txt", "10 20\n\n10 20\n")));
    assert_eq!(even["predicted_s"], same["predicted_s"]);
    let late = json(&format!("{budgets} --step-ms {}", file("late.txt", "1 20\n19 20\n")));
    let ideal = number(&late, "predicted_s") / number(&late, "over_problem_ideal");
    assert!((ideal - 3.0).abs() < 0.03, "{ideal}");
    assert_ne!(late["predicted_s"], even["predicted_s"]);
    for (text, part) in
        [("", "no lines"), ("1 2 3\n", "line 1"), ("1 2\n1 x\n", "line 2"), ("1 -2\n", "line 1")]
    {
        let refused = gpuzip(&format!("{budgets} --step-ms {}", file("bad.txt", text)));
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && text.contains(part), "{text}");
    }
}

/// A profile that is accepted can be planned with, whatever the states are: no arithmetic leaves
/// its range (tests are built with checks), and every time that is predicted is a number.
#[test]
fn absurd_profiles_are_refused_or_planned_with() {
    use gpuzip::choice::{search, storage_options, Job, Keep, State};
    use gpuzip::codec::Method;
    use gpuzip::config::Config;
    use gpuzip::predict::{CodecProfile, Profile};
    const NUMBERS: [f64; 17] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        5e-324,
        1e-300,
        1e-9,
        1e-3,
        7.5,
        1e6,
        1e9,
        1e12,
        1e18,
        1e300,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
    ];
    let mut state = 1u64;
    let mut below = |n: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let (mut planned, mut refused) = (0, 0);
    for _ in 0..3000 {
        // Most numbers are possible ones, or hardly any profile would be accepted.
        let mut number = |least: usize, most: usize| {
            if below(20) == 0 {
                NUMBERS[below(17)]
            } else {
                NUMBERS[least + below(most - least)]
            }
        };
        let (forward_ms, backward_ms) = (number(6, 12), number(6, 12));
        let [h2d_gbs, d2h_gbs, d2d_gbs, disk_read_gbs, disk_write_gbs, compress_gbs, decompress_gbs] =
            std::array::from_fn(|_| number(6, 16));
        let (ratio, worst_ratio, bound) = (number(7, 11), number(7, 11), number(6, 10));
        let codec = CodecProfile {
            compressor: 5,
            bound,
            compress_gbs,
            decompress_gbs,
            ratio,
            worst_ratio,
            ..Default::default()
        };
        let state_bytes = [0, 1, 8, 1 << 30, 1 << 60, (1 << 60) + 1, u64::MAX][below(7)];
        let speeds =
            Profile { h2d_gbs, d2h_gbs, d2d_gbs, disk_read_gbs, disk_write_gbs, ..Profile::free() };
        let given = Profile { state_bytes, forward_ms, backward_ms, codecs: vec![codec], ..speeds };
        let Ok(profile) = Profile::from_bytes(&given.to_bytes()) else {
            refused += 1;
            continue;
        };
        let bytes = [1, 8, 1 << 30, 1 << 60, 1 << 63, u64::MAX][below(6)];
        let (device, host) =
            [(1, 0), (0, 9), (1 << 33, 1 << 36), (u64::MAX, u64::MAX), (1 << 62, u64::MAX)]
                [below(5)];
        let steps = 1 + below(40) as u32;
        for is_coded in [false, true] {
            let config = Config::default().with(|c| {
                (c.tiers.device_budget, c.tiers.host_budget) = (device, host);
                c.codec.settings.method = if is_coded { Method::Dct } else { Method::None };
                // The bound that was drawn is not the configured one: the figures hold for all bounds.
                let codecs = vec![CodecProfile { bound: 0.0, ..profile.codecs[0].clone() }];
                c.device.profile = Some(Profile { codecs, ..profile.clone() });
            });
            let job = Job::new(config, State::Bytes { all: bytes, previous: 0 });
            let tiers = storage_options(&job).unwrap().swap_remove(0);
            if let Ok(found) = search(steps, u32::MAX, &[vec![tiers]], Keep::Families) {
                assert!(found.iter().all(|c| c.simulation.makespan.is_finite()), "{profile:?}");
                planned += 1;
            }
        }
    }
    assert!(planned > 300 && refused > 300, "{planned} planned, {refused} refused");
}

/// A code on a CPU: one number of bytes, no link, and the plan of a session on the host backend whose device
/// budget these bytes are.
#[test]
fn a_cpu_has_one_memory_and_no_link() {
    let bytes = Profile::typical_host(100 << 20, 0.0).to_bytes();
    let profile = temporary("cpu.profile", &bytes).display().to_string();
    for more in ["", " --ratio 10,8 --codec-gbs 1", " --zero-copy", " --shared-bytes 50M"] {
        let cpu =
            json(&format!("plan --steps 1000 --state-bytes 100M --cpu --host-budget 2G{more}"));
        let device =
            json(&format!("plan --steps 1000 --profile {profile} --device-budget 2G{more}"));
        assert_eq!(cpu["ranked"], device["ranked"], "{more}");
        let lines = cpu["config"].to_string();
        assert!(lines.contains("backend = host") && lines.contains("device_budget = 2147483648"));
        assert!(!lines.contains("host_budget") && cpu["costs"].get("--link-gbs").is_none());
    }
    let disk = "plan --steps 3000 --state-bytes 100M --cpu --host-budget 2G --disk-budget 1T";
    let found = json(&format!("{disk} --disk-gbs 50"));
    let peak = |name: &str| found[name].as_u64().unwrap();
    assert!(peak("disk_peak") > 0 && peak("device_peak") + peak("host_peak") <= 2 << 30, "{found}");
    for other in ["--link-gbs 10", "--device-budget 1G", "--both-gbs 30"] {
        let refused = gpuzip(&format!("{disk} {other}"));
        let message = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && message.contains("--cpu"), "{message}");
    }
}

/// Of a code on a CPU the memory that is given is the only key that an error names, also beside a disk, which
/// never makes a plan slower.
#[test]
fn a_disk_of_a_cpu_is_no_loss_with_little_memory() {
    let (mut refused, mut planned) = (0, 0);
    for more in ["", " --zero-copy", " --shared-bytes 50M", " --ratio 4", " --zero-copy --ratio 4"]
    {
        for memory in ["30M", "90M", "150M", "450M", "590M", "650M", "750M", "1G"] {
            let line =
                format!("plan --steps 60 --state-bytes 100M --cpu --host-budget {memory}{more}");
            let with_disk = format!("{line} --disk-budget 20G --disk-gbs 0.2");
            for line in [&line, &with_disk] {
                let output = gpuzip(line);
                let message = String::from_utf8_lossy(&output.stderr);
                if !output.status.success() {
                    let names = |key: &str| message.contains(key);
                    assert!(names("host_budget") && !names("device_budget"), "{line}: {message}");
                    refused += 1;
                }
            }
            if gpuzip(&line).status.success() {
                let [without, with] =
                    [&line, &with_disk].map(|line| json(line)["predicted_s"].as_f64().unwrap());
                assert!(with <= without * (1.0 + 1e-9), "{with_disk}: {with} beside {without}");
                planned += 1;
            }
        }
    }
    assert!(refused > 5 && planned > 20, "{refused} refused, {planned} planned");
}

/// Where no option names a device, the plan is for a CPU and says so; each option of a device, or the
/// profile of a GPU, means a GPU.
#[test]
fn without_a_device_a_cpu_is_planned_for() {
    let plain = "plan --steps 400 --state-bytes 10M --host-budget 200M";
    let line = |more: &str| match more.contains("--profile") {
        true => format!("{} {more}", plain.replace(" --state-bytes 10M", "")),
        false => format!("{plain} {more}"),
    };
    let profile = |name: &str, profile: Profile| {
        let file = temporary(name, &profile.to_bytes());
        format!("--profile {}", file.display())
    };
    let gpu = profile("is-gpu.profile", Profile::typical_gpu(10 << 20));
    let host =
        profile("is-host.profile", Profile { backend: 1, ..Profile::typical_host(10 << 20, 0.0) });
    for (more, source) in [
        ("", "assumed: no option names a device"),
        ("--cpu", "given"),
        ("--forward-ms 3 --zero-copy --disk-budget 1G", "assumed: no option names a device"),
        (&host, "from the profile"),
    ] {
        let found = json(&line(more));
        assert!(found["costs"]["--cpu"]["source"].as_str().unwrap().contains(source), "{found}");
        assert!(found["costs"].get("--link-gbs").is_none(), "{found}");
        assert!(found["config"].to_string().contains("backend = host"), "{found}");
        let text = String::from_utf8(gpuzip(&line(more)).stdout).unwrap();
        assert!(text.contains("one memory, no link") && text.contains(source), "{text}");
    }
    let assumed = json(plain);
    assert_eq!(assumed["ranked"], json(&format!("{plain} --cpu"))["ranked"]);
    for more in [
        "--gpu a100-80",
        "--device-budget 0",
        "--link-gbs 25",
        "--both-gbs 30",
        "--d2d-gbs 500",
        "--cache 4",
        "--ranks 4 --ranks-per-node 4 --links-per-node 2",
        &gpu,
    ] {
        let found = json(&line(more));
        assert!(found["costs"].get("--cpu").is_none(), "{more}: {found}");
        assert!(!found["costs"]["--link-gbs"].is_null(), "{more}: {found}");
        assert!(!found["config"].to_string().contains("backend = host"), "{more}: {found}");
    }
}

/// Fields and the type of their values stand for the bytes of a snapshot.
#[test]
fn fields_have_bytes() {
    let rest = "--steps 60 --device-budget 1G --host-budget 4G";
    for (fields, bytes) in [
        ("--fields 400x400x100", 4 * 16_000_000u64),
        ("--fields 2*400x400x100 --type f64", 2 * 8 * 16_000_000),
        ("--fields 400x400x100,400x400x100", 2 * 4 * 16_000_000),
        ("--fields 3*512x512,4096 --type f32", 4 * (3 * 512 * 512 + 4096)),
        // Each field takes whole units of 256 bytes, as in a session.
        ("--fields 3*707", 3 * 3072),
    ] {
        let by_fields = json(&format!("plan {fields} {rest}"));
        let by_bytes = json(&format!("plan --state-bytes {bytes} {rest}"));
        assert_eq!(by_fields["ranked"], by_bytes["ranked"], "{fields}");
        assert_eq!(by_fields["costs"]["--state-bytes"]["value"], bytes.to_string(), "{fields}");
        assert!(by_bytes["costs"].get("--state-bytes").is_none());
    }
    for (options, part) in [
        ("--fields 4x0", "400x400x400"),
        ("--fields 4x4x4x4", "one to three extents"),
        ("--fields 4x4,", "one to three extents"),
        ("--fields 0*4x4", "one to three extents"),
        ("--fields 4294967296x4294967296x4294967296", "smaller extents"),
        ("--fields 1000*4x4,25*4", "at most 1024 fields"),
        ("--fields 4294967296x4000000000 --type f64", "smaller extents"),
        ("--fields 4x4 --state-bytes 64", "--state-bytes"),
        ("--fields 4x4 --type half", "possible values: f32, f64"),
        ("--state-bytes 64 --type f64", "--type"),
    ] {
        let output = gpuzip(&format!("plan {options} {rest}"));
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && message.contains(part), "{options}: {message}");
    }
}

/// A GPU and drives by name are the speeds that they stand for; what is given comes first.
#[test]
fn hardware_has_a_name() {
    let rest = "plan --steps 300 --state-bytes 1G --device-budget 4G --host-budget 20G";
    let same = |named: &str, given: &str| {
        let (by_name, by_number) =
            (json(&format!("{rest} {named}")), json(&format!("{rest} {given}")));
        let (a, b) = (number(&by_name, "predicted_s"), number(&by_number, "predicted_s"));
        assert!((a - b).abs() < 1e-4 * b, "{named}: {a}, {given}: {b}");
        by_name
    };
    // The library's assumed GPU is an A100 with 40 GB, whose step runs through a state at 400 GB/s.
    let found = same("--gpu a100-40", "");
    let sources = found["costs"]["--gpu"]["source"].as_str().unwrap();
    assert!(sources.contains("1555 GB/s") && sources.contains("PCIe 4"), "{found}");
    let forward = (1u64 << 30) as f64 / 400e6 / (900.0 / 1555.0);
    let v100 = format!(
        "--forward-ms {forward} --backward-ms {} --link-gbs 12.5 --d2d-gbs {}",
        2.5 * forward,
        500.0 * 900.0 / 1555.0
    );
    same("--gpu v100-32", &v100);
    same("--gpu v100-32 --link-gbs 40", &v100.replace("12.5", "40"));
    same(
        "--gpu h100-80 --forward-ms 3 --d2d-gbs 400",
        "--forward-ms 3 --d2d-gbs 400 --link-gbs 50",
    );
    let text = String::from_utf8(gpuzip(&format!("{rest} --gpu h100-80")).stdout).unwrap();
    assert!(text.contains("h100-80") && text.contains("NVIDIA H100 data sheet"), "{text}");

    let disk = "--link-gbs 50 --disk-budget 200G";
    let drives = same(&format!("{disk} --nvme 4"), &format!("{disk} --disk-gbs 26,14"));
    assert!(drives["costs"]["--disk-gbs"]["source"].as_str().unwrap().contains("PM9A3"));
    let given = same(&format!("{disk} --nvme 4 --disk-gbs 1"), &format!("{disk} --disk-gbs 1"));
    assert_eq!(given["costs"]["--disk-gbs"]["source"], "given");
    for (options, part) in [
        ("--gpu b7", "possible values: v100-32, a100-40, a100-80, h100-80"),
        ("--nvme 4", "--disk-budget"),
        ("--nvme 0 --disk-budget 1G", "from 1 to"),
        ("--gpu a100-80 --cpu", "--cpu"),
    ] {
        let output = gpuzip(&format!("{rest} {options}"));
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && message.contains(part), "{options}: {message}");
    }
}
