//! Writes and reads strings of bits. A string begins with the lowest bit of the first byte.

/// The end of a string to which bits are appended: the byte `at`, and `used` bits in `word`.
#[derive(Clone, Copy, Default)]
pub(super) struct Pen {
    at: usize,
    word: u64,
    used: u32,
}

impl Pen {
    /// Appends the lowest `count` <= 56 bits of `bits` to the string that begins at `bytes[begin]`.
    /// All higher bits of `bits` must be zero. The slice must have 8 bytes more than the string
    /// takes.
    #[inline(always)]
    pub fn put(&mut self, bytes: &mut [u8], begin: usize, bits: u64, count: u32) {
        let word = self.word | bits << self.used;
        if let Some(to) = bytes.get_mut(begin + self.at..begin + self.at + 8) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let used = self.used + count;
        self.at += (used / 8) as usize;
        self.word = word >> (used & 56);
        self.used = used & 7;
    }

    /// Appends `zeros` zeros and a one.
    #[inline(always)]
    pub fn unary(&mut self, bytes: &mut [u8], begin: usize, mut zeros: u32) {
        while zeros > 54 {
            self.put(bytes, begin, 0, 54);
            zeros -= 54;
        }
        self.put(bytes, begin, 1 << zeros, zeros + 1);
    }

    /// Appends the first `count` bits of the string `from`.
    pub fn append(&mut self, bytes: &mut [u8], begin: usize, from: &[u8], count: u64) {
        let mut left = count;
        for chunk in from.chunks(7) {
            if left == 0 {
                break;
            }
            let take = left.min(8 * chunk.len() as u64) as u32;
            let mut word = [0; 8];
            match chunk.first_chunk::<7>() {
                Some(chunk) => word[..7].copy_from_slice(chunk),
                None => word[..chunk.len()].copy_from_slice(chunk),
            }
            self.put(bytes, begin, u64::from_le_bytes(word) & ((1 << take) - 1), take);
            left -= u64::from(take);
        }
    }

    pub fn bits(&self) -> u64 {
        8 * self.at as u64 + u64::from(self.used)
    }
}

/// Bits of a string of unary numbers that are read at a time.
const WINDOW: u32 = 56;
/// Unary numbers are less than this.
pub(super) const LONGEST: u16 = 1 << 15;

/// Items behind the last number that `unaries` may overwrite.
pub(super) const MORE: usize = WINDOW as usize + 8;

/// For each byte the unary numbers that end in it. The first number may have begun in an earlier
/// byte: only its zeros in this byte are counted.
static UNARIES: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bits, mut count) = (byte as u32, 0);
        let mut begin = 0;
        while bits != 0 {
            let at = bits.trailing_zeros();
            table[byte][count] = (at - begin) as u8;
            begin = at + 1;
            bits &= bits - 1;
            count += 1;
        }
        byte += 1;
    }
    table
};

/// Returns the position of the `count`-th set bit.
#[inline(always)]
fn place_of(mut bits: u64, count: usize) -> u32 {
    for _ in 1..count {
        bits &= bits - 1;
    }
    bits.trailing_zeros()
}

/// Reads bits. Behind the last byte the reader returns zeros.
#[derive(Clone, Copy, Default)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    /// Position of the next bit.
    pub at: u64,
}

impl<'a> Reader<'a> {
    /// Returns a reader that begins at bit `at`.
    pub fn new(bytes: &'a [u8], at: u64) -> Self {
        Reader { bytes, at }
    }

    /// Returns the next 57 bits in the lowest bits of the result without consuming them; the bits
    /// above them are undefined.
    #[inline(always)]
    pub fn ahead(&self) -> u64 {
        let at = (self.at / 8) as usize;
        let word = match self.bytes.get(at..).and_then(|b| b.first_chunk::<8>()) {
            Some(&chunk) => u64::from_le_bytes(chunk),
            None => self.last(at),
        };
        word >> (self.at % 8)
    }

    /// Returns the bytes from `at` to the end of the string, fewer than 8, as a number.
    #[inline(always)]
    fn last(&self, at: usize) -> u64 {
        let missing = at.saturating_add(8) - self.bytes.len();
        match self.bytes.last_chunk::<8>() {
            Some(&chunk) if missing < 8 => u64::from_le_bytes(chunk) >> (8 * missing),
            Some(_) => 0,
            None => self.few(at),
        }
    }

    #[cold]
    #[inline(never)]
    fn few(&self, at: usize) -> u64 {
        self.bytes.iter().skip(at).rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
    }

    /// Reads `count` unary numbers into the first items of `to`, which must have `MORE` items more
    /// than `count`. Returns `None` if the string ends before the last number, or if a number is
    /// `LONGEST` or more.
    #[inline(always)]
    pub fn unaries(&mut self, count: usize, to: &mut [u16]) -> Option<()> {
        let (mut found, mut zeros) = (0, 0);
        while found < count {
            let bits = self.ahead() & ((1 << WINDOW) - 1);
            let end = found + bits.count_ones() as usize;
            let mut next = found;
            for byte in bits.to_le_bytes().into_iter().take(WINDOW as usize / 8) {
                let (numbers, to) =
                    (UNARIES[byte as usize], to.get_mut(next..)?.first_chunk_mut::<8>()?);
                *to = numbers.map(u16::from);
                to[0] += zeros;
                next += byte.count_ones() as usize;
                zeros = if byte == 0 { zeros + 8 } else { byte.leading_zeros() as u16 };
            }
            // Only the first number that ends in this window can have begun in an earlier one.
            if to[found] >= LONGEST && end > found {
                return None;
            }
            if end >= count {
                self.at += u64::from(place_of(bits, count - found)) + 1;
                break;
            }
            if zeros >= LONGEST || self.at > 8 * self.bytes.len() as u64 {
                return None;
            }
            found = end;
            self.at += u64::from(WINDOW);
        }
        Some(())
    }

    /// Reads the next `count` <= 56 bits.
    #[inline(always)]
    pub fn get(&mut self, count: u32) -> u64 {
        let bits = self.ahead() & ((1 << count) - 1);
        self.at += u64::from(count);
        bits
    }

    /// Reads a unary number: counts the zeros up to the next one and consumes this one, too.
    /// Returns `None` if the string has no further one.
    #[inline(always)]
    pub fn unary(&mut self) -> Option<u32> {
        let bits = self.ahead();
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
            let bits = self.ahead() & ((1 << 57) - 1);
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
