//! Does more ever hurt? Random problems, each beside the same problem with a quarter more of one memory, with
//! a disk, or with one thing half as fast again. Counts the pairs whose second plan is predicted to be
//! slower, and the time of the searches:
//!
//!     cargo bench --bench pairs -- [PROBLEMS [FEWEST_STEPS [MOST_STEPS]]]

mod common;

use common::machine;
use gpuzip::choice::{choose_among, storage_options, Job, State};
use gpuzip::codec::{Method, Settings};
use gpuzip::config::Config;
use gpuzip::predict::{CodecProfile, Profile};
use std::time::Instant;

/// A sequence of random numbers from a seed (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number from `low` to `high` whose logarithm is spread evenly.
    fn from(&mut self, low: f64, high: f64) -> f64 {
        let part = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        low * (high / low).powf(part)
    }

    fn one_in(&mut self, many: u64) -> bool {
        (self.next() >> 20) % many == 0
    }
}

/// A problem. Memories are in states; speeds in GB/s.
#[derive(Clone)]
struct Problem {
    steps: u32,
    state: u64,
    device: f64,
    host: f64,
    disk: f64,
    speeds: Profile,
    zero_copy: bool,
    levels: bool,
    mixed: bool,
    ratio: Option<f64>,
    codec_gbs: f64,
}

impl Problem {
    fn random(seed: u64, fewest: f64, most: f64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            random.next();
        }
        let steps = random.from(fewest, most);
        let state = 1 << (20.0 + random.from(1.0, 10.0)) as u32;
        // A transfer takes 0.05 to 40 steps.
        let forward_ms = random.from(0.5, 50.0);
        let link = state as f64 / (random.from(0.05, 40.0) * forward_ms * 1e6);
        let host = steps.powf(random.from(0.1, 1.0)).max(3.0);
        let speeds = Profile {
            forward_ms,
            backward_ms: forward_ms * random.from(0.5, 3.0),
            h2d_gbs: link,
            d2h_gbs: link,
            d2d_gbs: link * random.from(2.0, 100.0),
            disk_read_gbs: link * random.from(0.05, 1.0),
            disk_write_gbs: link * random.from(0.05, 1.0),
            ..Profile::typical_gpu(state)
        };
        let device = if random.one_in(5) { 0.0 } else { random.from(2.0, host.clamp(4.0, 400.0)) };
        Problem {
            steps: steps as u32,
            state,
            device,
            host,
            disk: if random.one_in(3) { host * random.from(1.0, 30.0) } else { 0.0 },
            zero_copy: random.one_in(4) && device >= 4.0,
            levels: random.one_in(4),
            mixed: random.one_in(2),
            ratio: random.one_in(4).then(|| random.from(2.0, 50.0)),
            codec_gbs: link * random.from(1.0, 50.0),
            speeds,
        }
    }

    /// Returns the predicted seconds, and those of the search; `None` if the budgets hold no plan.
    fn solve(&self) -> Option<(f64, f64)> {
        let bytes = |states: f64| (states * self.state as f64) as u64;
        let configured = |ratio: Option<f64>| {
            Config::default().with(|c| {
                c.tiers.device_budget = bytes(self.device);
                c.tiers.host_budget = bytes(self.host);
                c.tiers.disk_budget = bytes(self.disk);
                c.tiers.zero_copy = self.zero_copy;
                c.tiers.shared_levels = self.levels;
                c.tiers.mixed_storage = Some(self.mixed && ratio.is_some());
                let mut profile = self.speeds.clone();
                if let Some(ratio) = ratio {
                    c.codec.settings = Settings::default().with(Method::Lorenzo);
                    c.codec.compression_factor = ratio;
                    profile.codecs = vec![CodecProfile {
                        compressor: Method::Lorenzo.number().into(),
                        ratio,
                        worst_ratio: ratio,
                        compress_gbs: self.codec_gbs,
                        decompress_gbs: self.codec_gbs,
                        ..CodecProfile::default()
                    }];
                }
                c.device.profile = Some(profile);
            })
        };
        // Raw snapshots compete with compressed ones, so that a codec adds plans.
        let ways = [None].into_iter().chain(self.ratio.is_some().then_some(self.ratio));
        let previous = if self.levels { self.state / 2 } else { 0 };
        let options = ways.filter_map(|ratio| {
            let state = State::Bytes { all: self.state, previous };
            storage_options(&Job::new(configured(ratio), state)).ok()
        });
        let options: Vec<_> = options.flatten().collect();
        let begin = Instant::now();
        let choice = choose_among(&configured(None), self.steps, &[options]).ok()?;
        Some((choice.predicted?, begin.elapsed().as_secs_f64()))
    }

    /// Returns the problems that have more of one thing, with its name.
    fn with_more(&self) -> Vec<(&'static str, Problem)> {
        let with = |change: &dyn Fn(&mut Problem)| {
            let mut more = self.clone();
            change(&mut more);
            more
        };
        vec![
            ("device memory", with(&|p| p.device *= 1.25)),
            ("host memory", with(&|p| p.host *= 1.25)),
            (
                if self.disk > 0.0 { "disk" } else { "a disk" },
                with(&|p| p.disk = if p.disk > 0.0 { p.disk * 1.25 } else { p.host * 4.0 }),
            ),
            (
                "faster link",
                with(&|p| {
                    (p.speeds.h2d_gbs, p.speeds.d2h_gbs) =
                        (p.speeds.h2d_gbs * 1.5, p.speeds.d2h_gbs * 1.5)
                }),
            ),
            ("faster copies", with(&|p| p.speeds.d2d_gbs *= 1.5)),
            (
                "faster disk",
                with(&|p| {
                    (p.speeds.disk_read_gbs, p.speeds.disk_write_gbs) =
                        (p.speeds.disk_read_gbs * 1.5, p.speeds.disk_write_gbs * 1.5)
                }),
            ),
            ("faster codec", with(&|p| p.codec_gbs *= 1.5)),
        ]
    }
}

fn main() {
    let numbers = std::env::args().skip(1).filter_map(|text| text.parse::<f64>().ok());
    let numbers: Vec<f64> = numbers.collect();
    let number = |k: usize, default: f64| numbers.get(k).copied().unwrap_or(default);
    let (problems, fewest, most) = (number(0, 100.0) as u64, number(1, 100.0), number(2, 1e5));
    println!("machine: {}\n", machine());
    let (mut pairs, mut slower, mut times) = (0, Vec::new(), Vec::new());
    for seed in 0..problems {
        let problem = Problem::random(seed, fewest, most);
        let Some((alone, seconds)) = problem.solve() else { continue };
        times.push(seconds);
        for (name, more) in problem.with_more() {
            let Some((predicted, seconds)) = more.solve() else { continue };
            times.push(seconds);
            pairs += 1;
            // Rounding errors of a prediction do not count.
            if predicted > alone * (1.0 + 1e-9) {
                slower.push(predicted / alone - 1.0);
                println!(
                    "problem {seed}, {} steps: {name} makes {:.4} s of {alone:.4} s",
                    problem.steps, predicted
                );
            }
        }
    }
    times.sort_by(f64::total_cmp);
    let worst = slower.iter().copied().fold(0.0, f64::max);
    println!(
        "{} of {pairs} pairs are slower with more, by {:.2} % at most; a search takes {:.3} s (median), {:.3} s at most",
        slower.len(),
        worst * 100.0,
        times.get(times.len() / 2).copied().unwrap_or(0.0),
        times.last().copied().unwrap_or(0.0)
    );
}
