//! The encoder and the decoder of a tile.

use super::super::lorenzo::grid::{Grid, TilePlace};
use super::super::lorenzo::predict::{best_of_tries, sum, Residuals};
use super::super::lorenzo::tiles::{clear_outside, fetch, load, store, Tiles};
use super::super::quantize::{transposed, word, ROWS, TILE};
use super::super::simd::Level;
use super::rows::parts;
use super::value::Exact;
use super::{Work, BYTES, SPARE};
use std::iter::successors;

/// Bit of the second byte of a tile: there are values apart.
const APART: u8 = 1 << 5;
/// Bytes before the widths of the rows.
const HEAD: usize = 4;

/// Codes the tiles of one array.
pub(super) struct Coding<'a, T: Exact> {
    pub grid: &'a Grid,
    pub work: &'a mut Work<T>,
    pub level: Level,
}

impl<T: Exact> Tiles<T> for Coding<'_, T> {
    #[inline(always)]
    fn encode(&mut self, x: &[T], [place, next]: [&TilePlace; 2]) -> Option<usize> {
        const RAW: Option<usize> = Some(usize::MAX);
        let Coding { grid, work, .. } = self;
        let Work { values, numbers, lost, single, rows, bytes } = &mut **work;
        load(x, place, values);
        fetch::<_, false>(x, next, 0);
        fetch::<_, false>(x, next, 1);
        let (mut top, mut digits, mut any) = (1, T::Word::default(), T::Word::default());
        for i in 0..TILE {
            let (exponent, significand, bits) = values[i].fields();
            (top, digits, any) = (exponent.max(top), digits | significand, any | bits);
        }
        if any.into() == 0 {
            return None;
        }
        let zeros = digits.into().trailing_zeros().min(T::DIGITS - 1);
        let Some(scale) = T::scale(top, zeros) else { return RAW };
        for i in 0..TILE {
            (numbers[0][i], lost.counts[i], lost.bits[i]) = values[i].split(scale);
            single[i] = (numbers[0][i] == 0 && values[i].fields().2 != T::Word::default()) as u8;
        }
        clear_outside(single, place);
        let mut mask = [0; ROWS];
        bits_of(single, &mut mask);
        let apart = mask != [0; ROWS];
        fetch::<_, false>(x, next, 2);
        fetch::<_, false>(x, next, 3);
        let Some(Residuals { at, taken, .. }) = best_of_tries(numbers, grid, place) else {
            return RAW;
        };
        let residuals = &mut numbers[at];
        for i in 0..TILE {
            residuals[i] = residuals[i] << 1 ^ residuals[i] >> 31;
        }
        clear_outside(residuals, place);
        let (low, mut at) = rows.put(residuals, place, bytes, HEAD);
        let how = taken as u8 | (low as u8) << 3 | if apart { APART } else { 0 };
        let [top, more] = (top as u16).to_le_bytes();
        bytes[..HEAD].copy_from_slice(&[zeros as u8, how, top, more]);
        for byte in 0..scale.low {
            for i in 0..TILE {
                single[i] = (values[i].to_bits() >> (8 * byte + scale.zeros)) as u8;
            }
            at = parts(place, at, |i, at, n| bytes[at..at + n].copy_from_slice(&single[i..i + n]));
        }
        clear_outside(&mut lost.counts, place);
        clear_outside(&mut lost.bits, place);
        at = lost.put(bytes, at);
        if apart {
            let used = mask.map(|bits| (bits != 0) as u8);
            bits_of(&used, &mut bytes[at..at + ROWS / 8]);
            at += ROWS / 8;
            for j in 0..ROWS {
                bytes[at] = mask[j];
                at += used[j] as usize;
            }
            for i in ones(&mask) {
                values[i].put(&mut bytes[at..at + T::BYTES]);
                at += T::BYTES;
            }
        }
        Some(at)
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        &self.work.bytes
    }

    #[inline(always)]
    fn decode(&mut self, tile: &[u8], x: &mut [T], [place, next]: [&TilePlace; 2]) -> Option<()> {
        let Coding { grid, work, level } = self;
        let Work { values, numbers: [numbers, ..], lost, single, rows, bytes } = &mut **work;
        let end = tile.len();
        bytes[..BYTES - SPARE].get_mut(..end)?.copy_from_slice(tile);
        let &[zeros, how, top, more] = tile.first_chunk::<HEAD>()?;
        let scale = T::scale(u16::from_le_bytes([top, more]).into(), zeros.into())?;
        let differences = grid.differences.get(..how as usize & 7)?;
        let low = how as usize >> 3 & 3;
        let mut at = rows.get(bytes, HEAD, end, low, place, numbers)?;
        let mut low = at;
        at += scale.low as usize * place.values();
        fetch::<_, true>(x, next, 0);
        if how >= 2 * APART || end < at {
            return None;
        }
        for &along in differences {
            sum(numbers, along, place, *level);
        }
        fetch::<_, true>(x, next, 1);
        for i in 0..TILE {
            lost.counts[i] = scale.count(numbers[i]);
        }
        clear_outside(&mut lost.counts, place);
        fetch::<_, true>(x, next, 2);
        at = lost.get(bytes, at, end)?;
        for i in 0..TILE {
            values[i] = T::join(numbers[i], lost.counts[i], lost.bits[i], scale);
        }
        for byte in 0..scale.low {
            low =
                parts(place, low, |i, at, n| single[i..i + n].copy_from_slice(&bytes[at..at + n]));
            for i in 0..TILE {
                let of_value = (single[i] as u64) << (8 * byte + scale.zeros);
                values[i] = T::from_bits(values[i].to_bits() | of_value);
            }
        }
        fetch::<_, true>(x, next, 3);
        if how & APART != 0 {
            let (mut mask, used) = ([0; ROWS], at);
            at += ROWS / 8;
            for j in ones(&bytes[used..at]) {
                mask[j] = *bytes.get(at)?;
                at += 1;
            }
            for i in ones(&mask) {
                values[i] = T::get(bytes.get(at..at + T::BYTES)?);
                at += T::BYTES;
            }
        }
        store(values, place, x);
        (at == end).then_some(())
    }
}

/// Writes the lowest bit of every byte.
#[inline(always)]
fn bits_of(bytes: &[u8], to: &mut [u8]) {
    for (j, to) in to.iter_mut().enumerate() {
        *to = transposed(word(bytes, 8 * j)) as u8;
    }
}

/// Returns the places of the bits that are set.
#[inline(always)]
fn ones(bits: &[u8]) -> impl Iterator<Item = usize> + '_ {
    (0..bits.len()).step_by(8).flat_map(|first| {
        let left = successors(Some(word(bits, first)), |left| Some(left & left.wrapping_sub(1)));
        let left = left.take_while(|&left| left != 0);
        left.map(move |left| 8 * first + left.trailing_zeros() as usize)
    })
}
