//! A drawing of the time of the best plan against the memory that it may use.

use super::costs::{of_cpu, Machine};
use super::recipes::published;
use super::svg::{digits, in_sweeps, round_values, Anchor, Page, BLUE, GREEN, ORANGE, PURPLE, RED};
use crate::units::size;
use gpuzip::choice::{search, Keep};
use gpuzip::error::Result;
use gpuzip::predict::Budgets;

const LEFT: f64 = 80.0;
const TOP: f64 = 70.0;
const WIDTH: f64 = 680.0;
const HEIGHT: f64 = 400.0;
const INKS: [&str; 4] = [BLUE, GREEN, ORANGE, PURPLE];

/// A curve: its name, and for each device budget in bytes the time over that of the steps alone.
struct Curve {
    name: String,
    points: Vec<(u64, f64)>,
}

/// Draws the curves for `steps` time steps: device budgets from an eighth to eight times the given
/// budget; one curve for each host budget. On a CPU the memory is one, and so is the curve.
pub fn draw(steps: u32, machine: &Machine) -> Result<String> {
    let devices = devices(machine, if steps > 20_000 { 1.0 } else { 0.5 });
    let mut curves = Vec::new();
    for host in hosts(host_budget(machine)) {
        curves.push(Curve {
            name: match host_budget(machine) {
                0 => "the best plan".into(),
                _ => format!("{} of host memory", size(host)),
            },
            points: best(steps, machine, &devices, host)?,
        });
    }
    let recipe = recipe(steps, machine, &devices)?;
    curves.retain(|curve| !curve.points.is_empty());
    Ok(plot(steps, machine, &devices, &curves, &recipe))
}

/// Returns budgets a factor of 2^`octaves` apart, each with room for at least one snapshot.
fn devices(machine: &Machine, octaves: f64) -> Vec<u64> {
    let Budgets { device, host, .. } = machine.budgets;
    let given = if machine.cpu { device.saturating_add(host) } else { device };
    let given = given.max(machine.state_bytes) as f64;
    let count = (3.0 / octaves) as i32;
    let mut devices: Vec<u64> =
        (-count..=count).map(|k| (given * 2f64.powf(k as f64 * octaves)) as u64).collect();
    devices.retain(|&bytes| bytes >= machine.state_bytes);
    devices
}

/// The budget of a memory beside that of the device: there is none on a CPU.
fn host_budget(machine: &Machine) -> u64 {
    if machine.cpu {
        0
    } else {
        machine.budgets.host
    }
}

fn hosts(given: u64) -> Vec<u64> {
    let mut hosts = vec![0, given / 4, given, given.saturating_mul(4)];
    hosts.dedup();
    hosts
}

fn with(machine: &Machine, device: u64, host: u64) -> Result<Machine> {
    let budgets = match machine.cpu {
        true => {
            let all = Budgets { host: device, ..machine.budgets };
            of_cpu(all, machine.state_bytes, machine.zero_copy)
        }
        false => Budgets { device, host, ..machine.budgets },
    };
    machine.clone().with(budgets, None)
}

fn best(steps: u32, machine: &Machine, devices: &[u64], host: u64) -> Result<Vec<(u64, f64)>> {
    let mut points = Vec::new();
    for &device in devices {
        let machine = with(machine, device, host)?;
        let found = search(steps, u32::MAX, &machine.alternatives, Keep::Best)?;
        points.extend(found.first().map(|c| (device, c.simulation.over_problem_ideal())));
    }
    Ok(points)
}

/// Computes the curve of the better of GPUZIP 2.x's two recipes with the given host memory, with
/// raw or with compressed snapshots: GPUZIP 2.x has no plans that mix both.
fn recipe(steps: u32, machine: &Machine, devices: &[u64]) -> Result<Vec<(u64, f64)>> {
    let mut points = Vec::new();
    for &device in devices {
        let mut times = Vec::new();
        let machine = with(machine, device, machine.budgets.host)?;
        for tiers in machine.alternatives.iter().flatten() {
            times
                .extend(published(steps, tiers)?.iter().map(|c| c.simulation.over_problem_ideal()));
        }
        points.extend(times.into_iter().min_by(f64::total_cmp).map(|time| (device, time)));
    }
    Ok(points)
}

fn plot(
    steps: u32,
    machine: &Machine,
    devices: &[u64],
    curves: &[Curve],
    recipe: &[(u64, f64)],
) -> String {
    let mut page = Page::new(LEFT + WIDTH + 230.0, TOP + HEIGHT + 70.0);
    let codecs: Vec<&str> = machine.codecs.iter().map(|codec| codec.name.as_str()).collect();
    let codec = if codecs.is_empty() {
        "raw snapshots".into()
    } else {
        format!("raw or compressed, {}", codecs.join(", "))
    };
    let every = machine
        .macro_steps
        .map_or(String::new(), |all| format!(", adjoint_every = {}", all.every()));
    let sweeps = in_sweeps(machine.sweeps);
    let steps = machine.macro_steps.map_or(steps, |all| all.time_steps());
    let title = format!(
        "Time of the best plan over memory: n = {steps}{every}{sweeps}, states of {}, {codec}",
        size(machine.state_bytes)
    );
    page.text(20.0, 28.0, Anchor::Start, 16.0, &title);
    let times = curves.iter().flat_map(|c| &c.points).chain(recipe).map(|point| point.1);
    let high = times.fold(1.0f64, f64::max).min(12.0) * 1.05;
    let (first, last) =
        (devices.first().copied().unwrap_or(1) as f64, devices.last().copied().unwrap_or(2) as f64);
    let across =
        |bytes: f64| if last > first { (bytes / first).ln() / (last / first).ln() } else { 0.5 };
    let bottom = TOP + HEIGHT;
    let ticks: Vec<_> = devices
        .iter()
        .step_by(devices.len().div_ceil(7).max(1))
        .map(|&b| (across(b as f64), size(b)))
        .collect();
    page.ticks_below([LEFT, bottom, WIDTH, HEIGHT], &ticks);
    let values = round_values(0.0, high, 8);
    let step = values.windows(2).next().map_or(1.0, |w| w[1] - w[0]);
    page.ticks_left(
        [LEFT, bottom, WIDTH, HEIGHT],
        &values.iter().map(|v| (v / high, digits(*v, step))).collect::<Vec<_>>(),
    );
    page.text(
        LEFT + WIDTH / 2.0,
        bottom + 46.0,
        Anchor::Middle,
        13.0,
        if host_budget(machine) == 0 {
            "memory for snapshots"
        } else {
            "device memory for snapshots"
        },
    );
    page.upright(24.0, TOP + HEIGHT / 2.0, "time over that of the steps alone");
    let place = |&(bytes, time): &(u64, f64)| {
        (LEFT + across(bytes as f64) * WIDTH, bottom - (time / high).min(1.0) * HEIGHT)
    };
    let drawn = curves
        .iter()
        .zip(INKS)
        .map(|(curve, ink)| (curve.name.clone(), &curve.points[..], ink, false));
    let theirs = match host_budget(machine) {
        0 => "GPUZIP 2.x".into(),
        host => format!("GPUZIP 2.x, {}", size(host)),
    };
    let theirs = (theirs, recipe, RED, true);
    for (k, (name, points, ink, dashed)) in
        drawn.chain(Some(theirs).filter(|(_, points, ..)| !points.is_empty())).enumerate()
    {
        let points: Vec<(f64, f64)> = points.iter().map(place).collect();
        page.curve(&points, ink, dashed);
        page.legend(LEFT + WIDTH + 24.0, TOP + 14.0 + 22.0 * k as f64, &[(ink, &name)]);
    }
    page.finish()
}
