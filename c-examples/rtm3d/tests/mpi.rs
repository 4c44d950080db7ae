//! Many ranks compute rtm3d's image, bit for bit: with shots distributed over the ranks and with
//! the grid decomposed into slabs, under OpenMPI and MPICH.

use crate::{common, mpi_rig};
use common::{library, root, run, stdout, tempdir};
use mpi_rig::*;
use std::path::Path;
use std::process::Command;

const REVOLVE: [(&str, &str); 3] = [
    ("GPUZIP_CHECKPOINTING_ALGORITHM", "revolve"),
    ("GPUZIP_CHECKPOINTING_SNAPS", "4"),
    ("GPUZIP_CACHE_CAPACITY", "2"),
];

#[test]
fn any_number_of_ranks_has_the_serial_image() {
    for mpi in mpis().into_iter().map(|name| Mpi::new(name, "image")) {
        for (grid, every) in [(THREE_D, "1"), (TWO_D, "1"), (TWO_D, "7")] {
            let job = [&grid[..], &["--verify", "--every", every]].concat();
            let serial = tempdir("mpi-serial-out");
            let expected = stdout(&run(rtm3d()
                .args(&job)
                .args(["--json", "--out"])
                .arg(&serial)
                .envs(REVOLVE)));
            assert_eq!(value(&expected, "identical"), "true");
            for ranks in [1, 2, 4] {
                for decompose in [&[][..], &["--decompose"], &["--zero-copy"]] {
                    let json = mpi.json(ranks, &[&job[..], decompose].concat(), &REVOLVE);
                    assert_eq!(
                        facts(&json),
                        facts(&expected),
                        "{} on {ranks} ranks, {decompose:?}, every {every}",
                        mpi.name
                    );
                    for file in ["image.f32", "image_filtered.f32", "image.png"] {
                        let bytes = |dir: &Path| std::fs::read(dir.join(file)).unwrap();
                        assert!(
                            bytes(&mpi.dir.join("out")) == bytes(&serial),
                            "{file}: {} on {ranks} ranks, {decompose:?}",
                            mpi.name
                        );
                    }
                }
            }
        }
    }
}

/// MPI counts elements in `int`; the example must send larger planes in parts.
#[test]
fn planes_may_have_more_values_than_an_int_counts() {
    for mpi in
        mpis().into_iter().map(|name| Mpi { name, dir: tempdir(&format!("mpi-plane-{name}")) })
    {
        let mut compile = Command::new(format!("mpicc.{}", mpi.name));
        compile
            .args(["-std=c99", "-Wall", "-Wextra", "-Werror"])
            .arg(root().join("c-examples/rtm3d/tests/mpi_plane.c"));
        compile
            .arg(root().join("c-examples/rtm3d_mpi/transfer.c"))
            .arg("-I")
            .arg(root().join("c-examples/rtm3d_mpi"));
        // The program takes the name rtm3d_mpi, so that `Mpi::ranks` runs it.
        run(compile
            .arg("-I")
            .arg(root().join("c-examples/rtm3d"))
            .arg("-o")
            .arg(mpi.dir.join("rtm3d_mpi")));
        assert_eq!(
            stdout(&mpi.ranks(1, &[], &[])),
            format!("{}\n", 60_000u64 * 70_000 * 4),
            "{}",
            mpi.name
        );
    }
}

/// A budget is the memory of a node, shared by its ranks: two ranks with twice the budget plan as
/// one rank does. Ranks with slabs of unequal size plan one schedule.
#[test]
fn budgets_are_of_a_node() {
    let Some(mpi) = mpis().pop().map(|name| Mpi::new(name, "budgets")) else { return };
    let with = |ranks, budget, arguments: &[&str]| {
        mpi.json(
            ranks,
            &[&THREE_D[..], arguments].concat(),
            &[("GPUZIP_DEVICE_BUDGET", budget), ("GPUZIP_HOST_BUDGET", budget)],
        )
    };
    let [one, two, half] = [with(1, "3M", &[]), with(2, "6M", &[]), with(2, "3M", &[])];
    let plan = |json: &str| {
        (
            value(json, "snapshots").parse::<u32>().unwrap(),
            value(json, "cache").parse::<u32>().unwrap(),
        )
    };
    assert_eq!(plan(&one), plan(&two));
    assert!(plan(&half).0 < plan(&one).0 && plan(&half).1 < plan(&one).1, "{half}");
    let slabs = with(3, "3M", &["--decompose", "--verify"]);
    assert_eq!(
        [value(&slabs, "identical"), value(&slabs, "image_hash")],
        ["true", value(&one, "image_hash")]
    );
    assert!(plan(&slabs).0 > 1 && plan(&slabs).0 < 24, "{slabs}");
}

/// Rank 0 measures a profile, and all ranks plan by this profile: with lossy snapshots, the image
/// equals that of one rank with the same profile; another codec or schedule on any rank would
/// change the image. Only one raw snapshot fits the budget, so that all plans choose a codec.
#[test]
fn ranks_plan_by_one_profile() {
    let job = [&THREE_D[..8], &["--steps", "60", "--shots", "4"]].concat();
    let auto = |budget: &'static str| {
        [
            ("GPUZIP_DEVICE_BUDGET", budget),
            ("GPUZIP_COMPRESSOR", "auto"),
            ("GPUZIP_ERROR_BOUND", "1e-2"),
            ("GPUZIP_BACKEND", "1"),
        ]
    };
    for mpi in mpis().into_iter().map(|name| Mpi::new(name, "profile")) {
        let json = mpi.json(2, &[&job[..], &["--tune"]].concat(), &auto("800K"));
        let bytes = value(&json, "profile").as_bytes();
        let digit =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        let file = mpi.dir.join("profile");
        std::fs::write(&file, bytes.chunks(2).map(digit).collect::<Vec<u8>>()).unwrap();
        let mut alone = rtm3d();
        alone
            .args(&job)
            .args(["--json", "--out"])
            .arg(mpi.dir.join("alone"))
            .envs(auto("400K"))
            .env("GPUZIP_PROFILE_PATH", &file);
        let alone = stdout(&run(&mut alone));
        for key in [
            "image_hash",
            "illumination_hash",
            "algorithm",
            "snapshots",
            "forward_steps",
            "stored_bytes",
            "raw_bytes",
        ] {
            assert_eq!(value(&json, key), value(&alone, key), "{key}: {}", mpi.name);
        }
        // The plan depends on the measured speeds; only the plan before the measurement is known.
        assert_eq!(value(&json, "snapshots_before"), "1");
    }
}

/// Ranks with slabs take the same actions in the shot that is measured and in later shots.
#[test]
fn slabs_plan_by_one_profile() {
    let Some(mpi) = mpis().pop().map(|name| Mpi::new(name, "slab-profile")) else { return };
    let budget = [("GPUZIP_DEVICE_BUDGET", "2M"), ("GPUZIP_HOST_BUDGET", "1M")];
    let plain = mpi.json(3, &[&THREE_D[..], &["--decompose"]].concat(), &budget);
    let tuned =
        mpi.json(3, &[&THREE_D[..], &["--decompose", "--tune", "--verify"]].concat(), &budget);
    assert_eq!(
        [value(&tuned, "identical"), value(&tuned, "image_hash")],
        ["true", value(&plain, "image_hash")]
    );
    assert!(value(&tuned, "forward_ms").parse::<f64>().unwrap() > 0.0);
}

/// The schedule two-level depends on the capacity of the cache, and a budget gives slabs of unequal
/// size different capacities: ranks that followed schedules of their own would wait for each
/// other's halos for ever.
#[test]
fn slabs_of_unequal_size_keep_in_step() {
    let Some(mpi) = mpis().pop().map(|name| Mpi::new(name, "step")) else { return };
    let two_level =
        [("GPUZIP_CHECKPOINTING_ALGORITHM", "two-level"), ("GPUZIP_HOST_BUDGET", "20M")];
    let mut images = std::collections::BTreeSet::new();
    // Budgets for caches of 0 or 1 slots and of 1 or 2 slots, by the size of the slab; 9 snapshots,
    // or as many as fit.
    for (device, snapshots) in [("500K", "9"), ("1M", "9"), ("500K", "0")] {
        let config = [
            &two_level[..],
            &[("GPUZIP_DEVICE_BUDGET", device), ("GPUZIP_CHECKPOINTING_SNAPS", snapshots)],
        ]
        .concat();
        let json = mpi.json(3, &[&THREE_D[..], &["--decompose", "--verify"]].concat(), &config);
        assert_eq!(
            ["identical", "algorithm"].map(|key| value(&json, key)),
            ["true", "two-level"],
            "{json}"
        );
        images.insert(value(&json, "image_hash").to_string());
    }
    assert_eq!(images.len(), 1);
}

/// In a budget of 80 MB, slabs of 100 and 101 planes are planned with 20 and 19 snapshots. After
/// gpuzip_agree both ranks have 19 snapshots; then they compare their actions one by one, as ranks
/// that exchange halos need.
#[test]
fn ranks_with_different_plans_agree_or_fail_together() {
    for mpi in
        mpis().into_iter().map(|name| Mpi { name, dir: tempdir(&format!("mpi-agree-{name}")) })
    {
        let lib = library().display();
        let mut compile = Command::new(format!("mpicc.{}", mpi.name));
        compile
            .args(["-std=c99", "-Wall", "-Wextra", "-Werror"])
            .arg(root().join("c-examples/rtm3d/tests/mpi_agree.c"));
        compile.arg("-I").arg(root().join("include")).arg("-o").arg(mpi.dir.join("rtm3d_mpi"));
        run(compile.args([&format!("-L{lib}"), "-lgpuzip", &format!("-Wl,-rpath,{lib}")]));
        assert_eq!(
            stdout(&mpi.ranks(2, &[], &[])),
            "20 and 19 snapshots, then 19; in step\n",
            "{}",
            mpi.name
        );
        // Rank 1 has no session: both ranks get an error that names the call, and no rank waits.
        let failed = mpi.ranks(2, &["fail"], &[]);
        let text = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(
            text.contains("rank 0: gpuzip_agree: another rank has no schedule"),
            "{}: {text}",
            mpi.name
        );
        assert!(text.contains("rank 1: gpuzip_init: "), "{}: {text}", mpi.name);
        assert_eq!(failed.status.code(), Some(3), "{}: {text}", mpi.name);
    }
}

/// On the software CUDA driver, three ranks get the first, the second and the first of two devices,
/// or all of them the device that GPUZIP_DEVICE names.
#[test]
fn ranks_share_the_gpus_of_their_node() {
    let Some(mpi) = mpis().pop().map(|name| Mpi::new(name, "gpus")) else { return };
    let rtm3d_mpi = root().join("c-examples/rtm3d_mpi");
    let lib = library().display();
    let mut compile = Command::new(format!("mpicc.{}", mpi.name));
    compile
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-fopenmp"])
        .arg(root().join("c-examples/rtm3d/tests/mpi_node.c"))
        .arg(rtm3d_mpi.join("node.c"));
    for part in [
        "checkpoint",
        "description",
        "handed",
        "message",
        "new_file",
        "setting",
        "shot",
        "shot_file",
        "propagator",
        "grid",
        "restart",
    ] {
        compile.arg(root().join(format!("c-examples/rtm3d/{part}.c")));
    }
    for include in [root().join("include"), root().join("c-examples/rtm3d"), rtm3d_mpi] {
        compile.arg("-I").arg(include);
    }
    // The program takes the name rtm3d_mpi, so that `Mpi::ranks` runs it.
    run(compile.arg("-o").arg(mpi.dir.join("rtm3d_mpi")).args([
        &format!("-L{lib}"),
        "-lgpuzip",
        &format!("-Wl,-rpath,{lib}"),
        "-lm",
        "-ldl",
    ]));
    let driver = std::env::current_exe().unwrap().with_file_name("libcuda_emu.so");
    std::os::unix::fs::symlink(driver, mpi.dir.join("libcuda.so.1")).unwrap();
    let path = mpi.dir.display().to_string();
    let cuda = [
        ("GPUZIP_BACKEND", "2"),
        ("GPUZIP_DEVICE_BUDGET", "3000"),
        ("GPUZIP_HOST_BUDGET", "9001"),
        ("LD_LIBRARY_PATH", &path),
        ("CUDA_EMU_DEVICES", "2"),
    ];
    let lines = |devices: [u32; 3]| -> String {
        devices
            .iter()
            .enumerate()
            .map(|(rank, k)| format!("rank {rank}: device {k}, 1000 and 3000 bytes\n"))
            .collect()
    };
    assert_eq!(stdout(&mpi.ranks(3, &[], &cuda)), lines([1, 2, 1]));
    assert_eq!(
        stdout(&mpi.ranks(3, &[], &[&cuda[..], &[("GPUZIP_DEVICE", "2")]].concat())),
        lines([2, 2, 2])
    );
    assert_eq!(
        stdout(&mpi.ranks(3, &[], &[&cuda[..], &[("GPUZIP_BACKEND", "1")]].concat())),
        lines([0, 0, 0])
    );
    let none = mpi.ranks(2, &[], &[&cuda[..], &[("CUDA_EMU_DEVICES", "0")]].concat());
    let text = String::from_utf8_lossy(&none.stderr);
    assert!(!none.status.success() && text.contains("sees no GPU"), "{text}");
}

#[test]
fn what_is_wrong_is_said_once_and_ends_every_rank() {
    for mpi in mpis().into_iter().map(|name| Mpi::new(name, "errors")) {
        for (arguments, config, part) in [
            (&["--stepz", "3"][..], &[][..], "--stepz"),
            (&["--config", "/no/such/config"], &[], "/no/such/config"),
            (&["--decompose", "--n3", "9"], &[], "run fewer ranks"),
            (&["--decompose", "--zero-copy"], &[], "--zero-copy"),
            (&["--sweep"], &[], "--sweep"),
            (&["--gradient"], &[], "--gradient"),
            (&[], &[("GPUZIP_DEVICE_BUDGET", "1")], "device_budget = 1: not a byte"),
        ] {
            let output = mpi.ranks(3, &[&THREE_D[..], arguments].concat(), config);
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{} {arguments:?}: {text}", mpi.name);
            assert_eq!(
                text.matches("rtm3d_mpi: ").count(),
                1,
                "{} {arguments:?}: {text}",
                mpi.name
            );
            assert!(
                text.contains(part) && output.stdout.is_empty(),
                "{} {arguments:?}: {text}",
                mpi.name
            );
        }
    }
}

/// A shot that fails on one rank, here in the middle for want of memory, ends all other ranks.
#[test]
fn a_failure_in_a_shot_ends_every_rank() {
    let config = |host| {
        [
            ("GPUZIP_CHECKPOINTING_ALGORITHM", "revolve"),
            ("GPUZIP_COMPRESSOR", "dct"),
            ("GPUZIP_COMPRESSION_FACTOR", "200"),
            ("GPUZIP_HOST_BUDGET", host),
        ]
    };
    for mpi in mpis().into_iter().map(|name| Mpi::new(name, "failure")) {
        for (decompose, host) in [(&[][..], "300K"), (&["--decompose"], "60K")] {
            // MPICH's launcher may end before it has passed on all that the rank wrote that ends the
            // others: then run the program again.
            let mut text = String::new();
            for _ in 0..4 {
                let output = mpi.ranks(3, &[&THREE_D[..], decompose].concat(), &config(host));
                text = String::from_utf8_lossy(&output.stderr).into_owned();
                assert_eq!(output.status.code(), Some(1), "{} {decompose:?}: {text}", mpi.name);
                if text.contains("raise host_budget") {
                    break;
                }
            }
            assert!(
                text.contains("raise host_budget") && !text.contains("imeout"),
                "{} {decompose:?}: {text}",
                mpi.name
            );
        }
    }
}

#[test]
fn the_library_knows_no_mpi() {
    let needed = stdout(&run(Command::new("ldd").arg(library().join("libgpuzip.so"))));
    assert!(!needed.contains("libmpi"), "{needed}");
}
