use super::tests::{action, config, field, init, last_error, revolve};
use super::*;
use std::mem::size_of;
use std::ptr::null_mut;

#[test]
fn the_estimate_is_what_init_takes() {
    let mut data = vec![0f32; 1000];
    let fields = [field(&mut data)];
    let config = gpuzip_config_t { device_budget: 3 * 4096, host_budget: 8 * 4096, ..config() };
    let new = || gpuzip_summary_t {
        struct_size: size_of::<gpuzip_summary_t>() as u64,
        ..Default::default()
    };
    let (mut before, mut after) = (new(), new());
    let (status, handle) = init(&config, 400, &fields);
    assert_eq!(status, GPUZIP_OK);
    // SAFETY: all pointers are to live values.
    unsafe {
        assert_eq!(
            gpuzip_memory_required(&config, 400, fields.as_ptr(), 1, &mut before),
            GPUZIP_OK
        );
        assert_eq!(gpuzip_summary(handle, &mut after), GPUZIP_OK);
        assert_eq!(
            gpuzip_memory_required(&config, -1, fields.as_ptr(), 1, &mut before),
            GPUZIP_ERR_ARGUMENT
        );
    }
    assert_eq!(format!("{before:?}"), format!("{after:?}"));
    assert!(
        before.device_bytes <= 3 * 4096
            && before.host_bytes <= 8 * 4096
            && before.slot_bytes == 4096
    );
    assert!(before.max_live <= before.snapshots as u64);
    assert!(before.bound_s > 0.0 && before.bound_s <= before.predicted_s, "{before:?}");
    gpuzip_finalize(handle);

    // The bound is of the clairvoyant policy.
    let config = gpuzip_config_t { policy: 1, ..config };
    let mut published = new();
    // SAFETY: all pointers are to live values.
    let status =
        unsafe { gpuzip_memory_required(&config, 400, fields.as_ptr(), 1, &mut published) };
    assert_eq!((status, published.predicted_s, published.bound_s), (GPUZIP_OK, 0.0, 0.0));
}

/// A shot whose largest snapshot is larger than expected changes the slots of the next shot. All slots
/// together take no more host memory than the budget, since compressed snapshots share its bytes.
#[test]
fn larger_snapshots_leave_the_host_budget() {
    let mut data = vec![0f32; 4096];
    let fields = [field(&mut data)];
    let config = gpuzip_config_t {
        checkpointing_algorithm: GPUZIP_ALGORITHM_REVOLVE,
        checkpointing_snaps: 8,
        compressor: GPUZIP_COMPRESSOR_LORENZO,
        compression_factor: 8.0,
        device_budget: 6 * 2048,
        host_budget: 8 * 2048,
        backend: 1,
        ..config()
    };
    let (status, handle) = init(&config, 60, &fields);
    assert_eq!(status, GPUZIP_OK, "{}", last_error());
    let summary = || {
        let mut summary = gpuzip_summary_t {
            struct_size: size_of::<gpuzip_summary_t>() as u64,
            ..Default::default()
        };
        // SAFETY: the summary is a live value.
        assert_eq!(unsafe { gpuzip_summary(handle, &mut summary) }, GPUZIP_OK);
        summary
    };
    let before = summary();
    let mut action = gpuzip_action_t::default();
    loop {
        // SAFETY: the action is a live value, and the field points to the data.
        unsafe {
            assert_eq!(gpuzip_get_action(handle, &mut action), GPUZIP_OK, "{}", last_error());
            match action.r#type {
                GPUZIP_ACTION_TERMINATE => break,
                GPUZIP_ACTION_SAVE => {
                    // Only u(0) is hard to compress.
                    let noise = |i: u32| i.wrapping_mul(2_654_435_769) as f32;
                    let value = |i: u32| if action.ts == 0 { noise(i) } else { 1.0 };
                    data.iter_mut().zip(0..).for_each(|(data, i)| *data = value(i));
                    let status = gpuzip_save(handle, action.ts, fields.as_ptr(), 1, null_mut());
                    assert_eq!(status, GPUZIP_OK, "{}", last_error());
                }
                GPUZIP_ACTION_RESTORE => {
                    let status = gpuzip_retrieve(handle, action.ts, fields.as_ptr(), 1, null_mut());
                    assert_eq!(status, GPUZIP_OK, "{}", last_error());
                }
                _ => {}
            }
        }
    }
    assert_eq!(gpuzip_setup(handle), GPUZIP_OK, "{}", last_error());
    let after = summary();
    assert!(after.slot_bytes > before.slot_bytes && after.cache < before.cache, "{after:?}");
    assert!(after.host_bytes > 0 && after.host_bytes <= config.host_budget, "{after:?}");
    assert_eq!(gpuzip_finalize(handle), GPUZIP_OK);
}

/// With BACKWARDs of several time steps a shot still computes every time step.
#[test]
fn the_predicted_time_counts_time_steps() {
    let mut data = vec![0f32; 1000];
    let fields = [field(&mut data)];
    let predicted = |adjoint_every, steps| {
        let config = gpuzip_config_t { device_budget: 1 << 23, adjoint_every, ..config() };
        let mut summary = gpuzip_summary_t {
            struct_size: size_of::<gpuzip_summary_t>() as u64,
            ..Default::default()
        };
        // SAFETY: all pointers are to live values.
        let status =
            unsafe { gpuzip_memory_required(&config, steps, fields.as_ptr(), 1, &mut summary) };
        assert_eq!((status, summary.steps), (GPUZIP_OK, steps));
        assert!(0.0 < summary.bound_s && summary.bound_s <= summary.predicted_s, "{summary:?}");
        summary.predicted_s
    };
    // All states are stored, so that fewer snapshots are all that changes.
    let every = [1, 4, 50].map(|every| predicted(every, 400));
    assert!(every[0] > every[1] && every[1] > every[2], "{every:?}");
    assert!(every[2] > predicted(1, 200), "{every:?}");
}

#[test]
fn sizes_that_no_memory_has_are_refused() {
    let huge = [gpuzip_field_t { n1: 1 << 55, ..field(&mut [0.0]) }];
    let mut summary = gpuzip_summary_t {
        struct_size: size_of::<gpuzip_summary_t>() as u64,
        ..Default::default()
    };
    // SAFETY: all pointers are to live values.
    let status =
        unsafe { gpuzip_memory_required(&revolve(500, 2), 1000, huge.as_ptr(), 1, &mut summary) };
    assert_eq!(status, GPUZIP_ERR_MEMORY, "{}", last_error());
    // A schedule with more saves and restores than a plan can number.
    let status = init(
        &gpuzip_config_t { checkpointing_algorithm: GPUZIP_ALGORITHM_STORE_ALL, ..config() },
        i32::MAX,
        &[field(&mut [0.0])],
    )
    .0;
    assert!(matches!(status, GPUZIP_ERR_BUDGET | GPUZIP_ERR_MEMORY), "{status}: {}", last_error());
}

#[test]
fn every_session_counts_even_if_another_was_set_up_first() {
    let (mut data, mut schedule, mut a, mut b) =
        (vec![0f32; 1000], null_mut(), null_mut(), null_mut());
    let fields = [field(&mut data)];
    let budget =
        |slots: u64| gpuzip_config_t { host_budget: slots * 4096, backend: 1, ..revolve(0, 0) };
    // SAFETY: all pointers are to live values.
    unsafe {
        assert_eq!(gpuzip_schedule_create(&budget(20), 300, &mut schedule), GPUZIP_OK);
        assert_eq!(gpuzip_attach(schedule, &budget(20), fields.as_ptr(), 1, &mut a), GPUZIP_OK);
        assert_eq!(gpuzip_setup(a), GPUZIP_OK);
        assert_eq!(gpuzip_attach(schedule, &budget(5), fields.as_ptr(), 1, &mut b), GPUZIP_OK);
    }
    assert_eq!(gpuzip_setup(b), GPUZIP_OK);
    assert_eq!(action(a).0, GPUZIP_OK, "{}", last_error());
    assert_eq!(gpuzip_dispatch(b, 0), GPUZIP_OK);
    // A session that missed a rewind of its schedule returns an error before it does anything.
    assert_eq!(gpuzip_schedule_rewind(schedule), GPUZIP_OK);
    assert_eq!(action(b).0, GPUZIP_ERR_STATE);
    assert_eq!((gpuzip_setup(a), gpuzip_setup(b)), (GPUZIP_OK, GPUZIP_OK));
    assert_eq!(
        action(b),
        (GPUZIP_OK, gpuzip_action_t { r#type: GPUZIP_ACTION_SAVE, ..Default::default() })
    );
    for handle in [a, b] {
        assert_eq!(gpuzip_finalize(handle), GPUZIP_OK);
    }
    assert_eq!(gpuzip_schedule_release(schedule), GPUZIP_OK);
}

#[test]
fn schedules_work_by_themselves() {
    let (mut schedule, mut action, mut reversed) =
        (null_mut(), gpuzip_action_t::default(), Vec::new());
    // SAFETY: all pointers are to live values.
    unsafe {
        assert_eq!(gpuzip_schedule_create(&revolve(3, 0), 10, &mut schedule), GPUZIP_OK);
        for sweep in 0..2 {
            for it in 0.. {
                assert_eq!(gpuzip_schedule_get_action(schedule, &mut action), GPUZIP_OK);
                assert_eq!(action.it, it);
                match action.r#type {
                    GPUZIP_ACTION_BACKWARD => reversed.push(action.ts),
                    GPUZIP_ACTION_TERMINATE => break,
                    _ => {}
                }
            }
            assert_eq!(reversed, (0..10).rev().collect::<Vec<_>>(), "sweep {sweep}");
            reversed.clear();
            assert_eq!(gpuzip_schedule_get_action(schedule, &mut action), GPUZIP_ERR_STATE);
            assert_eq!(gpuzip_schedule_rewind(schedule), GPUZIP_OK);
        }
        let mut summary = gpuzip_summary_t {
            struct_size: size_of::<gpuzip_summary_t>() as u64,
            ..Default::default()
        };
        assert_eq!(gpuzip_schedule_summary(schedule, &mut summary), GPUZIP_OK);
        assert_eq!(
            (summary.steps, summary.backward_steps, summary.forward_steps),
            (10, 10, crate::schedule::forward_steps(10, 3))
        );
        assert_eq!(gpuzip_schedule_release(schedule), GPUZIP_OK);
    }
}

#[test]
fn ranges_are_of_the_schedules_own_configuration() {
    let (mut schedule, mut action, mut data) =
        (null_mut(), gpuzip_action_t::default(), vec![0f32; 4]);
    let (mut follower, fields) = (null_mut(), [field(&mut data)]);
    let mut summary = gpuzip_summary_t {
        struct_size: size_of::<gpuzip_summary_t>() as u64,
        ..Default::default()
    };
    let mut stats =
        gpuzip_stats_t { struct_size: size_of::<gpuzip_stats_t>() as u64, ..Default::default() };
    let config = gpuzip_config_t { backend: 1, range_actions: 1, ..revolve(1, 0) };
    let (mut ranges, mut actions) = (Vec::new(), 0);
    // SAFETY: all pointers are to live values.
    unsafe {
        assert_eq!(gpuzip_schedule_create(&config, 5, &mut schedule), GPUZIP_OK);
        assert_eq!(
            gpuzip_attach(
                schedule,
                &gpuzip_config_t { range_actions: 0, ..config },
                fields.as_ptr(),
                1,
                &mut follower
            ),
            GPUZIP_OK
        );
        while action.r#type != GPUZIP_ACTION_TERMINATE {
            assert_eq!(gpuzip_schedule_get_action(schedule, &mut action), GPUZIP_OK);
            assert_eq!(gpuzip_dispatch(follower, action.it), GPUZIP_OK);
            actions += 1;
            match action.r#type {
                GPUZIP_ACTION_FORWARD => ranges.push((action.ts, action.ts_end)),
                GPUZIP_ACTION_SAVE => assert_eq!(
                    gpuzip_save(follower, action.ts, fields.as_ptr(), 1, null_mut()),
                    GPUZIP_OK
                ),
                GPUZIP_ACTION_RESTORE => assert_eq!(
                    gpuzip_retrieve(follower, action.ts, fields.as_ptr(), 1, null_mut()),
                    GPUZIP_OK
                ),
                _ => assert_eq!(action.ts, action.ts_end),
            }
        }
        assert_eq!(ranges, [(1, 4), (1, 3), (1, 2), (1, 1)]);
        assert_eq!(gpuzip_schedule_summary(schedule, &mut summary), GPUZIP_OK);
        assert_eq!(gpuzip_stats(follower, &mut stats), GPUZIP_OK);
        assert_eq!(
            (summary.actions, summary.forward_steps, stats.forward_steps),
            (actions, 10, 10)
        );
        assert_eq!(
            (gpuzip_finalize(follower), gpuzip_schedule_release(schedule)),
            (GPUZIP_OK, GPUZIP_OK)
        );
    }
}

/// A session may repeat `adjoint_every` of its schedule, or leave it 0, and not contradict it.
#[test]
fn macro_steps_are_of_the_schedules_own_configuration() {
    let (mut schedule, mut follower, mut data) = (null_mut(), null_mut(), vec![0f32; 4]);
    let fields = [field(&mut data)];
    let config = gpuzip_config_t { backend: 1, adjoint_every: 3, ..revolve(1, 0) };
    let mut attach = |schedule, config: &gpuzip_config_t| {
        // SAFETY: all pointers are to live values.
        let status = unsafe { gpuzip_attach(schedule, config, fields.as_ptr(), 1, &mut follower) };
        if status == GPUZIP_OK {
            assert_eq!(gpuzip_finalize(follower), GPUZIP_OK);
        }
        status
    };
    for own in [0, 1, 3] {
        let plain = gpuzip_config_t { adjoint_every: own, ..config };
        // SAFETY: all pointers are to live values.
        unsafe { assert_eq!(gpuzip_schedule_create(&plain, 10, &mut schedule), GPUZIP_OK) };
        for of_session in 0..5 {
            let config = gpuzip_config_t { adjoint_every: of_session, ..config };
            let status = attach(schedule, &config);
            if of_session < 2 || of_session == own {
                assert_eq!(status, GPUZIP_OK, "{}", last_error());
            } else {
                assert_eq!(status, GPUZIP_ERR_CONFIG);
                let text = last_error();
                assert!(text.contains(&format!("adjoint_every = {of_session}: ")), "{text}");
                assert!(text.contains(&format!("has adjoint_every = {}", own.max(1))), "{text}");
            }
        }
        let shared = gpuzip_config_t { adjoint_every: 0, shared_levels: 1, ..config };
        let status = attach(schedule, &shared);
        assert_eq!(status, GPUZIP_OK, "{}", last_error());
        assert_eq!(gpuzip_schedule_release(schedule), GPUZIP_OK);
    }
}

/// A summary counts time steps; snapshots and leads are those of macro-steps.
#[test]
fn a_summary_counts_time_steps() {
    let summary = |every: i32, steps: i32| {
        let mut data = vec![0f32; 4];
        let config = gpuzip_config_t { adjoint_every: every, cache_capacity: 3, ..revolve(7, 0) };
        let (_, handle) = init(&config, steps, &[field(&mut data)]);
        let mut summary = gpuzip_summary_t {
            struct_size: size_of::<gpuzip_summary_t>() as u64,
            ..Default::default()
        };
        // SAFETY: all pointers are to live values.
        unsafe { assert_eq!(gpuzip_summary(handle, &mut summary), GPUZIP_OK) };
        assert_eq!(gpuzip_finalize(handle), GPUZIP_OK);
        summary
    };
    let whole = summary(0, 50);
    for steps in 246..=250 {
        let sparse = summary(5, steps);
        assert_eq!((sparse.steps, sparse.backward_steps), (steps, steps as u64));
        assert_eq!(sparse.forward_steps, 5 * whole.forward_steps);
        assert_eq!((sparse.saves, sparse.restores), (whole.saves, whole.restores));
        assert_eq!((sparse.snapshots, sparse.max_live), (whole.snapshots, whole.max_live));
        assert_eq!((sparse.h2d, sparse.d2h), (whole.h2d, whole.d2h));
        assert!(whole.min_lead > 0 && sparse.min_lead == 5 * whole.min_lead);
        assert_eq!(sparse.mean_lead, 5.0 * whole.mean_lead);
        // Each FORWARD of a macro-step is an action, and each BACKWARD of one is a single action.
        assert_eq!(sparse.actions, whole.actions + 4 * whole.forward_steps);
    }
}
