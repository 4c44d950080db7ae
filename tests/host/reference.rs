//! Compares the simulator with another implementation of its model, a Python program that plays the
//! same plans. The program is not in this repository: it is looked for in the folder that
//! `GPUZIP_SHARED` names, or else in `../shared`.

mod golden;

use gpuzip::plan::{Index, Plan, Policy, NONE};
use gpuzip::predict::{simulate, Budgets, Costs, Times};
use gpuzip::schedule::{Kind, Schedule};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A Python program that reads plans in the form of `written`, one per line, and prints the
/// makespan of each.
const PLAYER: &str = r#"
import sys
from cache_sim import Plan, execute
for line in sys.stdin:
    head, *body = line.split(";")
    slots, transfer, copy, backward = head.split()
    ops, plan = [], Plan()
    plan.ev, plan.slot, plan.kind, plan.write, plan.issue = [], [], [], [], []
    for item in body:
        kind, a, *place = item.split()
        ops.append((kind, int(a)))
        if kind in "SR":
            slot, moves, issue = map(int, place)
            plan.ev.append((kind, int(a)))
            plan.slot.append(slot)
            plan.kind.append("save" if kind == "S" else "fetch" if moves else "hit")
            plan.write.append(bool(moves))
            plan.issue.append(issue)
    X = float(transfer)
    print(repr(execute(ops, plan, "opt", X, float(backward), float(copy) / X, int(slots))["total"]))
"#;

/// A plan in one line, for `PLAYER`.
fn written(schedule: &Schedule, plan: &Plan, costs: &Costs) -> String {
    let index = Index::new(schedule).unwrap();
    let mut issue = vec![-1i64; index.accesses.len()];
    plan.fetches.iter().for_each(|fetch| issue[fetch.restore as usize] = fetch.issue_after.into());
    let mut line =
        format!("{} {} {} {}", plan.device_slots, costs.upload, costs.copy, costs.backward.of(0));
    let mut e = 0;
    for action in schedule.actions() {
        match action.kind {
            Kind::Forward => write!(line, ";F 1").unwrap(),
            Kind::Backward => write!(line, ";B {}", action.ts).unwrap(),
            Kind::Save | Kind::Restore => {
                let step = plan.steps[e];
                assert_ne!(step.slot, NONE, "the other implementation has no way past the cache");
                let kind = if action.kind == Kind::Save { "S" } else { "R" };
                write!(
                    line,
                    ";{kind} {} {} {} {}",
                    action.ts,
                    step.slot,
                    u8::from(step.host != NONE),
                    issue[e]
                )
                .unwrap();
                e += 1;
            }
            _ => {}
        }
    }
    line + "\n"
}

fn play(folder: &Path, lines: &str) -> Vec<f64> {
    let mut python = Command::new("python3");
    let mut child = python
        .args(["-c", PLAYER])
        .current_dir(folder)
        .env("PYTHONPATH", folder)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    child = child.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines = lines.to_string();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn plans_take_as_long_as_elsewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared =
        std::env::var_os("GPUZIP_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    let folder = shared.join("reference");
    if !folder.join("cache_sim.py").exists()
        || Command::new("python3").arg("--version").output().is_err()
    {
        eprintln!("skipped: no {}, or no python3", folder.join("cache_sim.py").display());
        return;
    }
    let (mut lines, mut ours) = (String::new(), Vec::new());
    for (transfer, copy, backward) in
        [(12.0, 0.48, 1.0), (3.0, 0.85, 1.0), (0.8, 0.5, 2.5), (0.24, 0.0, 1.0), (5.5, 0.1, 0.3)]
    {
        for (n, s) in [(3751, 8), (600, 12), (600, 60), (90, 9)] {
            let two_level = Schedule::two_level(n, n.div_ceil(26) + 4, 26, 4);
            for schedule in [
                Schedule::revolve(n, s),
                Schedule::uniform_published(n, s),
                Schedule::zcut(n, 0, 20),
                two_level,
            ] {
                for (cache, policy) in [
                    (2, Policy::Clairvoyant),
                    (4, Policy::Clairvoyant),
                    (4, Policy::Lru),
                    (7, Policy::Clairvoyant),
                ] {
                    let schedule = schedule.as_ref().unwrap();
                    let plan = Plan::new(schedule, cache, policy).unwrap();
                    let costs = costs(transfer, copy, backward);
                    ours.push(simulate(schedule, &plan, &costs, Budgets::NONE).unwrap().makespan);
                    lines += &written(schedule, &plan, &costs);
                }
            }
        }
    }
    let theirs = play(&folder, &lines);
    assert_eq!(ours.len(), theirs.len());
    for (k, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert!((ours / theirs - 1.0).abs() < 1e-9, "plan {k}: {ours} here, {theirs} there");
    }
}

fn costs(transfer: f64, copy: f64, backward: f64) -> Costs {
    Costs {
        backward: Times::Each(backward),
        copy,
        upload: transfer,
        download: transfer,
        ..Costs::default()
    }
}
