//! Tests of schedules of several reverse sweeps.

use super::*;

/// Returns a schedule of each algorithm for n steps and at most s snapshots; of some, in two variants.
fn of_all_algorithms(n: u32, s: u32) -> Vec<Schedule> {
    let traced = |schedule: Schedule| {
        let actions = schedule.actions().map(|action| Action { flags: 0, ..action }).collect();
        Schedule::trace(Arc::new(Trace::new(actions, Some(n)).unwrap()))
    };
    let whole = Schedule::revolve(n, s).unwrap();
    let mut all = vec![
        traced(whole.clone()),
        whole.clone().through(2),
        whole,
        Schedule::store_all(n).unwrap(),
        Schedule::uniform(n, s).unwrap(),
        Schedule::uniform_published(n, s).unwrap(),
        Schedule::two_level(n, s, 0, 2).unwrap(),
        Schedule::two_level(n, s, 0, 0).unwrap(),
    ];
    all.extend((1..=n).filter_map(|chunk| Schedule::zcut(n, s, chunk).ok()));
    all.push(Schedule::zcut(n, 0, 0).unwrap());
    let chunks = [0].into_iter().chain(2..=n);
    all.extend(chunks.filter_map(|chunk| Schedule::hrevolve(n, s, chunk, 1).ok()));
    all
}

#[test]
fn sweeps_are_valid_and_count_as_the_formulas_say() {
    let (mut valid, mut refused) = (0, 0);
    for n in 1..=14 {
        for s in 1..=n + 1 {
            for (schedule, k) in of_all_algorithms(n, s)
                .into_iter()
                .flat_map(|s| (2..=4).map(move |k| (s.clone(), k)))
            {
                let Ok(swept) = schedule.clone().in_sweeps(k) else {
                    // Chunks that are as many as the snapshots, and the last one has one state.
                    assert!(schedule.chunk > 0 && (n - 1) % schedule.chunk == 0, "{schedule:?}");
                    refused += 1;
                    continue;
                };
                let about = format!("{k} sweeps of {swept:?}");
                let found =
                    validate_schedule(&swept, false).unwrap_or_else(|e| panic!("{about}: {e}"));
                assert_eq!(
                    found,
                    validate_schedule(&swept, true)
                        .map(|joined| Summary { actions: found.actions, ..joined })
                        .unwrap()
                );
                assert_eq!(found.forward_steps, swept.forward_steps(), "{about}");
                assert_eq!(found.restores, swept.restores(), "{about}");
                assert_eq!(found.saves + found.restores, swept.accesses().unwrap(), "{about}");
                assert_eq!(found.backward_steps, u64::from(k * n), "{about}");
                let keeps_its_chunks =
                    matches!(schedule.algorithm, Algorithm::Zcut | Algorithm::TwoLevel);
                let separate = u64::from(k) * schedule.forward_steps();
                assert!(keeps_its_chunks || found.forward_steps <= separate, "{about}");
                let firsts = swept.actions().filter(|a| a.flags & flags::FIRST_BACKWARD != 0);
                assert_eq!(firsts.count(), k as usize);
                let again = swept.clone().in_sweeps(k).unwrap();
                assert_eq!(again.fingerprint(true).unwrap(), swept.fingerprint(true).unwrap());
                // The file of a trace has all sweeps, and is played as it was written.
                let mut file = Vec::new();
                trace::write(swept.actions(), &mut file).unwrap();
                let read = Schedule::trace(Arc::new(Trace::read(&file[..], Some(n)).unwrap()));
                assert!(read.actions().eq(swept.actions()), "{about}");
                assert_eq!((read.sweeps(), read.steps), (k, n));
                assert_eq!(read.forward_steps(), found.forward_steps);
                assert_eq!(read.accesses().unwrap(), found.saves + found.restores);
                assert!(read.clone().in_sweeps(k).unwrap().actions().eq(swept.actions()));
                for other in [0, 1, k + 1] {
                    let error = read.clone().in_sweeps(other).unwrap_err();
                    assert!(error.message.contains(&format!("set sweeps to {k}")), "{error}");
                }
                if swept.has_terms() {
                    let of_terms =
                        Schedule::of_terms(n, swept.terms()).unwrap().in_sweeps(k).unwrap();
                    assert_eq!(
                        of_terms.fingerprint(true).unwrap(),
                        swept.fingerprint(true).unwrap(),
                        "{about}"
                    );
                }
                valid += 1;
            }
        }
    }
    assert!(valid > 5_000 && refused > 0, "{valid} valid, {refused} refused");
}

/// The fewest forward steps of k sweeps with s snapshots, by a search through everything that an
/// application can do: Dijkstra's algorithm over (live state, stored states, next state to reverse).
fn fewest(n: u32, s: u32, k: u32) -> u64 {
    use std::collections::{HashMap, VecDeque};
    let start = (Some(0u32), 0u32, n * k);
    let mut best = HashMap::from([(start, 0u64)]);
    let mut open = VecDeque::from([start]);
    while let Some(here @ (live, stored, left)) = open.pop_front() {
        let cost = best[&here];
        if left == 0 {
            return cost;
        }
        let mut go = |next: (Option<u32>, u32, u32), more: u64| {
            let known = best.get(&next).copied().unwrap_or(u64::MAX);
            if cost + more < known {
                best.insert(next, cost + more);
                if more == 0 {
                    open.push_front(next)
                } else {
                    open.push_back(next)
                }
            }
        };
        for ts in (0..n).filter(|ts| stored >> ts & 1 == 1) {
            go((Some(ts), stored, left), 0);
            go((live, stored & !(1 << ts), left), 0);
        }
        let Some(live) = live else { continue };
        if stored.count_ones() < s {
            go((Some(live), stored | 1 << live, left), 0);
        }
        if live == (left - 1) % n {
            let after = if (left - 1) % n == 0 { None } else { Some(live) };
            go((after, stored, left - 1), 0);
        }
        if live + 1 < n {
            go((Some(live + 1), stored, left), 1);
        }
    }
    u64::MAX
}

/// With a snapshot for every state nothing is computed again; and beside the optimum, found by a search
/// through all orders of actions, Revolve's sweeps take few forward steps more.
#[test]
fn sweeps_of_revolve_are_close_to_the_optimum() {
    let (mut ours, mut least, mut worst) = (0, 0, 1.0f64);
    for n in 1..=8u32 {
        for s in 1..=n {
            for k in 1..=3 {
                let schedule = Schedule::revolve(n, s).unwrap().in_sweeps(k).unwrap();
                let (this, optimum) = (schedule.forward_steps(), fewest(n, s, k));
                assert!(this >= optimum, "n {n}, s {s}, k {k}: {this} < {optimum}");
                if k == 1 || s == 1 || s == n {
                    assert_eq!(this, optimum, "n {n}, s {s}, k {k}");
                }
                (ours, least) = (ours + this, least + optimum);
                if optimum > 0 {
                    worst = worst.max(this as f64 / optimum as f64);
                }
            }
        }
    }
    println!("all: {ours} of {least}; worst: {worst}");
    assert!(ours as f64 <= 1.08 * least as f64 && worst <= 1.5, "{ours} of {least}, {worst}");
}

#[test]
fn more_sweeps_keep_more_states() {
    let of = |k: u32| Schedule::revolve(1000, 100).unwrap().in_sweeps(k).unwrap();
    let kept = |k: u32| of(k).intervals().unwrap().count;
    assert!(kept(1) == 1 && kept(2) > 50 && kept(5) >= kept(2) && kept(50) >= kept(5));
    // Of the states that are not stored, every further sweep computes each once.
    let further = of(6).forward_steps() - of(5).forward_steps();
    assert!((900..=920).contains(&further), "{further}");
}

#[test]
fn what_ends_early_or_begins_without_a_restore_is_refused() {
    let of = |sweeps| Schedule::revolve(5, 2).unwrap().in_sweeps(sweeps).unwrap();
    let replay = |actions: Vec<(Action, u32)>, sweeps| {
        validate_ranges(actions, (MacroSteps::new(1, 5), sweeps), None)
    };
    let two: Vec<_> = of(2).ranges(false).collect();
    assert!(replay(two.clone(), 2).is_ok());
    let told = |result: Result<Summary>| result.unwrap_err().to_string();
    assert!(told(replay(two.clone(), 3)).contains("without TERMINATE"));
    assert!(told(replay(two.clone(), 1)).contains("never freed"));
    let end = two.iter().position(|(action, _)| action.kind == Kind::Terminate).unwrap();
    let mut without = two.clone();
    assert_eq!(without.remove(end + 1).0.kind, Kind::Restore);
    assert!(told(replay(without, 2)).contains("the live state is"));
}
