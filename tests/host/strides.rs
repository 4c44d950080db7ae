//! Fields with gaps between rows and planes, and types that are stored without compression: a
//! session on such fields restores the same bits as a session on contiguous fields, and does not
//! touch the gaps.

use crate::common::cases::cases;
use gpuzip::codec::{ErrorBound, Method, Settings};
use gpuzip::config::{Backend, Config};
use gpuzip::device::{AppField, AppMemory, Rows, Stream};
use gpuzip::layout::Field;
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{Algorithm, Kind};
use gpuzip::session::Session;
use proptest::prelude::*;

const STREAM: Stream = Stream(std::ptr::null_mut());

/// The byte in the memory around and between the values.
const AROUND: u8 = 0xA5;

/// Copies of all states: for each state and each field, the bytes of the values without gaps.
fn states(fields: &[Field], steps: u32, seed: u64) -> Vec<Vec<Vec<u8>>> {
    let level = |k: usize, ts: i64| -> Vec<u8> {
        let count = fields[k].n.iter().product::<u64>();
        let mut draw = seed.wrapping_add((1 + k as u64) << 40).wrapping_add(ts as u64) | 1;
        let mut bits = || {
            draw ^= draw << 13;
            draw ^= draw >> 7;
            draw ^= draw << 17;
            draw
        };
        let smooth =
            |i: u64| (0.3 * i as f64 + 0.1 * ts as f64 + seed as f64).sin() * (1.0 + k as f64);
        match fields[k].scalar {
            Scalar::F32 => (0..count).flat_map(|i| (smooth(i) as f32).to_le_bytes()).collect(),
            Scalar::F64 => (0..count).flat_map(|i| smooth(i).to_le_bytes()).collect(),
            other => (0..count * other.bytes()).map(|_| bits() as u8).collect(),
        }
    };
    let state = |ts: i64| {
        let field = |(k, field): (usize, &Field)| {
            field.previous_of.map_or_else(|| level(k, ts), |j| level(j as usize, ts - 1))
        };
        fields.iter().enumerate().map(field).collect()
    };
    (0..i64::from(steps)).map(state).collect()
}

/// A field in the application's memory with gaps between rows and planes.
struct Apart {
    field: Field,
    pitches: [u64; 2],
    /// Number of values in front of the first value.
    lead: usize,
    /// The values and the gaps; u128 aligns them for every type.
    memory: Vec<u128>,
}

impl Apart {
    fn new(field: Field, [lead, gap2, gap3]: [u64; 3]) -> Self {
        let [n1, n2, n3] = field.n;
        let pitch2 = n1 + gap2;
        let pitch3 = (n2 - 1) * pitch2 + n1 + gap3;
        let values = lead + (n3 - 1) * pitch3 + (n2 - 1) * pitch2 + n1 + 2;
        let memory = vec![
            u128::from_le_bytes([AROUND; 16]);
            (values * field.scalar.bytes()).div_ceil(16) as usize
        ];
        Apart { field, pitches: [pitch2, pitch3], lead: lead as usize, memory }
    }

    fn bytes(&mut self) -> &mut [u8] {
        let bytes = size_of_val(&self.memory[..]);
        // SAFETY: `bytes` bytes of the vector, which the result borrows.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), bytes) }
    }

    /// The range of bytes of each value, in the order of the values.
    fn places(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let ([n1, n2, n3], [pitch2, pitch3]) = (self.field.n, self.pitches);
        let (value, lead) = (self.field.scalar.bytes() as usize, self.lead);
        let at = move |k: u64| (k / n1 / n2) * pitch3 + (k / n1 % n2) * pitch2 + k % n1;
        (0..n1 * n2 * n3)
            .map(move |k| value * (lead + at(k) as usize))
            .map(move |at| at..at + value)
    }

    fn put(&mut self, values: &[u8]) {
        let value = self.field.scalar.bytes() as usize;
        let places: Vec<_> = self.places().collect();
        for (place, x) in places.into_iter().zip(values.chunks(value)) {
            self.bytes()[place].copy_from_slice(x);
        }
    }

    /// The bytes of the values, or `None` if a byte around them was written. Overwrites the values.
    fn take(&mut self) -> Option<Vec<u8>> {
        let places: Vec<_> = self.places().collect();
        let values = places.iter().flat_map(|place| self.bytes()[place.clone()].to_vec()).collect();
        places.into_iter().for_each(|place| self.bytes()[place].fill(AROUND));
        self.bytes().iter().all(|&byte| byte == AROUND).then_some(values)
    }

    fn app_field(&mut self) -> AppField {
        let rows = Rows::of(&self.field, self.pitches[0], self.pitches[1]).unwrap();
        let first = self.lead * self.field.scalar.bytes() as usize;
        // SAFETY: the vector has room for the rows, outlives the call that the field is made for,
        // and no other code touches the vector during this call.
        let memory = unsafe { AppMemory::in_rows(self.bytes().as_mut_ptr().add(first), rows) };
        AppField { field: self.field, memory: Some(memory) }
    }
}

/// Fields with gaps; `gaps` gives the length of each gap in values.
fn apart(fields: &[Field], gaps: &mut impl FnMut() -> u64) -> Vec<Apart> {
    fields.iter().map(|&field| Apart::new(field, [gaps(), gaps(), gaps()])).collect()
}

/// Runs a shot of two sessions, one on fields with gaps and one on contiguous fields: both must
/// restore the same values, and, if `exact` or without compression, the saved values.
fn shot(sessions: &mut [Session; 2], fields: &[Field], steps: u32, seed: u64, exact: bool) {
    let states = states(fields, steps, seed);
    let mut draw = seed;
    let mut gaps = || {
        draw = draw.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (draw >> 60) % 6
    };
    let mut live = 0;
    let mut restores = 0;
    sessions.iter_mut().for_each(|session| session.setup().unwrap());
    loop {
        let tick = sessions[0].get_action().unwrap();
        assert_eq!(sessions[1].get_action().unwrap().action, tick.action);
        let ts = i64::from(tick.action.ts);
        let mut with_gaps = apart(fields, &mut gaps);
        let mut contiguous: Vec<Apart> =
            fields.iter().map(|&field| Apart::new(field, [0; 3])).collect();
        let [one, two] = &mut *sessions;
        match tick.action.kind {
            Kind::Forward => live = tick.action.ts,
            Kind::Save => {
                assert_eq!(ts, i64::from(live));
                for state in [&mut with_gaps, &mut contiguous] {
                    state
                        .iter_mut()
                        .zip(&states[ts as usize])
                        .for_each(|(field, values)| field.put(values));
                }
                let before: Vec<_> = with_gaps.iter().map(|field| field.memory.clone()).collect();
                one.save(
                    ts,
                    &with_gaps.iter_mut().map(Apart::app_field).collect::<Vec<_>>(),
                    STREAM,
                )
                .unwrap();
                two.save(
                    ts,
                    &contiguous.iter_mut().map(Apart::app_field).collect::<Vec<_>>(),
                    STREAM,
                )
                .unwrap();
                assert!(
                    with_gaps.iter().zip(before).all(|(field, before)| field.memory == before),
                    "a save writes nothing"
                );
            }
            Kind::Restore => {
                one.retrieve(
                    ts,
                    &with_gaps.iter_mut().map(Apart::app_field).collect::<Vec<_>>(),
                    STREAM,
                )
                .unwrap();
                two.retrieve(
                    ts,
                    &contiguous.iter_mut().map(Apart::app_field).collect::<Vec<_>>(),
                    STREAM,
                )
                .unwrap();
                for (k, field) in fields.iter().enumerate() {
                    let values = with_gaps[k]
                        .take()
                        .unwrap_or_else(|| panic!("state {ts}, field {k}: its gaps were written"));
                    assert!(
                        values == contiguous[k].take().unwrap(),
                        "state {ts}, field {k}: gaps change what comes back"
                    );
                    let is_exact = exact || !field.scalar.is_coded();
                    assert!(
                        !is_exact || values == states[ts as usize][k],
                        "state {ts}, field {k}: a wrong state"
                    );
                }
                (live, restores) = (tick.action.ts, restores + 1);
            }
            Kind::Backward => assert_eq!(ts, i64::from(live)),
            Kind::Terminate | Kind::Error => break,
        }
    }
    let [a, b] = sessions.each_mut().map(|session| session.stats().unwrap());
    assert_eq!(
        (a.restores, a.raw_bytes, a.stored_bytes, a.d2h_bytes),
        (restores, b.raw_bytes, b.stored_bytes, b.d2h_bytes)
    );
}

fn open(config: &Config, fields: &[Field], steps: u32) -> [Session; 2] {
    let unplaced: Vec<AppField> =
        fields.iter().map(|&field| AppField { field, memory: None }).collect();
    [(); 2].map(|()| Session::new(config.clone(), steps.into(), &unplaced).unwrap())
}

fn methods() -> impl Strategy<Value = Method> {
    prop_oneof![
        4 => Just(Method::None),
        1 => (2u32..20).prop_map(|rate| Method::Zfp { rate }),
        1 => Just(Method::Cuszp),
        1 => Just(Method::Lorenzo),
        1 => Just(Method::Dct),
        1 => Just(Method::Fp16),
        1 => Just(Method::Bfp),
    ]
}

/// Fields of all types; one in three has a previous time level, as the field before or after it.
fn all_fields() -> impl Strategy<Value = Vec<Field>> {
    let extents = prop_oneof![
        prop::array::uniform3(1u64..8),
        (1u64..40, 1u64..12, Just(1u64)).prop_map(|(a, b, c)| [a, b, c])
    ];
    let one = (extents, prop::sample::select(&Scalar::ALL[..]), 0..6u32);
    prop::collection::vec(one, 1..4).prop_map(|all| {
        let mut fields: Vec<Field> = Vec::new();
        for (n, scalar, past) in all {
            let (field, at) = (Field { n, scalar, previous_of: None }, fields.len() as u32);
            match past {
                0 => fields.extend([field, Field { previous_of: Some(at), ..field }]),
                1 => fields.extend([Field { previous_of: Some(at + 1), ..field }, field]),
                _ => fields.push(field),
            }
        }
        fields
    })
}

fn base(method: Method) -> Config {
    let compression = Settings { method, bound: ErrorBound::OfMax(1e-3), reject_nonfinite: false };
    Config { backend: Backend::Host, compression, ..Config::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(120, 4000), ..ProptestConfig::default() })]

    #[test]
    fn gaps_change_nothing(
        fields in all_fields(),
        method in methods(),
        algorithm in prop::sample::select(vec![Algorithm::Revolve, Algorithm::Uniform, Algorithm::Zcut, Algorithm::TwoLevel, Algorithm::Hrevolve, Algorithm::StoreAll]),
        (steps, snapshots, cache) in (2u32..16, 2u32..6, 0u32..4),
        shared_levels: bool,
        seed: u64,
    ) {
        let exact = method == Method::None;
        let shared_levels = shared_levels && exact;
        let config = Config { algorithm: Some(algorithm), snapshots, cache, shared_levels, ..base(method) };
        let mut sessions = open(&config, &fields, steps);
        for shot_number in 0..2 {
            shot(&mut sessions, &fields, steps, seed.wrapping_add(shot_number), exact);
        }
    }
}

fn one_of_each() -> Vec<Field> {
    Scalar::ALL.map(|scalar| Field { n: [5, 3, 2], scalar, previous_of: None }).to_vec()
}

#[test]
fn a_measured_shot_has_gaps_and_types_as_any_other() {
    let config = Config {
        algorithm: Some(Algorithm::Revolve),
        snapshots: 4,
        cache: 2,
        ..base(Method::Lorenzo)
    };
    let mut sessions = open(&config, &one_of_each(), 20);
    sessions.iter_mut().for_each(|session| session.autotune().unwrap());
    shot(&mut sessions, &one_of_each(), 20, 5, false);
    assert_eq!(sessions[0].profile().unwrap().codecs.len(), 1);
}

/// The compression factor applies only to fields that the codec compresses; other fields count with
/// their full size in the plan.
#[test]
fn what_is_stored_as_it_is_counts_in_full() {
    let coded = Field { n: [1000, 1, 1], scalar: Scalar::F32, previous_of: None };
    let raw = Field { scalar: Scalar::I32, ..coded };
    let config = Config {
        algorithm: Some(Algorithm::Revolve),
        snapshots: 4,
        compression_factor: 10.0,
        ..base(Method::Lorenzo)
    };
    let slot_bytes = |fields: &[Field]| open(&config, fields, 20)[0].slot_bytes();
    assert!(slot_bytes(&[coded; 2]) <= 1024);
    assert!((4000 + 400..4000 + 1024).contains(&slot_bytes(&[coded, raw])));
}
