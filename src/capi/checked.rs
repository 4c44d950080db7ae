//! Reads the caller's configuration and checks the values in it. Keys of codecs that are not chosen
//! and keys without effect are not checked.

use super::defaults::ZERO;
use super::entry::{choice, not_null, read_sized, text_of, zero_words};
use super::keys::of_retired;
use super::logging::{level_of, set_level};
use super::types::*;
use crate::codec::{Delta, ErrorBound, FillValue, Method, Settings};
use crate::config::{
    Backend, CodecOptions, Config, DeviceOptions, ReportOptions, RestartOptions, ScheduleOptions,
    TierOptions, MOST_THREADS,
};
use crate::environment;
use crate::error::{fail, Code, Error, Result};
use crate::files;
use crate::numbers;
use crate::persist::{Name, MOST_INCREMENTAL};
use crate::plan::Policy;
use crate::predict::Profile;
use crate::quality;
use crate::schedule::{Algorithm, MOST_CHECKS};
use std::ffi::CStr;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Returns `struct_size` of the caller's configuration, in bytes.
///
/// # Safety
/// `config` points to a configuration that has at least block 1 and `struct_size`.
pub(super) unsafe fn size_of_caller(config: *const gpuzip_config_t) -> u64 {
    // SAFETY: `struct_size` ends block 1 and has the same place in every version.
    unsafe { (&raw const (*config).struct_size).read_unaligned() }
}

/// `gpuzip_config_init` fills a struct whose size it cannot know, so the size is frozen: a new
/// field takes the place of reserved words.
const _: () = assert!(std::mem::size_of::<gpuzip_config_t>() == 368);

/// Copies the caller's configuration: the whole struct, or block 1 only if `struct_size` is 0.
///
/// # Safety
/// `config` is NULL or as for `size_of_caller`; if `struct_size` is at most `LARGEST_INPUT`,
/// `config` points to that many bytes.
pub(super) unsafe fn read(config: *const gpuzip_config_t) -> Result<gpuzip_config_t> {
    not_null(config, "config")?;
    // SAFETY: `config` is not NULL, so by this function's contract it points to a configuration.
    let size = unsafe { size_of_caller(config) };
    if size != 0 {
        let remedy = "call gpuzip_config_init first, or set it to 0 for block 1 only";
        // SAFETY: by this function's contract.
        return unsafe { read_sized(config, "config", size, remedy, Code::Config) };
    }
    let mut copy = ZERO;
    // SAFETY: block 1 ends where `struct_size` begins, in the caller's struct and in the library's.
    unsafe {
        let block_1 = std::mem::offset_of!(gpuzip_config_t, struct_size);
        std::ptr::copy_nonoverlapping(config.cast::<u8>(), (&raw mut copy).cast::<u8>(), block_1);
    }
    Ok(copy)
}

/// Reads and checks a configuration, and sets the log level that it asks for.
///
/// # Safety
/// As `checked`.
pub(super) unsafe fn adopted(config: *const gpuzip_config_t) -> Result<Config> {
    // SAFETY: by this function's contract.
    let (given, checked) = unsafe {
        let given = read(config)?;
        (given, checked_copy(&given)?)
    };
    // A struct that nobody filled says DEBUG, too, and comes to an error.
    let filled =
        given.checkpointing_algorithm != GPUZIP_ALGORITHM_TRACE || !given.trace_file_path.is_null();
    if filled {
        set_level(given.log_level)?;
    }
    if filled && given.struct_size == 0 {
        log::info!(
            "struct_size = 0: only the keys before struct_size were read, the others have their \
             defaults; call gpuzip_config_init first to set others"
        );
    }
    if let Some(quality) = checked.codec.quality {
        return fail!(
            Config,
            "quality = {quality}: this program does not measure the error of its result (gpuzip_quality_open), so that nothing would keep it: \
             remove the key and set error_bound"
        );
    }
    match checked.schedule.check {
        0 => warn_of_bound(&given, &checked),
        times => log::warn!("check = {times}: every state is computed again and compared, from raw snapshots: the run takes longer"),
    }
    if given.reserved_huge_pages != 0 {
        log::warn!("{}", of_retired("huge_pages"));
    }
    Ok(checked.checking(0))
}

/// Reads and checks a configuration, without effect on the log level.
///
/// # Safety
/// `config` is NULL or points to a configuration whose strings are NULL or valid.
pub(super) unsafe fn checked(config: *const gpuzip_config_t) -> Result<Config> {
    // SAFETY: by this function's contract.
    unsafe { checked_copy(&read(config)?) }
}

/// Reads a key of a configuration whose values 0, 1, ... stand for `$value`, or for false and true;
/// `$text` says so.
macro_rules! one_of {
    ($given:ident.$key:ident, $text:literal) => {
        one_of!($given.$key, $text: false, true)
    };
    ($given:ident.$key:ident, $text:literal: $($value:expr),*) => {
        choice(stringify!($key), $given.$key, &[$($value),*], $text)?
    };
}

/// Checks the library's copy of a configuration.
///
/// # Safety
/// The strings of `given` are NULL or valid.
unsafe fn checked_copy(given: &gpuzip_config_t) -> Result<Config> {
    zero_words("config->reserved0", &[given.reserved0 as u64], Code::Config)?;
    zero_words("config->reserved", &given.reserved, Code::Config)?;
    level_of(given.log_level)?;
    // SAFETY: by this function's contract.
    let text = |pointer| unsafe { text_of(pointer) };
    let kind = text(given.float_kind).map_or(&b""[..], CStr::to_bytes);
    if !matches!(kind, b"" | b"float" | b"double") {
        let kind = kind.escape_ascii();
        return fail!(Config, "float_kind = \"{kind}\": use \"float\" or \"double\"");
    }
    let path = |pointer| text(pointer).filter(|path| !path.is_empty()).map(file_of);
    let folders = text(given.disk_path).map(file_of).unwrap_or_default();
    let folders = std::env::split_paths(&folders).filter(|folder| !folder.as_os_str().is_empty());
    let config = Config {
        schedule: schedule(given, text(given.trace_file_path).map(file_of))?,
        tiers: tiers(given, folders.collect())?,
        device: device(given, path(given.profile_path))?,
        codec: codec(given, [given.quality, given.fill_value].map(text))?,
        report: ReportOptions {
            trace_out: path(given.trace_out),
            log_ratio: one_of!(given.enable_compression_rate_log, "0 or 1"),
            performance_log: one_of!(given.enable_performance_log, "0 or 1"),
        },
        restart: RestartOptions {
            folder: path(given.persist_dir),
            shared_folder: path(given.persist_shared_dir),
            whole_every: whole_every(given.persist_whole_every)?,
            stages: stages(text(given.persist_stages))?,
            strict: one_of!(given.strict, "0 (a warning) or 1 (an error)"),
            overhead: within(
                "persist_overhead",
                given.persist_overhead,
                0.0..=1.0,
                "a share of the run time, up to 1, or 0 for 0.035",
            )?,
            stop_budget: within(
                "stop_budget_s",
                given.stop_budget_s,
                0.0..=1e9,
                "seconds, up to 1e9, or 0 for 1.5",
            )?,
        },
    };
    config.modes().check()?;
    check_sequences(given, &config)?;
    Ok(config)
}

/// Fails if snapshots are to lean on those of later states and the configuration does not store all states,
/// one after the other, with a codec that can do that.
fn check_sequences(given: &gpuzip_config_t, config: &Config) -> Result<()> {
    let gpuzip_config_t { compressor, checkpointing_algorithm: algorithm, .. } = *given;
    let codec = &config.codec.settings;
    if !codec.sequences {
        return Ok(());
    }
    if codec.method != Method::Dct {
        return fail!(Config, "sequences = 1 with compressor = {compressor}: use 5 (dct)");
    }
    if !matches!(config.schedule.algorithm, None | Some(Algorithm::StoreAll)) {
        return fail!(
            Config,
            "sequences = 1 with checkpointing_algorithm = {algorithm}: the state that a snapshot leans on must be restored just before it; use 6 \
             (store-all), or 4 (auto), which may take store-all"
        );
    }
    Ok(())
}

fn schedule(given: &gpuzip_config_t, trace_file: Option<PathBuf>) -> Result<ScheduleOptions> {
    Ok(ScheduleOptions {
        trace_file,
        algorithm: algorithm_of(given.checkpointing_algorithm)?,
        snapshots: count("checkpointing_snaps", given.checkpointing_snaps)?,
        chunk: count("schedule_chunk", given.schedule_chunk)?,
        adjust_snapshots: one_of!(given.snapshot_rule, "0 (set or budgets) or 1 (GPUZIP's adjust)"),
        uniform_published: one_of!(given.uniform_reading, "0 (ours) or 1 (as published)"),
        range_actions: one_of!(given.range_actions, "0 (one step per FORWARD) or 1 (ranges)"),
        adjoint_every: count("adjoint_every", given.adjoint_every)?,
        sweeps: count("sweeps", given.sweeps)?,
        check: checks(given.check)?,
    })
}

/// Returns how often states are computed again and compared. Where the configuration does not ask for it,
/// the environment may, whether the program loads its configuration or not.
pub(super) fn checks(given: i32) -> Result<u32> {
    let of_environment = environment::text("GPUZIP_CHECK").filter(|_| given == 0);
    let number = of_environment.as_deref().map_or(Some(given.into()), numbers::whole);
    match number.and_then(|number| u32::try_from(number).ok()) {
        Some(times) if times <= MOST_CHECKS => Ok(times),
        _ => fail!(
            Config,
            "check = {}: use 0 (no check), or 1 to {MOST_CHECKS}: how often every state is computed again and compared",
            of_environment.unwrap_or_else(|| given.to_string())
        ),
    }
}

fn tiers(given: &gpuzip_config_t, disk_folders: Vec<PathBuf>) -> Result<TierOptions> {
    let is_lru = one_of!(given.policy, "0 (clairvoyant) or 1 (lru)");
    Ok(TierOptions {
        disk_folders,
        cache: count("cache_capacity", given.cache_capacity)?,
        policy: if is_lru { Policy::Lru } else { Policy::Clairvoyant },
        device_budget: given.device_budget,
        device_reserve: given.device_reserve,
        host_budget: given.host_budget,
        disk_budget: given.disk_budget,
        default_budgets: true,
        zero_copy: one_of!(given.zero_copy, "0 or 1"),
        shared_levels: one_of!(given.shared_levels, "0 or 1"),
        mixed_storage: one_of!(
            given.mixed_storage,
            "0 (where it is faster), 1 (always) or 2 (never)": None, Some(true), Some(false)
        ),
    })
}

fn device(given: &gpuzip_config_t, profile_file: Option<PathBuf>) -> Result<DeviceOptions> {
    Ok(DeviceOptions {
        backend: one_of!(
            given.backend,
            "0 (by the fields), 1 (host) or 2 (CUDA)": Backend::ByFields, Backend::Host, Backend::Cuda
        ),
        ordinal: count("device", given.device)?.checked_sub(1).map(|k| k as i32),
        max_in_flight: count("max_in_flight", given.max_in_flight)?,
        link_bandwidth: within(
            "link_bandwidth",
            given.link_bandwidth,
            1.0..=f64::MAX,
            "bytes per second, at least 1, or 0 for no simulation",
        )?,
        profile: profile_file.as_deref().map_or(Ok(None), profile_of)?,
        profile_file,
    })
}

fn codec(given: &gpuzip_config_t, texts: [Option<&CStr>; 2]) -> Result<CodecOptions> {
    let [text, fill_value] = texts.map(|text| text.map(CStr::to_string_lossy).unwrap_or_default());
    let settings = compression(given, fill_value.trim())?;
    let quality = match text.trim() {
        "" => None,
        text => Some(quality::Target::of(text)?),
    };
    if quality.is_some() && !settings.method.is_bounded() {
        let name = if given.compressor == GPUZIP_COMPRESSOR_AUTO {
            "auto"
        } else {
            settings.method.name()
        };
        return fail!(
            Config,
            "quality = {} with compressor = {} ({name}): there is no error bound to choose; take {}",
            text.trim(),
            given.compressor,
            bounded_names()
        );
    }
    Ok(CodecOptions {
        settings,
        quality,
        any_codec: given.compressor == GPUZIP_COMPRESSOR_AUTO,
        compression_factor: within(
            "compression_factor",
            given.compression_factor.into(),
            0.0..=f32::MAX.into(),
            "the ratio that is expected, or 0",
        )?,
        difference_bound: one_of!(
            given.difference_bound,
            "0 (in states that steps start from) or 1 (always)"
        ),
        threads: match given.codec_threads {
            0 => None,
            -1 => Some(0),
            threads if (1..=MOST_THREADS as i32).contains(&threads) => Some(threads as u32),
            other => {
                return fail!(
                    Config,
                    "codec_threads = {other}: use 0 (as many as the profile has idle processors), -1 (the calling thread codes), or a number up to \
                     {MOST_THREADS}"
                )
            }
        },
    })
}

pub(super) fn file_of(path: &CStr) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(path.to_bytes()))
}

/// Reads a profile from a file. A missing file is no error: `gpuzip_autotune` may write it later.
fn profile_of(path: &Path) -> Result<Option<Profile>> {
    let bytes = match files::read(path, files::LARGEST_PROFILE) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(Error::from),
    };
    let profile = bytes.and_then(|bytes| Profile::from_bytes(&bytes));
    profile.map(Some).map_err(|e| e.within(format_args!("profile_path = {}", path.display())))
}

fn algorithm_of(number: i32) -> Result<Option<Algorithm>> {
    if number == GPUZIP_ALGORITHM_AUTO {
        return Ok(None);
    }
    match Algorithm::ALL.into_iter().find(|a| *a as i32 == number) {
        Some(algorithm) => Ok(Some(algorithm)),
        None if number == 7 => fail!(
            Unsupported,
            "checkpointing_algorithm = {number}: multistage is Revolve with snapshots on two levels of memory; use 1 (revolve) with cache_capacity or \
             budgets, for which every plan places snapshots on both levels with no more transfers, or 8 (hrevolve)"
        ),
        None => fail!(Config, "checkpointing_algorithm = {number}: use 0 to 6, 8 or 9 (GPUZIP_ALGORITHM_*)"),
    }
}

fn whole_every(every: i32) -> Result<u32> {
    match u32::try_from(every) {
        Ok(every) if every <= MOST_INCREMENTAL => Ok(every),
        _ => fail!(
            Config,
            "persist_whole_every = {every}: use 0 (every generation holds everything) to {MOST_INCREMENTAL}"
        ),
    }
}

/// Returns the names in a list with commas or spaces between.
fn stages(list: Option<&CStr>) -> Result<Vec<Name>> {
    let list = list.unwrap_or_default();
    let Ok(list) = list.to_str() else {
        return fail!(
            Config,
            "persist_stages = \"{}\": it is no text",
            list.to_bytes().escape_ascii()
        );
    };
    let is_between = |c: char| c == ',' || c.is_whitespace();
    let names = list.split(is_between).filter(|name| !name.is_empty());
    let read = |name| match Name::new(name) {
        Err(e) => fail!(Config, "persist_stages: {e}"),
        name => name,
    };
    names.map(read).collect()
}

fn count(name: &str, value: i32) -> Result<u32> {
    match u32::try_from(value) {
        Ok(count) => Ok(count),
        Err(_) => fail!(Config, "{name} = {value}: it cannot be negative"),
    }
}

/// Returns the codec and its error bound. Keys of codecs that are not chosen are not checked.
fn compression(c: &gpuzip_config_t, fill_value: &str) -> Result<Settings> {
    let method = match c.compressor {
        GPUZIP_COMPRESSOR_AUTO if c.error_bound == 0.0 => {
            return fail!(
                Config,
                "compressor = 15 (auto) with error_bound = 0: it takes codecs with loss only within a bound that is given"
            )
        }
        GPUZIP_COMPRESSOR_AUTO => Method::None,
        GPUZIP_COMPRESSOR_ZFP => Method::Zfp { rate: rate(c.zfp_bit_rate)? },
        GPUZIP_COMPRESSOR_BITCOMP => Method::Bitcomp {
            sparse: one_of!(c.bitcomp_algorithm, "0 (default) or 1 (sparse)"),
        },
        number => match Method::of_number(number) {
            Some(method) => method,
            None => return fail!(Config, "compressor = {number}: use one of GPUZIP_COMPRESSOR_*"),
        },
    };
    let reject_nonfinite = one_of!(c.nonfinite, "0 (kept) or 1 (an error)");
    let bound = if method.is_bounded() || c.compressor == GPUZIP_COMPRESSOR_AUTO {
        error_bound(c)?
    } else {
        ErrorBound::DEFAULT
    };
    let fill_value = if fill_value.is_empty() { None } else { Some(FillValue::of(fill_value)?) };
    if let (Some(fill), false) = (fill_value, method.keeps_masked()) {
        return fail!(
            Config,
            "fill_value = {fill} with compressor = {} ({}): a codec with payloads of a fixed size has no room for masks; take {} or lossless",
            c.compressor,
            method.name(),
            bounded_names()
        );
    }
    let sequences = one_of!(c.sequences, "0 or 1");
    Ok(Settings { method, bound, reject_nonfinite, sequences, fill_value })
}

fn rate(bits: i32) -> Result<u32> {
    match bits {
        0 => Ok(8),
        1..=64 => Ok(bits as u32),
        _ => fail!(
            Config,
            "zfp_bit_rate = {bits}: 1 to 32 bits per FP32 value, to 64 per FP64 value, or 0 for 8"
        ),
    }
}

fn error_bound(c: &gpuzip_config_t) -> Result<ErrorBound> {
    let checked = |name: &str, value: f64| match value.is_finite() && value > 0.0 {
        true => Ok(value),
        false => fail!(Config, "{name} = {value}: a positive number"),
    };
    let (fraction, sigmas, delta) =
        (c.bitcomp_range_fraction, c.bitcomp_num_sigma, c.bitcomp_delta);
    let is_default = c.error_bound == 0.0;
    if c.compressor == GPUZIP_COMPRESSOR_BITCOMP && is_default && (fraction, delta) != (0.0, 0.0) {
        let mode = c.bitcomp_delta_config;
        return Ok(ErrorBound::Delta(Delta::from_config(mode, fraction, sigmas, delta)?));
    }
    if c.compressor == GPUZIP_COMPRESSOR_CUSZP && is_default && c.cuszp_err_bound != 0.0 {
        return Ok(ErrorBound::OfRange(checked("cuszp_err_bound", c.cuszp_err_bound)?));
    }
    let of = one_of!(
        c.error_bound_mode,
        "0 (of the maximum), 1 (absolute), 2 (of the range) or 3 (PSNR in dB)":
        ErrorBound::OfMax, ErrorBound::Absolute, ErrorBound::OfRange, ErrorBound::Psnr
    );
    match (c.error_bound_mode, c.error_bound) {
        (0 | 2, 0.0) => Ok(of(1e-3)),
        (mode, 0.0) => fail!(
            Config,
            "error_bound = 0 with error_bound_mode = {mode}: only modes 0 (max) and 2 (range) have a default; \
             set error_bound"
        ),
        (_, value) => checked("error_bound", value).map(of),
    }
}

/// Warns where `error_bound` is set but the codec keeps no bound: the user probably expects one.
fn warn_of_bound(given: &gpuzip_config_t, checked: &Config) {
    let (bound, method) = (given.error_bound, &checked.codec.settings.method);
    if bound == 0.0 || checked.codec.any_codec || method.is_bounded() {
        return;
    }
    let what = match method {
        Method::None => "snapshots are not compressed",
        method if method.is_lossless() => "that codec loses nothing",
        _ => "that codec keeps no bound",
    };
    log::warn!(
        "error_bound = {bound} with compressor = {} ({}): {what}, so that the bound has no effect; take {} or auto",
        given.compressor,
        method.name(),
        bounded_names()
    );
}

/// Returns the names of the codecs that keep a bound, for error texts.
fn bounded_names() -> String {
    Method::bounded().iter().map(Method::name).collect::<Vec<_>>().join(", ")
}

/// Returns `value` if it is 0 or in `range`; `what` says what the number is.
fn within(name: &str, value: f64, range: RangeInclusive<f64>, what: &str) -> Result<f64> {
    match value == 0.0 || range.contains(&value) {
        true => Ok(value),
        false => fail!(Config, "{name} = {value}: {what}"),
    }
}
