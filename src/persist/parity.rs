//! Blocks of parity, from which blocks of data are computed again that were lost.
//!
//! The code is a systematic Reed-Solomon code over GF(2^8), the bytes modulo x^8 + x^4 + x^3 + x^2 + 1. Byte
//! by byte, parity block i is the sum over all data blocks j of c(i, j) times block j, with the Cauchy matrix
//! c(i, j) = (x_0 + y_j) / (x_i + y_j), x_i = data + i, y_j = j (Bloemer et al., "An XOR-based erasure-resilient
//! coding scheme", 1995). Every square part of a Cauchy matrix can be inverted, also after its columns were
//! scaled, so that any `data` blocks give all others. The scaling makes the row i = 0 all ones: the first parity
//! block is the XOR of the data blocks, and with one data block its copy.
//!
//! No crate: of those for Reed-Solomon codes, reed-solomon-simd and reed-solomon-erasure allocate memory
//! with calls that end the process when memory is refused, and the latter has had no release since 2022.

use crate::error::{fail, Result};
use crate::fallible_vec;

/// Most blocks, data and parity together: x_i and y_j are different bytes.
pub const MOST_BLOCKS: usize = 256;
/// Bytes that are computed at a time, in registers.
const TILE: usize = 64;

/// A block of data or of parity.
pub enum Block<'a> {
    /// The bytes of the block are known.
    Present(&'a [u8]),
    /// The bytes of the block are to be computed.
    Wanted(&'a mut [u8]),
    /// Its bytes are not known, and nobody asks for them.
    Absent,
}

/// Computes the blocks that are wanted from those that are present. The first `data` blocks are of data,
/// the others of parity; those that are present or wanted have one length.
pub fn complete(blocks: &mut [Block], data: usize) -> Result<()> {
    let parity = blocks.len().saturating_sub(data);
    if data == 0 || parity == 0 || blocks.len() > MOST_BLOCKS {
        return fail!(
            Argument,
            "{data} data blocks and {parity} parity blocks: each is at least 1, and both together at most {MOST_BLOCKS}"
        );
    }
    let is_present = |block: &Block| matches!(block, Block::Present(_));
    let present = blocks.iter().filter(|block| is_present(block)).count();
    if present < data {
        return fail!(
            Argument,
            "{present} of {} blocks are present: {data} are needed to compute the others",
            blocks.len()
        );
    }
    let lost = places(&blocks[..data], |block| !is_present(block))?;
    let rows = rows_of_lost(blocks, data, &lost)?;
    for k in 0..blocks.len() {
        if !matches!(blocks[k], Block::Wanted(_)) {
            continue;
        }
        let row = match lost.iter().position(|l| *l == k) {
            Some(at) => fallible_vec::copied(&rows[at * blocks.len()..][..blocks.len()])?,
            None => row_of_parity(k - data, blocks, data, &lost, &rows)?,
        };
        // The bytes to be computed are taken out, so that those of the others can be read.
        let Block::Wanted(target) = std::mem::replace(&mut blocks[k], Block::Absent) else {
            continue;
        };
        let combined = combine(target, &row, blocks);
        blocks[k] = Block::Wanted(target);
        combined?;
    }
    Ok(())
}

/// Returns the numbers of the blocks for which a condition holds.
fn places(blocks: &[Block], holds: impl Fn(&Block) -> bool) -> Result<Vec<usize>> {
    let mut found = fallible_vec::with_room(blocks.len())?;
    found.extend((0..blocks.len()).filter(|k| holds(&blocks[*k])));
    Ok(found)
}

/// Returns, for each data block that is lost, the factors of all blocks whose sum it is. Only factors of
/// blocks that are present differ from 0.
fn rows_of_lost(blocks: &[Block], data: usize, lost: &[usize]) -> Result<Vec<u8>> {
    let (n, e) = (blocks.len(), lost.len());
    // As many parity blocks p as data blocks l are lost give e equations,
    // sum over l of c(p, l) l = p + sum over present j of c(p, j) j.
    let mut used = places(&blocks[data..], |block| matches!(block, Block::Present(_)))?;
    used.truncate(e);
    let mut inverse = fallible_vec::filled(0, e * e)?;
    let mut matrix = fallible_vec::filled(0, e * e)?;
    for (row, p) in used.iter().enumerate() {
        inverse[row * e + row] = 1;
        for (column, l) in lost.iter().enumerate() {
            matrix[row * e + column] = factor(*p, *l, data);
        }
    }
    invert(&mut matrix, &mut inverse, e);
    let mut rows = fallible_vec::filled(0, e * n)?;
    for (row, factors) in rows.chunks_exact_mut(n.max(1)).enumerate() {
        for (column, p) in used.iter().enumerate() {
            let weight = inverse[row * e + column];
            factors[data + p] ^= weight;
            for j in (0..data).filter(|j| matches!(blocks[*j], Block::Present(_))) {
                factors[j] ^= times(weight, factor(*p, j, data));
            }
        }
    }
    Ok(rows)
}

/// Returns the factors of all blocks whose sum parity block `i` is.
fn row_of_parity(
    i: usize,
    blocks: &[Block],
    data: usize,
    lost: &[usize],
    rows: &[u8],
) -> Result<Vec<u8>> {
    let mut row = fallible_vec::filled(0, blocks.len())?;
    for j in (0..data).filter(|j| !lost.contains(j)) {
        row[j] = factor(i, j, data);
    }
    for (l, of_lost) in lost.iter().zip(rows.chunks_exact(blocks.len())) {
        let weight = factor(i, *l, data);
        row.iter_mut().zip(of_lost).for_each(|(to, from)| *to ^= times(weight, *from));
    }
    Ok(row)
}

/// Inverts the e x e matrix `a`, which can be inverted, by Gauss and Jordan: `b`, the unit matrix, becomes
/// its inverse.
fn invert(a: &mut [u8], b: &mut [u8], e: usize) {
    for pivot in 0..e {
        let row = (pivot..e).find(|row| a[row * e + pivot] != 0).unwrap_or(pivot);
        for column in 0..e {
            a.swap(row * e + column, pivot * e + column);
            b.swap(row * e + column, pivot * e + column);
        }
        let scale = inverse(a[pivot * e + pivot]);
        for column in 0..e {
            a[pivot * e + column] = times(scale, a[pivot * e + column]);
            b[pivot * e + column] = times(scale, b[pivot * e + column]);
        }
        for row in (0..e).filter(|row| *row != pivot) {
            let weight = a[row * e + pivot];
            for column in 0..e {
                a[row * e + column] ^= times(weight, a[pivot * e + column]);
                b[row * e + column] ^= times(weight, b[pivot * e + column]);
            }
        }
    }
}

/// Sets `target` to the sum over all blocks of factor times block, by Horner's rule over the bits of the
/// factors: sum = 2 (2 (...) + blocks with bit 1) + blocks with bit 0. Doubling costs the same for any number
/// of blocks, and factors that are 0 or 1 cost one XOR or nothing.
fn combine(target: &mut [u8], row: &[u8], blocks: &[Block]) -> Result<()> {
    let terms = row.iter().zip(blocks).filter_map(|(factor, block)| match block {
        Block::Present(bytes) if *factor != 0 => Some((*factor, *bytes)),
        _ => None,
    });
    let mut by_bit: [Vec<&[u8]>; 8] = Default::default();
    let mut top = 0;
    for (factor, bytes) in terms {
        for bit in (0..8).filter(|bit| factor >> bit & 1 != 0) {
            fallible_vec::push(&mut by_bit[bit], bytes)?;
            top = top.max(bit);
        }
    }
    let whole = target.len() - target.len() % TILE;
    for begin in (0..target.len()).step_by(TILE) {
        let mut sum = [0; TILE];
        for bit in (0..=top).rev() {
            if bit < top {
                double(&mut sum);
            }
            for bytes in &by_bit[bit] {
                if begin < whole {
                    let term: &[u8] = &bytes[begin..begin + TILE];
                    sum.iter_mut().zip(term).for_each(|(sum, term)| *sum ^= term);
                } else {
                    sum.iter_mut().zip(&bytes[begin..]).for_each(|(sum, term)| *sum ^= term);
                }
            }
        }
        let end = target.len().min(begin + TILE);
        target[begin..end].copy_from_slice(&sum[..end - begin]);
    }
    Ok(())
}

/// Multiplies every byte by x. Compilers make vector instructions of it.
#[inline(always)]
fn double(bytes: &mut [u8; TILE]) {
    bytes.iter_mut().for_each(|byte| *byte = *byte << 1 ^ (*byte as i8 >> 7) as u8 & 0x1d);
}

/// The factor c(i, j) of the code with so many data blocks.
fn factor(i: usize, j: usize, data: usize) -> u8 {
    let x = |i: usize| (data + i) as u8;
    times(x(0) ^ j as u8, inverse(x(i) ^ j as u8))
}

/// The product in GF(2^8).
fn times(a: u8, b: u8) -> u8 {
    (0..8).rev().fold(0, |product: u8, bit| {
        let doubled = product << 1 ^ (product as i8 >> 7) as u8 & 0x1d;
        if b >> bit & 1 != 0 {
            doubled ^ a
        } else {
            doubled
        }
    })
}

/// The inverse in GF(2^8), a^254; 0 for 0.
fn inverse(a: u8) -> u8 {
    let power = (0..6).fold(a, |power, _| times(times(power, power), a)); // a^127
    times(power, power)
}

#[cfg(test)]
#[path = "parity_tests.rs"]
mod tests;
