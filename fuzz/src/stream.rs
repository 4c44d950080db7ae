//! Target for codec streams: decoding any bytes must succeed or fail cleanly, with the same result
//! for every instruction set, and decoded values can be coded again.

use crate::abi::{checked, config, field, folder};
use crate::guard::Guarded;
use crate::input::Input;
use gpuzip::capi::*;
use gpuzip::codec::simd::{levels, set_level};
use gpuzip::codec::{Content, Header, Shape};
use gpuzip::scalar::Scalar;
use std::cell::RefCell;

/// Largest number of fields of a case.
const MOST_FIELDS: usize = 3;

/// The first part of an input: codec, bound and fields of the stream.
struct Case {
    compressor: i32,
    rate: i32,
    bound: f64,
    fields: Vec<gpuzip_field_t>,
}

impl Case {
    fn of(input: &mut Input) -> Self {
        let compressor = input.of(&[4, 5, 3, 1, 6, 7, 0, 2]);
        let rate = 1 + input.below(64) as i32;
        let bound = (1.0 + f64::from(input.byte())) * 10f64.powi(-(input.below(8) as i32));
        let count = 1 + input.below(MOST_FIELDS);
        let mut fields: Vec<gpuzip_field_t> = (0..count)
            .map(|_| {
                let scalar = input.of(&[GPUZIP_TYPE_F32, GPUZIP_TYPE_F64]);
                let n = match input.below(4) {
                    0 => [1 + u64::from(input.byte()) * 5, 1, 1],
                    1 => [1 + input.below(48) as u64, 1 + input.below(33) as u64, 1],
                    _ => [
                        1 + input.below(20) as u64,
                        1 + input.below(12) as u64,
                        1 + input.below(9) as u64,
                    ],
                };
                field(n, scalar, 0)
            })
            .collect();
        // The second field can be the previous time level of the first field.
        if count > 1 && input.coin() {
            fields[1] = gpuzip_field_t { role: 1, ..fields[0] };
        }
        Case { compressor, rate, bound, fields }
    }

    fn config(&self) -> gpuzip_config_t {
        let (compressor, zfp_bit_rate, error_bound) = (self.compressor, self.rate, self.bound);
        gpuzip_config_t { compressor, zfp_bit_rate, error_bound, error_bound_mode: 1, ..config() }
    }
}

/// Runs the target. The input is a case, followed either by values, which are coded, and changes of
/// the stream, or by the payloads of a stream.
pub fn run(data: &[u8]) {
    folder();
    let mut input = Input(data);
    let case = Case::of(&mut input);
    let stream =
        if input.coin() { changed(&case, &mut input) } else { Some(forged(&case, &mut input)) };
    if let Some(stream) = stream {
        decode_at_every_level(&case, &stream);
    }
}

fn bytes_of(field: &gpuzip_field_t) -> usize {
    (field.n1 * field.n2 * field.n3) as usize * if field.r#type == GPUZIP_TYPE_F32 { 4 } else { 8 }
}

/// Memory for a case: arrays and a stream, each with a guard page behind it.
struct Memory {
    arrays: [Guarded; MOST_FIELDS],
    stream: Guarded,
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::new(Memory { arrays: std::array::from_fn(|_| Guarded::new()), stream: Guarded::new() });
}

/// Returns the fields with the memory of these arrays.
fn placed(case: &Case, arrays: &mut [Guarded]) -> Vec<gpuzip_field_t> {
    case.fields
        .iter()
        .zip(arrays)
        .map(|(field, array)| gpuzip_field_t { data: array.data(), ..*field })
        .collect()
}

/// Codes these arrays. Returns `None` if the codec is not available or the values are refused.
fn compress(case: &Case, arrays: &[Vec<u8>]) -> Option<Vec<u8>> {
    MEMORY.with_borrow_mut(|memory| {
        memory.arrays.iter_mut().zip(arrays).for_each(|(guarded, array)| guarded.copy(array));
        let (config, fields, mut size) = (case.config(), placed(case, &mut memory.arrays), 0);
        let count = fields.len() as u32;
        // SAFETY: the fields have their memory, and the stream has as many bytes as
        // gpuzip_codec_bound asked for.
        unsafe {
            checked(gpuzip_codec_bound(&config, fields.as_ptr(), count, &mut size)).ok()?;
            memory.stream.fill(size as usize, 0);
            checked(gpuzip_codec_compress(
                &config,
                fields.as_ptr(),
                count,
                memory.stream.data(),
                size,
                &mut size,
            ))
            .ok()?;
        }
        for (guarded, array) in memory.arrays.iter().zip(arrays) {
            assert!(guarded.bytes() == array, "compression changed its input");
        }
        Some(memory.stream.bytes()[..size as usize].to_vec())
    })
}

/// Decodes a stream into arrays that hold other values before.
fn decompress(case: &Case, stream: &[u8]) -> Result<Vec<Vec<u8>>, i32> {
    MEMORY.with_borrow_mut(|memory| {
        memory.stream.copy(stream);
        case.fields
            .iter()
            .zip(&mut memory.arrays)
            .for_each(|(field, array)| array.fill(bytes_of(field), 0x77));
        let fields = placed(case, &mut memory.arrays);
        let (data, count) = (memory.stream.data(), fields.len() as u32);
        // SAFETY: the fields have their memory.
        let result = checked(unsafe {
            gpuzip_codec_decompress(data, stream.len() as u64, fields.as_ptr(), count)
        });
        let arrays =
            memory.arrays.iter().take(fields.len()).map(|array| array.bytes().to_vec()).collect();
        result.map(|()| arrays)
    })
}

/// Codes values that are drawn from the input, changes some bytes of the payloads, and makes the
/// checksums again.
fn changed(case: &Case, input: &mut Input) -> Option<Vec<u8>> {
    let (kind, count) = (input.below(4), input.below(9));
    let changes: Vec<(u32, u8)> =
        (0..count).map(|_| (u32::from_le_bytes(input.take()), input.byte())).collect();
    let arrays: Vec<_> = case.fields.iter().map(|field| values(field, kind, input)).collect();
    let mut stream = compress(case, &arrays)?;
    assert!(
        decompress(case, &stream).is_ok(),
        "what was coded cannot be decoded: {}",
        crate::abi::last_error()
    );
    let mut at = 0;
    for k in 0..case.fields.len() {
        let Ok((header, _, bytes)) = Header::open(&stream[at..]) else {
            panic!("array {k} of what was coded cannot be opened")
        };
        for (place, value) in changes.iter().filter(|_| header.payload > 0) {
            stream[at + 64 + *place as usize % header.payload] ^= value;
        }
        assert_eq!(header.seal(&mut stream[at..]), bytes);
        at += bytes;
    }
    Some(stream)
}

/// Returns values drawn from the input. `kind`: 0 arbitrary bits, 1 a smooth line with noise, 2
/// small integers, 3 a few different values.
fn values(field: &gpuzip_field_t, kind: usize, input: &mut Input) -> Vec<u8> {
    let single = field.r#type == GPUZIP_TYPE_F32;
    let count = (field.n1 * field.n2 * field.n3) as usize;
    let value = |i: usize| {
        let drawn = if input.is_empty() { 0 } else { u64::from_le_bytes(input.take()) };
        let value = match kind {
            0 => return drawn.to_le_bytes()[..if single { 4 } else { 8 }].to_vec(),
            1 => i as f64 * 0.01 + (drawn % 16) as f64 * 0.1,
            2 => f64::from(drawn as u8 as i8),
            _ => (drawn % 3) as f64 * 0.37,
        };
        if single {
            (value as f32).to_le_bytes().to_vec()
        } else {
            value.to_le_bytes().to_vec()
        }
    };
    (0..count).flat_map(value).collect()
}

/// Makes a stream whose headers fit the fields, unless the input says otherwise. The payloads are
/// bytes of the input.
fn forged(case: &Case, input: &mut Input) -> Vec<u8> {
    let mut stream = Vec::new();
    let count = case.fields.len();
    for (k, of) in case.fields.iter().enumerate() {
        let content = input.of(&[
            Content::Coded,
            Content::Coded,
            Content::Coded,
            Content::Raw,
            Content::Constant,
            Content::Mask,
        ]);
        let scalar = if of.r#type == GPUZIP_TYPE_F32 { Scalar::F32 } else { Scalar::F64 };
        let mut n = [of.n1, of.n2, of.n3].map(|n| n as usize);
        let stray = input.byte();
        if stray == 255 {
            n = [input.u64(), input.u64(), input.u64()].map(|n| n as usize);
        }
        // A mask stands before the stream of the values.
        let both = [content, Content::Coded];
        for &content in &both[..if content == Content::Mask { 2 } else { 1 }] {
            let left = input.0.len() / (count - k);
            let payload = match content {
                Content::Raw => bytes_of(of),
                Content::Constant => 8,
                Content::Coded | Content::Mask => left.min(bytes_of(of) + 64),
            };
            let (own, rest) = input.0.split_at(left.min(payload));
            input.0 = rest;
            let header = Header {
                codec: if stray == 254 { input.byte() } else { case.compressor as u8 },
                content,
                field: if stray == 253 { 7 } else { k as u16 },
                reference: (of.role > 0 && stray & 1 == 1 || stray == 252).then_some(0),
                parameter: if case.compressor == 1 {
                    case.rate as u32
                } else {
                    u32::from(stray & 2 == 2 && case.compressor == 3)
                },
                shape: Shape { n, scalar },
                bound: if stray == 251 { f64::NAN } else { case.bound },
                payload,
            };
            let mut one = vec![0; (64 + payload).next_multiple_of(64)];
            one[64..64 + own.len()].copy_from_slice(own);
            header.seal(&mut one);
            stream.extend(one);
        }
    }
    stream
}

/// Checks that decoding gives the same result with every instruction set, that `gpuzip_codec_info`
/// knows every array, and that decoded values can be coded.
fn decode_at_every_level(case: &Case, stream: &[u8]) {
    let of_level = |level| {
        set_level(level);
        decompress(case, stream)
    };
    let results: Vec<_> = levels().into_iter().map(of_level).collect();
    assert!(
        results.windows(2).all(|pair| pair[0] == pair[1]),
        "instruction levels differ: {:?}",
        results.iter().map(|r| r.is_ok()).collect::<Vec<_>>()
    );
    let mut info = gpuzip_codec_info_t {
        struct_size: size_of::<gpuzip_codec_info_t>() as u64,
        ..Default::default()
    };
    for index in 0..=case.fields.len() as u32 {
        // SAFETY: all pointers are to live values.
        let told = checked(unsafe {
            gpuzip_codec_info(stream.as_ptr().cast(), stream.len() as u64, index, &mut info)
        });
        assert!(
            told.is_ok() == (index < case.fields.len() as u32) || results[0].is_err(),
            "array {index}: {told:?}"
        );
    }
    if let Some(Ok(arrays)) = results.into_iter().next() {
        if let Some(again) = compress(case, &arrays) {
            assert!(
                decompress(case, &again).is_ok(),
                "what was decoded and coded again cannot be decoded: {}",
                crate::abi::last_error()
            );
        }
    }
}
