//! The bits of a tile: its integer coefficients by rows, then its corrections. The format is described in the module `dct`.

use super::bits::{Reader, Writer};
use super::lanes::Lanes;

/// Most values of a row.
pub(super) const ROW: usize = 16;
/// |coefficients| are below this.
pub(super) const LIMIT: u32 = 1 << 28;
/// Mode of a row that has one coefficient, +1 or -1.
const ONE: u32 = 1;
/// Mode of a row whose groups of four that are not zero are named.
const GROUPS: u32 = 2;
/// Mode of a row whose coefficients have no fixed bits; the next has one, and so on.
const RICE: u32 = 3;
/// The last mode.
const LAST: u32 = 31;

/// A value that the transform misses by more than the bound.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Correction {
    /// Its place in the tile.
    pub at: u32,
    /// What to add, in units of the correction.
    pub level: i32,
}

/// Strings that a tile's bits are put together from.
pub(super) struct Scratch {
    fixed: Vec<u8>,
    unary: Vec<u8>,
    signs: Vec<u8>,
    modes: Vec<u8>,
}

/// Bytes that suffice for one of the strings of a tile of `values` values.
pub(super) fn scratch_bytes(values: usize) -> usize {
    values * 6 + 64
}

impl Scratch {
    pub fn new(values: usize) -> crate::error::Result<Self> {
        let bytes = || crate::room::filled(0u8, scratch_bytes(values));
        Ok(Scratch { fixed: bytes()?, unary: bytes()?, signs: bytes()?, modes: crate::room::filled(0, values)? })
    }
}

/// Fixed bits of a row of `R` in a mode.
#[inline(always)]
fn fixed_bits<const R: usize>(mode: u32) -> u32 {
    match mode {
        0 => 0,
        ONE => R.ilog2(),
        GROUPS => R as u32 / 4,
        _ => R as u32 * (mode - RICE),
    }
}

/// The number whose unary code says how the mode changes: 0, -1, +1, -2, +2, ... are 0, 1, 2, 3, 4, ...
#[inline(always)]
fn change(from: u32, to: u32) -> u32 {
    if to > from {
        2 * (to - from)
    } else {
        (2 * (from - to)).saturating_sub(1)
    }
}

/// The inverse of `change`.
#[inline(always)]
fn changed(from: u32, change: u32) -> Option<u32> {
    let by = change / 2;
    let mode = if change % 2 == 1 { from.checked_sub(by + 1)? } else { from.checked_add(by)? };
    (mode <= LAST).then_some(mode)
}

/// The mode for a row whose magnitudes have this sum, `groups` of its groups of four not being zero: the one that would take least bits,
/// the change from the mode before included, were the magnitudes spread geometrically.
#[inline(always)]
fn choose<const R: usize>(sum: u32, groups: u32, before: Option<u32>) -> u32 {
    let r = R as u32;
    let price = |mode: u32| before.map_or(0, |before| change(before, mode));
    let mut best = (u32::MAX, 0);
    let mut offer = |cost: u32, mode: u32| best = best.min((cost + price(mode), mode));
    if sum <= 1 {
        offer(if sum == 0 { 0 } else { R.ilog2() }, sum);
    }
    if sum <= r {
        offer(r / 4 + 4 * groups + sum, GROUPS);
    }
    let guess = (sum / r).max(1).ilog2();
    for k in guess.saturating_sub(2)..=(guess + 1).min(LAST - RICE) {
        let unary = if k == 0 { sum } else { (sum >> k).saturating_sub(3 * r / 8) };
        offer(r * (k + 1) + unary, RICE + k);
    }
    best.1
}

/// log2 of the divisor for the distances between `count` places among `values`.
#[inline(always)]
fn distance_bits(values: usize, count: usize) -> u32 {
    (values * 11 / 16 / count.max(1)).max(1).ilog2()
}

/// Writes the tile of lane `lane` into `to`: `q(i)` is its i-th coefficient, `sums` those of the magnitudes of its rows. Returns the
/// number of bytes, or `None` if there are `most` or more.
#[inline(always)]
pub(super) fn write<const R: usize, const L: usize>(
    values: usize,
    q: impl Fn(usize) -> i32,
    sums: &[Lanes<u32, L>],
    lane: usize,
    corrections: &[Correction],
    scratch: &mut Scratch,
    to: &mut [u8],
    most: usize,
) -> Option<usize> {
    let rows = sums.iter().rposition(|s| s.0[lane] != 0).map_or(0, |r| r + 1);
    let mut head = Writer::new(to);
    let mut fixed = Writer::new(&mut scratch.fixed);
    let mut unary = Writer::new(&mut scratch.unary);
    let mut signs = Writer::new(&mut scratch.signs);
    head.put(rows as u64, (values / R).ilog2() + 1);
    let count = corrections.len() as u64 + 4;
    head.unary(count.ilog2() - 2);
    head.put(count & ((1 << count.ilog2()) - 1), count.ilog2());

    let mut before = None;
    for (r, sum) in sums[..rows].iter().enumerate() {
        let sum = sum.0[lane];
        let mut row = [0i32; R];
        if sum > 0 {
            row = std::array::from_fn(|i| q(r * R + i));
        }
        let mut named = 0u32;
        for g in 0..R / 4 {
            let any = row[4 * g] | row[4 * g + 1] | row[4 * g + 2] | row[4 * g + 3];
            named |= u32::from(any != 0) << g;
        }
        let mode = choose::<R>(sum, named.count_ones(), before);
        match before {
            None => head.put(u64::from(mode), 5),
            Some(before) => head.unary(change(before, mode)),
        }
        before = Some(mode);
        match mode {
            0 => {}
            ONE => {
                let at = row.iter().position(|&v| v != 0).unwrap_or(0);
                fixed.put(at as u64, R.ilog2());
            }
            GROUPS => {
                fixed.put(u64::from(named), R as u32 / 4);
                for g in 0..R / 4 {
                    if named >> g & 1 != 0 {
                        for &v in &row[4 * g..4 * g + 4] {
                            unary.unary(v.unsigned_abs());
                        }
                    }
                }
            }
            _ => {
                let k = mode - RICE;
                for v in row {
                    let a = v.unsigned_abs();
                    fixed.put(u64::from(a & ((1 << k) - 1)), k);
                    unary.unary(a >> k);
                }
            }
        }
        if mode != 0 {
            let (mut negative, mut nonzero) = (0u64, 0);
            for v in row {
                negative |= u64::from(v < 0) << nonzero;
                nonzero += u32::from(v != 0);
            }
            signs.put(negative, nonzero);
        }
    }
    let (fixed, unary, signs) = (fixed.bits(), unary.bits(), signs.bits());
    head.append(&scratch.fixed, fixed);
    head.append(&scratch.unary, unary);
    head.append(&scratch.signs, signs);
    write_corrections(values, corrections, &mut head);
    let bytes = head.bits().div_ceil(8) as usize;
    (bytes < most).then_some(bytes)
}

#[inline(always)]
fn write_corrections(values: usize, corrections: &[Correction], to: &mut Writer<'_>) {
    let k = distance_bits(values, corrections.len());
    let distance = |i: usize| corrections[i].at - if i == 0 { 0 } else { corrections[i - 1].at + 1 };
    for i in 0..corrections.len() {
        to.put(u64::from(distance(i) & ((1 << k) - 1)), k);
    }
    for i in 0..corrections.len() {
        to.unary(distance(i) >> k);
    }
    for c in corrections {
        to.unary(c.level.unsigned_abs() - 1);
    }
    for c in corrections {
        to.put(u64::from(c.level < 0), 1);
    }
}

/// Reads a tile of `values` values: `coefficient(i, q)` is called for the coefficients that are not zero, and the corrections are put
/// into `corrections`. Returns how many those are, or `None` if this is no tile.
#[inline(always)]
pub(super) fn read<const R: usize>(
    values: usize,
    from: &[u8],
    scratch: &mut Scratch,
    corrections: &mut [Correction],
    mut coefficient: impl FnMut(usize, i32),
) -> Option<usize> {
    let mut head = Reader::new(from, 0);
    let rows = head.get((values / R).ilog2() + 1) as usize;
    let size = head.unary()? + 2;
    if rows > values / R || size > 20 {
        return None;
    }
    let count = (head.get(size) as usize | 1 << size) - 4;
    if count > corrections.len() {
        return None;
    }
    let modes = scratch.modes.get_mut(..rows)?;
    let mut bits = 0;
    let mut mode = 0;
    for (r, to) in modes.iter_mut().enumerate() {
        mode = if r == 0 { head.get(5) as u32 } else { changed(mode, head.unary()?)? };
        *to = mode as u8;
        bits += u64::from(fixed_bits::<R>(mode));
    }
    let mut fixed = head;
    let mut unary = Reader::new(from, fixed.at + bits);
    // The signs begin where the unary numbers end: a first pass finds that.
    let mut skip = unary;
    let mut peek = fixed;
    for &mode in modes.iter() {
        let mode = u32::from(mode);
        let count = match mode {
            GROUPS => 4 * (peek.get(R as u32 / 4).count_ones()),
            _ => {
                peek.at += u64::from(fixed_bits::<R>(mode));
                if mode < RICE {
                    0
                } else {
                    R as u32
                }
            }
        };
        for _ in 0..count {
            skip.unary()?;
        }
    }
    let mut signs = skip;
    for (r, &mode) in modes.iter().enumerate() {
        let mode = u32::from(mode);
        let mut row = [0u32; R];
        match mode {
            0 => continue,
            ONE => row[fixed.get(R.ilog2()) as usize % R] = 1,
            GROUPS => {
                let named = fixed.get(R as u32 / 4);
                for g in 0..R / 4 {
                    if named >> g & 1 != 0 {
                        for v in &mut row[4 * g..4 * g + 4] {
                            *v = unary.unary()?;
                        }
                    }
                }
            }
            _ => {
                let k = mode - RICE;
                for v in &mut row {
                    let high = unary.unary()?;
                    let low = fixed.get(k) as u32;
                    if high >= LIMIT >> k {
                        return None;
                    }
                    *v = high << k | low;
                }
            }
        }
        for (i, a) in row.into_iter().enumerate() {
            if a != 0 {
                if a >= LIMIT {
                    return None;
                }
                let a = a as i32;
                coefficient(r * R + i, if signs.get(1) != 0 { -a } else { a });
            }
        }
    }
    if signs.at > 8 * from.len() as u64 {
        return None;
    }
    read_corrections(values, Reader::new(from, signs.at), &mut corrections[..count])?;
    Some(count)
}

#[inline(always)]
fn read_corrections(values: usize, mut from: Reader<'_>, corrections: &mut [Correction]) -> Option<()> {
    let k = distance_bits(values, corrections.len());
    for c in corrections.iter_mut() {
        c.at = from.get(k) as u32;
    }
    let mut next = 0;
    for c in corrections.iter_mut() {
        let high = from.unary()?;
        if high as usize > values {
            return None;
        }
        c.at += next + (high << k);
        next = c.at + 1;
        if c.at as usize >= values {
            return None;
        }
    }
    for c in corrections.iter_mut() {
        c.level = i32::try_from(from.unary()?).ok()?.checked_add(1)?;
    }
    for c in corrections.iter_mut() {
        if from.get(1) != 0 {
            c.level = -c.level;
        }
    }
    Some(())
}
