//! Arrays of an application in device memory, coded without a session by `gpuzip_codec_encode` and
//! `gpuzip_codec_decode`, and compared with the host's calls.

use super::app::device::{Memory, Own, Pinned};
use super::app::ok;
use super::c_abi::{config, works};
use super::emu;
use gpuzip::capi::*;
use gpuzip::codec::{Content, Header};
use gpuzip::scalar::Scalar;
use std::ffi::c_void;
use std::ptr::null_mut;

/// An array of the application: values in rows, of which each value behind a row is no value of the array.
#[derive(Clone)]
pub struct Shape {
    pub n: [u64; 3],
    pub scalar: Scalar,
    pub pitches: [u64; 2],
}

impl Shape {
    pub fn contiguous(&self) -> Self {
        Shape { pitches: [0; 2], ..self.clone() }
    }

    /// Offsets of the values in the memory of the array, and the values that the memory has room for.
    pub fn places(&self) -> (Vec<usize>, usize) {
        let [n1, n2, n3] = self.n.map(|n| n as usize);
        let pitch2 = if self.pitches[0] == 0 { n1 } else { self.pitches[0] as usize };
        let pitch3 = if self.pitches[1] == 0 { n2 * pitch2 } else { self.pitches[1] as usize };
        let row = |k: usize| k / n2 * pitch3 + k % n2 * pitch2;
        let places: Vec<usize> = (0..n2 * n3).flat_map(|k| row(k)..row(k) + n1).collect();
        (places, (n3 - 1) * pitch3 + (n2 - 1) * pitch2 + n1 + 3)
    }

    pub fn field(&self, data: *mut c_void, role: i32) -> gpuzip_field_t {
        let ([n1, n2, n3], [pitch2, pitch3]) = (self.n, self.pitches);
        let r#type = self.scalar as i32;
        gpuzip_field_t { data, n1, n2, n3, r#type, role, pitch2, pitch3, reserved: [0; 2] }
    }
}

/// Fields on the device, room for a stream and for the work space, and a result.
pub struct Bench {
    pub config: gpuzip_config_t,
    pub shapes: Vec<(Shape, i32)>,
    pub fields: Vec<Memory>,
    pub coded: Memory,
    pub room: u64,
    pub work: Memory,
    pub work_bytes: u64,
    pub result: Pinned,
    pub stream: Own,
}

impl Bench {
    pub fn new(config: gpuzip_config_t, shapes: &[(Shape, i32)]) -> Self {
        let unplaced: Vec<_> = shapes.iter().map(|(s, role)| s.field(null_mut(), *role)).collect();
        let (mut room, mut work_bytes) = (0, 0);
        let count = shapes.len() as u32;
        // SAFETY: all pointers are to live values.
        unsafe {
            works(gpuzip_codec_bound(&config, unplaced.as_ptr(), count, &mut room));
            works(gpuzip_codec_work(&config, unplaced.as_ptr(), count, &mut work_bytes));
        }
        let bytes = |shape: &Shape| shape.places().1 as u64 * shape.scalar.bytes();
        Bench {
            config,
            shapes: shapes.to_vec(),
            fields: shapes.iter().map(|(shape, _)| Memory::new(bytes(shape))).collect(),
            coded: Memory::new(room),
            room,
            work: Memory::new(work_bytes),
            work_bytes,
            result: Pinned::new(size_of::<gpuzip_codec_result_t>() as u64),
            stream: Own::new(),
        }
    }

    pub fn fields(&self) -> Vec<gpuzip_field_t> {
        let fields = self.shapes.iter().zip(&self.fields);
        fields.map(|((shape, role), memory)| shape.field(memory.0 as *mut c_void, *role)).collect()
    }

    pub fn result(&self) -> gpuzip_codec_result_t {
        ok!(cuStreamSynchronize(self.stream.0));
        // SAFETY: the kernel that wrote the result has ended.
        unsafe { self.result.0.cast::<gpuzip_codec_result_t>().read_volatile() }
    }

    pub fn encode(&self) -> i32 {
        let fields = self.fields();
        // SAFETY: all pointers are to live memory of the sizes given.
        unsafe {
            gpuzip_codec_encode(
                &self.config,
                fields.as_ptr(),
                fields.len() as u32,
                self.coded.0 as *mut c_void,
                self.room,
                self.work.0 as *mut c_void,
                self.work_bytes,
                self.result.0.cast(),
                self.stream.0.cast(),
            )
        }
    }

    /// Decodes; the stream is said to have `bytes` bytes.
    pub fn decode(&self, bytes: u64) -> i32 {
        let fields = self.fields();
        // SAFETY: all pointers are to live memory of the sizes given.
        unsafe {
            gpuzip_codec_decode(
                &self.config,
                self.coded.0 as *const c_void,
                bytes,
                fields.as_ptr(),
                fields.len() as u32,
                self.work.0 as *mut c_void,
                self.work_bytes,
                self.result.0.cast(),
                self.stream.0.cast(),
            )
        }
    }

    /// Copies to the device; the host waits.
    pub fn send(&self, to: u64, from: &[u8]) {
        ok!(cuMemcpyAsync(to, from.as_ptr() as u64, from.len(), self.stream.0));
        ok!(cuStreamSynchronize(self.stream.0));
    }

    /// Copies from the device; the host waits.
    pub fn receive(&self, from: u64, bytes: usize) -> Vec<u8> {
        let mut to = vec![0u8; bytes];
        ok!(cuMemcpyAsync(to.as_mut_ptr() as u64, from, bytes, self.stream.0));
        ok!(cuStreamSynchronize(self.stream.0));
        to
    }

    /// Encodes these contiguous values on the device and on the host, compares the streams, and lets each side
    /// decode the other's. Returns whether every array is coded.
    pub fn check(&self, given: &[Vec<u8>], same_bytes: bool) -> bool {
        let images: Vec<Vec<u8>> = self
            .shapes
            .iter()
            .zip(given)
            .map(|((shape, _), values)| spread(shape, values, 0x5A))
            .collect();
        self.fields.iter().zip(&images).for_each(|(memory, image)| self.send(memory.0, image));
        let before = emu::counters().host_syncs;
        works(self.encode());
        assert_eq!(emu::counters().host_syncs, before, "the host waited");
        let result = self.result();
        assert_eq!((result.status, result.field, result.count), (GPUZIP_OK, 0, 0));
        let stream = self.receive(self.coded.0, result.bytes as usize);
        let (on_host, expected) = host_round_trip(&self.config, &self.shapes, given, &stream);
        if same_bytes {
            assert!(on_host == stream, "{} and {} bytes", on_host.len(), stream.len());
        }
        // The device decodes the host's stream, whose size it is not told, into fields of other values.
        self.send(self.coded.0, &on_host);
        for (memory, image) in self.fields.iter().zip(&images) {
            self.send(memory.0, &vec![0x5A; image.len()]);
        }
        let before = emu::counters().host_syncs;
        works(self.decode(self.room));
        assert_eq!(emu::counters().host_syncs, before, "the host waited");
        let result = self.result();
        assert_eq!((result.status, result.bytes), (GPUZIP_OK, on_host.len() as u64));
        for (((shape, _), memory), values) in self.shapes.iter().zip(&self.fields).zip(&expected) {
            let image = spread(shape, values, 0x5A);
            assert!(self.receive(memory.0, image.len()) == image, "{:?}", shape.n);
        }
        contents(&stream).iter().all(|&content| content == Content::Coded)
    }
}

fn contents(stream: &[u8]) -> Vec<Content> {
    let (mut rest, mut found) = (stream, Vec::new());
    while !rest.is_empty() {
        let (header, _, bytes) = Header::open(rest).unwrap();
        found.push(header.content);
        rest = &rest[bytes..];
    }
    found
}

/// The memory of an array with these values, and with `gap` in all other bytes.
pub fn spread(shape: &Shape, values: &[u8], gap: u8) -> Vec<u8> {
    let ((places, room), value) = (shape.places(), shape.scalar.bytes() as usize);
    let mut image = vec![gap; room * value];
    for (at, from) in places.into_iter().zip(values.chunks(value)) {
        image[at * value..][..value].copy_from_slice(from);
    }
    image
}

/// What the host's calls make of these values, and the values that they decode from that. They can decode
/// `stream`, too.
fn host_round_trip(
    config: &gpuzip_config_t,
    shapes: &[(Shape, i32)],
    given: &[Vec<u8>],
    stream: &[u8],
) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (mut values, mut bytes) = (given.to_vec(), 0);
    let fields: Vec<_> = shapes
        .iter()
        .zip(&mut values)
        .map(|((shape, role), values)| shape.contiguous().field(values.as_mut_ptr().cast(), *role))
        .collect();
    let count = fields.len() as u32;
    let mut made = Vec::new();
    // SAFETY: all pointers are to live memory.
    unsafe {
        works(gpuzip_codec_bound(config, fields.as_ptr(), count, &mut bytes));
        made.resize(bytes as usize, 0u8);
        let to = made.as_mut_ptr().cast();
        works(gpuzip_codec_compress(config, fields.as_ptr(), count, to, bytes, &mut bytes));
        made.truncate(bytes as usize);
        for stream in [stream, &made] {
            let (from, bytes) = (stream.as_ptr().cast(), stream.len() as u64);
            works(gpuzip_codec_decompress(from, bytes, fields.as_ptr(), count));
        }
    }
    (made, values)
}

pub fn shape(n: [u64; 3], scalar: Scalar, pitches: [u64; 2]) -> Shape {
    Shape { n, scalar, pitches }
}

/// A configuration with this codec.
pub fn codec(compressor: i32) -> gpuzip_config_t {
    gpuzip_config_t { compressor, ..config() }
}
