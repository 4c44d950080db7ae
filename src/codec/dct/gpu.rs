//! `dct` on a GPU, by the kernels of kernels/dct*.cu.

use super::{dims, longest_directory, order, sample_tiles, sides, Grid};
use crate::codec::gpu::quantize::parts;
use crate::codec::gpu::{kernels, GpuCoder, Kernel, Kernels, Modules, Room, Values};
use crate::codec::Shape;
use crate::device::cuda::Argument;
use crate::device::Queue;
use crate::error::{fail, Result};

/// Values per thread block, and threads of a block for one, two and three transformed axes.
const PIECE: u64 = 4096;
const THREADS: [u32; 3] = [128, 128, 256];
/// Threads of the kernels `dct_finish` and `dct_open`, bytes that a block of `dct_finish` moves at
/// a time, and tiles of a block of `dct_open`.
const MOVERS: u32 = 256;
const CHUNK: u64 = 16 << 10;
const PORTION: u64 = 1024;

/// Largest number of blocks of `dct_finish`; these blocks move bytes until none are left.
const MOVING: u64 = 1024;
/// Passes over the array that are enqueued to find the step that keeps a bound of the root mean
/// square. After these passes a single block makes the remaining ones.
const PASSES: u32 = 8;
/// With at most this many pieces a single block makes all passes: launches would take longer.
const FEW: u64 = 4;
/// Number of bisections of the table of steps.
const ROUNDS: u32 = 8;
/// Bytes reserved for `Control` of kernels/dct_encode.cu and kernels/dct_decode.cu.
const CONTROL: u64 = 256;
/// Entries in each of the two orders of coefficients, of the larger and of the smaller tiles.
const ORDER: usize = 4096;
/// Bytes of `Tables` in kernels/dct.cuh.
const TABLES: u64 = 8 * (2 * 17 + 6) + 2 * 2 * ORDER as u64;

macro_rules! both_ways {
    ($($dims:literal)*) => {
        [$(
            kernels!(
                concat!("dct-", $dims, "-encode"),
                [("dct", concat!("#define DIMS ", $dims))] "dct.cuh" "dct_values.cuh" "dct_rows.cuh" "dct_encode.cu" "dct_finish.cu"
            ),
            kernels!(
                concat!("dct-", $dims, "-decode"),
                [("dct", concat!("#define DIMS ", $dims))] "dct.cuh" "dct_decode.cu"
            ),
        )*]
    };
}
/// The kernels that compress and that decompress, for one, two and three transformed axes.
pub const KERNELS: [Kernels; 6] = both_ways!(1 2 3);

pub struct Dct {
    shape: Shape,
    /// The tilings of the array, the largest tile side first.
    grids: Vec<Grid>,
    /// True if bounds limit the root mean square error.
    rms: bool,
    mean: Kernel,
    encode: Kernel,
    finish: Kernel,
    open: Kernel,
    decode: Kernel,
}

/// Device addresses in the scratch memory; a fill sets everything before `zeros` to zero.
struct Addresses {
    status: u64,
    loaded: u64,
    zeros: u64,
    lengths: u64,
    table: u64,
    end: u64,
}

impl Dct {
    pub fn new(shape: Shape, rms: bool, modules: &mut Modules) -> Result<Self> {
        let dims = dims(shape.n);
        let grids =
            sides(dims).iter().map(|&side| Grid::new(shape.n, side)).collect::<Result<Vec<_>>>()?;
        if grids.iter().any(|grid| grid.tiles() >= 1 << 31) {
            return fail!(
                Unsupported,
                "dct on CUDA numbers tiles with 31 bits: an array of {:?} values has more",
                shape.n
            );
        }
        let threads = THREADS[dims - 1];
        let [encode, decode] = [2 * dims - 2, 2 * dims - 1].map(|k| KERNELS[k].of(shape.scalar));
        Ok(Dct {
            shape,
            grids,
            rms,
            mean: modules.kernel(&encode, c"dct_mean", threads)?,
            encode: modules.kernel(&encode, c"dct_encode", threads)?,
            finish: modules.kernel(&encode, c"dct_finish", MOVERS)?,
            open: modules.kernel(&decode, c"dct_open", MOVERS)?,
            decode: modules.kernel(&decode, c"dct_decode", threads)?,
        })
    }

    /// Returns the number of tiles of the finest tiling.
    fn tiles(&self) -> u64 {
        self.grids.iter().map(Grid::tiles).max().unwrap_or(0) as u64
    }

    /// Returns the largest number of pieces of a tiling; `tiles` gives its number of tiles.
    fn pieces(&self, tiles: impl Fn(&Grid) -> usize) -> u64 {
        let pieces = |grid: &Grid| (tiles(grid) as u64).div_ceil(PIECE / grid.values() as u64);
        self.grids.iter().map(pieces).max().unwrap_or(0)
    }

    /// Returns the number of blocks that code the sample with all tile sides.
    fn sample_blocks(&self) -> u64 {
        let large = &self.grids[0];
        let parts = |grid: &Grid| large.values() / grid.values();
        self.pieces(|grid| sample_tiles(large) * parts(grid)) * self.grids.len() as u64
    }

    /// Returns the addresses for compressing, with the scratch memory at `at`.
    fn compressing(&self, at: u64) -> Addresses {
        let aligned = |at: u64| at.next_multiple_of(256);
        let status = at + CONTROL;
        let loaded = aligned(status + 16 * self.pieces(Grid::tiles));
        let zeros = aligned(loaded + 4 * (self.shape.bytes() as u64 / CHUNK + 2));
        let table = aligned(zeros + 4 * self.tiles());
        Addresses { status, loaded, zeros, lengths: zeros, table, end: table + 4 * self.tiles() }
    }

    /// Returns the addresses for decompressing, with the scratch memory at `at`; `lengths` then
    /// holds offsets of tiles in the payload.
    fn decompressing(&self, at: u64) -> Addresses {
        let status = at + CONTROL;
        let zeros = (status + 16 * self.tiles().div_ceil(PORTION)).next_multiple_of(256);
        let end = zeros + 8 * (self.tiles() + 1);
        Addresses { status, loaded: 0, zeros, lengths: zeros, table: 0, end }
    }

    /// Returns the words of `Grid` in kernels/dct.cuh.
    fn describe(&self, grid: &Grid) -> [u64; 17] {
        let n = grid.n.map(|n| n as u64);
        let stride = [1, n[0], n[0] * n[1]];
        let mut text = [0; 17];
        let mut axis = 0;
        text[0] = grid.tiles() as u64;
        for a in 0..3 {
            text[1 + a] = grid.m[a] as u64;
            text[4 + a] = grid.t[a] as u64 * stride[a];
            if grid.t[a] > 1 {
                text[7 + axis] = a as u64;
                text[10 + axis] = n[a];
                text[13 + axis] = stride[a];
                axis += 1;
            }
        }
        text[16] = longest_directory(grid, self.shape.scalar.bytes() as usize) as u64;
        text
    }
}

impl GpuCoder for Dct {
    fn scratch(&self) -> u64 {
        self.compressing(0).end.max(self.decompressing(0).end)
    }

    fn kept(&self) -> u64 {
        TABLES
    }

    /// Returns the words of `Tables` in kernels/dct.cuh.
    fn tables(&self) -> Result<Vec<u64>> {
        let (large, small) = (&self.grids[0], self.grids.last().unwrap_or(&self.grids[0]));
        let parts = [0, 1, 2].map(|a| (large.t[a] / small.t[a]) as u64);
        let counts = [sample_tiles(large) as u64, self.shape.values() as u64, 0];
        let mut words = [self.describe(large), self.describe(small)].concat();
        words.extend(parts.into_iter().chain(counts));
        // Places of the coefficients in shared memory, as `at` of kernels/dct.cuh gives them.
        for grid in [large, small] {
            let mut places = [0u64; ORDER];
            for (place, &p) in places.iter_mut().zip(&order(grid.side, grid.dims)?) {
                *place = (p + p / grid.side as u32) as u64;
            }
            // Four places of 16 bits are a word.
            words.extend(places.chunks(4).map(|p| p[0] | p[1] << 16 | p[2] << 32 | p[3] << 48));
        }
        Ok(words)
    }

    fn compress(&self, queue: &Queue, x: Values, job: u64, room: Room) -> Result<()> {
        let Room { kept: tables, scratch } = room;
        let Addresses { status, loaded, zeros, lengths, table, .. } = self.compressing(scratch);
        let (pieces, sample) = (self.pieces(Grid::tiles), self.sample_blocks());
        queue.fill(scratch, 0, zeros - scratch)?;
        let mean = |round: u32, blocks: u64| {
            self.mean.launch(queue, blocks, &[&x.x, &x.later, &tables, &job, &scratch, &round])
        };
        let encode = |of_sample: u32, blocks: u64| {
            let arguments: [&dyn Argument; 9] =
                [&x.x, &x.later, &tables, &job, &scratch, &status, &lengths, &table, &of_sample];
            self.encode.launch(queue, blocks, &arguments)
        };
        if self.rms {
            (0..ROUNDS).try_for_each(|round| mean(round, sample))?;
        }
        if self.rms || self.grids.len() > 1 {
            encode(1, sample)?;
        }
        if self.rms {
            let passes = if pieces > FEW { PASSES } else { 0 };
            (0..passes).try_for_each(|_| mean(ROUNDS, pieces))?;
            mean(ROUNDS + 1, 1)?;
        }
        parts(pieces).try_for_each(|(_, blocks)| encode(0, blocks))?;
        let moves = (self.shape.bytes() as u64 / CHUNK + 2).min(MOVING);
        self.finish.launch(queue, moves, &[&tables, &job, &scratch, &lengths, &table, &loaded])
    }

    fn decompress(&self, queue: &Queue, x: Values, job: u64, room: Room) -> Result<()> {
        let Room { kept: tables, scratch } = room;
        let Addresses { status, zeros, lengths, .. } = self.decompressing(scratch);
        queue.fill(scratch, 0, zeros - scratch)?;
        let portions = self.tiles().div_ceil(PORTION);
        self.open.launch(queue, portions, &[&tables, &job, &scratch, &status, &lengths])?;
        for (first, blocks) in parts(self.pieces(Grid::tiles)) {
            let arguments: [&dyn Argument; 7] =
                [&x.x, &x.later, &tables, &job, &scratch, &lengths, &first];
            self.decode.launch(queue, blocks, &arguments)?;
        }
        Ok(())
    }
}
