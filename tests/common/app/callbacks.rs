//! A job whose steps the library calls.

use super::*;
use gpuzip::capi::*;
use gpuzip::schedule::MacroSteps;

/// Returns the part that `user` of all callbacks points to.
fn part<'a>(user: *mut c_void) -> &'a mut Part<'a> {
    // SAFETY: `user` is the part, which nothing else uses during a run.
    unsafe { &mut *user.cast::<Part<'a>>() }
}

unsafe extern "C" fn forward(user: *mut c_void, ts: i32, ts_end: i32, _: u32) -> i32 {
    (ts..=ts_end).for_each(|ts| part(user).forward(ts as u32));
    0
}

unsafe extern "C" fn backward(user: *mut c_void, ts: i32, _: u32) -> i32 {
    let part = part(user);
    part.look(ts as u32);
    part.poison();
    0
}

unsafe extern "C" fn backward_range(user: *mut c_void, ts: i32, _: i32, flags: u32) -> i32 {
    // SAFETY: as for this callback.
    unsafe { backward(user, ts, flags) }
}

unsafe extern "C" fn locate(
    user: *mut c_void,
    kind: i32,
    _: i32,
    fields: *mut gpuzip_field_t,
    count: u32,
) -> i32 {
    let part = part(user);
    if kind == GPUZIP_ACTION_RESTORE {
        part.poison();
    }
    // SAFETY: the library passes an array of `count` fields.
    let fields = unsafe { std::slice::from_raw_parts_mut(fields, count as usize) };
    fields
        .iter_mut()
        .zip(part.set())
        .for_each(|(field, (_, address))| field.data = *address as *mut c_void);
    0
}

unsafe extern "C" fn observe(user: *mut c_void, kind: i32, ts: i32, _: u32) -> i32 {
    let part = part(user);
    match kind {
        GPUZIP_ACTION_SAVE => part.poison(),
        _ => part.look(ts as u32),
    }
    0
}

/// Runs a job on one device by the callbacks of the C ABI: each shot in two runs, on one stream.
/// The fields are poisoned whenever the library may no longer read them. Returns the number of
/// wrong states.
pub fn run_by_callbacks(job: &Job, seed: u64) -> usize {
    let mut part = Part::new(0, job, seed);
    let fields: Vec<gpuzip_field_t> = shapes()
        .iter()
        .map(|f| gpuzip_field_t {
            data: std::ptr::null_mut(),
            n1: f.n[0],
            n2: f.n[1],
            n3: f.n[2],
            r#type: f.scalar as i32,
            role: 0,
            pitch2: 0,
            pitch3: 0,
            reserved: [0; 2],
        })
        .collect();
    let callbacks = gpuzip_callbacks_t {
        struct_size: size_of::<gpuzip_callbacks_t>() as u64,
        user: (&raw mut part).cast(),
        forward: Some(forward),
        backward: Some(backward),
        locate: Some(locate),
        observe: Some(observe),
        backward_range: (job.config.schedule.adjoint_every > 1).then_some(backward_range),
        reserved: [0; 3],
    };
    let (mut config, mut handle) = (std::mem::MaybeUninit::uninit(), std::ptr::null_mut());
    let (fields, count, stream) = (fields.as_ptr(), shapes().len() as u32, part.on().cast());
    // SAFETY: all pointers are to live objects.
    unsafe {
        assert_eq!(gpuzip_config_init(config.as_mut_ptr()), GPUZIP_OK);
        let mut config = config.assume_init();
        config.checkpointing_algorithm = job
            .config
            .schedule
            .algorithm
            .map_or(GPUZIP_ALGORITHM_AUTO, |algorithm| algorithm as i32);
        config.checkpointing_snaps = job.config.schedule.snapshots as i32;
        config.cache_capacity = job.config.tiers.cache as i32;
        config.policy = job.config.tiers.policy as i32;
        config.max_in_flight = job.config.device.max_in_flight as i32;
        config.range_actions = job.config.schedule.range_actions as i32;
        config.adjoint_every = job.config.schedule.adjoint_every as i32;
        let text = || std::ffi::CStr::from_ptr(gpuzip_last_error()).to_string_lossy().into_owned();
        assert_eq!(
            gpuzip_init(&config, job.steps as i32, fields, count, &mut handle),
            GPUZIP_OK,
            "{}",
            text()
        );
        for _ in 0..job.shots {
            assert_eq!(gpuzip_setup(handle), GPUZIP_OK);
            part.enter();
            part.forward(0);
            assert_eq!(
                gpuzip_run_forward(handle, &callbacks, fields, count, stream),
                GPUZIP_OK,
                "{}",
                text()
            );
            assert_eq!(
                gpuzip_run_reverse(handle, &callbacks, fields, count, stream),
                GPUZIP_OK,
                "{}",
                text()
            );
        }
        assert_eq!(gpuzip_finalize(handle), GPUZIP_OK);
    }
    let reversed =
        MacroSteps::new(job.config.schedule.adjoint_every, job.steps).count() * job.shots;
    assert!(part.expected.len() >= reversed as usize, "every reversed state is looked at");
    part.wrong_states()
}
