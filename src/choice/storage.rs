//! The ways to store snapshots: which ones a configuration leaves open, and what a snapshot takes.

use super::job::{slots_of, Job, State};
use crate::codec::{Method, Settings, SnapshotCodec};
use crate::config::Backend;
use crate::error::Result;
use crate::layout::aligned;
use crate::plan::{spare_bytes, Policy};
use crate::predict::{CodecProfile, Costs, Profile};
use crate::schedule::Algorithm;
use crate::tier::MOST_BUFFERS;

/// The most raw states that are tried for a cache whose snapshots the transfer lanes code.
const MOST_RAW: u32 = 64;

/// The least number of slots for raw snapshots with mixed storage.
pub(super) const LEAST_RAW: u32 = 2;

/// Factor between the bytes planned for a snapshot and the bytes of the largest measured snapshot:
/// snapshots that were not measured may be larger.
const MARGIN: f64 = 1.125;

/// How a state is cut into the pieces that are stored and moved. The value is their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Not at all.
    Whole = 1,
    /// Into its time level and the previous one, which is the time level of the state before.
    Levels = 2,
}

/// Which snapshots are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coded {
    /// None of them.
    None,
    /// All of them.
    All,
    /// Those that leave the device (mixed storage), whose cache has so many raw states; 0: as many as leave
    /// room for a few compressed snapshots.
    Moved(u32),
    /// Those that leave a cache of raw states, by the transfer lanes of the host backend. If one budget is
    /// for both, so many raw states are taken of it; 0: each tier has a budget of its own.
    ByLanes(u32),
}

/// A way to store snapshots.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// How a state is cut.
    pub cut: Cut,
    /// The codec and its parameters; `Method::None` if no snapshot is compressed.
    pub codec: Settings,
    /// Which snapshots are compressed.
    pub coded: Coded,
    /// Whether the application works in the slots.
    pub zero_copy: bool,
    /// The replacement policy.
    pub policy: Policy,
}

impl Storage {
    /// Returns the storage of whole raw snapshots for a job.
    pub fn raw(job: &Job) -> Self {
        Storage {
            cut: Cut::Whole,
            codec: job.config.codec.settings.with(Method::None),
            coded: Coded::None,
            zero_copy: job.config.tiers.zero_copy,
            policy: job.config.tiers.policy,
        }
    }

    /// Returns the ways to store snapshots that the configuration leaves open, in the order in which
    /// one of several equally fast ones is taken: raw ones first, and smaller ones before others.
    pub(super) fn all(job: &Job) -> Vec<Self> {
        let codecs = codecs(job);
        let is_raw = job.config.codec.any_codec || codecs.is_empty();
        let raw = is_raw.then(|| Storage::raw(job));
        let ways = ways_to_code(job);
        // Where a schedule is chosen, snapshots in a sequence go with one of them alone.
        let by_itself = |codec: &Settings| Settings { sequences: false, ..codec.clone() };
        let is_chosen = job.config.schedule.algorithm.is_none();
        let coded = codecs.into_iter().flat_map(|codec| {
            let alone = (codec.sequences && is_chosen).then(|| by_itself(&codec));
            [codec].into_iter().chain(alone)
        });
        let coded = coded.flat_map(|codec| {
            // A codec of the application is called by the thread that saves or retrieves.
            let is_own = !matches!(codec.method, Method::Plugin(_));
            let may_be = |coded: &Coded| is_own || !matches!(coded, Coded::ByLanes(_));
            let ways: Vec<Coded> = ways.iter().copied().filter(may_be).collect();
            let way = move |coded| Storage { codec: codec.clone(), coded, ..Storage::raw(job) };
            ways.into_iter().map(way)
        });
        let cut = |whole: Storage| {
            // Snapshots are in two records where all are stored in the same way. A state from which steps are
            // computed has its levels coded as a pair, which transfer lanes do only for whole states: levels
            // are for schedules that store all states and restore each of them once.
            let config = &job.config;
            let is_alike = match whole.coded {
                Coded::None | Coded::All => true,
                Coded::ByLanes(_) => {
                    matches!(config.schedule.algorithm, None | Some(Algorithm::StoreAll))
                        && !config.codec.difference_bound
                        && config.schedule.sweeps <= 1
                }
                Coded::Moved(_) => false,
            };
            let is_cut = job.shares_levels() && is_alike;
            let cut = is_cut.then(|| Storage { cut: Cut::Levels, ..whole.clone() });
            // Online, nobody knows the number of steps by which two ways could be compared.
            let is_alone = is_cut && config.schedule.algorithm == Some(Algorithm::Online);
            // A cache for one state has room for two levels.
            let is_too_small =
                matches!(whole.coded, Coded::ByLanes(raw) if (1..LEAST_RAW).contains(&raw));
            cut.into_iter().chain((!is_alone && !is_too_small).then_some(whole))
        };
        raw.into_iter().chain(coded).flat_map(cut).collect()
    }

    /// Returns the bytes of a slot, for a snapshot or the larger one of its two records.
    pub(super) fn slot_bytes(&self, job: &Job) -> Result<u64> {
        match (self.coded, self.cut, job.coded_bytes) {
            (Coded::None, Cut::Whole, _) => Ok(job.state.bytes()),
            (Coded::None, Cut::Levels, _) => Ok(job.state.level_bytes()),
            (_, _, Some(bytes)) => Ok(bytes),
            (_, Cut::Whole, None) => self.coded_bytes(job),
            (_, Cut::Levels, None) => {
                let part = job.state.level_bytes() as f64 / job.state.bytes().max(1) as f64;
                Ok(aligned((self.coded_bytes(job)? as f64 * part).ceil() as u64))
            }
        }
    }

    /// Returns the bytes to plan with for a compressed snapshot: the exact number if the codec has
    /// payloads of a fixed size, or else by the configured compression factor, or by the worst measured
    /// ratio and a margin, or as many as a snapshot may have.
    fn coded_bytes(&self, job: &Job) -> Result<u64> {
        let (codec, most) = (&self.codec, job.state.most_coded_bytes());
        let has_fixed_size = codec.method.has_fixed_size();
        if let (State::Fields(layout), true) = (&job.state, has_fixed_size) {
            return Ok(aligned(SnapshotCodec::fixed_bytes(codec, layout)?));
        }
        let uncoded = job.state.uncoded_bytes();
        let by = |ratio: f64, uncoded: u64| {
            let coded = job.state.bytes().saturating_sub(uncoded) as f64 / ratio;
            aligned(uncoded.saturating_add(coded.round() as u64)).min(most)
        };
        let margin = if has_fixed_size { 1.0 } else { MARGIN };
        // The factor is told for snapshots as the configuration wants them: in a sequence or not.
        let is_told = codec.sequences == job.config.codec.settings.sequences;
        let factor = if is_told { job.config.codec.compression_factor } else { 0.0 };
        let measured = job.profile.as_ref().and_then(|profile| profile.codec(codec));
        Ok(match measured {
            _ if factor > 1.0 => by(factor, uncoded),
            Some(measured) => by(measured.worst_ratio / margin, 0),
            None => most,
        })
    }

    /// Whether an application that works in memory of the library works beside the slots, as these hold
    /// compressed snapshots.
    pub(super) fn works_beside_slots(&self) -> bool {
        matches!(self.coded, Coded::All | Coded::Moved(_))
    }

    /// Returns the bytes of the spare slots of an application that works in the slots.
    pub(crate) fn spare_bytes(&self, job: &Job) -> u64 {
        let (parts, state) = (self.cut as u32, job.state.bytes());
        // A cache without spare states holds levels, which are more than half of a state, or states.
        if let Coded::ByLanes(_) = self.coded {
            // The cache has two slots or more.
            return 0;
        }
        let (slot, sums) = match self.cut {
            Cut::Whole => (state, 0),
            Cut::Levels if job.backend != Backend::Cuda => (job.state.level_bytes(), 0),
            Cut::Levels => (job.state.level_bytes(), job.state.sums_bytes()),
        };
        let held = match job.device_budget {
            0 => u32::MAX,
            budget => slots_of(budget.saturating_sub(sums), slot),
        };
        let cache = job.most_slots().unwrap_or(u32::MAX).saturating_mul(parts).min(held);
        let is_online = job.config.schedule.algorithm == Some(Algorithm::Online);
        let beside = is_online || self.works_beside_slots();
        spare_bytes(self.zero_copy, beside, parts, cache, state)
    }

    /// Returns the bytes of device memory beside the cache: the spare slots of an application that
    /// works in the slots, and on a GPU the work space of a codec or of the comparison of time levels.
    pub(super) fn beside_cache(&self, job: &Job) -> Result<u64> {
        if let Some(bytes) = job.beside_cache {
            return Ok(bytes);
        }
        let mut beside = self.spare_bytes(job);
        if job.backend != Backend::Cuda {
            return Ok(beside);
        }
        if self.cut == Cut::Levels {
            beside = beside.saturating_add(job.state.sums_bytes());
        }
        if self.coded != Coded::None {
            beside = beside.saturating_add(job.state.coder_bytes(&self.codec)?);
        }
        Ok(beside)
    }

    /// Returns the costs of steps and of snapshots of `slot_bytes` bytes: by the configured profile, or
    /// by a typical machine of the backend.
    pub(super) fn costs(&self, job: &Job, slot_bytes: u64) -> Costs {
        let (state, is_host) = (job.state.bytes(), job.backend == Backend::Host);
        let link = job.config.device.link_bandwidth;
        let typical = || Profile::typical(is_host, state, link);
        let profile = job.profile.clone().unwrap_or_else(typical);
        let ratio = state as f64 / slot_bytes.max(1) as f64;
        let number = self.codec.method.number().into();
        let codec = (self.coded != Coded::None).then(|| {
            let measured = profile.codec(&self.codec).cloned();
            measured.unwrap_or_else(|| CodecProfile::typical(number, ratio, is_host))
        });
        let is_cut = self.cut == Cut::Levels;
        let previous_bytes = if is_cut { job.state.previous_bytes() } else { 0 };
        let costs = Costs::new(&profile, state, codec.as_ref());
        let costs = match self.coded {
            Coded::ByLanes(_) => {
                costs.by_lanes(job.codec_threads(), self.codec.method.is_shared_by_threads())
            }
            _ => costs,
        };
        let raw_slot_bytes = if is_cut { job.state.level_bytes() } else { state };
        Costs { slot_bytes, raw_slot_bytes, previous_bytes, ..costs }
    }
}

/// Returns which snapshots a codec may compress. A codec that is named is one for all snapshots, and
/// an application that computes in the slots may write to decoded states, but not to raw ones: it has
/// to ask for mixed storage. Threads of the host that code are offered beside the calling thread.
fn ways_to_code(job: &Job) -> Vec<Coded> {
    let config = &job.config;
    let is_known = config.schedule.algorithm != Some(Algorithm::Online);
    let is_weighed = config.codec.any_codec && is_known && !config.tiers.zero_copy;
    // A slow link asks for compressed snapshots in the cache, which are more: of 13 random problems 8 are
    // quickest with the fewest raw states, 3 with the most, and 2 with a number between (by 0.04 %).
    let mixed = [Coded::Moved(0), Coded::Moved(LEAST_RAW)];
    let mut ways = match config.tiers.mixed_storage {
        Some(true) if is_known => mixed.to_vec(),
        Some(true) => vec![mixed[0]],
        None if is_weighed => [&[Coded::All], &mixed[..]].concat(),
        _ => vec![Coded::All],
    };
    let has_lanes = job.backend == Backend::Host && job.codec_threads() > 0;
    let is_clairvoyant = config.tiers.policy == Policy::Clairvoyant;
    if has_lanes && is_known && is_clairvoyant && config.tiers.mixed_storage.is_none() {
        ways.extend(raw_states(job).into_iter().map(Coded::ByLanes));
    }
    ways
}

/// Returns the numbers of raw states that a cache may have whose snapshots the transfer lanes code: of a
/// budget for both tiers `cache_capacity`, or else powers of two that take at most half of it; 0 if
/// each tier has its own.
fn raw_states(job: &Job) -> Vec<u32> {
    let cache = job.config.tiers.cache;
    match (job.device_budget, job.host_budget) {
        (0, 0) if cache == 0 => vec![MOST_BUFFERS],
        (0, budget) | (budget, 0) if budget > 0 && cache > 0 => vec![cache],
        (0, budget) | (budget, 0) if budget > 0 => {
            let most = slots_of(budget / 2, job.state.bytes());
            (0..).map(|k| 1 << k).take_while(|&raw| raw <= most.min(MOST_RAW)).collect()
        }
        _ => vec![0],
    }
}

/// Returns the codecs that are worth a plan: the configured one, or those that were measured with the
/// configured bound. If none was measured, and there is a compression factor, Lorenzo stands for a codec
/// with this factor.
fn codecs(job: &Job) -> Vec<Settings> {
    let mut codecs = job.codecs();
    if !job.config.codec.any_codec {
        return codecs;
    }
    codecs.retain(|codec| job.profile.as_ref().is_some_and(|p| p.codec(codec).is_some()));
    if codecs.is_empty() && job.config.codec.compression_factor > 1.0 {
        codecs.push(job.config.codec.settings.with(Method::Lorenzo));
    }
    if codecs.is_empty() {
        log::warn!("compressor = auto: no codec was measured with this bound, and there is no compression_factor: snapshots are raw");
    }
    codecs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use Coded::{All, ByLanes, Moved};
    use Cut::{Levels, Whole};

    /// The ways that a configuration leaves open after these changes, for states with a time level to
    /// share and measured codecs.
    fn storages(changes: &[impl Fn(&mut Config)]) -> Vec<Storage> {
        let codec = |method: i32| CodecProfile { compressor: method, ..Default::default() };
        let config = Config::default().with(|c| {
            let codecs = vec![codec(4), codec(5)];
            c.device.profile = Some(Profile { codecs, ..Profile::typical_gpu(1 << 20) });
            changes.iter().for_each(|change| change(c));
        });
        Storage::all(&Job::new(config, State::Bytes { all: 1 << 20, previous: 1 << 19 }))
    }

    fn of(way: Storage) -> (Cut, Coded, &'static str) {
        (way.cut, way.coded, way.codec.method.name())
    }

    fn ways(changes: &[fn(&mut Config)]) -> Vec<(Cut, Coded, &'static str)> {
        storages(changes).into_iter().map(of).collect()
    }

    #[test]
    fn the_ways_to_store_are_those_of_the_configuration() {
        let [raw, levels] = [Whole, Levels].map(|cut| (cut, Coded::None, "none"));
        let [lorenzo, dct] = ["lorenzo", "dct"]
            .map(|name| [All, Moved(0), Moved(LEAST_RAW)].map(|k| (Whole, k, name)));
        let named = |c: &mut Config| c.codec.settings.method = Method::Dct;
        let auto = |c: &mut Config| c.codec.any_codec = true;
        let shared = |c: &mut Config| c.tiers.shared_levels = true;
        let mixed = |c: &mut Config| c.tiers.mixed_storage = Some(true);
        assert_eq!(ways(&[]), [raw]);
        assert_eq!(ways(&[named]), [dct[0]]);
        assert_eq!(ways(&[named, mixed]), [dct[1], dct[2]]);
        let online = |c: &mut Config| c.schedule.algorithm = Some(Algorithm::Online);
        assert_eq!(ways(&[named, mixed, online]), [dct[1]]);
        assert_eq!(ways(&[auto]), [vec![raw], lorenzo.to_vec(), dct.to_vec()].concat());
        assert_eq!(ways(&[auto, mixed]), [raw, lorenzo[1], lorenzo[2], dct[1], dct[2]]);
        assert_eq!(
            ways(&[auto, |c| c.tiers.mixed_storage = Some(false)]),
            [raw, lorenzo[0], dct[0]]
        );
        assert_eq!(ways(&[auto, |c| c.tiers.zero_copy = true]), [raw, lorenzo[0], dct[0]]);
        assert_eq!(ways(&[shared]), [levels, raw]);
        assert_eq!(
            ways(&[shared, auto, mixed]),
            [levels, raw, lorenzo[1], lorenzo[2], dct[1], dct[2]]
        );
        // States that are some steps apart have no level in common.
        assert_eq!(ways(&[shared, |c| c.schedule.adjoint_every = 2]), [raw]);
        // Nobody knows the number of steps by which two ways could be compared.
        assert_eq!(ways(&[shared, |c| c.schedule.algorithm = Some(Algorithm::Online)]), [levels]);
        // Threads of the host that code take part of a budget for raw states, or have a budget for these.
        let lanes = |c: &mut Config| {
            (c.device.backend, c.codec.threads) = (Backend::Host, Some(1));
            c.tiers.host_budget = 20 << 20;
        };
        let by_lanes =
            |raw: &[u32]| raw.iter().map(|&k| (Whole, ByLanes(k), "dct")).collect::<Vec<_>>();
        let ways_of = |more: fn(&mut Config)| ways(&[named, lanes, more]);
        let all = |raw: &[u32]| [vec![dct[0]], by_lanes(raw)].concat();
        assert_eq!(ways_of(|_| ()), all(&[2, 4, 8]));
        assert_eq!(ways_of(|c| c.tiers.cache = 5), all(&[5]));
        assert_eq!(ways_of(|c| c.tiers.device_budget = 1 << 22), all(&[0]));
        let ways_of_own = ways_of(|c| c.codec.settings.method = Method::Plugin(64));
        assert_eq!(ways_of_own.into_iter().map(|way| way.1).collect::<Vec<_>>(), [All]);
        assert_eq!(ways_of(|c| c.device.backend = Backend::Cuda), all(&[]));
        // Without a number of threads the idle processors of the profile decide.
        assert_eq!(ways_of(|c| c.codec.threads = Some(0)), all(&[]));
        assert_eq!(ways_of(|c| c.codec.threads = None), all(&[]));
        for (idle, raw) in [(0.7, &[][..]), (0.8, &[2, 4, 8]), (7.0, &[2, 4, 8])] {
            let idle_of = |c: &mut Config| {
                named(c);
                lanes(c);
                c.codec.threads = None;
                c.device.profile.iter_mut().for_each(|profile| profile.idle_processors = idle);
            };
            let found: Vec<_> = storages(&[idle_of]).into_iter().map(of).collect();
            assert_eq!(found, all(raw), "{idle} idle processors");
        }
        assert_eq!(ways_of(|c| c.tiers.policy = Policy::Lru), all(&[]));
        assert_eq!(ways_of(|c| c.tiers.mixed_storage = Some(false)), all(&[]));
        // Where the schedule is chosen, a sequence is one way, and so are levels that threads code.
        let in_sequence = |c: &mut Config| c.codec.settings.sequences = true;
        let store_all = |c: &mut Config| c.schedule.algorithm = Some(Algorithm::StoreAll);
        let flags = |changes: &[fn(&mut Config)]| {
            let ways = storages(changes).into_iter().map(|way| (way.cut, way.codec.sequences));
            ways.collect::<Vec<_>>()
        };
        let both = [(Levels, true), (Whole, true), (Levels, false), (Whole, false)];
        assert_eq!(flags(&[named, in_sequence, shared]), both);
        assert_eq!(flags(&[named, in_sequence, shared, store_all]), both[..2]);
        let lanes_alone = |cut: Cut| {
            let three = [2, 4, 8].map(|raw| (cut, ByLanes(raw), "dct"));
            [vec![(cut, All, "dct")], three.to_vec()].concat()
        };
        let both = lanes_alone(Levels).into_iter().zip(lanes_alone(Whole));
        let mut alternating: Vec<_> = both.flat_map(|(a, b)| [a, b]).collect();
        // The place of one state is enough for two levels.
        alternating.insert(2, (Levels, ByLanes(1), "dct"));
        assert_eq!(ways(&[named, lanes, shared]), alternating);
        assert_eq!(ways(&[named, lanes, shared, store_all]), alternating);
        let revolve = |c: &mut Config| c.schedule.algorithm = Some(Algorithm::Revolve);
        let of_revolve = [vec![(Levels, All, "dct")], lanes_alone(Whole)].concat();
        assert_eq!(ways(&[named, lanes, shared, revolve]), of_revolve);
        // A second sweep restores every state again.
        let of_sweeps =
            |more: fn(&mut Config)| ways(&[named, lanes, shared, |c| c.schedule.sweeps = 2, more]);
        assert_eq!(of_sweeps(|_| ()), of_revolve);
        assert_eq!(of_sweeps(store_all), of_revolve);
        // A codec that was not measured is no way, unless its ratio is told.
        let unknown = |c: &mut Config| c.device.profile = None;
        assert_eq!(ways(&[auto, unknown]), [raw]);
        let told = |c: &mut Config| c.codec.compression_factor = 4.0;
        assert_eq!(ways(&[auto, unknown, told]), [vec![raw], lorenzo.to_vec()].concat());
    }
}
