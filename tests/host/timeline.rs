//! Timelines of runs on the host backend: the file is complete JSON and has every action, and its
//! sums and counts agree with the statistics and the plan.

use crate::common::prelude::*;
use crate::common::{self, reading};
use gpuzip::schedule::Action;
use reading::{shots, Shot};
use std::path::Path;
use std::time::Duration;

/// Duration of a time step in seconds.
const STEP: f64 = 300e-6;

fn shapes() -> [Field; 2] {
    [[40, 50, 1], [700, 1, 1]].map(|n| field(n, Scalar::F32))
}

/// Runs one shot whose steps take `STEP` each.
fn shot(session: &mut Session) -> (Vec<(Action, u32)>, Stats) {
    let mut app = HostApp::new(&shapes(), noise);
    app.times = [Duration::from_secs_f64(STEP); 2];
    let mut actions = Vec::new();
    play_with(session, &mut app, |_, tick| actions.push((tick.action, tick.end))).unwrap();
    (actions, session.stats().unwrap())
}

/// A shot as read from the file, its actions with their last time steps, and its statistics.
type Traced = (Shot, Vec<(Action, u32)>, Stats);

/// Runs `count` shots, and checks the file's record of each shot against its actions and
/// statistics.
fn traced(config: Config, steps: u32, count: usize, path: &Path) -> Vec<Traced> {
    let config = config.with(|c| c.report.trace_out = Some(path.into()));
    let mut session = open(&config, steps, &shapes()).unwrap();
    let plan = session.plan().unwrap().counts;
    let mut runs = Vec::new();
    for k in 0..count {
        session.setup().unwrap();
        runs.push(shot(&mut session));
        assert_eq!(shots(path).len(), k + 1, "a shot is in the file when it ends");
    }
    let found =
        shots(path).into_iter().zip(runs).map(|(shot, (actions, stats))| (shot, actions, stats));
    let found: Vec<_> = found.collect();
    for (shot, actions, stats) in &found {
        shot.check(actions, stats, &plan);
        let steps = stats.forward_steps as f64 * STEP;
        let (forward, backward) = (
            shot.seconds("compute", &["forward", "recompute"]),
            shot.seconds("compute", &["backward"]),
        );
        assert!(
            forward >= steps && (forward - stats.forward).abs() < 0.1 * forward + 1e-3,
            "{forward} and {} for {steps}",
            stats.forward
        );
        assert!(
            (backward - stats.backward).abs() < 0.1 * backward + 1e-3,
            "{backward} and {}",
            stats.backward
        );
        let (save, restore) =
            (shot.seconds("stall", &["save"]), shot.seconds("stall", &["restore"]));
        assert!(
            save <= stats.save + 1e-6 && restore <= stats.restore + 1e-6,
            "{save}, {restore}: {stats:?}"
        );
        let makespan = shot.about["makespan_s"].as_f64().unwrap();
        assert!(makespan >= forward + backward + save + restore - 1e-6, "{makespan}");
    }
    found
}

#[test]
fn every_action_and_every_transfer_is_in_the_file() {
    let folder = common::tempdir("timeline-host");
    let cases = [
        config(Algorithm::Revolve, 6, 3),
        config(Algorithm::Revolve, 6, 0),
        config(Algorithm::Revolve, 5, 2).with(|c| c.tiers.policy = Policy::Lru),
        config(Algorithm::Uniform, 4, 1),
        config(Algorithm::Zcut, 0, 4),
        config(Algorithm::StoreAll, 0, 5),
        config(Algorithm::TwoLevel, 6, 2).with(|c| c.schedule.range_actions = true),
        config(Algorithm::Hrevolve, 6, 2),
        config(Algorithm::Revolve, 5, 2).with(|c| c.device.link_bandwidth = 2e7),
    ];
    for (k, config) in cases.into_iter().enumerate() {
        for steps in [1, 2, 24] {
            traced(config.clone(), steps, 3, &folder.join(format!("{k}-{steps}.json")));
        }
    }
}

/// No transfer is recorded as shorter than its bytes take on the simulated link.
#[test]
fn transfers_take_their_time() {
    let path = common::tempdir("timeline-link").join("run.json");
    let config = config(Algorithm::Revolve, 4, 1).with(|c| c.device.link_bandwidth = 5e6);
    for (shot, ..) in traced(config, 12, 1, &path) {
        let spans = ["h2d", "d2h", "h2d on the stream", "d2h on the stream"]
            .iter()
            .flat_map(|row| shot.row(row));
        for span in spans {
            let least = span.argument("bytes") as f64 / 5e6;
            assert!(span.length / 1e6 >= least - 1e-6, "{span:?}: {least} s at least");
        }
    }
}

#[test]
fn codecs_have_their_row() {
    let path = common::tempdir("timeline-codec").join("run.json");
    let compression = coding(Method::Lorenzo, ErrorBound::DEFAULT);
    let config = config(Algorithm::Revolve, 5, 2).with(|c| c.codec.settings = compression);
    for (shot, _, stats) in traced(config, 16, 2, &path) {
        let (compress, decompress) =
            (shot.seconds("codec", &["compress"]), shot.seconds("codec", &["decompress"]));
        assert!(
            stats.compress > 0.0 && (compress - stats.compress).abs() < 1e-6,
            "{compress} s: {stats:?}"
        );
        assert!(
            stats.decompress > 0.0 && (decompress - stats.decompress).abs() < 1e-6,
            "{decompress} s: {stats:?}"
        );
        let count =
            |what: &str| shot.row("codec").iter().filter(|span| span.what == what).count() as u64;
        assert_eq!((count("compress"), count("decompress")), (stats.saves, stats.restores));
    }
}

#[test]
fn a_file_that_cannot_be_written_is_a_warning() {
    for path in ["/nonexistent/folder/run.json", "/dev/full", "/"] {
        let config =
            config(Algorithm::Revolve, 4, 2).with(|c| c.report.trace_out = Some(path.into()));
        let mut session = open(&config, 20, &shapes()).unwrap();
        for _ in 0..2 {
            session.setup().unwrap();
            let (_, stats) = shot(&mut session);
            assert_eq!(stats.backward_steps, 20, "{path}");
        }
    }
}

/// After a shot that is broken off, the file is still complete JSON, and the next shot is recorded
/// without spans of the broken one.
#[test]
fn a_shot_broken_off_is_not_counted() {
    let path = common::tempdir("timeline-broken").join("run.json");
    let config = config(Algorithm::Revolve, 4, 2).with(|c| c.report.trace_out = Some(path.clone()));
    let mut session = open(&config, 20, &shapes()).unwrap();
    step(&mut session, &mut HostApp::new(&shapes(), noise)).unwrap();
    session.get_action().unwrap();
    std::thread::sleep(Duration::from_millis(30));
    session.setup().unwrap();
    let begun = std::time::Instant::now();
    shot(&mut session);
    let found = shots(&path);
    assert_eq!(found.len(), 1);
    assert!(found[0].about["makespan_s"].as_f64().unwrap() <= begun.elapsed().as_secs_f64());
}

#[test]
fn sessions_do_not_share_a_file() {
    let folder = common::tempdir("timeline-sessions");
    for name in ["run.json", "run-2.json", "run-3.json"] {
        let config = config(Algorithm::Revolve, 4, 2)
            .with(|c| c.report.trace_out = Some(folder.join("run.json")));
        let mut session = open(&config, 6, &shapes()).unwrap();
        shot(&mut session);
        assert_eq!(shots(&folder.join(name)).len(), 1);
    }
}

/// Source of a library with NVTX's four functions that writes every call to a file.
const NVTX: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static FILE *out(void) { static FILE *f; if (!f) f = fopen(getenv("NVTX_STUB_OUT"), "a"); return f; }
static unsigned long long ranges;
int nvtxRangePushA(const char *name) { fprintf(out(), "push %s\n", name); fflush(out()); return 0; }
int nvtxRangePop(void) { fprintf(out(), "pop\n"); fflush(out()); return 0; }
unsigned long long nvtxRangeStartA(const char *name) { fprintf(out(), "start %llu %s\n", ++ranges, name); fflush(out()); return ranges; }
void nvtxRangeEnd(unsigned long long id) { fprintf(out(), "end %llu\n", id); fflush(out()); }
"#;

/// Runs one shot of four steps; `run_with_ranges` starts this test in a process of its own, with or
/// without an NVTX library.
#[test]
fn a_shot_with_ranges() {
    let inside = std::env::var_os("GPUZIP_TEST_RANGES").is_some();
    let mut session = open(&config(Algorithm::Revolve, 2, 1), 4, &shapes()).unwrap();
    let (actions, _) = shot(&mut session);
    if inside {
        let names = |(action, _): &(Action, u32)| format!("{} {}", action.kind.name(), action.ts);
        println!("actions: {}", actions.iter().map(names).collect::<Vec<_>>().join(", "));
    }
}

fn run_with_ranges(folder: &Path, ranges: &str) -> (String, String) {
    let output = common::again("a_shot_with_ranges")
        .env("GPUZIP_TEST_RANGES", "1")
        .env("GPUZIP_NVTX", ranges)
        .env("LD_LIBRARY_PATH", folder)
        .env("NVTX_STUB_OUT", folder.join("out.txt"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let told = std::fs::read_to_string(folder.join("out.txt")).unwrap_or_default();
    let _ = std::fs::remove_file(folder.join("out.txt"));
    (told, common::stdout(&output))
}

#[test]
fn ranges_go_to_an_nvtx_library_if_asked_for() {
    let folder = common::tempdir("nvtx");
    assert_eq!(run_with_ranges(&folder, "1").0, "", "there is none");
    std::fs::write(folder.join("nvtx.c"), NVTX).unwrap();
    let library = folder.join("libnvToolsExt.so.1");
    common::run(
        std::process::Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(folder.join("nvtx.c")),
    );
    assert_eq!(run_with_ranges(&folder, "0").0, "", "nobody asks");
    let (told, printed) = run_with_ranges(&folder, "1");
    let actions = printed.lines().find_map(|line| line.split("actions: ").nth(1)).unwrap();
    // Every action is a range that ends before the next action's range begins; every save and
    // restore is a range inside that of its action.
    let mut expected = String::new();
    for (k, action) in (1..).zip(
        actions
            .split(", ")
            .filter(|action| !action.ends_with("TERMINATE") && !action.starts_with("TERMINATE")),
    ) {
        expected += &format!("start {k} {action}\n");
        for (kind, call) in [("SAVE", "save"), ("RESTORE", "restore")] {
            if action.starts_with(kind) {
                expected += &format!("push gpuzip {call}\npop\n");
            }
        }
        expected += &format!("end {k}\n");
    }
    assert!(expected.matches("push").count() >= 5, "{expected}");
    assert_eq!(told, expected);
}
