//! The lost bits of the values of a tile, which vary in number.

use super::super::quantize::{put_word, word, Numbers, TILE};
use super::value::Exact;
use super::{BYTES, SPARE};

/// Number of runs of lost bits. Each begins at a byte, so that they are written at the same time.
const RUNS: usize = 4;
/// The most bytes of a run: a power of two, within which places need no check.
const RUN: usize = 8 * TILE / RUNS;

/// The lost bits of every value, and their number.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Lost<W> {
    pub bits: [W; TILE],
    pub counts: Numbers,
    /// The lost bits of the values that follow each other in the stream, `Exact::TOGETHER` at a time,
    /// and their number.
    words: [u64; TILE],
    lengths: Numbers,
    /// The runs while they are written.
    room: [[u8; RUN + SPARE]; RUNS],
}

impl<W: Copy + Default + Into<u64>> Lost<W> {
    pub(super) fn new() -> Self {
        Lost {
            bits: [W::default(); TILE],
            counts: [0; TILE],
            words: [0; TILE],
            lengths: [0; TILE],
            room: [[0; RUN + SPARE]; RUNS],
        }
    }

    /// Sums up the numbers of the values that are together. Returns where each run of lost bits begins,
    /// and where the last one ends, if the first one begins at `at`.
    #[inline(always)]
    fn runs<T: Exact<Word = W>>(&mut self, at: usize) -> [usize; RUNS + 1] {
        let (words, more) = (TILE / T::TOGETHER, TILE - TILE / T::TOGETHER);
        self.lengths[..words].copy_from_slice(&self.counts[..words]);
        for i in 0..more {
            self.lengths[i] += self.counts[words + i];
        }
        let mut runs = [at; RUNS + 1];
        for (k, run) in self.lengths[..words].chunks_exact(words / RUNS).enumerate() {
            runs[k + 1] = runs[k] + (run.iter().sum::<i32>() as usize).div_ceil(8);
        }
        runs
    }

    /// Writes the lost bits to `to` from `at` on. Returns where they end.
    #[inline(always)]
    pub(super) fn put<T: Exact<Word = W>>(&mut self, to: &mut [u8; BYTES], at: usize) -> usize {
        let (words, more) = (TILE / T::TOGETHER, TILE - TILE / T::TOGETHER);
        let runs = self.runs::<T>(at);
        for i in 0..words {
            self.words[i] = self.bits[i].into();
        }
        for i in 0..more {
            self.words[i] |= self.bits[words + i].into() << self.counts[i];
        }
        let (mut bits, mut length, mut ats) = ([0; RUNS], [0; RUNS], [0; RUNS]);
        for i in 0..words / RUNS {
            for k in 0..RUNS {
                bits[k] |= self.words[words / RUNS * k + i] << length[k];
                put_word(&mut self.room[k], ats[k] % RUN, bits[k]);
                length[k] += self.lengths[words / RUNS * k + i] as usize;
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
    pub(super) fn get<T: Exact<Word = W>>(
        &mut self,
        from: &[u8; BYTES],
        at: usize,
        end: usize,
    ) -> Option<usize> {
        let (words, more) = (TILE / T::TOGETHER, TILE - TILE / T::TOGETHER);
        let runs = self.runs::<T>(at);
        if runs[RUNS] > end {
            return None;
        }
        let mut ats = runs.map(|at| 8 * at);
        for i in 0..words / RUNS {
            for k in 0..RUNS {
                let word = word(from, ats[k] / 8 % (BYTES - SPARE)) >> (ats[k] % 8);
                self.words[words / RUNS * k + i] = word;
                ats[k] += self.lengths[words / RUNS * k + i] as usize;
            }
        }
        for i in 0..words {
            self.bits[i] = T::word(self.words[i]);
        }
        for i in 0..more {
            self.bits[words + i] = T::word(self.words[i] >> self.counts[i]);
        }
        Some(runs[RUNS])
    }
}
