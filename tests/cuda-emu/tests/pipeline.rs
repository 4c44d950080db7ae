//! Tests a double-buffered pipeline like that of a checkpointing library: its results are right
//! under every seed, and wrong under some seeds if one of its necessary waits is lost.

mod common;

use common::*;

const N: usize = 256;
const STEPS: u8 = 8;
const SLOTS: usize = 2;

/// A buffer on the device with its page-locked staging buffer.
struct Slot {
    device: Address,
    staging: Address,
    /// Event: the state is in the device buffer.
    filled: Handle,
    /// Event: the state has been copied from the device buffer to the staging buffer.
    stored: Handle,
}

impl Slot {
    fn new() -> Self {
        Self { device: device_memory(N), staging: pinned(N), filled: event(2), stored: event(2) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        ok(cuMemFree_v2(self.device));
        ok(cuMemFreeHost(self.staging));
        ok(cuEventDestroy_v2(self.filled));
        ok(cuEventDestroy_v2(self.stored));
    }
}

/// Computes states 1, 2, ... in one stream, and saves each state through a slot in another stream.
/// Returns whether every state arrived whole.
fn run() -> bool {
    let (compute, copy, state) = (stream(NON_BLOCKING), stream(NON_BLOCKING), device_memory(N));
    let slots: [Slot; SLOTS] = std::array::from_fn(|_| Slot::new());
    let mut saved = Vec::new();
    for step in 0..STEPS {
        let slot = &slots[usize::from(step) % SLOTS];
        if usize::from(step) >= SLOTS {
            ok(cuEventSynchronize(slot.stored));
            saved.push(bytes(slot.staging, N));
        }
        ok(cuMemsetD8Async(state, step + 1, N, compute));
        ok(cuStreamWaitEvent(compute, slot.stored, 0));
        ok(cuMemcpyDtoDAsync_v2(slot.device, state, N, compute));
        ok(cuEventRecord(slot.filled, compute));
        ok(cuStreamWaitEvent(copy, slot.filled, 0));
        ok(cuMemcpyDtoHAsync_v2(slot.staging, slot.device, N, copy));
        ok(cuEventRecord(slot.stored, copy));
    }
    for step in STEPS - SLOTS as u8..STEPS {
        let slot = &slots[usize::from(step) % SLOTS];
        ok(cuEventSynchronize(slot.stored));
        saved.push(bytes(slot.staging, N));
    }
    ok(cuCtxSynchronize());
    ok(cuStreamDestroy_v2(compute));
    ok(cuStreamDestroy_v2(copy));
    ok(cuMemFree_v2(state));
    (1..).zip(saved).all(|(step, bytes)| bytes == [step; N])
}

#[test]
fn the_pipeline_is_right_under_every_seed() {
    for mode in [Mode::Random, Mode::Late, Mode::Early, Mode::Timed] {
        assert!(seeds(500, mode, run).into_iter().all(|right| right), "{mode:?}");
    }
}

/// Returns under how many of 200 seeds the loss of the `k`-th call of this kind gives wrong
/// results.
fn noticed(kind: &str, k: u64) -> usize {
    let results = seeds(200, Mode::Random, || {
        lose(kind, k);
        run()
    });
    results.into_iter().filter(|right| !right).count()
}

#[test]
fn every_lost_wait_of_the_copy_stream_is_noticed() {
    // Odd waits are the compute stream's, which are redundant because the host waits, too. Even
    // waits are the copy stream's.
    for step in 1..=u64::from(STEPS) {
        assert_eq!(noticed("wait", 2 * step - 1), 0);
        let seeds = noticed("wait", 2 * step);
        assert!(seeds >= 10, "wait of step {step}: {seeds} of 200");
    }
}

#[test]
fn every_lost_host_wait_is_noticed() {
    for k in 1..=u64::from(STEPS) {
        let seeds = noticed("sync", k);
        assert!(seeds >= 10, "wait {k}: {seeds} of 200");
    }
}

#[test]
fn every_lost_record_is_noticed() {
    for k in 1..=2 * u64::from(STEPS) {
        let seeds = noticed("record", k);
        assert!(seeds >= 5, "record {k}: {seeds} of 200");
    }
}

#[test]
fn threads_share_the_driver() {
    let session = Session::new(1, Mode::Random);
    let context = session.context;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                ok(cuCtxSetCurrent(context));
                assert!((0..20).all(|_| run()));
            });
        }
    });
    let t = totals();
    assert_eq!(
        (t.streams, t.events, t.allocations, t.host_allocations, t.pending),
        (0, 0, 0, 0, 0)
    );
}
