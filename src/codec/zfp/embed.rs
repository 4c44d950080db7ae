//! Embedded coding: the bit planes of a block, from the top, until its bits are used up.
//!
//! Of each plane the bits of the coefficients that are known to count, 0 to n - 1, come first as they are. With r the bits from
//! coefficient n on, the group tests follow: 0 if r = 0; otherwise 1 and the bits of r up to its last 1, each 1 followed by a flag: 1 if
//! another 1 follows, 0 if not. The block's last coefficient needs neither its bit nor a flag. n then is the first one not tested.

use super::planes::Matrix;
use super::short;

/// Words of a batch's bits: at most 512, and room for what a block writes beyond its end before it is cut.
pub const WORDS: usize = 1024;

/// How the blocks of an array are coded.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Values of a block: 4, 16 or 64.
    pub size: u32,
    /// Bits of a block in the stream.
    pub bits: u32,
    /// Bits of a coefficient: 32 or 64.
    pub width: u32,
    /// Bits of an exponent.
    pub exponent: u32,
    /// Bit planes of a block beyond its biased exponent: it has min(width, exponent + this).
    pub planes: u32,
}

impl Spec {
    /// Blocks of a batch.
    #[inline(always)]
    pub fn batch(&self) -> usize {
        (64 * 512 / self.width / self.size) as usize
    }

    /// The lowest bit plane of a block of this biased exponent.
    #[inline(always)]
    pub fn lowest(&self, exponent: u32) -> u32 {
        self.width.saturating_sub(exponent + self.planes)
    }

    /// Bits of a block's planes.
    #[inline(always)]
    pub fn left(&self) -> u32 {
        self.bits - 1 - self.exponent
    }

    /// Where block `block` of a batch is: the lanes of a group, then the next group.
    #[inline(always)]
    pub fn lane(&self, block: usize) -> Lane {
        // Divisions by powers of two are not known to be such.
        let lanes = if self.width == 32 { block * 4 } else { block * 8 };
        let (at, group) = (lanes % 64, lanes / 64);
        Lane { row: at % 8 * 8, word: at / 8, shift: group as u32 * self.size % 64 }
    }
}

/// The beginning of a block.
pub struct Head {
    /// The biased exponent; 0 is a block of zeros.
    pub exponent: u32,
    /// First bit of the planes.
    pub at: u32,
    /// Bits of the planes; a block of zeros has none.
    pub left: u32,
}

impl Head {
    #[inline(always)]
    pub fn read(spec: &Spec, words: &[u64; WORDS], block: usize) -> Head {
        let begin = block as u32 * spec.bits;
        let head = peek(words, begin);
        let coded = head as u32 & 1;
        Head { exponent: coded * (head >> 1 & low(spec.exponent)) as u32, at: begin + 1 + spec.exponent, left: coded * spec.left() }
    }
}

/// Where the planes of a block are in a matrix.
#[derive(Clone, Copy)]
pub struct Lane {
    /// The lowest plane.
    row: usize,
    /// Word in the rows.
    word: usize,
    /// Lowest bit in the planes.
    shift: u32,
}

impl Lane {
    /// A bit plane, and what else is above it.
    #[inline(always)]
    pub fn plane(self, m: &Matrix, plane: u32) -> u64 {
        m[(self.row + plane as usize) % 64][self.word] >> self.shift
    }

    /// Sets a bit plane that is 0.
    #[inline(always)]
    pub fn set(self, m: &mut Matrix, plane: u32, bits: u64) {
        m[(self.row + plane as usize) % 64][self.word] |= bits << self.shift;
    }
}

/// The parts that some instruction sets do faster.
pub trait Tests {
    /// The bits of a 32-bit number, each 1 twice.
    fn doubled(x: u64) -> u64;

    /// Reads the group tests of a plane from coefficient `n` on, `n` < `size`, that begin at bit `at` < `end`.
    fn read(from: &[u64; WORDS], at: u32, end: u32, n: u32, size: u32) -> Tested;
}

/// What group tests tell.
pub struct Tested {
    /// The bits of the plane.
    pub bits: u64,
    /// Coefficients known to count.
    pub n: u32,
    /// Place behind the tests, or any from the end of the block on.
    pub at: u32,
}

/// The group tests of a plane.
#[derive(Clone, Copy)]
#[repr(align(4))]
struct Short {
    /// The bits of the plane from the first coefficient on that was not known to count.
    bits: u16,
    /// How many more are known.
    n: u8,
    /// Bits of the code; 0 if they are more than those that were looked at.
    count: u8,
}

/// Bits of group tests that are looked at.
const TEST_BITS: u32 = 10;

/// By the bits that are next, group tests that end there before the block and its coefficients do: nearly all, and without a branch.
static TESTS: [Short; 1 << TEST_BITS] = {
    let mut table = [Short { bits: 0, n: 0, count: 0 }; 1 << TEST_BITS];
    let mut code = 0;
    while code < table.len() {
        let (mut bits, mut n, mut at) = (0, 0, 0);
        while code >> at & 1 == 1 {
            at += 1;
            // A 1 beyond what is looked at.
            let zeros = ((code | table.len()) >> at).trailing_zeros();
            bits |= 1 << (n + zeros);
            n += zeros + 1;
            at += zeros + 1;
        }
        if at < TEST_BITS {
            table[code] = Short { bits, n: n as u8, count: at as u8 + 1 };
        }
        code += 1;
    }
    table
};

/// For every machine.
pub struct Portable;

/// `Tests::doubled` for a byte.
const DOUBLED: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut to) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte] |= 3 << to;
                to += 1;
            }
            to += 1;
            bit += 1;
        }
        byte += 1;
    }
    table
};

impl Tests for Portable {
    #[inline(always)]
    fn doubled(x: u64) -> u64 {
        let (mut bits, mut count) = (0, 0);
        for byte in (x as u32).to_le_bytes() {
            bits |= u64::from(DOUBLED[byte as usize]) << count;
            count += 8 + byte.count_ones();
        }
        bits
    }

    #[inline(always)]
    fn read(from: &[u64; WORDS], mut at: u32, end: u32, mut n: u32, size: u32) -> Tested {
        let mut tested = 0;
        while n < size && at < end {
            let bits = peek(from, at);
            at += 1;
            if bits & 1 == 0 {
                break;
            }
            // A run of zeros and its 1. Where the block ends, or one coefficient is left, the 1 is not there.
            let most = (size - 1 - n).min(end - at);
            let zeros = (bits >> 1).trailing_zeros().min(most);
            at += zeros + u32::from(zeros < most);
            n += zeros;
            tested |= 1 << n;
            n += 1;
        }
        Tested { bits: tested, n, at }
    }
}

/// The `n` low bits, n <= 64.
#[inline(always)]
pub fn low(n: u32) -> u64 {
    if n >= 64 {
        !0
    } else {
        (1 << n) - 1
    }
}

/// 64 bits from bit `at` on.
#[inline(always)]
pub fn peek(words: &[u64; WORDS], at: u32) -> u64 {
    let (word, shift) = (at as usize / 64, at % 64);
    (words[word % WORDS] >> shift) | ((words[(word + 1) % WORDS] << 1) << (63 - shift))
}

/// Where bits are written.
pub struct Writer<'a> {
    words: &'a mut [u64; WORDS],
    at: usize,
    fill: u32,
    open: u64,
}

impl<'a> Writer<'a> {
    /// Writes from the first word on.
    #[inline(always)]
    pub fn new(words: &'a mut [u64; WORDS]) -> Self {
        Writer { words, at: 0, fill: 0, open: 0 }
    }

    #[inline(always)]
    fn position(&self) -> u32 {
        64 * self.at as u32 + self.fill
    }

    /// Appends `count` <= 64 bits; those of `bits` beyond them are 0.
    #[inline(always)]
    pub fn put(&mut self, bits: u64, count: u32) {
        let open = self.open | (bits << self.fill);
        self.words[self.at % WORDS] = open;
        let fill = self.fill + count;
        self.open = if fill >= 64 { (bits >> 1) >> (63 - self.fill) } else { open };
        self.at += fill as usize / 64;
        self.fill = fill % 64;
    }

    /// Goes on at `end`: cuts what is behind it, or fills with zeros up to it.
    #[inline(always)]
    fn close(&mut self, end: u32) {
        let last = end as usize / 64;
        self.words[self.at % WORDS] = self.open;
        (self.at + 1..=last).for_each(|at| self.words[at % WORDS] = 0);
        self.at = last;
        self.fill = end % 64;
        self.open = self.words[last % WORDS] & low(self.fill);
        self.words[last % WORDS] = self.open;
    }
}

/// Writes the blocks of a batch that have these biased exponents; 0 is a block of zeros.
#[inline(always)]
pub fn encode<T: Tests>(spec: &Spec, m: &Matrix, exponents: &[u32], words: &mut [u64; WORDS]) {
    let mut out = Writer::new(words);
    for (block, &exponent) in exponents.iter().enumerate() {
        let end = out.position() + spec.bits;
        match exponent {
            0 => out.put(0, 1),
            _ if spec.size == 4 && spec.width == 32 => short::put_block::<32>(spec, m, block, exponent, &mut out),
            _ if spec.size == 4 => short::put_block::<64>(spec, m, block, exponent, &mut out),
            _ => put_block::<T>(spec, m, spec.lane(block), exponent, end, &mut out),
        }
        out.close(end);
    }
}

#[inline(always)]
fn put_block<T: Tests>(spec: &Spec, m: &Matrix, lane: Lane, exponent: u32, end: u32, out: &mut Writer<'_>) {
    out.put(1 | u64::from(exponent) << 1, 1 + spec.exponent);
    let mut n = 0;
    for plane in (spec.lowest(exponent)..spec.width).rev() {
        let x = lane.plane(m, plane) & low(spec.size);
        if n == spec.size {
            out.put(x, n);
        } else {
            let rest = x >> n;
            out.put((x & low(n)) | u64::from(rest != 0) << n, n + 1);
            if rest != 0 {
                n += put_tests::<T>(rest, spec.size - n, out);
            }
        }
        if out.position() >= end {
            break;
        }
    }
}

/// Writes the group tests of `left` bits, not all 0, behind the first 1. Returns how many coefficients they make known.
#[inline(always)]
fn put_tests<T: Tests>(rest: u64, left: u32, out: &mut Writer<'_>) -> u32 {
    let known = 64 - rest.leading_zeros();
    let doubled = known + rest.count_ones();
    let (count, kept) = if known == left { (doubled - 2, doubled - 2) } else { (doubled, doubled - 1) };
    if known <= 32 {
        out.put(T::doubled(rest) & low(kept), count);
    } else {
        let first = 32 + (rest as u32).count_ones();
        out.put(T::doubled(rest), first);
        out.put(T::doubled(rest >> 32) & low(kept - first), count - first);
    }
    known
}

/// Reads the blocks of a batch: their biased exponents and bit planes. Behind the last block are zeros.
#[inline(always)]
pub fn decode<T: Tests>(spec: &Spec, words: &[u64; WORDS], exponents: &mut [u32], m: &mut Matrix) {
    *m = [[0; 8]; 64];
    let few = spec.left() <= short::MOST;
    match (spec.size, spec.width) {
        (4, 32) if few => return short::decode_few::<32>(spec, words, exponents, m),
        (4, _) if few => return short::decode_few::<64>(spec, words, exponents, m),
        (4, 32) => return short::decode::<32>(spec, words, exponents, m),
        (4, _) => return short::decode::<64>(spec, words, exponents, m),
        _ => {}
    }
    for (block, exponent) in exponents.iter_mut().enumerate() {
        *exponent = get_block::<T>(spec, words, block as u32 * spec.bits, m, spec.lane(block));
    }
}

#[inline(always)]
fn get_block<T: Tests>(spec: &Spec, words: &[u64; WORDS], mut at: u32, m: &mut Matrix, lane: Lane) -> u32 {
    let head = peek(words, at);
    if head & 1 == 0 {
        return 0;
    }
    let exponent = (head >> 1 & low(spec.exponent)) as u32;
    let end = at + spec.bits;
    at += 1 + spec.exponent;
    let mut n = 0;
    for plane in (spec.lowest(exponent)..spec.width).rev() {
        if at >= end {
            break;
        }
        let known = n.min(end - at);
        let from = peek(words, at);
        let mut bits = from & low(known);
        at += known;
        if n < spec.size && at < end {
            // Mostly in what was looked at already.
            let next = if known <= 64 - TEST_BITS { from >> known } else { peek(words, at) };
            let short = TESTS[next as usize % TESTS.len()];
            if short.count > 0 && at + u32::from(short.count) <= end && n + u32::from(short.n) < spec.size {
                bits |= u64::from(short.bits) << n;
                n += u32::from(short.n);
                at += u32::from(short.count);
            } else {
                let tested = T::read(words, at, end, n, spec.size);
                bits |= tested.bits;
                (n, at) = (tested.n, tested.at);
            }
        }
        lane.set(m, plane, bits);
    }
    exponent
}
