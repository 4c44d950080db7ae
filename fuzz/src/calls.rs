//! Target for sequences of calls of the C ABI: sessions that follow the rules, and calls that break
//! the rules. Every restored state is compared with the state that the application computes.

use crate::abi::{checked, config, field, folder, memory_required};
use crate::app::{value_bytes, App, Session, KINDS};
use crate::input::Input;
use gpuzip::capi::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// Number of sessions that live at the same time, and largest number of calls per input.
const SESSIONS: usize = 3;
const MOST_CALLS: usize = 60;

/// Runs the target. The input is a program: one byte per call, followed by the bytes that the call
/// draws.
pub fn run(data: &[u8]) {
    folder();
    let mut input = Input(data);
    let mut sessions: [Option<Session>; SESSIONS] = [const { None }; SESSIONS];
    for _ in 0..MOST_CALLS {
        if input.is_empty() {
            break;
        }
        let operation = input.byte();
        let slot = &mut sessions[usize::from(operation >> 6) % SESSIONS];
        match (operation & 31, slot.as_mut()) {
            (0, _) | (1..=2, None) => *slot = init(&mut input),
            (3, _) => shared(&mut input),
            (4, _) => strangers(&mut input),
            (5, _) => required(&mut input),
            (_, Some(session)) => call(operation & 31, session, &mut input),
            _ => {}
        }
    }
}

/// Makes one call or several calls on a session.
fn call(operation: u8, session: &mut Session, input: &mut Input) {
    match operation {
        1..=2 | 6..=9 => drop(session.step()),
        10..=13 => {
            let _ = (0..input.byte()).any(|_| session.step());
        }
        14 => drop(session.next()),
        15..=16 => {
            if let Err(status) = session.setup() {
                let permitted = matches!(status, GPUZIP_ERR_MEMORY | GPUZIP_ERR_BUDGET)
                    || session.broken && status == GPUZIP_ERR_HANDLE;
                assert!(permitted, "setup: {status}, {}", crate::abi::last_error());
                session.broken = true;
            }
        }
        17..=20 => stray_copy(session, input),
        21 => stray_dispatch(session, input),
        22 => ask(session),
        23..=24 => by_callbacks(session, input),
        25 => tune(session, input),
        26 => own_schedule(session, input),
        28..=29 => session.end_forward(),
        27 => {
            let handle = session.handle;
            assert!(
                checked(gpuzip_finalize(handle)).is_ok() || session.broken,
                "finalize: {}",
                crate::abi::last_error()
            );
            assert_eq!(gpuzip_finalize(handle), GPUZIP_ERR_HANDLE);
            assert_eq!(gpuzip_setup(handle), GPUZIP_ERR_HANDLE);
            session.broken = true;
        }
        _ => drop(checked(gpuzip_synchronize(session.handle))),
    }
}

/// Draws one to three small fields.
fn fields(input: &mut Input) -> Vec<gpuzip_field_t> {
    let count = 1 + input.below(3);
    let mut fields: Vec<gpuzip_field_t> = Vec::new();
    for _ in 0..count {
        let drawn = input.byte();
        let n = [1 + u64::from(drawn >> 3), 1 + u64::from(drawn & 3), 1 + u64::from(drawn >> 7)];
        let plain = field(n, i32::from(drawn >> 2 & 1), 0);
        fields.push(match input.below(8) {
            // The previous time level of the field before it.
            0 | 4 if !fields.is_empty() => {
                gpuzip_field_t { role: fields.len() as i32, ..fields[fields.len() - 1] }
            }
            // A field with gaps between rows and planes.
            1 => {
                let gaps = input.byte();
                let pitch2 = n[0] + u64::from(gaps & 7);
                let pitch3 = (n[1] - 1) * pitch2 + n[0] + u64::from(gaps >> 3 & 7);
                gpuzip_field_t { pitch2, pitch3: if gaps & 64 == 0 { pitch3 } else { 0 }, ..plain }
            }
            // A field of a type that may have no codec.
            2 => gpuzip_field_t { r#type: input.below(9) as i32, ..plain },
            _ => plain,
        });
    }
    fields
}

/// Draws a configuration that is often valid.
fn drawn(input: &mut Input, fields: &[gpuzip_field_t]) -> gpuzip_config_t {
    let state: u64 = fields
        .iter()
        .map(|f| (f.n1 * f.n2 * f.n3 * value_bytes(f.r#type) as u64).next_multiple_of(256))
        .sum();
    let flags = input.byte();
    let [snaps, cache, chunk, device, host] = input.take();
    let mut config = gpuzip_config_t {
        checkpointing_algorithm: input.of(&[1, 2, 3, 4, 5, 6, 9, 8]),
        checkpointing_snaps: i32::from(snaps % 12),
        cache_capacity: i32::from(cache % 7),
        schedule_chunk: i32::from(chunk % 5),
        compressor: input.of(&[0, 0, 0, 0, 0, 4, 5, 3, 1, 6, 7, 15]),
        error_bound: f64::from(1 + (flags >> 6)) * 1e-3,
        error_bound_mode: i32::from(flags >> 5 & 1),
        device_budget: if device & 3 == 0 { u64::from(device) * state } else { 0 },
        host_budget: if host & 3 == 0 { u64::from(host) * state } else { 0 },
        policy: i32::from(flags & 15 == 1),
        zero_copy: i32::from(flags & 3 == 2),
        shared_levels: i32::from(flags & 3 == 3),
        range_actions: i32::from(flags >> 2 & 1),
        uniform_reading: i32::from(flags >> 3 & 1),
        backend: i32::from(flags & 16 == 0),
        log_level: i32::from(flags >> 7) * 2,
        max_in_flight: i32::from(chunk >> 5),
        adjoint_every: if device & 3 == 1 { 2 + i32::from(device >> 6) } else { 0 },
        link_bandwidth: if cache == 255 { 1e9 } else { 0.0 },
        ..config()
    };
    if snaps >= 240 {
        poke(&mut config, input);
    }
    if config.zero_copy == 1 {
        // Calls with zero copy pass no fields from which gpuzip could tell the backend.
        config.backend = 1;
    }
    config
}

/// Sets one member of the configuration to an arbitrary number, except for files and slow links.
fn poke(config: &mut gpuzip_config_t, input: &mut Input) {
    let (place, value) = (input.below(22), input.i32());
    let c = config;
    let places = [
        &mut c.checkpointing_algorithm,
        &mut c.checkpointing_snaps,
        &mut c.cache_capacity,
        &mut c.compressor,
        &mut c.log_level,
        &mut c.zfp_bit_rate,
        &mut c.policy,
        &mut c.error_bound_mode,
        &mut c.nonfinite,
        &mut c.max_in_flight,
        &mut c.range_actions,
        &mut c.snapshot_rule,
        &mut c.schedule_chunk,
        &mut c.uniform_reading,
        &mut c.zero_copy,
        &mut c.shared_levels,
    ];
    match places.into_iter().nth(place) {
        Some(member) => *member = value,
        None if place == 16 => c.error_bound = f64::from_bits(input.u64()),
        None if place == 17 => c.compression_factor = f32::from_bits(value as u32),
        None if place == 18 => c.device_budget = input.u64(),
        None if place == 19 => c.mixed_storage = value,
        None if place == 20 => c.codec_threads = value,
        None => c.host_budget = input.u64(),
    }
}

fn steps(input: &mut Input) -> i32 {
    1 + input.below(48) as i32
}

fn init(input: &mut Input) -> Option<Session> {
    let fields = fields(input);
    let config = drawn(input, &fields);
    let kind = input.below(KINDS);
    let steps = steps(input);
    // The number of steps of half of the online shots is not known.
    let is_open = config.checkpointing_algorithm == GPUZIP_ALGORITHM_ONLINE && steps % 2 == 0;
    Session::new(&config, if is_open { 0 } else { steps }, &fields, kind).ok()
}

/// Checks that the memory that a session would need is within the budget, where gpuzip knows it
/// beforehand.
fn required(input: &mut Input) {
    let fields = fields(input);
    let config = drawn(input, &fields);
    let steps = steps(input);
    let Ok(summary) = memory_required(&config, steps, &fields) else { return };
    assert_eq!((summary.steps, summary.backward_steps), (steps, steps as u64));
    if config.host_budget > 0 && summary.compressor == 0 {
        assert!(summary.host_bytes <= config.host_budget, "{summary:?}");
    }
}

/// Calls save and retrieve functions that the current action does not ask for, or with fields that
/// differ from the session's. A refused call must change nothing; the session continues.
fn stray_copy(session: &mut Session, input: &mut Input) {
    let (handle, ts) = (
        session.handle,
        if input.coin() { session.action.ts } else { i32::from(input.byte()) - 2 },
    );
    let asked = session.pending && ts == session.action.ts && !session.broken;
    let mut fields = session.app.fields();
    let mut count = fields.len() as u32;
    let spoilt = input.below(8);
    match spoilt {
        0 => fields[0].n1 += 1,
        1 => fields[0].r#type ^= 1,
        2 => fields[0].data = null_mut(),
        3 => fields[0].role = i32::from(input.byte()) - 3,
        4 => count = count.wrapping_sub(1),
        5 => fields[0].n3 = u64::MAX,
        6 => fields[0].pitch2 = u64::MAX - u64::from(input.byte()),
        _ => {}
    }
    if asked && spoilt >= 3 {
        // The call may be valid, and then it needs the right values.
        return session.serve();
    }
    let mut places = vec![null_mut(); fields.len()];
    // SAFETY: the fields point to the application's memory, or gpuzip refuses them before it
    // accesses memory; `places` has an element for each field.
    let result = checked(unsafe {
        match input.below(7) {
            0 => gpuzip_save(handle, ts, fields.as_ptr(), count, null_mut()),
            1 => gpuzip_retrieve(handle, ts, fields.as_ptr(), count, null_mut()),
            2 if !asked => gpuzip_save_begin(handle, ts, places.as_mut_ptr(), count, null_mut()),
            3 if !asked => gpuzip_save_commit(handle, ts, null_mut()),
            4 if !asked => {
                gpuzip_retrieve_acquire(handle, ts, places.as_mut_ptr(), count, null_mut())
            }
            5 => gpuzip_retrieve_release(handle, ts, null_mut()),
            6 => gpuzip_save(handle, ts, null(), count, null_mut()),
            _ => gpuzip_synchronize(handle),
        }
    });
    let _ = result;
}

/// Checks that a session can be dispatched only to its current action.
fn stray_dispatch(session: &mut Session, input: &mut Input) {
    let it = session.action.it + i64::from(input.byte()) - 128;
    let result = checked(gpuzip_dispatch(session.handle, it));
    assert!(
        session.broken || result.is_err() || it == session.action.it,
        "dispatch to {it} at {:?}",
        session.action
    );
}

/// Calls functions that only ask; they must change nothing.
fn ask(session: &Session) {
    let mut summary = gpuzip_summary_t {
        struct_size: size_of::<gpuzip_summary_t>() as u64,
        ..Default::default()
    };
    let mut stats =
        gpuzip_stats_t { struct_size: size_of::<gpuzip_stats_t>() as u64, ..Default::default() };
    // SAFETY: both are live values.
    let told = unsafe {
        (
            checked(gpuzip_summary(session.handle, &mut summary)),
            checked(gpuzip_stats(session.handle, &mut stats)),
        )
    };
    if told == (Ok(()), Ok(())) && !session.broken && !session.is_open {
        assert!(
            stats.saves <= summary.saves
                && stats.restores <= summary.restores
                && stats.backward_steps <= summary.backward_steps
        );
    }
}

/// A run by callbacks: its session, and when and how it is stopped.
struct Run<'a> {
    session: &'a mut Session,
    /// True if the state of the session before the run is known.
    known: bool,
    calls: u32,
    stop_at: u32,
    meddle: u8,
}

impl Run<'_> {
    /// Checks that u(ts) is live and in the application's memory.
    fn check(&self, ts: i32) {
        if self.known {
            assert_eq!(i64::from(ts), self.session.live);
            self.session.app.check(i64::from(ts), self.session.tolerance());
        }
    }

    /// Returns the result of a callback. Call number `stop_at` stops the run or calls a function of
    /// its own session, which callbacks must not do.
    fn result(&mut self) -> i32 {
        self.calls += 1;
        if self.calls != self.stop_at {
            return 0;
        }
        let mut action = gpuzip_action_t::default();
        let handle = self.session.handle;
        match self.meddle {
            // SAFETY: the action is a live value.
            1 => unsafe { gpuzip_get_action(handle, &mut action) },
            2 => gpuzip_setup(handle),
            3 => gpuzip_finalize(handle),
            _ => return 77,
        };
        0
    }
}

/// # Safety
/// `user` must be the `Run` of this run, and nothing else may use this `Run` during the call.
unsafe extern "C" fn forward(user: *mut c_void, ts: i32, ts_end: i32, _: u32) -> i32 {
    // SAFETY: the caller promises that `user` is the `Run` of this run and not used otherwise.
    let run = unsafe { &mut *user.cast::<Run>() };
    assert!(!run.known || i64::from(ts) == run.session.live + 1 && ts_end >= ts);
    run.session.live = i64::from(ts_end);
    run.session.app.compute(run.session.live);
    run.result()
}

/// # Safety
/// `user` must be the `Run` of this run, and nothing else may use this `Run` during the call.
unsafe extern "C" fn backward(user: *mut c_void, ts: i32, ts_end: i32, _: u32) -> i32 {
    // SAFETY: the caller promises that `user` is the `Run` of this run and not used otherwise.
    let run = unsafe { &mut *user.cast::<Run>() };
    assert!(
        !run.known
            || (i64::from(ts), i64::from(ts_end)) == (run.session.live, run.session.reversed - 1)
    );
    run.session.reversed = i64::from(ts);
    run.check(ts);
    run.result()
}

/// # Safety
/// `user` must be the `Run` of this run, and nothing else may use this `Run` during the call.
unsafe extern "C" fn observe(user: *mut c_void, kind: i32, ts: i32, _: u32) -> i32 {
    // SAFETY: the caller promises that `user` is the `Run` of this run and not used otherwise.
    let run = unsafe { &mut *user.cast::<Run>() };
    if kind == GPUZIP_ACTION_RESTORE {
        run.session.live = i64::from(ts);
    }
    run.check(ts);
    run.result()
}

/// Runs the rest of the shot, or of its forward sweep, by callbacks. A forward sweep without a known
/// end would not come back.
fn by_callbacks(session: &mut Session, input: &mut Input) {
    if session.is_open {
        return;
    }
    let (whole, stop_at, meddle) = (input.coin(), u32::from(input.byte()), input.byte());
    session.app.compute(session.live);
    let fields = session.app.fields();
    let (handle, count, broken, pending) =
        (session.handle, fields.len() as u32, session.broken, session.pending);
    let mut run = Run { session, known: !broken, calls: 0, stop_at, meddle: meddle % 5 };
    // SAFETY: all zero is a valid value of every member.
    let zero: gpuzip_callbacks_t = unsafe { std::mem::zeroed() };
    let user = (&raw mut run).cast();
    let struct_size = size_of::<gpuzip_callbacks_t>() as u64;
    let callbacks = gpuzip_callbacks_t {
        struct_size,
        user,
        forward: Some(forward),
        backward_range: Some(backward),
        observe: Some(observe),
        ..zero
    };
    // SAFETY: the callbacks and the fields live during the call.
    let result = checked(unsafe {
        match whole {
            true => gpuzip_run_reverse(handle, &callbacks, fields.as_ptr(), count, null_mut()),
            false => gpuzip_run_forward(handle, &callbacks, fields.as_ptr(), count, null_mut()),
        }
    });
    let Run { session, calls, .. } = run;
    assert!(!pending || calls == 0, "a run went past an action that was not served");
    match result {
        Ok(()) if !broken => session.after_run(whole),
        _ => session.broken = true,
    }
}

/// Calls the functions that measure, export and import profiles.
fn tune(session: &mut Session, input: &mut Input) {
    if input.coin() {
        let _ = checked(gpuzip_autotune(session.handle));
        return;
    }
    let mut size = 0;
    // SAFETY: the size is a live value; the buffer has `size` bytes.
    unsafe {
        if checked(gpuzip_profile_export(session.handle, null_mut(), 0, &mut size)).is_err() {
            return;
        }
        let mut profile = vec![0u8; size as usize];
        let capacity = size;
        checked(gpuzip_profile_export(
            session.handle,
            profile.as_mut_ptr().cast(),
            capacity,
            &mut size,
        ))
        .expect("there is a profile");
        if input.coin() {
            profile[input.byte() as usize % size as usize] ^= 1;
            assert!(checked(gpuzip_profile_import(session.handle, profile.as_ptr().cast(), size))
                .is_err());
        } else if checked(gpuzip_profile_import(session.handle, profile.as_ptr().cast(), size))
            .is_ok()
        {
            // The session may have chosen another codec.
            session.broken = true;
        }
    }
}

/// Takes the session's own schedule as a handle and may advance or rewind it without the session.
fn own_schedule(session: &mut Session, input: &mut Input) {
    let mut schedule = null_mut();
    // SAFETY: `schedule` is a live value.
    if checked(unsafe { gpuzip_get_schedule(session.handle, &mut schedule) }).is_err() {
        return;
    }
    let mut action = gpuzip_action_t::default();
    match input.below(4) {
        // SAFETY: the action is a live value.
        0 => drop(checked(unsafe { gpuzip_schedule_get_action(schedule, &mut action) })),
        1 => drop(checked(gpuzip_schedule_rewind(schedule))),
        _ => {}
    }
    session.broken = true;
    checked(gpuzip_schedule_release(schedule)).expect("a live schedule");
    assert_eq!(gpuzip_schedule_release(schedule), GPUZIP_ERR_HANDLE);
}

/// Runs two sessions of one shared schedule, which the caller advances.
fn shared(input: &mut Input) {
    let of_first = fields(input);
    let config = drawn(input, &of_first);
    let (steps, kind, mut schedule) = (steps(input), input.below(KINDS), null_mut());
    // SAFETY: all pointers are to live values.
    if checked(unsafe { gpuzip_schedule_create(&config, steps, &mut schedule) }).is_err() {
        return;
    }
    let mut sessions = Vec::new();
    for fields in [of_first, fields(input)] {
        let mut handle = null_mut();
        // SAFETY: all pointers are to live values.
        if checked(unsafe {
            gpuzip_attach(schedule, &config, fields.as_ptr(), fields.len() as u32, &mut handle)
        })
        .is_ok()
        {
            sessions.push((handle, App::new(&fields, kind)));
        }
    }
    let mut following: Vec<Session> = Vec::new();
    let mut action = gpuzip_action_t::default();
    // SAFETY: the action is a live value.
    while checked(unsafe { gpuzip_schedule_get_action(schedule, &mut action) }).is_ok() {
        for (handle, app) in sessions.drain(..) {
            if checked(gpuzip_dispatch(handle, action.it)).is_ok() {
                following.push(Session::of(handle, &config, i64::from(steps), app));
            } else {
                let _ = checked(gpuzip_finalize(handle));
            }
        }
        for session in &mut following {
            let result = checked(gpuzip_dispatch(session.handle, action.it));
            assert!(
                result.is_ok() || session.broken,
                "dispatch: {result:?}, {}",
                crate::abi::last_error()
            );
            if !session.broken {
                session.follow(action);
                session.serve();
            }
        }
        following.retain(|session| !session.broken);
    }
    for (handle, _) in sessions {
        let _ = checked(gpuzip_finalize(handle));
    }
    checked(gpuzip_schedule_release(schedule)).expect("a live schedule");
}

/// Calls functions with invalid handles and with NULL.
fn strangers(input: &mut Input) {
    let number = input.u64() as usize;
    let handle = if number < 1 << 40 { null_mut() } else { (number | 1) as *mut gpuzip_t };
    let (schedule, mut action) = (handle.cast::<gpuzip_schedule_t>(), gpuzip_action_t::default());
    // SAFETY: gpuzip looks handles up and does not dereference them; the action is a live value.
    let statuses = unsafe {
        [
            gpuzip_get_action(handle, &mut action),
            gpuzip_setup(handle),
            gpuzip_setup_steps(handle, number as i32),
            gpuzip_end_forward(handle),
            gpuzip_dispatch(handle, 0),
            gpuzip_finalize(handle),
            gpuzip_synchronize(handle),
            gpuzip_export(handle, std::ptr::null(), 0, std::ptr::null(), 0, null_mut()),
            gpuzip_schedule_get_action(schedule, &mut action),
            gpuzip_schedule_rewind(schedule),
            gpuzip_schedule_release(schedule),
            gpuzip_persist_open(handle, std::ptr::null()),
            gpuzip_persist_stage_register(handle, std::ptr::null(), 0, None, null_mut()),
            gpuzip_persist_write(handle, number as i64, std::ptr::null(), 0, null_mut()),
            gpuzip_persist_wait(handle),
            gpuzip_persist_clone(handle, std::ptr::null()),
            gpuzip_persist_read(handle, std::ptr::null(), 0, null_mut()),
        ]
    };
    assert!(
        statuses.iter().all(|status| matches!(*status, GPUZIP_ERR_HANDLE | GPUZIP_ERR_ARGUMENT)),
        "{statuses:?}"
    );
}
