//! An application with a kernel of its own, compiled by NVRTC. Every state depends on every bit of
//! the state before, so that all later states show a wrong restore. On the software driver, NVRTC
//! is the machine's C++ compiler, and a thread of a kernel is a fibre.

use crate::common::{self, app, emu};
use app::{config, ok, MEMORY};
use cudarc::driver::sys::{CUfunction, CUmodule, CUstream};
use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::layout::Field;
use gpuzip::plan::Policy;
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{Algorithm, Kind};
use gpuzip::session::Session;
use std::ffi::{c_void, CString};
use std::ptr::null_mut;

const N: usize = 96;
const STEPS: u32 = 20;

/// Computes each value of the next state from the value and its left neighbour, through shared
/// memory.
const SOURCE: &str = r#"
extern "C" __global__ void forward(unsigned *u)
{
    __shared__ unsigned old[96];
    const unsigned i = threadIdx.x;
    old[i] = u[i];
    __syncthreads();
    u[i] = old[i] * 1664525u + old[(i + 95) % 96] + i;
}
"#;

fn forward(state: &[u32]) -> Vec<u32> {
    let next = |i: usize| {
        state[i].wrapping_mul(1_664_525).wrapping_add(state[(i + N - 1) % N]).wrapping_add(i as u32)
    };
    (0..N).map(next).collect()
}

/// Runs a shot whose FORWARDs are kernel launches. Returns the number of BACKWARDs that found a
/// wrong state.
fn sweep(image: &CString, cache: u32, policy: Policy) -> usize {
    let (mut context, mut module, mut function): (_, CUmodule, CUfunction) =
        (null_mut(), null_mut(), null_mut());
    let (mut stream, mut address, mut pinned): (CUstream, u64, *mut c_void) =
        (null_mut(), 0, null_mut());
    ok!(cuInit(0));
    ok!(cuDevicePrimaryCtxRetain(&mut context, 0));
    ok!(cuCtxSetCurrent(context));
    ok!(cuModuleLoadData(&mut module, image.as_ptr().cast()));
    ok!(cuModuleGetFunction(&mut function, module, c"forward".as_ptr()));
    ok!(cuStreamCreate(&mut stream, 1));
    ok!(cuMemAlloc_v2(&mut address, 4 * N));
    ok!(cuMemHostAlloc(&mut pinned, 4 * N * (STEPS as usize + 1), 0));
    let at = |i: u32| (pinned as usize + 4 * N * i as usize) as *mut c_void;
    let states: Vec<Vec<u32>> =
        std::iter::successors(Some((0..N as u32).collect()), |s: &Vec<u32>| Some(forward(s)))
            .take(STEPS as usize)
            .collect();
    // SAFETY: within the page-locked allocation, whose last part is the first state.
    unsafe { std::ptr::copy_nonoverlapping(states[0].as_ptr(), at(STEPS).cast(), N) };
    ok!(cuMemcpyHtoDAsync_v2(address, at(STEPS), 4 * N, stream));

    let field = Field { n: [N as u64, 1, 1], scalar: Scalar::F32, previous_of: None };
    let fields =
        // SAFETY: device memory that lives until the session is dropped.
        [AppField { field, memory: Some(unsafe { AppMemory::new(address as *mut u8, 4 * N) }) }];
    let mut session =
        Session::new(config(Algorithm::Revolve, 5, cache, policy), STEPS as i64, &fields).unwrap();
    loop {
        let action = session.get_action().unwrap().action;
        match action.kind {
            Kind::Forward => {
                let mut arguments = [(&raw mut address).cast::<c_void>()];
                ok!(cuLaunchKernel(
                    function,
                    1,
                    1,
                    1,
                    N as u32,
                    1,
                    1,
                    0,
                    stream,
                    arguments.as_mut_ptr(),
                    null_mut()
                ));
            }
            Kind::Save => session.save(action.ts as i64, &fields, Stream(stream.cast())).unwrap(),
            Kind::Restore => {
                session.retrieve(action.ts as i64, &fields, Stream(stream.cast())).unwrap()
            }
            Kind::Backward => ok!(cuMemcpyDtoHAsync_v2(at(action.ts), address, 4 * N, stream)),
            Kind::Terminate => break,
            Kind::Error => unreachable!("no schedule has it"),
        }
    }
    ok!(cuStreamSynchronize(stream));
    // SAFETY: every BACKWARD has copied its state there.
    let found = |ts: u32| unsafe { std::slice::from_raw_parts(at(ts).cast::<u32>(), N) };
    let wrong = (0..STEPS).filter(|&ts| found(ts) != states[ts as usize]).count();
    drop(session);
    ok!(cuModuleUnload(module));
    ok!(cuStreamDestroy_v2(stream));
    ok!(cuMemFree_v2(address));
    ok!(cuMemFreeHost(pinned));
    ok!(cuDevicePrimaryCtxRelease_v2(0));
    wrong
}

#[test]
fn kernels_find_their_states_under_every_seed() {
    if !common::have("c++") || !emu::inside("kernels_find_their_states_under_every_seed", &[]) {
        return;
    }
    let image = CString::new(cudarc::nvrtc::compile_ptx(SOURCE).unwrap().to_src()).unwrap();
    for seed in 0..200 {
        let mode = [emu::RANDOM, emu::RANDOM, emu::LATE, emu::EARLY][seed as usize % 4];
        assert_eq!(emu::reset(seed, mode, 1, MEMORY), 0, "left over before seed {seed}");
        let policy = if seed % 3 == 0 { Policy::Lru } else { Policy::Clairvoyant };
        assert_eq!(sweep(&image, seed as u32 % 6, policy), 0, "seed {seed}");
    }
}
