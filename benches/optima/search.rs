//! An exhaustive search for small problems: the shortest time of all nested schedules with all
//! placements of their snapshots.
//!
//! It shares no code with schedules, plans, tiers and clocks, but counts time as they do: a SAVE and
//! a RESTORE copy on the application's stream, or use the link while the stream waits; a download
//! begins after the SAVE of its snapshot; an upload is issued after a SAVE or RESTORE, or when the
//! RESTORE that needs it is called; each direction of the link moves one snapshot at a time, in the
//! order of issue.
//!
//! With a disk one more lane reads and one writes. A snapshot that goes to disk passes through one of
//! two staging buffers, in turn; one that comes from disk for a RESTORE through one of two others; one
//! that comes into host memory, to stay there, needs a slot and no buffer. A read is issued as an
//! upload is. Unlike in a plan, a snapshot that is read into host memory leaves its slot on disk when
//! the read has ended, not only at the next RESTORE.
//!
//! The search is A*: it follows the runs with the smallest lower bounds first (`bound`).

use crate::bound::Bound;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Units of time in one forward step, and in one backward step.
pub const STEP: i32 = 16;

/// No time step: no state is live, or a place in a list is empty.
pub const NONE: u8 = u8::MAX;

/// The most snapshots that are stored, and the most transfers of a lane that have not begun.
const STACK: usize = 12;
const QUEUE: usize = STACK - 1;

/// A problem; times are in units.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    /// Number of time steps.
    pub steps: u8,
    /// Slots on the device, from 1 to 4, and in host memory, from 0 to 8.
    pub cache: u8,
    pub host: u8,
    /// The time of a transfer, and of a copy on the device.
    pub link: i32,
    pub copy: i32,
    /// Slots on disk, and the times of a read and of a write.
    pub disk: u8,
    pub read: i32,
    pub write: i32,
}

impl Problem {
    /// The time of a transfer of a lane.
    pub fn of_lane(&self, lane: usize) -> i32 {
        [self.link, self.link, self.read, self.write][lane]
    }
}

/// A short list.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct List<T, const N: usize> {
    pub len: u8,
    items: [T; N],
}

impl<T: Copy, const N: usize> List<T, N> {
    fn of(empty: T) -> Self {
        List { len: 0, items: [empty; N] }
    }

    pub fn all(&self) -> &[T] {
        &self.items[..self.len as usize]
    }

    fn all_mut(&mut self) -> &mut [T] {
        &mut self.items[..self.len as usize]
    }

    fn push(&mut self, item: T) {
        self.items[self.len as usize] = item;
        self.len += 1;
    }

    /// Removes the item at `k`; `empty` takes the place that is no longer used.
    fn remove(&mut self, k: usize, empty: T) -> T {
        let item = self.items[k];
        self.items.copy_within(k + 1..self.len as usize, k);
        self.len -= 1;
        self.items[self.len as usize] = empty;
        item
    }
}

/// Where a snapshot is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    Device,
    /// In host memory, or on its way there.
    Host,
    Both,
    /// In host memory; its upload is issued, and has a slot on the device.
    Arriving,
    Disk,
    /// On the device and on disk.
    Kept,
    /// On disk; its read into a buffer and its upload are issued, and have a slot on the device.
    Coming,
}

impl Place {
    fn has_slot(self) -> bool {
        !matches!(self, Place::Host | Place::Disk)
    }

    fn is_on_host(self) -> bool {
        matches!(self, Place::Host | Place::Both | Place::Arriving)
    }

    fn is_on_disk(self) -> bool {
        matches!(self, Place::Disk | Place::Kept | Place::Coming)
    }
}

/// The lanes beside the application's stream.
pub const UP: usize = 0;
pub const DOWN: usize = 1;
pub const READ: usize = 2;
pub const WRITE: usize = 3;
const LANES: usize = 4;

/// The number of a lane's transfer of a snapshot. No two such transfers are on their way at a time.
fn transfer(lane: usize, ts: u8) -> u8 {
    (lane as u8) << 5 | ts
}

/// A transfer of a snapshot that has not begun: it begins at `ready` or later, and after two others,
/// of which either may be none.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Job {
    ts: u8,
    after: [u8; 2],
    ready: i32,
}

/// No transfers to wait for.
const NOTHING: [(usize, u8); 2] = [(DOWN, NONE); 2];

const NO_JOB: Job = Job { ts: NONE, after: [NONE; 2], ready: 0 };

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lane {
    /// The transfer that has begun, when it ends, and those that have not begun.
    working: u8,
    pub end: i32,
    pub jobs: List<Job, QUEUE>,
}

/// A run that has come so far.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Run {
    pub now: i32,
    /// The next state to be reversed, and the live state.
    pub next: u8,
    pub live: u8,
    /// Whether no time step was computed since the last SAVE or RESTORE: transfers may be issued.
    is_fresh: bool,
    /// The stored snapshots, the last one on top.
    pub stack: List<(u8, Place), STACK>,
    pub lanes: [Lane; LANES],
    /// The snapshots whose uploads empty the buffers from disk, that of the next read first.
    buffers: [u8; 2],
}

/// A slot for a snapshot: a free one, or that of a snapshot on the stack, which stays on the host or on
/// disk.
#[derive(Clone, Copy)]
enum Slot {
    Free,
    Of(usize),
}

impl Run {
    fn begin(problem: &Problem) -> Self {
        Run {
            now: 0,
            next: problem.steps - 1,
            live: 0,
            is_fresh: false,
            stack: List::of((NONE, Place::Device)),
            lanes: [Lane { working: NONE, end: 0, jobs: List::of(NO_JOB) }; LANES],
            buffers: [NONE; 2],
        }
    }

    /// The same run with times that count from now.
    fn key(&self) -> Self {
        let mut key = *self;
        let since = |time: i32| (time - self.now).max(0);
        key.now = 0;
        for lane in &mut key.lanes {
            lane.end = since(lane.end);
            lane.jobs.all_mut().iter_mut().for_each(|job| job.ready = since(job.ready));
        }
        key
    }

    /// Whether a transfer of a snapshot has been issued and has not ended.
    fn is_moving(&self, lane: usize, ts: u8) -> bool {
        let Lane { working, jobs, .. } = &self.lanes[lane];
        ts != NONE && (*working == ts || jobs.all().iter().any(|job| job.ts == ts))
    }

    /// Lets time pass until `time`.
    fn pass(&mut self, problem: &Problem, time: i32) {
        self.now = self.now.max(time);
        while let Some((begin, lane)) = self.next_begin().filter(|(begin, _)| *begin <= self.now) {
            let ts = self.lanes[lane].jobs.remove(0, NO_JOB).ts;
            let end = begin + problem.of_lane(lane);
            (self.lanes[lane].working, self.lanes[lane].end) = (ts, end);
            for job in self.lanes.iter_mut().flat_map(|lane| lane.jobs.all_mut()) {
                for after in job.after.iter_mut().filter(|after| **after == transfer(lane, ts)) {
                    (*after, job.ready) = (NONE, job.ready.max(end));
                }
            }
        }
        for lane in &mut self.lanes {
            if lane.end <= self.now {
                lane.working = NONE;
            }
        }
        for k in 0..2 {
            if !self.is_moving(UP, self.buffers[k]) {
                self.buffers[k] = NONE;
            }
        }
    }

    /// When the next transfer begins, and its lane; `None` if there is none.
    fn next_begin(&self) -> Option<(i32, usize)> {
        let begin = |(k, lane): (usize, &Lane)| {
            let next = lane.jobs.all().first().filter(|job| job.after == [NONE; 2])?;
            Some((next.ready.max(lane.end), k))
        };
        self.lanes.iter().enumerate().filter_map(begin).min()
    }

    /// Issues a transfer that begins after others.
    fn issue(&mut self, problem: &Problem, lane: usize, ts: u8, after: [(usize, u8); 2]) {
        let mut job = Job { ts, ready: self.now, ..NO_JOB };
        for (place, (lane, ts)) in job.after.iter_mut().zip(after) {
            if ts != NONE && self.lanes[lane].working == ts {
                job.ready = job.ready.max(self.lanes[lane].end);
            } else if self.is_moving(lane, ts) {
                *place = transfer(lane, ts);
            }
        }
        self.lanes[lane].jobs.push(job);
        self.pass(problem, self.now);
    }

    /// The snapshot whose write empties the buffer of the next one that goes to disk, or [`NONE`].
    fn buffer_to_disk(&self) -> u8 {
        let Lane { working, jobs, .. } = &self.lanes[WRITE];
        let busy = [*working].into_iter().filter(|ts| *ts != NONE);
        let busy: Vec<u8> = busy.chain(jobs.all().iter().map(|job| job.ts)).collect();
        busy.len().checked_sub(2).map_or(NONE, |k| busy[k])
    }

    fn issue_upload(&mut self, problem: &Problem, k: usize, slot: Slot) {
        let from = self.take_slot(slot);
        let (ts, place) = self.stack.items[k];
        if place == Place::Disk {
            self.stack.items[k].1 = Place::Coming;
            let [next, other] = self.buffers;
            self.issue(problem, READ, ts, [(WRITE, ts), (UP, next)]);
            self.issue(problem, UP, ts, [(READ, ts), (DOWN, from)]);
            self.buffers = [other, ts];
            return;
        }
        self.stack.items[k].1 = Place::Arriving;
        // A snapshot in host memory has come by a download or by a read.
        let after = if self.is_moving(READ, ts) { (READ, ts) } else { (DOWN, ts) };
        self.issue(problem, UP, ts, [after, (DOWN, from)]);
    }

    /// Waits until a transfer of a snapshot has ended, if there is one.
    fn wait_for(&mut self, problem: &Problem, lane: usize, ts: u8) {
        while self.is_moving(lane, ts) {
            let time = match self.lanes[lane].working == ts {
                true => self.lanes[lane].end,
                false => self.next_begin().unwrap().0,
            };
            self.pass(problem, time);
        }
    }

    /// Lets the application's stream do a transfer of a lane.
    fn move_now(&mut self, problem: &Problem, lane: usize) {
        self.lanes[lane].end = self.lanes[lane].end.max(self.now) + problem.of_lane(lane);
        self.lanes[lane].working = NONE;
        self.pass(problem, self.lanes[lane].end);
    }

    /// The slots from which to choose one. Nothing is lost with a free one.
    fn slots(&self, problem: &Problem) -> impl Iterator<Item = Slot> {
        let used = self.stack.all().iter().filter(|(_, place)| place.has_slot()).count();
        let is_free = used < problem.cache as usize;
        let stack = self.stack;
        let may_leave =
            move |&k: &usize| !is_free && matches!(stack.items[k].1, Place::Both | Place::Kept);
        let others = (0..stack.len as usize).filter(may_leave).map(Slot::Of);
        is_free.then_some(Slot::Free).into_iter().chain(others)
    }

    /// Takes a slot. Returns the snapshot whose download has to end first, or [`NONE`].
    fn take_slot(&mut self, slot: Slot) -> u8 {
        match slot {
            Slot::Free => NONE,
            Slot::Of(k) => {
                let (ts, place) = &mut self.stack.items[k];
                *place = if *place == Place::Both { Place::Host } else { Place::Disk };
                *ts
            }
        }
    }

    /// Takes each slot in host memory from which to choose one.
    fn with_host_slot(&self, problem: &Problem, mut each: impl FnMut(Run)) {
        let used = self.stack.all().iter().filter(|(_, place)| place.is_on_host()).count();
        if used < problem.host as usize {
            return each(*self);
        }
        for (k, &(ts, place)) in self.stack.all().iter().enumerate() {
            let is_moving = self.is_moving(DOWN, ts) || self.is_moving(READ, ts);
            if place == Place::Both && !is_moving {
                let mut run = *self;
                run.stack.items[k].1 = Place::Device;
                each(run);
            }
        }
    }

    /// Whether a slot on disk is free. A snapshot that is read into host memory has one, too.
    fn has_disk_slot(&self, problem: &Problem) -> bool {
        let is_there = |&&(ts, place): &&(u8, Place)| {
            place.is_on_disk() || (place.is_on_host() && self.is_moving(READ, ts))
        };
        self.stack.all().iter().filter(is_there).count() < problem.disk as usize
    }

    /// Calls `each` for every run that goes on from here by one action or the issue of one transfer.
    fn successors(&self, problem: &Problem, mut each: impl FnMut(Run)) {
        if self.live == self.next {
            let mut run = *self;
            (run.next, run.live, run.is_fresh) = (run.next.wrapping_sub(1), NONE, false);
            run.pass(problem, run.now + STEP);
            each(run);
        } else if self.live != NONE {
            if self.stack.len > 0 {
                let mut run = *self;
                (run.live, run.is_fresh) = (run.live + 1, false);
                run.pass(problem, run.now + STEP);
                each(run);
            }
            let is_stored = self.stack.all().last().is_some_and(|&(ts, _)| ts == self.live);
            if !is_stored {
                self.save(problem, &mut each);
            }
        } else {
            self.restore(problem, &mut each);
        }
        if self.is_fresh {
            for k in 0..self.stack.len as usize {
                let (ts, place) = self.stack.items[k];
                if matches!(place, Place::Host | Place::Disk) {
                    for slot in self.slots(problem) {
                        let mut run = *self;
                        run.issue_upload(problem, k, slot);
                        each(run);
                    }
                }
                if matches!(place, Place::Disk | Place::Kept) && !self.is_moving(READ, ts) {
                    let to = if place == Place::Disk { Place::Host } else { Place::Both };
                    self.with_host_slot(problem, |mut run| {
                        run.stack.items[k].1 = to;
                        run.issue(problem, READ, ts, [(WRITE, ts), (WRITE, NONE)]);
                        each(run);
                    });
                }
            }
        }
    }

    fn save(&self, problem: &Problem, each: &mut impl FnMut(Run)) {
        for slot in self.slots(problem) {
            let mut run = *self;
            let from = run.take_slot(slot);
            run.wait_for(problem, DOWN, from);
            run.pass(problem, run.now + problem.copy);
            run.is_fresh = true;
            run.with_host_slot(problem, |mut run| {
                run.stack.push((run.live, Place::Both));
                run.issue(problem, DOWN, run.live, NOTHING);
                each(run);
            });
            if run.has_disk_slot(problem) {
                let (mut run, ts) = (run, run.live);
                run.stack.push((ts, Place::Kept));
                run.issue(problem, DOWN, ts, [(WRITE, run.buffer_to_disk()), (DOWN, NONE)]);
                run.issue(problem, WRITE, ts, [(DOWN, ts), (DOWN, NONE)]);
                each(run);
            }
            run.stack.push((run.live, Place::Device));
            each(run);
        }
        self.with_host_slot(problem, |mut run| {
            run.move_now(problem, DOWN);
            run.stack.push((run.live, Place::Host));
            run.is_fresh = true;
            each(run);
        });
        if self.has_disk_slot(problem) {
            let (mut run, ts) = (*self, self.live);
            run.wait_for(problem, WRITE, run.buffer_to_disk());
            run.move_now(problem, DOWN);
            run.stack.push((ts, Place::Disk));
            run.issue(problem, WRITE, ts, NOTHING);
            run.is_fresh = true;
            each(run);
        }
    }

    fn restore(&self, problem: &Problem, each: &mut impl FnMut(Run)) {
        let k = self.stack.len as usize - 1;
        let (ts, place) = self.stack.items[k];
        let mut end = |mut run: Run, copy: i32| {
            run.pass(problem, run.now + copy);
            (run.live, run.is_fresh) = (ts, true);
            if ts == run.next {
                run.stack.remove(k, (NONE, Place::Device));
                // A transfer that no upload follows is of no use.
                if (0..LANES).any(|lane| run.is_moving(lane, ts)) {
                    return;
                }
            }
            each(run);
        };
        let awaited = |mut run: Run| {
            run.wait_for(problem, UP, ts);
            let place = &mut run.stack.items[k].1;
            *place = if *place == Place::Coming { Place::Kept } else { Place::Both };
            run
        };
        match place {
            Place::Device | Place::Both | Place::Kept => end(*self, problem.copy),
            Place::Arriving | Place::Coming => end(awaited(*self), problem.copy),
            Place::Host | Place::Disk => {
                for slot in self.slots(problem) {
                    let mut run = *self;
                    run.issue_upload(problem, k, slot);
                    end(awaited(run), problem.copy);
                }
                let mut run = *self;
                if place == Place::Disk {
                    let [next, other] = run.buffers;
                    run.issue(problem, READ, ts, [(WRITE, ts), (UP, next)]);
                    run.buffers = [other, NONE];
                }
                run.wait_for(problem, READ, ts);
                run.wait_for(problem, DOWN, ts);
                run.move_now(problem, UP);
                end(run, 0);
            }
        }
    }
}

/// A run that may be followed; the smallest bound comes first.
struct Waiting(i64, Run);

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.0.cmp(&self.0).then(self.1.now.cmp(&other.1.now))
    }
}

/// A quick hash for many small keys.
#[derive(Default)]
struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }

    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let word = word.iter().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
            self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }
}

/// Returns the shortest time of a problem in units, or `best` if that is less; `None` if its proof takes more
/// than `most` runs that are followed.
pub fn optimum(problem: &Problem, most: usize, mut best: i32) -> Option<i32> {
    const LINK: [f64; 7] = [0.0, 0.03, 0.07, 0.12, 0.2, 0.3, 0.4];
    const SLOTS: [f64; 6] = [0.0, 0.1, 0.2, 0.3, 0.45, 0.6];
    const DISK: [f64; 4] = [0.0, 0.05, 0.15, 0.3];
    /// How many bounds are used: those with the largest values for the whole problem.
    const BOUNDS: usize = 6;
    let begin = Run::begin(problem);
    let of_disk = &DISK[..if problem.disk > 0 { DISK.len() } else { 1 }];
    let lanes = LINK.into_iter().flat_map(|up| LINK.map(|down| [up, down]));
    let disks = of_disk.iter().flat_map(|&read| of_disk.iter().map(move |&write| [read, write]));
    let lanes = lanes
        .flat_map(|[up, down]| disks.clone().map(move |[read, write]| [up, down, read, write]));
    let weights = lanes.flat_map(|lanes| SLOTS.map(|slots| (lanes, slots)));
    let weights = weights.filter(|(lanes, slots)| lanes.iter().sum::<f64>() + slots < 0.95);
    let bound_of = |(lanes, slots)| {
        let bound = Bound::new(problem, lanes, slots);
        (bound.of_run(&begin), bound)
    };
    let mut bounds: Vec<(f64, Bound)> = Vec::new();
    for (value, bound) in weights.map(bound_of) {
        let at = bounds.partition_point(|(other, _)| *other >= value);
        bounds.insert(at, (value, bound));
        bounds.truncate(BOUNDS);
    }
    // In fractions of a unit, rounded down: rounding errors make no bound too large.
    let of_run = |run: &Run| {
        let largest = bounds.iter().map(|(_, bound)| bound.of_run(run)).fold(0.0, f64::max);
        (largest * 64.0 - 1e-3) as i64
    };
    let mut known: HashMap<Run, i32, BuildHasherDefault<Quick>> = HashMap::default();
    let mut waiting = BinaryHeap::from([Waiting(of_run(&begin), begin)]);
    let mut followed = 0;
    while let Some(Waiting(bound, run)) = waiting.pop() {
        if bound >= i64::from(best) * 64 {
            break;
        }
        if known.get(&run.key()).is_some_and(|&before| before < run.now) {
            continue;
        }
        followed += 1;
        if followed > most {
            return None;
        }
        run.successors(problem, |run| {
            if run.next == NONE {
                best = best.min(run.now);
                return;
            }
            match known.entry(run.key()) {
                Entry::Occupied(before) if *before.get() <= run.now => return,
                Entry::Occupied(mut before) => *before.get_mut() = run.now,
                Entry::Vacant(place) => {
                    place.insert(run.now);
                }
            }
            let bound = of_run(&run).max(bound);
            if bound < i64::from(best) * 64 {
                waiting.push(Waiting(bound, run));
            }
        });
    }
    Some(best)
}
