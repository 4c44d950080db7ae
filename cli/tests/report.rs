//! `gpuzip report`: runs beside their plans.

use gpuzip::config::{Backend, Config};
use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::layout::Field;
use gpuzip::plan::{Plan, Policy};
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{Algorithm, Kind, Schedule};
use gpuzip::session::Session;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Bytes of a state, and seconds of a step of each kind.
const BYTES: u64 = 256 << 10;
const STEPS: [f64; 2] = [4e-3, 8e-3];

/// Runs shots on the host backend whose steps take a known time, and leaves their timeline at
/// `path`.
fn run(config: Config, steps: i64, shots: usize, path: &Path) {
    let field = Field { n: [BYTES / 4, 1, 1], scalar: Scalar::F32, previous_of: None };
    let mut values = vec![0.25f32; BYTES as usize / 4];
    // SAFETY: the values outlive the session, and nothing else looks at them.
    let memory = unsafe { AppMemory::new(values.as_mut_ptr().cast(), BYTES as usize) };
    let fields = [AppField { field, memory: Some(memory) }];
    let config = config.with(|c| {
        c.device.backend = Backend::Host;
        c.report.trace_out = Some(path.into());
    });
    let mut session = Session::new(config, steps, &fields).unwrap();
    let none = Stream(std::ptr::null_mut());
    for _ in 0..shots {
        session.setup().unwrap();
        loop {
            let action = session.get_action().unwrap().action;
            match action.kind {
                Kind::Save => session.save(action.ts as i64, &fields, none).unwrap(),
                Kind::Restore => session.retrieve(action.ts as i64, &fields, none).unwrap(),
                Kind::Terminate => break,
                kind => std::thread::sleep(Duration::from_secs_f64(
                    STEPS[usize::from(kind == Kind::Backward)],
                )),
            }
        }
    }
}

fn report(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpuzip")).arg("report").args(arguments).output().unwrap()
}

fn succeeds(arguments: &[&str]) -> String {
    let output = report(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn number(object: &Value, name: &str) -> f64 {
    object[name].as_f64().unwrap_or_else(|| panic!("{name} in {object}"))
}

/// A link that moves a state in the time of 3 steps.
fn linked(algorithm: Algorithm) -> Config {
    let config = Config::default().with(|c| {
        c.schedule.algorithm = Some(algorithm);
        c.schedule.snapshots = 5;
        c.tiers.cache = 2;
    });
    config.with(|c| c.device.link_bandwidth = BYTES as f64 / (3.0 * STEPS[0]))
}

#[test]
fn a_run_stands_beside_its_plan() {
    let path = folder("beside").join("run.json");
    run(linked(Algorithm::Revolve), 40, 3, &path);
    let found: Value =
        serde_json::from_str(&succeeds(&[path.to_str().unwrap(), "--json"])).unwrap();
    let found = &found["runs"][0];
    assert_eq!(found["shots"].as_array().unwrap().len(), 3);
    let schedule = Schedule::revolve(40, 5).unwrap();
    let counts = Plan::new(&schedule, 2, Policy::Clairvoyant).unwrap().counts;
    let (planned, remade, measured) =
        (&found["planned"], &found["at_measured_costs"], &found["measured"]);
    for column in [planned, remade, measured] {
        assert_eq!(
            (number(column, "h2d"), number(column, "d2h")),
            (counts.h2d as f64, counts.d2h as f64)
        );
        assert_eq!(number(column, "h2d_bytes"), (counts.h2d * BYTES) as f64);
        let parts = ["forward_s", "backward_s", "stall_s"]
            .map(|name| number(column, name))
            .iter()
            .sum::<f64>();
        // What is left are the calls that hand out actions.
        let rest = number(column, "makespan_s") - parts;
        assert!(rest > -1e-6 && rest <= 0.02 * parts, "{rest} s of {column}");
        let calls = number(column, "save_s") + number(column, "restore_s");
        assert!((calls - number(column, "stall_s")).abs() < 1e-6, "{column}");
        let ideal = number(column, "forward_s") + number(column, "backward_s");
        assert!((number(column, "plan_ideal_s") - ideal).abs() < 1e-6, "{column}");
        assert!(
            (number(column, "over_plan_ideal") - number(column, "makespan_s") / ideal).abs() < 1e-6,
            "{column}"
        );
    }
    // The run's steps are slower than those that were assumed, so only the second column has to be
    // near.
    let near = |name: &str, share: f64| {
        let (a, b) = (number(remade, name), number(measured, name));
        assert!((a - b).abs() <= share * b, "{name}: {a} and {b}");
    };
    near("makespan_s", 0.15);
    near("plan_ideal_s", 1e-6);
    near("problem_ideal_s", 1e-6);
    let shot = found["shot"].as_u64().unwrap();
    let mut times: Vec<f64> =
        found["shots"].as_array().unwrap().iter().map(|shot| number(shot, "makespan_s")).collect();
    let shown = times[shot as usize - 1];
    times.sort_by(f64::total_cmp);
    assert_eq!(shown, times[1], "the median is shown");
    let second: Value =
        serde_json::from_str(&succeeds(&[path.to_str().unwrap(), "--shot", "2", "--json"]))
            .unwrap();
    assert_eq!(second["runs"][0]["shot"], 2);
}

/// Every algorithm's plan is made again from what the file says.
#[test]
fn every_algorithm_is_known() {
    let folder = folder("algorithms");
    let trace = folder.join("trace.txt");
    let mut text = Vec::new();
    gpuzip::schedule::trace::write(Schedule::zcut(12, 0, 3).unwrap().actions(), &mut text).unwrap();
    std::fs::write(&trace, text).unwrap();
    let plain = |algorithm| linked(algorithm).with(|c| c.device.link_bandwidth = 0.0);
    let published = plain(Algorithm::Uniform).with(|c| c.schedule.uniform_published = true);
    let two_level = plain(Algorithm::TwoLevel).with(|c| c.schedule.chunk = 4);
    let lru = plain(Algorithm::Revolve).with(|c| c.tiers.policy = Policy::Lru);
    let compressed = plain(Algorithm::Revolve).with(|c| {
        c.codec.settings =
            gpuzip::codec::Settings { method: gpuzip::codec::Method::Fp16, ..Default::default() }
    });
    let recorded = plain(Algorithm::Trace).with(|c| c.schedule.trace_file = Some(trace));
    let budgets = |device: u64, host: u64| {
        Config::default().with(|c| {
            c.schedule.algorithm = None;
            c.tiers.host_budget = host * BYTES;
            c.tiers.device_budget = device * BYTES;
            c.schedule.snapshots = 0;
            c.tiers.cache = 0;
        })
    };
    let auto = budgets(2, 6);
    // Plans of so few steps are refined; some of these are no member of the portfolio.
    let gbs = BYTES as f64 / (8.0 * STEPS[0]) / 1e9;
    let profile = gpuzip::predict::Profile {
        forward_ms: STEPS[0] * 1e3,
        backward_ms: STEPS[1] * 1e3,
        h2d_gbs: gbs,
        d2h_gbs: gbs,
        ..gpuzip::predict::Profile::free()
    };
    let refined = [(1, 2), (1, 3), (2, 1), (2, 3), (3, 2)].map(|(device, host)| {
        budgets(device, host).with(|c| {
            c.device.link_bandwidth = gbs * 1e9;
            c.device.profile = Some(profile.clone());
        })
    });
    let mixed = budgets(5, 3).with(|c| {
        c.codec.settings =
            gpuzip::codec::Settings { method: gpuzip::codec::Method::Fp16, ..Default::default() };
        c.tiers.mixed_storage = Some(true);
    });
    let sparse = plain(Algorithm::Revolve).with(|c| c.schedule.adjoint_every = 5);
    let ranges = plain(Algorithm::Revolve).with(|c| c.schedule.range_actions = true);
    let others = [Algorithm::Zcut, Algorithm::StoreAll, Algorithm::Uniform].map(plain);
    let configs = [published, two_level, lru, compressed, recorded, auto, ranges, sparse, mixed]
        .into_iter()
        .chain(others)
        .chain(refined);
    let files: Vec<String> = configs
        .enumerate()
        .map(|(k, config)| {
            let path = folder.join(format!("{k}.json"));
            run(config, 12, 1, &path);
            path.to_str().unwrap().to_string()
        })
        .collect();
    let timelines: Vec<String> =
        files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let is_refined =
        |text: &&String| text.contains("\"tree\":\"") && !text.contains("\"tree\":\"\"");
    assert!(timelines.iter().filter(is_refined).count() > 0);
    assert!(timelines.iter().any(|text| text.contains("\"raw_slots\":3")));
    let arguments: Vec<&str> = files.iter().map(String::as_str).chain(["--json"]).collect();
    let found: Value = serde_json::from_str(&succeeds(&arguments)).unwrap();
    let runs = found["runs"].as_array().unwrap();
    assert_eq!(runs.len(), files.len());
    for run in runs {
        let [planned, remade, measured] =
            ["planned", "at_measured_costs", "measured"].map(|name| &run[name]);
        for key in ["h2d", "d2h"] {
            assert_eq!(number(planned, key), number(measured, key), "{key}: {run}");
        }
        let steps = |column: &Value| number(column, "forward_s") / number(column, "backward_s");
        assert!(
            (steps(remade) - steps(measured)).abs() < 1e-6 * steps(measured),
            "the same steps: {run}"
        );
    }
}

/// A shot of unknown length whose forward sweep was ended after the SAVE of its last state: the plan has
/// this SAVE, too.
#[test]
fn an_online_shot_may_end_after_a_save() {
    let path = folder("online").join("run.json");
    let field = Field { n: [BYTES / 4, 1, 1], scalar: Scalar::F32, previous_of: None };
    let mut values = vec![0.25f32; BYTES as usize / 4];
    // SAFETY: the values outlive the session, and nothing else looks at them.
    let memory = unsafe { AppMemory::new(values.as_mut_ptr().cast(), BYTES as usize) };
    let fields = [AppField { field, memory: Some(memory) }];
    let (backend, trace_out) = (Backend::Host, Some(path.clone()));
    let config = linked(Algorithm::Online).with(|c| {
        c.device.backend = backend;
        c.report.trace_out = trace_out;
        c.device.link_bandwidth = 0.0;
    });
    let mut session = Session::new(config, 0, &fields).unwrap();
    let none = Stream(std::ptr::null_mut());
    let (mut is_forward, mut saves) = (true, 0);
    loop {
        let action = session.get_action().unwrap().action;
        match action.kind {
            Kind::Save => {
                session.save(action.ts as i64, &fields, none).unwrap();
                saves += 1;
                if is_forward && action.ts >= 8 {
                    session.end_forward().unwrap();
                    is_forward = false;
                }
            }
            Kind::Restore => session.retrieve(action.ts as i64, &fields, none).unwrap(),
            Kind::Terminate => break,
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    drop(session);
    let found: Value =
        serde_json::from_str(&succeeds(&[path.to_str().unwrap(), "--json"])).unwrap();
    let run = &found["runs"][0];
    let [planned, measured] = ["planned", "measured"].map(|name| &run[name]);
    for key in ["h2d", "d2h", "h2d_bytes", "d2h_bytes"] {
        assert_eq!(number(planned, key), number(measured, key), "{key}: {run}");
    }
    // Without that SAVE the plan has fewer.
    let [after, before] =
        [true, false].map(|after_save| Schedule::online(9, 5, after_save).unwrap());
    assert_eq!(after.actions().filter(|action| action.kind == Kind::Save).count(), saves);
    assert!(before.actions().filter(|action| action.kind == Kind::Save).count() < saves);
}

#[test]
fn tables_and_drawings() {
    let folder = folder("drawing");
    let path = folder.join("run.json");
    run(linked(Algorithm::Revolve), 40, 2, &path);
    let table = succeeds(&[path.to_str().unwrap(), "--svg", folder.to_str().unwrap()]);
    for part in [
        "revolve, n = 40, 5 snapshots",
        "simulated link",
        "planned",
        "measured",
        "makespan",
        "shot 1 of 2",
        "MiB",
        " ms",
    ] {
        assert!(
            table.contains(part) || part.starts_with("shot") && table.contains("shot 2 of 2"),
            "{part} in {table}"
        );
    }
    let drawing = std::fs::read_to_string(folder.join("run.svg")).unwrap();
    assert!(
        drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n") && !drawing.contains("NaN")
    );
    for part in [
        "The run, the share",
        "The plan, simulated at the costs of the run",
        "host to device",
        "recompute",
        "waiting",
    ] {
        assert!(drawing.contains(part), "{part}");
    }
}

#[test]
fn what_is_no_run_is_refused() {
    let folder = folder("refused");
    let (text, cut) = (folder.join("text.json"), folder.join("cut.json"));
    std::fs::write(&text, "{\"traceEvents\":[\n]}\n").unwrap();
    std::fs::write(
        &cut,
        "{\"otherData\":{\"device\":\"host\"},\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n\n]}\n",
    )
    .unwrap();
    for (arguments, part) in [
        (vec!["/nonexistent.json"], "/nonexistent.json"),
        (vec![text.to_str().unwrap()], "no timeline that gpuzip wrote"),
        (vec![cut.to_str().unwrap()], "line 2"),
        (vec![text.to_str().unwrap(), "--shot", "0"], "--shot"),
    ] {
        let output = report(&arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && message.contains(part),
            "{arguments:?}: {message}"
        );
    }
    let path = folder.join("run.json");
    run(linked(Algorithm::Revolve), 4, 1, &path);
    let output = report(&[path.to_str().unwrap(), "--shot", "2"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no such shot"));
}

/// A file that is no text is no timeline; a drawing of one run may be named.
#[test]
fn other_files_and_drawings_by_name() {
    let folder = folder("names");
    let binary = folder.join("binary");
    std::fs::write(&binary, [0xff, 0xfe, 0x00, 0x80, b'\n']).unwrap();
    let output = report(&[binary.to_str().unwrap()]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && message.contains("no timeline that gpuzip wrote"),
        "{message}"
    );
    let (timeline, drawing) = (folder.join("run.json"), folder.join("out.svg"));
    run(
        Config::default().with(|c| {
            c.schedule.algorithm = Some(Algorithm::Revolve);
            c.schedule.snapshots = 3;
        }),
        6,
        1,
        &timeline,
    );
    let (timeline, name) = (timeline.to_str().unwrap(), drawing.to_str().unwrap());
    assert!(!succeeds(&[timeline, "--svg", name]).contains("-0.00"));
    assert!(drawing.is_file());
    let several = report(&[timeline, timeline, "--svg", folder.join("two.svg").to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&several.stderr).contains("give a folder"), "{several:?}");
    let picture = report(&[timeline, "--svg", folder.join("x.png").to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&picture.stderr).contains("drawings are SVG"), "{picture:?}");
    assert!(!folder.join("x.png").exists());
    let nowhere = report(&[timeline, "--svg", folder.join("not/there").to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("cannot be made"), "{nowhere:?}");
}
