//! Writes the bits of a tile: its integer coefficients by rows, then its corrections. The module
//! `dct` describes the format; the module `open` reads it.

use super::bits::Pen;
use super::vector::Vector;
use crate::error::Result;
use crate::fallible_vec;

/// The magnitudes of all coefficients are below this limit.
pub(super) const LIMIT: u32 = 1 << 28;
/// Mode of a row with one nonzero coefficient, +1 or -1.
pub(super) const ONE: u32 = 1;
/// Mode of a row whose fixed bits say which groups of four coefficients are not zero.
pub(super) const GROUPS: u32 = 2;
/// Mode `RICE` + k: a row of Rice codes with k fixed bits per coefficient.
pub(super) const RICE: u32 = 3;
pub(super) const LAST: u32 = 31;

/// Bits of the number of later tiles that a tile of a sequence leans on.
pub(super) const LEAN_BITS: u32 = 2;

/// A correction: a value of the tile whose decoded value is outside the bound, and the remedy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Correction {
    /// Place of the value in the tile.
    pub at: u32,
    /// The multiple of the correction unit that is added to the decoded value.
    pub level: i32,
}

/// The strings that the bits of a tile are put together from.
#[derive(Clone, Copy)]
enum Part {
    Modes,
    Fixed,
    Unary,
    Signs,
}

/// The strings of bits of the tiles of a batch.
pub(super) struct Strings<const L: usize> {
    bytes: Vec<u8>,
    /// Number of values of the largest tile.
    values: usize,
    pens: [[Pen; 4]; L],
    rows: [usize; L],
}

impl<const L: usize> Strings<L> {
    /// Allocates working memory for tiles of up to `values` values.
    pub fn new(values: usize) -> Result<Self> {
        Ok(Strings {
            bytes: fallible_vec::filled(0, L * Self::tile_bytes(values))?,
            values,
            pens: [[Pen::default(); 4]; L],
            rows: [0; L],
        })
    }

    /// Returns the bytes for the strings of one tile: at most 63 bits per row for modes, and per
    /// value at most 28 fixed bits, 5 unary bits and 1 sign.
    fn tile_bytes(values: usize) -> usize {
        8 * values + 4 * 64
    }

    /// Returns the index of the first byte of a string.
    #[inline(always)]
    fn begin(&self, l: usize, part: Part) -> usize {
        let v = self.values;
        l * Self::tile_bytes(v)
            + match part {
                Part::Modes => 0,
                Part::Fixed => v + 64,
                Part::Unary => 5 * v + 2 * 64,
                Part::Signs => 7 * v + 3 * 64,
            }
    }

    /// Appends the lowest `count` <= 56 bits of `bits`. All higher bits of `bits` must be zero.
    #[inline(always)]
    fn put(&mut self, l: usize, part: Part, bits: u64, count: u32) {
        let begin = self.begin(l, part);
        self.pens[l][part as usize].put(&mut self.bytes, begin, bits, count);
    }

    /// Appends `zeros` zeros and a one.
    #[inline(always)]
    fn unary(&mut self, l: usize, part: Part, zeros: u32) {
        let begin = self.begin(l, part);
        self.pens[l][part as usize].unary(&mut self.bytes, begin, zeros);
    }

    /// Makes the strings of all tiles empty.
    pub fn clear(&mut self) {
        self.pens = [[Pen::default(); 4]; L];
        self.rows = [0; L];
    }

    /// Returns true if all coefficients of the tile are zero.
    pub fn empty(&self, l: usize) -> bool {
        self.rows[l] == 0
    }

    /// Appends the mode of row `r`.
    #[inline(always)]
    fn mode(&mut self, l: usize, r: usize, before: u32, mode: u32) {
        if r == 0 {
            self.put(l, Part::Modes, u64::from(mode), 5);
        } else {
            self.unary(l, Part::Modes, change(before, mode));
        }
    }

    /// Makes the strings of all tiles. `q` holds their coefficients, `order` the places of the
    /// coefficients in the order of the rows, and `sums` the sum of the magnitudes of each row.
    #[inline(always)]
    pub fn make<const R: usize>(
        &mut self,
        q: &[Vector<i32, L>],
        order: &[u32],
        sums: &[Vector<u32, L>],
    ) {
        self.clear();
        for (r, sums) in sums.iter().enumerate() {
            for l in 0..L {
                if sums.0[l] != 0 {
                    self.rows[l] = r + 1;
                }
            }
        }
        let end = self.rows.into_iter().max().unwrap_or(0);
        let mut before = Vector([0u32; L]);
        for (r, (sums, places)) in sums[..end].iter().zip(order.chunks_exact(R)).enumerate() {
            self.row::<R>(r, q, places, sums, &mut before);
        }
    }

    /// Appends a row whose coefficients are all zero.
    #[inline(always)]
    fn zero_row<const R: usize>(&mut self, r: usize, before: &mut Vector<u32, L>) {
        for l in 0..L {
            let mode = choose::<R>(0, 0, before.0[l], r == 0);
            if r < self.rows[l] {
                self.mode(l, r, before.0[l], mode);
                if mode == GROUPS {
                    self.put(l, Part::Fixed, 0, R as u32 / 4);
                }
            }
            before.0[l] = mode;
        }
    }

    #[inline(always)]
    fn row<const R: usize>(
        &mut self,
        r: usize,
        q: &[Vector<i32, L>],
        places: &[u32],
        sums: &Vector<u32, L>,
        before: &mut Vector<u32, L>,
    ) {
        if sums.0 == [0; L] {
            return self.zero_row::<R>(r, before);
        }
        let mut row = [Vector([0i32; L]); R];
        for (to, &p) in row.iter_mut().zip(places) {
            *to = q[p as usize];
        }
        // One bit for each group of four that is not zero, and the place of the last coefficient.
        let (mut named, mut place) = (Vector([0u32; L]), Vector([0u32; L]));
        let (mut negative, mut nonzero) = (Vector([0u32; L]), Vector([0u32; L]));
        for i in 0..R {
            for l in 0..L {
                let some = u32::from(row[i].0[l] != 0);
                named.0[l] |= some << (i / 4);
                place.0[l] += some * i as u32;
                negative.0[l] |= u32::from(row[i].0[l] < 0) << nonzero.0[l];
                nonzero.0[l] += some;
            }
        }
        let mut mode = Vector([0u32; L]);
        for l in 0..L {
            mode.0[l] = choose::<R>(sums.0[l], named.0[l], before.0[l], r == 0);
        }
        let mut shift = Vector([0u32; L]);
        let mut groups = Vector([0u32; L]);
        for l in 0..L {
            shift.0[l] = mode.0[l].saturating_sub(RICE);
            groups.0[l] = if mode.0[l] >= RICE {
                15
            } else if mode.0[l] == GROUPS {
                named.0[l]
            } else {
                0
            };
        }
        let (unary, bits, words) = codes(&row, &shift, &groups);
        for l in 0..L {
            if r >= self.rows[l] {
                continue;
            }
            self.mode(l, r, before.0[l], mode.0[l]);
            if mode.0[l] == 0 {
                continue;
            }
            let k = shift.0[l];
            match mode.0[l] {
                ONE => self.put(l, Part::Fixed, u64::from(place.0[l]), R.ilog2()),
                GROUPS => self.put(l, Part::Fixed, u64::from(named.0[l]), R as u32 / 4),
                _ if k <= 3 => {
                    let word = |w: u32| words[w as usize].0[l] << (4 * w * k);
                    self.put(l, Part::Fixed, word(0) | word(1) | word(2) | word(3), R as u32 * k);
                }
                _ if k <= 14 => {
                    for w in &words[..R / 4] {
                        self.put(l, Part::Fixed, w.0[l], 4 * k);
                    }
                }
                _ => {
                    for q in &row {
                        let low = q.0[l].unsigned_abs() & ((1 << k) - 1);
                        self.put(l, Part::Fixed, u64::from(low), k);
                    }
                }
            }
            if bits.0[l] <= 56 {
                self.put(l, Part::Unary, unary.0[l], bits.0[l]);
            } else {
                for (i, q) in row.iter().enumerate() {
                    if groups.0[l] >> (i / 4) & 1 != 0 {
                        self.unary(l, Part::Unary, q.0[l].unsigned_abs() >> k);
                    }
                }
            }
            self.put(l, Part::Signs, u64::from(negative.0[l]), nonzero.0[l]);
        }
        *before = mode;
    }

    /// Returns the number of bits of tile `l` with its corrections, and with the number of later tiles that it
    /// leans on if it is one of a sequence.
    pub fn bits<const R: usize>(
        &self,
        values: usize,
        l: usize,
        lean: Option<u8>,
        corrections: &[Correction],
    ) -> u64 {
        let count = corrections.len() as u64 + 4;
        let lean = lean.map_or(0, |_| LEAN_BITS);
        let head = lean + (values / R).ilog2() + 2 * count.ilog2();
        let strings = self.pens[l].iter().map(Pen::bits).sum::<u64>();
        u64::from(head) + strings + correction_bits(values, corrections)
    }

    /// Writes tile `l` into `to`, with what `bits` counts.
    #[inline(always)]
    pub fn write<const R: usize>(
        &self,
        values: usize,
        l: usize,
        lean: Option<u8>,
        corrections: &[Correction],
        to: &mut [u8],
    ) {
        let mut pen = Pen::default();
        if let Some(lean) = lean {
            pen.put(to, 0, lean.into(), LEAN_BITS);
        }
        pen.put(to, 0, self.rows[l] as u64, (values / R).ilog2() + 1);
        let count = corrections.len() as u64 + 4;
        pen.unary(to, 0, count.ilog2() - 2);
        pen.put(to, 0, count & ((1 << count.ilog2()) - 1), count.ilog2());
        for part in [Part::Modes, Part::Fixed, Part::Unary, Part::Signs] {
            let bits = self.pens[l][part as usize].bits();
            pen.append(to, 0, &self.bytes[self.begin(l, part)..], bits);
        }
        write_corrections(values, corrections, &mut pen, to);
    }
}

/// Makes the Rice codes of a row of each tile: the unary codes as bits, the number of these bits,
/// and the fixed bits in one word per four coefficients. Only the groups of four whose bit is set
/// in `groups` have codes. The word of unary codes is valid for at most 56 bits.
#[inline(always)]
fn codes<const R: usize, const L: usize>(
    row: &[Vector<i32, L>; R],
    shift: &Vector<u32, L>,
    groups: &Vector<u32, L>,
) -> (Vector<u64, L>, Vector<u32, L>, [Vector<u64, L>; 4]) {
    let (mut unary, mut bits) = (Vector([0u64; L]), Vector([0u32; L]));
    for i in 0..R {
        for l in 0..L {
            let used = groups.0[l] >> (i / 4) & 1;
            bits.0[l] += used * (row[i].0[l].unsigned_abs() >> shift.0[l]);
            unary.0[l] |= u64::from(used) << (bits.0[l] & 63);
            bits.0[l] += used;
        }
    }
    let mut words = [Vector([0u64; L]); 4];
    for i in 0..R {
        for l in 0..L {
            let low = row[i].0[l].unsigned_abs() & ((1 << shift.0[l]) - 1);
            words[i / 4].0[l] |= u64::from(low) << ((i as u32 % 4 * shift.0[l]) & 63);
        }
    }
    (unary, bits, words)
}

/// Returns the number of fixed bits of a row of `R` coefficients in mode `mode`.
#[inline(always)]
pub(super) fn fixed_bits<const R: usize>(mode: u32) -> u32 {
    let few = if mode == ONE { R.ilog2() } else { R as u32 / 4 };
    let rice = R as u32 * mode.saturating_sub(RICE);
    rice + if mode == ONE || mode == GROUPS { few } else { 0 }
}

/// Returns the unary number for a change of the mode: 0, -1, +1, -2, +2, ... are 0, 1, 2, 3, 4, ...
#[inline(always)]
fn change(from: u32, to: u32) -> u32 {
    let up = to.wrapping_sub(from) as i32;
    ((2 * up) ^ (up >> 31)) as u32
}

/// Chooses the mode of a row from the sum of its magnitudes; `named` has one bit per group of four
/// that is not zero. The mode chosen is the one that would take the fewest bits if the magnitudes
/// were distributed geometrically; the bits for the change from the mode before are included.
#[inline(always)]
fn choose<const R: usize>(sum: u32, named: u32, before: u32, first: bool) -> u32 {
    const NEVER: u32 = 1 << 20;
    let r = R as u32;
    let groups = (named & 1) + (named >> 1 & 1) + (named >> 2 & 1) + (named >> 3 & 1);
    let price = |mode: u32| if first { 0 } else { change(before, mode) };
    // The lowest five bits are the mode: of modes with equal cost the minimum is the lowest mode.
    let offer = |cost: u32, mode: u32| (cost + price(mode)) << 5 | mode;
    let zero = offer(if sum == 0 { 0 } else { NEVER }, 0);
    let one = offer(if sum == 1 { R.ilog2() } else { NEVER }, ONE);
    let some = offer(if sum <= r { r / 4 + 4 * groups + sum } else { NEVER }, GROUPS);
    let guess = 31 - ((sum / r) | 1).leading_zeros();
    let rice = |k: u32| {
        let unary = if k == 0 { sum } else { (sum >> k).saturating_sub(3 * r / 8) };
        offer(r * (k + 1) + unary, RICE + k)
    };
    let least = zero.min(one).min(some);
    least.min(rice(guess.saturating_sub(1))).min(rice(guess)).min(rice(guess + 1)) & LAST
}

/// Returns log2 of the divisor of the distances between `count` corrections among `values` values.
#[inline(always)]
pub(super) fn distance_bits(values: usize, count: usize) -> u32 {
    (values * 11 / 16 / count.max(1)).max(1).ilog2()
}

/// Returns the distance of each correction: the number of values between it and the one before.
#[inline(always)]
fn distances(corrections: &[Correction]) -> impl Iterator<Item = u32> + '_ {
    let before = std::iter::once(0).chain(corrections.iter().map(|c| c.at + 1));
    corrections.iter().zip(before).map(|(c, before)| c.at - before)
}

/// Returns the number of bits that `write_corrections` writes.
fn correction_bits(values: usize, corrections: &[Correction]) -> u64 {
    let k = distance_bits(values, corrections.len());
    let unary = distances(corrections).map(|distance| distance >> k).sum::<u32>();
    let levels = corrections.iter().map(|c| u64::from(c.level.unsigned_abs())).sum::<u64>();
    corrections.len() as u64 * (u64::from(k) + 2) + u64::from(unary) + levels
}

#[inline(always)]
fn write_corrections(values: usize, corrections: &[Correction], pen: &mut Pen, to: &mut [u8]) {
    let k = distance_bits(values, corrections.len());
    for distance in distances(corrections) {
        pen.put(to, 0, u64::from(distance & ((1 << k) - 1)), k);
    }
    for distance in distances(corrections) {
        pen.unary(to, 0, distance >> k);
    }
    for c in corrections {
        pen.unary(to, 0, c.level.unsigned_abs() - 1);
    }
    for c in corrections {
        pen.put(to, 0, u64::from(c.level < 0), 1);
    }
}
