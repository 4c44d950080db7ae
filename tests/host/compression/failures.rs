//! Saves that fail, codecs without memory, and snapshots that are larger than foreseen.

use super::*;

/// `compression_factor` announces a larger ratio than the data give. Snapshots for which the device
/// cache has no room are kept in host memory; if host memory has a budget too, the error says what
/// to do.
#[test]
fn a_ratio_that_is_not_reached_costs_time_or_is_an_error() {
    let fields = fields(40);
    let raw = raw_bytes(&fields);
    let optimist = Config {
        compression_factor: 50.0,
        device_budget: 2 * raw,
        ..config(Algorithm::Revolve, 12, 0)
    };
    for noisy in [1, 2, 3] {
        run(&optimist, 100, &fields, noisy, 2).unwrap();
    }
    let error = run(&Config { host_budget: 2 * raw, ..optimist }, 100, &fields, 1, 1).unwrap_err();
    assert_eq!(error.code, Code::Budget);
    assert!(
        error.message.contains("host_budget") && error.message.contains("compression_factor"),
        "{error}"
    );
}

/// A save that fails ends its shot, and the next shot is as if the failed save had never been.
#[test]
fn a_failed_save_leaves_nothing_behind() {
    let fields = fields(40);
    let raw = raw_bytes(&fields);
    for (device_budget, zero_copy) in [(0, false), (3 * raw / 2, false), (0, true), (4 * raw, true)]
    {
        let mut c = Config { device_budget, zero_copy, ..config(Algorithm::Revolve, 8, 3) };
        c.compression.reject_nonfinite = true;
        let mut app = App::new(&fields);
        let mut expected = Expected::new(&c.compression, &fields, 7);
        let mut session = Session::new(c, 40, &app.app_fields()).unwrap();
        for shot in 0..12 {
            session.setup().unwrap();
            let mut saves = 0;
            loop {
                let Tick { action, .. } = session.get_action().unwrap();
                let ts = action.ts as i64;
                match action.kind {
                    Kind::Save => {
                        saves += 1;
                        app.set(ts, 7);
                        if saves == shot {
                            app.data[2][..8].copy_from_slice(&f64::NAN.to_le_bytes());
                        }
                        let saved = if zero_copy {
                            put(&app, &session.save_begin(ts, fields.len(), HOST).unwrap());
                            session.save_commit(ts, HOST)
                        } else {
                            session.save(ts, &app.app_fields(), HOST)
                        };
                        assert_eq!(
                            saved.as_ref().err().map(|e| e.code),
                            (saves == shot).then_some(Code::Values)
                        );
                        if saved.is_err() {
                            assert!(
                                session.save(ts, &app.app_fields(), HOST).is_err()
                                    && session.get_action().is_err()
                            );
                            break;
                        }
                    }
                    Kind::Restore => {
                        app.spoil();
                        if zero_copy {
                            let pointers =
                                session.retrieve_acquire(ts, fields.len(), HOST).unwrap();
                            take(&mut app, &pointers);
                        } else {
                            session.retrieve(ts, &app.app_fields(), HOST).unwrap();
                        }
                        assert!(app.data == expected.of(ts, &fields).1, "shot {shot}, state {ts}");
                    }
                    Kind::Terminate => break,
                    _ => {}
                }
            }
        }
    }
}

/// Two sessions with states of different sizes and different codecs share a schedule: each session
/// restores its own states, shot after shot.
#[test]
fn sessions_of_one_schedule_compress_each_for_itself() {
    let all = [fields(40), fields(7)];
    let raw = raw_bytes(&all[0]);
    let base = Config { device_budget: 2 * raw, ..config(Algorithm::Revolve, 9, 0) };
    let other =
        Settings { method: Method::Lorenzo, bound: ErrorBound::DEFAULT, reject_nonfinite: false };
    let configs = [base.clone(), Config { compression: other, ..base.clone() }];
    let cursor = Arc::new(SharedSchedule::new(base, 70).unwrap());
    let mut apps: Vec<App> = all.iter().map(|fields| App::new(fields)).collect();
    let mut expected: Vec<Expected> =
        all.iter().zip(&configs).map(|(f, c)| Expected::new(&c.compression, f, 7)).collect();
    let attach = |(app, config): (&mut App, &Config)| {
        Session::attach(cursor.clone(), config.clone(), &app.app_fields()).unwrap()
    };
    let mut sessions: Vec<Session> = apps.iter_mut().zip(&configs).map(attach).collect();
    for _ in 0..4 {
        sessions.iter_mut().for_each(|session| session.setup().unwrap());
        loop {
            let Tick { action, it, .. } = cursor.advance().unwrap();
            let ts = action.ts as i64;
            for (k, session) in sessions.iter_mut().enumerate() {
                session.dispatch(it).unwrap();
                match action.kind {
                    Kind::Save => {
                        apps[k].set(ts, 7);
                        session.save(ts, &apps[k].app_fields(), HOST).unwrap();
                    }
                    Kind::Restore => {
                        apps[k].spoil();
                        session.retrieve(ts, &apps[k].app_fields(), HOST).unwrap();
                        assert!(
                            apps[k].data == expected[k].of(ts, &all[k]).1,
                            "session {k}, state {ts}"
                        );
                    }
                    _ => {}
                }
            }
            if action.kind == Kind::Terminate {
                break;
            }
        }
    }
}

/// A session without memory for its codec answers every call with an error.
#[test]
fn a_codec_without_memory_stays_an_error() {
    // 2^46 FP32 values are 256 TiB, more than any address space holds. `compression_factor`
    // announces that the snapshots are small, so that no budget refuses them.
    let field = Field { n: [1 << 46, 1, 1], scalar: Scalar::F32, previous_of: None };
    let compression =
        Settings { method: trimmed(), bound: ErrorBound::Absolute(0.02), reject_nonfinite: false };
    let config = Config {
        compression,
        compression_factor: 1e12,
        host_budget: 1 << 20,
        ..config(Algorithm::Revolve, 3, 0)
    };
    let cursor = Arc::new(SharedSchedule::new(config.clone(), 10).unwrap());
    let mut session = Session::attach(cursor, config, &[AppField { field, memory: None }]).unwrap();
    for _ in 0..2 {
        let error = session.get_action().unwrap_err();
        assert_eq!(error.code, Code::Memory, "{error}");
    }
}

/// Freed bytes of the device cache are not overwritten while a download still reads them, whichever
/// of several snapshots was freed last.
#[test]
fn bytes_of_the_cache_wait_for_their_download() {
    let field = Field { n: [10 * 2048, 1, 1], scalar: Scalar::F32, previous_of: None };
    let layout = Layout::new(vec![field]).unwrap();
    let settings = Settings {
        method: Method::Lorenzo,
        bound: ErrorBound::Absolute(1e-3),
        reject_nonfinite: false,
    };
    let codec = SnapshotCodec::new(settings, &layout).unwrap();
    // Each tuple is a time step, its slot in the device cache, and its number of tiles with noise.
    // The download of snapshot 3 is the last to begin; snapshot 4 takes its slot but does not fit
    // into the cache; snapshot 5 takes its bytes.
    let saves = [(0i64, 0u32, 1), (1, 1, 3), (2, 2, 3), (3, 3, 5), (4, 3, 9), (5, 0, 4)];
    let plan = Plan {
        policy: Policy::Clairvoyant,
        cache: 4,
        zero_copy: false,
        raw_slots: 0,
        device_slots: 4,
        host_slots: 6,
        steps: saves
            .iter()
            .map(|&(ts, slot, _)| Step { slot, host: ts as u32 })
            .chain([Step { slot: NONE, host: 3 }])
            .collect(),
        fetches: Vec::new(),
        counts: Counts::default(),
        shares: None,
        forward: None,
        drops: false,
    };
    let (cache, pool) = (102_400, 600_000);
    let mut device =
        Target::Host.open(&Config { link_bandwidth: 5e5, ..Config::default() }).unwrap();
    device.reserve(Memory::Device, cache).unwrap();
    device.reserve(Memory::Host, pool).unwrap();
    let mut tiers = Tiers::new(
        device,
        layout,
        &plan,
        Some(SnapshotCoder::on_host(codec).unwrap()),
        cache,
        pool,
    )
    .unwrap();
    let state = |ts: i64, tiles: usize| {
        let noise = move |i: usize| {
            if i < 2048 * tiles {
                ((i * 2654435761 + ts as usize * 40503) % 65521) as f32
            } else {
                0.0
            }
        };
        (0..10 * 2048).map(noise).flat_map(f32::to_le_bytes).collect::<Vec<u8>>()
    };
    // SAFETY: the vectors outlive the calls.
    let memory = |data: &mut Vec<u8>| [unsafe { AppMemory::new(data.as_mut_ptr(), data.len()) }];
    for (event, (ts, _, tiles)) in saves.into_iter().enumerate() {
        tiers.save(&plan, event, ts, &memory(&mut state(ts, tiles))).unwrap();
    }
    let mut restored = vec![0xEE; 4 * 10 * 2048];
    tiers.restore(&plan, saves.len(), 3, true, &memory(&mut restored)).unwrap();
    assert!(restored == state(3, 5));
}
