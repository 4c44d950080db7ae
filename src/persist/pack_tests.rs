//! Packed payloads: what is packed is read, and no damage goes unnoticed.

use super::container::Container;
use super::format::{Header, Kind, Origin, RecordHead, Start, PIECE};
use super::level::Level;
use super::name::Name;
use super::newest::tests::file;
use super::pack::slabs;
use super::shapes::{FieldAt, Shapes, SHAPES, SNAPSHOT};
use super::store::tests::{fingerprint, folder};
use super::store::Store;
use super::writer::ContainerWriter;
use crate::cases::cases;
use crate::layout::{Field, Layout};
use crate::scalar::Scalar;
use proptest::prelude::*;
use std::fs;

fn field(n: [u64; 3], scalar: Scalar) -> Field {
    Field { n, scalar, previous_of: None }
}

fn any_field() -> impl Strategy<Value = Field> {
    let extent = prop_oneof![1u64..5, 30u64..70, 500u64..700];
    let scalar = (0..Scalar::ALL.len()).prop_map(|k| Scalar::ALL[k]);
    (extent, 1u64..40, 1u64..9, scalar).prop_map(|(a, b, c, scalar)| field([a, b, c], scalar))
}

/// A record of the generation that `write` writes.
struct Written {
    kind: Kind,
    name: &'static str,
    bytes: Vec<u8>,
}

/// Values of a field that are smooth, but for one bit of `noise` in so many bytes.
fn values(field: &Field, noise: u64) -> Vec<u8> {
    let count = field.n.iter().product::<u64>();
    let smooth = |k: u64| (k as f64 / 50.0).sin() / 1024.0;
    let mut bytes: Vec<u8> = match field.scalar {
        Scalar::F32 => (0..count).flat_map(|k| (smooth(k) as f32).to_le_bytes()).collect(),
        Scalar::F64 => (0..count).flat_map(|k| smooth(k).to_le_bytes()).collect(),
        scalar => (0..count * scalar.bytes()).map(|k| ((k * k) >> 3) as u8).collect(),
    };
    for k in 0..noise {
        let at = (k * 7919) as usize % bytes.len();
        bytes[at] = bytes[at].wrapping_mul(31).wrapping_add(k as u8);
    }
    bytes
}

/// The records of arrays, of a snapshot of `state`, and of the shapes of all.
fn records(state: &Layout, arrays: &[Field], noise: u64) -> Vec<Written> {
    let array =
        |array: &Field| Written { kind: Kind::Array, name: "u", bytes: values(array, noise) };
    let mut all: Vec<Written> = arrays.iter().map(array).collect();
    let mut snapshot = vec![7; state.slot_bytes as usize];
    for (field, offset) in state.fields.iter().zip(&state.offsets) {
        let bytes = values(field, noise);
        snapshot[*offset as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
    all.push(Written { kind: Kind::Snapshot, name: SNAPSHOT, bytes: snapshot });
    let shapes = Shapes { state: state.fields.clone(), arrays: arrays.to_vec() };
    let bytes = shapes.to_bytes().unwrap();
    all.push(Written { kind: Kind::Other, name: SHAPES, bytes });
    all
}

fn head(k: usize, of: &Written) -> RecordHead {
    let bytes = of.bytes.len() as u64;
    let (name, ts) = (Name::new(of.name).unwrap(), k as i64);
    RecordHead { kind: of.kind, name, ts, codec: 0, raw_bytes: bytes, stored_bytes: bytes }
}

fn origin() -> Origin {
    let start = Start { number: 5, parent: 0, from: 0 };
    Origin { generation: 1, rank: 0, ranks: 1, confirmed: 0, time: 0, start }
}

fn container(records: &[Written]) -> Vec<u8> {
    let header = Header { fingerprint: fingerprint(3), shot: 0, it: 7 };
    let mut bytes = Vec::new();
    let mut writer = ContainerWriter::new(&mut bytes, &header, &origin(), None).unwrap();
    for (k, record) in records.iter().enumerate() {
        writer.record(head(k, record)).unwrap();
        record.bytes.chunks(999_999).for_each(|piece| writer.write(piece).unwrap());
    }
    writer.finish().unwrap();
    bytes
}

fn packed(bytes: &[u8], packs: bool) -> Vec<u8> {
    let reader = Container::open(bytes).unwrap();
    reader.copy_into(Vec::new(), None, packs, &mut |_| Ok(())).unwrap().0
}

fn check(bytes: &[u8], records: &[Written]) {
    let reader = Container::open(bytes).unwrap();
    for (k, record) in records.iter().enumerate() {
        let mut read = Vec::new();
        let sink = &mut |piece: &[u8]| {
            assert!(piece.len() <= PIECE);
            read.extend_from_slice(piece);
            Ok(())
        };
        reader.read(k, sink).unwrap();
        assert!(read == record.bytes, "record {k}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(40, 1000)))]

    /// The slabs of a record are its bytes in their order, at most a piece each, and of types that the codec codes, but
    /// for what lies between fields and lines that are not whole words.
    #[test]
    fn slabs_are_the_record(fields in prop::collection::vec(any_field(), 1..5), gap in 0u64..3_000_000) {
        let mut places = Vec::new();
        let mut end = gap;
        for field in fields {
            places.push(FieldAt { number: 0, field, offset: end });
            end += field.bytes().unwrap() + gap % 300;
        }
        let mut at = 0;
        for slab in slabs(&places, end + 3) {
            let bytes = slab.bytes().unwrap();
            prop_assert!(0 < bytes && bytes <= PIECE as u64);
            let of = places.iter().rfind(|place| place.offset <= at);
            let of = of.filter(|of| at < of.offset + of.field.bytes().unwrap());
            let of_words = |field: Field| field.n[0] * field.scalar.bytes() % 4 == 0;
            let is_coded = of.is_some_and(|of| of_words(of.field));
            prop_assert_eq!(slab.scalar.is_coded(), is_coded);
            let end = of.map_or(u64::MAX, |of| of.offset + of.field.bytes().unwrap());
            prop_assert!(at + bytes <= end);
            at += bytes;
        }
        prop_assert_eq!(at, end + 3);
    }

    /// Any fields: a packed copy reads as it was written, and smooth fields of long lines are shorter in it. A copy of
    /// a copy is the same file, packed or not.
    #[test]
    fn packed_records_read_as_they_were_written(
        state in prop::collection::vec(any_field(), 1..9),
        arrays in prop::collection::vec(any_field(), 0..4),
        noise in prop_oneof![Just(0u64), 0u64..100_000],
    ) {
        let records = records(&Layout::new(state).unwrap(), &arrays, noise);
        let plain = container(&records);
        let copy = packed(&plain, true);
        check(&copy, &records);
        prop_assert!(packed(&copy, true) == copy);
        prop_assert!(packed(&copy, false) == packed(&plain, false));
        let reader = Container::open(&copy[..]).unwrap();
        for (place, record) in reader.places.iter().zip(&records) {
            let (bytes, pieces) = (record.bytes.len(), record.bytes.len() / PIECE);
            let most = if place.is_packed { 256 * (pieces + 1) } else { 0 };
            prop_assert!(place.bytes as usize <= bytes + most);
        }
        for (k, array) in arrays.iter().enumerate() {
            let (place, bytes) = (reader.places[k], records[k].bytes.len() as u64);
            if array.scalar.is_coded() && noise == 0 && array.n[0] >= 30 && bytes > 1 << 16 {
                prop_assert!(place.is_packed && place.bytes < bytes);
            }
        }
    }
}

/// Counters, masks and waves of every type become shorter.
#[test]
fn values_of_every_type_are_packed() {
    const N: u64 = 256;
    let wave = |k: u64, turn: f64| ((k % N) as f64 / 40.0 + (k / N) as f64 / 30.0 + turn).sin();
    for scalar in Scalar::ALL {
        let value = |k: u64| match scalar {
            Scalar::F32 => (wave(k, 0.0) as f32).to_le_bytes().to_vec(),
            Scalar::F64 => wave(k, 0.0).to_le_bytes().to_vec(),
            Scalar::ComplexF32 => {
                [0.0, 1.0].map(|turn| (wave(k, turn) as f32).to_le_bytes()).concat()
            }
            Scalar::ComplexF64 => [0.0, 1.0].map(|turn| wave(k, turn).to_le_bytes()).concat(),
            Scalar::I8 | Scalar::Byte => vec![u8::from(wave(k, 0.0) > 0.0)],
            Scalar::I16 => ((k / 100) as i16).to_le_bytes().to_vec(),
            Scalar::I32 => (k as i32).to_le_bytes().to_vec(),
            Scalar::I64 => (k as i64).to_le_bytes().to_vec(),
        };
        let shapes = Shapes { state: Vec::new(), arrays: vec![field([N, N, 1], scalar)] };
        let of = |kind, name, bytes| Written { kind, name, bytes };
        let records = [
            of(Kind::Array, "u", (0..N * N).flat_map(value).collect()),
            of(Kind::Other, SHAPES, shapes.to_bytes().unwrap()),
        ];
        let copy = packed(&container(&records), true);
        check(&copy, &records);
        let place = Container::open(&copy[..]).unwrap().places[0];
        let whole = records[0].bytes.len() as u64;
        assert!(
            place.is_packed && 10 * place.bytes < 9 * whole,
            "{scalar:?}: {} of {whole}",
            place.bytes
        );
    }
}

/// Every bit and every truncation of a packed copy.
#[test]
fn damage_of_packed_records_is_noticed() {
    let state = Layout::new(vec![field([30, 20, 1], Scalar::F32), field([7, 1, 1], Scalar::I8)]);
    let records = records(&state.unwrap(), &[field([40, 9, 1], Scalar::F64)], 0);
    let mut bytes = packed(&container(&records), true);
    let is_right =
        |bytes: &[u8]| Container::open(bytes).is_ok_and(|reader| reader.verify().is_ok());
    assert!(is_right(&bytes));
    let reader = Container::open(&bytes[..]).unwrap();
    assert!(
        reader.places[0].is_packed && reader.places[1].is_packed && !reader.places[2].is_packed
    );
    for k in 0..bytes.len() {
        for bit in 0..8 {
            bytes[k] ^= 1 << bit;
            assert!(!is_right(&bytes), "bit {bit} of byte {k}");
            bytes[k] ^= 1 << bit;
        }
        assert!(!is_right(&bytes[..k]), "{k} bytes");
    }
}

/// Generations of which copies are packed at times: every copy reads as the generation, whatever it refers to, and so
/// does a clone of a copy, which is not packed.
#[test]
fn copies_that_refer_to_packed_ones_read_the_same() {
    let path = folder("packed-copies");
    let (near, shared) = (path.join("near"), path.join("shared"));
    let state = Layout::new(vec![field([50, 40, 3], Scalar::F32)]).unwrap();
    let arrays = [field([100, 100, 1], Scalar::F64), field([9, 9, 9], Scalar::F32)];
    let mut all = records(&state, &arrays, 0);
    let (mut lengths, mut packed_before) = (Vec::new(), 0);
    let mut store = Store::open(&near, 0, 1, false).unwrap();
    store.whole_every(50);
    for (generation, packs) in [(1, true), (2, false), (3, true), (4, true), (5, false)] {
        store.share(&shared, packs).unwrap();
        all[1].bytes[generation as usize] ^= 1;
        let header = Header { fingerprint: fingerprint(3), shot: 0, it: 7 };
        let mut writer = store.begin(header).unwrap();
        for (k, record) in all.iter().enumerate() {
            writer.record(head(k, record)).unwrap();
            writer.write(&record.bytes).unwrap();
        }
        let finished = writer.finish().unwrap();
        store.publish(finished).unwrap();
        let shipper = store.ship(generation, &mut Ok).unwrap().expect("a copy to be made");
        assert_eq!(shipper.ship(&mut |_| Ok(())).unwrap().generations, 1);
        let copy = file(&shared, 0, generation);
        let reader = super::open(&copy, Some((0, generation))).unwrap();
        reader.verify().unwrap();
        lengths.push(reader.length);
        let is_held = |place: &&super::Place| place.generation < generation && place.is_packed;
        packed_before += reader.places.iter().filter(is_held).count();
        for (k, record) in all.iter().enumerate() {
            let mut read = Vec::new();
            let sink = &mut |piece: &[u8]| {
                read.extend_from_slice(piece);
                Ok(())
            };
            reader.read(k, sink).unwrap();
            assert!(read == record.bytes, "record {k} of generation {generation}");
        }
        let to = path.join(format!("clone {generation}"));
        super::clone_generation(&[shared.as_path()], 0, generation, &to).unwrap();
        let level = Level::open(&to, 0, false).unwrap();
        level.read_right(generation, false).unwrap();
    }
    let plain = container(&all).len() as u64;
    assert!(lengths[0] < plain && packed_before > 4, "{lengths:?} of {plain}, {packed_before}");
    fs::remove_dir_all(&path).unwrap();
}
