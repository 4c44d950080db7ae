//! Compares a codec on a device (by default the software driver) with the host's codec.

mod values;

use super::app::device::{Memory, Own, Pair, Pinned, Primary};
use super::app::ok;
use super::checksum::fnv;
use super::guarded::Guarded;
use gpuzip::codec::gpu::{GpuCodec, Report};
use gpuzip::codec::{Content, ErrorBound, Header, Record, Settings, SnapshotCodec};
use gpuzip::device::Queue;
use gpuzip::device::{AppMemory, Stream};
use gpuzip::error::Result;
use gpuzip::layout::{Field, Layout, Parts};
use gpuzip::scalar::Scalar;

#[allow(unused_imports)] // Not every test program uses all.
pub use values::{values, Draw, Kind, KINDS};

/// Length in bytes of the guards around fields and behind the room for a stream; no codec may write
/// to a guard.
const GUARD: usize = 256;

pub struct Rig {
    layout: Layout,
    settings: Settings,
    host: SnapshotCodec,
    device: Option<GpuCodec>,
    queue: Queue,
    stream: Own,
    memory: Vec<Memory>,
    /// Device addresses of the fields.
    fields: Vec<u64>,
    /// Device memory with room for a stream, and a guard behind the room.
    stage: Memory,
    room: usize,
    /// Page-locked memory for the codec's report.
    report: Pinned,
    _primary: Primary,
}

impl Rig {
    pub fn new(settings: Settings, fields: &[([u64; 3], Scalar, Option<u32>)]) -> Self {
        Self::skewed(settings, fields, 0)
    }

    /// Makes a rig whose fields begin `skew` values behind a multiple of 256 bytes.
    pub fn skewed(
        settings: Settings,
        fields: &[([u64; 3], Scalar, Option<u32>)],
        skew: u64,
    ) -> Self {
        Self::cut(settings, fields, skew, Layout::whole)
    }

    /// Makes a rig for states with a record for each time level.
    pub fn of_levels(settings: Settings, fields: &[([u64; 3], Scalar, Option<u32>)]) -> Self {
        Self::cut(settings, fields, 0, |layout| layout.by_level().unwrap())
    }

    fn cut(
        settings: Settings,
        fields: &[([u64; 3], Scalar, Option<u32>)],
        skew: u64,
        parts: impl Fn(&Layout) -> Parts,
    ) -> Self {
        let fields: Vec<Field> = fields
            .iter()
            .map(|&(n, scalar, previous_of)| Field { n, scalar, previous_of })
            .collect();
        let layout = Layout::new(fields.clone()).unwrap();
        let parts = parts(&layout);
        let primary = Primary::new(0);
        let stream = Own::new();
        let queue = Queue(Stream(stream.0.cast()));
        let host = SnapshotCodec::of_parts(settings.clone(), &layout, &parts).unwrap();
        let room = host.capacity();
        let architecture = gpuzip::device::cuda::devices().unwrap()[0].architecture;
        let device = GpuCodec::new(&settings, &layout, &parts, architecture, &queue).unwrap();
        let front = |f: &Field| GUARD as u64 + skew * f.scalar.bytes();
        let bytes = |f: &Field| f.bytes().unwrap() + front(f) + GUARD as u64;
        let memory: Vec<Memory> = fields.iter().map(|f| Memory::new(bytes(f))).collect();
        let places = fields.iter().zip(&memory).map(|(f, memory)| memory.0 + front(f)).collect();
        Rig {
            layout,
            settings,
            host,
            device: Some(device),
            queue,
            stream,
            memory,
            fields: places,
            stage: Memory::new((room + GUARD) as u64),
            room,
            report: Pinned::new(size_of::<Report>() as u64),
            _primary: primary,
        }
    }

    fn device(&self) -> &GpuCodec {
        self.device.as_ref().unwrap()
    }

    fn host_fields(&self, kind: Kind, seed: u64) -> Vec<Vec<u8>> {
        let mut draw = Draw::new(seed);
        let fields = self.layout.fields.iter().enumerate();
        fields.map(|(i, f)| values(kind, f.n, f.scalar, i as f64, &mut draw)).collect()
    }

    fn memory(fields: &mut [Vec<u8>]) -> Vec<AppMemory> {
        // SAFETY: the vectors outlive the codec calls that use this memory. The system's allocator
        // aligns vectors of this size to 8 bytes or more.
        fields.iter_mut().map(|f| unsafe { AppMemory::new(f.as_mut_ptr(), f.len()) }).collect()
    }

    fn finish(&self) -> Result<[u64; 2]> {
        ok!(cuStreamSynchronize(self.stream.0));
        // SAFETY: the kernel that stored the report has ended.
        unsafe { self.report.0.cast::<Report>().read_volatile() }.check()
    }

    /// The stream that the device's codec makes from values of this kind.
    pub fn made(&mut self, kind: Kind, seed: u64) -> Vec<u8> {
        let fields = self.host_fields(kind, seed);
        self.make(&fields)
    }

    /// The stream that the device's codec makes of these fields.
    pub fn make(&self, fields: &[Vec<u8>]) -> Vec<u8> {
        let [stream, _] = self.make_parts(1, fields);
        stream
    }

    /// The records that the device's codec makes of the first `parts` parts of these fields.
    fn make_parts(&self, parts: usize, fields: &[Vec<u8>]) -> [Vec<u8>; 2] {
        for (field, &to) in fields.iter().zip(&self.fields) {
            ok!(cuMemcpyAsync(to, field.as_ptr() as u64, field.len(), self.stream.0));
        }
        // Interpreted kernels are checked for reads of bytes that nothing has written: the room
        // then stays as it is, 0xA5 at first.
        if std::env::var_os("CUDA_EMU_KERNELS").is_none() {
            ok!(cuMemsetD8Async(self.stage.0, 0xA5, self.room + GUARD, self.stream.0));
        }
        self.device()
            .compress(&self.queue, parts, &self.fields, self.stage.0, self.report.0 as u64)
            .unwrap();
        let bytes = self.finish().unwrap().map(|bytes| bytes as usize);
        assert!(bytes.iter().sum::<usize>() <= self.room);
        let mut stream = vec![0; self.room + GUARD];
        ok!(cuMemcpyAsync(stream.as_mut_ptr() as u64, self.stage.0, stream.len(), self.stream.0));
        ok!(cuStreamSynchronize(self.stream.0));
        assert!(
            stream[self.room..].iter().all(|&byte| byte == 0xA5),
            "written behind the room: {:?}",
            self.layout.fields
        );
        [0, 1].map(|part| stream[self.host.begin(part)..][..bytes[part]].to_vec())
    }

    /// The fields that the device decodes from a stream.
    pub fn read(&self, stream: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.read_records(&[(Record::Part(0), stream)])
    }

    /// The fields after the device has decoded these records, one after the other.
    fn read_records(&self, records: &[(Record, &[u8])]) -> Result<Vec<Vec<u8>>> {
        for (field, &at) in self.layout.fields.iter().zip(&self.fields) {
            ok!(cuMemsetD8Async(
                at - GUARD as u64,
                0xA5,
                field.bytes().unwrap() as usize + 2 * GUARD,
                self.stream.0
            ));
        }
        for &(record, stream) in records {
            ok!(cuMemsetD8Async(self.stage.0, 0xA5, self.room, self.stream.0));
            ok!(cuMemcpyAsync(self.stage.0, stream.as_ptr() as u64, stream.len(), self.stream.0));
            self.device()
                .decompress(
                    &self.queue,
                    record,
                    (self.stage.0, stream.len() as u64),
                    &self.fields,
                    self.report.0 as u64,
                )
                .unwrap();
            let result = self.finish();
            self.check_guards();
            result?;
        }
        let mut fields: Vec<Vec<u8>> =
            self.layout.fields.iter().map(|f| vec![0; f.bytes().unwrap() as usize]).collect();
        for (field, &at) in fields.iter_mut().zip(&self.fields) {
            ok!(cuMemcpyAsync(field.as_mut_ptr() as u64, at, field.len(), self.stream.0));
        }
        ok!(cuStreamSynchronize(self.stream.0));
        Ok(fields)
    }

    /// Returns the median times in seconds, over `repeats` runs, of compressing these fields, of
    /// decompressing them, and of copying their bytes on the device; and the length of the
    /// compressed snapshot in bytes.
    pub fn time(&mut self, fields: &[Vec<u8>], repeats: usize) -> ([f64; 3], u64) {
        let stream = self.make(fields);
        let raw: usize = fields.iter().map(Vec::len).sum();
        let copies = [(); 2].map(|()| Memory::new(raw as u64));
        let bytes = stream.len() as u64;
        let compress = self.median(repeats, |this| {
            this.device()
                .compress(&this.queue, 1, &this.fields, this.stage.0, this.report.0 as u64)
                .unwrap()
        });
        let decompress = self.median(repeats, |this| {
            let report = this.report.0 as u64;
            this.device()
                .decompress(
                    &this.queue,
                    Record::Part(0),
                    (this.stage.0, bytes),
                    &this.fields,
                    report,
                )
                .unwrap()
        });
        assert_eq!(self.finish().unwrap(), [0; 2]);
        let copy = self.median(repeats, |this| {
            ok!(cuMemcpyDtoDAsync_v2(copies[0].0, copies[1].0, raw, this.stream.0))
        });
        ([compress, decompress, copy], bytes)
    }

    /// The median time in seconds of `body` on the stream, after one run that is not timed.
    fn median(&mut self, repeats: usize, mut body: impl FnMut(&mut Self)) -> f64 {
        body(self);
        let on = self.stream.0;
        let mut seconds: Vec<f64> =
            (0..repeats).map(|_| Pair::around(on, || body(self)).seconds()).collect();
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    }

    /// Checks the guards around the fields.
    fn check_guards(&self) {
        for (field, &at) in self.layout.fields.iter().zip(&self.fields) {
            for from in [at - GUARD as u64, at + field.bytes().unwrap()] {
                let mut guard = [0u8; GUARD];
                ok!(cuMemcpyAsync(guard.as_mut_ptr() as u64, from, GUARD, self.stream.0));
                ok!(cuStreamSynchronize(self.stream.0));
                assert_eq!(guard, [0xA5; GUARD], "written where no field is");
            }
        }
    }

    /// The fields that the host decodes from a stream.
    pub fn host_read(&mut self, stream: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.host_read_records(&[(Record::Part(0), stream)])
    }

    /// The fields after the host has decoded these records, one after the other.
    fn host_read_records(&mut self, records: &[(Record, &[u8])]) -> Result<Vec<Vec<u8>>> {
        let mut back: Vec<Vec<u8>> =
            self.layout.fields.iter().map(|f| vec![0xA5; f.bytes().unwrap() as usize]).collect();
        let memory = Self::memory(&mut back);
        for &(record, stream) in records {
            // SAFETY: `memory` has the fields of the layout, and `back` outlives the call.
            unsafe { self.host.decompress_record(record, stream, &memory) }?;
        }
        Ok(back)
    }

    /// Damages the payload of a stream of one array, as `time` and `draw` say, makes the checksum right
    /// again, and checks that the stream `survives`. Returns whether it was accepted.
    pub fn survives_damage(&mut self, stream: &[u8], time: usize, draw: &mut Draw) -> bool {
        let (mut bad, (mut header, ..)) = (stream.to_vec(), Header::open(stream).unwrap());
        for _ in 0..1 + time % 3 {
            // Change a byte near the beginning, near the end, or anywhere.
            let near = [28, header.payload, header.payload][time % 3].min(header.payload);
            let at = draw.bits() as usize % near;
            let at = if time % 3 == 1 { header.payload - 1 - at.min(40) } else { at };
            bad[64 + at] = if draw.bits() & 8 == 0 {
                (draw.bits() >> 30) as u8
            } else {
                bad[64 + at] ^ 1 << (draw.bits() >> 40 & 7)
            };
        }
        if time % 8 == 7 {
            header.payload = draw.bits() as usize % header.payload;
        }
        if time % 8 == 3 {
            // Write 0 or 1 into a range of bits: zeros are very large numbers in unary, ones are many
            // small numbers.
            let begin = draw.bits() as usize % header.payload;
            let end = (begin + (1 << ((draw.bits() >> 33) % 15))).min(header.payload);
            bad[64 + begin..64 + end].fill([0, 0xFF][time / 8 % 2]);
        }
        let bytes = header.seal(&mut bad);
        self.survives(&bad[..bytes], time % 2 == 0)
    }

    /// Checks that the device, decoding a stream that may be damaged, touches only the stream and
    /// the fields; that it refuses the stream exactly if the host does; and that both decode the
    /// same values. Returns whether the stream was accepted. `low` puts the memory at the beginning
    /// of the accessible pages instead of their end.
    pub fn survives(&mut self, stream: &[u8], low: bool) -> bool {
        let mut from = Locked::new(stream.len(), low);
        from.slice().copy_from_slice(stream);
        let bytes = self.layout.fields.iter().map(|f| f.bytes().unwrap() as usize);
        let mut fields: Vec<Locked> = bytes.map(|bytes| Locked::new(bytes, low)).collect();
        fields.iter_mut().for_each(|f| f.slice().fill(0xA5));
        let places: Vec<u64> = fields.iter_mut().map(|f| f.slice().as_ptr() as u64).collect();
        self.device()
            .decompress(
                &self.queue,
                Record::Part(0),
                (from.slice().as_ptr() as u64, stream.len() as u64),
                &places,
                self.report.0 as u64,
            )
            .unwrap();
        let read = self.finish();
        let expected = self.host_read(stream);
        if let (Ok(_), Ok(expected)) = (&read, &expected) {
            for ((field, expected), of) in fields.iter_mut().zip(expected).zip(&self.layout.fields)
            {
                assert!(
                    same(field.slice(), expected, of.scalar),
                    "other values from a damaged stream: {:?}",
                    self.layout.fields
                );
            }
        }
        assert!(
            read.is_ok() == expected.is_ok(),
            "one refuses a stream: {read:?}, {:?}",
            expected.map(|_| ())
        );
        read.is_ok()
    }

    /// Checks that host and device decode each other's streams of the same fields within the
    /// bounds. With `strict` both must also make the same decisions and decode the same values.
    /// Returns how many arrays are coded.
    pub fn exchange(&mut self, kind: Kind, seed: u64, strict: bool) -> usize {
        let mut fields = self.host_fields(kind, seed);
        let what =
            format!("{:?} of {:?}, {kind:?}, seed {seed}", self.settings, self.layout.fields);
        let mut theirs = vec![0xA5; self.room];
        let memory = Self::memory(&mut fields);
        // SAFETY: `memory` has the fields of the layout, and `fields` outlives the call.
        let bytes = unsafe { self.host.compress(&memory, &mut theirs) }.unwrap();
        theirs.truncate(bytes);
        let ours = self.make(&fields);
        let mut back = Vec::new();
        for stream in [&ours, &theirs] {
            let (on_host, on_device) =
                (self.host_read(stream).unwrap(), self.read(stream).unwrap());
            for ((a, b), of) in on_host.iter().zip(&on_device).zip(&self.layout.fields) {
                assert!(
                    same(a, b, of.scalar),
                    "{what}: host and device decode one stream to other values"
                );
            }
            self.check_bounds(&what, stream, &fields, &on_host);
            back.push(on_host);
        }
        let (ours, theirs) = (headers(&ours), headers(&theirs));
        if strict {
            let decisions = |headers: &[Header]| {
                headers.iter().map(|h| (h.field, h.content as u8, h.reference)).collect::<Vec<_>>()
            };
            assert_eq!(decisions(&ours), decisions(&theirs), "{what}");
            for ((a, b), of) in back[0].iter().zip(&back[1]).zip(&self.layout.fields) {
                assert!(same(a, b, of.scalar), "{what}: host and device make other values");
            }
        }
        for (a, b) in ours.iter().zip(&theirs) {
            assert!(
                a.reference != b.reference || (a.bound - b.bound).abs() <= 1e-12 * b.bound,
                "{what}: {} and {}",
                a.bound,
                b.bound
            );
        }
        ours.iter().filter(|header| header.content == Content::Coded).count()
    }

    /// Checks that the values of every array of a stream came back within the bound of the array's
    /// header, and that values which are not finite came back bit for bit.
    fn check_bounds(&self, what: &str, stream: &[u8], fields: &[Vec<u8>], back: &[Vec<u8>]) {
        for header in headers(stream) {
            let numbers = |of: &[u8]| numbers(of, header.shape.scalar);
            let of = |all: &[Vec<u8>]| {
                let values = numbers(&all[header.field as usize]);
                match header.reference {
                    Some(later) => numbers(&all[later as usize])
                        .iter()
                        .zip(values)
                        .map(|(later, x)| later - x)
                        .collect(),
                    None => values,
                }
            };
            let (x, y) = (of(fields), of(back));
            let slack =
                x.iter().filter(|x| x.is_finite()).fold(0f64, |max, x| max.max(x.abs())) * 1e-15;
            let errors: Vec<f64> = x
                .iter()
                .zip(&y)
                .map(|(x, y)| if x.is_finite() { (x - y).abs() } else { 0.0 })
                .collect();
            let exact = x.iter().zip(&y).all(|(x, y)| x.is_finite() || x.to_bits() == y.to_bits());
            let error = match self.settings.bound {
                ErrorBound::Psnr(_) => {
                    let most =
                        errors.iter().fold(f64::MIN_POSITIVE, |most, &error| most.max(error));
                    most * (errors.iter().map(|error| (error / most).powi(2)).sum::<f64>()
                        / errors.len() as f64)
                        .sqrt()
                }
                _ => errors.iter().fold(0.0, |most, &error| error.max(most)),
            };
            assert!(
                exact && error <= header.bound * (1.0 + 1e-12) + slack,
                "{what}: off by {error}, not {}",
                header.bound
            );
        }
    }

    /// Checks that host and device make the same records of part 0 alone and of both parts, decode the
    /// parts and the record of part 0 as the previous level of a state to the same values, and refuse
    /// a record of the other part.
    pub fn check_records(&mut self, kind: Kind, seed: u64) {
        let mut fields = self.host_fields(kind, seed);
        let what =
            format!("{:?} of {:?}, {kind:?}, seed {seed}", self.settings, self.layout.fields);
        let mut made = Vec::new();
        for parts in [1, 2] {
            let mut to = vec![0xA5; self.room];
            let memory = Self::memory(&mut fields);
            // SAFETY: `memory` has the fields of the layout, and `fields` outlives the call.
            let bytes = unsafe { self.host.compress_parts(0..parts, &memory, &mut to) }.unwrap();
            let on_host = [0, 1].map(|part| to[self.host.begin(part)..][..bytes[part]].to_vec());
            let on_device = self.make_parts(parts, &fields);
            assert!(on_device == on_host, "{what}: other records of {parts} parts");
            made.push(on_host);
        }
        let (alone, [own, previous]) = (&made[0][0], &made[1]);
        for records in [
            [(Record::Part(0), &own[..]), (Record::Part(1), &previous[..])],
            [(Record::Part(0), &alone[..]), (Record::AsPrevious, &own[..])],
        ] {
            let read = self.read_records(&records).unwrap();
            let back = self.host_read_records(&records).unwrap();
            for ((a, b), of) in read.iter().zip(&back).zip(&self.layout.fields) {
                assert!(same(a, b, of.scalar), "{what}: {:?}: other values", records[1].0);
            }
        }
        for wrong in [(Record::Part(0), &previous[..]), (Record::Part(1), &own[..])] {
            assert!(self.read_records(&[wrong]).is_err(), "{what}: {:?} is accepted", wrong.0);
        }
    }

    /// Checks that host and device make the same stream of the same fields, and decode the stream
    /// to the same values. Returns the stream.
    pub fn check(&mut self, kind: Kind, seed: u64) -> Vec<u8> {
        let fields = self.host_fields(kind, seed);
        self.compare(&format!("{kind:?}, seed {seed}"), fields)
    }

    /// Checks as `check` does, and then that the device makes the same stream and decodes the same
    /// values `times` times. Returns the stream and its FNV-1a hash.
    pub fn repeats(&mut self, kind: Kind, seed: u64, times: u32) -> (Vec<u8>, u64) {
        let stream = self.check(kind, seed);
        let fields = self.host_fields(kind, seed);
        let first = self.read(&stream).unwrap();
        for time in 0..times {
            let what = || format!("{:?} of {:?}, time {time}", self.settings, self.layout.fields);
            assert!(self.make(&fields) == stream, "{}: another stream", what());
            assert!(self.read(&stream).unwrap() == first, "{}: other values", what());
        }
        let hash = fnv(&stream);
        (stream, hash)
    }

    /// Does the work of `check` for these fields.
    pub fn compare(&mut self, what: &str, mut fields: Vec<Vec<u8>>) -> Vec<u8> {
        let what = format!("{:?} of {:?}, {what}", self.settings, self.layout.fields);
        let mut expected = vec![0xA5; self.room];
        let memory = Self::memory(&mut fields);
        // SAFETY: `memory` has the fields of the layout, and `fields` outlives the call.
        let bytes = unsafe { self.host.compress(&memory, &mut expected) }.unwrap();
        expected.truncate(bytes);
        let stream = self.make(&fields);
        if stream != expected {
            let at = stream.iter().zip(&expected).position(|(a, b)| a != b);
            panic!(
                "{what}: {} bytes where the host has {}, the first other one is {at:?}",
                stream.len(),
                expected.len()
            );
        }
        let back = self.host_read(&expected).unwrap();
        let read = self.read(&stream).unwrap();
        for (i, (read, back)) in read.iter().zip(&back).enumerate() {
            // The processor chooses the bits of a NaN that a subtraction makes, so that only being
            // a NaN is compared.
            assert!(
                same(read, back, self.layout.fields[i].scalar),
                "{what}: field {i} is decoded to other values"
            );
        }
        stream
    }
}

/// The headers of a snapshot.
fn headers(mut stream: &[u8]) -> Vec<Header> {
    let mut headers = Vec::new();
    while !stream.is_empty() {
        let (header, _, bytes) = Header::open(stream).unwrap();
        headers.push(header);
        stream = &stream[bytes..];
    }
    headers
}

fn numbers(bytes: &[u8], scalar: Scalar) -> Vec<f64> {
    match scalar {
        Scalar::F32 => bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b).into()).collect(),
        Scalar::F64 => bytes.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect(),
        other => panic!("{}: codecs have no such values", other.name()),
    }
}

/// Guarded memory that is page-locked, so that the software driver knows it when it interprets
/// kernels.
struct Locked {
    room: Guarded,
    /// Where the memory begins in the room.
    first: usize,
    bytes: usize,
}

impl Locked {
    /// Makes memory of `bytes` bytes at the end of the accessible pages, or with `low` at their
    /// beginning.
    fn new(bytes: usize, low: bool) -> Self {
        let mut room = Guarded::new(bytes);
        let first = if low { 0 } else { room.all().len() - bytes };
        let mut memory = Locked { room, first, bytes };
        ok!(cuMemHostRegister_v2(memory.slice().as_mut_ptr().cast(), bytes, 0));
        memory
    }

    fn slice(&mut self) -> &mut [u8] {
        &mut self.room.all()[self.first..][..self.bytes]
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        ok!(cuMemHostUnregister(self.slice().as_mut_ptr().cast()));
    }
}

fn same(a: &[u8], b: &[u8], scalar: Scalar) -> bool {
    match scalar {
        Scalar::F32 => a.as_chunks::<4>().0.iter().zip(b.as_chunks::<4>().0).all(|(&a, &b)| {
            a == b || f32::from_le_bytes(a).is_nan() && f32::from_le_bytes(b).is_nan()
        }),
        Scalar::F64 => a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0).all(|(&a, &b)| {
            a == b || f64::from_le_bytes(a).is_nan() && f64::from_le_bytes(b).is_nan()
        }),
        _ => a == b,
    }
}
