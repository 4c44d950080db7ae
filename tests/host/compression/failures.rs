//! Saves that fail, codecs without memory, and snapshots that are larger than foreseen.

use super::*;

/// `compression_factor` announces a larger ratio than the data give. Snapshots for which the device
/// cache has no room are kept in host memory; if host memory has a budget too, the error says what
/// to do.
#[test]
fn a_ratio_that_is_not_reached_costs_time_or_is_an_error() {
    let fields = fields(40);
    let raw = raw_bytes(&fields);
    let optimist = config(Algorithm::Revolve, 12, 0).with(|c| {
        c.codec.compression_factor = 50.0;
        c.tiers.device_budget = 2 * raw;
    });
    for noisy in [1, 2, 3] {
        run(&optimist, 100, &fields, noisy, 2).unwrap();
    }
    let shot = run(&optimist.with(|c| c.tiers.host_budget = 2 * raw), 100, &fields, 1, 1);
    refused(shot, Code::Budget, &["host_budget", "compression_factor"]);
}

/// A save that fails ends its shot, and the next shot is as if the failed save had never been.
#[test]
fn a_failed_save_leaves_nothing_behind() {
    let fields = fields(40);
    let raw = raw_bytes(&fields);
    for (device_budget, zero_copy) in [(0, false), (3 * raw / 2, false), (0, true), (4 * raw, true)]
    {
        let mut c = config(Algorithm::Revolve, 8, 3).with(|c| {
            c.tiers.device_budget = device_budget;
            c.tiers.zero_copy = zero_copy;
        });
        c.codec.settings.reject_nonfinite = true;
        let is_spoiled = Cell::new(false);
        let mut app = HostApp::new(&fields, front(&fields, 7));
        app.slots = zero_copy.then(|| Slots::new(false, || false));
        app.change = Box::new(|_, state| {
            if is_spoiled.get() {
                state[2][..8].copy_from_slice(&f64::NAN.to_le_bytes());
            }
        });
        let mut session = open(&c, 40, &fields).unwrap();
        for shot in 0..12 {
            session.setup().unwrap();
            let (mut saves, mut last) = (0, 0);
            let ended = play_with(&mut session, &mut app, |_, tick| {
                let is_save = tick.action.kind == Kind::Save;
                saves += usize::from(is_save);
                last = tick.action.ts.into();
                is_spoiled.set(is_save && saves == shot);
            });
            let Err(error) = ended else {
                assert!(shot == 0 || saves < shot);
                continue;
            };
            assert_eq!((error.code, saves), (Code::Values, shot));
            assert!(session.save(last, &app.fields(), HOST).is_err());
            assert!(session.get_action().is_err());
        }
    }
}

/// Two sessions with states of different sizes and different codecs share a schedule: each session
/// restores its own states, shot after shot.
#[test]
fn sessions_of_one_schedule_compress_each_for_itself() {
    let all = [fields(40), fields(7)];
    let raw = raw_bytes(&all[0]);
    let base = config(Algorithm::Revolve, 9, 0).with(|c| c.tiers.device_budget = 2 * raw);
    let other = coding(Method::Lorenzo, ErrorBound::DEFAULT);
    let configs = [base.clone(), base.clone().with(|c| c.codec.settings = other)];
    let cursor = Arc::new(SharedSchedule::new(base, 70).unwrap());
    let mut apps = all.each_ref().map(|fields| HostApp::new(fields, front(fields, 7)));
    let attach =
        |k: usize| Session::attach(cursor.clone(), configs[k].clone(), &unplaced(&all[k])).unwrap();
    let mut sessions = [attach(0), attach(1)];
    for _ in 0..4 {
        sessions.iter_mut().for_each(|session| session.setup().unwrap());
        loop {
            let tick = cursor.advance(None).unwrap();
            for (session, app) in sessions.iter_mut().zip(&mut apps) {
                session.dispatch(tick.it).unwrap();
                app.serve(session, tick).unwrap();
            }
            if tick.action.kind == Kind::Terminate {
                break;
            }
        }
        assert!(apps.iter().all(|app| app.reversed == 70));
    }
}

/// A session without memory for its codec answers every call with an error.
#[test]
fn a_codec_without_memory_stays_an_error() {
    // 2^46 FP32 values are 256 TiB, more than any address space holds. `compression_factor`
    // announces that the snapshots are small, so that no budget refuses them.
    let shapes = [field([1 << 46, 1, 1], Scalar::F32)];
    let config = config(Algorithm::Revolve, 3, 0).with(|c| {
        c.codec.compression_factor = 1e12;
        c.tiers.host_budget = 1 << 20;
    });
    let cursor = Arc::new(SharedSchedule::new(config.clone(), 10).unwrap());
    let mut session = Session::attach(cursor, config, &unplaced(&shapes)).unwrap();
    for _ in 0..2 {
        refused(session.get_action(), Code::Memory, &[]);
    }
}

/// Freed bytes of the device cache are not overwritten while a download still reads them, whichever
/// of several snapshots was freed last.
#[test]
fn bytes_of_the_cache_wait_for_their_download() {
    let layout = Layout::new(vec![field([10 * 2048, 1, 1], Scalar::F32)]).unwrap();
    let settings = coding(Method::Lorenzo, ErrorBound::Absolute(1e-3));
    let codec = SnapshotCodec::new(settings, &layout).unwrap();
    // Each tuple is a time step, its slot in the device cache, and its number of tiles with noise.
    // The download of snapshot 3 is the last to begin; snapshot 4 takes its slot but does not fit
    // into the cache; snapshot 5 takes its bytes.
    let saves = [(0i64, 0u32, 1), (1, 1, 3), (2, 2, 3), (3, 3, 5), (4, 3, 9), (5, 0, 4)];
    let plan = Plan {
        policy: Policy::Clairvoyant,
        cache: 4,
        device_slots: 4,
        host_slots: 6,
        steps: saves
            .iter()
            .map(|&(ts, slot, _)| Step { slot, host: ts as u32 })
            .chain([Step { slot: NONE, host: 3 }])
            .collect(),
        ..Plan::default()
    };
    let (cache, pool) = (102_400, 600_000);
    let mut device =
        Target::Host.open(&Config::default().with(|c| c.device.link_bandwidth = 5e5)).unwrap();
    device.reserve(Memory::Device, cache).unwrap();
    device.reserve(Memory::Host, pool).unwrap();
    let coder = Some(SnapshotCoder::on_host(codec).unwrap());
    let storage = Storage { parts: layout.whole(), coder, sums: None };
    let mut tiers = Tiers::new(device, layout, &plan, storage, cache, pool).unwrap();
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
        tiers.save(event, ts, &memory(&mut state(ts, tiles))).unwrap();
    }
    let mut restored = vec![0xEE; 4 * 10 * 2048];
    tiers.restore(saves.len(), 3, true, &memory(&mut restored)).unwrap();
    assert!(restored == state(3, 5));
}
