//! The example `rtm3d_cuda` as a whole on the software CUDA driver: its shots have the images of
//! rtm3d on the CPU, bit for bit. `sh tests/on_ptx.sh` runs its kernels on NVIDIA's PTX.

use crate::common::{self, emu, example};
use common::{run, stdout, tempdir};
use std::path::Path;
use std::process::Command;

/// The options of a shot in 2-D and of one in 3-D, on grids that tiles, halos and chunks do not divide.
const SHOTS: [&str; 2] = [
    "--n1 24 --n2 40 --n3 1 --steps 30 --border 8",
    "--n1 19 --n2 9 --n3 14 --steps 12 --border 5",
];

/// Settings of the library: snapshots as they are, compressed ones, zero copy, a shared time level.
const SETTINGS: [&[(&str, &str)]; 4] = [
    &[
        ("CHECKPOINTING_ALGORITHM", "revolve"),
        ("CHECKPOINTING_SNAPS", "4"),
        ("CACHE_CAPACITY", "2"),
    ],
    &[("CHECKPOINTING_ALGORITHM", "revolve"), ("CHECKPOINTING_SNAPS", "4"), ("COMPRESSOR", "dct")],
    &[("CHECKPOINTING_ALGORITHM", "revolve"), ("CHECKPOINTING_SNAPS", "5"), ("ZERO_COPY", "1")],
    &[("CHECKPOINTING_ALGORITHM", "store-all"), ("CACHE_CAPACITY", "3"), ("SHARED_LEVELS", "1")],
];

/// Returns the hash of the image of a shot.
fn hash(mut command: Command, settings: &[(&str, &str)]) -> String {
    command.env("OMP_WAIT_POLICY", "passive");
    for (key, value) in settings {
        command.env(format!("GPUZIP_{key}"), value);
    }
    let json = stdout(&run(&mut command));
    json[json.find("\"image_hash\"").unwrap()..][..80].to_string()
}

fn shot(program: &Path, options: &str, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(options.split(' ')).args(["--shots", "1", "--json", "--out"]).arg(dir.join("out"));
    command
}

#[test]
fn a_shot_has_the_image_of_the_cpu() {
    if !common::have("g++") || !common::have("make") {
        return;
    }
    let dir = tempdir("rtm3d-cuda");
    let kernels = dir.join("kernels.cu");
    std::fs::write(&kernels, example::kernels()).unwrap();
    let folder = emu::folder_with("rtm3d-cuda", &emu::driver());
    let more = [
        format!("-DKERNELS=\"{}\"", kernels.display()),
        format!("-L{}", folder.display()),
        "-l:libcuda.so.1".into(),
    ];
    let (on_driver, rtm3d) = example::build(
        &dir,
        "c-examples/rtm3d_cuda/tests/cuda-runtime",
        &["migrate", "rtm3d_cuda"],
        &more,
    );
    for (options, seed) in SHOTS.into_iter().zip(1u32..) {
        for (settings, number) in SETTINGS.into_iter().zip(1u32..) {
            let mut command = shot(&on_driver, options, &dir);
            command
                .env("LD_LIBRARY_PATH", &folder)
                .env("CUDA_EMU_SEED", (10 * seed + number).to_string())
                .env("GPUZIP_CACHE_DIR", emu::images())
                .env("GPUZIP_BACKEND", "cuda");
            // On the CPU, fields are in the library's memory only where a setting says so.
            let of_cpu = hash(shot(&rtm3d, options, &dir), settings);
            assert_eq!(hash(command, settings), of_cpu, "{options}, {settings:?}");
        }
    }
}
