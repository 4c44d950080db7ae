//! Agreement of ranks that step together on one schedule, by nothing but minima over all ranks.
//!
//! A plan depends on the size of states and on budgets, and ranks differ in both. Ranks that decide
//! alone may decide on different schedules; then the first exchange of halos that only some ranks
//! take part in waits for ever. Here every rank takes part with its decided schedule, or with its
//! failure to decide one, in a fixed number of reductions. A reduction takes one number from every
//! rank and returns the smallest to all.
//!
//! - Reductions 1 to 3: the three numbers of a schedule, `Schedule::terms`, compared as one
//!   sequence. A rank whose sequence has lost already gives `i64::MAX`. Afterwards all ranks know
//!   the smallest sequence, which is that of a schedule with the fewest snapshots, and every rank
//!   takes that schedule.
//! - Reductions 4 and 5: the smallest and the greatest fingerprint of the schedules that the ranks
//!   have now.
//!
//! A rank that has failed gives [`FAILED`], which is smaller than every other number, so that all
//! ranks fail.

use crate::choice::{SharedSchedule, Why};
use crate::error::{fail, Result};

/// The number that a rank without a schedule gives.
const FAILED: i64 = -1;

/// Reductions of one agreement; the documentation of `gpuzip_agree` gives this number, too.
#[cfg(test)]
const REDUCTIONS: usize = 5;

/// Agrees with the other ranks on one schedule. `shared` is the schedule of this rank, or the
/// reason why this rank has none. `least` returns the minimum of its argument over all ranks. If
/// `least` fails, the ranks may no longer be in step, and no further reduction is made.
pub fn agree(
    shared: Result<&SharedSchedule>,
    mut least: impl FnMut(i64) -> Result<i64>,
) -> Result<()> {
    let own = shared.and_then(|shared| {
        let terms = shared.decide()?.terms();
        // In the middle of a shot no other schedule can be taken, and so not even this one.
        shared.decide_anew(Why::Terms(terms), None)?;
        Ok((shared, terms))
    });
    let (mut agreed, mut in_front) = ([FAILED; 3], true);
    for (k, place) in agreed.iter_mut().enumerate() {
        let mine =
            own.as_ref().map_or(FAILED, |(_, terms)| if in_front { terms[k] } else { i64::MAX });
        *place = least(mine)?;
        in_front &= *place == mine;
    }
    let some_failed = agreed.contains(&FAILED);
    let taken = own.and_then(|(shared, _)| {
        if !some_failed {
            shared.decide_anew(Why::Terms(agreed), None)?;
        }
        // The fingerprint has 64 bits; 63 of them make a number that is not negative.
        Ok((shared.fingerprint()? >> 1) as i64)
    });
    let (fewest, most) = match taken {
        Ok(mine) => (least(mine)?, least(i64::MAX - mine)?),
        Err(_) => (least(FAILED)?, least(FAILED)?),
    };
    taken?;
    if some_failed || fewest == FAILED || most == FAILED {
        return fail!(Schedule, "another rank has no schedule: its own call of gpuzip_agree, or of gpuzip_init before, says why");
    }
    if fewest != i64::MAX - most {
        return fail!(
            Schedule,
            "ranks have different schedules: give all of them the same number of steps, range_actions, adjoint_every, sweeps and check, and where they \
             follow a trace the same file"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::{Job, State, Storage, TierSpec};
    use crate::config::Config;
    use crate::error::{Code, Error};
    use crate::schedule::Algorithm;
    use std::sync::Barrier;
    use std::sync::Mutex;

    /// Returns the decided schedule of a rank: `bytes` per snapshot, tiers and budgets from
    /// `config`.
    fn rank(config: &Config, steps: i64, bytes: u64) -> Result<SharedSchedule> {
        let shared = SharedSchedule::new(config.clone(), steps)?;
        let job = Job::new(config.clone(), State::Bytes { all: bytes, previous: 0 });
        shared.attach(vec![TierSpec::of(&Storage::raw(&job), &job)?])?;
        shared.decide()?;
        Ok(shared)
    }

    /// Runs `agree` on a thread per rank, with a reduction over the threads; returns for each rank
    /// its result and its number of reductions.
    fn all_agree(ranks: &[Result<SharedSchedule>]) -> Vec<(Result<()>, usize)> {
        let (meeting, least) = (Barrier::new(ranks.len()), Mutex::new(i64::MAX));
        let one = |shared: &Result<SharedSchedule>| {
            let mut calls = 0;
            let result = agree(shared.as_ref().map_err(Clone::clone), |mine| {
                calls += 1;
                meeting.wait();
                let mut all = least.lock().unwrap();
                *all = mine.min(*all);
                drop(all);
                meeting.wait();
                let result = *least.lock().unwrap();
                if meeting.wait().is_leader() {
                    *least.lock().unwrap() = i64::MAX;
                }
                meeting.wait();
                Ok(result)
            });
            (result, calls)
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = ranks.iter().map(|shared| scope.spawn(|| one(shared))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn budget(algorithm: Option<Algorithm>, host_budget: u64, cache: u32) -> Config {
        Config::default().with(|c| {
            c.schedule.algorithm = algorithm;
            c.tiers.host_budget = host_budget;
            c.tiers.cache = cache;
        })
    }

    #[test]
    fn ranks_of_different_slabs_take_the_fewest_snapshots() {
        for algorithm in [
            None,
            Some(Algorithm::Revolve),
            Some(Algorithm::Uniform),
            Some(Algorithm::Zcut),
            Some(Algorithm::TwoLevel),
            Some(Algorithm::Hrevolve),
        ] {
            for budgets in [[2000, 2020, 1990], [700, 9000, 800]] {
                let ranks: Vec<_> = budgets
                    .iter()
                    .map(|&budget_| rank(&budget(algorithm, budget_, 2), 200, 64))
                    .collect();
                let fewest = ranks
                    .iter()
                    .map(|r| r.as_ref().unwrap().decide().unwrap().snapshots)
                    .min()
                    .unwrap();
                for (result, calls) in all_agree(&ranks) {
                    result.unwrap();
                    assert_eq!(calls, REDUCTIONS);
                }
                let first = ranks[0].as_ref().unwrap();
                for shared in ranks.iter().map(|shared| shared.as_ref().unwrap()) {
                    assert_eq!(shared.decide().unwrap().snapshots, fewest);
                    assert_eq!(
                        shared.fingerprint().unwrap(),
                        first.fingerprint().unwrap(),
                        "{algorithm:?} {budgets:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn ranks_with_other_caches_and_algorithms_take_the_schedule_of_one() {
        let ranks = [
            rank(&budget(Some(Algorithm::TwoLevel), 3000, 5), 300, 64),
            rank(&budget(Some(Algorithm::TwoLevel), 3000, 3), 300, 64),
            rank(&budget(Some(Algorithm::Revolve), 3000, 3), 300, 64),
        ];
        let before: Vec<_> =
            ranks.iter().map(|shared| shared.as_ref().unwrap().fingerprint().unwrap()).collect();
        assert!(before[0] != before[1] && before[1] != before[2]);
        assert!(all_agree(&ranks).into_iter().all(|(result, _)| result.is_ok()));
        let after: Vec<_> =
            ranks.iter().map(|shared| shared.as_ref().unwrap().fingerprint().unwrap()).collect();
        assert!(
            after.iter().all(|fingerprint| *fingerprint == after[0]) && before.contains(&after[0])
        );
    }

    /// Ranks of different slabs agree on macro-steps, too, and get the same actions.
    #[test]
    fn ranks_agree_on_macro_steps() {
        let config = |bytes| budget(None, bytes, 2).with(|c| c.schedule.adjoint_every = 3);
        let ranks = [2000, 700, 1990].map(|bytes| rank(&config(bytes), 200, 64));
        assert!(all_agree(&ranks).into_iter().all(|(result, _)| result.is_ok()));
        let actions = ranks.each_ref().map(|shared| {
            let schedule = shared.as_ref().unwrap().decide().unwrap();
            assert_eq!(schedule.macro_steps(), crate::schedule::MacroSteps::new(3, 200));
            schedule.ranges(false).collect::<Vec<_>>()
        });
        assert!(actions[0] == actions[1] && actions[1] == actions[2]);
    }

    /// Every rank makes the same number of reductions, and every rank has an error.
    #[test]
    fn failures_and_differences_are_errors_on_every_rank() {
        let well = || rank(&budget(Some(Algorithm::Revolve), 640, 2), 100, 64);
        let failed = || Err(Error::new(Code::Budget, "too little"));
        let longer = rank(&budget(Some(Algorithm::Revolve), 640, 2), 101, 64);
        let ranges = rank(
            &budget(Some(Algorithm::Revolve), 640, 2).with(|c| c.schedule.range_actions = true),
            100,
            64,
        );
        let sparse = rank(
            &budget(Some(Algorithm::Revolve), 640, 2).with(|c| c.schedule.adjoint_every = 2),
            100,
            64,
        );
        let begun = well();
        begun.as_ref().unwrap().advance(None).unwrap();
        for (ranks, own) in [
            ([well(), failed(), well()], 1),
            ([well(), longer, well()], 3),
            ([ranges, well(), well()], 3),
            ([well(), sparse, well()], 3),
            ([well(), well(), begun], 2),
        ] {
            for (i, (result, calls)) in all_agree(&ranks).into_iter().enumerate() {
                let error = result.unwrap_err();
                assert_eq!(
                    (calls, error.code == Code::Schedule),
                    (REDUCTIONS, i != own),
                    "{error}"
                );
            }
        }
    }

    /// A rank fails that cannot take the smallest schedule, and so do the others.
    #[test]
    fn a_schedule_that_does_not_fit_a_rank_is_an_error_on_all() {
        // In chunks of two states, 200 steps have 100 chunks: 51 snapshots cannot hold their first
        // states.
        let chunks = rank(
            &budget(Some(Algorithm::Zcut), 0, 0).with(|c| {
                c.schedule.chunk = 2;
                c.schedule.snapshots = 51;
            }),
            100,
            64,
        );
        let longer = rank(
            &budget(Some(Algorithm::Revolve), 0, 0).with(|c| c.schedule.snapshots = 52),
            200,
            64,
        );
        let results = all_agree(&[chunks, longer]);
        let codes = results.into_iter().map(|(result, calls)| (result.unwrap_err().code, calls));
        assert_eq!(
            codes.collect::<Vec<_>>(),
            [(Code::Schedule, REDUCTIONS), (Code::Config, REDUCTIONS)]
        );
    }

    #[test]
    fn a_reduction_that_fails_ends_the_agreement() {
        let shared = rank(&budget(Some(Algorithm::Revolve), 640, 2), 100, 64).unwrap();
        let mut calls = 0;
        let result = agree(Ok(&shared), |_| {
            calls += 1;
            Err(Error::new(Code::Callback, "no network"))
        });
        assert_eq!((result.unwrap_err().code, calls), (Code::Callback, 1));
    }

    /// The terms determine the schedule: a schedule made from terms has the same actions. Schedules
    /// with different actions have different fingerprints.
    #[test]
    fn terms_and_fingerprints_tell_schedules_apart() {
        use crate::schedule::Schedule;
        let mut by_fingerprint = std::collections::HashMap::new();
        let mut all = Vec::new();
        for n in [1, 2, 3, 7, 12, 20, 33] {
            for s in 1..8 {
                all.extend([
                    Schedule::revolve(n, s),
                    Schedule::uniform(n, s),
                    Schedule::uniform_published(n, s),
                    Schedule::store_all(n),
                ]);
                all.extend(
                    (0..5).flat_map(|m| [Schedule::zcut(n, s, m), Schedule::two_level(n, s, m, 2)]),
                );
                all.extend((0..5).map(|m| Schedule::hrevolve(n, s, m, 2)));
                all.extend((1..5).map(|cache| Ok(Schedule::revolve(n, s).unwrap().through(cache))));
            }
        }
        for schedule in all.into_iter().flatten() {
            let again = Schedule::of_terms(schedule.steps, schedule.terms()).unwrap();
            assert!(again.terms().iter().all(|term| *term >= 0));
            assert_eq!(
                (again.algorithm, again.snapshots, again.chunk),
                (schedule.algorithm, schedule.snapshots, schedule.chunk)
            );
            let actions: Vec<_> = schedule.actions().collect();
            assert_eq!(again.actions().collect::<Vec<_>>(), actions);
            let known = by_fingerprint
                .entry(schedule.fingerprint(false).unwrap())
                .or_insert_with(|| actions.clone());
            assert_eq!(*known, actions);
            let same = schedule.fingerprint(true).unwrap() == schedule.fingerprint(false).unwrap();
            let joined = schedule.ranges(true).count() < actions.len();
            assert_eq!(same, !joined);
        }
        assert!(by_fingerprint.len() > 100);
    }
}
