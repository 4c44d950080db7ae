//! A process may fork at any moment: while threads of the parent are inside every kind of call. The
//! child has none of these threads and must never wait for them. In the child every call on the
//! parent's handles returns GPUZIP_ERR_FORKED, and new configurations, schedules and sessions work.

use crate::common::c_abi::{callbacks, field, field_at, finalize, init, is_terminate, revolve};
use crate::common::c_abi::{serve, serve_until, works};
use crate::common::cases::cases;
use crate::common::{self, app, emu};
use app::ok;
use cudarc::driver::sys::CUcontext;
use gpuzip::capi::*;
use std::ffi::{c_char, c_void, CStr, CString};
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Seconds after which a child counts as waiting for ever and is killed.
const PATIENCE: u32 = 60;
const STEPS: i32 = 12;
/// Number of values of a field in the children's sessions (`SMALL`), and in the handles and codec
/// calls of the parent's threads (`LARGE`).
const SMALL: usize = 64;
const LARGE: usize = 1 << 16;

fn config() -> gpuzip_config_t {
    gpuzip_config_t { log_level: 0, ..revolve(3, 2) }
}

/// A configuration with which a thread codes snapshots, without loss, while the application computes.
fn by_a_thread() -> gpuzip_config_t {
    let (compressor, codec_threads, cache_capacity) = (GPUZIP_COMPRESSOR_LOSSLESS, 1, 2);
    gpuzip_config_t { compressor, codec_threads, cache_capacity, host_budget: 1 << 22, ..config() }
}

/// Runs a whole sweep on the host whose states are functions of their time step; returns whether
/// every call succeeded and every state was right.
fn sweep(config: &gpuzip_config_t, values: usize) -> bool {
    let (mut state, mut handle, mut action) =
        (vec![0f32; values], null_mut(), gpuzip_action_t::default());
    let field = field(&mut state);
    let is = |state: &[f32], ts: i32| {
        state.iter().enumerate().all(|(i, value)| *value == ts as f32 * 1000.0 + i as f32)
    };
    // SAFETY: all pointers are to live values.
    unsafe {
        if gpuzip_init(config, STEPS, &field, 1, &mut handle) != GPUZIP_OK {
            return false;
        }
        let size = size_of::<gpuzip_summary_t>() as u64;
        let mut plan = gpuzip_summary_t { struct_size: size, ..Default::default() };
        let mut right = gpuzip_summary(handle, &mut plan) == GPUZIP_OK
            && (config.codec_threads == 0 || plan.raw_slots > 0);
        while right
            && gpuzip_get_action(handle, &mut action) == GPUZIP_OK
            && action.r#type != GPUZIP_ACTION_TERMINATE
        {
            if action.r#type == GPUZIP_ACTION_FORWARD || action.it == 0 {
                state
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, value)| *value = action.ts as f32 * 1000.0 + i as f32);
            }
            right = serve(handle, &action, &[field]) == GPUZIP_OK
                && (action.r#type != GPUZIP_ACTION_BACKWARD || is(&state, action.ts));
        }
        gpuzip_finalize(handle) == GPUZIP_OK && right && action.r#type == GPUZIP_ACTION_TERMINATE
    }
}

/// Handles that the parent's threads use while it forks.
#[derive(Clone, Copy)]
struct Handles {
    session: *mut gpuzip_t,
    schedule: *mut gpuzip_schedule_t,
}

// SAFETY: handles are numbers that the library looks up; no code here dereferences them.
unsafe impl Sync for Handles {}
// SAFETY: handles are numbers that the library looks up; no code here dereferences them.
unsafe impl Send for Handles {}

unsafe extern "C" fn alone(_: *mut c_void, _: *mut i64) -> i32 {
    0
}

unsafe extern "C" fn stage(_: *mut c_void, _: *const c_char, _: *const gpuzip_generation_t) -> i32 {
    0
}

/// Makes every call that takes a handle, with the parent's handles; returns names and statuses.
fn calls_on(Handles { session: h, schedule: s }: Handles) -> Vec<(&'static str, i32)> {
    let mut data = vec![0f32; LARGE];
    let (field, config) = (field(&mut data), config());
    let (mut action, mut other, mut own) = (gpuzip_action_t::default(), null_mut(), null_mut());
    let mut stats =
        gpuzip_stats_t { struct_size: size_of::<gpuzip_stats_t>() as u64, ..Default::default() };
    let mut summary = gpuzip_summary_t {
        struct_size: size_of::<gpuzip_summary_t>() as u64,
        ..Default::default()
    };
    let (mut places, mut bytes) = ([null_mut::<c_void>()], 0);
    let callbacks = callbacks();
    let mut profile = gpuzip_profile();
    let (mut due, mut found) = (
        0,
        gpuzip_generation_t {
            struct_size: size_of::<gpuzip_generation_t>() as u64,
            ..Default::default()
        },
    );
    macro_rules! statuses {
        ($($call:ident($($argument:expr),*);)*) => {
            // SAFETY: all pointers are to live values of the types that the calls expect.
            unsafe { vec![$((stringify!($call), $call($($argument),*))),*] }
        };
    }
    statuses! {
        gpuzip_get_schedule(h, &mut other);
        gpuzip_setup(h);
        gpuzip_setup_steps(h, 10);
        gpuzip_name_fields(h, &c"u".as_ptr(), 1);
        gpuzip_rewind(h);
        gpuzip_get_action(h, &mut action);
        gpuzip_end_forward(h);
        gpuzip_dispatch(h, 1);
        gpuzip_save(h, 0, &field, 1, null_mut());
        gpuzip_retrieve(h, 0, &field, 1, null_mut());
        gpuzip_export(h, c"states".as_ptr(), 0, &field, 1, null_mut());
        gpuzip_save_begin(h, 0, places.as_mut_ptr(), 1, null_mut());
        gpuzip_save_commit(h, 0, null_mut());
        gpuzip_retrieve_acquire(h, 0, places.as_mut_ptr(), 1, null_mut());
        gpuzip_retrieve_release(h, 0, null_mut());
        gpuzip_synchronize(h);
        gpuzip_stats(h, &mut stats);
        gpuzip_summary(h, &mut summary);
        gpuzip_run_forward(h, &callbacks, &field, 1, null_mut());
        gpuzip_run_reverse(h, &callbacks, &field, 1, null_mut());
        gpuzip_autotune(h);
        gpuzip_profile_export(h, null_mut(), 0, &mut bytes);
        gpuzip_profile_steps(h, 0, std::ptr::null(), std::ptr::null());
        gpuzip_profile_import(h, profile.as_mut_ptr().cast(), profile.len() as u64);
        gpuzip_peek_action(h, &mut action);
        gpuzip_fingerprint(h, &mut bytes);
        gpuzip_agree(h, Some(alone), null_mut());
        gpuzip_persist_open(h, std::ptr::null());
        gpuzip_persist_stage_register(h, c"stage".as_ptr(), 0, Some(stage), null_mut());
        gpuzip_persist_due(h, &mut due);
        gpuzip_persist_write(h, 0, std::ptr::null(), 0, null_mut());
        gpuzip_persist_wait(h);
        gpuzip_persist_clone(h, c"clone".as_ptr());
        gpuzip_persist_find(h, &mut found);
        gpuzip_persist_read(h, std::ptr::null(), 0, null_mut());
        gpuzip_schedule_peek_action(s, &mut action);
        gpuzip_schedule_fingerprint(s, &mut bytes);
        gpuzip_attach(s, &config, &field, 1, &mut own);
        gpuzip_schedule_get_action(s, &mut action);
        gpuzip_schedule_rewind(s);
        gpuzip_schedule_summary(s, &mut summary);
        gpuzip_schedule_release(s);
        gpuzip_finalize(h);
    }
}

fn gpuzip_profile() -> Vec<u8> {
    gpuzip::predict::Profile::typical_host(LARGE as u64 * 4, 0.0).to_bytes()
}

/// Every function of the header that takes a handle is called in `calls_on`.
#[test]
fn every_call_on_a_handle_is_tried() {
    let header =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("include/gpuzip.h"))
            .unwrap();
    let here = include_str!("fork.rs");
    let mut found = 0;
    for call in header.split("gpuzip_status_t gpuzip_").skip(1) {
        let (name, rest) = call.split_once('(').unwrap();
        let arguments = rest.split(';').next().unwrap();
        if arguments.contains("struct gpuzip_t *handle")
            || arguments.contains("struct gpuzip_schedule_t *schedule")
        {
            assert!(
                here.contains(&format!("gpuzip_{name}(h"))
                    || here.contains(&format!("gpuzip_{name}(s")),
                "gpuzip_{name}"
            );
            found += 1;
        }
    }
    assert!(found >= 29, "{found}");
}

/// Runs in a child; returns 0, or the number of the first check that failed.
fn child(parents: Handles, cuda_of_parent: bool) -> i32 {
    if calls_on(parents).iter().any(|(_, status)| *status != GPUZIP_ERR_FORKED) {
        return 1;
    }
    let mut loaded = MaybeUninit::uninit();
    // SAFETY: gpuzip_config_load has filled `loaded` when it returns GPUZIP_OK.
    let loaded = unsafe {
        if gpuzip_config_load(null(), loaded.as_mut_ptr()) != GPUZIP_OK {
            return 2;
        }
        &mut loaded.assume_init()
    };
    let own = config();
    if !sweep(&own, SMALL) || !sweep(&by_a_thread(), LARGE) {
        return 3;
    }
    let (mut schedule, mut action) = (null_mut(), gpuzip_action_t::default());
    // SAFETY: all pointers are to live values.
    unsafe {
        let made = gpuzip_schedule_create(&own, STEPS, &mut schedule) == GPUZIP_OK;
        if !made
            || gpuzip_schedule_get_action(schedule, &mut action) != GPUZIP_OK
            || gpuzip_schedule_release(schedule) != GPUZIP_OK
        {
            return 4;
        }
        if gpuzip_set_log_callback(None, null_mut()) != GPUZIP_OK
            || gpuzip_config_free(loaded) != GPUZIP_OK
            || !codec_round(SMALL)
        {
            return 5;
        }
        let mut handle = null_mut();
        let cuda = gpuzip_config_t { backend: 2, device: 1, ..config() };
        if cuda_of_parent
            && gpuzip_init(&cuda, STEPS, &field_at(null_mut(), SMALL, 0), 1, &mut handle)
                != GPUZIP_ERR_FORKED
        {
            return 6;
        }
    }
    0
}

/// Compresses and decompresses `values` FP32 values; returns whether all calls succeed.
fn codec_round(values: usize) -> bool {
    let mut x: Vec<f32> = (0..values).map(|i| (i as f32 * 0.01).sin()).collect();
    let config =
        gpuzip_config_t { compressor: GPUZIP_COMPRESSOR_LORENZO, error_bound: 1e-3, ..config() };
    let (field, mut bytes, mut room) = (field(&mut x), 0, 0);
    // SAFETY: all pointers are to live values.
    unsafe {
        if gpuzip_codec_bound(&config, &field, 1, &mut room) != GPUZIP_OK {
            return false;
        }
        let mut stream = vec![0u64; room.div_ceil(8) as usize];
        let made =
            gpuzip_codec_compress(&config, &field, 1, stream.as_mut_ptr().cast(), room, &mut bytes);
        made == GPUZIP_OK
            && gpuzip_codec_decompress(stream.as_ptr().cast(), bytes, &field, 1) == GPUZIP_OK
    }
}

unsafe extern "C" fn max_bytes(_: *mut c_void, _: *const gpuzip_field_t) -> u64 {
    0
}

unsafe extern "C" fn compress(
    _: *mut c_void,
    _: *const gpuzip_field_t,
    _: i32,
    _: f64,
    _: *mut c_void,
    _: u64,
    _: *mut u64,
) -> i32 {
    1
}

unsafe extern "C" fn decompress(
    _: *mut c_void,
    _: *const c_void,
    _: u64,
    _: *const gpuzip_field_t,
) -> i32 {
    -1
}

fn register(name: &str) -> i32 {
    let (name, mut number) = (CString::new(name).unwrap(), 0);
    let plugin = gpuzip_codec_plugin_t {
        struct_size: size_of::<gpuzip_codec_plugin_t>() as u64,
        name: name.as_ptr(),
        user: null_mut(),
        max_bytes: Some(max_bytes),
        compress: Some(compress),
        decompress: Some(decompress),
        device_compress: None,
        device_decompress: None,
        device_work: None,
        reserved: 0,
    };
    // SAFETY: the table and its name outlive the call; the functions never fail to return.
    unsafe { gpuzip_codec_register(&plugin, &mut number) }
}

unsafe extern "C" fn count_line(_: i32, _: *const c_char, user: *mut c_void) {
    // SAFETY: `user` is the address of the static `LINES`.
    unsafe { &*user.cast::<AtomicU64>() }.fetch_add(1, Ordering::Relaxed);
}

static LINES: AtomicU64 = AtomicU64::new(0);

/// One round of the work of the parent's thread number `kind`.
fn work(kind: usize, round: usize, handles: Handles, folder: &CStr) {
    let (mut data, mut action) = (vec![1f32; LARGE], gpuzip_action_t::default());
    let field = field(&mut data);
    let file = |name: &str| CString::new(format!("{}/{name}", folder.to_str().unwrap())).unwrap();
    // SAFETY: all pointers are to live values.
    unsafe {
        match kind {
            // The session that the children try: a call of this thread holds its lock nearly
            // always.
            0 => {
                gpuzip_setup(handles.session);
                while gpuzip_get_action(handles.session, &mut action) == GPUZIP_OK
                    && action.r#type != GPUZIP_ACTION_TERMINATE
                {
                    gpuzip_save(handles.session, action.ts, &field, 1, null_mut());
                    gpuzip_retrieve(handles.session, action.ts, &field, 1, null_mut());
                    gpuzip_synchronize(handles.session);
                }
            }
            1 => {
                while gpuzip_schedule_get_action(handles.schedule, &mut action) == GPUZIP_OK {}
                gpuzip_schedule_rewind(handles.schedule);
            }
            // Handles made and finalized, threads that code, timelines and performance logs.
            2 => {
                let trace = file("run.json");
                sweep(&by_a_thread(), LARGE);
                sweep(
                    &gpuzip_config_t {
                        trace_out: trace.as_ptr(),
                        enable_performance_log: 1,
                        ..config()
                    },
                    SMALL,
                );
            }
            // Configurations that own their strings; errors, which are logged at DEBUG.
            3 => {
                let (path, mut loaded) = (file("own.cfg"), MaybeUninit::uninit());
                if gpuzip_config_load(path.as_ptr(), loaded.as_mut_ptr()) == GPUZIP_OK {
                    gpuzip_config_free(loaded.as_mut_ptr());
                }
                gpuzip_get_action(null_mut(), &mut action);
                gpuzip_set_log_level((round % 4) as i32);
            }
            // Lines to the callback and to stderr.
            _ => {
                let callback: gpuzip_log_callback_t =
                    if round % 2 == 0 { Some(count_line) } else { None };
                gpuzip_set_log_callback(callback, (&raw const LINES).cast_mut().cast());
                codec_round(LARGE);
                register(&format!("codec {}", round % 50));
            }
        }
    }
}

/// Forks `times` times while threads of this process are busy; returns one line per child that
/// failed.
fn fork_while_busy(times: u32, handles: Handles, cuda: Option<(CUcontext, u64)>) -> Vec<String> {
    let folder = common::tempdir(&format!("fork-{}", std::process::id()));
    std::fs::write(
        folder.join("own.cfg"),
        "checkpointing_algorithm = revolve\ntrace_out = a.json\nprofile_path = b\n",
    )
    .unwrap();
    let folder = CString::new(folder.to_str().unwrap()).unwrap();
    let (over, mut bad) = (AtomicBool::new(false), Vec::new());
    std::thread::scope(|scope| {
        for kind in 0..5 {
            let (over, folder) = (&over, &folder);
            scope.spawn(move || {
                (0..)
                    .take_while(|_| !over.load(Ordering::Relaxed))
                    .for_each(|round| work(kind, round, handles, folder))
            });
        }
        if let Some((context, address)) = cuda {
            let (over, context) = (&over, context as usize);
            scope.spawn(move || {
                ok!(cuCtxSetCurrent(context as CUcontext));
                while !over.load(Ordering::Relaxed) {
                    cuda_saves(address);
                }
            });
        }
        for number in 0..times {
            // SAFETY: the child calls only the library and functions that do not depend on the
            // parent's other threads, and then ends.
            let child_id = unsafe { libc::fork() };
            if child_id == 0 {
                // SAFETY: the calls take no pointers. Half of the children end with exit, which
                // runs destructors and the functions that are registered with atexit.
                unsafe {
                    libc::alarm(PATIENCE);
                    let status = child(handles, cuda.is_some());
                    if number % 2 == 0 {
                        libc::_exit(status);
                    }
                    libc::exit(status);
                }
            }
            let mut status = -1;
            // SAFETY: `status` outlives the call.
            assert_eq!(unsafe { libc::waitpid(child_id, &mut status, 0) }, child_id);
            if status != 0 {
                bad.push(match libc::WIFSIGNALED(status) {
                    true => format!("fork {number}: signal {}", libc::WTERMSIG(status)),
                    false => {
                        format!("fork {number}: step {} of the child", libc::WEXITSTATUS(status))
                    }
                });
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    bad
}

/// Saves and restores device memory in one run of a new session.
fn cuda_saves(address: u64) {
    let fields = [field_at(address as *mut c_void, SMALL, 0)];
    let handle = init(&config(), STEPS, &fields);
    // SAFETY: the fields are live device memory.
    unsafe { serve_until(handle, &fields, is_terminate) };
    finalize(handle);
}

/// A session and a schedule for the parent's threads.
fn handles() -> Handles {
    let session = init(&config(), STEPS, &[field(&mut [0f32; LARGE])]);
    let mut schedule = null_mut();
    // SAFETY: all pointers are to live values.
    works(unsafe { gpuzip_schedule_create(&config(), STEPS, &mut schedule) });
    Handles { session, schedule }
}

/// The test runs in a child process, because the forking process logs a lot to stderr.
#[test]
fn a_child_waits_for_nothing_that_its_parents_threads_did() {
    if std::env::var_os("GPUZIP_TEST_FORKING").is_none() {
        let mut again = common::again("a_child_waits_for_nothing_that_its_parents_threads_did");
        let folder = common::tempdir("forking");
        again.env("GPUZIP_TEST_FORKING", "1").env("GPUZIP_PERFORMANCE_LOG", folder.join("log.csv"));
        let output = again.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let bad = fork_while_busy(cases(250, 5000), handles(), None);
    if !bad.is_empty() {
        println!("{} children: {}", bad.len(), bad.join("; "));
    }
    assert!(bad.is_empty());
}

/// CUDA does not survive a fork: where the parent uses CUDA, the child can use the host backend,
/// and gets an error when it asks for CUDA.
#[test]
fn a_child_of_a_process_with_cuda_waits_for_nothing_either() {
    let log = common::scratch("forking-cuda").join("log.csv");
    let log = [("GPUZIP_PERFORMANCE_LOG", log.to_str().unwrap())];
    if !emu::inside("a_child_of_a_process_with_cuda_waits_for_nothing_either", &log) {
        return;
    }
    assert_eq!(emu::reset(1, emu::RANDOM, 1, 1 << 30), 0);
    let (mut context, mut address) = (null_mut(), 0);
    ok!(cuInit(0));
    ok!(cuDevicePrimaryCtxRetain(&mut context, 0));
    ok!(cuCtxSetCurrent(context));
    ok!(cuMemAlloc_v2(&mut address, SMALL * 4));
    cuda_saves(address);
    let bad = fork_while_busy(cases(80, 2000), handles(), Some((context, address)));
    assert!(bad.is_empty(), "{}", bad.join("; "));
}
