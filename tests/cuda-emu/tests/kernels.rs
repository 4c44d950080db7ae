//! Tests the results of kernels, their order, and the detection of their errors.

mod common;

use common::*;
use std::ffi::{c_char, c_void, CString};
use std::ptr::null_mut;
use std::sync::OnceLock;

const SOURCE: &str = include_str!("kernels.cu");

/// Compiles a source. Returns status, image and log.
fn compile(source: &str, options: &[&str]) -> (i32, CString, String) {
    let c = |text: &str| CString::new(text).unwrap();
    let (source, mut program) = (c(source), 0);
    let options: Vec<CString> = options.iter().map(|option| c(option)).collect();
    let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    // SAFETY: all texts are C strings, and the buffers have the sizes that NVRTC gave.
    unsafe {
        let null = std::ptr::null();
        assert_eq!(
            nvrtcCreateProgram(
                Out::from(&mut program),
                source.as_ptr(),
                c"test.cu".as_ptr(),
                0,
                null,
                null
            ),
            0
        );
        let status = nvrtcCompileProgram(program, pointers.len() as i32, pointers.as_ptr());
        let (mut size, mut log_size) = (0, 0);
        assert_eq!(
            nvrtcGetPTXSize(program, Out::from(&mut size))
                + nvrtcGetProgramLogSize(program, Out::from(&mut log_size)),
            0
        );
        let (mut image, mut log) = (vec![0_u8; size], vec![0_u8; log_size]);
        assert_eq!(
            nvrtcGetPTX(program, image.as_mut_ptr().cast())
                + nvrtcGetProgramLog(program, log.as_mut_ptr().cast()),
            0
        );
        assert_eq!(nvrtcDestroyProgram(Out::from(&mut program)), 0);
        (
            status,
            CString::from_vec_with_nul(image).unwrap(),
            CString::from_vec_with_nul(log).unwrap().into_string().unwrap(),
        )
    }
}

fn load(image: &CString) -> Handle {
    let mut module = 0;
    ok(cuModuleLoadData(Out::from(&mut module), image.as_ptr().cast()));
    module
}

fn function(module: Handle, name: &str) -> Handle {
    let (mut function, name) = (0, CString::new(name).unwrap());
    ok(cuModuleGetFunction(Out::from(&mut function), module, name.as_ptr()));
    function
}

/// Returns a kernel of `SOURCE`, loaded into the current context.
fn kernel(name: &str) -> Handle {
    static IMAGE: OnceLock<CString> = OnceLock::new();
    let image = IMAGE.get_or_init(|| {
        let (status, image, log) =
            compile(SOURCE, &["--gpu-architecture=sm_80", "-D", "uint3_or_dim3=uint4"]);
        assert_eq!(status, 0, "{log}");
        image
    });
    function(load(image), name)
}

fn launch(
    function: Handle,
    grid: [u32; 3],
    block: u32,
    shared: u32,
    stream: Handle,
    arguments: &[*const c_void],
) -> Status {
    let [x, y, z] = grid;
    cuLaunchKernel(
        function,
        x,
        y,
        z,
        block,
        1,
        1,
        shared,
        stream,
        arguments.as_ptr() as *mut *mut c_void,
        null_mut(),
    )
}

fn p<T>(argument: &T) -> *const c_void {
    std::ptr::from_ref(argument).cast()
}

/// Allocates device memory and writes `values` into it; in this driver the host may write device
/// memory.
fn device<T: Copy>(values: &[T]) -> Address {
    let address = device_memory(size_of_val(values));
    // SAFETY: `address` is new memory of this size, aligned for all numbers.
    unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), address as *mut T, values.len()) };
    address
}

fn values<T: Copy>(address: Address, len: usize) -> Vec<T> {
    // SAFETY: the tests read values that they or a kernel have written at `address`.
    unsafe { std::slice::from_raw_parts(address as *const T, len) }.to_vec()
}

/// A kernel must have ended before its module is unloaded.
#[test]
fn a_kernel_fails_without_its_module() {
    let _session = Session::new(0, Mode::Late);
    let (_, image, _) = compile("extern \"C\" __global__ void one(int *p) { *p = 1; }", &[]);
    let (module, out) = (load(&image), device(&[0_u32]));
    ok(launch(function(module, "one"), [1; 3], 1, 0, 0, &[p(&out)]));
    ok(cuModuleUnload(module));
    assert_eq!(cuCtxSynchronize(), ILLEGAL_ADDRESS);
}

#[test]
fn a_grid_adds_vectors() {
    for mode in [Mode::Random, Mode::Late, Mode::Early, Mode::Timed] {
        let _session = Session::new(1, mode);
        let n = 1000_i32;
        let input: Vec<f32> = (0..n).map(|k| k as f32).collect();
        let (a, b, c) = (device(&input), device(&input), device(&vec![0_f32; 1000]));
        ok(launch(kernel("add"), [8, 1, 1], 128, 0, 0, &[p(&c), p(&a), p(&b), p(&n)]));
        ok(cuCtxSynchronize());
        assert_eq!(values::<f32>(c, 1000), input.iter().map(|v| 2.0 * v).collect::<Vec<_>>());
        assert_eq!(calls("cuLaunchKernel"), 1);
    }
}

#[test]
fn a_block_reduces_through_shared_memory() {
    for seed in 0..20 {
        let _session = Session::new(seed, Mode::Random);
        let input: Vec<u32> = (0..1024).collect();
        let (v, sums) = (device(&input), device(&[0_u32; 4]));
        ok(launch(kernel("reduce"), [4, 1, 1], 256, 1024, 0, &[p(&sums), p(&v)]));
        ok(cuCtxSynchronize());
        let expected: Vec<u32> =
            input.chunks(256).map(|part| part.iter().sum::<u32>() + 1).collect();
        assert_eq!(values::<u32>(sums, 4), expected);
    }
}

#[test]
fn warps_vote_and_shuffle() {
    let _session = Session::new(5, Mode::Random);
    let out = device(&[0_u32; 64 * 5]);
    ok(launch(kernel("warp"), [1, 1, 1], 64, 0, 0, &[p(&out)]));
    ok(cuCtxSynchronize());
    for (t, lane) in values::<u32>(out, 64 * 5).chunks(5).enumerate() {
        let (first, t) = (t as u32 / 32 * 32, t as u32);
        let ballot =
            (0..32).filter(|lane| (first + lane) % 3 == 0).fold(0, |mask, lane| mask | 1 << lane);
        let sum = (first..first + 32).sum();
        let votes = first + 31 + if first == 0 { 1000 } else { 100 };
        assert_eq!(
            lane,
            [
                ballot,
                sum,
                if t == first { t } else { t - 1 },
                votes,
                ((t / 8 * 8 + 4) as f32).to_bits()
            ]
        );
    }
}

#[test]
fn tickets_are_drawn_once_and_in_an_order_of_the_seed() {
    let orders = seeds(10, Mode::Random, || {
        let (order, next, sum) = (device(&[0_u32; 256]), device(&[0_u32]), device(&[0_u64; 2]));
        ok(launch(kernel("ticket"), [8, 1, 1], 32, 0, 0, &[p(&order), p(&next), p(&sum)]));
        ok(cuCtxSynchronize());
        assert_eq!(values::<u64>(sum, 2), [256 << 33, 7]);
        values::<u32>(order, 256)
    });
    for order in &orders {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..256).collect::<Vec<_>>());
    }
    assert!(orders[1..].iter().any(|order| *order != orders[0]));
}

#[test]
fn blocks_know_their_index_and_arguments_are_copied() {
    let _session = Session::new(3, Mode::Late);
    let out = device(&[0_u32; 24 * 4]);
    let mut v = [1_f32, 2.0, 3.0, 4.0];
    ok(launch(kernel("index"), [2, 3, 4], 1, 0, 0, &[p(&out), p(&v)]));
    v.fill(100.0);
    ok(cuCtxSynchronize());
    let expected: Vec<u32> = (0..24).flat_map(|b| [b % 2, b / 2 % 3, b / 6, 10]).collect();
    assert_eq!((values::<u32>(out, 96), v[0]), (expected, 100.0));
}

/// Runs a kernel in one stream and copies its result in another stream, which waits for the kernel
/// if `wait` is true. Returns whether the copy saw the result.
fn kernel_then_copy(wait: bool) -> bool {
    let (a, b) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let (x, c, host) = (device(&[1_f32; 64]), device(&[0_f32; 64]), pinned(256));
    ok(launch(kernel("add"), [4, 1, 1], 16, 0, a, &[p(&c), p(&x), p(&x), p(&64_i32)]));
    if wait {
        let e = event(2);
        ok(cuEventRecord(e, a));
        ok(cuStreamWaitEvent(b, e, 0));
        ok(cuEventDestroy_v2(e));
    }
    ok(cuMemcpyDtoHAsync_v2(host, c, 256, b));
    ok(cuCtxSynchronize());
    values::<f32>(host, 64) == [2.0; 64]
}

#[test]
fn a_kernel_is_ordered_by_events_only() {
    assert_eq!(seeds(60, Mode::Random, || kernel_then_copy(true)), [true; 60]);
    let right =
        seeds(60, Mode::Random, || kernel_then_copy(false)).iter().filter(|right| **right).count();
    assert!((5..55).contains(&right), "{right}");
}

#[test]
fn a_missing_barrier_is_seen() {
    let run = |wait: i32| {
        seeds(20, Mode::Random, || {
            let out = device(&[0_i32; 32]);
            ok(launch(kernel("shift"), [1; 3], 32, 0, 0, &[p(&out), p(&wait)]));
            ok(cuCtxSynchronize());
            values::<i32>(out, 32) == (0..32).collect::<Vec<_>>()
        })
    };
    assert!(run(1).iter().all(|right| *right) && run(0).iter().any(|right| !*right));
}

#[test]
fn shared_memory_is_poisoned_before_each_block() {
    let _session = Session::new(0, Mode::Late);
    let out = device(&[0_u32; 4]);
    ok(launch(kernel("fresh"), [2, 1, 1], 1, 16, 0, &[p(&out), p(&0x5a5a_5a5a_u32)]));
    ok(cuCtxSynchronize());
    assert_eq!(values::<u32>(out, 4), [0xa5a5_a5a5; 4]);
}

#[test]
fn threads_may_spin_on_atomics() {
    let _session = Session::new(0, Mode::Random);
    let turn = device(&[0_i32]);
    ok(launch(kernel("spin"), [1; 3], 64, 0, 0, &[p(&turn)]));
    ok(cuCtxSynchronize());
    assert_eq!(values::<i32>(turn, 1), [64]);
}

#[test]
fn failures_stick() {
    for (name, blocks) in [("trap", 3), ("diverge", 1), ("lost", 1)] {
        let _session = Session::new(2, Mode::Random);
        let out = device(&[0_u32; 4]);
        ok(launch(kernel(name), [blocks, 1, 1], 32, 0, 0, &[p(&out)]));
        assert_eq!([cuCtxSynchronize(), cuCtxSynchronize()], [LAUNCH_FAILED; 2], "{name}");
    }
    let _session = Session::new(2, Mode::Random);
    let (f, out) = (kernel("trap"), device(&[0_u32; 4]));
    fail("cuLaunchKernel", 1, OUT_OF_MEMORY);
    assert_eq!(launch(f, [1; 3], 1, 0, 0, &[p(&out)]), OUT_OF_MEMORY);
    fail("kernel", 1, ECC_UNCORRECTABLE);
    ok(launch(f, [1; 3], 1, 0, 0, &[p(&out)]));
    assert_eq!(cuCtxSynchronize(), ECC_UNCORRECTABLE);
}

#[test]
fn launches_are_checked() {
    let _session = Session::new(0, Mode::Random);
    let (f, out) = (kernel("trap"), device(&[0_u32; 4]));
    let with = |grid, block, shared| launch(f, grid, block, shared, 0, &[p(&out)]);
    assert_eq!(
        [with([1; 3], 1025, 0), with([1; 3], 0, 0), with([1, 0, 1], 1, 0), with([1; 3], 1, 50_000)],
        [INVALID_VALUE; 4]
    );
    assert_eq!(launch(f, [1; 3], 1, 0, 77, &[p(&out)]), INVALID_HANDLE);
    assert_eq!(launch(f + 1, [1; 3], 1, 0, 0, &[p(&out)]), INVALID_HANDLE);
    let mut bytes = 0;
    ok(cuFuncGetAttribute(Out::from(&mut bytes), 8, f));
    ok(with([1; 3], 1, bytes as u32));
    assert_eq!((bytes, cuCtxSynchronize()), (48 << 10, SUCCESS));
}

/// Two kernels with parameters of 8, 4 and 8 bytes, of blocks of at most 64 threads; `g` has 40 KiB of
/// shared memory of its own.
const THREE: &str = "//\n// Generated by NVIDIA NVVM Compiler\n.version 8.8\n.target sm_80\n.address_size 64\n\
    .visible .entry f(\n.param .u64 f_0,\n.param .u32 f_1,\n.param .u64 f_2\n)\n.maxntid 64, 1, 1\n{\nret;\n}\n\
    .visible .entry g(\n.param .u64 g_0,\n.param .u32 g_1,\n.param .u64 g_2\n)\n.maxntid 64, 1, 1\n{\n\
    .shared .align 4 .b8 s[40960];\nret;\n}\n";

/// What a launch of PTX shows of wrong arguments, and the limits of a block. Each wrong launch differs
/// from the launch that succeeds in one thing.
#[test]
fn launches_of_ptx_are_checked_against_their_parameters() {
    let _session = Session::new(0, Mode::Early);
    let module = load(&CString::new(THREE).unwrap());
    let [f, g] = ["f", "g"].map(|name| function(module, name));
    let (x, n, y) = (1_u64, 2_u32, 3_u64);
    let words = [0_u64; 3];
    let at = |bytes: usize| words.as_ptr().wrapping_byte_add(bytes).cast::<c_void>();
    let with = |f, block, shared, arguments: &[*const c_void]| {
        launch(f, [1; 3], block, shared, 0, arguments)
    };
    let all = [p(&x), p(&n), p(&y), std::ptr::null()];
    ok(with(f, 64, 48 << 10, &all));
    ok(with(g, 64, 8 << 10, &all));
    // One variable may be given for two parameters of one size.
    ok(with(f, 1, 0, &[p(&x), p(&n), p(&x)]));
    ok(with(f, 1, 0, &[at(0), at(8), at(16)]));
    let wrong = [
        ("the last argument is missing", with(f, 64, 0, &[p(&x), p(&n), all[3]])),
        ("a pointer to no memory", with(f, 64, 0, &[p(&x), p(&n), 4096 as *const c_void])),
        ("4 bytes for 8, and then 4 others", with(f, 1, 0, &[at(0), at(4), at(16)])),
        ("8 bytes that begin within 8 others", with(f, 1, 0, &[at(0), at(16), at(4)])),
        ("8 bytes at an odd multiple of 4", with(f, 1, 0, &[at(4), p(&n), p(&y)])),
        ("4 bytes of an argument of 8", with(f, 1, 0, &[at(0), at(0), at(8)])),
        ("more threads than .maxntid", with(f, 65, 0, &all)),
        ("more threads than any block has", with(f, 1025, 0, &all)),
        ("more dynamic shared memory than allowed", with(f, 64, (48 << 10) + 1, &all)),
        ("more shared memory than 48 KiB with the kernel's own", with(g, 64, (8 << 10) + 1, &all)),
    ];
    for (what, status) in wrong {
        assert_eq!(status, INVALID_VALUE, "{what}");
    }
    let none = cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, null_mut(), null_mut());
    let wild = cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, 4096 as *mut _, null_mut());
    assert_eq!([none, wild], [INVALID_VALUE; 2], "no array of pointers");
    ok(cuModuleUnload(module));
}

#[test]
fn a_module_takes_its_kernels_with_it() {
    let _session = Session::new(0, Mode::Late);
    let (status, image, log) = compile(
        "extern \"C\" __global__ void one(int *p) { *p = 1; } __global__ void two() {}",
        &[],
    );
    assert_eq!(status, 0, "{log}");
    let (module, out) = (load(&image), device(&[0_u32]));
    let one = function(module, "one");
    ok(launch(one, [1; 3], 1, 0, 0, &[p(&out)]));
    // As with NVIDIA's compiler, only a kernel with `extern "C"` keeps its name.
    assert_eq!(cuModuleGetFunction(Out::from(&mut 0), module, c"two".as_ptr()), NOT_FOUND);
    ok(cuCtxSynchronize());
    ok(cuModuleUnload(module));
    assert_eq!(
        [cuModuleUnload(module), launch(one, [1; 3], 1, 0, 0, &[p(&out)])],
        [INVALID_HANDLE; 2]
    );
    assert_eq!(values::<u32>(out, 1), [1]);
    assert_eq!(cuModuleLoadData(Out::from(&mut 0), c".version 8.0".as_ptr().cast()), INVALID_IMAGE);
}

#[test]
fn an_error_is_in_the_log() {
    let (status, image, log) = compile("\nextern \"C\" __global__ void f() { nonsense; }", &[]);
    assert_eq!((status, image.as_bytes()), (6, &b""[..]));
    assert!(log.contains("test.cu:2:") && log.contains("nonsense"), "{log}");
}
