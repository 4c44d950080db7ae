//! Which generation a run goes on from, with one rank and with simulated ranks.

use super::super::names::FileName;
use super::super::store::tests::{fingerprint, folder, newest_shot, publish};
use super::super::store::KEPT;
use super::*;
use std::path::{Path, PathBuf};
use std::sync::{Barrier, Mutex};

pub(in crate::persist) fn file(path: &Path, rank: u32, generation: u64) -> PathBuf {
    path.join(FileName::Generation(generation).text(rank))
}

/// Changes one byte in the middle of a generation.
pub(in crate::persist) fn damage(path: &Path, rank: u32, generation: u64) {
    let mut bytes = std::fs::read(file(path, rank, generation)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(file(path, rank, generation), bytes).unwrap();
}

fn alone(value: i64) -> Result<i64> {
    Ok(value)
}

#[test]
fn damaged_generations_are_passed_over_and_all_damaged_is_an_error_that_lists_them() {
    let path = folder("damaged");
    let mut store = Store::open(&path, 0, 1, false).unwrap();
    (1..=3).for_each(|shot| assert_eq!(publish(&mut store, shot), shot as u64));
    damage(&path, 0, 3);
    assert_eq!(newest_shot(&mut store), 2);
    damage(&path, 0, 2);
    let error = store.newest(&fingerprint(300), &mut alone).err().unwrap();
    assert_eq!(error.code, Code::Stream);
    for text in [
        path.to_str().unwrap(),
        "no generation can be read; generation 3 is damaged: ",
        "; generation 2 is damaged: ",
        "(array array 1)",
        "begin anew in an empty folder",
    ] {
        assert!(error.message.contains(text), "{text}: {error}");
    }
    // Generations that cannot be opened count as damaged.
    for generation in [2, 3] {
        std::fs::remove_file(file(&path, 0, generation)).unwrap();
        std::fs::create_dir(file(&path, 0, generation)).unwrap();
    }
    let error = store.newest(&fingerprint(300), &mut alone).err().unwrap();
    assert!(error.message.matches("is a folder").count() == KEPT, "{error}");
    assert_eq!(publish(&mut store, 4), 4);
    assert_eq!(newest_shot(&mut store), 4);
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_generation_of_another_run_is_refused_with_both_values() {
    let path = folder("fingerprint");
    let mut store = Store::open(&path, 0, 1, false).unwrap();
    publish(&mut store, 1);
    publish(&mut store, 2);
    let error = store.newest(&fingerprint(200), &mut alone).err().unwrap();
    assert_eq!(error.code, Code::Config);
    for text in ["generation 2: ", "written with steps = 300", "this run has steps = 200"] {
        assert!(error.message.contains(text), "{error}");
    }
    drop(store);
    let mut store = Store::open(&path, 0, 2, false).unwrap();
    let error = store.newest(&fingerprint(300), &mut alone).err().unwrap();
    assert!(error.message.contains("ranks = 1, and this run has ranks = 2"), "{error}");
    std::fs::remove_dir_all(path).unwrap();
}

/// Runs `body` as that many ranks; the function that it gets is `agree_min`.
pub(in crate::persist) fn ranks<T: Send>(
    count: u32,
    body: impl Fn(u32, &mut dyn FnMut(i64) -> Result<i64>) -> T + Sync,
) -> Vec<T> {
    let (barrier, votes) = (Barrier::new(count as usize), Mutex::new(vec![0; count as usize]));
    let (barrier, votes, body) = (&barrier, &votes, &body);
    std::thread::scope(|scope| {
        let one = |rank: u32| {
            scope.spawn(move || {
                body(rank, &mut |value| {
                    votes.lock().unwrap()[rank as usize] = value;
                    barrier.wait();
                    let lowest = votes.lock().unwrap().iter().copied().min().unwrap();
                    barrier.wait();
                    Ok(lowest)
                })
            })
        };
        let threads: Vec<_> = (0..count).map(one).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Makes a folder in which each rank has the generations `have` and those of them in `damaged` are
/// damaged; returns the generation that each rank goes on from, or its error, and the number of its
/// next generation.
fn agreed(have: &[&[u64]], damaged: &[&[u64]]) -> Vec<(Result<u64>, u64)> {
    let path = folder(&format!("ranks-{have:?}-{damaged:?}").replace([' ', '[', ']', ','], "_"));
    let count = have.len() as u32;
    for (rank, have) in (0..).zip(have) {
        let mut store = Store::open(&path, rank, count, false).unwrap();
        store.start.number = 1;
        for generation in 1..=have.iter().copied().max().unwrap_or(0) {
            assert_eq!(publish(&mut store, generation as i64), generation);
            if generation == 2 {
                store.confirm(1);
            }
        }
        for generation in store.generations().unwrap() {
            if !have.contains(&generation) {
                std::fs::remove_file(file(&path, rank, generation)).unwrap();
            } else if damaged[rank as usize].contains(&generation) {
                damage(&path, rank, generation);
            }
        }
    }
    let found = ranks(count, |rank, agree_min| {
        let mut store = Store::open(&path, rank, count, false).unwrap();
        let found = store.newest(&fingerprint(300), agree_min);
        let shot = found.map(|reader| reader.map_or(0, |reader| reader.header.shot as u64));
        let next = store.next;
        drop(store.begin(header()).unwrap());
        (shot, next)
    });
    std::fs::remove_dir_all(path).unwrap();
    found
}

fn header() -> super::super::format::Header {
    super::super::format::Header { fingerprint: fingerprint(300), shot: 0, it: -1 }
}

#[test]
fn the_newest_generation_that_is_right_on_all_ranks() {
    for (have, damaged, expected) in [
        (&[&[4, 5][..], &[4, 5], &[4, 5]][..], &[&[][..], &[], &[]][..], 5),
        // A rank died before it published the newest, or its newest is damaged.
        (&[&[4, 5], &[3, 4], &[4, 5]], &[&[], &[], &[]], 4),
        (&[&[4, 5], &[4, 5], &[4, 5]], &[&[], &[5], &[]], 4),
        // Every rank lacks another one.
        (&[&[1, 2, 4, 5], &[1, 3, 4, 5], &[1, 2, 3, 5]], &[&[], &[], &[5]], 1),
        (&[&[1, 2, 3, 4, 5, 6], &[2, 4, 6], &[1, 2, 3, 5]], &[&[6], &[6], &[]], 2),
        (&[&[], &[], &[]], &[&[], &[], &[]], 0),
    ] {
        let highest = have.iter().flat_map(|have| have.iter()).max().copied().unwrap_or(0);
        for (rank, (found, next)) in agreed(have, damaged).into_iter().enumerate() {
            assert_eq!(found.unwrap(), expected, "rank {rank} of {have:?}");
            assert_eq!(next, highest + 1, "rank {rank} of {have:?}");
        }
    }
}

/// The run ended while it wrote its first generation: nothing that all ranks had is lost.
#[test]
fn a_first_generation_that_some_ranks_lack_is_none() {
    for have in [[&[1][..], &[]], [&[], &[1]]] {
        for (found, next) in agreed(&have, &[&[], &[]]) {
            assert_eq!((found.unwrap(), next), (0, 2), "{have:?}");
        }
    }
}

#[test]
fn no_common_generation_is_an_error_on_every_rank() {
    for (have, damaged, texts) in [
        (
            &[&[4, 5][..], &[][..]],
            &[&[][..], &[]],
            ["the newest of this rank is 5", "the newest of this rank is 0"],
        ),
        // No rank knows of a generation that all had, but each has one: nothing says that the run
        // has only begun.
        (
            &[&[1], &[2]],
            &[&[], &[]],
            ["no generation is complete on all ranks", "no generation is complete on all ranks"],
        ),
        (
            &[&[2, 4], &[1, 3, 5]],
            &[&[], &[]],
            ["no generation is complete on all ranks", "no generation is complete on all ranks"],
        ),
        (
            &[&[4, 5], &[4, 5]],
            &[&[], &[4, 5]],
            ["another rank cannot go on", "; generation 5 is damaged: "],
        ),
    ] {
        for ((found, _), text) in agreed(have, damaged).into_iter().zip(texts) {
            let error = found.unwrap_err();
            assert!(error.message.contains(text), "{have:?}: {error}");
        }
    }
}

/// Ranks that gave the same number to generations of different shots: an image made from both would
/// be wrong.
#[test]
fn a_generation_that_is_not_of_one_shot_is_passed_over() {
    for (shots, expected) in [
        ([[1, 2, 3], [1, 2, 9]], Some(2)),
        ([[1, 2, 3], [1, 7, 8]], Some(1)),
        ([[1, 2, 3], [4, 5, 6]], None),
    ] {
        let path = folder(&format!("shots-{}", shots[1][0] + shots[1][1]));
        let found = ranks(2, |rank, agree_min| {
            let mut store = Store::open(&path, rank, 2, false).unwrap();
            Store::agree_numbers(Some(&mut store), agree_min).unwrap();
            shots[rank as usize].iter().for_each(|shot| {
                publish(&mut store, *shot);
            });
            let reader = store.newest(&fingerprint(300), agree_min);
            reader.map(|reader| reader.map(|reader| reader.header.shot))
        });
        for found in found {
            match expected {
                Some(shot) => assert_eq!(found.unwrap(), Some(shot), "{shots:?}"),
                None => {
                    let error = found.unwrap_err().to_string();
                    let texts =
                        ["complete on all ranks", "; generation 1 is of different starts, shots"];
                    assert!(texts.iter().all(|text| error.contains(text)), "{error}");
                }
            }
        }
        std::fs::remove_dir_all(path).unwrap();
    }
}

/// A number does not tell which start of the program wrote it: one on a node that was taken for lost
/// may have written a part of this number, of the same shot.
#[test]
fn parts_of_two_starts_are_no_generation() {
    let path = folder("starts");
    let found = ranks(2, |rank, agree_min| {
        for shot in 1..=2 {
            let mut store = Store::open(&path, rank, 2, false).unwrap();
            Store::agree_numbers(Some(&mut store), agree_min).unwrap();
            if shot == 2 && rank == 1 {
                store.start.number += 1;
            }
            publish(&mut store, shot);
        }
        let mut store = Store::open(&path, rank, 2, false).unwrap();
        store.newest(&fingerprint(300), agree_min).unwrap().unwrap().header.shot
    });
    assert_eq!(found, [1, 1]);
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn an_error_of_the_agreement_is_passed_on() {
    let path = folder("disagreement");
    let mut store = Store::open(&path, 0, 1, false).unwrap();
    publish(&mut store, 1);
    for fails in 0..4 {
        let mut calls = 0;
        let error = store.newest(&fingerprint(300), &mut |value| {
            calls += 1;
            if calls > fails {
                return fail!(Callback, "no network");
            }
            Ok(value)
        });
        assert_eq!(error.err().unwrap().message, "no network");
    }
    std::fs::remove_dir_all(path).unwrap();
}

/// Two processes that crash at different times, again and again: numbers never come apart, and both
/// go on from the same shot.
#[test]
fn ranks_that_crash_apart_stay_together() {
    let path = folder("apart");
    let mut crash = 1u64;
    let mut last = [0; 2];
    for _ in 0..40 {
        crash =
            crash.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let shots = ranks(2, |rank, agree_min| {
            let mut store = Store::open(&path, rank, 2, false).unwrap();
            let from = store
                .newest(&fingerprint(300), agree_min)
                .unwrap()
                .map_or(0, |reader| reader.header.shot);
            // One of the ranks dies before it publishes its last generation.
            let rounds = 1 + (crash >> 40) % 3;
            for round in 1..=rounds {
                let dies = round == rounds && (crash >> 50) % 3 == u64::from(rank);
                let published = match dies {
                    true => store.next as i64 - 1,
                    false => publish(&mut store, from + round as i64) as i64,
                };
                if round < rounds {
                    store.confirm(agree_min(published).unwrap() as u64);
                }
            }
            from
        });
        assert_eq!(shots[0], shots[1]);
        assert!(shots[0] >= last[0], "nothing that all ranks had published is lost");
        last = [shots[0] + ((crash >> 40) % 3) as i64, 0];
    }
    std::fs::remove_dir_all(path).unwrap();
}
