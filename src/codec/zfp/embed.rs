//! Embedded coding (Lindstrom 2014): writes and reads the bit planes of a block from the top, until
//! the block's bits are used up.
//!
//! In each plane the bits of the significant coefficients, 0 to n - 1, come first, uncoded. Let r
//! be the bits of the plane from coefficient n on. The group tests of r follow: a 0 if r = 0;
//! otherwise a 1 and the bits of r up to its last 1, with a flag behind each 1: 1 if another 1
//! follows, 0 if not. If the last coefficient of the block has the last 1, neither its bit nor its
//! flag is written. Then n becomes the number of the first coefficient that was not tested. A block
//! begins with n = 0.

use super::block_bits::{low, peek, Spec, Spot, Tested, Tests, Writer, WORDS};
use super::planes::Matrix;

/// The group tests of a plane, decoded from the next `TEST_BITS` bits.
#[derive(Clone, Copy)]
#[repr(align(4))]
struct Short {
    /// The bits of the plane, beginning with the first coefficient that was not significant.
    bits: u16,
    /// How many more coefficients become significant.
    n: u8,
    /// Number of bits of the group tests; 0 if the tests do not end within `TEST_BITS` bits.
    count: u8,
}

/// Number of bits by which `TESTS` is indexed.
const TEST_BITS: u32 = 10;

/// For the next `TEST_BITS` bits of the stream the group tests, if the tests end within these bits
/// and before the block and its coefficients end. Nearly all group tests do, and the table needs no
/// branch.
static TESTS: [Short; 1 << TEST_BITS] = {
    let mut table = [Short { bits: 0, n: 0, count: 0 }; 1 << TEST_BITS];
    let mut code = 0;
    while code < table.len() {
        let (mut bits, mut n, mut at) = (0, 0, 0);
        while code >> at & 1 == 1 {
            at += 1;
            // If the next 1 is beyond `TEST_BITS` bits, this finds bit `TEST_BITS`.
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

/// The variant for every machine.
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
            // A run of zeros and the 1 behind them. If the block ends in the run, or only one
            // coefficient is left, this 1 is not in the stream.
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

/// Writes the blocks of a batch with these biased exponents; 0 stands for a block of zeros.
#[inline(always)]
pub fn encode<T: Tests>(spec: &Spec, m: &Matrix, exponents: &[u32], words: &mut [u64; WORDS]) {
    let mut out = Writer::new(words);
    for (block, &exponent) in exponents.iter().enumerate() {
        let end = out.position() + spec.bits;
        match exponent {
            0 => out.put(0, 1),
            _ => put_block::<T>(spec, m, spec.spot(block), exponent, end, &mut out),
        }
        out.close(end);
    }
}

#[inline(always)]
fn put_block<T: Tests>(
    spec: &Spec,
    m: &Matrix,
    spot: Spot,
    exponent: u32,
    end: u32,
    out: &mut Writer<'_>,
) {
    out.put(1 | u64::from(exponent) << 1, 1 + spec.exponent);
    let mut n = 0;
    for plane in (spec.lowest(exponent)..spec.width).rev() {
        let x = spot.plane(m, plane) & low(spec.size);
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

/// Writes the group tests of the `left` bits `rest`, which are not all 0, without the first test's
/// 1. Returns how many coefficients become significant.
#[inline(always)]
fn put_tests<T: Tests>(rest: u64, left: u32, out: &mut Writer<'_>) -> u32 {
    let known = 64 - rest.leading_zeros();
    let doubled = known + rest.count_ones();
    let (count, kept) =
        if known == left { (doubled - 2, doubled - 2) } else { (doubled, doubled - 1) };
    if known <= 32 {
        out.put(T::doubled(rest) & low(kept), count);
    } else {
        let first = 32 + (rest as u32).count_ones();
        out.put(T::doubled(rest), first);
        out.put(T::doubled(rest >> 32) & low(kept - first), count - first);
    }
    known
}

/// Reads biased exponents and bit planes of the blocks of a batch; all other planes become zero.
#[inline(always)]
pub fn decode<T: Tests>(spec: &Spec, words: &[u64; WORDS], exponents: &mut [u32], m: &mut Matrix) {
    *m = [[0; 8]; 64];
    for (block, exponent) in exponents.iter_mut().enumerate() {
        *exponent = get_block::<T>(spec, words, block as u32 * spec.bits, m, spec.spot(block));
    }
}

#[inline(always)]
fn get_block<T: Tests>(
    spec: &Spec,
    words: &[u64; WORDS],
    mut at: u32,
    m: &mut Matrix,
    spot: Spot,
) -> u32 {
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
            // The next bits are mostly in the word that was read above.
            let next = if known <= 64 - TEST_BITS { from >> known } else { peek(words, at) };
            let short = TESTS[next as usize % TESTS.len()];
            if short.count > 0
                && at + u32::from(short.count) <= end
                && n + u32::from(short.n) < spec.size
            {
                bits |= u64::from(short.bits) << n;
                n += u32::from(short.n);
                at += u32::from(short.count);
            } else {
                let tested = T::read(words, at, end, n, spec.size);
                bits |= tested.bits;
                (n, at) = (tested.n, tested.at);
            }
        }
        spot.set(m, plane, bits);
    }
    exponent
}
