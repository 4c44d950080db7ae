//! Machines that fail: how often to write generations (restart files), and the time and price of a
//! survey on such machines.

use super::costs::Machine;
use super::survey::Survey;
use super::two_levels::{Interval, TwoLevels};
use crate::options::{positive, refuse};
use crate::units::{seconds, size};
use clap::Args;
use gpuzip::error::Result;
use gpuzip::predict::Simulation;
use serde_json::{json, Map, Value};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most attempts at shots that all simulated surveys make together: some 0.1 seconds.
const ATTEMPTS: f64 = 3e6;

/// Most surveys that are simulated.
const RUNS: f64 = 1000.0;

/// Nodes that fail, and what they cost.
#[derive(Args)]
#[command(next_help_heading = "Failures (how often to write generations, see restart.md)")]
pub struct FailureOptions {
    /// Mean time between failures of a node, such as 90s, 30m, 6h or 2d; with --mtbf-node of those alone that
    /// its restart files survive
    #[arg(long, value_name = "TIME", requires = "state", value_parser = duration, allow_hyphen_values = true)]
    mtbf: Option<f64>,
    /// Mean time until a node is lost with its restart files, of which there are copies (persist_shared_dir)
    #[arg(long, value_name = "TIME", requires_all = ["mtbf", "copies"], value_parser = duration, allow_hyphen_values = true)]
    mtbf_node: Option<f64>,
    /// GB/s at which the ranks of a node together write to the shared folder, and read from it
    #[arg(long, value_name = "GB/S", group = "copies", requires = "mtbf_node", value_parser = positive, allow_hyphen_values = true)]
    shared_gbs: Option<f64>,
    /// Seconds from a generation until its copy in the shared folder is complete, where they were measured
    #[arg(long, value_name = "SECONDS", group = "copies", requires = "mtbf_node", value_parser = positive, allow_hyphen_values = true)]
    copy_s: Option<f64>,
    /// Seconds that a generation takes of the run: persist over generations of gpuzip_stats_t, where it was
    /// measured; without it, its bytes over the speed of the disk
    #[arg(long, value_name = "SECONDS", requires = "mtbf", value_parser = positive, allow_hyphen_values = true)]
    checkpoint_s: Option<f64>,
    /// Seconds from a failure until the run goes on; without it, the reading of a generation
    #[arg(long, value_name = "SECONDS", requires = "mtbf", value_parser = not_negative, allow_hyphen_values = true)]
    restart_s: Option<f64>,
    /// Price of an hour of a node that does not fail
    #[arg(long, value_name = "PRICE", requires = "spot_price", value_parser = not_negative, allow_hyphen_values = true)]
    price: Option<f64>,
    /// Price of an hour of a node that fails as --mtbf says
    #[arg(long, value_name = "PRICE", requires = "mtbf", value_parser = not_negative, allow_hyphen_values = true)]
    spot_price: Option<f64>,
}

fn duration(text: &str) -> std::result::Result<f64, String> {
    let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)];
    units
        .into_iter()
        .find_map(|(unit, seconds)| Some(positive(text.strip_suffix(unit)?).ok()? * seconds))
        .filter(|seconds| seconds.is_finite() && *seconds > 0.0)
        .ok_or_else(|| "give a number greater than 0 and its unit: s, m, h or d, as in 6h".into())
}

fn not_negative(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value),
        _ => Err("give a number from 0 on".into()),
    }
}

impl FailureOptions {
    /// Returns the values for JSON and the lines for a reader; nothing without `--mtbf`. A shot
    /// without failures takes `shot.makespan` seconds. Without a survey, it is of one shot.
    pub fn outlook(
        &self,
        shot: &Simulation,
        machine: &Machine,
        survey: Option<Survey>,
    ) -> Result<(Map<String, Value>, Vec<String>)> {
        let Some(mtbf) = self.mtbf else { return Ok(Default::default()) };
        let survey = survey.unwrap_or(Survey::ONE);
        let bytes = [shot.device_peak, shot.host_peak, shot.disk_peak]
            .into_iter()
            .fold(machine.state_bytes, u64::saturating_add);
        let of_disk = |speed: f64| bytes as f64 / (speed * 1e9);
        let profile = &machine.profile;
        let disk = machine.origins.iter().find(|(option, ..)| *option == "--disk-gbs");
        let disk = disk.map_or("assumed", |(.., source)| source);
        let computed = |way: &str, speed: f64| {
            format!(
                "computed: at most {}, {way} at {speed} GB/s (--disk-gbs, {disk}; a rank's share)",
                size(bytes)
            )
        };
        let (write, read) = (profile.disk_write_gbs, profile.disk_read_gbs);
        let given = || "given".to_string();
        let cost_source = self.checkpoint_s.map_or_else(|| computed("written", write), |_| given());
        let restart_source = self.restart_s.map_or_else(|| computed("read", read), |_| given());
        let failures = Failures {
            mtbf,
            cost: self.checkpoint_s.unwrap_or_else(|| of_disk(write)),
            restart: self.restart_s.unwrap_or_else(|| of_disk(read)),
        };
        for (option, name, value, source) in [
            ("--checkpoint-s", "to write a generation", failures.cost, &cost_source),
            ("--restart-s", "to go on after a failure", failures.restart, &restart_source),
        ] {
            if value >= mtbf {
                return refuse(format!(
                    "--mtbf: a node fails each {} on average, and it takes {} {name} ({source}): no run would get on; \
                     give a longer --mtbf or, where it is less, {option}",
                    seconds(mtbf), seconds(value)
                ));
            }
        }
        let levels = self.levels(&failures, bytes, survey)?;
        let (young, daly) = (failures.young(), failures.daly());
        let once = survey.seconds(shot.makespan);
        let interval = levels.as_ref().map_or(daly, Levels::work);
        let overhead = failures.cost / interval;
        let (time, runs) = match &levels {
            Some(levels) => (once / (1.0 - levels.best.lost), 0),
            None => failures.survey(survey, shot.makespan, daly),
        };
        let all = Failures { mtbf: levels.as_ref().map_or(mtbf, Levels::mtbf_of_all), ..failures };
        let (without, _) = all.survey(survey, shot.makespan, f64::INFINITY);
        let mut values = json!({
            "generation_bytes": bytes, "checkpoint_s": failures.cost, "restart_s": failures.restart,
            "young_s": young, "daly_s": daly, "persist_overhead": overhead,
            "failing_s": time, "failing_runs": runs, "failing_without_generations_s": without,
        });
        let of_runs = match runs {
            0 if levels.is_some() => "the mean by the share of the time that is lost".into(),
            0 => "the mean by Daly's formula".into(),
            runs => format!("the mean of {runs} simulated surveys"),
        };
        let each = seconds(mtbf);
        let mut lines = vec![
            match self.mtbf_node {
                None => format!("\nA node that fails each {each} on average:"),
                Some(node) => format!(
                    "\nA node that fails each {each} on average, and is lost each {}:",
                    seconds(node)
                ),
            },
            format!("  a generation   {:12} {cost_source}", seconds(failures.cost)),
            format!("  a restart      {:12} {restart_source}", seconds(failures.restart)),
        ];
        match &levels {
            Some(levels) => levels.tell(shot.makespan, &mut values, &mut lines),
            None => lines.push(format!(
                "  write one each {:12} Daly 2006; Young: {}",
                seconds(daly),
                seconds(young)
            )),
        }
        lines.extend([
            format!(
                "  the survey     {:12} {of_runs}; without failures: {}",
                seconds(time),
                seconds(once)
            ),
            format!(
                "  no generations {:12} a shot that fails begins again, finished shots are kept",
                if without < 1e12 { seconds(without) } else { "no end".into() }
            ),
        ]);
        if interval >= shot.makespan {
            let shot = seconds(shot.makespan);
            lines.push(format!("  A shot takes {shot}: no generation within a shot pays, those of starts of shots suffice."));
        }
        let money = |price: f64, time: f64| price * f64::from(survey.nodes()) * time / 3600.0;
        for (key, name, price, time) in [
            ("price", "nodes that do not fail", self.price, once),
            ("spot_price", "nodes that fail", self.spot_price, time),
        ] {
            let Some(price) = price else { continue };
            let total = money(price, time);
            values[format!("{key}_of_survey")] = json!(total);
            lines.push(format!(
                "  price {total:.2}: {} {name}, {} at {price} per node and hour",
                survey.nodes(),
                seconds(time)
            ));
        }
        lines.push(
            "As a configuration. A session counts of a generation the application's wait and the processor time of the thread that writes it:"
                .into(),
        );
        // 0 would stand for the default.
        lines.push(match overhead {
            ..0.001 => format!("persist_overhead = {overhead:.2e}"),
            _ => format!("persist_overhead = {overhead:.4}"),
        });
        let Value::Object(values) = values else { return Ok(Default::default()) };
        Ok((values, lines))
    }
}

/// Restart files on two levels, with the interval at which the least time is lost.
struct Levels {
    model: TwoLevels,
    best: Interval,
    /// Where the time of a copy is from.
    source: String,
}

impl FailureOptions {
    /// Returns the levels of the restart files; `None` without `--mtbf-node`.
    fn levels(&self, near: &Failures, bytes: u64, survey: Survey) -> Result<Option<Levels>> {
        let Some(mtbf_node) = self.mtbf_node else { return Ok(None) };
        let share = self.shared_gbs.map(|gbs| gbs / f64::from(survey.sharers()));
        let of_speed = share.map_or(f64::INFINITY, |gbs| bytes as f64 / (gbs * 1e9));
        let copy = self.copy_s.unwrap_or(of_speed);
        let source = match (self.copy_s, share) {
            (None, Some(gbs)) => format!(
                "computed: at most {}, written at {gbs} GB/s (--shared-gbs, given; a rank's share)",
                size(bytes)
            ),
            _ => "given".into(),
        };
        let fetch = self.restart_s.unwrap_or(if share.is_some() { of_speed } else { copy });
        let Failures { mtbf, cost, restart } = *near;
        let model = TwoLevels { mtbf, mtbf_node, cost, restart, copy, fetch };
        let best = model.best();
        if best.lost < 1.0 {
            return Ok(Some(Levels { model, best, source }));
        }
        refuse(format!(
            "--mtbf-node: a node fails each {} on average and is lost each {}, a generation takes {} and a copy {} ({source}): \
             by the formula no run would get on; give longer times between failures or, where they are less, --checkpoint-s, \
             --restart-s and --copy-s",
            seconds(mtbf),
            seconds(mtbf_node),
            seconds(cost),
            seconds(copy)
        ))
    }
}

/// A share of the time.
fn share(lost: f64) -> String {
    if lost < 1.0 {
        format!("{:.2} %", 100.0 * lost)
    } else {
        "all".into()
    }
}

impl Levels {
    /// Seconds of work between generations.
    fn work(&self) -> f64 {
        self.best.period - self.model.cost
    }

    /// The mean time between failures of both kinds.
    fn mtbf_of_all(&self) -> f64 {
        1.0 / (1.0 / self.model.mtbf + 1.0 / self.model.mtbf_node)
    }

    /// Adds what the levels lose, and what other folders would lose. A shot takes `makespan` seconds.
    fn tell(&self, makespan: f64, values: &mut Value, lines: &mut Vec<String>) {
        let Levels { model, best, source } = self;
        let (crash, loss) = (model.of_crash(best), model.of_loss(best));
        let never = TwoLevels { copy: 0.0, mtbf_node: f64::INFINITY, ..*model };
        // A lost node begins its shot again: half of it is lost.
        let again = makespan / 2.0 + model.restart;
        let near = TwoLevels { copy: 0.0, fetch: again, ..*model }.best().lost;
        let mtbf = self.mtbf_of_all();
        let shared = TwoLevels { mtbf, cost: model.copy, restart: model.fetch, ..never }.best();
        let bound = never.best().lost;
        for (key, value) in [
            ("copy_s", model.copy),
            ("interval_s", self.work()),
            ("copied_each", best.copied),
            ("failure_costs_s", crash),
            ("lost_node_costs_s", loss),
            ("lost_share", best.lost),
            ("lost_share_near_alone", near),
            ("lost_share_shared_alone", shared.lost),
            ("lost_share_no_lost_node", bound),
        ] {
            values[key] = json!(value);
        }
        let copied = match best.copied {
            1.0 => "each one is".into(),
            n => format!("one of {n} is"),
        };
        let age = seconds(loss - model.fetch);
        let verdict = match best.lost.min(near).min(shared.lost) {
            least if least == best.lost => "The two levels lose least.",
            least if least == near => {
                "The folder of the node alone loses less: no copies are needed."
            }
            _ => "The shared folder alone loses less: make it persist_dir.",
        };
        lines.extend([
            format!("  a copy         {:12} {source}", seconds(model.copy)),
            format!(
                "  write one each {:12} the least time is lost; {copied} copied",
                seconds(self.work())
            ),
            format!(
                "  a failure      {:12} is lost: half an interval, and the restart",
                seconds(crash)
            ),
            format!(
                "  a lost node    {:12} is lost: the age of the copy, {age}, and the restart",
                seconds(loss)
            ),
            format!("  time lost      {:12} of all time, in the first order", share(best.lost)),
            format!(
                "    near alone   {:12} without copies a lost node begins its shot again",
                share(near)
            ),
            format!(
                "    shared alone {:12} each generation takes {} of the run, one each {}",
                share(shared.lost),
                seconds(model.copy),
                seconds(shared.period - model.copy)
            ),
            format!("    no lost node {:12} no copies can do better", share(bound)),
            format!("  {verdict}"),
        ]);
    }
}

/// Failures of a node at random moments, independent of one another, and generations. In seconds.
#[derive(Clone, Copy)]
struct Failures {
    /// The mean time between failures.
    mtbf: f64,
    /// What a generation takes of the run.
    cost: f64,
    /// From a failure until the run goes on, if it does not fail again.
    restart: f64,
}

impl Failures {
    /// Work between generations, by Young (1974).
    fn young(&self) -> f64 {
        (2.0 * self.cost * self.mtbf).sqrt()
    }

    /// Work between generations, by the higher-order estimate of Daly (2006).
    fn daly(&self) -> f64 {
        let part = self.cost / (2.0 * self.mtbf);
        if part >= 1.0 {
            return self.mtbf;
        }
        self.young() * (1.0 + part.sqrt() / 3.0 + part / 9.0) - self.cost
    }

    /// The stretches of a shot that end with a generation, and the work after the last one.
    fn stretches(&self, work: f64, interval: f64) -> (f64, f64) {
        let interval = interval.min(work);
        let full = if work > 0.0 { (work / interval).ceil() - 1.0 } else { 0.0 };
        (full, work - full * interval)
    }

    /// The mean time until so many seconds pass without a failure (Daly 2006).
    fn stretch(&self, length: f64) -> f64 {
        self.mtbf * (self.restart / self.mtbf).exp() * (length / self.mtbf).exp_m1()
    }

    /// The mean time of a shot of so much work, with a generation after each interval of it.
    fn expected(&self, work: f64, interval: f64) -> f64 {
        let (full, last) = self.stretches(work, interval);
        let generations = if full > 0.0 { full * self.stretch(interval + self.cost) } else { 0.0 };
        generations + self.stretch(last)
    }

    /// The time of one such shot, with failures at random moments.
    fn shot(&self, work: f64, interval: f64, random: &mut Random) -> f64 {
        let (mut full, last) = self.stretches(work, interval);
        let (mut time, mut delay) = (0.0, 0.0);
        loop {
            let stretches = if full > 0.0 { full * (interval + self.cost) } else { 0.0 };
            let needed = delay + stretches + last;
            let uptime = self.mtbf * random.exponential();
            if uptime >= needed {
                return time + needed;
            }
            time += uptime;
            full -= ((uptime - delay).max(0.0) / (interval + self.cost)).floor().min(full);
            delay = self.restart;
        }
    }

    /// The mean time of a survey, and the number of surveys that were simulated for it; 0 if it has
    /// too many shots or failures to be simulated and the mean is that of the formula.
    fn survey(&self, survey: Survey, work: f64, interval: f64) -> (f64, u32) {
        let of_shot = self.expected(work, interval);
        let turns = survey.shots as f64 / f64::from(survey.sharers());
        let runs = (ATTEMPTS / (turns * (1.0 + of_shot / self.mtbf)).max(1.0)).min(RUNS) as u32;
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mean = match runs {
            0 => survey.rounds() as f64 * of_shot,
            _ => {
                let all = (0..runs).map(|_| self.one_survey(survey, work, interval, &mut random));
                all.sum::<f64>() / f64::from(runs)
            }
        };
        (mean, runs)
    }

    /// The time of one survey whose nodes fail at random moments. Ranks of a node fail together; a
    /// node that has finished its shots takes the next ones.
    fn one_survey(&self, survey: Survey, work: f64, interval: f64, random: &mut Random) -> f64 {
        let ranks = |node: u32| survey.sharers().min(survey.ranks - node * survey.sharers());
        let turns = survey.shots.div_ceil(survey.sharers().into());
        let busy = turns.min(survey.nodes().into()) as u32;
        // The bits of numbers that are not negative are in the order of the numbers.
        let mut free: BinaryHeap<_> = (0..busy).map(|n| Reverse((0u64, n))).collect();
        let (mut shots, mut end) = (survey.shots, 0f64);
        while let Some(Reverse((since, node))) = free.pop().filter(|_| shots > 0) {
            shots = shots.saturating_sub(ranks(node).into());
            let time = f64::from_bits(since) + self.shot(work, interval, random);
            end = end.max(time);
            free.push(Reverse((time.to_bits(), node)));
        }
        end
    }
}

/// A sequence of random numbers, always the same (SplitMix64).
pub struct Random(pub u64);

impl Random {
    /// A number of the exponential distribution with mean 1.
    pub fn exponential(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let fraction = ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
        -(1.0 - fraction).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Failures = Failures { mtbf: 3600.0, cost: 30.0, restart: 60.0 };

    #[test]
    fn durations_need_a_number_and_a_unit() {
        for (text, seconds) in [("90s", 90.0), ("30m", 1800.0), ("6h", 21600.0), ("2d", 172800.0)] {
            assert_eq!(duration(text), Ok(seconds));
        }
        for text in ["6", "h", "0h", "-1h", "6 h", "6hours", "infs", "nanh", "1h30m", "1e999d", ""]
        {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    /// Young's interval is the first order of Daly's, and Daly's is all but the best of the exact
    /// expectation.
    #[test]
    fn intervals_are_those_of_the_literature() {
        assert_eq!(Failures { mtbf: 800.0, cost: 4.0, restart: 0.0 }.young(), 80.0);
        // sqrt(2 * 4 * 800) * (1 + 0.05 / 3 + 0.0025 / 9) - 4
        let daly = Failures { mtbf: 800.0, cost: 4.0, restart: 0.0 }.daly();
        assert!((daly - 77.355_555_555).abs() < 1e-6, "{daly}");
        let rare = Failures { mtbf: 1e9, cost: 1.0, restart: 0.0 };
        assert!((rare.daly() / rare.young() - 1.0).abs() < 1e-4);
        assert_eq!(Failures { mtbf: 10.0, cost: 20.0, restart: 0.0 }.daly(), 10.0);
        let per_work = |interval: f64| NODE.stretch(interval + NODE.cost) / interval;
        let best = (1..3600).map(|s| per_work(f64::from(s))).fold(f64::INFINITY, f64::min);
        assert!(per_work(NODE.daly()) < best * 1.0001);
        assert!(per_work(NODE.daly()) < per_work(NODE.young()));
    }

    #[test]
    fn simulated_shots_take_the_exact_mean_time() {
        for (work, interval) in [(5000.0, NODE.daly()), (5000.0, 100.0), (4000.0, f64::INFINITY)] {
            let mut random = Random(1);
            let count = 40_000;
            let all: f64 = (0..count).map(|_| NODE.shot(work, interval, &mut random)).sum();
            let (mean, exact) = (all / f64::from(count), NODE.expected(work, interval));
            assert!((mean / exact - 1.0).abs() < 0.02, "{interval}: {mean}, {exact}");
        }
    }

    #[test]
    fn rarer_failures_and_cheaper_generations_make_a_survey_shorter() {
        let survey = Survey { ranks: 10, ranks_per_node: 4, shots: 95, ..Survey::ONE };
        let of = |node: Failures| node.survey(survey, 5000.0, node.daly()).0;
        let times = [
            of(Failures { mtbf: 1e15, cost: 1e-6, ..NODE }),
            of(Failures { mtbf: 36000.0, ..NODE }),
            of(NODE),
            of(Failures { cost: 300.0, ..NODE }),
            of(Failures { cost: 300.0, restart: 600.0, ..NODE }),
        ];
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
        assert!((times[0] / survey.seconds(5000.0) - 1.0).abs() < 1e-3, "{times:?}");
        // The last node to finish is later than the mean of all.
        let mean = survey.rounds() as f64 * NODE.expected(5000.0, NODE.daly());
        assert!((0.9..1.3).contains(&(times[2] / mean)), "{times:?}, {mean}");
    }

    #[test]
    fn a_survey_without_end_is_not_simulated() {
        let survey = Survey { shots: u64::MAX, ..Survey::ONE };
        let (time, runs) = NODE.survey(survey, 5000.0, NODE.daly());
        assert_eq!((runs, time), (0, u64::MAX as f64 * NODE.expected(5000.0, NODE.daly())));
    }
}
