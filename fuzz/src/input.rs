//! Decisions drawn from the bytes of an input.

/// The rest of an input. Behind its end the input continues with zeros, so that inputs of any
/// length are valid.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Returns true if all bytes are used.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next `N` bytes.
    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.0.split_at(N.min(self.0.len()));
        self.0 = rest;
        let mut bytes = [0; N];
        bytes[..taken.len()].copy_from_slice(taken);
        bytes
    }

    /// Returns the next byte.
    pub fn byte(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    /// Returns a number from 0 to `limit` - 1, drawn from one byte.
    pub fn below(&mut self, limit: usize) -> usize {
        self.byte() as usize % limit
    }

    /// Returns one of the items, drawn from one byte.
    pub fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// Returns true if the next byte is odd.
    pub fn coin(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Returns the next four bytes as a number.
    pub fn i32(&mut self) -> i32 {
        i32::from_le_bytes(self.take())
    }

    /// Returns the next eight bytes as a number.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    /// Returns all bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
