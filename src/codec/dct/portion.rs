//! Divides the tiles of an array into portions, of which a thread codes one at a time. What is made of a tile does
//! not depend on the portion that it is in.

use std::marker::PhantomData;
use std::ops::Range;

/// The most portions of an array.
pub(super) const MOST_PORTIONS: usize = 64;
/// Portions for each thread: one that is late holds up the others for less time.
const PER_THREAD: usize = 4;
/// The most steps that are tried in one pass over an array.
pub(super) const TRIES: usize = 4;

/// Returns the portions of an array of `tiles` tiles for `threads` threads: all of them begin with the first tile
/// of a batch of `L` tiles.
pub(super) fn portions<const L: usize>(
    tiles: usize,
    threads: usize,
) -> impl ExactSizeIterator<Item = Range<usize>> {
    let batches = tiles.div_ceil(L);
    let most = if threads > 1 { (PER_THREAD * threads).min(MOST_PORTIONS) } else { 1 };
    let count = batches.clamp(1, most);
    let begin = move |k: usize| (batches * k / count * L).min(tiles);
    (0..count).map(move |k| begin(k)..begin(k + 1))
}

/// A portion that is being coded.
#[derive(Default)]
pub(super) struct Coded<'a> {
    /// Number of the portion, and its tiles.
    pub number: usize,
    pub tiles: Range<usize>,
    /// For each tile its length (`Engine::lengths`).
    pub lengths: &'a mut [u32],
    /// Room for the bytes of the tiles, where it begins, and how many bytes are written.
    pub to: &'a mut [u8],
    begin: usize,
    pub end: usize,
    /// The squared errors with each step that is tried.
    pub energies: [u64; TRIES],
    /// Whether all tiles have been coded.
    pub is_coded: bool,
}

/// The portions of an array that is being coded.
pub(super) struct AllCoded<'a> {
    portions: [Coded<'a>; MOST_PORTIONS],
    count: usize,
}

impl<'a> AllCoded<'a> {
    /// Gives each portion its part of `lengths` and of `to`. `most` returns the most bytes of a tile. Returns
    /// `None` if there is no room for them.
    pub fn new(
        all: impl ExactSizeIterator<Item = Range<usize>>,
        mut lengths: &'a mut [u32],
        mut to: &'a mut [u8],
        most: impl Fn(usize) -> usize,
    ) -> Option<Self> {
        let (count, mut begin) = (all.len(), 0);
        let mut portions = std::array::from_fn(|_| Coded::default());
        for ((number, tiles), portion) in all.enumerate().zip(&mut portions) {
            let room = match number + 1 == count {
                true => to.len(),
                false => tiles.clone().map(&most).sum(),
            };
            let own = lengths.split_off_mut(..tiles.len())?;
            let bytes = to.split_off_mut(..room)?;
            *portion = Coded { number, tiles, lengths: own, to: bytes, begin, ..Coded::default() };
            begin += room;
        }
        Some(AllCoded { portions, count })
    }

    pub fn portions(&mut self) -> &mut [Coded<'a>] {
        &mut self.portions[..self.count]
    }

    /// Returns where the bytes of each portion are that were written.
    pub fn written(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let mut written = [(0, 0); MOST_PORTIONS];
        for (to, portion) in written.iter_mut().zip(&self.portions[..self.count]) {
            *to = (portion.begin, portion.begin + portion.end);
        }
        written.into_iter().take(self.count).map(|(begin, end)| begin..end)
    }
}

/// Moves these ranges of `to`, which are in order, to the front. Returns their length.
pub(super) fn join(to: &mut [u8], ranges: impl Iterator<Item = Range<usize>>) -> usize {
    ranges.fold(0, |end, range| {
        let length = range.len();
        if range.start > end {
            to.copy_within(range, end);
        }
        end + length
    })
}

/// An array that several threads write, each of them other tiles.
pub(super) struct Output<'a, T> {
    x: *mut T,
    len: usize,
    array: PhantomData<&'a mut [T]>,
}

// SAFETY: the threads write different values, as the maker of each copy promises.
unsafe impl<T: Send> Sync for Output<'_, T> {}

impl<'a, T> Output<'a, T> {
    pub fn new(x: &'a mut [T]) -> Self {
        Output { x: x.as_mut_ptr(), len: x.len(), array: PhantomData }
    }

    /// A copy for another thread.
    ///
    /// # Safety
    /// As long as this copy and others are used, no two of them are for the same values.
    pub unsafe fn other(&self) -> Self {
        Output { x: self.x, len: self.len, array: PhantomData }
    }

    /// The values from `begin` on, `count` of them.
    #[inline(always)]
    pub fn values(&mut self, begin: usize, count: usize) -> &mut [T] {
        assert!(begin <= self.len && count <= self.len - begin);
        // SAFETY: the values are in the array, and no other copy is for them.
        unsafe { std::slice::from_raw_parts_mut(self.x.add(begin), count) }
    }

    /// The address of value `at`, if it is in the array.
    #[inline(always)]
    pub fn address(&self, at: usize) -> Option<*const T> {
        // SAFETY: the value is in the array.
        (at < self.len).then(|| unsafe { self.x.add(at).cast_const() })
    }
}
