//! Restart files on two levels: those of the node, which survive that the run is killed, and their copies in a
//! shared folder, which survive that the node is lost.
//!
//! The model is of the first order in the rates of failures, as that of Young (1974): a failure comes at any
//! moment with equal probability, and the run has gone on for long before the next one. From one generation to
//! the next the run takes P seconds, C of them for the generation. A copy takes S seconds beside the run, and
//! begins with a generation, when the copy before is complete: with each n-th one, n = ceil(S / P). The newest
//! complete copy is then between S and S + nP seconds old. A failure that the files of the node survive comes
//! each M seconds, and the run goes on after R; a node is lost each N seconds, and the run goes on after Q from
//! the copy. This share of the time is lost:
//!
//! ```text
//! 1 - (1 - C / P) (1 - (P / 2 + R) / M - (S + nP / 2 + Q) / N)
//! ```
//!
//! For one n it is least at P = sqrt(C (1 - R / M - (S + Q) / N) / (1 / 2M + n / 2N)); of all n the best one is
//! taken. With N infinite this is Young's interval, for R of 0. Moody et al. (SC10) and Di, Robert, Vivien and
//! Cappello (TPDS 2017) treat levels that stop the run for every write; here the copies cost the run nothing,
//! and their age counts.

/// Most generations from one copy to the next that are tried.
const MOST: u32 = 1_000_000;

/// Failures of two kinds, and what they cost. In seconds.
#[derive(Clone, Copy)]
pub struct TwoLevels {
    /// M: the mean time between failures that the files of the node survive.
    pub mtbf: f64,
    /// N: the mean time until the node is lost; infinite: never.
    pub mtbf_node: f64,
    /// C: what a generation takes of the run.
    pub cost: f64,
    /// R: from a failure of the first kind until the run goes on.
    pub restart: f64,
    /// S: from a generation until its copy is complete; 0: there are no copies, and a lost node costs `fetch`.
    pub copy: f64,
    /// Q: from the loss of a node until the run goes on.
    pub fetch: f64,
}

/// An interval, and what it leads to.
#[derive(Clone, Copy)]
pub struct Interval {
    /// P: seconds from one generation to the next.
    pub period: f64,
    /// n: each n-th generation is copied.
    pub copied: f64,
    /// The share of the time that is lost; 1 or more: the run never ends.
    pub lost: f64,
}

impl TwoLevels {
    /// The share of the time for which (P / 2 + R) / M and so on stand, without what depends on P.
    fn at_rest(&self) -> f64 {
        1.0 - self.restart / self.mtbf - (self.copy + self.fetch) / self.mtbf_node
    }

    /// What a second of P adds to the share of the time that failures take, if each `n`-th generation is copied.
    fn per_second(&self, n: f64) -> f64 {
        0.5 / self.mtbf + 0.5 * n / self.mtbf_node
    }

    fn interval(&self, period: f64, n: f64) -> Interval {
        let kept = self.at_rest() - self.per_second(n) * period;
        // Neither share can be less than nothing, and two of them are no gain.
        let lost = 1.0 - (1.0 - self.cost / period).max(0.0) * kept.max(0.0);
        Interval { period, copied: n, lost }
    }

    /// Returns the interval at which the least time is lost.
    pub fn best(&self) -> Interval {
        let of = |n: f64| (self.cost * self.at_rest().max(0.0) / self.per_second(n)).sqrt();
        if self.copy == 0.0 {
            return self.interval(of(0.0).max(self.cost), 0.0);
        }
        let mut best: Option<Interval> = None;
        for n in (1..=MOST).map(f64::from) {
            // With shorter ones a copy takes longer than n of them.
            let shortest = self.copy / n;
            let interval = self.interval(of(n).max(shortest).max(self.cost), n);
            if best.is_none_or(|best| interval.lost < best.lost) {
                best = Some(interval);
            }
            // A larger n only adds to what is lost.
            if of(n) >= shortest {
                break;
            }
        }
        best.unwrap_or_else(|| self.interval(self.copy, 1.0))
    }

    /// What a failure costs on average that the files of the node survive.
    pub fn of_crash(&self, interval: &Interval) -> f64 {
        interval.period / 2.0 + self.restart
    }

    /// What the loss of the node costs on average.
    pub fn of_loss(&self, interval: &Interval) -> f64 {
        self.copy + interval.copied * interval.period / 2.0 + self.fetch
    }
}

#[cfg(test)]
mod tests {
    use super::super::failures::Random;
    use super::*;

    const NODE: TwoLevels = TwoLevels {
        mtbf: 40_000.0,
        mtbf_node: 100_000.0,
        cost: 2.0,
        restart: 10.0,
        copy: 250.0,
        fetch: 60.0,
    };

    /// A copy that is complete at once, or a node that is never lost, leaves Young's interval.
    #[test]
    fn the_first_order_is_young_s() {
        let one = TwoLevels { mtbf_node: f64::INFINITY, restart: 0.0, copy: 0.0, ..NODE };
        let young = (2.0 * 2.0 * 40_000.0f64).sqrt();
        assert!((one.best().period / young - 1.0).abs() < 1e-12);
        let both = TwoLevels { copy: 1e-9, restart: 0.0, fetch: 0.0, ..NODE };
        let together: f64 = 1.0 / (1.0 / 40_000.0 + 1.0 / 100_000.0);
        let young = (2.0 * 2.0 * together).sqrt();
        assert!((both.best().period / young - 1.0).abs() < 1e-9);
    }

    /// Of a million intervals none loses less, and the one that loses least has copies as often. Copies take
    /// less than an interval, some, or many.
    #[test]
    fn no_other_interval_loses_less() {
        let copied = [20.0, 250.0, 900.0, 20_000.0].map(|copy| {
            let node = TwoLevels { copy, ..NODE };
            let best = node.best();
            let of = |period: f64| node.interval(period, (copy / period).ceil());
            // The loss jumps where a copy takes exactly n intervals.
            let jumps = (1..1000).map(f64::from).map(|n| node.interval(copy / n, n));
            let others = (1..1_000_000).map(|k| of(f64::from(k) * 0.01)).chain(jumps);
            let least = others.reduce(|a, b| if b.lost < a.lost { b } else { a }).unwrap();
            assert!(best.lost <= least.lost + 1e-12, "{copy}: {} {}", best.lost, least.lost);
            assert!(best.lost > least.lost - 1e-6, "{copy}: {} {}", best.lost, least.lost);
            // A copy of n intervals may take n + 1 of them by a rounding error.
            let found = of(best.period * (1.0 + 1e-12));
            assert!((best.lost / found.lost - 1.0).abs() < 1e-9, "{copy}");
            assert_eq!((best.copied, found.copied), (least.copied, least.copied), "{copy}");
            best.copied
        });
        assert!(copied[0] == 1.0 && copied[2] > 1.0 && copied[3] > 10.0, "{copied:?}");
    }

    /// The share of the time that a run loses whose generations, copies and failures are played.
    fn played(node: &TwoLevels, period: f64, failures: u32) -> f64 {
        let mut random = Random(7);
        let (mut now, mut work, mut near, mut shared) = (0.0, 0.0, 0.0, 0.0);
        // What is being copied, and when that is complete.
        let mut copying: Option<(f64, f64)> = None;
        let mut next = || [random.exponential() * node.mtbf, random.exponential() * node.mtbf_node];
        let [mut crash, mut loss] = next();
        for _ in 0..failures {
            let at = f64::min(crash, loss);
            while now + period <= at {
                (now, work) = (now + period, work + period - node.cost);
                near = work;
                if let Some((copy, _)) = copying.take_if(|(_, end)| *end <= now) {
                    shared = copy;
                }
                copying.get_or_insert((near, now + node.copy));
            }
            if let Some((copy, _)) = copying.take_if(|(_, end)| *end <= at) {
                shared = copy;
            }
            let [in_crash, in_loss] = next();
            if crash < loss {
                (work, now) = (near, at + node.restart);
                crash = now + in_crash;
                loss = loss.max(now);
            } else {
                (work, near, copying, now) = (shared, shared, None, at + node.fetch);
                (crash, loss) = (crash.max(now), now + in_loss);
            }
        }
        1.0 - work / now
    }

    /// Copies that take less than an interval, and more.
    #[test]
    fn a_run_that_is_played_loses_as_much() {
        for (copy, period) in [(50.0, 300.0), (250.0, 300.0), (250.0, 60.0), (1000.0, 350.0)] {
            // Failures are rare: the formula is of the first order.
            let node = TwoLevels { copy, mtbf: 2e5, mtbf_node: 3e5, ..NODE };
            let lost = node.interval(period, (copy / period).ceil()).lost;
            let played = played(&node, period, 100_000);
            assert!((played / lost - 1.0).abs() < 0.01, "{copy} {period}: {played} {lost}");
        }
    }
}
