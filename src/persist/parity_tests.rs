//! Blocks that are lost in every possible way are computed again, bit for bit.

use super::*;

fn payload(length: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Blocks of data, and behind them their parity.
fn coded(data: usize, parity: usize, length: usize) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = (0..data).map(|j| payload(length, j as u32 + 1)).collect();
    all.extend((0..parity).map(|_| vec![0xee; length]));
    let (known, wanted) = all.split_at_mut(data);
    let mut blocks: Vec<Block> = known.iter().map(|bytes| Block::Present(bytes)).collect();
    blocks.extend(wanted.iter_mut().map(|bytes| Block::Wanted(bytes)));
    complete(&mut blocks, data).unwrap();
    all
}

/// Loses the blocks of `lost`, of which those in `unwanted` are not asked for, and compares what is computed.
fn check(all: &[Vec<u8>], data: usize, lost: u32, unwanted: u32) {
    let mut room: Vec<Vec<u8>> = all.iter().map(|block| vec![0x55; block.len()]).collect();
    let of = |k: usize, room| match (lost >> k & 1, unwanted >> k & 1) {
        (0, _) => Block::Present(&all[k]),
        (_, 0) => Block::Wanted(room),
        _ => Block::Absent,
    };
    let mut blocks: Vec<Block> = room.iter_mut().enumerate().map(|(k, room)| of(k, room)).collect();
    complete(&mut blocks, data).unwrap();
    for k in (0..all.len()).filter(|k| lost & !unwanted & 1 << k != 0) {
        assert!(room[k] == all[k], "{data} of {}: block {k} of lost {lost:b}", all.len());
    }
}

#[test]
fn every_set_of_lost_blocks_is_computed_again() {
    for (data, parity) in [(1, 1), (1, 3), (2, 1), (3, 1), (2, 2), (3, 3), (5, 2), (4, 4), (6, 3)] {
        for length in [0, 1, 63, 64, 129, 1000] {
            let all = coded(data, parity, length);
            for lost in 0u32..1 << all.len() {
                if lost.count_ones() as usize <= parity {
                    check(&all, data, lost, 0);
                    check(&all, data, lost, lost & 0b0101_0101_0101);
                }
            }
        }
    }
}

/// All 256 bytes as data, and as many blocks as there can be.
#[test]
fn large_codes_lose_their_first_or_last_or_every_other_block() {
    for (data, parity) in [(255, 1), (254, 2), (128, 128), (1, 255), (200, 55)] {
        let all = coded(data, parity, 256);
        let n = data + parity;
        let every_other = |k: usize| k % 2 == 0 && k / 2 < parity;
        let sets: [&dyn Fn(usize) -> bool; 3] =
            [&|k| k < parity, &|k| k >= n - parity, &every_other];
        for is_lost in sets {
            let mut room = vec![vec![0; 256]; n];
            let of =
                |k, room| if is_lost(k) { Block::Wanted(room) } else { Block::Present(&all[k]) };
            let mut blocks: Vec<Block> =
                room.iter_mut().enumerate().map(|(k, room)| of(k, room)).collect();
            complete(&mut blocks, data).unwrap();
            assert!((0..n).filter(|k| is_lost(*k)).all(|k| room[k] == all[k]), "{data} + {parity}");
        }
    }
}

#[test]
fn the_first_parity_block_is_the_xor_of_the_data() {
    let all = coded(5, 3, 777);
    let xor = |k: usize| (0..5).fold(0, |sum, j: usize| sum ^ all[j][k]);
    assert!((0..777).all(|k| all[5][k] == xor(k)));
    let all = coded(1, 2, 777);
    assert!(all[1] == all[0]);
}

/// Products by the definition: polynomials over GF(2) modulo x^8 + x^4 + x^3 + x^2 + 1.
#[test]
fn products_and_inverses_are_those_of_the_field() {
    for a in 0..=255u8 {
        for b in 0..=255u8 {
            let mut product = (0..8)
                .filter(|bit| b >> bit & 1 == 1)
                .fold(0, |sum, bit| sum ^ u32::from(a) << bit);
            for bit in (8..15).rev() {
                if product >> bit & 1 == 1 {
                    product ^= 0x11d << (bit - 8);
                }
            }
            assert_eq!(u32::from(times(a, b)), product, "{a} {b}");
        }
        assert_eq!(times(a, inverse(a)), u8::from(a != 0), "{a}");
    }
}

#[test]
fn what_cannot_be_computed_is_an_error() {
    let bytes = [1, 2, 3];
    let mut room = [0; 3];
    let mut blocks = [Block::Present(&bytes), Block::Absent, Block::Wanted(&mut room)];
    let error = complete(&mut blocks, 2).unwrap_err().to_string();
    assert!(error.contains("1 of 3 blocks are present: 2 are needed"), "{error}");
    for data in [0, 3, 4] {
        let error = complete(&mut blocks, data).unwrap_err().to_string();
        assert!(error.contains("each is at least 1"), "{error}");
    }
    let mut many: Vec<Block> = (0..257).map(|_| Block::Present(&bytes)).collect();
    assert!(complete(&mut many, 200).unwrap_err().to_string().contains("at most 256"));
}
