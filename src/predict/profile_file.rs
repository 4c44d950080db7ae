//! Profiles as bytes, with the same format on every machine. A program broadcasts these bytes to
//! its ranks, and a profile file contains them.
//!
//! | bytes | little endian |
//! |---|---|
//! | 0..4 | `gpzp` |
//! | 4..8 | version: 2 to 5, the first one that has all that is known (version 1 had another checksum) |
//! | 8..16 | length of all bytes |
//! | 16..24 | checksum of the bytes from 24 on |
//! | 24..28 | backend: 0 any, 1 host, 2 CUDA |
//! | 28..32 | number of codecs |
//! | 32..40 | bytes of the states that were measured |
//! | 40..56 | two FP64: milliseconds of a forward and of a backward step |
//! | 56..96 | five FP64: GB/s to the device, to the host, within the device, from disk, to disk |
//! | 56 per codec | four 32-bit words: number, parameter, mode of the bound, 1 for snapshots in a sequence, else 0; |
//! | | five FP64: bound, GB/s of compression and of decompression, ratio, worst ratio |
//! | from version 3 on: 8 | number of parts of the sweep whose steps have times of their own, in version 3 at least 1 |
//! | 16 per part | two FP64: milliseconds of a forward and of a backward step |
//! | from version 4 on: 8 | FP64: GB/s of both directions of the link together, in version 4 not 0 |
//! | version 5: 8 | FP64: processors that the steps leave idle, not 0 |

use super::profile::{CodecProfile, Profile, MOST_PARTS};
use crate::codec::checksum;
use crate::error::{fail, Result};

const MAGIC: &[u8; 4] = b"gpzp";
const VERSION: u32 = 2;
const VERSION_WITH_PARTS: u32 = 3;
const VERSION_WITH_BOTH: u32 = 4;
const VERSION_WITH_IDLE: u32 = 5;
/// Bytes before the part that the checksum covers.
const PREFIX: usize = 24;
const FIXED: usize = 96;
const CODEC: usize = 56;
/// More codecs than exist.
const MOST_CODECS: u32 = 256;

impl Profile {
    /// Returns the profile as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED + CODEC * self.codecs.len());
        bytes.extend(MAGIC);
        let version = match self {
            _ if self.idle_processors != 0.0 => VERSION_WITH_IDLE,
            _ if self.both_gbs != 0.0 => VERSION_WITH_BOTH,
            _ if !self.steps.is_empty() => VERSION_WITH_PARTS,
            _ => VERSION,
        };
        bytes.extend(version.to_le_bytes());
        bytes.extend([0; PREFIX - 8]);
        bytes.extend(self.backend.to_le_bytes());
        bytes.extend((self.codecs.len() as u32).to_le_bytes());
        bytes.extend(self.state_bytes.to_le_bytes());
        let steps = [self.forward_ms, self.backward_ms];
        let speeds =
            [self.h2d_gbs, self.d2h_gbs, self.d2d_gbs, self.disk_read_gbs, self.disk_write_gbs];
        bytes.extend(steps.into_iter().chain(speeds).flat_map(f64::to_le_bytes));
        for c in &self.codecs {
            let words = [c.compressor, c.parameter as i32, c.bound_mode, c.sequences.into()];
            bytes.extend(words.into_iter().flat_map(i32::to_le_bytes));
            let numbers = [c.bound, c.compress_gbs, c.decompress_gbs, c.ratio, c.worst_ratio];
            bytes.extend(numbers.into_iter().flat_map(f64::to_le_bytes));
        }
        if version >= VERSION_WITH_PARTS {
            bytes.extend((self.steps.len() as u64).to_le_bytes());
            bytes.extend(self.steps.iter().flatten().copied().flat_map(f64::to_le_bytes));
        }
        if version >= VERSION_WITH_BOTH {
            bytes.extend(self.both_gbs.to_le_bytes());
        }
        if version >= VERSION_WITH_IDLE {
            bytes.extend(self.idle_processors.to_le_bytes());
        }
        let size = bytes.len() as u64;
        bytes[8..16].copy_from_slice(&size.to_le_bytes());
        let sum = checksum(&bytes[PREFIX..], 0);
        bytes[16..24].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a profile from its bytes. The error says why the bytes are no valid profile.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let version = check_prefix(bytes)?;
        let mut words = Words(&bytes[PREFIX..]);
        let (backend, count) = (words.i32(), words.i32() as u32);
        let mut profile = Profile {
            backend,
            state_bytes: words.u64(),
            forward_ms: words.f64(),
            backward_ms: words.f64(),
            h2d_gbs: words.f64(),
            d2h_gbs: words.f64(),
            d2d_gbs: words.f64(),
            disk_read_gbs: words.f64(),
            disk_write_gbs: words.f64(),
            codecs: (0..count.min(MOST_CODECS)).map(|_| words.codec()).collect(),
            ..Profile::free()
        };
        if version >= VERSION_WITH_PARTS {
            let parts = words.u64().min(MOST_PARTS as u64);
            profile.steps = (0..parts).map(|_| [words.f64(), words.f64()]).collect();
        }
        if version >= VERSION_WITH_BOTH {
            profile.both_gbs = words.f64();
        }
        if version >= VERSION_WITH_IDLE {
            profile.idle_processors = words.f64();
        }
        // What was read has this version and this length.
        if !(0..=2).contains(&backend) || profile.to_bytes()[..16] != bytes[..16] {
            return fail!(
                Stream,
                "a profile of {} bytes for backend {backend} with {count} codecs: it is damaged",
                bytes.len()
            );
        }
        match profile.check() {
            Ok(()) => Ok(profile),
            Err(error) => fail!(Stream, "the profile is damaged: {error}"),
        }
    }
}

/// Returns the version of these bytes.
fn check_prefix(bytes: &[u8]) -> Result<u32> {
    if bytes.len() < 8 || !bytes.starts_with(MAGIC) {
        return fail!(
            Stream,
            "these {} bytes are no profile: a profile begins with \"gpzp\", these with \"{}\"; give a file \
             that gpuzip_autotune or gpuzip_profile_export wrote",
            bytes.len(),
            bytes[..bytes.len().min(4)].escape_ascii()
        );
    }
    let mut words = Words(&bytes[4..]);
    let version = words.i32() as u32;
    if !(VERSION..=VERSION_WITH_IDLE).contains(&version) {
        return fail!(Stream, "a profile of version {version}: this library reads versions {VERSION} to {VERSION_WITH_IDLE}; measure again with this library");
    }
    let size = words.u64();
    if bytes.len() < FIXED || size != bytes.len() as u64 {
        return fail!(
            Stream,
            "a profile of {size} bytes, of which {} are here: it was cut, or something was added",
            bytes.len()
        );
    }
    if words.u64() != checksum(&bytes[PREFIX..], 0) {
        return fail!(Stream, "the checksum of the profile is wrong: it was damaged on its way");
    }
    Ok(version)
}

/// The bytes that are left to read. Reads behind the end return zeros.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (word, rest) = self.0.split_at(N.min(self.0.len()));
        self.0 = rest;
        word.try_into().unwrap_or([0; N])
    }

    fn i32(&mut self) -> i32 {
        i32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    fn f64(&mut self) -> f64 {
        f64::from_le_bytes(self.take())
    }

    fn codec(&mut self) -> CodecProfile {
        let [compressor, parameter, bound_mode, sequences] = std::array::from_fn(|_| self.i32());
        let [bound, compress_gbs, decompress_gbs, ratio, worst_ratio] =
            std::array::from_fn(|_| self.f64());
        CodecProfile {
            compressor,
            parameter: parameter as u32,
            bound_mode,
            bound,
            sequences: sequences != 0,
            compress_gbs,
            decompress_gbs,
            ratio,
            worst_ratio,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A profile with steps of their own in each part of the sweep.
    fn parted(numbers: &[f64], codecs: usize, parts: usize) -> Profile {
        let n = |k: usize| numbers[k % numbers.len()];
        let steps = (0..parts).map(|k| [n(k), n(k + 1)]).collect();
        Profile { steps, ..profile(numbers, codecs) }
    }

    fn profile(numbers: &[f64], codecs: usize) -> Profile {
        let n = |k: usize| numbers[k % numbers.len()];
        let codec = |k: usize| CodecProfile {
            compressor: k as i32,
            parameter: k as u32 * 3,
            sequences: k % 2 > 0,
            bound_mode: k as i32 % 4,
            bound: n(k),
            compress_gbs: n(k + 1),
            decompress_gbs: n(k + 2),
            ratio: n(k + 3),
            worst_ratio: n(k + 4),
        };
        let codecs = (0..codecs).map(codec).collect();
        let (forward_ms, backward_ms) = (n(0), n(1));
        Profile {
            backend: 1,
            state_bytes: 1 << 33,
            forward_ms,
            backward_ms,
            h2d_gbs: n(2),
            codecs,
            ..Profile::typical_gpu(7)
        }
    }

    proptest! {
        #[test]
        fn come_back_as_they_went(numbers in prop::collection::vec(1e-3..1e9f64, 1..9), codecs in 0usize..6, parts in 0usize..9) {
            let profile = parted(&numbers, codecs, parts);
            prop_assert_eq!(Profile::from_bytes(&profile.to_bytes()).unwrap(), profile);
        }

        #[test]
        fn damage_is_seen(numbers in prop::collection::vec(1e-9..1e9f64, 1..9), codecs in 0usize..6, parts in 0usize..5, at: prop::sample::Index, bit in 0..8u32) {
            let bytes = parted(&numbers, codecs, parts).to_bytes();
            let mut flipped = bytes.clone();
            flipped[at.index(bytes.len())] ^= 1 << bit;
            prop_assert!(Profile::from_bytes(&flipped).is_err());
            prop_assert!(Profile::from_bytes(&bytes[..at.index(bytes.len())]).is_err());
            prop_assert!(Profile::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        }

        #[test]
        fn any_bytes_end_well(bytes in prop::collection::vec(any::<u8>(), 0..200), parts in 0usize..2) {
            prop_assert!(Profile::from_bytes(&bytes).is_err());
            let mut sealed = [&parted(&[1.0], 0, parts).to_bytes()[..PREFIX], &bytes].concat();
            let (size, sum) = (sealed.len() as u64, checksum(&bytes, 0));
            sealed[8..16].copy_from_slice(&size.to_le_bytes());
            sealed[16..24].copy_from_slice(&sum.to_le_bytes());
            if let Ok(profile) = Profile::from_bytes(&sealed) {
                profile.check().unwrap();
            }
        }
    }

    /// The speed of both directions and the idle processors come back, with and without times of parts;
    /// profiles without them have the bytes that they had before there were such numbers.
    #[test]
    fn later_numbers_make_later_versions() {
        for parts in [0, 3] {
            let old = parted(&[2.0], 1, parts);
            assert_eq!(old.to_bytes()[4], if parts > 0 { 3 } else { 2 });
            let both = Profile { both_gbs: 3.5, ..old.clone() };
            let idle = Profile { idle_processors: 1.5, ..old.clone() };
            let all = Profile { idle_processors: 0.5, ..both.clone() };
            for (new, version) in [(both, 4), (idle, 5), (all, 5)] {
                let bytes = new.to_bytes();
                assert_eq!(bytes[4], version);
                assert_eq!(Profile::from_bytes(&bytes).unwrap(), new);
                assert!(Profile::from_bytes(&bytes[..bytes.len() - 8]).is_err());
            }
        }
    }

    #[test]
    fn directions_take_turns_if_both_need_the_sum_of_the_times() {
        let of = |both_gbs| Profile { both_gbs, ..Profile::typical_gpu(1) }.has_one_engine();
        assert_eq!(Profile::in_turns(25.0, 25.0), 25.0);
        assert_eq!([0.0, 25.0, 30.0, 40.0, 50.0].map(of), [false, true, true, false, false]);
    }

    #[test]
    fn the_bytes_are_the_same_everywhere() {
        let bytes = profile(&[2.0], 1).to_bytes();
        assert_eq!(bytes.len(), FIXED + CODEC);
        assert_eq!(&bytes[..16], b"gpzp\x02\0\0\0\x98\0\0\0\0\0\0\0");
        assert_eq!(
            (&bytes[24..48], &bytes[144..152]),
            (
                &b"\x01\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\x40"[..],
                &2f64.to_le_bytes()[..]
            )
        );
        assert_eq!(
            u64::from_le_bytes(bytes[16..24].try_into().unwrap()),
            3_188_861_430_301_107_689
        );
    }

    #[test]
    fn refusals_say_why() {
        let good = profile(&[2.0], 1).to_bytes();
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        let negative = Profile { h2d_gbs: -1.0, ..profile(&[2.0], 0) }.to_bytes();
        for (bytes, part) in [
            (with(4, 1), "version 1"),
            (with(4, 3), "damaged"),
            (with(4, 4), "damaged"),
            (with(4, 5), "damaged"),
            (with(4, 6), "version 6"),
            (with(0, b'x'), "no profile"),
            (with(50, 1), "checksum"),
            (good[..100].to_vec(), "of which 100"),
            (vec![], "no profile"),
            (negative, "h2d_gbs = -1"),
        ] {
            let error = Profile::from_bytes(&bytes).unwrap_err();
            assert!(error.message.contains(part), "{error}");
        }
    }
}
