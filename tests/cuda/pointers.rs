//! Fields of an application in every kind of memory that CUDA has: managed, of a pool, mapped, of another
//! process. The library takes them as it takes memory of `cuMemAlloc`.

use crate::common::emu::emulated;
use crate::common::prelude::*;
use crate::common::{self, app, emu};
use app::device::{field_at, Primary};
use app::{config, emulate, ok, run, run_zero_copy, Job, Streams, MEMORY};
use common::host::field;
use common::memory::{want, FieldMemory, Kind, ALL};
use gpuzip::device::Stream;
use std::ptr::null_mut;

fn job(seed: u64) -> Job {
    let policy = [Policy::Clairvoyant, Policy::Lru][seed as usize % 2];
    let config = config(Algorithm::Revolve, 3, seed as u32 % 3, policy);
    Job { shots: 2, streams: Streams::ALL[seed as usize / 2 % 4], ..app::job(config, 7) }
}

/// After each save, the application gives memory of a pool back and takes other memory: the library
/// has read the old memory in the order of the application's stream.
#[test]
fn every_kind_of_memory_is_saved_and_restored() {
    emulated!();
    for kind in ALL {
        want(kind);
        for seed in 0..120 {
            let mode = [emu::RANDOM, emu::RANDOM, emu::LATE, emu::EARLY][seed as usize / 8 % 4];
            let job = job(seed);
            let outcome = emulate(&job, seed, mode, MEMORY, || run(&job, seed));
            assert_eq!(outcome.syncs, 0, "{kind:?}, seed {seed}");
        }
        for seed in 0..20 {
            let mut job = Job { shots: 1, streams: Streams::Own, ..job(seed) };
            job.config.tiers.policy = Policy::Clairvoyant;
            let shot = || run_zero_copy(&job, seed, || seed % 2 == 0, || {});
            emulate(&job, seed, emu::RANDOM, MEMORY, shot);
        }
    }
}

/// The same with kernels, which read and write the fields themselves.
#[test]
fn kernels_use_every_kind_of_memory() {
    emulated!(kernels);
    for kind in ALL {
        want(kind);
        for (seed, method) in (0..).zip([Method::Fp16, Method::Dct, Method::Lorenzo]) {
            let streams = Streams::ALL[1 + seed as usize];
            let mut job = Job { shots: 1, streams, ..job(2 * seed) };
            job.config.codec.settings.method = method.clone();
            emulate(&job, seed, emu::RANDOM, 1 << 24, || run(&job, seed));
        }
    }
}

/// The session of a device refuses fields on another device, by name, whatever kind of memory they
/// are in. Managed memory is on every device.
#[test]
fn another_devices_memory_is_refused_by_name() {
    emulated!(&[("CUDA_EMU_DEVICES", "2")]);
    let field = field([100, 1, 1], Scalar::F32);
    let primaries = [0, 1].map(Primary::new);
    for kind in ALL {
        want(kind);
        let save = |ordinal: usize| {
            ok!(cuCtxSetCurrent(primaries[ordinal].context));
            let memory = FieldMemory::new(400, null_mut());
            ok!(cuCtxSetCurrent(primaries[0].context));
            let mut config = config(Algorithm::Revolve, 2, 1, Policy::Clairvoyant);
            config.device.ordinal = Some(0);
            let fields = [field_at(memory.address, field)];
            let mut session = Session::new(config, 5, &unplaced(&[field])).unwrap();
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
