//! Links: page-locking, copies of each direction alone, together and beside kernels, small copies
//! beside large ones, and the time that a compressed save takes of the application's stream.

use super::gpu::{self, Gpu, Memory, Own, Pair, Pinned};
use super::shots::{App, Streams};
use super::{codec, small, starts};
use crate::common::app::{config, ok};
use crate::common::prelude::*;
use crate::common::{here, only_if};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::Instant;

/// Bytes that the library page-locks in one call.
const SEGMENT: u64 = 256 << 20;

/// Seconds that page-locking one size may be expected to take.
const PATIENCE: f64 = 12.0;

/// Anonymous memory, page-locked in segments as the library's pool is.
struct Registered {
    at: *mut c_void,
    bytes: u64,
}

impl Registered {
    /// Maps and page-locks `bytes` bytes, on one node of the system's memory if given; `None` where
    /// the system refuses.
    fn new(bytes: u64, node: Option<u32>) -> Option<Self> {
        // SAFETY: a new mapping; the mask of nodes is read only.
        let at = unsafe {
            let (access, kind) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let at = libc::mmap(null_mut(), bytes as usize, access, kind, -1, 0);
            assert!(at != libc::MAP_FAILED);
            libc::madvise(at, bytes as usize, libc::MADV_HUGEPAGE);
            if let Some(node) = node {
                let (mask, bind) = (1u64 << node, 2);
                if libc::syscall(libc::SYS_mbind, at, bytes, bind, &raw const mask, 64, 0) != 0 {
                    libc::munmap(at, bytes as usize);
                    return None;
                }
            }
            at
        };
        for offset in (0..bytes).step_by(SEGMENT as usize) {
            let part = SEGMENT.min(bytes - offset) as usize;
            ok!(cuMemHostRegister_v2(at.wrapping_byte_add(offset as usize), part, 0));
        }
        Some(Registered { at, bytes })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        for offset in (0..self.bytes).step_by(SEGMENT as usize) {
            ok!(cuMemHostUnregister(self.at.wrapping_byte_add(offset as usize)));
        }
        // SAFETY: mapped by `new`.
        unsafe { libc::munmap(self.at, self.bytes as usize) };
    }
}

/// Bytes of the system's memory that programs can still take.
fn available() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find(|line| line.starts_with("MemAvailable:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// The nodes of the system's memory, and the node of the device, -1 if it has none.
fn nodes() -> Vec<u32> {
    let of = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.ok()?.file_name().to_str()?.strip_prefix("node")?.parse().ok()
    };
    let mut nodes: Vec<u32> = std::fs::read_dir("/sys/devices/system/node")
        .map_or_else(|_| vec![0], |entries| entries.filter_map(of).collect());
    nodes.sort_unstable();
    nodes
}

/// Seconds per copy of `bytes` bytes to and from `host`.
fn both_ways(host: *mut c_void, device: &Memory, bytes: u64) -> [f64; 2] {
    let own = Own::new();
    let stream = own.0;
    let up = || ok!(cuMemcpyHtoDAsync_v2(device.0, host.cast_const(), bytes as usize, stream));
    let down = || ok!(cuMemcpyDtoHAsync_v2(host, device.0, bytes as usize, stream));
    up();
    [Pair::around(stream, up).seconds(), Pair::around(stream, down).seconds()]
}

/// How long page-locking takes, by both of the driver's calls, and from which node of memory.
#[test]
fn pinning() {
    only_if!(starts(here!()));
    let gpu = Gpu::new(0);
    let probe = gpu.size(1 << 30, 1 << 20);
    let device = Memory::new(probe);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes the limit only.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    let mut expected = 0.0;
    for gigabytes in [1u64, 8, 64] {
        let bytes = gpu.size(gigabytes << 30, gigabytes << 20);
        let fits = bytes <= available() / 2 && expected < PATIENCE;
        for call in ["cuMemHostAlloc", "cuMemHostRegister"] {
            let begin = Instant::now();
            let (mut alloc, mut registered) = (None, None);
            match call {
                _ if !fits => {}
                "cuMemHostAlloc" => alloc = Some(Pinned::new(bytes)),
                _ => registered = Registered::new(bytes, None),
            }
            let seconds = begin.elapsed().as_secs_f64();
            expected = if fits { 8.0 * seconds } else { expected };
            let host = alloc.as_ref().map(|pinned| pinned.0);
            let host = host.or(registered.as_ref().map(|registered| registered.at));
            let speeds = host.map(|host| both_ways(host, &device, probe));
            let of = |k: usize| speeds.and_then(|s| gpu.figure(probe as f64 / s[k] / 1e9));
            gpu.row(
                "pinning",
                &[
                    ("call", &call),
                    ("bytes", &bytes),
                    ("done", &fits),
                    ("limit_bytes", &limit.rlim_cur),
                    ("seconds", &gpu.figure(seconds).filter(|_| fits)),
                    ("up_gbs", &of(0)),
                    ("down_gbs", &of(1)),
                ],
            );
        }
    }
    for node in nodes() {
        let memory = Registered::new(probe, Some(node));
        let speeds = memory.as_ref().map(|memory| both_ways(memory.at, &device, probe));
        let of = |k: usize| speeds.and_then(|s| gpu.figure(probe as f64 / s[k] / 1e9));
        let (bound, up, down) = (memory.is_some(), of(0), of(1));
        gpu.row(
            "numa",
            &[("node", &node), ("bound", &bound), ("up_gbs", &up), ("down_gbs", &down)],
        );
    }
}

/// Two device buffers and two page-locked ones, with a stream for each direction and one for
/// kernels.
struct Link {
    bytes: u64,
    device: [Memory; 2],
    host: [Pinned; 2],
    streams: [Own; 3],
}

impl Link {
    fn new(bytes: u64) -> Self {
        Link {
            bytes,
            device: [Memory::new(bytes), Memory::new(bytes)],
            host: [Pinned::new(bytes), Pinned::new(bytes)],
            streams: [Own::new(), Own::new(), Own::new()],
        }
    }

    fn up(&self) {
        let (to, from) = (self.device[0].0, self.host[0].0.cast_const());
        ok!(cuMemcpyHtoDAsync_v2(to, from, self.bytes as usize, self.streams[0].0));
    }

    fn down(&self) {
        let (to, from) = (self.host[1].0, self.device[1].0);
        ok!(cuMemcpyDtoHAsync_v2(to, from, self.bytes as usize, self.streams[1].0));
    }

    fn finish(&self) {
        self.streams.iter().for_each(|stream| ok!(cuStreamSynchronize(stream.0)));
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Speeds of the link: each direction, both, and all of that beside a kernel that takes the whole
/// bandwidth of the device's memory.
#[test]
fn link() {
    only_if!(starts(here!()));
    let gpu = Gpu::new(0);
    let link = Link::new(gpu.size(1 << 30, 1 << 20));
    let count = gpu.size(1u64 << 28, 1 << 12);
    let work = Memory::new(4 * count);
    let third = link.streams[2].0;
    let through = |rounds| Pair::around(third, || gpu.through(third, work.0, count, rounds));
    gpu::set(work.0, 0, 4 * count as usize);
    let (copies, rounds) = gpu.size((4, 400), (1, 2));
    // The first copies and the module's first launch take longer.
    link.up();
    link.down();
    through(1).seconds();
    link.finish();
    let gbs = |bytes: u64, seconds: f64| gpu.figure(bytes as f64 / seconds / 1e9);
    let moved = |rounds: u32| 8 * count * u64::from(rounds);
    let alone = through(rounds).seconds();
    for beside in [false, true] {
        for (what, ways) in [("up", [true, false]), ("down", [false, true]), ("both", [true, true])]
        {
            let kernel = beside.then(|| through(rounds));
            let copied = |is: bool, k: usize, copy: &dyn Fn()| {
                let all = || (0..copies).for_each(|_| copy());
                is.then(|| Pair::around(link.streams[k].0, all))
            };
            let pairs = [copied(ways[0], 0, &|| link.up()), copied(ways[1], 1, &|| link.down())];
            let [up, down] = pairs.map(|pair| {
                let bytes = copies * link.bytes;
                pair.and_then(|pair| gbs(bytes, pair.seconds()))
            });
            let covered = kernel.as_ref().is_some_and(Pair::is_running);
            let kernel = kernel.map(Pair::seconds);
            gpu.row(
                "link",
                &[
                    ("what", &what),
                    ("beside_kernel", &beside),
                    ("kernel_outlasts_copies", &gpu.size(Some(covered), None)),
                    ("up_gbs", &up),
                    ("down_gbs", &down),
                    ("kernel_gbs", &kernel.and_then(|seconds| gbs(moved(rounds), seconds))),
                    ("kernel_alone_gbs", &gbs(moved(rounds), alone)),
                ],
            );
        }
    }
}

/// How long 32 bytes take to reach the host: as a copy and stored by a kernel, alone and beside a
/// large copy of each direction.
#[test]
fn small_copy() {
    only_if!(starts(here!()));
    let gpu = Gpu::new(0);
    let link = Link::new(gpu.size(1 << 30, 1 << 20));
    let (word, to) = (Memory::new(32), Pinned::new(32));
    let stream = link.streams[2].0;
    gpu::set(word.0, 7, 32);
    // The module's first launch takes longer.
    gpu.report(stream, to.0 as u64, 1);
    link.finish();
    for beside in ["nothing", "up", "down"] {
        for how in ["copy", "kernel"] {
            match beside {
                "up" => link.up(),
                "down" => link.down(),
                _ => {}
            }
            let begin = Instant::now();
            if how == "copy" {
                ok!(cuMemcpyDtoHAsync_v2(to.0, word.0, 32, stream));
            } else {
                gpu.report(stream, to.0 as u64, 5);
            }
            ok!(cuStreamSynchronize(stream));
            let seconds = begin.elapsed().as_secs_f64();
            // SAFETY: the copy or the kernel has ended.
            let found = unsafe { to.0.cast::<u64>().read_volatile() };
            assert_eq!(found, if how == "copy" { 0x0707_0707_0707_0707 } else { 5 });
            link.finish();
            let microseconds = gpu.figure(1e6 * seconds);
            gpu.row(
                "small_copy",
                &[
                    ("how", &how),
                    ("beside", &beside),
                    ("large_bytes", &link.bytes),
                    ("microseconds", &microseconds),
                ],
            );
        }
    }
}

/// What a save and a retrieve take of the application's stream, raw and compressed, where snapshots
/// stay on the device and where they are written back.
#[test]
fn saves() {
    only_if!(starts(here!()));
    let gpu = Gpu::new(0);
    let count = gpu.size([64 << 20], small(&gpu)[..1].try_into().unwrap());
    for method in [Method::None, Method::Cuszp, Method::Dct] {
        for cache in [8, 2] {
            let mut app = App::new(&gpu, &count, Streams::NonBlocking, 1).lossy();
            app.timed = Some([Vec::new(), Vec::new()]);
            let name = method.name().to_owned();
            let raw = config(Algorithm::Revolve, 8, cache, Policy::Clairvoyant);
            let config = raw.with(|c| c.codec.settings = codec(method.clone()));
            let mut session = Session::new(config, 20, &app.app_fields()).unwrap();
            session.setup().unwrap();
            app.run(&mut session, |_| true);
            let [save, retrieve] = app.timed.take().unwrap().map(|pairs| {
                let mut seconds: Vec<f64> = pairs.into_iter().map(Pair::seconds).collect();
                seconds.sort_by(f64::total_cmp);
                let figure = |at: usize| gpu.figure(1e3 * seconds[at]);
                [figure(seconds.len() / 2), figure(seconds.len() - 1)]
            });
            let stats = session.stats().unwrap();
            gpu.row(
                "saves",
                &[
                    ("codec", &name),
                    ("state_bytes", &(4 * count[0])),
                    ("written_back", &(stats.d2h_bytes > 0)),
                    ("save_ms", &save[0]),
                    ("longest_save_ms", &save[1]),
                    ("retrieve_ms", &retrieve[0]),
                    ("longest_retrieve_ms", &retrieve[1]),
                ],
            );
            assert_eq!(app.outcome().wrong, 0, "{name}");
        }
    }
}
