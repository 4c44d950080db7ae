//! The mutation check of the CUDA backend, on the software CUDA driver: every wait and every record
//! is there because states go wrong without it, or because it makes sure what something else makes
//! sure already, which is proved.

#[path = "cuda/app.rs"]
#[allow(dead_code)] // Each test program uses a part of it.
mod app;
mod common;
#[path = "cuda/emu.rs"]
#[allow(dead_code)] // As above.
mod emu;
#[path = "cuda/order.rs"]
mod order;

use app::{
    config, host_syncs, run_armed, run_zero_copy_armed, Draw, Job, Outcome, Streams, MEMORY,
};
use emu::Entry;
use gpuzip::codec::gpu::GpuCodec;
use gpuzip::codec::{ErrorBound, Method, Settings};
use gpuzip::config::{Backend, Config};
use gpuzip::device::AppField;
use gpuzip::error::Result;
use gpuzip::layout::{Field, Layout};
use gpuzip::plan::Policy;
use gpuzip::schedule::Algorithm;
use gpuzip::session::estimate;
use order::{races, sites, Kernels, Roles, Sites, OF_COMPRESSED, OF_RAW, RECORDS, WAITS};
use std::collections::BTreeMap;

/// Random traces among the jobs.
const TRACES: u64 = 8;
/// Runs that every instance is lost in; and those in which a wrong state must come where the order
/// is lost.
const LOOKS: u64 = 10;
const HUNT: u64 = 4000;
/// A job that copies, or one of zero copy that gives its memory back at one of so many actions; 0:
/// never.
struct Case {
    job: Job,
    zero_copy: Option<u32>,
}

/// Memory for jobs with a codec: stages, and what kernels work in.
const ROOMY: u64 = 1 << 26;

/// What a run asked for, and who is who in it.
struct Trial {
    wrong: usize,
    history: Vec<Entry>,
    roles: Roles,
    races: Vec<String>,
}

impl Case {
    fn compresses(&self) -> bool {
        self.job.config.compression.method != Method::None
    }

    /// What is known of its kernels.
    fn kernels(&self) -> Option<Kernels> {
        let (settings, layout) =
            (&self.job.config.compression, Layout::new(app::shapes()).unwrap());
        let field = |field: &Field| (field.n.iter().product(), field.bytes().unwrap());
        self.compresses().then(|| Kernels {
            room: GpuCodec::room(settings, &layout).unwrap(),
            own: GpuCodec::bytes_for(settings, &layout).unwrap(),
            fields: layout.fields.iter().map(field).collect(),
        })
    }

    /// The slots of its plan, on the device and on the host.
    fn slots(&self) -> [u32; 2] {
        let config = Config { backend: Backend::Cuda, device: Some(0), ..self.job.config.clone() };
        let fields: Vec<AppField> =
            app::shapes().into_iter().map(|field| AppField { field, memory: None }).collect();
        let plan = estimate(config, self.job.steps as i64, &fields).unwrap().choice.plans.remove(0);
        [plan.device_slots, plan.host_slots]
    }

    /// Runs it with the k-th call of this kind lost, and looks for races if there is reason to.
    fn try_without(
        &self,
        seed: u64,
        slots: [u32; 2],
        kernels: Option<&Kernels>,
        lost: (&str, u64),
        looks: bool,
    ) -> Result<Trial> {
        let outcome = self.run(seed, mode(seed), || emu::lose(lost.0, lost.1))?;
        let history = if looks || outcome.wrong > 0 { emu::history() } else { Vec::new() };
        let roles = Roles::new(&history, slots[0], slots[1], self.compresses());
        let races = races(&history, &roles, kernels, &outcome.seen);
        Ok(Trial { wrong: outcome.wrong, history, roles, races })
    }

    /// Runs it after `arm`, with a history.
    fn run(&self, seed: u64, mode: i32, arm: impl FnOnce()) -> Result<Outcome> {
        assert_eq!(emu::reset(seed, mode, 1, if self.compresses() { ROOMY } else { MEMORY }), 0);
        let arm = || {
            emu::start_history();
            arm();
        };
        match self.zero_copy {
            // The states decide the sizes of compressed snapshots, and these what lies where: the
            // same wherever races are looked for, and in some of the others.
            None => run_armed(
                &self.job,
                if self.compresses() && (seed < LOOKS || seed % 2 == 0) { 1 } else { seed },
                host_syncs,
                arm,
            ),
            Some(chance) => {
                let mut draw = Draw(7);
                run_zero_copy_armed(
                    &self.job,
                    seed,
                    host_syncs,
                    || chance > 0 && draw.below(chance) == 0,
                    arm,
                )
            }
        }
    }
}

fn mode(seed: u64) -> i32 {
    [emu::RANDOM, emu::LATE, emu::RANDOM, emu::TIMED, emu::EARLY][seed as usize % 5]
}

/// A recorded schedule whose snapshots die in no order of a stack: what a wait is for may depend on
/// that.
fn trace_of(seed: u64) -> String {
    let (mut draw, n) = (Draw(seed * 77 + 5), 10);
    let mut text = String::from("0 SAVE\n");
    let mut stored = vec![0];
    for ts in 1..n {
        text += &format!("{ts} FORWARD\n");
        if ts + 1 < n && draw.below(2) == 0 {
            text += &format!("{ts} SAVE\n");
            stored.push(ts);
        }
    }
    text += &format!("{} BACKWARD\n", n - 1);
    for ts in (0..n - 1).rev() {
        let below: Vec<u32> = stored.iter().copied().filter(|&s| s <= ts).collect();
        let from = below[draw.below(below.len() as u32) as usize];
        text += &format!("{from} RESTORE\n");
        (from + 1..=ts).for_each(|s| text += &format!("{s} FORWARD\n"));
        text += &format!("{ts} BACKWARD\n");
    }
    text + "0 TERMINATE\n"
}

fn job(config: Config, steps: u32, streams: Streams) -> Job {
    Job {
        config: Config { max_in_flight: 1 << 20, ..config },
        steps,
        devices: 1,
        shots: 1,
        streams,
        stubborn: false,
    }
}

fn compressed_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (method, cache, policy, streams) in [
        (Method::Fp16, 0, Policy::Clairvoyant, Streams::Own),
        (Method::Fp16, 1, Policy::Lru, Streams::Own),
        (Method::Fp16, 2, Policy::Clairvoyant, Streams::Own),
        (Method::Lorenzo, 2, Policy::Lru, Streams::Own),
        (Method::Fp16, 3, Policy::Clairvoyant, Streams::Alternating),
    ] {
        let compression = Settings { method, bound: ErrorBound::DEFAULT, reject_nonfinite: false };
        let config = Config { compression, ..config(Algorithm::Revolve, 3, cache, policy) };
        cases.push(Case { job: job(config, 8, streams), zero_copy: None });
    }
    cases
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (cache, policy, streams) in [
        (1, Policy::Lru, Streams::Own),
        (2, Policy::Clairvoyant, Streams::Own),
        (2, Policy::Lru, Streams::Own),
        (2, Policy::Clairvoyant, Streams::Independent),
        (2, Policy::Lru, Streams::Independent),
        (3, Policy::Clairvoyant, Streams::Alternating),
    ] {
        cases.push(Case {
            job: job(config(Algorithm::Revolve, 4, cache, policy), 14, streams),
            zero_copy: None,
        });
    }
    let folder = common::tempdir("cuda-traces");
    // With lru and two slots, state 2 is fetched after the restore of 0, when its download may have
    // just begun.
    let early = "0 SAVE\n1 FORWARD\n1 SAVE\n2 FORWARD\n2 SAVE\n3 FORWARD\n4 FORWARD\n5 FORWARD\n5 BACKWARD\n0 RESTORE\n1 FORWARD\n\
                 2 FORWARD\n3 FORWARD\n3 SAVE\n4 FORWARD\n4 BACKWARD\n3 RESTORE\n3 BACKWARD\n2 RESTORE\n2 BACKWARD\n1 RESTORE\n\
                 1 BACKWARD\n0 RESTORE\n0 BACKWARD\n0 TERMINATE\n";
    for (number, text) in (0..TRACES).map(trace_of).chain([early.into()]).enumerate() {
        let path = folder.join(format!("{number}.trace"));
        let steps = text.matches("BACKWARD").count() as u32;
        std::fs::write(&path, text).unwrap();
        for (cache, policy) in
            [(1, Policy::Clairvoyant), (2, Policy::Clairvoyant), (2, Policy::Lru), (3, Policy::Lru)]
        {
            let config = Config {
                trace_file: Some(path.clone()),
                ..config(Algorithm::Trace, 0, cache, policy)
            };
            cases.push(Case { job: job(config, steps, Streams::Own), zero_copy: None });
        }
    }
    for (snapshots, cache, streams, chance) in [
        (4, 2, Streams::Own, 0),
        (4, 2, Streams::Own, 1),
        (5, 3, Streams::Own, 2),
        (4, 2, Streams::Alternating, 1),
    ] {
        let config = Config {
            zero_copy: true,
            ..config(Algorithm::Revolve, snapshots, cache, Policy::Clairvoyant)
        };
        cases.push(Case { job: job(config, 14, streams), zero_copy: Some(chance) });
    }
    cases
}

/// What losing an instance does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Loss {
    /// Wrong states or an error.
    Seen,
    /// Nothing: all that matters is in the same order without it.
    Implied,
    /// Some order is lost, and no state was ever wrong.
    Unexplained,
}

fn loss(case: &Case, slots: [u32; 2], kernels: Option<&Kernels>, kind: &str, k: u64) -> Loss {
    let mut unordered = false;
    for seed in 0..HUNT {
        let Ok(trial) = case.try_without(seed, slots, kernels, (kind, k), seed < LOOKS) else {
            return Loss::Seen;
        };
        if trial.wrong > 0 {
            assert!(
                !trial.races.is_empty(),
                "{kind} {k} of {:?} is proved to be implied, and is not",
                case.job
            );
            return Loss::Seen;
        }
        unordered |= !trial.races.is_empty();
        if seed + 1 == LOOKS && !unordered {
            return Loss::Implied;
        }
    }
    Loss::Unexplained
}

type Found = BTreeMap<(&'static str, &'static str), BTreeMap<Loss, usize>>;

/// What losing each wait and each record of the library does in these cases.
fn losses(cases: Vec<Case>) -> Found {
    let mut found = Found::new();
    for case in cases {
        let (slots, kernels) = (case.slots(), case.kernels());
        let mut of = Sites::default();
        for seed in 0..LOOKS {
            let trial = case.try_without(seed, slots, kernels.as_ref(), ("wait", 0), true).unwrap();
            assert_eq!((trial.wrong, trial.races), (0, Vec::new()), "{:?}", case.job);
            of = sites(&trial.history, &trial.roles, case.compresses());
        }
        for (kind, sites) in [("wait", of.waits), ("record", of.records)] {
            for (k, site) in (1..).zip(sites) {
                // The application's own have none.
                let Some(site) = site else { continue };
                let loss = loss(&case, slots, kernels.as_ref(), kind, k);
                assert_ne!(loss, Loss::Unexplained, "{kind} {k}, {site}, of {:?}", case.job);
                *found.entry((kind, site)).or_default().entry(loss).or_default() += 1;
            }
        }
    }
    found.iter().for_each(|((kind, site), losses)| println!("{kind} {site}: {losses:?}"));
    found
}

/// For every line of the source that waits or records, losing one of its calls is seen under some
/// seed; and every single one of these calls in a set of jobs is seen, too, or proved to be implied
/// by the others.
#[test]
fn every_wait_and_every_record_is_needed_or_implied() {
    if !emu::inside("every_wait_and_every_record_is_needed_or_implied", &[]) {
        return;
    }
    check(&losses(cases()), &OF_COMPRESSED, &[]);
}

/// The same with a codec, whose kernels make snapshots in stages and read them there or in the
/// cache.
#[test]
fn with_a_codec_too() {
    let images = common::scratch("kernels").display().to_string();
    if !common::have("c++") || !emu::inside("with_a_codec_too", &[("GPUZIP_CACHE_DIR", &images)]) {
        return;
    }
    // The application orders its streams here, sizes are few, and restores fewer than reports have
    // places: in these jobs all of these say what others say already.
    let implied = [
        ("wait", "upload: until what was there was downloaded"),
        ("wait", "upload: until the snapshot is on the host"),
        ("wait", "pool: until what was there was downloaded"),
        ("wait", "restore: until the snapshot is on the host"),
        ("wait", "call: until the call before, on another stream"),
        ("record", "download, for the snapshot"),
        ("record", "snapshot read, for the report"),
    ];
    check(&losses(compressed_cases()), &OF_RAW, &implied);
}

/// Losing a call of each site but `others` is seen, unless it is `implied`.
fn check(found: &Found, others: &[(&str, &str)], implied: &[(&str, &str)]) {
    let all = WAITS
        .iter()
        .map(|site| ("wait", *site))
        .chain(RECORDS.iter().map(|site| ("record", *site)));
    for site in all.filter(|site| !others.contains(site)) {
        // On one stream the wait for the call before is a matter of course, but handles do not tell
        // one stream from another. Marks are for the host alone; see the tests of how far
        // it runs ahead.
        let for_others =
            [("wait", "call: until the call before"), ("record", "mark between actions")]
                .contains(&site);
        let seen = found[&site].contains_key(&Loss::Seen);
        assert_eq!(seen, !for_others && !implied.contains(&site), "{site:?}: {:?}", found[&site]);
    }
}

/// The names above are those of the lines that there are.
#[test]
fn no_line_is_forgotten() {
    let tier = [
        include_str!("../src/tier/slots.rs"),
        include_str!("../src/tier/raw.rs"),
        include_str!("../src/tier/packed.rs"),
        include_str!("../src/tier/snapshot_coder.rs"),
    ]
    .concat();
    let cuda =
        [include_str!("../src/device/cuda/mod.rs"), include_str!("../src/device/cuda/marks.rs")]
            .concat();
    // `Device::wait` and `Device::record` are the driver's calls behind those of the tiers; one
    // line waits for two reasons, and for the slot that is restored, two do.
    assert_eq!(
        tier.matches("device.wait(").count() + cuda.matches("cuStreamWaitEvent(").count() - 1,
        WAITS.len()
    );
    // The begin of a call is recorded with all that is timed.
    assert_eq!(
        include_str!("../src/device/cuda/timers.rs").matches("cuEventRecord(pair.begin").count(),
        1
    );
    assert_eq!(
        tier.matches("device.record(").count() + cuda.matches("cuEventRecord(").count(),
        RECORDS.len()
    );
}
