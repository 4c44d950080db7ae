//! Codec streams: whatever their bytes are, decoding ends well, at every instruction level alike, and what decodes can be told and coded again.

use crate::abi::{checked, config, field, folder};
use crate::input::Input;
use gpuzip::capi::*;
use gpuzip::codec::simd::{levels, set_level};
use gpuzip::codec::{Content, Header, Shape};
use gpuzip::snapshot::Scalar;
use std::ffi::c_void;

/// What an input begins with: the stream that it is.
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
        let count = 1 + input.below(3);
        let mut fields: Vec<gpuzip_field_t> = (0..count)
            .map(|_| {
                let scalar = input.of(&[GPUZIP_TYPE_F32, GPUZIP_TYPE_F64]);
                let n = match input.below(4) {
                    0 => [1 + u64::from(input.byte()) * 5, 1, 1],
                    1 => [1 + input.below(48) as u64, 1 + input.below(33) as u64, 1],
                    _ => [1 + input.below(20) as u64, 1 + input.below(12) as u64, 1 + input.below(9) as u64],
                };
                field(n, scalar, 0)
            })
            .collect();
        // The second may be the previous time level of the first.
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

/// The input: the shapes and the codec; then either values, which are coded, and changes of the stream, or the payloads of a stream.
pub fn run(data: &[u8]) {
    folder();
    let mut input = Input(data);
    let case = Case::of(&mut input);
    let stream = if input.coin() { changed(&case, &mut input) } else { Some(forged(&case, &mut input)) };
    if let Some(stream) = stream {
        decode_at_every_level(&case, &stream);
    }
}

fn bytes_of(field: &gpuzip_field_t) -> usize {
    (field.n1 * field.n2 * field.n3) as usize * if field.r#type == GPUZIP_TYPE_F32 { 4 } else { 8 }
}

/// Memory for the fields, exactly as large as they are.
fn memory_of(case: &Case) -> Vec<Vec<u64>> {
    case.fields.iter().map(|field| vec![0; bytes_of(field).div_ceil(8)]).collect()
}

fn placed(case: &Case, memory: &mut [Vec<u64>]) -> Vec<gpuzip_field_t> {
    let place = |(field, memory): (&gpuzip_field_t, &mut Vec<u64>)| gpuzip_field_t { data: memory.as_mut_ptr().cast::<c_void>(), ..*field };
    case.fields.iter().zip(memory).map(place).collect()
}

/// Codes what the memory holds; `None` where the codec does not exist here or the values are refused.
fn compress(case: &Case, memory: &mut [Vec<u64>]) -> Option<Vec<u8>> {
    let (config, fields, mut size) = (case.config(), placed(case, memory), 0);
    let count = fields.len() as u32;
    // SAFETY: the fields have their memory, and the stream has the room that was asked for.
    unsafe {
        checked(gpuzip_codec_bound(&config, fields.as_ptr(), count, &mut size)).ok()?;
        let mut stream = vec![0u8; size as usize];
        let capacity = size;
        checked(gpuzip_codec_compress(&config, fields.as_ptr(), count, stream.as_mut_ptr().cast(), capacity, &mut size)).ok()?;
        stream.truncate(size as usize);
        stream.shrink_to_fit();
        Some(stream)
    }
}

fn decompress(case: &Case, stream: &[u8]) -> Result<Vec<Vec<u64>>, i32> {
    let mut memory = memory_of(case);
    let fields = placed(case, &mut memory);
    let (data, count) = (stream.as_ptr().cast(), fields.len() as u32);
    // SAFETY: the fields have their memory.
    checked(unsafe { gpuzip_codec_decompress(data, stream.len() as u64, fields.as_ptr(), count) }).map(|()| memory)
}

/// A stream of values that are drawn from the input, with some of its payloads' bytes changed and the checksums made again.
fn changed(case: &Case, input: &mut Input) -> Option<Vec<u8>> {
    let mut memory = memory_of(case);
    let (kind, count) = (input.below(4), input.below(9));
    let changes: Vec<(u32, u8)> = (0..count).map(|_| (u32::from_le_bytes(input.take()), input.byte())).collect();
    for (k, words) in memory.iter_mut().enumerate() {
        fill(words, case.fields[k].r#type, kind, input);
    }
    let mut stream = compress(case, &mut memory)?;
    assert!(decompress(case, &stream).is_ok(), "what was coded cannot be decoded: {}", crate::abi::last_error());
    let mut at = 0;
    for k in 0..case.fields.len() {
        let Ok((header, _, bytes)) = Header::open(&stream[at..]) else { panic!("array {k} of what was coded cannot be opened") };
        for (place, value) in changes.iter().filter(|_| header.payload > 0) {
            stream[at + 64 + *place as usize % header.payload] ^= value;
        }
        assert_eq!(header.seal(&mut stream[at..]), bytes);
        at += bytes;
    }
    Some(stream)
}

/// Values: the input's bits, a smooth line with the input's bits now and then, small integers, or few different values.
fn fill(words: &mut [u64], scalar: i32, kind: usize, input: &mut Input) {
    let per_word = if scalar == GPUZIP_TYPE_F32 { 2 } else { 1 };
    for (i, word) in words.iter_mut().enumerate() {
        let drawn = if input.is_empty() { 0 } else { input.u64() };
        let value = |j: usize| match kind {
            1 => (per_word * i + j) as f64 * 0.01 + (drawn % 16) as f64 * 0.1,
            2 => (drawn >> (8 * j)) as u8 as i8 as f64,
            _ => ((drawn >> j) % 3) as f64 * 0.37,
        };
        *word = match (kind, per_word) {
            (0, _) => drawn,
            (_, 2) => u64::from((value(0) as f32).to_bits()) | u64::from((value(1) as f32).to_bits()) << 32,
            _ => value(0).to_bits(),
        };
    }
}

/// A stream whose headers fit the fields, unless the input says otherwise, and whose payloads are the input's bytes.
fn forged(case: &Case, input: &mut Input) -> Vec<u8> {
    let mut stream = Vec::new();
    let count = case.fields.len();
    for (k, of) in case.fields.iter().enumerate() {
        let content = input.of(&[Content::Coded, Content::Coded, Content::Coded, Content::Raw, Content::Constant]);
        let scalar = if of.r#type == GPUZIP_TYPE_F32 { Scalar::F32 } else { Scalar::F64 };
        let mut n = [of.n1, of.n2, of.n3].map(|n| n as usize);
        let stray = input.byte();
        if stray == 255 {
            n = [input.u64(), input.u64(), input.u64()].map(|n| n as usize);
        }
        let left = input.0.len() / (count - k);
        let payload = match content {
            Content::Raw => bytes_of(of),
            Content::Constant => 8,
            Content::Coded => left.min(bytes_of(of) + 64),
        };
        let (own, rest) = input.0.split_at(left.min(payload));
        input.0 = rest;
        let header = Header {
            codec: if stray == 254 { input.byte() } else { case.compressor as u8 },
            content,
            field: if stray == 253 { 7 } else { k as u16 },
            reference: (of.role > 0 && stray & 1 == 1 || stray == 252).then_some(0),
            parameter: if case.compressor == 1 { case.rate as u32 } else { u32::from(stray & 2 == 2 && case.compressor == 3) },
            shape: Shape { n, scalar },
            bound: if stray == 251 { f64::NAN } else { case.bound },
            payload,
        };
        let mut one = vec![0; (64 + payload).next_multiple_of(64)];
        one[64..64 + own.len()].copy_from_slice(own);
        header.seal(&mut one);
        stream.extend(one);
    }
    stream.shrink_to_fit();
    stream
}

/// Every instruction level gives the same result, and what decodes is known to `gpuzip_codec_info` and can be coded.
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
    let mut info = gpuzip_codec_info_t { struct_size: size_of::<gpuzip_codec_info_t>() as u64, ..Default::default() };
    for index in 0..=case.fields.len() as u32 {
        // SAFETY: all pointers are to live values.
        let told = checked(unsafe { gpuzip_codec_info(stream.as_ptr().cast(), stream.len() as u64, index, &mut info) });
        assert!(told.is_ok() == (index < case.fields.len() as u32) || results[0].is_err(), "array {index}: {told:?}");
    }
    if let Some(Ok(mut memory)) = results.into_iter().next() {
        if let Some(again) = compress(case, &mut memory) {
            assert!(decompress(case, &again).is_ok(), "what was decoded and coded again cannot be decoded: {}", crate::abi::last_error());
        }
    }
}
