//! The calls that choose an error bound from the error of the application's result.

use super::checked::{checked, checks, read};
use super::entry::{entry, entry_that_frees, not_null, Out};
use super::handles::{self, with_quality};
use super::quality_runs::QualityRuns;
use super::session::app_fields;
use super::types::*;
use crate::choice::Target;
use crate::codec::Method;
use crate::device::{memory_of, AppField, AppMemory};
use crate::error::{fail, Error, Result};
use crate::fallible_vec::{filled, with_room};
use crate::plan::Policy;
use crate::quality::{Compared, Quality, Run, Values};
use crate::scalar::Scalar;
use std::ptr::NonNull;

/// Begins to choose `error_bound` from the error of the application's result, as `config->quality`
/// asks: the application runs one shot several times, each time with a configuration that
/// `gpuzip_quality_next` gives, and hands over what it computed. The bound is an estimate for other shots;
/// `gpuzip_quality_check` measures one of them.
///
/// ```c
/// int32_t run;
/// gpuzip_quality_open(&config, &quality);
/// while (gpuzip_quality_next(quality, &config, &run) == GPUZIP_OK && run) {
///   migrate(&config, shot, image);
///   gpuzip_quality_result(quality, &image_as_field, 1);
/// }
/// ```
///
/// `migrate` makes a session of `config` for each run, and all shots follow with the last `config`.
/// `config` is copied but for its strings, which must stay valid until `gpuzip_quality_close`. Nothing
/// else is shared with sessions.
///
/// # Safety
/// `config` and `quality` are NULL or valid.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_quality_open(
    config: *const gpuzip_config_t,
    quality: *mut *mut gpuzip_quality_t,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(quality, "quality") }.fill("gpuzip_quality_open", || {
        // SAFETY: by this function's contract.
        let (given, config) = unsafe { (read(config)?, checked(config)?) };
        let Some(target) = config.codec.quality else {
            return fail!(
                Config,
                "quality is not set: name the error, such as gradient:1e-3 or image:60dB"
            );
        };
        let of_environment = checks(0)?;
        if of_environment > 0 {
            return fail!(
                Config,
                "quality = {target} with GPUZIP_CHECK = {of_environment} in the environment: a check makes all snapshots raw, so that no bound has \
                 an error; unset GPUZIP_CHECK while the bound is chosen"
            );
        }
        if let Method::Plugin(number) = config.codec.settings.method {
            log::info!(
                "quality with compressor = {number}: the registered codec must keep its bounds"
            );
        }
        let has_budget = config.tiers.device_budget > 0 || config.tiers.host_budget > 0;
        let is_planned = has_budget
            && config.tiers.policy == Policy::Clairvoyant
            && given.checkpointing_algorithm != GPUZIP_ALGORITHM_ONLINE;
        let bound = config.codec.settings.bound;
        let quality = Quality::new(target, bound, given.error_bound != 0.0);
        handles::add_quality(QualityRuns { quality, config: given, is_planned })
    })
}

/// Tells the next run. `*run` = 1: run the shot that is being measured, with a session of `*config`, and
/// give its result to `gpuzip_quality_result`. `*run` = 0: no run is left, and `*config` is the
/// configuration of all shots that follow, with the chosen `error_bound`.
///
/// The first run has raw snapshots. With a budget it has algorithm auto (unless the algorithm is online or
/// the policy lru), since raw snapshots may not fit as many as compressed ones; without one, the configured
/// schedule needs memory for its snapshots raw. The runs that follow differ in `error_bound` only.
/// `*config` is the configuration given to `gpuzip_quality_open` with the run's values; its `quality` is
/// NULL, and so is `persist_dir` while `*run` = 1: a restart measures the shot anew, and finds the
/// generations of the shots that follow. `check` is 0 while `*run` = 1: it makes all snapshots raw. Until a
/// result was taken, the call gives the same run again.
///
/// # Safety
/// `config` and `run` are NULL or valid.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_quality_next(
    quality: *mut gpuzip_quality_t,
    config: *mut gpuzip_config_t,
    run: *mut i32,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(run, "run") }.fill("gpuzip_quality_next", || {
        not_null(config, "config")?;
        with_quality(quality, |runs| {
            let next = runs.quality.next_run();
            // SAFETY: by this function's contract.
            unsafe { config.write_unaligned(runs.config_of(next)) };
            Ok(i32::from(!matches!(next, Run::Settled(_))))
        })
    })
}

/// Hands over the result of the run that `gpuzip_quality_next` told: the image or gradient of this shot
/// alone, FP32 or FP64 in host memory, as `nfields` fields whose `role` is 0. The result of the run with
/// raw snapshots is copied; the copy is freed when no run is left. Every field must keep the error, so
/// give parameters of different units as fields of their own. Values in the gaps between rows are not
/// compared. In the run with raw snapshots a result with NaN or infinities, a field that is 0 everywhere (for
/// images: constant), and values so small that squares of errors underflow are GPUZIP_ERR_VALUES; the run's
/// result is then still wanted. In the runs that follow a result with NaN or infinities has an infinite
/// error, and a tighter bound is tried.
///
/// # Safety
/// `result` points to `nfields` fields with their data.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_quality_result(
    quality: *mut gpuzip_quality_t,
    result: *const gpuzip_field_t,
    nfields: u32,
) -> gpuzip_status_t {
    entry("gpuzip_quality_result", || {
        // SAFETY: by this function's contract.
        let values = unsafe { values_of(result, nfields) }?;
        with_quality(quality, |runs| {
            let whole = runs.quality.compare(values)?.to_vec();
            runs.quality.judge(&whole)
        })
    })
}

/// As the first half of `gpuzip_quality_result`, for a result of which each rank has a part: writes three
/// numbers for each field to `sums`, and two to `maxima`. Add the sums of all ranks
/// (`MPI_Allreduce(MPI_IN_PLACE, sums, 3 * nfields, MPI_DOUBLE, MPI_SUM, communicator)`), take the maxima
/// (MPI_MAX, 2 * nfields), and give both to `gpuzip_quality_judge` on every rank: all ranks then choose one
/// bound. A rank without a part of a field gives it an extent of 0; its `data` may be NULL. Its sums are then 0
/// and its maxima -infinity. A field without values on all ranks is GPUZIP_ERR_VALUES when it is judged.
///
/// # Safety
/// As for `gpuzip_quality_result`; `sums` has room for 3 `nfields` numbers and `maxima` for 2 `nfields`.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_quality_compare(
    quality: *mut gpuzip_quality_t,
    result: *const gpuzip_field_t,
    nfields: u32,
    sums: *mut f64,
    maxima: *mut f64,
) -> gpuzip_status_t {
    entry("gpuzip_quality_compare", || {
        not_null(sums, "sums")?;
        not_null(maxima, "maxima")?;
        // SAFETY: by this function's contract.
        let values = unsafe { values_of(result, nfields) }?;
        with_quality(quality, |runs| {
            for (i, of) in runs.quality.compare(values)?.iter().enumerate() {
                // SAFETY: by this function's contract; `compare` gives one item for each field.
                unsafe {
                    let sums_of_field = [of.difference, of.norm, of.count];
                    sums.cast::<[f64; 3]>().add(i).write_unaligned(sums_of_field);
                    maxima.cast::<[f64; 2]>().add(i).write_unaligned([of.max, of.max_negative]);
                }
            }
            Ok(())
        })
    })
}

/// As the second half of `gpuzip_quality_result`: judges the run by the sums and maxima of all ranks. All
/// ranks give the same numbers, as many as `gpuzip_quality_compare` wrote, and get the same answer.
///
/// # Safety
/// `sums` and `maxima` point to as many numbers as `gpuzip_quality_compare` wrote.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_quality_judge(
    quality: *mut gpuzip_quality_t,
    sums: *const f64,
    maxima: *const f64,
    nfields: u32,
) -> gpuzip_status_t {
    entry("gpuzip_quality_judge", || {
        not_null(sums, "sums")?;
        not_null(maxima, "maxima")?;
        let mut whole = with_room(nfields as usize)?;
        whole.extend((0..nfields as usize).map(|i| {
            // SAFETY: by this function's contract.
            let ([difference, norm, count], [max, max_negative]) = unsafe {
                (
                    sums.cast::<[f64; 3]>().add(i).read_unaligned(),
                    maxima.cast::<[f64; 2]>().add(i).read_unaligned(),
                )
            };
            Compared { difference, norm, count, max, max_negative }
        }));
        with_quality(quality, |runs| runs.quality.judge(&whole))
    })
}

/// Begins to measure another shot, once no run is left: with raw snapshots, and with the chosen bound. If
/// the result's error is larger than asked, further runs of this shot choose a tighter bound; the bound
/// never becomes looser. Go on with `gpuzip_quality_next`.
#[no_mangle]
pub extern "C" fn gpuzip_quality_check(quality: *mut gpuzip_quality_t) -> gpuzip_status_t {
    entry("gpuzip_quality_check", || with_quality(quality, |runs| runs.quality.check()))
}

/// Tells what was measured and chosen so far.
///
/// # Safety
/// `info` is NULL or points to a `gpuzip_quality_info_t` whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_quality_info(
    quality: *mut gpuzip_quality_t,
    info: *mut gpuzip_quality_info_t,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(info, "info") }.fill_sized("gpuzip_quality_info", || {
        with_quality(quality, |runs| {
            let (target, found) = (runs.quality.target(), runs.quality.found());
            Ok(gpuzip_quality_info_t {
                asked: target.in_unit(target.fraction()),
                error_bound: found.bound,
                chosen_error: found.settled_error,
                last_error: found.error,
                field: found.field as u32,
                runs: found.runs,
                shots: found.shots,
                ..Default::default()
            })
        })
    })
}

/// Gives the handle back, and the memory of what was measured.
#[no_mangle]
pub extern "C" fn gpuzip_quality_close(quality: *mut gpuzip_quality_t) -> gpuzip_status_t {
    entry_that_frees("gpuzip_quality_close", || handles::remove_quality(quality))
}

/// Copies the values of a result.
///
/// # Safety
/// `result` is NULL or points to `nfields` fields with their data.
unsafe fn values_of(result: *const gpuzip_field_t, nfields: u32) -> Result<Vec<Values>> {
    not_null(result, "result")?;
    if nfields == 0 {
        return fail!(Argument, "nfields = 0: a result has at least one field");
    }
    // SAFETY: by this function's contract.
    let mut fields = unsafe { app_fields(result, nfields) }?;
    for (i, AppField { field, .. }) in fields.iter().enumerate() {
        if let Some(k) = field.previous_of {
            let role = u64::from(k) + 1;
            return fail!(Argument, "field {i}: role = {role}: the fields of a result have role 0");
        }
        if !matches!(field.scalar, Scalar::F32 | Scalar::F64) {
            let name = field.scalar.name();
            return fail!(Argument, "field {i}: {name}: a result is FP32 or FP64");
        }
        let [n1, n2, n3] = field.n;
        if field.bytes().is_none() {
            return fail!(
                Argument,
                "field {i}: {n1} x {n2} x {n3} values do not fit the address space"
            );
        }
    }
    let remedy = "copy the result to host memory first";
    Target::Host.check(&fields).map_err(|e| Error::new(e.code, format!("{e}; {remedy}")))?;
    for AppField { memory, .. } in fields.iter_mut().filter(|f| f.field.n.contains(&0)) {
        // SAFETY: 0 bytes are read there.
        *memory = Some(unsafe { AppMemory::new(NonNull::dangling().as_ptr(), 0) });
    }
    let memory = memory_of(&fields)?;
    let mut all = with_room(fields.len())?;
    for (AppField { field, .. }, memory) in fields.iter().zip(memory) {
        let count = memory.rows().bytes() / field.scalar.bytes() as usize;
        // SAFETY: the rows lie in the memory of the field, by this function's contract, and the vector has
        // room for all their values.
        let copied = |to: *mut u8| unsafe { memory.rows().gather(memory.address(), to) };
        all.push(if field.scalar == Scalar::F32 {
            let mut values = filled(0f32, count)?;
            copied(values.as_mut_ptr().cast());
            Values::F32(values)
        } else {
            let mut values = filled(0f64, count)?;
            copied(values.as_mut_ptr().cast());
            Values::F64(values)
        });
    }
    Ok(all)
}
