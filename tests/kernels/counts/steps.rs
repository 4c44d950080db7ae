//! The kernel of a time step of `c-examples/rtm3d_cuda`, which is counted beside the codecs.

use super::table::Row;
use crate::common::emu;
use crate::common::example::{View, HALO};
use crate::rtm3d::{at, Gpu};

/// Extents of the array: 124 x 128 x 64 cells, whole tiles of the kernel, and a halo of 4 cells on
/// each side.
const E: [usize; 3] = [132, 136, 72];

/// Returns the row of `step3`; all figures are per cell.
pub fn rows() -> Vec<Row> {
    assert_eq!(emu::reset(1, emu::EARLY, 1, 1 << 28), 0);
    let mut gpu = Gpu::new();
    let zeros = vec![0f32; E.iter().product()];
    let cells: usize = E.iter().map(|extent| extent - 2 * HALO).product();
    let [u, p, scale] = [(); 3].map(|()| gpu.array(&zeros));
    let damp = E.map(|extent| gpu.array(&zeros[..extent]));
    let view = View { extents: E.map(|extent| extent as i32), scale, damp };
    emu::count_kernels();
    let inner = E.map(|extent| (extent - 2 * HALO) as u32);
    let (planes, q) = (inner[2] as i32, p);
    let grid = [(E[0] - HALO).div_ceil(32) as u32, inner[1].div_ceil(16), 1];
    gpu.launch(c"step3", grid, [32, 16], &[at(&view), at(&u), at(&p), at(&q), at(&planes)]);
    gpu.finish();
    super::counted("rtm3d step f32 3 -", cells as f64)
}
