//! A device without memory that judges the order of copies: every copy comes after the write of what it
//! reads, and after all reads and writes of what it overwrites. The judge knows nothing of slots: it
//! keeps vector clocks (Mattern 1989), one of each lane, and for ranges of bytes who touched them last.

use super::*;
use crate::cases::long;
use crate::codec::{Method, Settings, SnapshotCodec};
use crate::device::{
    AppMemory, DiskSpace, Event, Lane, Launcher, Memory, Place, RecordCoding, Recorder, Stream,
    Work,
};
use crate::layout::Field;
use crate::plan::{Claims, Index, Level, Policy, NONE};
use crate::scalar::Scalar;
use crate::schedule::Schedule;
use std::ffi::c_void;

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

    fn leave(&mut self) -> Result<f64> {
        Ok(0.0)
    }

    /// The address is the offset, for `played`.
    fn pointer(&self, place: Place, _: u64) -> Result<*mut c_void> {
        match place {
            Place::Device(at) => Ok(at as *mut c_void),
            _ => Ok(std::ptr::null_mut()),
        }
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

    fn code(&mut self, lane: Lane, coding: RecordCoding) -> Result<()> {
        self.lanes[lane as usize][lane as usize] += 1;
        match coding.work {
            Work::Compress { name, raw, .. } => {
                self.touch(lane, raw, coding.coder.raw_bytes(name.part), false)
            }
            Work::Complete { .. } => {}
            Work::Decompress { name, from, bytes, raw } => {
                self.touch(lane, from, bytes, false);
                self.touch(lane, raw, coding.coder.raw_bytes(name.part), true);
            }
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
struct Kind {
    in_levels: bool,
    is_coded: bool,
    is_mixed: bool,
    by_lanes: bool,
    zero_copy: bool,
    policy: Policy,
}

impl Kind {
    /// The index of the states as this kind cuts them.
    fn cut(self, index: &Index, cache: u32) -> Index {
        let is_spare = self.zero_copy && !Plan::always_has_slot(true, 2, cache);
        match (self.in_levels, self.is_coded) {
            (false, _) => index.clone(),
            (true, true) => index.in_levels(Claims::OfStatesNotSteppedFrom).unwrap(),
            (true, false) if is_spare => index.in_levels(Claims::None).unwrap(),
            (true, false) => index.in_levels(Claims::All).unwrap(),
        }
    }

    fn plan(self, index: &Index, cache: u32) -> Result<Plan> {
        match self {
            Kind { is_mixed: true, .. } => Plan::mixed(index, cache, 2, false),
            // A cache for lanes has two slots or more.
            Kind { by_lanes: true, zero_copy, .. } => {
                Plan::coded_by_lanes(index, cache + 2, zero_copy)
            }
            Kind { zero_copy: true, is_coded: false, .. } => Plan::handing_over(index, cache),
            _ => Plan::of(index, cache, self.policy),
        }
    }

    /// All kinds that sessions may have.
    fn all() -> Vec<Kind> {
        let mut all = Vec::new();
        for bits in 0..64 {
            let [in_levels, is_coded, is_mixed, by_lanes, zero_copy, is_lru] =
                [0, 1, 2, 3, 4, 5].map(|bit| bits >> bit & 1 == 1);
            let policy = if is_lru { Policy::Lru } else { Policy::Clairvoyant };
            let is_refused = is_lru && (in_levels || is_mixed || zero_copy)
                || is_mixed && (!is_coded || in_levels || zero_copy)
                || by_lanes && (!is_coded || in_levels || is_mixed || is_lru);
            if !is_refused {
                all.push(Kind { in_levels, is_coded, is_mixed, by_lanes, zero_copy, policy });
            }
        }
        all
    }

    fn tiers(self, plan: &Plan, mut judge: Judge) -> Tiers<&Plan, Judge> {
        let field = |bytes: u64, previous_of| Field {
            n: [bytes / 4, 1, 1],
            scalar: Scalar::F32,
            previous_of,
        };
        let layout = Layout {
            fields: vec![field(STATE / 2, None), field(STATE / 2, Some(0))],
            bytes: vec![STATE / 2; 2],
            offsets: vec![0, STATE / 2],
            raw_bytes: STATE,
            slot_bytes: STATE,
        };
        let cache = STATE * u64::from(plan.device_slots + 1);
        let pool = STATE * u64::from(plan.host_slots + plan.device_slots);
        let parts = match self.in_levels {
            true => layout.by_level().unwrap(),
            false => layout.whole(),
        };
        let slot_bytes = parts.slot_bytes();
        let assumed = SnapshotCoder::Assumed { bytes: [slot_bytes / 2; 2] };
        let coder = self.is_coded.then(|| match self.by_lanes {
            false => assumed,
            true => {
                let settings = Settings { method: Method::Fp16, ..Settings::default() };
                let codec = || SnapshotCodec::new(settings.clone(), &layout);
                let sizes = [1, plan.device_slots];
                let lanes = LaneCoder::new(&mut judge, &layout, &parts, sizes, codec).unwrap();
                lanes.assume(slot_bytes / 2);
                SnapshotCoder::Lanes(Box::new(lanes))
            }
        });
        let storage = Storage { parts, coder, sums: self.in_levels.then_some(Sums::Absent) };
        // The assumed coder's staging buffer is the first state's place of the device slab.
        let mut tiers = Tiers::new(Box::new(judge), layout, plan, storage, cache, pool).unwrap();
        if self.is_coded && !self.is_mixed && !self.by_lanes {
            tiers.cache.arena.begin_at(STATE).unwrap();
        }
        tiers
    }
}

/// The application computes or reads on its lane at the addresses that it was given.
fn used(tiers: &mut Tiers<&Plan, Judge>, pointers: &[*mut c_void], writes: bool) {
    let judge = tiers.device();
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
    for (action, uses) in index.accesses.chunks(index.parts as usize).enumerate() {
        let (ts, last) = (i64::from(uses[0].ts / index.parts), uses[0].next == NONE);
        match (uses[0].save, kind.zero_copy) {
            (true, false) => tiers.save(action, ts, &[field; 2]).unwrap(),
            (true, true) => {
                tiers.begin_save(action, ts).unwrap();
                let pointers = tiers.addresses(action, ts).unwrap();
                let is_shared = plan.level_of(action) == Level::Claimed && !kind.is_coded;
                used(&mut tiers, &pointers[..1], true);
                used(&mut tiers, &pointers[1..], !is_shared);
                tiers.commit_save(action, ts).unwrap();
            }
            (false, false) => drop(tiers.restore(action, ts, last, &[field; 2]).unwrap()),
            (false, true) => {
                tiers.acquire(action, ts, last).unwrap();
                let pointers = tiers.addresses(action, ts).unwrap();
                let is_shared = plan.level_of(action) == Level::Shared && !kind.is_coded;
                used(&mut tiers, &pointers[..1], last);
                used(&mut tiers, &pointers[1..], last && !is_shared);
                if ts % 2 == 0 {
                    tiers.release(action).unwrap();
                }
            }
        }
        tiers.saved().for_each(drop);
    }
    let Judge { race, waits, needless, .. } = tiers.device();
    (race.take(), *waits, *needless)
}

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
            for kind in Kind::all() {
                let index = kind.cut(&index, cache);
                let plan = kind.plan(&index, cache).unwrap();
                let slots = plan.host_slots;
                for on_disk in (0..3).map(|part| slots * part / 2) {
                    body(kind, &index, &plan, on_disk);
                    let (mut sorted, memory) = (plan.clone(), slots - on_disk);
                    sorted.sort_pool(&index, memory, u32::MAX).unwrap();
                    if on_disk > 0 {
                        body(kind, &index, &sorted, sorted.host_slots - memory);
                    }
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
    let kinds = Kind::all();
    let mut found = vec![(0, 0); kinds.len()];
    each_plan(if long() { 9 } else { 6 }, |kind, index, plan, on_disk| {
        let (_, waits, _) = played(kind, index, plan, on_disk, None);
        let races =
            (0..waits).filter(|k| played(kind, index, plan, on_disk, Some(*k)).0.is_some()).count();
        let of_kind = kinds.iter().position(|other| *other == kind).unwrap();
        found[of_kind] = (found[of_kind].0 + races, found[of_kind].1 + waits);
    });
    for (kind, (races, waits)) in kinds.iter().zip(found) {
        println!("{kind:?}: {races} of {waits} waits, left out alone, are races");
        assert!(races * 10 > waits, "{kind:?}: {races} of {waits}");
    }
}
