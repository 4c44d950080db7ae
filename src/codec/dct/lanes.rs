//! A value of each of `L` tiles that are coded together.

/// One value per tile, a cache line in all.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Lanes<T, const L: usize>(pub [T; L]);
