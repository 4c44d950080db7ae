//! The scheduler's random numbers: SplitMix64 (Steele, Lea and Flood 2014).

/// A seeded random number generator.
pub struct Rng(u64);

impl Rng {
    /// Makes a generator whose sequence depends on `seed` alone.
    pub fn new(seed: u64) -> Self {
        let mut rng = Self(seed ^ 0x6a09_e667_f3bc_c908);
        rng.next();
        rng
    }

    /// Returns 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a random number below `n`, which must not be zero.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}
