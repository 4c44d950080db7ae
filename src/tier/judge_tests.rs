//! A device without memory that judges the order of copies: every copy comes after the write of what it
//! reads, and after all reads and writes of what it overwrites. The judge knows nothing of slots: it
//! keeps vector clocks (Mattern 1989), one of each lane, and for ranges of bytes who touched them last.

use super::*;
use crate::cases::long;
use crate::device::{DiskSpace, Event, Lane, Launcher, Memory, Recorder, Stream, Traffic};
use crate::layout::{Field, PreviousField};
use crate::plan::{Index, Policy};
use crate::scalar::Scalar;
use crate::schedule::Schedule;
use std::any::Any;

/// Number of operations of each lane that have ended before a point of the run.
type Clock = [u64; 5];

/// The last read or write of bytes `begin..end` of a memory by a lane, its operation number `number`.
struct Touch {
    memory: u8,
    begin: u64,
    end: u64,
    lane: usize,
    number: u64,
    writes: bool,
}

#[derive(Default)]
struct Judge {
    lanes: [Clock; 5],
    events: Vec<Clock>,
    touches: Vec<Touch>,
    /// The clocks of the lane of disk reads after each of its operations.
    reads: Vec<Clock>,
    /// Waits so far, and those of them that made a lane wait for nothing new.
    waits: usize,
    needless: usize,
    /// The wait that is left out.
    dropped: Option<usize>,
    race: Option<String>,
}

fn joined(a: &mut Clock, b: &Clock) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a = (*a).max(*b));
}

impl Judge {
    /// The calling thread has waited: all that it enqueues later comes after `clock`.
    fn host_waits(&mut self, clock: &Clock) {
        self.lanes.iter_mut().for_each(|lane| joined(lane, clock));
    }

    /// Judges a read or write by `lane` of `bytes` bytes at `place`.
    fn touch(&mut self, lane: Lane, place: Place, bytes: u64, writes: bool) {
        let (memory, begin) = match place {
            Place::Device(at) => (0, at),
            Place::Host(at) => (1, at),
            Place::Disk(at) => (2, at),
            Place::App(_) => return,
        };
        let (end, clock) = (begin + bytes, self.lanes[lane as usize]);
        let meets = |t: &&Touch| t.memory == memory && t.begin < end && begin < t.end;
        let conflicts = |t: &&Touch| (writes || t.writes) && clock[t.lane] < t.number;
        if let Some(t) = self.touches.iter().filter(meets).find(conflicts) {
            let (what, other) = (if writes { "writes" } else { "reads" }, t.lane);
            let text = format!("{lane:?} {what} {place:?}, not after operation {} of lane {other}, which writes: {}", t.number, t.writes);
            self.race.get_or_insert(text);
        }
        let lane = lane as usize;
        self.touches.retain(|t| {
            let inside = t.memory == memory && begin <= t.begin && t.end <= end;
            !inside || !(writes || (t.lane == lane && !t.writes))
        });
        let number = clock[lane];
        self.touches.push(Touch { memory, begin, end, lane, number, writes });
    }
}

impl Recorder for Judge {}
impl Launcher for Judge {}

impl Device for Judge {
    fn reserve(&mut self, _: Memory, _: u64) -> Result<()> {
        Ok(())
    }

    fn mount(&mut self, _: DiskSpace) -> Result<()> {
        Ok(())
    }

    fn enter(&mut self, _: Stream, _: &'static str) -> Result<()> {
        Ok(())
    }

    fn leave(&mut self) -> Result<()> {
        Ok(())
    }

    /// The address is the offset, for `played`.
    fn pointer(&self, place: Place, _: u64) -> Result<*mut c_void> {
        match place {
            Place::Device(at) => Ok(at as *mut c_void),
            _ => Ok(std::ptr::null_mut()),
        }
    }

    fn owns(&self, _: AppMemory) -> bool {
        false
    }

    fn move_in_pool(&mut self, _: u64, _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    fn issued(&self, lane: Lane) -> u64 {
        self.lanes[lane as usize][lane as usize]
    }

    fn finish_read(&mut self, read: u64) -> Result<()> {
        let clock = self.reads[read as usize - 1];
        self.host_waits(&clock);
        Ok(())
    }

    fn event(&mut self) -> Result<Event> {
        self.events.push(Clock::default());
        Ok(Event(self.events.len() - 1))
    }

    fn copy(&mut self, lane: Lane, to: Place, from: Place, bytes: u64) -> Result<()> {
        self.lanes[lane as usize][lane as usize] += 1;
        self.touch(lane, from, bytes, false);
        self.touch(lane, to, bytes, true);
        if lane == Lane::DiskRead {
            self.reads.push(self.lanes[lane as usize]);
        }
        Ok(())
    }

    fn record(&mut self, lane: Lane, event: Event) -> Result<()> {
        self.events[event.0] = self.lanes[lane as usize];
        Ok(())
    }

    fn wait(&mut self, lane: Lane, event: Event) -> Result<()> {
        let (before, number) = (self.lanes[lane as usize], self.waits);
        self.waits += 1;
        if self.dropped != Some(number) {
            joined(&mut self.lanes[lane as usize], &self.events[event.0]);
        }
        self.needless += usize::from(before == self.lanes[lane as usize]);
        Ok(())
    }

    fn is_done(&mut self, _: Event) -> Result<bool> {
        Ok(false)
    }

    fn finish(&mut self, event: Event) -> Result<()> {
        let clock = self.events[event.0];
        self.host_waits(&clock);
        Ok(())
    }

    fn synchronize(&mut self) -> Result<()> {
        let lanes = self.lanes;
        lanes.iter().for_each(|clock| self.host_waits(clock));
        Ok(())
    }

    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

/// Bytes of a state; one half is the previous time level of the other half.
const STATE: u64 = 512;

/// A way to store snapshots.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Raw,
    Coded,
    Mixed,
    Shared,
    ZeroCopy,
    CodedZeroCopy,
}

impl Kind {
    fn plan(self, index: &Index, cache: u32, policy: Policy) -> Result<Plan> {
        match self {
            Kind::Mixed => Plan::mixed(index, cache, 2, false),
            Kind::Shared => Plan::sharing(index, cache),
            Kind::ZeroCopy => Plan::handing_over(index, cache),
            Kind::Raw | Kind::Coded | Kind::CodedZeroCopy => Plan::of(index, cache, policy),
        }
    }

    fn tiers(self, plan: &Plan, judge: Judge) -> Tiers<&Plan> {
        let field =
            |bytes: u64, previous_of| Field { n: [bytes, 1, 1], scalar: Scalar::Byte, previous_of };
        let layout = Layout {
            fields: vec![field(STATE / 2, None), field(STATE / 2, Some(0))],
            bytes: vec![STATE / 2; 2],
            offsets: vec![0, STATE / 2],
            raw_bytes: STATE,
            slot_bytes: STATE,
        };
        // The assumed coder's staging buffer is the first snapshot's place of the device slab.
        let cache = STATE * u64::from(plan.device_slots + 1);
        let mut judge = Box::new(judge);
        let app = judge.event().unwrap();
        let slots = Slots::new(judge, app, layout, cache);
        let store: Box<dyn Store> = match self {
            Kind::Raw | Kind::ZeroCopy => Box::new(RawStore),
            Kind::Mixed | Kind::Coded | Kind::CodedZeroCopy => {
                let pool = STATE * u64::from(plan.host_slots + plan.device_slots);
                let coder = SnapshotCoder::Assumed { bytes: STATE / 2 };
                let mut packed = CodedStore::new(coder, cache, pool);
                packed.leave_to_others(STATE).unwrap();
                Box::new(packed)
            }
            Kind::Shared => {
                let (field, at, current, current_at) = (1, 0, 0, 0);
                let checksum_at = STATE / 2;
                let previous = vec![PreviousField { field, at, current, current_at, checksum_at }];
                let own_bytes = STATE / 2;
                let levels =
                    Levels { own: vec![(0, 0)], previous, own_bytes, previous_bytes: STATE / 2 };
                Box::new(SharingStore::new(levels, FieldChecksums::Absent))
            }
        };
        Tiers::of(slots, store, plan).unwrap()
    }
}

fn judge<'t>(tiers: &'t mut Tiers<&Plan>) -> &'t mut Judge {
    let device: &mut dyn Any = tiers.device();
    device.downcast_mut().unwrap()
}

/// The application computes or reads on its lane at the addresses that it was given.
fn used(tiers: &mut Tiers<&Plan>, pointers: &[*mut c_void], writes: bool) {
    let judge = judge(tiers);
    judge.lanes[0][0] += 1;
    for pointer in pointers {
        judge.touch(Lane::App, Place::Device(*pointer as u64), STATE / 2, writes);
    }
}

/// Plays a plan. `on_disk` slots of the pool lie on disk, and the wait number `dropped` is left out.
/// Returns the race that was found, the number of waits, and how many of these were needless.
fn played(
    kind: Kind,
    index: &Index,
    plan: &Plan,
    on_disk: u32,
    dropped: Option<usize>,
) -> (Option<String>, usize, usize) {
    let mut tiers = kind.tiers(plan, Judge { dropped, ..Judge::default() });
    if on_disk > 0 {
        tiers.use_disk(on_disk, STATE, 1 << 32).unwrap();
    }
    // SAFETY: the judge has no memory, and copies nothing.
    let field = unsafe { AppMemory::new(std::ptr::null_mut(), STATE as usize / 2) };
    let zero_copy = matches!(kind, Kind::ZeroCopy | Kind::CodedZeroCopy);
    for (number, access) in index.accesses.iter().enumerate() {
        let (ts, last) = (i64::from(access.ts), access.next == NONE);
        match (access.save, zero_copy) {
            (true, false) => tiers.save(number, ts, &[field; 2]).unwrap(),
            (true, true) => {
                let pointers = tiers.begin_save(number).unwrap();
                used(&mut tiers, &pointers, true);
                tiers.commit_save(number, ts).unwrap();
            }
            (false, false) => drop(tiers.restore(number, ts, last, &[field; 2]).unwrap()),
            (false, true) => {
                let (pointers, _) = tiers.acquire(number, ts, last).unwrap();
                used(&mut tiers, &pointers, last);
                if ts % 2 == 0 {
                    tiers.release(number).unwrap();
                }
            }
        }
        tiers.saved().for_each(drop);
    }
    let Judge { race, waits, needless, .. } = judge(&mut tiers);
    (race.take(), *waits, *needless)
}

const KINDS: [Kind; 6] =
    [Kind::Raw, Kind::Coded, Kind::Mixed, Kind::Shared, Kind::ZeroCopy, Kind::CodedZeroCopy];

/// Calls `body` for plans of all kinds, with the number of pool slots on disk.
fn each_plan(longest: u32, mut body: impl FnMut(Kind, &Index, &Plan, u32)) {
    for (n, s) in (2..=longest).flat_map(|n| (1..=n.min(9)).map(move |s| (n, s))) {
        let all = [
            Schedule::revolve(n, s),
            Schedule::uniform(n, s),
            Schedule::two_level(n, s, 0, 0),
            Schedule::hrevolve(n, s, 0, 0),
            Schedule::zcut(n, 0, s),
            Schedule::store_all(n),
        ];
        for (schedule, cache) in all.iter().flatten().flat_map(|s| (0..6).map(move |c| (s, c))) {
            let index = Index::new(schedule).unwrap();
            for (kind, policy) in KINDS
                .map(|kind| (kind, Policy::Clairvoyant))
                .into_iter()
                .chain([(Kind::Raw, Policy::Lru), (Kind::Coded, Policy::Lru)])
            {
                let plan = kind.plan(&index, cache, policy).unwrap();
                let slots = plan.host_slots;
                let disks = if kind == Kind::Shared { 0..1 } else { 0..3 };
                for on_disk in disks.map(|part| slots * part / 2) {
                    body(kind, &index, &plan, on_disk);
                }
            }
        }
    }
}

#[test]
fn no_copy_of_any_plan_races() {
    let (mut plans, mut waits, mut needless) = (0, 0, 0);
    each_plan(if long() { 40 } else { 12 }, |kind, index, plan, on_disk| {
        let (race, all, in_vain) = played(kind, index, plan, on_disk, None);
        assert_eq!(race, None, "{kind:?}, {on_disk} on disk:\n{plan}");
        (plans, waits, needless) = (plans + 1, waits + all, needless + in_vain);
    });
    println!("{plans} plans, {waits} waits, of which {needless} wait for nothing new");
    assert!(plans > 10_000);
}

#[test]
fn a_wait_that_is_left_out_is_found() {
    let mut found = [(0, 0); KINDS.len()];
    each_plan(if long() { 9 } else { 6 }, |kind, index, plan, on_disk| {
        let (_, waits, _) = played(kind, index, plan, on_disk, None);
        let races =
            (0..waits).filter(|k| played(kind, index, plan, on_disk, Some(*k)).0.is_some()).count();
        let of_kind = KINDS.iter().position(|other| *other == kind).unwrap();
        found[of_kind] = (found[of_kind].0 + races, found[of_kind].1 + waits);
    });
    for (kind, (races, waits)) in KINDS.iter().zip(found) {
        println!("{kind:?}: {races} of {waits} waits, left out alone, are races");
        assert!(races * 10 > waits, "{kind:?}: {races} of {waits}");
    }
}
