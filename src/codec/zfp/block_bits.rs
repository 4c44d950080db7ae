//! The bits of blocks: how many bits a block has for which purpose, where the planes of a block are
//! in a matrix, and how bits are read and written.

use super::planes::Matrix;

/// Words for the bits of a batch: at most 512, and room for the bits that a block writes beyond its
/// end before they are cut off.
pub const WORDS: usize = 1024;

/// The parameters with which the blocks of an array are coded.
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
    /// A block with the biased exponent e has min(`width`, e + `planes`) bit planes.
    pub planes: u32,
}

impl Spec {
    #[inline(always)]
    pub fn batch(&self) -> usize {
        (64 * 512 / self.width / self.size) as usize
    }

    /// Returns the lowest bit plane of a block with this biased exponent.
    #[inline(always)]
    pub fn lowest(&self, exponent: u32) -> u32 {
        self.width.saturating_sub(exponent + self.planes)
    }

    /// Returns how many bits of a block in the stream are for its bit planes.
    #[inline(always)]
    pub fn left(&self) -> u32 {
        self.bits - 1 - self.exponent
    }

    /// Returns where block `block` of a batch is in a matrix of bit planes. Consecutive blocks are
    /// in consecutive lanes of a group, then in the next group.
    #[inline(always)]
    pub fn spot(&self, block: usize) -> Spot {
        // Two constants, because the compiler cannot know that `width` is a power of two.
        let lanes = if self.width == 32 { block * 4 } else { block * 8 };
        let (at, group) = (lanes % 64, lanes / 64);
        Spot { row: at % 8 * 8, word: at / 8, shift: group as u32 * self.size % 64 }
    }
}

/// The head of a block in the stream.
pub struct Head {
    /// The biased exponent; 0 stands for a block of zeros.
    pub exponent: u32,
    /// Position of the first bit of the planes.
    pub at: u32,
    /// Number of bits of the planes; 0 for a block of zeros.
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
pub struct Spot {
    /// Row of the lowest plane.
    row: usize,
    /// Index of the word in each row.
    word: usize,
    /// Position of the block's lowest bit in the word.
    shift: u32,
}

impl Spot {
    /// Returns a bit plane of the block in the lowest bits, below bits of other blocks.
    #[inline(always)]
    pub fn plane(self, m: &Matrix, plane: u32) -> u64 {
        m[(self.row + plane as usize) % 64][self.word] >> self.shift
    }

    #[inline(always)]
    pub fn set(self, m: &mut Matrix, plane: u32, bits: u64) {
        m[(self.row + plane as usize) % 64][self.word] |= bits << self.shift;
    }
}

/// The parts of the coder that some instruction sets do faster.
pub trait Tests {
    /// Returns the bits of the 32-bit number `x` with each 1 written twice.
    fn doubled(x: u64) -> u64;

    /// Reads the group tests of a plane from coefficient `n` < `size` on. The tests begin at bit
    /// `at` < `end`, where `end` is the end of the block.
    fn read(from: &[u64; WORDS], at: u32, end: u32, n: u32, size: u32) -> Tested;
}

/// The result of the group tests of a plane.
pub struct Tested {
    /// The bits of the plane.
    pub bits: u64,
    /// Number of coefficients that are significant from here on: each of the first `n` has its bit
    /// in every further plane.
    pub n: u32,
    /// Position of the first bit behind the tests; any position from the block's end on if the
    /// block ends in the tests.
    pub at: u32,
}

/// Returns a number whose `n` lowest bits are 1, n <= 64.
#[inline(always)]
pub fn low(n: u32) -> u64 {
    if n >= 64 {
        !0
    } else {
        (1 << n) - 1
    }
}

/// Returns the 64 bits from bit `at` on.
#[inline(always)]
pub fn peek(words: &[u64; WORDS], at: u32) -> u64 {
    let (word, shift) = (at as usize / 64, at % 64);
    (words[word % WORDS] >> shift) | ((words[(word + 1) % WORDS] << 1) << (63 - shift))
}

/// Appends bits to the words of a batch.
pub struct Writer<'a> {
    words: &'a mut [u64; WORDS],
    at: usize,
    fill: u32,
    open: u64,
}

impl<'a> Writer<'a> {
    /// Returns a writer that begins at the first word.
    #[inline(always)]
    pub fn new(words: &'a mut [u64; WORDS]) -> Self {
        Writer { words, at: 0, fill: 0, open: 0 }
    }

    #[inline(always)]
    pub fn position(&self) -> u32 {
        64 * self.at as u32 + self.fill
    }

    /// Appends the lowest `count` <= 64 bits of `bits`. All higher bits of `bits` must be zero.
    #[inline(always)]
    pub fn put(&mut self, bits: u64, count: u32) {
        let open = self.open | (bits << self.fill);
        self.words[self.at % WORDS] = open;
        let fill = self.fill + count;
        self.open = if fill >= 64 { (bits >> 1) >> (63 - self.fill) } else { open };
        self.at += fill as usize / 64;
        self.fill = fill % 64;
    }

    /// Continues at bit `end`: cuts off all bits behind `end`, or fills with zeros up to `end`.
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
