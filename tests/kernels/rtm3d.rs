//! The kernels of `c-examples/rtm3d_cuda` on PTX: each value must have the bits of its formula.

use crate::common::app::device::{Memory, Own, Primary};
use crate::common::app::ok;
use crate::common::emu;
use crate::common::example::{self, View, HALO};
use crate::common::rig::Draw;
use cudarc::driver::sys::CUmodule;
use std::ffi::{c_void, CStr, CString};
use std::ptr::null_mut;

/// The threads of a tile of `step3`, and of a block of the other kernels.
const TILE: [u32; 2] = [32, 16];
const LINE: u32 = 128;

/// A device with the module of the kernels.
pub struct Gpu {
    module: CUmodule,
    stream: Own,
    arrays: Vec<Memory>,
    _primary: Primary,
}

impl Gpu {
    pub fn new() -> Self {
        let options = cudarc::nvrtc::CompileOptions {
            options: vec!["--fmad=false".to_owned(), "--gpu-architecture=compute_80".to_owned()],
            ..Default::default()
        };
        let image = cudarc::nvrtc::compile_ptx_with_opts(example::kernels(), options).unwrap();
        let (image, mut module) = (CString::new(image.to_src()).unwrap(), null_mut());
        let primary = Primary::new(0);
        ok!(cuModuleLoadData(&mut module, image.as_ptr().cast()));
        Self { module, stream: Own::new(), arrays: Vec::new(), _primary: primary }
    }

    /// Returns the address of a new array with these values.
    pub fn array<T>(&mut self, values: &[T]) -> u64 {
        let (bytes, from) = (size_of_val(values), values.as_ptr().cast());
        let memory = Memory::new(bytes as u64);
        ok!(cuMemcpyHtoDAsync_v2(memory.0, from, bytes, self.stream.0));
        self.arrays.push(memory);
        self.arrays.last().unwrap().0
    }

    pub fn finish(&self) {
        ok!(cuStreamSynchronize(self.stream.0));
    }

    pub fn launch(
        &self,
        name: &CStr,
        grid: [u32; 3],
        block: [u32; 2],
        arguments: &[*const c_void],
    ) {
        let mut function = null_mut();
        ok!(cuModuleGetFunction(&mut function, self.module, name.as_ptr()));
        let mut all: Vec<*mut c_void> = arguments.iter().map(|at| at.cast_mut()).collect();
        all.push(null_mut());
        let ([x, y, z], [a, b]) = (grid, block);
        let all = all.as_mut_ptr();
        ok!(cuLaunchKernel(function, x, y, z, a, b, 1, 0, self.stream.0, all, null_mut()));
    }

    /// Compares an array with what it must hold, bit for bit.
    fn check(&self, what: &str, address: u64, expected: &[f32]) {
        let mut found = vec![0f32; expected.len()];
        let bytes = size_of_val(expected);
        ok!(cuMemcpyDtoHAsync_v2(found.as_mut_ptr().cast(), address, bytes, self.stream.0));
        self.finish();
        for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert_eq!(found.to_bits(), expected.to_bits(), "{what}, value {i}");
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            ok!(cuModuleUnload(self.module));
        }
    }
}

/// The array of a medium, as the kernels see them.
struct Medium {
    /// The extents; the third is 1 in 2-D.
    e: [usize; 3],
    scale: Vec<f32>,
    damp: [Vec<f32>; 3],
}

impl Medium {
    /// Returns whether a value is outside the halo.
    fn is_inner(&self, i: usize) -> bool {
        let [e1, e2, e3] = self.e;
        let inner = |i: usize, e: usize| e == 1 || (HALO..e - HALO).contains(&i);
        inner(i % e1, e1) && inner(i / e1 % e2, e2) && inner(i / e1 / e2, e3)
    }

    /// Returns u(t+1), with the values of `p` in the halo.
    fn step(&self, u: &[f32], p: &[f32]) -> Vec<f32> {
        let weights = [-205.0 / 72.0, 8.0 / 5.0, -1.0 / 5.0, 8.0 / 315.0, -1.0 / 560.0f64];
        let w = weights.map(|weight| weight as f32);
        let [e1, e2, e3] = self.e;
        let mut next = p.to_vec();
        for i in (0..u.len()).filter(|&i| self.is_inner(i)) {
            let pair = |k: usize| {
                let sides = (u[i - k] + u[i + k]) + (u[i - k * e1] + u[i + k * e1]);
                let s3 = e1 * e2;
                if e3 == 1 {
                    sides
                } else {
                    sides + (u[i - k * s3] + u[i + k * s3])
                }
            };
            let dims = if e3 == 1 { 2.0 } else { 3.0 };
            let lap = dims * w[0] * u[i]
                + w[1] * pair(1)
                + w[2] * pair(2)
                + w[3] * pair(3)
                + w[4] * pair(4);
            let damp = self.damp[1][i / e1 % e2];
            let damp23 = if e3 == 1 { damp } else { damp * self.damp[2][i / e1 / e2] };
            next[i] = u[i] + damp23 * self.damp[0][i % e1] * (u[i] - p[i]) + self.scale[i] * lap;
        }
        next
    }
}

/// Returns the address of an argument of a kernel.
pub fn at<T>(argument: &T) -> *const c_void {
    std::ptr::from_ref(argument).cast()
}

/// Runs every kernel once or twice, with arrays of 3 dimensions for even seeds and of 2 for odd ones.
/// No extent is a multiple of a tile.
pub fn run(seed: u64) {
    assert_eq!(emu::reset(seed, emu::RANDOM, 1, 1 << 28), 0);
    let mut gpu = Gpu::new();
    let mut draw = Draw::new(seed);
    let mut values =
        |count: usize| -> Vec<f32> { (0..count).map(|_| draw.value() as f32).collect() };
    let e = [[43, 31, 19], [141, 19, 1]][seed as usize % 2];
    let [e1, e2, e3] = e;
    let points = e1 * e2 * e3;
    let medium = Medium { e, scale: values(points), damp: e.map(&mut values) };
    let (mut u, mut p) = (values(points), values(points));
    let scale = gpu.array(&medium.scale);
    let damp = [0, 1, 2].map(|axis| gpu.array(&medium.damp[axis]));
    let view = View { extents: e.map(|extent| extent as i32), scale, damp };
    let [mut at_u, mut at_p, mut at_q] = [&u, &p, &p].map(|values| gpu.array(values));

    // One step to an array of its own, one that overwrites u(t-1).
    for in_place in [false, true] {
        if in_place {
            at_q = at_p;
        }
        if e3 > 1 {
            let planes = 4 + seed as i32 % 5;
            let tiles = |extent: usize, tile: u32| (extent as u32).div_ceil(tile);
            let chunks = ((e3 - 2 * HALO) as u32).div_ceil(planes as u32);
            let grid = [tiles(e1 - HALO, TILE[0]), tiles(e2 - 2 * HALO, TILE[1]), chunks];
            let all = [at(&view), at(&at_u), at(&at_p), at(&at_q), at(&planes)];
            gpu.launch(c"step3", grid, TILE, &all);
        } else {
            let all = [at(&view), at(&at_u), at(&at_p), at(&at_q)];
            gpu.launch(c"step2", [(e2 - 2 * HALO) as u32, 1, 1], [LINE, 1], &all);
        }
        let next = medium.step(&u, &p);
        (p, u) = (u, next);
        (at_p, at_u) = (at_u, at_q);
        gpu.check("a step", at_u, &u);
    }

    let blocks = |count: usize| [(count as u32).div_ceil(LINE), 1, 1];
    let extents = e.map(|extent| extent as i32);
    let halo3 = if e3 > 1 { HALO as i32 } else { 0 };
    let [x, y, z] = &extents;
    let all = [at(x), at(y), at(z), at(&halo3), at(&at_u), at(&at_p)];
    gpu.launch(c"clear_halo", blocks(e2 * e3 * 2 * HALO), [LINE, 1], &all);
    for i in (0..points).filter(|&i| !medium.is_inner(i)) {
        (u[i], p[i]) = (0.0, 0.0);
    }
    gpu.check("the later field without its halo", at_u, &u);
    gpu.check("the earlier field without its halo", at_p, &p);

    let (index, source) = (points / 2, 3.5f32);
    gpu.launch(c"inject", [1; 3], [1, 1], &[at(&at_u), at(&scale), at(&index), at(&source)]);
    u[index] += medium.scale[index] * source;
    let receivers: Vec<usize> = (0..200).map(|r| points - 1 - 7 * r).collect();
    let count = receivers.len();
    let (observed, synthetic) = (values(count), values(count));
    let (at_receivers, at_data) = (gpu.array(&receivers), gpu.array(&synthetic));
    let at_observed = gpu.array(&observed);
    let all =
        [at(&at_p), at(&scale), at(&at_receivers), at(&count), at(&at_observed), at(&at_data)];
    gpu.launch(c"inject_residual", blocks(count), [LINE, 1], &all);
    for (r, &i) in receivers.iter().enumerate() {
        p[i] += medium.scale[i] * (observed[r] - synthetic[r]);
    }
    gpu.check("residuals", at_p, &p);
    let all = [at(&at_u), at(&at_receivers), at(&count), at(&at_data)];
    gpu.launch(c"record", blocks(count), [LINE, 1], &all);
    gpu.check("a record", at_data, &receivers.iter().map(|&i| u[i]).collect::<Vec<_>>());

    let [n1, n2, n3] = e.map(|extent| if extent > 1 { extent - 2 * HALO } else { 1 });
    let origin = HALO + e1 * (HALO + e2 * halo3 as usize);
    let mut images = [values(n1 * n2 * n3), values(n1 * n2 * n3)];
    let [correlation, illumination] = [0, 1].map(|i| gpu.array(&images[i]));
    let (width, height) = (n1 as i32, n2 as i32);
    let sums = [at(&at_u), at(&at_p), at(&correlation), at(&illumination)];
    let all = [at(&width), at(&height), at(&e1), at(&e2), at(&origin)];
    gpu.launch(c"correlate", [(n2 * n3) as u32, 1, 1], [LINE, 1], &[&all[..], &sums].concat());
    let [correlations, illuminations] = &mut images;
    let sums = correlations.iter_mut().zip(illuminations).enumerate();
    for (to, (correlated, illuminated)) in sums {
        let i = origin + to % n1 + e1 * (to / n1 % n2 + e2 * (to / n1 / n2));
        *correlated += u[i] * p[i];
        *illuminated += u[i] * u[i];
    }
    gpu.check("a correlation", correlation, &images[0]);
    gpu.check("an illumination", illumination, &images[1]);
}
