//! The bits of blocks: how many there are of what, where each block has its planes, and how they
//! are read and written.

use super::planes::Matrix;

/// Words of a batch's bits: at most 512, and room for what a block writes beyond its end before it
/// is cut.
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
        Head {
            exponent: coded * (head >> 1 & low(spec.exponent)) as u32,
            at: begin + 1 + spec.exponent,
            left: coded * spec.left(),
        }
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

    /// Reads the group tests of a plane from coefficient `n` on, `n` < `size`, that begin at bit
    /// `at` < `end`.
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
    pub fn position(&self) -> u32 {
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
    pub fn close(&mut self, end: u32) {
        let last = end as usize / 64;
        self.words[self.at % WORDS] = self.open;
        (self.at + 1..=last).for_each(|at| self.words[at % WORDS] = 0);
        self.at = last;
        self.fill = end % 64;
        self.open = self.words[last % WORDS] & low(self.fill);
        self.words[last % WORDS] = self.open;
    }
}
