//! `L` tiles at a time through the transform, the quantiser and back. What is done to a tile does not depend on the others.

use super::grid::{mirror, Grid};
use super::lanes::Lanes;
use super::rows::{self, Correction, Scratch, LIMIT};
use super::transform::{forward, inverse};
use crate::codec::Real;
use crate::error::Result;
use crate::room;

/// What is added before the magnitude of a scaled coefficient is cut off: less than 1/2, as small magnitudes are the likelier ones.
const ROUND: f64 = 0.45;
/// Units of the squared error, as a part of the squared step.
pub(super) const ENERGY: f64 = 16384.0;

/// Conversions that the quantiser needs.
pub(super) trait Number: Real {
    /// Without its fraction; 0 <= self < 2^31.
    fn trunc(self) -> i32;
    /// The nearest value.
    fn from_i32(i: i32) -> Self;
}

macro_rules! number {
    ($float:ident) => {
        impl Number for $float {
            #[inline(always)]
            fn trunc(self) -> i32 {
                self as i32
            }
            #[inline(always)]
            fn from_i32(i: i32) -> Self {
                i as $float
            }
        }
    };
}

number!(f32);
number!(f64);

/// How an array is quantised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantiser<T> {
    /// The step, scaled for what the transform leaves out.
    pub step: T,
    /// 1 / `step`.
    inverse: T,
    /// Unit of the corrections.
    pub unit: T,
    per_unit: T,
    /// |x - decoded x| must not exceed this; `None`: its square is summed up instead.
    most: Option<T>,
    per_step: T,
}

impl<T: Number> Quantiser<T> {
    /// For orthonormal coefficients quantised with `step`, and corrections by multiples of `unit`. `None`: they do not fit the type.
    pub fn new(grid: &Grid, step: f64, unit: f64, most: Option<f64>) -> Option<Self> {
        let scale = scale(grid);
        let q = Quantiser {
            step: T::from_f64(step * scale),
            inverse: T::from_f64(scale / step),
            unit: T::from_f64(unit),
            per_unit: T::from_f64(1.0 / unit),
            most: most.map(|most| below(most)),
            per_step: T::from_f64(1.0 / step),
        };
        let normal = |x: T| x.is_finite() && x.to_f64().abs() > least::<T>();
        let fits = [q.step, q.inverse, q.per_step].into_iter().all(normal);
        (fits && (most.is_none() || [q.unit, q.per_unit].into_iter().all(normal))).then_some(q)
    }
}

/// The least normal number of a type, as far as it matters here.
fn least<T: Real>() -> f64 {
    if T::BYTES == 4 {
        f64::from(f32::MIN_POSITIVE)
    } else {
        f64::MIN_POSITIVE
    }
}

/// (2 / side)^(dims / 2): what turns the products of the transform into orthonormal ones.
fn scale(grid: &Grid) -> f64 {
    let axis = match grid.side {
        8 => 0.5,
        16 => std::f64::consts::FRAC_1_SQRT_2 / 2.0,
        _ => 0.25,
    };
    (0..grid.dims).fold(1.0, |s, _| s * axis)
}

/// A little less than `bound`, so that a difference that was rounded can be compared with it.
fn below<T: Real>(bound: f64) -> T {
    let relative = if T::BYTES == 4 { 1.0 / 4194304.0 } else { 1.0 / 1125899906842624.0 };
    T::from_f64(bound * (1.0 - relative))
}

/// Room for a batch.
pub(super) struct Batch<T, const L: usize> {
    /// The tiles, and what they are decoded to.
    x: Vec<Lanes<T, L>>,
    /// The tiles as they were.
    original: Vec<Lanes<T, L>>,
    /// Coefficients.
    q: Vec<Lanes<i32, L>>,
    /// Sums of the magnitudes of rows.
    sums: Vec<Lanes<u32, L>>,
    corrections: Vec<Correction>,
    count: [usize; L],
    /// Tiles that must be stored as they are.
    raw: [bool; L],
    /// Sums of squared errors.
    pub energy: [u64; L],
    scratch: Scratch,
}

/// What became of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coded {
    /// It decodes to zeros.
    Empty,
    /// So many bytes.
    Bytes(usize),
    /// It must be stored as it is.
    Raw,
}

/// Most corrections of a tile.
fn most_corrections(values: usize) -> usize {
    values / 4
}

impl<T: Number, const L: usize> Batch<T, L> {
    /// Room for tiles of up to so many values.
    pub fn new(values: usize) -> Result<Self> {
        let zeros = Lanes([T::default(); L]);
        Ok(Batch {
            x: room::filled(zeros, values)?,
            original: room::filled(zeros, values)?,
            q: room::filled(Lanes([0; L]), values)?,
            sums: room::filled(Lanes([0; L]), values / 8)?,
            corrections: room::filled(Correction::default(), L * most_corrections(values))?,
            count: [0; L],
            raw: [false; L],
            energy: [0; L],
            scratch: Scratch::new(values)?,
        })
    }

    /// Transforms and quantises the tiles `ids` of `x` and checks what they decode to.
    #[inline(always)]
    pub fn encode(&mut self, grid: &Grid, q: &Quantiser<T>, x: &[T], ids: &[usize; L]) {
        match grid.side {
            8 => self.encode_side::<8>(grid, q, x, ids),
            16 => self.encode_side::<16>(grid, q, x, ids),
            _ => self.encode_side::<32>(grid, q, x, ids),
        }
    }

    #[inline(always)]
    fn encode_side<const S: usize>(&mut self, grid: &Grid, q: &Quantiser<T>, x: &[T], ids: &[usize; L]) {
        let values = grid.values();
        self.gather::<S>(grid, x, ids);
        self.count = [0; L];
        self.raw = [false; L];
        self.energy = [0; L];
        self.original[..values].copy_from_slice(&self.x[..values]);
        planes::<T, L, S>(&mut self.x[..values], grid.dims, true, forward);
        self.quantise::<S>(values, q);
        planes::<T, L, S>(&mut self.x[..values], grid.dims, false, inverse);
        self.check::<S>(grid, q, ids);
        if values == 4096 {
            self.sum_rows::<16>(grid);
        } else {
            self.sum_rows::<8>(grid);
        }
    }

    /// The transform along the last axis, the quantiser, and back.
    #[inline(always)]
    fn quantise<const S: usize>(&mut self, values: usize, q: &Quantiser<T>) {
        let columns = values / S;
        let limit = T::from_i32(LIMIT as i32 - 1);
        let round = T::from_f64(ROUND);
        let mut wild = Lanes([0u32; L]);
        for c in 0..columns {
            let mut line = forward::<T, L, S>(&std::array::from_fn(|i| self.x[c + i * columns]));
            for (i, y) in line.iter_mut().enumerate() {
                let to = &mut self.q[c + i * columns];
                for l in 0..L {
                    let scaled = y.0[l].abs() * q.inverse;
                    let fits = scaled < limit;
                    wild.0[l] |= u32::from(!fits);
                    let magnitude = (if fits { scaled } else { T::default() } + round).trunc();
                    let signed = if y.0[l] < T::default() { -magnitude } else { magnitude };
                    to.0[l] = signed;
                    y.0[l] = T::from_i32(signed) * q.step;
                }
            }
            let line = inverse::<T, L, S>(&line);
            for (i, y) in line.iter().enumerate() {
                self.x[c + i * columns] = *y;
            }
        }
        self.raw = wild.0.map(|w| w != 0);
    }

    /// Compares what was decoded with the original.
    #[inline(always)]
    fn check<const S: usize>(&mut self, grid: &Grid, q: &Quantiser<T>, ids: &[usize; L]) {
        let values = grid.values();
        let Some(most) = q.most else { return self.measure::<S>(grid, q, ids) };
        let inside: [[usize; 3]; L] = std::array::from_fn(|l| grid.inside(ids[l]).1);
        for p in 0..values {
            let (o, d) = (&self.original[p], &self.x[p]);
            let mut misses = Lanes([0u32; L]);
            let mut any = 0;
            for l in 0..L {
                misses.0[l] = u32::from(!((o.0[l] - d.0[l]).abs() <= most));
                any |= misses.0[l];
            }
            if any != 0 {
                for l in 0..L {
                    if misses.0[l] != 0 && !self.raw[l] && within(grid, inside[l], p) {
                        self.correct(values, q, most, l, p);
                    }
                }
            }
        }
    }

    /// Notes a correction.
    #[inline(always)]
    fn correct(&mut self, values: usize, q: &Quantiser<T>, most: T, l: usize, p: usize) {
        let (o, d) = (self.original[p].0[l], self.x[p].0[l]);
        let units = (o - d).abs() * q.per_unit;
        let room = most_corrections(values);
        if self.count[l] == room || !(units < T::from_i32(1 << 20)) {
            self.raw[l] = true;
            return;
        }
        let magnitude = (units + T::from_f64(0.5)).trunc();
        let level = if o < d { -magnitude } else { magnitude };
        let corrected = d + T::from_i32(level) * q.unit;
        if level == 0 || !((o - corrected).abs() <= most) {
            self.raw[l] = true;
            return;
        }
        self.corrections[l * room + self.count[l]] = Correction { at: p as u32, level };
        self.count[l] += 1;
    }

    /// Sums up the squared errors.
    #[inline(always)]
    fn measure<const S: usize>(&mut self, grid: &Grid, q: &Quantiser<T>, ids: &[usize; L]) {
        let values = grid.values();
        let inside: [[usize; 3]; L] = std::array::from_fn(|l| grid.inside(ids[l]).1);
        let whole = inside.iter().all(|&inside| inside == grid.t);
        let mut wild = Lanes([0u32; L]);
        for first in (0..values).step_by(32) {
            let mut sums = Lanes([0u32; L]);
            for p in first..first + 32 {
                let (o, d) = (&self.original[p], &self.x[p]);
                for l in 0..L {
                    let u = (o.0[l] - d.0[l]) * q.per_step;
                    let square = u * u;
                    let fits = square < T::from_i32(1 << 10);
                    let unit = (if fits { square } else { T::default() } * T::from_f64(ENERGY)).trunc() as u32 + 1;
                    let counts = whole || within(grid, inside[l], p);
                    wild.0[l] |= u32::from(!fits & counts);
                    sums.0[l] += if counts { unit } else { 0 };
                }
            }
            for l in 0..L {
                self.energy[l] += u64::from(sums.0[l]);
            }
        }
        for l in 0..L {
            self.raw[l] |= wild.0[l] != 0;
            if self.raw[l] {
                self.energy[l] = 0;
            }
        }
    }

    #[inline(always)]
    fn sum_rows<const R: usize>(&mut self, grid: &Grid) {
        for (row, sum) in grid.order.chunks_exact(R).zip(&mut self.sums) {
            let mut sums = [0u32; L];
            for &p in row {
                let q = &self.q[p as usize];
                for l in 0..L {
                    sums[l] += q.0[l].unsigned_abs();
                }
            }
            sum.0 = sums;
        }
    }

    /// Writes the tile of lane `l` to `to`, if that takes less than `most` bytes.
    #[inline(always)]
    pub fn write(&mut self, grid: &Grid, l: usize, to: &mut [u8], most: usize) -> Coded {
        let values = grid.values();
        if self.raw[l] {
            return Coded::Raw;
        }
        let room = most_corrections(values);
        let corrections = &self.corrections[l * room..l * room + self.count[l]];
        let row = if values == 4096 { 16 } else { 8 };
        let sums = &self.sums[..values / row];
        if corrections.is_empty() && sums.iter().all(|s| s.0[l] == 0) {
            return Coded::Empty;
        }
        let q = |i: usize| self.q[grid.order[i] as usize].0[l];
        let bytes = if row == 16 {
            rows::write::<16, L>(values, q, sums, l, corrections, &mut self.scratch, to, most)
        } else {
            rows::write::<8, L>(values, q, sums, l, corrections, &mut self.scratch, to, most)
        };
        bytes.map_or(Coded::Raw, Coded::Bytes)
    }

    /// Loads tiles; what is outside the array is its mirror image.
    #[inline(always)]
    fn gather<const S: usize>(&mut self, grid: &Grid, x: &[T], ids: &[usize; L]) {
        let [n1, n2, _] = grid.n;
        for l in 0..L {
            let (first, inside) = grid.inside(ids[l]);
            let mut p = 0;
            for k in 0..grid.t[2] {
                let k = mirror(first[2] + k, grid.n[2]);
                for j in 0..grid.t[1] {
                    let j = mirror(first[1] + j, grid.n[1]);
                    let line = &x[(k * n2 + j) * n1..][..n1];
                    if inside[0] == S {
                        let from = &line[first[0]..][..S];
                        for (to, from) in self.x[p..p + S].iter_mut().zip(from) {
                            to.0[l] = *from;
                        }
                    } else {
                        for i in 0..grid.t[0] {
                            self.x[p + i].0[l] = line[mirror(first[0] + i, n1)];
                        }
                    }
                    p += grid.t[0];
                }
            }
        }
    }

    /// Decodes up to `L` tiles, of which `bytes[l]` are the bits, `None` standing for zeros, into the tiles `ids` of `x`.
    #[inline(always)]
    pub fn decode(&mut self, grid: &Grid, q: &Quantiser<T>, bytes: &[Option<&[u8]>], ids: &[usize], x: &mut [T]) -> Option<()> {
        match grid.side {
            8 => self.decode_side::<8>(grid, q, bytes, ids, x),
            16 => self.decode_side::<16>(grid, q, bytes, ids, x),
            _ => self.decode_side::<32>(grid, q, bytes, ids, x),
        }
    }

    #[inline(always)]
    fn decode_side<const S: usize>(
        &mut self,
        grid: &Grid,
        q: &Quantiser<T>,
        bytes: &[Option<&[u8]>],
        ids: &[usize],
        x: &mut [T],
    ) -> Option<()> {
        let values = grid.values();
        let room = most_corrections(values);
        self.x[..values].fill(Lanes([T::default(); L]));
        self.count = [0; L];
        for (l, bytes) in bytes.iter().enumerate().take(L) {
            let Some(bytes) = bytes else { continue };
            let to = &mut self.x[..values];
            let put = |i: usize, v: i32| to[grid.order[i] as usize].0[l] = T::from_i32(v) * q.step;
            let corrections = &mut self.corrections[l * room..(l + 1) * room];
            self.count[l] = if values == 4096 {
                rows::read::<16>(values, bytes, &mut self.scratch, corrections, put)?
            } else {
                rows::read::<8>(values, bytes, &mut self.scratch, corrections, put)?
            };
        }
        let columns = values / S;
        for c in 0..columns {
            let line = inverse::<T, L, S>(&std::array::from_fn(|i| self.x[c + i * columns]));
            for (i, y) in line.iter().enumerate() {
                self.x[c + i * columns] = *y;
            }
        }
        planes::<T, L, S>(&mut self.x[..values], grid.dims, false, inverse);
        for l in 0..ids.len().min(L) {
            for c in &self.corrections[l * room..l * room + self.count[l]] {
                let value = &mut self.x[c.at as usize].0[l];
                *value = *value + T::from_i32(c.level) * q.unit;
            }
        }
        self.scatter(grid, ids, x);
        Some(())
    }

    /// Stores tiles.
    #[inline(always)]
    fn scatter(&self, grid: &Grid, ids: &[usize], x: &mut [T]) {
        let [n1, n2, _] = grid.n;
        for (l, &id) in ids.iter().enumerate().take(L) {
            let (first, inside) = grid.inside(id);
            for k in 0..inside[2] {
                for j in 0..inside[1] {
                    let to = &mut x[((first[2] + k) * n2 + first[1] + j) * n1 + first[0]..][..inside[0]];
                    let p = (k * grid.t[1] + j) * grid.t[0];
                    for (to, from) in to.iter_mut().zip(&self.x[p..]) {
                        *to = from.0[l];
                    }
                }
            }
        }
    }
}

/// Is place `p` of a tile in the part that has these extents?
#[inline(always)]
fn within(grid: &Grid, inside: [usize; 3], p: usize) -> bool {
    p % grid.t[0] < inside[0] && p / grid.t[0] % grid.t[1] < inside[1] && p / grid.t[0] / grid.t[1] < inside[2]
}

/// Applies a transform along all axes but the last, plane by plane, first axis first or last.
#[inline(always)]
fn planes<T: Number, const L: usize, const S: usize>(
    x: &mut [Lanes<T, L>],
    dims: usize,
    ahead: bool,
    transform: impl Fn(&[Lanes<T, L>; S]) -> [Lanes<T, L>; S],
) {
    if dims == 1 {
        return;
    }
    let axes = dims - 1;
    for plane in x.chunks_exact_mut(S * if axes == 2 { S } else { 1 }) {
        for axis in 0..axes {
            let axis = if ahead { axis } else { axes - 1 - axis };
            for line in 0..plane.len() / S {
                let (first, stride) = if axis == 0 { (line * S, 1) } else { (line, S) };
                let out = transform(&std::array::from_fn(|i| plane[first + i * stride]));
                for (i, y) in out.iter().enumerate() {
                    plane[first + i * stride] = *y;
                }
            }
        }
    }
}
