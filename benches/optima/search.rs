//! An exhaustive search for small problems: the shortest time of all nested schedules with all
//! placements of their snapshots.
//!
//! It shares no code with schedules, plans, tiers and clocks, but counts time as they do: a SAVE and
//! a RESTORE copy on the application's stream, or use the link while the stream waits; a download
//! begins after the SAVE of its snapshot; an upload is issued after a SAVE or RESTORE, or when the
//! RESTORE that needs it is called; each direction of the link moves one snapshot at a time, in the
//! order of issue.
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

/// The most snapshots on the device and on the host.
const CACHE: usize = 4;
const STACK: usize = 12;

/// A problem; times are in units.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    /// Number of time steps.
    pub steps: u8,
    /// Slots on the device, from 1 to 4, and on the host, from 0 to 8.
    pub cache: u8,
    pub host: u8,
    /// The time of a transfer, and of a copy on the device.
    pub link: i32,
    pub copy: i32,
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
    Host,
    Both,
    /// On the host; its upload is issued, and has a slot on the device.
    Arriving,
}

impl Place {
    fn has_slot(self) -> bool {
        self != Place::Host
    }

    fn is_on_host(self) -> bool {
        self != Place::Device
    }
}

/// An upload that has not begun: it begins at `ready` or later, and after the downloads of two
/// snapshots, of which either may be none.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Upload {
    ts: u8,
    after: [u8; 2],
    ready: i32,
}

const NO_UPLOAD: Upload = Upload { ts: NONE, after: [NONE; 2], ready: 0 };

/// A run that has come so far.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Run {
    pub now: i32,
    /// The next state to be reversed, and the live state.
    pub next: u8,
    pub live: u8,
    /// Whether no time step was computed since the last SAVE or RESTORE: uploads may be issued.
    is_fresh: bool,
    /// The stored snapshots, the last one on top.
    pub stack: List<(u8, Place), STACK>,
    /// Free slots of snapshots whose download has not ended.
    left: List<u8, CACHE>,
    /// The download that has begun, when it ends, and those that have not begun.
    downloading: u8,
    pub download_end: i32,
    pub downloads: List<u8, STACK>,
    /// The upload that has begun, when it ends, and those that have not begun.
    uploading: u8,
    pub upload_end: i32,
    pub uploads: List<Upload, CACHE>,
}

/// A slot for a snapshot: a free one, one that `Run::left` has, or that of a snapshot on the stack,
/// which stays on the host.
#[derive(Clone, Copy)]
enum Slot {
    Free,
    Left(usize),
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
            left: List::of(NONE),
            downloading: NONE,
            download_end: 0,
            downloads: List::of(NONE),
            uploading: NONE,
            upload_end: 0,
            uploads: List::of(NO_UPLOAD),
        }
    }

    /// The same run with times that count from now.
    fn key(&self) -> Self {
        let mut key = *self;
        let since = |time: i32| (time - self.now).max(0);
        (key.now, key.download_end) = (0, since(self.download_end));
        key.upload_end = since(self.upload_end);
        key.uploads.all_mut().iter_mut().for_each(|upload| upload.ready = since(upload.ready));
        key
    }

    fn is_downloading(&self, ts: u8) -> bool {
        ts != NONE && (self.downloading == ts || self.downloads.all().contains(&ts))
    }

    /// Lets time pass until `time`.
    fn pass(&mut self, problem: &Problem, time: i32) {
        self.now = self.now.max(time);
        loop {
            if self.downloads.len > 0 && self.download_end <= self.now {
                let ts = self.downloads.remove(0, NONE);
                self.downloading = ts;
                self.download_end += problem.link;
                let end = self.download_end;
                for upload in self.uploads.all_mut() {
                    for after in upload.after.iter_mut().filter(|after| **after == ts) {
                        (*after, upload.ready) = (NONE, upload.ready.max(end));
                    }
                }
            } else if let Some(begin) = self.upload_begin().filter(|&begin| begin <= self.now) {
                self.uploading = self.uploads.remove(0, NO_UPLOAD).ts;
                self.upload_end = begin + problem.link;
            } else {
                break;
            }
        }
        if self.download_end <= self.now {
            self.downloading = NONE;
        }
        if self.upload_end <= self.now {
            self.uploading = NONE;
        }
        for k in (0..self.left.len as usize).rev() {
            if !self.is_downloading(self.left.items[k]) {
                self.left.remove(k, NONE);
            }
        }
    }

    /// When the next upload begins; `None` if there is none, or a download that it waits for has not
    /// begun.
    fn upload_begin(&self) -> Option<i32> {
        let next = self.uploads.all().first().filter(|upload| upload.after == [NONE; 2])?;
        Some(next.ready.max(self.upload_end))
    }

    fn issue_download(&mut self, problem: &Problem, ts: u8) {
        if self.download_end <= self.now {
            (self.downloading, self.download_end) = (ts, self.now + problem.link);
        } else {
            self.downloads.push(ts);
        }
        self.pass(problem, self.now);
    }

    fn issue_upload(&mut self, problem: &Problem, k: usize, slot: Slot) {
        let from = self.take_slot(slot);
        let (ts, place) = &mut self.stack.items[k];
        *place = Place::Arriving;
        let ts = *ts;
        let mut upload = Upload { ts, after: [NONE; 2], ready: self.now };
        for (after, ts) in upload.after.iter_mut().zip([ts, from]) {
            if ts != NONE && self.downloading == ts {
                upload.ready = upload.ready.max(self.download_end);
            } else if self.is_downloading(ts) {
                *after = ts;
            }
        }
        self.uploads.push(upload);
        self.pass(problem, self.now);
    }

    fn wait_for_download(&mut self, problem: &Problem, ts: u8) {
        while self.is_downloading(ts) {
            self.pass(problem, self.download_end);
        }
    }

    fn wait_for_upload(&mut self, problem: &Problem, ts: u8) {
        loop {
            if self.uploading == ts {
                return self.pass(problem, self.upload_end);
            }
            if !self.uploads.all().iter().any(|upload| upload.ts == ts) {
                return;
            }
            let download = Some(self.download_end).filter(|_| self.downloads.len > 0);
            let events = [download, self.upload_begin()];
            self.pass(problem, events.into_iter().flatten().min().unwrap());
        }
    }

    /// The slots from which to choose one. Nothing is lost with a free one.
    fn slots(&self, problem: &Problem) -> impl Iterator<Item = Slot> {
        let used = self.stack.all().iter().filter(|(_, place)| place.has_slot()).count();
        let is_free = used + (self.left.len as usize) < problem.cache as usize;
        let (stack, left) = (self.stack, self.left.len as usize);
        let may_leave = move |&k: &usize| stack.items[k].1 == Place::Both;
        let others = (0..left).map(Slot::Left);
        let others = others.chain((0..stack.len as usize).filter(may_leave).map(Slot::Of));
        is_free.then_some(Slot::Free).into_iter().chain(others.filter(move |_| !is_free))
    }

    /// Takes a slot. Returns the snapshot whose download has to end first, or [`NONE`].
    fn take_slot(&mut self, slot: Slot) -> u8 {
        match slot {
            Slot::Free => NONE,
            Slot::Left(k) => self.left.remove(k, NONE),
            Slot::Of(k) => {
                self.stack.items[k].1 = Place::Host;
                self.stack.items[k].0
            }
        }
    }

    /// Takes each slot on the host from which to choose one.
    fn with_host_slot(&self, problem: &Problem, mut each: impl FnMut(Run)) {
        let used = self.stack.all().iter().filter(|(_, place)| place.is_on_host()).count();
        if used < problem.host as usize {
            return each(*self);
        }
        for (k, &(ts, place)) in self.stack.all().iter().enumerate() {
            if place == Place::Both && !self.is_downloading(ts) {
                let mut run = *self;
                run.stack.items[k].1 = Place::Device;
                each(run);
            }
        }
    }

    /// Calls `each` for every run that goes on from here by one action or the issue of one upload.
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
                if self.stack.items[k].1 == Place::Host {
                    for slot in self.slots(problem) {
                        let mut run = *self;
                        run.issue_upload(problem, k, slot);
                        each(run);
                    }
                }
            }
        }
    }

    fn save(&self, problem: &Problem, each: &mut impl FnMut(Run)) {
        for slot in self.slots(problem) {
            let mut run = *self;
            let from = run.take_slot(slot);
            run.wait_for_download(problem, from);
            run.pass(problem, run.now + problem.copy);
            run.is_fresh = true;
            run.with_host_slot(problem, |mut run| {
                run.stack.push((run.live, Place::Both));
                run.issue_download(problem, run.live);
                each(run);
            });
            run.stack.push((run.live, Place::Device));
            each(run);
        }
        self.with_host_slot(problem, |mut run| {
            run.download_end = run.download_end.max(run.now) + problem.link;
            run.downloading = NONE;
            run.pass(problem, run.download_end);
            run.stack.push((run.live, Place::Host));
            run.is_fresh = true;
            each(run);
        });
    }

    fn restore(&self, problem: &Problem, each: &mut impl FnMut(Run)) {
        let k = self.stack.len as usize - 1;
        let (ts, place) = self.stack.items[k];
        let mut end = |mut run: Run, copy: i32| {
            run.pass(problem, run.now + copy);
            (run.live, run.is_fresh) = (ts, true);
            if ts == run.next {
                run.stack.remove(k, (NONE, Place::Device));
                // A download that no upload follows is of no use.
                if run.is_downloading(ts) {
                    return;
                }
            }
            each(run);
        };
        let awaited = |mut run: Run| {
            run.wait_for_upload(problem, ts);
            run.stack.items[k].1 = Place::Both;
            run
        };
        match place {
            Place::Device | Place::Both => end(*self, problem.copy),
            Place::Arriving => end(awaited(*self), problem.copy),
            Place::Host => {
                for slot in self.slots(problem) {
                    let mut run = *self;
                    run.issue_upload(problem, k, slot);
                    end(awaited(run), problem.copy);
                }
                let mut run = *self;
                run.wait_for_download(problem, ts);
                run.upload_end = run.upload_end.max(run.now) + problem.link;
                run.uploading = NONE;
                run.pass(problem, run.upload_end);
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

/// Returns the shortest time of a problem in units; `None` if its proof takes more than `most` runs
/// that are followed.
pub fn optimum(problem: &Problem, most: usize) -> Option<i32> {
    const LINK: [f64; 7] = [0.0, 0.03, 0.07, 0.12, 0.2, 0.3, 0.4];
    const SLOTS: [f64; 6] = [0.0, 0.1, 0.2, 0.3, 0.45, 0.6];
    /// How many bounds are used: those with the largest values for the whole problem.
    const BOUNDS: usize = 6;
    let begin = Run::begin(problem);
    let pairs = LINK.into_iter().flat_map(|up| LINK.map(|down| [up, down]));
    let weights = pairs.flat_map(|[up, down]| SLOTS.map(|slots| [up, down, slots]));
    let weights = weights.filter(|weights| weights.iter().sum::<f64>() < 0.95);
    let mut bounds: Vec<Bound> = weights.map(|weights| Bound::new(problem, weights)).collect();
    bounds.sort_by(|a, b| b.of_run(&begin).total_cmp(&a.of_run(&begin)));
    bounds.truncate(BOUNDS);
    // In fractions of a unit, rounded down: rounding errors make no bound too large.
    let of_run = |run: &Run| {
        let largest = bounds.iter().map(|bound| bound.of_run(run)).fold(0.0, f64::max);
        (largest * 64.0 - 1e-3) as i64
    };
    let mut best = i32::MAX;
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
