//! Tests the order of operations: some seed finds each order that the rules allow, and no seed
//! finds an order that the rules forbid.

mod common;

use common::*;

const N: usize = 64;

/// Device memory, and page-locked memory for the bytes copied to it and back.
struct Buffers {
    input: Address,
    device: Address,
    output: Address,
}

impl Buffers {
    fn new() -> Self {
        let buffers = Self { input: pinned(N), device: device_memory(N), output: pinned(N) };
        fill(buffers.input, 1, N);
        buffers
    }
}

/// Copies to the device in one stream, calls `between` with both streams, and copies back in the
/// other stream. Returns the bytes that come back.
fn round_trip(flags: u32, between: impl Fn(Handle, Handle)) -> Vec<u8> {
    let (a, b, buffers) = (stream(flags), stream(flags), Buffers::new());
    ok(cuMemcpyHtoDAsync_v2(buffers.device, buffers.input, N, a));
    between(a, b);
    ok(cuMemcpyDtoHAsync_v2(buffers.output, buffers.device, N, b));
    ok(cuCtxSynchronize());
    bytes(buffers.output, N)
}

fn with_wait(a: Handle, b: Handle) {
    let e = event(2);
    ok(cuEventRecord(e, a));
    ok(cuStreamWaitEvent(b, e, 0));
    ok(cuEventDestroy_v2(e));
}

/// Returns how many results are right, how many are all poison, and how many are torn.
fn sort(results: &[Vec<u8>]) -> (usize, usize, usize) {
    let whole =
        |value: u8| results.iter().filter(|bytes| bytes.iter().all(|byte| *byte == value)).count();
    (whole(1), whole(POISON), results.len() - whole(1) - whole(POISON))
}

#[test]
fn a_missing_wait_is_seen() {
    let (right, poison, torn) =
        sort(&seeds(300, Mode::Random, || round_trip(NON_BLOCKING, |_, _| {})));
    assert!(right > 20 && poison > 20 && torn > 5, "{right} {poison} {torn}");
}

#[test]
fn with_a_wait_no_seed_goes_wrong() {
    for mode in [Mode::Random, Mode::Late, Mode::Early, Mode::Timed] {
        assert_eq!(sort(&seeds(300, mode, || round_trip(NON_BLOCKING, with_wait))), (300, 0, 0));
    }
}

/// A stream that waits for a number goes on when the program has set the number, not before, also
/// beyond the end of the 32-bit numbers.
#[test]
fn a_stream_waits_for_a_number() {
    for mode in [Mode::Random, Mode::Late, Mode::Early, Mode::Timed] {
        for first in [1u32, u32::MAX] {
            seeds(20, mode, || {
                let word = pinned(4);
                // SAFETY: the page-locked memory has room for the number, and lives on.
                let number = unsafe { std::sync::atomic::AtomicU32::from_ptr(word as *mut u32) };
                number.store(first.wrapping_sub(1), std::sync::atomic::Ordering::Release);
                let (s, e) = (stream(NON_BLOCKING), event(2));
                assert_ne!(cuStreamWaitValue32_v2(s, word, first, 1), SUCCESS);
                ok(cuStreamWaitValue32_v2(s, word, first, 0));
                ok(cuEventRecord(e, s));
                assert!((0..200).all(|_| cuEventQuery(e) != SUCCESS));
                let setter = std::thread::spawn(move || {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    number.store(first.wrapping_add(1), std::sync::atomic::Ordering::Release);
                });
                ok(cuEventSynchronize(e));
                setter.join().unwrap();
            });
        }
    }
}

#[test]
fn a_lost_wait_or_record_is_seen() {
    for kind in ["wait", "record"] {
        let results = seeds(200, Mode::Random, || {
            lose(kind, 1);
            let result = round_trip(NON_BLOCKING, with_wait);
            assert_eq!(totals().dropped, 1);
            result
        });
        assert!(sort(&results).0 < 200, "{kind}");
    }
}

#[test]
fn late_runs_only_what_is_needed() {
    let _session = Session::new(0, Mode::Late);
    let (a, b, buffers) = (stream(NON_BLOCKING), stream(NON_BLOCKING), Buffers::new());
    ok(cuMemcpyHtoDAsync_v2(buffers.device, buffers.input, N, a));
    ok(cuMemcpyDtoHAsync_v2(buffers.output, buffers.device, N, b));
    ok(cuStreamSynchronize(b));
    assert_eq!(bytes(buffers.output, N), [POISON; N]);
    assert_eq!((totals().executed, totals().pending), (1, 1));
    ok(cuStreamSynchronize(a));
    assert_eq!(bytes(buffers.device, N), [1; N]);
}

#[test]
fn early_runs_at_once() {
    let _session = Session::new(0, Mode::Early);
    let (s, buffers) = (stream(NON_BLOCKING), Buffers::new());
    ok(cuMemcpyHtoDAsync_v2(buffers.device, buffers.input, N, s));
    assert_eq!((totals().executed, totals().pending), (1, 0));
}

#[test]
fn a_wait_captures_the_record_of_its_time() {
    // After the wait the event is recorded again, behind the waiting stream's own work. If the wait
    // were for this new record, it would be a deadlock.
    let between = |a: Handle, b: Handle| {
        let e = event(2);
        ok(cuEventRecord(e, a));
        ok(cuStreamWaitEvent(b, e, 0));
        ok(cuEventRecord(e, b));
        ok(cuEventDestroy_v2(e));
    };
    assert_eq!(sort(&seeds(200, Mode::Random, || round_trip(NON_BLOCKING, between))), (200, 0, 0));
    // A wait before the first record waits for nothing.
    let between = |a: Handle, b: Handle| {
        let e = event(2);
        ok(cuStreamWaitEvent(b, e, 0));
        ok(cuEventRecord(e, a));
        ok(cuEventDestroy_v2(e));
    };
    assert!(sort(&seeds(200, Mode::Random, || round_trip(NON_BLOCKING, between))).0 < 200);
}

#[test]
fn the_host_must_wait_before_it_reuses_a_staging_buffer() {
    let run = |wait: bool| {
        sort(&seeds(200, Mode::Random, || {
            let (s, e, buffers) = (stream(NON_BLOCKING), event(2), Buffers::new());
            ok(cuMemcpyHtoDAsync_v2(buffers.device, buffers.input, N, s));
            ok(cuEventRecord(e, s));
            if wait {
                ok(cuEventSynchronize(e));
            }
            fill(buffers.input, 2, N);
            ok(cuStreamSynchronize(s));
            bytes(buffers.device, N)
        }))
    };
    assert_eq!(run(true), (200, 0, 0));
    assert!(run(false).0 < 150);
}

#[test]
fn the_default_stream_orders_blocking_streams_only() {
    let through = |default: Handle| {
        move |_: Handle, _: Handle| {
            // An operation in the default stream, enqueued between the two copies, orders them.
            let e = event(2);
            ok(cuEventRecord(e, default));
            ok(cuEventDestroy_v2(e));
        }
    };
    for default in [0, 1] {
        assert_eq!(
            sort(&seeds(200, Mode::Random, || round_trip(0, through(default)))),
            (200, 0, 0)
        );
        assert!(
            sort(&seeds(200, Mode::Random, || round_trip(NON_BLOCKING, through(default)))).0 < 200
        );
    }
    // The per-thread default stream is an ordinary blocking stream.
    assert!(sort(&seeds(200, Mode::Random, || round_trip(0, through(2)))).0 < 200);
}

#[test]
fn a_destroyed_stream_is_worked_off() {
    for mode in [Mode::Random, Mode::Late, Mode::Timed] {
        let _session = Session::new(3, mode);
        let (s, buffers) = (stream(NON_BLOCKING), Buffers::new());
        ok(cuMemcpyHtoDAsync_v2(buffers.device, buffers.input, N, s));
        ok(cuStreamDestroy_v2(s));
        assert_eq!(totals().streams, 0);
        assert_eq!(cuStreamQuery(s), INVALID_HANDLE);
        ok(cuCtxSynchronize());
        assert_eq!(bytes(buffers.device, N), [1; N]);
    }
}

#[test]
fn polling_comes_to_an_end() {
    for mode in [Mode::Random, Mode::Late, Mode::Early, Mode::Timed] {
        for seed in 0..20 {
            let _session = Session::new(seed, mode);
            let (s, e, buffers) = (stream(NON_BLOCKING), event(0), Buffers::new());
            for _ in 0..10 {
                ok(cuMemcpyHtoDAsync_v2(buffers.device, buffers.input, N, s));
            }
            ok(cuEventRecord(e, s));
            let polls = (0..1000).take_while(|_| cuEventQuery(e) == NOT_READY).count();
            assert!(polls < 1000 && cuStreamQuery(s) == SUCCESS, "{mode:?} {polls}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || seeds(50, Mode::Random, || (round_trip(NON_BLOCKING, |_, _| {}), totals()));
    assert!(run() == run());
}

#[test]
fn the_history_says_what_waits_for_what() {
    let _session = Session::new(1, Mode::Late);
    emu_history_start();
    let lost = stream(NON_BLOCKING);
    let buffers = Buffers::new();
    let (a, b, mark) = (stream(NON_BLOCKING), stream(NON_BLOCKING), event(0));
    ok(cuMemcpyHtoDAsync_v2(buffers.device, buffers.input, N, a));
    ok(cuEventRecord(mark, a));
    lose("record", 1);
    ok(cuEventRecord(mark, lost));
    ok(cuStreamWaitEvent(b, mark, 0));
    ok(cuMemcpyDtoHAsync_v2(buffers.output, buffers.device, N, b));
    ok(cuStreamSynchronize(b));
    // SAFETY: the first call passes null and gets the number of entries; the second has room for
    // this number.
    let entries = unsafe {
        let mut entries = vec![Entry::default(); emu_history(std::ptr::null_mut(), 0) as usize];
        emu_history(entries.as_mut_ptr(), entries.len() as u64);
        entries
    };
    let kinds: Vec<Kind> = entries.iter().map(|entry| entry.kind).collect();
    use Kind::{Copy, Event, Record, Stream, Sync, Wait};
    assert_eq!(kinds, [Stream, Stream, Stream, Event, Copy, Record, Wait, Copy, Sync]);
    let [copy, record, wait, back, sync] = entries[4..] else { panic!() };
    assert_eq!(
        (copy.to, copy.from, copy.bytes),
        (buffers.device as u64, buffers.input as u64, N as u64)
    );
    assert_eq!((record.event, record.stream), (mark as u64, copy.stream));
    assert_eq!((wait.event, wait.after, wait.stream), (mark as u64, record.operation, back.stream));
    assert_eq!(sync.after, back.operation);
}
