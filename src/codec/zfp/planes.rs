//! A batch of coefficients as bit planes: a 64 x 512 bit matrix, transposed.

/// 64 rows of 64 bytes. As coefficients: row i is coefficient i, word k of it the lanes that lie in these 8 bytes. As bit planes: row
/// `row(c, b)` is bit b of byte c of every word, bit i of its word k being that of coefficient i.
pub type Matrix = [[u64; 8]; 64];

/// The row of bit `bit` of byte `byte` of the words.
#[inline(always)]
pub fn row(byte: usize, bit: usize) -> usize {
    8 * bit + byte
}

/// Coefficients to bit planes.
#[inline(always)]
pub fn split(m: &mut Matrix) {
    for tile in 0..8 {
        let mut rows: [[u64; 8]; 8] = [
            m[8 * tile],
            m[8 * tile + 1],
            m[8 * tile + 2],
            m[8 * tile + 3],
            m[8 * tile + 4],
            m[8 * tile + 5],
            m[8 * tile + 6],
            m[8 * tile + 7],
        ];
        swap_bytes(&mut rows);
        swap_bits(&mut rows);
        m[8 * tile..8 * tile + 8].copy_from_slice(&rows);
    }
    swap_tiles(m);
}

/// Bit planes to coefficients.
#[inline(always)]
pub fn join(m: &mut Matrix) {
    swap_tiles(m);
    for tile in 0..8 {
        let mut rows: [[u64; 8]; 8] = [
            m[8 * tile],
            m[8 * tile + 1],
            m[8 * tile + 2],
            m[8 * tile + 3],
            m[8 * tile + 4],
            m[8 * tile + 5],
            m[8 * tile + 6],
            m[8 * tile + 7],
        ];
        swap_bits(&mut rows);
        swap_bytes(&mut rows);
        m[8 * tile..8 * tile + 8].copy_from_slice(&rows);
    }
}

/// Byte r of row R of every eighth row becomes byte R of row r.
#[inline(always)]
fn swap_tiles(m: &mut Matrix) {
    for byte in 0..8 {
        let mut rows = [m[byte], m[8 + byte], m[16 + byte], m[24 + byte], m[32 + byte], m[40 + byte], m[48 + byte], m[56 + byte]];
        swap_bytes(&mut rows);
        for (r, row) in rows.iter().enumerate() {
            m[8 * r + byte] = *row;
        }
    }
}

/// Transposes 8 x 8 bytes: byte i of row r becomes byte r of row i.
#[inline(always)]
fn swap_bytes(rows: &mut [[u64; 8]; 8]) {
    const STEPS: [(usize, u32, u64); 3] = [(4, 32, 0x0000_0000_ffff_ffff), (2, 16, 0x0000_ffff_0000_ffff), (1, 8, 0x00ff_00ff_00ff_00ff)];
    for (step, shift, mask) in STEPS {
        for i in (0..8).filter(|i| i & step == 0) {
            let (low, high) = (rows[i], rows[i + step]);
            for k in 0..8 {
                let moved = ((low[k] >> shift) ^ high[k]) & mask;
                rows[i][k] = low[k] ^ (moved << shift);
                rows[i + step][k] = high[k] ^ moved;
            }
        }
    }
}

/// Transposes the 8 x 8 bits of every word: bit i of byte b becomes bit b of byte i.
#[inline(always)]
fn swap_bits(rows: &mut [[u64; 8]; 8]) {
    const STEPS: [(u32, u64); 3] = [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)];
    for row in rows {
        for (shift, mask) in STEPS {
            for word in row.iter_mut() {
                let moved = (*word ^ (*word >> shift)) & mask;
                *word ^= moved ^ (moved << shift);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plane_holds_a_bit_of_every_coefficient() {
        let mut state = 1u64;
        let m: Matrix = std::array::from_fn(|_| {
            std::array::from_fn(|_| {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                state ^ (state >> 29)
            })
        });
        let mut planes = m;
        split(&mut planes);
        for byte in 0..8 {
            for bit in 0..8 {
                for k in 0..8 {
                    let plane = (0..64).fold(0, |plane, i| plane | ((m[i][k] >> (8 * byte + bit) & 1) << i));
                    assert_eq!(planes[row(byte, bit)][k], plane);
                }
            }
        }
        join(&mut planes);
        assert_eq!(planes, m);
    }
}
