//! What the benchmarks share: an application with one field, and functions that run and time its
//! sweeps.

#![allow(dead_code)]

use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::layout::Field;
use gpuzip::scalar::Scalar;
use gpuzip::schedule::Kind;
use gpuzip::session::Session;
use gpuzip::stats::Stats;
use std::time::Instant;

/// The calling thread as a stream.
pub const HOST: Stream = Stream(std::ptr::null_mut());

/// Returns number of cores and name of the processor.
pub fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown", |m| m.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{cores} cores, {model}")
}

/// Returns a field of `values` FP32 values.
pub fn field(values: usize) -> Field {
    Field { n: [values as u64, 1, 1], scalar: Scalar::F32, previous_of: None }
}

/// Returns the session's view of `data`.
pub fn app_field(data: &mut [f32]) -> AppField {
    // SAFETY: the caller borrows `data` for the call that the field is made for; the host backend
    // does not access `data` after this call has returned.
    let memory = unsafe { AppMemory::new(data.as_mut_ptr().cast(), std::mem::size_of_val(data)) };
    AppField { field: field(data.len()), memory: Some(memory) }
}

/// Runs one sweep of an application whose steps are `step`. Returns its time in seconds and the
/// session's statistics.
pub fn sweep(
    session: &mut Session,
    data: &mut [f32],
    mut step: impl FnMut(&mut [f32]),
) -> (f64, Stats) {
    session.setup().unwrap();
    let begin = Instant::now();
    loop {
        let action = session.get_action().unwrap().action;
        match action.kind {
            Kind::Forward | Kind::Backward => step(data),
            Kind::Save => session.save(action.ts.into(), &[app_field(data)], HOST).unwrap(),
            Kind::Restore => session.retrieve(action.ts.into(), &[app_field(data)], HOST).unwrap(),
            Kind::Terminate => return (begin.elapsed().as_secs_f64(), session.stats().unwrap()),
            Kind::Error => unreachable!("no schedule has it"),
        }
    }
}

/// Returns the median.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
