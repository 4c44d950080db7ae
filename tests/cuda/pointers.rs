//! Fields of an application in every kind of memory that CUDA has: managed, of a pool, mapped, of another
//! process. The library takes them as it takes memory of `cuMemAlloc`.

use crate::common::{self, app, emu};
use app::{config, host_syncs, ok, run, run_zero_copy, Job, Streams, MEMORY};
use common::memory::{want, FieldMemory, Kind, ALL};
use gpuzip::codec::Method;
use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::layout::Field;
use gpuzip::plan::Policy;
use gpuzip::scalar::Scalar;
use gpuzip::schedule::Algorithm;
use gpuzip::session::Session;
use std::ptr::null_mut;

const STREAMS: [Streams; 4] =
    [Streams::Default, Streams::Own, Streams::Alternating, Streams::Independent];

fn job(seed: u64) -> Job {
    let policy = [Policy::Clairvoyant, Policy::Lru][seed as usize % 2];
    let config = config(Algorithm::Revolve, 3, seed as u32 % 3, policy);
    Job {
        config,
        steps: 7,
        devices: 1,
        shots: 2,
        streams: STREAMS[seed as usize / 2 % 4],
        stubborn: false,
    }
}

/// After each save, the application gives memory of a pool back and takes other memory: the library
/// has read the old memory in the order of the application's stream.
#[test]
fn every_kind_of_memory_is_saved_and_restored() {
    if !emu::inside("every_kind_of_memory_is_saved_and_restored", &[]) {
        return;
    }
    for kind in ALL {
        want(kind);
        for seed in 0..120 {
            let mode = [emu::RANDOM, emu::RANDOM, emu::LATE, emu::EARLY][seed as usize / 8 % 4];
            assert_eq!(emu::reset(seed, mode, 1, MEMORY), 0, "{kind:?}, seed {seed}");
            let outcome = run(&job(seed), seed, host_syncs).unwrap();
            assert_eq!((outcome.wrong, outcome.syncs), (0, 0), "{kind:?}, seed {seed}");
        }
        for seed in 0..20 {
            assert_eq!(emu::reset(seed, emu::RANDOM, 1, MEMORY), 0);
            let mut job = Job { shots: 1, streams: Streams::Own, ..job(seed) };
            job.config.policy = Policy::Clairvoyant;
            let outcome = run_zero_copy(&job, seed, host_syncs, || seed % 2 == 0).unwrap();
            assert_eq!(outcome.wrong, 0, "{kind:?}, zero copy, seed {seed}");
        }
    }
}

/// The same with kernels, which read and write the fields themselves.
#[test]
fn kernels_use_every_kind_of_memory() {
    let name = "kernels_use_every_kind_of_memory";
    if !emu::with_kernels(name) {
        return;
    }
    for kind in ALL {
        want(kind);
        for (seed, method) in (0..).zip([Method::Fp16, Method::Dct, Method::Lorenzo]) {
            assert_eq!(emu::reset(seed, emu::RANDOM, 1, 1 << 24), 0);
            let mut job = Job { shots: 1, streams: STREAMS[1 + seed as usize], ..job(2 * seed) };
            job.config.compression.method = method.clone();
            let outcome = run(&job, seed, host_syncs).unwrap();
            assert_eq!(outcome.wrong, 0, "{kind:?}, {method:?}");
        }
    }
}

/// The session of a device refuses fields on another device, by name, whatever kind of memory they
/// are in. Managed memory is on every device.
#[test]
fn another_devices_memory_is_refused_by_name() {
    if !emu::inside("another_devices_memory_is_refused_by_name", &[("CUDA_EMU_DEVICES", "2")]) {
        return;
    }
    let field = Field { n: [100, 1, 1], scalar: Scalar::F32, previous_of: None };
    let mut contexts = [null_mut(); 2];
    ok!(cuInit(0));
    for (context, ordinal) in contexts.iter_mut().zip(0..) {
        ok!(cuDevicePrimaryCtxRetain(context, ordinal));
    }
    for kind in ALL {
        want(kind);
        let save = |ordinal: usize| {
            ok!(cuCtxSetCurrent(contexts[ordinal]));
            let memory = FieldMemory::new(400, null_mut());
            // SAFETY: memory of 400 bytes, which lives until the session has ended.
            let at = unsafe { AppMemory::new(memory.address as *mut u8, 400) };
            ok!(cuCtxSetCurrent(contexts[0]));
            let mut config = config(Algorithm::Revolve, 2, 1, Policy::Clairvoyant);
            config.device = Some(0);
            let fields = [AppField { field, memory: Some(at) }];
            let mut session = Session::new(config, 5, &[AppField { field, memory: None }]).unwrap();
            session.get_action().unwrap();
            let saved = session.save(0, &fields, Stream(null_mut()));
            drop(session);
            memory.free();
            saved
        };
        save(0).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        match save(1) {
            Ok(()) => assert_eq!(kind, Kind::Managed),
            Err(error) => {
                assert!(kind != Kind::Managed && error.message.contains("device 1"), "{error}");
            }
        }
    }
}
