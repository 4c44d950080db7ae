//! The checksum of a stream: a sum over its 64-bit words in which each word counts by its place (NH, Black et al. 1999, with keys that
//! follow from the place). Words may be added in any order, so that kernels compute it as they write.

use super::simd::{dispatch, Kernel};

/// The checksum of `bytes`, the last word filled up with zeros, whose first word is number `first` of the stream.
pub fn checksum(bytes: &[u8], first: u64) -> u64 {
    dispatch(Sum(bytes, first))
}

struct Sum<'a>(&'a [u8], u64);

const WORDS: usize = 16;

impl Kernel for Sum<'_> {
    type Output = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        let Sum(bytes, first) = self;
        let mut sums = [0u64; WORDS];
        let mut blocks = bytes.chunks_exact(8 * WORDS);
        let mut index = first as u32;
        for block in &mut blocks {
            for (k, sum) in sums.iter_mut().enumerate() {
                let word = u64::from_le_bytes(block[8 * k..8 * k + 8].try_into().unwrap_or_default());
                *sum = sum.wrapping_add(term(word, index.wrapping_add(k as u32)));
            }
            index = index.wrapping_add(WORDS as u32);
        }
        for piece in blocks.remainder().chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            sums[0] = sums[0].wrapping_add(term(u64::from_le_bytes(word), index));
            index = index.wrapping_add(1);
        }
        sums.iter().fold(0, |sum, &s| sum.wrapping_add(s))
    }
}

#[inline(always)]
fn term(word: u64, index: u32) -> u64 {
    let low = (word as u32).wrapping_add(index.wrapping_mul(0x9E37_79B1)).wrapping_add(0x7F4A_7C15);
    let high = ((word >> 32) as u32).wrapping_add(index.wrapping_mul(0x85EB_CA77)).wrapping_add(0xC2B2_AE3D);
    u64::from(low).wrapping_mul(u64::from(high))
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
