//! Whole shots of rtm3d_cuda on the software CUDA driver in virtual time: kernels, copies and transfers
//! take what benches/roofline.py says of states of 0.92 GB, and a shot takes what `gpuzip plan`
//! predicts. `make end-to-end` writes the times of long shots.

use crate::common::{self, emu, example};
use common::{have, library, root, run, stdout, tempdir};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// The variable by which this test writes the times of shots with the steps of GPUZIP's Salt data set.
const UPDATE: &str = "GPUZIP_UPDATE_SESSIONS";

/// Builds rtm3d_cuda on the software driver. Returns its path and the folder of the driver.
fn program() -> (PathBuf, PathBuf) {
    let dir = tempdir("end-to-end");
    let kernels = dir.join("kernels.cu");
    std::fs::write(&kernels, example::kernels()).unwrap();
    let folder = emu::folder_with("end-to-end", &emu::driver());
    let more = [
        format!("-DKERNELS=\"{}\"", kernels.display()),
        format!("-L{}", folder.display()),
        "-l:libcuda.so.1".into(),
    ];
    let parts = ["migrate", "rtm3d_cuda"];
    let (program, _) =
        example::build(&dir, "c-examples/rtm3d_cuda/tests/cuda-runtime", &parts, &more);
    (program, folder)
}

/// Returns the rows of benches/sessions.py for these arguments: a number of steps, and a GPU or none.
fn rows(arguments: &[&str]) -> String {
    let (program, folder) = program();
    let mut script = Command::new("python3");
    script.arg(root().join("benches/sessions.py")).arg(library().join("gpuzip")).arg(program);
    script.args(arguments).env("LD_LIBRARY_PATH", folder).env("GPUZIP_CACHE_DIR", emu::images());
    stdout(&run(&mut script))
}

/// A played shot takes what was predicted for its plan and what the program copies itself. The size of
/// a coded snapshot is known two saves later, so that write-backs begin later than predicted: this counts
/// in short shots. In long shots, whose times `benches/results/end-to-end.md` has, some small snapshots,
/// which have headers like large ones, find less room than planned: they may have other transfers.
#[test]
fn shots_take_what_the_plan_predicts() {
    if !have("python3") || !have("g++") || !have("make") {
        return;
    }
    let update = std::env::var_os(UPDATE).is_some();
    let text = if update { rows(&["3751"]) } else { rows(&["120", "few"]) };
    if update {
        std::fs::write(root().join("benches/results/sessions.json"), &text).unwrap();
    }
    let rows: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(rows.len() == 6 || rows.len() > 200 && update, "{text}");
    for row in &rows {
        let of = |key: &str| row[key].as_f64().unwrap();
        let off = of("session") / (of("predicted") + of("own_copies")) - 1.0;
        println!("{off:+.5}: {row}");
        let is_as_planned = row["transfers"] == row["planned_transfers"];
        assert!(is_as_planned || update && row["codec"] != "raw", "{row}");
        let most = match (row["codec"].as_str(), row["column"].as_str()) {
            (Some("raw"), Some("best, zero copy")) => 0.01,
            (Some("raw"), _) => 0.001,
            _ => 0.06,
        };
        assert!(off.abs() < most || !is_as_planned, "{off}: {row}");
    }
}
