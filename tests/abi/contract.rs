//! What the header promises about fields that share memory, structs of newer headers, peeking at
//! actions, shots that end early, and ranks that agree on a schedule.

mod inside;
mod memory;
mod ranks;
mod steps;

use crate::common::c_abi::*;
use crate::common::last_error;
use crate::common::{self, app, emu};
use app::ok;
use gpuzip::capi::*;
use std::ffi::{c_char, c_void, CString};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Barrier, Mutex};

fn with(algorithm: i32, snaps: i32, cache: i32) -> gpuzip_config_t {
    gpuzip_config_t { checkpointing_algorithm: algorithm, ..revolve(snaps, cache) }
}

fn at(address: usize, values: usize, role: i32) -> gpuzip_field_t {
    field_at(std::ptr::with_exposed_provenance_mut(address), values, role)
}

fn peek(handle: *mut gpuzip_t) -> (i32, gpuzip_action_t) {
    let mut action = gpuzip_action_t::default();
    // SAFETY: all pointers are to live values.
    (unsafe { gpuzip_peek_action(handle, &mut action) }, action)
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
    let handle = init(&revolve(3, 2), 8, &fields);
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
        refused(run(size, 0), GPUZIP_ERR_ARGUMENT, "callbacks->struct_size");
    }
    refused(run(theirs, 5), GPUZIP_ERR_UNSUPPORTED, "newer header");
    works(run(theirs, 0));
    works(gpuzip_setup(handle));
    works(run(ours, 5));
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
                gpuzip_config_t { schedule_chunk: chunk, range_actions, ..with(algorithm, 8, 2) };
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
                    // SAFETY: the fields live.
                    works(unsafe { serve(handle, &expected, &fields) });
                }
            }
            assert_eq!(peek(peeking).0, GPUZIP_ERR_STATE);
            works(gpuzip_setup(peeking));
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
    let handle = init(&revolve(3, 2), N + 1, &[field(&mut u)]);
    loop {
        let action = next(handle);
        // SAFETY: the field lives.
        works(unsafe { serve(handle, &action, &[field(&mut u)]) });
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

/// A shot is logged once if its last BACKWARD was handed out, whether TERMINATE, setup or finalize
/// ends it. A shot that ends before its last BACKWARD is not logged.
#[test]
fn a_shot_that_is_left_after_its_last_backward_is_logged_once() {
    let name = "a_shot_that_is_left_after_its_last_backward_is_logged_once";
    let Some(folder) = common::alone(name) else { return };
    let (log, timeline) = (folder.join("log.csv"), folder.join("run.json"));
    std::env::set_var("GPUZIP_PERFORMANCE_LOG", &log);
    let trace_out = CString::new(timeline.to_str().unwrap()).unwrap();
    let config = gpuzip_config_t {
        enable_performance_log: 1,
        trace_out: trace_out.as_ptr(),
        ..revolve(3, 2)
    };
    let mut data = vec![0f32; 16];
    let fields = [field(&mut data)];
    let handle = init(&config, 9, &fields);
    // SAFETY: all pointers are to live values.
    unsafe {
        serve_until(handle, &fields, is_last_backward);
        works(gpuzip_setup(handle));
        works(gpuzip_setup(handle));
        serve_until(handle, &fields, is_terminate);
        works(gpuzip_setup(handle));
        serve_until(handle, &fields, |action| action.r#type == GPUZIP_ACTION_BACKWARD);
        works(gpuzip_setup(handle));
        serve_until(handle, &fields, is_terminate);
        works(gpuzip_setup(handle));
        serve_until(handle, &fields, is_last_backward);
    }
    finalize(handle);
    let text = std::fs::read_to_string(&log).unwrap();
    let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().unwrap();
    let column = |name: &str| head.iter().position(|column| *column == name).unwrap();
    let rows: Vec<_> =
        rows.map(|row| (row[column("shot")], row[column("backward_steps")])).collect();
    assert_eq!(rows, [("1", "9"), ("2", "9"), ("3", "9"), ("4", "9")], "{text}");
    let trace = std::fs::read_to_string(timeline).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&trace).unwrap();
    assert_eq!(trace.to_string().matches("backward_steps").count(), 4);
}

/// On a GPU, the library checks restored states after the RESTORE. A failed check is reported once,
/// by the call that ends the shot (TERMINATE, setup or finalize), and finalize frees the session
/// all the same.
#[test]
fn damage_is_told_where_the_shot_ends_whatever_ends_it() {
    common::needs!("c++"); // for the kernels of the software driver
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
        let config = gpuzip_config_t { shared_levels: 1, ..with(GPUZIP_ALGORITHM_STORE_ALL, 0, 3) };
        let expected = if damaged { GPUZIP_ERR_VALUES } else { GPUZIP_OK };
        let reversed = |handle: *mut gpuzip_t| loop {
            let action = next(handle);
            if action.r#type == GPUZIP_ACTION_FORWARD || action.it == 0 {
                let past = if damaged { 77 } else { action.ts as u8 };
                ok!(cuMemsetD8Async(address, action.ts as u8 + 1, 256, null_mut()));
                ok!(cuMemsetD8Async(address + 1024, past, 256, null_mut()));
            }
            // SAFETY: the device's memory.
            works(unsafe { serve(handle, &action, &fields) });
            if is_last_backward(&action) {
                break;
            }
        };
        let handle = init(&config, 12, &fields);
        reversed(handle);
        assert_eq!(gpuzip_setup(handle), expected, "{}", last_error());
        works(gpuzip_setup(handle));
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
        ..with(GPUZIP_ALGORITHM_ONLINE, 0, 4)
    };
    let mut data: Vec<f32> =
        (0..98u32).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 8) as f32).collect();
    let fields = [field(&mut data)];
    let handle = init(&config, 0, &fields);
    let mut status = GPUZIP_OK;
    while status == GPUZIP_OK {
        let action = next(handle);
        // SAFETY: the fields live.
        status = unsafe { serve(handle, &action, &fields) };
    }
    assert_eq!(status, GPUZIP_ERR_BUDGET, "{}", last_error());
    works(gpuzip_setup(handle));
    let disk_bytes = summary(handle).disk_bytes;
    assert!(disk_bytes <= config.disk_budget, "{disk_bytes} bytes of disk");
    finalize(handle);
}
