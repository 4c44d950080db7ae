//! The cheapest nested schedule where saves, restores and transfers have prices: a dynamic program
//! over all nested schedules with a number of slots on the device, a number of slots in host memory
//! and, if there is a disk, as many slots there as are asked for.
//!
//! Source: Aupy, Herrmann, Hovland & Robert, "Optimal multistage algorithm for adjoint computation",
//! SIAM J. Sci. Comput. 38 (2016), and H-Revolve, ACM TOMS 46 (2020). There a snapshot has one place
//! for its whole life. Here a snapshot may also be written to the host when the reversal of its
//! range has begun already, be kept in both places, and stay on the device after it was fetched. A
//! snapshot that was written to disk stays there until it is read into a slot in host memory; it may be
//! read to the device any number of times instead.
//!
//! The tables have 20 bytes for each number of free slots and each length of a range, with a disk 32
//! bytes, and the time is quadratic in the number of steps. All numbers are integers, so that every
//! machine finds the same schedule.

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
    /// A read from disk and a write to disk; `None`: there is no disk.
    pub disk: Option<[f64; 2]>,
}

/// Where the snapshot at the start of a range is. `c` slots on the device and `h` slots on the host
/// are free beside those of this snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Device,
    Host,
    /// On the device and on the host.
    Both,
    Disk,
    /// On the device and on disk.
    Kept,
    /// The state is live and not stored.
    Live,
}

/// The places of a stored base; without a disk, the first `IN_MEMORY` of them.
const STORED: [Base; 5] = [Base::Device, Base::Host, Base::Both, Base::Disk, Base::Kept];
const IN_MEMORY: usize = 3;

impl Base {
    fn has_device(self) -> bool {
        matches!(self, Base::Device | Base::Both | Base::Kept)
    }

    fn has_host(self) -> bool {
        matches!(self, Base::Host | Base::Both)
    }

    /// Whether a stored base can take its slots if `free` slots on the device and on the host are free
    /// beside it, of `all`.
    fn fits(self, free: (usize, usize), all: (usize, usize)) -> bool {
        (!self.has_device() || free.0 < all.0) && (!self.has_host() || free.1 < all.1)
    }
}

/// Where a base is, and the free slots on the device and on the host beside it.
type Place = (Base, usize, usize);

/// The least costs, in units, of reversing ranges: for each number of free slots, the costs by length.
struct Table {
    /// Costs of ranges whose base is stored, in each of the places.
    stored: [Vec<i32>; STORED.len()],
    /// Costs of ranges whose base has just been fetched, from the host or from disk, and is live: the
    /// snapshot may stay where it is, be kept on the device as well, leave the host for the device, or
    /// have come from disk by way of a slot on the host and stay there.
    fetched: [Vec<i32>; 2],
    /// Costs of ranges whose base is live and not stored, the longest range first.
    live: Vec<i32>,
}

impl Table {
    /// Costs of the first states of a range after its base was restored from this place.
    fn lower(&self, base: Base) -> &[i32] {
        match base {
            Base::Host | Base::Live => &self.fetched[0],
            Base::Disk => &self.fetched[1],
            Base::Device | Base::Both | Base::Kept => &self.stored[base as usize],
        }
    }
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
    /// A read from disk, and a download that is written to disk.
    read: i32,
    to_disk: i32,
    /// The number of places that a stored base may have.
    places: usize,
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

// Iterators over `least` and `upper` are not always inlined here, which takes more than twice as long.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
fn least_of<const N: usize>(upper: [&[i32]; N], lower: &[i32], first: usize) -> [i32; N] {
    // No sum overflows; a check for it in every term would keep the compiler from using vectors.
    let upper = upper.map(|upper| &upper[..lower.len()]);
    let mut least = [NEVER; N];
    let mut advance = first as i32 * UNIT as i32;
    for i in 0..lower.len() {
        let lower = lower[i].wrapping_add(advance);
        advance = advance.wrapping_add(UNIT as i32);
        for k in 0..N {
            least[k] = lower.wrapping_add(upper[k][i]).min(least[k]);
        }
    }
    least
}

/// For the lengths of a block, the least sums of a table's ranges over a part of all advances, with
/// the base in each of the places.
type Sums<const PLACES: usize> = [[i32; BLOCK]; PLACES];

impl Priced {
    /// Computes the costs of all ranges of at most `steps` states, `cache` device slots and `host`
    /// host slots. Prices are rounded down to units, so that the cost is a lower bound. Returns
    /// `None` if the tables would take more than 512 MiB, or costs would take more than 31 bits.
    pub fn new(steps: u32, cache: u32, host: u32, prices: Prices) -> Result<Option<Self>> {
        let slots = (u64::from(cache) + 1).saturating_mul(u64::from(host) + 1);
        let places = if prices.disk.is_some() { STORED.len() } else { IN_MEMORY };
        // A table has costs of stored, of fetched and of live bases.
        let of_slots = [20, 32][usize::from(prices.disk.is_some())];
        let bytes = slots.saturating_mul((u64::from(steps) + 2) * of_slots);
        if bytes > MOST_BYTES || u64::from(steps) > NEVER as u64 / UNIT as u64 / 64 {
            return Ok(None);
        }
        let (steps, cache, host) = (steps as usize, cache as usize, host as usize);
        let mut tables = Vec::new();
        for _ in 0..slots {
            let costs = |is_there: bool| -> Result<Vec<i32>> {
                let mut costs = filled(NEVER, if is_there { steps + 1 } else { 0 })?;
                costs.get_mut(1).into_iter().for_each(|one| *one = 0);
                Ok(costs)
            };
            let mut table = Table {
                stored: Default::default(),
                fetched: Default::default(),
                live: filled(NEVER, steps + 1)?,
            };
            for (place, stored) in table.stored.iter_mut().enumerate() {
                *stored = costs(place < places)?;
            }
            table.fetched = [costs(true)?, costs(prices.disk.is_some())?];
            table.live[steps - 1] = 0;
            fallible_vec::push(&mut tables, table)?;
        }
        let (save, restore) = (units(prices.save), units(prices.restore));
        let (upload, download) = (units(prices.upload), units(prices.download));
        let [read, write] = prices.disk.unwrap_or_default().map(units);
        let to_disk = download.saturating_add(write).min(NEVER);
        let mut priced = Priced {
            steps,
            cache,
            host,
            save,
            restore,
            upload,
            download,
            read,
            to_disk,
            places,
            tables,
        };
        match places {
            IN_MEMORY => priced.fill::<IN_MEMORY>()?,
            _ => priced.fill::<{ STORED.len() }>()?,
        }
        Ok(Some(priced))
    }

    /// Computes all costs; a stored base has `PLACES` places.
    fn fill<const PLACES: usize>(&mut self) -> Result<()> {
        let mut sums: Vec<Sums<PLACES>> = filled([[NEVER; BLOCK]; PLACES], self.tables.len())?;
        for first in (2..=self.steps).step_by(BLOCK) {
            self.begin_block(first, &mut sums);
            for len in first..(first + BLOCK).min(self.steps + 1) {
                self.extend(len, first, &sums);
            }
        }
        Ok(())
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
    fn begin_block<const PLACES: usize>(&self, first: usize, sums: &mut [Sums<PLACES>]) {
        let known = BLOCK..first;
        for (k, (table, sums)) in self.tables.iter().zip(sums).enumerate() {
            *sums = [[NEVER; BLOCK]; PLACES];
            if known.is_empty() {
                continue;
            }
            // The rest of a range of `first + d` states after an advance by `BLOCK` states.
            let upper = std::array::from_fn(|d| {
                let len = (first + d).min(self.steps);
                &table.live[self.steps + BLOCK - len..]
            });
            let free = (k / (self.host + 1), k % (self.host + 1));
            for (base, sums) in STORED.into_iter().zip(sums) {
                if base.fits(free, (self.cache, self.host)) {
                    *sums = least_of_block(upper, &table.lower(base)[known.clone()], BLOCK);
                }
            }
        }
    }

    /// Computes the costs of ranges of `len` states from those of shorter ranges. `sums` has the sums of
    /// the block that begins with `first`.
    fn extend<const PLACES: usize>(&mut self, len: usize, first: usize, sums: &[Sums<PLACES>]) {
        let (cache, host, rests) = (self.cache, self.host, self.steps - len + 1);
        let slots = move || (0..=cache).flat_map(move |c| (0..=host).map(move |h| (c, h)));
        let prices = STORED.map(|base| self.price(base));
        for ((free, table), sums) in slots().zip(&mut self.tables).zip(sums) {
            for (base, price) in STORED.into_iter().zip(prices).take(PLACES) {
                if !base.fits(free, (cache, host)) {
                    continue;
                }
                let (rests, lower) = (&table.live[rests..], table.lower(base));
                let mut least = sums[base as usize][len - first];
                // The short advances and the long ones.
                for advances in [1..BLOCK.min(len), first.max(BLOCK)..len] {
                    for j in advances {
                        least = least.min(rests[j - 1] + lower[j] + j as i32 * UNIT as i32);
                    }
                }
                table.stored[base as usize][len] = least.saturating_add(price).min(NEVER);
            }
        }
        for (c, h) in slots() {
            for base in [Base::Both, Base::Kept].into_iter().take(PLACES - 2) {
                self.lessen((base, c, h), len, self.drops((base, c, h)));
            }
        }
        for (c, h) in slots() {
            self.lessen((Base::Device, c, h), len, self.writes(c, h));
        }
        let end = self.steps - len;
        for (c, h) in slots() {
            let least = |places: [Option<(Place, i32)>; 4]| {
                places.into_iter().fold(NEVER, |least, place| least.min(self.cost_with(place, len)))
            };
            let (live, fetched) = (least(self.stores(c, h)), least(self.keeps((Base::Host, c, h))));
            let came = (PLACES > IN_MEMORY).then(|| least(self.keeps((Base::Disk, c, h))));
            let table = self.at_mut(c, h);
            (table.live[end], table.fetched[0][len]) = (live, fetched);
            came.into_iter().for_each(|came| table.fetched[1][len] = came);
        }
    }

    /// Lowers the cost of a stored base to that of the base in another place.
    #[inline(always)]
    fn lessen(&mut self, (base, c, h): Place, len: usize, others: [Option<(Place, i32)>; 2]) {
        if others.iter().any(Option::is_some) {
            let [one, other] = others.map(|other| self.cost_with(other, len));
            let cost = &mut self.at_mut(c, h).stored[base as usize][len];
            *cost = one.min(other).min(*cost);
        }
    }

    /// Where a live base is stored, with the free slots afterwards and the price of storing.
    #[inline(always)]
    fn stores(&self, c: usize, h: usize) -> [Option<(Place, i32)>; 4] {
        let written = self.save.saturating_add(self.download);
        [
            (c > 0).then(|| ((Base::Device, c - 1, h), self.save)),
            (h > 0).then(|| ((Base::Host, c, h - 1), written)),
            (c > 0 && h > 0).then(|| ((Base::Both, c - 1, h - 1), written)),
            self.has_disk().then(|| ((Base::Disk, c, h), self.save.saturating_add(self.to_disk))),
        ]
    }

    /// Where a base that has just been fetched from the host or from disk may be from then on.
    #[inline(always)]
    fn keeps(&self, (base, c, h): Place) -> [Option<(Place, i32)>; 4] {
        let free = |place: Place| Some((place, 0));
        match base {
            Base::Disk if self.has_disk() => [
                free((Base::Disk, c, h)),
                (c > 0).then(|| ((Base::Kept, c - 1, h), 0)),
                (h > 0).then(|| ((Base::Host, c, h - 1), 0)),
                (c > 0 && h > 0).then(|| ((Base::Both, c - 1, h - 1), 0)),
            ],
            Base::Host if h < self.host => [
                free((Base::Host, c, h)),
                (c > 0).then(|| ((Base::Both, c - 1, h), 0)),
                (c > 0).then(|| ((Base::Device, c - 1, h + 1), 0)),
                None,
            ],
            _ => [None; 4],
        }
    }

    /// Where a base on the device may be after a late write.
    #[inline(always)]
    fn writes(&self, c: usize, h: usize) -> [Option<(Place, i32)>; 2] {
        let is_there = c < self.cache;
        [
            (is_there && h > 0).then(|| ((Base::Both, c, h - 1), self.download)),
            (is_there && self.has_disk()).then_some(((Base::Kept, c, h), self.to_disk)),
        ]
    }

    /// Where a base in two places may be after it has left one of them.
    #[inline(always)]
    fn drops(&self, (base, c, h): Place) -> [Option<(Place, i32)>; 2] {
        match base {
            Base::Both if c < self.cache && h < self.host => {
                [Some(((Base::Host, c + 1, h), 0)), Some(((Base::Device, c, h + 1), 0))]
            }
            Base::Kept if c < self.cache && self.has_disk() => {
                [Some(((Base::Disk, c + 1, h), 0)), None]
            }
            _ => [None; 2],
        }
    }

    /// Whether snapshots may lie on disk.
    #[inline(always)]
    fn has_disk(&self) -> bool {
        self.places > IN_MEMORY
    }

    #[inline(always)]
    fn cost_of(&self, (base, c, h): Place, len: usize) -> i32 {
        let table = self.at(c, h);
        match base {
            Base::Live => table.live[self.steps - len],
            base => table.stored[base as usize][len],
        }
    }

    #[inline(always)]
    fn cost_with(&self, place: Option<(Place, i32)>, len: usize) -> i32 {
        place.map_or(NEVER, |(place, price)| self.cost_of(place, len).saturating_add(price))
    }

    fn cheapest(&self, places: [Option<(Place, i32)>; 4], len: usize) -> Option<Place> {
        let cost = |place: &Option<(Place, i32)>| self.cost_with(*place, len);
        let known = places.into_iter().filter(|place| cost(place) < NEVER);
        known.min_by_key(cost).flatten().map(|(place, _)| place)
    }

    /// The least cost of forward steps, saves, restores and transfers, in forward steps; `None` if no
    /// schedule with these slots exists or its cost does not fit the tables.
    pub fn cost(&self) -> Option<f64> {
        self.cost_within(self.cache, self.host)
    }

    /// As `cost`, with no more than these slots on the device and on the host.
    fn cost_within(&self, cache: usize, host: usize) -> Option<f64> {
        let cost = self.cost_of((Base::Live, cache, host), self.steps);
        (cost < NEVER).then(|| f64::from(cost) / UNIT)
    }

    /// The actions of a cheapest schedule with at most `cache` slots on the device and `host` slots on the
    /// host, no more than the tables are for; without flags. `None` if there is none.
    pub fn actions(&self, cache: u32, host: u32) -> Result<Option<Vec<Action>>> {
        let mut actions = Vec::new();
        let (cache, host) = (self.cache.min(cache as usize), self.host.min(host as usize));
        if self.cost_within(cache, host).is_none() {
            return Ok(None);
        }
        let mut live = 0;
        let mut ranges = Vec::from([((Base::Live, cache, host), 0u32, self.steps)]);
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
    fn split(&self, mut place: Place, len: usize) -> (u32, Place, Place) {
        if place.0 == Base::Device {
            place = self.moved(place, self.writes(place.1, place.2), len);
        }
        place = self.moved(place, self.drops(place), len);
        let (base, c, h) = place;
        let (cost, price) = (self.split_cost(place, len), self.price(base));
        let (rests, lower) = (self.rests(c, h, len), self.at(c, h).lower(base));
        let sum = |i: usize| {
            (rests[i] + lower[i + 1] + (i as i32 + 1) * UNIT as i32).saturating_add(price)
        };
        let j = (0..len - 1).find(|&i| sum(i) == cost).unwrap_or(0) + 1;
        let kept = if j > 1 { self.cheapest(self.keeps(place), j) } else { None };
        (j as u32, (Base::Live, c, h), kept.unwrap_or(place))
    }

    /// The place in which a stored base is split: `place`, or the one of `others` that is cheaper.
    fn moved(&self, place: Place, others: [Option<(Place, i32)>; 2], len: usize) -> Place {
        let cost = self.cost_of(place, len);
        if self.split_cost(place, len) <= cost {
            return place;
        }
        let is_cheap = |other: &&Option<(Place, i32)>| self.cost_with(**other, len) == cost;
        let other = others.iter().find(is_cheap).or(others.iter().rfind(|other| other.is_some()));
        other.copied().flatten().map_or(place, |(place, _)| place)
    }

    fn price(&self, base: Base) -> i32 {
        let transfers = match base {
            Base::Host => self.upload,
            Base::Disk => self.upload.saturating_add(self.read),
            Base::Device | Base::Both | Base::Kept | Base::Live => 0,
        };
        self.restore.saturating_add(transfers)
    }

    /// The cost of a stored range whose base stays where it is until the first advance is made.
    fn split_cost(&self, (base, c, h): Place, len: usize) -> i32 {
        let lower = &self.at(c, h).lower(base)[1..len];
        least(self.rests(c, h, len), lower, 1).saturating_add(self.price(base)).min(NEVER)
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
        let actions = priced.actions(u32::MAX, u32::MAX).unwrap().unwrap();
        let schedule = Schedule::trace(Arc::new(Trace::new(actions, Some(steps)).unwrap()));
        crate::schedule::validate(schedule.actions(), steps, None).unwrap()
    }

    /// The costs that are computed in blocks are those of each length by itself.
    #[test]
    fn blocks_change_nothing() {
        for (cache, host, disk) in [
            (0, 3, None),
            (1, 0, None),
            (1, 2, Some([2.5, 1.5])),
            (3, 2, None),
            (2, 1, Some([0.3, 7.0])),
        ] {
            let prices = Prices { save: 0.3, restore: 0.4, upload: 1.7, download: 0.9, disk };
            let priced = priced(43, cache, host, prices).unwrap();
            let all = (cache as usize, host as usize);
            for (c, h) in (0..=all.0).flat_map(|c| (0..=all.1).map(move |h| (c, h))) {
                for base in STORED.into_iter().take(priced.places).filter(|b| b.fits((c, h), all)) {
                    for len in 2..=43 {
                        let place = (base, c, h);
                        let alone = priced.split_cost(place, len);
                        let others = match base {
                            Base::Device => priced.writes(c, h),
                            _ => priced.drops(place),
                        };
                        let least = others
                            .map(|o| priced.cost_with(o, len))
                            .into_iter()
                            .fold(alone, i32::min);
                        let cost = priced.cost_of(place, len);
                        // A base that has left the host is not written late at once.
                        let is_equal =
                            cost == least || base == Base::Both && cost >= least && cost <= alone;
                        assert!(is_equal, "{place:?}, {len} states: {cost} and {least}");
                    }
                }
            }
        }
    }

    /// A disk that costs nothing is as good as a host with a slot for each state, and one that is too dear
    /// is as good as none. The cost of fewer slots is that of tables for them, and the actions are, too.
    #[test]
    fn a_disk_is_a_host_with_all_slots() {
        for (n, cache, host) in [(2, 1, 0), (9, 1, 1), (40, 2, 3), (33, 0, 2), (64, 4, 0)] {
            let of = |cache: u32, host: u32, disk| {
                let prices = Prices { save: 0.3, restore: 0.4, upload: 1.7, download: 0.9, disk };
                priced(n, cache, host, prices).unwrap()
            };
            assert_eq!(
                of(cache, host, Some([0.0; 2])).cost(),
                of(cache, n, None).cost(),
                "n = {n}"
            );
            assert_eq!(
                of(cache, host, Some([1e9; 2])).cost(),
                of(cache, host, None).cost(),
                "n = {n}"
            );
            let mut last = 0.0;
            for disk in [0.0, 0.5, 2.0, 8.0, 100.0] {
                let all = of(cache, host, Some([disk; 2]));
                let cost = all.cost().unwrap();
                assert!(cost >= last, "n = {n}: {cost} with a disk of {disk}");
                last = cost;
                assert_eq!(counts(&all, n).backward_steps, n.into());
                for (cache, host) in (0..=cache).flat_map(|c| (0..=host).map(move |h| (c, h))) {
                    let fewer = of(cache, host, Some([disk; 2]));
                    let [same, own] =
                        [&all, &fewer].map(|priced| priced.actions(cache, host).unwrap());
                    assert_eq!(all.cost_within(cache as usize, host as usize), fewer.cost());
                    assert!(same == own && own.is_some(), "n = {n}, {cache} and {host} slots");
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
        let prices = |link: f64| Prices {
            save: 0.25,
            restore: 0.25,
            upload: link,
            download: link,
            disk: None,
        };
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
