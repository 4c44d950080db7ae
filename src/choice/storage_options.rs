//! The storage options of a session: the configured way to store snapshots, or the ways that the
//! planner chooses from.

use super::job::Job;
use super::storage::{Coded, Cut, Storage};
use super::tier_spec::TierSpec;
use crate::config::TierOptions;
use crate::error::{fail, Code, Result};
use crate::files::PAGE;
use crate::plan::Policy;
use crate::predict::Costs;
use crate::schedule::Algorithm;
use crate::tier::staging_bytes;

/// Returns the storage options of a job. They depend only on the job, profile included. Where the
/// planner chooses the codec, codecs for which there is no room, or which do not code such fields, are
/// no options; where the codec is named, that is an error.
pub fn storage_options(job: &Job) -> Result<Vec<TierSpec>> {
    let mut options = Vec::new();
    for storage in Storage::all(job) {
        // Snapshots that lanes code could be coded by the calling thread as well.
        let is_offered = job.config.codec.any_codec || matches!(storage.coded, Coded::ByLanes(_));
        let is_choice = is_offered && storage.coded != Coded::None;
        match TierSpec::of(&storage, job) {
            Err(error) if is_choice && matches!(error.code, Code::Budget | Code::Unsupported) => {
                log::info!("{} is not offered: {error}", storage.codec.method.name())
            }
            tiers => options.push(tiers?),
        }
    }
    divide_once(job, &mut options);
    check_disk(job, &options)?;
    warn_of_sizes(job, &options);
    let others = [around_cache(job, &options)?, of_one_memory(job)?];
    options.extend(others.into_iter().flatten());
    Ok(options)
}

/// Returns the options for a code on a CPU that divide its one memory, of which `host_budget` alone tells the
/// bytes, otherwise: all of it is the device cache, from which snapshots are handed over or read
/// without a copy; or, beside a disk, all that the disk leaves. Options that can be no quicker are left out.
fn of_one_memory(job: &Job) -> Result<Vec<TierSpec>> {
    let all = job.host_budget;
    // A schedule that is named is played in the memory that is named, but where zero copy asks for slots that are
    // handed over.
    let is_weighed = match job.config.schedule.algorithm {
        None => true,
        Some(Algorithm::Online) => false,
        Some(_) => job.config.tiers.zero_copy,
    };
    if !(job.has_one_memory() && is_weighed) || job.config.tiers.policy == Policy::Lru {
        return Ok(Vec::new());
    }
    let mut divided = Vec::new();
    let (ways, has_disk) = (Storage::all(job), job.disk_budget > 0);
    for (storage, on_disk) in
        [false, true].iter().flat_map(|is| ways.iter().map(move |way| (way, *is)))
    {
        let Ok(slot_bytes) = storage.slot_bytes(job) else { continue };
        let costs = storage.costs(job, slot_bytes);
        let may_gain = match storage.coded {
            Coded::None if storage.zero_copy || storage.cut == Cut::Levels || has_disk => true,
            Coded::None => costs.copy < costs.upload.max(costs.download),
            Coded::All | Coded::Moved(_) => true,
            Coded::ByLanes(_) => false,
        };
        // The disk needs its staging buffers and the places of two snapshots that come from it.
        let beside =
            if on_disk { staging_bytes(slot_bytes).saturating_add(2 * slot_bytes) } else { 0 };
        if !may_gain || on_disk && !(has_disk && beside < all) {
            continue;
        }
        let disk_budget = if on_disk { job.disk_budget } else { 0 };
        let job =
            Job { device_budget: all - beside, host_budget: beside, disk_budget, ..job.clone() };
        match TierSpec::of(storage, &job) {
            // No memory is left for the states that the application works in, or the codec does not code them.
            Err(error) if matches!(error.code, Code::Budget | Code::Unsupported) => {}
            // Also a number of snapshots that is told has no other memory.
            tiers if on_disk => divided.push(tiers?),
            tiers => divided.push(TierSpec { host: Some(0), ..tiers? }),
        }
    }
    divide_once(job, &mut divided);
    Ok(divided)
}

/// Returns the options without a device cache, where a copy within the device takes longer than a transfer:
/// going around the cache may then be faster.
fn around_cache(job: &Job, options: &[TierSpec]) -> Result<Vec<TierSpec>> {
    let TierOptions { cache, zero_copy, policy, .. } = job.config.tiers;
    let has_both = job.device_budget > 0 && job.host_budget > 0;
    // Online, nobody knows the number of steps by which two ways could be compared.
    let is_online = job.config.schedule.algorithm == Some(Algorithm::Online);
    if !has_both || is_online || cache > 0 || zero_copy || policy == Policy::Lru {
        return Ok(Vec::new());
    }
    let job = Job { device_budget: 0, ..job.clone() };
    let is_slow = |tiers: &&TierSpec| {
        let Costs { copy, upload, download, .. } = tiers.costs;
        let is_alike = matches!(tiers.storage.coded, Coded::None | Coded::All);
        is_alike && copy > upload.min(download)
    };
    options.iter().filter(is_slow).map(|tiers| TierSpec::of(&tiers.storage, &job)).collect()
}

/// Of the two divisions of a cache with mixed storage, leaves out the one that no plan needs: the one with the
/// fewest raw states if it has no more slots in all, and the one with the most if the other one has exactly the
/// slots that `cache_capacity` asks for, as a plan that `gpuzip plan` prints asks for its own.
fn divide_once(job: &Job, options: &mut Vec<TierSpec>) {
    let is_mixed = |tiers: &TierSpec| matches!(tiers.storage.coded, Coded::Moved(_));
    for k in (1..options.len()).rev() {
        let [most_raw, fewest_raw] = &options[k - 1..=k] else { continue };
        if !is_mixed(most_raw)
            || !is_mixed(fewest_raw)
            || most_raw.storage.codec != fewest_raw.storage.codec
        {
            continue;
        }
        if fewest_raw.cache <= most_raw.cache {
            options.remove(k);
        } else if fewest_raw.cache == Some(job.config.tiers.cache) {
            options.remove(k - 1);
        }
    }
}

/// Fails if the disk holds no snapshot. Warns if host memory has no room for the staging buffers.
fn check_disk(job: &Job, options: &[TierSpec]) -> Result<()> {
    let least = options.iter().map(TierSpec::bytes_on_disk).min().unwrap_or(0);
    if (1..least).contains(&job.disk_budget) {
        return fail!(
            Budget,
            "disk_budget = {}: a snapshot takes {least} bytes of disk, which are whole pages of {PAGE} bytes in each of the {} folders of disk_path: \
             raise disk_budget to at least that, name fewer folders, or set disk_budget = 0",
            job.disk_budget,
            job.config.tiers.disk_folders.len().max(1)
        );
    }
    let staged = options.iter().map(|tiers| staging_bytes(tiers.slot_bytes)).min().unwrap_or(0);
    if job.disk_budget > 0 && (1..staged).contains(&job.host_budget) {
        log::warn!(
            "disk_budget = {} is not used: snapshots go to disk through staging buffers of {staged} bytes, and host_budget = {}: raise host_budget to \
             at least {staged} bytes",
            job.disk_budget,
            job.host_budget
        );
    }
    Ok(())
}

/// Warns of codecs whose snapshots are planned with no fewer bytes than raw ones.
fn warn_of_sizes(job: &Job, options: &[TierSpec]) {
    let (has_budget, state) = (job.device_budget > 0 || job.host_budget > 0, job.state.bytes());
    for TierSpec { storage, slot_bytes: expected, .. } in options {
        if has_budget
            && storage.coded == Coded::All
            && storage.codec.sequences == job.config.codec.settings.sequences
            && !storage.codec.method.has_fixed_size()
            && *expected >= state
        {
            log::warn!(
                "compressor = {}: nothing says by how much snapshots shrink, so each is planned with {expected} bytes, no fewer than the {state} of a raw \
                 one: set compression_factor, or import a profile that gpuzip_autotune has measured",
                storage.codec.method.name()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::cases;
    use crate::choice::{choose_among, State};
    use crate::config::{Backend, Config};
    use crate::layout::{Field, Layout};
    use crate::predict::Profile;
    use crate::scalar::Scalar;

    /// A CPU has one memory: of all the ways to divide it into device and host memory, `host_budget` alone gives
    /// the plan that is predicted to be the quickest, with and without copies, shared levels, a codec and a disk.
    #[test]
    fn one_memory_is_divided_as_is_quickest() {
        const STATE: u64 = 1 << 20;
        // In case 163 mixed storage in all of the memory is quickest.
        for seed in (1..=cases(40u64, 2_000)).chain([163]) {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut below = |most: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) % most
            };
            let (steps, all) =
                (5 + below(20) as u32 * below(30) as u32, (9 + below(400)) * STATE / 8);
            let (zero_copy, shares, coded, with_disk) =
                (below(2) == 0, below(3) == 0, below(4) == 0, below(3) == 0);
            let disk = if with_disk { (8 + below(400)) * STATE } else { 0 };
            let named = (zero_copy && below(2) == 0).then_some(Algorithm::Revolve);
            let speeds = [(10.0, 10.0), (4.0, 10.0), (10.0, 4.0)][below(3) as usize];
            let profile = Profile {
                d2d_gbs: speeds.0,
                h2d_gbs: speeds.1,
                d2h_gbs: speeds.1,
                disk_read_gbs: 0.5 + below(10) as f64,
                disk_write_gbs: 0.5 + below(10) as f64,
                backend: 1,
                ..Profile::typical_host(STATE, 0.0)
            };
            let of = |device: u64, host: u64, disk: u64| {
                let config = Config::default().with(|c| {
                    (c.tiers.device_budget, c.tiers.host_budget) = (device, host);
                    c.tiers.disk_budget = disk;
                    (c.tiers.zero_copy, c.tiers.shared_levels) = (zero_copy, shares);
                    c.schedule.algorithm = named;
                    c.codec.any_codec = coded;
                    c.codec.compression_factor = if coded { 3.0 } else { 0.0 };
                    c.device.backend = Backend::Host;
                    c.device.profile = Some(profile.clone());
                });
                let state = State::Bytes { all: STATE, previous: STATE / 2 };
                let job = Job::new(config.clone(), state);
                let choice = choose_among(&config, steps, &[storage_options(&job).ok()?]).ok()?;
                choice.predicted
            };
            let Some(alone) = of(0, all, disk) else { continue };
            let mut others = vec![of(all, 0, 0), of(0, all, 0)];
            if with_disk {
                let least = staging_bytes(STATE) + 2 * STATE;
                others.extend([of(all.saturating_sub(least), least.min(all), disk)]);
            }
            let least = others.into_iter().flatten().fold(f64::INFINITY, f64::min);
            assert!(
                alone <= least * (1.0 + 1e-9),
                "seed {seed}, {steps} steps, {all} bytes, {disk} of disk, zero copy {zero_copy}, levels {shares}, codec {coded}, {named:?}: {alone} and {least}"
            );
        }
    }

    /// Budgets that are too small are an error that names the one that was given, and no other, with and
    /// without a disk.
    #[test]
    fn too_little_memory_names_the_key_that_was_given() {
        const STATE: u64 = 1 << 20;
        let (mut refused, mut draw) = (0, 0);
        for backend in [Backend::Host, Backend::Cuda] {
            for (device, host) in [(0, 1), (0, 4), (0, 7), (1, 0), (7, 0)] {
                for algorithm in [None, Some(Algorithm::Revolve), Some(Algorithm::StoreAll)] {
                    draw += 1;
                    for bits in 0..16 {
                        let is = |bit: u32| bits >> bit & 1 == 1;
                        let disk = if is(0) && host > 0 { 90 * STATE } else { 0 };
                        let config = Config::default().with(|c| {
                            let bytes = |eighths: u64| eighths * STATE / 8;
                            (c.tiers.device_budget, c.tiers.host_budget) =
                                (bytes(device), bytes(host));
                            c.tiers.disk_budget = disk;
                            (c.tiers.zero_copy, c.tiers.shared_levels) = (is(1), is(2));
                            c.codec.any_codec = is(3);
                            c.device.backend = backend;
                            c.schedule.algorithm = algorithm;
                        });
                        // A time level takes 7 parts of 8.
                        let state = State::Bytes { all: STATE, previous: STATE / 8 };
                        let job = Job::new(config.clone(), state);
                        let chosen = storage_options(&job)
                            .and_then(|options| choose_among(&config, 20 + draw, &[options]));
                        let Err(error) = chosen else { continue };
                        let names = |key: &str| error.message.contains(key);
                        let (given, other) = match host {
                            0 => ("device_budget", "host_budget"),
                            _ => ("host_budget", "device_budget"),
                        };
                        let text =
                            format!("{device} and {host} eighths, {algorithm:?}, {bits}: {error}");
                        assert!(names(given) && !names(other), "{text}");
                        refused += 1;
                    }
                }
            }
        }
        assert!(refused > 300, "{refused}");
    }

    /// Returns the key that the text of an error says to raise, and to how many bytes.
    fn remedy(text: &str) -> Option<(&str, u64)> {
        let (_, raise) = text.rsplit_once("raise ")?;
        let key = raise.split(|c: char| c.is_whitespace() || c == ',').next()?;
        let number = |text: &str| {
            text.split(|c: char| !c.is_ascii_digit())
                .next()
                .filter(|digits| !digits.is_empty())?
                .parse()
                .ok()
        };
        let (_, bytes) = raise.split_once("to ")?;
        let least = || number(text.split_once(" takes ")?.1);
        Some((key, number(bytes.trim_start_matches("at least ")).or_else(least)?))
    }

    /// A budget that holds some states is enough for every combination of algorithm and modes. A smaller one is an
    /// error that says to how many bytes a budget must be raised; after at most three of them the budgets are enough.
    #[test]
    fn a_budget_for_some_states_is_enough_for_every_combination() {
        const STATE: u64 = 1 << 20;
        let named = [
            Algorithm::Revolve,
            Algorithm::Uniform,
            Algorithm::Hrevolve,
            Algorithm::StoreAll,
            Algorithm::Online,
        ];
        let budgets = [(0, 48), (48, 0), (0, 16), (16, 0), (0, 24), (0, 7), (7, 0), (0, 1), (1, 0)];
        let mut raised = 0;
        for algorithm in [None].into_iter().chain(named.map(Some)) {
            let is_online = algorithm == Some(Algorithm::Online);
            for (bits, (device, host)) in
                (0..64).flat_map(|bits| budgets.map(|budgets| (bits, budgets)))
            {
                let is = |bit: u32| bits >> bit & 1 == 1;
                let (is_coded, is_checked) = (is(0), is(1) && !is_online);
                let config = Config::default().with(|c| {
                    let bytes = |eighths: u64| eighths * STATE / 8;
                    (c.tiers.device_budget, c.tiers.host_budget) = (bytes(device), bytes(host));
                    (c.tiers.zero_copy, c.tiers.shared_levels) = (is(2), is(3));
                    c.schedule.algorithm = algorithm;
                    c.schedule.check = u32::from(is_checked);
                    c.schedule.sweeps = if is(4) && !is_online { 2 } else { 1 };
                    c.device.backend = if is(5) { Backend::Cuda } else { Backend::Host };
                    if is_coded && !is_checked {
                        c.codec.settings.method = crate::codec::Method::Dct;
                        (c.codec.threads, c.codec.compression_factor) = (Some(1), 10.0);
                    }
                });
                let choose = |config: &Config| {
                    let state = State::Bytes { all: STATE, previous: STATE / 2 };
                    let job = Job::new(config.clone(), state);
                    storage_options(&job)
                        .and_then(|options| choose_among(config, 10, &[options]))
                        .map_err(|error| error.message.clone())
                };
                let mut chosen = choose(&config);
                let text = format!("{algorithm:?}, {device} and {host} eighths, {bits:06b}");
                // Under zero copy the application works in two states; the check and `online` store another one, and a
                // GPU needs room to compare levels. Codecs and `hrevolve` need some states beside them.
                let needs_more = is_coded || algorithm == Some(Algorithm::Hrevolve);
                let is_enough = match device.max(host) {
                    48 => true,
                    24 => !needs_more,
                    16 => !needs_more && !(is(2) && (is_checked || is_online || is(5))),
                    _ => false,
                };
                if is_enough && algorithm != Some(Algorithm::StoreAll) {
                    assert!(chosen.is_ok(), "{text}: {:?}", chosen.err());
                }
                let mut config = config;
                for _ in 0..3 {
                    let Err(refused) = &chosen else { break };
                    let Some((key, bytes)) = remedy(refused) else {
                        panic!("{text}: no remedy in {refused}");
                    };
                    config = config.with(|c| match key {
                        "device_budget" => c.tiers.device_budget = bytes,
                        "host_budget" => c.tiers.host_budget = bytes,
                        _ => panic!("{text}: {refused}"),
                    });
                    raised += 1;
                    chosen = choose(&config);
                }
                assert!(chosen.is_ok(), "{text}: {:?}", chosen.err());
            }
        }
        assert!(raised > 500, "{raised}");
    }

    /// Where copies within the device take longer than transfers, snapshots go around the cache: device
    /// memory makes no plan slower than the plan without it.
    #[test]
    fn slow_copies_go_around_the_cache() {
        let chosen = |d2d_gbs: f64, device: u64, cache: u32| {
            let config = Config::default().with(|c| {
                c.tiers.device_budget = device;
                c.tiers.host_budget = 60;
                c.tiers.cache = cache;
                c.device.backend = Backend::Host;
                let speeds = Profile { h2d_gbs: 2e-9, d2h_gbs: 2e-9, ..Profile::free() };
                c.device.profile =
                    Some(Profile { forward_ms: 1e3, backward_ms: 1e3, d2d_gbs, ..speeds });
            });
            let job = Job::new(config.clone(), State::Bytes { all: 1, previous: 0 });
            let choice = choose_among(&config, 300, &[storage_options(&job).unwrap()]).unwrap();
            (choice.plans[0].cache, choice.predicted.unwrap())
        };
        let (slow, quick) = (0.5e-9, 100e-9);
        let alone = chosen(slow, 0, 0);
        assert_eq!((alone.0, chosen(slow, 8, 0)), (0, alone));
        // Online, there is no number of steps by which to compare.
        let online = Config::default().with(|c| {
            (c.tiers.device_budget, c.tiers.host_budget) = (8, 60);
            c.schedule.algorithm = Some(Algorithm::Online);
            c.device.profile = Some(Profile { d2d_gbs: slow, ..Profile::typical_gpu(1) });
        });
        let job = Job::new(online, State::Bytes { all: 1, previous: 0 });
        assert_eq!(storage_options(&job).unwrap().len(), 1);
        // A cache that is asked for is used, and one that is quick is worth it.
        let (asked, worth) = (chosen(slow, 8, 8), chosen(quick, 8, 0));
        assert!(asked.0 > 0 && asked.1 > 1.5 * alone.1, "{asked:?} and {alone:?}");
        assert!(worth.0 > 0 && worth.1 < alone.1, "{worth:?} and {alone:?}");
    }

    /// With `compressor = auto` every way of storing snapshots is priced with zero copy: raw snapshots
    /// take the whole device budget, decoded states lie beside compressed snapshots, and the
    /// link and the host budget decide which is faster.
    #[test]
    fn zero_copy_is_priced_with_every_codec() {
        let field = Field { n: [1 << 18, 1, 1], scalar: Scalar::F32, previous_of: None };
        let layout = Layout::new(vec![field]).unwrap();
        let state = layout.slot_bytes;
        let profile = |gbs: f64| Profile {
            forward_ms: 20.0,
            backward_ms: 20.0,
            h2d_gbs: gbs,
            d2h_gbs: gbs,
            ..Profile::typical_gpu(state)
        };
        let chosen = |gbs: f64, host: u64, mixed_storage: Option<bool>| {
            let config = Config::default().with(|c| {
                c.tiers.zero_copy = true;
                c.codec.any_codec = true;
                c.tiers.mixed_storage = mixed_storage;
                c.codec.compression_factor = 4.0;
                c.tiers.device_budget = 6 * state;
                c.tiers.host_budget = host * state;
                c.device.backend = Backend::Host;
                c.device.profile = Some(profile(gbs));
            });
            let job = Job::new(config.clone(), State::Fields(layout.clone()));
            let options = storage_options(&job).unwrap();
            let seen: Vec<_> = options
                .iter()
                .map(|o| (o.storage.coded == Coded::None, o.storage.zero_copy, o.beside_cache))
                .collect();
            // Raw, and compressed or, with most and with fewest raw states in the cache, mixed.
            let coded = (false, true, 2 * state);
            let divisions = if mixed_storage == Some(true) { 2 } else { 1 };
            assert_eq!(seen, [vec![(true, true, 0)], vec![coded; divisions]].concat());
            assert_eq!(options[0].cache, Some(6));
            let choice = choose_among(&config, 500, &[options]).unwrap();
            assert!(choice.plans[0].zero_copy);
            choice.alternative > 0
        };
        for mixed in [None, Some(false), Some(true)] {
            assert_eq!((chosen(1e6, 600, mixed), chosen(0.05, 40, mixed)), (false, true));
        }
    }
}
