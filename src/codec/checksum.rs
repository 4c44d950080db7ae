//! The checksum of a stream: a sum over its 64-bit words in which each word counts by its place (NH, Black et al. 1999, with keys that
//! follow from the place). Words may be added in any order, so that kernels compute it as they write.

// Lanes are counted.
#![allow(clippy::needless_range_loop)]

use super::simd::{dispatch, prefetch, Kernel};

/// The checksum of `bytes`, the last word filled up with zeros, whose first word is number `first` of the stream.
pub fn checksum(bytes: &[u8], first: u64) -> u64 {
    dispatch(Sum(bytes, first))
}

struct Sum<'a>(&'a [u8], u64);

const WORDS: usize = 16;
/// Bytes of so many words.
const BLOCK: usize = 8 * WORDS;
/// How far ahead memory is asked for: there is little to do for each word, and the checksum would wait for most of them.
const AHEAD: usize = 16 * BLOCK;

impl Kernel for Sum<'_> {
    type Output = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        let Sum(bytes, first) = self;
        let mut sums = [0u64; WORDS];
        let mut keys: [Key; WORDS] = std::array::from_fn(|k| Key::of((first as u32).wrapping_add(k as u32)));
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        for (i, block) in blocks.iter().enumerate() {
            prefetch::<_, false>(bytes, i * BLOCK + AHEAD);
            prefetch::<_, false>(bytes, i * BLOCK + AHEAD + BLOCK / 2);
            for k in 0..WORDS {
                let mut word = [0; 8];
                word.copy_from_slice(&block[8 * k..8 * k + 8]);
                sums[k] = sums[k].wrapping_add(keys[k].term(u64::from_le_bytes(word)));
                keys[k] = keys[k].ahead(WORDS as u32);
            }
        }
        for (piece, key) in rest.chunks(8).zip(keys) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            sums[0] = sums[0].wrapping_add(key.term(u64::from_le_bytes(word)));
        }
        sums.iter().fold(0, |sum, &s| sum.wrapping_add(s))
    }
}

/// What is added to the halves of a word. Words of 64 bits, of which the low half counts: that is what vectors multiply.
#[derive(Clone, Copy)]
struct Key {
    low: u64,
    high: u64,
}

const STEP: Key = Key { low: 0x9E37_79B1, high: 0x85EB_CA77 };

impl Key {
    /// That of a place.
    #[inline(always)]
    fn of(index: u32) -> Self {
        Key { low: 0x7F4A_7C15, high: 0xC2B2_AE3D }.ahead(index)
    }

    /// That of `by` places on.
    #[inline(always)]
    fn ahead(self, by: u32) -> Self {
        let add = |key: u64, step: u64| key.wrapping_add(step.wrapping_mul(u64::from(by)));
        Key { low: add(self.low, STEP.low), high: add(self.high, STEP.high) }
    }

    #[inline(always)]
    fn term(self, word: u64) -> u64 {
        const HALF: u64 = 0xFFFF_FFFF;
        (word.wrapping_add(self.low) & HALF).wrapping_mul((word >> 32).wrapping_add(self.high) & HALF)
    }
}

#[cfg(test)]
mod tests {
    use super::checksum;
    use proptest::prelude::*;

    proptest! {
        /// Pieces add up; a changed bit, a swap of words or zeros behind the end are noticed.
        #[test]
        fn notices(words in prop::collection::vec(any::<u64>(), 2..80), at in any::<prop::sample::Index>(), bit in 0..64u32) {
            let bytes = |words: &[u64]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
            let whole = checksum(&bytes(&words), 3);
            let k = at.index(words.len());
            prop_assert_eq!(whole, checksum(&bytes(&words[..k]), 3).wrapping_add(checksum(&bytes(&words[k..]), 3 + k as u64)));
            let mut other = words.clone();
            other[k] ^= 1 << bit;
            prop_assert_ne!(whole, checksum(&bytes(&other), 3));
            let mut swapped = words.clone();
            swapped.swap(0, k);
            prop_assert!(swapped == words || whole != checksum(&bytes(&swapped), 3));
            prop_assert_ne!(whole, checksum(&bytes(&[&words[..], &[0]].concat()), 3));
        }
    }
}
