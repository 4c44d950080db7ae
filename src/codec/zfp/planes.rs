//! Transposes the coefficients of a batch, a matrix of 64 x 512 bits, into bit planes and back.

use crate::codec::quantize::transposed as bits;

/// A matrix of 64 rows of 64 bytes. As coefficients: row i holds coefficient i of all blocks; word
/// k of the row holds the lanes in these 8 bytes. As bit planes: row 8c + b holds bit b of byte c
/// of every word; bit i of its word k comes from coefficient i.
pub type Matrix = [[u64; 8]; 64];

/// Turns coefficients into bit planes. The contents of `from` are lost.
#[inline(always)]
pub fn split(from: &mut Matrix, to: &mut Matrix) {
    // The loops over words have long bodies: the compiler unrolls a loop with a short body instead
    // of vectorising it.
    for tile in 0..8 {
        for k in 0..8 {
            let rows = load(from, 8 * tile, 1, k);
            store(from, 8 * tile, 1, k, swap_bits(swap_bytes(rows)));
        }
    }
    for byte in 0..8 {
        for k in 0..8 {
            let rows = load(from, byte, 8, k);
            store(to, 8 * byte, 1, k, swap_bytes(rows));
        }
    }
}

/// Turns bit planes into coefficients.
#[inline(always)]
pub fn join(from: &Matrix, to: &mut Matrix) {
    for byte in 0..8 {
        // If blocks have few bits, the planes of most bytes are zero.
        if from[8 * byte..8 * byte + 8] == [[0; 8]; 8] {
            for tile in 0..8 {
                to[byte + 8 * tile] = [0; 8];
            }
            continue;
        }
        for k in 0..8 {
            let rows = load(from, 8 * byte, 1, k);
            store(to, byte, 8, k, swap_bytes(rows));
        }
    }
    for tile in 0..8 {
        for k in 0..8 {
            let rows = load(to, 8 * tile, 1, k);
            store(to, 8 * tile, 1, k, swap_bytes(swap_bits(rows)));
        }
    }
}

/// Returns word k of 8 rows, beginning with row `at`, `step` rows apart.
#[inline(always)]
fn load(m: &Matrix, at: usize, step: usize, k: usize) -> [u64; 8] {
    [0, 1, 2, 3, 4, 5, 6, 7].map(|i| m[at + i * step][k])
}

#[inline(always)]
fn store(m: &mut Matrix, at: usize, step: usize, k: usize, rows: [u64; 8]) {
    for i in 0..8 {
        m[at + i * step][k] = rows[i];
    }
}

/// Transposes 8 x 8 bytes: byte i of row r becomes byte r of row i.
#[inline(always)]
fn swap_bytes([a, b, c, d, e, f, g, h]: [u64; 8]) -> [u64; 8] {
    let [(a, e), (b, f), (c, g), (d, h)] =
        [exchange::<4>(a, e), exchange::<4>(b, f), exchange::<4>(c, g), exchange::<4>(d, h)];
    let [(a, c), (b, d), (e, g), (f, h)] =
        [exchange::<2>(a, c), exchange::<2>(b, d), exchange::<2>(e, g), exchange::<2>(f, h)];
    let [(a, b), (c, d), (e, f), (g, h)] =
        [exchange::<1>(a, b), exchange::<1>(c, d), exchange::<1>(e, f), exchange::<1>(g, h)];
    [a, b, c, d, e, f, g, h]
}

/// Exchanges the odd groups of `BYTES` bytes of `a` with the even groups of `b`.
#[inline(always)]
fn exchange<const BYTES: u32>(a: u64, b: u64) -> (u64, u64) {
    let mask = match BYTES {
        4 => 0x0000_0000_ffff_ffff,
        2 => 0x0000_ffff_0000_ffff,
        _ => 0x00ff_00ff_00ff_00ff,
    };
    let moved = ((a >> (8 * BYTES)) ^ b) & mask;
    (a ^ (moved << (8 * BYTES)), b ^ moved)
}

/// Transposes the 8 x 8 bits of every word: bit i of byte b becomes bit b of byte i.
#[inline(always)]
fn swap_bits([a, b, c, d, e, f, g, h]: [u64; 8]) -> [u64; 8] {
    [bits(a), bits(b), bits(c), bits(d), bits(e), bits(f), bits(g), bits(h)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random() -> Matrix {
        let mut state = 1u64;
        std::array::from_fn(|_| {
            std::array::from_fn(|_| {
                state =
                    state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                state ^ (state >> 29)
            })
        })
    }

    #[test]
    fn a_plane_holds_a_bit_of_every_coefficient() {
        let m = random();
        let (mut lost, mut planes) = (m, [[0; 8]; 64]);
        split(&mut lost, &mut planes);
        for byte in 0..8 {
            for bit in 0..8 {
                for k in 0..8 {
                    let plane = (0..64)
                        .fold(0, |plane, i| plane | ((m[i][k] >> (8 * byte + bit) & 1) << i));
                    assert_eq!(planes[8 * byte + bit][k], plane);
                }
            }
        }
        join(&planes, &mut lost);
        assert_eq!(lost, m);
    }
}
