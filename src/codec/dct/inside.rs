//! Which values of the tiles of a batch are inside the array.

use super::grid::Grid;
use super::vector::Vector;

/// The extents of each tile's part inside the array, along the axes that are transformed. (Along
/// another axis a tile has one value, which is inside.)
pub(super) struct Inside<const L: usize>([Vector<u32, L>; 3]);

impl<const L: usize> Inside<L> {
    #[inline(always)]
    pub fn new(grid: &Grid, ids: &[usize; L]) -> Self {
        let mut extents = [Vector([1; L]); 3];
        for (l, &id) in ids.iter().enumerate() {
            let inside = grid.inside(id).1;
            let transformed = (0..3).filter(|&a| grid.t[a] > 1);
            for (extents, a) in extents.iter_mut().zip(transformed) {
                extents.0[l] = inside[a] as u32;
            }
        }
        Inside(extents)
    }

    /// Returns for each tile how many of the `S` values of a line are inside, from the first one on.
    #[inline(always)]
    pub fn limits<const S: usize>(&self, line: usize) -> Vector<u32, L> {
        let at = [(line % S) as u32, (line / S) as u32];
        let mut limits = self.0[0];
        for l in 0..L {
            let is_inside = at[0] < self.0[1].0[l] && at[1] < self.0[2].0[l];
            limits.0[l] = if is_inside { limits.0[l] } else { 0 };
        }
        limits
    }
}
