//! Writes a plan as lines of a configuration file.

use super::costs::{Machine, NamedCodec, Way};
use super::Arguments;
use crate::units::size;
use gpuzip::choice::{Candidate, Coded, Cut};
use gpuzip::plan::Policy;
use gpuzip::schedule::Algorithm;
use std::path::Path;

/// Returns `key = value` lines that `gpuzip_config_load` accepts, and a comment for each property
/// of the plan that has no key.
pub fn lines(best: &Candidate, machine: &Machine, arguments: &Arguments) -> Vec<String> {
    let is_auto = arguments.schedule.is_auto();
    let mut lines = schedule(best, arguments.trace_out.as_deref(), is_auto);
    if machine.profile.backend == 1 {
        lines.push("backend = host".into());
    }
    let every = best.schedule.macro_steps().every();
    lines.extend((every > 1).then(|| format!("adjoint_every = {every}")));
    let uses_disk = best.simulation.disk_peak > 0;
    // Without device memory a session, too, goes around the cache; a CPU's one memory is divided in many ways.
    let (device, host) = machine.alternatives[best.alternative][0].memory;
    lines.extend((machine.sweeps > 1).then(|| format!("sweeps = {}", machine.sweeps)));
    let budgets = [
        ("device_budget", device),
        ("host_budget", host),
        ("disk_budget", if uses_disk { machine.budgets.disk } else { 0 }),
    ];
    let of_budgets = budgets.into_iter().filter(|(_, bytes)| (1..u64::MAX).contains(bytes));
    lines.extend(of_budgets.map(|(key, bytes)| format!("{key} = {bytes}  # {}", size(bytes))));
    let profile = arguments.profile_out.as_ref().or(machine.profile_file.as_ref());
    let shares = arguments.survey.survey().is_some_and(|survey| survey.sharers() > 1);
    lines.extend(profile.map(|file| match shares && arguments.profile_out.is_none() {
        // The profile has the speeds of a rank that is alone on its node.
        true => "# profile_path = ...: the file that `gpuzip plan --profile-out FILE` writes with the same options, with a rank's share of link and disk".into(),
        false => format!("profile_path = \"{}\"", file.display()),
    }));
    let Way { cut, coded, codec } = &machine.ways[best.alternative];
    match codec {
        Some(codec) => lines.extend(of_codec(codec)),
        None => lines.push("compressor = none".into()),
    }
    if matches!(coded, Coded::Moved(_)) {
        lines.push("mixed_storage = 1".into());
    }
    let threads = match coded {
        Coded::ByLanes(_) => machine.threads() as i32,
        // The session is not to weigh them.
        _ => -1,
    };
    let may_code = machine.threads() > 0 || machine.profile.idle_processors > 0.0;
    if machine.profile.backend == 1 && codec.is_some() && may_code {
        lines.push(format!("codec_threads = {threads}"));
    }
    if machine.zero_copy {
        lines.push("zero_copy = 1".into());
    }
    if *cut == Cut::Levels {
        lines.push("shared_levels = 1".into());
    }
    if uses_disk {
        lines.push(
            "# disk_path = ...: folders, separated by colons; not set: TMPDIR, or else /var/tmp"
                .into(),
        );
    }
    lines
}

/// Returns the keys of the schedule. A schedule with parameters that have no key, such as the number of
/// slots inside intervals, is a recorded one, which `--trace-out` writes to a file. With `is_auto` a session finds
/// it by itself.
fn schedule(best: &Candidate, file: Option<&Path>, is_auto: bool) -> Vec<String> {
    let (schedule, plan) = (&best.schedule, best.plans.first());
    let cache = plan.map_or(0, |plan| plan.cached_snapshots());
    let has_inner = matches!(schedule.algorithm, Algorithm::TwoLevel | Algorithm::Hrevolve);
    let inner = plan.map_or(0, |plan| match plan.raw_slots {
        0 => plan.cache / plan.parts() as u32,
        raw => raw,
    });
    let has_keys = schedule.cache() == 0 && !(has_inner && schedule.inner() != inner);
    let mut lines = match file {
        _ if has_keys && !schedule.is_recorded() => vec![
            format!("checkpointing_algorithm = {}", schedule.algorithm.name()),
            format!("checkpointing_snaps = {}", schedule.snapshots),
        ],
        Some(file) => vec![
            "checkpointing_algorithm = trace".into(),
            format!("trace_file_path = \"{}\"", file.display()),
        ],
        None if is_auto => return vec!["checkpointing_algorithm = auto".into()],
        None => vec![
            "checkpointing_algorithm = trace".into(),
            "# trace_file_path = ...: the file that `gpuzip plan --trace-out FILE` writes with the same options".into(),
        ],
    };
    lines.push(format!("cache_capacity = {cache}"));
    let has_chunk =
        matches!(schedule.algorithm, Algorithm::Zcut | Algorithm::TwoLevel | Algorithm::Hrevolve);
    if has_keys && has_chunk {
        lines.push(format!("schedule_chunk = {}", schedule.chunk));
    }
    if plan.is_some_and(|plan| plan.policy == Policy::Lru) {
        lines.push("policy = lru".into());
    }
    lines
}

/// Returns the keys of a codec. The bytes of a slot follow from the ratio of the worst snapshot: from
/// the one that was told, or from the one in the profile.
fn of_codec(NamedCodec { figures: codec, is_told, .. }: &NamedCodec) -> Vec<String> {
    let factor = is_told.then(|| format!("compression_factor = {}", codec.worst_ratio));
    if *is_told && !codec.sequences {
        let which = "# compressor = ...: the codec whose snapshots have the ratio";
        return [format!("{which} {}", codec.ratio)].into_iter().chain(factor).collect();
    }
    let mut lines = vec![format!("compressor = {}", codec.compressor)];
    if codec.bound > 0.0 {
        lines.push(format!("error_bound_mode = {}", codec.bound_mode));
        lines.push(format!("error_bound = {}", codec.bound));
    }
    if codec.parameter > 0 {
        lines.push(format!("zfp_bit_rate = {}", codec.parameter));
    }
    if codec.sequences {
        lines.push("sequences = 1".into());
    }
    lines.extend(factor);
    lines
}
