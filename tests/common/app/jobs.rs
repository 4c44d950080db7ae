//! Jobs of the application, drawn by a seed or given by hand.

use super::Draw;
use crate::common::play::ALGORITHMS;
use gpuzip::choice::{self, State, Storage, TierSpec};
use gpuzip::codec::{ErrorBound, Method, Settings};
use gpuzip::config::Config;
use gpuzip::plan::Policy;
use gpuzip::schedule::Algorithm;
use std::ops::Range;

/// The streams of the application's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// The legacy default stream.
    Default,
    /// One non-blocking stream, which the application has created.
    Own,
    /// Two streams of the application in turn, ordered by the application's events.
    Alternating,
    /// Two streams of the application in turn. Each has fields of its own, so that the application
    /// has nothing to order.
    Independent,
}

impl Streams {
    pub const ALL: [Self; 4] = [Self::Default, Self::Own, Self::Alternating, Self::Independent];
}

/// Bytes of device memory, enough for every job without a codec.
pub const MEMORY: u64 = 1 << 20;

/// A job: one schedule, one session per device.
#[derive(Clone, Debug)]
pub struct Job {
    pub config: Config,
    pub steps: u32,
    pub devices: i32,
    pub shots: u32,
    pub streams: Streams,
    /// Repeats each failed call once, and goes on.
    pub stubborn: bool,
}

/// Returns a configuration with default values for everything else.
pub fn config(algorithm: Algorithm, snapshots: u32, cache: u32, policy: Policy) -> Config {
    Config::default().with(|c| {
        c.schedule.algorithm = Some(algorithm);
        c.schedule.snapshots = snapshots;
        c.tiers.cache = cache;
        c.tiers.policy = policy;
    })
}

/// Returns the tiers of a session of this configuration whose raw states have `all` bytes.
pub fn raw_tiers(config: &Config, all: u64) -> TierSpec {
    let job = choice::Job::new(config.clone(), State::Bytes { all, previous: 0 });
    TierSpec::of(&Storage::raw(&job), &job).unwrap()
}

/// Returns a job of one shot on one device, on one stream of the application's own.
pub fn job(config: Config, steps: u32) -> Job {
    Job { config, steps, devices: 1, shots: 1, streams: Streams::Own, stubborn: false }
}

/// Returns the job on which the tests count transfers and make calls fail.
pub fn reference(policy: Policy, cache: u32) -> Job {
    let config =
        config(Algorithm::Revolve, 6, cache, policy).with(|c| c.device.max_in_flight = 1 << 20);
    job(config, 40)
}

/// What `draw_job` draws from.
pub struct Draws<'a> {
    pub algorithms: &'a [Algorithm],
    /// One of this number of jobs has the policy LRU, except online ones; 0: none.
    pub lru: u32,
    pub methods: &'a [Method],
    /// The numbers of snapshots of the schedule, of time steps, of devices, and of shots.
    pub snapshots: Range<u32>,
    pub steps: Range<u32>,
    pub devices: Range<u32>,
    pub shots: Range<u32>,
}

impl Draws<'_> {
    /// Jobs on one device without a codec.
    pub const PLAIN: Draws<'static> = Draws {
        algorithms: &ALGORITHMS,
        lru: 0,
        methods: &[Method::None],
        snapshots: 1..10,
        steps: 1..25,
        devices: 1..2,
        shots: 1..3,
    };
}

/// Draws a job.
pub fn draw_job(seed: u64, of: &Draws) -> Job {
    let mut draw = Draw(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    let mut below = |n: usize| draw.below(n as u32) as usize;
    let mut number = |of: &Range<u32>| of.start + below(of.len()) as u32;
    let (snapshots, steps, devices, shots) =
        (number(&of.snapshots), number(&of.steps), number(&of.devices), number(&of.shots));
    let algorithm = of.algorithms[below(of.algorithms.len())];
    let lru = of.lru > 0 && below(of.lru as usize) == 0 && algorithm != Algorithm::Online;
    let policy = if lru { Policy::Lru } else { Policy::Clairvoyant };
    let method = of.methods[below(of.methods.len())].clone();
    let config = config(algorithm, snapshots, below(6) as u32, policy).with(|c| {
        c.device.max_in_flight = [1, 3, 64][below(3)];
        c.schedule.range_actions = below(2) == 0;
        c.codec.settings =
            Settings { method, bound: ErrorBound::OfMax(1e-3), ..Settings::default() };
    });
    Job { devices: devices as i32, shots, streams: Streams::ALL[below(4)], ..job(config, steps) }
}
