//! Damaged streams. All memory that a codec is given, arrays as well as whole and damaged streams,
//! lies next to pages without access. Most damaged streams get a right checksum, so that the damage
//! reaches the decoders. Decoding then ends in an error or in values, the same at every instruction
//! level, and takes bounded memory. Damage under a wrong checksum is always refused. With
//! GPUZIP_TEST_LONG, 10^6 damaged streams are tried.

pub mod changes;
mod guarded;

use crate::common::cases::cases;
use crate::common::draw::Draw;
use crate::common::last_error;
use crate::common::{self, c_abi, checksum};
use crate::snapshots::value;
use changes::{damage, pieces, replace, reseal_all};
use checksum::reseal;
use common::guarded::Guarded;
use gpuzip::capi::*;
use gpuzip::codec::simd::{levels, set_level, Level};
use gpuzip::codec::CODECS;
use guarded::{Side, CANARY, ROOM};
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

impl Draw {
    /// Returns a number at which comparisons of lengths, counts and widths may go wrong.
    fn extreme(&mut self) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << self.below(64),
            3 => (1 << self.below(64)) - 1,
            4 => self.below(5000) as u64,
            _ => self.bits(),
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
    is_masked: bool,
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
            is_masked: draw.below(2) == 0,
        }
    }

    fn bytes(&self) -> usize {
        self.n.iter().product::<u64>() as usize * if self.scalar == GPUZIP_TYPE_F32 { 4 } else { 8 }
    }

    fn config(&self) -> gpuzip_config_t {
        let is_masked = self.is_masked && (2..=5).contains(&self.compressor);
        gpuzip_config_t {
            fill_value: if is_masked { c"nan".as_ptr() } else { std::ptr::null() },
            compressor: self.compressor,
            zfp_bit_rate: self.rate,
            error_bound_mode: self.mode,
            error_bound: self.bound,
            ..c_abi::config()
        }
    }

    fn value(&self, k: usize, i: usize) -> f64 {
        // Smooth, noise, noise of many magnitudes, NaN and infinities, spikes, nearly constant.
        value([0, 1, 6, 7, 9, 10][self.kind], 0, k, i, self.n)
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
        let room = || Guarded::new(ROOM);
        Rig { arrays: [room(), room()], stream: room(), levels: levels() }
    }

    /// The memory of the arrays of a case.
    fn rooms(&mut self, case: &Case) -> impl Iterator<Item = &mut Guarded> {
        self.arrays.iter_mut().take(case.count)
    }

    fn fields(&mut self, case: &Case, side: Side) -> Vec<gpuzip_field_t> {
        let [n1, n2, n3] = case.n;
        let field = |(k, room): (usize, &mut Guarded)| {
            let data = room.piece(side, case.bytes()).as_mut_ptr().cast::<c_void>();
            let role = (k > 0 && case.has_levels) as i32;
            let line = c_abi::field_at(data, n1 as usize, role);
            gpuzip_field_t { n2, n3, r#type: case.scalar, ..line }
        };
        self.rooms(case).enumerate().map(field).collect()
    }

    /// Returns the stream of a case, from arrays and into memory beside guards, and checks that
    /// every instruction level gives this stream; `None` if the codec does not exist here.
    fn compress(&mut self, case: &Case, side: Side) -> Option<Vec<u8>> {
        let (config, fields) = (case.config(), self.fields(case, side));
        for (k, room) in self.rooms(case).enumerate() {
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
            self.rooms(case).for_each(|room| room.piece(side, case.bytes()).fill(0xEE));
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
            let values = |room: &mut Guarded| room.piece(side, case.bytes()).to_vec();
            let arrays: Vec<Vec<u8>> = match status {
                GPUZIP_OK => self.rooms(case).map(values).collect(),
                _ => Vec::new(),
            };
            self.rooms(case).for_each(|room| room.check(side, case.bytes(), "array"));
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
    let cut = draw.below(good.len());
    assert_eq!(rig.decompress(&case, &good[..cut], at).0, GPUZIP_ERR_STREAM, "seed {seed}: {cut}");
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
                if status == GPUZIP_OK { arrays == whole } else { status == GPUZIP_ERR_STREAM },
                "seed {seed}: damage under a wrong checksum: {status}: {}",
                last_error()
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
                    is_masked: false,
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
