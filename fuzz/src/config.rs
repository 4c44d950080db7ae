//! Target for configuration files: parses a file, loads it through the C ABI, and plans with the
//! loaded configuration.

use crate::abi::{c_path, checked, config, field, file, folder, memory_required};
use gpuzip::capi::*;
use std::ffi::{CStr, CString};
use std::ptr::null;

/// Runs the target. The input is the text of a configuration file.
pub fn run(data: &[u8]) {
    folder();
    if let Ok(text) = std::str::from_utf8(data) {
        parse(text);
    }
    let path = c_path(&file("config", data));
    let mut loaded = config();
    // SAFETY: both pointers are to live values.
    if checked(unsafe { gpuzip_config_load(path.as_ptr(), &mut loaded) }).is_ok() {
        plan(&loaded);
        // SAFETY: gpuzip_config_load has filled the configuration.
        unsafe {
            checked(gpuzip_config_free(&mut loaded)).expect("what was loaded can be freed");
            checked(gpuzip_config_free(&mut loaded)).expect("freeing twice is harmless");
        }
        assert!(loaded.trace_file_path.is_null() && loaded.profile_path.is_null());
    }
}

/// Checks that parsed entries, written out again, are parsed to the same entries.
fn parse(text: &str) {
    let parse = |text| gpuzip::config::entries(text).collect::<gpuzip::error::Result<Vec<_>>>();
    let Ok(entries) = parse(text) else { return };
    if entries.iter().any(|entry| entry.key.contains('"') || entry.value.contains('"')) {
        return;
    }
    let lines = entries.iter().map(|entry| format!("{} = \"{}\"\n", entry.key, entry.value));
    // An empty line comes first: a byte-order mark is skipped only where the text begins with it.
    let written = String::from("\n") + &lines.collect::<String>();
    let again = parse(&written).expect("what was parsed can be written");
    assert!(
        entries.iter().map(|e| (&e.key, &e.value)).eq(again.iter().map(|e| (&e.key, &e.value))),
        "{written}"
    );
}

/// Plans a small problem with the configuration. Every file that the configuration names is
/// replaced by a file in the folder of this process: a fuzzer must not read or write elsewhere.
fn plan(loaded: &gpuzip_config_t) {
    let local = |path: *const std::ffi::c_char| -> Option<CString> {
        // SAFETY: the string is NULL or belongs to the loaded configuration.
        let text = (!path.is_null())
            .then(|| unsafe { CStr::from_ptr(path) })?
            .to_string_lossy()
            .into_owned();
        Some(c_path(&folder().join(text.replace('/', "_").chars().take(40).collect::<String>())))
    };
    let strings = [loaded.trace_file_path.cast_const(), loaded.profile_path].map(local);
    let [trace, profile] =
        strings.each_ref().map(|string| string.as_ref().map_or(null(), |s| s.as_ptr()));
    let used =
        gpuzip_config_t { trace_file_path: trace.cast_mut(), profile_path: profile, ..*loaded };
    let fields = [field([12, 5, 1], GPUZIP_TYPE_F32, 0), field([12, 5, 1], GPUZIP_TYPE_F32, 1)];
    for steps in [1, 37] {
        if let Ok(summary) = memory_required(&used, steps, &fields) {
            assert_eq!((summary.steps, summary.backward_steps), (steps, steps as u64));
        }
        let mut schedule = std::ptr::null_mut();
        // SAFETY: both pointers are to live values, the strings included.
        if checked(unsafe { gpuzip_schedule_create(&used, steps, &mut schedule) }).is_ok() {
            let mut summary = gpuzip_summary_t {
                struct_size: size_of::<gpuzip_summary_t>() as u64,
                ..Default::default()
            };
            // SAFETY: the schedule is a live handle, and the summary is a live value.
            let _ = checked(unsafe { gpuzip_schedule_summary(schedule, &mut summary) });
            checked(gpuzip_schedule_release(schedule)).expect("a live handle");
        }
    }
    let mut bytes = 0;
    // SAFETY: the pointers are to live values, the strings of the configuration included.
    let _ = checked(unsafe { gpuzip_codec_bound(&used, fields.as_ptr(), 2, &mut bytes) });
}
