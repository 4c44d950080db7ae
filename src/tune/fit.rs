//! The seconds of a forward and of a backward step, from intervals that contain several steps.

/// A weighted least-squares fit of t = f x + b y: t seconds of an interval with f forward and b
/// backward steps, x and y the seconds of one forward and one backward step. The variance of t
/// grows with f + b, so that an interval has weight 1 / (f + b).
#[derive(Clone, Copy, Debug, Default)]
pub struct Fit {
    ff: f64,
    fb: f64,
    bb: f64,
    ft: f64,
    bt: f64,
    steps: f64,
    seconds: f64,
}

impl Fit {
    /// Adds an interval: its numbers of forward and backward steps, and its seconds.
    pub fn add(&mut self, forward: u64, backward: u64, seconds: f64) {
        let (f, b) = (forward as f64, backward as f64);
        if f + b == 0.0 || !seconds.is_finite() {
            return;
        }
        let weight = 1.0 / (f + b);
        self.ff += weight * f * f;
        self.fb += weight * f * b;
        self.bb += weight * b * b;
        self.ft += weight * f * seconds;
        self.bt += weight * b * seconds;
        self.steps += f + b;
        self.seconds += seconds;
    }

    /// Returns the seconds of a forward and of a backward step. If the intervals cannot tell them
    /// apart, both are the mean over all steps. `None` if no interval was added.
    pub fn solve(&self) -> Option<(f64, f64)> {
        if self.steps == 0.0 {
            return None;
        }
        let mean = self.seconds / self.steps;
        let determinant = self.ff * self.bb - self.fb * self.fb;
        if determinant <= 1e-9 * self.ff * self.bb {
            return Some((mean, mean));
        }
        let forward = (self.ft * self.bb - self.bt * self.fb) / determinant;
        let backward = (self.bt * self.ff - self.ft * self.fb) / determinant;
        // A time that is not positive is noise: steps that cost nothing would let the planner
        // recompute without limit.
        Some(if forward > 0.0 && backward > 0.0 { (forward, backward) } else { (mean, mean) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Exact times give exact results, and times with scatter give results close to them.
        #[test]
        fn finds_the_steps(
            forward in 1e-6..1.0f64, ratio in 0.2..5.0f64, stretches in prop::collection::vec((0..40u64, 0..2u64, -0.1..0.1f64), 12..60),
        ) {
            let backward = forward * ratio;
            let (mut exact, mut scattered) = (Fit::default(), Fit::default());
            for (f, b, noise) in stretches.into_iter().chain([(9, 0, 0.0), (2, 1, 0.0), (0, 1, 0.0)]) {
                let seconds = f as f64 * forward + b as f64 * backward;
                exact.add(f, b, seconds);
                scattered.add(f, b, seconds * (1.0 + noise));
            }
            let (f, b) = exact.solve().unwrap();
            prop_assert!((f / forward - 1.0).abs() < 1e-6 && (b / backward - 1.0).abs() < 1e-6);
            let (f, _) = scattered.solve().unwrap();
            prop_assert!((f / forward - 1.0).abs() < 0.3, "{} for {}", f, forward);
        }
    }

    #[test]
    fn what_cannot_be_told_apart_is_the_mean() {
        let mut fit = Fit::default();
        assert_eq!(fit.solve(), None);
        fit.add(0, 0, 5.0);
        fit.add(3, 1, f64::NAN);
        assert_eq!(fit.solve(), None);
        fit.add(3, 1, 8.0);
        fit.add(6, 2, 16.0);
        assert_eq!(fit.solve(), Some((2.0, 2.0)));
        let mut one = Fit::default();
        one.add(4, 0, 2.0);
        assert_eq!(one.solve(), Some((0.5, 0.5)));
    }
}
