//! The bits of a mask as bytes: an adaptive binary range coder, told by the bits before.
//!
//! A mask is coded word by word, 64 values of a row. One decision says whether a word is that of the plane
//! before, in the first plane that of the row before; only the bits of other words are coded, each in the
//! context of the bits to its left, in the row before and in the plane before. So land and sea cost about a
//! thousandth of a bit per word, and a coast a few bits per row.

/// Bits of a probability, the shift by which it adapts, and the value of one half.
const SCALE: u32 = 15;
const RATE: u32 = 5;
const HALF: u16 = 1 << (SCALE - 1);
/// A range below this is shifted by a byte.
const LEAST: u32 = 1 << 24;

/// A mask's rows and planes. Rows begin at whole words; the bits behind the last value of a row are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Values of a row, rows of a plane, planes.
    pub n: [usize; 3],
}

impl Grid {
    /// Words of a row.
    pub fn row(&self) -> usize {
        self.n[0].div_ceil(64)
    }

    /// Words of the mask.
    pub fn words(&self) -> usize {
        self.row() * self.n[1] * self.n[2]
    }

    /// The bits of word `w` of a row that stand for values.
    pub fn valid(&self, w: usize) -> u64 {
        u64::MAX >> (64 - (self.n[0] - 64 * w).min(64))
    }
}

/// Codes one bit after the other: writes the bit it is given, or reads one.
pub trait Bits {
    /// Codes a bit, 1 with the probability `1 - p / 2^SCALE`, and returns it.
    fn bit(&mut self, p: &mut u16, bit: bool) -> bool;
}

fn adapt(p: &mut u16, bit: bool) {
    match bit {
        true => *p -= *p >> RATE,
        false => *p += ((1 << SCALE) - *p) >> RATE,
    }
}

/// Writes bits to bytes. `is_full` once they have no room.
pub struct Writer<'a> {
    to: &'a mut [u8],
    end: usize,
    low: u64,
    range: u32,
    /// The last byte that a carry may change, and the bytes 0xFF behind it.
    last: u8,
    waiting: u64,
    is_first: bool,
}

impl<'a> Writer<'a> {
    pub fn new(to: &'a mut [u8]) -> Self {
        Writer { to, end: 0, low: 0, range: u32::MAX, last: 0, waiting: 0, is_first: true }
    }

    fn put(&mut self, byte: u8) {
        // The first byte is always 0.
        if std::mem::take(&mut self.is_first) {
            return;
        }
        if let Some(to) = self.to.get_mut(self.end) {
            *to = byte;
        }
        self.end += 1;
    }

    fn shift(&mut self) {
        if self.low < 0xFF00_0000 || self.low > u64::from(u32::MAX) {
            let carry = (self.low >> 32) as u8;
            self.put(self.last.wrapping_add(carry));
            while self.waiting > 0 {
                self.put(0xFFu8.wrapping_add(carry));
                self.waiting -= 1;
            }
            self.last = (self.low >> 24) as u8;
        } else {
            self.waiting += 1;
        }
        self.low = (self.low << 8) & u64::from(u32::MAX);
    }

    pub fn is_full(&self) -> bool {
        self.end > self.to.len()
    }

    /// Writes what is left; returns the number of bytes, `None` if they had no room.
    pub fn finish(mut self) -> Option<usize> {
        (0..5).for_each(|_| self.shift());
        (!self.is_full()).then_some(self.end)
    }
}

impl Bits for Writer<'_> {
    fn bit(&mut self, p: &mut u16, bit: bool) -> bool {
        let bound = (self.range >> SCALE) * u32::from(*p);
        match bit {
            true => (self.low, self.range) = (self.low + u64::from(bound), self.range - bound),
            false => self.range = bound,
        }
        adapt(p, bit);
        while self.range < LEAST {
            self.range <<= 8;
            self.shift();
        }
        bit
    }
}

/// Reads the bits that a `Writer` has written. Behind the end of the bytes it reads zeros.
pub struct Reader<'a> {
    from: &'a [u8],
    at: usize,
    code: u32,
    range: u32,
}

impl<'a> Reader<'a> {
    pub fn new(from: &'a [u8]) -> Self {
        let mut reader = Reader { from, at: 0, code: 0, range: u32::MAX };
        (0..4).for_each(|_| reader.shift());
        reader
    }

    fn shift(&mut self) {
        self.code = self.code << 8 | u32::from(self.from.get(self.at).copied().unwrap_or(0));
        self.at += 1;
    }

    /// Whether exactly the bytes were read that the writer wrote.
    pub fn is_at_end(&self) -> bool {
        self.at == self.from.len()
    }
}

impl Bits for Reader<'_> {
    fn bit(&mut self, p: &mut u16, _: bool) -> bool {
        let bound = (self.range >> SCALE) * u32::from(*p);
        let bit = self.code >= bound;
        match bit {
            true => (self.code, self.range) = (self.code - bound, self.range - bound),
            false => self.range = bound,
        }
        adapt(p, bit);
        while self.range < LEAST {
            self.range <<= 8;
            self.shift();
        }
        bit
    }
}

/// Codes the words of a mask: writes them, or sets them to what is read. Ends early if `is_full`.
pub fn code<B: Bits>(bits: &mut B, grid: Grid, words: &mut [u64], is_full: impl Fn(&B) -> bool) {
    let (row, plane) = (grid.row(), grid.row() * grid.n[1]);
    let (mut same, mut contexts) = ([HALF; 8], [HALF; 256]);
    for r in 0..grid.n[1] * grid.n[2] {
        let at = r * row;
        let (before, now) = words.split_at_mut(at);
        let now = &mut now[..row];
        let is_first = at < plane;
        // The rows before, or none: in the first row of a plane that of the plane before.
        let below = if is_first { &[][..] } else { &before[at - plane..][..row] };
        let above = if r % grid.n[1] == 0 { below } else { &before[at - row..][..row] };
        let below = if is_first { above } else { below };
        let word = |of: &[u64], w: usize| of.get(w).copied().unwrap_or(0);
        let (mut left, mut has_missed) = (3 * (word(above, 0) & 1), false);
        for w in 0..row {
            let valid = grid.valid(w);
            let (a, p) = (word(above, w), word(below, w));
            let a_left = if w > 0 { word(above, w - 1) >> 63 } else { 0 };
            let (a_next, p_next) = (word(above, w + 1), word(below, w + 1));
            let is_even = |v: u64| a == v & valid && p == a && left & 1 == v & 1;
            let kind = match is_even(0) || is_even(u64::MAX) {
                true => 0,
                false => 1 + usize::from(has_missed),
            };
            has_missed = bits.bit(&mut same[kind + 4 * usize::from(is_first)], now[w] != p);
            if !has_missed {
                now[w] = p;
                left = p >> 63 | p >> 61 & 2;
                continue;
            }
            let near = u128::from(a_left) | u128::from(a) << 1 | u128::from(a_next & 3) << 65;
            let below = u128::from(p) | u128::from(p_next & 1) << 64;
            let mut coded = 0;
            for i in 0..valid.count_ones() {
                let context =
                    (left & 3) | ((near >> i) as u64 & 15) << 2 | ((below >> i) as u64 & 3) << 6;
                let bit = bits.bit(&mut contexts[context as usize], now[w] >> i & 1 == 1);
                coded |= u64::from(bit) << i;
                left = left << 1 | u64::from(bit);
            }
            now[w] = coded;
        }
        if is_full(bits) {
            return;
        }
    }
}
