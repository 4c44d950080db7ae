//! Levers: what would change the predicted time of a shot. Each is priced by a search with that one thing
//! changed.

use super::costs::{Machine, NamedCodec};
use crate::units::seconds;
use gpuzip::choice::{search, Keep};
use gpuzip::error::{Code, Result};
use gpuzip::predict::{Budgets, CodecProfile, Simulation};
use gpuzip::schedule::MacroSteps;
use serde_json::{json, Value};

/// One thing that is changed, and the predicted seconds of a shot with this change.
pub struct Lever {
    name: String,
    seconds: f64,
    /// The change of the predicted time as a part of it; negative: a shot is quicker.
    change: f64,
}

/// The levers that change the predicted time, and the names of those that were not searched for.
#[derive(Default)]
pub struct Levers {
    pub priced: Vec<Lever>,
    pub left_out: Vec<String>,
}

/// A change below this part of the predicted time is not shown.
const LEAST: f64 = 1e-3;

/// The most work of all searches together without --thorough (see `work`): some two seconds on one core.
const MOST_WORK: u64 = 500_000;

impl Levers {
    /// Prices every lever of this machine. `now` is the best plan with at most `most` snapshots that a
    /// search finds: the dynamic program, which may know a better one, is not asked for any lever.
    pub fn of(machine: &Machine, now: &Simulation, most: u32, is_thorough: bool) -> Result<Self> {
        let mut levers = Levers::default();
        let mut work = 0;
        for (name, is_gain, changed) in changes(machine, now)? {
            let steps = changed.steps.map_or(0, |steps| steps.count());
            let more = work_of(&changed, steps);
            if work + more > MOST_WORK && !is_thorough {
                levers.left_out.push(name);
                continue;
            }
            work += more;
            let found = match search(steps, most, &changed.alternatives, Keep::Best) {
                Err(error) if error.code == Code::Budget => continue,
                found => found?,
            };
            let Some(best) = found.first() else { continue };
            // What is played now can be played with more memory or beside a codec, too.
            let seconds = match is_gain {
                true => best.simulation.makespan.min(now.makespan),
                false => best.simulation.makespan,
            };
            let change = seconds / now.makespan - 1.0;
            if change.abs() >= LEAST {
                levers.priced.push(Lever { name, seconds, change });
            }
        }
        Ok(levers)
    }

    pub fn json(&self) -> Value {
        let lever = |Lever { name, seconds, change }: &Lever| json!({"lever": name, "predicted_s": seconds, "change": change});
        self.priced.iter().map(lever).collect()
    }

    /// Returns the lines of a small table.
    pub fn lines(&self) -> Vec<String> {
        let width = self.priced.iter().map(|lever| lever.name.len()).max().unwrap_or(0);
        let row = |Lever { name, seconds: predicted, change }: &Lever| {
            format!("  {name:width$}  {:>9}  {:+.1} %", seconds(*predicted), change * 100.0)
        };
        let mut lines = Vec::new();
        if !self.priced.is_empty() {
            lines.push("What would change the predicted time:".into());
            lines.extend(self.priced.iter().map(row));
        }
        if !self.left_out.is_empty() {
            let names = self.left_out.join("; ");
            lines.push(format!(
                "Not priced, since the searches take long; --thorough prices all: {names}"
            ));
        }
        lines
    }
}

/// The work of a search, in simulated steps with one storage option. The work is limited for long problems,
/// and plans with a disk are searched for after those without.
fn work_of(machine: &Machine, steps: u32) -> u64 {
    let disk = if machine.budgets.disk > 0 { 4 } else { 1 };
    let each = u64::from(steps.min(30_000)) * u64::from(machine.sweeps);
    each * 5 * disk * machine.alternatives.len() as u64
}

/// Lists the machines with one thing changed: the name of the change, whether the plan of now can be played
/// there, too, and the machine.
fn changes(machine: &Machine, now: &Simulation) -> Result<Vec<(String, bool, Machine)>> {
    let mut all = Vec::new();
    // A change for which there is too little memory is no lever.
    let mut add = |name: String, is_gain: bool, changed: Machine| {
        let (budgets, cache) = (changed.budgets, changed.cache);
        match changed.with(budgets, cache) {
            Err(error) if error.code == Code::Budget => Ok(()),
            changed => changed.map(|changed| all.push((name, is_gain, changed))),
        }
    };
    if !machine.zero_copy {
        let changed = Machine { zero_copy: true, ..machine.clone() };
        add("zero copy (--zero-copy)".into(), false, changed)?;
    }
    let has_codec = machine.ways.iter().any(|way| way.codec.is_some());
    if machine.cpu && has_codec && machine.threads() == 0 {
        let changed = Machine { codec_threads: Some(1), ..machine.clone() };
        add("a thread that codes (--codec-threads 1)".into(), false, changed)?;
    }
    for ratio in [4.0, 10.0].into_iter().filter(|_| machine.codecs.is_empty()) {
        let figures = CodecProfile::typical(0, ratio, machine.profile.backend == 1);
        let name = format!("a codec of ratio {ratio} at {} GB/s (--ratio)", figures.compress_gbs);
        let codec = NamedCodec { name: format!("ratio {ratio}"), figures, is_told: true };
        add(name, true, Machine { codecs: vec![codec], ..machine.clone() })?;
    }
    let Budgets { device, host, disk } = machine.budgets;
    let more = |bytes: u64| bytes.saturating_add(bytes / 4);
    let of_device = if machine.cpu { "memory" } else { "device memory" };
    let memories = [
        (of_device, now.device_peak, Budgets { device: more(device), ..machine.budgets }),
        ("host memory", now.host_peak, Budgets { host: more(host), ..machine.budgets }),
        ("disk", now.disk_peak, Budgets { disk: more(disk), ..machine.budgets }),
    ];
    for (memory, used, budgets) in memories {
        // The host memory of a code on a CPU only stages snapshots for the disk.
        if used > 0 && !(machine.cpu && memory == "host memory") {
            add(format!("25 % more {memory}"), true, Machine { budgets, ..machine.clone() })?;
        }
    }
    if now.disk_peak > 0 {
        let host_of = |device: u64| if machine.cpu { (device + host, 0) } else { (device, host) };
        let (device, host) = host_of(device);
        let budgets = Budgets { device, host, disk: 0 };
        add("without the disk".into(), false, Machine { budgets, ..machine.clone() })?;
    }
    if let Some(steps) = machine.steps.filter(|steps| steps.every() == 1 && steps.count() > 1) {
        let steps = Some(MacroSteps::new(2, steps.time_steps()));
        let changed = Machine { steps, macro_steps: steps, ..machine.clone() };
        add("if the adjoint needs only every 2nd state (--every 2)".into(), true, changed)?;
    }
    Ok(all)
}
