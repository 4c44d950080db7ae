//! The mutation check of the CUDA backend, on the software CUDA driver. Every wait and every record
//! has a reason: without this wait or record states are wrong, or the other waits and records are
//! proved to imply it.

mod levels;

use crate::common::emu::emulated;
use crate::common::prelude::*;
use crate::common::{self, app, emu, order};
use app::{config, run_armed, run_zero_copy, Draw, Job, Outcome, Streams, MEMORY};
use emu::{mode, Entry};
use gpuzip::codec::gpu::GpuCodec;
use gpuzip::session::estimate;
use order::{races, sites, Kernels, Roles, Sites, OF_COMPRESSED, RECORDS, WAITS};
use std::collections::BTreeMap;

/// Number of random traces among the jobs.
const TRACES: u64 = 8;
/// Number of runs, without the wait or record in question, in which races are looked for.
const LOOKS: u64 = 10;
/// Number of runs; if an order that matters is lost, a wrong state must appear in one of them.
const HUNT: u64 = 4000;
/// A job that copies if `zero_copy` is `None`. With `Some(n)` a job with zero copy, which gives
/// acquired memory back with probability 1 / n after each action, or never if n is 0.
struct Case {
    job: Job,
    zero_copy: Option<u32>,
}

/// Bytes of device memory for jobs with a codec: staging buffers and working memory of kernels.
const ROOMY: u64 = 1 << 26;

/// The number of wrong states of a run, the history of its driver calls, the roles of its events,
/// and its races.
struct Trial {
    wrong: usize,
    history: Vec<Entry>,
    roles: Roles,
    races: Vec<String>,
}

impl Case {
    fn compresses(&self) -> bool {
        self.job.config.codec.settings.method != Method::None
    }

    /// Returns what is known of the kernels of the codec; `None` without a codec.
    fn kernels(&self) -> Option<Kernels> {
        let (settings, layout) =
            (&self.job.config.codec.settings, Layout::new(app::shapes()).unwrap());
        let field = |field: &Field| (field.n.iter().product(), field.bytes().unwrap());
        self.compresses().then(|| Kernels {
            room: SnapshotCodec::output_bytes(settings, &layout).unwrap() as u64,
            own: GpuCodec::bytes_for(settings, &layout).unwrap(),
            fields: layout.fields.iter().map(field).collect(),
        })
    }

    /// Returns the number of device slots of the job's plan.
    fn slots(&self) -> u32 {
        let config = self.job.config.clone().with(|c| {
            c.device.backend = Backend::Cuda;
            c.device.ordinal = Some(0);
        });
        let fields = unplaced(&app::shapes());
        estimate(config, self.job.steps as i64, &fields).unwrap().choice.plans[0].device_slots
    }

    /// Runs the job with call number `lost.1` of the kind `lost.0` lost. Looks for races if `looks`
    /// is set or a state is wrong.
    fn try_without(
        &self,
        seed: u64,
        slots: u32,
        kernels: Option<&Kernels>,
        lost: (&str, u64),
        looks: bool,
    ) -> Result<Trial> {
        let outcome = self.run(seed, mode(seed), || emu::lose(lost.0, lost.1))?;
        let history = if looks || outcome.wrong > 0 { emu::history() } else { Vec::new() };
        let roles = Roles::new(&history, slots, self.compresses());
        let races = races(&history, &roles, kernels, &outcome.seen);
        Ok(Trial { wrong: outcome.wrong, history, roles, races })
    }

    /// Runs the job with a history of the driver calls. `arm` is called before the library is.
    fn run(&self, seed: u64, mode: i32, arm: impl FnOnce()) -> Result<Outcome> {
        assert_eq!(emu::reset(seed, mode, 1, if self.compresses() { ROOMY } else { MEMORY }), 0);
        let arm = || {
            emu::start_history();
            arm();
        };
        match self.zero_copy {
            // The states decide the sizes of compressed snapshots, and the sizes decide where
            // snapshots lie. The states are the same in all runs in which races are looked for, and
            // in half of the others.
            None => run_armed(
                &self.job,
                if self.compresses() && (seed < LOOKS || seed % 2 == 0) { 1 } else { seed },
                arm,
            ),
            Some(chance) => {
                let mut draw = Draw(7);
                let releases = || chance > 0 && draw.below(chance) == 0;
                run_zero_copy(&self.job, seed, releases, arm)
            }
        }
    }
}

/// Returns a recorded schedule whose snapshots are not freed in the order of a stack, as Revolve
/// frees them: some waits matter only then.
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
    Job { streams, ..app::job(config.with(|c| c.device.max_in_flight = 1 << 20), steps) }
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
        let compression = coding(method, ErrorBound::DEFAULT);
        let config =
            config(Algorithm::Revolve, 3, cache, policy).with(|c| c.codec.settings = compression);
        cases.push(Case { job: job(config, 8, streams), zero_copy: None });
    }
    cases
}

/// Jobs whose cache has less room than its slots would take, so that some snapshots stay in the pool.
fn tight_cases() -> Vec<Case> {
    let of = |(algorithm, snapshots, cache, steps)| {
        let compression = coding(Method::Lorenzo, ErrorBound::DEFAULT);
        let plain = config(algorithm, snapshots, cache, Policy::Clairvoyant);
        let config = plain.with(|c| {
            c.codec.settings = compression;
            c.codec.compression_factor = 2.0;
            c.tiers.host_budget = 1 << 18;
        });
        Case { job: job(config, steps, Streams::Own), zero_copy: None }
    };
    // The forward phases of the online schedules end with a FORWARD under all seeds.
    let jobs = [
        (Algorithm::Revolve, 5, 3, 9),
        (Algorithm::Online, 3, 1, 9),
        (Algorithm::Online, 3, 2, 13),
    ];
    jobs.into_iter().map(of).collect()
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
    // With LRU and two slots, state 2 is fetched after the RESTORE of state 0, when the download of
    // state 2 may have just begun.
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
            let config = config(Algorithm::Trace, 0, cache, policy)
                .with(|c| c.schedule.trace_file = Some(path.clone()));
            cases.push(Case { job: job(config, steps, Streams::Own), zero_copy: None });
        }
    }
    for (snapshots, cache, streams, chance) in [
        (4, 2, Streams::Own, 0),
        (4, 2, Streams::Own, 1),
        (5, 3, Streams::Own, 2),
        (4, 2, Streams::Alternating, 1),
    ] {
        let config = config(Algorithm::Revolve, snapshots, cache, Policy::Clairvoyant)
            .with(|c| c.tiers.zero_copy = true);
        cases.push(Case { job: job(config, 14, streams), zero_copy: Some(chance) });
    }
    cases
}

/// What the loss of one wait or record does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Loss {
    /// Wrong states or an error.
    Seen,
    /// No wrong state: the remaining waits and records order everything that matters.
    Implied,
    /// Operations that matter are in no order any more, and yet no state was wrong in any run.
    Unexplained,
}

fn loss(case: &Case, slots: u32, kernels: Option<&Kernels>, kind: &str, k: u64) -> Loss {
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

/// Returns, for each site of a wait or record in the library, what the loss of each of its calls in
/// these cases does; for the sites for which `asked` returns true.
fn losses(cases: Vec<Case>, asked: impl Fn(&(&str, &str)) -> bool) -> Found {
    let mut found = Found::new();
    for case in cases {
        let (slots, kernels) = (case.slots(), case.kernels());
        let mut of = Sites::default();
        for seed in 0..LOOKS {
            let trial = case.try_without(seed, slots, kernels.as_ref(), ("wait", 0), true).unwrap();
            assert_eq!((trial.wrong, trial.races), (0, Vec::new()), "{:?}", case.job);
            of = sites(&trial.history, &trial.roles);
        }
        for (kind, sites) in [("wait", of.waits), ("record", of.records)] {
            for (k, site) in (1..).zip(sites) {
                // The application's own waits and records have no site.
                let Some(site) = site.filter(|site| asked(&(kind, *site))) else { continue };
                let loss = loss(&case, slots, kernels.as_ref(), kind, k);
                assert_ne!(loss, Loss::Unexplained, "{kind} {k}, {site}, of {:?}", case.job);
                *found.entry((kind, site)).or_default().entry(loss).or_default() += 1;
            }
        }
    }
    found.iter().for_each(|((kind, site), losses)| println!("{kind} {site}: {losses:?}"));
    found
}

/// For every line of the source that waits or records, some seed shows the loss of one of its
/// calls. For every single call in a set of jobs, some seed shows its loss, or the others are
/// proved to imply it.
#[test]
fn every_wait_and_every_record_is_needed_or_implied() {
    emulated!();
    check(&losses(cases(), |_| true), &OF_COMPRESSED, &[]);
}

/// Checks the waits and records of sessions with a codec, whose kernels make snapshots in staging
/// buffers and read snapshots in staging buffers or in the cache.
#[test]
fn with_a_codec_too() {
    emulated!(kernels);
    // In these jobs, the application orders its streams, snapshots have few different sizes, and
    // there are fewer restores than places for reports. Therefore other waits and records imply
    // those of the following sites.
    let implied = [
        ("wait", "upload: until the download"),
        ("wait", "call: until the call before, on another stream"),
        ("record", "snapshot read, for the report"),
    ];
    check(&losses(compressed_cases(), |_| true), &[], &implied);
}

/// The waits for downloads, where snapshots find no room in the cache, and where an online schedule
/// drops them: some seed shows the loss of each, or the others are proved to imply it, as in these jobs.
#[test]
fn with_a_cache_that_is_too_small() {
    emulated!(kernels);
    let site = ("wait", "application: until the download");
    let found = losses(tight_cases(), |of| *of == site);
    assert!(found.contains_key(&site), "{found:?}");
}

/// Checks that the loss of some call of each site, except the sites in `others`, is seen, and that
/// no loss of a call of a site in `implied` is.
fn check(found: &Found, others: &[(&str, &str)], implied: &[(&str, &str)]) {
    let all = WAITS
        .iter()
        .map(|site| ("wait", *site))
        .chain(RECORDS.iter().map(|site| ("record", *site)));
    for site in all.filter(|site| !others.contains(site)) {
        // If both calls are on one stream, the order of the stream implies the wait for the call
        // before, but equal handles need not be the same stream. Marks are for the host alone;
        // tests/cuda/ahead.rs tests them.
        let for_others =
            [("wait", "call: until the call before"), ("record", "mark between actions")]
                .contains(&site);
        let seen = found[&site].contains_key(&Loss::Seen);
        assert_eq!(seen, !for_others && !implied.contains(&site), "{site:?}: {:?}", found[&site]);
    }
}

/// The names in `WAITS` and `RECORDS` are those of the lines of the source that wait and record.
#[test]
fn no_line_is_forgotten() {
    let order = include_str!("../../src/tier/order.rs");
    let tier = [
        order,
        include_str!("../../src/tier/mod.rs"),
        include_str!("../../src/tier/actions.rs"),
        include_str!("../../src/tier/copies.rs"),
        include_str!("../../src/tier/coding.rs"),
        include_str!("../../src/tier/room.rs"),
        include_str!("../../src/tier/handed.rs"),
        include_str!("../../src/tier/cut.rs"),
        include_str!("../../src/tier/disk.rs"),
        include_str!("../../src/tier/snapshot_coder.rs"),
    ]
    .concat();
    let cuda = [
        include_str!("../../src/device/cuda/mod.rs"),
        include_str!("../../src/device/cuda/calls.rs"),
        include_str!("../../src/device/cuda/marks.rs"),
        include_str!("../../src/device/cuda/recorder.rs"),
    ]
    .concat();
    // One line of the tiers waits, for the first five names, and one records, for the first four; the
    // other two lines that record are those of the coder. One call of each driver function is in
    // `Device::wait` or `Device::record`, which the tiers call. tests/cuda/disk.rs tests the waits of
    // disk lanes.
    assert_eq!(
        (order.matches("device.wait(").count(), tier.matches("device.wait(").count()),
        (1, 1)
    );
    assert_eq!(tier.matches("device.record(").count(), 3);
    // One line has the last two names of waits because it waits for two reasons.
    assert_eq!(cuda.matches("cuStreamWaitEvent(").count() - 1 + 5 + 1, WAITS.len());
    // timers.rs records the start of a call, like the start of all timed work.
    assert_eq!(
        include_str!("../../src/device/cuda/timers.rs").matches("cuEventRecord(pair.begin").count(),
        1
    );
    assert_eq!(cuda.matches("cuEventRecord(").count() - 1 + 4 + 2, RECORDS.len() - 1);
}
