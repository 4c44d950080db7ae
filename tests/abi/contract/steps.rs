//! Steps with times of their own, and shots with other numbers of steps.

use super::*;

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
        if action.r#type == GPUZIP_ACTION_RESTORE {
            data.fill(-1.0);
        }
        // SAFETY: the field is live.
        works(unsafe { serve(handle, &action, &[field(data)]) });
        assert!(data.iter().all(|&x| x == ts), "u({ts}) is {:?}", data[0]);
    }
}

/// A session with another number of time steps does what a new session with that number does.
#[test]
fn steps_may_have_times_of_their_own() {
    let config = gpuzip_config_t {
        device_budget: 4 * 4096,
        host_budget: 20 * 4096,
        ..with(GPUZIP_ALGORITHM_AUTO, 0, 0)
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
        let summary = summary(handle);
        assert!(0.0 < summary.bound_s && summary.bound_s <= summary.predicted_s);
        summary.predicted_s
    };
    // 99 forward steps of 1 ms, 100 backward steps of 2 ms, and what is repeated.
    works(set(&[1.0], &[2.0]));
    let even = predicted();
    assert!(even >= 0.299, "{even}");
    // The same sum, with the long steps at the end, which no schedule repeats as often.
    works(set(&[0.5, 1.5], &[2.0, 2.0]));
    let late = predicted();
    works(set(&[1.5, 0.5], &[2.0, 2.0]));
    let early = predicted();
    assert!(late >= 0.2985 && early >= 0.299 && (late - early).abs() > 1e-4, "{late} {early}");
    // A time for each step; then the exported profile has them.
    let each: Vec<f64> = (0..100).map(|ts| 1.0 + f64::from(ts) / 100.0).collect();
    works(set(&each, &each));
    let own = predicted();
    let mut bytes = 0;
    // SAFETY: the number is live, and the vector has as many bytes as it says.
    let profile = unsafe {
        works(gpuzip_profile_export(handle, null_mut(), 0, &mut bytes));
        let mut profile = vec![0u8; bytes as usize];
        let data = profile.as_mut_ptr().cast();
        works(gpuzip_profile_export(handle, data, bytes, &mut bytes));
        profile
    };
    assert!(profile.len() > 1600, "{}", profile.len());
    works(set(&[], &[]));
    assert_ne!(predicted(), own);
    // SAFETY: the bytes are live.
    let imported = unsafe { gpuzip_profile_import(handle, profile.as_ptr().cast(), bytes) };
    assert_eq!((imported, predicted()), (GPUZIP_OK, own));
    // Refused, with nothing changed.
    for (forward, part) in [(f64::NAN, "forward_ms[1] = NaN"), (-1.0, "forward_ms[1] = -1")] {
        refused(set(&[1.0, forward], &[1.0, 1.0]), GPUZIP_ERR_ARGUMENT, part);
    }
    refused(set(&vec![1.0; 4097], &vec![1.0; 4097]), GPUZIP_ERR_ARGUMENT, "at most 4096");
    assert_eq!(predicted(), own);
    let actions = counting_shot(handle, &mut data);
    assert_eq!(actions.iter().filter(|a| a.0 == GPUZIP_ACTION_BACKWARD).count(), 100);
    works(gpuzip_finalize(handle));
}

#[test]
fn the_next_shot_may_have_another_number_of_steps() {
    let budgets = |device_budget, host_budget| gpuzip_config_t {
        device_budget,
        host_budget,
        ..with(GPUZIP_ALGORITHM_AUTO, 0, 0)
    };
    let named = |algorithm| with(algorithm, 6, 3);
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
            works(gpuzip_setup_steps(handle, steps));
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
        works(gpuzip_setup_steps(handle, 50));
        next(handle);
        works(gpuzip_setup(handle));
        let fifty = counting_shot(handle, &mut data);
        works(gpuzip_setup(handle));
        for (steps, part) in [(0, "steps = 0"), (-7, "steps = -7")] {
            refused(gpuzip_setup_steps(handle, steps), GPUZIP_ERR_ARGUMENT, part);
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
        ..with(GPUZIP_ALGORITHM_STORE_ALL, 0, 0)
    };
    let handle = init(&store_all, 10, &fields);
    refused(gpuzip_setup_steps(handle, 11), GPUZIP_ERR_BUDGET, "store-all keeps 10 states");
    let ten = counting_shot(handle, &mut data);
    works(gpuzip_setup_steps(handle, 10));
    assert_eq!(counting_shot(handle, &mut data), ten);

    let (schedule, mut other) = (schedule_of(handle), null_mut());
    // SAFETY: all pointers are to live values.
    let attached = unsafe { gpuzip_attach(schedule, &store_all, fields.as_ptr(), 1, &mut other) };
    assert_eq!(attached, GPUZIP_OK);
    refused(gpuzip_setup_steps(handle, 8), GPUZIP_ERR_STATE, "2 sessions follow");
    finalize(other);
    works(gpuzip_setup_steps(handle, 8));
    works(gpuzip_schedule_release(schedule));
    finalize(handle);

    let online = init(&with(GPUZIP_ALGORITHM_ONLINE, 4, 2), 0, &fields);
    refused(gpuzip_setup_steps(online, 8), GPUZIP_ERR_STATE, "gpuzip_end_forward");
    finalize(online);
}
