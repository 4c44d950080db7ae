//! Snapshots whose payloads are forged under a right checksum.

use super::*;

/// Returns the range of the payload of the array at offset `at` of a snapshot, and the offset of
/// the next array.
fn payload(snapshot: &[u8], at: usize) -> (std::ops::Range<usize>, usize) {
    let bytes = u64::from_le_bytes(snapshot[at + 48..at + 56].try_into().unwrap()) as usize;
    (at + 64..at + 64 + bytes, at + (64 + bytes).next_multiple_of(64))
}

/// Replaces the payload of the array at offset `at` and corrects the checksum, so that only the
/// codec can notice the change.
fn forge(snapshot: &mut Vec<u8>, at: usize, forged: &[u8]) {
    let (_, next) = payload(snapshot, at);
    snapshot[at + 48..at + 56].copy_from_slice(&(forged.len() as u64).to_le_bytes());
    let mut padded = forged.to_vec();
    padded.resize(forged.len().next_multiple_of(64), 0);
    snapshot.splice(at + 64..next, padded);
    assert!(reseal(&mut snapshot[at..]));
}

/// A change of a payload.
#[derive(Clone, Debug)]
enum Forgery {
    Byte(prop::sample::Index, u8),
    Bit(prop::sample::Index, u32),
    Word(prop::sample::Index, u64),
    Fill(prop::sample::Index, usize, u8),
    Copy(prop::sample::Index, prop::sample::Index, usize),
    Cut(prop::sample::Index),
    Longer(u8, usize),
}

impl Forgery {
    fn apply(&self, payload: &mut Vec<u8>) {
        let len = payload.len();
        if len == 0 {
            return payload.push(1);
        }
        match self {
            Forgery::Byte(at, byte) => payload[at.index(len.min(64))] = *byte,
            Forgery::Bit(at, bit) => payload[at.index(len)] ^= 1 << bit,
            Forgery::Word(at, word) => {
                let at = at.index(len.div_ceil(8)) * 8;
                let end = len.min(at + 8);
                payload[at..end].copy_from_slice(&word.to_le_bytes()[..end - at]);
            }
            Forgery::Fill(at, count, byte) => {
                let at = at.index(len);
                payload[at..len.min(at + count)].fill(*byte);
            }
            Forgery::Copy(from, to, count) => {
                let (from, to) = (from.index(len), to.index(len));
                payload.copy_within(from..from + (*count).min(len - from.max(to)), to);
            }
            Forgery::Cut(at) => payload.truncate(at.index(len)),
            Forgery::Longer(byte, count) => payload.resize(len + count, *byte),
        }
    }
}

fn forgeries() -> impl Strategy<Value = Vec<Forgery>> {
    let at = any::<prop::sample::Index>;
    let word = prop_oneof![
        any::<u64>(),
        Just(0),
        Just(u64::MAX),
        Just(1 << 63),
        (0..64u32).prop_map(|k| 1 << k),
        (0..5000u64),
        any::<f64>().prop_map(f64::to_bits),
    ];
    let one = prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Forgery::Byte(at, byte)),
        (at(), 0..8u32).prop_map(|(at, bit)| Forgery::Bit(at, bit)),
        (at(), word).prop_map(|(at, word)| Forgery::Word(at, word)),
        (at(), 1..300usize, prop_oneof![Just(0), Just(0xFF), any::<u8>()])
            .prop_map(|(at, count, byte)| Forgery::Fill(at, count, byte)),
        (at(), at(), 1..300usize).prop_map(|(from, to, count)| Forgery::Copy(from, to, count)),
        at().prop_map(Forgery::Cut),
        (any::<u8>(), 1..100usize).prop_map(|(byte, count)| Forgery::Longer(byte, count)),
    ];
    prop::collection::vec(one, 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    /// A forged payload with the right checksum ends in an error or in values, the same at every
    /// instruction level, and leaves nothing behind in the coder.
    #[test]
    fn forged_payloads_do_no_harm(
        method in prop::sample::select(methods()),
        n in prop_oneof![
            Just([1, 1, 1]), (1..5000u64).prop_map(|n| [n, 1, 1]), (1..80u64, 1..80u64).prop_map(|(a, b)| [a, b, 1]),
            (1..40u64, 1..24u64, 1..20u64).prop_map(|(a, b, c)| [a, b, c]), (1..100u64).prop_map(|b| [1, 7, b]),
        ],
        kind in prop::sample::select(vec![0, 1, 6, 7, 9, 10]), double in any::<bool>(), seed in any::<u64>(), which in 0..2usize,
        bound in prop_oneof![(1..6i32).prop_map(|e| ErrorBound::OfMax(10f64.powi(-e))), (20..110i32).prop_map(|d| ErrorBound::Psnr(d as f64))],
        forgeries in forgeries(),
    ) {
        let scalar = if double { Scalar::F64 } else { Scalar::F32 };
        let fields = [Field { n, scalar, previous_of: None }, Field { n, scalar, previous_of: Some(0) }];
        let mut codec = codec(&settings(&method, bound), &fields);
        let good = compress(&mut codec, &State::new(&fields, |k, i| value(kind, seed, k, i, n)));
        let data = decompress(&mut codec, &good, &fields).unwrap().data;
        let at = if which == 0 { 0 } else { payload(&good, 0).1 };
        let mut forged = good[payload(&good, at).0].to_vec();
        forgeries.iter().for_each(|forgery| forgery.apply(&mut forged));
        let mut bad = good.clone();
        forge(&mut bad, at, &forged);
        let outcomes: Vec<_> = simd::levels()
            .into_iter()
            .map(|level| {
                simd::set_level(level);
                let outcome = decompress(&mut codec, &bad, &fields).map(|state| state.data).map_err(|error| error.code);
                prop_assert!(decompress(&mut codec, &good, &fields).unwrap().data == data);
                Ok(outcome)
            })
            .collect::<Result<_, _>>()?;
        prop_assert!(outcomes.windows(2).all(|w| w[0] == w[1]));
        prop_assert!(outcomes[0].as_ref().err().is_none_or(|code| *code == Code::Stream));
    }
}
