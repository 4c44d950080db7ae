//! Strings of bits, the lowest bit of the first byte first.

/// Appends bits to a slice that has room for them and 8 bytes more.
pub(super) struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
    word: u64,
    used: u32,
}

impl<'a> Writer<'a> {
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Writer { bytes, at: 0, word: 0, used: 0 }
    }

    /// Appends the `count` <= 56 bits of `bits`, which has no others.
    #[inline(always)]
    pub fn put(&mut self, bits: u64, count: u32) {
        self.word |= bits << self.used;
        self.used += count;
        if let Some(to) = self.bytes.get_mut(self.at..self.at + 8) {
            to.copy_from_slice(&self.word.to_le_bytes());
        }
        let full = self.used & !7;
        self.at += (full / 8) as usize;
        self.word = if full == 64 { 0 } else { self.word >> full };
        self.used &= 7;
    }

    /// Appends `zeros` zeros and a one.
    #[inline(always)]
    pub fn unary(&mut self, mut zeros: u32) {
        while zeros > 55 {
            self.put(0, 55);
            zeros -= 55;
        }
        self.put(1 << zeros, zeros + 1);
    }

    /// Appends `count` bits of another string.
    pub fn append(&mut self, bytes: &[u8], count: u64) {
        let mut left = count;
        for chunk in bytes.chunks(7) {
            if left == 0 {
                break;
            }
            let take = left.min(8 * chunk.len() as u64) as u32;
            let mut word = [0; 8];
            match chunk.first_chunk::<7>() {
                Some(chunk) => word[..7].copy_from_slice(chunk),
                None => word[..chunk.len()].copy_from_slice(chunk),
            }
            self.put(u64::from_le_bytes(word) & ((1 << take) - 1), take);
            left -= u64::from(take);
        }
    }

    /// Bits so far.
    pub fn bits(&self) -> u64 {
        self.at as u64 * 8 + u64::from(self.used)
    }
}

/// Reads bits; behind the last one there are zeros.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    /// The next bit.
    pub at: u64,
}

impl<'a> Reader<'a> {
    /// Reads from bit `at` on.
    pub fn new(bytes: &'a [u8], at: u64) -> Self {
        Reader { bytes, at }
    }

    /// The next 57 bits or more.
    #[inline(always)]
    fn peek(&self) -> u64 {
        let at = (self.at / 8) as usize;
        let word = match self.bytes.get(at..).and_then(|b| b.first_chunk::<8>()) {
            Some(&chunk) => u64::from_le_bytes(chunk),
            None => self.last(at),
        };
        word >> (self.at % 8)
    }

    #[cold]
    #[inline(never)]
    fn last(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(self.bytes.iter().skip(at)) {
            *to = *from;
        }
        u64::from_le_bytes(word)
    }

    /// The next 57 bits or more, and whatever is above them.
    #[inline(always)]
    pub fn ahead(&self) -> u64 {
        self.peek()
    }

    /// A unary number into each item.
    #[inline(always)]
    pub fn unaries<const R: usize>(&mut self, to: &mut [u32; R]) -> Option<()> {
        let mut bits = self.peek() & ((1 << 57) - 1);
        if bits.count_ones() < R as u32 {
            for to in to {
                *to = self.unary()?;
            }
            return Some(());
        }
        let mut next = 0;
        for to in to {
            let at = bits.trailing_zeros();
            *to = at - next;
            next = at + 1;
            bits &= bits - 1;
        }
        self.at += u64::from(next);
        Some(())
    }

    /// Goes behind the next `count` ones.
    #[inline(always)]
    pub fn skip_ones(&mut self, count: u32) -> Option<()> {
        let mut left = count;
        while left > 0 {
            let mut bits = self.peek() & ((1 << 56) - 1);
            let ones = bits.count_ones();
            if ones >= left {
                for _ in 1..left {
                    bits &= bits - 1;
                }
                self.at += u64::from(bits.trailing_zeros()) + 1;
                return Some(());
            }
            if self.at > 8 * self.bytes.len() as u64 {
                return None;
            }
            left -= ones;
            self.at += 56;
        }
        Some(())
    }

    /// The next `count` <= 56 bits.
    #[inline(always)]
    pub fn get(&mut self, count: u32) -> u64 {
        let bits = self.peek() & ((1 << count) - 1);
        self.at += u64::from(count);
        bits
    }

    /// Zeros up to the next one, which is consumed, too. `None`: there is no one any more.
    #[inline(always)]
    pub fn unary(&mut self) -> Option<u32> {
        let bits = self.peek();
        if bits & ((1 << 57) - 1) != 0 {
            let zeros = bits.trailing_zeros();
            self.at += u64::from(zeros) + 1;
            return Some(zeros);
        }
        self.long_unary()
    }

    #[cold]
    #[inline(never)]
    fn long_unary(&mut self) -> Option<u32> {
        let mut zeros = 0u32;
        while self.at < self.bytes.len() as u64 * 8 {
            let bits = self.peek() & ((1 << 57) - 1);
            if bits != 0 {
                let more = bits.trailing_zeros();
                self.at += u64::from(more) + 1;
                return zeros.checked_add(more);
            }
            self.at += 57;
            zeros = zeros.checked_add(57)?;
        }
        None
    }
}
