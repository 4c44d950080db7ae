//! Target for profiles: a profile that is read must be written as the same bytes, and plans with it
//! must succeed or fail cleanly.

use crate::abi::{c_path, checked, config, field, file, folder, memory_required};
use crate::input::Input;
use gpuzip::capi::*;
use gpuzip::predict::Profile;

/// Bytes before the part of a profile that the checksum covers: magic, version, size and checksum.
const PREFIX: usize = 24;

/// Runs the target. The input is one byte for the size of the problem, two bytes for its budgets,
/// and a profile. The input does not contain the first 24 bytes of the profile, which are made
/// here, unless the first byte is 255.
pub fn run(data: &[u8]) {
    folder();
    let mut input = Input(data);
    let [size, device, host] = input.take();
    let body = input.rest();
    let bytes = if size == 255 { body.to_vec() } else { sealed(body) };
    info(&bytes);
    let Ok(profile) = Profile::from_bytes(&bytes) else { return };
    let written = profile.to_bytes();
    assert_eq!(
        Profile::from_bytes(&written).expect("what was written can be read").to_bytes(),
        written
    );
    plan(&written, size, device, host);
}

/// Returns the profile whose bytes from `PREFIX` on are `body`.
fn sealed(body: &[u8]) -> Vec<u8> {
    let mut bytes = Profile::free().to_bytes();
    bytes.truncate(PREFIX);
    bytes.extend(body);
    let (size, sum) = (bytes.len() as u64, gpuzip::codec::checksum(body, 0));
    bytes[8..16].copy_from_slice(&size.to_le_bytes());
    bytes[16..24].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Checks that the C ABI accepts the same profiles as `Profile::from_bytes`, and asks for every
/// codec and for one more.
fn info(bytes: &[u8]) {
    let mut info = gpuzip_profile_info_t {
        struct_size: size_of::<gpuzip_profile_info_t>() as u64,
        ..Default::default()
    };
    let mut of = |index| {
        // SAFETY: all pointers are to live values.
        checked(unsafe {
            gpuzip_profile_info(bytes.as_ptr().cast(), bytes.len() as u64, index, &mut info)
        })
        .map(|()| info)
    };
    assert_eq!(of(0).is_ok(), Profile::from_bytes(bytes).is_ok());
    if let Ok(first) = of(0) {
        for index in 0..=first.codecs.min(9) {
            let _ = of(index);
        }
    }
}

/// Plans with `auto` from the profile, raw and with codecs, within budgets of 0 to 255 states.
fn plan(bytes: &[u8], size: u8, device: u8, host: u8) {
    let path = c_path(&file("profile", bytes));
    let fields = [field([1 << (size % 16), 3, 1], GPUZIP_TYPE_F32, 0)];
    let state = 12u64 << (size % 16);
    for (compressor, backend) in
        [(GPUZIP_COMPRESSOR_NONE, 1), (GPUZIP_COMPRESSOR_AUTO, 1), (GPUZIP_COMPRESSOR_LORENZO, 0)]
    {
        let config = gpuzip_config_t {
            profile_path: path.as_ptr(),
            device_budget: state * u64::from(device),
            host_budget: state * u64::from(host),
            backend,
            compressor,
            error_bound: 1e-3,
            ..config()
        };
        let steps = 1 + i32::from(size) * 3;
        if let Ok(summary) = memory_required(&config, steps, &fields) {
            assert!(
                config.host_budget == 0
                    || compressor != 0
                    || summary.host_bytes <= config.host_budget,
                "{summary:?}"
            );
            assert_eq!(summary.backward_steps, steps as u64);
        }
    }
}
