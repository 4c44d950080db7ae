//! Tests virtual time.

mod common;

use common::*;

const N: usize = 1000;

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-9, "{a} {b}");
}

/// Two streams and memory, with bandwidths of 1000 B/s to and from the device and 10000 B/s within
/// the device.
struct Machine {
    _session: Session,
    a: Handle,
    b: Handle,
    device: Address,
    host: Address,
}

impl Machine {
    fn new(mode: Mode) -> Self {
        let _session = Session::new(0, mode);
        ok(emu_bandwidth(1e3, 1e3, 1e4));
        Self {
            _session,
            a: stream(NON_BLOCKING),
            b: stream(NON_BLOCKING),
            device: device_memory(N),
            host: pinned(N),
        }
    }

    fn upload(&self, stream: Handle) {
        ok(cuMemcpyHtoDAsync_v2(self.device, self.host, N, stream));
    }

    fn download(&self, stream: Handle) {
        ok(cuMemcpyDtoHAsync_v2(self.host, self.device, N, stream));
    }
}

#[test]
fn one_engine_per_direction() {
    let m = Machine::new(Mode::Timed);
    m.upload(m.a);
    m.upload(m.b);
    ok(cuCtxSynchronize());
    close(emu_host_clock(), 2.0);
    m.upload(m.a);
    m.download(m.b);
    ok(cuCtxSynchronize());
    close(emu_host_clock(), 3.0);
    ok(cuMemcpyDtoDAsync_v2(m.device, m.device + 500, 500, m.a));
    ok(cuCtxSynchronize());
    close(emu_host_clock(), 3.05);
    close(totals().host_wait_s, 3.05);
}

#[test]
fn work_hides_a_copy_and_a_late_copy_stalls_it() {
    for (copy_first, stall) in [(0.5, 0.5), (2.0, 0.0)] {
        let m = Machine::new(Mode::Timed);
        let e = event(0);
        ok(emu_work(m.a, copy_first));
        m.upload(m.b);
        ok(cuEventRecord(e, m.b));
        ok(cuStreamWaitEvent(m.a, e, 0));
        ok(emu_work(m.a, 1.0));
        ok(cuStreamSynchronize(m.a));
        close(emu_clock(m.a), copy_first + stall + 1.0);
        close(emu_clock(m.b), 1.0);
    }
}

#[test]
fn the_host_advances_by_waiting() {
    let m = Machine::new(Mode::Timed);
    m.upload(m.a);
    assert_eq!(cuStreamQuery(m.a), NOT_READY);
    ok(cuStreamSynchronize(m.a));
    ok(cuStreamQuery(m.a));
    close(emu_host_clock(), 1.0);
    close(totals().host_wait_s, 1.0 - 1e-6);
    close(emu_clock(m.a), 1.0);
}

#[test]
fn events_tell_virtual_time() {
    for mode in [Mode::Timed, Mode::Random, Mode::Late, Mode::Early] {
        let m = Machine::new(mode);
        let (start, end, blind) = (event(0), event(0), event(2));
        let mut milliseconds = 0.0;
        assert_eq!(cuEventElapsedTime(Out::from(&mut milliseconds), start, end), INVALID_HANDLE);
        ok(cuEventRecord(start, m.a));
        m.upload(m.a);
        ok(cuEventRecord(end, m.a));
        ok(cuEventRecord(blind, m.a));
        if matches!(mode, Mode::Timed | Mode::Late) {
            assert_eq!(cuEventElapsedTime(Out::from(&mut milliseconds), start, end), NOT_READY);
        }
        ok(cuEventSynchronize(end));
        ok(cuEventElapsedTime(Out::from(&mut milliseconds), start, end));
        close(f64::from(milliseconds), 1000.0);
        assert_eq!(cuEventElapsedTime(Out::from(&mut milliseconds), start, blind), INVALID_HANDLE);
    }
}

#[test]
fn first_come_first_served() {
    // The copy in stream b is ready first, though it was enqueued last.
    let m = Machine::new(Mode::Timed);
    ok(emu_work(m.a, 0.5));
    m.upload(m.a);
    m.upload(m.b);
    ok(cuCtxSynchronize());
    close(emu_clock(m.b), 1.0);
    close(emu_clock(m.a), 2.0);
}
