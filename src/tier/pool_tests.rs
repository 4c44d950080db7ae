//! How often saves move the snapshots of the pool together, which makes the host wait for all lanes.

use super::*;
use crate::device::{DiskSpace, Event, Lane, Launcher, Memory, Place, Recorder, Stream};
use crate::layout::{Field, ALIGNMENT};
use crate::plan::{Index, Policy, NONE};
use crate::scalar::Scalar;
use crate::schedule::Schedule;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// A device without memory. It counts how often the host waits for all its lanes.
struct Counting(Arc<AtomicU64>);

impl Recorder for Counting {}
impl Launcher for Counting {}

impl Device for Counting {
    fn reserve(&mut self, _: Memory, _: u64) -> Result<()> {
        Ok(())
    }

    fn mount(&mut self, _: DiskSpace) -> Result<()> {
        Ok(())
    }

    fn enter(&mut self, _: Stream, _: &'static str) -> Result<()> {
        Ok(())
    }

    fn leave(&mut self) -> Result<f64> {
        Ok(0.0)
    }

    fn pointer(&self, _: Place, _: u64) -> Result<*mut c_void> {
        Ok(std::ptr::null_mut())
    }

    fn move_in_pool(&mut self, _: u64, _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    fn event(&mut self) -> Result<Event> {
        Ok(Event(0))
    }

    fn copy(&mut self, _: Lane, _: Place, _: Place, _: u64) -> Result<()> {
        Ok(())
    }

    fn record(&mut self, _: Lane, _: Event) -> Result<()> {
        Ok(())
    }

    fn wait(&mut self, _: Lane, _: Event) -> Result<()> {
        Ok(())
    }

    fn is_done(&mut self, _: Event) -> Result<bool> {
        Ok(true)
    }

    fn finish(&mut self, _: Event) -> Result<()> {
        Ok(())
    }

    fn synchronize(&mut self) -> Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

/// Bytes that the budgets count for a snapshot.
const SLOT: u64 = 100 * ALIGNMENT;

/// Draws the bytes of a compressed snapshot: from a tenth of [`SLOT`] to `most` tenths.
fn drawn(state: &mut u64, most: u64) -> SnapshotCoder {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    let bytes = SLOT / 10 + (*state >> 33) % (SLOT * (most - 1) / 10 + 1);
    SnapshotCoder::Assumed { bytes: [bytes, 0] }
}

/// Totals over played plans.
#[derive(Debug, Default)]
struct Counts {
    plans: u64,
    /// Snapshots that were saved.
    saves: u64,
    /// How often snapshots were moved together, in all plans and in those that came to their end.
    moves: u64,
    moves_without_error: u64,
    /// Plans that ended early because a snapshot did not fit the pool.
    errors: u64,
    /// Snapshots that the plan keeps in the cache alone, and that found no room there.
    beside: u64,
}

impl Counts {
    /// Plays a plan whose cache and pool have [`SLOT`] bytes for each slot.
    fn play(&mut self, schedule: &Schedule, cache: u32, policy: Policy, most: u64) {
        let index = Index::new(schedule).unwrap();
        let plan = Plan::of(&index, cache, policy).unwrap();
        let moves = Arc::new(AtomicU64::new(0));
        let field = Field { n: [SLOT, 1, 1], scalar: Scalar::Byte, previous_of: None };
        let device = Box::new(Counting(moves.clone()));
        let layout = Layout::new(vec![field]).unwrap();
        let bytes = |slots: u32| u64::from(slots) * SLOT;
        let (cache, pool) = (bytes(plan.device_slots), bytes(plan.host_slots));
        let mut state = self.plans;
        let coder = Some(drawn(&mut state, most));
        let storage = Storage { parts: layout.whole(), coder, sums: None };
        let mut tiers = Tiers::new(device, layout, &plan, storage, cache, pool).unwrap();
        let ended = index.accesses.iter().enumerate().try_for_each(|(number, access)| {
            let (ts, last) = (i64::from(access.ts), access.next == NONE);
            if access.save {
                self.saves += 1;
                tiers.storage.coder = Some(drawn(&mut state, most));
                tiers.save(number, ts, &[])?;
                let is_cached = plan.steps[number].host == NONE;
                self.beside +=
                    tiers.saved().filter(|saved| is_cached && saved.written > 0).count() as u64;
                return Ok(());
            }
            tiers.restore(number, ts, last, &[]).map(|_| ())
        });
        let moves = moves.load(Ordering::Relaxed);
        self.plans += 1;
        self.moves += moves;
        match ended {
            Ok(()) => self.moves_without_error += moves,
            Err(e) => {
                assert!(e.to_string().contains("does not fit host memory any more"), "{e}");
                self.errors += 1;
            }
        }
    }
}

/// The snapshots of the library's schedules that know the number of steps form a stack: what was saved
/// last is freed first. Free bytes of the pool are then one range, and snapshots are moved together
/// only by a save that then fails for want of memory. Online schedules drop snapshots in between.
/// Here each save places its snapshot at once; on a GPU snapshots are placed later, in the same order.
#[test]
fn no_snapshot_of_a_stack_is_moved() {
    let [mut generated, mut lru, mut online] = [(); 3].map(|_| Counts::default());
    for (most, n) in [(10, 7), (10, 40), (10, 150), (12, 7), (12, 40), (12, 150)] {
        for s in 2..16 {
            let all = [
                Schedule::revolve(n, s),
                Schedule::uniform(n, s),
                Schedule::two_level(n, s, 0, 0),
                Schedule::hrevolve(n, s, 0, 0),
                Schedule::zcut(n, 0, s),
                Schedule::store_all(n),
            ];
            for cache in 0..s {
                for schedule in all.iter().flatten() {
                    generated.play(schedule, cache, Policy::Clairvoyant, most);
                    lru.play(schedule, cache, Policy::Lru, most);
                }
                let schedule = Schedule::online(n, s, false).unwrap();
                online.play(&schedule, cache, Policy::Clairvoyant, most);
            }
        }
    }
    println!("generated {generated:?}\nLRU {lru:?}\nonline {online:?}");
    for of_stack in [generated, lru] {
        assert_eq!(of_stack.moves_without_error, 0);
        assert_eq!(of_stack.moves, of_stack.errors, "one before each error");
        assert!(of_stack.saves > 100_000 && 10 * of_stack.errors < of_stack.plans);
    }
    let moves = online.moves_without_error;
    assert!(moves > 0 && 500 * moves < online.saves);
}
