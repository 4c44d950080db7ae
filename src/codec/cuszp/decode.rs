//! The decoder: from blocks to values.

use super::super::quantize::{low_bytes, scan, to_bytes, word, Quantised, LINE, LINES, TILE};
use super::super::simd::{prefetch, Kernel, Level};
use super::{Work, AS_IS, ROOM};

/// Masks for eight planes: mask n keeps the first n planes.
const FIRST_PLANES: [[u8; LINE]; 9] = {
    let mut masks = [[0; LINE]; 9];
    let mut byte = 0;
    while byte < 9 * LINE {
        let (planes, i) = (byte / LINE, byte % LINE);
        masks[planes][i] = if i < 4 * planes { 0xFF } else { 0 };
        byte += 1;
    }
    masks
};

/// Rearranges the planes of every block into rows: the inverse of `encode::to_planes`.
#[inline(always)]
fn from_planes(planes: &[u8; TILE], rows: &mut [u8; TILE]) {
    for block in 0..LINES {
        let (mut from, mut to) = ([0; LINE], [0; LINE]);
        from.copy_from_slice(&planes[LINE * block..LINE * (block + 1)]);
        for i in 0..LINE {
            to[i] = from[i % 8 * 4 + i / 8];
        }
        rows[LINE * block..LINE * (block + 1)].copy_from_slice(&to);
    }
}

/// Bytes of the stream that are prefetched: most of the next 64 blocks.
const AHEAD: usize = 2048;

pub(super) struct Decode<'a, T> {
    pub work: &'a mut Work<T>,
    pub from: &'a [u8],
    pub x: &'a mut [T],
    pub level: Level,
}

/// The parts of a block that a rate byte describes.
#[derive(Clone, Copy)]
struct Rate {
    /// Bytes of the first number if it is stored apart, or 0.
    apart: u8,
    /// Bytes of the signs.
    signs: u8,
    planes: u8,
    /// Bytes of the block; 0 for a raw block.
    size: u8,
    /// Whether a stream may have this rate byte.
    valid: bool,
}

const RATES: [Rate; 256] = {
    let mut rates = [Rate { apart: 0, signs: 0, planes: 0, size: 0, valid: false }; 256];
    (rates[0].valid, rates[AS_IS as usize].valid) = (true, true);
    let mut rate = 1;
    while rate < 256 {
        if rate < 32 || rate >= 0x80 {
            let (apart, planes) = if rate < 32 {
                (0, rate as u8)
            } else {
                (1 + (rate as u8 >> 5 & 3), rate as u8 & 31)
            };
            rates[rate] =
                Rate { apart, signs: 4, planes, size: apart + 4 + 4 * planes, valid: true };
        }
        rate += 1;
    }
    rates
};

impl<T: Quantised> Kernel for Decode<'_, T> {
    type Output = Option<()>;

    /// Decodes the array. Returns `None` if the stream is damaged.
    #[inline(always)]
    fn run(self) -> Option<()> {
        let Decode { work, from, x, level } = self;
        let blocks = x.len().div_ceil(LINE);
        let (head, rest) = from.split_at_checked(8)?;
        let (rates, mut rest) = rest.split_at_checked(blocks)?;
        let step = f64::from_bits(word(head, 0));
        if !(step > 0.0 && step.is_finite()) {
            return None;
        }
        let step = T::from_f64(step);
        for (rates, x) in rates.chunks(LINES).zip(x.chunks_mut(TILE)) {
            let (mut sizes, mut size) = ([0; LINES], 0);
            let mut valid = true;
            for (block, &rate) in rates.iter().enumerate() {
                let as_is = (x.len() - LINE * block).min(LINE) * T::BYTES;
                sizes[block] =
                    if rate == AS_IS { as_is } else { RATES[rate as usize].size as usize };
                size += sizes[block];
                valid &= RATES[rate as usize].valid;
                for i in (0..LINE).step_by(64 / T::BYTES) {
                    prefetch::<_, true>(x, LINE * block + i);
                }
            }
            let (batch, more) = rest.split_at_checked(size)?;
            rest = more;
            for at in (0..AHEAD).step_by(64) {
                prefetch::<_, false>(rest, at);
            }
            if !valid {
                return None;
            }
            work.stream[..ROOM - 256].get_mut(..size)?.copy_from_slice(batch);
            work.get(rates, &sizes, level);
            if let Ok(x) = <&mut [T; TILE]>::try_from(&mut *x) {
                for i in 0..TILE {
                    x[i] = T::from_i32(work.numbers[0][i]) * step;
                }
            } else {
                for (x, &q) in x.iter_mut().zip(&work.numbers[0]) {
                    *x = T::from_i32(q) * step;
                }
            }
            let mut at = 0;
            for (block, &rate) in rates.iter().enumerate() {
                if rate == AS_IS {
                    let end = x.len().min(LINE * (block + 1));
                    for (x, from) in x[LINE * block..end]
                        .iter_mut()
                        .zip(work.stream[at..].chunks_exact(T::BYTES))
                    {
                        *x = T::get(from);
                    }
                }
                at += sizes[block];
            }
        }
        rest.is_empty().then_some(())
    }
}

impl<T: Quantised> Work<T> {
    /// Reads up to 64 blocks from `stream` and leaves their quantised values in `numbers[0]`.
    #[inline(always)]
    fn get(&mut self, rates: &[u8], sizes: &[usize; LINES], level: Level) {
        let Work { numbers: [x, _], bytes, rows, planes, signs, stream, .. } = self;
        let mut all = [0; LINES];
        all[..rates.len()].copy_from_slice(rates);
        let mut most = 0;
        for rate in all {
            most = most.max(if rate == AS_IS { 0 } else { rate & 31 });
        }
        let slices = (most as usize).div_ceil(8).max(1);
        let mut first = [0u32; LINES];
        let mut end = 0;
        for block in 0..LINES {
            let rate = RATES[all[block] as usize];
            first[block] = low_bytes(word(stream, end), rate.apart as usize) as u32;
            let at = end + rate.apart as usize;
            signs[block] = low_bytes(word(stream, at), rate.signs as usize) as u32;
            let at = at + rate.signs as usize;
            for (k, planes) in planes[..slices].iter_mut().enumerate() {
                let mask = &FIRST_PLANES[(rate.planes as usize).saturating_sub(8 * k).min(8)];
                let (mut eight, from) = ([0; LINE], &stream[at + LINE * k..at + LINE * (k + 1)]);
                for i in 0..LINE {
                    eight[i] = from[i] & mask[i];
                }
                planes[LINE * block..LINE * (block + 1)].copy_from_slice(&eight);
            }
            end += sizes[block];
        }
        if most >= 8 {
            x.fill(0);
            for (k, planes) in planes[..slices].iter().enumerate() {
                from_planes(planes, rows);
                to_bytes::<true>(rows, bytes);
                for i in 0..TILE {
                    x[i] |= (bytes[i] as i32) << (8 * k);
                }
            }
            planes[0].fill(0);
        }
        // Plane 7 of every block is empty at this point: the signs take its place.
        for block in 0..LINES {
            let plane = LINE * block + 28;
            planes[0][plane..plane + 4].copy_from_slice(&signs[block].to_le_bytes());
        }
        from_planes(&planes[0], rows);
        to_bytes::<true>(rows, bytes);
        for i in 0..TILE {
            let sign = (bytes[i] as i8 >> 7) as i32;
            let magnitude = if most < 8 { (bytes[i] & 0x7F) as i32 } else { x[i] };
            x[i] = (magnitude ^ sign).wrapping_sub(sign);
        }
        for block in 0..LINES {
            let sign = -((signs[block] >> 7 & 1) as i32);
            let first = (first[block] as i32 ^ sign).wrapping_sub(sign);
            x[LINE * block] = x[LINE * block].wrapping_add(first);
        }
        scan(x, false, level);
    }
}
