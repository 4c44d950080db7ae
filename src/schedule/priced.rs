//! The cheapest nested schedule where saves, restores and transfers have prices: a dynamic program
//! over all nested schedules with a number of slots on the device and a number of slots on the host.
//!
//! Source: Aupy, Herrmann, Hovland & Robert, "Optimal multistage algorithm for adjoint computation",
//! SIAM J. Sci. Comput. 38 (2016), and H-Revolve, ACM TOMS 46 (2020). There a snapshot has one place
//! for its whole life. Here a snapshot may also be written to the host when the reversal of its
//! range has begun already, be kept in both places, and stay on the device after it was fetched.
//!
//! The tables have 20 bytes for each number of free slots and each length of a range, and the time
//! is quadratic in the number of steps. All numbers are integers, so that every machine finds the
//! same schedule.

use super::{Action, Kind};
use crate::error::Result;
use crate::fallible_vec::{self, filled};

/// Units of a price in one forward step.
pub const UNIT: f64 = 256.0;

/// A cost that nothing reaches: the sum of three such costs is no overflow.
const NEVER: i32 = 1 << 29;

/// The most bytes of the tables.
const MOST_BYTES: u64 = 1 << 29;

/// Prices in forward steps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prices {
    /// A SAVE.
    pub save: f64,
    /// A RESTORE.
    pub restore: f64,
    /// A transfer from host to device.
    pub upload: f64,
    /// A transfer from device to host.
    pub download: f64,
}

/// Where the snapshot at the start of a range is. `c` slots on the device and `h` slots on the host
/// are free beside those of this snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// The state is live and not stored.
    Live,
    Device,
    Host,
    Both,
}

/// Where a base is, and the free slots on the device and on the host beside it.
type Place = (Base, usize, usize);

/// The least costs, in units, of reversing ranges: for each number of free slots, the costs by length.
struct Table {
    /// Costs of ranges whose base is stored on the device.
    device: Vec<i32>,
    /// Costs of ranges whose base is stored on the host.
    host: Vec<i32>,
    /// Costs of ranges whose base is stored in both places.
    both: Vec<i32>,
    /// Costs of ranges whose base has just been fetched from the host and is live: the snapshot may
    /// stay where it is, be kept on the device as well, or leave the host.
    fetched: Vec<i32>,
    /// Costs of ranges whose base is live and not stored, the longest range first.
    live: Vec<i32>,
}

/// The least costs of all ranges.
pub struct Priced {
    steps: usize,
    cache: usize,
    host: usize,
    save: i32,
    restore: i32,
    upload: i32,
    download: i32,
    tables: Vec<Table>,
}

fn units(price: f64) -> i32 {
    (price * UNIT).clamp(0.0, f64::from(NEVER)) as i32
}

/// Lengths of ranges whose costs are computed together. The tables are larger than the caches of a
/// core, and so each cost is read once for all lengths of a block.
const BLOCK: usize = 4;

/// The least sum of an advance by j steps, `upper` of the rest and `lower` of the first j states,
/// over all j from `first` on, as many as `lower` has. `upper` begins with the rest for j = `first`.
fn least(upper: &[i32], lower: &[i32], first: usize) -> i32 {
    least_of_block([upper], lower, first)[0]
}

/// As `least`, for each of several `upper`.
fn least_of_block<const N: usize>(upper: [&[i32]; N], lower: &[i32], first: usize) -> [i32; N] {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { least_avx2(upper, lower, first) };
    }
    least_of(upper, lower, first)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn least_avx2<const N: usize>(upper: [&[i32]; N], lower: &[i32], first: usize) -> [i32; N] {
    least_of(upper, lower, first)
}

#[inline(always)]
fn least_of<const N: usize>(upper: [&[i32]; N], lower: &[i32], first: usize) -> [i32; N] {
    // No sum overflows; a check for it in every term would keep the compiler from using vectors.
    let upper = upper.map(|upper| &upper[..lower.len()]);
    let mut least = [NEVER; N];
    let mut advance = first as i32 * UNIT as i32;
    for (i, lower) in lower.iter().enumerate() {
        let lower = lower.wrapping_add(advance);
        advance = advance.wrapping_add(UNIT as i32);
        for (least, upper) in least.iter_mut().zip(&upper) {
            *least = lower.wrapping_add(upper[i]).min(*least);
        }
    }
    least
}

/// For the lengths of a block, the least sums of a table's ranges over a part of all advances: with
/// the base on the device, on the host and in both places.
type Sums = [[i32; BLOCK]; 3];

impl Priced {
    /// Computes the costs of all ranges of at most `steps` states, `cache` device slots and `host`
    /// host slots. Prices are rounded down to units, so that the cost is a lower bound. Returns
    /// `None` if the tables would take more than 512 MiB, or costs would take more than 31 bits.
    pub fn new(steps: u32, cache: u32, host: u32, prices: Prices) -> Result<Option<Self>> {
        let slots = (u64::from(cache) + 1).saturating_mul(u64::from(host) + 1);
        let bytes = slots.saturating_mul((u64::from(steps) + 2) * 20);
        if bytes > MOST_BYTES || u64::from(steps) > NEVER as u64 / UNIT as u64 / 64 {
            return Ok(None);
        }
        let (steps, cache, host) = (steps as usize, cache as usize, host as usize);
        let mut tables = Vec::new();
        for _ in 0..slots {
            let mut table = Table {
                device: filled(NEVER, steps + 1)?,
                host: filled(NEVER, steps + 1)?,
                both: filled(NEVER, steps + 1)?,
                fetched: filled(NEVER, steps + 1)?,
                live: filled(NEVER, steps + 1)?,
            };
            let at = steps - 1;
            (table.device[1], table.host[1], table.both[1]) = (0, 0, 0);
            (table.fetched[1], table.live[at]) = (0, 0);
            fallible_vec::push(&mut tables, table)?;
        }
        let (save, restore) = (units(prices.save), units(prices.restore));
        let (upload, download) = (units(prices.upload), units(prices.download));
        let mut priced = Priced { steps, cache, host, save, restore, upload, download, tables };
        let mut sums: Vec<Sums> = filled([[NEVER; BLOCK]; 3], priced.tables.len())?;
        for first in (2..=steps).step_by(BLOCK) {
            priced.begin_block(first, &mut sums);
            for len in first..(first + BLOCK).min(steps + 1) {
                priced.extend(len, first, &sums);
            }
        }
        Ok(Some(priced))
    }

    fn at(&self, c: usize, h: usize) -> &Table {
        &self.tables[c * (self.host + 1) + h]
    }

    fn at_mut(&mut self, c: usize, h: usize) -> &mut Table {
        &mut self.tables[c * (self.host + 1) + h]
    }

    /// The costs of live ranges of len-1, len-2, ..., 1 states.
    fn rests(&self, c: usize, h: usize, len: usize) -> &[i32] {
        &self.at(c, h).live[self.steps - len + 1..self.steps]
    }

    /// Computes the sums of the block of lengths that begins with `first`, over the advances for which
    /// the costs of both parts are known for all lengths of the block.
    fn begin_block(&self, first: usize, sums: &mut [Sums]) {
        let known = BLOCK..first;
        for (k, (table, sums)) in self.tables.iter().zip(sums).enumerate() {
            *sums = [[NEVER; BLOCK]; 3];
            if known.is_empty() {
                continue;
            }
            // The rest of a range of `first + d` states after an advance by `BLOCK` states.
            let upper = std::array::from_fn(|d| {
                let len = (first + d).min(self.steps);
                &table.live[self.steps + BLOCK - len..]
            });
            let (has_device, has_host) = self.has_base(k / (self.host + 1), k % (self.host + 1));
            let lower = [
                (has_device, &table.device),
                (has_host, &table.fetched),
                (has_device && has_host, &table.both),
            ];
            for (sums, (is_there, lower)) in sums.iter_mut().zip(lower) {
                if is_there {
                    *sums = least_of_block(upper, &lower[known.clone()], BLOCK);
                }
            }
        }
    }

    /// Whether a base may take a slot on the device, or on the host, if these numbers of slots are free
    /// beside it.
    fn has_base(&self, c: usize, h: usize) -> (bool, bool) {
        (c < self.cache, h < self.host)
    }

    /// Computes the costs of ranges of `len` states from those of shorter ranges. `sums` has the sums of
    /// the block that begins with `first`.
    fn extend(&mut self, len: usize, first: usize, sums: &[Sums]) {
        let (cache, host, rests) = (self.cache, self.host, self.steps - len + 1);
        let slots = move || (0..=cache).flat_map(move |c| (0..=host).map(move |h| (c, h)));
        let (restore, upload) = (self.restore, self.upload);
        for (((c, h), table), sums) in slots().zip(&mut self.tables).zip(sums) {
            let (has_device, has_host) = (c < cache, h < host);
            let rests = &table.live[rests..];
            let cost = |is_there: bool, kind: usize, lower: &[i32], price: i32| {
                if !is_there {
                    return NEVER;
                }
                let mut least = sums[kind][len - first];
                // The short advances and the long ones.
                for advances in [1..BLOCK.min(len), first.max(BLOCK)..len] {
                    for j in advances {
                        least = least.min(rests[j - 1] + lower[j] + j as i32 * UNIT as i32);
                    }
                }
                (least + price).min(NEVER)
            };
            let device = cost(has_device, 0, &table.device, restore);
            let host = cost(has_host, 1, &table.fetched, restore.saturating_add(upload));
            let both = cost(has_device && has_host, 2, &table.both, restore);
            (table.device[len], table.host[len], table.both[len]) = (device, host, both);
        }
        for (c, h) in slots() {
            if c < self.cache && h < self.host {
                let dropped = self.at(c + 1, h).host[len].min(self.at(c, h + 1).device[len]);
                let both = &mut self.at_mut(c, h).both[len];
                *both = dropped.min(*both);
            }
        }
        for (c, h) in slots() {
            if c < self.cache && h > 0 {
                let late = self.at(c, h - 1).both[len].saturating_add(self.download);
                let device = &mut self.at_mut(c, h).device[len];
                *device = late.min(*device);
            }
        }
        let end = self.steps - len;
        for (c, h) in slots() {
            let least = |costs: [i32; 3]| costs.into_iter().fold(NEVER, i32::min);
            let live = least(self.costs(self.stores(c, h), len));
            let fetched = least(self.costs(self.keeps(c, h), len));
            let table = self.at_mut(c, h);
            (table.live[end], table.fetched[len]) = (live, fetched);
        }
    }

    /// Where a live base is stored, with the free slots afterwards and the price of storing.
    #[inline]
    fn stores(&self, c: usize, h: usize) -> [Option<(Place, i32)>; 3] {
        let written = self.save.saturating_add(self.download);
        [
            (c > 0).then(|| ((Base::Device, c - 1, h), self.save)),
            (h > 0).then(|| ((Base::Host, c, h - 1), written)),
            (c > 0 && h > 0).then(|| ((Base::Both, c - 1, h - 1), written)),
        ]
    }

    /// Where a base that has just been fetched from the host may be from then on.
    #[inline]
    fn keeps(&self, c: usize, h: usize) -> [Option<(Place, i32)>; 3] {
        let is_on_host = h < self.host;
        [
            is_on_host.then_some(((Base::Host, c, h), 0)),
            (is_on_host && c > 0).then(|| ((Base::Both, c - 1, h), 0)),
            (is_on_host && c > 0).then(|| ((Base::Device, c - 1, h + 1), 0)),
        ]
    }

    #[inline]
    fn cost_of(&self, (base, c, h): Place, len: usize) -> i32 {
        let table = self.at(c, h);
        match base {
            Base::Live => table.live[self.steps - len],
            Base::Device => table.device[len],
            Base::Host => table.host[len],
            Base::Both => table.both[len],
        }
    }

    #[inline]
    fn costs(&self, places: [Option<(Place, i32)>; 3], len: usize) -> [i32; 3] {
        let cost = |(place, price)| self.cost_of(place, len).saturating_add(price);
        places.map(|place| place.map_or(NEVER, cost))
    }

    fn cheapest(&self, places: [Option<(Place, i32)>; 3], len: usize) -> Option<Place> {
        let costs = self.costs(places, len).into_iter().zip(places);
        let known = costs.filter(|(cost, _)| *cost < NEVER);
        known.min_by_key(|(cost, _)| *cost).and_then(|(_, place)| Some(place?.0))
    }

    /// The least cost of forward steps, saves, restores and transfers, in forward steps; `None` if no
    /// schedule with these slots exists or its cost does not fit the tables.
    pub fn cost(&self) -> Option<f64> {
        let cost = self.cost_of((Base::Live, self.cache, self.host), self.steps);
        (cost < NEVER).then(|| f64::from(cost) / UNIT)
    }

    /// The actions of a cheapest schedule, without flags; `None` if there is none.
    pub fn actions(&self) -> Result<Option<Vec<Action>>> {
        let mut actions = Vec::new();
        if self.cost().is_none() {
            return Ok(None);
        }
        let mut live = 0;
        let mut ranges = Vec::from([((Base::Live, self.cache, self.host), 0u32, self.steps)]);
        while let Some((mut place, start, len)) = ranges.pop() {
            let (base, c, h) = place;
            let mut act =
                |kind, ts| fallible_vec::push(&mut actions, Action { kind, ts, flags: 0 });
            if base != Base::Live && live != start {
                act(Kind::Restore, start)?;
            }
            if len == 1 {
                act(Kind::Backward, start)?;
                live = u32::MAX;
                continue;
            }
            if base == Base::Live {
                act(Kind::Save, start)?;
                match self.cheapest(self.stores(c, h), len) {
                    Some(stored) => place = stored,
                    None => return Ok(None),
                }
            }
            let (j, upper, lower) = self.split(place, len);
            for ts in start + 1..=start + j {
                act(Kind::Forward, ts)?;
            }
            live = start + j;
            fallible_vec::push(&mut ranges, (lower, start, j as usize))?;
            fallible_vec::push(&mut ranges, (upper, live, len - j as usize))?;
        }
        fallible_vec::push(&mut actions, Action { kind: Kind::Terminate, ts: 0, flags: 0 })?;
        Ok(Some(actions))
    }

    /// Returns the best first advance of a stored range, and the places afterwards: of the base of the
    /// rest, which is live, and of the range's own base. Moves the range's base first if that is cheaper.
    fn split(&self, (mut base, mut c, mut h): Place, len: usize) -> (u32, Place, Place) {
        if base == Base::Device && h > 0 {
            let late = self.at(c, h - 1).both[len].saturating_add(self.download);
            if late == self.at(c, h).device[len] && late < self.split_cost(base, c, h, len) {
                (base, h) = (Base::Both, h - 1);
            }
        }
        if base == Base::Both {
            let cost = self.at(c, h).both[len];
            if self.split_cost(base, c, h, len) > cost {
                if self.at(c + 1, h).host[len] == cost {
                    (base, c) = (Base::Host, c + 1);
                } else {
                    (base, h) = (Base::Device, h + 1);
                }
            }
        }
        let cost = self.split_cost(base, c, h, len);
        let price = self.price(base);
        let (rests, lower) = (self.rests(c, h, len), self.lower(base, c, h));
        let sum = |i: usize| rests[i] + lower[i + 1] + (i as i32 + 1) * UNIT as i32 + price;
        let j = (0..len - 1).find(|&i| sum(i) == cost).unwrap_or(0) + 1;
        let moved = match base {
            Base::Host if j > 1 => self.cheapest(self.keeps(c, h), j),
            _ => None,
        };
        (j as u32, (Base::Live, c, h), moved.unwrap_or((base, c, h)))
    }

    fn price(&self, base: Base) -> i32 {
        self.restore.saturating_add(if base == Base::Host { self.upload } else { 0 })
    }

    fn lower(&self, base: Base, c: usize, h: usize) -> &[i32] {
        let table = self.at(c, h);
        match base {
            Base::Device => &table.device,
            Base::Both => &table.both,
            Base::Host | Base::Live => &table.fetched,
        }
    }

    /// The cost of a stored range whose base stays where it is until the first advance is made.
    fn split_cost(&self, base: Base, c: usize, h: usize, len: usize) -> i32 {
        let lower = &self.lower(base, c, h)[1..len];
        (least(self.rests(c, h, len), lower, 1) + self.price(base)).min(NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{forward_steps, writes, Schedule, Trace};
    use std::sync::Arc;

    fn priced(steps: u32, cache: u32, host: u32, prices: Prices) -> Option<Priced> {
        Priced::new(steps, cache, host, prices).unwrap()
    }

    fn counts(priced: &Priced, steps: u32) -> crate::schedule::Summary {
        let actions = priced.actions().unwrap().unwrap();
        let schedule = Schedule::trace(Arc::new(Trace::new(actions, Some(steps)).unwrap()));
        crate::schedule::validate(schedule.actions(), steps, None).unwrap()
    }

    /// The costs that are computed in blocks are those of each length by itself.
    #[test]
    fn blocks_change_nothing() {
        let prices = Prices { save: 0.3, restore: 0.4, upload: 1.7, download: 0.9 };
        for (cache, host) in [(0, 3), (1, 0), (1, 2), (3, 2)] {
            let priced = priced(43, cache, host, prices).unwrap();
            for (c, h) in
                (0..=cache as usize).flat_map(|c| (0..=host as usize).map(move |h| (c, h)))
            {
                let table = priced.at(c, h);
                for len in 2..=43 {
                    if h < host as usize {
                        assert_eq!(
                            table.host[len],
                            priced.split_cost(Base::Host, c, h, len),
                            "{len}"
                        );
                    }
                    if c < cache as usize && h == 0 {
                        let alone = priced.split_cost(Base::Device, c, h, len);
                        assert_eq!(table.device[len], alone, "{c} slots, {len} states");
                    }
                }
            }
        }
    }

    /// Where transfers cost nothing, slots on the host are slots as good as others: the cheapest
    /// schedule is Revolve with all of them.
    #[test]
    fn without_prices_the_cheapest_schedule_is_revolve() {
        for (n, cache, host) in
            [(1, 1, 0), (2, 1, 0), (7, 2, 0), (40, 2, 3), (100, 1, 4), (60, 0, 5), (33, 3, 40)]
        {
            let priced = priced(n, cache, host, Prices::default()).unwrap();
            let least = forward_steps(n as u64, (cache + host) as u64);
            assert_eq!(priced.cost(), Some(least as f64), "n = {n}");
            assert_eq!(counts(&priced, n).forward_steps, least);
        }
        assert_eq!(priced(5, 0, 0, Prices::default()).unwrap().cost(), None);
        assert!(priced(1_000_000, 10, 100, Prices::default()).is_none());
    }

    /// With a price for saves and restores only, the cheapest schedule has as few forward steps and
    /// saves as Revolve if saves are much cheaper than steps.
    #[test]
    fn saves_are_counted() {
        let prices = Prices { save: 1.0 / 128.0, restore: 0.5, ..Prices::default() };
        for (n, slots) in [(10, 3), (37, 4), (90, 2)] {
            let priced = priced(n, slots, 0, prices).unwrap();
            let (steps, saves) =
                (forward_steps(n as u64, slots as u64), writes(n as u64, slots as u64));
            let cost = steps as f64 + saves as f64 / 128.0 + (n - 1) as f64 / 2.0;
            assert_eq!(priced.cost(), Some(cost));
            let counted = counts(&priced, n);
            assert_eq!((counted.forward_steps, counted.saves), (steps, saves));
        }
    }

    /// A dear link: snapshots on the host are kept for a few long advances.
    #[test]
    fn prices_shape_the_schedule() {
        let prices = |link: f64| Prices { save: 0.25, restore: 0.25, upload: link, download: link };
        let mut last = 0.0;
        for link in [0.0, 0.5, 1.0, 3.0, 10.0, 1000.0] {
            let priced = priced(80, 2, 4, prices(link)).unwrap();
            let cost = priced.cost().unwrap();
            assert!(cost >= last, "{link}: {cost}");
            last = cost;
            assert!(counts(&priced, 80).max_live <= 6);
        }
        // Nothing is worth a transfer any more.
        let device_only = priced(80, 2, 0, prices(0.0)).unwrap().cost().unwrap();
        assert_eq!(last, device_only);
    }
}
