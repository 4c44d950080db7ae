//! The lost bits of the values of a tile, which vary in number.

use super::super::quantize::{put_word, word, TILE};
use super::value::MOST;
use super::{Room, BYTES, SPARE};

/// Number of runs of lost bits. Each begins at a byte, so that they are written at the same time.
const RUNS: usize = 4;
/// The most bytes of a run: a power of two, within which places need no check.
const RUN: usize = 1024;
/// Numbers of words, which have the bits of four values, and of words of a run.
const WORDS: usize = TILE / 4;
const WORDS_OF_RUN: usize = WORDS / RUNS;
// A word fits one of 64 bits behind up to seven bits.
const _: () = assert!(4 * MOST + 7 < 64 && (4 * MOST * WORDS_OF_RUN) / 8 <= RUN);

/// The lost bits of every value, and their number.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Lost {
    pub bits: [u16; TILE],
    pub counts: [u16; TILE],
    /// The bits of four values, and their number.
    words: [u64; WORDS],
    lengths: [u32; WORDS],
    /// The runs while they are written.
    room: [[u8; RUN + SPARE]; RUNS],
}

impl Lost {
    pub(super) const NEW: Self = Lost {
        bits: [0; TILE],
        counts: [0; TILE],
        words: [0; WORDS],
        lengths: [0; WORDS],
        room: [[0; RUN + SPARE]; RUNS],
    };

    /// Sums up the numbers of the values that are together. Returns where each run of lost bits begins,
    /// and where the last one ends, if the first one begins at `at`.
    #[inline(always)]
    fn runs(&mut self, at: usize) -> [usize; RUNS + 1] {
        for i in 0..WORDS {
            self.lengths[i] = (0..4).fold(0, |sum, k| sum + self.counts[WORDS * k + i] as u32);
        }
        let mut runs = [at; RUNS + 1];
        for (k, run) in self.lengths.as_chunks::<WORDS_OF_RUN>().0.iter().enumerate() {
            runs[k + 1] = runs[k] + (run.iter().sum::<u32>() as usize).div_ceil(8);
        }
        runs
    }

    /// Writes the lost bits to `to` from `at` on. Returns where they end.
    #[inline(always)]
    pub(super) fn put(&mut self, to: &mut Room, at: usize) -> usize {
        let runs = self.runs(at);
        for i in 0..WORDS {
            let (mut word, mut length) = (0, 0);
            for k in 0..4 {
                word |= (self.bits[WORDS * k + i] as u64) << length;
                length += self.counts[WORDS * k + i] as u32;
            }
            self.words[i] = word;
        }
        let (mut bits, mut length, mut ats) = ([0; RUNS], [0; RUNS], [0; RUNS]);
        for i in 0..WORDS_OF_RUN {
            for k in 0..RUNS {
                bits[k] |= self.words[WORDS_OF_RUN * k + i] << length[k];
                put_word(&mut self.room[k], ats[k] % RUN, bits[k]);
                length[k] += self.lengths[WORDS_OF_RUN * k + i] as usize;
                ats[k] += length[k] / 8;
                bits[k] >>= length[k] & 56;
                length[k] %= 8;
            }
        }
        for k in 0..RUNS {
            put_word(&mut self.room[k], ats[k] % RUN, bits[k]);
            let to = &mut to[runs[k]..runs[k + 1]];
            to.copy_from_slice(&self.room[k][..to.len()]);
        }
        runs[RUNS]
    }

    /// Reads the lost bits whose numbers are in `counts`. Returns where they end, or `None` if that is
    /// behind `end`. The bits above the number of a value are undefined.
    #[inline(always)]
    pub(super) fn get(&mut self, from: &Room, at: usize, end: usize) -> Option<usize> {
        let runs = self.runs(at);
        if runs[RUNS] > end {
            return None;
        }
        let mut ats = runs.map(|at| 8 * at);
        for i in 0..WORDS_OF_RUN {
            for k in 0..RUNS {
                let word = word(from, ats[k] / 8 % (BYTES - SPARE)) >> (ats[k] % 8);
                self.words[WORDS_OF_RUN * k + i] = word;
                ats[k] += self.lengths[WORDS_OF_RUN * k + i] as usize;
            }
        }
        for i in 0..WORDS {
            let mut word = self.words[i];
            for k in 0..4 {
                self.bits[WORDS * k + i] = word as u16;
                word >>= self.counts[WORDS * k + i] & 63;
            }
        }
        Some(runs[RUNS])
    }
}
