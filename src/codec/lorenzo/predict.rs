//! Differences and sums along the dimensions of a tile, and the cost of its residuals.

use super::super::quantize::{difference_back, scan, Numbers, LINE, LINES, ROWS, TILE};
use super::super::simd::Level;
use super::grid::{Grid, TilePlace};

/// Number of values of a plane of a 3-D tile.
const PLANE: usize = 8 * LINE;

/// Adds to every number the number `BACK` places before it: the inverse of `difference_back`.
#[inline(always)]
fn sum_back<const BACK: usize, const LEN: usize>(x: &mut [i32; LEN]) {
    for i in BACK..LEN {
        x[i] = x[i].wrapping_add(x[i - BACK]);
    }
}

/// Takes the difference of a tile along a dimension.
#[inline(always)]
fn difference(from: &Numbers, to: &mut Numbers, along: usize, place: &TilePlace) {
    match along {
        1 => {
            difference_back::<1, TILE>(from, to);
            if !place.chain {
                for i in (0..TILE).step_by(LINE) {
                    to[i] = from[i];
                }
            }
        }
        2 => {
            difference_back::<LINE, TILE>(from, to);
            if place.height != LINES {
                for i in (0..TILE).step_by(PLANE) {
                    to[i..i + LINE].copy_from_slice(&from[i..i + LINE]);
                }
            }
        }
        _ => difference_back::<PLANE, TILE>(from, to),
    }
}

/// Sums a tile along a dimension: the inverse of `difference`.
#[inline(always)]
pub(in crate::codec) fn sum(x: &mut Numbers, along: usize, place: &TilePlace, level: Level) {
    match along {
        1 => scan(x, place.chain, level),
        2 if place.height == LINES => sum_back::<LINE, TILE>(x),
        2 => {
            for plane in x.as_chunks_mut::<PLANE>().0 {
                sum_back::<LINE, PLANE>(plane);
            }
        }
        _ => sum_back::<PLANE, TILE>(x),
    }
}

/// Returns the cost of a tile with these residuals, in bits, and the bitwise OR of their
/// magnitudes.
#[inline(always)]
fn cost(x: &Numbers) -> (u32, u32) {
    let (mut columns, mut cost, mut all) = ([0; ROWS], 0, 0);
    for (g, columns) in columns.chunks_exact_mut(LINE).enumerate() {
        let x = &x[8 * LINE * g..8 * LINE * (g + 1)];
        for i in 0..LINE {
            let mut bits = 0;
            for line in 0..8 {
                bits |= x[i + LINE * line].unsigned_abs();
            }
            columns[i] = bits;
        }
    }
    for i in 0..ROWS {
        cost += 32 - columns[i].leading_zeros();
        all |= columns[i];
    }
    (cost, all)
}

/// Takes from the integers in `numbers[0]` the number of differences with the least cost, of those that
/// `grid` says to try. Returns `None` if a magnitude is 2^31.
#[inline(always)]
pub(in crate::codec) fn best_of_tries(
    numbers: &mut [Numbers; 3],
    grid: &Grid,
    place: &TilePlace,
) -> Option<Residuals> {
    let (mut best, mut taken, mut least, mut bits) = (0, 0, u32::MAX, 0);
    for &tried in grid.tries {
        let mut at = best;
        for &along in &grid.differences[taken..tried] {
            let next = if at == best { (best + 1) % 3 } else { 3 - best - at };
            let [from, to] = numbers.get_disjoint_mut([at, next]).ok()?;
            difference(from, to, along, place);
            at = next;
        }
        let (cost, all) = cost(&numbers[at]);
        if cost >= least {
            break;
        }
        (best, taken, least, bits) = (at, tried, cost, all);
    }
    (bits >> 31 == 0).then_some(Residuals { at: best, taken, bits })
}

/// What `best_of_tries` found.
pub(in crate::codec) struct Residuals {
    /// Index of the residuals in `numbers`.
    pub at: usize,
    /// Number of differences.
    pub taken: usize,
    /// Bitwise OR of the magnitudes.
    pub bits: u32,
}
