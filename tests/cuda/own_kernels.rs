//! An application with a kernel of its own, compiled by NVRTC. Every state depends on every bit of
//! the state before, so that all later states show a wrong restore. On the software driver, NVRTC
//! is the machine's C++ compiler, and a thread of a kernel is a fibre.

use crate::common::play::play;
use crate::common::prelude::*;
use crate::common::{self, app, emu};
use app::device::{Memory, Own, Pinned, Primary};
use app::{config, ok, MEMORY};
use cudarc::driver::sys::{CUfunction, CUmodule};
use gpuzip::device::Stream;
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

/// An application whose FORWARDs are kernel launches, and whose BACKWARDs copy the states out.
struct Kernels {
    function: CUfunction,
    stream: Own,
    memory: Memory,
    /// Room for all states, and behind them the first state.
    pinned: Pinned,
}

impl Kernels {
    fn at(&self, ts: u32) -> *mut c_void {
        self.pinned.0.wrapping_byte_add(4 * N * ts as usize)
    }
}

impl App for Kernels {
    fn fields(&mut self) -> Vec<AppField> {
        vec![self.memory.field(N, None)]
    }

    fn stream(&self) -> Stream {
        Stream(self.stream.0.cast())
    }

    fn forward(&mut self, _: u32) {
        let (function, n, stream) = (self.function, N as u32, self.stream.0);
        let mut arguments = [(&raw mut self.memory.0).cast::<c_void>()];
        let all = arguments.as_mut_ptr();
        ok!(cuLaunchKernel(function, 1, 1, 1, n, 1, 1, 0, stream, all, null_mut()));
    }

    fn backward(&mut self, tick: Tick) {
        let to = self.at(tick.action.ts);
        ok!(cuMemcpyDtoHAsync_v2(to, self.memory.0, 4 * N, self.stream.0));
    }
}

/// Runs a shot. Returns the number of BACKWARDs that found a wrong state.
fn sweep(image: &CString, cache: u32, policy: Policy) -> usize {
    let (mut module, mut function): (CUmodule, CUfunction) = (null_mut(), null_mut());
    let _primary = Primary::new(0);
    ok!(cuModuleLoadData(&mut module, image.as_ptr().cast()));
    ok!(cuModuleGetFunction(&mut function, module, c"forward".as_ptr()));
    let bytes = 4 * N as u64;
    let (memory, pinned) = (Memory::new(bytes), Pinned::new(bytes * u64::from(STEPS + 1)));
    let mut app = Kernels { function, stream: Own::new(), memory, pinned };
    let states: Vec<Vec<u32>> =
        std::iter::successors(Some((0..N as u32).collect()), |s: &Vec<u32>| Some(forward(s)))
            .take(STEPS as usize)
            .collect();
    // SAFETY: within the page-locked allocation, whose last part is the first state.
    unsafe { std::ptr::copy_nonoverlapping(states[0].as_ptr(), app.at(STEPS).cast(), N) };
    ok!(cuMemcpyHtoDAsync_v2(app.memory.0, app.at(STEPS), 4 * N, app.stream.0));
    let config = config(Algorithm::Revolve, 5, cache, policy);
    let mut session = Session::new(config, STEPS as i64, &app.fields()).unwrap();
    play(&mut session, &mut app).unwrap();
    ok!(cuStreamSynchronize(app.stream.0));
    // SAFETY: every BACKWARD has copied its state there.
    let found = |ts: u32| unsafe { std::slice::from_raw_parts(app.at(ts).cast::<u32>(), N) };
    let wrong = (0..STEPS).filter(|&ts| found(ts) != states[ts as usize]).count();
    drop(session);
    ok!(cuModuleUnload(module));
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
