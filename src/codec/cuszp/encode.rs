//! The encoder: from values to blocks.

use super::super::quantize::{
    difference_back, put_word, to_rows, used_bytes, word, Quantised, Quantum, LINE, LINES, TILE,
};
use super::super::simd::{prefetch, Kernel};
use super::{Work, AS_IS};

/// The bits of the first number of a block in its first row, and in two planes.
const FIRST_IN_ROWS: u64 = 0x8080_8080_8080_8080;
const FIRST_IN_PLANES: u64 = 0x0000_0080_0000_0080;

/// Rearranges the rows of every block into planes: transposes a 4 x 8 matrix of bytes.
#[inline(always)]
fn to_planes(rows: &[u8; TILE], planes: &mut [u8; TILE]) {
    for block in 0..LINES {
        let (mut from, mut to) = ([0; LINE], [0; LINE]);
        from.copy_from_slice(&rows[LINE * block..LINE * (block + 1)]);
        for i in 0..LINE {
            to[i] = from[i % 4 * 8 + i / 4];
        }
        planes[LINE * block..LINE * (block + 1)].copy_from_slice(&to);
    }
}

pub(super) struct Encode<'a, T> {
    pub work: &'a mut Work<T>,
    pub x: &'a [T],
    pub quantum: Quantum<T>,
    pub to: &'a mut [u8],
}

impl<T: Quantised> Kernel for Encode<'_, T> {
    type Output = usize;

    /// Codes the array and returns the bytes of the stream.
    #[inline(always)]
    fn run(self) -> usize {
        let Encode { work, x, quantum, to } = self;
        put_word(to, 0, quantum.step.to_f64().to_bits());
        let mut at = 8 + x.len().div_ceil(LINE);
        let all = x;
        for (batch, x) in all.chunks(TILE).enumerate() {
            let good = work.quantise(x, &quantum);
            let slices = work.split();
            let mut size = 0;
            for block in 0..x.len().div_ceil(LINE) {
                let x = &x[LINE * block..x.len().min(LINE * (block + 1))];
                for i in (0..LINE).step_by(64 / T::BYTES) {
                    prefetch::<_, false>(all, TILE * (batch + 1) + LINE * block + i);
                }
                let good = good >> block & 1 != 0;
                let (rate, next) = if good { work.put(block, slices, size) } else { (AS_IS, size) };
                size = next;
                if rate == AS_IS {
                    for x in x {
                        x.put(&mut work.stream[size..size + T::BYTES]);
                        size += T::BYTES;
                    }
                }
                to[8 + LINES * batch + block] = rate;
            }
            to[at..at + size].copy_from_slice(&work.stream[..size]);
            at += size;
        }
        at
    }
}

impl<T: Quantised> Work<T> {
    /// Quantises 64 blocks; bit b of the result is set if all values of block b keep the bound.
    #[inline(always)]
    fn quantise(&mut self, x: &[T], quantum: &Quantum<T>) -> u64 {
        self.values[..x.len()].copy_from_slice(x);
        self.values[x.len()..].fill(T::default());
        let [numbers, differences] = &mut self.numbers;
        let mut good = u64::MAX;
        if !quantum.quantise(&self.values, numbers) {
            for block in 0..LINES {
                let mut x = [T::default(); LINE];
                x.copy_from_slice(&self.values[LINE * block..LINE * (block + 1)]);
                good &= !((!quantum.quantise(&x, &mut [0; LINE]) as u64) << block);
            }
        }
        difference_back::<1, TILE>(numbers, differences);
        for i in (0..TILE).step_by(LINE) {
            differences[i] = numbers[i];
        }
        if x.len() < TILE {
            differences[x.len()..].fill(0);
        }
        good
    }

    /// Splits the differences into signs and planes; returns the largest magnitude's size in bytes.
    #[inline(always)]
    fn split(&mut self) -> usize {
        let Work { numbers: [_, x], bytes, rows, planes, signs, widths: [all, others], .. } = self;
        let mut bits = 0;
        for i in 0..TILE {
            bits |= x[i].unsigned_abs();
        }
        let slices = used_bytes(bits as u64).max(1);
        for i in 0..TILE {
            bytes[i] = (x[i] as u32 >> 31) as u8;
        }
        to_rows::<true>(bytes, rows);
        to_planes(rows, &mut planes[0]);
        for block in 0..LINES {
            signs[block] = word(&planes[0], LINE * block) as u32;
        }
        (*all, *others) = ([0; LINES], [0; LINES]);
        for (k, planes) in planes[..slices].iter_mut().enumerate() {
            for i in 0..TILE {
                bytes[i] = (x[i].unsigned_abs() >> (8 * k)) as u8;
            }
            to_rows::<true>(bytes, rows);
            to_planes(rows, planes);
            for block in 0..LINES {
                let row = LINE * block;
                let (first, behind) = (
                    word(rows, row),
                    word(rows, row + 8) | word(rows, row + 16) | word(rows, row + 24),
                );
                let (a, b) = (behind | first, behind | first & !FIRST_IN_ROWS);
                all[block] = if a == 0 { all[block] } else { (8 * k + used_bytes(a)) as u8 };
                others[block] = if b == 0 { others[block] } else { (8 * k + used_bytes(b)) as u8 };
            }
        }
        slices
    }

    /// Writes a block to `stream` from `at` on. Returns the rate byte and the end of the block.
    #[inline(always)]
    fn put(&mut self, block: usize, slices: usize, mut at: usize) -> (u8, usize) {
        let Work { numbers: [_, x], planes, signs, widths: [all, others], stream, .. } = self;
        let (all, others) = (all[block] as usize, others[block] as usize);
        let (mut rate, mut width, mut kept) = (all as u8, all, u64::MAX);
        if all > 31 {
            return (AS_IS, at);
        }
        let first = x[LINE * block].unsigned_abs();
        let apart = used_bytes(first as u64);
        if apart + 4 * others < 4 * all {
            (rate, width, kept) =
                (0x80 | ((apart - 1) << 5 | others) as u8, others, !FIRST_IN_PLANES);
            put_word(stream, at, first as u64);
            at += apart;
        }
        if rate == 0 {
            return (0, at);
        }
        stream[at..at + 4].copy_from_slice(&signs[block].to_le_bytes());
        at += 4;
        for (k, planes) in planes[..slices].iter().enumerate() {
            for i in (0..LINE).step_by(8) {
                put_word(stream, at + LINE * k + i, word(planes, LINE * block + i) & kept);
            }
        }
        (rate, at + 4 * width)
    }
}
