//! Damaged streams. All memory that a codec is given, arrays as well as whole and damaged streams,
//! lies next to pages without access. Most damaged streams get a right checksum, so that the damage
//! reaches the decoders. Decoding then ends in an error or in values, the same at every instruction
//! level, and takes bounded memory. Damage under a wrong checksum is always refused. With
//! GPUZIP_TEST_LONG, 10^6 damaged streams are tried.

use crate::common::cases::cases;
use crate::common::last_error;
use crate::common::{self, checksum};
use checksum::reseal;
use gpuzip::capi::*;
use gpuzip::codec::simd::{levels, set_level, Level};
use gpuzip::codec::CODECS;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

// ---- The process: one test at a time; the largest allocation; the seed of a crash ----

/// Size in bytes of the largest allocation that was requested since this number was last set to 0.
static LARGEST: AtomicUsize = AtomicUsize::new(0);

extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, bytes: usize) -> *mut c_void;
    fn __libc_realloc(memory: *mut c_void, bytes: usize) -> *mut c_void;
}

/// Calls the C library's allocator and notes the size in `LARGEST`. The library under test
/// allocates by Rust's global allocator, which calls this function.
#[no_mangle]
unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
    LARGEST.fetch_max(bytes, Ordering::Relaxed);
    // SAFETY: the caller keeps the contract of the C function.
    unsafe { __libc_malloc(bytes) }
}

/// Notes the size in `LARGEST`, as `malloc` does.
#[no_mangle]
unsafe extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    LARGEST.fetch_max(count.saturating_mul(bytes), Ordering::Relaxed);
    // SAFETY: the caller keeps the contract of the C function.
    unsafe { __libc_calloc(count, bytes) }
}

/// Notes the size in `LARGEST`, as `malloc` does.
#[no_mangle]
unsafe extern "C" fn realloc(memory: *mut c_void, bytes: usize) -> *mut c_void {
    LARGEST.fetch_max(bytes, Ordering::Relaxed);
    // SAFETY: the caller keeps the contract of the C function.
    unsafe { __libc_realloc(memory, bytes) }
}

/// The seed in work, which the message of a signal names.
static SEED: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(signal: i32) {
    let mut text = *b"signal 00 at seed 00000000000000000000\n";
    text[7..9].copy_from_slice(&[b'0' + (signal / 10) as u8, b'0' + (signal % 10) as u8]);
    let mut rest = SEED.load(Ordering::Relaxed);
    for digit in text[18..38].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // SAFETY: both calls are allowed in a signal handler.
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::_exit(70);
    }
}

/// Runs the test `name` alone in a process, because the instruction level, the seed and `LARGEST`
/// belong to the process. Returns whether this is that process, where signals of a crash print the
/// seed.
fn alone(name: &str) -> bool {
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE] {
        // SAFETY: the handler calls nothing but functions that are allowed in a signal handler.
        unsafe { libc::signal(signal, on_signal as *const () as libc::sighandler_t) };
    }
    common::alone(name).is_some()
}

// ---- Memory between pages without access ----

const PAGE: usize = 4096;
const ROOM: usize = 512 << 10;
/// Bytes beside the free end of a piece; a codec must not change them.
const CANARY: [u8; 64] = [0xC5; 64];

/// The end of a guarded room at which a piece lies, next to a page without access.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Begin,
    End,
}

struct Guarded(*mut u8);

impl Guarded {
    fn new() -> Self {
        // SAFETY: new pages, of which the first and the last stay without access.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let pages =
                libc::mmap(std::ptr::null_mut(), ROOM + 2 * PAGE, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            let room = pages.cast::<u8>().add(PAGE);
            assert_eq!(libc::mprotect(room.cast(), ROOM, libc::PROT_READ | libc::PROT_WRITE), 0);
            Guarded(room)
        }
    }

    fn all(&mut self) -> &mut [u8] {
        // SAFETY: the room, which `self` owns.
        unsafe { std::slice::from_raw_parts_mut(self.0, ROOM) }
    }

    /// Returns a piece of `bytes` bytes, with a canary beside its free end.
    fn piece(&mut self, side: Side, bytes: usize) -> &mut [u8] {
        assert!(bytes + CANARY.len() <= ROOM);
        let all = self.all();
        match side {
            Side::Begin => {
                all[bytes..bytes + CANARY.len()].copy_from_slice(&CANARY);
                &mut all[..bytes]
            }
            Side::End => {
                let begin = ROOM - bytes;
                all[begin - CANARY.len()..begin].copy_from_slice(&CANARY);
                &mut all[begin..]
            }
        }
    }

    fn check(&mut self, side: Side, bytes: usize, what: &str) {
        let at = if side == Side::Begin { bytes } else { ROOM - bytes - CANARY.len() };
        assert!(self.all()[at..at + CANARY.len()] == CANARY, "{what}: written beside its memory");
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the pages that `new` mapped.
        unsafe { libc::munmap(self.0.sub(PAGE).cast(), ROOM + 2 * PAGE) };
    }
}

// ---- Pseudo-random numbers (splitmix64) ----

struct Draw(u64);

impl Draw {
    fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    }

    fn below(&mut self, n: usize) -> usize {
        (self.u64() % n.max(1) as u64) as usize
    }

    fn of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Returns a number at which comparisons of lengths, counts and widths may go wrong.
    fn extreme(&mut self) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << self.below(64),
            3 => (1 << self.below(64)) - 1,
            4 => self.below(5000) as u64,
            _ => self.u64(),
        }
    }
}

// ---- Arrays and settings of codecs ----

/// The numbers of all codecs.
fn compressors() -> Vec<i32> {
    CODECS.iter().map(|codec| codec.number.into()).collect()
}

/// One or two arrays of a kind of values, and the settings of the codec that codes them.
#[derive(Clone, Debug)]
struct Case {
    compressor: i32,
    rate: i32,
    mode: i32,
    bound: f64,
    kind: usize,
    n: [u64; 3],
    scalar: i32,
    count: usize,
    has_levels: bool,
}

impl Case {
    fn draw(draw: &mut Draw) -> Case {
        let mode = draw.below(4) as i32;
        let n = match draw.below(5) {
            0 => [1 + draw.below(3000), 1, 1],
            1 => [1 + draw.below(70), 1 + draw.below(60), 1],
            2 => [1, 7, 1 + draw.below(90)],
            3 => [1 + draw.below(8), 1 + draw.below(8), 1 + draw.below(8)],
            _ => [1 + draw.below(33), 1 + draw.below(18), 1 + draw.below(17)],
        };
        Case {
            compressor: draw.of(&compressors()),
            rate: 1 + draw.below(32) as i32,
            mode,
            bound: if mode == 3 {
                20.0 + draw.below(90) as f64
            } else {
                10f64.powi(-1 - draw.below(6) as i32)
            },
            kind: draw.below(6),
            n: n.map(|n| n as u64),
            scalar: draw.below(2) as i32,
            count: 1 + draw.below(2),
            has_levels: draw.below(2) == 0,
        }
    }

    fn bytes(&self) -> usize {
        self.n.iter().product::<u64>() as usize * if self.scalar == GPUZIP_TYPE_F32 { 4 } else { 8 }
    }

    fn config(&self) -> gpuzip_config_t {
        let mut config = std::mem::MaybeUninit::zeroed();
        // SAFETY: memory for a configuration, which the call fills.
        let mut config: gpuzip_config_t = unsafe {
            assert_eq!(gpuzip_config_init(config.as_mut_ptr()), GPUZIP_OK);
            config.assume_init()
        };
        config.compressor = self.compressor;
        config.zfp_bit_rate = self.rate;
        config.error_bound_mode = self.mode;
        config.error_bound = self.bound;
        config
    }

    fn value(&self, k: usize, i: usize) -> f64 {
        let (a, b) = (i as u64 % self.n[0], i as u64 / self.n[0]);
        let smooth =
            (0.31 * a as f64 + 0.13 * k as f64).sin() * (0.23 * b as f64 - 0.13 * k as f64).cos();
        let noise = Draw((i * 7 + k) as u64).u64() as f64 / 2f64.powi(63) - 1.0;
        match self.kind {
            0 => smooth,
            1 => noise,
            2 => noise * 2f64.powi((i * 31 % 60) as i32 - 30),
            3 if i % 17 == 3 => [f64::NAN, f64::INFINITY, -0.0][i % 3],
            3 => smooth,
            4 => smooth * 1e-3 + if i % 97 == 3 { 1.0 } else { 0.0 },
            _ => 1.0 + 1e-6 * smooth,
        }
    }

    fn fill(&self, k: usize, to: &mut [u8]) {
        match self.scalar {
            GPUZIP_TYPE_F32 => to
                .chunks_mut(4)
                .enumerate()
                .for_each(|(i, x)| x.copy_from_slice(&(self.value(k, i) as f32).to_le_bytes())),
            _ => to
                .chunks_mut(8)
                .enumerate()
                .for_each(|(i, x)| x.copy_from_slice(&self.value(k, i).to_le_bytes())),
        }
    }
}

/// Memory for two arrays and a stream.
struct Rig {
    arrays: [Guarded; 2],
    stream: Guarded,
    levels: Vec<Level>,
}

impl Rig {
    fn new() -> Self {
        Rig { arrays: [Guarded::new(), Guarded::new()], stream: Guarded::new(), levels: levels() }
    }

    fn fields(&mut self, case: &Case, side: Side) -> Vec<gpuzip_field_t> {
        let [n1, n2, n3] = case.n;
        let field = |(k, room): (usize, &mut Guarded)| {
            let data = room.piece(side, case.bytes()).as_mut_ptr().cast::<c_void>();
            gpuzip_field_t {
                data,
                n1,
                n2,
                n3,
                r#type: case.scalar,
                role: (k > 0 && case.has_levels) as i32,
                pitch2: 0,
                pitch3: 0,
                reserved: [0; 2],
            }
        };
        self.arrays.iter_mut().take(case.count).enumerate().map(field).collect()
    }

    /// Returns the stream of a case, from arrays and into memory beside guards, and checks that
    /// every instruction level gives this stream; `None` if the codec does not exist here.
    fn compress(&mut self, case: &Case, side: Side) -> Option<Vec<u8>> {
        let (config, fields) = (case.config(), self.fields(case, side));
        for (k, room) in self.arrays.iter_mut().enumerate().take(case.count) {
            case.fill(k, room.piece(side, case.bytes()));
        }
        let mut results = Vec::new();
        for level in self.levels.clone() {
            set_level(level);
            let mut size = 0;
            // SAFETY: configuration, fields and output are valid.
            if unsafe {
                gpuzip_codec_bound(&config, fields.as_ptr(), fields.len() as u32, &mut size)
            } != GPUZIP_OK
            {
                return None;
            }
            let capacity = size as usize;
            let to = self.stream.piece(side, capacity).as_mut_ptr().cast();
            // SAFETY: configuration and fields are valid; the output has the size that
            // `gpuzip_codec_bound` gave.
            let status = unsafe {
                gpuzip_codec_compress(
                    &config,
                    fields.as_ptr(),
                    fields.len() as u32,
                    to,
                    size,
                    &mut size,
                )
            };
            assert_eq!(status, GPUZIP_OK, "{case:?}: {}", last_error());
            self.stream.check(side, capacity, "stream");
            results.push(self.stream.piece(side, capacity)[..size as usize].to_vec());
        }
        assert!(
            results.windows(2).all(|pair| pair[0] == pair[1]),
            "{case:?}: the levels' streams differ"
        );
        results.pop()
    }

    /// Decodes a stream at every instruction level and checks that all levels give the same result.
    /// Returns the status and, on success, the arrays.
    fn decompress(&mut self, case: &Case, stream: &[u8], side: Side) -> (i32, Vec<Vec<u8>>) {
        let mut first: Option<(i32, Vec<Vec<u8>>)> = None;
        let data = self.stream.piece(side, stream.len());
        data.copy_from_slice(stream);
        let data = data.as_ptr().cast::<c_void>();
        for level in self.levels.clone() {
            set_level(level);
            let fields = self.fields(case, side);
            self.arrays
                .iter_mut()
                .take(case.count)
                .for_each(|room| room.piece(side, case.bytes()).fill(0xEE));
            LARGEST.store(0, Ordering::Relaxed);
            // SAFETY: stream and fields are memory of their sizes.
            let status = unsafe {
                gpuzip_codec_decompress(
                    data,
                    stream.len() as u64,
                    fields.as_ptr(),
                    fields.len() as u32,
                )
            };
            let largest = LARGEST.load(Ordering::Relaxed);
            assert!(
                largest <= (1 << 20) + 4 * case.bytes(),
                "{case:?} {level:?}: asked for {largest} bytes at once"
            );
            let arrays: Vec<Vec<u8>> = match status {
                GPUZIP_OK => self
                    .arrays
                    .iter_mut()
                    .take(case.count)
                    .map(|room| room.piece(side, case.bytes()).to_vec())
                    .collect(),
                _ => Vec::new(),
            };
            self.arrays
                .iter_mut()
                .take(case.count)
                .for_each(|room| room.check(side, case.bytes(), "array"));
            match &first {
                None => first = Some((status, arrays)),
                Some(first) => assert!(
                    first.0 == status && first.1 == arrays,
                    "{case:?} {level:?}: {status}, and {} before",
                    first.0
                ),
            }
        }
        first.unwrap_or_default()
    }

    /// Calls `gpuzip_codec_info` for the stream in memory beside a guard and returns the status.
    fn info(&mut self, stream: &[u8], side: Side, index: u32) -> i32 {
        let data = self.stream.piece(side, stream.len());
        data.copy_from_slice(stream);
        let mut info = gpuzip_codec_info_t {
            struct_size: size_of::<gpuzip_codec_info_t>() as u64,
            ..Default::default()
        };
        // SAFETY: stream and output are memory of their sizes.
        unsafe { gpuzip_codec_info(data.as_ptr().cast(), stream.len() as u64, index, &mut info) }
    }
}

/// Returns the offset of every array in the stream, with the size of its payload, both in bytes.
fn pieces(stream: &[u8]) -> Vec<(usize, usize)> {
    let (mut at, mut found) = (0, Vec::new());
    while at + 64 <= stream.len() {
        let payload = u64::from_le_bytes(stream[at + 48..at + 56].try_into().unwrap()) as usize;
        if payload > stream.len() - at - 64 {
            break;
        }
        found.push((at, payload));
        at += (64 + payload).next_multiple_of(64);
    }
    found
}

/// Replaces the payload of the array at offset `at`, which has `old` bytes.
fn replace(stream: &mut Vec<u8>, (at, old): (usize, usize), payload: &[u8]) {
    let mut padded = payload.to_vec();
    padded.resize(payload.len().next_multiple_of(64), 0);
    stream.splice(at + 64..at + (64 + old).next_multiple_of(64), padded);
    stream[at + 48..at + 56].copy_from_slice(&(payload.len() as u64).to_le_bytes());
}

// ---- Damage ----

/// Damages a stream once. `other` is the stream of another case.
fn damage(stream: &mut Vec<u8>, other: &[u8], draw: &mut Draw) {
    let found = pieces(stream);
    if found.is_empty() {
        return;
    }
    let (at, len) = draw.of(&found);
    let payload = at + 64..at + 64 + len;
    // Lengths and tables stand in the first bytes of a payload: half of the damage goes there.
    let place = |draw: &mut Draw| {
        if draw.below(2) == 0 {
            draw.below(len.min(64))
        } else {
            draw.below(len)
        }
    };
    match draw.below(11) {
        0 | 1 if len > 0 => {
            (0..1 + draw.below(8)).for_each(|_| stream[at + 64 + place(draw)] ^= 1 << draw.below(8))
        }
        2 if len > 0 => stream[at + 64 + place(draw)] = draw.of(&[0, 1, 0x7F, 0x80, 0xFF]),
        3 if len > 0 => {
            let begin = place(draw);
            let end = len.min(begin + 1 + draw.below(300));
            let byte = draw.of(&[0, 0xFF, 0x55]);
            stream[payload][begin..end].fill(byte);
        }
        4 if len > 0 => {
            let (width, word) = (draw.of(&[1, 2, 4, 8]), draw.extreme().to_le_bytes());
            let begin = place(draw) / width * width;
            let end = len.min(begin + width);
            stream[payload][begin..end].copy_from_slice(&word[..end - begin]);
        }
        5 => {
            let mut bytes = stream[payload].to_vec();
            match draw.below(3) {
                0 => bytes.truncate(draw.below(len + 1)),
                1 => bytes.resize(len + 1 + draw.below(200), draw.of(&[0, 0xFF, 0x33])),
                _ => drop(bytes.drain(..draw.below(len + 1))),
            }
            replace(stream, (at, len), &bytes);
        }
        6 if len > 0 => {
            let (from, to) = (draw.below(len), draw.below(len));
            let count = draw.below(300).min(len - from.max(to));
            stream[payload].copy_within(from..from + count, to);
        }
        7 => {
            // All or the beginning of a payload of the other stream.
            let theirs = pieces(other);
            if !theirs.is_empty() {
                let (there, bytes) = draw.of(&theirs);
                let mut taken = other[there + 64..there + 64 + bytes].to_vec();
                if draw.below(2) == 0 {
                    let cut = draw.below(bytes.min(len) + 1);
                    taken.truncate(cut);
                    taken.extend(&stream[payload][cut.min(len)..]);
                }
                replace(stream, (at, len), &taken);
            }
        }
        8 | 9 => {
            // A field of the header: codec, content, type, zero, number, reference, parameter,
            // extents, bound, size of the payload.
            const FIELDS: [(usize, usize); 12] = [
                (0, 4),
                (4, 1),
                (5, 1),
                (6, 1),
                (7, 1),
                (8, 2),
                (10, 2),
                (12, 4),
                (16, 8),
                (24, 8),
                (32, 8),
                (40, 8),
            ];
            let (field, width) = if draw.below(5) == 0 { (48, 8) } else { draw.of(&FIELDS) };
            let value = if draw.below(2) == 0 { draw.below(9) as u64 } else { draw.extreme() };
            stream[at + field..at + field + width].copy_from_slice(&value.to_le_bytes()[..width]);
        }
        _ => {
            // A whole array: dropped, appended a second time, or repeated at the front.
            let end = at + (64 + len).next_multiple_of(64);
            let piece = stream[at..end.min(stream.len())].to_vec();
            match draw.below(3) {
                0 => drop(stream.drain(at..end.min(stream.len()))),
                1 => stream.extend(piece),
                _ => drop(stream.splice(0..0, piece)),
            }
        }
    }
}

/// Corrects the checksums of all arrays that can be found by the sizes in the headers.
fn reseal_all(stream: &mut [u8]) {
    for (at, _) in pieces(stream) {
        reseal(&mut stream[at..]);
    }
}

/// Numbers of damaged streams, by outcome; `unsealed` counts those under a wrong checksum.
#[derive(Default, Debug)]
struct Tally {
    damaged: usize,
    refused: usize,
    decoded: usize,
    unsealed: usize,
}

/// Draws a case from `seed`, damages its stream `count` times and checks each outcome.
fn damage_case(rig: &mut Rig, seed: u64, count: usize, tally: &mut Tally) {
    SEED.store(seed, Ordering::Relaxed);
    let mut draw = Draw(seed);
    let case = Case::draw(&mut draw);
    let side = |draw: &mut Draw| draw.of(&[Side::Begin, Side::End]);
    let at = side(&mut draw);
    let Some(good) = rig.compress(&case, at) else { return };
    let other_case = Case {
        compressor: if draw.below(2) == 0 { case.compressor } else { draw.of(&compressors()) },
        ..Case::draw(&mut draw)
    };
    let other = rig.compress(&other_case, Side::End).unwrap_or_default();
    let (status, whole) = rig.decompress(&case, &good, at);
    assert_eq!(status, GPUZIP_OK, "{case:?}: {}", last_error());
    for _ in 0..count {
        let (mut bad, at) = (good.clone(), side(&mut draw));
        (0..1 + draw.below(3)).for_each(|_| damage(&mut bad, &other, &mut draw));
        bad.truncate(ROOM - CANARY.len());
        let is_sealed = draw.below(8) != 0;
        if is_sealed {
            reseal_all(&mut bad);
        }
        if draw.below(12) == 0 {
            bad.truncate(draw.below(bad.len() + 1));
        }
        if bad == good {
            continue;
        }
        tally.damaged += 1;
        let (status, arrays) = rig.decompress(&case, &bad, at);
        let code = rig.info(&bad, at, draw.below(3) as u32);
        let known = [
            GPUZIP_ERR_STREAM,
            GPUZIP_ERR_CONFIG,
            GPUZIP_ERR_UNSUPPORTED,
            GPUZIP_ERR_ARGUMENT,
            GPUZIP_ERR_SHAPE,
        ];
        assert!(
            status == GPUZIP_OK || known.contains(&status),
            "seed {seed}: {status}: {}",
            last_error()
        );
        assert!(
            code == GPUZIP_OK || known.contains(&code),
            "seed {seed}: info: {code}: {}",
            last_error()
        );
        if status == GPUZIP_OK {
            tally.decoded += 1;
        } else {
            tally.refused += 1;
        }
        if !is_sealed {
            tally.unsealed += 1;
            // The zeros between arrays are not checked. Apart from them, a stream that decodes is
            // the one that was coded.
            assert!(
                status != GPUZIP_OK || arrays == whole,
                "seed {seed}: damage under a wrong checksum went unnoticed"
            );
        }
    }
    // Damaged streams leave nothing behind: the undamaged stream still decodes to its values.
    assert!(rig.decompress(&case, &good, at) == (GPUZIP_OK, whole), "seed {seed}: {case:?}");
}

/// Random damage of every codec, shape, type and bound.
#[test]
fn damaged_streams_are_refused_or_decoded() {
    if !alone("damaged_streams_are_refused_or_decoded") {
        return;
    }
    let (mut rig, mut tally, mut seed) = (Rig::new(), Tally::default(), 0);
    let wanted = cases(15_000, 1_000_000);
    while tally.damaged < wanted {
        seed += 1;
        damage_case(&mut rig, seed, 40, &mut tally);
    }
    println!("seeds 1 to {seed}: {tally:?}");
    assert!(
        tally.refused * 10 > tally.damaged && tally.decoded * 10 > tally.damaged,
        "damage reaches the decoders: {tally:?}"
    );
}

/// Cuts every payload at every byte, under a right checksum. The payload then lies at the very end
/// or at the very beginning of readable memory.
#[test]
fn every_cut_is_refused_or_decoded() {
    if !alone("every_cut_is_refused_or_decoded") {
        return;
    }
    let mut rig = Rig::new();
    let shapes: [([u64; 3], &[usize]); 3] =
        [([150, 1, 1], &[0, 1]), ([19, 11, 1], &[0]), ([9, 8, 10], &[0, 4])];
    for compressor in compressors() {
        for ((n, kinds), scalar) in shapes.into_iter().flat_map(|shape| [(shape, 0), (shape, 1)]) {
            for &kind in kinds {
                let case = Case {
                    compressor,
                    rate: 6,
                    mode: 0,
                    bound: 1e-2,
                    kind,
                    n,
                    scalar,
                    count: 1,
                    has_levels: false,
                };
                let Some(good) = rig.compress(&case, Side::End) else { continue };
                let (_, len) = pieces(&good)[0];
                for cut in 0..len {
                    SEED.store(cut as u64, Ordering::Relaxed);
                    let mut bad = good.clone();
                    let payload = good[64..64 + cut].to_vec();
                    replace(&mut bad, (0, len), &payload);
                    reseal_all(&mut bad);
                    let (status, _) = rig.decompress(
                        &case,
                        &bad,
                        if cut % 2 == 0 { Side::End } else { Side::Begin },
                    );
                    assert!(
                        status == GPUZIP_OK || status == GPUZIP_ERR_STREAM,
                        "{case:?} cut at {cut}: {status}: {}",
                        last_error()
                    );
                    // The stream is cut, and its header still has the full size.
                    let (status, _) = rig.decompress(&case, &good[..64 + cut], Side::End);
                    assert_eq!(status, GPUZIP_ERR_STREAM, "{case:?} cut at {cut}");
                }
            }
        }
    }
}
