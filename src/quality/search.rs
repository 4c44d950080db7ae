//! The search for a bound: from the errors that runs of one shot have with some bounds to the bound of
//! the next run.

/// The error to aim at, and the errors with which a bound is taken, in parts of the largest error that is
/// allowed. Other shots have other errors with the same bound: docs/compression.md has the measurement
/// from which these numbers follow.
const AIM: f64 = 0.5;
const TAKEN: [f64; 2] = [0.4, 0.6];
/// Most runs of a shot with a codec. An error that is proportional to the bound takes two.
const MOST_RUNS: u32 = 8;
/// Most change of the bound from one run to the next. It is squared with each change that it limits: the first
/// bound may be far from all values, or of arrays that a codec stores as they are.
const LARGEST_STEP: f64 = 100.0;

/// A bound as a fraction, or in the unit of the field, and the error that it caused, in parts of the
/// largest error that is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tried {
    pub bound: f64,
    pub error: f64,
}

/// The bounds that runs of one shot have tried.
#[derive(Debug)]
pub(super) struct Search {
    /// The loosest bound that may be taken.
    limit: f64,
    /// The loosest bound whose error was not larger than the errors that are taken.
    small: Option<Tried>,
    /// The tightest bound whose error was larger.
    large: Option<Tried>,
    /// The loosest bound whose error was allowed, with the margin for other shots or without.
    allowed: Option<Tried>,
    last: Option<Tried>,
    /// Most change of the bound to the next run.
    largest_step: f64,
    runs: u32,
}

/// What follows from the error of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    /// This bound is to be tried.
    Try(f64),
    /// This bound is taken, with the error that it had.
    Take(Tried),
    /// No bound that was tried had a small enough error.
    Fail,
}

impl Search {
    pub fn new(limit: f64) -> Self {
        Search {
            limit,
            small: None,
            large: None,
            allowed: None,
            last: None,
            largest_step: LARGEST_STEP,
            runs: 0,
        }
    }

    /// Takes the error of a run with a bound; infinite, if its result is not finite.
    pub fn tried(&mut self, bound: f64, error: f64) -> Outcome {
        self.runs += 1;
        let tried = Tried { bound, error };
        if error <= 1.0 && self.allowed.is_none_or(|allowed| bound > allowed.bound) {
            self.allowed = Some(tried);
        }
        if error > TAKEN[1] {
            if self.large.is_none_or(|large| bound < large.bound) {
                self.large = Some(tried);
            }
        } else if self.small.is_none_or(|small| bound > small.bound) {
            self.small = Some(tried);
        }
        let is_taken = (TAKEN[0]..=TAKEN[1]).contains(&error);
        if is_taken || (error < TAKEN[0] && bound >= self.limit) {
            return Outcome::Take(tried);
        }
        if self.runs >= MOST_RUNS {
            // One with the margin for other shots is better than a looser one without.
            return self.small.or(self.allowed).map_or(Outcome::Fail, Outcome::Take);
        }
        let before = self.last.replace(tried);
        Outcome::Try(self.next(before, tried))
    }

    /// Returns the bound of the next run: the one that has the error to aim at by the power law through
    /// the last two runs. With one run the error counts as proportional to the bound.
    fn next(&mut self, before: Option<Tried>, last: Tried) -> f64 {
        let slope = before.map_or(1.0, |before| {
            (last.error / before.error).ln() / (last.bound / before.bound).ln()
        });
        // A slope outside of this range is that of an error that does not follow from the bound alone.
        let slope = if slope.is_finite() { slope.clamp(0.5, 2.0) } else { 1.0 };
        let most = self.largest_step;
        let wanted = (AIM / last.error).powf(1.0 / slope);
        let step = wanted.clamp(1.0 / most, most);
        self.largest_step = if step == wanted { LARGEST_STEP } else { most * most };
        let bound = last.bound * step;
        match (self.small, self.large) {
            (Some(a), Some(b)) if !(a.bound * 1.01 < bound && bound < b.bound / 1.01) => {
                (a.bound * b.bound).sqrt()
            }
            _ => bound.min(self.limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with the error that `error` gives for a bound. Returns the bound and the number of runs.
    fn search(first: f64, limit: f64, error: impl Fn(f64) -> f64) -> (Option<f64>, u32) {
        let (mut search, mut bound) = (Search::new(limit), first);
        loop {
            assert!(bound <= limit && bound > 0.0, "{bound}");
            match search.tried(bound, error(bound)) {
                Outcome::Try(next) => bound = next,
                Outcome::Take(taken) => return (Some(taken.bound), search.runs),
                Outcome::Fail => return (None, search.runs),
            }
        }
    }

    #[test]
    fn every_power_law_is_found_within_the_range_that_is_taken() {
        for exponent in [0.5, 0.7, 1.0, 1.3, 2.0] {
            for scale in (-16..=16).map(|k| 10f64.powf(k as f64 / 4.0)) {
                let error = |bound: f64| scale * (bound / 1e-4).powf(exponent);
                let (bound, runs) = search(1e-4, 1e30, error);
                let error = error(bound.expect("a bound"));
                assert!((TAKEN[0]..=TAKEN[1]).contains(&error), "{exponent} {scale}: {error}");
                let most = if exponent == 1.0 { 4 } else { MOST_RUNS };
                assert!(runs <= most, "{exponent} {scale}: {runs} runs");
            }
        }
    }

    #[test]
    fn the_limit_is_taken_where_its_error_is_small() {
        assert_eq!(search(1e-3, 1e-2, |bound| bound).0, Some(1e-2));
        assert_eq!(search(1e-2, 1e-2, |_| 0.0), (Some(1e-2), 1));
    }

    #[test]
    fn an_error_that_jumps_ends_with_the_loosest_bound_below_the_jump_that_was_tried() {
        let error = |bound: f64| if bound < 3e-4 { 0.1 } else { 3.0 };
        let (bound, runs) = search(1e-3, 0.5, error);
        assert!((2e-4..3e-4).contains(&bound.unwrap()) && runs == MOST_RUNS, "{bound:?}");
        // Fields that a codec stores as they are have no error.
        let stored = |bound: f64| if bound < 1e-5 { 0.0 } else { 2.0 };
        assert!(search(1e-3, 0.5, stored).0.unwrap() < 1e-5);
    }

    #[test]
    fn a_bound_far_from_the_first_one_is_found() {
        // Above all values a bound makes each of them 0.
        for largest in [1e-20, 1e-30, 1e-38] {
            let error = |bound: f64| 1e5 * (bound / largest).min(1.0);
            let (bound, runs) = search(1e-14, 1e-14, error);
            assert!(
                bound.is_some_and(|bound| error(bound) <= TAKEN[1]),
                "{largest}: {bound:?} in {runs} runs"
            );
        }
        // An absolute bound begins at the loosest one, whose size is not that of the values.
        for given in [1e10, 1e20, 1e30] {
            let (bound, runs) = search(given, given, |bound| bound / 3e-4);
            assert!(
                bound.is_some_and(|b| (1e-4..2e-4).contains(&b)),
                "{given}: {bound:?} in {runs} runs"
            );
        }
        // Below the smallest difference of two values no value changes.
        let stored = |bound: f64| if bound < 1e-3 { 0.0 } else { 0.5 };
        assert_eq!(search(1e-30, 0.5, stored).0, Some(0.5));
    }

    #[test]
    fn an_error_with_a_floor_between_what_is_taken_and_what_is_allowed_is_kept() {
        let error = |bound: f64| 0.9 + bound;
        let (bound, runs) = search(1e-3, 0.5, error);
        // The first bound that was tried is the loosest one with an allowed error.
        assert_eq!((bound, runs), (Some(1e-3), MOST_RUNS));
        // A bound with the margin for other shots is taken before a looser one without.
        let jump = |bound: f64| {
            if bound < 2e-4 {
                0.1
            } else if bound < 3e-4 {
                0.7
            } else {
                2.0
            }
        };
        let (bound, _) = search(1e-3, 0.5, jump);
        assert!((1e-4..2e-4).contains(&bound.unwrap()), "{bound:?}");
    }

    #[test]
    fn results_that_are_not_finite_make_the_bound_tighter() {
        for largest in [5e-4, 1e-12, 1e-30] {
            let error = |bound: f64| if bound < largest { bound / largest } else { f64::INFINITY };
            let (bound, runs) = search(1e-3, 0.5, error);
            assert!(
                bound.is_some_and(|bound| error(bound) <= 1.0),
                "{largest}: {bound:?} in {runs} runs"
            );
        }
        assert_eq!(search(1e-3, 0.5, |_| f64::INFINITY), (None, MOST_RUNS));
    }

    #[test]
    fn an_error_that_does_not_follow_from_the_bound_fails() {
        assert_eq!(search(1e-3, 0.5, |_| 5.0), (None, MOST_RUNS));
    }
}
