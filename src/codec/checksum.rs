//! The checksum of streams, profiles and shared time levels: a sum over 64-bit words, mod 2^64. The
//! terms can be added in any order and in any pieces, so that a kernel can compute the checksum of
//! a stream while the kernel writes the stream.
//!
//! A word w with index i contributes `weight(i / RUN) * t(w ^ KEYS[i % RUN])`. Keys and weights are
//! pseudo-random (splitmix64); weights are odd. With x = 2^32 b + a, where a and b are the low and
//! the high 32 bits of x,
//!
//!   t(x) = x + a b = (a + 2^32)(b + 1) - 2^32  mod 2^64,
//!
//! which is NH (Black et al. 1999) with the word itself added, as in XXH3, because a product alone
//! does not see a change of one half of a word while the other half is zero. The checksum detects:
//!
//! - Every change within one half of one word. With b fixed, a change da moves t by (b + 1) da,
//!   whose magnitude lies between 0 and 2^64, both excluded. With a fixed, a change db moves t by
//!   (a + 2^32) db, whose magnitude lies between 0 and 2^65, both excluded: the change is 0 mod
//!   2^64 only if its magnitude is 2^64. Then a + 2^32 would have to be a power of two, hence 2^32,
//!   and |db| would have to be 2^32, which is too large. Multiplication by an odd weight keeps a
//!   number different from 0 mod 2^64.
//! - Words replaced by random words: all replacements but about one in 2^61.
//! - Any fixed pattern of flipped bits in words of random content: all contents but one in 2^32 at
//!   worst. The worst patterns flip only the highest bits of halves (for example the signs of FP32
//!   values), because such a change moves the sum by multiples of 2^31. The tests count the
//!   undetected contents exactly for words of few bits.
//!
//! Keys in an arithmetic progression would be cheaper, but their terms would cancel for patterns
//! that real data have, for example two pulses that move apart by one word each. The checksum gives
//! no protection against deliberate damage: the constants are public.

use super::simd::{dispatch, prefetch, Kernel};

/// Returns the part of the checksum that `bytes` contribute. The first word of `bytes` has index
/// `first` in the stream; the last word is filled up with zeros.
pub fn checksum(bytes: &[u8], first: u64) -> u64 {
    dispatch(Sum(bytes, first))
}

struct Sum<'a>(&'a [u8], u64);

/// Number of consecutive words that share a weight and have one key each.
const RUN: usize = 256;
/// Keys of the words of a run.
static KEYS: [u64; RUN] = keys();

/// Number of words that are added side by side, in vectors.
const LANES: usize = 16;
/// Bytes of `LANES` words.
const BLOCK: usize = 8 * LANES;
/// How many bytes ahead of the words in work the loop prefetches. The arithmetic per word is short,
/// so that without prefetching the loop would wait for memory.
const AHEAD: usize = 16 * BLOCK;

impl Kernel for Sum<'_> {
    type Output = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        let Sum(bytes, first) = self;
        let (begin, run) = (first as usize % RUN, first / RUN as u64);
        let (head, rest) = bytes.split_at(bytes.len().min(8 * ((RUN - begin) % RUN)));
        let mut sums = [0u64; LANES];
        if !head.is_empty() {
            sums[0] = weight(run).wrapping_mul(sum_of_piece(head, &KEYS[begin..]));
        }
        let next = run + (begin > 0) as u64;
        let (runs, tail) = rest.as_chunks::<{ 8 * RUN }>();
        for (i, run) in runs.iter().enumerate() {
            let (of_run, weight) = (sums_of_run(run, rest, i * 8 * RUN), weight(next + i as u64));
            for k in 0..LANES {
                sums[k] = sums[k].wrapping_add(weight.wrapping_mul(of_run[k]));
            }
        }
        sums[0] = sums[0]
            .wrapping_add(weight(next + runs.len() as u64).wrapping_mul(sum_of_piece(tail, &KEYS)));
        sums.iter().fold(0, |sum, &s| sum.wrapping_add(s))
    }
}

/// Returns the sums of t over the words of a whole run, one sum per lane. The run begins at
/// `bytes[at]`.
#[inline(always)]
fn sums_of_run(run: &[u8; 8 * RUN], bytes: &[u8], at: usize) -> [u64; LANES] {
    let mut sums = [0u64; LANES];
    for (i, (block, keys)) in
        run.as_chunks::<BLOCK>().0.iter().zip(KEYS.as_chunks::<LANES>().0).enumerate()
    {
        prefetch::<_, false>(bytes, at + i * BLOCK + AHEAD);
        prefetch::<_, false>(bytes, at + i * BLOCK + AHEAD + BLOCK / 2);
        for k in 0..LANES {
            let mut word = [0; 8];
            word.copy_from_slice(&block[8 * k..8 * k + 8]);
            sums[k] = sums[k].wrapping_add(t(u64::from_le_bytes(word) ^ keys[k]));
        }
    }
    sums
}

/// Returns the sum of t over the words of a part of a run; `keys` begins with the key of the first
/// of these words.
#[inline(always)]
fn sum_of_piece(bytes: &[u8], keys: &[u64]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let whole = words
        .iter()
        .zip(keys)
        .fold(0u64, |sum, (&word, key)| sum.wrapping_add(t(u64::from_le_bytes(word) ^ key)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    match keys.get(words.len()) {
        Some(key) if !rest.is_empty() => whole.wrapping_add(t(u64::from_le_bytes(last) ^ key)),
        _ => whole,
    }
}

/// Returns the term of a word, before its weight; `x` is the word XOR its key.
#[inline(always)]
fn t(x: u64) -> u64 {
    x.wrapping_add((x & 0xFFFF_FFFF).wrapping_mul(x >> 32))
}

/// Returns the weight of all words of run number `run`.
#[inline(always)]
fn weight(run: u64) -> u64 {
    splitmix64(!run) | 1
}

const fn keys() -> [u64; RUN] {
    let mut keys = [0; RUN];
    let mut i = 0;
    while i < RUN {
        keys[i] = splitmix64(i as u64);
        i += 1;
    }
    keys
}

/// Returns number `i` of the sequence of Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", 2014, with seed 0.
#[inline(always)]
const fn splitmix64(i: u64) -> u64 {
    let x = i.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::{checksum, splitmix64, KEYS, RUN};
    use crate::codec::simd::{dispatch, levels, set_level};
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    /// Computes the checksum by its definition, without lanes and runs.
    fn plain(bytes: &[u8], first: u64) -> u64 {
        let term = |(k, piece): (usize, &[u8])| {
            let (mut word, index) = ([0; 8], first + k as u64);
            word[..piece.len()].copy_from_slice(piece);
            let x = u64::from_le_bytes(word) ^ splitmix64(index % 256);
            (splitmix64(!(index / 256)) | 1)
                .wrapping_mul(x.wrapping_add((x as u32 as u64) * (x >> 32)))
        };
        bytes.chunks(8).enumerate().map(term).fold(0, u64::wrapping_add)
    }

    proptest! {
        /// The checksum equals its definition at every instruction set and for every index of the
        /// first word; the checksums of pieces add up.
        #[test]
        fn is_what_it_is_defined_to_be(
            words in prop::collection::vec(any::<u64>(), 0..900), cut in 0..8usize, at in any::<prop::sample::Index>(),
            first in prop_oneof![Just(0), Just(8), 0..2000u64, (1u64 << 31) - 300..(1 << 31) + 300, (1u64 << 32) - 300..(1 << 32) + 300, 0..1u64 << 60],
        ) {
            let mut whole = bytes(&words);
            whole.truncate(whole.len().saturating_sub(cut));
            let at = 8 * at.index(whole.len() / 8 + 1);
            for level in levels() {
                set_level(level);
                prop_assert_eq!(checksum(&whole, first), plain(&whole, first));
                let pieces = checksum(&whole[..at], first).wrapping_add(checksum(&whole[at..], first + at as u64 / 8));
                prop_assert_eq!(pieces, plain(&whole, first));
            }
        }

        /// The checksum detects a changed half of a word (for any word, any index and any change),
        /// an appended word of zero, and two swapped words.
        #[test]
        fn notices(
            words in prop::collection::vec(any::<u64>(), 2..80), at in any::<prop::sample::Index>(), change in 1..=u32::MAX, first in any::<u32>(),
        ) {
            let first = u64::from(first);
            let (whole, k) = (checksum(&bytes(&words), first), at.index(words.len()));
            for shift in [0, 32] {
                let mut other = words.clone();
                other[k] ^= u64::from(change) << shift;
                prop_assert_ne!(whole, checksum(&bytes(&other), first));
            }
            let mut swapped = words.clone();
            swapped.swap(0, k);
            prop_assert!(swapped == words || whole != checksum(&bytes(&swapped), first));
            prop_assert_ne!(whole, checksum(&bytes(&[&words[..], &[0]].concat()), first));
        }
    }

    /// No word hides a change of its own half: neither words that the key makes 0 or extreme, nor
    /// words that a weaker checksum (a product of halves plus multiples of the index) would not
    /// see, up to indices far beyond 2^32.
    #[test]
    fn no_word_is_blind() {
        const SPECIAL: [u32; 8] =
            [0, 1, 2, 0x7FFF_FFFF, 0x8000_0000, 0x8000_0001, 0xFFFF_FFFE, 0xFFFF_FFFF];
        // At index 110066197 such a weaker checksum does not see FP32 value [2 * 110066197 + 1]
        // where the FP32 value before it is 0.
        let places = (0..2 * RUN as u64).chain([
            110_066_197,
            110_066_205,
            (1 << 32) - 1,
            1 << 32,
            (1 << 40) + 77,
        ]);
        for place in places {
            let low = 0u32.wrapping_sub(
                0x7F4A_7C15u32.wrapping_add(0x9E37_79B1u32.wrapping_mul(place as u32)),
            );
            let high = 0u32.wrapping_sub(
                0xC2B2_AE3Du32.wrapping_add(0x85EB_CA77u32.wrapping_mul(place as u32)),
            );
            let keyed = SPECIAL.iter().flat_map(|a| {
                SPECIAL.map(|b| KEYS[place as usize % RUN] ^ (u64::from(*a) | u64::from(b) << 32))
            });
            for word in keyed.chain([
                0,
                u64::MAX,
                low.into(),
                u64::from(high) << 32,
                u64::from(low) | u64::from(high) << 32,
            ]) {
                let sum = checksum(&word.to_le_bytes(), place);
                for change in
                    SPECIAL.into_iter().skip(1).chain((0..32).map(|bit| 1 << bit)).map(u64::from)
                {
                    for change in [change, change << 32] {
                        assert_ne!(
                            sum,
                            checksum(&(word ^ change).to_le_bytes(), place),
                            "word {word:#x} at {place}, {change:#x}"
                        );
                    }
                }
            }
        }
    }

    /// Counts exactly, for the checksum with words of 2 w bits: of all patterns of flipped bits in
    /// one word and in two words, every pattern stays undetected in at most 2^-w of all contents,
    /// and a pattern within one half of a word is always detected.
    #[test]
    fn small_words_are_counted_out() {
        for w in 2..=5 {
            let (words, half) = (1usize << (2 * w), (1usize << w) - 1);
            let t: Vec<usize> = (0..words).map(|x| (x + (x & half) * (x >> w)) % words).collect();
            // moves[pattern][d]: the number of contents for which flipping the bits of the pattern
            // moves t by d.
            let moves: Vec<Vec<u64>> = (0..words)
                .map(|flipped| {
                    let mut moves = vec![0; words];
                    (0..words).for_each(|x| moves[(words + t[x ^ flipped] - t[x]) % words] += 1);
                    moves
                })
                .collect();
            for flipped in 1..words {
                let unnoticed = moves[flipped][0] as usize;
                assert!(unnoticed <= words >> w, "width {w}, {flipped:#x}: {unnoticed} of {words}");
                assert!(
                    unnoticed == 0 || flipped & half != 0 && flipped >> w != 0,
                    "width {w}, {flipped:#x}"
                );
            }
            for weight in [1, 5, words / 2 + 3].into_iter().take(if w > 3 { 0 } else { 3 }) {
                for (a, b) in (1..words).flat_map(|a| (0..words).map(move |b| (a, b))) {
                    let unnoticed: u64 = (0..words)
                        .map(|by| moves[a][(words * words - weight * by) % words] * moves[b][by])
                        .sum();
                    assert!(
                        unnoticed as usize <= (words * words) >> w,
                        "width {w}, {a:#x} and {b:#x}: {unnoticed}"
                    );
                }
            }
        }
    }

    /// Changes with the patterns that real data have, on fields of zeros, of one value and of
    /// smooth values: every change gives a different sum.
    #[test]
    fn structured_changes_are_told_apart() {
        const WORDS: usize = 520;
        let single = |x: f32| u64::from(x.to_bits());
        let smooth = |i: usize| {
            single((i as f32 * 0.02).sin()) | single((i as f32 * 0.02 + 0.01).sin()) << 32
        };
        let fields: [&dyn Fn(usize) -> u64; 3] =
            [&|_| 0, &|_| single(1.0) | single(1.0) << 32, &smooth];
        for (number, field) in fields.into_iter().enumerate() {
            let words: Vec<u64> = (0..WORDS).map(field).collect();
            let sum = checksum(&bytes(&words), 8);
            let mut seen = HashSet::from([sum]);
            let mut is_new = |sum: u64, what: &str, at: usize| {
                assert!(seen.insert(sum), "field {number}: {what}, {at}")
            };
            // Returns by how much the sum moves where word i becomes `to`.
            let moved = |i: usize, to: u64| {
                let term = |word: u64| checksum(&word.to_le_bytes(), 8 + i as u64);
                term(to).wrapping_sub(term(words[i]))
            };
            // Every pair of places for two pulses gives a sum of its own.
            for pulse in [
                single(-1.37),
                single(0.1) << 32,
                1.5f64.to_bits(),
                single(0.7) | single(0.3) << 32,
            ] {
                let moves: Vec<u64> = (0..WORDS).map(|i| moved(i, words[i] ^ pulse)).collect();
                for i in 0..WORDS {
                    (i + 1..WORDS).step_by(3).for_each(|j| {
                        is_new(
                            sum.wrapping_add(moves[i]).wrapping_add(moves[j]),
                            "pulses",
                            i * WORDS + j,
                        )
                    });
                }
            }
            // All words from any word to any later word are changed.
            let changes: [(&str, &dyn Fn(usize) -> u64); 3] = [
                ("NaN", &|_| u64::MAX),
                ("bits counted up", &|i| words[i].wrapping_add(0x1_0000_0001)),
                ("signs", &|i| words[i] ^ 0x8000_0000_8000_0000),
            ];
            for (what, change) in changes {
                for begin in (0..WORDS).step_by(7) {
                    let mut sum = sum;
                    for i in begin..WORDS {
                        sum = sum.wrapping_add(moved(i, change(i)));
                        is_new(sum, what, begin * WORDS + i);
                    }
                }
            }
            // The field is cut at every length, and the whole field begins at another index.
            (1..WORDS).for_each(|end| is_new(checksum(&bytes(&words[..end]), 8), "cut", end));
            (9..4000).for_each(|first| {
                is_new(checksum(&bytes(&words), first), "in another place", first as usize)
            });
        }
    }

    /// Two words that swap places change the sum, also across runs and across 2^32 words.
    #[test]
    fn places_differ() {
        let pair = [1.0f32, 1.5].map(|x| u64::from(x.to_bits()));
        let sum = |at: [u64; 2], words: [u64; 2]| {
            (0..2).map(|k| checksum(&words[k].to_le_bytes(), at[k])).fold(0, u64::wrapping_add)
        };
        for distance in
            (1..5000).chain((0..50).map(|k| 1 << k)).chain([(1 << 32) - 1, (1 << 32) + 1])
        {
            for at in [0, 8, 255] {
                let at = [at, at + distance];
                assert_ne!(sum(at, pair), sum(at, [pair[1], pair[0]]), "{at:?}");
            }
        }
    }

    /// The checksum of given words never changes from version to version: files contain checksums.
    #[test]
    fn stays_the_same() {
        let words: Vec<u64> = (0..1000).map(|i| splitmix64(i + 5)).collect();
        assert_eq!(dispatch(super::Sum(&bytes(&words)[..7995], 8)), 18_265_888_552_009_382_094);
    }
}
