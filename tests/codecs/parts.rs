//! Snapshots that are cut into records: the fields of a time level, and those of the previous one.

use crate::common::draw::Draw;
use crate::damage::changes::pieces;
use crate::snapshots::{check_field, extreme, methods, roles, settings, State};
use gpuzip::codec::{ErrorBound, Header, Method, Record, SnapshotCodec};
use gpuzip::device::{AppMemory, Rows};
use gpuzip::error::{Code, Result};
use gpuzip::layout::{Field, Layout, Parts};
use gpuzip::scalar::Scalar;
use proptest::prelude::*;

const UNTOUCHED: u8 = 0xA5;

/// A codec for states that are cut into two parts, and how it cuts them.
struct Cut {
    fields: Vec<Field>,
    parts: Parts,
    codec: SnapshotCodec,
}

impl Cut {
    fn new(method: &Method, bound: ErrorBound, fields: &[Field]) -> Self {
        let layout = Layout::new(fields.to_vec()).unwrap();
        let parts = layout.by_level().unwrap();
        let codec = SnapshotCodec::of_parts(settings(method, bound), &layout, &parts).unwrap();
        Cut { fields: fields.to_vec(), parts, codec }
    }

    fn part_of(&self, field: usize) -> usize {
        self.parts.parts.iter().position(|part| part.fields.contains(&field)).unwrap()
    }

    /// The records of the first `parts` parts.
    fn make(&mut self, parts: usize, fields: &[AppMemory]) -> Result<[Vec<u8>; 2]> {
        let mut to = vec![UNTOUCHED; self.codec.capacity()];
        // SAFETY: the fields are vectors of this test.
        let bytes = unsafe { self.codec.compress_parts(0..parts, fields, &mut to) }?;
        Ok([0, 1].map(|part| to[self.codec.begin(part)..][..bytes[part]].to_vec()))
    }

    fn open(&mut self, record: Record, from: &[u8], fields: &[AppMemory]) -> Result<()> {
        // SAFETY: the fields are vectors of this test.
        unsafe { self.codec.decompress_record(record, from, fields) }
    }

    /// Decodes `record` into `state`, and checks that no field changed but those that it is for.
    fn read(&mut self, record: Record, from: &[u8], state: &mut State) {
        let before = state.data.clone();
        self.open(record, from, &state.memory()).unwrap();
        let is_for = |k: usize| match record {
            Record::Part(part) => self.part_of(k) == part,
            Record::AsPrevious => self.parts.previous.iter().any(|level| level.field == k),
        };
        for k in (0..before.len()).filter(|&k| !is_for(k)) {
            assert!(state.data[k] == before[k], "{record:?} changed field {k}");
        }
    }

    fn untouched(&self) -> State {
        let mut state = State::new(&self.fields, |_, _| 0.0);
        state.data.iter_mut().for_each(|data| data.fill(UNTOUCHED));
        state
    }
}

/// The state at time step `t` of a run: every field is a time level of its root.
fn state_of(run: &Run, t: usize) -> State {
    let levels: Vec<(usize, usize)> =
        (0..run.fields.len()).map(|k| root_of(&run.fields, k)).collect();
    State::new(&run.fields, |k, i| {
        let (root, depth) = levels[k];
        let (n, double) = (run.fields[k].n, run.fields[k].scalar != Scalar::F32);
        extreme(run.kinds[root], run.seed ^ root as u64, t + 8 - depth, i, n, double)
    })
}

/// The field at the end of the chain of later levels of field `k`, and the length of this chain.
fn root_of(fields: &[Field], k: usize) -> (usize, usize) {
    match fields[k].previous_of {
        None => (k, 0),
        Some(later) => {
            let (root, depth) = root_of(fields, later as usize);
            (root, depth + 1)
        }
    }
}

/// The fields of a run, and the kind of values of each.
#[derive(Clone, Debug)]
struct Run {
    fields: Vec<Field>,
    kinds: Vec<usize>,
    seed: u64,
}

/// The largest error that a decoded array may have, where the bound limits each value.
fn limit(bound: ErrorBound, x: &[f64]) -> Option<f64> {
    let finite = || x.iter().copied().filter(|x| x.is_finite());
    let (low, high) = finite().fold((f64::MAX, f64::MIN), |(l, h), x| (l.min(x), h.max(x)));
    match bound {
        ErrorBound::OfMax(b) => Some(b * finite().fold(0.0, |max: f64, x| max.max(x.abs()))),
        ErrorBound::OfRange(b) => Some(b * (high - low).clamp(0.0, f64::MAX)),
        ErrorBound::Absolute(b) => Some(b),
        _ => None,
    }
}

/// Checks a state of which part 1 came from the record of part 0 of the state before: every level keeps
/// the bound of a level, and the difference of two levels the sum of both bounds.
fn check_claimed(method: &Method, bound: ErrorBound, cut: &Cut, state: &State, back: &State) {
    for k in 0..state.fields.len() {
        let within = |j: &u32| cut.part_of(*j as usize) == 0 && cut.part_of(k) == 0;
        check_field(method, bound, state, back, k, state.fields[k].previous_of.filter(within));
    }
    for level in cut.parts.previous.iter().filter(|_| method.is_bounded()) {
        let of = |state: &State| {
            let levels = state.values(level.later).into_iter().zip(state.values(level.field));
            levels.map(|(later, x)| later - x).collect::<Vec<f64>>()
        };
        let limits = [level.later, level.field].map(|k| limit(bound, &state.values(k)));
        let [Some(a), Some(b)] = limits else { continue };
        let (exact, decoded) = (of(state), of(back));
        let most =
            exact.iter().fold(0f64, |max, x| if x.is_finite() { max.max(x.abs()) } else { max });
        for (x, y) in exact.iter().zip(&decoded).filter(|(x, y)| x.is_finite() && y.is_finite()) {
            let rounding = (most + a + b) * 4.0 * f64::EPSILON;
            assert!((x - y).abs() <= a + b + rounding, "{method:?}: {x:e}, {y:e}, {a:e} + {b:e}");
        }
    }
}

/// Saves and restores a chain of states. Of each state that is `claimed`, part 1 is not stored: it is part
/// 0 of the state before. Every other state has a record of each part.
fn check_chain(method: &Method, bound: ErrorBound, run: &Run, claimed: &[bool]) {
    let mut cut = Cut::new(method, bound, &run.fields);
    let mut records: Vec<[Vec<u8>; 2]> = Vec::new();
    for (t, &claimed) in claimed.iter().enumerate() {
        let mut state = state_of(run, t);
        if claimed {
            // A claimed level is not read.
            let levels = cut.parts.parts[1].fields.clone();
            levels.into_iter().for_each(|k| state.data[k].fill(0xFF));
        }
        let parts = if claimed { 1 } else { 2 };
        records.push(cut.make(parts, &state.memory()).unwrap());
        assert_eq!(claimed, records[t][1].is_empty());
    }
    for (t, &claimed) in claimed.iter().enumerate() {
        let (state, mut back) = (state_of(run, t), cut.untouched());
        cut.read(Record::Part(0), &records[t][0], &mut back);
        if claimed {
            cut.read(Record::AsPrevious, &records[t - 1][0], &mut back);
            check_claimed(method, bound, &cut, &state, &back);
        } else {
            cut.read(Record::Part(1), &records[t][1], &mut back);
            for k in 0..state.fields.len() {
                check_field(method, bound, &state, &back, k, state.fields[k].previous_of);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    /// Every state of a chain keeps its bounds, whatever the roles, the magnitudes and the bounds are,
    /// and whichever states share the level of the state before.
    #[test]
    fn chains_keep_their_bounds(
        method in prop::sample::select(methods()),
        n in prop_oneof![
            (1..90u64).prop_map(|n| [n, 1, 1]), (1..12u64, 1..12u64).prop_map(|(a, b)| [a, b, 1]),
            (1..6u64, 1..6u64, 1..6u64).prop_map(|(a, b, c)| [a, b, c]),
        ],
        roles in roles().prop_filter("a pair of levels", |roles| roles.iter().any(Option::is_some)),
        kinds in prop::collection::vec(0..23usize, 6), double in any::<bool>(), seed in any::<u64>(),
        claimed in prop::collection::vec(any::<bool>(), 1..4),
        bound in prop_oneof![
            (-12..2i32).prop_map(|e| ErrorBound::OfMax(10f64.powi(e))), (-320..309i32).prop_map(|e| ErrorBound::Absolute(10f64.powi(e))),
            (-12..6i32).prop_map(|e| ErrorBound::Absolute(10f64.powi(e))),
            (-12..2i32).prop_map(|e| ErrorBound::OfRange(10f64.powi(e))), (-100..400i32).prop_map(|d| ErrorBound::Psnr(d as f64)),
        ],
    ) {
        let scalar = if double { Scalar::F64 } else { Scalar::F32 };
        let mut fields: Vec<Field> = roles.iter().map(|&previous_of| Field { n, scalar, previous_of }).collect();
        fields.push(Field { n: [n[0], 1, 1], scalar: Scalar::F64, previous_of: None });
        let claimed: Vec<bool> = std::iter::once(false).chain(claimed).collect();
        check_chain(&method, bound, &Run { fields, kinds, seed }, &claimed);
    }
}

/// A level, its previous level, a field of its own, and a pair of arrays that no codec codes.
fn mixed_fields(n: [u64; 3]) -> [Field; 5] {
    let of = |scalar, previous_of| Field { n, scalar, previous_of };
    [
        of(Scalar::F32, Some(2)),
        of(Scalar::F64, None),
        of(Scalar::F32, None),
        of(Scalar::I64, None),
        of(Scalar::I64, Some(3)),
    ]
}

/// With both parts the records consist of the streams that a snapshot of one part has.
#[test]
fn both_records_are_the_streams_of_the_whole() {
    let fields = mixed_fields([23, 17, 5]);
    let layout = Layout::new(fields.to_vec()).unwrap();
    for (method, kind) in methods().iter().flat_map(|m| [13, 14, 17, 20].map(|kind| (m, kind))) {
        let run = Run { fields: fields.to_vec(), kinds: vec![kind; 5], seed: 3 };
        let mut state = state_of(&run, 0);
        let mut cut = Cut::new(method, ErrorBound::OfMax(1e-4), &fields);
        let records = cut.make(2, &state.memory()).unwrap();
        let mut whole =
            SnapshotCodec::new(settings(method, ErrorBound::OfMax(1e-4)), &layout).unwrap();
        let mut to = vec![UNTOUCHED; whole.capacity()];
        // SAFETY: the fields are vectors of this test.
        let bytes = unsafe { whole.compress(&state.memory(), &mut to) }.unwrap();
        let mut expected = [Vec::new(), Vec::new()];
        for (at, payload) in pieces(&to[..bytes]) {
            let stream = &to[at..at + (64 + payload).next_multiple_of(64)];
            let (header, ..) = Header::open(stream).unwrap();
            expected[cut.part_of(header.field as usize)].extend_from_slice(stream);
        }
        assert!(records == expected, "{method:?}, kind {kind}");
        if kind == 13 {
            // The pair is coded as a difference, so that part 0 is as it is by itself.
            assert!(cut.make(1, &state.memory()).unwrap()[0] == records[0], "{method:?}");
        }
    }
}

/// Fields with gaps between their rows are read and written as fields without.
#[test]
fn rows_apart_make_the_same_records() {
    let (n, pitch) = ([13, 11, 3], 19);
    let fields = mixed_fields(n);
    for method in methods() {
        let run = Run { fields: fields.to_vec(), kinds: vec![13; 5], seed: 8 };
        let mut cut = Cut::new(&method, ErrorBound::OfMax(1e-4), &fields);
        let mut spread = Spread::new(&fields, pitch);
        let mut states = [state_of(&run, 0), state_of(&run, 1)];
        let records = [0, 1].map(|t| cut.make(2 - t, &states[t].memory()).unwrap());
        for t in [0, 1] {
            spread.write(&states[t]);
            let memory = spread.memory();
            assert!(cut.make(2 - t, &memory).unwrap() == records[t], "{method:?}: other records");
        }
        for last in [(Record::Part(1), &records[0][1]), (Record::AsPrevious, &records[1][0])] {
            let mut back = cut.untouched();
            cut.read(Record::Part(0), &records[0][0], &mut back);
            cut.read(last.0, last.1, &mut back);
            spread = Spread::new(&fields, pitch);
            for (record, from) in [(Record::Part(0), &records[0][0]), last] {
                let memory = spread.memory();
                cut.open(record, from, &memory).unwrap();
            }
            assert!(spread.read() == back.data, "{method:?}, {last:?}: other values");
            let mut copy = Spread::new(&fields, pitch);
            copy.write(&back);
            assert!(copy.data == spread.data, "{method:?}, {last:?}: written between the rows");
        }
    }
}

/// Fields with gaps between their rows; the memory is untouched at first.
struct Spread {
    rows: Vec<Rows>,
    data: Vec<Vec<u8>>,
}

impl Spread {
    fn new(fields: &[Field], pitch: u64) -> Self {
        let rows: Vec<Rows> = fields.iter().map(|f| Rows::of(f, pitch, 0).unwrap()).collect();
        let data = rows.iter().map(|rows| vec![UNTOUCHED; rows.span()]).collect();
        Spread { rows, data }
    }

    fn memory(&mut self) -> Vec<AppMemory> {
        let pairs = self.data.iter_mut().zip(&self.rows);
        // SAFETY: the vectors outlive the calls that the memory is made for.
        pairs.map(|(data, rows)| unsafe { AppMemory::in_rows(data.as_mut_ptr(), *rows) }).collect()
    }

    fn write(&mut self, state: &State) {
        for ((rows, data), from) in self.rows.iter().zip(&mut self.data).zip(&state.data) {
            // SAFETY: `data` has the span of the rows, and `from` their values.
            unsafe { rows.scatter(from.as_ptr(), data.as_mut_ptr()) };
        }
    }

    fn read(&self) -> Vec<Vec<u8>> {
        let of = |(rows, data): (&Rows, &Vec<u8>)| {
            let mut values = vec![0; rows.bytes()];
            // SAFETY: `data` has the span of the rows, and `values` is as long as their values.
            unsafe { rows.gather(data.as_ptr(), values.as_mut_ptr()) };
            values
        };
        self.rows.iter().zip(&self.data).map(of).collect()
    }
}

/// A record is refused in the place of another one, cut off anywhere, and with any bit changed, also in
/// the streams that are skipped.
#[test]
fn other_records_are_refused() {
    let fields = mixed_fields([9, 2, 1]);
    let run = Run { fields: fields.to_vec(), kinds: vec![13; 5], seed: 8 };
    for method in methods() {
        let mut cut = Cut::new(&method, ErrorBound::OfMax(1e-3), &fields);
        let [own, previous] = cut.make(2, &state_of(&run, 0).memory()).unwrap();
        let mut refuse = |record: Record, from: &[u8]| {
            let mut back = cut.untouched();
            let error = cut.open(record, from, &back.memory()).unwrap_err();
            assert_eq!(error.code, Code::Stream, "{method:?}, {record:?}: {error}");
        };
        refuse(Record::Part(0), &previous);
        refuse(Record::Part(1), &own);
        refuse(Record::AsPrevious, &previous);
        let mut draw = Draw(5);
        for record in [Record::Part(0), Record::Part(1), Record::AsPrevious] {
            let good = if record == Record::Part(1) { &previous } else { &own };
            refuse(record, &[&good[..], &good[..]].concat());
            for _ in 0..50 {
                refuse(record, &good[..draw.below(good.len())]);
                let mut bad = good.clone();
                let (at, payload) = pieces(good)[draw.below(2)];
                bad[at + draw.below(64 + payload)] ^= 1 << draw.below(8);
                refuse(record, &bad);
            }
        }
    }
}
