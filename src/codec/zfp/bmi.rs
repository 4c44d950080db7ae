//! Reads group tests with BMI2 instructions: all runs in 64 bits at once.

use super::block_bits::{low, peek, Tested, Tests, WORDS};
use core::arch::x86_64::{_pdep_u64, _pext_u64};

/// The variant for machines with BMI1, BMI2, LZCNT and POPCNT. Its functions must be inlined into
/// functions that are compiled for these instruction sets.
pub struct Bmi;

/// The even bits: 0101... in binary.
const EVEN: u64 = 0x5555_5555_5555_5555;

impl Tests for Bmi {
    #[inline(always)]
    fn doubled(x: u64) -> u64 {
        // SAFETY: `Bmi` is used only on machines with BMI2.
        unsafe {
            let twice = 3 * _pdep_u64(x, EVEN);
            _pext_u64(twice, twice | EVEN)
        }
    }

    /// Reads group tests. In a run of ones, a flag is the second 1 of a pair, or the 0 behind an
    /// odd number of ones; this 0 ends the tests.
    #[inline(always)]
    fn read(from: &[u64; WORDS], mut at: u32, end: u32, mut n: u32, size: u32) -> Tested {
        let mut tested = 0;
        if peek(from, at) & 1 == 0 {
            return Tested { bits: 0, n, at: at + 1 };
        }
        at += 1;
        loop {
            let bits = peek(from, at);
            let starts = bits & !(bits << 1);
            let (behind_even, behind_odd) =
                (bits.wrapping_add(starts & EVEN), bits.wrapping_add(starts & !EVEN));
            let from_even = bits & !behind_even;
            let flags = (from_even & !EVEN) | (bits & !from_even & EVEN);
            let last = (!bits & ((behind_even & !EVEN) | (behind_odd & EVEN))).trailing_zeros();
            let left = end - at;
            let values = !flags & low(last.min(left));
            let count = values.count_ones();
            let most = size - 1 - n;
            if count > most {
                // Only the last coefficient is left, and its 1 is not in the stream.
                // SAFETY: `Bmi` is used only on machines with BMI2.
                let known = unsafe { _pdep_u64(1 << most, values) }.trailing_zeros();
                // SAFETY: `Bmi` is used only on machines with BMI2.
                let gathered = unsafe { _pext_u64(bits, values & low(known)) } | 1 << most;
                return Tested { bits: tested | gathered << n, n: size, at: at + known };
            }
            // SAFETY: `Bmi` is used only on machines with BMI2.
            tested |= unsafe { _pext_u64(bits, values) } << n;
            n += count;
            if last < 64 && last <= left {
                return Tested { bits: tested, n, at: at + last + 1 };
            }
            if left <= 64 {
                // The block ends in a run whose 1 is not in the stream, or directly behind a 1.
                let ends_in_one = left > 0 && (values & bits) >> (left - 1) == 1;
                return Tested { bits: tested | u64::from(!ends_in_one) << n, n: size, at: end };
            }
            // If the last of the 64 bits is a 1, its flag is not among them; this 1 is read again.
            let again = ((values & bits) >> 63) as u32;
            n -= again;
            tested &= low(n);
            at += 64 - again;
        }
    }
}
