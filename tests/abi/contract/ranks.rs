//! Ranks agree on a schedule through a reduction of the application.

use super::*;

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

/// The fingerprint of a session is that of its schedule, and differs if the actions differ. Two
/// ranks with different numbers of snapshots agree on the smaller number and then run the same
/// actions.
#[test]
fn ranks_agree_on_the_schedule_with_the_fewest_snapshots() {
    let all = Ranks { meeting: Barrier::new(2), least: Mutex::new(i64::MAX) };
    let rank = |values: usize| {
        let config = gpuzip_config_t { host_budget: 80_000, backend: 1, ..revolve(0, 0) };
        let mut data = vec![0f32; values];
        let fields = [field(&mut data)];
        let handle = init(&config, 150, &fields);
        let mut mine = Rank { all: &all, calls: 0 };
        let (mut before, mut after, mut of_schedule) = (0, 0, 0);
        // SAFETY: all pointers are to live values.
        unsafe {
            works(gpuzip_fingerprint(handle, &mut before));
            let planned = summary(handle).snapshots;
            works(gpuzip_agree(handle, Some(least), (&raw mut mine).cast()));
            assert_eq!(mine.calls, 5);
            works(gpuzip_fingerprint(handle, &mut after));
            let schedule = schedule_of(handle);
            works(gpuzip_schedule_fingerprint(schedule, &mut of_schedule));
            works(gpuzip_schedule_release(schedule));
            let agreed = summary(handle).snapshots;
            assert_eq!(after, of_schedule);
            serve_until(handle, &fields, is_terminate);
            finalize(handle);
            (planned, agreed, before, after)
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
    let handle = init(&revolve(3, 2), 20, &[field(&mut data)]);
    let address = handle as usize;
    // The reason why a rank has no session stays in its last error.
    let reason = {
        let (mut none, mut calls) = (null_mut(), 0);
        // SAFETY: all pointers are to live values.
        unsafe {
            assert_eq!(
                gpuzip_init(&revolve(3, 2), -5, &field(&mut data), 1, &mut none),
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
