//! Lower bounds of the times of runs, for the exhaustive search: a dynamic program in which work,
//! transfers and slots have prices.

use crate::search::{Place, Problem, Run, DOWN, NONE, READ, STEP, UP, WRITE};

/// The least prices of all nested ways to reverse a range. A run takes at least as long as the stream
/// works, as the transfers of each lane take, and as long as it takes to use the slots on the device for
/// as long as they are used in all. The price is a weighted mean of these. The disk has any number of slots.
pub struct Bound {
    lanes: [f64; 4],
    slots: f64,
    cache: usize,
    host: usize,
    has_disk: bool,
    problem: Problem,
    len: usize,
    /// By the place of the base; then by free slots on the device and in host memory, and by length.
    prices: Vec<f64>,
}

/// Places of a base: `FETCHED` is live and comes from host memory, `CAME` from disk, `LIVE` is not stored.
const DEVICE: usize = 0;
const HOST: usize = 1;
const BOTH: usize = 2;
const DISK: usize = 3;
const KEPT: usize = 4;
const FETCHED: usize = 5;
const CAME: usize = 6;
const LIVE: usize = 7;

fn has_device(kind: usize) -> bool {
    matches!(kind, DEVICE | BOTH | KEPT)
}

fn has_host(kind: usize) -> bool {
    matches!(kind, HOST | BOTH)
}

/// The place of a base after it was restored from this place.
fn lower(kind: usize) -> usize {
    match kind {
        HOST => FETCHED,
        DISK => CAME,
        kind => kind,
    }
}

impl Bound {
    /// Computes the prices with the weights of the lanes and of the slots.
    pub fn new(problem: &Problem, lanes: [f64; 4], slots: f64) -> Self {
        let (cache, host) = (problem.cache as usize, problem.host as usize);
        let len = problem.steps as usize + 1;
        let mut bound = Bound {
            lanes,
            slots,
            cache,
            host,
            has_disk: problem.disk > 0,
            problem: *problem,
            len,
            prices: vec![f64::INFINITY; (LIVE + 1) * (cache + 1) * (host + 1) * len],
        };
        let free: Vec<_> = (0..=cache).flat_map(|c| (0..=host).map(move |h| (c, h))).collect();
        for len in 1..=problem.steps as usize {
            for &(c, h) in &free {
                for kind in [DEVICE, HOST, BOTH, DISK, KEPT] {
                    let price = bound.split(kind, c, h, len);
                    bound.set(kind, c, h, len, price);
                }
            }
            for &(c, h) in &free {
                let [one, other] = [bound.of(HOST, c + 1, h, len), bound.of(DEVICE, c, h + 1, len)];
                let both = bound.of(BOTH, c, h, len).min(one).min(other);
                let kept = bound.of(KEPT, c, h, len).min(bound.of(DISK, c + 1, h, len));
                bound.set(BOTH, c, h, len, both);
                bound.set(KEPT, c, h, len, kept);
            }
            for &(c, h) in &free {
                let less = |free: usize| free.wrapping_sub(1);
                let fetched = bound
                    .of(HOST, c, h, len)
                    .min(bound.of(BOTH, less(c), h, len))
                    .min(bound.of(DEVICE, less(c), h + 1, len));
                let came = bound
                    .of(DISK, c, h, len)
                    .min(bound.of(KEPT, less(c), h, len))
                    .min(bound.of(HOST, c, less(h), len))
                    .min(bound.of(BOTH, less(c), less(h), len));
                bound.set(FETCHED, c, h, len, fetched);
                bound.set(CAME, c, h, len, came);
                let price = if len == 1 { bound.work(c, STEP) } else { bound.live(c, h, len) };
                bound.set(LIVE, c, h, len, price);
            }
        }
        bound
    }

    fn at(&self, kind: usize, c: usize, h: usize, len: usize) -> usize {
        ((kind * (self.cache + 1) + c) * (self.host + 1) + h) * self.len + len
    }

    fn of(&self, kind: usize, c: usize, h: usize, len: usize) -> f64 {
        if c > self.cache || h > self.host {
            return f64::INFINITY;
        }
        self.prices[self.at(kind, c, h, len)]
    }

    fn set(&mut self, kind: usize, c: usize, h: usize, len: usize, price: f64) {
        let at = self.at(kind, c, h, len);
        self.prices[at] = price;
    }

    /// The price of work of the stream while `c` slots are free.
    fn work(&self, c: usize, units: i32) -> f64 {
        f64::from(units) * self.stream(c)
    }

    fn stream(&self, c: usize) -> f64 {
        1.0 - self.lanes.iter().sum::<f64>() - self.slots * c as f64 / self.cache as f64
    }

    /// The price of a transfer of a lane.
    fn moving(&self, lane: usize) -> f64 {
        self.lanes[lane] * f64::from(self.problem.of_lane(lane))
    }

    /// The price of an access to host or disk without that of the lanes: a copy through a slot, or a
    /// direct transfer.
    fn through(&self, c: usize) -> f64 {
        let link = f64::from(self.problem.link);
        let direct = self.stream(c) * link;
        if c == 0 {
            return direct;
        }
        direct.min(self.copying(c - 1) + self.slots * link / self.cache as f64)
    }

    fn copying(&self, c: usize) -> f64 {
        self.stream(c) * f64::from(self.problem.copy)
    }

    fn restoring(&self, kind: usize, c: usize) -> f64 {
        match kind {
            HOST => self.through(c) + self.moving(UP),
            DISK => self.through(c) + self.moving(UP) + self.moving(READ),
            _ => self.copying(c),
        }
    }

    fn split(&self, kind: usize, c: usize, h: usize, len: usize) -> f64 {
        // The base itself takes slots.
        let fits = (!has_device(kind) || c < self.cache) && (!has_host(kind) || h < self.host);
        if !fits || (matches!(kind, DISK | KEPT) && !self.has_disk) {
            return f64::INFINITY;
        }
        if len == 1 {
            // The slots of the base are free again.
            return self.work(if has_device(kind) { c + 1 } else { c }, STEP);
        }
        let step = self.work(c, STEP);
        let price = |j: usize| {
            j as f64 * step + self.of(LIVE, c, h, len - j) + self.of(lower(kind), c, h, j)
        };
        self.restoring(kind, c) + (1..len).map(price).fold(f64::INFINITY, f64::min)
    }

    fn live(&self, c: usize, h: usize, len: usize) -> f64 {
        let down = self.moving(DOWN);
        let mut least = self.through(c)
            + down
            + (self.moving(WRITE) + self.of(DISK, c, h, len)).min(self.of(
                HOST,
                c,
                h.wrapping_sub(1),
                len,
            ));
        if c > 0 {
            let stored = self
                .of(DEVICE, c - 1, h, len)
                .min(down + self.of(BOTH, c - 1, h.wrapping_sub(1), len))
                .min(down + self.moving(WRITE) + self.of(KEPT, c - 1, h, len));
            least = least.min(self.copying(c - 1) + stored);
        }
        least
    }

    /// The least price of what is left of a run, from the `k`-th snapshot of the stack on, with free
    /// slots beside those of the snapshots below. A snapshot may leave one of two places at once.
    fn rest(&self, run: &Run, k: usize, c: usize, h: usize) -> f64 {
        let stack = run.stack.all();
        let Some(&(ts, place)) = stack.get(k) else {
            // Nothing is stored: u(0) is live.
            return self.of(LIVE, c, h, usize::from(run.next) + 1);
        };
        let above = stack.get(k + 1).map(|&(above, _)| above);
        let price = |kind: usize, c: usize, h: usize| {
            // The states from this snapshot on, up to the next one.
            let restored = |end: u8| {
                self.restoring(kind, c) + self.of(lower(kind), c, h, usize::from(end - ts))
            };
            match above {
                Some(above) => restored(above) + self.rest(run, k + 1, c, h),
                None if run.live == NONE => restored(run.next + 1),
                None if run.live == ts => self.of(kind, c, h, usize::from(run.next + 1 - ts)),
                // The run may save the live state, or a later one.
                None => (run.live..=run.next)
                    .map(|end| {
                        self.work(c, i32::from(end - run.live) * STEP)
                            + self.of(LIVE, c, h, usize::from(run.next + 1 - end))
                            + restored(end)
                    })
                    .fold(f64::INFINITY, f64::min),
            }
        };
        match place {
            Place::Device => price(DEVICE, c - 1, h),
            Place::Host => price(HOST, c, h - 1),
            Place::Arriving => price(BOTH, c - 1, h - 1).min(price(DEVICE, c - 1, h)),
            Place::Both => {
                price(BOTH, c - 1, h - 1).min(price(DEVICE, c - 1, h)).min(price(HOST, c, h - 1))
            }
            Place::Disk => price(DISK, c, h),
            Place::Coming => price(KEPT, c - 1, h),
            Place::Kept => price(KEPT, c - 1, h).min(price(DISK, c, h)),
        }
    }

    /// A time before which the run does not end.
    pub fn of_run(&self, run: &Run) -> f64 {
        let mut ends = [UP, DOWN, READ, WRITE].map(|lane| {
            let jobs = i32::from(run.lanes[lane].jobs.len) * self.problem.of_lane(lane);
            f64::from(run.lanes[lane].end.max(run.now) + jobs)
        });
        if run.live != NONE && usize::from(run.next) + 2 == self.len {
            // An upload that ends before the forward sweep does takes a slot until then, and a read takes
            // one there or in host memory.
            let sweep = f64::from(run.now + i32::from(run.next - run.live) * STEP);
            let after = |lane: usize, slots: usize| {
                sweep - f64::from(self.problem.of_lane(lane)) * slots as f64
            };
            ends[UP] = ends[UP].max(after(UP, self.cache));
            ends[READ] = ends[READ].max(after(READ, self.cache + self.host));
        }
        (1.0 - self.lanes.iter().sum::<f64>()) * f64::from(run.now)
            + self.rest(run, 0, self.cache, self.host)
            + ends.iter().zip(self.lanes).map(|(end, weight)| end * weight).sum::<f64>()
    }
}
