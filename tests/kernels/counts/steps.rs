//! The kernel of a time step of `c-examples/rtm3d_cuda`, of which a run is made beside the codecs.

use super::table::Row;
use crate::common::emu;
use crate::common::example::{self, View, HALO};
use cudarc::driver::sys::{self, CUresult};
use std::ffi::{c_void, CString};
use std::ptr::null_mut;

macro_rules! ok {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: all arguments are live objects or addresses of variables for results.
        let result = unsafe { sys::$function($($argument),*) };
        assert_eq!(result, CUresult::CUDA_SUCCESS, stringify!($function));
    }};
}

/// Extents of the array: 124 x 128 x 64 cells, whole tiles of the kernel, and a halo of 4 cells on
/// each side.
const E: [usize; 3] = [132, 136, 72];

/// Returns the row of `step3`; all figures are per cell.
pub fn rows() -> Vec<Row> {
    assert_eq!(emu::reset(1, emu::EARLY, 1, 1 << 28), 0);
    let options = cudarc::nvrtc::CompileOptions {
        options: vec!["--fmad=false".to_owned(), "--gpu-architecture=compute_80".to_owned()],
        ..Default::default()
    };
    let image = cudarc::nvrtc::compile_ptx_with_opts(example::kernels(), options).unwrap().to_src();
    let image = CString::new(image).unwrap();
    let (mut context, mut module, mut stream) = (null_mut(), null_mut(), null_mut());
    ok!(cuInit(0));
    ok!(cuDevicePrimaryCtxRetain(&mut context, 0));
    ok!(cuCtxSetCurrent(context));
    ok!(cuModuleLoadData(&mut module, image.as_ptr().cast()));
    ok!(cuStreamCreate(&mut stream, 1));
    let values: usize = E.iter().product();
    let cells: usize = E.iter().map(|extent| extent - 2 * HALO).product();
    let mut addresses = Vec::new();
    let mut array = |count: usize| -> u64 {
        let mut address = 0;
        ok!(cuMemAlloc_v2(&mut address, 4 * count));
        ok!(cuMemsetD8Async(address, 0, 4 * count, stream));
        addresses.push(address);
        address
    };
    let [mut u, mut p, scale] = [(); 3].map(|()| array(values));
    let damp = E.map(&mut array);
    let mut view = View { extents: E.map(|extent| extent as i32), scale, damp };
    emu::count_kernels();
    let inner = E.map(|extent| (extent - 2 * HALO) as u32);
    let mut planes = inner[2] as i32;
    let mut q = p;
    let mut arguments: [*mut c_void; 5] = [
        (&raw mut view).cast(),
        (&raw mut u).cast(),
        (&raw mut p).cast(),
        (&raw mut q).cast(),
        (&raw mut planes).cast(),
    ];
    let mut function = null_mut();
    ok!(cuModuleGetFunction(&mut function, module, c"step3".as_ptr()));
    let (x, y) = ((E[0] - HALO).div_ceil(32) as u32, inner[1].div_ceil(16));
    let with = arguments.as_mut_ptr();
    ok!(cuLaunchKernel(function, x, y, 1, 32, 16, 1, 0, stream, with, null_mut()));
    ok!(cuStreamSynchronize(stream));
    let rows = super::counted("rtm3d step f32 3 -", cells as f64);
    ok!(cuModuleUnload(module));
    ok!(cuStreamDestroy_v2(stream));
    for address in addresses {
        ok!(cuMemFree_v2(address));
    }
    ok!(cuDevicePrimaryCtxRelease_v2(0));
    rows
}
