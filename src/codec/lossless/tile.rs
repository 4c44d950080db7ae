//! The encoder and the decoder of a tile.

use super::super::lorenzo::grid::{Grid, TilePlace};
use super::super::lorenzo::predict::{best_of_tries, sum, Residuals};
use super::super::lorenzo::tiles::{clear_outside, fetch, load, store, Tiles};
use super::super::quantize::{Numbers, LINE, LINES, TILE};
use super::super::simd::Level;
use super::value::Exact;
use super::{Work, BYTES, SPARE};

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
        let Work { values, numbers, lost, zeros: places, rows, bytes } = &mut **work;
        load(x, place, values);
        fetch::<_, false>(x, next, 0);
        fetch::<_, false>(x, next, 1);
        let (mut top, mut digits, mut any) = (1, T::Word::default(), T::Word::default());
        for i in 0..TILE {
            let (exponent, significand, bits) = values[i].fields();
            (top, digits, any) = (exponent.max(top), T::or(digits, significand), T::or(any, bits));
        }
        if any.into() == 0 {
            return None;
        }
        let zeros = digits.into().trailing_zeros().min(T::DIGITS - 1);
        let Some(scale) = T::scale(top, zeros) else { return RAW };
        let mut apart = T::Word::default();
        for i in 0..TILE {
            (numbers[0][i], lost.counts[i], lost.bits[i]) = values[i].split(scale);
            let bits = values[i].fields().2;
            apart = T::or(apart, if numbers[0][i] == 0 { bits } else { T::Word::default() });
        }
        let (apart, mut count) = (apart.into() != 0, 0);
        if apart {
            count = list_zeros(&numbers[0], place, places);
        }
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
        let low = low_bytes_of(residuals, place);
        let how = taken as u8 | (low as u8) << 3 | if apart { APART } else { 0 };
        let [top, more] = (top as u16).to_le_bytes();
        bytes[..HEAD].copy_from_slice(&[zeros as u8, how, top, more]);
        let mut at = rows.put(residuals, low, bytes, HEAD);
        for byte in 0..low {
            for r in 0..LINES {
                let line: &mut [u8; LINE] = bytes[at..].first_chunk_mut()?;
                for i in 0..LINE {
                    line[i] = (residuals[LINE * r + i] >> (8 * byte)) as u8;
                }
                at += place.line(r).1;
            }
        }
        clear_outside(&mut lost.counts, place);
        clear_outside(&mut lost.bits, place);
        at = lost.put::<T>(bytes, at);
        if apart {
            at = put_apart(values, &places[..count], bytes, at);
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
        let Work { values, numbers: [numbers, ..], lost, zeros: places, rows, bytes } = &mut **work;
        let end = tile.len();
        bytes[..BYTES - SPARE].get_mut(..end)?.copy_from_slice(tile);
        let &[zeros, how, top, more] = tile.first_chunk::<HEAD>()?;
        let scale = T::scale(u16::from_le_bytes([top, more]).into(), zeros.into())?;
        let (taken, low) = (how as usize & 7, how as usize >> 3 & 3);
        let differences = grid.differences.get(..taken)?;
        let mut at = rows.get(bytes, HEAD, end, low, numbers)?;
        fetch::<_, true>(x, next, 0);
        if how >= 2 * APART || end < at + low * place.values() {
            return None;
        }
        for byte in 0..low {
            for r in 0..LINES {
                let line: &[u8; LINE] = bytes[at..].first_chunk()?;
                for i in 0..LINE {
                    numbers[LINE * r + i] |= (line[i] as i32) << (8 * byte);
                }
                at += place.line(r).1;
            }
        }
        for i in 0..TILE {
            let number = numbers[i] as u32;
            numbers[i] = (number >> 1) as i32 ^ -((number & 1) as i32);
        }
        for &along in differences {
            sum(numbers, along, place, *level);
        }
        fetch::<_, true>(x, next, 1);
        for i in 0..TILE {
            lost.counts[i] = T::count(numbers[i], scale);
        }
        clear_outside(&mut lost.counts, place);
        fetch::<_, true>(x, next, 2);
        at = lost.get::<T>(bytes, at, end)?;
        for i in 0..TILE {
            values[i] = T::join(numbers[i], lost.counts[i], lost.bits[i], scale);
        }
        fetch::<_, true>(x, next, 3);
        if how & APART != 0 {
            let count = list_zeros(numbers, place, places);
            at = get_apart(values, &places[..count], &bytes[..end], at)?;
        }
        store(values, place, x);
        (at == end).then_some(())
    }
}

/// Chooses how many low bytes of the residuals are stored as bytes.
#[inline(always)]
fn low_bytes_of(residuals: &Numbers, place: &TilePlace) -> usize {
    let (mut wasted, mut count) = ([0; 4], 0);
    for g in 0..LINES / 8 {
        let len = place.line(8 * g).1;
        count += len as u32;
        let mut bits = [0; LINE];
        for line in residuals[8 * LINE * g..8 * LINE * (g + 1)].as_chunks::<LINE>().0 {
            for i in 0..LINE {
                bits[i] |= line[i] as u32;
            }
        }
        for i in 0..LINE {
            let width = if i < len { 32 - bits[i].leading_zeros() } else { 32 };
            for low in 1..4 {
                wasted[low] += (8 * low as u32).saturating_sub(width);
            }
        }
    }
    (1..4).rev().find(|&low| 4 * wasted[low] <= count).unwrap_or(0)
}

/// Lists the places in the array of the integers that are 0. Returns how many there are.
#[inline(always)]
fn list_zeros(integers: &Numbers, place: &TilePlace, places: &mut [u16; TILE]) -> usize {
    let mut count = 0;
    for r in 0..LINES {
        for i in LINE * r..LINE * r + place.line(r).1 {
            places[count % TILE] = i as u16;
            count += (integers[i] == 0) as usize;
        }
    }
    count
}

/// Writes which of the values at these places are not +0, and these values. Returns where they end.
#[inline(always)]
fn put_apart<T: Exact>(
    values: &[T; TILE],
    places: &[u16],
    to: &mut [u8; BYTES],
    at: usize,
) -> usize {
    let mut end = at + places.len().div_ceil(8);
    to[at..end].fill(0);
    for (k, &i) in places.iter().enumerate() {
        let value = values[i as usize];
        if value.to_bits() != 0 {
            to[at + k / 8] |= 1 << (k % 8);
            value.put(&mut to[end..end + T::BYTES]);
            end += T::BYTES;
        }
    }
    end
}

/// Reads what `put_apart` wrote. Returns where it ends, or `None` if that is behind the end of `from`.
#[inline(always)]
fn get_apart<T: Exact>(
    values: &mut [T; TILE],
    places: &[u16],
    from: &[u8],
    at: usize,
) -> Option<usize> {
    let mut end = at + places.len().div_ceil(8);
    for (k, &i) in places.iter().enumerate() {
        if from.get(at + k / 8)? >> (k % 8) & 1 != 0 {
            values[i as usize] = T::get(from.get(end..end + T::BYTES)?);
            end += T::BYTES;
        }
    }
    Some(end)
}
