//! What the header promises about fields that share memory, structs of newer headers, peeking at
//! actions, shots that end early, and ranks that agree on a schedule.

use crate::common::last_error;
use crate::common::{self, app, emu};
use app::ok;
use gpuzip::capi::*;
use std::ffi::{c_char, c_void, CString};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Barrier, Mutex};

fn config(algorithm: i32, snaps: i32, cache: i32) -> gpuzip_config_t {
    let mut config = MaybeUninit::uninit();
    // SAFETY: init fills the whole struct.
    let config = unsafe {
        assert_eq!(gpuzip_config_init(config.as_mut_ptr()), GPUZIP_OK);
        config.assume_init()
    };
    gpuzip_config_t {
        checkpointing_algorithm: algorithm,
        checkpointing_snaps: snaps,
        cache_capacity: cache,
        ..config
    }
}

fn revolve() -> gpuzip_config_t {
    config(GPUZIP_ALGORITHM_REVOLVE, 3, 2)
}

fn at(address: usize, values: u64, role: i32) -> gpuzip_field_t {
    let data = std::ptr::with_exposed_provenance_mut(address);
    gpuzip_field_t {
        data,
        n1: values,
        n2: 1,
        n3: 1,
        r#type: GPUZIP_TYPE_F32,
        role,
        pitch2: 0,
        pitch3: 0,
        reserved: [0; 2],
    }
}

fn field(data: &mut [f32]) -> gpuzip_field_t {
    at(data.as_mut_ptr().expose_provenance(), data.len() as u64, 0)
}

fn init(config: &gpuzip_config_t, steps: i32, fields: &[gpuzip_field_t]) -> *mut gpuzip_t {
    let mut handle = null_mut();
    // SAFETY: all pointers are to live values.
    let status =
        unsafe { gpuzip_init(config, steps, fields.as_ptr(), fields.len() as u32, &mut handle) };
    assert_eq!(status, GPUZIP_OK, "{}", last_error());
    handle
}

fn next(handle: *mut gpuzip_t) -> gpuzip_action_t {
    let mut action = gpuzip_action_t::default();
    // SAFETY: all pointers are to live values.
    assert_eq!(unsafe { gpuzip_get_action(handle, &mut action) }, GPUZIP_OK, "{}", last_error());
    action
}

fn peek(handle: *mut gpuzip_t) -> (i32, gpuzip_action_t) {
    let mut action = gpuzip_action_t::default();
    // SAFETY: all pointers are to live values.
    (unsafe { gpuzip_peek_action(handle, &mut action) }, action)
}

/// Serves SAVEs and RESTOREs of the fields, and returns the first action for which `stop` is true.
///
/// # Safety
/// The fields are of live memory of the right kind.
unsafe fn serve_until(
    handle: *mut gpuzip_t,
    fields: &[gpuzip_field_t],
    stop: impl Fn(&gpuzip_action_t) -> bool,
) -> gpuzip_action_t {
    loop {
        let action = next(handle);
        if stop(&action) {
            return action;
        }
        let (data, n) = (fields.as_ptr(), fields.len() as u32);
        // SAFETY: by this function's contract.
        let status = unsafe {
            match action.r#type {
                GPUZIP_ACTION_SAVE => gpuzip_save(handle, action.ts, data, n, null_mut()),
                GPUZIP_ACTION_RESTORE => gpuzip_retrieve(handle, action.ts, data, n, null_mut()),
                _ => GPUZIP_OK,
            }
        };
        assert_eq!(status, GPUZIP_OK, "{}", last_error());
    }
}

fn is_last_backward(action: &gpuzip_action_t) -> bool {
    action.r#type == GPUZIP_ACTION_BACKWARD && action.ts == 0
}

fn is_terminate(action: &gpuzip_action_t) -> bool {
    action.r#type == GPUZIP_ACTION_TERMINATE
}

fn finalize(handle: *mut gpuzip_t) {
    assert_eq!(gpuzip_finalize(handle), GPUZIP_OK, "{}", last_error());
}

#[test]
fn fields_that_share_memory_are_refused_by_name() {
    let mut memory = vec![0f32; 64];
    let base = memory.as_mut_ptr().expose_provenance();
    let apart = [at(base, 16, 0), at(base + 64, 16, 1), at(base + 128, 16, 0)];
    let handle = init(&revolve(), 8, &apart);
    let action = next(handle);
    assert_eq!((action.r#type, action.ts), (GPUZIP_ACTION_SAVE, 0));
    // One of the three fields moves to an offset, in bytes, at which it overlaps another field:
    // wholly, or by as little as one value at either end.
    for offset in [0usize, 4, 60, 64 + 4, 128 - 4, 128 + 60] {
        for moved in 0..3 {
            let mut fields = apart;
            fields[moved] = at(base + offset, 16, apart[moved].role);
            let overlaps =
                (0..3).any(|i| i != moved && (64 * i < offset + 64) && (offset < 64 * i + 64));
            if !overlaps {
                continue;
            }
            // SAFETY: all pointers are to live values.
            let status = unsafe { gpuzip_save(handle, 0, fields.as_ptr(), 3, null_mut()) };
            let text = last_error();
            assert_eq!(status, GPUZIP_ERR_ARGUMENT, "{offset} {moved}");
            assert!(
                text.contains("overlaps field")
                    && text.contains(&format!("{:p}", fields[moved].data)),
                "{text}"
            );
        }
    }
    // Fields that touch do not overlap. A RESTORE refuses fields that overlap, as a SAVE does.
    // SAFETY: all pointers are to live values.
    unsafe {
        serve_save(handle, &apart);
        serve_until(handle, &apart, |action| action.r#type == GPUZIP_ACTION_RESTORE);
        let current = peek_current_restore(handle);
        let fields = [apart[0], at(base + 4, 16, 1), apart[2]];
        assert_eq!(
            gpuzip_retrieve(handle, current, fields.as_ptr(), 3, null_mut()),
            GPUZIP_ERR_ARGUMENT
        );
        assert!(last_error().contains("field 1 (64 bytes at"), "{}", last_error());
        assert_eq!(gpuzip_retrieve(handle, current, apart.as_ptr(), 3, null_mut()), GPUZIP_OK);
        serve_until(handle, &apart, is_terminate);
    }
    finalize(handle);
}

/// # Safety
/// The fields are of live memory.
unsafe fn serve_save(handle: *mut gpuzip_t, fields: &[gpuzip_field_t]) {
    // SAFETY: by this function's contract.
    let status =
        unsafe { gpuzip_save(handle, 0, fields.as_ptr(), fields.len() as u32, null_mut()) };
    assert_eq!(status, GPUZIP_OK, "{}", last_error());
}

/// Returns the time step of the current RESTORE: the last word of the error text of a retrieve for
/// a wrong time step.
fn peek_current_restore(handle: *mut gpuzip_t) -> i32 {
    let text = {
        let mut one = [0f32];
        // SAFETY: all pointers are to live values.
        unsafe { gpuzip_retrieve(handle, -7, &field(&mut one), 1, null_mut()) };
        last_error()
    };
    text.rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{text}"))
}

#[test]
fn runs_and_codecs_refuse_fields_that_share_memory() {
    let mut memory = vec![1f32; 32];
    let base = memory.as_mut_ptr().expose_provenance();
    let (apart, shared) =
        ([at(base, 16, 0), at(base + 64, 16, 0)], [at(base, 16, 0), at(base + 32, 16, 0)]);
    let handle = init(&revolve(), 8, &apart);
    let callbacks = callbacks();
    let codec = gpuzip_config_t { compressor: GPUZIP_COMPRESSOR_LORENZO, ..revolve() };
    let (mut stream, mut bytes) = (vec![0u64; 4096], 0);
    // SAFETY: all pointers are to live values.
    unsafe {
        assert_eq!(
            gpuzip_run_forward(handle, &callbacks, shared.as_ptr(), 2, null_mut()),
            GPUZIP_ERR_ARGUMENT
        );
        assert!(last_error().contains("field 1 (64 bytes at"), "{}", last_error());
        assert_eq!(
            gpuzip_run_reverse(handle, &callbacks, shared.as_ptr(), 2, null_mut()),
            GPUZIP_ERR_ARGUMENT
        );
        assert_eq!(
            gpuzip_run_reverse(handle, &callbacks, apart.as_ptr(), 2, null_mut()),
            GPUZIP_OK,
            "{}",
            last_error()
        );
        let to = stream.as_mut_ptr().cast();
        assert_eq!(
            gpuzip_codec_compress(&codec, shared.as_ptr(), 2, to, 32768, &mut bytes),
            GPUZIP_ERR_ARGUMENT
        );
        assert_eq!(
            gpuzip_codec_compress(&codec, apart.as_ptr(), 2, to, 32768, &mut bytes),
            GPUZIP_OK,
            "{}",
            last_error()
        );
        assert_eq!(gpuzip_codec_decompress(to, bytes, shared.as_ptr(), 2), GPUZIP_ERR_ARGUMENT);
        assert!(last_error().contains("overlaps field 0"), "{}", last_error());
        assert_eq!(
            gpuzip_codec_decompress(to, bytes, apart.as_ptr(), 2),
            GPUZIP_OK,
            "{}",
            last_error()
        );
    }
    finalize(handle);
}

/// Memory that `gpuzip_save_begin` or `gpuzip_retrieve_acquire` returned belongs to the session and
/// is refused as the application's field.
#[test]
fn the_sessions_own_memory_is_no_field() {
    let mut data = vec![0f32; 64];
    let handle = init(&gpuzip_config_t { zero_copy: 1, ..revolve() }, 8, &[field(&mut data)]);
    let mut given = [null_mut::<c_void>()];
    // SAFETY: all pointers are to live values.
    unsafe {
        assert_eq!(next(handle).r#type, GPUZIP_ACTION_SAVE);
        assert_eq!(gpuzip_save_begin(handle, 0, given.as_mut_ptr(), 1, null_mut()), GPUZIP_OK);
        for offset in [0usize, 16] {
            let own = at(given[0].expose_provenance() + offset, 64, 0);
            assert_eq!(gpuzip_save(handle, 0, &own, 1, null_mut()), GPUZIP_ERR_ARGUMENT);
            assert!(last_error().contains("is memory of this session"), "{}", last_error());
        }
        serve_save(handle, &[field(&mut data)]);
        let restore = serve_until(handle, &[field(&mut data)], |action| {
            action.r#type == GPUZIP_ACTION_RESTORE
        });
        assert_eq!(
            gpuzip_retrieve(
                handle,
                restore.ts,
                &at(given[0].expose_provenance(), 64, 0),
                1,
                null_mut()
            ),
            GPUZIP_ERR_ARGUMENT
        );
        assert_eq!(
            gpuzip_retrieve(handle, restore.ts, &field(&mut data), 1, null_mut()),
            GPUZIP_OK
        );
        serve_until(handle, &[field(&mut data)], is_terminate);
    }
    finalize(handle);
}

unsafe extern "C" fn forward(_: *mut c_void, _: i32, _: i32, _: u32) -> i32 {
    0
}

unsafe extern "C" fn backward(_: *mut c_void, _: i32, _: u32) -> i32 {
    0
}

fn callbacks() -> gpuzip_callbacks_t {
    gpuzip_callbacks_t {
        struct_size: size_of::<gpuzip_callbacks_t>() as u64,
        user: null_mut(),
        forward: Some(forward),
        backward: Some(backward),
        locate: None,
        observe: None,
        backward_range: None,
        reserved: [0; 3],
    }
}

/// `gpuzip_callbacks_t` as a newer header with three more members declares it.
#[repr(C)]
struct NewerCallbacks {
    known: gpuzip_callbacks_t,
    newer: [u64; 3],
}

#[test]
fn callbacks_of_a_newer_header_are_accepted_where_they_ask_for_nothing_new() {
    let mut data = vec![0f32; 16];
    let fields = [field(&mut data)];
    let handle = init(&revolve(), 8, &fields);
    let mut given = NewerCallbacks { known: callbacks(), newer: [0; 3] };
    let mut run = |size: u64, newer: u64| {
        (given.known.struct_size, given.newer[2]) = (size, newer);
        // SAFETY: all pointers are to live values, and the struct has the largest of these sizes.
        unsafe {
            gpuzip_run_reverse(handle, (&raw const given).cast(), fields.as_ptr(), 1, null_mut())
        }
    };
    let (ours, theirs) =
        (size_of::<gpuzip_callbacks_t>() as u64, size_of::<NewerCallbacks>() as u64);
    for size in [0, 8, ours - 8, ours + 4, 1 << 20] {
        assert_eq!(run(size, 0), GPUZIP_ERR_ARGUMENT, "{size}");
        assert!(last_error().contains("callbacks->struct_size"), "{}", last_error());
    }
    assert_eq!(run(theirs, 5), GPUZIP_ERR_UNSUPPORTED);
    assert!(last_error().contains("newer header"), "{}", last_error());
    assert_eq!(run(theirs, 0), GPUZIP_OK, "{}", last_error());
    assert_eq!(gpuzip_setup(handle), GPUZIP_OK);
    assert_eq!(run(ours, 5), GPUZIP_OK, "{}", last_error());
    finalize(handle);
}

/// `gpuzip_peek_action` returns the next action as often as it is called, and changes no later
/// action.
#[test]
fn peeking_tells_the_next_action_and_changes_nothing() {
    for (algorithm, chunk) in [
        (GPUZIP_ALGORITHM_REVOLVE, 0),
        (GPUZIP_ALGORITHM_UNIFORM, 0),
        (GPUZIP_ALGORITHM_ZCUT, 4),
        (GPUZIP_ALGORITHM_STORE_ALL, 0),
    ] {
        for range_actions in [0, 1] {
            let config =
                gpuzip_config_t { schedule_chunk: chunk, range_actions, ..config(algorithm, 8, 2) };
            let mut data = vec![0f32; 16];
            let fields = [field(&mut data)];
            let (peeking, plain) = (init(&config, 21, &fields), init(&config, 21, &fields));
            loop {
                let (ahead, expected) = (peek(peeking), next(plain));
                assert_eq!(ahead, (GPUZIP_OK, expected));
                assert_eq!(peek(peeking), ahead);
                assert_eq!(next(peeking), expected);
                if is_terminate(&expected) {
                    break;
                }
                for handle in [peeking, plain] {
                    // SAFETY: all pointers are to live values.
                    let status = unsafe {
                        match expected.r#type {
                            GPUZIP_ACTION_SAVE => {
                                gpuzip_save(handle, expected.ts, fields.as_ptr(), 1, null_mut())
                            }
                            GPUZIP_ACTION_RESTORE => {
                                gpuzip_retrieve(handle, expected.ts, fields.as_ptr(), 1, null_mut())
                            }
                            _ => GPUZIP_OK,
                        }
                    };
                    assert_eq!(status, GPUZIP_OK, "{}", last_error());
                }
            }
            assert_eq!(peek(peeking).0, GPUZIP_ERR_STATE);
            assert_eq!(gpuzip_setup(peeking), GPUZIP_OK);
            assert_eq!(peek(peeking).1.it, 0);
            finalize(peeking);
            finalize(plain);
        }
    }
}

/// A code that correlates the adjoint with u(n), ..., u(1), the states after each step: it plans
/// `steps` = n + 1 and skips BACKWARD 0. A peek says that the forward sweep is over while its last
/// FORWARD is the current action.
#[test]
fn a_correlation_with_the_last_state_takes_a_step_more_and_skips_backward_0() {
    const N: i32 = 13;
    let step = |u: f32| 0.5 * u + 1.0;
    let states: Vec<f32> =
        std::iter::successors(Some(0.25), |u| Some(step(*u))).take(N as usize + 1).collect();
    let (mut u, mut found, mut sweep_ended_at) = (vec![0.25f32; 4], Vec::new(), None);
    let handle = init(&revolve(), N + 1, &[field(&mut u)]);
    loop {
        let action = next(handle);
        // SAFETY: all pointers are to live values.
        let status = unsafe {
            match action.r#type {
                GPUZIP_ACTION_SAVE => gpuzip_save(handle, action.ts, &field(&mut u), 1, null_mut()),
                GPUZIP_ACTION_RESTORE => {
                    gpuzip_retrieve(handle, action.ts, &field(&mut u), 1, null_mut())
                }
                _ => GPUZIP_OK,
            }
        };
        assert_eq!(status, GPUZIP_OK, "{}", last_error());
        match action.r#type {
            GPUZIP_ACTION_FORWARD => u.iter_mut().for_each(|value| *value = step(*value)),
            GPUZIP_ACTION_BACKWARD if action.ts > 0 => found.push((action.ts, u[3])),
            GPUZIP_ACTION_TERMINATE => break,
            _ => {}
        }
        if peek(handle).1.flags & GPUZIP_FLAG_FIRST_BACKWARD != 0 {
            sweep_ended_at = Some((action.r#type, action.ts));
        }
    }
    assert_eq!(sweep_ended_at, Some((GPUZIP_ACTION_FORWARD, N)));
    assert_eq!(found, (1..=N).rev().map(|ts| (ts, states[ts as usize])).collect::<Vec<_>>());
    finalize(handle);
}

/// Runs the test `name` again in a process of its own with these environment variables. Returns
/// true in that process, and false in the process that has waited for it.
fn alone(name: &str, variables: &[(&str, &std::path::Path)]) -> bool {
    if std::env::var_os("GPUZIP_TEST_ALONE").is_some() {
        return true;
    }
    let mut again = common::again(name);
    again.env("GPUZIP_TEST_ALONE", "1");
    common::run(again.envs(variables.iter().copied()));
    false
}

/// A shot is logged once if its last BACKWARD was handed out, whether TERMINATE, setup or finalize
/// ends it. A shot that ends before its last BACKWARD is not logged.
#[test]
fn a_shot_that_is_left_after_its_last_backward_is_logged_once() {
    let folder = common::tempdir("left-shots");
    let log = folder.join("log.csv");
    if !alone(
        "a_shot_that_is_left_after_its_last_backward_is_logged_once",
        &[("GPUZIP_PERFORMANCE_LOG", &log)],
    ) {
        let text = std::fs::read_to_string(&log).unwrap();
        let column = |name: &str| {
            text.lines().next().unwrap().split(',').position(|column| column == name).unwrap()
        };
        let rows = |name: &str| {
            text.lines()
                .skip(1)
                .map(|line| line.split(',').nth(column(name)).unwrap().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(rows("shot"), ["1", "2", "3", "4"], "{text}");
        assert_eq!(rows("backward_steps"), ["9"; 4]);
        let trace: serde_json::Value = serde_json::from_str(
            &std::fs::read_to_string(std::fs::read_to_string(folder.join("trace")).unwrap())
                .unwrap(),
        )
        .unwrap();
        let ends = trace.to_string().matches("backward_steps").count();
        assert_eq!(ends, 4);
        return;
    }
    let folder = std::path::PathBuf::from(std::env::var_os("GPUZIP_PERFORMANCE_LOG").unwrap())
        .parent()
        .unwrap()
        .to_path_buf();
    let trace = CString::new(folder.join("run.json").to_str().unwrap()).unwrap();
    std::fs::write(folder.join("trace"), trace.to_str().unwrap()).unwrap();
    let mut data = vec![0f32; 16];
    let fields = [field(&mut data)];
    let handle = init(
        &gpuzip_config_t { enable_performance_log: 1, trace_out: trace.as_ptr(), ..revolve() },
        9,
        &fields,
    );
    // SAFETY: all pointers are to live values.
    unsafe {
        serve_until(handle, &fields, is_last_backward);
        assert_eq!(gpuzip_setup(handle), GPUZIP_OK);
        assert_eq!(gpuzip_setup(handle), GPUZIP_OK);
        serve_until(handle, &fields, is_terminate);
        assert_eq!(gpuzip_setup(handle), GPUZIP_OK);
        serve_until(handle, &fields, |action| action.r#type == GPUZIP_ACTION_BACKWARD);
        assert_eq!(gpuzip_setup(handle), GPUZIP_OK);
        serve_until(handle, &fields, is_terminate);
        assert_eq!(gpuzip_setup(handle), GPUZIP_OK);
        serve_until(handle, &fields, is_last_backward);
    }
    finalize(handle);
}

/// On a GPU, the library checks restored states after the RESTORE. A failed check is reported once,
/// by the call that ends the shot (TERMINATE, setup or finalize), and finalize frees the session
/// all the same.
#[test]
fn damage_is_told_where_the_shot_ends_whatever_ends_it() {
    if !common::have("c++") {
        println!("skipped: no C++ compiler for the kernels of the software driver");
        return;
    }
    let kernels = emu::images();
    if !emu::inside(
        "damage_is_told_where_the_shot_ends_whatever_ends_it",
        &[("GPUZIP_CACHE_DIR", kernels.to_str().unwrap())],
    ) {
        return;
    }
    for damaged in [false, true] {
        assert_eq!(emu::reset(1, emu::RANDOM, 1, 1 << 30), 0);
        let (mut context, mut address) = (null_mut(), 0);
        ok!(cuInit(0));
        ok!(cuDevicePrimaryCtxRetain(&mut context, 0));
        ok!(cuCtxSetCurrent(context));
        ok!(cuMemAlloc_v2(&mut address, 2048));
        let fields = [at(address as usize, 64, 0), at(address as usize + 1024, 64, 1)];
        let config =
            gpuzip_config_t { shared_levels: 1, ..config(GPUZIP_ALGORITHM_STORE_ALL, 0, 3) };
        let expected = if damaged { GPUZIP_ERR_VALUES } else { GPUZIP_OK };
        let reversed = |handle: *mut gpuzip_t| loop {
            let action = next(handle);
            if action.r#type == GPUZIP_ACTION_FORWARD || action.it == 0 {
                let past = if damaged { 77 } else { action.ts as u8 };
                ok!(cuMemsetD8Async(address, action.ts as u8 + 1, 256, null_mut()));
                ok!(cuMemsetD8Async(address + 1024, past, 256, null_mut()));
            }
            // SAFETY: the device's memory.
            let status = unsafe {
                match action.r#type {
                    GPUZIP_ACTION_SAVE => {
                        gpuzip_save(handle, action.ts, fields.as_ptr(), 2, null_mut())
                    }
                    GPUZIP_ACTION_RESTORE => {
                        gpuzip_retrieve(handle, action.ts, fields.as_ptr(), 2, null_mut())
                    }
                    _ => GPUZIP_OK,
                }
            };
            assert_eq!(status, GPUZIP_OK, "{}", last_error());
            if is_last_backward(&action) {
                break;
            }
        };
        let handle = init(&config, 12, &fields);
        reversed(handle);
        assert_eq!(gpuzip_setup(handle), expected, "{}", last_error());
        assert_eq!(gpuzip_setup(handle), GPUZIP_OK, "{}", last_error());
        reversed(handle);
        assert_eq!(gpuzip_finalize(handle), expected, "{}", last_error());
        assert_eq!(gpuzip_finalize(handle), GPUZIP_ERR_HANDLE);
        let handle = init(&config, 12, &fields);
        reversed(handle);
        let mut action = gpuzip_action_t::default();
        // SAFETY: all pointers are to live values.
        assert_eq!(unsafe { gpuzip_get_action(handle, &mut action) }, expected);
        finalize(handle);
        let left = emu::counters();
        assert_eq!(
            (left.streams, left.events, left.allocations, left.host_allocations),
            (0, 0, 1, 0),
            "{left:?}"
        );
        ok!(cuMemFree_v2(address));
        ok!(cuDevicePrimaryCtxRelease_v2(0));
    }
}

/// What ranks, which are threads here, share to compute the smallest of their numbers.
struct Ranks {
    meeting: Barrier,
    least: Mutex<i64>,
}

/// One rank, with the number of reductions that it took part in.
struct Rank<'a> {
    all: &'a Ranks,
    calls: u32,
}

unsafe extern "C" fn least(user: *mut c_void, value: *mut i64) -> i32 {
    // SAFETY: `user` is the rank that was registered, and `value` is live.
    let (rank, value) = unsafe { (&mut *user.cast::<Rank>(), &mut *value) };
    rank.calls += 1;
    let mut least = rank.all.least.lock().unwrap();
    *least = (*least).min(*value);
    drop(least);
    rank.all.meeting.wait();
    *value = *rank.all.least.lock().unwrap();
    if rank.all.meeting.wait().is_leader() {
        *rank.all.least.lock().unwrap() = i64::MAX;
    }
    rank.all.meeting.wait();
    0
}

unsafe extern "C" fn no_network(user: *mut c_void, _: *mut i64) -> i32 {
    // SAFETY: `user` is the counter that was registered.
    unsafe { *user.cast::<i32>() += 1 };
    9
}

/// What the functions of the application that run in the middle of a call do: calls on the session
/// and the schedule of that call, and on the log callback. Returns the statuses.
fn calls_from_inside(user: *mut c_void) -> [i32; 6] {
    // SAFETY: `user` is the `Inside` that was registered, which lives during the test.
    let Inside { handle, schedule, .. } = unsafe { &*user.cast::<Inside>() };
    let (handle, schedule) = (handle.load(Ordering::Relaxed), schedule.load(Ordering::Relaxed));
    let (mut action, mut fingerprint) = (gpuzip_action_t::default(), 0);
    let mut stats =
        gpuzip_stats_t { struct_size: size_of::<gpuzip_stats_t>() as u64, ..Default::default() };
    // SAFETY: all pointers are to live values.
    unsafe {
        [
            gpuzip_stats(handle, &mut stats),
            gpuzip_get_action(handle, &mut action),
            gpuzip_setup(handle),
            gpuzip_schedule_fingerprint(schedule, &mut fingerprint),
            gpuzip_schedule_get_action(schedule, &mut action),
            gpuzip_set_log_callback(None, null_mut()),
        ]
    }
}

/// A session, its schedule, and the statuses of the calls from inside another call.
struct Inside {
    handle: AtomicPtr<gpuzip_t>,
    schedule: AtomicPtr<gpuzip_schedule_t>,
    seen: Mutex<Vec<[i32; 6]>>,
}

impl Inside {
    fn call(user: *mut c_void) {
        let statuses = calls_from_inside(user);
        // SAFETY: as in `calls_from_inside`.
        unsafe { &*user.cast::<Inside>() }.seen.lock().unwrap().push(statuses);
    }
}

unsafe extern "C" fn inside_max_bytes(user: *mut c_void, _: *const gpuzip_field_t) -> u64 {
    Inside::call(user);
    8
}

unsafe extern "C" fn inside_compress(
    user: *mut c_void,
    _: *const gpuzip_field_t,
    _: i32,
    _: f64,
    to: *mut c_void,
    _: u64,
    bytes: *mut u64,
) -> i32 {
    Inside::call(user);
    // SAFETY: the library gives room for `max_bytes` bytes, and a place for their number.
    unsafe {
        to.cast::<u8>().write_bytes(0, 8);
        *bytes = 8;
    }
    0
}

unsafe extern "C" fn inside_decompress(
    user: *mut c_void,
    _: *const c_void,
    _: u64,
    _: *const gpuzip_field_t,
) -> i32 {
    Inside::call(user);
    0
}

unsafe extern "C" fn inside_log(_: i32, _: *const c_char, user: *mut c_void) {
    Inside::call(user);
}

/// A registered codec or a log callback runs while the library holds the locks of the call that
/// runs the function: calls on sessions and schedules from there are errors and do not hang, and the
/// outer call goes on.
#[test]
fn calls_from_inside_a_call_are_errors() {
    if !alone("calls_from_inside_a_call_are_errors", &[]) {
        return;
    }
    let inside = Inside {
        handle: AtomicPtr::default(),
        schedule: AtomicPtr::default(),
        seen: Mutex::default(),
    };
    let user = (&raw const inside).cast_mut().cast::<c_void>();
    let plugin = gpuzip_codec_plugin_t {
        struct_size: size_of::<gpuzip_codec_plugin_t>() as u64,
        name: c"inside".as_ptr(),
        user,
        max_bytes: Some(inside_max_bytes),
        compress: Some(inside_compress),
        decompress: Some(inside_decompress),
        reserved: [0; 4],
    };
    let mut number = 0;
    // SAFETY: the table lives, and its functions return.
    assert_eq!(unsafe { gpuzip_codec_register(&plugin, &mut number) }, GPUZIP_OK);
    let mut data: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let fields = [field(&mut data)];
    let config = gpuzip_config_t { compressor: number, error_bound: 1e-3, ..revolve() };
    let handle = init(&config, 10, &fields);
    let mut schedule = null_mut();
    // SAFETY: all pointers are to live values.
    assert_eq!(unsafe { gpuzip_get_schedule(handle, &mut schedule) }, GPUZIP_OK);
    inside.handle.store(handle, Ordering::Relaxed);
    inside.schedule.store(schedule, Ordering::Relaxed);
    inside.seen.lock().unwrap().clear();
    // SAFETY: the fields live.
    unsafe { serve_until(handle, &fields, is_terminate) };
    let of_codec = std::mem::take(&mut *inside.seen.lock().unwrap());
    assert!(of_codec.len() > 2);
    assert_eq!(gpuzip_set_log_callback(Some(inside_log), user), GPUZIP_OK);
    assert_eq!(gpuzip_set_log_level(0), GPUZIP_OK);
    assert_eq!(gpuzip_setup_steps(handle, 12), GPUZIP_OK, "{}", last_error());
    assert_eq!(gpuzip_schedule_release(null_mut()), GPUZIP_ERR_ARGUMENT);
    assert_eq!(gpuzip_set_log_callback(None, null_mut()), GPUZIP_OK);
    let all = std::mem::take(&mut *inside.seen.lock().unwrap());
    assert!(!all.is_empty());
    for statuses in of_codec.into_iter().chain(all) {
        assert_eq!(statuses, [GPUZIP_ERR_STATE; 6]);
    }
    // SAFETY: the fields live.
    unsafe { serve_until(handle, &fields, is_terminate) };
    finalize(handle);
    assert_eq!(gpuzip_schedule_release(schedule), GPUZIP_OK);
}

/// A session whose snapshots turn out larger than planned plans anew, within the disk that it has.
#[test]
fn a_new_plan_for_larger_snapshots_keeps_the_disk_budget() {
    let folder = CString::new(common::tempdir("larger-snapshots").to_str().unwrap()).unwrap();
    let config = gpuzip_config_t {
        compressor: GPUZIP_COMPRESSOR_LORENZO,
        compression_factor: 4.0,
        error_bound: 3.24e-7,
        device_budget: 843,
        host_budget: 2703,
        disk_budget: 9995,
        disk_path: folder.as_ptr(),
        ..config(GPUZIP_ALGORITHM_ONLINE, 0, 4)
    };
    let mut data: Vec<f32> =
        (0..98u32).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 8) as f32).collect();
    let fields = [field(&mut data)];
    let handle = init(&config, 0, &fields);
    let mut status = GPUZIP_OK;
    while status == GPUZIP_OK {
        let action = next(handle);
        if action.r#type == GPUZIP_ACTION_SAVE {
            // SAFETY: the fields live.
            status = unsafe { gpuzip_save(handle, action.ts, fields.as_ptr(), 1, null_mut()) };
        }
    }
    assert_eq!(status, GPUZIP_ERR_BUDGET, "{}", last_error());
    assert_eq!(gpuzip_setup(handle), GPUZIP_OK);
    let mut summary = gpuzip_summary_t {
        struct_size: size_of::<gpuzip_summary_t>() as u64,
        ..Default::default()
    };
    // SAFETY: the summary lives.
    assert_eq!(unsafe { gpuzip_summary(handle, &mut summary) }, GPUZIP_OK);
    assert!(summary.disk_bytes <= config.disk_budget, "{} bytes of disk", summary.disk_bytes);
    finalize(handle);
}

/// The fingerprint of a session is that of its schedule, and differs if the actions differ. Two
/// ranks with different numbers of snapshots agree on the smaller number and then run the same
/// actions.
#[test]
fn ranks_agree_on_the_schedule_with_the_fewest_snapshots() {
    let all = Ranks { meeting: Barrier::new(2), least: Mutex::new(i64::MAX) };
    let rank = |values: usize| {
        let config = gpuzip_config_t {
            host_budget: 80_000,
            backend: 1,
            ..config(GPUZIP_ALGORITHM_REVOLVE, 0, 0)
        };
        let mut data = vec![0f32; values];
        let fields = [field(&mut data)];
        let handle = init(&config, 150, &fields);
        let mut mine = Rank { all: &all, calls: 0 };
        let (mut summary, mut before, mut after, mut of_schedule, mut schedule) = (
            gpuzip_summary_t {
                struct_size: size_of::<gpuzip_summary_t>() as u64,
                ..Default::default()
            },
            0,
            0,
            0,
            null_mut(),
        );
        // SAFETY: all pointers are to live values.
        unsafe {
            assert_eq!(gpuzip_fingerprint(handle, &mut before), GPUZIP_OK);
            assert_eq!(gpuzip_summary(handle, &mut summary), GPUZIP_OK);
            let planned = summary.snapshots;
            assert_eq!(
                gpuzip_agree(handle, Some(least), (&raw mut mine).cast()),
                GPUZIP_OK,
                "{}",
                last_error()
            );
            assert_eq!(mine.calls, 5);
            assert_eq!(gpuzip_fingerprint(handle, &mut after), GPUZIP_OK);
            assert_eq!(gpuzip_get_schedule(handle, &mut schedule), GPUZIP_OK);
            assert_eq!(gpuzip_schedule_fingerprint(schedule, &mut of_schedule), GPUZIP_OK);
            assert_eq!(gpuzip_schedule_release(schedule), GPUZIP_OK);
            assert_eq!(gpuzip_summary(handle, &mut summary), GPUZIP_OK);
            assert_eq!(after, of_schedule);
            serve_until(handle, &fields, is_terminate);
            finalize(handle);
            (planned, summary.snapshots, before, after)
        }
    };
    let (a, b) = std::thread::scope(|scope| {
        let threads = [scope.spawn(|| rank(896)), scope.spawn(|| rank(1024))];
        let [a, b] = threads.map(|thread| thread.join().unwrap());
        (a, b)
    });
    assert!(a.0 > b.0, "{} and {} snapshots", a.0, b.0);
    assert_eq!((a.1, b.1), (b.0, b.0));
    assert!(a.2 != b.2 && a.3 == b.3 && b.2 == b.3);
}

/// A rank without a valid session takes part in every reduction, so that the other ranks do not
/// wait for it.
#[test]
fn a_rank_without_a_session_takes_part_in_every_reduction() {
    let all = Ranks { meeting: Barrier::new(2), least: Mutex::new(i64::MAX) };
    let rank = |handle: usize| {
        let mut mine = Rank { all: &all, calls: 0 };
        // SAFETY: all pointers are to live values.
        let status =
            unsafe { gpuzip_agree(handle as *mut gpuzip_t, Some(least), (&raw mut mine).cast()) };
        (status, mine.calls, last_error())
    };
    let mut data = vec![0f32; 16];
    let handle = init(&revolve(), 20, &[field(&mut data)]);
    let address = handle as usize;
    // The reason why a rank has no session stays in its last error.
    let reason = {
        let (mut none, mut calls) = (null_mut(), 0);
        // SAFETY: all pointers are to live values.
        unsafe {
            assert_eq!(
                gpuzip_init(&revolve(), -5, &field(&mut data), 1, &mut none),
                GPUZIP_ERR_ARGUMENT
            );
            let reason = last_error();
            assert_eq!(
                gpuzip_agree(null_mut(), Some(no_network), (&raw mut calls).cast()),
                GPUZIP_ERR_CALLBACK
            );
            assert_eq!(last_error(), reason);
            reason
        }
    };
    assert!(reason.contains("gpuzip_init") && reason.contains("-5"), "{reason}");
    for bad in [0, 0x77] {
        let (well, failed) = std::thread::scope(|scope| {
            let (well, failed) = (scope.spawn(|| rank(address)), scope.spawn(|| rank(bad)));
            (well.join().unwrap(), failed.join().unwrap())
        });
        assert_eq!((well.0, well.1), (GPUZIP_ERR_SCHEDULE, 5), "{}", well.2);
        assert!(well.2.contains("another rank has no schedule"), "{}", well.2);
        assert_eq!(
            (failed.0, failed.1),
            (if bad == 0 { GPUZIP_ERR_ARGUMENT } else { GPUZIP_ERR_HANDLE }, 5),
            "{}",
            failed.2
        );
    }
    let mut calls = 0;
    // SAFETY: all pointers are to live values.
    unsafe {
        assert_eq!(
            gpuzip_agree(handle, Some(no_network), (&raw mut calls).cast()),
            GPUZIP_ERR_CALLBACK
        );
        assert!(
            calls == 1 && last_error().contains("callback least returned 9"),
            "{}",
            last_error()
        );
        assert_eq!(gpuzip_agree(handle, None, null_mut()), GPUZIP_ERR_ARGUMENT);
    }
    finalize(handle);
}

/// Runs a shot in which every value of u(t) is t. Returns its actions, and the flags of each.
fn counting_shot(handle: *mut gpuzip_t, data: &mut [f32]) -> Vec<(i32, i32, u32)> {
    let mut actions = Vec::new();
    data.fill(0.0);
    loop {
        let action = next(handle);
        actions.push((action.r#type, action.ts, action.flags));
        let ts = action.ts as f32;
        match action.r#type {
            GPUZIP_ACTION_FORWARD => data.iter_mut().for_each(|x| *x += 1.0),
            GPUZIP_ACTION_TERMINATE => return actions,
            _ => {}
        }
        let fields = [field(data)];
        // SAFETY: the field is live.
        let status = unsafe {
            match action.r#type {
                GPUZIP_ACTION_SAVE => {
                    gpuzip_save(handle, action.ts, fields.as_ptr(), 1, null_mut())
                }
                GPUZIP_ACTION_RESTORE => {
                    data.fill(-1.0);
                    gpuzip_retrieve(handle, action.ts, fields.as_ptr(), 1, null_mut())
                }
                _ => GPUZIP_OK,
            }
        };
        assert_eq!(status, GPUZIP_OK, "{}", last_error());
        assert!(data.iter().all(|&x| x == ts), "u({ts}) is {:?}", data[0]);
    }
}

/// A session with another number of time steps does what a new session with that number does.
#[test]
fn steps_may_have_times_of_their_own() {
    let config = gpuzip_config_t {
        device_budget: 4 * 4096,
        host_budget: 20 * 4096,
        ..config(GPUZIP_ALGORITHM_AUTO, 0, 0)
    };
    let mut data = vec![0f32; 1000];
    let fields = [field(&mut data)];
    let handle = init(&config, 100, &fields);
    let set = |forward: &[f64], backward: &[f64]| {
        // SAFETY: both slices have as many numbers as the call is told.
        unsafe {
            gpuzip_profile_steps(handle, forward.len() as u32, forward.as_ptr(), backward.as_ptr())
        }
    };
    let predicted = || {
        let mut summary = gpuzip_summary_t {
            struct_size: size_of::<gpuzip_summary_t>() as u64,
            ..Default::default()
        };
        // SAFETY: the summary is live.
        assert_eq!(unsafe { gpuzip_summary(handle, &mut summary) }, GPUZIP_OK);
        assert!(0.0 < summary.bound_s && summary.bound_s <= summary.predicted_s);
        summary.predicted_s
    };
    // 99 forward steps of 1 ms, 100 backward steps of 2 ms, and what is repeated.
    assert_eq!(set(&[1.0], &[2.0]), GPUZIP_OK, "{}", last_error());
    let even = predicted();
    assert!(even >= 0.299, "{even}");
    // The same sum, with the long steps at the end, which no schedule repeats as often.
    assert_eq!(set(&[0.5, 1.5], &[2.0, 2.0]), GPUZIP_OK, "{}", last_error());
    let late = predicted();
    assert_eq!(set(&[1.5, 0.5], &[2.0, 2.0]), GPUZIP_OK, "{}", last_error());
    let early = predicted();
    assert!(late >= 0.2985 && early >= 0.299 && (late - early).abs() > 1e-4, "{late} {early}");
    // A time for each step; then the exported profile has them.
    let each: Vec<f64> = (0..100).map(|ts| 1.0 + f64::from(ts) / 100.0).collect();
    assert_eq!(set(&each, &each), GPUZIP_OK, "{}", last_error());
    let own = predicted();
    let mut bytes = 0;
    // SAFETY: the number is live, and the vector has as many bytes as it says.
    let profile = unsafe {
        assert_eq!(gpuzip_profile_export(handle, null_mut(), 0, &mut bytes), GPUZIP_OK);
        let mut profile = vec![0u8; bytes as usize];
        let data = profile.as_mut_ptr().cast();
        assert_eq!(gpuzip_profile_export(handle, data, bytes, &mut bytes), GPUZIP_OK);
        profile
    };
    assert!(profile.len() > 1600, "{}", profile.len());
    assert_eq!(set(&[], &[]), GPUZIP_OK, "{}", last_error());
    assert_ne!(predicted(), own);
    // SAFETY: the bytes are live.
    let imported = unsafe { gpuzip_profile_import(handle, profile.as_ptr().cast(), bytes) };
    assert_eq!((imported, predicted()), (GPUZIP_OK, own));
    // Refused, with nothing changed.
    for (forward, part) in [(f64::NAN, "forward_ms[1] = NaN"), (-1.0, "forward_ms[1] = -1")] {
        assert_eq!(set(&[1.0, forward], &[1.0, 1.0]), GPUZIP_ERR_ARGUMENT);
        assert!(last_error().contains(part), "{}", last_error());
    }
    assert_eq!(set(&vec![1.0; 4097], &vec![1.0; 4097]), GPUZIP_ERR_ARGUMENT);
    assert!(last_error().contains("at most 4096"), "{}", last_error());
    assert_eq!(predicted(), own);
    let actions = counting_shot(handle, &mut data);
    assert_eq!(actions.iter().filter(|a| a.0 == GPUZIP_ACTION_BACKWARD).count(), 100);
    assert_eq!(gpuzip_finalize(handle), GPUZIP_OK);
}

#[test]
fn the_next_shot_may_have_another_number_of_steps() {
    let budgets = |device_budget, host_budget| gpuzip_config_t {
        device_budget,
        host_budget,
        ..config(GPUZIP_ALGORITHM_AUTO, 0, 0)
    };
    let named = |algorithm| config(algorithm, 6, 3);
    for config in [
        budgets(4 * 4096, 20 * 4096),
        budgets(0, 0),
        named(GPUZIP_ALGORITHM_REVOLVE),
        named(GPUZIP_ALGORITHM_HREVOLVE),
        named(GPUZIP_ALGORITHM_UNIFORM),
    ] {
        let mut data = vec![0f32; 1000];
        let fields = [field(&mut data)];
        let handle = init(&config, 100, &fields);
        for steps in [100, 37, 1, 400, 400, 2] {
            assert_eq!(gpuzip_setup_steps(handle, steps), GPUZIP_OK, "{}", last_error());
            let actions = counting_shot(handle, &mut data);
            assert_eq!(
                actions.iter().filter(|a| a.0 == GPUZIP_ACTION_BACKWARD).count() as i32,
                steps
            );
            let fresh = init(&config, steps, &fields);
            if config.host_budget > 0 || config.checkpointing_algorithm != GPUZIP_ALGORITHM_AUTO {
                assert_eq!(actions, counting_shot(fresh, &mut data), "{steps} steps");
            }
            finalize(fresh);
        }
        // The number holds for the next shot, too, and in the middle of a shot a new one may begin.
        assert_eq!(gpuzip_setup_steps(handle, 50), GPUZIP_OK, "{}", last_error());
        next(handle);
        assert_eq!(gpuzip_setup(handle), GPUZIP_OK);
        let fifty = counting_shot(handle, &mut data);
        assert_eq!(gpuzip_setup(handle), GPUZIP_OK);
        for (steps, part) in [(0, "steps = 0"), (-7, "steps = -7")] {
            assert_eq!(gpuzip_setup_steps(handle, steps), GPUZIP_ERR_ARGUMENT);
            assert!(last_error().contains(part), "{}", last_error());
            assert_eq!(counting_shot(handle, &mut data), fifty);
        }
        finalize(handle);
    }
}

#[test]
fn another_number_of_steps_is_refused_where_it_cannot_be() {
    let mut data = vec![0f32; 1000];
    let fields = [field(&mut data)];
    // Store-all holds 9 states.
    let store_all = gpuzip_config_t {
        device_budget: 4 * 4096,
        host_budget: 5 * 4096,
        ..config(GPUZIP_ALGORITHM_STORE_ALL, 0, 0)
    };
    let handle = init(&store_all, 10, &fields);
    assert_eq!(gpuzip_setup_steps(handle, 11), GPUZIP_ERR_BUDGET);
    assert!(last_error().contains("store-all keeps 10 states"), "{}", last_error());
    let ten = counting_shot(handle, &mut data);
    assert_eq!(gpuzip_setup_steps(handle, 10), GPUZIP_OK, "{}", last_error());
    assert_eq!(counting_shot(handle, &mut data), ten);

    let (mut schedule, mut other) = (null_mut(), null_mut());
    // SAFETY: all pointers are to live values.
    unsafe {
        assert_eq!(gpuzip_get_schedule(handle, &mut schedule), GPUZIP_OK);
        assert_eq!(gpuzip_attach(schedule, &store_all, fields.as_ptr(), 1, &mut other), GPUZIP_OK);
    }
    assert_eq!(gpuzip_setup_steps(handle, 8), GPUZIP_ERR_STATE);
    assert!(last_error().contains("2 sessions follow"), "{}", last_error());
    finalize(other);
    assert_eq!(gpuzip_setup_steps(handle, 8), GPUZIP_OK, "{}", last_error());
    assert_eq!(gpuzip_schedule_release(schedule), GPUZIP_OK);
    finalize(handle);

    let online = init(&config(GPUZIP_ALGORITHM_ONLINE, 4, 2), 0, &fields);
    assert_eq!(gpuzip_setup_steps(online, 8), GPUZIP_ERR_STATE);
    assert!(last_error().contains("gpuzip_end_forward"), "{}", last_error());
    finalize(online);
}
