//! Calls of the library from inside a function that the library calls are errors.

use super::*;

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
    let Some(_) = common::alone("calls_from_inside_a_call_are_errors") else { return };
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
        device_compress: None,
        device_decompress: None,
        device_work: None,
        reserved: 0,
    };
    let mut number = 0;
    // SAFETY: the table lives, and its functions return.
    works(unsafe { gpuzip_codec_register(&plugin, &mut number) });
    let mut data: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let fields = [field(&mut data)];
    let config = gpuzip_config_t { compressor: number, error_bound: 1e-3, ..revolve(3, 2) };
    let handle = init(&config, 10, &fields);
    let schedule = schedule_of(handle);
    inside.handle.store(handle, Ordering::Relaxed);
    inside.schedule.store(schedule, Ordering::Relaxed);
    inside.seen.lock().unwrap().clear();
    // SAFETY: the fields live.
    unsafe { serve_until(handle, &fields, is_terminate) };
    let of_codec = std::mem::take(&mut *inside.seen.lock().unwrap());
    assert!(of_codec.len() > 2);
    works(gpuzip_set_log_callback(Some(inside_log), user));
    works(gpuzip_set_log_level(0));
    works(gpuzip_setup_steps(handle, 12));
    assert_eq!(gpuzip_schedule_release(null_mut()), GPUZIP_ERR_ARGUMENT);
    works(gpuzip_set_log_callback(None, null_mut()));
    let all = std::mem::take(&mut *inside.seen.lock().unwrap());
    assert!(!all.is_empty());
    for statuses in of_codec.into_iter().chain(all) {
        assert_eq!(statuses, [GPUZIP_ERR_STATE; 6]);
    }
    // SAFETY: the fields live.
    unsafe { serve_until(handle, &fields, is_terminate) };
    finalize(handle);
    works(gpuzip_schedule_release(schedule));
}
