//! Fields with gaps between rows and planes, and types that are stored without compression: a
//! session on such fields restores the same bits as a session on contiguous fields, and does not
//! touch the gaps.

use crate::common::play;
use crate::common::prelude::*;
use gpuzip::device::Rows;
use proptest::prelude::*;

/// The byte in the memory around and between the values.
const AROUND: u8 = 0xA5;

/// A smooth value.
fn smooth(seed: u64, ts: i64, k: usize, i: usize) -> f64 {
    (0.3 * i as f64 + 0.1 * ts as f64 + seed as f64).sin() * (1.0 + k as f64)
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

/// An application whose fields have gaps between rows and planes, others at every save and retrieve.
struct InRows {
    /// The states without gaps.
    states: HostApp<'static>,
    memory: Vec<Apart>,
    /// The lengths of the gaps are less than this number of values.
    longest: usize,
    draw: Draw,
    live: u32,
    /// The values that were restored last.
    restored: Vec<Vec<u8>>,
}

impl InRows {
    fn new(fields: &[Field], seed: u64, longest: usize) -> Self {
        let mut states = HostApp::new(fields, smooth);
        states.seed = seed;
        let (memory, restored) = (Vec::new(), Vec::new());
        InRows { states, memory, longest, draw: Draw(seed), live: 0, restored }
    }
}

impl App for InRows {
    fn fields(&mut self) -> Vec<AppField> {
        self.memory.iter_mut().map(Apart::app_field).collect()
    }

    fn forward(&mut self, ts: u32) {
        self.live = ts;
    }

    fn backward(&mut self, tick: Tick) {
        assert_eq!(self.live, tick.action.ts);
    }

    fn serve(&mut self, session: &mut Session, tick: Tick) -> Result<()> {
        let (draw, longest) = (&mut self.draw, self.longest);
        let mut gap = || draw.below(longest) as u64;
        let apart = |&field: &Field| Apart::new(field, [gap(), gap(), gap()]);
        self.memory = self.states.shapes.iter().map(apart).collect();
        if tick.action.kind == Kind::Save {
            assert_eq!(self.live, tick.action.ts);
            let state = self.states.state(self.live);
            self.memory.iter_mut().zip(&state).for_each(|(field, values)| field.put(values));
        }
        let before: Vec<_> = self.memory.iter().map(|field| field.memory.clone()).collect();
        play::serve(self, session, tick)?;
        if tick.action.kind == Kind::Restore {
            self.live = tick.action.ts;
            self.restored = (self.memory.iter_mut().enumerate())
                .map(|(k, field)| {
                    field
                        .take()
                        .unwrap_or_else(|| panic!("{tick:?}: gaps of field {k} were written"))
                })
                .collect();
        } else {
            let is_same = self.memory.iter().zip(before).all(|(field, was)| field.memory == was);
            assert!(is_same, "a save writes nothing");
        }
        Ok(())
    }
}

/// Runs a shot of two sessions, one on fields with gaps and one on contiguous fields: both must
/// restore the same values, and, if `exact` or without compression, the saved values.
fn shot(sessions: &mut [Session; 2], fields: &[Field], seed: u64, exact: bool) {
    let mut apps = [6, 1].map(|longest| InRows::new(fields, seed, longest));
    let mut restores = 0;
    sessions.iter_mut().for_each(|session| session.setup().unwrap());
    loop {
        let ticks = [0, 1].map(|k| step(&mut sessions[k], &mut apps[k]).unwrap());
        assert_eq!(ticks[0].map(|tick| tick.action), ticks[1].map(|tick| tick.action));
        let Some(tick) = ticks[0] else { break };
        if tick.action.kind == Kind::Restore {
            let [one, two] = &apps;
            assert!(one.restored == two.restored, "{tick:?}: gaps change what comes back");
            let state = one.states.state(tick.action.ts);
            for (k, field) in fields.iter().enumerate() {
                let is_exact = exact || !field.scalar.is_coded();
                assert!(!is_exact || one.restored[k] == state[k], "{tick:?}, field {k}");
            }
            restores += 1;
        }
    }
    let [a, b] = sessions.each_mut().map(|session| session.stats().unwrap());
    assert_eq!(
        (a.restores, a.raw_bytes, a.stored_bytes, a.d2h_bytes),
        (restores, b.raw_bytes, b.stored_bytes, b.d2h_bytes)
    );
}

fn two(config: &Config, fields: &[Field], steps: u32) -> [Session; 2] {
    [(); 2].map(|()| open(config, steps, fields).unwrap())
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
            let (field, at) = (field(n, scalar), fields.len() as u32);
            match past {
                0 => fields.extend([field, Field { previous_of: Some(at), ..field }]),
                1 => fields.extend([Field { previous_of: Some(at + 1), ..field }, field]),
                _ => fields.push(field),
            }
        }
        fields
    })
}

fn base(method: Method, algorithm: Algorithm, snapshots: u32, cache: u32) -> Config {
    let compression = coding(method, ErrorBound::OfMax(1e-3));
    config(algorithm, snapshots, cache).with(|c| c.codec.settings = compression)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(120, 4000), ..ProptestConfig::default() })]

    #[test]
    fn gaps_change_nothing(
        fields in all_fields(),
        method in methods(),
        algorithm in prop::sample::select(&ALGORITHMS[..]),
        (steps, snapshots, cache) in (2u32..16, 2u32..6, 0u32..4),
        shared_levels: bool,
        seed: u64,
    ) {
        let exact = method == Method::None;
        let shared_levels = shared_levels && exact;
        let config = base(method, algorithm, snapshots, cache).with(|c| c.tiers.shared_levels = shared_levels);
        let mut sessions = two(&config, &fields, steps);
        for shot_number in 0..2 {
            shot(&mut sessions, &fields, seed.wrapping_add(shot_number), exact);
        }
    }
}

fn one_of_each() -> Vec<Field> {
    Scalar::ALL.map(|scalar| field([5, 3, 2], scalar)).to_vec()
}

#[test]
fn a_measured_shot_has_gaps_and_types_as_any_other() {
    let config = base(Method::Lorenzo, Algorithm::Revolve, 4, 2);
    let mut sessions = two(&config, &one_of_each(), 20);
    sessions.iter_mut().for_each(|session| session.autotune().unwrap());
    shot(&mut sessions, &one_of_each(), 5, false);
    assert_eq!(sessions[0].profile().unwrap().codecs.len(), 1);
}

/// The compression factor applies only to fields that the codec compresses; other fields count with
/// their full size in the plan.
#[test]
fn what_is_stored_as_it_is_counts_in_full() {
    let coded = field([1000, 1, 1], Scalar::F32);
    let raw = Field { scalar: Scalar::I32, ..coded };
    let config =
        base(Method::Lorenzo, Algorithm::Revolve, 4, 0).with(|c| c.codec.compression_factor = 10.0);
    let slot_bytes = |fields: &[Field]| open(&config, 20, fields).unwrap().tiers().slot_bytes;
    assert!(slot_bytes(&[coded; 2]) <= 1024);
    assert!((4000 + 400..4000 + 1024).contains(&slot_bytes(&[coded, raw])));
}
