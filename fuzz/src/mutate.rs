//! Seeded mutations of inputs, for toolchains without libFuzzer. The mutations are equal on every
//! machine.

/// Length in bytes of the longest input that is made.
pub const LONGEST: usize = 4096;

/// Pseudo-random numbers (xorshift64*, Vigna 2016).
pub struct Random(u64);

impl Random {
    /// Begins a sequence that depends only on `seed`.
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns the next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a number from 0 to `limit` - 1.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.word() >> 33) as usize % limit.max(1)
    }
}

/// Returns one of the inputs with one to eight changes; a change can insert a part of another
/// input.
pub fn mutate(pool: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = pool.get(random.below(pool.len())).cloned().unwrap_or_default();
    for _ in 0..=random.below(8) {
        change(&mut bytes, pool, random);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn change(bytes: &mut Vec<u8>, pool: &[Vec<u8>], random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let some = 1 + random.below(16);
    let end = (at + some).min(bytes.len());
    match random.below(8) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = random.word() as u8,
        2 if at < bytes.len() => {
            bytes[at] = [0, 1, 127, 128, 255, b'0', b'9', b'-', b'\n', b'=', b'"'][random.below(11)]
        }
        3 => bytes.truncate(at),
        4 => drop(bytes.drain(at..end)),
        5 => {
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        6 => {
            let piece: Vec<u8> = (0..some).map(|_| random.word() as u8).collect();
            bytes.splice(at..at, piece);
        }
        _ => {
            let other = pool.get(random.below(pool.len())).map_or(&[][..], Vec::as_slice);
            let from = random.below(other.len() + 1);
            let to = (from + 4 * some).min(other.len());
            bytes.splice(at..end, other[from..to].iter().copied());
        }
    }
}
