//! Lower bounds of the times of runs, for the exhaustive search: a dynamic program in which work,
//! transfers and slots have prices.

use crate::search::{Place, Problem, Run, NONE, STEP};

/// The least prices of all nested ways to reverse a range. A run takes at least as long as the stream
/// works, as the uploads take, as the downloads take, and as long as it takes to use the slots on the
/// device for as long as they are used in all. The price is a weighted mean of the four.
pub struct Bound {
    up: f64,
    down: f64,
    slots: f64,
    cache: usize,
    host: usize,
    link: f64,
    copy: f64,
    len: usize,
    /// By the place of the base: on the device, on the host, both, just fetched, and not stored; then
    /// by free slots on the device and on the host, and by length.
    prices: Vec<f64>,
}

const FETCHED: usize = 3;
const LIVE: usize = 4;

impl Bound {
    /// Computes the prices with the weights of both directions of the link and of the slots.
    pub fn new(problem: &Problem, [up, down, slots]: [f64; 3]) -> Self {
        let (cache, host) = (problem.cache as usize, problem.host as usize);
        let len = problem.steps as usize + 1;
        let mut bound = Bound {
            up,
            down,
            slots,
            cache,
            host,
            link: problem.link.into(),
            copy: problem.copy.into(),
            len,
            prices: vec![f64::INFINITY; 5 * (cache + 1) * (host + 1) * len],
        };
        let free: Vec<_> = (0..=cache).flat_map(|c| (0..=host).map(move |h| (c, h))).collect();
        for len in 1..=problem.steps as usize {
            for &(c, h) in &free {
                for kind in [0, 1, 2] {
                    let price = bound.split(kind, c, h, len);
                    bound.set(kind, c, h, len, price);
                }
            }
            for &(c, h) in &free {
                let [one, other] = [bound.of(1, c + 1, h, len), bound.of(0, c, h + 1, len)];
                let price = bound.of(2, c, h, len).min(one).min(other);
                bound.set(2, c, h, len, price);
            }
            for &(c, h) in &free {
                let fetched = bound
                    .of(1, c, h, len)
                    .min(if c > 0 { bound.of(2, c - 1, h, len) } else { f64::INFINITY })
                    .min(if c > 0 { bound.of(0, c - 1, h + 1, len) } else { f64::INFINITY });
                bound.set(FETCHED, c, h, len, fetched);
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
        1.0 - self.up - self.down - self.slots * c as f64 / self.cache as f64
    }

    /// The price of an access to the host without that of the link: a copy through a slot, or a direct
    /// transfer.
    fn through(&self, c: usize) -> f64 {
        let direct = self.stream(c) * self.link;
        if c == 0 {
            return direct;
        }
        direct.min(self.stream(c - 1) * self.copy + self.slots * self.link / self.cache as f64)
    }

    fn restoring(&self, kind: usize, c: usize) -> f64 {
        match kind {
            1 => self.through(c) + self.up * self.link,
            _ => self.stream(c) * self.copy,
        }
    }

    fn split(&self, kind: usize, c: usize, h: usize, len: usize) -> f64 {
        // The base itself takes slots.
        let is_possible = (kind == 1 || c < self.cache) && (kind == 0 || h < self.host);
        if !is_possible {
            return f64::INFINITY;
        }
        if len == 1 {
            // The slots of the base are free again.
            return self.work(if kind == 1 { c } else { c + 1 }, STEP);
        }
        let lower = if kind == 1 { FETCHED } else { kind };
        let step = self.work(c, STEP);
        let price =
            |j: usize| j as f64 * step + self.of(LIVE, c, h, len - j) + self.of(lower, c, h, j);
        self.restoring(kind, c) + (1..len).map(price).fold(f64::INFINITY, f64::min)
    }

    fn live(&self, c: usize, h: usize, len: usize) -> f64 {
        let mut least = f64::INFINITY;
        let download = self.down * self.link;
        if h > 0 {
            least = self.through(c) + download + self.of(1, c, h - 1, len);
        }
        if c > 0 {
            let copy = self.stream(c - 1) * self.copy;
            least = least.min(copy + self.of(0, c - 1, h, len));
            if h > 0 {
                least = least.min(copy + download + self.of(2, c - 1, h - 1, len));
            }
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
            let lower = if kind == 1 { FETCHED } else { kind };
            // The states from this snapshot on, up to the next one.
            let restored =
                |end: u8| self.restoring(kind, c) + self.of(lower, c, h, usize::from(end - ts));
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
            Place::Device => price(0, c - 1, h),
            Place::Host => price(1, c, h - 1),
            Place::Arriving => price(2, c - 1, h - 1).min(price(0, c - 1, h)),
            Place::Both => price(2, c - 1, h - 1).min(price(0, c - 1, h)).min(price(1, c, h - 1)),
        }
    }

    /// A time before which the run does not end.
    pub fn of_run(&self, run: &Run) -> f64 {
        let uploads = f64::from(run.uploads.len) * self.link;
        let downloads = f64::from(run.downloads.len) * self.link;
        let mut upload = f64::from(run.upload_end.max(run.now)) + uploads;
        let download = f64::from(run.download_end.max(run.now)) + downloads;
        if run.live != NONE && usize::from(run.next) + 2 == self.len {
            // An upload that ends before the forward sweep does takes a slot until then.
            let sweep = f64::from(run.now + i32::from(run.next - run.live) * STEP);
            upload = upload.max(sweep - self.link * self.cache as f64);
        }
        (1.0 - self.up - self.down) * f64::from(run.now)
            + self.rest(run, 0, self.cache, self.host)
            + self.up * upload
            + self.down * download
    }
}
